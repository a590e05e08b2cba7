-- Retention, and sums of sums.

-- name: done_old
SELECT id FROM @.pawl_done FORCE INDEX (pawl_done_end) WHERE state = $1 AND finished_us <= $2 ORDER BY finished_us LIMIT $3;

-- name: done_first
SELECT finished_us FROM @.pawl_done FORCE INDEX (pawl_done_end) WHERE state = $1 ORDER BY finished_us LIMIT 1;

-- name: failed_resolved
SELECT id FROM @.pawl_failed FORCE INDEX (pawl_failed_end) WHERE resolved_us <= $1 ORDER BY resolved_us LIMIT $2;

-- name: failed_open
SELECT id FROM @.pawl_failed FORCE INDEX (pawl_failed_end) WHERE resolved_us IS NULL AND finished_us <= $1 ORDER BY finished_us LIMIT $2;

-- name: resolved_first
SELECT resolved_us FROM @.pawl_failed FORCE INDEX (pawl_failed_end) WHERE resolved_us IS NOT NULL ORDER BY resolved_us LIMIT 1;

-- name: open_first
SELECT finished_us FROM @.pawl_failed FORCE INDEX (pawl_failed_end) WHERE resolved_us IS NULL ORDER BY finished_us LIMIT 1;

-- name: failed_expiring
SELECT COUNT(*) FROM (
    SELECT 1 FROM @.pawl_failed FORCE INDEX (pawl_failed_end) WHERE resolved_us IS NULL AND finished_us < $1 LIMIT 10000) x;

-- name: forget_keys_look
SELECT task_key, COALESCE(tenant_id, 0), id FROM @.pawl_body FORCE INDEX (PRIMARY) WHERE id IN ($1) AND task_key IS NOT NULL;

-- name: forget_keys
DELETE FROM @.pawl_key WHERE task_key = $1 AND tenant_id = $2 AND old = $3 AND task_id = $4;

-- name: forget_attempts
DELETE x FROM (VALUES (0),$2) v STRAIGHT_JOIN @.pawl_attempt x FORCE INDEX (PRIMARY) ON x.task_id = v.`0`;

-- name: forget_runlogs
DELETE x FROM (VALUES (0),$2) v STRAIGHT_JOIN @.pawl_runlog x FORCE INDEX (PRIMARY) ON x.task_id = v.`0`;

-- name: forget_audit
DELETE x FROM (VALUES (0),$2) v STRAIGHT_JOIN @.pawl_audit x FORCE INDEX (PRIMARY) ON x.task_id = v.`0`;

-- name: forget_bodies
DELETE x FROM (VALUES (0),$2) v STRAIGHT_JOIN @.pawl_body x FORCE INDEX (PRIMARY) ON x.id = v.`0`;

-- name: forget_done
DELETE x FROM (VALUES (0),$2) v STRAIGHT_JOIN @.pawl_done x FORCE INDEX (PRIMARY) ON x.id = v.`0`;

-- name: forget_failed
DELETE x FROM (VALUES (0),$2) v STRAIGHT_JOIN @.pawl_failed x FORCE INDEX (PRIMARY) ON x.id = v.`0`;

-- name: audit_old
DELETE FROM @.pawl_audit WHERE at_us <= $1 ORDER BY at_us LIMIT $2;

-- name: audit_first
SELECT at_us FROM @.pawl_audit FORCE INDEX (pawl_audit_at) ORDER BY at_us LIMIT 1;

-- name: oplog_old
DELETE FROM @.pawl_oplog WHERE at_us <= $1 ORDER BY at_us LIMIT $2;

-- name: oplog_first
SELECT at_us FROM @.pawl_oplog FORCE INDEX (pawl_oplog_at) ORDER BY at_us LIMIT 1;

-- name: runlog_old
DELETE FROM @.pawl_runlog WHERE at_us <= $1 ORDER BY at_us LIMIT $2;

-- name: runlog_first
SELECT at_us FROM @.pawl_runlog FORCE INDEX (pawl_runlog_at) ORDER BY at_us LIMIT 1;

-- name: audit_cut_put
INSERT INTO @.pawl_meta (name, value) SELECT 'audit_cut_us', CAST($1 AS CHAR) FROM (SELECT 1) one
WHERE EXISTS (SELECT 1 FROM @.pawl_born WHERE hour <= $2)
ON DUPLICATE KEY UPDATE value = GREATEST(CAST(value AS SIGNED), CAST(VALUES(value) AS SIGNED));

-- name: born_next
SELECT MIN(hour) + 1 FROM @.pawl_born WHERE hour >= $1;

-- name: nodes_idle
SELECT n.id, n.gone, n.born_us, COALESCE(h.expires_us, 0), IS_USED_LOCK(CONCAT($1, n.id)) IS NOT NULL
FROM @.pawl_node n LEFT JOIN (
    SELECT node, MAX(expires_us) AS expires_us, SUM(leases) AS leases FROM @.pawl_lane GROUP BY node) h ON h.node = n.id
