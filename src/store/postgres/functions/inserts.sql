-- New tasks.
--
--   key's last task      result
--   none                 done
--   waiting, pending     updated: body, time, priority, queue and type are replaced, the id stays
--   leased, not started  taken back, then updated
--   leased, started      existing
--   finished             replaced: a new task takes the key
--
-- Tasks whose id is new and whose key is free, if they have one, are stored by pawl_put, all of them with a few statements. Others (id to
-- be drawn, id handed back, key taken, depth limited, spawned) go one by one through pawl_put_one.

-- A task as it stands, whatever table it is in; state 0: there is none.
CREATE OR REPLACE FUNCTION pawl_find(p_id int8, OUT o_state int2, OUT o_fence int4, OUT o_run_at int8, OUT o_not_started bool)
LANGUAGE plpgsql SET search_path FROM CURRENT AS $$
BEGIN
    SELECT s.state, s.fence, s.run_at_us, s.not_started INTO o_state, o_fence, o_run_at, o_not_started FROM (
        SELECT 3::int2 AS state, fence, coalesce(run_at_us, leased_us) AS run_at_us, not_started FROM pawl_leased WHERE id = p_id
        UNION ALL SELECT state, fence, run_at_us, false FROM pawl_live WHERE id = p_id
        UNION ALL SELECT state, fence, run_at_us, false FROM pawl_done WHERE id = p_id
        UNION ALL SELECT state, fence, run_at_us, false FROM pawl_failed WHERE id = p_id) s LIMIT 1;
    o_state := coalesce(o_state, 0);
END $$;

-- Locks the task's row, if it is not finished: nobody else changes it before the end of the transaction. Exactly one of the rows comes
-- back, or none.
CREATE OR REPLACE FUNCTION pawl_hold(p_id int8, OUT o_live pawl_live, OUT o_leased pawl_leased) LANGUAGE plpgsql AS $$
BEGIN
    FOR i IN 1..1000 LOOP
        SELECT * INTO o_live FROM pawl_live WHERE id = p_id FOR UPDATE;
        IF FOUND THEN RETURN; END IF;
        SELECT * INTO o_leased FROM pawl_leased WHERE id = p_id FOR UPDATE;
        IF FOUND THEN RETURN; END IF;
        -- Between the two looks it may have gone from one table to the other.
        IF (pawl_find(p_id)).o_state NOT IN (1, 2, 3) THEN RETURN; END IF;
    END LOOP;
    RAISE EXCEPTION 'task % does not stand still', p_id USING ERRCODE = 'lock_not_available';
END $$;

-- A lease that nobody relies on yet goes back, with a fence that its holder does not know. The caller stores the row.
CREATE OR REPLACE FUNCTION pawl_take_back(p_by int4, p_by_lane int8, INOUT p_row pawl_leased) LANGUAGE plpgsql AS $$
BEGIN
    PERFORM pawl_trail_grant(p_row);
    DELETE FROM pawl_leased WHERE id = p_row.id;
    PERFORM pawl_take(p_row.node, -1, p_by, p_by_lane);
    p_row.fence := p_row.fence + 1;
END $$;

-- Whether a lease may be granted at birth.
CREATE OR REPLACE FUNCTION pawl_may_lease(p_now int8, p_may bool, u pawl_new) RETURNS bool LANGUAGE plpgsql STABLE AS $$
BEGIN
    RETURN p_may AND coalesce(u.ask, false) AND u.parent IS NULL AND pawl_due(p_now, u.when_us) <= p_now
       AND NOT EXISTS (SELECT FROM pawl_queue WHERE queue_id = u.queue_id AND paused);
END $$;

-- Stores a new task under its id; false: the id is taken.
CREATE OR REPLACE FUNCTION pawl_create(p_now int8, p_node int4, p_lane int8, p_leased bool, u pawl_new) RETURNS bool LANGUAGE plpgsql AS $$
DECLARE
    v_did bool;
