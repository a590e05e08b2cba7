#!/usr/bin/env node
// What an operator does at three in the morning: why does it not run, what failed and how often, all of them again, many away, one followed while
// it runs; without a mouse, through a proxy, over plain HTTP, with a token that ends. And the pictures, and each page without its data.
// night.mjs PART...: only these parts.
import { readFileSync } from "node:fs";
import { createServer, request } from "node:http";
import { equal, main, open, silent, that, until } from "./lib.mjs";

const made = (server, body) => server.api("POST", "v1/tasks", body).then((receipt) => receipt.id);
const many = (server, count, body) => server.api("POST", "v1/tasks/bulk", Array.from({ length: count }, (_, i) => ({ max_attempts: 1, ...body(i) })));

// ---- why ------------------------------------------------------------------------------------------------------------------------

async function why(server) {
    const page = await open(server, "", { timezoneId: "Asia/Kolkata" });
    const says = page.getByTestId("why");
    const parent = await made(server, { type: "extract", queue: "held", delay: "1h" });
    const child = await made(server, { type: "load", queue: "held", parents: [parent] });
    await page.to(`#/tasks/${child}`);
    await says.getByRole("link", { name: parent }).click();
    await page.getByRole("heading", { name: parent }).waitFor();
    await says.getByText(/\d\d:\d\d:\d\d \+05:30/).waitFor();
    const stopped = await made(server, { type: "extract", queue: "stopped" });
    await server.api("POST", "v1/queues/stopped/pause");
    await page.to(`#/tasks/${stopped}`);
    await says.getByRole("link", { name: "Queues" }).click();
    await page.locator("tbody tr").filter({ hasText: "stopped" }).getByRole("button", { name: "Resume" }).click();
    await until("it goes on", () => !server.json("queues", "list").queues.find((one) => one.name === "stopped").paused);
    await page.goBack();
    await says.getByRole("link", { name: "Nodes" }).waitFor(); // nobody serves it
    silent(page, "why");
    await page.context().close();
}

// ---- failures of a kind -----------------------------------------------------------------------------------------------------------

async function kinds(server) {
    await many(server, 2, () => ({ type: "charge", queue: "bank" }));
    await many(server, 7, (i) => ({ type: "charge", queue: "pay", payload: 70000 + i }));
    await server.work("bank", ["sh", "-c", "echo the bank is away >&2; exit 65"]);
    await server.work("pay", ["sh", "-c", 'n=$(cat); echo "card $n was refused" >&2; exit 65']);
    const page = await open(server, "");
    // A page that has time for two of them.
    await page.route(/v1\/dead\?.*limit=1000/, async (route) => {
        const answer = await route.fetch({ url: route.request().url().replace("limit=1000", "limit=2") });
        await new Promise((done) => setTimeout(done, 200));
        await route.fulfill({ response: answer });
    });
    await page.to("#/failures");
    const row = page.locator("tbody tr").filter({ hasText: "card … was refused" });
    await row.waitFor();
    that("it says that there may be more", (await row.locator(".count").textContent()).endsWith("+"), await row.locator(".count").textContent());
    await row.getByRole("button", { name: "Retry" }).click();
    await page.getByTestId("bulk-count").filter({ hasText: "7 tasks" }).waitFor(); // those that were not looked at, too
    await page.getByRole("dialog").getByText("error “").waitFor();
    await page.getByTestId("bulk-what").getByText("7 of type charge").waitFor();
    await page.keyboard.press("Escape");
    await row.getByRole("link", { name: "card … was refused" }).click();
    await until("a list of them", async () => page.url().includes("q=") && (await page.locator("tbody tr").count()) === 7);
    equal("its words stand in the filter", await page.getByLabel("search", { exact: true }).inputValue(), "exit status card was refused");
    await page.getByRole("button", { name: "Retry all…" }).click();
    await page.getByTestId("bulk-count").filter({ hasText: "7 tasks" }).waitFor();
    await page.keyboard.press("Enter"); // what destroys nothing has the focus
    await page.getByTestId("bulk-result").filter({ hasText: "7 retried, of 7" }).waitFor();
    await page.keyboard.press("Escape");
    equal("seven run again", server.json("tasks", "list", "--type", "charge", "--state", "pending").tasks.length, 7);
    await page.getByText("No dead letter matches").waitFor();
    silent(page, "kinds");
    await page.context().close();
}

