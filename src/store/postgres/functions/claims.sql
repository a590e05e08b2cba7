-- Claims.
--
-- The ready index is a row of lanes, one per queue, priority, class and type. A claim steps from lane to lane by one probe each. The caller
-- may pass the lanes it knows (l_, in their order), each with the time below which nothing is left in it (-1: of a type that it does not
-- want), so that the dead entries of what was claimed before are not looked at again: then the probes go between the known lanes, and
-- into them from that time on. What would be granted is locked, and others skip it. Until there is something to grant, nothing is written.

-- The lanes of a queue: those known, and what lies between them.
CREATE OR REPLACE FUNCTION pawl_lanes(p_queue int4, p_known int8[], p_from int8[]) RETURNS TABLE (lane int8, from_us int8)
LANGUAGE plpgsql STABLE AS $$
DECLARE
    v_at int4 := 1;
    v_count int4 := coalesce(cardinality(p_known), 0);
    v_last int8 := -1;
BEGIN
    LOOP
        SELECT v.lane INTO lane FROM pawl_live v
        WHERE v.state = 2 AND NOT v.blocked AND v.queue_id = p_queue AND v.lane > v_last
            AND v.lane < CASE WHEN v_at <= v_count THEN p_known[v_at] ELSE 9223372036854775807 END
        ORDER BY v.lane, v.run_at_us, v.id LIMIT 1;
        IF FOUND THEN
            from_us := 0;
        ELSIF v_at <= v_count THEN
            lane := p_known[v_at];
            from_us := p_from[v_at];
            v_at := v_at + 1;
        ELSE
            RETURN;
        END IF;
        v_last := lane;
        RETURN NEXT;
    END LOOP;
END $$;

-- Chooses and locks what is due of one lane of ordinary tasks. o_lasts: where it came to, or p_end when it took all; o_more: there is more.
CREATE OR REPLACE FUNCTION pawl_choose_one(p_now int8, p_queue int4, p_lane int8, p_from int8, p_room int4, p_end int8,
                                OUT o_ids int8[], OUT o_lasts int8[], OUT o_more bool, OUT o_solo bool) LANGUAGE plpgsql AS $$
DECLARE
    v_last int8;
BEGIN
    SELECT coalesce(array_agg(s.id), '{}'), max(s.run_at_us) INTO o_ids, v_last FROM (
        SELECT v.id, v.run_at_us FROM pawl_live v
        WHERE v.state = 2 AND NOT v.blocked AND v.queue_id = p_queue AND v.lane = p_lane AND v.run_at_us >= p_from AND v.run_at_us <= p_now
        ORDER BY v.run_at_us, v.id LIMIT p_room FOR UPDATE SKIP LOCKED) s;
    o_solo := false;
    o_more := false;
    IF cardinality(o_ids) < p_room THEN
        o_lasts := ARRAY[p_end];
        RETURN;
    END IF;
    o_lasts := ARRAY[v_last];
    o_more := EXISTS (
        SELECT FROM pawl_live v
        WHERE v.state = 2 AND NOT v.blocked AND v.queue_id = p_queue AND v.lane = p_lane AND (v.run_at_us, v.id) > (v_last, o_ids[p_room])
            AND v.run_at_us <= p_now
        ORDER BY v.run_at_us, v.id LIMIT 1);
END $$;

-- The same for several lanes of one priority: suspects only within p_free, of those to run alone one at most, and only if p_solo. Chooses
-- without locks, then locks; what somebody else has meanwhile is left out and the choice made again. o_lasts: by lane, where it came to.
CREATE OR REPLACE FUNCTION pawl_choose(p_now int8, p_queue int4, p_lanes int8[], p_froms int8[], p_got int4, p_free int4, p_room int4, p_solo bool,
                            OUT o_ids int8[], OUT o_lasts int8[], OUT o_more bool, OUT o_solo bool) LANGUAGE plpgsql AS $$
DECLARE
    v_skip int8[] := '{}';
    v_chosen int8[];
    v_locked int8[];
    v_alone int8;
    v_got int4;
    c record;
