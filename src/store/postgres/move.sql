-- The gate, and tasks that come from another store or go there. "@." stands for the schema's name.

-- name: set_gate
SELECT @.pawl_set_gate($1, $2, $3, $4, $5, $6, $7, $8, $9);

-- Transactions that have a number below $1 (0: none is looked for) and have looked at this very gate, for they lock its table until they end,
-- may have seen it open. Those of other databases and schemas have not.

-- name: gate
SELECT g.mode, g.at_us, g.move, g.peer, g.who, g.position, (SELECT count(*) FROM @.pawl_leased),
    pg_snapshot_xmax(pg_current_snapshot())::text::int8 & 4294967295,
    CASE WHEN $1::int8 = 0 THEN 0 ELSE (
        SELECT count(DISTINCT l.virtualtransaction) FROM pg_locks l JOIN pg_locks r ON r.virtualtransaction = l.virtualtransaction
        WHERE l.locktype = 'transactionid' AND l.mode = 'ExclusiveLock' AND l.granted
            AND (l.transactionid::text::int8 - $1) & 4294967295 >= 2147483648
            AND r.locktype = 'relation' AND r.granted AND r.relation = '@.pawl_gate'::regclass
            AND r.database = (SELECT d.oid FROM pg_database d WHERE d.datname = current_database())) END
FROM @.pawl_gate g;

-- name: dump_range
SELECT looked, last, more FROM @.pawl_dump_range($1, $2, $3);

-- Sweeps remove the bodies of a large day first, in steps, and then the day.

-- name: dump_counts
SELECT s.state::int8, count(*), (sum((s.id & 2147483647) * 1812433253 + (s.id >> 31) * 69069) % 18446744073709551616)::text
FROM (SELECT id, state FROM @.pawl_live WHERE id > $1 AND id <= $2
      UNION ALL SELECT id, 3::int2 FROM @.pawl_leased WHERE id > $1 AND id <= $2
      UNION ALL SELECT d.id, d.state FROM @.pawl_done d JOIN @.pawl_body b ON b.id = d.id WHERE d.id > $1 AND d.id <= $2 AND b.id > $1 AND b.id <= $2
      UNION ALL SELECT id, state FROM @.pawl_failed WHERE id > $1 AND id <= $2) s
GROUP BY 1;

-- name: dump_tasks
SELECT * FROM @.pawl_dump_tasks($1, $2, $3, $4);

-- What hangs on the tasks of a page: on those that are named, or on all from one to another.

-- name: dump_attempts
SELECT a.task_id, a.number, a.outcome, a.started_us, a.finished_us, a.fence, n.name, a.log_lines, a.code, a.error
FROM @.pawl_attempt a LEFT JOIN @.pawl_node n ON n.id = a.node WHERE a.task_id = ANY ($1::int8[]) ORDER BY a.task_id, a.number;

-- name: dump_attempts_all
SELECT a.task_id, a.number, a.outcome, a.started_us, a.finished_us, a.fence, n.name, a.log_lines, a.code, a.error
FROM @.pawl_attempt a LEFT JOIN @.pawl_node n ON n.id = a.node WHERE a.task_id > $1 AND a.task_id <= $2 ORDER BY a.task_id, a.number;

-- name: dump_logs
SELECT task_id, number, at_us, text FROM @.pawl_runlog WHERE task_id = ANY ($1::int8[]) ORDER BY task_id, number;

-- name: dump_logs_all
SELECT task_id, number, at_us, text FROM @.pawl_runlog WHERE task_id > $1 AND task_id <= $2 ORDER BY task_id, number;

-- name: dump_changes
SELECT a.task_id, a.number, a.at_us, a.from_state, a.to_state, a.fence, n.name, a.detail
FROM @.pawl_audit a LEFT JOIN @.pawl_node n ON n.id = a.node WHERE a.task_id = ANY ($1::int8[]) ORDER BY a.task_id, a.number;

-- name: dump_changes_all
SELECT a.task_id, a.number, a.at_us, a.from_state, a.to_state, a.fence, n.name, a.detail
FROM @.pawl_audit a LEFT JOIN @.pawl_node n ON n.id = a.node WHERE a.task_id > $1 AND a.task_id <= $2 ORDER BY a.task_id, a.number;

-- name: dump_minutes
SELECT r.minute, q.text, t.text, r.outcome::int4, sum(r.count)::int8, @.pawl_histogram_total(r.wait)::text, @.pawl_histogram_total(r.run)::text
FROM @.pawl_rollup r JOIN @.pawl_name q ON q.id = r.queue_id JOIN @.pawl_name t ON t.id = r.type_id
WHERE r.minute > $1 AND r.minute <= (SELECT max(m.minute) FROM (SELECT minute FROM @.pawl_rollup WHERE minute > $1 ORDER BY minute LIMIT $2) m)
GROUP BY 1, 2, 3, 4 ORDER BY 1;

-- name: dump_acts
SELECT id, at_us, who, action, task_id, detail FROM @.pawl_oplog WHERE id > $1 ORDER BY id LIMIT $2;

-- name: dump_queues
SELECT n.text, coalesce(q.paused, false) FROM (SELECT queue_id FROM @.pawl_queue UNION SELECT queue_id FROM @.pawl_count) x
JOIN @.pawl_name n ON n.id = x.queue_id LEFT JOIN @.pawl_queue q ON q.queue_id = x.queue_id ORDER BY 1;

