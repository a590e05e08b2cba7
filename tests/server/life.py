#!/usr/bin/python3
"""Starting, settings, signals, sockets, systemd's protocol; events; what slow and vanished clients do."""

import http.client
import json
import os
import signal
import socket
import subprocess
import sys
import tempfile
import threading

import served

checks = served.Checks()


# ---- settings -----------------------------------------------------------------------------------------------------------------


def settings():
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "pawl.conf")
        sample = served.pawl("config", "sample")
        with open(path, "w", encoding="utf-8") as file:
            file.write(sample + "\n")
        checks.that("the sample is right", "is right" in served.pawl("config", "check", path))
        with open(path, "w", encoding="utf-8") as file:
            file.write("\n".join(line[2:] if " = " in line and line.startswith("# ") and not any(word in line for word in ("ADDRESS", "NAME", "PATH")) else line for line in sample.splitlines()))
        checks.that("and its defaults are", "is right" in served.pawl("config", "check", path))
        for line, word in (("nonsense", "name = value"), ("thread = 2", 'did you mean "threads"'), ("threads = many", "whole number"), ("[open", "section"), ("grace = 5", "duration"), ("log-format = xml", "text|json")):
            with open(path, "w", encoding="utf-8") as file:
                file.write(f"[server]\n\n{line}\n")
            error = served.pawl("config", "check", path, code=2)
            checks.that(f"{line}: says what and where", "line 3" in error and word in error, error)
        served.pawl("config", "check", os.path.join(folder, "none"), code=3)
        with open(path, "w", encoding="utf-8") as file:
            file.write("[server]\nprefix = /file\naccess_log = true\nlog-format = json\nhosts = a.example.org, b.example.org\n")
        with served.Server("--config", path, environment={"PAWL_PREFIX": "/env"}) as server:
            checks.equal("the environment counts more than the file", (server.get("/env/healthz").status, server.get("/file/healthz").status), (200, 404))
            line = server.wait_line("/env/healthz")
            checks.equal("a line of JSON", json.loads(line)["level"], "info")
            checks.equal("lists", server.get("/env/healthz", Host="b.example.org").status, 200)
        with served.Server("--config", path, "--prefix", "/flag", environment={"PAWL_PREFIX": "/env"}) as server:
            checks.equal("a flag counts most", (server.get("/flag/healthz").status, server.get("/env/healthz").status), (200, 404))


def failing_starts():
    for options, code in ((["--threads", "0"], 2), (["--listen", "127.0.0.1"], 2), (["--listen", "unix:"], 2), (["--prefix", "x"], 2), (["--config", "none.conf"], 3), (["--listen", "192.0.2.1:1"], 5)):
        with tempfile.TemporaryDirectory() as folder:
            done = subprocess.run([served.PAWL, "serve", "--store", "memory:", *options], cwd=folder, capture_output=True, text=True, timeout=60)
            checks.equal(f"{options}", (done.returncode, bool(done.stderr)), (code, True))


# ---- sockets ------------------------------------------------------------------------------------------------------------------


class UnixConnection(http.client.HTTPConnection):
    def __init__(self, path):
        super().__init__("localhost")
        self.path = path

    def connect(self):
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.connect(self.path)


def over_unix(path):
    connection = UnixConnection(path)
    connection.request("GET", "/healthz")
    status = connection.getresponse().status
    connection.close()
    return status


def sockets():
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "s")
        with served.Server(listen=f"unix:{path}"):
            checks.equal("unix", (over_unix(path), os.stat(path).st_mode & 0o777), (200, 0o600))
        checks.that("it is removed", not os.path.exists(path))
        with socket.socket(socket.AF_UNIX) as left:
            left.bind(path)
        with served.Server(listen=f"unix:{path}"):
            checks.equal("one that was left behind", over_unix(path), 200)
            second = subprocess.run([served.PAWL, "serve", "--store", "memory:", "--listen", f"unix:{path}"], cwd=folder, capture_output=True, text=True, timeout=60)
            checks.equal("one in use", second.returncode, 5)
            checks.equal("stays", over_unix(path), 200)


