-- Concurrency limits, and queues whose tenants take turns: see CONCURRENCY LIMITS and TENANTS in pawl/store.h.
--
-- pawl_live.blocked means that a task is not in the ready index. It then has a row in pawl_blocked (it waits for a place of a spot) or in
-- pawl_shared (it waits for its tenant's turn). These are tables of their own, so that other tasks do not pay for them; a row comes and goes
-- under the lock of the task's row in pawl_live.
--
-- LOCKS. Whoever looks at a spot in order to write has its row locked, and has pawl_node locked as a table in ROW SHARE mode or above (as has
-- everybody who locks a life row). Whoever changes a bound locks that table in EXCLUSIVE mode: so while a bound changes nobody has
-- a spot, and nobody grants a lease who has not seen it. What ends leases without having seen a bound that came meanwhile finds out
-- at its end, and is made again (pawl_apply). Spots are locked by number, before keys and tasks; claims, which meet tasks one after
-- another, wait only for spots above all that they have, and leave the others to the next claim.
--
-- Transactions of the caller's own lock no spots, for nobody knows when they end: places that they free are in pawl_freed, and the next
-- claim offers them. What they insert joins a line when a claim meets it.

-- ---- bounds -----------------------------------------------------------------------------------------------------------------------

-- The bound that counts for a spot, if there is one: of a type's key its own, or that of all.
CREATE OR REPLACE FUNCTION pawl_bound_for(p_scope int2, p_name int4, p_key bytea) RETURNS SETOF pawl_bound LANGUAGE sql STABLE AS $$
    SELECT * FROM pawl_bound WHERE scope = p_scope AND name_id = p_name AND key = ANY (ARRAY[p_key, ''::bytea]) AND most > 0
    ORDER BY key DESC LIMIT 1
$$;

-- Whether tasks of this kind may need places. A session plans it once.
CREATE OR REPLACE FUNCTION pawl_bounded(p_queue int4, p_type int4) RETURNS bool LANGUAGE plpgsql STABLE AS $$
BEGIN
    RETURN EXISTS (SELECT FROM pawl_bound b WHERE b.scope = 1 AND b.name_id = p_queue AND b.most > 0)
        OR EXISTS (SELECT FROM pawl_bound b WHERE b.scope = 2 AND b.name_id = p_type AND b.most > 0)
        OR EXISTS (SELECT FROM pawl_bound b WHERE b.scope = 3 AND b.name_id = p_type AND b.most > 0);
END $$;

-- What tasks need places of, by their position i. The key of an ordered bound comes first, for its line is joined whatever else is full.
CREATE OR REPLACE FUNCTION pawl_wants(p_queue int4[], p_type int4[], p_rate_key bytea[], OUT i int4[], OUT scope int2[], OUT name int4[],
                           OUT key bytea[], OUT most int4[], OUT ordered bool[]) LANGUAGE plpgsql STABLE AS $$
BEGIN
    IF NOT EXISTS (SELECT FROM (SELECT DISTINCT u.queue, u.type FROM unnest(p_queue, p_type) u (queue, type) OFFSET 0) k
                   WHERE pawl_bounded(k.queue, k.type)) THEN RETURN; END IF;
    SELECT array_agg(w.i ORDER BY w.i, w.ordered DESC, w.scope), array_agg(w.scope ORDER BY w.i, w.ordered DESC, w.scope),
        array_agg(w.name_id ORDER BY w.i, w.ordered DESC, w.scope), array_agg(w.key ORDER BY w.i, w.ordered DESC, w.scope),
        array_agg(w.most ORDER BY w.i, w.ordered DESC, w.scope), array_agg(w.ordered ORDER BY w.i, w.ordered DESC, w.scope)
    INTO i, scope, name, key, most, ordered
    FROM (
        SELECT u.i::int4 AS i, x.scope, x.name_id, CASE WHEN x.scope = 3 THEN pawl_rate_key(u.rate_key) ELSE ''::bytea END AS key,
            b.most, b.ordered
        FROM unnest(p_queue, p_type, p_rate_key) WITH ORDINALITY u (queue, type, rate_key, i),
            LATERAL (VALUES (1::int2, u.queue), (2::int2, u.type), (3::int2, u.type)) x (scope, name_id),
            LATERAL pawl_bound_for(x.scope, x.name_id, CASE WHEN x.scope = 3 THEN pawl_rate_key(u.rate_key) ELSE ''::bytea END) b
        WHERE x.scope < 3 OR length(u.rate_key) > 0) w;
END $$;

-- The same of tasks that are stored.
CREATE OR REPLACE FUNCTION pawl_wants_of(p_ids int8[], OUT i int4[], OUT scope int2[], OUT name int4[], OUT key bytea[], OUT most int4[],
                              OUT ordered bool[]) LANGUAGE plpgsql STABLE AS $$
DECLARE
    b record;
BEGIN
    SELECT array_agg(x.queue_id ORDER BY u.i) AS queue, array_agg(x.type_id ORDER BY u.i) AS type, array_agg(x.rate_key ORDER BY u.i) AS rate_key
    INTO b FROM unnest(p_ids) WITH ORDINALITY u (id, i) LEFT JOIN pawl_body x ON x.id = ANY (ARRAY[u.id]);
    SELECT w.* INTO i, scope, name, key, most, ordered FROM pawl_wants(b.queue, b.type, b.rate_key) w;
END $$;

-- ---- spots ------------------------------------------------------------------------------------------------------------------------

-- The numbers of spots, which are made if p_make, locked. Those not above p_held are locked only if nobody has them: NULL where
-- somebody does, and where there is none. p_also: others to be locked.
CREATE OR REPLACE FUNCTION pawl_hold_spots(p_scope int2[], p_name int4[], p_key bytea[], p_make bool[], p_also int8[], p_held int8,
                                OUT o_ids int8[], OUT o_held int8) LANGUAGE plpgsql AS $$
DECLARE
    v_ids int8[];
    v_wait int8[];
    v_got int8[];
BEGIN
    LOOP
        o_ids := ARRAY(SELECT s.id FROM unnest(p_scope, p_name, p_key) WITH ORDINALITY u (scope, name, key, i)
                       LEFT JOIN pawl_spot s ON s.scope = ANY (ARRAY[u.scope]) AND s.name_id = ANY (ARRAY[u.name]) AND s.key = ANY (ARRAY[u.key])
                       ORDER BY u.i);
        IF EXISTS (SELECT FROM unnest(o_ids, p_make) u (id, make) WHERE u.id IS NULL AND u.make) THEN
            INSERT INTO pawl_spot (scope, name_id, key)
            SELECT DISTINCT u.scope, u.name, u.key FROM unnest(p_scope, p_name, p_key, p_make, o_ids) u (scope, name, key, make, id)
            WHERE u.id IS NULL AND u.make ORDER BY 1, 2, 3 ON CONFLICT DO NOTHING;
            CONTINUE;
        END IF;
        v_ids := o_ids || p_also;
        v_wait := ARRAY(SELECT DISTINCT x FROM unnest(v_ids) x WHERE x > p_held);
        v_got := ARRAY(SELECT s.id FROM pawl_spot s WHERE s.id = ANY (v_wait) ORDER BY s.id FOR UPDATE);
        EXIT WHEN cardinality(v_got) = cardinality(v_wait);
        p_also := ARRAY(SELECT x FROM unnest(p_also) x WHERE x <> ALL (v_wait) OR x = ANY (v_got)); -- one was swept this moment
    END LOOP;
    o_held := greatest(p_held, v_got[cardinality(v_got)]);
    IF p_held > 0 THEN
        v_got := v_got || ARRAY(SELECT s.id FROM pawl_spot s WHERE s.id = ANY (v_ids) AND s.id <= p_held ORDER BY s.id FOR UPDATE SKIP LOCKED);
        o_ids := ARRAY(SELECT CASE WHEN u.id = ANY (v_got) THEN u.id END FROM unnest(o_ids) WITH ORDINALITY u (id, i) ORDER BY u.i);
    END IF;
END $$;

-- How spots stand, which are locked: places taken, and who is first in the line.
CREATE OR REPLACE FUNCTION pawl_spots_stand(p_spots int8[], OUT id int8[], OUT taken int4[], OUT first int8[]) LANGUAGE plpgsql AS $$
BEGIN
    SELECT array_agg(s.id), array_agg(s.taken), array_agg(s.first) INTO id, taken, first FROM (
        SELECT x.id, (SELECT count(*)::int4 FROM pawl_place p WHERE p.spot_id = x.id) AS taken,
            (SELECT k.task_id FROM pawl_blocked k WHERE k.spot_id = x.id ORDER BY k.task_id LIMIT 1) AS first
        FROM (SELECT DISTINCT u AS id FROM unnest(p_spots) u WHERE u IS NOT NULL) x) s;
END $$;

-- Each task gets the lowest number that is free.
CREATE OR REPLACE FUNCTION pawl_take_places(p_spots int8[], p_tasks int8[]) RETURNS bool LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO pawl_place (spot_id, number, task_id)
    SELECT t.spot, f.numbers[t.r], t.task
    FROM (SELECT u.spot, u.task, row_number() OVER (PARTITION BY u.spot ORDER BY u.i) AS r
          FROM unnest(p_spots, p_tasks) WITH ORDINALITY u (spot, task, i)) t
    JOIN (SELECT u.spot, ARRAY(SELECT generate_series(1, u.n + (SELECT count(*)::int4 FROM pawl_place p WHERE p.spot_id = u.spot))
                               EXCEPT SELECT p.number FROM pawl_place p WHERE p.spot_id = u.spot ORDER BY 1) AS numbers
          FROM (SELECT x.spot, count(*)::int4 AS n FROM unnest(p_spots) x (spot) GROUP BY x.spot) u) f ON f.spot = t.spot;
    RETURN true;
END $$;

-- Pending tasks, which are locked, are blocked at spots. A slot that one has is nobody's any more.
CREATE OR REPLACE FUNCTION pawl_block(p_ids int8[], p_spots int8[]) RETURNS bool LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO pawl_blocked (task_id, spot_id, queue_id, type_id, class, tenant_id, priority, run_at_us)
    SELECT v.id, u.spot, v.queue_id, v.type_id, v.class, CASE WHEN pawl_takes_turns(v.queue_id) THEN coalesce(b.tenant_id, 0) ELSE -1 END,
        v.priority, v.run_at_us
    FROM unnest(p_ids, p_spots) u (id, spot) JOIN pawl_live v ON v.id = ANY (ARRAY[u.id]) JOIN pawl_body b ON b.id = ANY (ARRAY[u.id]);
    UPDATE pawl_live SET blocked = true WHERE id = ANY (p_ids) AND NOT blocked;
    DELETE FROM pawl_shared WHERE task_id = ANY (p_ids);
    DELETE FROM pawl_slotted WHERE task_id = ANY (p_ids);
    RETURN true;
END $$;

-- The contrary; they are locked. Hints for those who claim.
CREATE OR REPLACE FUNCTION pawl_unblock(p_ids int8[]) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
    v_did bool;
    v_hints text;
BEGIN
    DELETE FROM pawl_blocked WHERE task_id = ANY (p_ids);
    WITH x AS (UPDATE pawl_live SET blocked = false WHERE id = ANY (p_ids) RETURNING queue_id, priority, class, type_id, run_at_us),
    y AS (SELECT queue_id, priority, class, type_id, min(run_at_us) AS due_us FROM x GROUP BY 1, 2, 3, 4)
    SELECT string_agg(pawl_hint(queue_id, priority, class, type_id, due_us), '') INTO v_hints FROM y;
    v_did := pawl_share(p_ids);
    RETURN coalesce(v_hints, '');
END $$;

-- ---- offers -----------------------------------------------------------------------------------------------------------------------

-- Offers what is free at spots, which are locked, to the tasks that are blocked there: of each lane as many as there are places; p_most at
-- once at the most. A task that somebody has locked is passed over, and the spot is left to the next claim.
CREATE OR REPLACE FUNCTION pawl_offer(p_spots int8[], p_most int4, OUT o_count int4, OUT o_hints text) LANGUAGE plpgsql AS $$
DECLARE
    v_did bool;
    v_ids int8[];
    v_free int4;
    v_skipped bool;
    r record;
    l record;
BEGIN
    o_count := 0;
    o_hints := '';
    FOR r IN
        SELECT s.id, coalesce(b.most, 0) AS most, coalesce(b.ordered, false) AS ordered,
            (SELECT count(*)::int4 FROM pawl_place p WHERE p.spot_id = s.id) AS taken
        FROM (SELECT DISTINCT x AS id FROM unnest(p_spots) x) u JOIN pawl_spot s ON s.id = ANY (ARRAY[u.id])
        LEFT JOIN LATERAL pawl_bound_for(s.scope, s.name_id, s.key) b ON true
        WHERE EXISTS (SELECT FROM pawl_blocked k WHERE k.spot_id = ANY (ARRAY[u.id])) ORDER BY u.id
    LOOP
        EXIT WHEN o_count >= p_most;
        v_ids := '{}';
        v_skipped := false;
        IF r.ordered THEN
            CONTINUE WHEN r.taken > 0;
            v_ids := ARRAY(SELECT v.id FROM pawl_live v WHERE v.id = (SELECT min(k.task_id) FROM pawl_blocked k WHERE k.spot_id = r.id)
                           FOR UPDATE SKIP LOCKED);
            v_skipped := cardinality(v_ids) = 0;
            IF NOT v_skipped THEN v_did := pawl_take_places(ARRAY[r.id], v_ids); END IF;
        ELSE
            v_free := CASE WHEN r.most > 0 THEN r.most - r.taken ELSE p_most END;
            CONTINUE WHEN v_free <= 0;
            SELECT 0 AS queue_id, 0 AS type_id, 0::int2 AS class, -1 AS tenant_id, 0::int8 AS n INTO l;
            LOOP
                SELECT k.queue_id, k.type_id, k.class, k.tenant_id INTO l FROM pawl_blocked k
                WHERE k.spot_id = r.id AND (k.queue_id, k.type_id, k.class, k.tenant_id) > (l.queue_id, l.type_id, l.class, l.tenant_id)
                ORDER BY k.queue_id, k.type_id, k.class, k.tenant_id LIMIT 1;
                EXIT WHEN NOT FOUND OR o_count + cardinality(v_ids) >= p_most;
                v_ids := v_ids || ARRAY(
                    SELECT v.id FROM pawl_blocked k JOIN pawl_live v ON v.id = ANY (ARRAY[k.task_id])
                    WHERE k.spot_id = r.id AND k.queue_id = l.queue_id AND k.type_id = l.type_id AND k.class = l.class AND k.tenant_id = l.tenant_id
                    ORDER BY k.priority, k.run_at_us, k.task_id LIMIT least(v_free, p_most - o_count - cardinality(v_ids))
                    FOR UPDATE OF v SKIP LOCKED);
            END LOOP;
            v_skipped := cardinality(v_ids) = 0;
        END IF;
        IF v_skipped THEN INSERT INTO pawl_freed (spot_id) VALUES (r.id); END IF;
        CONTINUE WHEN cardinality(v_ids) = 0;
        o_count := o_count + cardinality(v_ids);
        o_hints := o_hints || pawl_unblock(v_ids);
    END LOOP;
END $$;

-- What others left: places that were freed in transactions of the caller's own. p_held: see pawl_hold_spots.
CREATE OR REPLACE FUNCTION pawl_offer_freed(OUT o_count int4, OUT o_hints text, OUT o_held int8) LANGUAGE plpgsql AS $$
DECLARE
    v_spots int8[] := ARRAY(SELECT DISTINCT spot_id FROM (SELECT spot_id FROM pawl_freed LIMIT 1000) f);
BEGIN
    v_spots := ARRAY(SELECT s.id FROM pawl_spot s WHERE s.id = ANY (v_spots) ORDER BY s.id FOR UPDATE);
    DELETE FROM pawl_freed WHERE ctid = ANY (ARRAY(SELECT f.ctid FROM pawl_freed f
        WHERE f.spot_id = ANY (v_spots) OR NOT EXISTS (SELECT FROM pawl_spot s WHERE s.id = f.spot_id) LIMIT 5000 FOR UPDATE SKIP LOCKED));
    o_held := coalesce(v_spots[cardinality(v_spots)], 0);
    SELECT x.o_count, x.o_hints INTO o_count, o_hints FROM pawl_offer(v_spots, 2000) x;
END $$;

-- ---- the end of leases ------------------------------------------------------------------------------------------------------------

-- Leases of these tasks may have ended: those that have no lease any more have no places, but that an ordered one is kept by a task that
-- comes back. (Several have one only if they were leased when the bound was put.) Answers the spots where places are free now.
CREATE OR REPLACE FUNCTION pawl_leave_places(p_ids int8[]) RETURNS int8[] LANGUAGE plpgsql AS $$
DECLARE
    v_spots int8[];
BEGIN
    WITH d AS (
        DELETE FROM pawl_place p
        WHERE p.task_id = ANY (p_ids) AND NOT EXISTS (SELECT FROM pawl_leased l WHERE l.id = ANY (ARRAY[p.task_id]))
            AND NOT (EXISTS (SELECT FROM pawl_live v WHERE v.id = ANY (ARRAY[p.task_id]))
                     AND (SELECT count(*) FROM pawl_place x WHERE x.spot_id = p.spot_id) = 1
                     AND EXISTS (SELECT FROM pawl_spot s, pawl_bound_for(s.scope, s.name_id, s.key) b WHERE s.id = p.spot_id AND b.ordered))
        RETURNING p.spot_id)
    SELECT coalesce(array_agg(DISTINCT spot_id), '{}') INTO v_spots FROM d;
    RETURN v_spots;
END $$;

-- A task that has not started, and is held, ends or gets another body: it has no places any more and waits for none. Somebody else may get
-- what it would have got.
CREATE OR REPLACE FUNCTION pawl_withdraw(p_id int8) RETURNS bool LANGUAGE plpgsql AS $$
DECLARE
    w record;
    v_spots int8[];
BEGIN
    IF (SELECT bounds FROM pawl_gate) = 0 THEN RETURN false; END IF;
    w := pawl_wants_of(ARRAY[p_id]);
    v_spots := ARRAY(SELECT s.id FROM unnest(w.scope, w.name, w.key) u (scope, name, key)
                     JOIN pawl_spot s ON s.scope = ANY (ARRAY[u.scope]) AND s.name_id = ANY (ARRAY[u.name]) AND s.key = ANY (ARRAY[u.key]));
    WITH p AS (DELETE FROM pawl_place WHERE task_id = p_id RETURNING spot_id),
    k AS (DELETE FROM pawl_blocked WHERE task_id = p_id RETURNING spot_id),
    h AS (DELETE FROM pawl_shared WHERE task_id = p_id)
    INSERT INTO pawl_freed (spot_id) SELECT x FROM unnest(v_spots) x UNION SELECT spot_id FROM p UNION SELECT spot_id FROM k;
    UPDATE pawl_live SET blocked = false WHERE id = p_id AND blocked;
    RETURN true;
END $$;

-- ---- batches ----------------------------------------------------------------------------------------------------------------------

-- Locks the spots that a batch may write at: where the leases that end (p_ends) have places; what tasks want that are cancelled or replaced; and,
-- of tasks that are new (i_), those that are full, or keep an order. Found as well as they can be without locks.
CREATE OR REPLACE FUNCTION pawl_hold_places(p_now int8, p_ends int8[], o_kind int2[], o_id int8[], i_queue int4[], i_type int4[], i_rate_key bytea[],
                                 i_when int8[], i_key text[], i_tenant int4[]) RETURNS int8[] LANGUAGE plpgsql AS $$
DECLARE
    v_ids int8[] := '{}';
    v_also int8[];
    w record;
    h record;
BEGIN
    IF o_id IS NOT NULL OR i_key IS NOT NULL THEN
        v_ids := ARRAY(SELECT u.id FROM unnest(o_id, o_kind) u (id, kind) WHERE u.kind IN (6, 7)
                       UNION SELECT k.task_id FROM pawl_holders(i_key, i_tenant) k);
    END IF;
    v_also := ARRAY(SELECT p.spot_id FROM pawl_place p WHERE p.task_id = ANY (p_ends || v_ids)
                    UNION SELECT k.spot_id FROM pawl_blocked k WHERE k.task_id = ANY (v_ids));
    IF cardinality(v_ids) > 0 THEN
        w := pawl_wants_of(v_ids);
        v_also := v_also || ARRAY(
            SELECT s.id FROM unnest(w.scope, w.name, w.key) u (scope, name, key)
            JOIN pawl_spot s ON s.scope = ANY (ARRAY[u.scope]) AND s.name_id = ANY (ARRAY[u.name]) AND s.key = ANY (ARRAY[u.key]));
    END IF;
    IF i_type IS NULL OR NOT EXISTS (SELECT FROM pawl_bound b WHERE b.name_id = ANY (i_queue || i_type) AND b.most > 0 AND b.scope < 4) THEN
        IF cardinality(v_also) = 0 THEN RETURN v_also; END IF;
        h := pawl_hold_spots('{}', '{}', '{}', '{}', v_also, 0);
        RETURN v_also;
    END IF;
    SELECT array_agg(x.scope) AS scope, array_agg(x.name) AS name, array_agg(x.key) AS key, array_agg(true) AS make INTO w
    FROM (SELECT DISTINCT y.scope, y.name, y.key FROM pawl_wants(i_queue, i_type, i_rate_key) z,
              unnest(z.i, z.scope, z.name, z.key, z.most, z.ordered) y (i, scope, name, key, most, ordered)
          WHERE y.ordered OR (pawl_due(p_now, i_when[y.i]) <= p_now AND y.most <= (
              SELECT count(*) FROM pawl_spot s JOIN pawl_place p ON p.spot_id = ANY (ARRAY[s.id])
              WHERE s.scope = y.scope AND s.name_id = y.name AND s.key = y.key))) x;
    h := pawl_hold_spots(coalesce(w.scope, '{}'), coalesce(w.name, '{}'), coalesce(w.key, '{}'), coalesce(w.make, '{}'), v_also, 0);
    RETURN h.o_ids || v_also;
END $$;

-- INSERTs that need places, or wait for their tenant's turn, are not leased at birth.
CREATE OR REPLACE FUNCTION pawl_never_born_leased(p_now int8, p_op int4[], p_id int8[], p_type int4[], p_queue int4[], p_when int8[],
                                       INOUT p_ask bool[], OUT o_results text) LANGUAGE plpgsql AS $$
DECLARE
    r record;
BEGIN
    o_results := '';
    FOR r IN
        SELECT k.i FROM (SELECT array_agg(u.i) AS i, u.type, u.queue
                         FROM unnest(p_type, p_queue, p_ask) WITH ORDINALITY u (type, queue, ask, i) WHERE u.ask
                         GROUP BY u.type, u.queue OFFSET 0) k
        WHERE pawl_bounded(k.queue, k.type)
            OR EXISTS (SELECT FROM pawl_bound b WHERE b.scope = 4 AND b.name_id = k.queue AND b.key = '' AND b.most > 0)
    LOOP
        FOR k IN 1..cardinality(r.i) LOOP
            p_ask[r.i[k]] := false;
            o_results := o_results || pawl_answer(p_op[r.i[k]], 1, p_id[r.i[k]], 0, pawl_due(p_now, p_when[r.i[k]]), 2);
        END LOOP;
    END LOOP;
END $$;

-- New tasks join the lines at the spots that are locked (p_spots), if they are due and find them full; at those that keep an order they
-- take the place, or join the line.
CREATE OR REPLACE FUNCTION pawl_line_up(p_now int8, p_ids int8[], p_spots int8[]) RETURNS bool LANGUAGE plpgsql AS $$
DECLARE
    v_did bool;
    v_at int4;
    v_done int4 := 0;
    v_room bool;
    t_task int8[] := '{}';
    t_spot int8[] := '{}';
    b_task int8[] := '{}';
    b_spot int8[] := '{}';
    w record;
    s record;
    r record;
BEGIN
    p_ids := ARRAY(SELECT v.id FROM pawl_live v WHERE v.id = ANY (p_ids) AND v.state = 2 ORDER BY v.id);
    w := pawl_wants_of(p_ids);
    IF w.i IS NULL THEN RETURN false; END IF;
    s := pawl_spots_stand(p_spots);
    FOR r IN
        SELECT u.i, u.most, u.ordered, x.id AS spot, p_ids[u.i] AS id, v.run_at_us <= p_now AS due,
            EXISTS (SELECT FROM pawl_place p WHERE p.task_id = p_ids[u.i] AND p.spot_id = x.id) AS holds
        FROM unnest(w.i, w.scope, w.name, w.key, w.most, w.ordered) WITH ORDINALITY u (i, scope, name, key, most, ordered, n)
        JOIN pawl_spot x ON x.scope = ANY (ARRAY[u.scope]) AND x.name_id = ANY (ARRAY[u.name]) AND x.key = ANY (ARRAY[u.key]) AND x.id = ANY (p_spots)
        JOIN pawl_live v ON v.id = ANY (ARRAY[p_ids[u.i]]) ORDER BY u.n
    LOOP
        CONTINUE WHEN r.i = v_done OR r.holds;
        v_at := array_position(s.id, r.spot);
        v_room := CASE WHEN r.ordered THEN s.taken[v_at] = 0 AND (s.first[v_at] IS NULL OR s.first[v_at] > r.id) ELSE s.taken[v_at] < r.most END;
        IF NOT v_room AND (r.ordered OR r.due) THEN
            b_task := b_task || r.id;
            b_spot := b_spot || r.spot;
            s.first[v_at] := least(s.first[v_at], r.id);
            v_done := r.i;
        ELSIF v_room AND r.ordered THEN
            t_task := t_task || r.id;
            t_spot := t_spot || r.spot;
            s.taken[v_at] := s.taken[v_at] + 1;
        END IF;
    END LOOP;
    IF cardinality(t_task) > 0 THEN v_did := pawl_take_places(t_spot, t_task); END IF;
    IF cardinality(b_task) > 0 THEN
        UPDATE pawl_live v SET run_at_us = p_now FROM pawl_slotted q -- the slot is gone, and so is its time
        WHERE v.id = ANY (b_task) AND v.run_at_us > p_now AND q.task_id = ANY (ARRAY[v.id]);
        v_did := pawl_block(b_task, b_spot);
    END IF;
    RETURN true;
END $$;

-- The last part of a batch. p_ends: tasks whose leases may have ended; p_new: those that are new or have another body. p_spots: what is locked;
-- NULL: nothing may be locked.
CREATE OR REPLACE FUNCTION pawl_settle(p_now int8, p_ends int8[], p_new int8[], p_spots int8[], OUT o_count int4, OUT o_hints text)
LANGUAGE plpgsql AS $$
DECLARE
    v_did bool;
    v_touched int8[] := pawl_leave_places(p_ends);
    r record;
BEGIN
    o_count := 0;
    o_hints := '';
    v_did := pawl_share(p_ends || p_new);
    IF p_spots IS NULL THEN
        INSERT INTO pawl_freed (spot_id) SELECT unnest(v_touched);
        IF cardinality(v_touched) > 0 THEN o_hints := '*'; END IF;
        RETURN;
    END IF;
    IF cardinality(p_spots) = 0 AND cardinality(v_touched) = 0 THEN RETURN; END IF;
    IF cardinality(p_new) > 0 THEN v_did := pawl_line_up(p_now, p_new, p_spots); END IF;
    IF EXISTS (SELECT FROM pawl_freed WHERE spot_id = ANY (p_spots)) THEN
        WITH d AS (DELETE FROM pawl_freed f WHERE f.ctid = ANY (ARRAY(SELECT x.ctid FROM pawl_freed x WHERE x.spot_id = ANY (p_spots)
                                                                      FOR UPDATE SKIP LOCKED)) RETURNING f.spot_id)
        SELECT v_touched || array_agg(d.spot_id) INTO v_touched FROM d;
    END IF;
    IF cardinality(v_touched) = 0 THEN RETURN; END IF;
    SELECT x.o_count, x.o_hints INTO o_count, o_hints FROM pawl_offer(v_touched, 2000) x;
END $$;

-- The tasks that answers of INSERT and RETRY name as pending now.
CREATE OR REPLACE FUNCTION pawl_named(p_results text) RETURNS int8[] LANGUAGE plpgsql IMMUTABLE AS $$
BEGIN
    RETURN ARRAY(SELECT split_part(l, ' ', 3)::int8 FROM string_to_table(p_results, E'\n') l
                 WHERE l ~ '^[0-9]+ [134] [1-9][0-9]* 0 ');
END $$;

-- ---- claims -----------------------------------------------------------------------------------------------------------------------

-- Which of a claim's candidates, in this order, are granted. p_got: how many the want has so far, of p_free for workers that are free and
-- p_room at all; p_turn: as many as that at the most. Those that need places get them, or are blocked; they are granted within
-- p_free only. o_missed: somebody else has them. o_touched: spots, locked, where something is to be offered. p_shared: they are in pawl_shared.
CREATE OR REPLACE FUNCTION pawl_admit(p_ids int8[], p_class int4[], p_bounded bool[], p_got int4, p_free int4, p_room int4, p_turn int4, p_solo bool,
                           p_shared bool, p_held int8, OUT o_ids int8[], OUT o_blocked int4, OUT o_missed int8[], OUT o_touched int8[],
                           OUT o_more bool, OUT o_solo bool, OUT o_held int8) LANGUAGE plpgsql AS $$
DECLARE
    v_did bool;
    v_solo int8;
    v_next int4 := 1;
    v_from int4;
    v_at int4;
    v_full int4;
    v_all int8[];
    t_task int8[] := '{}';
    t_spot int8[] := '{}';
    b_task int8[] := '{}';
    b_spot int8[] := '{}';
    v_wants int4;
    v_holds bool[];
    v_spots int8[];
    w record;
    h record;
    s record;
BEGIN
    o_ids := '{}';
    o_missed := '{}';
    o_touched := '{}';
    o_more := false;
    o_held := p_held;
    IF true = ANY (p_bounded) THEN
        w := pawl_wants_of(p_ids);
        h := pawl_hold_spots(coalesce(w.scope, '{}'), coalesce(w.name, '{}'), coalesce(w.key, '{}'),
                             array_fill(true, ARRAY[coalesce(cardinality(w.i), 0)]), '{}', p_held);
        o_held := h.o_held;
        v_spots := h.o_ids;
        s := pawl_spots_stand(v_spots);
        v_wants := coalesce(cardinality(w.i), 0);
        v_holds := ARRAY(SELECT EXISTS (SELECT FROM pawl_place p WHERE p.task_id = p_ids[u.i] AND p.spot_id = u.spot)
                         FROM unnest(w.i, v_spots) WITH ORDINALITY u (i, spot, n) ORDER BY u.n);
    ELSE
        v_wants := 0;
    END IF;
    FOR k IN 1..cardinality(p_ids) LOOP
        v_from := v_next;
        IF v_wants > 0 THEN
            WHILE v_next <= v_wants AND w.i[v_next] = k LOOP v_next := v_next + 1; END LOOP;
        END IF;
        IF p_got >= p_room OR (p_got >= p_free AND p_bounded[k])
            OR (p_class[k] > 0 AND (p_got >= p_free OR (p_class[k] = 2 AND (NOT p_solo OR v_solo IS NOT NULL)))) THEN
            o_more := true;
            CONTINUE;
        END IF;
        CONTINUE WHEN cardinality(o_ids) >= p_turn;
        v_full := NULL;
        FOR j IN v_from..v_next - 1 LOOP
            v_at := array_position(s.id, v_spots[j]);
            IF v_at IS NULL THEN
                v_full := 0; -- somebody has it
            ELSIF v_full IS NULL AND NOT v_holds[j] AND NOT (CASE WHEN w.ordered[j]
                    THEN s.taken[v_at] = 0 AND (s.first[v_at] IS NULL OR s.first[v_at] > p_ids[k]) ELSE s.taken[v_at] < w.most[j] END) THEN
                v_full := j;
            END IF;
        END LOOP;
        IF v_full = 0 THEN
            o_missed := o_missed || p_ids[k];
            o_more := true;
            CONTINUE;
        ELSIF v_full IS NOT NULL THEN
            b_task := b_task || p_ids[k];
            b_spot := b_spot || v_spots[v_full];
            v_at := array_position(s.id, v_spots[v_full]);
            s.first[v_at] := least(s.first[v_at], p_ids[k]);
            IF w.scope[v_full] = 3 THEN o_touched := o_touched || v_spots[v_from:v_next - 1]; END IF;
            CONTINUE;
        END IF;
        FOR j IN v_from..v_next - 1 LOOP
            CONTINUE WHEN v_holds[j];
            v_at := array_position(s.id, v_spots[j]);
            s.taken[v_at] := s.taken[v_at] + 1;
            t_task := t_task || p_ids[k];
            t_spot := t_spot || v_spots[j];
        END LOOP;
        o_ids := o_ids || p_ids[k];
        p_got := p_got + 1;
        IF p_class[k] = 2 THEN v_solo := p_ids[k]; END IF;
    END LOOP;
    v_all := o_ids || b_task;
    v_all := ARRAY(SELECT v.id FROM pawl_live v WHERE v.id = ANY (v_all) AND v.state = 2 AND (p_shared OR NOT v.blocked)
                   ORDER BY v.id FOR UPDATE SKIP LOCKED);
    IF p_shared THEN v_all := ARRAY(SELECT x.task_id FROM pawl_shared x WHERE x.task_id = ANY (v_all)); END IF;
    IF cardinality(v_all) < cardinality(o_ids) + cardinality(b_task) THEN -- the places counted for others are free after all
        o_missed := o_missed || ARRAY(SELECT x FROM unnest(o_ids || b_task) x WHERE x <> ALL (v_all));
        o_touched := o_touched || ARRAY(SELECT u.spot FROM unnest(t_task, t_spot) u (task, spot) WHERE u.task <> ALL (v_all));
        o_ids := ARRAY(SELECT x FROM unnest(o_ids) WITH ORDINALITY u (x, i) WHERE x = ANY (v_all) ORDER BY i);
        SELECT coalesce(array_agg(u.task ORDER BY i), '{}'), coalesce(array_agg(u.spot ORDER BY i), '{}') INTO t_task, t_spot
        FROM unnest(t_task, t_spot) WITH ORDINALITY u (task, spot, i) WHERE u.task = ANY (v_all);
        SELECT coalesce(array_agg(u.task ORDER BY i), '{}'), coalesce(array_agg(u.spot ORDER BY i), '{}') INTO b_task, b_spot
        FROM unnest(b_task, b_spot) WITH ORDINALITY u (task, spot, i) WHERE u.task = ANY (v_all);
    END IF;
    o_solo := coalesce(v_solo = ANY (o_ids), false);
    o_blocked := cardinality(b_task);
    IF cardinality(t_task) > 0 THEN v_did := pawl_take_places(t_spot, t_task); END IF;
    IF o_blocked > 0 THEN v_did := pawl_block(b_task, b_spot); END IF;
    IF p_shared AND cardinality(o_ids) > 0 THEN DELETE FROM pawl_shared WHERE task_id = ANY (o_ids); END IF;
END $$;

-- What pawl_choose does, where some of the lanes are under bounds (p_bounded). p_end: the time below which a lane has nothing left when all
-- that was due is gone.
CREATE OR REPLACE FUNCTION pawl_choose_bounded(p_now int8, p_queue int4, p_lanes int8[], p_bounded bool[], p_froms int8[], p_got int4, p_free int4,
                                    p_room int4, p_solo bool, p_end int8, p_held int8, OUT o_ids int8[], OUT o_lasts int8[], OUT o_more bool,
                                    OUT o_solo bool, OUT o_touched int8[], OUT o_held int8) LANGUAGE plpgsql AS $$
DECLARE
    v_skip int8[] := '{}';
    v_blocked int4 := 0;
    c record;
    x record;
BEGIN
    o_ids := '{}';
    o_touched := '{}';
    o_more := false;
    o_solo := false;
    o_held := p_held;
    LOOP
        SELECT array_agg(y.id ORDER BY y.run_at_us, y.id) AS id, array_agg(y.class ORDER BY y.run_at_us, y.id) AS class,
            array_agg(y.bounded ORDER BY y.run_at_us, y.id) AS bounded
        INTO c
        FROM (SELECT z.id, z.run_at_us, ((g.lane >> 32) & 15)::int4 AS class, g.bounded,
                  row_number() OVER (PARTITION BY (g.lane >> 32) & 15 ORDER BY z.run_at_us, z.id) AS r
              FROM unnest(p_lanes, p_froms, p_bounded) g (lane, from_us, bounded),
                  LATERAL (SELECT v.id, v.run_at_us FROM pawl_live v
                           WHERE v.state = 2 AND NOT v.blocked AND v.queue_id = p_queue AND v.lane = g.lane AND v.run_at_us >= g.from_us
                               AND v.run_at_us <= p_now
                           ORDER BY v.run_at_us, v.id
                           LIMIT p_room + 1 + least(v_blocked, 500) + cardinality(v_skip) + cardinality(o_ids)) z
              WHERE z.id <> ALL (v_skip) AND z.id <> ALL (o_ids)) y
        WHERE y.r <= p_room - cardinality(o_ids) + 1 + least(v_blocked, 500);
        EXIT WHEN c.id IS NULL;
        x := pawl_admit(c.id, c.class, c.bounded, p_got + cardinality(o_ids), p_free, p_got + p_room, 2147483647, p_solo AND NOT o_solo,
                        false, o_held);
        o_ids := o_ids || x.o_ids;
        o_more := x.o_more;
        o_solo := o_solo OR x.o_solo;
        o_touched := o_touched || x.o_touched;
        o_held := x.o_held;
        v_skip := v_skip || x.o_missed;
        v_blocked := v_blocked + x.o_blocked;
        EXIT WHEN (x.o_blocked = 0 AND cardinality(x.o_missed) = 0) OR cardinality(v_skip) > 500;
        IF v_blocked >= 2000 THEN -- the next claim goes on
            o_more := true;
            EXIT;
        END IF;
    END LOOP;
    o_more := o_more OR cardinality(v_skip) > 500;
    o_lasts := ARRAY(SELECT coalesce((SELECT v.run_at_us FROM pawl_live v
                                      WHERE v.state = 2 AND NOT v.blocked AND v.queue_id = p_queue AND v.lane = g.lane
                                          AND v.run_at_us >= g.from_us AND v.run_at_us <= p_now AND v.id <> ALL (o_ids)
                                      ORDER BY v.run_at_us LIMIT 1), p_end)
                     FROM unnest(p_lanes, p_froms) WITH ORDINALITY g (lane, from_us, i) ORDER BY g.i);
END $$;

-- The key of a bound as it is stored: hashed if it is long, or the number of a tenant.
CREATE OR REPLACE FUNCTION pawl_bound_key(p_scope int4, p_key bytea) RETURNS bytea LANGUAGE plpgsql AS $$
BEGIN
    IF coalesce(length(p_key), 0) = 0 OR p_scope < 3 THEN RETURN ''; END IF;
    IF p_scope = 3 THEN RETURN pawl_rate_key(p_key); END IF;
    RETURN convert_to((pawl_names(ARRAY[convert_from(p_key, 'UTF8')]))[1]::text, 'UTF8');
END $$;

-- Whether all bounds of a batch are in force already, and nobody is left to whom they would offer something: what most nodes find when
-- they start. Then nobody need be held up.
CREATE OR REPLACE FUNCTION pawl_bounds_stand(b_name int4[], b_key bytea[], b_what int4[]) RETURNS bool LANGUAGE plpgsql AS $$
DECLARE
    v_scope int2;
    v_key bytea;
BEGIN
    FOR i IN 1..cardinality(b_name) LOOP
        v_scope := b_what[4 * i - 3];
        v_key := pawl_bound_key(v_scope, b_key[i]);
        IF b_what[4 * i - 2] <= 0 OR NOT EXISTS (
            SELECT FROM pawl_bound b WHERE b.scope = v_scope AND b.name_id = b_name[i] AND b.key = v_key AND b.most = b_what[4 * i - 2]
                AND b.ordered = (b_what[4 * i - 1] <> 0)) THEN
            RETURN false;
        END IF;
        IF v_scope = 4 AND v_key = '' AND EXISTS (
            SELECT FROM pawl_live v WHERE v.state = 2 AND NOT v.blocked AND v.queue_id = b_name[i]) THEN
            RETURN false;
        END IF;
        IF EXISTS (SELECT FROM pawl_spot s WHERE s.scope = v_scope AND s.name_id = b_name[i] AND (v_key = '' OR s.key = v_key)
                       AND EXISTS (SELECT FROM pawl_blocked k WHERE k.spot_id = s.id)
                       AND (SELECT count(*) FROM pawl_place p WHERE p.spot_id = s.id) < b_what[4 * i - 2]) THEN
            RETURN false;
        END IF;
    END LOOP;
    RETURN true;
END $$;

-- BOUND. Whoever calls has pawl_node locked against everybody else. p_move: how many tasks may be unblocked. o_more: there are others.
-- p_most -1: nothing is put, only the moving goes on.
CREATE OR REPLACE FUNCTION pawl_bound_put(p_now int8, p_scope int2, p_name int4, p_key bytea, p_most int4, p_ordered bool, p_move int4, p_by text,
                               OUT o_result int4, OUT o_more bool, OUT o_count int4, OUT o_hints text) LANGUAGE plpgsql AS $$
DECLARE
    v_did bool;
    v_only_move bool := p_most < 0;
    v_key bytea := pawl_bound_key(p_scope, p_key);
    o pawl_bound;
BEGIN
    o_more := false;
    o_count := 0;
    o_hints := '';
    PERFORM FROM pawl_gate FOR UPDATE;
    SELECT * INTO o FROM pawl_bound WHERE scope = p_scope AND name_id = p_name AND key = v_key;
    p_ordered := CASE WHEN v_only_move THEN coalesce(o.ordered, false) ELSE p_ordered AND p_most = 1 AND p_scope = 3 END;
    p_most := CASE WHEN v_only_move THEN coalesce(o.most, 0) WHEN p_scope = 4 AND v_key = '' THEN least(p_most, 1) ELSE p_most END;
    o_result := CASE WHEN coalesce(o.most, 0) <> p_most OR (p_most > 0 AND o.ordered <> p_ordered) THEN CASE WHEN o.most > 0 THEN 3 ELSE 1 END
                     WHEN p_most = 0 AND NOT v_only_move THEN 8 ELSE 2 END;
    IF o_result IN (1, 3) THEN
        INSERT INTO pawl_bound (scope, name_id, key, most, ordered, changed_us) VALUES (p_scope, p_name, v_key, p_most, p_ordered, p_now)
        ON CONFLICT (scope, name_id, key) DO UPDATE SET most = excluded.most, ordered = excluded.ordered, changed_us = excluded.changed_us;
        UPDATE pawl_gate SET bounds = bounds + 1;
        PERFORM pawl_log_operator(p_now, p_by, 'limit', NULL, (SELECT text FROM pawl_name WHERE id = p_name));
    END IF;
    IF p_scope = 4 THEN
        o_more := pawl_put_turns(p_name, v_key, p_most, p_move);
        RETURN;
    END IF;
    IF o_result IN (1, 3) AND p_most > 0 THEN v_did := pawl_adopt(p_scope, p_name, v_key); END IF;
    IF p_move <= 0 THEN RETURN; END IF;
    -- Who waits for an attempt keeps its place only if that is ordered.
    v_did := cardinality(pawl_leave_places(ARRAY(
        SELECT p.task_id FROM pawl_spot s JOIN pawl_place p ON p.spot_id = ANY (ARRAY[s.id])
        WHERE s.scope = p_scope AND s.name_id = p_name AND (v_key = '' OR s.key = v_key)
            AND NOT EXISTS (SELECT FROM pawl_leased l WHERE l.id = p.task_id)))) > 0;
    SELECT x.o_count, x.o_hints INTO o_count, o_hints FROM pawl_offer(ARRAY(
        SELECT s.id FROM pawl_spot s WHERE s.scope = p_scope AND s.name_id = p_name AND (v_key = '' OR s.key = v_key)), p_move) x;
    o_more := o_count >= p_move;
END $$;

-- ---- upkeep, looking --------------------------------------------------------------------------------------------------------------

-- Spots that nobody needs go; and what a change of a bound in pages left is offered, if whoever turned the pages is gone. One step of the
-- search; whoever calls does it alone.
CREATE OR REPLACE FUNCTION pawl_sweep_spots(p_limit int4) RETURNS int4 LANGUAGE plpgsql AS $$
DECLARE
    v_removed int4;
    v_from int8 := (SELECT last_value FROM pawl_spot_walk);
    v_ids int8[];
    v_locked int8[];
BEGIN
    IF (SELECT bounds FROM pawl_gate) = 0 THEN RETURN 0; END IF;
    LOCK TABLE pawl_node IN ROW SHARE MODE;
    v_ids := ARRAY(SELECT id FROM pawl_spot WHERE id > v_from ORDER BY id LIMIT 500);
    v_locked := ARRAY(SELECT id FROM pawl_spot WHERE id = ANY (v_ids) ORDER BY id FOR UPDATE SKIP LOCKED);
    PERFORM pawl_offer(v_locked, 2000);
    DELETE FROM pawl_spot s WHERE s.id = ANY (v_locked[1:p_limit]) AND NOT EXISTS (SELECT FROM pawl_place p WHERE p.spot_id = s.id)
        AND NOT EXISTS (SELECT FROM pawl_blocked k WHERE k.spot_id = s.id);
    GET DIAGNOSTICS v_removed = ROW_COUNT;
    IF v_from > 0 OR cardinality(v_ids) = 500 THEN
        PERFORM setval('pawl_spot_walk', CASE WHEN cardinality(v_ids) < 500 THEN 0 ELSE v_ids[500] END);
    END IF;
    RETURN v_removed;
END $$;

-- Bounds, and spots that have holders or blocked tasks, from a place on in the order of scope, name and key. p_task: only where it is blocked.
CREATE OR REPLACE FUNCTION pawl_places(p_scope int4, p_name text, p_key bytea, p_only_scope int4, p_only_name text, p_only_key bytea, p_task int8,
                            p_blocked bool, p_limit int4)
RETURNS TABLE (scope int8, name text, key bytea, stored bytea, most int8, own bool, ordered bool, taken int8, blocked int8, holder int8)
LANGUAGE plpgsql STABLE SET search_path FROM CURRENT SET jit = off AS $$
DECLARE
    v_spot int8;
    v_count int4 := 0;
    b pawl_bound;
    x record;
BEGIN
    FOR x IN
        SELECT y.scope, y.name_id, y.key, n.text::text AS name, CASE WHEN y.scope = 4 AND y.key <> ''
                THEN convert_to((SELECT t.text FROM pawl_name t WHERE t.id = convert_from(y.key, 'UTF8')::int4), 'UTF8') ELSE y.key END AS shown
        FROM (SELECT f.scope, f.name_id, f.key FROM pawl_bound f WHERE f.most > 0 UNION SELECT s.scope, s.name_id, s.key FROM pawl_spot s) y
        JOIN pawl_name n ON n.id = y.name_id
        WHERE (y.scope, n.text, y.key) > (p_scope, p_name COLLATE "C", p_key) AND (p_only_scope = 0 OR y.scope = p_only_scope)
            AND (p_only_name IS NULL OR n.text = p_only_name)
            AND (p_task = 0 OR (y.scope, y.name_id, y.key) IN (
                SELECT s.scope, s.name_id, s.key FROM pawl_blocked k JOIN pawl_spot s ON s.id = k.spot_id WHERE k.task_id = p_task))
        ORDER BY y.scope, n.text, y.key
    LOOP
        CONTINUE WHEN x.shown <> p_only_key;
        SELECT s.id INTO v_spot FROM pawl_spot s WHERE s.scope = x.scope AND s.name_id = x.name_id AND s.key = x.key;
        taken := (SELECT count(*) FROM pawl_place p WHERE p.spot_id = v_spot);
        blocked := (SELECT count(*) FROM pawl_blocked k WHERE k.spot_id = v_spot);
        SELECT f.* INTO b FROM pawl_bound_for(x.scope, x.name_id, x.key) f WHERE f.key = x.key OR x.scope = 3;
        own := coalesce(b.key = x.key, false);
        CONTINUE WHEN (NOT own AND taken = 0 AND blocked = 0) OR (p_blocked AND blocked = 0);
        scope := x.scope;
        name := x.name;
        key := x.shown;
        stored := x.key;
        most := coalesce(b.most, 0);
        ordered := coalesce(b.ordered, false);
        holder := coalesce((SELECT p.task_id FROM pawl_place p LEFT JOIN pawl_leased l ON l.id = p.task_id WHERE p.spot_id = v_spot
                            ORDER BY l.leased_us NULLS FIRST, p.number LIMIT 1), 0);
        RETURN NEXT;
        v_count := v_count + 1;
        EXIT WHEN v_count = p_limit;
    END LOOP;
END $$;
