/** Where a server is, and who asks. */
export interface ConnectOptions {
  /** http://HOST:PORT, https://HOST:PORT or unix:/PATH; else $PAWL_SERVER, else this machine. */
  url?: string;
  /** Else the first line of `tokenFile`, else $PAWL_TOKEN. */
  token?: string;
  tokenFile?: string;
  /** Options of https.Agent: ca, cert, key, ... */
  tls?: object;
}

export type Json = null | boolean | number | string | Json[] | { [name: string]: Json };

/** Durations are milliseconds. */
export interface TaskOptions {
  queue?: string;
  /** Identity: at most one live task of a tenant has this key. */
  key?: string;
  tenant?: string;
  /** Lower runs first. */
  priority?: number;
  delay?: number;
  at?: Date;
  maxAttempts?: number;
  timeout?: number;
  rateKey?: string;
  createdBy?: string;
  contentType?: string;
  traceparent?: string;
  headers?: string;
  id?: string;
}

export interface NewTask extends TaskOptions {
  type: string;
  payload?: Json | Uint8Array;
}

export interface BulkResult {
  index: number;
  id?: string;
  outcome?: 'created' | 'existing' | 'updated' | 'replaced';
  status?: string;
  detail?: string;
}

export type State = 'waiting' | 'pending' | 'leased' | 'succeeded' | 'failed' | 'cancelled';

/** A task as the API shows it; docs/api.md has all members. */
export interface TaskInfo {
  id: string;
  type: string;
  queue: string;
  state: State;
  display: string;
  tenant: string | null;
  key: string | null;
  priority: number;
  attempt: number;
  failures: number;
  fence: number;
  payload?: Json;
  payload_base64?: string;
  result?: Json;
  result_base64?: string;
  error: string | null;
  code: string | null;
  reason: string | null;
  progress: number | null;
  [member: string]: unknown;
}

export interface ListFilter {
  state?: string;
  type?: string;
  queue?: string;
  tenant?: string;
  key?: string;
  limit?: number;
}

/** A server's API. */
export class Client {
  constructor(options?: ConnectOptions);
  /** Hands over a task; resolves to its id once it is committed. A task with a key may be sent again: it is the same one. */
  enqueue(type: string, payload?: Json | Uint8Array, options?: TaskOptions): Promise<string>;
  /** Many in one commit; an outcome for each. */
  enqueueMany(tasks: NewTask[]): Promise<BulkResult[]>;
  get(id: string, options?: { brief?: boolean }): Promise<TaskInfo>;
  /** Tasks that match, newest first; asks for more pages as they are needed. */
  list(filter?: ListFilter): AsyncGenerator<TaskInfo, void, void>;
  /** A pending task is cancelled, a running one asked to stop. */
  cancel(id: string): Promise<void>;
  /** Runs a failed or cancelled task again, as a new one whose id is returned. */
  retry(id: string): Promise<string>;
  close(): void;
}

export type StopReason = 'cancelled' | 'timeout' | 'shutdown' | 'lease_lost';
export type Ending = 'succeeded' | 'retrying' | 'failed' | 'snoozed' | 'cancelled' | 'released' | 'lost';

/** One execution of one task. */
export interface Run<Payload = any> {
  readonly id: string;
  /** Grows with every time the task is handed out: give it to whatever must not see an effect twice. */
  readonly fence: number;
  readonly type: string;
  readonly queue: string;
  /** As it was dispatched; a Buffer if it was no JSON. */
  readonly payload: Payload;
  readonly attempt: number;
  readonly maxAttempts: number;
  readonly deadline: Date | null;
  readonly key: string | null;
  readonly tenant: string | null;
  readonly headers: string | null;
  readonly traceparent: string | null;
  /** Aborted when the run should end: pass it to fetch, timers and the like. */
  readonly signal: AbortSignal;
  /** Why it should end; lease_lost: make no more effects. */
  readonly stopping: StopReason | undefined;
  /** A line for the task's log, kept with the attempt whatever its outcome. */
  log(text: string, level?: 'debug' | 'info' | 'warn' | 'error'): void;
  /** Shown while the task runs. */
  progress(percent: number, text?: string): void;
}

export type Handler<Payload = any> = (run: Run<Payload>) => unknown;

export interface WorkerOptions extends ConnectOptions {
  /** ["default"] by default; at most 8. */
  queues?: string[];
  /** Handlers that run at a time; 10 by default. */
  concurrency?: number;
  /** For people. */
  name?: string;
  /** Milliseconds: silent for longer, it loses its tasks. */
  lease?: number;
  /** For tasks that do not say. */
  maxAttempts?: number;
  timeout?: number;
  retryDelay?: number;
  /** Told what became of each run. */
  observer?: (run: Run, what: Ending) => void;
  /** Told when the server does not answer, or refuses a report. */
  onWarning?: (error: Error) => void;
}

/** Runs tasks of some queues. What a handler returns is the result; it throws Retry, Fail or Snooze, or anything else, which counts as Retry. */
export class Worker {
  constructor(options?: WorkerOptions);
  /** The handler of a type; "*" for all that have none of their own. */
  task<Payload = any>(type: string, handler: Handler<Payload>): this;
  /** Works until `stop`, a signal, or a drain; with `once`, until nothing is due. Resolves to how many runs ended how. */
  run(options?: { signals?: boolean; grace?: number; once?: boolean }): Promise<Partial<Record<Ending, number>>>;
  /** Claims nothing more; `run` resolves when handlers have finished. */
  stop(): void;
}

/** Throw it to fail this attempt: again by policy, or after `delay` milliseconds. */
export class Retry extends Error {
  constructor(message?: string, options?: { delay?: number; code?: string; cause?: unknown });
}

/** Throw it to fail the task for good. */
export class Fail extends Error {
  constructor(message?: string, options?: { code?: string; cause?: unknown });
}

/** Throw it to have the task again after `delay` milliseconds; costs no attempt. */
export class Snooze extends Error {
  constructor(delay: number);
}

/** Return it to have tasks stored in the same commit as this one's success. */
export class Spawn {
  constructor(result: Json | Uint8Array | undefined, tasks: NewTask[]);
}

/** Whatever goes wrong between this program and a server. */
export class PawlError extends Error {}

/** The server could not be reached, or its answer was lost: what was asked may have happened all the same. */
export class Unavailable extends PawlError {}

/** The server refused. */
export class Problem extends PawlError {
  readonly status: number;
  /** A word for programs. */
  readonly type: string;
  /** What is wrong, and what to do. */
  readonly detail: string;
  readonly retryable: boolean;
}
