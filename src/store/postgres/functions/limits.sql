-- Rate limits. store/budget.h has the rules and the same arithmetic in C, and explains the words.
--
-- An instant has a fraction: us + part / permits. All of it is exact, in int8: limits that could overflow are refused before they are stored
-- (core/rate.c).
--
-- LOCKS. Slots are taken only of budgets that the transaction has locked, and only by pawl_apply: it locks all that its batch may take of, in
-- the order of their ids, before it reads the clock and before keys and tasks (pawl_hold_budgets). A limit is read after its budget was
-- locked, so that nobody counts by a limit older than the one that the budget was counted by last. Claims only read budgets. Transactions
-- of the caller's own lock none, for nobody knows when they end: what they insert asks for its slot later.

-- ---- limits -----------------------------------------------------------------------------------------------------------------------

CREATE OR REPLACE FUNCTION pawl_in_force(p_permits int4, p_flags int4) RETURNS bool LANGUAGE sql IMMUTABLE AS
$$ SELECT p_permits > 0 OR p_flags & 8 <> 0 $$;

-- The bytes a key is known by.
CREATE OR REPLACE FUNCTION pawl_rate_key(p_key bytea) RETURNS bytea LANGUAGE sql IMMUTABLE AS
$$ SELECT CASE WHEN length(p_key) > 256 THEN convert_to('sha256:' || encode(sha256(p_key), 'hex'), 'UTF8') ELSE p_key END $$;

-- The limit that counts for a key, if there is one, with burst and horizon resolved. One that is only paused: any rate will do.
CREATE OR REPLACE FUNCTION pawl_limit_for(p_type int4, p_key bytea) RETURNS SETOF pawl_limit LANGUAGE sql STABLE AS $$
    SELECT type_id, key, CASE WHEN permits = 0 THEN 1 ELSE permits END, CASE WHEN permits = 0 THEN 1000000 ELSE period_us END,
        CASE WHEN burst = 0 THEN greatest(permits, 1) ELSE burst END, CASE WHEN horizon_us = 0 THEN 3600000000 ELSE horizon_us END, flags, changed_us
    FROM pawl_limit WHERE type_id = p_type AND key = ANY (ARRAY[p_key, ''::bytea]) AND pawl_in_force(permits, flags) ORDER BY key DESC LIMIT 1
$$;

-- How late a slot may be used.
CREATE OR REPLACE FUNCTION pawl_limit_late(l pawl_limit) RETURNS int8 LANGUAGE sql IMMUTABLE AS
$$ SELECT greatest(50000, least(1000000, l.period_us / l.permits)) $$;

-- LIMIT, the first part, before budgets are locked; p_rate: permits, period, burst, horizon, flags (16: initial, 32: paused stays as it is
-- stored, 64: the rate does, 128: nothing is put). Whoever changes a limit does it alone, and only while the gate is not shut (result 13).
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
    IF p_rate[5] & 128 <> 0 THEN RETURN pawl_answer(p_op, 2, 0, 0, 0, 0); END IF;
    SELECT * INTO o FROM pawl_limit WHERE type_id = p_type AND key = v_key;
    v_was := FOUND AND pawl_in_force(o.permits, o.flags);
    IF v_was AND p_rate[5] & 64 <> 0 THEN
        v_rate := ARRAY[o.permits, o.period_us, o.burst, o.horizon_us];
        v_flags := o.flags & 7;
    END IF;
    IF v_was AND p_rate[5] & 48 <> 0 THEN v_paused := o.flags & 8; END IF;
    IF v_was AND (o.permits, o.period_us, o.burst, o.horizon_us, o.flags) = (v_rate[1], v_rate[2], v_rate[3], v_rate[4], v_flags | v_paused) THEN
        RETURN pawl_answer(p_op, CASE WHEN p_rate[1] = 0 AND p_rate[5] & 96 = 32 THEN 8 ELSE 2 END, 0, 0, 0, 0); -- 8: it is only paused
    END IF;
    IF NOT v_was AND NOT pawl_in_force(v_rate[1]::int4, v_flags | v_paused) THEN RETURN pawl_answer(p_op, 8, 0, 0, 0, 0); END IF;
    INSERT INTO pawl_limit (type_id, key, permits, period_us, burst, horizon_us, flags, changed_us)
    VALUES (p_type, v_key, v_rate[1], v_rate[2], v_rate[3], v_rate[4], v_flags | v_paused, p_now)
    ON CONFLICT (type_id, key) DO UPDATE SET permits = excluded.permits, period_us = excluded.period_us, burst = excluded.burst,
        horizon_us = excluded.horizon_us, flags = excluded.flags, changed_us = excluded.changed_us;
    UPDATE pawl_gate SET limits = limits + 1;
    PERFORM pawl_log_operator(p_now, p_by, 'limit', NULL, (SELECT text FROM pawl_name WHERE id = p_type));
    RETURN pawl_answer(p_op, CASE WHEN v_was THEN 3 ELSE 1 END, 0, 0, 0, 0);
END $$;

-- LIMIT, the second part: some tasks with slots of the old limit ask anew: their slots are gone, and they are due. true: there are more.
CREATE OR REPLACE FUNCTION pawl_limit_move(p_now int8, p_type int4, p_key bytea, p_most int8) RETURNS bool LANGUAGE plpgsql AS $$
DECLARE
    v_key bytea := coalesce(pawl_rate_key(p_key), '');
    v_ids int8[];
