"""A server with handlers in its file."""

import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "server"))

import served  # noqa: E402


def write(folder, name, text, mode=0o644):
    path = os.path.join(folder, name)
    with open(path, "w", encoding="utf-8") as file:
        file.write(text)
    os.chmod(path, mode)
    return path


class Handled(served.Server):
    """`text` is the file; {folder} in it is the server's folder."""

    def __init__(self, text, *options, **more):
        super().__init__(*options, **more)
        path = write(self.folder, "pawl.conf", text.replace("{folder}", self.folder))
        self.options += ["--config", path]

    def add(self, kind, payload=None, **task):
        answer = self.post("/v1/tasks", {"type": kind, "payload": payload, **task})
        if answer.status >= 300:
            raise AssertionError(f"{kind} was not taken: {answer}")
        return answer.json["id"]

    def state(self, task):
        return self.get(f"/v1/tasks/{task}").json

    def ended(self, task):
        return served.until(f"{task} ends", lambda: (lambda t: t if t["state"] in ("succeeded", "failed", "cancelled") else None)(self.state(task)))

    def log(self, task):
        return [line["text"] for line in self.state(task)["log"]]
