#!/usr/bin/env python3
"""Checks what processes told about themselves against what the store says in the end.

    history.py DIRECTORY        prints a summary; exits with 1 if a promise was broken

The directory has a history per process, NAME.jsonl (see node.h), one of them with a dump of the store, and driver.jsonl, in which
whoever started the processes says what became of them: {"t": t, "e": WHAT, "name": NAME, "status": n}, WHAT being kill (just before
the signal is sent), killed, exited, stopped or continued.

What must hold:

    lost          every acknowledged id is in the store
    stuck         every task has ended
    unexpected    every task in the store was dispatched, once, by somebody; a refused dispatch stored nothing
    fences        the fences of a task's executions strictly rise in time
    overlap       while an execution whose outcome was accepted ran, no other execution of its task or key began
                  (A process that was stopped between its last look at the clock and the handler may begin in vain: such a start
                  is passed over if it comes just as the process goes on, and its outcome was not accepted.)
    accepted      what a hook reported as committed is what the store has; a task ends once, nothing runs after that, and
                  every accepted outcome was given by a run
    bulk, spawn   a bulk call is stored whole or not at all; a child is there if and only if its parent succeeded
    answers       a process that ended well answered every dispatch and called every hook
    causes        every execution beyond a task's first is explained: a retry, a kill before it, a stop, a lost lease, an interruption
    innocent      hardly any task is given up as rescued too often, although many were in a process that was killed
"""

import collections
import json
import os
import sys

TERMINAL = {"succeeded", "failed", "cancelled"}
ACCEPTED = {"succeeded", "failed", "cancelled", "retry", "snoozed", "timeout", "interrupted"}  # outcomes of attempts
HOOKED = {"succeeded", "failed", "cancelled", "retry"}
RESUME_US = 1_500_000 * float(os.environ.get("PAWL_TIMEOUT_FACTOR", "1"))  # until a process that goes on has looked at the clock
STORED = {"created", "replaced", "updated"}  # answers after which the store holds what was sent


class Execution:
    def __init__(self, process, line):
        self.process, self.id, self.fence, self.token = process, line["id"], line["fence"], line["token"]
        self.key, self.start = line.get("key", ""), line["t"]
        self.returned = self.end = self.gave = None  # gave: what the handler returned
        self.lost = self.released = False
        self.accepted = None  # what the store has


