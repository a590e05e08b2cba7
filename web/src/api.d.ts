/* The HTTP API's types: made by scripts/api_types.py from the table of routes.
 *
 * Routes[R] of a route like "GET /v1/tasks/{id}" has its path and query parameters, its body and its answer. */

export type Id = string; /* 13 letters and digits */
export type Time = string; /* RFC 3339, UTC */
export type Json = null | boolean | number | string | Json[] | { [name: string]: Json };

export interface NewTask {
  type: string; /* routes the task to its handler */
  payload?: Json; /* any JSON value, kept byte for byte */
  payload_base64?: string; /* in place of payload: any bytes; say content_type too */
  content_type?: string; /* of the payload; application/json by default */
  queue?: string; /* the handler's, else "default" */
  key?: string; /* identity: at most one live task of a tenant has this key */
  tenant?: string; /* whose task it is */
  priority?: number; /* lower runs first */
  delay?: string; /* run after this long: "90s", "5m", "1h30m" */
  delay_us?: number; /* the same in microseconds */
  at?: Time; /* run at this instant; a past one means now */
  run_at?: Time; /* the same as at */
  max_attempts?: number; /* 0: by policy of whoever runs it */
  timeout?: string; /* of each attempt */
  timeout_us?: number; /* the same in microseconds */
  rate_key?: string; /* whose budget its start takes from */
  created_by?: string; /* who asked for it */
  traceparent?: string; /* W3C trace context, carried to the run */
  headers?: string; /* free text for the handler, at most 16 KiB */
  audit?: "full" | "minimal" | "errors" | "none"; /* how much of its trail is kept: full, minimal, errors, none */
  parents?: Id[]; /* it waits until these tasks and batches have ended */
  if_failed?: "cancel" | "run" | "hold"; /* if a parent fails or is cancelled: cancel it, run it, or hold it until the parent was retried */
  batch?: Id; /* of which it is a member */
  id?: Id; /* store it under this id, unless a task with it is stored already */
}

export interface Filter {
  state?: string; /* waiting, pending, scheduled, retrying, throttled, blocked, leased, running, stale, succeeded, failed or cancelled */
  type?: string; /* only tasks of this type */
  queue?: string; /* only tasks of this queue */
  tenant?: string; /* only tasks of this tenant */
  key?: string; /* only tasks with this key */
  q?: string; /* words that it must hold, as in a list */
  since?: Time; /* created then or later */
  until?: Time; /* created before then */
}

export interface Action {
  ids?: Id[]; /* these tasks, at most 1000 */
  filter?: Filter;
  note?: string; /* of an acknowledgement: why nothing is to be done */
}

export interface Rate {
  permits: number; /* starts per period */
  period?: string; /* "1m" */
  period_us?: number; /* the same in microseconds */
  burst?: number; /* starts saved up while a key is idle; permits by default */
  start_empty?: boolean; /* a new key has saved nothing */
  retries_free?: boolean; /* further attempts take nothing */
  discard?: boolean; /* fail what cannot start at once */
  horizon?: string; /* fail a task whose slot is farther away; 1h by default */
  horizon_us?: number; /* the same in microseconds */
  no_horizon?: boolean; /* let tasks wait however long */
}

export interface Most {
  most: number; /* tasks at a time, on all nodes; 0: no limit. Of tenants: 1 and 0 let them take turns and no longer; with a key: its weight */
  ordered?: boolean; /* scope key, one at a time: in the order of dispatch, retries included */
}

