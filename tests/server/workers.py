#!/usr/bin/python3
"""Remote workers by their protocol: claims that wait, fences, renewals, reports item by item, and what becomes of tasks whose worker is gone."""

import os
import sys
import threading
import time

import served

checks = served.Checks()


class Worker:
    def __init__(self, server, **options):
        self.server, self.number = server, 0
        answer = server.post("/v1/workers", options)
        if answer.status != 201:
            raise AssertionError(answer)
        self.id, self.lease_us = answer.json["worker"], answer.json["lease_us"]

    def call(self, what, body):
        return self.server.post(f"/v1/workers/{self.id}/{what}", body)

    def claim(self, most=10, wait="10s"):
        self.number += 1
        return self.call("claim", {"max": most, "wait": wait, "number": self.number}).json

    def renew(self, *tasks, number=None):
        return self.call("renew", {"held": [lease(task) for task in tasks], "number": self.number if number is None else number}).json

    def report(self, *items):
        return self.call("report", {"items": list(items)}).json["results"]

    def end(self, task, outcome="succeeded", **more):
        return self.report({**lease(task), "outcome": outcome, **more})[0]


def lease(task):
    return {"id": task["id"], "fence": task["fence"]}


def add(server, kind, **task):
    return server.post("/v1/tasks", {"type": kind, **task}).json["id"]


def state(server, task):
    return server.get(f"/v1/tasks/{task}").json


def types(claimed):
    return [task["type"] for task in claimed["tasks"]]


def life(server):
    """From the claim to the end of each kind."""
    worker = Worker(server, name="first", queues=["life"])
    ids = [add(server, kind, queue="life", payload={"n": n}, key=kind) for n, kind in enumerate(("ok", "retry", "fail", "snooze", "release"))]
    tasks = worker.claim()["tasks"]
    tasks += worker.claim()["tasks"] if len(tasks) < 5 else []
    checks.equal("all are claimed", sorted(task["id"] for task in tasks), sorted(ids))
    by = {task["type"]: task for task in tasks}
    checks.equal("as they were dispatched", (by["fail"]["payload"], by["fail"]["key"], by["fail"]["attempt"], by["fail"]["queue"]),
                 ({"n": 2}, "fail", 1, "life"))
    noted = worker.report({**lease(by["ok"]), "log": ["begins", {"level": "warn", "text": "slowly"}], "progress": 40, "progress_text": "half"})
    checks.equal("a sign of life", noted[0]["status"], "noted")
    answers = worker.report({**lease(by["ok"]), "outcome": "succeeded", "result": {"sum": 3}, "spawn": [{"type": "child", "queue": "other"}]},
                            {**lease(by["retry"]), "outcome": "retry", "error": "not yet", "code": "busy", "delay": "1h"},
                            {**lease(by["fail"]), "outcome": "failed", "error": "never"},
                            {**lease(by["snooze"]), "outcome": "snooze", "delay": "1h"},
                            {**lease(by["release"]), "outcome": "released"},
                            {**lease(by["release"]), "fence": 99, "outcome": "succeeded"})
    checks.equal("an answer for each", [answer.get("as", answer["status"]) for answer in answers],
                 ["succeeded", "retrying", "failed", "snoozed", "released", "lost"])
    done = state(server, by["ok"]["id"])
    checks.equal("the result", (done["state"], done["result"], done["progress"]), ("succeeded", {"sum": 3}, 40))
    checks.equal("the log", [(line["level"], line["text"]) for line in done["log"]], [("info", "begins"), ("warn", "slowly")])
    checks.equal("what it spawned", [task["type"] for task in server.get("/v1/tasks?queue=other").json["tasks"]], ["child"])
    checks.equal("a retry", [state(server, by["retry"]["id"])[name] for name in ("display", "failures", "error", "code")],
                 ["retrying", 1, "not yet", "busy"])
    checks.equal("a failure", state(server, by["fail"]["id"])["state"], "failed")
    checks.equal("a snooze costs nothing", state(server, by["snooze"]["id"])["failures"], 0)
    again = worker.claim()["tasks"]
    checks.equal("what was released comes again, under a new fence", [(task["type"], task["fence"] > by["release"]["fence"]) for task in again],
                 [("release", True)])
    checks.equal("the old fence is refused", worker.end(by["release"])["status"], "lost")
    checks.equal("the new one counts", worker.end(again[0])["as"], "succeeded")
    checks.equal("twice is once", worker.end(again[0])["status"], "lost")
    wrong = worker.claim(wait="0s")
    checks.equal("nothing is due", wrong["tasks"], [])


