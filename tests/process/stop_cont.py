#!/usr/bin/env python3
"""One holder: a process that is stopped (SIGSTOP) for longer than its lease loses its task to another one, and when it goes on
(SIGCONT) it learns that, its late outcome is refused, and it works on as a new node."""

import contextlib
import os
import signal

import proc


class Inside(Exception):
    """The process was stopped inside a commit: it keeps the file's write lock, and nobody can work at all."""


def stop(holder, other):
    os.kill(holder.process.pid, signal.SIGSTOP)
    os.waitpid(holder.process.pid, os.WUNTRACED)
    other.tell("dispatch ok")
    if not other.wait(1, e="ack"):
        raise Inside


def check(condition, text):
    if not condition:
        raise proc.Failure(text)


def take_over(nodes, work, second_too):
    """The first node starts the task and is stopped; the second one gets it."""
    first = nodes.start("first", hold=1)
    first.tell(f"dispatch {work}")
    task = first.expect(e="ack")["id"]
    held = first.expect(e="start", id=task)
    second = nodes.start("second", hold=int(second_too))
    stop(first, second)
    again = second.expect(e="start", id=task)
    check(again["fence"] > held["fence"], f"the fence went from {held['fence']} to {again['fence']}")
    check(second.has(e="rescued", id=task), "the second node ran the task and did not rescue it")
    check(not first.has(e="return"), "the first node returned before it went on: it was not stopped")
    return task, first, held, second, again


def come_back(task, first, held):
    """The first node goes on, succeeds all the same, and is refused."""
    os.kill(first.process.pid, signal.SIGCONT)
    late = first.expect(e="return", id=task, outcome="succeeded")
    first.expect(after=late, e="lease_lost", id=task, fence=held["fence"])


def look(node, task):
    node.tell("dump")
    stored = node.expect(e="task", id=task)
    node.expect(e="dumped")
    return stored


def check_end(task, first, second, again):
    """The first node works on alone; the task succeeded once, in the hands of the second."""
    first.tell("dispatch ok")
    first.expect(e="end", id=first.expect(e="ack")["id"], outcome="succeeded")
    stored = look(first, task)
    first.close()
    check(stored["state"] == "succeeded", f"the task is {stored['state']}")
    good = [fence for _, outcome, fence in stored["attempts"] if outcome == "succeeded"]
    check(good == [again["fence"]], f"one success under fence {again['fence']} was expected, not {stored['attempts']}")
    ends = first.has(e="end", id=task) + second.has(e="end", id=task)
    check(len(ends) == 1, f"the hooks said {ends}")


def finished_elsewhere(nodes):
    """The second node has finished when the first one comes back, whose run is told and then returns."""
    task, first, held, second, again = take_over(nodes, "hold", False)
    second.expect(e="end", id=task, fence=again["fence"], outcome="succeeded")
    come_back(task, first, held)
    check(first.has(e="told", id=task, reason="lease_lost"), "the run of the first node was not told that it lost its lease")
    second.close()
    check_end(task, first, second, again)
    print(f"taken over after {(again['t'] - held['t']) // 1000} ms, finished before the first node came back")


def running_elsewhere(nodes):
    """The second node still runs it when the first one comes back, whose run returns at once, before anybody can have told it."""
    task, first, held, second, again = take_over(nodes, "nap", True)
    come_back(task, first, held)
    stored = look(first, task)
    check(stored["state"] == "leased" and stored["fence"] == again["fence"], f"the refused outcome changed the task: {stored}")
    second.expect(e="end", id=task, fence=again["fence"], outcome="succeeded")
    second.close()
    check_end(task, first, second, again)
    print(f"taken over after {(again['t'] - held['t']) // 1000} ms, still running when the first node came back")


def play(scene):
    for _ in range(10):
        with contextlib.suppress(Inside), proc.nodes() as nodes:
            scene(nodes)
            return
    raise SystemExit("the first node was stopped inside a commit ten times in a row")


play(finished_elsewhere)
play(running_elsewhere)