BEGIN
    INSERT INTO pawl_body (id, created_us, type_id, queue_id, priority, born, level, audit, tenant_id, max_attempts, timeout_us, retry_of,
                           key, content_type, created_by, traceparent, headers, rate_key, payload)
    VALUES (u.id, p_now, u.type_id, u.queue_id, u.priority, CASE WHEN p_leased THEN 3 WHEN u.waits THEN 1 ELSE 2 END, u.level, u.audit, u.tenant_id,
            u.max_attempts, u.timeout_us, u.retry_of, u.key, u.content_type, u.created_by, u.traceparent, u.headers, u.rate_key, u.payload)
    ON CONFLICT DO NOTHING;
    IF NOT FOUND THEN RETURN false; END IF;
    IF p_leased THEN
        INSERT INTO pawl_leased (id, leased_us, node, queue_id, type_id, fence, priority, class, level, strikes, runs, failures,
                                 interruptions, rescues, not_started, mark, cancel_asked)
        VALUES (u.id, p_now, p_node, u.queue_id, u.type_id, 1, u.priority, 0, u.level, 0, 0, 0, 0, 0, false, false, false);
    ELSE
        INSERT INTO pawl_live (id, run_at_us, queue_id, type_id, fence, priority, class, state, level, runs, failures, interruptions,
                               rescues, strikes, blocked)
        VALUES (u.id, pawl_due(p_now, u.when_us), u.queue_id, u.type_id, 0, u.priority, 0, CASE WHEN u.waits THEN 1 ELSE 2 END, u.level, 0, 0, 0,
                0, 0, false);
    END IF;
    IF u.waits THEN v_did := pawl_add_waiting(p_node, p_lane, u.queue_id, 1);
    ELSE v_did := pawl_add(p_node, p_lane, u.queue_id, CASE WHEN p_leased THEN 0 ELSE 1 END, CASE WHEN p_leased THEN 1 ELSE 0 END, 0);
    END IF;
    v_did := pawl_roll(p_now, p_node, p_lane, u.queue_id, u.type_id, 1::int2, 1, NULL, NULL);
    v_did := pawl_bear(p_now, p_node, p_lane, u.id, u.id);
    RETURN true;
END $$;

-- The body, time, priority, queue and type of a live task that has not started are replaced; its row is locked.
CREATE OR REPLACE FUNCTION pawl_update(p_now int8, p_node int4, p_lane int8, u pawl_new, p_live pawl_live, p_leased pawl_leased) RETURNS void
LANGUAGE plpgsql AS $$
DECLARE
    v_level int2 := coalesce(p_live.level, p_leased.level);
BEGIN
    PERFORM pawl_withdraw(coalesce(p_live.id, p_leased.id));
    IF p_leased.id IS NOT NULL THEN
        p_leased := pawl_take_back(p_node, p_lane, p_leased);
        IF pawl_wanted(u.level, 0) THEN
            PERFORM pawl_trail(p_leased.id, p_now, 3::int2, 2::int2, p_leased.fence, p_leased.node, 'taken back');
        END IF;
        INSERT INTO pawl_live (id, run_at_us, queue_id, type_id, fence, priority, class, state, level, runs, failures, interruptions,
                               rescues, strikes, blocked)
        VALUES (p_leased.id, pawl_due(p_now, u.when_us), u.queue_id, u.type_id, p_leased.fence, u.priority, p_leased.class, 2, u.level,
                p_leased.runs, p_leased.failures, p_leased.interruptions, p_leased.rescues, p_leased.strikes, false);
        PERFORM pawl_add(p_node, p_lane, p_leased.queue_id, 0, -1, 0);
    ELSE
        UPDATE pawl_live SET run_at_us = pawl_due(p_now, u.when_us), queue_id = u.queue_id, type_id = u.type_id, priority = u.priority,
            level = u.level WHERE id = p_live.id;
        IF p_live.state = 1 THEN PERFORM pawl_add_waiting(p_node, p_lane, p_live.queue_id, -1);
        ELSE PERFORM pawl_add(p_node, p_lane, p_live.queue_id, -1, 0, 0);
        END IF;
    END IF;
    IF p_live.state = 1 THEN PERFORM pawl_add_waiting(p_node, p_lane, u.queue_id, 1);
    ELSE PERFORM pawl_add(p_node, p_lane, u.queue_id, 1, 0, 0);
    END IF;
    IF v_level = 1 AND u.level <> 1 THEN
        INSERT INTO pawl_audit (task_id, number, at_us, from_state, to_state, fence, node)
        SELECT id, 0, created_us, 0, born, 0, 0 FROM pawl_body WHERE id = coalesce(p_live.id, p_leased.id) AND born IN (1, 2);
    END IF;
    UPDATE pawl_body SET type_id = u.type_id, queue_id = u.queue_id, priority = u.priority,
        born = CASE WHEN level = u.level THEN born ELSE 0 END, level = u.level, audit = u.audit, max_attempts = u.max_attempts,
        timeout_us = u.timeout_us, content_type = u.content_type, created_by = u.created_by, traceparent = u.traceparent,
        headers = u.headers, rate_key = u.rate_key, payload = u.payload
    WHERE id = coalesce(p_live.id, p_leased.id);
