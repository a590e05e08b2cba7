-- Rate limits and budgets. What a limit says comes as one text, of the key itself and of its type.

-- The clock, once the budgets are locked, and which limits are in force.

-- name: limits_now
SELECT TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6)), (SELECT value FROM @.pawl_meta WHERE name = 'limits_version');

-- name: limit_types
SELECT type_id, MAX(permits > 0 OR flags & 8) FROM @.pawl_limit GROUP BY type_id ORDER BY type_id;

-- Locks budgets in their order, and makes those that there are none of: $1 of keys that are known, $2 of the keys of tasks (or, if they
-- have none, this one), $4 of the tasks that hold keys.

-- name: budgets_lock
INSERT INTO @.pawl_budget (type_id, rate_key)
WITH known (type_id, rate_key) AS (VALUES (0, x'')$1), asked (id, rate_key) AS (VALUES (0, x'')$2)
SELECT x.type_id, x.rate_key FROM (
    SELECT type_id, rate_key FROM known
    UNION
    SELECT b.type_id, IF(COALESCE(LENGTH(b.rate_key), 0) = 0, a.rate_key,
        IF(LENGTH(b.rate_key) > 256, CONCAT('sha256:', SHA2(b.rate_key, 256)), b.rate_key))
    FROM asked a STRAIGHT_JOIN @.pawl_body b FORCE INDEX (PRIMARY) ON b.id = a.id
    UNION
    SELECT s.type_id, s.rate_key FROM asked a STRAIGHT_JOIN @.pawl_slotted s FORCE INDEX (PRIMARY) ON s.task_id = a.id
    UNION
    SELECT b.type_id, IF(LENGTH(b.rate_key) > 256, CONCAT('sha256:', SHA2(b.rate_key, 256)), COALESCE(b.rate_key, ''))
    FROM @.pawl_key k FORCE INDEX (PRIMARY) STRAIGHT_JOIN @.pawl_body b FORCE INDEX (PRIMARY) ON b.id = k.task_id WHERE $4
    UNION
    SELECT s.type_id, s.rate_key
    FROM @.pawl_key k FORCE INDEX (PRIMARY) STRAIGHT_JOIN @.pawl_slotted s FORCE INDEX (PRIMARY) ON s.task_id = k.task_id WHERE $4) x
WHERE x.type_id IN ($3) AND x.rate_key <> '' ORDER BY x.type_id, x.rate_key
ON DUPLICATE KEY UPDATE epoch = @.pawl_budget.epoch
RETURNING type_id, rate_key, tat_us, tat_part, permits, period_us, burst, seen_us, epoch, last_id, last_slot_us,
    (SELECT CONCAT_WS(' ', l.permits, l.period_us, l.burst, l.horizon_us, l.flags) FROM @.pawl_limit l
     WHERE l.type_id = @.pawl_budget.type_id AND l.rate_key = @.pawl_budget.rate_key),
    (SELECT CONCAT_WS(' ', l.permits, l.period_us, l.burst, l.horizon_us, l.flags) FROM @.pawl_limit l
     WHERE l.type_id = @.pawl_budget.type_id AND l.rate_key = '');

-- name: budgets_put
INSERT INTO @.pawl_budget (type_id, rate_key, tat_us, tat_part, permits, period_us, burst, seen_us, epoch, last_id, last_slot_us)
VALUES $1
ON DUPLICATE KEY UPDATE tat_us = VALUES(tat_us), tat_part = VALUES(tat_part), permits = VALUES(permits), period_us = VALUES(period_us),
    burst = VALUES(burst), seen_us = VALUES(seen_us), epoch = VALUES(epoch), last_id = VALUES(last_id),
    last_slot_us = VALUES(last_slot_us);

-- What tasks have to do with budgets; once the tasks are locked.

-- name: rate_heads
SELECT b.id, IF(LENGTH(b.rate_key) > 256, CONCAT('sha256:', SHA2(b.rate_key, 256)), b.rate_key), s.rate_key, s.epoch
FROM @.pawl_body b FORCE INDEX (PRIMARY) LEFT JOIN @.pawl_slotted s FORCE INDEX (PRIMARY) ON s.task_id = b.id
WHERE b.id IN ($1) LOCK IN SHARE MODE;

-- name: slotted_put
REPLACE INTO @.pawl_slotted (task_id, type_id, rate_key, epoch) VALUES $1;

-- name: slotted_drop
DELETE x FROM (VALUES (0),$2) v STRAIGHT_JOIN @.pawl_slotted x FORCE INDEX (PRIMARY) ON x.task_id = v.`0`;

-- The slots of tasks that are being claimed.

-- name: slots
SELECT s.task_id, s.epoch, g.epoch,
    (SELECT CONCAT_WS(' ', l.permits, l.period_us, l.burst, l.horizon_us, l.flags) FROM @.pawl_limit l
     WHERE l.type_id = s.type_id AND l.rate_key = s.rate_key),
    (SELECT CONCAT_WS(' ', l.permits, l.period_us, l.burst, l.horizon_us, l.flags) FROM @.pawl_limit l
     WHERE l.type_id = s.type_id AND l.rate_key = '')
FROM @.pawl_slotted s FORCE INDEX (PRIMARY)
JOIN @.pawl_budget g FORCE INDEX (PRIMARY) ON g.type_id = s.type_id AND g.rate_key = s.rate_key
WHERE s.task_id IN ($1) ORDER BY s.task_id;

-- Others of a key that are due and have no slot, among the first of their lane. Bodies of tasks without a key never change.

