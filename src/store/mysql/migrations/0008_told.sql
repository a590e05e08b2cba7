-- What nodes tell about themselves, for people; as long as they live.
CREATE TABLE IF NOT EXISTS pawl_told (
    node BIGINT NOT NULL PRIMARY KEY,
    told MEDIUMBLOB NOT NULL
) ENGINE=InnoDB ROW_FORMAT=DYNAMIC CHARACTER SET utf8mb4 COLLATE utf8mb4_bin;
