/* load: tasks that come from another store, with their ids, times and fences, and the rest that such a store holds.
 *
 * One page is one transaction. Counters of queues go through the tally; what retention and lists are found by (slots, hours, names of
 * stretches) follows the times of the tasks themselves, not the present.
 */
#include "base/error.h"
#include "base/idgen.h"
#include "core/task.h"
#include "store/sqlite/family.h"
#include "store/sqlite/place.h"
#include <string.h>

static const char what[] = "load tasks into";

#define SPANS 64 /* that are gathered before they are written */

typedef struct span { /* a row of pawl_done_slot (state > 0) or pawl_born_hour that is being gathered */
    int64_t at, born;
    pawl_state state;
    int64_t first_us;
    pawl_id min_id, max_id;
} span;

typedef struct loading {
    tx *t;
    pawl_load *call;
    span spans[SPANS];
    int spans_count;
    const char *node_names[8]; /* the nodes asked for last */
    int64_t node_ids[8];
    unsigned nodes;
} loading;

static int64_t tenant_of(tx *t, const pawl_body *b) { return b->tenant && b->tenant[0] ? name_id(t->c, b->tenant) : 0; }

/* ---- where it will be found ---------------------------------------------------------------------------------------------- */

static void flush_spans(loading *p)
{
    for (int i = 0; i < p->spans_count; i++) {
        const span *s = &p->spans[i];
        query q = query_on(p->t->c, s->state ? SQL_slot_add : SQL_born_add);
        put_int(&q, s->at);
        if (s->state) {
            put_int(&q, s->state);
            put_int(&q, s->born);
            put_int(&q, s->first_us);
        }
        put_int(&q, s->min_id);
        put_int(&q, s->max_id);
        query_run(&q);
    }
    p->spans_count = 0;
}

static void add_span(loading *p, span s)
{
    for (int i = p->spans_count - 1; i >= 0; i--) {
        span *known = &p->spans[i];
        if (known->at != s.at || known->state != s.state || known->born != s.born) continue;
        if (s.first_us < known->first_us) known->first_us = s.first_us;
        if (s.min_id < known->min_id) known->min_id = s.min_id;
        if (s.max_id > known->max_id) known->max_id = s.max_id;
        return;
    }
    if (p->spans_count == SPANS) flush_spans(p);
    p->spans[p->spans_count++] = s;
}

static void note_place(loading *p, const pawl_record *r, const task_row *row, int64_t tenant_id)
{
    tx *t = p->t;
    add_span(p, (span){.at = r->body.created_us / PAWL_HOUR, .min_id = row->id, .max_id = row->id});
    tally_seen(t, row->id, SEEN_QUEUE, row->queue_id);
    tally_seen(t, row->id, SEEN_TYPE, row->type_id);
    if (tenant_id) tally_seen(t, row->id, SEEN_TENANT, tenant_id);
    if (r->state == PAWL_CANCELLED) tally_seen(t, row->id, SEEN_CANCELLED, 0);
    if (r->state == PAWL_SUCCEEDED || r->state == PAWL_CANCELLED)
        add_span(p, (span){.at = r->finished_us / TALLY_SLOT_US,
                           .state = r->state,
                           .born = id_ms(row->id) / (PAWL_HOUR / 1000),
                           .first_us = r->finished_us,
                           .min_id = row->id,
                           .max_id = row->id});
}

/* ---- nodes that are no more ---------------------------------------------------------------------------------------------- */

/* Those of another store leave their names only: one swept node for each. */
static int64_t find_node(loading *p, const char *name)
{
    tx *t = p->t;
    int64_t name_number = name_id(t->c, name), node = 0;
    query q = query_on(t->c, SQL_load_node_find);
    put_int(&q, name_number);
    if (query_row(&q)) node = get_int(&q);
    query_end(&q);
    if (node || t->c->rc) return node;
    node = meta_int(t->c, "last_node", 0) + 1;
    meta_put(t->c, "last_node", node);
    q = query_on(t->c, SQL_load_node_add);
    put_int(&q, node);
    put_int(&q, name_number);
    put_int(&q, t->now_us);
    query_run(&q);
    return node;
}

