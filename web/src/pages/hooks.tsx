// Hooks: who is told what happens, by signed POSTs; and how the last of them went.
import { useState } from "preact/hooks";
import { call, get, post, Problem, segment } from "../client";
import type { Hook, HookMade, Hooks, Page, Receipt, Task } from "../api";
import { plural } from "../format";
import { useLive } from "../live";
import { link } from "../router";
import { Button, Empty, Name, PageHead, Show, Time, useTitle } from "../ui/basic";
import { attempt, close, confirm, Dialog, DialogForm, show } from "../ui/dialog";
import { State } from "../ui/icons";
import { Table } from "../ui/table";
import { WITHIN } from "./tasks";

const QUEUE = "pawl.hooks";
const EVENTS = ["dispatched", "started", "succeeded", "failed", "cancelled", "retrying", "rescued"];
const LOOKED_AT = 20; // hooks whose deliveries are looked for

interface Row extends Hook {
    sent: Task | undefined; // the last one that ended well
    wrong: Task | undefined; // the last one that had trouble
}

// How the payload of a delivery begins.
const named = (hook: Hook): string => JSON.stringify({ hook: hook.name }).slice(1, -1);
const deliveries = (hook: Hook): string => link("tasks", { queue: QUEUE, q: named(hook) });

async function load(signal: AbortSignal): Promise<Row[] | null> {
    try {
        const { hooks } = await get<Hooks>("v1/hooks", {}, signal);
        return await Promise.all(
            hooks.map(async (hook, at) => {
                const page = at < LOOKED_AT ? await get<Page>("v1/tasks", { queue: QUEUE, q: named(hook), within: WITHIN, limit: 20 }, signal) : { tasks: [] };
                return { ...hook, sent: page.tasks.find((task) => task.state === "succeeded"), wrong: page.tasks.find((task) => task.error && task.state !== "succeeded") };
            }),
        );
    } catch (error) {
        if (error instanceof Problem && error.status === 409) return null; // this server has none
        throw error;
    }
}

// The whole hook is put: what is not said stays as it is.
const specOf = (hook: Hook): object => ({ url: hook.url, events: hook.events, ...(hook.type ? { type: hook.type } : {}), ...(hook.queue ? { queue: hook.queue } : {}), disabled: hook.disabled });

function Secret({ name, secret }: { name: string; secret: string }) {
    return (
        <Dialog title={`The secret of “${name}”`}>
            <div class="text">
                <p>Whoever gets its POSTs checks their signature with this. It is not shown again.</p>
                <p>
                    <code data-testid="secret">{secret}</code>
                </p>
            </div>
            <footer>
                <Button kind="main" onClick={close}>
                    Done
                </Button>
            </footer>
        </Dialog>
    );
}

function Form({ hook, done }: { hook?: Hook; done: () => void }) {
    const [form, setForm] = useState({ name: hook?.name ?? "", url: hook?.url ?? "", type: hook?.type ?? "", queue: hook?.queue ?? "", events: hook?.events ?? ["succeeded", "failed", "cancelled"] });
    const text = (name: "name" | "url" | "type" | "queue", label: string, hint: string, needed = false) => (
        <label class={"field" + (name === "url" ? " full" : "")}>
            <span>{label}</span>
            <input name={"hook-" + name} value={form[name]} placeholder={hint} disabled={name === "name" && !!hook} required={needed} autocomplete="off" spellcheck={false} onInput={(event) => setForm({ ...form, [name]: event.currentTarget.value })} />
        </label>
    );
    const turn = (event: string): void => setForm({ ...form, events: form.events.includes(event) ? form.events.filter((one) => one !== event) : [...form.events, event] });
    const save = async (): Promise<void> => {
        let made: HookMade | undefined;
        const body = { url: form.url, events: form.events, ...(form.type ? { type: form.type } : {}), ...(form.queue ? { queue: form.queue } : {}), disabled: hook?.disabled ?? false };
        if (!(await attempt(async () => (made = await call<HookMade>("PUT", `v1/hooks/${segment(form.name)}`, body)), "it is told from now on"))) return;
        close();
        done();
        if (made?.secret) show(<Secret name={form.name} secret={made.secret} />);
    };
    return (
        <Dialog title={hook ? "Change a hook" : "New hook"} wide>
            <DialogForm save={save} disabled={!form.events.length}>
                <div class="text form">
                    {text("name", "Name", "billing", true)}
                    {text("url", "Where to", "https://example.com/pawl", true)}
                    {text("type", "Only tasks of this type", "any")}
                    {text("queue", "Only tasks of this queue", "any")}
                    <div class="full" role="group" aria-label="events">
                        {[...new Set([...EVENTS, ...form.events])].map((event) => (
                            <label key={event} class="tickfield">
                                <input type="checkbox" checked={form.events.includes(event)} onChange={() => turn(event)} /> {event}
                            </label>
                        ))}
                    </div>
                </div>
            </DialogForm>
        </Dialog>
    );
}

