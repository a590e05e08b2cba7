/* load: a page of another store as arrays, one call, one commit. See functions/move.sql.
 *
 * What people chose (names, keys, headers) must be text that the server takes, or the page is refused; what a run left behind is cleaned.
 */
#include "base/error.h"
#include "base/text.h"
#include "store/budget.h"
#include "store/postgres/inner.h"
#include <stdio.h>
#include <stdlib.h>

static const char what[] = "load tasks into";

#define NODES_MOST 4096 /* names of nodes in one page */

typedef struct loading {
    pg_store *s;
    conn *c;
    pawl_load *call;
    const pawl_dump *d;
    pawl_arena *arena;
    const char **nodes;
    int nodes_count;
    int *task_nodes, *attempt_nodes, *change_nodes; /* their numbers in `nodes`, from 1; 0: none */
    int attempts, logs, changes;
    budget_row *budgets; /* settled */
    int *places;         /* of each task in the caller's page, if some were left out; NULL: as they are */
} loading;

/* ---- what cannot be stored ----------------------------------------------------------------------------------------------- */

static bool text_good(const char *text) { return !text || utf8_valid(text, strlen(text)); }

static bool task_good(const pawl_record *r)
{
    const pawl_body *b = &r->body;
    if (!b->type || !b->type[0] || !b->queue || !b->queue[0] || b->priority < INT16_MIN || b->priority > INT16_MAX) return false;
    return text_good(b->type) && text_good(b->queue) && text_good(b->tenant) && text_good(b->key) && text_good(b->content_type) &&
           text_good(b->created_by) && text_good(b->traceparent) && text_good(b->headers);
}

static pawl_status check(const loading *l, pawl_error *err)
{
    for (int i = 0; l->d->part == PAWL_PART_TASKS && i < l->d->count; i++) {
        char id[PAWL_ID_TEXT];
        if (task_good(&l->d->tasks[i])) continue;
        pawl_id_format(l->d->tasks[i].body.id, id);
        return err_set(err, PAWL_INVALID, "cannot store task \"%s\" in \"%s\": one of its texts is not UTF-8", id,
                       l->s->link.url.name);
    }
    return PAWL_OK;
}

static pawl_status no_memory(const loading *l, pawl_error *err)
{
    return err_set(err, PAWL_NO_MEMORY, "could not %s \"%s\": out of memory", what, l->s->link.url.name);
}

/* ---- names --------------------------------------------------------------------------------------------------------------- */

static int names_of(const pawl_dump *d, int i, const char **to)
{
    switch (d->part) {
    case PAWL_PART_TASKS:
        to[0] = d->tasks[i].body.type;
        to[1] = d->tasks[i].body.queue;
        to[2] = d->tasks[i].body.tenant;
        return to[2] && to[2][0] ? 3 : 2;
    case PAWL_PART_MINUTES:
        to[0] = d->minutes[i].queue;
        to[1] = d->minutes[i].type;
        return 2;
    case PAWL_PART_SETTINGS: to[0] = d->queues[i].name; return 1;
    case PAWL_PART_LIMITS: to[0] = d->limits[i].type; return 1;
    case PAWL_PART_BUDGETS: to[0] = d->budgets[i].type; return 1;
    case PAWL_PART_BOUNDS: to[0] = d->bounds[i].name; return 1;
    default: return 0;
    }
}

/* All names of the page are in the cache, which is left open. */
static bool open_names(loading *l)
{
    const pawl_dump *d = l->d;
    const char **missing = pawl_arena_alloc(l->arena, (size_t)(3 * d->count + 1) * sizeof *missing), *some[3];
    for (int tries = 0; missing && tries < 10; tries++) {
        int count = 0;
        interned_open(&l->s->names);
        for (int i = 0; i < d->count; i++) {
            int n = names_of(d, i, some);
            for (int k = 0; k < n; k++)
                if (!interned_id(&l->s->names, some[k])) missing[count++] = some[k];
        }
        if (count == 0) return true;
        interned_close(&l->s->names);
        if (!pg_names_fetch(&l->s->names, l->c, missing, count)) return false;
    }
    pg_conn_no_memory(l->c);
    return false;
}

