-- Floods leave most of a claim to others, and a claim says which queues are flooded; lines of ordered keys take no rate slots; tasks that were
-- stored before tenants took turns join them. What changes of the functions of 0010, 0012 and 0015; and no plan of ours may read all the dead
-- rows that a long reader keeps, as bitmap scans do.

ALTER FUNCTION pawl_apply SET enable_bitmapscan = off;
ALTER FUNCTION pawl_claim SET enable_bitmapscan = off;
ALTER FUNCTION pawl_unclaim SET enable_bitmapscan = off;

-- Whether tasks of the type and key run one after the other.
CREATE FUNCTION pawl_in_line(p_type int4, p_key bytea) RETURNS bool LANGUAGE sql STABLE AS
$$ SELECT length(p_key) > 0 AND EXISTS (SELECT FROM pawl_bound_for(3::int2, p_type, pawl_rate_key(p_key)) b WHERE b.ordered) $$;

-- Locks the budgets that a batch may take of or give back to, and makes those that are missing. o_inserts, o_asks: by INSERT and by RESERVE
-- (q_kind 10) the budget it takes of, or NULL. An INSERT that asks for no lease takes of none that has something left, and need not lock it: it
-- may find another state than it stores by, and then the task asks again when it is claimed. One that stands in a line (pawl_in_line) takes none. Budgets that may be given back to are found
-- as well as they can be without locks: whoever is left out is locked late, which may meet a deadlock, and the call is made again.
CREATE OR REPLACE FUNCTION pawl_hold_budgets(p_now int8, i_type int4[], i_rate_key bytea[], i_when int8[], i_ask bool[], i_key text[], i_tenant int4[], q_kind int2[], q_id int8[], q_key bytea[],
                                  o_kind int2[], o_id int8[], OUT o_inserts int8[], OUT o_asks int8[]) LANGUAGE plpgsql AS $$
DECLARE
    v_inserts int4 := CASE WHEN i_rate_key IS NULL THEN 0 ELSE cardinality(i_rate_key) END;
    v_lines bool := (SELECT bounds > 0 FROM pawl_gate);
    v_types int4[];
    v_keys bytea[];
    v_takes int8[];
    v_backs int8[] := '{}';
    v_ids int8[];
BEGIN
    SELECT array_agg(x.type ORDER BY x.part, x.i), array_agg(l.key ORDER BY x.part, x.i) INTO v_types, v_keys FROM (
        SELECT 1 AS part, u.i, u.type, CASE WHEN pawl_due(p_now, u.w) <= p_now AND NOT (v_lines AND pawl_in_line(u.type, u.key)) THEN pawl_rate_key(u.key) END AS key, coalesce(u.ask, false) AS starts
        FROM unnest(i_type, i_rate_key, i_when, i_ask) WITH ORDINALITY u (type, key, w, ask, i)
        WHERE v_inserts > 0
        UNION ALL
        SELECT 2, u.i, b.type_id, CASE WHEN u.kind = 10 THEN pawl_rate_key(coalesce(nullif(b.rate_key, ''), u.key)) END, true
        FROM unnest(q_id, q_key, q_kind) WITH ORDINALITY u (id, key, kind, i) LEFT JOIN pawl_body b ON b.id = ANY (ARRAY[u.id])) x
    LEFT JOIN LATERAL (SELECT x.key FROM pawl_limit_for(x.type, x.key) m
                       WHERE length(x.key) > 0 AND (x.starts OR m.flags & 8 <> 0 OR EXISTS (
                           SELECT FROM pawl_budget b WHERE b.type_id = x.type AND b.key = x.key
                               AND ((b.permits, b.burst, b.period_us) <> (m.permits, m.burst, m.period_us)
                                    OR pawl_budget_slot(b.tat_us, b.tat_part, b.permits, b.period_us, b.burst, p_now) > p_now)))) l ON true;
    LOOP
        v_takes := ARRAY(SELECT b.id FROM unnest(v_types, v_keys) WITH ORDINALITY u (type, key, i)
                         LEFT JOIN pawl_budget b ON b.type_id = ANY (ARRAY[u.type]) AND b.key = ANY (ARRAY[u.key]) ORDER BY u.i);
        IF EXISTS (SELECT FROM unnest(v_keys, v_takes) u (key, id) WHERE u.key IS NOT NULL AND u.id IS NULL) THEN
            INSERT INTO pawl_budget (type_id, key)
            SELECT DISTINCT u.type, u.key FROM unnest(v_types, v_keys, v_takes) u (type, key, id) WHERE u.key IS NOT NULL AND u.id IS NULL
            ORDER BY 1, 2 ON CONFLICT DO NOTHING;
            CONTINUE;
        END IF;
        IF o_id IS NOT NULL OR i_key IS NOT NULL THEN v_backs := pawl_budgets_back(i_key, i_tenant, o_kind, o_id); END IF;
        v_ids := ARRAY(SELECT DISTINCT u FROM unnest(v_takes || v_backs) u WHERE u IS NOT NULL);
        EXIT WHEN cardinality(v_ids) = cardinality(ARRAY(SELECT b.id FROM pawl_budget b WHERE b.id = ANY (v_ids) ORDER BY b.id FOR UPDATE));
    END LOOP; -- again where one was idle, and swept this moment
    IF v_inserts > 0 THEN
        o_inserts := v_takes[1:v_inserts];
        IF array_remove(o_inserts, NULL) = '{}' THEN o_inserts := NULL; END IF;
    END IF;
    o_asks := v_takes[v_inserts + 1:];
