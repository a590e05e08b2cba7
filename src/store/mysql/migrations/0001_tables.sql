-- Tasks, nodes and what happened, in one database.
--
-- A task is a body, written once, and exactly one row in live, leased, done or failed, which says its state. States, outcomes and audit
-- levels are the numbers of pawl.h and pawl/store.h; names are interned in pawl_name; instants are microseconds since 1970.
--
-- Nothing that every commit writes is shared: counters and rollups have a row for each (node, lane), where a lane is one stream of
-- commits of one node. Commits of nobody in particular (node 0) get a lane each, and are added up later. Lanes below 0 of a node are
-- its claims (-1), its renewals (-2), and leases that others took away (-3, and below -1000).
--
-- MariaDB commits every statement of this kind by itself, so each may find that it was carried out before.

-- Facts about the store itself: schema, min_reader, written_by, store_id, shape, audit_cut_us.
CREATE TABLE IF NOT EXISTS pawl_meta (
    name  VARCHAR(64) NOT NULL PRIMARY KEY,
    value TEXT NOT NULL
) ENGINE=InnoDB ROW_FORMAT=DYNAMIC CHARACTER SET utf8mb4 COLLATE utf8mb4_bin;

-- Bytes, because an index entry has room for 1000 of them but not for 1000 characters.
CREATE TABLE IF NOT EXISTS pawl_name (
    id   INT NOT NULL AUTO_INCREMENT PRIMARY KEY,
    text VARBINARY(1000) NOT NULL,
    UNIQUE KEY pawl_name_text (text)
) ENGINE=InnoDB ROW_FORMAT=DYNAMIC CHARACTER SET utf8mb4 COLLATE utf8mb4_bin;

-- The ids that the store draws itself, without the bits of the node number: milliseconds since 2025 * 4096 + sequence.
CREATE TABLE IF NOT EXISTS pawl_drawn (
    one  TINYINT NOT NULL PRIMARY KEY,
    last BIGINT NOT NULL
) ENGINE=InnoDB ROW_FORMAT=DYNAMIC CHARACTER SET utf8mb4 COLLATE utf8mb4_bin;
INSERT IGNORE INTO pawl_drawn (one, last) VALUES (1, 0);

-- born: the state it was inserted in; 0: its trail says so. level: the audit level, resolved; audit: as the task says. content_type NULL:
-- application/json; '': none.
CREATE TABLE IF NOT EXISTS pawl_body (
    id           BIGINT NOT NULL PRIMARY KEY,
    created_us   BIGINT NOT NULL,
    type_id      INT NOT NULL,
    queue_id     INT NOT NULL,
    priority     SMALLINT NOT NULL,
    born         TINYINT NOT NULL,
    level        TINYINT NOT NULL,
    audit        TINYINT NOT NULL,
    tenant_id    INT,
    max_attempts INT,
    timeout_us   BIGINT,
    retry_of     BIGINT,
    task_key     TEXT,
    content_type TEXT,
    created_by   TEXT,
    traceparent  TEXT,
    headers      LONGTEXT,
    rate_key     LONGBLOB,
    payload      LONGBLOB
) ENGINE=InnoDB ROW_FORMAT=DYNAMIC CHARACTER SET utf8mb4 COLLATE utf8mb4_bin;

-- Waiting and pending. class is 0 ordinary, 1 suspect, 2 to run alone. lane is priority, class and type as one number, in that order, so
-- that the ready index is a row of lanes. ready is the queue of a task that may be claimed once it is due, NULL of any other.
CREATE TABLE IF NOT EXISTS pawl_live (
    id            BIGINT NOT NULL PRIMARY KEY,
    run_at_us     BIGINT NOT NULL,
    lane          BIGINT NOT NULL,
    ready         INT,
    queue_id      INT NOT NULL,
    type_id       INT NOT NULL,
    fence         INT NOT NULL,
    priority      SMALLINT NOT NULL,
    class         TINYINT NOT NULL,
    state         TINYINT NOT NULL,
    level         TINYINT NOT NULL,
    keyed         TINYINT NOT NULL,
    runs          INT NOT NULL,
    failures      INT NOT NULL,
    interruptions INT NOT NULL,
    rescues       INT NOT NULL,
    strikes       TINYINT NOT NULL,
    KEY pawl_ready (ready, lane, run_at_us)
) ENGINE=InnoDB ROW_FORMAT=DYNAMIC CHARACTER SET utf8mb4 COLLATE utf8mb4_bin STATS_PERSISTENT=0 STATS_AUTO_RECALC=0;

