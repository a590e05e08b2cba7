-- Tasks, limits, families and schedules that come from another store or go there: see pawl_dump and pawl_load in pawl/store.h.

-- ---- dump -------------------------------------------------------------------------------------------------------------------------

-- The last id of the next page: p_limit tasks at most, and about p_bytes bytes of them (0: whatever they have).
CREATE OR REPLACE FUNCTION pawl_dump_range(p_after int8, p_limit int4, p_bytes int8, OUT looked int8, OUT last int8, OUT more bool)
LANGUAGE plpgsql STABLE SET search_path FROM CURRENT SET enable_seqscan = off SET jit = off AS $$
BEGIN
    IF p_bytes > 0 THEN
        SELECT count(*), max(s.id) INTO looked, last FROM (
            SELECT x.id, sum(x.size) OVER (ORDER BY x.id) - x.size AS before FROM (
                SELECT b.id, 256 + coalesce(octet_length(b.payload), 0) + coalesce(octet_length(b.headers), 0)
                    + coalesce((SELECT sum(octet_length(l.text)) FROM pawl_runlog l WHERE l.task_id = b.id), 0) AS size
                FROM pawl_body b WHERE b.id > p_after ORDER BY b.id LIMIT p_limit) x) s WHERE s.before < p_bytes;
    ELSE
        SELECT count(*), max(s.id) INTO looked, last FROM (SELECT b.id FROM pawl_body b WHERE b.id > p_after ORDER BY b.id LIMIT p_limit) s;
    END IF;
    more := looked > 0 AND EXISTS (SELECT FROM pawl_body b WHERE b.id > last);
END $$;

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

-- ---- load -------------------------------------------------------------------------------------------------------------------------

-- The gate lets this page in: false, if it was loaded before.
CREATE OR REPLACE FUNCTION pawl_arrive(p_move text, p_before text, p_position text) RETURNS bool LANGUAGE plpgsql AS $$
DECLARE
    g pawl_gate;
BEGIN
    IF p_move IS NULL THEN
        IF pawl_closed() THEN RAISE EXCEPTION 'it is closed for a move' USING ERRCODE = 'PW004'; END IF;
        RETURN true;
    END IF;
    SELECT * INTO g FROM pawl_gate FOR UPDATE;
    IF g.mode <> 3 OR g.move IS DISTINCT FROM p_move THEN
        RAISE EXCEPTION 'the store does not take part in this move any more' USING ERRCODE = 'PW005';
    END IF;
    IF coalesce(g.position, '') <> coalesce(p_before, '') THEN RETURN false; END IF;
    UPDATE pawl_gate SET position = p_position;
    RETURN true;
END $$;

-- Nodes of another store leave their names only: one swept node for each.
CREATE OR REPLACE FUNCTION pawl_past_nodes(p_now int8, p_names text[]) RETURNS int4[] LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO pawl_node (name, pid, queues, types, lease_us, born_us, alive, gone, locked, died_us, blame)
    SELECT x.name, 0, '', '', 0, p_now, -1, true, false, p_now, 0 FROM unnest(p_names) x (name)
    WHERE NOT EXISTS (SELECT FROM pawl_node n WHERE n.name = x.name AND n.alive = -1 AND n.lease_us = 0);
    RETURN ARRAY(SELECT (SELECT min(n.id) FROM pawl_node n WHERE n.name = u.name AND n.alive = -1 AND n.lease_us = 0)
                 FROM unnest(p_names) WITH ORDINALITY u (name, i) ORDER BY u.i);
END $$;

-- Tables of pawl_done for days that have passed.
CREATE OR REPLACE FUNCTION pawl_past_days(p_finished int8[]) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
    d int8;
BEGIN
    FOR d IN SELECT DISTINCT f / 86400000000 FROM unnest(p_finished) f WHERE f IS NOT NULL LOOP
        IF NOT EXISTS (SELECT FROM pawl_day WHERE day = d) THEN PERFORM pawl_days(ARRAY[d * 86400000000], 0); END IF;
    END LOOP;
END $$;

