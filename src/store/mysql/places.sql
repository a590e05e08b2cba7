-- Concurrency limits, and tenants that take turns. A spot is (scope, name_id, spot_key); what a bound says comes as one text, of the spot's
-- own key and of all.

-- Which limits are in force. Whoever grants leases, or takes them back, holds the version, so that no bound changes meanwhile.

-- name: version
SELECT value FROM @.pawl_meta WHERE name = 'limits_version';

-- name: version_shared
SELECT value FROM @.pawl_meta WHERE name = 'limits_version' LOCK IN SHARE MODE;

-- name: bound_kinds
SELECT scope, name_id, MAX(most > 0), MAX(ordered AND most > 0) FROM @.pawl_bound WHERE scope < 4 OR bound_key = ''
GROUP BY scope, name_id ORDER BY scope, name_id;

-- Locks spots in their order, and makes those that there are none of. The plain form, where $1 are all of them; where tasks are named that
-- have places, $2; and where tasks are to be withdrawn, $3, perhaps those that hold keys, $4. That one makes the server use temporary tables on
-- disk, for the sake of the bodies' rate keys.

-- name: spots_make
INSERT INTO @.pawl_spot (scope, name_id, spot_key)
SELECT x.scope, x.name_id, x.spot_key FROM (SELECT 0 AS scope, 0 AS name_id, x'' AS spot_key UNION VALUES (0, 0, x'')$1) x
WHERE x.scope > 0 ORDER BY x.scope, x.name_id, x.spot_key
ON DUPLICATE KEY UPDATE scope = @.pawl_spot.scope
RETURNING scope, name_id, spot_key,
    (SELECT CONCAT_WS(' ', q.most, q.ordered) FROM @.pawl_bound q
     WHERE q.scope = @.pawl_spot.scope AND q.name_id = @.pawl_spot.name_id AND q.bound_key = @.pawl_spot.spot_key),
    (SELECT CONCAT_WS(' ', q.most, q.ordered) FROM @.pawl_bound q
     WHERE q.scope = @.pawl_spot.scope AND q.name_id = @.pawl_spot.name_id AND q.bound_key = '');

-- name: spots_ask
INSERT INTO @.pawl_spot (scope, name_id, spot_key)
SELECT x.scope, x.name_id, x.spot_key FROM (
    SELECT 0 AS scope, 0 AS name_id, x'' AS spot_key
    UNION
    VALUES (0, 0, x'')$1
    UNION
    SELECT p.scope, p.name_id, p.spot_key FROM @.pawl_place p FORCE INDEX (pawl_place_task) WHERE p.task_id IN (0$2)) x
WHERE x.scope > 0 ORDER BY x.scope, x.name_id, x.spot_key
ON DUPLICATE KEY UPDATE scope = @.pawl_spot.scope
RETURNING scope, name_id, spot_key,
    (SELECT CONCAT_WS(' ', q.most, q.ordered) FROM @.pawl_bound q
     WHERE q.scope = @.pawl_spot.scope AND q.name_id = @.pawl_spot.name_id AND q.bound_key = @.pawl_spot.spot_key),
    (SELECT CONCAT_WS(' ', q.most, q.ordered) FROM @.pawl_bound q
     WHERE q.scope = @.pawl_spot.scope AND q.name_id = @.pawl_spot.name_id AND q.bound_key = '');

-- name: spots_lock
INSERT INTO @.pawl_spot (scope, name_id, spot_key)
WITH known (scope, name_id, spot_key) AS (VALUES (0, 0, x'')$1), gone (id) AS (VALUES (0)$3),
bodies (id, queue_id, type_id, rate_key) AS (
    SELECT b.id, b.queue_id, b.type_id, IF(LENGTH(b.rate_key) > 256, CONCAT('sha256:', SHA2(b.rate_key, 256)), COALESCE(b.rate_key, ''))
    FROM gone g STRAIGHT_JOIN @.pawl_body b FORCE INDEX (PRIMARY) ON b.id = g.id
    UNION
    SELECT b.id, b.queue_id, b.type_id, IF(LENGTH(b.rate_key) > 256, CONCAT('sha256:', SHA2(b.rate_key, 256)), COALESCE(b.rate_key, ''))
    FROM @.pawl_key k FORCE INDEX (PRIMARY) STRAIGHT_JOIN @.pawl_body b FORCE INDEX (PRIMARY) ON b.id = k.task_id WHERE $4)
