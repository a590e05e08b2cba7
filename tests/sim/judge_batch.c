/* The judge on batches: every operation against the model, at the moment its effect happens. */
#include "judge.h"
#include <string.h>

static int queue_index(const char *name)
{
    for (int q = 0; q < QUEUES; q++) {
        if (strcmp(queue_names[q], name) == 0) return q;
    }
    return 0;
}

/* ---- inserts --------------------------------------------------------------------------------------------------------------- */

static void note_committed(judge *j, int number, const pawl_op *op)
{
    sim *s = j->sim;
    ask *a = &s->asks[number];
    if (a->answered && a->status != PAWL_OK && a->status != PAWL_UNKNOWN) {
        broken(s, "an error means nothing happened (1)", "ask %d was answered \"%s\" and happens now", number,
               pawl_status_name(a->status));
    }
    a->committed = true;
    a->result = op->result;
    a->out_id = op->out_id;
}

static bool due(const pawl_op *op, int64_t now_us)
{
    return op->u.insert.at_us ? op->u.insert.at_us <= now_us : op->u.insert.delay_us <= 0;
}

static void stored(judge *j, pawl_op *op, int number, mnode *n, const wire *w, int64_t now_us)
{
    sim *s = j->sim;
    item *i = &s->items[s->asks[number].item];
    if (judge_task(j, op->out_id)) broken(s, "ids are never used twice", "%s is stored a second time", trace_id(s, op->out_id));
    if (op->id && op->out_id != op->id) broken(s, "ids are kept", "an insert under one id was stored under another");
    if (i->id && i->id != op->out_id)
        broken(s, "stored once (1)", "ask %d: one dispatch became two tasks, first %s", number, trace_id(s, i->id));
    i->id = op->out_id;
    mtask *t = judge_add_task(j, op->out_id, number);
    t->queue = queue_index(op->u.insert.body->queue);
    t->run_at_us = op->out_run_at_us;
    judge_touched(j, t);
    judge_family_stored(j, t, op);
    judge_place_stored(j, t);
    NOTE(s, NULL, "stored %t: ask %d, queue %d, key %d, fence %d, due in %u", t->id, number, t->queue, t->key, op->out_fence,
         t->run_at_us - now_us);
    if (s->plan.limits) judge_right_stored(j, t, op, w, due(op, now_us));
    if (op->out_fence == 0) return;
    if (!op->u.insert.ask_lease) broken(s, "one holder (2)", "%s is leased at birth though nobody asked", trace_id(s, t->id));
    if (op->out_run_at_us > now_us) broken(s, "never early", "%s is leased at birth before its time", trace_id(s, t->id));
    judge_grant(j, t, n, op->out_fence, w->began_us);
    s->stats[STAT_BORN]++;
}

static void updated(judge *j, pawl_op *op, int number, const wire *w, int64_t now_us)
{
    sim *s = j->sim;
    mtask *t = judge_task(j, op->out_id);
    if (!t || t->key < 0 || t->key != s->items[s->asks[number].item].key)
        broken(s, "keys", "ask %d updated a task of another key", number);
    if (t->state != PAWL_PENDING && !(t->state == PAWL_LEASED && t->not_started)) {
        broken(s, "keys", "ask %d updated %s, which had started or ended", number, trace_id(s, t->id));
    }
    if (t->state == PAWL_LEASED) {
        t->fence_raised = true;
        s->stats[STAT_TAKEN_BACK]++;
    }
    bool kept = judge_right_kept(j, t, op, number);
    if (!kept) judge_right_end(j, t);
    judge_move(j, t, PAWL_PENDING);
    t->ask = number;
    t->queue = queue_index(op->u.insert.body->queue);
    judge_place_stored(j, t);
    t->run_at_us = op->out_run_at_us;
    t->cancel_asked = false;
    if (s->plan.limits && !kept) judge_right_stored(j, t, op, w, due(op, now_us));
    NOTE(s, NULL, "updated %t: ask %d, due in %u%s", t->id, number, t->run_at_us - now_us, TEXT(kept ? ", with its slot" : ""));
    judge_touched(j, t);
}