def systemd():
    """Sockets that are handed over, and what is told."""
    with tempfile.TemporaryDirectory() as folder, socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as told, socket.socket() as listening:
        told.bind(os.path.join(folder, "notify"))
        told.settimeout(30 * served.FACTOR)
        listening.bind(("127.0.0.1", 0))
        listening.listen()
        port = listening.getsockname()[1]
        start = 'import os, sys; os.dup2(int(sys.argv[1]), 3); os.environ["LISTEN_PID"] = str(os.getpid()); os.execv(sys.argv[2], sys.argv[2:])'
        process = subprocess.Popen([sys.executable, "-c", start, str(listening.fileno()), served.PAWL, "serve", "--store", "memory:"], cwd=folder, pass_fds=[listening.fileno()],
                                   stderr=subprocess.DEVNULL, env={**os.environ, "LISTEN_FDS": "1", "NOTIFY_SOCKET": os.path.join(folder, "notify")})
        try:
            checks.equal("ready", told.recv(100), b"READY=1")
            connection = http.client.HTTPConnection("127.0.0.1", port)
            connection.request("GET", "/healthz")
            checks.equal("on its socket", connection.getresponse().status, 200)
            connection.close()
            process.send_signal(signal.SIGHUP)
            checks.equal("reloading", (told.recv(100), told.recv(100)), (b"RELOADING=1", b"READY=1"))
            process.send_signal(signal.SIGTERM)
            checks.equal("stopping", (told.recv(100), process.wait(30)), (b"STOPPING=1", 0))
        finally:
            process.kill()
            process.wait()


# ---- signals ------------------------------------------------------------------------------------------------------------------


def signals():
    """A request that is under way when the signal comes is answered."""
    with served.Server() as server:
        body = b'{"type":"slow"}'
        with socket.create_connection(server.address) as slow:
            slow.sendall(b"POST /v1/tasks HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n" % len(body) + body[:5])
            served.until("it is under way", lambda: b"pawl_http_connections 2" in server.get("/metrics").body)
            server.process.send_signal(signal.SIGTERM)
            server.wait_line("stopping")
            try:
                socket.create_connection(server.address, timeout=1).close()
            except OSError:
                pass
            slow.sendall(body[5:])
            answer = slow.recv(65536)
            checks.that("answered", answer.startswith(b"HTTP/1.1 201") and b"Connection: close" in answer, answer)
        checks.equal("ends well", server.process.wait(30), 0)
    with served.Server() as server, socket.create_connection(server.address) as slow:
        slow.sendall(b"POST /v1/tasks HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: 10\r\n\r\n{")
        served.until("it is under way", lambda: b"pawl_http_connections 2" in server.get("/metrics").body)
        server.process.send_signal(signal.SIGTERM)
        server.wait_line("stopping")
        server.process.send_signal(signal.SIGTERM)
        checks.equal("a second signal waits for nobody", server.process.wait(30), 0)


# ---- events -------------------------------------------------------------------------------------------------------------------


class Events:
    """A client of /v1/events."""

    def __init__(self, server, path="/v1/events", **headers):
        self.connection = http.client.HTTPConnection(*server.address, timeout=30 * served.FACTOR)
        self.connection.request("GET", path, headers={name.replace("_", "-"): value for name, value in headers.items()})
        self.answer = self.connection.getresponse()

    def next(self):
        """The next event as a dictionary; None at the end."""
        event = {}
        while True:
            line = self.answer.readline().decode().rstrip("\n")
            if not line and self.answer.isclosed():
                return None
            if not line and "data" in event:
                return {**event, "data": json.loads(event["data"])}
            name, _, value = line.partition(": ")
            if name:
                event[name] = value

    def close(self):
        self.connection.close()


def events():
    with served.Server("--events", "16") as server:
        first = Events(server)
        checks.equal("a stream", first.answer.getheader("Content-Type"), "text/event-stream")
        mail = Events(server, "/v1/events?type=mail")
        ids = [server.post("/v1/tasks", {"type": kind}).json["id"] for kind in ("a", "mail", "b")]
        seen = [first.next() for _ in ids]
        checks.equal("what happens", [(event["event"], event["data"]["id"]) for event in seen], [("dispatched", id) for id in ids])
        checks.equal("a filter", mail.next()["data"]["id"], ids[1])
        first.close()
        server.post("/v1/tasks", {"type": "c"})
        again = Events(server, Last_Event_ID=seen[0]["id"])
        checks.equal("resumes", [again.next()["data"]["type"] for _ in range(3)], ["mail", "b", "c"])
        for i in range(40):
            server.post("/v1/tasks", {"type": f"n{i}"})
        checks.that("one that reads misses nothing", [again.next()["data"]["type"] for _ in range(40)] == [f"n{i}" for i in range(40)])
        late = Events(server, Last_Event_ID=seen[0]["id"])
        gap = late.next()
        checks.equal("a gap", (gap["event"], gap["data"]["lost"]), ("gap", 43 - 16))
        checks.equal("and what is still there", late.next()["data"]["type"], "n24")
        other = Events(server, Last_Event_ID="1234-5")
        checks.equal("of another start", other.next()["event"], "gap")
        checks.equal("nonsense", server.get("/v1/events", **{"Last-Event-ID": "x"}).status, 400)
        checks.equal("a parameter that is not known", server.get("/v1/events?odd=1").status, 422)
        idle = [Events(server) for _ in range(50)]
        server.process.send_signal(signal.SIGTERM)
        checks.that("they end with the server", all(client.next() is None for client in idle))
        for client in (mail, again, late, other, *idle):
            client.close()


