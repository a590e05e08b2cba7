-- name: two_statements
DELETE FROM a; DELETE FROM b;
	SELECT x->>'$.list[0]';
