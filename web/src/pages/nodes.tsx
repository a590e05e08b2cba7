// Nodes: processes that run or dispatch tasks.
import { can, get, post, serverNow } from "../client";
import type { Node, Nodes, Worker, Workers } from "../api";
import { duration, exact, number, plural } from "../format";
import { beat, useLive } from "../live";
import { place, setQuery } from "../router";
import { Bar, Button, Card, Count, Empty, Name, PageHead, Show, Time, useTitle } from "../ui/basic";
import { attempt, confirm } from "../ui/dialog";
import { State } from "../ui/icons";
import { Table } from "../ui/table";

const spaced = (names: string | null): string => (names ?? "").replaceAll(",", ", ");

function Lease({ expires }: { expires: string | null }) {
    void beat.value;
    if (!expires) return <span class="faint">–</span>;
    const left = (Date.parse(expires) - serverNow()) * 1000;
    if (left <= 0) return <Time at={expires} />;
    return <span title={exact(expires)}>{duration(left)} left</span>;
}

function askDrain(node: Node, done: () => void): void {
    const name = node.name ?? String(node.id);
    confirm({
        title: `Drain “${name}”?`,
        body: (
            <p>
                It starts nothing more. {node.leases ? `${plural(node.leases, "task")} that it has come to their end there, or go back.` : "It has no task."} Its process stays, and
                can be let start tasks again. {node.queues ? `It serves ${spaced(node.queues)}.` : ""}
            </p>
        ),
        verb: "Drain the node",
        danger: true,
        act: () => post(`v1/nodes/${node.id}/drain`).then(done),
        done: `${name} starts nothing more`,
    });
}

function Drain({ node, done }: { node: Node; done: () => void }) {
    if (!can("operate") || !node.alive || (!node.queues && !node.draining)) return null;
    if (!node.draining)
        return (
            <Button icon="pause" onClick={() => askDrain(node, done)}>
                Drain
            </Button>
        );
    return (
        <Button icon="play" onClick={() => void attempt(() => post(`v1/nodes/${node.id}/undrain`), `${node.name ?? node.id} goes on`).then(done)}>
            Resume
        </Button>
    );
}

function askDrainWorker(worker: Worker, done: () => void): void {
    confirm({
        title: `Drain “${worker.name}”?`,
        body: <p>It is given nothing more, and is told so: most workers end then. {worker.held ? `${plural(worker.held, "task")} that it has come to their end.` : "It has no task."}</p>,
        verb: "Drain the worker",
        danger: true,
        act: () => post(`v1/workers/${worker.worker}/drain`).then(done),
        done: `${worker.name} is given nothing more`,
    });
}

// Programs that claim tasks of this server over HTTP.
function WorkerList() {
    const view = useLive<Workers>("workers", (signal) => get<Workers>("v1/workers", {}, signal), { idle: 3000, wants: () => false });
    const workers = view.data?.workers ?? [];
    if (!workers.length) return null;
    return (
        <Card title="Remote workers" class="below">
            <Table
                rows={workers}
                id={(worker) => worker.worker}
                label="remote workers"
                columns={[
                    { title: "Worker", cell: (worker) => <Name text={worker.name} /> },
                    { title: "State", cell: (worker) => <State name={worker.drain ? "draining" : "alive"} /> },
                    { title: "Tasks", num: true, cell: (worker) => <Count n={worker.held} tone="cyan" /> },
                    { title: "Queues", class: "grow", cell: (worker) => <Name text={spaced(worker.queues)} /> },
                    { title: "Types", class: "maybe", cell: (worker) => <Name text={spaced(worker.types)} /> },
                    { title: "Token", class: "maybe", cell: (worker) => <Name text={worker.token} empty="" /> },
                    { title: "Seen", num: true, cell: (worker) => <Time at={worker.seen_at} /> },
                    {
                        title: "Actions",
                        class: "act",
                        cell: (worker) =>
                            can("operate") &&
                            !worker.drain && (
                                <Button icon="pause" onClick={() => askDrainWorker(worker, view.reload)}>
                                    Drain
                                </Button>
                            ),
                    },
                ]}
            />
        </Card>
    );
}

export function NodeList() {
    useTitle("Nodes");
    const all = place.value.query.all === "yes";
    const view = useLive<Nodes>("nodes-" + all, (signal) => get<Nodes>("v1/nodes", { all }, signal), { idle: 3000, wants: () => false });
    return (
        <>
            <PageHead title="Nodes" sub={<span class="faint">A node that stops renewing its lease is taken for dead, and its tasks are given to others.</span>}>
                <label class="tickfield">
                    <input type="checkbox" checked={all} onChange={() => setQuery({ all: all ? "" : "yes" })} /> dead ones too
                </label>
            </PageHead>
            <Show view={view}>
                {({ nodes }) => {
                    const most = Math.max(1, ...nodes.map((node) => node.leases));
                    return nodes.length ? (
                        <Table
                            rows={nodes}
                            id={(node) => String(node.id)}
                            label="nodes"
                            columns={[
                                { title: "Node", cell: (node) => <Name text={node.name ?? String(node.id)} /> },
                                { title: "State", cell: (node) => <State name={!node.alive ? "dead" : node.draining ? "draining" : "alive"} /> },
                                { title: "Load", class: "share", cell: (node) => <Bar part={node.leases} whole={most} tone="cyan" label={`${number(node.leases)} tasks`} /> },
                                { title: "Tasks", num: true, cell: (node) => <Count n={node.leases} tone="cyan" /> },
                                { title: "Queues", class: "grow", cell: (node) => <Name text={spaced(node.queues)} empty="none: it only dispatches" /> },
                                { title: "Process", num: true, cell: (node) => node.pid || "–" },
                                { title: "Number", num: true, cell: (node) => node.id },
                                { title: "Born", num: true, cell: (node) => <Time at={node.born_at} /> },
                                { title: "Lease", num: true, cell: (node) => <Lease expires={node.expires_at} /> },
                                { title: "Actions", class: "act", cell: (node) => <Drain node={node} done={view.reload} /> },
                            ]}
                        />
                    ) : (
                        <Empty title="No node is alive" icon="nodes">
                            <p>Tasks run in programs that use the library, or in</p>
                            <pre>pawl work --queue default -- COMMAND</pre>
                        </Empty>
                    );
                }}
            </Show>
            <WorkerList />
        </>
    );
}
