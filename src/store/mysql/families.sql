-- Families of tasks; see family.c, member.c and settle.c. States of tasks: 4 succeeded, 5 failed, 6 cancelled.

-- name: families_mark
INSERT IGNORE INTO @.pawl_meta (name, value) VALUES ('families', '1');

-- What INSERTs and BATCHes need to know. Parents are held where they are, so that they do not end meanwhile.

-- name: live_share
SELECT id, run_at_us, queue_id, type_id, fence, priority, class, state, level, keyed, runs, failures, interruptions, rescues, strikes
FROM @.pawl_live FORCE INDEX (PRIMARY) WHERE id IN ($1) ORDER BY id LOCK IN SHARE MODE;

-- name: leased_share
SELECT id, leased_us, run_at_us, started_us, node, queue_id, type_id, fence, priority, class, level, keyed, strikes, runs, failures,
    interruptions, rescues, not_started, mark, cancel_asked, progress, progress_text
FROM @.pawl_leased FORCE INDEX (PRIMARY) WHERE id IN ($1) ORDER BY id LOCK IN SHARE MODE;

-- name: kept_look
SELECT id, state FROM @.pawl_kept FORCE INDEX (PRIMARY) WHERE id IN ($1);

-- name: batches_lock
SELECT id, closed_us IS NOT NULL, ended_us IS NOT NULL, state, cancel_asked, unfinished, failed, cancelled
FROM @.pawl_batch FORCE INDEX (PRIMARY) WHERE id IN ($1) ORDER BY id DESC FOR UPDATE;

-- name: batches_look
SELECT id, closed_us IS NOT NULL, ended_us IS NOT NULL, state, cancel_asked, unfinished, failed, cancelled
FROM @.pawl_batch FORCE INDEX (PRIMARY) WHERE id IN ($1);

-- name: batches_named
SELECT id, name FROM @.pawl_batch FORCE INDEX (pawl_batch_name) WHERE name IN ($1);

-- name: members_look
SELECT task_id, batch_id FROM @.pawl_member FORCE INDEX (PRIMARY) WHERE task_id IN ($1);

-- What they change.

-- name: batches_put
INSERT INTO @.pawl_batch (id, name, within, created_us, state, cancel_asked, unfinished, succeeded, failed, cancelled) VALUES $1;

-- name: members_put
INSERT IGNORE INTO @.pawl_member (task_id, batch_id) VALUES $1;

-- name: batch_joined
UPDATE @.pawl_batch SET unfinished = unfinished + $2 WHERE id = $1;

-- name: batch_close
UPDATE @.pawl_batch SET closed_us = COALESCE(closed_us, $2), cancel_asked = GREATEST(cancel_asked, $3) WHERE id = $1;

-- name: batches_end
UPDATE (SELECT 0 AS id, 0 AS state UNION ALL VALUES $1) v STRAIGHT_JOIN @.pawl_batch b FORCE INDEX (PRIMARY) ON b.id = v.id
SET b.ended_us = $2, b.state = v.state;

-- name: edges_put
INSERT INTO @.pawl_edge (parent_id, child_id, state) VALUES $1 ON DUPLICATE KEY UPDATE state = VALUES(state);

-- name: edges_move
UPDATE (SELECT 0 AS parent_id, 0 AS child_id, 0 AS to_id UNION ALL VALUES $1) v
STRAIGHT_JOIN @.pawl_edge e FORCE INDEX (PRIMARY) ON e.parent_id = v.parent_id AND e.child_id = v.child_id
SET e.parent_id = v.to_id, e.state = 0;

-- name: waits_put
INSERT INTO @.pawl_wait (child_id, unmet, held, if_failed) VALUES $1
ON DUPLICATE KEY UPDATE unmet = VALUES(unmet), held = VALUES(held);

-- name: waits_drop
DELETE x FROM (VALUES (0),$2) v STRAIGHT_JOIN @.pawl_wait x FORCE INDEX (PRIMARY) ON x.child_id = v.`0`;

-- What has ended, $1: (id, state). Whoever wrote this has locked the tasks, so nobody begins to wait for them meanwhile.

