/* The rows of a page that comes from another store.
 *
 * Counters go through the tally, into lane 0 of node 0 if it is a move, for then nobody else writes. What lists are found by (hours) follows
 * the times of the tasks themselves, not the present.
 */
#include "core/task.h"
#include "store/budget.h"
#include "store/histogram.h"
#include "store/mysql/arrive.h"

#define SPANS 64 /* that are gathered before they are written */

typedef struct span { /* a row of pawl_born */
    int64_t hour;
    pawl_id min_id, max_id;
} span;

typedef struct spans {
    span all[SPANS];
    int count;
} spans;

/* ---- rows as literals ---------------------------------------------------------------------------------------------------- */

static buf *start(arriving *l, table which)
{
    my_rows_begin(&l->w, which);
    return &l->w.tables[which].text;
}

static void numbers(buf *b, const int64_t *all, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        lit_int(b, all[i]);
        buf_char(b, ',');
    }
}

static void number_or_null(buf *b, int64_t v, int64_t nothing)
{
    lit_int_or_null(b, v, nothing);
    buf_char(b, ',');
}

static void said(arriving *l, buf *b, const char *text)
{
    lit_clean(l->c, b, text, text ? strlen(text) : 0);
    buf_char(b, ',');
}

static void last_said(arriving *l, buf *b, const char *text) { lit_clean(l->c, b, text, text ? strlen(text) : 0); }

#define NUMBERS(b, ...) numbers(b, (const int64_t[]){__VA_ARGS__}, sizeof(const int64_t[]){__VA_ARGS__} / sizeof(int64_t))

/* ---- hours --------------------------------------------------------------------------------------------------------------- */

static void flush_spans(arriving *l, spans *s)
{
    buf b;
    buf_init(&b, l->s->allocator, 1 << 20);
    for (int i = 0; i < s->count; i++)
        buf_fmt(&b, "%s(%lld,0,%lld,%lld,%lld)", i ? "," : "", (long long)s->all[i].hour, (long long)l->w.lane,
                (long long)s->all[i].min_id, (long long)(s->all[i].max_id | INT64_C(4294967295)));
    if (b.failed) l->w.no_memory = true;
    if (b.len) {
        my_put_raw(l->c, b.data, b.len);
        my_add(l->c, SQL_born_put);
    }
    buf_done(&b);
    s->count = 0;
}

static void add_span(arriving *l, spans *s, const pawl_body *body)
{
    int64_t hour = body->created_us / PAWL_HOUR;
    for (int i = s->count - 1; i >= 0; i--) {
        span *known = &s->all[i];
        if (known->hour != hour) continue;
        if (body->id < known->min_id) known->min_id = body->id;
        if (body->id > known->max_id) known->max_id = body->id;
        return;
    }
    if (s->count == SPANS) flush_spans(l, s);
    s->all[s->count++] = (span){hour, body->id, body->id};
}

/* ---- what hangs on a task ------------------------------------------------------------------------------------------------ */

static void put_attempts(arriving *l, const pawl_record *t)
{
    for (int i = 0; i < t->attempts_count; i++) {
        const pawl_past_attempt *a = &t->attempts[i];
        buf *b = start(l, TABLE_ATTEMPTS);
        NUMBERS(b, t->body.id, a->number, a->outcome, a->started_us, a->finished_us, a->fence, my_past_node(l, a->node));
        number_or_null(b, a->log_lines, 0);
        said(l, b, a->code);
        last_said(l, b, a->error);
        my_rows_end(&l->w, TABLE_ATTEMPTS);
    }
}

static void put_logs(arriving *l, const pawl_record *t)
{
    for (int i = 0; i < t->logs_count; i++) {
        const pawl_past_log *log = &t->logs[i];
        if (!log->text) continue;
        buf *b = start(l, TABLE_RUNLOGS);
        NUMBERS(b, t->body.id, log->number, log->at_us);
        last_said(l, b, log->text);
        my_rows_end(&l->w, TABLE_RUNLOGS);
    }
}

/* Rows that follow are numbered from four times the next fence on: those that were counted otherwise stay below. */
static int64_t excess_of(const pawl_record *t, int64_t fence)
{
    int64_t last = t->changes_count ? t->changes[t->changes_count - 1].number : 0, most = 4 * fence + 3;
    return pawl_state_terminal(t->state) || last <= most ? 0 : last - most;
}

