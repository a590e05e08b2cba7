// Schedules: what recurs, in words; when next; what became of it.
import { useEffect, useState } from "preact/hooks";
import { call, can, callText, get, post, Problem, queryText, segment } from "../client";
import type { Receipt, Schedule, Schedules, ScheduleSpec, Times } from "../api";
import { exact, plural } from "../format";
import { member, readJson, writeJson, type Json } from "../json";
import { useLive } from "../live";
import { go, link, place, setQuery } from "../router";
import { Button, Card, Count, Empty, Field, Id, Name, PageHead, Show, Time, Turn, useTitle } from "../ui/basic";
import { attempt, close, confirm, Dialog, DialogForm, show } from "../ui/dialog";
import { Heat } from "../ui/heat";
import { State } from "../ui/icons";
import { JsonView } from "../ui/json";
import { Table } from "../ui/table";

const path = (name: string, verb = ""): string => `v1/schedules/${segment(name)}${verb}`;
const page = (name: string): string => link("schedules/" + encodeURIComponent(name));

// ---- the form -------------------------------------------------------------------------------------------------------------------

const MAIN = ["type", "cron", "every", "zone", "queue", "missed", "overlap", "payload"] as const;

interface Draft {
    name: string;
    type: string;
    kind: "cron" | "every" | "other";
    when: string;
    zone: string;
    queue: string;
    missed: string;
    overlap: string;
    payload: string;
    more: string;
}

// In whose zone the hours of a plan are.
const inWords = (schedule: Schedule): string => schedule.words + (schedule.definition.zone && !schedule.words?.includes(schedule.definition.zone) ? `, ${schedule.definition.zone}` : "");
const second = (at: string): string => exact(at.replace(/\.\d+/, ""));

function draftOf(schedule: Schedule | undefined, payload: string): Draft {
    const spec: ScheduleSpec = schedule?.definition ?? {};
    const more = Object.fromEntries(Object.entries(spec).filter(([name]) => !(MAIN as readonly string[]).includes(name)));
    return {
        name: schedule?.name ?? "",
        type: spec.type ?? "",
        kind: spec.every ? "every" : spec.cron || !schedule ? "cron" : "other",
        when: spec.every ?? spec.cron ?? "",
        zone: spec.zone ?? "",
        queue: spec.queue ?? "",
        missed: spec.missed ?? "",
        overlap: spec.overlap ?? "",
        payload,
        more: Object.keys(more).length ? JSON.stringify(more, null, 2) : "",
    };
}

function members(draft: Draft): string[] {
    const out: string[] = [];
    const put = (name: string, value: string): void => void (value.trim() && out.push(`${JSON.stringify(name)}:${JSON.stringify(value.trim())}`));
    put("type", draft.type);
    if (draft.kind !== "other") put(draft.kind, draft.when);
    put("zone", draft.zone);
    put("queue", draft.queue);
    put("missed", draft.missed);
    put("overlap", draft.overlap);
    const more = draft.more.trim().replace(/^\{|\}$/g, "").trim();
    if (more) out.push(more);
    return out;
}

function Preview({ draft }: { draft: Draft }) {
    const [text, setText] = useState<{ times: string[]; wrong: string }>({ times: [], wrong: "" });
    const body = `{${members(draft).join(",")}}`;
    useEffect(() => {
        const control = new AbortController();
        const timer = setTimeout(() => {
            call<Times>("POST", "v1/schedules/preview?count=5", body, control.signal)
                .then((answer) => setText({ times: answer.times, wrong: "" }))
                .catch((error) => !control.signal.aborted && setText({ times: [], wrong: error instanceof Problem ? error.message : String(error) }));
        }, 300);
        return () => {
            clearTimeout(timer);
            control.abort();
        };
    }, [body]);
    return (
        <div class="full preview" role="status">
            <span class="faint">Next</span>
            {text.wrong ? <p class="wrong">{text.wrong}</p> : <ul>{text.times.map((at) => <li key={at}>{second(at)} <span class="faint">(<Time at={at} />)</span></li>)}</ul>}
        </div>
    );
}

