#!/usr/bin/env python3
"""Lost answers and cut networks between a node and its server: nothing is inserted twice, no outcome is lost, and there is no
lease that nobody runs.

    server_cut.py KIND [SCENE ...]
"""

import contextlib

import proc
import servers

LEASE_MS = 1500


def check(condition, text):
    if not condition:
        raise proc.Failure(text)


class Scene:
    started = 0

    def __init__(self, nodes, server, gate):
        self.nodes, self.server, self.gate = nodes, server, gate

    def start(self, name, gated, **options):
        self.nodes.path = self.server.url_at(self.gate.folder) if gated else self.server.url()
        Scene.started += 1  # their tokens differ by their names
        return self.nodes.start(f"{name}{Scene.started}", **{"lease_ms": LEASE_MS, **options})

    def stored(self, node, task):
        """What the store has for the token of this task; it must be there once."""
        node.tell("dump")
        node.expect(e="dumped")
        found = [line for line in node.has(e="task") if line["token"] == task["token"]]
        check(len({line["id"] for line in found}) == 1, f"the task is stored as {found}")
        return found[-1]


def dispatch(node, kind="ok"):
    node.tell(f"dispatch {kind}")
    return node.expect(e="ack")


def check_once(scene, node, task, attempts=1):
    stored = scene.stored(node, task)
    good = [outcome for _, outcome, _ in stored["attempts"] if outcome == "succeeded"]
    check(stored["state"] == "succeeded" and len(good) == 1 and len(stored["attempts"]) == attempts, f"the task became {stored}")


def insert(scene):
    sender = scene.start("sender", True, serve=0)
    dispatch(sender)  # it has its ids and its receipts
    scene.gate.lose_answer("apply")
    task = dispatch(sender)
    scene.gate.expect_lost()
    check(task["outcome"] == "created", f"the answer came as {task}")
    check(scene.stored(sender, task)["state"] == "pending", "the task is not pending")
    runner = scene.start("runner", False)
    runner.expect(e="end", id=task["id"], outcome="succeeded")
    check_once(scene, runner, task)
    runner.close()
    sender.close()


def born_leased(scene):
    node = scene.start("alone", True)
    node.expect(e="end", id=dispatch(node)["id"])
    scene.gate.lose_answer("apply")
    task = dispatch(node)
    scene.gate.expect_lost()
    node.expect(e="end", id=task["id"], outcome="succeeded")
    check_once(scene, node, task)
    check(len(node.has(e="start", id=task["id"])) == 1, "the task ran twice")
    node.close()


def finish(scene):
    node = scene.start("alone", True, hold=1)
    task = dispatch(node, "nap")
    node.expect(e="start", id=task["id"])
    scene.gate.lose_answer("apply")
    scene.gate.expect_lost()
    end = node.expect(e="end", id=task["id"], outcome="succeeded")
    check_once(scene, node, task)
    check(len(node.has(e="start", id=task["id"])) == 1, "the task ran twice")
    check(len(node.has(e="end", id=task["id"])) == 1, "two hooks were called")
    returned = node.has(e="return", id=task["id"])[0]
    node.close()
    return f"told {(end['t'] - returned['t']) // 1000} ms after the return"


def claim(scene):
    return f"run after {proc.in_time(LEASE_MS + 2000, lambda: claim_once(scene)):.0f} ms"


def claim_once(scene):
    runner = scene.start("runner", True)
    sender = scene.start("sender", False, serve=0)
    scene.gate.lose_answer("claim")
    task = dispatch(sender)
    scene.gate.expect_lost()
    start = runner.expect(e="start", id=task["id"])
    took_ms = (start["t"] - task["t"]) / 1000
    runner.expect(e="end", id=task["id"], outcome="succeeded")
    check_once(scene, runner, task, attempts=len(scene.stored(runner, task)["attempts"]))
    sender.close()
    runner.close()
    return took_ms  # longer than its lease: under one that nobody knew of


