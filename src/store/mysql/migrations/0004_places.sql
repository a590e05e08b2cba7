-- Concurrency limits, and queues whose tenants take turns. See CONCURRENCY LIMITS and TENANTS in pawl/store.h. All of it apart from pawl_live,
-- so that tasks without pay nothing for it: there such a task differs only in `ready`, which is NULL.

-- scope: 1 queue, 2 type, 3 rate keys of a type, 4 tenants of a queue. A bound that was taken away has most 0; its row stays, because tasks
-- may still hold places of it. bound_key '': of all. Of tenants (their number as text) most is the weight; without one it says whether they
-- take turns.
CREATE TABLE IF NOT EXISTS pawl_bound (
    scope      TINYINT NOT NULL,
    name_id    INT NOT NULL,
    bound_key  VARBINARY(256) NOT NULL,
    most       INT NOT NULL,
    ordered    TINYINT NOT NULL,
    changed_us BIGINT NOT NULL,
    PRIMARY KEY (scope, name_id, bound_key)
) ENGINE=InnoDB ROW_FORMAT=DYNAMIC CHARACTER SET utf8mb4 COLLATE utf8mb4_bin;

-- What whoever looks at a spot in order to write holds locked, in the order of the key. Rows that nobody needs any more are swept.
CREATE TABLE IF NOT EXISTS pawl_spot (
    scope    TINYINT NOT NULL,
    name_id  INT NOT NULL,
    spot_key VARBINARY(256) NOT NULL,
    PRIMARY KEY (scope, name_id, spot_key)
) ENGINE=InnoDB ROW_FORMAT=DYNAMIC CHARACTER SET utf8mb4 COLLATE utf8mb4_bin STATS_PERSISTENT=0 STATS_AUTO_RECALC=0;

CREATE TABLE IF NOT EXISTS pawl_place (
    scope    TINYINT NOT NULL,
    name_id  INT NOT NULL,
    spot_key VARBINARY(256) NOT NULL,
    number   INT NOT NULL,
    task_id  BIGINT NOT NULL,
    PRIMARY KEY (scope, name_id, spot_key, number),
    KEY pawl_place_task (task_id)
) ENGINE=InnoDB ROW_FORMAT=DYNAMIC CHARACTER SET utf8mb4 COLLATE utf8mb4_bin STATS_PERSISTENT=0 STATS_AUTO_RECALC=0;

-- Pending tasks that are blocked, and where. line: queue, type, class and tenant as one text.
CREATE TABLE IF NOT EXISTS pawl_blocked (
    task_id   BIGINT NOT NULL PRIMARY KEY,
    scope     TINYINT NOT NULL,
    name_id   INT NOT NULL,
    spot_key  VARBINARY(256) NOT NULL,
    line      VARBINARY(32) NOT NULL,
    priority  SMALLINT NOT NULL,
    run_at_us BIGINT NOT NULL,
    KEY pawl_blocked_line (scope, name_id, spot_key, line, priority, run_at_us, task_id),
    KEY pawl_blocked_first (scope, name_id, spot_key, task_id)
) ENGINE=InnoDB ROW_FORMAT=DYNAMIC CHARACTER SET utf8mb4 COLLATE utf8mb4_bin STATS_PERSISTENT=0 STATS_AUTO_RECALC=0;

-- Pending tasks of queues whose tenants take turns, in the place of the ready index. No tenant is 0.
CREATE TABLE IF NOT EXISTS pawl_shared (
    task_id   BIGINT NOT NULL PRIMARY KEY,
    queue_id  INT NOT NULL,
    priority  SMALLINT NOT NULL,
    tenant_id INT NOT NULL,
    lane      BIGINT NOT NULL,
    run_at_us BIGINT NOT NULL,
    KEY pawl_shared_turn (queue_id, priority, tenant_id, run_at_us, task_id),
    KEY pawl_shared_due (queue_id, run_at_us)
) ENGINE=InnoDB ROW_FORMAT=DYNAMIC CHARACTER SET utf8mb4 COLLATE utf8mb4_bin STATS_PERSISTENT=0 STATS_AUTO_RECALC=0;

-- Whose turn it is in a queue, and how many tasks more it may have.
CREATE TABLE IF NOT EXISTS pawl_turn (
    queue_id  INT NOT NULL PRIMARY KEY,
    tenant_id INT NOT NULL,
    rest      INT NOT NULL
) ENGINE=InnoDB ROW_FORMAT=DYNAMIC CHARACTER SET utf8mb4 COLLATE utf8mb4_bin;