BEGIN
    o_ids := '{}';
    o_solo := false;
    FOR round IN 1..5 LOOP
        v_chosen := '{}';
        v_alone := NULL;
        v_got := p_got + cardinality(o_ids);
        o_more := false;
        o_lasts := p_froms;
        FOR c IN
            SELECT x.id, x.run_at_us, (g.lane >> 32) & 15 AS class, g.i FROM unnest(p_lanes, p_froms) WITH ORDINALITY g (lane, from_us, i),
                LATERAL (SELECT v.id, v.run_at_us FROM pawl_live v
                         WHERE v.state = 2 AND NOT v.blocked AND v.queue_id = p_queue AND v.lane = g.lane AND v.run_at_us >= g.from_us
                             AND v.run_at_us <= p_now
                         ORDER BY v.run_at_us, v.id LIMIT p_room + 1 + cardinality(v_skip) + cardinality(o_ids)) x
            WHERE x.id <> ALL (v_skip) AND x.id <> ALL (o_ids) ORDER BY x.run_at_us, x.id
        LOOP
            IF v_got >= p_got + p_room THEN
                o_more := true;
                EXIT;
            ELSIF c.class = 0 OR (v_got < p_free AND (c.class = 1 OR (p_solo AND NOT o_solo AND v_alone IS NULL))) THEN
                v_chosen := v_chosen || c.id;
                v_got := v_got + 1;
                IF c.class = 2 THEN v_alone := c.id; END IF;
                IF NOT o_more THEN o_lasts[c.i] := c.run_at_us; END IF;
            ELSE
                o_more := true;
            END IF;
        END LOOP;
        v_locked := ARRAY(SELECT v.id FROM pawl_live v WHERE v.id = ANY (v_chosen) AND v.state + 0 = 2 AND NOT v.blocked
                          ORDER BY v.id FOR UPDATE SKIP LOCKED);
        o_ids := o_ids || ARRAY(SELECT y.id FROM unnest(v_chosen) WITH ORDINALITY y (id, i) WHERE y.id = ANY (v_locked) ORDER BY y.i);
        o_solo := o_solo OR coalesce(v_alone = ANY (v_locked), false);
        EXIT WHEN cardinality(v_locked) = cardinality(v_chosen);
        v_skip := v_skip || ARRAY(SELECT y FROM unnest(v_chosen) y WHERE y <> ALL (v_locked));
    END LOOP;
END $$;

-- Tasks whose bodies are not there any more end as failed, and get empty ones so that they can be shown. They are locked, and counted as
-- leased.
CREATE OR REPLACE FUNCTION pawl_lose(p_now int8, p_node int4, p_id int8[]) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
    r record;
BEGIN
    FOR r IN
        WITH x AS (DELETE FROM pawl_live WHERE id = ANY (p_id) RETURNING *),
        failed AS (
            INSERT INTO pawl_failed (id, finished_us, node, fence, runs, failures, interruptions, rescues, state, outcome, level, flags,
                                     run_at_us, reason)
            SELECT id, p_now, 0, fence, runs, failures, interruptions, rescues, 5, 0, level, 1, run_at_us, 'unreadable' FROM x),
        body AS (
            INSERT INTO pawl_body (id, created_us, type_id, queue_id, priority, born, level, audit, content_type)
            SELECT id, p_now, type_id, queue_id, priority, 2, level, 0, '' FROM x)
        SELECT queue_id, type_id, count(*) AS n FROM x GROUP BY 1, 2
    LOOP
        PERFORM pawl_add(p_node, -1, r.queue_id, 0, -r.n, r.n);
        PERFORM pawl_roll(p_now, p_node, -1, r.queue_id, r.type_id, 3::int2, r.n, NULL, NULL);
    END LOOP;
END $$;

-- A row of the answer is a task (want > 0), or the last one, which has only news: what pawl_news says (of others, while tasks are claimed
-- one after another, every fifth of a second), and besides
--   N now_us        W want paused more next_due_us (0: none) fair        V want lane run_at_us (where to go on)        S: see pawl_slots_told
--   U hints (tasks were unblocked)
CREATE OR REPLACE FUNCTION pawl_claim(p_clock int8[], p_wait_ms int4, p_until int8, p_node int4, p_seen bool, p_queue int4[], p_free int4[],
                           p_prefetch int4[], p_solo bool[], p_any bool[], t_want int4[], t_type int4[],
                           l_want int4[], l_lane int8[], l_from int8[])
