-- Tasks, nodes and what happened, in one schema.
--
-- A task is a body, written once, and exactly one row in live, leased, done or failed, which says its state. States, outcomes and audit
-- levels are the numbers of pawl.h and pawl/store.h; names are interned in pawl_name; instants are microseconds since 1970.
--
-- Nothing that every commit writes is shared: counters and rollups have a row for each (node, lane), where a lane is one stream of
-- commits of one node. Commits of nobody in particular (node 0) get a lane each, and are added up later. Lanes below 0 of a node are
-- its claims (-1), its renewals (-2), and leases that others took away (-3).
--
-- A row that every commit of a lane updates has one version after another, and while some old snapshot keeps them, each look at the row
-- steps over all that have its key. So the key has a turn (pawl_turn), which an update sets to that of its transaction: it changes every few
-- hundred transactions and counts down, so the newest comes first in the index, and only versions of one turn are stepped over.

-- Facts about the store itself: schema, min_reader, written_by, shape, audit_cut_us.
CREATE TABLE pawl_meta (
    key   text COLLATE "C" PRIMARY KEY,
    value text NOT NULL
);

CREATE TABLE pawl_name (
    id   int4 GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    text text COLLATE "C" NOT NULL UNIQUE
);

-- The ids that the store draws itself, without the bits of the node number: milliseconds since 2025 * 4096 + sequence.
CREATE SEQUENCE pawl_drawn AS int8;

-- Lanes of node 0.
CREATE SEQUENCE pawl_slot AS int8;

CREATE TABLE pawl_body (
    id           int8 PRIMARY KEY,
    created_us   int8 NOT NULL,
    type_id      int4 NOT NULL,
    queue_id     int4 NOT NULL,
    priority     int2 NOT NULL,
    born         int2 NOT NULL,      -- the state it was inserted in; 0: its trail says so
    level        int2 NOT NULL,      -- the audit level, resolved
    audit        int2 NOT NULL,      -- the audit level as the task says
    tenant_id    int4,               -- NULL: no tenant
    max_attempts int4,               -- NULL: by policy
    timeout_us   int8,               -- NULL: by policy
    retry_of     int8,
    key          text COLLATE "C",
    content_type text,               -- NULL: application/json; '': none
    created_by   text,
    traceparent  text,
    headers      text,
    rate_key     bytea,
    payload      bytea
);

-- Waiting and pending. Its ready index has the size of the backlog; class is 0 ordinary, 1 suspect, 2 to run alone. lane is priority, class
-- and type as one number, in that order: one number has a beginning and an end that an index scan can stop at.
CREATE TABLE pawl_live (
    id            int8 PRIMARY KEY,
    run_at_us     int8 NOT NULL,
    queue_id      int4 NOT NULL,
    type_id       int4 NOT NULL,
    fence         int4 NOT NULL,
    priority      int2 NOT NULL,
    class         int2 NOT NULL,
    state         int2 NOT NULL,
    level         int2 NOT NULL,
    runs          int4 NOT NULL,
    failures      int4 NOT NULL,
    interruptions int4 NOT NULL,
    rescues       int4 NOT NULL,
    strikes       int2 NOT NULL,     -- rescues that counted
    blocked       bool NOT NULL,     -- not in the ready index: see 0012_places.sql
    lane          int8 GENERATED ALWAYS AS (((priority + 32768)::int8 << 36) | (class::int8 << 32) | type_id) STORED
) WITH (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 2000, autovacuum_vacuum_cost_delay = 0,
        autovacuum_vacuum_insert_scale_factor = 0, autovacuum_vacuum_insert_threshold = 200000,
        autovacuum_analyze_scale_factor = 0, autovacuum_analyze_threshold = 20000);
CREATE INDEX pawl_ready ON pawl_live (queue_id, lane, run_at_us, id) WHERE state = 2 AND NOT blocked;

-- Leased tasks only: small, so a node's leases are found without an index that every task would pay for.
CREATE TABLE pawl_leased (
    id            int8 PRIMARY KEY,
    leased_us     int8 NOT NULL,
    node          int4 NOT NULL,
    queue_id      int4 NOT NULL,
    type_id       int4 NOT NULL,
    fence         int4 NOT NULL,
    priority      int2 NOT NULL,
    class         int2 NOT NULL,
    level         int2 NOT NULL,
    strikes       int2 NOT NULL,
    runs          int4 NOT NULL,
    failures      int4 NOT NULL,
    interruptions int4 NOT NULL,
    rescues       int4 NOT NULL,
    not_started   bool NOT NULL,
    mark          bool NOT NULL,     -- a suspect whose start was committed first
    cancel_asked  bool NOT NULL,
    run_at_us     int8,              -- NULL: born leased, so created, due and leased in one instant
    started_us    int8,              -- NULL: when it was leased
    progress      int2,
    progress_text text
) WITH (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 2000, autovacuum_vacuum_cost_delay = 0,
        autovacuum_vacuum_insert_scale_factor = 0, autovacuum_vacuum_insert_threshold = 200000,
        autovacuum_analyze_scale_factor = 0, autovacuum_analyze_threshold = 20000);
