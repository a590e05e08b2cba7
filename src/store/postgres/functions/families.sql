-- Families: who waits for whom, and batches of tasks. See FAMILIES in pawl/store.h. A task that has none has no row here.
--
-- What ends leaves rows and changes none: a note in pawl_unsettled that says what is to be told, and what it adds to the counts of its batch.
-- So ends never wait for each other, and a transaction of the caller's own may leave such rows as well. Whoever tells (pawl_tell) has a
-- lock that only one has and nobody waits for: what waits is told by one at a time, and two ends that come together are both seen by the
-- next one. It waits for nobody either: what somebody has locked is left for later.
--
-- Whoever inserts a child locks its parents, so that they do not end before it commits, and whoever ends them finds it then: rows of tasks in
-- KEY SHARE mode, those of batches in SHARE mode, as for a new member. A transaction of the caller's own locks no task, for nobody knows
-- when it ends; it leaves a note, and whoever tells looks at the parents with locks.

CREATE OR REPLACE FUNCTION pawl_has_families() RETURNS bool LANGUAGE plpgsql AS $$
BEGIN
    IF (SELECT families FROM pawl_gate) = 0 THEN UPDATE pawl_gate SET families = 1 WHERE families = 0; END IF;
    RETURN true;
END $$;

CREATE OR REPLACE FUNCTION pawl_is_unsettled(p_now int8) RETURNS bool LANGUAGE plpgsql AS $$
BEGIN
    RETURN EXISTS (SELECT FROM pawl_unsettled WHERE later_us <= p_now);
END $$;

-- Waiting tasks of a queue: see pawl_add.
CREATE OR REPLACE FUNCTION pawl_add_waiting(p_node int4, p_lane int8, p_queue int4, p_waiting int8) RETURNS bool LANGUAGE plpgsql AS $$
DECLARE
    v_did bool := pawl_add(p_node, p_lane, p_queue, 0, 0, 0);
BEGIN
    UPDATE pawl_count SET waiting = waiting + p_waiting WHERE node = p_node AND lane = p_lane AND queue_id = p_queue AND turn = pawl_turn();
    RETURN true;
END $$;

-- ---- new tasks --------------------------------------------------------------------------------------------------------------------

-- How tasks and batches stand: 0 there is none of that id, 4, 5, 6 it has ended, else not. They are locked, if p_lock; batches always.
-- o_closed: of a batch, whether it takes no members any more.
CREATE OR REPLACE FUNCTION pawl_hold_kin(p_ids int8[], p_lock bool, OUT o_state int2[], OUT o_closed bool[]) LANGUAGE plpgsql AS $$
DECLARE
    v_held int8[] := '{}';
BEGIN
    PERFORM FROM pawl_batch WHERE id = ANY (p_ids) ORDER BY id DESC FOR SHARE;
    FOR i IN 1..1000 LOOP
        IF p_lock THEN
            v_held := v_held || ARRAY(SELECT v.id FROM pawl_live v WHERE v.id = ANY (p_ids) ORDER BY v.id FOR KEY SHARE)
                || ARRAY(SELECT l.id FROM pawl_leased l WHERE l.id = ANY (p_ids) ORDER BY l.id FOR KEY SHARE);
        END IF;
        SELECT array_agg(coalesce(v.state, CASE WHEN l.id IS NOT NULL THEN 3::int2 END, CASE WHEN b.ended_us IS NULL AND b.id IS NOT NULL THEN 1::int2 END,
                                  b.state, d.state, f.state, k.state, 0::int2) ORDER BY u.i),
            array_agg(b.closed_us IS NOT NULL OR CASE WHEN b.id IS NULL THEN NULL ELSE b.cancel_asked END ORDER BY u.i)
        INTO o_state, o_closed
        FROM unnest(p_ids) WITH ORDINALITY u (id, i)
        LEFT JOIN pawl_live v ON v.id = ANY (ARRAY[u.id]) LEFT JOIN pawl_leased l ON l.id = ANY (ARRAY[u.id])
        LEFT JOIN pawl_batch b ON b.id = ANY (ARRAY[u.id])
        LEFT JOIN LATERAL (SELECT x.state FROM pawl_done x WHERE x.id = u.id LIMIT 1) d ON v.id IS NULL AND l.id IS NULL AND b.id IS NULL
        LEFT JOIN pawl_failed f ON f.id = ANY (ARRAY[u.id]) LEFT JOIN pawl_kept k ON k.id = ANY (ARRAY[u.id]);
        -- Between two looks one may have gone from one table to the other.
        EXIT WHEN NOT p_lock OR NOT EXISTS (SELECT FROM unnest(p_ids, o_state, o_closed) u (id, state, closed)
                                            WHERE u.state IN (1, 2, 3) AND u.closed IS NULL AND u.id <> ALL (v_held));
    END LOOP;
END $$;

