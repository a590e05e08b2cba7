// Dead letters: failed tasks that nobody has dealt with.
import { can, type Query } from "../client";
import type { Page } from "../api";
import { ACK, RETRY } from "../bulk";
import { useLive } from "../live";
import { link, place, setQuery } from "../router";
import { Button, Empty, Field, Id, Name, PageHead, Show, Time, useTitle } from "../ui/basic";
import { Table } from "../ui/table";
import { Acts, Looked, Pager, search, useSelection } from "./tasks";
import { go } from "../router";

function filterOf(query: Record<string, string>): Query {
    return { type: query.type, queue: query.queue, tenant: query.tenant, q: query.q?.trim() || undefined };
}

export function Dead() {
    useTitle("Dead letters");
    const query = place.value.query;
    const text = new URLSearchParams(query).toString();
    const filter = filterOf(query);
    const view = useLive<Page>("dead?" + text, (signal) => search("v1/dead", filterOf(query), query.cursor, signal), {
        wants: (event) => event.event === "failed",
    });
    const selection = useSelection(text);
    const set = (name: string) => (value: string) => setQuery({ [name]: value, cursor: "" });
    const done = (): void => {
        selection.clear();
        view.reload();
    };
    return (
        <>
            <PageHead title="Dead letters" sub={<span class="faint">Tasks that failed for good, until they are retried or acknowledged.</span>}>
                <a class="button" href={link("failures")}>
                    Grouped by error
                </a>
            </PageHead>
            <div class="filters few" role="group" aria-label="filter">
                <div class="fields">
                    <Field label="type" name="type" value={query.type ?? ""} onChange={set("type")} />
                    <Field label="queue" name="queue" value={query.queue ?? ""} onChange={set("queue")} />
                    <Field label="tenant" name="tenant" value={query.tenant ?? ""} onChange={set("tenant")} />
                    <Field label="search" name="q" value={query.q ?? ""} onChange={set("q")} />
                    {text && (
                        <Button kind="quiet" icon="close" onClick={() => go("dead")}>
                            Clear
                        </Button>
                    )}
                </div>
            </div>
            <Show view={view} rows={10}>
                {(page) => {
                    const here = page.tasks.map((task) => task.id);
                    if (!here.length && !page.next)
                        return (
                            <Empty title={text ? "No dead letter matches" : "Nothing waits for you"}>
                                A task comes here when its last attempt has failed.
                            </Empty>
                        );
                    return (
                        <>
                            <div class="above">
                                {page.partial && <Looked page={page} oldest={false} />}
                                <Acts actions={[[RETRY, "r"], [ACK, "a"]]} ids={[...selection.ids]} list="v1/dead" filter={filter} done={done} total={here.length > 0} />
                            </div>
                            <Table
                                rows={page.tasks}
                                id={(task) => task.id}
                                label="dead letters"
                                select={
                                    can("operate")
                                        ? { has: (id) => selection.ids.has(id), toggle: selection.toggle, all: (on) => selection.set(on ? here : []), full: here.every((id) => selection.ids.has(id)) }
                                        : undefined
                                }
                                columns={[
                                    { title: "Task", cell: (task) => <Id id={task.id} /> },
                                    { title: "Type", cell: (task) => <Name text={task.type} /> },
                                    { title: "Queue", cell: (task) => <Name text={task.queue} /> },
                                    { title: "Attempts", num: true, cell: (task) => task.attempt },
                                    { title: "Failed", num: true, cell: (task) => <Time at={task.finished_at} /> },
                                    { title: "Code", cell: (task) => (task.code ? <code class="code">{task.code}</code> : null) },
                                    { title: "Error", class: "grow", cell: (task) => <Name text={task.error ?? task.reason} /> },
                                ]}
                            />
                            <Pager next={page.next} query={query} shown={here.length} more={page.partial ? "Look further" : undefined} />
                        </>
                    );
                }}
            </Show>
        </>
    );
}
