#!/usr/bin/python3
"""The handler `exec`, with real children: hostile payloads do not change what runs, and children that do not behave come to an end."""

import json
import os
import signal
import sys

import handled
import served

checks = served.Checks()

# Prints exactly what it was given.
SHOW = """#!/usr/bin/python3 -I
import json, os, sys
fds = sorted(int(n) for n in os.listdir("/proc/self/fd"))
print(json.dumps({"argv": sys.argv[1:], "stdin": sys.stdin.read(), "env": dict(os.environ), "fds": fds, "cwd": os.getcwd(),
                  "uid": os.getuid(), "groups": os.getgroups()}))
"""

# $1: how to misbehave. What is left of it writes to a file while it lives.
BAD = """#!/bin/bash
echo "begins $1" >&2
case $1 in
    deaf) trap '' TERM; echo $$ >"$OUT/deaf"; while :; do sleep 60 & wait; done ;;
    polite) trap 'echo "says goodbye" >&2; exit 0' TERM; echo $$ >"$OUT/polite"; sleep 60 & wait ;;
    away) setsid bash -c 'trap "" TERM; echo $$ >"$OUT/away"; exec sleep 300' & while [ ! -s "$OUT/away" ]; do :; done; exit 0 ;;
    nest) setsid bash -c 'setsid bash -c "echo \\$\\$ >$OUT/nest; exec sleep 300" & sleep 300' & while [ ! -s "$OUT/nest" ]; do :; done; sleep 300 ;;
    flood) yes "much too much" | head -c 20000000; echo "end" >&2 ;;
    long) head -c 300000 /dev/zero | tr '\\0' x; echo; printf 'bin\\0\\377\\376ary\\033[31m\\n' ;;
    shut) exec 0<&-; echo "has shut its input"; ;;
    spin) while :; do :; done ;;
    big) exec head -c 3000000 /dev/zero >"$OUT/big" ;;
    eat) exec python3 -c 'x = bytearray(400 << 20)' ;;
    65) echo "it is broken" >&2; exit 65 ;;
    75) if [ "$PAWL_TASK_ATTEMPT" = 1 ] && [ ! -e "$OUT/snoozed" ]; then touch "$OUT/snoozed"; exit 75; fi ;;
    3) exit 3 ;;
    abort) kill -ABRT $$ ;;
esac
"""

FILE = """
[handler show]
kind = exec
command = {folder}/show
argument = first
argument = {text}
argument = --name={name}
argument = {{literal}} {text:any}
argument = {number:int}
argument = {size:small|large}
argument = --maybe={maybe?}
argument = {many...}
argument = {deep.er:word}
argument = "  "
output = result
env = OUT={folder}
env = SPACE=a b = c
pass-env = HANDED_ON

[handler any]
kind = exec
type = any.one, any.two
command = {folder}/show
argument = {value:any}
output = result
directory = {folder}

[handler path]
kind = exec
command = {folder}/show
argument = {file:path}
output = result

[handler bad]
kind = exec
command = {folder}/bad
argument = {how}
env = OUT={folder}
kill-after = 400ms
output-max = 100K
snooze = 1ms
retry-delay = 1ms
limit-cpu = 1s
limit-file-size = 1M
limit-memory = 300M

[handler plain]
kind = exec
command = /bin/cat
output = result

[handler shell]
kind = exec
command = /bin/echo
argument = {text}

[handler other]
kind = exec
command = {folder}/show
user = nobody
output = result

[handler locked]
kind = exec
command = /bin/bash
argument = -c
argument = cat /etc/hostname >/dev/null && echo reads; echo x >{folder}/in/x && echo writes; echo x >{folder}/out && echo escapes; kill -0 $PPID && echo signals; exit 0
read = /usr, /bin, /lib, /lib64, /etc, {folder}/in
write = {folder}/in
"""


def payload(**changed):
    return {"text": "plain", "name": "n", "number": 5, "size": "small", "many": [], "deep": {"er": "w"}, **changed}


def result(server, task):
    task = server.ended(task)
    if task["state"] != "succeeded":
        raise AssertionError(f"it did not succeed: {task}")
    return task["result"]


def shown(server, kind, values):
    return result(server, server.add(kind, values))


def refused(server, kind, values, why):
    task = server.ended(server.add(kind, values))
    checks.that(f"{values!r} is refused: {why}", task["state"] == "failed" and task["code"] == "bad_payload" and why in task["error"]
                and len(task["attempts"]) == 1, task)


