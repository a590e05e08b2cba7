#!/usr/bin/python3
"""docs/coming-from-*.md: the programs and commands in them, run as they stand there, but for the port."""

import os
import re
import shutil
import subprocess
import sys
import tempfile

SOURCE = os.environ["PAWL_SOURCE_DIR"]
sys.path.insert(0, f"{SOURCE}/tests/server")
import served  # noqa: E402

checks = served.Checks()


def blocks(guide):
    with open(f"{SOURCE}/docs/coming-from-{guide}.md") as text:
        return re.findall(r"```(\w+)\n(.*?)```", text.read(), re.S)


def prepare(folder, guide):
    """Writes the programs under the names that their first lines say; gives back the commands."""
    script = ""
    for language, text in blocks(guide):
        if language == "sh":
            script += text
        else:
            with open(f"{folder}/{text.split()[1]}", "w") as out:
                out.write(text)
    return script


def node(folder):
    with open(f"{folder}/package.json", "w") as out:
        out.write('{"type": "module"}')
    os.makedirs(f"{folder}/node_modules/@pawl")
    os.symlink(f"{SOURCE}/clients/node", f"{folder}/node_modules/@pawl/client")


def run(guide, results):
    with tempfile.TemporaryDirectory() as folder:
        script = prepare(folder, guide)
        os.makedirs(f"{folder}/bin")
        os.symlink(served.PAWL, f"{folder}/bin/pawl")
        os.symlink(f"{SOURCE}/clients", f"{folder}/clients")
        if guide == "bullmq":
            node(folder)
        with served.Server(folder=folder) as server:
            url = f"http://127.0.0.1:{server.address[1]}"
            lines = [line for line in script.split("\n") if not line.startswith(("pawl serve", "npm install"))]
            # the worker is the only one in the background; it ends with the script
            text = "set -e\ntrap 'kill $(jobs -p); wait' EXIT\n" + "\n".join(lines)
            done = subprocess.run(["bash", "-c", text], cwd=folder, capture_output=True, text=True, timeout=60 * served.FACTOR,
                                  env={**os.environ, "PATH": f"{folder}/bin:{os.environ['PATH']}", "PAWL_SERVER": url})
            checks.that(f"{guide}: the commands work", done.returncode == 0, done.stdout + done.stderr)
            found = sorted(str(task.get("result")) for task in (server.get(f"/v1/tasks/{t['id']}").json for t in server.get("/v1/tasks?state=succeeded").json["tasks"]))
            checks.equal(f"{guide}: results", found, sorted(results))
            checks.that(f"{guide}: the schedule", len(server.get("/v1/schedules").json["schedules"]) == 1)


def main():
    run("celery", ["5", "0", "2", "4", "{'attempts': 2}", "all there"])
    if shutil.which("node"):
        run("bullmq", ["{'sent': 'ann@example.org'}", *(f"{{'sent': '{n}@example.org'}}" for n in (1, 2, 3)), "all there"])
    else:
        print("node is not there: coming-from-bullmq.md was not looked at")
    return checks.end()


if __name__ == "__main__":
    sys.exit(main())
