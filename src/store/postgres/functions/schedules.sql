-- Schedules: see SCHEDULES in pawl/store.h.
--
-- An occurrence is a row under (schedule, occurrence): that alone keeps it from becoming two tasks. What changes with every occurrence is
-- narrow; definitions lie apart and are written once.
--
-- Whoever writes anything of a schedule has its row of pawl_schedule_state locked. They are locked by number, after spots and before keys
-- and tasks: those that a batch names, those whose tasks may end in it, and those that follow these. Only what people ask waits for them. Tasks
-- that ended while somebody else had their schedule, or in a transaction of the caller's own, which locks none, are in pawl_ended, and
-- whoever holds the schedule next (a batch, or the next claim) sees to them before anything else.

CREATE OR REPLACE FUNCTION pawl_schedules_next() RETURNS int8 LANGUAGE plpgsql STABLE AS $$
BEGIN
    RETURN (SELECT look_us FROM pawl_schedule_state WHERE look_us IS NOT NULL ORDER BY look_us LIMIT 1);
END $$;

-- ---- the end of tasks -------------------------------------------------------------------------------------------------------------

-- Locks what may be written of schedules: those of these names (p_wait: also if somebody has them), those whose tasks these are, and those that
-- follow them. o_locked: what is locked. o_held: of the first two kinds, those whose followers are locked, too. o_all: nothing is missing.
CREATE OR REPLACE FUNCTION pawl_hold_schedules(p_wait bool, p_names text[], p_tasks int8[], OUT o_locked int8[], OUT o_held int8[], OUT o_all bool)
LANGUAGE plpgsql AS $$
DECLARE
    v_named int8[] := '{}';
    v_ids int8[] := ARRAY(SELECT DISTINCT x FROM unnest(ARRAY(SELECT o.schedule_id FROM pawl_occurrence o WHERE o.state = 2 AND o.task_id = ANY (p_tasks))) x);
    v_all int8[];
BEGIN
    o_locked := '{}';
    o_held := '{}';
    o_all := true;
    IF p_names IS NOT NULL THEN v_named := ARRAY(SELECT s.id FROM pawl_schedule s WHERE s.name = ANY (p_names)); END IF;
    v_ids := v_ids || v_named;
    IF cardinality(v_ids) = 0 THEN RETURN; END IF;
    v_all := v_ids || ARRAY(SELECT f.id FROM unnest(v_ids) u (id) JOIN pawl_schedule s ON s.id = ANY (ARRAY[u.id])
                            JOIN pawl_schedule f ON f.after = ANY (ARRAY[s.name]));
    IF p_wait THEN PERFORM FROM pawl_schedule_state s WHERE s.id = ANY (v_named) ORDER BY s.id FOR UPDATE; END IF;
    o_locked := ARRAY(SELECT s.id FROM pawl_schedule_state s WHERE s.id = ANY (v_all) ORDER BY s.id FOR UPDATE SKIP LOCKED);
    IF cardinality(o_locked) = (SELECT count(DISTINCT x) FROM unnest(v_all) x) THEN
        o_held := v_ids;
        RETURN;
    END IF;
    o_all := false;
    o_held := ARRAY(SELECT s.id FROM unnest(v_ids) u (id) JOIN pawl_schedule s ON s.id = ANY (ARRAY[u.id])
                    WHERE s.id = ANY (o_locked)
                        AND NOT EXISTS (SELECT FROM pawl_schedule f WHERE f.after = s.name AND f.id <> ALL (o_locked)));
END $$;

-- Occurrences that are settled go, as far as they are not among the last ones.
CREATE OR REPLACE FUNCTION pawl_trim_schedule(p_id int8) RETURNS bool LANGUAGE plpgsql AS $$
BEGIN
    DELETE FROM pawl_occurrence WHERE schedule_id = p_id AND state > 2 AND number <=
        (SELECT o.number FROM pawl_occurrence o WHERE o.schedule_id = p_id AND o.state > 2 ORDER BY o.number DESC OFFSET 100 LIMIT 1);
    UPDATE pawl_schedule_state SET settled = 100 WHERE id = p_id;
    RETURN true;
