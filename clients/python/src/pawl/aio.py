"""The same for asyncio: handlers are coroutines, and a run that has to stop is cancelled.

    worker = pawl.aio.Worker(queues=["mail"], concurrency=100)

    @worker.task("email.send")
    async def send(run):
        ...

    asyncio.run(worker.run())
"""

from __future__ import annotations

import asyncio
import json
import logging
import signal
import ssl
import time
from typing import Any, AsyncIterator, Awaitable, Callable, Dict, Iterable, List, Mapping, Optional, Sequence, Set, Tuple
from urllib.parse import quote, urlencode

from ._http import Address, PawlError, Problem, Unavailable, answer_of, headers_of, token_of, url_of
from ._runs import Ledger, Run, Session, ended, succeeded
from .client import Delay, task_of
from .worker import AGAIN, WAIT, registration

__all__ = ["Client", "Worker"]

Handler = Callable[[Run], Awaitable[Any]]
log = logging.getLogger("pawl")


class Link:
    """One connection, for one request at a time."""

    def __init__(self, address: Address, token: Optional[str], context: Optional[ssl.SSLContext] = None) -> None:
        self._address, self._headers, self._context = address, headers_of(token), context
        self._streams: Optional[Tuple[asyncio.StreamReader, asyncio.StreamWriter]] = None

    async def call(self, method: str, path: str, body: Any = None, timeout: float = 30.0) -> Any:
        text = None if body is None else json.dumps(body).encode()
        try:
            status, answer = await asyncio.wait_for(self._ask(method, path, text), timeout)
        except (OSError, EOFError, ValueError, asyncio.TimeoutError) as error:
            self.close()
            raise Unavailable(f"the server could not be asked: {error or type(error).__name__}") from error
        except BaseException:
            self.close()  # an answer may be on its way
            raise
        return answer_of(status, answer)

    async def _open(self) -> Tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        at = self._address
        if at.path is not None:
            return await asyncio.open_unix_connection(at.path)
        context = (self._context or ssl.create_default_context()) if at.tls else None
        return await asyncio.open_connection(at.host, at.port, ssl=context)

    async def _ask(self, method: str, path: str, text: Optional[bytes]) -> Tuple[int, bytes]:
        if self._streams is None or self._streams[0].at_eof():
            self._streams = await self._open()
        reader, writer = self._streams
        host = f"[{self._address.host}]" if ":" in self._address.host else self._address.host
        head = [f"{method} {self._address.prefix}{path} HTTP/1.1", f"Host: {host}"]
        head += [f"{name}: {value}" for name, value in self._headers.items()]
        if text is not None:
            head += ["Content-Type: application/json", f"Content-Length: {len(text)}"]
        writer.write("\r\n".join(head + ["", ""]).encode() + (text or b""))
        await writer.drain()
        return await self._answer(reader)

    async def _answer(self, reader: asyncio.StreamReader) -> Tuple[int, bytes]:
        status = int((await reader.readuntil(b"\r\n")).split(b" ", 2)[1])
        headers: Dict[bytes, bytes] = {}
        while True:
            line = (await reader.readuntil(b"\r\n"))[:-2]
            if not line:
                break
            name, _, value = line.partition(b":")
            headers[name.lower()] = value.strip()
        if headers.get(b"transfer-encoding") == b"chunked":
            body = await self._chunks(reader)
        else:
            body = await reader.readexactly(int(headers.get(b"content-length", b"0")))
        if headers.get(b"connection", b"").lower() == b"close":
            self.close()
        return status, body

    @staticmethod
    async def _chunks(reader: asyncio.StreamReader) -> bytes:
        body = b""
        while True:
            size = int(await reader.readuntil(b"\r\n"), 16)
            body += (await reader.readexactly(size + 2))[:-2]
            if size == 0:
                return body

    def close(self) -> None:
        if self._streams is not None:
            self._streams[1].close()
            self._streams = None


