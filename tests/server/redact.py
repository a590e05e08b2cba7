#!/usr/bin/env python3
"""Secrets are masked wherever somebody looks, by the names they stand under, and nowhere else: the store, handlers, workers and exports have them."""

import base64
import json
import os
import tempfile
import threading
import time

from served import FACTOR, Server, pawl

SECRET = "hunter2-"  # each place has its own, so that what leaks says where


def payload(place):
    """As bytes, to see that all else stays as it is."""
    return ('{"user" : "ann", "pass\\u0077ord":"%s%s","n":1.50,"big":12345678901234567890,"deep":[{"API-Key":{"a":["%s%s"]}}],'
            '"url":"https://ann:%s%s@x.org/?token=%s%s&page=2","has_password":true}' % ((SECRET, place) * 4))


def masked(place):
    return (payload(place).replace('"%s%s"' % (SECRET, place), '"[redacted]"', 1).replace('{"a":["%s%s"]}' % (SECRET, place), '"[redacted]"')
            .replace(SECRET + place, "[redacted]"))


class Listener:
    """All that the stream says."""

    def __init__(self, server):
        import http.client
        self.connection = http.client.HTTPConnection(*server.address, timeout=60 * FACTOR)
        self.connection.request("GET", "/v1/events")
        self.answer = self.connection.getresponse()
        self.text, self.changed = "", threading.Condition()
        threading.Thread(target=self.read, daemon=True).start()

    def read(self):
        for line in self.answer:
            with self.changed:
                self.text += line.decode()
                self.changed.notify_all()

    def wait(self, *words):
        with self.changed:
            assert self.changed.wait_for(lambda: all(word in self.text for word in words), 30 * FACTOR), self.text[-2000:]


def clean(what, text):
    text = text if isinstance(text, str) else text.decode()
    assert SECRET not in text, f"{what} shows a secret: {text[:3000]}"
    return text


def enqueue(server, place, **more):
    body = json.dumps({"type": "greet", **more})[:-1] + ',"payload":' + payload(place) + "}"
    answer = server.request("POST", "/v1/tasks", body)
    assert answer.status == 201, answer
    return answer.json["id"]


def work(server, task, outcome):
    """A remote worker gets the task, byte for byte, and reports this."""
    worker = server.post("/v1/workers", {"queues": ["default"], "types": ["greet"]}).json["worker"]
    claimed = server.request("POST", f"/v1/workers/{worker}/claim", {"max": 1, "wait": "10s"}).body.decode()
    assert payload("p") in claimed, claimed
    one = json.loads(claimed)["tasks"][0]
    assert one["id"] == task and one["headers"] == json.dumps({"authorization": "Bearer " + SECRET + "h"}), one
    report = server.post(f"/v1/workers/{worker}/report", {"items": [{"id": task, "fence": one["fence"], **outcome}]})
    assert report.status == 200 and report.json["results"][0]["status"] == "done", report
    server.request("DELETE", f"/v1/workers/{worker}")


def surfaces(server):
    heard = Listener(server)
    task = enqueue(server, "p", headers=json.dumps({"authorization": "Bearer " + SECRET + "h"}), max_attempts=1)
    work(server, task, {"outcome": "failed", "error": f"login failed: password={SECRET}e, user=ann", "progress_text": f"token: {SECRET}g", "progress": 5,
                        "log": [{"level": "info", "text": f"Cookie: a={SECRET}l; b=c"}, {"level": "warn", "text": f'{{"secret":"{SECRET}j"}}'}]})
    shown = clean("a task", server.get(f"/v1/tasks/{task}").body)
    assert '"payload":' + masked("p") in shown, shown
    assert "login failed: password=[redacted], user=ann" in shown and "Cookie: [redacted]" in shown, shown
    one = json.loads(shown)
    assert json.loads(one["headers"]) == {"authorization": "[redacted]"}, one
    assert [line["text"] for line in one["log"]] == ["Cookie: [redacted]", '{"secret":"[redacted]"}'], one
    for path in (f"/v1/tasks/{task}?brief=true", f"/v1/tasks/{task}/why", "/v1/tasks", "/v1/dead", f"/v1/tasks/{task}/tree"):
        clean(path, server.get(path).body)
    heard.wait("event: failed", "password=[redacted]")
    clean("the stream", heard.text)
    acked = server.post("/v1/dead/ack", {"ids": [task], "note": f"pwd={SECRET}n"})
    assert acked.json["count"] == 1, acked
    assert "pwd=[redacted]" in clean("the operator log", server.get("/v1/acts").body)
    clean("a note", server.get(f"/v1/tasks/{task}").body)
    return task


def other_bodies(server):
    text = f"password={SECRET}t\nuser=ann\n"
    answer = server.post("/v1/tasks", {"type": "blob", "content_type": "text/plain", "payload_base64": base64.b64encode(text.encode()).decode()})
    one = server.get(f"/v1/tasks/{answer.json['id']}").json
    assert base64.b64decode(one["payload_base64"]) == b"password=[redacted]\nuser=ann\n", one
    raw = b"\xff\x00token=x"
    answer = server.post("/v1/tasks", {"type": "blob", "content_type": "image/x", "payload_base64": base64.b64encode(raw).decode()})
    assert base64.b64decode(server.get(f"/v1/tasks/{answer.json['id']}").json["payload_base64"]) == raw


