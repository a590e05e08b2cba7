-- Whether tasks may come and go: see pawl_gate in pawl/store.h. One row.
CREATE TABLE pawl_gate (
    id       INTEGER PRIMARY KEY,
    mode     INTEGER NOT NULL,
    at_us    INTEGER NOT NULL,       -- since when
    move     TEXT,
    peer     TEXT,
    who      TEXT,
    position TEXT
);
INSERT INTO pawl_gate (id, mode, at_us) VALUES (1, 0, 0);
