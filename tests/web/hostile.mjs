#!/usr/bin/env node
// Strings that were made to break pages, wherever a stranger can put one: type, queue, key, tenant, payload, error, log, names of schedules,
// batches, rate keys. No script runs, the policy is not even tried, and nothing becomes wider than its place.
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

async function fill(server) {
    const ids = [];
    for (const [i, text] of HOSTILE.entries()) {
        const name = text.slice(0, 60);
        const { id } = await server.api("POST", "v1/tasks", { type: name, queue: name, key: text.slice(0, 60) + i, tenant: name, created_by: name, headers: text, payload: { [text]: text, list: [text, null, 1e3] }, rate_key: name, max_attempts: 1 });
        ids.push(id);
    }
    // They fail, with an error and a log of the same kind.
    writeFileSync(join(server.folder, "strings"), HOSTILE.join("\n") + "\n");
    await server.api("POST", "v1/tasks/bulk", HOSTILE.map((text, i) => ({ type: "run", queue: "run", max_attempts: 1, payload: i + 1 })));
    await server.work("run", ["sh", "-c", 'n=$(cat); sed -n "${n}p" strings >&2; sed -n "${n}p" strings >&2; exit 65'], "--concurrency", "4");
    for (const text of HOSTILE.slice(0, 12)) {
        const name = encodeURIComponent(text.slice(0, 60));
        await server.api("POST", `v1/queues/${name}/pause`);
        await server.api("PUT", `v1/limits/${name}?key=${name}`, { permits: 1, period: "1m" });
        await server.api("PUT", `v1/schedules/${name}`, { type: text.slice(0, 60), every: "1d", payload: text });
        await server.api("POST", "v1/batches", { name: text.slice(0, 60) });
    }
    return ids;
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
    const server = await make();
    const ids = await fill(server);
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
        for (const where of ["#/overview", "#/dead", "#/failures", "#/queues", "#/limits", "#/schedules", "#/batches", "#/log"]) await visit(page, where, where === "#/overview" ? () => page.locator(".tile-value").first().waitFor() : rows);
        for (const [i, id] of ids.entries()) {
            if (small && i % 7) continue;
            await visit(page, `#/tasks/${id}`, () => page.locator(".json").first().waitFor());
        }
        const failed = (await server.api("GET", "v1/dead?limit=100")).tasks;
        for (const [i, task] of failed.entries()) if (i % (small ? 13 : 5) === 0) await visit(page, `#/tasks/${task.id}`, () => page.locator(".log li").first().waitFor());
        for (const text of HOSTILE.slice(0, small ? 1 : 4)) {
            await visit(page, `#/tasks?type=${encodeURIComponent(text.slice(0, 60))}`, rows);
            await visit(page, `#/schedules/${encodeURIComponent(text.slice(0, 60))}`, () => page.getByText("Definition").waitFor());
        }
        // Through the dialogs too, which repeat names.
        if (!small) {
            await page.to("#/queues");
            await rows();
            await page.getByRole("button", { name: "Pause" }).first().click();
            await page.getByRole("dialog").waitFor();
            silent(page, "a question with a name in it");
            await page.keyboard.press("Escape");
            await until("gone", async () => !(await page.getByRole("dialog").count()));
        }
        await page.context().close();
    }
});