CREATE INDEX pawl_leased_cancel ON pawl_leased (node, id) WHERE cancel_asked;

-- Succeeded and cancelled, with the last attempt, by the day of their end. flags: 1 the trail of its last lease is not in pawl_audit,
-- but read from here; 2 its cancel was asked.
CREATE TABLE pawl_done (
    id            int8 NOT NULL,
    finished_us   int8 NOT NULL,
    started_us    int8,
    run_us        int8,              -- how long the last attempt took
    node          int4 NOT NULL,
    fence         int4 NOT NULL,
    runs          int4 NOT NULL,
    failures      int4 NOT NULL,
    interruptions int4 NOT NULL,
    rescues       int4 NOT NULL,
    state         int2 NOT NULL,
    outcome       int2 NOT NULL,     -- of the last attempt; 0: it ended without one
    level         int2 NOT NULL,
    flags         int2 NOT NULL,
    leased_us     int8,              -- NULL: born leased
    run_at_us     int8,              -- NULL: born leased
    log_lines     int4,
    progress      int2,
    progress_text text,
    code          text,
    error         text,
    reason        text,
    retried_as    int8,
    result_type   text,
    result_ref    text,
    result        bytea
) PARTITION BY RANGE (finished_us);
CREATE INDEX pawl_done_id ON pawl_done (id);
CREATE INDEX pawl_done_finished ON pawl_done USING brin (finished_us) WITH (pages_per_range = 32);

-- The partitions of pawl_done: one table per day, pawl_done_<day>, where day counts from 1970. swept_id: how far retention came with
-- what hangs on the tasks of a day that goes as a whole; NULL: it has not begun.
CREATE TABLE pawl_day (
    day      int8 PRIMARY KEY,
    swept_id int8
);

CREATE TABLE pawl_failed (
    id            int8 PRIMARY KEY,
    finished_us   int8 NOT NULL,
    started_us    int8,
    run_us        int8,
    node          int4 NOT NULL,
    fence         int4 NOT NULL,
    runs          int4 NOT NULL,
    failures      int4 NOT NULL,
    interruptions int4 NOT NULL,
    rescues       int4 NOT NULL,
    state         int2 NOT NULL,
    outcome       int2 NOT NULL,
    level         int2 NOT NULL,
    flags         int2 NOT NULL,
    leased_us     int8,
    run_at_us     int8,
    log_lines     int4,
    progress      int2,
    progress_text text,
    code          text,
    error         text,
    reason        text,
    retried_as    int8,
    result_type   text,
    result_ref    text,
    result        bytea,
    resolved_us   int8,
    resolved_by   text,
    note          text
);
CREATE INDEX pawl_failed_open ON pawl_failed (finished_us, id) WHERE resolved_us IS NULL;
CREATE INDEX pawl_failed_resolved ON pawl_failed (resolved_us, id) WHERE resolved_us IS NOT NULL;

-- Attempts before the last one.
CREATE TABLE pawl_attempt (
    task_id     int8 NOT NULL,
    number      int4 NOT NULL,
    outcome     int2 NOT NULL,
    started_us  int8 NOT NULL,
    finished_us int8 NOT NULL,       -- 0: its node died
    fence       int4 NOT NULL,
    node        int4 NOT NULL,
    log_lines   int4,
    code        text,
    error       text,
    PRIMARY KEY (task_id, number)
);

-- Run logs, one row per attempt.
CREATE TABLE pawl_runlog (
    task_id int8 NOT NULL,
    number  int4 NOT NULL,
    at_us   int8 NOT NULL,
    text    text NOT NULL,
    PRIMARY KEY (task_id, number)
);
CREATE INDEX pawl_runlog_at ON pawl_runlog USING brin (at_us) WITH (pages_per_range = 32);

-- Changes of state that cannot be read from the task's other rows.
CREATE TABLE pawl_audit (
    task_id    int8 NOT NULL,
    number     int4 NOT NULL,
    at_us      int8 NOT NULL,
    from_state int2 NOT NULL,
    to_state   int2 NOT NULL,
    fence      int4 NOT NULL,
    node       int4 NOT NULL,
    detail     text,
    PRIMARY KEY (task_id, number)
);
CREATE INDEX pawl_audit_at ON pawl_audit USING brin (at_us) WITH (pages_per_range = 32);

