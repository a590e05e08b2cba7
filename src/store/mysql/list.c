/* Lists: one page of tasks by id.
 *
 * The ids of one table (all bodies, or the table that holds tasks of the wanted state, or those of one key) are looked at stretch by stretch,
 * so that it is always known how far the list came: one that is cut goes on from there. The cursor is the text of that id.
 */
#include "base/error.h"
#include "store/mysql/read.h"
#include "store/search.h"
#include <stdio.h>

#define FIRST_LOOK 200
#define LAST_LOOK 2000
#define LAST_SEARCH 400 /* payloads are looked into */

/* What a filter's state asks for, in terms of stored rows. */
typedef struct wanted {
    const char *name;
    const char *from;    /* the table; NULL: those of a key */
    pawl_state state;    /* NONE: any */
    const char *display; /* what must hold besides; NULL: nothing */
} wanted;

#define SCHEDULED "run_at_us > now_us AND failures = 0 AND NOT blocked AND NOT slotted"
#define RETRYING "run_at_us > now_us AND failures > 0 AND NOT blocked AND NOT slotted"
#define THROTTLED "run_at_us > now_us AND NOT blocked AND slotted"
#define RUNNING "pulse = 1"
#define STALE "COALESCE(pulse, 0) = 0"

static const wanted states[] = {
    {"waiting", "pawl_live", PAWL_WAITING, NULL},        {"pending", "pawl_live", PAWL_PENDING, NULL},
    {"scheduled", "pawl_live", PAWL_PENDING, SCHEDULED}, {"retrying", "pawl_live", PAWL_PENDING, RETRYING},
    {"leased", "pawl_leased", PAWL_LEASED, NULL},        {"running", "pawl_leased", PAWL_LEASED, RUNNING},
    {"stale", "pawl_leased", PAWL_LEASED, STALE},        {"succeeded", "pawl_done", PAWL_SUCCEEDED, NULL},
    {"cancelled", "pawl_done", PAWL_CANCELLED, NULL},    {"failed", "pawl_failed", PAWL_FAILED, NULL},
    {"blocked", "pawl_live", PAWL_PENDING, "blocked"},   {"throttled", "pawl_live", PAWL_PENDING, THROTTLED},
};

typedef struct listing {
    reading *r;
    const pawl_filter *f;
    wanted want;
    buf filter; /* what must hold for a task, as SQL */
    buf search; /* a column that says whether it has the words; empty: it need not */
    pawl_info **found;
    int count, limit;
    pawl_id at;             /* the last task looked at */
    pawl_id min_id, max_id; /* nothing else was created in the time asked for */
    bool more, partial;
} listing;

static pawl_status read_filter(listing *l, pawl_error *err)
{
    const pawl_filter *f = l->f;
    bool known = !f->state;
    l->want = (wanted){.from = "pawl_body"};
    for (size_t i = 0; !known && i < sizeof states / sizeof *states; i++) {
        known = strcmp(f->state, states[i].name) == 0;
        if (known) l->want = states[i];
    }
    if (!known) return err_set(err, PAWL_INVALID, "no task can be in state \"%s\"", f->state);
    if (f->unresolved && strcmp(l->want.from, "pawl_body") == 0) l->want.from = "pawl_failed";
    if (f->key) l->want.from = NULL;
    l->at = f->oldest_first ? 0 : INT64_MAX;
    if (f->cursor && !pawl_id_parse(f->cursor, &l->at))
        return err_set(err, PAWL_INVALID, "\"%s\" is not a cursor of this store: pass `next` of the page before", f->cursor);
    l->limit = f->limit > 0 ? f->limit : 100;
    return PAWL_OK;
}

static void must_be(listing *l, const char *column, const char *value)
{
    if (!value) return;
    buf_fmt(&l->filter, " AND %s = ", column);
    lit_bytes(l->r->c, &l->filter, (pawl_bytes){value, strlen(value)});
}

/* All texts of a task, in a character set in which all bytes are characters and nothing but the letters of ASCII has two cases. */
#define LAST_RUN(column) "(SELECT a." column " FROM @.pawl_attempt a WHERE a.task_id = b.id ORDER BY a.number DESC LIMIT 1)"
#define OF_RUN(column)                                                                       \
    "CAST(CASE WHEN d.id IS NOT NULL THEN d." column " WHEN f.id IS NOT NULL THEN f." column \
    " ELSE " LAST_RUN(column) " END AS BINARY)"
