/* The client and the worker against a real server: PAWL_BIN=build/pawl node --test clients/node/test/ */
import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { createInterface } from 'node:readline';
import { after, before, test } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import { Client, Fail, Problem, Retry, Snooze, Spawn, Unavailable, Worker } from '../src/index.js';

const BIN = process.env.PAWL_BIN;
if (!BIN) throw new Error('PAWL_BIN does not say where the binary is');
const FACTOR = Number(process.env.PAWL_TIMEOUT_FACTOR ?? 1);
const HERE = path.dirname(new URL(import.meta.url).pathname);

class Server {
  folder = mkdtempSync(path.join(tmpdir(), 'pawl-node-'));
  listen = '127.0.0.1:0';

  async start() {
    this.process = spawn(BIN, ['serve', '--store', 'sqlite:t.db', '--listen', this.listen, '--lease', '2s'], { cwd: this.folder, stdio: ['ignore', 'ignore', 'pipe'] });
    this.ended = new Promise((resolve) => this.process.on('exit', resolve));
    for await (const line of createInterface({ input: this.process.stderr })) {
      const found = /listening on http:\/\/([^\s,]+)/.exec(line);
      if (!found) continue;
      [, this.listen] = found;
      this.url = `http://${this.listen}`;
      break;
    }
    this.process.stderr.resume();
    return this;
  }

  async kill() {
    this.process.kill('SIGKILL');
    await this.ended;
  }

  async end() {
    this.process.kill('SIGTERM');
    await this.ended;
    rmSync(this.folder, { recursive: true, force: true });
  }
}

async function until(what, look, ms = 30_000) {
  const deadline = performance.now() + ms * FACTOR;
  while (performance.now() < deadline) {
    const found = await look();
    if (found) return found;
    await sleep(10);
  }
  throw new Error(`did not happen: ${what}`);
}

let server;
let client;
before(async () => {
  server = await new Server().start();
  client = new Client({ url: server.url });
});
after(async () => {
  client.close();
  await server.end();
});

test('tasks', async () => {
  const id = await client.enqueue('greet', { a: [1] }, { queue: 'q', key: 'k', priority: 3, delay: 3_600_000 });
  assert.equal(await client.enqueue('greet', { a: 2 }, { queue: 'q', key: 'k' }), id);
  assert.deepEqual((await client.get(id)).payload, { a: 2 });
  const results = await client.enqueueMany(Array.from({ length: 150 }, (_, n) => ({ type: 'many', queue: 'q', payload: n })));
  assert.equal(new Set(results.map((result) => result.id)).size, 150);
  let count = 0;
  for await (const task of client.list({ type: 'many' })) count += task.type === 'many';
  assert.equal(count, 150);
  await client.cancel(id);
  assert.equal((await client.get(id, { brief: true })).state, 'cancelled');
  assert.notEqual(await client.retry(id), id);
  const blob = await client.enqueue('blob', new Uint8Array([0, 255]), { queue: 'q' });
  assert.equal((await client.get(blob)).payload_base64, 'AP8=');
});

test('problems', async () => {
  await assert.rejects(client.get('0000000000001'), (error) => error instanceof Problem && error.status === 404 && error.type === 'not_found');
  await assert.rejects(new Client({ url: 'http://127.0.0.1:1' }).enqueue('x'), Unavailable);
  assert.throws(() => new Client({ url: 'ftp://here' }), TypeError);
});

test('outcomes', async () => {
  const worker = new Worker({ url: server.url, retryDelay: 3_600_000 });
  worker
    .task('ok', (run) => {
      run.log('hello');
      run.log('careful', 'warn');
      run.progress(50, 'half');
      return { sum: run.payload.reduce((a, b) => a + b) };
    })
    .task('bytes', async () => new Uint8Array([1, 2]))
    .task('retry', () => {
      throw new Retry('busy', { delay: 3_600_000, code: 'later' });
    })
    .task('fail', () => {
      throw new Fail('never');
    })
    .task('crash', (run) => run.nothing.here)
    .task('snooze', () => {
      throw new Snooze(3_600_000);
    })
    .task('spawn', () => new Spawn('parent', [{ type: 'child', queue: 'other' }]))
    .task('large', () => 'x'.repeat(100_000));
  const ids = {};
  for (const type of ['ok', 'bytes', 'retry', 'fail', 'crash', 'snooze', 'spawn', 'large']) ids[type] = await client.enqueue(type, [1, 2, 3]);
  const ended = await worker.run({ once: true });
  const seen = {};
  for (const [type, id] of Object.entries(ids)) seen[type] = await client.get(id);
  assert.deepEqual(
    Object.fromEntries(Object.entries(seen).map(([type, task]) => [type, task.display])),
    { ok: 'succeeded', bytes: 'succeeded', retry: 'retrying', fail: 'failed', crash: 'retrying', snooze: 'scheduled', spawn: 'succeeded', large: 'failed' },
  );
  assert.deepEqual([seen.ok.result, seen.ok.progress], [{ sum: 6 }, 50]);
  assert.deepEqual(seen.ok.log.map((line) => [line.level, line.text]), [['info', 'hello'], ['warn', 'careful']]);
  assert.deepEqual([seen.retry.error, seen.retry.code], ['busy', 'later']);
  assert.equal(seen.crash.code, 'TypeError');
  assert.match(seen.crash.log[0].text, /pawl\.test\.js/);
  assert.equal(seen.bytes.result_base64, 'AQI=');
  assert.equal(ended.succeeded, 3);
  const children = [];
  for await (const task of client.list({ queue: 'other' })) children.push(task.type);
  assert.deepEqual(children, ['child']);
});

