#!/usr/bin/env python3
"""The checker of histories, on histories: one that is fine, and forged ones, each of which breaks a promise and must be rejected
for that."""

import contextlib
import copy
import io
import os
import tempfile
import unittest

import history


def line(t, event, **values):
    return {"t": t, "e": event, **values}


def sent(t, token, task, outcome="created", key=""):
    return [line(t, "begin", token=token, key=key), line(t + 1, "ack", token=token, id=task, outcome=outcome)]


def began(t, token, task, fence=1, key=""):
    return line(t, "start", token=token, id=task, fence=fence, attempt=1, type="ok", key=key)


def ran(t, token, task, fence=1, outcome="succeeded", until=None, key=""):
    """From t until `until`; its hook a moment later."""
    until = until or t + 1
    return [began(t, token, task, fence, key), line(until, "return", id=task, fence=fence, outcome=outcome),
            line(until + 3, "end", id=task, fence=fence, outcome=outcome)]


def stored(task, token, *attempts, state="succeeded", key="", reason=""):
    attempts = [list(attempt) for attempt in attempts or [(1, state, 1)]]
    return line(199, "task", id=task, token=token, state=state, type="ok", key=key, reason=reason, attempts=attempts)


def good():
    """Two processes and a clean one. a1: done at once. a2: fails once, then runs in b. a3: its process a is killed, b takes over.
    a4: a parent with its child. a5, a6: a bulk call. b1, b2: one key. b3: unknown, then there after all. a9: begun when a died."""
    a = [*sent(1, "a1", "T1"), *ran(3, "a1", "T1"),
         *sent(10, "a2", "T2"), *ran(12, "a2", "T2", outcome="retry"),
         *sent(20, "a3", "T3"), began(22, "a3", "T3"),
         *sent(30, "a4", "T4"), *ran(32, "a4", "T4")[:2], line(32, "spawn", token="a4.child", id="T5", parent="a4"),
         line(40, "bulk", tokens=["a5", "a6"]), line(41, "ack", token="a5", id="T6", outcome="created"),
         line(41, "ack", token="a6", id="T7", outcome="created"), line(50, "begin", token="a9")]
    b = [*ran(14, "a2", "T2", fence=2), *ran(60, "a3", "T3", fence=3, until=65),
         *ran(70, "a4.child", "T5"), *ran(71, "a5", "T6"), *ran(72, "a6", "T7"),
         *sent(80, "b1", "T8", key="k"), *ran(82, "b1", "T8", until=85, key="k"),
         *sent(90, "b2", "T9", "replaced", key="k"), *ran(92, "b2", "T9", until=95, key="k"),
         line(100, "begin", token="b3"), line(101, "unknown", token="b3", id="TA"),
         line(102, "ack", token="b3", id="TA", outcome="existing"), *ran(103, "b3", "TA", outcome="failed"),
         line(106, "begin", token="b4"), line(107, "refused", token="b4", status="full")]
    tasks = [stored("T1", "a1"), stored("T2", "a2", (1, "retry", 1), (2, "succeeded", 2)),
             stored("T3", "a3", (1, "rescued", 1), (2, "succeeded", 3)), stored("T4", "a4"), stored("T5", "a4.child"),
             stored("T6", "a5"), stored("T7", "a6"), stored("T8", "b1", key="k"), stored("T9", "b2", key="k"),
             stored("TA", "b3", state="failed")]
    return {"a": a, "b": b, "clean": tasks + [line(200, "dumped", count=len(tasks))]}


DRIVER = [line(54, "kill", name="a", status=0), line(55, "killed", name="a", status=-9), line(150, "exited", name="b", status=0),
          line(210, "exited", name="clean", status=0)]


