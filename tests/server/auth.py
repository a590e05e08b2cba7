#!/usr/bin/python3
"""Nobody gets in where they do not belong: address x token x scope x tenant x Host x Origin x Sec-Fetch-Site.

The matrix is computed here from the rules in words, and every cell is asked of a real server."""

import itertools
import os
import socket
import stat
import sys

import served

checks = served.Checks()

# What each route needs: its scope, and whether it concerns the whole store.
ROUTES = {
    ("GET", "/healthz"): (None, False),
    ("GET", "/v1/openapi.json"): (None, False),
    ("GET", "/v1/tasks"): ("read", False),
    ("POST", "/v1/tasks"): ("enqueue", False),
    ("POST", "/v1/tasks/cancel"): ("operate", False),
    ("GET", "/v1/stats"): ("read", True),
    ("GET", "/metrics"): ("read", True),
    ("POST", "/v1/queues/q/resume"): ("operate", True),
}
BODIES = {"/v1/tasks": {"type": "x"}, "/v1/tasks/cancel": {"ids": []}}
GRANTS = {"read": {"read"}, "enqueue": {"enqueue"}, "work": {"work"}, "operate": {"operate", "read"}, "admin": {"read", "enqueue", "work", "operate", "admin"}}
HOSTS = {"localhost": True, "127.0.0.1:7295": True, "[::1]:80": True, "pawl.example.org": True, "PAWL.example.org:443": True, "evil.example.org": False,
         "localhost.evil.org": False, "127.0.0.1.evil.org": False}
ORIGINS = {None: True, "same": True, "https://evil.example.org": False, "null": False, "http://localhost:1": False}
SITES = {None: True, "same-origin": True, "none": True, "same-site": False, "cross-site": False}


def wanted(token, route, host, origin, site):
    """The status's meaning, by the rules: ok, or why not."""
    scope, whole = ROUTES[route]
    if not HOSTS[host]:
        return 421
    if not SITES[site] or not ORIGINS[origin]:
        return 403
    if scope is None:
        return 200
    if token is None or token.get("bad"):
        return 401
    if scope not in set().union(*(GRANTS[name] for name in token["scopes"])):
        return 403
    return 403 if whole and token["tenant"] else 200


def ask(server, token, route, host, origin, site):
    method, path = route
    headers = {"Host": host}
    if origin:
        headers["Origin"] = f"https://{host}" if origin == "same" else origin
    if site:
        headers["Sec-Fetch-Site"] = site
    if token:
        headers["Authorization"] = f"Bearer {token['text']}"
    body = BODIES.get(path) if method == "POST" else None
    status = server.request(method, path, body, headers).status
    return 200 if status == 201 else status


def matrix(server, tokens):
    cells = [(token, route, "localhost", None, None) for token in tokens for route in ROUTES]
    somebody = [None, tokens[1], tokens[-1]]
    cells += [(token, route, host, origin, site) for token, route, host, origin, site in
              itertools.product(somebody, [("GET", "/v1/tasks"), ("GET", "/healthz")], HOSTS, ORIGINS, SITES)]
    for cell in cells:
        shown = (cell[0] and cell[0]["name"], *cell[1:])
        checks.equal(str(shown), ask(server, *cell), wanted(*cell))


def every_route(server, tokens):
    """All that the document names: whether one is let in depends on the scope and on whether the route concerns the whole store."""
    document = server.get("/v1/openapi.json").json
    for path, methods in document["paths"].items():
        for method, operation in methods.items():
            scope, whole = operation["x-scope"], operation["x-whole-store"]
            method = "head" if path == "/v1/events" else method
            for token in tokens:
                known = token and not token.get("bad")
                granted = known and scope in set().union(*(GRANTS[name] for name in token["scopes"]))
                open_to_all = scope == "none" and (method, path) != ("get", "/v1/session")  # which says who one is
                allowed = open_to_all or (known and scope == "none") or (granted and not (whole and token["tenant"]))
                headers = {"Authorization": f"Bearer {token['text']}"} if token and token["text"] else {}
                status = server.request(method.upper(), path.replace("{", "x").replace("}", ""), None, headers).status
                refused = status in (401, 403)
                checks.that(f"{method} {path} with {token and token['name']}", refused != allowed and (known or allowed or status == 401), status)


