-- What nodes tell about themselves, for people; as long as they live.
CREATE TABLE pawl_told (
    node INTEGER PRIMARY KEY,
    told BLOB NOT NULL
);