def network(scene, ways, cut):
    """The task of a node that is cut off goes to another one. It learns that when it is back, and works on."""
    node = scene.start("cut", True, hold=1)
    task = dispatch(node, "hold")
    held = node.expect(e="start", id=task["id"])
    heir = scene.start("heir", False)
    scene.gate.hold(*ways)
    again = heir.expect(e="start", id=task["id"])
    heir.expect(e="end", id=task["id"], fence=again["fence"], outcome="succeeded")
    node.expect(e="told", id=task["id"], reason="lease_lost")
    node.expect(e="lease_lost", id=task["id"])  # it thinks so
    if cut:
        scene.gate.cut()
    scene.gate.open()
    node.expect(e="lease_lost", id=task["id"])  # the store says so
    heir.close()
    later = dispatch(node)
    node.expect(e="end", id=later["id"], outcome="succeeded")
    check(not node.has(e="end", id=task["id"]), "the node that was cut off ended the task, too")
    check(again["fence"] > held["fence"], f"the fence went from {held['fence']} to {again['fence']}")
    check_once(scene, node, task, attempts=len(scene.stored(node, task)["attempts"]))
    node.close()
    return f"taken over after {(again['t'] - held['t']) // 1000} ms, back {(later['t'] - again['t']) // 1000} ms later"


def answers(scene):
    """What the node says is heard, so its outcome counts, although it learns of that late. If every connection of it waited for an
    answer already it can say nothing: then another runs the task, and it is tried again."""
    for play in range(1, 7):
        if answers_once(scene):
            return f"heard, {play}. try"
    raise proc.Failure("the outcome was never heard")


def answers_once(scene):
    node = scene.start("deaf", True, hold=1)
    task = dispatch(node, "hold")
    node.expect(e="start", id=task["id"])
    heir = scene.start("heir", False)
    scene.gate.hold("to_client")
    node.expect(e="return", id=task["id"])
    heir.tell("drain 60")
    heir.expect(e="drained")
    taken = bool(heir.has(e="start", id=task["id"]))
    check_once(scene, heir, task, attempts=len(scene.stored(heir, task)["attempts"]))
    scene.gate.open()
    if not taken:
        node.expect(e="end", id=task["id"], outcome="succeeded")
    heir.close()
    node.expect(e="end", id=dispatch(node)["id"], outcome="succeeded")
    check(len(node.has(e="end", id=task["id"])) == (0 if taken else 1), "the node was told of an outcome that is not its own")
    node.close()
    return not taken


def frozen(scene):
    """Connections that fell silent: the node renews on a new one before its lease is over, and its task stays its own."""
    node = scene.start("silent", True, hold=1, lease_ms=6 * LEASE_MS)
    task = dispatch(node, "hold")
    node.expect(e="start", id=task["id"])
    heir = scene.start("heir", False)
    scene.gate.expect_passed("renew", 2)  # the connection for that is there
    scene.gate.freeze()
    lost = node.wait(7 * LEASE_MS / 1000 / proc.deadline(1), e="told", id=task["id"])
    check(not lost, f"the node lost its lease although the server could be reached: {lost}")
    check(not heir.has(e="start", id=task["id"]), "the task was taken away from a node that could reach the server")
    scene.gate.cut()
    scene.gate.open()
    node.destroy()
    heir.expect(e="end", id=task["id"], outcome="succeeded")
    heir.close()


def scenes(kind):
    """Where a transaction takes two messages, no outcome comes through without an answer."""
    both = ("to_server", "to_client")
    return [("the answer of an insert lost", insert), ("the answer of an insert with a lease lost", born_leased),
            ("the answer of a finish lost", finish), ("the answer of a claim lost", claim),
            ("cut off, connections broken", network, both, True), ("held back in both directions", network, both, False),
            ("requests held back", network, ("to_server",), False),
            ("answers held back", answers) if kind == "postgres" else ("answers held back", network, ("to_client",), False),
            ("connections fallen silent", frozen)]


def play(title, server, scene, *args):
    with proc.nodes() as nodes, contextlib.closing(server.gate()) as gate:
        print(f"{title}: {scene(Scene(nodes, server, gate), *args) or 'well'}", flush=True)


def main():
    parser = servers.parser(__doc__)
    parser.add_argument("scenes", nargs="*", help="names of functions; all of them by default")
    args = parser.parse_args()
    with servers.nodes(args.kind) as (_, server):
        for title, scene, *more in scenes(args.kind):
            if not args.scenes or scene.__name__ in args.scenes:
                play(title, server, scene, *more)


if __name__ == "__main__":
    main()