function Form({ schedule, payload, done }: { schedule?: Schedule; payload: string; done: () => void }) {
    const [draft, setDraft] = useState(draftOf(schedule, payload));
    const text = (name: "name" | "type" | "when" | "zone" | "queue", label: string, hint: string, fixed = false) => (
        <label class="field">
            <span>{label}</span>
            <input name={"schedule-" + name} value={draft[name]} placeholder={hint} disabled={fixed} required={name === "name" || name === "type"} autocomplete="off" spellcheck={false} onInput={(event) => setDraft({ ...draft, [name]: event.currentTarget.value })} />
        </label>
    );
    const choice = (name: "missed" | "overlap" | "kind", label: string, options: [string, string][]) => (
        <label class="field">
            <span>{label}</span>
            <select name={"schedule-" + name} value={draft[name]} onChange={(event) => setDraft({ ...draft, [name]: event.currentTarget.value })}>
                {options.map(([value, shown]) => <option key={value} value={value}>{shown}</option>)}
            </select>
        </label>
    );
    const save = async (): Promise<void> => {
        const all = members(draft);
        if (draft.payload.trim()) all.push(`"payload":${draft.payload.trim()}`);
        const how = schedule ? "edit" : "add";
        if (!(await attempt(() => call("PUT", path(draft.name) + queryText({ how }), `{${all.join(",")}}`), schedule ? "changed" : "the schedule is stored"))) return;
        close();
        done();
        if (!schedule) location.hash = page(draft.name);
    };
    return (
        <Dialog title={schedule ? `Edit “${schedule.name}”` : "New schedule"} wide>
            <DialogForm save={save}>
                <div class="text form">
                    {text("name", "Name", "nightly-report", !!schedule)}
                    {text("type", "Type of its tasks", "report.build")}
                    {choice("kind", "When", [["cron", "by a cron expression"], ["every", "every so often"], ["other", "as said below"]])}
                    {draft.kind === "other" ? <span /> : text("when", draft.kind === "cron" ? "Expression" : "Every", draft.kind === "cron" ? "0 9 * * MON-FRI" : "15m")}
                    {text("zone", "Time zone", "UTC")}
                    {text("queue", "Queue", "recurring")}
                    {choice("missed", "Missed while nobody ran", [["", "by default"], ["skip", "skip"], ["once", "one run for all"], ["all", "all"]])}
                    {choice("overlap", "While one is unfinished", [["", "by default"], ["forbid", "skip"], ["queue", "let one wait"], ["allow", "start another"]])}
                    <label class="field full">
                        <span>Payload (JSON)</span>
                        <textarea name="schedule-payload" rows={3} spellcheck={false} value={draft.payload} onInput={(event) => setDraft({ ...draft, payload: event.currentTarget.value })} />
                    </label>
                    <label class="field full">
                        <span>Further members (JSON): plan, until, not_dates, priority…</span>
                        <textarea name="schedule-more" rows={3} spellcheck={false} value={draft.more} onInput={(event) => setDraft({ ...draft, more: event.currentTarget.value })} />
                    </label>
                    <Preview draft={draft} />
                </div>
            </DialogForm>
        </Dialog>
    );
}

// ---- acting ---------------------------------------------------------------------------------------------------------------------

function Switch({ schedule, reload }: { schedule: Schedule; reload: () => void }) {
    const on = schedule.status === "enabled";
    if (!can("operate")) return null;
    const turn = (): void => {
        if (!on) void attempt(() => post(path(schedule.name, "/enable")), `${schedule.name} goes on`).then(reload);
        else
            confirm({
                title: `Disable “${schedule.name}”?`,
                body: <p>It fires nothing, on any node, until it is enabled. {schedule.open ? `${plural(schedule.open, "task")} of it stay as they are.` : ""}</p>,
                verb: "Disable",
                danger: true,
                act: () => post(path(schedule.name, "/disable")).then(reload),
                done: `${schedule.name} is off`,
            });
    };
    return <Button icon={on ? "pause" : "play"} onClick={turn}>{on ? "Disable" : "Enable"}</Button>;
}

