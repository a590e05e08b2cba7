// A store with something of everything in it, made by a real server, the command line and workers.

export async function seed(server) {
    const task = (body) => server.api("POST", "v1/tasks", body).then((receipt) => receipt.id);
    const ids = {};
    ids.pending = await task({ type: "report.build", queue: "reports", key: "report:7", payload: { month: "2026-10", rows: 9007199254740993n.toString() } });
    ids.scheduled = await task({ type: "email.send", queue: "mail", delay: "2h", tenant: "acme", payload: { to: "ann@example.org" } });
    ids.cancelled = await task({ type: "email.send", queue: "mail", delay: "1h" });
    await server.api("POST", `v1/tasks/${ids.cancelled}/cancel`);

    // Failures of several kinds, and successes.
    const bad = [
        ["webhook.call", "POST https://hooks.example.org/orders answered 503", 5],
        ["webhook.call", "could not resolve hooks.example.org", 2],
        ["email.send", "550 no such mailbox <user81723@example.org>", 4],
    ];
    for (const [type, , count] of bad) await server.api("POST", "v1/tasks/bulk", Array.from({ length: count }, (_, i) => ({ type, queue: "flaky", max_attempts: 1, payload: { order: 10000 + i } })));
    await server.api("POST", "v1/tasks/bulk", Array.from({ length: 12 }, (_, i) => ({ type: "email.send", queue: "good", payload: { to: `user${i}@example.org` } })));
    for (const [type, error] of bad) await server.work("flaky", ["sh", "-c", `echo connecting >&2; echo "${error}" >&2; exit 65`], "--type", type);
    await server.work("good", ["sh", "-c", 'echo sent >&2; echo "{\\"accepted\\":true}"']);
    const dead = (await server.api("GET", "v1/dead?limit=100")).tasks;
    ids.failed = dead[0].id;
    ids.succeeded = (await server.api("GET", "v1/tasks?state=succeeded&limit=1")).tasks[0].id;

    // Attempts that are tried again.
    ids.retrying = await task({ type: "webhook.call", queue: "again", max_attempts: 5 });
    await server.work("again", ["sh", "-c", "echo busy >&2; exit 1"]);

    // Limits.
    await server.api("PUT", "v1/limits/email.send", { permits: 15, period: "1m" });
    await server.api("PUT", "v1/limits/email.send?key=acme", { permits: 100, period: "1m", burst: 20 });
    await server.api("PUT", "v1/concurrency/reports?scope=queue", { most: 4 });
    await server.api("POST", "v1/queues/archive/pause");

    // Schedules: one with a history.
    await server.api("PUT", "v1/schedules/nightly-report", { cron: "0 3 * * MON-FRI", zone: "Europe/Berlin", type: "report.build", queue: "reports", payload: { kind: "nightly" } });
    await server.api("PUT", "v1/schedules/heartbeat", { every: "15m", type: "ping" });
    await server.api("PUT", "v1/schedules/yearly", { cron: "0 0 1 1 *", type: "archive.year", disabled: true });

    // Hooks, if the server has them: one that is told, one that is not.
    if (server.options.includes("--hooks")) {
        await server.api("PUT", "v1/hooks/billing", { url: "https://billing.example.org/pawl", events: ["succeeded", "failed"], type: "invoice.send" });
        await server.api("PUT", "v1/hooks/pager", { url: "https://pager.example.org/v2/enqueue", events: ["failed"], disabled: true });
    }

    // A batch with a task for its end, and a chain.
    const batch = await server.api("POST", "v1/batches", { name: "import-42", on_finished: { type: "import.report", queue: "imports" } });
    ids.batch = batch.id;
    await server.api("POST", "v1/tasks/bulk", Array.from({ length: 6 }, (_, i) => ({ type: "import.rows", queue: i < 4 ? "imports" : "later", batch: batch.id, payload: { part: i } })));
    await server.work("imports", ["true"], "--type", "import.rows");
    ids.parent = await task({ type: "extract", queue: "etl", delay: "1h" });
    ids.middle = await task({ type: "transform", queue: "etl", parents: [ids.parent] });
    ids.child = await task({ type: "load", queue: "etl", parents: [ids.middle, batch.id], if_failed: "hold" });
    return ids;
}
