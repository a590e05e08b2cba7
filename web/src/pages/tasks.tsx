// Tasks: filter, search, page, select, act. All of it stands in the address.
import { useEffect, useState } from "preact/hooks";
import { ACK, bulk, CANCEL, RETRY, type Action } from "../bulk";
import { can, get, wholeStore, type Query } from "../client";
import { number } from "../format";
import { useLive } from "../live";
import { go, link, place, setQuery } from "../router";
import type { Queue, Task, Page } from "../api";
import { Button, Empty, Field, Id, Name, PageHead, Show, Time, useTitle } from "../ui/basic";
import { Icon, State } from "../ui/icons";
import { Table, type Column } from "../ui/table";
import { newTask } from "../new_task";

const STATES = ["waiting", "pending", "scheduled", "retrying", "throttled", "blocked", "running", "stale", "succeeded", "failed", "cancelled"];
const LIMIT = 50;
export const WITHIN = "50ms"; // so long one answer may take
const SEARCH_MS = 400; // so long what is rare is looked for before one is asked whether to go on
const SINCE: [string, string][] = [["", "any time"], ["15m", "last 15 min"], ["1h", "last hour"], ["24h", "last 24 h"], ["7d", "last 7 days"]];

export function since(text: string | undefined): string | undefined {
    const found = /^(\d+)([mhd])$/.exec(text ?? "");
    if (!found) return text || undefined;
    const unit = { m: 60, h: 3600, d: 86400 }[found[2] as "m" | "h" | "d"];
    return new Date(Date.now() - Number(found[1]) * unit * 1000).toISOString();
}

function filterOf(query: Record<string, string>): Query {
    return { state: query.state, type: query.type, queue: query.queue, tenant: query.tenant, key: query.key, q: query.q?.trim() || undefined, since: since(query.since), oldest_first: query.order === "oldest" };
}

// ---- words --------------------------------------------------------------------------------------------------------------------

// The server looks for words, and for what is rare among much, as long as WITHIN; here its pages are put together until there is something
// to show, or it takes too long for somebody who waits. From there one can go on.
export async function search(list: string, filter: Query, cursor: string | undefined, signal: AbortSignal): Promise<Page> {
    const begun = performance.now();
    const out: Page = { tasks: [], next: cursor ?? null, partial: false, looked_to: null };
    do {
        const page: Page = await get<Page>(list, { ...filter, within: WITHIN, limit: LIMIT - out.tasks.length, cursor: out.next }, signal);
        out.tasks.push(...page.tasks);
        out.next = page.next;
        out.partial = page.partial;
        out.looked_to = page.looked_to ?? out.looked_to;
    } while (out.next && out.tasks.length < LIMIT && performance.now() - begun < SEARCH_MS);
    return out;
}

export function Looked({ page, oldest }: { page: Page; oldest: boolean }) {
    const count = page.tasks.length ? `${number(page.tasks.length)} found` : "Nothing found";
    return (
        <p class="faint" role="status">
            {count}
            {page.next && page.looked_to ? (
                <>
                    {" "}
                    so far, among tasks created {oldest ? "up to " : "since "}
                    <Time at={page.looked_to} />
                </>
            ) : page.next ? (
                " so far"
            ) : (
                ": that is all"
            )}
            .
        </p>
    );
}

// ---- the page -----------------------------------------------------------------------------------------------------------------

export const taskColumns: Column<Task>[] = [
    { title: "Task", cell: (task) => <Id id={task.id} /> },
    { title: "State", cell: (task) => <State name={task.display ?? task.state} /> },
    { title: "Type", cell: (task) => <Name text={task.type} />, class: "grow" },
    { title: "Queue", cell: (task) => <Name text={task.queue} href={link("tasks", { queue: task.queue })} /> },
    { title: "Key", cell: (task) => <Name text={task.key} empty="" />, class: "maybe" },
    { title: "Tries", num: true, cell: (task) => (task.max_attempts ? `${task.attempt}/${task.max_attempts}` : task.attempt) },
    { title: "Created", num: true, cell: (task) => <Time at={task.created_at} /> },
    { title: "Latest", cell: (task) => <Last task={task} />, class: "grow last" },
];

