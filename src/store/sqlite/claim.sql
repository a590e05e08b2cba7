-- The ready index (queue, priority, class, type, run_at) is a row of lanes: one per queue, priority, class and type.

-- The end of time in lane_next carries the search beyond the lane's last row: without it SQLite would look at each of them.

-- name: lane_next
SELECT priority, class, type_id FROM pawl_live INDEXED BY pawl_ready
WHERE state = 2 AND blocked = 0 AND tenant_id IS NULL AND queue_id = ? AND (priority, class, type_id, run_at_us) > (?, ?, ?, 9223372036854775807)
ORDER BY priority, class, type_id, run_at_us LIMIT 1;

-- name: lane_due
SELECT id, run_at_us, fence, runs, failures, interruptions, rescues, strikes, level, unreadable
FROM pawl_live INDEXED BY pawl_ready
WHERE state = 2 AND blocked = 0 AND tenant_id IS NULL AND queue_id = ? AND priority = ? AND class = ? AND type_id = ? AND run_at_us <= ?
ORDER BY run_at_us, id LIMIT ?;

-- name: lane_end
SELECT id, run_at_us, fence, runs, failures, interruptions, rescues, strikes, level, unreadable
FROM pawl_live INDEXED BY pawl_ready
WHERE state = 2 AND blocked = 0 AND tenant_id IS NULL AND queue_id = ? AND priority = ? AND class = ? AND type_id = ? AND run_at_us <= ?
ORDER BY run_at_us DESC, id DESC LIMIT ?;

-- name: lane_future
SELECT run_at_us FROM pawl_live INDEXED BY pawl_ready
WHERE state = 2 AND blocked = 0 AND tenant_id IS NULL AND queue_id = ? AND priority = ? AND class = ? AND type_id = ? AND run_at_us > ?
ORDER BY run_at_us LIMIT 1;

-- name: lane_count
SELECT count(*), min(run_at_us) FROM (
    SELECT run_at_us FROM pawl_live INDEXED BY pawl_ready
    WHERE state = 2 AND blocked = 0 AND tenant_id IS NULL AND queue_id = ? AND priority = ? AND class = ? AND type_id = ? AND run_at_us <= ?
    ORDER BY run_at_us LIMIT ?);