-- t_ tasks, a_ attempts before the last one, l_ logs, c_ rows of the trail. t_node, a_node and c_node count in p_nodes, from 1. present: ids
-- that were there; taken: ids that another task has; held: an import whose key is that of a live task. PAWL_LEASED comes as pending.
CREATE OR REPLACE FUNCTION pawl_load(
    p_clock int8[], p_wait_ms int4, p_move text, p_before text, p_position text, p_nodes text[],
    t_id int8[], t_state int2[], t_created int8[], t_type int4[], t_queue int4[], t_tenant int4[], t_priority int2[], t_born int2[],
    t_level int2[], t_audit int2[], t_max int4[], t_timeout int8[], t_retry_of int8[], t_key text[], t_content_type text[],
    t_created_by text[], t_traceparent text[], t_headers text[], t_rate_key bytea[], t_payload bytea[], t_holds bool[],
    t_class int2[], t_strikes int2[], t_run_at int8[], t_fence int4[], t_runs int4[], t_failures int4[], t_interruptions int4[],
    t_rescues int4[], t_node int4[], t_leased int8[], t_started int8[], t_progress int2[], t_progress_text text[], t_finished int8[],
    t_run int8[], t_outcome int2[], t_end_level int2[], t_flags int2[], t_lines int4[], t_code text[], t_error text[], t_reason text[],
    t_retried_as int8[], t_result_type text[], t_result_ref text[], t_result bytea[], t_resolved int8[], t_resolved_by text[],
    t_note text[],
    a_task int8[], a_number int4[], a_outcome int2[], a_started int8[], a_finished int8[], a_fence int4[], a_node int4[], a_lines int4[],
    a_code text[], a_error text[],
    l_task int8[], l_number int4[], l_at int8[], l_text text[],
    c_task int8[], c_number int4[], c_at int8[], c_from int2[], c_to int2[], c_fence int4[], c_node int4[], c_detail text[],
    OUT stale bool, OUT present int8[], OUT taken int8[], OUT held int8[])
LANGUAGE plpgsql SET search_path FROM CURRENT SET plan_cache_mode = force_generic_plan SET enable_seqscan = off SET jit = off AS $$
DECLARE
    v_now int8 := coalesce(p_clock[1], pawl_now());
    v_nodes int4[];
    v_old int8[];
    r record;
