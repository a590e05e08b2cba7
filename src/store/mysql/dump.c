/* dump: whole tasks, page by page of their ids, and the rest that a store holds. See move.sql.
 *
 * The tasks of a page come with one statement, which sees one moment. What hangs on them is read after that; attempts that a task got
 * meanwhile are left out.
 */
#include "store/budget.h"
#include "store/histogram.h"
#include "store/mysql/read.h"
#include "store/past_columns.h"

/* ---- tasks --------------------------------------------------------------------------------------------------------------- */

static void read_body(reading *r, const answer *a, int row, pawl_body *b)
{
    b->id = get_int(a, row, ID);
    b->type = my_read_text(r, a, row, TYPE);
    b->queue = my_read_text(r, a, row, QUEUE);
    b->tenant = get_null(a, row, TENANT) ? "" : my_read_text(r, a, row, TENANT);
    b->created_us = get_int(a, row, CREATED);
    b->priority = (int)get_int(a, row, PRIORITY);
    b->audit = (pawl_audit)get_int(a, row, AUDIT);
    b->max_attempts = (int)get_int(a, row, MAX_ATTEMPTS);
    b->timeout_us = get_int(a, row, TIMEOUT);
    b->retry_of = get_int(a, row, RETRY_OF);
    b->key = my_read_text(r, a, row, KEY);
    b->content_type = my_read_text(r, a, row, CONTENT_TYPE);
    if (b->content_type && !b->content_type[0]) b->content_type = NULL;
    b->created_by = my_read_text(r, a, row, CREATED_BY);
    b->traceparent = my_read_text(r, a, row, TRACEPARENT);
    b->headers = my_read_text(r, a, row, HEADERS);
    b->rate_key = my_read_bytes(r, a, row, RATE_KEY);
    b->payload = my_read_bytes(r, a, row, PAYLOAD);
}

static void read_end(reading *r, const answer *a, int row, pawl_record *t)
{
    t->finished_us = get_int(a, row, FINISHED);
    t->run_us = get_int(a, row, RUN_US);
    t->outcome = (pawl_attempt_outcome)get_int(a, row, OUTCOME);
    t->end_level = (pawl_audit)get_int(a, row, END_LEVEL);
    t->derived = get_int(a, row, FLAGS) & END_DERIVED;
    t->log_lines = (int)get_int(a, row, LOG_LINES);
    t->code = my_read_text(r, a, row, CODE);
    t->error = my_read_text(r, a, row, ERROR);
    t->reason = my_read_text(r, a, row, REASON);
    t->retried_as = get_int(a, row, RETRIED_AS);
    t->result_type = my_read_text(r, a, row, RESULT_TYPE);
    t->result_ref = my_read_text(r, a, row, RESULT_REF);
    t->result = my_read_bytes(r, a, row, RESULT);
    t->resolved_us = get_int(a, row, RESOLVED);
    t->resolved_by = my_read_text(r, a, row, RESOLVED_BY);
    t->note = my_read_text(r, a, row, NOTE);
}

static void read_task(reading *r, const answer *a, int row, pawl_record *t)
{
    read_body(r, a, row, &t->body);
    t->state = (pawl_state)get_int(a, row, STATE);
    t->born = (pawl_state)get_int(a, row, BORN);
    t->level = (pawl_audit)get_int(a, row, LEVEL);
    t->holds_key = get_int(a, row, HOLDS) != 0;
    t->suspicion = (int)get_int(a, row, CLASS);
    t->strikes = (int)get_int(a, row, STRIKES);
    t->run_at_us = get_int(a, row, RUN_AT);
    t->fence = get_int(a, row, FENCE);
    t->runs = (int)get_int(a, row, RUNS);
    t->failures = (int)get_int(a, row, FAILURES);
    t->interruptions = (int)get_int(a, row, INTERRUPTIONS);
    t->rescues = (int)get_int(a, row, RESCUES);
    t->node = my_read_text(r, a, row, NODE);
    t->leased_us = get_int(a, row, LEASED);
    t->started_us = get_int(a, row, STARTED);
    t->cancel_asked = get_int(a, row, CANCEL_ASKED) != 0;
    t->progress = get_null(a, row, PROGRESS) ? -1 : (int)get_int(a, row, PROGRESS);
    t->progress_text = my_read_text(r, a, row, PROGRESS_TEXT);
    read_end(r, a, row, t);
}

/* ---- what hangs on them -------------------------------------------------------------------------------------------------- */