static int64_t node_of(loading *p, const char *name)
{
    if (!name) return 0;
    for (unsigned i = 0; i < 8; i++)
        if (p->node_names[i] && strcmp(p->node_names[i], name) == 0) return p->node_ids[i];
    int64_t node = find_node(p, name);
    p->node_names[p->nodes % 8] = name;
    p->node_ids[p->nodes++ % 8] = node;
    return node;
}

/* ---- one task ------------------------------------------------------------------------------------------------------------ */

static int64_t put_log(loading *p, const pawl_record *r, int number)
{
    for (int i = 0; i < r->logs_count; i++) {
        const pawl_past_log *log = &r->logs[i];
        if (log->number != number || !log->text) continue;
        query q = query_on(p->t->c, SQL_runlog_put);
        put_int(&q, r->body.id);
        put_int(&q, number);
        put_int(&q, log->at_us);
        put_text(&q, log->text);
        return query_run(&q) ? sqlite3_last_insert_rowid(p->t->c->db) : 0;
    }
    return 0;
}

static void put_attempts(loading *p, const pawl_record *r)
{
    for (int i = 0; i < r->attempts_count && !p->t->c->rc; i++) {
        const pawl_past_attempt *a = &r->attempts[i];
        int64_t log_id = put_log(p, r, a->number), node = node_of(p, a->node);
        query q = query_on(p->t->c, SQL_attempt_put);
        put_int(&q, r->body.id);
        put_int(&q, a->number);
        put_int(&q, a->outcome);
        put_int(&q, a->started_us);
        put_int(&q, a->finished_us);
        put_int(&q, a->fence);
        put_int(&q, node);
        put_int_or_null(&q, log_id, 0);
        put_int_or_null(&q, a->log_lines, 0);
        put_text(&q, a->code);
        put_text(&q, a->error);
        query_run(&q);
    }
}

static void put_changes(loading *p, const pawl_record *r)
{
    for (int i = 0; i < r->changes_count && !p->t->c->rc; i++) {
        const pawl_past_change *a = &r->changes[i];
        int64_t node = node_of(p, a->node);
        query q = query_on(p->t->c, SQL_load_change);
        put_int(&q, r->body.id);
        put_int(&q, a->number);
        put_int(&q, a->at_us);
        put_int(&q, a->from);
        put_int(&q, a->to);
        put_int(&q, a->fence);
        put_int(&q, node);
        put_text(&q, a->detail);
        query_run(&q);
    }
}

static void put_key(loading *p, const pawl_body *b, int64_t tenant_id, pawl_id old, pawl_id id)
{
    query q = query_on(p->t->c, SQL_load_key);
    put_text(&q, b->key);
    put_int(&q, tenant_id);
    put_int(&q, old);
    put_int(&q, id);
    query_run(&q);
}

/* The one that comes last and says that it has the key has it. */
static void take_key(loading *p, const pawl_record *r, int64_t tenant_id)
{
    const pawl_body *b = &r->body;
    if (!b->key) return;
    query q = query_on(p->t->c, SQL_key_get);
    put_text(&q, b->key);
    put_int(&q, tenant_id);
    pawl_id holder = query_row(&q) ? get_int(&q) : 0;
    query_end(&q);
    bool takes = !holder || r->holds_key;
    if (takes && holder && holder != b->id) put_key(p, b, tenant_id, holder, holder);
    put_key(p, b, tenant_id, takes ? 0 : b->id, b->id);
}