END $$;

-- What a claim tells of tasks of limited types, one line each: "S id until_us epoch", until_us 0: it has no slot. Their slots leave with
-- them, and keyed ones may be taken back until they start. p_lanes: those of the ready index that they came from. And "F queue_id ...": the
-- queues that are flooded (0015_floods.sql).
CREATE OR REPLACE FUNCTION pawl_slots_told(p_id int8[], p_lanes int8[]) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
    v_types int4[];
    v_limited int4[];
    v_text text;
BEGIN
    IF (SELECT limits FROM pawl_gate) = 0 THEN RETURN ''; END IF;
    v_types := ARRAY(SELECT x.t FROM (SELECT DISTINCT (y & 4294967295)::int4 AS t FROM unnest(p_lanes) y) x
                     WHERE EXISTS (SELECT FROM pawl_limit l WHERE l.type_id = x.t));
    IF cardinality(v_types) = 0 THEN RETURN ''; END IF;
    v_limited := ARRAY(SELECT x FROM unnest(v_types) x
                       WHERE EXISTS (SELECT FROM pawl_limit l WHERE l.type_id = x AND pawl_in_force(l.permits, l.flags)));
    UPDATE pawl_leased l SET not_started = true FROM unnest(p_id) u (id), pawl_body b
    WHERE l.id = ANY (ARRAY[u.id]) AND b.id = ANY (ARRAY[u.id]) AND l.type_id = ANY (v_limited) AND b.key IS NOT NULL AND NOT l.not_started;
    WITH s AS (DELETE FROM pawl_slotted s USING unnest(p_id) u (id) WHERE s.task_id = ANY (ARRAY[u.id]) RETURNING s.*)
    SELECT string_agg('S ' || l.id || ' ' || CASE WHEN b.epoch = s.epoch AND m.flags & 8 = 0 THEN l.run_at_us + pawl_limit_late(m) ELSE 0 END
                      || ' ' || coalesce(s.epoch, 0) || E'\n', '')
    INTO v_text
    FROM unnest(p_id) u (id) JOIN pawl_leased l ON l.id = ANY (ARRAY[u.id]) LEFT JOIN s ON s.task_id = l.id
    LEFT JOIN pawl_budget b ON b.id = ANY (ARRAY[s.budget_id]) LEFT JOIN LATERAL pawl_limit_for(b.type_id, b.key) m ON true
    WHERE l.type_id = ANY (v_limited);
    RETURN coalesce(v_text, '') || coalesce('F ' || nullif(current_setting('pawl.flooded', true), '') || E'\n', '');
END $$;

-- RESERVE (kind 10). What has a slot farther away than p_near goes back at once, to wait for it; o_leases: leases of the node that so ended.
CREATE OR REPLACE FUNCTION pawl_reserve(p_now int8, p_node int4, p_lane int8, p_budget int8[], p_op int4[], p_kind int2[], p_id int8[], p_fence int8[],
                             p_near int8[], p_again bool[], p_level int2[], OUT o_results text, OUT o_hints text, OUT o_leases int8)