BEGIN
    PERFORM pawl_begin(p_wait_ms);
    present := '{}';
    taken := '{}';
    held := '{}';
    stale := NOT pawl_arrive(p_move, p_before, p_position);
    IF stale THEN RETURN; END IF;
    PERFORM pawl_past_days(t_finished);
    v_nodes := pawl_past_nodes(v_now, p_nodes);
    v_old := ARRAY(SELECT b.id FROM pawl_body b WHERE b.id = ANY (t_id));
    IF p_move IS NULL AND t_key IS NOT NULL THEN -- in a move a key has one live task at most, as it had there
        held := ARRAY(SELECT u.id FROM unnest(t_id, t_key, t_tenant, t_state) u (id, key, tenant, state)
                      JOIN pawl_key k ON k.key = u.key AND k.tenant_id = coalesce(u.tenant, 0) AND k.old = 0
                      WHERE u.state IN (1, 2) AND k.task_id <> u.id AND u.id <> ALL (v_old)
                          AND (EXISTS (SELECT FROM pawl_live v WHERE v.id = ANY (ARRAY[k.task_id]))
                               OR EXISTS (SELECT FROM pawl_leased l WHERE l.id = ANY (ARRAY[k.task_id]))));
        v_old := v_old || held;
    END IF;
    INSERT INTO pawl_body (id, created_us, type_id, queue_id, priority, born, level, audit, tenant_id, max_attempts, timeout_us, retry_of,
                           key, content_type, created_by, traceparent, headers, rate_key, payload)
    SELECT u.* FROM unnest(t_id, t_created, t_type, t_queue, t_priority, t_born, t_level, t_audit, t_tenant, t_max, t_timeout, t_retry_of,
                           t_key, t_content_type, t_created_by, t_traceparent, t_headers, t_rate_key, t_payload)
        u (id, created_us, type_id, queue_id, priority, born, level, audit, tenant_id, max_attempts, timeout_us, retry_of, key,
           content_type, created_by, traceparent, headers, rate_key, payload)
    WHERE u.id <> ALL (v_old);
    INSERT INTO pawl_live (id, run_at_us, queue_id, type_id, fence, priority, class, state, level, runs, failures, interruptions, rescues,
                           strikes, blocked)
    SELECT u.id, coalesce(u.run_at, u.created), u.queue, u.type, u.fence, u.priority, u.class, u.state, u.level, u.runs, u.failures,
        u.interruptions, u.rescues, u.strikes, false
    FROM unnest(t_id, t_run_at, t_created, t_queue, t_type, t_fence, t_priority, t_class, t_state, t_level, t_runs, t_failures,
                t_interruptions, t_rescues, t_strikes)
        u (id, run_at, created, queue, type, fence, priority, class, state, level, runs, failures, interruptions, rescues, strikes)
    WHERE u.state IN (1, 2) AND u.id <> ALL (v_old);
    INSERT INTO pawl_done (id, finished_us, started_us, run_us, node, fence, runs, failures, interruptions, rescues, state, outcome, level,
                           flags, leased_us, run_at_us, log_lines, progress, progress_text, code, error, reason, retried_as, result_type,
                           result_ref, result)
    SELECT u.id, u.finished, u.started, u.run, coalesce(v_nodes[u.node], 0), u.fence, u.runs, u.failures, u.interruptions, u.rescues,
        u.state, u.outcome, u.level, u.flags, u.leased, u.run_at, u.lines, u.progress, u.progress_text, u.code, u.error, u.reason,
        u.retried_as, u.result_type, u.result_ref, u.result
    FROM unnest(t_id, t_finished, t_started, t_run, t_node, t_fence, t_runs, t_failures, t_interruptions, t_rescues, t_state, t_outcome,
                t_end_level, t_flags, t_leased, t_run_at, t_lines, t_progress, t_progress_text, t_code, t_error, t_reason, t_retried_as,
                t_result_type, t_result_ref, t_result)
        u (id, finished, started, run, node, fence, runs, failures, interruptions, rescues, state, outcome, level, flags, leased, run_at,
           lines, progress, progress_text, code, error, reason, retried_as, result_type, result_ref, result)
    WHERE u.state IN (4, 6) AND u.id <> ALL (v_old);
    INSERT INTO pawl_failed (id, finished_us, started_us, run_us, node, fence, runs, failures, interruptions, rescues, state, outcome,
                             level, flags, leased_us, run_at_us, log_lines, progress, progress_text, code, error, reason, retried_as,
                             result_type, result_ref, result, resolved_us, resolved_by, note)
    SELECT u.id, u.finished, u.started, u.run, coalesce(v_nodes[u.node], 0), u.fence, u.runs, u.failures, u.interruptions, u.rescues,
        u.state, u.outcome, u.level, u.flags, u.leased, u.run_at, u.lines, u.progress, u.progress_text, u.code, u.error, u.reason,
        u.retried_as, u.result_type, u.result_ref, u.result, u.resolved, u.resolved_by, u.note
    FROM unnest(t_id, t_finished, t_started, t_run, t_node, t_fence, t_runs, t_failures, t_interruptions, t_rescues, t_state, t_outcome,
                t_end_level, t_flags, t_leased, t_run_at, t_lines, t_progress, t_progress_text, t_code, t_error, t_reason, t_retried_as,
                t_result_type, t_result_ref, t_result, t_resolved, t_resolved_by, t_note)
        u (id, finished, started, run, node, fence, runs, failures, interruptions, rescues, state, outcome, level, flags, leased, run_at,
           lines, progress, progress_text, code, error, reason, retried_as, result_type, result_ref, result, resolved, resolved_by, note)
    WHERE u.state = 5 AND u.id <> ALL (v_old);
    IF a_task IS NOT NULL THEN
        INSERT INTO pawl_attempt (task_id, number, outcome, started_us, finished_us, fence, node, log_lines, code, error)
        SELECT u.task, u.number, u.outcome, u.started, u.finished, u.fence, coalesce(v_nodes[u.node], 0), u.lines, u.code, u.error
        FROM unnest(a_task, a_number, a_outcome, a_started, a_finished, a_fence, a_node, a_lines, a_code, a_error)
            u (task, number, outcome, started, finished, fence, node, lines, code, error) WHERE u.task <> ALL (v_old);
    END IF;
    IF l_task IS NOT NULL THEN
        INSERT INTO pawl_runlog (task_id, number, at_us, text)
        SELECT u.* FROM unnest(l_task, l_number, l_at, l_text) u (task, number, at, text) WHERE u.task <> ALL (v_old);
    END IF;
    IF c_task IS NOT NULL THEN
        INSERT INTO pawl_audit (task_id, number, at_us, from_state, to_state, fence, node, detail)
        SELECT u.task, u.number, u.at, u.a, u.b, u.fence, coalesce(v_nodes[u.node], 0), u.detail
        FROM unnest(c_task, c_number, c_at, c_from, c_to, c_fence, c_node, c_detail) u (task, number, at, a, b, fence, node, detail)
        WHERE u.task <> ALL (v_old);
    END IF;
    IF t_key IS NOT NULL THEN PERFORM pawl_load_keys(t_id, t_key, t_tenant, t_holds); END IF;
    FOR r IN SELECT u.queue, count(*) FILTER (WHERE u.state = 1) AS waiting, count(*) FILTER (WHERE u.state = 2) AS pending,
                 count(*) FILTER (WHERE u.state = 5 AND u.resolved IS NULL) AS failed
             FROM unnest(t_id, t_queue, t_state, t_resolved) u (id, queue, state, resolved) WHERE u.id <> ALL (v_old)
             GROUP BY u.queue ORDER BY u.queue LOOP
        INSERT INTO pawl_queue (queue_id) VALUES (r.queue) ON CONFLICT DO NOTHING;
        INSERT INTO pawl_count AS c (node, lane, queue_id, waiting, pending, failed)
        VALUES (0, CASE WHEN p_move IS NULL THEN nextval('pawl_slot') ELSE 0 END, r.queue, r.waiting, r.pending, r.failed)
        ON CONFLICT (node, lane, queue_id, turn) DO UPDATE SET waiting = c.waiting + r.waiting, pending = c.pending + r.pending,
            failed = c.failed + r.failed;
    END LOOP;
    FOR r IN SELECT min(u.created) AS created, min(u.id) AS min_id, max(u.id) AS max_id FROM unnest(t_id, t_created) u (id, created)
             GROUP BY u.created / 3600000000 LOOP
        PERFORM pawl_bear(r.created, 0, CASE WHEN p_move IS NULL THEN nextval('pawl_slot') ELSE 0 END, r.min_id, r.max_id);
    END LOOP;
    IF t_retry_of IS NOT NULL THEN
        UPDATE pawl_done d SET retried_as = u.id FROM unnest(t_id, t_retry_of) u (id, old)
        WHERE d.id = ANY (ARRAY[u.old]) AND d.retried_as IS NULL AND u.id <> ALL (v_old);
        UPDATE pawl_failed d SET retried_as = u.id FROM unnest(t_id, t_retry_of) u (id, old)
        WHERE d.id = ANY (ARRAY[u.old]) AND d.retried_as IS NULL AND u.id <> ALL (v_old);
    END IF;
    IF cardinality(v_old) = 0 THEN RETURN; END IF;
    SELECT coalesce(array_agg(u.id) FILTER (WHERE b.created_us = u.created AND b.type_id = u.type), '{}'),
        coalesce(array_agg(u.id) FILTER (WHERE NOT (b.created_us = u.created AND b.type_id = u.type)), '{}') INTO present, taken
    FROM unnest(t_id, t_created, t_type) u (id, created, type) JOIN pawl_body b ON b.id = u.id WHERE u.id = ANY (v_old) AND u.id <> ALL (held);
    -- What people did to those that are there may be new.
    UPDATE pawl_done d SET retried_as = u.retried_as FROM unnest(t_id, t_retried_as) u (id, retried_as)
    WHERE d.id = ANY (ARRAY[u.id]) AND d.retried_as IS NULL AND u.retried_as IS NOT NULL AND u.id = ANY (present);
    UPDATE pawl_failed d SET retried_as = u.retried_as FROM unnest(t_id, t_retried_as) u (id, retried_as)
    WHERE d.id = ANY (ARRAY[u.id]) AND d.retried_as IS NULL AND u.retried_as IS NOT NULL AND u.id = ANY (present);
    FOR r IN
        WITH x AS (
            UPDATE pawl_failed d SET resolved_us = u.resolved, resolved_by = u.resolved_by, note = u.note
            FROM unnest(t_id, t_resolved, t_resolved_by, t_note) u (id, resolved, resolved_by, note)
            WHERE d.id = ANY (ARRAY[u.id]) AND d.resolved_us + 0 IS NULL AND u.resolved IS NOT NULL AND u.id = ANY (present) RETURNING d.id)
        SELECT b.queue_id, count(*) AS n FROM x JOIN pawl_body b ON b.id = x.id GROUP BY 1 LOOP
        PERFORM pawl_add(0, 0, r.queue_id, 0, 0, -r.n);
    END LOOP;
