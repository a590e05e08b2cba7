#!/usr/bin/python3
"""Every route, with what it should get and with what it should not: real answers are held against the server's own OpenAPI document."""

import json
import os
import re
import shutil
import subprocess
import sys
import threading

import served

checks = served.Checks()
ID = re.compile(r"^[0-9A-Za-z]{13}$")


# ---- the document -------------------------------------------------------------------------------------------------------------


class Document:
    """Just enough of JSON Schema for what the document says."""

    def __init__(self, document):
        self.document, self.used = document, set()

    def operations(self):
        return {(method, path) for path, methods in self.document["paths"].items() for method in methods}

    def find(self, method, path):
        plain = path.split("?")[0]
        for pattern, methods in self.document["paths"].items():
            if re.fullmatch(re.sub(r"\{\w+\}", "[^/]+", pattern), plain) and method.lower() in methods:
                if "{" in pattern and plain in self.document["paths"]:
                    continue
                return pattern, methods[method.lower()]
        return None, None

    def wrong(self, schema, value, at="$"):
        if "$ref" in schema:
            schema = self.document["components"]["schemas"][schema["$ref"].rsplit("/", 1)[1]]
        kinds = schema.get("type", [])
        kinds = [kinds] if isinstance(kinds, str) else kinds
        types = {"string": str, "integer": int, "boolean": bool, "array": list, "object": dict, "null": type(None)}
        if kinds and not any(type(value) is types[kind] for kind in kinds):
            return f"{at} is {value!r}, not {kinds}"
        if "pattern" in schema and isinstance(value, str) and not re.match(schema["pattern"], value):
            return f"{at} does not match: {value!r}"
        if isinstance(value, list) and "items" in schema:
            return next(filter(None, (self.wrong(schema["items"], item, f"{at}[{i}]") for i, item in enumerate(value))), None)
        if isinstance(value, dict) and "properties" in schema:
            return self.wrong_object(schema, value, at)
        return None

    def wrong_object(self, schema, value, at):
        missing = set(schema.get("required", [])) - set(value)
        if missing:
            return f"{at} lacks {missing}"
        for name, member in value.items():
            if name not in schema["properties"]:
                return f"{at}.{name} is not described"
            problem = self.wrong(schema["properties"][name], member, f"{at}.{name}")
            if problem:
                return problem
        return None

    def check(self, method, path, answer):
        pattern, operation = self.find(method, path)
        if operation and answer.status < 300:
            self.used.add((method.lower(), pattern))
        responses = operation["responses"] if operation else {"default": self.document["paths"]["/v1/tasks"]["get"]["responses"]["default"]}
        kind, body = next(iter(responses.get(str(answer.status), responses["default"])["content"].items()))
        kind = "" if pattern == "/assets/{asset}" else kind
        checks.that(f"{method} {path}: type", answer.headers.get("Content-Type", "").startswith(kind), answer.headers)
        if kind.endswith("json"):
            checks.equal(f"{method} {path}: as described", self.wrong(body["schema"], answer.json), None)


server = document = None


def call(method, path, body=None, wanted=None, **headers):
    answer = server.request(method, path, body, {name.replace("_", "-"): value for name, value in headers.items()})
    if path != "/v1/openapi.json":
        document.check(method, path, answer)
    if wanted:
        checks.equal(f"{method} {path} {str(body)[:60]}", answer.status, wanted)
    return answer


def refused(what, status, word, method, path, body=None, **headers):
    answer = call(method, path, body, status, **headers)
    checks.that(f"{what}: says why", word in answer.json["detail"], answer.body)


# ---- tasks --------------------------------------------------------------------------------------------------------------------


