// One task: its whole story on one screen.
import type { ComponentChildren } from "preact";
import { useEffect, useRef, useState } from "preact/hooks";
import { ACK, RETRY } from "../bulk";
import { can, callText, get, post, segment, serverNow, wholeStore } from "../client";
import { between, bytes, clock, duration, exact, plural } from "../format";
import { member, readJson, writeJson, type Json } from "../json";
import { beat, IDLE_MS, LEAST_MS, useLive } from "../live";
import { newTask } from "../new_task";
import { go, link, place, setQuery } from "../router";
import type { Attempt, LogLine, Receipt, Results, Task, Tree } from "../api";
import { Button, Card, Copy, Empty, Id, Name, PageHead, save, Show, Tabs, Time, useTitle } from "../ui/basic";
import { confirm } from "../ui/dialog";
import { Graph } from "../ui/graph";
import { State, toneOf } from "../ui/icons";
import { JsonView } from "../ui/json";

interface Loaded {
    task: Task;
    payload: Json | undefined;
    result: Json | undefined;
}

async function load(id: string, signal: AbortSignal): Promise<Loaded> {
    const text = await callText("GET", `v1/tasks/${segment(id)}`, undefined, signal);
    const tree = readJson(text);
    return { task: JSON.parse(text) as Task, payload: member(tree, "payload"), result: member(tree, "result") };
}

const FINISHED = ["succeeded", "failed", "cancelled"];

// ---- what can be done ---------------------------------------------------------------------------------------------------------

function askCancel(task: Task, done: () => void): void {
    confirm({
        title: "Cancel this task?",
        body: (
            <p>
                <Name text={task.type} /> <code>{task.id}</code> {task.state === "leased" ? "is running: it is asked to stop." : "will not run."}
            </p>
        ),
        verb: "Cancel the task",
        danger: true,
        act: () => post(`v1/tasks/${task.id}/cancel`).then(done),
        done: task.state === "leased" ? "asked to stop" : "cancelled",
    });
}

function askRetry(task: Task): void {
    confirm({
        title: "Run it again?",
        body: (
            <p>
                A new task with the same body as <code>{task.id}</code>. {RETRY.warning}
            </p>
        ),
        verb: "Retry",
        act: () => post<Receipt>(`v1/tasks/${task.id}/retry`).then((receipt) => go("tasks/" + receipt.id)),
        done: "runs again",
    });
}

function askAck(task: Task, done: () => void): void {
    confirm({
        title: "Acknowledge this failure?",
        body: <p>{ACK.warning.replace("They stay", "It stays").replace("count as dead letters", "counts as a dead letter")}</p>,
        verb: "Acknowledge",
        note: ACK.note,
        act: (note) =>
            post<Results>("v1/dead/ack", { ids: [task.id], ...(note ? { note } : {}) }).then((answer) => {
                const bad = answer.results?.find((result) => result.status !== "ok");
                if (bad) throw new Error(bad.detail ?? bad.status);
                done();
            }),
        done: "acknowledged",
    });
}

function clone(loaded: Loaded): void {
    const { task } = loaded;
    newTask(
        {
            type: task.type,
            queue: task.queue,
            tenant: task.tenant ?? "",
            priority: task.priority ? String(task.priority) : "",
            max_attempts: task.max_attempts ? String(task.max_attempts) : "",
            payload: loaded.payload ? writeJson(loaded.payload) : "",
        },
        "Clone " + task.id,
    );
}

function Actions({ loaded, reload }: { loaded: Loaded; reload: () => void }) {
    const { task } = loaded;
    return (
        <>
            {can("operate") && !FINISHED.includes(task.state) && (
                <Button kind="danger" icon="stop" hotkey="c" disabled={task.cancel_asked} onClick={() => askCancel(task, reload)} testid="cancel">
                    {task.cancel_asked ? "Asked to stop" : "Cancel"}
                </Button>
            )}
            {can("operate") && (task.state === "failed" || task.state === "cancelled") && !task.retried_as && (
                <Button kind="main" icon="retry" hotkey="r" onClick={() => askRetry(task)} testid="retry">
                    Retry
                </Button>
            )}
            {can("operate") && task.state === "failed" && !task.resolved_at && (
                <Button icon="check" hotkey="a" onClick={() => askAck(task, reload)} testid="ack">
                    Acknowledge
                </Button>
            )}
            {can("enqueue") && !task.payload_base64 && (
                <Button icon="clone" hotkey="n" onClick={() => clone(loaded)} testid="clone">
                    Clone
                </Button>
            )}
        </>
    );
}