/* ---- nodes --------------------------------------------------------------------------------------------------------------- */

static int node_number(loading *l, const char *name)
{
    if (!name) return 0;
    for (int i = l->nodes_count - 1; i >= 0; i--)
        if (strcmp(l->nodes[i], name) == 0) return i + 1;
    if (l->nodes_count == NODES_MOST) return 0;
    l->nodes[l->nodes_count++] = name;
    return l->nodes_count;
}

static bool number_nodes(loading *l)
{
    const pawl_dump *d = l->d;
    for (int i = 0; i < d->count; i++) {
        l->attempts += d->tasks[i].attempts_count;
        l->logs += d->tasks[i].logs_count;
        l->changes += d->tasks[i].changes_count;
    }
    l->nodes = pawl_arena_alloc(l->arena, NODES_MOST * sizeof *l->nodes);
    l->task_nodes = pawl_arena_alloc(l->arena, (size_t)(d->count + l->attempts + l->changes + 1) * sizeof *l->task_nodes);
    if (!l->nodes || !l->task_nodes) return false;
    l->attempt_nodes = l->task_nodes + d->count;
    l->change_nodes = l->attempt_nodes + l->attempts;
    for (int i = 0, a = 0, c = 0; i < d->count; i++) {
        const pawl_record *t = &d->tasks[i];
        l->task_nodes[i] = node_number(l, t->node);
        for (int k = 0; k < t->attempts_count; k++) l->attempt_nodes[a++] = node_number(l, t->attempts[k].node);
        for (int k = 0; k < t->changes_count; k++) l->change_nodes[c++] = node_number(l, t->changes[k].node);
    }
    return true;
}

/* ---- columns ------------------------------------------------------------------------------------------------------------- */

/* One array with an element for each task; `t` is the task, `b` its body. */
#define COLUMN(oid, write)                          \
    do {                                            \
        pg_array_begin(p, oid);                     \
        for (int i = 0; i < l->d->count; i++) {     \
            const pawl_record *t = &l->d->tasks[i]; \
            const pawl_body *b = &t->body;          \
            (void)b;                                \
            write;                                  \
        }                                           \
        pg_array_end(p);                            \
    } while (0)

/* The same, or NULL if no task has anything there. */
#define SPARSE(oid, present, write)                     \
    do {                                                \
        bool any = false;                               \
        for (int i = 0; i < l->d->count && !any; i++) { \
            const pawl_record *t = &l->d->tasks[i];     \
            const pawl_body *b = &t->body;              \
            (void)b;                                    \
            any = (present);                            \
        }                                               \
        if (any) COLUMN(oid, write);                    \
        else pg_param_null(p);                          \
    } while (0)

/* One array with an element for each `row` of what hangs on the tasks, or NULL. */
#define HANGING(total, list, oid, write)                       \
    do {                                                       \
        int at = 0;                                            \
        if ((total) == 0) {                                    \
            pg_param_null(p);                                  \
            break;                                             \
        }                                                      \
        pg_array_begin(p, oid);                                \
        for (int i = 0; i < l->d->count; i++) {                \
            const pawl_record *t = &l->d->tasks[i];            \
            for (int k = 0; k < t->list##_count; k++, at++) {  \
                const __typeof__(*t->list) *row = &t->list[k]; \
                (void)row;                                     \
                write;                                         \
            }                                                  \
        }                                                      \
        pg_array_end(p);                                       \
    } while (0)

static void clean(params *p, const char *text) { pg_array_clean(p, text, text ? strlen(text) : 0); }

static void content_type(params *p, const char *type)
{
    if (type && strcmp(type, "application/json") == 0) array_null(p);
    else pg_array_text(p, type ? type : "");
}

static void bytes(params *p, pawl_bytes data)
{
    if (data.data) pg_array_bytes(p, data.data, data.len);
    else array_null(p);
}

static int tenant_id(interned *n, const pawl_body *b) { return b->tenant && b->tenant[0] ? interned_id(n, b->tenant) : 0; }

