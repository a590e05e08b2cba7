#!/usr/bin/python3
"""Starting, settings, signals, sockets, systemd's protocol; events; what slow and vanished clients do."""

import http.client
import json
import os
import re
import shutil
import signal
import socket
import ssl
import subprocess
import sys
import tempfile
import threading
import urllib.request

import served

checks = served.Checks()


# ---- settings -----------------------------------------------------------------------------------------------------------------


def settings():
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "pawl.conf")
        sample = served.pawl("config", "sample")
        with open(path, "w", encoding="utf-8") as file:
            file.write(sample + "\n")
        checks.that("the sample names the default address", "default: 127.0.0.1:7295" in sample)
        checks.that("the sample is right", "is right" in served.pawl("config", "check", path))
        with open(path, "w", encoding="utf-8") as file:
            file.write("\n".join(line[2:] if " = " in line and line.startswith("# ") and line[2] != " " and not any(word in line for word in ("ADDRESS", "NAME", "PATH")) else line for line in sample.splitlines()))
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
            done = subprocess.run([served.PAWL, "serve", "--store", "memory:", *options], cwd=folder, capture_output=True, text=True, timeout=served.PATIENCE)
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
            second = subprocess.run([served.PAWL, "serve", "--store", "memory:", "--listen", f"unix:{path}"], cwd=folder, capture_output=True, text=True, timeout=served.PATIENCE)
            checks.equal("one in use", second.returncode, 5)
            checks.equal("stays", over_unix(path), 200)


def systemd():
    """Sockets that are handed over, and what is told."""
    with tempfile.TemporaryDirectory() as folder, socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as told, socket.socket() as listening:
        told.bind(os.path.join(folder, "notify"))
        told.settimeout(served.PATIENCE)
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
            checks.equal("stopping", (told.recv(100), process.wait(served.PATIENCE)), (b"STOPPING=1", 0))
        finally:
            process.kill()
            process.wait()


# ---- TLS ----------------------------------------------------------------------------------------------------------------------


def make_certificate(folder, name):
    subprocess.run(["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-keyout", f"{folder}/{name}.key", "-out", f"{folder}/{name}.pem",
                    "-days", "2", "-subj", f"/CN={name}", "-addext", "subjectAltName=IP:127.0.0.1"], check=True, stderr=subprocess.DEVNULL)


def over_tls(server, authority, method="GET", path="/healthz", body=None):
    context = ssl.create_default_context(cafile=authority)
    connection = http.client.HTTPSConnection(*server.address, context=context, timeout=served.PATIENCE)
    try:
        connection.request(method, path, body, {"Content-Type": "application/json"} if body else {})
        answer = connection.getresponse()
        return answer.status, answer.read()
    finally:
        connection.close()


