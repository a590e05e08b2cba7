// Small things that all pages are made of.
import type { ComponentChildren } from "preact";
import { useEffect, useState } from "preact/hooks";
import { Problem, serverNow } from "../client";
import { ago, compact, exact, number } from "../format";
import { beat, lostServer, type View } from "../live";
import { link, place, setQuery } from "../router";
import { Icon } from "./icons";
import { toast } from "./dialog";

export function Time({ at, empty = "–" }: { at: string | null | undefined; empty?: string }) {
    if (!at) return <span class="faint">{empty}</span>;
    void beat.value;
    return (
        <time dateTime={at} title={exact(at)}>
            {ago(Date.parse(at), serverNow())}
        </time>
    );
}

// Over plain HTTP browsers have no clipboard for pages, but copy what is selected.
function copySelected(text: string): void {
    const field = document.createElement("textarea");
    const back = document.activeElement as HTMLElement | null;
    field.value = text;
    field.className = "skip";
    (document.querySelector("dialog[open]") ?? document.body).append(field);
    field.select();
    const done = document.execCommand("copy");
    field.remove();
    back?.focus();
    if (!done) throw new Error("not copied");
}

export async function copy(text: string): Promise<void> {
    try {
        if (isSecureContext && navigator.clipboard) await navigator.clipboard.writeText(text);
        else copySelected(text);
        toast(`copied ${text.length > 40 ? text.length + " characters" : text}`);
    } catch {
        toast("the browser does not let this page copy", "bad");
    }
}

export function save(name: string, parts: string[]): void {
    const url = URL.createObjectURL(new Blob(parts, { type: "text/plain" }));
    const a = document.createElement("a");
    a.href = url;
    a.download = name;
    a.click();
    setTimeout(() => URL.revokeObjectURL(url), 1000);
}

export function Copy({ text, what }: { text: string; what: string }) {
    return (
        <button type="button" class="quiet copy" title={`copy ${what}`} aria-label={`copy ${what}`} onClick={() => void copy(text)}>
            <Icon name="copy" />
        </button>
    );
}

export function Id({ id, to = true }: { id: string; to?: boolean }) {
    return (
        <span class="id">
            {to ? <a href={link("tasks/" + id)}>{id}</a> : <code>{id}</code>}
            <Copy text={id} what={"id " + id} />
        </span>
    );
}

// A name that others gave: never longer than its place, whole on hover.
export function Name({ text, href, empty = "–" }: { text: string | null | undefined; href?: string; empty?: string }) {
    if (!text) return <span class="faint">{empty}</span>;
    const shown = (
        <bdi class="name" title={text}>
            {text}
        </bdi>
    );
    return href ? <a href={href}>{shown}</a> : shown;
}

// more: it was not counted further.
export function Count({ n, more, tone, href }: { n: number; more?: boolean; tone?: string; href?: string }) {
    const text = <span class={"count " + (n ? (tone ?? "") : "faint")} title={number(n) + (more ? " or more" : "")}>{compact(n) + (more ? "+" : "")}</span>;
    return href && n ? <a href={href}>{text}</a> : text;
}

export function Button(props: {
    onClick: () => void;
    children: ComponentChildren;
    icon?: string;
    kind?: "main" | "danger" | "quiet" | "plain";
    disabled?: boolean;
    title?: string;
    hotkey?: string;
    testid?: string;
}) {
    return (
        <button
            type="button"
            class={"button " + (props.kind ?? "plain")}
            disabled={props.disabled}
            title={props.title ?? (props.hotkey ? `key ${props.hotkey}` : undefined)}
            data-hotkey={props.hotkey}
            data-testid={props.testid}
            onClick={props.onClick}
        >
            {props.icon && <Icon name={props.icon} />}
            {props.children}
        </button>
    );
}

export function Card(props: { title?: ComponentChildren; side?: ComponentChildren; children: ComponentChildren; class?: string; label?: string }) {
    return (
        <section class={"card " + (props.class ?? "")} aria-label={props.label ?? (typeof props.title === "string" ? props.title : undefined)}>
            {(props.title || props.side) && (
                <header>
                    {props.title && <h2>{props.title}</h2>}
                    <div class="side">{props.side}</div>
                </header>
            )}
            {props.children}
        </section>
    );
}

export function Empty({ title, children, icon = "check" }: { title: string; children?: ComponentChildren; icon?: string }) {
    return (
        <div class="empty">
            <Icon name={icon} />
            <p class="strong">{title}</p>
            {children && <div>{children}</div>}
        </div>
    );
}

