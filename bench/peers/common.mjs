// What the peer programs share: packages from the folder PEERS, the payload, clocks, child processes.
//
// Each program is called as `node NAME.mjs MEASURE TASKS` with the server's address in SERVER and prints one number: tasks per second.
//
//   life    tasks are stored in bulk and run at the same time, in one process
//   drain   a backlog is run by two processes
//   add     callers store one task at a time, as many at once as the peer's own benchmark has
import { fork } from "node:child_process";
import { createRequire } from "node:module";
import path from "node:path";

export const require = createRequire(path.join(process.env.PEERS, "/"));
export const load = (file) => import(path.join(process.env.PEERS, "node_modules", file));
export const server = process.env.SERVER;
export const [measure, count] = [process.argv[2], Number(process.argv[3])];
export const BATCH = 1000;
export const PROCESSES = 2;

// 200 bytes of JSON.
export function payload(i) {
    const body = { n: String(i).padStart(12, "0"), pad: "" };
    body.pad = "x".repeat(200 - JSON.stringify(body).length);
    return body;
}

export const seconds = () => Number(process.hrtime.bigint()) / 1e9;

export async function inBatches(n, size, store) {
    for (let i = 0; i < n; i += size) {
        await store(Array.from({ length: Math.min(size, n - i) }, (_, k) => payload(i + k)));
    }
}

export async function concurrently(callers, n, call) {
    let next = 0;
    const caller = async () => {
        while (next < n) await call(payload(next++));
    };
    await Promise.all(Array.from({ length: callers }, caller));
}

// Resolves when `done` was called n times.
export function counter(n) {
    const c = { left: n };
    c.all = new Promise((resolve) => {
        c.done = (by = 1) => (c.left -= by) <= 0 && resolve();
    });
    return c;
}

// A child says "ready", is told to go, and then says how many tasks it has finished since it last said so.
export const isChild = () => process.send && measure === "worker";

export function sayFinished() {
    let finished = 0;
    setInterval(() => {
        if (finished) process.send(finished);
        finished = 0;
    }, 5);
    return (by = 1) => (finished += by);
}

export async function childMain(start) {
    process.once("message", () => start());
    process.once("disconnect", () => process.exit(0));
    process.send("ready");
}

export const pause = () => new Promise((resolve) => setTimeout(resolve, 5));

// `settled` waits for what is not finished when a task has run.
export async function drain(n, settled = async () => {}) {
    const children = Array.from({ length: PROCESSES }, () => fork(process.argv[1], ["worker", String(n)]));
    await Promise.all(children.map((child) => new Promise((resolve) => child.once("message", resolve))));
    const c = counter(n);
    for (const child of children) child.on("message", (by) => c.done(by));
    const begin = seconds();
    for (const child of children) child.send("go");
    await c.all;
    await settled();
    const took = seconds() - begin;
    for (const child of children) child.kill();
    return took;
}

export function answer(took) {
    console.log(Math.round(count / took));
    process.exit(0);
}

export const newDatabase = async (name) => {
    const { Client } = require("pg");
    const admin = new Client({ host: server, user: "postgres", database: "postgres" });
    await admin.connect();
    await admin.query(`DROP DATABASE IF EXISTS ${name} WITH (FORCE)`);
    await admin.query(`CREATE DATABASE ${name}`);
    await admin.query("CHECKPOINT");
    await admin.end();
};
