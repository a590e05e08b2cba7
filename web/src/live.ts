// What makes pages live: events of the server say that something changed, and views that care ask again.
//
// Events carry no data into the views, so none can be lost: after a reconnection, and after the server says that there was a gap, every view
// asks again. Where the stream is not to be had (a token that is bound to a tenant), and for what changes without an event, views ask every
// few seconds.
import { computed, effect, signal } from "@preact/signals";
import { useEffect, useRef, useState } from "preact/hooks";
import { Problem, serverNow, session, whoAmI } from "./client";

export interface Happening {
    event: string;
    at: string | null;
    id: string | null;
    queue: string | null;
    type: string | null;
}

export const LEAST_MS = 1000; // between two questions of a view
export const IDLE_MS = 5000; // without an event
const AWAY_MS = 10000; // a page that nobody sees gives its stream back: browsers have few connections for one server

type Ear = (what: Happening | null) => void; // null: anything may have changed

const ears = new Set<Ear>();
const connection = signal<"connecting" | "open" | "lost" | "none">("connecting");
export const paused = signal(false);
export const hidden = signal(document.hidden);
export const liveState = computed(() =>
    paused.value ? "paused" : connection.value === "open" ? "live" : connection.value === "none" ? "polling" : "reconnecting",
);
// The server was there, and does not answer: said once, for the whole page.
export const lostServer = computed(() => connection.value === "lost");
// Events by second, for the picture of the last minute.
export const beat = signal(0);
const counts = new Map<number, Record<string, number>>();

// Nothing is known of a second before the first stream was open.
let since = Infinity;

export function eventsAt(second: number, name: string): number | null {
    return counts.get(second)?.[name] ?? (second < since ? null : 0);
}

// By when it happened: after a reconnection events come that are older.
function count(what: Happening): void {
    const now = Math.floor(Date.now() / 1000);
    const at = what.at ? Math.min(now, Math.floor((Date.parse(what.at) - serverNow() + Date.now()) / 1000)) : now;
    let row = counts.get(at);
    if (!row) {
        if (at < now - 300) return;
        counts.set(at, (row = {}));
        for (const old of counts.keys()) if (old < now - 300) counts.delete(old);
    }
    row[what.event] = (row[what.event] ?? 0) + 1;
}

function tell(what: Happening | null): void {
    for (const ear of ears) ear(what);
}

// ---- the stream ---------------------------------------------------------------------------------------------------------------

let stream: AbortController | null = null;
let last = "";
let wait = 500;
let timer = 0;

// One event, as text: lines of "name: value". Thousands may come in a second, so it is looked at no closer than needed.
function onEvent(text: string): void {
    const field = (name: string): string => {
        const at = text.startsWith(name) ? 0 : text.indexOf("\n" + name) + 1;
        if (!at && !text.startsWith(name)) return "";
        const end = text.indexOf("\n", at);
        return text.slice(at + name.length, end < 0 ? undefined : end).trim();
    };
    const data = field("data:");
    if (!data) return; // a sign of life
    last = field("id:") || last;
    if (field("event:") === "gap") {
        tell(null);
        return;
    }
    const what = JSON.parse(data) as Happening;
    count(what);
    if (!paused.value && !hidden.value) tell(what);
}

async function follow(body: ReadableStream<Uint8Array>): Promise<void> {
    const reader = body.getReader(), text = new TextDecoder();
    let rest = "";
    for (;;) {
        const { done, value } = await reader.read();
        if (done) return;
        const parts = (rest + text.decode(value, { stream: true })).split("\n\n");
        rest = parts.pop()!;
        for (const part of parts) onEvent(part);
    }
}

function lost(): void {
    stream = null;
    connection.value = "lost";
    clearTimeout(timer);
    timer = window.setTimeout(connect, wait);
    wait = Math.min(wait * 2, 5000);
}

