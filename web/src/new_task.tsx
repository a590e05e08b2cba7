// The form for a new task; a clone is a form that is filled in.
import { useState } from "preact/hooks";
import { post } from "./client";
import { go } from "./router";
import type { Receipt } from "./api";
import { attempt, close, Dialog, DialogForm, show } from "./ui/dialog";

export interface Draft {
    type?: string;
    queue?: string;
    key?: string;
    tenant?: string;
    priority?: string;
    delay?: string;
    max_attempts?: string;
    payload?: string; // as JSON text, sent byte for byte
}

const FIELDS: [keyof Draft, string, string][] = [
    ["type", "Type", "routes it to its handler"],
    ["queue", "Queue", "default"],
    ["key", "Key", "at most one live task has it"],
    ["tenant", "Tenant", ""],
    ["priority", "Priority", "0; lower runs first"],
    ["delay", "Delay", "5m, 1h30m"],
    ["max_attempts", "Attempts at most", "by policy"],
];
const NUMBERS = new Set(["priority", "max_attempts"]);

// Built as text, so that numbers of the payload keep their digits.
function body(draft: Draft): string {
    const members = FIELDS.filter(([name]) => draft[name]).map(([name]) => `${JSON.stringify(name)}:${NUMBERS.has(name) ? Number(draft[name]) : JSON.stringify(draft[name])}`);
    if (draft.payload?.trim()) members.push(`"payload":${draft.payload.trim()}`);
    return `{${members.join(",")}}`;
}

function wrongJson(text: string | undefined): string {
    if (!text?.trim()) return "";
    try {
        JSON.parse(text);
        return "";
    } catch (error) {
        return String((error as Error).message);
    }
}

// What the server masks cannot be copied.
const MASK = '"[redacted]"';
const masked = (text: string | undefined): string => (text?.includes(MASK) ? "Secrets of the task are not shown: put them in where [redacted] stands." : "");

function Form({ draft: first, title }: { draft: Draft; title: string }) {
    const [draft, setDraft] = useState(first);
    const [busy, setBusy] = useState(false);
    const wrong = wrongJson(draft.payload) || masked(draft.payload);
    const send = async (): Promise<void> => {
        setBusy(true);
        let id = "";
        const done = await attempt(async () => {
            id = (await post<Receipt>("v1/tasks", body(draft))).id;
        }, "the task is stored");
        setBusy(false);
        if (!done) return;
        close();
        go("tasks/" + id);
    };
    return (
        <Dialog title={title} wide>
            <DialogForm save={send} verb="Hand over" disabled={busy || !!wrong || !draft.type?.trim()}>
                <div class="text form">
                    {FIELDS.map(([name, label, hint]) => (
                        <label class="field" key={name}>
                            <span>{label}</span>
                            <input
                                name={"new-" + name}
                                value={draft[name] ?? ""}
                                placeholder={hint}
                                required={name === "type"}
                                autofocus={name === "type"}
                                autocomplete="off"
                                spellcheck={false}
                                onInput={(event) => setDraft({ ...draft, [name]: event.currentTarget.value })}
                            />
                        </label>
                    ))}
                    <label class="field full">
                        <span>Payload (JSON)</span>
                        <textarea name="new-payload" rows={8} spellcheck={false} value={draft.payload ?? ""} aria-invalid={!!wrong} onInput={(event) => setDraft({ ...draft, payload: event.currentTarget.value })} />
                        {wrong && <small class="wrong">{wrong}</small>}
                    </label>
                </div>
            </DialogForm>
        </Dialog>
    );
}

export function newTask(draft: Draft = {}, title = "New task"): void {
    show(<Form draft={draft} title={title} />);
}
