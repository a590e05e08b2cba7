/* What the holder of a lease says: START, FINISH, RELEASE, PROGRESS.
 *
 * All of them are accepted if and only if the task is leased under exactly this fence, whatever the life of its node: a late outcome counts
 * as long as nobody took the task back. Otherwise the result is STALE and says what was found.
 */
#include "core/task.h"
#include "store/mysql/family.h"
#include "store/mysql/quota.h"

task_row *my_lease_of(work *w, pawl_op *op)
{
    task_row *row = my_task(w, op->id);
    if (row && row->state == PAWL_LEASED && row->fence == op->fence) return row;
    op->result = PAWL_OP_STALE;
    op->out_state = row ? row->state : PAWL_STATE_NONE;
    if (row && pawl_state_terminal(row->state)) op->out_fence = row->fence;
    return NULL;
}

void my_apply_start(work *w, pawl_op *op)
{
    const task_row *row = my_lease_of(w, op);
    if (!row) return;
    op->out_state = row->state;
    if (row->cancel_asked) {
        op->result = PAWL_OP_CANCELLING;
        return;
    }
    my_put_int(w->c, op->id);
    my_put_int(w->c, w->now_us);
    my_put_int(w->c, op->u.start.mark);
    my_add(w->c, SQL_leased_start);
    op->result = PAWL_OP_DONE;
}

/* Where the finish of a run leads; 0: nowhere. */
static task_why why_of(pawl_state to)
{
    switch (to) {
    case PAWL_SUCCEEDED: return TASK_OK;
    case PAWL_FAILED: return TASK_EXHAUSTED;
    case PAWL_CANCELLED: return TASK_CANCEL;
    default: return 0;
    }
}

/* What cannot be stored of its spawns stops the finish, too. */
bool my_spawns_refused(const flat *f, int at)
{
    for (int i = at + 1; i < f->count && f->ops[i].parent == at; i++)
        if (f->ops[i].refused) return true;
    return false;
}

void my_apply_finish(work *w, int at)
{
    flat *f = w->f;
    pawl_op *op = f->ops[at].op;
    task_row *row = my_lease_of(w, op);
    if (!row) return;
    task_why why = why_of(op->u.finish.to);
    op->out_state = row->state;
    bool refused = my_spawns_refused(f, at) || my_spawns_orphaned(w, at);
    op->result = !why ? PAWL_OP_CONFLICT : refused ? PAWL_OP_REFUSED : PAWL_OP_DONE;
    if (op->result != PAWL_OP_DONE) return;
    if (why == TASK_EXHAUSTED && op->u.finish.run.outcome != PAWL_ATTEMPT_NONE) row->failures++;
    task_end end = {.to = task_move(row->state, why), .run = &op->u.finish.run, .level = op->audit, .derived = true};
    end.reason = op->u.finish.reason;
    end.result = op->u.finish.result;
    end.result_type = op->u.finish.result_type;
    end.result_ref = op->u.finish.result_ref;
    if (op->u.finish.run.outcome == PAWL_ATTEMPT_NONE) my_quota_give_back(w, row);
    my_leased_drop(w, row);
    my_end_put(w, row, &end);
    row->state = op->out_state = end.to; /* its key is free for its spawns */
    for (int i = at + 1; i < f->count && f->ops[i].parent == at; i++) my_apply_insert(w, &f->ops[i]);
}

static audit_kind kind_of_release(const pawl_op *op)
{
    if (op->u.release.failure) return AUDIT_TROUBLE;
    return op->u.release.run.outcome != PAWL_ATTEMPT_NONE ? AUDIT_RUN_END : AUDIT_CHANGE;
}

static void trail_of_release(work *w, const pawl_op *op, const task_row *row, pawl_state to)
{
    my_audit_grant(w, row);
    if (audit_wanted(op->audit, kind_of_release(op))) my_audit_put(w, row, to, op->u.release.run.error, 2);
}

/* Its cancel was asked, so it does not go back but ends. */
static void release_cancelled(work *w, pawl_op *op, const task_row *row)
{
    task_end end = {.to = task_move(row->state, TASK_CANCEL), .run = &op->u.release.run, .level = op->audit};
    trail_of_release(w, op, row, end.to);
    my_leased_drop(w, row);
    my_end_put(w, row, &end);
    op->result = PAWL_OP_DONE;
    op->out_state = end.to;
    op->out_run_at_us = row->run_at_us;
}

/* The slot that its holder did not use. */
static void keep_slot(work *w, const pawl_op *op, const task_row *row)
{
    char room[LIMIT_KEY_ROOM];
    if (!op->u.release.slot_us || !row->head || !my_limited(&w->limits, row->type_id)) return;
    pawl_bytes key = row->head->key.len ? row->head->key : limit_key(op->u.release.key, room);
    if (key.len) my_slot_put(w, row->id, row->type_id, key, op->u.release.epoch);
}

static void release_again(work *w, pawl_op *op, task_row *row)
{
    const pawl_execution *run = &op->u.release.run;
    bool ran = run->outcome != PAWL_ATTEMPT_NONE;
    pawl_state to = task_move(row->state, TASK_AGAIN);
    rollup_outcome counted = op->u.release.failure ? ROLLUP_RETRIED : ROLLUP_OTHER;
    if (ran) my_attempt_put(w, row, run);
    if (ran || op->u.release.failure) my_roll_run(w, row->queue_id, row->type_id, counted, run, row->run_at_us);
    trail_of_release(w, op, row, to);
    my_leased_drop(w, row);
    row->state = to;
    if (op->u.release.slot_us) row->run_at_us = op->u.release.slot_us;
    else if (op->u.release.delay_us >= 0) row->run_at_us = my_later(w->now_us, op->u.release.delay_us);
    row->runs += ran;
    row->failures += op->u.release.failure;
    row->interruptions += op->u.release.interruption;
    if (ran) row->class = CLASS_ORDINARY; /* it returned: whatever killed its process before, it was not this */
    my_live_put(w, row);
    keep_slot(w, op, row);
    op->result = PAWL_OP_DONE;
    op->out_state = row->state;
    op->out_run_at_us = row->run_at_us;
}

void my_apply_release(work *w, pawl_op *op)
{
    task_row *row = my_lease_of(w, op);
    if (!row) return;
    if (row->cancel_asked) release_cancelled(w, op, row);
    else release_again(w, op, row);
}

void my_apply_progress(work *w, pawl_op *op)
{
    const task_row *row = my_lease_of(w, op);
    if (!row) return;
    int percent = op->u.progress.percent;
    buf text;
    buf_init(&text, w->s->allocator, 64 << 20);
    lit_clean(w->c, &text, op->u.progress.text, op->u.progress.text ? strlen(op->u.progress.text) : 0);
    if (text.failed) w->no_memory = true;
    my_put_int(w->c, op->id);
    my_put_int_or_null(w->c, percent < 0 ? -1 : percent < 100 ? percent : 100, -1);
    my_put_raw(w->c, buf_text(&text), text.len);
    my_add(w->c, SQL_leased_progress);
    buf_done(&text);
    op->result = PAWL_OP_DONE;
    op->out_state = row->state;
}