// ---- many at a time -----------------------------------------------------------------------------------------------------------------

async function away(server) {
    const COUNT = 2600;
    for (let at = 0; at < COUNT; at += 650) await many(server, 650, (i) => ({ type: i % 2 ? "odd" : "even", queue: "flood", delay: "1h" }));
    const page = await open(server, "#/tasks?queue=flood");
    await page.getByRole("button", { name: "Cancel all…" }).click();
    await page.getByTestId("bulk-count").filter({ hasText: "2,600 tasks" }).waitFor();
    equal("it says of what", await page.getByTestId("bulk-what").locator("li").allTextContents(), ["1,300 of type odd", "1,300 of type even"]);
    that("what takes many away is not where the keyboard is", !(await page.getByTestId("confirm").evaluate((one) => one === document.activeElement)));
    const gone = server.json("tasks", "list", "--queue", "flood", "--limit", "1").tasks[0].id;
    server.cli("tasks", "cancel", gone); // somebody else was there first
    await page.getByTestId("confirm").click();
    await page.getByTestId("bulk-result").filter({ hasText: "of 2,600" }).waitFor();
    await page.getByText("What became of each").click();
    await page.getByText("2,600 tasks").or(page.getByText(/and 2,\d+ more, all of them in the file/)).waitFor();
    const [file] = await Promise.all([page.waitForEvent("download"), page.getByRole("button", { name: "Save the results" }).click()]);
    const lines = readFileSync(await file.path(), "utf8").trim().split("\n").map((line) => line.split("\t"));
    equal("a line for each", [lines.length, new Set(lines.map(([id]) => id)).size], [COUNT, COUNT]);
    equal("in the store", server.json("tasks", "list", "--queue", "flood", "--state", "scheduled", "--limit", "1").tasks, []);
    await page.getByRole("button", { name: "Close", exact: true }).click();

    // A page deep in a list, opened by its link.
    await page.getByTestId("next").click();
    await until("a cursor", () => page.url().includes("cursor="));
    const deep = await open(server, page.url().slice(server.url.length));
    await deep.locator("tbody tr").first().waitFor();
    await deep.getByTestId("first").click();
    await until("the beginning", async () => !deep.url().includes("cursor=") && (await deep.locator("tbody tr").first().getAttribute("data-row")) === gone);
    await deep.context().close();

    // A question belongs to its page.
    await page.to("#/queues");
    await page.locator("tbody tr").first().getByRole("button", { name: "Pause" }).click();
    await page.getByRole("dialog").waitFor();
    await page.goBack();
    await until("it is gone with it", async () => !(await page.getByRole("dialog").count()));
    silent(page, "away");
    await page.context().close();
}

// ---- one that runs ------------------------------------------------------------------------------------------------------------------

// Progress is seen as it comes; a log when its attempt ends, and from its end.
async function follow(server) {
    const id = await made(server, { type: "slow", queue: "slow", max_attempts: 2 });
    const page = await open(server, `#/tasks/${id}`);
    await page.getByText("Nothing was logged").waitFor();
    const { worker } = await server.api("POST", "v1/workers", { name: "far-away", queues: ["slow"], types: ["slow"] });
    const { tasks } = await server.api("POST", `v1/workers/${worker}/claim`, { max: 1 });
    const held = { id, fence: tasks[0].fence };
    const renewing = setInterval(() => void server.api("POST", `v1/workers/${worker}/renew`, { held: [held] }).catch(() => {}), 3000);
    const report = (item) => server.api("POST", `v1/workers/${worker}/report`, { items: [{ ...held, ...item }] });
    await page.getByText("a program hands its log over when its attempt ends").waitFor();
    await report({ progress: 40, progress_text: "page 4 of 10", log: Array.from({ length: 60 }, (_, i) => `step ${i + 1}`) });
    await page.getByText("40 % page 4 of 10").waitFor();
    await page.getByTestId("why").getByText("Now").waitFor();
    await report({ outcome: "succeeded" });
    clearInterval(renewing);
    await page.locator(".pagehead [data-state=succeeded]").waitFor();
    await page.getByText("step 60", { exact: true }).waitFor();
    that("the newest line is seen", await page.locator(".log").evaluate((list) => list.scrollTop > 0 && list.scrollTop + list.clientHeight >= list.scrollHeight - 2));
    silent(page, "follow");
    await page.context().close();
}

// ---- without a mouse ------------------------------------------------------------------------------------------------------------------

