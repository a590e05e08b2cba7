#!/usr/bin/env python3
"""How soon others go on with a node's tasks on a server: after a kill within its lease and two seconds, after a clean stop at
once. And that nobody loses anything by an outage of the server that outlasts all leases: the nodes come back by themselves,
what ended meanwhile is accepted, and nobody is rescued.

    server_takeover.py KIND
"""

import time

import proc
import servers

LEASE_MS = 2000
ALSO_MS = 2000
AT_ONCE_MS = 1500


def check(condition, text):
    if not condition:
        raise proc.Failure(text)


def hold_tasks(node, count):
    """The ids of tasks that the node runs until it is told to stop."""
    for _ in range(count):
        node.tell("dispatch hold")
    return [node.expect(e="start", type="hold")["id"] for _ in range(count)]


def now_us():
    return time.monotonic_ns() // 1000  # the clock of the histories


def after_kill(nodes, busy):
    took_ms = proc.in_time(LEASE_MS + ALSO_MS, lambda: killed(nodes, busy))
    print(f"after a kill: {took_ms:.0f} ms to {'a busy' if busy else 'an idle'} node, with a lease of {LEASE_MS} ms")


def killed(nodes, busy):
    first = nodes.start(f"killed{len(nodes.all)}", hold=1, workers=3, lease_ms=LEASE_MS)
    tasks = hold_tasks(first, 3)
    second = nodes.start(f"heir{len(nodes.all)}", lease_ms=LEASE_MS, load=busy)
    second.tell("dispatch ok")
    second.expect(e="end")
    since = now_us()
    first.destroy()
    took_ms = max(second.expect(e="start", id=task)["t"] - since for task in tasks) / 1000
    for task in tasks:
        second.expect(e="end", id=task, outcome="succeeded")
    second.close()
    return took_ms


def after_stop(nodes):
    took_ms = proc.in_time(AT_ONCE_MS, lambda: stopped(nodes))
    print(f"after a stop: {took_ms:.0f} ms, of which the start of the heir is a part")


def stopped(nodes):
    """What runs may end; what the node has not begun others get at once, although its lease is longer."""
    first = nodes.start(f"stopped{len(nodes.all)}", hold=1, workers=1, lease_ms=2 * AT_ONCE_MS)
    first.tell("dispatch nap")
    nap = first.expect(e="start")["id"]
    for _ in range(6):
        first.tell("dispatch ok")
        first.expect(e="ack")
    first.close()
    stopped_us = now_us()
    check(first.has(e="end", id=nap, outcome="succeeded"), "what ran when its node stopped did not end well")
    left = {line["id"] for line in first.has(e="ack")} - {line["id"] for line in first.has(e="end")}
    heir = nodes.start(f"heir{len(nodes.all)}", lease_ms=30000)
    took_ms = max((heir.expect(e="start", id=task)["t"] - stopped_us for task in left), default=0) / 1000
    check(left, "the stopped node left nothing to others")
    heir.close()
    return took_ms


def after_outage(nodes, server):
    """Three nodes run tasks while the server is away for three leases."""
    all_nodes, held = [], {}
    for name in ("patient0", "patient1", "patient2"):
        all_nodes.append(nodes.start(name, hold=1, workers=2, lease_ms=LEASE_MS))
        held[name] = hold_tasks(all_nodes[-1], 2)
    server.stop()
    for node in all_nodes:  # past its own deadline a node tells its runs, which return
        for task in held[node.name]:
            node.expect(e="return", id=task)
    time.sleep(2 * LEASE_MS / 1000)  # the length of the outage is what is tested
    server.start()
    for node in all_nodes:
        for task in held[node.name]:
            node.expect(e="end", id=task, outcome="succeeded")
    for node in all_nodes:
        node.tell("dispatch ok")
        node.expect(e="ack", after=node.has(e="end")[-1])
    for node in all_nodes:
        check(not node.has(e="rescued"), f"{node.name} rescued somebody: {node.has(e='rescued')}")
        check(len(node.has(e="start", type="hold")) == 2, f"{node.name} ran a task again: {node.has(e='start')}")
        node.close()
    print("after an outage of more than three leases: all outcomes accepted, nobody rescued")


def main():
    with servers.nodes(servers.parser(__doc__).parse_args().kind) as (nodes, server):
        after_kill(nodes, 0)
        after_stop(nodes)
        after_outage(nodes, server)
        after_kill(nodes, 1)


if __name__ == "__main__":
    main()