typedef struct cursor { /* rows of one statement, in the order of ids, perhaps over several answers */
    const conn *c;
    sql_name which;
    int at, row;
} cursor;

/* The answer with the next rows of this task, and how many; NULL: there are none. Those of tasks that come before are skipped. A task's rows
 * are all in one answer. */
static const answer *rows_of(cursor *k, pawl_id id, int *count)
{
    for (; k->at < k->c->answers_count; k->at++, k->row = 0) {
        const answer *a = &k->c->answers[k->at];
        if (a->which != k->which) continue;
        while (k->row < a->rows && get_int(a, k->row, 0) < id) k->row++;
        if (k->row == a->rows) continue;
        for (*count = 0; k->row + *count < a->rows && get_int(a, k->row + *count, 0) == id;) ++*count;
        return *count ? a : NULL;
    }
    return NULL;
}

static void read_attempts(reading *r, cursor *k, pawl_record *t)
{
    int count = 0, most = t->runs - (t->outcome != PAWL_ATTEMPT_NONE);
    const answer *a = rows_of(k, t->body.id, &count);
    pawl_past_attempt *all = a ? my_read_alloc(r, (size_t)count * sizeof *all) : NULL;
    for (int i = k->row; all && i < k->row + count; i++) {
        if (get_int(a, i, 1) > most) continue;
        all[t->attempts_count++] = (pawl_past_attempt){.number = (int)get_int(a, i, 1),
                                                       .outcome = (pawl_attempt_outcome)get_int(a, i, 2),
                                                       .started_us = get_int(a, i, 3),
                                                       .finished_us = get_int(a, i, 4),
                                                       .fence = get_int(a, i, 5),
                                                       .node = my_read_text(r, a, i, 6),
                                                       .log_lines = (int)get_int(a, i, 7),
                                                       .code = my_read_text(r, a, i, 8),
                                                       .error = my_read_text(r, a, i, 9)};
    }
    t->attempts = all;
}

static void read_logs(reading *r, cursor *k, pawl_record *t)
{
    int count = 0;
    const answer *a = rows_of(k, t->body.id, &count);
    pawl_past_log *all = a ? my_read_alloc(r, (size_t)count * sizeof *all) : NULL;
    for (int i = k->row; all && i < k->row + count; i++)
        if (get_int(a, i, 1) <= t->runs)
            all[t->logs_count++] = (pawl_past_log){(int)get_int(a, i, 1), get_int(a, i, 2), my_read_text(r, a, i, 3)};
    t->logs = all;
}

static void read_changes(reading *r, cursor *k, pawl_record *t)
{
    int count = 0;
    const answer *a = rows_of(k, t->body.id, &count);
    pawl_past_change *all = a ? my_read_alloc(r, (size_t)count * sizeof *all) : NULL;
    for (int i = k->row; all && i < k->row + count; i++)
        all[t->changes_count++] = (pawl_past_change){.number = (int)get_int(a, i, 1),
                                                     .at_us = get_int(a, i, 2),
                                                     .from = (pawl_state)get_int(a, i, 3),
                                                     .to = (pawl_state)get_int(a, i, 4),
                                                     .fence = get_int(a, i, 5),
                                                     .node = my_read_text(r, a, i, 6),
                                                     .detail = my_read_text(r, a, i, 7)};
    t->changes = all;
}

static void read_line(cursor *k, pawl_record *t)
{
    int count = 0;
    const answer *a = t->state == PAWL_PENDING ? rows_of(k, t->body.id, &count) : NULL;
    if (a) t->line = (pawl_line)get_int(a, k->row, 1);
}

static void read_family(reading *r, cursor k[3], pawl_record *t)
{
    int count = 0;
    const answer *a = rows_of(&k[0], t->body.id, &count);
    pawl_past_parent *all = a ? my_read_alloc(r, (size_t)count * sizeof *all) : NULL;
    for (int i = k[0].row; all && i < k[0].row + count; i++)
        all[t->parents_count++] = (pawl_past_parent){get_int(a, i, 1), (pawl_edge_state)get_int(a, i, 2)};
    t->parents = all;
    if ((a = rows_of(&k[1], t->body.id, &count))) t->batch = get_int(a, k[1].row, 1);
    if ((a = rows_of(&k[2], t->body.id, &count))) t->if_failed = (pawl_if_failed)get_int(a, k[2].row, 1);
}

#define HANGING 7

static void put_range(reading *r, const pawl_dump *d)
{
    my_put_int(r->c, d->after);
    my_put_int(r->c, d->next);
}