RETURNS TABLE (want int4, id int8, fence int4, run_at_us int8, runs int4, failures int4, rescues int4, interruptions int4, class int2,
               not_started bool, type_id int4, queue_id int4, created_us int8, priority int2, audit int2, tenant_id int4,
               max_attempts int4, timeout_us int8, retry_of int8, key text, content_type text, created_by text, traceparent text,
               headers text, rate_key bytea, payload bytea, news text)
LANGUAGE plpgsql
SET search_path FROM CURRENT SET plan_cache_mode = force_generic_plan SET enable_seqscan = off SET enable_hashjoin = off
SET enable_mergejoin = off SET enable_bitmapscan = off SET enable_material = off SET enable_indexonlyscan = off SET jit = off AS $$
DECLARE
    v_did bool;
    v_now int8 := coalesce(p_clock[1], pawl_now());
    v_boot int8 := coalesce(p_clock[2], v_now);
    v_slack int8 := 100000; -- a commit under way may bring something that fell due this long ago; later ones are told by their hints
    v_count int4 := coalesce(cardinality(p_queue), 0);
    v_alive int2;
    v_lease_us int8;
    v_paused bool[] := '{}';
    v_more bool[] := '{}';
    v_next int8[] := '{}';
    v_gots int4[] := '{}';
    v_solo bool := false;
    v_others bool := true;
    v_types int4[];
    w int4[] := '{}';
    l int8[] := '{}';
    f int8[] := '{}';
    g_id int8[] := '{}';
    g_want int4[] := '{}';
    g_at int4[] := '{}';
    v_got int4;
    v_room int4;
    v_lasts int8[];
    v_text text := '';
    v_bounds int8;
    v_limits int8;
    v_ids int8[];
    v_bounded bool[];
    v_fair bool[] := '{}';
    v_touched int8[] := '{}';
    v_held int8 := 0;
    v_lanes int8[] := '{}';
    v_hints text := '';
    v_schedules int8;
    r record;
    x record;