BEGIN
    IF EXISTS (SELECT FROM pawl_gate WHERE mode >= 2) THEN RETURN false; END IF;
    v_ids := ARRAY(SELECT s.task_id FROM pawl_budget b JOIN pawl_slotted s ON s.budget_id = ANY (ARRAY[b.id])
                   WHERE b.type_id = p_type AND (v_key = '' OR b.key = v_key) LIMIT p_most + 1);
    PERFORM FROM pawl_live WHERE id = ANY (v_ids[1:p_most]) ORDER BY id FOR UPDATE;
    DELETE FROM pawl_slotted WHERE task_id = ANY (v_ids[1:p_most]);
    UPDATE pawl_live SET run_at_us = p_now WHERE id = ANY (v_ids[1:p_most]) AND run_at_us > p_now;
    UPDATE pawl_shared SET run_at_us = p_now WHERE task_id = ANY (v_ids[1:p_most]) AND run_at_us + 0 > p_now;
    RETURN cardinality(v_ids) > p_most;
END $$;

-- ---- budgets ----------------------------------------------------------------------------------------------------------------------

-- Locks the budgets that a batch may take of or give back to, and makes those that are missing. o_inserts, o_asks: by INSERT and by RESERVE
-- (q_kind 10) the budget it takes of, or NULL. An INSERT that asks for no lease takes of none that has something left, and need not lock it: it
-- may find another state than it stores by, and then the task asks again when it is claimed. One that stands in a line (pawl_in_line) takes none. Budgets that may be given back to are found
-- as well as they can be without locks: whoever is left out is locked late, which may meet a deadlock, and the call is made again.
CREATE OR REPLACE FUNCTION pawl_hold_budgets(p_now int8, i_type int4[], i_rate_key bytea[], i_when int8[], i_ask bool[], i_key text[], i_tenant int4[], q_kind int2[], q_id int8[], q_key bytea[],
                                  o_kind int2[], o_id int8[], OUT o_inserts int8[], OUT o_asks int8[]) LANGUAGE plpgsql AS $$
DECLARE
    v_inserts int4 := CASE WHEN i_rate_key IS NULL THEN 0 ELSE cardinality(i_rate_key) END;
    v_lines bool := (SELECT bounds > 0 FROM pawl_gate);
    v_types int4[];
    v_keys bytea[];
    v_takes int8[];
    v_backs int8[] := '{}';
    v_ids int8[];
BEGIN
    SELECT array_agg(x.type ORDER BY x.part, x.i), array_agg(l.key ORDER BY x.part, x.i) INTO v_types, v_keys FROM (
        SELECT 1 AS part, u.i, u.type, CASE WHEN pawl_due(p_now, u.w) <= p_now AND NOT (v_lines AND pawl_in_line(u.type, u.key)) THEN pawl_rate_key(u.key) END AS key, coalesce(u.ask, false) AS starts
        FROM unnest(i_type, i_rate_key, i_when, i_ask) WITH ORDINALITY u (type, key, w, ask, i)
        WHERE v_inserts > 0
        UNION ALL
        SELECT 2, u.i, b.type_id, CASE WHEN u.kind = 10 THEN pawl_rate_key(coalesce(nullif(b.rate_key, ''), u.key)) END, true
        FROM unnest(q_id, q_key, q_kind) WITH ORDINALITY u (id, key, kind, i) LEFT JOIN pawl_body b ON b.id = ANY (ARRAY[u.id])) x
    LEFT JOIN LATERAL (SELECT x.key FROM pawl_limit_for(x.type, x.key) m
                       WHERE length(x.key) > 0 AND (x.starts OR m.flags & 8 <> 0 OR EXISTS (
                           SELECT FROM pawl_budget b WHERE b.type_id = x.type AND b.key = x.key
                               AND ((b.permits, b.burst, b.period_us) <> (m.permits, m.burst, m.period_us)
                                    OR pawl_budget_slot(b.tat_us, b.tat_part, b.permits, b.period_us, b.burst, p_now) > p_now)))) l ON true;
    LOOP
        v_takes := ARRAY(SELECT b.id FROM unnest(v_types, v_keys) WITH ORDINALITY u (type, key, i)
                         LEFT JOIN pawl_budget b ON b.type_id = ANY (ARRAY[u.type]) AND b.key = ANY (ARRAY[u.key]) ORDER BY u.i);
        IF EXISTS (SELECT FROM unnest(v_keys, v_takes) u (key, id) WHERE u.key IS NOT NULL AND u.id IS NULL) THEN
            INSERT INTO pawl_budget (type_id, key)
            SELECT DISTINCT u.type, u.key FROM unnest(v_types, v_keys, v_takes) u (type, key, id) WHERE u.key IS NOT NULL AND u.id IS NULL
            ORDER BY 1, 2 ON CONFLICT DO NOTHING;
            CONTINUE;
        END IF;
        IF o_id IS NOT NULL OR i_key IS NOT NULL THEN v_backs := pawl_budgets_back(i_key, i_tenant, o_kind, o_id); END IF;
        v_ids := ARRAY(SELECT DISTINCT u FROM unnest(v_takes || v_backs) u WHERE u IS NOT NULL);
        EXIT WHEN cardinality(v_ids) = cardinality(ARRAY(SELECT b.id FROM pawl_budget b WHERE b.id = ANY (v_ids) ORDER BY b.id FOR UPDATE));
    END LOOP; -- again where one was idle, and swept this moment
    IF v_inserts > 0 THEN
        o_inserts := v_takes[1:v_inserts];
        IF array_remove(o_inserts, NULL) = '{}' THEN o_inserts := NULL; END IF;
    END IF;
    o_asks := v_takes[v_inserts + 1:];
END $$;

