/* dump: whole tasks, page by page of their ids, and the rest that a store holds. A page is one snapshot. */
#include "base/alloc.h"
#include "store/sqlite/place.h"
#include <string.h>

static const char json_type[] = "application/json";

typedef struct dumping {
    reading *r;
    pawl_dump *d;
    pawl_record *task;         /* being read */
    int64_t last_log;          /* of its last attempt; 0: none */
    size_t bytes;              /* of the page so far */
    int64_t node_ids[8];       /* the nodes asked for last, */
    const char *node_names[8]; /* whose names are in the arena */
    unsigned nodes;
    bool related, bounded; /* there are families; concurrency limits */
} dumping;

/* ---- texts --------------------------------------------------------------------------------------------------------------- */

static const char *text(dumping *p, query *q)
{
    const char *copy = read_text(p->r, get_text(q));
    if (copy) p->bytes += strlen(copy);
    return copy;
}

static pawl_bytes bytes(dumping *p, query *q)
{
    pawl_bytes copy = read_bytes(p->r, get_bytes(q));
    p->bytes += copy.len;
    return copy;
}

static const char *node_of(dumping *p, int64_t node)
{
    if (!node) return NULL;
    for (unsigned i = 0; i < 8; i++)
        if (p->node_ids[i] == node) return p->node_names[i];
    const char *name = node_name(p->r, node);
    p->node_ids[p->nodes % 8] = node;
    p->node_names[p->nodes++ % 8] = name;
    return name;
}

/* An array in the arena that has room for one more; NULL: no memory. */
void *read_grow(reading *r, void *array, int count, size_t size)
{
    bool full = count == 0 || (count >= 4 && (count & (count - 1)) == 0);
    if (!full) return array;
    void *larger = read_alloc(r, (size_t)(count < 4 ? 4 : count * 2) * size);
    if (larger && count) memcpy(larger, array, (size_t)count * size);
    return larger;
}

/* ---- one task ------------------------------------------------------------------------------------------------------------ */

static void read_body(dumping *p, query *q)
{
    pawl_record *t = p->task;
    pawl_body *b = &t->body;
    conn *c = p->r->c;
    const char *type = name_text(c, get_int(q)), *queue = name_text(c, get_int(q));
    b->type = read_text(p->r, type ? type : "?");
    b->queue = read_text(p->r, queue ? queue : "?");
    b->created_us = get_int(q);
    b->priority = (int)get_int(q);
    t->born = (pawl_state)get_int(q);
    t->level = (pawl_audit)get_int(q);
    b->audit = (pawl_audit)get_int(q);
    int64_t tenant = get_int(q);
    const char *tenant_text = tenant ? name_text(c, tenant) : "";
    b->tenant = read_text(p->r, tenant_text ? tenant_text : "");
    b->max_attempts = (int)get_int(q);
    b->timeout_us = get_int(q);
    b->retry_of = get_int(q);
    b->key = text(p, q);
    bool json = sqlite3_column_type(q->st, q->column) == SQLITE_INTEGER;
    if (json) {
        q->column++;
        b->content_type = json_type;
    } else {
        b->content_type = text(p, q);
    }
    b->created_by = text(p, q);
    b->traceparent = text(p, q);
    b->headers = text(p, q);
    b->rate_key = bytes(p, q);
    b->payload = bytes(p, q);
}

static void read_counters(query *q, pawl_record *t)
{
    t->runs = (int)get_int(q);
    t->failures = (int)get_int(q);
    t->interruptions = (int)get_int(q);
    t->rescues = (int)get_int(q);
}

static void read_unfinished(dumping *p, bool leased)
{
    pawl_record *t = p->task;
    query q = query_on(p->r->c, leased ? SQL_dump_leased : SQL_dump_live);
    put_int(&q, t->body.id);
    if (query_row(&q)) {
        t->suspicion = (int)get_int(&q);
        t->run_at_us = get_int(&q);
        t->fence = get_int(&q);
        read_counters(&q, t);
        t->strikes = (int)get_int(&q);
        if (leased) {
            t->node = node_of(p, get_int(&q));
            t->leased_us = get_int(&q);
            t->started_us = get_int(&q);
            t->cancel_asked = get_int(&q) != 0;
            t->progress = (int)get_int_or(&q, -1);
            t->progress_text = text(p, &q);
        }
    }
    query_end(&q);
}

