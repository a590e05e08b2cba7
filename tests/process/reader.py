#!/usr/bin/env python3
"""A reader that does not let go: another program keeps a read transaction open on the file. Writers go on all the same; the WAL, which
cannot start anew meanwhile, is not allowed to grow without a word: `pawl doctor` names the process. Once it lets go, the WAL is used
again."""

import json
import os
import sqlite3
import subprocess

import proc

PAWL = os.environ["PAWL_BIN"]
GROWN = 24 << 20  # doctor speaks from 16 MiB on
PATIENCE_S = 5  # a checkpoint waits 50 ms for the reader; a commit may wait for a busy disk


def check(condition, text):
    if not condition:
        raise proc.Failure(text)


def work(node, runner, count):
    """So many tasks dispatched, one at a time, and run; how long the slowest took to be acknowledged, in seconds."""
    slowest = 0
    for _ in range(count):
        node.tell("dispatch ok")
        begun = node.expect(e="begin")
        acked = node.expect(e="ack")
        slowest = max(slowest, acked["t"] - begun["t"])
        runner.expect(e="end", id=acked["id"], outcome="succeeded")
    return slowest / 1e6


def examine(path):
    answer = subprocess.run([PAWL, "doctor", "--json", "--store", f"sqlite:{path}"], stdout=subprocess.PIPE, text=True, check=False)
    found = {}
    for finding in json.loads(answer.stdout)["findings"]:
        found.setdefault(finding["check"], []).append(finding)
    return found


def verdicts(found, name):
    return [finding["verdict"] for finding in found[name]]


with proc.nodes() as nodes:
    runner, sender = nodes.start("runner"), nodes.start("sender", serve=0)
    work(runner, runner, 1)
    reader = sqlite3.connect(f"file:{nodes.path}?mode=ro", uri=True, isolation_level=None)
    reader.execute("BEGIN")
    seen = reader.execute("SELECT count(*) FROM pawl_body").fetchone()[0]

    wal, slowest, tasks = f"{nodes.path}-wal", 0, 1
    while os.stat(wal).st_size < GROWN:
        for node in (runner, sender):
            slowest = max(slowest, work(node, runner, 25))
        tasks += 50
        check(tasks < 20000, f"{tasks} tasks made {os.stat(wal).st_size} bytes of WAL: the reader does not hold it back")
    check(slowest < PATIENCE_S * proc.FACTOR, f"a dispatch took {slowest:.2f} s beside a long reader")
    check(reader.execute("SELECT count(*) FROM pawl_body").fetchone()[0] == seen, "the reader's snapshot moved")

    found = examine(nodes.path)
    named = [finding for finding in found["readers"] if f"Process {os.getpid()} " in finding["text"]]
    check(len(named) == 1 and named[0]["verdict"] == "warn", f"doctor does not name the reader: {found['readers']}")
    check(verdicts(found, "wal") == ["warn"], f"doctor says nothing of the WAL: {found['wal']}")
    print(f"{tasks} tasks beside the reader, {os.stat(wal).st_size >> 20} MiB of WAL, slowest dispatch {slowest * 1000:.0f} ms")

    reader.execute("ROLLBACK")
    more = 0
    while verdicts(examine(nodes.path), "wal") != ["ok"]:
        more += 500
        check(more < 20000, f"{more} tasks after the reader was gone the WAL still waits: {examine(nodes.path)['wal']}")
        work(runner, runner, 500)
    check(verdicts(examine(nodes.path), "readers") == ["ok"], "doctor still sees a reader")
    print(f"{more} tasks later the WAL is in the database")
    sender.close()
    runner.close()
    reader.close()