END $$;

-- Some of these tasks may have ended: those that are of an open occurrence of these schedules, which are held, settle it. true: there were any.
CREATE OR REPLACE FUNCTION pawl_schedules_ended(p_now int8, p_tasks int8[], p_held int8[]) RETURNS bool LANGUAGE plpgsql AS $$
DECLARE
    v_did bool;
    v_any bool := false;
    r record;
    s record;
BEGIN
    FOR r IN
        SELECT o.schedule_id, o.occurrence, o.task_id, e.state, e.runs
        FROM pawl_occurrence o, LATERAL (
            SELECT d.state, d.runs FROM pawl_done d WHERE d.id = o.task_id
            UNION ALL SELECT f.state, f.runs FROM pawl_failed f WHERE f.id = o.task_id LIMIT 1) e
        WHERE o.state = 2 AND o.task_id = ANY (p_tasks) AND o.schedule_id = ANY (p_held) ORDER BY o.schedule_id, o.task_id
    LOOP
        v_any := true;
        UPDATE pawl_schedule_state x SET number = x.number + 1, open = x.open - 1, settled = x.settled + 1,
            runs = greatest(x.runs - (r.runs = 0)::int4, 0), succeeded = x.succeeded + (r.state = 4)::int4,
            failed = x.failed + (r.state = 5)::int4, version = x.version + (x.off = 0 AND (x.watch OR x.waiting > 0))::int4,
            look_us = CASE WHEN x.off = 0 AND (x.watch OR x.waiting > 0) THEN p_now ELSE x.look_us END
        WHERE x.id = r.schedule_id RETURNING x.number, x.settled, x.name INTO s;
        UPDATE pawl_occurrence SET state = CASE WHEN r.runs = 0 THEN 6 ELSE r.state - 1 END, number = s.number, at_us = p_now
        WHERE schedule_id = r.schedule_id AND occurrence = r.occurrence;
        IF s.settled >= 150 THEN v_did := pawl_trim_schedule(r.schedule_id); END IF;
        IF r.state = 4 THEN v_did := pawl_tell_followers(p_now, s.name, r.task_id); END IF;
    END LOOP;
    RETURN v_any;
END $$;

-- A task of the schedule has succeeded: those that follow it have something to do.
CREATE OR REPLACE FUNCTION pawl_tell_followers(p_now int8, p_name text, p_task int8) RETURNS bool LANGUAGE plpgsql AS $$
BEGIN
    WITH f AS (
        SELECT x.id, x.number FROM pawl_schedule d JOIN pawl_schedule_state x ON x.id = ANY (ARRAY[d.id])
        WHERE d.after = p_name COLLATE "C" AND x.off = 0 ORDER BY x.id FOR UPDATE OF x),
    o AS (
        INSERT INTO pawl_occurrence (schedule_id, occurrence, number, at_us, task_id, count, state)
        SELECT f.id, p_task, f.number + 1, p_now, 0, 1, 1 FROM f ON CONFLICT DO NOTHING RETURNING schedule_id)
    UPDATE pawl_schedule_state x SET look_us = p_now, version = x.version + 1, number = x.number + 1, waiting = x.waiting + 1
    FROM o WHERE x.id = ANY (ARRAY[o.schedule_id]);
    RETURN true;
END $$;

-- What pawl_apply does before it looks at tasks: see pawl_hold_schedules. Nodes that step one schedule at once do not wait for each other: all but
-- one come too late anyway. o_ended: tasks that others left in pawl_ended, and that are seen to now.
CREATE OR REPLACE FUNCTION pawl_schedules_hold(p_node int4, p_num int8[], p_text text[], p_tasks int8[], OUT o_locked int8[], OUT o_held int8[], OUT o_all bool,
                                    OUT o_ended int8[]) LANGUAGE plpgsql AS $$
