#!/usr/bin/env python3
"""Nothing acknowledged is lost on one server: nodes dispatch and run tasks, and meanwhile a random one is killed every second,
others are stopped for longer than their lease, all sessions are ended twice a second, and the server itself is restarted under
them, and later killed.

    server_storm.py KIND [--seconds N] [--nodes N] [--seed N]

One node is never hit: it must come through all of it by itself. In the end one more is killed, the others may end, and a clean
node works off what is left and tells what is there; history.py then judges. No task may have been taken from a node that lived
all the time.
"""

import random
import sys
import threading
import time

import history
import kill_loop
import proc
import servers

LEASE_MS = 2000  # nobody who lives stands still for as long


class Storm(kill_loop.Loop):
    def __init__(self, found, server, dice):
        super().__init__(found, dice)
        self.server = server
        self.over = threading.Event()
        self.ended_sessions = self.outages = 0
        self.broken = None  # what a thread of ours failed with

    def start(self, slot, *options, commands=None):
        super().start(slot, *options, f"lease_ms={LEASE_MS}", commands=commands)  # the last one counts

    def stop(self, slot):
        super().stop(slot)
        if slot in self.stopped:
            self.stopped[slot] = time.monotonic() + (1.2 + self.dice.random()) * LEASE_MS / 1000

    def end_sessions(self):
        while not self.over.wait(0.5):
            self.ended_sessions += self.server.end_sessions()

    def break_server(self, seconds):
        try:
            if not self.over.wait(seconds / 3):
                self.server.restart()
                self.outages += 1
            if not self.over.wait(seconds / 3):
                self.server.kill()
                self.server.start()
                self.outages += 1
        except Exception as error:  # the main thread tells
            self.broken = error

    def storm(self, slots, seconds):
        """The last slot is the one that is never hit."""
        threads = [threading.Thread(target=self.end_sessions), threading.Thread(target=self.break_server, args=(seconds,))]
        for slot in range(slots):
            self.start_with_load(slot)
        for thread in threads:
            thread.start()
        try:
            self.hit_nodes(slots, time.monotonic() + seconds, threads[1])
        finally:
            self.over.set()
            for thread in threads:
                thread.join()
        if self.broken:
            raise self.broken
        self.go_on(float("inf"))

    def hit_nodes(self, slots, until, breaking):
        while time.monotonic() < until or breaking.is_alive():
            time.sleep(1)  # the moment of the next blow
            self.go_on(time.monotonic())
            running = [slot for slot in range(slots - 1) if slot not in self.stopped]
            victim = self.dice.choice(running)
            if len(running) > 1 and not self.stopped:
                self.stop(self.dice.choice([slot for slot in running if slot != victim]))
            self.kill_and_start([victim])

    def calm(self, slots):
        self.kill(0)
        for slot in range(1, slots):
            self.end(slot, 60)
        self.start(None, "workers=8", commands=f"drain {int(proc.deadline(60))}\ndump\n")
        self.end(None, 120)


def living_rescued(checker):
    """Runs that another node took over although their process was never killed or stopped before."""
    found = []
    for runs in checker.runs.values():
        for run, after in zip(runs, runs[1:]):
            if run.accepted is None and checker.cause(run, after) == "a lost lease":
                found.append(f"task {run.id}: {run.process}/{run.fence} lost it to {after.process}/{after.fence}")
    return found


def main():
    parser = servers.parser(__doc__)
    parser.add_argument("--seconds", type=float, default=10)
    parser.add_argument("--nodes", type=int, default=4)
    parser.add_argument("--seed", type=int, default=proc.seed())
    args = parser.parse_args()
    print(f"seed {args.seed}", flush=True)
    with servers.nodes(args.kind) as (found, server):
        storm = Storm(found, server, random.Random(args.seed))
        storm.storm(args.nodes, args.seconds)
        storm.calm(args.nodes)
        checker = history.load(found.directory)
        fine = history.report(checker)
        print(f"{storm.ended_sessions} sessions ended, the server broken {storm.outages} times")
        living = living_rescued(checker)
        if living:
            raise proc.Failure("nodes that lived were rescued:\n  " + "\n  ".join(living[:20]))
        if not fine:
            raise proc.Failure("a promise was broken")
        if not storm.ended_sessions or storm.outages != 2:
            raise proc.Failure("the storm did not happen")


if __name__ == "__main__":
    sys.exit(main())
