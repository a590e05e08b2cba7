-- What nodes tell of what they do, while somebody listens: see pawl_feed in pawl/store.h. One row says how far it has come.
CREATE TABLE pawl_feed_head (
    id       int4 PRIMARY KEY CHECK (id = 1),
    last     int8 NOT NULL,          -- the number of the last fact
    broken   int8 NOT NULL,          -- stands for all that was not told because nobody listened
    until_us int8 NOT NULL           -- somebody listens until then
);
INSERT INTO pawl_feed_head (id, last, broken, until_us) VALUES (1, 0, 0, 0);

-- Facts as they were told, several in a row.
CREATE TABLE pawl_feed (
    last  int8 PRIMARY KEY,          -- the number of the last of them
    count int4 NOT NULL,
    facts text NOT NULL
);