END $$;

-- Takes the key for the task, or answers with the task that has it: 1 it was free, 4 its last holder is finished or gone, 3 its holder has
-- not started (and is held), 2 its holder runs.
CREATE OR REPLACE FUNCTION pawl_take_key(p_key text, p_tenant int4, p_id int8, OUT o_result int4, OUT o_holder int8, OUT o_live pawl_live,
                              OUT o_leased pawl_leased) LANGUAGE plpgsql AS $$
DECLARE
    h record;
BEGIN
    LOOP
        SELECT task_id INTO o_holder FROM pawl_key WHERE key = p_key AND tenant_id = p_tenant AND old = 0 FOR UPDATE;
        EXIT WHEN FOUND;
        INSERT INTO pawl_key (key, tenant_id, old, task_id) VALUES (p_key, p_tenant, 0, p_id) ON CONFLICT DO NOTHING;
        IF FOUND THEN
            o_result := 1;
            RETURN;
        END IF;
    END LOOP;
    SELECT * INTO h FROM pawl_hold(o_holder);
    o_live := h.o_live;
    o_leased := h.o_leased;
    IF o_live.id IS NOT NULL OR o_leased.not_started THEN
        o_result := 3;
    ELSIF o_leased.id IS NOT NULL THEN
        o_result := 2;
    ELSE
        o_result := 4;
        INSERT INTO pawl_key (key, tenant_id, old, task_id) VALUES (p_key, p_tenant, o_holder, o_holder) ON CONFLICT DO NOTHING;
        UPDATE pawl_key SET task_id = p_id WHERE key = p_key AND tenant_id = p_tenant AND old = 0;
    END IF;
END $$;

-- One INSERT, whatever it meets.
CREATE OR REPLACE FUNCTION pawl_put_one(p_now int8, p_node int4, p_lane int8, p_may bool, u pawl_new, OUT o_result int4, OUT o_id int8,
                             OUT o_fence int4, OUT o_run_at int8, OUT o_state int2, OUT o_slot text) LANGUAGE plpgsql AS $$
DECLARE
    k record;
    v_drawn bool := u.id = 0;
    v_lease bool := pawl_may_lease(p_now, p_may, u) AND u.waits IS NOT TRUE;