def waiting(server):
    """A claim waits, and is woken by what is dispatched, by what falls due, and by a resume."""
    worker = Worker(server, queues=["wait"])
    got = []
    for what in ("now", "soon", "paused"):
        if what == "paused":
            server.post("/v1/queues/wait/pause")
            add(server, what, queue="wait")
            checks.equal("nothing of a paused queue", worker.claim(wait="200ms")["tasks"], [])
        thread = threading.Thread(target=lambda: got.append((types(worker.claim()), time.monotonic())))
        thread.start()
        served.until("the claim waits", lambda: any(w["waits"] for w in server.get("/v1/workers").json["workers"]))
        begun = time.monotonic()
        if what == "paused":
            server.post("/v1/queues/wait/resume")
        else:
            add(server, what, queue="wait", **({"delay": "300ms"} if what == "soon" else {}))
        thread.join(served.PATIENCE)
        kinds, at = got[-1] if got else (None, 0)
        checks.equal(f"woken: {what}", kinds, [what])
        checks.that(f"in time: {what}", at - begun < 8, at - begun)  # it waits for ten seconds
    worker.server.request("DELETE", f"/v1/workers/{worker.id}")


def filters(server):
    """Types, queues, priorities."""
    for kind in ("a", "b", "c"):
        add(server, kind, queue="kinds")
    only = Worker(server, queues=["kinds"], types=["b", "x"])
    checks.equal("only its types", types(only.claim()), ["b"])
    checks.equal("and no others", types(only.claim(wait="200ms")), [])
    served.until("others stay for others", lambda: state(server, server.get("/v1/tasks?type=a&queue=kinds").json["tasks"][0]["id"])["state"] == "pending")
    both = Worker(server, queues=["kinds", "more"])
    add(server, "d", queue="more")
    kinds = []
    while len(kinds) < 3:
        got = both.claim(wait="5s")
        if not got["tasks"]:
            break
        kinds += types(got)
    checks.equal("two queues", sorted(kinds), ["a", "c", "d"])
    for priority in (5, -5, 0):
        add(server, f"p{priority}", queue="ranks", priority=priority)
    ranks = Worker(server, queues=["ranks"])
    checks.equal("priorities", [types(ranks.claim(most=1))[0] for _ in range(3)], ["p-5", "p0", "p5"])


def reconciled(server):
    """An answer that the worker never got: what it does not name is given back."""
    worker = Worker(server, queues=["lost"])
    task = add(server, "lost", queue="lost")
    got = worker.claim()["tasks"]
    renewed = worker.renew(number=worker.number - 1)
    checks.equal("an answer that may be on its way is left alone", (renewed["lost"], state(server, task)["state"]), ([], "leased"))
    worker.renew()
    again = worker.claim()["tasks"]
    checks.that("given back, with a new fence", again and again[0]["id"] == task and again[0]["fence"] > got[0]["fence"], again)
    renewed = worker.renew(again[0], got[0])
    checks.equal("the old one is lost", renewed["lost"], [lease(got[0])])
    server.post(f"/v1/tasks/{task}/cancel")
    told = served.until("the cancel is told", lambda: worker.renew(again[0])["stop"])
    checks.equal("to stop", told, [{**lease(again[0]), "reason": "cancelled"}])
    checks.equal("it ends as cancelled", worker.end(again[0], "cancelled")["as"], "cancelled")
    timed = add(server, "slow", queue="lost", timeout="300ms")
    slow = worker.claim()["tasks"][0]
    checks.that("a deadline", slow["id"] == timed and slow["deadline"], slow)
    told = served.until("the timeout is told", lambda: worker.renew(slow)["stop"])
    checks.equal("to stop in time", told[0]["reason"], "timeout")
    checks.equal("and is tried again", worker.end(slow, "retry", error="too slow")["as"], "retrying")


