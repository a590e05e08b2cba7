#!/usr/bin/env node
// scale.mjs LIVE HISTORY SECONDS: with so many tasks waiting and so many in the history, every page can be used within a second and no answer of
// the server takes more than 200 ms; and for so many seconds of a thousand tasks a second, the open pages do not grow.
import { spawn } from "node:child_process";
import { checks, FACTOR, main, open, PAWL, silent, that, until } from "./lib.mjs";

const [LIVE, HISTORY, SECONDS] = [20000, 60000, 4].map((small, i) => Number(process.argv[2 + i] ?? small));
const PAGE_MS = 1000 * FACTOR;
const ANSWER_MS = 200 * FACTOR;

const bench = (server, ...options) =>
    new Promise((done, fail) => {
        const child = spawn(PAWL, ["bench", "--store", server.store, ...options], { cwd: server.folder, stdio: "ignore" });
        child.once("exit", (code) => (code === 0 ? done() : fail(new Error(`pawl bench ended with ${code}`))));
        server.bench = child;
    });

const PAGES = ["#/overview?window=7d", "#/tasks", "#/tasks?state=pending", "#/tasks?state=succeeded", "#/tasks?state=failed", "#/tasks?type=none", "#/tasks?q=nothing", "#/failures", "#/dead", "#/queues", "#/schedules", "#/batches", "#/limits", "#/nodes", "#/log"];

async function speed(server) {
    const page = await open(server, "#/settings");
    await page.getByText("OpenAPI").waitFor();
    for (const where of PAGES) {
        await page.evaluate(() => performance.clearResourceTimings());
        const took = await page.evaluate(
            (where) =>
                new Promise((done) => {
                    const begun = performance.now();
                    const look = () => {
                        const shown = document.querySelector("main tbody tr, main .empty") && !document.querySelector("main .skeleton, main .tile.bone");
                        if (shown) requestAnimationFrame(() => done(performance.now() - begun));
                        else requestAnimationFrame(look);
                    };
                    addEventListener("hashchange", () => setTimeout(() => requestAnimationFrame(look)), { once: true });
                    location.hash = where;
                }),
            where,
        );
        const slow = await page.evaluate(() => performance.getEntriesByType("resource").filter((one) => !one.name.endsWith("/v1/events")).map((one) => [one.name.replace(/.*\/v1/, "v1"), Math.round(one.responseStart - one.requestStart)]).sort((a, b) => b[1] - a[1])[0]);
        if (process.env.VERBOSE) console.log(where, Math.round(took), "ms, slowest answer", slow);
        that(`${where} within ${PAGE_MS} ms`, took < PAGE_MS, `${Math.round(took)} ms`);
        that(`${where}: no answer over ${ANSWER_MS} ms`, !slow || slow[1] < ANSWER_MS, JSON.stringify(slow));
    }
    silent(page, "speed");
    await page.context().close();
}

async function heap(page) {
    const session = await page.context().newCDPSession(page);
    await session.send("HeapProfiler.enable");
    await session.send("HeapProfiler.collectGarbage");
    await session.send("Performance.enable");
    const { metrics } = await session.send("Performance.getMetrics");
    await session.detach();
    const value = (name) => metrics.find((one) => one.name === name).value;
    return { bytes: value("JSHeapUsedSize"), nodes: value("Nodes"), listeners: value("JSEventListeners") };
}

async function memory(server) {
    const pages = [await open(server, "#/overview"), await open(server, "#/tasks")];
    const events = new Map();
    for (const page of pages) {
        await until("live", async () => (await page.getByTestId("live").getAttribute("data-live")) === "live");
        page.on("response", () => events.set(page, (events.get(page) ?? 0) + 1));
    }
    const work = bench(server, "--mode", "latency", "--rate", "1000", "--tasks", String(1000 * (SECONDS + 4)));
    const rest = (ms) => new Promise((done) => setTimeout(done, ms));
    await rest(3000); // what is made once is there
    const before = await Promise.all(pages.map(heap));
    await rest(SECONDS * 1000);
    const after = await Promise.all(pages.map(heap));
    await work;
    pages.forEach((page, i) => {
        const grown = after[i].bytes - before[i].bytes;
        if (process.env.VERBOSE) console.log(page.url(), before[i], after[i], events.get(page));
        that("the page asked again all the while", events.get(page) >= Math.min(SECONDS / 3, 100), String(events.get(page)));
        that(`the page does not grow: ${page.url()}`, grown < 6e6 && after[i].nodes < before[i].nodes * 1.5 + 2000 && after[i].listeners < before[i].listeners * 1.5 + 200, { before: before[i], after: after[i] });
        silent(page, "memory");
    });
}

await main(async (make) => {
    const server = await make();
    await server.stop();
    await bench(server, "--mode", "look", "--tasks", "10", "--preload-history", String(HISTORY), "--preload-scheduled", String(Math.round(LIVE / 2)), "--backlog", String(Math.round(LIVE / 2)));
    await server.start();
    await speed(server);
    await memory(server);
    that("something was measured", checks.count > 20);
});
