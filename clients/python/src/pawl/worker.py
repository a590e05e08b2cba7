"""A worker with threads.

    claimer     the caller's thread: waits for tasks, as many as there are free hands
    hands       run handlers
    renewer     says that this worker lives, and hears what is to stop
    reporter    brings outcomes, many in one request
"""

from __future__ import annotations

import logging
import os
import queue
import signal
import socket
import ssl
import threading
import time
from typing import Any, Callable, Dict, List, Optional, Sequence

from ._http import Address, Link, PawlError, Problem, Unavailable, token_of, url_of
from ._runs import Ledger, Run, Session, ended, succeeded
from .client import Delay, microseconds

Handler = Callable[[Run], Any]
log = logging.getLogger("pawl")

AGAIN = 0.5  # seconds after the server did not answer
WAIT = 5.0  # seconds of a claim


def default_name() -> str:
    return f"{socket.gethostname()}:{os.getpid()}"[:200]


def registration(name: Optional[str], queues: Sequence[str], types: Sequence[str], lease: Optional[Delay], max_attempts: Optional[int],
                 timeout: Optional[Delay], retry_delay: Optional[Delay]) -> Dict[str, Any]:
    body: Dict[str, Any] = {"name": name or default_name(), "queues": list(queues)}
    if "*" not in types:
        body["types"] = sorted(types)
    if max_attempts is not None:
        body["max_attempts"] = max_attempts
    for member, delay in (("lease", lease), ("timeout", timeout), ("retry_delay", retry_delay)):
        if delay is not None:
            body[member] = f"{max(1, microseconds(delay) // 1000)}ms"
    return body