-- The budgets that cancels, and inserts under keys that are taken, may give slots back to.
CREATE OR REPLACE FUNCTION pawl_budgets_back(i_key text[], i_tenant int4[], o_kind int2[], o_id int8[]) RETURNS int8[] LANGUAGE plpgsql STABLE AS $$
BEGIN
    RETURN ARRAY(
        SELECT b.id FROM unnest(o_id, o_kind) u (id, kind) JOIN pawl_slotted s ON s.task_id = ANY (ARRAY[u.id])
        JOIN pawl_budget b ON b.id = ANY (ARRAY[s.budget_id]) WHERE u.kind = 6
        UNION ALL
        SELECT c.id FROM unnest(o_id, o_kind) u (id, kind) JOIN pawl_leased l ON l.id = ANY (ARRAY[u.id]) JOIN pawl_body b ON b.id = ANY (ARRAY[u.id])
        JOIN pawl_budget c ON c.type_id = ANY (ARRAY[b.type_id]) AND c.key = ANY (ARRAY[pawl_rate_key(b.rate_key)])
        WHERE u.kind = 6 AND l.not_started
        UNION ALL
        SELECT b.id FROM pawl_holders(i_key, i_tenant) k
        JOIN pawl_slotted s ON s.task_id = ANY (ARRAY[k.task_id]) JOIN pawl_budget b ON b.id = ANY (ARRAY[s.budget_id]));
END $$;

-- How many could start now: 0..burst.
CREATE OR REPLACE FUNCTION pawl_budget_left(b pawl_budget, p_now int8) RETURNS int4 LANGUAGE plpgsql IMMUTABLE AS $$
DECLARE
    v_us int8 := CASE WHEN b.tat_us >= p_now THEN b.tat_us ELSE p_now END;
    v_part int4 := CASE WHEN b.tat_us >= p_now THEN b.tat_part ELSE 0 END;
BEGIN
    RETURN greatest(0, least(b.burst, floor(((p_now - v_us)::numeric * b.permits - v_part + b.period_us::numeric * (b.burst - 1))
                                            / b.period_us) + 1))::int4;
END $$;

-- Brings the row up to date with the limit and the clock; p_now becomes the time that counts.
CREATE OR REPLACE FUNCTION pawl_budget_see(INOUT b pawl_budget, l pawl_limit, INOUT p_now int8) LANGUAGE plpgsql IMMUTABLE AS $$
DECLARE
    v_spent int8;
BEGIN
    IF b.permits > 0 AND p_now < b.seen_us THEN
        IF b.seen_us - p_now <= 10000 THEN
            p_now := b.seen_us;
        ELSE
            b.tat_us := b.tat_us - (b.seen_us - p_now);
            b.last_id := 0;
            b.epoch := b.epoch + 1;
        END IF;
    END IF;
    IF b.permits <> l.permits OR b.burst <> l.burst OR b.period_us <> l.period_us THEN
        IF b.permits > 0 THEN
            v_spent := least(b.burst - pawl_budget_left(b, p_now), l.burst);
        ELSE
            v_spent := CASE WHEN l.flags & 1 <> 0 THEN l.burst - 1 ELSE 0 END;
        END IF;
        b.permits := l.permits;
        b.burst := l.burst;
        b.period_us := l.period_us;
        b.tat_us := p_now + v_spent * (l.period_us / l.permits) + v_spent * (l.period_us % l.permits) / l.permits;
        b.tat_part := v_spent * (l.period_us % l.permits) % l.permits;
        b.last_id := 0;
        b.epoch := b.epoch + 1;
    END IF;
    b.seen_us := p_now;
END $$;

-- The slot of the next start.
CREATE OR REPLACE FUNCTION pawl_budget_slot(p_tat_us int8, p_tat_part int8, p_permits int4, p_period_us int8, p_burst int4, p_now int8) RETURNS int8
LANGUAGE sql IMMUTABLE AS $$
    SELECT CASE WHEN p_tat_us < p_now
                THEN greatest(p_now, p_now - p_period_us * (p_burst - 1) / p_permits)
                ELSE greatest(p_now, p_tat_us - p_period_us * (p_burst - 1) / p_permits
                                     + CASE WHEN p_tat_part > p_period_us * (p_burst - 1) % p_permits THEN 1 ELSE 0 END) END
$$;

-- Takes slots of budgets that are locked, for each request in turn (p_budget NULL: none), and writes each budget once. p_again: neither
-- horizon nor discard is asked. p_start false: nobody is there to start it, so a slot that is now is not taken.
-- o_answer: 0 nothing limits it, 1 now, 2 later, 3 beyond: nothing was taken.
CREATE OR REPLACE FUNCTION pawl_take_slots(p_now int8, p_budget int8[], p_id int8[], p_again bool[], p_start bool[], OUT o_answer int4[],
                                OUT o_slot int8[], OUT o_until int8[], OUT o_epoch int8[]) LANGUAGE plpgsql AS $$
DECLARE
    b pawl_budget;
    l pawl_limit;
    v_all pawl_budget[] := '{}'; -- to be written
    v_dirty bool := false;
    v_now int8;
    v_late int8;
    v_slot int8;
    v_answer int4;
    v_part int8;
    r record;
    s record;
