// A real `pawl serve` in a folder of its own, and a real Chromium: what the tests of the dashboard share.
import { execFile, execFileSync, spawn } from "node:child_process";
import { existsSync, mkdtempSync, rmSync, statfsSync } from "node:fs";
import { createRequire } from "node:module";
import { tmpdir } from "node:os";
import { join } from "node:path";

export const SOURCE = process.env.PAWL_SOURCE_DIR ?? join(import.meta.dirname, "../..");
export const PAWL = process.env.PAWL_BIN ?? join(SOURCE, "build/pawl");
export const FACTOR = Number(process.env.PAWL_TIMEOUT_FACTOR ?? 1);
const WAIT = 20000 * FACTOR;
export const load = createRequire(join(SOURCE, "web/package.json"));
const { chromium } = load("playwright-core");

const environment = Object.fromEntries(Object.entries(process.env).filter(([key]) => !key.startsWith("PAWL_") && key !== "DATABASE_URL"));

// ---- the server ---------------------------------------------------------------------------------------------------------------

export class Server {
    constructor({ options = [], folder = mkdtempSync(join(tmpdir(), "pawl-web-")), prefix = "", store = `sqlite:${folder}/pawl.db` } = {}) {
        Object.assign(this, { options, folder, prefix, port: 0, workers: [], store });
    }

    async start() {
        const command = ["serve", "--store", this.store, "--listen", `127.0.0.1:${this.port}`, "--tokens", join(this.folder, "tokens"), ...this.options];
        if (this.prefix) command.push("--prefix", this.prefix);
        this.process = spawn(PAWL, command, { cwd: this.folder, env: environment, stdio: ["ignore", "ignore", "pipe"] });
        let text = "";
        await new Promise((done, fail) => {
            this.process.stderr.on("data", (data) => {
                text += data;
                const found = /listening on http:\/\/[^:]+:(\d+)/.exec(text);
                if (found) this.port = Number(found[1]);
                if (found) done();
            });
            this.process.once("exit", (code) => fail(new Error(`the server ended with ${code}: ${text}`)));
        });
        this.process.removeAllListeners("exit");
        this.url = `http://127.0.0.1:${this.port}${this.prefix}/`;
        return this;
    }

    async stop(signal = "SIGTERM") {
        if (this.process.exitCode !== null || this.process.signalCode) return;
        const ended = new Promise((done) => this.process.once("exit", done));
        this.process.kill(signal);
        await ended;
    }

    async api(method, path, body, token) {
        const headers = { ...(body === undefined ? {} : { "Content-Type": "application/json" }), ...(token ? { Authorization: `Bearer ${token}` } : {}) };
        const answer = await fetch(this.url + path, { method, headers, body: body === undefined ? undefined : JSON.stringify(body) });
        if (!answer.ok) throw new Error(`${method} ${path}: ${answer.status} ${await answer.text()}`);
        return answer.json();
    }

    // The command line reads the store itself: it does not ask the server.
    cli(...words) {
        return execFileSync(PAWL, [...words, "--store", this.store], { cwd: this.folder, env: environment, encoding: "utf8", maxBuffer: 1 << 28 }).trim();
    }

    json(...words) {
        return JSON.parse(this.cli(...words, "--json"));
    }

    // Runs what is due in a queue, by a command.
    work(queue, command, ...options) {
        return new Promise((done, fail) =>
            execFile(PAWL, ["work", "--store", this.store, "--queue", queue, "--once", "--quiet", ...options, "--", ...command], { cwd: this.folder, env: environment }, (error, _out, err) =>
                error && error.code > 1 ? fail(new Error(err)) : done(),
            ),
        );
    }

    // A worker that stays: what it has said so far, and its end.
    worker(queue, command, ...options) {
        const child = spawn(PAWL, ["work", "--store", this.store, "--queue", queue, ...options, "--", ...command], { cwd: this.folder, env: environment, stdio: ["ignore", "ignore", "pipe"] });
        let text = "";
        this.workers.push(child);
        child.stderr.on("data", (data) => (text += data));
        const ended = new Promise((done) => child.once("exit", done));
        return { said: () => text, end: () => (child.kill("SIGTERM"), ended) };
    }

    tokens(...words) {
        return execFileSync(PAWL, ["tokens", ...words, "--tokens", join(this.folder, "tokens")], { cwd: this.folder, env: environment, encoding: "utf8" }).trim();
    }

    token(name, ...options) {
        return this.tokens("add", name, ...options);
    }

    clean() {
        for (const child of this.workers) child.kill("SIGKILL");
        rmSync(this.folder, { recursive: true, force: true });
    }
}

// ---- the browser --------------------------------------------------------------------------------------------------------------

let browser;

export async function browse() {
    const path = process.env.CHROMIUM ?? ["/usr/bin/chromium-headless-shell", "/usr/bin/chromium"].find(existsSync);
    const shm = statfsSync("/dev/shm", { bigint: true });
    const small = shm.bsize * shm.blocks < 1n << 30n; // then shared memory goes to /tmp
    browser ??= await chromium.launch({ executablePath: path, args: ["--no-sandbox", "--disable-gpu", ...(small ? ["--disable-dev-shm-usage"] : [])] });
    return browser;
}

// A page of its own, with everything it complains about gathered.
export async function open(server, where = "", options = {}) {
    const context = await (await browse()).newContext({ viewport: { width: 1360, height: 860 }, ...options });
    context.setDefaultTimeout(WAIT);
    const page = await context.newPage();
    page.complaints = [];
    page.on("pageerror", (error) => page.complaints.push("error: " + error.message));
    page.on("console", (message) => {
        const text = message.text();
        if (message.type() === "error" && !/Failed to load resource|net::ERR_/.test(text)) page.complaints.push("console: " + text);
    });
    page.on("dialog", (dialog) => (page.complaints.push("dialog: " + dialog.message()), dialog.dismiss()));
    await page.addInitScript(() => document.addEventListener("securitypolicyviolation", (event) => console.error("CSP: " + event.violatedDirective + " " + event.blockedURI)));
    page.to = (hash) => page.goto(server.url + hash);
    await page.to(where);
    return page;
}

export async function shut() {
    await browser?.close();
    browser = undefined;
}

// ---- checks -------------------------------------------------------------------------------------------------------------------

export const checks = { count: 0, failed: 0 };

export function that(what, holds, shown = "") {
    checks.count++;
    if (holds) return;
    checks.failed++;
    console.log(`not ok - ${what}: ${typeof shown === "string" ? shown : JSON.stringify(shown)}`);
}

export function equal(what, got, wanted) {
    that(what, JSON.stringify(got) === JSON.stringify(wanted), { got, wanted });
}

// Looks again until it is true.
export async function until(what, look) {
    const end = Date.now() + WAIT;
    for (;;) {
        const found = await look();
        if (found) return found;
        if (Date.now() > end) throw new Error("did not happen: " + what);
        await new Promise((done) => setTimeout(done, 25));
    }
}

export function silent(page, what) {
    equal(`${what}: nothing to complain about`, page.complaints, []);
}

export async function main(body) {
    const servers = [];
    const make = async (options) => {
        const server = new Server(options);
        servers.push(server);
        return server.start();
    };
    try {
        await body(make);
    } catch (error) {
        checks.failed++;
        console.log(`not ok - ${error.stack}`);
    }
    await shut();
    for (const server of servers) {
        await server.stop();
        server.clean();
    }
    console.log(`${checks.count} checks, ${checks.failed} failed`);
    process.exit(checks.failed || !checks.count ? 1 : 0);
}
