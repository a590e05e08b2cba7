/* Lists: one page of tasks by id.
 *
 * The rows of one table are walked by id (all bodies, or the table that holds tasks of the wanted state, or those of one key)
 * and looked at one by one, so that it is always known how far the walk came: a list that is cut goes on from there. The cursor
 * is the text of that id.
 *
 * A list that asks for a queue, a type, a tenant or cancelled tasks goes from one stretch of ids in which they may occur (seen.h)
 * to the next, beginning each time with a row that is there.
 */
#include "base/error.h"
#include "store/search.h"
#include "store/sqlite/read.h"
#include "store/sqlite/seen.h"
#include <string.h>

typedef enum source { FROM_ALL, FROM_LIVE, FROM_LEASED, FROM_DONE, FROM_FAILED, FROM_KEY } source;

/* What a filter's state asks for, in terms of stored rows. */
typedef struct wanted {
    const char *name;
    source from;
    pawl_state state; /* NONE: any of that table */
    bool later;       /* pending: only those of the future; then retrying says with or without failures */
    bool retrying;
    bool throttled;      /* or that have a slot */
    bool stale, running; /* leased */
    bool blocked;        /* pending */
} wanted;

static const wanted states[] = {
    {.name = "waiting", .from = FROM_LIVE, .state = PAWL_WAITING},
    {.name = "pending", .from = FROM_LIVE, .state = PAWL_PENDING},
    {.name = "scheduled", .from = FROM_LIVE, .state = PAWL_PENDING, .later = true},
    {.name = "retrying", .from = FROM_LIVE, .state = PAWL_PENDING, .later = true, .retrying = true},
    {.name = "blocked", .from = FROM_LIVE, .state = PAWL_PENDING, .blocked = true},
    {.name = "leased", .from = FROM_LEASED},
    {.name = "running", .from = FROM_LEASED, .running = true},
    {.name = "stale", .from = FROM_LEASED, .stale = true},
    {.name = "succeeded", .from = FROM_DONE, .state = PAWL_SUCCEEDED},
    {.name = "cancelled", .from = FROM_DONE, .state = PAWL_CANCELLED},
    {.name = "failed", .from = FROM_FAILED},
    {.name = "throttled", .from = FROM_LIVE, .state = PAWL_PENDING, .later = true, .throttled = true},
};

typedef struct listing {
    reading *r;
    const pawl_filter *f;
    wanted want;
    bool by_body;    /* the filter asks about the body */
    bool impossible; /* it names something that nothing stored has */
    int64_t type_id, queue_id, tenant_id;
    seen_set names; /* that its stretches must have */
    bool named;     /* it has any */
    pawl_info **found;
    int count, limit;
    pawl_id at;             /* the last task looked at */
    pawl_id min_id, max_id; /* nothing else was created in the time asked for */
    bool more, partial;
    int64_t until_us;
    search search;
} listing;

/* ---- matching ------------------------------------------------------------------------------------------------------------ */

typedef struct candidate {
    pawl_id id;
    pawl_state state;
    int64_t a, b;          /* live: run_at, failures; leased: node; failed: resolved */
    bool blocked, slotted; /* live */
    bool body;             /* the rest is known */
    int64_t type_id, queue_id, tenant_id, created_us;
    bool key; /* it has the one asked for */
} candidate;

static bool state_matches(listing *l, const candidate *c)
{
    const wanted *w = &l->want;
    if (w->state && c->state != w->state) return false;
    if (w->later && (c->a <= l->r->now_us || c->slotted != w->throttled || c->blocked)) return false;
    if (w->later && !w->throttled && (c->b > 0) != w->retrying) return false;
    if (w->blocked && !c->blocked) return false;
    if (w->from == FROM_FAILED && l->f->unresolved && c->a) return false;
    if (w->stale || w->running) return node_pulse(l->r, c->a) == w->running;
    return true;
}