-- What the family of a new task means for it: p_n numbers of p_kin behind p_at, which are pawl_if_failed, the batch, the parents. A number is an id,
-- or below 0: -n is what operation n - 1 of this batch stored (d_), or, far below, a result that it has already. k_: see pawl_hold_kin.
-- p_member: the batch of whoever spawns it. o_result 1: it can be stored; else o_id says whom that is about.
CREATE OR REPLACE FUNCTION pawl_judge(p_kin int8[], p_at int4, p_n int4, k_id int8[], k_state int2[], k_closed bool[], d_id int8[], d_result int4[],
                           p_member int8, OUT o_result int4, OUT o_id int8, OUT o_waits bool) LANGUAGE plpgsql AS $$
DECLARE
    v_policy int8 := p_kin[p_at + 1];
    v_state int2;
    v_at int4;
    x int8;
BEGIN
    o_result := 1;
    o_waits := false;
    FOR j IN 2..p_n LOOP
        x := p_kin[p_at + CASE WHEN j = p_n THEN 2 ELSE j + 1 END]; -- the batch comes last
        CONTINUE WHEN x = 0;
        o_id := 0;
        IF x < -9000000000000000000 THEN
            o_result := x + 9223372036854775807;
            RETURN;
        END IF;
        IF x < 0 THEN
            v_at := -x;
            IF d_result[v_at] IS NULL THEN -- a spawn that comes before it
                o_waits := true;
                CONTINUE;
            ELSIF d_result[v_at] NOT IN (1, 2, 3, 4) THEN
                o_result := CASE WHEN d_result[v_at] IN (10, 11) THEN d_result[v_at] ELSE 9 END;
                RETURN;
            END IF;
            x := d_id[v_at];
            v_state := CASE WHEN d_result[v_at] = 2 THEN (pawl_hold_kin(ARRAY[x], true)).o_state[1] ELSE 2 END;
            v_at := NULL;
        ELSE
            v_at := array_position(k_id, x);
            v_state := k_state[v_at];
        END IF;
        o_id := x;
        IF j = p_n THEN
            IF k_closed[v_at] IS NULL THEN
                o_result := 8;
            ELSIF v_state > 3 OR (k_closed[v_at] AND x IS DISTINCT FROM p_member) THEN
                o_result := 9;
            END IF;
        ELSIF v_state = 0 OR (v_state > 3 AND EXISTS (SELECT FROM pawl_kept k WHERE k.id = x)) THEN
            o_result := 8;
        ELSIF v_state < 4 OR (v_state > 4 AND v_policy <> 1) THEN
            o_waits := true;
        END IF;
        IF o_result <> 1 THEN RETURN; END IF;
    END LOOP;
    o_id := 0;
END $$;

-- The INSERTs of a batch that have families, before anything is stored: p_n numbers each in p_kin. o_slow: they go one by one, because something
-- is wrong, or what they need is not known yet. o_waits: they are stored as waiting. o_refused: FINISHes that cannot happen, because of a spawn.
CREATE OR REPLACE FUNCTION pawl_judge_all(p_lock bool, p_n int4[], INOUT p_kin int8[], INOUT d_id int8[], INOUT d_result int4[], p_op int4[], p_id int8[],
                               p_key text[], p_parent int4[], e_op int4[], e_id int8[], INOUT p_slow bool[], INOUT p_ask bool[],
                               INOUT p_budget int8[], OUT o_at int4[], OUT o_waits bool[], OUT o_member int8[], OUT k_id int8[], OUT k_state int2[],
                               OUT k_closed bool[], OUT o_refused int4[]) LANGUAGE plpgsql AS $$
DECLARE
    v_at int4 := 0;
    v_count int4 := cardinality(p_op);
    v_slow bool;
    v_member int8;
    j record;
