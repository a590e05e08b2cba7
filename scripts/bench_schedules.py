#!/usr/bin/env python3
"""What schedules cost that are not due: starts a worker beside many of them and beside none; prints a Markdown table.

    scripts/bench_schedules.py [--dir BUILD] [--count N] [--seconds N] [STORE...]

STORE is sqlite, postgres or mysql; all of them by default. Servers are started for this and removed. "start" is the time from the start of
the process until its first task has run; questions are what the server was asked, commits on PostgreSQL.
"""

import argparse
import contextlib
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "tests" / "process"))
import servers  # noqa: E402  pylint: disable=wrong-import-position

TICKS = os.sysconf("SC_CLK_TCK")


def asked(server):
    """What the server has done so far for others; None: there is no server."""
    if not server:
        return None
    if server.kind == "mysql":
        return int(server.sql("SELECT variable_value - 1 FROM information_schema.global_status WHERE variable_name = 'QUESTIONS'"))
    return int(server.sql("SELECT sum(xact_commit + xact_rollback) FROM pg_stat_database"))


def cpu_s(pid):
    fields = pathlib.Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / TICKS


def peak_mib(pid):
    for line in pathlib.Path(f"/proc/{pid}/status").read_text(encoding="utf-8").splitlines():
        if line.startswith("VmHWM"):
            return int(line.split()[1]) / 1024
    return 0


class Schedules:
    def __init__(self, args):
        self.args, self.env = args, {**os.environ, "PAWL_MODULES": str(args.dir)}

    def pawl(self, *words):
        return subprocess.run([self.args.dir / "pawl", *words], check=True, capture_output=True, text=True, env=self.env).stdout

    def fill(self, url, folder):
        """One schedule of each of so many names, by an import of copies."""
        self.pawl("schedules", "add", "first", "--type", "report", "--cron", "0 9 1 1 *", "--zone", "Europe/Berlin", "--store", url)
        lines = self.pawl("export", "--store", url).splitlines()
        one = next(json.loads(line) for line in lines if line.startswith('{"pawl_schedule"'))
        path = pathlib.Path(folder) / "schedules.ndjson"
        with open(path, "w", encoding="utf-8") as out:
            print(lines[0], file=out)
            for i in range(1, self.args.count):
                print(json.dumps({**one, "pawl_schedule": f"far.{i}"}, separators=(",", ":")), file=out)
        self.pawl("import", str(path), "--cut", "--store", url)

    def watch(self, url, server):
        """Start in seconds, questions and CPU time a second while nothing is due, peak memory in MiB."""
        self.pawl("enqueue", "--type", "hello", "--store", url)
        began = time.monotonic()
        with subprocess.Popen([self.args.dir / "pawl", "work", "--store", url, "--json", "--", "true"], stdout=subprocess.PIPE, text=True,
                              env=self.env) as worker:
            worker.stdout.readline()
            start = time.monotonic() - began
            time.sleep(8)  # it looks more often for a while, and what a server counts comes late
            questions, cpu, began = asked(server), cpu_s(worker.pid), time.monotonic()
            time.sleep(self.args.seconds)
            took = time.monotonic() - began
            questions = None if questions is None else (asked(server) - questions) / took
            cpu, peak = (cpu_s(worker.pid) - cpu) / took, peak_mib(worker.pid)
            worker.terminate()
        return start, questions, cpu, peak

    def rows(self, kind):
        with tempfile.TemporaryDirectory(dir=self.args.dir) as folder, contextlib.ExitStack() as stack:
            server = stack.enter_context(servers.server(kind)) if kind != "sqlite" else None
            for side, count in enumerate((0, self.args.count)):
                url = server.side(side) if server else f"sqlite:{folder}/{side}.db"
                if count:
                    self.fill(url, folder)
                yield count, self.watch(url, server)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--dir", type=pathlib.Path, default=ROOT / "build")
    parser.add_argument("--count", type=int, default=100_000)
    parser.add_argument("--seconds", type=float, default=10)
    parser.add_argument("stores", nargs="*", default=["sqlite", "postgres", "mysql"])
    args = parser.parse_args()
    args.dir = args.dir.resolve()
    print("| store | schedules, none due | start | peak memory | questions a second | CPU |\n|---|---|---|---|---|---|")
    for kind in args.stores:
        for count, (start, questions, cpu, peak) in Schedules(args).rows(kind):
            said = "" if questions is None else f"{questions:.1f}"
            print(f"| {kind} | {count:,} | {start:.2f} s | {peak:.1f} MiB | {said} | {cpu * 100:.2f} % |", flush=True)


if __name__ == "__main__":
    sys.exit(main())
