-- One.
CREATE OR REPLACE FUNCTION one() RETURNS int AS $$ SELECT 1 $$; -- at once