SELECT x.scope, x.name_id, x.spot_key FROM (
    SELECT scope, name_id, spot_key FROM known
    UNION
    SELECT p.scope, p.name_id, p.spot_key FROM @.pawl_place p FORCE INDEX (pawl_place_task) WHERE p.task_id IN (0$2)
    UNION
    SELECT p.scope, p.name_id, p.spot_key FROM bodies b STRAIGHT_JOIN @.pawl_place p FORCE INDEX (pawl_place_task) ON p.task_id = b.id
    UNION
    SELECT k.scope, k.name_id, k.spot_key FROM bodies b STRAIGHT_JOIN @.pawl_blocked k FORCE INDEX (PRIMARY) ON k.task_id = b.id
    UNION
    SELECT 1, b.queue_id, x'' FROM bodies b
    WHERE EXISTS (SELECT 1 FROM @.pawl_bound q WHERE q.scope = 1 AND q.name_id = b.queue_id AND q.most > 0)
    UNION
    SELECT 2, b.type_id, x'' FROM bodies b
    WHERE EXISTS (SELECT 1 FROM @.pawl_bound q WHERE q.scope = 2 AND q.name_id = b.type_id AND q.most > 0)
    UNION
    SELECT 3, b.type_id, b.rate_key FROM bodies b
    WHERE b.rate_key <> '' AND EXISTS (SELECT 1 FROM @.pawl_bound q WHERE q.scope = 3 AND q.name_id = b.type_id AND q.most > 0)) x
WHERE x.scope > 0 ORDER BY x.scope, x.name_id, x.spot_key
ON DUPLICATE KEY UPDATE scope = @.pawl_spot.scope
RETURNING scope, name_id, spot_key,
    (SELECT CONCAT_WS(' ', q.most, q.ordered) FROM @.pawl_bound q
     WHERE q.scope = @.pawl_spot.scope AND q.name_id = @.pawl_spot.name_id AND q.bound_key = @.pawl_spot.spot_key),
    (SELECT CONCAT_WS(' ', q.most, q.ordered) FROM @.pawl_bound q
     WHERE q.scope = @.pawl_spot.scope AND q.name_id = @.pawl_spot.name_id AND q.bound_key = '');

-- All spots of a bound.

-- name: spots_of
SELECT s.scope, s.name_id, s.spot_key,
    (SELECT CONCAT_WS(' ', q.most, q.ordered) FROM @.pawl_bound q
     WHERE q.scope = s.scope AND q.name_id = s.name_id AND q.bound_key = s.spot_key),
    (SELECT CONCAT_WS(' ', q.most, q.ordered) FROM @.pawl_bound q WHERE q.scope = s.scope AND q.name_id = s.name_id AND q.bound_key = '')
FROM @.pawl_spot s FORCE INDEX (PRIMARY) WHERE s.scope = $1 AND s.name_id = $2 AND $3 ORDER BY s.spot_key FOR UPDATE;

-- Where tasks stand, once they are locked: all of it must be locked before.

-- name: stands
SELECT scope, name_id, spot_key FROM @.pawl_place FORCE INDEX (pawl_place_task) WHERE task_id IN ($1)
UNION
SELECT scope, name_id, spot_key FROM @.pawl_blocked FORCE INDEX (PRIMARY) WHERE task_id IN ($1);

-- Tasks that have places.

-- name: holders
SELECT DISTINCT task_id FROM @.pawl_place FORCE INDEX (pawl_place_task) WHERE task_id IN ($1);

-- The places of spots that are locked, and whether whoever has one is leased, or lives; or of those where tasks have places.

-- name: places
SELECT p.scope, p.name_id, p.spot_key, p.number, p.task_id, EXISTS (SELECT 1 FROM @.pawl_leased l WHERE l.id = p.task_id),
    EXISTS (SELECT 1 FROM @.pawl_live l WHERE l.id = p.task_id)
FROM @.pawl_place p FORCE INDEX (PRIMARY) WHERE $1 ORDER BY p.scope, p.name_id, p.spot_key, p.number;

-- name: places_beside
SELECT p.scope, p.name_id, p.spot_key, p.number, p.task_id, EXISTS (SELECT 1 FROM @.pawl_leased l WHERE l.id = p.task_id),
    EXISTS (SELECT 1 FROM @.pawl_live l WHERE l.id = p.task_id)
FROM (SELECT DISTINCT scope, name_id, spot_key FROM @.pawl_place FORCE INDEX (pawl_place_task) WHERE task_id IN (0$1)) s
STRAIGHT_JOIN @.pawl_place p FORCE INDEX (PRIMARY) ON p.scope = s.scope AND p.name_id = s.name_id AND p.spot_key = s.spot_key;

-- name: spot_first
SELECT $1, $2, $3, MIN(task_id) FROM @.pawl_blocked FORCE INDEX (pawl_blocked_first) WHERE scope = $1 AND name_id = $2 AND spot_key = $3;

