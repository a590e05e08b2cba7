"""Somebody else's server, as raw sockets, so that it can do what no library lets it do; and certificates for it."""

import os
import socket
import ssl
import subprocess
import sys
import threading

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "server"))
import served  # noqa: E402


class Request:
    def __init__(self, path, headers, body):
        self.path, self.headers, self.body = path, headers, body


class Peer:
    """answers[path] is called with (connection, request, how many came for this path) and writes what it likes."""

    def __init__(self, context=None):
        self.got, self.answers, self.changed, self.context = [], {}, threading.Condition(), context
        self.connections = 0
        self.listener = socket.create_server(("127.0.0.1", 0), backlog=64)
        self.port = self.listener.getsockname()[1]
        self.url = f"{'https' if context else 'http'}://127.0.0.1:{self.port}"
        threading.Thread(target=self.accept, daemon=True).start()

    def accept(self):
        while True:
            connection, _ = self.listener.accept()
            with self.changed:
                self.connections += 1
            threading.Thread(target=self.serve, args=(connection,), daemon=True).start()

    def serve(self, connection):
        try:
            with connection:
                if self.context:
                    connection = self.context.wrap_socket(connection, server_side=True)
                request = self.read(connection)
                with self.changed:
                    self.got.append(request)
                    count = len(self.of(request.path))
                    self.changed.notify_all()
                self.answers.get(request.path, answer(200))(connection, request, count)
        except (OSError, EOFError):
            pass

    def read(self, connection):
        data = b""
        while b"\r\n\r\n" not in data:
            data += self.more(connection)
        head, body = data.split(b"\r\n\r\n", 1)
        lines = head.decode("latin-1").split("\r\n")
        headers = {name.lower(): value.strip() for name, value in (line.split(":", 1) for line in lines[1:])}
        while len(body) < int(headers.get("content-length", 0)):
            body += self.more(connection)
        return Request(lines[0].split(" ")[1], headers, body)

    @staticmethod
    def more(connection):
        data = connection.recv(65536)
        if not data:
            raise EOFError
        return data

    def of(self, path):
        return [request for request in self.got if request.path == path]

    def wait(self, path, count=1):
        with self.changed:
            if not self.changed.wait_for(lambda: len(self.of(path)) >= count, served.PATIENCE):
                raise AssertionError(f"{path}: {len(self.of(path))} of {count} came")
            return self.of(path)


def answer(status, body=b"", **headers):
    lines = [f"HTTP/1.1 {status} Whatever", f"Content-Length: {len(body)}", *(f"{name.replace('_', '-')}: {value}" for name, value in headers.items())]
    return lambda connection, request, count: connection.sendall("\r\n".join(lines).encode() + b"\r\n\r\n" + body)


def in_turn(*answers):
    """The first time the first one, and from the last one on always that."""
    return lambda connection, request, count: answers[min(count, len(answers)) - 1](connection, request, count)


def raw(data, close=True):
    def write(connection, request, count):
        connection.sendall(data)
        if not close:
            connection.recv(1)  # until the other side has had enough
    return write


def endless(start, piece):
    """Goes on until the other side ends it."""
    def write(connection, request, count):
        connection.sendall(start)
        while True:
            connection.sendall(piece)
    return write


def certificate(folder, name, subject="127.0.0.1"):
    """A self-signed certificate for an address or a name: its own authority. Gives back (certificate, key)."""
    cert, key = f"{folder}/{name}.pem", f"{folder}/{name}.key"
    kind = "IP" if subject[0].isdigit() else "DNS"
    subprocess.run(["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-days", "2", "-keyout", key, "-out", cert,
                    "-subj", f"/CN={subject}", "-addext", f"subjectAltName={kind}:{subject}"], check=True, capture_output=True)
    return cert, key


def tls(cert, key):
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(cert, key)
    return context


def write(path, text, mode=0o600):
    with open(path, "w") as out:
        out.write(text)
    os.chmod(path, mode)
    return path


def config(folder, sections):
    """sections: {name: {setting: value or list of values}}"""
    lines = []
    for name, settings in sections.items():
        lines.append(f"[handler {name}]")
        for setting, values in settings.items():
            lines += [f"{setting.replace('_', '-')} = {value}" for value in (values if isinstance(values, list) else [values])]
    return write(f"{folder}/pawl.conf", "\n".join(lines) + "\n")


def task(server, identity):
    return server.get(f"/v1/tasks/{identity}").json


def ended(server, identity, *states):
    """The task once it is in one of these states."""
    return served.until(f"{identity} is one of {states}", lambda: (lambda t: t if t["display"] in states else None)(task(server, identity)))
