#!/usr/bin/env python3
"""Shows that the tests can fail: builds with the seeded bugs of canaries.txt and runs, for each of them, the tests that must find it.

First every test runs without a canary and must pass. Then it runs with one alive and must fail, for the reason that the table gives,
after the code of that canary was reached. A crash, a test that does not end and another case that fails are no finds.

The quick form lets one test find each canary, the first in the table, and begins with the histories of tests/sim/seeds.txt that once
showed it. When the simulator draws differently these mean nothing any more: then it searches, and says so. The whole form searches
10,000 seeds of each mode, and writes what it found to docs/canaries.md and tests/sim/seeds.txt."""

import argparse
import concurrent.futures
import datetime
import os
import pathlib
import platform
import re
import signal
import sqlite3
import subprocess
import sys
import tempfile
import time
from typing import NamedTuple

ROOT = pathlib.Path(__file__).resolve().parents[2]
TABLE = ROOT / "tests/canaries/canaries.txt"
SEEDS = ROOT / "tests/sim/seeds.txt"
SEEDS_MARK = "# Then the first history that shows each seeded bug"
SEARCH = 10000
SEARCH_QUICK = 3000
LIMIT_S = 600  # nothing that ends comes near it


class Row(NamedTuple):
    name: str
    finder: str
    slow: bool
    reason: str
    rule: str


class Ended(NamedTuple):
    code: int  # negative: the signal; None: it did not end
    text: str
    seconds: float
    reached: bool


class Found(NamedTuple):
    ok: bool
    after: str  # for the matrix
    histories: list  # (seed, mode): of the simulator


# ---- the table and the source --------------------------------------------------------------------------------------------------


def read_table():
    rows, rules = [], {}
    for number, line in enumerate(TABLE.read_text().splitlines(), 1):
        if not line.strip() or line.startswith("#"):
            continue
        fields = re.split(r"\s{2,}", line.strip())
        if len(fields) != 4:
            raise SystemExit(f"{TABLE}:{number}: {len(fields)} columns instead of 4")
        name, finder, reason, rule = fields
        rule = rules.setdefault(name, rule) if rule == '"' else rule
        if rules.setdefault(name, rule) != rule or rule == '"':
            raise SystemExit(f'{TABLE}:{number}: {name}: the first line gives the rule, the others repeat it with "')
        rows.append(Row(name, finder.rstrip("!"), finder.endswith("!"), reason, rule))
    return rows


def read_source():
    """Where each canary is: name -> files. Those of the database that is part of the simulator are bugs that one with transactions may have."""
    places = {}
    for path in sorted((ROOT / "src").rglob("*.[ch]")) + sorted((ROOT / "tests/sim").glob("rowstore*.c")):
        for name in re.findall(r"\bCANARY\((\w+)\)", path.read_text()):
            file = str(path.relative_to(ROOT)).removeprefix("src/")
            if path.name != "canary.h" and file not in places.setdefault(name, []):
                places[name].append(file)
    return places


def check_table(rows, places):
    """true: table and source name the same canaries."""
    named = {row.name for row in rows}
    for name in sorted(set(places) - named):
        print(f"{name} in {', '.join(places[name])} is not in {TABLE.relative_to(ROOT)}: say which test finds it")
    for name in sorted(named - set(places)):
        print(f"{name} in {TABLE.relative_to(ROOT)} is not in the source: take it out")
    pairs = [(row.name, row.finder) for row in rows]
    for name, finder in sorted({pair for pair in pairs if pairs.count(pair) > 1}):
        print(f"{name} has {finder} twice in {TABLE.relative_to(ROOT)}")
    return named == set(places) and len(pairs) == len(set(pairs))


# ---- building and running --------------------------------------------------------------------------------------------------------


def read_tests(build):
    """The commands of ctest's tests: name -> [program, argument, ...]."""
    tests = {}
    for path in build.rglob("CTestTestfile.cmake"):
        for name, command in re.findall(r"^add_test\(\[=\[(.*?)\]=\] (.*)\)$", path.read_text(), re.M):
            tests[name] = re.findall(r'"((?:[^"\\]|\\.)*)"', command)
    return tests


def is_sim(row):
    return row.finder.split()[0] == "sim"


def modes_of(places, row):
    """The modes of the simulator in which it may find the canary: modes b and d have a store of their own."""
    named = row.finder.split()[1:]
    return named[0] if named else "ab" if any(file.startswith("core/") for file in places[row.name]) else "a"


def command_of(tests, row):
    """What runs the row's test; suites that take one run only the case that matters."""
    if is_sim(row):
        return [next(t[0] for name, t in tests.items() if name == "sim_quick")]
    if row.finder not in tests:
        raise SystemExit(f"{TABLE}: {row.name}: there is no test {row.finder}")
    command = list(tests[row.finder])
    if row.finder.startswith("contract_"):
        command += ["plain"] * (3 - len(command)) + [row.reason]
    elif row.finder.startswith("api_"):
        command.append(row.reason)
    return command