-- The first line of a spot and the last one; then those between, from one to the next, however long they are. The server finds the least of
-- what is greater than a constant without reading on; it does not if that comes from a row, nor in SET.

-- name: line_ends
SELECT $4, MIN(line), MAX(line) FROM @.pawl_blocked FORCE INDEX (pawl_blocked_line) WHERE scope = $1 AND name_id = $2 AND spot_key = $3;

-- name: line_from
SET @pawl_line = $1;

-- name: line_step
SELECT MIN(line) INTO @pawl_line FROM @.pawl_blocked FORCE INDEX (pawl_blocked_line)
WHERE scope = $1 AND name_id = $2 AND spot_key = $3 AND line > @pawl_line;

-- name: line_at
SELECT @pawl_line;

-- The first of a line, those that stand still.

-- name: line_first
SELECT $5, b.task_id FROM @.pawl_blocked b FORCE INDEX (pawl_blocked_line) STRAIGHT_JOIN @.pawl_live l FORCE INDEX (PRIMARY) ON l.id = b.task_id
WHERE b.scope = $1 AND b.name_id = $2 AND b.spot_key = $3 AND b.line = $4
ORDER BY b.priority, b.run_at_us, b.task_id LIMIT $6 FOR UPDATE SKIP LOCKED;

-- name: order_first
SELECT $5, b.task_id, $4 FROM @.pawl_blocked b FORCE INDEX (pawl_blocked_first) STRAIGHT_JOIN @.pawl_live l FORCE INDEX (PRIMARY) ON l.id = b.task_id
WHERE b.scope = $1 AND b.name_id = $2 AND b.spot_key = $3 ORDER BY b.task_id LIMIT 1 FOR UPDATE SKIP LOCKED;

-- name: places_put
INSERT INTO @.pawl_place (scope, name_id, spot_key, number, task_id) VALUES $1;

-- name: places_drop
DELETE x FROM (SELECT 0 AS scope, 0 AS name_id, x'' AS spot_key, 0 AS number UNION ALL VALUES $1) v
STRAIGHT_JOIN @.pawl_place x FORCE INDEX (PRIMARY)
ON x.scope = v.scope AND x.name_id = v.name_id AND x.spot_key = v.spot_key AND x.number = v.number;

-- name: blocked_put
INSERT INTO @.pawl_blocked (task_id, scope, name_id, spot_key, line, priority, run_at_us) VALUES $1;

-- name: blocked_drop
DELETE x FROM (VALUES (0),$2) v STRAIGHT_JOIN @.pawl_blocked x FORCE INDEX (PRIMARY) ON x.task_id = v.`0`;

-- name: shared_drop
DELETE x FROM (VALUES (0),$2) v STRAIGHT_JOIN @.pawl_shared x FORCE INDEX (PRIMARY) ON x.task_id = v.`0`;

-- name: shared_move
UPDATE (VALUES (0, 1),$1) v STRAIGHT_JOIN @.pawl_shared x FORCE INDEX (PRIMARY) ON x.task_id = v.`0` SET x.run_at_us = v.`1`;

-- Tasks take their stand among those that may be claimed; or leave it.

-- name: live_ready
UPDATE (VALUES (0),$2) v STRAIGHT_JOIN @.pawl_live x FORCE INDEX (PRIMARY) ON x.id = v.`0` SET x.ready = x.queue_id;

-- name: live_park
UPDATE (VALUES (0),$2) v STRAIGHT_JOIN @.pawl_live x FORCE INDEX (PRIMARY) ON x.id = v.`0` SET x.ready = NULL;

-- name: shared_put
INSERT IGNORE INTO @.pawl_shared (task_id, queue_id, priority, tenant_id, lane, run_at_us)
SELECT l.id, l.queue_id, l.priority, COALESCE(b.tenant_id, 0), l.lane, l.run_at_us
FROM (VALUES (0),$2) v STRAIGHT_JOIN @.pawl_live l FORCE INDEX (PRIMARY) ON l.id = v.`0`
STRAIGHT_JOIN @.pawl_body b FORCE INDEX (PRIMARY) ON b.id = l.id;

-- Claims of tasks that may need places: what is due with the rate keys, then the rows themselves, and the keys again.

-- name: admit_look
SELECT c.id, c.run_at_us, $2, IF(LENGTH(b.rate_key) > 256, CONCAT('sha256:', SHA2(b.rate_key, 256)), COALESCE(b.rate_key, '')),
    COALESCE(b.tenant_id, 0), 0
