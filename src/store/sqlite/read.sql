-- Questions. All of these run on reading connections, inside a read transaction.

-- name: read_begin
BEGIN;

-- name: info_body
SELECT type_id, queue_id, created_us, priority, born, level, audit, tenant_id, max_attempts, timeout_us, retry_of, key,
       content_type, created_by, traceparent, headers, rate_key
FROM pawl_body WHERE id = ?;

-- name: info_payload
SELECT payload FROM pawl_body WHERE id = ?;

-- name: info_leased
SELECT fence, node, leased_us, run_at_us, started_us, not_started, cancel_asked, runs, failures, interruptions, rescues, level,
       progress, progress_text
FROM pawl_leased WHERE id = ?;

-- name: info_live
SELECT state, run_at_us, fence, runs, failures, interruptions, rescues, blocked, EXISTS (SELECT 1 FROM pawl_slotted WHERE task_id = pawl_live.id) FROM pawl_live WHERE id = ?;

-- name: info_done
SELECT state, finished_us, fence, node, outcome, started_us, run_us, leased_us, run_at_us, runs, failures, interruptions, rescues,
       level, flags, log_lines, progress, progress_text, code, error, reason, retried_as, result_type, result_ref, result
FROM pawl_done WHERE id = ?;

-- name: info_failed
SELECT state, finished_us, fence, node, outcome, started_us, run_us, leased_us, run_at_us, runs, failures, interruptions, rescues,
       level, flags, log_lines, progress, progress_text, code, error, reason, retried_as, result_type, result_ref, result,
       resolved_us, resolved_by, note
FROM pawl_failed WHERE id = ?;

-- name: info_attempts
SELECT number, outcome, started_us, finished_us, fence, node, code, error, log_lines
FROM pawl_attempt WHERE task_id = ? ORDER BY number;

-- name: info_attempts_count
SELECT count(*) FROM pawl_attempt WHERE task_id = ?;

-- name: info_last_error
SELECT code, error FROM pawl_attempt WHERE task_id = ? ORDER BY number DESC LIMIT 1;

-- name: node_name
SELECT m.text FROM pawl_node n JOIN pawl_name m ON m.id = n.name_id WHERE n.id = ?;

-- name: node_pulse
SELECT n.alive, h.boot_id, h.expires_us FROM pawl_node n LEFT JOIN pawl_heartbeat h ON h.node = n.id WHERE n.id = ?;

-- name: list_all_up
SELECT id, 0, 0, 0, type_id, queue_id, coalesce(tenant_id, 0), created_us FROM pawl_body WHERE id BETWEEN ? AND ? ORDER BY id;

-- name: list_all_down
SELECT id, 0, 0, 0, type_id, queue_id, coalesce(tenant_id, 0), created_us FROM pawl_body WHERE id BETWEEN ? AND ?
ORDER BY id DESC;

-- name: list_live_up
SELECT id, state, run_at_us, failures, blocked, EXISTS (SELECT 1 FROM pawl_slotted WHERE task_id = pawl_live.id) FROM pawl_live WHERE id BETWEEN ? AND ? ORDER BY id;

-- name: list_live_down
SELECT id, state, run_at_us, failures, blocked, EXISTS (SELECT 1 FROM pawl_slotted WHERE task_id = pawl_live.id) FROM pawl_live WHERE id BETWEEN ? AND ? ORDER BY id DESC;

-- name: list_leased_up
SELECT id, 3, node, 0 FROM pawl_leased WHERE id BETWEEN ? AND ? ORDER BY id;

-- name: list_leased_down
SELECT id, 3, node, 0 FROM pawl_leased WHERE id BETWEEN ? AND ? ORDER BY id DESC;

-- name: list_done_up
SELECT id, state, 0, 0 FROM pawl_done WHERE id BETWEEN ? AND ? ORDER BY id;

-- name: list_done_down
SELECT id, state, 0, 0 FROM pawl_done WHERE id BETWEEN ? AND ? ORDER BY id DESC;

-- name: list_failed_up
SELECT id, state, resolved_us IS NOT NULL, 0 FROM pawl_failed WHERE id BETWEEN ? AND ? ORDER BY id;

-- name: list_failed_down
SELECT id, state, resolved_us IS NOT NULL, 0 FROM pawl_failed WHERE id BETWEEN ? AND ? ORDER BY id DESC;

