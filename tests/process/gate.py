"""A gate between nodes and a database server: what passes it can be held back, lost or cut off.

A Gate listens on a unix socket of its own and passes messages on, whole ones, to the server's socket. A Link, one connection,
reads as much of the protocol as it needs to know which call of the store a message belongs to.
"""

import os
import re
import shutil
import socket
import struct
import tempfile
import threading

import proc


class Link:
    """One connection: two threads, each passing on what comes from one side."""

    SOCKET = None  # the name of the server's socket in its folder
    CALLS = {}  # by what a statement is known to end a call of the store: where it may commit

    def __init__(self, gate, client):
        self.gate, self.client = gate, client
        self.server = socket.socket(socket.AF_UNIX)
        self.server.connect(os.path.join(gate.behind, self.SOCKET))
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
        self.ended(source)
        self.close()

    def messages(self, data, pass_on):
        while (size := self.size(data, pass_on)) and len(data) >= size:
            pass_on(data[:size])
            data = data[size:]
        return data

    def ended(self, source):
        pass

    def close(self):
        for side in (self.client, self.server):
            try:
                side.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass


class PostgresLink(Link):
    SOCKET = ".s.PGSQL.5432"
    CALLS = {"apply": "pawl_apply", "claim": "pawl_claim", "renew": "pawl_renew"}

    def __init__(self, gate, client):
        self.sql = {}  # name of a statement -> its text
        self.begun = False  # the first message of a client has no type
        self.answering = False  # an answer that has begun to pass passes whole: its client may act on what it has of it
        super().__init__(gate, client)

    def size(self, data, pass_on):
        """Of the first message, if that is known yet."""
        head = 0 if pass_on == self.to_server and not self.begun else 1
        return head + struct.unpack_from("!i", data, head)[0] if len(data) >= head + 4 else 0

    def to_server(self, message):
        kind = message[:1] if self.begun else b""
        self.begun = True
        self.gate.wait_open("to_server", self)
        if kind == b"P":
            name, text = message[5:].split(b"\0")[:2]
            self.sql[name] = text.decode()
        elif kind == b"B":
            self.losing |= self.gate.loses(self.sql.get(message[5:].split(b"\0")[1], ""))
        self.server.sendall(message)

    def to_client(self, message):
        if not self.answering:
            self.gate.wait_open("to_client", self)
        if message[:1] != b"A":  # news may come between answers
            self.answering = message[:1] != b"Z"
        if not self.losing:
            self.client.sendall(message)
        elif message[:1] == b"Z":  # the server is done: what it did is committed
            self.close()
            self.gate.lost.set()


class MariaLink(Link):
    SOCKET = "socket"
    CALLS = {"apply": r"SET number = .*COMMIT", "claim": r"INTO \S*pawl_leased .*given up.*COMMIT",
             "renew": r"renewal = renewal \+ 1.*pawl_cancel.*COMMIT"}
    QUIT = b"\1\0\0\0\1"

    def size(self, data, _):
        """Of the first message, if that is known yet."""
        return 4 + int.from_bytes(data[:3], "little") if len(data) >= 4 else 0

    def to_server(self, message):
        self.gate.wait_open("to_server", self)
        if message[3] == 0:  # the first of its exchange, so a command
            self.losing |= self.gate.loses(message[5:].decode(errors="replace"))
        self.server.sendall(message + (self.QUIT if self.losing else b""))

    def to_client(self, message):
        self.gate.wait_open("to_client", self)
        if not self.losing:
            self.client.sendall(message)

    def ended(self, source):
        if self.losing and source == self.server:  # it did what it was asked, and then went as it was told
            self.close()
            self.gate.lost.set()


class Gate:
    def __init__(self, behind, link):
        self.behind, self.link, self.folder = behind, link, tempfile.mkdtemp(prefix="pawl-gate-")
        self.changed = threading.Condition()
        self.held = set()  # of "to_server" and "to_client"
        self.frozen = set()  # links that nothing passes any more
        self.pattern = None
        self.passed = []  # the statements
        self.lost = threading.Event()
        self.links = []
        self.listener = socket.socket(socket.AF_UNIX)
        self.listener.bind(os.path.join(self.folder, link.SOCKET))
        self.listener.listen(64)
        threading.Thread(target=self.accept, daemon=True).start()

    def accept(self):
        while True:
            try:
                client, _ = self.listener.accept()
                self.links.append(self.link(self, client))
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

    def lose_answer(self, call):
        """The next statement that ends this call is executed; its answer is lost with the connection."""
        self.lost.clear()
        with self.changed:
            self.pattern = self.link.CALLS[call]

    def loses(self, text):
        """Whether the answer to this statement, which is about to pass, is to be lost."""
        with self.changed:
            self.passed.append(text)
            self.changed.notify_all()
            if not self.pattern or not self.matches(self.pattern, text):
                return False
            self.pattern = None
            return True

    @staticmethod
    def matches(pattern, text):
        return re.search(pattern, text, re.DOTALL) is not None

    def expect_passed(self, call, count):
        """Waits until so many calls of this kind have passed from now on."""
        pattern = self.link.CALLS[call]
        with self.changed:
            since = len(self.passed)
            enough = self.changed.wait_for(lambda: sum(self.matches(pattern, text) for text in self.passed[since:]) >= count,
                                           proc.deadline(30))
            if not enough:
                raise proc.Failure(f"there were no {count} calls of {call}")

    def expect_lost(self):
        if not self.lost.wait(proc.deadline(30)):
            raise proc.Failure("no answer was lost")

    def close(self):
        self.listener.close()
        self.open()
        self.cut()
        shutil.rmtree(self.folder, ignore_errors=True)