BEGIN
    o_fence := 0;
    IF NOT v_drawn AND EXISTS (SELECT FROM pawl_body WHERE id = u.id) THEN
        IF u.parent IS NOT NULL THEN -- nobody could send a spawn again
            v_drawn := true;
        ELSE
            o_result := CASE WHEN u.may_exist THEN 2 ELSE 10 END;
            IF u.may_exist THEN
                SELECT u.id, f.o_run_at, f.o_state INTO o_id, o_run_at, o_state FROM pawl_find(u.id) f;
            END IF;
            RETURN;
        END IF;
    END IF;
    IF u.judged <> 1 THEN -- its family forbids it, but that its key may be that of a live task
        SELECT f.o_state, f.o_run_at, y.task_id INTO o_state, o_run_at, o_id FROM pawl_key y, pawl_find(y.task_id) f
        WHERE u.key IS NOT NULL AND y.key = u.key AND y.tenant_id = coalesce(u.tenant_id, 0) AND y.old = 0;
        o_result := CASE WHEN o_state IN (1, 2, 3) THEN 2 ELSE u.judged END;
        IF o_result <> 2 THEN SELECT u.judged_id, 0, 0 INTO o_id, o_run_at, o_state; END IF;
        RETURN;
    END IF;
    o_result := 1;
    IF u.key IS NOT NULL THEN
        SELECT * INTO k FROM pawl_take_key(u.key, coalesce(u.tenant_id, 0), u.id);
        o_result := k.o_result;
        IF o_result = 2 THEN
            SELECT k.o_holder, coalesce((k.o_leased).run_at_us, (k.o_leased).leased_us), 3 INTO o_id, o_run_at, o_state;
            RETURN;
        ELSIF o_result = 3 AND u.judged = 1 THEN -- a family is never replaced
            o_result := 2;
            SELECT k.o_holder, coalesce((k.o_live).run_at_us, (k.o_leased).run_at_us, (k.o_leased).leased_us), coalesce((k.o_live).state, 3::int2)
            INTO o_id, o_run_at, o_state;
            RETURN;
        ELSIF o_result = 3 THEN
            IF (k.o_live).state IS DISTINCT FROM 1 THEN u.when_us := pawl_slot_update(p_now, u, k.o_live, k.o_leased); END IF;
            PERFORM pawl_update(p_now, p_node, p_lane, u, k.o_live, k.o_leased);
            SELECT k.o_holder, pawl_due(p_now, u.when_us), coalesce(nullif((k.o_live).state, 3::int2), 2::int2) INTO o_id, o_run_at, o_state;
            RETURN;
        END IF;
    END IF;
    IF v_drawn THEN
        FOR i IN 1..1000 LOOP
            u.id := pawl_draw(p_now);
            EXIT WHEN NOT EXISTS (SELECT FROM pawl_body WHERE id = u.id);
        END LOOP;
        IF u.key IS NOT NULL THEN
            UPDATE pawl_key SET task_id = u.id WHERE key = u.key AND tenant_id = coalesce(u.tenant_id, 0) AND old = 0;
        END IF;
    END IF;
    IF u.budget IS NOT NULL AND u.waits IS NOT TRUE THEN
        k := pawl_slot_insert(p_now, v_lease, u);
        u := k.u;
        v_lease := k.o_lease;
        o_slot := k.o_slot;
    END IF;
    IF NOT pawl_create(p_now, p_node, p_lane, v_lease, u) THEN
        RAISE EXCEPTION 'id % was taken meanwhile', u.id USING ERRCODE = 'serialization_failure';
    END IF;
    o_id := u.id;
    o_run_at := pawl_due(p_now, u.when_us);
    o_fence := v_lease::int4;
    o_state := CASE WHEN u.waits THEN 1 ELSE 2 + v_lease::int4 END;
END $$;

-- Which of the INSERTs find their queue full, groups as a whole, and by how many tasks. Before anything else of the batch is done.
CREATE OR REPLACE FUNCTION pawl_full(u pawl_new[], OUT o_ops int4[], OUT o_missing int8[]) LANGUAGE plpgsql AS $$
DECLARE
    v_judged int4[] := '{}';
    v_queues int4[] := '{}';
    v_depths int8[] := '{}';
    v_before int8[];
    v_missing int8;
    n pawl_new;
    g pawl_new;
    q int4;
    s record;
BEGIN
    o_ops := '{}';
    o_missing := '{}';
    -- Inserts with a limit come one after another.
    INSERT INTO pawl_queue (queue_id) SELECT DISTINCT x.queue_id FROM unnest(u) x WHERE x.depth_limit > 0 ORDER BY 1 ON CONFLICT DO NOTHING;
    PERFORM FROM pawl_queue WHERE queue_id IN (SELECT x.queue_id FROM unnest(u) x WHERE x.depth_limit > 0) ORDER BY queue_id FOR UPDATE;
    FOREACH n IN ARRAY u LOOP
        CONTINUE WHEN n.op = ANY (v_judged) OR n.parent IS NOT NULL;
        v_missing := 0;
        v_before := v_depths;
        FOR g IN SELECT x.* FROM unnest(u) x WHERE x.op = n.op OR (x.member > 0 AND x.member = n.member) ORDER BY x.op LOOP
            v_judged := v_judged || g.op;
            CONTINUE WHEN g.id <> 0 AND EXISTS (SELECT FROM pawl_body WHERE id = g.id);
            IF g.key IS NOT NULL THEN
                SELECT f.o_state INTO s FROM pawl_key y, pawl_find(y.task_id) f
                WHERE y.key = g.key AND y.tenant_id = coalesce(g.tenant_id, 0) AND y.old = 0;
                CONTINUE WHEN FOUND AND s.o_state IN (1, 2, 3);
            END IF;
            q := array_position(v_queues, g.queue_id);
            IF q IS NULL THEN
                v_queues := v_queues || g.queue_id;
                q := cardinality(v_queues);
                v_depths[q] := (SELECT coalesce(sum(waiting + pending + leased), 0) FROM pawl_count WHERE queue_id = g.queue_id);
                v_before[q] := v_depths[q];
            END IF;
            v_depths[q] := v_depths[q] + 1;
            IF g.depth_limit > 0 THEN v_missing := greatest(v_missing, v_depths[q] - g.depth_limit); END IF;
        END LOOP;
        IF v_missing > 0 THEN
            v_depths := v_before;
            o_ops := o_ops || ARRAY(SELECT x.op FROM unnest(u) x WHERE x.op = n.op OR (x.member > 0 AND x.member = n.member));
            o_missing := o_missing || array_fill(v_missing, ARRAY[cardinality(o_ops) - cardinality(o_missing)]);
        END IF;
    END LOOP;