async function connect(): Promise<void> {
    clearTimeout(timer);
    stream?.abort();
    const mine = (stream = new AbortController());
    try {
        await whoAmI();
        if (mine.signal.aborted || !session.value) return;
        if (hidden.value) {
            stream = null;
            connection.value = "connecting"; // when somebody looks
            return;
        }
        if (session.value.tenant || !session.value.scopes.includes("read")) {
            connection.value = "none";
            return;
        }
        const answer = await fetch("v1/events" + (last ? "?after=" + encodeURIComponent(last) : ""), { signal: mine.signal, headers: { Accept: "text/event-stream" }, cache: "no-store" });
        if (!answer.ok || !answer.body) throw new Problem(answer.status, "stream", "no stream");
        wait = 500;
        connection.value = "open";
        since = Math.min(since, Date.now() / 1000);
        tell(null);
        await follow(answer.body);
    } catch {
        // whatever it was: it is tried again
    }
    if (!mine.signal.aborted) lost();
}

function disconnect(): void {
    clearTimeout(timer);
    stream?.abort();
    stream = null;
    last = "";
    connection.value = "connecting";
}

const who = computed(() => session.value?.name ?? null);
effect(() => {
    if (who.value) void connect();
    else disconnect();
});
let away = 0;
document.addEventListener("visibilitychange", () => {
    hidden.value = document.hidden;
    clearTimeout(away);
    if (document.hidden) {
        away = window.setTimeout(() => {
            stream?.abort();
            stream = null;
            if (connection.value === "open") connection.value = "connecting";
        }, AWAY_MS);
        return;
    }
    if (connection.value === "connecting" && who.value && !stream) void connect();
    if (!paused.value) tell(null);
});
setInterval(() => {
    beat.value++;
}, 1000);

export function togglePause(): void {
    paused.value = !paused.value;
    if (!paused.value) tell(null);
}

// ---- views --------------------------------------------------------------------------------------------------------------------

export interface View<T> {
    data: T | undefined;
    error: Problem | undefined; // of the last time; data may be older
    loading: boolean; // nothing to show yet
    reload: () => void;
}

interface Options {
    wants?: (what: Happening) => boolean;
    idle?: number | (() => number); // milliseconds; 0: only when something happens
    off?: boolean;
}

// Asks, and asks again when something happened. `key` names the question: another key is another question.
export function useLive<T>(key: string, ask: (signal: AbortSignal) => Promise<T>, options: Options = {}): View<T> {
    const [state, setState] = useState<{ key: string; data?: T; error?: Problem }>({ key });
    const now = useRef({ ask, options });
    const again = useRef<() => void>(() => {});
    now.current = { ask, options };

    useEffect(() => {
        if (now.current.options.off) return;
        const control = new AbortController();
        let busy = false, dirty = false, pause = LEAST_MS, timer = 0, idle = 0;
        const run = async (): Promise<void> => {
            clearTimeout(timer);
            clearTimeout(idle);
            timer = 0;
            if (busy) {
                dirty = true;
                return;
            }
            busy = true;
            dirty = false;
            const begun = performance.now();
            try {
                const data = await now.current.ask(control.signal);
                if (!control.signal.aborted) setState({ key, data });
            } catch (error) {
                if (control.signal.aborted) return;
                const problem = error instanceof Problem ? error : new Problem(0, "page", String(error));
                setState((old) => ({ key, data: old.key === key ? old.data : undefined, error: problem }));
            }
            busy = false;
            pause = Math.max(LEAST_MS, 4 * (performance.now() - begun)); // a slow store is not asked all the time
            if (dirty) soon();
            const wish = now.current.options.idle ?? IDLE_MS;
            const most = typeof wish === "number" ? wish : wish();
            if (most) idle = window.setTimeout(() => tick(), Math.max(most, pause));
        };
        const soon = (): void => {
            if (!timer) timer = window.setTimeout(() => void run(), pause);
        };
        const tick = (): void => {
            if (!paused.value && !hidden.value) void run();
            else idle = window.setTimeout(() => tick(), IDLE_MS);
        };
        const ear: Ear = (what) => {
            if (!what) void run();
            else if (!now.current.options.wants || now.current.options.wants(what)) soon();
        };
        again.current = () => void run();
        ears.add(ear);
        void run();
        return () => {
            control.abort();
            ears.delete(ear);
            clearTimeout(timer);
            clearTimeout(idle);
        };
    }, [key, options.off]);

    const mine = state.key === key;
    return {
        data: mine ? state.data : undefined,
        error: mine ? state.error : undefined,
        loading: !mine || (!state.data && !state.error),
        reload: () => again.current(),
    };
}
