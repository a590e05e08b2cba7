#!/usr/bin/env python3
"""What limits cost, and what floods do to others; prints a Markdown table.

    scripts/bench_limits.py [--dir BUILD] [--short] [--part PART] [--rounds N] [STORE...]

STORE is sqlite, postgres, mysql or limiter (no store: the local one); all of them by default. Servers are started for this and removed. Needs the
targets pawl, limit_bench and the modules of the servers. Latencies are from dispatch to start, p50 / p99.
"""

import argparse
import contextlib
import json
import os
import pathlib
import subprocess
import sys
import tempfile
from statistics import median

ROOT = pathlib.Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "tests" / "process"))
import servers  # noqa: E402  pylint: disable=wrong-import-position

NAMES = {"sqlite": "SQLite", "postgres": "PostgreSQL", "mysql": "MariaDB"}


def ms(said):
    return f"{said['p50'] / 1000:.2f} / {said['p99'] / 1000:.2f} ms"


class Limits:
    def __init__(self, args, server):
        self.args, self.server, self.made = args, server, 0
        self.few, self.many = (2000, 2000) if args.short else (30000, 100000)
        self.life = ("--tasks", self.few, "--batch", 100, "--producers", 2)
        self.paced = ("--mode", "latency", "--rate", 100, "--tasks", 100 if args.short else 500, "--producers", 4)

    def pawl(self, *words):
        command = [self.args.dir / "pawl", *map(str, words)]
        return subprocess.run(command, check=True, capture_output=True, text=True, env={**os.environ, "PAWL_MODULES": str(self.args.dir)}).stdout

    def bench(self, *options, policies=None):
        with tempfile.TemporaryDirectory(dir=self.args.dir) as folder:
            self.made += 1
            store = self.server.side(self.made) if self.server else f"sqlite:{folder}/{self.made}.db"
            for i in range(10 if policies is not None else 0):  # stores with and without have been opened equally often
                self.pawl("limits", "set", f"other-{i}", "15/1m", "--store", store)
                self.pawl("limits", *(("running", f"other-{i}", "4") if i < policies else ("drop", f"other-{i}")), "--store", store)
            return json.loads(self.pawl("bench", "--json", "--store", store, *options))

    def others(self):
        """Without any policy, and with policies of other types: the medians of rounds, each of which begins with the other one."""
        runs = {0: [], 10: []}
        for i in range(1 if self.args.short else max(5, self.args.rounds)):
            for policies in ((0, 10), (10, 0))[i % 2]:
                runs[policies].append(self.bench(*self.life, policies=policies))
        speed, cost = ([median(run[figure] for run in runs[policies]) for policies in (0, 10)] for figure in ("tasks_per_s", "cpu_s_per_1000"))
        yield "tasks without a policy, and no policy stored", f"{speed[0]:,.0f}/s, {cost[0] * 1000:.1f} us of the processor each"
        yield "the same, ten other types have a rate and a concurrency limit", (
            f"{speed[1]:,.0f}/s ({speed[1] / speed[0]:.2f}), {cost[1] * 1000:.1f} us ({cost[1] / cost[0]:.2f})")

    def keys(self):
        for what, options in (("tasks without a rate key", ()), ("tasks of 1,000 hot rate keys", ("--rate-keys", 1000))):
            said = self.bench(*self.life, *options)
            yield what, f"{said['tasks_per_s']:,.0f}/s, {said['commits_per_task']:.3f} commits each"

    def beside(self, *runs):
        """Latencies idle, then beside floods, and their ratios to idle: medians of rounds, for the disk stalls now and then."""
        said = {what: [] for what, _ in runs}
        for _ in range(self.args.rounds):
            for what, options in runs:
                said[what].append(self.bench(*self.paced, *options)["start_us"])
        alone = None
        for what, latencies in said.items():
            middle = {p: median(latency[p] for latency in latencies) for p in ("p50", "p99")}
            alone = alone or middle
            yield what, ms(middle) + (f" ({middle['p50'] / alone['p50']:.2f} / {middle['p99'] / alone['p99']:.2f})" if middle is not alone else "")

    def exhausted(self):
        keys = ("--rate-keys", 1000)
        flood = (*keys, "--throttled", self.many)
        yield from self.beside(("idle, tasks of 1,000 rate keys", keys), (f"beside {self.many:,} tasks of an exhausted key", flood),
                               ("the same, while they are given their slots", (*flood, "--in-flood")))
        apart = ("--apart", "--nodes", 2)
        yield from self.beside(("idle, dispatched by another process", (*keys, *apart)),
                               ("the same, while the others are given their slots", (*flood, *apart, "--in-flood")))

    def turns(self):
        yield from self.beside(("tenants take turns: idle", ("--tenant-flood", 1)),
                               (f"beside {self.many:,} due tasks of another tenant", ("--tenant-flood", self.many)))

    def rows(self):
        for part in (self.args.part,) if self.args.part else PARTS:
            yield from getattr(self, part)()


PARTS = ("others", "keys", "exhausted", "turns")


def limiter(args):
    program = args.dir / "bench" / "limit_bench"
    done = subprocess.run([program, *(["100000"] if args.short else [])], check=True, capture_output=True, text=True)
    print(f"\nThe local limiter:\n\n```\n{done.stdout.strip()}\n```")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--dir", type=pathlib.Path, default=ROOT / "build")
    parser.add_argument("--short", action="store_true")
    parser.add_argument("--part", choices=PARTS, help="that alone")
    parser.add_argument("--rounds", type=int, default=1, help="of which the medians count; of throughput five at least")
    parser.add_argument("stores", nargs="*", default=[*NAMES, "limiter"])
    args = parser.parse_args()
    args.dir = args.dir.resolve()
    print("| store | measure | figure (latencies: p50 / p99) |\n|---|---|---|")
    for kind in (kind for kind in args.stores if kind in NAMES):
        with contextlib.nullcontext() if kind == "sqlite" else servers.server(kind) as server:
            for what, figure in Limits(args, server).rows():
                print(f"| {NAMES[kind]} | {what} | {figure} |", flush=True)
    if "limiter" in args.stores:
        limiter(args)


if __name__ == "__main__":
    main()
