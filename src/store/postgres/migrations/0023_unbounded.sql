-- Tasks that no concurrency limit concerns pay little for those of others: what a batch has is looked at by kind, not by task. (OFFSET 0 keeps
-- the planner from asking of each row what is asked of each kind.)

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

-- Those of the tasks in the ready index whose queue's tenants take turns leave it for pawl_shared, unless somebody else has them.
CREATE OR REPLACE FUNCTION pawl_share(p_ids int8[]) RETURNS bool LANGUAGE plpgsql AS $$
DECLARE
    v_ids int8[];
BEGIN
    IF NOT EXISTS (SELECT FROM pawl_bound b WHERE b.scope = 4 AND b.key = '' AND b.most > 0) THEN RETURN false; END IF;
    v_ids := ARRAY(SELECT v.id FROM pawl_live v WHERE v.id = ANY (p_ids) AND v.state = 2 AND NOT v.blocked AND pawl_takes_turns(v.queue_id)
                   ORDER BY v.id FOR UPDATE SKIP LOCKED);
    IF cardinality(v_ids) = 0 THEN RETURN false; END IF;
    WITH s AS (
        INSERT INTO pawl_shared (task_id, queue_id, priority, tenant_id, lane, run_at_us)
        SELECT v.id, v.queue_id, v.priority, coalesce(b.tenant_id, 0), v.lane, v.run_at_us
        FROM unnest(v_ids) u (id) JOIN pawl_live v ON v.id = ANY (ARRAY[u.id]) JOIN pawl_body b ON b.id = ANY (ARRAY[u.id])
        RETURNING task_id)
    UPDATE pawl_live v SET blocked = true FROM s WHERE v.id = ANY (ARRAY[s.task_id]);
    RETURN true;
END $$;
