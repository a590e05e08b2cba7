-- What nodes tell about themselves, for people; as long as they live.
CREATE TABLE pawl_told (
    node int4 PRIMARY KEY,
    told bytea NOT NULL
);

-- NULL: as before; empty: nothing any more.
CREATE FUNCTION pawl_node_told(p_node int4, p_told bytea) RETURNS bool LANGUAGE plpgsql AS $$
BEGIN
    IF length(p_told) > 0 THEN
        INSERT INTO pawl_told (node, told) VALUES (p_node, p_told) ON CONFLICT (node) DO UPDATE SET told = excluded.told;
    ELSIF p_told IS NOT NULL THEN
        DELETE FROM pawl_told WHERE node = p_node;
    END IF;
    RETURN true;
END $$;