const ADVICE: Record<number, string> = {
    0: "It is asked again by itself as soon as it answers.",
    403: "Ask whoever runs this server for a token that allows it.",
    404: "It may have been removed after its retention.",
    503: "It is asked again by itself.",
};

export function Trouble({ problem, reload }: { problem: Problem; reload?: () => void }) {
    return (
        <div class="empty trouble" role="alert">
            <Icon name={problem.status === 403 ? "pause" : "failures"} />
            <p class="strong">{problem.status === 403 ? "Not allowed" : problem.status === 404 ? "Not found" : "Could not be loaded"}</p>
            <div>
                <p>{problem.message}.</p>
                <p class="faint">{ADVICE[problem.status] ?? ""}</p>
                {reload && problem.status !== 403 && (
                    <Button onClick={reload} icon="retry">
                        Try again
                    </Button>
                )}
            </div>
        </div>
    );
}

export function Skeleton({ rows = 6 }: { rows?: number }) {
    return (
        <div class="skeleton" role="status" aria-label="loading">
            {Array.from({ length: rows }, (_, i) => (
                <div key={i} class={"bone bone-" + (i % 3)} />
            ))}
        </div>
    );
}

// The states that every view has: loading, failed, failed but with what was there before, there.
export function Show<T>({ view, children, rows }: { view: View<T>; children: (data: T) => ComponentChildren; rows?: number }) {
    if (view.data === undefined) return view.error ? <Trouble problem={view.error} reload={view.reload} /> : <Skeleton rows={rows} />;
    return (
        <>
            {view.error && !(lostServer.value && view.error.status === 0) && (
                <div class="notice amber" role="status">
                    {view.error.message}: what you see is older.{" "}
                    <button type="button" class="linkish" onClick={view.reload}>
                        Try again
                    </button>
                </div>
            )}
            {children(view.data)}
        </>
    );
}

export function Bar({ part, whole, tone = "blue", label }: { part: number; whole: number; tone?: string; label: string }) {
    const share = whole > 0 ? Math.max(0, Math.min(1, part / whole)) : 0;
    return (
        <svg class={"bar " + tone} role="img" aria-label={label} viewBox="0 0 100 8" preserveAspectRatio="none">
            <title>{label}</title>
            <rect class="track" width="100" height="8" />
            <rect width={share * 100} height="8" />
        </svg>
    );
}

export function Tabs({ value, options, onChange, label }: { value: string; options: [string, string][]; onChange: (value: string) => void; label: string }) {
    return (
        <div class="tabs" role="group" aria-label={label}>
            {options.map(([key, text]) => (
                <button key={key} type="button" aria-pressed={key === value} onClick={() => onChange(key)}>
                    {text}
                </button>
            ))}
        </div>
    );
}

export function PageHead({ title, children, sub }: { title: ComponentChildren; children?: ComponentChildren; sub?: ComponentChildren }) {
    return (
        <header class="pagehead">
            <div>
                <h1>{title}</h1>
                {sub && <p class="sub">{sub}</p>}
            </div>
            <div class="actions">{children}</div>
        </header>
    );
}

// Below a list that has more than it shows. Where one is stands in the address, under `name`.
export function Turn({ next, name = "cursor", more = "More" }: { next: string | number | null | undefined; name?: string; more?: string }) {
    const here = place.value.query[name];
    if (!next && !here) return null;
    return (
        <footer class="pager">
            {here && <Button onClick={() => setQuery({ [name]: "" })}>To the beginning</Button>}
            {next && <Button onClick={() => setQuery({ [name]: next })}>{more}</Button>}
        </footer>
    );
}

export function useTitle(title: string): void {
    useEffect(() => {
        document.title = title + " · Pawl";
    }, [title]);
}

// A text field that tells its value when it rests.
export function Field(props: { label: string; value: string; onChange: (value: string) => void; placeholder?: string; list?: string[]; name: string }) {
    const [text, setText] = useState(props.value);
    useEffect(() => setText(props.value), [props.value]);
    const id = "field-" + props.name;
    return (
        <label class="field">
            <span>{props.label}</span>
            <input
                name={props.name}
                value={text}
                placeholder={props.placeholder}
                list={props.list ? id : undefined}
                autocomplete="off"
                spellcheck={false}
                onInput={(event) => setText(event.currentTarget.value)}
                onChange={(event) => props.onChange(event.currentTarget.value.trim())}
            />
            {props.list && (
                <datalist id={id}>
                    {props.list.map((item) => (
                        <option key={item} value={item} />
                    ))}
                </datalist>
            )}
        </label>
    );
}
