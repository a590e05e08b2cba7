// pg-boss, fetching and completing in batches of 1000.
import * as peer from "./common.mjs";

const QUEUE = "noop";
const CALLERS = 10;
const database = "pgboss";
const { PgBoss } = await peer.load("pg-boss/dist/index.js");

async function open(migrate) {
    const boss = new PgBoss({ host: peer.server, user: "postgres", database, max: 12, supervise: false, schedule: false, migrate });
    boss.on("error", (error) => console.error(error));
    await boss.start();
    return boss;
}

// Until it is told that all are done.
async function work(boss, finished, isOver = () => false) {
    while (!isOver()) {
        const jobs = await boss.fetch(QUEUE, { batchSize: peer.BATCH });
        if (!jobs || !jobs.length) continue;
        await boss.complete(QUEUE, jobs.map((job) => job.id));
        finished(jobs.length);
    }
}

async function measures() {
    await peer.newDatabase(database);
    const boss = await open(true);
    await boss.createQueue(QUEUE);
    const bulk = (n) => peer.inBatches(n, peer.BATCH, (payloads) => boss.insert(QUEUE, payloads.map((data) => ({ data }))));
    return {
        async life(n) {
            const c = peer.counter(n);
            const begin = peer.seconds();
            const working = work(boss, c.done, () => c.left <= 0);
            await bulk(n);
            await working;
            return peer.seconds() - begin;
        },
        async drain(n) {
            await bulk(n);
            return peer.drain(n);
        },
        async add(n) {
            const begin = peer.seconds();
            await peer.concurrently(CALLERS, n, (data) => boss.send(QUEUE, data));
            return peer.seconds() - begin;
        },
    };
}

if (peer.isChild()) {
    const boss = await open(false);
    peer.childMain(() => work(boss, peer.sayFinished()));
} else {
    peer.answer(await (await measures())[peer.measure](peer.count));
}
