#!/usr/bin/python3
"""Handlers in the server's file: what is wrong is said with its line, and every setting is in the sample and in the documentation."""

import os
import re
import sys
import tempfile

import handled
import served

checks = served.Checks()
DOCS = os.path.join(os.environ["PAWL_SOURCE_DIR"], "docs", "handlers")

GOOD = """threads = 2
[handler one]
kind = exec
command = /bin/cat
[people]
connections = 100
[handler two]
type = a, b
argument = {x}
kind = exec
command = /bin/cat
"""

WRONG = [
    ("[handler]\n", 1, "handler's name"),
    ("\n[handler a]\n", 2, "does not say its kind"),
    ("[handler a]\nkind = exex\n", 2, 'did you mean "exec"'),
    ("[handler a]\nkind = nonsense\n", 2, 'no kind of handler "nonsense"'),
    ("[handler a]\ncommande = /bin/cat\nkind = exec\n", 2, 'did you mean "command"'),
    ("[handler a]\nkind = exec\n", 1, 'needs the setting "command"'),
    ("[handler a]\nkind = exec\ncommand = cat\n", 1, "whole path"),
    ("[handler a]\nkind = exec\ncommand = /bin/nothing\n", 1, "cannot find"),
    ("[handler a]\nkind = exec\ncommand = /bin\n", 1, "cannot find"),
    ("[handler a]\nkind = exec\ncommand = /bin/cat\ncommand = /bin/ls\n", 4, "second time"),
    ("[handler a]\nkind = exec\ncommand = /bin/cat\ntimeout = 5\n", 4, "not a duration"),
    ("[handler a]\nkind = exec\ncommand = /bin/cat\nworkers = 0\n", 4, "whole number"),
    ("[handler a]\nkind = exec\ncommand = /bin/cat\noutput = paper\n", 4, "none of log|result"),
    ("[handler a]\nkind = exec\ncommand = /bin/cat\nlimit-memory = 5T\n", 4, "number of bytes"),
    ("[handler a]\nkind = exec\ncommand = /bin/cat\nnew-privileges = perhaps\n", 4, "neither true nor false"),
    ("[handler a]\nkind = exec\ncommand = /bin/cat\nargument = {x\n", 1, "is not closed"),
    ("[handler a]\nkind = exec\ncommand = /bin/cat\nargument = x}\n", 1, "closes nothing"),
    ("[handler a]\nkind = exec\ncommand = /bin/cat\nargument = {x:float}\n", 1, "no type"),
    ("[handler a]\nkind = exec\ncommand = /bin/cat\nargument = a{x...}\n", 1, "whole argument"),
    ("[handler a]\nkind = exec\ncommand = /bin/cat\nargument = {}\n", 1, "a field is written"),
    ("[handler a]\nkind = exec\ncommand = /bin/cat\nenv = X\n", 1, "NAME=VALUE"),
    ("[handler a]\nkind = exec\ncommand = /bin/cat\nread = /no/such\n", 1, "/no/such"),
    ("[handler a]\nkind = exec\ncommand = /bin/cat\nuser = nobody-at-all\n", 1, "no user"),
    ("[handler a]\nkind = exec\ncommand = /bin/cat\ngroup = root\n", 1, "group needs user"),
    ("[handler a]\nkind = exec\ncommand = /bin/cat\n[handler a]\n", 4, "line 1"),
    ("[handler a]\nkind = exec\ncommand = /bin/cat\n[handler b]\nkind = exec\ncommand = /bin/cat\ntype = x, a\n", 4, "already"),
]


def check(folder, text, code=0):
    path = handled.write(folder, "pawl.conf", text)
    return served.pawl("config", "check", path, code=code)


def check_files(folder):
    checks.that("a good file", "is right" in check(folder, GOOD))
    for text, line, what in WRONG:
        said = check(folder, text, code=2)
        checks.that(f"{text!r}: line {line}, {what}", f"line {line}: " in said and what in said, said)
    try:
        check(folder, "[handler a]\nkind = exec\ncommand = /bin/cat\n[x]\nnonsense = 1\n", code=2)
    except AssertionError as error:
        checks.that("another section ends a handler", False, error)


def settings(sample, kind):
    """Names of a kind's settings, and of those that all have."""
    parts = re.split(r"^#\n# \[handler NAME\]\n", sample, flags=re.MULTILINE)
    found = [part for part in parts[1:] if f"#   kind = {kind}\n" in part]
    return [re.findall(r"^#   ([a-z-]+) = ", part, re.MULTILINE) for part in (parts[0].split("# Handlers that")[1], found[0])]


def check_documented():
    sample = served.pawl("config", "sample")
    kinds = re.findall(r"^#   kind = ([a-z]+)$", sample, re.MULTILINE)
    checks.that("there are kinds", "exec" in kinds, kinds)
    with open(os.path.join(DOCS, "README.md"), encoding="utf-8") as file:
        overview = file.read()
    for kind in kinds:
        common, own = settings(sample, kind)
        with open(os.path.join(DOCS, f"{kind}.md"), encoding="utf-8") as file:
            page = file.read()
        checks.that(f"{kind} is in the overview", f"({kind}.md)" in overview)
        checks.equal("settings of all that are not in the overview", [name for name in common if f"`{name}`" not in overview], [])
        checks.equal(f"settings of {kind} that are not in its page", [name for name in own if name != "kind" and f"`{name}`" not in page], [])


with tempfile.TemporaryDirectory(prefix="pawl-handlers-") as temporary:
    check_files(temporary)
check_documented()
sys.exit(checks.end())
