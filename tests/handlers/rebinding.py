#!/usr/bin/python3
"""A name service that changes its answer between a look and a connection: what counts is the address that is connected to.

`names.c`, preloaded into the server, is that name service, and writes down every address that the server connects to."""

import os
import sys
import tempfile

import peer
import served
from peer import ended

checks = served.Checks()
NAMES = """turns.test 1.2.3.4 127.0.0.1
inside.test 127.0.0.1 1.2.3.4
both.test 1.2.3.4,127.0.0.1
mapped.test ::ffff:127.0.0.1
six.test 2606:4700::1,::1
meta.test 169.254.169.254
ours.test 127.0.0.1
strays.test 127.0.0.1 10.0.0.1
"""


def main():
    with tempfile.TemporaryDirectory() as folder:
        shim, connected = os.environ["PAWL_TEST_SHIM"], f"{folder}/connected"
        peer.write(f"{folder}/names", NAMES)
        peer.write(connected, "")
        other = peer.Peer()
        sections = {name: {"kind": "webhook", "url": f"http://{name}.test:{other.port}/{name}", "retry_delay": "10ms"} for name in ("turns", "inside", "both", "mapped", "six", "meta", "ours", "strays")}
        sections["ours"]["networks"] = sections["strays"]["networks"] = "127.0.0.1"
        peer.config(folder, sections)
        environment = {"LD_PRELOAD": shim, "PAWL_TEST_NAMES": f"{folder}/names", "PAWL_TEST_CONNECTED": connected}

        def seen():
            with open(connected) as lines:
                return lines.read().split()

        def run(server, kind, *states):
            before = len(seen())
            done = ended(server, server.post("/v1/tasks", {"type": kind, "payload": {}}).json["id"], *states)
            return done["attempt"], done.get("code"), seen()[before:]

        with served.Server("--config", "pawl.conf", folder=folder, environment=environment) as server:
            checks.equal("public, then loopback", run(server, "turns", "failed"), (2, "address_refused", ["1.2.3.4"]))
            checks.equal("loopback at once", run(server, "inside", "failed"), (1, "address_refused", []))
            checks.equal("one answer with both: the second is not fallen back to", run(server, "both", "failed"), (5, "no_answer", ["1.2.3.4"] * 5))
            checks.equal("written as IPv6", run(server, "mapped", "failed"), (1, "address_refused", []))
            checks.equal("IPv6 both ways", run(server, "six", "failed"), (5, "no_answer", ["2606:4700::1"] * 5))
            checks.equal("a cloud's metadata", run(server, "meta", "failed"), (1, "address_refused", []))
            checks.equal("nothing came", other.got, [])
            checks.equal("an address that is allowed", run(server, "ours", "succeeded"), (1, None, ["127.0.0.1"]))
            checks.equal("a name that is good once", run(server, "strays", "succeeded"), (1, None, ["127.0.0.1"]))
            checks.equal("is not good for ever", run(server, "strays", "failed"), (1, "address_refused", []))
            checks.equal("what came", [request.path for request in other.got], ["/ours", "/strays"])
    return checks.end()


if __name__ == "__main__":
    sys.exit(main())