class Checker:
    def __init__(self, histories, driver):
        self.histories = histories
        self.kills = {line["name"]: line["t"] for line in driver if line["e"] == "kill"}
        self.killed = {line["name"] for line in driver if line["e"] == "killed"}
        self.exited = {line["name"]: line["status"] for line in driver if line["e"] == "exited"}
        self.stops = collections.defaultdict(list)  # name -> times at which it was stopped or went on
        for line in driver:
            if line["e"] in ("stopped", "continued"):
                self.stops[line["name"]].append(line["t"])
        self.problems = []
        self.counts = collections.Counter()
        self.begun, self.answers, self.spawned, self.bulks = {}, {}, {}, []
        self.executions = {}  # (id, fence) -> Execution
        self.runs = collections.defaultdict(list)  # id -> its executions in the order of their starts
        self.tasks, self.by_token = {}, collections.defaultdict(list)

    def problem(self, kind, text):
        self.problems.append((kind, text))
        self.counts[kind] += 1

    # ---- reading ---------------------------------------------------------------------------------------------------------------

    def read(self):
        dumped = None
        for process, lines in self.histories.items():
            for line in lines:
                handler = getattr(self, "read_" + line["e"], None)
                if handler:
                    handler(process, line)
                if line["e"] == "dumped":
                    dumped = line["count"]
        if dumped is None or dumped != len(self.tasks):
            self.problem("history", f"the dump has {len(self.tasks)} tasks and says {dumped}")

    def read_begin(self, process, line):
        self.begin(process, line["token"], line.get("key", ""))

    def read_bulk(self, process, line):
        for token in line["tokens"]:
            self.begin(process, token, "")
        self.bulks.append(line["tokens"])

    def begin(self, process, token, key):
        if token in self.begun:
            self.problem("history", f"token {token} was used twice")
        self.begun[token] = (process, key)

    def read_ack(self, process, line):
        self.answers.setdefault(line["token"], []).append(("ack", line["id"], line["outcome"]))

    def read_unknown(self, process, line):
        self.answers.setdefault(line["token"], []).append(("unknown", line["id"], None))

    def read_refused(self, process, line):
        self.answers.setdefault(line["token"], []).append(("refused", None, line["status"]))

    def read_spawn(self, process, line):
        self.spawned[line["token"]] = line["parent"]

    def read_start(self, process, line):
        key = (line["id"], line["fence"])
        if key in self.executions:
            self.problem("fences", f"task {key[0]} was started twice under fence {key[1]}")
            return
        self.executions[key] = Execution(process, line)

    def execution(self, line, what):
        found = self.executions.get((line["id"], line["fence"]))
        if not found:
            self.problem("accepted", f"{what} of task {line['id']} under fence {line['fence']}, which never started")
        return found

    def read_return(self, process, line):
        run = self.execution(line, "the return")
        if run:
            run.returned, run.gave = line["t"], line["outcome"]

    def read_end(self, process, line):
        run = self.execution(line, f"the hook \"{line['outcome']}\"")
        if run and run.end:
            self.problem("accepted", f"two hooks for task {line['id']} under fence {line['fence']}: {run.end}, {line['outcome']}")
        if run:
            run.end = line["outcome"]

    def read_lease_lost(self, process, line):
        run = self.executions.get((line["id"], line["fence"]))  # none: it was lost before it started
        if run:
            run.lost = True

    def read_released(self, process, line):
        run = self.executions.get((line["id"], line["fence"]))
        if run:
            run.released = True

    def read_task(self, process, line):
        self.tasks[line["id"]] = line
        self.by_token[line["token"]].append(line["id"])

    # ---- checking --------------------------------------------------------------------------------------------------------------

    def check(self):
        self.read()
        self.check_processes()
        self.check_dispatches()
        self.check_tasks()
        for run in sorted(self.executions.values(), key=lambda e: e.start):
            self.runs[run.id].append(run)
        self.check_attempts()
        for task_id, of_task in self.runs.items():
            counted = [run for run in of_task if not self.in_vain(run)]
            self.counts["again after a stop"] += len(of_task) - len(counted)
            of_task = counted
            self.check_fences(task_id, of_task)
            self.check_overlap(f"task {task_id}", of_task)
            self.check_causes(of_task)
        self.check_innocent()
        self.check_keys()
        self.check_groups()
        self.count()
        return self.problems

    def check_processes(self):
        for name in self.histories:
            if name not in self.killed and self.exited.get(name) != 0:
                self.problem("exits", f"process {name} was not killed and ended with status {self.exited.get(name)}")

    def check_dispatches(self):
        for token, (process, key) in self.begun.items():
            answers = self.answers.get(token, [])
            if not answers and process not in self.killed:
                self.problem("answers", f"dispatch {token} of {process} was never answered")
            for what, task_id, outcome in answers:
                if what == "ack":
                    self.check_ack(token, key, task_id, outcome)
            if answers and answers[-1][0] == "refused" and all(a[0] == "refused" for a in answers) and token in self.by_token:
                self.problem("unexpected", f"dispatch {token} was refused ({answers[-1][2]}) and is stored")

    def check_ack(self, token, key, task_id, outcome):
        task = self.tasks.get(task_id)
        if not task:
            self.problem("lost", f"task {task_id} (token {token}) was acknowledged as {outcome} and is not in the store")
        elif not key and task["token"] != token:
            self.problem("lost", f"task {task_id} was acknowledged for token {token} and holds {task['token']}")
        elif key and task["key"] != key:
            self.problem("lost", f"task {task_id} was acknowledged for key {key} and has key {task['key']}")
        elif outcome in STORED and token in self.by_token and task_id not in self.by_token[token]:
            self.problem("unexpected", f"token {token} was acknowledged as task {task_id} and is in {self.by_token[token]}")

    def check_tasks(self):
        for task_id, task in self.tasks.items():
            if task["state"] not in TERMINAL:
                self.problem("stuck", f"task {task_id} (token {task['token']}) is {task['state']}")
            if task["token"] not in self.begun and task["token"] not in self.spawned:
                self.problem("unexpected", f"task {task_id} (token {task['token']}) is in the store and nobody dispatched it")
        for token, ids in self.by_token.items():
            if len(ids) > 1:
                self.problem("unexpected", f"token {token} is stored {len(ids)} times: {' '.join(ids)}")
        for run in self.executions.values():
            if run.id not in self.tasks:
                self.problem("lost", f"task {run.id} (token {run.token}) ran and is not in the store")

    def check_attempts(self):
        for task_id, task in self.tasks.items():
            final = []
            for number, outcome, fence in task["attempts"]:
                if outcome not in ACCEPTED:
                    continue
                if outcome in TERMINAL:
                    final.append((outcome, fence))
                self.check_accepted(task_id, outcome, fence)
            self.check_end(task_id, task, final)
        for run in self.executions.values():
            if run.end and run.end != run.accepted:
                self.problem("accepted", f"task {run.id}: the hook of fence {run.fence} said {run.end}, "
                                         f"the store has {run.accepted}")

    def check_accepted(self, task_id, outcome, fence):
        run = self.executions.get((task_id, fence))
        if not run or run.returned is None:
            self.problem("accepted", f"task {task_id}: the store has \"{outcome}\" for fence {fence}, and no run returned that")
            return
        run.accepted = outcome
        if run.gave != outcome and not (run.gave == "retry" and outcome in ("failed", "interrupted")):
            self.problem("accepted", f"task {task_id}: fence {fence} returned {run.gave}, the store has {outcome}")
        if outcome in HOOKED and not run.end and run.process not in self.killed:
            self.problem("answers", f"task {task_id}: {outcome} was committed for fence {fence} and {run.process} called no hook")

    def check_end(self, task_id, task, final):
        poisoned = task["state"] == "failed" and task["reason"] == "rescued_too_often"
        self.counts["poisoned"] += poisoned
        if task["state"] not in TERMINAL or (poisoned and not final):
            return
        if len(final) != 1 or final[0][0] != task["state"]:
            self.problem("accepted", f"task {task_id} is {task['state']} and its ends are {final}")
            return
        for run in self.runs[task_id]:
            if run.fence > final[0][1]:
                self.problem("accepted", f"task {task_id} ended under fence {final[0][1]} and ran again under {run.fence}")

    def in_vain(self, run):
        stops = self.stops.get(run.process, [])
        return run.accepted is None and any(t <= run.start <= t + RESUME_US for t in stops)

    def check_fences(self, task_id, runs):
        for before, after in zip(runs, runs[1:]):
            if after.fence <= before.fence:
                self.problem("fences", f"task {task_id}: fence {after.fence} ({after.process}) started after {before.fence} "
                                       f"({before.process})")

    def check_overlap(self, what, runs):
        for i, run in enumerate(runs):
            if run.accepted is None:
                continue
            for other in runs[i + 1:]:
                if other.start >= run.returned:
                    break
                self.problem("overlap", f"{what}: {other.id}/{other.fence} ({other.process}) began "
                                        f"{run.returned - other.start} us before {run.id}/{run.fence} ({run.process}) returned, "
                                        "which was accepted")

    def check_causes(self, runs):
        for run, after in zip(runs, runs[1:]):
            cause = self.cause(run, after)
            self.counts["again after " + cause] += 1
            if cause == "no reason":
                self.problem("causes", f"task {run.id} ran again under fence {after.fence} ({after.process}) after {run.fence} "
                                       f"({run.process}) for no reason seen")

    def cause(self, run, after):
        if run.accepted in ("retry", "timeout", "snoozed"):
            return "a retry"
        if run.accepted == "interrupted":
            return "an interruption"
        if run.accepted is not None:
            return "no reason"
        if after.start >= self.kills.get(run.process, float("inf")):
            return "a kill"
        if any(t < after.start for t in self.stops.get(run.process, [])):
            return "a stop"
        return "a lost lease" if run.lost else "no reason"

    def check_innocent(self):
        limit = 2 + self.counts["again after a kill"] // 100
        if self.counts["poisoned"] > limit:
            self.problem("innocent", f"{self.counts['poisoned']} tasks were given up as rescued too often, more than {limit}")

    def check_keys(self):
        keys = collections.defaultdict(list)
        for run in sorted(self.executions.values(), key=lambda e: e.start):
            if run.key and run.accepted:
                keys[run.key].append(run)
        for key, runs in keys.items():
            self.check_overlap(f"key {key}", runs)

    def check_groups(self):
        for tokens in self.bulks:
            there = sum(token in self.by_token for token in tokens)
            if there not in (0, len(tokens)):
                self.problem("bulk", f"{there} of the {len(tokens)} tasks of one bulk call are stored: {tokens[0]} ...")
        for child, parent in self.spawned.items():
            states = [self.tasks[task_id]["state"] for task_id in self.by_token.get(parent, [])]
            there = child in self.by_token
            if there != (states == ["succeeded"]):
                self.problem("spawn", f"parent {parent} is {states} and child {child} is {'there' if there else 'not there'}")

    def count(self):
        self.counts["tasks"] = len(self.tasks)
        self.counts["executions"] = len(self.executions)
        self.counts["beyond one"] = sum(len(of_task) - 1 for of_task in self.runs.values() if of_task)
        self.counts["acknowledged"] = sum(a[0] == "ack" for answers in self.answers.values() for a in answers)
        self.counts["unknown"] = sum(a[0] == "unknown" for answers in self.answers.values() for a in answers)
        self.counts["refused"] = sum(a[0] == "refused" for answers in self.answers.values() for a in answers)
        self.counts["killed"] = len(self.killed)
        self.counts["stopped"] = sum(map(len, self.stops.values())) // 2
        self.counts["processes"] = len(self.killed) + len(self.exited)