-- name: backlog
SELECT l.id, l.run_at_us FROM (
    SELECT b.id FROM (
        SELECT id FROM @.pawl_live FORCE INDEX (pawl_ready) WHERE ready = $1 AND lane = $2 AND run_at_us >= $3 AND run_at_us <= $4
        ORDER BY run_at_us LIMIT 200) c
    STRAIGHT_JOIN @.pawl_body b FORCE INDEX (PRIMARY) ON b.id = c.id
    WHERE IF(LENGTH(b.rate_key) > 256, CONCAT('sha256:', SHA2(b.rate_key, 256)), b.rate_key) = $5) x
STRAIGHT_JOIN @.pawl_live l FORCE INDEX (PRIMARY) ON l.id = x.id
WHERE l.ready = $1 AND l.lane = $2 AND l.run_at_us <= $4 AND l.keyed = 0 AND (l.failures = 0 OR NOT $6)
    AND NOT EXISTS (SELECT 1 FROM @.pawl_slotted s WHERE s.task_id = l.id)
ORDER BY l.run_at_us, l.id FOR UPDATE SKIP LOCKED;

-- name: live_move
UPDATE (VALUES (0, 1),$1) v STRAIGHT_JOIN @.pawl_live x FORCE INDEX (PRIMARY) ON x.id = v.`0` SET x.run_at_us = v.`1`;

-- name: limits_lock
SELECT value FROM @.pawl_meta WHERE name = 'limits_version' FOR UPDATE;

-- name: limit_old
SELECT $3, CONCAT_WS(' ', permits, period_us, burst, horizon_us, flags) FROM @.pawl_limit WHERE type_id = $1 AND rate_key = $2;

-- name: limit_put
INSERT INTO @.pawl_limit (type_id, rate_key, permits, period_us, burst, horizon_us, flags, changed_us)
VALUES ($1, $2, $3, $4, $5, $6, $7, $8)
ON DUPLICATE KEY UPDATE permits = VALUES(permits), period_us = VALUES(period_us), burst = VALUES(burst), horizon_us = VALUES(horizon_us),
    flags = VALUES(flags), changed_us = VALUES(changed_us);

-- name: limits_changed
INSERT INTO @.pawl_meta (name, value) VALUES ('limits_version', '1') ON DUPLICATE KEY UPDATE value = CAST(value AS SIGNED) + 1;

-- name: slotted_of
SELECT $3, task_id FROM @.pawl_slotted FORCE INDEX (pawl_slotted_budget) WHERE type_id = $1 AND $4 LIMIT $2;

-- name: budgets_next
SELECT type_id, rate_key FROM @.pawl_budget FORCE INDEX (PRIMARY) WHERE type_id > $1 OR (type_id = $1 AND rate_key > $2)
ORDER BY type_id, rate_key LIMIT 499, 1;

-- What was used meanwhile stays: whoever takes a slot writes when.

-- name: budgets_drop
DELETE g FROM (
    SELECT type_id, rate_key, tat_us, seen_us FROM @.pawl_budget FORCE INDEX (PRIMARY)
    WHERE type_id > $1 OR (type_id = $1 AND rate_key > $2) ORDER BY type_id, rate_key LIMIT 500) x
STRAIGHT_JOIN @.pawl_budget g FORCE INDEX (PRIMARY) ON g.type_id = x.type_id AND g.rate_key = x.rate_key
WHERE x.tat_us < $3 AND x.seen_us < $3 AND g.tat_us < $3 AND g.seen_us < $3
    AND NOT EXISTS (SELECT 1 FROM @.pawl_slotted s WHERE s.type_id = x.type_id AND s.rate_key = x.rate_key);

-- Types that have limits, in the order of pages.

-- name: limits_types
SELECT n.id, n.text FROM (SELECT DISTINCT type_id FROM @.pawl_limit) x JOIN @.pawl_name n ON n.id = x.type_id
WHERE n.text >= $1 ORDER BY n.text;

-- Keys of type $1 that have a limit or a budget: the next ones ($2 says after which), or one.

-- name: limits_list
SELECT x.rate_key,
    (SELECT CONCAT_WS(' ', l.permits, l.period_us, l.burst, l.horizon_us, l.flags) FROM @.pawl_limit l
     WHERE l.type_id = $1 AND l.rate_key = x.rate_key),
    (SELECT CONCAT_WS(' ', l.permits, l.period_us, l.burst, l.horizon_us, l.flags) FROM @.pawl_limit l
     WHERE l.type_id = $1 AND l.rate_key = ''),
    g.tat_us, g.tat_part, g.permits, g.period_us, g.burst, g.seen_us, g.epoch, g.last_id, g.last_slot_us,
    (SELECT COUNT(*) FROM @.pawl_slotted s FORCE INDEX (pawl_slotted_budget)
     JOIN @.pawl_live l FORCE INDEX (PRIMARY) ON l.id = s.task_id
     WHERE s.type_id = $1 AND s.rate_key = x.rate_key AND l.run_at_us > $3)
FROM (
    (SELECT rate_key FROM @.pawl_limit FORCE INDEX (PRIMARY) WHERE type_id = $1 AND $2 AND (permits > 0 OR flags & 8)
     ORDER BY rate_key LIMIT 200)
    UNION
    (SELECT rate_key FROM @.pawl_budget FORCE INDEX (PRIMARY) WHERE type_id = $1 AND $2 ORDER BY rate_key LIMIT 200)
    ORDER BY rate_key LIMIT 200) x
LEFT JOIN @.pawl_budget g FORCE INDEX (PRIMARY) ON g.type_id = $1 AND g.rate_key = x.rate_key
ORDER BY x.rate_key;
