-- Where tenants take turns, one tenant's flood costs another little time. Tasks are stored where they wait, not in the ready index first, which
-- left a dead row there for each of them that claims stepped over until a vacuum came. A claim chooses with a statement for each priority,
-- not with a dozen for each task. And a batch of which no limit but the turns wants anything asks for no places.

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
        PERFORM FROM pawl_key k, unnest(p_key, p_tenant) u (key, tenant) WHERE k.key = ANY (ARRAY[u.key]) AND k.tenant_id = ANY (ARRAY[coalesce(u.tenant, 0)])
            AND k.old = 0 ORDER BY k.key, k.tenant_id FOR UPDATE OF k;
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

-- Locks the spots that a batch may write at: where the leases that end (p_ends) have places; what tasks want that are cancelled or replaced; and,
-- of tasks that are new (i_), those that are full, or keep an order. Found as well as they can be without locks.
CREATE OR REPLACE FUNCTION pawl_hold_places(p_now int8, p_ends int8[], o_kind int2[], o_id int8[], i_queue int4[], i_type int4[], i_rate_key bytea[],
                                 i_when int8[], i_key text[], i_tenant int4[]) RETURNS int8[] LANGUAGE plpgsql AS $$
DECLARE
    v_ids int8[] := '{}';
    v_also int8[];
    w record;
    h record;
BEGIN
    IF o_id IS NOT NULL OR i_key IS NOT NULL THEN
        v_ids := ARRAY(SELECT u.id FROM unnest(o_id, o_kind) u (id, kind) WHERE u.kind IN (6, 7)
                       UNION SELECT k.task_id FROM unnest(i_key, i_tenant) u (key, tenant)
                       JOIN pawl_key k ON k.key = ANY (ARRAY[u.key]) AND k.tenant_id = ANY (ARRAY[coalesce(u.tenant, 0)]) AND k.old = 0);
    END IF;
    v_also := ARRAY(SELECT p.spot_id FROM pawl_place p WHERE p.task_id = ANY (p_ends || v_ids)
                    UNION SELECT k.spot_id FROM pawl_blocked k WHERE k.task_id = ANY (v_ids));
    IF cardinality(v_ids) > 0 THEN
        w := pawl_wants_of(v_ids);
        v_also := v_also || ARRAY(
            SELECT s.id FROM unnest(w.scope, w.name, w.key) u (scope, name, key)
            JOIN pawl_spot s ON s.scope = ANY (ARRAY[u.scope]) AND s.name_id = ANY (ARRAY[u.name]) AND s.key = ANY (ARRAY[u.key]));
    END IF;
    IF i_type IS NULL OR NOT EXISTS (SELECT FROM pawl_bound b WHERE b.name_id = ANY (i_queue || i_type) AND b.most > 0 AND b.scope < 4) THEN
        IF cardinality(v_also) = 0 THEN RETURN v_also; END IF;
        h := pawl_hold_spots('{}', '{}', '{}', '{}', v_also, 0);
        RETURN v_also;
    END IF;
    SELECT array_agg(x.scope) AS scope, array_agg(x.name) AS name, array_agg(x.key) AS key, array_agg(true) AS make INTO w
    FROM (SELECT DISTINCT y.scope, y.name, y.key FROM pawl_wants(i_queue, i_type, i_rate_key) z,
              unnest(z.i, z.scope, z.name, z.key, z.most, z.ordered) y (i, scope, name, key, most, ordered)
          WHERE y.ordered OR (pawl_due(p_now, i_when[y.i]) <= p_now AND y.most <= (
              SELECT count(*) FROM pawl_spot s JOIN pawl_place p ON p.spot_id = ANY (ARRAY[s.id])
              WHERE s.scope = y.scope AND s.name_id = y.name AND s.key = y.key))) x;
    h := pawl_hold_spots(coalesce(w.scope, '{}'), coalesce(w.name, '{}'), coalesce(w.key, '{}'), coalesce(w.make, '{}'), v_also, 0);
    RETURN h.o_ids || v_also;
END $$;

-- The last part of a batch. p_ends: tasks whose leases may have ended; p_new: those that are new or have another body. p_spots: what is locked;
-- NULL: nothing may be locked.
CREATE OR REPLACE FUNCTION pawl_settle(p_now int8, p_ends int8[], p_new int8[], p_spots int8[], OUT o_count int4, OUT o_hints text)
LANGUAGE plpgsql AS $$
DECLARE
    v_did bool;
    v_touched int8[] := pawl_leave_places(p_ends);
    r record;
