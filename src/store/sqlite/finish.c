/* What the holder of a lease says: START, FINISH, RELEASE, PROGRESS.
 *
 * All of them are accepted if and only if the task is leased under exactly this fence, whatever the life of its node: a late
 * outcome counts as long as nobody took the task back. Otherwise the result is STALE and says what was found.
 */
#include "core/task.h"
#include "store/sqlite/family.h"
#include "store/sqlite/quota.h"

bool lease_good(tx *t, pawl_op *op, task_row *row)
{
    if (leased_get(t->c, op->id, row) && (row->fence == op->fence || CANARY(FENCE_UNCHECKED))) return true;
    if (t->c->rc) return false;
    op->result = PAWL_OP_STALE;
    bool live = row->state == PAWL_LEASED || live_get(t->c, op->id, row);
    op->out_state = live ? row->state : task_ended(t->c, op->id, &op->out_fence);
    return false;
}

void apply_start(tx *t, pawl_op *op)
{
    task_row row = {0};
    if (!lease_good(t, op, &row)) return;
    op->out_state = row.state;
    if (row.cancel_asked) {
        op->result = PAWL_OP_CANCELLING;
        return;
    }
    known_drop(t->c, op->id);
    query q = query_on(t->c, SQL_leased_start);
    put_int(&q, t->now_us);
    put_int(&q, op->u.start.mark);
    put_int(&q, op->id);
    query_run(&q);
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
static bool spawns_refused(tx *t, const pawl_op *op)
{
    bool refused = false;
    t->siblings = op->u.finish.spawns;
    t->spawner = op->id;
    for (int i = 0; i < op->u.finish.spawns_count; i++) {
        t->siblings_count = i;
        if (insert_makes_sense(op->u.finish.spawns[i].u.insert.body) &&
            family_judge(t, &op->u.finish.spawns[i]).result == PAWL_OP_DONE)
            continue;
        op->u.finish.spawns[i].result = PAWL_OP_REFUSED;
        refused = true;
    }
    t->siblings_count = 0;
    t->spawner = 0;
    return refused;
}

static void spawn(tx *t, pawl_op *op)
{
    t->siblings = op->u.finish.spawns;
    t->spawner = op->id;
    for (int i = 0; i < op->u.finish.spawns_count && !t->c->rc; i++) {
        pawl_op *child = &op->u.finish.spawns[i];
        child->u.insert.ask_lease = false;
        t->siblings_count = i;
        apply_insert(t, child);
        if (child->result != PAWL_OP_COLLISION) continue;
        child->id = 0; /* nobody could send it again: the store draws another */
        apply_insert(t, child);
    }
    t->siblings_count = 0;
    t->spawner = 0;
}

void apply_finish(tx *t, pawl_op *op)
{
    task_row row = {0};
    if (!lease_good(t, op, &row)) return;
    task_why why = why_of(op->u.finish.to);
    op->out_state = row.state;
    op->result = !why ? PAWL_OP_CONFLICT : spawns_refused(t, op) ? PAWL_OP_REFUSED : PAWL_OP_DONE;
    if (op->result != PAWL_OP_DONE) return;
    if (why == TASK_EXHAUSTED && op->u.finish.run.outcome != PAWL_ATTEMPT_NONE) row.failures++;
    task_end end = {.to = task_move(row.state, why), .run = &op->u.finish.run, .level = op->audit, .derived = true};
    end.reason = op->u.finish.reason;
    end.result = op->u.finish.result;
    end.result_type = op->u.finish.result_type;
    end.result_ref = op->u.finish.result_ref;
    if (op->u.finish.run.outcome == PAWL_ATTEMPT_NONE) quota_give_back(t, &row);
    leased_drop(t, &row);
    end_put(t, &row, &end);
    op->out_state = end.to;
    spawn(t, op);
}

static audit_kind kind_of_release(const pawl_op *op)
{
    if (op->u.release.failure) return AUDIT_TROUBLE;
    return op->u.release.run.outcome != PAWL_ATTEMPT_NONE ? AUDIT_RUN_END : AUDIT_CHANGE;
}

static void trail_of_release(tx *t, const pawl_op *op, const task_row *row, pawl_state to)
{
    audit_put_grant(t, row);
    if (audit_wanted(op->audit, kind_of_release(op))) audit_put(t, row, to, op->u.release.run.error);
}

/* Its cancel was asked, so it does not go back but ends. */
static void release_cancelled(tx *t, pawl_op *op, const task_row *row)
{
    task_end end = {.to = task_move(row->state, TASK_CANCEL), .run = &op->u.release.run, .level = op->audit};
    trail_of_release(t, op, row, end.to);
    leased_drop(t, row);
    end_put(t, row, &end);
    op->result = PAWL_OP_DONE;
    op->out_state = end.to;
    op->out_run_at_us = row->run_at_us;
}

static int64_t again_at(const tx *t, const pawl_op *op, const task_row *row)
{
    int64_t delay_us = op->u.release.delay_us;
    if (op->u.release.slot_us) return op->u.release.slot_us;
    if (delay_us < 0) return row->run_at_us;
    return delay_us < INT64_MAX - t->now_us ? t->now_us + delay_us : INT64_MAX;
}

void task_again(tx *t, task_row *row, int64_t run_at_us, pawl_audit level, const char *detail)
{
    pawl_state to = task_move(row->state, TASK_AGAIN);
    audit_put_grant(t, row);
    if (audit_wanted(level, AUDIT_CHANGE)) audit_put(t, row, to, detail);
    leased_drop(t, row);
    row->state = to;
    row->run_at_us = run_at_us;
    row->priority = priority_of(t, row->id);
    live_put(t, row);
}

/* The slot that its holder did not use. */
static void keep_slot(tx *t, const pawl_op *op, const task_row *row)
{
    if (!op->u.release.slot_us || !quota_limited(t, row->type_id)) return;
    pawl_body *body = body_get(t->c, t->c->allocator, row->id);
    const quota *b = body ? quota_of(t, row->type_id, body->rate_key.len ? body->rate_key : op->u.release.key) : NULL;
    if (b) slotted_put(t, row->id, b, op->u.release.epoch);
    pawl_body_free(t->c->allocator, body);
}

static void release_again(tx *t, pawl_op *op, task_row *row)
{
    const pawl_execution *run = &op->u.release.run;
    bool ran = run->outcome != PAWL_ATTEMPT_NONE;
    pawl_state to = task_move(row->state, TASK_AGAIN);
    rollup_outcome counted = op->u.release.failure ? ROLLUP_RETRIED : ROLLUP_OTHER;
    if (ran) attempt_put(t, row, run);
    if (ran || op->u.release.failure) tally_run(t, row->queue_id, row->type_id, counted, run, row->run_at_us);
    trail_of_release(t, op, row, to);
    leased_drop(t, row);
    row->state = to;
    row->run_at_us = again_at(t, op, row);
    row->priority = priority_of(t, row->id);
    row->runs += ran;
    row->failures += op->u.release.failure;
    row->interruptions += op->u.release.interruption;
    if (ran) row->class = CLASS_ORDINARY; /* it returned: whatever killed its process before, it was not this */
    live_put(t, row);
    keep_slot(t, op, row);
    op->result = PAWL_OP_DONE;
    op->out_state = row->state;
    op->out_run_at_us = row->run_at_us;
}

void apply_release(tx *t, pawl_op *op)
{
    task_row row = {0};
    if (!lease_good(t, op, &row)) return;
    if (row.cancel_asked) release_cancelled(t, op, &row);
    else release_again(t, op, &row);
}

void apply_progress(tx *t, pawl_op *op)
{
    task_row row = {0};
    if (!lease_good(t, op, &row)) return;
    int percent = op->u.progress.percent;
    query q = query_on(t->c, SQL_leased_progress);
    put_int_or_null(&q, percent < 0 ? -1 : percent < 100 ? percent : 100, -1);
    put_text(&q, op->u.progress.text);
    put_int(&q, op->id);
    query_run(&q);
    op->result = PAWL_OP_DONE;
    op->out_state = row.state;
}