static void add_log(dumping *p, int64_t log_id, int number)
{
    pawl_record *t = p->task;
    if (!log_id) return;
    query q = query_on(p->r->c, SQL_dump_log);
    put_int(&q, log_id);
    put_int(&q, t->body.id);
    put_int(&q, number);
    if (query_row(&q)) {
        pawl_past_log *logs = read_grow(p->r, (void *)t->logs, t->logs_count, sizeof *logs);
        if (logs) {
            int64_t at_us = get_int(&q);
            logs[t->logs_count++] = (pawl_past_log){number, at_us, text(p, &q)};
            t->logs = logs;
        }
    }
    query_end(&q);
}

static void read_end(dumping *p, bool failed)
{
    pawl_record *t = p->task;
    query q = query_on(p->r->c, failed ? SQL_dump_failed : SQL_dump_done);
    put_int(&q, t->body.id);
    if (!query_row(&q)) return;
    t->finished_us = get_int(&q);
    t->fence = get_int(&q);
    t->node = node_of(p, get_int(&q));
    t->outcome = (pawl_attempt_outcome)get_int(&q);
    t->started_us = get_int(&q);
    t->run_us = get_int(&q);
    t->leased_us = get_int(&q);
    t->run_at_us = get_int(&q);
    read_counters(&q, t);
    t->end_level = (pawl_audit)get_int(&q);
    int64_t flags = get_int(&q);
    t->derived = flags & END_DERIVED;
    t->cancel_asked = flags & END_CANCEL_ASKED;
    p->last_log = get_int(&q);
    t->log_lines = (int)get_int(&q);
    t->progress = (int)get_int_or(&q, -1);
    t->progress_text = text(p, &q);
    t->code = text(p, &q);
    t->error = text(p, &q);
    t->reason = text(p, &q);
    t->retried_as = get_int(&q);
    t->result_type = text(p, &q);
    t->result_ref = text(p, &q);
    t->result = bytes(p, &q);
    if (failed) {
        t->resolved_us = get_int(&q);
        t->resolved_by = text(p, &q);
        t->note = text(p, &q);
    }
    query_end(&q);
}

static void read_attempts(dumping *p)
{
    pawl_record *t = p->task;
    if (t->runs - (t->outcome != PAWL_ATTEMPT_NONE) <= 0) return;
    query q = query_on(p->r->c, SQL_dump_attempts);
    put_int(&q, t->body.id);
    while (query_row(&q)) {
        pawl_past_attempt *all = read_grow(p->r, (void *)t->attempts, t->attempts_count, sizeof *all);
        if (!all) break;
        pawl_past_attempt *a = &all[t->attempts_count++];
        t->attempts = all;
        a->number = (int)get_int(&q);
        a->outcome = (pawl_attempt_outcome)get_int(&q);
        a->started_us = get_int(&q);
        a->finished_us = get_int(&q);
        a->fence = get_int(&q);
        a->node = node_of(p, get_int(&q));
        int64_t log_id = get_int(&q);
        a->log_lines = (int)get_int(&q);
        a->code = text(p, &q);
        a->error = text(p, &q);
        add_log(p, log_id, a->number);
    }
    query_end(&q);
}

static void read_changes(dumping *p)
{
    pawl_record *t = p->task;
    query q = query_on(p->r->c, SQL_dump_changes);
    put_int(&q, t->body.id);
    while (query_row(&q)) {
        pawl_past_change *all = read_grow(p->r, (void *)t->changes, t->changes_count, sizeof *all);
        if (!all) break;
        pawl_past_change *a = &all[t->changes_count++];
        t->changes = all;
        a->number = (int)get_int(&q);
        a->at_us = get_int(&q);
        a->from = (pawl_state)get_int(&q);
        a->to = (pawl_state)get_int(&q);
        a->fence = get_int(&q);
        a->node = node_of(p, get_int(&q));
        a->detail = text(p, &q);
    }
    query_end(&q);
}