BEGIN
    o_waits := array_fill(false, ARRAY[v_count]);
    o_at := array_fill(0, ARRAY[v_count]);
    o_member := array_fill(NULL::int8, ARRAY[v_count]);
    o_refused := '{}';
    k_id := '{}';
    d_id := coalesce(d_id, array_fill(NULL::int8, ARRAY[p_op[v_count] + 1]));
    d_result := coalesce(d_result, array_fill(NULL::int4, ARRAY[p_op[v_count] + 1]));
    FOR i IN 1..v_count LOOP
        o_at[i] := v_at;
        v_at := v_at + coalesce(p_n[i], 0);
        IF p_slow[i] IS NOT TRUE AND (p_key IS NULL OR p_key[i] IS NULL) THEN
            d_id[p_op[i] + 1] := p_id[i];
            d_result[p_op[i] + 1] := 1;
        END IF;
    END LOOP;
    FOR i IN 1..cardinality(p_kin) LOOP -- batches that were opened a moment ago
        CONTINUE WHEN p_kin[i] >= 0 OR p_kin[i] < -9000000000000000000;
        IF d_result[-p_kin[i]] < 0 THEN
            p_kin[i] := CASE WHEN d_result[-p_kin[i]] = -1 THEN d_id[-p_kin[i]] WHEN d_result[-p_kin[i]] = -10 THEN -9223372036854775797
                             ELSE -9223372036854775798 END;
        END IF;
    END LOOP;
    FOR i IN 1..v_count LOOP
        FOR k IN o_at[i] + 2..o_at[i] + coalesce(p_n[i], 0) LOOP
            IF p_kin[k] > 0 THEN k_id := k_id || p_kin[k]; END IF;
        END LOOP;
    END LOOP;
    k_id := ARRAY(SELECT DISTINCT x FROM unnest(k_id) x ORDER BY 1);
    SELECT h.o_state, h.o_closed INTO k_state, k_closed FROM pawl_hold_kin(k_id, p_lock) h;
    FOR i IN 1..v_count LOOP
        CONTINUE WHEN coalesce(p_n[i], 0) = 0;
        v_slow := p_slow[i] IS TRUE OR (p_key IS NOT NULL AND p_key[i] IS NOT NULL);
        v_member := NULL;
        IF p_parent[i] IS NOT NULL THEN
            v_member := (SELECT m.batch_id FROM pawl_member m WHERE m.task_id = e_id[array_position(e_op, p_parent[i])]);
            o_member[i] := v_member;
        ELSIF v_slow THEN
            p_slow := coalesce(p_slow, array_fill(false, ARRAY[v_count]));
            p_slow[i] := true;
            CONTINUE;
        END IF;
        FOR k IN o_at[i] + 2..o_at[i] + p_n[i] LOOP
            IF p_parent[i] IS NULL AND p_kin[k] < 0 AND p_kin[k] > -9000000000000000000 AND d_result[-p_kin[k]] IS NULL THEN v_slow := true; END IF;
        END LOOP;
        IF NOT v_slow OR p_parent[i] IS NOT NULL THEN
            j := pawl_judge(p_kin, o_at[i], p_n[i], k_id, k_state, k_closed, d_id, d_result, v_member);
            IF j.o_result <> 1 AND p_parent[i] IS NOT NULL THEN o_refused := o_refused || p_parent[i]; END IF;
            v_slow := v_slow OR j.o_result <> 1;
        END IF;
        IF v_slow THEN
            p_slow := coalesce(p_slow, array_fill(false, ARRAY[v_count]));
            p_slow[i] := true;
            IF p_parent[i] IS NULL THEN
                d_id[p_op[i] + 1] := NULL;
                d_result[p_op[i] + 1] := NULL;
            END IF;
        ELSIF j.o_waits THEN
            o_waits[i] := true;
            IF p_ask IS NOT NULL THEN p_ask[i] := false; END IF;
            IF p_budget IS NOT NULL THEN p_budget[i] := NULL; END IF;
        END IF;
    END LOOP;
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

-- ---- ends -------------------------------------------------------------------------------------------------------------------------

-- Some of these tasks and batches may have ended: what is to be told, and what it adds to their batches. true: there is something.
CREATE OR REPLACE FUNCTION pawl_families_ended(p_ids int8[]) RETURNS bool LANGUAGE plpgsql AS $$
DECLARE
    v_ids int8[];
    v_states int2[];
    v_any bool;
BEGIN
    SELECT array_agg(s.id), array_agg(s.state) INTO v_ids, v_states FROM (
        SELECT x.id, coalesce((SELECT d.state FROM pawl_done d WHERE d.id = x.id LIMIT 1), (SELECT f.state FROM pawl_failed f WHERE f.id = x.id),
                              (SELECT b.state FROM pawl_batch b WHERE b.id = x.id AND b.ended_us + 0 IS NOT NULL)) AS state
        FROM (SELECT u.id FROM unnest(p_ids) u (id)
              WHERE EXISTS (SELECT FROM pawl_edge e WHERE e.parent_id = ANY (ARRAY[u.id]) AND e.state = 0)
                 OR EXISTS (SELECT FROM pawl_member m WHERE m.task_id = ANY (ARRAY[u.id]) AND m.state = 0)) x) s
    WHERE s.state IS NOT NULL;
    IF v_ids IS NULL THEN RETURN false; END IF;
    INSERT INTO pawl_unsettled (id, kind, after, value)
    SELECT u.id, 1, 0, u.state FROM unnest(v_ids, v_states) u (id, state)
    WHERE EXISTS (SELECT FROM pawl_edge e WHERE e.parent_id = ANY (ARRAY[u.id]) AND e.state = 0);
    v_any := FOUND;
    WITH m AS (
        UPDATE pawl_member x SET state = u.state FROM unnest(v_ids, v_states) u (id, state)
        WHERE x.task_id = ANY (ARRAY[u.id]) AND x.state = 0 RETURNING x.batch_id, x.state),
    p AS (
        INSERT INTO pawl_batch_part (batch_id, unfinished, succeeded, failed, cancelled)
        SELECT m.batch_id, -count(*), count(*) FILTER (WHERE m.state = 4), count(*) FILTER (WHERE m.state = 5),
            count(*) FILTER (WHERE m.state = 6) FROM m GROUP BY m.batch_id RETURNING batch_id)
    INSERT INTO pawl_unsettled (id, kind, after, value) SELECT p.batch_id, 0, 0, 0 FROM p;
    RETURN v_any OR FOUND;
