-- Batches and what they are made of. "@." stands for the database, $1, $2, ... for literals; lists and rows are put together in C.

-- name: begin
START TRANSACTION;

-- name: commit
COMMIT;

-- name: greet
SELECT @@max_allowed_packet, @@global.read_only;

-- name: server_now
SELECT TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6));

-- name: guard
BEGIN NOT ATOMIC
    IF TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6)) > $1 THEN
        SIGNAL SQLSTATE '45000' SET MYSQL_ERRNO = 30001, MESSAGE_TEXT = 'too late: the caller has given up';
    END IF;
END;

-- name: life
SELECT alive, lease_us FROM @.pawl_node WHERE id = $1;

-- name: life_shared
SELECT alive, lease_us FROM @.pawl_node WHERE id = $1 LOCK IN SHARE MODE;

-- name: receipt
SELECT number, now_us, results FROM @.pawl_lane WHERE node = $1 AND lane = $2 FOR UPDATE;

-- name: receipt_make
INSERT IGNORE INTO @.pawl_lane (node, lane) VALUES ($1, $2);

-- name: receipt_put
UPDATE @.pawl_lane SET number = $3, now_us = $4, results = $5, leases = leases + $6, renewal = renewal + $7,
    expires_us = IF($7, $8, expires_us), backs = backs + $9
WHERE node = $1 AND lane = $2;

-- name: lane_new
INSERT INTO @.pawl_lane (node, lane, number, backs, now_us) VALUES (0, $1, 1, $2, $3);

-- name: paused
SELECT queue_id FROM @.pawl_queue WHERE paused = 1;

-- name: queue_make
INSERT IGNORE INTO @.pawl_queue (queue_id) VALUES $1;

-- name: queue_lock
SELECT queue_id FROM @.pawl_queue FORCE INDEX (PRIMARY) WHERE queue_id IN ($1) ORDER BY queue_id FOR UPDATE;

-- name: depths
SELECT queue_id, CAST(SUM(waiting + pending + leased) AS SIGNED) FROM @.pawl_count WHERE queue_id IN ($1) GROUP BY queue_id;

-- name: keys_lock
SELECT task_key, tenant_id, task_id FROM @.pawl_key FORCE INDEX (PRIMARY) WHERE $1 ORDER BY task_key, tenant_id FOR UPDATE;

-- name: live_lock
SELECT id, run_at_us, queue_id, type_id, fence, priority, class, state, level, keyed, runs, failures, interruptions, rescues, strikes
FROM @.pawl_live FORCE INDEX (PRIMARY) WHERE id IN ($1) ORDER BY id FOR UPDATE;

-- name: leased_lock
SELECT id, leased_us, run_at_us, started_us, node, queue_id, type_id, fence, priority, class, level, keyed, strikes, runs, failures,
    interruptions, rescues, not_started, mark, cancel_asked, progress, progress_text
FROM @.pawl_leased FORCE INDEX (PRIMARY) WHERE id IN ($1) ORDER BY id FOR UPDATE;

-- name: live_look
SELECT id, run_at_us, queue_id, type_id, fence, priority, class, state, level, keyed, runs, failures, interruptions, rescues, strikes
FROM @.pawl_live FORCE INDEX (PRIMARY) WHERE id IN ($1);

-- name: leased_look
SELECT id, leased_us, run_at_us, started_us, node, queue_id, type_id, fence, priority, class, level, keyed, strikes, runs, failures,
    interruptions, rescues, not_started, mark, cancel_asked, progress, progress_text
FROM @.pawl_leased FORCE INDEX (PRIMARY) WHERE id IN ($1);

-- name: ends_look
SELECT id, state, fence, COALESCE(run_at_us, 0), retried_as, 0, 0, 0 FROM @.pawl_done WHERE id IN ($1)
UNION ALL
SELECT id, state, fence, COALESCE(run_at_us, 0), retried_as, resolved_us IS NOT NULL, reason <=> 'unreadable', 0 FROM @.pawl_failed
WHERE id IN ($1);

-- name: done_lock
SELECT id, state, fence, COALESCE(run_at_us, 0), retried_as, 0, 0, 0 FROM @.pawl_done FORCE INDEX (PRIMARY) WHERE id IN ($1) ORDER BY id FOR UPDATE;