class Client:
    """A server's API for asyncio; see pawl.Client. Requests of several tasks at once use connections of their own, which are kept."""

    def __init__(self, url: Optional[str] = None, *, token: Optional[str] = None, token_file: Optional[str] = None,
                 ssl_context: Optional[ssl.SSLContext] = None, timeout: float = 30.0) -> None:
        self._address, self._token = Address.parse(url_of(url)), token_of(token, token_file)
        self._context, self._timeout = ssl_context, timeout
        self._links: List[Link] = []

    async def __aenter__(self) -> "Client":
        return self

    async def __aexit__(self, *_: Any) -> None:
        self.close()

    def close(self) -> None:
        while self._links:
            self._links.pop().close()

    async def _call(self, method: str, path: str, body: Any = None) -> Any:
        link = self._links.pop() if self._links else Link(self._address, self._token, self._context)
        answer = await link.call(method, path, body, self._timeout)
        self._links.append(link)
        return answer

    async def enqueue(self, type: str, payload: Any = None, **options: Any) -> str:
        """Hands over a task and returns its id once it is committed."""
        return str((await self._call("POST", "/v1/tasks", task_of(type, payload, **options)))["id"])

    async def enqueue_many(self, tasks: Iterable[Mapping[str, Any]]) -> List[Dict[str, Any]]:
        """Many in one commit, each as keyword arguments of `enqueue`; answers an outcome for each."""
        return list((await self._call("POST", "/v1/tasks/bulk", [task_of(**task) for task in tasks]))["results"])

    async def get(self, id: str, *, brief: bool = False) -> Dict[str, Any]:
        return dict(await self._call("GET", f"/v1/tasks/{quote(id)}{'?brief=true' if brief else ''}"))

    async def list(self, **filter: Any) -> AsyncIterator[Dict[str, Any]]:
        parameters = {name: value for name, value in filter.items() if value is not None}
        while True:
            page = await self._call("GET", "/v1/tasks?" + urlencode(parameters))
            for task in page["tasks"]:
                yield task
            if not page["next"]:
                return
            parameters["cursor"] = page["next"]

    async def cancel(self, id: str) -> None:
        await self._call("POST", f"/v1/tasks/{quote(id)}/cancel")

    async def retry(self, id: str) -> str:
        return str((await self._call("POST", f"/v1/tasks/{quote(id)}/retry"))["id"])


class _Ledger(Ledger):
    """Cancels the coroutine of a run that has to stop."""

    def __init__(self, worker: "Worker") -> None:
        super().__init__(worker._observer)
        self._worker = worker

    def told(self, run: Run) -> None:
        task = self._worker._running.get((run.id, run.fence))
        if task is not None:
            task.cancel()

    def spoken(self, run: Run) -> None:
        super().spoken(run)
        self._worker._news.set()

    def end(self, run: Run, item: Dict[str, Any]) -> None:
        super().end(run, item)
        self._worker._news.set()


