// Questions before something is changed, and short notes after it.
import { computed, effect, signal } from "@preact/signals";
import type { ComponentChildren } from "preact";
import { useEffect, useRef, useState } from "preact/hooks";
import { Problem } from "../client";
import { place } from "../router";
import { Button } from "./basic";
import { Icon } from "./icons";

// ---- notes --------------------------------------------------------------------------------------------------------------------

interface Note {
    id: number;
    text: string;
    tone: "good" | "bad";
}

const notes = signal<Note[]>([]);
let counter = 0;

export function toast(text: string, tone: "good" | "bad" = "good"): void {
    const id = ++counter;
    notes.value = [...notes.value.slice(-3), { id, text, tone }];
    setTimeout(() => (notes.value = notes.value.filter((note) => note.id !== id)), tone === "bad" ? 9000 : 4000);
}

export function Toasts() {
    return (
        <div class="toasts" role="status" aria-live="polite">
            {notes.value.map((note) => (
                <div key={note.id} class={"toast " + note.tone}>
                    <Icon name={note.tone === "good" ? "check" : "failures"} />
                    <span>{note.text}</span>
                </div>
            ))}
        </div>
    );
}

// Does something that may be refused, and says how it went.
export async function attempt(what: () => Promise<unknown>, done: string): Promise<boolean> {
    try {
        await what();
        toast(done);
        return true;
    } catch (error) {
        toast(error instanceof Problem ? error.message : String(error), "bad");
        return false;
    }
}

// ---- dialogs ------------------------------------------------------------------------------------------------------------------

const open = signal<ComponentChildren>(null);

export function show(content: ComponentChildren): void {
    open.value = content;
}

export function close(): void {
    open.value = null;
}

// A question belongs to the page that asked it.
const page = computed(() => place.value.path.join("/"));
effect(() => {
    void page.value;
    close();
});

export const dialogIsOpen = (): boolean => open.value !== null;

export function Dialogs() {
    return <>{open.value}</>;
}

export function Dialog(props: { title: string; children: ComponentChildren; wide?: boolean; onClose?: () => void }) {
    const ref = useRef<HTMLDialogElement>(null);
    useEffect(() => {
        const back = document.activeElement as HTMLElement | null;
        ref.current?.showModal();
        ref.current?.querySelector<HTMLElement>("[autofocus]")?.focus();
        return () => back?.focus?.();
    }, []);
    const end = (): void => {
        props.onClose?.();
        close();
    };
    return (
        <dialog ref={ref} class={props.wide ? "wide" : ""} aria-label={props.title} onCancel={end} onClick={(event) => event.target === ref.current && end()}>
            <div class="dialog">
                <header>
                    <h2>{props.title}</h2>
                    <button type="button" class="quiet" aria-label="close" onClick={end}>
                        <Icon name="close" />
                    </button>
                </header>
                {props.children}
            </div>
        </dialog>
    );
}

// What a dialog asks for, and the buttons below it.
export function DialogForm(props: { save: () => Promise<void>; children: ComponentChildren; verb?: string; danger?: boolean; disabled?: boolean; ready?: boolean }) {
    return (
        <form
            onSubmit={(event) => {
                event.preventDefault();
                void props.save();
            }}
        >
            {props.children}
            <footer>
                <Button onClick={close}>Back</Button>
                <button type="submit" class={"button " + (props.danger ? "danger" : "main")} disabled={props.disabled} autofocus={props.ready} data-testid="confirm">
                    {props.verb ?? "Save"}
                </button>
            </footer>
        </form>
    );
}

interface Question {
    title: string;
    body: ComponentChildren;
    verb: string;
    danger?: boolean;
    note?: string; // label of a text that goes along
    act: (note: string) => Promise<unknown>;
    done: string;
}

function Confirm(props: Question) {
    const [busy, setBusy] = useState(false);
    const [note, setNote] = useState("");
    const run = async (): Promise<void> => {
        setBusy(true);
        if (await attempt(() => props.act(note), props.done)) close();
        else setBusy(false);
    };
    return (
        <Dialog title={props.title}>
            <DialogForm save={run} verb={props.verb} danger={props.danger} disabled={busy} ready>
                <div class="text">{props.body}</div>
                {props.note && (
                    <label class="field">
                        <span>{props.note}</span>
                        <input name="note" value={note} onInput={(event) => setNote(event.currentTarget.value)} autocomplete="off" />
                    </label>
                )}
            </DialogForm>
        </Dialog>
    );
}

export function confirm(question: Question): void {
    show(<Confirm {...question} />);
}
