/* A worker: claims, runs, renews and reports, at the same time on one thread. */
import os from 'node:os';
import { Link, PawlError, Problem, Unavailable } from './link.js';
import { Ledger, Session, ended, succeeded } from './run.js';

const AGAIN = 500; // ms after the server did not answer
const WAIT = 5000; // ms of a claim

export class Worker {
  #options;
  #link;
  #handlers = new Map();
  #ledger;
  #session;
  #running = 0;
  #stopping = false;
  #closed = false;
  #wakers = new Set();
  #claiming = new AbortController();
  #ended = {};
  #endRenewing;

  constructor(options = {}) {
    this.#options = { queues: ['default'], concurrency: 10, ...options };
    this.#link = new Link({ maxSockets: 8, ...options });
    this.#ledger = new Ledger(() => this.#wake(), (run, what) => {
      this.#ended[what] = (this.#ended[what] ?? 0) + 1;
      this.#options.observer?.(run, what);
    });
  }

  /** The handler of a type; "*" for all that have none of their own. */
  task(type, handler) {
    this.#handlers.set(type, handler);
    return this;
  }

  /** Claims nothing more; `run` resolves when handlers have finished. */
  stop() {
    this.#stopping = true;
    this.#claiming.abort();
    this.#wake();
  }

  /** Works until `stop`, a signal, or a drain; with `once`, until nothing is due. Resolves to how many runs ended how. */
  async run({ signals = true, grace = 30_000, once = false } = {}) {
    if (!this.#handlers.size) throw new TypeError('the worker has no handler: register one with worker.task');
    const caught = () => (this.#stopping ? this.#interrupt() : this.stop());
    if (signals) for (const name of ['SIGINT', 'SIGTERM']) process.on(name, caught);
    const helpers = [this.#renewAll(), this.#reportAll()];
    try {
      await this.#claimAll(once);
    } finally {
      await this.#finish(grace, helpers);
      if (signals) for (const name of ['SIGINT', 'SIGTERM']) process.off(name, caught);
    }
    return { ...this.#ended };
  }

  // ---- waiting ---------------------------------------------------------------------------------------------------------------------

  #wake() {
    for (const waker of this.#wakers) waker();
  }

  /** Until something happens, or so many milliseconds have passed. */
  #pause(ms) {
    return new Promise((resolve) => {
      const done = () => {
        clearTimeout(timer);
        this.#wakers.delete(done);
        resolve();
      };
      const timer = setTimeout(done, ms);
      this.#wakers.add(done);
    });
  }

  // ---- claiming and running --------------------------------------------------------------------------------------------------------

  async #register() {
    const { name, queues, lease, maxAttempts, timeout, retryDelay } = this.#options;
    const body = { name: name ?? `${os.hostname()}:${process.pid}`.slice(0, 200), queues };
    if (!this.#handlers.has('*')) body.types = [...this.#handlers.keys()];
    if (maxAttempts !== undefined) body.max_attempts = maxAttempts;
    for (const [member, ms] of Object.entries({ lease, timeout, retry_delay: retryDelay })) if (ms !== undefined) body[member] = `${Math.max(1, Math.round(ms))}ms`;
    const sent = performance.now();
    return new Session(await this.#link.call('POST', '/v1/workers', body), sent);
  }

  async #claimAll(once) {
    for (let begun = false; !this.#stopping; ) {
      try {
        if (!this.#session || this.#session.gone || (this.#session.stopping && !this.#ledger.held.size)) {
          this.#session = await this.#register();
          begun = true;
        }
        if (this.#session.drain) return;
        const free = this.#options.concurrency - this.#running;
        if (free <= 0 || this.#session.stopping) await this.#pause(AGAIN);
        else if ((await this.#claim(this.#session, free, once ? 0 : WAIT)) === 0 && once && !this.#ledger.held.size) return;
      } catch (error) {
        if (this.#stopping) return;
        const refused = error instanceof Problem && !error.retryable && error.type !== 'unknown_worker';
        if (!(error instanceof PawlError) || !begun || refused) throw error;
        this.#options.onWarning?.(error);
        await this.#pause(AGAIN);
      }
    }
  }

  async #claim(session, most, wait) {
    const number = ++session.claims;
    const sent = performance.now();
    const body = { max: Math.min(most, 1000), wait: `${wait}ms`, number };
    let answer;
    try {
      answer = await this.#link.call('POST', `/v1/workers/${session.id}/claim`, body, { timeout: wait + 30_000, signal: this.#claiming.signal });
    } catch (error) {
      session.seen = number; // what it brought is not among what is held: the next renewal gives it back
      if (!this.#unknown(session, error)) throw error;
      return 0;
    }
    if (!this.#stopping) for (const task of answer.tasks) void this.#runOne(this.#ledger.take(task, session));
    session.seen = number;
    session.believe(answer, sent);
    return answer.tasks.length;
  }

  /** Whether the server said that it does not know this worker. */
  #unknown(session, error) {
    if (!(error instanceof Problem) || error.type !== 'unknown_worker') return false;
    session.gone = true;
    this.#ledger.lose(session);
    return true;
  }

  async #runOne(run) {
    this.#running++;
    let item;
    try {
      const handler = this.#handlers.get(run.type) ?? this.#handlers.get('*');
      item = succeeded(await handler(run));
    } catch (error) {
      item = ended(run, error);
    }
    this.#running--;
    this.#ledger.end(run, item);
  }

  #interrupt() {
    for (const run of this.#ledger.held.values()) if (!run.done) run.stop('shutdown');
  }

  // ---- speaking --------------------------------------------------------------------------------------------------------------------

  async #renewAll() {
    let last = 0;
    while (!this.#closed) {
      const session = this.#session;
      const every = session && !session.gone ? session.renew : AGAIN;
      if (session && !session.gone && performance.now() - last >= every) {
        last = performance.now();
        try {
          const answer = await this.#link.call('POST', `/v1/workers/${session.id}/renew`, this.#ledger.renewal(session), { timeout: 10_000 });
          session.believe(answer, last);
          this.#ledger.renewed(answer);
        } catch (error) {
          this.#unknown(session, error);
        }
      }
      if (session && session.left <= 0) this.#ledger.lose(session);
      const wait = Math.min(every, Math.max(10, last + every - performance.now()), session && !session.gone && session.left > 0 ? session.left + 1 : every);
      await new Promise((resolve) => {
        const timer = setTimeout(resolve, wait);
        this.#endRenewing = () => {
          clearTimeout(timer);
          resolve();
        };
      });
    }
  }

  async #reportAll() {
    for (;;) {
      const session = this.#session;
      const items = session ? this.#ledger.report(session) : [];
      if (items.length) await this.#bring(session, items);
      else if (this.#closed) return;
      else await this.#pause(1000);
    }
  }

  async #bring(session, items) {
    try {
      const sent = performance.now();
      const answer = await this.#link.call('POST', `/v1/workers/${session.id}/report`, { items: items.map(({ item }) => item) }, { timeout: 60_000 });
      session.believe(answer, sent);
      this.#ledger.reported(items, answer);
    } catch (error) {
      const again = error instanceof Unavailable || error.retryable;
      if (!this.#unknown(session, error) && again && session.left > 0) {
        this.#ledger.unsaid(items);
        await this.#pause(100);
        return;
      }
      if (!again && !session.gone) this.#options.onWarning?.(error);
      for (const { run, item } of items) if (item.outcome) this.#ledger.drop(run);
    }
    this.#wake();
  }

  // ---- the end ---------------------------------------------------------------------------------------------------------------------

  async #finish(grace, helpers) {
    this.#stopping = true;
    await this.#idle(grace);
    this.#interrupt();
    await this.#idle(5000);
    this.#closed = true;
    this.#wake();
    this.#endRenewing?.();
    await Promise.all(helpers);
    try {
      if (this.#session && !this.#session.gone) await this.#link.call('DELETE', `/v1/workers/${this.#session.id}`, undefined, { timeout: 5000 });
    } catch {
      // its lease ends by itself
    }
    this.#link.close();
  }

  async #idle(ms) {
    const until = performance.now() + ms;
    while (this.#ledger.held.size && performance.now() < until) await this.#pause(Math.min(50, until - performance.now()));
  }
}
