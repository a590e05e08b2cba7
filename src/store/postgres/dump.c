/* dump: whole tasks, page by page of their ids, and the rest that a store holds. See functions/move.sql.
 *
 * The tasks of a page come with one statement, which sees one moment. What hangs on them is read after that; attempts that a task got
 * meanwhile are left out.
 */
#include "store/budget.h"
#include "store/postgres/read.h"
#include "store/past_columns.h"
#include <stdio.h>
#include <stdlib.h>

static bool truth(const PGresult *a, int row, int column)
{
    return !PQgetisnull(a, row, column) && PQgetvalue(a, row, column)[0];
}

/* ---- tasks --------------------------------------------------------------------------------------------------------------- */

static void read_body(reading *r, const PGresult *a, int row, pawl_body *b)
{
    b->id = wire64(a, row, ID);
    b->type = pg_read_text(r, a, row, TYPE);
    b->queue = pg_read_text(r, a, row, QUEUE);
    b->tenant = pg_read_text(r, a, row, TENANT);
    b->created_us = wire64(a, row, CREATED);
    b->priority = wire16(a, row, PRIORITY);
    b->audit = (pawl_audit)wire16(a, row, AUDIT);
    b->max_attempts = wire32(a, row, MAX_ATTEMPTS);
    b->timeout_us = wire64(a, row, TIMEOUT);
    b->retry_of = wire64(a, row, RETRY_OF);
    b->key = pg_read_text(r, a, row, KEY);
    b->content_type = pg_read_text(r, a, row, CONTENT_TYPE);
    if (b->content_type && !b->content_type[0]) b->content_type = NULL;
    b->created_by = pg_read_text(r, a, row, CREATED_BY);
    b->traceparent = pg_read_text(r, a, row, TRACEPARENT);
    b->headers = pg_read_text(r, a, row, HEADERS);
    b->rate_key = pg_read_bytes(r, a, row, RATE_KEY);
    b->payload = pg_read_bytes(r, a, row, PAYLOAD);
}

static void read_end(reading *r, const PGresult *a, int row, pawl_record *t)
{
    t->finished_us = wire64(a, row, FINISHED);
    t->run_us = wire64(a, row, RUN_US);
    t->outcome = (pawl_attempt_outcome)wire16(a, row, OUTCOME);
    t->end_level = (pawl_audit)wire16(a, row, END_LEVEL);
    t->derived = wire16(a, row, FLAGS) & END_DERIVED;
    t->log_lines = wire32(a, row, LOG_LINES);
    t->code = pg_read_text(r, a, row, CODE);
    t->error = pg_read_text(r, a, row, ERROR);
    t->reason = pg_read_text(r, a, row, REASON);
    t->retried_as = wire64(a, row, RETRIED_AS);
    t->result_type = pg_read_text(r, a, row, RESULT_TYPE);
    t->result_ref = pg_read_text(r, a, row, RESULT_REF);
    t->result = pg_read_bytes(r, a, row, RESULT);
    t->resolved_us = wire64(a, row, RESOLVED);
    t->resolved_by = pg_read_text(r, a, row, RESOLVED_BY);
    t->note = pg_read_text(r, a, row, NOTE);
}

static void read_task(reading *r, const PGresult *a, int row, pawl_record *t)
{
    read_body(r, a, row, &t->body);
    t->state = (pawl_state)wire16(a, row, STATE);
    t->born = (pawl_state)wire16(a, row, BORN);
    t->level = (pawl_audit)wire16(a, row, LEVEL);
    t->holds_key = truth(a, row, HOLDS);
    t->suspicion = wire16(a, row, CLASS);
    t->strikes = wire16(a, row, STRIKES);
    t->run_at_us = wire64(a, row, RUN_AT);
    t->fence = wire32(a, row, FENCE);
    t->runs = wire32(a, row, RUNS);
    t->failures = wire32(a, row, FAILURES);
    t->interruptions = wire32(a, row, INTERRUPTIONS);
    t->rescues = wire32(a, row, RESCUES);
    t->node = pg_read_text(r, a, row, NODE);
    t->leased_us = wire64(a, row, LEASED);
    t->started_us = wire64(a, row, STARTED);
    t->cancel_asked = truth(a, row, CANCEL_ASKED);
    t->progress = PQgetisnull(a, row, PROGRESS) ? -1 : wire16(a, row, PROGRESS);
    t->progress_text = pg_read_text(r, a, row, PROGRESS_TEXT);
    read_end(r, a, row, t);
}

