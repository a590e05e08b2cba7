-- Of indexes that cost the same, as they do while a table is empty, the planner takes the newest. Plans stay, and tables grow: the one that
-- finds a task by its id must be it. (The functions changed, too: no plan of theirs reads an index whole.)

ALTER TABLE pawl_blocked DROP CONSTRAINT pawl_blocked_pkey, ADD PRIMARY KEY (task_id);
ALTER TABLE pawl_shared DROP CONSTRAINT pawl_shared_pkey, ADD PRIMARY KEY (task_id);
ALTER TABLE pawl_member DROP CONSTRAINT pawl_member_pkey, ADD PRIMARY KEY (task_id);
