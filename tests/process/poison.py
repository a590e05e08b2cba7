#!/usr/bin/env python3
"""A task that takes its process with it (abort in the handler) is given up once three marked starts of it were counted: after four
starts when it runs alone. Whoever sat in the same process is innocent: it runs to its end."""

import contextlib
import resource
import signal

import proc

GIVEN_UP = "rescued_too_often"


def check(condition, text):
    if not condition:
        raise proc.Failure(text)


def die(node):
    """The task has begun in it: it ends."""
    node.expect(e="start", type="crash")
    check(node.process.wait(proc.deadline(30)) == -signal.SIGABRT, f"{node.name} ended with status {node.process.returncode}")
    node.reader.join()


def starts(nodes, **wanted):
    return [line for node in nodes.all for line in node.has(e="start", **wanted)]


def dump(node):
    node.tell("dump")
    node.expect(e="dumped")
    return {line["id"]: line for line in node.has(e="task")}


def alone(nodes):
    """Four processes die of it; the fifth sees it failed, and works."""
    first = nodes.start("n1")
    first.tell("dispatch crash")
    die(first)
    for i in range(2, 5):
        die(nodes.start(f"n{i}"))
    last = nodes.start("n5")
    last.tell("drain 90")
    last.expect(e="drained")
    stored = {line["type"]: line for line in dump(last).values()}
    task = stored["crash"]
    check(task["state"] == "failed" and task["reason"] == GIVEN_UP, f"after four starts the task is {task}")
    began = starts(nodes, type="crash")
    check(len(began) == 4, f"it was started {len(began)} times")
    check([line["fence"] for line in began] == sorted({line["fence"] for line in began}), f"the fences do not rise: {began}")
    last.tell("dispatch ok")
    last.expect(e="end", outcome="succeeded")
    last.close()
    print("alone: given up after 4 starts")


def with_neighbours(nodes):
    """Three others run when it begins, again and again; each of them ends well, and only it is given up."""
    count, generation = 3, 1
    node = nodes.start("g1", hold=1, workers=8)
    for _ in range(count):
        node.tell("dispatch hold")
        node.expect(e="start", type="hold")
    node.tell("dispatch crash")
    die(node)
    while True:
        generation += 1
        check(generation < 12, "a dozen processes died of one task")
        node = nodes.start(f"g{generation}", hold=int(generation == 2), workers=8)
        with contextlib.suppress(BrokenPipeError):  # it may be dead already
            node.tell("drain 90")
        if node.wait(e="drained"):
            break
        die(node)
    stored = dump(node)
    node.close()
    crashed = [line for line in stored.values() if line["type"] == "crash"]
    others = [line for line in stored.values() if line["type"] == "hold"]
    check(len(crashed) == 1 and crashed[0]["reason"] == GIVEN_UP, f"the task is {crashed}")
    check(len(others) == count and all(line["state"] == "succeeded" for line in others), f"its neighbours are {others}")
    check(any(line["rescues"] for line in others), "its neighbours were never in the process that died")
    print(f"with neighbours: given up after {len(starts(nodes, type='crash'))} starts; they ended well, rescued up to "
          f"{max(line['rescues'] for line in others)} times")


resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
for scene in (alone, with_neighbours):
    with proc.nodes() as found:
        scene(found)
