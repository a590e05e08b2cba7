#!/usr/bin/python3
"""The handler email against a mail server of the distribution, whose transcript is looked at, and against one that misbehaves."""

import base64
import email
import email.header
import os
import random
import subprocess
import sys
import tempfile

import peer
import postoffice
import served
from peer import ended, task

checks = served.Checks()
LOGIN = ("pawl", "s3cret \u00fc")
EVIL = "evil@example.org"
INJECTIONS = ["\r\nBcc: evil@example.org", "\nRCPT TO:<evil@example.org>", "\r\n.\r\nMAIL FROM:<evil@example.org>\r\n", "\r\n\r\n.\r\nDATA", "\0", "\rX", ">\r\nDATA", "a\u2028Bcc: evil@example.org", "\u0085x", "\x7f", "\x1b[2J", "x\ty"]


def post(server, kind, payload, **more):
    made = server.post("/v1/tasks", {"type": kind, "payload": payload, **more})
    checks.equal(f"{kind} is taken", made.status, 201)
    return made.json["id"]


def send(server, kind, payload, *states):
    return ended(server, post(server, kind, payload), *(states or ("succeeded", "failed", "retrying")))


def letter(**more):
    return {"to": "ann@example.org", "subject": "Hello", "text": "Hello, Ann.\n", **more}


def part(message, kind):
    return next(p.get_content() for p in message.walk() if p.get_content_type() == kind)


def lines_of(text):
    return text.replace("\r\n", "\n").replace("\r", "\n").rstrip("\n")


def sound(name, content):
    lines = content.split(b"\r\n")
    checks.that(f"{name}: lines end in CR LF and are short", max(map(len, lines)) <= 78 and b"\n" not in content.replace(b"\r\n", b"") and b"\r" not in content.replace(b"\r\n", b""), max(lines, key=len))
    checks.that(f"{name}: ASCII", all(byte < 127 and (byte >= 32 or byte in b"\r\n\t") for byte in content))


def plain(server, box, wire):
    done = send(server, "plain", letter())
    checks.equal("taken", (done["state"], done["result"]["recipients"]), ("succeeded", 1))
    got = box.letters[-1]
    lines, messages = postoffice.commands(wire.transcripts[-1])
    checks.equal("said", lines, [b"EHLO client.test", b"MAIL FROM:<shop@example.com> SIZE=%d" % len(messages[0]), b"RCPT TO:<ann@example.org>", b"DATA", b"QUIT"])
    checks.equal("the message that was said is the one that was taken", messages[0], got.content)
    checks.equal("headers", [got.message[name] for name in ("From", "To", "Subject", "MIME-Version", "Auto-Submitted")],
                 ["The \"Shop\" <shop@example.com>".replace('The "Shop"', '"The \\"Shop\\""'), "ann@example.org", "Hello", "1.0", "auto-generated"])
    checks.equal("id", (got.message["Message-ID"], done["result"]["message_id"]), (f"<{done['result']['message_id']}>", done["result"]["message_id"]))
    checks.that("of the task and the sender's domain", done["id"] in got.message["Message-ID"] and got.message["Message-ID"].endswith("@example.com>"))
    checks.equal("text", lines_of(got.message.get_content()), "Hello, Ann.")


