-- Batches and claims that no concurrency limit concerns do nothing about them: once there are bounds, one look or two tell. 
-- Whether there are bounds of any scope under a name.
CREATE INDEX pawl_bound_name ON pawl_bound (name_id) WHERE most > 0;
