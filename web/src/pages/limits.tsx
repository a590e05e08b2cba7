// Limits: how many start per period (rates, with their budgets), and how many run at a time.
import { useState } from "preact/hooks";
import { call, can, get, queryText, segment } from "../client";
import type { Limit, Limits, Place, Places } from "../api";
import { number, plural, rateText } from "../format";
import { useLive } from "../live";
import { link, place, setQuery } from "../router";
import { Bar, Button, Count, Empty, Id, Name, PageHead, Show, Tabs, Time, Turn, useTitle } from "../ui/basic";
import { attempt, close, confirm, Dialog, DialogForm, show } from "../ui/dialog";
import { State } from "../ui/icons";
import { Table } from "../ui/table";
import { Most } from "./queues";

const keyText = (row: { key?: string | null; key_base64?: string }): string | null => row.key ?? (row.key_base64 ? `base64 ${row.key_base64}` : null);
const path = (limit: Limit, verb = ""): string => `v1/limits/${segment(limit.type)}${verb}${queryText({ key: limit.key })}`;

// ---- the form -----------------------------------------------------------------------------------------------------------------

function Form({ limit, done }: { limit?: Limit; done: () => void }) {
    const [form, setForm] = useState({
        type: limit?.type ?? "",
        key: limit?.key ?? "",
        permits: limit ? String(limit.permits) : "",
        period: limit ? `${limit.period_us / 1e6}s` : "1m",
        burst: limit && limit.burst !== limit.permits ? String(limit.burst) : "",
        discard: limit?.discard ?? false,
        retries_free: limit?.retries_free ?? false,
        start_empty: limit?.start_empty ?? false,
    });
    const text = (name: "type" | "key" | "permits" | "period" | "burst", label: string, hint: string, fixed = false) => (
        <label class="field">
            <span>{label}</span>
            <input name={"limit-" + name} value={form[name]} placeholder={hint} disabled={fixed} autocomplete="off" spellcheck={false} required={name === "type" || name === "permits"} onInput={(event) => setForm({ ...form, [name]: event.currentTarget.value })} />
        </label>
    );
    const tick = (name: "discard" | "retries_free" | "start_empty", label: string) => (
        <label class="tickfield">
            <input type="checkbox" checked={form[name]} onChange={(event) => setForm({ ...form, [name]: event.currentTarget.checked })} /> {label}
        </label>
    );
    const save = async (): Promise<void> => {
        const body = { permits: Number(form.permits), period: form.period, ...(form.burst ? { burst: Number(form.burst) } : {}), discard: form.discard, retries_free: form.retries_free, start_empty: form.start_empty };
        if (!(await attempt(() => call("PUT", `v1/limits/${segment(form.type)}${queryText({ key: form.key })}`, body), "the limit holds from now on"))) return;
        close();
        done();
    };
    return (
        <Dialog title={limit ? "Change a rate limit" : "New rate limit"} wide>
            <DialogForm save={save}>
                <div class="text form">
                    {text("type", "Type of task", "email.send", !!limit)}
                    {text("key", "Rate key (empty: each key by itself)", "", !!limit)}
                    {text("permits", "Starts", "15")}
                    {text("period", "per", "1m")}
                    {text("burst", "Saved up at most", "as many as starts")}
                    <div class="full">
                        {tick("discard", "fail what cannot start at once")}
                        {tick("retries_free", "retries take nothing")}
                        {tick("start_empty", "a new key has saved nothing")}
                    </div>
                </div>
            </DialogForm>
        </Dialog>
    );
}

function askDrop(limit: Limit, done: () => void): void {
    confirm({
        title: "Take this limit away?",
        body: (
            <p>
                <Name text={limit.type} /> {limit.key && <>for <Name text={limit.key} /> </>}may then start without a bound: {plural(limit.waiting, "task")} wait for it now.
            </p>
        ),
        verb: "Take it away",
        danger: true,
        act: () => call("DELETE", path(limit)).then(done),
        done: "no longer limited",
    });
}

function askPause(limit: Limit, done: () => void): void {
    confirm({
        title: "Pause this key?",
        body: <p>Nothing more of <Name text={limit.type} /> {limit.key && <>with the rate key <Name text={limit.key} /> </>}starts. {plural(limit.waiting, "task")} wait already.</p>,
        verb: "Pause",
        danger: true,
        act: () => call("POST", path(limit, "/pause")).then(done),
        done: "paused",
    });
}

