/* Rows of tasks: every change of a task's state is a row that leaves one table and enters another, counted as it goes.
 *
 * The trail. What pawl_audit would repeat is not written there but read from the task's own rows: the dispatch from the body,
 * the grant of the current lease from pawl_leased, and grant and end of the last lease from pawl_done or pawl_failed
 * (`derived`). A task that is dispatched, leased once and finished has a full trail without a single audit row. When a lease
 * ends in another way (released, taken back, rescued), its grant becomes a row of its own (audit_put_grant), followed by the
 * row of that end.
 */
#include "base/check.h"
#include "core/task.h"
#include "store/sqlite/place.h"
#include "store/sqlite/quota.h"
#include <string.h>

static const char json_type[] = "application/json";

/* ---- leased and live ----------------------------------------------------------------------------------------------------- */

bool leased_get(conn *c, pawl_id id, task_row *row)
{
    if (known_get(c, id, row)) return true;
    query q = query_on(c, SQL_leased_get);
    put_int(&q, id);
    if (!query_row(&q)) return false;
    *row = (task_row){.id = id, .state = PAWL_LEASED};
    row->fence = get_int(&q);
    row->node = get_int(&q);
    row->queue_id = get_int(&q);
    row->type_id = get_int(&q);
    row->leased_us = get_int(&q);
    row->born_leased = get_is_null(&q);
    row->run_at_us = get_int_or(&q, row->leased_us);
    row->started_us = get_int_or(&q, row->leased_us);
    row->not_started = get_int(&q) != 0;
    row->mark = get_int(&q) != 0;
    row->class = (int)get_int(&q);
    row->cancel_asked = get_int(&q) != 0;
    row->runs = (int)get_int(&q);
    row->failures = (int)get_int(&q);
    row->interruptions = (int)get_int(&q);
    row->rescues = (int)get_int(&q);
    row->strikes = (int)get_int(&q);
    row->level = (int)get_int(&q);
    query_end(&q);
    return true;
}

bool live_get(conn *c, pawl_id id, task_row *row)
{
    query q = query_on(c, SQL_live_get);
    put_int(&q, id);
    if (!query_row(&q)) return false;
    *row = (task_row){.id = id};
    row->state = (pawl_state)get_int(&q);
    row->queue_id = get_int(&q);
    row->type_id = get_int(&q);
    row->priority = (int)get_int(&q);
    row->class = (int)get_int(&q);
    row->run_at_us = get_int(&q);
    row->fence = get_int(&q);
    row->runs = (int)get_int(&q);
    row->failures = (int)get_int(&q);
    row->interruptions = (int)get_int(&q);
    row->rescues = (int)get_int(&q);
    row->strikes = (int)get_int(&q);
    row->level = (int)get_int(&q);
    row->unreadable = (int)get_int(&q);
    query_end(&q);
    return true;
}

bool task_get(conn *c, pawl_id id, task_row *row) { return leased_get(c, id, row) || live_get(c, id, row); }

pawl_state task_ended(conn *c, pawl_id id, int64_t *fence)
{
    static const sql_name where[] = {SQL_done_state, SQL_failed_state};
    for (int i = 0; i < 2; i++) {
        query q = query_on(c, where[i]);
        put_int(&q, id);
        if (!query_row(&q)) continue;
        pawl_state state = (pawl_state)get_int(&q);
        if (fence) *fence = get_int(&q);
        query_end(&q);
        return state;
    }
    return PAWL_STATE_NONE;
}

static void put_counters(query *q, const task_row *row)
{
    put_int(q, row->runs);
    put_int(q, row->failures);
    put_int(q, row->interruptions);
    put_int(q, row->rescues);
}

void leased_put(tx *t, const task_row *row)
{
    query q = query_on(t->c, SQL_leased_put);
    put_int(&q, row->id);
    put_int(&q, row->fence);
    put_int(&q, row->node);
    put_int(&q, row->queue_id);
    put_int(&q, row->type_id);
    put_int(&q, row->leased_us);
    if (row->born_leased) put_null(&q);
    else put_int(&q, row->run_at_us);
    put_int(&q, row->not_started);
    put_int(&q, row->mark);
    put_int(&q, row->class);
    put_counters(&q, row);
    put_int(&q, row->strikes);
    put_int(&q, row->level);
    if (query_run(&q)) known_put(t->c, row);
    tally_state(t, row->queue_id, PAWL_LEASED, 1);
    tally_lease(t, row->node, 1);
}

