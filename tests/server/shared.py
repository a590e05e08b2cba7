#!/usr/bin/python3
"""The server on a database server: routes, what other nodes do in the stream of events, SIGKILL under load.

    shared.py postgres|mysql"""

import os
import subprocess
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "process"))

import servers  # noqa: E402
import served  # noqa: E402
from life import Events, killed  # noqa: E402

checks = served.Checks()


def start(url):
    return served.Server(store=url, environment={name: value for name, value in os.environ.items() if name == "PAWL_MODULES"})


def routes(server):
    made = server.post("/v1/tasks", {"type": "greet", "payload": {"n": 1}, "key": "k"})
    checks.equal("created", (made.status, made.json["outcome"]), (201, "created"))
    checks.equal("by its id", server.get(f"/v1/tasks/{made.json['id']}").json["payload"], {"n": 1})
    bulk = server.post("/v1/tasks/bulk", [{"type": "a"}, {"tpye": "b"}, {"type": "c"}]).json
    checks.equal("bulk", (bulk["stored"], bulk["refused"]), (2, 1))
    checks.equal("list", len(server.get("/v1/tasks?state=pending").json["tasks"]), 3)
    checks.equal("cancel", server.post(f"/v1/tasks/{made.json['id']}/cancel").status, 200)
    checks.equal("limits", server.request("PUT", "/v1/limits/greet", {"permits": 5, "period": "1m"}).status, 200)
    checks.equal("concurrency", server.request("PUT", "/v1/concurrency/greet", {"most": 2}).status, 200)
    for path in ("/v1/queues", "/v1/limits", "/v1/concurrency", "/v1/nodes", "/v1/acts", "/v1/stats", "/v1/dead", "/readyz", "/metrics"):
        checks.equal(path, server.get(path).status, 200)
    checks.equal("what is wrong is said", server.get("/v1/tasks?state=odd").status, 422)
    server.post("/v1/tasks/cancel", {"filter": {}})


def events(server, url):
    stream = Events(server)
    made = served.pawl("enqueue", "--store", url, "--type", "mail")
    first = stream.next()
    checks.equal("handed over by a command", (first["event"], first["data"]["id"]), ("dispatched", made))
    worker = subprocess.Popen([served.PAWL, "work", "--store", url, "--quiet", "--", "true"], stdout=subprocess.DEVNULL)
    try:
        seen = [first]
        while seen[-1]["event"] != "succeeded":
            seen.append(stream.next())
        checks.equal("run by another node", [e["event"] for e in seen if e["data"].get("id") == made], ["dispatched", "started", "succeeded"])
        again = Events(server, Last_Event_ID=first["id"])
        checks.equal("resumed", again.next()["id"], seen[1]["id"])
        again.close()
        stream.close()
    finally:
        worker.terminate()
        worker.wait()


def main():
    with servers.server(sys.argv[1]) as database:
        with start(database.url()) as server:
            routes(server)
            events(server, database.url())
        killed(checks, lambda: start(database.url()))
    return checks.end()


if __name__ == "__main__":
    sys.exit(main())
