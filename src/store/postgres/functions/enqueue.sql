-- For every language: a task that is stored with the caller's transaction, or not at all.
--
--     SELECT pawl.pawl_enqueue('email.send', '{"to": "ann@example.org"}');
--     SELECT pawl.pawl_enqueue('report', queue => 'slow', key => 'report:7', delay => '5 minutes');
--
-- Answers the task's id. A key whose last task is unfinished has the meaning it has everywhere: see the table in the documentation. Those
-- who wait for work are woken when the transaction commits; notify => false leaves that out (a lock of the whole cluster at commit), and
-- then the task is found a few seconds later.

CREATE OR REPLACE FUNCTION pawl_id_text(p_id int8) RETURNS text LANGUAGE sql IMMUTABLE AS $$
    SELECT string_agg(substr('0123456789ABCDEFGHJKMNPQRSTVWXYZ', ((p_id >> (5 * i)) & 31)::int4 + 1, 1), '' ORDER BY i DESC)
    FROM generate_series(0, 12) i
$$;

CREATE OR REPLACE FUNCTION pawl_check_name(p_what text, p_name text) RETURNS void LANGUAGE plpgsql IMMUTABLE AS $$
BEGIN
    IF p_name = '' OR octet_length(p_name) > 200 OR p_name ~ '[[:cntrl:]]' THEN
        RAISE EXCEPTION 'cannot enqueue: % must have 1 to 200 bytes and no control characters', p_what USING ERRCODE = 'invalid_parameter_value';
    END IF;
END $$;

CREATE OR REPLACE FUNCTION pawl_enqueue(type text, payload json DEFAULT NULL, queue text DEFAULT 'default', key text DEFAULT NULL,
                             delay interval DEFAULT NULL, run_at timestamptz DEFAULT NULL, priority int4 DEFAULT 0,
                             tenant text DEFAULT NULL, max_attempts int4 DEFAULT NULL, timeout interval DEFAULT NULL,
                             payload_bytes bytea DEFAULT NULL, content_type text DEFAULT NULL, created_by text DEFAULT NULL,
                             traceparent text DEFAULT NULL, headers text DEFAULT NULL, rate_key bytea DEFAULT NULL,
                             notify bool DEFAULT true) RETURNS text
LANGUAGE plpgsql SECURITY DEFINER SET search_path FROM CURRENT AS $$
DECLARE
    v_now int8 := pawl_now();
    v_names int4[];
    v_bytes bytea := coalesce(payload_bytes, convert_to(payload::text, 'UTF8'));
    u pawl_new;
    a record;
BEGIN
    IF type IS NULL OR queue IS NULL THEN
        RAISE EXCEPTION 'cannot enqueue: type and queue must not be NULL' USING ERRCODE = 'null_value_not_allowed';
    END IF;
    PERFORM pawl_check_name('type', type), pawl_check_name('queue', queue), pawl_check_name('key', key), pawl_check_name('tenant', tenant);
    IF priority NOT BETWEEN -32768 AND 32767 THEN
        RAISE EXCEPTION 'cannot enqueue: priority % is not between -32768 and 32767', priority USING ERRCODE = 'invalid_parameter_value';
    END IF;
    IF payload IS NOT NULL AND payload_bytes IS NOT NULL THEN
        RAISE EXCEPTION 'cannot enqueue: give payload or payload_bytes, not both' USING ERRCODE = 'invalid_parameter_value';
    END IF;
    IF octet_length(v_bytes) > 1048576 THEN
        RAISE EXCEPTION 'cannot enqueue: the payload has % bytes, and 1048576 at most are allowed', octet_length(v_bytes)
            USING ERRCODE = 'program_limit_exceeded';
    END IF;
    IF pawl_closed() THEN RAISE EXCEPTION '%', pawl_closed_text() USING ERRCODE = 'PW004'; END IF;
    v_names := pawl_names(ARRAY[type, queue, coalesce(tenant, type)]);
    SELECT 0, 0, v_names[1], v_names[2], priority, 1, 0,
        CASE WHEN run_at IS NOT NULL THEN -greatest((extract(epoch FROM run_at) * 1000000)::int8, 1)
             WHEN delay IS NOT NULL THEN greatest((extract(epoch FROM delay) * 1000000)::int8, 0) END,
        false, CASE WHEN tenant IS NOT NULL THEN v_names[3] END, nullif(max_attempts, 0), (extract(epoch FROM timeout) * 1000000)::int8,
        NULL, key, CASE WHEN content_type = 'application/json' THEN NULL WHEN content_type IS NOT NULL THEN content_type
                        WHEN payload_bytes IS NOT NULL THEN 'application/octet-stream' END,
        created_by, traceparent, headers, rate_key, v_bytes, false, 0, 0, NULL, 0
    INTO u;
    SELECT * INTO a FROM pawl_put_one(v_now, 0, nextval('pawl_slot'), false, u);
    IF (SELECT bounds FROM pawl_gate) > 0 THEN PERFORM pawl_settle(v_now, '{}', ARRAY[a.o_id], NULL); END IF;
    IF notify AND a.o_result <> 2 THEN
        PERFORM pg_notify('pawl.' || current_schema(), pawl_hint(u.queue_id, u.priority, 0, u.type_id, a.o_run_at));
    END IF;
    RETURN pawl_id_text(a.o_id);
END $$;

REVOKE EXECUTE ON FUNCTION pawl_enqueue FROM PUBLIC;
