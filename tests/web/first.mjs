#!/usr/bin/env node
// From the first visit to a task and back: login, roles, the live page, deep links, the back button, a server that goes and comes, two browsers.
import { equal, main, open, silent, that, until } from "./lib.mjs";

async function state(page) {
    return page.getByTestId("live").getAttribute("data-live");
}

const live = (page) => until("live", async () => (await state(page)) === "live");

// What each may do is offered, what it may not is neither offered nor done.
async function roles(server, all) {
    const worker = server.worker("drains", ["true"], "--name", "worker-1");
    const node = await until("a node", () => server.json("nodes").nodes.find((one) => one.name === "worker-1"));
    for (const [name, token, may] of all) {
        const page = await open(server, "#/nodes");
        const asked = (method, path, body) => page.evaluate(([method, path, body]) => fetch(path, { method, headers: body ? { "Content-Type": "application/json" } : {}, body: body && JSON.stringify(body) }).then((answer) => answer.status), [method, path, body]);
        const allowed = async (method, path, body) => Number((await asked(method, path, body)) !== 403);
        await page.getByLabel("Token").fill(token);
        await page.keyboard.press("Enter");
        const row = page.locator("tbody tr").filter({ hasText: "worker-1" });
        await row.waitFor();
        equal(`${name}: draining is offered`, await row.getByRole("button", { name: "Drain" }).count(), may.drain);
        equal(`${name}: hooks are offered`, await page.getByRole("navigation").getByText("Hooks").count(), may.hooks ?? 0);
        await page.to("#/hooks");
        await page.getByText(may.hooks ? "No hook yet" : "Not allowed").waitFor();
        equal(`${name}: a new hook is offered`, await page.getByRole("button", { name: "New hook" }).count(), may.hooks ?? 0);
        await page.to("#/tasks");
        await page.locator("tbody tr").first().waitFor();
        equal(`${name}: a new task and bulk actions are offered`, [await page.getByRole("button", { name: "New task" }).count(), await page.getByRole("button", { name: "Cancel all…" }).count()], [may.make, may.drain]);
        const done = [await allowed("POST", `v1/nodes/${node.id}/drain`), await allowed("POST", `v1/nodes/${node.id}/undrain`), await allowed("POST", "v1/workers/none/drain"), await allowed("GET", "v1/hooks"), await allowed("PUT", "v1/hooks/x", { url: "http://127.0.0.1/" }), await allowed("POST", "v1/hooks/x/test"), await allowed("DELETE", "v1/hooks/x"), await allowed("POST", "v1/tasks", { type: "x", delay: "1h" })];
        equal(`${name}: the server says the same`, done, [may.drain, may.drain, may.drain, ...Array(4).fill(may.hooks ?? 0), may.make]);
        silent(page, name);
        await page.context().close();
    }
    await worker.end();
}

