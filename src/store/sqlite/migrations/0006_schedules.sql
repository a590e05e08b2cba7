-- Schedules. What changes with every occurrence is narrow; definitions lie apart and are written once.

CREATE TABLE pawl_schedule (
    id            INTEGER PRIMARY KEY,
    name          TEXT NOT NULL UNIQUE,
    after         TEXT,                         -- the schedule whose successes it follows
    version       INTEGER NOT NULL,
    off           INTEGER NOT NULL,             -- pawl_off
    reason        TEXT,
    anchor_us     INTEGER NOT NULL,
    next_us       INTEGER NOT NULL,
    occurrence_us INTEGER NOT NULL,
    last_us       INTEGER NOT NULL DEFAULT 0,
    look_us       INTEGER,                      -- NULL: only when something happens
    watch         INTEGER NOT NULL,
    runs          INTEGER NOT NULL DEFAULT 0,
    fired         INTEGER NOT NULL DEFAULT 0,
    skipped       INTEGER NOT NULL DEFAULT 0,
    succeeded     INTEGER NOT NULL DEFAULT 0,
    failed        INTEGER NOT NULL DEFAULT 0,
    open          INTEGER NOT NULL DEFAULT 0,   -- occurrences in this state,
    waiting       INTEGER NOT NULL DEFAULT 0,   -- in this one,
    settled       INTEGER NOT NULL DEFAULT 0,   -- and in all others
    number        INTEGER NOT NULL DEFAULT 0,   -- decisions about occurrences so far
    last_task     INTEGER NOT NULL DEFAULT 0,
    created_us    INTEGER NOT NULL,
    changed_us    INTEGER NOT NULL
);
CREATE INDEX pawl_schedule_look ON pawl_schedule (look_us, name) WHERE look_us IS NOT NULL;
CREATE INDEX pawl_schedule_after ON pawl_schedule (after) WHERE after IS NOT NULL;

CREATE TABLE pawl_schedule_body (
    schedule_id INTEGER PRIMARY KEY,
    spec        TEXT NOT NULL,
    payload     BLOB
);

-- At most one task for each (schedule, occurrence).
CREATE TABLE pawl_occurrence (
    schedule_id INTEGER NOT NULL,
    occurrence  INTEGER NOT NULL,
    state       INTEGER NOT NULL,               -- pawl_occurrence_state: 1 waiting, 2 open, all others are settled
    number      INTEGER NOT NULL,               -- the order in which they were decided
    at_us       INTEGER NOT NULL,
    task_id     INTEGER NOT NULL,               -- 0: none
    count       INTEGER NOT NULL,
    why         TEXT,
    PRIMARY KEY (schedule_id, occurrence)
) WITHOUT ROWID;
CREATE UNIQUE INDEX pawl_occurrence_open ON pawl_occurrence (task_id) WHERE state = 2;
