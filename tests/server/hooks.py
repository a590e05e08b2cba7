#!/usr/bin/python3
"""Hooks: signed POSTs of what happens to tasks, sent again until they are taken, and never to addresses that are nobody's business."""

import base64
import hashlib
import hmac
import http.server
import json
import os
import stat
import sys
import tempfile
import threading

import served

checks = served.Checks()


class Receiver:
    """Somebody else's server: keeps what it is sent, and answers as it is told to."""

    def __init__(self):
        self.got, self.answers, self.changed = [], {}, threading.Condition()
        receiver = self

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_POST(self):
                body = self.rfile.read(int(self.headers["Content-Length"]))
                with receiver.changed:
                    receiver.got.append((self.path, dict(self.headers), body))
                    count = sum(1 for path, _, _ in receiver.got if path == self.path)
                    receiver.changed.notify_all()
                status, headers = receiver.answers.get(self.path, lambda n: (200, {}))(count)
                self.send_response(status)
                for name, value in headers.items():
                    self.send_header(name, value)
                self.send_header("Content-Length", "0")
                self.end_headers()

            def log_message(self, *_):
                pass

        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_address[1]}"
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def wait(self, path, count):
        with self.changed:
            if not self.changed.wait_for(lambda: len(self.of(path)) >= count, served.PATIENCE):
                raise AssertionError(f"{path}: {len(self.of(path))} of {count} came")
            return self.of(path)

    def of(self, path):
        return [(headers, body) for where, headers, body in self.got if where == path]


def signed_by(headers, body, secret):
    key = base64.b64decode(secret[len("whsec_"):])
    text = f"{headers['webhook-id']}.{headers['webhook-timestamp']}.".encode() + body
    return "v1," + base64.b64encode(hmac.new(key, text, hashlib.sha256).digest()).decode() in headers["webhook-signature"].split(" ")


def put(server, name, **body):
    return server.request("PUT", f"/v1/hooks/{name}", body)


def told(server, receiver):
    secret = put(server, "all", url=receiver.url + "/all", events=["dispatched", "cancelled"]).json["secret"]
    put(server, "mail", url=receiver.url + "/mail", events=["dispatched"], type="mail")
    ids = [server.post("/v1/tasks", {"type": kind}).json["id"] for kind in ("mail", "other")]
    server.post(f"/v1/tasks/{ids[1]}/cancel")
    came = receiver.wait("/all", 3)
    bodies = [json.loads(body) for _, body in came]
    checks.equal("what happens", sorted((b["type"], b["data"]["id"]) for b in bodies), sorted([("task.dispatched", ids[0]), ("task.dispatched", ids[1]), ("task.cancelled", ids[1])]))
    checks.that("signed", all(signed_by(headers, body, secret) for headers, body in came))
    checks.equal("ids differ", len({headers["webhook-id"] for headers, _ in came}), 3)
    checks.equal("a filter", [json.loads(body)["data"]["id"] for _, body in receiver.wait("/mail", 1)], [ids[0]])
    shown = {hook["name"]: hook for hook in server.get("/v1/hooks").json["hooks"]}
    checks.that("no secret is shown", "secret" not in shown["all"] and secret not in json.dumps(shown))
    new = "whsec_" + base64.b64encode(b"n" * 32).decode()
    put(server, "all", url=receiver.url + "/all", events=["dispatched"], secret=new)
    test = server.post("/v1/hooks/all/test")
    checks.equal("a test", test.status, 201)
    headers, body = receiver.wait("/all", 4)[-1]
    checks.that("both secrets sign while one replaces the other", signed_by(headers, body, new) and signed_by(headers, body, secret))
    checks.equal("the deliveries are tasks", {t["queue"] for t in server.get("/v1/tasks?type=pawl.hook").json["tasks"]}, {"pawl.hooks"})


