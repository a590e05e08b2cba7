// One action on many tasks: what was selected, or all that match a filter. Ids are gathered first, so that the question can say how many
// there are, and of what; then they go to the server in portions, each with an answer for every task. All answers can be saved; only the
// first of them are shown, so that a million takes no more of the page than a hundred.
import { useEffect, useRef, useState } from "preact/hooks";
import { get, post, Problem, type Query } from "./client";
import { number, plural } from "./format";
import type { Result, Results, Page, Task } from "./api";
import { Bar, Button, Id, Name, save } from "./ui/basic";
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

// What an action is for.
export interface Target {
    ids?: string[]; // these
    list?: string; // or what this list has,
    filter?: Query; // by this filter,
    pick?: (task: Task) => boolean; // and by this
    words?: string; // what stands for `pick` in the question
}

const PAGE = 1000;
const LANES = 4; // portions that are on their way at a time: stores make what comes together durable together
const FEWEST = 50; // of a portion at first
const MOST_AT_ONCE = 1000;
const QUICK_MS = 150, SLOW_MS = 600; // for a portion: then the next is larger, smaller
const SHOWN = 500;

type Phase = "gather" | "ask" | "run" | "end";

// ---- what there is --------------------------------------------------------------------------------------------------------------

interface Found {
    ids: string[];
    types: Map<string, number>;
    running: number;
}

const finds = (ids: string[]): Found => ({ ids, types: new Map(), running: 0 });

// Until there is no more, or somebody says that it is enough; says whether that was all.
async function gather(target: Target, action: Action, found: Found, enough: () => boolean, signal: AbortSignal, tell: () => void): Promise<boolean> {
    let cursor: string | null = null;
    do {
        const page: Page = await get<Page>(target.list!, { ...target.filter, limit: PAGE, cursor }, signal);
        for (const task of page.tasks) {
            if ((action.states && !action.states.includes(task.state)) || (target.pick && !target.pick(task))) continue;
            found.ids.push(task.id);
            found.types.set(task.type, (found.types.get(task.type) ?? 0) + 1);
            found.running += Number(task.state === "leased");
        }
        tell();
        cursor = page.next;
    } while (cursor && !enough());
    return !cursor;
}

function What({ found, target }: { found: Found; target: Target }) {
    const types = [...found.types].sort((a, b) => b[1] - a[1]);
    const filter = Object.entries(target.filter ?? {}).filter(([, value]) => value);
    return (
        <>
            {target.list && (
                <p class="faint">
                    Filter: {[...filter.map(([key, value]) => `${key} ${value}`), ...(target.words ? [target.words] : [])].join(", ") || "everything"}
                </p>
            )}
            <ul class="sample" data-testid="bulk-what">
                {types.slice(0, 5).map(([type, count]) => (
                    <li key={type}>
                        {number(count)} of type <Name text={type} />
                    </li>
                ))}
                {types.length > 5 && <li class="faint">and of {plural(types.length - 5, "other type")}</li>}
                {found.running > 0 && <li>{number(found.running)} of them running now</li>}
                {!types.length &&
                    found.ids.slice(0, 5).map((id) => (
                        <li key={id}>
                            <code>{id}</code>
                        </li>
                    ))}
                {!types.length && found.ids.length > 5 && <li class="faint">and {number(found.ids.length - 5)} more</li>}
            </ul>
        </>
    );
}

// ---- what became of it ----------------------------------------------------------------------------------------------------------

interface Outcome {
    done: number;
    bad: number;
    good: Result[]; // the first of them
    refused: Result[];
    lines: string[]; // a text for each portion, with a line for each task
}

const line = (result: Result): string => [result.id, result.status, result.as ?? result.detail ?? ""].join("\t") + "\n";

function add(out: Outcome, results: Result[]): void {
    for (const result of results) {
        const to = result.status === "ok" ? out.good : out.refused;
        if (to.length < SHOWN) to.push(result);
        out.bad += Number(result.status !== "ok");
    }
    out.done += results.length;
    out.lines.push(results.map(line).join(""));
}

