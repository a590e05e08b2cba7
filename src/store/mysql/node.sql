-- Nodes, claims and rescue.

-- name: node_add
INSERT INTO @.pawl_node (name, pid, queues, types, lease_us, born_us, alive, gone, blame) VALUES ($1, $2, $3, $4, $5, $6, 1, 0, 0);

-- name: node_lock
SELECT id, alive, gone, blame FROM @.pawl_node WHERE id IN ($1) ORDER BY id FOR UPDATE;

-- name: node_gone
UPDATE @.pawl_node SET gone = 1 WHERE id IN ($1) AND alive = 1;

-- name: node_kill
UPDATE @.pawl_node SET alive = 0, died_us = $2, blame = $3 WHERE id = $1;

-- name: node_numbers
UPDATE @.pawl_number SET node = 0 WHERE node = $1;

-- name: tell
REPLACE INTO @.pawl_told (node, told) VALUES ($1, $2);

-- name: untell
DELETE FROM @.pawl_told WHERE node = $1;

-- name: node_lapse
UPDATE @.pawl_lane SET expires_us = 0 WHERE node = $1 AND expires_us <> 0;

-- name: pulse
SELECT COALESCE(MAX(expires_us), 0), CAST(COALESCE(SUM(renewal), 0) AS SIGNED), CAST(COALESCE(SUM(leases), 0) AS SIGNED)
FROM @.pawl_lane WHERE node = $1;

-- name: others
SELECT h.node, h.expires_us, h.renewal, n.alive, n.gone FROM (
    SELECT node, MAX(expires_us) AS expires_us, CAST(SUM(renewal) AS SIGNED) AS renewal FROM @.pawl_lane WHERE node > 0 AND node <> $1
    GROUP BY node HAVING SUM(leases) > 0) h
JOIN @.pawl_node n ON n.id = h.node ORDER BY h.node;

-- name: cancels
SELECT task_id, fence FROM @.pawl_cancel WHERE node = $1 ORDER BY task_id LIMIT 256;

-- name: ended_leases
SELECT lane, leases FROM @.pawl_lane WHERE node = $1 AND lane < -1000 FOR UPDATE SKIP LOCKED;

-- name: ended_drop
DELETE FROM @.pawl_lane WHERE node = $1 AND lane IN ($2);

-- name: beat
INSERT INTO @.pawl_lane (node, lane, leases, renewal, expires_us, skew_us, backs) VALUES ($1, $2, $3, 1, $4, $5, $6)
ON DUPLICATE KEY UPDATE leases = leases + VALUES(leases), renewal = renewal + 1, expires_us = VALUES(expires_us),
    skew_us = COALESCE(VALUES(skew_us), skew_us), backs = backs + VALUES(backs);

-- name: backs
INSERT INTO @.pawl_lane (node, lane, backs) VALUES ($1, $2, 1) ON DUPLICATE KEY UPDATE backs = backs + 1;

-- name: held
SELECT id, fence FROM @.pawl_leased WHERE node = $1;

-- name: number_mine
SELECT number, floor_ms, ceiling_ms FROM @.pawl_number WHERE number = $1 AND node = $2 FOR UPDATE;

-- name: number_free
SELECT m.number, m.ceiling_ms FROM @.pawl_number m
WHERE m.ceiling_ms <= $1 OR NOT EXISTS (SELECT 1 FROM @.pawl_node n WHERE n.id = m.node AND n.alive = 1 AND n.gone = 0)
ORDER BY m.ceiling_ms, m.number LIMIT 64;

-- name: number_lock
SELECT m.number, m.ceiling_ms, m.node FROM @.pawl_number m WHERE m.number = $1 AND m.ceiling_ms = $2 FOR UPDATE SKIP LOCKED;

-- name: number_put
UPDATE @.pawl_number SET node = $2, floor_ms = $3, ceiling_ms = $4 WHERE number = $1;

-- The clock of the claim, for the statements after it; and which limits are in force.

-- name: claim_now
SELECT @pawl_now := COALESCE($1, TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6))),
    (SELECT value FROM @.pawl_meta WHERE name = 'limits_version');

-- name: lane_after
SELECT $4, lane FROM @.pawl_live FORCE INDEX (pawl_ready) WHERE ready = $1 AND lane > $2 AND lane < $3 ORDER BY lane LIMIT 1;

-- name: lane_due
SELECT $4, run_at_us FROM @.pawl_live FORCE INDEX (pawl_ready)
WHERE ready = $1 AND lane = $2 AND run_at_us >= $3 AND run_at_us <= @pawl_now ORDER BY run_at_us LIMIT 1;

-- name: lane_next
SELECT $3, run_at_us FROM @.pawl_live FORCE INDEX (pawl_ready)
WHERE ready = $1 AND lane = $2 AND run_at_us > @pawl_now ORDER BY run_at_us LIMIT 1;

-- name: choose_one
SELECT id, run_at_us, queue_id, type_id, fence, priority, class, state, level, keyed, runs, failures, interruptions, rescues, strikes
FROM @.pawl_live FORCE INDEX (pawl_ready) WHERE ready = $1 AND lane = $2 AND run_at_us >= $3 AND run_at_us <= $4
ORDER BY run_at_us, id LIMIT $5 FOR UPDATE SKIP LOCKED;

-- name: choose_look
SELECT id, run_at_us, $6 FROM @.pawl_live FORCE INDEX (pawl_ready) WHERE ready = $1 AND lane = $2 AND run_at_us >= $3 AND run_at_us <= $4
ORDER BY run_at_us, id LIMIT $5;

-- The first and the last due tasks of a lane, with what their rate keys have left.

