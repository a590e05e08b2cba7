"""A database server of one test's own, with the default durability, that may be killed and started again.

Each kind is a class: how it is started and ended, how it is asked something, and what a gate must know of it. The scripts beside
../postgres and ../mysql make and remove them.
"""

import argparse
import contextlib
import os
import pwd
import select
import shutil
import signal
import subprocess
import tempfile
import time

import gate
import proc

TESTS = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..")
ENVIRONMENT = {**{k: v for k, v in os.environ.items() if not k.startswith(("PAWL_TEST_POSTGRES", "PAWL_TEST_MYSQL"))},
               "PAWL_TEST_FSYNC": "on"}


def run(*args):
    """The command's output; None: it failed."""
    done = subprocess.run(args, text=True, stdin=subprocess.DEVNULL, capture_output=True, check=False)
    return done.stdout.strip() if done.returncode == 0 else None


class Server:
    kind = link = None  # the name of its folder and of its URLs; what a gate before it is made of

    def __init__(self):
        self.folder = tempfile.mkdtemp(prefix="pawl-server-")
        self.script = os.path.join(TESTS, self.kind, "server.sh")
        subprocess.run([self.script, "start", self.folder], check=True, env=ENVIRONMENT, stdin=subprocess.DEVNULL,
                       stdout=subprocess.DEVNULL)
        self.where = self.read("where")

    def read(self, name):
        with open(os.path.join(self.folder, name), encoding="utf-8") as file:
            return file.read().strip()

    def gate(self):
        return gate.Gate(self.where, self.link)

    def url_at(self, folder, **parameters):
        """The same server through a socket in another folder."""
        return self.url(**parameters).replace(self.where, folder)

    def start(self):
        """After stop() or kill(). It takes calls when this returns."""
        until = time.monotonic() + proc.deadline(30)
        while True:  # the last of the killed may still be there
            try:
                return self.launch()
            except subprocess.CalledProcessError:
                if time.monotonic() > until:
                    raise

    def restart(self):
        self.stop()
        self.start()

    def own(self, *paths):
        """The server may read them, and nobody else."""
        owner = os.stat(f"{self.where}/data")
        for path in paths:
            os.chmod(path, 0o600)
            if not os.getuid():
                os.chown(path, owner.st_uid, owner.st_gid)

    def close(self):
        subprocess.run([self.script, "stop", self.folder], check=False, env=ENVIRONMENT)
        shutil.rmtree(self.folder, ignore_errors=True)


class Postgres(Server):
    kind, link = "postgres", gate.PostgresLink

    def __init__(self):
        super().__init__()
        with open(f"{self.where}/data/postmaster.opts", encoding="utf-8") as file:
            self.bin = os.path.dirname(file.read().split()[0])

    @staticmethod
    def user():
        """What server.sh runs it as."""
        if os.getuid():
            return []
        with contextlib.suppress(KeyError):
            return ["setpriv", "--reuid=postgres", f"--regid={pwd.getpwnam('postgres').pw_gid}", "--clear-groups", "--"]
        return ["setpriv", "--reuid=nobody", f"--regid={pwd.getpwnam('nobody').pw_gid}", "--clear-groups", "--"]

    def url(self, proxy=False, **parameters):
        return self.read("proxy_url" if proxy else "url") + "".join(f"&{name}={value}" for name, value in parameters.items())

    def side(self, number):
        """The URL of one of several stores on this server."""
        return self.url(pawl_schema=f"side_{number}")

    def control(self, *args):
        subprocess.run([*self.user(), os.path.join(self.bin, "pg_ctl"), "-D", f"{self.where}/data", "-w", "-t", "60",
                        "-l", f"{self.where}/server.log", *args], check=True, cwd="/", stdin=subprocess.DEVNULL,
                       stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)

    def launch(self):
        self.control("start")

    def stop(self):
        """At once: all sessions end under their statements, and there is no shutdown."""
        self.control("stop", "-m", "immediate")

    def pids(self):
        """The server's process and its children."""
        with open(f"{self.where}/data/postmaster.pid", encoding="utf-8") as file:
            first = int(file.readline())
        children = subprocess.run(["ps", "-o", "pid=", "--ppid", str(first)], capture_output=True, text=True, check=False)
        return [first] + [int(pid) for pid in children.stdout.split()]

    def kill(self):
        """All of it at once, as a machine would that lost its power. Stopped first, so that no child is born that nobody kills."""
        os.kill(self.pids()[0], signal.SIGSTOP)
        for pid in self.pids():
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)

    def sql(self, text):
        """One command; its rows as text. None where the server is not there."""
        return run("psql", "-X", "-q", "-A", "-t", "-v", "ON_ERROR_STOP=1", "-c", text, self.url())

    def serve_tls(self, port, key, certificate):
        """Also on this port of 127.0.0.1, to whoever encrypts."""
        self.own(key, certificate)
        with open(f"{self.where}/data/pg_hba.conf", "w", encoding="utf-8") as file:
            file.write("local all all trust\nhostssl all all 127.0.0.1/32 trust\n")
        settings = {"listen_addresses": "127.0.0.1", "port": port, "ssl": "on", "ssl_key_file": key, "ssl_cert_file": certificate}
        self.control("stop", "-m", "fast")
        self.control("start", "-o", " ".join(f"-c {name}={value}" for name, value in settings.items()))

    def tls_url(self, port, authority, encrypted=True):
        mode = f"verify-full&sslrootcert={authority}" if authority else "require" if encrypted else "disable"
        return f"postgres://postgres@127.0.0.1:{port}/postgres?sslmode={mode}"

    def end_sessions(self):
        """Of everybody; how many."""
        return int(self.sql("SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity "
                            "WHERE backend_type = 'client backend' AND pid <> pg_backend_pid()") or 0)

    def set(self, **settings):
        for name, value in settings.items():
            self.sql(f"ALTER SYSTEM SET {name} = '{value}'")
        self.control("reload")

    def log(self):
        with open(f"{self.where}/server.log", encoding="utf-8", errors="replace") as file:
            return file.read()