static void get_body(listing *l, query *q, candidate *c)
{
    c->body = true;
    c->type_id = get_int(q);
    c->queue_id = get_int(q);
    c->tenant_id = get_int(q);
    c->created_us = get_int(q);
    const char *key = l->f->key ? get_text(q) : NULL;
    c->key = key && strcmp(key, l->f->key) == 0;
}

static bool find_body(listing *l, candidate *c)
{
    if (c->body) return true;
    query q = query_on(l->r->c, SQL_list_body);
    put_int(&q, c->id);
    bool found = query_row(&q);
    if (found) get_body(l, &q, c);
    query_end(&q);
    return found;
}

static bool body_matches(listing *l, candidate *c)
{
    const pawl_filter *f = l->f;
    if (!l->by_body) return true;
    if (!find_body(l, c)) return false;
    if ((f->type && c->type_id != l->type_id) || (f->queue && c->queue_id != l->queue_id)) return false;
    if ((f->tenant && c->tenant_id != l->tenant_id) || (f->key && !c->key)) return false;
    return (!f->since_us || c->created_us >= f->since_us) && (!f->until_us || c->created_us < f->until_us);
}

/* Where a candidate of FROM_ALL or FROM_KEY really is. */
static bool find_candidate(listing *l, candidate *c)
{
    static const struct {
        source from;
        sql_name get;
    } tables[] = {{FROM_LEASED, SQL_list_leased_one},
                  {FROM_LIVE, SQL_list_live_one},
                  {FROM_DONE, SQL_list_done_one},
                  {FROM_FAILED, SQL_list_failed_one}};
    for (size_t i = 0; i < sizeof tables / sizeof *tables; i++) {
        if (l->want.from != FROM_ALL && l->want.from != tables[i].from) continue;
        query q = query_on(l->r->c, tables[i].get);
        put_int(&q, c->id);
        bool found = query_row(&q);
        if (found) {
            c->state = (pawl_state)get_int(&q);
            c->a = get_int(&q);
            c->b = get_int(&q);
            c->blocked = tables[i].from == FROM_LIVE && get_int(&q) != 0;
            c->slotted = tables[i].from == FROM_LIVE && get_int(&q) != 0;
        }
        query_end(&q);
        if (found) return true;
    }
    return false;
}

/* Whether its code and its error have the words that are missing yet. */
static void look_at_error(listing *l, pawl_id id)
{
    query q = query_on(l->r->c, SQL_search_error);
    for (int i = 0; i < 4; i++) put_int(&q, id);
    if (query_row(&q)) {
        search_look_text(&l->search, get_text(&q));
        search_look_text(&l->search, get_text(&q));
    }
    query_end(&q);
}

static bool holds_words(listing *l, pawl_id id)
{
    search *s = &l->search;
    query q = query_on(l->r->c, SQL_search_body);
    put_int(&q, id);
    search_next(s);
    if (query_row(&q)) {
        for (int i = 0; i < 3; i++) {
            int64_t name = get_int(&q);
            if (name) search_look_text(s, name_text(l->r->c, name));
        }
        search_look_text(s, get_text(&q));
        search_look(s, get_bytes(&q));
    }
    query_end(&q);
    if (!search_found(s)) look_at_error(l, id);
    return search_found(s);
}

static bool matches(listing *l, candidate *c, source walked)
{
    if (!body_matches(l, c)) return false;
    if (walked == FROM_KEY && !find_candidate(l, c)) return false;
    if (walked != FROM_ALL && !state_matches(l, c)) return false;
    return !l->f->search || holds_words(l, c->id);
}

/* ---- walking ------------------------------------------------------------------------------------------------------------- */

static source walk_of(const listing *l) { return l->f->key ? FROM_KEY : l->want.from; }

static sql_name statement(source from, bool up)
{
    static const sql_name all[][2] = {
        [FROM_ALL] = {SQL_list_all_down, SQL_list_all_up},          [FROM_LIVE] = {SQL_list_live_down, SQL_list_live_up},
        [FROM_LEASED] = {SQL_list_leased_down, SQL_list_leased_up}, [FROM_DONE] = {SQL_list_done_down, SQL_list_done_up},
        [FROM_FAILED] = {SQL_list_failed_down, SQL_list_failed_up}, [FROM_KEY] = {SQL_list_key_down, SQL_list_key_up}};
    return all[from][up];
}

