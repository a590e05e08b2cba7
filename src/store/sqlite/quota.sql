-- Rate limits and quotas.

-- name: limit_any
SELECT 1 FROM pawl_limit LIMIT 1;

-- name: limit_get
SELECT permits, period_us, burst, horizon_us, flags FROM pawl_limit WHERE type_id = ? AND key = ?;

-- name: limit_each
SELECT n.text, l.key, l.permits, l.period_us, l.burst, l.horizon_us, l.flags FROM pawl_limit l JOIN pawl_name n ON n.id = l.type_id
WHERE l.permits > 0 OR l.flags & 8 ORDER BY l.type_id, l.key;

-- name: limit_own
SELECT 1 FROM pawl_limit WHERE type_id = ? AND (permits > 0 OR flags & 8) LIMIT 1;

-- name: limit_put
INSERT INTO pawl_limit (type_id, key, permits, period_us, burst, horizon_us, flags, changed_us) VALUES (?, ?, ?, ?, ?, ?, ?, ?)
ON CONFLICT (type_id, key) DO UPDATE SET permits = excluded.permits, period_us = excluded.period_us, burst = excluded.burst,
    horizon_us = excluded.horizon_us, flags = excluded.flags, changed_us = excluded.changed_us;

-- name: budget_get
SELECT id, tat_us, tat_part, permits, period_us, burst, seen_us, epoch, last_id, last_slot_us
FROM pawl_budget WHERE type_id = ? AND key = ?;

-- name: budget_each
SELECT g.id, n.text, g.key, g.tat_us, g.tat_part, g.permits, g.period_us, g.burst, g.seen_us, g.epoch
FROM pawl_budget g JOIN pawl_name n ON n.id = g.type_id WHERE g.id > ? ORDER BY g.id LIMIT ?;

-- name: budget_add
INSERT INTO pawl_budget (type_id, key, tat_us, tat_part, permits, period_us, burst, seen_us, epoch, last_id, last_slot_us)
VALUES (?, ?, 0, 0, 0, 0, 0, 0, 0, 0, 0);

-- name: budget_put
UPDATE pawl_budget SET tat_us = ?, tat_part = ?, permits = ?, period_us = ?, burst = ?, seen_us = ?, epoch = ?, last_id = ?,
                     last_slot_us = ?
WHERE id = ?;

-- name: budget_walk
SELECT id, tat_us, seen_us, EXISTS (SELECT 1 FROM pawl_slotted WHERE budget_id = pawl_budget.id) FROM pawl_budget
WHERE id > ? ORDER BY id LIMIT ?;

-- name: budget_drop
DELETE FROM pawl_budget WHERE id = ?;

-- name: slotted_get
SELECT s.budget_id, s.epoch, g.key FROM pawl_slotted s JOIN pawl_budget g ON g.id = s.budget_id WHERE s.task_id = ?;

-- name: slotted_has
SELECT 1 FROM pawl_slotted WHERE task_id = ?;

-- name: slotted_put
INSERT OR REPLACE INTO pawl_slotted (task_id, budget_id, epoch) VALUES (?, ?, ?);

-- name: slotted_drop
DELETE FROM pawl_slotted WHERE task_id = ?;

-- name: slotted_of_type
SELECT s.task_id FROM pawl_budget g INDEXED BY sqlite_autoindex_pawl_budget_1 JOIN pawl_slotted s ON s.budget_id = g.id
WHERE g.type_id = ? LIMIT ?;

-- name: slotted_of_key
SELECT s.task_id FROM pawl_budget g JOIN pawl_slotted s ON s.budget_id = g.id WHERE g.type_id = ? AND g.key = ? LIMIT ?;

-- name: live_slot
UPDATE pawl_live SET run_at_us = ? WHERE id = ?;

-- name: live_pull
UPDATE pawl_live SET run_at_us = min(run_at_us, ?) WHERE id = ?;

-- Types that have limits, from one to the next of the table's key, in the order of pages.

-- name: limits_types
WITH RECURSIVE t (id) AS (
    SELECT min(type_id) FROM pawl_limit
    UNION ALL
    SELECT (SELECT min(l.type_id) FROM pawl_limit l WHERE l.type_id > t.id) FROM t WHERE t.id IS NOT NULL)
SELECT n.id, n.text FROM t JOIN pawl_name n ON n.id = t.id WHERE n.text >= ? ORDER BY n.text;

-- Keys of a type, after one, that have a limit or a budget. Both come in their order, so it reads no more than a page has.

-- name: limits_keys
SELECT key FROM pawl_limit WHERE type_id = ?1 AND key > ?2 AND (permits > 0 OR flags & 8)
UNION
SELECT g.key FROM pawl_budget g INDEXED BY sqlite_autoindex_pawl_budget_1
WHERE g.type_id = ?1 AND g.key > ?2 AND (NOT ?3 OR EXISTS (SELECT 1 FROM pawl_slotted s WHERE s.budget_id = g.id))
ORDER BY 1;

-- name: slotted_total
SELECT count(*) FROM (SELECT 1 FROM pawl_slotted LIMIT 100000);

-- name: slotted_count
SELECT count(*) FROM pawl_slotted s JOIN pawl_live l ON l.id = s.task_id WHERE s.budget_id = ? AND l.run_at_us > ?;
