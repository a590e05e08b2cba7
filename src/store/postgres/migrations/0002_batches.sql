-- Batches: one call, one commit.
--
-- pawl_apply carries out the operations of a batch, each kind with one statement over arrays, and keeps the answers in the lane's receipt.
-- Most operations end as asked; the answers name only those that did not (or that have more to tell), one line each:
--
--     <operation> <result> <id> <fence, or of what found its queue full how many tasks must leave first> <run_at_us> <state>
--
-- and, of a slot that a lease came with or that was asked for (see 0010_limits.sql),
--
--     S <operation> <until_us> <epoch>
--
-- Locks are taken in the order life row, receipt, limits, budgets by id, spots by id, schedules by id, keys, tasks by id, counters. Whoever calls retries deadlocks.
--
-- p_clock is the server's clock when NULL; tests pass {wall, boot}.
--
-- Plans are made once per session, perhaps while a table is empty, and must be good for any number of rows. So these functions allow no
-- plans but by index, and join with `id = ANY (ARRAY[x.id])`, which nothing but a probe of the index can carry out. What is written in
-- LANGUAGE sql is an expression that the planner puts in its place; anything else would be parsed at every call.

CREATE FUNCTION pawl_now() RETURNS int8 LANGUAGE sql VOLATILE AS
$$ SELECT (extract(epoch FROM clock_timestamp()) * 1000000)::int8 $$;

-- b >= 0; stays at the end of time.
CREATE FUNCTION pawl_later(a int8, b int8) RETURNS int8 LANGUAGE sql IMMUTABLE AS
$$ SELECT CASE WHEN a > 9223372036854775807 - b THEN 9223372036854775807 ELSE a + b END $$;

-- When a task falls due: when_us NULL or 0 is now, positive a delay, negative an instant.
CREATE FUNCTION pawl_due(now_us int8, when_us int8) RETURNS int8 LANGUAGE sql IMMUTABLE AS
$$ SELECT CASE WHEN when_us IS NULL THEN now_us WHEN when_us < 0 THEN greatest(-when_us, now_us) ELSE pawl_later(now_us, when_us) END $$;

-- Durations in half octaves, from 0: bucket 2k holds [2^k, 1.5 x 2^k), bucket 2k + 1 the rest up to 2^(k+1).
CREATE FUNCTION pawl_bucket(us int8) RETURNS int4 LANGUAGE sql IMMUTABLE AS
$$ SELECT width_bucket(us, '{
        2,2,3,4,6,8,12,16,24,32,48,64,96,128,192,256,384,512,768,1024,1536,2048,3072,4096,6144,8192,12288,16384,24576,
        32768,49152,65536,98304,131072,196608,262144,393216,524288,786432,1048576,1572864,2097152,3145728,4194304,
        6291456,8388608,12582912,16777216,25165824,33554432,50331648,67108864,100663296,134217728,201326592,268435456,
        402653184,536870912,805306368,1073741824,1610612736,2147483648,3221225472,4294967296,6442450944,8589934592,
        12884901888,17179869184,25769803776,34359738368,51539607552,68719476736,103079215104,137438953472,
        206158430208,274877906944,412316860416,549755813888,824633720832,1099511627776,1649267441664,2199023255552,
        3298534883328,4398046511104,6597069766656,8796093022208,13194139533312,17592186044416,26388279066624,
        35184372088832,52776558133248,70368744177664,105553116266496,140737488355328,211106232532992
    }'::int8[]) $$;

-- Adds bucket numbers to what pawl_rollup keeps of them; buckets of which there are none may be NULL.
CREATE FUNCTION pawl_histogram_add(p_counts int8[], p_buckets int4[]) RETURNS int8[] LANGUAGE plpgsql IMMUTABLE AS $$
DECLARE
    r record;
BEGIN
    IF p_counts IS NULL AND p_buckets IS NOT NULL THEN p_counts := '{0}'; END IF; -- it begins with bucket 0
    FOR r IN SELECT b, count(*) AS n FROM unnest(p_buckets) b GROUP BY b LOOP
        p_counts[r.b + 1] := coalesce(p_counts[r.b + 1], 0) + r.n;
    END LOOP;
    RETURN p_counts;
