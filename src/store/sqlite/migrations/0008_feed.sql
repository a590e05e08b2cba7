-- What nodes tell of what they do, while somebody listens: see pawl_feed in pawl/store.h. One row says how far it has come.
CREATE TABLE pawl_feed_head (
    id       INTEGER PRIMARY KEY,
    last     INTEGER NOT NULL,       -- the number of the last fact
    broken   INTEGER NOT NULL,       -- stands for all that was not told because nobody listened
    until_us INTEGER NOT NULL        -- somebody listens until then
);
INSERT INTO pawl_feed_head (id, last, broken, until_us) VALUES (1, 0, 0, 0);

-- Facts as they were told, several in a row.
CREATE TABLE pawl_feed (
    last  INTEGER PRIMARY KEY,       -- the number of the last of them
    count INTEGER NOT NULL,
    facts TEXT NOT NULL
);
