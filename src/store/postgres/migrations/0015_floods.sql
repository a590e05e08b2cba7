-- Floods: many tasks that are due and must wait for rate budgets that have nothing left. They will be moved to their slots (pawl_move_along),
-- but that takes claims. Others of their priority do not wait for it: up to half of a claim is theirs.

-- The task, which is pending, would have to wait for its budget, and for more than a second.
CREATE FUNCTION pawl_spent(p_now int8, p_id int8) RETURNS bool LANGUAGE plpgsql STABLE AS $$
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
-- them are left to other tasks: of lanes whose first one need not wait the first ones, and from the ends of the others.
CREATE FUNCTION pawl_pass_flood(p_now int8, p_queue int4, p_lanes int8[], p_froms int8[], p_ids int8[], p_room int4) RETURNS int8[] LANGUAGE plpgsql AS $$
DECLARE
    v_half int4 := (p_room + (p_now >> 10 & 1)) / 2; -- of one, now this, now that
    v_found int8[];
    v_locked int8[];
BEGIN
    IF v_half = 0 OR NOT pawl_spent(p_now, p_ids[1]) THEN RETURN p_ids; END IF;
    v_found := ARRAY(
        SELECT y.id FROM (
            SELECT x.id, x.run_at_us FROM unnest(p_lanes, p_froms) g (lane, from_us),
                LATERAL (SELECT pawl_spent(p_now, v.id) AS spent FROM pawl_live v
                         WHERE v.state = 2 AND NOT v.blocked AND v.queue_id = p_queue AND v.lane = g.lane AND v.run_at_us >= g.from_us
                             AND v.run_at_us <= p_now
                         ORDER BY v.run_at_us, v.id LIMIT 1) s,
                LATERAL ((SELECT v.id, v.run_at_us FROM pawl_live v
                          WHERE NOT s.spent AND v.state = 2 AND NOT v.blocked AND v.queue_id = p_queue AND v.lane = g.lane
                              AND v.run_at_us >= g.from_us AND v.run_at_us <= p_now
                          ORDER BY v.run_at_us, v.id LIMIT v_half)
                         UNION ALL
                         (SELECT z.id, z.run_at_us FROM (
                              SELECT v.id, v.run_at_us FROM pawl_live v
                              WHERE s.spent AND v.state = 2 AND NOT v.blocked AND v.queue_id = p_queue AND v.lane = g.lane
                                  AND v.run_at_us >= g.from_us AND v.run_at_us <= p_now
                              ORDER BY v.run_at_us DESC, v.id DESC LIMIT 64) z
                          WHERE NOT pawl_spent(p_now, z.id))) x
            WHERE (g.lane >> 32) & 15 = 0) y
        ORDER BY y.run_at_us, y.id LIMIT v_half);
    v_locked := ARRAY(SELECT v.id FROM pawl_live v WHERE v.id = ANY (v_found) AND v.state = 2 AND NOT v.blocked AND v.run_at_us <= p_now
                      ORDER BY v.id FOR UPDATE SKIP LOCKED);
    IF cardinality(v_locked) = 0 THEN RETURN p_ids; END IF;
    RETURN (ARRAY(SELECT y.id FROM unnest(v_found) WITH ORDINALITY y (id, i) WHERE y.id = ANY (v_locked) ORDER BY y.i)
            || ARRAY(SELECT y.id FROM unnest(p_ids) WITH ORDINALITY y (id, i) WHERE y.id <> ALL (v_locked) ORDER BY y.i))[1:p_room];
END $$;
