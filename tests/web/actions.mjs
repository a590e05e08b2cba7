#!/usr/bin/env node
// Every action: done in the browser, looked up in the store by the command line.
import { readFileSync } from "node:fs";
import { createServer } from "node:http";
import { equal, main, open, silent, that, until } from "./lib.mjs";

let server, page;

const ok = async () => page.getByTestId("confirm").click();
const row = (text) => page.locator("tbody tr").filter({ hasText: text });
const shown = (id) => server.json("tasks", "show", id);
const made = (body) => server.api("POST", "v1/tasks", body).then((receipt) => receipt.id);

async function go(where, text) {
    await page.to(where);
    await page.locator("main").getByText(text).first().waitFor();
}

async function newTask() {
    await go("#/tasks", "No tasks yet");
    await page.keyboard.press("n");
    const dialog = page.getByRole("dialog");
    await dialog.getByLabel("Type").fill("form.made");
    await dialog.getByLabel("Queue").fill("forms");
    await dialog.getByLabel("Priority").fill("-3");
    await dialog.getByLabel("Delay").fill("2h");
    await dialog.getByLabel(/Payload/).fill('{"n": 12345678901234567890');
    that("half a value is not sent", await page.getByTestId("confirm").isDisabled());
    await dialog.getByLabel(/Payload/).fill('{"n": 12345678901234567890, "m": 1.50, "password": "p"}');
    await ok();
    await until("its page", () => /tasks\/[0-9A-Z]{13}/.test(page.url()));
    const id = page.url().split("/").at(-1);
    const task = shown(id);
    equal("as it was typed", [task.type, task.queue, task.priority, task.display, task.created_by], ["form.made", "forms", -3, "scheduled", "local"]);
    that("numbers keep their digits", server.cli("tasks", "show", id, "--json").includes('{"n": 12345678901234567890, "m": 1.50, "password": '));
    await page.getByText("12345678901234567890").waitFor();
    await page.getByText("1.50").waitFor();
    await page.getByTestId("clone").click();
    await page.getByRole("dialog").getByLabel("Queue").fill("clones");
    that("a secret that is not shown is not copied", await page.getByTestId("confirm").isDisabled());
    await page.getByRole("dialog").getByLabel(/Payload/).fill('{"n": 12345678901234567890, "m": 1.50}');
    await ok();
    await until("the clone's page", () => !page.url().includes(id));
    const clone = page.url().split("/").at(-1);
    equal("a clone", [shown(clone).type, shown(clone).queue], ["form.made", "clones"]);
    that("with the same digits", /12345678901234567890/.test(server.cli("tasks", "show", clone, "--json")) && /1\.50/.test(server.cli("tasks", "show", clone, "--json")));
}

async function bulk() {
    const many = (type, count) => server.api("POST", "v1/tasks/bulk", Array.from({ length: count }, () => ({ type, queue: "bulk", max_attempts: 1, delay: type === "wait" ? "1h" : undefined })));
    await many("wait", 130);
    await go("#/tasks?type=wait", "wait");
    await until("a page", async () => (await page.locator("tbody tr").count()) === 50);
    await page.locator("tbody tr input").nth(0).click();
    await page.locator("tbody tr input").nth(1).click();
    await page.getByText("2 selected").waitFor();
    await page.keyboard.press("c");
    await page.getByTestId("bulk-count").filter({ hasText: "2 tasks" }).waitFor();
    await ok();
    await page.getByTestId("bulk-result").filter({ hasText: "2 cancelled, of 2" }).waitFor();
    equal("two of them", server.json("tasks", "list", "--type", "wait", "--state", "cancelled", "--limit", "500").tasks.length, 2);
    await page.keyboard.press("Escape");
    await page.getByRole("button", { name: "Cancel all…" }).click();
    await page.getByTestId("bulk-count").filter({ hasText: "128 tasks" }).waitFor(); // those that can be
    await ok();
    await page.getByTestId("bulk-result").filter({ hasText: "128 cancelled, of 128" }).waitFor();
    equal("all of them", server.json("tasks", "list", "--type", "wait", "--state", "cancelled", "--limit", "500").tasks.length, 130);
    await page.keyboard.press("Escape");

    await many("bad", 6);
    await many("worse", 3);
    await server.work("bulk", ["sh", "-c", "echo broken pipe >&2; exit 65"]);
    await go("#/dead", "worse");
    await row("worse").first().locator("input").click();
    await page.keyboard.press("a");
    await page.getByLabel(/Why nothing/).fill("noted");
    await ok();
    await page.getByTestId("bulk-result").filter({ hasText: "1 acknowledged" }).waitFor();
    await page.keyboard.press("Escape");
    equal("one letter less", server.json("dead", "list").tasks.length, 8);
    await go("#/dead?type=worse", "worse");
    await page.getByRole("button", { name: "Retry all…" }).click();
    await page.getByTestId("bulk-count").filter({ hasText: "2 tasks" }).waitFor();
    await ok();
    await page.getByTestId("bulk-result").filter({ hasText: "2 retried" }).waitFor();
    await page.getByText("What became of each").click();
    equal("an answer for each", await page.locator(".results tr").count(), 2);
    await page.keyboard.press("Escape");
    equal("run again", server.json("tasks", "list", "--type", "worse", "--state", "pending").tasks.length, 2);
    await go("#/failures", "bad");
    await row("bad").getByRole("button", { name: "Acknowledge" }).click();
    await page.getByTestId("bulk-count").filter({ hasText: "6 tasks" }).waitFor();
    await ok();
    await page.getByTestId("bulk-result").filter({ hasText: "6 acknowledged" }).waitFor();
    await page.keyboard.press("Escape");
    equal("none are left", server.json("dead", "list").tasks, []);
    await page.getByText("Nothing has failed for good").waitFor();
}

