// Overview: how it goes, at a glance.
import { get } from "../client";
import { compact, duration, number, plural } from "../format";
import { beat, eventsAt, paused, useLive } from "../live";
import { link, place, setQuery } from "../router";
import type { Node, Page, Queue, Ready, Stats, Step } from "../api";
import { Bar, Card, Count, Empty, Id, Name, PageHead, Show, Tabs, Time, Trouble, useTitle } from "../ui/basic";
import { Chart } from "../ui/chart";
import { State } from "../ui/icons";

const WINDOWS: [string, string][] = [["15m", "15 min"], ["1h", "1 h"], ["6h", "6 h"], ["24h", "24 h"], ["7d", "7 d"]];

function Tile(props: { title: string; value: string; href?: string; tone?: string; sub?: preact.ComponentChildren; exact?: string }) {
    const inner = (
        <>
            <span class="tile-title">{props.title}</span>
            <span class={"tile-value " + (props.tone ?? "")} title={props.exact}>{props.value}</span>
            <span class="tile-sub">{props.sub}</span>
        </>
    );
    return props.href ? <a class="tile" href={props.href}>{inner}</a> : <div class="tile">{inner}</div>;
}

function Tiles({ stats }: { stats: Stats }) {
    const ended = stats.succeeded + stats.failed;
    const rate = ended / (stats.window_us / 6e7);
    return (
        <div class="tiles">
            <Tile title="Waiting to run" value={compact(stats.pending)} exact={number(stats.pending)} href={link("tasks", { state: "pending" })} sub={stats.waiting ? `${compact(stats.waiting)} wait for others` : "due and scheduled"} />
            <Tile title="Running" value={compact(stats.leased)} exact={number(stats.leased)} href={link("tasks", { state: "running" })} tone="cyan" sub="held by nodes" />
            <Tile title="Succeeded" value={compact(stats.succeeded)} exact={number(stats.succeeded)} href={link("tasks", { state: "succeeded" })} tone="green" sub={`${rate < 10 ? rate.toFixed(1) : compact(Math.round(rate))} a minute`} />
            <Tile title="Failed" value={compact(stats.failed)} exact={number(stats.failed)} href={link("failures")} tone={stats.failed ? "red" : ""} sub={ended ? `${((100 * stats.failed) / ended).toFixed(1)} % of what ended` : "nothing ended"} />
            <Tile title="Retried" value={compact(stats.retried)} exact={number(stats.retried)} href={link("tasks", { state: "retrying" })} tone={stats.retried ? "amber" : ""} sub={stats.rescued ? `${compact(stats.rescued)} rescued` : `${compact(stats.cancelled)} cancelled`} />
            <Tile title="Dead letters" value={compact(stats.dead)} exact={number(stats.dead)} href={link("dead")} tone={stats.dead ? "red" : ""} sub={stats.dead ? "not dealt with" : "nothing to do"} />
        </div>
    );
}

// ---- the last two minutes, from events --------------------------------------------------------------------------------------------

const SPAN = 120;
const LIVE_LINES = [
    { label: "dispatched", colour: "blue" },
    { label: "succeeded", colour: "green", fill: true },
    { label: "failed", colour: "red" },
    { label: "retrying", colour: "amber" },
];

function LiveChart() {
    void beat.value;
    const now = Math.floor(Date.now() / 1000) - 1;
    const seconds = Array.from({ length: SPAN }, (_, i) => now - SPAN + 1 + i);
    const data = [seconds, ...LIVE_LINES.map((line) => seconds.map((at) => eventsAt(at, line.label)))];
    return <Chart label="events of the last two minutes, per second" data={data} lines={LIVE_LINES} height={150} />;
}

// ---- the window, by minutes --------------------------------------------------------------------------------------------------------

const PER_MINUTE = [
    { label: "dispatched", colour: "blue" },
    { label: "succeeded", colour: "green", fill: true },
    { label: "failed", colour: "red", fill: true },
    { label: "retried", colour: "amber", dash: [4, 3] },
] as const;
const PERCENTILES = [
    { label: "wait, median", colour: "blue" },
    { label: "wait, 99 %", colour: "blue", dash: [3, 3] },
    { label: "run, median", colour: "green" },
    { label: "run, 99 %", colour: "green", dash: [3, 3] },
];
const DEPTH = [{ label: "unfinished", colour: "violet", fill: true }];