// ---- the timeline of attempts -------------------------------------------------------------------------------------------------

const WIDTH = 1000;

function Timeline({ task }: { task: Task }) {
    void beat.value;
    const attempts = task.attempts ?? [];
    const begin = Date.parse(task.created_at ?? attempts[0]?.started_at ?? "");
    const ends = attempts.map((one) => Date.parse(one.finished_at ?? "")).filter((at) => !isNaN(at));
    const running = task.state === "leased";
    const end = Math.max(begin + 1, ...ends, running ? serverNow() : 0, Date.parse(task.finished_at ?? "") || 0);
    const x = (at: number): number => ((at - begin) / (end - begin)) * WIDTH;
    const bars = attempts.map((one) => ({ one, from: x(Date.parse(one.started_at ?? "")), to: x(one.finished_at ? Date.parse(one.finished_at) : end) }));
    if (running && task.started_at && !attempts.some((one) => !one.finished_at))
        bars.push({ one: { number: task.attempt, outcome: "running", started_at: task.started_at } as Attempt, from: x(Date.parse(task.started_at)), to: WIDTH });
    return (
        <figure class="timeline">
            <svg viewBox={`0 0 ${WIDTH} 34`} preserveAspectRatio="none" role="img" aria-label={`${plural(bars.length, "attempt")} in ${duration((end - begin) * 1000)}`}>
                <rect class="track" x="0" y="15" width={WIDTH} height="4" />
                {bars.map(({ one, from, to }) => (
                    <rect key={one.number} class={toneOf(one.outcome)} x={from} y="6" width={Math.max(3, to - from)} height="22" rx="2">
                        <title>{`attempt ${one.number}: ${one.outcome}${one.duration_us !== undefined ? ", " + duration(one.duration_us) : ""}`}</title>
                    </rect>
                ))}
            </svg>
            <figcaption>
                <span>created <Time at={task.created_at} /></span>
                <span>{duration((end - begin) * 1000)} {task.finished_at ? "in all" : running ? "so far" : "to the last try"}</span>
                <span>{task.finished_at ? <>ended <Time at={task.finished_at} /></> : running ? "now" : task.run_at && <>{Date.parse(task.run_at) > serverNow() ? "next" : "due"} <Time at={task.run_at} /></>}</span>
            </figcaption>
        </figure>
    );
}

function Attempts({ task }: { task: Task }) {
    const attempts = task.attempts ?? [];
    if (!attempts.length)
        return (
            <Empty title="It has not run yet" icon="schedules">
                <p>What stands in its way is said above.</p>
            </Empty>
        );
    return (
        <>
            <Timeline task={task} />
            <div class="scroll" role="region" aria-label="table of attempts" tabIndex={0}>
                <table>
                    <thead>
                        <tr>
                            <th scope="col" class="num">#</th>
                            <th scope="col">Outcome</th>
                            <th scope="col" class="num">Started</th>
                            <th scope="col" class="num">Waited</th>
                            <th scope="col" class="num">Took</th>
                            <th scope="col">Node</th>
                            <th scope="col" class="num">Fence</th>
                            <th scope="col" class="grow">Error</th>
                        </tr>
                    </thead>
                    <tbody>
                        {attempts.map((one, i) => {
                            const before = i ? attempts[i - 1]!.finished_at : task.created_at;
                            return (
                                <tr key={one.number + "-" + one.fence}>
                                    <td class="num" data-label="#">{one.number}</td>
                                    <td data-label="Outcome"><State name={one.outcome} /></td>
                                    <td class="num" data-label="Started"><Time at={one.started_at} /></td>
                                    <td class="num" data-label="Waited">{before && one.started_at ? duration(between(before, one.started_at)) : "–"}</td>
                                    <td class="num" data-label="Took">{one.duration_us !== undefined ? duration(one.duration_us) : "–"}</td>
                                    <td data-label="Node"><Name text={one.node_name ?? String(one.node)} /></td>
                                    <td class="num" data-label="Fence">{one.fence}</td>
                                    <td class="grow" data-label="Error">
                                        {one.code && <code class="code">{one.code}</code>}
                                        {one.error && <bdi class="wrap"> {one.error}</bdi>}
                                    </td>
                                </tr>
                            );
                        })}
                    </tbody>
                </table>
            </div>
        </>
    );
}

