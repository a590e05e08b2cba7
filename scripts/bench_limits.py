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

    def bench(self, kind, *options):
        with tempfile.TemporaryDirectory(dir=self.args.dir) as folder:
            command = [self.args.dir / "pawl", "bench", "--json", "--store", self.store(kind, folder), *map(str, options)]
            done = subprocess.run(command, check=True, capture_output=True, text=True, env={**os.environ, "PAWL_MODULES": str(self.args.dir)})
        return json.loads(done.stdout)

    def rows(self, kind):
        few, many = (2000, 2000) if self.args.short else (30000, 100000)
        life = ("--tasks", few, "--batch", 100, "--producers", 2)
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
    args = parser.parse_args()
    args.dir = args.dir.resolve()
    print("| store | measure | figure (latencies: p50 / p99) |\n|---|---|---|")
    for kind in ("SQLite", "PostgreSQL") if args.postgres else ("SQLite",):
        for what, figure in Limits(args).rows(kind):
            print(f"| {kind} | {what} | {figure} |", flush=True)
    program = args.dir / "bench" / "limit_bench"
    done = subprocess.run([program, *(["100000"] if args.short else [])], check=True, capture_output=True, text=True)
    print(f"\nThe local limiter:\n\n```\n{done.stdout.strip()}\n```")


if __name__ == "__main__":
    main()