END $$;

-- The one that comes last and says that it has the key has it.
CREATE OR REPLACE FUNCTION pawl_load_keys(t_id int8[], t_key text[], t_tenant int4[], t_holds bool[]) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
    r record;
    v_holder int8;
BEGIN
    FOR r IN SELECT u.id, u.key, coalesce(u.tenant, 0) AS tenant, coalesce(u.holds, false) AS holds
             FROM unnest(t_id, t_key, t_tenant, t_holds) u (id, key, tenant, holds) WHERE u.key IS NOT NULL ORDER BY u.key, 3, u.id LOOP
        CONTINUE WHEN NOT EXISTS (SELECT FROM pawl_body b WHERE b.id = r.id AND b.key = r.key);
        SELECT task_id INTO v_holder FROM pawl_key WHERE key = r.key AND tenant_id = r.tenant AND old = 0 FOR UPDATE;
        IF NOT FOUND THEN
            INSERT INTO pawl_key (key, tenant_id, old, task_id) VALUES (r.key, r.tenant, 0, r.id);
        ELSIF v_holder = r.id THEN
            CONTINUE;
        ELSIF r.holds THEN
            INSERT INTO pawl_key (key, tenant_id, old, task_id) VALUES (r.key, r.tenant, v_holder, v_holder) ON CONFLICT DO NOTHING;
            UPDATE pawl_key SET task_id = r.id WHERE key = r.key AND tenant_id = r.tenant AND old = 0;
        ELSE
            INSERT INTO pawl_key (key, tenant_id, old, task_id) VALUES (r.key, r.tenant, r.id, r.id) ON CONFLICT DO NOTHING;
        END IF;
    END LOOP;
END $$;

-- wait and run: "<bucket> <count>;" for each that is not 0.
CREATE OR REPLACE FUNCTION pawl_histogram_read(p_text text) RETURNS int8[] LANGUAGE plpgsql IMMUTABLE AS $$
DECLARE
    v_counts int8[];
    x text;
BEGIN
    FOREACH x IN ARRAY coalesce(string_to_array(trim(TRAILING ';' FROM p_text), ';'), '{}') LOOP
        IF v_counts IS NULL THEN v_counts := '{0}'; END IF;
        v_counts[split_part(x, ' ', 1)::int4 + 1] := split_part(x, ' ', 2)::int8;
    END LOOP;
    RETURN v_counts;
END $$;

