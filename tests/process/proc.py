"""Node processes for tests: start them, tell them something, wait for a line of their history."""

import contextlib
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time

FACTOR = float(os.environ.get("PAWL_TIMEOUT_FACTOR", "1"))
NODE = os.environ.get("PAWL_TEST_NODE", "")
LEASE_MS = 1500  # who works may stand still for a while on a busy machine, and keeps his tasks


def deadline(seconds):
    """For what should come: as long as nothing takes that happens at all, on a busy machine neither."""
    return seconds * FACTOR * 3


def seed():
    """Where random choices begin: PAWL_SEED, a number, or `random` for another one each time, as in the long forms; else always the same."""
    given = os.environ.get("PAWL_SEED", "1")
    return int.from_bytes(os.urandom(4), "little") if given == "random" else int(given)


class Failure(Exception):
    pass


def in_time(limit, measure):
    """The answer of `measure`, which must be `limit` at most. A machine that stands still for a moment says nothing: there are three tries."""
    found = []
    while len(found) < 3:
        found.append(measure())
        if found[-1] <= limit:
            return found[-1]
    raise Failure(f"three times in a row not within {limit:g}: {', '.join(f'{value:g}' for value in found)}")


class Node:
    """A node whose history comes through a pipe. A line is found once; lines of different threads come in any order."""

    def __init__(self, name, path, program=NODE, environment=None, **options):
        if not program:
            sys.exit("PAWL_TEST_NODE does not name the node program (process_node in the build folder)")
        args = [program, name, path, "-"] + [f"{key}={value}" for key, value in options.items()]
        self.name = name
        self.errors = tempfile.TemporaryFile("w+")
        self.process = subprocess.Popen(args, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self.errors, text=True,
                                        env={**os.environ, **(environment or {})})
        self.lines, self.found, self.ended = [], set(), False
        self.changed = threading.Condition()
        self.reader = threading.Thread(target=self.read, daemon=True)
        self.reader.start()

    def read(self):
        for line in self.process.stdout:
            with self.changed:
                self.lines.append(json.loads(line))
                self.changed.notify_all()
        with self.changed:
            self.ended = True
            self.changed.notify_all()

    def tell(self, command):
        self.process.stdin.write(command + "\n")
        self.process.stdin.flush()

    def look(self, wanted, after):
        for i in range(self.lines.index(after) + 1 if after else 0, len(self.lines)):
            if i not in self.found and all(self.lines[i].get(key) == value for key, value in wanted.items()):
                return i
        return None

    def wait(self, seconds=30, after=None, **wanted):
        """The next line with these values, of those behind the line `after`; None if it does not come in time."""
        until = time.monotonic() + deadline(seconds)
        with self.changed:
            while True:
                found = self.look(wanted, after)
                if found is not None:
                    self.found.add(found)
                    return self.lines[found]
                left = until - time.monotonic()
                if left <= 0 or self.ended:
                    return None
                self.changed.wait(left)

    def expect(self, seconds=30, after=None, **wanted):
        line = self.wait(seconds, after, **wanted)
        if not line:
            raise Failure(f"{self.name} did not say {wanted} within {deadline(seconds):g} s; its last words:\n  " +
                          "\n  ".join(str(line) for line in self.lines[-8:]) + "\n" + self.said())
        return line

    def has(self, **wanted):
        """All lines with these values, found before or not."""
        with self.changed:
            return [line for line in self.lines if all(line.get(key) == value for key, value in wanted.items())]

    def said(self):
        self.errors.seek(0)
        return self.errors.read()

    def close(self):
        """Lets it end by itself; it must do so well."""
        self.process.stdin.close()
        try:
            status = self.process.wait(deadline(60))
        except subprocess.TimeoutExpired:
            raise Failure(f"{self.name} did not end within {deadline(60):g} s\n{self.said()}") from None
        self.reader.join()
        if status:
            raise Failure(f"{self.name} ended with status {status}\n{self.said()}")

    def destroy(self):
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait()


class Nodes:
    """All nodes of a test on one file in a directory of their own; whatever happens, none of them is left behind."""

    def __init__(self):
        self.directory = tempfile.mkdtemp(prefix="pawl-process-")
        self.path = os.path.join(self.directory, "test.db")
        self.all = []

    def launch(self, name, **options):  # those of Node
        options.setdefault("lease_ms", LEASE_MS)
        node = Node(name, self.path, **options)
        self.all.append(node)
        return node

    def start(self, name, **options):
        node = self.launch(name, **options)
        node.expect(e="started")
        return node

    def clean_up(self, keep):
        for node in self.all:
            node.destroy()
        if keep:
            print(f"the files are kept in {self.directory}")
        else:
            shutil.rmtree(self.directory, ignore_errors=True)


@contextlib.contextmanager
def nodes():
    """`with nodes() as n:`; a Failure inside ends the program with its message."""
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("ended by a signal"))
    found = Nodes()
    failed = False
    try:
        yield found
    except Failure as failure:
        failed = True
        sys.exit(str(failure))
    finally:
        found.clean_up(failed)
