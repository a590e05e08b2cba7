#!/usr/bin/env python3
"""Idle means idle: a started engine with nothing due makes no system call.

    idle.py [SECONDS]       of silence that strace must see; 2 by default

Needs strace and the right to trace; without them it says so and counts as skipped (exit status 77)."""

import queue
import subprocess
import sys
import threading
import time

import proc

SETTLE_S = 7  # by then everything that follows a start and the last task is over, the first look for old history included


def trace(pid):
    """strace on a process and all of its threads, and its lines as a queue; None where that is not allowed."""
    try:
        tracer = subprocess.Popen(["strace", "-f", "-p", str(pid)], stdin=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
    except FileNotFoundError:
        skip("strace is not installed")
    lines = queue.Queue()

    def read():
        for line in tracer.stderr:
            lines.put(line.rstrip())
        lines.put(None)

    threading.Thread(target=read, daemon=True).start()
    first = lines.get()
    if first is None or "attached" not in first:
        skip(f"this process may not trace another one: {first}")
    return tracer, lines


def skip(why):
    print(f"skipped: {why}")
    raise SystemExit(77)


def wait_for_silence(lines, seconds):
    since, seen = time.monotonic(), []
    while time.monotonic() - since < proc.deadline(SETTLE_S):
        try:
            seen.append(lines.get(timeout=seconds))
        except queue.Empty:
            return len(seen)
    raise proc.Failure(f"still busy {proc.deadline(SETTLE_S):g} s after the last task:\n  " +
                       "\n  ".join(str(line) for line in seen[-30:]))


silence_s = float(sys.argv[1]) if len(sys.argv) > 1 else 2.0
with proc.nodes() as nodes:
    idle = nodes.start("idle")
    sender = nodes.start("sender", serve=0)
    idle.tell("dispatch ok")
    idle.expect(e="end", outcome="succeeded")
    sender.tell("dispatch ok 3600000")  # work that nobody may do yet costs nothing either
    sender.expect(e="ack")
    sender.close()

    tracer, lines = trace(idle.process.pid)
    try:
        before = wait_for_silence(lines, silence_s)
        awake = nodes.start("awake", serve=0)  # the trace works, and the engine was not dead but asleep
        awake.tell("dispatch ok")
        idle.expect(e="start", id=awake.expect(e="ack")["id"])
        lines.get(timeout=proc.deadline(30))
        awake.close()
    finally:
        tracer.terminate()
        tracer.wait()
    idle.close()
    print(f"no system call for {silence_s:g} s; {before} lines of trace before that")
