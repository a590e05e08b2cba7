-- What nodes tell of what they do, while somebody listens: see pawl_feed in pawl/store.h. One row says how far it has come.
CREATE TABLE IF NOT EXISTS pawl_feed_head (
    id       TINYINT NOT NULL PRIMARY KEY,
    last     BIGINT NOT NULL DEFAULT 0,  -- the number of the last fact
    broken   BIGINT NOT NULL DEFAULT 0,  -- stands for all that was not told because nobody listened
    until_us BIGINT NOT NULL DEFAULT 0   -- somebody listens until then
) ENGINE=InnoDB ROW_FORMAT=DYNAMIC CHARACTER SET utf8mb4 COLLATE utf8mb4_bin;
INSERT IGNORE INTO pawl_feed_head (id) VALUES (1);

-- Facts as they were told, several in a row.
CREATE TABLE IF NOT EXISTS pawl_feed (
    last  BIGINT NOT NULL PRIMARY KEY,   -- the number of the last of them
    count INT NOT NULL,
    facts MEDIUMTEXT NOT NULL
) ENGINE=InnoDB ROW_FORMAT=DYNAMIC CHARACTER SET utf8mb4 COLLATE utf8mb4_bin;
