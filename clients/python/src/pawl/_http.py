"""HTTP for one thread: a connection that is kept, JSON both ways, problems as exceptions."""

from __future__ import annotations

import http.client
import json
import os
import socket
import ssl
from dataclasses import dataclass
from typing import Any, Optional
from urllib.parse import urlsplit

DEFAULT_URL = "http://127.0.0.1:7295"
DEFAULT_PORT = 7295


class PawlError(Exception):
    """Whatever goes wrong between this program and a server."""


class Unavailable(PawlError):
    """The server could not be reached, or its answer was lost: what was asked may have happened all the same."""


class Problem(PawlError):
    """The server refused: `status` is HTTP's, `type` a word for programs, the text says what to do."""

    def __init__(self, status: int, type: str, detail: str) -> None:
        super().__init__(f"{detail} ({status} {type})")
        self.status, self.type, self.detail = status, type, detail

    @property
    def retryable(self) -> bool:
        return self.status in (429, 503, 504)


@dataclass(frozen=True)
class Address:
    """Where a server is: http://HOST[:PORT][/PREFIX], https://..., or unix:/PATH."""

    host: str
    port: int
    prefix: str = ""
    path: Optional[str] = None  # of a unix socket
    tls: bool = False

    @staticmethod
    def parse(url: str) -> "Address":
        if url.startswith("unix:/"):
            return Address("localhost", 0, "", url[5:])
        parts = urlsplit(url)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise ValueError(f"{url!r} is no server: use http://HOST:PORT, https://HOST:PORT or unix:/PATH")
        return Address(parts.hostname, parts.port or DEFAULT_PORT, parts.path.rstrip("/"), None, parts.scheme == "https")


def url_of(url: Optional[str]) -> str:
    return url or os.environ.get("PAWL_SERVER") or DEFAULT_URL


def token_of(token: Optional[str], token_file: Optional[str]) -> Optional[str]:
    """A token is given, stands in a file, or in the environment (PAWL_TOKEN)."""
    if token is None and token_file is not None:
        with open(token_file, encoding="utf-8") as file:
            token = file.readline().strip()
    return token or os.environ.get("PAWL_TOKEN") or None


def headers_of(token: Optional[str]) -> "dict[str, str]":
    headers = {"User-Agent": "pawl-python/0.1.0", "Accept": "application/json"}
    if token:
        headers["Authorization"] = f"Bearer {token}"
    return headers


def answer_of(status: int, body: bytes) -> Any:
    """The JSON of an answer, or its problem."""
    try:
        value = json.loads(body) if body else {}
    except ValueError:
        value = None
    if status < 300 and value is not None:
        return value
    problem = value if isinstance(value, dict) else {}
    kind = str(problem.get("type", "about:blank")).rsplit(":", 1)[-1]
    raise Problem(status, kind, str(problem.get("detail", "the server's answer could not be read")))


class _UnixConnection(http.client.HTTPConnection):
    def __init__(self, path: str, timeout: float) -> None:
        super().__init__("localhost", timeout=timeout)
        self._path = path

    def connect(self) -> None:
        self.sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.sock.settimeout(self.timeout)
        self.sock.connect(self._path)


class Link:
    """One connection. Not for two threads at once."""

    def __init__(self, address: Address, token: Optional[str], context: Optional[ssl.SSLContext] = None) -> None:
        self._address, self._headers, self._context = address, headers_of(token), context
        self._connection: Optional[http.client.HTTPConnection] = None

    def _connect(self, timeout: float) -> http.client.HTTPConnection:
        at = self._address
        if at.path is not None:
            return _UnixConnection(at.path, timeout)
        if at.tls:
            return http.client.HTTPSConnection(at.host, at.port, timeout=timeout, context=self._context)
        return http.client.HTTPConnection(at.host, at.port, timeout=timeout)

    def call(self, method: str, path: str, body: Any = None, timeout: float = 30.0) -> Any:
        """Asks once. A kept connection that the server has closed meanwhile is replaced, as long as nothing was sent on it."""
        text = None if body is None else json.dumps(body).encode()
        headers = dict(self._headers, **({"Content-Type": "application/json"} if text is not None else {}))
        fresh = self._connection is None
        try:
            return self._ask(method, path, text, headers, timeout)
        except (http.client.RemoteDisconnected, BrokenPipeError, ConnectionResetError) as error:
            self.close()
            if fresh or method != "GET":
                raise Unavailable(f"the connection to the server was lost: {error}") from error
        except (OSError, http.client.HTTPException) as error:
            self.close()
            raise Unavailable(f"the server could not be asked: {error}") from error
        try:
            return self._ask(method, path, text, headers, timeout)
        except (OSError, http.client.HTTPException) as error:
            self.close()
            raise Unavailable(f"the server could not be asked: {error}") from error

    def _ask(self, method: str, path: str, text: Optional[bytes], headers: "dict[str, str]", timeout: float) -> Any:
        if self._connection is None:
            self._connection = self._connect(timeout)
        self._connection.timeout = timeout
        if self._connection.sock is not None:
            self._connection.sock.settimeout(timeout)
        self._connection.request(method, self._address.prefix + path, text, headers)
        if self._connection.sock is not None and self._address.path is None:
            self._connection.sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        answer = self._connection.getresponse()
        body = answer.read()
        if answer.will_close:
            self.close()
        return answer_of(answer.status, body)

    def close(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None