BEGIN
    o_count := 0;
    o_hints := '';
    v_did := pawl_share(p_ends || p_new);
    IF p_spots IS NULL THEN
        INSERT INTO pawl_freed (spot_id) SELECT unnest(v_touched);
        IF cardinality(v_touched) > 0 THEN o_hints := '*'; END IF;
        RETURN;
    END IF;
    IF cardinality(p_spots) = 0 AND cardinality(v_touched) = 0 THEN RETURN; END IF;
    IF cardinality(p_new) > 0 THEN v_did := pawl_line_up(p_now, p_new, p_spots); END IF;
    IF EXISTS (SELECT FROM pawl_freed WHERE spot_id = ANY (p_spots)) THEN
        WITH d AS (DELETE FROM pawl_freed f WHERE f.ctid = ANY (ARRAY(SELECT x.ctid FROM pawl_freed x WHERE x.spot_id = ANY (p_spots)
                                                                      FOR UPDATE SKIP LOCKED)) RETURNING f.spot_id)
        SELECT v_touched || array_agg(d.spot_id) INTO v_touched FROM d;
    END IF;
    IF cardinality(v_touched) = 0 THEN RETURN; END IF;
    SELECT x.o_count, x.o_hints INTO o_count, o_hints FROM pawl_offer(v_touched, 2000) x;
END $$;

-- Takes due tasks of one priority from tenant to tenant, from where p_at says, at the most p_room. o_plain false: nothing was taken, for
-- here are suspects, or tenants and types that are too many for one statement. o_chosen is more than o_ids if somebody else has some of them; o_more:
-- there are others. o_at: whose turn it is now, if any got something.
CREATE FUNCTION pawl_take_turns(p_now int8, p_queue int4, p_priority int4, p_at pawl_round, p_any bool, p_types int4[], p_room int4,
                                OUT o_plain bool, OUT o_ids int8[], OUT o_lanes int8[], OUT o_chosen int4, OUT o_more bool, OUT o_tenant int4,
                                OUT o_rest int4) LANGUAGE plpgsql AS $$
DECLARE
    v_rest int4 := CASE WHEN p_at.rest > 0 THEN p_at.rest ELSE 0 END;
    v_last int4 := p_at.tenant_id - (p_at.rest > 0)::int4; -- its turn is over
