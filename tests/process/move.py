#!/usr/bin/env python3
"""A move is killed on the way, and neither loses a task nor runs one twice.

    move.py live [--from KIND] [--to KIND] [--seconds N] [--seed N]
    move.py rows [--from KIND] [--to KIND] [--rows N]

KIND is sqlite, postgres or mysql. `live`: nodes dispatch and run tasks at the first store while it is moved; the mover is killed with SIGKILL three
times, in different phases, and a node once, with what it held. A clean node drains the second store, and history.py judges what all
of them told. `rows`: a store with so many tasks, and some rate limits, is moved, killed three times as well, and must come out as it went
in, line by line of its export; says how fast that was.
"""

import argparse
import contextlib
import hashlib
import json
import os
import random
import subprocess
import sys
import time

import history
import kill_loop
import proc
import servers

PAWL = os.environ.get("PAWL_BIN", "pawl")
PHASES = ("copying what is finished", "waiting for", "copying the rest", "copying statistics", "comparing")


def url(path):
    return path if path.startswith(tuple(servers.KINDS)) else "sqlite:" + path


def pawl(*args, check=True):
    done = subprocess.run([PAWL, *args], capture_output=True, text=True, check=False)
    if check and done.returncode:
        raise proc.Failure(f"pawl {' '.join(args)} ended with {done.returncode}: {done.stderr[-2000:]}")
    return done


class Mover:
    """pawl move, started again until it ends by itself."""

    def __init__(self, source, target):
        self.args = ["move", "--from", url(source), "--to", url(target), "--json"]
        self.kills = []

    def run_until(self, phase):
        """Kills it as soon as it says that it has come to this phase. False: it ended before."""
        process = subprocess.Popen([PAWL, *self.args], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        try:
            for line in process.stderr:
                if phase in line:
                    process.kill()
                    self.kills.append(phase)
                    break
        finally:
            process.stderr.close()
            process.stdout.close()
            status = process.wait(proc.deadline(120))
        if status > 0:
            raise proc.Failure(f"the move ended with status {status} before it came to \"{phase}\"")
        return status < 0

    def run(self):
        return json.loads(pawl(*self.args).stdout)


@contextlib.contextmanager
def stores(args, directory):
    """Where the tasks are, and where they go."""
    kinds = (getattr(args, "from"), args.to)
    with contextlib.ExitStack() as stack:
        running = {kind: stack.enter_context(servers.server(kind)) for kind in servers.KINDS if kind in kinds}
        yield [running[kind].side(i) if kind in running else os.path.join(directory, f"{i}.db") for i, kind in enumerate(kinds)]


# ---- while nodes work -------------------------------------------------------------------------------------------------------------------


def live(args, found):
    dice = random.Random(args.seed)
    with stores(args, found.directory) as (source, target):
        pawl("stats", "--store", url(source), check=False)
        pawl("import", "/dev/null", "--store", url(source), check=False)  # makes it
        found.path = source
        loop = kill_loop.Loop(found, dice)
        for slot in range(3):
            loop.start_with_load(slot)
        time.sleep(args.seconds / 2)  # they have something to move
        mover = Mover(source, target)
        mover.run_until(PHASES[0])
        time.sleep(args.seconds / 2)  # life goes on at the first store
        loop.kill(0)
        mover.run_until(PHASES[1] if dice.random() < 0.5 else PHASES[2])
        mover.run_until(dice.choice(PHASES[3:]))
        report = mover.run()
        if len(mover.kills) != 3:
            raise proc.Failure(f"the mover was killed in {mover.kills} only")
        refused = pawl("enqueue", "--store", url(source), "--type", "late", check=False)
        if refused.returncode != 8 or "have moved to" not in refused.stderr:
            raise proc.Failure(f"the closed store took a task: {refused.returncode} {refused.stderr}")
        for slot in (1, 2):
            loop.end(slot, 60)
        loop.path = target
        loop.start(None, "workers=8", commands=f"drain {int(proc.deadline(60))}\ndump\n")
        loop.end(None, 120)
        print(f"{report['tasks']} tasks moved, {report['pending']} of them to run; killed while {', '.join(mover.kills)}")
        if report["tasks"] < 20 * args.seconds:
            raise proc.Failure("there was hardly anything to move")
        if not history.report(history.load(found.directory)):
            raise proc.Failure("a promise was broken")


# ---- many rows --------------------------------------------------------------------------------------------------------------------------


def digest(path):
    """Of limits and tasks, as exported; and how many tasks there are."""
    export = subprocess.Popen([PAWL, "export", "--store", url(path)], stdout=subprocess.PIPE, text=True)
    export.stdout.readline()  # the header names the store
    sum_, rows = hashlib.sha256(), 0
    for line in export.stdout:
        sum_.update(line.encode())
        rows += line.startswith('{"id":')
    if export.wait():
        raise proc.Failure("the export failed")
    return sum_.hexdigest(), rows


def fill(path, rows):
    half = rows // 2
    for mode, count in (("full", rows - half), ("schedule", half)):
        pawl("bench", "--store", url(path), "--mode", mode, "--tasks", str(count), "--batch", "1000", "--audit", "full")
    pawl("limits", "set", "mail", "15/1m", "--burst", "3", "--store", url(path))
    pawl("limits", "set", "mail", "1/h", "--key", "acme", "--store", url(path))
    pawl("limits", "pause", "audio", "--store", url(path))


def rows(args, found):
    with stores(args, found.directory) as (source, target):
        fill(source, args.rows)
        before, count = digest(source)
        mover = Mover(source, target)
        began = time.monotonic()
        for phase in (PHASES[0], PHASES[2], PHASES[4]):
            mover.run_until(phase)
        mover.run()
        took = time.monotonic() - began
        after, there = digest(target)
        print(f"{count} tasks in {took:.1f} s, killed {len(mover.kills)} times: {count / took:.0f}/s")
        if (before, count) != (after, there) or count != args.rows:
            raise proc.Failure(f"{count} tasks went in and {there} came out, and they are not the same")
        if len(mover.kills) != 3:
            raise proc.Failure(f"the mover was killed in {mover.kills} only")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("what", choices=("live", "rows"))
    parser.add_argument("--from", choices=("sqlite", *servers.KINDS), default="sqlite")
    parser.add_argument("--to", choices=("sqlite", *servers.KINDS), default="sqlite")
    parser.add_argument("--seconds", type=float, default=2)
    parser.add_argument("--rows", type=int, default=20000)
    parser.add_argument("--seed", type=int, default=proc.seed())
    args = parser.parse_args()
    print(f"seed {args.seed}", flush=True)
    with proc.nodes() as found:
        (live if args.what == "live" else rows)(args, found)


if __name__ == "__main__":
    sys.exit(main())