def tasks():
    first = call("POST", "/v1/tasks", {"type": "greet", "payload": {"b": 1, "a": [1.50, "x"]}, "queue": "mail", "key": "k1"}, 201).json
    checks.that("an id", ID.match(first["id"]), first)
    same = call("POST", "/v1/tasks", {"type": "greet", "queue": "mail", "key": "k1", "payload": None, "priority": -5}, 200).json
    checks.equal("the key is the task", (same["id"], same["outcome"]), (first["id"], "updated"))
    raw = b'{"type":"exact","payload":{ "n" : 1.0e2,\t"s":"\\u00e9" }}'
    exact = call("POST", "/v1/tasks", raw, 201).json["id"]
    checks.that("a payload is kept byte for byte", b'"payload":{ "n" : 1.0e2,\t"s":"\\u00e9" }' in call("GET", f"/v1/tasks/{exact}").body)
    blob = call("POST", "/v1/tasks", {"type": "blob", "payload_base64": "AAEC/w==", "content_type": "application/octet-stream"}, 201).json["id"]
    checks.equal("bytes come back", call("GET", f"/v1/tasks/{blob}").json["payload_base64"], "AAEC/w==")
    shown = call("GET", f"/v1/tasks/{first['id']}", wanted=200).json
    checks.equal("why", shown["why"]["code"], "unserved_queue")
    checks.equal("trail", [row["to"] for row in shown["audit_trail"]], ["pending"])
    checks.that("brief", "why" not in call("GET", f"/v1/tasks/{first['id']}?brief=true").json)
    call("GET", f"/v1/tasks/{first['id']}/why", wanted=200)
    later = call("POST", "/v1/tasks", {"type": "later", "delay": "1h"}, 201).json["id"]
    checks.equal("scheduled", call("GET", f"/v1/tasks/{later}").json["display"], "scheduled")
    call("POST", f"/v1/tasks/{later}/cancel", wanted=200)
    refused("cancel twice", 409, later, "POST", f"/v1/tasks/{later}/cancel")
    again = call("POST", f"/v1/tasks/{later}/retry", wanted=201).json
    checks.equal("a second retry is the first", call("POST", f"/v1/tasks/{later}/retry", wanted=200).json, {**again, "outcome": "existing"})
    missing = "0" * 12 + "1"
    for path in (f"/v1/tasks/{missing}", f"/v1/tasks/{missing}/why"):
        refused("not there", 404, missing, "GET", path)
    refused("no id", 404, "13", "GET", "/v1/tasks/nonsense")
    answer = call("POST", "/v1/tasks/cancel", {"ids": [exact, missing]}, 200).json
    checks.equal("an answer for each", [row["status"] for row in answer["results"]], ["ok", "not_found"])
    checks.equal("by filter", call("POST", "/v1/tasks/cancel", {"filter": {"type": "blob"}}, 200).json, {"count": 1})


def lists():
    bulk = call("POST", "/v1/tasks/bulk", [{"type": "page", "queue": "pages"}] * 25, 200).json
    ids = [row["id"] for row in bulk["results"]]
    seen, cursor = [], ""
    while cursor is not None:
        page = call("GET", f"/v1/tasks?type=page&limit=10&oldest_first=true{cursor and '&cursor=' + cursor}", wanted=200).json
        seen += [task["id"] for task in page["tasks"]]
        cursor = page["next"]
    checks.equal("pages lose nothing and tell nothing twice", seen, ids)
    checks.equal("filters", call("GET", "/v1/tasks?queue=pages&state=cancelled").json["tasks"], [])
    needle = call("POST", "/v1/tasks", {"type": "hay", "payload": {"note": "a Needle"}, "queue": "pages"}, 201).json["id"]
    for words in ("needle", "hay%20needle", needle, needle[:9]):
        checks.equal(f"search {words}", [task["id"] for task in call("GET", f"/v1/tasks?q={words}&queue=pages").json["tasks"]][:1], [needle])
    checks.equal("all that a search finds", call("POST", "/v1/tasks/cancel", {"filter": {"q": "needle"}}, 200).json, {"count": 1})
    for query in ("limit=0", "limit=1001", "limit=ten", "nonsense=1", "state=odd", "since=yesterday", "cursor=%C3%A4", "oldest_first=maybe", "type="):
        call("GET", f"/v1/tasks?{query}", wanted=422)


def bulk():
    answer = call("POST", "/v1/tasks/bulk", [{"type": "a"}, {"tpye": "b"}, 7, {"type": "x" * 300}, {"type": "c", "priority": 99999}, {"type": "d"}], 200).json
    checks.equal("of an array", [row.get("outcome") or row["status"] for row in answer["results"]], ["created", "invalid", "invalid", "invalid", "invalid", "created"])
    checks.that("the field is named", '"tpye"' in answer["results"][1]["detail"], answer)
    checks.equal("counts", (answer["stored"], answer["refused"]), (2, 4))
    call("POST", "/v1/tasks/bulk", [], 200)
    refused("too many", 413, "10000", "POST", "/v1/tasks/bulk", b"[" + b'{"type":"a"},' * 10000 + b'{"type":"a"}]')
    refused("an object", 422, "array", "POST", "/v1/tasks/bulk", {"type": "a"})
    lines = [json.dumps({"type": "line", "queue": "lines", "payload": {"n": i, "pad": "x" * 500}}) for i in range(5000)]
    lines[10], lines[4000] = "not json", '{"type":"line","odd":1}'
    answer = call("POST", "/v1/tasks/bulk", "\n".join(lines).encode(), 200, Content_Type="application/x-ndjson").json
    checks.equal("of a stream", (len(answer["results"]), answer["stored"], answer["refused"]), (5000, 4998, 2))
    checks.equal("in order", [row["index"] for row in answer["results"]], list(range(5000)))
    checks.that("errors where they are", "JSON" in answer["results"][10]["detail"] and '"odd"' in answer["results"][4000]["detail"])
    count = next(queue["pending"] for queue in call("GET", "/v1/queues", wanted=200).json["queues"] if queue["name"] == "lines")
    checks.equal("all are stored", count, 4998)
    answer = call("POST", "/v1/tasks/bulk", b'{"type":"a"}\n"' + b"x" * (3 << 20), 200, Content_Type="application/x-ndjson").json
    checks.equal("a line without end", [row.get("outcome") or row["status"] for row in answer["results"]], ["created", "too_large"])


