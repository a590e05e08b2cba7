#!/usr/bin/env python3
"""A store with schedules that fire, a batch half done and keys whose tasks run in order is moved while nodes work, and killed three times.

    move_kin.py [--from KIND] [--to KIND] [--keys N] [--seed N]

KIND is sqlite, postgres or mysql. Nodes run tasks that note in a file when they begin and end. Over both stores, afterwards: each
occurrence of a schedule became one task, none is missing, and each of these ran once; the batch counted every member once, and who waited for it
ran once and last; the tasks of a key ran one at a time and in the order of their dispatch.
"""

import argparse
import collections
import datetime
import json
import os
import random
import signal
import subprocess
import sys
import time

import move
import proc
import servers

MEMBERS = 150
PER_KEY = 8
SCHEDULES = ("tick", "tock")

RUN = """note() { printf '%s %s %s %s\\n' "$1" "$PAWL_TASK_ID" "$PAWL_TASK_TYPE" "$body" >>"$NOTES"; }
body=$(cat)
note begins
sleep 0.0$((1${body//[^0-9]/} % 9 + 1))
note ends
"""


def ask(store, *args):
    return json.loads(move.pawl(*args, "--store", move.url(store), "--json").stdout)


def do(store, *args):
    return move.pawl(*args, "--store", move.url(store)).stdout.strip()


class Nodes:
    """pawl work on each queue of a store."""

    def __init__(self, store, notes):
        env = {**os.environ, "NOTES": notes}
        work = [move.PAWL, "work", "--store", move.url(store), "--concurrency", "3", "--quiet"]
        self.all = [subprocess.Popen([*work, "--queue", queue, "--", "bash", "-c", RUN], env=env, stderr=subprocess.DEVNULL)
                    for queue in ("default", "default", "recurring")]

    def end(self, status):
        for node in self.all:
            if node.wait(proc.deadline(60)) != status:
                raise proc.Failure(f"a node ended with {node.returncode}, not {status}")
        self.all = []

    def stop(self):
        for node in self.all:
            node.send_signal(signal.SIGTERM)
        self.end(0)

    def kill(self):
        for node in self.all:
            node.kill()
            node.wait()


# ---- what there is to move --------------------------------------------------------------------------------------------------------------


def enqueue(store, directory, tasks, *options):
    bulk = os.path.join(directory, "bulk.ndjson")
    with open(bulk, "w", encoding="utf-8") as out:
        out.writelines(json.dumps(task) + "\n" for task in tasks)
    do(store, "enqueue", "--bulk", bulk, *options)


def fill(store, keys, directory):
    for name in SCHEDULES:
        do(store, "schedules", "add", name, "--type", name, "--every", "1s", "--now", "--missed", "all", "--overlap", "allow")
    do(store, "schedules", "add", "echo", "--type", "echo", "--after", SCHEDULES[0], "--overlap", "allow")
    do(store, "limits", "running", "step", "1", "--per-key", "--ordered")
    do(store, "limits", "running", "default", "4", "--queue")
    batch = do(store, "batches", "open", "half", "--on-finished", "last", "--queue", "default")
    steps = [{"type": "step", "rate_key": f"k{key}", "payload": f"k{key}:{n}"} for n in range(PER_KEY) for key in range(keys)]
    enqueue(store, directory, steps)
    enqueue(store, directory, [{"type": "member", "payload": n} for n in range(MEMBERS)], "--batch", "half")
    parent = do(store, "enqueue", "--type", "parent", "--delay", "2s")
    do(store, "enqueue", "--type", "child", "--parent", parent)
    do(store, "batches", "close", "half")
    return batch


# ---- what came of it --------------------------------------------------------------------------------------------------------------------


def read(path):
    """(what, id, type, payload) in the order in which it happened."""
    with open(path, encoding="utf-8") as notes:
        return [line.rstrip("\n").split(" ", 3) for line in notes]


def check_once(notes):
    for what in ("begins", "ends"):
        runs = collections.Counter(n[1] for n in notes if n[0] == what)
        often = [f"{id_} {count} times" for id_, count in runs.items() if count > 1]
        if often:
            raise proc.Failure(f"ran more than once: {', '.join(often)}")


