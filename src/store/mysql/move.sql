-- The gate, and tasks that come from another store or go there.

-- First held, then looked at: who has the row and sees the gate open after that counts among the writers until its transaction ends. Where the
-- gate is shut nothing is held, so those who come and are refused do not count.

-- name: gate_hold
SELECT w.id FROM @.pawl_gate w FORCE INDEX (PRIMARY)
WHERE w.id = (SELECT CASE WHEN g.mode < 2 THEN 2 END FROM @.pawl_gate g WHERE g.id = 1) LOCK IN SHARE MODE;

-- name: gate_mode
SELECT mode FROM @.pawl_gate WHERE id = 1;

-- name: gate_shared
SELECT mode FROM @.pawl_gate WHERE id = 1 LOCK IN SHARE MODE;

-- name: gate_lock
SELECT mode, move, position FROM @.pawl_gate WHERE id = 1 FOR UPDATE;

-- name: gate_get
SELECT mode, at_us, move, peer, who, position, (SELECT COUNT(*) FROM @.pawl_leased) FROM @.pawl_gate WHERE id = 1;

-- name: gate_writers
SELECT id FROM @.pawl_gate WHERE id = 2 FOR UPDATE SKIP LOCKED;

-- name: gate_put
UPDATE @.pawl_gate SET at_us = IF(mode = $1, at_us, $2), mode = $1, move = $3, peer = $4, who = $5, position = $6 WHERE id = 1;

-- name: gate_position
UPDATE @.pawl_gate SET position = $1 WHERE id = 1;

-- name: discard
SET STATEMENT max_statement_time = 0 FOR DELETE FROM @.$1;

-- ---- dump

-- The last id of the next page: $2 tasks at most, and about $3 bytes of them (0: whatever they have).

-- name: dump_range
SELECT COUNT(*), MAX(s.id) FROM (SELECT id FROM @.pawl_body FORCE INDEX (PRIMARY) WHERE id > $1 ORDER BY id LIMIT $2) s;

-- name: dump_range_bytes
SELECT COUNT(*), MAX(s.id) FROM (
    SELECT x.id, SUM(x.size) OVER (ORDER BY x.id) - x.size AS sofar FROM (
        SELECT b.id, 256 + COALESCE(OCTET_LENGTH(b.payload), 0) + COALESCE(OCTET_LENGTH(b.headers), 0)
            + COALESCE((SELECT SUM(OCTET_LENGTH(l.text)) FROM @.pawl_runlog l WHERE l.task_id = b.id), 0) AS size
        FROM @.pawl_body b FORCE INDEX (PRIMARY) WHERE b.id > $1 ORDER BY b.id LIMIT $2) x) s
WHERE s.sofar < $3;

-- name: dump_more
SELECT EXISTS (SELECT 1 FROM @.pawl_body WHERE id > $1);

-- name: dump_counts
SELECT s.state, COUNT(*), SUM((s.id & 2147483647) * 1812433253 + (s.id >> 31) * 69069) MOD 18446744073709551616
FROM (SELECT id, state FROM @.pawl_live WHERE id > $1 AND id <= $2
      UNION ALL SELECT id, 3 FROM @.pawl_leased WHERE id > $1 AND id <= $2
      UNION ALL SELECT id, state FROM @.pawl_done WHERE id > $1 AND id <= $2
      UNION ALL SELECT id, state FROM @.pawl_failed WHERE id > $1 AND id <= $2) s
GROUP BY s.state;

-- Whole tasks of ($1, $2] in the states whose bits are set in $3; of the finished ones what ended or was resolved since $4.

