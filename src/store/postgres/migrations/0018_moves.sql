-- Our sessions join by index alone, which a page of a move must not: what is joined there was gathered before, and has no index. Who holds
-- a key is asked of each task that has one: EXISTS may be answered by a look at all keys there are, once a page.
CREATE OR REPLACE FUNCTION pawl_dump_tasks(p_after int8, p_last int8, p_states int4, p_since int8)
RETURNS TABLE (id int8, state int2, type text, queue text, tenant text, created_us int8, priority int2, born int2, level int2, audit int2,
               max_attempts int4, timeout_us int8, retry_of int8, key text, content_type text, created_by text, traceparent text,
               headers text, rate_key bytea, payload bytea, holds bool, class int2, strikes int2, run_at_us int8, fence int4, runs int4,
               failures int4, interruptions int4, rescues int4, node text, leased_us int8, started_us int8, cancel_asked bool,
               progress int2, progress_text text, finished_us int8, run_us int8, outcome int2, end_level int2, flags int2, log_lines int4,
               code text, error text, reason text, retried_as int8, result_type text, result_ref text, result bytea, resolved_us int8,
               resolved_by text, note text)
LANGUAGE plpgsql STABLE SET search_path FROM CURRENT SET plan_cache_mode = force_custom_plan SET enable_seqscan = off
SET enable_nestloop = off SET enable_hashjoin = on SET jit = off AS $$
BEGIN
    RETURN QUERY
    WITH ended AS MATERIALIZED (
        SELECT d.*, NULL::int8 AS resolved_us, NULL::text AS resolved_by, NULL::text AS note FROM pawl_done d
        WHERE d.id > p_after AND d.id <= p_last AND (p_states >> d.state) & 1 = 1 AND d.finished_us >= p_since
        UNION ALL
        SELECT f.* FROM pawl_failed f
        WHERE f.id > p_after AND f.id <= p_last AND (p_states >> f.state) & 1 = 1
            AND (f.finished_us >= p_since OR f.resolved_us >= p_since)),
    live AS MATERIALIZED (
        SELECT v.id, v.state, v.class, v.strikes, CASE WHEN s.task_id IS NULL THEN v.run_at_us ELSE 0 END AS run_at_us, v.fence, v.runs, v.failures, v.interruptions, v.rescues, 0 AS node,
            NULL::int8 AS leased_us, NULL::int8 AS started_us, false AS cancel_asked, NULL::int2 AS progress, NULL::text AS progress_text
        FROM pawl_live v LEFT JOIN pawl_slotted s ON s.task_id = v.id AND s.task_id > p_after AND s.task_id <= p_last
        WHERE v.id > p_after AND v.id <= p_last AND (p_states >> v.state) & 1 = 1
        UNION ALL
        SELECT l.id, 3::int2, l.class, l.strikes, l.run_at_us, l.fence, l.runs, l.failures, l.interruptions, l.rescues, l.node,
            l.leased_us, l.started_us, l.cancel_asked, l.progress, l.progress_text
        FROM pawl_leased l WHERE l.id > p_after AND l.id <= p_last AND (p_states >> 3) & 1 = 1)
    SELECT b.id, coalesce(v.state, e.state), tn.text::text, qn.text::text, coalesce(en.text, '')::text, b.created_us, b.priority, b.born,
        b.level, b.audit, b.max_attempts, b.timeout_us, b.retry_of, b.key::text, coalesce(b.content_type, 'application/json'),
        b.created_by, b.traceparent, b.headers, b.rate_key, b.payload,
        b.key IS NOT NULL AND coalesce((SELECT k.task_id = b.id FROM pawl_key k WHERE k.key = b.key AND k.tenant_id = coalesce(b.tenant_id, 0)
                                            AND k.old = 0), false),
        v.class, v.strikes, coalesce(v.run_at_us, e.run_at_us), coalesce(v.fence, e.fence), coalesce(v.runs, e.runs),
        coalesce(v.failures, e.failures), coalesce(v.interruptions, e.interruptions), coalesce(v.rescues, e.rescues), n.name,
        coalesce(v.leased_us, e.leased_us), coalesce(v.started_us, e.started_us), coalesce(v.cancel_asked, e.flags & 2 <> 0),
        coalesce(v.progress, e.progress), coalesce(v.progress_text, e.progress_text), e.finished_us, e.run_us, e.outcome, e.level, e.flags,
        e.log_lines, e.code, e.error, e.reason, e.retried_as, e.result_type, e.result_ref, e.result, e.resolved_us, e.resolved_by, e.note
    FROM pawl_body b
    LEFT JOIN live v ON v.id = b.id LEFT JOIN ended e ON e.id = b.id
    JOIN pawl_name tn ON tn.id = b.type_id JOIN pawl_name qn ON qn.id = b.queue_id LEFT JOIN pawl_name en ON en.id = b.tenant_id
    LEFT JOIN pawl_node n ON n.id = coalesce(nullif(v.node, 0), e.node)
    WHERE b.id > p_after AND b.id <= p_last AND (v.id IS NOT NULL OR e.id IS NOT NULL)
    ORDER BY b.id;
END $$;
