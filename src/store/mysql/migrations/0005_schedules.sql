-- Schedules. What changes with every occurrence is narrow; definitions lie apart and are written once.

-- id is that of its name in pawl_name; after_id likewise, of the schedule whose successes it follows. Whoever changes a schedule, or an
-- occurrence of it, holds its row.
CREATE TABLE IF NOT EXISTS pawl_schedule (
    id            INT NOT NULL PRIMARY KEY,
    name          VARBINARY(1000) NOT NULL,
    after_id      INT,
    version       BIGINT NOT NULL,
    off           TINYINT NOT NULL,           -- pawl_off
    watch         TINYINT NOT NULL,
    reason        TEXT,
    anchor_us     BIGINT NOT NULL,
    next_us       BIGINT NOT NULL,
    occurrence_us BIGINT NOT NULL,
    last_us       BIGINT NOT NULL,
    look_us       BIGINT,                     -- NULL: only when something happens
    runs          BIGINT NOT NULL,
    fired         BIGINT NOT NULL,
    skipped       BIGINT NOT NULL,
    succeeded     BIGINT NOT NULL,
    failed        BIGINT NOT NULL,
    open          BIGINT NOT NULL,            -- occurrences in this state,
    waiting       BIGINT NOT NULL,            -- in this one,
    settled       BIGINT NOT NULL,            -- and in all others
    number        BIGINT NOT NULL,            -- decisions about occurrences so far
    last_task     BIGINT NOT NULL,
    created_us    BIGINT NOT NULL,
    changed_us    BIGINT NOT NULL,
    KEY pawl_schedule_name (name),
    KEY pawl_schedule_look (look_us, name),
    KEY pawl_schedule_after (after_id)
) ENGINE=InnoDB ROW_FORMAT=DYNAMIC CHARACTER SET utf8mb4 COLLATE utf8mb4_bin STATS_PERSISTENT=0 STATS_AUTO_RECALC=0;

CREATE TABLE IF NOT EXISTS pawl_schedule_body (
    schedule_id INT NOT NULL PRIMARY KEY,
    spec        LONGTEXT NOT NULL,
    payload     LONGBLOB
) ENGINE=InnoDB ROW_FORMAT=DYNAMIC CHARACTER SET utf8mb4 COLLATE utf8mb4_bin;

-- At most one task for each (schedule, occurrence). open_task: its task, as long as that is unfinished.
CREATE TABLE IF NOT EXISTS pawl_occurrence (
    schedule_id INT NOT NULL,
    occurrence  BIGINT NOT NULL,
    state       TINYINT NOT NULL,             -- pawl_occurrence_state: 1 waiting, 2 open, all others are settled
    number      BIGINT NOT NULL,              -- the order in which they were decided
    at_us       BIGINT NOT NULL,
    task_id     BIGINT NOT NULL,              -- 0: none
    count       BIGINT NOT NULL,
    why         TEXT,
    open_task   BIGINT,
    PRIMARY KEY (schedule_id, occurrence),
    KEY pawl_occurrence_number (schedule_id, number),
    KEY pawl_occurrence_open (open_task)
) ENGINE=InnoDB ROW_FORMAT=DYNAMIC CHARACTER SET utf8mb4 COLLATE utf8mb4_bin STATS_PERSISTENT=0 STATS_AUTO_RECALC=0;