def check_schedules(store, notes):
    ran = {n[1] for n in notes if n[0] == "ends"}
    for name in (*SCHEDULES, "echo"):
        shown = ask(store, "schedules", "show", name)
        occurrences = shown["occurrences"]
        tasks = [o["task"] for o in occurrences]
        if len(set(tasks)) != len(tasks) or not all(t in ran for t in tasks):
            raise proc.Failure(f"{name}: not every occurrence is one task that ran: {occurrences}")
        if any(o["state"] != "succeeded" for o in occurrences) or shown["fired"] != len(tasks):
            raise proc.Failure(f"{name}: fired {shown['fired']}, kept {occurrences}")
        made = {n[1] for n in notes if n[2] == name}
        if made != set(tasks):
            raise proc.Failure(f"{name}: tasks ran that belong to no occurrence: {made ^ set(tasks)}")
    for name in SCHEDULES:
        times = sorted(datetime.datetime.fromisoformat(o["due_at"]) for o in ask(store, "schedules", "show", name)["occurrences"])
        if [(t - times[0]).total_seconds() for t in times] != list(range(len(times))):
            raise proc.Failure(f"{name}: occurrences are missing: {times}")
    ticks, echoes = (ask(store, "schedules", "show", name)["fired"] for name in (SCHEDULES[0], "echo"))
    if ticks != echoes:
        raise proc.Failure(f"{ticks} tasks succeeded, and {echoes} followed them")
    return ticks


def check_batch(store, notes):
    batch = ask(store, "batches", "show", "half")
    if batch["state"] != "succeeded" or batch["succeeded"] != MEMBERS or batch["total"] != MEMBERS:
        raise proc.Failure(f"the batch: {batch}")
    order = [n[2] for n in notes if n[2] in ("member", "last")]
    if order.count("last") != 2 or order[-2:] != ["last", "last"]:
        raise proc.Failure("the task for the end of the batch did not run once, at the end")
    family = [n[0] + n[2] for n in notes if n[2] in ("parent", "child")]
    if family != ["beginsparent", "endsparent", "beginschild", "endschild"]:
        raise proc.Failure(f"parent and child: {family}")


def check_order(notes, keys):
    for key in range(keys):
        steps = [(n[0], n[3].strip('"')) for n in notes if n[2] == "step" and n[3].strip('"').startswith(f"k{key}:")]
        wanted = [(what, f"k{key}:{n}") for n in range(PER_KEY) for what in ("begins", "ends")]
        if steps != wanted:
            raise proc.Failure(f"k{key}: {steps}")


def fired_by(store, name):
    return ask(store, "schedules", "show", name)["fired"]


def idle(store):
    stats = ask(store, "stats")
    return stats["waiting"] + stats["pending"] + stats["leased"] == 0


def wait_for(what, test):
    end = time.monotonic() + proc.deadline(60)
    while not test():
        if time.monotonic() > end:
            raise proc.Failure(f"{what}: not in time")
        time.sleep(0.05)


# ---- the whole --------------------------------------------------------------------------------------------------------------------------


def carry_out(args, found):
    dice = random.Random(args.seed)
    notes = os.path.join(found.directory, "notes")
    with move.stores(args, found.directory) as (source, target):
        batch = fill(source, args.keys, found.directory)
        nodes = Nodes(source, notes)
        try:
            wait_for("some of the batch", lambda: ask(source, "batches", "show", "half")["succeeded"] > 5)
            wait_for("the schedules", lambda: ask(source, "schedules", "show", "tick")["succeeded"] > 0)
            mover = move.Mover(source, target)
            mover.run_until(move.PHASES[0])
            mover.run_until(move.PHASES[1] if dice.random() < 0.5 else move.PHASES[2])
            mover.run_until(dice.choice(move.PHASES[3:]))
            mover.run()
            nodes.end(8)
            fired = fired_by(source, "tick")
            left = ask(target, "batches", "show", "half")["unfinished"]
            nodes = Nodes(target, notes)
            wait_for("three more occurrences", lambda: fired_by(target, "tick") > fired + 3)
            for name in SCHEDULES:
                do(target, "schedules", "disable", name)
            wait_for("the end of all tasks", lambda: idle(target))
            wait_for("the last echo", lambda: fired_by(target, "echo") == fired_by(target, "tick"))
            wait_for("the end of the echo", lambda: idle(target))
            nodes.stop()
        finally:
            nodes.kill()
        happened = read(notes)
        check_once(happened)
        ticks = check_schedules(target, happened)
        check_batch(target, happened)
        check_order(happened, args.keys)
        if left == 0:
            raise proc.Failure("the batch had ended before it was moved")
        if len(mover.kills) != 3:
            raise proc.Failure(f"the mover was killed in {mover.kills} only")
        print(f"{fired} of {ticks} occurrences fired at the first store, {MEMBERS - left} of {MEMBERS} members of batch {batch} ran there; "
              f"killed while {', '.join(mover.kills)}")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--from", choices=("sqlite", *servers.KINDS), default="sqlite")
    parser.add_argument("--to", choices=("sqlite", *servers.KINDS), default="sqlite")
    parser.add_argument("--keys", type=int, default=4)
    parser.add_argument("--seed", type=int, default=proc.seed())
    args = parser.parse_args()
    print(f"seed {args.seed}", flush=True)
    with proc.nodes() as found:
        carry_out(args, found)


if __name__ == "__main__":
    sys.exit(main())
