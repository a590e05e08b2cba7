#!/usr/bin/python3
"""The handler `import`: rows of files become tasks, each good one exactly one, whatever the file holds and whoever is killed.

    import.py                       hostile files, and 20,000 rows with kills
    import.py --rows N --kills K    only the kills; says how much memory the server had at most
    import.py postgres|mysql        the kills, on a database server
"""

import argparse
import contextlib
import csv
import io
import json
import os
import random
import subprocess
import sys
import time

import handled
import served

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "process"))

import proc  # noqa: E402
import servers  # noqa: E402

checks = served.Checks()

FILE = """
[handler load]
kind = import
directory = {folder}/in
task-type = row
task-queue = rows
needed = id
retry-delay = 1ms
chunk = 500

[handler typed]
kind = import
directory = {folder}/in
task-type = typed.row
task-queue = rows
task-key = row-{id}
columns = id:int, amount:number, active:bool
chunk = 2

[handler bare]
kind = import
directory = {folder}/in
task-type = bare.row
task-queue = rows
format = csv
separator = ;
no-header = true
columns = a, b:int
errors-max = 2
row-max = 100
chunk = 3
"""


def put(server, name, data):
    path = os.path.join(server.folder, "in", name)
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "wb") as file:
        file.write(data if isinstance(data, bytes) else data.encode())
    return path


def finished(server, first):
    """The last link of an import: the one with its result, or that failed."""
    task = server.ended(first)
    while "next" in task.get("result", {}):
        task = server.ended(task["result"]["next"])
    return task


def rows_of(server, kind):
    found, cursor = [], ""
    while True:
        page = server.get(f"/v1/tasks?type={kind}&limit=1000" + (f"&cursor={cursor}" if cursor else "")).json
        found += page["tasks"]
        cursor = page.get("next")
        if not cursor:
            return found


def payloads(server, first, kind):
    rows = [task for task in rows_of(server, kind) if task.get("created_by") == f"import:{first}"]
    return [server.state(task["id"])["payload"] for task in reversed(rows)]


def load(server, name, data, handler="load", kind="row"):
    put(server, name, data)
    first = server.add(handler, {"file": name})
    task = finished(server, first)
    return task, payloads(server, first, kind)


def check_csv(server):
    wanted = [{"id": "1", "text": 'say "hi", twice'}, {"id": "2", "text": "two\nlines\r\nand more"}, {"id": "3", "text": ""},
              {"id": "4", "text": "é€😀 , ; '"}, {"id": "5", "text": " spaces "}]
    out = io.StringIO()
    writer = csv.DictWriter(out, ["id", "text"], lineterminator="\r\n")
    writer.writeheader()
    writer.writerows(wanted)
    task, rows = load(server, "a.csv", b"\xef\xbb\xbf" + out.getvalue().encode())
    checks.equal("CSV with a mark, CRLF, quotes and line ends in fields", rows, wanted)
    checks.that("its result", task["result"]["rows"] == 5 and task["result"]["bad"] == 0 and task["result"]["errors"] == [], task)
    _, rows = load(server, "b.csv", "id,text\n1,a\n\n\n2,b")
    checks.equal("LF, empty lines, no line end at the end", [row["id"] for row in rows], ["1", "2"])
    _, rows = load(server, "c.csv", 'id,text\r\n"1","a\rb"\r\n2,x\ry\r\n')
    checks.equal("a CR alone is text", [row["text"] for row in rows], ["a\rb", "x\ry"])
    bad = 'id,text\n1,a\n2\n3,"x"y\n4,a"b\n5,b\n,c\n6,a,b\n7,\xff\n8,d\n9,"never closed\n10,x\n'.encode("latin-1")
    task, rows = load(server, "d.csv", bad)
    checks.equal("bad rows are left out", [row["id"] for row in rows], ["1", "5", "8"])
    said = {error["line"]: error["error"] for error in task["result"]["errors"]}
    checks.equal("and told by line", sorted(said), [3, 4, 5, 7, 8, 9, 11])
    checks.that("with what is wrong", "1 field," in said[3] and "behind a closing quote" in said[4] and "inside a field" in said[5] and "id is empty" in said[7]
                and "3 fields" in said[8] and "UTF-8" in said[9] and "not closed" in said[11], said)
    checks.that("in the log, too", any(line.startswith("line 9: ") for line in server.log(task["id"])))


def csv_line(values, quoting):
    """Without its end. Python quotes what could be taken for the end that it writes itself, so that has to be CR LF."""
    out = io.StringIO()
    csv.writer(out, lineterminator="\r\n", quoting=quoting).writerow(values)
    return out.getvalue()[:-2]