async function search() {
    const needle = await made({ type: "hay", queue: "stack", payload: { note: "a Needle" }, delay: "1h" });
    await server.api("POST", "v1/tasks/bulk", Array.from({ length: 60 }, (_, n) => ({ type: "hay", queue: "stack", payload: { n }, delay: "1h" })));
    await go("#/tasks", "hay");
    await page.keyboard.press("/");
    await page.keyboard.type("needle queue:stack\n");
    await page.getByText("1 found: that is all").waitFor();
    equal("what has the word", await page.locator("tbody tr").count(), 1);
    await page.getByRole("button", { name: "Cancel all…" }).click();
    await page.getByTestId("bulk-count").filter({ hasText: "1 task" }).waitFor();
    await ok();
    await page.getByTestId("bulk-result").filter({ hasText: "1 cancelled, of 1" }).waitFor();
    await page.keyboard.press("Escape");
    equal("and nothing else", [shown(needle).state, server.json("tasks", "list", "--search", "hay", "--state", "scheduled", "--limit", "500").tasks.length], ["cancelled", 60]);
    await go("#/tasks?q=hay&state=scheduled", "50 found so far");
    await page.getByRole("button", { name: "Look further" }).click();
    await page.getByText("10 found: that is all").waitFor();
    await page.goBack();
    await page.getByText("50 found so far").waitFor();
    await go(`#/tasks?q=${needle.slice(0, 9)}`, needle);
}

async function logs() {
    const failed = server.json("tasks", "list", "--type", "bad", "--state", "failed").tasks[0].id;
    await go(`#/tasks/${failed}`, "broken pipe");
    const [file] = await Promise.all([page.waitForEvent("download"), page.getByRole("button", { name: "Export" }).click()]);
    const text = readFileSync(await file.path(), "utf8");
    that("the log as a file", file.suggestedFilename() === failed + ".log" && text.includes("broken pipe"), text);
    await page.getByRole("button", { name: "error", exact: true }).click();
    await until("the level is in the address", () => page.url().includes("level=error"));
}