END $$;

CREATE FUNCTION pawl_histogram_sum(a int8[], b int8[]) RETURNS int8[] LANGUAGE plpgsql IMMUTABLE AS $$
BEGIN
    IF a IS NULL THEN RETURN b; END IF;
    FOR i IN 1..coalesce(array_length(b, 1), 0) LOOP
        IF b[i] IS NOT NULL THEN a[i] := coalesce(a[i], 0) + b[i]; END IF;
    END LOOP;
    RETURN a;
END $$;

-- ---- names, ids, counters ---------------------------------------------------------------------------------------------------------

-- The numbers of names, which are made if need be, in the order of the texts.
CREATE FUNCTION pawl_names(p_texts text[]) RETURNS int4[] LANGUAGE plpgsql SET search_path FROM CURRENT AS $$
BEGIN
    INSERT INTO pawl_name (text)
    SELECT DISTINCT t COLLATE "C" FROM unnest(p_texts) t WHERE NOT EXISTS (SELECT FROM pawl_name n WHERE n.text = t) ORDER BY 1
    ON CONFLICT DO NOTHING;
    RETURN ARRAY(SELECT n.id FROM unnest(p_texts) WITH ORDINALITY u (t, i) JOIN pawl_name n ON n.text = u.t ORDER BY u.i);
END $$;

-- An id of number 0, greater than all drawn before. The sequence leaps forward to the time of day; whoever does that has a lock that nobody
-- waits for, and others go on meanwhile from where the sequence is.
CREATE FUNCTION pawl_draw(p_now int8) RETURNS int8 LANGUAGE plpgsql AS $$
DECLARE
    v_lock int8 := 'pawl_drawn'::regclass::oid::int8;
    v_next int8 := nextval('pawl_drawn');
    v_time int8 := (p_now / 1000 - 1735689600000) * 4096;
BEGIN
    IF v_next < v_time AND pg_try_advisory_lock(v_lock) THEN
        PERFORM setval('pawl_drawn', greatest(v_time, last_value)) FROM pawl_drawn;
        PERFORM pg_advisory_unlock(v_lock);
        v_next := nextval('pawl_drawn');
    END IF;
    RETURN ((v_next >> 12) << 22) | (v_next & 4095);
END $$;

-- Of rows that every commit of a lane updates: see the head of 0001_tables.sql.
CREATE FUNCTION pawl_turn() RETURNS int8 LANGUAGE sql VOLATILE AS
$$ SELECT -(pg_current_xact_id()::text::int8 >> 8) $$;

CREATE FUNCTION pawl_add(p_node int4, p_lane int8, p_queue int4, p_pending int8, p_leased int8, p_failed int8)
RETURNS bool LANGUAGE plpgsql AS $$
DECLARE
    v_turn int8 := pawl_turn();
    v_row tid;
BEGIN
    UPDATE pawl_count SET pending = pending + p_pending, leased = leased + p_leased, failed = failed + p_failed
    WHERE node = p_node AND lane = p_lane AND queue_id = p_queue AND turn = v_turn;
    IF FOUND THEN RETURN true; END IF;
    SELECT ctid INTO v_row FROM pawl_count WHERE node = p_node AND lane = p_lane AND queue_id = p_queue
    ORDER BY node, lane, queue_id, turn LIMIT 1 FOR UPDATE;
    IF FOUND THEN
        UPDATE pawl_count SET pending = pending + p_pending, leased = leased + p_leased, failed = failed + p_failed, turn = v_turn
        WHERE ctid = v_row;
        RETURN true;
    END IF;
    INSERT INTO pawl_count (node, lane, queue_id, pending, leased, failed, turn)
    VALUES (p_node, p_lane, p_queue, p_pending, p_leased, p_failed, v_turn)
    ON CONFLICT (node, lane, queue_id, turn) DO UPDATE SET pending = pawl_count.pending + p_pending,
        leased = pawl_count.leased + p_leased, failed = pawl_count.failed + p_failed;
    -- Not for node 0: others would wait for the end of somebody's transaction.
    IF p_node <> 0 THEN INSERT INTO pawl_queue (queue_id) VALUES (p_queue) ON CONFLICT DO NOTHING; END IF;
    RETURN true;