void leased_drop(tx *t, const task_row *row)
{
    known_drop(t->c, row->id);
    if (t->bounded) places_leave(t, row, false);
    query q = query_on(t->c, SQL_leased_drop);
    put_int(&q, row->id);
    query_run(&q);
    if (row->cancel_asked) {
        q = query_on(t->c, SQL_cancel_drop);
        put_int(&q, row->node);
        put_int(&q, row->id);
        query_run(&q);
    }
    tally_state(t, row->queue_id, PAWL_LEASED, -1);
    tally_lease(t, row->node, -1);
}

void live_put(tx *t, const task_row *row)
{
    int64_t tenant_id = t->bounded ? turn_tenant(t, row) : -1;
    query q = query_on(t->c, SQL_live_put);
    put_int(&q, row->id);
    put_int(&q, row->state);
    put_int(&q, row->queue_id);
    put_int(&q, row->type_id);
    put_int(&q, row->priority);
    put_int(&q, row->class);
    put_int(&q, row->run_at_us);
    put_int(&q, row->blocked);
    put_int(&q, row->fence);
    put_counters(&q, row);
    put_int(&q, row->strikes);
    put_int(&q, row->level);
    put_int(&q, row->unreadable);
    put_int_or_null(&q, tenant_id, -1);
    query_run(&q);
    tally_state(t, row->queue_id, row->state, 1);
}

void live_drop(tx *t, const task_row *row)
{
    query q = query_on(t->c, SQL_live_drop);
    put_int(&q, row->id);
    query_run(&q);
    tally_state(t, row->queue_id, row->state, -1);
}

/* ---- ends and attempts --------------------------------------------------------------------------------------------------- */

static int64_t runlog_put(tx *t, pawl_id id, int number, const pawl_execution *run)
{
    if (run->log.len == 0) return 0;
    query q = query_on(t->c, SQL_runlog_put);
    put_int(&q, id);
    put_int(&q, number);
    put_int(&q, t->now_us);
    if (q.st) put_checked(&q, sqlite3_bind_text64(q.st, ++q.param, run->log.data, run->log.len, SQLITE_STATIC, SQLITE_UTF8));
    return query_run(&q) ? sqlite3_last_insert_rowid(t->c->db) : 0;
}

static void put_log(query *q, int64_t log_id, const pawl_execution *run)
{
    put_int_or_null(q, log_id, 0);
    put_int_or_null(q, run->log_lines, 0);
}

void attempt_put(tx *t, const task_row *row, const pawl_execution *run)
{
    int64_t log_id = runlog_put(t, row->id, row->runs + 1, run);
    query q = query_on(t->c, SQL_attempt_put);
    put_int(&q, row->id);
    put_int(&q, row->runs + 1);
    put_int(&q, run->outcome);
    put_int(&q, run->started_us);
    put_int(&q, run->finished_us);
    put_int(&q, row->fence);
    put_int(&q, row->node);
    put_log(&q, log_id, run);
    put_text(&q, run->code);
    put_text(&q, run->error);
    query_run(&q);
}

static rollup_outcome rollup_of_end(pawl_state to)
{
    return to == PAWL_SUCCEEDED ? ROLLUP_SUCCEEDED : to == PAWL_FAILED ? ROLLUP_FAILED : ROLLUP_CANCELLED;
}

static void count_end(tx *t, const task_row *row, pawl_state to, const pawl_execution *run, bool ran)
{
    if (to == PAWL_FAILED) tally_state(t, row->queue_id, PAWL_FAILED, 1);
    else tally_finished(t, row->id, to);
    if (ran) tally_run(t, row->queue_id, row->type_id, rollup_of_end(to), run, row->run_at_us);
    else tally_count(t, row->queue_id, row->type_id, rollup_of_end(to));
}

