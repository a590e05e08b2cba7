// What became of a schedule's occurrences, oldest first: a square each, by colour and by height.
import type { Occurrence } from "../api";
import { exact } from "../format";
import { go } from "../router";
import { toneOf } from "./icons";

const SIZE = 14, STEP = 17;

export function Heat({ occurrences }: { occurrences: Occurrence[] }) {
    const rows = [...occurrences].reverse();
    return (
        <svg class="heat" width={rows.length * STEP} height={SIZE + 4} viewBox={`0 0 ${rows.length * STEP} ${SIZE + 4}`} role="img" aria-label={`the last ${rows.length} occurrences: ${summary(occurrences)}`}>
            {rows.map((one, i) => {
                const low = one.state === "skipped" || one.state === "unstarted" || one.state === "waiting";
                return (
                    <rect key={i} class={toneOf(one.state) + (one.task ? " linked" : "")} x={i * STEP} y={low ? SIZE / 2 + 2 : 2} width={SIZE} height={low ? SIZE / 2 : SIZE} rx="3" onClick={() => one.task && go("tasks/" + one.task)}>
                        <title>{`${one.due_at ? exact(one.due_at) : "after " + (one.after ?? "")}: ${one.state}${one.why ? ", " + one.why : ""}${one.count > 1 ? `, ${one.count} times` : ""}`}</title>
                    </rect>
                );
            })}
        </svg>
    );
}

function summary(occurrences: Occurrence[]): string {
    const counts = new Map<string, number>();
    for (const one of occurrences) counts.set(one.state, (counts.get(one.state) ?? 0) + 1);
    return [...counts].map(([state, count]) => `${count} ${state}`).join(", ");
}