END $$;

-- ---- telling ----------------------------------------------------------------------------------------------------------------------

-- Waiting tasks, which are locked, wait no more. Hints for those who claim.
CREATE OR REPLACE FUNCTION pawl_set_free(p_now int8, p_node int4, p_lane int8, p_ids int8[]) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
    v_did bool;
    v_hints text := '';
    r record;
BEGIN
    DELETE FROM pawl_wait WHERE child_id = ANY (p_ids);
    INSERT INTO pawl_audit (task_id, number, at_us, from_state, to_state, fence, node)
    SELECT v.id, coalesce((SELECT max(a.number) FROM pawl_audit a WHERE a.task_id = v.id), 0) + 1, p_now, 1, 2, v.fence, 0
    FROM pawl_live v WHERE v.id = ANY (p_ids) AND v.state = 1 AND pawl_wanted(v.level, 0);
    FOR r IN
        WITH x AS (UPDATE pawl_live SET state = 2, run_at_us = greatest(run_at_us, p_now) WHERE id = ANY (p_ids) AND state = 1
                   RETURNING queue_id, type_id, priority, class, run_at_us)
        SELECT x.queue_id, x.type_id, x.priority, x.class, count(*) AS n, min(x.run_at_us) AS due_us FROM x GROUP BY 1, 2, 3, 4
    LOOP
        v_did := pawl_add(p_node, p_lane, r.queue_id, r.n, 0, 0);
        v_did := pawl_add_waiting(p_node, p_lane, r.queue_id, -r.n);
        v_hints := v_hints || pawl_hint(r.queue_id, r.priority, r.class, r.type_id, r.due_us);
    END LOOP;
    IF (SELECT bounds FROM pawl_gate) > 0 THEN v_did := pawl_share(p_ids); END IF;
    RETURN v_hints;
END $$;

-- Children that are cancelled because a parent ended as p_states says; they are locked.
CREATE OR REPLACE FUNCTION pawl_end_orphans(p_now int8, p_node int4, p_lane int8, p_ids int8[], p_states int2[]) RETURNS bool LANGUAGE plpgsql AS $$
DECLARE
    r record;
    l pawl_live;
    v_reason text;
BEGIN
    DELETE FROM pawl_wait WHERE child_id = ANY (p_ids);
    FOR r IN SELECT u.id, u.state FROM unnest(p_ids, p_states) u (id, state) ORDER BY u.id LOOP
        DELETE FROM pawl_live WHERE id = r.id AND state = 1 RETURNING * INTO l;
        CONTINUE WHEN NOT FOUND;
        v_reason := CASE WHEN r.state = 5 THEN 'parent_failed' ELSE 'parent_cancelled' END;
        IF pawl_wanted(l.level, 0) THEN PERFORM pawl_trail(r.id, p_now, 1::int2, 6::int2, l.fence, 0, v_reason); END IF;
        PERFORM pawl_end_row(p_now, p_node, p_lane, 6::int2, l.level, false, v_reason, NULL, l);
    END LOOP;
    RETURN pawl_families_ended(p_ids);
END $$;

-- Ends, to children: those of some of the first notes, p_most at the most.
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
        SELECT u.child, (array_agg(u.value ORDER BY u.parent))[1] AS value FROM unnest(c.parent, c.value, c.child) u (parent, value, child)
        JOIN pawl_wait x ON x.child_id = ANY (ARRAY[u.child])
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

-- Whether a batch has ended; p_ids may have one twice. Its counts are put together now and then.
CREATE OR REPLACE FUNCTION pawl_batch_drained(p_now int8, p_ids int8[]) RETURNS bool LANGUAGE plpgsql AS $$
DECLARE
    v_state int2;
    v_did bool;
    r record;
    b pawl_batch;
