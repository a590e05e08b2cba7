-- Concurrency limits, and tenants that take turns.

-- name: bound_any
SELECT EXISTS (SELECT 1 FROM pawl_bound);

-- name: bound_get
SELECT most, ordered FROM pawl_bound WHERE scope = ? AND name_id = ? AND key = ?;

-- name: bound_keys
SELECT 1 FROM pawl_bound WHERE scope = 3 AND name_id = ? AND most > 0 LIMIT 1;

-- name: bound_kind
SELECT EXISTS (SELECT 1 FROM pawl_bound WHERE scope = 1 AND name_id = ?1) OR EXISTS (SELECT 1 FROM pawl_bound WHERE scope = 2 AND name_id = ?2)
        OR EXISTS (SELECT 1 FROM pawl_bound WHERE scope = 3 AND name_id = ?2),
    EXISTS (SELECT 1 FROM pawl_bound WHERE scope = 4 AND name_id = ?1 AND key = x'' AND most > 0);

-- name: bound_put
INSERT INTO pawl_bound (scope, name_id, key, most, ordered, changed_us) VALUES (?1, ?2, ?3, ?4, ?5, ?6)
ON CONFLICT (scope, name_id, key) DO UPDATE SET most = ?4, ordered = ?5, changed_us = ?6;

-- name: spot_get
SELECT id FROM pawl_spot WHERE scope = ? AND name_id = ? AND key = ?;

-- name: spot_by_id
SELECT scope, name_id, key FROM pawl_spot WHERE id = ?;

-- name: spot_add
INSERT INTO pawl_spot (scope, name_id, key) VALUES (?, ?, ?);

-- name: spot_drop
DELETE FROM pawl_spot WHERE id = ?1 AND NOT EXISTS (SELECT 1 FROM pawl_place WHERE spot_id = ?1)
AND NOT EXISTS (SELECT 1 FROM pawl_live WHERE blocked = ?1 AND blocked <> 0);

-- name: spot_walk
SELECT id FROM pawl_spot WHERE id > ? ORDER BY id LIMIT ?;

-- name: spots_of_name
SELECT id FROM pawl_spot WHERE scope = ? AND name_id = ?;

-- name: place_count
SELECT count(*) FROM pawl_place WHERE spot_id = ?;

-- The lowest number that is free.

-- name: place_gap
SELECT min(n) FROM (SELECT 1 AS n WHERE NOT EXISTS (SELECT 1 FROM pawl_place WHERE spot_id = ?1 AND number = 1)
UNION ALL SELECT number + 1 FROM pawl_place p
WHERE spot_id = ?1 AND NOT EXISTS (SELECT 1 FROM pawl_place x WHERE x.spot_id = ?1 AND x.number = p.number + 1));

-- name: place_put
INSERT INTO pawl_place (spot_id, number, task_id) VALUES (?, ?, ?);

-- name: place_of_task
SELECT spot_id, number FROM pawl_place INDEXED BY pawl_place_task WHERE task_id = ?;

-- name: place_has
SELECT 1 FROM pawl_place INDEXED BY pawl_place_task WHERE task_id = ? AND spot_id = ?;

-- name: place_drop
DELETE FROM pawl_place WHERE spot_id = ? AND number = ?;

-- name: place_pending
SELECT number FROM pawl_place WHERE spot_id = ? AND task_id NOT IN (SELECT id FROM pawl_leased);

-- name: live_block
UPDATE pawl_live SET blocked = ? WHERE id = ?;

-- name: blocked_first
SELECT min(id) FROM pawl_live INDEXED BY pawl_line WHERE blocked = ? AND blocked <> 0;

-- From lane to lane of those that are blocked at a spot; the end of the numbers carries the search beyond the lane's last row.

-- name: blocked_lane
SELECT queue_id, type_id, class, tenant_id FROM pawl_live INDEXED BY pawl_blocked
WHERE blocked = ? AND blocked <> 0 AND (queue_id, type_id, class) >= (?, ?, ?)
ORDER BY queue_id, type_id, class, tenant_id LIMIT 1;

-- name: blocked_tenant
SELECT tenant_id FROM pawl_live INDEXED BY pawl_blocked
WHERE blocked = ? AND blocked <> 0 AND queue_id = ? AND type_id = ? AND class = ? AND tenant_id > ?
ORDER BY tenant_id LIMIT 1;

-- name: blocked_of_lane
SELECT id FROM pawl_live INDEXED BY pawl_blocked
WHERE blocked = ? AND blocked <> 0 AND queue_id = ? AND type_id = ? AND class = ? AND tenant_id IS ?
ORDER BY priority, run_at_us, id LIMIT ?;

