-- Floods: many tasks that are due and must wait for rate budgets that have nothing left. They will be moved to their slots (pawl_lay_out),
-- but that takes claims. Others of their priority do not wait for it: all but a little of a claim is theirs.

-- The task, which is pending, would have to wait for its budget, and for more than a second.
CREATE OR REPLACE FUNCTION pawl_spent(p_now int8, p_id int8) RETURNS bool LANGUAGE plpgsql STABLE AS $$
DECLARE
    x record;
    b pawl_budget;
    l pawl_limit;
    s record;
BEGIN
    SELECT y.type_id, pawl_rate_key(y.rate_key) AS key, v.failures INTO x FROM pawl_live v JOIN pawl_body y ON y.id = v.id
    WHERE v.id = p_id AND length(y.rate_key) > 0
        AND NOT EXISTS (SELECT FROM pawl_slotted q WHERE q.task_id = v.id AND v.run_at_us > p_now - 2000000); -- whose slot has come may start
    IF NOT FOUND THEN RETURN false; END IF;
    SELECT * INTO l FROM pawl_limit_for(x.type_id, x.key);
    IF NOT FOUND OR (l.flags & 2 <> 0 AND x.failures > 0) THEN RETURN false; END IF;
    IF l.flags & 8 <> 0 THEN RETURN true; END IF;
    SELECT * INTO b FROM pawl_budget c WHERE c.type_id = x.type_id AND c.key = x.key;
    IF NOT FOUND THEN RETURN false; END IF;
    s := pawl_budget_see(b, l, p_now);
    b := s.b;
    RETURN pawl_budget_slot(b.tat_us, b.tat_part, b.permits, b.period_us, b.burst, s.p_now) - s.p_now > 1000000;
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
                                             AND NOT EXISTS (SELECT FROM pawl_slotted q WHERE q.task_id = ANY (ARRAY[z.id]))
                                         THEN true ELSE pawl_spent(p_now, z.id) END)) x -- most are of the first one's key
            WHERE (g.lane >> 32) & 15 = 0) y
        ORDER BY y.run_at_us, y.id LIMIT v_most);
    IF cardinality(v_found) < v_most THEN
        PERFORM set_config('pawl.flooded', concat_ws(' ', nullif(current_setting('pawl.flooded', true), ''), p_queue), true);
    END IF;
    v_locked := ARRAY(SELECT v.id FROM pawl_live v WHERE v.id = ANY (v_found) AND v.state + 0 = 2 AND NOT v.blocked AND v.run_at_us <= p_now
                      ORDER BY v.id FOR UPDATE SKIP LOCKED);
    IF cardinality(v_locked) = 0 THEN RETURN p_ids; END IF;
    RETURN (ARRAY(SELECT y.id FROM unnest(v_found) WITH ORDINALITY y (id, i) WHERE y.id = ANY (v_locked) ORDER BY y.i)
            || ARRAY(SELECT y.id FROM unnest(p_ids) WITH ORDINALITY y (id, i) WHERE y.id <> ALL (v_locked) ORDER BY y.i))[1:p_room];
END $$;

-- Others that are due in the same lane of the ready index and that would fare no better, because their budgets have nothing left for a while,
-- get their slots without being leased first, and are in nobody's way any more. Only where they are many: p_most at once at the most.
-- o_seen: how many were looked at with a lock; o_budgets: the budget of each that was moved.
CREATE OR REPLACE FUNCTION pawl_lay_out(p_now int8, p_queue int4, p_lane int8, p_budgets int8[], p_most int4, OUT o_seen int4, OUT o_budgets int8[])
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
