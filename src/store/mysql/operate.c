/* What people ask: CANCEL, RETRY, ACK, QUEUE. Each leaves a row in the operator log if it says who asked and changes anything. */
#include "base/check.h"
#include "core/task.h"
#include "store/mysql/family.h"
#include "store/mysql/quota.h"
#include <stdio.h>

/* ---- cancel -------------------------------------------------------------------------------------------------------------- */

static void ask_holder(work *w, pawl_op *op, const task_row *row)
{
    op->result = PAWL_OP_ASKED;
    if (row->cancel_asked) return;
    my_put_int(w->c, row->id);
    my_add(w->c, SQL_leased_cancel);
    my_rows_begin(w, TABLE_CANCELS);
    buf_fmt(&w->tables[TABLE_CANCELS].text, "%lld,%lld,%lld", (long long)row->node, (long long)row->id, (long long)row->fence);
    my_rows_end(w, TABLE_CANCELS);
}

static void cancel_now(work *w, pawl_op *op, task_row *row)
{
    task_end end = {.to = task_move(row->state, TASK_CANCEL), .level = op->audit, .derived = true};
    CHECK(end.to == PAWL_CANCELLED);
    my_quota_give_back(w, row);
    if (row->state == PAWL_LEASED) {
        my_task_take_back(w, row);
        if (audit_wanted(op->audit, AUDIT_CHANGE)) my_audit_put(w, row, end.to, NULL, 0);
        end.derived = false;
    } else {
        if (row->state == PAWL_WAITING && audit_wanted(op->audit, AUDIT_CHANGE)) my_audit_put(w, row, end.to, NULL, 2);
        end.derived = row->state != PAWL_WAITING;
        my_live_drop(w, row);
    }
    my_end_put(w, row, &end);
    op->result = PAWL_OP_DONE;
}

void my_apply_cancel(work *w, pawl_op *op)
{
    task_row *row = my_task(w, op->id);
    op->out_state = row ? row->state : PAWL_STATE_NONE;
    if (!row || pawl_state_terminal(row->state)) {
        op->result = row ? PAWL_OP_CONFLICT : PAWL_OP_NOT_FOUND;
        return;
    }
    if (w->f->inner) op->audit = (pawl_audit)row->level;
    if (row->state == PAWL_LEASED && !row->not_started) ask_holder(w, op, row);
    else cancel_now(w, op, row);
    my_oplog_put(w, op->by, "cancel", op->id, NULL);
}

/* ---- retry --------------------------------------------------------------------------------------------------------------- */

typedef struct old_body { /* what is needed of the body of the task that is tried again */
    bool found;
    int32_t queue_id, type_id, tenant_id;
    int priority;
    pawl_bytes key; /* data NULL: none */
    pawl_id holder; /* of the key */
} old_body;

static bool read_body(work *w, pawl_id id, old_body *b)
{
    conn *c = w->c;
    *b = (old_body){0};
    my_add_ids(c, SQL_body_heads, &id, 1);
    if (!my_send(c, CALL_READS)) return false;
    const answer *a = my_answer(c, SQL_body_heads);
    if (a->rows == 0) return true;
    *b = (old_body){.found = true,
                    .queue_id = (int32_t)get_int(a, 0, 1),
                    .type_id = (int32_t)get_int(a, 0, 2),
                    .priority = (int)get_int(a, 0, 3),
                    .tenant_id = (int32_t)get_int(a, 0, 6)};
    if (get_null(a, 0, 7)) return true;
    pawl_bytes key = get_bytes(a, 0, 7);
    b->key = (pawl_bytes){pawl_arena_bytes(w->arena, key.data, key.len), key.len};
    if (b->key.data) return true;
    my_conn_no_memory(c);
    return false;
}

/* The key's holder, locked. */
static bool read_holder(work *w, old_body *b)
{
    conn *c = w->c;
    key_row key = {.key = b->key, .tenant_id = b->tenant_id};
    if (!b->key.data) return true;
    my_script(c);
    my_add_keys(w, &key, 1);
    if (!my_send(c, CALL_READS)) return false;
    const answer *a = my_answer(c, SQL_keys_lock);
    b->holder = a->rows > 0 ? get_int(a, 0, 2) : 0;
    pawl_id holder = b->holder;
    return !holder || my_load(w, &holder, 1, LOAD_LOOK);
}

static void mark_retried(work *w, const pawl_op *op, const task_row *old, pawl_id as, int32_t queue_id)
{
    my_put_int(w->c, op->id);
    my_put_int(w->c, as);
    my_put_int(w->c, w->now_us);
    my_put_text(w->c, op->by);
    my_add(w->c, old->state == PAWL_FAILED ? SQL_failed_retried : SQL_done_retried);
    if (old->state == PAWL_FAILED && !old->resolved) my_count(w, queue_id, PAWL_FAILED, -1);
}

