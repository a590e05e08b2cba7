-- What the doctor looks at, and the migrations.

-- name: is_there
SELECT COUNT(*) FROM information_schema.TABLES WHERE TABLE_SCHEMA = $1 AND TABLE_NAME = 'pawl_meta';

-- name: look
SELECT name, value FROM @.pawl_meta;

-- name: shape
SELECT 'shape', MD5(GROUP_CONCAT(x.line ORDER BY x.line SEPARATOR '|')) FROM (
    SELECT CAST(CONCAT_WS(' ', 'column', TABLE_NAME, COLUMN_NAME, COLUMN_TYPE, IS_NULLABLE, COALESCE(COLLATION_NAME, '')) AS BINARY) AS line
    FROM information_schema.COLUMNS WHERE TABLE_SCHEMA = DATABASE() AND TABLE_NAME LIKE 'pawl=_%' ESCAPE '='
    UNION ALL
    SELECT CAST(CONCAT_WS(' ', 'index', TABLE_NAME, INDEX_NAME, SEQ_IN_INDEX, COLUMN_NAME, NON_UNIQUE) AS BINARY)
    FROM information_schema.STATISTICS WHERE TABLE_SCHEMA = DATABASE() AND TABLE_NAME LIKE 'pawl=_%' ESCAPE '='
    UNION ALL
    SELECT CAST(CONCAT_WS(' ', 'table', TABLE_NAME, ENGINE, ROW_FORMAT) AS BINARY)
    FROM information_schema.TABLES WHERE TABLE_SCHEMA = DATABASE() AND TABLE_NAME LIKE 'pawl=_%' ESCAPE '=') x;

-- name: ex_concat
SET SESSION group_concat_max_len = 1048576;

-- name: ex_server
SELECT VERSION(), @@global.innodb_flush_log_at_trx_commit, @@global.log_bin, @@global.sync_binlog, @@global.read_only,
    @@global.innodb_doublewrite, @@global.max_connections,
    (SELECT VARIABLE_VALUE FROM information_schema.GLOBAL_STATUS WHERE VARIABLE_NAME = 'Threads_connected'),
    @@global.tx_isolation, @@global.sql_mode, @@global.binlog_format, @@global.innodb_rollback_on_timeout,
    (SELECT VARIABLE_VALUE FROM information_schema.GLOBAL_VARIABLES WHERE VARIABLE_NAME = 'WSREP_ON'),
    (SELECT VARIABLE_VALUE FROM information_schema.GLOBAL_STATUS WHERE VARIABLE_NAME = 'Innodb_deadlocks'),
    (SELECT VARIABLE_VALUE FROM information_schema.GLOBAL_STATUS WHERE VARIABLE_NAME = 'Uptime'),
    (SELECT VARIABLE_VALUE FROM information_schema.GLOBAL_STATUS WHERE VARIABLE_NAME = 'Innodb_history_list_length'),
    @@global.max_allowed_packet, @@global.innodb_lock_wait_timeout, @@global.innodb_flush_method;

-- name: ex_old
SELECT trx_mysql_thread_id, trx_state, TIMESTAMPDIFF(SECOND, trx_started, NOW()), COALESCE(p.USER, '?'), COALESCE(p.HOST, '?')
FROM information_schema.INNODB_TRX t LEFT JOIN information_schema.PROCESSLIST p ON p.ID = t.trx_mysql_thread_id
WHERE trx_mysql_thread_id <> CONNECTION_ID() AND trx_started < NOW() - INTERVAL 1 MINUTE ORDER BY trx_started LIMIT 5;

-- name: ex_skew
SELECT n.name, h.skew_us FROM (
    SELECT node, MAX(skew_us) AS skew_us, MAX(expires_us) AS expires_us FROM @.pawl_lane WHERE node > 0 GROUP BY node) h
JOIN @.pawl_node n ON n.id = h.node
WHERE n.alive = 1 AND h.skew_us IS NOT NULL AND h.expires_us > TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6))
ORDER BY ABS(h.skew_us) DESC LIMIT 1;

-- name: ex_types
SELECT qn.text, tn.text, COUNT(*) FROM (
    SELECT v.queue_id, v.type_id FROM @.pawl_live v LEFT JOIN @.pawl_queue q ON q.queue_id = v.queue_id
    WHERE COALESCE(q.paused, 0) = 0 AND v.state = 2 AND v.run_at_us <= TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6))
    LIMIT 100000) x
JOIN @.pawl_name qn ON qn.id = x.queue_id JOIN @.pawl_name tn ON tn.id = x.type_id
GROUP BY qn.text, tn.text ORDER BY 3 DESC LIMIT 100;
