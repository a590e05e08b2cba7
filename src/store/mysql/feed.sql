-- What nodes tell of what they do, while somebody listens.

-- name: feed_lock
SELECT last, broken, until_us FROM @.pawl_feed_head WHERE id = 1 FOR UPDATE;

-- name: feed_head
SELECT last, broken, until_us, EXISTS (SELECT 1 FROM @.pawl_drain d JOIN @.pawl_node n ON n.id = d.node AND n.alive = 1 WHERE d.node = $1)
FROM @.pawl_feed_head WHERE id = 1;

-- name: drain_look
SELECT name FROM @.pawl_node WHERE id = $1 AND alive = 1;

-- name: drain_tidy
DELETE d FROM @.pawl_drain d LEFT JOIN @.pawl_node n ON n.id = d.node AND n.alive = 1 WHERE n.id IS NULL;

-- name: drain_put
INSERT IGNORE INTO @.pawl_drain (node) VALUES ($1);

-- name: drain_drop
DELETE FROM @.pawl_drain WHERE node = $1;

-- name: feed_head_put
UPDATE @.pawl_feed_head SET last = $1, broken = $2, until_us = $3 WHERE id = 1;

-- name: feed_put
INSERT INTO @.pawl_feed (last, count, facts) VALUES ($1, $2, $3);

-- name: feed_trim
DELETE FROM @.pawl_feed WHERE last <= $1;

-- name: feed_list
SELECT last, count, facts FROM @.pawl_feed FORCE INDEX (PRIMARY) WHERE last > $1 ORDER BY last LIMIT $2;
