#!/usr/bin/env python3
"""What limits cost, and what floods do to others; prints a Markdown table.

    scripts/bench_limits.py [--dir BUILD] [--postgres URL] [--short]

Needs the targets pawl, limit_bench and, with --postgres, the module of PostgreSQL; the server's schemas named bench_* are made there, and
are not removed.
"""

import argparse
import json
import os
import pathlib
import subprocess
import tempfile

ROOT = pathlib.Path(__file__).resolve().parent.parent


class Limits:
    def __init__(self, args):
        self.args, self.made = args, 0

    def store(self, kind, folder):
        self.made += 1
        if kind == "SQLite":
            return f"sqlite:{folder}/{self.made}.db"
        mark = "&" if "?" in self.args.postgres else "?"
        return f"{self.args.postgres}{mark}pawl_schema=bench_{os.getpid()}_{self.made}"

    def pawl(self, *words):
        command = [self.args.dir / "pawl", *map(str, words)]
        return subprocess.run(command, check=True, capture_output=True, text=True, env={**os.environ, "PAWL_MODULES": str(self.args.dir)}).stdout

    def bench(self, kind, *options, policies=0):
        with tempfile.TemporaryDirectory(dir=self.args.dir) as folder:
            store = self.store(kind, folder)
            for i in range(policies):
                self.pawl("limits", "set", f"other-{i}", "15/1m", "--store", store)
                self.pawl("limits", "running", f"other-{i}", "4", "--store", store)
            return json.loads(self.pawl("bench", "--json", "--store", store, *options))

    def unlimited(self, kind, options, rounds):
        """Without any policy, and with policies of other types: the best of rounds that take turns."""
        plain, beside = [], []
        for _ in range(rounds):
            plain.append(self.bench(kind, *options))
            beside.append(self.bench(kind, *options, policies=10))
        for figure, best in (("tasks_per_s", max), ("cpu_s_per_1000", min)):
            yield best(run[figure] for run in plain), best(run[figure] for run in beside)

    def rows(self, kind):
        few, many = (2000, 2000) if self.args.short else (30000, 100000)
        life = ("--tasks", few, "--batch", 100, "--producers", 2)
        speed, cost = self.unlimited(kind, life, 1 if self.args.short else 5)
        yield "tasks without a policy, and no policy stored", f"{speed[0]:,.0f}/s, {cost[0] * 1000:.1f} us of the processor each"
        yield "the same, ten other types have a rate and a concurrency limit", (
            f"{speed[1]:,.0f}/s ({speed[1] / speed[0]:.2f}), {cost[1] * 1000:.1f} us ({cost[1] / cost[0]:.2f})")
        plain, keyed = self.bench(kind, *life), self.bench(kind, *life, "--rate-keys", 1000)
        yield "tasks without a rate key", f"{plain['tasks_per_s']:,.0f}/s, {plain['commits_per_task']:.3f} commits each"
        yield "tasks of 1,000 hot rate keys", f"{keyed['tasks_per_s']:,.0f}/s, {keyed['commits_per_task']:.3f} commits each"
        paced = ("--mode", "latency", "--rate", 100, "--tasks", 100 if self.args.short else 500, "--producers", 4)
        keys = (*paced, "--rate-keys", 1000)
        for what, options in (("dispatch to start, idle", keys), (f"beside {many:,} tasks of an exhausted key", (*keys, "--throttled", many)),
                              ("the same, while they are given their slots", (*keys, "--throttled", many, "--in-flood")),
                              ("tenants take turns: idle", (*paced, "--tenant-flood", 1)),
                              (f"beside {many:,} due tasks of another tenant", (*paced, "--tenant-flood", many))):
            said = self.bench(kind, *options)["start_us"]
            yield what, f"{said['p50'] / 1000:.2f} / {said['p99'] / 1000:.2f} ms"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--dir", type=pathlib.Path, default=ROOT / "build")
    parser.add_argument("--postgres")
    parser.add_argument("--short", action="store_true")
    parser.add_argument("--only", choices=["SQLite", "PostgreSQL", "limiter"], help="one part of it")
    args = parser.parse_args()
    args.dir = args.dir.resolve()
    print("| store | measure | figure (latencies: p50 / p99) |\n|---|---|---|")
    for kind in ("SQLite", "PostgreSQL") if args.postgres else ("SQLite",):
        if args.only not in (None, kind):
            continue
        for what, figure in Limits(args).rows(kind):
            print(f"| {kind} | {what} | {figure} |", flush=True)
    if args.only not in (None, "limiter"):
        return
    program = args.dir / "bench" / "limit_bench"
    done = subprocess.run([program, *(["100000"] if args.short else [])], check=True, capture_output=True, text=True)
    print(f"\nThe local limiter:\n\n```\n{done.stdout.strip()}\n```")


if __name__ == "__main__":
    main()