# ---- bad company --------------------------------------------------------------------------------------------------------------


def bad_company():
    with served.Server("--connections", "20", "--body-timeout", "1s") as server:
        crowd = [socket.create_connection(server.address) for _ in range(20)]
        served.until("the 21st is told to come back", lambda: turned_away(server))
        for one in crowd:
            one.close()
        served.until("there is room again", lambda: not turned_away(server))
        with socket.create_connection(server.address, timeout=30) as slow:
            slow.sendall(b"POST /v1/tasks HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: 100\r\n\r\n{")
            checks.equal("a body that does not come", slow.recv(1000), b"")
        threads = [threading.Thread(target=vanish, args=(server,)) for _ in range(20)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        served.until("those who vanish leave nothing", lambda: b"pawl_http_connections 1\n" in server.get("/metrics").body)
        checks.equal("and it still works", server.post("/v1/tasks", {"type": "x"}).status, 201)


def lockstep():
    """Hundreds of requests at the same moment, again and again: nobody waits for somebody else to come."""
    body = b'{"type":"x"}'
    request = b"POST /v1/tasks HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n" % len(body) + body
    with served.Server("--threads", "1") as server:
        crowd = [socket.create_connection(server.address, timeout=30 * served.FACTOR) for _ in range(256)]
        for _ in range(3):
            for one in crowd:
                one.sendall(request)
            answers = [one.recv(65536)[:12] for one in crowd]
            checks.equal("all are answered", set(answers), {b"HTTP/1.1 201"})
        for one in crowd:
            one.close()


def killed():
    """What was acknowledged is there after SIGKILL, and streams resume with a gap."""
    folder = tempfile.mkdtemp(prefix="pawl-server-")
    acked, server = [], served.Server(folder=folder).start()

    def send():
        connection = http.client.HTTPConnection(*server.address, timeout=30 * served.FACTOR)
        try:
            while True:
                connection.request("POST", "/v1/tasks", '{"type":"kept"}', {"Content-Type": "application/json"})
                answer = connection.getresponse()
                if answer.status == 201:
                    acked.append(json.loads(answer.read())["id"])
        except (OSError, http.client.HTTPException, ValueError):
            pass

    stream = Events(server)
    threads = [threading.Thread(target=send) for _ in range(8)]
    for thread in threads:
        thread.start()
    last = [stream.next() for _ in range(50)][-1]
    served.until("some are acknowledged", lambda: len(acked) > 300)
    server.process.kill()
    for thread in threads:
        thread.join()
    server.clean()
    server = served.Server(folder=folder)
    server.own_folder = True
    with server:
        stored, cursor = set(), ""
        while cursor is not None:
            page = server.get(f"/v1/tasks?limit=1000&type=kept{cursor and '&cursor=' + cursor}").json
            stored |= {task["id"] for task in page["tasks"]}
            cursor = page["next"]
        checks.equal("nothing acknowledged is lost", set(acked) - stored, set())
        again = Events(server, Last_Event_ID=last["id"])
        checks.equal("the stream says that it lost some", again.next()["event"], "gap")
        again.close()


def turned_away(server):
    try:
        return server.get("/healthz").status == 503
    except ConnectionError:
        return True


def vanish(server):
    try:
        with socket.create_connection(server.address) as s:
            body = b'{"type":"gone"}'
            s.sendall(b"POST /v1/tasks HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n" % len(body) + body)
    except ConnectionError:
        pass


def main():
    for part in (settings, failing_starts, sockets, systemd, signals, events, bad_company, lockstep, killed):
        part()
    return checks.end()


if __name__ == "__main__":
    sys.exit(main())
