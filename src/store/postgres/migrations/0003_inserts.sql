-- New tasks.
--
--   key's last task      result
--   none                 done
--   waiting, pending     updated: body, time, priority, queue and type are replaced, the id stays
--   leased, not started  taken back, then updated
--   leased, started      existing
--   finished             replaced: a new task takes the key
--
-- Tasks whose id is new and whose key is free, if they have one, are stored by pawl_put, all of them with a few statements. Others (id to
-- be drawn, id handed back, key taken, depth limited, spawned) go one by one through pawl_put_one.

-- An INSERT as pawl_put_one takes it. parent: the FINISH that spawned it. budget: that of its rate limit, which is locked; NULL: it has none;
-- 0: the transaction is the caller's own, and locks none.
CREATE TYPE pawl_new AS (
    op int4, id int8, type_id int4, queue_id int4, priority int2, level int2, audit int2, when_us int8, ask bool, tenant_id int4,
    max_attempts int4, timeout_us int8, retry_of int8, key text, content_type text, created_by text, traceparent text, headers text,
    rate_key bytea, payload bytea, may_exist bool, depth_limit int8, member int4, parent int4, budget int8,
    kin_at int4, kin_n int4, spawner_batch int8, -- its family: see pawl_judge
    waits bool, judged int4, judged_id int8      -- what that means for it
);