static void put_bodies(loading *l, params *p, interned *n)
{
    COLUMN(OID_INT8, array_int8(p, b->id));
    COLUMN(OID_INT2, array_int2(p, t->state == PAWL_LEASED ? PAWL_PENDING : t->state));
    COLUMN(OID_INT8, array_int8(p, b->created_us));
    COLUMN(OID_INT4, array_int4(p, interned_id(n, b->type)));
    COLUMN(OID_INT4, array_int4(p, interned_id(n, b->queue)));
    SPARSE(OID_INT4, tenant_id(n, b), array_int4_or_null(p, tenant_id(n, b), 0));
    COLUMN(OID_INT2, array_int2(p, b->priority));
    COLUMN(OID_INT2, array_int2(p, t->born));
    COLUMN(OID_INT2, array_int2(p, t->level));
    COLUMN(OID_INT2, array_int2(p, b->audit));
    SPARSE(OID_INT4, b->max_attempts, array_int4_or_null(p, b->max_attempts, 0));
    SPARSE(OID_INT8, b->timeout_us, array_int8_or_null(p, b->timeout_us, 0));
    SPARSE(OID_INT8, b->retry_of, array_int8_or_null(p, b->retry_of, 0));
    SPARSE(OID_TEXT, b->key, pg_array_text(p, b->key));
    SPARSE(OID_TEXT, !b->content_type || strcmp(b->content_type, "application/json") != 0, content_type(p, b->content_type));
    SPARSE(OID_TEXT, b->created_by, pg_array_text(p, b->created_by));
    SPARSE(OID_TEXT, b->traceparent, pg_array_text(p, b->traceparent));
    SPARSE(OID_TEXT, b->headers, pg_array_text(p, b->headers));
    SPARSE(OID_BYTEA, b->rate_key.data, bytes(p, b->rate_key));
    SPARSE(OID_BYTEA, b->payload.data, bytes(p, b->payload));
    SPARSE(OID_BOOL, t->holds_key, array_bool(p, t->holds_key));
}

static void put_states(loading *l, params *p)
{
    COLUMN(OID_INT2, array_int2(p, t->suspicion));
    COLUMN(OID_INT2, array_int2(p, t->strikes));
    COLUMN(OID_INT8, array_int8_or_null(p, t->run_at_us, 0));
    COLUMN(OID_INT4, array_int4(p, (int32_t)t->fence + (t->state == PAWL_LEASED)));
    COLUMN(OID_INT4, array_int4(p, t->runs));
    COLUMN(OID_INT4, array_int4(p, t->failures));
    COLUMN(OID_INT4, array_int4(p, t->interruptions));
    COLUMN(OID_INT4, array_int4(p, t->rescues));
    SPARSE(OID_INT4, l->task_nodes[i], array_int4_or_null(p, l->task_nodes[i], 0));
    SPARSE(OID_INT8, t->leased_us, array_int8_or_null(p, t->leased_us, 0));
    SPARSE(OID_INT8, t->started_us, array_int8_or_null(p, t->started_us, 0));
    SPARSE(OID_INT2, t->progress >= 0, if (t->progress >= 0) array_int2(p, t->progress); else array_null(p));
    SPARSE(OID_TEXT, t->progress_text, clean(p, t->progress_text));
}