BEGIN
    o_answer := array_fill(0, ARRAY[cardinality(p_budget)]);
    o_slot := array_fill(p_now, ARRAY[cardinality(p_budget)]);
    o_until := array_fill(9223372036854775807, ARRAY[cardinality(p_budget)]);
    o_epoch := array_fill(0::int8, ARRAY[cardinality(p_budget)]);
    FOR r IN
        SELECT u.i, c AS budget, m AS rule FROM unnest(p_budget) WITH ORDINALITY u (id, i) JOIN pawl_budget c ON c.id = ANY (ARRAY[u.id]),
            LATERAL pawl_limit_for(c.type_id, c.key) m
        ORDER BY u.id, u.i
    LOOP
        IF b.id IS DISTINCT FROM (r.budget).id THEN
            IF v_dirty THEN v_all := v_all || b; END IF;
            b := r.budget;
            l := r.rule;
            s := pawl_budget_see(b, l, p_now);
            v_dirty := b.epoch <> (s.b).epoch;
            b := s.b;
            v_now := s.p_now;
            v_late := pawl_limit_late(l);
        END IF;
        o_epoch[r.i] := b.epoch;
        IF l.flags & 8 <> 0 THEN
            o_answer[r.i] := 2;
            o_slot[r.i] := v_now + 3153600000000000; -- a hundred years: until the limit is put again
            o_until[r.i] := o_slot[r.i] + v_late;
            CONTINUE;
        END IF;
        v_slot := pawl_budget_slot(b.tat_us, b.tat_part, b.permits, b.period_us, b.burst, v_now);
        v_answer := CASE WHEN v_slot > v_now THEN 2 ELSE 1 END;
        IF (v_answer = 2 AND NOT p_again[r.i] AND (l.flags & 4 <> 0 OR (l.horizon_us >= 0 AND v_slot - v_now > l.horizon_us)))
            OR greatest(b.tat_us, v_now) > 2305843009213693952 - b.period_us / b.permits - 1 THEN
            v_answer := 3;
        END IF;
        o_answer[r.i] := v_answer;
        o_slot[r.i] := v_slot;
        o_until[r.i] := v_slot + v_late;
        CONTINUE WHEN v_answer = 3 OR (v_answer = 1 AND NOT p_start[r.i]);
        v_part := CASE WHEN b.tat_us < v_now THEN 0 ELSE b.tat_part END + b.period_us % b.permits;
        b.tat_us := greatest(b.tat_us, v_now) + b.period_us / b.permits + v_part / b.permits;
        b.tat_part := v_part % b.permits;
        b.last_id := CASE WHEN v_answer = 2 THEN p_id[r.i] ELSE 0 END;
        b.last_slot_us := v_slot;
        v_dirty := true;
    END LOOP;
    IF v_dirty THEN v_all := v_all || b; END IF;
    UPDATE pawl_budget c SET tat_us = u.tat_us, tat_part = u.tat_part, permits = u.permits, period_us = u.period_us, burst = u.burst,
        seen_us = u.seen_us, epoch = u.epoch, last_id = u.last_id, last_slot_us = u.last_slot_us
    FROM unnest(v_all) u WHERE c.id = ANY (ARRAY[u.id]);
END $$;

-- The task, which is locked, ends or gets another body before it started. If its slot is the budget's last and lies ahead, the next one
-- gets it. p_run_at: of a pending task.
CREATE OR REPLACE FUNCTION pawl_give_back(p_now int8, p_id int8, p_type int4, p_run_at int8) RETURNS bool LANGUAGE plpgsql AS $$
DECLARE
    s pawl_slotted;
    b pawl_budget;
    l pawl_limit;
    v_slot int8 := 0;
    v_part int8;
    v_us int8;
BEGIN
    IF NOT EXISTS (SELECT FROM pawl_limit WHERE type_id = p_type) THEN RETURN false; END IF;
    DELETE FROM pawl_slotted WHERE task_id = p_id RETURNING * INTO s;
    IF s.task_id IS NOT NULL THEN
        SELECT * INTO b FROM pawl_budget WHERE id = s.budget_id FOR UPDATE;
        IF b.epoch = s.epoch THEN v_slot := p_run_at; END IF;
    ELSE
        SELECT c.* INTO b FROM pawl_body x, pawl_budget c
        WHERE x.id = p_id AND c.type_id = x.type_id AND c.key = pawl_rate_key(x.rate_key) FOR UPDATE OF c;
    END IF;
    IF b.id IS NULL OR b.permits = 0 OR p_now < b.seen_us THEN RETURN false; END IF; -- it stepped back: what lies ahead may have been used
    SELECT * INTO l FROM pawl_limit_for(b.type_id, b.key);
    IF l.type_id IS NULL OR l.flags & 8 <> 0 OR b.permits <> l.permits OR b.burst <> l.burst OR b.period_us <> l.period_us THEN
        RETURN false;
    END IF;
    IF v_slot = 0 AND b.last_id = p_id THEN v_slot := b.last_slot_us; END IF;
    IF v_slot <= p_now THEN RETURN false; END IF;
    v_part := b.tat_part - b.period_us % b.permits;
    v_us := b.tat_us - b.period_us / b.permits - CASE WHEN v_part < 0 THEN 1 ELSE 0 END;
    v_part := CASE WHEN v_part < 0 THEN v_part + b.permits ELSE v_part END;
    IF pawl_budget_slot(v_us, v_part, b.permits, b.period_us, b.burst, p_now) <> v_slot THEN RETURN false; END IF;
    UPDATE pawl_budget SET tat_us = v_us, tat_part = v_part, last_id = 0 WHERE id = b.id;
    RETURN true;
END $$;

-- ---- INSERT -----------------------------------------------------------------------------------------------------------------------

-- Slots for the INSERTs of a batch that are due and that pawl_put stores all at once; those that have to wait are rewritten so that it stores
-- them for their time. Keyed ones go one by one.
CREATE OR REPLACE FUNCTION pawl_slot_inserts(p_now int8, p_may bool, p_budget int8[], p_op int4[], p_id int8[], p_queue int4[], p_key text[],
                                  INOUT p_when int8[], INOUT p_ask bool[], INOUT p_slow bool[], OUT o_results text) LANGUAGE plpgsql AS $$
DECLARE
    n int4 := cardinality(p_op);
    v_budget int8[] := p_budget;
    v_start bool[] := array_fill(false, ARRAY[n]);
    v_paused int4[] := ARRAY(SELECT queue_id FROM pawl_queue WHERE paused);
    t record;