END $$;

-- outcome: 1 dispatched, 2 succeeded, 3 failed, 4 cancelled, 5 retried, 6 rescued, 7 runs that ended in none of these ways.
CREATE FUNCTION pawl_roll(p_now int8, p_node int4, p_lane int8, p_queue int4, p_type int4, p_outcome int2, p_count int8,
                          p_wait int4[], p_run int4[]) RETURNS bool LANGUAGE plpgsql AS $$
DECLARE
    v_minute int8 := p_now / 60000000;
    v_turn int8 := pawl_turn();
    v_row tid;
BEGIN
    IF p_wait IS NULL THEN
        UPDATE pawl_rollup SET count = count + p_count
        WHERE minute = v_minute AND node = p_node AND lane = p_lane AND queue_id = p_queue AND type_id = p_type
            AND outcome = p_outcome AND turn = v_turn;
    ELSE
        UPDATE pawl_rollup SET count = count + p_count, wait = pawl_histogram_add(wait, p_wait), run = pawl_histogram_add(run, p_run)
        WHERE minute = v_minute AND node = p_node AND lane = p_lane AND queue_id = p_queue AND type_id = p_type
            AND outcome = p_outcome AND turn = v_turn;
    END IF;
    IF FOUND THEN RETURN true; END IF;
    SELECT ctid INTO v_row FROM pawl_rollup
    WHERE minute = v_minute AND node = p_node AND lane = p_lane AND queue_id = p_queue AND type_id = p_type AND outcome = p_outcome
    ORDER BY minute, node, lane, queue_id, type_id, outcome, turn LIMIT 1 FOR UPDATE;
    IF FOUND THEN
        UPDATE pawl_rollup SET count = count + p_count, wait = pawl_histogram_add(wait, p_wait), run = pawl_histogram_add(run, p_run),
            turn = v_turn WHERE ctid = v_row;
        RETURN true;
    END IF;
    INSERT INTO pawl_rollup AS r (minute, node, lane, queue_id, type_id, outcome, count, wait, run, turn)
    VALUES (v_minute, p_node, p_lane, p_queue, p_type, p_outcome, p_count, pawl_histogram_add(NULL, p_wait),
            pawl_histogram_add(NULL, p_run), v_turn)
    ON CONFLICT (minute, node, lane, queue_id, type_id, outcome, turn) DO UPDATE SET count = r.count + p_count,
        wait = pawl_histogram_sum(r.wait, excluded.wait), run = pawl_histogram_sum(r.run, excluded.run);
    RETURN true;
END $$;

CREATE FUNCTION pawl_bear(p_now int8, p_node int4, p_lane int8, p_min int8, p_max int8) RETURNS bool LANGUAGE plpgsql AS $$
BEGIN
    PERFORM FROM pawl_born WHERE hour = p_now / 3600000000 AND node = p_node AND lane = p_lane AND min_id <= p_min AND max_id >= p_max;
    IF FOUND THEN RETURN true; END IF;
    INSERT INTO pawl_born (hour, node, lane, min_id, max_id)
    VALUES (p_now / 3600000000, p_node, p_lane, p_min, p_max | 4294967295)
    ON CONFLICT (hour, node, lane) DO UPDATE SET min_id = least(pawl_born.min_id, p_min),
        max_id = greatest(pawl_born.max_id, p_max | 4294967295);
    RETURN true;
END $$;

-- The row of a lane, locked. It is made if need be: whoever makes one holds a lock of the lane's, or there could be two, of different turns.
-- Nobody shares a lane of node 0's (below -1000), so nobody waits for the end of somebody's transaction.
CREATE FUNCTION pawl_lane_row(p_node int4, p_lane int8) RETURNS tid LANGUAGE plpgsql AS $$
DECLARE
    v_row tid;