-- The holder of a key has old = 0, so there is one at most; tasks that held it before have old = their id. No tenant is 0.
CREATE TABLE pawl_key (
    key       text COLLATE "C" NOT NULL,
    tenant_id int4 NOT NULL,
    old       int8 NOT NULL,
    task_id   int8 NOT NULL,
    PRIMARY KEY (key, tenant_id, old)
);

CREATE TABLE pawl_queue (
    queue_id int4 PRIMARY KEY,
    paused   bool NOT NULL DEFAULT false
);

-- What each lane added to the tasks stored in a queue; failed counts the unresolved. The sums over all lanes are what is stored.
CREATE TABLE pawl_count (
    node     int4 NOT NULL,
    lane     int8 NOT NULL,
    queue_id int4 NOT NULL,
    waiting  int8 NOT NULL DEFAULT 0,
    pending  int8 NOT NULL DEFAULT 0,
    leased   int8 NOT NULL DEFAULT 0,
    failed   int8 NOT NULL DEFAULT 0,
    turn     int8 NOT NULL DEFAULT 0,
    PRIMARY KEY (node, lane, queue_id, turn)
) WITH (fillfactor = 50, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 1000, autovacuum_vacuum_cost_delay = 0);

-- Which ids a lane inserted in an hour, so that a list from one instant to another need not look at all of them. max_id is rounded up,
-- so that the row is written now and then only.
CREATE TABLE pawl_born (
    hour   int8 NOT NULL,
    node   int4 NOT NULL,
    lane   int8 NOT NULL,
    min_id int8 NOT NULL,
    max_id int8 NOT NULL,
    PRIMARY KEY (hour, node, lane)
) WITH (fillfactor = 50);

-- What happened in a minute. wait and run count durations in buckets: element i + 1 is bucket i of pawl_bucket.
CREATE TABLE pawl_rollup (
    minute   int8 NOT NULL,
    node     int4 NOT NULL,
    lane     int8 NOT NULL,
    queue_id int4 NOT NULL,
    type_id  int4 NOT NULL,
    outcome  int2 NOT NULL,
    count    int8 NOT NULL,
    wait     int8[],
    run      int8[],
    turn     int8 NOT NULL DEFAULT 0,
    PRIMARY KEY (minute, node, lane, queue_id, type_id, outcome, turn)
) WITH (fillfactor = 50, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 2000, autovacuum_vacuum_cost_delay = 0);

-- The life row: written at birth and death, and locked by whoever grants leases (shared) or rescues (exclusive).
CREATE TABLE pawl_node (
    id       int4 GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    name     text NOT NULL,
    pid      int8 NOT NULL,
    queues   text NOT NULL,
    types    text NOT NULL,
    lease_us int8 NOT NULL,
    born_us  int8 NOT NULL,
    alive    int2 NOT NULL,          -- 1 alive, 0 dead, -1 swept: only its name is still needed
    gone     bool NOT NULL,          -- its process said that it ends
    locked   bool NOT NULL,          -- it holds a session lock while it lives; false: behind a pooling proxy
    died_us  int8,
    blame    int2 NOT NULL           -- how its marked starts are judged when it is rescued
) WITH (fillfactor = 50);

-- A lane's receipt (number, now_us, results), and its share of the node's heartbeat: the node's lease lasts until the latest expires_us,
-- its renewal number and its leases are the sums. skew_us: the node's wall clock minus the server's, as seen with a renewal.
CREATE TABLE pawl_lane (
    node       int4 NOT NULL,
    lane       int8 NOT NULL,
    number     int8 NOT NULL DEFAULT 0,
    now_us     int8 NOT NULL DEFAULT 0,
    expires_us int8 NOT NULL DEFAULT 0,
    renewal    int8 NOT NULL DEFAULT 0,
    leases     int8 NOT NULL DEFAULT 0,
    skew_us    int8,
    results    text,
    turn       int8 NOT NULL DEFAULT 0,
    PRIMARY KEY (node, lane, turn)
) WITH (fillfactor = 40, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 1000, autovacuum_vacuum_cost_delay = 0);

-- Node numbers for ids: ids of milliseconds above floor_ms and below ceiling_ms belong to the owner; node 0: free.
CREATE TABLE pawl_number (
    number     int4 PRIMARY KEY,
    node       int4 NOT NULL DEFAULT 0,
    floor_ms   int8 NOT NULL DEFAULT 0,
    ceiling_ms int8 NOT NULL DEFAULT 0
) WITH (fillfactor = 50);
INSERT INTO pawl_number (number) SELECT generate_series(1, 1023);

-- What people did.
CREATE TABLE pawl_oplog (
    id      int8 GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    at_us   int8 NOT NULL,
    who     text NOT NULL,
    action  text NOT NULL,
    task_id int8,
    detail  text
);
