#!/usr/bin/env python3
"""An idle node on a server: at most one question per interval of its safety poll, and nothing is written. Behind a pooling proxy
of PostgreSQL: one renewal per interval. On PostgreSQL there are a hundred thousand schedules that are not due.

    server_idle.py KIND [SECONDS]        how long is looked; 4 by default

What PostgreSQL was asked its log says; what MariaDB was asked, the gate that the node goes through.
"""

import contextlib
import re
import time

import proc
import servers

POLL_MS = 500
SHORTEST = 0.8  # of the interval: it varies by a fifth
LINE = re.compile(r"^asked by (\S*) .*?(?:execute|statement)[^:]*: (.*)$", re.MULTILINE)
WRITES = ("Innodb_rows_inserted", "Innodb_rows_updated", "Innodb_rows_deleted", "Com_insert", "Com_update", "Com_delete",
          "Com_replace", "Com_commit")


def check(condition, text):
    if not condition:
        raise proc.Failure(text)


FAR_AWAY = """
    WITH d AS (INSERT INTO pawl.pawl_schedule (name, anchor_us, created_us, changed_us, spec)
               SELECT 'far.' || i, 0, 0, 0, '{"type":"ok","every":1,"unit":"hours"}' FROM generate_series(1, 100000) i RETURNING id, name)
    INSERT INTO pawl.pawl_schedule_state (id, name, version, next_us, occurrence_us, look_us, off, watch)
    SELECT id, name, 1, x.at, x.at, x.at, 0, false FROM d, (SELECT (extract(epoch FROM now()) + 86400)::int8 * 1000000 AS at) x;
    UPDATE pawl.pawl_gate SET schedules = 1;
    ANALYZE pawl.pawl_schedule_state;
"""


class PostgresScene:
    def __init__(self, server, proxy):
        self.server, self.renews = server, proxy
        self.name = "behind_proxy" if proxy else "idle"
        self.url = server.url(proxy, pawl_poll_ms=POLL_MS, application_name=self.name)
        server.set(autovacuum="off", log_line_prefix="asked by %a ", log_statement="all")
        if not proxy:
            check(server.sql(FAR_AWAY) is not None, "the schedules could not be stored")

    def asked(self):
        return [sql for who, sql in LINE.findall(self.server.log()) if who == self.name]

    def written(self):
        """A transaction that writes takes a number, others do not."""
        return int(self.server.sql("SELECT pg_snapshot_xmax(pg_current_snapshot())"))

    def close(self):
        pass


class MariaScene:
    name, renews = "idle", False

    def __init__(self, server):
        self.server, self.gate = server, server.gate()
        self.url = server.url_at(self.gate.folder, pawl_poll_ms=POLL_MS)

    def asked(self):
        return list(self.gate.passed)

    def written(self):
        """Statements and rows; the tables of the server's own are not among them."""
        return self.server.status(*WRITES)

    def close(self):
        self.gate.close()


def scenes(server):
    return [PostgresScene(server, False), PostgresScene(server, True)] if server.kind == "postgres" else [MariaScene(server)]


def idle_node(nodes, scene):
    """A node that has run a task, and knows of one that nobody may run yet."""
    nodes.path = scene.url
    node = nodes.start(scene.name, lease_ms=750)
    node.tell("dispatch ok")
    node.expect(e="end", outcome="succeeded")
    node.tell("dispatch ok 3600000")
    node.expect(e="ack", after=node.has(e="end")[-1])
    return node


def check_alive(nodes, server, node):
    nodes.path = server.url()
    other = nodes.start("other", serve=0)
    other.tell("dispatch ok")
    node.expect(e="start", id=other.expect(e="ack")["id"])
    other.close()


def look(scene, seconds):
    """What the node asks, and how much is written, in this time."""
    written, since = scene.written(), len(scene.asked())
    time.sleep(seconds)  # its length is what is tested
    asked = scene.asked()[since:]
    return asked, scene.written() - written


def judge(scene, seconds):
    """Three tries: on a busy machine it takes longer until all that follows a start is over."""
    for last in (False, False, True):
        try:
            return judge_once(scene, *look(scene, seconds), seconds)
        except proc.Failure:
            if last:
                raise


def judge_once(scene, asked, written, seconds):
    most = seconds * 1000 / (POLL_MS * SHORTEST) + 1
    kinds = sorted(set(asked))
    check(asked, f"{scene.name} asked nothing at all: there is no safety poll, or what it asks is not understood")
    check(len(asked) <= most, f"{scene.name} asked {len(asked)} times in {seconds:g} s, at most {most:.0f} are allowed: {kinds}")
    check(written <= (most if scene.renews else 0), f"{written} times something was written while {scene.name} was idle: {kinds}")
    print(f"{scene.name}: {len(asked)} queries and {written} writes in {seconds:g} s, with a poll every {POLL_MS} ms")


def main():
    parser = servers.parser(__doc__)
    parser.add_argument("seconds", type=float, nargs="?", default=4.0)
    args = parser.parse_args()
    with servers.nodes(args.kind) as (nodes, server):
        for scene in scenes(server):
            with contextlib.closing(scene):
                node = idle_node(nodes, scene)
                time.sleep(6)  # until all that follows a start is over, the first look for old history included
                judge(scene, args.seconds)
                check_alive(nodes, server, node)
                node.close()


if __name__ == "__main__":
    main()