def idempotency():
    trace = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
    traced = call("POST", "/v1/tasks", {"type": "traced", "payload": {"to": "Zoe-42"}}, 201, traceparent=trace).json["id"]
    checks.equal("trace context goes with the task", call("GET", f"/v1/tasks/{traced}", wanted=200).json["traceparent"], trace)
    one = call("POST", "/v1/tasks", {"type": "once"}, 201, Idempotency_Key="a1")
    two = call("POST", "/v1/tasks", {"type": "once"}, 201, Idempotency_Key="a1")
    checks.equal("the same answer", (two.json, two.headers.get("Idempotent-Replayed")), (one.json, "true"))
    refused("another body", 422, "another body", "POST", "/v1/tasks", {"type": "other"}, Idempotency_Key="a1")
    checks.that("another key", call("POST", "/v1/tasks", {"type": "once"}, 201, Idempotency_Key="a2").json != one.json)
    call("POST", "/v1/tasks", {"type": "once"}, 400, Idempotency_Key="x" * 300)


# ---- the rest -----------------------------------------------------------------------------------------------------------------


def store():
    call("POST", "/v1/queues/mail/pause", wanted=200)
    checks.that("paused", [q for q in call("GET", "/v1/queues").json["queues"] if q["name"] == "mail"][0]["paused"])
    call("POST", "/v1/queues/mail/resume", wanted=200)
    call("POST", "/v1/queues/a%2Fb%20c/pause", wanted=200)
    checks.that("any name", "a/b c" in [q["name"] for q in call("GET", "/v1/queues").json["queues"]])
    call("PUT", "/v1/limits/greet", {"permits": 15, "period": "1m"}, 200)
    call("PUT", "/v1/limits/greet?key=acme", {"permits": 1, "period_us": 1000000, "burst": 3}, 200)
    limits = call("GET", "/v1/limits", wanted=200).json["limits"]
    checks.equal("limits", [(l["type"], l.get("key"), l["permits"], l["burst"]) for l in limits], [("greet", None, 15, 15), ("greet", "acme", 1, 3)])
    checks.that("no key", "leave it out for all" in call("PUT", "/v1/limits/greet?key=", {"permits": 1, "period": "1m"}, 422).json["detail"])
    call("POST", "/v1/limits/greet/pause?key=acme", wanted=200)
    checks.that("paused", call("GET", "/v1/limits?key=acme").json["limits"][0]["paused"])
    call("POST", "/v1/limits/greet/resume?key=acme", wanted=200)
    call("DELETE", "/v1/limits/greet?key=acme", wanted=200)
    call("DELETE", "/v1/limits/greet?key=acme", wanted=404)
    call("POST", "/v1/limits/greet/resume?key=acme", wanted=404)
    for body in ({}, {"permits": 0, "period": "1m"}, {"permits": 1, "period": "soon"}, {"permits": 1.5, "period": "1m"}, {"permits": 1, "period": "1m", "horizon": "1h", "no_horizon": True}):
        call("PUT", "/v1/limits/greet", body, 422)
    acts = call("GET", "/v1/acts", wanted=200).json["acts"]
    checks.that("who did what", ("local", "pause") in [(act["who"], act["action"]) for act in acts], acts)
    page = call("GET", "/v1/acts?limit=2", wanted=200).json
    checks.equal("by pages", page["acts"] + call("GET", f"/v1/acts?before={page['next']}").json["acts"], acts)
    call("GET", "/v1/acts?before=-1", wanted=422)
    call("GET", "/v1/nodes", wanted=200)
    node = call("GET", "/v1/nodes?all=true", wanted=200).json["nodes"][0]["id"]
    for verb in ("drain", "undrain"):
        call("POST", f"/v1/nodes/{node}/{verb}", wanted=200)
        checks.equal(verb, [one["draining"] for one in call("GET", "/v1/nodes").json["nodes"] if one["id"] == node], [verb == "drain"])
        refused("no such node", 404, "lives", "POST", f"/v1/nodes/999999/{verb}")
        refused("no number", 404, "number", "POST", f"/v1/nodes/web/{verb}")
    call("GET", "/v1/stats?window=10m", wanted=200)
    call("GET", "/v1/stats?window=1s", wanted=422)
    call("GET", "/v1/stats?window=99999d", wanted=422)
    call("GET", "/healthz", wanted=200)
    checks.equal("ready", call("GET", "/readyz", wanted=200).json["status"], "ready")