DECLARE
    v_wait bool := p_node = 0;
    v_names text[];
    a int4 := 1;
    t int4 := 1;
BEGIN
    WHILE a <= cardinality(p_num) LOOP
        v_names := v_names || p_text[t];
        v_wait := v_wait OR p_num[a + 1] = 13 OR p_num[a + 2] = 0 OR p_text[t + 3] IS NOT NULL;
        t := t + 5 + p_num[a + 11];
        a := a + 12 + 3 * p_num[a + 11];
    END LOOP;
    SELECT h.o_locked, h.o_held, h.o_all INTO o_locked, o_held, o_all FROM pawl_hold_schedules(v_wait, v_names, p_tasks) h;
    o_ended := '{}';
    IF cardinality(o_held) > 0 AND EXISTS (SELECT FROM pawl_ended) THEN o_ended := pawl_ended_of(o_held); END IF;
END $$;

-- Tasks that have ended and are of an open occurrence of a schedule that is not held are left to others. true: there are any.
CREATE OR REPLACE FUNCTION pawl_leave_ended(p_tasks int8[]) RETURNS bool LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO pawl_ended (task_id) SELECT o.task_id FROM pawl_occurrence o WHERE o.state = 2 AND o.task_id = ANY (p_tasks)
        AND NOT EXISTS (SELECT FROM pawl_live v WHERE v.id = ANY (ARRAY[o.task_id]))
        AND NOT EXISTS (SELECT FROM pawl_leased l WHERE l.id = ANY (ARRAY[o.task_id]))
    ON CONFLICT DO NOTHING;
    RETURN FOUND;
END $$;

-- Which of the tasks in pawl_ended are of these schedules, which are held; they are taken out.
CREATE OR REPLACE FUNCTION pawl_ended_of(p_schedules int8[]) RETURNS int8[] LANGUAGE plpgsql AS $$
DECLARE
    v_ids int8[];
BEGIN
    v_ids := ARRAY(SELECT e.task_id FROM pawl_ended e LEFT JOIN pawl_occurrence o ON o.task_id = ANY (ARRAY[e.task_id]) AND o.state = 2
                   WHERE o.schedule_id IS NULL OR o.schedule_id = ANY (p_schedules) LIMIT 1000);
    IF cardinality(v_ids) = 0 THEN RETURN v_ids; END IF;
    DELETE FROM pawl_ended e WHERE e.ctid = ANY (ARRAY(SELECT x.ctid FROM pawl_ended x WHERE x.task_id = ANY (v_ids) FOR UPDATE SKIP LOCKED));
    RETURN v_ids;
END $$;

-- What others left in pawl_ended, as far as nobody has the schedules.
CREATE OR REPLACE FUNCTION pawl_settle_ended(p_now int8) RETURNS bool LANGUAGE plpgsql AS $$
DECLARE
    h record;
BEGIN
    h := pawl_hold_schedules(false, NULL, ARRAY(SELECT task_id FROM pawl_ended LIMIT 1000));
    RETURN pawl_schedules_ended(p_now, pawl_ended_of(h.o_held), h.o_held);
END $$;

-- ---- SCHEDULE and STEP ------------------------------------------------------------------------------------------------------------

-- SCHEDULE. p_num: see pawl_schedules_apply.
CREATE OR REPLACE FUNCTION pawl_schedule_put(p_now int8, p_at int4, p_num int8[], p_name text, p_after text, p_reason text, p_by text, p_spec text,
                                  p_payload bytea) RETURNS int4 LANGUAGE plpgsql AS $$
DECLARE
    v_drop bool := p_num[p_at + 3] & 1 <> 0;
    v_version int8 := p_num[p_at + 2];
    v_look int8 := CASE WHEN p_num[p_at + 4] = 0 THEN nullif(p_num[p_at + 9], 0) END;
    v_watch bool := p_num[p_at + 3] & 2 <> 0;
    v_result int4;
    v_id int8;
    s record;
