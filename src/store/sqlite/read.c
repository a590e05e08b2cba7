/* read: a reading connection, a read transaction, an answer in the caller's arena.
 *
 * Readers see a snapshot and hold nothing that a writer waits for. There are READERS connections; a question takes one that is
 * idle. Every question is cut after CUT_US, so that no snapshot keeps the WAL from starting anew; a list that is cut says how
 * far it came.
 */
#include "store/sqlite/place.h"
#include "store/sqlite/quota.h"
#include "base/error.h"
#include <stdio.h>
#include <string.h>

#define CUT_US (5 * PAWL_SECOND)

/* ---- copies in the arena ------------------------------------------------------------------------------------------------- */

const char *read_text(reading *r, const char *text)
{
    const char *copy = pawl_arena_str(r->arena, text);
    if (text && !copy) r->no_memory = true;
    return copy;
}

pawl_bytes read_bytes(reading *r, pawl_bytes bytes)
{
    if (!bytes.data) return (pawl_bytes){0};
    const char *copy = pawl_arena_bytes(r->arena, bytes.data, bytes.len);
    if (!copy) r->no_memory = true;
    return (pawl_bytes){copy, copy ? bytes.len : 0};
}

void *read_alloc(reading *r, size_t size)
{
    void *ptr = pawl_arena_alloc(r->arena, size);
    if (!ptr) r->no_memory = true;
    return ptr;
}

/* ---- connections --------------------------------------------------------------------------------------------------------- */

static reader *take_reader(sqlite_store *s)
{
    for (int i = 0; i < READERS; i++)
        if (pthread_mutex_trylock(&s->readers[i].lock) == 0) return &s->readers[i];
    pthread_mutex_lock(&s->readers[READERS - 1].lock);
    return &s->readers[READERS - 1];
}

static pawl_status begin(sqlite_store *s, conn *c, pawl_error *err)
{
    if (!c->db) {
        pawl_status status = conn_open(c, s->allocator, s->path, CONN_READ, false, err);
        if (status) return status;
    }
    conn_clear(c);
    names_trim(&c->names);
    int64_t now_us = mono_us();
    c->cut_at_us = now_us + CUT_US;
    c->busy_until_us = now_us + s->lock_wait_us;
    conn_roll_back(c); /* what could not be rolled back when it should have been */
    query_on(c, SQL_rollback);
    query q = query_on(c, SQL_read_begin);
    query_run(&q);
    pawl_status status = conn_version_moved(c) ? migrate_check(c, s->path, err) : PAWL_OK;
    if (status == PAWL_OK && c->rc) status = conn_fail(c, "read", s->path, err);
    if (status) c->version = -1; /* look again next time */
    return status;
}

static void end(conn *c)
{
    if (!c->db) return;
    c->cut_at_us = 0;
    conn_roll_back(c);
}

/* ---- small questions ----------------------------------------------------------------------------------------------------- */

static bool state_read(reading *r, pawl_query *query)
{
    task_row row;
    bool live = task_get(r->c, query->id, &row);
    query->state = live ? row.state : task_ended(r->c, query->id, &query->fence);
    if (live) query->fence = row.fence;
    return query->state != PAWL_STATE_NONE;
}

static bool get_read(reading *r, pawl_query *query)
{
    info_more more;
    query->info = info_read(r, query->id, &more);
    if (query->info) info_add_rest(r, query->info, &more);
    return query->info != NULL;
}

static void settings_read(reading *r, pawl_query *query)
{
    static const char *const levels[] = {"off", "normal", "full", "extra"};
    char text[300];
    int64_t level = 2, page_size = 0;
    conn_pragma_int(r->c, "PRAGMA synchronous", &level);
    conn_pragma_int(r->c, "PRAGMA page_size", &page_size);
    snprintf(text, sizeof text,
             "store=sqlite durable=yes sqlite=%s journal_mode=wal synchronous=%s page_size=%lld checkpoint=%s shared=%s",
             sqlite3_libversion(),
             r->s->read_only           ? "?"
             : level >= 0 && level < 4 ? levels[level]
                                       : "?",
             (long long)page_size, "full", r->s->shared ? "yes" : "no");
    query->text = read_text(r, text);
}