def dashboard():
    page = call("GET", "/", wanted=200)
    policy = page.headers["Content-Security-Policy"]
    for part in ("default-src 'none'", "script-src 'self'", "require-trusted-types-for 'script'", "trusted-types 'none'", "frame-ancestors 'none'"):
        checks.that(f"the page's policy has {part}", part in policy, policy)
    checks.that("nothing is let in from elsewhere", "unsafe" not in policy and "http" not in policy and "*" not in policy, policy)
    files = re.findall(rb'(?:src|href)="(assets/[^"]+)"', page.body)
    checks.equal("a page with its files, or one that says that there are none", len(files), 0 if b"no dashboard" in page.body else 3)
    total = len(page.body)
    for file in files:
        answer = call("GET", "/" + file.decode(), None, Accept_Encoding="gzip")
        checks.that(f"{file} can be kept", answer.status == 200 and "immutable" in answer.headers["Cache-Control"], answer.headers)
        refused("packed only", 406, "gzip", "GET", "/" + file.decode())
        total += len(answer.body)
    checks.that("all of it is under 120 kB", total < 120_000, total)
    document.used.add(("get", "/assets/{asset}"))
    checks.equal("who it is", [call("GET", "/v1/session", wanted=200).json[key] for key in ("name", "login", "tenant")], ["local", False, None])
    call("POST", "/v1/session", {"token": "nonsense"}, 401)
    call("POST", "/v1/session", {"token": "a;b"}, 422)
    call("POST", "/v1/session", {}, 422)
    call("DELETE", "/v1/session", wanted=200)
    document.used.add(("post", "/v1/session"))  # a login that works is in auth.py


