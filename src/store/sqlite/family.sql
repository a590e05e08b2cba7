-- Families of tasks; see family.c and batch.c.

-- name: family_any
SELECT 1 WHERE EXISTS (SELECT 1 FROM pawl_wait) OR EXISTS (SELECT 1 FROM pawl_batch INDEXED BY pawl_batch_live WHERE ended_us IS NULL);

-- name: edge_put
INSERT OR IGNORE INTO pawl_edge (parent_id, child_id, state) VALUES (?, ?, ?);

-- name: edge_any
SELECT 1 FROM pawl_edge WHERE parent_id = ? AND state = 0 LIMIT 1;

-- name: edge_page
SELECT child_id FROM pawl_edge WHERE parent_id = ? AND child_id > ? AND state = ? ORDER BY child_id LIMIT ?;

-- name: edge_set
UPDATE pawl_edge SET state = ? WHERE parent_id = ? AND child_id = ?;

-- name: edge_move
UPDATE OR IGNORE pawl_edge SET parent_id = ?, state = 0 WHERE parent_id = ? AND child_id = ?;

-- name: edges_told
UPDATE pawl_edge SET state = 1 WHERE parent_id = ? AND child_id > ? AND child_id <= ? AND state = 0;

-- name: wait_put
INSERT INTO pawl_wait (child_id, unmet, held, if_failed) VALUES (?, ?, ?, ?);

-- name: wait_get
SELECT unmet, held, if_failed FROM pawl_wait WHERE child_id = ?;

-- name: wait_set
UPDATE pawl_wait SET unmet = ?, held = ? WHERE child_id = ?;

-- name: wait_drop
DELETE FROM pawl_wait WHERE child_id = ?;

-- name: live_free
UPDATE pawl_live SET state = 2, run_at_us = max(run_at_us, ?) WHERE id = ?;

-- name: retried_as
SELECT retried_as FROM pawl_failed WHERE id = ?1 UNION ALL SELECT retried_as FROM pawl_done WHERE id = ?1;

-- name: unsettled_put
INSERT INTO pawl_unsettled (id, kind, after, value) VALUES (?1, ?2, ?3, ?4)
ON CONFLICT (id, kind) DO UPDATE SET after = min(after, ?3), value = ?4;

-- name: unsettled_first
SELECT id, kind, after, value FROM pawl_unsettled ORDER BY id, kind LIMIT 1;

-- name: unsettled_any
SELECT 1 FROM pawl_unsettled LIMIT 1;

-- name: unsettled_go_on
UPDATE pawl_unsettled SET after = ? WHERE id = ? AND kind = ?;

-- name: unsettled_drop
DELETE FROM pawl_unsettled WHERE id = ? AND kind = ?;

-- name: kept_state
SELECT state FROM pawl_kept WHERE id = ?;

-- name: kept_get
SELECT state, result, result_type, result_ref, error FROM pawl_kept WHERE id = ?;

-- name: kept_put
INSERT OR REPLACE INTO pawl_kept (id, state, error, result_type, result_ref, result)
SELECT id, state, error, result_type, result_ref, result FROM pawl_done WHERE id = ?1
UNION ALL SELECT id, state, error, result_type, result_ref, result FROM pawl_failed WHERE id = ?1;

-- name: kept_batch
INSERT OR REPLACE INTO pawl_kept (id, state)
SELECT id, state FROM pawl_batch WHERE id = ?1 AND EXISTS (SELECT 1 FROM pawl_edge WHERE parent_id = ?1);

-- name: kept_drop
DELETE FROM pawl_kept WHERE id IN (SELECT parent_id FROM pawl_edge e WHERE child_id = ?1
    AND NOT EXISTS (SELECT 1 FROM pawl_edge o WHERE o.parent_id = e.parent_id AND o.child_id <> ?1));

-- name: edge_of
SELECT 1 FROM pawl_edge WHERE parent_id = ? LIMIT 1;

-- name: edge_any_at_all
SELECT EXISTS (SELECT 1 FROM pawl_edge) OR EXISTS (SELECT 1 FROM pawl_member);

-- name: edges_drop
DELETE FROM pawl_edge WHERE child_id = ?;

-- name: member_put
INSERT OR IGNORE INTO pawl_member (task_id, batch_id) VALUES (?, ?);

-- name: member_get
SELECT batch_id FROM pawl_member WHERE task_id = ?;

-- name: member_page
SELECT task_id FROM pawl_member WHERE batch_id = ? AND task_id > ? ORDER BY task_id LIMIT ?;

-- name: member_drop
DELETE FROM pawl_member WHERE task_id = ?;

-- name: members_drop
DELETE FROM pawl_member WHERE task_id IN (SELECT task_id FROM pawl_member WHERE batch_id = ? LIMIT ?);

-- name: batch_get
SELECT id, name, within, created_us, closed_us, ended_us, state, cancel_asked, unfinished, succeeded, failed, cancelled
FROM pawl_batch WHERE id = ?;

-- name: batch_named
SELECT id, name, within, created_us, closed_us, ended_us, state, cancel_asked, unfinished, succeeded, failed, cancelled
FROM pawl_batch WHERE name = ?;

-- name: batch_list
SELECT id, name, within, created_us, closed_us, ended_us, state, cancel_asked, unfinished, succeeded, failed, cancelled
FROM pawl_batch WHERE id < ? ORDER BY id DESC;

-- name: batch_list_live
SELECT id, name, within, created_us, closed_us, ended_us, state, cancel_asked, unfinished, succeeded, failed, cancelled
FROM pawl_batch INDEXED BY pawl_batch_live WHERE id < ? AND ended_us IS NULL ORDER BY id DESC;

-- name: batch_add
INSERT INTO pawl_batch (id, name, within, created_us) VALUES (?, ?, ?, ?);

-- name: batch_joined
UPDATE pawl_batch SET unfinished = unfinished + 1 WHERE id = ?;

-- name: batch_count
UPDATE pawl_batch SET unfinished = unfinished - 1, succeeded = succeeded + (?1 = 4), failed = failed + (?1 = 5),
    cancelled = cancelled + (?1 = 6)
WHERE id = ?2;

-- name: batch_close
UPDATE pawl_batch SET closed_us = coalesce(closed_us, ?1), cancel_asked = max(cancel_asked, ?2) WHERE id = ?3;

-- name: batch_end
UPDATE pawl_batch SET ended_us = ?, state = ? WHERE id = ?;

-- name: batch_ended
SELECT id, ended_us FROM pawl_batch INDEXED BY pawl_batch_ended WHERE ended_us IS NOT NULL AND state = ? ORDER BY ended_us LIMIT ?;

-- name: batch_drop
DELETE FROM pawl_batch WHERE id = ?;

-- name: relatives_up
SELECT parent_id, state FROM pawl_edge WHERE child_id = ? AND parent_id > ? ORDER BY parent_id;

-- name: relatives_down
SELECT child_id, state FROM pawl_edge WHERE parent_id = ? AND child_id > ? ORDER BY child_id;

-- name: relatives_members
SELECT task_id, 1 FROM pawl_member WHERE batch_id = ? AND task_id > ? ORDER BY task_id;

-- name: relatives_batch
SELECT batch_id, 1 FROM pawl_member WHERE task_id = ? AND batch_id > ?;

-- name: relative_done
SELECT state, result, result_type, result_ref, error FROM pawl_done WHERE id = ?;

-- name: relative_failed
SELECT state, result, result_type, result_ref, error FROM pawl_failed WHERE id = ?;

-- name: body_type
SELECT type_id FROM pawl_body WHERE id = ?;
