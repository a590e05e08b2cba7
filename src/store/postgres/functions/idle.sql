-- The ways of a store that has little to do: one task comes, one node hears of it and takes it.
--
-- Both functions do all that they write with one statement, after one that looks at most: beginning a statement costs more than what it does
-- here, and so does every expression of a function that a transaction evaluates for the first time. What they find otherwise than they
-- expect they leave untouched, and call the function for everything. The rules are those of pawl_apply and pawl_claim, whose heads tell them.
--
-- Rows of which each lane has its own are found by their first version in the index (see migrations/0001_tables.sql) and updated where they are; if
-- one of them is missing, the function that makes it is called.

-- A batch of one INSERT that pawl_put_simple would take and that asks for no lease.
CREATE OR REPLACE FUNCTION pawl_apply_one(
    p_clock int8[], p_wait_ms int4, p_node int4, p_lane int8, p_number int8, p_tell bool, i_id int8, i_type int4, i_queue int4, i_priority int2,
    i_level int2, i_audit int2, i_content_type text, i_payload bytea,
    OUT verdict int4, OUT now_us int8, OUT dead bool, OUT results text, OUT hints text, OUT unblocked bool, OUT schedules bool, OUT freed bool,
    OUT unsettled bool)
LANGUAGE plpgsql
SET search_path FROM CURRENT SET plan_cache_mode = force_generic_plan SET enable_seqscan = off SET enable_hashjoin = off
SET enable_mergejoin = off SET enable_bitmapscan = off SET enable_material = off SET enable_indexonlyscan = off SET jit = off AS $$
DECLARE
    v_now int8 := coalesce(p_clock[1], pawl_now());
    v_turn int8 := pawl_turn(); -- so it has its number before it looks at the gate: see pawl_closed
    v_did bool;
    v_counted bool;
    v_rolled bool;
    v_born bool;
BEGIN
    IF p_wait_ms IS NOT NULL OR current_setting('synchronous_commit') = 'off' OR current_setting('transaction_isolation') <> 'read committed' THEN
        v_did := pawl_begin(p_wait_ms);
    END IF;
    WITH l AS (
        UPDATE pawl_lane l SET number = p_number, now_us = v_now, results = NULL, turn = v_turn FROM pawl_node n, pawl_gate g
        WHERE l.ctid = (SELECT x.ctid FROM pawl_lane x WHERE x.node = p_node AND x.lane = p_lane ORDER BY x.node, x.lane, x.turn LIMIT 1)
            AND l.number = p_number - 1 AND n.id = p_node AND n.alive = 1 AND g.mode < 2 AND g.bounds = 0
        RETURNING pawl_hint(i_queue, i_priority, 0, i_type, v_now) AS hint),
    body AS (
        INSERT INTO pawl_body (id, created_us, type_id, queue_id, priority, born, level, audit, content_type, payload)
        SELECT i_id, v_now, i_type, i_queue, i_priority, 2, i_level, i_audit, i_content_type, i_payload FROM l),
    live AS (
        INSERT INTO pawl_live (id, run_at_us, queue_id, type_id, fence, priority, class, state, level, runs, failures, interruptions,
                               rescues, strikes, blocked)
        SELECT i_id, v_now, i_queue, i_type, 0, i_priority, 0, 2, i_level, 0, 0, 0, 0, 0, false FROM l),
    counted AS (
        UPDATE pawl_count c SET pending = c.pending + 1, turn = v_turn FROM l
        WHERE c.ctid = (SELECT x.ctid FROM pawl_count x WHERE x.node = p_node AND x.lane = p_lane AND x.queue_id = i_queue
                        ORDER BY x.node, x.lane, x.queue_id, x.turn LIMIT 1)
        RETURNING 1),
    rolled AS (
        UPDATE pawl_rollup r SET count = r.count + 1, turn = v_turn FROM l
        WHERE r.ctid = (SELECT x.ctid FROM pawl_rollup x WHERE x.minute = v_now / 60000000 AND x.node = p_node AND x.lane = p_lane
                            AND x.queue_id = i_queue AND x.type_id = i_type AND x.outcome = 1
                        ORDER BY x.minute, x.node, x.lane, x.queue_id, x.type_id, x.outcome, x.turn LIMIT 1)
        RETURNING 1)
    SELECT l.hint, CASE WHEN p_tell THEN pg_notify('pawl.' || current_schema(), l.hint)::text ELSE '' END, EXISTS (SELECT FROM counted),
        EXISTS (SELECT FROM rolled), EXISTS (SELECT FROM pawl_born b WHERE b.hour = v_now / 3600000000 AND b.node = p_node AND b.lane = p_lane
                                                 AND b.min_id <= i_id AND b.max_id >= i_id)
    INTO hints, results, v_counted, v_rolled, v_born FROM l;
    IF NOT FOUND THEN
        SELECT x.* INTO verdict, now_us, dead, results, hints, unblocked, schedules, freed, unsettled FROM pawl_apply(
            p_clock, p_wait_ms, p_node, p_lane, p_number, false, CASE WHEN p_tell THEN 6 ELSE 2 END, false,
            ARRAY[0], ARRAY[i_id], ARRAY[i_type], ARRAY[i_queue], ARRAY[i_priority], ARRAY[i_level], ARRAY[i_audit], NULL,
            NULL, NULL, NULL, NULL, NULL, NULL, ARRAY[i_content_type], NULL, NULL, NULL, NULL, ARRAY[i_payload], NULL, NULL, NULL, NULL, NULL,
            NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL,
            NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL,
            NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL,
            NULL, NULL, NULL, NULL, NULL, NULL, NULL) x;
        RETURN;
    END IF;
    IF NOT v_counted THEN v_did := pawl_add(p_node, p_lane, i_queue, 1, 0, 0); END IF;
    IF NOT v_rolled THEN v_did := pawl_roll(v_now, p_node, p_lane, i_queue, i_type, 1::int2, 1, NULL, NULL); END IF;
    IF NOT v_born THEN v_did := pawl_bear(v_now, p_node, p_lane, i_id, i_id); END IF;
    verdict := 0;
    now_us := v_now;
    dead := false;