BEGIN
    SELECT x.id, x.version INTO s FROM pawl_schedule d JOIN pawl_schedule_state x ON x.id = ANY (ARRAY[d.id])
    WHERE d.name = p_name COLLATE "C" FOR UPDATE OF x;
    v_id := s.id;
    IF v_drop THEN
        v_result := CASE WHEN v_id IS NULL THEN 8 WHEN v_version <> 0 AND v_version <> s.version THEN 6 ELSE 1 END;
    ELSIF v_id IS NOT NULL THEN
        v_result := CASE WHEN v_version = 0 THEN 2 WHEN v_version = s.version THEN 3 ELSE 6 END;
    ELSE
        v_result := CASE WHEN v_version <> 0 THEN 8 ELSE 1 END;
    END IF;
    IF v_result NOT IN (1, 3) THEN RETURN v_result; END IF;
    IF v_drop THEN
        DELETE FROM pawl_occurrence WHERE schedule_id = v_id;
        DELETE FROM pawl_schedule_state WHERE id = v_id;
        DELETE FROM pawl_schedule WHERE id = v_id;
    ELSIF v_result = 3 THEN
        UPDATE pawl_schedule SET after = p_after, anchor_us = p_num[p_at + 5], changed_us = p_now, spec = p_spec, payload = p_payload
        WHERE id = v_id;
        UPDATE pawl_schedule_state SET version = version + 1, next_us = p_num[p_at + 6], occurrence_us = p_num[p_at + 7], look_us = v_look,
            off = p_num[p_at + 4], watch = v_watch, reason = p_reason
        WHERE id = v_id;
    ELSE
        INSERT INTO pawl_schedule (name, after, anchor_us, created_us, changed_us, spec, payload)
        VALUES (p_name, p_after, p_num[p_at + 5], p_now, p_now, p_spec, p_payload) ON CONFLICT DO NOTHING RETURNING id INTO v_id;
        IF v_id IS NULL THEN RETURN 2; END IF; -- somebody else was faster
        INSERT INTO pawl_schedule_state (id, name, version, next_us, occurrence_us, look_us, off, watch, reason)
        VALUES (v_id, p_name, p_now, p_num[p_at + 6], p_num[p_at + 7], v_look, p_num[p_at + 4], v_watch, p_reason);
        UPDATE pawl_gate SET schedules = 1 WHERE schedules = 0;
    END IF;
    PERFORM pawl_log_operator(p_now, p_by, CASE WHEN v_drop THEN 'remove schedule' ELSE 'put schedule' END, NULL, p_name);
    RETURN v_result;
END $$;

-- STEP of a schedule, which is locked: n occurrences from p_fates on, three numbers each: the occurrence, its task's operation (-1: it is
-- skipped), and how many. p_next: where in p_news its tasks begin.
CREATE OR REPLACE FUNCTION pawl_step(p_now int8, p_node int4, p_lane int8, INOUT s pawl_schedule_state, p_keep bool, p_overlap int8, p_num int8[],
                          p_fates int4, p_text text[], p_why int4, n int4, p_news pawl_new[], INOUT p_next int4, OUT o_results text,
                          OUT o_hints text) LANGUAGE plpgsql AS $$
DECLARE
    v_which int8;
    v_op int8;
    v_count int8;
    v_why text;
    v_was int2;
    v_to int2;
    v_task int8;
    u pawl_new;
    a record;
