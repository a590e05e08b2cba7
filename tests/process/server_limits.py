#!/usr/bin/env python3
"""A rate limit holds over all nodes of a server: three of them, whose wall clocks are a second behind, right, and a second ahead,
run tasks of many rate keys and are killed every second or so.

    server_limits.py KIND [--seconds N] [--keys N] [--seed N]

Half of the keys' tasks come from a node that runs tasks itself, half from one that only dispatches. Then:

    windows    starts of a key in any window of length W number at most floor((tolerance + W + L) / T) + 1
    starved    no key has less than a quarter of the starts that the limit allows, from its first on
    lost       in the end everything was run
"""

import os
import random
import sys
import time

import proc
import servers

STEP_US, BURST = 500_000, 2  # of the type `paced`: see handlers.c
LATE_US = 500_000
GRACE_US = 1_000_000  # the most that L may be longer where answers of the store take long
LEASE_MS = 1000
SKEWS_US = (-1_000_000, 0, 1_000_000)


def allowed(window_us, late_us):
    return ((BURST - 1) * STEP_US + window_us + late_us) // STEP_US + 1


def excess(starts, late_us):
    """By how many the fullest window has too many; 0 or less: none has. Windows begin and end with a start."""
    worst = -1
    for last, end in enumerate(starts):
        for first in range(last + 1):
            worst = max(worst, last - first + 1 - allowed(end - starts[first], late_us))
    return worst


class Fleet:
    def __init__(self, nodes, dice):
        self.nodes, self.dice, self.running, self.kills = nodes, dice, {}, 0

    def start(self, slot):
        environment = {"PAWL_TEST_SKEW_US": str(SKEWS_US[slot]), "LD_PRELOAD": os.environ["PAWL_TEST_SKEW"]}
        name = f"n{slot}k{self.kills}"
        node = self.running[slot] = self.nodes.start(name, environment=environment, paced=1, workers=4, lease_ms=LEASE_MS)
        started = node.has(e="started")[0]
        ahead_us = started["wall"] - time.time_ns() // 1000 + time.monotonic_ns() // 1000 - started["t"]
        if abs(ahead_us - SKEWS_US[slot]) > 500_000:
            raise proc.Failure(f"the clock of {name} is {ahead_us} us ahead, not {SKEWS_US[slot]}")

    def storm(self, seconds):
        until = time.monotonic() + seconds
        while time.monotonic() < until:
            time.sleep(0.5 + self.dice.random())  # the moment of the next blow
            slot = self.dice.randrange(len(SKEWS_US))
            self.running[slot].destroy()
            self.kills += 1
            self.start(slot)


def sort_starts(nodes):
    """By rate key, the times at which tasks started; and how many tasks were dispatched."""
    keys = {}
    for node in nodes.all:
        for line in node.has(e="bulk"):
            keys.update((token, line["rate"]) for token in line["tokens"])
    starts = {key: [] for key in keys.values()}
    ran = set()
    for node in nodes.all:
        for line in node.has(e="start", type="paced"):
            starts[keys[line["token"]]].append(line["t"])
            ran.add(line["token"])
    for times in starts.values():
        times.sort()
    return starts, len(keys) - len(ran)


def check(starts, until_us):
    """Until `until_us` there was more to do of each key."""
    late = 0
    for key, times in starts.items():
        if excess(times, LATE_US + GRACE_US) > 0:
            raise proc.Failure(f"key {key}: a window has {excess(times, LATE_US + GRACE_US)} starts too many: {times}")
        late += excess(times, LATE_US) > 0
        had = sum(1 for t in times if t <= until_us)
        might = (until_us - times[0]) / STEP_US
        if had < might / 4:
            raise proc.Failure(f"key {key} had {had} starts, and might have had {might:.0f}")
    return late


def main():
    parser = servers.parser(__doc__)
    parser.add_argument("--seconds", type=float, default=8)
    parser.add_argument("--keys", type=int, default=12)
    parser.add_argument("--seed", type=int, default=proc.seed())
    args = parser.parse_args()
    print(f"seed {args.seed}", flush=True)
    count = int(args.seconds * 1e6 / STEP_US) + BURST
    with servers.nodes(args.kind) as (nodes, _):
        fleet = Fleet(nodes, random.Random(args.seed))
        sender = nodes.start("sender", serve=0)
        for slot in range(len(SKEWS_US)):
            fleet.start(slot)
        for key in range(args.keys):
            (sender if key % 2 else fleet.running[1]).tell(f"paced k{key} {count}")
        fleet.running[1].tell("dispatch ok")  # the last of its commands is done when this one is acknowledged
        sender.tell("dispatch ok")
        token = fleet.running[1].expect(e="begin")["token"]
        fleet.running[1].expect(e="ack", token=token)
        sender.expect(e="ack", token=sender.expect(e="begin")["token"])
        begun_us = time.monotonic_ns() // 1000
        fleet.storm(args.seconds)
        clean = nodes.start("clean", paced=1, lease_ms=LEASE_MS)
        clean.tell("drain 180")
        clean.expect(60, e="drained")
        for node in (clean, sender, *fleet.running.values()):
            node.close()
        starts, missing = sort_starts(nodes)
        late = check(starts, int(begun_us + args.seconds * 0.75e6))
        if missing or not fleet.kills or len(starts) != args.keys:
            raise proc.Failure(f"{missing} tasks never started, {len(starts)} keys, {fleet.kills} kills")
        print(f"{sum(map(len, starts.values()))} starts of {args.keys} keys, {fleet.kills} kills; "
              f"{late} keys had late starts because answers took long")


if __name__ == "__main__":
    sys.exit(main())
