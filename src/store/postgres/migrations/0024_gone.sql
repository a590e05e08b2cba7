-- A parent that retention has removed takes no children any more, also if something of it is kept for those it had: nobody could retry it, and
-- whoever it held would wait for ever.

-- What the family of a new task means for it: p_n numbers of p_kin behind p_at, which are pawl_if_failed, the batch, the parents. A number is an id,
-- or below 0: -n is what operation n - 1 of this batch stored (d_), or, far below, a result that it has already. k_: see pawl_hold_kin.
-- p_member: the batch of whoever spawns it. o_result 1: it can be stored; else o_id says whom that is about.
CREATE OR REPLACE FUNCTION pawl_judge(p_kin int8[], p_at int4, p_n int4, k_id int8[], k_state int2[], k_closed bool[], d_id int8[], d_result int4[],
                           p_member int8, OUT o_result int4, OUT o_id int8, OUT o_waits bool) LANGUAGE plpgsql AS $$
DECLARE
    v_policy int8 := p_kin[p_at + 1];
    v_state int2;
    v_at int4;
    x int8;
BEGIN
    o_result := 1;
    o_waits := false;
    FOR j IN 2..p_n LOOP
        x := p_kin[p_at + CASE WHEN j = p_n THEN 2 ELSE j + 1 END]; -- the batch comes last
        CONTINUE WHEN x = 0;
        o_id := 0;
        IF x < -9000000000000000000 THEN
            o_result := x + 9223372036854775807;
            RETURN;
        END IF;
        IF x < 0 THEN
            v_at := -x;
            IF d_result[v_at] IS NULL THEN -- a spawn that comes before it
                o_waits := true;
                CONTINUE;
            ELSIF d_result[v_at] NOT IN (1, 2, 3, 4) THEN
                o_result := CASE WHEN d_result[v_at] IN (10, 11) THEN d_result[v_at] ELSE 9 END;
                RETURN;
            END IF;
            x := d_id[v_at];
            v_state := CASE WHEN d_result[v_at] = 2 THEN (pawl_hold_kin(ARRAY[x], true)).o_state[1] ELSE 2 END;
            v_at := NULL;
        ELSE
            v_at := array_position(k_id, x);
            v_state := k_state[v_at];
        END IF;
        o_id := x;
        IF j = p_n THEN
            IF k_closed[v_at] IS NULL THEN
                o_result := 8;
            ELSIF v_state > 3 OR (k_closed[v_at] AND x IS DISTINCT FROM p_member) THEN
                o_result := 9;
            END IF;
        ELSIF v_state = 0 OR (v_state > 3 AND EXISTS (SELECT FROM pawl_kept k WHERE k.id = x)) THEN
            o_result := 8;
        ELSIF v_state < 4 OR (v_state > 4 AND v_policy <> 1) THEN
            o_waits := true;
        END IF;
        IF o_result <> 1 THEN RETURN; END IF;
    END LOOP;
    o_id := 0;
END $$;
