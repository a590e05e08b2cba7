#!/usr/bin/env python3
"""One commit, then silence: a task that another process commits starts at once in a process that was idle.

Between commits lies a random moment, so that they meet the idle process at every stage of falling asleep."""

import random
import time

import proc

LIMIT_S = 15  # typically it takes milliseconds; a wake-up that is lost never comes


def commit(sender, idle, command, delay_ms=0):
    """How long after the acknowledgement (and the delay) the task started, in milliseconds."""
    sender.tell(f"{command} {delay_ms}")
    begun = sender.expect(e="begin")
    acked = sender.expect(e="ack")
    started = idle.expect(LIMIT_S + delay_ms / 1000, e="start", id=acked["id"])
    idle.expect(e="end", id=acked["id"], outcome="succeeded")
    if started["t"] < begun["t"] + delay_ms * 1000:
        early_us = begun["t"] + delay_ms * 1000 - started["t"]
        raise proc.Failure(f"a task with a delay of {delay_ms} ms started {early_us} us too early")
    return max(0.0, (started["t"] - acked["t"]) / 1000 - delay_ms)


def report(what, latencies):
    latencies.sort()
    median = latencies[len(latencies) // 2]
    print(f"{what}: {len(latencies)} commits, started after {median:.1f} ms (median), {latencies[-1]:.1f} ms (worst)")


def gap():
    time.sleep(dice.choice((0, 0.001, 0.01, 0.05, 0.2)) * dice.random())  # the moment of the next commit


def series(sender, idle, command, count, delays=(0,)):
    found = []
    for _ in range(count):
        gap()
        found.append(commit(sender, idle, command, dice.choice(delays)))
    return found


seed = proc.seed()
print(f"seed {seed}", flush=True)
dice = random.Random(seed)

with proc.nodes() as nodes:
    idle = nodes.start("idle", shared=1)
    sender = nodes.start("sender", serve=0, shared=1)
    report("dispatch", series(sender, idle, "dispatch ok", 50))
    report("delayed dispatch", series(sender, idle, "dispatch ok", 10, (20, 100, 300)))
    report("dispatch in a transaction of the program's own", series(sender, idle, "foreign ok", 50))
    report("delayed, in a transaction of the program's own", series(sender, idle, "foreign ok", 5, (50, 200)))
    sender.close()
    idle.close()

# The idle process has the store to itself, until another one comes, commits and goes.
with proc.nodes() as nodes:
    idle = nodes.start("idle")
    found = []
    for i in range(15):
        gap()
        sender = nodes.start(f"sender{i}", serve=0)
        found.append(commit(sender, idle, "dispatch ok"))
        sender.close()
    report("dispatch by a process that comes and goes", found)
    idle.close()

# The committing process has the store to itself, and commits while the other one is just starting.
with proc.nodes() as nodes:
    sender = nodes.start("sender", serve=0)
    found = []
    for i in range(15):
        idle = nodes.launch(f"idle{i}")
        time.sleep(0.03 * dice.random() * proc.FACTOR)
        found.append(commit(sender, idle, "dispatch ok"))
        idle.close()
    report("dispatch while the other process starts", found)
    sender.close()