/* ---- what hangs on them -------------------------------------------------------------------------------------------------- */

/* Rows of several tasks, ordered by their ids: how many from `row` on belong to that one. Rows of tasks that come before are skipped. */
static int rows_of(const PGresult *a, int *row, pawl_id id)
{
    int rows = PQntuples(a), count = 0;
    while (*row < rows && wire64(a, *row, 0) < id) (*row)++;
    while (*row + count < rows && wire64(a, *row + count, 0) == id) count++;
    return count;
}

static void put_range(params *p, const pawl_dump *d)
{
    pg_params_begin(p);
    pg_param_int8(p, d->after);
    pg_param_int8(p, d->next);
}

static PGresult *ask_range(reading *r, const pawl_dump *d, sql_name which)
{
    put_range(&r->c->params, d);
    return pg_ask(r, which);
}

static PGresult *ask_of(reading *r, const pawl_dump *d, sql_name which)
{
    params *p = &r->c->params;
    pg_params_begin(p);
    pg_array_begin(p, OID_INT8);
    for (int i = 0; i < d->count; i++) array_int8(p, d->tasks[i].body.id);
    pg_array_end(p);
    return pg_ask(r, which);
}

static void read_attempts(reading *r, pawl_dump *d, bool by_range)
{
    PGresult *a = by_range ? ask_range(r, d, SQL_dump_attempts_all) : ask_of(r, d, SQL_dump_attempts);
    for (int i = 0, row = 0; a && i < d->count; i++) {
        pawl_record *t = &d->tasks[i];
        int count = rows_of(a, &row, t->body.id), most = t->runs - (t->outcome != PAWL_ATTEMPT_NONE);
        pawl_past_attempt *all = count ? pg_read_alloc(r, (size_t)count * sizeof *all) : NULL;
        for (int k = 0; all && k < count; k++, row++) {
            if (wire32(a, row, 1) > most) continue;
            all[t->attempts_count++] = (pawl_past_attempt){.number = wire32(a, row, 1),
                                                           .outcome = (pawl_attempt_outcome)wire16(a, row, 2),
                                                           .started_us = wire64(a, row, 3),
                                                           .finished_us = wire64(a, row, 4),
                                                           .fence = wire32(a, row, 5),
                                                           .node = pg_read_text(r, a, row, 6),
                                                           .log_lines = wire32(a, row, 7),
                                                           .code = pg_read_text(r, a, row, 8),
                                                           .error = pg_read_text(r, a, row, 9)};
        }
        t->attempts = all;
    }
    PQclear(a);
}

static void read_logs(reading *r, pawl_dump *d, bool by_range)
{
    PGresult *a = by_range ? ask_range(r, d, SQL_dump_logs_all) : ask_of(r, d, SQL_dump_logs);
    for (int i = 0, row = 0; a && i < d->count; i++) {
        pawl_record *t = &d->tasks[i];
        int count = rows_of(a, &row, t->body.id);
        pawl_past_log *all = count ? pg_read_alloc(r, (size_t)count * sizeof *all) : NULL;
        for (int k = 0; all && k < count; k++, row++)
            if (wire32(a, row, 1) <= t->runs)
                all[t->logs_count++] = (pawl_past_log){wire32(a, row, 1), wire64(a, row, 2), pg_read_text(r, a, row, 3)};
        t->logs = all;
    }
    PQclear(a);
}

static void read_changes(reading *r, pawl_dump *d, bool by_range)
{
    PGresult *a = by_range ? ask_range(r, d, SQL_dump_changes_all) : ask_of(r, d, SQL_dump_changes);
    for (int i = 0, row = 0; a && i < d->count; i++) {
        pawl_record *t = &d->tasks[i];
        int count = rows_of(a, &row, t->body.id);
        pawl_past_change *all = count ? pg_read_alloc(r, (size_t)count * sizeof *all) : NULL;
        for (int k = 0; all && k < count; k++, row++)
            all[t->changes_count++] = (pawl_past_change){.number = wire32(a, row, 1),
                                                         .at_us = wire64(a, row, 2),
                                                         .from = (pawl_state)wire16(a, row, 3),
                                                         .to = (pawl_state)wire16(a, row, 4),
                                                         .fence = wire32(a, row, 5),
                                                         .node = pg_read_text(r, a, row, 6),
                                                         .detail = pg_read_text(r, a, row, 7)};
        t->changes = all;
    }
    PQclear(a);
}

