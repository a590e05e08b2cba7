#!/usr/bin/python3
"""The handler webhook against a server that does what servers should not do."""

import base64
import email.utils
import hashlib
import hmac
import os
import subprocess
import sys
import tempfile
import time

import peer
import served
from peer import answer, endless, ended, in_turn, raw, task

checks = served.Checks()
SECRETS = ["whsec_" + base64.b64encode(bytes([n]) * 32).decode() for n in (1, 2, 3)]


def signatures(request, secret):
    text = f"{request.headers['webhook-id']}.{request.headers['webhook-timestamp']}.".encode() + request.body
    wanted = "v1," + base64.b64encode(hmac.new(base64.b64decode(secret[6:]), text, hashlib.sha256).digest()).decode()
    return request.headers["webhook-signature"].split(" ").count(wanted)


def post(server, kind, payload=None, **more):
    made = server.post("/v1/tasks", {"type": kind, **({} if payload is None else {"payload": payload}), **more})
    checks.equal(f"{kind} is taken", made.status, 201)
    return made.json["id"]


def delivered(server, other, folder):
    trace = "00-0123456789abcdef0123456789abcdef-0123456789abcdef-01"
    made = post(server, "ok", {"b": [1, 2.50, "\u00e9"], "a": None}, traceparent=trace)
    ended(server, made, "succeeded")
    request = other.wait("/ok")[0]
    checks.that("the body is the payload, byte for byte", request.body == server.get(f"/v1/tasks/{made}").body.split(b'"payload":', 1)[1][:len(request.body)], request.body)
    checks.equal("id", request.headers["webhook-id"], f"task_{made}")
    checks.that("time", abs(int(request.headers["webhook-timestamp"]) - time.time()) < served.PATIENCE)
    checks.equal("attempt, fence, trace, type", [request.headers[name] for name in ("pawl-attempt", "pawl-fence", "traceparent", "content-type", "x-shop")],
                 ["1", "1", trace, "application/json", "a, b: c"])
    checks.equal("each secret signs once", [signatures(request, secret) for secret in SECRETS], [1, 1, 0])
    peer.write(f"{folder}/secrets", SECRETS[2] + "\n# " + SECRETS[0] + "\n")
    data = bytes(range(256))
    made = post(server, "ok", payload_base64=base64.b64encode(data).decode(), content_type="application/octet-stream")
    ended(server, made, "succeeded")
    request = other.wait("/ok", 2)[1]
    checks.equal("any bytes", (request.body, request.headers["content-type"]), (data, "application/octet-stream"))
    checks.equal("a secret is replaced without a restart", [signatures(request, secret) for secret in SECRETS], [0, 0, 1])
    os.chmod(f"{folder}/secrets", 0o644)
    checks.equal("secrets that others can read are not used", ended(server, post(server, "ok", {}), "retrying")["code"], "no_secret")
    os.chmod(f"{folder}/secrets", 0o600)
    checks.equal("nothing went out unsigned", len(other.of("/ok")), 2)
    other.answers["/result"] = answer(201, b'{"n": 1.0}', Content_Type="application/json")
    done = ended(server, post(server, "result", 1), "succeeded")
    checks.equal("the answer is the result", done["result"], {"n": 1.0})
    checks.that("unsigned if nothing was said", "webhook-signature" not in other.wait("/result")[0].headers)
    other.answers["/result"] = answer(200, b"{not json", Content_Type="application/json")
    checks.equal("an answer that is no JSON is no failure", ended(server, post(server, "result", 1), "succeeded").get("result"), None)


