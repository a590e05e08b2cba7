-- The gate, and tasks that come from another store or go there: see pawl_gate, pawl_dump and pawl_load in pawl/store.h.

-- One row. A store whose gate is shut (mode 2 or 3) takes no tasks and grants none.
CREATE TABLE pawl_gate (
    id       int4 PRIMARY KEY CHECK (id = 1),
    mode     int4 NOT NULL,
    at_us    int8 NOT NULL,          -- since when
    move     text,
    peer     text,
    who      text,
    position text
);
INSERT INTO pawl_gate (id, mode, at_us) VALUES (1, 0, 0);
