-- Questions.

-- Tasks as people see them: the body, and whatever table has the rest. $1: ids, $2: more columns, $3: what else must hold, $4: the clock of
-- a test, or NULL; $5: its time since boot.

-- name: tasks
SELECT b.id, CASE WHEN l.id IS NOT NULL THEN 3 ELSE COALESCE(v.state, d.state, f.state) END AS state, b.created_us, b.priority, b.audit,
    b.max_attempts, b.timeout_us, b.retry_of, tn.text AS type, qn.text AS queue, en.text AS tenant, b.task_key,
    COALESCE(b.content_type, 'application/json'), b.created_by, b.traceparent, b.headers, b.rate_key,
    COALESCE(l.run_at_us, v.run_at_us, d.run_at_us, f.run_at_us, l.leased_us, b.created_us) AS run_at_us,
    COALESCE(l.started_us, l.leased_us, d.started_us, f.started_us), COALESCE(d.finished_us, f.finished_us),
    COALESCE(l.runs, v.runs, d.runs, f.runs), COALESCE(l.failures, v.failures, d.failures, f.failures) AS failures,
    COALESCE(l.interruptions, v.interruptions, d.interruptions, f.interruptions), COALESCE(l.rescues, v.rescues, d.rescues, f.rescues),
    COALESCE(l.fence, v.fence, d.fence, f.fence), COALESCE(l.node, d.node, f.node), n.name,
    COALESCE(l.cancel_asked, d.flags & 2, f.flags & 2, 0), COALESCE(l.not_started, 0), COALESCE(l.progress, d.progress, f.progress),
    COALESCE(l.progress_text, d.progress_text, f.progress_text),
    CASE WHEN d.id IS NOT NULL THEN d.code WHEN f.id IS NOT NULL THEN f.code
         ELSE (SELECT a.code FROM @.pawl_attempt a WHERE a.task_id = b.id ORDER BY a.number DESC LIMIT 1) END,
    CASE WHEN d.id IS NOT NULL THEN d.error WHEN f.id IS NOT NULL THEN f.error
         ELSE (SELECT a.error FROM @.pawl_attempt a WHERE a.task_id = b.id ORDER BY a.number DESC LIMIT 1) END,
    COALESCE(d.reason, f.reason), COALESCE(d.result_type, f.result_type), COALESCE(d.result_ref, f.result_ref),
    COALESCE(d.retried_as, f.retried_as), f.resolved_us, f.resolved_by, f.note,
    l.id IS NOT NULL AND n.alive = 1 AND (SELECT MAX(h.expires_us) FROM @.pawl_lane h WHERE h.node = l.node) > c.boot_us AS pulse,
    COALESCE(d.outcome, f.outcome), COALESCE(d.run_us, f.run_us), COALESCE(d.log_lines, f.log_lines), b.born, COALESCE(l.level, b.level),
    COALESCE(d.level, f.level), COALESCE(d.flags, f.flags), COALESCE(l.leased_us, d.leased_us, f.leased_us, b.created_us), c.now_us,
    v.ready IS NULL AND EXISTS (SELECT 1 FROM @.pawl_blocked k WHERE k.task_id = v.id) AS blocked,
    EXISTS (SELECT 1 FROM @.pawl_slotted s WHERE s.task_id = v.id) AS slotted $2
FROM (SELECT COALESCE($4, TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6))) AS now_us,
             COALESCE($5, TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6))) AS boot_us) c
STRAIGHT_JOIN @.pawl_body b
JOIN @.pawl_name tn ON tn.id = b.type_id
JOIN @.pawl_name qn ON qn.id = b.queue_id
LEFT JOIN @.pawl_name en ON en.id = b.tenant_id
LEFT JOIN @.pawl_leased l ON l.id = b.id
LEFT JOIN @.pawl_live v ON v.id = b.id
LEFT JOIN @.pawl_done d ON d.id = b.id
LEFT JOIN @.pawl_failed f ON f.id = b.id
LEFT JOIN @.pawl_node n ON n.id = COALESCE(l.node, d.node, f.node)
WHERE b.id IN ($1) AND (l.id IS NOT NULL OR v.id IS NOT NULL OR d.id IS NOT NULL OR f.id IS NOT NULL)
HAVING $3 ORDER BY b.id;

-- name: state
SELECT 3, fence FROM @.pawl_leased WHERE id = $1
UNION ALL SELECT state, fence FROM @.pawl_live WHERE id = $1
UNION ALL SELECT state, fence FROM @.pawl_done WHERE id = $1
UNION ALL SELECT state, fence FROM @.pawl_failed WHERE id = $1 LIMIT 1;

-- name: attempts
SELECT a.number, a.outcome, a.started_us, a.finished_us, a.fence, a.node, n.name, a.code, a.error, a.log_lines
FROM @.pawl_attempt a LEFT JOIN @.pawl_node n ON n.id = a.node WHERE a.task_id = $1 ORDER BY a.number;

-- name: logs
SELECT number, text FROM @.pawl_runlog WHERE task_id = $1 ORDER BY number;

