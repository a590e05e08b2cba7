"""Other task systems on this machine: starts their servers with durable settings, runs the programs of this folder, answers figures.

What is not installed is skipped; `bench/peers/setup.sh` installs it. Servers run on data of their own, on loopback or a unix socket, and
are stopped again.
"""

import contextlib
import glob
import json
import os
import pathlib
import shutil
import signal
import socket
import subprocess
import tempfile
import time

HERE = pathlib.Path(__file__).resolve().parent
MEASURES = ("life", "drain", "add")


class Missing(Exception):
    """What would have to be installed."""


class Failed(Exception):
    """It is installed and does not work."""


def command(name):
    found = shutil.which(name)
    if not found:
        raise Missing(name)
    return found


@contextlib.contextmanager
def folder():
    """On a disk, and open to other users: PostgreSQL does not run as root."""
    path = pathlib.Path(tempfile.mkdtemp(prefix="pawl-peer-", dir="/var/tmp"))
    path.chmod(0o755)
    try:
        yield path
    finally:
        shutil.rmtree(path, ignore_errors=True)


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


@contextlib.contextmanager
def listening(args, port):
    server = subprocess.Popen(args, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        until = time.monotonic() + 10
        while True:
            with socket.socket() as s:
                if s.connect_ex(("127.0.0.1", port)) == 0:
                    break
            if server.poll() is not None or time.monotonic() > until:
                raise Failed(f"{args[0]} does not start")
            time.sleep(0.02)
        yield str(port)
    finally:
        server.terminate()
        server.wait()


@contextlib.contextmanager
def beanstalkd():
    program = command("beanstalkd")
    with folder() as data:
        port = free_port()
        with listening([program, "-l", "127.0.0.1", "-p", str(port), "-b", str(data), "-f", "0"], port) as server:
            yield server


@contextlib.contextmanager
def redis():
    program = command("redis-server")
    with folder() as data:
        port = free_port()
        args = ["--port", str(port), "--bind", "127.0.0.1", "--dir", str(data)]
        with listening([program, *args, "--save", "", "--appendonly", "yes", "--appendfsync", "always"], port) as server:
            yield server


def postgres_folder():
    found = sorted(glob.glob("/usr/lib/postgresql/*/bin"), key=lambda path: float(path.split("/")[4]))
    if found:
        return found[-1]
    return os.path.dirname(command("initdb"))


@contextlib.contextmanager
def postgres():
    programs = postgres_folder()
    as_user = ["runuser", "-u", "postgres", "--"] if os.getuid() == 0 else []
    with folder() as data:
        if as_user:
            shutil.chown(data, "postgres")
        run = lambda *args: subprocess.run([*as_user, *args], check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, cwd="/")
        control = [f"{programs}/pg_ctl", "-D", f"{data}/db", "-w", "-l", f"{data}/log"]
        run(f"{programs}/initdb", "-D", f"{data}/db", "-U", "postgres", "-A", "trust", "-E", "UTF8", "--locale=C.UTF-8")
        run(*control, "-o", f"-c listen_addresses='' -c unix_socket_directories={data}", "start")
        try:
            yield str(data)
        finally:
            run(*control, "-m", "fast", "stop")


def node(packages):
    found = glob.glob(f"{packages}/node_modules/node-linux-*/bin/node")
    return found[0] if found else command("node")


def package_version(packages, name):
    manifest = packages / "node_modules" / name / "package.json"
    if not manifest.exists():
        raise Missing(f"{name} in {packages}")
    return json.loads(manifest.read_text())["version"]


def measure(args, environment=None):
    """Tasks per second. A peer's program that hangs is ended with its children."""
    process = subprocess.Popen(args, stdout=subprocess.PIPE, env={**os.environ, **(environment or {})}, text=True, start_new_session=True)
    try:
        said, _ = process.communicate(timeout=300)
    except BaseException as error:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        if isinstance(error, subprocess.TimeoutExpired):
            raise Failed("took longer than five minutes") from None
        raise
    if process.returncode:
        raise Failed(f"{' '.join(map(str, args))} ended with status {process.returncode}")
    return float(said)


class Peer:
    """A task system: how its server is started, how many tasks each measure has, and its program: ours in C, or in node with a package."""

    def __init__(self, name, settings, server, counts, script=None):
        self.name, self.settings, self.server, self.script = name, settings, server, script
        self.counts = dict(zip(MEASURES, counts))

    def version(self, packages):
        return f"{self.name} {package_version(packages, self.name)}" if self.script else self.name

    def run(self, packages, program, what, scale):
        """Tasks per second; raises Missing."""
        count = str(max(100, int(self.counts[what] * scale)))
        self.version(packages)
        with self.server() as server:
            if not self.script:
                return measure([program, server, what, count])
            return measure([node(packages), "--no-warnings", HERE / self.script, what, count], {"PEERS": str(packages), "SERVER": server})


PEERS = (
    Peer("beanstalkd", "-f 0: every write synced", beanstalkd, (10000, 10000, 10000)),
    Peer("bullmq", "Redis, appendfsync always", redis, (30000, 30000, 30000), "bullmq.mjs"),
    Peer("graphile-worker", "PostgreSQL, defaults; keeps no history", postgres, (100000, 100000, 5000), "graphile.mjs"),
    Peer("pg-boss", "PostgreSQL, defaults", postgres, (50000, 50000, 5000), "pgboss.mjs"),
)
