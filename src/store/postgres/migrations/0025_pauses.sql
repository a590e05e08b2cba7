-- Pausing and resuming a limit leaves its rate as it is, and another rate, whoever puts it, pauses and resumes nothing.

-- LIMIT, the first part, before budgets are locked; p_rate: permits, period, burst, horizon, flags (16: initial, 32: paused stays as it is
-- stored, 64: the rate does). Whoever changes a limit does it alone, and only while the gate is not shut (result 13).
CREATE OR REPLACE FUNCTION pawl_limit_put(p_now int8, p_op int4, p_type int4, p_key bytea, p_rate int8[], p_by text) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
    v_key bytea := coalesce(pawl_rate_key(p_key), '');
    v_rate int8[] := p_rate[1:4];
    v_flags int4 := p_rate[5] & 7;
    v_paused int4 := p_rate[5] & 8;
    v_was bool;
    o pawl_limit;
BEGIN
    PERFORM FROM pawl_gate WHERE mode < 2 FOR UPDATE;
    IF NOT FOUND THEN RETURN pawl_answer(p_op, 13, 0, 0, 0, 0); END IF;
    SELECT * INTO o FROM pawl_limit WHERE type_id = p_type AND key = v_key;
    v_was := FOUND AND pawl_in_force(o.permits, o.flags);
    IF v_was AND p_rate[5] & 64 <> 0 THEN
        v_rate := ARRAY[o.permits, o.period_us, o.burst, o.horizon_us];
        v_flags := o.flags & 7;
    END IF;
    IF v_was AND p_rate[5] & 48 <> 0 THEN v_paused := o.flags & 8; END IF;
    IF v_was AND (o.permits, o.period_us, o.burst, o.horizon_us, o.flags) = (v_rate[1], v_rate[2], v_rate[3], v_rate[4], v_flags | v_paused) THEN
        RETURN pawl_answer(p_op, 2, 0, 0, 0, 0);
    END IF;
    INSERT INTO pawl_limit (type_id, key, permits, period_us, burst, horizon_us, flags, changed_us)
    VALUES (p_type, v_key, v_rate[1], v_rate[2], v_rate[3], v_rate[4], v_flags | v_paused, p_now)
    ON CONFLICT (type_id, key) DO UPDATE SET permits = excluded.permits, period_us = excluded.period_us, burst = excluded.burst,
        horizon_us = excluded.horizon_us, flags = excluded.flags, changed_us = excluded.changed_us;
    UPDATE pawl_gate SET limits = limits + 1;
    PERFORM pawl_log_operator(p_now, p_by, 'limit', NULL, (SELECT text FROM pawl_name WHERE id = p_type));
    RETURN pawl_answer(p_op, CASE WHEN v_was THEN 3 ELSE 1 END, 0, 0, 0, 0);
END $$;
