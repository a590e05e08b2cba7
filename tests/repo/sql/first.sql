-- Comments before the first name; with [brackets], "quotes' and a \ at the end \
/* and a block; too */

-- name: plain
SELECT a, b   -- why; not
FROM t

WHERE a = ?1; -- 'the end

-- name: quoted
SELECT 'it''s -- no comment; [not] /* one */', "a;b--c", `d/*e`, [f;g], 'back\slash\', '"double"'
FROM t/* gone; ' " */WHERE x = 5 - -1 AND y = 6/2 /* over
two -- lines ' */ AND z = 1;

-- name: off
INSERT INTO t VALUES('a string

  of three lines; with \n in it  
', ?, ??1, ???);
