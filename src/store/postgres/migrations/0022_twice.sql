-- Nobody is counted twice: parents that turn out to be one (stored under one key, or a task and its retry), and a child of whom two notes tell.

CREATE OR REPLACE FUNCTION pawl_put_families(p_check bool, p_child int8[], p_at int4[], p_n int4[], p_kin int8[], k_id int8[], k_state int2[], d_id int8[],
                                  d_result int4[]) RETURNS bool LANGUAGE plpgsql AS $$
DECLARE
    v_did bool;
    v_policy int2;
    v_state int2;
    v_unmet int4;
    x int8;
    v_seen int8[];
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
        v_seen := '{}';
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
            CONTINUE WHEN x = ANY (v_seen);
            v_seen := v_seen || x;
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

-- A child that waits for the new one anyway is held by the old one no more, and asks again how the new one ended.
CREATE OR REPLACE FUNCTION pawl_tell_held(p_now int8, p_old int8, p_new int8, p_after int8, p_most int4, OUT o_count int4, OUT o_last int8)
LANGUAGE plpgsql AS $$
DECLARE
    v_ids int8[];
    v_both int8[];
    v_again int8[];
    v_state int2;
BEGIN
    v_ids := ARRAY(SELECT e.child_id FROM pawl_edge e WHERE e.parent_id = p_old AND e.child_id > p_after AND e.state = 2 ORDER BY e.child_id LIMIT p_most);
    o_count := cardinality(v_ids);
    IF o_count = p_most THEN o_last := v_ids[o_count]; END IF;
    v_ids := ARRAY(SELECT x.child_id FROM pawl_wait x WHERE x.child_id = ANY (v_ids));
    IF cardinality(v_ids) = 0 THEN RETURN; END IF;
    v_state := (pawl_hold_kin(ARRAY[p_new], true)).o_state[1];
    v_both := ARRAY(SELECT e.child_id FROM pawl_edge e WHERE e.parent_id = p_new AND e.child_id = ANY (v_ids));
    WITH again AS (UPDATE pawl_edge SET state = 0 WHERE parent_id = p_new AND child_id = ANY (v_both) AND state = 1 RETURNING child_id)
    SELECT coalesce(array_agg(a.child_id), '{}') INTO v_again FROM again a;
    UPDATE pawl_wait SET held = held - 1, unmet = unmet + CASE WHEN child_id = ANY (v_both) AND child_id <> ALL (v_again) THEN 0 ELSE 1 END
    WHERE child_id = ANY (v_ids);
    UPDATE pawl_edge SET state = 1 WHERE parent_id = p_old AND child_id = ANY (v_both);
    UPDATE pawl_edge SET parent_id = p_new, state = 0 WHERE parent_id = p_old AND child_id = ANY (v_ids) AND child_id <> ALL (v_both);
    IF v_state > 3 THEN INSERT INTO pawl_unsettled (id, kind, after, value) VALUES (p_new, 1, 0, v_state); END IF;
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
    FROM (SELECT min(u.n) AS n, u.id AS parent, u.value, e.child_id FROM unnest(w.n, w.id, w.after, w.value) u (n, id, after, value),
              LATERAL (SELECT y.child_id FROM pawl_edge y WHERE y.parent_id = u.id AND y.child_id > u.after AND y.state = 0
                       ORDER BY y.child_id LIMIT p_most) e
          GROUP BY u.id, u.value, e.child_id ORDER BY 1, e.child_id LIMIT p_most) x; -- two notes may mean the same child
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