test('cancel and timeout abort the signal', async () => {
  const reasons = [];
  const worker = new Worker({ url: server.url, queues: ['slow'] }).task('slow', async (run) => {
    await sleep(60_000, undefined, { signal: run.signal }).catch(() => reasons.push(run.stopping));
    throw run.signal.reason;
  });
  const working = worker.run({ signals: false });
  const id = await client.enqueue('slow', null, { queue: 'slow' });
  await until('it runs', async () => (await client.get(id)).state === 'leased');
  await client.cancel(id);
  await until('it ends', async () => (await client.get(id)).state === 'cancelled');
  const timed = await client.enqueue('slow', null, { queue: 'slow', timeout: 200, maxAttempts: 1 });
  await until('it times out', async () => (await client.get(timed)).state === 'failed');
  assert.deepEqual(reasons, ['cancelled', 'timeout']);
  worker.stop();
  await working;
});

test('a worker is killed', async () => {
  const program = `import { Worker } from '${HERE}/../src/index.js';
    await new Worker({ url: process.argv[1], queues: ['victims'], lease: 500 }).task('victim', async (run) => {
      console.log(run.fence);
      await new Promise((resolve) => setTimeout(resolve, 60000));
    }).run();`;
  const victim = spawn(process.execPath, ['--input-type=module', '-e', program, server.url], { stdio: ['ignore', 'pipe', 'inherit'] });
  const id = await client.enqueue('victim', null, { queue: 'victims' });
  for await (const line of createInterface({ input: victim.stdout })) {
    assert.equal(line, '1');
    break;
  }
  victim.kill('SIGKILL');
  const worker = new Worker({ url: server.url, queues: ['victims'] }).task('victim', (run) => run.fence);
  const working = worker.run({ signals: false });
  await until('another has it', async () => (await client.get(id)).state === 'succeeded');
  assert.deepEqual((await client.get(id)).attempts.map((attempt) => attempt.outcome), ['rescued', 'succeeded']);
  worker.stop();
  await working;
});

test('a signal lets what runs finish', async () => {
  const program = `import { Worker } from '${HERE}/../src/index.js';
    const ended = await new Worker({ url: process.argv[1], queues: ['last'] }).task('last', async () => {
      console.log('runs');
      await new Promise((resolve) => process.stdin.once('data', resolve));
      process.stdin.destroy();
      return 'done';
    }).run();
    console.log(JSON.stringify(ended));`;
  const last = spawn(process.execPath, ['--input-type=module', '-e', program, server.url], { stdio: ['pipe', 'pipe', 'inherit'] });
  const exited = new Promise((resolve) => last.on('exit', resolve));
  const id = await client.enqueue('last', null, { queue: 'last' });
  const lines = [];
  for await (const line of createInterface({ input: last.stdout })) {
    lines.push(line);
    if (line !== 'runs') continue;
    last.kill('SIGTERM');
    last.stdin.write('go\n');
  }
  assert.equal(await exited, 0);
  assert.deepEqual(lines, ['runs', '{"succeeded":1}']);
  assert.equal((await client.get(id)).result, 'done');
});

test('the server is killed', async () => {
  const fences = [];
  let lost;
  const worker = new Worker({ url: server.url, queues: ['held'] }).task('held', async (run) => {
    fences.push(run.fence);
    if (run.fence > 1) return run.fence;
    await sleep(60_000, undefined, { signal: run.signal }).catch(() => {
      lost = run.stopping;
    });
    return 0;
  });
  const working = worker.run({ signals: false });
  const id = await client.enqueue('held', null, { queue: 'held' });
  await until('it runs', () => fences.length);
  await server.kill();
  await server.start();
  await until('it runs again', async () => fences.length > 1 && (await client.get(id).catch(() => ({}))).state === 'succeeded');
  assert.equal(lost, 'lease_lost');
  assert.equal((await client.get(id)).result, fences.at(-1));
  worker.stop();
  const ended = await working;
  assert.deepEqual(ended, { lost: 1, succeeded: 1 });
});