def check_random(server, seed):
    """Whatever Python's csv writes is read as it was."""
    dice = random.Random(seed)
    texts = ["", "a", ",", '"', '""', "\n", "\r\n", "\r", " ", "é", "😀", "x" * 70000, "\t", ";", "\\", "\x01", "'", "0"]
    wanted = [{"id": str(n), "a": "".join(dice.choices(texts, k=dice.randrange(6))), "b": "".join(dice.choices(texts, k=dice.randrange(3)))} for n in range(200)]
    end, quoting = dice.choice(["\n", "\r\n"]), dice.choice([csv.QUOTE_MINIMAL, csv.QUOTE_ALL])
    text = "".join(csv_line(values, quoting) + end for values in (("a", "id", "b"), *((row["a"], row["id"], row["b"]) for row in wanted)))
    put(server, "random.csv", text)
    first = server.add("load", {"file": "random.csv"})
    task = finished(server, first)
    rows = [row for by, row in exported(server) if by == f"import:{first}"]
    checks.that(f"200 random rows, seed {seed}", rows == wanted, [(got, want) for got, want in zip(rows, wanted) if got != want][:1] or task["result"])


def check_types(server):
    task, rows = load(server, "t.csv", "amount,id,active,note\n1.5e3,1,yes,x\n,2,,\nx,3,true,\n1,4.5,true,\n1,5,maybe,\n007,6,no,\n2,7,0,last\n", "typed", "typed.row")
    checks.equal("types", rows, [{"amount": 1500.0, "id": 1, "active": True, "note": "x"}, {"amount": None, "id": 2, "active": None, "note": ""},
                                 {"amount": 2, "id": 7, "active": False, "note": "last"}])
    checks.equal("that do not fit", [error["line"] for error in task["result"]["errors"]], [4, 5, 6, 7])
    checks.equal("keys", sorted(row["key"] for row in rows_of(server, "typed.row")), ["row-1", "row-2", "row-7"])
    task, rows = load(server, "t.txt", "x;1\ny;2\nz;no\n;x\n" + "w" * 200 + ";3\nq;4\n", "bare", "bare.row")
    checks.that("too many bad rows end it", task["state"] == "failed", task)
    task, rows = load(server, "u.txt", "x;1\ny;2\nz;no\n\n" + "w" * 200 + ";3\nq;4\n", "bare", "bare.row")
    checks.equal("no header, another separator", rows, [{"a": "x", "b": 1}, {"a": "y", "b": 2}, {"a": "q", "b": 4}])


def check_ndjson(server):
    task, rows = load(server, "n.ndjson", b'\xef\xbb\xbf{"id":1, "x":[1,2]}\r\n\n{"id":2}\n{"id":""}\nnot json\n{"x":1}\n[1]\n{"id":3,"s":"\xff"}\n{"id":4}')
    checks.equal("NDJSON", rows, [{"id": 1, "x": [1, 2]}, {"id": 2}, {"id": 4}])
    checks.equal("bad lines", [error["line"] for error in task["result"]["errors"]], [4, 5, 6, 7, 8])


def refused(server, values, why, handler="load"):
    task = server.ended(server.add(handler, values))
    checks.that(f"{values!r} is refused: {why}", task["state"] == "failed" and task["code"] == "bad_import" and why in task["error"], task)


def check_refused(server):
    inside, outside = os.path.join(server.folder, "in"), os.path.join(server.folder, "secret.csv")
    put(server, "../secret.csv", "id\n1\n")
    put(server, "deep/er/a.csv", "id\n1\n")
    os.symlink(outside, os.path.join(inside, "link.csv"))
    os.symlink(server.folder, os.path.join(inside, "way"))
    os.mkfifo(os.path.join(inside, "pipe.csv"))
    for path in ("../secret.csv", "/etc/passwd.csv", "deep/../../secret.csv", "link.csv", "way/secret.csv", "pipe.csv", "./a.csv", "deep//er/a.csv", "deep/er.csv/", "a\u0000.csv"):
        refused(server, {"file": path}, "")
    refused(server, {"file": "x.txt"}, "format")
    refused(server, {"file": "a.csv", "more": 1}, '"more"')
    refused(server, {}, '"file"')
    refused(server, [1], "JSON object")
    refused(server, {"file": "a.csv", "resume": {}}, "import")
    for name, data, why in (("e.csv", "", "empty"), ("f.csv", "id,id\n1,2\n", "twice"), ("g.csv", "id,\n1,2\n", "no name"), ("h.csv", "a,b\n1,2\n", 'no column "id"'),
                            ("i.csv", b"\xff\xfei\x00d\x00", "UTF-8")):
        put(server, name, data)
        refused(server, {"file": name}, why)
    task = server.ended(server.add("load", {"file": "nothing.csv"}))
    checks.that("a file that is not there is tried three times", len(task["attempts"]) == 3 and "No such file" in task["error"], task)
    _, rows = load(server, "deep/er/a.csv", "id\n1\n")
    checks.equal("a file in a folder", rows, [{"id": "1"}])


