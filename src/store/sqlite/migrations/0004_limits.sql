-- Rate limits. A limit with permits 0 that is not paused was taken away; its row stays, because tasks may still have slots of it.

-- flags: 1 start_empty, 2 retries_free, 4 discard, 8 paused.
CREATE TABLE pawl_limit (
    type_id    INTEGER NOT NULL,
    key        BLOB NOT NULL,      -- empty: the type's own
    permits    INTEGER NOT NULL,
    period_us  INTEGER NOT NULL,
    burst      INTEGER NOT NULL,   -- as said: 0 is permits
    horizon_us INTEGER NOT NULL,
    flags      INTEGER NOT NULL,
    changed_us INTEGER NOT NULL,
    PRIMARY KEY (type_id, key)
) WITHOUT ROWID;

-- The quotas, and by which rate they are counted; see store/gate.h.
CREATE TABLE pawl_budget (
    id           INTEGER PRIMARY KEY,
    type_id      INTEGER NOT NULL,
    key          BLOB NOT NULL,
    tat_us       INTEGER NOT NULL,
    tat_part     INTEGER NOT NULL,
    permits      INTEGER NOT NULL,
    period_us    INTEGER NOT NULL,
    burst        INTEGER NOT NULL,
    seen_us      INTEGER NOT NULL,
    epoch        INTEGER NOT NULL,
    last_id      INTEGER NOT NULL,
    last_slot_us INTEGER NOT NULL,
    UNIQUE (type_id, key)
);

-- Pending tasks whose run_at is a slot. Apart from pawl_live, so that others do not pay for it.
CREATE TABLE pawl_slotted (
    task_id INTEGER PRIMARY KEY,
    budget_id INTEGER NOT NULL,
    epoch   INTEGER NOT NULL
);
CREATE INDEX pawl_slotted_budget ON pawl_slotted (budget_id);