CREATE OR REPLACE FUNCTION pawl_load_minutes(p_clock int8[], p_wait_ms int4, p_move text, p_before text, p_position text, p_minute int8[],
                                  p_queue int4[], p_type int4[], p_outcome int2[], p_count int8[], p_wait text[], p_run text[])
RETURNS bool LANGUAGE plpgsql SET search_path FROM CURRENT AS $$
BEGIN
    PERFORM pawl_begin(p_wait_ms);
    IF NOT pawl_arrive(p_move, p_before, p_position) THEN RETURN false; END IF;
    INSERT INTO pawl_rollup (minute, node, lane, queue_id, type_id, outcome, count, wait, run)
    SELECT u.minute, 0, 0, u.queue, u.type, u.outcome, u.count, pawl_histogram_read(u.wait), pawl_histogram_read(u.run)
    FROM unnest(p_minute, p_queue, p_type, p_outcome, p_count, p_wait, p_run) u (minute, queue, type, outcome, count, wait, run)
    ON CONFLICT (minute, node, lane, queue_id, type_id, outcome, turn) DO UPDATE SET count = excluded.count,
        wait = excluded.wait, run = excluded.run;
    RETURN true;
END $$;

CREATE OR REPLACE FUNCTION pawl_load_acts(p_clock int8[], p_wait_ms int4, p_move text, p_before text, p_position text, p_at int8[], p_who text[],
                               p_action text[], p_task int8[], p_detail text[])
RETURNS bool LANGUAGE plpgsql SET search_path FROM CURRENT AS $$
BEGIN
    PERFORM pawl_begin(p_wait_ms);
    IF NOT pawl_arrive(p_move, p_before, p_position) THEN RETURN false; END IF;
    INSERT INTO pawl_oplog (at_us, who, action, task_id, detail)
    SELECT u.at, u.who, u.action, u.task, u.detail
    FROM unnest(p_at, p_who, p_action, p_task, p_detail) WITH ORDINALITY u (at, who, action, task, detail, i) ORDER BY u.i;
    RETURN true;
END $$;

CREATE OR REPLACE FUNCTION pawl_load_settings(p_clock int8[], p_wait_ms int4, p_move text, p_before text, p_position text, p_queue int4[],
                                   p_paused bool[], p_number int4[], p_ceiling int8[], p_last_id int8, p_audit_cut int8)
RETURNS bool LANGUAGE plpgsql SET search_path FROM CURRENT AS $$
BEGIN
    PERFORM pawl_begin(p_wait_ms);
    IF NOT pawl_arrive(p_move, p_before, p_position) THEN RETURN false; END IF;
    INSERT INTO pawl_queue AS q (queue_id, paused) SELECT u.queue, u.paused FROM unnest(p_queue, p_paused) u (queue, paused)
    ON CONFLICT (queue_id) DO UPDATE SET paused = q.paused OR excluded.paused;
    UPDATE pawl_number m SET ceiling_ms = u.ceiling FROM unnest(p_number, p_ceiling) u (number, ceiling)
    WHERE m.number = u.number AND m.ceiling_ms < u.ceiling;
    IF p_last_id > 0 THEN
        PERFORM setval('pawl_drawn', greatest(last_value, (p_last_id >> 22) * 4096 + (p_last_id & 4095))) FROM pawl_drawn;
    END IF;
    IF p_audit_cut IS NOT NULL THEN
        INSERT INTO pawl_meta (key, value) VALUES ('audit_cut_us', p_audit_cut::text)
        ON CONFLICT (key) DO UPDATE SET value = greatest(pawl_meta.value::int8, p_audit_cut)::text;
    END IF;
    RETURN true;
END $$;

CREATE OR REPLACE FUNCTION pawl_load_limits(p_clock int8[], p_wait_ms int4, p_move text, p_before text, p_position text, p_type int4[], p_key bytea[],
                                 p_permits int4[], p_period int8[], p_burst int4[], p_horizon int8[], p_flags int4[])
RETURNS bool LANGUAGE plpgsql SET search_path FROM CURRENT AS $$
BEGIN
    PERFORM pawl_begin(p_wait_ms);
    IF NOT pawl_arrive(p_move, p_before, p_position) THEN RETURN false; END IF;
    IF cardinality(p_type) = 0 THEN RETURN true; END IF;
    UPDATE pawl_gate SET limits = limits + 1;
    INSERT INTO pawl_limit (type_id, key, permits, period_us, burst, horizon_us, flags, changed_us)
    SELECT u.*, coalesce(p_clock[1], pawl_now()) FROM unnest(p_type, p_key, p_permits, p_period, p_burst, p_horizon, p_flags) u
    ON CONFLICT (type_id, key) DO UPDATE SET permits = excluded.permits, period_us = excluded.period_us, burst = excluded.burst,
        horizon_us = excluded.horizon_us, flags = excluded.flags, changed_us = excluded.changed_us;
    RETURN true;
END $$;

-- Whoever calls has settled them.
CREATE OR REPLACE FUNCTION pawl_load_budgets(p_clock int8[], p_wait_ms int4, p_move text, p_before text, p_position text, p_type int4[], p_key bytea[],
                                  p_tat int8[], p_part int4[], p_permits int4[], p_period int8[], p_burst int4[], p_seen int8[], p_epoch int8[])
