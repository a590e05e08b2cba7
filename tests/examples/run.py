#!/usr/bin/env python3
"""Runs one example in a directory of its own and checks what it prints: run.py NAME PROGRAM"""

import os
import re
import signal
import subprocess
import sys
import tempfile
import threading

LIMIT_S = 30 * float(os.environ.get("PAWL_TIMEOUT_FACTOR", "1"))


def fail(message):
    sys.exit(f"{name}: {message}")


def run(*args):
    """What the program printed, line by line; it must end well and say nothing on standard error."""
    done = subprocess.run([program, *args], capture_output=True, text=True, timeout=LIMIT_S)
    if done.returncode or done.stderr:
        fail(f"exit status {done.returncode}\n{done.stdout}{done.stderr}")
    return done.stdout.splitlines()


def expect(got, wanted):
    if got != wanted:
        fail("printed\n  " + "\n  ".join(got) + "\nwhere this was expected\n  " + "\n  ".join(wanted))


def hello():
    for args, who in ([], "world"), (["you"], "you"):
        greeting, end = run(*args)
        expect([greeting], [f"hello {who}"])
        if not re.fullmatch(r"task [0-9A-HJKMNP-TV-Z]{13} succeeded", end):
            fail(f"printed {end!r}")


def hello_cpp():
    expect(run(), ['hello "C++"', "task succeeded"])


def email():
    stories = {}
    for line in run():
        to, what = line.split(": ", 1)
        stories.setdefault(to, []).append(what)
    expect(stories.pop("ann@example.org", []), [
        "started, attempt 1", "attempt 1: 421 try again later; again in 20 ms",
        "started, attempt 2", "attempt 2: 421 try again later; again in 40 ms",
        "started, attempt 3", "succeeded"])
    expect(stories.pop("nobody@example.org", []), ["started, attempt 1", "failed: 550 no such mailbox: nobody@example.org"])
    expect(stories.pop("slow@example.org", []), ["started, attempt 1", "cancelled"])
    expect(list(stories), [])


def transactional():
    expect(run(), ["a bell: never mind", "a book: ordered", "orders: 1",
                   "attempt 1: rolled back", "attempt 2: shipped", "shipped: 1"])


def graceful():
    """Stopped by a signal in the middle, then started again: every job is done once, none twice."""
    jobs = []
    first = until_signal(["sqlite:jobs.db", "20"], jobs, lambda: len(jobs) >= 3)
    left = 20 - len(jobs)
    expect(first, [f"stopped; {left} left for the next start"])
    if not left:
        fail("the signal came too late: nothing was left")
    expect(until_signal(["sqlite:jobs.db"], jobs, lambda: len(jobs) == 20), ["stopped; 0 left for the next start"])
    expect(sorted(jobs), sorted(f"job {i} done" for i in range(1, 21)))


def until_signal(args, jobs, enough):
    """Starts the program, sends SIGTERM once there are enough jobs done, and returns what it says beyond them."""
    process = subprocess.Popen([program, *args], stdout=subprocess.PIPE, text=True)
    watchdog = threading.Timer(LIMIT_S, process.kill)
    watchdog.start()
    said, sent = [], False
    for line in process.stdout:
        (jobs if line.startswith("job ") else said).append(line.strip())
        if enough() and not sent:
            process.send_signal(signal.SIGTERM)
            sent = True
    process.wait()
    watchdog.cancel()
    if process.returncode:
        fail(f"exit status {process.returncode} after {said} and {len(jobs)} jobs")
    return said


def custom_retry():
    expect(run(), ["attempt 1 of api.call: busy (the server answered 503): again in 10 ms",
                   "attempt 2 of api.call: busy (the server answered 503): again in 20 ms",
                   "attempt 3 of api.call: quota (the server answered 429): again in 50 ms",
                   '"bbqo": succeeded after 4 attempts',
                   "attempt 1 of api.call: busy (the server answered 503): again in 10 ms",
                   "attempt 2 of api.call: bad_request (the server answered 400): never again",
                   '"bx": failed after 2 attempts'])


def inline_test():
    expect(run(), ["3 tests passed"])


def schedules():
    days = [f"day {day}, 08:00 UTC: {what}" for day in (0, 1, 4) for what in ("report", "mail")]
    expect(run(), days + ["app.report: at 09:00 on Monday to Friday; fired 3 times"])


def event_loop():
    expect(sorted(run()), ["order 1 created", "order 2 created", "order 3 created"] +
           3 * ["order.pack started"] + 3 * ["order.pack succeeded"])


name, program = sys.argv[1:]
os.environ.pop("PAWL_STORE", None)
with tempfile.TemporaryDirectory() as directory:
    os.chdir(directory)
    try:
        globals()[name]()
    finally:
        os.chdir("/")
