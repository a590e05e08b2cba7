#!/usr/bin/env python3
"""Makes the manual pages in docs/man from what the program and pawl.h say about themselves.

    scripts/man.py PAWL            writes docs/man/*.1 and docs/man/pawl.3, PAWL being the program
    scripts/man.py PAWL --check    says which pages are not as they would be written; exits with 1 if there are any

Every command has its text in one place, its --help; a group of commands ("tasks list", "tasks show") is one page. The library has
its text in the comments of pawl.h: sections there are sections of pawl(3), comments become paragraphs, declarations stand as they are.
"""
import os
import re
import subprocess
import sys

root = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
folder = os.path.join(root, "docs", "man")


def version():
    with open(os.path.join(root, "include", "pawl.h")) as header:
        return re.search(r'#define PAWL_VERSION "(.*)"', header.read()).group(1)


# ---- roff --------------------------------------------------------------------------------------------------------------------


def escape(text):
    return text.replace("\\", "\\e").replace("-", "\\-").replace("^", "\\(ha").replace("~", "\\(ti")


def guard(line):
    return "\\&" + line if line[:1] in (".", "'") else line


def code_line(line):
    return guard(escape(line).replace("'", "\\(aq").replace("`", "\\(ga").replace('"', "\\(dq"))


def code(lines):
    return [".EX"] + [code_line(line) for line in lines] + [".EE"]


def prose(text):
    """One paragraph. `code` and --options are bold."""
    parts = re.split(r"(`[^`]+`|(?<![\w-])--?[a-z][a-z-]*)", text)
    out = ""
    for part in parts:
        if part.startswith("`"):
            out += "\\fB" + escape(part[1:-1]) + "\\fP"
        elif re.fullmatch(r"--?[a-z][a-z-]*", part):
            out += "\\fB" + escape(part) + "\\fP"
        else:
            out += part.replace("\\", "\\e").replace("^", "\\(ha").replace("~", "\\(ti")
    return guard(out)


def title(name, section, what):
    return ['.\\" Made by scripts/man.py: edit the text in the source, not here.',
            f'.TH {name.upper()} {section} "" "pawl {version()}" "{what}"']


# ---- commands ----------------------------------------------------------------------------------------------------------------


class Command:
    """What `pawl help NAME` says: summary, usage, and its lines by heading."""

    def __init__(self, program, name):
        lines = ask(program, "help", *name.split())
        self.name = name
        self.summary = lines[0].split(": ", 1)[1]
        self.usage = next(line for line in lines if line.startswith("usage: "))[len("usage: "):]
        body = lines[lines.index("usage: " + self.usage) + 1:]
        self.parts = split(body[:body.index("Options of every command")])
        self.every = body[body.index("Options of every command") + 1:]


def ask(program, *words):
    text = subprocess.run([program, *words], check=True, stdout=subprocess.PIPE, text=True, env={"LC_ALL": "C.UTF-8"}).stdout
    return text.rstrip("\n").split("\n")


def split(lines):
    """Blocks between empty lines, each with the heading above it: (heading or None, lines)."""
    parts, block = [], []
    for line in lines + [""]:
        if line:
            block.append(line)
        elif block:
            heading = block[0] if len(block) > 1 and not block[0].startswith(" ") and block[1].startswith("  ") else None
            if heading and "  " in heading:
                heading, block = None, ["  " + line for line in block]  # a table with its own first column
            parts.append((heading, block[1:] if heading else block))
            block = []
    return parts


def options(lines):
    """Lines like "  --name VALUE   text", the text going on in the lines below."""
    out = []
    for line in lines:
        match = re.match(r"  (--[a-z-]+)( [A-Z]+)?(?: +(\S.*))?$", line)
        if match:
            flag, value, text = match.groups()
            out += [".TP", "\\fB" + escape(flag) + "\\fP" + (" \\fI" + value.strip() + "\\fP" if value else "")]
            if text:
                out.append(prose(text))
        else:
            out.append(prose(line.strip()))
    return out


def body(command, level):
    out = []
    for heading, lines in command.parts:
        if heading == "Options":
            out += [f".{level} OPTIONS" if level == "SH" else ".PP", *([] if level == "SH" else ["Options:"]), *options(lines)]
        elif heading:
            out += [f".{level} {heading.upper()}" if level == "SH" else ".PP", *([] if level == "SH" else [heading + ":"]), *code(lines)]
        elif lines[0].startswith("  "):
            out += [".PP", *code(lines)]
        else:
            out += [".PP", prose(" ".join(lines))] if out else [prose(" ".join(lines))]
    return out


def synopsis(command):
    words = len(("pawl " + command.name).split())
    parts = command.usage.split(" ")
    rest = " ".join(parts[words:])
    return "\\fB" + escape(" ".join(parts[:words])) + "\\fP" + (" " + escape(rest) if rest else "")


