#!/usr/bin/env python3
"""No statement of a function may read all tasks, whatever plan was made while there were few.

    plans.py PAWL CONTRACT    the second program runs the contract suite on a server whose statistics say that every table is empty

Plans are made once per session and outlive what they were made for (functions/common.sql says how that is met). Here the server tells the plan
of every statement, and a plan that reads an index of a table of tasks whole, or hashes one, is an error. What looks at everything by its
nature is named below.
"""

import collections
import os
import pathlib
import re
import subprocess
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "process"))
import servers  # noqa: E402  pylint: disable=wrong-import-position

SETTINGS = """
session_preload_libraries = 'auto_explain'
auto_explain.log_min_duration = 0
auto_explain.log_nested_statements = on
log_line_prefix = '%m %p '
autovacuum_naptime = 1s
autovacuum_analyze_threshold = 0
autovacuum_analyze_scale_factor = 0
autovacuum_vacuum_threshold = 0
autovacuum_vacuum_scale_factor = 0
"""

TABLES = ("live", "body", "leased", "slotted", "blocked", "shared", "place", "member", "edge", "wait", "key", "occurrence")

LUCK = 20  # so often a statement may take the other of two indexes that hold the column: where they differ by a page

# By how the statement begins.
WHOLE = {
    "SELECT x.id, b.id IS NOT NULL, coalesce(b.name": "a task's relatives, for a person",
    "holder := coalesce((SELECT p.task_id": "why a task waits, for a person",
    "SELECT y.scope, y.name_id, y.key": "the places of limits, for a person",
    "SELECT array_agg(x.id ORDER BY x.id) AS id, array_agg(p_scope)": "a limit is put: all that it concerns",
    "v_ids := ARRAY(SELECT l.id FROM pawl_leased l WHERE CASE WHEN p_scope": "a limit is put: all that it concerns",
    "v_did := cardinality(pawl_leave_places(ARRAY(": "a limit is put: all that it concerns",
    "EXISTS (SELECT FROM pawl_spot s WHERE s.scope = v_scope": "a limit is put: all that it concerns",
    "SELECT * FROM pawl_leased WHERE node = p_victim": "what a dead node holds: there are no more leases than nodes can hold",
    "SELECT p.task_id, 2::int8 FROM pawl_place p": "a store is moved",
}


def explained(path):
    """The statements of functions, each with the lines of its plan."""
    text = plan = None
    with open(path, encoding="utf-8", errors="replace") as file:
        for line in file:
            if re.match(r"\d{4}-\d\d-\d\d ", line):
                if plan:
                    yield re.sub(r"\s+", " ", text).strip(), plan
                text, plan = ("" if " plan:" in line else None), []
            elif text is not None:
                if not plan and "(cost=" not in line:
                    text += line.replace("Query Text:", "", 1)
                else:
                    plan.append(line)


def faults(plan, firsts):
    """What is wrong with a plan, and how often that may be; firsts: the first column of each index of a table of tasks."""
    for i, line in enumerate(plan):
        scan = re.search(r"Scan (?:Backward )?using (\w+) on", line)
        if scan and scan[1] in firsts:
            below = "".join(plan[i + 1:i + 4]).split("->")[0]
            condition = re.search(r"Index Cond: (.*)", below)
            limited = i > 0 and "Limit" in plan[i - 1]
            if not condition and not limited:
                yield f"reads {scan[1]} whole", 0
            elif condition and not re.search(rf"\b{firsts[scan[1]]}\b", condition[1]):
                yield f"reads {scan[1]} whole, by {condition[1].strip()}", LUCK


def main():
    pawl, contract = map(os.path.abspath, sys.argv[1:3])
    with servers.server("postgres") as server:
        with open(f"{server.where}/data/postgresql.conf", "a", encoding="utf-8") as file:
            file.write(SETTINGS)
        server.restart()
        environment = {**os.environ, "PAWL_TEST_SERVER": server.folder, "PAWL_MODULES": os.path.dirname(pawl)}
        subprocess.run([pawl, "migrate", "up", "--store", server.side(1)], env=environment, stdout=subprocess.DEVNULL, check=True)
        done = subprocess.run([contract, "postgres", "plain"], env=environment, capture_output=True, text=True, check=False)
        if done.returncode:
            print(done.stdout[-3000:], done.stderr[-3000:], sep="\n")
            return 1
        firsts = dict(row.split("|") for row in server.sql(
            "SELECT DISTINCT c.relname, a.attname FROM pg_index i JOIN pg_class c ON c.oid = i.indexrelid JOIN pg_class t ON t.oid = i.indrelid"
            " JOIN pg_attribute a ON a.attrelid = t.oid AND a.attnum = i.indkey[0]"
            f" WHERE t.relname IN ({', '.join(repr('pawl_' + name) for name in TABLES)})").splitlines())
        seen, found = 0, collections.Counter()
        for text, plan in explained(f"{server.where}/server.log"):
            seen += 1
            if '"test_' not in text and not text.startswith(tuple(WHOLE)):
                found.update((*fault, text[:200]) for fault in faults(plan, firsts))
    for (fault, often, text), count in found.most_common():
        print(f"{count} times{', by chance' if count <= often else ''}: {fault}: {text}")
    print(f"{seen} plans, {len(firsts)} indexes")
    return 1 if any(count > often for (_, often, _), count in found.items()) or seen < 10000 or len(firsts) < 12 else 0


if __name__ == "__main__":
    sys.exit(main())
