-- Questions. Answers come in binary form, so numbers are int8 throughout. $1 is the clock of a test, or NULL.

-- name: state
SELECT o_state::int8, o_fence::int8 FROM @.pawl_find($1);

-- name: info
SELECT t.id, t.state::int8, t.created_us, t.priority::int8, t.audit::int8, t.max_attempts::int8, t.timeout_us, t.retry_of, t.type, t.queue,
    t.tenant, t.key, t.content_type, t.created_by, t.traceparent, t.headers, t.rate_key, t.run_at_us, t.started_us, t.finished_us,
    t.runs::int8, t.failures::int8, t.interruptions::int8, t.rescues::int8, t.fence::int8, t.node::int8, t.node_name, t.cancel_asked,
    t.not_started, t.progress::int8, t.progress_text, t.code, t.error, t.reason, t.result_type, t.result_ref, t.retried_as,
    t.resolved_us, t.resolved_by, t.note, t.node_alive = 1 AND t.expires_us > coalesce(($1::int8[])[2], @.pawl_now()) AS pulse, t.outcome::int8, t.run_us,
    t.log_lines::int8, t.born::int8, t.level::int8, t.end_level::int8, t.flags::int8, t.leased_us, coalesce(($1::int8[])[1], @.pawl_now()) AS now_us,
    t.state = 2 AND EXISTS (SELECT FROM @.pawl_blocked k WHERE k.task_id = t.id) AS blocked,
    t.state = 2 AND EXISTS (SELECT FROM @.pawl_slotted s WHERE s.task_id = t.id) AS slotted, t.payload, t.result
FROM @.pawl_task t WHERE t.id = $2;

-- name: attempts
SELECT a.number::int8, a.outcome::int8, a.started_us, a.finished_us, a.fence::int8, a.node::int8, n.name, a.code, a.error, a.log_lines::int8
FROM @.pawl_attempt a LEFT JOIN @.pawl_node n ON n.id = a.node WHERE a.task_id = $1 ORDER BY a.number;

-- name: logs
SELECT number::int8, text FROM @.pawl_runlog WHERE task_id = $1 ORDER BY number;

-- name: audit
SELECT a.at_us, a.from_state::int8, a.to_state::int8, a.fence::int8, n.name, a.detail,
    (SELECT m.value::int8 FROM @.pawl_meta m WHERE m.key = 'audit_cut_us') AS cut_us
FROM (SELECT 1) one LEFT JOIN @.pawl_audit a ON a.task_id = $1 LEFT JOIN @.pawl_node n ON n.id = a.node ORDER BY a.number;

-- name: nodes
SELECT n.id::int8, n.name, n.pid, n.queues, n.types, n.born_us, coalesce(h.leases, 0), coalesce(h.expires_us, 0) - c.boot_us,
    @.pawl_visible(c.now_us, c.boot_us, n, h.expires_us, c.locks), c.now_us,
    (SELECT t.told FROM @.pawl_told t WHERE t.node = n.id AND n.alive = 1),
    (n.alive = 1 AND EXISTS (SELECT FROM @.pawl_drain d WHERE d.node = n.id))::int4
FROM (SELECT coalesce(($1::int8[])[1], @.pawl_now()) AS now_us, coalesce(($1::int8[])[2], @.pawl_now()) AS boot_us,
             @.pawl_locks() AS locks) c, @.pawl_node n LEFT JOIN @.pawl_heartbeat h ON h.node = n.id
WHERE n.alive >= 0 ORDER BY n.id;

-- name: throttled
SELECT count(*) FROM (SELECT 1 FROM @.pawl_slotted LIMIT 100000) s;

-- name: queues_throttled
SELECT n.text, count(*) FROM (SELECT task_id FROM @.pawl_slotted LIMIT 20000) s JOIN @.pawl_live l ON l.id = s.task_id
JOIN @.pawl_name n ON n.id = l.queue_id GROUP BY n.text;

-- name: queues
SELECT a.queue_id::int8, n.text, coalesce(bool_or(q.paused), false), coalesce(sum(c.waiting), 0)::int8, coalesce(sum(c.pending), 0)::int8,
    coalesce(sum(c.leased), 0)::int8, coalesce(sum(c.failed), 0)::int8
FROM (SELECT queue_id FROM @.pawl_queue UNION SELECT queue_id FROM @.pawl_count) a JOIN @.pawl_name n ON n.id = a.queue_id
LEFT JOIN @.pawl_queue q ON q.queue_id = a.queue_id LEFT JOIN @.pawl_count c ON c.queue_id = a.queue_id
GROUP BY a.queue_id, n.text ORDER BY n.text;

-- name: due
SELECT q.at, d.due, coalesce(d.oldest_us, 0)
FROM unnest($2::int8[]) WITH ORDINALITY q (id, at), LATERAL @.pawl_due_of(coalesce(($1::int8[])[1], @.pawl_now()), q.id::int4, $3::int4) d
WHERE q.id > 0;

-- name: rollup
SELECT max(minute)::int8, outcome::int8, sum(count)::int8, @.pawl_histogram_total(wait)::text, @.pawl_histogram_total(run)::text
FROM @.pawl_rollup WHERE minute BETWEEN $1 AND $2 GROUP BY minute / $3::int8, outcome ORDER BY minute / $3::int8;

-- name: settings
SELECT 'store=postgres durable=' || CASE WHEN current_setting('fsync') = 'on' THEN 'yes' ELSE 'no' END || ' postgres='
    || split_part(current_setting('server_version'), ' ', 1) || ' fsync=' || current_setting('fsync') || ' synchronous_commit='
    || CASE current_setting('synchronous_commit') WHEN 'off' THEN 'on' ELSE current_setting('synchronous_commit') END
    || ' full_page_writes=' || current_setting('full_page_writes') || ' wal_sync_method=' || current_setting('wal_sync_method')
    || ' shared_buffers=' || replace(current_setting('shared_buffers'), ' ', '');

-- One stretch of a list: so many tasks are looked at ($4), from an id on ($2) upwards or downwards ($3), within bounds ($15, $16). The first
-- two columns say how many there were and which was the last; the rest are those that match ($5 of them at most).