static void read_key(dumping *p)
{
    pawl_record *t = p->task;
    const char *tenant = t->body.tenant;
    if (!t->body.key || !tenant) return;
    query q = query_on(p->r->c, SQL_key_get);
    put_text(&q, t->body.key);
    put_int(&q, tenant[0] ? name_find(p->r->c, tenant) : 0);
    t->holds_key = query_row(&q) && get_int(&q) == t->body.id;
    query_end(&q);
}

static void read_task(dumping *p, query *q, pawl_id id, pawl_state state)
{
    pawl_record *t = p->task;
    *t = (pawl_record){.body.id = id, .state = state, .progress = -1};
    p->last_log = 0;
    read_body(p, q);
    if (pawl_state_terminal(state)) read_end(p, state == PAWL_FAILED);
    else read_unfinished(p, state == PAWL_LEASED);
    read_attempts(p);
    add_log(p, p->last_log, t->runs); /* they are in the order of the attempts */
    read_changes(p);
    read_key(p);
    if (p->related) family_dump(p->r, t);
    if (p->bounded && state == PAWL_PENDING) t->line = places_dump_line(p->r, id);
    p->bytes += 256;
}

/* ---- pages of tasks ------------------------------------------------------------------------------------------------------ */

typedef struct place { /* where a task is, from the first columns of the page */
    pawl_state state;
    int64_t finished_us, resolved_us;
} place;

static place read_place(query *q)
{
    place at = {0};
    pawl_state live = (pawl_state)get_int(q);
    bool leased = !get_is_null(q);
    q->column++;
    pawl_state done = (pawl_state)get_int(q), failed = (pawl_state)get_int(q);
    int64_t done_us = get_int(q), failed_us = get_int(q);
    at.resolved_us = get_int(q);
    at.state = leased ? PAWL_LEASED : live ? live : done ? done : failed;
    at.finished_us = done ? done_us : failed_us;
    return at;
}

static bool wanted(const pawl_dump *d, const place *at)
{
    if (!(d->states & PAWL_STATE_BIT(at->state))) return false;
    if (!d->since_us || !pawl_state_terminal(at->state)) return true;
    return at->finished_us >= d->since_us || at->resolved_us >= d->since_us;
}

static void dump_tasks(dumping *p)
{
    pawl_dump *d = p->d;
    p->related = d->states && family_related(p->r->c);
    p->bounded = d->states && places_any(p->r->c);
    query q = query_on(p->r->c, SQL_dump_tasks);
    put_int(&q, d->after);
    put_int(&q, d->limit);
    int looked = 0;
    while (!p->r->no_memory && !(d->bytes && p->bytes >= d->bytes) && query_row(&q)) {
        pawl_id id = get_int(&q);
        place at = read_place(&q);
        looked++;
        d->next = id;
        if (at.state <= PAWL_STATE_NONE || at.state >= PAWL_STATE_COUNT) continue; /* a body that was left behind */
        d->counts[at.state]++;
        d->sums[at.state] += pawl_id_sum(id);
        if (!wanted(d, &at)) continue;
        pawl_record *all = read_grow(p->r, d->tasks, d->count, sizeof *all);
        if (!all) break;
        d->tasks = all;
        p->task = &all[d->count++];
        read_task(p, &q, id, at.state);
    }
    query_end(&q);
    d->more = looked == d->limit || (d->bytes && p->bytes >= d->bytes);
}

/* ---- the rest ------------------------------------------------------------------------------------------------------------ */

static int64_t *buckets(dumping *p, query *q)
{
    pawl_bytes stored = get_bytes(q);
    if (!stored.len) return NULL;
    histogram h = {0};
    int64_t *counts = read_alloc(p->r, PAWL_BUCKETS * sizeof *counts);
    histogram_merge(&h, stored);
    for (int i = 0; counts && i < PAWL_BUCKETS; i++) counts[i] = h.counts[i];
    return counts;
}