static void existing(judge *j, pawl_op *op, int number)
{
    sim *s = j->sim;
    mtask *t = judge_task(j, op->out_id);
    if (!t) broken(s, "nothing acked is lost (1)", "ask %d was told of a task that is not there", number);
    bool by_id = op->u.insert.may_exist && t->id == op->id;
    bool by_key = t->key >= 0 && t->key == s->items[s->asks[number].item].key && !pawl_state_terminal(t->state);
    if (!by_id && !by_key)
        broken(s, "keys", "ask %d was told of %s, which has nothing to do with it", number, trace_id(s, t->id));
}

static void insert_applied(judge *j, pawl_op *op, mnode *n, const wire *w, int64_t now_us)
{
    sim *s = j->sim;
    int number = ask_of_body(s, op->u.insert.body);
    if (number < 0) broken(s, "nothing unexpected", "a task was stored that nobody asked for");
    switch (op->result) {
    case PAWL_OP_DONE:
    case PAWL_OP_REPLACED: stored(j, op, number, n, w, now_us); break;
    case PAWL_OP_UPDATED: updated(j, op, number, w, now_us); break;
    case PAWL_OP_EXISTING: existing(j, op, number); break;
    case PAWL_OP_COLLISION: {
        mtask *t = judge_task(j, op->id);
        bool retried = t && s->asks[t->ask].item == s->asks[number].item;
        if (!retried && !(t && s->items[s->asks[number].item].id == t->id))
            broken(s, "ids are never used twice", "ask %d drew an id that is taken", number);
        NOTE(s, NULL, "ask %d collides with its own retry %t", number, op->id);
        return;
    }
    case PAWL_OP_FULL: return;
    default: broken(s, "the contract", "an insert ended with result %d", op->result);
    }
    note_committed(j, number, op);
}

/* ---- operations under a lease ---------------------------------------------------------------------------------------------- */

static bool leased_under(const mtask *t, const pawl_op *op) { return t && t->state == PAWL_LEASED && t->fence == op->fence; }

static void add_verdict(judge *j, mtask *t, int64_t fence, core_settled how)
{
    verdict *v = sim_alloc(j->sim, sizeof *v);
    *v = (verdict){t->verdicts, fence, how};
    t->verdicts = v;
}

/* An execution that is reported was seen to run and to end like that. */
static void check_evidence(judge *j, mtask *t, const pawl_op *op, pawl_attempt_outcome how, pawl_state to)
{
    sim *s = j->sim;
    bool ran = t->started_fence == op->fence, ended = t->ended_fence == op->fence;
    if (how == PAWL_ATTEMPT_NONE) {
        if (ran)
            broken(s, "a run keeps its lease", "%s fence %lld is given away as never started while a run of it began",
                   trace_id(s, t->id), (long long)op->fence);
        return;
    }
    if (!ended)
        broken(s, "outcomes come from runs", "%s fence %lld: an outcome is committed but no run ended", trace_id(s, t->id),
               (long long)op->fence);
    if (to == PAWL_SUCCEEDED && t->ended_kind != PAWL_RUN_OK)
        broken(s, "outcomes come from runs", "%s succeeded though its run did not", trace_id(s, t->id));
    if (to == PAWL_FAILED && t->ended_kind == PAWL_RUN_OK && !(t->ended_told & 1u << PAWL_STOP_TIMEOUT))
        broken(s, "outcomes come from runs", "%s failed though its run succeeded", trace_id(s, t->id));
    if (to == PAWL_PENDING && t->ended_kind == PAWL_RUN_FAIL && !t->ended_told)
        broken(s, "outcomes come from runs", "%s is tried again though its run failed for good", trace_id(s, t->id));
}

