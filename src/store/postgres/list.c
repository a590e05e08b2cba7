/* Lists: one page of tasks by id.
 *
 * The ids of one table (all bodies, or the table that holds tasks of the wanted state, or those of one key) are looked at stretch by stretch,
 * so that it is always known how far the list came: one that is cut goes on from there. The cursor is the text of that id.
 *
 * A list by names may also leap: all tasks of a stretch of time that have them, by an index of stretches (migrations/0027_names.sql). Which is faster depends on
 * how rare they are, in the table looked at and among all tasks, and nobody knows; so both are tried, and whichever got further in its time goes on.
 */
#include "base/error.h"
#include "store/postgres/read.h"
#include "store/search.h"

#define FIRST_LOOK 200
#define LAST_LOOK 10000
#define LOOK_US (10 * PAWL_MILLISECOND) /* a look that takes longer is not followed by a wider one */
#define FIRST_LEAP (60 * PAWL_SECOND / PAWL_MILLISECOND)
#define WIDER 16    /* a leap that found nothing is followed by one so much wider */
#define TRY_EVERY 8 /* steps, the slower way */

typedef enum display { ANY, SCHEDULED, RETRYING, RUNNING, STALE, BLOCKED, THROTTLED } display; /* as read.sql numbers them */

/* What a filter's state asks for, in terms of stored rows. */
typedef struct wanted {
    const char *name;
    sql_name from;
    pawl_state state; /* NONE: any */
    display display;
} wanted;

static const wanted states[] = {
    {"waiting", SQL_list_live, PAWL_WAITING, ANY},         {"pending", SQL_list_live, PAWL_PENDING, ANY},
    {"scheduled", SQL_list_live, PAWL_PENDING, SCHEDULED}, {"retrying", SQL_list_live, PAWL_PENDING, RETRYING},
    {"leased", SQL_list_leased, PAWL_LEASED, ANY},         {"running", SQL_list_leased, PAWL_LEASED, RUNNING},
    {"stale", SQL_list_leased, PAWL_LEASED, STALE},        {"succeeded", SQL_list_done, PAWL_SUCCEEDED, ANY},
    {"cancelled", SQL_list_done, PAWL_CANCELLED, ANY},     {"failed", SQL_list_failed, PAWL_FAILED, ANY},
    {"blocked", SQL_list_live, PAWL_PENDING, BLOCKED},     {"throttled", SQL_list_live, PAWL_PENDING, THROTTLED},
};

typedef struct listing {
    reading *r;
    const pawl_filter *f;
    wanted want;
    pawl_info **found;
    int count, limit;
    pawl_id at;             /* the last task looked at */
    pawl_id min_id, max_id; /* nothing else was created in the time asked for */
    bool more, partial;
    bool named;                              /* it may leap */
    int look;                                /* the next stretch: so many tasks */
    int64_t leap;                            /* or so many milliseconds */
    double pace[2];                          /* how far a look, and a leap, came in a microsecond */
    char words[SEARCH_BYTES + SEARCH_WORDS]; /* one space between them */
} listing;

static void read_words(listing *l)
{
    search s;
    size_t n = 0;
    search_begin(&s, l->f->search);
    for (int i = 0; i < s.count; i++) {
        if (i) l->words[n++] = ' ';
        memcpy(l->words + n, s.words[i].text, s.words[i].len);
        n += s.words[i].len;
    }
    l->words[n] = '\0';
}

static pawl_status read_filter(listing *l, pawl_error *err)
{
    const pawl_filter *f = l->f;
    bool known = !f->state;
    l->want = (wanted){.from = SQL_list_all};
    for (size_t i = 0; !known && i < sizeof states / sizeof *states; i++) {
        known = strcmp(f->state, states[i].name) == 0;
        if (known) l->want = states[i];
    }
    if (!known) return err_set(err, PAWL_INVALID, "no task can be in state \"%s\"", f->state);
    if (f->unresolved && l->want.from == SQL_list_all) l->want.from = SQL_list_failed;
    if (f->key) l->want.from = SQL_list_key;
    l->named = !f->key && ((f->type && f->type[0]) || (f->queue && f->queue[0]) || (f->tenant && f->tenant[0]));
    l->at = f->oldest_first ? 0 : INT64_MAX;
    if (f->cursor && !pawl_id_parse(f->cursor, &l->at))
        return err_set(err, PAWL_INVALID, "\"%s\" is not a cursor of this store: pass `next` of the page before", f->cursor);
    l->limit = f->limit > 0 ? f->limit : 100;
    read_words(l);
    return PAWL_OK;
}

/* A name that no task ever had is not looked for. */
static bool has_names(listing *l)
{
    const pawl_filter *f = l->f;
    params *p = &l->r->c->params;
    if (!f->type && !f->queue && !f->tenant) return true;
    pg_params_begin(p);
    pg_param_text(p, f->type);
    pg_param_text(p, f->queue);
    pg_param_text(p, f->tenant);
    PGresult *answer = pg_ask(l->r, SQL_list_known);
    bool known = answer && PQgetvalue(answer, 0, 0)[0] != 0;
    PQclear(answer);
    return known;
}

/* Goes straight to the time asked for. */
static void read_bounds(listing *l)
{
    const pawl_filter *f = l->f;
    params *p = &l->r->c->params;
    l->min_id = 0;
    l->max_id = INT64_MAX;
    if (!f->since_us && !f->until_us) return;
    pg_params_begin(p);
    pg_param_int8(p, f->since_us / PAWL_HOUR);
    pg_param_int8(p, f->until_us ? (f->until_us - 1) / PAWL_HOUR : INT64_MAX);
    PGresult *answer = pg_ask(l->r, SQL_list_bounds);
    if (!answer) return;
    if (f->since_us) l->min_id = PQgetisnull(answer, 0, 0) ? INT64_MAX : wire64(answer, 0, 0);
    if (f->until_us) l->max_id = PQgetisnull(answer, 0, 1) ? 0 : wire64(answer, 0, 1);
    PQclear(answer);
}