def rich(server, box):
    subject = "Gr\u00fc\u00dfe \u2603 " + "sehr lang " * 30 + "\U0001f600" * 20
    names = ["r\u00e9sum\u00e9 \"1\"; x=y.pdf", "plain name.txt", "a" * 150 + "\u00fc.csv", "=?UTF-8?B?eA==?=", "per%20cent'.txt", "\u65e5\u672c\u8a9e" * 20]
    data = [bytes(range(256)) * 40, b".\r\n.\r\n", b"", b"x" * 57, b"--=_mixed--\r\n", b"\r\n.\r\nQUIT\r\n"]
    text = "Zeile eins\n.\n..\n.punkt\r\nmit CR\rEnde  \n--=_mixed\n--=_alternative--\nFrom me\n" + "lang" * 2000 + "\n\u2603 = \x01\x7f \t\n"
    html = "<p>H\u00e4llo &amp; <b>all</b></p>\n.\n"
    payload = letter(to=[{"name": "Ann \"A\" M\u00fcller, jr.", "address": "ann@example.org"}, "bob@example.org", {"address": "cy@example.org", "name": "Cy <cy>"}], cc={"name": "x" * 190, "address": "dee@example.org"},
                     bcc=["hidden@example.org", "ann@example.org"], reply_to=["help@example.com"], subject=subject, text=text, html=html,
                     headers={"X-Order": "42 \u2603", "List-Unsubscribe": "<mailto:off@example.com>", "In-Reply-To": "<a@b>"},
                     attachments=[{"name": n, "type": "application/pdf" if n.endswith("pdf") else "text/csv", "content": base64.b64encode(d).decode()} for n, d in zip(names, data)] + [{"name": "t.txt", "text": "t\u00fc\n"}])
    done = send(server, "plain", payload)
    checks.equal("a rich letter", (done["state"], done.get("error")), ("succeeded", None))
    got = box.letters[-1]
    m = got.message
    sound("rich", got.content)
    checks.equal("everybody once", got.recipients, ["ann@example.org", "bob@example.org", "cy@example.org", "dee@example.org", "hidden@example.org"])
    checks.that("bcc is not told", b"hidden" not in got.content and m["Bcc"] is None)
    checks.equal("subject", m["Subject"], subject.rstrip() if not subject.endswith(" ") else subject)
    checks.equal("names", [(a.display_name, a.addr_spec) for a in m["To"].addresses], [("Ann \"A\" M\u00fcller, jr.", "ann@example.org"), ("", "bob@example.org"), ("Cy <cy>", "cy@example.org")])
    words = email.header.decode_header(email.message_from_bytes(got.content)["Cc"])  # the newer parser puts spaces between encoded words of a name
    checks.equal("a long name", words[0][0].decode(), "x" * 190)
    checks.equal("others", (m["Reply-To"], m["X-Order"], m["List-Unsubscribe"], m["In-Reply-To"]), ("help@example.com", "42 \u2603", "<mailto:off@example.com>", "<a@b>"))
    checks.equal("text", lines_of(part(m, "text/plain")), lines_of(text))
    checks.equal("html", lines_of(part(m, "text/html")), lines_of(html))
    files = list(m.iter_attachments())
    checks.equal("names of files", [f.get_filename() for f in files], names + ["t.txt"])
    checks.equal("files", [f.get_payload(decode=True) for f in files], data + ["t\u00fc\n".encode()])
    checks.equal("shape", [p.get_content_type() for p in m.walk()][:4], ["multipart/mixed", "multipart/alternative", "text/plain", "text/html"])


def templates(server, box, folder):
    os.makedirs(f"{folder}/templates", exist_ok=True)
    peer.write(f"{folder}/templates/welcome.subject", "Welcome, {{ user.name }}!\n")
    peer.write(f"{folder}/templates/welcome.txt", "Dear {{user.name}}, you owe {{sum}} ({{ok}}{{none}}).\n")
    peer.write(f"{folder}/templates/welcome.html", "<p title=\"{{user.name}}\">Dear {{user.name}}</p>{{sum}}\n")
    peer.write(f"{folder}/templates/open.txt", "{{ never closed")
    peer.write(f"{folder}/templates/odd.txt", "{{#each x}}")
    name = "<script>alert(1)</script> \"O'Neil\" & `Co` {{sum}}"
    fields = {"user": {"name": name}, "sum": 12.50, "ok": True, "none": None}
    done = send(server, "plain", {"to": "ann@example.org", "template": "welcome", "fields": fields})
    checks.equal("a template", (done["state"], done.get("error")), ("succeeded", None))
    m = box.letters[-1].message
    checks.equal("subject", m["Subject"], f"Welcome, {name}!")
    checks.equal("text", lines_of(part(m, "text/plain")), f"Dear {name}, you owe 12.5 (true).")
    safe = "&lt;script&gt;alert(1)&lt;/script&gt; &quot;O&#39;Neil&quot; &amp; &#96;Co&#96; {{sum}}"
    checks.equal("html is escaped", lines_of(part(m, "text/html")), f"<p title=\"{safe}\">Dear {safe}</p>12.5")
    for wrong in ({"template": "none"}, {"template": "../templates/welcome"}, {"template": "welcome.txt"}, {"template": ""}, {"template": "welcome\0"}, {"template": "open"}, {"template": "odd"},
                  {"template": "welcome", "fields": {}}, {"template": "welcome", "fields": []}, {"template": "welcome", "fields": {**fields, "sum": [1]}}, {"template": "welcome", "fields": {**fields, "user": "x"}},
                  *({"template": "welcome", "fields": {**fields, "user": {"name": "x" + bad}}} for bad in INJECTIONS)):
        count = len(box.letters)
        done = send(server, "plain", {"to": "ann@example.org", "subject": "x", **wrong} if wrong.get("template") in ("open", "odd") else {"to": "ann@example.org", **wrong})
        checks.equal(f"refused: {str(wrong)[:70]!r}", (done["state"], done["code"] in ("bad_payload", "no_template"), len(box.letters)), ("failed", True, count))


