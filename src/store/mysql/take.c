/* What a claim was granted: tasks of the call, with copies of their bodies; and what becomes of leases that are of no use. */
#include "base/alloc.h"
#include "base/error.h"
#include "store/mysql/claim.h"
#include "store/mysql/schedule.h"
#include "store/mysql/place.h"
#include "store/mysql/quota.h"
#include <mysqld_error.h>
#include <stdio.h>

/* ---- tasks of the call --------------------------------------------------------------------------------------------------- */

enum { /* columns of SQL_bodies */
       ID,
       TYPE,
       QUEUE,
       CREATED,
       PRIORITY,
       AUDIT,
       TENANT,
       MAX_ATTEMPTS,
       TIMEOUT,
       RETRY_OF,
       KEY,
       CONTENT_TYPE,
       CREATED_BY,
       TRACEPARENT,
       HEADERS,
       RATE_KEY,
       PAYLOAD
};

/* The row of a task among answers that come in the order of ids, which are in their first column. */
static const answer *find_row(const claiming *k, sql_name which, pawl_id id, int *row)
{
    EACH_ANSWER(a, k->c, which)
    {
        int low = 0, high = a->rows;
        while (low < high) {
            int middle = low + (high - low) / 2;
            if (get_int(a, middle, ID) < id) low = middle + 1;
            else high = middle;
        }
        *row = low;
        if (low < a->rows && get_int(a, low, ID) == id) return a;
    }
    return NULL;
}

static pawl_body *copy_body(const claiming *k, const answer *a, int row)
{
    interned *n = &k->s->names;
    const char *type = get_text(a, row, CONTENT_TYPE);
    pawl_body b = {.id = get_int(a, row, ID),
                   .type = interned_text(n, (int32_t)get_int(a, row, TYPE)),
                   .queue = interned_text(n, (int32_t)get_int(a, row, QUEUE)),
                   .tenant = get_null(a, row, TENANT) ? "" : interned_text(n, (int32_t)get_int(a, row, TENANT)),
                   .key = get_text(a, row, KEY),
                   .content_type = !type     ? "application/json"
                                   : type[0] ? type
                                             : NULL,
                   .created_by = get_text(a, row, CREATED_BY),
                   .traceparent = get_text(a, row, TRACEPARENT),
                   .headers = get_text(a, row, HEADERS),
                   .payload = get_bytes(a, row, PAYLOAD),
                   .rate_key = get_bytes(a, row, RATE_KEY),
                   .priority = (int)get_int(a, row, PRIORITY),
                   .max_attempts = (int)get_int(a, row, MAX_ATTEMPTS),
                   .timeout_us = get_int(a, row, TIMEOUT),
                   .audit = (pawl_audit)get_int(a, row, AUDIT),
                   .retry_of = get_int(a, row, RETRY_OF),
                   .created_us = get_int(a, row, CREATED)};
    return b.type && b.queue && b.tenant ? pawl_body_copy(k->call->allocator, &b) : NULL;
}

/* The slot that it came with: where the right to start ends; 0: it has none, or of an epoch that is over. */
static int64_t until_of(const claiming *k, const granted *g, int64_t *epoch)
{
    int row;
    const answer *a = g->limited ? find_row(k, SQL_slots, g->row.id, &row) : NULL;
    budget_limit limit;
    *epoch = a ? get_int(a, row, 1) : 0;
    if (!a) return 0;
    stored_limit own = my_limit_read(a, row, 3), of_type = my_limit_read(a, row, 4);
    bool good = my_limit_make(&own, &of_type, &limit) && !limit.paused && *epoch == get_int(a, row, 2);
    return good ? g->row.run_at_us + limit.r.late_us : 0;
}

/* *lost: it has no body any more. */
static bool take_task(const claiming *k, const granted *g, bool *lost)
{
    int row;
    pawl_claim *call = k->call;
    const answer *a = find_row(k, SQL_bodies, g->row.id, &row);
    *lost = !a;
    if (!a) return true;
    pawl_body *body = copy_body(k, a, row);
    if (!body) return false;
    int64_t epoch, until_us = until_of(k, g, &epoch);
    call->tasks[call->tasks_count++] = (pawl_claimed){.body = body,
                                                      .fence = g->row.fence + 1,
                                                      .run_at_us = g->row.run_at_us,
                                                      .runs = g->row.runs,
                                                      .failures = g->row.failures,
                                                      .rescues = g->row.rescues,
                                                      .interruptions = g->row.interruptions,
                                                      .want = g->want,
                                                      .not_started = g->not_started,
                                                      .suspect = g->row.class != CLASS_ORDINARY,
                                                      .solo = g->row.class == CLASS_SOLO,
                                                      .limited = g->limited,
                                                      .until_us = until_us,
                                                      .epoch = epoch};
    call->wants[g->want].got++;
    return true;
}

/* Types, queues and tenants that no other call has named before; on another connection, for the bodies are still in this one. */
static bool fetch_texts(claiming *k)
{
    static const int columns[] = {TYPE, QUEUE, TENANT};
    int count = 0;
    int32_t *ids = pawl_arena_alloc(k->arena, (size_t)(3 * k->count + 1) * sizeof *ids);
    if (!ids) return false;
    EACH_ANSWER(a, k->c, SQL_bodies)
    for (int i = 0; i < 3 * a->rows && count < 3 * k->count; i++) ids[count++] = (int32_t)get_int(a, i / 3, columns[i % 3]);
    conn *c = my_store_take(k->s, READER);
    bool good = my_names_fetch_ids(&k->s->names, c, ids, count);
    my_store_give(k->s, c);
    return good;
}

