/* Runs, how they end, and the ledger of what a worker has. Nothing here waits. */
import { taskOf } from './client.js';

const LOG_LINES = 1000;
const ITEMS = 500; // of one report

/** Throw it to fail this attempt: again by policy, or after `delay` milliseconds. */
export class Retry extends Error {
  constructor(message = '', { delay, code, cause } = {}) {
    super(message, { cause });
    this.name = 'Retry';
    this.delay = delay;
    this.code = code;
  }
}

/** Throw it to fail the task for good. */
export class Fail extends Error {
  constructor(message = '', { code, cause } = {}) {
    super(message, { cause });
    this.name = 'Fail';
    this.code = code;
  }
}

/** Throw it to have the task again after `delay` milliseconds; costs no attempt. */
export class Snooze extends Error {
  constructor(delay) {
    super(`again in ${delay} ms`);
    this.name = 'Snooze';
    this.delay = delay;
  }
}

/** Return it to have tasks stored in the same commit as this one's success. */
export class Spawn {
  constructor(result, tasks) {
    this.result = result;
    this.tasks = tasks;
  }
}

/** One execution of one task. */
export class Run {
  #abort = new AbortController();
  #said = {};
  #lines = 0;
  #speak;

  constructor(task, session, speak) {
    this.#speak = speak;
    this.session = session;
    for (const name of ['id', 'fence', 'type', 'queue', 'key', 'tenant', 'attempt', 'headers', 'traceparent']) this[name] = task[name];
    this.maxAttempts = task.max_attempts;
    this.deadline = task.deadline ? new Date(task.deadline) : null;
    this.payload = 'payload_base64' in task ? Buffer.from(task.payload_base64, 'base64') : task.payload;
    this.done = false;
  }

  /** Aborted when the run should end: pass it to fetch, timers and the like. */
  get signal() {
    return this.#abort.signal;
  }

  /** Why it should end: cancelled, timeout, shutdown or lease_lost (make no more effects); undefined: go on. */
  get stopping() {
    return this.#abort.signal.aborted ? this.#abort.signal.reason.code : undefined;
  }

