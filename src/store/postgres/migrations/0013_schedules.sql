-- Schedules: see functions/schedules.sql.

CREATE TABLE pawl_schedule (
    id         int8 GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    name       text COLLATE "C" NOT NULL UNIQUE,
    after      text COLLATE "C",       -- the schedule whose successes it follows
    anchor_us  int8 NOT NULL,
    created_us int8 NOT NULL,
    changed_us int8 NOT NULL,
    spec       text NOT NULL,
    payload    bytea
);
CREATE INDEX pawl_schedule_after ON pawl_schedule (after) WHERE after IS NOT NULL;

CREATE TABLE pawl_schedule_state (
    id            int8 PRIMARY KEY,
    name          text COLLATE "C" NOT NULL,
    version       int8 NOT NULL,
    next_us       int8 NOT NULL,
    occurrence_us int8 NOT NULL,
    last_us       int8 NOT NULL DEFAULT 0,
    look_us       int8,                -- NULL: only when something happens, or it is off
    runs          int8 NOT NULL DEFAULT 0,
    fired         int8 NOT NULL DEFAULT 0,
    skipped       int8 NOT NULL DEFAULT 0,
    succeeded     int8 NOT NULL DEFAULT 0,
    failed        int8 NOT NULL DEFAULT 0,
    open          int8 NOT NULL DEFAULT 0, -- occurrences in this state,
    waiting       int8 NOT NULL DEFAULT 0, -- in this one,
    settled       int8 NOT NULL DEFAULT 0, -- and in all others
    number        int8 NOT NULL DEFAULT 0, -- decisions about occurrences so far
    last_task     int8 NOT NULL DEFAULT 0,
    off           int2 NOT NULL,       -- pawl_off
    watch         bool NOT NULL,
    reason        text
) WITH (fillfactor = 50, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 2000, autovacuum_vacuum_cost_delay = 0);
CREATE INDEX pawl_schedule_look ON pawl_schedule_state (look_us, name) WHERE look_us IS NOT NULL;

-- At most one task for each (schedule, occurrence).
CREATE TABLE pawl_occurrence (
    schedule_id int8 NOT NULL,
    occurrence  int8 NOT NULL,
    number      int8 NOT NULL,         -- the order in which they were decided
    at_us       int8 NOT NULL,
    task_id     int8 NOT NULL,         -- 0: none
    count       int8 NOT NULL,
    state       int2 NOT NULL,         -- pawl_occurrence_state: 1 waiting, 2 open, all others are settled
    why         text,
    PRIMARY KEY (schedule_id, occurrence)
) WITH (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 2000, autovacuum_vacuum_cost_delay = 0);
CREATE UNIQUE INDEX pawl_occurrence_open ON pawl_occurrence (task_id) WHERE state = 2;
CREATE INDEX pawl_occurrence_waiting ON pawl_occurrence (schedule_id, number) WHERE state = 1;

-- Tasks of open occurrences that ended while somebody else had their schedule.
CREATE TABLE pawl_ended (
    task_id int8 PRIMARY KEY
) WITH (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 1000, autovacuum_vacuum_cost_delay = 0);

-- 1: there was a schedule once. A task of one appears after that, so whoever can end it has seen it.
ALTER TABLE pawl_gate ADD COLUMN schedules int8 NOT NULL DEFAULT 0;

-- ---- looking ----------------------------------------------------------------------------------------------------------------------

-- A schedule, but for its payload; see pawl_schedule_row in pawl/store.h.
CREATE VIEW pawl_schedule_whole AS
SELECT d.id, d.name, d.after, s.version, s.off::int8 AS off, s.reason, d.anchor_us, s.next_us, s.occurrence_us, s.last_us, s.look_us, s.watch,
    s.runs, s.fired, s.skipped, s.succeeded, s.failed, s.open, s.waiting, s.last_task, d.created_us, d.changed_us, d.spec
FROM pawl_schedule d JOIN pawl_schedule_state s ON s.id = d.id;