BEGIN
    v_did := pawl_begin(p_wait_ms);
    SELECT n.alive, g.bounds, g.schedules, g.limits INTO v_alive, v_bounds, v_schedules, v_limits FROM pawl_node n, pawl_gate g
    WHERE n.id = p_node;
    FOR i IN 1..v_count LOOP
        v_paused[i] := coalesce(v_alive = 1 AND (SELECT q.paused FROM pawl_queue q WHERE q.queue_id = p_queue[i]), false);
        v_more[i] := false;
        v_next[i] := 0;
        v_gots[i] := 0;
        v_fair[i] := false;
        CONTINUE WHEN v_paused[i] OR v_alive IS DISTINCT FROM 1;
        v_types := ARRAY(SELECT y.t FROM unnest(t_want, t_type) y (w, t) WHERE y.w = i);
        SELECT array_agg(y.l) AS l, array_agg(y.f) AS f INTO x FROM unnest(l_want, l_lane, l_from) y (w, l, f) WHERE y.w = i;
        FOR r IN SELECT * FROM pawl_lanes(p_queue[i], x.l, x.f) LOOP
            IF NOT p_any[i] AND (r.lane & 4294967295) <> ALL (v_types) THEN
                v_text := v_text || 'V ' || i || ' ' || r.lane || E' -1\n';
                CONTINUE;
            END IF;
            w := w || i;
            l := l || r.lane;
            f := f || CASE WHEN r.from_us > v_now - v_slack THEN 0 ELSE greatest(r.from_us, 0) END; -- 0: the clock went back
        END LOOP;
    END LOOP;
    IF v_bounds > 0 AND v_alive = 1 THEN
        IF EXISTS (SELECT FROM pawl_freed) OR EXISTS (SELECT FROM pawl_round y WHERE y.queue_id = ANY (p_queue)) THEN
            x := pawl_claim_turns(v_now, p_node, p_queue, v_paused, p_free, p_prefetch, p_solo, p_any, t_want, t_type);
            v_alive := x.o_alive;
            v_lease_us := x.o_lease_us;
            v_fair := x.o_fair;
            v_more := x.o_more;
            v_next := x.o_next;
            v_gots := x.o_gots;
            v_solo := x.o_solo;
            v_touched := x.o_touched;
            v_held := x.o_held;
            v_hints := x.o_hints;
            g_id := x.o_ids;
            g_want := x.o_wants;
            g_at := x.o_at;
            v_lanes := x.o_lanes;
        END IF;
    END IF;
    -- Which lanes have something due, in the order of wants and priorities.
    FOR r IN
        SELECT y.w, array_agg(y.l ORDER BY y.l) FILTER (WHERE d.run_at_us IS NOT NULL) AS l,
            array_agg(d.run_at_us ORDER BY y.l) FILTER (WHERE d.run_at_us IS NOT NULL) AS f, min(n.run_at_us) AS next_us,
            string_agg('V ' || y.w || ' ' || y.l || ' ' || (v_now - v_slack) || E'\n', '') FILTER (WHERE d.run_at_us IS NULL) AS lanes
        FROM unnest(w, l, f) y (w, l, f)
        LEFT JOIN LATERAL (SELECT v.run_at_us FROM pawl_live v
                           WHERE v.state = 2 AND NOT v.blocked AND v.queue_id = p_queue[y.w] AND v.lane = y.l AND v.run_at_us >= y.f
                               AND v.run_at_us <= v_now
                           ORDER BY v.run_at_us LIMIT 1) d ON true
        LEFT JOIN LATERAL (SELECT v.run_at_us FROM pawl_live v
                           WHERE v.state = 2 AND NOT v.blocked AND v.queue_id = p_queue[y.w] AND v.lane = y.l AND v.run_at_us > v_now
                           ORDER BY v.run_at_us LIMIT 1) n ON true
        GROUP BY y.w, y.l >> 36 ORDER BY y.w, y.l >> 36
    LOOP
        IF r.next_us IS NOT NULL AND (v_next[r.w] = 0 OR r.next_us < v_next[r.w]) THEN v_next[r.w] := r.next_us; END IF;
        v_text := v_text || coalesce(r.lanes, '');
        CONTINUE WHEN r.l IS NULL;
        IF v_lease_us IS NULL THEN -- the first thing to grant
            SELECT n.alive, n.lease_us, (SELECT g.bounds FROM pawl_gate g) INTO v_alive, v_lease_us, v_bounds FROM pawl_node n WHERE n.id = p_node FOR SHARE;
            v_lease_us := coalesce(v_lease_us, 0);
            IF pawl_closed() THEN v_alive := NULL; END IF;
        END IF;
        CONTINUE WHEN v_alive IS DISTINCT FROM 1; -- it died this moment
        v_got := v_gots[r.w];
        v_room := p_free[r.w] + p_prefetch[r.w] - v_got;
        v_lasts := r.f;
        IF v_room <= 0 THEN
            v_more[r.w] := true;
        ELSE
            IF v_bounds > 0 THEN
                v_bounded := CASE WHEN EXISTS (
                        SELECT FROM pawl_bound b WHERE b.most > 0
                            AND b.name_id = ANY (ARRAY(SELECT (y & 4294967295)::int4 FROM unnest(r.l) y) || p_queue[r.w]))
                    THEN ARRAY(SELECT pawl_bounded(p_queue[r.w], (y.l & 4294967295)::int4) FROM unnest(r.l) WITH ORDINALITY y (l, i) ORDER BY y.i) END;
            END IF;
            IF true = ANY (v_bounded) THEN
                x := pawl_choose_bounded(v_now, p_queue[r.w], r.l, v_bounded, r.f, v_got, p_free[r.w], v_room, p_solo[r.w] AND NOT v_solo,
                                         v_now - v_slack, v_held);
                v_touched := v_touched || x.o_touched;
                v_held := x.o_held;
            ELSIF cardinality(r.l) = 1 AND (r.l[1] >> 32) & 15 = 0 THEN
                x := pawl_choose_one(v_now, p_queue[r.w], r.l[1], r.f[1], v_room, v_now - v_slack);
            ELSE
                x := pawl_choose(v_now, p_queue[r.w], r.l, r.f, v_got, p_free[r.w], v_room, p_solo[r.w] AND NOT v_solo);
            END IF;
            v_lasts := x.o_lasts;
            v_ids := x.o_ids;
            IF v_limits > 0 AND x.o_more AND (true = ANY (v_bounded)) IS NOT TRUE THEN
                v_ids := pawl_pass_flood(v_now, p_queue[r.w], r.l, r.f, x.o_ids, v_room);
                IF v_ids <> x.o_ids THEN v_lasts := r.f; END IF;
            END IF;
            v_more[r.w] := v_more[r.w] OR x.o_more;
            v_solo := v_solo OR x.o_solo;
            g_id := g_id || v_ids;
            g_want := g_want || array_fill(r.w, ARRAY[cardinality(v_ids)]);
            g_at := g_at || ARRAY(SELECT generate_series(v_got, v_got + cardinality(v_ids) - 1));
            v_gots[r.w] := v_got + cardinality(v_ids);
        END IF;
        FOR i IN 1..cardinality(r.l) LOOP
            v_text := v_text || 'V ' || r.w || ' ' || r.l[i] || ' ' || least(v_lasts[i], v_now - v_slack) || E'\n';
        END LOOP;
    END LOOP;
    IF cardinality(g_id) > 0 THEN
        RETURN QUERY
            WITH task AS (
                DELETE FROM pawl_live v USING unnest(g_id, g_want, g_at) y (id, want, at), pawl_body b
                WHERE v.id = ANY (ARRAY[y.id]) AND b.id = ANY (ARRAY[y.id])
                RETURNING y.want, y.at, v.id, v.run_at_us AS due_us, v.fence + 1 AS fence, v.class, v.strikes, v.level, v.runs, v.failures,
                    v.rescues, v.interruptions, v.priority, v.type_id, v.queue_id,
                    b.key IS NOT NULL AND y.at >= p_free[y.want] AS not_started, b.created_us, b.audit, b.tenant_id, b.max_attempts,
                    b.timeout_us, b.retry_of, b.key, b.content_type, b.created_by, b.traceparent, b.headers, b.rate_key, b.payload),
            lease AS (
                INSERT INTO pawl_leased (id, leased_us, node, queue_id, type_id, fence, priority, class, level, strikes, runs, failures,
                                         interruptions, rescues, not_started, mark, cancel_asked, run_at_us)
                SELECT y.id, v_now, p_node, y.queue_id, y.type_id, y.fence, y.priority, y.class, y.level, y.strikes, y.runs, y.failures,
                    y.interruptions, y.rescues, y.not_started, false, false, y.due_us FROM task y)
            SELECT y.want, y.id, y.fence, y.due_us, y.runs, y.failures, y.rescues, y.interruptions, y.class, y.not_started, y.type_id,
                y.queue_id, y.created_us, y.priority, y.audit, y.tenant_id, y.max_attempts, y.timeout_us, y.retry_of, y.key,
                y.content_type, y.created_by, y.traceparent, y.headers, y.rate_key, y.payload, NULL::text
            FROM task y ORDER BY y.want, y.at;
        GET DIAGNOSTICS v_got = ROW_COUNT;
        FOR i IN 1..v_count LOOP
            IF v_gots[i] > 0 THEN v_did := pawl_add(p_node, -1, p_queue[i], -v_gots[i], v_gots[i], 0); END IF;
        END LOOP;
        v_text := v_text || pawl_slots_told(g_id, l || v_lanes);
        IF v_got < cardinality(g_id) THEN
            PERFORM pawl_lose(v_now, p_node, g_id);
            PERFORM pawl_leave_ended(g_id);
            IF (SELECT g.families > 0 FROM pawl_gate g) THEN PERFORM pawl_families_ended(g_id); END IF;
        END IF;
        v_others := pawl_beat(p_node, -1, v_got, v_boot + v_lease_us, NULL) OR p_clock IS NOT NULL;
    ELSIF p_seen THEN -- behind a proxy: this shows that the node lives
        SELECT n.lease_us INTO v_lease_us FROM pawl_node n WHERE n.id = p_node AND n.alive = 1 FOR SHARE;
        IF FOUND THEN v_did := pawl_beat(p_node, -1, 0, v_boot + v_lease_us, NULL); END IF;
    END IF;
    IF cardinality(v_touched) > 0 THEN
        SELECT y.o_hints INTO x FROM pawl_offer(array_remove(v_touched, NULL), 2000) y;
        v_hints := v_hints || x.o_hints;
    END IF;
    IF v_schedules > 0 AND EXISTS (SELECT FROM pawl_ended) THEN v_did := pawl_settle_ended(v_now); END IF;
    IF v_hints <> '' THEN v_text := v_text || 'U ' || v_hints || E'\n'; END IF;
    v_did := pawl_check_until(p_until);
    v_text := v_text || 'N ' || v_now || E'\n' || pawl_news(v_now, v_boot, p_node, v_others);
    FOR i IN 1..v_count LOOP
        v_text := v_text || 'W ' || i || ' ' || v_paused[i]::int4 || ' ' || v_more[i]::int4 || ' ' || v_next[i] || ' ' || v_fair[i]::int4 || E'\n';
    END LOOP;
    want := 0;
    news := v_text;
    RETURN NEXT;