class Worker:
    """Runs tasks of some queues.

    `concurrency` handlers run at a time, each on a thread; `prefetch` more tasks are held ready. Handlers are registered by `task`; a
    worker asks for the types it has handlers for, or for all with a handler of "*".

    What a handler returns is the result. It raises Retry, Fail or Snooze, or anything else, which counts as Retry. A handler that runs for
    long asks `run.stopping` now and then, or sleeps with `run.wait`.

    `observer` is told what became of each run: succeeded, retrying, failed, snoozed, cancelled, released, or lost.
    """

    def __init__(self, url: Optional[str] = None, *, queues: Sequence[str] = ("default",), concurrency: int = 4, prefetch: int = 0,
                 name: Optional[str] = None, token: Optional[str] = None, token_file: Optional[str] = None,
                 ssl_context: Optional[ssl.SSLContext] = None, lease: Optional[Delay] = None, max_attempts: Optional[int] = None,
                 timeout: Optional[Delay] = None, retry_delay: Optional[Delay] = None,
                 observer: Optional[Callable[[Run, str], None]] = None) -> None:
        self._address, self._token, self._context = Address.parse(url_of(url)), token_of(token, token_file), ssl_context
        self._concurrency, self._prefetch = concurrency, prefetch
        self._settings = (name, queues, lease, max_attempts, timeout, retry_delay)
        self._handlers: Dict[str, Handler] = {}
        self._ledger = Ledger(observer)
        self._todo: "queue.SimpleQueue[Optional[Run]]" = queue.SimpleQueue()
        self._changed = threading.Condition()
        self._out = 0  # claimed, and not returned by a handler
        self._session: Optional[Session] = None
        self._stopping = self._closed = False
        self._ended: Dict[str, int] = {}

    # ---- what programs use -------------------------------------------------------------------------------------------------------

    def task(self, type: str) -> Callable[[Handler], Handler]:
        """Decorator: the handler of a type; "*" for all that have none of their own."""

        def register(handler: Handler) -> Handler:
            self._handlers[type] = handler
            return handler

        return register

    def run(self, *, signals: bool = True, grace: float = 30.0, once: bool = False) -> Dict[str, int]:
        """Works until `stop`, a signal, or a drain; with `once`, until nothing is due. Then lets handlers finish for `grace` seconds, and
        returns how many runs ended how. A second signal tells handlers to stop at once."""
        if not self._handlers:
            raise ValueError("the worker has no handler: register one with @worker.task")
        restore = self._catch_signals() if signals and threading.current_thread() is threading.main_thread() else []
        threads = [threading.Thread(target=self._hand, daemon=True) for _ in range(self._concurrency)]
        helpers = [threading.Thread(target=target, daemon=True) for target in (self._renew, self._report)]
        for thread in threads + helpers:
            thread.start()
        try:
            self._claim_all(once)
        finally:
            self._finish(grace, threads, helpers)
            for number, handler in restore:
                signal.signal(number, handler)
        return dict(self._ended)

    def stop(self) -> None:
        """Claims nothing more; `run` returns when handlers have finished. From any thread."""
        with self._changed:
            self._stopping = True
            self._changed.notify_all()

    # ---- claiming ------------------------------------------------------------------------------------------------------------------

    def _catch_signals(self) -> List[Any]:
        def caught(number: int, frame: Any) -> None:
            if self._stopping:
                self._interrupt()
            self._stopping = True

        return [(number, signal.signal(number, caught)) for number in (signal.SIGINT, signal.SIGTERM)]

    def _interrupt(self) -> None:
        for run in list(self._ledger.held.values()):
            if run._reason is None:
                run._tell("shutdown")

    def _link(self) -> Link:
        return Link(self._address, self._token, self._context)

    def _register(self, link: Link) -> Session:
        name, queues, lease, max_attempts, timeout, retry_delay = self._settings
        sent = time.monotonic()
        answer = link.call("POST", "/v1/workers", registration(name, queues, list(self._handlers), lease, max_attempts, timeout, retry_delay))
        return Session(answer, sent)

    def _claim_all(self, once: bool) -> None:
        link, begun = self._link(), False
        while not self._stopping:
            try:
                if self._session is None or self._session.gone or (self._session.stopping and not self._ledger.held):
                    self._session = self._register(link)
                    begun = True
                free = self._free()
                if self._session.drain or self._stopping:
                    break
                if free == 0 or self._session.stopping:
                    self._pause(AGAIN)
                elif self._claim(link, self._session, free, 0 if once else WAIT) == 0 and once and not self._ledger.held:
                    break
            except PawlError as error:
                if not begun or (isinstance(error, Problem) and not error.retryable and error.type != "unknown_worker"):
                    raise
                log.warning("%s", error)
                self._pause(AGAIN)
        link.close()

    def _free(self) -> int:
        with self._changed:
            if self._out >= self._concurrency + self._prefetch and not self._stopping:
                self._changed.wait(AGAIN)
            return max(0, self._concurrency + self._prefetch - self._out)

    def _pause(self, seconds: float) -> None:
        with self._changed:
            if not self._stopping:
                self._changed.wait(seconds)

    def _claim(self, link: Link, session: Session, most: int, wait: float) -> int:
        session.claims += 1
        number, sent = session.claims, time.monotonic()
        try:
            answer = link.call("POST", f"/v1/workers/{session.id}/claim",
                               {"max": min(most, 1000), "wait": f"{int(wait * 1000)}ms", "number": number}, wait + 30)
        except Problem as problem:
            self._refused(session, problem)
            return 0
        except Unavailable:
            session.seen = number  # what it brought is not among what is held: the next renewal gives it back
            raise
        if not self._stopping:
            for task in answer["tasks"]:
                run = self._ledger.take(task, session)
                with self._changed:
                    self._out += 1
                self._todo.put(run)
        session.seen = number
        session.believe(answer, sent)
        return len(answer["tasks"])

    def _refused(self, session: Session, problem: Problem) -> None:
        if problem.type != "unknown_worker":
            raise problem
        log.warning("the server does not know this worker any more: its tasks are lost")
        self._ledger.lose(session)

    # ---- running -------------------------------------------------------------------------------------------------------------------

    def _hand(self) -> None:
        while True:
            run = self._todo.get()
            if run is None:
                return
            if run.stopping:
                item: Dict[str, Any] = {"outcome": "cancelled" if run.stopping == "cancelled" else "released"}
            else:
                item = self._run_one(run)
            self._ledger.end(run, item)
            with self._changed:
                self._out -= 1
                self._changed.notify_all()

    def _run_one(self, run: Run) -> Dict[str, Any]:
        handler = self._handlers.get(run.type) or self._handlers["*"]
        try:
            return succeeded(handler(run))
        except BaseException as error:  # a handler's SystemExit ends its run, not the worker
            return ended(run, error)

    # ---- speaking ------------------------------------------------------------------------------------------------------------------

    def _renew(self) -> None:
        link = self._link()
        while not self._closed:
            session = self._session
            try:
                if session and not session.gone:
                    sent = time.monotonic()
                    answer = link.call("POST", f"/v1/workers/{session.id}/renew", self._ledger.renewal(session), 10)
                    session.believe(answer, sent)
                    self._ledger.renewed(answer)
            except Problem as problem:
                if session and problem.type == "unknown_worker":
                    self._ledger.lose(session)
            except PawlError:
                pass  # until the lease is over, which runs look at by themselves
            every = session.renew if session and not session.gone else AGAIN
            if session and session.left() < session.renew:
                every = min(every, AGAIN)
            with self._changed:
                until = time.monotonic() + every
                while not self._closed and time.monotonic() < until:
                    self._changed.wait(until - time.monotonic())
        link.close()

    def _report(self) -> None:
        link = self._link()
        while True:
            session = self._session
            items = self._ledger.report(session) if session else []
            if items and session:
                self._bring(link, session, items)
                continue
            with self._changed:
                if self._closed:
                    break
                if not self._ledger.outbox:
                    self._changed.wait(0.2 if not self._ledger.chatty else 0.1)
        link.close()

    def _bring(self, link: Link, session: Session, items: List[Any]) -> None:
        try:
            sent = time.monotonic()
            answer = link.call("POST", f"/v1/workers/{session.id}/report", {"items": [item for _, item in items]}, 60)
            session.believe(answer, sent)
            for what in self._ledger.reported(items, answer):
                self._ended[what] = self._ended.get(what, 0) + 1
        except Problem as problem:
            if problem.type == "unknown_worker":
                self._ledger.lose(session)
            elif problem.retryable:
                self._ledger.unsaid(items)
                self._pause(AGAIN)
                return
            else:
                log.error("a report was refused: %s", problem)
            for run, _ in items:
                self._ledger.drop(run)
        except Unavailable:
            for run, _ in items:
                if session.over():
                    self._ledger.drop(run)
            if not session.over():
                self._ledger.unsaid(items)
                time.sleep(0.1)

    # ---- the end -------------------------------------------------------------------------------------------------------------------

    def _finish(self, grace: float, threads: List[threading.Thread], helpers: List[threading.Thread]) -> None:
        self._stopping = True
        self._wait_idle(grace)
        self._interrupt()
        self._wait_idle(5.0)
        for _ in threads:
            self._todo.put(None)
        with self._changed:
            self._closed = True
            self._changed.notify_all()
        for thread in helpers:
            thread.join(30)
        if self._session and not self._session.gone:
            link = self._link()
            try:
                link.call("DELETE", f"/v1/workers/{self._session.id}", None, 5)
            except PawlError:
                pass  # its lease ends by itself
            link.close()

    def _wait_idle(self, seconds: float) -> None:
        until = time.monotonic() + seconds
        while self._ledger.held and time.monotonic() < until:
            if self._session is None or all(run.stopping == "lease_lost" for run in list(self._ledger.held.values())) and self._out == 0:
                return
            with self._changed:
                self._changed.wait(0.05)