BEGIN
    WITH RECURSIVE g AS (
        (SELECT s.tenant_id, s.lane, 1 AS k FROM pawl_shared s WHERE s.queue_id = p_queue AND s.priority = p_priority
         ORDER BY s.tenant_id, s.lane LIMIT 1)
        UNION ALL
        SELECT n.tenant_id, n.lane, g.k + 1
        FROM g, LATERAL (SELECT s.tenant_id, s.lane FROM pawl_shared s
                         WHERE s.queue_id = p_queue AND s.priority = p_priority AND (s.tenant_id, s.lane) > (g.tenant_id, g.lane)
                         ORDER BY s.tenant_id, s.lane LIMIT 1) n
        WHERE g.k <= 32),
    chosen AS MATERIALIZED (
        SELECT y.id, y.lane, y.tenant_id, y.weight, y.turn, row_number() OVER (ORDER BY y.turn, y.tenant_id <= v_last, y.tenant_id, y.r) AS n
        FROM (SELECT x.*, CASE WHEN x.r <= x.rest THEN 0 ELSE (x.r - x.rest - 1) / x.weight + (x.rest > 0)::int4 END AS turn
              FROM (SELECT d.id, t.lane, t.tenant_id, t.weight, t.rest, row_number() OVER (PARTITION BY t.tenant_id ORDER BY d.run_at_us, d.id) AS r
                    FROM (SELECT g.tenant_id, g.lane, CASE WHEN g.tenant_id = p_at.tenant_id THEN v_rest ELSE 0 END AS rest, coalesce((
                              SELECT b.most FROM pawl_bound b WHERE b.scope = 4 AND b.name_id = p_queue
                                  AND b.key = convert_to(g.tenant_id::text, 'UTF8') AND b.most > 0), 1) AS weight
                          FROM g WHERE p_any OR (g.lane & 4294967295) = ANY (p_types)) t,
                        LATERAL (SELECT s.task_id AS id, s.run_at_us FROM pawl_shared s
                                 WHERE s.queue_id = p_queue AND s.priority = p_priority AND s.tenant_id = t.tenant_id AND s.lane = t.lane
                                     AND s.run_at_us <= p_now
                                 ORDER BY s.run_at_us, s.task_id LIMIT p_room + 1) d) x) y
        ORDER BY n LIMIT p_room + 1),
    plain AS MATERIALIZED (
        SELECT (SELECT count(*) <= 32 FROM g) AND NOT EXISTS (SELECT FROM chosen c WHERE (c.lane >> 32) & 15 > 0) AS yes),
    locked AS MATERIALIZED (
        SELECT v.id FROM pawl_live v
        WHERE v.id = ANY (ARRAY(SELECT c.id FROM chosen c, plain p WHERE p.yes AND c.n <= p_room)) AND v.state = 2
        ORDER BY v.id FOR UPDATE SKIP LOCKED),
    gone AS (DELETE FROM pawl_shared s USING locked l WHERE s.task_id = ANY (ARRAY[l.id]) RETURNING s.task_id)
    SELECT p.yes, c.ids, c.lanes, c.chosen, c.more, e.tenant_id,
        CASE WHEN e.turn = 0 AND e.tenant_id = p_at.tenant_id AND v_rest > 0 THEN v_rest ELSE e.weight END
            - (SELECT count(*)::int4 FROM chosen z WHERE z.n <= p_room AND z.tenant_id = e.tenant_id AND z.turn = e.turn)
    INTO o_plain, o_ids, o_lanes, o_chosen, o_more, o_tenant, o_rest
    FROM plain p, (SELECT coalesce(array_agg(c.id ORDER BY c.n) FILTER (WHERE c.id = ANY (ARRAY(SELECT s.task_id FROM gone s))), '{}') AS ids,
                       coalesce(array_agg(DISTINCT c.lane), '{}') AS lanes, count(*) FILTER (WHERE c.n <= p_room)::int4 AS chosen,
                       count(*) > p_room AS more FROM chosen c) c
    LEFT JOIN LATERAL (SELECT z.tenant_id, z.turn, z.weight FROM chosen z WHERE z.n <= p_room ORDER BY z.n DESC LIMIT 1) e ON true;
END $$;

-- Goes from tenant to tenant within one priority, from where the last claim ended, and takes from each as many tasks as its weight says. The
-- queue's row of pawl_round is locked.
CREATE OR REPLACE FUNCTION pawl_choose_turns(p_now int8, p_queue int4, p_any bool, p_types int4[], p_got int4, p_free int4, p_room int4, p_solo bool,
                                  p_held int8, OUT o_ids int8[], OUT o_lanes int8[], OUT o_more bool, OUT o_solo bool,
                                  OUT o_touched int8[], OUT o_held int8) LANGUAGE plpgsql AS $$
DECLARE
    v_priority int4 := -32769;
    v_tenant int4;
    v_next int4;
    v_first int4;
    v_rest int4;
    v_left int4;
    v_before int4;
    v_blocked int4;
    v_skip int8[] := '{}';
    v_plain bool := p_room BETWEEN 1 AND 64 AND NOT EXISTS (
        SELECT FROM pawl_bound b WHERE b.scope IN (1, 2, 3) AND b.most > 0
            AND CASE WHEN b.scope = 1 THEN b.name_id = p_queue ELSE p_any OR b.name_id = ANY (p_types) END);
    a pawl_round;
    was pawl_round;
    c record;
    x record;