static void ask_range(reading *r, const pawl_dump *d, sql_name which)
{
    put_range(r, d);
    my_add(r->c, which);
}

/* Asks for what hangs on the tasks of the page. Where it has most of those that lie between its first and its last one, all are asked for by
 * that range, which costs nothing where there is nothing. */
static bool ask_hanging(reading *r, const pawl_dump *d, int64_t looked, sql_name which[HANGING])
{
    static const sql_name some[HANGING] = {SQL_dump_attempts, SQL_dump_logs,    SQL_dump_changes, SQL_dump_lines,
                                           SQL_dump_parents,  SQL_dump_members, SQL_dump_waits},
                          all[HANGING] = {SQL_dump_attempts_all, SQL_dump_logs_all,    SQL_dump_changes_all, SQL_dump_lines_all,
                                          SQL_dump_parents_all,  SQL_dump_members_all, SQL_dump_waits_all};
    bool most = 2 * (int64_t)d->count > looked;
    pawl_id *ids = my_read_alloc(r, (size_t)d->count * sizeof *ids);
    if (!ids) return false;
    for (int i = 0; i < d->count; i++) ids[i] = d->tasks[i].body.id;
    my_script(r->c);
    for (int i = 0; i < HANGING; i++) {
        which[i] = most ? all[i] : some[i];
        if (most) ask_range(r, d, which[i]);
        else my_add_ids(r->c, which[i], ids, d->count);
    }
    if (!my_send(r->c, CALL_READS)) r->failed = true;
    return !r->failed;
}

static void read_hanging(reading *r, pawl_dump *d, int64_t looked)
{
    sql_name which[HANGING];
    if (!ask_hanging(r, d, looked, which)) return;
    cursor k[HANGING];
    for (int i = 0; i < HANGING; i++) k[i] = (cursor){r->c, which[i], 0, 0};
    for (int i = 0; i < d->count && !r->failed && !r->no_memory; i++) {
        read_attempts(r, &k[0], &d->tasks[i]);
        read_logs(r, &k[1], &d->tasks[i]);
        read_changes(r, &k[2], &d->tasks[i]);
        read_line(&k[3], &d->tasks[i]);
        read_family(r, &k[4], &d->tasks[i]);
    }
}

/* ---- pages of tasks ------------------------------------------------------------------------------------------------------ */

/* How many tasks lie in it. */
static int64_t find_range(reading *r, pawl_dump *d)
{
    bool by_size = d->states && d->bytes;
    sql_name which = by_size ? SQL_dump_range_bytes : SQL_dump_range;
    my_script(r->c);
    my_put_int(r->c, d->after);
    my_put_int(r->c, d->limit);
    if (by_size) my_put_int(r->c, (int64_t)d->bytes);
    if (!my_ask(r, which)) return 0;
    const answer *a = my_answer(r->c, which);
    int64_t looked = get_int(a, 0, 0);
    if (looked) d->next = get_int(a, 0, 1);
    return looked;
}

static void read_counts(const reading *r, pawl_dump *d)
{
    const answer *a = my_answer(r->c, SQL_dump_counts);
    for (int i = 0; i < a->rows; i++) {
        int64_t state = get_int(a, i, 0);
        if (state <= PAWL_STATE_NONE || state >= PAWL_STATE_COUNT) continue;
        d->counts[state] = get_int(a, i, 1);
        d->sums[state] = strtoull(get_text(a, i, 2), NULL, 10);
    }
}

static void dump_tasks(reading *r, pawl_dump *d)
{
    int64_t looked = find_range(r, d);
    if (!looked) return;
    my_script(r->c);
    my_put_int(r->c, d->next);
    my_add(r->c, SQL_dump_more);
    if (!d->no_counts) ask_range(r, d, SQL_dump_counts);
    if (d->states) {
        put_range(r, d);
        my_put_int(r->c, d->states);
        my_put_int(r->c, d->since_us);
        my_add(r->c, SQL_dump_tasks);
    }
    if (!my_send(r->c, CALL_READS)) {
        r->failed = true;
        return;
    }
    d->more = get_int(my_answer(r->c, SQL_dump_more), 0, 0) != 0;
    read_counts(r, d);
    const answer *a = my_answer(r->c, SQL_dump_tasks);
    d->tasks = a->rows ? my_read_alloc(r, (size_t)a->rows * sizeof *d->tasks) : NULL;
    for (; d->tasks && d->count < a->rows && !r->no_memory; d->count++) read_task(r, a, d->count, &d->tasks[d->count]);
    if (d->tasks && d->count && !r->no_memory) read_hanging(r, d, looked);
}

