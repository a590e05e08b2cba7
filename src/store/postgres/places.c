/* Concurrency limits as people see them. Places are taken by the server: see functions/places.sql. */
#include "store/budget.h"
#include "store/postgres/read.h"
#include <stdio.h>
#include <string.h>

enum { SCOPE, NAME, KEY, STORED, MOST, OWN, ORDERED, TAKEN, BLOCKED, HOLDER }; /* columns of pawl_places */

static bool truth(const PGresult *from, int row, int column)
{
    return !PQgetisnull(from, row, column) && PQgetvalue(from, row, column)[0];
}

static pawl_place_info describe(reading *r, const PGresult *from, int row)
{
    return (pawl_place_info){.scope = (pawl_scope)wire64(from, row, SCOPE),
                             .name = pg_read_text(r, from, row, NAME),
                             .key = pg_read_bytes(r, from, row, KEY),
                             .most = (int)wire64(from, row, MOST),
                             .own = truth(from, row, OWN),
                             .ordered = truth(from, row, ORDERED),
                             .taken = wire64(from, row, TAKEN),
                             .blocked = wire64(from, row, BLOCKED),
                             .holder = wire64(from, row, HOLDER)};
}

/* `after`: the scope as one digit, and the name. */
static void put_page(reading *r, const pawl_place_filter *f, const char *after, pawl_bytes key)
{
    params *p = &r->c->params;
    pg_params_begin(p);
    pg_param_int4(p, after[0] - '0');
    pg_param_text(p, after + 1);
    pg_param_bytes(p, key.data, key.len);
    pg_param_int4(p, (int32_t)f->scope);
    pg_param_text(p, f->name);
    if (f->key.len > 0) pg_param_bytes(p, f->key.data, f->key.len);
    else pg_param_null(p);
    pg_param_int8(p, f->task);
    pg_param_bool(p, f->blocked);
    pg_param_int4(p, f->limit + 1);
}

static const char *cursor_of(reading *r, const pawl_place_info *last, pawl_bytes stored)
{
    char name[1100]; /* names have 1000 bytes at the most: see flat.c */
    snprintf(name, sizeof name, "%d%s", (int)last->scope, last->name);
    return budget_cursor(r->arena, name, stored);
}

bool pg_places_read(reading *r, pawl_query *query)
{
    const pawl_place_filter *f = query->place_filter;
    const char *after = "0";
    pawl_bytes key = {"", 0};
    if (f->cursor && !budget_cursor_read(r->arena, f->cursor, &after, &key)) return false;
    pawl_places *out = query->places = pg_read_alloc(r, sizeof *out);
    pawl_place_info *infos = pg_read_alloc(r, ((size_t)f->limit + 1) * sizeof *infos);
    if (!out || !infos) return true;
    put_page(r, f, after, key);
    PGresult *answer = pg_ask(r, SQL_places);
    if (!answer) return true;
    int rows = PQntuples(answer);
    out->places = infos;
    for (int i = 0; i < rows && i < f->limit; i++) infos[out->count++] = describe(r, answer, i);
    if (rows > f->limit && f->limit > 0 && infos[f->limit - 1].name)
        out->next = cursor_of(r, &infos[f->limit - 1], pg_read_bytes(r, answer, f->limit - 1, STORED));
    PQclear(answer);
    return true;
}
