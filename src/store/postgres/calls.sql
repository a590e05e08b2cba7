-- The functions of the schema. "@." stands for the schema's name.

-- name: apply
SELECT verdict, now_us, dead, results, hints, unblocked, schedules, freed, unsettled FROM @.pawl_apply(
    $1, $2, $3, $4, $5, $6, $7, $8,
    $9, $10, $11, $12, $13, $14, $15, $16, $17, $18, $19, $20, $21, $22, $23, $24, $25, $26, $27, $28, $29, $30, $31, $32, $33,
    $34, $35, $36, $37, $38, $39, $40, $41, $42, $43, $44, $45, $46, $47, $48, $49, $50, $51, $52, $53, $54,
    $55, $56, $57, $58,
    $59, $60, $61, $62, $63,
    $64, $65, $66, $67, $68, $69, $70, $71, $72,
    $73, $74, $75, $76, $77, $78, $79, $80, $81,
    $82, $83, $84, $85, $86,
    $87, $88, $89, $90, $91,
    $92, $93, $94,
    $95, $96, $97, $98);

-- name: apply_one
SELECT verdict, now_us, dead, results, hints, unblocked, schedules, freed, unsettled FROM @.pawl_apply_one(
    $1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14);

-- name: claim
SELECT * FROM @.pawl_claim($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15);

-- name: claim_one
SELECT * FROM @.pawl_claim_one($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, $17, $18);

-- name: unclaim
SELECT @.pawl_unclaim($1, $2, $3, $4, $5);

-- name: renew
SELECT now_us, held, news FROM @.pawl_renew($1, $2, $3, $4, $5);

-- name: held
SELECT id, fence FROM @.pawl_leased WHERE node = $1::int4;

-- name: register_node
SELECT @.pawl_register($1, $2, $3, $4, $5, $6, $7, $8, $9);

-- name: leave
SELECT @.pawl_leave($1, $2, $3, $4);

-- name: take_number
SELECT got, lowest_ms, highest_ms FROM @.pawl_take_number($1, $2, $3, $4, $5, $6, $7);

-- name: rescue
SELECT refused, freed, failed, more, tasks, hints FROM @.pawl_rescue($1, $2, $3, $4, $5, $6, $7, $8);

-- name: sweep
SELECT removed, expiring, more, next_us, drop_day FROM @.pawl_sweep($1, $2, $3, $4, $5, $6, $7, $8, $9);

-- name: days
SELECT @.pawl_days($1, $2);

-- name: drop_day
SELECT @.pawl_drop_day($1);

-- name: day_forget
DELETE FROM @.pawl_day WHERE day = $1;

-- name: names
SELECT u.id, u.text FROM unnest(@.pawl_names($1), $1::text[]) u (id, text);

-- name: texts
SELECT id, text FROM @.pawl_name WHERE id = ANY ($1::int4[]);

-- name: notify
SELECT pg_notify($1, $2);

-- name: server_now
SELECT @.pawl_now();
