#!/usr/bin/env python3
"""One parent, many children, and nodes that are killed while the children are told: each child runs, and runs once.

    family.py [KIND] [--children N] [--kills N]        KIND: sqlite, or that of a server

The children wait in a queue of their own, which nobody serves until all of them have been told. So whatever was killed, none of them was
running then, and once is once.
"""

import argparse
import contextlib
import os
import sqlite3
import subprocess
import sys
import tempfile
import time

import proc
import servers

PAWL = os.environ["PAWL_BIN"]


def pawl(*args, given=None, check=True):
    done = subprocess.run([PAWL, *args], input=given, capture_output=True, text=True)
    if check and done.returncode:
        sys.exit(f"pawl {' '.join(args)}: {done.returncode}\n{done.stderr}")
    return done.stdout.strip()


def worker(queue, *command, extra=()):
    return subprocess.Popen([PAWL, "work", "--queue", queue, *extra, "--", *command], stdout=subprocess.DEVNULL,
                            stderr=subprocess.DEVNULL)


class File:
    """The store, and how many children wait there."""

    def __init__(self, path):
        self.path, self.address = path, f"sqlite:{path}"

    def waiting(self):
        with contextlib.closing(sqlite3.connect(f"file:{self.path}?mode=ro", uri=True, timeout=30)) as db:
            return db.execute("SELECT count(*) FROM pawl_wait").fetchone()[0]


class Remote:
    def __init__(self, server, kind):
        self.server, self.address = server, server.url()
        self.table = "pawl.pawl_wait" if kind == "postgres" else "pawl_wait"

    def waiting(self):
        return int(self.server.sql(f"SELECT count(*) FROM {self.table}"))


@contextlib.contextmanager
def store_of(kind, folder):
    if kind == "sqlite":
        yield File(os.path.join(folder, "pawl.db"))
    else:
        with servers.server(kind) as server:
            yield Remote(server, kind)


def play(args, children):
    """False: all children were told before anybody could be killed."""
    with tempfile.TemporaryDirectory() as folder, store_of(args.kind, folder) as store:
        os.environ["PAWL_STORE"] = store.address
        parent = pawl("enqueue", "--type", "parent", "--queue", "first")
        pawl("enqueue", "--bulk", "-", "--type", "child", "--queue", "later", "--parent", parent, given="{}\n" * children)
        last = pawl("enqueue", "--type", "last", "--queue", "last", "--parent", parent)
        assert store.waiting() == children + 1, store.waiting()

        until = time.monotonic() + proc.deadline(120)
        killed, before = 0, children + 1
        while (left := store.waiting()) > 0:
            node = worker("first", "true")
            # Killed as soon as it has told some of them, while others wait.
            while (now := store.waiting()) == left and node.poll() is None and time.monotonic() < until:
                pass
            if killed < args.kills and now > 0:
                killed += 1
            elif now > 0:
                while store.waiting() > 0 and time.monotonic() < until:
                    pass
            node.kill()
            node.wait()
            assert time.monotonic() < until, f"{store.waiting()} children still wait"
            assert now < before, "nobody was told"
            before = now
        if killed == 0:
            return False
        states = pawl("stats", "--json")
        print(f"{killed} nodes killed while {children} children were told")

        count = os.path.join(folder, "runs")
        open(count, "w").close()
        pawl("work", "--once", "--queue", "later", "--", "sh", "-c", f"echo $PAWL_TASK_ID >>{count}")
        runs = open(count).read().split()
        assert len(runs) == children, f"{len(runs)} runs of {children} children\n{states}"
        assert len(set(runs)) == children, "a child ran twice"
        pawl("work", "--once", "--queue", "last", "--", "true")
        assert '"succeeded"' in pawl("tasks", "show", last, "--json")
    print("each child ran once")
    return True


def main():
    args = argparse.ArgumentParser()
    args.add_argument("kind", nargs="?", default="sqlite", choices=["sqlite", *servers.KINDS])
    args.add_argument("--children", type=int, default=4000)
    args.add_argument("--kills", type=int, default=4)
    args = args.parse_args()
    # On a busy machine looking takes longer than telling.
    assert any(play(args, args.children * more) for more in (1, 2, 4)), "nobody was killed while children were told"


if __name__ == "__main__":
    main()