def hostile(server, box, wire):
    """Whatever a field holds: refused, or one MAIL, a RCPT for each, one DATA."""
    b64 = base64.b64encode(b"x").decode()
    places = {
        "to": lambda s: letter(to=s), "address": lambda s: letter(to={"name": "x", "address": s}), "in an address": lambda s: letter(to="ann" + s + "@example.org"), "behind an address": lambda s: letter(to="ann@example.org" + s),
        "name": lambda s: letter(to={"name": "A" + s, "address": "ann@example.org"}), "subject": lambda s: letter(subject="S" + s), "cc": lambda s: letter(cc="ann@example.org" + s), "reply_to": lambda s: letter(reply_to=s),
        "header": lambda s: letter(headers={"X-A": "v" + s}), "header name": lambda s: letter(headers={"X-A" + s: "v"}), "file": lambda s: letter(attachments=[{"name": "n" + s, "content": b64}]),
        "type": lambda s: letter(attachments=[{"name": "n", "type": "text/plain" + s, "content": b64}])}
    for where, make in places.items():
        for text in INJECTIONS:
            before = len(wire.transcripts)
            done = send(server, "plain", make(text))
            checks.equal(f"{where} {text!r}", (done["state"], done["code"], len(wire.transcripts)), ("failed", "bad_payload", before))
    for address in ("a b@example.org", "<a@example.org>", "a@example.org,b@example.org", "a@b@example.org", "a@", "@example.org", "a@-x.org", "a@x..org", "a..b@x.org", ".a@x.org", "a@[127.0.0.1]", "\"a b\"@x.org",
                    "j\u00fcrgen@example.org", "a@m\u00fcller.de", "a(c)@x.org", "x" * 65 + "@x.org", "a@" + "x" * 64 + ".org", "a@" + "x." * 130 + "org", "a@x.org SIZE=1", "-", ""):
        checks.equal(f"no address: {address[:40]!r}", send(server, "plain", letter(to=address))["code"], "bad_payload")
    for wrong in ({}, {"to": "a@x.org"}, {"subject": "x", "text": "x"}, letter(odd=1), letter(to=[]), letter(to=[["a@x.org"]]), letter(to=["a%d@x.org" % n for n in range(101)]), letter(text=1), letter(text="a\0b"), letter(html="\0"),
                  letter(headers={"From": EVIL}), letter(headers={"bcc": EVIL}), letter(headers={"Content-Type": "text/html"}), letter(headers={"DKIM-Signature": "x"}), letter(headers=["x"]), letter(attachments={}),
                  letter(attachments=[{"name": "x"}]), letter(attachments=[{"name": "x", "content": "no base64"}]), letter(attachments=[{"name": "../x", "content": b64}]), letter(attachments=[{"name": "", "content": b64}]),
                  letter(attachments=[{"name": "x", "type": "multipart/mixed", "content": b64}]), letter(attachments=[{"name": "x", "type": "message/rfc822", "content": b64}]), letter(attachments=[{"name": "x", "content": b64, "text": "x"}]),
                  letter(to={"address": "a@x.org", "odd": 1}), letter(**{"from": EVIL}), letter(subject="x" * 1001), "x", [1], letter(template="x")):
        checks.equal(f"refused: {str(wrong)[:60]}", send(server, "plain", wrong)["code"], "bad_payload")
    bodies(server, box, wire)


