#!/usr/bin/env node
// Every page with real data: nothing to complain about, nothing wider than the window, accessible (axe-core) in light, dark and on a phone.
// pages.mjs full: all rules on all pages in all looks.
import { readFileSync } from "node:fs";
import { equal, load, main, open, silent, that, until } from "./lib.mjs";
import { seed } from "./seed.mjs";

const AXE = readFileSync(load.resolve("axe-core/axe.min.js"), "utf8");

// Where, and what must be seen there before it counts as shown.
const PAGES = (ids) => [
    ["", "Latest dead letters"],
    ["#/overview?window=24h", "Waiting to run"],
    ["#/tasks", "report.build"],
    ["#/tasks?state=failed&order=oldest", "webhook.call"],
    ["#/tasks?q=mailbox", "found: that is all"],
    [`#/tasks/${ids.failed}`, "What happened"],
    [`#/tasks/${ids.succeeded}`, "accepted"],
    [`#/tasks/${ids.retrying}`, "busy"],
    [`#/tasks/${ids.pending}`, "9007199254740993"],
    [`#/tasks/${ids.child}`, "Parents and children"],
    ["#/tasks/0000000000001", "Not found"],
    ["#/failures", "email.send"],
    ["#/dead", "webhook.call"],
    ["#/dead?type=none", "No dead letter matches"],
    ["#/queues", "archive"],
    ["#/schedules", "nightly-report"],
    ["#/schedules/nightly-report", "Europe/Berlin"],
    ["#/schedules/none", "Not found"],
    ["#/batches", "import-42"],
    [`#/batches/${ids.batch}`, "Who waits for whom"],
    ["#/limits", "acme"],
    ["#/limits?tab=running", "reports"],
    ["#/nodes", "taken for dead"],
    ["#/hooks", "billing"],
    ["#/log", "put schedule"],
    ["#/settings", "OpenAPI"],
    ["#/nowhere", "no such page"],
];

const ALL = ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "best-practice"];
const COLOURS = { type: "rule", values: ["color-contrast", "scrollable-region-focusable", "label"] }; // what another look can change

const SAME = new Set(["Waiting to run", "webhook.call", "busy", "9007199254740993", "No dead letter matches", "Not found"]); // made of the same parts as others
const WIDE = { width: 1280, height: 800 }, PHONE = { width: 390, height: 844 };
const FULL = process.argv[2] === "full";

const LOOKS = [
    ["light", ALL, { viewport: WIDE, colorScheme: "light" }],
    ["dark phone", FULL ? ALL : COLOURS, { viewport: PHONE, colorScheme: "dark", hasTouch: true }],
    ...(FULL ? [["dark", ALL, { viewport: WIDE, colorScheme: "dark" }], ["light phone", ALL, { viewport: PHONE, colorScheme: "light", hasTouch: true }], ["very wide", ALL, { viewport: { width: 2560, height: 1200 }, colorScheme: "light" }]] : []),
];

async function axe(page, what, rules = ALL) {
    if (!(await page.evaluate(() => "axe" in globalThis))) await page.evaluate(AXE);
    const found = await page.evaluate((rules) => globalThis.axe.run(document, { runOnly: rules, resultTypes: ["violations"] }), rules);
    const shown = found.violations.map((one) => `${one.id}: ${one.nodes.slice(0, 3).map((node) => node.html.slice(0, 160)).join(" | ")}`);
    equal(`${what}: accessible`, shown, []);
}

async function look(server, ids, [name, rules, options]) {
    const page = await open(server, "", options);
    for (const [where, text] of PAGES(ids)) {
        await page.to(where);
        await page.locator("main").getByText(text).first().waitFor();
        const wide = await page.evaluate(() => document.documentElement.scrollWidth - innerWidth);
        that(`${name} ${where}: not wider than the window`, wide <= 0, String(wide));
        const hidden = await page.evaluate(() => [...document.querySelectorAll("main .scroll")].filter((one) => one.scrollWidth > one.clientWidth + 1 && !one.closest(".graph")).map((one) => one.getAttribute("aria-label")));
        equal(`${name} ${where}: all columns are seen`, hidden, []);
        silent(page, `${name} ${where}`);
        page.complaints.length = 0;
        if (SAME.has(text) && !FULL) continue;
        await axe(page, `${name} ${where}`, rules);
        page.complaints.length = 0; // of what axe tried
    }
    await page.context().close();
}