static void put_changes(arriving *l, const pawl_record *t, int64_t fence)
{
    int64_t excess = excess_of(t, fence);
    for (int i = 0; i < t->changes_count; i++) {
        const pawl_past_change *a = &t->changes[i];
        buf *b = start(l, TABLE_AUDITS);
        NUMBERS(b, t->body.id, a->number - excess, a->at_us, a->from, a->to, a->fence, my_past_node(l, a->node));
        last_said(l, b, a->detail);
        my_rows_end(&l->w, TABLE_AUDITS);
    }
}

static void put_key(arriving *l, table which, const key_row *k, pawl_id old, pawl_id id)
{
    buf *b = start(l, which);
    lit_bytes(l->c, b, k->key);
    buf_fmt(b, ",%d,%lld,%lld", (int)k->tenant_id, (long long)old, (long long)id);
    my_rows_end(&l->w, which);
}

/* The one that comes last and says that it has the key has it. */
static void take_key(arriving *l, const pawl_record *t, int32_t tenant_id)
{
    const pawl_body *b = &t->body;
    key_row *k = b->key ? my_key_find(&l->w, (pawl_bytes){b->key, strlen(b->key)}, tenant_id) : NULL;
    if (!k || k->holder == b->id) return;
    bool takes = !k->holder || t->holds_key;
    if (takes && k->holder) put_key(l, TABLE_OLD_KEYS, k, k->holder, k->holder);
    put_key(l, takes ? TABLE_HELD_KEYS : TABLE_OLD_KEYS, k, takes ? 0 : b->id, b->id);
    if (takes) k->holder = b->id;
}

/* ---- tasks --------------------------------------------------------------------------------------------------------------- */

static void put_live(arriving *l, const pawl_record *t, task_row *row, int32_t tenant_id)
{
    row->state = t->state == PAWL_LEASED ? PAWL_PENDING : t->state;
    row->class = t->suspicion;
    row->run_at_us = t->run_at_us ? t->run_at_us : t->body.created_us;
    row->keyed = t->body.key != NULL;
    row->runs = t->runs;
    row->failures = t->failures;
    row->interruptions = t->interruptions;
    row->rescues = t->rescues;
    row->strikes = t->strikes;
    if (!my_arrive_blocked(l, t, row, tenant_id)) my_live_put(&l->w, row);
}

static void put_end(arriving *l, const pawl_record *t, const task_row *row)
{
    bool failed = t->state == PAWL_FAILED;
    table which = failed ? TABLE_PAST_FAILED : TABLE_PAST_DONE;
    buf *b = start(l, which);
    NUMBERS(b, row->id, t->finished_us);
    number_or_null(b, t->started_us, 0);
    if (t->outcome) NUMBERS(b, t->run_us);
    else buf_str(b, "NULL,");
    number_or_null(b, t->leased_us, 0);
    number_or_null(b, t->run_at_us, 0);
    NUMBERS(b, my_past_node(l, t->node), t->fence, t->runs, t->failures, t->interruptions, t->rescues, t->state, t->outcome,
            t->end_level, (t->derived ? END_DERIVED : 0) | (t->cancel_asked ? END_CANCEL_ASKED : 0));
    number_or_null(b, t->log_lines, 0);
    number_or_null(b, t->progress, -1);
    said(l, b, t->progress_text);
    said(l, b, t->code);
    said(l, b, t->error);
    said(l, b, t->reason);
    number_or_null(b, t->retried_as, 0);
    said(l, b, t->result_type);
    said(l, b, t->result_ref);
    lit_bytes(l->c, b, t->result);
    if (failed) {
        buf_char(b, ',');
        number_or_null(b, t->resolved_us, 0);
        said(l, b, t->resolved_by);
        last_said(l, b, t->note);
    }
    my_rows_end(&l->w, which);
    if (failed && !t->resolved_us) my_count(&l->w, row->queue_id, PAWL_FAILED, 1);
}

