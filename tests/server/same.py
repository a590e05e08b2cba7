#!/usr/bin/python3
"""Every command that knows --server says the same there as on the store itself: for people and for programs.

What only looks is asked of both, about the same things. What changes something is done twice, to a thing of the store's (its name ends in
-A) and to one of the server's (-B), and must be answered in the same words; then both are looked at.
"""

import json
import os
import re
import sys
import tempfile

import served

checks = served.Checks()
TOUCHED = set()  # commands that were compared
ID = r"\b0[0-9A-HJKMNP-TV-Z]{12}\b"


def words_of(text):
    """Without what differs from one moment to the next."""
    text = re.sub(r"\b\d+(\.\d+)?(us|ms|s|m|h|d)\b( ago)?|\bin \d\S*|just now|\bnow\b|\d{4}-\d\d-\d\d[T ][\d:.]+Z?", "T", text)
    return re.sub(r"[ T]+", " ", re.sub(r"-[AB]\b", "-?", re.sub(ID, "ID", text)))


def data_of(text, alike):
    def clean(value, name=""):
        if isinstance(value, dict):
            return {key: clean(item, key) for key, item in value.items()}
        if isinstance(value, list):
            return [clean(item, name) for item in value]
        if name in ("now", "expires_at", "node", "pid", "steps", "next_slot_at") or (not alike and name.endswith("_at")):
            return None
        return value if not isinstance(value, str) or (alike and name != "text") else words_of(value)

    return [clean(json.loads(line)) for line in text.splitlines()]


def same(what, got, wanted):
    """Shows where they begin to differ."""
    got, wanted = str(got), str(wanted)
    at = max(len(os.path.commonprefix([got, wanted])) - 60, 0)
    checks.that(what, got == wanted, {"server": got[at:at + 200], "store": wanted[at:at + 200]})