END $$;

-- A claim that finds nothing due, or one ordinary task in a lane that the caller knows. g_: what lies between the lanes that it knows, where
-- there must be nothing. The answer is that of pawl_claim.
CREATE OR REPLACE FUNCTION pawl_claim_one(p_clock int8[], p_wait_ms int4, p_until int8, p_node int4, p_seen bool, p_queue int4[], p_free int4[],
                               p_prefetch int4[], p_solo bool[], p_any bool[], t_want int4[], t_type int4[],
                               l_want int4[], l_lane int8[], l_from int8[], g_want int4[], g_low int8[], g_high int8[])
RETURNS TABLE (want int4, id int8, fence int4, run_at_us int8, runs int4, failures int4, rescues int4, interruptions int4, class int2,
               not_started bool, type_id int4, queue_id int4, created_us int8, priority int2, audit int2, tenant_id int4,
               max_attempts int4, timeout_us int8, retry_of int8, key text, content_type text, created_by text, traceparent text,
               headers text, rate_key bytea, payload bytea, news text)
LANGUAGE plpgsql
SET search_path FROM CURRENT SET plan_cache_mode = force_generic_plan SET enable_seqscan = off SET enable_hashjoin = off
SET enable_mergejoin = off SET enable_bitmapscan = off SET enable_material = off SET enable_indexonlyscan = off SET jit = off AS $$
DECLARE
    v_clock int8 := pawl_now();
    v_now int8 := coalesce(p_clock[1], v_clock);
    v_boot int8 := coalesce(p_clock[2], v_now);
    v_empty int8 := v_now - 100000; -- see pawl_claim
    v_did bool;
    v_due int8; -- 0, 1, or more: not for here
    v_id int8;
    v_lanes text;
    v_news text;
    v_turn int8;
    v_lease_us int8;
    v_counted bool;
    v_seen int8;