async function fingers(server) {
    const page = await open(server, "#/settings");
    const press = async (...keys) => {
        for (const key of keys) await page.keyboard.press(key);
    };
    await page.getByRole("heading", { name: "Settings" }).waitFor();
    await press("g", "q");
    await page.locator("tbody tr").first().waitFor();
    await press("j", ".", "Enter");
    const name = await page.locator("tbody tr").first().getAttribute("data-row");
    await page.getByRole("dialog", { name: `Pause “${name}”?` }).waitFor();
    await press("Enter");
    await until("paused by keys", () => server.json("queues", "list").queues.find((one) => one.name === name).paused);
    await page.locator("tbody tr").first().getByRole("button", { name: "Resume" }).waitFor();
    await press("j", "k", ".", "Enter");
    await until("resumed by keys", () => !server.json("queues", "list").queues.find((one) => one.name === name).paused);
    const id = await made(server, { type: "by-keys", delay: "1h" });
    await press("/", ..."type:by-keys", "Enter");
    await page.getByRole("link", { name: id }).waitFor();
    await press("j", "x", "c");
    await page.getByTestId("bulk-count").waitFor();
    await press("Enter");
    await until("cancelled by keys", () => server.json("tasks", "show", id).state === "cancelled");
    silent(page, "fingers");
    await page.context().close();
}

// ---- what people would rather look at ---------------------------------------------------------------------------------------------------

// How many colours a chart has: one that is not drawn has one.
const colours = (chart) =>
    chart.locator("canvas").evaluate((canvas) => new Set(new Uint32Array(canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height).data.buffer)).size);

async function pictures(server) {
    const page = await open(server, "#/overview?window=15m");
    for (const label of ["throughput and failures per minute", "wait and run times, median and 99 per cent", "events of the last two minutes, per second", "unfinished tasks"]) {
        const chart = page.getByRole("img", { name: label });
        await chart.waitFor();
        that(`${label}: drawn`, (await colours(chart)) > 3, String(await colours(chart)));
    }
    await page.getByRole("img", { name: /tasks? wait/ }).first().waitFor(); // depth of a queue
    const id = await made(server, { type: "again", queue: "again", max_attempts: 3, payload: { deep: { one: 1.50, two: [1, 2] } } });
    await server.work("again", ["sh", "-c", "exit 65"]);
    await page.to(`#/tasks/${id}`);
    const tries = server.json("tasks", "show", id).attempts.length;
    await page.getByRole("img", { name: /attempts? in/ }).waitFor();
    equal("a bar for each attempt", await page.locator(".timeline rect:not(.track)").count(), tries);
    await page.locator(".json").getByText("two").waitFor();
    await page.locator(".json").getByRole("button", { name: "deep" }).click();
    await until("folded", async () => !(await page.locator(".json").getByText("two").count()));

    await server.api("PUT", "v1/schedules/beat", { every: "1h", type: "beat", overlap: "allow" });
    for (let i = 0; i < 3; i++) await server.api("POST", "v1/schedules/beat/run", {});
    await page.to("#/schedules/beat");
    await page.getByRole("img", { name: /the last 3 occurrences/ }).waitFor();
    await page.locator(".heat rect").last().click();
    await until("a square leads to its task", () => /tasks\/[0-9A-Z]{13}$/.test(page.url()));

    await server.api("PUT", "v1/limits/mail", { permits: 2, period: "1h" });
    await many(server, 3, () => ({ type: "mail", queue: "mail", rate_key: "acme" }));
    await server.work("mail", ["true"]);
    await page.to("#/limits");
    await page.getByRole("img", { name: "0 of 2 starts left" }).waitFor();
    await page.locator("tbody tr").filter({ hasText: "acme" }).locator("[data-state=throttled]").waitFor();

    const first = await made(server, { type: "one", queue: "chain", delay: "1h" });
    const second = await made(server, { type: "two", queue: "chain", parents: [first] });
    await page.to(`#/tasks/${second}`);
    await page.locator(".graph .edge").first().waitFor();
    equal("an arrow between two", [await page.locator(".graph .node").count(), await page.locator(".graph .edge").count()], [2, 1]);
    await page.locator(".graph .node").filter({ hasText: "one" }).click();
    await page.getByRole("heading", { name: first }).waitFor();
    silent(page, "pictures");
    await page.context().close();
}

// ---- each page without its data -----------------------------------------------------------------------------------------------------------