function ResultTable({ results, of, past }: { results: Result[]; of: number; past: string }) {
    return (
        <table class="results">
            <tbody>
                {results.map((result) => (
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
                {of > results.length && (
                    <tr>
                        <td colSpan={2}>and {number(of - results.length)} more, all of them in the file</td>
                    </tr>
                )}
            </tbody>
        </table>
    );
}

function Done({ out, of, action, ended }: { out: Outcome; of: number; action: Action; ended: boolean }) {
    return (
        <>
            <Bar part={out.done} whole={of} tone={out.bad ? "amber" : "green"} label={`${out.done} of ${of}`} />
            <p role="status" data-testid="bulk-result">
                {number(out.done - out.bad)} {action.past}
                {out.bad > 0 && `, ${number(out.bad)} not`}, of {number(of)}.
            </p>
            {out.bad > 0 && <ResultTable results={out.refused} of={out.bad} past={action.past} />}
            {ended && out.done > out.bad && (
                <details>
                    <summary>What became of each</summary>
                    <ResultTable results={out.good} of={out.done - out.bad} past={action.past} />
                </details>
            )}
        </>
    );
}

// ---- the dialog -----------------------------------------------------------------------------------------------------------------

const said = (error: unknown): string => (error instanceof Problem ? error.message : String(error));

function Work({ action, target, done }: { action: Action; target: Target; done: () => void }) {
    const [phase, setPhase] = useState<Phase>(target.ids ? "ask" : "gather");
    const [, tick] = useState(0);
    const [whole, setWhole] = useState(true);
    const [note, setNote] = useState("");
    const [problem, setProblem] = useState("");
    const control = useRef(new AbortController());
    const enough = useRef(false);
    const found = useRef<Found>(finds(target.ids ?? []));
    const out = useRef<Outcome>({ done: 0, bad: 0, good: [], refused: [], lines: [] });
    const tell = (): void => tick((n) => n + 1);
    const ids = found.current.ids;

    useEffect(() => () => control.current.abort(), []);
    useEffect(() => {
        if (target.ids) return;
        gather(target, action, found.current, () => enough.current, control.current.signal, tell)
            .then(setWhole)
            .catch((error) => (setWhole(false), setProblem(said(error))))
            .finally(() => setPhase("ask"));
    }, []);

    // The keyboard goes on at once, but not with what takes many tasks away.
    useEffect(() => {
        if (phase === "ask" && (target.ids || !action.danger)) document.querySelector<HTMLElement>("dialog [data-testid=confirm]")?.focus();
    }, [phase]);

    const run = async (): Promise<void> => {
        setPhase("run");
        let at = 0, portion = FEWEST;
        const lane = async (): Promise<void> => {
            while (at < ids.length && !control.current.signal.aborted) {
                const begun = performance.now(), some = ids.slice(at, at + portion);
                at += some.length;
                const answer = await post<Results>(action.path, { ids: some, ...(action.note && note ? { note } : {}) });
                add(out.current, answer.results ?? []);
                const took = performance.now() - begun;
                if (took < QUICK_MS) portion = Math.min(MOST_AT_ONCE, portion * 2);
                if (took > SLOW_MS) portion = Math.max(FEWEST, portion >> 1);
                tell();
            }
        };
        const lost = (error: unknown): void => (control.current.abort(), setProblem(said(error)));
        await Promise.all(Array.from({ length: LANES }, () => lane().catch(lost)));
        setPhase("end");
        done();
    };

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
                        <What found={found.current} target={target} />
                        {action.note && (
                            <label class="field">
                                <span>{action.note}</span>
                                <input name="note" value={note} onInput={(event) => setNote(event.currentTarget.value)} autocomplete="off" />
                            </label>
                        )}
                    </>
                )}
                {(phase === "run" || phase === "end") && <Done out={out.current} of={ids.length} action={action} ended={phase === "end"} />}
                {problem && (
                    <p class="wrong" role="alert">
                        {problem}
                    </p>
                )}
            </div>
            <footer>
                {phase === "gather" && ids.length > 0 && <Button onClick={() => (enough.current = true)}>Take these</Button>}
                {phase === "run" && (
                    <Button onClick={() => control.current.abort()} icon="stop">
                        Stop
                    </Button>
                )}
                {phase === "end" && out.current.done > 0 && (
                    <Button kind="quiet" icon="save" onClick={() => save(`${action.past}.tsv`, out.current.lines)} title="a line for each task: id, status, new id or reason">
                        Save the results
                    </Button>
                )}
                {phase !== "run" && <Button onClick={() => (control.current.abort(), close())}>{phase === "end" ? "Close" : "Back"}</Button>}
                {phase === "ask" && (
                    <Button kind={action.danger ? "danger" : "main"} disabled={!ids.length} onClick={() => void run()} testid="confirm">
                        {action.verb} {number(ids.length)}
                    </Button>
                )}
            </footer>
        </Dialog>
    );
}

export function bulk(action: Action, target: Target, done: () => void): void {
    show(<Work action={action} target={target} done={done} />);
}