BEGIN
    IF p_wait_ms IS NOT NULL OR current_setting('synchronous_commit') = 'off' OR current_setting('transaction_isolation') <> 'read committed' THEN
        v_did := pawl_begin(p_wait_ms);
    END IF;
    SELECT CASE WHEN n.alive <> 1 OR g.mode >= 2 OR g.bounds > 0 OR g.limits > 0 OR (g.schedules > 0 AND EXISTS (SELECT FROM pawl_ended))
                    OR EXISTS (SELECT FROM pawl_queue q WHERE q.queue_id = ANY (p_queue) AND q.paused)
                    OR EXISTS (SELECT FROM unnest(g_want, g_low, g_high) y (w, low, high),
                                   LATERAL (SELECT FROM pawl_live v
                                            WHERE v.state = 2 AND NOT v.blocked AND v.queue_id = p_queue[y.w] AND v.lane > y.low AND v.lane < y.high
                                            ORDER BY v.lane, v.run_at_us, v.id LIMIT 1) x) THEN 2
                WHEN x.due = 0 AND p_seen THEN 2 WHEN x.due > 0 AND p_free[x.want] + p_prefetch[x.want] <= 0 THEN 2 ELSE x.due END,
        x.want, x.id, x.lanes,
        E'D 0\n' || CASE WHEN g.schedules > 0 THEN coalesce('H ' || pawl_schedules_next() || E'\n', '') ELSE '' END
            || CASE WHEN g.families > 0 AND pawl_is_unsettled(v_now) THEN E'Y 1\n' ELSE '' END
            || coalesce((SELECT string_agg('C ' || c.id || ' ' || c.fence || E'\n', '')
                         FROM (SELECT l.id, l.fence FROM pawl_leased l WHERE l.node = p_node AND l.cancel_asked ORDER BY l.id LIMIT 256) c), '')
    INTO v_due, want, v_id, v_lanes, v_news
    FROM pawl_node n, pawl_gate g, (
        SELECT coalesce(sum(y.due), 0) AS due, min(y.w) FILTER (WHERE y.due > 0) AS want, min(y.id) AS id,
            string_agg(y.lanes || 'W ' || y.w || ' 0 0 ' || coalesce(y.next_us, 0) || E' 0\n', '') AS lanes
        FROM (
            SELECT y.w, sum(CASE WHEN d.id IS NULL THEN 0 WHEN (y.l >> 32) & 15 = 0 THEN 1 ELSE 2 END) AS due, min(d.id) AS id,
                min(t.run_at_us) AS next_us, string_agg('V ' || y.w || ' ' || y.l || ' ' || CASE WHEN y.f < 0 THEN -1 ELSE v_empty END || E'\n', '') AS lanes
            FROM unnest(l_want, l_lane, l_from) y (w, l, f)
            LEFT JOIN LATERAL (SELECT v.id FROM pawl_live v
                               WHERE y.f >= 0 AND v.state = 2 AND NOT v.blocked AND v.queue_id = p_queue[y.w] AND v.lane = y.l
                                   AND v.run_at_us >= CASE WHEN y.f > v_empty THEN 0 ELSE y.f END AND v.run_at_us <= v_now
                               ORDER BY v.run_at_us, v.id LIMIT 2) d ON true
            LEFT JOIN LATERAL (SELECT v.run_at_us FROM pawl_live v
                               WHERE y.f >= 0 AND v.state = 2 AND NOT v.blocked AND v.queue_id = p_queue[y.w] AND v.lane = y.l AND v.run_at_us > v_now
                               ORDER BY v.run_at_us LIMIT 1) t ON true
            GROUP BY y.w) y) x
    WHERE n.id = p_node;
    IF v_due = 1 THEN
        v_turn := pawl_turn(); -- so it has its number before it looks at the gate again: see pawl_closed
        WITH n AS (SELECT n.lease_us FROM pawl_node n WHERE n.id = p_node AND n.alive = 1 FOR SHARE),
        chosen AS (
            SELECT v.id FROM n, pawl_gate g, pawl_live v
            WHERE g.mode < 2 AND g.bounds = 0 AND g.limits = 0 AND v.id = v_id AND v.state + 0 = 2 AND NOT v.blocked AND v.run_at_us <= v_now
            FOR UPDATE OF v SKIP LOCKED),
        task AS (
            DELETE FROM pawl_live v USING chosen x, pawl_body b WHERE v.id = ANY (ARRAY[x.id]) AND b.id = ANY (ARRAY[x.id])
            RETURNING v.id, v.run_at_us, v.fence + 1 AS fence, v.class, v.strikes, v.level, v.runs, v.failures, v.rescues, v.interruptions,
                v.priority, v.type_id, v.queue_id, b.key IS NOT NULL AND p_free[want] <= 0 AS not_started, b.created_us, b.audit, b.tenant_id,
                b.max_attempts, b.timeout_us, b.retry_of, b.key, b.content_type, b.created_by, b.traceparent, b.headers, b.rate_key, b.payload),
        lease AS (
            INSERT INTO pawl_leased (id, leased_us, node, queue_id, type_id, fence, priority, class, level, strikes, runs, failures,
                                     interruptions, rescues, not_started, mark, cancel_asked, run_at_us)
            SELECT y.id, v_now, p_node, y.queue_id, y.type_id, y.fence, y.priority, y.class, y.level, y.strikes, y.runs, y.failures,
                y.interruptions, y.rescues, y.not_started, false, false, y.run_at_us FROM task y),
        counted AS (
            UPDATE pawl_count c SET pending = c.pending - 1, leased = c.leased + 1, turn = v_turn FROM task
            WHERE c.ctid = (SELECT x.ctid FROM pawl_count x WHERE x.node = p_node AND x.lane = -1 AND x.queue_id = p_queue[want]
                            ORDER BY x.node, x.lane, x.queue_id, x.turn LIMIT 1)
            RETURNING 1),
        beat AS (
            UPDATE pawl_lane l SET leases = l.leases + 1, renewal = l.renewal + 1, expires_us = v_boot + n.lease_us,
                now_us = CASE WHEN abs(v_clock - l.now_us) < 200000 THEN l.now_us ELSE v_clock END, turn = v_turn
            FROM task, n, (SELECT count(*) FROM counted) first
            WHERE l.ctid = (SELECT x.ctid FROM pawl_lane x WHERE x.node = p_node AND x.lane = -1 ORDER BY x.node, x.lane, x.turn LIMIT 1)
            RETURNING l.now_us)
        SELECT y.id, y.fence, y.run_at_us, y.runs, y.failures, y.rescues, y.interruptions, y.class, y.not_started, y.type_id, y.queue_id,
            y.created_us, y.priority, y.audit, y.tenant_id, y.max_attempts, y.timeout_us, y.retry_of, y.key, y.content_type, y.created_by,
            y.traceparent, y.headers, y.rate_key, y.payload, n.lease_us, EXISTS (SELECT FROM counted), (SELECT b.now_us FROM beat b)
        INTO id, fence, run_at_us, runs, failures, rescues, interruptions, class, not_started, type_id, queue_id, created_us, priority, audit,
            tenant_id, max_attempts, timeout_us, retry_of, key, content_type, created_by, traceparent, headers, rate_key, payload, v_lease_us,
            v_counted, v_seen
        FROM task y, n;
        IF FOUND THEN
            RETURN NEXT;
            payload := NULL;
            IF NOT v_counted THEN v_did := pawl_add(p_node, -1, p_queue[want], -1, 1, 0); END IF;
            IF v_seen IS NULL THEN v_did := pawl_beat(p_node, -1, 1, v_boot + v_lease_us, NULL); END IF;
        ELSE
            v_due := 2;
        END IF;
    END IF;
    IF v_due IS NULL OR v_due > 1 THEN
        RETURN QUERY SELECT x.* FROM pawl_claim(p_clock, p_wait_ms, p_until, p_node, p_seen, p_queue, p_free, p_prefetch, p_solo, p_any, t_want,
                                                t_type, l_want, l_lane, l_from) x;
        RETURN;
    END IF;
    IF pawl_now() > p_until THEN v_did := pawl_check_until(p_until); END IF;
    want := 0;
    news := coalesce(v_lanes, '') || 'N ' || v_now || E'\n'
        || CASE WHEN v_due = 0 OR v_seen = v_clock OR v_seen IS NULL OR p_clock IS NOT NULL THEN pawl_news(v_now, v_boot, p_node, true) ELSE v_news END;
    RETURN NEXT;
END $$;
