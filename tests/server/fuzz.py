#!/usr/bin/python3
"""Requests made at random from the server's own OpenAPI document, right and wrong: whatever is sent, the answer is not a 5xx, says what is
wrong where it refuses, and the server lives.

    fuzz.py [SECONDS [SEED]]"""

import http.client
import json
import os
import random
import sys
import time

import served

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "process"))

import proc  # noqa: E402

ODD = [None, True, 0, -1, 1.5, 10**30, "", "x", "\u0000", "ä" * 300, "x" * 5000, [], {}, [[[[]]]], {"a": {"b": 1}}, "2026-11-15T04:49:03Z", "5m", "-5m", "9" * 400, "%00", "\ud800"]


class Maker:
    def __init__(self, document, seed):
        self.document, self.random, self.ids = document, random.Random(seed), ["0000000000001"]
        self.used = set()

    def odd(self, share):
        return self.random.random() < share

    def value(self, schema, depth=0):
        pick = self.random
        if "$ref" in schema:
            schema = self.document["components"]["schemas"][schema["$ref"].rsplit("/", 1)[1]]
        if self.odd(0.1) or depth > 4:
            return pick.choice(ODD)
        kind = schema.get("type")
        if "enum" in schema:
            return pick.choice(schema["enum"])
        if "pattern" in schema:
            return pick.choice(self.ids)
        if kind == "object":
            members = [name for name in schema["properties"] if name in schema.get("required", []) or self.odd(0.2)]
            made = {name: self.value(schema["properties"][name], depth + 1) for name in members}
            if self.odd(0.1):
                made[pick.choice(["odd", "", "Type", "type "])] = pick.choice(ODD)
            return made
        if kind == "array":
            return [self.value(schema["items"], depth + 1) for _ in range(pick.randrange(4))]
        if kind == "integer":
            return pick.choice([schema.get("minimum", 0), schema.get("maximum", 9), pick.randrange(100), -(2**63), 2**63])
        if kind == "boolean":
            return pick.choice([True, False])
        if schema.get("format") == "date-time":
            return pick.choice(["2026-11-15T04:49:03Z", "1970-01-01T00:00:00Z", "9999-12-31T23:59:59.999999Z", "tomorrow"])
        return pick.choice(["a", "mail", "5m", "1h30m", "failed", "*/5 * * * *", "http://localhost:9/", "pending", "k", pick.choice(self.ids), "é", "a/b", "0"])

    def text(self, value):
        return value if isinstance(value, str) else json.dumps(value)

    def mangle(self, data):
        data = bytearray(data)
        for _ in range(self.random.randrange(1, 4)):
            at = self.random.randrange(len(data) + 1)
            data[at:at + self.random.randrange(3)] = bytes(self.random.randrange(256) for _ in range(self.random.randrange(3)))
        return bytes(data)

    def request(self):
        pick = self.random
        path = pick.choice(list(self.document["paths"]))
        method = pick.choice(list(self.document["paths"][path]))
        operation = self.document["paths"][path][method]
        self.used.add(operation["operationId"])
        target, query, headers = path, [], {}
        for parameter in operation.get("parameters", []):
            if parameter["in"] == "path":
                target = target.replace("{%s}" % parameter["name"], quote(self.text(self.value(parameter["schema"]))) or "x")
            elif parameter["in"] == "query" and self.odd(0.3):
                query.append(f"{parameter['name']}={quote(self.text(self.value(parameter['schema'])))}")
            elif parameter["in"] == "header" and self.odd(0.2):
                headers[parameter["name"]] = pick.choice(["a", "b", "x" * 300, " "])
        body = None
        if "requestBody" in operation:
            kind = pick.choice(list(operation["requestBody"]["content"]))
            schema = operation["requestBody"]["content"][kind]["schema"]
            headers["Content-Type"] = kind if not self.odd(0.05) else "text/plain"
            if kind.endswith("ndjson"):
                task = {"$ref": "#/components/schemas/new_task"}
                body = "\n".join(json.dumps(self.value(task)) for _ in range(pick.randrange(5))).encode()
            else:
                body = json.dumps(self.value(schema), ensure_ascii=self.odd(0.5)).encode("utf-8", "surrogatepass")
            body = self.mangle(body) if self.odd(0.1) else body
        method = pick.choice(["get", "post", "put", "delete", "patch"]) if self.odd(0.03) else method
        method = "head" if path == "/v1/events" else method  # its answer has no end
        return method.upper(), target + ("?" + "&".join(query) if query else ""), body, headers


def quote(text):
    return "".join(chr(b) if chr(b).isalnum() and b < 128 else f"%{b:02X}" for b in text.encode("utf-8", "surrogatepass"))[:6000]


def wrong(method, answer, body):
    """What the answer is not allowed to be."""
    if answer.status >= 500 and answer.status not in (501, 503):
        return "a 5xx"
    if answer.status == 503 and b"urn:pawl:problem" in body and b"unavailable" not in body:
        return "a 503 for a reason of its own"
    if answer.status >= 400 and method != "HEAD":
        problem = json.loads(body)
        if problem["status"] != answer.status or not problem["detail"]:
            return "a problem that does not say what is wrong"
    elif method != "HEAD" and "json" in answer.getheader("Content-Type", ""):
        json.loads(body)
    return None


def main():
    seconds = float(sys.argv[1]) if len(sys.argv) > 1 else 4
    seed = int(sys.argv[2]) if len(sys.argv) > 2 else proc.seed()
    print(f"seed {seed}")
    with served.Server("--hooks", "pawl.hooks") as server:
        maker = Maker(server.get("/v1/openapi.json").json, seed)
        connection, count, statuses, end = None, 0, {}, time.monotonic() + seconds
        while time.monotonic() < end:
            method, target, body, headers = maker.request()
            connection = connection or http.client.HTTPConnection(*server.address, timeout=30 * served.FACTOR)
            connection.request(method, target, body, headers)
            answer = connection.getresponse()
            text = answer.read()
            count += 1
            statuses[answer.status] = statuses.get(answer.status, 0) + 1
            problem = wrong(method, answer, text)
            if problem:
                print(f"seed {seed}, request {count}: {problem}: {method} {target[:300]} {body and body[:500]} -> {answer.status} {text[:500]}")
                return 1
            if b'"outcome":"created"' in text and b'"id":"' in text:
                maker.ids = (maker.ids + [text.split(b'"id":"')[1][:13].decode()])[-50:]
            if answer.will_close:
                connection = None
        print(f"{count} requests: {dict(sorted(statuses.items()))}")
        left = {op["operationId"] for methods in maker.document["paths"].values() for op in methods.values()} - maker.used
        if left:
            print(f"never called: {sorted(left)}")
            return 1
        good = sum(statuses.get(code, 0) for code in (200, 201))
        return 0 if good > count / 20 and server.get("/healthz").status == 200 else 1


if __name__ == "__main__":
    sys.exit(main())