void end_put(tx *t, const task_row *row, const task_end *end)
{
    static const pawl_execution nothing = {.progress = -1};
    const pawl_execution *run = end->run ? end->run : &nothing;
    bool ran = run->outcome != PAWL_ATTEMPT_NONE;
    int64_t log_id = ran && !CANARY(LOG_DROPPED) ? runlog_put(t, row->id, row->runs + 1, run) : 0;
    query q = query_on(t->c, end->to == PAWL_FAILED ? SQL_failed_put : SQL_done_put);
    put_int(&q, row->id);
    put_int(&q, end->to);
    put_int(&q, t->now_us);
    put_int(&q, row->fence);
    put_int(&q, row->node);
    put_int(&q, run->outcome);
    put_int_or_null(&q, ran ? run->started_us : row->started_us, 0);
    put_int_or_null(&q, ran ? run->finished_us - run->started_us : 0, 0);
    put_int_or_null(&q, row->born_leased ? 0 : row->leased_us, 0);
    put_int_or_null(&q, row->born_leased ? 0 : row->run_at_us, 0);
    put_int(&q, row->runs + ran);
    put_int(&q, row->failures);
    put_int(&q, row->interruptions);
    put_int(&q, row->rescues);
    put_int(&q, end->level);
    put_int(&q, (end->derived ? END_DERIVED : 0) | (row->cancel_asked ? END_CANCEL_ASKED : 0));
    put_log(&q, log_id, run);
    put_int_or_null(&q, ran ? run->progress : -1, -1);
    put_text(&q, ran ? run->progress_text : NULL);
    put_text(&q, run->code);
    put_text(&q, run->error);
    put_text(&q, end->reason);
    put_text(&q, end->result_type);
    put_text(&q, end->result_ref);
    put_bytes(&q, end->result);
    query_run(&q);
    if (t->bounded) places_end(t, row);
    count_end(t, row, end->to, run, ran);
    schedule_ended(t, row->id, end->to, row->runs + ran > 0);
    family_ended(t, row, end->to);
}

void end_keep_progress(tx *t, const task_row *row, pawl_state to)
{
    query q = query_on(t->c, to == PAWL_FAILED ? SQL_failed_progress : SQL_done_progress);
    put_int(&q, row->id);
    query_run(&q);
}

/* Every task has a body, so that it can be shown: if it is gone, an empty one stands in. */
static void body_stand_in(tx *t, const task_row *row)
{
    query q = query_on(t->c, SQL_body_stand_in);
    put_int(&q, row->id);
    put_int(&q, row->type_id);
    put_int(&q, row->queue_id);
    put_int(&q, t->now_us);
    put_int(&q, row->priority);
    put_int(&q, PAWL_PENDING);
    put_int(&q, row->level);
    query_run(&q);
    tally_born(t, row, 0);
}

void unreadable_put(tx *t, const task_row *row)
{
    task_end end = {.to = task_move(row->state, TASK_REFUSED), .reason = "unreadable", .level = row->level, .derived = true};
    CHECK(end.to == PAWL_FAILED);
    slotted had;
    slotted_take(t, row, &had);
    live_drop(t, row);
    body_stand_in(t, row);
    end_put(t, row, &end);
}

/* ---- the trail ----------------------------------------------------------------------------------------------------------- */

static void audit_row(tx *t, pawl_id id, int64_t at_us, pawl_state from, pawl_state to, int64_t fence, int64_t node,
                      const char *detail)
{
    query q = query_on(t->c, SQL_audit_put);
    put_int(&q, id);
    put_int(&q, at_us);
    put_int(&q, from);
    put_int(&q, to);
    put_int(&q, fence);
    put_int(&q, node);
    put_text(&q, detail);
    query_run(&q);
}

void audit_put(tx *t, const task_row *row, pawl_state to, const char *detail)
{
    audit_row(t, row->id, t->now_us, row->state, to, row->fence, row->node, detail);
}

void audit_put_grant(tx *t, const task_row *row)
{
    if (!audit_wanted(row->level, AUDIT_CHANGE)) return;
    pawl_state from = row->born_leased ? PAWL_STATE_NONE : PAWL_PENDING;
    audit_row(t, row->id, row->leased_us, from, PAWL_LEASED, row->fence, row->node, NULL);
}

void audit_put_dispatch(tx *t, pawl_id id)
{
    query q = query_on(t->c, SQL_audit_put_dispatch);
    put_int(&q, id);
    query_run(&q);
}

