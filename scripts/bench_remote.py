#!/usr/bin/python3
"""How fast remote workers drain tasks over HTTP from durable SQLite; prints a Markdown table.

    scripts/bench_remote.py [--dir BUILD] [--tasks N] [--rounds N]

Needs the targets pawl and remote_drain. Rounds take turns; the best of each is shown, with the range.
"""

import argparse
import json
import os
import re
import subprocess
import tempfile
import urllib.request

root = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
BULK = 10000


def fill(url, tasks):
    for begin in range(0, tasks, BULK):
        body = json.dumps([{"type": "noop", "payload": {"n": n}} for n in range(begin, min(tasks, begin + BULK))]).encode()
        request = urllib.request.Request(url + "/v1/tasks/bulk", body, {"Content-Type": "application/json"})
        urllib.request.urlopen(request).read()


def remote(args, workers, batch, tasks):
    """Tasks per second, and the median of claims in microseconds."""
    with tempfile.TemporaryDirectory(dir=args.dir) as folder:
        process = subprocess.Popen([f"{args.dir}/pawl", "serve", "--store", "sqlite:pawl.db", "--listen", "127.0.0.1:0"], cwd=folder,
                                   stderr=subprocess.PIPE, text=True)
        try:
            port = re.search(r"http://127\.0\.0\.1:(\d+)", process.stderr.readline())[1]
            fill(f"http://127.0.0.1:{port}", tasks)
            done = subprocess.run([f"{args.dir}/bench/remote_drain", port, str(workers), str(batch)], check=True, capture_output=True, text=True)
        finally:
            process.terminate()
            process.wait()
    drained, rate, p50, p99 = done.stdout.split()
    if int(drained) != tasks:
        raise SystemExit(f"{drained} of {tasks} tasks were drained")
    return float(rate), int(p50), int(p99)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--dir", type=os.path.abspath, default=os.path.join(root, "build"))
    parser.add_argument("--tasks", type=int, default=100000)
    parser.add_argument("--rounds", type=int, default=3)
    args = parser.parse_args()
    measures = {
        "2 workers, 500 tasks a claim": (2, 500, args.tasks),
        "2 workers, 100 tasks a claim": (2, 100, args.tasks),
        "1 worker, one task a claim": (1, 1, args.tasks // 50),
    }
    figures = {name: [] for name in measures}
    for _ in range(args.rounds):
        for name, measure in measures.items():
            figures[name].append(remote(args, *measure))
    print("| drained over HTTP, durable SQLite | tasks/s | range | a claim, p50 | p99 |\n|---|--:|--:|--:|--:|")
    for name, found in figures.items():
        rates = sorted(rate for rate, _, _ in found)
        _, p50, p99 = max(found)
        print(f"| {name} | {rates[-1]:,.0f} | {rates[0]:,.0f} to {rates[-1]:,.0f} | {p50} us | {p99} us |")


if __name__ == "__main__":
    main()
