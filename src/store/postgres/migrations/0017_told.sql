-- What nodes tell about themselves, for people; as long as they live.
CREATE TABLE pawl_told (
    node int4 PRIMARY KEY,
    told bytea NOT NULL
);