BEGIN
    FOR i IN 1..2 LOOP
        SELECT ctid INTO v_row FROM pawl_lane WHERE node = p_node AND lane = p_lane ORDER BY node, lane, turn LIMIT 1 FOR UPDATE;
        IF FOUND THEN RETURN v_row; END IF;
        EXIT WHEN i = 2;
        PERFORM pg_advisory_xact_lock(hashtextextended('pawl_lane ' || p_node || ' ' || p_lane, 'pawl_lane'::regclass::oid::int8));
    END LOOP;
    INSERT INTO pawl_lane (node, lane, turn) VALUES (p_node, p_lane, pawl_turn()) RETURNING ctid INTO v_row;
    RETURN v_row;
END $$;

-- The rows of a node's lanes, each by one probe.
CREATE FUNCTION pawl_lanes_of(p_node int4) RETURNS SETOF pawl_lane LANGUAGE plpgsql STABLE SET search_path FROM CURRENT AS $$
DECLARE
    l pawl_lane;
BEGIN
    l.lane := -9223372036854775808;
    LOOP
        SELECT * INTO l FROM pawl_lane WHERE node = p_node AND lane > l.lane ORDER BY node, lane, turn LIMIT 1;
        EXIT WHEN NOT FOUND;
        RETURN NEXT l;
    END LOOP;
END $$;

-- Leases of a node that ended otherwise than in a commit of its own lanes. A commit of node 0 may be a long transaction of somebody's, so
-- it leaves a row of its own (lanes below -1000), which the node adds up with its renewals.
CREATE FUNCTION pawl_take(p_node int4, p_leases int8, p_by int4, p_by_lane int8) RETURNS bool LANGUAGE plpgsql AS $$
DECLARE
    v_row tid := pawl_lane_row(p_node, CASE WHEN p_by = 0 THEN -1000 - p_by_lane ELSE -3 END);
BEGIN
    UPDATE pawl_lane SET leases = leases + p_leases, turn = pawl_turn() WHERE ctid = v_row;
    RETURN true;
END $$;

-- What a row of the trail says, if its level wants it: kind 0 a change, 1 the end of a run, 2 trouble.
CREATE FUNCTION pawl_wanted(p_level int2, p_kind int4) RETURNS bool LANGUAGE sql IMMUTABLE AS
$$ SELECT p_level = 1 OR (p_level = 2 AND p_kind > 0) OR (p_level = 3 AND p_kind = 2) $$;

CREATE FUNCTION pawl_trail(p_id int8, p_at int8, p_from int2, p_to int2, p_fence int4, p_node int4, p_detail text)
RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO pawl_audit (task_id, number, at_us, from_state, to_state, fence, node, detail)
    SELECT p_id, coalesce(max(number), 0) + 1, p_at, p_from, p_to, p_fence, p_node, p_detail FROM pawl_audit WHERE task_id = p_id;
END $$;

-- The row that was read from pawl_leased while the lease lasted.
CREATE FUNCTION pawl_trail_grant(p_row pawl_leased) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    IF p_row.level = 1 THEN
        PERFORM pawl_trail(p_row.id, p_row.leased_us, CASE WHEN p_row.run_at_us IS NULL THEN 0 ELSE 2 END::int2, 3::int2, p_row.fence,
                           p_row.node, NULL);
    END IF;
END $$;

CREATE FUNCTION pawl_answer(p_op int4, p_result int4, p_id int8, p_fence int8, p_run_at int8, p_state int4) RETURNS text
LANGUAGE sql STABLE AS
$$ SELECT p_op || ' ' || p_result || ' ' || coalesce(p_id, 0) || ' ' || coalesce(p_fence, 0) || ' ' || coalesce(p_run_at, 0) || ' '
       || coalesce(p_state, 0) || E'\n' $$;