export interface ScheduleSpec {
  type?: string; /* of its tasks; needed to store it */
  cron?: string; /* when: a cron expression */
  every?: string; /* or so often: "30s", "15m", "2h", "1d", "2w", "1mo", "1y" */
  plan?: Plan;
  after?: string; /* or after each success of a task of this other schedule; none of the four: once, at its start */
  zone?: string; /* time zone by its IANA name; UTC by default */
  gap?: "run" | "skip"; /* a local time that clocks jump over: run right after it, or skip it */
  twice?: "first" | "both"; /* a local time that clocks show twice: run the first time, or both */
  start_now?: boolean; /* its first occurrence is now */
  start_in?: string; /* or so long from now: "5m" */
  start_in_us?: number; /* the same in microseconds */
  start_at?: Time; /* or at this time; of an interval also what it is counted from */
  until?: Time; /* no occurrence from then on */
  max_runs?: number; /* tasks it makes at most; 0: no limit */
  missed?: "skip" | "once" | "all"; /* occurrences that nobody fired in time: skip them, one run for all, or all */
  catch_up?: number; /* with missed "all": the last so many; 100 by default */
  overlap?: "forbid" | "queue" | "allow"; /* while a task of it is unfinished: skip, let one wait, or start another */
  not_weekdays?: ("SUN" | "MON" | "TUE" | "WED" | "THU" | "FRI" | "SAT")[]; /* never on these days */
  not_dates?: string[]; /* never on "2026-12-25", or "2026-12-24/2027-01-01" (both included) */
  not_times?: string[]; /* never within "22:00-06:00" (the end is not included) */
  variance?: string; /* fires up to so much later, by chance */
  variance_us?: number; /* the same in microseconds */
  queue?: string; /* of its tasks; "recurring" by default */
  tenant?: string; /* whose tasks they are */
  payload?: Json; /* of its tasks: any JSON value, kept byte for byte */
  payload_base64?: string; /* in place of payload: any bytes; say content_type too */
  content_type?: string; /* of the payload; application/json by default */
  rate_key?: string; /* whose budget their starts take from */
  rate_key_base64?: string; /* in place of rate_key: any bytes */
  priority?: number; /* lower runs first */
  max_attempts?: number; /* 0: by policy of whoever runs them */
  timeout?: string; /* of each attempt */
  timeout_us?: number; /* the same in microseconds */
  audit?: "full" | "minimal" | "errors" | "none"; /* how much of their trail is kept: full, minimal, errors, none */
  disabled?: boolean; /* a new one is stored, but fires nothing until it is enabled */
}

export interface Plan {
  times?: string[]; /* of the day: "09:30", "17:00:15"; midnight by default */
  weekdays?: ("SUN" | "MON" | "TUE" | "WED" | "THU" | "FRI" | "SAT")[]; /* only on these days */
  month_days?: number[]; /* only on these days of the month; 31 is also the last day of a shorter one */
  months?: number[]; /* only in these months */
  nth?: number; /* of the days that are left only the n-th of each month; negative: counted from its end */
}

export interface Run {
  payload?: Json; /* in place of the schedule's own */
}

export interface NewBatch {
  name?: string; /* one at a time has it; its id by default */
  within?: Id; /* the batch that it is a member of */
  on_finished?: NewTask;
  on_succeeded?: NewTask;
}

export interface NewWorker {
  name?: string; /* for people; the host and process are a good one */
  queues?: Json; /* an array of at most 8 names; ["default"] by default */
  types?: Json; /* an array of at most 200 types that it can run; all by default */
  lease?: string; /* silent for longer, it loses its tasks; half of the server's lease by default and at most */
  max_attempts?: number; /* of tasks that do not say */
  timeout?: string; /* of each attempt, for tasks that do not say */
  retry_delay?: string; /* before the first retry; doubles each time */
}

export interface Claim {
  max?: number; /* tasks at most; 1 by default */
  wait?: string; /* how long to wait for the first of them; 20s by default, at most two thirds of the lease */
  number?: number; /* of this claim: they grow. See "number" of a renewal */
}

export interface Renewal {
  held?: Json; /* an array of objects with id and fence: all that the worker has */
  number?: number; /* what came with claims up to this number, and is not among held, is given back */
}

export interface Report {
  items?: Json; /* an array of at most 1000 objects: see docs/workers.md */
}

export interface HookSpec {
  url: string; /* where to: http or https */
  events?: string[]; /* names of events, as /v1/events has them; succeeded, failed and cancelled by default */
  type?: string; /* only of tasks of this type */
  queue?: string; /* only of this queue */
  secret?: string; /* to sign with: "whsec_" and base64 of 24 to 64 bytes; made, and told once, if there is none. One that is replaced signs too for a day */
  disabled?: boolean; /* send nothing for now */
}

export interface Login {
  token: string; /* as "pawl tokens add" printed it */
}

export interface Receipt {
  id: Id;
  outcome: string;
}

export interface Done {
  done: string;
}

export interface Why {
  code: string;
  text: string;
  until: Time | null;
}

export interface Attempt {
  number: number;
  outcome: string;
  started_at: Time | null;
  finished_at: Time | null;
  duration_us?: number;
  fence: number;
  node: number;
  node_name: string | null;
  code: string | null;
  error: string | null;
  log_lines: number;
}