def bodies(server, box, wire):
    """Texts may hold anything. They arrive as they were, and nothing in them is a command."""
    chance = random.Random(4711)
    pieces = ["\r\n.\r\n", "\n.\n", ".", "..", "\r", "\n", "\r\n", "MAIL FROM:<evil@example.org>", "RCPT TO:<evil@example.org>", "DATA", "QUIT", "--=_mixed--", "--=_alternative", "=", "=3D", " ", "\t", "\u2603", "\x01", "x" * 999, "From ", "\u0085", "\u2028"]
    expected = []
    before = len(box.letters)
    for _ in range(25):
        text, html = ("".join(chance.choices(pieces, k=chance.randint(1, 30))) for _ in range(2))
        to = [f"r{n}@example.org" for n in range(chance.randint(1, 5))]
        file = "".join(chance.choices(pieces, k=20)).encode()
        expected.append((post(server, "plain", letter(to=to, text=text, html=html, attachments=[{"name": "f", "content": base64.b64encode(file).decode()}])), to, text, html, file))
    made = {identity: ended(server, identity, "succeeded", "failed") for identity, *_ in expected}
    checks.equal("all were taken", {done["state"] for done in made.values()}, {"succeeded"})
    letters = {found.message["Message-ID"]: found for found in box.letters[before:]}
    for identity, to, text, html, file in expected:
        got = letters[f"<{made[identity]['result']['message_id']}>"]
        sound("body", got.content)
        checks.equal("recipients", got.recipients, to)
        # Python takes more for line ends than CR and LF, and so reads bytes
        parts = [p.get_payload(decode=True) for p in got.message.walk() if not p.is_multipart()]
        checks.equal("contents", [lines_of(parts[0].decode()), lines_of(parts[1].decode()), parts[2]], [lines_of(text), lines_of(html), file])
    for transcript in wire.transcripts:
        lines, messages = postoffice.commands(transcript)
        verbs = [line.split(b" ")[0].split(b":")[0] for line in lines]
        checks.that("one MAIL, n RCPT, one DATA", verbs[:2] == [b"EHLO", b"MAIL"] and verbs[-2:] == [b"DATA", b"QUIT"] and set(verbs[2:-2]) == {b"RCPT"} and len(messages) == 1 and EVIL.encode() not in b"".join(lines), lines)


def refusals(server, box):
    for kind, to, state, code in (("plain", "later@example.org", "failed", "smtp_450"), ("plain", "never@example.org", "failed", "smtp_550"), ("plain", "data4@example.org", "failed", "smtp_451"), ("plain", "data5@example.org", "failed", "smtp_554"),
                                  ("retried", "later@example.org", "retrying", "smtp_450"), ("retried", "never@example.org", "failed", "smtp_550"), ("retried", "data4@example.org", "retrying", "smtp_451"), ("retried", "data5@example.org", "failed", "smtp_554"),
                                  ("retried", ["ann@example.org", "later@example.org", "never@example.org"], "failed", "smtp_550"), ("retried", ["ann@example.org", "later@example.org"], "retrying", "smtp_450")):
        count = len(box.letters)
        done = send(server, kind, letter(to=to))
        checks.equal(f"{kind} {to}", (done["state"] if state == "failed" else done["display"], done["code"], len(box.letters)), (state, code, count))
    checks.that("the error names them", "<later@example.org> (450" in done["error"] and "1 of 2" in done["error"], done["error"])
    before = len(box.letters), box.count("DATA")
    done = send(server, "again", letter(to=["once@example.org", "ann@example.org"]), "succeeded")
    checks.equal("tried again", (done["attempt"], len(box.letters) - before[0], box.count("DATA") - before[1]), (2, 1, 1))
    checks.equal("under the id of its task", box.letters[-1].message["Message-ID"].split(".")[1], done["id"])
    checks.equal("a domain that is not allowed", send(server, "ours", letter(to=["ann@example.org", "x@elsewhere.org"]))["code"], "not_allowed")
    checks.equal("one that is", send(server, "ours", letter(to="ann@EXAMPLE.org"))["state"], "succeeded")
    checks.equal("bounces go elsewhere", (box.letters[-1].sender, box.letters[-1].message["From"].addresses[0].addr_spec), ("bounces@example.com", "shop@example.com"))
    checks.equal("too large for the server", send(server, "small", letter(text="x" * 3000))["code"], "smtp_250")