BEGIN
    FOR r IN
        SELECT x.id, x.closed_us IS NOT NULL AND x.unfinished + p.unfinished = 0 AS over, p.n
        FROM (SELECT DISTINCT u FROM unnest(p_ids) u) u JOIN pawl_batch x ON x.id = ANY (ARRAY[u.u]),
            LATERAL (SELECT count(*) AS n, coalesce(sum(y.unfinished), 0) AS unfinished FROM pawl_batch_part y WHERE y.batch_id = x.id) p
        WHERE x.ended_us + 0 IS NULL ORDER BY u.u DESC
    LOOP
        CONTINUE WHEN NOT r.over AND r.n < 64;
        SELECT * INTO b FROM pawl_batch WHERE id = r.id FOR UPDATE SKIP LOCKED;
        IF NOT FOUND THEN
            IF r.over THEN INSERT INTO pawl_unsettled (id, kind, after, value, later_us) VALUES (r.id, 0, 0, 0, p_now + 200000); END IF;
            CONTINUE;
        END IF;
        WITH d AS (DELETE FROM pawl_batch_part WHERE batch_id = r.id RETURNING *),
        s AS (SELECT coalesce(sum(d.unfinished), 0) AS u, coalesce(sum(d.succeeded), 0) AS s, coalesce(sum(d.failed), 0) AS f,
                  coalesce(sum(d.cancelled), 0) AS c FROM d)
        UPDATE pawl_batch x SET unfinished = x.unfinished + s.u, succeeded = x.succeeded + s.s, failed = x.failed + s.f,
            cancelled = x.cancelled + s.c
        FROM s WHERE x.id = r.id RETURNING x.* INTO b;
        CONTINUE WHEN b.closed_us IS NULL OR b.unfinished <> 0;
        v_state := CASE WHEN b.failed > 0 THEN 5 WHEN b.cancelled > 0 THEN 6 ELSE 4 END;
        UPDATE pawl_batch SET ended_us = p_now, state = v_state WHERE id = r.id;
        v_did := pawl_families_ended(ARRAY[r.id]);
    END LOOP;
    RETURN true;
END $$;

CREATE OR REPLACE FUNCTION pawl_batch_close(p_now int8, p_id int8, p_cancel bool) RETURNS bool LANGUAGE plpgsql AS $$
BEGIN
    UPDATE pawl_batch SET closed_us = coalesce(closed_us, p_now), cancel_asked = cancel_asked OR p_cancel WHERE id = p_id;
    INSERT INTO pawl_unsettled (id, kind, after, value) SELECT p_id, k, 0, 0 FROM unnest(ARRAY[2, 0]) k WHERE k = 0 OR p_cancel;
    RETURN true;
END $$;

-- The members of a batch that is cancelled, from one on. o_last: where to go on; NULL: there are no more.
CREATE OR REPLACE FUNCTION pawl_cancel_members(p_now int8, p_node int4, p_lane int8, p_batch int8, p_after int8, p_most int4, OUT o_count int4,
                                    OUT o_last int8) LANGUAGE plpgsql AS $$
DECLARE
    v_did bool;
    v_ids int8[] := ARRAY(SELECT m.task_id FROM pawl_member m WHERE m.batch_id = p_batch AND m.task_id > p_after ORDER BY m.task_id LIMIT p_most);
    v_locked int8[];
    v_skipped int8;
    r record;
BEGIN
    o_count := cardinality(v_ids);
    IF o_count = p_most THEN o_last := v_ids[o_count]; END IF;
    v_locked := ARRAY(SELECT v.id FROM pawl_live v WHERE v.id = ANY (v_ids) ORDER BY v.id FOR UPDATE SKIP LOCKED)
        || ARRAY(SELECT l.id FROM pawl_leased l WHERE l.id = ANY (v_ids) ORDER BY l.id FOR UPDATE SKIP LOCKED);
    v_skipped := (SELECT min(x.id) FROM (SELECT v.id FROM pawl_live v WHERE v.id = ANY (v_ids) AND v.id <> ALL (v_locked)
                                         UNION ALL SELECT l.id FROM pawl_leased l WHERE l.id = ANY (v_ids) AND l.id <> ALL (v_locked)) x);
    IF v_skipped IS NOT NULL THEN
        INSERT INTO pawl_unsettled (id, kind, after, value, later_us) VALUES (p_batch, 2, v_skipped - 1, 0, p_now + 200000);
        o_last := NULL;
    END IF;
    FOR r IN SELECT u.id, b.level FROM unnest(v_locked) u (id) JOIN pawl_body b ON b.id = ANY (ARRAY[u.id]) ORDER BY u.id LOOP
        PERFORM pawl_cancel(p_now, p_node, p_lane, 0, r.id, NULL, r.level);
    END LOOP;
    v_did := pawl_leave_ended(v_locked);
    v_did := pawl_families_ended(v_locked);
    FOR r IN SELECT b.id FROM pawl_batch b WHERE b.id = ANY (v_ids) AND b.ended_us IS NULL AND NOT b.cancel_asked ORDER BY b.id DESC LOOP
        v_did := pawl_batch_close(p_now, r.id, true);
    END LOOP;
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

-- A child that came with a transaction of the caller's own: its parents may have ended meanwhile.
CREATE OR REPLACE FUNCTION pawl_look_at_parents(p_child int8) RETURNS bool LANGUAGE plpgsql AS $$
DECLARE
    v_ids int8[] := ARRAY(SELECT e.parent_id FROM pawl_edge e WHERE e.child_id = p_child AND e.state + 0 = 0 ORDER BY 1);
    h record;
BEGIN
    h := pawl_hold_kin(v_ids, true);
    INSERT INTO pawl_unsettled (id, kind, after, value)
    SELECT u.id, 1, p_child - 1, u.state FROM unnest(v_ids, h.o_state) u (id, state) WHERE u.state > 3;
    RETURN true;
END $$;