def schedules():
    definition = {"cron": "0 9 * * MON-FRI", "zone": "Europe/Berlin", "type": "report", "missed": "once", "overlap": "queue",
                  "not_weekdays": ["MON"], "not_dates": ["2026-12-24/2027-01-01"], "not_times": ["22:00-06:00"], "variance_us": 5000000,
                  "queue": "reports", "rate_key": "acme", "priority": 3, "max_attempts": 2, "timeout_us": 9000000, "audit": "minimal"}
    put = call("PUT", "/v1/schedules/nightly%2Freport", {**definition, "payload": {"to": "ann"}}, 200).json
    checks.equal("put", (put["name"], put["outcome"], put["words"] != "", put["next_at"] is not None), ("nightly/report", "created", True, True))
    shown = call("GET", "/v1/schedules/nightly%2Freport?upcoming=3", wanted=200).json
    checks.equal("as it was sent", (shown["definition"], shown["payload"], len(shown["upcoming"]), shown["status"]), (definition, {"to": "ann"}, 3, "enabled"))
    again = call("PUT", "/v1/schedules/nightly%2Freport", {**shown["definition"], "payload": shown["payload"]}, 200).json
    checks.equal("sent again", again["outcome"], "unchanged")
    plan = {"times": ["09:30", "17:00:15"], "weekdays": ["MON", "FRI"], "months": [1, 12], "nth": -1}
    call("PUT", "/v1/schedules/plan", {"type": "a", "plan": plan, "disabled": True}, 200)
    shown = call("GET", "/v1/schedules/plan", wanted=200).json
    checks.equal("a plan", (shown["definition"]["plan"], shown["status"]), (plan, "disabled"))
    for text in ("30s", "15m", "2h", "1d", "2w", "1mo", "1y"):
        call("PUT", "/v1/schedules/tick", {"type": "a", "every": text}, 200)
        checks.equal("an interval", call("GET", "/v1/schedules/tick").json["definition"]["every"], text)
    call("PUT", "/v1/schedules/tick?how=add", {"type": "a", "every": "1d"}, 409)
    call("PUT", "/v1/schedules/none?how=edit", {"type": "a", "every": "1d"}, 404)
    checks.equal("kept", call("PUT", "/v1/schedules/tick?how=keep", {"type": "b", "every": "1d"}, 200).json["outcome"], "unchanged")
    seen, cursor = [], ""
    while cursor is not None:
        page = call("GET", f"/v1/schedules?limit=2{cursor and '&cursor=' + cursor.replace('/', '%2F')}", wanted=200).json
        seen, cursor = seen + [s["name"] for s in page["schedules"]], page["next"]
    checks.equal("by name", seen, ["nightly/report", "plan", "tick"])
    checks.equal("off", [s["name"] for s in call("GET", "/v1/schedules?off=true").json["schedules"]], ["plan"])
    call("POST", "/v1/schedules/plan/enable", wanted=200)
    call("POST", "/v1/schedules/tick/disable", wanted=200)
    checks.equal("switched", [s["name"] for s in call("GET", "/v1/schedules?off=true").json["schedules"]], ["tick"])
    made = call("POST", "/v1/schedules/tick/run", {"payload": [1]}, 201).json["id"]
    task = call("GET", f"/v1/tasks/{made}").json
    checks.equal("its task", (task["schedule"], task["payload"], task["queue"]), ("tick", [1], "recurring"))
    checks.equal("its history", [(o["task"], o["state"], o["why"]) for o in call("GET", "/v1/schedules/tick").json["occurrences"]], [(made, "open", "by hand")])
    refused("one at a time", 409, "tick", "POST", "/v1/schedules/tick/run")
    times = call("POST", "/v1/schedules/preview?count=2&from=2030-11-15T00:00:00Z", {"cron": "0 12 * * *"}, 200).json["times"]
    checks.equal("a preview", times, ["2030-11-15T12:00:00.000000Z", "2030-11-16T12:00:00.000000Z"])
    call("DELETE", "/v1/schedules/tick", wanted=200)
    for method, path in (("GET", ""), ("DELETE", ""), ("POST", "/run"), ("POST", "/enable"), ("POST", "/disable")):
        refused("gone", 404, "tick", method, f"/v1/schedules/tick{path}")
    checks.that("in the operator log", ("local", "nightly/report") in [(act["who"], act["detail"]) for act in call("GET", "/v1/acts").json["acts"]])
    for body in ({}, {"type": "a", "cron": "61 * * * *"}, {"type": "a", "every": "5"}, {"type": "a", "every": "0s"}, {"type": "a", "every": 5},
                 {"type": "a", "cron": "* * * * *", "every": "1d"}, {"type": "a", "every": "1d", "missed": "maybe"}, {"type": "a", "every": "1d", "zone": "Moon"},
                 {"type": "a", "plan": {"times": ["25:00"]}}, {"type": "a", "plan": {"weekdays": ["DAY"]}}, {"type": "a", "plan": {"months": [13]}},
                 {"type": "a", "plan": []}, {"type": "a", "plan": {"odd": 1}}, {"type": "a", "every": "1d", "not_dates": ["never"]},
                 {"type": "a", "every": "1d", "not_dates": ["2026-01-01"] * 65}, {"type": "a", "after": "nobody"}, {"type": "a", "every": "1d", "not_times": 7}):
        call("PUT", "/v1/schedules/bad", body, 422)
    call("PUT", "/v1/schedules/bad?how=odd", {"type": "a", "every": "1d"}, 422)


def concurrency():
    call("PUT", "/v1/concurrency/report", {"most": 4}, 200)
    call("PUT", "/v1/concurrency/imports?scope=queue", {"most": 10}, 200)
    call("PUT", "/v1/concurrency/sync?scope=key", {"most": 1, "ordered": True}, 200)
    call("PUT", "/v1/concurrency/imports?scope=tenants", {"most": 1}, 200)
    call("PUT", "/v1/concurrency/imports?scope=tenants&key=acme", {"most": 3}, 200)
    rows = call("GET", "/v1/concurrency", wanted=200).json["concurrency"]
    shown = [(row["scope"], row["name"], row.get("key"), row.get("most", row.get("weight")), row["ordered"]) for row in rows]
    checks.equal("limits", shown, [("queue", "imports", None, 10, False), ("type", "report", None, 4, False), ("key", "sync", None, 1, True),
                                   ("tenants", "imports", None, 1, False), ("tenants", "imports", "acme", 3, False)])
    checks.equal("of a kind", len(call("GET", "/v1/concurrency?scope=tenants").json["concurrency"]), 2)
    call("DELETE", "/v1/concurrency/report?scope=type", wanted=200)
    checks.that("twice", "nothing to take away" in call("DELETE", "/v1/concurrency/report?scope=type", wanted=404).json["detail"])
    checks.equal("taken away", call("GET", "/v1/concurrency?name=report").json["concurrency"], [])
    for query, body in (("", {}), ("", {"most": -1}), ("", {"most": 70000}), ("?scope=odd", {"most": 1}), ("", {"most": 1, "ordered": True}), ("?scope=queue&key=a", {"most": 1})):
        call("PUT", f"/v1/concurrency/report{query}", body, 422)


