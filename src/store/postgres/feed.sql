-- What nodes tell of what they do, while somebody listens. "@." stands for the schema's name.

-- name: feed
SELECT last, broken, left_us, fresh::int4 FROM @.pawl_feed_tell($1, $2, $3, $4, $5, $6);

-- name: feed_head
SELECT last, broken, greatest(until_us - coalesce($1::int8, @.pawl_now()), 0),
    (EXISTS (SELECT FROM @.pawl_drain d JOIN @.pawl_node n ON n.id = d.node AND n.alive = 1 WHERE d.node = $2))::int4
FROM @.pawl_feed_head;

-- name: drain
SELECT @.pawl_node_drain($1, $2, $3, $4, $5)::int4;

-- name: feed_list
SELECT last, count, facts FROM @.pawl_feed WHERE last > $1 ORDER BY last LIMIT $2;
