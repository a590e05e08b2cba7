// The keyboard. Single keys work wherever no text is being typed and no dialog is open.
import { togglePause } from "./live";
import { nav } from "./pages";
import { go } from "./router";
import { Dialog, dialogIsOpen, show } from "./ui/dialog";

let prefix = 0; // when g was pressed

function typing(target: EventTarget | null): boolean {
    return target instanceof HTMLElement && (target.isContentEditable || /^(INPUT|TEXTAREA|SELECT)$/.test(target.tagName)) && (target as HTMLInputElement).type !== "checkbox";
}

function rows(): HTMLElement[] {
    return [...document.querySelectorAll<HTMLElement>("main [data-row]")];
}

function move(by: number): void {
    const all = rows();
    const at = all.findIndex((row) => row.contains(document.activeElement));
    all[Math.max(0, Math.min(all.length - 1, at + by))]?.focus();
}

function inRow(what: string): boolean {
    const found = document.activeElement?.closest("[data-row]")?.querySelector<HTMLElement>(what);
    found?.click();
    return !!found;
}

function hotkey(key: string): boolean {
    const found = document.querySelector<HTMLButtonElement>(`main [data-hotkey="${CSS.escape(key)}"]:not(:disabled)`);
    found?.click();
    return !!found;
}

const SINGLE: Record<string, () => void> = {
    "/": () => document.getElementById("search")?.focus(),
    "?": showKeys,
    j: () => move(1),
    k: () => move(-1),
    p: togglePause,
    x: () => inRow("input[type=checkbox]"),
    o: () => inRow("a"),
    ".": () => document.activeElement?.closest("[data-row]")?.querySelector<HTMLElement>(".act button")?.focus(),
    u: () => history.back(),
};

export function keys(event: KeyboardEvent): void {
    if (event.ctrlKey || event.metaKey || event.altKey || typing(event.target) || dialogIsOpen()) return;
    if (prefix && Date.now() - prefix < 1500) {
        prefix = 0;
        const target = nav().find((item) => item.key === event.key);
        if (target) {
            event.preventDefault();
            go(target.path);
        }
        return;
    }
    if (event.key === "g") {
        prefix = Date.now();
        return;
    }
    if (event.key === "Enter" && document.activeElement?.matches("[data-row]")) {
        inRow("a");
        return;
    }
    const act = SINGLE[event.key];
    if (act) {
        event.preventDefault();
        act();
    } else if (event.key.length === 1 && hotkey(event.key)) {
        event.preventDefault();
    }
}

const HELP: [string, string][] = [
    ["/", "search"],
    ["?", "this list"],
    ["j k", "next, previous row"],
    ["Enter o", "open the row"],
    ["x", "select the row"],
    [".", "to the row's buttons"],
    ["u", "back"],
    ["p", "pause and resume live updates"],
    ["c", "cancel: the task, or what is selected"],
    ["r", "retry: the task, or what is selected"],
    ["a", "acknowledge: dead letters"],
    ["n", "new task, schedule, limit or hook"],
];

export function showKeys(): void {
    show(
        <Dialog title="Keys" wide>
            <div class="keys">
                <dl>
                    {HELP.map(([key, what]) => (
                        <div key={key}>
                            <dt>
                                {key.split(" ").map((one) => (
                                    <kbd key={one}>{one}</kbd>
                                ))}
                            </dt>
                            <dd>{what}</dd>
                        </div>
                    ))}
                </dl>
                <dl>
                    {nav().map((item) => (
                        <div key={item.path}>
                            <dt>
                                <kbd>g</kbd>
                                <kbd>{item.key}</kbd>
                            </dt>
                            <dd>{item.title}</dd>
                        </div>
                    ))}
                </dl>
            </div>
            <div class="text">
                <p class="faint">
                    Search understands an id, <code>state:failed</code>, <code>type:</code>, <code>queue:</code>, <code>tenant:</code>, <code>key:</code>, and words, which may be
                    anywhere in a task: its payload, its error.
                </p>
            </div>
        </Dialog>,
    );
}