/* What it is the retry of learns so; that one may have come before it was retried. */
static void note_retry(arriving *l, pawl_id old, pawl_id as)
{
    static const sql_name where[] = {SQL_load_retried_done, SQL_load_retried_failed};
    for (int i = 0; old && as && i < 2; i++) {
        my_put_int(l->c, old);
        my_put_int(l->c, as);
        my_add(l->c, where[i]);
    }
}

static void create(arriving *l, const pawl_record *t, const int32_t ids[3])
{
    task_row row = {.id = t->body.id, .state = t->born, .level = t->level, .priority = t->body.priority, .progress = -1};
    row.type_id = ids[0];
    row.queue_id = ids[1];
    row.fence = t->fence + (t->state == PAWL_LEASED);
    my_queue(&l->w, row.queue_id); /* there is one, though it may hold nothing */
    my_body_put(&l->w, &t->body, ids[2], t->body.created_us, &row);
    if (pawl_state_terminal(t->state)) put_end(l, t, &row);
    else put_live(l, t, &row, ids[2]);
    put_attempts(l, t);
    put_logs(l, t);
    put_changes(l, t, row.fence);
    take_key(l, t, ids[2]);
}

/* It is there. What people did to it since may be new. */
static void refresh(arriving *l, const pawl_record *t, int i)
{
    if (t->holds_key) take_key(l, t, l->names[i][2]);
    note_retry(l, t->body.id, t->retried_as);
    if (!l->open_queue[i]) return;
    my_put_int(l->c, t->body.id);
    my_put_int(l->c, t->resolved_us);
    my_put_text(l->c, t->resolved_by);
    my_put_text(l->c, t->note);
    my_add(l->c, SQL_failed_ack);
    my_count(&l->w, l->open_queue[i], PAWL_FAILED, -1);
}

static void put_queues(arriving *l)
{
    buf b;
    buf_init(&b, l->s->allocator, 1 << 20);
    for (int i = 0; i < l->w.queues_count; i++) buf_fmt(&b, "%s(%d)", i ? "," : "", (int)l->w.queues[i].queue_id);
    if (b.failed) l->w.no_memory = true;
    if (b.len) {
        my_put_raw(l->c, b.data, b.len);
        my_add(l->c, SQL_queue_make);
    }
    buf_done(&b);
}

static void put_tasks(arriving *l)
{
    const pawl_dump *d = l->d;
    spans born = {.count = 0};
    for (int i = 0; i < d->count; i++) {
        const pawl_record *t = &d->tasks[i];
        if (l->results[i] == PAWL_LOADED_BEFORE) refresh(l, t, i);
        if (l->results[i] != PAWL_LOADED_NEW) continue;
        create(l, t, l->names[i]);
        add_span(l, &born, &t->body);
    }
    flush_spans(l, &born);
    put_queues(l);
}

/* Retries point at rows of the same page, so they come after those. */
static void put_retries(arriving *l)
{
    for (int i = 0; l->d->part == PAWL_PART_TASKS && i < l->d->count; i++)
        if (l->results[i] == PAWL_LOADED_NEW) note_retry(l, l->d->tasks[i].body.retry_of, l->d->tasks[i].body.id);
}

/* ---- the rest ------------------------------------------------------------------------------------------------------------ */

static void add_buckets(arriving *l, buf *b, const int64_t *counts)
{
    char bytes[HISTOGRAM_BYTES];
    histogram h = {0};
    for (int i = 0; counts && i < PAWL_BUCKETS; i++) h.total += h.counts[i] = (uint32_t)counts[i];
    lit_bytes(l->c, b, h.total ? (pawl_bytes){bytes, histogram_write(&h, bytes)} : (pawl_bytes){0});
}

static void put_minutes(arriving *l, buf *b)
{
    for (int i = 0; i < l->d->count; i++) {
        const pawl_past_minute *m = &l->d->minutes[i];
        buf_str(b, i ? ",(" : "(");
        NUMBERS(b, m->minute, 0, 0, l->names[i][0], l->names[i][1], m->outcome, m->count);
        add_buckets(l, b, m->wait);
        buf_char(b, ',');
        add_buckets(l, b, m->run);
        buf_char(b, ')');
    }
}

