#!/usr/bin/env python3
"""Lines and branches reached, from gcov's data: coverage.py BUILD ARGUMENTS OUT; see coverage.sh.

ARGUMENTS has a line "file | part of the source line | why no test reaches it" for each line or branch of src/core that is not reached.
A line with CHECK in it needs none: its branches are those of an assertion that does not fail.
"""
import glob
import json
import os
import subprocess
import sys

LAYERS = ("core", "store")


class Line:
    """How often a line was run, and each of its branches; the sum over all objects that have it."""

    def __init__(self):
        self.count = 0
        self.branches = []

    def add(self, data):
        self.count += data["count"]
        counts = [branch["count"] for branch in data["branches"]]
        self.branches += [0] * (len(counts) - len(self.branches))
        for i, count in enumerate(counts):
            self.branches[i] += count


def gather(build, layer):
    """{file: {number: Line}} of one layer's folder."""
    files = {}
    notes = glob.glob(f"{build}/CMakeFiles/pawl_{layer}.dir/**/*.gcno", recursive=True)
    for note in sorted(notes):
        made = subprocess.run(["gcov", "--json-format", "--stdout", "--branch-probabilities", os.path.abspath(note)], cwd=build,
                              capture_output=True, text=True, check=True)
        for document in made.stdout.splitlines():
            data = json.loads(document)
            for file in data["files"]:
                path = os.path.relpath(os.path.join(data["current_working_directory"], file["file"]))
                if path.startswith(f"src/{layer}/"):
                    lines = files.setdefault(path, {})
                    for line in file["lines"]:
                        lines.setdefault(line["line_number"], Line()).add(line)
    if not files:
        sys.exit(f"coverage: no data in {build}: run scripts/coverage.sh")
    return files


def numbers(lines):
    """(lines, of these reached, branches, of these taken)"""
    branches = [count for line in lines for count in line.branches]
    return len(lines), sum(1 for line in lines if line.count), len(branches), sum(1 for count in branches if count)


def row(name, lines):
    all_lines, reached, branches, taken = numbers(lines)
    def share(part, whole):
        return f"{100 * part / whole:.1f} %" if whole else "-"
    return f"| {name} | {all_lines} | {share(reached, all_lines)} | {branches} | {share(taken, branches)} |"


def table(layer, files):
    out = [f"| src/{layer} | lines | reached | branches | taken |", "|---|--:|--:|--:|--:|"]
    for path, lines in sorted(files.items()):
        out.append(row(path.removeprefix(f"src/{layer}/"), list(lines.values())))
    out.append(row("**all**", [line for lines in files.values() for line in lines.values()]))
    return out


def read_arguments(path):
    found = []
    for text in open(path, encoding="utf-8"):
        if text.strip() and not text.startswith("#"):
            file, part, why = (field.strip() for field in text.split(" | ", 2))
            found.append({"file": file, "part": part, "why": why, "code": []})
    return found


def argue(files, arguments):
    """Files each gap under its argument. Answers the gaps that have none, and how many branches are an assertion's."""
    missing, assertions = [], 0
    for path, lines in sorted(files.items()):
        source = open(path, encoding="utf-8").read().split("\n")
        for number, line in sorted(lines.items()):
            untaken = sum(1 for count in line.branches if count == 0)
            if line.count and not untaken:
                continue
            code = source[number - 1].strip()
            if "CHECK(" in code:
                assertions += untaken
                continue
            reasons = [a for a in arguments if a["file"] == os.path.basename(path) and a["part"] in code]
            if not reasons:
                missing.append(f"{path}:{number}: {'not run' if not line.count else 'a branch is never taken'}: {code}")
            for reason in reasons[:1]:
                reason["code"].append(code)
    return missing, assertions


def write(path, tables, arguments, assertions):
    out = ["# What the tests reach", "",
           "Written by `make coverage`: gcc's gcov over the unit, core, contract, model, simulator, API, SQLite, fault and command line",
           "tests, with few seeds, and the replays of the fuzz corpora. Branches are those of the compiler: every `&&`, `||` and `?:`",
           "has its own.", ""]
    for lines in tables:
        out += lines + [""]
    out += ["## What is not reached in src/core", "",
            f"{assertions} of the untaken branches are those of assertions (`CHECK`), which do not fail. The others:", "",
            "| where | code | why |", "|---|---|---|"]
    for a in arguments:
        for code in a["code"]:
            out.append(f"| {a['file']} | `` {code.replace('|', chr(92) + '|')} `` | {a['why']} |")
    with open(path, "w", encoding="utf-8") as file:
        file.write("\n".join(out) + "\n")


def main():
    build, arguments_path, out = sys.argv[1:]
    gathered = {layer: gather(build, layer) for layer in LAYERS}
    tables = [table(layer, gathered[layer]) for layer in LAYERS]
    arguments = read_arguments(arguments_path)
    missing, assertions = argue(gathered["core"], arguments)
    for lines in tables:
        print("\n".join(lines), end="\n\n")
    for a in arguments:
        if not a["code"]:
            print(f"{arguments_path}: reached now, or gone: {a['file']} | {a['part']}")
    if missing:
        print("\n".join(missing))
        sys.exit(f"coverage: {len(missing)} places of src/core are neither tested nor argued in {arguments_path}")
    write(out, tables, arguments, assertions)
    print(f"{out} is written")


main()
