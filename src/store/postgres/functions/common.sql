-- What all the others use: the clock, sums of durations, names, ids, counters, trails.
--
-- Plans are made once per session, perhaps while a table is empty, and must be good for any number of rows. Then every plan costs the same,
-- and any may be taken, unless none but a probe of the right index is possible. So the functions that are called allow neither other joins
-- nor index-only scans, by which an index could be read whole, or hashed; these here join with `id = ANY (ARRAY[x.id])`; the index that finds
-- a task by its id is the newest of its table; and tasks that are looked up by id and state say `state + 0 = 2`, for which the ready index
-- cannot be used. What is written in LANGUAGE sql is an expression that the planner puts in its place; anything else would be parsed at
-- every call.

CREATE OR REPLACE FUNCTION pawl_now() RETURNS int8 LANGUAGE sql VOLATILE AS
$$ SELECT (extract(epoch FROM clock_timestamp()) * 1000000)::int8 $$;

-- b >= 0; stays at the end of time.
CREATE OR REPLACE FUNCTION pawl_later(a int8, b int8) RETURNS int8 LANGUAGE sql IMMUTABLE AS
$$ SELECT CASE WHEN a > 9223372036854775807 - b THEN 9223372036854775807 ELSE a + b END $$;

-- When a task falls due: when_us NULL or 0 is now, positive a delay, negative an instant.
CREATE OR REPLACE FUNCTION pawl_due(now_us int8, when_us int8) RETURNS int8 LANGUAGE sql IMMUTABLE AS
$$ SELECT CASE WHEN when_us IS NULL THEN now_us WHEN when_us < 0 THEN greatest(-when_us, now_us) ELSE pawl_later(now_us, when_us) END $$;

-- Durations in half octaves, from 0: bucket 2k holds [2^k, 1.5 x 2^k), bucket 2k + 1 the rest up to 2^(k+1).
CREATE OR REPLACE FUNCTION pawl_bucket(us int8) RETURNS int4 LANGUAGE sql IMMUTABLE AS
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
CREATE OR REPLACE FUNCTION pawl_histogram_add(p_counts int8[], p_buckets int4[]) RETURNS int8[] LANGUAGE plpgsql IMMUTABLE AS $$
DECLARE
    r record;
BEGIN
    IF p_counts IS NULL AND p_buckets IS NOT NULL THEN p_counts := '{0}'; END IF; -- it begins with bucket 0
    FOR r IN SELECT b, count(*) AS n FROM unnest(p_buckets) b GROUP BY b LOOP
        p_counts[r.b + 1] := coalesce(p_counts[r.b + 1], 0) + r.n;
    END LOOP;
    RETURN p_counts;
END $$;

CREATE OR REPLACE FUNCTION pawl_histogram_sum(a int8[], b int8[]) RETURNS int8[] LANGUAGE plpgsql IMMUTABLE AS $$
BEGIN
    IF a IS NULL THEN RETURN b; END IF;
    FOR i IN 1..coalesce(array_length(b, 1), 0) LOOP
        IF b[i] IS NOT NULL THEN a[i] := coalesce(a[i], 0) + b[i]; END IF;
    END LOOP;
    RETURN a;
END $$;

CREATE OR REPLACE AGGREGATE pawl_histogram_total (int8[]) (SFUNC = pawl_histogram_sum, STYPE = int8[]);

-- ---- names, ids, counters ---------------------------------------------------------------------------------------------------------

-- The numbers of names, which are made if need be, in the order of the texts.
CREATE OR REPLACE FUNCTION pawl_names(p_texts text[]) RETURNS int4[] LANGUAGE plpgsql SET search_path FROM CURRENT AS $$
BEGIN
    INSERT INTO pawl_name (text)
    SELECT DISTINCT t COLLATE "C" FROM unnest(p_texts) t WHERE NOT EXISTS (SELECT FROM pawl_name n WHERE n.text = t) ORDER BY 1
    ON CONFLICT DO NOTHING;
    RETURN ARRAY(SELECT n.id FROM unnest(p_texts) WITH ORDINALITY u (t, i) JOIN pawl_name n ON n.text = u.t ORDER BY u.i);
END $$;

-- An id of number 0, greater than all drawn before. The sequence leaps forward to the time of day; whoever does that has a lock that nobody
-- waits for, and others go on meanwhile from where the sequence is.
CREATE OR REPLACE FUNCTION pawl_draw(p_now int8) RETURNS int8 LANGUAGE plpgsql AS $$
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

-- Of rows that every commit of a lane updates: see the head of migrations/0001_tables.sql.
CREATE OR REPLACE FUNCTION pawl_turn() RETURNS int8 LANGUAGE sql VOLATILE AS
$$ SELECT -(pg_current_xact_id()::text::int8 >> 8) $$;