-- The number of a lane of the ready index: see pawl_live.
CREATE FUNCTION pawl_lane_of(p_priority int4, p_class int4, p_type int4) RETURNS int8 LANGUAGE sql IMMUTABLE AS
$$ SELECT ((p_priority + 32768)::int8 << 36) | (p_class::int8 << 32) | p_type $$;

-- A hint for those who claim: due from run_at on there is something in this lane of the ready index.
CREATE FUNCTION pawl_hint(p_queue int4, p_priority int4, p_class int4, p_type int4, p_run_at int8) RETURNS text
LANGUAGE sql STABLE AS
$$ SELECT p_queue || ' ' || pawl_lane_of(p_priority, p_class, p_type) || ' ' || p_run_at || ';' $$;

-- ---- the end of leases ------------------------------------------------------------------------------------------------------------

-- What became of operations that no lease under their fence was found for. p_held: the result where there is one after all.
CREATE FUNCTION pawl_stale(p_ops int4[], p_ids int8[], p_fences int8[], p_held int4[]) RETURNS text LANGUAGE plpgsql STABLE AS $$
BEGIN
    RETURN (SELECT string_agg(CASE WHEN l.fence = u.fence THEN pawl_answer(u.op, u.held, 0, 0, 0, 3)
                           ELSE pawl_answer(u.op, 6, 0, coalesce(d.fence, f.fence, 0),
                                            0, coalesce(CASE WHEN l.id IS NOT NULL THEN 3::int2 END, v.state, d.state, f.state, 0::int2))
                      END, '')
    FROM unnest(p_ops, p_ids, p_fences, p_held) u (op, id, fence, held)
    LEFT JOIN pawl_leased l ON l.id = ANY (ARRAY[u.id]) LEFT JOIN pawl_live v ON v.id = ANY (ARRAY[u.id])
    LEFT JOIN LATERAL (SELECT d.state, d.fence FROM pawl_done d WHERE d.id = u.id LIMIT 1) d ON true
    LEFT JOIN pawl_failed f ON f.id = ANY (ARRAY[u.id]));
END $$;

-- FINISH (p_to 4, 5, 6) and RELEASE (p_to 2). p_to 0 or below: the operation only learns whether it has its lease.
CREATE FUNCTION pawl_end(p_now int8, p_node int4, p_lane int8, p_op int4[], p_id int8[], p_fence int8[], p_to int2[], p_outcome int2[],
                         p_started int8[], p_ended int8[], p_level int2[], p_lines int4[], p_progress int2[], p_progress_text text[],
                         p_code text[], p_error text[], p_log text[], p_reason text[], p_result_type text[], p_result_ref text[],
                         p_result bytea[], p_delay int8[], p_failure bool[], p_interruption bool[],
                         OUT o_results text, OUT o_hints text, OUT o_leases int8) LANGUAGE plpgsql AS $$
DECLARE
    v_did bool;
    r record;
    v_ops int4[] := '{}';