static core_settled settled_as(const pawl_op *op)
{
    if (op->kind == PAWL_OP_FINISH) {
        return op->u.finish.to == PAWL_SUCCEEDED ? CORE_SETTLED_SUCCEEDED
               : op->u.finish.to == PAWL_FAILED  ? CORE_SETTLED_FAILED
                                                 : CORE_SETTLED_CANCELLED;
    }
    switch (op->u.release.run.outcome) {
    case PAWL_ATTEMPT_SNOOZED: return CORE_SETTLED_SNOOZED;
    case PAWL_ATTEMPT_RETRY:
    case PAWL_ATTEMPT_TIMEOUT: return CORE_SETTLED_RETRY;
    default: return CORE_SETTLED_RELEASED;
    }
}

static void finish_applied(judge *j, mtask *t, pawl_op *op, const wire *w, int64_t now_us)
{
    check_evidence(j, t, op, op->u.finish.run.outcome, op->u.finish.to);
    if (op->u.finish.run.outcome != PAWL_ATTEMPT_NONE) {
        t->failures += op->u.finish.to == PAWL_FAILED;
        t->suspect = t->solo = false;
    } else {
        judge_unstarted(j, t, op);
    }
    judge_move(j, t, op->u.finish.to);
    add_verdict(j, t, op->fence, settled_as(op));
    for (int i = 0; i < op->u.finish.spawns_count; i++) insert_applied(j, &op->u.finish.spawns[i], NULL, w, now_us);
}

static void check_counts(judge *j, const mtask *t, const pawl_op *op)
{
    pawl_attempt_outcome how = op->u.release.run.outcome;
    bool failure = how == PAWL_ATTEMPT_RETRY || how == PAWL_ATTEMPT_TIMEOUT;
    if (op->u.release.failure != failure || op->u.release.interruption != (how == PAWL_ATTEMPT_INTERRUPTED)) {
        broken(j->sim, "attempts are counted", "%s: outcome %d is released as failure %d, interruption %d",
               trace_id(j->sim, t->id), how, op->u.release.failure, op->u.release.interruption);
    }
}

static void release_applied(judge *j, mtask *t, pawl_op *op)
{
    sim *s = j->sim;
    int most = s->items[s->asks[t->ask].item].max_attempts;
    check_evidence(j, t, op, op->u.release.run.outcome, PAWL_PENDING);
    check_counts(j, t, op);
    s->stats[STAT_RETURNED] += op->u.release.run.outcome == PAWL_ATTEMPT_NONE;
    if (op->u.release.run.outcome != PAWL_ATTEMPT_NONE) t->suspect = t->solo = false; /* it returned: it is innocent */
    if (!t->cancel_asked) {
        t->failures += op->u.release.failure;
        t->interruptions += op->u.release.interruption;
    }
    if (most && t->failures >= most && op->u.release.failure) {
        broken(s, "attempts are counted", "%s is tried again after %d failures of %d", trace_id(s, t->id), t->failures, most);
    }
    judge_right_released(j, t, op);
    if ((op->u.release.delay_us >= 0 || op->u.release.slot_us) && !t->cancel_asked) t->run_at_us = op->out_run_at_us;
    judge_move(j, t, t->cancel_asked ? PAWL_CANCELLED : PAWL_PENDING);
    add_verdict(j, t, op->fence, t->cancel_asked ? CORE_SETTLED_CANCELLED : settled_as(op));
}

static void start_applied(judge *j, mtask *t, pawl_op *op)
{
    if ((op->result == PAWL_OP_CANCELLING) != t->cancel_asked) {
        broken(j->sim, "the contract", "%s: a start was answered %d while its cancel was%s asked", trace_id(j->sim, t->id),
               op->result, t->cancel_asked ? "" : " not");
    }
    if (op->result == PAWL_OP_CANCELLING) return;
    t->not_started = false;
    t->marked |= op->u.start.mark;
}

