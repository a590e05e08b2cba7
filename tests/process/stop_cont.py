#!/usr/bin/env python3
"""One holder: a process that is stopped (SIGSTOP) for longer than its lease loses its task to another one, and when it goes on
(SIGCONT) it learns that, its late outcome is refused, and it works on as a new node."""

import os
import signal

import proc


def stop(holder, other):
    """Stops the holder outside of a commit: inside one it would keep the file's write lock, and nobody could work at all."""
    for _ in range(20):
        os.kill(holder.process.pid, signal.SIGSTOP)
        os.waitpid(holder.process.pid, os.WUNTRACED)
        other.tell("dispatch ok")
        if other.wait(1, e="ack"):
            return
        os.kill(holder.process.pid, signal.SIGCONT)
        other.expect(e="ack")
    raise proc.Failure("the holder was stopped inside a commit twenty times in a row")


def check(condition, text):
    if not condition:
        raise proc.Failure(text)


with proc.nodes() as nodes:
    first = nodes.start("first", hold=1)
    first.tell("dispatch hold")
    task = first.expect(e="ack")["id"]
    held = first.expect(e="start", id=task)
    second = nodes.start("second")

    stop(first, second)
    again = second.expect(e="start", id=task)
    second.expect(e="end", id=task, fence=again["fence"], outcome="succeeded")
    check(again["fence"] > held["fence"], f"the fence went from {held['fence']} to {again['fence']}")
    check(second.has(e="rescued", id=task), "the second node ran the task and did not rescue it")
    check(not first.has(e="told"), "the first node was told before it went on: it was not stopped")

    os.kill(first.process.pid, signal.SIGCONT)
    first.expect(e="told", id=task, reason="lease_lost")
    late = first.expect(e="return", id=task, outcome="succeeded")
    first.expect(after=late, e="lease_lost", id=task, fence=held["fence"])

    second.close()
    first.tell("dispatch ok")
    alone = first.expect(e="ack")["id"]
    first.expect(e="end", id=alone, outcome="succeeded")
    first.tell("dump")
    stored = first.expect(e="task", id=task)
    first.expect(e="dumped")
    first.close()

    check(stored["state"] == "succeeded", f"the task is {stored['state']}")
    good = [fence for _, outcome, fence in stored["attempts"] if outcome == "succeeded"]
    check(good == [again["fence"]], f"one success under fence {again['fence']} was expected, not {stored['attempts']}")
    ends = first.has(e="end", id=task) + second.has(e="end", id=task)
    check(len(ends) == 1, f"the hooks said {ends}")
    waited_ms = (again["t"] - held["t"]) // 1000
    print(f"taken over {waited_ms} ms after it started elsewhere; the late outcome was refused")
