-- What nodes tell of what they do, while somebody listens. "@." stands for the schema's name.

-- name: feed
SELECT last, broken, left_us, fresh::int4 FROM @.pawl_feed_tell($1, $2, $3, $4, $5, $6);

-- name: feed_head
SELECT last, broken, greatest(until_us - coalesce($1::int8, @.pawl_now()), 0) FROM @.pawl_feed_head;

-- name: feed_list
SELECT last, count, facts FROM @.pawl_feed WHERE last > $1 ORDER BY last LIMIT $2;
