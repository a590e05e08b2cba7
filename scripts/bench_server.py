#!/usr/bin/python3
"""How many tasks come in over HTTP on durable SQLite, beside beanstalkd with its log synced for every job; prints a Markdown table.

    scripts/bench_server.py [--dir BUILD] [--seconds N] [--rounds N]

Needs the targets pawl, http_load and peer_beanstalk. Rounds take turns; the best of each is shown, with the range.
"""

import argparse
import contextlib
import os
import re
import subprocess
import sys
import tempfile

root = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
sys.path.insert(0, os.path.join(root, "bench", "peers"))
import peers  # noqa: E402


@contextlib.contextmanager
def server(build):
    with tempfile.TemporaryDirectory(dir=build) as folder:
        process = subprocess.Popen([f"{build}/pawl", "serve", "--store", "sqlite:pawl.db", "--listen", "127.0.0.1:0"], cwd=folder,
                                   stderr=subprocess.PIPE, text=True)
        try:
            yield re.search(r"http://127\.0\.0\.1:(\d+)", process.stderr.readline())[1]
        finally:
            process.terminate()
            process.wait()


def over_http(args, batch):
    with server(args.dir) as port:
        done = subprocess.run([f"{args.dir}/bench/http_load", port, "64", str(batch), str(args.seconds)], check=True, capture_output=True, text=True)
    return float(done.stdout.split()[0])


def beanstalk(args):
    with peers.beanstalkd() as port:
        done = subprocess.run([f"{args.dir}/bench/peer_beanstalk", port, "add", str(args.seconds * 2500)], check=True, capture_output=True, text=True)
    return float(done.stdout.split()[0])


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--dir", type=os.path.abspath, default=os.path.join(root, "build"))
    parser.add_argument("--seconds", type=int, default=4)
    parser.add_argument("--rounds", type=int, default=3)
    args = parser.parse_args()
    measures = {
        "HTTP, 64 connections, one task a request": lambda: over_http(args, 1),
        "HTTP, 64 connections, 100 tasks a request": lambda: over_http(args, 100),
        "beanstalkd -b -f 0, 64 connections, one task a put": lambda: beanstalk(args),
    }
    figures = {name: [] for name in measures}
    for _ in range(args.rounds):
        for name, measure in measures.items():
            try:
                figures[name].append(measure())
            except (peers.Failed, OSError, subprocess.CalledProcessError) as error:
                print(f"{name}: {error}", file=sys.stderr)
    print("| measure | best | range |\n|---|---|---|")
    for name, values in figures.items():
        if values:
            print(f"| {name} | {max(values):,.0f}/s | {min(values):,.0f} to {max(values):,.0f} |")


if __name__ == "__main__":
    main()