function run(schedule: Schedule, reload: () => void): void {
    confirm({
        title: `Run “${schedule.name}” now?`,
        body: <p>A task of type <Name text={schedule.definition.type ?? ""} /> is made at once; its plan does not change.</p>,
        verb: "Run now",
        act: () => post<Receipt>(path(schedule.name, "/run"), {}).then(reload),
        done: "a task was made",
    });
}

// ---- the list ---------------------------------------------------------------------------------------------------------------------

export function ScheduleList() {
    useTitle("Schedules");
    const query = place.value.query;
    const view = useLive<Schedules>("schedules?" + new URLSearchParams(query), (signal) => get<Schedules>("v1/schedules", { prefix: query.prefix, off: query.off === "yes", limit: 100, cursor: query.cursor }, signal));
    return (
        <>
            <PageHead title="Schedules">
                {can("operate") && <Button kind="main" icon="plus" hotkey="n" onClick={() => show(<Form payload="" done={view.reload} />)}>New schedule</Button>}
            </PageHead>
            <div class="filters few" role="group" aria-label="filter">
                <div class="fields">
                    <Field label="name begins with" name="prefix" value={query.prefix ?? ""} onChange={(prefix) => setQuery({ prefix, cursor: "" })} />
                    <label class="tickfield">
                        <input type="checkbox" checked={query.off === "yes"} onChange={() => setQuery({ off: query.off ? "" : "yes", cursor: "" })} /> only those that are off
                    </label>
                </div>
            </div>
            <Show view={view}>
                {({ schedules, next }) =>
                    schedules.length ? (
                        <>
                            <Table
                                rows={schedules}
                                id={(one) => one.name}
                                label="schedules"
                                columns={[
                                    { title: "Name", cell: (one) => <Name text={one.name} href={page(one.name)} /> },
                                    { title: "State", cell: (one) => <State name={one.status} /> },
                                    { title: "When", class: "grow", cell: (one) => <Name text={inWords(one)} /> },
                                    { title: "Type", class: "far", cell: (one) => <Name text={one.definition.type} /> },
                                    { title: "Next", num: true, cell: (one) => <Time at={one.next_at} /> },
                                    { title: "Last", num: true, cell: (one) => <Time at={one.last_at} /> },
                                    { title: "Fired", num: true, cell: (one) => <Count n={one.fired} /> },
                                    { title: "Failed", num: true, cell: (one) => <Count n={one.failed} tone="red" /> },
                                    { title: "Skipped", num: true, cell: (one) => <Count n={one.skipped} tone="amber" /> },
                                    { title: "Actions", class: "act", cell: (one) => can("operate") && <><Switch schedule={one} reload={view.reload} /> <Button onClick={() => run(one, view.reload)}>Run now</Button></> },
                                ]}
                            />
                            <Turn next={next} />
                        </>
                    ) : (
                        <Empty title={query.prefix || query.off ? "No schedule matches" : "No schedule yet"} icon="schedules">
                            <p>A schedule makes tasks at its times, on whichever node is alive:</p>
                            <pre>pawl schedules add nightly --type report.build --cron '0 3 * * *'</pre>
                        </Empty>
                    )
                }
            </Show>
        </>
    );
}

// ---- one ------------------------------------------------------------------------------------------------------------------------

interface Loaded {
    schedule: Schedule;
    payload: Json | undefined;
}

async function load(name: string, signal: AbortSignal): Promise<Loaded> {
    const text = await callText("GET", path(name) + "?upcoming=8", undefined, signal);
    return { schedule: JSON.parse(text) as Schedule, payload: member(readJson(text), "payload") };
}