BEGIN
    o_results := '';
    o_hints := '';
    o_leases := 0;
    FOR r IN
        WITH x AS (
            DELETE FROM pawl_leased l
            USING unnest(p_op, p_id, p_fence, p_to, p_outcome, p_started, p_ended, p_level, p_lines, p_progress, p_progress_text, p_code,
                         p_error, p_log, p_reason, p_result_type, p_result_ref, p_result, p_delay, p_failure, p_interruption)
                u (op, id, fence, to_state, outcome, started_us, ended_us, level, lines, progress, progress_text, code, error, log,
                   reason, result_type, result_ref, result, delay_us, failure, interruption)
            WHERE l.id = ANY (ARRAY[u.id]) AND l.fence = u.fence AND u.to_state > 0
            RETURNING u.*, CASE WHEN u.to_state = 2 AND l.cancel_asked THEN 6 ELSE u.to_state END AS state, u.to_state = 2 AS released,
                u.outcome <> 0 AS ran, l.node, l.fence AS lease_fence, l.queue_id, l.type_id, l.priority, l.leased_us,
                l.run_at_us AS due_us, l.started_us AS lease_started_us, l.class, l.level AS lease_level, l.strikes, l.runs, l.failures,
                l.interruptions, l.rescues, l.cancel_asked,
                CASE WHEN u.to_state <> 2 THEN NULL WHEN u.delay_us < -1 AND NOT l.cancel_asked THEN -u.delay_us -- a slot
                     WHEN u.delay_us < 0 OR l.cancel_asked THEN coalesce(l.run_at_us, l.leased_us)
                     ELSE pawl_later(p_now, u.delay_us) END AS again_us),
        done AS (
            INSERT INTO pawl_done (id, finished_us, started_us, run_us, node, fence, runs, failures, interruptions, rescues, state, outcome,
                                   level, flags, leased_us, run_at_us, log_lines, progress, progress_text, code, error, reason,
                                   result_type, result_ref, result)
            SELECT id, p_now, CASE WHEN ran THEN started_us ELSE coalesce(lease_started_us, leased_us) END,
                CASE WHEN ran THEN ended_us - started_us END, node, lease_fence, runs + ran::int4, failures, interruptions, rescues,
                state, outcome, level, CASE WHEN released THEN 0 ELSE 1 END + CASE WHEN cancel_asked THEN 2 ELSE 0 END,
                CASE WHEN due_us IS NOT NULL THEN leased_us END, due_us, lines, CASE WHEN ran THEN progress END,
                CASE WHEN ran THEN progress_text END, code, error, reason, result_type, result_ref, result
            FROM x WHERE state IN (4, 6)),
        failed AS (
            INSERT INTO pawl_failed (id, finished_us, started_us, run_us, node, fence, runs, failures, interruptions, rescues, state,
                                     outcome, level, flags, leased_us, run_at_us, log_lines, progress, progress_text, code, error,
                                     reason, result_type, result_ref, result)
            SELECT id, p_now, CASE WHEN ran THEN started_us ELSE coalesce(lease_started_us, leased_us) END,
                CASE WHEN ran THEN ended_us - started_us END, node, lease_fence, runs + ran::int4, failures + ran::int4, interruptions,
                rescues, state, outcome, level, 1 + CASE WHEN cancel_asked THEN 2 ELSE 0 END,
                CASE WHEN due_us IS NOT NULL THEN leased_us END, due_us, lines, CASE WHEN ran THEN progress END,
                CASE WHEN ran THEN progress_text END, code, error, reason, result_type, result_ref, result
            FROM x WHERE state = 5),
        live AS (
            INSERT INTO pawl_live (id, run_at_us, queue_id, type_id, fence, priority, class, state, level, runs, failures, interruptions,
                                   rescues, strikes, blocked)
            SELECT id, again_us, queue_id, type_id, lease_fence, priority, CASE WHEN ran THEN 0 ELSE class END, 2, lease_level,
                runs + ran::int4, failures + failure::int4, interruptions + interruption::int4, rescues, strikes, false
            FROM x WHERE state = 2),
        attempts AS (
            INSERT INTO pawl_attempt (task_id, number, outcome, started_us, finished_us, fence, node, log_lines, code, error)
            SELECT id, runs + 1, outcome, started_us, ended_us, lease_fence, node, lines, code, error FROM x WHERE state = 2 AND ran),
        logs AS (INSERT INTO pawl_runlog (task_id, number, at_us, text) SELECT id, runs + 1, p_now, log FROM x WHERE log IS NOT NULL AND ran),
        trail AS (
            INSERT INTO pawl_audit (task_id, number, at_us, from_state, to_state, fence, node, detail)
            SELECT x.id, coalesce((SELECT max(a.number) FROM pawl_audit a WHERE a.task_id = x.id), 0)
                    + CASE WHEN t.grants OR x.lease_level <> 1 THEN 1 ELSE 2 END,
                CASE WHEN t.grants THEN x.leased_us ELSE p_now END, CASE WHEN NOT t.grants THEN 3 WHEN x.due_us IS NULL THEN 0 ELSE 2 END,
                CASE WHEN t.grants THEN 3 ELSE x.state END, x.lease_fence, x.node, CASE WHEN NOT t.grants THEN x.error END
            FROM x, (VALUES (true), (false)) t (grants)
            WHERE x.released AND CASE WHEN t.grants THEN x.lease_level = 1
                                      ELSE pawl_wanted(x.level, CASE WHEN x.failure THEN 2 ELSE x.ran::int4 END) END)
        SELECT node, queue_id, type_id, state,
            CASE state WHEN 4 THEN 2 WHEN 5 THEN 3 WHEN 6 THEN 4 ELSE CASE WHEN failure THEN 5 WHEN ran THEN 7 ELSE 0 END END::int2 AS outcome,
            CASE WHEN state = 2 THEN priority END AS priority, CASE WHEN state = 2 THEN CASE WHEN ran THEN 0 ELSE class END END AS class,
            count(*) AS n, array_agg(op) AS ops, min(again_us) AS due_us,
            array_agg(pawl_bucket(started_us - coalesce(due_us, leased_us))) FILTER (WHERE ran AND ended_us <> 0) AS wait,
            array_agg(pawl_bucket(ended_us - started_us)) FILTER (WHERE ran AND ended_us <> 0) AS run,
            string_agg(pawl_answer(op, 1, 0, 0, again_us, state), '') FILTER (WHERE released AND (state = 6 OR delay_us < 0)) AS answers
        FROM x GROUP BY 1, 2, 3, 4, 5, 6, 7
    LOOP
        v_ops := v_ops || r.ops;
        o_results := o_results || coalesce(r.answers, '');
        IF r.node = p_node THEN o_leases := o_leases - r.n; ELSE v_did := pawl_take(r.node, -r.n, p_node, p_lane); END IF;
        v_did := pawl_add(p_node, p_lane, r.queue_id, CASE WHEN r.state = 2 THEN r.n ELSE 0 END, -r.n,
                         CASE WHEN r.state = 5 THEN r.n ELSE 0 END);
        IF r.outcome <> 0 THEN
            v_did := pawl_roll(p_now, p_node, p_lane, r.queue_id, r.type_id, r.outcome, r.n, r.wait, r.run);
        END IF;
        IF r.state = 2 THEN o_hints := o_hints || pawl_hint(r.queue_id, r.priority, r.class, r.type_id, r.due_us); END IF;
    END LOOP;
    IF cardinality(v_ops) < cardinality(p_op) THEN
        SELECT o_results || pawl_stale(array_agg(u.op), array_agg(u.id), array_agg(u.fence),
                                       array_agg(CASE WHEN u.to_state < 0 THEN 12 ELSE 9 END))
        INTO o_results
        FROM unnest(p_op, p_id, p_fence, p_to) u (op, id, fence, to_state) WHERE u.op <> ALL (v_ops);
    END IF;
