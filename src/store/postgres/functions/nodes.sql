-- Nodes, leases and rescue.
--
-- A lease is granted only in a transaction that holds the node's life row (shared) and found it alive; a rescuer holds the victim's life
-- row (exclusive) while it reads the heartbeat again, declares the node dead and frees its tasks. So no lease appears after the rescue.
--
-- p_until: the server's time past which the caller has given up: what would take effect later than that fails instead (PW002).

CREATE OR REPLACE FUNCTION pawl_check_until(p_until int8) RETURNS bool LANGUAGE plpgsql AS $$
BEGIN
    IF pawl_now() > p_until THEN RAISE EXCEPTION 'too late: the caller has given up' USING ERRCODE = 'PW002'; END IF;
    RETURN true;
END $$;

-- true: others are to be looked at again, too, a fifth of a second after the last time. The lane's now_us keeps when that was.
CREATE OR REPLACE FUNCTION pawl_beat(p_node int4, p_lane int8, p_leases int8, p_expires int8, p_skew int8) RETURNS bool LANGUAGE plpgsql AS $$
DECLARE
    v_row tid := pawl_lane_row(p_node, p_lane);
    v_now int8 := pawl_now();
    v_seen int8;
BEGIN
    UPDATE pawl_lane SET leases = leases + p_leases, renewal = renewal + 1, expires_us = p_expires, skew_us = coalesce(p_skew, skew_us),
        now_us = CASE WHEN abs(v_now - now_us) < 200000 THEN now_us ELSE v_now END, turn = pawl_turn()
    WHERE ctid = v_row RETURNING now_us INTO v_seen;
    RETURN v_seen = v_now;
END $$;

-- One line each: D dead, X the gate is shut, R the version of limits of both kinds, H when the first schedule is due, Y somebody is to be told, C cancels (id fence); of others F earliest expiry of one that holds
-- leases, L lapsed (node renewal proven).
CREATE OR REPLACE FUNCTION pawl_news(p_now int8, p_boot int8, p_node int4, p_others bool) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
    v_text text;
    v_first int8;
    v_lapsed text;
BEGIN
    v_text := 'D ' || (NOT EXISTS (SELECT FROM pawl_node WHERE id = p_node AND alive = 1))::int4 || E'\n'
        || (SELECT CASE WHEN mode >= 2 THEN E'X 1\n' ELSE '' END || CASE WHEN limits + bounds > 0 THEN 'R ' || limits + bounds || E'\n' ELSE '' END
                || CASE WHEN schedules > 0 THEN coalesce('H ' || pawl_schedules_next() || E'\n', '') ELSE '' END
                || CASE WHEN families > 0 AND pawl_is_unsettled(p_now) THEN E'Y 1\n' ELSE '' END
            FROM pawl_gate) || coalesce(
        (SELECT string_agg('C ' || c.id || ' ' || c.fence || E'\n', '')
         FROM (SELECT id, fence FROM pawl_leased WHERE node = p_node AND cancel_asked ORDER BY id LIMIT 256) c), '');
    IF NOT p_others THEN RETURN v_text; END IF;
    SELECT min(greatest(h.expires_us - p_boot, 0)) FILTER (WHERE n.alive = 1),
        string_agg('L ' || n.id || ' ' || h.renewal || ' ' || (n.alive <> 1 OR n.gone)::int4 || E'\n', '' ORDER BY n.id)
            FILTER (WHERE h.expires_us <= p_boot OR n.alive <> 1 OR n.gone)
    INTO v_first, v_lapsed
    FROM pawl_node n, LATERAL (SELECT max(l.expires_us) AS expires_us, sum(l.renewal) AS renewal FROM pawl_lanes_of(n.id) l
                               HAVING sum(l.leases) > 0) h
    WHERE n.id <> p_node AND n.alive >= 0;
    RETURN v_text || 'F ' || coalesce(v_first, -1) || E'\n' || coalesce(v_lapsed, '');
END $$;

CREATE OR REPLACE FUNCTION pawl_renew(p_clock int8[], p_wait_ms int4, p_node int4, p_wall int8, p_told bytea, OUT now_us int8, OUT held int8, OUT news text)
LANGUAGE plpgsql SET search_path FROM CURRENT SET enable_seqscan = off SET jit = off AS $$
DECLARE
    v_did bool;
    v_lease_us int8;
    v_boot int8;
    v_ended int8;