def batches():
    opened = call("POST", "/v1/batches", {"name": "import 42", "on_finished": {"type": "report", "queue": "fam"}}, 201).json
    checks.equal("open", (opened["state"], opened["total"]), ("open", 0))
    refused("the name is taken", 409, "import 42", "POST", "/v1/batches", {"name": "import 42"})
    first = call("POST", "/v1/tasks", {"type": "row", "queue": "fam", "batch": opened["id"]}, 201).json["id"]
    child = call("POST", "/v1/tasks", {"type": "sum", "queue": "fam", "parents": [first, opened["id"]], "if_failed": "hold"}, 201).json["id"]
    checks.equal("it waits", call("GET", f"/v1/tasks/{child}").json["state"], "waiting")
    checks.equal("closed", call("POST", "/v1/batches/import%2042/close", wanted=200).json, {"done": "closed"})
    refused("twice", 409, "clos", "POST", f"/v1/batches/{opened['id']}/close")
    checks.equal("counts", call("GET", "/v1/batches/import%2042", wanted=200).json["unfinished"], 1)
    checks.equal("listed", [b["name"] for b in call("GET", "/v1/batches?unfinished=true&limit=10", wanted=200).json["batches"]], ["import 42"])
    tree = call("GET", f"/v1/tasks/{opened['id']}/tree?depth=2", wanted=200).json
    checks.equal("a tree", ([m["id"] for m in tree["members"]], child in [c["id"] for c in tree["children"]]), ([first], True))
    up = call("GET", f"/v1/tasks/{child}/tree?parents=true", wanted=200).json
    checks.equal("upwards", sorted(p["id"] for p in up["parents"]), sorted([first, opened["id"]]))
    page = call("GET", f"/v1/tasks/{child}/relatives?limit=1", wanted=200).json
    rest = call("GET", f"/v1/tasks/{child}/relatives?after={page['next']}", wanted=200).json
    checks.equal("by pages", sorted(r["id"] for r in page["relatives"] + rest["relatives"]), sorted([first, opened["id"]]))
    checks.equal("its batch", [r["id"] for r in call("GET", f"/v1/tasks/{first}/relatives?relation=batch").json["relatives"]], [opened["id"]])
    refused("no such parent", 404, "0000000000001", "POST", "/v1/tasks", {"type": "a", "parents": ["0000000000001"]})
    for body in ({"parents": "x"}, {"parents": ["x"]}, {"if_failed": "maybe"}, {"batch": 7}):
        call("POST", "/v1/tasks", {"type": "a", **body}, 422)
    call("POST", "/v1/batches", {"on_finished": {"tpye": "a"}}, 422)
    call("GET", f"/v1/tasks/{child}/tree?depth=0", wanted=422)
    call("GET", "/v1/batches/nothing", wanted=404)
    checks.equal("cancelled", call("POST", "/v1/batches/import%2042/cancel", wanted=200).json, {"done": "cancelled"})


def dead():
    for i in range(4):
        served.pawl("enqueue", "--store", "sqlite:pawl.db", "--type", "bad", "--queue", "bad", "--max-attempts", "1", folder=server.folder)
    served.pawl("work", "--store", "sqlite:pawl.db", "--queue", "bad", "--once", "--quiet", "--", "false", folder=server.folder)
    letters = call("GET", "/v1/dead", wanted=200).json["tasks"]
    checks.equal("dead letters", [task["state"] for task in letters], ["failed"] * 4)
    answer = call("POST", "/v1/dead/retry", {"ids": [letters[0]["id"]]}, 200).json
    checks.that("as a new task", ID.match(answer["results"][0]["as"]), answer)
    checks.equal("acknowledged", call("POST", "/v1/dead/ack", {"ids": [letters[1]["id"]], "note": "known"}, 200).json["count"], 1)
    checks.equal("note", call("GET", f"/v1/tasks/{letters[1]['id']}").json["note"], "known")
    checks.equal("the rest", call("POST", "/v1/dead/ack", {"filter": {"type": "bad"}}, 200).json, {"count": 2})
    checks.equal("none are left", call("GET", "/v1/dead").json["tasks"], [])
    shown = call("GET", f"/v1/tasks/{letters[2]['id']}", wanted=200).json
    checks.equal("attempts", [attempt["outcome"] for attempt in shown["attempts"]], ["failed"])
    for body in ({}, {"ids": [], "filter": {}}, {"ids": "x"}, {"ids": ["x"]}, {"filter": {"odd": 1}}, {"filter": []}):
        call("POST", "/v1/dead/ack", body, 422)
    refused("too many", 413, "1000", "POST", "/v1/tasks/cancel", {"ids": ["0000000000001"] * 1001})