-- name: dump_numbers
SELECT number, ceiling_ms FROM @.pawl_number WHERE ceiling_ms > 0
UNION ALL SELECT 0, ((last_value >> 12) << 22) | (last_value & 4095) FROM @.pawl_drawn
UNION ALL SELECT -1, value::int8 FROM @.pawl_meta WHERE key = 'audit_cut_us';

-- name: dump_limits
SELECT n.text, l.key, l.permits, l.period_us, l.burst, l.horizon_us, l.flags FROM @.pawl_limit l JOIN @.pawl_name n ON n.id = l.type_id
WHERE l.permits > 0 OR l.flags & 8 <> 0 ORDER BY l.type_id, l.key;

-- name: dump_budgets
SELECT b.id, n.text, b.key, b.tat_us, b.tat_part, b.permits, b.period_us, b.burst, b.seen_us, b.epoch
FROM @.pawl_budget b JOIN @.pawl_name n ON n.id = b.type_id WHERE b.id > $1 ORDER BY b.id LIMIT $2;

-- name: load
SELECT stale, present::text, taken::text, held::text, @.pawl_load_lines(stale, present || taken || held, $7, $79),
    @.pawl_load_families(stale, present || taken || held, $3 IS NULL, $80, $81, $82, $83, $84, $85, $86, $87) FROM @.pawl_load(
    $1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, $17, $18, $19, $20, $21, $22, $23, $24, $25, $26, $27, $28,
    $29, $30, $31, $32, $33, $34, $35, $36, $37, $38, $39, $40, $41, $42, $43, $44, $45, $46, $47, $48, $49, $50, $51, $52, $53, $54,
    $55, $56, $57, $58, $59, $60, $61, $62, $63, $64, $65, $66, $67, $68, $69, $70, $71, $72, $73, $74, $75, $76, $77, $78);

-- name: load_minutes
SELECT @.pawl_load_minutes($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12);

-- name: load_acts
SELECT @.pawl_load_acts($1, $2, $3, $4, $5, $6, $7, $8, $9, $10);

-- name: load_settings
SELECT @.pawl_load_settings($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11);

-- name: load_limits
SELECT @.pawl_load_limits($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12);

-- name: load_now
SELECT coalesce(($1::int8[])[1], @.pawl_now());

-- name: load_budgets
SELECT @.pawl_load_budgets($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14);

-- name: dump_lines
SELECT task_id, line FROM @.pawl_dump_lines($1::int8[]);

-- name: dump_bounds
SELECT b.scope, n.text, CASE WHEN b.scope = 4 AND b.key <> '' THEN convert_to((SELECT t.text FROM @.pawl_name t
        WHERE t.id = convert_from(b.key, 'UTF8')::int4), 'UTF8') ELSE b.key END, b.most, b.ordered
FROM @.pawl_bound b JOIN @.pawl_name n ON n.id = b.name_id WHERE b.most > 0 ORDER BY b.scope, n.text, b.key;

-- name: load_bounds
SELECT @.pawl_load_bounds($1, $2, $3, $4, $5, $6, $7, $8, $9, $10);

-- name: dump_parents
SELECT child_id, parent_id, state FROM @.pawl_edge WHERE child_id = ANY ($1::int8[]) AND (SELECT families FROM @.pawl_gate) > 0
ORDER BY child_id, parent_id;

-- name: dump_parents_all
SELECT child_id, parent_id, state FROM @.pawl_edge WHERE child_id > $1 AND child_id <= $2 AND (SELECT families FROM @.pawl_gate) > 0
ORDER BY child_id, parent_id;

-- name: dump_kin
SELECT u.id, m.batch_id, w.if_failed FROM unnest($1::int8[]) u (id) LEFT JOIN @.pawl_member m ON m.task_id = u.id
LEFT JOIN @.pawl_wait w ON w.child_id = u.id
WHERE (SELECT families FROM @.pawl_gate) > 0 AND (m.task_id IS NOT NULL OR w.child_id IS NOT NULL) ORDER BY u.id;

-- name: dump_kin_all
SELECT x.id, max(x.batch_id), max(x.if_failed) FROM (
    SELECT m.task_id AS id, m.batch_id, NULL::int2 AS if_failed FROM @.pawl_member m WHERE m.task_id > $1 AND m.task_id <= $2
    UNION ALL SELECT w.child_id, NULL, w.if_failed FROM @.pawl_wait w WHERE w.child_id > $1 AND w.child_id <= $2) x
WHERE (SELECT families FROM @.pawl_gate) > 0 GROUP BY x.id ORDER BY x.id;

-- name: dump_batches
SELECT * FROM @.pawl_batch_whole WHERE id > $1::int8 ORDER BY id LIMIT $2::int8;

-- name: dump_kept
SELECT id, state, error, result_type, result_ref, result FROM @.pawl_kept WHERE id > $1::int8 ORDER BY id LIMIT $2::int8;

-- name: dump_schedules
SELECT w.*, d.payload FROM @.pawl_schedule_whole w JOIN @.pawl_schedule d ON d.id = w.id WHERE w.id > $1::int8 ORDER BY w.id LIMIT $2::int8;

-- name: dump_occurrences
SELECT schedule_id, occurrence, state::int8, at_us, task_id, count, why FROM @.pawl_occurrence WHERE schedule_id = ANY ($1::int8[])
ORDER BY schedule_id, number DESC;

-- name: load_found
SELECT id FROM @.pawl_load_found($1::int8[]);

-- name: load_batches
SELECT @.pawl_load_batches($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, $17);

-- name: load_kept
SELECT @.pawl_load_kept($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11);

-- name: load_schedules
SELECT @.pawl_load_schedules($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, $17, $18, $19);