// ---- rates --------------------------------------------------------------------------------------------------------------------

function Rates() {
    const query = place.value.query;
    const waiting = query.waiting === "yes";
    const view = useLive<Limits>(`limits-${waiting}-${query.cursor ?? ""}`, (signal) => get<Limits>("v1/limits", { waiting, limit: 100, cursor: query.cursor }, signal), { idle: 2000 });
    return (
        <>
            <div class="above">
                <label class="tickfield">
                    <input type="checkbox" checked={waiting} onChange={() => setQuery({ waiting: waiting ? "" : "yes", cursor: "" })} /> only keys that tasks wait for
                </label>
                {can("operate") && (
                    <Button kind="main" icon="plus" hotkey="n" onClick={() => show(<Form done={view.reload} />)}>
                        New rate limit
                    </Button>
                )}
            </div>
            <Show view={view}>
                {({ limits, next }) =>
                    limits.length ? (
                        <>
                            <Table
                                rows={limits}
                                id={(limit) => limit.type + "\n" + (keyText(limit) ?? "")}
                                label="rate limits"
                                columns={[
                                    { title: "Type", cell: (limit) => <Name text={limit.type} href={link("tasks", { type: limit.type })} /> },
                                    { title: "Key", cell: (limit) => <Name text={keyText(limit)} empty="each key" /> },
                                    { title: "Limit", cell: (limit) => <span title={limit.own ? "of this key alone" : "of the type"}>{rateText(limit.permits, limit.period_us)}</span> },
                                    { title: "State", cell: (limit) => <State name={limit.paused ? "paused" : limit.waiting + limit.parked ? "throttled" : "open"} /> },
                                    { title: "Budget", class: "share", cell: (limit) => (keyText(limit) ? <Bar part={limit.left} whole={limit.burst} tone={limit.left ? "green" : "amber"} label={`${number(limit.left)} of ${number(limit.burst)} starts left`} /> : <span class="faint">by key</span>) },
                                    { title: "Left", num: true, cell: (limit) => (keyText(limit) ? `${number(limit.left)}/${number(limit.burst)}` : "") },
                                    { title: "Waiting", num: true, cell: (limit) => <Count n={limit.waiting + limit.parked} tone="amber" /> },
                                    { title: "Next slot", num: true, cell: (limit) => <Time at={limit.next_slot_at} /> },
                                    {
                                        title: "Actions",
                                        class: "act",
                                        cell: (limit) =>
                                            can("operate") &&
                                            limit.key_base64 === undefined && (
                                                <>
                                                    {limit.paused ? (
                                                        <Button icon="play" onClick={() => void attempt(() => call("POST", path(limit, "/resume")), "goes on").then(view.reload)}>
                                                            Resume
                                                        </Button>
                                                    ) : (
                                                        <Button icon="pause" onClick={() => askPause(limit, view.reload)}>
                                                            Pause
                                                        </Button>
                                                    )}{" "}
                                                    <Button onClick={() => show(<Form limit={limit} done={view.reload} />)}>Edit</Button>{" "}
                                                    {(limit.own || !limit.key) && <Button onClick={() => askDrop(limit, view.reload)}>Remove</Button>}
                                                </>
                                            ),
                                    },
                                ]}
                            />
                            <Turn next={next} />
                        </>
                    ) : (
                        <Empty title={waiting ? "No task waits for a rate" : "No rate limit"} icon="limits">
                            <p>A limit says how many tasks of a type start per period, for each rate key:</p>
                            <pre>pawl limits set email.send 15/1m</pre>
                        </Empty>
                    )
                }
            </Show>
        </>
    );
}

// ---- how many at a time -----------------------------------------------------------------------------------------------------------

const SCOPES: [string, string][] = [["queue", "a queue"], ["type", "a type"], ["key", "each rate key of a type"]];