BEGIN
    v_did := pawl_begin(p_wait_ms);
    SELECT lease_us INTO v_lease_us FROM pawl_node WHERE id = p_node AND alive = 1 FOR SHARE;
    now_us := coalesce(p_clock[1], pawl_now());
    v_boot := coalesce(p_clock[2], now_us);
    IF v_lease_us IS NOT NULL THEN
        WITH d AS (DELETE FROM pawl_lane WHERE node = p_node AND lane < -1000 RETURNING leases) SELECT sum(leases) INTO v_ended FROM d;
        v_did := pawl_beat(p_node, -2, coalesce(v_ended, 0), v_boot + v_lease_us, p_wall - now_us);
        v_did := pawl_node_told(p_node, p_told);
    END IF;
    held := (SELECT coalesce(sum(leases), 0) FROM pawl_lanes_of(p_node));
    news := pawl_news(now_us, v_boot, p_node, true);
END $$;

-- ---- birth and death --------------------------------------------------------------------------------------------------------------

CREATE OR REPLACE FUNCTION pawl_register(p_clock int8[], p_wait_ms int4, p_queue_ids int4[], p_name text, p_pid int8, p_queues text, p_types text,
                              p_lease_us int8, p_locked bool) RETURNS int4 LANGUAGE plpgsql SET search_path FROM CURRENT AS $$
DECLARE
    v_node int4;
BEGIN
    PERFORM pawl_begin(p_wait_ms);
    INSERT INTO pawl_node (name, pid, queues, types, lease_us, born_us, alive, gone, locked, blame)
    VALUES (p_name, p_pid, p_queues, p_types, p_lease_us, coalesce(p_clock[1], pawl_now()), 1, false, p_locked, 0) RETURNING id INTO v_node;
    INSERT INTO pawl_queue (queue_id) SELECT DISTINCT q FROM unnest(p_queue_ids) q ORDER BY 1 ON CONFLICT DO NOTHING;
    RETURN v_node;
END $$;

-- Session locks that show that nodes live, as long as the caller's session does. The first part of a lock's name is the table's number.
CREATE OR REPLACE FUNCTION pawl_hold_lives(p_nodes int4[]) RETURNS void LANGUAGE plpgsql SET search_path FROM CURRENT AS $$
DECLARE
    v_class int8 := 'pawl_node'::regclass::oid::int8;
BEGIN
    PERFORM pg_advisory_lock_shared((CASE WHEN v_class > 2147483647 THEN v_class - 4294967296 ELSE v_class END)::int4, n)
    FROM unnest(p_nodes) n WHERE n > 0;
END $$;

-- Its life row is locked.
CREATE OR REPLACE FUNCTION pawl_kill(p_now int8, p_node int4, p_blame int2) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    UPDATE pawl_node SET alive = 0, died_us = p_now, blame = p_blame WHERE id = p_node;
    UPDATE pawl_number SET node = 0 WHERE node = p_node;
    DELETE FROM pawl_told WHERE node = p_node;
    UPDATE pawl_lane SET expires_us = 0 WHERE node = p_node AND expires_us <> 0;
END $$;

-- A node goes. One that holds leases stays, and others will rescue it; p_gone: its process ends, so they need not wait.
CREATE OR REPLACE FUNCTION pawl_leave(p_clock int8[], p_wait_ms int4, p_nodes int4[], p_gone bool) RETURNS void
LANGUAGE plpgsql SET search_path FROM CURRENT AS $$
DECLARE
    n record;
BEGIN
    PERFORM pawl_begin(p_wait_ms);
    FOR n IN SELECT id FROM pawl_node WHERE id = ANY (p_nodes) AND alive = 1 ORDER BY id FOR UPDATE LOOP
        IF p_gone THEN
            UPDATE pawl_node SET gone = true WHERE id = n.id;
        ELSIF (SELECT coalesce(sum(leases), 0) FROM pawl_lane WHERE node = n.id) = 0 THEN
            PERFORM pawl_kill(coalesce(p_clock[1], pawl_now()), n.id, 0::int2);
        END IF;
    END LOOP;
END $$;

-- Node numbers for ids. got 0: all are in use.
CREATE OR REPLACE FUNCTION pawl_take_number(p_clock int8[], p_wait_ms int4, p_node int4, p_number int4, p_ahead_ms int8, p_used_ms int8,
                                 p_give_back bool, OUT got int4, OUT lowest_ms int8, OUT highest_ms int8)
LANGUAGE plpgsql SET search_path FROM CURRENT AS $$
DECLARE
    v_now_ms int8 := coalesce(p_clock[1], pawl_now()) / 1000 - 1735689600000;
    v_floor int8;
    v_ceiling int8;
