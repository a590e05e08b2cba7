-- Concurrency limits, and queues whose tenants take turns. See CONCURRENCY LIMITS and TENANTS in pawl/store.h.

-- scope: 1 queue, 2 type, 3 rate keys of a type, 4 tenants of a queue. A bound that was taken away has most 0; its row stays, because
-- tasks may still hold places of it. Of tenants most is the weight; without a tenant it says whether they take turns.
CREATE TABLE pawl_bound (
    scope      INTEGER NOT NULL,
    name_id    INTEGER NOT NULL,
    key        BLOB NOT NULL,      -- empty: of all; a tenant's number as text
    most       INTEGER NOT NULL,
    ordered    INTEGER NOT NULL,
    changed_us INTEGER NOT NULL,
    PRIMARY KEY (scope, name_id, key)
) WITHOUT ROWID;

-- What bounds count, while somebody holds a place of it or is blocked there.
CREATE TABLE pawl_spot (
    id      INTEGER PRIMARY KEY,
    scope   INTEGER NOT NULL,
    name_id INTEGER NOT NULL,
    key     BLOB NOT NULL,
    UNIQUE (scope, name_id, key)
);

CREATE TABLE pawl_place (
    spot_id INTEGER NOT NULL,
    number  INTEGER NOT NULL,
    task_id INTEGER NOT NULL,
    PRIMARY KEY (spot_id, number)
) WITHOUT ROWID;
CREATE INDEX pawl_place_task ON pawl_place (task_id);

-- Whose turn it is in a queue, and how many tasks more it may have. Once there is a row, tasks of the queue may have a tenant_id.
CREATE TABLE pawl_turn (
    queue_id  INTEGER PRIMARY KEY,
    tenant_id INTEGER NOT NULL,
    rest      INTEGER NOT NULL
);

-- pawl_live.blocked is the spot where a task is blocked. tenant_id is set in a queue whose tenants take turns (0: the task has
-- none); those tasks have an index of their own, so that others do not pay for it.
ALTER TABLE pawl_live ADD COLUMN tenant_id INTEGER;
DROP INDEX pawl_ready;
CREATE INDEX pawl_ready ON pawl_live (queue_id, priority, class, type_id, run_at_us)
WHERE state = 2 AND blocked = 0 AND tenant_id IS NULL;
CREATE INDEX pawl_shared ON pawl_live (queue_id, priority, tenant_id, class, type_id, run_at_us)
WHERE state = 2 AND blocked = 0 AND tenant_id IS NOT NULL;
CREATE INDEX pawl_shared_due ON pawl_live (queue_id, run_at_us) WHERE state = 2 AND blocked = 0 AND tenant_id IS NOT NULL;
CREATE INDEX pawl_blocked ON pawl_live (blocked, queue_id, type_id, class, tenant_id, priority, run_at_us) WHERE blocked <> 0;
CREATE INDEX pawl_line ON pawl_live (blocked) WHERE blocked <> 0;
