/* apply: one atomic commit of many operations, with a receipt.
 *
 * Order inside the transaction: the node's life row, the receipt, the operations, then the sums of the tally and the heartbeat.
 *
 * An operation that the store cannot hold (a row too large) fails the transaction; it is marked REFUSED and the batch is
 * applied again without it. That is slow and never happens to those who keep to the limits of pawl.h.
 */
#include "base/error.h"
#include "store/sqlite/inner.h"

static const char what[] = "write to";

static int64_t receipt_id(const pawl_batch *batch) { return batch->node << 8 | batch->lane; }

typedef enum seen { SEEN_NEW, SEEN_BEFORE, SEEN_ODD } seen;

static seen receipt_find(tx *t, pawl_batch *batch)
{
    if (batch->node == 0 || CANARY(RECEIPT_IGNORED)) return SEEN_NEW;
    query q = query_on(t->c, SQL_receipt_get);
    put_int(&q, receipt_id(batch));
    int64_t number = query_row(&q) ? get_int(&q) : 0;
    bool forgotten = number == 0 && !t->known; /* a node that was swept may come with any number */
    seen answer = number + 1 == batch->number || forgotten ? SEEN_NEW : SEEN_ODD;
    if (!t->c->rc && number == batch->number) answer = receipt_read(get_bytes(&q), batch) ? SEEN_BEFORE : SEEN_ODD;
    query_end(&q);
    return answer;
}

static void receipt_store(tx *t, const pawl_batch *batch)
{
    if (batch->node == 0 || t->c->rc) return;
    buf *b = &t->s->receipt;
    if (!receipt_write(b, batch)) {
        conn_note(t->c, SQLITE_NOMEM);
        return;
    }
    query q = query_on(t->c, SQL_receipt_put);
    put_int(&q, receipt_id(batch));
    put_int(&q, batch->number);
    put_bytes(&q, (pawl_bytes){b->data, b->len});
    query_run(&q);
}

static void forget_answers(pawl_op *op)
{
    op->result = PAWL_OP_NONE;
    op->out_id = op->out_fence = op->out_run_at_us = op->out_until_us = op->out_epoch = 0;
    op->out_state = PAWL_STATE_NONE;
    for (int i = 0; op->kind == PAWL_OP_FINISH && i < op->u.finish.spawns_count; i++) forget_answers(&op->u.finish.spawns[i]);
    for (int i = 0; op->kind == PAWL_OP_STEP && i < op->u.step->tasks_count; i++) forget_answers(&op->u.step->tasks[i]);
}

/* What must not happen to a store whose tasks may have been copied already. */
static bool comes_or_goes(pawl_op_kind kind)
{
    return kind == PAWL_OP_INSERT || kind == PAWL_OP_CANCEL || kind == PAWL_OP_RETRY || kind == PAWL_OP_ACK ||
           kind == PAWL_OP_QUEUE || kind == PAWL_OP_LIMIT || kind == PAWL_OP_BOUND || kind == PAWL_OP_SCHEDULE ||
           kind == PAWL_OP_STEP || kind == PAWL_OP_BATCH;
}

void apply_op(tx *t, pawl_op *op)
{
    if (gate_shut(t) && comes_or_goes(op->kind) && !CANARY(GATE_IGNORED)) {
        op->result = PAWL_OP_CLOSED;
        return;
    }
    switch (op->kind) {
    case PAWL_OP_INSERT: apply_insert(t, op); break;
    case PAWL_OP_START: apply_start(t, op); break;
    case PAWL_OP_FINISH: apply_finish(t, op); break;
    case PAWL_OP_RELEASE: apply_release(t, op); break;
    case PAWL_OP_PROGRESS: apply_progress(t, op); break;
    case PAWL_OP_CANCEL: apply_cancel(t, op); break;
    case PAWL_OP_RETRY: apply_retry(t, op); break;
    case PAWL_OP_ACK: apply_ack(t, op); break;
    case PAWL_OP_QUEUE: apply_queue(t, op); break;
    case PAWL_OP_RESERVE: apply_reserve(t, op); break;
    case PAWL_OP_LIMIT: apply_limit(t, op); break;
    case PAWL_OP_BOUND: apply_bound(t, op); break;
    case PAWL_OP_SCHEDULE: apply_schedule(t, op); break;
    case PAWL_OP_STEP: apply_step(t, op); break;
    case PAWL_OP_BATCH: apply_batch(t, op); break;
    case PAWL_OP_SETTLE: apply_settle(t, op); break;
    }
}