-- Leased tasks only: as many as are running, so a node's leases are found without an index that every task would pay for.
-- run_at_us NULL: born leased, so created, due and leased in one instant. started_us NULL: when it was leased. mark: a suspect whose start
-- was committed first.
CREATE TABLE IF NOT EXISTS pawl_leased (
    id            BIGINT NOT NULL PRIMARY KEY,
    leased_us     BIGINT NOT NULL,
    run_at_us     BIGINT,
    started_us    BIGINT,
    node          INT NOT NULL,
    queue_id      INT NOT NULL,
    type_id       INT NOT NULL,
    fence         INT NOT NULL,
    priority      SMALLINT NOT NULL,
    class         TINYINT NOT NULL,
    level         TINYINT NOT NULL,
    keyed         TINYINT NOT NULL,
    strikes       TINYINT NOT NULL,
    runs          INT NOT NULL,
    failures      INT NOT NULL,
    interruptions INT NOT NULL,
    rescues       INT NOT NULL,
    not_started   TINYINT NOT NULL,
    mark          TINYINT NOT NULL,
    cancel_asked  TINYINT NOT NULL,
    progress      TINYINT,
    progress_text LONGTEXT
) ENGINE=InnoDB ROW_FORMAT=DYNAMIC CHARACTER SET utf8mb4 COLLATE utf8mb4_bin STATS_PERSISTENT=0 STATS_AUTO_RECALC=0;

-- The leased tasks whose cancel was asked, by the node that must be told.
CREATE TABLE IF NOT EXISTS pawl_cancel (
    node    INT NOT NULL,
    task_id BIGINT NOT NULL,
    fence   INT NOT NULL,
    PRIMARY KEY (node, task_id)
) ENGINE=InnoDB ROW_FORMAT=DYNAMIC CHARACTER SET utf8mb4 COLLATE utf8mb4_bin;

-- Succeeded and cancelled, with the last attempt. outcome 0: it ended without one. run_us: how long the last attempt took. flags: 1 the trail
-- of its last lease is not in pawl_audit, but read from here; 2 its cancel was asked. leased_us, run_at_us NULL: born leased.
-- Retention finds them by their end: the index grows at its right edge and is eaten from the left, both of which are cheap, and takes no
-- lock that a reader could hold up, as dropping a partition would.
CREATE TABLE IF NOT EXISTS pawl_done (
    id            BIGINT NOT NULL PRIMARY KEY,
    finished_us   BIGINT NOT NULL,
    started_us    BIGINT,
    run_us        BIGINT,
    leased_us     BIGINT,
    run_at_us     BIGINT,
    node          INT NOT NULL,
    fence         INT NOT NULL,
    runs          INT NOT NULL,
    failures      INT NOT NULL,
    interruptions INT NOT NULL,
    rescues       INT NOT NULL,
    state         TINYINT NOT NULL,
    outcome       TINYINT NOT NULL,
    level         TINYINT NOT NULL,
    flags         TINYINT NOT NULL,
    log_lines     INT,
    progress      TINYINT,
    progress_text LONGTEXT,
    code          LONGTEXT,
    error         LONGTEXT,
    reason        LONGTEXT,
    retried_as    BIGINT,
    result_type   LONGTEXT,
    result_ref    LONGTEXT,
    result        LONGBLOB,
    KEY pawl_done_end (state, finished_us)
) ENGINE=InnoDB ROW_FORMAT=DYNAMIC CHARACTER SET utf8mb4 COLLATE utf8mb4_bin;

CREATE TABLE IF NOT EXISTS pawl_failed (
    id            BIGINT NOT NULL PRIMARY KEY,
    finished_us   BIGINT NOT NULL,
    started_us    BIGINT,
    run_us        BIGINT,
    leased_us     BIGINT,
    run_at_us     BIGINT,
    node          INT NOT NULL,
    fence         INT NOT NULL,
    runs          INT NOT NULL,
    failures      INT NOT NULL,
    interruptions INT NOT NULL,
    rescues       INT NOT NULL,
    state         TINYINT NOT NULL,
    outcome       TINYINT NOT NULL,
    level         TINYINT NOT NULL,
    flags         TINYINT NOT NULL,
    log_lines     INT,
    progress      TINYINT,
    progress_text LONGTEXT,
    code          LONGTEXT,
    error         LONGTEXT,
    reason        LONGTEXT,
    retried_as    BIGINT,
    result_type   LONGTEXT,
    result_ref    LONGTEXT,
    result        LONGBLOB,
    resolved_us   BIGINT,
    resolved_by   TEXT,
    note          LONGTEXT,
    KEY pawl_failed_end (resolved_us, finished_us)
) ENGINE=InnoDB ROW_FORMAT=DYNAMIC CHARACTER SET utf8mb4 COLLATE utf8mb4_bin;