LANGUAGE plpgsql AS $$
DECLARE
    v_did bool;
    x record;
    t record;
    r record;
BEGIN
    o_hints := '';
    o_leases := 0;
    PERFORM FROM pawl_leased WHERE id = ANY (p_id) ORDER BY id FOR UPDATE;
    SELECT array_agg(u.op ORDER BY u.i) AS op, array_agg(u.id ORDER BY u.i) AS id, array_agg(u.near ORDER BY u.i) AS near,
        array_agg(u.again ORDER BY u.i) AS again, array_agg(u.level ORDER BY u.i) AS level, array_agg(l.cancel_asked ORDER BY u.i) AS cancel,
        array_agg(CASE WHEN l.cancel_asked OR (l.failures > 0 AND pawl_retry_free(u.budget)) THEN NULL ELSE u.budget END ORDER BY u.i) AS budget
    INTO x
    FROM unnest(p_op, p_kind, p_id, p_fence, p_near, p_again, p_level, p_budget)
            WITH ORDINALITY u (op, kind, id, fence, near, again, level, budget, i)
    JOIN pawl_leased l ON l.id = ANY (ARRAY[u.id]) AND l.fence = u.fence
    WHERE u.kind = 10;
    o_results := '';
    IF x.op IS NULL OR cardinality(x.op) < cardinality(array_positions(p_kind, 10::int2)) THEN
        SELECT pawl_stale(array_agg(u.op), array_agg(u.id), array_agg(u.fence), array_agg(6)) INTO o_results
        FROM unnest(p_op, p_kind, p_id, p_fence) u (op, kind, id, fence) WHERE u.kind = 10 AND (x.op IS NULL OR u.op <> ALL (x.op));
    END IF;
    IF x.op IS NULL THEN RETURN; END IF;
    t := pawl_take_slots(p_now, x.budget, x.id, x.again, array_fill(true, ARRAY[cardinality(x.op)]));
    SELECT o_results || string_agg(
        CASE WHEN u.cancel THEN pawl_answer(u.op, 7, 0, 0, 0, 3)
             WHEN u.answer = 3 THEN pawl_answer(u.op, 15, 0, 0, u.slot, 3)
             WHEN u.answer = 2 AND u.slot - p_now > u.near THEN pawl_answer(u.op, 14, 0, 0, u.slot, 2)
             ELSE pawl_answer(u.op, 1, 0, 0, u.slot, 3) END || 'S ' || u.op || ' ' || u.until || ' ' || u.epoch || E'\n', '')
    INTO o_results
    FROM unnest(x.op, x.near, x.cancel, t.o_answer, t.o_slot, t.o_until, t.o_epoch) u (op, near, cancel, answer, slot, until, epoch);
    FOR r IN
        WITH w AS (
            SELECT u.id, u.slot, u.budget, u.level, u.epoch FROM unnest(x.id, x.near, x.budget, x.level, t.o_answer, t.o_slot, t.o_epoch)
                u (id, near, budget, level, answer, slot, epoch)
            WHERE u.answer = 2 AND u.slot - p_now > u.near),
        l AS (
            DELETE FROM pawl_leased l USING w WHERE l.id = ANY (ARRAY[w.id])
            RETURNING l.*, w.slot, w.budget, w.level AS op_level, w.epoch),
        live AS (
            INSERT INTO pawl_live (id, run_at_us, queue_id, type_id, fence, priority, class, state, level, runs, failures, interruptions,
                                   rescues, strikes, blocked)
            SELECT id, slot, queue_id, type_id, fence, priority, class, 2, level, runs, failures, interruptions, rescues, strikes, false FROM l),
        slotted AS (INSERT INTO pawl_slotted (task_id, budget_id, epoch) SELECT id, budget, epoch FROM l),
        trail AS (
            INSERT INTO pawl_audit (task_id, number, at_us, from_state, to_state, fence, node, detail)
            SELECT l.id, coalesce((SELECT max(a.number) FROM pawl_audit a WHERE a.task_id = l.id), 0)
                    + CASE WHEN g.grants OR l.level <> 1 THEN 1 ELSE 2 END,
                CASE WHEN g.grants THEN l.leased_us ELSE p_now END, CASE WHEN NOT g.grants THEN 3 WHEN l.run_at_us IS NULL THEN 0 ELSE 2 END,
                CASE WHEN g.grants THEN 3 ELSE 2 END, l.fence, l.node, CASE WHEN NOT g.grants THEN 'throttled' END
            FROM l, (VALUES (true), (false)) g (grants)
            WHERE CASE WHEN g.grants THEN l.level = 1 ELSE pawl_wanted(l.op_level, 0) END)
        SELECT node, queue_id, type_id, priority, class, count(*) AS n, min(slot) AS due_us, array_agg(DISTINCT budget) AS budgets
        FROM l GROUP BY 1, 2, 3, 4, 5
    LOOP
        IF r.node = p_node THEN o_leases := o_leases - r.n; ELSE v_did := pawl_take(r.node, -r.n, p_node, p_lane); END IF;
        v_did := pawl_add(p_node, p_lane, r.queue_id, r.n, -r.n, 0);
        o_hints := o_hints || pawl_hint(r.queue_id, r.priority, r.class, r.type_id, r.due_us);
        IF r.n >= 2 AND pawl_move_along(p_now, r.queue_id, pawl_lane_of(r.priority, r.class, r.type_id), r.budgets, 40) >= 20 AND r.n = cardinality(x.id) THEN
            PERFORM pawl_move_along(p_now, r.queue_id, pawl_lane_of(r.priority, r.class, r.type_id), r.budgets, 400); -- nobody else waits for the answer
        END IF;
    END LOOP;