def addresses(folder, token):
    """Listening to the world: who comes from this machine is nobody special once there are tokens."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            probe.connect(("192.0.2.1", 9))
            outside = probe.getsockname()[0]
        except OSError:
            outside = "127.0.0.1"
    with served.Server(listen="0.0.0.0:0", folder=folder) as server:
        for address in ("127.0.0.1", outside):
            server.address = (address, server.address[1])
            for host in (None, "evil.example.org"):
                for origin in (None, "https://evil.example.org"):
                    for headers, known in (({}, False), ({"Authorization": "Bearer x"}, False), ({"Authorization": f"Bearer {token['text']}"}, True)):
                        asked = {**headers, **({"Host": host} if host else {}), **({"Origin": origin} if origin else {})}
                        expected = 421 if host else 403 if origin else 200 if known else 401
                        checks.equal(f"at {address}: {sorted(asked)}", server.request("GET", "/v1/tasks", None, asked).status, expected)


def make(folder, name, scopes, tenant=None, **more):
    options = ["--scope", ",".join(scopes)] + (["--tenant", tenant] if tenant else []) + more.pop("options", [])
    text = served.pawl("tokens", "add", name, *options, folder=folder)
    return {"name": name, "text": text, "scopes": scopes, "tenant": tenant, **more}


def tenants(server, acme, admin):
    def with_token(token, method, path, body=None):
        return server.request(method, path, body, {"Authorization": f"Bearer {token['text']}"})

    mine = with_token(acme, "POST", "/v1/tasks", {"type": "t"}).json["id"]
    other = with_token(admin, "POST", "/v1/tasks", {"type": "t", "tenant": "other"}).json["id"]
    none = with_token(admin, "POST", "/v1/tasks", {"type": "t"}).json["id"]
    checks.equal("its task is its tenant's", with_token(admin, "GET", f"/v1/tasks/{mine}").json["tenant"], "acme")
    checks.equal("another tenant's name", with_token(acme, "POST", "/v1/tasks", {"type": "t", "tenant": "other"}).status, 403)
    rows = with_token(acme, "POST", "/v1/tasks/bulk", [{"type": "t"}, {"type": "t", "tenant": "other"}]).json["results"]
    checks.equal("in bulk", [row.get("outcome") or row["status"] for row in rows], ["created", "denied"])
    checks.equal("sees its own", {task["tenant"] for task in with_token(acme, "GET", "/v1/tasks").json["tasks"]}, {"acme"})
    checks.equal("asks for others", with_token(acme, "GET", "/v1/tasks?tenant=other").status, 403)
    for foreign in (other, none):
        for method, path in (("GET", ""), ("GET", "/why"), ("POST", "/cancel"), ("POST", "/retry")):
            checks.equal(f"{method} {path} of another's", with_token(acme, method, f"/v1/tasks/{foreign}{path}").status, 404)
        rows = with_token(acme, "POST", "/v1/tasks/cancel", {"ids": [foreign]}).json["results"]
        checks.equal("another's in a list", rows[0]["status"], "not_found")
    checks.equal("by filter", with_token(acme, "POST", "/v1/tasks/cancel", {"filter": {"type": "t"}}).json["count"], 2)
    for foreign in (other, none):
        checks.equal("others are untouched", with_token(admin, "GET", f"/v1/tasks/{foreign}").json["state"], "pending")


def broken_tokens(server, good):
    for header in ("", "Bearer", "Bearer ", "Basic " + good["text"], good["text"], "Bearer " + good["text"][:-1], "Bearer " + good["text"] + "x",
                   "Bearer " + "x" * 2000, "Bearer " + good["text"].upper(), "bearer  " + good["text"][1:]):
        checks.equal(f"{header[:30]}", server.request("GET", "/v1/tasks", None, {"Authorization": header}).status, 401)


def cookies(server, admin, reader):
    """A login makes a cookie; what it lets through depends on where the browser says that it comes from."""
    checks.equal("nobody yet", server.get("/v1/session").status, 401)
    answer = server.post("/v1/session", {"token": admin["text"]}, Origin="https://localhost", Host="localhost")
    cookie = answer.headers["Set-Cookie"]
    checks.equal("who it is", (answer.json["name"], answer.json["login"], "admin" in answer.json["scopes"]), ("admin", True, True))
    checks.that("a cookie that stays here", all(part in cookie for part in ("HttpOnly", "SameSite=Strict", "Secure", "Path=/;")), cookie)
    checks.that("plain HTTP has no Secure", "Secure" not in server.post("/v1/session", {"token": admin["text"]}, Origin="http://localhost", Host="localhost").headers["Set-Cookie"])
    checks.equal("a wrong token", server.post("/v1/session", {"token": "pawl_wrong"}).status, 401)
    checks.equal("from elsewhere", server.post("/v1/session", {"token": admin["text"]}, Origin="https://evil.example.org").status, 403)
    checks.that("logging out", "Max-Age=0" in server.request("DELETE", "/v1/session").headers["Set-Cookie"])
    pair = cookie.split(";")[0]
    for method, path, headers, wanted in (
            ("GET", "/v1/tasks", {}, 200), ("GET", "/v1/tasks", {"Sec-Fetch-Site": "same-origin"}, 200), ("GET", "/v1/tasks", {"Sec-Fetch-Site": "same-site"}, 403),
            ("POST", "/v1/queues/q/resume", {}, 403), ("POST", "/v1/queues/q/resume", {"Sec-Fetch-Site": "none"}, 403),
            ("POST", "/v1/queues/q/resume", {"Sec-Fetch-Site": "cross-site"}, 403), ("POST", "/v1/queues/q/resume", {"Sec-Fetch-Site": "same-origin"}, 200),
            ("POST", "/v1/queues/q/resume", {"Origin": "http://localhost"}, 200), ("POST", "/v1/queues/q/resume", {"Origin": "http://localhost:1"}, 403)):
        for jar in (pair, "a=b; " + pair, pair + "; z=pawl_token=x"):
            got = server.request(method, path, None, {"Host": "localhost", "Cookie": jar, **headers}).status
            checks.equal(f"cookie: {method} {path} {headers}", got, wanted)
    for jar in ("pawl_token=", "pawl_token=x", "xpawl_token=" + admin["text"], "pawl_token=" + admin["text"] + "x", "pawl_token=" + "x" * 3000):
        checks.equal(f"cookie {jar[:20]}", server.get("/v1/tasks", Cookie=jar).status, 401)
    checks.equal("a header counts more", server.get("/v1/tasks", Cookie=pair, Authorization="Bearer x").status, 401)
    checks.equal("a role", server.post("/v1/queues/q/pause", None, Host="localhost", Origin="http://localhost", Cookie="pawl_token=" + reader["text"]).status, 403)
    link = {"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "navigate", "Sec-Fetch-Dest": "document", "Accept-Encoding": "gzip"}
    checks.equal("a link from elsewhere opens the page", server.get("/", **link).status, 200)
    checks.equal("and nothing of the store", server.get("/v1/tasks", Cookie=pair, **link).status, 403)
    checks.equal("a frame does not", server.get("/", **{**link, "Sec-Fetch-Dest": "iframe"}).status, 403)


def prefixes():
    with served.Server("--prefix", "/ops/pawl") as server:
        answer = server.get("/ops/pawl")
        checks.equal("to the page itself", (answer.status, answer.headers.get("Location")), (308, "./pawl/"))
        checks.equal("the page", server.get("/ops/pawl/", **{"Accept-Encoding": "gzip"}).status, 200)
        checks.that("the cookie stays below", server.get("/").status == 404)


def files(folder, tokens):
    path = os.path.join(folder, "pawl.tokens")
    checks.equal("mode", stat.S_IMODE(os.stat(path).st_mode), 0o600)
    with open(path, encoding="utf-8") as file:
        text = file.read()
    checks.that("no token is in the file", not any(token["text"] in text for token in tokens if token))
    checks.that("names", "acme" in served.pawl("tokens", "list", folder=folder))
    served.pawl("tokens", "add", "acme", folder=folder, code=4)
    served.pawl("tokens", "add", "bad", "--scope", "everything", folder=folder, code=2)
    served.pawl("tokens", "rm", "nobody", folder=folder, code=3)


def refused_at_start():
    """Nobody listens to the world without a token."""
    for address in ("0.0.0.0:0", "[::]:0"):
        server = served.Server(listen=address)
        try:
            server.start()
            checks.that(f"{address} was taken", False)
        except AssertionError as error:
            checks.that(f"{address}: says what to do", "tokens add" in str(error), str(error))
            checks.equal(f"{address}: exit code", server.process.wait(), 6)
        finally:
            server.clean()


def main():
    with served.Server("--hosts", "pawl.example.org") as server:
        admin = {"name": "local", "text": "", "scopes": ["admin"], "tenant": None}
        for route in ROUTES:
            body = BODIES.get(route[1]) if route[0] == "POST" else None
            checks.that(f"without tokens {route} is open to this machine", server.request(*route, body).status in (200, 201))
        checks.equal("a token where there are none", server.get("/v1/tasks", Authorization="Bearer x").status, 401)
        folder = server.folder
        tokens = [make(folder, name, [name]) for name in GRANTS] + [make(folder, "both", ["read", "enqueue"])]
        acme = make(folder, "acme", ["read", "enqueue", "operate"], "acme")
        admin = next(token for token in tokens if token["name"] == "admin")
        tokens.append(acme)
        tokens.append(make(folder, "gone", ["admin"]))
        served.pawl("tokens", "rm", "gone", folder=folder)
        tokens[-1]["bad"] = True
        tokens.append({"name": "unknown", "text": "pawl_unknown", "scopes": ["admin"], "tenant": None, "bad": True})
        tokens = [None, *tokens]
        server.process.send_signal(served.signal.SIGHUP)
        server.wait_line("were read again")
        matrix(server, tokens)
        every_route(server, tokens)
        tenants(server, acme, admin)
        checks.equal("ready, for anybody", server.get("/readyz").json, {"status": "ready"})
        checks.that("and more for who may read", "pending" in server.get("/readyz", Authorization=f"Bearer {admin['text']}").json)
        broken_tokens(server, admin)
        cookies(server, admin, next(token for token in tokens if token and token["name"] == "read"))
        files(folder, tokens)
        old = make(folder, "brief", ["admin"], options=["--expires", "1s"])
        server.process.send_signal(served.signal.SIGHUP)
        served.until("it expires", lambda: server.get("/v1/tasks", Authorization=f"Bearer {old['text']}").json.get("type") == "urn:pawl:problem:expired_token")
        os.rename(os.path.join(folder, "pawl.tokens"), os.path.join(folder, "away"))
        server.process.send_signal(served.signal.SIGHUP)
        server.wait_line("the old ones stay")
        checks.equal("a lost file opens nothing", server.get("/v1/tasks").status, 401)
        os.rename(os.path.join(folder, "away"), os.path.join(folder, "pawl.tokens"))
        addresses(folder, admin)
    prefixes()
    refused_at_start()
    return checks.end()


if __name__ == "__main__":
    sys.exit(main())