BAD_BODIES = [b"", b"{", b"nul", b"[]", b'"x"', b"{}", b'{"type":1}', b'{"type":null}', b'{"type":""}', b'{"type":"a\\u0000b"}', b'{"type":"\xff"}',
              b'{"type":"x","type":"y"}', b'{"type":"x","nonsense":1}', b'{"type":"x","priority":1e3}', b'{"type":"x","priority":99999999999999999999}',
              b'{"type":"x","delay":"5"}', b'{"type":"x","delay_us":-1}', b'{"type":"x","at":"tomorrow"}', b'{"type":"x","delay":"1s","at":"2030-01-01T00:00:00Z"}',
              b'{"type":"x","payload_base64":"%%%"}', b'{"type":"x","id":"short"}', b'{"type":"x","audit":"loud"}', b'{"type":"x","max_attempts":-1}',
              b'{"type":"x","payload":' + b"[" * 200 + b"]" * 200 + b"}", b'{"type":"x","queue":"' + b"q" * 201 + b'"}',
              b'{"type":"x","headers":"' + b"h" * 20000 + b'"}', b'{"type":"x"} {"type":"y"}', b'{"type":"x","traceparent":"\\n"}']


def bad_input():
    for body in BAD_BODIES:
        answer = call("POST", "/v1/tasks", body)
        checks.that(f"a 4xx for {body[:50]}", answer.status in (413, 422), answer)
    refused("payload too large", 413, "bytes", "POST", "/v1/tasks", b'{"type":"x","payload":"' + b"p" * (1 << 20) + b'"}')
    refused("body too large", 413, "larger", "POST", "/v1/tasks", b" " * (2 << 20))
    for kind in ("text/plain", "application/x-www-form-urlencoded", "multipart/form-data", ""):
        refused("not JSON by its name", 415, "application/json", "POST", "/v1/tasks", b'{"type":"x"}', Content_Type=kind)
    for path in ("/x", "/v1", "/v1/", "/assets/", "/assets/none.js", "/assets/../v1/tasks", "/v1/tasks/", "/v1/tasks/x/y/z", "/v2/tasks", "/v1/queues//pause", "/../etc/passwd", "/v1/tasks%2Fbulk"):
        call("GET", path, wanted=404)
    for method, path in (("DELETE", "/v1/tasks"), ("GET", "/v1/tasks/bulk/x"), ("PUT", "/v1/queues/a/pause"), ("POST", "/healthz")):
        checks.that(f"{method} {path}", call(method, path).status in (404, 405))
    checks.equal("an unknown method", server.request("BREW", "/v1/tasks").status, 501)
    checks.equal("HEAD", (server.request("HEAD", "/healthz").status, server.request("HEAD", "/healthz").body), (200, b""))


