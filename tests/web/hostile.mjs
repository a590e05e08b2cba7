#!/usr/bin/env node
// Strings that were made to break pages, wherever a stranger can put one: type, queue, key, tenant, payload, error, code, log, progress, result,
// notes, names of schedules, batches, rate keys, nodes, remote workers, hooks and where these go to. No script runs, the policy is not even tried,
// and nothing becomes wider than its place.
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { equal, main, open, silent, that, until } from "./lib.mjs";

const RUN = "globalThis.pwned=1";
export const HOSTILE = [
    `<script>${RUN}</script>`, `"><script>${RUN}</script>`, `'><script>${RUN}</script>`, `</title><script>${RUN}</script>`, `</textarea><script>${RUN}</script>`,
    `</style><script>${RUN}</script>`, `<img src=x onerror=${RUN}>`, `"><img src=x onerror="${RUN}">`, `<svg onload=${RUN}>`, `<svg><script>${RUN}</script></svg>`,
    `<iframe srcdoc="<script>parent.pwned=1</script>">`, `<body onload=${RUN}>`, `<details open ontoggle=${RUN}>`, `<input autofocus onfocus=${RUN}>`, `<a href="javascript:${RUN}">x</a>`,
    `javascript:${RUN}`, `JaVaScRiPt:${RUN}//`, `data:text/html,<script>parent.pwned=1</script>`, `vbscript:${RUN}`, `" onmouseover="${RUN}" x="`,
    `' onmouseover='${RUN}' x='`, "`${" + RUN + "}`", `{{constructor.constructor('${RUN}')()}}`, "${" + RUN + "}", `#{${RUN}}`,
    `<%= ${RUN} %>`, `<math><mtext><table><mglyph><style><img src=x onerror=${RUN}>`, `<noscript><p title="</noscript><img src=x onerror=${RUN}>">`, `<template><script>${RUN}</script></template>`, `<base href="https://evil.example/">`,
    `<meta http-equiv="refresh" content="0;url=https://evil.example/">`, `<link rel=stylesheet href=https://evil.example/x.css>`, `<style>*{display:none!important}</style>`, `<form action=https://evil.example/><button>x`, `<object data="data:text/html,x">`,
    `\u202Egnp.exe\u202C reversed`, `\u2066isolated\u2069 \u200F right`, `Z\u0351\u036B\u0343\u0349a\u0352\u033Al\u0321\u0353g\u034Fo`.repeat(4), `\u{1F469}\u200D\u{1F469}\u200D\u{1F467}`.repeat(10), "\uFEFFbom\u200Bzero\u00ADwidth",
    "W".repeat(150), "i".repeat(150), "wide words ".repeat(15), "表".repeat(50), "__proto__",
    "constructor", "../../../etc/passwd", "%3Cscript%3E%00", "a/b?c=d&e#f", "'; DROP TABLE pawl_task; --",
];

const short = (text) => text.slice(0, 60).replace(/[\uD800-\uDBFF]$/, ""); // no half of a letter

async function tasks(server) {
    const ids = [];
    for (const [i, text] of HOSTILE.entries()) {
        const name = short(text);
        const { id } = await server.api("POST", "v1/tasks", { type: name, queue: name, key: name + i, tenant: name, created_by: name, headers: text, payload: { [text]: text, list: [text, null, 1e3] }, rate_key: name, max_attempts: 1 });
        ids.push(id);
    }
    // They fail, with an error and a log of the same kind.
    writeFileSync(join(server.folder, "strings"), HOSTILE.join("\n") + "\n");
    await server.api("POST", "v1/tasks/bulk", HOSTILE.map((text, i) => ({ type: "run", queue: "run", max_attempts: 1, payload: i + 1 })));
    await server.work("run", ["sh", "-c", 'n=$(cat); sed -n "${n}p" strings >&2; sed -n "${n}p" strings >&2; exit 65'], "--concurrency", "4");
    return ids;
}

// Remote workers that stay, with what they have.
const crew = new Map();
const renew = (server) => setInterval(() => crew.forEach((held, worker) => void server.api("POST", `v1/workers/${worker}/renew`, { held }).catch(() => {})), 4000);

// What a remote worker tells: of tasks that failed, that are done, and that it still has.
async function told(server) {
    const told = {};
    const { worker } = await server.api("POST", "v1/workers", { name: HOSTILE[0], queues: ["told"], types: ["told"] });
    await server.api("POST", "v1/tasks/bulk", HOSTILE.map(() => ({ type: "told", queue: "told", max_attempts: 1 })));
    const { tasks } = await server.api("POST", `v1/workers/${worker}/claim`, { max: HOSTILE.length });
    const item = (task, text) => [{ outcome: "failed", error: text, code: short(text) }, { outcome: "succeeded", result: { [text]: text } }, { progress: 50, progress_text: short(text), log: [text] }];
    const items = tasks.map((task, i) => ({ id: task.id, fence: task.fence, ...item(task, HOSTILE[i])[i % 3] }));
    const { results } = await server.api("POST", `v1/workers/${worker}/report`, { items });
    equal("all of it is taken", [...new Set(results.map((one) => one.status))].sort(), ["done", "noted"]);
    crew.set(worker, items.filter((one) => !one.outcome).map(({ id, fence }) => ({ id, fence })));
    items.forEach((one, i) => (told[one.outcome ?? "running"] ??= []).push({ id: one.id, text: HOSTILE[i] }));
    for (const { id, text } of told.failed.slice(0, 4)) await server.api("POST", "v1/dead/ack", { ids: [id], note: text });
    return told;
}

