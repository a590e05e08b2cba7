#!/usr/bin/env python3
"""A worker of tests/process/remote.py: tells what it runs, in the lines that history.py reads.

    remote_worker.py URL HISTORY LEASE_SECONDS SEED
"""

import json
import os
import random
import sys
import threading
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "clients", "python", "src"))
import pawl  # noqa: E402

history = open(sys.argv[2], "a", encoding="utf-8")  # noqa: SIM115
lock = threading.Lock()
dice = random.Random(int(sys.argv[4]))


def say(event, run, **more):
    line = {"t": time.monotonic_ns() // 1000, "e": event, "id": run.id, "fence": run.fence, **more}
    with lock:
        history.write(json.dumps(line) + "\n")
        history.flush()


def ended(run, what):
    if what == "lost":
        say("lease_lost", run)


worker = pawl.Worker(sys.argv[1], concurrency=4, prefetch=2, lease=float(sys.argv[3]), observer=ended, retry_delay=0.01)


@worker.task("*")
def work(run):
    if run.stopping:
        raise pawl.Retry("too late")
    say("start", run, token=run.payload["token"], key=run.key or "")
    with lock:
        seconds, fate = dice.random() ** 3 * 0.1, dice.random()
    run.wait(seconds)
    again = fate < 0.1 and run.attempt == 1
    if run.stopping == "lease_lost":
        raise pawl.Retry("lost")
    say("return", run, outcome="retry" if again else "succeeded")
    if again:
        raise pawl.Retry("as the dice say")


try:
    worker.run()
except pawl.Unavailable:  # the server was away when it began: it is started again, as by any supervisor
    os.execv(sys.executable, [sys.executable, *sys.argv])