/* Applies what has no result yet; -1, or the index of the operation that failed. */
static int apply_all(tx *t, pawl_batch *batch, pawl_arena *arena)
{
    if (!gate_shut(t)) insert_depths(t, batch->ops, batch->count, arena);
    for (int i = 0; i < batch->count; i++) t->others_wait |= batch->ops[i]->kind != PAWL_OP_RESERVE;
    for (int i = 0; i < batch->count; i++) {
        if (batch->ops[i]->result != PAWL_OP_NONE) continue;
        apply_op(t, batch->ops[i]);
        if (t->c->rc) return i;
    }
    settle_at_once(t);
    return -1;
}

static pawl_status odd_receipt(tx *t, const pawl_batch *batch, pawl_error *err)
{
    pawl_status status = tx_abort(t, what, err);
    if (status) return status;
    return err_set(err, PAWL_INTERNAL, "cannot apply batch %lld of node %lld: its receipt is not that of the batch before",
                   (long long)batch->number, (long long)batch->node);
}

/* Starts and progress are between a node and its tasks. */
static bool concerns_others(const pawl_batch *batch)
{
    for (int i = 0; i < batch->count; i++)
        if (batch->ops[i]->kind != PAWL_OP_START && batch->ops[i]->kind != PAWL_OP_PROGRESS) return true;
    return false;
}

/* One try. *culprit: the operation that must be refused before another one, or -1. */
static pawl_status attempt(sqlite_store *s, pawl_batch *batch, pawl_arena *arena, int *culprit, pawl_error *err)
{
    tx t;
    *culprit = -1;
    pawl_status status = tx_begin(s, &t, what, err);
    if (status) return status;
    tx_node(&t, batch->node);
    batch->store_now_us = t.now_us;
    batch->node_dead = batch->node != 0 && !t.alive;
    switch (receipt_find(&t, batch)) {
    case SEEN_BEFORE:
        batch->unblocked = t.bounded;
        batch->schedules = batch->freed = batch->unsettled = true;
        return tx_abort(&t, what, err);
    case SEEN_ODD: return odd_receipt(&t, batch, err);
    case SEEN_NEW: break;
    }
    int failed = apply_all(&t, batch, arena);
    if (failed >= 0 && conn_refused(t.c)) *culprit = failed;
    batch->schedules = t.schedules;
    batch->freed = t.freed;
    batch->unsettled = t.unsettled;
    receipt_store(&t, batch);
    status = t.c->rc ? tx_abort(&t, what, err) : tx_commit(&t, what, concerns_others(batch), err);
    batch->unblocked = t.unblocked;
    return status;
}

pawl_status sqlite_apply(pawl_store *store, pawl_batch *batch, pawl_arena *arena, pawl_error *err)
{
    sqlite_store *s = (sqlite_store *)store;
    int culprit;
    for (int i = 0; i < batch->count; i++) forget_answers(batch->ops[i]);
    for (;;) {
        pawl_status status = attempt(s, batch, arena, &culprit, err);
        if (culprit < 0) return status;
        for (int i = 0; i < batch->count; i++)
            if (batch->ops[i]->result != PAWL_OP_REFUSED) forget_answers(batch->ops[i]);
        batch->ops[culprit]->result = PAWL_OP_REFUSED;
    }
}
