-- Upkeep: the days of pawl_done, retention, sums of sums.

-- Makes the tables of today and of the days to come, as the owner of the schema, whoever calls. Attaching one disturbs nobody.
CREATE OR REPLACE FUNCTION pawl_days(p_clock int8[], p_ahead int4) RETURNS int4
LANGUAGE plpgsql SECURITY DEFINER SET search_path FROM CURRENT AS $$
DECLARE
    v_today int8 := coalesce(p_clock[1], pawl_now()) / 86400000000;
    v_made int4 := 0;
BEGIN
    IF (SELECT count(*) FROM pawl_day WHERE day BETWEEN v_today AND v_today + p_ahead) = p_ahead + 1 THEN RETURN 0; END IF;
    PERFORM pg_advisory_xact_lock('pawl_day'::regclass::oid::int8);
    FOR d IN v_today..v_today + p_ahead LOOP
        CONTINUE WHEN EXISTS (SELECT FROM pawl_day WHERE day = d);
        EXECUTE format('CREATE TABLE pawl_done_%s (LIKE pawl_done) WITH (autovacuum_vacuum_scale_factor = 0.05)', d);
        EXECUTE format('ALTER TABLE pawl_done ATTACH PARTITION pawl_done_%s FOR VALUES FROM (%s) TO (%s)', d, d * 86400000000,
                       (d + 1) * 86400000000);
        INSERT INTO pawl_day (day) VALUES (d);
        v_made := v_made + 1;
    END LOOP;
    RETURN v_made;
END $$;

-- Removes the table of a day, for those who do not own it; the others detach it concurrently. Nobody is held up for longer than a moment.
CREATE OR REPLACE FUNCTION pawl_drop_day(p_day int8) RETURNS void
LANGUAGE plpgsql SECURITY DEFINER SET search_path FROM CURRENT SET lock_timeout = '200ms' AS $$
BEGIN
    EXECUTE format('DROP TABLE IF EXISTS pawl_done_%s', p_day);
    DELETE FROM pawl_day WHERE day = p_day;
END $$;

-- What hangs on finished tasks, their bodies included.
CREATE OR REPLACE FUNCTION pawl_forget(p_ids int8[]) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    DELETE FROM pawl_key k USING pawl_body b
    WHERE b.id = ANY (p_ids) AND b.key IS NOT NULL AND k.key = ANY (ARRAY[b.key]) AND k.tenant_id = ANY (ARRAY[coalesce(b.tenant_id, 0)])
        AND k.old = ANY (ARRAY[0, b.id]) AND k.task_id = b.id;
    DELETE FROM pawl_attempt WHERE task_id = ANY (p_ids);
    DELETE FROM pawl_runlog WHERE task_id = ANY (p_ids);
    DELETE FROM pawl_audit WHERE task_id = ANY (p_ids);
    PERFORM pawl_forget_families(p_ids);
    DELETE FROM pawl_body WHERE id = ANY (p_ids);
END $$;

-- Adds up what lanes that are no more left behind: those of node 0, and those of the nodes given.
CREATE OR REPLACE FUNCTION pawl_merge(p_now int8, p_nodes int4[]) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO pawl_queue (queue_id) SELECT DISTINCT queue_id FROM pawl_count WHERE node = 0 ORDER BY 1 ON CONFLICT DO NOTHING;
    WITH d AS (DELETE FROM pawl_count WHERE (node = 0 AND lane <> 0) OR node = ANY (p_nodes) RETURNING *)
    INSERT INTO pawl_count AS c (node, lane, queue_id, waiting, pending, leased, failed)
    SELECT 0, 0, queue_id, sum(waiting), sum(pending), sum(leased), sum(failed) FROM d GROUP BY queue_id
    ON CONFLICT (node, lane, queue_id, turn) DO UPDATE SET waiting = c.waiting + excluded.waiting, pending = c.pending + excluded.pending,
        leased = c.leased + excluded.leased, failed = c.failed + excluded.failed;
    WITH d AS (DELETE FROM pawl_born WHERE (node, lane) <> (0, 0) AND (node = 0 OR node = ANY (p_nodes) OR hour < p_now / 3600000000 - 1)
               RETURNING *)
    INSERT INTO pawl_born AS b (hour, node, lane, min_id, max_id)
    SELECT hour, 0, 0, min(min_id), max(max_id) FROM d GROUP BY hour
    ON CONFLICT (hour, node, lane) DO UPDATE SET min_id = least(b.min_id, excluded.min_id), max_id = greatest(b.max_id, excluded.max_id);
    WITH d AS (DELETE FROM pawl_rollup WHERE (node, lane) <> (0, 0) AND (minute < p_now / 60000000 - 5 OR node = 0) RETURNING *)
    INSERT INTO pawl_rollup AS r (minute, node, lane, queue_id, type_id, outcome, count, wait, run)
    SELECT minute, 0, 0, queue_id, type_id, outcome, sum(count), pawl_histogram_total(wait), pawl_histogram_total(run)
    FROM d GROUP BY minute, queue_id, type_id, outcome
    ON CONFLICT (minute, node, lane, queue_id, type_id, outcome, turn) DO UPDATE SET count = r.count + excluded.count,
        wait = pawl_histogram_sum(r.wait, excluded.wait), run = pawl_histogram_sum(r.run, excluded.run);