RETURNS bool LANGUAGE plpgsql SET search_path FROM CURRENT AS $$
BEGIN
    PERFORM pawl_begin(p_wait_ms);
    IF NOT pawl_arrive(p_move, p_before, p_position) THEN RETURN false; END IF;
    INSERT INTO pawl_budget (type_id, key, tat_us, tat_part, permits, period_us, burst, seen_us, epoch)
    SELECT u.* FROM unnest(p_type, p_key, p_tat, p_part, p_permits, p_period, p_burst, p_seen, p_epoch) u
    ON CONFLICT (type_id, key) DO UPDATE SET tat_us = excluded.tat_us, tat_part = excluded.tat_part, permits = excluded.permits,
        period_us = excluded.period_us, burst = excluded.burst, seen_us = excluded.seen_us, epoch = excluded.epoch, last_id = 0, last_slot_us = 0;
    RETURN true;
END $$;

-- ---- moving to another store ------------------------------------------------------------------------------------------------------

-- Which of these pending tasks are in the line of an ordered key: 2 whose turn it is, 1 who waits. See pawl_line in pawl/store.h.
CREATE OR REPLACE FUNCTION pawl_dump_lines(p_ids int8[]) RETURNS TABLE (task_id int8, line int8) LANGUAGE plpgsql STABLE SET search_path FROM CURRENT AS $$
BEGIN
    IF (SELECT bounds FROM pawl_gate) = 0 THEN RETURN; END IF;
    RETURN QUERY
    SELECT p.task_id, 2::int8 FROM pawl_place p JOIN pawl_spot s ON s.id = p.spot_id WHERE p.task_id = ANY (p_ids) AND s.scope = 3
    UNION ALL
    SELECT k.task_id, 1::int8 FROM pawl_blocked k JOIN pawl_spot s ON s.id = k.spot_id, LATERAL pawl_bound_for(s.scope, s.name_id, s.key) b
    WHERE k.task_id = ANY (p_ids) AND s.scope = 3 AND b.ordered
    ORDER BY 1, 2 DESC;
END $$;

-- Tasks that were just loaded, but for those in p_not, take their places: in the lines of ordered keys as they did before (NULL: nobody was
-- in one), and among those who wait for their tenant's turn.
CREATE OR REPLACE FUNCTION pawl_load_lines(p_stale bool, p_not int8[], p_ids int8[], p_line int2[]) RETURNS bool
LANGUAGE plpgsql SET search_path FROM CURRENT AS $$
DECLARE
    v_did bool;
    r record;
BEGIN
    IF p_stale OR (SELECT bounds FROM pawl_gate) = 0 THEN RETURN false; END IF;
    IF p_line IS NOT NULL THEN
        SELECT array_agg(u.id ORDER BY u.id) AS id, array_agg(u.line ORDER BY u.id) AS line, array_agg(3::int2) AS scope,
            array_agg(b.type_id ORDER BY u.id) AS name, array_agg(pawl_rate_key(b.rate_key) ORDER BY u.id) AS key, array_agg(true) AS make
        INTO r FROM unnest(p_ids, p_line) u (id, line) JOIN pawl_body b ON b.id = ANY (ARRAY[u.id]) JOIN pawl_live v ON v.id = ANY (ARRAY[u.id])
        WHERE u.line > 0 AND u.id <> ALL (p_not) AND v.state = 2 AND length(b.rate_key) > 0;
        IF r.id IS NOT NULL THEN
            SELECT h.o_ids AS spot, r.id AS id, r.line AS line INTO r FROM pawl_hold_spots(r.scope, r.name, r.key, r.make, '{}', 0) h;
            v_did := pawl_take_places(ARRAY(SELECT u.spot FROM unnest(r.spot, r.line) WITH ORDINALITY u (spot, line, i) WHERE u.line = 2 ORDER BY u.i),
                                      ARRAY(SELECT u.id FROM unnest(r.id, r.line) WITH ORDINALITY u (id, line, i) WHERE u.line = 2 ORDER BY u.i));
            v_did := pawl_block(ARRAY(SELECT u.id FROM unnest(r.id, r.line) WITH ORDINALITY u (id, line, i) WHERE u.line = 1 ORDER BY u.i),
                                ARRAY(SELECT u.spot FROM unnest(r.spot, r.line) WITH ORDINALITY u (spot, line, i) WHERE u.line = 1 ORDER BY u.i));
        END IF;
    END IF;
    RETURN pawl_share(ARRAY(SELECT u FROM unnest(p_ids) u WHERE u <> ALL (p_not)));
END $$;

-- Bounds take the place of those that are here; then what is free is offered to those in a line.
CREATE OR REPLACE FUNCTION pawl_load_bounds(p_clock int8[], p_wait_ms int4, p_move text, p_before text, p_position text, p_scope int2[], p_name int4[],
                                 p_key bytea[], p_most int4[], p_ordered bool[])