async function login(server) {
    const admin = server.token("ann", "--scope", "admin");
    const reader = server.token("<svg/onload=globalThis.pwned=1>", "--scope", "read");
    const hander = server.token("han", "--scope", "read,enqueue");
    const operator = server.token("ope", "--scope", "operate");
    const enqueuer = server.token("enq", "--scope", "enqueue");
    const bound = server.token("acme", "--scope", "operate", "--tenant", "acme");
    server.process.kill("SIGHUP");
    const id = await until("the tokens are read", async () => {
        const answer = await fetch(server.url + "v1/tasks", { method: "POST", headers: { "Content-Type": "application/json", Authorization: `Bearer ${admin}` }, body: '{"type":"mine","tenant":"acme","delay":"1h"}' });
        return answer.ok && (await answer.json()).id;
    });
    const page = await open(server, `#/tasks/${id}`);
    await page.getByLabel("Token").fill("pawl_wrong");
    await page.getByRole("button", { name: "Log in" }).click();
    await page.getByRole("alert").filter({ hasText: "not known" }).waitFor();
    await page.getByLabel("Token").fill(admin);
    await page.keyboard.press("Enter");
    await page.getByRole("heading", { name: id }).waitFor();
    that("login goes to what was asked for", page.url().endsWith(`#/tasks/${id}`), page.url());
    await page.getByTestId("cancel").waitFor();
    await page.reload();
    await page.getByTestId("cancel").waitFor();
    await page.getByRole("button", { name: "log out" }).click();
    await page.getByLabel("Token").waitFor();
    await page.reload();
    await page.getByLabel("Token").fill(reader);
    await page.keyboard.press("Enter");
    await page.getByRole("heading", { name: id }).waitFor();
    await page.getByText("read only").waitFor();
    equal("a reader is offered nothing", await page.getByTestId("cancel").count(), 0);
    const refused = await page.evaluate((id) => fetch(`v1/tasks/${id}/cancel`, { method: "POST" }).then((answer) => answer.status), id);
    equal("and the server refuses it", refused, 403);
    equal("its name is a text", [await page.locator(".who bdi").textContent(), await page.evaluate(() => globalThis.pwned)], ["<svg/onload=globalThis.pwned=1>", undefined]);
    silent(page, "login");
    await page.context().close();
    await roles(server, [["reader", reader, { make: 0, drain: 0 }], ["hander", hander, { make: 1, drain: 0 }], ["operator", operator, { make: 0, drain: 1 }], ["admin", admin, { make: 1, drain: 1, hooks: 1 }]]);

    const other = await open(server);
    await other.getByLabel("Token").fill(enqueuer);
    await other.keyboard.press("Enter");
    await other.getByText("may not read").waitFor();
    await other.getByRole("button", { name: "Use another token" }).click();
    await other.getByLabel("Token").fill(bound);
    await other.keyboard.press("Enter");
    await other.getByRole("link", { name: id }).waitFor();
    equal("without a stream it asks", await state(other), "polling");
    equal("what concerns the whole store is not offered", await other.getByRole("navigation").getByText(/Overview|Nodes|Hooks|Limits/).count(), 0);
    for (const where of ["#/nodes", "#/hooks", "#/overview"]) {
        await other.to(where);
        await other.getByText("Not allowed").first().waitFor();
    }
    silent(other, "roles");
    await other.context().close();
}

async function lists(server) {
    const page = await open(server, "#/tasks");
    await page.getByText("No tasks yet").waitFor();
    await live(page);
    const { id } = await server.api("POST", "v1/tasks", { type: "first", queue: "q", key: "k1", payload: { big: 1 }, max_attempts: 1 });
    await page.getByRole("link", { name: id }).waitFor(); // by itself
    await server.api("POST", "v1/tasks/bulk", Array.from({ length: 120 }, (_, i) => ({ type: i % 2 ? "odd" : "even", queue: "many", delay: "1h" })));
    await until("a full page", async () => (await page.locator("tbody tr").count()) === 50);
    const top = () => page.locator("tbody tr").first().getAttribute("data-row");
    const newest = await top();
    await page.getByTestId("next").click();
    await until("the second page", async () => page.url().includes("cursor=") && (await top()) !== newest);
    await page.goBack();
    await until("the first page again", async () => !page.url().includes("cursor=") && (await top()) === newest);
    await page.getByLabel("type", { exact: true }).fill("odd");
    await page.keyboard.press("Enter");
    await until("a filter in the address", async () => page.url().includes("type=odd"));
    await page.getByRole("button", { name: "scheduled" }).click();
    await until("filtered", async () => (await page.locator("tbody tr").count()) === 50 && !(await page.getByText("even").count()));
    const link = page.url();
    const deep = await open(server, link.slice(server.url.length));
    await until("a link to the same", async () => (await deep.locator("tbody tr").count()) === 50);
    equal("its filter is shown", await deep.getByLabel("type", { exact: true }).inputValue(), "odd");
    await deep.context().close();

    await page.keyboard.press("/");
    await page.keyboard.type(id);
    await page.keyboard.press("Enter");
    await page.getByRole("heading", { name: id }).waitFor();
    await page.goBack();
    await until("back at the list", async () => page.url() === link);
    silent(page, "lists");
    await page.context().close();
    return id;
}

