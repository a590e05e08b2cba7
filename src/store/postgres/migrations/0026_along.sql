-- RESERVE says how many it took along. (pawl_move_along of 0010 stays for calls that are under way.)

-- Others that are due in the same lane of the ready index and that would fare no better, because their budgets have nothing left for a while,
-- get their slots without being leased first, and are in nobody's way any more. Only where they are many: p_most at once at the most.
-- o_seen: how many were looked at with a lock; o_budgets: the budget of each that was moved.
CREATE FUNCTION pawl_lay_out(p_now int8, p_queue int4, p_lane int8, p_budgets int8[], p_most int4, OUT o_seen int4, OUT o_budgets int8[])
LANGUAGE plpgsql AS $$
DECLARE
    v_ids int8[];
    x record;
    t record;
BEGIN
    o_seen := 0;
    o_budgets := '{}';
    v_ids := ARRAY(
        SELECT v.id FROM (SELECT y.id, y.run_at_us, y.failures FROM pawl_live y
                          WHERE y.state = 2 AND NOT y.blocked AND y.queue_id = p_queue AND y.lane = p_lane AND y.run_at_us <= p_now
                          ORDER BY y.run_at_us, y.id LIMIT p_most) v
        JOIN pawl_body b ON b.id = ANY (ARRAY[v.id])
        JOIN pawl_budget c ON c.type_id = ANY (ARRAY[b.type_id]) AND c.key = ANY (ARRAY[pawl_rate_key(b.rate_key)]) AND c.id = ANY (p_budgets)
        LEFT JOIN pawl_slotted s ON s.task_id = ANY (ARRAY[v.id])
        WHERE v.failures = 0 AND (s.task_id IS NULL OR v.run_at_us <= p_now - 2000000)); -- those whose slot has come may start
    IF cardinality(v_ids) = 0 THEN RETURN; END IF;
    SELECT array_agg(v.id ORDER BY v.run_at_us, v.id) AS id, array_agg(c.id ORDER BY v.run_at_us, v.id) AS budget,
        array_agg(s.task_id IS NOT NULL ORDER BY v.run_at_us, v.id) AS again
    INTO x
    FROM (SELECT y.id, y.run_at_us FROM pawl_live y WHERE y.id = ANY (v_ids) AND y.run_at_us <= p_now FOR UPDATE SKIP LOCKED) v
    JOIN pawl_body b ON b.id = ANY (ARRAY[v.id])
    JOIN pawl_budget c ON c.type_id = ANY (ARRAY[b.type_id]) AND c.key = ANY (ARRAY[pawl_rate_key(b.rate_key)]) AND c.id = ANY (p_budgets)
    LEFT JOIN pawl_slotted s ON s.task_id = ANY (ARRAY[v.id]);
    IF x.id IS NULL THEN RETURN; END IF;
    t := pawl_take_slots(p_now, x.budget, x.id, x.again, array_fill(false, ARRAY[cardinality(x.id)]));
    INSERT INTO pawl_slotted (task_id, budget_id, epoch)
    SELECT u.id, u.budget, u.epoch FROM unnest(x.id, x.budget, t.o_answer, t.o_epoch) u (id, budget, answer, epoch) WHERE u.answer = 2
    ON CONFLICT (task_id) DO UPDATE SET budget_id = excluded.budget_id, epoch = excluded.epoch;
    UPDATE pawl_live v SET run_at_us = u.slot FROM unnest(x.id, t.o_answer, t.o_slot) u (id, answer, slot)
    WHERE u.answer = 2 AND v.id = ANY (ARRAY[u.id]);
    o_seen := cardinality(x.id);
    o_budgets := ARRAY(SELECT u.budget FROM unnest(x.budget, t.o_answer) u (budget, answer) WHERE u.answer = 2);
END $$;

-- RESERVE (kind 10). What has a slot farther away than p_near goes back at once, to wait for it; o_leases: leases of the node that so ended.
-- How many of a budget were taken along is told by the first operation of it, in a line "A op count".
CREATE OR REPLACE FUNCTION pawl_reserve(p_now int8, p_node int4, p_lane int8, p_budget int8[], p_op int4[], p_kind int2[], p_id int8[], p_fence int8[],
                             p_near int8[], p_again bool[], p_level int2[], OUT o_results text, OUT o_hints text, OUT o_leases int8)
LANGUAGE plpgsql AS $$
DECLARE
    v_did bool;
    v_along int8[] := '{}';
    x record;
    t record;
    r record;
    s record;
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
        CONTINUE WHEN r.n < 2;
        s := pawl_lay_out(p_now, r.queue_id, pawl_lane_of(r.priority, r.class, r.type_id), r.budgets, 40);
        v_along := v_along || s.o_budgets;
        CONTINUE WHEN s.o_seen < 20 OR r.n < cardinality(x.id);
        s := pawl_lay_out(p_now, r.queue_id, pawl_lane_of(r.priority, r.class, r.type_id), r.budgets, 400); -- nobody else waits for the answer
        v_along := v_along || s.o_budgets;
    END LOOP;
    IF cardinality(v_along) > 0 THEN
        SELECT o_results || string_agg('A ' || m.op || ' ' || a.n || E'\n', '') INTO o_results
        FROM (SELECT u.id, count(*) AS n FROM unnest(v_along) u (id) GROUP BY 1) a
        JOIN (SELECT u.budget, min(u.op) AS op FROM unnest(x.op, x.near, x.budget, t.o_answer, t.o_slot) u (op, near, budget, answer, slot)
              WHERE u.answer = 2 AND u.slot - p_now > u.near GROUP BY 1) m ON m.budget = a.id;
    END IF;
END $$;