// ---- log ------------------------------------------------------------------------------------------------------------------------

const LEVELS = ["debug", "info", "warn", "error"];

function Log({ task }: { task: Task }) {
    const all = task.log ?? [];
    const least = place.value.query.level ?? "debug";
    const [most, setMost] = useState(500);
    const lines = all.filter((line) => LEVELS.indexOf(line.level) >= LEVELS.indexOf(least));
    const list = useRef<HTMLOListElement>(null);
    const atEnd = useRef(true);
    useEffect(() => {
        if (atEnd.current && list.current) list.current.scrollTop = list.current.scrollHeight;
    }, [lines.length]);
    const text = (line: LogLine): string => `${line.at ?? ""} ${line.attempt} ${line.level} ${line.text ?? ""}`;
    return (
        <Card
            title="Log"
            side={
                <>
                    <Tabs label="least level" value={least} options={LEVELS.map((level) => [level, level])} onChange={(level) => setQuery({ level: level === "debug" ? "" : level }, true)} />
                    {all.length > 0 && (
                        <Button kind="quiet" icon="save" onClick={() => save(`${task.id}.log`, all.map((line) => text(line) + "\n"))} title="save the whole log">
                            Export
                        </Button>
                    )}
                </>
            }
        >
            {!lines.length && <p class="pad faint">{all.length ? "Nothing at this level." : task.state === "leased" ? "Nothing yet: a program hands its log over when its attempt ends." : "Nothing was logged."}</p>}
            <ol class="log" tabIndex={lines.length ? 0 : undefined} aria-label="lines of the log" ref={list} onScroll={({ currentTarget: at }) => (atEnd.current = at.scrollTop + at.clientHeight > at.scrollHeight - 30)}>
                {lines.slice(-most).map((line) => (
                    <li key={line.attempt + "-" + line.sequence} class={"level-" + line.level}>
                        <time title={line.at ? exact(line.at) : ""}>{line.at ? clock(line.at) : ""}</time>
                        <span class="faint" title={`attempt ${line.attempt}`}>#{line.attempt}</span>
                        <span class="level">{line.level}</span>
                        <bdi class="wrap">{line.text}</bdi>
                    </li>
                ))}
            </ol>
            {lines.length > most && (
                <p class="pad">
                    <button type="button" class="linkish" onClick={() => setMost(most * 4)}>
                        {lines.length - most} older lines
                    </button>
                </p>
            )}
        </Card>
    );
}

// ---- facts ----------------------------------------------------------------------------------------------------------------------

