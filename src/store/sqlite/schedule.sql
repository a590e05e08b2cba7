-- Schedules and their occurrences; see schedule.c.

-- name: schedule_get
SELECT id, name, version, off, watch, open, waiting, settled, number FROM pawl_schedule WHERE name = ?;

-- name: schedule_of
SELECT id, name, version, off, watch, open, waiting, settled, number FROM pawl_schedule WHERE id = ?;

-- name: schedule_add
INSERT INTO pawl_schedule (after, off, reason, anchor_us, next_us, occurrence_us, look_us, watch, changed_us, name, version, created_us)
VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?9);

-- name: schedule_replace
UPDATE pawl_schedule SET after = ?1, off = ?2, reason = ?3, anchor_us = ?4, next_us = ?5, occurrence_us = ?6, look_us = ?7, watch = ?8,
    changed_us = ?9, version = version + 1
WHERE id = ?10;

-- name: schedule_body_put
INSERT INTO pawl_schedule_body (schedule_id, spec, payload) VALUES (?1, ?2, ?3)
ON CONFLICT (schedule_id) DO UPDATE SET spec = ?2, payload = ?3;

-- name: schedule_step
UPDATE pawl_schedule SET version = version + 1, off = ?1, reason = ?2, next_us = ?3, occurrence_us = ?4, last_us = ?5, look_us = ?6,
    watch = ?7
WHERE id = ?8;

-- name: schedule_count
UPDATE pawl_schedule SET open = ?1, waiting = ?2, settled = ?3, number = ?4, runs = max(runs + ?5, 0), fired = fired + ?6,
    skipped = skipped + ?7, succeeded = succeeded + ?8, failed = failed + ?9, last_task = coalesce(?10, last_task)
WHERE id = ?11;

-- name: schedule_version
UPDATE pawl_schedule SET version = version + 1 WHERE id = ?;

-- name: schedule_stir
UPDATE pawl_schedule SET look_us = ?1, version = version + 1 WHERE id = ?2 AND off = 0;

-- name: schedule_drop
DELETE FROM pawl_schedule WHERE id = ?;

-- name: schedule_body_drop
DELETE FROM pawl_schedule_body WHERE schedule_id = ?;

-- name: schedule_first
SELECT look_us FROM pawl_schedule INDEXED BY pawl_schedule_look WHERE look_us IS NOT NULL ORDER BY look_us LIMIT 1;

-- name: schedule_follow
INSERT OR IGNORE INTO pawl_occurrence (schedule_id, occurrence, state, number, at_us, task_id, count)
SELECT id, ?1, 1, number + 1, ?2, 0, 1 FROM pawl_schedule WHERE after = ?3 AND off = 0;

-- name: schedule_followed
UPDATE pawl_schedule SET look_us = ?1, version = version + 1, number = number + 1, waiting = waiting + 1 WHERE after = ?2 AND off = 0;

-- name: occurrence_any
SELECT 1 FROM pawl_occurrence INDEXED BY pawl_occurrence_open WHERE state = 2 LIMIT 1;

-- name: occurrence_of
SELECT schedule_id, occurrence FROM pawl_occurrence INDEXED BY pawl_occurrence_open WHERE task_id = ? AND state = 2;

-- name: occurrence_get
SELECT state FROM pawl_occurrence WHERE schedule_id = ? AND occurrence = ?;

-- name: occurrence_put
INSERT INTO pawl_occurrence (schedule_id, occurrence, state, number, at_us, task_id, count, why)
VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)
ON CONFLICT (schedule_id, occurrence) DO UPDATE SET state = ?3, number = ?4, at_us = ?5, task_id = ?6, count = ?7,
    why = coalesce(?8, why)
WHERE state = 1;

-- name: occurrence_end
UPDATE pawl_occurrence SET state = ?1, number = ?2, at_us = ?3 WHERE schedule_id = ?4 AND occurrence = ?5;

-- name: occurrence_trim
DELETE FROM pawl_occurrence WHERE schedule_id = ?1 AND state > 2 AND number <=
    (SELECT number FROM pawl_occurrence WHERE schedule_id = ?1 AND state > 2 ORDER BY number DESC LIMIT 1 OFFSET ?2);

-- name: occurrence_drop
DELETE FROM pawl_occurrence WHERE schedule_id = ?;

-- name: schedules_due
SELECT s.id, name, after, version, off, reason, anchor_us, next_us, occurrence_us, last_us, look_us, watch, runs, fired, skipped,
    succeeded, failed, open, waiting, last_task, created_us, changed_us, spec, payload
FROM pawl_schedule s INDEXED BY pawl_schedule_look JOIN pawl_schedule_body b ON b.schedule_id = s.id
WHERE look_us IS NOT NULL ORDER BY look_us, name;

-- name: schedules_list
SELECT s.id, name, after, version, off, reason, anchor_us, next_us, occurrence_us, last_us, look_us, watch, runs, fired, skipped,
    succeeded, failed, open, waiting, last_task, created_us, changed_us, spec, payload
FROM pawl_schedule s JOIN pawl_schedule_body b ON b.schedule_id = s.id WHERE name >= ? ORDER BY name;

-- name: occurrences_waiting
SELECT occurrence, state, at_us, task_id, count, why FROM pawl_occurrence WHERE schedule_id = ? AND state = 1 ORDER BY number LIMIT 100;

-- name: occurrences_list
SELECT occurrence, state, at_us, task_id, count, why FROM pawl_occurrence WHERE schedule_id = ? ORDER BY number DESC LIMIT 10000;
