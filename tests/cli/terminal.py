#!/usr/bin/env python3
"""What people see on a terminal: widths, colours, live progress. Runs the binary on a pty of a chosen size."""
import fcntl, os, pty, re, select, shutil, signal, struct, subprocess, sys, tempfile, termios, time

BIN = os.environ["PAWL_BIN"]
ESCAPE = re.compile(rb"\033\[[0-9;]*[A-Za-z]")
checks = failures = 0


def check(what, good, *details):
    global checks, failures
    checks += 1
    failures += not good
    print(("ok" if good else "not ok"), checks, "-", what)
    for detail in () if good else details:
        print("#  ", repr(detail))


def terminal(*args, columns=80, env=None, until=None, send=signal.SIGINT):
    """Runs the command on a pty and returns (exit status, bytes). `until`: send a signal once these bytes were seen."""
    master, slave = pty.openpty()
    fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", 50, columns, 0, 0))
    child = subprocess.Popen([BIN, *args], stdin=slave, stdout=slave, stderr=slave, env={**os.environ, **(env or {})}, start_new_session=True)
    os.close(slave)
    seen, deadline = b"", time.monotonic() + 60
    while time.monotonic() < deadline:
        if select.select([master], [], [], 1)[0]:
            try:
                block = os.read(master, 65536)
            except OSError:
                break
            if not block:
                break
            seen += block
        if until and re.search(until, seen):
            child.send_signal(send)
            until = None
    else:
        child.kill()
    os.close(master)
    return child.wait(), seen


def pipe(*args, env=None):
    return subprocess.run([BIN, *args], stdout=subprocess.PIPE, stderr=subprocess.PIPE, env={**os.environ, **(env or {})})


def lines(seen):
    return [line.decode() for line in ESCAPE.sub(b"", seen).replace(b"\r", b"").split(b"\n")]


def widest(seen):
    return max(len(line) for line in lines(seen))


def enqueue(*args):
    return pipe("enqueue", *args).stdout.decode().strip()


def lists():
    long = "a.type.with.a.rather.long.name.that.goes.on.and.on"
    enqueue("--type", long, "--queue", "a-queue-with-a-long-name-too", "--key", "k" * 120)
    enqueue("--type", "naïve.ünïcode.漢字漢字漢字漢字漢字漢字", "--key", "é" * 80)
    enqueue("--type", "later", "--delay", "1h")
    for columns in (30, 45, 60, 80, 120, 200):
        code, seen = terminal("tasks", "list", columns=columns)
        check(f"{columns} columns: nothing is wider", code == 0 and widest(seen) <= columns, code, widest(seen), seen)
    code, seen = terminal("tasks", "list", columns=60)
    check("what does not fit is marked", "…" in "".join(lines(seen)), seen)
    code, seen = terminal("tasks", "list", columns=60, env={"LC_ALL": "C", "LANG": ""})
    check("in plain letters where the terminal has no others", "..." in "".join(lines(seen)), seen)
    check("colours on a terminal", b"\033[34mscheduled" in seen, seen)
    for name, args, env in (("NO_COLOR", (), {"NO_COLOR": "1"}), ("--no-color", ("--no-color",), {}), ("TERM=dumb", (), {"TERM": "dumb"})):
        code, seen = terminal("tasks", "list", *args, env=env)
        check(f"no colours with {name}", code == 0 and b"\033[" not in seen, seen)
    piped = pipe("tasks", "list")
    check("no colours and no cutting in a pipe", b"\033" not in piped.stdout and long.encode() in piped.stdout, piped.stdout)
    check("columns are aligned in a pipe", len({line.index("TYPE") if "TYPE" in line else None for line in piped.stdout.decode().split("\n")[:1]}) == 1)
    code, seen = terminal("tasks", "list", "--json", columns=60)
    check("JSON on a terminal is indented and has no colours", b'\r\n  "tasks": [' in seen and b"\033" not in seen, seen[:200])
    code, seen = terminal("tasks", "list", "--limit", "1")
    check("says that there are more", b"there are more: --cursor" in seen, seen)


def helps():
    code, seen = terminal("help", "enqueue", columns=70)
    check("help is wrapped to the terminal", code == 0 and widest(seen) <= 70 + 4, widest(seen))


def shows():
    task = enqueue("--type", "show.me", "--queue", "shown", "--payload", '{"deep":[1,2,3]}')
    terminal("work", "--once", "--queue", "shown", "--", "sh", "-c", "echo 'a line' >&2; exit 65")
    code, seen = terminal("tasks", "show", task, "--log", "--audit", columns=90)
    text = "\n".join(lines(seen))
    check("show has it all", all(part in text for part in ("failed", "exit_65", '{"deep":[1,2,3]}', "a line", "Attempts", "Audit")), text)
    check("failed is red", b"\033[31mfailed" in seen, seen)
    for args in (("queues", "list"), ("stats",), ("nodes", "--all"), ("dead", "list"), ("tasks", "show", task)):
        code, seen = terminal(*args, columns=70)
        check("fits: " + " ".join(args[:2]), code == 0 and widest(seen) <= 70, widest(seen), seen)


def works():
    enqueue("--type", "shown.run", "--queue", "live")
    code, seen = terminal("work", "--queue", "live", "--", "true", columns=70, until=rb"succeeded")
    check("work shows runs and ends with Ctrl-C", code == 0 and b"stopping: 0 running tasks have" in seen, code, seen)
    check("its lines fit", max(len(line) for line in lines(seen) if "succeeded" in line) <= 70, seen)


def demos():
    code, seen = terminal("demo", "--store", "sqlite:demo.db", columns=100, until=rb"Last events[\s\S]*Last events[\s\S]*succeeded")
    text = "\n".join(lines(seen))
    check("the demo ends well with Ctrl-C", code == 0, code, text[-500:])
    check("it draws in place", b"\033[K" in seen and re.search(rb"\033\[\d+A", seen) is not None)
    check("it says what to type", "tasks why" in text and "dead list" in text and "export PAWL_STORE=sqlite:demo.db" in text)
    drawn = [line for line in seen.split(b"\n") if b"\033[K" in line]
    check("nothing that is drawn in place wraps", len(drawn) > 20 and max(map(widest, drawn)) <= 100, drawn)


def benches():
    code, seen = terminal("bench", "--tasks", "2000", "--store", "sqlite:bench.db", columns=100)
    check("bench for people", code == 0 and b"tasks/s" in seen and b"lost: \033[32m0" in seen, seen)
    with open("lines.ndjson", "w") as out:
        out.writelines('{"type":"x"}\n' for _ in range(3000))
    code, seen = terminal("enqueue", "--bulk", "lines.ndjson")
    check("bulk cleans up its progress", code == 0 and seen.split(b"\033[K")[-1].startswith(b"3,000 tasks in"), seen)


def main():
    where = tempfile.mkdtemp()
    os.chdir(where)
    for name in ("NO_COLOR", "DATABASE_URL"):
        os.environ.pop(name, None)
    os.environ.update(PAWL_STORE=f"sqlite:{where}/pawl.db", LC_ALL="C.UTF-8", TERM="xterm-256color", TZ="UTC")
    try:
        for part in (lists, helps, shows, works, demos, benches):
            part()
    finally:
        os.chdir("/")
        shutil.rmtree(where)
    print(f"1..{checks}")
    sys.exit(1 if failures or not checks else 0)


main()
