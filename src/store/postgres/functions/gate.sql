-- The gate: see pawl_gate in pawl/store.h.

-- Whether the gate is shut, for a transaction that is about to insert or to lease. It has its number before it looks: so whoever shuts the
-- gate, and then waits for the transactions that have a number, has waited for all that saw it open. A transaction that goes on seeing what
-- was there when it began is refused by the server if the row has changed since.
CREATE OR REPLACE FUNCTION pawl_closed() RETURNS bool LANGUAGE plpgsql AS $$
BEGIN
    PERFORM pg_current_xact_id();
    IF current_setting('transaction_isolation') <> 'read committed' THEN PERFORM FROM pawl_gate FOR SHARE; END IF;
    RETURN EXISTS (SELECT FROM pawl_gate WHERE mode >= 2);
END $$;

CREATE OR REPLACE FUNCTION pawl_closed_text() RETURNS text LANGUAGE sql STABLE AS $$
    SELECT CASE WHEN mode = 3 THEN format('cannot enqueue: the move from "%s" is not complete', coalesce(peer, '?'))
                ELSE format('cannot enqueue: the store is closed, its tasks move to "%s"', coalesce(peer, '?')) END
    FROM pawl_gate
$$;

-- Everything that a move brought. Nodes, numbers of ids and names stay: they do no harm.
CREATE OR REPLACE FUNCTION pawl_discard() RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    DELETE FROM pawl_body;
    DELETE FROM pawl_live;
    DELETE FROM pawl_slotted;
    DELETE FROM pawl_place;
    DELETE FROM pawl_blocked;
    DELETE FROM pawl_shared;
    DELETE FROM pawl_freed;
    DELETE FROM pawl_spot;
    DELETE FROM pawl_round;
    DELETE FROM pawl_bound;
    DELETE FROM pawl_done;
    DELETE FROM pawl_failed;
    DELETE FROM pawl_attempt;
    DELETE FROM pawl_runlog;
    DELETE FROM pawl_audit;
    DELETE FROM pawl_key;
    DELETE FROM pawl_queue;
    DELETE FROM pawl_count;
    DELETE FROM pawl_born;
    DELETE FROM pawl_rollup;
    DELETE FROM pawl_oplog;
    DELETE FROM pawl_budget;
    DELETE FROM pawl_limit;
    DELETE FROM pawl_occurrence;
    DELETE FROM pawl_schedule_state;
    DELETE FROM pawl_schedule;
    DELETE FROM pawl_ended;
    DELETE FROM pawl_edge;
    DELETE FROM pawl_wait;
    DELETE FROM pawl_batch;
    DELETE FROM pawl_batch_part;
    DELETE FROM pawl_member;
    DELETE FROM pawl_unsettled;
    DELETE FROM pawl_kept;
    UPDATE pawl_gate SET limits = limits + 1 WHERE limits > 0;
    UPDATE pawl_gate SET bounds = bounds + 1 WHERE bounds > 0;
END $$;

-- Answers NULL, or the move that the gate belongs to, which is another one or at another position than p_before (NULL: any).
CREATE OR REPLACE FUNCTION pawl_set_gate(p_clock int8[], p_wait_ms int4, p_mode int4, p_move text, p_peer text, p_who text, p_position text,
                              p_before text, p_discard bool) RETURNS text LANGUAGE plpgsql SET search_path FROM CURRENT SET statement_timeout = 0 AS $$
DECLARE
    g pawl_gate;
    v_given_up bool := p_mode = 0 AND p_position IS NULL;
BEGIN
    PERFORM pawl_begin(p_wait_ms);
    SELECT * INTO g FROM pawl_gate FOR UPDATE;
    IF (g.mode <> 0 AND g.move IS DISTINCT FROM p_move) OR coalesce(g.position, '') <> coalesce(p_before, g.position, '') THEN
        RETURN coalesce(g.move, 'none');
    END IF;
    IF p_discard AND g.mode = 3 THEN PERFORM pawl_discard(); END IF;
    UPDATE pawl_gate SET mode = p_mode, move = CASE WHEN NOT v_given_up THEN p_move END, peer = CASE WHEN NOT v_given_up THEN p_peer END,
        who = p_who, position = p_position, at_us = CASE WHEN g.mode = p_mode THEN g.at_us ELSE coalesce(p_clock[1], pawl_now()) END;
    RETURN NULL;
END $$;