static void put_acts(arriving *l, buf *b)
{
    for (int i = 0; i < l->d->count; i++) {
        const pawl_past_act *a = &l->d->acts[i];
        buf_str(b, i ? ",(" : "(");
        NUMBERS(b, a->at_us);
        said(l, b, a->who ? a->who : "");
        said(l, b, a->action ? a->action : "");
        number_or_null(b, a->id, 0);
        last_said(l, b, a->detail);
        buf_char(b, ')');
    }
}

static void put_paused(const arriving *l, buf *b)
{
    for (int i = 0; i < l->d->count; i++) buf_fmt(b, "%s(%d,%d)", i ? "," : "", (int)l->names[i][0], (int)l->d->queues[i].paused);
}

static void put_ceilings(const arriving *l, buf *b)
{
    for (int i = 1; i < 1024; i++)
        if (l->d->ceilings_ms[i] > 0) buf_fmt(b, "%s(%d,%lld)", b->len ? "," : "", i, (long long)l->d->ceilings_ms[i]);
}

static void put_settings(arriving *l, buf *b)
{
    const pawl_dump *d = l->d;
    put_paused(l, b);
    my_arrive_add(l, b, SQL_load_queues);
    put_ceilings(l, b);
    my_arrive_add(l, b, SQL_load_ceilings);
    my_put_int(l->c, (d->last_id >> 22) * 4096 + (d->last_id & 4095));
    my_add(l->c, SQL_load_drawn);
    if (d->audit_cut_us == INT64_MIN) return;
    my_put_int(l->c, d->audit_cut_us);
    my_add(l->c, SQL_load_audit_cut);
}

static void add_key(arriving *l, buf *b, int32_t type_id, pawl_bytes key)
{
    buf_fmt(b, "%s(%d,", b->len ? "," : "", (int)type_id);
    lit_bytes(l->c, b, key.data ? key : (pawl_bytes){"", 0});
    buf_char(b, ',');
}

static void put_limits(arriving *l, buf *b)
{
    for (int i = 0; i < l->d->count; i++) {
        const pawl_past_limit *past = &l->d->limits[i];
        const pawl_rate *r = &past->rate;
        add_key(l, b, l->names[i][0], past->key);
        NUMBERS(b, r->permits, r->period_us, r->burst, r->horizon_us, limit_flags(r, past->paused));
        lit_int(b, l->w.now_us);
        buf_char(b, ')');
    }
    bool any = b->len > 0;
    my_arrive_add(l, b, SQL_load_limits);
    if (any) my_add(l->c, SQL_limits_changed);
}

static void put_budgets(arriving *l, buf *b)
{
    for (int i = 0; i < l->d->count; i++) {
        const pawl_past_budget *past = &l->d->budgets[i];
        budget_row row = budget_arrives(past, l->w.now_us);
        add_key(l, b, l->names[i][0], past->key);
        NUMBERS(b, row.tat.us, row.tat.part, row.permits, row.period_us, row.burst, row.seen_us, row.epoch, 0);
        buf_str(b, "0)");
    }
}

void my_arrive_rows(arriving *l)
{
    buf b;
    buf_init(&b, l->s->allocator, 64 << 20);
    switch (l->d->part) {
    case PAWL_PART_TASKS: put_tasks(l); break;
    case PAWL_PART_MINUTES:
        put_minutes(l, &b);
        my_arrive_add(l, &b, SQL_rollups_put);
        break;
    case PAWL_PART_ACTS:
        put_acts(l, &b);
        my_arrive_add(l, &b, SQL_load_acts);
        break;
    case PAWL_PART_SETTINGS: put_settings(l, &b); break;
    case PAWL_PART_LIMITS: put_limits(l, &b); break;
    case PAWL_PART_BUDGETS:
        put_budgets(l, &b);
        my_arrive_add(l, &b, SQL_budgets_put);
        break;
    case PAWL_PART_BOUNDS: my_arrive_bounds(l, &b); break;
    case PAWL_PART_SCHEDULES: my_arrive_schedules(l, &b); break;
    case PAWL_PART_BATCHES: my_arrive_batches(l, &b); break;
    case PAWL_PART_KEPT: my_arrive_kept(l, &b); break;
    }
    buf_done(&b);
    my_work_flush(&l->w);
    if (l->d->part == PAWL_PART_TASKS) {
        my_arrive_lines(l);
        my_arrive_families(l);
    }
    put_retries(l);
}