-- name: ends_left
INSERT INTO @.pawl_unsettled (id, kind, told, value)
SELECT t.id, 1, 0, t.state FROM (SELECT 0 AS id, 0 AS state UNION ALL VALUES $1) t
WHERE EXISTS (SELECT 1 FROM @.pawl_edge e FORCE INDEX (PRIMARY) WHERE e.parent_id = t.id AND e.state = 0)
ON DUPLICATE KEY UPDATE told = 0, value = VALUES(value);

-- name: members_count
UPDATE (
    SELECT m.batch_id, COUNT(*) AS n, SUM(t.state = 4) AS succeeded, SUM(t.state = 5) AS failed, SUM(t.state = 6) AS cancelled
    FROM (SELECT 0 AS id, 0 AS state UNION ALL VALUES $1) t STRAIGHT_JOIN @.pawl_member m FORCE INDEX (PRIMARY) ON m.task_id = t.id
    GROUP BY m.batch_id) x
STRAIGHT_JOIN @.pawl_batch b FORCE INDEX (PRIMARY) ON b.id = x.batch_id
SET b.unfinished = b.unfinished - x.n, b.succeeded = b.succeeded + x.succeeded, b.failed = b.failed + x.failed,
    b.cancelled = b.cancelled + x.cancelled;

-- name: members_drained
INSERT INTO @.pawl_unsettled (id, kind, told, value)
SELECT DISTINCT b.id, 0, 0, 0 FROM (SELECT 0 AS id, 0 AS state UNION ALL VALUES $1) t
STRAIGHT_JOIN @.pawl_member m FORCE INDEX (PRIMARY) ON m.task_id = t.id STRAIGHT_JOIN @.pawl_batch b FORCE INDEX (PRIMARY) ON b.id = m.batch_id
WHERE b.closed_us IS NOT NULL AND b.ended_us IS NULL AND b.unfinished = 0
ON DUPLICATE KEY UPDATE told = 0;

-- name: members_later
INSERT IGNORE INTO @.pawl_unsettled (id, kind, told, value)
SELECT t.id, 4, 0, t.state FROM (SELECT 0 AS id, 0 AS state UNION ALL VALUES $1) t
STRAIGHT_JOIN @.pawl_member m FORCE INDEX (PRIMARY) ON m.task_id = t.id;

-- name: retried_left
INSERT INTO @.pawl_unsettled (id, kind, told, value)
SELECT t.id, 3, 0, t.value FROM (SELECT $1 AS id, $2 AS value) t
WHERE EXISTS (SELECT 1 FROM @.pawl_edge e FORCE INDEX (PRIMARY) WHERE e.parent_id = t.id)
ON DUPLICATE KEY UPDATE told = 0, value = VALUES(value);

-- name: unsettled_put
INSERT INTO @.pawl_unsettled (id, kind, told, value) VALUES $1
ON DUPLICATE KEY UPDATE told = LEAST(told, VALUES(told)), value = VALUES(value);

-- Telling. One that is told of a retry waits until its end was told to all.

-- name: unsettled_lock
SELECT u.id, u.kind, u.told, u.value FROM @.pawl_unsettled u FORCE INDEX (PRIMARY)
WHERE NOT (u.kind = 3 AND EXISTS (SELECT 1 FROM @.pawl_unsettled o WHERE o.id = u.id AND o.kind IN (1, 5)))
ORDER BY u.id, u.kind LIMIT 64 FOR UPDATE SKIP LOCKED;

-- name: unsettled_any
SELECT 1 FROM @.pawl_unsettled LIMIT 1;

-- name: unsettled_free
SELECT 1 FROM @.pawl_unsettled FORCE INDEX (PRIMARY) ORDER BY id, kind LIMIT 1 FOR UPDATE SKIP LOCKED;

-- name: unsettled_drop
DELETE x FROM (SELECT 0 AS id, 0 AS kind UNION ALL VALUES $1) v
STRAIGHT_JOIN @.pawl_unsettled x FORCE INDEX (PRIMARY) ON x.id = v.id AND x.kind = v.kind;

-- name: unsettled_go_on
UPDATE @.pawl_unsettled SET told = $3 WHERE id = $1 AND kind = $2;

