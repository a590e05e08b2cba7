// All pages, and how they are reached.
import type { ComponentType } from "preact";
import { wholeStore } from "./client";
import { Empty } from "./ui/basic";
import { Overview } from "./pages/overview";
import { TaskList } from "./pages/tasks";
import { TaskView } from "./pages/task";
import { link } from "./router";

interface Item {
    path: string;
    title: string;
    icon: string;
    key: string;
    page: ComponentType;
    one?: ComponentType; // with something behind the path
    whole?: boolean; // not for tokens that are bound to a tenant
    gap?: boolean;
}

export const NAV: Item[] = [
    { path: "overview", title: "Overview", icon: "overview", key: "o", page: Overview, whole: true },
    { path: "tasks", title: "Tasks", icon: "tasks", key: "t", page: TaskList, one: TaskView },
];

function Nowhere() {
    return (
        <Empty title="There is no such page" icon="search">
            <a href={link("tasks")}>Go to the tasks</a>
        </Empty>
    );
}

export function pageOf(path: string[]): ComponentType {
    const item = path.length ? NAV.find((it) => it.path === path[0]) : NAV.find((it) => !it.whole || wholeStore());
    if (!item || path.length > 2) return Nowhere;
    return path.length === 2 ? (item.one ?? Nowhere) : item.page;
}