def check_arguments(server):
    got = shown(server, "show", payload())
    checks.equal("arguments", got["argv"], ["first", "plain", "--name=n", "{literal} plain", "5", "small", "w", "  "])
    checks.equal("the payload is on standard input", json.loads(got["stdin"]), payload())
    checks.equal("no descriptors but the standard ones", [fd for fd in got["fds"] if fd > 3], [])
    checks.equal("it runs in /", got["cwd"], "/")
    wanted = {"OUT": server.folder, "SPACE": "a b = c", "HANDED_ON": "yes", "LANG": "C.UTF-8", "PATH": "/usr/local/bin:/usr/bin:/bin"}
    checks.equal("a clean environment", {k: v for k, v in got["env"].items() if not k.startswith("PAWL_TASK_") and k != "LC_CTYPE"}, wanted)
    checks.equal("what it is told of the task", sorted(k for k in got["env"] if k.startswith("PAWL_TASK_")),
                 ["PAWL_TASK_" + k for k in ("ATTEMPT", "FENCE", "ID", "KEY", "QUEUE", "TYPE")])
    nasty = ["$(touch /tmp/owned)", "`id`", "; rm -rf /", "a b\tc", "two\nlines", "'\"\\", "*", "~", "| cat", "&& false", ">x", "é€😀", "x" * 3000, "{text}", ""]
    tasks = [server.add("show", payload(text=text, name=text, many=[text, text])) for text in nasty]
    for text, task in zip(nasty, tasks):
        got = result(server, task)
        checks.equal(f"{text[:40]!r} is one argument", got["argv"],
                     ["first", text, "--name=" + text, "{literal} " + text, "5", "small", text, text, "w", "  "])
    got = shown(server, "show", payload(name="--x", maybe="--y", number=12345678901))
    checks.equal("behind text of the section anything may stand", got["argv"][2:7], ["--name=--x", "{literal} plain", "12345678901", "small", "--maybe=--y"])
    checks.equal("any may begin with a dash", shown(server, "any.two", {"value": "-rf"})["argv"], ["-rf"])
    checks.equal("and runs where the section says", shown(server, "any.one", {"value": "x"})["cwd"], server.folder)
    checks.equal("a path", shown(server, "path", {"file": "a/b.txt"})["argv"], ["a/b.txt"])


def check_refused(server):
    refused(server, "show", payload(text="-rf"), 'begins with "-"')
    refused(server, "show", payload(many=["ok", "--exec=sh"]), 'begins with "-"')
    refused(server, "show", payload(number=-5), 'begins with "-"')
    refused(server, "show", payload(text="a\0b"), "NUL")
    refused(server, "show", payload(number="5; id"), "whole number")
    refused(server, "show", payload(number=1.5), "whole number")
    refused(server, "show", payload(size="medium"), "none of small|large")
    refused(server, "show", payload(deep={"er": "a b"}), "not a word")
    refused(server, "show", payload(deep={}), "is missing")
    refused(server, "show", payload(text={"a": 1}), "neither text")
    refused(server, "show", payload(many="x"), "not an array")
    refused(server, "show", payload(text="x" * 70000), "too long")
    refused(server, "show", payload(many=["x" * 60000] * 10), "too long")
    refused(server, "show", "text", "is missing")
    refused(server, "show", None, "is missing")
    for path in ("/etc/passwd", "../x", "a/../../x", "a//b", "a/", "", "-x"):
        refused(server, "path", {"file": path}, '"')
    added = server.post("/v1/tasks", {"type": "plain", "payload_base64": "AP8=", "content_type": "application/x-bytes"})
    task = server.ended(added.json["id"])
    checks.equal("a payload of any bytes, if no argument needs it", task.get("result_base64"), "AP8=")


def alive(pid):
    try:
        with open(f"/proc/{pid}/stat", encoding="utf-8", errors="replace") as file:
            return file.read().rsplit(")", 1)[1].split()[0] != "Z"
    except (FileNotFoundError, ProcessLookupError):
        return False


def pid_of(server, name):
    path = os.path.join(server.folder, name)
    served.until(f"{name} runs", lambda: os.path.exists(path) and os.path.getsize(path))
    with open(path, encoding="utf-8") as file:
        pid = int(file.read())
    os.remove(path)
    return pid


def check_children(server):
    task = server.add("bad", {"how": "deaf"})
    pid = pid_of(server, "deaf")
    server.post(f"/v1/tasks/{task}/cancel")
    checks.equal("who ignores SIGTERM is killed", server.ended(task)["state"], "cancelled")
    checks.that("and gone", not alive(pid))

    task = server.ended(server.add("bad", {"how": "deaf"}, timeout_us=1500000, max_attempts=1))
    checks.that("a timeout kills", task["state"] == "failed" and "timed out" in task["error"], task)
    checks.that("and all of it", not alive(pid_of(server, "deaf")))

    task = server.add("bad", {"how": "polite"})
    pid_of(server, "polite")
    server.post(f"/v1/tasks/{task}/cancel")
    server.ended(task)
    checks.that("SIGTERM comes first", "says goodbye" in server.log(task), server.log(task))

    task = server.ended(server.add("bad", {"how": "away"}))
    checks.equal("who leaves a process in a session of its own succeeds", task["state"], "succeeded")
    checks.that("and it is gone", not alive(pid_of(server, "away")))

    task = server.add("bad", {"how": "nest"})
    pid = pid_of(server, "nest")
    server.post(f"/v1/tasks/{task}/cancel")
    server.ended(task)
    checks.that("grandchildren in sessions of their own are gone", not alive(pid))