async function queues() {
    const queue = () => server.json("queues", "list").queues.find((one) => one.name === "bulk");
    await go("#/queues", "bulk");
    await row("bulk").getByRole("button", { name: "Pause" }).click();
    await ok();
    await until("paused in the store", () => queue().paused);
    await row("bulk").getByRole("button", { name: "Resume" }).click();
    await until("open in the store", () => !queue().paused);
    await row("bulk").getByRole("button", { name: "Limit" }).click();
    await page.getByLabel(/Tasks at a time/).fill("3");
    await ok();
    await row("bulk").getByRole("cell", { name: "0/3", exact: true }).waitFor();
    equal("limited in the store", server.json("limits", "list").concurrency.map((one) => [one.scope, one.name, one.most]), [["queue", "bulk", 3]]);
    await go("#/limits?tab=running", "bulk");
    await row("bulk").getByRole("button", { name: "Edit" }).click();
    await page.getByLabel(/Tasks at a time/).fill("");
    await ok();
    await page.getByText("No concurrency limit").waitFor();
    await page.keyboard.press("n");
    await page.locator("[name=place-scope]").selectOption("key");
    await page.getByLabel("Type", { exact: true }).fill("email.send");
    await page.getByLabel(/Tasks at a time/).fill("2");
    await ok();
    await row("email.send").waitFor();
    equal("of each key", server.json("limits", "list").concurrency.map((one) => [one.scope, one.name, one.most]), [["key", "email.send", 2]]);
    await row("email.send").getByRole("button", { name: "Edit" }).click();
    await page.getByLabel(/Tasks at a time/).fill("");
    await ok();
    await page.getByText("No concurrency limit").waitFor();
}

async function limits() {
    const limit = (key) => server.json("limits", "list").limits.find((one) => one.key === key);
    await go("#/limits", "No rate limit");
    await page.keyboard.press("n");
    await page.getByLabel("Type of task").fill("email.send");
    await page.getByLabel("Rate key", { exact: false }).fill("acme");
    await page.getByLabel("Starts", { exact: true }).fill("15");
    await ok();
    await row("acme").getByText("15 per minute").waitFor();
    equal("in the store", [limit("acme").permits, limit("acme").period_us], [15, 60000000]);
    await row("acme").getByRole("button", { name: "Edit" }).click();
    await page.getByLabel("Starts", { exact: true }).fill("30");
    await ok();
    await until("changed", () => limit("acme").permits === 30);
    await row("acme").getByRole("button", { name: "Pause" }).click();
    await ok();
    await until("paused", () => limit("acme").paused);
    await row("acme").getByRole("button", { name: "Resume" }).click();
    await until("goes on", () => !limit("acme").paused);
    await row("acme").getByRole("button", { name: "Remove" }).click();
    await ok();
    await until("gone", () => !limit("acme")?.own);
}

// A worker of its own process, drained by the page.
async function nodes() {
    const worker = server.worker("drains", ["true"], "--name", "worker-7");
    const node = () => server.json("nodes").nodes.find((one) => one.name === "worker-7");
    await until("a node", () => node());
    const first = await made({ type: "calm", queue: "drains" });
    await until("it runs what comes", () => shown(first).state === "succeeded");
    await go("#/nodes", "worker-7");
    await row("worker-7").getByRole("button", { name: "Drain" }).click();
    await page.getByRole("dialog").getByText("It serves drains").waitFor();
    await ok();
    await row("worker-7").locator("[data-state=draining]").waitFor();
    that("draining in the store", node().draining);
    await until("the worker has heard", () => worker.said().includes("asked to drain"));
    const second = await made({ type: "calm", queue: "drains" });
    await made({ type: "calm", queue: "elsewhere" }); // time passes: others commit, and are heard
    equal("nothing starts", shown(second).state, "pending");
    await row("worker-7").getByRole("button", { name: "Resume" }).click();
    await until("it starts again", () => shown(second).state === "succeeded");
    that("no longer draining", !node().draining);
    await worker.end();
}