BEGIN
    PERFORM pawl_begin(p_wait_ms);
    got := 0;
    SELECT number, floor_ms, ceiling_ms INTO got, v_floor, v_ceiling FROM pawl_number WHERE number = p_number AND node = p_node FOR UPDATE;
    IF FOUND AND p_give_back THEN
        UPDATE pawl_number SET node = 0, ceiling_ms = CASE WHEN p_used_ms < v_ceiling THEN greatest(p_used_ms, v_floor) ELSE v_ceiling END
        WHERE number = got;
        RETURN;
    ELSIF p_give_back THEN
        RETURN;
    ELSIF NOT FOUND THEN
        SELECT m.number, m.ceiling_ms, m.ceiling_ms INTO got, v_floor, v_ceiling FROM pawl_number m
        WHERE NOT EXISTS (SELECT FROM pawl_node n WHERE n.id = m.node AND n.alive = 1 AND NOT n.gone) OR m.ceiling_ms <= v_now_ms
        ORDER BY m.ceiling_ms, m.number LIMIT 1 FOR UPDATE SKIP LOCKED;
        IF NOT FOUND THEN
            got := 0;
            RETURN;
        END IF;
    END IF;
    v_ceiling := greatest(v_ceiling, greatest(v_now_ms, p_used_ms, v_floor) + p_ahead_ms);
    UPDATE pawl_number SET node = p_node, floor_ms = v_floor, ceiling_ms = v_ceiling WHERE number = got;
    lowest_ms := v_floor;
    highest_ms := v_ceiling;
END $$;

-- ---- rescue -----------------------------------------------------------------------------------------------------------------------

-- One task of a dead node goes back, or ends. blame: 1 the rescue counts against a marked start, 2 marked starts run alone from now on.
CREATE OR REPLACE FUNCTION pawl_free(p_now int8, p_node int4, p_blame int2, l pawl_leased, OUT o_failed bool, OUT o_hint text) LANGUAGE plpgsql AS $$
DECLARE
    v_strikes int2 := l.strikes + (l.mark AND p_blame = 1)::int4;
    v_state int2 := CASE WHEN l.cancel_asked THEN 6 WHEN v_strikes >= 3 THEN 5 ELSE 2 END;
    v_class int2 := CASE WHEN l.class = 2 OR (l.mark AND p_blame = 2) THEN 2 ELSE 1 END;
BEGIN
    o_failed := v_state = 5;
    o_hint := '';
    IF NOT l.not_started THEN
        INSERT INTO pawl_attempt (task_id, number, outcome, started_us, finished_us, fence, node)
        VALUES (l.id, l.runs + 1, 9, coalesce(l.started_us, l.leased_us), 0, l.fence, l.node);
    END IF;
    PERFORM pawl_trail_grant(l);
    IF pawl_wanted(l.level, 2) THEN PERFORM pawl_trail(l.id, p_now, 3::int2, v_state, l.fence, l.node, 'rescued'); END IF;
    PERFORM pawl_roll(p_now, p_node, -1, l.queue_id, l.type_id, 6::int2, 1, NULL, NULL);
    DELETE FROM pawl_leased WHERE id = l.id;
    PERFORM pawl_take(l.node, -1, p_node, -1);
    l.run_at_us := coalesce(l.run_at_us, l.leased_us);
    l.runs := l.runs + (NOT l.not_started)::int4;
    l.rescues := l.rescues + 1;
    l.fence := l.fence + 1;
    l.strikes := v_strikes;
    IF v_state <> 2 THEN
        PERFORM pawl_end_row(p_now, p_node, -1, v_state, l.level, false, CASE WHEN o_failed THEN 'rescued_too_often' END, l, NULL);
        RETURN;
    END IF;
    l.run_at_us := least(l.run_at_us, p_now);
    INSERT INTO pawl_live (id, run_at_us, queue_id, type_id, fence, priority, class, state, level, runs, failures, interruptions, rescues,
                           strikes, blocked)
    VALUES (l.id, l.run_at_us, l.queue_id, l.type_id, l.fence, l.priority, v_class, 2, l.level, l.runs, l.failures, l.interruptions,
            l.rescues, l.strikes, false);
    PERFORM pawl_add(p_node, -1, l.queue_id, 1, -1, 0);
    o_hint := pawl_hint(l.queue_id, l.priority, v_class, l.type_id, l.run_at_us);
END $$;

-- tasks: "<id> <fence>;" of each that was freed or failed.
CREATE OR REPLACE FUNCTION pawl_rescue(p_clock int8[], p_wait_ms int4, p_until int8, p_node int4, p_victim int4, p_renewal int8, p_counts bool,
                            p_limit int4, OUT refused bool, OUT freed int4, OUT failed int4, OUT more bool, OUT tasks text, OUT hints text)
LANGUAGE plpgsql SET search_path FROM CURRENT SET enable_indexonlyscan = off SET jit = off AS $$
DECLARE
    v_now int8;
    v_boot int8;
    n pawl_node;
    h record;
    l pawl_leased;
    r record;
    v_marks int8;
    v_page int8[];
    v_spots int8[];
    v_schedules bool;
    v_ids int8[];