-- name: list_all
WITH c AS (SELECT coalesce(($1::int8[])[1], @.pawl_now()) AS now_us, coalesce(($1::int8[])[2], @.pawl_now()) AS boot_us),
seen AS MATERIALIZED (
    (SELECT x.id AS id FROM @.pawl_body x WHERE NOT $3::bool AND x.id < $2 AND x.id >= $15 AND x.id <= $16 AND true
     ORDER BY x.id DESC LIMIT $4)
    UNION ALL
    (SELECT x.id AS id FROM @.pawl_body x WHERE $3 AND x.id > $2 AND x.id >= $15 AND x.id <= $16 AND true
     ORDER BY x.id LIMIT $4)),
hit AS (
    SELECT t.id, t.state::int8, t.created_us, t.priority::int8, t.audit::int8, t.max_attempts::int8, t.timeout_us, t.retry_of, t.type, t.queue,
    t.tenant, t.key, t.content_type, t.created_by, t.traceparent, t.headers, t.rate_key, t.run_at_us, t.started_us, t.finished_us,
    t.runs::int8, t.failures::int8, t.interruptions::int8, t.rescues::int8, t.fence::int8, t.node::int8, t.node_name, t.cancel_asked,
    t.not_started, t.progress::int8, t.progress_text, t.code, t.error, t.reason, t.result_type, t.result_ref, t.retried_as,
    t.resolved_us, t.resolved_by, t.note, t.node_alive = 1 AND t.expires_us > c.boot_us AS pulse, t.outcome::int8, t.run_us,
    t.log_lines::int8, t.born::int8, t.level::int8, t.end_level::int8, t.flags::int8, t.leased_us, c.now_us AS now_us, CASE WHEN t.state = 2 THEN EXISTS (SELECT FROM @.pawl_blocked k WHERE k.task_id = t.id) ELSE false END AS blocked,
    CASE WHEN t.state = 2 THEN EXISTS (SELECT FROM @.pawl_slotted s WHERE s.task_id = t.id) ELSE false END AS slotted
    FROM seen JOIN @.pawl_body b ON b.id = ANY (ARRAY[seen.id]) AND ($7::text IS NULL OR b.type_id = (SELECT n.id FROM @.pawl_name n WHERE n.text = $7))
            AND ($8::text IS NULL OR b.queue_id = (SELECT n.id FROM @.pawl_name n WHERE n.text = $8)) AND ($10::text IS NULL OR b.key = $10)
            AND ($11::int8 = 0 OR b.created_us >= $11) AND ($12::int8 = 0 OR b.created_us < $12),
        c, LATERAL (SELECT * FROM @.pawl_task x WHERE x.id = b.id OFFSET 0) t
    WHERE ($6::int8 IS NULL OR t.state = $6) AND ($7::text IS NULL OR t.type = $7) AND ($8::text IS NULL OR t.queue = $8)
        AND ($9::text IS NULL OR coalesce(t.tenant, '') = $9) AND ($10::text IS NULL OR t.key = $10)
        AND ($11::int8 = 0 OR t.created_us >= $11) AND ($12::int8 = 0 OR t.created_us < $12)
        AND (NOT $13::bool OR (t.state = 5 AND t.resolved_us IS NULL))
        AND ($17::text IS NULL OR NOT EXISTS (
            SELECT FROM (SELECT convert_to(concat_ws(chr(10), t.type, t.queue, t.tenant, t.key, t.code, t.error), 'UTF8') || decode('0a', 'hex')
                                || coalesce(t.payload, '') AS held) h, unnest(string_to_array($17, ' ')) w
            WHERE CASE WHEN position(decode('00', 'hex') IN h.held) = 0
                       THEN strpos(lower(convert_from(h.held, 'LATIN1') COLLATE "C"), convert_from(convert_to(w, 'UTF8'), 'LATIN1'))
                       ELSE strpos(lower(encode(h.held, 'escape') COLLATE "C"), encode(convert_to(w, 'UTF8'), 'escape')) END = 0))
        AND CASE $14::int8 WHEN 1 THEN t.run_at_us > c.now_us AND t.failures = 0
                               AND NOT EXISTS (SELECT FROM @.pawl_blocked k WHERE k.task_id = t.id) AND NOT EXISTS (SELECT FROM @.pawl_slotted s WHERE s.task_id = t.id)
                           WHEN 2 THEN t.run_at_us > c.now_us AND t.failures > 0
                               AND NOT EXISTS (SELECT FROM @.pawl_blocked k WHERE k.task_id = t.id) AND NOT EXISTS (SELECT FROM @.pawl_slotted s WHERE s.task_id = t.id)
                           WHEN 5 THEN EXISTS (SELECT FROM @.pawl_blocked k WHERE k.task_id = t.id)
                           WHEN 6 THEN t.run_at_us > c.now_us AND EXISTS (SELECT FROM @.pawl_slotted s WHERE s.task_id = t.id)
                               AND NOT EXISTS (SELECT FROM @.pawl_blocked k WHERE k.task_id = t.id)
                           WHEN 3 THEN coalesce(t.node_alive = 1 AND t.expires_us > c.boot_us, false)
                           WHEN 4 THEN NOT coalesce(t.node_alive = 1 AND t.expires_us > c.boot_us, false)
                           ELSE true END
    ORDER BY CASE WHEN $3 THEN t.id ELSE -t.id END LIMIT $5)
SELECT i.n, i.last, hit.* FROM (SELECT count(*) AS n, CASE WHEN $3 THEN max(id) ELSE min(id) END AS last FROM seen) i
LEFT JOIN hit ON true ORDER BY CASE WHEN $3 THEN hit.id ELSE -hit.id END;