/* ---- the rest ------------------------------------------------------------------------------------------------------------ */

static const answer *ask_page(reading *r, const pawl_dump *d, sql_name which)
{
    my_script(r->c);
    my_put_int(r->c, d->after);
    my_put_int(r->c, d->limit);
    return my_ask(r, which) ? my_answer(r->c, which) : NULL;
}

static void add_buckets(reading *r, int64_t **counts, pawl_bytes stored)
{
    histogram h = {0};
    if (!stored.len) return;
    if (!*counts) *counts = my_read_alloc(r, PAWL_BUCKETS * sizeof **counts);
    histogram_merge(&h, stored);
    for (int i = 0; *counts && i < PAWL_BUCKETS; i++) (*counts)[i] += h.counts[i];
}

/* Of the same minute, queue, type and outcome as the row before: they are those of several lanes. */
static bool same_sum(const answer *a, int row)
{
    static const int columns[] = {0, 3, 7, 8};
    for (int i = 0; i < 4; i++)
        if (row == 0 || get_int(a, row, columns[i]) != get_int(a, row - 1, columns[i])) return false;
    return true;
}

static void dump_minutes(reading *r, pawl_dump *d)
{
    const answer *a = ask_page(r, d, SQL_dump_minutes);
    int rows = a ? a->rows : 0;
    d->minutes = rows ? my_read_alloc(r, (size_t)rows * sizeof *d->minutes) : NULL;
    for (int i = 0; d->minutes && i < rows; i++) {
        d->next = get_int(a, i, 0);
        if (!same_sum(a, i))
            d->minutes[d->count++] = (pawl_past_minute){.minute = d->next,
                                                        .queue = my_read_text(r, a, i, 1),
                                                        .type = my_read_text(r, a, i, 2),
                                                        .outcome = (int)get_int(a, i, 3)};
        pawl_past_minute *m = &d->minutes[d->count - 1];
        m->count += get_int(a, i, 4);
        add_buckets(r, &m->wait, get_bytes(a, i, 5));
        add_buckets(r, &m->run, get_bytes(a, i, 6));
    }
    d->more = rows > 0;
}

static void dump_acts(reading *r, pawl_dump *d)
{
    const answer *a = ask_page(r, d, SQL_dump_acts);
    int rows = a ? a->rows : 0;
    d->acts = rows ? my_read_alloc(r, (size_t)rows * sizeof *d->acts) : NULL;
    for (int i = 0; d->acts && i < rows; i++) {
        d->next = get_int(a, i, 0);
        d->acts[d->count++] = (pawl_past_act){.at_us = get_int(a, i, 1),
                                              .who = my_read_text(r, a, i, 2),
                                              .action = my_read_text(r, a, i, 3),
                                              .id = get_int(a, i, 4),
                                              .detail = my_read_text(r, a, i, 5)};
    }
    d->more = rows == d->limit;
}

static void dump_settings(reading *r, pawl_dump *d)
{
    my_script(r->c);
    my_add(r->c, SQL_queues);
    my_add(r->c, SQL_dump_numbers);
    if (!my_ask(r, SQL_audit_cut)) return;
    const answer *a = my_answer(r->c, SQL_queues);
    d->queues = a->rows ? my_read_alloc(r, (size_t)a->rows * sizeof *d->queues) : NULL;
    for (int i = 0; d->queues && i < a->rows; i++)
        d->queues[d->count++] = (pawl_past_queue){my_read_text(r, a, i, 1), get_int(a, i, 2) != 0};
    a = my_answer(r->c, SQL_dump_numbers);
    for (int i = 0; i < a->rows; i++) {
        int64_t number = get_int(a, i, 0), value = get_int(a, i, 1);
        if (number > 0 && number < 1024) d->ceilings_ms[number] = value;
        else if (number == 0) d->last_id = (value >> 12) << 22 | (value & 4095);
    }
    a = my_answer(r->c, SQL_audit_cut);
    d->audit_cut_us = a->rows > 0 ? get_int(a, 0, 0) : INT64_MIN;
}

