#!/usr/bin/env node
// Takes pictures of every page of the dashboard: light, dark, and on a phone.
//
//   scripts/screenshots.mjs OUT            of a server with the demo and something of everything, which it starts itself
//   scripts/screenshots.mjs OUT URL        of a server that is there: http://127.0.0.1:7295/
//   scripts/screenshots.mjs OUT URL NAME   one of them: overview, task, ...
//
// PAWL_BIN names the binary (else build/pawl). Needs what scripts/setup.sh check installs.
import { mkdirSync, writeFileSync } from "node:fs";
import { open, Server, shut, until } from "../tests/web/lib.mjs";
import { seed } from "../tests/web/seed.mjs";
import { palette } from "./palette.mjs";

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
    const batch = await first(server, "v1/batches", "batches");
    const schedule = (await first(server, "v1/schedules", "schedules", (one) => one.fired > 0)) ?? (await first(server, "v1/schedules", "schedules"));
    return {
        overview: "#/overview?window=15m",
        tasks: "#/tasks",
        search: "#/tasks?q=mailbox",
        task: failed && `#/tasks/${failed.id}`,
        running: async () => `#/tasks/${(await until("one runs", () => first(server, "v1/tasks?state=running&limit=20", "tasks", (task) => task.progress !== null && task.progress < 50))).id}`,
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

// Who runs tasks: processes, one of which is drained, and a program that asks over HTTP.
async function crowd(server) {
    for (const [name, queue] of [["worker-1", "reports"], ["worker-2", "mail"], ["worker-3", "archive"]]) server.worker(queue, ["true"], "--name", name, "--type", "none");
    const { worker } = await server.api("POST", "v1/workers", { name: "thumbnails@build-7", queues: ["pictures"], types: ["picture.resize"] });
    server.renewing = setInterval(() => void server.api("POST", `v1/workers/${worker}/renew`, { held: [] }).catch(() => {}), 3000);
    const named = (name) => server.json("nodes").nodes.find((node) => node.name === name);
    for (const name of ["worker-1", "worker-3"]) await until("they are there", () => named(name));
    const drained = await until("it is there, too", () => named("worker-2"));
    await server.api("POST", `v1/nodes/${drained.id}/drain`);
}

mkdirSync(out, { recursive: true });
const server = url ? { url: url.replace(/\/?$/, "/") } : await new Server({ options: ["--demo", "--hooks", "hooks.json"] }).start();
try {
    if (!url) {
        await seed(server);
        await crowd(server);
        await new Promise((done) => setTimeout(done, 60000)); // for the lines to have a shape
    }
    for (const [look, options] of Object.entries(LOOKS)) {
        const page = await open(server, "", options);
        for (const [name, where] of Object.entries(await pages(server))) {
            if (!where || (only && only !== name)) continue;
            await page.to(typeof where === "string" ? where : await where());
            await page.locator("main h1").waitFor();
            await page.waitForFunction(() => !document.querySelector("main .skeleton, main .bone"));
            if (name === "overview") await page.waitForTimeout(20000); // the live chart fills by events
            writeFileSync(`${out}/${name}-${look}.png`, palette(await page.screenshot()));
        }
        if (page.complaints.length) console.log(look, page.complaints);
        await page.context().close();
    }
} finally {
    await shut();
    clearInterval(server.renewing);
    if (!url) {
        await server.stop();
        server.clean();
    }
}