END $$;

-- Leases that were granted and cannot be used, back as if nothing had happened but that the fence has grown.
CREATE OR REPLACE FUNCTION pawl_unclaim(p_clock int8[], p_wait_ms int4, p_node int4, p_id int8[], p_fence int8[]) RETURNS void
LANGUAGE plpgsql SET search_path FROM CURRENT SET enable_seqscan = off SET enable_hashjoin = off SET enable_mergejoin = off
SET enable_bitmapscan = off SET enable_material = off SET enable_indexonlyscan = off AS $$
DECLARE
    r record;
BEGIN
    PERFORM pawl_begin(p_wait_ms);
    FOR r IN
        WITH x AS (
            DELETE FROM pawl_leased l USING unnest(p_id, p_fence) u (id, fence) WHERE l.id = ANY (ARRAY[u.id]) AND l.fence = u.fence AND l.node = p_node
            RETURNING l.*),
        live AS (
            INSERT INTO pawl_live (id, run_at_us, queue_id, type_id, fence, priority, class, state, level, runs, failures, interruptions,
                                   rescues, strikes, blocked)
            SELECT id, coalesce(run_at_us, leased_us), queue_id, type_id, fence, priority, class, 2, level, runs, failures, interruptions,
                rescues, strikes, false FROM x)
        SELECT queue_id, count(*) AS n FROM x GROUP BY queue_id
    LOOP
        PERFORM pawl_add(p_node, -1, r.queue_id, r.n, -r.n, 0);
        PERFORM pawl_take(p_node, -r.n, p_node, -1);
    END LOOP;
    IF (SELECT bounds FROM pawl_gate) > 0 THEN PERFORM pawl_settle(0, p_id, '{}', NULL); END IF;
