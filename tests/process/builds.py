#!/usr/bin/env python3
"""Two builds of a program on one file, the newer one with one migration more.

A migration that only adds is applied when the newer build opens the file, and the older one works on. One that the older build would
trip over is not: the newer build refuses, until a person lets it migrate; from then on the older one refuses to write and to open, and
what it was running is taken over. Nothing is lost or damaged in either case."""

import contextlib
import os
import sqlite3

import proc

NEXT = os.environ["PAWL_TEST_NODE_NEXT"]
CLOSES = {"PAWL_TEST_CLOSES": "1"}


def check(condition, text):
    if not condition:
        raise proc.Failure(text)


def ask(nodes, sql):
    with contextlib.closing(sqlite3.connect(f"file:{nodes.path}?mode=ro", uri=True)) as db:
        return [row[0] for row in db.execute(sql)]


def schema(nodes):
    return tuple(ask(nodes, "SELECT value FROM pawl_meta WHERE key IN ('schema', 'min_reader') ORDER BY key DESC"))


def hold(node, work):
    """A task that the node is running from now on."""
    node.tell(f"dispatch {work}")
    task = node.expect(e="ack")["id"]
    return node.expect(e="start", id=task)


def refused(node, text):
    """It does not open the file, and says why."""
    check(node.process.wait(proc.deadline(30)) != 0, f"{node.name} opened the file")
    check(text in node.said(), f"{node.name} does not say \"{text}\" but: {node.said()}")


def end(nodes, last, held):
    """All has ended well, and the file is sound."""
    last.tell("drain 90")
    last.expect(e="drained")
    last.tell("dump")
    last.expect(e="dumped")
    tasks = last.has(e="task")
    acked = {line["id"] for node in nodes.all for line in node.has(e="ack")}
    check({task["id"] for task in tasks} == acked, f"{len(acked)} tasks were acknowledged, {len(tasks)} are stored")
    check(all(task["state"] == "succeeded" for task in tasks), f"not all tasks succeeded: {tasks}")
    last.close()
    check(ask(nodes, "PRAGMA integrity_check") == ["ok"], "the file is damaged")
    return next(task for task in tasks if task["id"] == held["id"])


def expanding(nodes):
    old = nodes.start("old", hold=1)
    held = hold(old, "nap")
    known, oldest = schema(nodes)
    new = nodes.start("new", program=NEXT)
    check(schema(nodes) == (known + 1, oldest), f"schema {known} became {schema(nodes)}")
    check(ask(nodes, "SELECT count(*) FROM pawl_next") == [0], "the migration was not applied")
    for sender in (old, new, nodes.start("old again")):
        sender.tell("dispatch ok")
        sender.expect(e="ack")
    old.expect(e="end", id=held["id"], outcome="succeeded")
    old.close()
    nodes.all[-1].close()
    end(nodes, new, held)
    print(f"schema {known} became {known + 1} while the older build worked on")


def closing(nodes):
    old = nodes.start("old", hold=1)
    held = hold(old, "hold")
    before = schema(nodes)
    refused(nodes.launch("too early", program=NEXT, environment=CLOSES), "which older programs cannot use: stop them")
    check(schema(nodes) == before, f"the file was changed: {schema(nodes)}")
    old.tell("dispatch ok")
    old.expect(e="end", id=old.expect(e="ack")["id"], outcome="succeeded")

    new = nodes.start("new", program=NEXT, environment=CLOSES, migrate=1)
    check(schema(nodes) == (before[0] + 1, before[0] + 1), f"schema {before} became {schema(nodes)}")
    old.tell("dispatch ok")
    check(old.expect(e="refused")["status"] == "schema", "the older build was refused for another reason")
    check("update this program" in old.said(), f"the older build does not say what to do: {old.said()}")
    refused(nodes.launch("too late"), "update this program")
    again = new.expect(e="start", id=held["id"])
    check(again["fence"] > held["fence"], f"the fence went from {held['fence']} to {again['fence']}")
    old.expect(e="told", id=held["id"], reason="lease_lost")
    old.destroy()
    stored = end(nodes, new, held)
    good = [fence for _, outcome, fence in stored["attempts"] if outcome == "succeeded"]
    check(good == [again["fence"]], f"one success under fence {again['fence']} was expected, not {stored['attempts']}")
    print(f"schema {before[0]} became {before[0] + 1} by hand; the older build was told and its task taken over")


for scene in (expanding, closing):
    with proc.nodes() as found:
        scene(found)
