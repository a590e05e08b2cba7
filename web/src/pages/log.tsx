// The operator log: who did what. It cannot be changed from here.
import { get } from "../client";
import type { Acts } from "../api";
import { useLive } from "../live";
import { place } from "../router";
import { Empty, Id, Name, PageHead, Show, Time, Turn, useTitle } from "../ui/basic";
import { Table } from "../ui/table";

export function ActLog() {
    useTitle("Operator log");
    const before = place.value.query.before;
    const view = useLive<Acts>("acts-" + (before ?? ""), (signal) => get<Acts>("v1/acts", { before, limit: 100 }, signal));
    return (
        <>
            <PageHead title="Operator log" sub={<span class="faint">What people did to tasks, queues, schedules and limits, newest first.</span>} />
            <Show view={view} rows={12}>
                {({ acts, next }) =>
                    acts.length ? (
                        <>
                            <Table
                                rows={acts.map((act, i) => ({ ...act, row: `${act.at}-${i}` }))}
                                id={(act) => act.row}
                                label="operator log"
                                columns={[
                                    { title: "When", cell: (act) => <Time at={act.at} /> },
                                    { title: "Who", cell: (act) => <Name text={act.who} /> },
                                    { title: "What", cell: (act) => <code class="code">{act.action}</code> },
                                    { title: "Task", cell: (act) => act.id && <Id id={act.id} /> },
                                    { title: "Detail", class: "grow", cell: (act) => <Name text={act.detail} empty="" /> },
                                ]}
                            />
                            <Turn next={next} name="before" more="Older" />
                        </>
                    ) : (
                        <Empty title="Nobody has done anything yet" icon="log">
                            Cancelling, retrying, pausing, limiting and changing schedules leave a line here.
                        </Empty>
                    )
                }
            </Show>
        </>
    );
}