END $$;

-- Whether a node shows that it lives: its session lock, or its heartbeat; behind a proxy also, that it was born this moment.
CREATE OR REPLACE FUNCTION pawl_visible(p_now int8, p_boot int8, p_node pawl_node, p_expires int8, p_locks int4[]) RETURNS bool
LANGUAGE sql STABLE AS $$
    SELECT p_node.alive = 1 AND (coalesce(p_expires, 0) > p_boot OR (NOT p_node.gone AND (p_node.id = ANY (p_locks)
        OR (NOT p_node.locked AND p_node.born_us + p_node.lease_us > p_now))))
$$;

-- The nodes whose session lock is held.
CREATE OR REPLACE FUNCTION pawl_locks() RETURNS int4[] LANGUAGE sql VOLATILE SET search_path FROM CURRENT AS $$
    SELECT coalesce(array_agg(objid::int8::int4), '{}') FROM pg_locks
    WHERE locktype = 'advisory' AND granted AND objsubid = 2 AND classid = 'pawl_node'::regclass::oid
        AND database = (SELECT oid FROM pg_database WHERE datname = current_database())
$$;

-- Nodes: those whose process ended while they held nothing are buried, the dead go a day later.
CREATE OR REPLACE FUNCTION pawl_sweep_nodes(p_now int8, p_boot int8, p_limit int4, OUT o_removed int8, OUT o_next int8) LANGUAGE plpgsql AS $$
DECLARE
    v_day int8 := 86400000000;
    v_locks int4[] := pawl_locks();
    v_nodes int4[];
    n int4;
BEGIN
    FOR n IN
        SELECT x.id FROM pawl_node x LEFT JOIN pawl_heartbeat h ON h.node = x.id
        WHERE x.alive = 1 AND coalesce(h.leases, 0) = 0
            AND (x.gone OR (NOT pawl_visible(p_now, p_boot, x, h.expires_us, v_locks)
                            AND x.born_us < p_now - CASE WHEN x.locked THEN v_day ELSE 30 * v_day END
                            AND coalesce(h.expires_us, 0) < p_boot - CASE WHEN x.locked THEN v_day ELSE 30 * v_day END))
        ORDER BY x.id LIMIT p_limit FOR UPDATE OF x SKIP LOCKED
    LOOP
        CONTINUE WHEN (SELECT coalesce(sum(leases), 0) FROM pawl_lane WHERE node = n) <> 0;
        PERFORM pawl_kill(p_now, n, 0::int2);
    END LOOP;
    v_nodes := ARRAY(
        SELECT x.id FROM pawl_node x LEFT JOIN pawl_heartbeat h ON h.node = x.id
        WHERE x.alive = 0 AND coalesce(h.leases, 0) = 0 AND x.died_us <= p_now - 86400000000 ORDER BY x.died_us LIMIT p_limit);
    DELETE FROM pawl_lane WHERE node = ANY (v_nodes);
    UPDATE pawl_node SET alive = -1 WHERE id = ANY (v_nodes);
    o_removed := cardinality(v_nodes);
    PERFORM pawl_merge(p_now, v_nodes);
    -- Receipts of those who came back after that, and names that no history needs any more.
    DELETE FROM pawl_lane l WHERE l.now_us < p_now - 86400000000 AND NOT EXISTS (SELECT FROM pawl_node x WHERE x.id = l.node AND x.alive >= 0);
    DELETE FROM pawl_node WHERE alive = -1 AND died_us < coalesce((SELECT min(hour) FROM pawl_born) * 3600000000, p_now);
    SELECT min(died_us) + 86400000000 - p_now INTO o_next FROM pawl_node WHERE alive = 0;
