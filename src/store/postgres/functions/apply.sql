-- Batches: one call, one commit.
--
-- pawl_apply carries out the operations of a batch, each kind with one statement over arrays, and keeps the answers in the lane's receipt.
-- Most operations end as asked; the answers name only those that did not (or that have more to tell), one line each:
--
--     <operation> <result> <id> <fence, or of what found its queue full how many tasks must leave first> <run_at_us> <state>
--
-- and, of a slot that a lease came with or that was asked for (see limits.sql),
--
--     S <operation> <until_us> <epoch>
--
-- Locks are taken in the order life row, receipt, limits, budgets by id, spots by id, schedules by id, keys, tasks by id, counters. Whoever
-- calls retries deadlocks.
--
-- p_clock is the server's clock when NULL; tests pass {wall, boot}.

-- What every call that writes begins with: an answer must be durable, nobody waits for ever (p_wait_ms NULL: the session has its limit), and
-- what the rules of leases rest on is what was committed last.
CREATE OR REPLACE FUNCTION pawl_begin(p_wait_ms int4) RETURNS bool LANGUAGE plpgsql AS $$
BEGIN
    IF current_setting('synchronous_commit') = 'off' THEN PERFORM set_config('synchronous_commit', 'on', true); END IF;
    IF p_wait_ms IS NOT NULL THEN PERFORM set_config('lock_timeout', p_wait_ms::text, true); END IF;
    IF current_setting('transaction_isolation') <> 'read committed' THEN
        RAISE EXCEPTION 'transactions are % here, and pawl needs read committed', current_setting('transaction_isolation')
            USING ERRCODE = 'PW003';
    END IF;
    RETURN true;
END $$;

-- The receipt of a lane, locked (o_row): 0 the batch is new, 1 it was applied before, 2 it does not follow the one before.
CREATE OR REPLACE FUNCTION pawl_receipt(p_node int4, p_lane int8, p_number int8, p_alive int2, OUT o_verdict int4, OUT o_now int8,
                             OUT o_results text, OUT o_row tid) LANGUAGE plpgsql AS $$
DECLARE
    v_number int8;
BEGIN
    SELECT number, now_us, results, ctid INTO v_number, o_now, o_results, o_row
    FROM pawl_lane WHERE node = p_node AND lane = p_lane ORDER BY node, lane, turn LIMIT 1 FOR UPDATE;
    IF NOT FOUND THEN
        o_row := pawl_lane_row(p_node, p_lane);
        SELECT number, now_us, results INTO v_number, o_now, o_results FROM pawl_lane WHERE ctid = o_row;
    END IF;
    IF v_number = p_number AND p_number > 0 THEN
        o_verdict := 1;
    ELSIF v_number = p_number - 1 OR (v_number = 0 AND coalesce(p_alive, -1) = -1) THEN -- a node that was swept may come with any number
        o_verdict := 0;
    ELSE
        o_verdict := 2;
    END IF;
END $$;