def encrypted(server, boxes, folder):
    for kind in ("starttls", "implicit", "login"):
        done = send(server, kind, letter())
        checks.equal(kind, (done["state"], done.get("error"), len(boxes[kind].letters)), ("succeeded", None, 1))
    checks.equal("logins", [boxes[kind].logins for kind in ("starttls", "implicit", "login")], [[("PLAIN", True)], [("PLAIN", True)], [("LOGIN", True)]])
    for kind in ("untrusted", "wrong"):
        done = send(server, kind, letter())
        checks.equal(f"{kind} certificate", (done["state"], "certificate" in done["error"]), ("failed", True))
    checks.equal("nobody logged in there", (len(boxes["starttls"].logins), len(boxes["wrong"].logins)), (1, 0))
    checks.equal("a server without TLS", send(server, "downgraded", letter())["error"].split(":")[0], "127.0.0.1 offers no STARTTLS")
    peer.write(f"{folder}/password", "wrong\n")
    done = send(server, "starttls", letter())
    checks.equal("a wrong password", (done["state"], done["code"], "wrong" in done["error"]), ("failed", "smtp_535", False))
    os.chmod(f"{folder}/password", 0o640)
    checks.equal("one that others can read", send(server, "starttls", letter())["code"], "no_secret")
    peer.write(f"{folder}/password", LOGIN[1] + "\n")


EHLO = b"250-odd\r\n250-SIZE 1000000\r\n250 STARTTLS\r\n"
ODD = {
    "hangs": (("hang",), "smtp_no_answer"), "closes": ((), "smtp_no_answer"), "http": ((b"HTTP/1.1 400 Bad Request\r\n\r\n", "hang"), "smtp_no_answer"), "busy": ((b"421 later\r\n", "hang"), "smtp_421"),
    "closed": ((b"554 no\r\n", "hang"), "smtp_554"), "endless line": ((b"220 " + b"x" * 100000, "hang"), "smtp_no_answer"), "flood": ((b"220 hi\r\n", 1, "flood"), "smtp_220"), "nul": ((b"220 a\0b\r\n", "hang"), "smtp_no_answer"),
    "mixed": ((b"220-a\r\n250 b\r\n", "hang"), "smtp_no_answer"), "stops": ((b"220 hi\r\n", 1, EHLO, 1, b"250 ok\r\n", 1), "smtp_250"), "no data": ((b"220 hi\r\n", 1, EHLO, 1, b"250 ok\r\n", 1, b"250 ok\r\n", 1, b"250 ok\r\n", "hang"), "smtp_250"),
    "silent after the dot": ((b"220 hi\r\n", 1, EHLO, 1, b"250 ok\r\n", 1, b"250 ok\r\n", 1, b"354 go\r\n", "until dot", "hang"), "smtp_unknown"),
    "gone after the dot": ((b"220 hi\r\n", 1, EHLO, 1, b"250 ok\r\n", 1, b"250 ok\r\n", 1, b"354 go\r\n", "until dot"), "smtp_unknown"),
    "half a word": ((b"220 hi\r\n", 1, EHLO, 1, b"250 ok\r\n", 1, b"250 ok\r\n", 1, b"354 go\r\n", "until dot", b"25"), "smtp_unknown"),
}


def misbehaves(server, odd, injected):
    made = {name: post(server, name.replace(" ", "-"), letter()) for name in ODD}
    for name, (_, code) in ODD.items():
        done = ended(server, made[name], "failed", "succeeded", "retrying")
        checks.equal(name, (done["state"], done["code"]), ("failed", code))
    checks.that("what may have been sent is called so", "may have been sent" in task(server, made["gone after the dot"])["error"])
    done = send(server, "injected", letter())
    checks.that("an answer in the clear behind STARTTLS", done["state"] == "failed" and "in the clear" in done["error"], done["error"])
    checks.equal("and nothing was said after it", [line[:8] for line in injected.heard], [b"EHLO cli", b"STARTTLS"])
    identity = post(server, "patient", letter())
    served.until("somebody waits", lambda: odd["hangs"].script and task(server, identity)["display"] == "running")
    server.post(f"/v1/tasks/{identity}/cancel")
    checks.equal("a cancel ends the wait", ended(server, identity, "cancelled", "failed")["state"], "cancelled")


