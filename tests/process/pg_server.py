"""A PostgreSQL server of one test's own, with the default durability, that may be killed and started again."""

import contextlib
import os
import pwd
import shutil
import signal
import subprocess
import tempfile
import time

import proc

SCRIPT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "postgres", "server.sh")
ENVIRONMENT = {**{k: v for k, v in os.environ.items() if not k.startswith("PAWL_TEST_POSTGRES")}, "PAWL_TEST_FSYNC": "on"}


def user():
    """What server.sh runs it as."""
    if os.getuid():
        return []
    with contextlib.suppress(KeyError):
        return ["setpriv", "--reuid=postgres", f"--regid={pwd.getpwnam('postgres').pw_gid}", "--clear-groups", "--"]
    return ["setpriv", "--reuid=nobody", f"--regid={pwd.getpwnam('nobody').pw_gid}", "--clear-groups", "--"]


class Server:
    def __init__(self):
        self.folder = tempfile.mkdtemp(prefix="pawl-server-")
        subprocess.run([SCRIPT, "start", self.folder], check=True, env=ENVIRONMENT, stdin=subprocess.DEVNULL,
                       stdout=subprocess.DEVNULL)
        self.where = self.read("where")
        with open(f"{self.where}/data/postmaster.opts", encoding="utf-8") as file:
            self.bin = os.path.dirname(file.read().split()[0])

    def read(self, name):
        with open(os.path.join(self.folder, name), encoding="utf-8") as file:
            return file.read().strip()

    def url(self, proxy=False, **parameters):
        return self.read("proxy_url" if proxy else "url") + "".join(f"&{name}={value}" for name, value in parameters.items())

    def url_at(self, folder, **parameters):
        """The same server through a socket in another folder."""
        return self.url(**parameters).replace(f"host={self.where}", f"host={folder}")

    def control(self, *args):
        subprocess.run([*user(), os.path.join(self.bin, "pg_ctl"), "-D", f"{self.where}/data", "-l", f"{self.where}/server.log",
                        "-w", "-t", "60", *args], check=True, cwd="/", stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                       stderr=subprocess.DEVNULL)

    def pids(self):
        """The server's process and its children."""
        with open(f"{self.where}/data/postmaster.pid", encoding="utf-8") as file:
            first = int(file.readline())
        children = subprocess.run(["ps", "-o", "pid=", "--ppid", str(first)], capture_output=True, text=True, check=False)
        return [first] + [int(pid) for pid in children.stdout.split()]

    def kill(self):
        """All of it at once, as a machine would that lost its power."""
        for pid in self.pids():
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)

    def start(self):
        until = time.monotonic() + proc.deadline(30)
        while True:  # the last of the killed may still be there
            try:
                return self.control("start")
            except subprocess.CalledProcessError:
                if time.monotonic() > until:
                    raise

    def psql(self, sql):
        """One command; its rows as text. None where the server is not there."""
        done = subprocess.run(["psql", "-X", "-q", "-A", "-t", "-v", "ON_ERROR_STOP=1", "-c", sql, self.url()], text=True,
                              stdin=subprocess.DEVNULL, capture_output=True, check=False)
        return done.stdout.strip() if done.returncode == 0 else None

    def terminate_sessions(self):
        return self.psql("SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity "
                         "WHERE backend_type = 'client backend' AND pid <> pg_backend_pid()")

    def set(self, **settings):
        for name, value in settings.items():
            self.psql(f"ALTER SYSTEM SET {name} = '{value}'")
        self.control("reload")

    def log(self):
        with open(f"{self.where}/server.log", encoding="utf-8", errors="replace") as file:
            return file.read()

    def close(self):
        subprocess.run([SCRIPT, "stop", self.folder], check=False, env=ENVIRONMENT)
        shutil.rmtree(self.folder, ignore_errors=True)


@contextlib.contextmanager
def server():
    found = Server()
    try:
        yield found
    finally:
        found.close()


@contextlib.contextmanager
def nodes():
    """`with nodes() as (n, server):`; the nodes of proc.nodes() on a server of their own, whose schema is there."""
    with server() as found, proc.nodes() as all_nodes:
        all_nodes.path = found.url()
        all_nodes.start("first_of_all", serve=0, migrate=1).close()
        yield all_nodes, found