export interface LogLine {
  attempt: number;
  sequence: number;
  at: Time | null;
  level: string;
  text: string | null;
}

export interface Change {
  at: Time | null;
  from: string;
  to: string;
  fence: number;
  node_name: string | null;
  detail: string | null;
}

export interface Task {
  id: Id;
  type: string;
  queue: string;
  tenant: string | null;
  key: string | null;
  state: string;
  display: string | null;
  priority: number;
  created_at: Time | null;
  run_at: Time | null;
  started_at: Time | null;
  finished_at: Time | null;
  attempt: number;
  max_attempts: number;
  timeout_us: number;
  failures: number;
  rescues: number;
  interruptions: number;
  fence: number;
  node: number;
  node_name: string | null;
  cancel_asked: boolean;
  progress: number | null;
  progress_text: string | null;
  code: string | null;
  error: string | null;
  reason: string | null;
  schedule: string | null;
  retry_of: Id | null;
  retried_as: Id | null;
  resolved_at: Time | null;
  resolved_by: string | null;
  note: string | null;
  audit: string;
  created_by: string | null;
  traceparent: string | null;
  headers: string | null;
  rate_key?: string;
  rate_key_base64?: string;
  content_type: string | null;
  payload?: Json;
  payload_base64?: string;
  result_type: string | null;
  result?: Json;
  result_base64?: string;
  result_ref: string | null;
  attempts?: Attempt[];
  log?: LogLine[];
  audit_trail?: Change[];
  why?: Why;
}

export interface Batch {
  id: Id;
  name: string;
  state: string;
  within: Id | null;
  cancel_asked: boolean;
  total: number;
  unfinished: number;
  succeeded: number;
  failed: number;
  cancelled: number;
  created_at: Time | null;
  closed_at: Time | null;
  ended_at: Time | null;
}

export interface Batches {
  batches: Batch[];
  next: string | null;
}

export interface Tree {
  id: Id;
  batch: boolean;
  name?: string | null;
  type?: string | null;
  state: string;
  waits: boolean;
  held: boolean;
  parents?: Tree[];
  members?: Tree[];
  children?: Tree[];
  more?: boolean;
}

export interface Relative {
  id: Id;
  batch: boolean;
  name?: string | null;
  type?: string | null;
  state: string;
  waits: boolean;
  held: boolean;
  if_failed: string;
  result_type: string | null;
  result?: Json;
  result_base64?: string;
  result_ref: string | null;
  error: string | null;
}

export interface Relatives {
  relatives: Relative[];
  next: Id | null;
}

export interface Page {
  tasks: Task[];
  next: string | null;
  partial: boolean;
  looked_to: Time | null;
}

export interface Item {
  index: number;
  id?: Id;
  outcome?: string;
  status?: string;
  detail?: string;
}

export interface Bulk {
  results: Item[];
  stored: number;
  refused: number;
}

export interface Result {
  id: Id;
  status: string;
  detail?: string;
  as?: Id;
  outcome?: string;
}

export interface Results {
  results?: Result[];
  count: number;
}

export interface Queue {
  name: string;
  paused: boolean;
  served: boolean;
  waiting: number;
  pending: number;
  leased: number;
  failed: number;
  due: number;
  due_more: boolean;
  throttled: number;
  oldest_due_at: Time | null;
}

export interface Queues {
  queues: Queue[];
}

export interface Limit {
  type: string;
  key?: string | null;
  key_base64?: string;
  own: boolean;
  paused: boolean;
  permits: number;
  period_us: number;
  burst: number;
  start_empty: boolean;
  retries_free: boolean;
  discard: boolean;
  horizon_us: number;
  left: number;
  next_slot_at: Time | null;
  waiting: number;
  parked: number;
  running: number;
  parked_slot_at: Time | null;
  node: string | null;
}

export interface LimitTotals {
  parked: number;
  running: number;
  deferrals: number;
  rejected: number;
  opened: number;
}

export interface Limits {
  limits: Limit[];
  next: string | null;
  totals: LimitTotals;
}

export interface Place {
  scope: string;
  name: string;
  key?: string | null;
  key_base64?: string;
  own: boolean;
  most?: number;
  weight?: number;
  ordered: boolean;
  running: number;
  blocked: number;
  holder: Id | null;
}