def main():
    with tempfile.TemporaryDirectory() as folder:
        token = served.pawl("tokens", "add", "me", "--scope", "admin", folder=folder)
        with served.Server(folder=folder) as server:
            url = "http://%s:%d" % server.address

            def remote(*words, code=0):
                return served.pawl(*words, "--server", url, folder=folder, code=code, environment={"PAWL_TOKEN": token})

            def local(*words, code=0):
                return served.pawl(*words, "--store", "sqlite:pawl.db", folder=folder, code=code)

            def look(*words, code=0):
                """The same question to both."""
                TOUCHED.add(" ".join(words[:2] if words[0] in GROUPS else words[:1]))
                same(" ".join(words), *(words_of(side(*words, code=code)) for side in (remote, local)))
                if code == 0:
                    same(" ".join(words) + " --json", *(data_of(side(*words, "--json"), True) for side in (remote, local)))

            def act(*words, code=0, data=True):
                """The same done to twins: @ in a word is -A for the store, -B for the server; lists are (A, B). With --json it is done to
                another pair, -A2 and -B2, unless `data` is False. Gives what both printed for people."""
                TOUCHED.add(" ".join(words[:2] if words[0] in GROUPS else words[:1]))

                def for_side(index, more):
                    name = "-" + "AB"[index] + more
                    return [word[index] if isinstance(word, tuple) else word.replace("@", name) for word in words]

                said = [side(*for_side(index, ""), code=code) for index, side in enumerate((local, remote))]
                same(" ".join(map(str, words)), words_of(said[1]), words_of(said[0]))
                if data and code == 0:
                    both = [data_of(side(*for_side(index, "2"), "--json").replace("-A2", "-?").replace("-B2", "-?"), False)
                            for index, side in enumerate((local, remote))]
                    same(" ".join(map(str, words)) + " --json", both[1], both[0])
                return said

            # tasks: twins that wait, that fail, that log
            act("enqueue", "--type", "t", "--queue", "q@", "--payload", '{"x": 1}', "--priority", "-3", "--delay", "1h", "--key", "k&k=@")
            waiting = act("enqueue", "--type", "t", "--queue", "quiet", data=False)
            blob = act("enqueue", "--type", "blob", "--queue", "quiet", "--content-type", "text/plain", "--payload", "hello", "--headers", "h", data=False)
            failing = [act("enqueue", "--type", "boom", "--queue", "run", "--audit", "full", "--max-attempts", "1", data=False) for _ in range(4)]
            fine = act("enqueue", "--type", "fine", "--queue", "run", "--rate-key", "r", data=False)
            with open(os.path.join(folder, "many"), "w", encoding="utf-8") as file:
                file.write("".join('{"type":"many","payload":{"i":%d}}\n' % i for i in range(1200)))
            act("enqueue", "--bulk", "many", "--queue", "many@")
            served.pawl("work", "--store", "sqlite:pawl.db", "--queue", "run", "--once", "--quiet", "--name", "n", "--",
                        "sh", "-c", 'echo "a line" >&2; [ "$PAWL_TASK_TYPE" = fine ] && echo 42 || exit 65', folder=folder)
            for words in (["tasks", "list"], ["tasks", "list", "--queue", "quiet"], ["tasks", "list", "--key", "k&k=-A"],
                          ["tasks", "list", "--state", "failed", "--limit", "2"], ["tasks", "list", "--oldest-first", "--since", "1h"],
                          ["tasks", "show", waiting[0]], ["tasks", "show", blob[1], "--full"], ["tasks", "show", fine[0]],
                          ["tasks", "show", failing[0][0], "--log"], ["tasks", "show", failing[0][0], "--audit"],
                          ["tasks", "show", failing[0][1], "--log", "--audit"], ["tasks", "why", waiting[0]], ["tasks", "why", fine[0]],
                          ["tasks", "wait", fine[0], fine[1]], ["queues", "list"], ["dead", "list"], ["dead", "list", "--type", "boom", "--limit", "3"],
                          ["stats"], ["stats", "--window", "10m"], ["nodes"], ["nodes", "--all"]):
                look(*words)
            look("tasks", "list", "--all", "--queue", "many-A", "--limit", "1000")
            look("tasks", "wait", failing[0][0], code=1)
            look("tasks", "wait", waiting[0], "--timeout", "50ms", code=5)
            look("tasks", "show", "0000000000001", code=3)
            look("tasks", "tree", "0000000000001", code=3)
            act("tasks", "cancel", tuple(waiting), data=False)
            act("tasks", "cancel", tuple(waiting), code=4)
            act("tasks", "cancel", tuple(blob), "0000000000001", code=3)
            act("tasks", "cancel", "--queue", "many@", "--state", "pending")
            act("tasks", "retry", tuple(waiting), data=False)
            act("tasks", "retry", tuple(waiting), data=False)  # already there
            act("dead", "retry", tuple(failing[0]), data=False)
            act("dead", "ack", tuple(failing[1]), "--note", "a note", data=False)
            act("dead", "ack", "--type", "nothing@")
            act("dead", "retry", "--key", "nothing@")
            act("dead", "ack", tuple(failing[1]), code=4)
            look("tasks", "show", failing[1][1])

            # relatives and batches
            act("batches", "open", "b/1@", "--on-finished", "report", "--payload", "{}", "--queue", "quiet")
            act("batches", "open", "in@", "--within", "b/1@", data=False)
            member = act("enqueue", "--type", "m", "--queue", "quiet", "--batch", "b/1@", data=False)
            child = act("enqueue", "--type", "c", "--queue", "quiet", "--parent", tuple(member), "--if-failed", "hold", data=False)
            for _ in range(3):
                act("enqueue", "--type", "d", "--queue", "quiet", "--parent", tuple(child), data=False)
            for words in (["batches", "list"], ["batches", "list", "--unfinished", "--limit", "2"], ["batches", "show", "b/1-A"], ["batches", "show", "b/1-B"],
                          ["tasks", "tree", member[0]], ["tasks", "tree", member[1], "--limit", "1"], ["tasks", "tree", child[0], "--parents"],
                          ["tasks", "tree", json.loads(local("batches", "show", "b/1-B", "--json"))["id"], "--limit", "2"]):
                look(*words)
            look("batches", "show", "nothing", code=3)
            act("batches", "close", "b/1@")
            act("batches", "close", "b/1@", code=4)
            act("batches", "cancel", "b/1@", data=False)

            # queues, limits
            act("queues", "pause", "q@", "other@")
            look("queues", "list")
            act("queues", "resume", "q@", "other@")
            act("limits", "set", "mail@", "15/1m", "--burst", "3", "--retries-free")
            act("limits", "set", "mail@", "5/1h", "--key", "a b&c", "--no-horizon", "--start-empty")
            act("limits", "set", "mail@", "5/s", "--key", "far", "--horizon", "2h", "--discard")
            act("limits", "running", "mail@", "4")
            act("limits", "running", "imports@", "10", "--queue")
            act("limits", "running", "sync@", "1", "--per-key", "--ordered")
            act("limits", "running", "sync@", "1", "--key", "k/1")
            act("queues", "set", "imports@", "--running", "7", "--turns", "on")
            act("queues", "set", "imports@", code=2)
            act("limits", "turns", "imports@")
            act("limits", "turns", "imports@", "--tenant", "acme", "--weight", "3")
            act("limits", "pause", "mail@", "--key", "far")
            for words in (["limits", "list"], ["limits", "list", "--type", "mail-A"], ["limits", "list", "--type", "mail-B", "--key", "a b&c"],
                          ["limits", "list", "--limit", "2"], ["limits", "list", "--waiting"], ["limits", "list", "--type", "sync-B"]):
                look(*words)
            act("limits", "resume", "mail@", "--key", "far")
            act("limits", "running", "mail@", "0")
            act("limits", "turns", "imports@", "--off")
            act("limits", "drop", "mail@", "--key", "a b&c")
            act("limits", "drop", "x" * 201 + "@", code=2)

            # schedules
            act("schedules", "add", "nightly@", "--type", "d", "--cron", "0 9 * * MON-FRI", "--zone", "Europe/Berlin", "--payload", '{"a": [1]}',
                "--not-date", "2026-12-25", "--not-weekday", "TUE", "--missed", "all", "--catch-up", "3", "--max-runs", "9", "--rate-key", "r")
            act("schedules", "add", "nightly@", "--type", "d", "--every", "1d", code=4)
            act("schedules", "add", "tick/1@", "--type", "d", "--every", "2h", "--overlap", "allow", "--disabled", "--tenant", "acme", "--timeout", "5m")
            act("schedules", "add", "then@", "--type", "d", "--after", "nightly@")
            act("schedules", "add", "bad@", "--type", "d", "--cron", "no", code=2)
            act("schedules", "edit", "nightly@", "--cron", "30 9 * * *", "--gap", "skip", "--payload", '{"b":2}')
            act("schedules", "edit", "nothing@", "--every", "1h", code=3)
            act("schedules", "run", "nightly@")
            act("schedules", "run", "tick/1@", "--payload", '{"now": true}')
            act("schedules", "run", "nothing@", code=3)
            for name in ("nightly", "tick/1", "then"):
                for side in "AB":
                    look("schedules", "show", f"{name}-{side}")
                twins = [json.loads(local("schedules", "show", f"{name}-{side}", "--json")) for side in "AB"]
                checks.equal(f"{name}: what was sent is what was stored", *(data_of(json.dumps(it["definition"]), False) for it in twins))
                checks.equal(f"{name}: and its payload", *(it.get("payload") for it in twins))
            for words in (["schedules", "list"], ["schedules", "list", "--prefix", "tick", "--off"], ["schedules", "list", "--limit", "2"],
                          ["schedules", "show", "nightly-A", "-n", "0"]):
                look(*words)
            act("schedules", "enable", "tick/1@")
            act("schedules", "disable", "tick/1@", "then@")
            act("schedules", "rm", "then@", "nightly@")
            act("schedules", "rm", "then@", code=3)

            look("log")
            look("log", "-n", "3")
            look("log", "--before", "5")
            checks.that("a server writes who it was", "me" in remote("log") and "--by" in remote("queues", "pause", "x", "--by", "eve", code=2))
            mistakes = os.path.join(folder, "mistakes")
            with open(mistakes, "w", encoding="utf-8") as file:
                file.write('{"type":"ok"}\n{"type":"%s"}\n' % ("x" * 300))
            checks.that("bulk says what was refused", "type" in remote("enqueue", "--bulk", mistakes, code=2))

            # Whatever has a route and a command can be asked of a server.
            commands = {operation["x-command"] for path in server.get("/v1/openapi.json").json["paths"].values()
                        for operation in path.values() if "x-command" in operation}
            checks.equal("all were compared", sorted(commands - TOUCHED), ["doctor", "work"])
    return checks.end()


GROUPS = {"tasks", "batches", "queues", "limits", "schedules", "dead"}

if __name__ == "__main__":
    sys.exit(main())