def silent(server):
    """A worker that is not heard of loses its tasks; five times, and the task is given up."""
    task = add(server, "poison", queue="silent")
    fences = []
    for number in range(5):
        worker = Worker(server, name=f"silent{number}", queues=["silent"], lease="1s")
        fences.append(served.until("it comes again", lambda: worker.claim()["tasks"])[0]["fence"])
    checks.that("fences rise", all(fences) and fences == sorted(set(fences)), fences)
    ended = served.until("it is given up", lambda: (lambda t: t if t["state"] == "failed" else None)(state(server, task)))
    checks.equal("as poison", ended["reason"], "rescued_too_often")
    checks.equal("attempts", {attempt["outcome"] for attempt in ended["attempts"]}, {"rescued"})
    checks.equal("who is silent is forgotten", worker.call("renew", {}).status, 404)
    heard = Worker(server, queues=["heard"], lease="1500ms")
    kept = add(server, "kept", queue="heard")
    mine = heard.claim()["tasks"][0]
    until = time.monotonic() + 3
    while time.monotonic() < until:
        heard.renew(mine)
        threading.Event().wait(0.1)
    checks.equal("who is heard keeps it", (heard.end(mine)["as"], state(server, kept)["attempts"][-1]["fence"]), ("succeeded", mine["fence"]))


def limits(server):
    """Limits are the engine's."""
    server.request("PUT", "/v1/limits/rated", {"permits": 2, "period": "1h"})
    for _ in range(5):
        add(server, "rated", queue="limited", rate_key="k")
    worker = Worker(server, queues=["limited"])
    got = worker.claim()["tasks"]
    got += worker.claim(wait="300ms")["tasks"]
    checks.equal("a rate limit holds", len(got), 2)


def drained(server):
    worker = Worker(server, name="drainee", queues=["drain"])
    answers = []
    thread = threading.Thread(target=lambda: answers.append(worker.claim()))
    thread.start()
    served.until("it waits", lambda: any(w["waits"] for w in server.get("/v1/workers").json["workers"] if w["name"] == "drainee"))
    server.post(f"/v1/workers/{worker.id}/drain")
    thread.join(served.PATIENCE)
    checks.equal("a claim hears of it", answers and answers[0]["drain"], True)
    checks.equal("a renewal too", worker.renew()["drain"], True)
    add(server, "left", queue="drain")
    checks.equal("nothing more is given", worker.claim()["tasks"], [])


def wrong(server):
    worker = Worker(server, queues=["wrong"])
    for path, body, status in (("claim", {"max": 0}, 422), ("claim", {"most": 3}, 422), ("report", {"items": {}}, 422), ("report", {}, 422),
                               ("report", {"items": [{"id": "x", "fence": 1}]}, 422), ("report", {"items": [{"fence": 1}]}, 422),
                               ("report", {"items": [{"id": "0" * 13, "fence": 1, "outcome": "fine"}]}, 422),
                               ("renew", {"held": [1]}, 422), ("renew", {"held": [{"id": "0" * 12 + "1"}]}, 422)):
        checks.equal(f"{path} {body}", worker.call(path, body).status, status)
    for body in ({"queues": "x"}, {"queues": ["a"] * 9 + ["\u0001"]}, {"lease": "1h"}, {"lease": "1ms"}, {"types": [1]}, {"queues": ["a,b"]}):
        checks.equal(f"register {body}", server.post("/v1/workers", body).status, 422)
    for what in ("claim", "renew", "report", "drain"):
        checks.equal(f"nobody: {what}", server.post(f"/v1/workers/nobody/{what}", {"items": []} if what == "report" else {}).status, 404)
    big = {"id": "0" * 12 + "1", "fence": 1}
    checks.equal("too many items", worker.report(*[big] * 1000)[0]["status"], "lost")
    checks.equal("and one more", worker.call("report", {"items": [big] * 1001}).status, 413)
    add(server, "big", queue="wrong")
    task = worker.claim()["tasks"][0]
    checks.equal("a result that is too large", worker.end(task, result="x" * 70000)["status"], "invalid")
    checks.equal("the task is still its own", worker.end(task, result="x")["as"], "succeeded")