END $$;

-- What most batches hold: INSERTs that are due now and have a payload and nothing else; all of them ask for a lease, or none. o_done false:
-- a queue is paused, so this is not the way.
CREATE OR REPLACE FUNCTION pawl_put_simple(p_now int8, p_node int4, p_lane int8, p_may bool, p_id int8[], p_type int4[], p_queue int4[],
                                p_priority int2[], p_level int2[], p_audit int2[], p_ask bool[], p_content_type text,
                                p_payload bytea[], OUT o_done bool, OUT o_hints text, OUT o_leases int8) LANGUAGE plpgsql AS $$
DECLARE
    v_did bool;
    v_lease bool := p_ask IS NOT NULL AND p_may;
    r record;
BEGIN
    o_hints := '';
    o_leases := 0;
    o_done := p_ask IS NULL OR (p_may AND NOT EXISTS (SELECT FROM pawl_queue WHERE paused));
    IF NOT o_done THEN RETURN; END IF;
    INSERT INTO pawl_body (id, created_us, type_id, queue_id, priority, born, level, audit, content_type, payload)
    SELECT u.id, p_now, u.type, u.queue, u.priority, CASE WHEN v_lease THEN 3 ELSE 2 END, u.level, u.audit, p_content_type, u.payload
    FROM unnest(p_id, p_type, p_queue, p_priority, p_level, p_audit, p_payload) u (id, type, queue, priority, level, audit, payload);
    IF v_lease THEN
        INSERT INTO pawl_leased (id, leased_us, node, queue_id, type_id, fence, priority, class, level, strikes, runs, failures,
                                 interruptions, rescues, not_started, mark, cancel_asked)
        SELECT u.id, p_now, p_node, u.queue, u.type, 1, u.priority, 0, u.level, 0, 0, 0, 0, 0, false, false, false
        FROM unnest(p_id, p_type, p_queue, p_priority, p_level) u (id, type, queue, priority, level);
        o_leases := cardinality(p_id);
    ELSE
        INSERT INTO pawl_live (id, run_at_us, queue_id, type_id, fence, priority, class, state, level, runs, failures, interruptions,
                               rescues, strikes, blocked)
        SELECT u.id, p_now, u.queue, u.type, 0, u.priority, 0, 2, u.level, 0, 0, 0, 0, 0, false
        FROM unnest(p_id, p_type, p_queue, p_priority, p_level) u (id, type, queue, priority, level);
    END IF;
    FOR r IN SELECT u.queue, u.type, u.priority, count(*) AS n, min(u.id) AS min_id, max(u.id) AS max_id
             FROM unnest(p_id, p_type, p_queue, p_priority) u (id, type, queue, priority) GROUP BY u.queue, u.type, u.priority LOOP
        v_did := pawl_add(p_node, p_lane, r.queue, CASE WHEN v_lease THEN 0 ELSE r.n END, CASE WHEN v_lease THEN r.n ELSE 0 END, 0);
        v_did := pawl_roll(p_now, p_node, p_lane, r.queue, r.type, 1::int2, r.n, NULL, NULL);
        v_did := pawl_bear(p_now, p_node, p_lane, r.min_id, r.max_id);
        IF NOT v_lease THEN o_hints := o_hints || pawl_hint(r.queue, r.priority, 0, r.type, p_now); END IF;
    END LOOP;
END $$;