static void put_ends(loading *l, params *p)
{
    SPARSE(OID_INT8, t->finished_us, array_int8_or_null(p, t->finished_us, 0));
    SPARSE(OID_INT8, t->run_us || t->outcome, if (t->outcome) array_int8(p, t->run_us); else array_null(p));
    COLUMN(OID_INT2, array_int2(p, t->outcome));
    COLUMN(OID_INT2, array_int2(p, t->end_level));
    COLUMN(OID_INT2, array_int2(p, (t->derived ? 1 : 0) | (t->cancel_asked ? 2 : 0)));
    SPARSE(OID_INT4, t->log_lines, array_int4_or_null(p, t->log_lines, 0));
    SPARSE(OID_TEXT, t->code, clean(p, t->code));
    SPARSE(OID_TEXT, t->error, clean(p, t->error));
    SPARSE(OID_TEXT, t->reason, clean(p, t->reason));
    SPARSE(OID_INT8, t->retried_as, array_int8_or_null(p, t->retried_as, 0));
    SPARSE(OID_TEXT, t->result_type, clean(p, t->result_type));
    SPARSE(OID_TEXT, t->result_ref, clean(p, t->result_ref));
    SPARSE(OID_BYTEA, t->result.data, bytes(p, t->result));
    SPARSE(OID_INT8, t->resolved_us, array_int8_or_null(p, t->resolved_us, 0));
    SPARSE(OID_TEXT, t->resolved_by, clean(p, t->resolved_by));
    SPARSE(OID_TEXT, t->note, clean(p, t->note));
}

static void put_hanging(loading *l, params *p)
{
    HANGING(l->attempts, attempts, OID_INT8, array_int8(p, t->body.id));
    HANGING(l->attempts, attempts, OID_INT4, array_int4(p, row->number));
    HANGING(l->attempts, attempts, OID_INT2, array_int2(p, row->outcome));
    HANGING(l->attempts, attempts, OID_INT8, array_int8(p, row->started_us));
    HANGING(l->attempts, attempts, OID_INT8, array_int8(p, row->finished_us));
    HANGING(l->attempts, attempts, OID_INT4, array_int4(p, (int32_t)row->fence));
    HANGING(l->attempts, attempts, OID_INT4, array_int4(p, l->attempt_nodes[at]));
    HANGING(l->attempts, attempts, OID_INT4, array_int4_or_null(p, row->log_lines, 0));
    HANGING(l->attempts, attempts, OID_TEXT, clean(p, row->code));
    HANGING(l->attempts, attempts, OID_TEXT, clean(p, row->error));
    HANGING(l->logs, logs, OID_INT8, array_int8(p, t->body.id));
    HANGING(l->logs, logs, OID_INT4, array_int4(p, row->number));
    HANGING(l->logs, logs, OID_INT8, array_int8(p, row->at_us));
    HANGING(l->logs, logs, OID_TEXT, clean(p, row->text ? row->text : ""));
    HANGING(l->changes, changes, OID_INT8, array_int8(p, t->body.id));
    HANGING(l->changes, changes, OID_INT4, array_int4(p, row->number));
    HANGING(l->changes, changes, OID_INT8, array_int8(p, row->at_us));
    HANGING(l->changes, changes, OID_INT2, array_int2(p, row->from));
    HANGING(l->changes, changes, OID_INT2, array_int2(p, row->to));
    HANGING(l->changes, changes, OID_INT4, array_int4(p, (int32_t)row->fence));
    HANGING(l->changes, changes, OID_INT4, array_int4(p, l->change_nodes[at]));
    HANGING(l->changes, changes, OID_TEXT, clean(p, row->detail));
}

/* ---- parts --------------------------------------------------------------------------------------------------------------- */

static void put_call(loading *l, params *p)
{
    pg_params_begin(p);
    pg_params_call(l->s, p);
    pg_param_text(p, l->call->move);
    pg_param_text(p, l->call->before);
    pg_param_text(p, l->call->position);
}

static void put_tasks(loading *l, params *p, interned *n)
{
    pg_array_begin(p, OID_TEXT);
    for (int i = 0; i < l->nodes_count; i++) clean(p, l->nodes[i]);
    pg_array_end(p);
    put_bodies(l, p, n);
    put_states(l, p);
    put_ends(l, p);
    put_hanging(l, p);
    SPARSE(OID_INT2, t->line && l->call->move, array_int2(p, t->line));
    pg_put_families(p, l->d);
}

/* "<bucket> <count>;" */
static void put_buckets(params *p, const int64_t *counts)
{
    char text[PAWL_BUCKETS * 24];
    size_t n = 0;
    for (int i = 0; counts && i < PAWL_BUCKETS; i++)
        if (counts[i]) n += (size_t)snprintf(text + n, sizeof text - n, "%d %lld;", i, (long long)counts[i]);
    if (n) pg_array_bytes(p, text, n);
    else array_null(p);
}