static void by_fence(judge *j, pawl_op *op, const wire *w, int64_t now_us)
{
    static const char *const names[] = {"", "insert", "start", "finish", "release", "progress", "", "", "", "", "reserve"};
    sim *s = j->sim;
    mtask *t = judge_task(j, op->id);
    bool good = leased_under(t, op);
    NOTE(s, NULL, "%s %t fence %d: result %d", TEXT(names[op->kind]), op->id, op->fence, op->result);
    if (good == (op->result == PAWL_OP_STALE)) {
        broken(s, "only the newest fence is accepted (2)", "%s of %s under fence %lld was answered %d, the lease is %s",
               names[op->kind], trace_id(s, op->id), (long long)op->fence, op->result, good ? "good" : "gone");
    }
    s->stats[STAT_STALE] += !good;
    if (t) judge_touched(j, t);
    if (!good) return;
    if (op->kind == PAWL_OP_START) start_applied(j, t, op);
    if (op->kind == PAWL_OP_FINISH) finish_applied(j, t, op, w, now_us);
    if (op->kind == PAWL_OP_RELEASE) release_applied(j, t, op);
    if (op->kind == PAWL_OP_RESERVE) judge_reserved(j, t, op, w);
}

/* ---- what people do -------------------------------------------------------------------------------------------------------- */

static void cancel_applied(judge *j, pawl_op *op)
{
    sim *s = j->sim;
    mtask *t = judge_task(j, op->id);
    bool open = t && !pawl_state_terminal(t->state), started = open && t->state == PAWL_LEASED && !t->not_started;
    pawl_op_result right = !t ? PAWL_OP_NOT_FOUND : !open ? PAWL_OP_CONFLICT : started ? PAWL_OP_ASKED : PAWL_OP_DONE;
    NOTE(s, NULL, "cancel %t: result %d", op->id, op->result);
    if (op->result != right)
        broken(s, "the contract", "cancel of %s was answered %d, should be %d", trace_id(s, op->id), op->result, right);
    if (!open) return;
    judge_touched(j, t);
    t->cancel_asked = true;
    if (started) return;
    t->fence_raised |= t->state == PAWL_LEASED;
    s->stats[STAT_TAKEN_BACK] += t->state == PAWL_LEASED;
    judge_right_end(j, t);
    judge_move(j, t, PAWL_CANCELLED);
}

static void retry_applied(judge *j, pawl_op *op, const wire *w, int64_t now_us)
{
    sim *s = j->sim;
    mtask *old = judge_task(j, op->id);
    NOTE(s, NULL, "retry %t: result %d, %t", op->id, op->result, op->out_id);
    if (op->result == PAWL_OP_EXISTING && !judge_task(j, op->out_id))
        broken(s, "the contract", "a retry was told of a task that is not there");
    if (op->result != PAWL_OP_DONE) return;
    if (!old || !(old->state == PAWL_FAILED || old->state == PAWL_CANCELLED))
        broken(s, "the contract", "%s was retried", trace_id(s, op->id));
    if (judge_task(j, op->out_id)) broken(s, "ids are never used twice", "%s is stored a second time", trace_id(s, op->out_id));
    mtask *t = judge_add_task(j, op->out_id, old->ask);
    t->queue = old->queue;
    judge_place_stored(j, t);
    t->run_at_us = op->out_run_at_us ? op->out_run_at_us : now_us;
    if (s->plan.limits) judge_right_stored(j, t, op, w, true);
    judge_touched(j, t);
}

static void operation_applied(judge *j, pawl_op *op, mnode *n, const wire *w, int64_t now_us)
{
    sim *s = j->sim;
    if (op->kind == PAWL_OP_INSERT) {
        insert_applied(j, op, n, w, now_us);
    } else if (op->kind <= PAWL_OP_PROGRESS || op->kind == PAWL_OP_RESERVE) {
        by_fence(j, op, w, now_us);
    } else if (op->kind == PAWL_OP_SETTLE) {
        NOTE(s, NULL, "settled %d", op->u.settle.settled);
    } else if (op->kind == PAWL_OP_LIMIT && op->u.limit.initial) {
        judge_limit_put(j, op, w);
    } else if (op->kind == PAWL_OP_BOUND && op->u.bound.initial) {
        judge_bound_put(j, op);
    } else {
        if (op->kind == PAWL_OP_CANCEL) cancel_applied(j, op);
        if (op->kind == PAWL_OP_RETRY) retry_applied(j, op, w, now_us);
        if (op->kind == PAWL_OP_LIMIT) judge_limit_put(j, op, w);
        if (op->kind == PAWL_OP_BOUND) judge_bound_put(j, op);
        if (op->kind == PAWL_OP_QUEUE) {
            NOTE(s, NULL, "queue %s: pause %d", TEXT(queue_names[queue_index(op->u.queue.queue)]), op->u.queue.pause);
            j->paused[queue_index(op->u.queue.queue)] = op->u.queue.pause;
        }
        int number = ask_of_by(op->by);
        if (number < 0) broken(s, "nothing unexpected", "somebody did what nobody asked for");
        note_committed(j, number, op);
    }
}

