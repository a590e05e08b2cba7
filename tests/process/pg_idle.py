#!/usr/bin/env python3
"""An idle node on PostgreSQL: at most one query per interval of its safety poll, and nothing is written. Behind a pooling
proxy: one renewal per interval. The server's log says what it was asked.

    pg_idle.py [SECONDS]        how long is looked; 4 by default
"""

import re
import sys
import time

import pg_server
import proc

POLL_MS = 500
SHORTEST = 0.8  # of the interval: it varies by a fifth
WRITES = "SELECT pg_snapshot_xmax(pg_current_snapshot())"  # a transaction that writes takes a number, others do not
LINE = re.compile(r"^asked by (\S*) .*?(?:execute|statement)[^:]*: (.*)$", re.MULTILINE)


def check(condition, text):
    if not condition:
        raise proc.Failure(text)


def look(server, name, seconds):
    """What the node asks, and how many transactions write something, in this time."""
    before, since = int(server.psql(WRITES)), len(server.log())
    time.sleep(seconds)  # its length is what is tested
    asked = [sql for who, sql in LINE.findall(server.log()[since:]) if who == name]
    return asked, int(server.psql(WRITES)) - before


def idle_node(nodes, server, proxy):
    """A node that has run a task, and knows of one that nobody may run yet."""
    name = "behind_proxy" if proxy else "idle"
    nodes.path = server.url(proxy, pawl_poll_ms=POLL_MS, application_name=name)
    node = nodes.start(name, lease_ms=750)
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


def judge(name, asked, written, seconds, renewals):
    most = seconds * 1000 / (POLL_MS * SHORTEST) + 1
    kinds = sorted(set(asked))
    check(asked, f"{name} asked nothing at all: there is no safety poll, or the log is not understood")
    check(len(asked) <= most, f"{name} asked {len(asked)} times in {seconds:g} s, at most {most:.0f} are allowed: {kinds}")
    check(written <= (most if renewals else 0), f"{written} transactions wrote something while {name} was idle: {kinds}")
    print(f"{name}: {len(asked)} queries and {written} writes in {seconds:g} s, with a poll every {POLL_MS} ms")


def main():
    seconds = float(sys.argv[1]) if len(sys.argv) > 1 else 4.0
    with pg_server.nodes() as (nodes, server):
        server.set(autovacuum="off", log_line_prefix="asked by %a ", log_statement="all")
        for proxy in (False, True):
            node = idle_node(nodes, server, proxy)
            time.sleep(proc.deadline(6))  # until all that follows a start is over, the first look for old history included
            asked, written = look(server, node.name, seconds)
            judge(node.name, asked, written, seconds, proxy)
            check_alive(nodes, server, node)
            node.close()


if __name__ == "__main__":
    main()