static void put_filter(const listing *l, int64_t stretch)
{
    const pawl_filter *f = l->f;
    params *p = &l->r->c->params;
    pg_put_clock(l->r->s, p);
    pg_param_int8(p, l->at);
    pg_param_bool(p, f->oldest_first);
    pg_param_int8(p, stretch);
    pg_param_int8(p, l->limit - l->count + 1);
    if (l->want.state) pg_param_int8(p, l->want.state);
    else pg_param_null(p);
    pg_param_text(p, f->type);
    pg_param_text(p, f->queue);
    pg_param_text(p, f->tenant);
    pg_param_text(p, f->key);
    pg_param_int8(p, f->since_us);
    pg_param_int8(p, f->until_us);
    pg_param_bool(p, f->unresolved);
    pg_param_int8(p, l->want.display);
    pg_param_int8(p, l->min_id);
    pg_param_int8(p, l->max_id);
    pg_param_text(p, l->words[0] ? l->words : NULL);
}

/* Takes the tasks that were found; false: the page is full. */
static bool take(listing *l, const PGresult *answer)
{
    for (int i = 0; i < PQntuples(answer); i++) {
        info_more ignored;
        if (PQgetisnull(answer, i, 2)) continue;
        if (l->count == l->limit) {
            l->more = true;
            return false;
        }
        pawl_info *info = pg_info_read(l->r, answer, i, 2, &ignored);
        if (!info) return false;
        l->found[l->count++] = info;
        l->at = info->id;
    }
    return true;
}

/* The next stretch by number. false: there is no more, or the page is full. Most tasks of it cost little, those that must be looked into much: how many
 * are looked at is found by trying. */
static bool look(listing *l)
{
    const int look = l->look ? l->look : FIRST_LOOK;
    int64_t begin_us = pg_mono_us();
    put_filter(l, look);
    PGresult *answer = pg_ask(l->r, l->want.from);
    if (!answer) return false;
    bool on = take(l, answer) && wire64(answer, 0, 0) == look;
    if (on) l->at = wire64(answer, 0, 1);
    PQclear(answer);
    int64_t took_us = pg_mono_us() - begin_us;
    if (took_us < LOOK_US / 2) l->look = look < LAST_LOOK / 4 ? 4 * look : LAST_LOOK;
    else l->look = took_us < LOOK_US || look < 2 * FIRST_LOOK ? look : look / 2;
    return on;
}

static int64_t distance(pawl_id a, pawl_id b) { return a > b ? a - b : b - a; }

/* The next stretch by time. */
static bool leap(listing *l)
{
    int before = l->count;
    pawl_id from = l->at;
    put_filter(l, l->leap);
    PGresult *answer = pg_ask(l->r, SQL_list_leap);
    if (!answer) return false;
    bool on = take(l, answer) && !wire64(answer, 0, 0);
    if (on) {
        l->at = wire64(answer, 0, 1);
        l->leap = distance(from, l->at) >> 22;
        if (l->count == before) l->leap = WIDER * (l->leap + 1);
    }
    PQclear(answer);
    return on;
}

/* The faster way, as far as is known; now and then the other one. */
static bool leaps(const listing *l, int step)
{
    if (!l->named || step <= 2) return l->named && step == 2;
    bool faster = l->pace[1] > l->pace[0];
    return step % TRY_EVERY ? faster : !faster;
}

/* Ends before a stretch that would take too long, if it takes as long as the last one. */
static void walk(listing *l)
{
    bool on = true;
    l->leap = FIRST_LEAP;
    for (int step = 1; on; step++) {
        bool leaping = leaps(l, step);
        pawl_id from = l->at;
        int64_t begin_us = pg_mono_us();
        on = leaping ? leap(l) : look(l);
        int64_t now_us = pg_mono_us(), took_us = now_us - begin_us;
        l->pace[leaping] =
            step == 1 ? 0 : (double)distance(from, l->at) / (double)(took_us + 1); /* the first look came from anywhere */
        if (!on || now_us + took_us < l->r->until_us) continue;
        l->more = l->partial = true;
        on = false;
    }
}

pawl_status pg_list_read(reading *r, pawl_query *query, pawl_error *err)
{
    listing l = {.r = r, .f = query->filter};
    if (query->deadline_us > 0 && pg_mono_us() + query->deadline_us < r->until_us)
        r->until_us = pg_mono_us() + query->deadline_us;
    pawl_status status = read_filter(&l, err);
    if (status) return status;
    pawl_page *page = pg_read_alloc(r, sizeof *page);
    l.found = pg_read_alloc(r, (size_t)l.limit * sizeof *l.found);
    if (!page || !l.found) return PAWL_OK; /* no_memory says it */
    read_bounds(&l);
    if (l.min_id <= l.max_id && has_names(&l)) walk(&l);
    char next[PAWL_ID_TEXT];
    pawl_id_format(l.at, next);
    page->count = (size_t)l.count;
    page->tasks = (const pawl_info *const *)l.found;
    page->partial = l.partial;
    if (l.more && !(page->next = pawl_arena_str(r->arena, next))) r->no_memory = true;
    query->page = page;
    return PAWL_OK;
}
