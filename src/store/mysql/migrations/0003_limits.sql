-- Rate limits. A limit with permits 0 that is not paused was taken away; its row stays, because tasks may still have slots of it.

-- rate_key '': the type's own. burst as said: 0 is permits. flags: 1 start_empty, 2 retries_free, 4 discard, 8 paused.
CREATE TABLE IF NOT EXISTS pawl_limit (
    type_id    INT NOT NULL,
    rate_key   VARBINARY(256) NOT NULL,
    permits    INT NOT NULL,
    period_us  BIGINT NOT NULL,
    burst      INT NOT NULL,
    horizon_us BIGINT NOT NULL,
    flags      TINYINT NOT NULL,
    changed_us BIGINT NOT NULL,
    PRIMARY KEY (type_id, rate_key)
) ENGINE=InnoDB ROW_FORMAT=DYNAMIC CHARACTER SET utf8mb4 COLLATE utf8mb4_bin;

-- The budgets, and by which rate they are counted; see store/budget.h. Locked in the order of the key.
CREATE TABLE IF NOT EXISTS pawl_budget (
    type_id      INT NOT NULL,
    rate_key     VARBINARY(256) NOT NULL,
    tat_us       BIGINT NOT NULL DEFAULT 0,
    tat_part     INT NOT NULL DEFAULT 0,
    permits      INT NOT NULL DEFAULT 0,
    period_us    BIGINT NOT NULL DEFAULT 0,
    burst        INT NOT NULL DEFAULT 0,
    seen_us      BIGINT NOT NULL DEFAULT 0,
    epoch        BIGINT NOT NULL DEFAULT 0,
    last_id      BIGINT NOT NULL DEFAULT 0,
    last_slot_us BIGINT NOT NULL DEFAULT 0,
    PRIMARY KEY (type_id, rate_key)
) ENGINE=InnoDB ROW_FORMAT=DYNAMIC CHARACTER SET utf8mb4 COLLATE utf8mb4_bin STATS_PERSISTENT=0 STATS_AUTO_RECALC=0;

-- Pending tasks whose run_at is a slot. Apart from pawl_live, so that others do not pay for it; changed only under the lock of the task's
-- row there.
CREATE TABLE IF NOT EXISTS pawl_slotted (
    task_id  BIGINT NOT NULL PRIMARY KEY,
    type_id  INT NOT NULL,
    rate_key VARBINARY(256) NOT NULL,
    epoch    BIGINT NOT NULL,
    KEY pawl_slotted_budget (type_id, rate_key)
) ENGINE=InnoDB ROW_FORMAT=DYNAMIC CHARACTER SET utf8mb4 COLLATE utf8mb4_bin STATS_PERSISTENT=0 STATS_AUTO_RECALC=0;

INSERT IGNORE INTO pawl_meta (name, value) VALUES ('limits_version', '0');
