"""What both kinds of workers share: runs, how they end, and the ledger of what this worker has."""

from __future__ import annotations

import base64
import threading
import time
import traceback
from datetime import datetime
from typing import Any, Callable, Dict, List, Mapping, Optional, Sequence

from .client import Delay, microseconds, task_of

LOG_LINES = 1000
ITEMS = 500  # of one report
RESULT_MAX = 64 << 10


class Retry(Exception):
    """Raise it to fail this attempt: again by policy, or after `delay`."""

    def __init__(self, message: str = "", *, delay: Optional[Delay] = None, code: Optional[str] = None) -> None:
        super().__init__(message)
        self.delay, self.code = delay, code


class Fail(Exception):
    """Raise it to fail the task for good."""

    def __init__(self, message: str = "", *, code: Optional[str] = None) -> None:
        super().__init__(message)
        self.code = code


class Snooze(Exception):
    """Raise it to have the task again after `delay`; costs no attempt."""

    def __init__(self, delay: Delay) -> None:
        super().__init__(f"again in {delay}")
        self.delay = delay


class Stopped(Exception):
    """What Run.check raises when the run is to stop."""


class Spawn:
    """Return it to have tasks stored in the same commit as this one's success: Spawn(result, [dict(type="next", payload=...)])."""

    def __init__(self, result: Any, tasks: Sequence[Mapping[str, Any]]) -> None:
        self.result, self.tasks = result, list(tasks)


class Run:
    """One execution of one task."""

    id: str
    fence: int
    """Grows with every time the task is handed out: give it to whatever must not see an effect twice."""
    type: str
    queue: str
    payload: Any
    """As it was dispatched; bytes if it was no JSON."""
    attempt: int
    max_attempts: int
    deadline: Optional[datetime]
    key: Optional[str]
    tenant: Optional[str]
    headers: Optional[str]
    traceparent: Optional[str]

    def __init__(self, task: Mapping[str, Any], ledger: "Ledger", session: "Session") -> None:
        self.id, self.fence, self.type, self.queue = task["id"], task["fence"], task["type"], task["queue"]
        self.attempt, self.max_attempts = task["attempt"], task["max_attempts"]
        self.key, self.tenant, self.headers, self.traceparent = task["key"], task["tenant"], task["headers"], task["traceparent"]
        self.deadline = datetime.fromisoformat(task["deadline"].replace("Z", "+00:00")) if task["deadline"] else None
        self.payload = base64.b64decode(task["payload_base64"]) if "payload_base64" in task else task.get("payload")
        self._ledger, self._session, self._reason = ledger, session, None  # type: Ledger, Session, Optional[str]
        self._stop = threading.Event()
        self._said: Dict[str, Any] = {}
        self._lines = 0

    @property
    def stopping(self) -> Optional[str]:
        """Why this run should end: "cancelled", "timeout", "shutdown" or "lease_lost" (make no more effects); None: go on."""
        if self._reason != "lease_lost" and self._session.over():
            self._tell("lease_lost")
        return self._reason

    def check(self) -> None:
        """Raises Stopped if the run should end."""
        if self.stopping:
            raise Stopped(self.stopping)

    def wait(self, seconds: float) -> Optional[str]:
        """Sleeps, but not longer than until there is a reason to stop."""
        self._stop.wait(min(seconds, max(self._session.left(), 0)))
        return self.stopping

    def log(self, text: str, level: str = "info") -> None:
        """A line for the task's log, kept with the attempt whatever its outcome: debug, info, warn or error."""
        with self._ledger.lock:
            self._lines += 1
            if self._lines <= LOG_LINES:
                self._said.setdefault("log", []).append({"level": level, "text": str(text)})
        self._ledger.spoken(self)

    def progress(self, percent: int, text: Optional[str] = None) -> None:
        """Shown while the task runs."""
        with self._ledger.lock:
            self._said["progress"] = max(0, min(100, int(percent)))
            if text is not None:
                self._said["progress_text"] = text
        self._ledger.spoken(self)

    def _tell(self, reason: str) -> None:
        self._reason = reason
        self._stop.set()
        self._ledger.told(self)

    def _lease(self) -> Dict[str, Any]:
        return {"id": self.id, "fence": self.fence}


def succeeded(value: Any) -> Dict[str, Any]:
    """What a handler returned, as an item of a report."""
    item: Dict[str, Any] = {"outcome": "succeeded"}
    if isinstance(value, Spawn):
        item["spawn"] = [task_of(**task) for task in value.tasks]
        value = value.result
    if isinstance(value, (bytes, bytearray)):
        item.update(result_base64=base64.b64encode(value).decode(), result_type="application/octet-stream")
    elif value is not None:
        item["result"] = value
    return item


def ended(run: Run, error: BaseException) -> Dict[str, Any]:
    """What a handler raised, as an item of a report."""
    if isinstance(error, Snooze):
        return {"outcome": "snooze", "delay_us": microseconds(error.delay)}
    if isinstance(error, Stopped) or run.stopping in ("cancelled", "shutdown"):
        return {"outcome": "cancelled" if run.stopping == "cancelled" else "released" if run.stopping == "shutdown" else "retry",
                **({"error": "timed out", "code": "timeout"} if run.stopping == "timeout" else {})}
    item: Dict[str, Any] = {"outcome": "failed" if isinstance(error, Fail) else "retry", "error": (str(error) or type(error).__name__)[:8000]}
    item["code"] = getattr(error, "code", None) if isinstance(error, (Fail, Retry)) else type(error).__name__
    if item["code"] is None:
        del item["code"]
    if isinstance(error, Retry) and error.delay is not None:
        item["delay_us"] = microseconds(error.delay)
    if not isinstance(error, (Fail, Retry, Stopped)):
        run.log("".join(traceback.format_exception(type(error), error, error.__traceback__))[-4000:], "error")
    return item