END $$;

-- New tasks join the lines at the spots that are locked (p_spots), if they are due and find them full; at those that keep an order they
-- take the place, or join the line.
CREATE OR REPLACE FUNCTION pawl_line_up(p_now int8, p_ids int8[], p_spots int8[]) RETURNS bool LANGUAGE plpgsql AS $$
DECLARE
    v_did bool;
    v_at int4;
    v_done int4 := 0;
    v_room bool;
    t_task int8[] := '{}';
    t_spot int8[] := '{}';
    b_task int8[] := '{}';
    b_spot int8[] := '{}';
    w record;
    s record;
    r record;
BEGIN
    p_ids := ARRAY(SELECT v.id FROM pawl_live v WHERE v.id = ANY (p_ids) AND v.state = 2 ORDER BY v.id);
    w := pawl_wants_of(p_ids);
    IF w.i IS NULL THEN RETURN false; END IF;
    s := pawl_spots_stand(p_spots);
    FOR r IN
        SELECT u.i, u.most, u.ordered, x.id AS spot, p_ids[u.i] AS id, v.run_at_us <= p_now AS due,
            EXISTS (SELECT FROM pawl_place p WHERE p.task_id = p_ids[u.i] AND p.spot_id = x.id) AS holds
        FROM unnest(w.i, w.scope, w.name, w.key, w.most, w.ordered) WITH ORDINALITY u (i, scope, name, key, most, ordered, n)
        JOIN pawl_spot x ON x.scope = ANY (ARRAY[u.scope]) AND x.name_id = ANY (ARRAY[u.name]) AND x.key = ANY (ARRAY[u.key]) AND x.id = ANY (p_spots)
        JOIN pawl_live v ON v.id = ANY (ARRAY[p_ids[u.i]]) ORDER BY u.n
    LOOP
        CONTINUE WHEN r.i = v_done OR r.holds;
        v_at := array_position(s.id, r.spot);
        v_room := CASE WHEN r.ordered THEN s.taken[v_at] = 0 AND (s.first[v_at] IS NULL OR s.first[v_at] > r.id) ELSE s.taken[v_at] < r.most END;
        IF NOT v_room AND (r.ordered OR r.due) THEN
            b_task := b_task || r.id;
            b_spot := b_spot || r.spot;
            s.first[v_at] := least(s.first[v_at], r.id);
            v_done := r.i;
        ELSIF v_room AND r.ordered THEN
            t_task := t_task || r.id;
            t_spot := t_spot || r.spot;
            s.taken[v_at] := s.taken[v_at] + 1;
        END IF;
    END LOOP;
    IF cardinality(t_task) > 0 THEN v_did := pawl_take_places(t_spot, t_task); END IF;
    IF cardinality(b_task) > 0 THEN
        UPDATE pawl_live v SET run_at_us = p_now FROM pawl_slotted q -- the slot is gone, and so is its time
        WHERE v.id = ANY (b_task) AND v.run_at_us > p_now AND q.task_id = v.id;
        v_did := pawl_block(b_task, b_spot);
    END IF;
    RETURN true;
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

