// Nodes: processes that run or dispatch tasks.
import { get, serverNow } from "../client";
import type { Nodes } from "../api";
import { duration, number } from "../format";
import { beat, useLive } from "../live";
import { place, setQuery } from "../router";
import { Bar, Count, Empty, Name, PageHead, Show, Time, useTitle } from "../ui/basic";
import { State } from "../ui/icons";
import { Table } from "../ui/table";

function Lease({ expires }: { expires: string | null }) {
    void beat.value;
    if (!expires) return <span class="faint">–</span>;
    const left = (Date.parse(expires) - serverNow()) * 1000;
    if (left <= 0) return <Time at={expires} />;
    return <span title={expires}>{duration(left)} left</span>;
}

export function NodeList() {
    useTitle("Nodes");
    const all = place.value.query.all === "yes";
    const view = useLive<Nodes>("nodes-" + all, (signal) => get<Nodes>("v1/nodes", { all }, signal), { idle: 3000, wants: () => false });
    return (
        <>
            <PageHead title="Nodes" sub={<span class="faint">A node that stops renewing its lease is taken for dead, and its tasks are given to others. To drain one, send its process SIGTERM.</span>}>
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
                                { title: "State", cell: (node) => <State name={node.alive ? "alive" : "dead"} /> },
                                { title: "Load", class: "share", cell: (node) => <Bar part={node.leases} whole={most} tone="cyan" label={`${number(node.leases)} tasks`} /> },
                                { title: "Tasks", num: true, cell: (node) => <Count n={node.leases} tone="cyan" /> },
                                { title: "Queues", class: "grow", cell: (node) => <Name text={node.queues} empty="none: it only dispatches" /> },
                                { title: "Process", num: true, cell: (node) => node.pid || "–" },
                                { title: "Number", num: true, cell: (node) => node.id },
                                { title: "Born", num: true, cell: (node) => <Time at={node.born_at} /> },
                                { title: "Lease", num: true, cell: (node) => <Lease expires={node.expires_at} /> },
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
        </>
    );
}
