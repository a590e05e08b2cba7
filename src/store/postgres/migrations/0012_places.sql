-- Concurrency limits, and queues whose tenants take turns: see functions/places.sql.

-- scope: 1 queue, 2 type, 3 rate keys of a type, 4 tenants of a queue. A bound that was taken away has most 0; its row stays, because
-- tasks may still hold places of it. Of tenants most is the weight; without a tenant it says whether they take turns.
CREATE TABLE pawl_bound (
    scope      int2 NOT NULL,
    name_id    int4 NOT NULL,
    key        bytea NOT NULL,      -- empty: of all; a tenant's number as text
    most       int4 NOT NULL,
    ordered    bool NOT NULL,
    changed_us int8 NOT NULL,
    PRIMARY KEY (scope, name_id, key)
);

-- Grows with every change of a bound; 0: there never was one.
ALTER TABLE pawl_gate ADD COLUMN bounds int8 NOT NULL DEFAULT 0;

-- What bounds count. Those that nobody needs any more are swept.
CREATE TABLE pawl_spot (
    id      int8 GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    scope   int2 NOT NULL,
    name_id int4 NOT NULL,
    key     bytea NOT NULL,
    UNIQUE (scope, name_id, key)
) WITH (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 5000, autovacuum_vacuum_cost_delay = 0);

-- How far the search for those came.
CREATE SEQUENCE pawl_spot_walk AS int8 MINVALUE 0 START 0;

CREATE TABLE pawl_place (
    spot_id int8 NOT NULL,
    number  int4 NOT NULL,
    task_id int8 NOT NULL,
    PRIMARY KEY (spot_id, number)
) WITH (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 1000, autovacuum_vacuum_cost_delay = 0);
CREATE INDEX pawl_place_task ON pawl_place (task_id);

-- tenant_id: -1 where tenants take no turns, 0: it has none.
CREATE TABLE pawl_blocked (
    task_id   int8 PRIMARY KEY,
    spot_id   int8 NOT NULL,
    queue_id  int4 NOT NULL,
    type_id   int4 NOT NULL,
    class     int2 NOT NULL,
    tenant_id int4 NOT NULL,
    priority  int2 NOT NULL,
    run_at_us int8 NOT NULL
) WITH (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 2000, autovacuum_vacuum_cost_delay = 0);
CREATE INDEX pawl_blocked_lane ON pawl_blocked (spot_id, queue_id, type_id, class, tenant_id, priority, run_at_us, task_id);
CREATE INDEX pawl_blocked_line ON pawl_blocked (spot_id, task_id);

CREATE TABLE pawl_shared (
    task_id   int8 PRIMARY KEY,
    queue_id  int4 NOT NULL,
    priority  int2 NOT NULL,
    tenant_id int4 NOT NULL,
    lane      int8 NOT NULL,        -- as in pawl_live
    run_at_us int8 NOT NULL
) WITH (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 2000, autovacuum_vacuum_cost_delay = 0);
CREATE INDEX pawl_shared_turn ON pawl_shared (queue_id, priority, tenant_id, lane, run_at_us, task_id);
CREATE INDEX pawl_shared_due ON pawl_shared (queue_id, run_at_us);

-- Whose turn it is in a queue, and how many tasks more it may have. Once there is a row, tasks of the queue may be in pawl_shared.
CREATE TABLE pawl_round (
    queue_id  int4 PRIMARY KEY,
    tenant_id int4 NOT NULL,
    rest      int4 NOT NULL
) WITH (fillfactor = 50, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 1000, autovacuum_vacuum_cost_delay = 0);

-- Spots where places may be free that were offered to nobody yet.
CREATE TABLE pawl_freed (
    spot_id int8 NOT NULL
) WITH (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 1000, autovacuum_vacuum_cost_delay = 0);
CREATE INDEX pawl_freed_spot ON pawl_freed (spot_id);