-- Tells about p_most of those who wait. o_left: there are others, or somebody else is at it.
CREATE OR REPLACE FUNCTION pawl_tell(p_now int8, p_node int4, p_lane int8, p_most int4, OUT o_told int4, OUT o_freed bool, OUT o_left bool, OUT o_hints text)
LANGUAGE plpgsql AS $$
DECLARE
    v_did bool;
    v_room int4;
    v_until int8 := pawl_now() + 250000; -- whoever waits for this commit does not wait for long
    w pawl_unsettled;
    r record;
BEGIN
    o_told := 0;
    o_freed := false;
    o_left := true;
    o_hints := '';
    IF NOT pg_try_advisory_xact_lock('pawl_unsettled'::regclass::oid::int8) THEN RETURN; END IF;
    LOOP
        SELECT * INTO w FROM pawl_unsettled WHERE later_us <= p_now ORDER BY n LIMIT 1;
        o_left := FOUND;
        EXIT WHEN NOT FOUND OR o_told >= p_most OR (o_told > 0 AND pawl_now() > v_until);
        v_room := least(p_most - o_told, 256);
        IF w.kind = 1 THEN
            r := pawl_tell_children(p_now, p_node, p_lane, v_room);
            o_told := o_told + r.o_count;
            o_freed := o_freed OR r.o_freed;
            o_hints := o_hints || r.o_hints;
        ELSIF w.kind = 0 THEN
            WITH d AS (DELETE FROM pawl_unsettled WHERE n = ANY (ARRAY(SELECT x.n FROM pawl_unsettled x WHERE x.kind = 0 AND x.later_us <= p_now
                                                                       ORDER BY x.n LIMIT v_room)) RETURNING id)
            SELECT array_agg(d.id) AS ids INTO r FROM d;
            o_told := o_told + cardinality(r.ids);
            v_did := pawl_batch_drained(p_now, r.ids);
        ELSIF w.kind = 4 THEN
            DELETE FROM pawl_unsettled WHERE n = w.n;
            v_did := pawl_look_at_parents(w.id);
            o_told := o_told + 1;
        ELSIF w.kind = 3 AND EXISTS (SELECT FROM pawl_unsettled x WHERE x.kind = 1 AND x.id = w.id) THEN -- first that it failed
            UPDATE pawl_unsettled SET later_us = p_now + 200000 WHERE n = w.n;
            o_told := o_told + 1;
        ELSE
            IF w.kind = 2 THEN r := pawl_cancel_members(p_now, p_node, p_lane, w.id, w.after, v_room);
            ELSE r := pawl_tell_held(p_now, w.id, w.value, w.after, v_room);
            END IF;
            IF r.o_last IS NULL THEN DELETE FROM pawl_unsettled WHERE n = w.n;
            ELSE UPDATE pawl_unsettled SET after = r.o_last WHERE n = w.n;
            END IF;
            o_told := o_told + greatest(r.o_count, 1);
            o_freed := o_freed OR (w.kind = 2 AND r.o_count > 0);
        END IF;
    END LOOP;
END $$;

-- ---- BATCH ------------------------------------------------------------------------------------------------------------------------

-- Of each, p_num has four numbers: operation, act (1 open, 2 close, 3 cancel; 9 is SETTLE), id, and within (of SETTLE how many); p_text:
-- name, who. d_: what was stored, by operation; its result as a negative number. o_settle: what SETTLEs want. o_noted: there is something to tell.
CREATE OR REPLACE FUNCTION pawl_batches_apply(p_now int8, p_closed bool, p_num int8[], p_text text[], OUT o_results text, OUT d_id int8[],
                                   OUT d_result int4[], OUT o_settle int4, OUT o_noted bool) LANGUAGE plpgsql AS $$
DECLARE
    v_did bool;
    v_op int4;
    v_id int8;
    v_within int8;
    v_result int4;
    v_state int2;
    b pawl_batch;
    h record;
