// BullMQ on Redis, 100 jobs at once in a process.
import * as peer from "./common.mjs";

const QUEUE = "noop";
const CONCURRENCY = 100;
const { Queue, Worker } = peer.require("bullmq");
const connection = { host: "127.0.0.1", port: Number(peer.server), maxRetriesPerRequest: null };

function start(finished) {
    const options = { connection, concurrency: CONCURRENCY, removeOnComplete: { count: 0 } };
    const worker = new Worker(QUEUE, async () => {}, options);
    worker.on("completed", () => finished());
    return worker.waitUntilReady();
}

async function measures() {
    const queue = new Queue(QUEUE, { connection, defaultJobOptions: { removeOnComplete: true } });
    await queue.waitUntilReady();
    await queue.obliterate({ force: true });
    const bulk = (n) =>
        peer.inBatches(n, peer.BATCH, (payloads) => queue.addBulk(payloads.map((data) => ({ name: QUEUE, data }))));
    return {
        async life(n) {
            const c = peer.counter(n);
            await start(() => c.done());
            const begin = peer.seconds();
            await bulk(n);
            await c.all;
            return peer.seconds() - begin;
        },
        async drain(n) {
            await bulk(n);
            return peer.drain(n);
        },
        async add(n) {
            const begin = peer.seconds();
            await peer.concurrently(CONCURRENCY, n, (data) => queue.add(QUEUE, data));
            return peer.seconds() - begin;
        },
    };
}

if (peer.isChild()) peer.childMain(() => start(peer.sayFinished()));
else peer.answer(await (await measures())[peer.measure](peer.count));