-- name: audit
SELECT a.at_us, a.from_state, a.to_state, a.fence, n.name, a.detail
FROM @.pawl_audit a LEFT JOIN @.pawl_node n ON n.id = a.node WHERE a.task_id = $1 ORDER BY a.number;

-- name: audit_cut
SELECT value FROM @.pawl_meta WHERE name = 'audit_cut_us';

-- name: nodes
SELECT n.id, n.name, n.pid, n.queues, n.types, n.born_us, COALESCE(h.leases, 0), COALESCE(h.expires_us, 0), n.alive, n.gone,
    IS_USED_LOCK(CONCAT($1, n.id)) IS NOT NULL, (SELECT t.told FROM @.pawl_told t WHERE t.node = n.id AND n.alive = 1),
    n.alive = 1 AND EXISTS (SELECT 1 FROM @.pawl_drain d WHERE d.node = n.id)
FROM @.pawl_node n LEFT JOIN (
    SELECT node, MAX(expires_us) AS expires_us, CAST(SUM(leases) AS SIGNED) AS leases FROM @.pawl_lane GROUP BY node) h ON h.node = n.id
WHERE n.alive >= 0 ORDER BY n.id;

-- name: throttled
SELECT COUNT(*) FROM (SELECT 1 FROM @.pawl_slotted LIMIT 100000) s;

-- name: queues_throttled
SELECT n.text, COUNT(*) FROM (SELECT task_id FROM @.pawl_slotted LIMIT 20000) s JOIN @.pawl_live l ON l.id = s.task_id
JOIN @.pawl_name n ON n.id = l.queue_id GROUP BY n.text;

-- name: queues
SELECT a.queue_id, n.text, COALESCE(q.paused, 0), COALESCE(c.waiting, 0), COALESCE(c.pending, 0), COALESCE(c.leased, 0), COALESCE(c.failed, 0),
    EXISTS (SELECT 1 FROM @.pawl_turn t WHERE t.queue_id = a.queue_id)
FROM (SELECT queue_id FROM @.pawl_queue UNION SELECT DISTINCT queue_id FROM @.pawl_count) a
JOIN @.pawl_name n ON n.id = a.queue_id
LEFT JOIN @.pawl_queue q ON q.queue_id = a.queue_id
LEFT JOIN (
    SELECT queue_id, CAST(SUM(waiting) AS SIGNED) AS waiting, CAST(SUM(pending) AS SIGNED) AS pending, CAST(SUM(leased) AS SIGNED) AS leased,
        CAST(SUM(failed) AS SIGNED) AS failed
    FROM @.pawl_count GROUP BY queue_id) c ON c.queue_id = a.queue_id
ORDER BY n.text;

-- name: rollup
SELECT minute, outcome, total, wait_hist, run_hist FROM @.pawl_rollup WHERE minute BETWEEN $1 AND $2 ORDER BY minute;

-- name: settings
SELECT CONCAT('store=mysql durable=', IF(@@global.innodb_flush_log_at_trx_commit = 1 AND (@@global.log_bin = 0 OR @@global.sync_binlog = 1), 'yes', 'no'),
    ' mariadb=', SUBSTRING_INDEX(VERSION(), '-', 1), ' innodb_flush_log_at_trx_commit=', @@global.innodb_flush_log_at_trx_commit,
    ' sync_binlog=', IF(@@global.log_bin = 1, @@global.sync_binlog, 'none'), ' innodb_doublewrite=', @@global.innodb_doublewrite,
    ' innodb_buffer_pool_size=', @@global.innodb_buffer_pool_size);

-- One stretch of a list: so many ids ($3), from one on ($1) within bounds, upwards or downwards, and whether each may match ($6).

-- name: list_up
SELECT id, $6 FROM @.$4 FORCE INDEX (PRIMARY) WHERE id > $1 AND id >= $2 AND id <= $5 ORDER BY id LIMIT $3;

-- name: list_down
SELECT id, $6 FROM @.$4 FORCE INDEX (PRIMARY) WHERE id < $1 AND id >= $2 AND id <= $5 ORDER BY id DESC LIMIT $3;

-- name: list_key_up
SELECT task_id, 1 FROM @.pawl_key WHERE task_key = $6 AND task_id > $1 AND task_id >= $2 AND task_id <= $5 ORDER BY task_id LIMIT $3;

-- name: list_key_down
SELECT task_id, 1 FROM @.pawl_key WHERE task_key = $6 AND task_id < $1 AND task_id >= $2 AND task_id <= $5 ORDER BY task_id DESC LIMIT $3;

-- How many of these names any task ever had.
-- name: list_known
SELECT COUNT(*) FROM @.pawl_name WHERE text IN ($1, $2, $3);

-- name: list_bounds
SELECT (SELECT MIN(min_id) FROM @.pawl_born WHERE hour >= $1), (SELECT MAX(max_id) FROM @.pawl_born WHERE hour <= $2);

-- name: acts
SELECT id, at_us, who, action, detail, task_id FROM @.pawl_oplog WHERE id < $1 ORDER BY id DESC LIMIT $2;