const PAGES = ["overview", "tasks", "tasks/06W6DC8TW0400", "failures", "dead", "queues", "schedules", "schedules/x", "batches", "batches/06W6DC8TW0400", "limits", "limits?tab=running", "nodes", "hooks", "log"];

async function without(server) {
    const page = await open(server, "#/settings");
    let answer = null;
    await page.route(/\/v1\/(?!session|events)/, (route) => {
        if (!answer) return; // never
        return route.fulfill({ status: answer, contentType: "application/problem+json", body: '{"type":"x","detail":"so it is"}' });
    });
    for (const where of PAGES) {
        for (const [status, text] of [[null, null], [503, "Could not be loaded"], [403, "Not allowed"]]) {
            answer = status;
            await page.to("#/nowhere");
            await page.getByText("There is no such page").waitFor();
            await page.to("#/" + where);
            const sign = text ? page.locator("main").getByText(text) : page.locator("main .skeleton, main .bone");
            await sign.first().waitFor();
            that(`${where} ${status}: nothing else`, !(await page.locator("main [data-row]").count()));
        }
    }
    silent(page, "without");
    await page.context().close();
}

// ---- ways in ------------------------------------------------------------------------------------------------------------------------------

// A proxy that takes its path away: the server never hears of it.
async function proxied(server) {
    const proxy = createServer((ask, answer) => {
        const to = request({ port: server.port, host: "127.0.0.1", path: ask.url.replace(/^\/deep\/down/, ""), method: ask.method, headers: ask.headers }, (got) => {
            answer.writeHead(got.statusCode, got.headers);
            got.pipe(answer);
        });
        answer.on("close", () => to.destroy());
        to.on("error", () => answer.destroy());
        ask.pipe(to);
    });
    await new Promise((done) => proxy.listen(0, "127.0.0.1", done));
    const page = await open({ url: `http://127.0.0.1:${proxy.address().port}/deep/down/` }, "#/tasks");
    await until("live behind it", async () => (await page.getByTestId("live").getAttribute("data-live")) === "live");
    const id = await made(server, { type: "proxied", delay: "1h" });
    await page.getByRole("link", { name: id }).click();
    await page.getByTestId("cancel").click();
    await page.getByTestId("confirm").click();
    await until("cancelled through it", () => server.json("tasks", "show", id).state === "cancelled");
    silent(page, "proxied");
    await page.context().close();
    proxy.close();
    proxy.closeAllConnections();
}

// Over plain HTTP a browser has no clipboard for pages.
async function plain(server) {
    const id = await made(server, { type: "copied", delay: "1h" });
    const page = await open(server, "#/settings");
    await page.addInitScript(() => {
        Object.defineProperty(navigator, "clipboard", { value: undefined });
        document.addEventListener("copy", () => (globalThis.copied = document.activeElement.value));
    });
    await page.goto(server.url + "#/settings");
    await page.reload();
    await page.to(`#/tasks/${id}`);
    await page.getByRole("button", { name: `copy id ${id}` }).first().click();
    await page.getByText(`copied ${id}`).waitFor();
    equal("copied all the same", await page.evaluate(() => globalThis.copied), id);
    silent(page, "plain");
    await page.context().close();
}

// A token that ends while its page is open: one logs in again, and is where one was.
async function ended(server) {
    const token = server.token("ann", "--scope", "read");
    const other = server.token("bob", "--scope", "read");
    server.process.kill("SIGHUP");
    const page = await open(server, "#/queues");
    await until("the tokens are read", async () => (await page.getByLabel("Token").count()) || void (await page.reload()));
    await page.getByLabel("Token").fill(token);
    await page.keyboard.press("Enter");
    await page.getByRole("heading", { name: "Queues" }).waitFor();
    server.tokens("rm", "ann");
    server.process.kill("SIGHUP");
    await page.getByLabel("Token").fill(other);
    await page.keyboard.press("Enter");
    await page.getByRole("heading", { name: "Queues" }).waitFor();
    await page.locator(".who").getByText("bob").waitFor();
    silent(page, "ended");
    await page.context().close();
}

await main(async (make) => {
    const server = await make({ options: ["--hooks", "hooks.json"] });
    const parts = [why, kinds, away, follow, fingers, pictures, without, proxied, plain, ended];
    for (const part of parts) if (process.argv.length < 3 || process.argv.includes(part.name)) await part(server);
});