function NewPlace({ done }: { done: () => void }) {
    const [form, setForm] = useState({ scope: "queue", name: "", key: "", most: "" });
    const save = async (): Promise<void> => {
        const path = `v1/concurrency/${segment(form.name.trim())}${queryText({ scope: form.scope, key: form.scope === "key" ? form.key : "" })}`;
        if (!(await attempt(() => call("PUT", path, { most: Number(form.most) }), "the limit holds from now on"))) return;
        close();
        done();
    };
    const text = (name: "name" | "key" | "most", label: string, hint: string, needed = true) => (
        <label class="field">
            <span>{label}</span>
            <input name={"place-" + name} inputMode={name === "most" ? "numeric" : undefined} value={form[name]} placeholder={hint} required={needed} autocomplete="off" spellcheck={false} onInput={(event) => setForm({ ...form, [name]: event.currentTarget.value })} />
        </label>
    );
    return (
        <Dialog title="New concurrency limit" wide>
            <DialogForm save={save}>
                <div class="text form">
                    <label class="field">
                        <span>Of</span>
                        <select name="place-scope" value={form.scope} autofocus onChange={(event) => setForm({ ...form, scope: event.currentTarget.value })}>
                            {SCOPES.map(([value, shown]) => <option key={value} value={value}>{shown}</option>)}
                        </select>
                    </label>
                    {text("name", form.scope === "queue" ? "Queue" : "Type", form.scope === "queue" ? "reports" : "report.build")}
                    {form.scope === "key" && text("key", "Rate key (empty: each key by itself)", "", false)}
                    {text("most", "Tasks at a time, on all nodes", "4")}
                </div>
            </DialogForm>
        </Dialog>
    );
}

function Concurrency() {
    const query = place.value.query;
    const view = useLive<Places>("places-" + (query.cursor ?? ""), (signal) => get<Places>("v1/concurrency", { limit: 100, cursor: query.cursor }, signal), { idle: 2000 });
    return (
        <>
            {can("operate") && (
                <div class="above">
                    <div class="acts">
                        <Button kind="main" icon="plus" hotkey="n" onClick={() => show(<NewPlace done={view.reload} />)}>
                            New concurrency limit
                        </Button>
                    </div>
                </div>
            )}
            <Show view={view}>
                {({ concurrency, next }) =>
                    concurrency.length ? (
                        <>
                            <Table
                                rows={concurrency}
                                id={(row: Place) => [row.scope, row.name, keyText(row)].join("\n")}
                                label="concurrency limits"
                                columns={[
                                    { title: "Of a", cell: (row) => row.scope },
                                    { title: "Name", cell: (row) => <Name text={row.name} /> },
                                    { title: "Key", cell: (row) => <Name text={keyText(row)} empty="" /> },
                                    { title: "Running", class: "share", cell: (row) => (row.most ? <Bar part={row.running} whole={row.most} tone={row.running >= row.most ? "amber" : "cyan"} label={`${row.running} of ${row.most} places taken`} /> : null) },
                                    { title: "Taken", num: true, cell: (row) => (row.most !== undefined ? `${number(row.running)}/${number(row.most)}` : number(row.running)) },
                                    { title: "Blocked", num: true, cell: (row) => <Count n={row.blocked} tone="amber" /> },
                                    { title: "Held by", cell: (row) => row.holder && <Id id={row.holder} /> },
                                    { title: "Order", cell: (row) => (row.ordered ? "as dispatched" : row.weight ? `weight ${row.weight}` : "") },
                                    {
                                        title: "Actions",
                                        class: "act",
                                        cell: (row) => can("operate") && row.scope !== "tenants" && row.key_base64 === undefined && <Button onClick={() => show(<Most name={row.name} scope={row.scope} at={row.key ?? null} now={row.most} done={view.reload} />)}>Edit</Button>,
                                    },
                                ]}
                            />
                            <Turn next={next} />
                        </>
                    ) : (
                        <Empty title="No concurrency limit" icon="limits">
                            <p>It says how many tasks of a queue, a type or a rate key run at a time, on all nodes:</p>
                            <pre>pawl limits running report.build 4</pre>
                        </Empty>
                    )
                }
            </Show>
        </>
    );
}

export function LimitList() {
    useTitle("Limits");
    const tab = place.value.query.tab ?? "rate";
    return (
        <>
            <PageHead title="Limits">
                <Tabs
                    label="kind of limit"
                    value={tab}
                    options={[
                        ["rate", "Starts per period"],
                        ["running", "Running at a time"],
                    ]}
                    onChange={(value) => setQuery({ tab: value === "rate" ? "" : value, cursor: "" })}
                />
            </PageHead>
            {tab === "rate" ? <Rates /> : <Concurrency />}
        </>
    );
}