def sh(*command):
    done = subprocess.run(command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    if done.returncode:
        sys.stdout.write(done.stdout)
        raise SystemExit("canaries: the build failed")


def make(build, rows, jobs):
    sh("cmake", "--preset", "canaries", "-B", str(build))
    tests = read_tests(build)
    targets = {pathlib.Path(command_of(tests, row)[0]).name for row in rows}
    sh("cmake", "--build", str(build), "--parallel", str(jobs), "--target", *sorted(targets))
    return tests


def run(command, canary=None):
    with tempfile.TemporaryDirectory(prefix="pawl-canary-") as folder:
        mark = pathlib.Path(folder, "reached")
        env = {**os.environ, "PAWL_CANARY": canary or "", "PAWL_CANARY_MARK": str(mark)}
        began = time.monotonic()
        child = subprocess.Popen(command, cwd=folder, env=env, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                 stderr=subprocess.STDOUT, start_new_session=True)
        try:
            text, code = child.communicate(timeout=LIMIT_S)[0], child.returncode
        except subprocess.TimeoutExpired:
            os.killpg(child.pid, signal.SIGKILL)
            text, code = child.communicate()[0], None
        return Ended(code, text.decode(errors="replace"), time.monotonic() - began, mark.exists())


def tail(text):
    return "\n".join("    " + line for line in text.splitlines()[-15:])


# ---- finding ---------------------------------------------------------------------------------------------------------------------


def history_of(ended, reason):
    """(seed, mode, promise) of a history that broke for the right reason, or None."""
    broken = re.search(r"^BROKEN seed (\d+) mode (\w) at [\d.]+ s: (.*)$", ended.text, re.M)
    if not broken or not ended.reached or ended.code in (0, None):
        return None
    seed, mode, promise = broken.groups()
    if promise == "the process crashed" or (promise == "an assertion failed" and reason != "assert"):
        return None
    return int(seed), mode, promise


def search(sim, row, mode, first, count):
    ended = run([sim, "--seed", str(first), "--count", str(count), "--mode", mode], row.name)
    return ended, history_of(ended, row.reason)


def find_by_sim(sim, row, modes):
    told, histories = [], []
    for mode in modes:
        ended, history = search(sim, row, mode, 1, SEARCH)
        if history:
            seed, _, promise = history
            told.append(f"mode {mode}: {seed:,} seed{'s' * (seed > 1)}, {ended.seconds:.1f} s: {promise}")
            histories.append((seed, mode))
        elif ended.code == 0:
            told.append(f"mode {mode}: not in {SEARCH:,} seeds")
        else:
            return Found(False, "it failed for another reason\n" + tail(ended.text), [])
    return Found(bool(histories), "<br>".join(told), histories)


def find_by_known_seeds(sim, row, modes, known):
    for seed, mode in [(seed, mode) for seed, mode in known.get(row.name, []) if mode in modes]:
        _, history = search(sim, row, mode, seed, 1)
        if history:
            return Found(True, f"seed {seed} mode {mode}: {history[2]}", [])
    for mode in modes:
        _, history = search(sim, row, mode, 1, SEARCH_QUICK)
        if history:
            told = f"{history[2]} (by search: the seeds of {SEEDS.relative_to(ROOT)} are out of date, run make canaries)"
            return Found(True, f"seed {history[0]} mode {mode}: {told}", [])
    return find_by_sim(sim, row, modes)


def find_by_test(command, row):
    ended = run(command, row.name)
    for _ in range(2 if row.slow else 0):
        if ended.code == 0:
            ended = run(command, row.name)
    case = re.search(rf"^\[ +(FAILED|ERROR) +\] {re.escape(row.reason)}$", ended.text, re.M)
    if ended.code is not None and ended.code > 0 and case and ended.reached:
        return Found(True, f"{row.reason}, {ended.seconds:.1f} s", [])
    if ended.code is None:
        return Found(False, f"the test did not end in {LIMIT_S} s", [])
    if ended.code == 0:
        return Found(False, "the test passed" + ("" if ended.reached else ", and never came to the canary"), [])
    return Found(False, "it failed for another reason\n" + tail(ended.text), [])


# ---- the seeds of the simulator --------------------------------------------------------------------------------------------------


def read_seeds():
    """Canary -> [(seed, mode), ...]"""
    known = {}
    text = SEEDS.read_text()
    for seed, mode, names in re.findall(r"^(\d+) ([abd]) +(.*)$", text[text.index(SEEDS_MARK):], re.M):
        for name in names.split():
            known.setdefault(name, []).append((int(seed), mode))
    return known


def write_seeds(results):
    histories = {}
    for row, found in results:
        for history in found.histories:
            histories.setdefault(history, []).append(row.name)
    text = SEEDS.read_text()
    head = text[: text.index("\n", text.index(SEEDS_MARK)) + 1]
    SEEDS.write_text(head + "".join(f"{seed} {mode}  {' '.join(names)}\n" for (seed, mode), names in sorted(histories.items())))


# ---- the matrix ------------------------------------------------------------------------------------------------------------------


def matrix(results, places, seconds):
    names = list(dict.fromkeys(row.name for row, _ in results))
    lines = [
        "# Seeded bugs",
        "",
        f"Made by `make canaries`. Each of the {len(names)} bugs below can be switched on in a build of its own, and the tests beside it",
        "must then fail, for the reason given. Without one all of them pass. The table is `tests/canaries/canaries.txt`; `sim` is the",
        f"simulator, with seeds from 1, at most {SEARCH:,} of each mode; the other names are those of ctest's tests, with the case that fails.",
        "",
        "| canary | what it breaks | where, in `src/` if nothing else is said | found by | after |",
        "|---|---|---|---|---|",
    ]
    before = None
    for row, found in results:
        new = row.name != before
        where = ", ".join(f"`{file}`" for file in places[row.name]) if new else ""
        lines.append(f"| {f'`{row.name}`' if new else ''} | {row.rule if new else ''} | {where} | `{row.finder}` | {found.after} |")
        before = row.name
    lines += ["", f"{len(results)} finds in {seconds / 60:.0f} minutes. Linux {platform.machine()}, {os.cpu_count()} cores, "
              f"SQLite {sqlite3.sqlite_version}, {datetime.date.today()}.", ""]
    return "\n".join(lines)


# ---- the whole -------------------------------------------------------------------------------------------------------------------


def baseline(tests, places, rows, quick, pool):
    """Every finder passes without a canary."""
    commands = {}
    for row in rows:
        command = tuple(command_of(tests, row))
        if not is_sim(row):
            commands.setdefault(command, row.finder)
        elif quick:
            commands[command + ("--replay", str(SEEDS))] = "sim"
        else:
            for mode in modes_of(places, row):
                commands[command + ("--seed", "1", "--count", str(SEARCH), "--mode", mode)] = f"sim, mode {mode}"
    ok = True
    for (command, finder), ended in zip(commands.items(), pool.map(lambda item: run(list(item)), commands)):
        if ended.code != 0:
            ok = False
            print(f"{finder} fails without a canary: {' '.join(command)}\n{tail(ended.text)}", flush=True)
    print(f"without a canary: {len(commands)} runs, {'all pass' if ok else 'not all pass'}", flush=True)
    return ok


def find(tests, places, row, known):
    command = command_of(tests, row)
    if not is_sim(row):
        return find_by_test(command, row)
    modes = modes_of(places, row)
    return find_by_sim(command[0], row, modes) if known is None else find_by_known_seeds(command[0], row, modes, known)


def find_all(tests, places, rows, known, pool):
    finds = {row: pool.submit(find, tests, places, row, known) for row in sorted(rows, key=lambda row: not row.slow)}
    results = []
    for row in rows:
        found = finds[row].result()
        results.append((row, found))
        said = found.after.replace("<br>", "; ")
        print(f"{row.name:<21} {row.finder:<22} {'' if found.ok else 'NOT FOUND: '}{said}", flush=True)
    return results


def options():
    p = argparse.ArgumentParser(prog="scripts/canaries.sh", description="Builds with seeded bugs and shows that the tests find them.")
    p.add_argument("names", nargs="*", metavar="NAME", help="only these canaries; nothing is written")
    p.add_argument("--quick", action="store_true", help="one quick test for each, known seeds of the simulator; nothing is written")
    p.add_argument("--table", action="store_true", help="only compare the table with the source")
    p.add_argument("--build", type=pathlib.Path, default=ROOT / "build/canaries", help="the build folder (build/canaries)")
    p.add_argument("--out", type=pathlib.Path, help="where the matrix goes, instead of docs/canaries.md and the list of seeds")
    p.add_argument("--jobs", type=int, default=int(os.environ.get("JOBS") or os.cpu_count() or 2), help="tests at a time")
    return p.parse_args()


def main():
    o = options()
    rows, places = read_table(), read_source()
    if not check_table(rows, places):
        return 1
    if o.table:
        print(f"{len(places)} canaries, {len(rows)} finders")
        return 0
    unknown = set(o.names) - set(places)
    if unknown:
        raise SystemExit(f"canaries: there is no canary {', '.join(sorted(unknown))}")
    rows = [row for row in rows if (row.name in o.names or not o.names) and not (o.quick and row.slow)]
    if o.quick:
        rows = list({row.name: row for row in reversed(rows)}.values())[::-1]
    began = time.monotonic()
    tests = make(o.build.resolve(), rows, o.jobs)
    with concurrent.futures.ThreadPoolExecutor(o.jobs) as pool:
        ok = baseline(tests, places, rows, o.quick, pool)
        results = find_all(tests, places, rows, read_seeds() if o.quick else None, pool)
    missed = [row.name for row, found in results if not found.ok]
    print(f"{len(results) - len(missed)} found, {len(missed)} not found, {time.monotonic() - began:.0f} s")
    if missed or not ok:
        return 1
    if not o.names and not o.quick:
        (o.out or ROOT / "docs/canaries.md").write_text(matrix(results, places, time.monotonic() - began))
        if not o.out:
            write_seeds(results)
    return 0


if __name__ == "__main__":
    sys.exit(main())