static void read_families(reading *r, pawl_dump *d, bool by_range)
{
    PGresult *a = by_range ? ask_range(r, d, SQL_dump_parents_all) : ask_of(r, d, SQL_dump_parents);
    for (int i = 0, row = 0; a && i < d->count; i++) {
        pawl_record *t = &d->tasks[i];
        int count = rows_of(a, &row, t->body.id);
        pawl_past_parent *all = count ? pg_read_alloc(r, (size_t)count * sizeof *all) : NULL;
        for (int k = 0; all && k < count; k++, row++)
            all[t->parents_count++] = (pawl_past_parent){wire64(a, row, 1), (pawl_edge_state)wire16(a, row, 2)};
        t->parents = all;
    }
    PQclear(a);
    a = by_range ? ask_range(r, d, SQL_dump_kin_all) : ask_of(r, d, SQL_dump_kin);
    for (int i = 0, row = 0; a && i < d->count; i++) {
        if (rows_of(a, &row, d->tasks[i].body.id) == 0) continue;
        d->tasks[i].batch = wire64(a, row, 1);
        d->tasks[i].if_failed = (pawl_if_failed)wire16(a, row, 2);
    }
    PQclear(a);
}

/* Only of tasks that may be in one. */
static void read_lines(reading *r, pawl_dump *d)
{
    bool any = false;
    for (int i = 0; i < d->count; i++) any = any || (d->tasks[i].state == PAWL_PENDING && d->tasks[i].body.rate_key.len > 0);
    PGresult *a = any ? ask_of(r, d, SQL_dump_lines) : NULL;
    for (int i = 0, row = 0; a && i < d->count; i++) {
        int count = rows_of(a, &row, d->tasks[i].body.id);
        if (count && d->tasks[i].state == PAWL_PENDING) d->tasks[i].line = (pawl_line)wire64(a, row, 1);
        row += count;
    }
    PQclear(a);
}

/* ---- pages of tasks ------------------------------------------------------------------------------------------------------ */

/* How many tasks lie in it. */
static int64_t find_range(reading *r, pawl_dump *d)
{
    params *p = &r->c->params;
    pg_params_begin(p);
    pg_param_int8(p, d->after);
    pg_param_int4(p, d->limit);
    pg_param_int8(p, d->states ? (int64_t)d->bytes : 0);
    PGresult *a = pg_ask(r, SQL_dump_range);
    int64_t looked = a ? wire64(a, 0, 0) : 0;
    if (looked) {
        d->next = wire64(a, 0, 1);
        d->more = truth(a, 0, 2);
    }
    PQclear(a);
    return looked;
}

static void count_range(reading *r, pawl_dump *d)
{
    put_range(&r->c->params, d);
    PGresult *a = pg_ask(r, SQL_dump_counts);
    for (int i = 0; a && i < PQntuples(a); i++) {
        int64_t state = wire64(a, i, 0);
        if (state <= PAWL_STATE_NONE || state >= PAWL_STATE_COUNT) continue;
        d->counts[state] = wire64(a, i, 1);
        const char *sum = pg_read_text(r, a, i, 2);
        d->sums[state] = sum ? strtoull(sum, NULL, 10) : 0;
    }
    PQclear(a);
}

static void dump_tasks(reading *r, pawl_dump *d)
{
    params *p = &r->c->params;
    int64_t looked = find_range(r, d);
    if (!looked) return;
    if (!d->no_counts) count_range(r, d);
    if (!d->states) return;
    put_range(p, d);
    pg_param_int4(p, (int32_t)d->states);
    pg_param_int8(p, d->since_us);
    PGresult *a = pg_ask(r, SQL_dump_tasks);
    int rows = a ? PQntuples(a) : 0;
    d->tasks = rows ? pg_read_alloc(r, (size_t)rows * sizeof *d->tasks) : NULL;
    for (; d->tasks && d->count < rows; d->count++) read_task(r, a, d->count, &d->tasks[d->count]);
    PQclear(a);
    if (!d->tasks) return;
    bool by_range = 2 * (int64_t)d->count > looked; /* of most of them: what costs nothing where there is nothing */
    read_attempts(r, d, by_range);
    read_logs(r, d, by_range);
    read_changes(r, d, by_range);
    read_lines(r, d);
    read_families(r, d, by_range);
}

