// What the API answers (docs/api.md). Times are RFC 3339 in UTC, durations are microseconds.

export type Scope = "read" | "enqueue" | "work" | "operate" | "admin";

export interface Session {
    name: string;
    tenant: string | null;
    scopes: Scope[];
    login: boolean;
    version: string;
    store: string | null;
}

export interface Why {
    code: string;
    text: string;
    until: string | null;
}

export interface Attempt {
    number: number;
    outcome: string;
    started_at: string | null;
    finished_at: string | null;
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
    at: string | null;
    level: string;
    text: string | null;
}

export interface Change {
    at: string | null;
    from: string;
    to: string;
    fence: number;
    node_name: string | null;
    detail: string | null;
}

export interface Task {
    id: string;
    type: string;
    queue: string;
    tenant: string | null;
    key: string | null;
    state: string;
    display: string | null;
    priority: number;
    created_at: string | null;
    run_at: string | null;
    started_at: string | null;
    finished_at: string | null;
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
    retry_of: string | null;
    retried_as: string | null;
    resolved_at: string | null;
    resolved_by: string | null;
    note: string | null;
    audit: string;
    created_by: string | null;
    traceparent: string | null;
    headers: string | null;
    rate_key?: string;
    rate_key_base64?: string;
    content_type: string | null;
    payload?: unknown;
    payload_base64?: string;
    result_type: string | null;
    result?: unknown;
    result_base64?: string;
    result_ref: string | null;
    attempts?: Attempt[];
    log?: LogLine[];
    audit_trail?: Change[];
    why?: Why;
}

export interface TaskPage {
    tasks: Task[];
    next: string | null;
    partial: boolean;
}

export interface ItemResult {
    id: string;
    status: string;
    detail?: string;
    as?: string;
}

export interface Results {
    results?: ItemResult[];
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
    oldest_due_at: string | null;
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
    next_slot_at: string | null;
    waiting: number;
}

export interface PawlNode {
    id: number;
    name: string | null;
    pid: number;
    alive: boolean;
    born_at: string | null;
    expires_at: string | null;
    leases: number;
    queues: string | null;
}

export interface Stats {
    now: string | null;
    closed: string | null;
    waiting: number;
    pending: number;
    leased: number;
    dead: number;
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
}

export interface Act {
    at: string | null;
    who: string | null;
    action: string | null;
    detail: string | null;
    id: string | null;
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
    pending?: number;
    leased?: number;
    dead?: number;
    oldest_due_at?: string | null;
}

export interface Receipt {
    id: string;
    outcome: string;
}
