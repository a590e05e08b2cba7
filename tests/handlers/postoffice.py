"""Mail servers for tests: aiosmtpd from the distribution, with a list of all that was said to it; and one that says what it should not."""

import asyncio
import email
import email.policy
import logging
import socket
import threading
import warnings

from aiosmtpd.smtp import SMTP, AuthResult, LoginPassword

logging.disable()  # what it thinks of its clients
warnings.simplefilter("ignore")


class Letter:
    def __init__(self, sender, recipients, content, session):
        self.sender, self.recipients, self.content, self.session = sender, recipients, content, session
        self.message = email.message_from_bytes(content, policy=email.policy.default)


class Mailbox:
    """Recipients whose name begins with later, never: 4xx, 5xx at RCPT; data4, data5: at DATA; once: 4xx the first time."""

    def __init__(self, context=None, implicit=None, login=None, exclude=(), size=None):
        self.letters, self.commands, self.logins, self.seen = [], [], [], set()
        self.changed = threading.Condition()
        self.login = login
        self.loop = asyncio.new_event_loop()
        mailbox = self

        class Recorded(SMTP):
            def __init__(self):
                more = {"authenticator": mailbox.authenticate, "auth_required": True, "auth_require_tls": not implicit, "auth_exclude_mechanism": exclude} if login else {}
                super().__init__(mailbox, tls_context=context, require_starttls=bool(context), enable_SMTPUTF8=False, data_size_limit=size, hostname="mail.test", **more)

            async def _call_handler_hook(self, command, *args):
                mailbox.commands.append((command, args[0] if args else None))
                return await super()._call_handler_hook(command, *args)

        async def start():
            return await self.loop.create_server(Recorded, "127.0.0.1", 0, ssl=implicit)

        self.port = self.loop.run_until_complete(start()).sockets[0].getsockname()[1]
        threading.Thread(target=self.loop.run_forever, daemon=True).start()

    def authenticate(self, server, session, envelope, mechanism, data):
        good = isinstance(data, LoginPassword) and (data.login.decode(), data.password.decode()) == self.login
        self.logins.append((mechanism, good))
        return AuthResult(success=good, handled=False)

    def refusal(self, address, early):
        name = address.split("@")[0].split(".")[0]
        if name == "once" and early and address not in self.seen:
            self.seen.add(address)
            return "450 4.2.0 not yet"
        return {"later": "450 4.2.1 busy", "never": "550 5.1.1 nobody"}.get(name) if early else {"data4": "451 4.3.0 full", "data5": "554 5.6.0 no"}.get(name)

    async def handle_RCPT(self, server, session, envelope, address, options):
        refusal = self.refusal(address, True)
        if not refusal:
            envelope.rcpt_tos.append(address)
        return refusal or "250 OK"

    async def handle_DATA(self, server, session, envelope):
        refusal = next((found for found in (self.refusal(address, False) for address in envelope.rcpt_tos) if found), None)
        with self.changed:
            if not refusal:
                self.letters.append(Letter(envelope.mail_from, list(envelope.rcpt_tos), envelope.original_content, session))
            self.changed.notify_all()
        return refusal or "250 2.0.0 taken as 4711"

    def count(self, command):
        return sum(1 for name, _ in self.commands if name == command)


class Wire:
    """Between the two: writes down, byte for byte, what the client says."""

    def __init__(self, port):
        self.port, self.transcripts = port, []
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.listens = self.listener.getsockname()[1]
        threading.Thread(target=self.accept, daemon=True).start()

    def accept(self):
        while True:
            near, _ = self.listener.accept()
            far = socket.create_connection(("127.0.0.1", self.port))
            said = bytearray()
            self.transcripts.append(said)
            threading.Thread(target=self.move, args=(near, far, said), daemon=True).start()
            threading.Thread(target=self.move, args=(far, near, None), daemon=True).start()

    @staticmethod
    def move(source, target, said):
        try:
            while data := source.recv(65536):
                if said is not None:
                    said += data
                target.sendall(data)
            target.shutdown(socket.SHUT_WR)
        except OSError:
            pass


def commands(transcript):
    """The command lines of a transcript, without what stands between DATA and the dot; and that, without the stuffing."""
    lines, messages, rest = [], [], bytes(transcript)
    while b"\r\n" in rest:
        line, rest = rest.split(b"\r\n", 1)
        lines.append(line)
        if line == b"DATA":
            if rest.startswith(b".\r\n"):
                message, rest = b"", rest[3:]
            else:
                message, rest = rest.split(b"\r\n.\r\n", 1)
            messages.append(b"\r\n".join(part[1:] if part.startswith(b".") else part for part in (message + b"\r\n").split(b"\r\n")))
    return lines, messages


class Odd:
    """Says `script`, piece by piece: bytes are said, a number waits for so many lines, "end" hangs up, "hang" waits for the other side."""

    def __init__(self, *script):
        self.script, self.heard = script, []
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.port = self.listener.getsockname()[1]
        threading.Thread(target=self.accept, daemon=True).start()

    def accept(self):
        while True:
            connection, _ = self.listener.accept()
            threading.Thread(target=self.talk, args=(connection,), daemon=True).start()

    def talk(self, connection):
        with connection, connection.makefile("rb") as lines:
            try:
                for piece in self.script:
                    if isinstance(piece, bytes):
                        connection.sendall(piece)
                    elif isinstance(piece, int):
                        self.heard += [lines.readline() for _ in range(piece)]
                    elif piece == "until dot":
                        while lines.readline() not in (b".\r\n", b""):
                            pass
                    elif piece == "hang":
                        lines.read()
                    elif piece == "flood":
                        while True:
                            connection.sendall(b"250-more\r\n" * 100)
            except OSError:
                pass