-- name: lane_heads
SELECT x.id, x.run_at_us, $6, x.failures, s.task_id IS NOT NULL,
    (SELECT CONCAT_WS(' ', l.permits, l.period_us, l.burst, l.horizon_us, l.flags) FROM @.pawl_limit l
     WHERE l.type_id = x.type_id AND l.rate_key = IF(LENGTH(b.rate_key) > 256, CONCAT('sha256:', SHA2(b.rate_key, 256)), b.rate_key)),
    (SELECT CONCAT_WS(' ', l.permits, l.period_us, l.burst, l.horizon_us, l.flags) FROM @.pawl_limit l
     WHERE l.type_id = x.type_id AND l.rate_key = '' AND b.rate_key <> ''),
    g.tat_us, g.tat_part, g.permits, g.period_us, g.burst, g.seen_us, g.epoch, g.last_id, g.last_slot_us
FROM (SELECT id, run_at_us, type_id, failures FROM @.pawl_live FORCE INDEX (pawl_ready)
      WHERE ready = $1 AND lane = $2 AND run_at_us >= $3 AND run_at_us <= $4 ORDER BY run_at_us, id LIMIT $5) x
STRAIGHT_JOIN @.pawl_body b FORCE INDEX (PRIMARY) ON b.id = x.id
LEFT JOIN @.pawl_slotted s FORCE INDEX (PRIMARY) ON s.task_id = x.id
LEFT JOIN @.pawl_budget g FORCE INDEX (PRIMARY) ON g.type_id = x.type_id
    AND g.rate_key = IF(LENGTH(b.rate_key) > 256, CONCAT('sha256:', SHA2(b.rate_key, 256)), b.rate_key)
ORDER BY x.run_at_us, x.id;

-- name: lane_end
SELECT x.id, x.run_at_us, $6, x.failures, s.task_id IS NOT NULL,
    (SELECT CONCAT_WS(' ', l.permits, l.period_us, l.burst, l.horizon_us, l.flags) FROM @.pawl_limit l
     WHERE l.type_id = x.type_id AND l.rate_key = IF(LENGTH(b.rate_key) > 256, CONCAT('sha256:', SHA2(b.rate_key, 256)), b.rate_key)),
    (SELECT CONCAT_WS(' ', l.permits, l.period_us, l.burst, l.horizon_us, l.flags) FROM @.pawl_limit l
     WHERE l.type_id = x.type_id AND l.rate_key = '' AND b.rate_key <> ''),
    g.tat_us, g.tat_part, g.permits, g.period_us, g.burst, g.seen_us, g.epoch, g.last_id, g.last_slot_us
FROM (SELECT id, run_at_us, type_id, failures FROM @.pawl_live FORCE INDEX (pawl_ready)
      WHERE ready = $1 AND lane = $2 AND run_at_us >= $3 AND run_at_us <= $4 ORDER BY run_at_us DESC, id DESC LIMIT $5) x
STRAIGHT_JOIN @.pawl_body b FORCE INDEX (PRIMARY) ON b.id = x.id
LEFT JOIN @.pawl_slotted s FORCE INDEX (PRIMARY) ON s.task_id = x.id
LEFT JOIN @.pawl_budget g FORCE INDEX (PRIMARY) ON g.type_id = x.type_id
    AND g.rate_key = IF(LENGTH(b.rate_key) > 256, CONCAT('sha256:', SHA2(b.rate_key, 256)), b.rate_key)
ORDER BY x.run_at_us, x.id;

-- name: choose_lock
SELECT id, run_at_us, queue_id, type_id, fence, priority, class, state, level, keyed, runs, failures, interruptions, rescues, strikes
FROM @.pawl_live FORCE INDEX (PRIMARY) WHERE id IN ($1) AND ready = $2 AND state = 2 ORDER BY id FOR UPDATE SKIP LOCKED;

-- name: lane_count
SELECT $5, COUNT(*), MIN(s.run_at_us) FROM (
    SELECT run_at_us FROM @.pawl_live FORCE INDEX (pawl_ready) WHERE ready = $1 AND lane = $2 AND run_at_us <= $3 ORDER BY run_at_us LIMIT $4) s;

-- name: bodies
SELECT id, type_id, queue_id, created_us, priority, audit, tenant_id, max_attempts, timeout_us, retry_of, task_key, content_type,
    created_by, traceparent, headers, rate_key, payload
FROM @.pawl_body FORCE INDEX (PRIMARY) WHERE id IN ($1);

-- name: leased_ids
SELECT id FROM @.pawl_leased WHERE node = $1 ORDER BY id LIMIT $2;

-- name: marks
SELECT COUNT(*) FROM @.pawl_leased WHERE node = $1 AND mark = 1;

-- name: poll
SELECT CAST(COALESCE(SUM(number), 0) AS SIGNED), CAST(COALESCE(SUM(backs), 0) AS SIGNED) FROM @.pawl_lane WHERE node > 0 AND node NOT IN ($1);

-- name: poll_nobody
SELECT COUNT(*), COALESCE(SUM(s.number), 0), COALESCE(SUM(s.backs), 0) FROM (
    SELECT number, backs FROM @.pawl_lane WHERE node = 0 ORDER BY lane LIMIT 2000) s;

-- name: hold_life
SELECT GET_LOCK($1, 0);

-- name: lives
SELECT n.id FROM @.pawl_node n WHERE n.alive = 1 AND IS_USED_LOCK(CONCAT($1, n.id)) IS NOT NULL;

-- name: lock_try
SELECT GET_LOCK($1, $2);

-- name: lock_free
DO RELEASE_LOCK($1);