-- name: list_live
WITH c AS (SELECT coalesce(($1::int8[])[1], @.pawl_now()) AS now_us, coalesce(($1::int8[])[2], @.pawl_now()) AS boot_us),
seen AS MATERIALIZED (
    (SELECT x.id AS id, ($6::int8 IS NULL OR x.state = $6) AND CASE $14::int8 WHEN 1 THEN x.run_at_us > (SELECT now_us FROM c) AND x.failures = 0
        WHEN 2 THEN x.run_at_us > (SELECT now_us FROM c) AND x.failures > 0 WHEN 5 THEN x.blocked
        WHEN 6 THEN x.run_at_us > (SELECT now_us FROM c) ELSE true END AS fits
     FROM @.pawl_live x WHERE NOT $3::bool AND x.id < $2 AND x.id >= $15 AND x.id <= $16
     ORDER BY x.id DESC LIMIT $4)
    UNION ALL
    (SELECT x.id AS id, ($6::int8 IS NULL OR x.state = $6) AND CASE $14::int8 WHEN 1 THEN x.run_at_us > (SELECT now_us FROM c) AND x.failures = 0
        WHEN 2 THEN x.run_at_us > (SELECT now_us FROM c) AND x.failures > 0 WHEN 5 THEN x.blocked
        WHEN 6 THEN x.run_at_us > (SELECT now_us FROM c) ELSE true END AS fits
     FROM @.pawl_live x WHERE $3 AND x.id > $2 AND x.id >= $15 AND x.id <= $16
     ORDER BY x.id LIMIT $4)),
hit AS (
    SELECT t.id, t.state::int8, t.created_us, t.priority::int8, t.audit::int8, t.max_attempts::int8, t.timeout_us, t.retry_of, t.type, t.queue,
    t.tenant, t.key, t.content_type, t.created_by, t.traceparent, t.headers, t.rate_key, t.run_at_us, t.started_us, t.finished_us,
    t.runs::int8, t.failures::int8, t.interruptions::int8, t.rescues::int8, t.fence::int8, t.node::int8, t.node_name, t.cancel_asked,
    t.not_started, t.progress::int8, t.progress_text, t.code, t.error, t.reason, t.result_type, t.result_ref, t.retried_as,
    t.resolved_us, t.resolved_by, t.note, t.node_alive = 1 AND t.expires_us > c.boot_us AS pulse, t.outcome::int8, t.run_us,
    t.log_lines::int8, t.born::int8, t.level::int8, t.end_level::int8, t.flags::int8, t.leased_us, c.now_us AS now_us, CASE WHEN t.state = 2 THEN EXISTS (SELECT FROM @.pawl_blocked k WHERE k.task_id = t.id) ELSE false END AS blocked,
    CASE WHEN t.state = 2 THEN EXISTS (SELECT FROM @.pawl_slotted s WHERE s.task_id = t.id) ELSE false END AS slotted
    FROM seen JOIN @.pawl_body b ON seen.fits AND b.id = ANY (ARRAY[seen.id]) AND ($7::text IS NULL OR b.type_id = (SELECT n.id FROM @.pawl_name n WHERE n.text = $7))
            AND ($8::text IS NULL OR b.queue_id = (SELECT n.id FROM @.pawl_name n WHERE n.text = $8)) AND ($10::text IS NULL OR b.key = $10)
            AND ($11::int8 = 0 OR b.created_us >= $11) AND ($12::int8 = 0 OR b.created_us < $12),
        c, LATERAL (SELECT * FROM @.pawl_task x WHERE x.id = b.id OFFSET 0) t
    WHERE ($6::int8 IS NULL OR t.state = $6) AND ($7::text IS NULL OR t.type = $7) AND ($8::text IS NULL OR t.queue = $8)
        AND ($9::text IS NULL OR coalesce(t.tenant, '') = $9) AND ($10::text IS NULL OR t.key = $10)
        AND ($11::int8 = 0 OR t.created_us >= $11) AND ($12::int8 = 0 OR t.created_us < $12)
        AND (NOT $13::bool OR (t.state = 5 AND t.resolved_us IS NULL))
        AND ($17::text IS NULL OR NOT EXISTS (
            SELECT FROM (SELECT convert_to(concat_ws(chr(10), t.type, t.queue, t.tenant, t.key, t.code, t.error), 'UTF8') || decode('0a', 'hex')
                                || coalesce(t.payload, '') AS held) h, unnest(string_to_array($17, ' ')) w
            WHERE CASE WHEN position(decode('00', 'hex') IN h.held) = 0
                       THEN strpos(lower(convert_from(h.held, 'LATIN1') COLLATE "C"), convert_from(convert_to(w, 'UTF8'), 'LATIN1'))
                       ELSE strpos(lower(encode(h.held, 'escape') COLLATE "C"), encode(convert_to(w, 'UTF8'), 'escape')) END = 0))
        AND CASE $14::int8 WHEN 1 THEN t.run_at_us > c.now_us AND t.failures = 0
                               AND NOT EXISTS (SELECT FROM @.pawl_blocked k WHERE k.task_id = t.id) AND NOT EXISTS (SELECT FROM @.pawl_slotted s WHERE s.task_id = t.id)
                           WHEN 2 THEN t.run_at_us > c.now_us AND t.failures > 0
                               AND NOT EXISTS (SELECT FROM @.pawl_blocked k WHERE k.task_id = t.id) AND NOT EXISTS (SELECT FROM @.pawl_slotted s WHERE s.task_id = t.id)
                           WHEN 5 THEN EXISTS (SELECT FROM @.pawl_blocked k WHERE k.task_id = t.id)
                           WHEN 6 THEN t.run_at_us > c.now_us AND EXISTS (SELECT FROM @.pawl_slotted s WHERE s.task_id = t.id)
                               AND NOT EXISTS (SELECT FROM @.pawl_blocked k WHERE k.task_id = t.id)
                           WHEN 3 THEN coalesce(t.node_alive = 1 AND t.expires_us > c.boot_us, false)
                           WHEN 4 THEN NOT coalesce(t.node_alive = 1 AND t.expires_us > c.boot_us, false)
                           ELSE true END
    ORDER BY CASE WHEN $3 THEN t.id ELSE -t.id END LIMIT $5)
SELECT i.n, i.last, hit.* FROM (SELECT count(*) AS n, CASE WHEN $3 THEN max(id) ELSE min(id) END AS last FROM seen) i
LEFT JOIN hit ON true ORDER BY CASE WHEN $3 THEN hit.id ELSE -hit.id END;

-- name: list_leased
WITH c AS (SELECT coalesce(($1::int8[])[1], @.pawl_now()) AS now_us, coalesce(($1::int8[])[2], @.pawl_now()) AS boot_us),
seen AS MATERIALIZED (
    (SELECT x.id AS id FROM @.pawl_leased x WHERE NOT $3::bool AND x.id < $2 AND x.id >= $15 AND x.id <= $16 AND true
     ORDER BY x.id DESC LIMIT $4)
    UNION ALL
    (SELECT x.id AS id FROM @.pawl_leased x WHERE $3 AND x.id > $2 AND x.id >= $15 AND x.id <= $16 AND true
     ORDER BY x.id LIMIT $4)),