CREATE OR REPLACE FUNCTION pawl_add(p_node int4, p_lane int8, p_queue int4, p_pending int8, p_leased int8, p_failed int8)
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
CREATE OR REPLACE FUNCTION pawl_roll(p_now int8, p_node int4, p_lane int8, p_queue int4, p_type int4, p_outcome int2, p_count int8,
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

CREATE OR REPLACE FUNCTION pawl_bear(p_now int8, p_node int4, p_lane int8, p_min int8, p_max int8) RETURNS bool LANGUAGE plpgsql AS $$
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
CREATE OR REPLACE FUNCTION pawl_lane_row(p_node int4, p_lane int8) RETURNS tid LANGUAGE plpgsql AS $$
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
CREATE OR REPLACE FUNCTION pawl_lanes_of(p_node int4) RETURNS SETOF pawl_lane LANGUAGE plpgsql STABLE SET search_path FROM CURRENT AS $$
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
CREATE OR REPLACE FUNCTION pawl_take(p_node int4, p_leases int8, p_by int4, p_by_lane int8) RETURNS bool LANGUAGE plpgsql AS $$
DECLARE
    v_row tid := pawl_lane_row(p_node, CASE WHEN p_by = 0 THEN -1000 - p_by_lane ELSE -3 END);
BEGIN
    UPDATE pawl_lane SET leases = leases + p_leases, turn = pawl_turn() WHERE ctid = v_row;
    RETURN true;
END $$;

-- What a row of the trail says, if its level wants it: kind 0 a change, 1 the end of a run, 2 trouble.
CREATE OR REPLACE FUNCTION pawl_wanted(p_level int2, p_kind int4) RETURNS bool LANGUAGE sql IMMUTABLE AS
$$ SELECT p_level = 1 OR (p_level = 2 AND p_kind > 0) OR (p_level = 3 AND p_kind = 2) $$;

CREATE OR REPLACE FUNCTION pawl_trail(p_id int8, p_at int8, p_from int2, p_to int2, p_fence int4, p_node int4, p_detail text)
RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO pawl_audit (task_id, number, at_us, from_state, to_state, fence, node, detail)
    SELECT p_id, coalesce(max(number), 0) + 1, p_at, p_from, p_to, p_fence, p_node, p_detail FROM pawl_audit WHERE task_id = p_id;
END $$;

-- The row that was read from pawl_leased while the lease lasted.
CREATE OR REPLACE FUNCTION pawl_trail_grant(p_row pawl_leased) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    IF p_row.level = 1 THEN
        PERFORM pawl_trail(p_row.id, p_row.leased_us, CASE WHEN p_row.run_at_us IS NULL THEN 0 ELSE 2 END::int2, 3::int2, p_row.fence,
                           p_row.node, NULL);
    END IF;
END $$;

CREATE OR REPLACE FUNCTION pawl_answer(p_op int4, p_result int4, p_id int8, p_fence int8, p_run_at int8, p_state int4) RETURNS text
LANGUAGE sql STABLE AS
$$ SELECT p_op || ' ' || p_result || ' ' || coalesce(p_id, 0) || ' ' || coalesce(p_fence, 0) || ' ' || coalesce(p_run_at, 0) || ' '
       || coalesce(p_state, 0) || E'\n' $$;

-- Operations that were answered with another result than 1: they were not carried out.
CREATE OR REPLACE FUNCTION pawl_undone(p_answers text) RETURNS int4[] LANGUAGE plpgsql IMMUTABLE AS $$
BEGIN
    RETURN ARRAY(SELECT split_part(l, ' ', 1)::int4 FROM string_to_table(p_answers, E'\n') l WHERE l ~ '^[0-9]+ ([2-9]|1[0-9]) ');
END $$;

-- The number of a lane of the ready index: see pawl_live.
CREATE OR REPLACE FUNCTION pawl_lane_of(p_priority int4, p_class int4, p_type int4) RETURNS int8 LANGUAGE sql IMMUTABLE AS
$$ SELECT ((p_priority + 32768)::int8 << 36) | (p_class::int8 << 32) | p_type $$;

-- A hint for those who claim: due from run_at on there is something in this lane of the ready index.
CREATE OR REPLACE FUNCTION pawl_hint(p_queue int4, p_priority int4, p_class int4, p_type int4, p_run_at int8) RETURNS text
LANGUAGE sql STABLE AS
$$ SELECT p_queue || ' ' || pawl_lane_of(p_priority, p_class, p_type) || ' ' || p_run_at || ';' $$;

-- Who holds these keys. (none stands for 0, by which alone the index could be read.)
CREATE OR REPLACE FUNCTION pawl_holders(p_key text[], p_tenant int4[]) RETURNS SETOF pawl_key LANGUAGE sql STABLE AS $$
    SELECT k.* FROM (SELECT x.*, 0::int8 AS none FROM unnest(p_key, p_tenant) x OFFSET 0) u (key, tenant, none)
    JOIN pawl_key k ON k.key = ANY (ARRAY[u.key]) AND k.tenant_id = ANY (ARRAY[coalesce(u.tenant, 0)]) AND k.old = ANY (ARRAY[u.none])
$$;
