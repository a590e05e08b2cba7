#!/usr/bin/env python3
"""Every occurrence becomes one task, or is skipped and counted: many schedules of one second each, and a node killed every second.

    schedules.py KIND [--seconds N] [--count N] [--nodes N] [--seed N]

KIND is sqlite, or that of a server. No occurrence may be missing, none may have made two tasks, and all the tasks that are there must
be those that occurrences made.
"""

import argparse
import collections
import contextlib
import random
import time

import proc
import servers

SECOND = 1000000


def check(condition, text):
    if not condition:
        raise proc.Failure(text)


def storm(nodes, options):
    """Kills one every second and starts another."""
    first = nodes.start("first", serve=0)
    first.tell(f"schedules {options.count}")
    first.expect(e="put", seconds=60)
    first.close()
    dice = random.Random(options.seed)
    running = [nodes.start(f"n{i}") for i in range(options.nodes)]
    for i in range(options.seconds):
        until = time.monotonic() + 1
        victim = running.pop(dice.randrange(len(running)))
        victim.destroy()
        running.append(nodes.start(f"r{i}"))
        time.sleep(max(0, until - time.monotonic()))  # the pace of the blows, not a wait for anything
    for node in running[1:]:  # whoever is left goes on
        node.close()
    running[0].expect(e="start", seconds=10, after=running[0].lines[-1])
    running[0].close()


def judge_one(found, tasks):
    """Its occurrences stand one second after another, each of them once; how many were skipped."""
    name, first = found["name"], min(o[0] for o in found["occurrences"])
    check(found["status"] == "enabled", f"{name} is {found['status']}")
    made = found["fired"] + found["skipped"]
    if made <= 100:  # all of them are still there
        check(abs(first - found["created"] - SECOND) < SECOND / 2, f"{name} began {first - found['created']} us after it was put")
        check(sum(o[1] for o in found["occurrences"]) == made, f"{name} has occurrences that nobody counted")
    expected = first
    for occurrence, count, state, task in sorted(found["occurrences"]):
        check(occurrence == expected, f"{name}: {expected} is missing, or there twice: the next is {occurrence}")
        check((task != 0) == (state != "skipped"), f"{name}: {occurrence} is {state}, its task is {task}")
        check(task == 0 or tasks.get(task) == name, f"{name}: the task of {occurrence} is not there")
        expected += count * SECOND
    check(found["last"] == expected - SECOND, f"{name}: the last occurrence was {found['last']}, not {expected - SECOND}")
    total = (found["last"] - found["created"]) // SECOND
    check(abs(total - made) <= 1, f"{name}: {total} seconds, but {made} occurrences")
    of_it = [o[3] for o in found["occurrences"] if o[3]]
    check(len(of_it) == len(set(of_it)), f"{name}: two occurrences have one task")
    return found["skipped"]


def judge(nodes, options):
    last = nodes.start("last", serve=0)
    last.tell(f"occurrences {options.count}")
    last.expect(e="told_schedules", seconds=120)
    tasks = {task: name for line in last.has(e="made") for task, name in line["tasks"]}
    per_name = collections.Counter(tasks.values())
    skipped = fired = 0
    for found in last.has(e="schedule"):
        check(per_name[found["name"]] == found["fired"],
              f"{found['name']} fired {found['fired']} times, but has {per_name[found['name']]} tasks")
        skipped += judge_one(found, tasks)
        fired += found["fired"]
        check(found["now"] - found["last"] < 60 * SECOND, f"{found['name']} was left behind")
    last.close()
    check(len(last.has(e="schedule")) == options.count, "some schedules are not there")
    check(skipped <= (fired + skipped) / 2, f"{skipped} of {fired + skipped} occurrences were skipped: far more than the kills explain")
    print(f"{options.count} schedules: {fired} occurrences fired, {skipped} skipped and counted, none twice, none missing")


@contextlib.contextmanager
def nodes_of(kind):
    if kind == "sqlite":
        with proc.nodes() as found:
            yield found
    else:
        with servers.nodes(kind) as (found, _):
            yield found


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("kind", choices=["sqlite", *servers.KINDS])
    parser.add_argument("--seconds", type=int, default=10)
    parser.add_argument("--count", type=int, default=100)
    parser.add_argument("--nodes", type=int, default=4)
    parser.add_argument("--seed", type=int, default=proc.seed())
    options = parser.parse_args()
    print(f"seed {options.seed}", flush=True)
    with nodes_of(options.kind) as nodes:
        storm(nodes, options)
        judge(nodes, options)


main()
