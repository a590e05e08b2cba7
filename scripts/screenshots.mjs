#!/usr/bin/env node
// Takes pictures of every page of the dashboard: light, dark, and on a phone.
//
//   scripts/screenshots.mjs OUT            of a server with the demo and something of everything, which it starts itself
//   scripts/screenshots.mjs OUT URL        of a server that is there: http://127.0.0.1:7295/
//   scripts/screenshots.mjs OUT URL NAME   one of them: overview, task, ...
//
// PAWL_BIN names the binary (else build/pawl). Needs what scripts/setup.sh check installs.
import { mkdirSync } from "node:fs";
import { open, Server, shut } from "../tests/web/lib.mjs";
import { seed } from "../tests/web/seed.mjs";

const [out, url, only] = process.argv.slice(2);
if (!out) {
    console.error("usage: scripts/screenshots.mjs OUT [URL [NAME]]");
    process.exit(2);
}

const LOOKS = {
    light: { viewport: { width: 1360, height: 860 }, colorScheme: "light" },
    dark: { viewport: { width: 1360, height: 860 }, colorScheme: "dark" },
    phone: { viewport: { width: 390, height: 844 }, colorScheme: "light", hasTouch: true },
};

async function first(server, path, list, pick = () => true) {
    const answer = await (await fetch(server.url + path)).json();
    return answer[list].find(pick);
}

async function pages(server) {
    const failed = await first(server, "v1/dead?limit=50", "tasks", (task) => task.attempt > 1) ?? (await first(server, "v1/dead?limit=1", "tasks"));
    const running = await first(server, "v1/tasks?state=running&limit=20", "tasks", (task) => task.progress !== null);
    const batch = await first(server, "v1/batches", "batches");
    const schedule = (await first(server, "v1/schedules", "schedules", (one) => one.fired > 0)) ?? (await first(server, "v1/schedules", "schedules"));
    return {
        overview: "#/overview?window=15m",
        tasks: "#/tasks",
        task: failed && `#/tasks/${failed.id}`,
        running: running && `#/tasks/${running.id}`,
        failures: "#/failures",
        dead: "#/dead",
        queues: "#/queues",
        schedules: "#/schedules",
        schedule: schedule && `#/schedules/${encodeURIComponent(schedule.name)}`,
        batches: "#/batches",
        batch: batch && `#/batches/${batch.id}`,
        limits: "#/limits",
        concurrency: "#/limits?tab=running",
        nodes: "#/nodes",
        hooks: "#/hooks",
        log: "#/log",
        settings: "#/settings",
    };
}

mkdirSync(out, { recursive: true });
const server = url ? { url: url.replace(/\/?$/, "/") } : await new Server({ options: ["--demo"] }).start();
try {
    if (!url) {
        await seed(server);
        await new Promise((done) => setTimeout(done, 60000)); // for the lines to have a shape
    }
    for (const [look, options] of Object.entries(LOOKS)) {
        const page = await open(server, "", options);
        for (const [name, where] of Object.entries(await pages(server))) {
            if (!where || (only && only !== name)) continue;
            await page.to(where);
            await page.locator("main h1").waitFor();
            await page.waitForFunction(() => !document.querySelector("main .skeleton, main .bone"));
            if (name === "overview") await page.waitForTimeout(20000); // the live chart fills by events
            await page.screenshot({ path: `${out}/${name}-${look}.png` });
        }
        if (page.complaints.length) console.log(look, page.complaints);
        await page.context().close();
    }
} finally {
    await shut();
    if (!url) {
        await server.stop();
        server.clean();
    }
}