/* ---- receipts -------------------------------------------------------------------------------------------------------------- */

static mreceipt *receipt_of(judge *j, int64_t node, int lane)
{
    list_each(link, &j->receipts) {
        mreceipt *r = container_of(link, mreceipt, link);
        if (r->node == node && r->lane == lane) return r;
    }
    mreceipt *r = sim_alloc(j->sim, sizeof *r);
    r->node = node;
    r->lane = lane;
    list_append(&j->receipts, &r->link);
    return r;
}

static void replayed(judge *j, const mreceipt *r, const pawl_batch *b)
{
    sim *s = j->sim;
    s->stats[STAT_REPLAYS]++;
    if (b->count != r->count)
        broken(s, "nothing happens twice", "batch %lld was sent again with %d operations instead of %d", (long long)b->number,
               b->count, r->count);
    for (int i = 0; i < b->count; i++) {
        if (b->ops[i]->result == r->results[i].result && b->ops[i]->out_id == r->results[i].out_id &&
            b->ops[i]->out_fence == r->results[i].out_fence)
            continue;
        broken(s, "nothing happens twice", "operation %d of batch %lld: the receipt says %d, it was %d", i, (long long)b->number,
               b->ops[i]->result, r->results[i].result);
    }
}

static void keep_results(judge *j, mreceipt *r, const pawl_batch *b)
{
    r->number = b->number;
    r->count = b->count;
    r->results = sim_alloc(j->sim, (size_t)(b->count + 1) * sizeof *r->results);
    for (int i = 0; i < b->count; i++) r->results[i] = (mresult){b->ops[i]->result, b->ops[i]->out_id, b->ops[i]->out_fence};
}

void judge_applied(judge *j, wire *w, pawl_batch *b)
{
    sim *s = j->sim;
    mnode *n = b->node ? judge_node(j, b->node) : NULL;
    if (b->node) {
        mreceipt *r = receipt_of(j, b->node, b->lane);
        if (b->number == r->number) {
            replayed(j, r, b);
            return;
        }
        if (b->number != r->number + 1)
            broken(s, "nothing happens twice", "batch %lld was applied after %lld", (long long)b->number, (long long)r->number);
        if (n->dead != b->node_dead)
            broken(s, "one holder (2)", "a batch says dead %d of a node that is %d", b->node_dead, n->dead);
        keep_results(j, r, b);
    }
    NOTE(s, NULL, "applied %d", w->serial);
    j->mixed = false;
    for (int i = 0; i < b->count; i++) j->mixed |= b->ops[i]->kind == PAWL_OP_LIMIT && b->count > 1;
    for (int i = 0; i < b->count; i++) operation_applied(j, b->ops[i], n, w, b->store_now_us);
    judge_families(j, b);
}

/* The store would not do it. Right only for a copy that came too late. */
void judge_refused(judge *j, wire *w)
{
    const pawl_batch *b = &w->call.u.batch;
    if (w->call.kind != CORE_APPLY || w->call.status == PAWL_UNAVAILABLE) return;
    if (b->node && b->number < receipt_of(j, b->node, b->lane)->number) return;
    broken(j->sim, "the contract", "batch %lld of node %lld was refused: %s", (long long)b->number, (long long)b->node,
           w->call.err.message);
}
