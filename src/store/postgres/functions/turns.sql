-- Queues whose tenants take turns: see TENANTS in pawl/store.h. The tasks wait in pawl_shared.

CREATE OR REPLACE FUNCTION pawl_takes_turns(p_queue int4) RETURNS bool LANGUAGE sql STABLE AS
$$ SELECT EXISTS (SELECT FROM pawl_bound b WHERE b.scope = 4 AND b.name_id = p_queue AND b.key = '' AND b.most > 0) $$;

-- Those of the tasks in the ready index whose queue's tenants take turns leave it for pawl_shared, unless somebody else has them.
CREATE OR REPLACE FUNCTION pawl_share(p_ids int8[]) RETURNS bool LANGUAGE plpgsql AS $$
DECLARE
    v_ids int8[];
BEGIN
    IF NOT EXISTS (SELECT FROM pawl_bound b WHERE b.scope = 4 AND b.key = '' AND b.most > 0) THEN RETURN false; END IF;
    v_ids := ARRAY(SELECT v.id FROM pawl_live v WHERE v.id = ANY (p_ids) AND v.state + 0 = 2 AND NOT v.blocked AND pawl_takes_turns(v.queue_id)
                   ORDER BY v.id FOR UPDATE SKIP LOCKED);
    IF cardinality(v_ids) = 0 THEN RETURN false; END IF;
    WITH s AS (
        INSERT INTO pawl_shared (task_id, queue_id, priority, tenant_id, lane, run_at_us)
        SELECT v.id, v.queue_id, v.priority, coalesce(b.tenant_id, 0), v.lane, v.run_at_us
        FROM unnest(v_ids) u (id) JOIN pawl_live v ON v.id = ANY (ARRAY[u.id]) JOIN pawl_body b ON b.id = ANY (ARRAY[u.id])
        RETURNING task_id)
    UPDATE pawl_live v SET blocked = true FROM s WHERE v.id = ANY (ARRAY[s.task_id]);
    RETURN true;
END $$;

-- Due tasks of a tenant within one priority, p_most of each lane, in their order; p_skip: without these.
CREATE OR REPLACE FUNCTION pawl_due_of_tenant(p_now int8, p_queue int4, p_priority int4, p_tenant int4, p_any bool, p_types int4[], p_most int4,
                                   p_skip int8[], OUT id int8[], OUT class int4[], OUT bounded bool[], OUT lane int8[]) LANGUAGE plpgsql AS $$
BEGIN
    WITH RECURSIVE l AS (
        (SELECT s.lane FROM pawl_shared s WHERE s.queue_id = p_queue AND s.priority = p_priority AND s.tenant_id = p_tenant ORDER BY s.lane LIMIT 1)
        UNION ALL
        SELECT (SELECT s.lane FROM pawl_shared s WHERE s.queue_id = p_queue AND s.priority = p_priority AND s.tenant_id = p_tenant
                    AND s.lane > l.lane ORDER BY s.lane LIMIT 1)
        FROM l WHERE l.lane IS NOT NULL)
    SELECT array_agg(d.task_id ORDER BY d.run_at_us, d.task_id), array_agg(((l.lane >> 32) & 15)::int4 ORDER BY d.run_at_us, d.task_id),
        array_agg(pawl_bounded(p_queue, (l.lane & 4294967295)::int4) ORDER BY d.run_at_us, d.task_id),
        array_agg(l.lane ORDER BY d.run_at_us, d.task_id)
    INTO id, class, bounded, lane
    FROM l, LATERAL (SELECT s.task_id, s.run_at_us FROM pawl_shared s
                     WHERE s.queue_id = p_queue AND s.priority = p_priority AND s.tenant_id = p_tenant AND s.lane = l.lane
                         AND s.run_at_us <= p_now AND s.task_id <> ALL (p_skip)
                     ORDER BY s.run_at_us, s.task_id LIMIT p_most) d
    WHERE l.lane IS NOT NULL AND (p_any OR (l.lane & 4294967295) = ANY (p_types));
END $$;