END $$;

-- One day of pawl_done. A small day is swept row by row; a large one goes as a whole, when the last of it is old enough: then what hangs on
-- its tasks is removed first, in steps. o_drop: the table is not needed any more. o_next: microseconds until there is something to do.
CREATE OR REPLACE FUNCTION pawl_sweep_day(p_now int8, p_day int8, p_keep_succeeded int8, p_keep_cancelled int8, p_limit int4,
                               OUT o_removed int8, OUT o_more bool, OUT o_next int8, OUT o_drop bool) LANGUAGE plpgsql AS $$
DECLARE
    v_from int8 := p_day * 86400000000;
    v_to int8 := (p_day + 1) * 86400000000;
    v_large bool := pg_relation_size(format('pawl_done_%s', p_day)::regclass) > 64 * 1024 * 1024;
    v_whole bool := v_large AND p_keep_succeeded >= 0 AND p_keep_cancelled >= 0;
    v_due bool := v_to + greatest(p_keep_succeeded, p_keep_cancelled) <= p_now;
    v_ids int8[];
    v_first int8;
    k record;
BEGIN
    o_removed := 0;
    o_more := false;
    o_drop := false;
    IF v_whole AND NOT v_due THEN
        o_next := v_to + greatest(p_keep_succeeded, p_keep_cancelled) - p_now;
        RETURN;
    ELSIF v_whole THEN
        EXECUTE format('SELECT coalesce(array_agg(s.id), ''{}'') FROM (SELECT id FROM pawl_done_%s WHERE id > $1 ORDER BY id LIMIT $2) s',
                       p_day)
        INTO v_ids USING (SELECT coalesce(swept_id, 0) FROM pawl_day WHERE day = p_day), p_limit;
        PERFORM pawl_keep_results(v_ids);
        PERFORM pawl_forget(v_ids);
        o_removed := cardinality(v_ids);
        o_drop := o_removed < p_limit;
        o_more := NOT o_drop;
        IF o_removed > 0 THEN UPDATE pawl_day SET swept_id = v_ids[cardinality(v_ids)] WHERE day = p_day; END IF;
        RETURN;
    END IF;
    FOR k IN SELECT * FROM (VALUES (4, p_keep_succeeded), (6, p_keep_cancelled)) x (state, keep_us) WHERE x.keep_us >= 0 LOOP
        IF v_from + k.keep_us <= p_now THEN
            v_ids := ARRAY(SELECT id FROM pawl_done WHERE finished_us >= v_from AND finished_us < v_to AND finished_us <= p_now - k.keep_us
                               AND state = k.state LIMIT p_limit - o_removed + 1);
            IF cardinality(v_ids) > p_limit - o_removed THEN
                o_more := true;
                v_ids := v_ids[1:p_limit - o_removed];
            END IF;
            PERFORM pawl_keep_results(v_ids);
            DELETE FROM pawl_done WHERE id = ANY (v_ids) AND finished_us >= v_from AND finished_us < v_to;
            PERFORM pawl_forget(v_ids);
            o_removed := o_removed + cardinality(v_ids);
        END IF;
        EXIT WHEN o_more;
        SELECT d.finished_us INTO v_first FROM pawl_done d WHERE d.finished_us >= v_from AND d.finished_us < v_to AND d.state = k.state LIMIT 1;
        IF FOUND THEN o_next := least(o_next, greatest(v_first + k.keep_us - p_now, 1)); END IF;
    END LOOP;
    o_drop := v_to < p_now AND NOT o_more AND NOT EXISTS (SELECT FROM pawl_done WHERE finished_us >= v_from AND finished_us < v_to);
END $$;

-- One step of retention. keep < 0: for ever. drop_day: the caller detaches and drops that table of pawl_done.
CREATE OR REPLACE FUNCTION pawl_sweep(p_clock int8[], p_wait_ms int4, p_keep_succeeded int8, p_keep_cancelled int8, p_keep_resolved int8,
                           p_keep_failed int8, p_keep_audit int8, p_keep_logs int8, p_limit int4,
                           OUT removed int8, OUT expiring int8, OUT more bool, OUT next_us int8, OUT drop_day int8)
