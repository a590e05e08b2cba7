/* What people ask: CANCEL, RETRY, ACK, QUEUE. Each leaves a row in the operator log if it says who asked and changes anything. */
#include "base/check.h"
#include "core/task.h"
#include "store/sqlite/family.h"
#include "store/sqlite/quota.h"

/* ---- cancel -------------------------------------------------------------------------------------------------------------- */

static void ask_holder(tx *t, pawl_op *op, const task_row *row)
{
    known_drop(t->c, row->id);
    query q = query_on(t->c, SQL_leased_cancel);
    put_int(&q, row->id);
    query_run(&q);
    q = query_on(t->c, SQL_cancel_put);
    put_int(&q, row->node);
    put_int(&q, row->id);
    query_run(&q);
    op->result = PAWL_OP_ASKED;
}

static void cancel_now(tx *t, pawl_op *op, task_row *row)
{
    task_end end = {.to = task_move(row->state, TASK_CANCEL), .level = op->audit, .derived = true};
    CHECK(end.to == PAWL_CANCELLED);
    quota_give_back(t, row);
    if (row->state == PAWL_LEASED) {
        task_take_back(t, row);
        if (audit_wanted(op->audit, AUDIT_CHANGE)) audit_put(t, row, end.to, NULL);
        end.derived = false;
    } else {
        if (row->state == PAWL_WAITING && audit_wanted(op->audit, AUDIT_CHANGE)) audit_put(t, row, end.to, NULL);
        end.derived = row->state != PAWL_WAITING;
        live_drop(t, row);
    }
    end_put(t, row, &end);
    op->result = PAWL_OP_DONE;
}

void apply_cancel(tx *t, pawl_op *op)
{
    task_row row;
    if (!task_get(t->c, op->id, &row)) {
        op->out_state = task_ended(t->c, op->id, NULL);
        op->result = op->out_state ? PAWL_OP_CONFLICT : PAWL_OP_NOT_FOUND;
        return;
    }
    op->out_state = row.state;
    if (row.state == PAWL_LEASED && !row.not_started) ask_holder(t, op, &row);
    else cancel_now(t, op, &row);
    oplog_put(t, op->by, "cancel", op->id, NULL);
}

/* ---- retry --------------------------------------------------------------------------------------------------------------- */

typedef struct ended_row {
    pawl_state state;
    pawl_id retried_as;
    bool resolved, unreadable;
} ended_row;

static bool ended_get(tx *t, pawl_id id, ended_row *row)
{
    static const sql_name where[] = {SQL_done_state, SQL_failed_state};
    for (int i = 0; i < 2; i++) {
        query q = query_on(t->c, where[i]);
        put_int(&q, id);
        if (!query_row(&q)) continue;
        row->state = (pawl_state)get_int(&q);
        q.column++;
        row->retried_as = get_int(&q);
        if (row->state == PAWL_FAILED) {
            row->resolved = get_int(&q) != 0;
            row->unreadable = get_int(&q) != 0;
        }
        query_end(&q);
        return true;
    }
    return false;
}

static void mark_retried(tx *t, const pawl_op *op, const ended_row *old, pawl_id as, int64_t queue_id)
{
    query q = query_on(t->c, old->state == PAWL_FAILED ? SQL_failed_retried : SQL_done_retried);
    put_int(&q, as);
    if (old->state == PAWL_FAILED) {
        put_int(&q, t->now_us);
        put_text(&q, op->by);
    }
    put_int(&q, op->id);
    query_run(&q);
    if (old->state == PAWL_FAILED && !old->resolved) tally_state(t, queue_id, PAWL_FAILED, -1);
}

/* The key's holder, if it is alive and another task. */
static bool key_taken(tx *t, const pawl_body *b, pawl_op *op)
{
    if (!b->key) return false;
    query q = query_on(t->c, SQL_key_get);
    put_text(&q, b->key);
    put_int(&q, b->tenant[0] ? name_id(t->c, b->tenant) : 0);
    pawl_id holder = query_row(&q) ? get_int(&q) : 0;
    query_end(&q);
    task_row row;
    if (!holder || !task_get(t->c, holder, &row)) return false;
    op->result = PAWL_OP_EXISTING;
    op->out_id = holder;
    op->out_state = row.state;
    return true;
}