-- name: lane_moved
INSERT INTO @.pawl_lane (node, lane, number, backs) VALUES ($1, $2, 1, $3)
ON DUPLICATE KEY UPDATE number = number + 1, backs = backs + VALUES(backs);

-- name: kids_lock
SELECT l.id, l.run_at_us, l.queue_id, l.type_id, l.fence, l.priority, l.class, l.state, l.level, l.keyed, l.runs, l.failures,
    l.interruptions, l.rescues, l.strikes, $5, e.child_id, w.unmet, w.held, w.if_failed,
    EXISTS (SELECT 1 FROM @.pawl_edge o FORCE INDEX (PRIMARY) WHERE o.parent_id = $6 AND o.child_id = e.child_id)
FROM (SELECT child_id FROM @.pawl_edge FORCE INDEX (PRIMARY) WHERE parent_id = $1 AND child_id > $2 AND state = $3 ORDER BY child_id LIMIT $4) e
LEFT JOIN @.pawl_live l FORCE INDEX (PRIMARY) ON l.id = e.child_id
LEFT JOIN @.pawl_wait w FORCE INDEX (PRIMARY) ON w.child_id = l.id FOR UPDATE;

-- name: members_page
SELECT task_id FROM @.pawl_member FORCE INDEX (pawl_member_of) WHERE batch_id = $1 AND task_id > $2 ORDER BY task_id LIMIT $3;

-- Batches among the members of one that is cancelled, $1.

-- name: inner_left
INSERT INTO @.pawl_unsettled (id, kind, told, value)
SELECT b.id, k.kind, 0, 0 FROM @.pawl_batch b FORCE INDEX (PRIMARY) CROSS JOIN (SELECT 0 AS kind UNION ALL SELECT 2) k
WHERE b.id IN ($1) AND b.ended_us IS NULL AND b.cancel_asked = 0
ON DUPLICATE KEY UPDATE told = 0;

-- name: inner_cancel
UPDATE @.pawl_batch FORCE INDEX (PRIMARY) SET closed_us = COALESCE(closed_us, $2), cancel_asked = 1
WHERE id IN ($1) AND ended_us IS NULL AND cancel_asked = 0 ORDER BY id DESC;

-- Retention.

-- name: parents_of
SELECT DISTINCT e.parent_id FROM (VALUES (0),$2) v STRAIGHT_JOIN @.pawl_edge e FORCE INDEX (pawl_edge_child) ON e.child_id = v.`0`;

-- name: kept_put
INSERT IGNORE INTO @.pawl_kept (id, state, error, result_type, result_ref, result)
SELECT d.id, d.state, d.error, d.result_type, d.result_ref, d.result FROM @.pawl_done d FORCE INDEX (PRIMARY)
WHERE d.id IN ($1) AND EXISTS (SELECT 1 FROM @.pawl_edge e FORCE INDEX (PRIMARY) WHERE e.parent_id = d.id)
UNION ALL
SELECT d.id, d.state, d.error, d.result_type, d.result_ref, d.result FROM @.pawl_failed d FORCE INDEX (PRIMARY)
WHERE d.id IN ($1) AND EXISTS (SELECT 1 FROM @.pawl_edge e FORCE INDEX (PRIMARY) WHERE e.parent_id = d.id);

-- name: edges_drop
DELETE x FROM (VALUES (0),$2) v STRAIGHT_JOIN @.pawl_edge x FORCE INDEX (pawl_edge_child) ON x.child_id = v.`0`;

-- name: members_drop
DELETE x FROM (VALUES (0),$2) v STRAIGHT_JOIN @.pawl_member x FORCE INDEX (PRIMARY) ON x.task_id = v.`0`;

-- name: kept_drop
DELETE x FROM (VALUES (0),$2) v STRAIGHT_JOIN @.pawl_kept x FORCE INDEX (PRIMARY) ON x.id = v.`0`
WHERE NOT EXISTS (SELECT 1 FROM @.pawl_edge e FORCE INDEX (PRIMARY) WHERE e.parent_id = x.id);