BEGIN
    o_results := '';
    FOR i IN 1..n LOOP
        CONTINUE WHEN v_budget[i] IS NULL;
        IF p_key[i] IS NOT NULL THEN
            p_slow := coalesce(p_slow, array_fill(false, ARRAY[n]));
            p_slow[i] := true;
        END IF;
        IF coalesce(p_slow[i], false) OR pawl_due(p_now, p_when[i]) > p_now THEN v_budget[i] := NULL; END IF;
        v_start[i] := p_may AND coalesce(p_ask[i], false) AND p_queue[i] <> ALL (v_paused);
    END LOOP;
    t := pawl_take_slots(p_now, v_budget, p_id, array_fill(false, ARRAY[n]), v_start);
    FOR i IN 1..n LOOP
        IF t.o_answer[i] = 2 THEN
            INSERT INTO pawl_slotted (task_id, budget_id, epoch) VALUES (p_id[i], v_budget[i], t.o_epoch[i]);
            p_when := coalesce(p_when, array_fill(NULL::int8, ARRAY[n]));
            p_when[i] := -t.o_slot[i];
        END IF;
        IF t.o_answer[i] > 1 THEN
            IF p_ask IS NOT NULL THEN p_ask[i] := false; END IF;
            o_results := o_results || pawl_answer(p_op[i], 1, p_id[i], 0, pawl_due(p_now, p_when[i]), 2);
        ELSIF t.o_answer[i] = 1 AND v_start[i] THEN
            o_results := o_results || 'S ' || p_op[i] || ' ' || t.o_until[i] || ' ' || t.o_epoch[i] || E'\n';
        END IF;
    END LOOP;
END $$;

-- The same for one that goes alone; its id is known. Answers what must be done to it.
CREATE OR REPLACE FUNCTION pawl_slot_insert(p_now int8, p_lease bool, INOUT u pawl_new, OUT o_lease bool, OUT o_slot text) LANGUAGE plpgsql AS $$
DECLARE
    t record;
BEGIN
    o_lease := p_lease;
    IF coalesce(u.budget, 0) = 0 OR pawl_due(p_now, u.when_us) > p_now THEN RETURN; END IF;
    t := pawl_take_slots(p_now, ARRAY[u.budget], ARRAY[u.id], ARRAY[false], ARRAY[p_lease]);
    IF t.o_answer[1] = 2 THEN
        INSERT INTO pawl_slotted (task_id, budget_id, epoch) VALUES (u.id, u.budget, t.o_epoch[1])
        ON CONFLICT (task_id) DO UPDATE SET budget_id = excluded.budget_id, epoch = excluded.epoch;
        u.when_us := -t.o_slot[1];
    END IF;
    o_lease := p_lease AND t.o_answer[1] < 2;
    IF o_lease AND t.o_answer[1] = 1 THEN o_slot := 'S ' || u.op || ' ' || t.o_until[1] || ' ' || t.o_epoch[1] || E'\n'; END IF;
END $$;

-- A task that waits gets another body: when it is due now. It keeps its slot if its rate key is the same and its time not later.
CREATE OR REPLACE FUNCTION pawl_slot_update(p_now int8, u pawl_new, p_live pawl_live, p_leased pawl_leased) RETURNS int8 LANGUAGE plpgsql AS $$
BEGIN
    IF (SELECT limits FROM pawl_gate) = 0 THEN RETURN u.when_us; END IF;
    IF p_live.type_id = u.type_id AND length(u.rate_key) > 0 AND p_live.run_at_us >= pawl_due(p_now, u.when_us) THEN
        PERFORM FROM pawl_slotted s JOIN pawl_budget b ON b.id = ANY (ARRAY[s.budget_id]) JOIN pawl_body x ON x.id = ANY (ARRAY[s.task_id])
        WHERE s.task_id = p_live.id AND x.rate_key = u.rate_key AND b.key = pawl_rate_key(u.rate_key) AND b.epoch = s.epoch
            AND EXISTS (SELECT FROM pawl_limit_for(b.type_id, b.key));
        IF FOUND THEN RETURN -p_live.run_at_us; END IF;
    END IF;
    IF u.budget = 0 THEN
        DELETE FROM pawl_slotted WHERE task_id = coalesce(p_live.id, p_leased.id);
        RETURN u.when_us;
    END IF;
    PERFORM pawl_give_back(p_now, coalesce(p_live.id, p_leased.id), coalesce(p_live.type_id, p_leased.type_id), coalesce(p_live.run_at_us, 0));
    u.id := coalesce(p_live.id, p_leased.id);
    u := (pawl_slot_insert(p_now, false, u)).u;
    RETURN u.when_us;
END $$;

-- ---- leases -----------------------------------------------------------------------------------------------------------------------

-- What a claim tells of tasks of limited types, one line each: "S id until_us epoch", until_us 0: it has no slot. Their slots leave with
-- them, and keyed ones may be taken back until they start. p_lanes: those of the ready index that they came from. And "F queue_id ...": the
-- queues that are flooded (floods.sql).
CREATE OR REPLACE FUNCTION pawl_slots_told(p_id int8[], p_lanes int8[]) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
    v_types int4[];
    v_limited int4[];
    v_text text;