#define EACH(list, oid, write)                                   \
    do {                                                         \
        pg_array_begin(p, oid);                                  \
        for (int i = 0; i < l->d->count; i++) {                  \
            const __typeof__(*l->d->list) *row = &l->d->list[i]; \
            (void)row;                                           \
            write;                                               \
        }                                                        \
        pg_array_end(p);                                         \
    } while (0)

static void put_minutes(loading *l, params *p, interned *n)
{
    EACH(minutes, OID_INT8, array_int8(p, row->minute));
    EACH(minutes, OID_INT4, array_int4(p, interned_id(n, row->queue)));
    EACH(minutes, OID_INT4, array_int4(p, interned_id(n, row->type)));
    EACH(minutes, OID_INT2, array_int2(p, row->outcome));
    EACH(minutes, OID_INT8, array_int8(p, row->count));
    EACH(minutes, OID_TEXT, put_buckets(p, row->wait));
    EACH(minutes, OID_TEXT, put_buckets(p, row->run));
}

static void put_acts(loading *l, params *p)
{
    EACH(acts, OID_INT8, array_int8(p, row->at_us));
    EACH(acts, OID_TEXT, clean(p, row->who ? row->who : ""));
    EACH(acts, OID_TEXT, clean(p, row->action ? row->action : ""));
    EACH(acts, OID_INT8, array_int8_or_null(p, row->id, 0));
    EACH(acts, OID_TEXT, clean(p, row->detail));
}

static void put_settings(loading *l, params *p, interned *n)
{
    EACH(queues, OID_INT4, array_int4(p, interned_id(n, row->name)));
    EACH(queues, OID_BOOL, array_bool(p, row->paused));
    for (int which = 0; which < 2; which++) {
        pg_array_begin(p, which ? OID_INT8 : OID_INT4);
        for (int i = 1; i < 1024; i++) {
            if (l->d->ceilings_ms[i] <= 0) continue;
            if (which) array_int8(p, l->d->ceilings_ms[i]);
            else array_int4(p, i);
        }
        pg_array_end(p);
    }
    pg_param_int8(p, l->d->last_id);
    if (l->d->audit_cut_us == INT64_MIN) pg_param_null(p);
    else pg_param_int8(p, l->d->audit_cut_us);
}

static void key(params *p, pawl_bytes key) { pg_array_bytes(p, key.data ? key.data : "", key.len); }

static void put_limits(loading *l, params *p, interned *n)
{
    EACH(limits, OID_INT4, array_int4(p, interned_id(n, row->type)));
    EACH(limits, OID_BYTEA, key(p, row->key));
    EACH(limits, OID_INT4, array_int4(p, row->rate.permits));
    EACH(limits, OID_INT8, array_int8(p, row->rate.period_us));
    EACH(limits, OID_INT4, array_int4(p, row->rate.burst));
    EACH(limits, OID_INT8, array_int8(p, row->rate.horizon_us));
    EACH(limits, OID_INT4, array_int4(p, limit_flags(&row->rate, row->paused)));
}

static void put_budgets(loading *l, params *p, interned *n)
{
    EACH(budgets, OID_INT4, array_int4(p, interned_id(n, row->type)));
    EACH(budgets, OID_BYTEA, key(p, row->key));
    EACH(budgets, OID_INT8, array_int8(p, l->budgets[i].tat.us));
    EACH(budgets, OID_INT4, array_int4(p, l->budgets[i].tat.part));
    EACH(budgets, OID_INT4, array_int4(p, l->budgets[i].permits));
    EACH(budgets, OID_INT8, array_int8(p, l->budgets[i].period_us));
    EACH(budgets, OID_INT4, array_int4(p, l->budgets[i].burst));
    EACH(budgets, OID_INT8, array_int8(p, l->budgets[i].seen_us));
    EACH(budgets, OID_INT8, array_int8(p, l->budgets[i].epoch));
}