-- name: batches_old
SELECT id FROM @.pawl_batch FORCE INDEX (pawl_batch_ended) WHERE state = $1 AND ended_us <= $2 ORDER BY ended_us LIMIT 100;

-- name: batch_members_drop
DELETE FROM @.pawl_member WHERE batch_id = $1 ORDER BY task_id LIMIT $2;

-- name: kept_batch
INSERT IGNORE INTO @.pawl_kept (id, state) SELECT b.id, b.state FROM @.pawl_batch b FORCE INDEX (PRIMARY)
WHERE b.id = $1 AND EXISTS (SELECT 1 FROM @.pawl_edge e FORCE INDEX (PRIMARY) WHERE e.parent_id = b.id);

-- name: batch_drop
DELETE FROM @.pawl_batch WHERE id = $1;

-- Looking.

-- name: batches
SELECT id, name, within, created_us, closed_us, ended_us, state, cancel_asked, unfinished, succeeded, failed, cancelled
FROM @.pawl_batch WHERE $1 ORDER BY id DESC LIMIT $2;

-- Of $1 those after $2, $4 at most. $3: 1 parents, 2 children, 3 members, 4 the batch. $5: only parents that it still waits for.

-- name: relatives
SELECT x.id, x.state, w.if_failed, b.name, b.closed_us IS NOT NULL, b.ended_us IS NOT NULL, b.state, n.text,
    COALESCE(l.state, IF(s.id, 3, NULL), d.state, f.state, k.state, 0), IF($3 = 1, COALESCE(d.result, f.result, k.result), NULL),
    IF($3 = 1, COALESCE(d.result_type, f.result_type, k.result_type), NULL),
    IF($3 = 1, COALESCE(d.result_ref, f.result_ref, k.result_ref), NULL), IF($3 = 1, COALESCE(d.error, f.error, k.error), NULL)
FROM (
    (SELECT e.parent_id AS id, e.state AS state, e.child_id AS child_id FROM @.pawl_edge e FORCE INDEX (pawl_edge_child)
     WHERE $3 = 1 AND e.child_id = $1 AND e.parent_id > $2
         AND ($5 = 0 OR (e.state <> 1 AND EXISTS (SELECT 1 FROM @.pawl_wait o WHERE o.child_id = e.child_id)))
     ORDER BY e.parent_id LIMIT $4)
    UNION ALL
    (SELECT e.child_id, e.state, e.child_id FROM @.pawl_edge e FORCE INDEX (PRIMARY)
     WHERE $3 = 2 AND e.parent_id = $1 AND e.child_id > $2 ORDER BY e.child_id LIMIT $4)
    UNION ALL
    (SELECT m.task_id, 1, 0 FROM @.pawl_member m FORCE INDEX (pawl_member_of)
     WHERE $3 = 3 AND m.batch_id = $1 AND m.task_id > $2 ORDER BY m.task_id LIMIT $4)
    UNION ALL
    (SELECT m.batch_id, 1, 0 FROM @.pawl_member m FORCE INDEX (PRIMARY) WHERE $3 = 4 AND m.task_id = $1 AND m.batch_id > $2)) x
LEFT JOIN @.pawl_wait w FORCE INDEX (PRIMARY) ON w.child_id = x.child_id
LEFT JOIN @.pawl_batch b FORCE INDEX (PRIMARY) ON b.id = x.id
LEFT JOIN @.pawl_body y FORCE INDEX (PRIMARY) ON y.id = x.id
LEFT JOIN @.pawl_name n FORCE INDEX (PRIMARY) ON n.id = y.type_id
LEFT JOIN @.pawl_live l FORCE INDEX (PRIMARY) ON l.id = x.id
LEFT JOIN @.pawl_leased s FORCE INDEX (PRIMARY) ON s.id = x.id
LEFT JOIN @.pawl_done d FORCE INDEX (PRIMARY) ON d.id = x.id
LEFT JOIN @.pawl_failed f FORCE INDEX (PRIMARY) ON f.id = x.id
LEFT JOIN @.pawl_kept k FORCE INDEX (PRIMARY) ON k.id = x.id AND l.id IS NULL AND s.id IS NULL
ORDER BY x.id;