END $$;

-- The same for what most batches hold: FINISH of runs that succeeded or were cancelled under one and the same fence, with nothing to say.
CREATE FUNCTION pawl_finish(p_now int8, p_node int4, p_lane int8, p_op int4[], p_id int8[], p_fence int8[], p_to int2[], p_outcome int2[],
                            p_started int8[], p_ended int8[], p_level int2[], OUT o_results text, OUT o_hints text, OUT o_leases int8)
LANGUAGE plpgsql SET enable_nestloop = off SET enable_hashjoin = on AS $$
DECLARE
    v_did bool;
    r record;
    v_ops int4[] := '{}';
BEGIN
    o_results := '';
    o_hints := '';
    o_leases := 0;
    FOR r IN
        WITH x AS (
            DELETE FROM pawl_leased WHERE id = ANY (p_id) AND fence = p_fence[1]
            RETURNING id, node, queue_id, type_id, leased_us, run_at_us AS due_us, runs, failures, interruptions, rescues, cancel_asked),
        y AS (
            SELECT x.*, u.op, u.to_state, u.outcome, u.started_us, u.ended_us, u.level
            FROM x JOIN unnest(p_op, p_id, p_to, p_outcome, p_started, p_ended, p_level)
                u (op, id, to_state, outcome, started_us, ended_us, level) ON u.id = x.id),
        done AS (
            INSERT INTO pawl_done (id, finished_us, started_us, run_us, node, fence, runs, failures, interruptions, rescues, state, outcome,
                                   level, flags, leased_us, run_at_us)
            SELECT id, p_now, started_us, ended_us - started_us, node, p_fence[1], runs + 1, failures, interruptions, rescues, to_state,
                outcome, level, CASE WHEN cancel_asked THEN 3 ELSE 1 END, CASE WHEN due_us IS NOT NULL THEN leased_us END, due_us
            FROM y)
        SELECT node, queue_id, type_id, CASE to_state WHEN 4 THEN 2 ELSE 4 END::int2 AS outcome, count(*) AS n, array_agg(op) AS ops,
            array_agg(pawl_bucket(started_us - coalesce(due_us, leased_us))) FILTER (WHERE ended_us <> 0) AS wait,
            array_agg(pawl_bucket(ended_us - started_us)) FILTER (WHERE ended_us <> 0) AS run
        FROM y GROUP BY node, queue_id, type_id, to_state
    LOOP
        v_ops := v_ops || r.ops;
        IF r.node = p_node THEN o_leases := o_leases - r.n; ELSE v_did := pawl_take(r.node, -r.n, p_node, p_lane); END IF;
        v_did := pawl_add(p_node, p_lane, r.queue_id, 0, -r.n, 0);
        v_did := pawl_roll(p_now, p_node, p_lane, r.queue_id, r.type_id, r.outcome, r.n, r.wait, r.run);
    END LOOP;
    IF cardinality(v_ops) < cardinality(p_op) THEN
        SELECT pawl_stale(array_agg(u.op), array_agg(u.id), array_agg(u.fence), array_agg(9)) INTO o_results
        FROM unnest(p_op, p_id, p_fence) u (op, id, fence) WHERE u.op <> ALL (v_ops);
    END IF;
