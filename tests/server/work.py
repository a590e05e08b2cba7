#!/usr/bin/python3
"""`pawl work --server`: commands run for a server, with all that their exit status, signals, cancels and lost servers mean."""

import json
import os
import signal
import subprocess
import sys

import served

checks = served.Checks()

SCRIPT = """#!/bin/sh
# $1: what to do with which task
read -r payload
echo "begins $PAWL_TASK_TYPE" >&2
case $PAWL_TASK_TYPE in
    echo) echo "$payload" ;;
    text) printf 'plain\\ntext' ;;
    fail) echo "cannot" >&2; exit 65 ;;
    retry) exit 3 ;;
    snooze) exit 75 ;;
    slow) echo started >"$STARTED"; exec sleep 60 ;;
    brief) echo started >"$STARTED"; while [ ! -e "$GO" ]; do read -r _ <"$PIPE"; done; echo '"ended"' ;;
    env) echo "{\\"id\\":\\"$PAWL_TASK_ID\\",\\"fence\\":$PAWL_TASK_FENCE,\\"attempt\\":$PAWL_TASK_ATTEMPT,\\"key\\":\\"$PAWL_TASK_KEY\\"}" ;;
esac
"""


class Work:
    def __init__(self, server, *options, **environment):
        self.path = os.path.join(server.folder, "command.sh")
        with open(self.path, "w", encoding="utf-8") as file:
            file.write(SCRIPT)
        os.chmod(self.path, 0o755)
        self.environment = {**os.environ, "STARTED": os.path.join(server.folder, "started"), **environment}
        url = "http://%s:%d" % server.address
        self.process = subprocess.Popen([served.PAWL, "work", "--server", url, "--json", *options, "--", self.path], cwd=server.folder,
                                        env=self.environment, stdout=subprocess.PIPE, text=True)

    def end(self, *signals):
        for number in signals:
            self.process.send_signal(number)
        out, _ = self.process.communicate(timeout=served.PATIENCE)
        return self.process.returncode, [json.loads(line) for line in out.splitlines()]


def add(server, kind, **task):
    return server.post("/v1/tasks", {"type": kind, **task}).json["id"]


def state(server, task):
    return server.get(f"/v1/tasks/{task}").json


def started(server):
    path = os.path.join(server.folder, "started")
    served.until("the command runs", lambda: os.path.exists(path) and os.path.getsize(path))
    os.remove(path)


def kinds(server):
    ids = {kind: add(server, kind, payload={"n": 1}, key=f"key-{kind}") for kind in ("echo", "text", "fail", "retry", "snooze", "env")}
    code, lines = Work(server, "--once", "--snooze", "1h", "--retry-delay", "1h", "--concurrency", "3").end()
    checks.equal("it ends when nothing is due", code, 0)
    seen = {kind: state(server, task) for kind, task in ids.items()}
    checks.equal("states", {kind: task["display"] for kind, task in seen.items()},
                 {"echo": "succeeded", "text": "succeeded", "fail": "failed", "retry": "retrying", "snooze": "scheduled", "env": "succeeded"})
    checks.equal("what it prints is the result", seen["echo"]["result"], {"n": 1})
    checks.equal("or text", seen["text"]["result_type"], "text/plain; charset=utf-8")
    checks.equal("errors", (seen["fail"]["error"], seen["retry"]["code"]), ("exit status 65: cannot", "exit_3"))
    checks.equal("its standard error is the log", [line["text"] for line in seen["fail"]["log"]], ["begins fail", "cannot"])
    checks.equal("environment", seen["env"]["result"], {"id": ids["env"], "fence": 1, "attempt": 1, "key": "key-env"})
    checks.equal("a line each", sorted(line["event"] for line in lines),
                 ["failed", "retrying", "snoozed", "succeeded", "succeeded", "succeeded"])


def stops(server):
    task = add(server, "slow")
    work = Work(server)
    started(server)
    server.post(f"/v1/tasks/{task}/cancel")
    served.until("a cancel ends it", lambda: state(server, task)["state"] == "cancelled")
    task = add(server, "slow")
    started(server)
    code, lines = work.end(signal.SIGTERM, signal.SIGINT)
    checks.equal("two signals", (code, lines[-1]["event"]), (0, "released"))
    served.until("the task is given back", lambda: state(server, task)["state"] == "pending")
    checks.equal("at no cost", state(server, task)["failures"], 0)
    server.post(f"/v1/tasks/{task}/cancel")


def survives(server):
    """The server is stopped and started under a running command: it is brought in, and the worker finds the next server."""
    pipe, go = os.path.join(server.folder, "pipe"), os.path.join(server.folder, "go")
    os.mkfifo(pipe)
    task = add(server, "brief")
    work = Work(server, GO=go, PIPE=pipe)
    started(server)
    server.process.send_signal(signal.SIGTERM)
    served.until("it stops", lambda: server.get("/readyz").status == 503)
    with open(go, "w", encoding="utf-8"):
        pass
    with open(pipe, "w", encoding="utf-8") as file:
        file.write("go\n")
    checks.equal("the server waits for it", server.process.wait(served.PATIENCE), 0)
    server.start_again()
    checks.equal("it counts", (state(server, task)["state"], state(server, task)["result"]), ("succeeded", "ended"))
    after = add(server, "echo", payload=2)
    served.until("the worker is back", lambda: state(server, after)["state"] == "succeeded")
    slow = add(server, "slow")
    started(server)
    server.process.kill()
    server.start_again()
    last = add(server, "echo", payload=3)
    served.until("also after a kill", lambda: state(server, last)["state"] == "succeeded")
    served.until("what it had comes again", lambda: state(server, slow)["fence"] > 1)
    server.post(f"/v1/tasks/{slow}/cancel")
    code, lines = work.end(signal.SIGTERM)
    checks.that("the first run was lost", code == 0 and "lease_lost" in [line["event"] for line in lines], (code, lines))


def refused(server):
    said = served.pawl("work", "--server", "http://127.0.0.1:1", "--", "cat", code=5)
    checks.that("nobody there", "could not connect" in said, said)
    url = "http://%s:%d" % server.address
    token = served.pawl("tokens", "add", "reader", "--scope", "read", folder=server.folder).split()[-1]
    server.process.send_signal(signal.SIGHUP)
    served.until("a token is needed", lambda: server.get("/v1/tasks").status == 401)
    said = served.pawl("work", "--server", url, "--", "cat", code=6, environment={"PAWL_TOKEN": token})
    checks.that("the scope is missing", "work" in said, said)


def main():
    with served.Server("--lease", "2s") as server:
        for part in (kinds, stops, survives, refused):
            part(server)
    return checks.end()


if __name__ == "__main__":
    sys.exit(main())