LANGUAGE plpgsql SET search_path FROM CURRENT SET enable_indexonlyscan = off SET jit = off AS $$
DECLARE
    v_now int8 := coalesce(p_clock[1], pawl_now());
    v_boot int8 := coalesce(p_clock[2], v_now);
    v_left int4 := p_limit;
    v_ids int8[];
    v_count int8;
    v_cut int8;
    d record;
    r record;
BEGIN
    PERFORM pawl_begin(p_wait_ms);
    removed := 0;
    expiring := 0;
    more := false;
    -- Somebody else is at it, or a move has counted what is there. One that begins now waits until this step has ended.
    PERFORM FROM pawl_gate WHERE mode = 0 FOR SHARE SKIP LOCKED;
    IF NOT FOUND OR NOT pg_try_advisory_xact_lock('pawl_meta'::regclass::oid::int8) THEN
        next_us := 60000000;
        RETURN;
    END IF;
    PERFORM pawl_days(p_clock, 7);
    FOR d IN SELECT day FROM pawl_day WHERE day <= v_now / 86400000000 ORDER BY day LOOP
        EXIT WHEN v_left = 0;
        SELECT * INTO r FROM pawl_sweep_day(v_now, d.day, p_keep_succeeded, p_keep_cancelled, v_left);
        v_left := v_left - r.o_removed;
        more := more OR r.o_more;
        next_us := least(next_us, r.o_next);
        IF r.o_drop AND drop_day IS NULL THEN drop_day := d.day; END IF;
    END LOOP;
    more := more OR v_left = 0;
    FOR r IN SELECT * FROM (VALUES (true, p_keep_resolved), (false, p_keep_failed)) x (resolved, keep_us) WHERE x.keep_us >= 0 LOOP
        IF r.resolved THEN
            v_ids := ARRAY(SELECT id FROM pawl_failed WHERE resolved_us <= v_now - r.keep_us ORDER BY resolved_us LIMIT v_left);
        ELSE
            v_ids := ARRAY(SELECT id FROM pawl_failed WHERE resolved_us IS NULL AND finished_us <= v_now - r.keep_us
                           ORDER BY finished_us LIMIT v_left);
            FOR d IN SELECT b.queue_id, count(*) AS n FROM pawl_body b WHERE b.id = ANY (v_ids) GROUP BY 1 LOOP
                PERFORM pawl_add(0, 0, d.queue_id, 0, 0, -d.n);
            END LOOP;
        END IF;
        PERFORM pawl_keep_results(v_ids);
        DELETE FROM pawl_failed WHERE id = ANY (v_ids);
        PERFORM pawl_forget(v_ids);
        v_left := v_left - cardinality(v_ids);
        SELECT min(CASE WHEN r.resolved THEN resolved_us ELSE finished_us END) + r.keep_us - v_now INTO v_count
        FROM pawl_failed WHERE (resolved_us IS NOT NULL) = r.resolved;
        more := more OR coalesce(v_count <= 0, false);
        next_us := least(next_us, v_count);
    END LOOP;
    IF p_keep_audit >= 0 THEN
        v_cut := v_now - p_keep_audit;
        DELETE FROM pawl_audit WHERE ctid = ANY (ARRAY(SELECT ctid FROM pawl_audit WHERE at_us <= v_cut LIMIT v_left));
        GET DIAGNOSTICS v_count = ROW_COUNT;
        more := more OR (v_count = v_left AND EXISTS (SELECT FROM pawl_audit WHERE at_us <= v_cut));
        v_left := v_left - v_count;
        DELETE FROM pawl_oplog WHERE id IN (SELECT id FROM pawl_oplog WHERE at_us <= v_cut ORDER BY id LIMIT v_left);
        GET DIAGNOSTICS v_count = ROW_COUNT;
        more := more OR (v_count = v_left AND EXISTS (SELECT FROM pawl_oplog WHERE at_us <= v_cut));
        v_left := v_left - v_count;
        -- Changes that have no row of their own are hidden.
        IF EXISTS (SELECT FROM pawl_born WHERE hour <= v_cut / 3600000000) THEN
            INSERT INTO pawl_meta (key, value) VALUES ('audit_cut_us', v_cut::text)
            ON CONFLICT (key) DO UPDATE SET value = greatest(pawl_meta.value::int8, v_cut)::text;
        END IF;
        next_us := least(next_us, (SELECT min(at_us) FROM pawl_oplog) + p_keep_audit - v_now,
                         (SELECT at_us FROM pawl_audit WHERE at_us > v_cut LIMIT 1) + p_keep_audit - v_now,
                         (SELECT min(hour + 1) FROM pawl_born WHERE (hour + 1) * 3600000000 > v_cut) * 3600000000 + p_keep_audit - v_now);
    END IF;
    IF p_keep_logs >= 0 THEN
        DELETE FROM pawl_runlog WHERE ctid = ANY (ARRAY(SELECT ctid FROM pawl_runlog WHERE at_us <= v_now - p_keep_logs LIMIT v_left));
        GET DIAGNOSTICS v_count = ROW_COUNT;
        more := more OR (v_count = v_left AND EXISTS (SELECT FROM pawl_runlog WHERE at_us <= v_now - p_keep_logs));
        v_left := v_left - v_count;
        next_us := least(next_us, (SELECT at_us FROM pawl_runlog WHERE at_us > v_now - p_keep_logs LIMIT 1) + p_keep_logs - v_now);
    END IF;
    SELECT * INTO r FROM pawl_sweep_nodes(v_now, v_boot, greatest(v_left, 1));
    v_left := v_left - r.o_removed;
    next_us := least(next_us, r.o_next);
    IF v_left > 0 THEN v_left := v_left - pawl_sweep_budgets(v_now, v_left); END IF;
    IF v_left > 0 THEN v_left := v_left - pawl_sweep_spots(v_left); END IF;
    IF v_left > 0 THEN
        SELECT * INTO r FROM pawl_sweep_batches(v_now, p_keep_succeeded, p_keep_cancelled, p_keep_failed, v_left);
        v_left := v_left - r.o_removed;
        more := more OR v_left = 0;
        next_us := least(next_us, r.o_next);
    END IF;
    DELETE FROM pawl_rollup WHERE minute < v_now / 60000000 - 8 * 1440;
    IF NOT more THEN
        DELETE FROM pawl_born b WHERE b.hour < v_now / 3600000000 - 1
            AND NOT EXISTS (SELECT FROM pawl_body x WHERE x.id BETWEEN b.min_id AND b.max_id);
    END IF;
    IF p_keep_failed >= 0 THEN
        expiring := (SELECT count(*) FROM (SELECT FROM pawl_failed WHERE resolved_us IS NULL
                                               AND finished_us < v_now + 604800000000 - p_keep_failed LIMIT 10000) x);
    END IF;
    removed := p_limit - v_left;
    next_us := CASE WHEN more THEN 0 ELSE coalesce(next_us, -1) END;
