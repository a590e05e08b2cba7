#!/usr/bin/python3
"""Five thousand clients of /v1/events that have nothing to hear: what they cost, and that all of them hear what comes.

    crowd.py [CLIENTS]"""

import os
import resource
import select
import socket
import sys
import time

import served

REQUEST = b"GET /v1/events HTTP/1.1\r\nHost: localhost\r\n\r\n"
LOOK_S = 3

checks = served.Checks()


def memory_kib(pid):
    with open(f"/proc/{pid}/smaps_rollup", encoding="utf-8") as file:
        return next(int(line.split()[1]) for line in file if line.startswith("Rss:"))


def cpu_s(pid):
    with open(f"/proc/{pid}/stat", encoding="utf-8") as file:
        fields = file.read().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def read_until(clients, text):
    """Until each of them has got it."""
    left, poll, heard = {client.fileno(): client for client in clients}, select.epoll(), {}
    for number in left:
        poll.register(number, select.EPOLLIN)
    deadline = time.monotonic() + served.PATIENCE
    while left and time.monotonic() < deadline:
        for number, _ in poll.poll(1):
            data = left[number].recv(65536)
            heard[number] = heard.get(number, b"") + data
            if text in heard[number] or not data:
                poll.unregister(number)
                del left[number]
    return len(left)


def main():
    count = int(sys.argv[1]) if len(sys.argv) > 1 else 5000
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    with served.Server() as server:
        pid = server.process.pid
        server.post("/v1/tasks", {"type": "before"})
        clients = [socket.create_connection(server.address)]
        clients[0].sendall(REQUEST)
        read_until(clients, b"\r\n\r\n")
        before = memory_kib(pid)
        for _ in range(count - 1):
            client = socket.create_connection(server.address)
            client.sendall(REQUEST)
            clients.append(client)
        checks.equal("all are let in", read_until(clients[1:], b"\r\n\r\n"), 0)
        grown, used = memory_kib(pid), cpu_s(pid)
        time.sleep(LOOK_S)  # what is looked at is that nothing happens
        used = cpu_s(pid) - used
        print(f"{count} clients: {(grown - before) / 1024:.1f} MiB more, {grown / 1024:.1f} MiB in all; {used:.2f} s of CPU in {LOOK_S} s")
        checks.that("under 100 MiB", grown < 100 * 1024, grown)
        checks.that("no CPU", used <= 0.02 * LOOK_S, used)
        server.post("/v1/tasks", {"type": "after"})
        checks.equal("all hear what comes", read_until(clients, b'"type":"after"'), 0)
        for client in clients:
            client.close()
    return checks.end()


if __name__ == "__main__":
    sys.exit(main())