#define HELD                                                                                                     \
    "LOWER(CONVERT(CONCAT_WS('\\n', CAST(tn.text AS BINARY), CAST(qn.text AS BINARY), CAST(en.text AS BINARY), " \
    "CAST(b.task_key AS BINARY), " OF_RUN("code") ", " OF_RUN("error") ", b.payload) USING tis620))"

static void write_search(listing *l)
{
    search s;
    buf *b = &l->search;
    search_begin(&s, l->f->search);
    for (int i = 0; i < s.count; i++) {
        buf_str(b, i ? " AND LOCATE(CONVERT(" : ", LOCATE(CONVERT(");
        lit_bytes(l->r->c, b, (pawl_bytes){s.words[i].text, s.words[i].len});
        buf_str(b, " USING tis620) COLLATE tis620_bin, ");
        my_add_with_database(b, HELD, sizeof HELD - 1, l->r->c->link->url.database);
        buf_char(b, ')');
    }
    if (s.count) buf_str(b, " AS found");
    if (b->failed) l->r->no_memory = true;
}

static void write_filter(listing *l)
{
    const pawl_filter *f = l->f;
    buf *b = &l->filter;
    buf_str(b, "1");
    if (l->want.state) buf_fmt(b, " AND state = %d", (int)l->want.state);
    must_be(l, "type", f->type);
    must_be(l, "queue", f->queue);
    must_be(l, "COALESCE(tenant, '')", f->tenant);
    must_be(l, "CAST(task_key AS BINARY)", f->key);
    if (f->since_us) buf_fmt(b, " AND created_us >= %lld", (long long)f->since_us);
    if (f->until_us) buf_fmt(b, " AND created_us < %lld", (long long)f->until_us);
    if (f->unresolved) buf_str(b, " AND state = 5 AND resolved_us IS NULL");
    if (l->want.display) buf_fmt(b, " AND %s", l->want.display);
    if (l->search.len) buf_str(b, " AND found");
    if (b->failed) l->r->no_memory = true;
}

/* Goes straight to the time asked for. */
static void read_bounds(listing *l)
{
    const pawl_filter *f = l->f;
    conn *c = l->r->c;
    l->min_id = 0;
    l->max_id = INT64_MAX;
    if (!f->since_us && !f->until_us) return;
    my_script(c);
    my_put_int(c, f->since_us / PAWL_HOUR);
    my_put_int(c, f->until_us ? (f->until_us - 1) / PAWL_HOUR : INT64_MAX);
    if (!my_ask(l->r, SQL_list_bounds)) return;
    const answer *a = my_answer(c, SQL_list_bounds);
    if (f->since_us) l->min_id = get_null(a, 0, 0) ? INT64_MAX : get_int(a, 0, 0);
    if (f->until_us) l->max_id = get_null(a, 0, 1) ? 0 : get_int(a, 0, 1);
}

/* A name that no task ever had is not looked for. */
static bool has_names(listing *l)
{
    const char *const names[] = {l->f->type, l->f->queue, l->f->tenant};
    conn *c = l->r->c;
    int64_t wanted = 0;
    my_script(c);
    for (int i = 0; i < 3; i++) {
        bool asked = names[i] && names[i][0], again = false;
        for (int k = 0; k < i; k++) again = again || (asked && names[k] && strcmp(names[k], names[i]) == 0);
        wanted += asked && !again;
        if (asked) my_put_bytes(c, (pawl_bytes){names[i], strlen(names[i])});
        else my_put_raw(c, "NULL", 4);
    }
    return !wanted || (my_ask(l->r, SQL_list_known) && get_int(my_answer(c, SQL_list_known), 0, 0) == wanted);
}