async function task(server, id) {
    const [one, two] = [await open(server, `#/tasks/${id}`), await open(server, `#/tasks/${id}`)];
    await one.getByTestId("why").filter({ hasText: "no live node" }).or(one.getByTestId("why")).waitFor();
    await live(one);
    await live(two);
    await server.work("q", ["sh", "-c", "echo bad news >&2; exit 65"]);
    for (const page of [one, two]) {
        await page.getByTestId("retry").waitFor();
        await page.locator(".log").getByText("bad news").waitFor();
    }
    await one.getByTestId("ack").click();
    await one.getByLabel(/Why nothing/).fill("known");
    await one.getByTestId("confirm").click();
    await two.getByText("Acknowledged").waitFor(); // the other browser
    equal("in the store", server.json("tasks", "show", id).note, "known");
    await two.getByTestId("retry").click();
    await two.getByTestId("confirm").click();
    await until("the new task's page", async () => !two.url().includes(id));
    const fresh = server.json("tasks", "show", two.url().split("/").at(-1));
    equal("a new task of the old one", [fresh.retry_of, fresh.state], [id, "pending"]);
    await two.getByTestId("cancel").click();
    await two.getByTestId("confirm").click();
    await until("cancelled in the store", () => server.json("tasks", "show", fresh.id).state === "cancelled");
    await two.locator(".pagehead [data-state=cancelled]").waitFor();
    silent(one, "task");
    await two.context().close();
    return one;
}

// All that the browser loads before it asks for data, as it comes over the wire; and what a page that nobody sees does with its stream.
async function light(server) {
    const page = await open(server, "#/settings");
    await live(page);
    const bytes = await page.evaluate(() => [...performance.getEntriesByType("navigation"), ...performance.getEntriesByType("resource").filter((one) => one.name.includes("/assets/"))].map((one) => one.encodedBodySize));
    const sum = bytes.reduce((all, one) => all + one);
    that("the page, its script, its style and its icon", bytes.length >= 3 && sum > 20000 && sum < 120000, bytes);
    const hide = (on) =>
        page.evaluate((on) => {
            Object.defineProperty(document, "hidden", { value: on, configurable: true });
            document.dispatchEvent(new Event("visibilitychange"));
        }, on);
    await page.clock.install();
    await hide(true);
    await page.clock.fastForward(11000);
    await until("the stream is given back", async () => (await state(page)) === "reconnecting");
    await hide(false);
    await live(page);
    silent(page, "light");
    await page.context().close();
}

async function restart(server, page) {
    await page.to("#/tasks");
    await page.locator("tbody tr").first().waitFor();
    await live(page);
    await server.stop("SIGKILL");
    await until("it says so", async () => (await state(page)) === "reconnecting");
    await page.getByText("The server does not answer: what you see is older").waitFor();
    that("what was there stays", (await page.locator("tbody tr").count()) > 0);
    const id = server.cli("enqueue", "--type", "meanwhile", "--delay", "1h"); // while nobody listened
    await server.start();
    await live(page);
    await page.getByRole("link", { name: id }).waitFor();
    equal("it answers", await page.getByText("does not answer").count(), 0);
    await page.keyboard.press("p");
    equal("paused", await state(page), "paused");
    const later = (await server.api("POST", "v1/tasks", { type: "later", delay: "1h" })).id;
    const shown = await page.getByRole("link", { name: later }).count();
    await page.keyboard.press("p");
    await page.getByRole("link", { name: later }).waitFor();
    equal("nothing moves while paused", shown, 0);
    silent(page, "restart");
    await page.context().close();
}

await main(async (make) => {
    await login(await make({ options: ["--hosts", "localhost", "--hooks", "hooks.json", "--hook-networks", "127.0.0.0/8"] }));
    const server = await make({ prefix: "/ops/pawl" });
    await light(server);
    const id = await lists(server);
    await restart(server, await task(server, id));
});
