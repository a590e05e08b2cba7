-- Retention, in small steps.

-- name: slots_list
SELECT slot, born, first_us, min_id, max_id FROM pawl_done_slot WHERE state = ? ORDER BY slot, born;

-- name: slot_rows
SELECT id, finished_us, fence, node, flags, log_id FROM pawl_done WHERE id BETWEEN ? AND ? AND state = ? ORDER BY id;

-- name: slot_keep
UPDATE pawl_done_slot SET first_us = ?, min_id = ? WHERE state = ? AND slot = ? AND born = ?;

-- name: slot_drop
DELETE FROM pawl_done_slot WHERE state = ? AND slot = ? AND born = ?;

-- name: failed_resolved_rows
SELECT id, resolved_us FROM pawl_failed WHERE resolved_us IS NOT NULL ORDER BY resolved_us LIMIT ?;

-- name: failed_open_rows
SELECT id, finished_us FROM pawl_failed WHERE resolved_us IS NULL ORDER BY finished_us LIMIT ?;

-- name: failed_expiring
SELECT count(*) FROM (SELECT 1 FROM pawl_failed WHERE resolved_us IS NULL AND finished_us < ? LIMIT 10000);

-- name: failed_queue
SELECT b.queue_id FROM pawl_failed f JOIN pawl_body b ON b.id = f.id WHERE f.id = ? AND f.resolved_us IS NULL;

-- name: forget_done
DELETE FROM pawl_done WHERE id = ?;

-- name: forget_failed
DELETE FROM pawl_failed WHERE id = ?;

-- name: forget_body
DELETE FROM pawl_body WHERE id = ?;

-- name: forget_key
DELETE FROM pawl_key WHERE key = ? AND tenant_id = ? AND old IN (0, ?3) AND task_id = ?3;

-- name: forget_attempts
DELETE FROM pawl_attempt WHERE task_id = ?;

-- name: forget_attempt_logs
DELETE FROM pawl_runlog WHERE task_id = ?1 AND id IN (
    SELECT log_id FROM pawl_attempt WHERE task_id = ?1 AND log_id IS NOT NULL
    UNION ALL SELECT log_id FROM pawl_failed WHERE id = ?1 AND log_id IS NOT NULL
    UNION ALL SELECT log_id FROM pawl_done WHERE id = ?1 AND log_id IS NOT NULL);

-- name: forget_audit
DELETE FROM pawl_audit WHERE task_id = ?;

-- name: seen_drop
DELETE FROM pawl_seen WHERE level = ? AND block = ? AND NOT EXISTS (SELECT 1 FROM pawl_body WHERE id BETWEEN ? AND ?);

-- name: body_key
SELECT key, coalesce(tenant_id, 0), born FROM pawl_body WHERE id = ?;

-- name: body_oldest
SELECT created_us FROM pawl_body ORDER BY id LIMIT 1;

-- name: body_from
SELECT min(created_us) FROM (SELECT created_us FROM pawl_body WHERE id >= ? ORDER BY id LIMIT 200) WHERE created_us > ?;

-- name: audit_walk
SELECT task_id, number, at_us FROM pawl_audit WHERE task_id > ? ORDER BY task_id, number;

-- name: audit_drop
DELETE FROM pawl_audit WHERE task_id = ? AND number = ?;

-- name: runlog_oldest
SELECT id, at_us FROM pawl_runlog ORDER BY id LIMIT ?;

-- name: runlog_drop
DELETE FROM pawl_runlog WHERE id = ?;

-- name: oplog_oldest
SELECT id, at_us FROM pawl_oplog ORDER BY id LIMIT ?;

-- name: oplog_drop
DELETE FROM pawl_oplog WHERE id = ?;

-- name: nodes_idle
SELECT n.id, n.sidecar FROM pawl_node n LEFT JOIN pawl_heartbeat h ON h.node = n.id
WHERE n.alive = 1 AND coalesce(h.leases, 0) = 0;

-- name: nodes_dead
SELECT n.id, n.died_us FROM pawl_node n LEFT JOIN pawl_heartbeat h ON h.node = n.id
WHERE n.alive = 0 AND coalesce(h.leases, 0) = 0 ORDER BY n.died_us;

-- name: node_forget
UPDATE pawl_node SET alive = -1 WHERE id = ?;

-- name: nodes_drop
DELETE FROM pawl_node WHERE alive = -1 AND died_us < ?;

-- name: receipts_drop
DELETE FROM pawl_receipt WHERE id BETWEEN ? AND ?;

-- name: receipts_stray
DELETE FROM pawl_receipt WHERE id >> 8 NOT IN (SELECT id FROM pawl_node);

-- name: born_drop
DELETE FROM pawl_born_hour WHERE hour < ? AND NOT EXISTS (SELECT 1 FROM pawl_body WHERE id BETWEEN min_id AND max_id);

-- name: rollup_oldest
SELECT min(minute) FROM pawl_rollup;

-- name: rollup_drop
DELETE FROM pawl_rollup WHERE minute = ?;