BEGIN
    o_ids := '{}';
    o_lanes := '{}';
    o_touched := '{}';
    o_more := false;
    o_solo := false;
    o_held := p_held;
    SELECT * INTO a FROM pawl_round r WHERE r.queue_id = p_queue;
    was := a;
    WHILE v_plain LOOP
        SELECT s.priority INTO v_priority FROM pawl_shared s WHERE s.queue_id = p_queue AND s.priority > v_priority ORDER BY s.priority LIMIT 1;
        EXIT WHEN NOT FOUND;
        x := pawl_take_turns(p_now, p_queue, v_priority, a, p_any, p_types, p_room - cardinality(o_ids));
        v_plain := x.o_plain AND cardinality(x.o_ids) = x.o_chosen;
        o_ids := o_ids || x.o_ids;
        o_lanes := o_lanes || x.o_lanes;
        IF cardinality(x.o_ids) > 0 THEN
            a.tenant_id := x.o_tenant;
            a.rest := CASE WHEN cardinality(o_ids) < p_room THEN 0 ELSE x.o_rest END;
        END IF;
        o_more := v_plain AND x.o_more;
        EXIT WHEN o_more;
    END LOOP;
    IF NOT v_plain THEN v_priority := -32769; END IF; -- what is left, one by one
    WHILE NOT v_plain LOOP
        SELECT s.priority INTO v_priority FROM pawl_shared s WHERE s.queue_id = p_queue AND s.priority > v_priority ORDER BY s.priority LIMIT 1;
        EXIT WHEN NOT FOUND OR o_more;
        LOOP -- rounds
            v_before := cardinality(o_ids);
            v_first := a.tenant_id - (a.rest > 0)::int4;
            FOR lap IN 0..1 LOOP
                v_tenant := CASE lap WHEN 0 THEN v_first ELSE -1 END;
                LOOP
                    EXIT WHEN o_more;
                    SELECT s.tenant_id INTO v_next FROM pawl_shared s
                    WHERE s.queue_id = p_queue AND s.priority = v_priority AND s.tenant_id > v_tenant ORDER BY s.tenant_id LIMIT 1;
                    EXIT WHEN NOT FOUND OR (lap = 1 AND v_next > v_first);
                    v_tenant := v_next;
                    v_rest := CASE WHEN a.rest > 0 AND a.tenant_id = v_tenant THEN a.rest ELSE coalesce(
                        (SELECT b.most FROM pawl_bound b WHERE b.scope = 4 AND b.name_id = p_queue
                             AND b.key = convert_to(v_tenant::text, 'UTF8') AND b.most > 0), 1) END;
                    v_left := v_rest;
                    v_blocked := 0;
                    LOOP
                        c := pawl_due_of_tenant(p_now, p_queue, v_priority, v_tenant, p_any, p_types, v_left + 1 + least(v_blocked, 500), v_skip);
                        EXIT WHEN c.id IS NULL;
                        x := pawl_admit(c.id, c.class, c.bounded, p_got + cardinality(o_ids), p_free, p_got + p_room, v_left,
                                        p_solo AND NOT o_solo, true, o_held);
                        o_ids := o_ids || x.o_ids;
                        o_lanes := o_lanes || c.lane;
                        o_more := o_more OR x.o_more;
                        o_solo := o_solo OR x.o_solo;
                        o_touched := o_touched || x.o_touched;
                        o_held := x.o_held;
                        v_left := v_left - cardinality(x.o_ids);
                        v_skip := v_skip || x.o_missed;
                        v_blocked := v_blocked + x.o_blocked;
                        EXIT WHEN v_left <= 0 OR (x.o_blocked = 0 AND cardinality(x.o_missed) = 0);
                        IF v_blocked >= 2000 OR cardinality(v_skip) > 500 THEN
                            o_more := true;
                            EXIT;
                        END IF;
                    END LOOP;
                    IF v_left < v_rest THEN
                        a.tenant_id := v_tenant;
                        a.rest := CASE WHEN cardinality(o_ids) < p_room THEN 0 ELSE v_left END;
                    END IF;
                END LOOP;
            END LOOP;
            EXIT WHEN cardinality(o_ids) = v_before OR o_more;
        END LOOP;
    END LOOP;
    IF a IS DISTINCT FROM was THEN UPDATE pawl_round r SET tenant_id = a.tenant_id, rest = a.rest WHERE r.queue_id = p_queue; END IF;
END $$;

-- What an ANALYZE finds out is hardly asked, for functions allow one way only. Looking at thirty thousand payloads for it took a core for a
-- quarter of a second, whenever many tasks had come.
DO $$
DECLARE
    r record;
BEGIN
    FOR r IN
        SELECT a.attrelid::regclass AS of, a.attname AS name,
            CASE WHEN a.attname IN ('payload', 'headers', 'traceparent', 'created_by', 'content_type', 'key', 'rate_key') THEN 0 ELSE 10 END AS target
        FROM pg_attribute a
        WHERE a.attrelid = ANY (ARRAY['pawl_body'::regclass, 'pawl_live'::regclass, 'pawl_shared'::regclass]) AND a.attnum > 0
            AND NOT a.attisdropped
    LOOP
        EXECUTE format('ALTER TABLE %s ALTER COLUMN %I SET STATISTICS %s', r.of, r.name, r.target);
    END LOOP;
END $$;
ALTER INDEX pawl_body_names ALTER COLUMN 1 SET STATISTICS 10;