BEGIN
    PERFORM pawl_begin(p_wait_ms);
    refused := false;
    more := false;
    freed := 0;
    failed := 0;
    tasks := '';
    hints := '';
    SELECT * INTO n FROM pawl_node WHERE id = p_victim FOR UPDATE;
    IF NOT FOUND THEN RETURN; END IF;
    v_now := coalesce(p_clock[1], pawl_now());
    v_boot := coalesce(p_clock[2], v_now);
    SELECT coalesce(max(expires_us), 0) AS expires_us, coalesce(sum(renewal), 0) AS renewal, coalesce(sum(leases), 0) AS leases
    INTO h FROM pawl_lane WHERE node = p_victim;
    IF n.alive = 1 AND NOT n.gone AND NOT (h.expires_us <= v_boot AND h.leases > 0 AND h.renewal = p_renewal AND p_victim <> p_node) THEN
        refused := true;
        RETURN;
    END IF;
    IF n.alive = 1 THEN
        SELECT count(*) INTO v_marks FROM pawl_leased WHERE node = p_victim AND mark;
        n.blame := CASE WHEN v_marks > 1 THEN 2 WHEN v_marks = 1 AND p_counts THEN 1 ELSE 0 END;
        PERFORM pawl_kill(v_now, p_victim, n.blame);
    END IF;
    IF (SELECT bounds FROM pawl_gate) > 0 THEN
        v_page := ARRAY(SELECT id FROM pawl_leased WHERE node = p_victim ORDER BY id LIMIT p_limit);
        v_spots := pawl_hold_places(v_now, v_page, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL);
    END IF;
    v_schedules := (SELECT schedules > 0 FROM pawl_gate);
    v_ids := ARRAY(SELECT id FROM pawl_leased WHERE node = p_victim ORDER BY id LIMIT p_limit);
    IF v_schedules THEN
        h := pawl_hold_schedules(false, NULL, v_ids);
    END IF;
    FOR l IN SELECT * FROM pawl_leased WHERE node = p_victim AND (v_page IS NULL OR id = ANY (v_page)) ORDER BY id LIMIT p_limit FOR UPDATE LOOP
        SELECT * INTO r FROM pawl_free(v_now, p_node, n.blame, l);
        IF r.o_failed THEN failed := failed + 1; ELSE freed := freed + 1; END IF;
        tasks := tasks || l.id || ' ' || l.fence || ';';
        hints := hints || r.o_hint;
    END LOOP;
    more := EXISTS (SELECT FROM pawl_leased WHERE node = p_victim);
    IF v_schedules THEN
        PERFORM pawl_schedules_ended(v_now, v_ids, h.o_held);
        IF NOT h.o_all THEN PERFORM pawl_leave_ended(v_ids); END IF;
    END IF;
    IF (SELECT families > 0 FROM pawl_gate) THEN PERFORM pawl_families_ended(v_ids); END IF;
    IF v_page IS NOT NULL THEN
        SELECT x.o_hints INTO r FROM pawl_settle(v_now, v_page, '{}', v_spots) x;
        hints := hints || r.o_hints;
    END IF;
    PERFORM pawl_check_until(p_until);
END $$;

-- NULL: as before; empty: nothing any more.
CREATE OR REPLACE FUNCTION pawl_node_told(p_node int4, p_told bytea) RETURNS bool LANGUAGE plpgsql AS $$
BEGIN
    IF length(p_told) > 0 THEN
        INSERT INTO pawl_told (node, told) VALUES (p_node, p_told) ON CONFLICT (node) DO UPDATE SET told = excluded.told;
    ELSIF p_told IS NOT NULL THEN
        DELETE FROM pawl_told WHERE node = p_node;
    END IF;
    RETURN true;
END $$;

-- false: no such node lives. What was said of others that have died goes, too.
CREATE OR REPLACE FUNCTION pawl_node_drain(p_clock int8[], p_wait_ms int4, p_node int4, p_on bool, p_by text) RETURNS bool
LANGUAGE plpgsql SET search_path FROM CURRENT AS $$
DECLARE
    v_name text;
BEGIN
    PERFORM pawl_begin(p_wait_ms);
    SELECT name INTO v_name FROM pawl_node WHERE id = p_node AND alive = 1;
    IF NOT FOUND THEN RETURN false; END IF;
    DELETE FROM pawl_drain d WHERE NOT EXISTS (SELECT FROM pawl_node n WHERE n.id = d.node AND n.alive = 1);
    IF p_on THEN
        INSERT INTO pawl_drain (node) VALUES (p_node) ON CONFLICT DO NOTHING;
    ELSE
        DELETE FROM pawl_drain WHERE node = p_node;
    END IF;
    PERFORM pawl_log_operator(coalesce(p_clock[1], pawl_now()), p_by, CASE WHEN p_on THEN 'drain' ELSE 'undrain' END, NULL, v_name);
    RETURN true;
END $$;