def together():
    """Many enqueues that arrive together share commits."""
    def commits():
        return int(re.search(rb"^pawl_store_commits_total (\d+)$", server.get("/metrics").body, re.M)[1])

    def send():
        import http.client
        connection = http.client.HTTPConnection(*server.address)
        for _ in range(25):
            connection.request("POST", "/v1/tasks", '{"type":"many","queue":"many"}', {"Content-Type": "application/json"})
            answer = connection.getresponse()
            answer.read()
            checks.equal("stored", answer.status, 201)
        connection.close()

    before, threads = commits(), [threading.Thread(target=send) for _ in range(16)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    used = commits() - before
    checks.that("enqueues share commits", used < 300, used)


# ---- remote workers -----------------------------------------------------------------------------------------------------------


def workers():
    worker = call("POST", "/v1/workers", {"name": "here", "queues": ["remote"], "types": ["far"]}, 201).json["worker"]
    call("POST", "/v1/tasks", {"type": "far", "queue": "remote", "payload": {"n": 1}}, 201)
    task = call("POST", f"/v1/workers/{worker}/claim", {"max": 3, "wait": "5s", "number": 1}, 200).json["tasks"][0]
    lease = {"id": task["id"], "fence": task["fence"]}
    call("POST", f"/v1/workers/{worker}/renew", {"held": [lease, {**lease, "fence": 77}], "number": 1}, 200)
    checks.equal("who is there", [(w["name"], w["held"]) for w in call("GET", "/v1/workers", wanted=200).json["workers"]], [("here", 1)])
    call("POST", f"/v1/workers/{worker}/report", {"items": [{**lease, "outcome": "succeeded"}, {**lease, "fence": 77}]}, 200)
    call("POST", f"/v1/workers/{worker}/drain", wanted=200)
    call("DELETE", f"/v1/workers/{worker}", wanted=200)
    refused("gone", 404, "Register again", "POST", f"/v1/workers/{worker}/renew", {})


# ---- numbers ------------------------------------------------------------------------------------------------------------------

SAMPLE = re.compile(r'^([a-z_]+)(?:\{([a-z_]+)="((?:[^"\\\n]|\\[\\"n])*)"\})? (-?\d+(?:\.\d+)?)$')


def metrics():
    text = call("GET", "/metrics", wanted=200).body.decode()
    checks.that("ends in a newline", text.endswith("\n"))
    kinds, seen, current = {}, set(), None
    for line in text.splitlines():
        if line.startswith("# HELP "):
            current = line.split(" ")[2]
            checks.that(f"{current} is told once", current not in kinds)
        elif line.startswith("# TYPE "):
            _, _, name, kind = line.split(" ")
            checks.that(f"{name} follows its help", name == current and kind in ("gauge", "counter"), line)
            kinds[name] = kind
        else:
            found = SAMPLE.match(line)
            checks.that(f"a sample: {line}", found and found[1] == current, line)
            if found:
                checks.that(f"once: {line}", (found[1], found[3]) not in seen)
                seen.add((found[1], found[3]))
                checks.that(f"{found[1]}: a counter ends in _total", (kinds[found[1]] == "counter") == found[1].endswith("_total"))
                checks.that(f"{found[1]}: no label that grows", found[2] in (None, "state", "queue", "event", "status"), found[2])
    with open(f"{os.environ['PAWL_SOURCE_DIR']}/docs/server.md", encoding="utf-8") as file:
        documented = dict(re.findall(r"^\| `(pawl_\w+)` \| (\w+) \|", file.read(), re.M))
    checks.equal("docs/server.md names them", documented, kinds)
    promtool = shutil.which("promtool")
    if promtool:
        told = subprocess.run([promtool, "check", "metrics"], input=text, capture_output=True, text=True)
        checks.equal("promtool finds nothing", (told.returncode, told.stdout + told.stderr), (0, ""))
    checks.that("queues are there", ("pawl_queue_pending_tasks", "lines") in seen, seen)


def documents():
    root = os.environ["PAWL_SOURCE_DIR"]
    made = subprocess.run([sys.executable, f"{root}/scripts/api.py", served.PAWL], capture_output=True, text=True, check=True).stdout
    with open(f"{root}/docs/api.md", encoding="utf-8") as file:
        checks.that("docs/api.md is what scripts/api.py makes", file.read() == made)
    made = subprocess.run([sys.executable, f"{root}/scripts/api_types.py", served.PAWL], capture_output=True, text=True, check=True).stdout
    with open(f"{root}/web/src/api.d.ts", encoding="utf-8") as file:
        checks.that("web/src/api.d.ts is what scripts/api_types.py makes", file.read() == made)
    overview = served.pawl("--help")
    for methods in document.document["paths"].values():
        for operation in methods.values():
            command = operation.get("x-command")
            checks.that(f"{operation['operationId']}: pawl {command} exists", not command or re.search(rf"^  {command} ", overview, re.M))
    hooks = {("get", "/v1/hooks"), ("put", "/v1/hooks/{name}"), ("delete", "/v1/hooks/{name}"), ("post", "/v1/hooks/{name}/test")}
    document.used |= hooks if call("GET", "/v1/hooks").status == 409 else set()  # hooks.py uses them
    unused = document.operations() - document.used - {("get", "/v1/openapi.json"), ("get", "/v1/events")}
    checks.equal("every route was used and answered as described", unused, set())


def main():
    global server, document
    with served.Server() as server:
        document = Document(server.get("/v1/openapi.json").json)
        for part in (tasks, lists, bulk, idempotency, store, dashboard, schedules, concurrency, batches, dead, bad_input, together, workers,
                     metrics, documents):
            part()
    return checks.end()


if __name__ == "__main__":
    sys.exit(main())
