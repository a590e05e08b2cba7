-- What nodes tell of what they do, while somebody listens: see pawl_feed in pawl/store.h.

-- The head's row is locked, so rows can be seen in the order of their numbers.
CREATE OR REPLACE FUNCTION pawl_feed_tell(p_clock int8[], p_wait_ms int4, p_listen_us int8, p_facts text, p_count int4, p_keep int8,
                          OUT last int8, OUT broken int8, OUT left_us int8, OUT fresh bool)
LANGUAGE plpgsql SET search_path FROM CURRENT AS $$
DECLARE
    h pawl_feed_head;
    v_now int8;
BEGIN
    PERFORM pawl_begin(p_wait_ms);
    SELECT * INTO h FROM pawl_feed_head FOR UPDATE;
    v_now := coalesce(p_clock[1], pawl_now());
    fresh := p_listen_us > 0 AND h.until_us <= v_now;
    IF fresh THEN
        h.last := h.last + 1;
        h.broken := h.last;
    END IF;
    IF p_listen_us > 0 THEN h.until_us := greatest(h.until_us, v_now + p_listen_us); END IF;
    IF p_count > 0 AND h.until_us > v_now THEN
        h.last := h.last + p_count;
        INSERT INTO pawl_feed (last, count, facts) VALUES (h.last, p_count, p_facts);
        DELETE FROM pawl_feed f WHERE f.last <= h.last - p_keep;
    END IF;
    UPDATE pawl_feed_head u SET last = h.last, broken = h.broken, until_us = h.until_us WHERE u IS DISTINCT FROM h;
    last := h.last;
    broken := h.broken;
    left_us := greatest(h.until_us - v_now, 0);
END $$;