class Forged(unittest.TestCase):
    def setUp(self):
        self.histories, self.driver = good(), copy.deepcopy(DRIVER)

    def find(self, process, event, **values):
        for entry in self.histories[process]:
            if entry["e"] == event and all(entry.get(k) == v for k, v in values.items()):
                return entry
        raise KeyError((process, event, values))

    def task(self, task_id):
        return self.find("clean", "task", id=task_id)

    def drop(self, process, event, **values):
        self.histories[process].remove(self.find(process, event, **values))

    def add(self, process, *lines):
        self.histories[process] += lines
        self.find("clean", "dumped")["count"] = sum(entry["e"] == "task" for entry in self.histories["clean"])

    def drop_task(self, task_id):
        self.drop("clean", "task", id=task_id)
        self.add("clean")

    def drop_run(self, process, task_id):
        for event in "start", "return", "end":
            self.drop(process, event, id=task_id)

    @staticmethod
    def poisoned(task_id, token):
        return stored(task_id, token, (1, "rescued", 1), state="failed", reason="rescued_too_often")

    def kinds(self):
        return {kind for kind, _ in history.Checker(self.histories, self.driver).check()}

    def rejected(self, *kinds):
        self.assertEqual(self.kinds(), set(kinds))

    def test_good(self):
        checker = history.Checker(self.histories, self.driver)
        self.assertEqual(checker.check(), [])
        counts = checker.counts
        self.assertEqual((counts["executions"], counts["beyond one"]), (12, 2))
        self.assertEqual((counts["again after a retry"], counts["again after a kill"]), (1, 1))
        self.assertEqual((counts["unknown"], counts["refused"], counts["poisoned"]), (1, 1, 0))

    def test_lost(self):
        self.drop_task("T6")
        self.drop_run("b", "T6")
        self.rejected("lost", "bulk")

    def test_lost_before_it_ran(self):
        self.add("b", *sent(110, "b5", "TB"))
        self.rejected("lost")

    def test_acknowledged_id_holds_another_task(self):
        self.find("a", "ack", token="a1")["id"] = "T2"
        self.rejected("lost")

    def test_stuck(self):
        self.add("b", *sent(110, "b5", "TB"))
        self.add("clean", stored("TB", "b5", (1, "rescued", 1), state="pending"))
        self.rejected("stuck")

    def test_unexpected(self):
        self.drop("a", "begin", token="a1")
        self.rejected("unexpected")

    def test_stored_twice(self):
        self.add("clean", self.poisoned("TC", "a9"))
        self.assertEqual(self.kinds(), set())  # begun when its process died: it may be there
        self.add("clean", self.poisoned("TD", "a9"))
        self.rejected("unexpected")

    def test_refused_and_stored(self):
        self.add("clean", self.poisoned("TC", "b4"))
        self.rejected("unexpected")

    def test_fence_goes_down(self):
        first, second = self.find("a", "start", id="T3"), self.find("b", "start", id="T3")
        first["fence"], second["fence"] = 4, 3
        self.task("T3")["attempts"] = [[1, "rescued", 4], [2, "succeeded", 3]]
        self.rejected("fences", "accepted")

    def test_same_fence_twice(self):
        self.add("b", began(59, "a3", "T3"))
        self.rejected("fences")

    def test_overlap(self):
        self.find("b", "start", id="T2")["t"] = 12.5  # before the first attempt, whose outcome was accepted, returned
        self.rejected("overlap")

    def test_begun_in_vain(self):
        self.add("b", began(61, "a2", "T2", fence=1.5))  # after the end of fence 2, by a process that does not know yet
        self.rejected("fences", "causes")
        self.driver += [line(40, "stopped", name="b", status=0), line(60, "continued", name="b", status=0)]
        self.assertEqual(self.kinds(), set())
        self.find("b", "start", id="T2", fence=1.5)["t"] = 61 + history.RESUME_US
        self.rejected("fences", "causes")

    def test_overlap_of_a_key(self):
        self.find("b", "start", id="T9")["t"] = 84
        self.rejected("overlap")

    def test_taken_from_the_living(self):
        self.find("b", "start", id="T3")["t"] = 53  # its process was killed later
        self.rejected("causes")
        self.driver.append(line(25, "stopped", name="a", status=0))
        self.assertEqual(self.kinds(), set())

    def test_succeeded_twice(self):
        self.task("T2")["attempts"][0][1] = "succeeded"
        self.find("a", "end", id="T2")["outcome"] = self.find("a", "return", id="T2")["outcome"] = "succeeded"
        self.rejected("accepted", "causes")

    def test_hook_of_a_stale_fence(self):
        self.add("a", *ran(61, "a3", "T3")[1:])
        self.rejected("accepted")

    def test_ran_after_its_end(self):
        self.add("b", began(120, "a1", "T1", fence=2))
        self.rejected("accepted", "causes")

    def test_success_nobody_gave(self):
        self.drop_run("b", "T7")
        self.rejected("accepted")

    def test_another_outcome_than_given(self):
        self.find("b", "return", id="T7")["outcome"] = "retry"
        self.rejected("accepted")

    def test_half_a_bulk(self):
        self.drop("a", "ack", token="a6")
        self.drop_task("T7")
        self.drop_run("b", "T7")
        self.rejected("bulk")

    def test_parent_without_child(self):
        self.drop_task("T5")
        self.drop_run("b", "T5")
        self.rejected("spawn")

    def test_child_without_parent(self):
        self.task("T4").update(state="failed", reason="rescued_too_often", attempts=[[1, "rescued", 1]])
        self.rejected("spawn")

    def test_no_answer(self):
        self.drop("b", "refused", token="b4")
        self.rejected("answers")

    def test_no_hook(self):
        self.drop("b", "end", id="T7")
        self.rejected("answers")

    def test_again_without_a_reason(self):
        self.driver[:2] = [line(150, "exited", name="a", status=0)]
        self.drop("a", "begin", token="a9")
        self.add("a", line(35, "end", id="T4", fence=1, outcome="succeeded"))
        self.rejected("causes")
        self.add("a", line(61, "lease_lost", id="T3", fence=1))
        self.assertEqual(self.kinds(), set())

    def test_bad_end_of_a_process(self):
        self.driver[2]["status"] = 70
        self.rejected("exits")

    def test_poisoned_is_an_end(self):
        self.task("T3").update(state="failed", reason="rescued_too_often", attempts=[[1, "rescued", 1], [2, "rescued", 3]])
        self.drop("b", "end", id="T3")
        checker = history.Checker(self.histories, self.driver)
        self.assertEqual(checker.check(), [])
        self.assertEqual(checker.counts["poisoned"], 1)

    def test_many_poisoned(self):
        tokens = [f"b{i}" for i in range(10, 13)]
        self.add("b", *[entry for token in tokens for entry in sent(120, token, "P" + token)])
        self.add("clean", *[self.poisoned("P" + token, token) for token in tokens])
        self.rejected("innocent")

    def test_short_dump(self):
        self.find("clean", "dumped")["count"] += 1
        self.rejected("history")


class Files(unittest.TestCase):
    def write(self, directory, name, text):
        with open(os.path.join(directory, name + ".jsonl"), "w", encoding="utf-8") as file:
            file.write(text)

    def test_torn_last_line(self):
        with tempfile.TemporaryDirectory() as directory:
            self.write(directory, "driver", '{"t":3,"e":"killed","name":"a","status":-9}\n{"t":9,"e":"exited","name":"b","status":0}\n')
            self.write(directory, "a", '{"t":1,"e":"begin","token":"a1"}\n{"t":2,"e":"ack","tok')
            self.write(directory, "b", '{"t":4,"e":"dumped","count":0}\n')
            with contextlib.redirect_stdout(io.StringIO()):
                self.assertTrue(history.report(history.load(directory)))
            self.write(directory, "b", '{"t":4,"e":"dumped","count":0}\n{"t":5,"e":"beg')
            with self.assertRaises(ValueError):
                history.load(directory)


if __name__ == "__main__":
    unittest.main()
