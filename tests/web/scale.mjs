#!/usr/bin/env node
// scale.mjs [LIVE HISTORY SECONDS [STORE]]: with so many tasks waiting and so many in the history, every page can be used within a second and
// no answer of the server takes more than 200 ms, at rest and while a thousand tasks a second go through; and for so many seconds of that, the
// open pages do not grow.
//
// With STORE (the URL of one that is empty, or that an earlier run has filled) it is filled once and stays; 0 SECONDS: only that. VERBOSE=1 shows
// every time.
import { spawn } from "node:child_process";
import { checks, FACTOR, main, open, PAWL, silent, that, until } from "./lib.mjs";
import { seed } from "./seed.mjs";

const [LIVE, HISTORY, SECONDS] = [20000, 60000, 4].map((small, i) => Number(process.argv[2 + i] ?? small));
const STORE = process.argv[5];
const PAGE_MS = 1000 * FACTOR;
const ANSWER_MS = 200 * FACTOR;
const MARK = "scale.filled"; // a queue that is there when the store is

const say = (...words) => process.env.VERBOSE && console.log(new Date().toISOString().slice(11, 19), ...words);

const bench = (server, ...options) =>
    new Promise((done, fail) => {
        const child = spawn(PAWL, ["bench", "--store", server.store, ...options], { cwd: server.folder, stdio: ["ignore", "ignore", "pipe"] });
        let text = "";
        child.stderr.on("data", (data) => (text = (text + data).slice(-2000)));
        child.once("close", (code) => (code === 0 ? done() : fail(new Error(`pawl bench ended with ${code}: ${text}`))));
    });

// ---- filling ------------------------------------------------------------------------------------------------------------------

const ERRORS = ["connection reset by peer", "550 no such mailbox", "disk quota exceeded", "POST https://hooks.example.org/orders answered 503", "timeout after 30 s"];

async function bulk(server, count, one) {
    for (let at = 0; at < count; at += 1000) await server.api("POST", "v1/tasks/bulk", Array.from({ length: Math.min(1000, count - at) }, (_, i) => one(at + i)));
}

// Dead letters of many kinds, by a remote worker that can do nothing right.
async function failures(server, count) {
    await bulk(server, count, (i) => ({ type: `fails.${i % 40}`, queue: "fails", tenant: `tenant-${i % 50}`, max_attempts: 1, payload: { order: i } }));
    const { worker } = await server.api("POST", "v1/workers", { name: "clumsy", queues: ["fails"] });
    for (let done = 0; done < count; ) {
        const { tasks } = await server.api("POST", `v1/workers/${worker}/claim`, { max: 500 });
        const items = tasks.map((task, i) => ({ id: task.id, fence: task.fence, outcome: "failed", error: `${ERRORS[i % ERRORS.length]}, order ${task.payload.order}` }));
        await server.api("POST", `v1/workers/${worker}/report`, { items });
        done += tasks.length;
    }
    await server.api("DELETE", `v1/workers/${worker}`);
}

// What waits: half of it due in queues that nobody serves, half of it for weeks; rate keys with and without waiting tasks.
async function waiting(server) {
    await server.api("PUT", "v1/limits/mail.0", { permits: 5, period: "1m", no_horizon: true });
    await bulk(server, Math.round(LIVE / 2), (i) => ({ type: `mail.${i % 20}`, queue: `crowd-${i % 60}`, tenant: `tenant-${i % 50}`, key: i % 10 ? undefined : `key-${i}`, rate_key: i % 20 ? undefined : `customer-${i % 5000}`, payload: { n: i } }));
}

async function fill(server) {
    say("filling", server.store);
    await seed(server);
    await failures(server, Math.min(HISTORY / 100, 20000));
    say("dead letters are there");
    await waiting(server);
    say("what waits is there");
    await server.stop();
    await bench(server, "--mode", "full", "--tasks", "10", "--preload-history", String(HISTORY), "--preload-scheduled", String(Math.round(LIVE / 2)));
    await server.start();
    for (let i = 0; i < 3; i++) await server.api("POST", "v1/batches", { name: `late-${i}` });
    await server.api("POST", `v1/queues/${MARK}/pause`);
    say("the history is there");
}

// ---- pages --------------------------------------------------------------------------------------------------------------------