def again(server, receiver):
    receiver.answers["/again"] = lambda n: (503, {"Retry-After": "1"}) if n < 3 else (204, {})
    put(server, "again", url=receiver.url + "/again", events=["dispatched"], type="again")
    server.post("/v1/tasks", {"type": "again"})
    came = receiver.wait("/again", 3)
    checks.equal("sent again under the same id", len({headers["webhook-id"] for headers, _ in came}), 1)
    receiver.answers["/gone"] = lambda n: (410, {})
    put(server, "gone", url=receiver.url + "/gone", events=["dispatched"], type="gone")
    server.post("/v1/tasks", {"type": "gone"})
    served.until("410 disables it", lambda: next(h for h in server.get("/v1/hooks").json["hooks"] if h["name"] == "gone")["disabled"])
    receiver.answers["/moved"] = lambda n: (302, {"Location": receiver.url + "/secret"})
    put(server, "moved", url=receiver.url + "/moved", events=["dispatched"], type="moved")
    server.post("/v1/tasks", {"type": "moved"})
    receiver.wait("/moved", 1)
    served.until("a redirect is no success", lambda: server.get("/v1/tasks?type=pawl.hook&state=retrying").json["tasks"])
    checks.equal("and not followed", receiver.of("/secret"), [])


def wrong(server):
    for body in ({}, {"url": "ftp://example.org/"}, {"url": "http://u:p@example.org/"}, {"url": "nonsense"}, {"url": "file:///etc/passwd"}, {"url": "http://example.org", "events": ["odd"]},
                 {"url": "http://example.org", "secret": "short"}, {"url": "http://example.org", "secret": "whsec_AAAA"}, {"url": "http://example.org/" + "x" * 3000}, {"url": "http://example.org", "odd": 1}):
        checks.equal(f"{str(body)[:60]}", put(server, "bad", **body).status, 422)
    checks.equal("none", server.request("DELETE", "/v1/hooks/none").status, 404)
    checks.equal("no test of none", server.post("/v1/hooks/none/test").status, 404)


def refused(folder, receiver):
    """Without --hook-networks nothing goes to this machine."""
    with served.Server("--hooks", "other.hooks", folder=folder, store="sqlite:other.db") as server:
        for number, url in enumerate((receiver.url, "http://[::1]:1/", "http://[::ffff:127.0.0.1]:1/", "http://localhost:1/", "http://10.0.0.1/", "http://169.254.169.254/latest", "http://0.0.0.0:1/", "http://[64:ff9b::7f00:1]/", "http://2130706433:1/")):
            put(server, f"h{number}", url=url + "/refused", events=["dispatched"])
            made = server.post(f"/v1/hooks/h{number}/test").json["id"]
            served.until("it was tried", lambda: server.get(f"/v1/tasks/{made}").json["state"] == "failed")
            checks.equal(url, server.get(f"/v1/tasks/{made}").json["code"], "address_refused")
        checks.equal("nothing came", receiver.of("/refused"), [])


def main():
    receiver = Receiver()
    with tempfile.TemporaryDirectory() as folder:
        with served.Server() as server:
            checks.equal("without --hooks", put(server, "a", url="http://example.org").status, 409)
        options = ("--hooks", "pawl.hooks", "--hook-networks", "127.0.0.0/8")
        with served.Server(*options, folder=folder) as server:
            told(server, receiver)
            again(server, receiver)
            wrong(server)
            checks.equal("the file is for nobody else", stat.S_IMODE(os.stat(f"{folder}/pawl.hooks").st_mode), 0o600)
            before = len(receiver.of("/all"))
        with served.Server(*options, folder=folder) as server:
            made = server.post("/v1/tasks", {"type": "after"}).json["id"]
            came = receiver.wait("/all", before + 1)
            checks.equal("after a restart, and nothing twice", [json.loads(body)["data"]["id"] for _, body in came[before:]], [made])
            checks.equal("removed", server.request("DELETE", "/v1/hooks/all").status, 200)
        refused(folder, receiver)
        os.chmod(f"{folder}/pawl.hooks", 0o644)
        checks.that("secrets that others can read", "chmod" in served.pawl("serve", "--hooks", "pawl.hooks", "--listen", "127.0.0.1:0", folder=folder, code=6))
    return checks.end()


if __name__ == "__main__":
    sys.exit(main())