-- name: failed_lock
SELECT f.id, f.state, f.fence, COALESCE(f.run_at_us, 0), f.retried_as, f.resolved_us IS NOT NULL, f.reason <=> 'unreadable',
    (SELECT b.queue_id FROM @.pawl_body b WHERE b.id = f.id)
FROM @.pawl_failed f FORCE INDEX (PRIMARY) WHERE f.id IN ($1) ORDER BY f.id FOR UPDATE;

-- name: bodies_look
SELECT id FROM @.pawl_body FORCE INDEX (PRIMARY) WHERE id IN ($1) LOCK IN SHARE MODE;

-- name: body_heads
SELECT id, queue_id, type_id, priority, level, audit, COALESCE(tenant_id, 0), task_key FROM @.pawl_body WHERE id IN ($1);

-- name: rollups_look
SELECT queue_id, type_id, outcome, total, wait_hist, run_hist, minute FROM @.pawl_rollup
WHERE minute >= $1 AND minute <= $2 AND node = $3 AND lane = $4;

-- name: bodies_put
INSERT INTO @.pawl_body (id, created_us, type_id, queue_id, priority, born, level, audit, tenant_id, max_attempts, timeout_us, retry_of,
                         task_key, content_type, created_by, traceparent, headers, rate_key, payload)
VALUES $1;

-- name: body_again
INSERT INTO @.pawl_body (id, created_us, type_id, queue_id, priority, born, level, audit, tenant_id, max_attempts, timeout_us, retry_of,
                         task_key, content_type, created_by, traceparent, headers, rate_key, payload)
SELECT $2, $3, type_id, queue_id, priority, 2, $4, audit, tenant_id, max_attempts, timeout_us, id, task_key, content_type, created_by,
    traceparent, headers, rate_key, payload
FROM @.pawl_body WHERE id = $1;

-- name: body_replace
UPDATE @.pawl_body SET type_id = $2, queue_id = $3, priority = $4, born = IF(level = $5, born, 0), level = $5, audit = $6,
    max_attempts = $7, timeout_us = $8, content_type = $9, created_by = $10, traceparent = $11, headers = $12, rate_key = $13,
    payload = $14
WHERE id = $1;

-- name: live_put
INSERT INTO @.pawl_live (id, run_at_us, lane, ready, queue_id, type_id, fence, priority, class, state, level, keyed, runs, failures,
                         interruptions, rescues, strikes)
VALUES $1;

-- A DELETE with a list of ids would scan a small table, and wait for rows that are none of its business; joined with the ids as rows it
-- goes by the index in any case.

-- name: live_drop
DELETE x FROM (VALUES (0),$2) v STRAIGHT_JOIN @.pawl_live x FORCE INDEX (PRIMARY) ON x.id = v.`0`;

-- name: leased_put
INSERT INTO @.pawl_leased (id, leased_us, run_at_us, started_us, node, queue_id, type_id, fence, priority, class, level, keyed, strikes,
                           runs, failures, interruptions, rescues, not_started, mark, cancel_asked)
VALUES $1;

-- name: leased_drop
DELETE x FROM (VALUES (0),$2) v STRAIGHT_JOIN @.pawl_leased x FORCE INDEX (PRIMARY) ON x.id = v.`0`;

-- name: leased_start
UPDATE @.pawl_leased SET not_started = 0, started_us = $2, mark = mark OR $3 WHERE id = $1;

-- name: leased_progress
UPDATE @.pawl_leased SET progress = $2, progress_text = $3 WHERE id = $1;

-- name: leased_cancel
UPDATE @.pawl_leased SET cancel_asked = 1 WHERE id = $1;

-- name: cancel_put
INSERT IGNORE INTO @.pawl_cancel (node, task_id, fence) VALUES $1;

-- name: cancel_drop
DELETE FROM @.pawl_cancel WHERE node = $1 AND task_id = $2;

-- name: done_put
INSERT INTO @.pawl_done (id, finished_us, started_us, run_us, leased_us, run_at_us, node, fence, runs, failures, interruptions, rescues,
                         state, outcome, level, flags, log_lines, progress, progress_text, code, error, reason, result_type, result_ref,
                         result)