hit AS (
    SELECT t.id, t.state::int8, t.created_us, t.priority::int8, t.audit::int8, t.max_attempts::int8, t.timeout_us, t.retry_of, t.type, t.queue,
    t.tenant, t.key, t.content_type, t.created_by, t.traceparent, t.headers, t.rate_key, t.run_at_us, t.started_us, t.finished_us,
    t.runs::int8, t.failures::int8, t.interruptions::int8, t.rescues::int8, t.fence::int8, t.node::int8, t.node_name, t.cancel_asked,
    t.not_started, t.progress::int8, t.progress_text, t.code, t.error, t.reason, t.result_type, t.result_ref, t.retried_as,
    t.resolved_us, t.resolved_by, t.note, t.node_alive = 1 AND t.expires_us > c.boot_us AS pulse, t.outcome::int8, t.run_us,
    t.log_lines::int8, t.born::int8, t.level::int8, t.end_level::int8, t.flags::int8, t.leased_us, c.now_us AS now_us, CASE WHEN t.state = 2 THEN EXISTS (SELECT FROM @.pawl_blocked k WHERE k.task_id = t.id) ELSE false END AS blocked,
    CASE WHEN t.state = 2 THEN EXISTS (SELECT FROM @.pawl_slotted s WHERE s.task_id = t.id) ELSE false END AS slotted
    FROM seen JOIN @.pawl_body b ON b.id = ANY (ARRAY[seen.id]) AND ($7::text IS NULL OR b.type_id = (SELECT n.id FROM @.pawl_name n WHERE n.text = $7))
            AND ($8::text IS NULL OR b.queue_id = (SELECT n.id FROM @.pawl_name n WHERE n.text = $8)) AND ($10::text IS NULL OR b.key = $10)
            AND ($11::int8 = 0 OR b.created_us >= $11) AND ($12::int8 = 0 OR b.created_us < $12),
        c, LATERAL (SELECT * FROM @.pawl_task x WHERE x.id = b.id OFFSET 0) t
    WHERE ($6::int8 IS NULL OR t.state = $6) AND ($7::text IS NULL OR t.type = $7) AND ($8::text IS NULL OR t.queue = $8)
        AND ($9::text IS NULL OR coalesce(t.tenant, '') = $9) AND ($10::text IS NULL OR t.key = $10)
        AND ($11::int8 = 0 OR t.created_us >= $11) AND ($12::int8 = 0 OR t.created_us < $12)
        AND (NOT $13::bool OR (t.state = 5 AND t.resolved_us IS NULL))
        AND ($17::text IS NULL OR NOT EXISTS (
            SELECT FROM (SELECT convert_to(concat_ws(chr(10), t.type, t.queue, t.tenant, t.key, t.code, t.error), 'UTF8') || decode('0a', 'hex')
                                || coalesce(t.payload, '') AS held) h, unnest(string_to_array($17, ' ')) w
            WHERE CASE WHEN position(decode('00', 'hex') IN h.held) = 0
                       THEN strpos(lower(convert_from(h.held, 'LATIN1') COLLATE "C"), convert_from(convert_to(w, 'UTF8'), 'LATIN1'))
                       ELSE strpos(lower(encode(h.held, 'escape') COLLATE "C"), encode(convert_to(w, 'UTF8'), 'escape')) END = 0))
        AND CASE $14::int8 WHEN 1 THEN t.run_at_us > c.now_us AND t.failures = 0
                               AND NOT EXISTS (SELECT FROM @.pawl_blocked k WHERE k.task_id = t.id) AND NOT EXISTS (SELECT FROM @.pawl_slotted s WHERE s.task_id = t.id)
                           WHEN 2 THEN t.run_at_us > c.now_us AND t.failures > 0
                               AND NOT EXISTS (SELECT FROM @.pawl_blocked k WHERE k.task_id = t.id) AND NOT EXISTS (SELECT FROM @.pawl_slotted s WHERE s.task_id = t.id)
                           WHEN 5 THEN EXISTS (SELECT FROM @.pawl_blocked k WHERE k.task_id = t.id)
                           WHEN 6 THEN t.run_at_us > c.now_us AND EXISTS (SELECT FROM @.pawl_slotted s WHERE s.task_id = t.id)
                               AND NOT EXISTS (SELECT FROM @.pawl_blocked k WHERE k.task_id = t.id)
                           WHEN 3 THEN coalesce(t.node_alive = 1 AND t.expires_us > c.boot_us, false)
                           WHEN 4 THEN NOT coalesce(t.node_alive = 1 AND t.expires_us > c.boot_us, false)
                           ELSE true END
    ORDER BY CASE WHEN $3 THEN t.id ELSE -t.id END LIMIT $5)
SELECT i.n, i.last, hit.* FROM (SELECT count(*) AS n, CASE WHEN $3 THEN max(id) ELSE min(id) END AS last FROM seen) i
LEFT JOIN hit ON true ORDER BY CASE WHEN $3 THEN hit.id ELSE -hit.id END;

-- name: list_done
WITH c AS (SELECT coalesce(($1::int8[])[1], @.pawl_now()) AS now_us, coalesce(($1::int8[])[2], @.pawl_now()) AS boot_us),
seen AS MATERIALIZED (
    (SELECT x.id AS id, $6::int8 IS NULL OR x.state = $6 AS fits FROM @.pawl_done x WHERE NOT $3::bool AND x.id < $2 AND x.id >= $15 AND x.id <= $16
     ORDER BY x.id DESC LIMIT $4)
    UNION ALL
    (SELECT x.id AS id, $6::int8 IS NULL OR x.state = $6 AS fits FROM @.pawl_done x WHERE $3 AND x.id > $2 AND x.id >= $15 AND x.id <= $16
     ORDER BY x.id LIMIT $4)),
