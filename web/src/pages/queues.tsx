// Queues: what waits and runs in them, on whom, and how many at a time.
import { useState } from "preact/hooks";
import { call, can, get, post, queryText, segment } from "../client";
import type { Nodes, Place, Places, Queue, Queues } from "../api";
import { number, plural } from "../format";
import { useLive } from "../live";
import { link } from "../router";
import { Bar, Button, Count, Empty, Name, PageHead, Show, Time, useTitle } from "../ui/basic";
import { attempt, close, confirm, Dialog, DialogForm, show } from "../ui/dialog";
import { State } from "../ui/icons";
import { Table } from "../ui/table";

interface Row extends Queue {
    nodes: number;
    place: Place | undefined;
}

async function load(signal: AbortSignal): Promise<Row[]> {
    const [queues, nodes, places] = await Promise.all([
        get<Queues>("v1/queues", {}, signal),
        get<Nodes>("v1/nodes", {}, signal),
        get<Places>("v1/concurrency", { scope: "queue", limit: 1000 }, signal),
    ]);
    const serve = (name: string): number => nodes.nodes.filter((node) => (node.queues ?? "").split(/[ ,]+/).includes(name)).length;
    return queues.queues.map((queue) => ({ ...queue, nodes: serve(queue.name), place: places.concurrency.find((place) => place.name === queue.name) }));
}

function askPause(queue: Queue, done: () => void): void {
    confirm({
        title: `Pause “${queue.name}”?`,
        body: (
            <p>
                Nothing more of it starts, on all nodes: {plural(queue.pending, "task")} will wait. {queue.leased ? `${plural(queue.leased, "task")} that run come to their end.` : ""}
            </p>
        ),
        verb: "Pause the queue",
        danger: true,
        act: () => post(`v1/queues/${segment(queue.name)}/pause`).then(done),
        done: `${queue.name} is paused`,
    });
}

export function Most(props: { name: string; scope: string; at: string | null; now: number | undefined; done: () => void }) {
    const [most, setMost] = useState(props.now ? String(props.now) : "");
    const path = `v1/concurrency/${segment(props.name)}${queryText({ scope: props.scope, key: props.at })}`;
    const save = async (): Promise<void> => {
        const limit = Number(most);
        const act = (): Promise<unknown> => (limit ? call("PUT", path, { most: limit }) : call("DELETE", path));
        if (!(await attempt(act, limit ? `at most ${limit} at a time` : "no longer limited"))) return;
        close();
        props.done();
    };
    return (
        <Dialog title={`How many of “${props.name}” at a time`}>
            <DialogForm save={save}>
                <div class="text">
                    <label class="field">
                        <span>Tasks at a time, on all nodes (empty: no limit)</span>
                        <input name="most" type="number" min={0} value={most} autofocus onInput={(event) => setMost(event.currentTarget.value)} />
                    </label>
                </div>
            </DialogForm>
        </Dialog>
    );
}

// How many, and of how many at most.
function Running({ queue }: { queue: Row }) {
    const most = queue.place?.most;
    return (
        <>
            <Count n={queue.leased} tone="cyan" href={link("tasks", { queue: queue.name, state: "running" })} />
            {most !== undefined && (
                <a class="faint" href={link("limits", { tab: "running" })} title={`at most ${number(most)} at a time, ${number(queue.place!.blocked)} wait for a place`}>
                    /{number(most)}
                </a>
            )}
        </>
    );
}

export function QueueList() {
    useTitle("Queues");
    const view = useLive<Row[]>("queues", load);
    return (
        <>
            <PageHead title="Queues" />
            <Show view={view}>
                {(rows) => {
                    const most = Math.max(1, ...rows.map((queue) => queue.pending + queue.leased + queue.waiting));
                    if (!rows.length)
                        return (
                            <Empty title="No queue yet" icon="queues">
                                A queue is there as soon as a task is in it, or a program serves it.
                            </Empty>
                        );
                    return (
                        <Table
                            rows={rows}
                            id={(queue) => queue.name}
                            label="queues"
                            columns={[
                                { title: "Queue", cell: (queue) => <Name text={queue.name} href={link("tasks", { queue: queue.name })} /> },
                                { title: "State", cell: (queue) => <State name={queue.paused ? "paused" : queue.served ? "open" : "unserved"} label={queue.paused ? "paused" : queue.served ? "open" : "unserved"} /> },
                                { title: "Depth", class: "share", cell: (queue) => <Bar part={queue.pending + queue.leased + queue.waiting} whole={most} tone={queue.paused ? "amber" : "blue"} label={`${number(queue.pending)} wait, ${number(queue.leased)} run`} /> },
                                { title: "Due", num: true, cell: (queue) => <Count n={queue.due} more={queue.due_more} tone={queue.due && !queue.served ? "amber" : ""} /> },
                                { title: "Pending", num: true, cell: (queue) => <Count n={queue.pending} href={link("tasks", { queue: queue.name, state: "pending" })} /> },
                                { title: "Waiting", num: true, cell: (queue) => <Count n={queue.waiting} href={link("tasks", { queue: queue.name, state: "waiting" })} /> },
                                { title: "Running", num: true, cell: (queue) => <Running queue={queue} /> },
                                { title: "Throttled", num: true, cell: (queue) => <Count n={queue.throttled} tone="amber" href={link("limits", { waiting: "yes" })} /> },
                                { title: "Nodes", num: true, class: "far", cell: (queue) => <Count n={queue.nodes} /> },
                                { title: "Dead", num: true, cell: (queue) => <Count n={queue.failed} tone="red" href={link("dead", { queue: queue.name })} /> },
                                { title: "Oldest due", num: true, cell: (queue) => <Time at={queue.oldest_due_at} /> },
                                {
                                    title: "Actions",
                                    class: "act",
                                    cell: (queue) =>
                                        can("operate") && (
                                            <>
                                                {queue.paused ? (
                                                    <Button icon="play" onClick={() => void attempt(() => post(`v1/queues/${segment(queue.name)}/resume`), `${queue.name} goes on`).then(view.reload)}>
                                                        Resume
                                                    </Button>
                                                ) : (
                                                    <Button icon="pause" onClick={() => askPause(queue, view.reload)}>
                                                        Pause
                                                    </Button>
                                                )}{" "}
                                                <Button onClick={() => show(<Most name={queue.name} scope="queue" at={null} now={queue.place?.most} done={view.reload} />)}>Limit</Button>
                                            </>
                                        ),
                                },
                            ]}
                        />
                    );
                }}
            </Show>
        </>
    );
}
