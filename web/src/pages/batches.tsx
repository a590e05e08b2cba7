// Batches: many tasks that end together, and what waits for them.
import { can, get, post, segment } from "../client";
import type { Batch, Batches, Relatives, Tree } from "../api";
import { number, plural } from "../format";
import { useLive } from "../live";
import { link, place, setQuery } from "../router";
import { Button, Card, Count, Empty, Id, Name, PageHead, Show, Time, Turn, useTitle } from "../ui/basic";
import { attempt, confirm } from "../ui/dialog";
import { Graph } from "../ui/graph";
import { State } from "../ui/icons";
import { Table } from "../ui/table";

function Parts({ batch }: { batch: Batch }) {
    const whole = Math.max(1, batch.total);
    let at = 0;
    const parts: [string, number][] = [["green", batch.succeeded], ["red", batch.failed], ["grey", batch.cancelled]];
    const label = `${number(batch.total - batch.unfinished)} of ${number(batch.total)} ended: ${batch.succeeded} succeeded, ${batch.failed} failed, ${batch.cancelled} cancelled`;
    return (
        <svg class="bar parts" role="img" aria-label={label} viewBox="0 0 100 8" preserveAspectRatio="none">
            <title>{label}</title>
            <rect class="track" width="100" height="8" />
            {parts.map(([tone, count]) => {
                const width = (100 * count) / whole;
                at += width;
                return <rect key={tone} class={tone} x={at - width} width={width} height="8" />;
            })}
        </svg>
    );
}

export function BatchList() {
    useTitle("Batches");
    const query = place.value.query;
    const view = useLive<Batches>("batches?" + new URLSearchParams(query), (signal) => get<Batches>("v1/batches", { unfinished: query.unfinished === "yes", limit: 50, cursor: query.cursor }, signal));
    return (
        <>
            <PageHead title="Batches">
                <label class="tickfield">
                    <input type="checkbox" checked={query.unfinished === "yes"} onChange={() => setQuery({ unfinished: query.unfinished ? "" : "yes", cursor: "" })} /> only unfinished ones
                </label>
            </PageHead>
            <Show view={view}>
                {({ batches, next }) =>
                    batches.length ? (
                        <>
                            <Table
                                rows={batches}
                                id={(batch) => batch.id}
                                label="batches"
                                columns={[
                                    { title: "Batch", cell: (batch) => <Name text={batch.name} href={link("batches/" + batch.id)} /> },
                                    { title: "State", cell: (batch) => <State name={batch.state} /> },
                                    { title: "Progress", class: "share", cell: (batch) => <Parts batch={batch} /> },
                                    { title: "Tasks", num: true, cell: (batch) => <Count n={batch.total} /> },
                                    { title: "Unfinished", num: true, cell: (batch) => <Count n={batch.unfinished} /> },
                                    { title: "Failed", num: true, cell: (batch) => <Count n={batch.failed} tone="red" /> },
                                    { title: "Within", cell: (batch) => batch.within && <a href={link("batches/" + batch.within)}><code>{batch.within}</code></a> },
                                    { title: "Begun", num: true, cell: (batch) => <Time at={batch.created_at} /> },
                                    { title: "Ended", num: true, cell: (batch) => <Time at={batch.ended_at} /> },
                                ]}
                            />
                            <Turn next={next} more="Older" />
                        </>
                    ) : (
                        <Empty title={query.unfinished ? "No batch is unfinished" : "No batch yet"} icon="batches">
                            <p>A batch counts its tasks, and can have a task of its own for its end:</p>
                            <pre>pawl batches open import-7</pre>
                        </Empty>
                    )
                }
            </Show>
        </>
    );
}

interface Loaded {
    batch: Batch;
    members: Relatives;
    tree: Tree;
}

async function load(id: string, after: string | undefined, signal: AbortSignal): Promise<Loaded> {
    const batch = await get<Batch>(`v1/batches/${segment(id)}`, {}, signal);
    const [members, tree] = await Promise.all([
        get<Relatives>(`v1/tasks/${batch.id}/relatives`, { relation: "members", after, limit: 100 }, signal),
        get<Tree>(`v1/tasks/${batch.id}/tree`, { depth: 3, limit: 12 }, signal),
    ]);
    return { batch, members, tree };
}

export function BatchView() {
    const id = place.value.path[1]!;
    const after = place.value.query.after;
    useTitle("Batch " + id);
    const view = useLive<Loaded>(`batch/${id}/${after ?? ""}`, (signal) => load(id, after, signal));
    const batch = view.data?.batch;
    const askCancel = (): void =>
        confirm({
            title: "Cancel this batch?",
            body: <p>It is closed, and {plural(batch!.unfinished, "unfinished task")} of it are cancelled; those that run are asked to stop.</p>,
            verb: "Cancel the batch",
            danger: true,
            act: () => post(`v1/batches/${segment(batch!.id)}/cancel`).then(view.reload),
            done: "cancelled",
        });
    return (
        <>
            <PageHead
                title={<><a href={link("batches")} class="crumb">Batches</a><Name text={batch?.name ?? id} /></>}
                sub={batch && <><State name={batch.state} /> <Id id={batch.id} to={false} /></>}
            >
                {batch?.state === "open" && can("enqueue") && <Button onClick={() => void attempt(() => post(`v1/batches/${segment(batch.id)}/close`), "it takes no more members").then(view.reload)} testid="close-batch">Close</Button>}
                {batch && !batch.ended_at && can("operate") && <Button kind="danger" icon="stop" hotkey="c" onClick={askCancel} disabled={batch.cancel_asked} testid="cancel">Cancel</Button>}
            </PageHead>
            <Show view={view}>
                {({ batch, members, tree }) => (
                    <>
                        <Card title="Progress" side={<span class="faint">{number(batch.total - batch.unfinished)} of {number(batch.total)} ended</span>}>
                            <div class="pad"><Parts batch={batch} /></div>
                            <dl class="facts line">
                                <div><dt>Succeeded</dt><dd>{number(batch.succeeded)}</dd></div>
                                <div><dt>Failed</dt><dd>{number(batch.failed)}</dd></div>
                                <div><dt>Cancelled</dt><dd>{number(batch.cancelled)}</dd></div>
                                <div><dt>Begun</dt><dd><Time at={batch.created_at} /></dd></div>
                                <div><dt>Closed</dt><dd><Time at={batch.closed_at} /></dd></div>
                                <div><dt>Ended</dt><dd><Time at={batch.ended_at} /></dd></div>
                                {batch.within && <div><dt>Within</dt><dd><a href={link("batches/" + batch.within)}><code>{batch.within}</code></a></dd></div>}
                            </dl>
                        </Card>
                        <Card title="Who waits for whom"><Graph trees={[tree]} focus={batch.id} /></Card>
                        <Card title="Members">
                            {members.relatives.length ? (
                                <Table
                                    rows={members.relatives}
                                    id={(one) => one.id}
                                    label="members"
                                    columns={[
                                        { title: "Task", cell: (one) => (one.batch ? <a href={link("batches/" + one.id)}><code>{one.id}</code></a> : <Id id={one.id} />) },
                                        { title: "State", cell: (one) => <State name={one.state} /> },
                                        { title: "Type", cell: (one) => <Name text={one.type ?? one.name} /> },
                                        { title: "Error", class: "grow", cell: (one) => <Name text={one.error} empty="" /> },
                                    ]}
                                />
                            ) : (
                                <p class="pad faint">None.</p>
                            )}
                            <Turn next={members.next} name="after" />
                        </Card>
                    </>
                )}
            </Show>
        </>
    );
}