-- All INSERTs of a batch. p_slow: those that must go one by one; p_undone: FINISHes whose spawns are not stored; p_full, p_missing: see
-- pawl_full. p_waits: those that wait for parents; p_kin_at, p_kin_n, p_kin and what follows: see pawl_judge. o_noted: there is something to tell.
CREATE OR REPLACE FUNCTION pawl_put(p_now int8, p_node int4, p_lane int8, p_may bool, p_op int4[], p_id int8[], p_type int4[], p_queue int4[],
                         p_priority int2[], p_level int2[], p_audit int2[], p_when int8[], p_ask bool[], p_tenant int4[], p_max int4[],
                         p_timeout int8[], p_retry_of int8[], p_key text[], p_content_type text[], p_created_by text[],
                         p_traceparent text[], p_headers text[], p_rate_key bytea[], p_payload bytea[], p_slow bool[], p_news pawl_new[],
                         p_undone int4[], p_full int4[], p_missing int8[], p_waits bool[], p_kin_at int4[], p_kin_n int4[], p_kin int8[],
                         k_id int8[], k_state int2[], k_closed bool[], d_id int8[], d_result int4[], p_check bool,
                         OUT o_results text, OUT o_hints text, OUT o_leases int8, OUT o_noted bool) LANGUAGE plpgsql AS $$
DECLARE
    v_did bool;
    v_paused int4[];
    v_taken int8[];
    v_bodies int8;
    v_leased int8 := 0;
    v_asked int8;
    v_turns int4[];
    c_child int8[] := '{}';
    c_at int4[] := '{}';
    c_n int4[] := '{}';
    r record;
    n pawl_new;
    a record;
