"""The tables of `scripts/bench.py` about PostgreSQL: a server of its own with its default settings, the project's own raw program beside
Pawl, and what else runs on PostgreSQL where it is installed."""

import contextlib
import pathlib
import re
import statistics
import subprocess
import sys
import time

import peers

TURNS = 3
PARTS = ("speed", "scale", "limits", "reader")
RAW_CONNECTIONS = 2
LIFE = ("--batch", 1000, "--producers", 2, "--in-flight", 4000)
RATE = 2000  # of the run with a reader
EXECUTED = re.compile(r"duration: ([\d.]+) ms  (?:execute [^:]*|statement): (.*)")


def say(text):
    print(f"  PostgreSQL: {text}", flush=True, file=sys.stderr)


def percentile(values, part):
    return sorted(values)[min(int(len(values) * part), len(values) - 1)] if values else 0


class Server:
    """One server, and schemas in it."""

    def __init__(self, folder):
        self.folder, self.schemas = folder, 0
        self.programs = peers.postgres_folder()
        self.conninfo = f"host={folder} user=postgres dbname=postgres"

    def sql(self, text):
        done = subprocess.run([f"{self.programs}/psql", "-X", "-q", "-A", "-t", "-v", "ON_ERROR_STOP=1", self.conninfo,
                               "-c", "SET client_min_messages = warning", "-c", text], check=True, stdout=subprocess.PIPE, text=True)
        return done.stdout.strip()

    def number(self, text):
        return float(self.sql(f"SELECT coalesce(({text})::float8, 0)"))

    def url(self, schema):
        return f"postgres://postgres@/postgres?host={self.folder}&pawl_schema={schema}"

    @contextlib.contextmanager
    def schema(self):
        self.schemas += 1
        name = f"bench_{self.schemas}"
        try:
            yield name
        finally:
            self.sql(f"DROP SCHEMA IF EXISTS {name} CASCADE")

    def settle(self):
        self.sql("CHECKPOINT")