VALUES $1;

-- name: failed_put
INSERT INTO @.pawl_failed (id, finished_us, started_us, run_us, leased_us, run_at_us, node, fence, runs, failures, interruptions, rescues,
                           state, outcome, level, flags, log_lines, progress, progress_text, code, error, reason, result_type, result_ref,
                           result)
VALUES $1;

-- name: done_retried
UPDATE @.pawl_done SET retried_as = $2 WHERE id = $1;

-- name: failed_retried
UPDATE @.pawl_failed SET retried_as = $2, resolved_us = COALESCE(resolved_us, $3), resolved_by = COALESCE(resolved_by, $4) WHERE id = $1;

-- name: failed_ack
UPDATE @.pawl_failed SET resolved_us = $2, resolved_by = $3, note = $4 WHERE id = $1;

-- name: attempts_put
INSERT INTO @.pawl_attempt (task_id, number, outcome, started_us, finished_us, fence, node, log_lines, code, error) VALUES $1;

-- name: runlogs_put
INSERT INTO @.pawl_runlog (task_id, number, at_us, text) VALUES $1;

-- name: audit_put
INSERT INTO @.pawl_audit (task_id, number, at_us, from_state, to_state, fence, node, detail) VALUES $1;

-- name: audit_dispatch
INSERT IGNORE INTO @.pawl_audit (task_id, number, at_us, from_state, to_state, fence, node)
SELECT id, 0, created_us, 0, born, 0, 0 FROM @.pawl_body WHERE id = $1 AND born IN (1, 2);

-- name: keys_put
INSERT INTO @.pawl_key (task_key, tenant_id, old, task_id) VALUES $1;

-- name: key_old
INSERT IGNORE INTO @.pawl_key (task_key, tenant_id, old, task_id) VALUES ($1, $2, $3, $3);

-- name: key_move
UPDATE @.pawl_key SET task_id = $3 WHERE task_key = $1 AND tenant_id = $2 AND old = 0;

-- name: queue_pause
INSERT INTO @.pawl_queue (queue_id, paused) VALUES ($1, $2) ON DUPLICATE KEY UPDATE paused = VALUES(paused);

-- name: oplog_put
INSERT INTO @.pawl_oplog (at_us, who, action, task_id, detail) VALUES ($1, $2, $3, $4, $5);

-- name: counts_put
INSERT INTO @.pawl_count (node, lane, queue_id, waiting, pending, leased, failed) VALUES $1
ON DUPLICATE KEY UPDATE waiting = waiting + VALUES(waiting), pending = pending + VALUES(pending), leased = leased + VALUES(leased),
    failed = failed + VALUES(failed);

-- name: born_put
INSERT INTO @.pawl_born (hour, node, lane, min_id, max_id) VALUES $1
ON DUPLICATE KEY UPDATE min_id = LEAST(min_id, VALUES(min_id)), max_id = GREATEST(max_id, VALUES(max_id));

-- name: rollups_put
INSERT INTO @.pawl_rollup (minute, node, lane, queue_id, type_id, outcome, total, wait_hist, run_hist) VALUES $1
ON DUPLICATE KEY UPDATE total = VALUES(total), wait_hist = VALUES(wait_hist), run_hist = VALUES(run_hist);

-- name: leases_take
INSERT INTO @.pawl_lane (node, lane, leases) VALUES $1 ON DUPLICATE KEY UPDATE leases = leases + VALUES(leases);

-- name: names_make
INSERT IGNORE INTO @.pawl_name (text) VALUES $1;

-- name: names
SELECT id, text FROM @.pawl_name WHERE text IN ($1);

-- name: texts
SELECT id, text FROM @.pawl_name WHERE id IN ($1);

-- name: draw
UPDATE @.pawl_drawn SET last = LAST_INSERT_ID(GREATEST(last, $1) + $2) WHERE one = 1;

-- name: savepoint
SAVEPOINT pawl_apply;

-- name: savepoint_back
ROLLBACK TO SAVEPOINT pawl_apply;

-- name: savepoint_end
RELEASE SAVEPOINT pawl_apply;