FROM (SELECT id, run_at_us FROM @.pawl_live FORCE INDEX (pawl_ready)
      WHERE ready = $1 AND lane = $2 AND run_at_us >= $3 AND run_at_us <= $4 ORDER BY run_at_us, id LIMIT $5) c
STRAIGHT_JOIN @.pawl_body b FORCE INDEX (PRIMARY) ON b.id = c.id;

-- name: admit_lock
SELECT id, run_at_us, queue_id, type_id, fence, priority, class, state, level, keyed, runs, failures, interruptions, rescues, strikes, ready
FROM @.pawl_live FORCE INDEX (PRIMARY) WHERE id IN ($1) AND state = 2 ORDER BY id FOR UPDATE SKIP LOCKED;

-- name: admit_keys
SELECT b.id, IF(LENGTH(b.rate_key) > 256, CONCAT('sha256:', SHA2(b.rate_key, 256)), COALESCE(b.rate_key, '')), s.task_id IS NOT NULL
FROM @.pawl_body b FORCE INDEX (PRIMARY) LEFT JOIN @.pawl_shared s FORCE INDEX (PRIMARY) ON s.task_id = b.id WHERE b.id IN ($1);

-- name: turn_lock
SELECT tenant_id, rest FROM @.pawl_turn WHERE queue_id = $1 FOR UPDATE;

-- name: turn_weighted
SELECT EXISTS (SELECT 1 FROM @.pawl_bound WHERE scope = 4 AND name_id = $1 AND bound_key <> '');

-- name: turn_make
INSERT IGNORE INTO @.pawl_turn (queue_id, tenant_id, rest) VALUES ($1, 0, 0);

-- name: turn_put
UPDATE @.pawl_turn SET tenant_id = $2, rest = $3 WHERE queue_id = $1;

-- name: turn_tag
SELECT $3, id FROM @.pawl_live FORCE INDEX (pawl_ready) WHERE ready = $1 LIMIT $2 FOR UPDATE SKIP LOCKED;

-- name: shared_look
SELECT $2, (SELECT MIN(run_at_us) FROM @.pawl_shared FORCE INDEX (pawl_shared_due) WHERE queue_id = $1 AND run_at_us <= @pawl_now),
    (SELECT MIN(run_at_us) FROM @.pawl_shared FORCE INDEX (pawl_shared_due) WHERE queue_id = $1 AND run_at_us > @pawl_now);

-- name: shared_priority
SELECT MIN(priority) FROM @.pawl_shared FORCE INDEX (pawl_shared_turn) WHERE queue_id = $1 AND priority > $2;

-- The first tenant of a priority and the last one, above one and up to another; those between, as lines above; weights.

-- name: tenant_ends
SELECT MIN(tenant_id), MAX(tenant_id) FROM @.pawl_shared FORCE INDEX (pawl_shared_turn)
WHERE queue_id = $1 AND priority = $2 AND tenant_id > $3 AND tenant_id <= $4;

-- name: tenant_from
SET @pawl_tenant = $1;

-- name: tenant_step
SELECT MIN(tenant_id) INTO @pawl_tenant FROM @.pawl_shared FORCE INDEX (pawl_shared_turn)
WHERE queue_id = $1 AND priority = $2 AND tenant_id > @pawl_tenant AND tenant_id <= $3;

-- name: tenant_at
SELECT @pawl_tenant;

-- name: tenant_weights
SELECT CONVERT(bound_key, SIGNED), most FROM @.pawl_bound WHERE scope = 4 AND name_id = $1 AND bound_key IN ($2);

-- name: shared_due
SELECT c.task_id, c.run_at_us, c.lane, IF(LENGTH(b.rate_key) > 256, CONCAT('sha256:', SHA2(b.rate_key, 256)), COALESCE(b.rate_key, '')), $3, $7
FROM (SELECT task_id, run_at_us, lane FROM @.pawl_shared FORCE INDEX (pawl_shared_turn)
      WHERE queue_id = $1 AND priority = $2 AND tenant_id = $3 AND run_at_us <= $4 AND $5 ORDER BY run_at_us, task_id LIMIT $6) c
STRAIGHT_JOIN @.pawl_body b FORCE INDEX (PRIMARY) ON b.id = c.task_id;

-- name: shared_count
SELECT $4, COUNT(*), MIN(s.run_at_us) FROM (
    SELECT run_at_us FROM @.pawl_shared FORCE INDEX (pawl_shared_due) WHERE queue_id = $1 AND run_at_us <= $2 ORDER BY run_at_us LIMIT $3) s;

-- A bound that changes.