static void put_end(loading *p, const pawl_record *r, const task_row *row)
{
    tx *t = p->t;
    int64_t log_id = r->outcome != PAWL_ATTEMPT_NONE ? put_log(p, r, r->runs) : 0, node = node_of(p, r->node);
    query q = query_on(t->c, r->state == PAWL_FAILED ? SQL_load_failed : SQL_load_end);
    put_int(&q, row->id);
    put_int(&q, r->state);
    put_int(&q, r->finished_us);
    put_int(&q, r->fence);
    put_int(&q, node);
    put_int(&q, r->outcome);
    put_int_or_null(&q, r->started_us, 0);
    put_int_or_null(&q, r->run_us, 0);
    put_int_or_null(&q, r->leased_us, 0);
    put_int_or_null(&q, r->run_at_us, 0);
    put_int(&q, r->runs);
    put_int(&q, r->failures);
    put_int(&q, r->interruptions);
    put_int(&q, r->rescues);
    put_int(&q, r->end_level);
    put_int(&q, (r->derived ? END_DERIVED : 0) | (r->cancel_asked ? END_CANCEL_ASKED : 0));
    put_int_or_null(&q, log_id, 0);
    put_int_or_null(&q, r->log_lines, 0);
    put_int_or_null(&q, r->progress, -1);
    put_text(&q, r->progress_text);
    put_text(&q, r->code);
    put_text(&q, r->error);
    put_text(&q, r->reason);
    put_int_or_null(&q, r->retried_as, 0);
    put_text(&q, r->result_type);
    put_text(&q, r->result_ref);
    put_bytes(&q, r->result);
    if (r->state == PAWL_FAILED) {
        put_int_or_null(&q, r->resolved_us, 0);
        put_text(&q, r->resolved_by);
        put_text(&q, r->note);
    }
    query_run(&q);
    if (r->state == PAWL_FAILED && !r->resolved_us) tally_state(t, row->queue_id, PAWL_FAILED, 1);
}

static void put_live(loading *p, const pawl_record *r, task_row *row)
{
    bool leased = r->state == PAWL_LEASED;
    row->state = leased ? PAWL_PENDING : r->state;
    row->fence = r->fence + leased;
    row->class = r->suspicion;
    row->run_at_us = r->run_at_us ? r->run_at_us : r->body.created_us;
    row->runs = r->runs;
    row->failures = r->failures;
    row->interruptions = r->interruptions;
    row->rescues = r->rescues;
    row->strikes = r->strikes;
    if (r->line && p->call->move && p->t->bounded) places_rejoin(p->t, row, r->body.rate_key, r->line == PAWL_LINE_HOLDS);
    live_put(p->t, row);
}

/* What it is the retry of learns so; that one may have come before it was retried. */
static void note_retry(loading *p, pawl_id old, pawl_id as)
{
    static const sql_name where[] = {SQL_load_retried_done, SQL_load_retried_failed};
    for (int i = 0; old && as && i < 2; i++) {
        query q = query_on(p->t->c, where[i]);
        put_int(&q, as);
        put_int(&q, old);
        query_run(&q);
    }
}

static void create(loading *p, const pawl_record *r, int64_t tenant_id)
{
    tx *t = p->t;
    const pawl_body *b = &r->body;
    task_row row = {.id = b->id, .state = r->born, .level = r->level, .priority = b->priority};
    row.type_id = name_id(t->c, b->type);
    row.queue_id = name_id(t->c, b->queue);
    body_put(t, b, b->id, tenant_id, &row);
    if (pawl_state_terminal(r->state)) put_end(p, r, &row);
    else put_live(p, r, &row);
    put_attempts(p, r);
    put_changes(p, r);
    take_key(p, r, tenant_id);
    if (r->parents_count || r->batch) family_load(t, r, p->call->move != NULL);
    note_place(p, r, &row, tenant_id);
    note_retry(p, b->retry_of, b->id);
}

/* It is there. What people did to it since may be new. */
static void refresh(loading *p, const pawl_record *r, int64_t queue_id)
{
    conn *c = p->t->c;
    if (r->holds_key) take_key(p, r, tenant_of(p->t, &r->body));
    note_retry(p, r->body.id, r->retried_as);
    if (r->state != PAWL_FAILED || !r->resolved_us) return;
    query q = query_on(c, SQL_load_resolved);
    put_int(&q, r->body.id);
    put_int(&q, r->resolved_us);
    put_text(&q, r->resolved_by);
    put_text(&q, r->note);
    if (query_run(&q) && sqlite3_changes(c->db) > 0) tally_state(p->t, queue_id, PAWL_FAILED, -1);
}