async function keyboard(server, ids) {
    const page = await open(server, "#/tasks", { timezoneId: "Asia/Kolkata", permissions: ["clipboard-read", "clipboard-write"] });
    await page.locator("tbody tr").first().waitFor();
    await page.keyboard.press("j");
    await page.keyboard.press("j");
    const row = await page.evaluate(() => document.activeElement?.getAttribute("data-row"));
    equal("j and k move", row, await page.locator("tbody tr").nth(1).getAttribute("data-row"));
    await page.keyboard.press("x");
    await page.getByText("1 selected").waitFor();
    await page.keyboard.press("Enter");
    await page.getByRole("heading", { name: row }).waitFor();
    await page.keyboard.press("u");
    await until("back", () => page.url().endsWith("#/tasks"));
    const help = page.getByRole("dialog", { name: "Keys" });
    for (const [key, title, rows] of [["q", "Queues", 1], ["s", "Schedules", 1], ["b", "Batches", 1], ["l", "Limits", 1], ["n", "Nodes", 0], ["h", "Hooks", 1], ["a", "Operator log", 1], ["d", "Dead letters", 1], ["f", "Failures", 1], ["e", "Settings", 0], ["t", "Tasks", 1], ["o", "Overview", 0]]) {
        await page.keyboard.press("g");
        await page.keyboard.press(key);
        await page.getByRole("heading", { name: title, level: 1 }).waitFor();
        await page.keyboard.press("?");
        await help.waitFor();
        await page.keyboard.press("Escape");
        await help.waitFor({ state: "detached" });
        await page.keyboard.press("/");
        equal(`${title}: / searches`, await page.evaluate(() => document.activeElement?.id), "search");
        await page.keyboard.press("Escape");
        if (!rows) continue;
        await page.locator("main [data-row]").first().waitFor();
        await page.keyboard.press("j");
        that(`${title}: j goes to a row`, await page.evaluate(() => !!document.activeElement?.closest("[data-row]")));
    }
    await page.keyboard.press("?");
    await help.waitFor();
    that("help is seen as a whole", await help.evaluate((one) => one.scrollHeight <= one.clientHeight && one.querySelector("p").clientHeight < 60));
    await axe(page, "help");
    await page.keyboard.press("Escape");
    await help.waitFor({ state: "detached" });
    page.complaints.length = 0;
    await page.to(`#/tasks/${ids.pending}`);
    await page.getByTestId("cancel").waitFor();
    await page.keyboard.press("c");
    await page.getByRole("dialog", { name: "Cancel this task?" }).waitFor();
    await axe(page, "a question");
    await page.keyboard.press("Escape");
    await until("nothing was asked", async () => !(await page.getByRole("dialog").count()));
    equal("and nothing was done", server.json("tasks", "show", ids.pending).state, "pending");
    const exact = await page.locator(".facts time").first().getAttribute("title");
    that("the exact time on hover, in the viewer's zone", /^\d{4}-\d\d-\d\d \d\d:\d\d:\d\d.*\+05:30$/.test(exact), exact);
    await page.getByRole("button", { name: `copy id ${ids.pending}` }).first().click();
    equal("ids can be copied", await until("copied", () => page.evaluate(() => navigator.clipboard.readText())), ids.pending);
    await page.context().close();
}

async function troubles(server) {
    const page = await open(server, "#/queues");
    await page.locator("tbody tr").first().waitFor();
    await page.route("**/v1/queues", (route) => route.fulfill({ status: 503, contentType: "application/problem+json", body: '{"type":"unavailable","detail":"the store is away"}' }));
    await page.getByText("the store is away").waitFor();
    that("what was there stays", (await page.locator("tbody tr").count()) > 0);
    await page.unroute("**/v1/queues");
    await until("it comes back by itself", async () => !(await page.getByText("the store is away").count()));
    await page.route("**/v1/nodes*", (route) => route.fulfill({ status: 403, contentType: "application/problem+json", body: '{"type":"scope","detail":"the token does not allow this"}' }));
    await page.to("#/nodes");
    await page.getByText("Not allowed").waitFor();
    await page.context().close();
}

await main(async (make) => {
    const server = await make({ options: ["--hooks", "hooks.json", "--hook-networks", "127.0.0.0/8"] });
    const ids = await seed(server);
    for (const one of LOOKS) await look(server, ids, one);
    await keyboard(server, ids);
    await troubles(server);
});
