"""A server for tests: `pawl serve` on a port of its own, in a folder of its own, and a plain client."""

import http.client
import json
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time

PAWL = os.environ.get("PAWL_BIN") or sys.exit("PAWL_BIN does not say where the binary is")
FACTOR = float(os.environ.get("PAWL_TIMEOUT_FACTOR", "1"))
PATIENCE = 90 * FACTOR  # seconds; nothing that happens at all comes near it, on a busy machine neither


class Answer:
    def __init__(self, status, headers, body):
        self.status, self.headers, self.body = status, headers, body

    @property
    def json(self):
        return json.loads(self.body)

    def __repr__(self):
        return f"{self.status} {self.body[:300]!r}"


class Server:
    """Use it in a `with`: stops it with SIGTERM, and fails if it does not end well."""

    def __init__(self, *options, store="sqlite:pawl.db", listen="127.0.0.1:0", environment=None, folder=None, sockets=()):
        self.options, self.store, self.listen = list(options), store, listen
        self.environment = environment or {}
        self.own_folder = folder is None
        self.folder = folder or tempfile.mkdtemp(prefix="pawl-server-")
        self.process, self.lines, self.address, self.sockets = None, [], None, sockets
        self.changed = threading.Condition()

    def start(self):
        command = [PAWL, "serve", "--store", self.store] + (["--listen", self.listen] if self.listen else []) + self.options
        environment = {key: value for key, value in os.environ.items() if not key.startswith("PAWL_") and key != "DATABASE_URL"}
        self.process = subprocess.Popen(command, cwd=self.folder, env={**environment, **self.environment}, stderr=subprocess.PIPE,
                                        stdout=subprocess.DEVNULL, text=True, pass_fds=self.sockets)
        threading.Thread(target=self.read, daemon=True).start()
        line = self.wait_line("listening on ")
        found = re.search(r"https?://(\S+):(\d+)", line)
        if found:
            self.address = (found[1].strip("[]"), int(found[2]))
        return self

    def start_again(self):
        """Once it has ended, at the same address."""
        self.process.wait(PATIENCE)
        with self.changed:
            self.changed.wait_for(lambda: self.lines[-1:] == [None], PATIENCE)
            self.lines.clear()
        self.listen = "%s:%d" % self.address
        return self.start()

    def read(self):
        for line in self.process.stderr:
            with self.changed:
                self.lines.append(line.rstrip("\n"))
                self.changed.notify_all()
        with self.changed:
            self.lines.append(None)
            self.changed.notify_all()

    def wait_line(self, text):
        deadline = time.monotonic() + PATIENCE
        with self.changed:
            while True:
                for line in self.lines:
                    if line is None:
                        raise AssertionError(f"the server ended: {self.lines[-6:]}")
                    if text in line:
                        return line
                if not self.changed.wait(deadline - time.monotonic()):
                    raise AssertionError(f"{text!r} did not come: {self.lines[-6:]}")

    def request(self, method, path, body=None, headers=None):
        connection = http.client.HTTPConnection(*self.address, timeout=PATIENCE)
        headers = dict(headers or {})
        if body is not None and not isinstance(body, (bytes, str)):
            body = json.dumps(body)
        if body is not None:
            headers.setdefault("Content-Type", "application/json")
        try:
            connection.request(method, path, body, headers)
            answer = connection.getresponse()
            return Answer(answer.status, dict(answer.getheaders()), answer.read())
        finally:
            connection.close()

    def get(self, path, **headers):
        return self.request("GET", path, headers=headers)

    def post(self, path, body=None, **headers):
        return self.request("POST", path, body, headers)

    def stop(self, signals=(signal.SIGTERM,)):
        if self.process.poll() is None:
            for number in signals:
                self.process.send_signal(number)
        return self.process.wait(PATIENCE)

    def __enter__(self):
        try:
            return self.start()
        except BaseException:
            self.clean()
            raise

    def __exit__(self, kind, error, trace):
        try:
            code = self.stop()
        finally:
            self.clean()
        if not kind and code:
            raise AssertionError(f"the server ended with {code}: {self.lines[-6:]}")

    def clean(self):
        if self.process and self.process.poll() is None:
            self.process.kill()
            self.process.wait()
        if self.own_folder:
            shutil.rmtree(self.folder, ignore_errors=True)


def pawl(*arguments, folder=None, code=0, environment=None):
    """Runs the command line and gives back what it printed."""
    done = subprocess.run([PAWL, *arguments], cwd=folder, capture_output=True, text=True, env={**os.environ, **(environment or {})})
    if done.returncode != code:
        raise AssertionError(f"pawl {' '.join(arguments)} ended with {done.returncode}: {done.stderr}")
    return done.stdout.strip() if code == 0 else done.stderr.strip()


def until(what, look):
    """Looks again until it is true."""
    deadline = time.monotonic() + PATIENCE
    while time.monotonic() < deadline:
        found = look()
        if found:
            return found
        time.sleep(0.01)
    raise AssertionError(f"did not happen: {what}")


class Checks:
    def __init__(self):
        self.count, self.failed = 0, 0

    def that(self, what, holds, shown=None):
        self.count += 1
        if not holds:
            self.failed += 1
            print(f"not ok - {what}: {shown!r}")

    def equal(self, what, got, wanted):
        self.that(what, got == wanted, {"got": got, "wanted": wanted})

    def end(self):
        print(f"{self.count} checks, {self.failed} failed")
        return 1 if self.failed or not self.count else 0
