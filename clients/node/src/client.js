/* Handing over tasks and looking at them. */
import { Link } from './link.js';

const RENAMED = { rateKey: 'rate_key', maxAttempts: 'max_attempts', createdBy: 'created_by', contentType: 'content_type' };

/** A task as the API takes it. Durations are milliseconds. */
export function taskOf(type, payload, options = {}) {
  const { delay, at, timeout, ...rest } = options;
  const task = { type };
  for (const [name, value] of Object.entries(rest)) if (value !== undefined) task[RENAMED[name] ?? name] = value;
  if (payload instanceof Uint8Array) {
    task.payload_base64 = Buffer.from(payload).toString('base64');
    task.content_type ??= 'application/octet-stream';
  } else if (payload !== undefined) {
    task.payload = payload;
  }
  if (delay !== undefined) task.delay_us = Math.round(delay * 1000);
  if (timeout !== undefined) task.timeout_us = Math.round(timeout * 1000);
  if (at !== undefined) task.at = at.toISOString();
  return task;
}

/** A server's API. */
export class Client {
  #link;

  constructor(options = {}) {
    this.#link = new Link(options);
  }

  /** Hands over a task; resolves to its id once it is committed. */
  async enqueue(type, payload, options) {
    return (await this.#link.call('POST', '/v1/tasks', taskOf(type, payload, options))).id;
  }

  /** Many in one commit; an outcome for each. */
  async enqueueMany(tasks) {
    const body = tasks.map(({ type, payload, ...options }) => taskOf(type, payload, options));
    return (await this.#link.call('POST', '/v1/tasks/bulk', body)).results;
  }

  /** A task with its attempts and, unless brief, its log, trail and why it is where it is. */
  get(id, { brief = false } = {}) {
    return this.#link.call('GET', `/v1/tasks/${encodeURIComponent(id)}${brief ? '?brief=true' : ''}`);
  }

  /** Tasks that match, newest first; asks for more pages as they are needed. */
  async *list(filter = {}) {
    const parameters = new URLSearchParams(Object.entries(filter).filter(([, value]) => value !== undefined));
    for (;;) {
      const page = await this.#link.call('GET', `/v1/tasks?${parameters}`);
      yield* page.tasks;
      if (!page.next) return;
      parameters.set('cursor', page.next);
    }
  }

  /** A pending task is cancelled, a running one asked to stop. */
  async cancel(id) {
    await this.#link.call('POST', `/v1/tasks/${encodeURIComponent(id)}/cancel`);
  }

  /** Runs a failed or cancelled task again, as a new one. */
  async retry(id) {
    return (await this.#link.call('POST', `/v1/tasks/${encodeURIComponent(id)}/retry`)).id;
  }

  close() {
    this.#link.close();
  }
}