class Session:
    """A registration: its id, and how long the server's promise lasts."""

    def __init__(self, answer: Mapping[str, Any], sent: float) -> None:
        self.id: str = answer["worker"]
        self.renew: float = answer["renew_us"] / 1e6
        self.until = sent + answer["lease_us"] / 1e6
        self.gone = False
        self.drain = self.stopping = False
        self.claims = 0  # sent
        self.seen = 0  # answered, or given up

    def believe(self, answer: Mapping[str, Any], sent: float) -> None:
        """The promise counts from when the request was sent."""
        self.until = sent + answer["lease_us"] / 1e6
        self.drain, self.stopping = answer["drain"], answer["stopping"]

    def left(self) -> float:
        return 0.0 if self.gone else self.until - time.monotonic()

    def over(self) -> bool:
        return self.left() <= 0


class Ledger:
    """What this worker has, and what is to be said about it. For threads and for asyncio: nothing in it waits."""

    def __init__(self, observer: Optional[Callable[[Run, str], None]] = None) -> None:
        self.lock = threading.Lock()
        self.observer = observer
        self.held: Dict[Any, Run] = {}  # until the server has heard of their end
        self.outbox: List[Any] = []  # (run, item with an outcome)
        self.chatty: Dict[Any, Run] = {}  # with something to say before their end

    def take(self, task: Mapping[str, Any], session: Session) -> Run:
        run = Run(task, self, session)
        with self.lock:
            self.held[(run.id, run.fence)] = run
        return run

    def drop(self, run: Run, what: str = "lost") -> None:
        """The server has heard of its end, or will not."""
        with self.lock:
            known = self.held.pop((run.id, run.fence), None)
            self.chatty.pop((run.id, run.fence), None)
        if known and self.observer:
            self.observer(run, what)

    def spoken(self, run: Run) -> None:
        with self.lock:
            self.chatty[(run.id, run.fence)] = run

    def told(self, run: Run) -> None:
        """A run has to stop; workers override what that means."""

    def end(self, run: Run, item: Dict[str, Any]) -> None:
        """Its outcome is known; whatever was lost says nothing."""
        if run.stopping == "lease_lost":
            self.drop(run)
            return
        with self.lock:
            self.outbox.append((run, item))

    def renewal(self, session: Session) -> Dict[str, Any]:
        with self.lock:
            return {"number": session.seen, "held": [run._lease() for run in self.held.values() if run._session is session]}

    def renewed(self, answer: Mapping[str, Any]) -> None:
        for lease in answer["lost"]:
            self._find(lease, "lease_lost")
        for lease in answer["stop"]:
            self._find(lease, lease["reason"])

    def _find(self, lease: Mapping[str, Any], reason: str) -> None:
        with self.lock:
            run = self.held.get((lease["id"], lease["fence"]))
        if run and run._reason not in (reason, "lease_lost"):
            run._tell(reason)

    def lose(self, session: Session) -> None:
        """The server does not know this worker any more."""
        session.gone = True
        with self.lock:
            runs = [run for run in self.held.values() if run._session is session]
        for run in runs:
            run._tell("lease_lost")

    def report(self, session: Session) -> List[Any]:
        """What is to be said next: ends first, then signs of life. Of other sessions nothing can be said any more."""
        with self.lock:
            ends = [pair for pair in self.outbox if pair[0]._session is session][:ITEMS]
            gone = [pair[0] for pair in self.outbox if pair[0]._session is not session]
            taken = {id(pair) for pair in ends}
            self.outbox = [pair for pair in self.outbox if id(pair) not in taken and pair[0]._session is session]
            items = []
            for run, item in ends:
                self.chatty.pop((run.id, run.fence), None)
                items.append((run, {**run._lease(), **run._said, **item}))
                run._said = {}
            for key, run in list(self.chatty.items())[: ITEMS - len(items)]:
                del self.chatty[key]
                if run._session is session and run._said:
                    items.append((run, {**run._lease(), **run._said}))
                    run._said = {}
        for run in gone:
            self.drop(run)
        return items

    def unsaid(self, items: List[Any]) -> None:
        """The report did not get through: all of it again."""
        with self.lock:
            for run, item in items:
                said = {name: item.pop(name) for name in ("log", "progress", "progress_text") if name in item}
                said["log"] = said.get("log", []) + run._said.get("log", [])
                run._said = {**said, **{name: value for name, value in run._said.items() if name != "log"}}
                self.chatty[(run.id, run.fence)] = run
                if "outcome" in item:
                    self.outbox.append((run, {name: value for name, value in item.items() if name not in ("id", "fence")}))

    def reported(self, items: List[Any], answer: Mapping[str, Any]) -> List[str]:
        """Takes the answers in; what each became."""
        said = []
        for (run, item), result in zip(items, answer["results"]):
            if result["status"] == "busy":
                self.unsaid([(run, item)])
            elif result["status"] == "invalid" and "outcome" in item:
                text = f"what the run left was refused: {result.get('detail', '')}"
                with self.lock:
                    self.outbox.append((run, {"outcome": "failed", "error": text, "code": "invalid_result"}))
            elif result["status"] == "lost":
                run._tell("lease_lost")
                said.append("lost")
                self.drop(run)
            elif "outcome" in item:
                said.append(result["as"])
                self.drop(run, result["as"])
        return said