def page_of_command(name, commands):
    single = len(commands) == 1 and commands[0].name == name
    out = title("pawl-" + name, 1, "Pawl manual")
    summary = commands[0].summary if single else f"commands about {name}" if name != "migrate" else "the schema of a store"
    out += [".SH NAME", f"pawl\\-{name} \\- {prose(summary)}", ".SH SYNOPSIS"]
    for command in commands:
        out += [synopsis(command)] if command is commands[0] else [".br", synopsis(command)]
    out.append(".SH DESCRIPTION")
    if single:
        text = body(commands[0], "SH")
        out += text if text and not text[0].startswith(".SH") else [prose(summary[0].upper() + summary[1:] + ".")] + text
    else:
        for command in commands:
            out += [f".SS pawl {command.name}", prose(command.summary[0].upper() + command.summary[1:] + "."), ".PP", *body(command, "SS")]
            while out[-1] == ".PP":
                out.pop()
    out += [".SH OPTIONS OF EVERY COMMAND", *options(commands[0].every)]
    out += [".SH EXIT STATUS", "See", ".BR pawl (1).", ".SH SEE ALSO", ".BR pawl (1)"]
    return out


exit_codes = [("0", "all went well"), ("1", "a person must act"), ("2", "the command line is wrong"), ("3", "not found"),
              ("4", "the current state does not allow it"), ("5", "the store is not available; may work later"), ("6", "permission denied"),
              ("7", "the outcome is unknown: repeat the command with the same id"), ("70", "internal error")]


def page_of_program(program, pages):
    lines = ask(program, "help")
    out = title("pawl", 1, "Pawl manual")
    out += [".SH NAME", "pawl \\- durable background tasks", ".SH SYNOPSIS", "\\fBpawl\\fP COMMAND [OPTIONS]", ".SH DESCRIPTION",
            "Pawl commits tasks to a database, runs them at the right time, retries them, recovers them after a crash, and shows what",
            "happened. This is its command line; programs use the library,", ".BR pawl (3)."]
    for heading, block in split(lines[2:]):
        if heading == "Options of every command":
            out += [".SH OPTIONS OF EVERY COMMAND", *options(block)]
        elif heading == "First steps":
            out += [".SH FIRST STEPS", *code(block)]
        elif heading:
            out.append(".SS " + heading)
            for line in block:
                name, summary = re.match(r"  ([a-z ]+?)  +(.*)", line).groups()
                out += [".TP", "\\fB" + name + "\\fP", prose(summary)]
    out += [".SH EXIT STATUS"]
    for code_, meaning in exit_codes:
        out += [".TP", f"\\fB{code_}\\fP", meaning]
    out += [".SH ENVIRONMENT", ".TP", "\\fBPAWL_STORE\\fP, \\fBDATABASE_URL\\fP", prose("the store, if `--store` does not name it"),
            ".TP", "\\fBNO_COLOR\\fP", "if set, no colours", ".SH FILES", ".TP", "\\fBpawl.db\\fP", "the store, if nothing names another", ".TP",
            "\\fBpawl.db\\-pawl\\fP, \\fBpawl.db\\-wal\\fP, \\fBpawl.db\\-shm\\fP",
            "belong to it: the lock file of pawl, and those of SQLite. Never delete them while a program uses the store; copy a store with",
            ".BR pawl\\-backup (1).", ".SH SEE ALSO"]
    out += [f".BR pawl\\-{name} (1)," for name in pages] + [".BR pawl (3)"]
    return out


def command_pages(program):
    names = []
    for line in ask(program, "help")[2:]:
        match = re.match(r"  ([a-z]+(?: [a-z]+)?)  +\S", line)
        if match and not line.startswith("  pawl"):
            names.append(match.group(1))
    groups = {}
    for name in names:
        groups.setdefault(name.split()[0], []).append(name)
    groups.pop("help", None), groups.pop("version", None)
    pages = {f"pawl-{group}.1": page_of_command(group, [Command(program, name) for name in members]) for group, members in groups.items()}
    pages["pawl.1"] = page_of_program(program, sorted(groups))
    return pages


# ---- pawl.h ------------------------------------------------------------------------------------------------------------------


def comment_text(comment):
    """The lines inside a comment, without its frame."""
    inner = re.sub(r"^/\* ?|\s*\*/$", "", comment)
    return [re.sub(r"^ \* ?", "", line) for line in inner.split("\n")]


