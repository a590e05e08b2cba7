-- Tasks and what hangs on them.
--
-- A task is a body (written once) and exactly one row in live, leased, done or failed, which says its state. Integers are used
-- throughout: states, outcomes and audit levels are the numbers of pawl.h and pawl/store.h, names are interned in pawl_name.

-- Facts about the store itself: schema, min_reader, written_by, store_id, last_id, last_node, shared, audit_cut_us.
CREATE TABLE pawl_meta (
    key   TEXT PRIMARY KEY,
    value
) WITHOUT ROWID;

CREATE TABLE pawl_name (
    id   INTEGER PRIMARY KEY,
    text TEXT NOT NULL UNIQUE
);

CREATE TABLE pawl_body (
    id           INTEGER PRIMARY KEY,
    type_id      INTEGER NOT NULL,
    queue_id     INTEGER NOT NULL,
    created_us   INTEGER NOT NULL,
    priority     INTEGER NOT NULL,
    born         INTEGER NOT NULL,   -- the state it was inserted in; 0: its trail says so
    level        INTEGER NOT NULL,   -- the audit level, resolved
    audit        INTEGER NOT NULL,   -- the audit level as the task says
    tenant_id    INTEGER,            -- NULL: no tenant
    max_attempts INTEGER,            -- NULL: by policy
    timeout_us   INTEGER,            -- NULL: by policy
    retry_of     INTEGER,
    key          TEXT,
    content_type,                    -- 1: application/json
    created_by   TEXT,
    traceparent  TEXT,
    headers      TEXT,
    rate_key     BLOB,
    payload      BLOB
);

-- Waiting and pending. Its ready index has the size of the backlog; class is 0 ordinary, 1 suspect, 2 to run alone.
CREATE TABLE pawl_live (
    id            INTEGER PRIMARY KEY,
    state         INTEGER NOT NULL,
    queue_id      INTEGER NOT NULL,
    type_id       INTEGER NOT NULL,
    priority      INTEGER NOT NULL,
    class         INTEGER NOT NULL,
    run_at_us     INTEGER NOT NULL,
    blocked       INTEGER NOT NULL,
    fence         INTEGER NOT NULL,
    runs          INTEGER NOT NULL,
    failures      INTEGER NOT NULL,
    interruptions INTEGER NOT NULL,
    rescues       INTEGER NOT NULL,
    strikes       INTEGER NOT NULL,  -- rescues that counted
    level         INTEGER NOT NULL,
    unreadable    INTEGER NOT NULL   -- claims that could not read its body
);
CREATE INDEX pawl_ready ON pawl_live (queue_id, priority, class, type_id, run_at_us) WHERE state = 2 AND blocked = 0;

-- Leased tasks only: small, so a node's leases are found without an index that every task would pay for.
CREATE TABLE pawl_leased (
    id            INTEGER PRIMARY KEY,
    fence         INTEGER NOT NULL,
    node          INTEGER NOT NULL,
    queue_id      INTEGER NOT NULL,
    type_id       INTEGER NOT NULL,
    leased_us     INTEGER NOT NULL,
    run_at_us     INTEGER,           -- NULL: born leased, so created, due and leased in one instant
    started_us    INTEGER,           -- NULL: when it was leased
    not_started   INTEGER NOT NULL,
    mark          INTEGER NOT NULL,  -- a suspect whose start was committed first
    class         INTEGER NOT NULL,
    cancel_asked  INTEGER NOT NULL,
    runs          INTEGER NOT NULL,
    failures      INTEGER NOT NULL,
    interruptions INTEGER NOT NULL,
    rescues       INTEGER NOT NULL,
    strikes       INTEGER NOT NULL,
    level         INTEGER NOT NULL,
    progress      INTEGER,
    progress_text TEXT
);

-- The leased tasks whose cancel was asked, by the node that must be told.
CREATE TABLE pawl_cancel (
    node    INTEGER NOT NULL,
    task_id INTEGER NOT NULL,
    PRIMARY KEY (node, task_id)
) WITHOUT ROWID;

-- Succeeded and cancelled, with the last attempt. flags: 1 the trail of its last lease is not in pawl_audit, but read from here;
-- 2 its cancel was asked.
CREATE TABLE pawl_done (
    id            INTEGER PRIMARY KEY,
    state         INTEGER NOT NULL,
    finished_us   INTEGER NOT NULL,  -- by the store's clock
    fence         INTEGER NOT NULL,
    node          INTEGER NOT NULL,
    outcome       INTEGER NOT NULL,  -- of the last attempt; 0: it ended without one
    started_us    INTEGER,
    run_us        INTEGER,           -- how long the last attempt took
    leased_us     INTEGER,           -- NULL: born leased
    run_at_us     INTEGER,           -- NULL: born leased
    runs          INTEGER NOT NULL,
    failures      INTEGER NOT NULL,
    interruptions INTEGER NOT NULL,
    rescues       INTEGER NOT NULL,
    level         INTEGER NOT NULL,
    flags         INTEGER NOT NULL,
    log_id        INTEGER,
    log_lines     INTEGER,
    progress      INTEGER,
    progress_text TEXT,
    code          TEXT,
    error         TEXT,
    reason        TEXT,
    retried_as    INTEGER,
    result_type   TEXT,
    result_ref    TEXT,
    result        BLOB
);

