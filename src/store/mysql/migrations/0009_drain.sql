-- Nodes that are to start nothing more, as long as they live.
CREATE TABLE IF NOT EXISTS pawl_drain (
    node BIGINT NOT NULL PRIMARY KEY
) ENGINE=InnoDB ROW_FORMAT=DYNAMIC CHARACTER SET utf8mb4 COLLATE utf8mb4_bin;