/* The first minute after d->next; false: there is none. */
static bool next_minute(dumping *p)
{
    query q = query_on(p->r->c, SQL_dump_minute_next);
    put_int(&q, p->d->next);
    bool found = query_row(&q) && !get_is_null(&q);
    if (found) p->d->next = get_int(&q);
    query_end(&q);
    return found;
}

static void dump_minute(dumping *p)
{
    pawl_dump *d = p->d;
    conn *c = p->r->c;
    query q = query_on(c, SQL_dump_minutes);
    put_int(&q, d->next);
    while (!p->r->no_memory && query_row(&q)) {
        pawl_past_minute *all = read_grow(p->r, d->minutes, d->count, sizeof *all);
        if (!all) break;
        d->minutes = all;
        pawl_past_minute *m = &all[d->count++];
        *m = (pawl_past_minute){.minute = get_int(&q)};
        const char *queue = name_text(c, get_int(&q)), *type = name_text(c, get_int(&q));
        m->queue = read_text(p->r, queue ? queue : "?");
        m->type = read_text(p->r, type ? type : "?");
        m->outcome = (int)get_int(&q);
        m->count = get_int(&q);
        m->wait = buckets(p, &q);
        m->run = buckets(p, &q);
    }
    query_end(&q);
}

/* Whole minutes, so that a page ends where the next one begins. */
static void dump_minutes(dumping *p)
{
    pawl_dump *d = p->d;
    while (!p->r->no_memory && !p->r->c->rc && (d->more = next_minute(p))) {
        dump_minute(p);
        if (d->count >= d->limit) return;
    }
}

static void dump_acts(dumping *p)
{
    pawl_dump *d = p->d;
    query q = query_on(p->r->c, SQL_dump_acts);
    put_int(&q, d->after);
    put_int(&q, d->limit);
    while (!p->r->no_memory && query_row(&q)) {
        pawl_past_act *all = read_grow(p->r, d->acts, d->count, sizeof *all);
        if (!all) break;
        d->acts = all;
        pawl_past_act *a = &all[d->count++];
        d->next = get_int(&q);
        a->at_us = get_int(&q);
        a->who = text(p, &q);
        a->action = text(p, &q);
        a->id = get_int(&q);
        a->detail = text(p, &q);
    }
    query_end(&q);
    d->more = d->count == d->limit;
}

static void dump_settings(dumping *p)
{
    pawl_dump *d = p->d;
    query q = query_on(p->r->c, SQL_queues_list);
    while (!p->r->no_memory && query_row(&q)) {
        pawl_past_queue *all = read_grow(p->r, d->queues, d->count, sizeof *all);
        if (!all) break;
        d->queues = all;
        get_int(&q);
        all[d->count].name = text(p, &q);
        all[d->count++].paused = get_int(&q) != 0;
    }
    query_end(&q);
    q = query_on(p->r->c, SQL_dump_numbers);
    while (query_row(&q)) {
        int64_t number = get_int(&q);
        if (number > 0 && number < 1024) d->ceilings_ms[number] = get_int(&q);
    }
    query_end(&q);
    d->last_id = meta_int(p->r->c, "last_id", 0);
    d->audit_cut_us = meta_int(p->r->c, "audit_cut_us", INT64_MIN);
}

void dump_read(reading *r, pawl_dump *d)
{
    dumping p = {.r = r, .d = d};
    switch (d->part) {
    case PAWL_PART_TASKS: dump_tasks(&p); break;
    case PAWL_PART_MINUTES: dump_minutes(&p); break;
    case PAWL_PART_ACTS: dump_acts(&p); break;
    case PAWL_PART_SETTINGS: dump_settings(&p); break;
    case PAWL_PART_LIMITS: quota_dump_limits(r, d); break;
    case PAWL_PART_BUDGETS: quota_dump_budgets(r, d); break;
    case PAWL_PART_BOUNDS: places_dump_bounds(r, d); break;
    case PAWL_PART_SCHEDULES: schedules_dump(r, d); break;
    case PAWL_PART_BATCHES: family_dump_batches(r, d); break;
    case PAWL_PART_KEPT: family_dump_kept(r, d); break;
    }
}