static void acts_read(reading *r, pawl_query *asked)
{
    pawl_acts *page = read_alloc(r, sizeof *page);
    pawl_act *acts = page ? read_alloc(r, (size_t)asked->limit * sizeof *acts) : NULL;
    query q = query_on(r->c, SQL_acts);
    put_int(&q, asked->before ? asked->before : INT64_MAX);
    put_int(&q, asked->limit + 1);
    bool more = false;
    while (acts && query_row(&q)) {
        more = page->count == (size_t)asked->limit;
        if (more) break;
        page->next = get_int(&q);
        pawl_act *a = &acts[page->count++];
        a->at_us = get_int(&q);
        a->who = read_text(r, get_text(&q));
        a->action = read_text(r, get_text(&q));
        a->detail = read_text(r, get_text(&q));
        a->id = get_int(&q);
    }
    query_end(&q);
    if (!acts) return;
    if (!more) page->next = 0;
    page->acts = acts;
    asked->acts = page;
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
    case PAWL_QUERY_TRAIL: return (query->trail = trail_read(r, query->id)) != NULL;
    case PAWL_QUERY_LIST: *status = list_read(r, query, err); return true;
    case PAWL_QUERY_STATS: query->stats = stats_read(r, query->window_us, query->name); return true;
    case PAWL_QUERY_NODES: nodes_read(r, query); return true;
    case PAWL_QUERY_SETTINGS: settings_read(r, query); return true;
    case PAWL_QUERY_ACTS: acts_read(r, query); return true;
    case PAWL_QUERY_FEED: feed_read(r, query); return true;
    case PAWL_QUERY_GATE: gate_read(r, query); return true;
    case PAWL_QUERY_DUMP: dump_read(r, query->dump); return true;
    case PAWL_QUERY_PLACES:
        if (!places_read(r, query)) *status = err_set(err, PAWL_INVALID, "the cursor is none that a page of limits ended with");
        return true;
    case PAWL_QUERY_DUE:
    case PAWL_QUERY_SCHEDULE:
    case PAWL_QUERY_SCHEDULES:
        if (!schedules_read(r, query)) *status = err_set(err, PAWL_NOT_FOUND, "there is no schedule '%s'", query->name);
        return true;
    case PAWL_QUERY_RELATIVES: relatives_read(r, query->relatives); return true;
    case PAWL_QUERY_BATCH:
    case PAWL_QUERY_BATCHES:
        if (!batches_read(r, query)) *status = no_batch(query, err);
        return true;
    case PAWL_QUERY_LIMITS:
        if (!limits_read(r, query)) *status = err_set(err, PAWL_INVALID, "the cursor is none that a page of limits ended with");
        return true;
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
        return err_set(err, PAWL_NO_MEMORY, "could not read \"%s\": the answer does not fit into memory", r->s->path);
    if (r->c->rc == SQLITE_INTERRUPT)
        return err_set(err, PAWL_UNAVAILABLE, "could not read \"%s\" within %d s; try again", r->s->path,
                       (int)(CUT_US / PAWL_SECOND));
    return conn_fail(r->c, "read", r->s->path, err);
}

pawl_status sqlite_read(pawl_store *store, pawl_query *query, pawl_arena *arena, pawl_error *err)
{
    sqlite_store *s = (sqlite_store *)store;
    reader *taken = take_reader(s);
    reading r = {.s = s, .c = &taken->conn, .arena = arena};
    r.now_us = s->clock.wall_us(s->clock.ctx);
    r.boot_us = s->clock.boot_us(s->clock.ctx);
    pawl_status status = begin(s, r.c, err);
    if (status == PAWL_OK) {
        bool found = answer(&r, query, &status, err);
        if (status == PAWL_OK && (r.no_memory || r.c->rc)) status = failure(&r, err);
        else if (status == PAWL_OK && !found) status = not_found(query->id, err);
    }
    end(r.c);
    pthread_mutex_unlock(&taken->lock);
    return status;
}
