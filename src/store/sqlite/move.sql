-- The gate, and tasks that come from another store or go there.

-- name: gate_mode
SELECT mode FROM pawl_gate WHERE id = 1;

-- name: gate_get
SELECT mode, at_us, move, peer, who, position FROM pawl_gate WHERE id = 1;

-- name: gate_put
UPDATE pawl_gate SET at_us = CASE WHEN mode = ?1 THEN at_us ELSE ?2 END, mode = ?1, move = ?3, peer = ?4, who = ?5, position = ?6
WHERE id = 1;

-- name: gate_position
UPDATE pawl_gate SET position = ? WHERE id = 1;

-- name: gate_leases
SELECT count(*) FROM pawl_leased;

-- name: dump_tasks
SELECT b.id, v.state, l.id, d.state, f.state, d.finished_us, f.finished_us, f.resolved_us,
       b.type_id, b.queue_id, b.created_us, b.priority, b.born, b.level, b.audit, b.tenant_id, b.max_attempts, b.timeout_us, b.retry_of,
       b.key, b.content_type, b.created_by, b.traceparent, b.headers, b.rate_key, b.payload
FROM pawl_body b LEFT JOIN pawl_live v ON v.id = b.id LEFT JOIN pawl_leased l ON l.id = b.id
LEFT JOIN pawl_done d ON d.id = b.id LEFT JOIN pawl_failed f ON f.id = b.id
WHERE b.id > ? ORDER BY b.id LIMIT ?;

-- name: dump_live
SELECT class, CASE WHEN EXISTS (SELECT 1 FROM pawl_slotted WHERE task_id = pawl_live.id) THEN 0 ELSE run_at_us END, fence, runs, failures,
       interruptions, rescues, strikes
FROM pawl_live WHERE id = ?;

-- name: dump_leased
SELECT class, run_at_us, fence, runs, failures, interruptions, rescues, strikes, node, leased_us, started_us, cancel_asked, progress,
       progress_text
FROM pawl_leased WHERE id = ?;

-- name: dump_done
SELECT finished_us, fence, node, outcome, started_us, run_us, leased_us, run_at_us, runs, failures, interruptions, rescues, level, flags,
       log_id, log_lines, progress, progress_text, code, error, reason, retried_as, result_type, result_ref, result
FROM pawl_done WHERE id = ?;

-- name: dump_failed
SELECT finished_us, fence, node, outcome, started_us, run_us, leased_us, run_at_us, runs, failures, interruptions, rescues, level, flags,
       log_id, log_lines, progress, progress_text, code, error, reason, retried_as, result_type, result_ref, result,
       resolved_us, resolved_by, note
FROM pawl_failed WHERE id = ?;

-- name: dump_attempts
SELECT number, outcome, started_us, finished_us, fence, node, log_id, log_lines, code, error
FROM pawl_attempt WHERE task_id = ? ORDER BY number;

-- name: dump_log
SELECT at_us, text FROM pawl_runlog WHERE id = ? AND task_id = ? AND number = ?;

-- name: dump_changes
SELECT number, at_us, from_state, to_state, fence, node, detail FROM pawl_audit WHERE task_id = ? ORDER BY number;

-- name: dump_minute_next
SELECT min(minute) FROM pawl_rollup WHERE minute > ?;

-- name: dump_minutes
SELECT minute, queue_id, type_id, outcome, count, wait, run FROM pawl_rollup WHERE minute = ?;

-- name: dump_acts
SELECT id, at_us, who, action, task_id, detail FROM pawl_oplog WHERE id > ? ORDER BY id LIMIT ?;

-- name: dump_numbers
SELECT number, ceiling_ms FROM pawl_node_number;

-- name: load_end
INSERT INTO pawl_done (id, state, finished_us, fence, node, outcome, started_us, run_us, leased_us, run_at_us, runs, failures,
                       interruptions, rescues, level, flags, log_id, log_lines, progress, progress_text, code, error, reason, retried_as,
                       result_type, result_ref, result)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?);

-- name: load_failed
INSERT INTO pawl_failed (id, state, finished_us, fence, node, outcome, started_us, run_us, leased_us, run_at_us, runs, failures,
                         interruptions, rescues, level, flags, log_id, log_lines, progress, progress_text, code, error, reason, retried_as,
                         result_type, result_ref, result, resolved_us, resolved_by, note)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?);

-- name: load_resolved
UPDATE pawl_failed SET resolved_us = ?2, resolved_by = ?3, note = ?4 WHERE id = ?1 AND resolved_us IS NULL;