def stop_and_go():
    """The server stops well: what a worker has is brought in first. The next one does not know the worker."""
    with served.Server("--lease", "3s") as server:
        worker = Worker(server)
        task = add(server, "last")
        got = worker.claim()["tasks"][0]
        stopped = threading.Thread(target=server.stop)
        stopped.start()
        served.until("it is told", lambda: worker.renew(got)["stopping"])
        checks.equal("nothing new", worker.claim()["tasks"], [])
        checks.equal("the outcome counts", worker.end(got)["as"], "succeeded")
        stopped.join(served.PATIENCE)
        checks.equal("and it ends", server.process.poll(), 0)
        server.start_again()
        checks.equal("it is there", state(server, task)["state"], "succeeded")
        checks.equal("register again", worker.call("renew", {}).status, 404)


def killed():
    """The server is killed. Its tasks come back, but not before those who have them know that they have lost them."""
    with served.Server("--lease", "2s") as server:
        worker = Worker(server)
        task = add(server, "survivor")
        first = worker.claim()["tasks"][0]
        promised = time.monotonic() + worker.lease_us / 1e6
        server.process.kill()
        server.start_again()
        again = Worker(server)
        got = []
        while not got:
            got = again.claim(wait="500ms")["tasks"]
        checks.that("not before the promise ends", time.monotonic() >= promised, promised - time.monotonic())
        checks.that("a new fence", got[0]["id"] == task and got[0]["fence"] > first["fence"], got)
        checks.equal("the old one is refused", again.end(first)["status"], "lost")
        checks.equal("the new one is not", again.end(got[0])["as"], "succeeded")


def on_server():
    """The same on PostgreSQL: what differs is the store's."""
    url, place = os.environ.get("PAWL_TEST_POSTGRES"), os.environ["PAWL_TEST_SERVER"] + "/url"
    if not url and not os.path.exists(place):
        return 77
    if not url:
        with open(place, encoding="utf-8") as file:
            url = file.read().strip()
    url += ("&" if "?" in url else "?") + f"pawl_schema=workers_{os.getpid()}"
    modules = {"PAWL_MODULES": os.environ["PAWL_BUILD_DIR"]}
    with served.Server("--lease", "12s", store=url, environment=modules) as server:
        for part in (life, filters, reconciled):
            part(server)
    return checks.end()


def main():
    if sys.argv[1:] == ["postgres"]:
        return on_server()
    with served.Server("--lease", "3s") as server:
        for part in (life, waiting, filters, reconciled, silent, limits, drained, wrong):
            part(server)
    stop_and_go()
    killed()
    with served.Server(store="memory:") as server:
        answer = server.post("/v1/workers", {})
        checks.that("a store of one handle", answer.status == 501 and "memory:NAME" in answer.json["detail"], answer)
    with served.Server(store="memory:shared") as server:
        worker = Worker(server)
        add(server, "t")
        checks.equal("in memory", worker.end(worker.claim()["tasks"][0])["as"], "succeeded")
    return checks.end()


if __name__ == "__main__":
    sys.exit(main())
