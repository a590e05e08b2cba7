/* read: a question is a few statements on a reading connection, each of which sees what was committed when it began.
 *
 * Nothing is held between statements, so nobody waits for a reader. Questions are cut after CUT_US; a list that is cut says how far it came.
 */
#include "store/mysql/read.h"
#include "base/error.h"

#define CUT_US (5 * PAWL_SECOND)

/* ---- answers in the arena ------------------------------------------------------------------------------------------------ */

const char *my_read_text(reading *r, const answer *from, int row, int column)
{
    if (get_null(from, row, column)) return NULL;
    pawl_bytes bytes = get_bytes(from, row, column);
    const char *copy = pawl_arena_bytes(r->arena, bytes.data, bytes.len);
    if (!copy) r->no_memory = true;
    return copy;
}

pawl_bytes my_read_bytes(reading *r, const answer *from, int row, int column)
{
    if (get_null(from, row, column)) return (pawl_bytes){0};
    const char *copy = my_read_text(r, from, row, column);
    return (pawl_bytes){copy, copy ? get_bytes(from, row, column).len : 0};
}

void *my_read_alloc(reading *r, size_t size)
{
    void *ptr = pawl_arena_alloc(r->arena, size);
    if (!ptr) r->no_memory = true;
    return ptr;
}

bool my_ask(reading *r, sql_name which)
{
    my_add(r->c, which);
    if (!r->failed && !my_send(r->c, CALL_READS)) r->failed = true;
    return !r->failed;
}

void my_put_clock(reading *r)
{
    const pawl_clock *test = my_test_clock(r->s);
    my_put_int_or_null(r->c, test ? test->wall_us(test->ctx) : 0, 0);
    my_put_int_or_null(r->c, test ? test->boot_us(test->ctx) : -1, -1);
}

/* ---- small questions ----------------------------------------------------------------------------------------------------- */

static bool state_read(reading *r, pawl_query *query)
{
    /* One that goes from table to table just now is found in the next look. */
    for (int looks = 0; looks < 5; looks++) {
        my_script(r->c);
        my_put_int(r->c, query->id);
        if (!my_ask(r, SQL_state)) return true;
        const answer *a = my_answer(r->c, SQL_state);
        if (a->rows == 0) continue;
        query->state = (pawl_state)get_int(a, 0, 0);
        query->fence = get_int(a, 0, 1);
        return true;
    }
    return false;
}

static bool get_read(reading *r, pawl_query *query)
{
    info_more more;
    query->info = my_info_get(r, query->id, &more, true);
    return query->info != NULL;
}

static void settings_read(reading *r, pawl_query *query)
{
    my_script(r->c);
    if (my_ask(r, SQL_settings)) query->text = my_read_text(r, my_answer(r->c, SQL_settings), 0, 0);
}

static void acts_read(reading *r, pawl_query *query)
{
    my_script(r->c);
    my_put_int(r->c, query->before ? query->before : INT64_MAX);
    my_put_int(r->c, query->limit + 1);
    if (!my_ask(r, SQL_acts)) return;
    const answer *a = my_answer(r->c, SQL_acts);
    int rows = (int)a->rows, count = rows > query->limit ? query->limit : rows;
    pawl_acts *page = my_read_alloc(r, sizeof *page);
    pawl_act *acts = page ? my_read_alloc(r, (size_t)(count + 1) * sizeof *acts) : NULL;
    for (int i = 0; acts && i < count; i++)
        acts[i] = (pawl_act){.at_us = get_int(a, i, 1),
                             .who = my_read_text(r, a, i, 2),
                             .action = my_read_text(r, a, i, 3),
                             .detail = my_read_text(r, a, i, 4),
                             .id = get_null(a, i, 5) ? 0 : get_int(a, i, 5)};
    if (acts) *page = (pawl_acts){(size_t)count, acts, rows > count ? get_int(a, count - 1, 0) : 0};
    query->acts = page;
}

static pawl_status no_batch(const pawl_query *query, pawl_error *err)
{
    char text[PAWL_ID_TEXT];
    pawl_id_format(query->id, text);
    return err_set(err, PAWL_NOT_FOUND, "there is no batch '%s'", query->id ? text : query->name);
}

static bool answer_query(reading *r, pawl_query *query, pawl_status *status, pawl_error *err)
{
    switch (query->kind) {
    case PAWL_QUERY_GET: return get_read(r, query);
    case PAWL_QUERY_STATE: return state_read(r, query);
    case PAWL_QUERY_TRAIL: return (query->trail = my_trail_read(r, query->id)) != NULL;
    case PAWL_QUERY_LIST: *status = my_list_read(r, query, err); return true;
    case PAWL_QUERY_STATS: query->stats = my_stats_read(r, query->window_us, query->name); return true;
    case PAWL_QUERY_NODES: my_nodes_read(r, query); return true;
    case PAWL_QUERY_SETTINGS: settings_read(r, query); return true;
    case PAWL_QUERY_ACTS: acts_read(r, query); return true;
    case PAWL_QUERY_FEED: my_feed_read(r, query); return true;
    case PAWL_QUERY_GATE: my_gate_read(r, query); return true;
    case PAWL_QUERY_DUMP: my_dump_read(r, query->dump); return true;
    case PAWL_QUERY_LIMITS:
        if (!my_limits_read(r, query))
            *status = err_set(err, PAWL_INVALID, "the cursor is none that a page of limits ended with");
        return true;
    case PAWL_QUERY_PLACES:
        if (!my_places_read(r, query))
            *status = err_set(err, PAWL_INVALID, "the cursor is none that a page of limits ended with");
        return true;
    case PAWL_QUERY_DUE:
    case PAWL_QUERY_SCHEDULE:
    case PAWL_QUERY_SCHEDULES:
        if (!my_schedules_read(r, query)) *status = err_set(err, PAWL_NOT_FOUND, "there is no schedule '%s'", query->name);
        return true;
    case PAWL_QUERY_RELATIVES: my_relatives_read(r, query->relatives); return true;
    case PAWL_QUERY_BATCH:
    case PAWL_QUERY_BATCHES:
        if (!my_batches_read(r, query)) *status = no_batch(query, err);
        return true;
    default: *status = err_set(err, PAWL_UNSUPPORTED, "stores of this kind do not answer that question"); return true;
    }
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
    return my_conn_fail(r->c, "read", err);
}

pawl_status my_read(pawl_store *store, pawl_query *query, pawl_arena *arena, pawl_error *err)
{
    my_store *s = store_of(store);
    reading r = {.s = s, .c = my_store_take(s, READER), .arena = arena, .until_us = my_mono_us() + CUT_US};
    pawl_status status = PAWL_OK;
    bool found = answer_query(&r, query, &status, err);
    if (status == PAWL_OK && (r.no_memory || r.failed)) status = failure(&r, err);
    else if (status == PAWL_OK && !found) status = not_found(query->id, err);
    my_store_give(s, r.c);
    return status;
}