function Acts({ hook, done }: { hook: Hook; done: () => void }) {
    const path = `v1/hooks/${segment(hook.name)}`;
    const turn = (disabled: boolean): Promise<unknown> => call("PUT", path, { ...specOf(hook), disabled });
    const test = async (): Promise<void> => {
        await attempt(() => post<Receipt>(`${path}/test`), "a test is on its way");
        done();
    };
    const off = (): void =>
        confirm({ title: `Disable “${hook.name}”?`, body: <p>What happens meanwhile is not told, then or later.</p>, verb: "Disable the hook", danger: true, act: () => turn(true).then(done), done: `${hook.name} is told nothing` });
    const remove = (): void =>
        confirm({ title: `Remove “${hook.name}”?`, body: <p>Its secret is forgotten; what is on its way to it fails.</p>, verb: "Remove the hook", danger: true, act: () => call("DELETE", path).then(done), done: `${hook.name} is removed` });
    return (
        <>
            <Button onClick={() => void test()}>Test</Button>{" "}
            {hook.disabled ? (
                <Button icon="play" onClick={() => void attempt(() => turn(false), `${hook.name} is told again`).then(done)}>
                    Enable
                </Button>
            ) : (
                <Button icon="pause" onClick={off}>
                    Disable
                </Button>
            )}{" "}
            <Button onClick={() => show(<Form hook={hook} done={done} />)}>Edit</Button> <Button onClick={remove}>Remove</Button>
        </>
    );
}

export function HookList() {
    useTitle("Hooks");
    const view = useLive<Row[] | null>("hooks", load, { idle: 5000, wants: (event) => event.queue === QUEUE });
    return (
        <>
            <PageHead title="Hooks" sub={<span class="faint">Who is told what happens to tasks, by signed POSTs (Standard Webhooks).</span>}>
                {view.data && (
                    <Button kind="main" icon="plus" hotkey="n" onClick={() => show(<Form done={view.reload} />)}>
                        New hook
                    </Button>
                )}
            </PageHead>
            <Show view={view}>
                {(rows) =>
                    rows === null ? (
                        <Empty title="This server has no hooks" icon="hooks">
                            <p>Start it with a file for them:</p>
                            <pre>pawl serve --hooks FILE</pre>
                        </Empty>
                    ) : rows.length ? (
                        <Table
                            rows={rows}
                            id={(hook) => hook.name}
                            label="hooks"
                            columns={[
                                { title: "Hook", cell: (hook) => <Name text={hook.name} href={deliveries(hook)} /> },
                                { title: "State", cell: (hook) => <span title={hook.why ?? undefined}><State name={hook.disabled ? "disabled" : "enabled"} /></span> },
                                { title: "Where to", class: "grow", cell: (hook) => <Name text={hook.url} /> },
                                { title: "Events", class: "far", cell: (hook) => <span title={hook.events.join(", ")}><Name text={[plural(hook.events.length, "event"), hook.type && `of ${hook.type}`, hook.queue && `in ${hook.queue}`].filter(Boolean).join(" ")} /></span> },
                                { title: "Last sent", num: true, cell: (hook) => <Time at={hook.sent?.finished_at ?? null} /> },
                                { title: "Last error", class: "grow last", cell: (hook) => (hook.wrong ? <Name text={hook.wrong.error} href={link(`tasks/${hook.wrong.id}`)} /> : hook.why ? <Name text={hook.why} /> : <span class="faint">–</span>) },
                                { title: "Actions", class: "act", cell: (hook) => <Acts hook={hook} done={view.reload} /> },
                            ]}
                        />
                    ) : (
                        <Empty title="No hook yet" icon="hooks">
                            A hook tells another server when tasks succeed, fail or are cancelled.
                        </Empty>
                    )
                }
            </Show>
        </>
    );
}
