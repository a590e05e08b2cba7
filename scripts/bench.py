#!/usr/bin/env python3
"""Measures Pawl beside the project's own raw programs and, where installed, other task systems; prints Markdown.

    scripts/bench.py [--short | --full] [--postgres [PART] [--turns N]] [--dir BUILD] [--peers FOLDER] [--out FILE]

    --short     a few thousand tasks: shows that it works, not how fast it is
    --full      PostgreSQL with a backlog of ten million, and five minutes with a long reader
    --postgres  only the tables about PostgreSQL, or one of them: speed, scale or reader
    --turns     how often what is compared there takes turns (default: 3)
    --dir       the build folder (default: build)
    --peers     the folder with the node packages of the peers (default: BUILD/peers; see bench/peers/setup.sh)
    --out       also write the tables to this file

What is compared runs in turn, several times, and medians are shown: the machine may have other things to do.
"""

import argparse
import datetime
import json
import os
import pathlib
import re
import shutil
import statistics
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT / "bench" / "peers"), str(ROOT / "tests" / "process")]
sys.dont_write_bytecode = True

import bench_postgres  # noqa: E402
import peers  # noqa: E402
import servers  # noqa: E402

MEDIAN_OF, SCALE_ROUNDS = 3, 5


def say(text):
    print(f"  {text}", file=sys.stderr, flush=True)


def rounded(number):
    return f"{number:,.0f}"


def ratio(a, b):
    return f"{a / b:.2f}" if b else "-"


class Table:
    def __init__(self, *columns):
        self.lines = ["| " + " | ".join(columns) + " |", "|" + "---|" * len(columns)]

    def row(self, *cells):
        self.lines.append("| " + " | ".join(cells) + " |")

    def __str__(self):
        return "\n".join(self.lines)