async function places(server) {
    const one = async (path, list) => (await server.api("GET", path))[list][0].id;
    const [done, failed, live, batch] = await Promise.all([one("v1/tasks?state=succeeded&limit=1&oldest_first=true", "tasks"), one("v1/dead?limit=1", "tasks"), one("v1/tasks?state=pending&limit=1", "tasks"), one("v1/batches", "batches")]);
    const lists = ["", "state=pending", "state=scheduled", "state=running", "state=retrying", "state=cancelled", "state=succeeded", "state=failed", "state=failed&order=oldest", "type=mail.7", "type=none", "queue=crowd-3", "tenant=tenant-7", "key=key-40", "queue=imports&state=succeeded", "q=nothing", "q=mailbox", "q=transform&order=oldest"];
    const pages = ["overview", "overview?window=15m", "overview?window=24h", "overview?window=7d", "failures", "dead", "dead?type=fails.7", "queues", "schedules", "schedules/nightly-report", "batches", `batches/${batch}`, "limits", "limits?tab=running", "nodes", "nodes?all=yes", "hooks", "log", "settings"];
    return [...lists.map((query) => "tasks" + (query && "?" + query)), ...[done, failed, live].map((id) => `tasks/${id}`), ...pages].map((where) => "#/" + where);
}

// From the click to everything that it shows, in the page's own clock.
const reach = (page, where) =>
    page.evaluate(
        (where) =>
            new Promise((done) => {
                const begun = performance.now();
                const look = () => {
                    const shown = document.querySelector("main h1") && document.querySelector("main :is(tbody tr, .empty, .facts)") && !document.querySelector("main :is(.skeleton, .bone)");
                    if (shown) requestAnimationFrame(() => done(performance.now() - begun));
                    else requestAnimationFrame(look);
                };
                addEventListener("hashchange", () => setTimeout(() => requestAnimationFrame(look)), { once: true });
                location.hash = where;
            }),
        where,
    );

// The longest that the server took for any answer since the last time.
const slowest = (page) =>
    page.evaluate(() => {
        const all = performance.getEntriesByType("resource").filter((one) => one.responseStart && !/\/v1\/events/.test(one.name));
        performance.clearResourceTimings();
        return all.map((one) => [one.name.replace(/.*?\/\/[^/]*\//, ""), Math.round(one.responseStart - one.requestStart)]).sort((a, b) => b[1] - a[1])[0];
    });

async function speed(server, what) {
    const page = await open(server, "#/tasks?type=none");
    await page.locator("main .empty").waitFor();
    await slowest(page);
    for (const where of await places(server)) {
        const took = await reach(page, where);
        const slow = await slowest(page);
        say(what, where, Math.round(took), "ms, slowest answer", slow);
        that(`${what} ${where} within ${PAGE_MS} ms`, took < PAGE_MS, `${Math.round(took)} ms, ${JSON.stringify(slow)}`);
        that(`${what} ${where}: no answer over ${ANSWER_MS} ms`, !slow || slow[1] < ANSWER_MS, JSON.stringify(slow));
    }
    silent(page, "speed");
    await page.context().close();
}

// ---- memory -------------------------------------------------------------------------------------------------------------------

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

const rest = (ms) => new Promise((done) => setTimeout(done, ms));

async function watched(server, where) {
    const page = await open(server, where);
    await until("live", async () => (await page.getByTestId("live").getAttribute("data-live")) === "live");
    page.asked = 0;
    page.on("response", () => page.asked++);
    return page;
}

async function memory(server) {
    const pages = [];
    for (const where of ["#/overview", "#/tasks", "#/queues"]) pages.push(await watched(server, where));
    const work = bench(server, "--mode", "latency", "--rate", "1000", "--tasks", String(1000 * (SECONDS + (SECONDS < 30 ? 4 : 40))));
    await rest(3000); // what is made once is there
    if (SECONDS >= 30) await speed(server, "busy");
    const before = await Promise.all(pages.map(heap));
    const end = Date.now() + SECONDS * 1000;
    for (let left = end - Date.now(); left > 0; left = end - Date.now()) {
        await rest(Math.min(left, 60000));
        for (const page of pages) {
            const slow = await slowest(page);
            say(page.url(), await heap(page), "slowest answer", slow);
            that(`no answer over ${ANSWER_MS} ms while it is busy`, !slow || slow[1] < ANSWER_MS, JSON.stringify(slow));
        }
    }
    const after = await Promise.all(pages.map(heap));
    await work;
    pages.forEach((page, i) => {
        const grown = after[i].bytes - before[i].bytes;
        say(page.url(), before[i], after[i], page.asked);
        that("the page asked again all the while", page.asked >= Math.min(SECONDS / 3, 100), String(page.asked));
        that(`the page does not grow: ${page.url()}`, grown < 6e6 && after[i].nodes < before[i].nodes * 1.5 + 2000 && after[i].listeners < before[i].listeners * 1.5 + 200, { before: before[i], after: after[i] });
        silent(page, "memory");
    });
}

await main(async (make) => {
    const server = await make(STORE ? { store: STORE } : {});
    const { queues } = await server.api("GET", "v1/queues");
    if (!queues.some((queue) => queue.name === MARK)) await fill(server);
    if (SECONDS === 0) return void that("filled", true);
    await speed(server, "calm");
    await memory(server);
    that("something was measured", checks.count > 20);
});
