-- What those who hold leases say: START, FINISH, RELEASE, PROGRESS.

-- What became of operations that no lease under their fence was found for. p_held: the result where there is one after all.
CREATE OR REPLACE FUNCTION pawl_stale(p_ops int4[], p_ids int8[], p_fences int8[], p_held int4[]) RETURNS text LANGUAGE plpgsql STABLE AS $$
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
CREATE OR REPLACE FUNCTION pawl_end(p_now int8, p_node int4, p_lane int8, p_op int4[], p_id int8[], p_fence int8[], p_to int2[], p_outcome int2[],
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
CREATE OR REPLACE FUNCTION pawl_finish(p_now int8, p_node int4, p_lane int8, p_op int4[], p_id int8[], p_fence int8[], p_to int2[], p_outcome int2[],
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
CREATE OR REPLACE FUNCTION pawl_mark(p_now int8, p_op int4[], p_id int8[], p_fence int8[], p_mark bool[]) RETURNS text LANGUAGE plpgsql AS $$
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

CREATE OR REPLACE FUNCTION pawl_progress(p_op int4[], p_id int8[], p_fence int8[], p_percent int2[], p_text text[]) RETURNS text
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