-- Takes due tasks of one priority from tenant to tenant, from where p_at says, at the most p_room. o_plain false: nothing was taken, for
-- here are suspects, or tenants and types that are too many for one statement. o_chosen is more than o_ids if somebody else has some of them; o_more:
-- there are others. o_at: whose turn it is now, if any got something.
CREATE OR REPLACE FUNCTION pawl_take_turns(p_now int8, p_queue int4, p_priority int4, p_at pawl_round, p_any bool, p_types int4[], p_room int4,
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

-- The part of a claim that comes first where there are bounds: what others left is offered, and tenants take their turns. Beyond what
-- pawl_choose_turns answers, all by want: o_fair whether they do, o_next when the next one falls due. o_lease_us: NULL, if the life row was
-- not locked, because there was nothing to do.
CREATE OR REPLACE FUNCTION pawl_claim_turns(p_now int8, p_node int4, p_queue int4[], p_paused bool[], p_free int4[], p_prefetch int4[], p_solo bool[],
                                 p_any bool[], t_want int4[], t_type int4[], OUT o_alive int2, OUT o_lease_us int8, OUT o_fair bool[],
                                 OUT o_more bool[], OUT o_next int8[], OUT o_gots int4[], OUT o_solo bool, OUT o_touched int8[], OUT o_held int8,
                                 OUT o_hints text, OUT o_ids int8[], OUT o_wants int4[], OUT o_at int4[], OUT o_lanes int8[]) LANGUAGE plpgsql AS $$
DECLARE
    v_count int4 := coalesce(cardinality(p_queue), 0);
    v_turns int4[];
    v_due int4[];
    v_did bool;
    t int4;
    x record;
BEGIN
    o_alive := 1;
    o_fair := array_fill(false, ARRAY[v_count]);
    o_more := o_fair;
    o_next := array_fill(0::int8, ARRAY[v_count]);
    o_gots := array_fill(0, ARRAY[v_count]);
    o_solo := false;
    o_touched := '{}';
    o_held := 0;
    o_hints := '';
    o_ids := '{}';
    o_wants := '{}';
    o_at := '{}';
    o_lanes := '{}';
    v_turns := ARRAY(SELECT u.i::int4 FROM unnest(p_queue, p_paused) WITH ORDINALITY u (queue, paused, i)
                     WHERE NOT u.paused AND EXISTS (SELECT FROM pawl_round r WHERE r.queue_id = u.queue) ORDER BY u.i);
    FOREACH t IN ARRAY v_turns LOOP
        o_fair[t] := pawl_takes_turns(p_queue[t]);
        o_next[t] := coalesce((SELECT s.run_at_us FROM pawl_shared s WHERE s.queue_id = p_queue[t] AND s.run_at_us > p_now
                               ORDER BY s.run_at_us LIMIT 1), 0);
        IF EXISTS (SELECT FROM pawl_shared s WHERE s.queue_id = p_queue[t] AND s.run_at_us <= p_now) THEN v_due := v_due || t; END IF;
    END LOOP;
    IF v_due IS NULL AND NOT EXISTS (SELECT FROM pawl_freed) THEN RETURN; END IF;
    SELECT n.alive, n.lease_us INTO o_alive, o_lease_us FROM pawl_node n WHERE n.id = p_node FOR SHARE;
    o_lease_us := coalesce(o_lease_us, 0);
    IF pawl_closed() THEN o_alive := NULL; END IF;
    IF o_alive IS DISTINCT FROM 1 THEN RETURN; END IF;
    PERFORM FROM pawl_round r WHERE r.queue_id = ANY (ARRAY(SELECT p_queue[u] FROM unnest(v_due) u)) ORDER BY r.queue_id FOR UPDATE;
    IF EXISTS (SELECT FROM pawl_freed) THEN
        x := pawl_offer_freed();
        o_hints := x.o_hints;
        o_held := x.o_held;
    END IF;
    FOREACH t IN ARRAY coalesce(v_due, '{}') LOOP
        IF o_fair[t] AND p_now >> 14 & 15 = 0 AND EXISTS (SELECT FROM pawl_live v WHERE v.state = 2 AND NOT v.blocked AND v.queue_id = p_queue[t]) THEN
            -- Stored before tenants took turns, or by who did not know it yet: some of each lane four times a second, the last ones first.
            v_did := pawl_share(ARRAY(
                SELECT y.id FROM pawl_lanes(p_queue[t], NULL, NULL) g,
                    LATERAL (SELECT v.id FROM pawl_live v WHERE v.state = 2 AND NOT v.blocked AND v.queue_id = p_queue[t] AND v.lane = g.lane
                             ORDER BY v.run_at_us DESC, v.id DESC LIMIT 16) y));
        END IF;
        x := pawl_choose_turns(p_now, p_queue[t], p_any[t], ARRAY(SELECT y.k FROM unnest(t_want, t_type) y (w, k) WHERE y.w = t),
                               0, p_free[t], p_free[t] + p_prefetch[t], p_solo[t] AND NOT o_solo, o_held);
        o_more[t] := x.o_more;
        o_solo := o_solo OR x.o_solo;
        o_touched := o_touched || x.o_touched;
        o_held := x.o_held;
        o_gots[t] := cardinality(x.o_ids);
        o_ids := o_ids || x.o_ids;
        o_wants := o_wants || array_fill(t, ARRAY[o_gots[t]]);
        o_at := o_at || ARRAY(SELECT generate_series(0, o_gots[t] - 1));
        o_lanes := o_lanes || x.o_lanes;
    END LOOP;
END $$;

-- ---- BOUND ------------------------------------------------------------------------------------------------------------------------

-- Leases that a new bound finds get places, though it may have fewer.
CREATE OR REPLACE FUNCTION pawl_adopt(p_scope int2, p_name int4, p_key bytea) RETURNS bool LANGUAGE plpgsql AS $$
DECLARE
    v_did bool;
    v_ids int8[];
    r record;
    h record;
BEGIN
    v_ids := ARRAY(SELECT l.id FROM pawl_leased l WHERE CASE WHEN p_scope = 1 THEN l.queue_id ELSE l.type_id END = p_name ORDER BY l.id FOR UPDATE);
    SELECT array_agg(x.id ORDER BY x.id) AS id, array_agg(p_scope) AS scope, array_agg(p_name) AS name, array_agg(x.key ORDER BY x.id) AS key,
        array_agg(true) AS make
    INTO r
    FROM (SELECT b.id, CASE WHEN p_scope = 3 THEN pawl_rate_key(b.rate_key) ELSE ''::bytea END AS key
          FROM unnest(v_ids) u (id) JOIN pawl_body b ON b.id = ANY (ARRAY[u.id]) WHERE p_scope < 3 OR length(b.rate_key) > 0) x
    WHERE (p_key = '' OR x.key = p_key) AND NOT EXISTS (
        SELECT FROM pawl_place p JOIN pawl_spot s ON s.id = ANY (ARRAY[p.spot_id])
        WHERE p.task_id = x.id AND s.scope = p_scope AND s.name_id = p_name AND s.key = x.key);
    IF r.id IS NULL THEN RETURN false; END IF;
    h := pawl_hold_spots(r.scope, r.name, r.key, r.make, '{}', 0);
    v_did := pawl_take_places(h.o_ids, r.id);
    RETURN true;
END $$;

-- Tenants that take turns, or no longer; p_key: a tenant's weight. true: there are tasks left that were there before.
CREATE OR REPLACE FUNCTION pawl_put_turns(p_queue int4, p_key bytea, p_most int4, p_move int4) RETURNS bool LANGUAGE plpgsql AS $$
DECLARE
    v_did bool;
    v_ids int8[];
BEGIN
    IF p_key <> '' OR p_most <= 0 THEN RETURN false; END IF;
    INSERT INTO pawl_round (queue_id, tenant_id, rest) VALUES (p_queue, 0, 0) ON CONFLICT DO NOTHING;
    IF p_move <= 0 THEN RETURN false; END IF;
    v_ids := ARRAY(SELECT v.id FROM pawl_live v WHERE v.state = 2 AND NOT v.blocked AND v.queue_id = p_queue ORDER BY v.lane, v.run_at_us, v.id
                   LIMIT p_move FOR UPDATE SKIP LOCKED);
    v_did := pawl_share(v_ids);
    RETURN cardinality(v_ids) >= p_move;
END $$;
