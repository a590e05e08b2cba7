-- Nodes, what they were promised, and what happened in numbers.

-- The life row: written at birth and death. sidecar names the lock file in which the node's life can be tested.
CREATE TABLE pawl_node (
    id       INTEGER PRIMARY KEY,
    name_id  INTEGER NOT NULL,
    pid      INTEGER NOT NULL,
    queues   TEXT NOT NULL,
    types    TEXT NOT NULL,
    lease_us INTEGER NOT NULL,
    sidecar  INTEGER NOT NULL,
    born_us  INTEGER NOT NULL,
    alive    INTEGER NOT NULL,           -- 1 alive, 0 dead, -1 swept: only its name is still needed
    died_us  INTEGER,
    blame    INTEGER NOT NULL DEFAULT 0  -- how its marked starts are judged when it is rescued
);

CREATE TABLE pawl_heartbeat (
    node       INTEGER PRIMARY KEY,
    boot_id    TEXT NOT NULL,
    expires_us INTEGER NOT NULL,         -- microseconds since that boot
    renewal    INTEGER NOT NULL,
    leases     INTEGER NOT NULL
);

CREATE TABLE pawl_node_number (
    number     INTEGER PRIMARY KEY,
    node       INTEGER NOT NULL,         -- 0: free
    floor_ms   INTEGER NOT NULL,         -- ids of milliseconds above it belong to the owner,
    ceiling_ms INTEGER NOT NULL          -- below this one
);

-- id is node << 8 | lane.
CREATE TABLE pawl_receipt (
    id      INTEGER PRIMARY KEY,
    number  INTEGER NOT NULL,
    results BLOB NOT NULL
);

CREATE TABLE pawl_rollup (
    minute   INTEGER NOT NULL,
    queue_id INTEGER NOT NULL,
    type_id  INTEGER NOT NULL,
    outcome  INTEGER NOT NULL,
    count    INTEGER NOT NULL,
    wait     BLOB,
    run      BLOB,
    PRIMARY KEY (minute, queue_id, type_id, outcome)
) WITHOUT ROWID;

-- What people did.
CREATE TABLE pawl_oplog (
    id      INTEGER PRIMARY KEY,
    at_us   INTEGER NOT NULL,
    who     TEXT NOT NULL,
    action  TEXT NOT NULL,
    task_id INTEGER,
    detail  TEXT
);
