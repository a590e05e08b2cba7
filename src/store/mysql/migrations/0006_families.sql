-- Families: who waits for whom, and batches of tasks. A task that has none has no row here.

-- parent_id: a task or a batch. state: 0 the child was not told yet, 1 it was, or need not be, 2 the parent failed: it is held. Whoever changes
-- it, or what the child waits for, holds the child's row in pawl_live.
CREATE TABLE IF NOT EXISTS pawl_edge (
    parent_id BIGINT NOT NULL,
    child_id  BIGINT NOT NULL,
    state     TINYINT NOT NULL,
    PRIMARY KEY (parent_id, child_id),
    KEY pawl_edge_child (child_id, parent_id)
) ENGINE=InnoDB ROW_FORMAT=DYNAMIC CHARACTER SET utf8mb4 COLLATE utf8mb4_bin STATS_PERSISTENT=0 STATS_AUTO_RECALC=0;

-- Of each waiting task, its edges in state 0 and in state 2.
CREATE TABLE IF NOT EXISTS pawl_wait (
    child_id  BIGINT NOT NULL PRIMARY KEY,
    unmet     INT NOT NULL,
    held      INT NOT NULL,
    if_failed TINYINT NOT NULL               -- pawl_if_failed
) ENGINE=InnoDB ROW_FORMAT=DYNAMIC CHARACTER SET utf8mb4 COLLATE utf8mb4_bin STATS_PERSISTENT=0 STATS_AUTO_RECALC=0;

CREATE TABLE IF NOT EXISTS pawl_batch (
    id           BIGINT NOT NULL PRIMARY KEY,
    name         VARBINARY(1000) NOT NULL,
    within       BIGINT NOT NULL,            -- 0: none
    created_us   BIGINT NOT NULL,
    closed_us    BIGINT,
    ended_us     BIGINT,
    state        TINYINT NOT NULL,           -- once it has ended
    cancel_asked TINYINT NOT NULL,
    unfinished   BIGINT NOT NULL,            -- members
    succeeded    BIGINT NOT NULL,
    failed       BIGINT NOT NULL,
    cancelled    BIGINT NOT NULL,
    UNIQUE KEY pawl_batch_name (name),
    KEY pawl_batch_live (ended_us, id),
    KEY pawl_batch_ended (state, ended_us)
) ENGINE=InnoDB ROW_FORMAT=DYNAMIC CHARACTER SET utf8mb4 COLLATE utf8mb4_bin STATS_PERSISTENT=0 STATS_AUTO_RECALC=0;

CREATE TABLE IF NOT EXISTS pawl_member (
    task_id  BIGINT NOT NULL PRIMARY KEY,    -- or a batch within it
    batch_id BIGINT NOT NULL,
    KEY pawl_member_of (batch_id, task_id)
) ENGINE=InnoDB ROW_FORMAT=DYNAMIC CHARACTER SET utf8mb4 COLLATE utf8mb4_bin STATS_PERSISTENT=0 STATS_AUTO_RECALC=0;

-- What is still to be told. kind: 0 the batch may have ended; 1 its end (value: the state) to children; 2 its cancel to members; 3 to children
-- that are held: it was retried as `value`; 4 its end (value) to the batch it is a member of; 5 to a child that did not look whether it
-- has ended. told: the last one told.
CREATE TABLE IF NOT EXISTS pawl_unsettled (
    id    BIGINT NOT NULL,
    kind  TINYINT NOT NULL,
    told  BIGINT NOT NULL,
    value BIGINT NOT NULL,
    PRIMARY KEY (id, kind)
) ENGINE=InnoDB ROW_FORMAT=DYNAMIC CHARACTER SET utf8mb4 COLLATE utf8mb4_bin STATS_PERSISTENT=0 STATS_AUTO_RECALC=0;

-- What of a parent that is swept its children may still ask for.
CREATE TABLE IF NOT EXISTS pawl_kept (
    id          BIGINT NOT NULL PRIMARY KEY,
    state       TINYINT NOT NULL,
    error       LONGTEXT,
    result_type LONGTEXT,
    result_ref  LONGTEXT,
    result      LONGBLOB
) ENGINE=InnoDB ROW_FORMAT=DYNAMIC CHARACTER SET utf8mb4 COLLATE utf8mb4_bin;