-- p_ids: what a claim would take of lanes of one priority that have more than it may take, locked. If the first of them must wait, some of
-- them are left to other tasks: of lanes whose first one need not wait the first ones, and from the ends of the others. Where these do not
-- take all that they may, the queue's id is added to the setting pawl.flooded: all else that is due has to wait, as far as was looked.
CREATE OR REPLACE FUNCTION pawl_pass_flood(p_now int8, p_queue int4, p_lanes int8[], p_froms int8[], p_ids int8[], p_room int4) RETURNS int8[] LANGUAGE plpgsql AS $$
DECLARE
    v_most int4 := CASE WHEN p_room >= 4 THEN p_room - 2 ELSE (p_room + (p_now >> 10 & 1)) / 2 END; -- of one, now this, now that
    v_found int8[];
    v_locked int8[];
BEGIN
    IF v_most = 0 OR NOT pawl_spent(p_now, p_ids[1]) THEN RETURN p_ids; END IF;
    v_found := ARRAY(
        SELECT y.id FROM (
            SELECT x.id, x.run_at_us FROM unnest(p_lanes, p_froms) g (lane, from_us),
                LATERAL (SELECT pawl_spent(p_now, v.id) AS spent, (SELECT b.rate_key FROM pawl_body b WHERE b.id = v.id) AS rate_key FROM pawl_live v
                         WHERE v.state = 2 AND NOT v.blocked AND v.queue_id = p_queue AND v.lane = g.lane AND v.run_at_us >= g.from_us
                             AND v.run_at_us <= p_now
                         ORDER BY v.run_at_us, v.id LIMIT 1) s,
                LATERAL ((SELECT v.id, v.run_at_us FROM pawl_live v
                          WHERE NOT s.spent AND v.state = 2 AND NOT v.blocked AND v.queue_id = p_queue AND v.lane = g.lane
                              AND v.run_at_us >= g.from_us AND v.run_at_us <= p_now
                          ORDER BY v.run_at_us, v.id LIMIT v_most)
                         UNION ALL
                         (SELECT z.id, z.run_at_us FROM (
                              SELECT v.id, v.run_at_us, v.failures FROM pawl_live v
                              WHERE s.spent AND v.state = 2 AND NOT v.blocked AND v.queue_id = p_queue AND v.lane = g.lane
                                  AND v.run_at_us >= g.from_us AND v.run_at_us <= p_now
                              ORDER BY v.run_at_us DESC, v.id DESC LIMIT 64) z
                          WHERE NOT CASE WHEN z.failures = 0 AND (SELECT b.rate_key FROM pawl_body b WHERE b.id = z.id) = s.rate_key
                                             AND NOT EXISTS (SELECT FROM pawl_slotted q WHERE q.task_id = z.id)
                                         THEN true ELSE pawl_spent(p_now, z.id) END)) x -- most are of the first one's key
            WHERE (g.lane >> 32) & 15 = 0) y
        ORDER BY y.run_at_us, y.id LIMIT v_most);
    IF cardinality(v_found) < v_most THEN
        PERFORM set_config('pawl.flooded', concat_ws(' ', nullif(current_setting('pawl.flooded', true), ''), p_queue), true);
    END IF;
    v_locked := ARRAY(SELECT v.id FROM pawl_live v WHERE v.id = ANY (v_found) AND v.state = 2 AND NOT v.blocked AND v.run_at_us <= p_now
                      ORDER BY v.id FOR UPDATE SKIP LOCKED);
    IF cardinality(v_locked) = 0 THEN RETURN p_ids; END IF;
    RETURN (ARRAY(SELECT y.id FROM unnest(v_found) WITH ORDINALITY y (id, i) WHERE y.id = ANY (v_locked) ORDER BY y.i)
            || ARRAY(SELECT y.id FROM unnest(p_ids) WITH ORDINALITY y (id, i) WHERE y.id <> ALL (v_locked) ORDER BY y.i))[1:p_room];
END $$;
