// Calls of the API. All addresses are relative to the page, so that it works below any path.
import { signal } from "@preact/signals";
import type { Session } from "./api";

export type Scope = "read" | "enqueue" | "work" | "operate" | "admin";

// RFC 9457, or what stands for it when nothing answered (status 0).
export class Problem extends Error {
    constructor(
        readonly status: number,
        readonly kind: string,
        detail: string,
    ) {
        super(detail);
    }
}

// undefined: not known yet; null: nobody, a login is needed.
export const session = signal<Session | null | undefined>(undefined);
export const can = (scope: Scope): boolean => !!session.value?.scopes.includes(scope);
export const wholeStore = (): boolean => !session.value?.tenant;

export type Query = Record<string, string | number | boolean | null | undefined>;

export function queryText(query: Query): string {
    const text = new URLSearchParams();
    for (const [name, value] of Object.entries(query)) {
        if (value !== undefined && value !== null && value !== "" && value !== false) text.set(name, String(value));
    }
    const out = text.toString();
    return out && "?" + out;
}

// How far the server's clock is ahead of ours, where that is more than its header can tell apart.
let skew = 0;
export const serverNow = (): number => Date.now() + skew;

function lookAtClock(answer: Response): void {
    const at = Date.parse(answer.headers.get("date") ?? "");
    const ahead = at + 500 - Date.now();
    skew = Math.abs(ahead) > 2000 ? ahead : 0;
}

async function problemOf(answer: Response): Promise<Problem> {
    try {
        const body = await answer.json();
        return new Problem(answer.status, String(body.type), String(body.detail));
    } catch {
        return new Problem(answer.status, "unknown", `the server answered ${answer.status} ${answer.statusText}`);
    }
}

export async function callText(method: string, path: string, body?: unknown, signal?: AbortSignal): Promise<string> {
    let answer: Response;
    try {
        answer = await fetch(path, {
            method,
            signal,
            credentials: "same-origin",
            headers: body === undefined ? {} : { "Content-Type": "application/json" },
            body: body === undefined ? undefined : typeof body === "string" ? body : JSON.stringify(body),
        });
    } catch (error) {
        if (signal?.aborted) throw error;
        throw new Problem(0, "offline", "the server does not answer");
    }
    lookAtClock(answer);
    if (answer.ok || (answer.status === 503 && path === "readyz")) return answer.text();
    const problem = await problemOf(answer);
    if (problem.status === 401 && path !== "v1/session") session.value = null;
    throw problem;
}

export async function call<T>(method: string, path: string, body?: unknown, signal?: AbortSignal): Promise<T> {
    return JSON.parse(await callText(method, path, body, signal)) as T;
}

export const get = <T>(path: string, query: Query = {}, signal?: AbortSignal): Promise<T> =>
    call<T>("GET", path + queryText(query), undefined, signal);
export const post = <T>(path: string, body?: unknown, signal?: AbortSignal): Promise<T> => call<T>("POST", path, body, signal);

export const segment = (name: string): string => encodeURIComponent(name);

export async function whoAmI(): Promise<void> {
    try {
        session.value = await get<Session>("v1/session");
    } catch (error) {
        if (error instanceof Problem && error.status === 401) session.value = null;
        else throw error;
    }
}

export async function login(token: string): Promise<void> {
    session.value = await post<Session>("v1/session", { token });
}

export async function logout(): Promise<void> {
    await call("DELETE", "v1/session");
    session.value = null;
}
