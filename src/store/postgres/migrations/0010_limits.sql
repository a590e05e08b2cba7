-- Rate limits: see functions/limits.sql.

-- A limit with permits 0 that is not paused was taken away; its row stays, because tasks may still have slots of it.
-- flags: 1 start_empty, 2 retries_free, 4 discard, 8 paused.
CREATE TABLE pawl_limit (
    type_id    int4 NOT NULL,
    key        bytea NOT NULL,      -- empty: the type's own
    permits    int4 NOT NULL,
    period_us  int8 NOT NULL,
    burst      int4 NOT NULL,       -- as said: 0 is permits
    horizon_us int8 NOT NULL,
    flags      int4 NOT NULL,
    changed_us int8 NOT NULL,
    PRIMARY KEY (type_id, key)
);

-- Grows with every change of a limit; 0: there never was one. It is here because everybody reads this row anyway.
ALTER TABLE pawl_gate ADD COLUMN limits int8 NOT NULL DEFAULT 0;

CREATE TABLE pawl_budget (
    id           int8 GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    type_id      int4 NOT NULL,
    key          bytea NOT NULL,
    tat_us       int8 NOT NULL DEFAULT 0,
    tat_part     int4 NOT NULL DEFAULT 0,
    permits      int4 NOT NULL DEFAULT 0,   -- what tat is counted by; 0: it was never used
    period_us    int8 NOT NULL DEFAULT 0,
    burst        int4 NOT NULL DEFAULT 0,
    seen_us      int8 NOT NULL DEFAULT 0,
    epoch        int8 NOT NULL DEFAULT 0,
    last_id      int8 NOT NULL DEFAULT 0,
    last_slot_us int8 NOT NULL DEFAULT 0,
    UNIQUE (type_id, key)
) WITH (fillfactor = 50, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 5000, autovacuum_vacuum_cost_delay = 0);

-- How far the search for idle budgets came.
CREATE SEQUENCE pawl_budget_walk AS int8 MINVALUE 0 START 0;

-- Pending tasks whose run_at is a slot. Apart from pawl_live, so that others do not pay for it.
CREATE TABLE pawl_slotted (
    task_id   int8 PRIMARY KEY,
    budget_id int8 NOT NULL,
    epoch     int8 NOT NULL
) WITH (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 5000, autovacuum_vacuum_cost_delay = 0);
CREATE INDEX pawl_slotted_budget ON pawl_slotted (budget_id);
