"""Handing over tasks and looking at them."""

from __future__ import annotations

import ssl
import threading
from datetime import datetime, timedelta, timezone
from typing import Any, Dict, Iterable, Iterator, List, Mapping, Optional, Union
from urllib.parse import quote, urlencode

from ._http import Address, Link, token_of, url_of

Delay = Union[timedelta, float, int]  # numbers are seconds


def microseconds(delay: Delay) -> int:
    return round((delay.total_seconds() if isinstance(delay, timedelta) else delay) * 1_000_000)


def task_of(type: str, payload: Any = None, *, delay: Optional[Delay] = None, at: Optional[datetime] = None, timeout: Optional[Delay] = None,
            **options: Any) -> Dict[str, Any]:
    """A task as the API takes it. `options` are its other members: queue, key, tenant, priority, max_attempts, rate_key, ..."""
    task: Dict[str, Any] = {"type": type, **{name: value for name, value in options.items() if value is not None}}
    if isinstance(payload, (bytes, bytearray)):
        import base64

        task["payload_base64"] = base64.b64encode(payload).decode()
        task.setdefault("content_type", "application/octet-stream")
    elif payload is not None:
        task["payload"] = payload
    if delay is not None:
        task["delay_us"] = microseconds(delay)
    if at is not None:
        task["at"] = at.astimezone(timezone.utc).isoformat().replace("+00:00", "Z")
    if timeout is not None:
        task["timeout_us"] = microseconds(timeout)
    return task


class Client:
    """A server's API. May be used from many threads: each has a connection of its own.

    `url` is http://HOST:PORT, https://HOST:PORT or unix:/PATH; else $PAWL_SERVER, else this machine. The token is `token`, the first line of
    `token_file`, or $PAWL_TOKEN.
    """

    def __init__(self, url: Optional[str] = None, *, token: Optional[str] = None, token_file: Optional[str] = None,
                 ssl_context: Optional[ssl.SSLContext] = None, timeout: float = 30.0) -> None:
        self._address, self._token = Address.parse(url_of(url)), token_of(token, token_file)
        self._context, self._timeout, self._local = ssl_context, timeout, threading.local()

    def __enter__(self) -> "Client":
        return self

    def __exit__(self, *_: Any) -> None:
        self.close()

    def close(self) -> None:
        """Closes the connection of this thread; the next request opens another."""
        link = getattr(self._local, "link", None)
        if link is not None:
            link.close()

    def _call(self, method: str, path: str, body: Any = None) -> Any:
        link = getattr(self._local, "link", None)
        if link is None:
            link = self._local.link = Link(self._address, self._token, self._context)
        return link.call(method, path, body, self._timeout)

    def enqueue(self, type: str, payload: Any = None, **options: Any) -> str:
        """Hands over a task and returns its id once it is committed. A task with a `key` may be sent again: it is the same one.

        Options: queue, key, tenant, priority, delay, at, max_attempts, timeout, rate_key, created_by, traceparent, headers, id.
        """
        return str(self._call("POST", "/v1/tasks", task_of(type, payload, **options))["id"])

    def enqueue_many(self, tasks: Iterable[Mapping[str, Any]]) -> List[Dict[str, Any]]:
        """Many in one commit, each as keyword arguments of `enqueue`; answers an outcome for each."""
        return list(self._call("POST", "/v1/tasks/bulk", [task_of(**task) for task in tasks])["results"])

    def get(self, id: str, *, brief: bool = False) -> Dict[str, Any]:
        """A task with its attempts and, unless brief, its log, trail and why it is where it is."""
        return dict(self._call("GET", f"/v1/tasks/{quote(id)}{'?brief=true' if brief else ''}"))

    def list(self, *, limit: Optional[int] = None, **filter: Any) -> Iterator[Dict[str, Any]]:
        """Tasks that match (state, type, queue, tenant, key), newest first; asks for more pages as they are needed."""
        seen, parameters = 0, {name: value for name, value in filter.items() if value is not None}
        while True:
            page = self._call("GET", "/v1/tasks?" + urlencode(parameters))
            for task in page["tasks"]:
                if limit is not None and seen >= limit:
                    return
                seen += 1
                yield task
            if not page["next"]:
                return
            parameters["cursor"] = page["next"]

    def cancel(self, id: str) -> None:
        """A pending task is cancelled, a running one asked to stop."""
        self._call("POST", f"/v1/tasks/{quote(id)}/cancel")

    def retry(self, id: str) -> str:
        """Runs a failed or cancelled task again, as a new one whose id is returned."""
        return str(self._call("POST", f"/v1/tasks/{quote(id)}/retry")["id"])