CREATE TABLE pawl_failed (
    id            INTEGER PRIMARY KEY,
    state         INTEGER NOT NULL,
    finished_us   INTEGER NOT NULL,
    fence         INTEGER NOT NULL,
    node          INTEGER NOT NULL,
    outcome       INTEGER NOT NULL,
    started_us    INTEGER,
    run_us        INTEGER,
    leased_us     INTEGER,
    run_at_us     INTEGER,
    runs          INTEGER NOT NULL,
    failures      INTEGER NOT NULL,
    interruptions INTEGER NOT NULL,
    rescues       INTEGER NOT NULL,
    level         INTEGER NOT NULL,
    flags         INTEGER NOT NULL,
    log_id        INTEGER,
    log_lines     INTEGER,
    progress      INTEGER,
    progress_text TEXT,
    code          TEXT,
    error         TEXT,
    reason        TEXT,
    retried_as    INTEGER,
    result_type   TEXT,
    result_ref    TEXT,
    result        BLOB,
    resolved_us   INTEGER,
    resolved_by   TEXT,
    note          TEXT
);
CREATE INDEX pawl_failed_open ON pawl_failed (finished_us) WHERE resolved_us IS NULL;
CREATE INDEX pawl_failed_resolved ON pawl_failed (resolved_us) WHERE resolved_us IS NOT NULL;

-- Attempts before the last one.
CREATE TABLE pawl_attempt (
    task_id       INTEGER NOT NULL,
    number        INTEGER NOT NULL,
    outcome       INTEGER NOT NULL,
    started_us    INTEGER NOT NULL,
    finished_us   INTEGER NOT NULL,  -- 0: its node died
    fence         INTEGER NOT NULL,
    node          INTEGER NOT NULL,
    log_id        INTEGER,
    log_lines     INTEGER,
    code          TEXT,
    error         TEXT,
    PRIMARY KEY (task_id, number)
) WITHOUT ROWID;

-- Run logs, one row per attempt, in the order they came; found by the log_id of the attempt.
CREATE TABLE pawl_runlog (
    id      INTEGER PRIMARY KEY,
    task_id INTEGER NOT NULL,
    number  INTEGER NOT NULL,
    at_us   INTEGER NOT NULL,
    text    TEXT NOT NULL
);

-- Changes of state that cannot be read from the task's other rows.
CREATE TABLE pawl_audit (
    task_id    INTEGER NOT NULL,
    number     INTEGER NOT NULL,
    at_us      INTEGER NOT NULL,
    from_state INTEGER NOT NULL,
    to_state   INTEGER NOT NULL,
    fence      INTEGER NOT NULL,
    node       INTEGER NOT NULL,
    detail     TEXT,
    PRIMARY KEY (task_id, number)
) WITHOUT ROWID;

-- The holder of a key has old = 0, so there is one at most; tasks that held it before have old = their id.
CREATE TABLE pawl_key (
    key       TEXT NOT NULL,
    tenant_id INTEGER NOT NULL,
    old       INTEGER NOT NULL,
    task_id   INTEGER NOT NULL,
    PRIMARY KEY (key, tenant_id, old)
) WITHOUT ROWID;

-- Counters of what is stored; failed counts the unresolved.
CREATE TABLE pawl_queue (
    name_id INTEGER PRIMARY KEY,
    paused  INTEGER NOT NULL DEFAULT 0,
    waiting INTEGER NOT NULL DEFAULT 0,
    pending INTEGER NOT NULL DEFAULT 0,
    leased  INTEGER NOT NULL DEFAULT 0,
    failed  INTEGER NOT NULL DEFAULT 0
);

-- Which ids were inserted in an hour, so that a list from one instant to another need not look at all of them. max_id is rounded
-- up, so that the row is written now and then only.
CREATE TABLE pawl_born_hour (
    hour   INTEGER PRIMARY KEY,
    min_id INTEGER NOT NULL,
    max_id INTEGER NOT NULL
);

-- Which names the tasks of a stretch of ids have: two bits each. Level 1 are blocks of 2^30 ids, level 2 spans of 2^38. See seen.h.
CREATE TABLE pawl_seen (
    level INTEGER NOT NULL,
    block INTEGER NOT NULL,
    names BLOB NOT NULL,
    PRIMARY KEY (level, block)
) WITHOUT ROWID;

-- Where retention finds done rows: those that finished in one slot of time, apart by the hour their id was drawn in.
CREATE TABLE pawl_done_slot (
    slot     INTEGER NOT NULL,
    state    INTEGER NOT NULL,
    born     INTEGER NOT NULL,
    first_us INTEGER NOT NULL,       -- when the first of them finished
    min_id   INTEGER NOT NULL,
    max_id   INTEGER NOT NULL,
    PRIMARY KEY (state, slot, born)
) WITHOUT ROWID;
