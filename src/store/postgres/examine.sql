-- What the doctor looks at.

-- name: look
SELECT key, value FROM @.pawl_meta;

-- name: ex_server
SELECT current_setting('server_version'), current_setting('fsync'), current_setting('synchronous_commit'), current_setting('full_page_writes'),
    pg_is_in_recovery(), current_setting('autovacuum'), current_setting('max_connections')::int8,
    (SELECT count(*) FROM pg_stat_activity WHERE backend_type = 'client backend'),
    (SELECT string_agg(DISTINCT coalesce(r.rolname, 'all roles'), ', ') FROM pg_db_role_setting s LEFT JOIN pg_roles r ON r.oid = s.setrole,
         unnest(s.setconfig) x WHERE x = 'synchronous_commit=off' AND s.setdatabase IN (0, (SELECT oid FROM pg_database WHERE datname = current_database())));

-- name: ex_shape
SELECT @.pawl_shape() = (SELECT value FROM @.pawl_meta WHERE key = 'shape');

-- name: ex_old
SELECT coalesce(extract(epoch FROM max(clock_timestamp() - xact_start))::int8, 0),
    (SELECT age(datfrozenxid)::int8 FROM pg_database WHERE datname = current_database()),
    coalesce((SELECT max(age(backend_xmin))::int8 FROM pg_stat_activity), 0),
    coalesce((SELECT max(greatest(age(xmin), age(catalog_xmin)))::int8 FROM pg_replication_slots), 0),
    (SELECT count(*) FROM pg_prepared_xacts WHERE database = current_database()),
    coalesce((SELECT extract(epoch FROM max(clock_timestamp() - prepared))::int8 FROM pg_prepared_xacts WHERE database = current_database()), 0)
FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid();

-- name: ex_tables
SELECT c.relname, coalesce(s.n_live_tup, 0), coalesce(s.n_dead_tup, 0),
    coalesce(extract(epoch FROM clock_timestamp() - greatest(s.last_autovacuum, s.last_vacuum))::int8, -1), pg_relation_size(c.oid)
FROM pg_class c LEFT JOIN pg_stat_all_tables s ON s.relid = c.oid
WHERE c.oid IN ('@.pawl_live'::regclass, '@.pawl_leased'::regclass, '@.pawl_lane'::regclass) ORDER BY 1;

-- name: ex_index
SELECT pg_relation_size('@.pawl_ready'::regclass), (SELECT coalesce(sum(pending), 0)::int8 FROM @.pawl_count);

-- name: ex_notify
SELECT (pg_notification_queue_usage() * 100)::int8;

-- name: ex_days
SELECT count(*), coalesce(min(d), 0) FROM generate_series((@.pawl_now() / 86400000000)::int8, (@.pawl_now() / 86400000000 + 6)::int8) d
WHERE NOT EXISTS (SELECT FROM @.pawl_day x WHERE x.day = d);

-- name: ex_skew
SELECT n.name, h.skew_us FROM @.pawl_heartbeat h JOIN @.pawl_node n ON n.id = h.node
WHERE n.alive = 1 AND h.skew_us IS NOT NULL AND h.expires_us > @.pawl_now() ORDER BY abs(h.skew_us) DESC LIMIT 1;

-- name: ex_readers
SELECT pid::int8, coalesce(usename, '?'), coalesce(nullif(application_name, ''), '?'), state,
    extract(epoch FROM clock_timestamp() - xact_start)::int8, coalesce(age(backend_xmin)::int8, 0)
FROM pg_stat_activity
WHERE datname = current_database() AND pid <> pg_backend_pid() AND xact_start < clock_timestamp() - interval '1 minute'
    AND backend_type IN ('client backend', 'walsender') AND (backend_xmin IS NOT NULL OR backend_xid IS NOT NULL)
ORDER BY xact_start LIMIT 5;

-- name: ex_slots
SELECT slot_name, greatest(age(xmin), age(catalog_xmin))::int8 FROM pg_replication_slots
WHERE greatest(age(xmin), age(catalog_xmin)) > 1000000 ORDER BY 2 DESC LIMIT 3;

-- name: ex_types
SELECT qn.text, tn.text, count(*) FROM (
    SELECT v.queue_id, v.type_id FROM @.pawl_live v
    WHERE NOT EXISTS (SELECT FROM @.pawl_queue q WHERE q.queue_id = v.queue_id AND q.paused) AND v.state = 2 AND v.run_at_us <= @.pawl_now() LIMIT 100000) x
JOIN @.pawl_name qn ON qn.id = x.queue_id JOIN @.pawl_name tn ON tn.id = x.type_id
GROUP BY 1, 2 ORDER BY 3 DESC LIMIT 100;