/* ---- leases that are of no use ------------------------------------------------------------------------------------------- */

/* Back as if nothing had happened but that the fence has grown; or, without a body, to their end. */
static void undo_one(work *w, const granted *g, bool lost)
{
    task_row *leased = my_task(w, g->row.id), row = g->row;
    if (!leased || leased->state != PAWL_LEASED || leased->fence != g->row.fence + 1 || leased->node != w->node) return;
    my_leased_drop(w, leased);
    if (!lost) {
        row.fence++;
        my_live_put(w, &row);
        return;
    }
    /* It gets an empty body so that it can be shown. */
    my_rows_begin(w, TABLE_BODIES);
    buf_fmt(&w->tables[TABLE_BODIES].text, "%lld,%lld,%d,%d,%d,2,%d,0,NULL,NULL,NULL,NULL,NULL,'',NULL,NULL,NULL,NULL,NULL",
            (long long)row.id, (long long)w->now_us, (int)row.type_id, (int)row.queue_id, row.priority, row.level);
    my_rows_end(w, TABLE_BODIES);
    my_end_put(w, &row, &(task_end){.to = PAWL_FAILED, .reason = "unreadable", .level = row.level, .derived = true});
}

static bool undo_in(work *w, claiming *k, const bool *lost)
{
    conn *c = w->c;
    pawl_id *ids = pawl_arena_alloc(k->arena, (size_t)(k->count + 1) * sizeof *ids);
    if (!ids) return false;
    for (int i = 0; i < k->count; i++) ids[i] = k->tasks[i].row.id;
    my_script(c);
    my_add(c, SQL_begin);
    my_add(c, SQL_version_shared);
    int count = my_sort_ids(ids, k->count);
    my_places_ask_tasks(w, ids, count);
    my_schedules_ask_tasks(w, ids, count);
    my_add_ids(c, SQL_leased_lock, ids, count);
    my_places_verify(w, ids, count);
    my_add_rollups_look(w);
    if (!my_send(c, CALL_READS)) return false;
    my_take_in(w);
    my_rollups_take_in(w);
    my_schedules_take_in(w);
    if (my_work_outdated(w)) {
        my_rollback(c);
        if (!my_limits_fetch(w->s, c)) return false;
        my_conn_note(c, PAWL_UNAVAILABLE, ER_LOCK_DEADLOCK, "the limits have changed");
        return false;
    }
    if (!my_spots_take_in(w) || !my_places_load(w)) return false;
    my_script(c);
    for (int i = 0; i < k->count; i++)
        if (!lost || lost[i]) undo_one(w, &k->tasks[i], lost != NULL);
    if (!my_places_settle(w)) return false;
    my_work_flush(w);
    my_put_int(c, w->node);
    my_put_int(c, -1);
    my_add(c, SQL_backs);
    char row[80];
    int n = snprintf(row, sizeof row, "(%lld,-1,%lld)", (long long)w->node, (long long)w->leases);
    my_put_raw(c, row, (size_t)n);
    my_add(c, SQL_leases_take);
    my_add(c, SQL_commit);
    return !w->no_memory && my_send(c, CALL_WRITES);
}

/* Those that are lost; NULL: all of them. */
static bool undo(claiming *k, const bool *lost)
{
    bool good = false;
    int tries = 0;
    do {
        work w;
        my_work_begin(&w, k->s, k->c, k->arena);
        w.node = k->call->node;
        w.lane = -1;
        w.now_us = k->at.now_us;
        w.boot_us = k->at.boot_us;
        good = my_limits_copy(k->s, k->arena, &w.limits) && undo_in(&w, k, lost);
        my_work_done(&w);
    } while (!good && my_call_again(k->c, &tries));
    my_ready_chill(&k->s->ready);
    return good;
}

/* What was granted goes back; UNKNOWN where even that is in doubt. */
pawl_status my_claim_give_back(claiming *k, pawl_error *err)
{
    my_claim_clear(k->call);
    bool back = undo(k, NULL);
    return err_set(err, back ? PAWL_NO_MEMORY : PAWL_UNKNOWN, "could not claim tasks in \"%s\": out of memory%s",
                   k->s->link.url.name, back ? "" : ", and the tasks could not be given back");
}

pawl_status my_claim_take(claiming *k, pawl_error *err)
{
    bool *lost = pawl_arena_alloc(k->arena, (size_t)k->count + 1), any = false;
    if (k->count == 0) return PAWL_OK;
    if (!lost || !fetch_texts(k)) return my_claim_give_back(k, err);
    bool whole = true;
    interned_open(&k->s->names);
    for (int i = 0; i < k->count && whole; i++) {
        whole = take_task(k, &k->tasks[i], &lost[i]);
        any |= lost[i];
    }
    interned_close(&k->s->names);
    if (!whole) return my_claim_give_back(k, err);
    if (any && !undo(k, lost)) my_store_log(k->s, PAWL_WARN, "a task without a body could not be ended yet: %s", k->c->why);
    return PAWL_OK;
}