-- A batch: i_ INSERT, e_ FINISH and RELEASE, s_ START, g_ PROGRESS, o_ what people ask, q_ RESERVE and what else there is to say of
-- slots (q_kind 3 a FINISH of what never ran, 4 a RELEASE with a slot), m_ LIMIT (m_rate: six numbers each, the last how many tasks to
-- move), b_ BOUND (b_what: four numbers each, scope, most, ordered, how many tasks to move), c_ SCHEDULE and STEP (see
-- pawl_schedules_apply), f_ families of the INSERTs (f_n: how many numbers of f_kin, see pawl_judge), k_ BATCH and SETTLE (see
-- pawl_batches_apply). p_ask: one of them asks for a lease. p_simple: 1 the e_ are what pawl_finish takes, 2 the i_ are what pawl_put_simple takes,
-- 4 the commit says NOTIFY. p_dry: only to see whether it works; ends in the error PW001.
CREATE OR REPLACE FUNCTION pawl_apply(
    p_clock int8[], p_wait_ms int4, p_node int4, p_lane int8, p_number int8, p_ask bool, p_simple int4, p_dry bool,
    i_op int4[], i_id int8[], i_type int4[], i_queue int4[], i_priority int2[], i_level int2[], i_audit int2[], i_when int8[],
    i_ask bool[], i_tenant int4[], i_max int4[], i_timeout int8[], i_retry_of int8[], i_key text[], i_content_type text[],
    i_created_by text[], i_traceparent text[], i_headers text[], i_rate_key bytea[], i_payload bytea[], i_slow bool[],
    i_may_exist bool[], i_depth int8[], i_member int4[], i_parent int4[],
    e_op int4[], e_id int8[], e_fence int8[], e_to int2[], e_outcome int2[], e_started int8[], e_ended int8[], e_level int2[],
    e_lines int4[], e_progress int2[], e_progress_text text[], e_code text[], e_error text[], e_log text[], e_reason text[],
    e_result_type text[], e_result_ref text[], e_result bytea[], e_delay int8[], e_failure bool[], e_interruption bool[],
    s_op int4[], s_id int8[], s_fence int8[], s_mark bool[],
    g_op int4[], g_id int8[], g_fence int8[], g_percent int2[], g_text text[],
    o_op int4[], o_kind int2[], o_id int8[], o_by text[], o_level int2[], o_new int8[], o_note text[], o_queue int4[], o_pause bool[],
    q_op int4[], q_kind int2[], q_id int8[], q_fence int8[], q_key bytea[], q_near int8[], q_again bool[], q_epoch int8[], q_level int2[],
    m_op int4[], m_type int4[], m_key bytea[], m_rate int8[], m_by text[],
    b_op int4[], b_name int4[], b_key bytea[], b_what int4[], b_by text[],
    c_num int8[], c_text text[], c_payload bytea[],
    f_n int4[], f_kin int8[], k_num int8[], k_text text[],
    OUT verdict int4, OUT now_us int8, OUT dead bool, OUT results text, OUT hints text, OUT unblocked bool, OUT schedules bool, OUT freed bool,
    OUT unsettled bool)
LANGUAGE plpgsql
SET search_path FROM CURRENT SET plan_cache_mode = force_generic_plan SET enable_seqscan = off SET enable_hashjoin = off
SET enable_mergejoin = off SET enable_bitmapscan = off SET enable_material = off SET enable_indexonlyscan = off SET jit = off AS $$
DECLARE
    v_did bool;
    v_row tid;
    v_alive int2;
    v_lease_us int8;
    v_boot int8;
    v_leases int8 := 0;
    v_granted int8 := 0;
    v_news pawl_new[];
    v_full int4[];
    v_missing int8[];
    v_undone int4[];
    v_done bool := false;
    v_closed bool;
    v_budgets int8[];
    v_asks int8[];
    v_bounds int8;
    v_bounded bool; -- bounds concern this batch
    v_seen int8;
    v_spots int8[];
    v_new int8[];
    v_schedules int8;
    v_ends int8[];
    v_held int8[];
    v_left bool;
    v_families int8;
    v_noted bool := false;
    v_settle int4 := 0;
    v_waits bool[];
    f_at int4[];
    f_member int8[];
    f_id int8[];
    f_state int2[];
    f_closed bool[];
    d_id int8[];
    d_result int4[];
    r record;