  /** A line for the task's log. */
  log(text, level = 'info') {
    if (++this.#lines > LOG_LINES) return;
    (this.#said.log ??= []).push({ level, text: String(text) });
    this.#speak(this);
  }

  /** Shown while the task runs. */
  progress(percent, text) {
    this.#said.progress = Math.max(0, Math.min(100, Math.round(percent)));
    if (text !== undefined) this.#said.progress_text = text;
    this.#speak(this);
  }

  stop(reason) {
    if (this.stopping) return;
    this.#abort.abort(Object.assign(new Error(`the run is to stop: ${reason}`), { name: 'AbortError', code: reason }));
  }

  get lease() {
    return { id: this.id, fence: this.fence };
  }

  /** What it said since the last time. */
  take() {
    const said = this.#said;
    this.#said = {};
    return said;
  }

  putBack({ log = [], progress, progress_text }) {
    const now = this.#said;
    this.#said = { ...(progress !== undefined && { progress }), ...(progress_text !== undefined && { progress_text }), ...now };
    const lines = [...log, ...(now.log ?? [])];
    if (lines.length) this.#said.log = lines;
  }
}

/** What a handler returned, as an item of a report. */
export function succeeded(value) {
  const item = { outcome: 'succeeded' };
  if (value instanceof Spawn) {
    item.spawn = value.tasks.map(({ type, payload, ...options }) => taskOf(type, payload, options));
    value = value.result;
  }
  if (value instanceof Uint8Array) Object.assign(item, { result_base64: Buffer.from(value).toString('base64'), result_type: 'application/octet-stream' });
  else if (value !== undefined && value !== null) item.result = value;
  return item;
}

/** What a handler threw, as an item of a report. */
export function ended(run, error) {
  if (error instanceof Snooze) return { outcome: 'snooze', delay_us: Math.round(error.delay * 1000) };
  if (run.stopping === 'cancelled') return { outcome: 'cancelled' };
  if (run.stopping === 'shutdown') return { outcome: 'released' };
  if (run.stopping === 'timeout') return { outcome: 'retry', error: 'timed out', code: 'timeout' };
  const own = error instanceof Retry || error instanceof Fail;
  const item = { outcome: error instanceof Fail ? 'failed' : 'retry', error: String(error?.message || error).slice(0, 8000) };
  const code = own ? error.code : (error?.code ?? error?.name);
  if (code !== undefined) item.code = String(code).slice(0, 200);
  if (error instanceof Retry && error.delay !== undefined) item.delay_us = Math.round(error.delay * 1000);
  if (!own && error?.stack) run.log(error.stack.slice(0, 4000), 'error');
  return item;
}

/** A registration: its id, and how long the server's promise lasts. */
export class Session {
  constructor(answer, sent) {
    this.id = answer.worker;
    this.renew = answer.renew_us / 1000;
    this.until = sent + answer.lease_us / 1000;
    this.gone = this.drain = this.stopping = false;
    this.claims = this.seen = 0;
  }

  /** The promise counts from when the request was sent. */
  believe(answer, sent) {
    this.until = sent + answer.lease_us / 1000;
    this.drain = answer.drain;
    this.stopping = answer.stopping;
  }

  get left() {
    return this.gone ? 0 : this.until - performance.now();
  }
}

/** What this worker has, and what is to be said about it. */
export class Ledger {
  held = new Map(); // until the server has heard of their end
  outbox = []; // {run, item}
  chatty = new Set(); // with something to say before their end

  constructor(news, observer) {
    this.news = news;
    this.observer = observer;
  }

  take(task, session) {
    const run = new Run(task, session, (speaker) => {
      this.chatty.add(speaker);
      this.news();
    });
    this.held.set(`${run.id}/${run.fence}`, run);
    return run;
  }

  drop(run, what = 'lost') {
    this.chatty.delete(run);
    if (this.held.delete(`${run.id}/${run.fence}`)) this.observer?.(run, what);
  }

  /** Its outcome is known; what was lost says nothing. */
  end(run, item) {
    run.done = true;
    if (run.stopping === 'lease_lost' || run.session.left <= 0) this.drop(run);
    else this.outbox.push({ run, item });
    this.news();
  }

  renewal(session) {
    const mine = [...this.held.values()].filter((run) => run.session === session);
    return { number: session.seen, held: mine.map((run) => run.lease) };
  }

  renewed(answer) {
    for (const { id, fence } of answer.lost) this.held.get(`${id}/${fence}`)?.stop('lease_lost');
    for (const { id, fence, reason } of answer.stop) this.held.get(`${id}/${fence}`)?.stop(reason);
  }

  /** The server does not know this worker any more, or its promise is over. */
  lose(session) {
    for (const run of this.held.values()) if (run.session === session) run.stop('lease_lost');
  }

  /** What is to be said next: ends first, then signs of life. */
  report(session) {
    const items = [];
    for (const { run } of this.outbox.filter(({ run }) => run.session !== session)) this.drop(run);
    this.outbox = this.outbox.filter(({ run }) => run.session === session);
    for (const { run, item } of this.outbox.splice(0, ITEMS)) {
      this.chatty.delete(run);
      items.push({ run, item: { ...run.lease, ...run.take(), ...item } });
    }
    for (const run of this.chatty) {
      if (items.length >= ITEMS) break;
      this.chatty.delete(run);
      if (run.session === session && !run.done) items.push({ run, item: { ...run.lease, ...run.take() } });
    }
    return items;
  }

  /** It did not get through: all of it again. */
  unsaid(items) {
    for (const { run, item } of items) {
      const { id, fence, log, progress, progress_text, ...rest } = item;
      run.putBack({ log, progress, progress_text });
      if ('outcome' in item) this.outbox.push({ run, item: rest });
      else this.chatty.add(run);
    }
  }

  reported(items, answer) {
    answer.results.forEach((result, i) => {
      const { run, item } = items[i];
      if (result.status === 'busy') this.unsaid([items[i]]);
      else if (result.status === 'invalid' && item.outcome) {
        const error = `what the run left was refused: ${result.detail ?? ''}`;
        this.outbox.push({ run, item: { outcome: 'failed', error, code: 'invalid_result' } });
      } else if (result.status === 'lost') {
        run.stop('lease_lost');
        if (item.outcome) this.drop(run);
      } else if (item.outcome) this.drop(run, result.as);
    });
  }
}
