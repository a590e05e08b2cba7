/* Schedules that go to another store, or come from there, with all that is known of them. Occurrences keep their order; an open one is
 * tied to its task, which has come before it. */
#include "store/sqlite/read.h"

/* ---- out ----------------------------------------------------------------------------------------------------------------- */

static void dump_occurrences(reading *r, int64_t id, pawl_past_schedule *s)
{
    query q = query_on(r->c, SQL_dump_occurrences);
    put_int(&q, id);
    while (!r->no_memory && query_row(&q)) {
        pawl_occurrence *all = read_grow(r, s->occurrences, s->occurrences_count, sizeof *all);
        if (!all) break;
        s->occurrences = all;
        pawl_occurrence *o = &all[s->occurrences_count++];
        o->occurrence = get_int(&q);
        o->state = (pawl_occurrence_state)get_int(&q);
        o->at_us = get_int(&q);
        o->task = get_int(&q);
        o->count = get_int(&q);
        o->why = read_text(r, get_text(&q));
    }
    query_end(&q);
}

void schedules_dump(reading *r, pawl_dump *d)
{
    size_t bytes = 0;
    query q = query_on(r->c, SQL_dump_schedules);
    put_int(&q, d->after);
    put_int(&q, d->limit);
    while (!r->no_memory && !(d->bytes && bytes >= d->bytes) && query_row(&q)) {
        pawl_past_schedule *all = read_grow(r, d->schedules, d->count, sizeof *all);
        if (!all) break;
        d->schedules = all;
        pawl_past_schedule *s = &all[d->count++];
        d->next = schedule_row_read(r, &q, s);
        q.column = 0;
        dump_occurrences(r, d->next, s);
        bytes += s->payload.len + (size_t)s->occurrences_count * sizeof *s->occurrences;
    }
    query_end(&q);
    d->more = d->count == d->limit || (d->bytes && bytes >= d->bytes);
}

/* ---- in ------------------------------------------------------------------------------------------------------------------ */

/* Of one whose task is not to end here any more nobody would tell. */
static pawl_occurrence_state state_here(tx *t, const pawl_occurrence *o)
{
    task_row row;
    if (o->state != PAWL_OCCURRENCE_OPEN || task_get(t->c, o->task, &row)) return o->state;
    pawl_state ended = task_ended(t->c, o->task, NULL);
    return ended == PAWL_SUCCEEDED ? PAWL_OCCURRENCE_SUCCEEDED
           : ended == PAWL_FAILED  ? PAWL_OCCURRENCE_FAILED
                                   : PAWL_OCCURRENCE_CANCELLED;
}

static void put_occurrence(tx *t, int64_t id, const pawl_occurrence *o, int number, int64_t counts[PAWL_OCCURRENCE_COUNT])
{
    pawl_occurrence_state state = state_here(t, o);
    counts[state < PAWL_OCCURRENCE_COUNT ? state : 0]++;
    query q = query_on(t->c, SQL_occurrence_put);
    put_int(&q, id);
    put_int(&q, o->occurrence);
    put_int(&q, state);
    put_int(&q, number);
    put_int(&q, o->at_us);
    put_int(&q, o->task);
    put_int(&q, o->count);
    put_text(&q, o->why);
    query_run(&q);
}

static int64_t put_row(tx *t, const pawl_past_schedule *s)
{
    query q = query_on(t->c, SQL_load_schedule);
    put_text(&q, s->name);
    put_text(&q, s->after);
    put_int(&q, s->version);
    put_int(&q, s->off);
    put_text(&q, s->reason);
    put_int(&q, s->anchor_us);
    put_int(&q, s->next_us);
    put_int(&q, s->occurrence_us);
    put_int(&q, s->last_us);
    put_int_or_null(&q, s->off ? 0 : s->look_us, 0);
    put_int(&q, s->watch);
    put_int(&q, s->runs);
    put_int(&q, s->fired);
    put_int(&q, s->skipped);
    put_int(&q, s->succeeded);
    put_int(&q, s->failed);
    for (int i = 0; i < 3; i++) put_int(&q, 0); /* occurrences follow */
    put_int(&q, s->occurrences_count);
    put_int(&q, s->last_task);
    put_int(&q, s->created_us);
    put_int(&q, s->changed_us);
    return query_run(&q) ? sqlite3_last_insert_rowid(t->c->db) : 0;
}

static void put_counts(tx *t, int64_t id, const pawl_past_schedule *s, const int64_t counts[PAWL_OCCURRENCE_COUNT])
{
    int64_t open = counts[PAWL_OCCURRENCE_OPEN], waiting = counts[PAWL_OCCURRENCE_WAITING];
    query q = query_on(t->c, SQL_schedule_count);
    put_int(&q, open);
    put_int(&q, waiting);
    put_int(&q, s->occurrences_count - open - waiting);
    put_int(&q, s->occurrences_count);
    for (int i = 0; i < 5; i++) put_int(&q, 0);
    put_null(&q);
    put_int(&q, id);
    query_run(&q);
}

static void load_schedule(tx *t, const pawl_past_schedule *s)
{
    int64_t counts[PAWL_OCCURRENCE_COUNT] = {0}, id = put_row(t, s);
    query q = query_on(t->c, SQL_schedule_body_put);
    put_int(&q, id);
    put_text(&q, s->spec);
    put_bytes(&q, s->payload);
    query_run(&q);
    for (int i = 0; i < s->occurrences_count && !t->c->rc; i++)
        put_occurrence(t, id, &s->occurrences[i], s->occurrences_count - i, counts);
    put_counts(t, id, s, counts);
}

static int64_t find(tx *t, const char *name)
{
    query q = query_on(t->c, SQL_schedule_get);
    put_text(&q, name);
    int64_t id = query_row(&q) ? get_int(&q) : 0;
    query_end(&q);
    return id;
}

void schedules_load(tx *t, const pawl_dump *d, bool replace)
{
    for (int i = 0; i < d->count && !t->c->rc; i++) {
        int64_t id = find(t, d->schedules[i].name);
        if (id && replace) schedule_remove(t, id);
        if (!id || replace) load_schedule(t, &d->schedules[i]);
    }
    t->schedules = d->count > 0;
}