/* Of a key there is one live task at most. In a move there is, too, so it need not be looked for. */
static bool key_is_live(loading *p, const pawl_record *r)
{
    task_row row;
    if (p->call->move || !r->body.key || pawl_state_terminal(r->state)) return false;
    query q = query_on(p->t->c, SQL_key_get);
    put_text(&q, r->body.key);
    put_int(&q, tenant_of(p->t, &r->body));
    pawl_id holder = query_row(&q) ? get_int(&q) : 0;
    query_end(&q);
    return holder && holder != r->body.id && task_get(p->t->c, holder, &row);
}

static pawl_loaded load_task(loading *p, const pawl_record *r)
{
    tx *t = p->t;
    query q = query_on(t->c, SQL_load_found);
    put_int(&q, r->body.id);
    bool found = query_row(&q);
    int64_t created_us = found ? get_int(&q) : 0, type_id = found ? get_int(&q) : 0, queue_id = found ? get_int(&q) : 0;
    query_end(&q);
    if (!found && key_is_live(p, r)) return PAWL_LOADED_KEY;
    if (!found && !p->call->move && r->state == PAWL_WAITING && !family_here(t, r)) return PAWL_LOADED_ORPHAN;
    if (!found) {
        create(p, r, tenant_of(t, &r->body));
        return PAWL_LOADED_NEW;
    }
    if (created_us != r->body.created_us || type_id != name_find(t->c, r->body.type)) return PAWL_LOADED_TAKEN;
    refresh(p, r, queue_id);
    return PAWL_LOADED_BEFORE;
}

/* ---- pages --------------------------------------------------------------------------------------------------------------- */

static void put_buckets(query *q, const int64_t *counts, char room[HISTOGRAM_BYTES])
{
    histogram h = {0};
    for (int i = 0; counts && i < PAWL_BUCKETS; i++) h.total += h.counts[i] = (uint32_t)counts[i];
    if (h.total) put_bytes(q, (pawl_bytes){room, histogram_write(&h, room)});
    else put_null(q);
}

static void load_minutes(loading *p, const pawl_dump *d)
{
    for (int i = 0; i < d->count && !p->t->c->rc; i++) {
        const pawl_past_minute *m = &d->minutes[i];
        char wait[HISTOGRAM_BYTES], run[HISTOGRAM_BYTES];
        int64_t queue_id = name_id(p->t->c, m->queue), type_id = name_id(p->t->c, m->type);
        query q = query_on(p->t->c, SQL_load_minute);
        put_int(&q, m->minute);
        put_int(&q, queue_id);
        put_int(&q, type_id);
        put_int(&q, m->outcome);
        put_int(&q, m->count);
        put_buckets(&q, m->wait, wait);
        put_buckets(&q, m->run, run);
        query_run(&q);
    }
}

static void load_acts(loading *p, const pawl_dump *d)
{
    for (int i = 0; i < d->count && !p->t->c->rc; i++) {
        const pawl_past_act *a = &d->acts[i];
        query q = query_on(p->t->c, SQL_oplog_put);
        put_int(&q, a->at_us);
        put_text(&q, a->who ? a->who : "");
        put_text(&q, a->action ? a->action : "");
        put_int_or_null(&q, a->id, 0);
        put_text(&q, a->detail);
        query_run(&q);
    }
}

static void raise_ceiling(tx *t, int number, int64_t ceiling_ms)
{
    int64_t node = 0, floor_ms = 0, now_ms = 0;
    query q = query_on(t->c, SQL_number_get);
    put_int(&q, number);
    if (query_row(&q)) {
        node = get_int(&q);
        floor_ms = get_int(&q);
        now_ms = get_int(&q);
    }
    query_end(&q);
    if (now_ms >= ceiling_ms) return;
    q = query_on(t->c, SQL_number_put);
    put_int(&q, number);
    put_int(&q, node);
    put_int(&q, floor_ms);
    put_int(&q, ceiling_ms);
    query_run(&q);
}