class Worker:
    """Runs tasks of some queues as coroutines; see pawl.Worker for the settings. A run that is cancelled, timed out or lost has its
    coroutine cancelled: `run.stopping` says why."""

    def __init__(self, url: Optional[str] = None, *, queues: Sequence[str] = ("default",), concurrency: int = 100, prefetch: int = 0,
                 name: Optional[str] = None, token: Optional[str] = None, token_file: Optional[str] = None,
                 ssl_context: Optional[ssl.SSLContext] = None, lease: Optional[Delay] = None, max_attempts: Optional[int] = None,
                 timeout: Optional[Delay] = None, retry_delay: Optional[Delay] = None,
                 observer: Optional[Callable[[Run, str], None]] = None) -> None:
        self._observer = observer
        self._address, self._token, self._context = Address.parse(url_of(url)), token_of(token, token_file), ssl_context
        self._concurrency = concurrency + prefetch
        self._settings = (name, queues, lease, max_attempts, timeout, retry_delay)
        self._handlers: Dict[str, Handler] = {}
        self._running: Dict[Any, "asyncio.Task[None]"] = {}
        self._finishing: Set["asyncio.Task[None]"] = set()
        self._session: Optional[Session] = None
        self._stopping = self._closed = False
        self._ended: Dict[str, int] = {}

    def task(self, type: str) -> Callable[[Handler], Handler]:
        """Decorator: the handler of a type; "*" for all that have none of their own."""

        def register(handler: Handler) -> Handler:
            self._handlers[type] = handler
            return handler

        return register

    def stop(self) -> None:
        """Claims nothing more; `run` returns when handlers have finished. From the loop's thread."""
        self._stopping = True
        self._free.set()

    async def run(self, *, signals: bool = True, grace: float = 30.0, once: bool = False) -> Dict[str, int]:
        """Works until `stop`, a signal, a drain, or its own cancellation; with `once`, until nothing is due."""
        if not self._handlers:
            raise ValueError("the worker has no handler: register one with @worker.task")
        self._ledger, self._news, self._free = _Ledger(self), asyncio.Event(), asyncio.Event()
        loop = asyncio.get_running_loop()
        numbers = (signal.SIGINT, signal.SIGTERM) if signals else ()
        for number in numbers:
            loop.add_signal_handler(number, self._signalled)
        helpers = [asyncio.ensure_future(self._renew()), asyncio.ensure_future(self._report())]
        self._claimer = asyncio.ensure_future(self._claim_all(once))
        try:
            await asyncio.wait([self._claimer])
        finally:
            self._claimer.cancel()
            await self._finish(grace, helpers)
            for number in numbers:
                loop.remove_signal_handler(number)
        if not self._claimer.cancelled() and self._claimer.exception():
            raise self._claimer.exception()  # type: ignore[misc]
        return dict(self._ended)

    def _signalled(self) -> None:
        if self._stopping:
            self._interrupt()
        self.stop()
        self._claimer.cancel()

    def _interrupt(self) -> None:
        for run in list(self._ledger.held.values()):
            if run._reason is None:
                run._tell("shutdown")

    # ---- claiming and running --------------------------------------------------------------------------------------------------------

    async def _claim_all(self, once: bool) -> None:
        link, begun = Link(self._address, self._token, self._context), False
        try:
            while not self._stopping:
                try:
                    if self._session is None or self._session.gone or (self._session.stopping and not self._ledger.held):
                        self._session = await self._register(link)
                        begun = True
                    if self._session.drain:
                        break
                    free = self._concurrency - len(self._running)
                    if free <= 0 or self._session.stopping:
                        await self._wait(self._free, AGAIN)
                    elif await self._claim(link, self._session, free, 0 if once else WAIT) == 0 and once and not self._ledger.held:
                        break
                except PawlError as error:
                    if not begun or (isinstance(error, Problem) and not error.retryable and error.type != "unknown_worker"):
                        raise
                    log.warning("%s", error)
                    await asyncio.sleep(AGAIN)
        finally:
            link.close()

    @staticmethod
    async def _wait(event: asyncio.Event, seconds: float) -> None:
        try:
            await asyncio.wait_for(event.wait(), seconds)
        except asyncio.TimeoutError:
            pass
        event.clear()

    async def _register(self, link: Link) -> Session:
        name, queues, lease, max_attempts, timeout, retry_delay = self._settings
        sent = time.monotonic()
        body = registration(name, queues, list(self._handlers), lease, max_attempts, timeout, retry_delay)
        return Session(await link.call("POST", "/v1/workers", body), sent)

    async def _claim(self, link: Link, session: Session, most: int, wait: float) -> int:
        session.claims += 1
        number, sent = session.claims, time.monotonic()
        try:
            answer = await link.call("POST", f"/v1/workers/{session.id}/claim",
                                     {"max": min(most, 1000), "wait": f"{int(wait * 1000)}ms", "number": number}, wait + 30)
        except Problem as problem:
            if problem.type != "unknown_worker":
                raise
            self._ledger.lose(session)
            return 0
        finally:
            session.seen = number  # nothing is awaited between here and the end: what came is held before anybody renews
        for task in answer["tasks"]:
            run = self._ledger.take(task, session)
            self._running[(run.id, run.fence)] = asyncio.ensure_future(self._run_one(run))
        session.believe(answer, sent)
        return len(answer["tasks"])

    async def _run_one(self, run: Run) -> None:
        handler = self._handlers.get(run.type) or self._handlers["*"]
        try:
            item = succeeded(await handler(run))
        except asyncio.CancelledError as error:
            item = ended(run, error) if run.stopping else {"outcome": "released"}
            if run.stopping == "timeout":
                item = {"outcome": "retry", "error": "timed out", "code": "timeout"}
        except Exception as error:
            item = ended(run, error)
        self._running.pop((run.id, run.fence), None)
        self._ledger.end(run, item)
        self._free.set()

    # ---- speaking --------------------------------------------------------------------------------------------------------------------

    async def _renew(self) -> None:
        link = Link(self._address, self._token, self._context)
        while not self._closed:
            session = self._session
            try:
                if session and not session.gone:
                    sent = time.monotonic()
                    answer = await link.call("POST", f"/v1/workers/{session.id}/renew", self._ledger.renewal(session), 10)
                    session.believe(answer, sent)
                    self._ledger.renewed(answer)
            except Problem as problem:
                if session and problem.type == "unknown_worker":
                    self._ledger.lose(session)
            except PawlError:
                pass
            if session and session.over():
                for run in list(self._ledger.held.values()):
                    run.stopping  # noqa: B018  it finds out, and its coroutine is cancelled
            every = session.renew if session and not session.gone else AGAIN
            await asyncio.sleep(min(every, max(0.02, session.left())) if session and not session.gone else every)
        link.close()

    async def _report(self) -> None:
        link = Link(self._address, self._token, self._context)
        while True:
            session = self._session
            items = self._ledger.report(session) if session else []
            if items and session:
                await self._bring(link, session, items)
            elif self._closed:
                break
            else:
                await self._wait(self._news, 1.0)
        link.close()

    async def _bring(self, link: Link, session: Session, items: List[Any]) -> None:
        try:
            sent = time.monotonic()
            answer = await link.call("POST", f"/v1/workers/{session.id}/report", {"items": [item for _, item in items]}, 60)
            session.believe(answer, sent)
            for what in self._ledger.reported(items, answer):
                self._ended[what] = self._ended.get(what, 0) + 1
        except PawlError as error:
            if isinstance(error, Problem) and error.type == "unknown_worker":
                self._ledger.lose(session)
            elif (isinstance(error, Unavailable) or getattr(error, "retryable", False)) and not session.over():
                self._ledger.unsaid(items)
                await asyncio.sleep(0.1)
                return
            else:
                log.error("a report came to nothing: %s", error)
            for run, _ in items:
                self._ledger.drop(run)

    # ---- the end -----------------------------------------------------------------------------------------------------------------------

    async def _finish(self, grace: float, helpers: List[Any]) -> None:
        self._stopping = True
        await self._wait_idle(grace)
        self._interrupt()
        await self._wait_idle(5.0)
        for task in list(self._running.values()):
            task.cancel()
        self._closed = True
        self._news.set()
        helpers[0].cancel()
        await asyncio.wait(helpers, timeout=30)
        if self._session and not self._session.gone:
            link = Link(self._address, self._token, self._context)
            try:
                await link.call("DELETE", f"/v1/workers/{self._session.id}", None, 5)
            except PawlError:
                pass
            link.close()

    async def _wait_idle(self, seconds: float) -> None:
        until = time.monotonic() + seconds
        while self._ledger.held and time.monotonic() < until:
            await asyncio.sleep(0.01)