/* ---- the rest ------------------------------------------------------------------------------------------------------------ */

static PGresult *ask_page(reading *r, const pawl_dump *d, sql_name which)
{
    params *p = &r->c->params;
    pg_params_begin(p);
    pg_param_int8(p, d->after);
    pg_param_int8(p, d->limit);
    return pg_ask(r, which);
}

/* "{0,3,NULL,7}" */
static int64_t *buckets(reading *r, const PGresult *a, int row, int column)
{
    const char *at = pg_read_text(r, a, row, column);
    if (!at) return NULL;
    int64_t *counts = pg_read_alloc(r, PAWL_BUCKETS * sizeof *counts);
    for (int i = 0; counts && i < PAWL_BUCKETS && *at && *at != '}'; i++) {
        at++;
        counts[i] = strtoll(at, NULL, 10); /* NULL reads as 0 */
        at += strcspn(at, ",}");
    }
    return counts;
}

static void dump_minutes(reading *r, pawl_dump *d)
{
    PGresult *a = ask_page(r, d, SQL_dump_minutes);
    int rows = a ? PQntuples(a) : 0;
    d->minutes = rows ? pg_read_alloc(r, (size_t)rows * sizeof *d->minutes) : NULL;
    for (int i = 0; d->minutes && i < rows; i++) {
        d->next = wire64(a, i, 0);
        d->minutes[d->count++] = (pawl_past_minute){.minute = d->next,
                                                    .queue = pg_read_text(r, a, i, 1),
                                                    .type = pg_read_text(r, a, i, 2),
                                                    .outcome = wire32(a, i, 3),
                                                    .count = wire64(a, i, 4),
                                                    .wait = buckets(r, a, i, 5),
                                                    .run = buckets(r, a, i, 6)};
    }
    d->more = rows > 0;
    PQclear(a);
}

static void dump_acts(reading *r, pawl_dump *d)
{
    PGresult *a = ask_page(r, d, SQL_dump_acts);
    int rows = a ? PQntuples(a) : 0;
    d->acts = rows ? pg_read_alloc(r, (size_t)rows * sizeof *d->acts) : NULL;
    for (int i = 0; d->acts && i < rows; i++) {
        d->next = wire64(a, i, 0);
        d->acts[d->count++] = (pawl_past_act){.at_us = wire64(a, i, 1),
                                              .who = pg_read_text(r, a, i, 2),
                                              .action = pg_read_text(r, a, i, 3),
                                              .id = wire64(a, i, 4),
                                              .detail = pg_read_text(r, a, i, 5)};
    }
    d->more = rows == d->limit;
    PQclear(a);
}

static void dump_settings(reading *r, pawl_dump *d)
{
    pg_params_begin(&r->c->params);
    PGresult *a = pg_ask(r, SQL_dump_queues);
    int rows = a ? PQntuples(a) : 0;
    d->queues = rows ? pg_read_alloc(r, (size_t)rows * sizeof *d->queues) : NULL;
    for (int i = 0; d->queues && i < rows; i++)
        d->queues[d->count++] = (pawl_past_queue){pg_read_text(r, a, i, 0), truth(a, i, 1)};
    PQclear(a);
    pg_params_begin(&r->c->params);
    a = pg_ask(r, SQL_dump_numbers);
    d->audit_cut_us = INT64_MIN;
    for (int i = 0; a && i < PQntuples(a); i++) {
        int number = wire32(a, i, 0);
        int64_t value = wire64(a, i, 1);
        if (number > 0 && number < 1024) d->ceilings_ms[number] = value;
        else if (number == 0) d->last_id = value;
        else d->audit_cut_us = value;
    }
    PQclear(a);
}

