#!/usr/bin/python3
"""Writes the API's types for TypeScript from the document that the binary itself gives.

    scripts/api_types.py build/pawl > web/src/api.d.ts
"""

import json
import subprocess
import sys

INTRO = """/* The HTTP API's types: made by scripts/api_types.py from the table of routes.
 *
 * Routes[R] of a route like "GET /v1/tasks/{id}" has its path and query parameters, its body and its answer. */

export type Id = string; /* 13 letters and digits */
export type Time = string; /* RFC 3339, UTC */
export type Json = null | boolean | number | string | Json[] | { [name: string]: Json };
"""


def type_name(name):
    return "".join(word.capitalize() for word in name.split("_"))


def type_text(schema):
    if "$ref" in schema:
        return type_name(schema["$ref"].rsplit("/", 1)[1])
    kinds = schema.get("type")
    if kinds is None:
        return "Json"
    kinds = kinds if isinstance(kinds, list) else [kinds]
    return " | ".join(kind_text(kind, schema) for kind in kinds)


def kind_text(kind, schema):
    if kind == "array":
        item = type_text(schema["items"])
        return f"({item})[]" if "|" in item else f"{item}[]"
    if kind == "string":
        if "enum" in schema:
            return " | ".join(f'"{word}"' for word in schema["enum"])
        return "Time" if schema.get("format") == "date-time" else "Id" if "pattern" in schema else "string"
    return {"integer": "number", "boolean": "boolean", "null": "null"}[kind]


def comment(text):
    return f" /* {text.replace('*/', '')} */" if text else ""


def interface(name, schema):
    required = schema.get("required", [])
    yield f"export interface {type_name(name)} {{"
    for member, body in schema["properties"].items():
        yield f"  {member}{'' if member in required else '?'}: {type_text(body)};{comment(body.get('description'))}"
    yield "}\n"


def parameters(operation, where):
    found = [p for p in operation.get("parameters", []) if p["in"] == where]
    return "{ " + " ".join(f"{p['name']}{'' if p['required'] else '?'}: {type_text(p['schema'])};" for p in found) + " }" if found else "{}"


def body_text(operation):
    if "requestBody" not in operation:
        return "undefined"
    text = " | ".join(type_text(kind["schema"]) for kind in operation["requestBody"]["content"].values())
    return text if operation["requestBody"]["required"] else text + " | undefined"


def route(path, method, operation):
    yield f"  /* {operation['summary']}. Scope: {operation['x-scope']}. */"
    kind, body = next(iter(operation["responses"]["200"]["content"].items()))
    answer = type_text(body["schema"]) if kind == "application/json" and "$ref" in body["schema"] else "Json" if kind == "application/json" else "string"
    yield (f'  "{method.upper()} {path}": {{ path: {parameters(operation, "path")}; query: {parameters(operation, "query")}; '
           f"body: {body_text(operation)}; answer: {answer} }};")


def main():
    document = json.loads(subprocess.run([sys.argv[1], "openapi"], check=True, capture_output=True).stdout)
    out = [INTRO]
    for name, schema in document["components"]["schemas"].items():
        out.extend(interface(name, schema))
    out.append("export interface Routes {")
    for path, methods in document["paths"].items():
        for method, operation in methods.items():
            out.extend(route(path, method, operation))
    out.append("}")
    print("\n".join(out))


main()