static void put_bounds(loading *l, params *p, interned *n)
{
    EACH(bounds, OID_INT2, array_int2(p, row->scope));
    EACH(bounds, OID_INT4, array_int4(p, interned_id(n, row->name)));
    EACH(bounds, OID_BYTEA, key(p, row->key));
    EACH(bounds, OID_INT4, array_int4(p, row->most));
    EACH(bounds, OID_BOOL, array_bool(p, row->ordered));
}

/* By the server's clock, as it is now. */
static bool settle_budgets(loading *l)
{
    params *p = &l->c->params;
    pg_params_begin(p);
    pg_params_call(l->s, p);
    p->count = 1;
    PGresult *r = pg_conn_call(l->c, SQL_load_now, CALL_READS);
    if (!r) return false;
    for (int i = 0; i < l->d->count; i++) l->budgets[i] = budget_arrives(&l->d->budgets[i], pg_get_int(r, 0, 0));
    PQclear(r);
    return true;
}

/* ---- the call ------------------------------------------------------------------------------------------------------------ */

static sql_name put_page(loading *l, params *p, interned *n)
{
    switch (l->d->part) {
    case PAWL_PART_MINUTES: put_minutes(l, p, n); return SQL_load_minutes;
    case PAWL_PART_ACTS: put_acts(l, p); return SQL_load_acts;
    case PAWL_PART_SETTINGS: put_settings(l, p, n); return SQL_load_settings;
    case PAWL_PART_LIMITS: put_limits(l, p, n); return SQL_load_limits;
    case PAWL_PART_BUDGETS: put_budgets(l, p, n); return SQL_load_budgets;
    case PAWL_PART_BOUNDS: put_bounds(l, p, n); return SQL_load_bounds;
    case PAWL_PART_SCHEDULES: pg_put_schedules(p, l->d); return SQL_load_schedules;
    case PAWL_PART_BATCHES: pg_put_batches(p, l->d); return SQL_load_batches;
    case PAWL_PART_KEPT: pg_put_kept(p, l->d); return SQL_load_kept;
    default: put_tasks(l, p, n); return SQL_load;
    }
}

static PGresult *send_page(loading *l)
{
    if (l->budgets && !settle_budgets(l)) return NULL;
    if (!open_names(l)) return NULL;
    put_call(l, &l->c->params);
    sql_name which = put_page(l, &l->c->params, &l->s->names);
    interned_close(&l->s->names);
    return pg_conn_call(l->c, which, CALL_WRITES);
}

static int place(const loading *l, int i) { return l->places ? l->places[i] : i; }

/* "{7,9}": those of the page get this result. */
static void read_results(loading *l, const char *ids, pawl_loaded result)
{
    while (ids && *ids && *ids != '}') {
        pawl_id id = strtoll(ids + 1, NULL, 10);
        for (int i = 0; i < l->d->count; i++)
            if (l->d->tasks[i].body.id == id) l->call->results[place(l, i)] = result;
        ids += 1 + strcspn(ids + 1, ",}");
    }
}

static void read_answer(loading *l, const PGresult *r)
{
    bool tasks = l->d->part == PAWL_PART_TASKS;
    l->call->stale = tasks ? pg_get_truth(r, 0, 0) : !pg_get_truth(r, 0, 0);
    if (l->call->stale || !tasks || !l->call->results) return;
    for (int i = 0; i < l->d->count; i++) l->call->results[place(l, i)] = PAWL_LOADED_NEW;
    read_results(l, pg_get_text(r, 0, 1), PAWL_LOADED_BEFORE);
    read_results(l, pg_get_text(r, 0, 2), PAWL_LOADED_TAKEN);
    read_results(l, pg_get_text(r, 0, 3), PAWL_LOADED_KEY);
}

static pawl_status load(loading *l, pawl_error *err)
{
    int tries = 0;
    PGresult *r;
    do r = send_page(l);
    while (!r && pg_call_again(l->s, l->c, &tries));
    if (!r) return pg_conn_fail(l->c, what, err);
    read_answer(l, r);
    if (!l->call->move && !l->call->stale) pg_watch_tell(l->s, l->c, "*", true);
    PQclear(r);
    return PAWL_OK;
}

