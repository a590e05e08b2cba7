"""The client and both workers against a real server: PAWL_BIN=build/pawl python3 -m unittest discover -s clients/python/tests"""

import asyncio
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "src"))
import pawl  # noqa: E402
import pawl.aio  # noqa: E402

BIN = os.environ.get("PAWL_BIN") or sys.exit("PAWL_BIN does not say where the binary is")
FACTOR = float(os.environ.get("PAWL_TIMEOUT_FACTOR", "1"))


class Server:
    def __init__(self):
        self.folder = tempfile.mkdtemp(prefix="pawl-python-")
        self.listen = "127.0.0.1:0"
        self.start()

    def start(self):
        self.process = subprocess.Popen([BIN, "serve", "--store", "sqlite:t.db", "--listen", self.listen, "--lease", "2s"], cwd=self.folder,
                                        stderr=subprocess.PIPE, text=True)
        for line in self.process.stderr:
            found = re.search(r"listening on (http://(\S+))", line)
            if found:
                self.url, self.listen = found[1].rstrip(","), found[2].rstrip(",")
                break
        threading.Thread(target=self.process.stderr.read, daemon=True).start()

    def kill(self):
        self.process.kill()
        self.process.wait()

    def end(self):
        self.process.terminate()
        self.process.wait(60 * FACTOR)
        shutil.rmtree(self.folder, ignore_errors=True)


def until(what, look, seconds=30):
    deadline = time.monotonic() + seconds * FACTOR
    while time.monotonic() < deadline:
        found = look()
        if found:
            return found
        time.sleep(0.01)
    raise AssertionError(f"did not happen: {what}")


class Base(unittest.TestCase):
    def setUp(self):
        self.server = Server()
        self.client = pawl.Client(self.server.url)
        self.addCleanup(self.server.end)

    def state(self, task):
        return self.client.get(task)


class ClientTest(Base):
    def test_tasks(self):
        task = self.client.enqueue("greet", {"a": [1, 2]}, queue="q", key="k", priority=3, delay=3600)
        self.assertEqual(self.client.enqueue("greet", {"a": 2}, queue="q", key="k"), task)
        self.assertEqual(self.client.get(task)["payload"], {"a": 2})
        results = self.client.enqueue_many([{"type": "many", "payload": n} for n in range(150)])
        self.assertEqual(len({result["id"] for result in results}), 150)
        self.assertEqual(len(list(self.client.list(type="many"))), 150)
        self.assertEqual(len(list(self.client.list(type="many", limit=7))), 7)
        self.client.cancel(task)
        self.assertEqual(self.client.get(task, brief=True)["state"], "cancelled")
        self.assertNotEqual(self.client.retry(task), task)
        self.assertEqual(self.client.get(self.client.enqueue("blob", b"\x00\xff"))["payload_base64"], "AP8=")

    def test_problems(self):
        with self.assertRaises(pawl.Problem) as caught:
            self.client.get("0000000000001")
        self.assertEqual((caught.exception.status, caught.exception.type), (404, "not_found"))
        with self.assertRaises(pawl.Unavailable):
            pawl.Client("http://127.0.0.1:1").enqueue("x")
        with self.assertRaises(ValueError):
            pawl.Client("ftp://here")

    def test_asyncio(self):
        async def use():
            async with pawl.aio.Client(self.server.url) as client:
                ids = await asyncio.gather(*(client.enqueue("t", n) for n in range(20)))
                self.assertEqual(len([task async for task in client.list(type="t")]), 20)
                self.assertEqual((await client.get(ids[3]))["payload"], 3)
                with self.assertRaises(pawl.Problem):
                    await client.get("0000000000001")

        asyncio.run(use())


