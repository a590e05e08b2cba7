-- What people ask: CANCEL, RETRY, ACK, QUEUE.

-- The end of a task that is not under way. Its row in pawl_live or pawl_leased is gone already.
CREATE OR REPLACE FUNCTION pawl_end_row(p_now int8, p_node int4, p_lane int8, p_state int2, p_level int2, p_derived bool, p_reason text,
                             p_leased pawl_leased, p_live pawl_live) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
    d pawl_failed;
BEGIN
    IF p_leased.id IS NOT NULL THEN
        SELECT p_leased.id, coalesce(p_leased.started_us, p_leased.leased_us), p_leased.node, p_leased.fence, p_leased.runs,
            p_leased.failures, p_leased.interruptions, p_leased.rescues, p_leased.progress, p_leased.progress_text,
            CASE WHEN p_leased.run_at_us IS NOT NULL THEN p_leased.leased_us END, p_leased.run_at_us
        INTO d.id, d.started_us, d.node, d.fence, d.runs, d.failures, d.interruptions, d.rescues, d.progress, d.progress_text,
            d.leased_us, d.run_at_us;
    ELSE
        SELECT p_live.id, 0, p_live.fence, p_live.runs, p_live.failures, p_live.interruptions, p_live.rescues, p_live.run_at_us
        INTO d.id, d.node, d.fence, d.runs, d.failures, d.interruptions, d.rescues, d.run_at_us;
    END IF;
    d.flags := p_derived::int4 + coalesce(p_leased.cancel_asked, false)::int4 * 2;
    IF p_state = 5 THEN
        INSERT INTO pawl_failed (id, finished_us, started_us, node, fence, runs, failures, interruptions, rescues, state, outcome, level,
                                 flags, leased_us, run_at_us, progress, progress_text, reason)
        VALUES (d.id, p_now, d.started_us, d.node, d.fence, d.runs, d.failures, d.interruptions, d.rescues, 5, 0, p_level, d.flags,
                d.leased_us, d.run_at_us, d.progress, d.progress_text, p_reason);
    ELSE
        INSERT INTO pawl_done (id, finished_us, started_us, node, fence, runs, failures, interruptions, rescues, state, outcome, level,
                               flags, leased_us, run_at_us, progress, progress_text, reason)
        VALUES (d.id, p_now, d.started_us, d.node, d.fence, d.runs, d.failures, d.interruptions, d.rescues, p_state, 0, p_level, d.flags,
                d.leased_us, d.run_at_us, d.progress, d.progress_text, p_reason);
    END IF;
    IF p_live.state = 1 THEN
        PERFORM pawl_add_waiting(p_node, p_lane, p_live.queue_id, -1);
    ELSE
        PERFORM pawl_add(p_node, p_lane, coalesce(p_leased.queue_id, p_live.queue_id), CASE WHEN p_leased.id IS NULL THEN -1 ELSE 0 END,
                         CASE WHEN p_leased.id IS NULL THEN 0 ELSE -1 END, CASE WHEN p_state = 5 THEN 1 ELSE 0 END);
    END IF;
    PERFORM pawl_roll(p_now, p_node, p_lane, coalesce(p_leased.queue_id, p_live.queue_id), coalesce(p_leased.type_id, p_live.type_id),
                      CASE WHEN p_state = 5 THEN 3 ELSE 4 END::int2, 1, NULL, NULL);
END $$;

CREATE OR REPLACE FUNCTION pawl_log_operator(p_now int8, p_by text, p_action text, p_id int8, p_detail text) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    IF p_by IS NULL THEN RETURN; END IF;
    INSERT INTO pawl_oplog (at_us, who, action, task_id, detail) VALUES (p_now, p_by, p_action, p_id, p_detail);
END $$;

CREATE OR REPLACE FUNCTION pawl_cancel(p_now int8, p_node int4, p_lane int8, p_op int4, p_id int8, p_by text, p_level int2) RETURNS text
LANGUAGE plpgsql AS $$
DECLARE
    h record;
    v_leased pawl_leased;
    v_state int2;
    v_result int4 := 1;
