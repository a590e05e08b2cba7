-- What people and programs ask of tasks and queues.

-- name: done_retried
UPDATE pawl_done SET retried_as = ? WHERE id = ?;

-- name: failed_retried
UPDATE pawl_failed SET retried_as = ?, resolved_us = coalesce(resolved_us, ?), resolved_by = coalesce(resolved_by, ?)
WHERE id = ?;

-- name: failed_ack
UPDATE pawl_failed SET resolved_us = ?, resolved_by = ?, note = ? WHERE id = ?;

-- name: queue_pause
INSERT INTO pawl_queue (name_id, paused) VALUES (?1, ?2) ON CONFLICT (name_id) DO UPDATE SET paused = ?2;

-- name: queue_exists
INSERT OR IGNORE INTO pawl_queue (name_id) VALUES (?);

-- name: queue_get
SELECT paused, waiting + pending + leased FROM pawl_queue WHERE name_id = ?;

-- name: queue_add
INSERT INTO pawl_queue (name_id, waiting, pending, leased, failed) VALUES (?1, ?2, ?3, ?4, ?5)
ON CONFLICT (name_id) DO UPDATE SET waiting = waiting + ?2, pending = pending + ?3, leased = leased + ?4, failed = failed + ?5;
