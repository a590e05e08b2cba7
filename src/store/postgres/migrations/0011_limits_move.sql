-- Rate limits and budgets that come from another store: see PAWL_PART_LIMITS and PAWL_PART_BUDGETS in pawl/store.h.

CREATE FUNCTION pawl_load_limits(p_clock int8[], p_wait_ms int4, p_move text, p_before text, p_position text, p_type int4[], p_key bytea[],
                                 p_permits int4[], p_period int8[], p_burst int4[], p_horizon int8[], p_flags int4[])
RETURNS bool LANGUAGE plpgsql SET search_path FROM CURRENT AS $$
BEGIN
    PERFORM pawl_begin(p_wait_ms);
    IF NOT pawl_arrive(p_move, p_before, p_position) THEN RETURN false; END IF;
    IF cardinality(p_type) = 0 THEN RETURN true; END IF;
    UPDATE pawl_gate SET limits = limits + 1;
    INSERT INTO pawl_limit (type_id, key, permits, period_us, burst, horizon_us, flags, changed_us)
    SELECT u.*, coalesce(p_clock[1], pawl_now()) FROM unnest(p_type, p_key, p_permits, p_period, p_burst, p_horizon, p_flags) u
    ON CONFLICT (type_id, key) DO UPDATE SET permits = excluded.permits, period_us = excluded.period_us, burst = excluded.burst,
        horizon_us = excluded.horizon_us, flags = excluded.flags, changed_us = excluded.changed_us;
    RETURN true;
END $$;

-- Whoever calls has settled them.
CREATE FUNCTION pawl_load_budgets(p_clock int8[], p_wait_ms int4, p_move text, p_before text, p_position text, p_type int4[], p_key bytea[],
                                  p_tat int8[], p_part int4[], p_permits int4[], p_period int8[], p_burst int4[], p_seen int8[], p_epoch int8[])
RETURNS bool LANGUAGE plpgsql SET search_path FROM CURRENT AS $$
BEGIN
    PERFORM pawl_begin(p_wait_ms);
    IF NOT pawl_arrive(p_move, p_before, p_position) THEN RETURN false; END IF;
    INSERT INTO pawl_budget (type_id, key, tat_us, tat_part, permits, period_us, burst, seen_us, epoch)
    SELECT u.* FROM unnest(p_type, p_key, p_tat, p_part, p_permits, p_period, p_burst, p_seen, p_epoch) u
    ON CONFLICT (type_id, key) DO UPDATE SET tat_us = excluded.tat_us, tat_part = excluded.tat_part, permits = excluded.permits,
        period_us = excluded.period_us, burst = excluded.burst, seen_us = excluded.seen_us, epoch = excluded.epoch, last_id = 0, last_slot_us = 0;
    RETURN true;
END $$;