BEGIN
    IF (SELECT limits FROM pawl_gate) = 0 THEN RETURN ''; END IF;
    v_types := ARRAY(SELECT x.t FROM (SELECT DISTINCT (y & 4294967295)::int4 AS t FROM unnest(p_lanes) y) x
                     WHERE EXISTS (SELECT FROM pawl_limit l WHERE l.type_id = x.t));
    IF cardinality(v_types) = 0 THEN RETURN ''; END IF;
    v_limited := ARRAY(SELECT x FROM unnest(v_types) x
                       WHERE EXISTS (SELECT FROM pawl_limit l WHERE l.type_id = x AND pawl_in_force(l.permits, l.flags)));
    UPDATE pawl_leased l SET not_started = true FROM unnest(p_id) u (id), pawl_body b
    WHERE l.id = ANY (ARRAY[u.id]) AND b.id = ANY (ARRAY[u.id]) AND l.type_id = ANY (v_limited) AND b.key IS NOT NULL AND NOT l.not_started;
    WITH s AS (DELETE FROM pawl_slotted s USING unnest(p_id) u (id) WHERE s.task_id = ANY (ARRAY[u.id]) RETURNING s.*)
    SELECT string_agg('S ' || l.id || ' ' || CASE WHEN b.epoch = s.epoch AND m.flags & 8 = 0 THEN l.run_at_us + pawl_limit_late(m) ELSE 0 END
                      || ' ' || coalesce(s.epoch, 0) || E'\n', '')
    INTO v_text
    FROM unnest(p_id) u (id) JOIN pawl_leased l ON l.id = ANY (ARRAY[u.id]) LEFT JOIN s ON s.task_id = u.id
    LEFT JOIN pawl_budget b ON b.id = ANY (ARRAY[s.budget_id]) LEFT JOIN LATERAL pawl_limit_for(b.type_id, b.key) m ON true
    WHERE l.type_id = ANY (v_limited);
    RETURN coalesce(v_text, '') || coalesce('F ' || nullif(current_setting('pawl.flooded', true), '') || E'\n', '');
END $$;

-- RELEASE with a slot that was not used (kind 4), and FINISH of what never ran (kind 3): after pawl_end.
CREATE OR REPLACE FUNCTION pawl_slot_ends(p_now int8, p_kind int2[], p_id int8[], p_fence int8[], p_key bytea[], p_epoch int8[]) RETURNS bool
LANGUAGE plpgsql AS $$
DECLARE
    r record;
BEGIN
    IF (SELECT limits FROM pawl_gate) = 0 THEN RETURN false; END IF;
    INSERT INTO pawl_slotted (task_id, budget_id, epoch)
    SELECT v.id, c.id, u.epoch FROM unnest(p_kind, p_id, p_fence, p_key, p_epoch) u (kind, id, fence, key, epoch)
    JOIN pawl_live v ON v.id = ANY (ARRAY[u.id]) AND v.fence = u.fence JOIN pawl_body b ON b.id = ANY (ARRAY[u.id])
    JOIN pawl_budget c ON c.type_id = ANY (ARRAY[v.type_id])
        AND c.key = ANY (ARRAY[pawl_rate_key(coalesce(nullif(b.rate_key, ''), u.key))])
    WHERE u.kind = 4 ON CONFLICT DO NOTHING;
    FOR r IN SELECT u.id, b.type_id FROM unnest(p_kind, p_id, p_fence) u (kind, id, fence) JOIN pawl_body b ON b.id = ANY (ARRAY[u.id])
             WHERE u.kind = 3 AND (EXISTS (SELECT FROM pawl_done d WHERE d.id = u.id AND d.fence = u.fence AND d.finished_us = p_now)
                                   OR EXISTS (SELECT FROM pawl_failed d WHERE d.id = u.id AND d.fence = u.fence AND d.finished_us = p_now))
    LOOP
        PERFORM pawl_give_back(p_now, r.id, r.type_id, 0);
    END LOOP;
    RETURN true;
END $$;

-- RESERVE (kind 10). What has a slot farther away than p_near goes back at once, to wait for it; o_leases: leases of the node that so ended.
-- How many of a budget were taken along is told by the first operation of it, in a line "A op count"; the limit that refuses one, by a line
-- "P op permits period burst horizon flags".
CREATE OR REPLACE FUNCTION pawl_reserve(p_now int8, p_node int4, p_lane int8, p_budget int8[], p_op int4[], p_kind int2[], p_id int8[], p_fence int8[],
                             p_near int8[], p_again bool[], p_level int2[], OUT o_results text, OUT o_hints text, OUT o_leases int8)
LANGUAGE plpgsql AS $$
DECLARE
    v_did bool;
    v_along int8[] := '{}';
    x record;
    t record;
    r record;
    s record;