-- name: bound_old
SELECT $4, most, ordered FROM @.pawl_bound WHERE scope = $1 AND name_id = $2 AND bound_key = $3;

-- name: bound_put
INSERT INTO @.pawl_bound (scope, name_id, bound_key, most, ordered, changed_us) VALUES ($1, $2, $3, $4, $5, $6)
ON DUPLICATE KEY UPDATE most = VALUES(most), ordered = VALUES(ordered), changed_us = VALUES(changed_us);

-- Waits for leases that begin or end just now; then nobody else does, for they wait for the version, or for the rows.

-- name: leases_lock
SELECT COUNT(*) FROM @.pawl_leased l FORCE INDEX (PRIMARY) WHERE $1 FOR UPDATE;

-- name: leases_of
SELECT l.id, IF(LENGTH(b.rate_key) > 256, CONCAT('sha256:', SHA2(b.rate_key, 256)), COALESCE(b.rate_key, ''))
FROM @.pawl_leased l STRAIGHT_JOIN @.pawl_body b FORCE INDEX (PRIMARY) ON b.id = l.id WHERE $1 ORDER BY l.id;

-- name: spots_blocked
SELECT DISTINCT scope, name_id, spot_key FROM @.pawl_blocked FORCE INDEX (pawl_blocked_first) WHERE scope = $1 AND name_id = $2 AND $3;

-- Upkeep: some spots further on.

-- name: spots_next
SELECT scope, name_id, spot_key FROM @.pawl_spot FORCE INDEX (PRIMARY)
WHERE scope > $1 OR (scope = $1 AND (name_id > $2 OR (name_id = $2 AND spot_key > $3))) ORDER BY scope, name_id, spot_key LIMIT 200;

-- name: spots_drop
DELETE x FROM (SELECT 0 AS scope, 0 AS name_id, x'' AS spot_key UNION ALL VALUES $1) v STRAIGHT_JOIN @.pawl_spot x FORCE INDEX (PRIMARY)
ON x.scope = v.scope AND x.name_id = v.name_id AND x.spot_key = v.spot_key
WHERE NOT EXISTS (SELECT 1 FROM @.pawl_place p WHERE p.scope = x.scope AND p.name_id = x.name_id AND p.spot_key = x.spot_key)
    AND NOT EXISTS (SELECT 1 FROM @.pawl_blocked k WHERE k.scope = x.scope AND k.name_id = x.name_id AND k.spot_key = x.spot_key);

-- Bounds, and spots that have holders or blocked tasks, from one on, in the order of pages.

-- name: places_list
SELECT x.scope, n.text, x.spot_key,
    (SELECT CONCAT_WS(' ', q.most, q.ordered) FROM @.pawl_bound q WHERE q.scope = x.scope AND q.name_id = x.name_id AND q.bound_key = x.spot_key),
    (SELECT CONCAT_WS(' ', q.most, q.ordered) FROM @.pawl_bound q WHERE q.scope = x.scope AND q.name_id = x.name_id AND q.bound_key = ''),
    (SELECT COUNT(*) FROM @.pawl_place p WHERE p.scope = x.scope AND p.name_id = x.name_id AND p.spot_key = x.spot_key),
    (SELECT COUNT(*) FROM @.pawl_blocked k FORCE INDEX (pawl_blocked_first)
     WHERE k.scope = x.scope AND k.name_id = x.name_id AND k.spot_key = x.spot_key),
    (SELECT p.task_id FROM @.pawl_place p LEFT JOIN @.pawl_leased l ON l.id = p.task_id
     WHERE p.scope = x.scope AND p.name_id = x.name_id AND p.spot_key = x.spot_key ORDER BY l.leased_us LIMIT 1),
    (SELECT t.text FROM @.pawl_name t WHERE x.scope = 4 AND x.spot_key <> '' AND t.id = CAST(x.spot_key AS UNSIGNED))
FROM (
    SELECT scope, name_id, bound_key AS spot_key FROM @.pawl_bound WHERE most > 0
    UNION
    SELECT scope, name_id, spot_key FROM @.pawl_place
    UNION
    SELECT scope, name_id, spot_key FROM @.pawl_blocked) x
JOIN @.pawl_name n ON n.id = x.name_id
WHERE (x.scope > $1 OR (x.scope = $1 AND (n.text > $2 OR (n.text = $2 AND x.spot_key > $3)))) AND $4
    AND ($5 = 0 OR EXISTS (SELECT 1 FROM @.pawl_blocked k
                           WHERE k.task_id = $5 AND k.scope = x.scope AND k.name_id = x.name_id AND k.spot_key = x.spot_key))
ORDER BY x.scope, n.text, x.spot_key LIMIT 200;
