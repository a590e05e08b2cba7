"""A gate between nodes and a PostgreSQL server: what passes it can be held back, lost or cut off.

A Gate listens on a unix socket of its own and passes messages on, whole ones, to the server's socket. It reads as much of the
protocol as it needs to know which statement a message executes.
"""

import os
import shutil
import socket
import struct
import tempfile
import threading

import proc

SOCKET = ".s.PGSQL.5432"


class Link:
    """One connection: two threads, each passing on what comes from one side."""

    def __init__(self, gate, client):
        self.gate, self.client = gate, client
        self.server = socket.socket(socket.AF_UNIX)
        self.server.connect(os.path.join(gate.behind, SOCKET))
        self.sql = {}  # name of a statement -> its text
        self.begun = False  # the first message of a client has no type
        self.losing = False
        for source, pass_on in ((self.client, self.to_server), (self.server, self.to_client)):
            threading.Thread(target=self.pump, args=(source, pass_on), daemon=True).start()

    def pump(self, source, pass_on):
        rest = b""
        try:
            while data := source.recv(1 << 16):
                rest = self.messages(rest + data, pass_on)
        except OSError:
            pass
        self.close()

    def messages(self, data, pass_on):
        while True:
            head = 0 if pass_on == self.to_server and not self.begun else 1
            if len(data) < head + 4:
                return data
            size = head + struct.unpack_from("!i", data, head)[0]
            if len(data) < size:
                return data
            pass_on(data[:size], data[:head])
            data = data[size:]

    def to_server(self, message, kind):
        self.begun = True
        self.gate.wait_open("to_server", self)
        if kind == b"P":
            name, text = message[5:].split(b"\0")[:2]
            self.sql[name] = text.decode()
        elif kind == b"B":
            self.losing |= self.gate.loses(self.sql.get(message[5:].split(b"\0")[1], ""))
        self.server.sendall(message)

    def to_client(self, message, kind):
        self.gate.wait_open("to_client", self)
        if not self.losing:
            self.client.sendall(message)
        elif kind == b"Z":  # the server is done: what it did is committed
            self.close()
            self.gate.lost.set()

    def close(self):
        for side in (self.client, self.server):
            try:
                side.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass


class Gate:
    def __init__(self, behind):
        self.behind, self.folder = behind, tempfile.mkdtemp(prefix="pawl-gate-")
        self.changed = threading.Condition()
        self.held = set()  # of "to_server" and "to_client"
        self.frozen = set()  # links that nothing passes any more
        self.pattern = None
        self.passed = []  # the statements
        self.lost = threading.Event()
        self.links = []
        self.listener = socket.socket(socket.AF_UNIX)
        self.listener.bind(os.path.join(self.folder, SOCKET))
        self.listener.listen(64)
        threading.Thread(target=self.accept, daemon=True).start()

    def accept(self):
        while True:
            try:
                client, _ = self.listener.accept()
                self.links.append(Link(self, client))
            except OSError:
                return

    def wait_open(self, way, link):
        with self.changed:
            self.changed.wait_for(lambda: way not in self.held and link not in self.frozen)

    def hold(self, *ways):
        """From now on nothing passes; what comes waits."""
        with self.changed:
            self.held = set(ways)

    def freeze(self):
        """Nothing passes the connections that there are, and nobody is told; new ones are well."""
        with self.changed:
            self.frozen = set(self.links)

    def cut(self):
        """All connections break; what waited is lost."""
        for link in self.links:
            link.close()

    def open(self):
        with self.changed:
            self.held, self.frozen = set(), set()
            self.changed.notify_all()

    def lose_answer(self, pattern):
        """The next statement with this text is executed; its answer is lost with the connection."""
        self.lost.clear()
        with self.changed:
            self.pattern = pattern

    def loses(self, text):
        """Whether the answer to this statement, which is about to pass, is to be lost."""
        with self.changed:
            self.passed.append(text)
            self.changed.notify_all()
            if not self.pattern or self.pattern not in text:
                return False
            self.pattern = None
            return True

    def expect_passed(self, pattern, count):
        """Waits until so many statements with this text have passed from now on."""
        with self.changed:
            since = len(self.passed)
            enough = self.changed.wait_for(lambda: sum(pattern in text for text in self.passed[since:]) >= count, proc.deadline(30))
            if not enough:
                raise proc.Failure(f"nobody asked {pattern} {count} times")

    def expect_lost(self):
        if not self.lost.wait(proc.deadline(30)):
            raise proc.Failure("no answer was lost")

    def close(self):
        self.listener.close()
        self.open()
        self.cut()
        shutil.rmtree(self.folder, ignore_errors=True)