BEGIN
    o_results := '';
    o_hints := '';
    FOR i IN 0..n - 1 LOOP
        v_which := p_num[p_fates + 3 * i];
        v_op := p_num[p_fates + 3 * i + 1];
        v_count := p_num[p_fates + 3 * i + 2];
        v_why := p_text[p_why + i];
        v_was := coalesce((SELECT o.state FROM pawl_occurrence o WHERE o.schedule_id = s.id AND o.occurrence = v_which), 0);
        v_to := 0;
        v_task := 0;
        IF v_op >= 0 THEN
            u := p_news[p_next];
            p_next := p_next + 1;
        END IF;
        IF v_op < 0 THEN
            IF v_was <= 1 THEN v_to := 7; END IF;
        ELSIF v_was > 1 THEN
            o_results := o_results || pawl_answer(v_op::int4, 2, 0, 0, 0, 0);
        ELSIF p_overlap = 3 OR s.open = 0 THEN
            SELECT * INTO a FROM pawl_put_one(p_now, p_node, p_lane, false, u);
            o_results := o_results || pawl_answer(v_op::int4, a.o_result, a.o_id, 0, a.o_run_at, a.o_state) || coalesce(a.o_slot, '');
            o_hints := o_hints || pawl_hint(u.queue_id, u.priority, 0, u.type_id, a.o_run_at);
            v_to := 2;
            v_task := a.o_id;
            s.runs := s.runs + 1;
            s.fired := s.fired + 1;
            s.last_task := v_task;
        ELSIF p_overlap = 2 AND s.waiting - v_was = 0 THEN
            o_results := o_results || pawl_answer(v_op::int4, 14, 0, 0, 0, 0);
            IF v_was = 0 THEN v_to := 1; END IF;
        ELSE
            o_results := o_results || pawl_answer(v_op::int4, 9, 0, 0, 0, 0);
            IF NOT p_keep THEN v_to := 7; END IF;
            v_count := 1;
            v_why := 'overlap';
        END IF;
        CONTINUE WHEN v_to = 0;
        s.number := s.number + 1;
        s.waiting := s.waiting - (v_was = 1)::int4 + (v_to = 1)::int4;
        s.open := s.open + (v_to = 2)::int4;
        IF v_to = 7 THEN
            s.settled := s.settled + 1;
            s.skipped := s.skipped + v_count;
        END IF;
        IF v_was = 0 THEN
            INSERT INTO pawl_occurrence (schedule_id, occurrence, number, at_us, task_id, count, state, why)
            VALUES (s.id, v_which, s.number, p_now, v_task, v_count, v_to, v_why);
        ELSE
            UPDATE pawl_occurrence SET number = s.number, at_us = p_now, task_id = v_task, count = v_count, state = v_to,
                why = coalesce(v_why, why)
            WHERE schedule_id = s.id AND occurrence = v_which;
        END IF;
    END LOOP;
END $$;

-- The operations of a batch that are about schedules. Of each, p_num has twelve numbers: operation, kind (13 SCHEDULE, 14 STEP), version, flags (1 drop,
-- or keep; 2 watch), off, anchor, next, occurrence, last, look, overlap, how many occurrences; then three for each of these. p_text:
-- name, after, reason, who, spec; then why of each. p_ends: tasks that may have ended, which comes first. o_news: of p_all, those that are no
-- tasks of STEPs.
CREATE OR REPLACE FUNCTION pawl_schedules_apply(p_now int8, p_node int4, p_lane int8, p_closed bool, p_ends int8[], p_held int8[], p_num int8[], p_text text[],
                                     p_payload bytea[], p_all pawl_new[], OUT o_results text, OUT o_hints text, OUT o_stirred bool,
                                     OUT o_news pawl_new[]) LANGUAGE plpgsql AS $$
DECLARE
    v_did bool;
    v_result int4;
    v_fates int4;
    v_op int4;
    a int4 := 1;
    t int4 := 1;
    k int4 := 1;
    v_next int4 := 1;
    v_steps int4[] := '{}';
    v_news pawl_new[];
    s pawl_schedule_state;
    r record;