END $$;

-- START, and PROGRESS.
CREATE FUNCTION pawl_mark(p_now int8, p_op int4[], p_id int8[], p_fence int8[], p_mark bool[]) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
    v_ops int4[];
BEGIN
    WITH x AS (
        UPDATE pawl_leased l SET not_started = false, started_us = p_now, mark = l.mark OR u.mark
        FROM unnest(p_op, p_id, p_fence, p_mark) u (op, id, fence, mark)
        WHERE l.id = ANY (ARRAY[u.id]) AND l.fence = u.fence AND NOT l.cancel_asked RETURNING u.op)
    SELECT coalesce(array_agg(op), '{}') INTO v_ops FROM x;
    IF cardinality(v_ops) = cardinality(p_op) THEN RETURN ''; END IF;
    RETURN (SELECT pawl_stale(array_agg(u.op), array_agg(u.id), array_agg(u.fence), array_agg(7))
            FROM unnest(p_op, p_id, p_fence) u (op, id, fence) WHERE u.op <> ALL (v_ops));
END $$;

CREATE FUNCTION pawl_progress(p_op int4[], p_id int8[], p_fence int8[], p_percent int2[], p_text text[]) RETURNS text
LANGUAGE plpgsql AS $$
DECLARE
    v_ops int4[];
BEGIN
    WITH x AS (
        UPDATE pawl_leased l SET progress = u.percent, progress_text = u.text
        FROM unnest(p_op, p_id, p_fence, p_percent, p_text) u (op, id, fence, percent, text)
        WHERE l.id = ANY (ARRAY[u.id]) AND l.fence = u.fence RETURNING u.op)
    SELECT coalesce(array_agg(op), '{}') INTO v_ops FROM x;
    IF cardinality(v_ops) = cardinality(p_op) THEN RETURN ''; END IF;
    RETURN (SELECT pawl_stale(array_agg(u.op), array_agg(u.id), array_agg(u.fence), array_agg(1))
            FROM unnest(p_op, p_id, p_fence) u (op, id, fence) WHERE u.op <> ALL (v_ops));
END $$;
