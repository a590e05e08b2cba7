-- Tasks as people see them: the body, and whatever table has the rest.

-- pulse: of a leased task, whether its node's lease lasts at this time of the server; the other half of what `stale` means.
CREATE OR REPLACE VIEW pawl_task AS
SELECT b.id, CASE WHEN l.id IS NOT NULL THEN 3::int2 ELSE coalesce(v.state, e.state) END AS state, b.created_us, b.priority, b.audit,
    b.max_attempts, b.timeout_us, b.retry_of, b.type_id, b.queue_id, b.tenant_id, tn.text AS type, qn.text AS queue, en.text AS tenant,
    b.key, coalesce(b.content_type, 'application/json') AS content_type, b.created_by, b.traceparent, b.headers, b.rate_key,
    coalesce(l.run_at_us, v.run_at_us, e.run_at_us, l.leased_us, b.created_us) AS run_at_us,
    coalesce(l.started_us, l.leased_us, e.started_us) AS started_us, e.finished_us, coalesce(l.runs, v.runs, e.runs) AS runs,
    coalesce(l.failures, v.failures, e.failures) AS failures, coalesce(l.interruptions, v.interruptions, e.interruptions) AS interruptions,
    coalesce(l.rescues, v.rescues, e.rescues) AS rescues, coalesce(l.fence, v.fence, e.fence) AS fence, coalesce(l.node, e.node) AS node,
    n.name AS node_name, coalesce(l.cancel_asked, e.flags & 2 <> 0, false) AS cancel_asked, coalesce(l.not_started, false) AS not_started,
    coalesce(l.progress, e.progress) AS progress, coalesce(l.progress_text, e.progress_text) AS progress_text,
    CASE WHEN e.id IS NOT NULL THEN e.code ELSE a.code END AS code, CASE WHEN e.id IS NOT NULL THEN e.error ELSE a.error END AS error,
    e.reason, e.result_type, e.result_ref, e.retried_as, e.resolved_us, e.resolved_by, e.note, n.alive AS node_alive,
    CASE WHEN l.id IS NOT NULL THEN (SELECT max(h.expires_us) FROM pawl_lanes_of(l.node) h) END AS expires_us, e.outcome, e.run_us,
    e.log_lines, b.born,
    coalesce(l.level, b.level) AS level, e.level AS end_level, e.flags, coalesce(l.leased_us, e.leased_us, b.created_us) AS leased_us,
    b.payload, e.result
FROM pawl_body b
JOIN pawl_name tn ON tn.id = b.type_id
JOIN pawl_name qn ON qn.id = b.queue_id
LEFT JOIN pawl_name en ON en.id = b.tenant_id
LEFT JOIN pawl_leased l ON l.id = b.id
LEFT JOIN pawl_live v ON v.id = b.id
LEFT JOIN LATERAL (
    SELECT d.id, d.finished_us, d.started_us, d.run_us, d.node, d.fence, d.runs, d.failures, d.interruptions, d.rescues, d.state, d.outcome,
        d.level, d.flags, d.leased_us, d.run_at_us, d.log_lines, d.progress, d.progress_text, d.code, d.error, d.reason, d.retried_as,
        d.result_type, d.result_ref, d.result, NULL::int8 AS resolved_us, NULL::text AS resolved_by, NULL::text AS note
    FROM pawl_done d WHERE d.id = b.id
    UNION ALL
    SELECT f.id, f.finished_us, f.started_us, f.run_us, f.node, f.fence, f.runs, f.failures, f.interruptions, f.rescues, f.state, f.outcome,
        f.level, f.flags, f.leased_us, f.run_at_us, f.log_lines, f.progress, f.progress_text, f.code, f.error, f.reason, f.retried_as,
        f.result_type, f.result_ref, f.result, f.resolved_us, f.resolved_by, f.note
    FROM pawl_failed f WHERE f.id = b.id
    LIMIT 1) e ON true
LEFT JOIN LATERAL (SELECT t.code, t.error FROM pawl_attempt t WHERE t.task_id = b.id ORDER BY t.number DESC LIMIT 1) a ON e.id IS NULL
LEFT JOIN pawl_node n ON n.id = coalesce(l.node, e.node)
WHERE l.id IS NOT NULL OR v.id IS NOT NULL OR e.id IS NOT NULL;