static void move_key(work *w, const old_body *b, pawl_id id)
{
    conn *c = w->c;
    if (!b->key.data) return;
    if (b->holder) {
        my_put_bytes(c, b->key);
        my_put_int(c, b->tenant_id);
        my_put_int(c, b->holder);
        my_add(c, SQL_key_old);
        my_put_bytes(c, b->key);
        my_put_int(c, b->tenant_id);
        my_put_int(c, id);
        my_add(c, SQL_key_move);
        return;
    }
    my_rows_begin(w, TABLE_KEYS);
    lit_bytes(c, &w->tables[TABLE_KEYS].text, b->key);
    buf_fmt(&w->tables[TABLE_KEYS].text, ",%d,0,%lld", (int)b->tenant_id, (long long)id);
    my_rows_end(w, TABLE_KEYS);
}

/* The body is copied inside the server. */
static void retry_as_new(work *w, pawl_op *op, const task_row *old, const old_body *b)
{
    conn *c = w->c;
    pawl_id id = op->u.retry.new_id ? op->u.retry.new_id : my_work_draw_id(w);
    task_row row = {.id = id, .state = task_move(PAWL_STATE_NONE, TASK_DISPATCHED), .run_at_us = w->now_us};
    row.queue_id = b->queue_id;
    row.type_id = b->type_id;
    row.priority = b->priority;
    row.level = op->audit == PAWL_AUDIT_DEFAULT ? PAWL_AUDIT_FULL : op->audit;
    row.keyed = b->key.data != NULL;
    my_put_int(c, op->id);
    my_put_int(c, id);
    my_put_int(c, w->now_us);
    my_put_int(c, row.level);
    my_add(c, SQL_body_again);
    my_live_put(w, &row);
    move_key(w, b, id);
    my_roll(w, row.queue_id, row.type_id, ROLLUP_DISPATCHED);
    my_born(w, id);
    op->result = PAWL_OP_DONE;
    op->out_id = id;
    op->out_run_at_us = row.run_at_us;
    mark_retried(w, op, old, id, b->queue_id);
    my_family_retried(w, op->id, id);
    my_oplog_put(w, op->by, "retry", op->id, NULL);
}

/* Questions that come up on the way would lose what the script has gathered, so it is sent first. */
static bool retry_stored(work *w, pawl_op *op, const task_row *old)
{
    old_body b;
    if (!my_send(w->c, CALL_READS)) return false;
    my_script(w->c);
    if (!read_body(w, op->id, &b) || !read_holder(w, &b)) return false;
    pawl_id new_id = op->u.retry.new_id;
    if (new_id && !my_load(w, &new_id, 1, LOAD_LOOK)) return false;
    const task_row *holder = b.holder ? my_task(w, b.holder) : NULL;
    my_script(w->c);
    if (!b.found || old->unreadable) {
        op->result = PAWL_OP_CONFLICT; /* there is nothing to run again */
    } else if (holder && holder->state && !pawl_state_terminal(holder->state)) {
        op->result = PAWL_OP_EXISTING;
        op->out_id = b.holder;
        op->out_state = holder->state;
    } else if (new_id && my_task(w, new_id)) {
        op->result = PAWL_OP_COLLISION;
    } else {
        retry_as_new(w, op, old, &b);
    }
    return true;
}

bool my_apply_retry(work *w, pawl_op *op)
{
    const task_row *old = my_task(w, op->id);
    op->out_state = old ? old->state : PAWL_STATE_NONE;
    if (!old || !pawl_state_terminal(old->state)) op->result = old ? PAWL_OP_CONFLICT : PAWL_OP_NOT_FOUND;
    else if (old->state == PAWL_SUCCEEDED) op->result = PAWL_OP_CONFLICT;
    else if (old->retried_as) {
        op->result = PAWL_OP_EXISTING;
        op->out_id = old->retried_as;
    } else {
        return retry_stored(w, op, old);
    }
    return true;
}

/* ---- acknowledge, pause -------------------------------------------------------------------------------------------------- */

void my_apply_ack(work *w, pawl_op *op)
{
    const task_row *old = my_task(w, op->id);
    op->out_state = old ? old->state : PAWL_STATE_NONE;
    if (!old || old->state != PAWL_FAILED || old->resolved) {
        op->result = old && old->state ? PAWL_OP_CONFLICT : PAWL_OP_NOT_FOUND;
        return;
    }
    my_put_int(w->c, op->id);
    my_put_int(w->c, w->now_us);
    my_put_text(w->c, op->by);
    my_put_text(w->c, op->u.ack.note);
    my_add(w->c, SQL_failed_ack);
    my_count(w, old->queue_id, PAWL_FAILED, -1);
    my_oplog_put(w, op->by, "acknowledge", op->id, op->u.ack.note);
    op->result = PAWL_OP_DONE;
}

void my_apply_queue(work *w, flat_op *o)
{
    pawl_op *op = o->op;
    my_put_int(w->c, o->queue_id);
    my_put_int(w->c, op->u.queue.pause);
    my_add(w->c, SQL_queue_pause);
    my_queue(w, o->queue_id)->paused = op->u.queue.pause;
    my_oplog_put(w, op->by, op->u.queue.pause ? "pause" : "resume", 0, op->u.queue.queue);
    op->result = PAWL_OP_DONE;
}