RETURNS bool LANGUAGE plpgsql SET search_path FROM CURRENT SET statement_timeout = 0 AS $$
DECLARE
    v_did bool;
    v_key bytea;
BEGIN
    PERFORM pawl_begin(p_wait_ms);
    IF cardinality(p_scope) > 0 THEN LOCK TABLE pawl_node IN EXCLUSIVE MODE; END IF;
    IF NOT pawl_arrive(p_move, p_before, p_position) THEN RETURN false; END IF;
    IF cardinality(p_scope) = 0 THEN RETURN true; END IF;
    FOR i IN 1..cardinality(p_scope) LOOP
        v_key := pawl_bound_key(p_scope[i], p_key[i]);
        INSERT INTO pawl_bound (scope, name_id, key, most, ordered, changed_us)
        VALUES (p_scope[i], p_name[i], v_key, p_most[i], p_ordered[i], coalesce(p_clock[1], pawl_now()))
        ON CONFLICT (scope, name_id, key) DO UPDATE SET most = excluded.most, ordered = excluded.ordered, changed_us = excluded.changed_us;
        IF p_scope[i] = 4 THEN v_did := pawl_put_turns(p_name[i], v_key, p_most[i], 2000000000); END IF;
    END LOOP;
    UPDATE pawl_gate SET bounds = bounds + 1;
    PERFORM pawl_offer(ARRAY(SELECT s.id FROM pawl_spot s ORDER BY s.id FOR UPDATE), 2000000000);
    RETURN true;
END $$;

-- ---- moving to another store ------------------------------------------------------------------------------------------------------

-- Which of these are stored, or what is kept of them: an import asks before it loads who waits for them.
CREATE OR REPLACE FUNCTION pawl_load_found(p_ids int8[]) RETURNS TABLE (id int8) LANGUAGE plpgsql SET search_path FROM CURRENT AS $$
BEGIN
    RETURN QUERY SELECT u.id FROM unnest(p_ids, (SELECT h.o_state FROM pawl_hold_kin(p_ids, false) h)) u (id, state) WHERE u.state > 0;
END $$;

-- The families of tasks that were just loaded, but for those in p_not. Members do not change the counts of their batch, which come with it. p_import:
-- parents may have ended here, so whoever tells looks at them.
CREATE OR REPLACE FUNCTION pawl_load_families(p_stale bool, p_not int8[], p_import bool, e_child int8[], e_parent int8[], e_state int2[], w_child int8[],
                                   w_if_failed int2[], m_task int8[], m_batch int8[], m_state int2[])
RETURNS bool LANGUAGE plpgsql SET search_path FROM CURRENT AS $$
DECLARE
    v_did bool;
BEGIN
    IF p_stale OR (e_child IS NULL AND m_task IS NULL) THEN RETURN false; END IF;
    v_did := pawl_has_families();
    INSERT INTO pawl_edge (parent_id, child_id, state)
    SELECT u.parent, u.child, u.state FROM unnest(e_child, e_parent, e_state) u (child, parent, state) WHERE u.child <> ALL (p_not)
    ON CONFLICT DO NOTHING;
    INSERT INTO pawl_wait (child_id, unmet, held, if_failed)
    SELECT u.child, coalesce(e.unmet, 0), coalesce(e.held, 0), u.if_failed FROM unnest(w_child, w_if_failed) u (child, if_failed)
    LEFT JOIN (SELECT x.child, count(*) FILTER (WHERE x.state = 0) AS unmet, count(*) FILTER (WHERE x.state = 2) AS held
               FROM unnest(e_child, e_state) x (child, state) GROUP BY x.child) e ON e.child = u.child
    WHERE u.child <> ALL (p_not);
    INSERT INTO pawl_member (task_id, batch_id, state)
    SELECT u.task, u.batch, u.state FROM unnest(m_task, m_batch, m_state) u (task, batch, state) WHERE u.task <> ALL (p_not)
    ON CONFLICT DO NOTHING;
    IF p_import THEN
        INSERT INTO pawl_unsettled (id, kind, after, value) SELECT u, 4, 0, 0 FROM unnest(w_child) u WHERE u <> ALL (p_not);
    END IF;
    RETURN true;
END $$;

CREATE OR REPLACE FUNCTION pawl_load_batches(p_clock int8[], p_wait_ms int4, p_move text, p_before text, p_position text, p_id int8[], p_name text[],
                                  p_within int8[], p_created int8[], p_closed int8[], p_ended int8[], p_state int2[], p_asked bool[],
                                  p_unfinished int8[], p_succeeded int8[], p_failed int8[], p_cancelled int8[])
RETURNS bool LANGUAGE plpgsql SET search_path FROM CURRENT AS $$
DECLARE
    v_did bool;