hit AS (
    SELECT t.id, t.state::int8, t.created_us, t.priority::int8, t.audit::int8, t.max_attempts::int8, t.timeout_us, t.retry_of, t.type, t.queue,
    t.tenant, t.key, t.content_type, t.created_by, t.traceparent, t.headers, t.rate_key, t.run_at_us, t.started_us, t.finished_us,
    t.runs::int8, t.failures::int8, t.interruptions::int8, t.rescues::int8, t.fence::int8, t.node::int8, t.node_name, t.cancel_asked,
    t.not_started, t.progress::int8, t.progress_text, t.code, t.error, t.reason, t.result_type, t.result_ref, t.retried_as,
    t.resolved_us, t.resolved_by, t.note, t.node_alive = 1 AND t.expires_us > c.boot_us AS pulse, t.outcome::int8, t.run_us,
    t.log_lines::int8, t.born::int8, t.level::int8, t.end_level::int8, t.flags::int8, t.leased_us, c.now_us AS now_us, CASE WHEN t.state = 2 THEN EXISTS (SELECT FROM @.pawl_blocked k WHERE k.task_id = t.id) ELSE false END AS blocked,
    CASE WHEN t.state = 2 THEN EXISTS (SELECT FROM @.pawl_slotted s WHERE s.task_id = t.id) ELSE false END AS slotted
    FROM seen JOIN @.pawl_body b ON seen.fits AND b.id = ANY (ARRAY[seen.id]) AND ($7::text IS NULL OR b.type_id = (SELECT n.id FROM @.pawl_name n WHERE n.text = $7))
            AND ($8::text IS NULL OR b.queue_id = (SELECT n.id FROM @.pawl_name n WHERE n.text = $8)) AND ($10::text IS NULL OR b.key = $10)
            AND ($11::int8 = 0 OR b.created_us >= $11) AND ($12::int8 = 0 OR b.created_us < $12),
        c, LATERAL (SELECT * FROM @.pawl_task x WHERE x.id = b.id OFFSET 0) t
    WHERE ($6::int8 IS NULL OR t.state = $6) AND ($7::text IS NULL OR t.type = $7) AND ($8::text IS NULL OR t.queue = $8)
        AND ($9::text IS NULL OR coalesce(t.tenant, '') = $9) AND ($10::text IS NULL OR t.key = $10)
        AND ($11::int8 = 0 OR t.created_us >= $11) AND ($12::int8 = 0 OR t.created_us < $12)
        AND (NOT $13::bool OR (t.state = 5 AND t.resolved_us IS NULL))
        AND ($17::text IS NULL OR NOT EXISTS (
            SELECT FROM (SELECT convert_to(concat_ws(chr(10), t.type, t.queue, t.tenant, t.key, t.code, t.error), 'UTF8') || decode('0a', 'hex')
                                || coalesce(t.payload, '') AS held) h, unnest(string_to_array($17, ' ')) w
            WHERE CASE WHEN position(decode('00', 'hex') IN h.held) = 0
                       THEN strpos(lower(convert_from(h.held, 'LATIN1') COLLATE "C"), convert_from(convert_to(w, 'UTF8'), 'LATIN1'))
                       ELSE strpos(lower(encode(h.held, 'escape') COLLATE "C"), encode(convert_to(w, 'UTF8'), 'escape')) END = 0))
        AND CASE $14::int8 WHEN 1 THEN t.run_at_us > c.now_us AND t.failures = 0
                               AND NOT EXISTS (SELECT FROM @.pawl_blocked k WHERE k.task_id = t.id) AND NOT EXISTS (SELECT FROM @.pawl_slotted s WHERE s.task_id = t.id)
                           WHEN 2 THEN t.run_at_us > c.now_us AND t.failures > 0
                               AND NOT EXISTS (SELECT FROM @.pawl_blocked k WHERE k.task_id = t.id) AND NOT EXISTS (SELECT FROM @.pawl_slotted s WHERE s.task_id = t.id)
                           WHEN 5 THEN EXISTS (SELECT FROM @.pawl_blocked k WHERE k.task_id = t.id)
                           WHEN 6 THEN t.run_at_us > c.now_us AND EXISTS (SELECT FROM @.pawl_slotted s WHERE s.task_id = t.id)
                               AND NOT EXISTS (SELECT FROM @.pawl_blocked k WHERE k.task_id = t.id)
                           WHEN 3 THEN coalesce(t.node_alive = 1 AND t.expires_us > c.boot_us, false)
                           WHEN 4 THEN NOT coalesce(t.node_alive = 1 AND t.expires_us > c.boot_us, false)
                           ELSE true END
    ORDER BY CASE WHEN $3 THEN t.id ELSE -t.id END LIMIT $5)
SELECT i.n, i.last, hit.* FROM (SELECT count(*) AS n, CASE WHEN $3 THEN max(id) ELSE min(id) END AS last FROM seen) i
LEFT JOIN hit ON true ORDER BY CASE WHEN $3 THEN hit.id ELSE -hit.id END;

-- name: list_failed
WITH c AS (SELECT coalesce(($1::int8[])[1], @.pawl_now()) AS now_us, coalesce(($1::int8[])[2], @.pawl_now()) AS boot_us),
seen AS MATERIALIZED (
    (SELECT x.id AS id, NOT $13::bool OR x.resolved_us IS NULL AS fits FROM @.pawl_failed x WHERE NOT $3::bool AND x.id < $2 AND x.id >= $15 AND x.id <= $16
     ORDER BY x.id DESC LIMIT $4)
    UNION ALL
    (SELECT x.id AS id, NOT $13::bool OR x.resolved_us IS NULL AS fits FROM @.pawl_failed x WHERE $3 AND x.id > $2 AND x.id >= $15 AND x.id <= $16
     ORDER BY x.id LIMIT $4)),
