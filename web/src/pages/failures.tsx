// Failures by what went wrong: dead letters with the same type, code and error, numbers and ids aside.
import { useState } from "preact/hooks";
import { can, get } from "../client";
import type { Page, Task } from "../api";
import { ACK, bulk, RETRY, type Action } from "../bulk";
import { number, plural } from "../format";
import { useLive } from "../live";
import { link } from "../router";
import { Bar, Button, Count, Empty, Name, PageHead, Show, Time, useTitle } from "../ui/basic";
import { Table } from "../ui/table";
import { WITHIN } from "./tasks";

const MOST = 5000; // that are looked at
const LOOK_MS = 150; // so long one goes on to the next
const SHOWN = 50; // kinds, before one asks for the rest

interface Group {
    key: string;
    type: string;
    code: string | null;
    error: string;
    count: number;
    last: Task;
    first: Task;
}

interface Groups {
    groups: Group[];
    looked: number;
    more: boolean;
}

// What differs from one failure to the next without meaning anything: numbers, ids, quoted names.
function shape(error: string): string {
    return error
        .slice(0, 300)
        .replace(/0x[0-9a-f]+|\b[0-9a-f]{8,}\b/gi, "…")
        .replace(/\b\d{2,}\b/g, (digits) => (digits.length === 3 ? digits : "…"));
}

const errorOf = (task: Task): string => shape(task.error ?? task.reason ?? "no error was told");
const keyOf = (task: Task): string => JSON.stringify([task.type, task.code, errorOf(task)]);

// Those of the kind among all dead letters, also those that were not looked at for this page.
function act(action: Action, group: Group, done: () => void): void {
    bulk(action, { list: "v1/dead", filter: { type: group.type }, pick: (task) => keyOf(task) === group.key, words: `error “${group.error}”` }, done);
}

// Words that all errors of the kind have: the longest, as many as a search takes.
function wordsOf(group: Group): string {
    const words = group.last.error ? group.error.split(/[\s…]+/).filter((word) => word.length > 1) : [];
    const least = words.map((word) => word.length).sort((a, b) => b - a)[6] ?? 0;
    return words.filter((word) => word.length >= least).slice(0, 7).map((word) => word.slice(0, 24)).join(" ");
}

async function load(signal: AbortSignal): Promise<Groups> {
    const groups = new Map<string, Group>();
    const begun = performance.now();
    let cursor: string | null = null, looked = 0;
    while (looked < MOST && performance.now() - begun < LOOK_MS) {
        const page: Page = await get<Page>("v1/dead", { limit: 1000, within: WITHIN, cursor }, signal);
        for (const task of page.tasks) {
            const key = keyOf(task);
            const group = groups.get(key) ?? { key, type: task.type, code: task.code, error: errorOf(task), count: 0, last: task, first: task };
            group.count++;
            group.first = task;
            groups.set(key, group);
        }
        looked += page.tasks.length;
        cursor = page.next;
        if (!cursor) break;
    }
    return { groups: [...groups.values()].sort((a, b) => b.count - a.count), looked, more: !!cursor };
}

export function Failures() {
    useTitle("Failures");
    const [all, setAll] = useState(false);
    const view = useLive<Groups>("failures", load, { wants: (event) => event.event === "failed", idle: 15000 });
    return (
        <>
            <PageHead title="Failures" sub={<span class="faint">Dead letters by what went wrong; numbers and ids in errors do not count.</span>}>
                <a class="button" href={link("dead")}>
                    One by one
                </a>
            </PageHead>
            <Show view={view} rows={8}>
                {({ groups, looked, more }) =>
                    groups.length ? (
                        <>
                            <p class="above faint">
                                {plural(groups.length, "kind")} of failure in {more ? `the newest ${number(looked)}` : plural(looked, "dead letter")}.
                            </p>
                            <Table
                                rows={all ? groups : groups.slice(0, SHOWN)}
                                id={(group) => group.key}
                                label="failures by error"
                                columns={[
                                    { title: "Count", num: true, cell: (group) => <Count n={group.count} more={more} tone="red" /> },
                                    { title: "Share", class: "share far", cell: (group) => <Bar part={group.count} whole={groups[0]!.count} tone="red" label={plural(group.count, "task")} /> },
                                    { title: "Type", cell: (group) => <Name text={group.type} /> },
                                    { title: "Code", cell: (group) => (group.code ? <code class="code">{group.code}</code> : null) },
                                    { title: "Error", class: "grow", cell: (group) => <Name text={group.error} href={link("dead", { type: group.type, q: wordsOf(group) })} /> },
                                    { title: "First", num: true, class: "far", cell: (group) => <Time at={group.first.finished_at} /> },
                                    { title: "Last", num: true, cell: (group) => <a href={link("tasks/" + group.last.id)}><Time at={group.last.finished_at} /></a> },
                                    {
                                        title: "Actions",
                                        class: "act",
                                        cell: (group) =>
                                            can("operate") && (
                                                <>
                                                    <Button onClick={() => act(RETRY, group, view.reload)}>Retry</Button>{" "}
                                                    <Button onClick={() => act(ACK, group, view.reload)}>Acknowledge</Button>
                                                </>
                                            ),
                                    },
                                ]}
                            />
                            {!all && groups.length > SHOWN && (
                                <footer class="pager">
                                    <span class="faint">the {SHOWN} most frequent</span>
                                    <Button kind="plain" onClick={() => setAll(true)}>
                                        Show all {number(groups.length)}
                                    </Button>
                                </footer>
                            )}
                        </>
                    ) : (
                        <Empty title="Nothing has failed for good">What fails and is tried again is under Tasks, as “retrying”.</Empty>
                    )
                }
            </Show>
        </>
    );
}
