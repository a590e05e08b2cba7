-- Nodes that are to start nothing more, as long as they live.
CREATE TABLE pawl_drain (
    node int4 PRIMARY KEY
);
