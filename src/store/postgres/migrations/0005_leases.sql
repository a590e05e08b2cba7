-- The heartbeat of each node that has one.
CREATE VIEW pawl_heartbeat AS
SELECT node, max(expires_us) AS expires_us, sum(renewal)::int8 AS renewal, sum(leases)::int8 AS leases, max(skew_us) AS skew_us
FROM pawl_lane GROUP BY node;
