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

-- ---- one that was retried before its children were told of its end, or before they came: they wait for the retry

-- The families of tasks that are stored now. p_check: their parents are not locked.
CREATE OR REPLACE FUNCTION pawl_put_families(p_check bool, p_child int8[], p_at int4[], p_n int4[], p_kin int8[], k_id int8[], k_state int2[], d_id int8[],
                                  d_result int4[]) RETURNS bool LANGUAGE plpgsql AS $$
DECLARE
    v_did bool;
    v_policy int2;
    v_state int2;
    v_unmet int4;
    x int8;
    e_parent int8[] := '{}';
    e_child int8[] := '{}';
    e_state int2[] := '{}';
    w_child int8[] := '{}';
    w_unmet int4[] := '{}';
    w_policy int2[] := '{}';
    m_batch int8[] := '{}';
    m_task int8[] := '{}';
    u_id int8[] := '{}';
    u_after int8[] := '{}';
    u_value int8[] := '{}';
BEGIN
    FOR i IN 1..cardinality(p_child) LOOP
        v_policy := p_kin[p_at[i] + 1];
        v_unmet := 0;
        FOR j IN 2..p_n[i] LOOP
            x := p_kin[p_at[i] + j];
            CONTINUE WHEN x = 0;
            IF x < 0 THEN
                v_state := CASE WHEN d_result[-x] = 2 THEN (pawl_hold_kin(ARRAY[d_id[-x]], true)).o_state[1] ELSE 2 END;
                x := d_id[-x];
            ELSE
                v_state := k_state[array_position(k_id, x)];
            END IF;
            IF j = 2 THEN
                m_batch := m_batch || x;
                m_task := m_task || p_child[i];
                CONTINUE;
            END IF;
            e_parent := e_parent || x;
            e_child := e_child || p_child[i];
            IF v_state = 4 OR (v_state > 4 AND v_policy = 1) THEN
                e_state := e_state || 1::int2;
            ELSE
                e_state := e_state || 0::int2;
                v_unmet := v_unmet + 1;
                IF v_state > 4 THEN -- it is told so in the same commit
                    u_id := u_id || x;
                    u_after := u_after || p_child[i] - 1;
                    u_value := u_value || v_state::int8;
                END IF;
            END IF;
        END LOOP;
        CONTINUE WHEN v_unmet = 0;
        w_child := w_child || p_child[i];
        w_unmet := w_unmet || v_unmet;
        w_policy := w_policy || v_policy;
    END LOOP;
    v_did := pawl_has_families();
    INSERT INTO pawl_edge (parent_id, child_id, state)
    SELECT * FROM unnest(e_parent, e_child, e_state) ON CONFLICT DO NOTHING;
    INSERT INTO pawl_wait (child_id, unmet, held, if_failed) SELECT u.child, u.unmet, 0, u.policy FROM unnest(w_child, w_unmet, w_policy) u (child, unmet, policy);
    INSERT INTO pawl_unsettled (id, kind, after, value) SELECT u.id, 1, u.after, u.value FROM unnest(u_id, u_after, u_value) u (id, after, value);
    IF cardinality(m_task) > 0 THEN
        INSERT INTO pawl_member (task_id, batch_id, state) SELECT u.task, u.batch, 0 FROM unnest(m_task, m_batch) u (task, batch);
        INSERT INTO pawl_batch_part (batch_id, unfinished, succeeded, failed, cancelled)
        SELECT u.batch, count(*), 0, 0, 0 FROM unnest(m_batch) u (batch) GROUP BY u.batch;
    END IF;
    IF p_check THEN
        INSERT INTO pawl_unsettled (id, kind, after, value) SELECT u, 4, 0, 0 FROM unnest(w_child) u;
    END IF;
    RETURN p_check OR cardinality(u_id) > 0;
END $$;

CREATE OR REPLACE FUNCTION pawl_tell_children(p_now int8, p_node int4, p_lane int8, p_most int4, OUT o_count int4, OUT o_freed bool, OUT o_hints text)
LANGUAGE plpgsql AS $$
DECLARE
    v_did bool;
    w record;
    c record;
    s record;
    v_locked int8[];
    v_all bool;
    v_held int8[];