def check_output(server):
    task = server.ended(server.add("bad", {"how": "flood"}))
    log = server.log(task["id"])
    checks.that("a flood of output ends well", task["state"] == "succeeded", task)
    checks.that("and is cut", sum(map(len, log)) < 110000 and any("left out" in line or "1000" in line for line in log), log[-2:])
    task = server.ended(server.add("bad", {"how": "long"}))
    log = server.log(task["id"])
    checks.that("a long line is split, and cut", task["state"] == "succeeded" and all(len(line) <= 4096 for line in log), task)
    task = server.ended(server.add("bad", {"how": "shut", "more": "x" * 500000}))
    checks.that("who shuts its input is no problem", task["state"] == "succeeded" and "has shut its input" in server.log(task["id"]), task)


def check_ends(server):
    task = server.ended(server.add("bad", {"how": "65"}))
    checks.that("65 fails for good", task["code"] == "exit_65" and len(task["attempts"]) == 1 and "it is broken" in task["error"], task)
    task = server.ended(server.add("bad", {"how": "75"}))
    checks.that("75 is snoozed", task["state"] == "succeeded" and [a["outcome"] for a in task["attempts"]] == ["snoozed", "succeeded"], task)
    task = server.ended(server.add("bad", {"how": "3"}))
    checks.that("anything else is tried three times", task["code"] == "exit_3" and len(task["attempts"]) == 3, task)
    task = server.ended(server.add("bad", {"how": "abort"}, max_attempts=1))
    checks.equal("a signal", task["code"], "signal_ABRT")


def check_limits(server):
    task = server.ended(server.add("bad", {"how": "spin"}, max_attempts=1))
    checks.equal("processor time is limited", task["code"], "signal_XCPU")
    task = server.ended(server.add("bad", {"how": "big"}, max_attempts=1))
    checks.that("files are limited", task["state"] == "failed" and os.path.getsize(os.path.join(server.folder, "big")) == 1 << 20, task)
    task = server.ended(server.add("bad", {"how": "eat"}, max_attempts=1))
    checks.that("memory is limited", task["state"] == "failed" and any("MemoryError" in line for line in server.log(task["id"])), task)
    if os.getuid() == 0:
        got = shown(server, "other", {})
        checks.that("it runs as another user", got["uid"] == 65534 and 0 not in got["groups"], got)
    task = server.ended(server.add("locked", {}))
    lines = server.log(task["id"])
    checks.that("reads what it may", "reads" in lines, lines)
    checks.that("writes where it may", "writes" in lines, lines)
    if LANDLOCK:
        checks.that("and nowhere else", "escapes" not in lines and any("Permission denied" in line for line in lines), lines)
        checks.that("signals nobody", LANDLOCK < 6 or "signals" not in lines, lines)


def landlock():
    import ctypes
    return ctypes.CDLL(None, use_errno=True).syscall(444, None, 0, 1)


def check_kill(server):
    """The server is killed: so is what it ran, wherever it went. Another start takes the tasks over."""
    task = server.add("bad", {"how": "nest"})
    pid = pid_of(server, "nest")
    server.process.kill()
    served.until("the command is gone", lambda: not alive(pid))
    server.start_again()
    pid = pid_of(server, "nest")
    checks.that("it runs again", alive(pid))
    server.process.send_signal(signal.SIGTERM)
    server.wait_line("stopping")
    server.process.send_signal(signal.SIGTERM)
    server.process.wait(served.PATIENCE)
    checks.that("a second signal ends it", not alive(pid))
    server.start_again()
    pid = pid_of(server, "nest")
    checks.equal("what was interrupted cost no attempt", server.state(task)["failures"], 0)
    server.post(f"/v1/tasks/{task}/cancel")
    checks.equal("cancelled in the end", server.ended(task)["state"], "cancelled")


LANDLOCK = max(landlock(), 0)


def main():
    server = handled.Handled(FILE, environment={"HANDED_ON": "yes", "SECRET": "kept"})
    os.chmod(server.folder, 0o755)
    handled.write(server.folder, "show", SHOW, 0o755)
    handled.write(server.folder, "bad", BAD, 0o755)
    os.mkdir(os.path.join(server.folder, "in"))
    with server:
        check_arguments(server)
        check_refused(server)
        check_children(server)
        check_output(server)
        check_ends(server)
        check_limits(server)
        check_kill(server)
    return checks.end()


sys.exit(main())