def again(server, other):
    """The retry delay is a day, so whatever comes again soon does so because the other side said when."""
    other.answers["/busy"] = in_turn(answer(503, Retry_After="1"), answer(200))
    ended(server, post(server, "busy", {"n": 1}), "succeeded")
    first, second = other.wait("/busy", 2)
    checks.equal("the same id", first.headers["webhook-id"], second.headers["webhook-id"])
    checks.equal("attempts", [r.headers["pawl-attempt"] for r in (first, second)], ["1", "2"])
    checks.that("fences grow", int(first.headers["pawl-fence"]) < int(second.headers["pawl-fence"]))
    checks.that("Retry-After was waited for", int(second.headers["webhook-timestamp"]) - int(first.headers["webhook-timestamp"]) >= 1)
    checks.equal("signed anew", [signatures(r, SECRETS[2]) for r in (first, second)], [1, 1])
    other.answers["/later"] = in_turn(lambda c, r, n: answer(429, Retry_After=email.utils.formatdate(time.time() + 2, usegmt=True))(c, r, n), answer(200))
    ended(server, post(server, "later", {}), "succeeded")
    other.answers["/busy"] = answer(429, Retry_After="99999999999")
    waits = ended(server, post(server, "busy", {}), "retrying")
    checks.equal("as its code says", waits["code"], "http_429")
    for status in (400, 401, 404, 418, 500, 502):
        other.answers["/busy"] = answer(status, b"no \x1b[31m\x00 thanks")
        waits = ended(server, post(server, "busy", {}), "retrying")
        checks.equal(f"{status} is tried again", (waits["code"], waits["attempt"]), (f"http_{status}", 1))
    log = [line["text"] for line in task(server, waits["id"]).get("log", [])]
    checks.that("the answer's beginning is in the log, harmless", any("no ?[31m? thanks" in line for line in log), log)
    for value in ("-5", "1e3", "soon", "", "0x10", "Wed, 99 Foo 2099"):
        other.answers["/busy"] = answer(503, Retry_After=value)
        checks.equal(f"Retry-After {value!r}", ended(server, post(server, "busy", {}), "retrying")["code"], "http_503")


def gone(server, other, folder):
    other.answers["/gone"] = answer(410)
    made = ended(server, post(server, "gone", {}), "failed")
    checks.equal("410 ends it", (made["code"], made["attempt"], len(other.of("/gone"))), ("http_410", 1, 1))
    checks.equal("and the target", ended(server, post(server, "gone", {}), "failed")["code"], "target_gone")
    checks.equal("that got nothing more", len(other.of("/gone")), 1)
    path = f"{folder}/pawl.gone.gone"
    with open(path) as text:
        checks.equal("which is noted", text.read(), other.url + "/gone\n")
    return path