class Bench:
    def __init__(self, args, folder):
        self.short, self.build, self.packages, self.folder = args.short, args.dir, args.peers, folder
        self.postgres = bench_postgres.PostgresBench(self, Table, args)
        self.figures = {}  # name -> list of what each run said

    # ---- running -----------------------------------------------------------------------------------------------------------

    def scaled(self, count):
        return max(200, count // 100) if self.short else count

    def json(self, *args):
        done = subprocess.run([str(arg) for arg in args], check=True, stdout=subprocess.PIPE, text=True)
        return json.loads(done.stdout)

    def keep(self, name, said):
        self.figures.setdefault(name, []).append(said)
        return said

    def store(self, name):
        return f"sqlite:{self.folder / name}.db"

    def remove(self, name):
        for file in self.folder.glob(f"{name}.db*"):
            file.unlink()

    def raw(self, *args):
        return self.json(self.build / "bench" / "raw_sqlite", *args)

    def pawl(self, name, *args, store=None):
        said = self.keep(name, self.json(self.build / "pawl", "bench", "--json", "--store", store or self.store("fresh"), *args))
        self.remove("fresh")
        return said

    def median(self, name, *keys):
        values = []
        for said in self.figures[name]:
            for key in keys:
                said = said[key]
            values.append(said)
        return statistics.median(values)

    def speed(self, name):
        return self.median(name, "tasks_per_s")

    # ---- speed -------------------------------------------------------------------------------------------------------------

    def measure_speed(self):
        many, some = self.scaled(200000), self.scaled(100000)
        for turn in range(MEDIAN_OF):
            say(f"speed, {turn + 1} of {MEDIAN_OF}")
            self.keep("raw life", self.raw("life", self.folder, many, 1000))
            self.pawl("bulk", "--tasks", many, "--batch", 1000)
            self.pawl("audited", "--tasks", many, "--batch", 1000, "--audit", "full")
            self.pawl("single", "--tasks", some, "--batch", 1, "--producers", 64)
            self.pawl("schedule", "--tasks", many, "--batch", 1000, "--mode", "schedule")
            self.pawl("drain", "--tasks", some, "--batch", 1000, "--mode", "drain", "--nodes", 2)
            self.pawl("memory", "--tasks", self.scaled(2000000), "--batch", 150, "--producers", 2, "--in-flight", 1000, "--workers", 1,
                      store="memory:")
            self.keep("raw commit", self.raw("commit", self.folder, self.scaled(2000)))
            self.pawl("alone", "--tasks", self.scaled(2000), "--mode", "enqueue", "--producers", 1, "--batch", 1)
            self.keep("raw rate", self.raw("commit", self.folder, self.scaled(1000), 200))
            self.pawl("latency", "--tasks", self.scaled(1000), "--mode", "latency", "--producers", 1, "--rate", 200)

    def speed_table(self):
        raw, life = self.speed("raw life"), self.speed("bulk")
        commit, dispatch = self.median("raw commit", "commit_us", "p50"), self.median("alone", "dispatch_us", "p50")
        idle, called = self.median("raw rate", "commit_us", "p50"), self.median("latency", "dispatch_us", "p50")
        start = [rounded(self.median("latency", "start_us", key)) for key in ("p50", "p99")]
        t = Table("measure", "figure", "beside", "ratio")
        t.row("raw SQLite, FULL, born leased, batch 1000", f"{rounded(raw)}/s", "", "")
        t.row("raw SQLite, FULL, one row per commit, p50", f"{rounded(commit)} us", "", "")
        t.row("memory, full life, 2 threads, batch 150", f"{rounded(self.speed('memory'))}/s", "", "")
        t.row("SQLite, full life, history kept, batch 1000, audit minimal", f"{rounded(life)}/s", "raw born leased", ratio(life, raw))
        t.row("the same, audit full", f"{rounded(self.speed('audited'))}/s", "audit minimal", ratio(self.speed("audited"), life))
        for name, what in (("single", "full life, 64 threads, one task a call"), ("schedule", "dispatches into the future, batch 1000"),
                           ("drain", "backlog run by two processes")):
            t.row(f"SQLite, {what}", f"{rounded(self.speed(name))}/s", "raw born leased", ratio(self.speed(name), raw))
        t.row("SQLite, one caller, dispatch returns, p50", f"{rounded(dispatch)} us", "raw commit", ratio(dispatch, commit))
        t.row("the same 200 times a second, p50", f"{rounded(called)} us", f"raw commit 200 times a second: {rounded(idle)} us",
              ratio(called, idle))
        t.row("SQLite, dispatch to start, p50 / p99", f"{' / '.join(start)} us", "", "")
        return t

    # ---- a lot stored ------------------------------------------------------------------------------------------------------

    def measure_scale(self):
        self.scheduled, self.history = (10000, 20000) if self.short else (1000000, 10000000)
        say(f"{self.scheduled:,} tasks scheduled")
        self.pawl("look scheduled", "--mode", "look", "--preload-scheduled", self.scheduled, store=self.store("scheduled"))
        say(f"{self.history:,} tasks run, to have a history (a minute or three)")
        self.pawl("look history", "--mode", "look", "--preload-history", self.history, store=self.store("history"))
        for turn in range(SCALE_ROUNDS):
            say(f"throughput beside them, {turn + 1} of {SCALE_ROUNDS}")
            options = ("--tasks", self.scaled(200000), "--batch", 1000)
            self.pawl("empty", *options)
            self.pawl("beside scheduled", *options, store=self.store("scheduled"))
            self.pawl("beside history", *options, store=self.store("history"))
        self.remove("scheduled")
        self.remove("history")

    def peak(self, name):
        return f"{max(said['rss_peak_bytes'] for said in self.figures[name]) / 2**20:.0f} MiB"

    def beside(self, t, name, what):
        t.row(f"{what}: throughput of due work, batch 1000", f"{rounded(self.speed(name))}/s", "empty store",
              ratio(self.speed(name), self.speed("empty")))
        t.row("processor time per task meanwhile", f"{self.median(name, 'cpu_s_per_1000') * 1000:.1f} us", "empty store",
              ratio(self.median(name, "cpu_s_per_1000"), self.median("empty", "cpu_s_per_1000")))
        t.row("peak memory of the process meanwhile", self.peak(name), "", "")

    @staticmethod
    def percentiles(said):
        return f"{said['p50'] / 1000:.2f} / {said['p99'] / 1000:.2f} ms"

    def look(self, t, name):
        said = self.figures[name][0]
        slowest = max(said["list_us"], key=lambda key: said["list_us"][key]["p50"])
        t.row("get one of them, p50 / p99", self.percentiles(said["get_us"]), "", "")
        t.row("list, newest first, 50 of all, p50 / p99", self.percentiles(said["list_us"]["all"]), "", "")
        t.row(f"list, the slowest of {len(said['list_us'])} filters ({slowest}), p50 / p99",
              self.percentiles(said["list_us"][slowest]), "", "")

    def scale_table(self):
        t = Table("measure", "figure", "beside", "ratio")
        self.beside(t, "beside scheduled", f"{self.scheduled:,} tasks scheduled")
        self.look(t, "look scheduled")
        cancel = self.figures["look scheduled"][0]["cancel_us"]
        commit = self.median("raw commit", "commit_us", "p50")
        t.row("cancel one of them, p50 / p99", self.percentiles(cancel), "raw commit, p50", ratio(cancel["p50"], commit))
        self.beside(t, "beside history", f"{self.history:,} tasks finished")
        self.look(t, "look history")
        return t

    # ---- peers -------------------------------------------------------------------------------------------------------------

    OURS = {  # what is run beside a peer's measure
        "bulk": ("--tasks", 200000, "--batch", 1000),
        "single": ("--tasks", 50000, "--batch", 1, "--producers", 64),
        "drain": ("--tasks", 100000, "--batch", 1000, "--mode", "drain", "--nodes", 2),
    }

    def peer_program(self, peer):
        program = self.build / "bench" / "peer_beanstalk"
        if not peer.script and not program.exists():
            raise peers.Missing(program.name)
        return program

    def peer_row(self, t, peer, what, text, ours):
        try:
            say(f"{peer.name}, {what}")
            theirs = peer.run(self.packages, self.peer_program(peer), what, 0.01 if self.short else 1)
            tasks = self.scaled(self.OURS[ours][1])
            speed = self.pawl(f"{ours} beside", "--tasks", tasks, *self.OURS[ours][2:])["tasks_per_s"]
            t.row(peer.version(self.packages), peer.settings, text, f"{rounded(theirs)}/s", f"{rounded(speed)}/s", ratio(speed, theirs))
        except peers.Missing:
            t.row(peer.name, peer.settings, text, "not installed", "", "")
        except peers.Failed as failed:
            say(str(failed))
            t.row(peer.version(self.packages), peer.settings, text, "did not work", "", "")

    def peers_table(self):
        t = Table("system", "durability", "measure", "figure", "Pawl on SQLite", "ratio")
        rows = {"life": ("stored in bulk and run", "bulk"), "drain": ("backlog run", "drain"),
                "add": ("stored one by one by many callers", "single")}
        for peer in peers.PEERS:
            for what, (text, ours) in rows.items():
                single = not peer.script and what == "life"  # its protocol has no bulk
                self.peer_row(t, peer, what, "stored one by one and run" if single else text, "single" if single else ours)
        return t

    # ---- moving ------------------------------------------------------------------------------------------------------------

    def move_table(self):
        """Tasks per second from one store to another, the mover killed three times on the way."""
        t = Table("move", "tasks", "tasks/s, killed three times")
        build = {**os.environ, "PAWL_BIN": str(self.build / "pawl"), "PAWL_MODULES": str(self.build)}
        build["PAWL_TEST_NODE"] = str(self.build / "tests" / "process" / "process_node")
        kinds = ("sqlite", "postgres", "mysql")
        ways = [("sqlite", "sqlite"), *((a, b) for a in kinds for b in kinds if a != b)]
        for source, target in ways:
            say(f"move from {source} to {target}")
            rows = self.scaled(1_000_000)
            done = subprocess.run([sys.executable, "-B", str(ROOT / "tests" / "process" / "move.py"), "rows", "--from", source, "--to",
                                   target, "--rows", str(rows)], env=build, capture_output=True, text=True, check=False)
            said = done.stdout.strip().rsplit(" ", 1)[-1] if done.returncode == 0 else "-"
            t.row(f"{source} to {target}", rounded(rows), rounded(float(said.split("/")[0])) if said != "-" else "-")
        return t

    # ---- MariaDB, schedules ------------------------------------------------------------------------------------------------

    def maria_table(self):
        say("MariaDB")
        t = Table("measure", "figure", "wanted")
        os.environ["PAWL_MODULES"] = str(self.build)
        bulk, callers = ("--batch", 1000), ("--producers", 64, "--batch", 1)
        rows = (("full life in one process, history kept, batch 1000", 100_000, bulk, 8000),
                ("full life, 64 callers of one task each", 40_000, callers, 4000))
        with servers.server("mysql") as server:
            for number, (text, tasks, how, wanted) in enumerate(rows):
                found = [self.json(self.build / "pawl", "bench", "--json", "--store", server.side(f"{number}_{turn}"), "--tasks", self.scaled(tasks),
                                   *how)["tasks_per_s"] for turn in range(MEDIAN_OF)]
                t.row(text, f"{rounded(statistics.median(found))}/s", f"{rounded(wanted)}/s")
        return t

    def schedules_table(self):
        say("schedules")
        sizes = ["--count", "1000", "--seconds", "1"] if self.short else []
        done = subprocess.run([str(ROOT / "scripts" / "bench_schedules.py"), "--dir", str(self.build), *sizes], check=True, capture_output=True, text=True)
        return done.stdout.rstrip()

    # ---- the page ----------------------------------------------------------------------------------------------------------

    def where(self):
        return f"{os.uname().sysname} {os.uname().machine}, {os.cpu_count()} cores"

    def http_table(self):
        say("HTTP")
        sizes = ["--seconds", "1", "--rounds", "1"] if self.short else []
        done = subprocess.run([str(ROOT / "scripts" / "bench_server.py"), "--dir", str(self.build), *sizes], check=True, capture_output=True, text=True)
        return done.stdout.rstrip()

    def page(self):
        self.measure_speed()
        self.measure_scale()
        settings = self.figures["bulk"][0]["settings"]
        where = f"{self.where()}, SQLite {settings['sqlite']}"
        return "\n".join([
            "## Speed", "", str(self.speed_table()), "",
            "## With a lot stored", "",
            "Runs on a filled and on an empty store take turns; medians of five. Lists ask for all, for each state, for a queue, a",
            "type and a key; \"rare\" is a single task that is older than all the others.", "", str(self.scale_table()), "",
            self.postgres.page(),
            "## MariaDB", "",
            "MariaDB on the same machine, every commit flushed, a buffer pool of 128 MiB; medians of three.", "", str(self.maria_table()), "",
            "## Over HTTP", "",
            "`pawl serve` on durable SQLite, over loopback, beside beanstalkd, in one run; the best of three rounds that take turns.", "",
            self.http_table(), "",
            "## Moving to another store", "", str(self.move_table()), "",
            "## Schedules that are not due", "",
            "A worker beside 100,000 yearly schedules and beside none; from the start of its process until its first task has run, and ten",
            "seconds in which nothing falls due (`scripts/bench_schedules.py`). Questions are what the server was asked, commits on PostgreSQL.",
            "", self.schedules_table(), "",
            "## Other task systems on the same machine", "",
            "No-op tasks with the same payload; Pawl runs right after each peer, syncs every commit and keeps history. \"Stored one by",
            "one\" is for Pawl the whole life of a task: 64 threads that dispatch, and runs at the same time.", "",
            str(self.peers_table()), "",
            f"Payload 200 bytes. {where}, {datetime.datetime.now(datetime.timezone.utc):%Y-%m-%d}.", ""])


def sections(page):
    """{title: text with title}, in their order"""
    parts = re.split(r"^(?=## )", page, flags=re.MULTILINE)
    return {part.split("\n", 1)[0]: part.rstrip() + "\n\n" for part in parts if part.startswith("## ")}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    size = parser.add_mutually_exclusive_group()
    size.add_argument("--short", action="store_true")
    size.add_argument("--full", action="store_true")
    parser.add_argument("--postgres", nargs="?", const="all", choices=("all", *bench_postgres.PARTS))
    parser.add_argument("--turns", type=int, default=bench_postgres.TURNS)
    parser.add_argument("--dir", type=pathlib.Path, default=ROOT / "build")
    parser.add_argument("--peers", type=pathlib.Path)
    parser.add_argument("--out", type=pathlib.Path)
    args = parser.parse_args()
    args.dir = args.dir.resolve()
    args.peers = (args.peers or args.dir / "peers").resolve()
    folder = pathlib.Path(tempfile.mkdtemp(prefix="bench.", dir=args.dir))
    print("measuring, each after the other:", file=sys.stderr)
    try:
        bench = Bench(args, folder)
        page = f"{bench.postgres.page()}\nPayload 200 bytes. {bench.where()}.\n" if args.postgres else bench.page()
    finally:
        shutil.rmtree(folder)
    print(page)
    if args.out:
        head = "# Figures\n\nMade by `make bench` and its parts: each table in one run on one machine; the ratios are what carries over.\n\n"
        kept = sections(args.out.read_text()) if args.out.exists() else {}  # what other scripts measure stays
        args.out.write_text(head + "".join({**kept, **sections(page)}.values()).rstrip() + "\n")
        print(f"written to {args.out}", file=sys.stderr)


if __name__ == "__main__":
    main()
