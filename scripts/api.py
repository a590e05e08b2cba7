#!/usr/bin/python3
"""Writes docs/api.md from the document that the binary itself gives.

    scripts/api.py build/pawl > docs/api.md
"""

import json
import subprocess
import sys

INTRO = """# The HTTP API

Made by `scripts/api.py` from the table of routes; a server gives the same as OpenAPI 3.1 at `/v1/openapi.json`. How to run one is in
[server.md](server.md).

- Bodies and answers are JSON (`Content-Type: application/json`). Ids are strings of 13 characters, times RFC 3339 in UTC, durations in
  microseconds (`_us`) or, where they are sent, text like `5m`.
- What is not known is refused by its name: members of bodies, and parameters.
- Whatever is wrong is answered with a problem (RFC 9457): `type` is a word for programs, `detail` says what to do.
- Lists come in pages: send `next` of one as `cursor` to get the following one.
- `Idempotency-Key` on a POST: sent again, it gets the first answer again (`Idempotent-Replayed: true`). Answers are remembered for a day
  and in memory only, and not those of NDJSON streams. A task's own `key` is the durable way.
- `Authorization: Bearer TOKEN`, once there are tokens. The scope that a route needs stands beside it.
"""


def reference(schema):
    return schema["$ref"].rsplit("/", 1)[1] if "$ref" in schema else None


def type_text(schema):
    name = reference(schema)
    if name:
        return f"[{name}](#{name})"
    kind = schema.get("type", "any JSON")
    kinds = kind if isinstance(kind, list) else [kind]
    if "array" in kinds:
        return "array of " + type_text(schema["items"])
    text = schema.get("format") or ("id" if "pattern" in schema else kinds[0])
    return text + (" or null" if "null" in kinds else "")


def bounds(schema):
    if "maximum" in schema and schema["maximum"] < 2**31 - 1:
        return f" ({schema['minimum']} to {schema['maximum']})"
    return ""


def operation(out, path, method, op):
    out.append(f"### {method.upper()} {path}\n")
    command = f" On the command line: `pawl {op['x-command']}`." if "x-command" in op else ""
    scope = op["x-scope"]
    out.append(f"{op['summary']}. " + ("No token needed." if scope == "none" else f"Scope: `{scope}`.") + command + "\n")
    query = [p for p in op.get("parameters", []) if p["in"] == "query"]
    if query:
        out.append("| parameter | | |\n|---|---|---|")
        out.extend(f"| `{p['name']}` | {type_text(p['schema'])}{bounds(p['schema'])} | {p['description']} |" for p in query)
        out.append("")
    if "requestBody" in op:
        kinds = op["requestBody"]["content"]
        out.append("Body: " + "; or ".join(f"`{kind}`, {type_text(body['schema'])}" for kind, body in kinds.items()) + "\n")
    kind, body = next(iter(op["responses"]["200"]["content"].items()))
    shown = type_text(body["schema"]) if reference(body["schema"]) else f"`{kind}`"
    codes = ", ".join(code for code in op["responses"] if code != "default")
    out.append(f"Answer ({codes}): {shown}\n")


def schema_table(out, name, schema):
    out.append(f"### {name}\n")
    required = schema.get("required", [])
    described = any("description" in member for member in schema["properties"].values())
    out.append("| member | | |\n|---|---|---|" if described else "| member | |\n|---|---|")
    for member, body in schema["properties"].items():
        mark = "" if member in required or described else ", may be absent"
        mark = ", needed" if described and member in required else mark
        text = f" {body.get('description', '')} |" if described else ""
        out.append(f"| `{member}` | {type_text(body)}{bounds(body)}{mark} |{text}")
    out.append("")


def main():
    document = json.loads(subprocess.run([sys.argv[1], "openapi"], check=True, capture_output=True).stdout)
    out = [INTRO, "## Routes\n"]
    for path, methods in document["paths"].items():
        for method, op in methods.items():
            operation(out, path, method, op)
    out.append("## Objects\n")
    for name, schema in document["components"]["schemas"].items():
        schema_table(out, name, schema)
    print("\n".join(out).rstrip())


main()