static void dump_limits(reading *r, pawl_dump *d)
{
    my_script(r->c);
    if (!my_ask(r, SQL_dump_limits)) return;
    const answer *a = my_answer(r->c, SQL_dump_limits);
    d->limits = a->rows ? my_read_alloc(r, (size_t)a->rows * sizeof *d->limits) : NULL;
    for (int i = 0; d->limits && i < a->rows; i++) {
        pawl_past_limit *l = &d->limits[d->count++];
        *l = (pawl_past_limit){.type = my_read_text(r, a, i, 0),
                               .key = my_read_bytes(r, a, i, 1),
                               .rate = {.permits = (int)get_int(a, i, 2),
                                        .period_us = get_int(a, i, 3),
                                        .burst = (int)get_int(a, i, 4),
                                        .horizon_us = get_int(a, i, 5)}};
        limit_flags_read(get_int(a, i, 6), &l->rate, &l->paused);
    }
}

/* Their numbers are those of the rows in their order, which stand still while they are moved. */
static void dump_budgets(reading *r, pawl_dump *d)
{
    const answer *a = ask_page(r, d, SQL_dump_budgets);
    int rows = a ? a->rows : 0;
    d->budgets = rows ? my_read_alloc(r, (size_t)rows * sizeof *d->budgets) : NULL;
    for (int i = 0; d->budgets && i < rows; i++)
        d->budgets[d->count++] = (pawl_past_budget){.type = my_read_text(r, a, i, 0),
                                                    .key = my_read_bytes(r, a, i, 1),
                                                    .tat_us = get_int(a, i, 2),
                                                    .tat_part = (int)get_int(a, i, 3),
                                                    .permits = (int)get_int(a, i, 4),
                                                    .period_us = get_int(a, i, 5),
                                                    .burst = (int)get_int(a, i, 6),
                                                    .seen_us = get_int(a, i, 7),
                                                    .epoch = get_int(a, i, 8)};
    d->next = d->after + d->count;
    d->more = rows == d->limit;
}

static void dump_bounds(reading *r, pawl_dump *d)
{
    my_script(r->c);
    const answer *a = my_ask(r, SQL_dump_bounds) ? my_answer(r->c, SQL_dump_bounds) : NULL;
    int rows = a ? a->rows : 0;
    d->bounds = rows ? my_read_alloc(r, (size_t)rows * sizeof *d->bounds) : NULL;
    for (int i = 0; d->bounds && i < rows; i++)
        d->bounds[d->count++] = (pawl_past_bound){.scope = (pawl_scope)get_int(a, i, 0),
                                                  .name = my_read_text(r, a, i, 1),
                                                  .key = my_read_bytes(r, a, i, 2),
                                                  .most = (int)get_int(a, i, 3),
                                                  .ordered = get_int(a, i, 4) != 0};
}

/* They may be large. */
static void dump_kept(reading *r, pawl_dump *d)
{
    int limit = d->limit < 100 ? d->limit : 100;
    my_script(r->c);
    my_put_int(r->c, d->after);
    my_put_int(r->c, limit);
    const answer *a = my_ask(r, SQL_dump_kept) ? my_answer(r->c, SQL_dump_kept) : NULL;
    int rows = a ? a->rows : 0;
    d->kept = rows ? my_read_alloc(r, (size_t)rows * sizeof *d->kept) : NULL;
    for (int i = 0; d->kept && i < rows; i++)
        d->kept[d->count++] = (pawl_past_kept){.id = d->next = get_int(a, i, 0),
                                               .state = (pawl_state)get_int(a, i, 1),
                                               .error = my_read_text(r, a, i, 2),
                                               .result_type = my_read_text(r, a, i, 3),
                                               .result_ref = my_read_text(r, a, i, 4),
                                               .result = my_read_bytes(r, a, i, 5)};
    d->more = rows == limit;
}

void my_dump_read(reading *r, pawl_dump *d)
{
    switch (d->part) {
    case PAWL_PART_TASKS: dump_tasks(r, d); break;
    case PAWL_PART_MINUTES: dump_minutes(r, d); break;
    case PAWL_PART_ACTS: dump_acts(r, d); break;
    case PAWL_PART_SETTINGS: dump_settings(r, d); break;
    case PAWL_PART_LIMITS: dump_limits(r, d); break;
    case PAWL_PART_BUDGETS: dump_budgets(r, d); break;
    case PAWL_PART_BOUNDS: dump_bounds(r, d); break;
    case PAWL_PART_SCHEDULES: my_schedules_dump(r, d); break;
    case PAWL_PART_BATCHES: my_batches_dump(r, d); break;
    case PAWL_PART_KEPT: dump_kept(r, d); break;
    }
}