def paragraphs(lines):
    """Prose is filled; what is indented by four or more stands as it is; "Word   text" at the margin is a tagged paragraph."""
    out, block = [], []

    def flush():
        if not block:
            return
        if block[0].startswith("    "):
            out.extend([".PP"] + code([line[4:] for line in block]))
        else:
            out.extend([".PP", prose(" ".join(line.strip() for line in block))])
        block.clear()

    for line in lines:
        tag = re.match(r"([A-Z][a-z]+(?: [a-z]+)?) {2,}(\S.*)", line)
        tag = tag or re.match(r"(After close) (.*)", line)
        if tag:
            flush()
            out.extend([".TP", "\\fB" + tag.group(1) + "\\fP", prose(tag.group(2))])
        elif out and out[-3:-2] == [".TP"] and line.startswith("             ") or (out and line.startswith("            ")):
            out.append(prose(line.strip()))
        elif re.fullmatch(r"[A-Z][A-Z ]+", line):
            flush()
            out.append(".SH " + line)
        elif not line.strip():
            if block and block[0].startswith("    "):
                block.append("")
            else:
                flush()
        else:
            if block and block[0].startswith("    ") != line.startswith("    "):
                while block[-1] == "":
                    block.pop()
                flush()
            block.append(line)
    flush()
    return out


def plain(lines):
    """Declarations without what only a compiler wants to know."""
    out, moved = [], False
    for line in lines:
        moved = line.startswith("PAWL_API ") or (moved and line.startswith(" " * 9))
        line = line[9:] if moved else line
        out.append(re.sub(r" PAWL_PRINTF\([0-9, ]+\)", "", line))
    return out


def chunks(text):
    """A section's declarations: (comment or None, code lines), one for each block between empty lines."""
    text = re.sub(r"/\* clang-format (on|off) \*/\n", "", text)
    for block in re.split(r"\n\n+", text.strip("\n")):
        match = re.match(r"(/\*.*?\*/)\n?(.*)", block, re.S) if block.startswith("/*") else None
        yield (match.group(1), match.group(2).split("\n")) if match else (None, block.split("\n"))


def page_of_header():
    with open(os.path.join(root, "include", "pawl.h")) as header:
        text = header.read()
    first = re.match(r"/\*(.*?)\*/", text, re.S).group(0)
    rest = text[text.index("#define PAWL_VERSION"):text.rindex("#ifdef __cplusplus")]
    lines = comment_text(first)
    out = title("pawl", 3, "Pawl library")
    out += [".SH NAME", "pawl \\- durable background tasks for C and C++ programs", ".SH SYNOPSIS",
            *code(["#include <pawl.h>", "", "cc program.c $(pkg-config --cflags --libs pawl)"]), ".SH DESCRIPTION"]
    text_of = paragraphs(lines[2:])
    out += text_of[1:] if text_of[0] == ".PP" else text_of
    sections = re.split(r"/\* -{50,}\n \* ", rest)
    out += [".SH CONSTANTS", *code(sections[0].strip("\n").split("\n"))]
    for section in sections[1:]:
        head, declarations = section.split("*/", 1)
        head = [re.sub(r"^ \* ?", "", line) for line in head.rstrip().split("\n")]
        name, _, more = head[0].partition(". ")
        out.append(".SH " + escape(name.upper()))
        intro = paragraphs(([more] if more else []) + head[1:])
        out += intro[1:] if intro[:1] == [".PP"] else intro
        for comment, declaration in chunks(declarations):
            if comment:
                out += paragraphs(comment_text(comment))
            if any(declaration):
                out += [".PP"] + code(plain(declaration))
    out += [".SH SEE ALSO", ".BR pawl (1)", ".PP", "The contract for people who write a store is in the comments of", ".IR pawl/store.h ."]
    return [line for i, line in enumerate(out) if not (line == ".PP" and i and out[i - 1].startswith((".SH", ".PP", ".SS")))]


# ---- all of it ---------------------------------------------------------------------------------------------------------------


def main():
    if len(sys.argv) not in (2, 3) or sys.argv[2:] not in ([], ["--check"]):
        sys.exit("usage: scripts/man.py PAWL [--check]")
    pages = command_pages(sys.argv[1])
    pages["pawl.3"] = page_of_header()
    wanted = {name: "\n".join(lines) + "\n" for name, lines in pages.items()}
    os.makedirs(folder, exist_ok=True)
    there = {}
    for name in os.listdir(folder):
        with open(os.path.join(folder, name)) as page:
            there[name] = page.read()
    stale = sorted(name for name in wanted.keys() | there.keys() if wanted.get(name) != there.get(name))
    if sys.argv[2:]:
        for name in stale:
            print(f"docs/man/{name} is not up to date: run scripts/man.py build/pawl")
        sys.exit(1 if stale else 0)
    for name in stale:
        path = os.path.join(folder, name)
        if name in wanted:
            with open(path, "w") as page:
                page.write(wanted[name])
        else:
            os.remove(path)


main()