/* The next ids: how many there are, -1: failed; the last of them, and those of them that must be looked at. */
static int next_ids(listing *l, int look, pawl_id *last, pawl_id *ids, int *count)
{
    static const char any[] = "1", open[] = "resolved_us IS NULL", state_of[] = "state = %d";
    const pawl_filter *f = l->f;
    conn *c = l->r->c;
    char condition[40];
    bool failed = l->want.from && strcmp(l->want.from, "pawl_failed") == 0;
    bool stated =
        l->want.from && l->want.state && (strcmp(l->want.from, "pawl_live") == 0 || strcmp(l->want.from, "pawl_done") == 0);
    snprintf(condition, sizeof condition, stated ? state_of : failed && f->unresolved ? open : any, (int)l->want.state);
    my_script(c);
    my_put_int(c, l->at);
    my_put_int(c, l->min_id);
    my_put_int(c, look);
    if (l->want.from) my_put_raw(c, l->want.from, strlen(l->want.from));
    else my_put_int(c, 0);
    my_put_int(c, l->max_id);
    if (l->want.from) my_put_raw(c, condition, strlen(condition));
    else my_put_bytes(c, (pawl_bytes){f->key, strlen(f->key)});
    sql_name which = l->want.from      ? (f->oldest_first ? SQL_list_up : SQL_list_down)
                     : f->oldest_first ? SQL_list_key_up
                                       : SQL_list_key_down;
    if (!my_ask(l->r, which)) return -1;
    const answer *a = my_answer(c, which);
    for (int i = 0; i < a->rows; i++) {
        *last = get_int(a, i, 0);
        if (get_int(a, i, 1)) ids[(*count)++] = *last;
    }
    return a->rows;
}

/* Asks for those of the ids that match. */
static bool ask_tasks(listing *l, const pawl_id *ids, int count)
{
    conn *c = l->r->c;
    buf list;
    buf_init(&list, l->r->s->allocator, 1 << 20);
    for (int i = 0; i < count; i++) {
        if (i) buf_char(&list, ',');
        lit_int(&list, ids[i]);
    }
    if (list.failed) l->r->no_memory = true;
    my_script(c);
    my_put_raw(c, buf_text(&list), list.len);
    my_put_raw(c, buf_text(&l->search), l->search.len);
    my_put_raw(c, buf_text(&l->filter), l->filter.len);
    my_put_clock(l->r);
    bool good = !l->r->no_memory && my_ask(l->r, SQL_tasks);
    buf_done(&list);
    return good;
}

/* Takes the tasks that were found; false: the page is full. */
static bool take(listing *l)
{
    const answer *a = my_answer(l->r->c, SQL_tasks);
    for (int i = 0; i < a->rows; i++) {
        info_more ignored;
        if (l->count == l->limit) {
            l->more = true;
            return false;
        }
        pawl_info *info = my_info_read(l->r, a, l->f->oldest_first ? i : a->rows - 1 - i, 0, &ignored);
        if (!info) return false;
        l->found[l->count++] = info;
        l->at = info->id;
    }
    return true;
}

static void walk(listing *l)
{
    pawl_id *ids = my_read_alloc(l->r, LAST_LOOK * sizeof *ids);
    bool all = l->filter.len == 1 && l->limit < LAST_LOOK; /* then no more than a page need be looked at */
    const int most = l->search.len ? LAST_SEARCH : LAST_LOOK;
    for (int look = all ? l->limit + 1 : FIRST_LOOK; ids; look = look < most / 4 ? 4 * look : most) {
        int64_t begin_us = my_mono_us();
        pawl_id last = 0;
        int count = 0, seen = next_ids(l, look, &last, ids, &count);
        if (seen <= 0 || (count && (!ask_tasks(l, ids, count) || !take(l))) || seen < look) return;
        l->at = last;
        if (2 * my_mono_us() - begin_us < l->r->until_us) continue; /* there is time for another one */
        l->more = l->partial = true;
        return;
    }
}

pawl_status my_list_read(reading *r, pawl_query *query, pawl_error *err)
{
    listing l = {.r = r, .f = query->filter};
    if (query->deadline_us > 0 && my_mono_us() + query->deadline_us < r->until_us)
        r->until_us = my_mono_us() + query->deadline_us;
    pawl_status status = read_filter(&l, err);
    if (status) return status;
    pawl_page *page = my_read_alloc(r, sizeof *page);
    l.found = my_read_alloc(r, (size_t)l.limit * sizeof *l.found);
    if (!page || !l.found) return PAWL_OK; /* no_memory says it */
    buf_init(&l.filter, r->s->allocator, 1 << 20);
    buf_init(&l.search, r->s->allocator, 1 << 20);
    write_search(&l);
    write_filter(&l);
    read_bounds(&l);
    if (l.min_id <= l.max_id && !r->no_memory && has_names(&l)) walk(&l);
    buf_done(&l.filter);
    buf_done(&l.search);
    char next[PAWL_ID_TEXT];
    pawl_id_format(l.at, next);
    page->count = (size_t)l.count;
    page->tasks = (const pawl_info *const *)l.found;
    page->partial = l.partial;
    if (l.more && !(page->next = pawl_arena_str(r->arena, next))) r->no_memory = true;
    query->page = page;
    return PAWL_OK;
}