BEGIN
    SELECT * INTO h FROM pawl_hold(p_id);
    v_leased := h.o_leased;
    IF (h.o_live).id IS NOT NULL THEN
        v_state := (h.o_live).state;
        PERFORM pawl_withdraw(p_id);
        PERFORM pawl_give_back(p_now, p_id, (h.o_live).type_id, (h.o_live).run_at_us);
        DELETE FROM pawl_live WHERE id = p_id;
        IF v_state = 1 THEN
            DELETE FROM pawl_wait WHERE child_id = p_id;
            IF pawl_wanted(p_level, 0) THEN PERFORM pawl_trail(p_id, p_now, 1::int2, 6::int2, (h.o_live).fence, 0, NULL); END IF;
        END IF;
        PERFORM pawl_end_row(p_now, p_node, p_lane, 6::int2, p_level, v_state <> 1, NULL, NULL, h.o_live);
    ELSIF v_leased.not_started THEN
        v_state := 3;
        PERFORM pawl_withdraw(p_id);
        PERFORM pawl_give_back(p_now, p_id, v_leased.type_id, 0);
        v_leased := pawl_take_back(p_node, p_lane, v_leased);
        IF pawl_wanted(p_level, 0) THEN PERFORM pawl_trail(p_id, p_now, 3::int2, 6::int2, v_leased.fence, v_leased.node, NULL); END IF;
        v_leased.progress := NULL;
        v_leased.progress_text := NULL;
        PERFORM pawl_end_row(p_now, p_node, p_lane, 6::int2, p_level, false, NULL, v_leased, NULL);
    ELSIF v_leased.id IS NOT NULL THEN
        v_state := 3;
        v_result := 5;
        UPDATE pawl_leased SET cancel_asked = true WHERE id = p_id AND NOT cancel_asked;
    ELSE
        SELECT o_state INTO v_state FROM pawl_find(p_id);
        RETURN pawl_answer(p_op, CASE WHEN v_state = 0 THEN 8 ELSE 9 END, 0, 0, 0, v_state);
    END IF;
    PERFORM pawl_log_operator(p_now, p_by, 'cancel', p_id, NULL);
    RETURN pawl_answer(p_op, v_result, 0, 0, 0, v_state);
END $$;

-- A finished task, locked: of pawl_failed, or of pawl_done; state 0: it is not finished.
CREATE OR REPLACE FUNCTION pawl_hold_ended(p_id int8, OUT o_state int2, OUT o_retried_as int8, OUT o_resolved bool, OUT o_reason text)
LANGUAGE plpgsql AS $$
BEGIN
    SELECT state, retried_as, resolved_us IS NOT NULL, reason INTO o_state, o_retried_as, o_resolved, o_reason
    FROM pawl_failed WHERE id = p_id FOR UPDATE;
    IF FOUND THEN RETURN; END IF;
    SELECT state, retried_as, false, reason INTO o_state, o_retried_as, o_resolved, o_reason FROM pawl_done WHERE id = p_id FOR UPDATE;
    o_state := coalesce(o_state, 0);
END $$;

CREATE OR REPLACE FUNCTION pawl_retry(p_now int8, p_node int4, p_lane int8, p_op int4, p_id int8, p_by text, p_level int2, p_new int8,
                           OUT o_answer text, OUT o_hint text) LANGUAGE plpgsql AS $$
DECLARE
    e record;
    b pawl_body;
    u pawl_new;
    a record;
    h record;
    v_holder int8;
BEGIN
    o_hint := '';
    SELECT * INTO e FROM pawl_hold_ended(p_id);
    IF e.o_state = 0 THEN
        SELECT f.o_state INTO h FROM pawl_find(p_id) f;
        o_answer := pawl_answer(p_op, CASE WHEN h.o_state = 0 THEN 8 ELSE 9 END, 0, 0, 0, h.o_state);
        RETURN;
    END IF;
    IF e.o_retried_as IS NOT NULL THEN
        o_answer := pawl_answer(p_op, 2, e.o_retried_as, 0, 0, e.o_state);
        RETURN;
    END IF;
    SELECT * INTO b FROM pawl_body WHERE id = p_id;
    o_answer := pawl_answer(p_op, 9, 0, 0, 0, e.o_state);
    IF e.o_state = 4 OR NOT FOUND OR e.o_reason = 'unreadable' THEN RETURN; END IF;
    IF b.key IS NOT NULL THEN
        SELECT task_id INTO v_holder FROM pawl_key WHERE key = b.key AND tenant_id = coalesce(b.tenant_id, 0) AND old = 0 FOR UPDATE;
        SELECT * INTO h FROM pawl_find(v_holder);
        IF h.o_state IN (1, 2, 3) THEN
            o_answer := pawl_answer(p_op, 2, v_holder, 0, 0, h.o_state);
            RETURN;
        END IF;
    END IF;
    SELECT p_op, p_new, b.type_id, b.queue_id, b.priority, p_level, b.audit, NULL, false, b.tenant_id, b.max_attempts, b.timeout_us, p_id,
        b.key, b.content_type, b.created_by, b.traceparent, b.headers, b.rate_key, b.payload, false, 0, 0, NULL, NULL INTO u;
    SELECT * INTO a FROM pawl_put_one(p_now, p_node, p_lane, false, u);
    o_answer := pawl_answer(p_op, CASE WHEN a.o_result IN (1, 4) THEN 1 ELSE 10 END, a.o_id, 0, a.o_run_at, e.o_state);
    IF a.o_result NOT IN (1, 4) THEN
        o_answer := pawl_answer(p_op, 10, 0, 0, 0, e.o_state);
        RETURN;
    END IF;
    IF e.o_state = 5 THEN
        UPDATE pawl_failed SET retried_as = a.o_id, resolved_us = coalesce(resolved_us, p_now), resolved_by = coalesce(resolved_by, p_by)
        WHERE id = p_id;
        IF NOT e.o_resolved THEN PERFORM pawl_add(p_node, p_lane, b.queue_id, 0, 0, -1); END IF;
    ELSE
        UPDATE pawl_done SET retried_as = a.o_id WHERE id = p_id;
    END IF;
    IF (SELECT families FROM pawl_gate) > 0 AND EXISTS (SELECT FROM pawl_edge x WHERE x.parent_id = p_id) THEN
        INSERT INTO pawl_unsettled (id, kind, after, value) VALUES (p_id, 3, 0, a.o_id); -- who is held waits for the new one
    END IF;
    PERFORM pawl_log_operator(p_now, p_by, 'retry', p_id, NULL);
    o_hint := pawl_hint(u.queue_id, u.priority, 0, u.type_id, a.o_run_at);