function Facts({ task }: { task: Task }) {
    const rows: [string, ComponentChildren][] = [
        ["Queue", <Name text={task.queue} href={link("tasks", { queue: task.queue })} />],
        ["Key", task.key && <><Name text={task.key} href={link("tasks", { key: task.key })} /> <Copy text={task.key} what="key" /></>],
        ["Tenant", task.tenant && <Name text={task.tenant} href={link("tasks", { tenant: task.tenant })} />],
        ["Rate key", task.rate_key ?? task.rate_key_base64],
        ["Schedule", task.schedule && <Name text={task.schedule} href={link("schedules/" + encodeURIComponent(task.schedule))} />],
        ["Priority", String(task.priority)],
        ["Created", <><Time at={task.created_at} />{task.created_by && <> by <Name text={task.created_by} /></>}</>],
        ["Due", task.run_at && !FINISHED.includes(task.state) && <Time at={task.run_at} />],
        ["Started", task.started_at && <Time at={task.started_at} />],
        ["Ended", task.finished_at && <Time at={task.finished_at} />],
        ["Attempts", `${task.attempt}${task.max_attempts ? " of " + task.max_attempts : ""}${task.failures ? `, ${task.failures} failed` : ""}${task.rescues ? `, ${task.rescues} rescued` : ""}${task.interruptions ? `, ${task.interruptions} interrupted` : ""}`],
        ["Timeout", task.timeout_us ? duration(task.timeout_us) : null],
        ["Node", task.state === "leased" && <Name text={task.node_name ?? String(task.node)} />],
        ["Fence", task.fence ? String(task.fence) : null],
        ["Retry of", task.retry_of && <Id id={task.retry_of} />],
        ["Retried as", task.retried_as && <Id id={task.retried_as} />],
        ["Acknowledged", task.resolved_at && <><Time at={task.resolved_at} />{task.resolved_by && <> by <Name text={task.resolved_by} /></>}</>],
        ["Note", task.note && <bdi class="wrap">{task.note}</bdi>],
        ["Reason", task.reason],
        ["Trail kept", task.audit],
        ["Traceparent", task.traceparent && <><Name text={task.traceparent} /> <Copy text={task.traceparent} what="traceparent" /></>],
        ["Headers", task.headers && <bdi class="wrap">{task.headers}</bdi>],
    ];
    return (
        <dl class="facts">
            {rows.filter(([, value]) => value).map(([name, value]) => (
                <div key={name}>
                    <dt>{name}</dt>
                    <dd>{value}</dd>
                </div>
            ))}
        </dl>
    );
}

function Body(props: { title: string; tree: Json | undefined; base64: string | undefined; type: string | null; reference?: string | null }) {
    const { tree, base64 } = props;
    if (!tree && !base64 && !props.reference) return <Card title={props.title}><p class="pad faint">None.</p></Card>;
    return (
        <Card title={props.title} side={<span class="faint">{props.type ?? ""}</span>}>
            {props.reference && <p class="pad"><bdi class="wrap">{props.reference}</bdi> <Copy text={props.reference} what="reference" /></p>}
            {tree && <JsonView value={tree} what={props.title.toLowerCase()} />}
            {base64 && <Raw base64={base64} type={props.type} />}
        </Card>
    );
}

function Raw({ base64, type }: { base64: string; type: string | null }) {
    const raw = Uint8Array.from(atob(base64), (c) => c.charCodeAt(0));
    const text = type?.startsWith("text/") ? new TextDecoder().decode(raw) : null;
    return (
        <div class="json">
            <Copy text={text ?? base64} what="bytes" />
            <p class="faint">{bytes(raw.length)}{text === null ? ", as base64" : ""}</p>
            <pre class="wrap">{(text ?? base64).slice(0, 20000)}</pre>
        </div>
    );
}

function Trail({ task }: { task: Task }) {
    const rows = task.audit_trail ?? [];
    return (
        <Card title="Trail">
            {!rows.length && <p class="pad faint">Nothing was kept ({task.audit}).</p>}
            <ol class="trail">
                {rows.map((row, i) => (
                    <li key={i}>
                        <Time at={row.at} />
                        <State name={row.to} />
                        <span class="faint">{row.node_name ? "on " + row.node_name : ""}</span>
                        <bdi class="wrap">{row.detail}</bdi>
                    </li>
                ))}
            </ol>
        </Card>
    );
}

// ---- family -----------------------------------------------------------------------------------------------------------------------

function Family({ id }: { id: string }) {
    const view = useLive(
        "family/" + id,
        (signal) => Promise.all([get<Tree>(`v1/tasks/${id}/tree`, { parents: true, depth: 3, limit: 12 }, signal), get<Tree>(`v1/tasks/${id}/tree`, { depth: 3, limit: 12 }, signal)]),
        { off: !wholeStore() },
    );
    const trees = view.data;
    if (!trees || !trees.some((tree) => tree.parents?.length || tree.children?.length || tree.members?.length)) return null;
    return (
        <Card title="Parents and children">
            <Graph trees={trees} focus={id} />
        </Card>
    );
}