static void retry_as_new(tx *t, pawl_op *op, const ended_row *old, pawl_body *b)
{
    pawl_op insert = {.kind = PAWL_OP_INSERT, .id = op->u.retry.new_id, .audit = op->audit};
    b->retry_of = op->id;
    insert.u.insert.body = b;
    apply_insert(t, &insert);
    bool stored = insert.result == PAWL_OP_DONE || insert.result == PAWL_OP_REPLACED;
    op->result = stored ? PAWL_OP_DONE : PAWL_OP_COLLISION;
    if (!stored) return;
    op->out_id = insert.out_id;
    op->out_run_at_us = insert.out_run_at_us;
    mark_retried(t, op, old, insert.out_id, name_id(t->c, b->queue));
    family_retried(t, op->id, insert.out_id);
    oplog_put(t, op->by, "retry", op->id, NULL);
}

static void retry_stored(tx *t, pawl_op *op, const ended_row *old)
{
    pawl_body *b = old->unreadable ? NULL : body_get(t->c, t->c->allocator, op->id);
    if (!b) {
        op->result = PAWL_OP_CONFLICT; /* there is nothing to run again */
        return;
    }
    if (!key_taken(t, b, op)) retry_as_new(t, op, old, b);
    t->c->allocator->release(t->c->allocator->ctx, b);
}

void apply_retry(tx *t, pawl_op *op)
{
    ended_row old = {0};
    if (!ended_get(t, op->id, &old)) {
        task_row row;
        op->out_state = task_get(t->c, op->id, &row) ? row.state : PAWL_STATE_NONE;
        op->result = op->out_state ? PAWL_OP_CONFLICT : PAWL_OP_NOT_FOUND;
        return;
    }
    op->out_state = old.state;
    if (old.state == PAWL_SUCCEEDED) op->result = PAWL_OP_CONFLICT;
    else if (old.retried_as) {
        op->result = PAWL_OP_EXISTING;
        op->out_id = old.retried_as;
    } else {
        retry_stored(t, op, &old);
    }
}

/* ---- acknowledge, pause -------------------------------------------------------------------------------------------------- */

static int64_t queue_of_body(tx *t, pawl_id id)
{
    query q = query_on(t->c, SQL_body_queue);
    put_int(&q, id);
    int64_t queue_id = query_row(&q) ? get_int(&q) : 0;
    query_end(&q);
    return queue_id;
}

void apply_ack(tx *t, pawl_op *op)
{
    ended_row old = {0};
    task_row row;
    if (!ended_get(t, op->id, &old) && task_get(t->c, op->id, &row)) old.state = row.state;
    op->out_state = old.state;
    if (old.state != PAWL_FAILED || old.resolved) {
        op->result = old.state ? PAWL_OP_CONFLICT : PAWL_OP_NOT_FOUND;
        return;
    }
    query q = query_on(t->c, SQL_failed_ack);
    put_int(&q, t->now_us);
    put_text(&q, op->by);
    put_text(&q, op->u.ack.note);
    put_int(&q, op->id);
    query_run(&q);
    tally_state(t, queue_of_body(t, op->id), PAWL_FAILED, -1);
    oplog_put(t, op->by, "acknowledge", op->id, op->u.ack.note);
    op->result = PAWL_OP_DONE;
}

void apply_queue(tx *t, pawl_op *op)
{
    int64_t queue_id = name_id(t->c, op->u.queue.queue);
    query q = query_on(t->c, SQL_queue_pause);
    put_int(&q, queue_id);
    put_int(&q, op->u.queue.pause);
    query_run(&q);
    tally_pause(t, queue_id, op->u.queue.pause);
    oplog_put(t, op->by, op->u.queue.pause ? "pause" : "resume", 0, op->u.queue.queue);
    op->result = PAWL_OP_DONE;
}
