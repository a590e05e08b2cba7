/* read: a question is a few statements on a reading connection, each of which sees what was committed when it began.
 *
 * Nothing is held between statements, so nobody waits for a reader. Questions are cut after CUT_US; a list that is cut says how far it came.
 */
#include "store/postgres/read.h"
#include "base/error.h"

#define CUT_US (5 * PAWL_SECOND)

/* ---- answers in the arena ------------------------------------------------------------------------------------------------ */

const char *pg_read_text(reading *r, const PGresult *from, int row, int column)
{
    if (PQgetisnull(from, row, column)) return NULL;
    const char *copy = pawl_arena_bytes(r->arena, PQgetvalue(from, row, column), (size_t)PQgetlength(from, row, column));
    if (!copy) r->no_memory = true;
    return copy;
}

pawl_bytes pg_read_bytes(reading *r, const PGresult *from, int row, int column)
{
    if (PQgetisnull(from, row, column)) return (pawl_bytes){0};
    const char *copy = pg_read_text(r, from, row, column);
    return (pawl_bytes){copy, copy ? (size_t)PQgetlength(from, row, column) : 0};
}

void *pg_read_alloc(reading *r, size_t size)
{
    void *ptr = pawl_arena_alloc(r->arena, size);
    if (!ptr) r->no_memory = true;
    return ptr;
}

PGresult *pg_ask(reading *r, sql_name which)
{
    PGresult *result = r->failed ? NULL : pg_conn_call(r->c, which, CALL_BINARY); /* and reads */
    if (!result) r->failed = true;
    return result;
}

void pg_put_clock(const pg_store *s, params *p)
{
    pg_params_begin(p);
    pg_params_call(s, p);
    p->count = 1;
}

/* ---- small questions ----------------------------------------------------------------------------------------------------- */

static bool state_read(reading *r, pawl_query *query)
{
    pg_params_begin(&r->c->params);
    pg_param_int8(&r->c->params, query->id);
    PGresult *answer = pg_ask(r, SQL_state);
    if (!answer) return true;
    query->state = (pawl_state)wire64(answer, 0, 0);
    query->fence = wire64(answer, 0, 1);
    PQclear(answer);
    return query->state != PAWL_STATE_NONE;
}

static bool get_read(reading *r, pawl_query *query)
{
    info_more more;
    query->info = pg_info_get(r, query->id, &more, true);
    return query->info != NULL;
}

static void settings_read(reading *r, pawl_query *query)
{
    pg_params_begin(&r->c->params);
    PGresult *answer = pg_ask(r, SQL_settings);
    if (answer) query->text = pg_read_text(r, answer, 0, 0);
    PQclear(answer);
}

static void acts_read(reading *r, pawl_query *query)
{
    pg_params_begin(&r->c->params);
    pg_param_int8(&r->c->params, query->before ? query->before : INT64_MAX);
    pg_param_int8(&r->c->params, query->limit + 1);
    PGresult *answer = pg_ask(r, SQL_acts);
    if (!answer) return;
    int rows = PQntuples(answer), count = rows > query->limit ? query->limit : rows;
    pawl_acts *page = pg_read_alloc(r, sizeof *page);
    pawl_act *acts = page ? pg_read_alloc(r, (size_t)(count + 1) * sizeof *acts) : NULL;
    for (int i = 0; acts && i < count; i++)
        acts[i] = (pawl_act){.at_us = wire64(answer, i, 1),
                             .who = pg_read_text(r, answer, i, 2),
                             .action = pg_read_text(r, answer, i, 3),
                             .detail = pg_read_text(r, answer, i, 4),
                             .id = PQgetisnull(answer, i, 5) ? 0 : wire64(answer, i, 5)};
    if (acts) *page = (pawl_acts){(size_t)count, acts, rows > count ? wire64(answer, count - 1, 0) : 0};
    query->acts = page;
    PQclear(answer);
}

static pawl_status no_batch(const pawl_query *query, pawl_error *err)
{
    char text[PAWL_ID_TEXT];
    pawl_id_format(query->id, text);
    return err_set(err, PAWL_NOT_FOUND, "there is no batch '%s'", query->id ? text : query->name);
}

static bool answer(reading *r, pawl_query *query, pawl_status *status, pawl_error *err)
{
    switch (query->kind) {
    case PAWL_QUERY_GET: return get_read(r, query);
    case PAWL_QUERY_STATE: return state_read(r, query);
    case PAWL_QUERY_TRAIL: return (query->trail = pg_trail_read(r, query->id)) != NULL;
    case PAWL_QUERY_LIST: *status = pg_list_read(r, query, err); return true;
    case PAWL_QUERY_STATS: query->stats = pg_stats_read(r, query->window_us, query->name); return true;
    case PAWL_QUERY_NODES: pg_nodes_read(r, query); return true;
    case PAWL_QUERY_SETTINGS: settings_read(r, query); return true;
    case PAWL_QUERY_LIMITS:
        if (!pg_limits_read(r, query))
            *status = err_set(err, PAWL_INVALID, "the cursor is none that a page of limits ended with");
        return true;
    case PAWL_QUERY_ACTS: acts_read(r, query); return true;
    case PAWL_QUERY_PLACES:
        if (!pg_places_read(r, query))
            *status = err_set(err, PAWL_INVALID, "the cursor is none that a page of limits ended with");
        return true;
    case PAWL_QUERY_DUE:
    case PAWL_QUERY_SCHEDULE:
    case PAWL_QUERY_SCHEDULES:
        if (!pg_schedules_read(r, query)) *status = err_set(err, PAWL_NOT_FOUND, "there is no schedule '%s'", query->name);
        return true;
    case PAWL_QUERY_RELATIVES: pg_relatives_read(r, query->relatives); return true;
    case PAWL_QUERY_BATCH:
    case PAWL_QUERY_BATCHES:
        if (!pg_batches_read(r, query)) *status = no_batch(query, err);
        return true;
    case PAWL_QUERY_FEED: pg_feed_read(r, query); return true;
    case PAWL_QUERY_GATE: pg_gate_read(r, query); return true;
    case PAWL_QUERY_DUMP: pg_dump_read(r, query->dump); return true;
    }
    return false;
}

static pawl_status not_found(pawl_id id, pawl_error *err)
{
    char text[PAWL_ID_TEXT];
    pawl_id_format(id, text);
    return err_set(err, PAWL_NOT_FOUND, "no task \"%s\" is stored: it never was, or its time of retention is over", text);
}

static pawl_status failure(const reading *r, pawl_error *err)
{
    if (r->no_memory)
        return err_set(err, PAWL_NO_MEMORY, "could not read \"%s\": the answer does not fit into memory", r->s->link.url.name);
    return pg_conn_fail(r->c, "read", err);
}

pawl_status pg_read(pawl_store *store, pawl_query *query, pawl_arena *arena, pawl_error *err)
{
    pg_store *s = store_of(store);
    reading r = {.s = s, .c = pg_store_take(s, READER), .arena = arena, .until_us = pg_mono_us() + CUT_US};
    pawl_status status = PAWL_OK;
    bool found = answer(&r, query, &status, err);
    if (status == PAWL_OK && (r.no_memory || r.failed)) status = failure(&r, err);
    else if (status == PAWL_OK && !found) status = not_found(query->id, err);
    pg_store_give(s, r.c);
    return status;
}