def handlers(worker, asynchronous):
    """The same handlers for both kinds of worker."""
    def add(kind, function):
        async def later(run):
            return function(run)

        worker.task(kind)(later if asynchronous else function)

    def fail(error):
        raise error

    def speak(run):
        run.log("hello")
        run.log("careful", "warn")
        run.progress(50, "half")
        return {"sum": sum(run.payload)}

    add("ok", speak)
    add("bytes", lambda run: b"\x01\x02")
    add("retry", lambda run: fail(pawl.Retry("busy", delay=3600, code="later")))
    add("fail", lambda run: fail(pawl.Fail("never")))
    add("crash", lambda run: 1 // 0)
    add("snooze", lambda run: fail(pawl.Snooze(3600)))
    add("spawn", lambda run: pawl.Spawn("parent", [{"type": "child", "queue": "other"}]))
    add("large", lambda run: "x" * 100000)


class WorkerTest(Base):
    def outcomes(self, run):
        ids = {kind: self.client.enqueue(kind, [1, 2, 3]) for kind in ("ok", "bytes", "retry", "fail", "crash", "snooze", "spawn", "large")}
        ended = run()
        seen = {kind: self.state(task) for kind, task in ids.items()}
        self.assertEqual({kind: task["display"] for kind, task in seen.items()},
                         {"ok": "succeeded", "bytes": "succeeded", "retry": "retrying", "fail": "failed", "crash": "retrying",
                          "snooze": "scheduled", "spawn": "succeeded", "large": "failed"})
        self.assertEqual((seen["ok"]["result"], seen["ok"]["progress"]), ({"sum": 6}, 50))
        self.assertEqual([(line["level"], line["text"]) for line in seen["ok"]["log"]], [("info", "hello"), ("warn", "careful")])
        self.assertEqual((seen["retry"]["error"], seen["retry"]["code"]), ("busy", "later"))
        self.assertEqual(seen["crash"]["code"], "ZeroDivisionError")
        self.assertIn("1 // 0", seen["crash"]["log"][0]["text"])
        self.assertEqual(seen["bytes"]["result_base64"], "AQI=")
        self.assertEqual([task["type"] for task in self.client.list(queue="other")], ["child"])
        self.assertEqual(ended["succeeded"], 3)

    def test_threads(self):
        worker = pawl.Worker(self.server.url, retry_delay=3600)
        handlers(worker, False)
        self.outcomes(lambda: worker.run(once=True))

    def test_asyncio(self):
        worker = pawl.aio.Worker(self.server.url, retry_delay=3600)
        handlers(worker, True)
        self.outcomes(lambda: asyncio.run(worker.run(once=True)))

    def test_cancel_threads(self):
        worker, reasons = pawl.Worker(self.server.url), []

        @worker.task("slow")
        def slow(run):
            while not run.wait(60):
                pass
            reasons.append(run.stopping)
            run.check()

        thread = threading.Thread(target=worker.run, kwargs={"signals": False})
        thread.start()
        task = self.client.enqueue("slow")
        until("it runs", lambda: self.state(task)["state"] == "leased")
        self.client.cancel(task)
        until("it ends", lambda: self.state(task)["state"] == "cancelled")
        timed = self.client.enqueue("slow", timeout=0.2, max_attempts=1)
        until("it times out", lambda: self.state(timed)["state"] == "failed")
        self.assertEqual(reasons, ["cancelled", "timeout"])
        worker.stop()
        thread.join(30)
        self.assertFalse(thread.is_alive())

    def test_cancel_asyncio(self):
        worker = pawl.aio.Worker(self.server.url)

        @worker.task("slow")
        async def slow(run):
            await asyncio.sleep(60)

        async def scene():
            working = asyncio.ensure_future(worker.run(signals=False))
            task = self.client.enqueue("slow")
            while self.state(task)["state"] != "leased":
                await asyncio.sleep(0.01)
            self.client.cancel(task)
            while self.state(task)["state"] != "cancelled":
                await asyncio.sleep(0.01)
            worker.stop()
            await asyncio.wait_for(working, 30)

        asyncio.run(scene())

    def test_server_killed(self):
        """Everything in flight is lost and comes again; the worker finds the next server by itself."""
        worker, fences, gate = pawl.Worker(self.server.url, concurrency=2), [], threading.Event()

        @worker.task("held")
        def held(run):
            fences.append(run.fence)
            if run.fence == 1:
                while not run.wait(60):
                    pass
                self.lost = run.stopping
            return run.fence

        thread = threading.Thread(target=worker.run, kwargs={"signals": False})
        thread.start()
        task = self.client.enqueue("held")
        until("it runs", lambda: fences)
        self.server.kill()
        self.server.start()
        until("it runs again", lambda: len(fences) > 1 and self.state(task)["state"] == "succeeded")
        self.assertEqual((self.lost, self.state(task)["result"]), ("lease_lost", fences[-1]))
        self.assertGreater(fences[-1], 1)
        worker.stop()
        thread.join(30)

    def test_worker_killed(self):
        """A process with a worker is killed; its task goes to another."""
        program = ("import sys, pawl\nw = pawl.Worker(sys.argv[1], lease=0.5)\n"
                   "@w.task('victim')\ndef victim(run):\n    print(run.fence, flush=True)\n    run.wait(60)\nw.run()\n")
        environment = {**os.environ, "PYTHONPATH": os.path.dirname(os.path.dirname(pawl.__file__))}
        process = subprocess.Popen([sys.executable, "-c", program, self.server.url], env=environment, stdout=subprocess.PIPE, text=True)
        task = self.client.enqueue("victim")
        self.assertEqual(process.stdout.readline(), "1\n")
        process.kill()
        process.communicate()
        worker = pawl.Worker(self.server.url)
        worker.task("victim")(lambda run: run.fence)
        thread = threading.Thread(target=worker.run, kwargs={"signals": False})
        thread.start()
        until("another has it", lambda: self.state(task)["state"] == "succeeded")
        self.assertEqual([attempt["outcome"] for attempt in self.state(task)["attempts"]], ["rescued", "succeeded"])
        worker.stop()
        thread.join(30)

    def test_signal(self):
        """SIGTERM lets what runs finish."""
        program = ("import sys, pawl\nw = pawl.Worker(sys.argv[1])\n"
                   "@w.task('last')\ndef last(run):\n    print('runs', flush=True)\n    sys.stdin.readline()\n    return 'done'\nprint(w.run())\n")
        environment = {**os.environ, "PYTHONPATH": os.path.dirname(os.path.dirname(pawl.__file__))}
        process = subprocess.Popen([sys.executable, "-c", program, self.server.url], env=environment, stdin=subprocess.PIPE,
                                   stdout=subprocess.PIPE, text=True)
        task = self.client.enqueue("last")
        self.assertEqual(process.stdout.readline(), "runs\n")
        process.send_signal(signal.SIGTERM)
        out, _ = process.communicate("go\n", timeout=60 * FACTOR)
        self.assertEqual((process.returncode, out), (0, "{'succeeded': 1}\n"))
        self.assertEqual(self.state(task)["result"], "done")


if __name__ == "__main__":
    unittest.main()