BEGIN
    IF p_wait_ms IS DISTINCT FROM -1 THEN v_did := pawl_begin(p_wait_ms); END IF; -- -1: a transaction of the caller's own
    results := '';
    hints := '';
    verdict := 0;
    unblocked := false;
    schedules := false;
    freed := false;
    unsettled := false;
    IF b_op IS NOT NULL AND pawl_bounds_stand(b_name, b_key, b_what) THEN
        results := (SELECT string_agg(pawl_answer(u.op, 2, 0, 0, 0, 0), '') FROM unnest(b_op) u (op));
        b_op := NULL;
    ELSIF b_op IS NOT NULL THEN -- bounds change while nobody has spots: see places.sql
        LOCK TABLE pawl_node IN EXCLUSIVE MODE;
    END IF;
    IF p_node = 0 THEN
        p_lane := nextval('pawl_slot');
        IF p_wait_ms IS DISTINCT FROM -1 THEN
            LOCK TABLE pawl_node IN ROW SHARE MODE;
            SELECT g.bounds, g.schedules INTO v_bounds, v_schedules FROM pawl_gate g;
        END IF;
    ELSE
        IF p_ask THEN
            SELECT n.alive, n.lease_us, g.bounds, g.schedules INTO v_alive, v_lease_us, v_bounds, v_schedules
            FROM pawl_node n, pawl_gate g WHERE n.id = p_node FOR SHARE OF n;
        ELSE
            SELECT n.alive, n.lease_us, g.bounds, g.schedules INTO v_alive, v_lease_us, v_bounds, v_schedules
            FROM pawl_node n, pawl_gate g WHERE n.id = p_node;
        END IF;
        IF v_bounds IS DISTINCT FROM 0 AND NOT p_ask THEN LOCK TABLE pawl_node IN ROW SHARE MODE; END IF;
        IF v_bounds IS NULL THEN SELECT g.bounds, g.schedules INTO v_bounds, v_schedules FROM pawl_gate g; END IF;
        v_alive := coalesce(v_alive, -1); -- it was swept
        dead := v_alive <> 1;
        r := pawl_receipt(p_node, p_lane, p_number, v_alive);
        verdict := r.o_verdict;
        IF verdict <> 0 THEN
            now_us := r.o_now;
            results := r.o_results;
            RETURN;
        END IF;
        v_row := r.o_row;
    END IF;
    IF p_wait_ms = -1 THEN
        IF i_rate_key IS NOT NULL OR i_key IS NOT NULL THEN v_budgets := array_fill(0::int8, ARRAY[cardinality(i_op)]); END IF;
    ELSE
        FOR i IN 1..coalesce(cardinality(m_op), 0) LOOP
            results := results || pawl_limit_put(coalesce(p_clock[1], pawl_now()), m_op[i], m_type[i], m_key[i], m_rate[6 * i - 5:6 * i], m_by[i]);
        END LOOP;
        IF (i_rate_key IS NOT NULL OR i_key IS NOT NULL OR q_op IS NOT NULL OR o_op IS NOT NULL) AND (SELECT limits > 0 FROM pawl_gate) THEN
            SELECT x.o_inserts, x.o_asks INTO v_budgets, v_asks
            FROM pawl_hold_budgets(coalesce(p_clock[1], pawl_now()), i_type, i_rate_key, i_when, i_ask, i_key, i_tenant, q_kind, q_id, q_key, o_kind, o_id) x;
        END IF;
        FOR i IN 1..coalesce(cardinality(b_op), 0) LOOP
            IF pawl_closed() THEN
                results := results || pawl_answer(b_op[i], 13, 0, 0, 0, 0);
                CONTINUE;
            END IF;
            r := pawl_bound_put(coalesce(p_clock[1], pawl_now()), b_what[4 * i - 3]::int2, b_name[i], b_key[i], b_what[4 * i - 2], b_what[4 * i - 1] <> 0,
                                b_what[4 * i], b_by[i]);
            results := results || pawl_answer(b_op[i], r.o_result, 0, 0, 0, 0) || CASE WHEN r.o_more THEN 'M ' || b_op[i] || E'\n' ELSE '' END;
            hints := hints || r.o_hints;
            unblocked := unblocked OR r.o_count > 0;
            v_bounds := (SELECT bounds FROM pawl_gate);
        END LOOP;
        IF v_bounds > 0 THEN
            v_bounded := b_op IS NOT NULL OR o_op IS NOT NULL OR c_num IS NOT NULL OR i_key IS NOT NULL OR pawl_concerned(e_id || q_id, i_queue, i_type);
            IF v_bounded THEN
                v_spots := pawl_hold_places(coalesce(p_clock[1], pawl_now()), e_id || q_id, o_kind, o_id, i_queue, i_type, i_rate_key, i_when, i_key, i_tenant);
            END IF;
        END IF;
        IF v_schedules > 0 OR c_num IS NOT NULL THEN
            v_ends := e_id || CASE WHEN 6 = ANY (o_kind) THEN o_id END;
            r := pawl_schedules_hold(p_node, c_num, c_text, v_ends);
            v_ends := v_ends || r.o_ended;
            v_held := r.o_held;
            v_left := NOT r.o_all;
        END IF;
    END IF;
    now_us := coalesce(p_clock[1], pawl_now()); -- once all that counts by it is locked
    v_boot := coalesce(p_clock[2], now_us);
    v_closed := (i_op IS NOT NULL OR o_op IS NOT NULL OR c_num IS NOT NULL OR k_num IS NOT NULL) AND pawl_closed();
    IF v_closed THEN -- only what ends here may still leave spawns: result 13 for the rest
        p_simple := p_simple & 5;
        IF i_op IS NOT NULL THEN i_slow := array_fill(true, ARRAY[cardinality(i_op)]); END IF;
        results := results || coalesce((SELECT string_agg(pawl_answer(u.op, 13, 0, 0, 0, 0), '') FROM unnest(o_op) u (op)), '')
            || coalesce((SELECT string_agg(pawl_answer(u.op, 13, 0, 0, 0, 0), '') FROM unnest(i_op, i_parent) u (op, parent)
                         WHERE u.parent IS NULL), '');
        o_op := NULL;
    END IF;
    IF k_num IS NOT NULL THEN
        r := pawl_batches_apply(now_us, v_closed, k_num, k_text);
        results := results || r.o_results;
        d_id := r.d_id;
        d_result := r.d_result;
        v_settle := r.o_settle;
        v_noted := r.o_noted;
    END IF;
    IF f_kin IS NOT NULL THEN
        r := pawl_judge_all(p_wait_ms IS DISTINCT FROM -1, f_n, f_kin, d_id, d_result, i_op, i_id, i_key, i_parent, e_op, e_id, i_slow, i_ask, v_budgets);
        f_kin := r.p_kin;
        f_at := r.o_at;
        f_member := r.o_member;
        f_id := r.k_id;
        f_state := r.k_state;
        f_closed := r.k_closed;
        d_id := r.d_id;
        d_result := r.d_result;
        i_slow := r.p_slow;
        i_ask := r.p_ask;
        v_budgets := r.p_budget;
        v_waits := r.o_waits;
        FOR i IN 1..cardinality(r.o_refused) LOOP
            e_to[array_position(e_op, r.o_refused[i])] := -1;
        END LOOP;
    END IF;
    IF v_bounded AND i_ask IS NOT NULL AND NOT v_closed THEN
        r := pawl_never_born_leased(now_us, i_op, i_id, i_type, i_queue, i_when, i_ask);
        results := results || r.o_results;
        i_ask := r.p_ask;
        IF r.o_results <> '' THEN p_simple := p_simple & 5; END IF;
    END IF;
    IF v_budgets IS NOT NULL AND p_wait_ms IS DISTINCT FROM -1 AND NOT v_closed THEN
        r := pawl_slot_inserts(now_us, p_ask AND v_alive = 1, v_budgets, i_op, i_id, i_queue, i_key, i_when, i_ask, i_slow);
        results := results || r.o_results;
        i_when := r.p_when;
        i_ask := r.p_ask;
        i_slow := r.p_slow;
    END IF;
    IF i_slow IS NOT NULL OR i_key IS NOT NULL THEN
        v_news := ARRAY(
            SELECT (u.op, u.id, u.type, u.queue, u.priority, u.level, u.audit, u.w, u.ask, u.tenant, u.max, u.timeout, u.retry_of, u.key,
                    u.content_type, u.created_by, u.traceparent, u.headers, u.rate_key, u.payload, u.may_exist, u.depth, u.member,
                    u.parent, u.budget, u.kin_at, u.kin_n, u.spawner_batch, NULL, NULL, NULL)::pawl_new
            FROM unnest(i_op, i_id, i_type, i_queue, i_priority, i_level, i_audit, i_when, i_ask, i_tenant, i_max, i_timeout, i_retry_of,
                        i_key, i_content_type, i_created_by, i_traceparent, i_headers, i_rate_key, i_payload, i_may_exist, i_depth,
                        i_member, i_parent, i_slow, v_budgets, f_at, f_n, f_member)
                u (op, id, type, queue, priority, level, audit, w, ask, tenant, max, timeout, retry_of, key, content_type, created_by,
                   traceparent, headers, rate_key, payload, may_exist, depth, member, parent, slow, budget, kin_at, kin_n, spawner_batch)
            WHERE (u.slow OR u.key IS NOT NULL) AND (NOT v_closed OR u.parent IS NOT NULL) ORDER BY u.op);
        IF i_depth IS NOT NULL AND NOT v_closed THEN SELECT x.o_ops, x.o_missing INTO v_full, v_missing FROM pawl_full(v_news) x; END IF;
    END IF;
    IF p_simple & 1 <> 0 THEN
        r := pawl_finish(now_us, p_node, p_lane, e_op, e_id, e_fence, e_to, e_outcome, e_started, e_ended, e_level);
    ELSIF e_op IS NOT NULL THEN
        r := pawl_end(now_us, p_node, p_lane, e_op, e_id, e_fence, e_to, e_outcome, e_started, e_ended, e_level, e_lines,
            e_progress, e_progress_text, e_code, e_error, e_log, e_reason, e_result_type, e_result_ref, e_result, e_delay, e_failure,
            e_interruption);
    END IF;
    IF e_op IS NOT NULL THEN
        results := results || r.o_results;
        hints := hints || r.o_hints;
        v_leases := v_leases + r.o_leases;
        IF i_parent IS NOT NULL THEN v_undone := pawl_undone(r.o_results); END IF;
    END IF;
    IF q_op IS NOT NULL THEN
        IF 3 = ANY (q_kind) OR 4 = ANY (q_kind) THEN v_did := pawl_slot_ends(now_us, q_kind, q_id, q_fence, q_key, q_epoch); END IF;
        IF 10 = ANY (q_kind) THEN
            r := pawl_reserve(now_us, p_node, p_lane, v_asks, q_op, q_kind, q_id, q_fence, q_near, q_again, q_level);
            results := results || r.o_results;
            hints := hints || r.o_hints;
            v_leases := v_leases + r.o_leases;
        END IF;
    END IF;
    IF s_op IS NOT NULL THEN results := results || pawl_mark(now_us, s_op, s_id, s_fence, s_mark); END IF;
    IF g_op IS NOT NULL THEN results := results || pawl_progress(g_op, g_id, g_fence, g_percent, g_text); END IF;
    IF o_op IS NOT NULL AND i_op IS NOT NULL THEN
        PERFORM pawl_operate(now_us, p_node, p_lane, i_op[1], true, o_op, o_kind, o_id, o_by, o_level, o_new, o_note, o_queue, o_pause);
    END IF;
    IF c_num IS NOT NULL THEN
        r := pawl_schedules_apply(now_us, p_node, p_lane, v_closed, v_ends, v_held, c_num, c_text, c_payload, v_news);
        results := results || r.o_results;
        hints := hints || r.o_hints;
        schedules := r.o_stirred;
        v_news := r.o_news;
        v_new := v_new || pawl_named(r.o_results);
    END IF;
    IF p_simple & 2 <> 0 THEN
        r := pawl_put_simple(now_us, p_node, p_lane, p_ask AND v_alive = 1, i_id, i_type, i_queue, i_priority, i_level, i_audit, i_ask,
                             i_content_type[1], i_payload);
        v_done := r.o_done;
        IF v_done THEN
            hints := hints || r.o_hints;
            v_granted := r.o_leases;
        END IF;
    END IF;
    IF i_op IS NOT NULL AND NOT v_done THEN
        r := pawl_put(now_us, p_node, p_lane, p_ask AND v_alive = 1, i_op, i_id, i_type, i_queue, i_priority, i_level,
            i_audit, i_when, i_ask, i_tenant, i_max, i_timeout, i_retry_of, i_key, i_content_type, i_created_by, i_traceparent, i_headers,
            i_rate_key, i_payload, i_slow, v_news, v_undone, v_full, v_missing, v_waits, f_at, f_n, f_kin, f_id, f_state, f_closed, d_id, d_result,
            coalesce(p_wait_ms = -1, false));
        v_noted := v_noted OR r.o_noted;
        results := results || r.o_results;
        hints := hints || r.o_hints;
        v_granted := r.o_leases;
        IF i_slow IS NOT NULL OR i_key IS NOT NULL THEN v_new := v_new || pawl_named(r.o_results); END IF;
    END IF;
    IF o_op IS NOT NULL THEN
        SELECT * INTO r FROM pawl_operate(now_us, p_node, p_lane, coalesce(i_op[1], 0), false, o_op, o_kind, o_id, o_by, o_level, o_new,
            o_note, o_queue, o_pause);
        results := results || r.o_results;
        hints := hints || r.o_hints;
        v_new := v_new || pawl_named(r.o_results);
    END IF;
    IF p_wait_ms = -1 THEN
        v_bounds := (SELECT bounds FROM pawl_gate); -- after what has ended
        v_bounded := v_bounds > 0;
    END IF;
    IF v_bounded THEN
        IF i_slow IS NOT NULL THEN
            v_new := v_new || ARRAY(SELECT u.id FROM unnest(i_id, i_slow) u (id, slow) WHERE u.slow IS NOT TRUE);
        ELSE
            v_new := v_new || i_id;
        END IF;
        r := pawl_settle(now_us, coalesce(e_id, '{}') || q_id, coalesce(v_new, '{}'), v_spots);
        hints := hints || r.o_hints;
        unblocked := unblocked OR r.o_count > 0;
    ELSIF v_bounds > 0 AND (q_op IS NOT NULL OR 2 = ANY (e_to)) THEN
        v_did := pawl_share(e_id || q_id); -- what goes back
    END IF;
    IF p_wait_ms = -1 AND e_id IS NOT NULL AND (SELECT g.schedules > 0 FROM pawl_gate g) THEN
        IF pawl_leave_ended(e_id) THEN hints := '*'; END IF;
    ELSIF cardinality(v_ends) > 0 THEN
        IF pawl_schedules_ended(now_us, v_ends, v_held) THEN schedules := true; END IF;
        IF v_left THEN v_did := pawl_leave_ended(v_ends); END IF;
    END IF;
    FOR i IN 1..coalesce(cardinality(m_op), 0) LOOP
        IF m_rate[6 * i] > 0 AND pawl_limit_move(now_us, m_type[i], m_key[i], m_rate[6 * i]) THEN results := results || 'M ' || m_op[i] || E'\n'; END IF;
    END LOOP;
    IF p_node <> 0 THEN
        UPDATE pawl_lane l SET number = p_number, now_us = pawl_apply.now_us, results = nullif(pawl_apply.results, ''),
            leases = l.leases + v_leases + v_granted, renewal = l.renewal + (v_granted > 0)::int4,
            expires_us = CASE WHEN v_granted > 0 THEN v_boot + v_lease_us ELSE l.expires_us END, turn = pawl_turn()
        FROM pawl_gate g WHERE l.ctid = v_row RETURNING g.bounds, g.families INTO v_seen, v_families; -- it is locked, so it stays where it is
        IF v_seen > 0 AND v_bounds = 0 THEN
            RAISE EXCEPTION 'limits were put meanwhile' USING ERRCODE = 'serialization_failure';
        END IF;
    ELSE
        v_families := (SELECT g.families FROM pawl_gate g);
    END IF;
    IF v_families > 0 THEN -- after all that ends: who came as a child before that is seen now
        IF e_id IS NOT NULL OR 6 = ANY (o_kind) THEN
            v_undone := pawl_undone(results);
            v_noted := pawl_families_ended(ARRAY(SELECT u.id FROM unnest(e_op, e_id) u (op, id) WHERE u.op <> ALL (v_undone)
                UNION ALL SELECT u.id FROM unnest(o_op, o_id, o_kind) u (op, id, kind) WHERE u.kind = 6 AND u.op <> ALL (v_undone))) OR v_noted;
        END IF;
        v_noted := v_noted OR 7 = ANY (o_kind);
        IF p_wait_ms = -1 THEN
            IF v_noted THEN hints := '*'; END IF;
        ELSIF v_noted OR v_settle > 0 THEN
            r := pawl_tell(now_us, p_node, p_lane, greatest(v_settle, CASE WHEN v_noted THEN 500 ELSE 0 END));
            freed := r.o_freed;
            unsettled := r.o_left;
            hints := hints || r.o_hints;
            IF v_settle > 0 THEN results := results || 'T ' || r.o_told || E'\n'; END IF;
        END IF;
    END IF;
    IF p_simple & 4 <> 0 AND hints <> '' THEN
        PERFORM pg_notify('pawl.' || current_schema(), CASE WHEN length(hints) < 4000 THEN hints ELSE '*' END);
    END IF;
    IF p_dry THEN RAISE EXCEPTION 'it works' USING ERRCODE = 'PW001'; END IF;