BEGIN
    o_results := '';
    o_hints := '';
    o_stirred := coalesce(cardinality(p_ends) > 0 AND pawl_schedules_ended(p_now, p_ends, p_held), false);
    WHILE a <= cardinality(p_num) LOOP
        v_steps := v_steps || p_num[a]::int4;
        a := a + 12 + 3 * p_num[a + 11];
    END LOOP;
    v_news := ARRAY(SELECT p_all[i] FROM generate_subscripts(p_all, 1) i WHERE (p_all[i]).parent = ANY (v_steps) ORDER BY i);
    o_news := ARRAY(SELECT p_all[i] FROM generate_subscripts(p_all, 1) i WHERE (p_all[i]).parent = ANY (v_steps) IS NOT TRUE ORDER BY i);
    a := 1;
    WHILE a <= cardinality(p_num) LOOP
        v_op := p_num[a];
        v_fates := p_num[a + 11];
        IF p_closed THEN
            v_result := 13;
        ELSIF p_num[a + 1] = 13 THEN
            v_result := pawl_schedule_put(p_now, a, p_num, p_text[t], p_text[t + 1], p_text[t + 2], p_text[t + 3], p_text[t + 4], p_payload[k]);
        ELSE
            SELECT x.* INTO s FROM pawl_schedule d JOIN pawl_schedule_state x ON x.id = ANY (ARRAY[d.id])
            WHERE d.name = p_text[t] COLLATE "C" FOR UPDATE OF x SKIP LOCKED;
            IF NOT FOUND AND EXISTS (SELECT FROM pawl_schedule d WHERE d.name = p_text[t] COLLATE "C") THEN s.version := -1; s.id := 0; END IF; -- somebody has it
            v_result := CASE WHEN s.id IS NULL THEN 8 WHEN p_num[a + 2] NOT IN (0, s.version) THEN 6 ELSE 1 END;
            IF v_result = 1 THEN
                r := pawl_step(p_now, p_node, p_lane, s, p_num[a + 3] & 1 <> 0, p_num[a + 10], p_num, a + 12, p_text, t + 5, v_fates, v_news, v_next);
                s := r.s;
                v_next := r.p_next;
                o_results := o_results || r.o_results;
                o_hints := o_hints || r.o_hints;
                IF p_num[a + 3] & 1 = 0 THEN
                    s.off := p_num[a + 4];
                    s.reason := p_text[t + 2];
                    s.next_us := p_num[a + 6];
                    s.occurrence_us := p_num[a + 7];
                    s.last_us := p_num[a + 8];
                    s.look_us := CASE WHEN s.off = 0 THEN nullif(p_num[a + 9], 0) END;
                    s.watch := p_num[a + 3] & 2 <> 0;
                END IF;
                UPDATE pawl_schedule_state x SET version = s.version + 1, next_us = s.next_us, occurrence_us = s.occurrence_us, last_us = s.last_us,
                    look_us = s.look_us, runs = s.runs, fired = s.fired, skipped = s.skipped, open = s.open, waiting = s.waiting,
                    settled = s.settled, number = s.number, last_task = s.last_task, off = s.off, watch = s.watch, reason = s.reason
                WHERE x.id = s.id;
                IF s.settled >= 150 THEN v_did := pawl_trim_schedule(s.id); END IF;
                IF p_text[t + 3] IS NOT NULL THEN
                    PERFORM pawl_log_operator(p_now, p_text[t + 3], CASE WHEN p_num[a + 3] & 1 <> 0 THEN 'run schedule' WHEN s.off <> 0
                                              THEN 'disable schedule' ELSE 'enable schedule' END, NULL, s.name);
                END IF;
            END IF;
        END IF;
        IF v_result <> 1 THEN o_results := o_results || pawl_answer(v_op, v_result, 0, 0, 0, 0); END IF;
        o_stirred := o_stirred OR v_result IN (1, 3);
        FOR i IN 0..v_fates - 1 LOOP -- the tasks of a STEP that did not happen
            EXIT WHEN v_result = 1;
            IF p_num[a + 13 + 3 * i] >= 0 THEN v_next := v_next + 1; END IF;
        END LOOP;
        a := a + 12 + 3 * v_fates;
        t := t + 5 + v_fates;
        k := k + 1;
    END LOOP;
END $$;