export function ScheduleView() {
    const name = place.value.path[1]!;
    useTitle("Schedule " + name);
    const view = useLive<Loaded>("schedule/" + name, (signal) => load(name, signal));
    const one = view.data?.schedule;
    const drop = (): void =>
        confirm({
            title: `Remove “${name}”?`,
            body: <p>It fires no more. Its tasks stay{one?.open ? `, also ${plural(one.open, "unfinished one")}` : ""}.</p>,
            verb: "Remove",
            danger: true,
            act: () => call("DELETE", path(name)).then(() => go("schedules")),
            done: `${name} is gone`,
        });
    return (
        <>
            <PageHead
                title={<><a href={link("schedules")} class="crumb">Schedules</a><Name text={name} /></>}
                sub={one && <><State name={one.status} /> <span>{inWords(one)}</span></>}
            >
                {one && can("operate") && (
                    <>
                        <Button kind="main" icon="play" hotkey="r" onClick={() => run(one, view.reload)} testid="run">Run now</Button>
                        <Switch schedule={one} reload={view.reload} />
                        <Button onClick={() => show(<Form schedule={one} payload={view.data!.payload ? writeJson(view.data!.payload) : ""} done={view.reload} />)} testid="edit">Edit</Button>
                        <Button onClick={drop}>Remove</Button>
                    </>
                )}
            </PageHead>
            <Show view={view}>
                {({ schedule, payload }) => (
                    <div class="split">
                        <div>
                            {schedule.reason && <div class="notice amber" role="status">{schedule.reason}</div>}
                            <Card title="What became of it" side={<span class="faint">{schedule.occurrences?.length ? `the last ${schedule.occurrences.length}` : ""}</span>}>
                                {schedule.occurrences?.length ? (
                                    <>
                                        <div class="pad heatbox"><Heat occurrences={schedule.occurrences} /></div>
                                        <Table
                                            rows={schedule.occurrences.slice(0, 20).map((occurrence, i) => ({ ...occurrence, row: String(i) }))}
                                            id={(occurrence) => occurrence.row}
                                            label="occurrences"
                                            columns={[
                                                { title: "Due", cell: (occurrence) => (occurrence.due_at ? <Time at={occurrence.due_at} /> : occurrence.after && <>after <Id id={occurrence.after} /></>) },
                                                { title: "State", cell: (occurrence) => <State name={occurrence.state} /> },
                                                { title: "Fired", num: true, cell: (occurrence) => <Time at={occurrence.at} /> },
                                                { title: "Task", cell: (occurrence) => occurrence.task && <Id id={occurrence.task} /> },
                                                { title: "Why", class: "grow", cell: (occurrence) => <>{occurrence.why}{occurrence.count > 1 && ` (${occurrence.count} times)`}</> },
                                            ]}
                                        />
                                    </>
                                ) : (
                                    <Empty title="It has not fired yet" icon="schedules" />
                                )}
                            </Card>
                            <Card title="Tasks of it" side={<a href={link("tasks", { type: schedule.definition.type })}>all of the type</a>}>
                                <p class="pad">
                                    {plural(schedule.fired, "task")} made: {schedule.succeeded} succeeded, {schedule.failed} failed, {schedule.open} unfinished. {schedule.skipped} skipped.{" "}
                                    {schedule.last_task && <>The last one: <Id id={schedule.last_task} /></>}
                                </p>
                            </Card>
                        </div>
                        <div>
                            <Card title="Next">
                                {schedule.upcoming?.length ? <ol class="upcoming">{schedule.upcoming.map((at) => <li key={at}><span>{second(at)}</span> <Time at={at} /></li>)}</ol> : <p class="pad faint">{schedule.after ? <>After each success of <Name text={schedule.after} href={page(schedule.after)} />.</> : "None."}</p>}
                            </Card>
                            <Card title="Definition"><JsonView value={readJson(JSON.stringify(schedule.definition))} what="definition" /></Card>
                            {payload && <Card title="Payload"><JsonView value={payload} what="payload" /></Card>}
                        </div>
                    </div>
                )}
            </Show>
        </>
    );
}