hit AS (
    SELECT t.id, t.state::int8, t.created_us, t.priority::int8, t.audit::int8, t.max_attempts::int8, t.timeout_us, t.retry_of, t.type, t.queue,
    t.tenant, t.key, t.content_type, t.created_by, t.traceparent, t.headers, t.rate_key, t.run_at_us, t.started_us, t.finished_us,
    t.runs::int8, t.failures::int8, t.interruptions::int8, t.rescues::int8, t.fence::int8, t.node::int8, t.node_name, t.cancel_asked,
    t.not_started, t.progress::int8, t.progress_text, t.code, t.error, t.reason, t.result_type, t.result_ref, t.retried_as,
    t.resolved_us, t.resolved_by, t.note, t.node_alive = 1 AND t.expires_us > c.boot_us AS pulse, t.outcome::int8, t.run_us,
    t.log_lines::int8, t.born::int8, t.level::int8, t.end_level::int8, t.flags::int8, t.leased_us, c.now_us AS now_us, CASE WHEN t.state = 2 THEN EXISTS (SELECT FROM @.pawl_blocked k WHERE k.task_id = t.id) ELSE false END AS blocked,
    CASE WHEN t.state = 2 THEN EXISTS (SELECT FROM @.pawl_slotted s WHERE s.task_id = t.id) ELSE false END AS slotted
    FROM seen JOIN @.pawl_body b ON seen.fits AND b.id = ANY (ARRAY[seen.id]) AND ($7::text IS NULL OR b.type_id = (SELECT n.id FROM @.pawl_name n WHERE n.text = $7))
            AND ($8::text IS NULL OR b.queue_id = (SELECT n.id FROM @.pawl_name n WHERE n.text = $8)) AND ($10::text IS NULL OR b.key = $10)
            AND ($11::int8 = 0 OR b.created_us >= $11) AND ($12::int8 = 0 OR b.created_us < $12),
        c, LATERAL (SELECT * FROM @.pawl_task x WHERE x.id = b.id OFFSET 0) t
    WHERE ($6::int8 IS NULL OR t.state = $6) AND ($7::text IS NULL OR t.type = $7) AND ($8::text IS NULL OR t.queue = $8)
        AND ($9::text IS NULL OR coalesce(t.tenant, '') = $9) AND ($10::text IS NULL OR t.key = $10)
        AND ($11::int8 = 0 OR t.created_us >= $11) AND ($12::int8 = 0 OR t.created_us < $12)
        AND (NOT $13::bool OR (t.state = 5 AND t.resolved_us IS NULL))
        AND ($17::text IS NULL OR NOT EXISTS (
            SELECT FROM (SELECT convert_to(concat_ws(chr(10), t.type, t.queue, t.tenant, t.key, t.code, t.error), 'UTF8') || decode('0a', 'hex')
                                || coalesce(t.payload, '') AS held) h, unnest(string_to_array($17, ' ')) w
            WHERE CASE WHEN position(decode('00', 'hex') IN h.held) = 0
                       THEN strpos(lower(convert_from(h.held, 'LATIN1') COLLATE "C"), convert_from(convert_to(w, 'UTF8'), 'LATIN1'))
                       ELSE strpos(lower(encode(h.held, 'escape') COLLATE "C"), encode(convert_to(w, 'UTF8'), 'escape')) END = 0))
        AND CASE $14::int8 WHEN 1 THEN t.run_at_us > c.now_us AND t.failures = 0
                               AND NOT EXISTS (SELECT FROM @.pawl_blocked k WHERE k.task_id = t.id) AND NOT EXISTS (SELECT FROM @.pawl_slotted s WHERE s.task_id = t.id)
                           WHEN 2 THEN t.run_at_us > c.now_us AND t.failures > 0
                               AND NOT EXISTS (SELECT FROM @.pawl_blocked k WHERE k.task_id = t.id) AND NOT EXISTS (SELECT FROM @.pawl_slotted s WHERE s.task_id = t.id)
                           WHEN 5 THEN EXISTS (SELECT FROM @.pawl_blocked k WHERE k.task_id = t.id)
                           WHEN 6 THEN t.run_at_us > c.now_us AND EXISTS (SELECT FROM @.pawl_slotted s WHERE s.task_id = t.id)
                               AND NOT EXISTS (SELECT FROM @.pawl_blocked k WHERE k.task_id = t.id)
                           WHEN 3 THEN coalesce(t.node_alive = 1 AND t.expires_us > c.boot_us, false)
                           WHEN 4 THEN NOT coalesce(t.node_alive = 1 AND t.expires_us > c.boot_us, false)
                           ELSE true END
    ORDER BY CASE WHEN $3 THEN t.id ELSE -t.id END LIMIT $5)
SELECT i.n, i.last, hit.* FROM (SELECT count(*) AS n, CASE WHEN $3 THEN max(id) ELSE min(id) END AS last FROM seen) i
LEFT JOIN hit ON true ORDER BY CASE WHEN $3 THEN hit.id ELSE -hit.id END;

-- name: list_key
WITH c AS (SELECT coalesce(($1::int8[])[1], @.pawl_now()) AS now_us, coalesce(($1::int8[])[2], @.pawl_now()) AS boot_us),
seen AS MATERIALIZED (
    (SELECT x.task_id AS id FROM @.pawl_key x WHERE NOT $3::bool AND x.task_id < $2 AND x.task_id >= $15 AND x.task_id <= $16 AND x.key = $10
     ORDER BY x.task_id DESC LIMIT $4)
    UNION ALL
    (SELECT x.task_id AS id FROM @.pawl_key x WHERE $3 AND x.task_id > $2 AND x.task_id >= $15 AND x.task_id <= $16 AND x.key = $10
     ORDER BY x.task_id LIMIT $4)),