-- Attempts before the last one. finished_us 0: its node died.
CREATE TABLE IF NOT EXISTS pawl_attempt (
    task_id     BIGINT NOT NULL,
    number      INT NOT NULL,
    outcome     TINYINT NOT NULL,
    started_us  BIGINT NOT NULL,
    finished_us BIGINT NOT NULL,
    fence       INT NOT NULL,
    node        INT NOT NULL,
    log_lines   INT,
    code        LONGTEXT,
    error       LONGTEXT,
    PRIMARY KEY (task_id, number)
) ENGINE=InnoDB ROW_FORMAT=DYNAMIC CHARACTER SET utf8mb4 COLLATE utf8mb4_bin;

-- Run logs, one row per attempt.
CREATE TABLE IF NOT EXISTS pawl_runlog (
    task_id BIGINT NOT NULL,
    number  INT NOT NULL,
    at_us   BIGINT NOT NULL,
    text    LONGTEXT NOT NULL,
    PRIMARY KEY (task_id, number),
    KEY pawl_runlog_at (at_us)
) ENGINE=InnoDB ROW_FORMAT=DYNAMIC CHARACTER SET utf8mb4 COLLATE utf8mb4_bin;

-- Changes of state that cannot be read from the task's other rows. number is four times the fence and a little, so that the rows of a task
-- come in their order without anybody having to count them.
CREATE TABLE IF NOT EXISTS pawl_audit (
    task_id    BIGINT NOT NULL,
    number     BIGINT NOT NULL,
    at_us      BIGINT NOT NULL,
    from_state TINYINT NOT NULL,
    to_state   TINYINT NOT NULL,
    fence      INT NOT NULL,
    node       INT NOT NULL,
    detail     LONGTEXT,
    PRIMARY KEY (task_id, number),
    KEY pawl_audit_at (at_us)
) ENGINE=InnoDB ROW_FORMAT=DYNAMIC CHARACTER SET utf8mb4 COLLATE utf8mb4_bin;

-- The holder of a key has old = 0, so there is one at most; tasks that held it before have old = their id. No tenant is 0.
CREATE TABLE IF NOT EXISTS pawl_key (
    task_key  VARBINARY(1000) NOT NULL,
    tenant_id INT NOT NULL,
    old       BIGINT NOT NULL,
    task_id   BIGINT NOT NULL,
    PRIMARY KEY (task_key, tenant_id, old)
) ENGINE=InnoDB ROW_FORMAT=DYNAMIC CHARACTER SET utf8mb4 COLLATE utf8mb4_bin;

CREATE TABLE IF NOT EXISTS pawl_queue (
    queue_id INT NOT NULL PRIMARY KEY,
    paused   TINYINT NOT NULL DEFAULT 0
) ENGINE=InnoDB ROW_FORMAT=DYNAMIC CHARACTER SET utf8mb4 COLLATE utf8mb4_bin;

-- What each lane added to the tasks stored in a queue; failed counts the unresolved. The sums over all lanes are what is stored.
CREATE TABLE IF NOT EXISTS pawl_count (
    node     INT NOT NULL,
    lane     BIGINT NOT NULL,
    queue_id INT NOT NULL,
    waiting  BIGINT NOT NULL DEFAULT 0,
    pending  BIGINT NOT NULL DEFAULT 0,
    leased   BIGINT NOT NULL DEFAULT 0,
    failed   BIGINT NOT NULL DEFAULT 0,
    PRIMARY KEY (node, lane, queue_id)
) ENGINE=InnoDB ROW_FORMAT=DYNAMIC CHARACTER SET utf8mb4 COLLATE utf8mb4_bin;

-- Which ids a lane inserted in an hour, so that a list from one instant to another need not look at all of them. max_id is rounded up.
CREATE TABLE IF NOT EXISTS pawl_born (
    hour   BIGINT NOT NULL,
    node   INT NOT NULL,
    lane   BIGINT NOT NULL,
    min_id BIGINT NOT NULL,
    max_id BIGINT NOT NULL,
    PRIMARY KEY (hour, node, lane)
) ENGINE=InnoDB ROW_FORMAT=DYNAMIC CHARACTER SET utf8mb4 COLLATE utf8mb4_bin;