void oplog_put(tx *t, const char *who, const char *action, pawl_id id, const char *detail)
{
    if (!who) return;
    query q = query_on(t->c, SQL_oplog_put);
    put_int(&q, t->now_us);
    put_text(&q, who);
    put_text(&q, action);
    put_int_or_null(&q, id, 0);
    put_text(&q, detail);
    query_run(&q);
}

/* ---- bodies and keys ----------------------------------------------------------------------------------------------------- */

static void put_content_type(query *q, const char *type)
{
    if (type && strcmp(type, json_type) == 0) put_int(q, 1);
    else put_text(q, type);
}

static void put_rest_of_body(query *q, const pawl_body *b)
{
    put_content_type(q, b->content_type);
    put_text(q, b->created_by);
    put_text(q, b->traceparent);
    put_text(q, b->headers);
    put_bytes(q, b->rate_key);
    put_bytes(q, b->payload);
}

void body_put(tx *t, const pawl_body *b, pawl_id id, int64_t tenant_id, const task_row *row)
{
    query q = query_on(t->c, SQL_body_put);
    put_int(&q, id);
    put_int(&q, row->type_id);
    put_int(&q, row->queue_id);
    put_int(&q, b->created_us);
    put_int(&q, b->priority);
    put_int(&q, row->state);
    put_int(&q, row->level);
    put_int(&q, b->audit);
    put_int_or_null(&q, tenant_id, 0);
    put_int_or_null(&q, b->max_attempts, 0);
    put_int_or_null(&q, b->timeout_us, 0);
    put_int_or_null(&q, b->retry_of, 0);
    put_text(&q, b->key);
    put_rest_of_body(&q, b);
    query_run(&q);
}

void body_replace(tx *t, const pawl_body *b, const task_row *row)
{
    query q = query_on(t->c, SQL_body_replace);
    put_int(&q, row->type_id);
    put_int(&q, row->queue_id);
    put_int(&q, b->priority);
    put_int(&q, row->level);
    put_int(&q, b->audit);
    put_int_or_null(&q, b->max_attempts, 0);
    put_int_or_null(&q, b->timeout_us, 0);
    put_rest_of_body(&q, b);
    put_int(&q, row->id);
    query_run(&q);
}

int priority_of(tx *t, pawl_id id)
{
    query q = query_on(t->c, SQL_body_priority);
    put_int(&q, id);
    int priority = query_row(&q) ? (int)get_int(&q) : 0;
    query_end(&q);
    return priority;
}

static const char *get_content_type(query *q)
{
    if (sqlite3_column_type(q->st, q->column) != SQLITE_INTEGER) return get_text(q);
    q->column++;
    return json_type;
}

pawl_body *body_get(conn *c, const pawl_allocator *a, pawl_id id)
{
    query q = query_on(c, SQL_body_get);
    put_int(&q, id);
    if (!query_row(&q)) return NULL;
    pawl_body b = {.id = id};
    b.type = name_text(c, get_int(&q));
    b.queue = name_text(c, get_int(&q));
    b.created_us = get_int(&q);
    b.priority = (int)get_int(&q);
    b.audit = (pawl_audit)get_int(&q);
    b.tenant = get_is_null(&q) ? (q.column++, "") : name_text(c, get_int(&q));
    b.max_attempts = (int)get_int(&q);
    b.timeout_us = get_int(&q);
    b.retry_of = get_int(&q);
    b.key = get_text(&q);
    b.content_type = get_content_type(&q);
    b.created_by = get_text(&q);
    b.traceparent = get_text(&q);
    b.headers = get_text(&q);
    b.rate_key = get_bytes(&q);
    b.payload = get_bytes(&q);
    pawl_body *copy = NULL;
    if (b.type && b.queue && b.tenant && !c->rc) {
        copy = pawl_body_copy(a, &b);
        if (!copy) conn_note(c, SQLITE_NOMEM);
    }
    query_end(&q);
    return copy;
}

void key_put(tx *t, const pawl_body *body, int64_t tenant_id, pawl_id id, pawl_id before)
{
    query q = query_on(t->c, SQL_key_put);
    put_text(&q, body->key);
    put_int(&q, tenant_id);
    put_int(&q, before);
    put_int(&q, before ? before : id);
    query_run(&q);
    if (!before) return;
    q = query_on(t->c, SQL_key_move);
    put_int(&q, id);
    put_text(&q, body->key);
    put_int(&q, tenant_id);
    query_run(&q);
}