hit AS (
    SELECT t.id, t.state::int8, t.created_us, t.priority::int8, t.audit::int8, t.max_attempts::int8, t.timeout_us, t.retry_of, t.type, t.queue,
    t.tenant, t.key, t.content_type, t.created_by, t.traceparent, t.headers, t.rate_key, t.run_at_us, t.started_us, t.finished_us,
    t.runs::int8, t.failures::int8, t.interruptions::int8, t.rescues::int8, t.fence::int8, t.node::int8, t.node_name, t.cancel_asked,
    t.not_started, t.progress::int8, t.progress_text, t.code, t.error, t.reason, t.result_type, t.result_ref, t.retried_as,
    t.resolved_us, t.resolved_by, t.note, t.node_alive = 1 AND t.expires_us > c.boot_us AS pulse, t.outcome::int8, t.run_us,
    t.log_lines::int8, t.born::int8, t.level::int8, t.end_level::int8, t.flags::int8, t.leased_us, c.now_us AS now_us, CASE WHEN t.state = 2 THEN EXISTS (SELECT FROM @.pawl_blocked k WHERE k.task_id = t.id) ELSE false END AS blocked,
    CASE WHEN t.state = 2 THEN EXISTS (SELECT FROM @.pawl_slotted s WHERE s.task_id = t.id) ELSE false END AS slotted
    FROM seen JOIN @.pawl_body b ON b.id = ANY (ARRAY[seen.id]) AND ($7::text IS NULL OR b.type_id = (SELECT n.id FROM @.pawl_name n WHERE n.text = $7))
            AND ($8::text IS NULL OR b.queue_id = (SELECT n.id FROM @.pawl_name n WHERE n.text = $8)) AND ($10::text IS NULL OR b.key = $10)
            AND ($11::int8 = 0 OR b.created_us >= $11) AND ($12::int8 = 0 OR b.created_us < $12),
        c, LATERAL (SELECT * FROM @.pawl_task x WHERE x.id = b.id OFFSET 0) t
    WHERE ($6::int8 IS NULL OR t.state = $6) AND ($7::text IS NULL OR t.type = $7) AND ($8::text IS NULL OR t.queue = $8)
        AND ($9::text IS NULL OR coalesce(t.tenant, '') = $9) AND ($10::text IS NULL OR t.key = $10)
        AND ($11::int8 = 0 OR t.created_us >= $11) AND ($12::int8 = 0 OR t.created_us < $12)
        AND (NOT $13::bool OR (t.state = 5 AND t.resolved_us IS NULL))
        AND ($17::text IS NULL OR NOT EXISTS (
            SELECT FROM (SELECT convert_to(concat_ws(chr(10), t.type, t.queue, t.tenant, t.key, t.code, t.error), 'UTF8') || decode('0a', 'hex')
                                || coalesce(t.payload, '') AS held) h, unnest(string_to_array($17, ' ')) w
            WHERE CASE WHEN position(decode('00', 'hex') IN h.held) = 0
                       THEN strpos(lower(convert_from(h.held, 'LATIN1') COLLATE "C"), convert_from(convert_to(w, 'UTF8'), 'LATIN1'))
                       ELSE strpos(lower(encode(h.held, 'escape') COLLATE "C"), encode(convert_to(w, 'UTF8'), 'escape')) END = 0))
        AND CASE $14::int8 WHEN 1 THEN t.run_at_us > c.now_us AND t.failures = 0
                               AND NOT EXISTS (SELECT FROM @.pawl_blocked k WHERE k.task_id = t.id) AND NOT EXISTS (SELECT FROM @.pawl_slotted s WHERE s.task_id = t.id)
                           WHEN 2 THEN t.run_at_us > c.now_us AND t.failures > 0
                               AND NOT EXISTS (SELECT FROM @.pawl_blocked k WHERE k.task_id = t.id) AND NOT EXISTS (SELECT FROM @.pawl_slotted s WHERE s.task_id = t.id)
                           WHEN 5 THEN EXISTS (SELECT FROM @.pawl_blocked k WHERE k.task_id = t.id)
                           WHEN 6 THEN t.run_at_us > c.now_us AND EXISTS (SELECT FROM @.pawl_slotted s WHERE s.task_id = t.id)
                               AND NOT EXISTS (SELECT FROM @.pawl_blocked k WHERE k.task_id = t.id)
                           WHEN 3 THEN coalesce(t.node_alive = 1 AND t.expires_us > c.boot_us, false)
                           WHEN 4 THEN NOT coalesce(t.node_alive = 1 AND t.expires_us > c.boot_us, false)
                           ELSE true END
    ORDER BY CASE WHEN $3 THEN t.id ELSE -t.id END LIMIT $5)
SELECT i.n, i.last, hit.* FROM (SELECT count(*) AS n, CASE WHEN $3 THEN max(id) ELSE min(id) END AS last FROM seen) i
LEFT JOIN hit ON true ORDER BY CASE WHEN $3 THEN hit.id ELSE -hit.id END;

-- The same by names, where what has them is rare: not so many tasks, but those of so many milliseconds ($4). The first two columns say whether there
-- is nothing beyond, and how far it went.

-- name: list_leap
WITH c AS (SELECT coalesce(($1::int8[])[1], @.pawl_now()) AS now_us, coalesce(($1::int8[])[2], @.pawl_now()) AS boot_us),
leap AS MATERIALIZED (
    SELECT l.o_ids, l.o_to, l.o_end FROM @.pawl_leap($2, $3::bool, $4, greatest($15, (SELECT min(id) FROM @.pawl_body)),
        least($16, (SELECT max(id) FROM @.pawl_body)), nullif($7, ''), nullif($8, ''), nullif($9, '')) l),