-- What happened in a minute. outcome: 1 dispatched, 2 succeeded, 3 failed, 4 cancelled, 5 retried, 6 rescued, 7 runs that ended in none of
-- these ways. wait and run count durations: see histogram.h.
CREATE TABLE IF NOT EXISTS pawl_rollup (
    minute    BIGINT NOT NULL,
    node      INT NOT NULL,
    lane      BIGINT NOT NULL,
    queue_id  INT NOT NULL,
    type_id   INT NOT NULL,
    outcome   TINYINT NOT NULL,
    total     BIGINT NOT NULL,
    wait_hist VARBINARY(1100),
    run_hist  VARBINARY(1100),
    PRIMARY KEY (minute, node, lane, queue_id, type_id, outcome)
) ENGINE=InnoDB ROW_FORMAT=DYNAMIC CHARACTER SET utf8mb4 COLLATE utf8mb4_bin;

-- The life row: written at birth and death, and locked by whoever grants leases (shared) or rescues (exclusive). alive: 1 alive, 0 dead,
-- -1 swept: only its name is still needed. gone: its process said that it ends. blame: how its marked starts are judged when it is rescued.
CREATE TABLE IF NOT EXISTS pawl_node (
    id       INT NOT NULL AUTO_INCREMENT PRIMARY KEY,
    name     TEXT NOT NULL,
    pid      BIGINT NOT NULL,
    queues   LONGTEXT NOT NULL,
    types    LONGTEXT NOT NULL,
    lease_us BIGINT NOT NULL,
    born_us  BIGINT NOT NULL,
    alive    TINYINT NOT NULL,
    gone     TINYINT NOT NULL,
    died_us  BIGINT,
    blame    TINYINT NOT NULL
) ENGINE=InnoDB ROW_FORMAT=DYNAMIC CHARACTER SET utf8mb4 COLLATE utf8mb4_bin;

-- A lane's receipt (number, now_us, results), and its share of the node's heartbeat: the node's lease lasts until the latest expires_us,
-- its renewal number and its leases are the sums. skew_us: the node's wall clock minus the server's, as seen with a renewal. The sums of
-- number and backs over all lanes tell others that something happened; backs counts what was put where claims have passed by already.
CREATE TABLE IF NOT EXISTS pawl_lane (
    node       INT NOT NULL,
    lane       BIGINT NOT NULL,
    number     BIGINT NOT NULL DEFAULT 0,
    backs      BIGINT NOT NULL DEFAULT 0,
    now_us     BIGINT NOT NULL DEFAULT 0,
    expires_us BIGINT NOT NULL DEFAULT 0,
    renewal    BIGINT NOT NULL DEFAULT 0,
    leases     BIGINT NOT NULL DEFAULT 0,
    skew_us    BIGINT,
    results    LONGTEXT,
    PRIMARY KEY (node, lane)
) ENGINE=InnoDB ROW_FORMAT=DYNAMIC CHARACTER SET utf8mb4 COLLATE utf8mb4_bin;

-- Node numbers for ids: ids of milliseconds above floor_ms and below ceiling_ms belong to the owner; node 0: free.
CREATE TABLE IF NOT EXISTS pawl_number (
    number     INT NOT NULL PRIMARY KEY,
    node       INT NOT NULL DEFAULT 0,
    floor_ms   BIGINT NOT NULL DEFAULT 0,
    ceiling_ms BIGINT NOT NULL DEFAULT 0
) ENGINE=InnoDB ROW_FORMAT=DYNAMIC CHARACTER SET utf8mb4 COLLATE utf8mb4_bin;
INSERT IGNORE INTO pawl_number (number)
WITH RECURSIVE n (i) AS (SELECT 0 UNION ALL SELECT i + 1 FROM n WHERE i < 31)
SELECT a.i * 32 + b.i FROM n a JOIN n b WHERE a.i * 32 + b.i > 0;

-- What people did.
CREATE TABLE IF NOT EXISTS pawl_oplog (
    id      BIGINT NOT NULL AUTO_INCREMENT PRIMARY KEY,
    at_us   BIGINT NOT NULL,
    who     LONGTEXT NOT NULL,
    action  VARCHAR(64) NOT NULL,
    task_id BIGINT,
    detail  LONGTEXT,
    KEY pawl_oplog_at (at_us)
) ENGINE=InnoDB ROW_FORMAT=DYNAMIC CHARACTER SET utf8mb4 COLLATE utf8mb4_bin;
