-- What is rare is found among much: a list of one type, queue or tenant need not look at every task.
--
-- Bodies lie on disk nearly in the order of their ids, which is that of time. So an index of stretches of the table is enough: for each it holds
-- from when to when its tasks are, and which names may occur (a few bits for each). It is a thousandth of the table; a task that is stored
-- behind the others writes nothing into it, and one that gets the room of a swept one only looks. Whoever vacuums adds what is new.

CREATE INDEX pawl_body_names ON pawl_body USING brin ((id >> 22) int8_minmax_ops, type_id int4_bloom_ops (n_distinct_per_range = 64),
    queue_id int4_bloom_ops (n_distinct_per_range = 64), tenant_id int4_bloom_ops (n_distinct_per_range = 64))
    WITH (pages_per_range = 256, autosummarize = on);