-- name: list_key_up
SELECT task_id, 0, 0, 0 FROM pawl_key WHERE task_id BETWEEN ? AND ? AND key = ? ORDER BY task_id;

-- name: list_key_down
SELECT task_id, 0, 0, 0 FROM pawl_key WHERE task_id BETWEEN ? AND ? AND key = ? ORDER BY task_id DESC;

-- name: list_live_one
SELECT state, run_at_us, failures, blocked, EXISTS (SELECT 1 FROM pawl_slotted WHERE task_id = pawl_live.id) FROM pawl_live WHERE id = ?;

-- name: list_leased_one
SELECT 3, node, 0 FROM pawl_leased WHERE id = ?;

-- name: list_done_one
SELECT state, 0, 0 FROM pawl_done WHERE id = ?;

-- name: list_failed_one
SELECT state, resolved_us IS NOT NULL, 0 FROM pawl_failed WHERE id = ?;

-- name: list_since
SELECT min(min_id) FROM pawl_born_hour WHERE hour >= ?;

-- name: list_until
SELECT max(max_id) FROM pawl_born_hour WHERE hour <= ?;

-- name: seen_up
SELECT block, names FROM pawl_seen WHERE level = ? AND block BETWEEN ? AND ? ORDER BY block;

-- name: seen_down
SELECT block, names FROM pawl_seen WHERE level = ? AND block BETWEEN ? AND ? ORDER BY block DESC;

-- name: list_body
SELECT type_id, queue_id, coalesce(tenant_id, 0), created_us, key FROM pawl_body WHERE id = ?;

-- name: search_body
SELECT type_id, queue_id, coalesce(tenant_id, 0), key, payload FROM pawl_body WHERE id = ?;

-- name: search_error
SELECT code, error FROM (
    SELECT 0 AS n, code, error FROM pawl_done WHERE id = ?
    UNION ALL SELECT 0, code, error FROM pawl_failed WHERE id = ?
    UNION ALL SELECT number, code, error FROM pawl_attempt
        WHERE task_id = ? AND number = (SELECT max(number) FROM pawl_attempt WHERE task_id = ?)) ORDER BY n LIMIT 1;

-- name: trail_audit
SELECT at_us, from_state, to_state, fence, node, detail FROM pawl_audit WHERE task_id = ? ORDER BY number;

-- name: trail_audit_count
SELECT count(*) FROM pawl_audit WHERE task_id = ?;

-- A log that was swept leaves its number behind, which another one may get: so it must say whose it is.

-- name: trail_logs
SELECT l.number, l.text FROM (
    SELECT number, log_id FROM pawl_attempt WHERE task_id = ?1
    UNION ALL SELECT runs, log_id FROM pawl_done WHERE id = ?1
    UNION ALL SELECT runs, log_id FROM pawl_failed WHERE id = ?1) a
CROSS JOIN pawl_runlog l ON l.id = a.log_id WHERE l.task_id = ?1 AND l.number = a.number ORDER BY l.number;

-- name: nodes_list
SELECT n.id, m.text, n.pid, n.queues, n.types, n.sidecar, n.born_us, n.alive, h.boot_id, h.expires_us, h.leases, t.told,
       n.alive = 1 AND EXISTS (SELECT 1 FROM pawl_drain d WHERE d.node = n.id)
FROM pawl_node n JOIN pawl_name m ON m.id = n.name_id LEFT JOIN pawl_heartbeat h ON h.node = n.id
LEFT JOIN pawl_told t ON t.node = n.id AND n.alive = 1
WHERE n.alive >= 0 ORDER BY n.id;

-- name: nodes_count
SELECT count(*) FROM pawl_node;

-- name: queues_list
SELECT q.name_id, m.text, q.paused, q.waiting, q.pending, q.leased, q.failed
FROM pawl_queue q CROSS JOIN pawl_name m ON m.id = q.name_id ORDER BY m.text;

-- name: queues_count
SELECT count(*) FROM pawl_queue;

-- name: queues_throttled
SELECT l.queue_id, count(*) FROM (SELECT task_id FROM pawl_slotted LIMIT 20000) s JOIN pawl_live l ON l.id = s.task_id GROUP BY l.queue_id;

-- name: rollup_window
SELECT minute, outcome, count, wait, run FROM pawl_rollup WHERE minute BETWEEN ? AND ? ORDER BY minute;

-- name: acts
SELECT id, at_us, who, action, detail, task_id FROM pawl_oplog WHERE id < ? ORDER BY id DESC LIMIT ?;