/* ---- an import: whom a task waits for ------------------------------------------------------------------------------------ */

static bool waits(const pawl_record *t, int k) { return t->state == PAWL_WAITING && t->parents[k].state != PAWL_EDGE_TOLD; }

static bool is_among(const pawl_id *ids, int count, pawl_id id)
{
    for (int i = 0; i < count; i++)
        if (ids[i] == id) return true;
    return false;
}

/* Parents that are stored; -1: that could not be asked. */
static int ask_parents(loading *l, pawl_id **found)
{
    params *p = &l->c->params;
    int count = 0;
    pg_params_begin(p);
    pg_array_begin(p, OID_INT8);
    for (int i = 0; i < l->d->count; i++)
        for (int k = 0; k < l->d->tasks[i].parents_count; k++)
            if (waits(&l->d->tasks[i], k)) array_int8(p, l->d->tasks[i].parents[k].id);
    pg_array_end(p);
    PGresult *r = pg_conn_call(l->c, SQL_load_found, CALL_READS);
    if (!r) return -1;
    *found = pawl_arena_alloc(l->arena, (size_t)(PQntuples(r) + l->d->count + 1) * sizeof **found);
    for (; *found && count < PQntuples(r); count++) (*found)[count] = pg_get_int(r, count, 0);
    if (!*found) pg_conn_no_memory(l->c);
    PQclear(r);
    return *found ? count : -1;
}

static bool is_orphan(const pawl_record *t, const pawl_id *found, int count)
{
    for (int k = 0; k < t->parents_count; k++)
        if (waits(t, k) && !is_among(found, count, t->parents[k].id)) return true;
    return false;
}

/* Who waits for one that is neither stored nor comes before it is left out of the page. */
static bool leave_out_orphans(loading *l)
{
    bool any = false;
    pawl_id *found = NULL;
    for (int i = 0; l->d->part == PAWL_PART_TASKS && !l->call->move && i < l->d->count; i++)
        any = any || (l->d->tasks[i].state == PAWL_WAITING && l->d->tasks[i].parents_count > 0);
    if (!any) return true;
    int known = ask_parents(l, &found);
    if (known < 0) return false;
    pawl_dump *page = pawl_arena_alloc(l->arena, sizeof *page);
    pawl_record *tasks = pawl_arena_alloc(l->arena, (size_t)l->d->count * sizeof *tasks);
    l->places = pawl_arena_alloc(l->arena, (size_t)l->d->count * sizeof *l->places);
    if (!page || !tasks || !l->places) {
        pg_conn_no_memory(l->c);
        return false;
    }
    *page = *l->d;
    page->tasks = tasks;
    page->count = 0;
    for (int i = 0; i < l->d->count; i++) {
        if (is_orphan(&l->d->tasks[i], found, known)) {
            if (l->call->results) l->call->results[i] = PAWL_LOADED_ORPHAN;
            continue;
        }
        found[known++] = l->d->tasks[i].body.id;
        l->places[page->count] = i;
        tasks[page->count++] = l->d->tasks[i];
    }
    l->d = page;
    return true;
}

static bool prepare(loading *l)
{
    if (l->d->part == PAWL_PART_TASKS) return number_nodes(l);
    if (l->d->part != PAWL_PART_BUDGETS) return true;
    l->budgets = pawl_arena_alloc(l->arena, (size_t)(l->d->count + 1) * sizeof *l->budgets);
    return l->budgets != NULL;
}

pawl_status pg_load(pawl_store *store, pawl_load *call, pawl_arena *arena, pawl_error *err)
{
    pg_store *s = store_of(store);
    loading l = {.s = s, .call = call, .d = call->page, .arena = arena};
    pawl_status status = check(&l, err);
    if (status) return status;
    l.c = pg_store_take(s, WRITER);
    if (!leave_out_orphans(&l)) status = pg_conn_fail(l.c, what, err);
    else if (!prepare(&l)) status = no_memory(&l, err);
    else status = load(&l, err);
    pg_store_give(s, l.c);
    return status;
}