-- name: dump_tasks
SELECT b.id, COALESCE(v.state, IF(l.id IS NULL, NULL, 3), d.state, f.state) AS state, tn.text, qn.text, en.text, b.created_us, b.priority,
    b.born, b.level, b.audit, b.max_attempts, b.timeout_us, b.retry_of, b.task_key, COALESCE(b.content_type, 'application/json'),
    b.created_by, b.traceparent, b.headers, b.rate_key, b.payload,
    b.task_key IS NOT NULL AND EXISTS (SELECT 1 FROM @.pawl_key k WHERE k.task_key = CAST(b.task_key AS BINARY)
        AND k.tenant_id = COALESCE(b.tenant_id, 0) AND k.old = 0 AND k.task_id = b.id),
    COALESCE(v.class, l.class), COALESCE(v.strikes, l.strikes),
    IF(v.id IS NOT NULL AND EXISTS (SELECT 1 FROM @.pawl_slotted s WHERE s.task_id = v.id), 0,
       COALESCE(v.run_at_us, l.run_at_us, d.run_at_us, f.run_at_us)),
    COALESCE(v.fence, l.fence, d.fence, f.fence), COALESCE(v.runs, l.runs, d.runs, f.runs),
    COALESCE(v.failures, l.failures, d.failures, f.failures),
    COALESCE(v.interruptions, l.interruptions, d.interruptions, f.interruptions), COALESCE(v.rescues, l.rescues, d.rescues, f.rescues),
    n.name, COALESCE(l.leased_us, d.leased_us, f.leased_us), COALESCE(l.started_us, d.started_us, f.started_us),
    COALESCE(l.cancel_asked, d.flags & 2, f.flags & 2, 0), COALESCE(l.progress, d.progress, f.progress),
    COALESCE(l.progress_text, d.progress_text, f.progress_text), COALESCE(d.finished_us, f.finished_us), COALESCE(d.run_us, f.run_us),
    COALESCE(d.outcome, f.outcome), COALESCE(d.level, f.level), COALESCE(d.flags, f.flags), COALESCE(d.log_lines, f.log_lines),
    COALESCE(d.code, f.code), COALESCE(d.error, f.error), COALESCE(d.reason, f.reason), COALESCE(d.retried_as, f.retried_as),
    COALESCE(d.result_type, f.result_type), COALESCE(d.result_ref, f.result_ref), COALESCE(d.result, f.result), f.resolved_us,
    f.resolved_by, f.note
FROM @.pawl_body b FORCE INDEX (PRIMARY)
STRAIGHT_JOIN @.pawl_name tn ON tn.id = b.type_id
STRAIGHT_JOIN @.pawl_name qn ON qn.id = b.queue_id
LEFT JOIN @.pawl_name en ON en.id = b.tenant_id
LEFT JOIN @.pawl_live v ON v.id = b.id
LEFT JOIN @.pawl_leased l ON l.id = b.id
LEFT JOIN @.pawl_done d ON d.id = b.id
LEFT JOIN @.pawl_failed f ON f.id = b.id
LEFT JOIN @.pawl_node n ON n.id = COALESCE(l.node, d.node, f.node)
WHERE b.id > $1 AND b.id <= $2 AND ($3 >> COALESCE(v.state, IF(l.id IS NULL, NULL, 3), d.state, f.state)) & 1 = 1
    AND (d.id IS NULL OR d.finished_us >= $4) AND (f.id IS NULL OR f.finished_us >= $4 OR f.resolved_us >= $4)
ORDER BY b.id;

-- What hangs on the tasks of a page: on those that are named, or on all from one to another.

-- name: dump_attempts
SELECT a.task_id, a.number, a.outcome, a.started_us, a.finished_us, a.fence, n.name, a.log_lines, a.code, a.error
FROM @.pawl_attempt a FORCE INDEX (PRIMARY) LEFT JOIN @.pawl_node n ON n.id = a.node WHERE a.task_id IN ($1) ORDER BY a.task_id, a.number;

-- name: dump_attempts_all
SELECT a.task_id, a.number, a.outcome, a.started_us, a.finished_us, a.fence, n.name, a.log_lines, a.code, a.error
FROM @.pawl_attempt a FORCE INDEX (PRIMARY) LEFT JOIN @.pawl_node n ON n.id = a.node WHERE a.task_id > $1 AND a.task_id <= $2 ORDER BY a.task_id, a.number;

