-- Families: see functions/families.sql.

CREATE TABLE pawl_edge (
    parent_id int8 NOT NULL,             -- a task or a batch
    child_id  int8 NOT NULL,
    state     int2 NOT NULL,             -- 0 the child was not told yet, 1 it was, or need not be, 2 the parent failed: it is held
    PRIMARY KEY (parent_id, child_id)
);
CREATE INDEX pawl_edge_child ON pawl_edge (child_id);
CREATE INDEX pawl_edge_untold ON pawl_edge (parent_id, child_id) WHERE state = 0;

-- Of each waiting task, its edges in state 0 and in state 2.
CREATE TABLE pawl_wait (
    child_id  int8 PRIMARY KEY,
    unmet     int4 NOT NULL,
    held      int4 NOT NULL,
    if_failed int2 NOT NULL              -- pawl_if_failed
) WITH (fillfactor = 70, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 2000, autovacuum_vacuum_cost_delay = 0);

-- Its counts are those here and those in pawl_batch_part.
CREATE TABLE pawl_batch (
    id           int8 PRIMARY KEY,
    name         text COLLATE "C" NOT NULL UNIQUE,
    within       int8 NOT NULL,          -- 0: none
    created_us   int8 NOT NULL,
    closed_us    int8,
    ended_us     int8,
    state        int2 NOT NULL DEFAULT 0, -- once it has ended
    cancel_asked bool NOT NULL DEFAULT false,
    unfinished   int8 NOT NULL DEFAULT 0, -- members
    succeeded    int8 NOT NULL DEFAULT 0,
    failed       int8 NOT NULL DEFAULT 0,
    cancelled    int8 NOT NULL DEFAULT 0
) WITH (fillfactor = 70);
CREATE INDEX pawl_batch_live ON pawl_batch (id) WHERE ended_us IS NULL;
CREATE INDEX pawl_batch_ended ON pawl_batch (state, ended_us) WHERE ended_us IS NOT NULL;

CREATE TABLE pawl_batch_part (
    batch_id   int8 NOT NULL,
    unfinished int8 NOT NULL,
    succeeded  int8 NOT NULL,
    failed     int8 NOT NULL,
    cancelled  int8 NOT NULL
) WITH (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 2000, autovacuum_vacuum_cost_delay = 0);
CREATE INDEX pawl_batch_part_of ON pawl_batch_part (batch_id);

CREATE TABLE pawl_member (
    task_id  int8 PRIMARY KEY,           -- or a batch within it
    batch_id int8 NOT NULL,
    state    int2 NOT NULL               -- 0: it has not ended
);
CREATE INDEX pawl_member_of ON pawl_member (batch_id, task_id);

-- What is still to be told. kind: 0 the batch may have ended; 1 its end (value: the state) to children; 2 its cancel to members;
-- 3 to children that are held: it was retried as `value`; 4 the child may have parents that have ended.
CREATE TABLE pawl_unsettled (
    n        int8 GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    id       int8 NOT NULL,
    kind     int2 NOT NULL,
    after    int8 NOT NULL,              -- the last one told
    value    int8 NOT NULL,
    later_us int8 NOT NULL DEFAULT 0     -- somebody had it locked: not before
) WITH (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 1000, autovacuum_vacuum_cost_delay = 0);

-- What of a parent that is swept its children may still ask for.
CREATE TABLE pawl_kept (
    id          int8 PRIMARY KEY,
    state       int2 NOT NULL,
    error       text,
    result_type text,
    result_ref  text,
    result      bytea
);

-- 1: there was a family once.
ALTER TABLE pawl_gate ADD COLUMN families int8 NOT NULL DEFAULT 0;

-- ---- looking ----------------------------------------------------------------------------------------------------------------------

-- As pawl_batch_info has it.
CREATE VIEW pawl_batch_whole AS
SELECT b.id, b.name, b.within, (CASE WHEN b.ended_us IS NOT NULL THEN b.state WHEN b.closed_us IS NOT NULL THEN 1 ELSE 2 END)::int8 AS state,
    b.cancel_asked, b.unfinished + p.unfinished AS unfinished, b.succeeded + p.succeeded AS succeeded, b.failed + p.failed AS failed,
    b.cancelled + p.cancelled AS cancelled, b.created_us, b.closed_us, b.ended_us
FROM pawl_batch b, LATERAL (
    SELECT coalesce(sum(x.unfinished), 0)::int8 AS unfinished, coalesce(sum(x.succeeded), 0)::int8 AS succeeded,
        coalesce(sum(x.failed), 0)::int8 AS failed, coalesce(sum(x.cancelled), 0)::int8 AS cancelled
    FROM pawl_batch_part x WHERE x.batch_id = b.id) p;
