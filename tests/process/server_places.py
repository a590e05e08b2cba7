#!/usr/bin/env python3
"""Concurrency limits hold over all nodes of a server: three of them run tasks of many rate keys and are killed every second or so.

    server_places.py KIND [--seconds N] [--keys N] [--seed N]

Tasks of the type `few` may run two of a rate key and five in all at a time, those of `row` one after the other of a rate key. Half of the
keys' tasks come from a node that only dispatches, half from one that runs tasks itself and is killed, too. Then:

    crowded    at no time there were more runs than that
    order      of a key of `row` no task started after one that was dispatched later
    blocked    in the end everything was run, by a node that has only what is stored to go by
"""

import collections
import random
import sys
import time

import proc
import servers

OF_KEY, OF_TYPE = {"few": 2, "row": 1}, {"few": 5}  # see handlers.c
LEASE_MS = 1000
NODES = 3


class Fleet:
    def __init__(self, nodes, dice):
        self.nodes, self.dice, self.running, self.ends, self.kills = nodes, dice, {}, {}, 0

    def start(self, slot):
        name = f"n{slot}k{self.kills}"
        self.running[slot] = self.nodes.start(name, few=1, workers=6, lease_ms=LEASE_MS)

    def kill(self, slot):
        node = self.running[slot]
        self.ends[node.name] = time.monotonic_ns() // 1000
        node.destroy()
        self.kills += 1

    def storm(self, seconds):
        until = time.monotonic() + seconds
        while time.monotonic() < until:
            time.sleep(0.5 + self.dice.random())  # the moment of the next blow
            slot = self.dice.randrange(NODES)
            self.kill(slot)
            self.start(slot)


def runs_of(node, keys, ends):
    """(type, rate key, task, start, end) of each run. One that did not return ended with its node."""
    returns = {(line["id"], line["fence"]): line["t"] for line in node.has(e="return")}
    for line in node.has(e="start"):
        if line["type"] in OF_KEY:
            end = returns.get((line["id"], line["fence"]), ends.get(node.name))
            if end is None:
                raise proc.Failure(f"task {line['id']} of {node.name} did not return")
            yield line["type"], keys[line["token"]], line["id"], line["t"], end


def most_at_once(runs):
    """Of (start, end): how many there were at a time, at the most. One that ends makes room for one that starts in the same moment."""
    now = most = 0
    for _, step in sorted([(start, 1) for start, _ in runs] + [(end, -1) for _, end in runs]):
        now += step
        most = max(most, now)
    return most


def check_crowds(runs):
    """The fullest moments, by type."""
    by_key, by_type = collections.defaultdict(list), collections.defaultdict(list)
    for kind, key, _, start, end in runs:
        by_key[kind, key].append((start, end))
        by_type[kind].append((start, end))
    seen = collections.Counter()
    for (kind, key), times in by_key.items():
        most = most_at_once(times)
        seen[kind] = max(seen[kind], most)
        if most > OF_KEY[kind]:
            raise proc.Failure(f"{most} tasks of type {kind}, key {key}, ran at a time")
    for kind, allowed in OF_TYPE.items():
        if most_at_once(by_type[kind]) > allowed:
            raise proc.Failure(f"{most_at_once(by_type[kind])} tasks of type {kind} ran at a time")
    return seen


def check_order(runs):
    last = {}
    for kind, key, task, start, _ in sorted(runs, key=lambda run: run[3]):
        if kind == "row" and task < last.get(key, ""):
            raise proc.Failure(f"key {key}: task {task} started at {start}, after {last[key]}")
        if kind == "row":
            last[key] = task


def judge(nodes, fleet):
    keys = {token: line["rate"] for node in nodes.all for line in node.has(e="bulk") for token in line["tokens"]}
    stored = {line["token"] for node in nodes.all for line in node.has(e="ack")}
    runs = [run for node in nodes.all for run in runs_of(node, keys, fleet.ends)]
    missing = stored & set(keys) - {line["token"] for node in nodes.all for line in node.has(e="start")}
    seen = check_crowds(runs)
    check_order(runs)
    if missing or not fleet.kills:
        raise proc.Failure(f"{len(missing)} tasks never started, {fleet.kills} kills")
    if dict(seen) != OF_KEY:
        raise proc.Failure(f"the limits were never reached: {dict(seen)}")
    return len(runs)


def main():
    parser = servers.parser(__doc__)
    parser.add_argument("--seconds", type=float, default=8)
    parser.add_argument("--keys", type=int, default=6)
    parser.add_argument("--seed", type=int, default=proc.seed())
    args = parser.parse_args()
    print(f"seed {args.seed}", flush=True)
    with servers.nodes(args.kind) as (nodes, _):
        fleet = Fleet(nodes, random.Random(args.seed))
        sender = nodes.start("sender", serve=0)
        for slot in range(NODES):
            fleet.start(slot)
        count = int(args.seconds * 12) + 16
        for key in range(args.keys):
            for kind in OF_KEY:
                (sender if key % 2 else fleet.running[1]).tell(f"{kind} {kind}{key} {count}")
        sender.tell("dispatch ok")  # the last of its commands is done when this one is acknowledged
        sender.expect(e="ack", token=sender.expect(e="begin")["token"])
        fleet.storm(args.seconds)
        for slot in range(NODES):
            fleet.kill(slot)
        clean = nodes.start("clean", few=1, workers=8, lease_ms=LEASE_MS)
        clean.tell("drain 180")
        clean.expect(90, e="drained")
        clean.close()
        sender.close()
        print(f"{judge(nodes, fleet)} runs of {2 * args.keys} keys, {fleet.kills} kills")


if __name__ == "__main__":
    sys.exit(main())