-- name: dump_logs
SELECT task_id, number, at_us, text FROM @.pawl_runlog FORCE INDEX (PRIMARY) WHERE task_id IN ($1) ORDER BY task_id, number;

-- name: dump_logs_all
SELECT task_id, number, at_us, text FROM @.pawl_runlog FORCE INDEX (PRIMARY) WHERE task_id > $1 AND task_id <= $2 ORDER BY task_id, number;

-- name: dump_changes
SELECT a.task_id, a.number, a.at_us, a.from_state, a.to_state, a.fence, n.name, a.detail
FROM @.pawl_audit a FORCE INDEX (PRIMARY) LEFT JOIN @.pawl_node n ON n.id = a.node WHERE a.task_id IN ($1) ORDER BY a.task_id, a.number;

-- name: dump_changes_all
SELECT a.task_id, a.number, a.at_us, a.from_state, a.to_state, a.fence, n.name, a.detail
FROM @.pawl_audit a FORCE INDEX (PRIMARY) LEFT JOIN @.pawl_node n ON n.id = a.node WHERE a.task_id > $1 AND a.task_id <= $2 ORDER BY a.task_id, a.number;

-- name: dump_minutes
SELECT r.minute, q.text, t.text, r.outcome, r.total, r.wait_hist, r.run_hist, r.queue_id, r.type_id
FROM @.pawl_rollup r JOIN @.pawl_name q ON q.id = r.queue_id JOIN @.pawl_name t ON t.id = r.type_id
WHERE r.minute > $1 AND r.minute <= (SELECT MAX(m.minute) FROM (
    SELECT minute FROM @.pawl_rollup WHERE minute > $1 ORDER BY minute LIMIT $2) m)
ORDER BY r.minute, r.queue_id, r.type_id, r.outcome;

-- name: dump_acts
SELECT id, at_us, who, action, task_id, detail FROM @.pawl_oplog WHERE id > $1 ORDER BY id LIMIT $2;

-- name: dump_numbers
SELECT number, ceiling_ms FROM @.pawl_number WHERE ceiling_ms > 0
UNION ALL SELECT 0, last FROM @.pawl_drawn;

-- name: dump_limits
SELECT n.text, l.rate_key, l.permits, l.period_us, l.burst, l.horizon_us, l.flags FROM @.pawl_limit l JOIN @.pawl_name n ON n.id = l.type_id
WHERE l.permits > 0 OR l.flags & 8 ORDER BY l.type_id, l.rate_key;

-- name: dump_budgets
SELECT n.text, g.rate_key, g.tat_us, g.tat_part, g.permits, g.period_us, g.burst, g.seen_us, g.epoch
FROM @.pawl_budget g FORCE INDEX (PRIMARY) JOIN @.pawl_name n ON n.id = g.type_id ORDER BY g.type_id, g.rate_key LIMIT $2 OFFSET $1;

-- ---- load

-- name: past_nodes
SELECT MIN(id), name FROM @.pawl_node WHERE alive = -1 AND lease_us = 0 AND name IN ($1) GROUP BY name;

-- name: past_nodes_make
INSERT INTO @.pawl_node (name, pid, queues, types, lease_us, born_us, alive, gone, died_us, blame) VALUES $1;

-- name: load_found
SELECT id, created_us, type_id FROM @.pawl_body FORCE INDEX (PRIMARY) WHERE id IN ($1) LOCK IN SHARE MODE;

-- name: past_done_put
INSERT INTO @.pawl_done (id, finished_us, started_us, run_us, leased_us, run_at_us, node, fence, runs, failures, interruptions, rescues,
                         state, outcome, level, flags, log_lines, progress, progress_text, code, error, reason, retried_as, result_type,
                         result_ref, result)
VALUES $1;