static void load_settings(loading *p, const pawl_dump *d)
{
    tx *t = p->t;
    for (int i = 0; i < d->count && !t->c->rc; i++) {
        int64_t queue_id = name_id(t->c, d->queues[i].name);
        query q = query_on(t->c, d->queues[i].paused ? SQL_queue_pause : SQL_queue_exists);
        put_int(&q, queue_id);
        if (d->queues[i].paused) put_int(&q, 1);
        query_run(&q);
    }
    for (int i = 1; i < 1024 && !t->c->rc; i++)
        if (d->ceilings_ms[i] > 0) raise_ceiling(t, i, d->ceilings_ms[i]);
    if (d->last_id > meta_int(t->c, "last_id", 0)) meta_put(t->c, "last_id", d->last_id);
    if (d->audit_cut_us > meta_int(t->c, "audit_cut_us", INT64_MIN)) meta_put(t->c, "audit_cut_us", d->audit_cut_us);
}

static void load_tasks(loading *p, const pawl_dump *d)
{
    for (int i = 0; i < d->count && !p->t->c->rc; i++) {
        pawl_loaded result = load_task(p, &d->tasks[i]);
        if (p->call->results) p->call->results[i] = result;
    }
    flush_spans(p);
}

static void load_page(loading *p)
{
    const pawl_dump *d = p->call->page;
    switch (d->part) {
    case PAWL_PART_TASKS: load_tasks(p, d); break;
    case PAWL_PART_MINUTES: load_minutes(p, d); break;
    case PAWL_PART_ACTS: load_acts(p, d); break;
    case PAWL_PART_SETTINGS: load_settings(p, d); break;
    case PAWL_PART_LIMITS: quota_load_limits(p->t, d); break;
    case PAWL_PART_BUDGETS: quota_load_budgets(p->t, d); break;
    case PAWL_PART_BOUNDS: places_load_bounds(p->t, d); break;
    case PAWL_PART_SCHEDULES: schedules_load(p->t, d, p->call->move != NULL); break;
    case PAWL_PART_BATCHES: family_load_batches(p->t, d); break;
    case PAWL_PART_KEPT: family_load_kept(p->t, d); break;
    }
}

/* ---- the call ------------------------------------------------------------------------------------------------------------ */

static bool same(const char *a, const char *b) { return strcmp(a ? a : "", b ? b : "") == 0; }

/* Whether the page may be loaded now; sets call->stale where it was loaded before. */
static pawl_status check_gate(tx *t, pawl_load *call, pawl_error *err)
{
    call->stale = false;
    if (!call->move)
        return gate_shut(t) ? err_set(err, PAWL_MOVED, "cannot load tasks into \"%s\": it is closed for a move", t->s->path)
                            : PAWL_OK;
    query q = query_on(t->c, SQL_gate_get);
    bool found = query_row(&q);
    int64_t mode = found ? get_int(&q) : 0;
    if (found) get_int(&q);
    bool ours = found && same(get_text(&q), call->move) && mode == PAWL_GATE_ARRIVING;
    if (found) q.column += 2;
    call->stale = ours && !same(get_text(&q), call->before);
    query_end(&q);
    return ours ? PAWL_OK : err_set(err, PAWL_CONFLICT, "\"%s\" does not take part in this move any more", t->s->path);
}

static void put_position(tx *t, const pawl_load *call)
{
    if (!call->move) return;
    query q = query_on(t->c, SQL_gate_position);
    put_text(&q, call->position);
    query_run(&q);
}

pawl_status sqlite_load(pawl_store *store, pawl_load *call, pawl_arena *arena, pawl_error *err)
{
    (void)arena;
    tx t;
    pawl_status status = tx_begin((sqlite_store *)store, &t, what, err);
    if (status) return status;
    status = check_gate(&t, call, err);
    if (status || call->stale) {
        pawl_status failed = tx_abort(&t, what, NULL);
        return status ? status : failed;
    }
    loading p = {.t = &t, .call = call};
    load_page(&p);
    put_position(&t, call);
    if (!conn_refused(t.c)) return t.c->rc ? tx_abort(&t, what, err) : tx_commit(&t, what, !call->move, err);
    tx_abort(&t, what, NULL);
    return err_set(err, PAWL_INVALID, "cannot load tasks into \"%s\": one of them is too large, or contradicts itself",
                   t.s->path);
}