BEGIN
    o_results := '';
    d_id := '{}';
    d_result := '{}';
    o_settle := 0;
    o_noted := false;
    FOR i IN 0..cardinality(p_num) / 4 - 1 LOOP
        v_op := p_num[4 * i + 1];
        v_id := p_num[4 * i + 3];
        v_within := p_num[4 * i + 4];
        v_result := 1;
        IF p_num[4 * i + 2] = 9 THEN
            o_settle := o_settle + v_within::int4;
            CONTINUE;
        ELSIF p_closed THEN
            v_result := 13;
            v_id := 0;
        ELSIF p_num[4 * i + 2] = 1 THEN
            SELECT * INTO b FROM pawl_batch x WHERE x.name = p_text[2 * i + 1];
            IF FOUND THEN
                v_result := 2;
                v_id := b.id;
            ELSE
                IF v_within <> 0 THEN
                    h := pawl_hold_kin(ARRAY[v_within], false);
                    v_result := CASE WHEN h.o_closed[1] IS NULL THEN 8 WHEN h.o_closed[1] THEN 9 ELSE 1 END;
                END IF;
                IF v_result <> 1 THEN
                    v_id := v_within;
                ELSIF v_id <> 0 AND (EXISTS (SELECT FROM pawl_body x WHERE x.id = v_id) OR EXISTS (SELECT FROM pawl_batch x WHERE x.id = v_id)) THEN
                    v_result := 10;
                    v_id := 0;
                ELSE
                    IF v_id = 0 THEN v_id := pawl_draw(p_now); END IF;
                    v_did := pawl_has_families();
                    INSERT INTO pawl_batch (id, name, within, created_us) VALUES (v_id, p_text[2 * i + 1], v_within, p_now) ON CONFLICT DO NOTHING;
                    IF NOT FOUND THEN RAISE EXCEPTION 'a batch was opened meanwhile' USING ERRCODE = 'serialization_failure'; END IF;
                    IF v_within <> 0 THEN
                        INSERT INTO pawl_member (task_id, batch_id, state) VALUES (v_id, v_within, 0);
                        INSERT INTO pawl_batch_part (batch_id, unfinished, succeeded, failed, cancelled) VALUES (v_within, 1, 0, 0, 0);
                    END IF;
                END IF;
            END IF;
            d_id[v_op + 1] := v_id;
            d_result[v_op + 1] := -v_result;
        ELSE
            SELECT * INTO b FROM pawl_batch x WHERE x.id = v_id FOR UPDATE;
            v_result := CASE WHEN NOT FOUND THEN 8 WHEN b.ended_us IS NOT NULL OR (p_num[4 * i + 2] = 2 AND b.closed_us IS NOT NULL) THEN 9
                             WHEN p_num[4 * i + 2] = 3 AND b.cancel_asked THEN 2 ELSE 1 END;
            IF v_result = 1 THEN
                v_did := pawl_batch_close(p_now, v_id, p_num[4 * i + 2] = 3);
                o_noted := true;
                PERFORM pawl_log_operator(p_now, p_text[2 * i + 2], CASE WHEN p_num[4 * i + 2] = 3 THEN 'cancel batch' ELSE 'close batch' END, v_id, NULL);
            END IF;
        END IF;
        o_results := o_results || pawl_answer(v_op, v_result, v_id, 0, 0, 0);
    END LOOP;
END $$;

-- ---- retention --------------------------------------------------------------------------------------------------------------------

-- Before finished tasks go: what their children may ask for stays.
CREATE OR REPLACE FUNCTION pawl_keep_results(p_ids int8[]) RETURNS bool LANGUAGE plpgsql AS $$
BEGIN
    IF (SELECT families FROM pawl_gate) = 0 THEN RETURN false; END IF;
    INSERT INTO pawl_kept (id, state, error, result_type, result_ref, result)
    SELECT x.* FROM (SELECT d.id, d.state, d.error, d.result_type, d.result_ref, d.result FROM pawl_done d WHERE d.id = ANY (p_ids)
                     UNION ALL SELECT f.id, f.state, f.error, f.result_type, f.result_ref, f.result FROM pawl_failed f WHERE f.id = ANY (p_ids)) x
    WHERE EXISTS (SELECT FROM pawl_edge e WHERE e.parent_id = ANY (ARRAY[x.id])) ON CONFLICT DO NOTHING;
    RETURN true;
END $$;

CREATE OR REPLACE FUNCTION pawl_forget_families(p_ids int8[]) RETURNS bool LANGUAGE plpgsql AS $$
BEGIN
    IF (SELECT families FROM pawl_gate) = 0 THEN RETURN false; END IF;
    DELETE FROM pawl_kept k WHERE k.id = ANY (ARRAY(SELECT e.parent_id FROM pawl_edge e WHERE e.child_id = ANY (p_ids)))
        AND NOT EXISTS (SELECT FROM pawl_edge o WHERE o.parent_id = ANY (ARRAY[k.id]) AND o.child_id <> ALL (p_ids));
    DELETE FROM pawl_edge WHERE child_id = ANY (p_ids);
    DELETE FROM pawl_member WHERE task_id = ANY (p_ids);
    RETURN true;
END $$;

-- Batches that ended long enough ago, with what is left of their members.
CREATE OR REPLACE FUNCTION pawl_sweep_batches(p_now int8, p_keep_succeeded int8, p_keep_cancelled int8, p_keep_failed int8, p_limit int4, OUT o_removed int4,
                                   OUT o_next int8) LANGUAGE plpgsql AS $$
DECLARE
    v_count int4;
    r record;
