// JSON as it was written: numbers keep their digits (9007199254740993, 1.50), members their order and repetition.

export type Json =
    | { kind: "null" | "boolean" | "number" | "string"; text: string }
    | { kind: "array"; items: Json[] }
    | { kind: "object"; members: [string, Json][] };

const SPACE = /[ \t\n\r]*/y;
const WORD = /-?\d+(?:\.\d+)?(?:[eE][+-]?\d+)?|true|false|null/y;
const TEXT = /"(?:[^"\\]|\\.)*"/y;

class Reader {
    at = 0;
    constructor(readonly text: string) {}

    take(pattern: RegExp): string {
        pattern.lastIndex = this.at;
        const found = pattern.exec(this.text)?.[0];
        if (found === undefined) throw new SyntaxError(`no JSON at ${this.at}`);
        this.at += found.length;
        return found;
    }

    value(): Json {
        this.take(SPACE);
        const c = this.text[this.at];
        const out = c === "{" ? this.object() : c === "[" ? this.array() : c === '"' ? this.string() : this.word();
        this.take(SPACE);
        return out;
    }

    string(): Json {
        return { kind: "string", text: JSON.parse(this.take(TEXT)) as string };
    }

    word(): Json {
        const text = this.take(WORD);
        return { kind: text === "null" ? "null" : text === "true" || text === "false" ? "boolean" : "number", text };
    }

    array(): Json {
        const items: Json[] = [];
        this.list("]", () => items.push(this.value()));
        return { kind: "array", items };
    }

    object(): Json {
        const members: [string, Json][] = [];
        this.list("}", () => {
            this.take(SPACE);
            const name = JSON.parse(this.take(TEXT)) as string;
            this.take(SPACE);
            this.take(/:/y);
            members.push([name, this.value()]);
        });
        return { kind: "object", members };
    }

    list(end: string, one: () => void): void {
        this.at++;
        this.take(SPACE);
        if (this.text[this.at] === end) {
            this.at++;
            return;
        }
        for (;;) {
            one();
            const c = this.text[this.at++];
            if (c === end) return;
            if (c !== ",") throw new SyntaxError(`no JSON at ${this.at}`);
        }
    }
}

export const readJson = (text: string): Json => new Reader(text).value();

export function member(value: Json, name: string): Json | undefined {
    return value.kind === "object" ? value.members.find(([key]) => key === name)?.[1] : undefined;
}

export function writeJson(value: Json, indent = "", step = "  "): string {
    const deeper = indent + step;
    switch (value.kind) {
        case "string":
            return JSON.stringify(value.text);
        case "array":
            if (!value.items.length) return "[]";
            return `[\n${value.items.map((item) => deeper + writeJson(item, deeper, step)).join(",\n")}\n${indent}]`;
        case "object":
            if (!value.members.length) return "{}";
            return `{\n${value.members.map(([key, item]) => `${deeper}${JSON.stringify(key)}: ${writeJson(item, deeper, step)}`).join(",\n")}\n${indent}}`;
        default:
            return value.text;
    }
}