def check_changed(server):
    """A file that grows while it is imported: the next link notices."""
    path = put(server, "grow.csv", "id\n" + "".join(f"{i}\n" for i in range(100)))
    size = os.path.getsize(path)
    resume = {"import": "06EZ4MYYM0000", "offset": 3, "line": 2, "rows": 0, "bad": 0, "size": size + 1, "mtime_us": 0, "inode": 1, "errors": []}
    refused(server, {"file": "grow.csv", "resume": resume}, "has changed")


def memory_of(server):
    with open(f"/proc/{server.process.pid}/status", encoding="utf-8") as file:
        return int(next(line for line in file if line.startswith("VmHWM")).split()[1])


def check_kills(server, count, kills, seed):
    """Every good row is one task: none is lost, none is there twice."""
    dice = random.Random(seed)
    bad = {n for n in range(count) if n % 997 == 5}
    path = os.path.join(server.folder, "in", "many.csv")
    with open(path, "w", encoding="utf-8", newline="") as file:
        file.write("id,name,note\r\n")
        for n in range(count):
            file.write("broken\r\n" if n in bad else f'{n},name {n},"some, text\nof two lines"\r\n')
    begun, most = time.monotonic(), 0
    first = server.add("load", {"file": "many.csv"})
    for kill in range(kills):
        # Some way into what is left.
        target = int(count * (kill + dice.random()) / (kills + 1))
        served.until("rows come", lambda: count_rows(server) >= target)
        most = max(most, memory_of(server))
        server.process.kill()
        server.start_again()
    task = finished(server, first)
    most = max(most, memory_of(server))
    seen = {}
    for number in (int(row["id"]) for _, row in exported(server)):
        seen[number] = seen.get(number, 0) + 1
    checks.equal("rows that are lost", [n for n in range(count) if n not in bad and n not in seen][:10], [])
    checks.equal("rows that are tasks twice", [n for n, times in seen.items() if times > 1][:10], [])
    checks.equal("rows that should not be", [n for n in seen if n in bad][:10], [])
    checks.that("the result has the counts", task["result"]["rows"] == count - len(bad) and task["result"]["bad"] == len(bad), task["result"])
    seconds = time.monotonic() - begun
    print(f"{count} rows, {kills} kills: {seconds:.1f} s, at most {most // 1024} MiB")
    return most


def count_rows(server):
    queues = server.get("/v1/queues").json["queues"]
    return sum(queue["pending"] for queue in queues if queue["name"] == "rows")


def exported(server):
    """(created_by, payload) of all rows, oldest first: much quicker than asking for each."""
    out = subprocess.run([served.PAWL, "export", "--store", server.store], cwd=server.folder, capture_output=True, check=True).stdout
    for line in out.splitlines():
        task = json.loads(line)
        if task.get("type") == "row":
            yield task["created_by"], json.loads(task["payload"])


def serve(store):
    server = handled.Handled(FILE, "--lease", "3s", store=store, environment={name: value for name, value in os.environ.items() if name == "PAWL_MODULES"})
    os.mkdir(os.path.join(server.folder, "in"))
    return server


def kill(store, o):
    print(f"seed {o.seed}")
    with serve(store) as server:
        most = check_kills(server, o.rows or 20000, o.kills, o.seed)
        checks.that("memory does not grow with the file", not o.memory or most < o.memory << 10, most)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("kind", nargs="?", choices=["postgres", "mysql"])
    parser.add_argument("--rows", type=int, default=0)
    parser.add_argument("--kills", type=int, default=3)
    parser.add_argument("--seed", type=int, default=proc.seed())
    parser.add_argument("--memory", type=int, default=0, help="MiB that the server may have")
    o = parser.parse_args()
    if not o.rows and not o.kind:
        with serve("sqlite:pawl.db") as server:
            check_csv(server)
            check_random(server, o.seed)
            check_types(server)
            check_ndjson(server)
            check_refused(server)
            check_changed(server)
    with servers.server(o.kind) if o.kind else contextlib.nullcontext() as database:
        kill(database.url() if o.kind else "sqlite:pawl.db", o)
    return checks.end()


sys.exit(main())