END $$;

-- Whether a batch may write at spots: there are bounds of the types or queues of the tasks that it inserts, or a task that may end here (p_ends,
-- which batches have in their order) has places. Whoever asks has pawl_node locked, so no bound comes, and no lease gets places any more.
CREATE OR REPLACE FUNCTION pawl_concerned(p_ends int8[], p_queue int4[], p_type int4[]) RETURNS bool LANGUAGE plpgsql STABLE AS $$
BEGIN
    IF p_type IS NOT NULL THEN
        IF EXISTS (SELECT FROM pawl_bound b WHERE b.name_id = ANY (p_queue || p_type) AND b.most > 0) THEN RETURN true; END IF;
    END IF;
    IF p_ends IS NULL THEN RETURN false; END IF;
    -- Who has places between the first and the last of them is one look; each of them would be one of its own.
    RETURN p_ends[1] > ANY (p_ends) OR p_ends[cardinality(p_ends)] < ANY (p_ends) OR (
        SELECT count(*) > 32 OR coalesce(bool_or(n.task_id = ANY (p_ends)), false)
        FROM (SELECT p.task_id FROM pawl_place p WHERE p.task_id >= p_ends[1] AND p.task_id <= p_ends[cardinality(p_ends)]
              ORDER BY p.task_id LIMIT 33) n);
END $$;