class PostgresBench:
    def __init__(self, bench, table, args):
        self.bench, self.table, self.full = bench, table, args.full
        self.parts = PARTS if args.postgres in (None, "all") else (args.postgres,)
        self.turns = 1 if args.short else args.turns
        self.figures = {}

    # ---- running -----------------------------------------------------------------------------------------------------------

    def keep(self, name, said):
        self.figures.setdefault(name, []).append(said)
        return said

    def speed(self, name):
        return statistics.median(said["tasks_per_s"] for said in self.figures[name])

    def middle(self, name, *keys):
        values = []
        for said in self.figures[name]:
            for key in keys:
                said = said[key]
            values.append(said)
        return statistics.median(values)

    def raw(self, name, *args):
        self.server.settle()
        program = self.bench.build / "bench" / "raw_postgres"
        return self.keep(name, self.bench.json(program, args[0], self.server.conninfo, *args[1:]))

    def run(self, schema, *args):
        return self.bench.json(self.bench.build / "pawl", "bench", "--json", "--store", self.server.url(schema), *args)

    def pawl(self, name, *args, schema=None):
        """In a schema of its own, or beside what is there."""
        self.server.settle()
        if schema:
            return self.keep(name, self.run(schema, *args))
        with self.server.schema() as fresh:
            return self.keep(name, self.run(fresh, *args))

    def peer(self, which, what):
        """None: it is not installed, or does not work."""
        try:
            peer = next(p for p in peers.PEERS if p.name == which)
            say(f"{which}, {what}")
            return self.keep(f"{which} {what}", {"tasks_per_s": peer.run(self.bench.packages, None, what, 0.01 if self.bench.short else 1)})
        except (peers.Missing, peers.Failed) as error:
            say(str(error))
            return None

    # ---- speed -------------------------------------------------------------------------------------------------------------

    def measure_speed(self):
        scaled = self.bench.scaled
        for turn in range(self.turns):
            say(f"speed, {turn + 1} of {self.turns}")
            self.raw("raw life", "life", scaled(200000), 1000 if not self.bench.short else 100, RAW_CONNECTIONS)
            self.raw("raw commit", "commit", scaled(2000))
            self.pawl("life", "--tasks", scaled(200000), *LIFE)
            self.peer("graphile-worker", "life")
            self.pawl("drain", "--tasks", scaled(100000), "--batch", 1000, "--mode", "drain", "--nodes", 2)
            self.peer("graphile-worker", "drain")
            self.peer("pg-boss", "drain")
            self.pawl("single", "--tasks", scaled(50000), "--batch", 1, "--producers", 64)
            self.peer("graphile-worker", "add")
            self.pawl("apart", "--mode", "latency", "--rate", 50, "--tasks", scaled(500), "--producers", 4, "--nodes", 2, "--apart")

    def beside(self, text, figure, *others):
        """One row for each thing that it is compared with."""
        for name, what, wanted in others:
            if name in self.figures:
                ratio = self.speed(figure) / self.speed(name)
                self.rows.row(text, f"{self.speed(figure):,.0f}/s", f"{what}: {self.speed(name):,.0f}/s", f"{ratio:.2f} ({wanted})")
            else:
                self.rows.row(text, f"{self.speed(figure):,.0f}/s", f"{what}: not installed", "")

    def speed_table(self):
        self.rows = t = self.table("measure", "figure", "beside", "ratio (wanted)")
        self.beside("full life in one process, history kept, batch 1000", "life",
                    ("raw life", f"raw program, born leased, {RAW_CONNECTIONS} connections", "0.5"),
                    ("graphile-worker life", "graphile-worker, stored and run", "2"))
        self.beside("backlog run by two processes, history kept", "drain",
                    ("graphile-worker drain", "graphile-worker, two processes", "1"), ("pg-boss drain", "pg-boss, two processes", "1.5"))
        self.beside("64 threads, one task a call, and run", "single",
                    ("graphile-worker add", "graphile-worker, 24 callers, not run", "10"))
        start = [self.middle("apart", "start_us", key) / 1000 for key in ("p50", "p99")]
        t.row("dispatch on one node to start on another, idle, p50 / p99", f"{start[0]:.1f} / {start[1]:.1f} ms",
              f"raw commit, p50: {self.middle('raw commit', 'commit_us', 'p50') / 1000:.2f} ms", "(3 / 15 ms)")
        return t

    # ---- a lot stored ------------------------------------------------------------------------------------------------------

    def measure_scale(self):
        scaled, tasks = self.bench.scaled, ("--tasks", self.bench.scaled(100000), "--batch", 1000, "--mode", "drain", "--nodes", 2)
        few, many = scaled(10000), scaled(10000000 if self.full else 1000000)
        scheduled = scaled(1000000)
        with self.server.schema() as small, self.server.schema() as large, self.server.schema() as later, self.server.schema() as urgent:
            say(f"{many:,} tasks wait, and {scheduled:,} are scheduled, twice")
            self.fill(small, "--backlog", few)
            self.fill(large, "--backlog", many)
            self.fill(later, "--preload-scheduled", scheduled)
            self.fill(urgent, "--preload-scheduled", scheduled, "--scheduled-priority", -100)
            self.server.sql("ANALYZE")
            for turn in range(self.turns):
                say(f"backlogs run beside them, {turn + 1} of {self.turns}")
                self.pawl("small", *tasks, schema=small)
                self.pawl("large", *tasks, schema=large)
                self.pawl("none", *tasks)
                self.pawl("later", *tasks, schema=later)
                self.pawl("urgent", *tasks, schema=urgent)
        self.few, self.many, self.scheduled = few, many, scheduled

    def fill(self, schema, *args):
        self.run(schema, "--mode", "enqueue", "--tasks", 1, *args)

    def scale_table(self):
        self.rows = t = self.table("measure", "figure", "beside", "ratio (wanted)")
        self.beside(f"claimed and run, {self.many:,} more wait", "large", ("small", f"{self.few:,} more wait", "0.8"))
        self.beside(f"claimed and run, {self.scheduled:,} are scheduled", "later", ("none", "nothing else stored", "0.8"))
        self.beside("the same, scheduled at a more urgent priority", "urgent", ("none", "nothing else stored", "0.8"))
        return t

    # ---- rate limits -------------------------------------------------------------------------------------------------------

    def measure_limits(self):
        scaled = self.bench.scaled
        keys, life = scaled(1000), ("--tasks", scaled(50000), "--batch", 100, "--producers", 2)
        steady = ("--mode", "latency", "--rate", 100, "--tasks", scaled(1000), "--producers", 4, "--rate-keys", keys)
        for turn in range(self.turns):
            say(f"rate limits, {turn + 1} of {self.turns}")
            self.pawl("no keys", *life)
            self.pawl("keys", *life, "--rate-keys", keys)
            self.pawl("no flood", *steady)
            self.pawl("flood", *steady, "--throttled", scaled(100000))
        self.keys, self.flood = keys, scaled(100000)

    def limits_table(self):
        t = self.table("measure", "figure", "beside", "ratio (wanted)")

        def row(text, form, figure, beside, what, wanted, *keys, part=1):
            values = [self.middle(name, *keys) / part for name in (figure, beside)]
            t.row(text, form.format(values[0]), f"{what}: {form.format(values[1])}", f"{values[0] / values[1]:.2f} {wanted}".strip())

        row(f"full life, {self.keys:,} rate keys with shared budgets, batch 100", "{:,.0f}/s", "keys", "no keys", "without", "(5,000/s)",
            "tasks_per_s")
        row("the same, commits per batch", "{:.2f}", "keys", "no keys", "without", "(one more)", "commits_per_task", part=0.01)
        row(f"dispatch to start, {self.flood:,} tasks of a key without budget wait, p50", "{:.2f} ms", "flood", "no flood", "none waits", "(1)",
            "start_us", "p50", part=1000)
        row("the same, p99", "{:.2f} ms", "flood", "no flood", "none waits", "(1)", "start_us", "p99", part=1000)
        t.row("until they were out of the way of others", f"{self.middle('flood', 'settle_ms') / 1000:.1f} s", "", "")
        return t

    # ---- a long reader -----------------------------------------------------------------------------------------------------

    @contextlib.contextmanager
    def reader(self):
        """A transaction that keeps what it could see."""
        held = subprocess.Popen([f"{self.server.programs}/psql", "-X", "-q", "-A", "-t", self.server.conninfo], text=True,
                                stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        try:
            held.stdin.write("BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT 1;\n")
            held.stdin.flush()
            held.stdout.readline()
            yield
        finally:
            held.stdin.close()
            held.wait()

    def statements(self, since):
        """Durations of claims, and how many statements there were, by the server's log."""
        claims, count = [], 0
        with open(f"{self.server.folder}/log", encoding="utf-8", errors="replace") as log:
            log.seek(since)
            for line in log:
                found = EXECUTED.search(line)
                if not found:
                    continue
                count += 1
                if "pawl_claim" in found.group(2):
                    claims.append(float(found.group(1)))
        return claims, count

    def steady(self, name, seconds):
        """A steady rate through two nodes, one of which only dispatches: every task is claimed."""
        server = self.server
        lsn, log = server.sql("SELECT pg_current_wal_lsn()"), (pathlib.Path(server.folder) / "log").stat().st_size
        commits = server.number("SELECT sum(xact_commit) FROM pg_stat_database")
        rate = RATE // 20 if self.bench.short else RATE
        with server.schema() as schema:
            said = self.run(schema, "--mode", "latency", "--rate", rate, "--tasks", rate * seconds, "--producers", 16, "--nodes", 2,
                            "--apart")
            time.sleep(1)  # the sessions tell their counts when they end
            said["dead"] = server.number(f"SELECT sum(n_dead_tup) FROM pg_stat_user_tables WHERE schemaname = '{schema}'")
            said["wal"] = server.number(f"SELECT pg_wal_lsn_diff(pg_current_wal_lsn(), '{lsn}')") / said["tasks"]
            said["commits"] = (server.number("SELECT sum(xact_commit) FROM pg_stat_database") - commits) / said["tasks"]
        claims, count = self.statements(log)
        said["claim_ms"] = {"p50": percentile(claims, 0.5), "p99": percentile(claims, 0.99)}
        said["queries"] = count / said["tasks"]
        self.keep(name, said)

    def measure_reader(self):
        self.seconds = 2 if self.bench.short else 300 if self.full else 30
        for setting in ("log_min_duration_statement = 0", "log_parameter_max_length = 0"):
            self.server.sql(f"ALTER SYSTEM SET {setting}")
        self.server.sql("SELECT pg_reload_conf()")
        say(f"{self.seconds} s at a steady rate, without and with a long reader")
        self.steady("alone", self.seconds)
        with self.reader():
            self.steady("read", self.seconds)

    def reader_table(self):
        t = self.table("measure", "alone", "with a reader", "ratio (wanted)")
        alone, read = self.figures["alone"][0], self.figures["read"][0]

        def row(text, form, of, wanted=""):
            ratio = f"{of(read) / of(alone):.2f}" if of(alone) else "-"
            t.row(text, form.format(of(alone)), form.format(of(read)), f"{ratio} ({wanted})" if wanted else "")

        row("throughput", "{:,.0f}/s", lambda said: said["tasks_per_s"], "1")
        row("claim, p50", "{:.2f} ms", lambda said: said["claim_ms"]["p50"])
        row("claim, p99", "{:.2f} ms", lambda said: said["claim_ms"]["p99"], "at most 2")
        row("dispatch to start, p99", "{:.1f} ms", lambda said: said["start_us"]["p99"] / 1000)
        row("dead rows at the end", "{:,.0f}", lambda said: said["dead"])
        row("WAL per task", "{:,.0f} bytes", lambda said: said["wal"])
        row("commits per task", "{:.2f}", lambda said: said["commits"])
        row("queries per task", "{:.2f}", lambda said: said["queries"])
        return t

    # ---- the page ----------------------------------------------------------------------------------------------------------

    def speed_text(self):
        return ["graphile-worker has its local queue and its batches on, and keeps no history.", "", str(self.speed_table()), ""]

    def scale_text(self):
        return [f"With a lot stored; {self.bench.scaled(100000):,} tasks are claimed and run by two processes:", "", str(self.scale_table()), ""]

    def limits_text(self):
        return ["Rate limits that let everything start, and tasks of other keys beside many that must wait:", "", str(self.limits_table()), ""]

    def reader_text(self):
        return [f"{RATE:,} tasks a second for {self.seconds} seconds, dispatched by one process and run by another, while somebody's transaction "
                "keeps the", "server from removing dead rows:", "", str(self.reader_table()), ""]

    def measure(self):
        with peers.postgres() as folder:
            self.server = Server(folder)
            version = self.server.sql("SHOW server_version").split()[0]
            for part in self.parts:
                getattr(self, f"measure_{part}")()
        lines = ["## PostgreSQL", "", f"PostgreSQL {version} on the same machine with its default settings; medians of {self.turns}.", ""]
        for part in self.parts:
            lines += getattr(self, f"{part}_text")()
        return "\n".join(lines)

    def page(self):
        if not (self.bench.build / "bench" / "raw_postgres").exists():
            return "## PostgreSQL\n\nnot measured: built without libpq\n"
        try:
            return self.measure()
        except peers.Missing as missing:
            return f"## PostgreSQL\n\nnot measured: {missing} is not installed\n"
        except subprocess.CalledProcessError as failed:
            return f"## PostgreSQL\n\nnot measured: `{' '.join(map(str, failed.cmd[1:3]))}` failed with status {failed.returncode}\n"