// What has a name: hooks and nodes for as long as they are there.
async function names(server) {
    for (const text of HOSTILE) {
        const name = short(text), path = encodeURIComponent(name);
        await server.api("POST", `v1/queues/${path}/pause`);
        await server.api("PUT", `v1/limits/${path}?key=${path}`, { permits: 1, period: "1m" });
        await server.api("PUT", `v1/concurrency/${path}?scope=queue`, { most: 1 });
        await server.api("PUT", `v1/schedules/${path}`, { type: name, every: "1d", payload: text });
        await server.api("POST", "v1/batches", { name });
        const { worker } = await server.api("POST", "v1/workers", { name: text.slice(0, 100), queues: [name.replaceAll(",", ";")], types: [name.replaceAll(",", ";")] });
        crew.set(worker, []);
        await server.api("PUT", `v1/hooks/${path}`, { url: `http://127.0.0.1/${path}?${"x".repeat(300)}#"><img src=x onerror=${RUN}>`.replace(/ /g, "%20"), type: name, queue: name });
    }
    const nodes = [0, 6, 35, 40, 43].map((i) => server.worker(short(HOSTILE[i]), ["true"], "--name", short(HOSTILE[i])));
    await until("nodes of such names", async () => (await server.api("GET", "v1/nodes")).nodes.filter((node) => HOSTILE.some((text) => node.name === short(text))).length === nodes.length);
}

async function visit(page, where, look) {
    await page.to(where);
    await look();
    const state = await page.evaluate(() => ({
        pwned: globalThis.pwned,
        wide: document.documentElement.scrollWidth - innerWidth,
        strange: document.querySelectorAll("main script, main iframe, main object, main base, main meta, main link, main style, main img, main form[action]").length,
        address: location.origin,
        cells: [...document.querySelectorAll("main table .name, main h1, .pagehead")].filter((one) => one.getBoundingClientRect().right > innerWidth + 1 && !one.closest(".scroll")).length,
    }));
    that(`${where}: nothing ran, nothing broke`, !state.pwned && state.wide <= 0 && !state.strange && !state.cells && page.url().startsWith(state.address), state);
    silent(page, where);
}

await main(async (make) => {
    equal("there are 50 of them", new Set(HOSTILE).size, 50);
    const server = await make({ options: ["--hooks", "hooks.json", "--hook-networks", "127.0.0.0/8"] });
    const ids = await tasks(server);
    renew(server);
    const told_of = await told(server);
    await names(server);
    for (const viewport of [{ width: 1360, height: 860 }, { width: 390, height: 844 }]) {
        const page = await open(server, "", { viewport });
        const rows = () => page.locator("main tbody tr").first().waitFor();
        const small = viewport.width < 500;
        await visit(page, "#/tasks", rows);
        if (!small) {
            await visit(page, "#/tasks?state=pending", rows);
            const shown = await page.locator("tbody tr .name").allTextContents();
            that("they are shown as they are", HOSTILE.some((text) => shown.includes(text)), shown.slice(0, 5));
        }
        for (const where of ["#/overview", "#/dead", "#/failures", "#/queues", "#/limits", "#/limits?tab=running", "#/schedules", "#/batches", "#/nodes", "#/hooks", "#/log", "#/tasks?state=running"]) await visit(page, where, where === "#/overview" ? () => page.locator(".tile-value").first().waitFor() : rows);
        for (const [i, id] of ids.entries()) {
            if (small && i % 7) continue;
            await visit(page, `#/tasks/${id}`, () => page.locator(".json").first().waitFor());
        }
        const failed = (await server.api("GET", "v1/dead?type=run&limit=100")).tasks;
        for (const [i, task] of failed.entries()) if (i % (small ? 13 : 5) === 0) await visit(page, `#/tasks/${task.id}`, () => page.locator(".log li").first().waitFor());
        for (const { id, text } of Object.values(told_of).flatMap((some) => some.slice(0, small ? 1 : 3))) {
            await visit(page, `#/tasks/${id}`, () => page.locator(".pagehead [data-state]").waitFor());
            that(`what was told is shown: ${text}`, (await page.locator("main").textContent()).includes(text.slice(0, 40)));
        }
        for (const text of HOSTILE.slice(0, small ? 1 : 4)) {
            await visit(page, `#/tasks?type=${encodeURIComponent(short(text))}`, rows);
            await visit(page, `#/schedules/${encodeURIComponent(short(text))}`, () => page.getByText("Definition").waitFor());
        }
        // Through the dialogs too, which repeat names.
        for (const [where, button] of small ? [["#/hooks", "Edit"]] : [["#/queues", "Pause"], ["#/hooks", "Edit"], ["#/hooks", "Remove"], ["#/nodes", "Drain"], ["#/schedules", "Disable"]]) {
            await visit(page, where, rows);
            await page.locator("main tbody").getByRole("button", { name: button }).first().click();
            await page.getByRole("dialog").waitFor();
            const wide = await page.evaluate(() => [...document.querySelectorAll("[role=dialog], [role=dialog] *, dialog, dialog *")].filter((one) => one.getBoundingClientRect().right > innerWidth + 1).length);
            equal(`${where} ${button}: a question with a name in it`, wide, 0);
            silent(page, `${where} ${button}`);
            await page.keyboard.press("Escape");
            await until("gone", async () => !(await page.getByRole("dialog").count()));
        }
        await page.context().close();
    }
});