const seconds = (steps: Step[]): number[] => steps.map((step) => Date.parse(step.at!) / 1000);

// The first step may have begun before the window, the last one has not ended: rates are per minute of what there was.
function Throughput({ stats }: { stats: Stats }) {
    const steps = stats.steps.slice(1);
    const now = Date.parse(stats.now!) * 1000;
    const minutes = steps.map((step) => Math.max(0.25, Math.min(stats.step_us, now - Date.parse(step.at!) * 1000) / 6e7));
    const data = [seconds(steps), ...PER_MINUTE.map((line) => steps.map((step, i) => Math.round((10 * step[line.label]) / minutes[i]!) / 10))];
    return <Chart label="throughput and failures per minute" data={data} lines={[...PER_MINUTE]} value={(n) => compact(n)} />;
}

function Percentiles({ stats }: { stats: Stats }) {
    const steps = stats.steps;
    const row = (pick: (step: Step) => number): (number | null)[] => steps.map((step) => pick(step) || null);
    const data = [seconds(steps), row((step) => step.wait_p50_us), row((step) => step.wait_p99_us), row((step) => step.run_p50_us), row((step) => step.run_p99_us)];
    return <Chart label="wait and run times, median and 99 per cent" data={data} lines={PERCENTILES} value={duration} log />;
}

// What is unfinished now, and what came and went since, say what was unfinished then.
function Depth({ stats }: { stats: Stats }) {
    let depth = stats.pending + stats.leased + stats.waiting;
    const row: number[] = [];
    for (let i = stats.steps.length - 1; i >= 0; i--) {
        const step = stats.steps[i]!;
        row.unshift(Math.max(0, depth));
        depth -= step.dispatched - step.succeeded - step.failed - step.cancelled;
    }
    return <Chart label="unfinished tasks" data={[seconds(stats.steps), row]} lines={DEPTH} value={(n) => compact(n)} height={150} />;
}

// ---- cards ----------------------------------------------------------------------------------------------------------------------

function Times({ stats }: { stats: Stats }) {
    if (!stats.wait_p99_us && !stats.run_p99_us) return <p class="faint">nothing ran</p>;
    return (
        <p class="times">
            <span>wait <b>{duration(stats.wait_p50_us)}</b>, 99 % <b>{duration(stats.wait_p99_us)}</b></span> <span>run <b>{duration(stats.run_p50_us)}</b>, 99 % <b>{duration(stats.run_p99_us)}</b></span>
        </p>
    );
}

function Health() {
    const view = useLive("ready", (signal) => get<Ready>("readyz", {}, signal), { wants: () => false });
    return (
        <Card title="Health" side={view.data && <State name={view.data.status} />}>
            <Show view={view} rows={3}>
                {(ready) => (
                    <dl class="facts">
                        {ready.text && <div class="full"><dt>Says</dt><dd>{ready.text}</dd></div>}
                        <div><dt>Oldest due</dt><dd>{ready.oldest_due_at ? <>since <Time at={ready.oldest_due_at} /></> : "none waits"}</dd></div>
                        <div><dt>Store answers</dt><dd>in {duration(ready.store_latency_us ?? 0)}</dd></div>
                        {!!ready.stuck && <div><dt>Stuck</dt><dd>{number(ready.stuck)}</dd></div>}
                        {!!ready.long_running && <div><dt>Long running</dt><dd>{number(ready.long_running)}</dd></div>}
                    </dl>
                )}
            </Show>
        </Card>
    );
}