BEGIN
    o_results := '';
    o_hints := '';
    o_leases := 0;
    o_noted := false;
    IF p_key IS NOT NULL THEN
        WITH k AS (
            INSERT INTO pawl_key (key, tenant_id, old, task_id)
            SELECT u.key, coalesce(u.tenant, 0), 0, u.id FROM unnest(p_key, p_tenant, p_id, p_slow) u (key, tenant, id, slow)
            WHERE u.key IS NOT NULL AND u.slow IS NOT TRUE ORDER BY 1, 2
            ON CONFLICT DO NOTHING RETURNING task_id)
        SELECT array_agg(u.id) INTO v_taken FROM unnest(p_key, p_id, p_slow) u (key, id, slow)
        WHERE u.key IS NOT NULL AND u.slow IS NOT TRUE AND u.id NOT IN (SELECT task_id FROM k);
        PERFORM FROM pawl_key k, (SELECT x.*, 0::int8 AS none FROM unnest(p_key, p_tenant) x OFFSET 0) u (key, tenant, none) -- see pawl_holders
            WHERE k.key = ANY (ARRAY[u.key]) AND k.tenant_id = ANY (ARRAY[coalesce(u.tenant, 0)]) AND k.old = ANY (ARRAY[u.none])
            ORDER BY u.key COLLATE "C", coalesce(u.tenant, 0) FOR UPDATE OF k;
    END IF;
    IF p_ask IS NOT NULL THEN
        SELECT array_agg(queue_id) INTO v_paused FROM pawl_queue WHERE paused;
    END IF;
    INSERT INTO pawl_body (id, created_us, type_id, queue_id, priority, born, level, audit, tenant_id, max_attempts, timeout_us, retry_of,
                           key, content_type, created_by, traceparent, headers, rate_key, payload)
    SELECT u.id, p_now, u.type, u.queue, u.priority,
        CASE WHEN u.ask AND p_may AND (v_paused IS NULL OR u.queue <> ALL (v_paused)) AND pawl_due(p_now, u.w) <= p_now THEN 3
             WHEN u.waits THEN 1 ELSE 2 END,
        u.level, u.audit, u.tenant, u.max, u.timeout, u.retry_of, u.key, u.content_type, u.created_by, u.traceparent, u.headers,
        u.rate_key, u.payload
    FROM unnest(p_id, p_type, p_queue, p_priority, p_level, p_audit, p_when, p_ask, p_tenant, p_max, p_timeout, p_retry_of, p_key,
                p_content_type, p_created_by, p_traceparent, p_headers, p_rate_key, p_payload, p_slow, p_waits)
        u (id, type, queue, priority, level, audit, w, ask, tenant, max, timeout, retry_of, key, content_type, created_by, traceparent,
           headers, rate_key, payload, slow, waits)
    WHERE u.slow IS NOT TRUE AND (v_taken IS NULL OR u.id <> ALL (v_taken));
    GET DIAGNOSTICS v_bodies = ROW_COUNT;
    IF p_ask IS NOT NULL AND p_may AND v_bodies > 0 THEN
        INSERT INTO pawl_leased (id, leased_us, node, queue_id, type_id, fence, priority, class, level, strikes, runs, failures,
                                 interruptions, rescues, not_started, mark, cancel_asked)
        SELECT u.id, p_now, p_node, u.queue, u.type, 1, u.priority, 0, u.level, 0, 0, 0, 0, 0, false, false, false
        FROM unnest(p_id, p_type, p_queue, p_priority, p_level, p_when, p_ask, p_slow) u (id, type, queue, priority, level, w, ask, slow)
        WHERE u.ask AND u.slow IS NOT TRUE AND (v_taken IS NULL OR u.id <> ALL (v_taken)) AND pawl_due(p_now, u.w) <= p_now
            AND (v_paused IS NULL OR u.queue <> ALL (v_paused));
        GET DIAGNOSTICS v_leased = ROW_COUNT;
    END IF;
    IF v_leased < v_bodies THEN
        SELECT array_agg(b.name_id) INTO v_turns FROM pawl_bound b WHERE b.scope = 4 AND b.name_id = ANY (p_queue) AND b.key = '' AND b.most > 0;
        INSERT INTO pawl_live (id, run_at_us, queue_id, type_id, fence, priority, class, state, level, runs, failures, interruptions,
                               rescues, strikes, blocked)
        SELECT u.id, pawl_due(p_now, u.w), u.queue, u.type, 0, u.priority, 0, CASE WHEN u.waits THEN 1 ELSE 2 END, u.level, 0, 0, 0, 0, 0,
            u.waits IS NOT TRUE AND coalesce(u.queue = ANY (v_turns), false)
        FROM unnest(p_id, p_type, p_queue, p_priority, p_level, p_when, p_ask, p_slow, p_waits)
            u (id, type, queue, priority, level, w, ask, slow, waits)
        WHERE u.slow IS NOT TRUE AND (v_taken IS NULL OR u.id <> ALL (v_taken))
            AND NOT (coalesce(u.ask, false) AND p_may AND pawl_due(p_now, u.w) <= p_now
                     AND (v_paused IS NULL OR u.queue <> ALL (v_paused)));
        IF v_turns IS NOT NULL THEN
            INSERT INTO pawl_shared (task_id, queue_id, priority, tenant_id, lane, run_at_us)
            SELECT u.id, u.queue, u.priority, coalesce(u.tenant, 0), pawl_lane_of(u.priority, 0, u.type), pawl_due(p_now, u.w)
            FROM unnest(p_id, p_type, p_queue, p_priority, p_when, p_ask, p_tenant, p_slow, p_waits)
                u (id, type, queue, priority, w, ask, tenant, slow, waits)
            WHERE u.slow IS NOT TRUE AND u.waits IS NOT TRUE AND u.queue = ANY (v_turns) AND (v_taken IS NULL OR u.id <> ALL (v_taken))
                AND NOT (coalesce(u.ask, false) AND p_may AND pawl_due(p_now, u.w) <= p_now
                         AND (v_paused IS NULL OR u.queue <> ALL (v_paused)));
        END IF;
    END IF;
    o_leases := v_leased;
    IF v_bodies > 0 THEN
        FOR r IN
            SELECT u.queue, u.type, x.leased, CASE WHEN NOT x.leased THEN u.priority END AS priority, coalesce(u.waits, false) AS waits,
                count(*) AS n, min(u.id) AS min_id,
                max(u.id) AS max_id, min(pawl_due(p_now, u.w)) AS due_us,
                string_agg(pawl_answer(u.op, 1, u.id, 0, pawl_due(p_now, u.w), 2), '') FILTER (WHERE u.ask AND NOT x.leased) AS answers,
                string_agg(' ' || u.op, '') FILTER (WHERE u.waits) AS waiting
            FROM unnest(p_op, p_id, p_type, p_queue, p_priority, p_when, p_ask, p_slow, p_waits)
                u (op, id, type, queue, priority, w, ask, slow, waits),
                LATERAL (SELECT coalesce(u.ask, false) AND p_may AND pawl_due(p_now, u.w) <= p_now
                                AND (v_paused IS NULL OR u.queue <> ALL (v_paused)) AS leased) x
            WHERE u.slow IS NOT TRUE AND (v_taken IS NULL OR u.id <> ALL (v_taken))
            GROUP BY 1, 2, 3, 4, 5
        LOOP
            IF r.waits THEN v_did := pawl_add_waiting(p_node, p_lane, r.queue, r.n);
            ELSE v_did := pawl_add(p_node, p_lane, r.queue, CASE WHEN r.leased THEN 0 ELSE r.n END, CASE WHEN r.leased THEN r.n ELSE 0 END, 0);
            END IF;
            v_did := pawl_roll(p_now, p_node, p_lane, r.queue, r.type, 1::int2, r.n, NULL, NULL);
            v_did := pawl_bear(p_now, p_node, p_lane, r.min_id, r.max_id);
            IF NOT r.leased AND NOT r.waits THEN o_hints := o_hints || pawl_hint(r.queue, r.priority, 0, r.type, r.due_us); END IF;
            o_results := o_results || coalesce(r.answers, '') || coalesce('W' || r.waiting || E'\n', '');
        END LOOP;
    END IF;
    IF p_kin IS NOT NULL THEN
        SELECT coalesce(array_agg(u.id), '{}') AS id, coalesce(array_agg(u.at), '{}') AS at, coalesce(array_agg(u.n), '{}') AS n INTO r
        FROM unnest(p_id, p_kin_at, p_kin_n, p_slow) u (id, at, n, slow)
        WHERE u.n > 0 AND u.slow IS NOT TRUE AND (v_taken IS NULL OR u.id <> ALL (v_taken));
        c_child := r.id;
        c_at := r.at;
        c_n := r.n;
    END IF;
    IF p_slow IS NULL AND v_taken IS NULL THEN
        IF cardinality(c_child) > 0 THEN o_noted := pawl_put_families(p_check, c_child, c_at, c_n, p_kin, k_id, k_state, d_id, d_result); END IF;
        RETURN;
    END IF;
    IF p_kin IS NOT NULL AND p_key IS NOT NULL THEN -- those whose keys were free are stored by now
        FOR i IN 1..cardinality(p_op) LOOP
            CONTINUE WHEN p_key[i] IS NULL OR p_slow[i] OR p_id[i] = ANY (v_taken);
            d_id[p_op[i] + 1] := p_id[i];
            d_result[p_op[i] + 1] := 1;
        END LOOP;
    END IF;
    FOREACH n IN ARRAY p_news LOOP
        CONTINUE WHEN n.parent = ANY (p_undone);
        CONTINUE WHEN NOT coalesce(p_slow[array_position(p_op, n.op)], false) AND (v_taken IS NULL OR n.id <> ALL (v_taken));
        IF n.op = ANY (p_full) THEN
            o_results := o_results || pawl_answer(n.op, 11, 0, p_missing[array_position(p_full, n.op)], 0, 0);
            IF p_kin IS NOT NULL THEN d_result[n.op + 1] := 11; END IF;
            CONTINUE;
        END IF;
        IF n.kin_n > 0 THEN
            a := pawl_judge(p_kin, n.kin_at, n.kin_n, k_id, k_state, k_closed, d_id, d_result, n.spawner_batch);
            n.judged := a.o_result;
            n.judged_id := a.o_id;
            n.waits := a.o_waits;
        END IF;
        SELECT * INTO a FROM pawl_put_one(p_now, p_node, p_lane, p_may, n);
        IF p_kin IS NOT NULL THEN
            d_id[n.op + 1] := a.o_id;
            d_result[n.op + 1] := a.o_result;
        END IF;
        IF n.kin_n > 0 AND a.o_result IN (1, 4) THEN
            c_child := c_child || a.o_id;
            c_at := c_at || n.kin_at;
            c_n := c_n || n.kin_n;
        END IF;
        o_results := o_results || pawl_answer(n.op, a.o_result, a.o_id, a.o_fence, a.o_run_at, a.o_state) || coalesce(a.o_slot, '');
        o_leases := o_leases + a.o_fence;
        IF a.o_result IN (1, 3, 4) AND a.o_fence = 0 THEN
            o_hints := o_hints || pawl_hint(n.queue_id, n.priority, 0, n.type_id, a.o_run_at);
        END IF;
    END LOOP;
    IF cardinality(c_child) > 0 THEN o_noted := pawl_put_families(p_check, c_child, c_at, c_n, p_kin, k_id, k_state, d_id, d_result); END IF;
END $$;