-- name: past_failed_put
INSERT INTO @.pawl_failed (id, finished_us, started_us, run_us, leased_us, run_at_us, node, fence, runs, failures, interruptions, rescues,
                           state, outcome, level, flags, log_lines, progress, progress_text, code, error, reason, retried_as,
                           result_type, result_ref, result, resolved_us, resolved_by, note)
VALUES $1;

-- name: old_keys_put
INSERT IGNORE INTO @.pawl_key (task_key, tenant_id, old, task_id) VALUES $1;

-- name: held_keys_put
INSERT INTO @.pawl_key (task_key, tenant_id, old, task_id) VALUES $1 ON DUPLICATE KEY UPDATE task_id = VALUES(task_id);

-- name: load_retried_done
UPDATE @.pawl_done SET retried_as = $2 WHERE id = $1 AND retried_as IS NULL;

-- name: load_retried_failed
UPDATE @.pawl_failed SET retried_as = $2 WHERE id = $1 AND retried_as IS NULL;

-- name: load_acts
INSERT INTO @.pawl_oplog (at_us, who, action, task_id, detail) VALUES $1;

-- name: load_limits
INSERT INTO @.pawl_limit (type_id, rate_key, permits, period_us, burst, horizon_us, flags, changed_us) VALUES $1
ON DUPLICATE KEY UPDATE permits = VALUES(permits), period_us = VALUES(period_us), burst = VALUES(burst), horizon_us = VALUES(horizon_us),
    flags = VALUES(flags), changed_us = VALUES(changed_us);

-- name: load_queues
INSERT INTO @.pawl_queue (queue_id, paused) VALUES $1 ON DUPLICATE KEY UPDATE paused = paused OR VALUES(paused);

-- name: load_ceilings
INSERT INTO @.pawl_number (number, ceiling_ms) VALUES $1 ON DUPLICATE KEY UPDATE ceiling_ms = GREATEST(ceiling_ms, VALUES(ceiling_ms));

-- name: load_drawn
UPDATE @.pawl_drawn SET last = GREATEST(last, $1) WHERE one = 1;

-- name: load_audit_cut
INSERT INTO @.pawl_meta (name, value) VALUES ('audit_cut_us', $1)
ON DUPLICATE KEY UPDATE value = GREATEST(CAST(value AS SIGNED), CAST(VALUES(value) AS SIGNED));

-- ---- concurrency limits, and the lines of ordered keys: 2 whose turn it is, 1 who waits

-- name: dump_bounds
SELECT b.scope, n.text, IF(b.scope = 4 AND b.bound_key <> '', CAST((SELECT t.text FROM @.pawl_name t
        WHERE t.id = CAST(b.bound_key AS SIGNED)) AS BINARY), b.bound_key), b.most, b.ordered
FROM @.pawl_bound b JOIN @.pawl_name n ON n.id = b.name_id WHERE b.most > 0 ORDER BY b.scope, n.text, b.bound_key;

-- name: dump_lines
SELECT p.task_id, 2 FROM @.pawl_place p FORCE INDEX (pawl_place_task) WHERE p.task_id IN ($1) AND p.scope = 3
UNION ALL
SELECT k.task_id, 1 FROM @.pawl_blocked k FORCE INDEX (PRIMARY) WHERE k.task_id IN ($1) AND k.scope = 3 AND COALESCE(
    (SELECT b.ordered FROM @.pawl_bound b WHERE b.scope = 3 AND b.name_id = k.name_id AND b.bound_key = k.spot_key AND b.most > 0),
    (SELECT b.ordered FROM @.pawl_bound b WHERE b.scope = 3 AND b.name_id = k.name_id AND b.bound_key = '' AND b.most > 0), 0)
ORDER BY 1, 2 DESC;

