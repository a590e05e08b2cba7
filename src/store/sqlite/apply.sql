-- Transactions and batches.

-- name: begin
BEGIN IMMEDIATE;

-- name: commit
COMMIT;

-- name: rollback
ROLLBACK;

-- name: use_wal
PRAGMA journal_mode = WAL;

-- name: journal_mode
PRAGMA journal_mode;

-- name: data_version
PRAGMA data_version;

-- name: meta_get
SELECT value FROM pawl_meta WHERE key = ?;

-- name: meta_put
INSERT INTO pawl_meta (key, value) VALUES (?1, ?2) ON CONFLICT (key) DO UPDATE SET value = ?2;

-- name: name_find
SELECT id FROM pawl_name WHERE text = ?;

-- name: name_text
SELECT text FROM pawl_name WHERE id = ?;

-- name: name_add
INSERT INTO pawl_name (text) VALUES (?);

-- name: receipt_get
SELECT number, results FROM pawl_receipt WHERE id = ?;

-- name: receipt_put
INSERT OR REPLACE INTO pawl_receipt (id, number, results) VALUES (?, ?, ?);

-- name: slot_add
INSERT INTO pawl_done_slot (slot, state, born, first_us, min_id, max_id) VALUES (?1, ?2, ?3, ?4, ?5, ?6)
ON CONFLICT (state, slot, born) DO UPDATE SET first_us = min(first_us, ?4), min_id = min(min_id, ?5), max_id = max(max_id, ?6);

-- name: born_add
INSERT INTO pawl_born_hour (hour, min_id, max_id) VALUES (?1, ?2, ?3 | 4294967295)
ON CONFLICT (hour) DO UPDATE SET min_id = min(min_id, ?2), max_id = max(max_id, ?3 | 4294967295) WHERE min_id > ?2 OR max_id < ?3;

-- name: seen_get
SELECT names FROM pawl_seen WHERE level = ? AND block = ?;

-- name: seen_put
INSERT OR REPLACE INTO pawl_seen (level, block, names) VALUES (?, ?, ?);

-- name: rollup_get
SELECT count, wait, run FROM pawl_rollup WHERE minute = ? AND queue_id = ? AND type_id = ? AND outcome = ?;

-- name: rollup_put
INSERT OR REPLACE INTO pawl_rollup (minute, queue_id, type_id, outcome, count, wait, run) VALUES (?, ?, ?, ?, ?, ?, ?);
