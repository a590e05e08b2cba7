// graphile-worker, as its own benchmark sets it up: local queue of 500, completions batched, 24 jobs at once in a process.
import * as peer from "./common.mjs";

const CONCURRENCY = 24;
const database = "graphile";
const connectionString = `postgresql:///${database}?host=${peer.server}&user=postgres`;
const { run, makeWorkerUtils, Logger } = await peer.load("graphile-worker/dist/index.js");
const { Pool } = peer.require("pg");
const logger = new Logger(() => () => {});
process.env.NO_LOG_SUCCESS = "1";

const preset = {
    worker: {
        connectionString,
        concurrentJobs: CONCURRENCY,
        maxPoolSize: CONCURRENCY + 1,
        localQueue: { size: 500, refetchDelay: { durationMs: 10 } },
        completeJobBatchDelay: 0,
        failJobBatchDelay: 0,
        logger,
    },
};

const start = (finished) => run({ preset, logger, noHandleSignals: true }, { noop: () => void finished() });

async function measures() {
    await peer.newDatabase(database);
    const pool = new Pool({ connectionString, max: CONCURRENCY + 1 });
    pool.on("error", () => {});
    pool.on("connect", (client) => client.on("error", () => {}));
    const utils = await makeWorkerUtils({ pgPool: pool, preset: { worker: { logger } }, logger });
    await utils.migrate();
    const addJobs = `SELECT 1 FROM graphile_worker.add_jobs(
        array(SELECT json_populate_recordset(null::graphile_worker.job_spec, $1::json)))`;
    const bulk = (n) =>
        peer.inBatches(n, peer.BATCH, (payloads) =>
            pool.query(addJobs, [JSON.stringify(payloads.map((payload) => ({ identifier: "noop", payload })))]),
        );
    // A job whose completion is committed is gone.
    const gone = async () => {
        while ((await pool.query("SELECT FROM graphile_worker._private_jobs LIMIT 1")).rowCount) await peer.pause();
    };
    return {
        async life(n) {
            const c = peer.counter(n);
            await start(() => c.done());
            const begin = peer.seconds();
            await bulk(n);
            await c.all;
            await gone();
            return peer.seconds() - begin;
        },
        async drain(n) {
            await bulk(n);
            await pool.query("ANALYZE");
            return peer.drain(n, gone);
        },
        async add(n) {
            const begin = peer.seconds();
            await peer.concurrently(CONCURRENCY, n, (payload) => utils.addJob("noop", payload));
            return peer.seconds() - begin;
        },
    };
}

if (peer.isChild()) peer.childMain(() => start(peer.sayFinished()));
else peer.answer(await (await measures())[peer.measure](peer.count));