def parse(path, may_be_torn):
    """A history's lines. The last line of a process that was killed while it wrote may be cut short; nothing else may."""
    with open(path, encoding="utf-8") as file:
        text = file.read()
    lines = text.split("\n")
    if lines.pop() and not may_be_torn:
        raise ValueError(f"{path}: the last line is cut short and nobody killed its process")
    return [json.loads(line) for line in lines]


def load(directory):
    driver = parse(os.path.join(directory, "driver.jsonl"), False)
    killed = {line["name"] for line in driver if line["e"] == "killed"}
    histories = {}
    for file in sorted(os.listdir(directory)):
        name, suffix = os.path.splitext(file)
        if suffix == ".jsonl" and name != "driver":
            histories[name] = parse(os.path.join(directory, file), name in killed)
    return Checker(histories, driver)


def report(checker):
    """Prints what was found; True: all is well."""
    problems = checker.check()
    c = checker.counts
    print(f"{c['processes']} processes, {c['killed']} killed, {c['stopped']} stopped; dispatches: {c['acknowledged']} acknowledged, "
          f"{c['unknown']} unknown, {c['refused']} refused; {c['tasks']} tasks, {c['executions']} executions")
    again = ", ".join(f"{n} {cause[6:]}" for cause, n in sorted(c.items()) if n and cause.startswith("again "))
    print(f"executions beyond one: {c['beyond one']}" + (f" ({again})" if again else "") + f"; rescued too often: {c['poisoned']}")
    print(f"lost {c['lost']}, unexpected {c['unexpected']}, stuck {c['stuck']}, overlapping {c['overlap']}; "
          f"problems in all {len(problems)}")
    for kind, text in problems[:20]:
        print(f"  {kind}: {text}")
    return not problems


if __name__ == "__main__":
    sys.exit(0 if report(load(sys.argv[1])) else 1)
