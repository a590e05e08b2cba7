-- Families: who waits for whom, and batches of tasks. A task that has none has no row here.

CREATE TABLE pawl_edge (
    parent_id INTEGER NOT NULL,             -- a task or a batch
    child_id  INTEGER NOT NULL,
    state     INTEGER NOT NULL,             -- 0 the child was not told yet, 1 it was, or need not be, 2 the parent failed: it is held
    PRIMARY KEY (parent_id, child_id)
) WITHOUT ROWID;
CREATE INDEX pawl_edge_child ON pawl_edge (child_id);

-- Of each waiting task, its edges in state 0 and in state 2.
CREATE TABLE pawl_wait (
    child_id  INTEGER PRIMARY KEY,
    unmet     INTEGER NOT NULL,
    held      INTEGER NOT NULL,
    if_failed INTEGER NOT NULL              -- pawl_if_failed
);

CREATE TABLE pawl_batch (
    id           INTEGER PRIMARY KEY,
    name         TEXT NOT NULL UNIQUE,
    within       INTEGER NOT NULL,          -- 0: none
    created_us   INTEGER NOT NULL,
    closed_us    INTEGER,
    ended_us     INTEGER,
    state        INTEGER NOT NULL DEFAULT 0, -- once it has ended
    cancel_asked INTEGER NOT NULL DEFAULT 0,
    unfinished   INTEGER NOT NULL DEFAULT 0, -- members
    succeeded    INTEGER NOT NULL DEFAULT 0,
    failed       INTEGER NOT NULL DEFAULT 0,
    cancelled    INTEGER NOT NULL DEFAULT 0
);
CREATE INDEX pawl_batch_live ON pawl_batch (id) WHERE ended_us IS NULL;
CREATE INDEX pawl_batch_ended ON pawl_batch (ended_us) WHERE ended_us IS NOT NULL;

CREATE TABLE pawl_member (
    task_id  INTEGER PRIMARY KEY,           -- or a batch within it
    batch_id INTEGER NOT NULL
);
CREATE INDEX pawl_member_of ON pawl_member (batch_id, task_id);

-- What is still to be told. kind: 0 the batch may have ended; 1 its end (value: the state) to children; 2 its cancel to members;
-- 3 to children that are held: it was retried as `value`.
CREATE TABLE pawl_unsettled (
    id    INTEGER NOT NULL,
    kind  INTEGER NOT NULL,
    after INTEGER NOT NULL,                 -- the last one told
    value INTEGER NOT NULL,
    PRIMARY KEY (id, kind)
) WITHOUT ROWID;

-- What of a parent that is swept its children may still ask for.
CREATE TABLE pawl_kept (
    id          INTEGER PRIMARY KEY,
    state       INTEGER NOT NULL,
    error       TEXT,
    result_type TEXT,
    result_ref  TEXT,
    result      BLOB
);