static bool out_of_time(const listing *l, int looked)
{
    return l->r->c->rc == SQLITE_INTERRUPT || (looked % 64 == 0 && mono_us() >= l->until_us);
}

/* One task looked at. false: the page is full, or the rest is of another time. */
static bool look(listing *l, candidate *c, source walked)
{
    if (c->id < l->min_id || c->id > l->max_id) return false;
    if (matches(l, c, walked)) {
        info_more ignored;
        if (l->count == l->limit) {
            l->more = true;
            return false;
        }
        pawl_info *info = info_read(l->r, c->id, &ignored);
        if (!info && (l->r->c->rc || l->r->no_memory)) return false;
        if (info) {
            info->result = (pawl_bytes){0};
            l->found[l->count++] = info;
        }
    }
    l->at = c->id;
    return true;
}

/* A stretch of ids, both ends included. */
typedef struct stretch {
    pawl_id low, high;
} stretch;

static query rows_of(listing *l, source walked, stretch in)
{
    query q = query_on(l->r->c, statement(walked, l->f->oldest_first));
    put_int(&q, in.low);
    put_int(&q, in.high);
    if (walked == FROM_KEY) put_text(&q, l->f->key);
    return q;
}

static candidate read_candidate(listing *l, query *q, source walked)
{
    candidate c = {.id = get_int(q)};
    c.state = (pawl_state)get_int(q);
    c.a = get_int(q);
    c.b = get_int(q);
    if (walked == FROM_LIVE) c.blocked = get_int(q) != 0, c.slotted = get_int(q) != 0;
    if (walked == FROM_ALL && l->by_body) get_body(l, q, &c);
    return c;
}

/* false: the walk is over. */
static bool walk_rows(listing *l, source walked, stretch in)
{
    bool on = true;
    query q = rows_of(l, walked, in);
    for (int looked = 1; on && query_row(&q); looked++) {
        candidate c = read_candidate(l, &q, walked);
        on = look(l, &c, walked);
        if (!on || !out_of_time(l, looked)) continue;
        l->more = l->partial = true;
        on = false;
    }
    query_end(&q);
    return on && !l->r->c->rc;
}

/* From the next row on, to what of the rest may have all the names. This is quick, and is not cut: the walk must come forward. */
static bool narrow(listing *l, source walked, stretch *rest)
{
    conn *c = l->r->c;
    query q = rows_of(l, walked, *rest);
    pawl_id row = query_row(&q) ? get_int(&q) : 0;
    query_end(&q);
    stretch seen;
    int64_t cut_at_us = c->cut_at_us;
    c->cut_at_us = 0;
    bool found = row && seen_next(c, &l->names, row, l->f->oldest_first, &seen.low, &seen.high);
    c->cut_at_us = cut_at_us;
    if (found && seen.low > rest->low) rest->low = seen.low;
    if (found && seen.high < rest->high) rest->high = seen.high;
    return found;
}

static void walk(listing *l)
{
    source walked = walk_of(l);
    bool up = l->f->oldest_first;
    for (bool on = true; on;) {
        stretch rest = up ? (stretch){l->at + 1, INT64_MAX} : (stretch){0, l->at - 1};
        if (l->named && !narrow(l, walked, &rest)) break;
        on = walk_rows(l, walked, rest) && l->named;
        if (on) l->at = up ? rest.high : rest.low;
    }
    if (l->r->c->rc != SQLITE_INTERRUPT) return;
    l->more = l->partial = true; /* cut while it looked for the next one */
    conn_clear(l->r->c);
}

/* ---- the page ------------------------------------------------------------------------------------------------------------ */

static void want_name(listing *l, seen_kind kind, int64_t id)
{
    seen_add(&l->names, kind, id);
    l->named = true;
}

