#!/usr/bin/python3
"""The command line on a server says and does the same as on the store itself."""

import json
import os
import re
import subprocess
import sys
import tempfile

import served

checks = served.Checks()


def main():
    with tempfile.TemporaryDirectory() as folder:
        token = served.pawl("tokens", "add", "me", "--scope", "admin", folder=folder)
        reader = served.pawl("tokens", "add", "reader", "--scope", "read", folder=folder)
        with open(os.path.join(folder, "token"), "w", encoding="utf-8") as file:
            file.write(token + "\n")
        sock = os.path.join(folder, "s")
        with served.Server("--listen", f"unix:{sock}", "--prefix", "/p", folder=folder) as server:
            url = f"http://127.0.0.1:{server.address[1]}/p/"

            def remote(*words, code=0, secret=token):
                return served.pawl(*words, "--server", url, folder=folder, code=code, environment={"PAWL_TOKEN": secret})

            def local(*words, code=0):
                return served.pawl(*words, "--store", "sqlite:pawl.db", folder=folder, code=code)

            id = remote("enqueue", "--type", "a b", "--queue", "q/1", "--payload", '{"x": 1}', "--priority", "-3", "--delay", "1h", "--key", "k&k=1")
            local("enqueue", "--type", "plain")
            blob = remote("enqueue", "--type", "blob", "--content-type", "text/plain", "--payload", "hello")
            checks.equal("JSON", json.loads(remote("enqueue", "--type", "a b", "--queue", "q/1", "--key", "k&k=1", "--json")), {"id": id, "outcome": "updated"})
            for words in (["tasks", "list"], ["tasks", "list", "--queue", "q/1"], ["tasks", "list", "--key", "k&k=1"], ["tasks", "list", "--all", "--limit", "1"],
                          ["tasks", "show", id], ["tasks", "show", blob], ["tasks", "why", id], ["queues", "list"], ["dead", "list"], ["tasks", "list", "--json"]):
                same = [re.sub(r"\d+(\.\d+)?(ms|us|s|m)( ago)?|(just )?\bnow\b| +", " ", side(*words)) for side in (remote, local)]
                checks.equal(" ".join(words), *same)
            checks.equal("pause", remote("queues", "pause", "q/1"), "q/1  paused")
            checks.that("is seen", "paused" in local("queues", "list"))
            remote("queues", "resume", "q/1")
            checks.equal("cancel", remote("tasks", "cancel", id), f"{id}  cancelled")
            checks.that("twice", id in remote("tasks", "cancel", id, code=4))
            checks.that("retry", re.fullmatch(rf"{id}  retried as \w{{13}}", remote("tasks", "retry", id)))
            local("schedules", "add", "daily", "--type", "d", "--every", "1d")
            for action, done in (("disable", "disabled"), ("enable", "enabled"), ("rm", "removed")):
                checks.equal(f"schedules {action}", remote("schedules", action, "daily"), f"daily  {done}")
            remote("schedules", "rm", "daily", code=3)
            batch = local("batches", "open", "b/1")
            checks.equal("batches close", remote("batches", "close", "b/1"), f"{batch}  closed")
            checks.equal("stats", *(re.sub(r"[\d.,]+\w*", "", side("stats")) for side in (remote, local)))
            told = subprocess.Popen([served.PAWL, "events", "-f", "-n", "1", "--server", url], cwd=folder, stdout=subprocess.PIPE, text=True, env={**os.environ, "PAWL_TOKEN": token})
            served.until("it listens", lambda: b"pawl_http_event_streams 1\n" in server.request("GET", "/p/metrics", None, {"Authorization": f"Bearer {token}"}).body)
            made = remote("enqueue", "--type", "told")
            checks.that("events", made in told.communicate(timeout=served.PATIENCE)[0])
            checks.that("top", "default" in remote("top"))
            remote("tasks", "show", "0000000000001", code=3)
            checks.that("not allowed", "operate" in remote("queues", "pause", "x", code=6, secret=reader))
            remote("tasks", "list", code=6, secret="wrong")
            checks.that("a store's command", "not on a server" in remote("doctor", code=2))
            checks.that("not JSON", "not JSON" in remote("enqueue", "--type", "x", "--payload", "{", code=2))
            checks.that("a file", id in served.pawl("tasks", "list", "--server", url, "--token-file", "token", "--all", folder=folder))
            served.pawl("tasks", "list", "--server", f"unix:{sock}", folder=folder, code=3, environment={"PAWL_TOKEN": token})
            checks.that("nonsense", "no server" in served.pawl("tasks", "list", "--server", "ftp://x", folder=folder, code=2))
        checks.that("nobody there", "connect" in served.pawl("tasks", "list", "--server", url, folder=folder, code=5))
    return checks.end()


if __name__ == "__main__":
    sys.exit(main())