BEGIN
    o_hints := '';
    o_leases := 0;
    PERFORM FROM pawl_leased WHERE id = ANY (p_id) ORDER BY id FOR UPDATE;
    SELECT array_agg(u.op ORDER BY u.i) AS op, array_agg(u.id ORDER BY u.i) AS id, array_agg(u.near ORDER BY u.i) AS near,
        array_agg(u.again ORDER BY u.i) AS again, array_agg(u.level ORDER BY u.i) AS level, array_agg(l.cancel_asked ORDER BY u.i) AS cancel,
        array_agg(CASE WHEN l.cancel_asked OR (l.failures > 0 AND pawl_retry_free(u.budget)) THEN NULL ELSE u.budget END ORDER BY u.i) AS budget
    INTO x
    FROM unnest(p_op, p_kind, p_id, p_fence, p_near, p_again, p_level, p_budget)
            WITH ORDINALITY u (op, kind, id, fence, near, again, level, budget, i)
    JOIN pawl_leased l ON l.id = ANY (ARRAY[u.id]) AND l.fence = u.fence
    WHERE u.kind = 10;
    o_results := '';
    IF x.op IS NULL OR cardinality(x.op) < cardinality(array_positions(p_kind, 10::int2)) THEN
        SELECT pawl_stale(array_agg(u.op), array_agg(u.id), array_agg(u.fence), array_agg(6)) INTO o_results
        FROM unnest(p_op, p_kind, p_id, p_fence) u (op, kind, id, fence) WHERE u.kind = 10 AND (x.op IS NULL OR u.op <> ALL (x.op));
    END IF;
    IF x.op IS NULL THEN RETURN; END IF;
    t := pawl_take_slots(p_now, x.budget, x.id, x.again, array_fill(true, ARRAY[cardinality(x.op)]));
    SELECT o_results || string_agg(
        CASE WHEN u.cancel THEN pawl_answer(u.op, 7, 0, 0, 0, 3)
             WHEN u.answer = 3 THEN pawl_answer(u.op, 15, 0, 0, u.slot, 3)
             WHEN u.answer = 2 AND u.slot - p_now > u.near THEN pawl_answer(u.op, 14, 0, 0, u.slot, 2)
             ELSE pawl_answer(u.op, 1, 0, 0, u.slot, 3) END || 'S ' || u.op || ' ' || u.until || ' ' || u.epoch || E'\n', '')
    INTO o_results
    FROM unnest(x.op, x.near, x.cancel, t.o_answer, t.o_slot, t.o_until, t.o_epoch) u (op, near, cancel, answer, slot, until, epoch);
    IF 3 = ANY (t.o_answer) THEN
        SELECT o_results || coalesce(string_agg('P ' || u.op || ' ' || l.permits || ' ' || l.period_us || ' ' || l.burst || ' ' || l.horizon_us
            || ' ' || l.flags || E'\n', ''), '') -- the limit may have been taken away since
        INTO o_results
        FROM unnest(x.op, x.budget, t.o_answer) u (op, budget, answer) JOIN pawl_budget c ON c.id = ANY (ARRAY[u.budget]),
            LATERAL (SELECT * FROM pawl_limit y WHERE y.type_id = c.type_id AND y.key = ANY (ARRAY[c.key, ''::bytea])
                         AND pawl_in_force(y.permits, y.flags) ORDER BY y.key DESC LIMIT 1) l
        WHERE u.answer = 3;
    END IF;
    FOR r IN
        WITH w AS (
            SELECT u.id, u.slot, u.budget, u.level, u.epoch FROM unnest(x.id, x.near, x.budget, x.level, t.o_answer, t.o_slot, t.o_epoch)
                u (id, near, budget, level, answer, slot, epoch)
            WHERE u.answer = 2 AND u.slot - p_now > u.near),
        l AS (
            DELETE FROM pawl_leased l USING w WHERE l.id = ANY (ARRAY[w.id])
            RETURNING l.*, w.slot, w.budget, w.level AS op_level, w.epoch),
        live AS (
            INSERT INTO pawl_live (id, run_at_us, queue_id, type_id, fence, priority, class, state, level, runs, failures, interruptions,
                                   rescues, strikes, blocked)
            SELECT id, slot, queue_id, type_id, fence, priority, class, 2, level, runs, failures, interruptions, rescues, strikes, false FROM l),
        slotted AS (INSERT INTO pawl_slotted (task_id, budget_id, epoch) SELECT id, budget, epoch FROM l),
        trail AS (
            INSERT INTO pawl_audit (task_id, number, at_us, from_state, to_state, fence, node, detail)
            SELECT l.id, coalesce((SELECT max(a.number) FROM pawl_audit a WHERE a.task_id = l.id), 0)
                    + CASE WHEN g.grants OR l.level <> 1 THEN 1 ELSE 2 END,
                CASE WHEN g.grants THEN l.leased_us ELSE p_now END, CASE WHEN NOT g.grants THEN 3 WHEN l.run_at_us IS NULL THEN 0 ELSE 2 END,
                CASE WHEN g.grants THEN 3 ELSE 2 END, l.fence, l.node, CASE WHEN NOT g.grants THEN 'throttled' END
            FROM l, (VALUES (true), (false)) g (grants)
            WHERE CASE WHEN g.grants THEN l.level = 1 ELSE pawl_wanted(l.op_level, 0) END)
        SELECT node, queue_id, type_id, priority, class, count(*) AS n, min(slot) AS due_us, array_agg(DISTINCT budget) AS budgets
        FROM l GROUP BY 1, 2, 3, 4, 5
    LOOP
        IF r.node = p_node THEN o_leases := o_leases - r.n; ELSE v_did := pawl_take(r.node, -r.n, p_node, p_lane); END IF;
        v_did := pawl_add(p_node, p_lane, r.queue_id, r.n, -r.n, 0);
        o_hints := o_hints || pawl_hint(r.queue_id, r.priority, r.class, r.type_id, r.due_us);
        CONTINUE WHEN r.n < 2;
        s := pawl_lay_out(p_now, r.queue_id, pawl_lane_of(r.priority, r.class, r.type_id), r.budgets, 60); -- briefly: others share the server
        v_along := v_along || s.o_budgets;
    END LOOP;
    IF cardinality(v_along) > 0 THEN
        SELECT o_results || string_agg('A ' || m.op || ' ' || a.n || E'\n', '') INTO o_results
        FROM (SELECT u.id, count(*) AS n FROM unnest(v_along) u (id) GROUP BY 1) a
        JOIN (SELECT u.budget, min(u.op) AS op FROM unnest(x.op, x.near, x.budget, t.o_answer, t.o_slot) u (op, near, budget, answer, slot)
              WHERE u.answer = 2 AND u.slot - p_now > u.near GROUP BY 1) m ON m.budget = a.id;
    END IF;
END $$;

CREATE OR REPLACE FUNCTION pawl_retry_free(p_budget int8) RETURNS bool LANGUAGE plpgsql STABLE AS $$
BEGIN
    RETURN EXISTS (SELECT FROM pawl_budget b, pawl_limit_for(b.type_id, b.key) m WHERE b.id = p_budget AND m.flags & 2 <> 0);
END $$;

-- ---- upkeep, looking --------------------------------------------------------------------------------------------------------------

-- Budgets that are whole and were not used for an hour are as good as none. One step of the search; whoever calls does it alone.
CREATE OR REPLACE FUNCTION pawl_sweep_budgets(p_now int8, p_limit int4) RETURNS int4 LANGUAGE plpgsql AS $$
DECLARE
    v_from int8 := (SELECT last_value FROM pawl_budget_walk);
    v_ids int8[];
    v_idle int8[];