class MariaDB(Server):
    kind, link = "mysql", gate.MariaLink
    END_SESSIONS = """
        BEGIN NOT ATOMIC
            DECLARE ended INT DEFAULT 0;
            DECLARE CONTINUE HANDLER FOR 1094 SET ended = ended - 1; -- it ended by itself
            FOR session IN (SELECT id FROM information_schema.processlist WHERE id <> CONNECTION_ID() AND command <> 'Daemon') DO
                SET ended = ended + 1;
                EXECUTE IMMEDIATE CONCAT('KILL CONNECTION ', session.id);
            END FOR;
            SELECT ended;
        END"""

    def __init__(self):
        super().__init__()
        self.child = None  # what we started ourselves
        with open(f"/proc/{self.pid()}/cmdline", encoding="utf-8") as file:
            self.command = file.read().split("\0")[:-1]
        owner = os.stat(f"/proc/{self.pid()}")
        self.user = {} if os.getuid() else {"user": owner.st_uid, "group": owner.st_gid, "extra_groups": []}
        self.sql("CREATE DATABASE pawl", "")

    def pid(self):
        with open(f"{self.where}/pid", encoding="utf-8") as file:
            return int(file.read())

    def url(self, **parameters):
        return self.read("url").replace("/?", "/pawl?") + "".join(f"&{name}={value}" for name, value in parameters.items())

    def side(self, number):
        """The URL of one of several stores on this server."""
        self.sql(f"CREATE DATABASE IF NOT EXISTS side_{number}")
        return self.url().replace("/pawl?", f"/side_{number}?")

    def launch(self):
        self.child = subprocess.Popen(self.command, cwd="/", stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                                      stderr=subprocess.DEVNULL, **self.user)
        until = time.monotonic() + proc.deadline(60)
        while self.sql("SELECT 1") is None:
            if self.child.poll() is not None:
                raise subprocess.CalledProcessError(self.child.returncode, self.command[0])
            if time.monotonic() > until:
                raise proc.Failure("the server takes no calls")

    def end(self, how):
        pid = self.pid()
        process = os.pidfd_open(pid)
        try:
            os.kill(pid, how)
            if not select.select([process], [], [], proc.deadline(60))[0]:
                raise proc.Failure("the server did not end")
        finally:
            os.close(process)
        if self.child:
            self.child.wait()

    def stop(self):
        """All sessions end under their statements, and are told why."""
        self.end(signal.SIGTERM)

    def kill(self):
        """As a machine would that lost its power."""
        self.end(signal.SIGKILL)

    def sql(self, text, database="pawl"):
        """One command; its rows as text. None where the server is not there."""
        return run("mariadb", "--no-defaults", f"--socket={self.where}/socket", "-uroot", "-N", "-B", "--delimiter=//",
                   "-e", text, database)

    def end_sessions(self):
        """Of everybody; how many."""
        return int(self.sql(self.END_SESSIONS) or 0)

    def serve_tls(self, port, key, certificate):
        """Also on this port of 127.0.0.1, to whoever encrypts."""
        self.own(key, certificate)
        self.sql("CREATE USER IF NOT EXISTS careful@'%' REQUIRE SSL; GRANT ALL ON pawl.* TO careful@'%'".replace(";", "//"))
        self.stop()
        plain = [arg for arg in self.command if not arg.startswith(("--skip-networking", "--ssl", "--port", "--bind"))]
        self.command = [*plain, "--bind-address=127.0.0.1", f"--port={port}", f"--ssl-key={key}", f"--ssl-cert={certificate}"]
        self.start()

    def tls_url(self, port, authority, encrypted=True):
        how = f"ssl=on&ssl_ca={authority}" if authority else "ssl=on&ssl_verify=off" if encrypted else "connect_timeout_ms=9000"
        return f"mysql://careful@127.0.0.1:{port}/pawl?{how}"

    def status(self, *names):
        """The sum of these counters of the server's."""
        rows = self.sql("SHOW GLOBAL STATUS").splitlines()
        return sum(int(value) for name, value in (row.split("\t") for row in rows) if name in names)

    def close(self):
        if self.child and self.child.poll() is None:
            self.kill()  # the script waits for it, and it would wait for us
        super().close()


KINDS = {found.kind: found for found in (Postgres, MariaDB)}


def parser(description):
    """Of the command line of a test, which begins with the kind of server."""
    found = argparse.ArgumentParser(description=description.splitlines()[0])
    found.add_argument("kind", choices=KINDS)
    return found


@contextlib.contextmanager
def server(kind):
    found = KINDS[kind]()
    try:
        yield found
    finally:
        found.close()


@contextlib.contextmanager
def nodes(kind):
    """`with nodes(kind) as (n, server):`; the nodes of proc.nodes() on a server of their own, whose schema is there."""
    with server(kind) as found, proc.nodes() as all_nodes:
        all_nodes.path = found.url()
        all_nodes.start("first_of_all", serve=0, migrate=1).close()
        yield all_nodes, found