END $$;

-- The shape of the schema as one number, to see later whether somebody changed it.
CREATE OR REPLACE FUNCTION pawl_shape() RETURNS text LANGUAGE sql STABLE SET search_path FROM CURRENT AS $$
    SELECT md5(string_agg(x.line, E'\n' ORDER BY x.line COLLATE "C")) FROM (
        SELECT 'column ' || c.relname || ' ' || a.attname || ' ' || format_type(a.atttypid, a.atttypmod) || ' ' || a.attnotnull AS line
        FROM pg_class c JOIN pg_attribute a ON a.attrelid = c.oid
        WHERE c.relnamespace = (SELECT relnamespace FROM pg_class WHERE oid = 'pawl_meta'::regclass)
            AND c.relkind IN ('r', 'p', 'v') AND NOT c.relispartition AND c.relname LIKE 'pawl\_%' AND a.attnum > 0 AND NOT a.attisdropped
        UNION ALL
        SELECT 'index ' || i.relname || ' ' || regexp_replace(pg_get_indexdef(i.oid), ' ON (ONLY )?[^ ]+ ', ' ') || ' ' || x.indisvalid
        FROM pg_index x JOIN pg_class i ON i.oid = x.indexrelid JOIN pg_class c ON c.oid = x.indrelid
        WHERE c.relnamespace = (SELECT relnamespace FROM pg_class WHERE oid = 'pawl_meta'::regclass) AND NOT c.relispartition
            AND c.relname LIKE 'pawl\_%'
        UNION ALL
        SELECT 'function ' || p.proname || ' ' || md5(p.prosrc) FROM pg_proc p
        WHERE p.pronamespace = (SELECT relnamespace FROM pg_class WHERE oid = 'pawl_meta'::regclass) AND p.proname LIKE 'pawl\_%') x
$$;

REVOKE EXECUTE ON FUNCTION pawl_days, pawl_drop_day FROM PUBLIC;
