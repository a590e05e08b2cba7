-- Rows of tasks: reading and writing the tables that hold them. Parameters and columns are used in the order they stand here.

-- name: leased_get
SELECT fence, node, queue_id, type_id, leased_us, run_at_us, started_us, not_started, mark, class, cancel_asked,
       runs, failures, interruptions, rescues, strikes, level
FROM pawl_leased WHERE id = ?;

-- name: leased_put
INSERT INTO pawl_leased (id, fence, node, queue_id, type_id, leased_us, run_at_us, not_started, mark, class, cancel_asked,
                         runs, failures, interruptions, rescues, strikes, level)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, 0, ?, ?, ?, ?, ?, ?);

-- name: leased_drop
DELETE FROM pawl_leased WHERE id = ?;

-- name: leased_start
UPDATE pawl_leased SET not_started = 0, started_us = ?, mark = max(mark, ?) WHERE id = ?;

-- name: leased_cancel
UPDATE pawl_leased SET cancel_asked = 1 WHERE id = ?;

-- name: leased_progress
UPDATE pawl_leased SET progress = ?, progress_text = ? WHERE id = ?;

-- name: cancel_put
INSERT OR IGNORE INTO pawl_cancel (node, task_id) VALUES (?, ?);

-- name: cancel_drop
DELETE FROM pawl_cancel WHERE node = ? AND task_id = ?;

-- name: live_get
SELECT state, queue_id, type_id, priority, class, run_at_us, fence,
       runs, failures, interruptions, rescues, strikes, level, unreadable
FROM pawl_live WHERE id = ?;

-- name: live_put
INSERT INTO pawl_live (id, state, queue_id, type_id, priority, class, run_at_us, blocked, fence,
                       runs, failures, interruptions, rescues, strikes, level, unreadable, tenant_id)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?);

-- name: live_drop
DELETE FROM pawl_live WHERE id = ?;

-- name: live_unreadable
UPDATE pawl_live SET unreadable = unreadable + 1 WHERE id = ?;

-- name: done_put
INSERT INTO pawl_done (id, state, finished_us, fence, node, outcome, started_us, run_us, leased_us, run_at_us,
                       runs, failures, interruptions, rescues, level, flags, log_id, log_lines, progress, progress_text,
                       code, error, reason, result_type, result_ref, result)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?);

-- name: failed_put
INSERT INTO pawl_failed (id, state, finished_us, fence, node, outcome, started_us, run_us, leased_us, run_at_us,
                         runs, failures, interruptions, rescues, level, flags, log_id, log_lines, progress, progress_text,
                         code, error, reason, result_type, result_ref, result)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?);

-- name: done_state
SELECT state, fence, retried_as FROM pawl_done WHERE id = ?;

-- name: failed_state
SELECT state, fence, retried_as, resolved_us IS NOT NULL, reason IS 'unreadable' FROM pawl_failed WHERE id = ?;

-- name: attempt_put
INSERT INTO pawl_attempt (task_id, number, outcome, started_us, finished_us, fence, node, log_id, log_lines, code, error)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?);

-- name: done_progress
UPDATE pawl_done SET (progress, progress_text) = (SELECT progress, progress_text FROM pawl_leased WHERE id = ?1) WHERE id = ?1;

-- name: failed_progress
UPDATE pawl_failed SET (progress, progress_text) = (SELECT progress, progress_text FROM pawl_leased WHERE id = ?1) WHERE id = ?1;

-- name: runlog_put
INSERT INTO pawl_runlog (task_id, number, at_us, text) VALUES (?, ?, ?, ?);

-- name: audit_put
INSERT INTO pawl_audit (task_id, number, at_us, from_state, to_state, fence, node, detail)
SELECT ?1, coalesce(max(number), 0) + 1, ?2, ?3, ?4, ?5, ?6, ?7 FROM pawl_audit WHERE task_id = ?1;

-- name: audit_put_dispatch
INSERT INTO pawl_audit (task_id, number, at_us, from_state, to_state, fence, node)
SELECT id, 0, created_us, 0, born, 0, 0 FROM pawl_body WHERE id = ? AND born IN (1, 2);

-- name: body_put
INSERT INTO pawl_body (id, type_id, queue_id, created_us, priority, born, level, audit, tenant_id, max_attempts, timeout_us,
                       retry_of, key, content_type, created_by, traceparent, headers, rate_key, payload)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?);

-- name: body_replace
UPDATE pawl_body SET type_id = ?, queue_id = ?, priority = ?, born = CASE WHEN level = ?4 THEN born ELSE 0 END, level = ?4,
                     audit = ?, max_attempts = ?, timeout_us = ?,
                     content_type = ?, created_by = ?, traceparent = ?, headers = ?, rate_key = ?, payload = ?
WHERE id = ?;

-- name: body_get
SELECT type_id, queue_id, created_us, priority, audit, tenant_id, max_attempts, timeout_us, retry_of, key, content_type,
       created_by, traceparent, headers, rate_key, payload
FROM pawl_body WHERE id = ?;

-- name: body_stand_in
INSERT OR IGNORE INTO pawl_body (id, type_id, queue_id, created_us, priority, born, level, audit) VALUES (?, ?, ?, ?, ?, ?, ?, 0);

-- name: body_queue
SELECT queue_id FROM pawl_body WHERE id = ?;

-- name: body_priority
SELECT priority FROM pawl_body WHERE id = ?;

-- name: key_get
SELECT task_id FROM pawl_key WHERE key = ? AND tenant_id = ? AND old = 0;

-- name: key_put
INSERT INTO pawl_key (key, tenant_id, old, task_id) VALUES (?, ?, ?, ?);

-- name: key_move
UPDATE pawl_key SET task_id = ? WHERE key = ? AND tenant_id = ? AND old = 0;

-- name: oplog_put
INSERT INTO pawl_oplog (at_us, who, action, task_id, detail) VALUES (?, ?, ?, ?, ?);
