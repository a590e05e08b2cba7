-- What is rare is found among much: see migrations/0027_names.sql.

-- The tasks with these names beyond p_at, within p_width milliseconds of it, or fewer if those hold too many: up to o_to all of them are in o_ids.
-- There are none before p_low or after p_high; o_end: nor anything beyond o_to. The plan must be by that index, so nothing else is offered.
CREATE OR REPLACE FUNCTION pawl_leap(p_at int8, p_up bool, p_width int8, p_low int8, p_high int8, p_type text, p_queue text, p_tenant text,
                          OUT o_ids int8[], OUT o_to int8, OUT o_end bool)
LANGUAGE plpgsql STABLE SET search_path FROM CURRENT SET enable_seqscan = off SET enable_indexscan = off SET enable_indexonlyscan = off
SET enable_bitmapscan = on SET max_parallel_workers_per_gather = 0 SET jit = off AS $$
DECLARE
    v_most CONSTANT int4 := 200;
    v_width int8 := greatest(p_width, 0);
    v_low int8;
    v_high int8;
    v_sql text := 'SELECT array_agg(x.id) FROM (SELECT b.id FROM pawl_body b WHERE (b.id >> 22) BETWEEN $1 AND $2 AND b.id + 0 '
        || CASE WHEN p_up THEN '> $3' ELSE '< $3' END || CASE WHEN p_type IS NULL THEN '' ELSE ' AND b.type_id = $4' END
        || CASE WHEN p_queue IS NULL THEN '' ELSE ' AND b.queue_id = $5' END || CASE WHEN p_tenant IS NULL THEN '' ELSE ' AND b.tenant_id = $6' END
        || ' LIMIT $7) x';
BEGIN
    o_to := p_at;
    o_end := p_low IS NULL OR p_high IS NULL OR p_low > p_high OR CASE WHEN p_up THEN p_at >= p_high ELSE p_at <= p_low END;
    IF o_end THEN RETURN; END IF;
    LOOP
        IF p_up THEN
            v_low := greatest(p_at, p_low - 1) >> 22;
            v_high := least(v_low + v_width, p_high >> 22);
            o_to := (v_high << 22) + 4194303;
            o_end := o_to >= p_high;
        ELSE
            v_high := least(p_at, p_high) >> 22;
            v_low := greatest(v_high - v_width, p_low >> 22);
            o_to := v_low << 22;
            o_end := o_to <= p_low;
        END IF;
        EXECUTE v_sql INTO o_ids USING v_low, v_high, p_at, (SELECT n.id FROM pawl_name n WHERE n.text = p_type),
            (SELECT n.id FROM pawl_name n WHERE n.text = p_queue), (SELECT n.id FROM pawl_name n WHERE n.text = p_tenant),
            CASE WHEN v_width > 0 THEN v_most + 1 END;
        EXIT WHEN v_width = 0 OR coalesce(cardinality(o_ids), 0) <= v_most;
        v_width := v_width / 8;
    END LOOP;
END $$;