// ---- why ------------------------------------------------------------------------------------------------------------------------

// Where what stands in the way can be changed.
const WHERE: Record<string, [string, string]> = {
    paused: ["queues", "Queues"],
    throttled: ["limits", "Limits"],
    blocked: ["limits?tab=running", "Limits"],
    key_held: ["limits?tab=running", "Limits"],
    draining: ["nodes", "Nodes"],
    unserved_queue: ["nodes", "Nodes"],
    unknown_type: ["nodes", "Nodes"],
    capacity: ["nodes", "Nodes"],
};
const PARTS = /((?:batch )?\b0[0-9A-HJKMNP-TV-Z]{12}\b|\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ)/;

// The server's words, with ids that lead to what they name and times in the viewer's zone.
function Told({ text }: { text: string }) {
    return (
        <>
            {text.split(PARTS).map((part, i) => {
                if (i % 2 === 0) return part;
                if (part.endsWith("Z") && part.includes(":")) return exact(part);
                const id = part.replace("batch ", "");
                return <a key={i} href={link((id === part ? "tasks/" : "batches/") + id)}>{part}</a>;
            })}
        </>
    );
}

function Why({ task }: { task: Task }) {
    const why = task.why!;
    const where = wholeStore() ? WHERE[why.code] : undefined;
    return (
        <div class={"why " + toneOf(task.display ?? task.state)} data-testid="why">
            <strong>{FINISHED.includes(task.state) ? "What happened" : task.state === "leased" ? "Now" : "Why is it not running?"}</strong> <Told text={why.text} />{" "}
            {where && <a href={"#/" + where[0]}>{where[1]}</a>}
        </div>
    );
}

// ---- the page -------------------------------------------------------------------------------------------------------------------

export function TaskView() {
    const id = place.value.path[1]!;
    useTitle("Task " + id);
    const now = useRef<Loaded | null>(null);
    const view = useLive("task/" + id, (signal) => load(id, signal).then((loaded) => (now.current = loaded, loaded)), {
        wants: (event) => event.id === id,
        idle: () => (now.current?.task.state === "leased" ? LEAST_MS : IDLE_MS), // what one that runs tells of itself comes without an event
    });
    const task = view.data?.task;
    return (
        <>
            <PageHead
                title={
                    <>
                        <a href={link("tasks")} class="crumb">Tasks</a>
                        <Id id={id} to={false} />
                    </>
                }
                sub={
                    task && (
                        <>
                            <State name={task.display ?? task.state} /> <Name text={task.type} href={link("tasks", { type: task.type })} />
                        </>
                    )
                }
            >
                {view.data && <Actions loaded={view.data} reload={view.reload} />}
            </PageHead>
            <Show view={view} rows={14}>
                {({ task, payload, result }) => (
                    <div class="split">
                        <div>
                            {task.why && <Why task={task} />}
                            {task.state === "leased" && task.progress !== null && <Progress task={task} />}
                            {task.error && (
                                <Card title="Error" side={task.code && <code class="code">{task.code}</code>}>
                                    <pre class="wrap pad">{task.error}</pre>
                                </Card>
                            )}
                            <Family id={task.id} />
                            <Card title="Attempts"><Attempts task={task} /></Card>
                            <Log task={task} />
                            <Trail task={task} />
                        </div>
                        <div>
                            <Card title="About"><Facts task={task} /></Card>
                            <Body title="Payload" tree={payload} base64={task.payload_base64} type={task.content_type} />
                            <Body title="Result" tree={result} base64={task.result_base64} type={task.result_type} reference={task.result_ref} />
                        </div>
                    </div>
                )}
            </Show>
        </>
    );
}

function Progress({ task }: { task: Task }) {
    return (
        <div class="progress">
            <progress value={task.progress ?? 0} max={100} aria-label="progress" /> <span>{task.progress} % {task.progress_text}</span>
        </div>
    );
}