def wrong_settings(folder):
    right = {"kind": "email", "host": "mail.example.org", "from": "a@example.org"}
    for wrong in ({"from": "nonsense"}, {"from": "A <a@example.org>"}, {"host": "a b"}, {"bounces": "x"}, {"from_name": "a\x01"}, {"user": "x"}, {"password": "password"}, {"user": "x", "password": "none"},
                  {"user": "x", "password": "password", "tls": "none"}, {"tls": "ssl"}, {"port": "0"}, {"ca_file": "none"}, {"templates": "none"}, {"hello": "a b"}, {"domains": "a@b"}):
        path = peer.config(folder, {"mail": {**right, **wrong}})
        checked = subprocess.run([served.PAWL, "config", "check", path], cwd=folder, capture_output=True, text=True)
        checks.that(f"refused: {wrong}", checked.returncode and "line" in checked.stderr, checked)
    path = peer.config(folder, {"mail": right})
    checks.that("a right one", "right" in served.pawl("config", "check", path, folder=folder))


def main():
    with tempfile.TemporaryDirectory() as folder:
        right, wrong = peer.tls(*peer.certificate(folder, "right")), peer.tls(*peer.certificate(folder, "wrong", "other.example.org"))
        box = postoffice.Mailbox(size=1 << 24)
        wire = postoffice.Wire(box.port)
        boxes = {"starttls": postoffice.Mailbox(context=right, login=LOGIN), "implicit": postoffice.Mailbox(implicit=right, login=LOGIN), "login": postoffice.Mailbox(context=right, login=LOGIN, exclude=["PLAIN"]),
                 "wrong": postoffice.Mailbox(context=wrong, login=LOGIN), "small": postoffice.Mailbox(size=2000)}
        odd = {name: postoffice.Odd(*script) for name, (script, _) in ODD.items()}
        injected = postoffice.Odd(b"220 hi\r\n", 1, EHLO, 1, b"220 go\r\n250-odd\r\n250 AUTH PLAIN\r\n", "hang")
        peer.write(f"{folder}/password", LOGIN[1] + "\n")
        os.makedirs(f"{folder}/templates")
        common = {"kind": "email", "host": "127.0.0.1", "from": "shop@example.com", "hello": "client.test"}
        clear = {**common, "tls": "none", "port": box.port}
        secure = {**common, "ca_file": "right.pem", "user": LOGIN[0], "password": "password"}
        sections = {"plain": {**clear, "port": wire.listens, "from_name": "The \"Shop\"", "templates": "templates"}, "retried": {**clear, "max_attempts": 3, "retry_delay": "1d"}, "again": {**clear, "max_attempts": 3, "retry_delay": "10ms"},
                    "ours": {**clear, "domains": "example.com, example.org", "bounces": "bounces@example.com"}, "small": {**clear, "port": boxes["small"].port},
                    "starttls": {**secure, "port": boxes["starttls"].port}, "implicit": {**secure, "tls": "implicit", "port": boxes["implicit"].port}, "login": {**secure, "port": boxes["login"].port},
                    "untrusted": {**common, "port": boxes["starttls"].port}, "wrong": {**secure, "ca_file": "wrong.pem", "port": boxes["wrong"].port}, "downgraded": {**secure, "port": box.port},
                    "injected": {**secure, "port": injected.port}, "patient": {**clear, "port": odd["hangs"].port, "send_timeout": "10m"}}
        sections.update({name.replace(" ", "-"): {**clear, "port": server.port, "send_timeout": "1500ms"} for name, server in odd.items()})
        peer.config(folder, sections)
        with served.Server("--config", "pawl.conf", folder=folder) as server:
            plain(server, box, wire)
            rich(server, box)
            templates(server, box, folder)
            hostile(server, box, wire)
            refusals(server, box)
            encrypted(server, boxes, folder)
            misbehaves(server, odd, injected)
        wrong_settings(folder)
    return checks.end()


if __name__ == "__main__":
    sys.exit(main())
