-- The gate, which says whether tasks may come and go: see pawl_gate in pawl/store.h.

-- Row 1 is the gate. A store whose gate is shut (mode 2 or 3) takes no tasks and grants none. Row 2 is what transactions hold (shared) that saw
-- it open, so that whoever shuts it can tell when the last of them has ended, and still waits for none of them.
CREATE TABLE IF NOT EXISTS pawl_gate (
    id       TINYINT NOT NULL PRIMARY KEY,
    mode     TINYINT NOT NULL DEFAULT 0,
    at_us    BIGINT NOT NULL DEFAULT 0,
    move     TEXT,
    peer     TEXT,
    who      TEXT,
    position TEXT
) ENGINE=InnoDB ROW_FORMAT=DYNAMIC CHARACTER SET utf8mb4 COLLATE utf8mb4_bin;
INSERT IGNORE INTO pawl_gate (id) VALUES (1), (2);
