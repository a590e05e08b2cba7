#!/usr/bin/python3
"""Requests that two programs could read differently: each gets a 4xx and the end of the connection, and nothing behind it is answered.

Every bad head is followed, on the same connection, by a good request for /smuggled: exactly one answer may come."""

import re
import socket
import sys
import time

import served

GOOD = b"GET /smuggled HTTP/1.1\r\nHost: localhost\r\n\r\n"


def post(*lines, body=b""):
    head = [b"POST /v1/tasks HTTP/1.1"] + [line if isinstance(line, bytes) else line.encode() for line in lines]
    return b"\r\n".join(head) + b"\r\n\r\n" + body


HOST = "Host: localhost"
BODY = b'{"type":"x"}'
BAD = {
    "two lengths": post(HOST, "Content-Length: 12", "Content-Length: 12", body=BODY),
    "two different lengths": post(HOST, "Content-Length: 12", "Content-Length: 2", body=BODY),
    "listed length": post(HOST, "Content-Length: 12, 12", body=BODY),
    "plus sign": post(HOST, "Content-Length: +12", body=BODY),
    "minus sign": post(HOST, "Content-Length: -12", body=BODY),
    "hex length": post(HOST, "Content-Length: 0xc", body=BODY),
    "empty length": post(HOST, "Content-Length:", body=BODY),
    "space in length": post(HOST, "Content-Length: 1 2", body=BODY),
    "length overflows 64 bits": post(HOST, "Content-Length: 18446744073709551628", body=BODY),
    "length overflows 63 bits": post(HOST, "Content-Length: 9223372036854775808", body=BODY),
    "length and chunks": post(HOST, "Content-Length: 12", "Transfer-Encoding: chunked", body=b"0\r\n\r\n"),
    "chunks and length": post(HOST, "Transfer-Encoding: chunked", "Content-Length: 5", body=b"0\r\n\r\n"),
    "two encodings": post(HOST, "Transfer-Encoding: chunked", "Transfer-Encoding: chunked", body=b"0\r\n\r\n"),
    "stacked encodings": post(HOST, "Transfer-Encoding: gzip, chunked", body=b"0\r\n\r\n"),
    "unknown encoding": post(HOST, "Transfer-Encoding: gzip", body=b"0\r\n\r\n"),
    "identity": post(HOST, "Transfer-Encoding: identity", body=BODY),
    "odd chunked": post(HOST, "Transfer-Encoding: xchunked", body=b"0\r\n\r\n"),
    "vertical tab in encoding": post(HOST, b"Transfer-Encoding: \x0bchunked", body=b"0\r\n\r\n"),
    "quoted chunked": post(HOST, 'Transfer-Encoding: "chunked"', body=b"0\r\n\r\n"),
    "chunks in HTTP/1.0": b"POST /v1/tasks HTTP/1.0\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
    "no host": b"GET /healthz HTTP/1.1\r\n\r\n",
    "no host in HTTP/1.0": b"GET /healthz HTTP/1.0\r\n\r\n",
    "two hosts": b"GET /healthz HTTP/1.1\r\nHost: localhost\r\nHost: localhost\r\n\r\n",
    "empty host": b"GET /healthz HTTP/1.1\r\nHost:\r\n\r\n",
    "host with a path": b"GET /healthz HTTP/1.1\r\nHost: localhost/x\r\n\r\n",
    "host with a user": b"GET /healthz HTTP/1.1\r\nHost: a@localhost\r\n\r\n",
    "space before the colon": b"GET /healthz HTTP/1.1\r\nHost : localhost\r\n\r\n",
    "space before another colon": b"GET /healthz HTTP/1.1\r\nHost: localhost\r\nX-A : b\r\n\r\n",
    "tab before the colon": b"GET /healthz HTTP/1.1\r\nHost: localhost\r\nX-A\t: b\r\n\r\n",
    "no name": b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n: b\r\n\r\n",
    "no colon": b"GET /healthz HTTP/1.1\r\nHost: localhost\r\nX-A\r\n\r\n",
    "odd name": b"GET /healthz HTTP/1.1\r\nHost: localhost\r\nX(A): b\r\n\r\n",
    "folded line": b"GET /healthz HTTP/1.1\r\nHost: localhost\r\nX-A: b\r\n c\r\n\r\n",
    "folded by a tab": b"GET /healthz HTTP/1.1\r\nHost: localhost\r\nX-A: b\r\n\tc\r\n\r\n",
    "folded first line": b"GET /healthz HTTP/1.1\r\n Host: localhost\r\nHost: localhost\r\n\r\n",
    "folded length": post(HOST, "Content-Length:", " 12", body=BODY),
    "bare LF in the head": b"GET /healthz HTTP/1.1\r\nHost: localhost\nX-A: b\r\n\r\n",
    "bare LF behind the request line": b"GET /healthz HTTP/1.1\nHost: localhost\r\n\r\n",
    "bare CR in the head": b"GET /healthz HTTP/1.1\r\nHost: localhost\rX-A: b\r\n\r\n",
    "NUL in a value": b"GET /healthz HTTP/1.1\r\nHost: localhost\r\nX-A: b\0c\r\n\r\n",
    "NUL in a name": b"GET /healthz HTTP/1.1\r\nHost: localhost\r\nX\0A: b\r\n\r\n",
    "control byte in a value": b"GET /healthz HTTP/1.1\r\nHost: localhost\r\nX-A: b\x01c\r\n\r\n",
    "bad chunk size": post(HOST, "Transfer-Encoding: chunked", body=b"zz\r\n{}\r\n0\r\n\r\n"),
    "chunk size with a sign": post(HOST, "Transfer-Encoding: chunked", body=b"+2\r\n{}\r\n0\r\n\r\n"),
    "chunk size overflows": post(HOST, "Transfer-Encoding: chunked", body=b"10000000000000000c\r\n{}\r\n0\r\n\r\n"),
    "chunk longer than said": post(HOST, "Transfer-Encoding: chunked", body=b"2\r\n{}{}\r\n0\r\n\r\n"),
    "absolute form": b"GET http://localhost/healthz HTTP/1.1\r\nHost: localhost\r\n\r\n",
    "asterisk form": b"GET * HTTP/1.1\r\nHost: localhost\r\n\r\n",
    "no slash": b"GET healthz HTTP/1.1\r\nHost: localhost\r\n\r\n",
    "NUL in the path": b"GET /healthz%00x HTTP/1.1\r\nHost: localhost\r\n\r\n",
    "bad percent": b"GET /healthz%zz HTTP/1.1\r\nHost: localhost\r\n\r\n",
    "cut percent": b"GET /healthz%4 HTTP/1.1\r\nHost: localhost\r\n\r\n",
    "bad UTF-8 in the path": b"GET /healthz%ff HTTP/1.1\r\nHost: localhost\r\n\r\n",
    "raw byte in the path": b"GET /health\xffz HTTP/1.1\r\nHost: localhost\r\n\r\n",
    "parameter twice": b"GET /v1/tasks?limit=1&limit=2 HTTP/1.1\r\nHost: localhost\r\n\r\n",
    "line of 9 KiB": b"GET /" + b"a" * 9000 + b" HTTP/1.1\r\nHost: localhost\r\n\r\n",
    "line of 60 KiB": b"GET /" + b"a" * 60000 + b" HTTP/1.1\r\nHost: localhost\r\n\r\n",
    "headers of 20 KiB": b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n" + b"X-A: " + b"b" * 20000 + b"\r\n\r\n",
    "headers of 80 KiB": b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n" + b"X-A: " + b"b" * 80000 + b"\r\n\r\n",
    "100 headers": b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n" + b"X-A: b\r\n" * 100 + b"\r\n",
    "body of a GET": b"GET /healthz HTTP/1.1\r\nHost: localhost\r\nContent-Length: 3\r\n\r\nabc",
    "body larger than allowed": post(HOST, "Content-Type: application/json", "Content-Length: 900000000", body=b"x" * 100),
}
# The library ends the connection without a word: it saw no request in it. Nothing was answered, nothing smuggled.
SILENT = {"no version": b"GET /healthz\r\nHost: localhost\r\n\r\n", "garbage": b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03\r\n\r\n"}
FINE = {
    "plain": b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n",
    "spaces around values": b"GET /healthz HTTP/1.1\r\nHost:localhost\r\nX-A:   b\r\nX-B:\tc\r\nX-C:\r\n\r\n",
    "address and port": b"GET /healthz HTTP/1.1\r\nHost: 127.0.0.1:7295\r\n\r\n",
    "HTTP/1.0": b"GET /healthz HTTP/1.0\r\nHost: localhost\r\n\r\n",
    "64 headers": b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n" + b"X-A: b\r\n" * 63 + b"\r\n",
}


def exchange(address, data, linger=served.PATIENCE):
    """All that comes back until the other side closes."""
    with socket.create_connection(address, timeout=linger) as s:
        answer = b""
        try:
            s.sendall(data)
            while piece := s.recv(65536):
                answer += piece
        except ConnectionError:
            pass
        except TimeoutError:
            return answer, False
        return answer, True


def check_bad(address, name, data, silent=False):
    answer, closed = exchange(address, data + GOOD)
    statuses = set(re.findall(rb"(?:^|\n|>)HTTP/1\.[01] (\d+)", answer))  # of a bad length the library says the same status twice
    if not closed:
        return f"{name}: the connection stayed open after {answer[:60]!r}"
    if silent and not answer:
        return None
    if len(statuses) != 1 or not statuses.pop().startswith(b"4") or b"\r\nConnection: close\r\n" not in answer:
        return f"{name}: {answer[:300]!r}"
    return None


def check_fine(address, name, data):
    answer, _ = exchange(address, data + b"GET /healthz HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
    wanted = 1 if b"HTTP/1.0" in data else 2
    return None if answer.count(b"HTTP/1.1 200") + answer.count(b"HTTP/1.0 200") == wanted else f"{name}: {answer[:300]!r}"


def check_slow(address):
    """A head that comes a byte at a time is cut at its deadline, however busy the connection looks."""
    begun = time.monotonic()
    with socket.create_connection(address, timeout=served.PATIENCE) as s:
        s.settimeout(0.2)
        for byte in GOOD * 1000:
            try:
                s.sendall(bytes([byte]))
                if s.recv(1000) == b"":
                    break
            except TimeoutError:
                continue
            except ConnectionError:
                break
    took = time.monotonic() - begun
    return None if 0.9 < took < served.PATIENCE else f"a slow head was cut after {took:.1f} s, not after 1 to 2"


def main():
    with served.Server("--head-timeout", "1s", "--idle-timeout", "1h") as server:
        problems = [check_bad(server.address, name, data) for name, data in BAD.items()]
        problems += [check_bad(server.address, name, data, silent=True) for name, data in SILENT.items()]
        problems += [check_fine(server.address, name, data) for name, data in FINE.items()]
        problems.append(check_slow(server.address))
    problems = [problem for problem in problems if problem]
    print("\n".join(problems) or f"{len(BAD) + len(SILENT) + len(FINE)} heads were read as they should be")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
