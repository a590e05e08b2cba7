-- Schedules and their occurrences; see schedule.c.

-- Which of what not every store has is in use here; see limits.c.

-- name: features
SELECT COUNT(IF(name = 'schedules', 1, NULL)), COUNT(IF(name = 'families', 1, NULL)) FROM @.pawl_meta
WHERE name IN ('schedules', 'families');

-- name: schedules_mark
INSERT IGNORE INTO @.pawl_meta (name, value) VALUES ('schedules', '1');

-- Locks, in the order of ids: those that are named, $1; those of the tasks $2; those that follow them. $3 is empty, or says how to read where
-- a session may go on seeing what was there before.

-- name: schedules_lock
SELECT s.id, s.name, s.after_id, s.version, s.off, s.watch, s.reason, s.anchor_us, s.next_us, s.occurrence_us, s.last_us, s.look_us, s.runs,
    s.fired, s.skipped, s.succeeded, s.failed, s.open, s.waiting, s.settled, s.number, s.last_task, s.created_us, s.changed_us
FROM (
    SELECT x.id FROM (
        SELECT 0 AS id
        UNION
        VALUES (0)$1
        UNION
        (SELECT o.schedule_id FROM (SELECT 0 AS id UNION ALL VALUES (0)$2) t
         STRAIGHT_JOIN @.pawl_occurrence o FORCE INDEX (pawl_occurrence_open) ON o.open_task = t.id $3)
        UNION
        (SELECT f.id FROM (SELECT 0 AS id UNION ALL VALUES (0)$2) t
         STRAIGHT_JOIN @.pawl_occurrence o FORCE INDEX (pawl_occurrence_open) ON o.open_task = t.id
         STRAIGHT_JOIN @.pawl_schedule f FORCE INDEX (pawl_schedule_after) ON f.after_id = o.schedule_id $3)) x
    ORDER BY x.id LIMIT 1000000000) v
STRAIGHT_JOIN @.pawl_schedule s FORCE INDEX (PRIMARY) ON s.id = v.id FOR UPDATE;

-- name: occurrences_open
SELECT o.open_task, o.schedule_id, o.occurrence FROM (SELECT 0 AS id UNION ALL VALUES (0)$1) t
STRAIGHT_JOIN @.pawl_occurrence o FORCE INDEX (pawl_occurrence_open) ON o.open_task = t.id $2;

-- name: occurrences_of
SELECT o.schedule_id, o.occurrence, o.state FROM (SELECT 0 AS schedule_id, 0 AS occurrence UNION ALL VALUES (0, 0)$1) t
STRAIGHT_JOIN @.pawl_occurrence o FORCE INDEX (PRIMARY) ON o.schedule_id = t.schedule_id AND o.occurrence = t.occurrence;

-- name: schedules_add
INSERT INTO @.pawl_schedule (id, name, after_id, version, off, watch, reason, anchor_us, next_us, occurrence_us, last_us, look_us, runs, fired,
                             skipped, succeeded, failed, open, waiting, settled, number, last_task, created_us, changed_us)
VALUES $1;

-- name: schedules_put
INSERT INTO @.pawl_schedule (id, name, after_id, version, off, watch, reason, anchor_us, next_us, occurrence_us, last_us, look_us, runs, fired,
                             skipped, succeeded, failed, open, waiting, settled, number, last_task, created_us, changed_us)
VALUES $1
ON DUPLICATE KEY UPDATE after_id = VALUES(after_id), version = VALUES(version), off = VALUES(off), watch = VALUES(watch),
    reason = VALUES(reason), anchor_us = VALUES(anchor_us), next_us = VALUES(next_us), occurrence_us = VALUES(occurrence_us),
    last_us = VALUES(last_us), look_us = VALUES(look_us), runs = VALUES(runs), fired = VALUES(fired), skipped = VALUES(skipped),
    succeeded = VALUES(succeeded), failed = VALUES(failed), open = VALUES(open), waiting = VALUES(waiting), settled = VALUES(settled),
    number = VALUES(number), last_task = VALUES(last_task), changed_us = VALUES(changed_us);

-- name: schedule_bodies_put
INSERT INTO @.pawl_schedule_body (schedule_id, spec, payload) VALUES $1
ON DUPLICATE KEY UPDATE spec = VALUES(spec), payload = VALUES(payload);

-- name: occurrences_add
INSERT INTO @.pawl_occurrence (schedule_id, occurrence, state, number, at_us, task_id, count, why, open_task) VALUES $1;