function Last({ task }: { task: Task }) {
    if (task.error) return <Name text={task.error} />;
    if (task.finished_at) return <span class="faint">ended <Time at={task.finished_at} /></span>;
    if (task.state === "leased")
        return (
            <span class="faint">
                {task.progress !== null ? `${task.progress} % ` : ""}
                {task.progress_text ?? ""} on {task.node_name ?? task.node}
            </span>
        );
    return task.run_at && task.run_at !== task.created_at ? <span class="faint">runs <Time at={task.run_at} /></span> : null;
}

function Filters({ query }: { query: Record<string, string> }) {
    const queues = useLive("queues-names", (signal) => get<{ queues: Queue[] }>("v1/queues", {}, signal), { off: !wholeStore(), idle: 30000, wants: () => false });
    const set = (name: string) => (value: string) => setQuery({ [name]: value, cursor: "", at: "" });
    const any = ["state", "type", "queue", "tenant", "key", "since", "q", "order"].some((name) => query[name]);
    const [open, setOpen] = useState(false); // on a phone, where there is no room for them
    return (
        <div class={"filters" + (open ? " open" : "")} role="group" aria-label="filter">
            <div class="chips" role="group" aria-label="state">
                <button type="button" aria-pressed={!query.state} onClick={() => set("state")("")}>
                    all
                </button>
                {STATES.map((state) => (
                    <button key={state} type="button" aria-pressed={query.state === state} onClick={() => set("state")(query.state === state ? "" : state)}>
                        <State name={state} />
                    </button>
                ))}
            </div>
            <button type="button" class="button more" aria-expanded={open} onClick={() => setOpen(!open)}>
                <Icon name={open ? "close" : "down"} /> {open ? "Less" : "More filters"}
            </button>
            <div class="fields">
                <Field label="type" name="type" value={query.type ?? ""} onChange={set("type")} />
                <Field label="queue" name="queue" value={query.queue ?? ""} onChange={set("queue")} list={queues.data?.queues.map((queue) => queue.name) ?? []} />
                <Field label="key" name="key" value={query.key ?? ""} onChange={set("key")} />
                {wholeStore() && <Field label="tenant" name="tenant" value={query.tenant ?? ""} onChange={set("tenant")} />}
                <Field label="search" name="q" value={query.q ?? ""} onChange={set("q")} />
                <label class="field">
                    <span>created</span>
                    <select name="since" value={query.since ?? ""} onChange={(event) => set("since")(event.currentTarget.value)}>
                        {SINCE.map(([value, text]) => (
                            <option key={value} value={value}>
                                {text}
                            </option>
                        ))}
                    </select>
                </label>
                <label class="field">
                    <span>order</span>
                    <select name="order" value={query.order ?? ""} onChange={(event) => set("order")(event.currentTarget.value)}>
                        <option value="">newest first</option>
                        <option value="oldest">oldest first</option>
                    </select>
                </label>
                {any && (
                    <Button kind="quiet" icon="close" onClick={() => go("tasks")}>
                        Clear
                    </Button>
                )}
            </div>
        </div>
    );
}

export function useSelection(key: string) {
    const [ids, setIds] = useState<Set<string>>(new Set());
    useEffect(() => setIds(new Set()), [key]);
    const toggle = (id: string): void =>
        setIds((old) => {
            const fresh = new Set(old);
            if (!fresh.delete(id)) fresh.add(id);
            return fresh;
        });
    return { ids, toggle, clear: () => setIds(new Set()), set: (all: string[]) => setIds(new Set(all)) };
}