END $$;

-- How many tasks of a queue are due, counted up to a limit, and since when the oldest is.
CREATE OR REPLACE FUNCTION pawl_due_of(p_now int8, p_queue int4, p_limit int4, OUT due int8, OUT oldest_us int8)
LANGUAGE plpgsql STABLE SET search_path FROM CURRENT AS $$
DECLARE
    r record;
    x record;
BEGIN
    due := 0;
    FOR r IN SELECT * FROM pawl_lanes(p_queue, NULL, NULL) LOOP
        SELECT count(*) AS n, min(s.run_at_us) AS oldest_us INTO x FROM (
            SELECT v.run_at_us FROM pawl_live v
            WHERE v.state = 2 AND NOT v.blocked AND v.queue_id = p_queue AND v.lane = r.lane AND v.run_at_us <= p_now
            ORDER BY v.run_at_us LIMIT greatest(p_limit - due, 1)) s;
        oldest_us := least(oldest_us, x.oldest_us);
        due := least(due + x.n, p_limit);
    END LOOP;
    SELECT count(*) AS n, min(s.run_at_us) AS oldest_us INTO x FROM ( -- where tenants take turns
        SELECT h.run_at_us FROM pawl_shared h WHERE h.queue_id = p_queue AND h.run_at_us <= p_now ORDER BY h.run_at_us
        LIMIT greatest(p_limit - due, 1)) s;
    oldest_us := least(oldest_us, x.oldest_us);
    due := least(due + x.n, p_limit);
END $$;