export interface Places {
  concurrency: Place[];
  next: string | null;
}

export interface Occurrence {
  due_at?: Time;
  after?: Id;
  state: string;
  at: Time | null;
  task: Id | null;
  count: number;
  why: string | null;
}

export interface Schedule {
  name: string;
  status: string;
  reason: string | null;
  words: string;
  after: string | null;
  definition: ScheduleSpec;
  stored?: string;
  payload?: Json;
  payload_base64?: string;
  next_at: Time | null;
  occurrence_at: Time | null;
  last_at: Time | null;
  created_at: Time | null;
  changed_at: Time | null;
  runs: number;
  fired: number;
  skipped: number;
  succeeded: number;
  failed: number;
  open: number;
  waiting: number;
  last_task: Id | null;
  version: number;
  upcoming?: Time[];
  occurrences?: Occurrence[];
}

export interface Schedules {
  schedules: Schedule[];
  next: string | null;
}

export interface Put {
  name: string;
  outcome: string;
  words: string;
  next_at: Time | null;
}

export interface Times {
  times: Time[];
}

export interface Node {
  id: number;
  name: string | null;
  pid: number;
  alive: boolean;
  draining: boolean;
  born_at: Time | null;
  expires_at: Time | null;
  leases: number;
  queues: string | null;
}

export interface Nodes {
  nodes: Node[];
}

export interface Stats {
  now: Time | null;
  closed: string | null;
  waiting: number;
  pending: number;
  leased: number;
  dead: number;
  throttled: number;
  window_us: number;
  dispatched: number;
  succeeded: number;
  failed: number;
  cancelled: number;
  retried: number;
  rescued: number;
  wait_p50_us: number;
  wait_p99_us: number;
  run_p50_us: number;
  run_p99_us: number;
  step_us: number;
  steps: Step[];
}

export interface Step {
  at: Time | null;
  dispatched: number;
  succeeded: number;
  failed: number;
  cancelled: number;
  retried: number;
  rescued: number;
  wait_p50_us: number;
  wait_p99_us: number;
  run_p50_us: number;
  run_p99_us: number;
}

export interface Worker {
  worker: string;
  name: string;
  token: string | null;
  queues: string;
  types: string;
  held: number;
  waits: boolean;
  drain: boolean;
  registered_at: Time | null;
  seen_at: Time | null;
  lease_left_us: number;
}

export interface Workers {
  workers: Worker[];
}

export interface Registered {
  worker: string;
  lease_us: number;
  renew_us: number;
}

export interface ClaimedTask {
  id: Id;
  fence: number;
  type: string;
  queue: string;
  key: string | null;
  tenant: string | null;
  attempt: number;
  max_attempts: number;
  deadline: Time | null;
  headers: string | null;
  traceparent: string | null;
  content_type: string;
  payload?: Json;
  payload_base64?: string;
}

export interface Claimed {
  tasks: ClaimedTask[];
  lease_us: number;
  drain: boolean;
  stopping: boolean;
}

export interface Lease {
  id: Id;
  fence: number;
  reason?: string;
}

export interface Renewed {
  lost: Lease[];
  stop: Lease[];
  lease_us: number;
  renew_us: number;
  drain: boolean;
  stopping: boolean;
}

export interface ReportedItem {
  id: Id;
  fence: number;
  status: string;
  as?: string;
  detail?: string;
}

export interface Reported {
  results: ReportedItem[];
  lease_us: number;
  drain: boolean;
  stopping: boolean;
}

export interface Act {
  at: Time | null;
  who: string | null;
  action: string | null;
  detail: string | null;
  id: Id | null;
}

export interface Acts {
  acts: Act[];
  next: number | null;
}

export interface Event {
  at: Time | null;
  event: string;
  id: Id | null;
  type: string | null;
  queue: string | null;
  attempt: number;
  fence: number;
  delay_us?: number;
  percent?: number;
  lost_node?: number;
  text?: string;
  node: string | null;
}

export interface Hook {
  name: string;
  url: string;
  events: string[];
  type: string | null;
  queue: string | null;
  disabled: boolean;
  why: string | null;
  created_at: Time | null;
}

export interface Hooks {
  hooks: Hook[];
}

export interface HookMade {
  name: string;
  secret?: string;
}

export interface Gap {
  lost: number | null;
}