BEGIN
    o_freed := false;
    o_hints := '';
    SELECT array_agg(x.n ORDER BY x.n) AS n, array_agg(x.id ORDER BY x.n) AS id, array_agg(x.after ORDER BY x.n) AS after,
        array_agg(x.value::int2 ORDER BY x.n) AS value
    INTO w FROM (SELECT * FROM pawl_unsettled WHERE kind = 1 AND later_us <= p_now ORDER BY n LIMIT least(p_most, 256)) x;
    SELECT array_agg(x.n) AS n, array_agg(x.parent) AS parent, array_agg(x.value) AS value, array_agg(x.child_id) AS child INTO c
    FROM (SELECT u.n, u.id AS parent, u.value, e.child_id FROM unnest(w.n, w.id, w.after, w.value) u (n, id, after, value),
              LATERAL (SELECT y.child_id FROM pawl_edge y WHERE y.parent_id = u.id AND y.child_id > u.after AND y.state = 0
                       ORDER BY y.child_id LIMIT p_most) e
          ORDER BY u.n, e.child_id LIMIT p_most) x;
    o_count := greatest(coalesce(cardinality(c.child), 0), 1);
    v_all := coalesce(cardinality(c.child), 0) < p_most;
    -- Notes of which nothing is left; of the last one, how far it came.
    DELETE FROM pawl_unsettled WHERE n = ANY (w.n) AND (v_all OR n < c.n[cardinality(c.n)]);
    IF c.child IS NULL THEN RETURN; END IF;
    IF NOT v_all THEN UPDATE pawl_unsettled SET after = c.child[cardinality(c.child)] WHERE n = c.n[cardinality(c.n)]; END IF;
    v_locked := ARRAY(SELECT v.id FROM pawl_live v WHERE v.id = ANY (c.child) AND v.state = 1 ORDER BY v.id FOR UPDATE SKIP LOCKED);
    -- Those that somebody has are told later.
    INSERT INTO pawl_unsettled (id, kind, after, value, later_us)
    SELECT u.parent, 1, min(u.child) - 1, u.value, p_now + 200000 FROM unnest(c.parent, c.value, c.child) u (parent, value, child)
    JOIN pawl_live v ON v.id = ANY (ARRAY[u.child]) AND v.state = 1 WHERE u.child <> ALL (v_locked) GROUP BY u.parent, u.value;
    UPDATE pawl_edge e SET state = CASE WHEN u.value <> 4 AND x.if_failed = 2 THEN 2 ELSE 1 END
    FROM unnest(c.parent, c.value, c.child) u (parent, value, child) LEFT JOIN pawl_wait x ON x.child_id = ANY (ARRAY[u.child])
    WHERE e.parent_id = ANY (ARRAY[u.parent]) AND e.child_id = ANY (ARRAY[u.child])
        AND (u.child = ANY (v_locked) OR NOT EXISTS (SELECT FROM pawl_live v WHERE v.id = u.child AND v.state = 1));
    IF cardinality(v_locked) = 0 THEN RETURN; END IF;
    SELECT array_agg(x.child) AS id, array_agg(x.value) AS state INTO s FROM (
        SELECT u.child, min(u.value) AS value FROM unnest(c.value, c.child) u (value, child) JOIN pawl_wait x ON x.child_id = ANY (ARRAY[u.child])
        WHERE u.value <> 4 AND x.if_failed = 0 AND u.child = ANY (v_locked) GROUP BY u.child) x;
    IF s.id IS NOT NULL THEN
        v_did := pawl_end_orphans(p_now, p_node, p_lane, s.id, s.state);
        o_freed := true;
    END IF;
    -- Who is held by one that was retried already waits for the retry: whoever retries it meanwhile has seen its children, or is waited for.
    v_held := ARRAY(SELECT DISTINCT u.parent FROM unnest(c.parent, c.value, c.child) u (parent, value, child)
                    JOIN pawl_wait x ON x.child_id = ANY (ARRAY[u.child])
                    WHERE u.value <> 4 AND x.if_failed = 2 AND u.child = ANY (v_locked) ORDER BY 1);
    IF cardinality(v_held) > 0 THEN
        PERFORM FROM pawl_failed f WHERE f.id = ANY (v_held) ORDER BY f.id FOR SHARE;
        PERFORM FROM pawl_done d WHERE d.id = ANY (v_held) ORDER BY d.id FOR SHARE;
        INSERT INTO pawl_unsettled (id, kind, after, value)
        SELECT r.id, 3, (SELECT min(u.child) - 1 FROM unnest(c.parent, c.child) u (parent, child) WHERE u.parent = r.id), r.retried_as
        FROM (SELECT f.id, f.retried_as FROM pawl_failed f WHERE f.id = ANY (v_held)
              UNION ALL SELECT d.id, d.retried_as FROM pawl_done d WHERE d.id = ANY (v_held)) r WHERE r.retried_as IS NOT NULL;
    END IF;
    WITH x AS (
        UPDATE pawl_wait t SET unmet = t.unmet - y.n, held = t.held + CASE WHEN t.if_failed = 2 THEN y.bad ELSE 0 END
        FROM (SELECT u.child, count(*)::int4 AS n, (count(*) FILTER (WHERE u.value <> 4))::int4 AS bad
              FROM unnest(c.value, c.child) u (value, child) WHERE u.child = ANY (v_locked) GROUP BY u.child) y
        WHERE t.child_id = ANY (ARRAY[y.child]) RETURNING t.child_id, t.unmet, t.held)
    SELECT array_agg(x.child_id) AS id INTO s FROM x WHERE x.unmet <= 0 AND x.held = 0;
    IF s.id IS NOT NULL THEN
        o_hints := pawl_set_free(p_now, p_node, p_lane, s.id);
        o_freed := true;
    END IF;
END $$;