def misbehaves(server, other):
    secret = f"{other.url}/secret"
    bad = {
        "/moved": (answer(302, Location=secret), "http_302"),
        "/kept": (answer(307, Location="http://169.254.169.254/latest"), "http_307"),
        "/silent": (raw(b"", close=False), "no_answer"),
        "/slow": (raw(b"HTTP/1.1 200 OK\r\nContent-", close=False), "no_answer"),
        "/closed": (raw(b""), "no_answer"),
        "/cut": (raw(b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n"), "no_answer"),
        "/interim": (raw(b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\nA: b\r\n"), "no_answer"),
        "/headers": (endless(b"HTTP/1.1 200 OK\r\n", b"X-More: " + b"x" * 1000 + b"\r\n"), "no_answer"),
        "/line": (endless(b"HTTP/1.1 200 OK\r\nX: ", b"x" * 1000), "no_answer"),
        "/interims": (endless(b"", b"HTTP/1.1 102 Processing\r\n\r\n"), "no_answer"),
        "/other": (raw(b"SSH-2.0-OpenSSH_9.2\r\n"), "no_answer"),
        "/old": (raw(b"hello"), "no_answer"),
        "/failing": (endless(b"HTTP/1.1 500 No\r\n\r\n", b"x" * 4096), "http_500"),
    }
    for path, (what, code) in bad.items():
        other.answers[path] = what
    made = {path: post(server, path[1:], {}) for path in bad}
    for path, (_, code) in bad.items():
        waits = ended(server, made[path], "retrying")
        checks.equal(path, waits["code"], code)
    checks.equal("no redirect was followed", other.of("/secret"), [])
    good = {
        "/endless": endless(b"HTTP/1.1 200 OK\r\n\r\n", b"x" * 4096),
        "/chunks": endless(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n", b"400\r\n" + b"y" * 1024 + b"\r\n"),
        "/short": raw(b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nabc"),
        "/drips": raw(b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nabc", close=False),
    }
    for path, what in good.items():
        other.answers[path] = what
    made = {path: post(server, path[1:], {}) for path in good}
    for path in good:
        done = ended(server, made[path], "succeeded", "retrying", "failed")
        checks.equal(f"{path}: its head says all is well", (done["state"], done.get("result")), ("succeeded", None))


def cancelled(server, other):
    other.answers["/hang"] = raw(b"", close=False)
    made = post(server, "hang", {})
    other.wait("/hang")
    server.post(f"/v1/tasks/{made}/cancel")
    checks.equal("a cancel ends the wait", ended(server, made, "cancelled")["state"], "cancelled")


def allowed(server, other):
    for where in (f"{other.url}/to/a", f"{other.url}/to/a/b?c=d", f"HTTP://127.0.0.1:{other.port}/to/", f"{other.url}/one"):
        checks.equal(where, ended(server, post(server, "any", {"url": where, "body": [1]}), "succeeded", "failed", "retrying")["state"], "succeeded")
    checks.equal("the body alone is sent", other.wait("/to/a")[0].body, b"[1]")
    count = len(other.got)
    port = other.port
    for where in (f"{other.url}/", f"{other.url}/to", f"{other.url}/toto/a", f"{other.url}/one/more", f"{other.url}/to/../secret", f"{other.url}/to/%2e%2e/secret", f"{other.url}/to/%2E./secret",
                  f"{other.url}/to/..%2fsecret", f"{other.url}/to/..%5csecret", f"{other.url}/to/..\\secret", f"https://127.0.0.1:{port}/to/a", f"http://127.0.0.1/to/a", f"http://127.0.0.1:{port + 1}/to/a",
                  f"http://127.0.0.1.example.org:{port}/to/a", f"http://user@127.0.0.1:{port}/to/a", f"http://127.0.0.1:{port}@example.org/to/a", f"http://localhost:{port}/to/a", f"http://2130706433:{port}/x",
                  "file:///etc/passwd", "gopher://127.0.0.1/to/a", "", "/to/a", f"{other.url}/to/a\r\nX: y", f"{other.url}/to/ a", f"{other.url}/to/a\0", "http://" + "x" * 3000):
        made = ended(server, post(server, "any", {"url": where, "body": 1}), "failed", "succeeded", "retrying")
        checks.that(f"not allowed: {where[:60]!r}", made["state"] == "failed" and made["code"] in ("not_allowed", "bad_payload"), made)
    for payload in ({}, {"url": other.url + "/to/a"}, {"body": 1}, {"url": 1, "body": 1}, [other.url], "x", {"url": other.url + "/to/a", "body": 1, "secret": 2}):
        checks.equal(f"no target: {payload}", ended(server, post(server, "any", payload), "failed", "succeeded")["code"], "bad_payload")
    checks.equal("nothing of it came", len(other.got), count)


def sections(folder, other, right, wrong):
    plain = [name[1:] for name in ("/moved /kept /silent /slow /closed /cut /interim /headers /line /interims /other /old /failing /endless /chunks /short /drips").split(" ")]
    common = {"kind": "webhook", "networks": "127.0.0.0/8", "retry_delay": "1d"}
    signed = {**common, "secrets": "secrets"}
    made = {name: {**common, "url": f"{other.url}/{name}", "request_timeout": "1500ms"} for name in plain}
    made["ok"] = {**signed, "url": other.url + "/ok", "header": ["X-Shop: a, b: c"]}
    made["hang"] = {**common, "url": other.url + "/hang", "request_timeout": "10m"}
    made["result"] = {**common, "url": other.url + "/result", "result": "true"}
    for name in ("busy", "later", "gone"):
        made[name] = {**signed, "url": f"{other.url}/{name}"}
    made["any"] = {**common, "allow": f"{other.url}/to/, {other.url}/one"}
    made["right"] = {**common, "url": right.url + "/tls", "ca_file": "right.pem"}
    made["untrusted"] = {**common, "url": right.url + "/tls"}
    made["wrong"] = {**common, "url": wrong.url + "/tls", "ca_file": "wrong.pem"}
    return made


def encrypted(server, right, wrong):
    checks.equal("a certificate that is known", ended(server, post(server, "right", {}), "succeeded", "retrying")["state"], "succeeded")
    for kind in ("untrusted", "wrong"):
        made = ended(server, post(server, kind, {}), "retrying", "succeeded")
        checks.equal(f"{kind} certificate", (made["code"], "ertificate" in made["error"]), ("no_answer", True))
    checks.equal("and nothing was said", (len(right.got), len(wrong.got)), (1, 0))


REFUSED = ("127.0.0.1", "[::1]", "[::ffff:127.0.0.1]", "[::ffff:10.0.0.1]", "localhost", "10.0.0.1", "172.16.0.1", "192.168.1.1", "169.254.169.254", "100.64.0.1", "0.0.0.0", "[::]", "[fe80::1]", "[fc00::1]",
           "[fd00:ec2::254]", "[64:ff9b::7f00:1]", "[2002:7f00:1::]", "[2001:0:7f00:1::]", "[::127.0.0.1]", "224.0.0.1", "255.255.255.255", "2130706433", "0x7f.1", "017700000001", "127.1", "[ff02::1]", "198.18.0.1")


def refused(folder, other):
    """Without `networks` nothing goes to this machine, whatever it is called."""
    peer.config(folder, {f"r{n}": {"kind": "webhook", "url": f"http://{host}:{other.port}/refused"} for n, host in enumerate(REFUSED)})
    before = other.connections
    with served.Server("--config", "pawl.conf", folder=folder, store="sqlite:other.db") as server:
        made = [post(server, f"r{n}", {}) for n in range(len(REFUSED))]
        for identity, host in zip(made, REFUSED):
            checks.equal(host, ended(server, identity, "failed", "retrying")["code"], "address_refused")
    checks.equal("nobody was connected to", other.connections, before)


def wrong_settings(folder):
    secret = peer.write(f"{folder}/bad", "whsec_AAAA\n")
    for settings in ({}, {"url": "ftp://example.org/"}, {"url": "http://a:b@example.org/"}, {"url": "http://example.org/", "allow": "http://example.org/"}, {"allow": "http://example.org/?a"},
                     {"url": "http://example.org/", "networks": "10.0.0.0/40"}, {"url": "http://example.org/", "secrets": "none"}, {"url": "http://example.org/", "secrets": secret},
                     {"url": "http://example.org/", "ca-file": "none"}, {"url": "http://example.org/", "header": "Host: x"}, {"url": "http://example.org/", "header": "webhook-id: x"},
                     {"url": "http://example.org/", "header": "no colon"}, {"url": "http://example.org/", "header": "a b: c"}, {"url": "http://example.org/", "odd": "1"}):
        path = peer.config(folder, {"w": {"kind": "webhook", **settings}})
        checked = subprocess.run([served.PAWL, "config", "check", path], cwd=folder, capture_output=True, text=True)
        checks.that(f"refused: {settings}", checked.returncode in (1, 2, 3, 5, 6) and "line" in checked.stderr, checked)


def main():
    with tempfile.TemporaryDirectory() as folder:
        right = peer.Peer(peer.tls(*peer.certificate(folder, "right")))
        wrong = peer.Peer(peer.tls(*peer.certificate(folder, "wrong", "other.example.org")))
        other = peer.Peer()
        peer.write(f"{folder}/secrets", f"# two of them\n{SECRETS[0]}\n{SECRETS[1]}\n")
        peer.config(folder, sections(folder, other, right, wrong))
        with served.Server("--config", "pawl.conf", folder=folder) as server:
            delivered(server, other, folder)
            again(server, other)
            note = gone(server, other, folder)
            misbehaves(server, other)
            cancelled(server, other)
            allowed(server, other)
            encrypted(server, right, wrong)
        other.answers["/gone"] = answer(200)
        with served.Server("--config", "pawl.conf", folder=folder) as server:
            checks.equal("a restart forgets no 410", ended(server, post(server, "gone", {}), "failed", "succeeded")["state"], "failed")
            os.remove(note)
            checks.equal("until somebody removes it", ended(server, post(server, "gone", {}), "failed", "succeeded")["state"], "succeeded")
        refused(folder, other)
        wrong_settings(folder)
    return checks.end()


if __name__ == "__main__":
    sys.exit(main())