export interface Alive {
  status: string;
  version: string;
}

export interface Ready {
  status: string;
  text?: string | null;
  store_latency_us?: number;
  loop_lag_us?: number;
  lease_left_us?: number;
  running?: number;
  ready?: number;
  stuck?: number;
  long_running?: number;
  stale?: number;
  due?: number;
  pending?: number;
  leased?: number;
  dead?: number;
  oldest_due_at?: Time | null;
}

export interface Session {
  name: string;
  tenant: string | null;
  scopes: string[];
  login: boolean;
  version: string;
  store: string | null;
}

export interface Problem {
  type: string;
  title: string;
  status: number;
  detail: string;
}

export interface Routes {
  /* Hand over a task: the answer comes when it is committed. Scope: enqueue. */
  "POST /v1/tasks": { path: {}; query: {}; body: NewTask; answer: Receipt };
  /* Tasks that match, newest first, page by page. Scope: read. */
  "GET /v1/tasks": { path: {}; query: { state?: string; type?: string; queue?: string; tenant?: string; key?: string; q?: string; since?: Time; until?: Time; oldest_first?: boolean; limit?: number; cursor?: string; within?: string; }; body: undefined; answer: Page };
  /* Hand over many tasks: a JSON array in one commit, or NDJSON as a stream. Scope: enqueue. */
  "POST /v1/tasks/bulk": { path: {}; query: {}; body: NewTask[] | string; answer: Bulk };
  /* Cancel tasks by their ids, or all that match a filter. Scope: operate. */
  "POST /v1/tasks/cancel": { path: {}; query: {}; body: Action; answer: Results };
  /* A task with its attempts, log, trail, and why it is where it is. Scope: read. */
  "GET /v1/tasks/{id}": { path: { id: Id; }; query: { brief?: boolean; }; body: undefined; answer: Task };
  /* Why is this task not running?. Scope: read. */
  "GET /v1/tasks/{id}/why": { path: { id: Id; }; query: {}; body: undefined; answer: Why };
  /* Cancel a task; a running one is asked to stop. Scope: operate. */
  "POST /v1/tasks/{id}/cancel": { path: { id: Id; }; query: {}; body: undefined; answer: Done };
  /* Run a failed or cancelled task again, as a new task. Scope: operate. */
  "POST /v1/tasks/{id}/retry": { path: { id: Id; }; query: {}; body: undefined; answer: Receipt };
  /* A task or batch and those that wait for it, or that it waits for. Scope: read. */
  "GET /v1/tasks/{id}/tree": { path: { id: Id; }; query: { parents?: boolean; depth?: number; limit?: number; }; body: undefined; answer: Tree };
  /* Whom a task or batch has to do with, page by page; parents with their results. Scope: read. */
  "GET /v1/tasks/{id}/relatives": { path: { id: Id; }; query: { relation?: "parents" | "children" | "members" | "batch"; after?: Id; limit?: number; }; body: undefined; answer: Relatives };
  /* Batches of tasks, newest first. Scope: read. */
  "GET /v1/batches": { path: {}; query: { unfinished?: boolean; limit?: number; cursor?: string; }; body: undefined; answer: Batches };
  /* Begin a batch, with tasks for its end. Scope: enqueue. */
  "POST /v1/batches": { path: {}; query: {}; body: NewBatch | undefined; answer: Batch };
  /* A batch, by its id or name, and its counts. Scope: read. */
  "GET /v1/batches/{batch}": { path: { batch: string; }; query: {}; body: undefined; answer: Batch };
  /* Let a batch have no more members. Scope: enqueue. */
  "POST /v1/batches/{batch}/close": { path: { batch: string; }; query: {}; body: undefined; answer: Done };
  /* Close a batch and cancel all of it that has not ended. Scope: operate. */
  "POST /v1/batches/{batch}/cancel": { path: { batch: string; }; query: {}; body: undefined; answer: Done };
  /* Failed tasks that nobody has dealt with. Scope: read. */
  "GET /v1/dead": { path: {}; query: { state?: string; type?: string; queue?: string; tenant?: string; key?: string; q?: string; since?: Time; until?: Time; oldest_first?: boolean; limit?: number; cursor?: string; within?: string; }; body: undefined; answer: Page };
  /* Run dead letters again. Scope: operate. */
  "POST /v1/dead/retry": { path: {}; query: {}; body: Action; answer: Results };
  /* Acknowledge dead letters, with a note. Scope: operate. */
  "POST /v1/dead/ack": { path: {}; query: {}; body: Action; answer: Results };
  /* Queues: what waits and runs in them. Scope: read. */
  "GET /v1/queues": { path: {}; query: {}; body: undefined; answer: Queues };
  /* Start nothing more of a queue, on all nodes. Scope: operate. */
  "POST /v1/queues/{queue}/pause": { path: { queue: string; }; query: {}; body: undefined; answer: Done };
  /* Let a paused queue go on. Scope: operate. */
  "POST /v1/queues/{queue}/resume": { path: { queue: string; }; query: {}; body: undefined; answer: Done };
  /* Rate limits, and how much of them is left. Scope: read. */
  "GET /v1/limits": { path: {}; query: { type?: string; key?: string; waiting?: boolean; limit?: number; cursor?: string; }; body: undefined; answer: Limits };
  /* Limit how many tasks of a type start per period, for each key or for one. Scope: operate. */
  "PUT /v1/limits/{type}": { path: { type: string; }; query: { key?: string; }; body: Rate; answer: Done };
  /* Take a limit away. Scope: operate. */
  "DELETE /v1/limits/{type}": { path: { type: string; }; query: { key?: string; }; body: undefined; answer: Done };
  /* Start nothing more of a rate key. Scope: operate. */
  "POST /v1/limits/{type}/pause": { path: { type: string; }; query: { key?: string; }; body: undefined; answer: Done };
  /* Let a paused rate key go on. Scope: operate. */
  "POST /v1/limits/{type}/resume": { path: { type: string; }; query: { key?: string; }; body: undefined; answer: Done };
  /* Concurrency limits: who runs and who waits under them. Scope: read. */
  "GET /v1/concurrency": { path: {}; query: { scope?: "queue" | "type" | "key" | "tenants"; name?: string; key?: string; blocked?: boolean; limit?: number; cursor?: string; }; body: undefined; answer: Places };
  /* Limit how many tasks of a queue, a type or a rate key run at a time, or let tenants take turns. Scope: operate. */
  "PUT /v1/concurrency/{name}": { path: { name: string; }; query: { scope?: "queue" | "type" | "key" | "tenants"; key?: string; }; body: Most; answer: Done };
  /* Take a concurrency limit away. Scope: operate. */
  "DELETE /v1/concurrency/{name}": { path: { name: string; }; query: { scope?: "queue" | "type" | "key" | "tenants"; key?: string; }; body: undefined; answer: Done };
  /* Schedules by name, and when they fire next. Scope: read. */
  "GET /v1/schedules": { path: {}; query: { prefix?: string; enabled?: boolean; off?: boolean; limit?: number; cursor?: string; }; body: undefined; answer: Schedules };
  /* When a schedule that is not stored would fire. Scope: read. */
  "POST /v1/schedules/preview": { path: {}; query: { from?: Time; count?: number; }; body: ScheduleSpec; answer: Times };
  /* A schedule with its next times and what became of its last occurrences. Scope: read. */
  "GET /v1/schedules/{name}": { path: { name: string; }; query: { upcoming?: number; }; body: undefined; answer: Schedule };
  /* Store a schedule: a new one, or in place of what is there. Scope: operate. */
  "PUT /v1/schedules/{name}": { path: { name: string; }; query: { how?: "keep" | "update" | "add" | "edit"; }; body: ScheduleSpec; answer: Put };
  /* Remove a schedule; its tasks stay. Scope: operate. */
  "DELETE /v1/schedules/{name}": { path: { name: string; }; query: {}; body: undefined; answer: Done };
  /* Let a schedule that is off go on, from now. Scope: operate. */
  "POST /v1/schedules/{name}/enable": { path: { name: string; }; query: {}; body: undefined; answer: Done };
  /* Let a schedule fire nothing, on any node. Scope: operate. */
  "POST /v1/schedules/{name}/disable": { path: { name: string; }; query: {}; body: undefined; answer: Done };
  /* Make a task of a schedule now. Scope: operate. */
  "POST /v1/schedules/{name}/run": { path: { name: string; }; query: {}; body: Run | undefined; answer: Receipt };
  /* Processes that run tasks. Scope: read. */
  "GET /v1/nodes": { path: {}; query: { all?: boolean; }; body: undefined; answer: Nodes };
  /* Let a node start nothing more; what runs there comes to its end. Scope: operate. */
  "POST /v1/nodes/{node}/drain": { path: { node: string; }; query: {}; body: undefined; answer: Done };
  /* Let a node that was drained start tasks again. Scope: operate. */
  "POST /v1/nodes/{node}/undrain": { path: { node: string; }; query: {}; body: undefined; answer: Done };
  /* Remote workers: what they are for, what they have. Scope: read. */
  "GET /v1/workers": { path: {}; query: {}; body: undefined; answer: Workers };
  /* Register a worker: it may claim tasks of its queues and types. Scope: work. */
  "POST /v1/workers": { path: {}; query: {}; body: NewWorker; answer: Registered };
  /* The worker goes: what it still has is given back. Scope: work. */
  "DELETE /v1/workers/{worker}": { path: { worker: string; }; query: {}; body: undefined; answer: Done };
  /* Tasks to run: answers as soon as there are any, or when the wait is over. Scope: work. */
  "POST /v1/workers/{worker}/claim": { path: { worker: string; }; query: {}; body: Claim; answer: Claimed };
  /* The worker lives, and has these tasks: answers what to stop, and what is lost. Scope: work. */
  "POST /v1/workers/{worker}/renew": { path: { worker: string; }; query: {}; body: Renewal; answer: Renewed };
  /* Outcomes, logs and progress of many tasks: answers for each, when all are committed. Scope: work. */
  "POST /v1/workers/{worker}/report": { path: { worker: string; }; query: {}; body: Report; answer: Reported };
  /* Give the worker nothing more, and tell it so. Scope: operate. */
  "POST /v1/workers/{worker}/drain": { path: { worker: string; }; query: {}; body: undefined; answer: Done };
  /* The operator log: who did what, newest first. Scope: read. */
  "GET /v1/acts": { path: {}; query: { before?: number; limit?: number; }; body: undefined; answer: Acts };
  /* Counts, rates and times. Scope: read. */
  "GET /v1/stats": { path: {}; query: { window?: string; }; body: undefined; answer: Stats };
  /* What happens to tasks, as it happens (server-sent events). Scope: read. */
  "GET /v1/events": { path: {}; query: { type?: string; queue?: string; after?: string; }; body: undefined; answer: string };
  /* Who is told what happens, by signed POSTs (Standard Webhooks). Scope: admin. */
  "GET /v1/hooks": { path: {}; query: {}; body: undefined; answer: Hooks };
  /* Tell a URL what happens from now on. Scope: admin. */
  "PUT /v1/hooks/{name}": { path: { name: string; }; query: {}; body: HookSpec; answer: HookMade };
  /* Tell it no more. Scope: admin. */
  "DELETE /v1/hooks/{name}": { path: { name: string; }; query: {}; body: undefined; answer: Done };
  /* Send it an event that is a test: the answer is the task that does. Scope: admin. */
  "POST /v1/hooks/{name}/test": { path: { name: string; }; query: {}; body: undefined; answer: Receipt };
  /* This description. Scope: none. */
  "GET /v1/openapi.json": { path: {}; query: {}; body: undefined; answer: Json };
  /* Who the server takes the caller for, and what they may do. Scope: none. */
  "GET /v1/session": { path: {}; query: {}; body: undefined; answer: Session };
  /* Log in: the token becomes a cookie of the browser. Scope: none. */
  "POST /v1/session": { path: {}; query: {}; body: Login; answer: Session };
  /* Log out: the cookie is taken back. Scope: none. */
  "DELETE /v1/session": { path: {}; query: {}; body: undefined; answer: Done };
  /* Whether the process lives. Scope: none. */
  "GET /healthz": { path: {}; query: {}; body: undefined; answer: Alive };
  /* Whether the server can do its work, and what a person should know. Scope: none. */
  "GET /readyz": { path: {}; query: {}; body: undefined; answer: Ready };
  /* Numbers for Prometheus. Scope: read. */
  "GET /metrics": { path: {}; query: {}; body: undefined; answer: string };
  /* The dashboard. Scope: none. */
  "GET /": { path: {}; query: {}; body: undefined; answer: string };
  /* Scripts, styles and pictures of the dashboard. Scope: none. */
  "GET /assets/{asset}": { path: { asset: string; }; query: {}; body: undefined; answer: string };
}
