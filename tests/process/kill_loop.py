#!/usr/bin/env python3
"""Nothing acknowledged is lost: several processes dispatch and run tasks on one file, and are killed at random moments. Some are
only stopped, for up to three leases, and go on to find their tasks in other hands.

    kill_loop.py [--seconds N] [--nodes N] [--seed N]

After the last blow a clean node drains the store and tells what is in it; history.py then judges. The seed, which is printed, decides
who is hit when.
"""

import argparse
import json
import math
import os
import random
import signal
import subprocess
import sys
import time

import history
import proc


class Loop:
    def __init__(self, found, dice):
        self.directory, self.path, self.dice = found.directory, found.path, dice
        self.running = {}  # slot -> (name, process)
        self.stopped = {}  # slot -> when it goes on
        self.rounds = 0
        self.all = found.all  # for cleaning up

    def start(self, slot, *options, commands=None):
        self.rounds += 1
        name = f"n{slot}r{self.rounds}" if slot is not None else "clean"
        with open(self.file(name, "err"), "w", encoding="utf-8") as errors:
            process = subprocess.Popen(
                [proc.NODE, name, self.path, self.file(name, "jsonl"), f"lease_ms={proc.LEASE_MS}", *options],
                stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, stderr=errors, text=True)
        self.all.append(Leftover(process))
        self.running[slot] = (name, process)
        if commands:
            process.stdin.write(commands)

    def file(self, name, suffix):
        return os.path.join(self.directory, f"{name}.{suffix}")

    def say(self, event, name, status):
        with open(self.file("driver", "jsonl"), "a", encoding="utf-8") as file:
            file.write(json.dumps({"t": time.monotonic_ns() // 1000, "e": event, "name": name, "status": status}) + "\n")

    def stop(self, slot):
        name, process = self.running[slot]
        if slot in self.stopped or process.poll() is not None:
            return
        process.send_signal(signal.SIGSTOP)
        self.say("stopped", name, 0)
        self.stopped[slot] = time.monotonic() + 3 * self.dice.random() * proc.LEASE_MS / 1000

    def go_on(self, now):
        """Those whose time has come."""
        for slot in [slot for slot, until in self.stopped.items() if until <= now]:
            name, process = self.running[slot]
            del self.stopped[slot]
            self.say("continued", name, 0)
            process.send_signal(signal.SIGCONT)

    def kill(self, slot):
        name, process = self.running.pop(slot)
        self.stopped.pop(slot, None)
        if process.poll() is None:
            self.say("kill", name, 0)
            process.kill()
            self.say("killed", name, process.wait())
        else:
            self.say("exited", name, process.returncode)
            self.fail(name, f"ended by itself with status {process.returncode}")

    def end(self, slot, seconds):
        """Lets it end by itself."""
        name, process = self.running.pop(slot)
        process.stdin.close()
        try:
            self.say("exited", name, process.wait(proc.deadline(seconds)))
        except subprocess.TimeoutExpired:
            self.fail(name, f"did not end within {proc.deadline(seconds):g} s")

    def fail(self, name, what):
        with open(self.file(name, "err"), encoding="utf-8") as errors:
            raise proc.Failure(f"{name} {what}\n{errors.read()[-4000:]}")

    def start_with_load(self, slot):
        self.start(slot, f"load={self.dice.randrange(1, 1 << 30)}")

    def storm(self, slots, seconds):
        until = time.monotonic() + seconds
        for slot in range(slots):
            self.start_with_load(slot)
        while time.monotonic() < until:
            time.sleep(self.dice.choice((0.02, 0.1, 0.3, 0.6)) * self.dice.random() * proc.FACTOR)  # the moment of the next blow
            self.go_on(time.monotonic())
            fate = self.dice.random()
            if fate < 0.1:
                self.stop(self.dice.randrange(slots))
            else:
                self.kill_and_start(self.dice.sample(range(slots), slots if fate > 0.95 else 1))
        self.go_on(math.inf)

    def kill_and_start(self, victims):
        for slot in victims:
            self.kill(slot)
        for slot in victims:
            self.start_with_load(slot)

    def calm(self, slots):
        """Half of them are killed, the others may end; then one node works off what is left and tells what is there."""
        for slot in range(slots):
            if slot % 2:
                self.kill(slot)
        for slot in range(0, slots, 2):
            self.end(slot, 60)
        limit_s = int(proc.deadline(60))
        self.start(None, "workers=8", commands=f"drain {limit_s}\ndump\n")
        self.end(None, 120)


class Leftover:
    """So that proc cleans up after us."""

    def __init__(self, process):
        self.process = process

    def destroy(self):
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait()


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--seconds", type=float, default=10)
    parser.add_argument("--nodes", type=int, default=4)
    parser.add_argument("--seed", type=int, default=proc.seed())
    args = parser.parse_args()
    print(f"seed {args.seed}", flush=True)
    with proc.nodes() as found:
        loop = Loop(found, random.Random(args.seed))
        loop.storm(args.nodes, args.seconds)
        loop.calm(args.nodes)
        if not history.report(history.load(found.directory)):
            raise proc.Failure("a promise was broken")


if __name__ == "__main__":
    sys.exit(main())