BEGIN
    PERFORM pawl_begin(p_wait_ms);
    IF NOT pawl_arrive(p_move, p_before, p_position) THEN RETURN false; END IF;
    IF cardinality(p_id) = 0 THEN RETURN true; END IF;
    v_did := pawl_has_families();
    INSERT INTO pawl_batch (id, name, within, created_us, closed_us, ended_us, state, cancel_asked, unfinished, succeeded, failed, cancelled)
    SELECT u.* FROM unnest(p_id, p_name, p_within, p_created, p_closed, p_ended, p_state, p_asked, p_unfinished, p_succeeded, p_failed,
                           p_cancelled) u
    ON CONFLICT DO NOTHING;
    INSERT INTO pawl_member (task_id, batch_id, state)
    SELECT u.id, u.within, u.state FROM unnest(p_id, p_within, p_state) u (id, within, state) WHERE u.within > 0 ON CONFLICT DO NOTHING;
    RETURN true;
END $$;

CREATE OR REPLACE FUNCTION pawl_load_kept(p_clock int8[], p_wait_ms int4, p_move text, p_before text, p_position text, p_id int8[], p_state int2[],
                               p_error text[], p_type text[], p_ref text[], p_result bytea[])
RETURNS bool LANGUAGE plpgsql SET search_path FROM CURRENT AS $$
BEGIN
    PERFORM pawl_begin(p_wait_ms);
    IF NOT pawl_arrive(p_move, p_before, p_position) THEN RETURN false; END IF;
    INSERT INTO pawl_kept (id, state, error, result_type, result_ref, result)
    SELECT u.* FROM unnest(p_id, p_state, p_error, p_type, p_ref, p_result) u ON CONFLICT DO NOTHING;
    RETURN true;
END $$;

-- s_num: 16 numbers of each schedule, as pg_put_schedules writes them; o_: occurrences, of the schedule o_of, that decided last first.
-- One of the same name goes, or stays as it is if this is an import. Of an open occurrence whose task is not to end here any more nobody would tell.
CREATE OR REPLACE FUNCTION pawl_load_schedules(p_clock int8[], p_wait_ms int4, p_move text, p_before text, p_position text, s_name text[], s_after text[],
                                    s_reason text[], s_spec text[], s_payload bytea[], s_num int8[], o_of int4[], o_occurrence int8[],
                                    o_state int2[], o_number int8[], o_at int8[], o_task int8[], o_count int8[], o_why text[])
RETURNS bool LANGUAGE plpgsql SET search_path FROM CURRENT AS $$
DECLARE
    v_id int8;
    n int8[];
BEGIN
    PERFORM pawl_begin(p_wait_ms);
    IF NOT pawl_arrive(p_move, p_before, p_position) THEN RETURN false; END IF;
    IF cardinality(s_name) = 0 THEN RETURN true; END IF;
    UPDATE pawl_gate SET schedules = 1 WHERE schedules = 0;
    FOR i IN 1..cardinality(s_name) LOOP
        SELECT s.id INTO v_id FROM pawl_schedule s WHERE s.name = s_name[i];
        CONTINUE WHEN FOUND AND p_move IS NULL;
        DELETE FROM pawl_occurrence WHERE schedule_id = v_id;
        DELETE FROM pawl_schedule_state WHERE id = v_id;
        DELETE FROM pawl_schedule WHERE id = v_id;
        n := s_num[16 * i - 15:16 * i];
        INSERT INTO pawl_schedule (name, after, anchor_us, created_us, changed_us, spec, payload)
        VALUES (s_name[i], s_after[i], n[4], n[15], n[16], s_spec[i], s_payload[i]) RETURNING id INTO v_id;
        INSERT INTO pawl_occurrence (schedule_id, occurrence, number, at_us, task_id, count, state, why)
        SELECT v_id, u.occurrence, u.number, u.at, u.task, u.count,
            CASE WHEN u.state <> 2 OR EXISTS (SELECT FROM pawl_live v WHERE v.id = u.task) OR EXISTS (SELECT FROM pawl_leased l WHERE l.id = u.task)
                THEN u.state ELSE coalesce((SELECT d.state - 1 FROM pawl_done d WHERE d.id = u.task LIMIT 1),
                                           (SELECT f.state - 1 FROM pawl_failed f WHERE f.id = u.task), 5) END, u.why
        FROM unnest(o_of, o_occurrence, o_state, o_number, o_at, o_task, o_count, o_why) u (of, occurrence, state, number, at, task, count, why)
        WHERE u.of = i;
        INSERT INTO pawl_schedule_state (id, name, version, off, watch, next_us, occurrence_us, last_us, look_us, runs, fired, skipped,
                                         succeeded, failed, last_task, reason, open, waiting, settled, number)
        SELECT v_id, s_name[i], n[1], n[2], n[3] <> 0, n[5], n[6], n[7], nullif(n[8], 0), n[9], n[10], n[11], n[12], n[13], n[14], s_reason[i],
            count(*) FILTER (WHERE o.state = 2), count(*) FILTER (WHERE o.state = 1), count(*) FILTER (WHERE o.state > 2), coalesce(max(o.number), 0)
        FROM pawl_occurrence o WHERE o.schedule_id = v_id;
    END LOOP;
    RETURN true;
END $$;