-- name: dump_lines_all
SELECT p.task_id, 2 FROM @.pawl_place p FORCE INDEX (pawl_place_task) WHERE p.task_id > $1 AND p.task_id <= $2 AND p.scope = 3
UNION ALL
SELECT k.task_id, 1 FROM @.pawl_blocked k FORCE INDEX (PRIMARY) WHERE k.task_id > $1 AND k.task_id <= $2 AND k.scope = 3 AND COALESCE(
    (SELECT b.ordered FROM @.pawl_bound b WHERE b.scope = 3 AND b.name_id = k.name_id AND b.bound_key = k.spot_key AND b.most > 0),
    (SELECT b.ordered FROM @.pawl_bound b WHERE b.scope = 3 AND b.name_id = k.name_id AND b.bound_key = '' AND b.most > 0), 0)
ORDER BY 1, 2 DESC;

-- name: load_bounds
INSERT INTO @.pawl_bound (scope, name_id, bound_key, most, ordered, changed_us) VALUES $1
ON DUPLICATE KEY UPDATE most = VALUES(most), ordered = VALUES(ordered), changed_us = VALUES(changed_us);

-- name: load_spots
INSERT IGNORE INTO @.pawl_spot (scope, name_id, spot_key) VALUES $1;

-- name: load_places
INSERT IGNORE INTO @.pawl_place (scope, name_id, spot_key, number, task_id) VALUES $1;

-- Where nobody has the turn, the first in the line gets it, and is claimed like others of its queue, whose tenants may take turns.

-- name: load_turns_taken
INSERT INTO @.pawl_place (scope, name_id, spot_key, number, task_id)
SELECT k.scope, k.name_id, k.spot_key, 1, MIN(k.task_id) FROM @.pawl_blocked k WHERE k.scope = 3 AND NOT EXISTS (
    SELECT 1 FROM @.pawl_place p WHERE p.scope = k.scope AND p.name_id = k.name_id AND p.spot_key = k.spot_key)
GROUP BY k.scope, k.name_id, k.spot_key;

-- name: load_turns_ready
UPDATE @.pawl_blocked k JOIN @.pawl_place p ON p.task_id = k.task_id AND p.scope = k.scope JOIN @.pawl_live v ON v.id = k.task_id
LEFT JOIN @.pawl_bound t ON t.scope = 4 AND t.name_id = v.queue_id AND t.bound_key = '' AND t.most > 0
SET v.ready = v.queue_id WHERE k.scope = 3 AND t.most IS NULL;

-- name: load_turns_shared
INSERT IGNORE INTO @.pawl_shared (task_id, queue_id, priority, tenant_id, lane, run_at_us)
SELECT v.id, v.queue_id, v.priority, COALESCE(b.tenant_id, 0), v.lane, v.run_at_us
FROM @.pawl_blocked k JOIN @.pawl_place p ON p.task_id = k.task_id AND p.scope = k.scope JOIN @.pawl_live v ON v.id = k.task_id
JOIN @.pawl_body b ON b.id = v.id
JOIN @.pawl_bound t ON t.scope = 4 AND t.name_id = v.queue_id AND t.bound_key = '' AND t.most > 0
WHERE k.scope = 3;

-- name: load_turns_told
DELETE k FROM @.pawl_blocked k JOIN @.pawl_place p ON p.task_id = k.task_id AND p.scope = k.scope WHERE k.scope = 3;

-- ---- families

-- name: dump_parents
SELECT child_id, parent_id, state FROM @.pawl_edge FORCE INDEX (pawl_edge_child) WHERE child_id IN ($1) ORDER BY child_id, parent_id;

-- name: dump_parents_all
SELECT child_id, parent_id, state FROM @.pawl_edge FORCE INDEX (pawl_edge_child) WHERE child_id > $1 AND child_id <= $2 ORDER BY child_id, parent_id;

-- name: dump_members
SELECT task_id, batch_id FROM @.pawl_member FORCE INDEX (PRIMARY) WHERE task_id IN ($1) ORDER BY task_id;

-- name: dump_members_all
SELECT task_id, batch_id FROM @.pawl_member FORCE INDEX (PRIMARY) WHERE task_id > $1 AND task_id <= $2 ORDER BY task_id;