-- name: load_retried_done
UPDATE pawl_done SET retried_as = ? WHERE id = ? AND retried_as IS NULL;

-- name: load_retried_failed
UPDATE pawl_failed SET retried_as = ? WHERE id = ? AND retried_as IS NULL;

-- name: load_found
SELECT created_us, type_id, queue_id FROM pawl_body WHERE id = ?;

-- name: load_change
INSERT INTO pawl_audit (task_id, number, at_us, from_state, to_state, fence, node, detail) VALUES (?, ?, ?, ?, ?, ?, ?, ?);

-- name: load_key
INSERT OR REPLACE INTO pawl_key (key, tenant_id, old, task_id) VALUES (?, ?, ?, ?);

-- name: load_node_find
SELECT id FROM pawl_node WHERE name_id = ? AND alive = -1 AND sidecar = 0;

-- name: load_node_add
INSERT INTO pawl_node (id, name_id, pid, queues, types, lease_us, sidecar, born_us, alive, died_us)
VALUES (?1, ?2, 0, '', '', 0, 0, ?3, -1, ?3);

-- name: load_minute
INSERT OR REPLACE INTO pawl_rollup (minute, queue_id, type_id, outcome, count, wait, run) VALUES (?, ?, ?, ?, ?, ?, ?);

-- Families, in both directions.

-- name: dump_parents
SELECT parent_id, state FROM pawl_edge INDEXED BY pawl_edge_child WHERE child_id = ? ORDER BY parent_id;

-- name: dump_batches
SELECT id, name, within, created_us, closed_us, ended_us, state, cancel_asked, unfinished, succeeded, failed, cancelled
FROM pawl_batch WHERE id > ? ORDER BY id LIMIT ?;

-- name: dump_kept
SELECT id, state, error, result_type, result_ref, result FROM pawl_kept WHERE id > ? ORDER BY id LIMIT ?;

-- name: load_batch
INSERT OR IGNORE INTO pawl_batch (id, name, within, created_us, closed_us, ended_us, state, cancel_asked, unfinished, succeeded, failed,
                                  cancelled)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?);

-- name: load_kept
INSERT OR IGNORE INTO pawl_kept (id, state, error, result_type, result_ref, result) VALUES (?, ?, ?, ?, ?, ?);

-- Concurrency limits. 2: the turn of a pending task is now, 1: it waits for its turn.

-- name: dump_line
SELECT CASE
    WHEN EXISTS (SELECT 1 FROM pawl_place p INDEXED BY pawl_place_task JOIN pawl_spot s ON s.id = p.spot_id
                 WHERE p.task_id = ?1 AND s.scope = 3) THEN 2
    WHEN EXISTS (SELECT 1 FROM pawl_live v JOIN pawl_spot s ON s.id = v.blocked WHERE v.id = ?1 AND s.scope = 3 AND coalesce(
        (SELECT b.ordered FROM pawl_bound b WHERE b.scope = 3 AND b.name_id = s.name_id AND b.key = s.key AND b.most > 0),
        (SELECT b.ordered FROM pawl_bound b WHERE b.scope = 3 AND b.name_id = s.name_id AND b.key = x'' AND b.most > 0), 0)) THEN 1
    ELSE 0 END;

-- name: dump_bounds
SELECT b.scope, n.text, b.key, b.most, b.ordered FROM pawl_bound b JOIN pawl_name n ON n.id = b.name_id WHERE b.most > 0
ORDER BY b.scope, n.text, b.key;

-- Schedules.

-- name: dump_schedules
SELECT s.id, name, after, version, off, reason, anchor_us, next_us, occurrence_us, last_us, look_us, watch, runs, fired, skipped,
    succeeded, failed, open, waiting, last_task, created_us, changed_us, spec, payload
FROM pawl_schedule s JOIN pawl_schedule_body b ON b.schedule_id = s.id WHERE s.id > ? ORDER BY s.id LIMIT ?;

-- name: dump_occurrences
SELECT occurrence, state, at_us, task_id, count, why FROM pawl_occurrence WHERE schedule_id = ? ORDER BY number DESC;

-- name: load_schedule
INSERT INTO pawl_schedule (name, after, version, off, reason, anchor_us, next_us, occurrence_us, last_us, look_us, watch, runs, fired,
                           skipped, succeeded, failed, open, waiting, settled, number, last_task, created_us, changed_us)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?);