def tls():
    with tempfile.TemporaryDirectory() as folder:
        for name in ("one", "two"):
            make_certificate(folder, name)
        for end in ("key", "pem"):
            shutil.copy(f"{folder}/one.{end}", f"{folder}/used.{end}")
        one, two = f"{folder}/one.pem", f"{folder}/two.pem"
        with served.Server("--tls-cert", f"{folder}/used.pem", "--tls-key", f"{folder}/used.key", "--head-timeout", "1s") as server:
            checks.equal("an answer", over_tls(server, one)[0], 200)
            checks.equal("much of it", over_tls(server, one, "POST", "/v1/tasks/bulk", json.dumps([{"type": "a", "payload": "x" * 1000}] * 2000))[0], 200)
            checks.equal("and back", len(json.loads(over_tls(server, one, "GET", "/v1/tasks?limit=1000")[1])["tasks"]), 1000)
            url = f"https://127.0.0.1:{server.address[1]}"
            checks.equal("the command line", len(served.pawl("tasks", "list", "--server", url, environment={"PAWL_CA_FILE": one}).splitlines()) > 10, True)
            checks.that("does not believe everybody", "not who it says" in served.pawl("tasks", "list", "--server", url, code=6, environment={"PAWL_CA_FILE": two}))
            stream = Events(server, context=ssl.create_default_context(cafile=one))
            over_tls(server, one, "POST", "/v1/tasks", '{"type":"told"}')
            checks.equal("events", stream.next()["data"]["type"], "told")
            stream.close()
            with socket.create_connection(server.address, timeout=served.PATIENCE) as silent:
                checks.equal("who never speaks is cut off", silent.recv(1), b"")
            with socket.create_connection(server.address, timeout=served.PATIENCE) as plain:
                plain.sendall(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n")
                try:
                    checks.that("nothing in the clear", b"200" not in plain.recv(100))
                except ConnectionResetError:
                    pass
            for end in ("key", "pem"):
                shutil.copy(f"{folder}/two.{end}", f"{folder}/used.{end}")
            server.process.send_signal(signal.SIGHUP)
            server.wait_line("were read again")
            checks.equal("the new certificate", over_tls(server, two)[0], 200)
            shutil.copy(f"{folder}/one.key", f"{folder}/used.key")
            server.process.send_signal(signal.SIGHUP)
            server.wait_line("could not use the certificate")
            checks.equal("it stays", over_tls(server, two)[0], 200)
        for options in (["--tls-cert", one], ["--tls-cert", one, "--tls-key", f"{folder}/two.key"], ["--tls-cert", f"{folder}/none", "--tls-key", f"{folder}/none"]):
            done = subprocess.run([served.PAWL, "serve", "--store", "memory:", "--listen", "127.0.0.1:0", *options], cwd=folder, capture_output=True, text=True, timeout=served.PATIENCE)
            checks.equal(f"{len(options)} options", (done.returncode, "tls" in done.stderr or "certificate" in done.stderr), (2, True))


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
        checks.equal("ends well", server.process.wait(served.PATIENCE), 0)
    with served.Server() as server, socket.create_connection(server.address) as slow:
        slow.sendall(b"POST /v1/tasks HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: 10\r\n\r\n{")
        served.until("it is under way", lambda: b"pawl_http_connections 2" in server.get("/metrics").body)
        server.process.send_signal(signal.SIGTERM)
        server.wait_line("stopping")
        server.process.send_signal(signal.SIGTERM)
        checks.equal("a second signal waits for nobody", server.process.wait(served.PATIENCE), 0)


# ---- events -------------------------------------------------------------------------------------------------------------------


class Events:
    """A client of /v1/events."""

    def __init__(self, server, path="/v1/events", context=None, **headers):
        kind = {"timeout": served.PATIENCE}
        self.connection = http.client.HTTPSConnection(*server.address, context=context, **kind) if context else http.client.HTTPConnection(*server.address, **kind)
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


def sleepy():
    """One who does not read is cut off, however much there is to tell, and goes on where it was: what it had not taken is there still."""
    with served.Server("--answer-timeout", "1s", "--events", "100000") as server, socket.socket() as sleeper:
        sleeper.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        sleeper.settimeout(60 * served.FACTOR)
        sleeper.connect(server.address)
        sleeper.sendall(b"GET /v1/events HTTP/1.1\r\nHost: localhost\r\n\r\n")
        text = sleeper.recv(64)
        reader, tasks = Events(server), json.dumps([{"type": "x" * 60, "queue": "q" * 60}] * 5000)
        dropped, sent = 0, 0
        while not dropped and sent < 60000:
            checks.equal("stored", server.request("POST", "/v1/tasks/bulk", tasks).status, 200)
            sent += 5000
            last = [reader.next() for _ in range(5000)][-1]
            dropped = int(re.search(rb"streams_dropped_total (\d+)", server.get("/metrics").body)[1])
        served.until("it is cut off", lambda: b"streams_dropped_total 1\n" in server.get("/metrics").body)
        while piece := sleeper.recv(1 << 20):
            text += piece
        taken = re.findall(rb"id: (f-\d+)\nevent: dispatched\ndata: [^\n]*\n\n", text)
        checks.that("it had a part", 0 < len(taken) < sent)
        again = Events(server, Last_Event_ID=taken[-1].decode())
        rest = [again.next() for _ in range(sent - len(taken))]
        checks.equal("and gets the rest", ({event["event"] for event in rest}, rest[-1]["id"]), ({"dispatched"}, last["id"]))
        for client in (reader, again):
            client.close()


def lose_a_node(server, stream, mail):
    """A node that is killed while it has a task: when others have found out, listeners know that they may have missed something."""
    doomed = subprocess.Popen([served.PAWL, "work", "--store", "sqlite:pawl.db", "--quiet", "--lease", "1s", "--queue", "doomed", "--", "sleep", "600"],
                              cwd=server.folder, stdout=subprocess.DEVNULL)
    task = served.pawl("enqueue", "--store", "sqlite:pawl.db", "--type", "slow", "--queue", "doomed", folder=server.folder)
    told = stream.next()
    while told["event"] != "started" or told["data"]["id"] != task:
        told = stream.next()
    doomed.kill()
    doomed.wait()
    seen = [told]
    while not {"node_lost", "rescued"} <= {event["event"] for event in seen}:
        seen.append(stream.next())
    lost = next(i for i, event in enumerate(seen) if event["event"] == "node_lost")  # told again by whoever rescues
    checks.equal("a gap stands before what says why", (seen[lost - 1]["event"], seen[lost - 1].get("data")), ("gap", {"lost": None}))
    rescued = next(event["data"] for event in seen if event["event"] == "rescued")
    checks.equal("what was rescued", [rescued[name] for name in ("id", "type", "queue")], [task, "slow", "doomed"])
    while told["event"] != "gap":
        told = mail.next()
    checks.that("also for one who wants a type alone", told["data"]["lost"] is None)


def of_others():
    """What other processes do to tasks of the store is told, too; also to a second server, and after it came back."""
    with served.Server() as server:
        stream, mail = Events(server), Events(server, "/v1/events?type=mail")
        made = served.pawl("enqueue", "--store", "sqlite:pawl.db", "--type", "mail", folder=server.folder)
        event = stream.next()
        checks.equal("handed over by a command", (event["event"], event["data"]["id"], bool(event["data"]["node"])), ("dispatched", made, True))
        worker = subprocess.Popen([served.PAWL, "work", "--store", "sqlite:pawl.db", "--quiet", "--lease", "1s", "--", "true"], cwd=server.folder, stdout=subprocess.DEVNULL)
        try:
            seen = [event]
            while not any(e["event"] == "succeeded" for e in seen):
                seen.append(stream.next())
            checks.equal("run by another node", [e["event"] for e in seen if e["data"].get("id") == made], ["dispatched", "started", "succeeded"])
            second = served.Server(folder=server.folder).start()
            again = Events(second, Last_Event_ID=event["id"])
            checks.equal("resumed elsewhere", again.next()["id"], seen[1]["id"])
            other = served.pawl("enqueue", "--store", "sqlite:pawl.db", "--type", "mail", folder=server.folder)
            for name, client in (("here", stream), ("there", again), ("filtered", mail)):
                told = client.next()
                while told["data"].get("id") != other or told["event"] != "succeeded":
                    told = client.next()
                checks.equal(name, told["data"]["type"], "mail")
            waits = served.pawl("enqueue", "--store", "sqlite:pawl.db", "--type", "mail", "--queue", "later", "--delay", "1h", folder=server.folder)
            served.pawl("tasks", "cancel", waits, "--store", "sqlite:pawl.db", folder=server.folder)
            while told["event"] != "cancelled":
                told = mail.next()
            checks.equal("cancelled by a command", (told["data"]["id"], told["data"]["type"], told["data"]["queue"]), (waits, "mail", "later"))
            lose_a_node(server, stream, mail)
            for client in (stream, again, mail):
                client.close()
            second.stop()
        finally:
            worker.terminate()
            worker.wait()


# ---- readiness and the demo -------------------------------------------------------------------------------------------------------


def work(server, *command):
    return subprocess.Popen([served.PAWL, "work", "--store", "sqlite:pawl.db", "--quiet", "--lease", "1s", "--", *command], cwd=server.folder, stdout=subprocess.DEVNULL)


def readiness():
    """What a person should know: tasks that a dead node holds, and dead letters that grow."""
    with served.Server() as server:
        def found():
            answer = server.get("/readyz").json
            return answer["status"], answer["stale"], answer["dead"]

        checks.equal("at first", found(), ("ready", 0, 0))
        server.post("/v1/tasks", {"type": "x"})
        checks.equal("due", server.get("/readyz").json["due"], 1)
        worker = work(server, "sleep", "600")
        served.until("it runs", lambda: server.get("/v1/tasks?state=running").json["tasks"])
        worker.kill()
        worker.wait()
        served.until("its node is gone", lambda: found() == ("degraded", 1, 0))
        worker = work(server, "sh", "-c", "exit 65")
        served.until("another one took it, and it failed", lambda: found() == ("degraded", 0, 1))
        worker.terminate()
        worker.wait()
        server.post("/v1/dead/ack", {"filter": {}})
        checks.equal("somebody has looked", found(), ("ready", 0, 0))


def ends(process, again):
    """The second signal waits for nobody, once the first was taken."""
    process.send_signal(again)
    return process.poll() is not None


def demonstration():
    """What `make run` starts says where to look and what to type, and does what it says."""
    with tempfile.TemporaryDirectory() as folder:
        command = [f"{os.environ['PAWL_SOURCE_DIR']}/scripts/run.sh", "--listen", "127.0.0.1:0"]
        process = subprocess.Popen(command, cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, env={**os.environ, "PAWL_BIN": served.PAWL})
        try:
            first = process.stdout.readline()
            checks.that("where it is", re.match(r"Pawl serves sqlite:pawl-demo.db on http://127.0.0.1:\d+\n", first), first)
            lines = [process.stdout.readline() for _ in range(15)]
            words = [line.split()[0] for line in lines if re.match(r"  \w", line)]
            checks.that("where to look, what to type", {"look", "act", "read", "stop"} <= set(words), lines)
            url = first.split()[-1]
            for line in lines:
                if "pawl top" in line or "pawl tasks list" in line:
                    subprocess.run(line.split(), cwd=folder, check=True, stdout=subprocess.DEVNULL)
            ask = lambda path: json.loads(urllib.request.urlopen(url + path, timeout=served.PATIENCE).read())  # noqa: E731
            served.until("tasks run, and some fail", lambda: (lambda s: s["succeeded"] and s["failed"] + s["retried"])(ask("/v1/stats")))
            checks.that("a schedule, a limit", ask("/v1/schedules")["schedules"] and ask("/v1/limits")["limits"])
            process.send_signal(signal.SIGINT)
            served.until("it stops", lambda: ends(process, signal.SIGINT))
            checks.equal("Ctrl-C", process.wait(served.PATIENCE), 0)
        finally:
            process.kill()
            process.wait()


# ---- bad company --------------------------------------------------------------------------------------------------------------


def bad_company():
    with served.Server("--connections", "20", "--body-timeout", "1s") as server:
        crowd = [socket.create_connection(server.address) for _ in range(20)]
        served.until("the 21st is told to come back", lambda: turned_away(server))
        for one in crowd:
            one.close()
        served.until("there is room again", lambda: not turned_away(server))
        with socket.create_connection(server.address, timeout=served.PATIENCE) as slow:
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
        crowd = [socket.create_connection(server.address, timeout=served.PATIENCE) for _ in range(256)]
        for _ in range(3):
            for one in crowd:
                one.sendall(request)
            answers = [one.recv(65536)[:12] for one in crowd]
            checks.equal("all are answered", set(answers), {b"HTTP/1.1 201"})
        for one in crowd:
            one.close()


def killed(checks, make):
    """What was acknowledged is there after SIGKILL, and streams go on behind what they had. make: a server that is not started, always
    on the same store."""
    acked, server = [], make().start()

    def send():
        connection = http.client.HTTPConnection(*server.address, timeout=served.PATIENCE)
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
    with make() as server:
        stored, cursor = set(), ""
        while cursor is not None:
            page = server.get(f"/v1/tasks?limit=1000&type=kept{cursor and '&cursor=' + cursor}").json
            stored |= {task["id"] for task in page["tasks"]}
            cursor = page["next"]
        checks.equal("nothing acknowledged is lost", set(acked) - stored, set())
        again = Events(server, Last_Event_ID=last["id"])
        first = again.next()
        checks.equal("the stream goes on", (first["event"], int(first["id"].split("-")[1])), ("dispatched", int(last["id"].split("-")[1]) + 1))
        told = first
        while told["event"] != "gap":
            told = again.next()
        checks.equal("and knows that what the killed one had not told is missing", again.next()["event"], "node_lost")
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
    for part in (settings, failing_starts, sockets, systemd, tls, signals, events, sleepy, of_others, readiness, demonstration, bad_company, lockstep):
        part()
    with tempfile.TemporaryDirectory(prefix="pawl-server-") as folder:
        killed(checks, lambda: served.Server(folder=folder))
    return checks.end()


if __name__ == "__main__":
    sys.exit(main())
