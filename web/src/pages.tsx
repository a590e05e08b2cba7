// All pages, and how they are reached.
import type { ComponentType } from "preact";
import { can, wholeStore } from "./client";
import { Empty, PageHead } from "./ui/basic";
import { Overview } from "./pages/overview";
import { ActLog } from "./pages/log";
import { BatchList, BatchView } from "./pages/batches";
import { Dead } from "./pages/dead";
import { Failures } from "./pages/failures";
import { HookList } from "./pages/hooks";
import { LimitList } from "./pages/limits";
import { NodeList } from "./pages/nodes";
import { QueueList } from "./pages/queues";
import { ScheduleList, ScheduleView } from "./pages/schedules";
import { Settings } from "./pages/settings";
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
    admin?: boolean; // for tokens that may everything
    gap?: boolean;
}

const ITEMS: Item[] = [
    { path: "overview", title: "Overview", icon: "overview", key: "o", page: Overview, whole: true },
    { path: "tasks", title: "Tasks", icon: "tasks", key: "t", page: TaskList, one: TaskView },
    { path: "failures", title: "Failures", icon: "failures", key: "f", page: Failures },
    { path: "dead", title: "Dead letters", icon: "dead", key: "d", page: Dead },
    { path: "queues", title: "Queues", icon: "queues", key: "q", page: QueueList, whole: true, gap: true },
    { path: "schedules", title: "Schedules", icon: "schedules", key: "s", page: ScheduleList, one: ScheduleView, whole: true },
    { path: "batches", title: "Batches", icon: "batches", key: "b", page: BatchList, one: BatchView, whole: true },
    { path: "limits", title: "Limits", icon: "limits", key: "l", page: LimitList, whole: true },
    { path: "nodes", title: "Nodes", icon: "nodes", key: "n", page: NodeList, whole: true },
    { path: "hooks", title: "Hooks", icon: "hooks", key: "h", page: HookList, whole: true, admin: true },
    { path: "log", title: "Operator log", icon: "log", key: "a", page: ActLog, whole: true, gap: true },
    { path: "settings", title: "Settings", icon: "settings", key: "e", page: Settings },
];

// What whoever looks may see.
export const nav = (): Item[] => ITEMS.filter((item) => (!item.whole || wholeStore()) && (!item.admin || can("admin")));

function Nowhere() {
    return (
        <>
            <PageHead title="Nowhere" />
            <Empty title="There is no such page" icon="search">
                <a href={link("tasks")}>Go to the tasks</a>
            </Empty>
        </>
    );
}

export function pageOf(path: string[]): ComponentType {
    const item = path.length ? ITEMS.find((it) => it.path === path[0]) : nav()[0];
    if (!item || path.length > 2) return Nowhere;
    return path.length === 2 ? (item.one ?? Nowhere) : item.page;
}