-- name: dump_waits
SELECT child_id, if_failed FROM @.pawl_wait FORCE INDEX (PRIMARY) WHERE child_id IN ($1) ORDER BY child_id;

-- name: dump_waits_all
SELECT child_id, if_failed FROM @.pawl_wait FORCE INDEX (PRIMARY) WHERE child_id > $1 AND child_id <= $2 ORDER BY child_id;

-- name: dump_batches
SELECT id, name, within, created_us, closed_us, ended_us, state, cancel_asked, unfinished, succeeded, failed, cancelled
FROM @.pawl_batch FORCE INDEX (PRIMARY) WHERE id > $1 ORDER BY id LIMIT $2;

-- name: dump_kept
SELECT id, state, error, result_type, result_ref, result FROM @.pawl_kept FORCE INDEX (PRIMARY) WHERE id > $1 ORDER BY id LIMIT $2;

-- name: load_kin
SELECT id, state FROM @.pawl_live WHERE id IN ($1) UNION ALL SELECT id, 3 FROM @.pawl_leased WHERE id IN ($1)
UNION ALL SELECT id, state FROM @.pawl_done WHERE id IN ($1) UNION ALL SELECT id, state FROM @.pawl_failed WHERE id IN ($1)
UNION ALL SELECT id, state FROM @.pawl_batch WHERE id IN ($1) UNION ALL SELECT id, state FROM @.pawl_kept WHERE id IN ($1);

-- name: load_batches
INSERT IGNORE INTO @.pawl_batch (id, name, within, created_us, closed_us, ended_us, state, cancel_asked, unfinished, succeeded, failed,
                                 cancelled)
VALUES $1;

-- name: load_kept
INSERT IGNORE INTO @.pawl_kept (id, state, error, result_type, result_ref, result) VALUES $1;

-- ---- schedules

-- name: dump_schedules
SELECT s.id, s.name, (SELECT n.text FROM @.pawl_name n WHERE n.id = s.after_id), s.version, s.off, s.reason, s.anchor_us, s.next_us,
    s.occurrence_us, s.last_us, s.look_us, s.watch, s.runs, s.fired, s.skipped, s.succeeded, s.failed, s.open, s.waiting, s.last_task,
    s.created_us, s.changed_us
FROM @.pawl_schedule s FORCE INDEX (PRIMARY) WHERE s.id > $1 ORDER BY s.id LIMIT $2;

-- name: dump_occurrences
SELECT occurrence, state, at_us, task_id, count, why, schedule_id FROM @.pawl_occurrence FORCE INDEX (pawl_occurrence_number)
WHERE schedule_id = $1 ORDER BY number DESC;

-- name: load_schedules_found
SELECT id FROM @.pawl_schedule WHERE id IN ($1) FOR UPDATE;

-- Of an open occurrence whose task is not to end here any more nobody would tell.

-- name: load_occurrences_end
UPDATE @.pawl_occurrence o LEFT JOIN @.pawl_live v ON v.id = o.task_id LEFT JOIN @.pawl_leased l ON l.id = o.task_id
LEFT JOIN @.pawl_done d ON d.id = o.task_id LEFT JOIN @.pawl_failed f ON f.id = o.task_id
SET o.state = CASE COALESCE(d.state, f.state, 6) WHEN 4 THEN $2 WHEN 5 THEN $3 ELSE $4 END, o.open_task = NULL
WHERE o.schedule_id IN ($1) AND o.state = 2 AND v.id IS NULL AND l.id IS NULL;

-- name: load_schedules_count
UPDATE @.pawl_schedule s SET
    open = (SELECT COUNT(*) FROM @.pawl_occurrence o WHERE o.schedule_id = s.id AND o.state = 2),
    waiting = (SELECT COUNT(*) FROM @.pawl_occurrence o WHERE o.schedule_id = s.id AND o.state = 1),
    settled = (SELECT COUNT(*) FROM @.pawl_occurrence o WHERE o.schedule_id = s.id AND o.state > 2)
WHERE s.id IN ($1);
