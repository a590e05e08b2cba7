-- Nodes that are to start nothing more, as long as they live.
CREATE TABLE pawl_drain (
    node int4 PRIMARY KEY
);

-- false: no such node lives. What was said of others that have died goes, too.
CREATE FUNCTION pawl_node_drain(p_clock int8[], p_wait_ms int4, p_node int4, p_on bool, p_by text) RETURNS bool
LANGUAGE plpgsql SET search_path FROM CURRENT AS $$
DECLARE
    v_name text;
BEGIN
    PERFORM pawl_begin(p_wait_ms);
    SELECT name INTO v_name FROM pawl_node WHERE id = p_node AND alive = 1;
    IF NOT FOUND THEN RETURN false; END IF;
    DELETE FROM pawl_drain d WHERE NOT EXISTS (SELECT FROM pawl_node n WHERE n.id = d.node AND n.alive = 1);
    IF p_on THEN
        INSERT INTO pawl_drain (node) VALUES (p_node) ON CONFLICT DO NOTHING;
    ELSE
        DELETE FROM pawl_drain WHERE node = p_node;
    END IF;
    PERFORM pawl_log_operator(coalesce(p_clock[1], pawl_now()), p_by, CASE WHEN p_on THEN 'drain' ELSE 'undrain' END, NULL, v_name);
    RETURN true;
END $$;
