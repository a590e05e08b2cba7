// A JSON value that can be folded, with every number as it was written.
import { useState } from "preact/hooks";
import { writeJson, type Json } from "../json";
import { Copy } from "./basic";

const FEW = 12; // rows that are open at first
const STEP = 200; // rows that a click shows

function size(value: Json): number {
    return value.kind === "array" ? value.items.length : value.kind === "object" ? value.members.length : 0;
}

function Leaf({ value }: { value: Json }) {
    if (value.kind === "string") return <bdi class="j-string">{JSON.stringify(value.text)}</bdi>;
    return <span class={"j-" + value.kind}>{"text" in value ? value.text : value.kind === "array" ? "[]" : "{}"}</span>;
}

function Branch({ name, value, depth }: { name?: string; value: Json; depth: number }) {
    const count = size(value);
    const [open, setOpen] = useState(depth < 2 || count <= FEW);
    const [most, setMost] = useState(STEP);
    const label = name !== undefined && (
        <>
            <bdi class="j-key">{name}</bdi>
            <span class="faint">: </span>
        </>
    );
    if (!count)
        return (
            <li>
                {label}
                <Leaf value={value} />
            </li>
        );
    const rows: [string, Json][] =
        value.kind === "object" ? value.members.slice(0, most) : value.kind === "array" ? value.items.slice(0, most).map((item, i) => [String(i), item]) : [];
    return (
        <li>
            <button type="button" class="fold" aria-expanded={open} onClick={() => setOpen(!open)}>
                <span aria-hidden="true">{open ? "▾" : "▸"}</span> {label}
                <span class="faint">{value.kind === "array" ? `[${count}]` : `{${count}}`}</span>
            </button>
            {open && (
                <ul>
                    {rows.map(([key, item], i) => (
                        <Branch key={i} name={key} value={item} depth={depth + 1} />
                    ))}
                    {count > most && (
                        <li>
                            <button type="button" class="linkish" onClick={() => setMost(most + STEP)}>
                                {count - most} more
                            </button>
                        </li>
                    )}
                </ul>
            )}
        </li>
    );
}

export function JsonView({ value, what }: { value: Json; what: string }) {
    return (
        <div class="json">
            <Copy text={writeJson(value)} what={what} />
            <ul>
                <Branch value={value} depth={0} />
            </ul>
        </div>
    );
}
