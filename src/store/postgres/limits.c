/* Rate limits as people see them. Slots are taken by the server: see functions/limits.sql. */
#include "store/budget.h"
#include "store/postgres/read.h"
#include <string.h>

enum { /* columns of pawl_limits */
       NOW,
       TYPE,
       KEY,
       OWN,
       PERMITS,
       PERIOD,
       BURST,
       HORIZON,
       FLAGS,
       WAITING,
       TAT,
       PART,
       BUDGET_PERMITS,
       BUDGET_PERIOD,
       BUDGET_BURST,
       SEEN,
       EPOCH
};

static budget_row budget_at(const PGresult *r, int row)
{
    return (budget_row){.tat = {wire64(r, row, TAT), wire32(r, row, PART)},
                        .permits = wire32(r, row, BUDGET_PERMITS),
                        .burst = wire32(r, row, BUDGET_BURST),
                        .period_us = wire64(r, row, BUDGET_PERIOD),
                        .seen_us = wire64(r, row, SEEN),
                        .epoch = wire64(r, row, EPOCH)};
}

static pawl_limit_info describe(reading *r, const PGresult *from, int row)
{
    static const pawl_rate any_rate = {.permits = 1, .period_us = PAWL_SECOND}; /* of one that is only paused */
    budget_limit limit;
    pawl_limit_info info = {.type = pg_read_text(r, from, row, TYPE),
                            .key = pg_read_bytes(r, from, row, KEY),
                            .rate = {.permits = wire32(from, row, PERMITS),
                                     .period_us = wire64(from, row, PERIOD),
                                     .burst = wire32(from, row, BURST),
                                     .horizon_us = wire64(from, row, HORIZON)},
                            .own = PQgetvalue(from, row, OWN)[0] != 0,
                            .waiting = wire64(from, row, WAITING)};
    limit_flags_read(wire32(from, row, FLAGS), &info.rate, &info.paused);
    if (!budget_limit_make(info.rate.permits > 0 ? &info.rate : &any_rate, info.paused, &limit)) return info;
    budget_row budget = budget_at(from, row);
    info.left = limit.r.burst;
    if (info.key.len > 0) budget_tell(PQgetisnull(from, row, TAT) ? NULL : &budget, &limit, wire64(from, row, NOW), &info);
    return info;
}

static void put_page(reading *r, const pawl_limit_filter *f, const char *type, pawl_bytes key)
{
    params *p = &r->c->params;
    pg_put_clock(r->s, p);
    pg_param_text(p, type);
    if (f->cursor) pg_param_bytes(p, key.data, key.len);
    else pg_param_null(p);
    pg_param_text(p, f->type);
    if (f->key.len > 0) pg_param_bytes(p, f->key.data, f->key.len);
    else pg_param_null(p);
    pg_param_bool(p, f->waiting);
    pg_param_int4(p, f->limit + 1);
}

bool pg_limits_read(reading *r, pawl_query *query)
{
    const pawl_limit_filter *f = query->limit_filter;
    const char *type = "";
    pawl_bytes key = {0};
    if (f->cursor && !budget_cursor_read(r->arena, f->cursor, &type, &key)) return false;
    pawl_limits *out = query->limits = pg_read_alloc(r, sizeof *out);
    pawl_limit_info *infos = pg_read_alloc(r, ((size_t)f->limit + 1) * sizeof *infos);
    if (!out || !infos) return true;
    put_page(r, f, type, key);
    PGresult *answer = pg_ask(r, SQL_limits);
    if (!answer) return true;
    int rows = PQntuples(answer);
    out->limits = infos;
    out->now_us = rows > 0 ? wire64(answer, 0, NOW) : pg_server_now(r->s);
    for (int i = 0; i < rows && i < f->limit; i++) infos[out->count++] = describe(r, answer, i);
    if (rows > f->limit && f->limit > 0) out->next = budget_cursor(r->arena, infos[f->limit - 1].type, infos[f->limit - 1].key);
    PQclear(answer);
    return true;
}