-- name: leases_bounded
SELECT l.id, b.rate_key FROM pawl_leased l JOIN pawl_body b ON b.id = l.id WHERE (?1 = 1 AND l.queue_id = ?2) OR (?1 > 1 AND l.type_id = ?2);

-- name: body_rate_key
SELECT rate_key FROM pawl_body WHERE id = ?;

-- name: body_tenant
SELECT coalesce(tenant_id, 0) FROM pawl_body WHERE id = ?;

-- name: turn_get
SELECT tenant_id, rest FROM pawl_turn WHERE queue_id = ?;

-- name: turn_put
INSERT INTO pawl_turn (queue_id, tenant_id, rest) VALUES (?1, ?2, ?3) ON CONFLICT (queue_id) DO UPDATE SET tenant_id = ?2, rest = ?3;

-- name: turn_tag
UPDATE pawl_live SET tenant_id = (SELECT coalesce(b.tenant_id, 0) FROM pawl_body b WHERE b.id = pawl_live.id)
WHERE id IN (SELECT id FROM pawl_live WHERE queue_id = ? AND tenant_id IS NULL LIMIT ?);

-- name: shared_priority
SELECT priority FROM pawl_live INDEXED BY pawl_shared
WHERE state = 2 AND blocked = 0 AND tenant_id IS NOT NULL AND queue_id = ? AND priority > ? ORDER BY priority LIMIT 1;

-- name: shared_tenant
SELECT tenant_id FROM pawl_live INDEXED BY pawl_shared
WHERE state = 2 AND blocked = 0 AND tenant_id IS NOT NULL AND queue_id = ? AND priority = ? AND tenant_id > ?
ORDER BY tenant_id LIMIT 1;

-- name: shared_lane
SELECT class, type_id FROM pawl_live INDEXED BY pawl_shared
WHERE state = 2 AND blocked = 0 AND tenant_id IS NOT NULL AND queue_id = ? AND priority = ? AND tenant_id = ?
AND (class, type_id, run_at_us) > (?, ?, 9223372036854775807)
ORDER BY class, type_id, run_at_us LIMIT 1;

-- name: shared_due
SELECT id, run_at_us, fence, runs, failures, interruptions, rescues, strikes, level, unreadable
FROM pawl_live INDEXED BY pawl_shared
WHERE state = 2 AND blocked = 0 AND tenant_id IS NOT NULL AND queue_id = ? AND priority = ? AND tenant_id = ? AND class = ? AND type_id = ?
AND run_at_us <= ?
ORDER BY run_at_us, id LIMIT ?;

-- name: shared_future
SELECT run_at_us FROM pawl_live INDEXED BY pawl_shared_due
WHERE state = 2 AND blocked = 0 AND tenant_id IS NOT NULL AND queue_id = ? AND run_at_us > ? ORDER BY run_at_us LIMIT 1;

-- name: shared_count
SELECT count(*), min(run_at_us) FROM (
    SELECT run_at_us FROM pawl_live INDEXED BY pawl_shared_due
    WHERE state = 2 AND blocked = 0 AND tenant_id IS NOT NULL AND queue_id = ? AND run_at_us <= ? ORDER BY run_at_us LIMIT ?);

-- name: places_list
SELECT b.scope, n.text, b.key, b.name_id, coalesce(s.id, 0)
FROM pawl_bound b JOIN pawl_name n ON n.id = b.name_id
LEFT JOIN pawl_spot s ON s.scope = b.scope AND s.name_id = b.name_id AND s.key = b.key
WHERE (b.most > 0 OR s.id > 0) AND (b.scope, n.text, b.key) > (?1, ?2, ?3)
UNION
SELECT s.scope, n.text, s.key, s.name_id, s.id FROM pawl_spot s JOIN pawl_name n ON n.id = s.name_id
WHERE (s.scope, n.text, s.key) > (?1, ?2, ?3)
ORDER BY 1, 2, 3;

-- name: blocked_count
SELECT count(*) FROM pawl_live INDEXED BY pawl_line WHERE blocked = ? AND blocked <> 0;

-- name: place_oldest
SELECT p.task_id FROM pawl_place p LEFT JOIN pawl_leased l ON l.id = p.task_id WHERE p.spot_id = ? ORDER BY l.leased_us LIMIT 1;

-- name: live_blocked
SELECT blocked FROM pawl_live WHERE id = ?;

-- name: shared_types
SELECT type_id, count(*) FROM (
    SELECT type_id FROM pawl_live INDEXED BY pawl_shared_due
    WHERE state = 2 AND blocked = 0 AND tenant_id IS NOT NULL AND queue_id = ? AND run_at_us <= ? LIMIT ?)
GROUP BY type_id;