static int64_t filter_name(listing *l, seen_kind kind, const char *name)
{
    if (!name) return 0;
    l->by_body = true;
    int64_t id = name[0] ? name_find(l->r->c, name) : 0;
    if (!id && name[0]) l->impossible = true;
    if (id) want_name(l, kind, id);
    return id;
}

/* The ids that were inserted from that hour on, or up to it: the outermost one; `nothing` if there are none. */
static pawl_id bound(listing *l, sql_name which, int64_t us, pawl_id nothing)
{
    query q = query_on(l->r->c, which);
    put_int(&q, us / PAWL_HOUR);
    pawl_id id = query_row(&q) ? get_int_or(&q, nothing) : nothing;
    query_end(&q);
    return id;
}

/* Goes straight to the time asked for. */
static void read_times(listing *l)
{
    const pawl_filter *f = l->f;
    l->max_id = INT64_MAX;
    if (f->since_us) l->min_id = bound(l, SQL_list_since, f->since_us, INT64_MAX);
    if (f->until_us) l->max_id = bound(l, SQL_list_until, f->until_us - 1, 0);
    if (l->min_id > l->max_id) l->impossible = true;
    else if (f->oldest_first && l->at < l->min_id) l->at = l->min_id - 1;
    else if (!f->oldest_first && l->at > l->max_id && l->max_id < INT64_MAX) l->at = l->max_id + 1;
}

static pawl_status read_filter(listing *l, pawl_error *err)
{
    const pawl_filter *f = l->f;
    bool known = !f->state;
    for (size_t i = 0; !known && i < sizeof states / sizeof *states; i++) {
        known = strcmp(f->state, states[i].name) == 0;
        if (known) l->want = states[i];
    }
    if (!known) return err_set(err, PAWL_INVALID, "no task can be in state \"%s\"", f->state);
    if (f->unresolved && l->want.from == FROM_ALL) l->want.from = FROM_FAILED;
    if (f->unresolved && l->want.from != FROM_FAILED) l->impossible = true;
    l->type_id = filter_name(l, SEEN_TYPE, f->type);
    l->queue_id = filter_name(l, SEEN_QUEUE, f->queue);
    l->tenant_id = filter_name(l, SEEN_TENANT, f->tenant);
    if (l->want.state == PAWL_CANCELLED) want_name(l, SEEN_CANCELLED, 0);
    if (f->key) l->named = false; /* few have it */
    if (f->since_us || f->until_us || f->key) l->by_body = true;
    l->at = f->oldest_first ? 0 : INT64_MAX;
    if (f->cursor && !pawl_id_parse(f->cursor, &l->at))
        return err_set(err, PAWL_INVALID, "\"%s\" is not a cursor of this store: pass `next` of the page before", f->cursor);
    l->limit = f->limit > 0 ? f->limit : 100;
    search_begin(&l->search, f->search);
    read_times(l);
    return PAWL_OK;
}

pawl_status list_read(reading *r, pawl_query *query, pawl_error *err)
{
    listing l = {.r = r, .f = query->filter, .until_us = r->c->cut_at_us};
    if (query->deadline_us > 0 && mono_us() + query->deadline_us < l.until_us) l.until_us = mono_us() + query->deadline_us;
    r->c->cut_at_us = l.until_us;
    pawl_status status = read_filter(&l, err);
    if (status) return status;
    pawl_page *page = read_alloc(r, sizeof *page);
    l.found = read_alloc(r, (size_t)l.limit * sizeof *l.found);
    if (!page || !l.found) return PAWL_OK; /* no_memory says it */
    if (!l.impossible) walk(&l);
    char next[PAWL_ID_TEXT];
    pawl_id_format(l.at, next);
    page->count = (size_t)l.count;
    page->tasks = (const pawl_info *const *)l.found;
    page->partial = l.partial;
    if (l.more) page->next = read_text(r, next);
    query->page = page;
    return PAWL_OK;
}
