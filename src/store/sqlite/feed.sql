-- What nodes tell of what they do, while somebody listens.

-- name: feed_head
SELECT last, broken, until_us FROM pawl_feed_head WHERE id = 1;

-- name: feed_head_put
UPDATE pawl_feed_head SET last = ?, broken = ?, until_us = ? WHERE id = 1;

-- name: feed_put
INSERT INTO pawl_feed (last, count, facts) VALUES (?, ?, ?);

-- name: feed_trim
DELETE FROM pawl_feed WHERE last <= ?;

-- name: feed_list
SELECT last, count, facts FROM pawl_feed WHERE last > ? ORDER BY last LIMIT ?;