BEGIN
    o_removed := 0;
    IF (SELECT families FROM pawl_gate) = 0 THEN RETURN; END IF;
    FOR r IN
        SELECT b.id FROM (VALUES (4, p_keep_succeeded), (6, p_keep_cancelled), (5, p_keep_failed)) x (state, keep_us),
            LATERAL (SELECT y.id FROM pawl_batch y WHERE y.state = x.state AND y.ended_us <= p_now - x.keep_us ORDER BY y.ended_us LIMIT 100) b
        WHERE x.keep_us >= 0
    LOOP
        EXIT WHEN o_removed >= p_limit;
        DELETE FROM pawl_member WHERE task_id = ANY (ARRAY(SELECT m.task_id FROM pawl_member m WHERE m.batch_id = r.id LIMIT p_limit - o_removed));
        GET DIAGNOSTICS v_count = ROW_COUNT;
        o_removed := o_removed + v_count + 1;
        EXIT WHEN o_removed > p_limit; -- the rest of its members in the next step
        INSERT INTO pawl_kept (id, state) SELECT b.id, b.state FROM pawl_batch b
        WHERE b.id = r.id AND EXISTS (SELECT FROM pawl_edge e WHERE e.parent_id = ANY (ARRAY[b.id])) ON CONFLICT DO NOTHING;
        DELETE FROM pawl_member WHERE task_id = r.id;
        DELETE FROM pawl_batch_part WHERE batch_id = r.id;
        DELETE FROM pawl_batch WHERE id = r.id;
    END LOOP;
    o_removed := least(o_removed, p_limit);
    SELECT min(greatest(b.ended_us + x.keep_us - p_now, 1)) INTO o_next
    FROM (VALUES (4, p_keep_succeeded), (6, p_keep_cancelled), (5, p_keep_failed)) x (state, keep_us),
        LATERAL (SELECT y.ended_us FROM pawl_batch y WHERE y.state = x.state AND y.ended_us IS NOT NULL ORDER BY y.ended_us LIMIT 1) b
    WHERE x.keep_us >= 0;
END $$;

-- Relatives of a task or batch, by id: relation 1 parents, 2 children, 3 members, 4 the batch.
CREATE OR REPLACE FUNCTION pawl_relatives(p_of int8, p_relation int4, p_after int8, p_limit int4, p_waited bool)
RETURNS TABLE (id int8, batch bool, type text, state int8, waits bool, held bool, if_failed int8, result bytea, result_type text,
               result_ref text, error text)
LANGUAGE plpgsql STABLE SET search_path FROM CURRENT SET jit = off SET enable_seqscan = off AS $$
BEGIN
    RETURN QUERY
    SELECT x.id, b.id IS NOT NULL, coalesce(b.name, n.text)::text,
        coalesce(b.state, v.state, CASE WHEN l.id IS NOT NULL THEN 3 END, d.state, f.state, k.state, 0)::int8, x.waits, x.held, x.if_failed,
        CASE WHEN p_relation = 1 THEN coalesce(d.result, f.result, k.result) END, CASE WHEN p_relation = 1 THEN coalesce(d.result_type, f.result_type, k.result_type) END,
        CASE WHEN p_relation = 1 THEN coalesce(d.result_ref, f.result_ref, k.result_ref) END, CASE WHEN p_relation = 1 THEN coalesce(d.error, f.error, k.error) END
    FROM (SELECT y.id, y.state <> 1 AND w.child_id IS NOT NULL AS waits, y.state = 2 AND w.child_id IS NOT NULL AS held,
              CASE WHEN y.state <> 1 THEN coalesce(w.if_failed, 0) ELSE 0 END::int8 AS if_failed
          FROM (SELECT e.parent_id AS id, e.child_id, e.state FROM pawl_edge e WHERE p_relation = 1 AND e.child_id = p_of AND e.parent_id > p_after
                UNION ALL SELECT e.child_id, e.child_id, e.state FROM pawl_edge e WHERE p_relation = 2 AND e.parent_id = p_of AND e.child_id > p_after
                UNION ALL SELECT m.task_id, 0, 1::int2 FROM pawl_member m WHERE p_relation = 3 AND m.batch_id = p_of AND m.task_id > p_after
                UNION ALL SELECT m.batch_id, 0, 1::int2 FROM pawl_member m WHERE p_relation = 4 AND m.task_id = p_of AND m.batch_id > p_after) y
          LEFT JOIN pawl_wait w ON w.child_id = y.child_id
          WHERE NOT p_waited OR (y.state <> 1 AND w.child_id IS NOT NULL) ORDER BY y.id LIMIT p_limit) x
    LEFT JOIN pawl_batch_whole b ON b.id = x.id
    LEFT JOIN pawl_body o ON o.id = x.id LEFT JOIN pawl_name n ON n.id = o.type_id
    LEFT JOIN pawl_live v ON v.id = x.id LEFT JOIN pawl_leased l ON l.id = x.id
    LEFT JOIN LATERAL (SELECT z.state, z.result, z.result_type, z.result_ref, z.error FROM pawl_done z WHERE z.id = x.id LIMIT 1) d ON true
    LEFT JOIN pawl_failed f ON f.id = x.id LEFT JOIN pawl_kept k ON k.id = x.id AND p_relation = 1 AND v.id IS NULL AND l.id IS NULL
    ORDER BY x.id;
END $$;