-- name: occurrences_told
INSERT IGNORE INTO @.pawl_occurrence (schedule_id, occurrence, state, number, at_us, task_id, count, why, open_task) VALUES $1;

-- name: occurrences_put
INSERT INTO @.pawl_occurrence (schedule_id, occurrence, state, number, at_us, task_id, count, why, open_task) VALUES $1
ON DUPLICATE KEY UPDATE state = VALUES(state), number = VALUES(number), at_us = VALUES(at_us), task_id = VALUES(task_id),
    count = VALUES(count), why = COALESCE(VALUES(why), why), open_task = VALUES(open_task);

-- name: occurrences_trim
DELETE x FROM (
    SELECT o.number FROM @.pawl_occurrence o FORCE INDEX (pawl_occurrence_number) WHERE o.schedule_id = $1 AND o.state > 2
    ORDER BY o.number DESC LIMIT 1 OFFSET $2) v
STRAIGHT_JOIN @.pawl_occurrence x FORCE INDEX (pawl_occurrence_number) ON x.schedule_id = $1 AND x.number <= v.number
WHERE x.state > 2;

-- name: schedules_drop
DELETE x FROM (VALUES (0),$2) v STRAIGHT_JOIN @.pawl_schedule x FORCE INDEX (PRIMARY) ON x.id = v.`0`;

-- name: schedule_bodies_drop
DELETE x FROM (VALUES (0),$2) v STRAIGHT_JOIN @.pawl_schedule_body x FORCE INDEX (PRIMARY) ON x.schedule_id = v.`0`;

-- name: occurrences_drop
DELETE x FROM (VALUES (0),$2) v STRAIGHT_JOIN @.pawl_occurrence x FORCE INDEX (PRIMARY) ON x.schedule_id = v.`0`;

-- Looking.

-- name: schedule_first
SELECT look_us FROM @.pawl_schedule FORCE INDEX (pawl_schedule_look) WHERE look_us IS NOT NULL ORDER BY look_us LIMIT 1;

-- name: schedules_due
SELECT s.id, s.name, (SELECT n.text FROM @.pawl_name n WHERE n.id = s.after_id), s.version, s.off, s.reason, s.anchor_us, s.next_us,
    s.occurrence_us, s.last_us, s.look_us, s.watch, s.runs, s.fired, s.skipped, s.succeeded, s.failed, s.open, s.waiting, s.last_task,
    s.created_us, s.changed_us, (SELECT LENGTH(b.payload) FROM @.pawl_schedule_body b WHERE b.schedule_id = s.id)
FROM @.pawl_schedule s FORCE INDEX (pawl_schedule_look) WHERE s.look_us IS NOT NULL ORDER BY s.look_us, s.name LIMIT $1;

-- name: schedule_bodies
SELECT schedule_id, spec, payload FROM @.pawl_schedule_body FORCE INDEX (PRIMARY) WHERE schedule_id IN ($1);

-- name: schedules_list
SELECT s.id, s.name, (SELECT n.text FROM @.pawl_name n WHERE n.id = s.after_id), s.version, s.off, s.reason, s.anchor_us, s.next_us,
    s.occurrence_us, s.last_us, s.look_us, s.watch, s.runs, s.fired, s.skipped, s.succeeded, s.failed, s.open, s.waiting, s.last_task,
    s.created_us, s.changed_us
FROM @.pawl_schedule s FORCE INDEX (pawl_schedule_name)
WHERE s.name >= $1 AND s.name < CONCAT($1, x'ff') AND s.name > $2 AND $3 ORDER BY s.name LIMIT $4;

-- name: schedule_one
SELECT s.id, s.name, (SELECT n.text FROM @.pawl_name n WHERE n.id = s.after_id), s.version, s.off, s.reason, s.anchor_us, s.next_us,
    s.occurrence_us, s.last_us, s.look_us, s.watch, s.runs, s.fired, s.skipped, s.succeeded, s.failed, s.open, s.waiting, s.last_task,
    s.created_us, s.changed_us
FROM @.pawl_schedule s FORCE INDEX (pawl_schedule_name) WHERE s.name = $1;

-- name: occurrences_waiting
SELECT occurrence, state, at_us, task_id, count, why, schedule_id FROM @.pawl_occurrence FORCE INDEX (pawl_occurrence_number)
WHERE schedule_id = $1 AND state = 1 ORDER BY number LIMIT 100;

-- name: occurrences_list
SELECT occurrence, state, at_us, task_id, count, why FROM @.pawl_occurrence FORCE INDEX (pawl_occurrence_number)
WHERE schedule_id = $1 ORDER BY number DESC LIMIT 10000;