// What can be done with the selection, or with all that match. `list` is where ids of a filter come from.
export function Acts(props: { actions: [Action, string][]; ids: string[]; list: string; filter: Query; done: () => void; total: boolean }) {
    if (!can("operate")) return null;
    const many = props.ids.length > 0;
    return (
        <div class="acts" role="group" aria-label="actions">
            <span class={many ? "faint" : "faint idle"}>{many ? `${number(props.ids.length)} selected` : props.total ? "all that match" : ""}</span>
            {props.actions.map(([action, key]) => (
                <Button
                    key={action.verb}
                    hotkey={key}
                    disabled={!many && !props.total}
                    onClick={() => bulk(action, many ? { ids: props.ids } : { list: props.list, filter: props.filter }, props.done)}
                >
                    {action.verb}
                    {many ? "" : " all…"}
                </Button>
            ))}
        </div>
    );
}

export function Pager({ next, query, shown, more }: { next: string | null; query: Record<string, string>; shown: number; more?: string }) {
    return (
        <footer class="pager">
            <span class="faint">{number(shown)} shown</span>
            {query.cursor && (
                <Button kind="plain" onClick={() => setQuery({ cursor: "" })} testid="first">
                    To the beginning
                </Button>
            )}
            {next && (
                <Button kind="plain" onClick={() => setQuery({ cursor: next })} testid="next">
                    {more ?? "Older"} <Icon name="right" />
                </Button>
            )}
        </footer>
    );
}

export function TaskList() {
    useTitle("Tasks");
    const query = place.value.query;
    const filter = filterOf(query);
    const text = new URLSearchParams(query).toString();
    const view = useLive<Page>(
        "tasks?" + text,
        (signal) => search("v1/tasks", filterOf(query), query.cursor, signal),
        query.q || query.cursor ? { wants: () => false, idle: 30000 } : { wants: (event) => (!query.type || event.type === query.type) && (!query.queue || event.queue === query.queue) },
    );
    const selection = useSelection(text);
    const done = (): void => {
        selection.clear();
        view.reload();
    };
    return (
        <>
            <PageHead title="Tasks">
                {can("enqueue") && (
                    <Button kind="main" icon="plus" hotkey="n" onClick={() => newTask()}>
                        New task
                    </Button>
                )}
            </PageHead>
            <Filters query={query} />
            <Show view={view} rows={12}>
                {(page) => {
                    const here = page.tasks.map((task) => task.id);
                    return (
                        <>
                            <div class="above">
                                {(filter.q || page.partial) && <Looked page={page} oldest={query.order === "oldest"} />}
                                <Acts
                                    actions={[[CANCEL, "c"], [RETRY, "r"], [ACK, "a"]]}
                                    ids={[...selection.ids]}
                                    list="v1/tasks"
                                    filter={filter}
                                    done={done}
                                    total={page.tasks.length > 0}
                                />
                            </div>
                            {page.tasks.length ? (
                                <Table
                                    rows={page.tasks}
                                    columns={taskColumns}
                                    id={(task) => task.id}
                                    label="tasks"
                                    select={
                                        can("operate")
                                            ? { has: (id) => selection.ids.has(id), toggle: selection.toggle, all: (on) => selection.set(on ? here : []), full: here.length > 0 && here.every((id) => selection.ids.has(id)) }
                                            : undefined
                                    }
                                />
                            ) : (
                                <NoTasks filtered={text !== ""} />
                            )}
                            <Pager next={page.next} query={query} shown={page.tasks.length} more={filter.q || page.partial ? "Look further" : undefined} />
                        </>
                    );
                }}
            </Show>
        </>
    );
}

function NoTasks({ filtered }: { filtered: boolean }) {
    return filtered ? (
        <Empty title="No task matches" icon="search">
            <a href={link("tasks")}>Show all tasks</a>
        </Empty>
    ) : (
        <Empty title="No tasks yet" icon="tasks">
            <p>Hand one over from a program, from the command line, or with “New task”:</p>
            <pre>pawl enqueue --type greet --payload '"world"'</pre>
        </Empty>
    );
}
