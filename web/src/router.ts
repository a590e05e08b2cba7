// Where we are stands behind the # of the address: #/tasks?state=failed. Every list, filter and open item is there.
import { signal } from "@preact/signals";
import { queryText, type Query } from "./client";

export interface Place {
    path: string[];
    query: Record<string, string>;
}

function parse(): Place {
    const text = location.hash.replace(/^#\/?/, "");
    const at = text.indexOf("?");
    const path = (at < 0 ? text : text.slice(0, at)).split("/").filter(Boolean);
    const query = Object.fromEntries(new URLSearchParams(at < 0 ? "" : text.slice(at + 1)));
    return { path: path.map(decode), query };
}

function decode(text: string): string {
    try {
        return decodeURIComponent(text);
    } catch {
        return text;
    }
}

export const place = signal<Place>(parse());
addEventListener("hashchange", () => (place.value = parse()));

export const link = (path: string, query: Query = {}): string => "#/" + path + queryText(query);

export function go(path: string, query: Query = {}): void {
    location.hash = link(path, query);
}

// Changes the query of this page; `replace`: without a step for the back button.
export function setQuery(change: Query, replace = false): void {
    const target = link(place.value.path.map(encodeURIComponent).join("/"), { ...place.value.query, ...change });
    if (target === location.hash) return;
    if (!replace) {
        location.hash = target;
        return;
    }
    history.replaceState(null, "", target);
    place.value = parse();
}