function Queues() {
    const view = useLive("overview-queues", (signal) => get<{ queues: Queue[] }>("v1/queues", {}, signal));
    return (
        <Card title="Queues" side={<a href={link("queues")}>all</a>}>
            <Show view={view} rows={4}>
                {({ queues }) => {
                    const shown = [...queues].sort((a, b) => b.pending + b.leased - a.pending - a.leased).slice(0, 6);
                    const most = Math.max(1, ...shown.map((queue) => queue.pending + queue.leased));
                    if (!shown.length) return <Empty title="No queue yet" icon="queues">A queue is there as soon as a task is in it.</Empty>;
                    return (
                        <table>
                            <thead><tr><th scope="col">Queue</th><th scope="col" class="num">Due</th><th scope="col" class="num">Running</th><th scope="col">Depth</th></tr></thead>
                            <tbody>
                                {shown.map((queue) => (
                                    <tr key={queue.name}>
                                        <td><Name text={queue.name} href={link("tasks", { queue: queue.name })} /> {queue.paused && <State name="paused" />}</td>
                                        <td class="num"><Count n={queue.due} more={queue.due_more} /></td>
                                        <td class="num"><Count n={queue.leased} tone="cyan" /></td>
                                        <td class="wide"><Bar part={queue.pending + queue.leased} whole={most} label={`${plural(queue.pending, "task")} wait, ${number(queue.leased)} run`} tone={queue.paused ? "amber" : "blue"} /></td>
                                    </tr>
                                ))}
                            </tbody>
                        </table>
                    );
                }}
            </Show>
        </Card>
    );
}

function Recent() {
    const view = useLive("overview-dead", (signal) => get<Page>("v1/dead", { limit: 4 }, signal), { wants: (event) => event.event === "failed" });
    return (
        <Card title="Latest dead letters" side={<a href={link("dead")}>all</a>}>
            <Show view={view} rows={4}>
                {({ tasks }) =>
                    tasks.length ? (
                        <ul class="rows">
                            {tasks.map((task) => (
                                <li key={task.id} data-row={task.id} tabIndex={-1}>
                                    <Id id={task.id} /> <Name text={task.type} /> <span class="push"><Time at={task.finished_at} /></span>
                                    <Name text={task.error ?? task.code} />
                                </li>
                            ))}
                        </ul>
                    ) : (
                        <Empty title="Nothing has failed for good">Tasks that used up their attempts come here.</Empty>
                    )
                }
            </Show>
        </Card>
    );
}

function Nodes() {
    const view = useLive("overview-nodes", (signal) => get<{ nodes: Node[] }>("v1/nodes", {}, signal), { wants: () => false });
    return (
        <Card title="Nodes" side={<a href={link("nodes")}>all</a>}>
            <Show view={view} rows={3}>
                {({ nodes }) => (
                    <p class="pad">{nodes.length ? `${plural(nodes.length, "process", "processes")} alive, ${plural(nodes.reduce((sum, node) => sum + node.leases, 0), "task")} in their hands.` : "No process runs tasks now."}</p>
                )}
            </Show>
        </Card>
    );
}

export function Overview() {
    useTitle("Overview");
    const span = place.value.query.window ?? "1h";
    const name = WINDOWS.find(([key]) => key === span)?.[1] ?? span;
    const stats = useLive("stats-" + span, (signal) => get<Stats>("v1/stats", { window: span }, signal));
    return (
        <>
            <PageHead title="Overview">
                <Tabs label="window" value={span} options={WINDOWS} onChange={(window) => setQuery({ window: window === "1h" ? "" : window })} />
            </PageHead>
            {stats.data?.closed && <div class="notice red" role="status">{stats.data.closed}</div>}
            {stats.data ? <Tiles stats={stats.data} /> : stats.error ? <Trouble problem={stats.error} reload={stats.reload} /> : <div class="tiles">{WINDOWS.map(([key]) => <div key={key} class="tile bone" />)}</div>}
            <div class="grid">
                <Card title="Throughput, per minute" side={<span class="faint">{name}</span>} class="two">{stats.data && <Throughput stats={stats.data} />}</Card>
                <div class="stack">
                    <Health />
                    <Nodes />
                </div>
                <Card title="Times" side={stats.data && <Times stats={stats.data} />} class="two">{stats.data && <Percentiles stats={stats.data} />}</Card>
                <Queues />
                <Card title="Now, per second" side={<span class="faint">{paused.value ? "paused" : "since this page is open, two minutes at most"}</span>}><LiveChart /></Card>
                <Card title="Unfinished" side={<span class="faint">{name}</span>}>{stats.data && <Depth stats={stats.data} />}</Card>
                <Recent />
            </div>
        </>
    );
}