static void dump_limits(reading *r, pawl_dump *d)
{
    pg_params_begin(&r->c->params);
    PGresult *a = pg_ask(r, SQL_dump_limits);
    int rows = a ? PQntuples(a) : 0;
    d->limits = rows ? pg_read_alloc(r, (size_t)rows * sizeof *d->limits) : NULL;
    for (int i = 0; d->limits && i < rows; i++) {
        pawl_past_limit *l = &d->limits[d->count++];
        *l = (pawl_past_limit){.type = pg_read_text(r, a, i, 0),
                               .key = pg_read_bytes(r, a, i, 1),
                               .rate = {.permits = wire32(a, i, 2),
                                        .period_us = wire64(a, i, 3),
                                        .burst = wire32(a, i, 4),
                                        .horizon_us = wire64(a, i, 5)}};
        limit_flags_read(wire32(a, i, 6), &l->rate, &l->paused);
    }
    PQclear(a);
}

static void dump_budgets(reading *r, pawl_dump *d)
{
    PGresult *a = ask_page(r, d, SQL_dump_budgets);
    int rows = a ? PQntuples(a) : 0;
    d->budgets = rows ? pg_read_alloc(r, (size_t)rows * sizeof *d->budgets) : NULL;
    for (int i = 0; d->budgets && i < rows; i++) {
        d->next = wire64(a, i, 0);
        d->budgets[d->count++] = (pawl_past_budget){.type = pg_read_text(r, a, i, 1),
                                                    .key = pg_read_bytes(r, a, i, 2),
                                                    .tat_us = wire64(a, i, 3),
                                                    .tat_part = wire32(a, i, 4),
                                                    .permits = wire32(a, i, 5),
                                                    .period_us = wire64(a, i, 6),
                                                    .burst = wire32(a, i, 7),
                                                    .seen_us = wire64(a, i, 8),
                                                    .epoch = wire64(a, i, 9)};
    }
    d->more = rows == d->limit;
    PQclear(a);
}

static void dump_bounds(reading *r, pawl_dump *d)
{
    pg_params_begin(&r->c->params);
    PGresult *a = pg_ask(r, SQL_dump_bounds);
    int rows = a ? PQntuples(a) : 0;
    d->bounds = rows ? pg_read_alloc(r, (size_t)rows * sizeof *d->bounds) : NULL;
    for (int i = 0; d->bounds && i < rows; i++)
        d->bounds[d->count++] = (pawl_past_bound){.scope = (pawl_scope)wire16(a, i, 0),
                                                  .name = pg_read_text(r, a, i, 1),
                                                  .key = pg_read_bytes(r, a, i, 2),
                                                  .most = wire32(a, i, 3),
                                                  .ordered = truth(a, i, 4)};
    PQclear(a);
}

/* They may be large. */
static void dump_kept(reading *r, pawl_dump *d)
{
    params *p = &r->c->params;
    int limit = d->limit < 100 ? d->limit : 100;
    pg_params_begin(p);
    pg_param_int8(p, d->after);
    pg_param_int8(p, limit);
    PGresult *a = pg_ask(r, SQL_dump_kept);
    int rows = a ? PQntuples(a) : 0;
    d->kept = rows ? pg_read_alloc(r, (size_t)rows * sizeof *d->kept) : NULL;
    for (int i = 0; d->kept && i < rows; i++)
        d->kept[d->count++] = (pawl_past_kept){.id = d->next = wire64(a, i, 0),
                                               .state = (pawl_state)wire16(a, i, 1),
                                               .error = pg_read_text(r, a, i, 2),
                                               .result_type = pg_read_text(r, a, i, 3),
                                               .result_ref = pg_read_text(r, a, i, 4),
                                               .result = pg_read_bytes(r, a, i, 5)};
    d->more = rows == limit;
    PQclear(a);
}

void pg_dump_read(reading *r, pawl_dump *d)
{
    switch (d->part) {
    case PAWL_PART_TASKS: dump_tasks(r, d); break;
    case PAWL_PART_MINUTES: dump_minutes(r, d); break;
    case PAWL_PART_ACTS: dump_acts(r, d); break;
    case PAWL_PART_SETTINGS: dump_settings(r, d); break;
    case PAWL_PART_LIMITS: dump_limits(r, d); break;
    case PAWL_PART_BUDGETS: dump_budgets(r, d); break;
    case PAWL_PART_BOUNDS: dump_bounds(r, d); break;
    case PAWL_PART_SCHEDULES: pg_schedules_dump(r, d); break;
    case PAWL_PART_BATCHES: pg_batches_dump(r, d); break;
    case PAWL_PART_KEPT: dump_kept(r, d); break;
    }
}