BEGIN
    v_ids := ARRAY(SELECT id FROM pawl_budget WHERE id > v_from ORDER BY id LIMIT 500);
    v_idle := ARRAY(SELECT b.id FROM pawl_budget b WHERE b.id = ANY (v_ids) AND b.tat_us < p_now - 3600000000 AND b.seen_us < p_now - 3600000000
                        AND NOT EXISTS (SELECT FROM pawl_slotted s WHERE s.budget_id = ANY (ARRAY[b.id]))
                    ORDER BY b.id LIMIT p_limit FOR UPDATE SKIP LOCKED);
    DELETE FROM pawl_budget WHERE id = ANY (v_idle);
    IF v_from > 0 OR cardinality(v_ids) = 500 THEN
        PERFORM setval('pawl_budget_walk', CASE WHEN cardinality(v_ids) < 500 THEN 0 ELSE v_ids[500] END);
    END IF;
    RETURN cardinality(v_idle);
END $$;

-- The key after p_after (NULL: the first) of a type: one with a limit of its own, or with a budget.
CREATE OR REPLACE FUNCTION pawl_limits_next(p_type int4, p_after bytea, p_waiting bool) RETURNS bytea LANGUAGE plpgsql STABLE AS $$
DECLARE
    v_limit bytea;
    v_budget bytea;
BEGIN
    SELECT l.key INTO v_limit FROM pawl_limit l
    WHERE l.type_id = p_type AND l.key >= coalesce(p_after, '') AND l.key IS DISTINCT FROM p_after AND pawl_in_force(l.permits, l.flags)
    ORDER BY l.key LIMIT 1;
    SELECT b.key INTO v_budget FROM pawl_budget b
    WHERE b.type_id = p_type AND b.key >= coalesce(p_after, '') AND b.key IS DISTINCT FROM p_after
        AND (NOT p_waiting OR EXISTS (SELECT FROM pawl_slotted s WHERE s.budget_id = ANY (ARRAY[b.id])))
    ORDER BY b.key LIMIT 1;
    RETURN least(v_limit, v_budget);
END $$;

-- Limits, and budgets of types that have one, from a place on in the order of types and keys. own: the limit is that of the key. p_waiting:
-- only where tasks wait. tat_us and what follows are NULL where no budget was used. One key is
-- looked up, and types are found from one to the next of the index.
CREATE OR REPLACE FUNCTION pawl_limits(p_clock int8[], p_type text, p_key bytea, p_only_type text, p_only_key bytea, p_waiting bool, p_limit int4)
RETURNS TABLE (now_us int8, type text, key bytea, own bool, permits int4, period_us int8, burst int4, horizon_us int8, flags int4,
               waiting int8, tat_us int8, tat_part int4, b_permits int4, b_period_us int8, b_burst int4, seen_us int8, epoch int8)
LANGUAGE plpgsql STABLE SET search_path FROM CURRENT SET plan_cache_mode = force_generic_plan SET enable_seqscan = off SET jit = off AS $$
DECLARE
    t record;
    l pawl_limit;
    b pawl_budget;
    v_count int4 := 0;
BEGIN
    now_us := coalesce(p_clock[1], pawl_now());
    FOR t IN WITH RECURSIVE y AS (
                 SELECT min(x.type_id) AS id FROM pawl_limit x
                 UNION ALL
                 SELECT (SELECT min(x.type_id) FROM pawl_limit x WHERE x.type_id > y.id) FROM y WHERE y.id IS NOT NULL)
             SELECT n.id, n.text::text AS text FROM y JOIN pawl_name n ON n.id = ANY (ARRAY[y.id])
             WHERE n.text >= p_type AND (p_only_type IS NULL OR n.text = p_only_type) ORDER BY n.text LOOP
        type := t.text;
        key := CASE WHEN t.text = p_type THEN p_key END;
        LOOP
            key := CASE WHEN p_only_key IS NULL THEN pawl_limits_next(t.id, key, p_waiting)
                        WHEN key IS NULL OR key < p_only_key THEN p_only_key END;
            EXIT WHEN key IS NULL;
            SELECT * INTO l FROM pawl_limit x WHERE x.type_id = t.id AND x.key = pawl_limits.key AND pawl_in_force(x.permits, x.flags);
            own := FOUND;
            IF NOT own THEN
                SELECT * INTO l FROM pawl_limit x WHERE x.type_id = t.id AND x.key = '' AND pawl_in_force(x.permits, x.flags);
                CONTINUE WHEN NOT FOUND;
            END IF;
            SELECT * INTO b FROM pawl_budget x WHERE x.type_id = t.id AND x.key = pawl_limits.key;
            CONTINUE WHEN b.id IS NULL AND NOT own;
            waiting := 0;
            IF b.id IS NOT NULL THEN
                waiting := (SELECT count(*) FROM pawl_slotted s JOIN pawl_live v ON v.id = ANY (ARRAY[s.task_id])
                            WHERE s.budget_id = b.id AND v.run_at_us > pawl_limits.now_us);
            END IF;
            CONTINUE WHEN p_waiting AND waiting = 0;
            SELECT l.permits, l.period_us, l.burst, l.horizon_us, l.flags, b.tat_us, b.tat_part, b.permits, b.period_us, b.burst, b.seen_us,
                b.epoch
            INTO permits, period_us, burst, horizon_us, flags, tat_us, tat_part, b_permits, b_period_us, b_burst, seen_us, epoch;
            RETURN NEXT;
            v_count := v_count + 1;
            IF v_count = p_limit THEN RETURN; END IF;
        END LOOP;
    END LOOP;
END $$;

-- Whether tasks of the type and key run one after the other.
CREATE OR REPLACE FUNCTION pawl_in_line(p_type int4, p_key bytea) RETURNS bool LANGUAGE sql STABLE AS
$$ SELECT length(p_key) > 0 AND EXISTS (SELECT FROM pawl_bound_for(3::int2, p_type, pawl_rate_key(p_key)) b WHERE b.ordered) $$;