END $$;

CREATE OR REPLACE FUNCTION pawl_ack(p_now int8, p_node int4, p_lane int8, p_op int4, p_id int8, p_by text, p_note text) RETURNS text
LANGUAGE plpgsql AS $$
DECLARE
    e record;
    v_state int2;
BEGIN
    SELECT * INTO e FROM pawl_hold_ended(p_id);
    v_state := e.o_state;
    IF v_state = 0 THEN SELECT o_state INTO v_state FROM pawl_find(p_id); END IF;
    IF v_state <> 5 OR e.o_resolved THEN RETURN pawl_answer(p_op, CASE WHEN v_state = 0 THEN 8 ELSE 9 END, 0, 0, 0, v_state); END IF;
    UPDATE pawl_failed SET resolved_us = p_now, resolved_by = p_by, note = p_note WHERE id = p_id;
    PERFORM pawl_add(p_node, p_lane, (SELECT queue_id FROM pawl_body WHERE id = p_id), 0, 0, -1);
    PERFORM pawl_log_operator(p_now, p_by, 'acknowledge', p_id, p_note);
    RETURN pawl_answer(p_op, 1, 0, 0, 0, v_state);
END $$;

CREATE OR REPLACE FUNCTION pawl_pause(p_now int8, p_op int4, p_queue int4, p_pause bool, p_by text) RETURNS text LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO pawl_queue (queue_id, paused) VALUES (p_queue, p_pause)
    ON CONFLICT (queue_id) DO UPDATE SET paused = p_pause;
    PERFORM pawl_log_operator(p_now, p_by, CASE WHEN p_pause THEN 'pause' ELSE 'resume' END, NULL,
                              (SELECT text FROM pawl_name WHERE id = p_queue));
    RETURN '';
END $$;

-- The operations of people, one by one: kind 6 cancel, 7 retry, 8 ack, 9 queue. p_first: only the pauses before that operation, or only the
-- others.
CREATE OR REPLACE FUNCTION pawl_operate(p_now int8, p_node int4, p_lane int8, p_first int4, p_only bool, p_op int4[], p_kind int2[], p_id int8[], p_by text[], p_level int2[],
                             p_new int8[], p_note text[], p_queue int4[], p_pause bool[], OUT o_results text, OUT o_hints text)
LANGUAGE plpgsql AS $$
DECLARE
    u record;
    r record;
BEGIN
    o_results := '';
    o_hints := '';
    FOR u IN SELECT * FROM unnest(p_op, p_kind, p_id, p_by, p_level, p_new, p_note, p_queue, p_pause)
             x (op, kind, id, who, level, new_id, note, queue, pause) WHERE (x.kind = 9 AND x.op < p_first) = p_only ORDER BY x.id, x.op LOOP
        IF u.kind = 6 THEN
            o_results := o_results || pawl_cancel(p_now, p_node, p_lane, u.op, u.id, u.who, u.level);
        ELSIF u.kind = 7 THEN
            SELECT * INTO r FROM pawl_retry(p_now, p_node, p_lane, u.op, u.id, u.who, u.level, u.new_id);
            o_results := o_results || r.o_answer;
            o_hints := o_hints || r.o_hint;
        ELSIF u.kind = 8 THEN
            o_results := o_results || pawl_ack(p_now, p_node, p_lane, u.op, u.id, u.who, u.note);
        ELSE
            o_results := o_results || pawl_pause(p_now, u.op, u.queue, u.pause, u.who);
        END IF;
    END LOOP;
END $$;