seen AS MATERIALIZED (SELECT unnest(leap.o_ids) AS id FROM leap),
hit AS (
    SELECT t.id, t.state::int8, t.created_us, t.priority::int8, t.audit::int8, t.max_attempts::int8, t.timeout_us, t.retry_of, t.type, t.queue,
    t.tenant, t.key, t.content_type, t.created_by, t.traceparent, t.headers, t.rate_key, t.run_at_us, t.started_us, t.finished_us,
    t.runs::int8, t.failures::int8, t.interruptions::int8, t.rescues::int8, t.fence::int8, t.node::int8, t.node_name, t.cancel_asked,
    t.not_started, t.progress::int8, t.progress_text, t.code, t.error, t.reason, t.result_type, t.result_ref, t.retried_as,
    t.resolved_us, t.resolved_by, t.note, t.node_alive = 1 AND t.expires_us > c.boot_us AS pulse, t.outcome::int8, t.run_us,
    t.log_lines::int8, t.born::int8, t.level::int8, t.end_level::int8, t.flags::int8, t.leased_us, c.now_us AS now_us, CASE WHEN t.state = 2 THEN EXISTS (SELECT FROM @.pawl_blocked k WHERE k.task_id = t.id) ELSE false END AS blocked
    FROM seen JOIN @.pawl_body b ON b.id = ANY (ARRAY[seen.id]) AND ($7::text IS NULL OR b.type_id = (SELECT n.id FROM @.pawl_name n WHERE n.text = $7))
            AND ($8::text IS NULL OR b.queue_id = (SELECT n.id FROM @.pawl_name n WHERE n.text = $8)) AND ($10::text IS NULL OR b.key = $10)
            AND ($11::int8 = 0 OR b.created_us >= $11) AND ($12::int8 = 0 OR b.created_us < $12),
        c, LATERAL (SELECT * FROM @.pawl_task x WHERE x.id = b.id OFFSET 0) t
    WHERE ($6::int8 IS NULL OR t.state = $6) AND ($7::text IS NULL OR t.type = $7) AND ($8::text IS NULL OR t.queue = $8)
        AND ($9::text IS NULL OR coalesce(t.tenant, '') = $9) AND ($10::text IS NULL OR t.key = $10)
        AND ($11::int8 = 0 OR t.created_us >= $11) AND ($12::int8 = 0 OR t.created_us < $12)
        AND (NOT $13::bool OR (t.state = 5 AND t.resolved_us IS NULL))
        AND ($17::text IS NULL OR NOT EXISTS (
            SELECT FROM (SELECT convert_to(concat_ws(chr(10), t.type, t.queue, t.tenant, t.key, t.code, t.error), 'UTF8') || decode('0a', 'hex')
                                || coalesce(t.payload, '') AS held) h, unnest(string_to_array($17, ' ')) w
            WHERE CASE WHEN position(decode('00', 'hex') IN h.held) = 0
                       THEN strpos(lower(convert_from(h.held, 'LATIN1') COLLATE "C"), convert_from(convert_to(w, 'UTF8'), 'LATIN1'))
                       ELSE strpos(lower(encode(h.held, 'escape') COLLATE "C"), encode(convert_to(w, 'UTF8'), 'escape')) END = 0))
        AND CASE $14::int8 WHEN 1 THEN t.run_at_us > c.now_us AND t.failures = 0
                               AND NOT EXISTS (SELECT FROM @.pawl_blocked k WHERE k.task_id = t.id)
                           WHEN 2 THEN t.run_at_us > c.now_us AND t.failures > 0
                               AND NOT EXISTS (SELECT FROM @.pawl_blocked k WHERE k.task_id = t.id)
                           WHEN 5 THEN EXISTS (SELECT FROM @.pawl_blocked k WHERE k.task_id = t.id)
                           WHEN 3 THEN coalesce(t.node_alive = 1 AND t.expires_us > c.boot_us, false)
                           WHEN 4 THEN NOT coalesce(t.node_alive = 1 AND t.expires_us > c.boot_us, false)
                           ELSE true END
    ORDER BY CASE WHEN $3 THEN t.id ELSE -t.id END LIMIT $5)
SELECT i.o_end::int4::int8, i.o_to, hit.* FROM leap i LEFT JOIN hit ON true ORDER BY CASE WHEN $3 THEN hit.id ELSE -hit.id END;

-- Whether there can be a task with these names at all.
-- name: list_known
SELECT count(*) = 0 FROM unnest(ARRAY[$1::text, $2::text, $3::text]) x (text)
WHERE x.text <> '' AND NOT EXISTS (SELECT FROM @.pawl_name n WHERE n.text = x.text);

-- name: list_bounds
SELECT (SELECT min(min_id) FROM @.pawl_born WHERE hour >= $1), (SELECT max(max_id) FROM @.pawl_born WHERE hour <= $2);

-- name: acts
SELECT id, at_us, who, action, detail, task_id FROM @.pawl_oplog WHERE id < $1 ORDER BY id DESC LIMIT $2;

-- name: limits
SELECT * FROM @.pawl_limits($1, $2, $3, $4, $5, $6, $7);

-- name: places
SELECT * FROM @.pawl_places($1, $2, $3, $4, $5, $6, $7, $8, $9);

-- name: read_now
SELECT coalesce(($1::int8[])[1], @.pawl_now());

-- name: schedules_due
SELECT (w.y).*, CASE WHEN w.told THEN d.payload END, w.now_us, w.told
FROM (SELECT y, row_number() OVER o AS place, c.now_us,
          y.look_us <= c.now_us AND (row_number() OVER o = 1 OR sum(x.size) OVER o - x.size < $3::int8) AS told
      FROM (SELECT coalesce(($1::int8[])[1], @.pawl_now()) AS now_us OFFSET 0) c,
          (SELECT s.id, coalesce((SELECT octet_length(p.payload) FROM @.pawl_schedule p WHERE p.id = s.id), 0) AS size
            FROM @.pawl_schedule_state s WHERE s.look_us IS NOT NULL ORDER BY s.look_us, s.name LIMIT $2::int8 + 1) x
      JOIN @.pawl_schedule_whole y ON y.id = x.id WINDOW o AS (ORDER BY y.look_us, y.name)) w
JOIN @.pawl_schedule d ON d.id = (w.y).id ORDER BY w.place;

-- name: schedule_get
SELECT w.*, d.payload, coalesce(($1::int8[])[1], @.pawl_now()) FROM @.pawl_schedule_whole w JOIN @.pawl_schedule d ON d.id = w.id WHERE w.name = $2;

-- name: schedules_list
SELECT w.*, d.payload FROM @.pawl_schedule_whole w JOIN @.pawl_schedule d ON d.id = w.id
WHERE w.name > $1::text AND w.name >= $2::text AND w.name <= $2::text || chr(1114111) AND (w.off = 0 OR NOT $3::bool) AND (w.off <> 0 OR NOT $4::bool)
ORDER BY w.name LIMIT $5::int8;

-- name: occurrences
SELECT schedule_id, occurrence, state::int8, at_us, task_id, count, why FROM @.pawl_occurrence WHERE schedule_id = $1 ORDER BY number DESC LIMIT 10000;

-- name: occurrences_waiting
SELECT u.id, o.occurrence, 1::int8, o.at_us, o.task_id, o.count, o.why
FROM unnest($1::int8[]) WITH ORDINALITY u (id, i),
    LATERAL (SELECT * FROM @.pawl_occurrence x WHERE x.schedule_id = u.id AND x.state = 1 ORDER BY x.number LIMIT 100) o
ORDER BY u.i, o.number;

-- name: relatives
SELECT * FROM @.pawl_relatives($1, $2, $3, $4, $5);

-- name: batch_get
SELECT * FROM @.pawl_batch_whole WHERE id = $1;

-- name: batch_named
SELECT * FROM @.pawl_batch_whole WHERE name = $1;

-- name: batch_list
SELECT * FROM @.pawl_batch_whole WHERE id < $1::int8 AND (ended_us IS NULL OR NOT $2::bool) ORDER BY id DESC LIMIT $3::int8;
