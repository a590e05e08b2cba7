#!/usr/bin/env python3
"""TLS between a program and its server, with certificates of the test's own: what must be encrypted is, and a server is not taken for another.

    server_tls.py KIND
"""

import os
import socket
import subprocess
import sys

import proc
import servers

PAWL = os.environ.get("PAWL_BIN", "pawl")


class Authority:
    """One that signs certificates, in a folder that the server can read."""

    def __init__(self, folder, name):
        self.folder, self.name = folder, name
        self.certificate = self.path("ca.pem")
        self.openssl("req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", "2", "-subj", f"/CN={name}",
                     "-keyout", self.path("ca.key"), "-out", self.certificate)

    def path(self, name):
        return os.path.join(self.folder, f"{self.name}.{name}")

    @staticmethod
    def openssl(*args):
        done = subprocess.run(["openssl", *args], capture_output=True, text=True, check=False)
        if done.returncode:
            raise proc.Failure(f"openssl {args[0]}: {done.stderr}")

    def sign(self, host):
        """Key and certificate of a server with this name or address."""
        key, request, signed, names = (self.path(f"{host}.{suffix}") for suffix in ("key", "csr", "pem", "ext"))
        kind = "IP" if host[0].isdigit() else "DNS"
        with open(names, "w", encoding="utf-8") as file:
            file.write(f"subjectAltName={kind}:{host}\n")
        self.openssl("req", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-subj", f"/CN={host}", "-keyout", key,
                     "-out", request)
        self.openssl("x509", "-req", "-in", request, "-CA", self.certificate, "-CAkey", self.path("ca.key"), "-CAcreateserial",
                     "-days", "2", "-extfile", names, "-out", signed)
        return key, signed


def free_port():
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        return taken.getsockname()[1]


def enqueue(url):
    return subprocess.run([PAWL, "enqueue", "--store", url, "--type", "t"], capture_output=True, text=True, check=False)


def works(what, url):
    done = enqueue(url)
    if done.returncode:
        raise proc.Failure(f"{what}: {done.returncode} {done.stderr}")
    print(f"ok: {what}")


def refused(what, url, *words):
    """Before anything is sent; and a person can tell why."""
    done = enqueue(url)
    if done.returncode == 0:
        raise proc.Failure(f"{what}: it was not refused")
    if not any(word in done.stderr for word in words):
        raise proc.Failure(f"{what}: {done.stderr}")
    print(f"ok: {what}: {done.stderr.strip()[:200]}")


def run(kind):
    with servers.server(kind) as server:
        folder = os.path.join(server.where, "tls")
        os.mkdir(folder)
        ours, others = Authority(folder, "ours"), Authority(folder, "others")
        for host in ("127.0.0.1", "db.example.org"):
            port = free_port()
            server.serve_tls(port, *ours.sign(host))
            if host == "127.0.0.1":
                works("encrypted, by an authority that is known", server.tls_url(port, ours.certificate))
                works("encrypted, whoever it is", server.tls_url(port, None))
                refused("not encrypted", server.tls_url(port, None, encrypted=False), "must encrypt", "no encryption")
                refused("an authority that is not known", server.tls_url(port, others.certificate), "ssl_ca", "certificate verify failed")
            else:
                refused("the certificate of another server", server.tls_url(port, ours.certificate), "check host", "does not match")


def main():
    run(servers.parser(__doc__).parse_args().kind)


if __name__ == "__main__":
    sys.exit(main())