async function hooks() {
    const got = [];
    const receiver = createServer((request, answer) => {
        got.push(request.url);
        request.resume();
        answer.writeHead(request.url === "/bad" ? 410 : 200).end();
    });
    await new Promise((done) => receiver.listen(0, "127.0.0.1", done));
    const url = `http://127.0.0.1:${receiver.address().port}`;
    const hook = async (name) => (await server.api("GET", "v1/hooks")).hooks.find((one) => one.name === name);
    await go("#/hooks", "No hook yet");
    await page.keyboard.press("n");
    await page.getByLabel("Name", { exact: true }).fill("billing");
    await page.getByLabel("Where to").fill(url + "/good");
    await ok();
    that("its secret is shown once", (await page.getByTestId("secret").textContent()).startsWith("whsec_"));
    await page.getByRole("button", { name: "Done" }).click();
    equal("it is there", [(await hook("billing")).url, (await hook("billing")).events.length], [url + "/good", 3]);
    await row("billing").getByRole("button", { name: "Test" }).click();
    await until("the test came", () => got.includes("/good"));
    await row("billing").getByRole("button", { name: "Edit" }).click();
    await page.getByLabel("Where to").fill(url + "/bad");
    await ok();
    await until("changed", async () => (await hook("billing")).url === url + "/bad");
    await row("billing").getByRole("button", { name: "Test" }).click();
    await until("refused", () => got.includes("/bad"));
    await row("billing").getByText("410").first().waitFor();
    await row("billing").getByRole("button", { name: "Enable" }).click();
    await until("enabled", async () => !(await hook("billing")).disabled);
    await row("billing").getByRole("button", { name: "Disable" }).click();
    await ok();
    await until("disabled", async () => (await hook("billing")).disabled);
    await row("billing").getByRole("button", { name: "Remove" }).click();
    await ok();
    await page.getByText("No hook yet").waitFor();
    equal("gone", await hook("billing"), undefined);
    receiver.close();
}

async function schedules() {
    const schedule = () => server.json("schedules", "show", "tidy-up");
    await go("#/schedules", "No schedule yet");
    await page.keyboard.press("n");
    await page.getByLabel("Name", { exact: true }).fill("tidy-up");
    await page.getByLabel("Type of its tasks").fill("tidy");
    await page.getByRole("textbox", { name: "Expression" }).fill("nonsense");
    await page.getByRole("dialog").locator(".wrong").waitFor();
    await page.getByRole("textbox", { name: "Expression" }).fill("30 4 * * SUN");
    await page.getByLabel("Time zone").fill("America/New_York");
    await page.getByLabel(/Payload/).fill('{"exact": 1.0}');
    await page.locator(".preview li").first().waitFor();
    await ok();
    await page.getByRole("heading", { name: "tidy-up" }).waitFor();
    equal("in the store", [schedule().definition.cron, schedule().definition.zone, schedule().status], ["30 4 * * SUN", "America/New_York", "enabled"]);
    await page.getByTestId("edit").click();
    await page.getByRole("textbox", { name: "Expression" }).fill("45 4 * * SUN");
    await ok();
    await until("changed", () => schedule().definition.cron === "45 4 * * SUN");
    that("the payload is kept as it was", server.cli("schedules", "show", "tidy-up", "--json").includes("1.0"));
    await page.getByTestId("run").click();
    await ok();
    await until("a task", () => server.json("tasks", "list", "--type", "tidy").tasks.length === 1);
    await page.getByRole("button", { name: "Disable" }).click();
    await ok();
    await until("off", () => schedule().status === "disabled");
    await page.getByRole("button", { name: "Enable" }).click();
    await until("on", () => schedule().status === "enabled");
    await page.getByRole("button", { name: "Remove" }).click();
    await ok();
    await page.getByText("No schedule yet").waitFor();
    equal("gone", server.json("schedules", "list").schedules, []);
}

async function batches() {
    const { id } = await server.api("POST", "v1/batches", { name: "b1" });
    const member = await made({ type: "part", batch: id, delay: "1h" });
    await go("#/batches", "b1");
    await page.getByRole("link", { name: "b1" }).click();
    await page.getByRole("link", { name: member, exact: true }).waitFor();
    await page.getByTestId("close-batch").click();
    await until("closed", () => server.json("batches", "show", id).state === "closed");
    await page.getByTestId("cancel").click();
    await ok();
    await until("cancelled", () => shown(member).state === "cancelled");
    await page.locator(".pagehead [data-state=cancelled]").waitFor();
}

async function log() {
    await go("#/log", "local");
    const kinds = new Set(server.json("log").acts.map((act) => act.action));
    for (const kind of ["cancel", "pause", "resume", "limit", "put schedule", "drain", "undrain"]) that(`the operator log has ${kind}`, kinds.has(kind), [...kinds].join());
    await page.locator("tbody code").filter({ hasText: /^pause$/ }).first().waitFor();
}

await main(async (make) => {
    server = await make({ options: ["--hooks", "hooks.json", "--hook-networks", "127.0.0.0/8"] });
    page = await open(server);
    for (const part of [newTask, bulk, search, logs, queues, limits, nodes, hooks, schedules, batches, log]) {
        await part();
        silent(page, part.name);
    }
});
