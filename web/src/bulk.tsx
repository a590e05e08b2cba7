// One action on many tasks: what was selected, or all that match a filter. Ids are gathered first, so that the question can say how many
// there are; then they go to the server in portions, each with an answer for every task.
import { useEffect, useRef, useState } from "preact/hooks";
import { get, post, Problem, type Query } from "./client";
import { number, plural } from "./format";
import type { Result, Results, Page } from "./api";
import { Bar, Button, Id } from "./ui/basic";
import { close, Dialog, show } from "./ui/dialog";

export interface Action {
    verb: string; // "Cancel"
    past: string; // "cancelled"
    path: string; // of the route that takes ids
    danger?: boolean;
    warning: string;
    note?: string;
    states?: string[]; // tasks of a list that it makes sense for
}

export const CANCEL: Action = {
    verb: "Cancel",
    past: "cancelled",
    path: "v1/tasks/cancel",
    danger: true,
    warning: "What waits will not run. What runs is asked to stop.",
    states: ["waiting", "pending", "leased"],
};
export const RETRY: Action = { verb: "Retry", past: "retried", path: "v1/dead/retry", warning: "Each runs again as a new task with the same body.", states: ["failed", "cancelled"] };
export const ACK: Action = {
    verb: "Acknowledge",
    past: "acknowledged",
    path: "v1/dead/ack",
    warning: "They stay in the history, and no longer count as dead letters.",
    note: "Why nothing is to be done (may be empty)",
    states: ["failed"],
};

const PAGE = 1000;
const PORTION = 50;
const MOST = 100000;

type Phase = "gather" | "ask" | "run" | "end";

async function gather(list: string, filter: Query, action: Action, signal: AbortSignal, found: (ids: string[]) => void): Promise<boolean> {
    const ids: string[] = [];
    let cursor: string | null = null;
    do {
        const page: Page = await get<Page>(list, { ...filter, limit: PAGE, cursor }, signal);
        for (const task of page.tasks) if (!action.states || action.states.includes(task.state)) ids.push(task.id);
        found([...ids]);
        cursor = page.next;
    } while (cursor && ids.length < MOST);
    return !cursor;
}

const SHOWN = 500;

function ResultTable({ results, past }: { results: Result[]; past: string }) {
    return (
        <table class="results">
            <tbody>
                {results.slice(0, SHOWN).map((result) => (
                    <tr key={result.id}>
                        <td>
                            <Id id={result.id} />
                        </td>
                        <td>
                            {result.status === "ok" ? past : (result.detail ?? result.status)}
                            {result.as && (
                                <>
                                    {" "}
                                    as <Id id={result.as} />
                                </>
                            )}
                        </td>
                    </tr>
                ))}
                {results.length > SHOWN && (
                    <tr>
                        <td colSpan={2}>and {number(results.length - SHOWN)} more</td>
                    </tr>
                )}
            </tbody>
        </table>
    );
}

function Work(props: { action: Action; ids?: string[]; list?: string; filter?: Query; done: () => void }) {
    const { action } = props;
    const [phase, setPhase] = useState<Phase>(props.ids ? "ask" : "gather");
    const [ids, setIds] = useState<string[]>(props.ids ?? []);
    const [whole, setWhole] = useState(true);
    const [note, setNote] = useState("");
    const [results, setResults] = useState<Result[]>([]);
    const [problem, setProblem] = useState("");
    const control = useRef(new AbortController());

    useEffect(() => {
        if (props.ids) return;
        gather(props.list!, props.filter!, action, control.current.signal, setIds)
            .then(setWhole)
            .catch((error) => setProblem(error instanceof Problem ? error.message : String(error)))
            .finally(() => setPhase("ask"));
    }, []);

    const run = async (): Promise<void> => {
        setPhase("run");
        const done: Result[] = [];
        try {
            for (let at = 0; at < ids.length && !control.current.signal.aborted; at += PORTION) {
                const answer = await post<Results>(action.path, { ids: ids.slice(at, at + PORTION), ...(action.note && note ? { note } : {}) });
                done.push(...(answer.results ?? []));
                setResults([...done]);
            }
        } catch (error) {
            setProblem(error instanceof Problem ? error.message : String(error));
        }
        setPhase("end");
        props.done();
    };
    const bad = results.filter((result) => result.status !== "ok");

    return (
        <Dialog title={`${action.verb} tasks`} wide onClose={() => control.current.abort()}>
            <div class="text">
                {phase === "gather" && <p role="status">Looking for what matches: {number(ids.length)} so far…</p>}
                {phase === "ask" && (
                    <>
                        <p>
                            <strong data-testid="bulk-count">{plural(ids.length, "task")}</strong> will be {action.past}
                            {!whole && " (the first of those that match)"}. {action.warning}
                        </p>
                        {props.filter && (
                            <p class="faint">
                                Filter: {Object.entries(props.filter).filter(([, value]) => value).map(([key, value]) => `${key} ${value}`).join(", ") || "everything"}
                            </p>
                        )}
                        <ul class="sample">
                            {ids.slice(0, 5).map((id) => (
                                <li key={id}>
                                    <code>{id}</code>
                                </li>
                            ))}
                            {ids.length > 5 && <li class="faint">and {number(ids.length - 5)} more</li>}
                        </ul>
                        {action.note && (
                            <label class="field">
                                <span>{action.note}</span>
                                <input name="note" value={note} onInput={(event) => setNote(event.currentTarget.value)} autocomplete="off" />
                            </label>
                        )}
                    </>
                )}
                {(phase === "run" || phase === "end") && (
                    <>
                        <Bar part={results.length} whole={ids.length} tone={bad.length ? "amber" : "green"} label={`${results.length} of ${ids.length}`} />
                        <p role="status" data-testid="bulk-result">
                            {number(results.length - bad.length)} {action.past}
                            {bad.length > 0 && `, ${number(bad.length)} not`}, of {number(ids.length)}.
                        </p>
                        {bad.length > 0 && <ResultTable results={bad} past={action.past} />}
                        {phase === "end" && results.length > bad.length && (
                            <details>
                                <summary>What became of each</summary>
                                <ResultTable results={results.filter((result) => result.status === "ok")} past={action.past} />
                            </details>
                        )}
                    </>
                )}
                {problem && (
                    <p class="wrong" role="alert">
                        {problem}
                    </p>
                )}
            </div>
            <footer>
                {phase === "run" ? (
                    <Button onClick={() => control.current.abort()} icon="stop">
                        Stop
                    </Button>
                ) : (
                    <Button onClick={() => (control.current.abort(), close())}>{phase === "end" ? "Close" : "Back"}</Button>
                )}
                {phase === "ask" && (
                    <Button kind={action.danger ? "danger" : "main"} disabled={!ids.length} onClick={() => void run()} testid="confirm">
                        {action.verb} {number(ids.length)}
                    </Button>
                )}
            </footer>
        </Dialog>
    );
}

export function bulkIds(action: Action, ids: string[], done: () => void): void {
    show(<Work action={action} ids={ids} done={done} />);
}

export function bulkFilter(action: Action, list: string, filter: Query, done: () => void): void {
    show(<Work action={action} list={list} filter={filter} done={done} />);
}
