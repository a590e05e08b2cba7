-- Nodes: life rows, heartbeats, numbers for ids.

-- name: node_life
SELECT alive, lease_us FROM pawl_node WHERE id = ?;

-- name: node_add
INSERT INTO pawl_node (id, name_id, pid, queues, types, lease_us, sidecar, born_us, alive) VALUES (?, ?, ?, ?, ?, ?, ?, ?, 1);

-- name: node_kill
UPDATE pawl_node SET alive = 0, died_us = ?, blame = ? WHERE id = ?;

-- name: node_victim
SELECT n.alive, n.sidecar, n.blame, h.boot_id, h.expires_us, h.renewal, h.leases
FROM pawl_node n JOIN pawl_heartbeat h ON h.node = n.id WHERE n.id = ?;

-- name: heartbeat_add
INSERT INTO pawl_heartbeat (node, boot_id, expires_us, renewal, leases) VALUES (?, '', 0, 0, 0);

-- name: heartbeat_beat
UPDATE pawl_heartbeat SET boot_id = ?, expires_us = ?, renewal = renewal + 1, leases = leases + ? WHERE node = ?;

-- name: heartbeat_leases
UPDATE pawl_heartbeat SET leases = leases + ? WHERE node = ?;

-- name: heartbeat_drop
DELETE FROM pawl_heartbeat WHERE node = ?;

-- name: tell
INSERT OR REPLACE INTO pawl_told (node, told) VALUES (?, ?);

-- name: untell
DELETE FROM pawl_told WHERE node = ?;

-- name: drain_put
INSERT OR IGNORE INTO pawl_drain (node) VALUES (?);

-- name: drain_drop
DELETE FROM pawl_drain WHERE node = ?;

-- name: drain_tidy
DELETE FROM pawl_drain WHERE node NOT IN (SELECT id FROM pawl_node WHERE alive = 1);

-- name: drain_get
SELECT 1 FROM pawl_drain d JOIN pawl_node n ON n.id = d.node AND n.alive = 1 WHERE d.node = ?;

-- name: heartbeat_get
SELECT leases FROM pawl_heartbeat WHERE node = ?;

-- name: heartbeat_others
SELECT h.node, h.boot_id, h.expires_us, h.renewal, n.alive, n.sidecar
FROM pawl_heartbeat h JOIN pawl_node n ON n.id = h.node WHERE h.leases > 0 AND h.node <> ? ORDER BY h.node;

-- name: cancel_list
SELECT l.id, l.fence FROM pawl_cancel c JOIN pawl_leased l ON l.id = c.task_id WHERE c.node = ? LIMIT ?;

-- name: leased_by
SELECT id, fence FROM pawl_leased WHERE node = ?;

-- name: leased_page
SELECT id FROM pawl_leased WHERE node = ? ORDER BY id LIMIT ?;

-- name: leased_marks
SELECT count(*) FROM pawl_leased WHERE node = ? AND mark = 1;

-- name: number_get
SELECT node, floor_ms, ceiling_ms FROM pawl_node_number WHERE number = ?;

-- name: number_free
SELECT m.number, m.ceiling_ms FROM pawl_node_number m LEFT JOIN pawl_node n ON n.id = m.node
WHERE n.alive IS NOT 1 OR m.ceiling_ms <= ?1
ORDER BY m.ceiling_ms, m.number LIMIT 1;

-- name: number_last
SELECT coalesce(max(number), 0) FROM pawl_node_number;

-- name: number_put
INSERT INTO pawl_node_number (number, node, floor_ms, ceiling_ms) VALUES (?1, ?2, ?3, ?4)
ON CONFLICT (number) DO UPDATE SET node = ?2, floor_ms = ?3, ceiling_ms = ?4;

-- name: node_number_free
UPDATE pawl_node_number SET node = 0 WHERE node = ?;