WHERE n.alive = 1 AND COALESCE(h.leases, 0) = 0 ORDER BY n.id;

-- name: nodes_dead
SELECT n.id FROM @.pawl_node n LEFT JOIN (SELECT node, SUM(leases) AS leases FROM @.pawl_lane GROUP BY node) h ON h.node = n.id
WHERE n.alive = 0 AND COALESCE(h.leases, 0) = 0 AND n.died_us <= $1 ORDER BY n.died_us LIMIT $2;

-- name: nodes_forget_lanes
DELETE x FROM (VALUES (0),$2) v STRAIGHT_JOIN @.pawl_lane x FORCE INDEX (PRIMARY) ON x.node = v.`0` AND x.node > 0;

-- name: nodes_forget
UPDATE @.pawl_node SET alive = -1 WHERE id IN ($1);

-- name: lanes_stray
SELECT DISTINCT l.node FROM @.pawl_lane l LEFT JOIN @.pawl_node x ON x.id = l.node AND x.alive >= 0
WHERE l.node > 0 AND l.now_us < $1 AND x.id IS NULL LIMIT 500;

-- name: nodes_unnamed
SELECT id FROM @.pawl_node WHERE alive = -1 AND died_us < COALESCE((SELECT MIN(hour) FROM @.pawl_born) * 3600000000, $1) LIMIT 500;

-- name: nodes_drop
DELETE x FROM (VALUES (0),$2) v STRAIGHT_JOIN @.pawl_node x FORCE INDEX (PRIMARY) ON x.id = v.`0`;

-- name: nodes_next
SELECT MIN(died_us) FROM @.pawl_node WHERE alive = 0;

-- name: rollup_drop
DELETE FROM @.pawl_rollup WHERE minute < $1 LIMIT 10000;

-- name: born_drop
DELETE b FROM @.pawl_born b
WHERE b.hour < $1 AND NOT EXISTS (SELECT 1 FROM @.pawl_body x WHERE x.id BETWEEN b.min_id AND b.max_id);

-- name: merge_counts
SELECT node, lane, queue_id, waiting, pending, leased, failed FROM @.pawl_count FORCE INDEX (PRIMARY)
WHERE node IN ($1) AND NOT (node = 0 AND lane = 0) ORDER BY node, lane LIMIT 5000 FOR UPDATE SKIP LOCKED;

-- name: merge_counts_drop
DELETE c FROM (VALUES (-1, -2, -3),$1) v
STRAIGHT_JOIN @.pawl_count c FORCE INDEX (PRIMARY) ON c.node = v.`-1` AND c.lane = v.`-2` AND c.queue_id = v.`-3`;

-- name: merge_lanes
SELECT lane, number, backs FROM @.pawl_lane FORCE INDEX (PRIMARY) WHERE node = 0 AND lane > 0 ORDER BY lane LIMIT 5000 FOR UPDATE SKIP LOCKED;

-- name: merge_lanes_drop
DELETE c FROM (VALUES (-1),$1) v STRAIGHT_JOIN @.pawl_lane c FORCE INDEX (PRIMARY) ON c.node = 0 AND c.lane = v.`-1`;

-- name: merge_lanes_put
INSERT INTO @.pawl_lane (node, lane, number, backs) VALUES (0, 0, $1, $2)
ON DUPLICATE KEY UPDATE number = number + VALUES(number), backs = backs + VALUES(backs);

-- name: merge_born
SELECT hour, node, lane, min_id, max_id FROM @.pawl_born FORCE INDEX (PRIMARY)
WHERE NOT (node = 0 AND lane = 0) AND (node IN ($1) OR hour < $2) ORDER BY hour LIMIT 5000 FOR UPDATE SKIP LOCKED;

-- name: merge_born_drop
DELETE c FROM (VALUES (-1, -2, -3),$1) v
STRAIGHT_JOIN @.pawl_born c FORCE INDEX (PRIMARY) ON c.hour = v.`-1` AND c.node = v.`-2` AND c.lane = v.`-3`;

-- name: merge_minutes
SELECT DISTINCT minute FROM @.pawl_rollup
WHERE minute >= $2 AND NOT (node = 0 AND lane = 0) AND (minute < $1 OR node = 0) ORDER BY minute LIMIT 120;

-- name: merge_rollups
SELECT node, lane, queue_id, type_id, outcome, total, wait_hist, run_hist FROM @.pawl_rollup FORCE INDEX (PRIMARY)
WHERE minute = $1 AND (node = 0 OR $2) ORDER BY node, lane, queue_id, type_id, outcome FOR UPDATE SKIP LOCKED;

-- name: merge_rollups_drop
DELETE c FROM (VALUES (-1, -2, -3, -4, -5),$1) v
STRAIGHT_JOIN @.pawl_rollup c FORCE INDEX (PRIMARY)
    ON c.minute = $2 AND c.node = v.`-1` AND c.lane = v.`-2` AND c.queue_id = v.`-3` AND c.type_id = v.`-4` AND c.outcome = v.`-5`;