def schedules(server):
    """What is sent back as it was shown keeps its secret."""
    answer = server.request("PUT", "/v1/schedules/nightly", '{"type":"s","cron":"0 3 * * *","payload":' + payload("s") + "}")
    assert answer.json["outcome"] == "created", answer
    shown = clean("a schedule", server.get("/v1/schedules/nightly").body)
    assert '"payload":' + masked("s") in shown, shown
    for text in (masked("s"), masked("s").replace(" ", "").replace(",", " ,\n")):
        answer = server.request("PUT", "/v1/schedules/nightly?how=edit", '{"type":"s","cron":"0 4 * * *","payload":' + text + "}")
        assert answer.status == 200, answer
    answer = server.request("PUT", "/v1/schedules/nightly?how=edit",
                            '{"type":"s","cron":"0 4 * * *","payload":' + masked("s").replace("ann", "bob") + "}")
    assert answer.status == 422 and "nightly" in answer.json["detail"], answer
    pawl("schedules", "edit", "nightly", "--cron", "0 5 * * *", "--server", "http://%s:%d" % server.address)
    assert server.request("PUT", "/v1/schedules/new", '{"type":"s","cron":"@daily","payload":{"token":"[redacted]"}}').status == 200


def searches(server, task):
    """Nobody finds out about a secret by looking for it."""
    assert [one["id"] for one in server.get("/v1/tasks?q=12345678901234567890").json["tasks"]] == [task]
    for words in (SECRET + "p", SECRET[:3], "hunter2-e"):
        for limit in ("", "&limit=1"):
            page = server.get(f"/v1/tasks?q={words}{limit}").json
            assert page["tasks"] == [] and page["next"] is None, (words, page)
    assert [one["id"] for one in server.get(f"/v1/tasks?q={task[:6]}&type=greet").json["tasks"]] == [task]


def command_line(server, task):
    store = ("--store", "sqlite:" + os.path.join(server.folder, "pawl.db"))
    for where in (store, ("--server", "http://%s:%d" % server.address)):
        for command in (("tasks", "show", task), ("tasks", "show", task, "--json"), ("tasks", "list"), ("tasks", "list", "--json"), ("log",), ("log", "--json"),
                        ("schedules", "show", "nightly"), ("schedules", "show", "nightly", "--json"), ("tasks", "tree", task), ("top", "--once")):
            clean(f"pawl {' '.join(command)} {where}", pawl(*command, *where))
        assert masked("p") in pawl("tasks", "show", task, *where)
    plain = pawl("tasks", "show", task, *store, environment={"PAWL_REDACT": "none"})
    assert payload("p") in plain and SECRET + "e" in plain, plain
    events = pawl("events", "--json", *store)
    assert "password=[redacted]" in clean("pawl events", events)
    assert "no word" in pawl("tasks", "list", *store, code=2, environment={"PAWL_REDACT": "x"})
    return store


def exports(store):
    """What is to be read by programs is whole."""
    text = pawl("export", *store)
    for place in "pselh":
        assert SECRET + place in text, (place, text[:2000])


def hooks(server):
    url = f"http://127.0.0.1:9/?token={SECRET}u"
    assert server.request("PUT", "/v1/hooks/shop", {"url": url, "events": ["failed"]}).status in (200, 201)
    assert "token=[redacted]" in clean("hooks", server.get("/v1/hooks").body)
    with open(os.path.join(server.folder, "hooks.json")) as file:
        assert url in file.read()


def deliveries(server):
    """What hooks are told is masked when it is put down."""
    deadline = time.monotonic() + 30 * FACTOR
    while time.monotonic() < deadline:
        page = server.get("/v1/tasks?queue=pawl.hooks").json["tasks"]
        if page:
            store = ("--store", "sqlite:" + os.path.join(server.folder, "pawl.db"))
            plain = pawl("tasks", "show", page[0]["id"], *store, environment={"PAWL_REDACT": "none"})
            assert "password=[redacted]" in plain and SECRET + "e" not in plain, plain
            return
        Listener(server).connection.close()
    raise AssertionError("there was no delivery")


def settings():
    with Server("--redact", "iban, -csrf", "--log-level", "debug") as server:
        answer = server.post("/v1/tasks", {"type": "t", "payload": {"iban": "DE1", "csrf": "c", "token": "t"}})
        assert server.get(f"/v1/tasks/{answer.json['id']}").json["payload"] == {"iban": "[redacted]", "csrf": "c", "token": "[redacted]"}
    with Server(environment={"PAWL_REDACT": "none"}) as server:
        task = enqueue(server, "p")
        assert '"payload":' + payload("p") in server.get(f"/v1/tasks/{task}").body.decode()
        assert len(server.get(f"/v1/tasks?q={SECRET}p").json["tasks"]) == 1
    assert "no word" in pawl("serve", "--redact", "!", "--store", "memory:", "--listen", "127.0.0.1:0", code=2)
    assert "redact = " in pawl("config", "sample")
    with tempfile.NamedTemporaryFile("w", suffix=".ini") as file:
        file.write("access-log = true\nredact = ok, !\n")
        file.flush()
        assert "line 2" in pawl("config", "check", file.name, code=2)


def lines(server):
    """Of the log: the paths of requests are among them."""
    assert any("/v1/tasks" in (line or "") for line in server.lines), server.lines
    for line in server.lines:
        clean("a log line", line or "")


with Server("--hooks", "hooks.json", "--access-log", "--log-level", "debug") as the_server:
    hooks(the_server)
    the_task = surfaces(the_server)
    other_bodies(the_server)
    schedules(the_server)
    searches(the_server, the_task)
    the_store = command_line(the_server, the_task)
    exports(the_store)
    deliveries(the_server)
    lines(the_server)
settings()
print("ok")
