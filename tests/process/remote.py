#!/usr/bin/env python3
"""Remote workers and their server are killed in turn under load: nothing acknowledged is lost, nothing is stuck, no two run a task at once.

    remote.py [--seconds N] [--seed N]

Workers are programs with the Python client (remote_worker.py). In the end everything is worked off, and history.py judges what the workers
said and what the store has.
"""

import argparse
import json
import os
import random
import re
import subprocess
import sys
import tempfile
import threading
import time

import history
import proc

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "..", "..", "clients", "python", "src"))
import pawl  # noqa: E402

PAWL = os.environ.get("PAWL_BIN") or sys.exit("PAWL_BIN does not say where the binary is")
LEASE = 1.5 * (1 if proc.FACTOR == 1 else 2)
WORKERS = 3


class Storm:
    def __init__(self, directory, dice):
        self.directory, self.dice, self.rounds = directory, dice, 0
        self.sizes = random.Random(dice.random())  # the feeder's own, for it is a thread
        self.workers, self.listen, self.server, self.url = {}, "127.0.0.1:0", None, None
        self.driver = open(os.path.join(directory, "driver.jsonl"), "w", encoding="utf-8")  # noqa: SIM115
        self.over = threading.Event()

    def say(self, event, name, status=0):
        self.driver.write(json.dumps({"t": now(), "e": event, "name": name, "status": status}) + "\n")
        self.driver.flush()

    # ---- the server ----------------------------------------------------------------------------------------------------------------

    def start_server(self):
        self.server = subprocess.Popen([PAWL, "serve", "--store", "sqlite:storm.db", "--listen", self.listen, "--lease", f"{LEASE}s", "--redact", "none"],
                                       cwd=self.directory, stderr=subprocess.PIPE, text=True)
        for line in self.server.stderr:
            found = re.search(r"listening on http://([^\s,]+)", line)
            if found:
                self.listen, self.url = found[1], f"http://{found[1]}"
                break
        threading.Thread(target=self.listen_to, args=(self.server,), daemon=True).start()

    def listen_to(self, server):
        with open(os.path.join(self.directory, "server.log"), "a", encoding="utf-8") as file:
            for line in server.stderr:
                file.write(line)

    def kill_server(self):
        self.server.kill()
        self.server.wait()
        self.start_server()

    # ---- workers -------------------------------------------------------------------------------------------------------------------

    def start_worker(self, slot):
        self.rounds += 1
        name = f"w{slot}r{self.rounds}"
        with open(os.path.join(self.directory, name + ".err"), "w", encoding="utf-8") as errors:
            process = subprocess.Popen([sys.executable, os.path.join(HERE, "remote_worker.py"), self.url,
                                        os.path.join(self.directory, name + ".jsonl"), str(LEASE / 2), str(self.dice.randrange(1 << 30))],
                                       stderr=errors)
        self.workers[slot] = (name, process)

    def kill_worker(self, slot):
        name, process = self.workers.pop(slot)
        if process.poll() is not None:
            with open(os.path.join(self.directory, name + ".err"), encoding="utf-8") as errors:
                raise AssertionError(f"{name} ended by itself with {process.returncode}: {errors.read()[-2000:]}")
        self.say("kill", name)
        process.kill()
        self.say("killed", name, process.wait())

    # ---- load ----------------------------------------------------------------------------------------------------------------------

    def feed(self):
        """Dispatches in small bulks, whoever is there to take them."""
        client, token = pawl.Client(self.url, timeout=5), 0
        with open(os.path.join(self.directory, "feeder.jsonl"), "w", encoding="utf-8") as file:
            while not self.over.is_set():
                tokens = [f"t{token + i}" for i in range(self.sizes.choice((1, 5, 20)))]
                token += len(tokens)
                file.write("".join(json.dumps({"t": now(), "e": "begin", "token": name, "key": ""}) + "\n" for name in tokens))
                try:
                    answers = client.enqueue_many([{"type": "work", "payload": {"token": name}} for name in tokens])
                except pawl.PawlError:
                    client.close()
                    self.over.wait(0.05)
                    continue
                for name, answer in zip(tokens, answers):
                    file.write(json.dumps({"t": now(), "e": "ack", "token": name, "id": answer["id"], "outcome": answer["outcome"]}) + "\n")
                self.over.wait(0.04)

    # ---- the whole -----------------------------------------------------------------------------------------------------------------

    def run(self, seconds):
        self.start_server()
        for slot in range(WORKERS):
            self.start_worker(slot)
        feeder = threading.Thread(target=self.feed)
        feeder.start()
        until, turn = time.monotonic() + seconds, 0
        while time.monotonic() < until:
            time.sleep((0.3 + 1.2 * self.dice.random()) * proc.FACTOR)  # the moment of the next blow
            turn += 1
            if turn % 3 == 0:
                self.kill_server()
            else:
                slot = self.dice.randrange(WORKERS)
                self.kill_worker(slot)
                self.start_worker(slot)
        self.over.set()
        feeder.join()
        self.calm()
        self.dump()

    def calm(self):
        """Until all have ended."""
        client, until = pawl.Client(self.url), time.monotonic() + 60 * proc.FACTOR
        while time.monotonic() < until:
            stats = client._call("GET", "/v1/stats")
            if stats["pending"] + stats["leased"] + stats["waiting"] == 0:
                break
            time.sleep(0.05)
        for slot in list(self.workers):
            self.kill_worker(slot)

    def dump(self):
        client, count = pawl.Client(self.url), 0
        with open(os.path.join(self.directory, "store.jsonl"), "w", encoding="utf-8") as file:
            for found in client.list(limit=None):
                task, count = client.get(found["id"], brief=True), count + 1
                attempts = [[a["number"], a["outcome"], a["fence"]] for a in task["attempts"]]
                file.write(json.dumps({"t": now(), "e": "task", "id": task["id"], "token": task["payload"]["token"], "key": task["key"] or "",
                                       "state": task["state"], "reason": task["reason"] or "", "attempts": attempts}) + "\n")
            file.write(json.dumps({"t": now(), "e": "dumped", "count": count}) + "\n")
        self.say("exited", "store")
        self.say("killed", "feeder")  # what it did not hear of may have happened
        self.server.terminate()
        if self.server.wait(60 * proc.FACTOR):
            raise AssertionError(f"the server ended with {self.server.returncode}")

    def clean(self):
        for process in [self.server] + [process for _, process in self.workers.values()]:
            if process and process.poll() is None:
                process.kill()
                process.wait()


def now():
    return time.monotonic_ns() // 1000


def main():
    options = argparse.ArgumentParser()
    options.add_argument("--seconds", type=float, default=10)
    options.add_argument("--seed", type=int, default=proc.seed())
    options.add_argument("--keep", action="store_true")
    given = options.parse_args()
    print(f"seed {given.seed}")
    directory = tempfile.mkdtemp(prefix="pawl-remote-")
    storm = Storm(directory, random.Random(given.seed))
    try:
        storm.run(given.seconds)
        good = history.report(history.load(directory))
    finally:
        storm.over.set()
        storm.clean()
    if good and not given.keep:
        import shutil

        shutil.rmtree(directory)
    else:
        print(f"see {directory}")
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
