/* Requests: what callers ask of the store, from submit to answer.
 *
 *   NEW -> GATHERED -> FLYING -> (answered, dropped)
 *             ^           |
 *             +- PARKED <-+   its queue is full and it may wait
 *
 * A caller that gives up is answered at once; the request itself lives on while a batch refers to it.
 */
#include "core/engine.h"
#include <string.h>

core_request *core_request_room(core *c, int count)
{
    core_request *r = alloc_new(c->allocator, sizeof *r);
    if (!r) return NULL;
    r->queue = -1;
    if (count > 0 && !(r->ops = c->allocator->alloc(c->allocator->ctx, (size_t)count * sizeof *r->ops))) {
        alloc_free(c->allocator, r);
        return NULL;
    }
    return r;
}

core_request *core_request_new(core *c, int count)
{
    core_request *r = core_request_room(c, count);
    if (!r) return NULL;
    if (count > 0) memset(r->ops, 0, (size_t)count * sizeof *r->ops);
    r->count = count;
    return r;
}

static pawl_step *step_of(const pawl_op *op) { return op->kind == PAWL_OP_STEP ? op->u.step : NULL; }

void core_request_free(core *c, core_request *r)
{
    if (!r) return;
    for (int i = 0; i < r->count; i++) {
        if (r->ops[i].kind == PAWL_OP_INSERT) pawl_body_free(c->allocator, r->ops[i].u.insert.body);
        const pawl_step *step = step_of(&r->ops[i]);
        for (int k = 0; step && k < step->tasks_count; k++) pawl_body_free(c->allocator, step->tasks[k].u.insert.body);
    }
    alloc_free(c->allocator, r->locks);
    alloc_free(c->allocator, r->ops);
    alloc_free(c->allocator, r);
}

int request_ids(const core_request *r)
{
    int count = r->count == 0;
    for (int i = 0; i < r->count; i++) {
        const pawl_op *op = &r->ops[i];
        count += op->kind == PAWL_OP_INSERT && op->id == 0;
        count += op->kind == PAWL_OP_RETRY && op->u.retry.new_id == 0;
        count += op->kind == PAWL_OP_BATCH && op->id == 0;
        if (op->kind == PAWL_OP_STEP) count += op->u.step->tasks_count;
    }
    return count;
}

static pawl_audit audit_of(core *c, const pawl_body *body)
{
    if (body->audit) return body->audit;
    int h = claim_find_handler(c, body->type), q = claim_find_queue(c, body->queue);
    if (h >= 0 && c->handlers[h].policy.audit) return c->handlers[h].policy.audit;
    if (q >= 0 && c->queues[q].policy.audit) return c->queues[q].policy.audit;
    return c->config.engine.audit ? c->config.engine.audit : PAWL_AUDIT_FULL;
}

static int64_t depth_limit(core *c, const char *queue)
{
    int q = claim_find_queue(c, queue);
    if (q >= 0) return c->queues[q].depth_limit;
    return c->config.depth_is_capacity ? c->config.capacity : 0;
}

/* Operations on a task or key that others may know of must not meet in flight. */
static bool needs_lock(const pawl_op *op)
{
    if (op->kind == PAWL_OP_INSERT) return op->u.insert.may_exist || op->u.insert.body->key;
    return true;
}

/* Another processor has filled the request, and each look at it here would wait for that one's caches. */
static void fetch_ahead(const core_request *r, int i)
{
    if (i + 16 < r->count)
        for (size_t at = 0; at < sizeof *r->ops; at += 64) __builtin_prefetch((const char *)&r->ops[i + 16] + at, 1);
    if (i + 8 < r->count && r->ops[i + 8].kind == PAWL_OP_INSERT) {
        const char *body = (const char *)r->ops[i + 8].u.insert.body;
        for (size_t at = 0; at < sizeof(pawl_body); at += 64) __builtin_prefetch(body + at, 1);
    }
}

static void prepare_step(core *c, core_request *r, pawl_step *step)
{
    for (int i = 0; i < step->tasks_count; i++) {
        step->tasks[i].audit = audit_of(c, step->tasks[i].u.insert.body);
        r->bytes += step->tasks[i].u.insert.body->payload.len + 256;
    }
}

bool request_prepare(core *c, core_request *r)
{
    bool locks = false;
    r->bytes = 0;
    for (int i = 0; i < r->count; i++) {
        pawl_op *op = &r->ops[i];
        fetch_ahead(r, i);
        locks = locks || needs_lock(op);
        if (op->kind != PAWL_OP_INSERT) {
            if (!op->audit) op->audit = PAWL_AUDIT_FULL;
            if (op->kind == PAWL_OP_STEP) prepare_step(c, r, op->u.step);
            continue;
        }
        op->audit = audit_of(c, op->u.insert.body);
        op->u.insert.depth_limit = depth_limit(c, op->u.insert.body->queue);
        r->bytes += op->u.insert.body->payload.len + 256;
    }
    if (locks && !r->locks) r->locks = alloc_new(c->allocator, 2 * (size_t)r->count * sizeof *r->locks);
    return !locks || r->locks;
}

void request_gather(core *c, core_request *r)
{
    r->place = REQUEST_GATHERED;
    list_append(&c->requests, &r->link);
}

void core_submit(core *c, core_time now, core_request *r)
{
    c->now = now;
    if (!request_prepare(c, r)) request_answer(c, r, PAWL_NO_MEMORY);
    else request_gather(c, r);
    engine_push(c);
}

static void drop(core *c, core_request *r)
{
    list_remove(&r->link);
    r->place = REQUEST_GONE;
    engine_act(c, &r->drop, CORE_DROP);
}

/* Answers, unless its caller has given up, and lets go of it. */
void request_answer(core *c, core_request *r, pawl_status status)
{
    if (!r->answer.kind) {
        r->status = status;
        engine_act(c, &r->answer, CORE_ANSWER);
    }
    drop(c, r);
}

void core_give_up(core *c, core_time now, core_request *r)
{
    c->now = now;
    if (r->answer.kind) return;
    if (r->place == REQUEST_FLYING) {
        r->status = PAWL_UNKNOWN;
        engine_act(c, &r->answer, CORE_ANSWER);
    } else {
        request_answer(c, r, r->place == REQUEST_PARKED ? PAWL_FULL : PAWL_UNAVAILABLE);
    }
    engine_push(c);
}

/* ---- results ------------------------------------------------------------------------------------------------------------------- */

static void adopt(core *c, pawl_op *op, int queue, int64_t sent_us, int64_t store_now_us)
{
    throttle_told told = {.limited = op->u.insert.body->rate_key.len > 0 && op->out_until_us != INT64_MAX,
                          .slot_us = op->out_run_at_us,
                          .until_us = op->out_until_us,
                          .epoch = op->out_epoch,
                          .sent_us = sent_us,
                          .store_now_us = store_now_us};
    core_task *t = run_take(c);
    t->body = op->u.insert.body;
    op->u.insert.body = NULL;
    CHECK(t->body->id == op->out_id);
    t->fence = op->out_fence;
    t->run_at_us = op->out_run_at_us;
    t->again = op->out_until_us == 0; /* it had a slot, if it needed one */
    run_adopt(c, t, queue, &told);
}

/* Of a request that goes again, the inserts that are stored already. */
#define GROUP_STORED (-1)

static void insert_result(core *c, pawl_op *op, int64_t sent_us, int64_t store_now_us)
{
    pawl_body *body = op->u.insert.body;
    op->u.insert.group = GROUP_STORED;
    int queue = claim_find_queue(c, body->queue);
    bool asked = op->u.insert.ask_lease;
    op->u.insert.ask_lease = false;
    if (asked) claim_asked(c, queue);
    if (op->result == PAWL_OP_EXISTING || op->result == PAWL_OP_REFUSED || op->result == PAWL_OP_CLOSED ||
        op->result == PAWL_OP_NOT_FOUND || op->result == PAWL_OP_CONFLICT)
        return;
    if (op->result == PAWL_OP_UPDATED) request_unpark(c, -1); /* it may have left another queue */
    if (body->id != op->out_id) body->id = op->out_id;        /* the store may read it, too */
    engine_event(c, PAWL_EVENT_DISPATCHED, body, 0, 0, 0, pawl_dispatched_name((pawl_dispatched)op->result));
    if (asked && op->out_fence > 0) adopt(c, op, queue, sent_us, store_now_us);
    else if (op->out_state != PAWL_WAITING) {
        throttle_stored(c, op, store_now_us);
        claim_pending(c, body->queue, op->out_run_at_us, store_now_us);
    }
}

static void cancel_result(core *c, const pawl_op *op)
{
    core_task *t = run_find(c, op->id);
    pawl_body unknown = {.id = op->id, .type = op->u.cancel.type, .queue = op->u.cancel.queue};
    if (op->result == PAWL_OP_DONE) request_unpark(c, -1); /* its place is free */
    if (op->result == PAWL_OP_DONE) engine_event(c, PAWL_EVENT_CANCELLED, t ? t->body : &unknown, 0, 0, 0, NULL);
    if (!t) return;
    if (op->result == PAWL_OP_ASKED) run_cancel(c, t);
    else if (op->result == PAWL_OP_DONE) run_lose(c, t); /* it had not started: the lease was taken back */
}

static void queue_result(core *c, const pawl_op *op)
{
    int q = claim_find_queue(c, op->u.queue.queue);
    pawl_body about = {.queue = op->u.queue.queue};
    engine_event(c, op->u.queue.pause ? PAWL_EVENT_PAUSED : PAWL_EVENT_RESUMED, &about, 0, 0, 0, op->by);
    if (q < 0) return;
    c->queues[q].paused = op->u.queue.pause;
    c->queues[q].caught_up = false;
    if (op->u.queue.pause) run_release_queue(c, &c->queues[q]);
    if (!op->u.queue.pause) c->queues[q].hungry = c->queues[q].stirred = true;
}

/* false: the request has to go again */
static bool op_result(core *c, core_request *r, pawl_op *op, int64_t sent_us, int64_t store_now_us)
{
    if (op->result == PAWL_OP_COLLISION || op->result == PAWL_OP_FULL) {
        if (op->u.insert.ask_lease) claim_asked(c, claim_find_queue(c, op->u.insert.body->queue));
        op->u.insert.ask_lease = false;
    }
    switch (op->result) {
    case PAWL_OP_COLLISION:
        if (r->answer.kind && !CANARY(COLLISION_REDRAWN)) { /* its caller gave up with this id and has used it meanwhile */
            op->result = PAWL_OP_EXISTING;
            return true;
        }
        op->id = 0;
        op->result = PAWL_OP_NONE;
        return false;
    case PAWL_OP_FULL: return false;
    case PAWL_OP_CLOSED:
        if (op->kind != PAWL_OP_INSERT && op->kind != PAWL_OP_STEP) return true;
        break;
    default: break;
    }
    switch (op->kind) {
    case PAWL_OP_INSERT: insert_result(c, op, sent_us, store_now_us); break;
    case PAWL_OP_CANCEL: cancel_result(c, op); break;
    case PAWL_OP_QUEUE: queue_result(c, op); break;
    case PAWL_OP_LIMIT: throttle_limit_stored(c, op); break;
    case PAWL_OP_BOUND: throttle_bound_stored(c, r, op); break;
    case PAWL_OP_STEP: recur_stepped(c, r, op, store_now_us); break;
    case PAWL_OP_SETTLE: family_settled(c); break;
    case PAWL_OP_RETRY:
    case PAWL_OP_RELEASE:
        if (op->kind == PAWL_OP_RELEASE && op->out_state == PAWL_CANCELLED) request_unpark(c, -1); /* its place is free */
        claim_stir(c);
        break;
    default: break;
    }
    return true;
}

static bool is_full(const core_request *r)
{
    for (int i = 0; i < r->count; i++)
        if (r->ops[i].result == PAWL_OP_FULL) return true;
    return false;
}

/* Told "full", perhaps for another operation's sake, and itself for a queue with a limit. */
static bool is_limited(const pawl_op *op) { return op->result == PAWL_OP_FULL && op->u.insert.depth_limit > 0; }

/* The queue whose room it waits for; -1: several, or one that is not configured here. *how: what its first queue says. */
static int full_queue(core *c, const core_request *r, pawl_full *how)
{
    int found = -1, queues = 0;
    *how = PAWL_FULL_WAIT;
    for (int i = 0; i < r->count; i++) {
        if (!is_limited(&r->ops[i])) continue;
        int q = claim_find_queue(c, r->ops[i].u.insert.body->queue);
        if (queues > 0 && q == found) continue;
        if (queues++ == 0 && q >= 0) *how = c->queues[q].full;
        found = q;
    }
    return queues == 1 ? found : -1;
}

static void again(core_request *r)
{
    for (int i = 0; i < r->count; i++)
        if (r->ops[i].result == PAWL_OP_FULL) r->ops[i].result = PAWL_OP_NONE;
}

static void fall_back(core *c, core_request *r)
{
    r->fell_back = true;
    for (int i = 0; i < r->count; i++) {
        pawl_op *op = &r->ops[i];
        if (!is_limited(op)) continue;
        op->u.insert.body->queue = "default";
        op->u.insert.depth_limit = depth_limit(c, "default");
    }
    again(r);
    request_gather(c, r);
}

/* Whether it alone is more than its queue may ever hold. */
static bool never_fits(const core_request *r)
{
    for (int i = 0; i < r->count; i++) {
        const pawl_op *op = &r->ops[i];
        int64_t same = 0;
        if (!is_limited(op) || r->count <= op->u.insert.depth_limit) continue;
        for (int k = 0; k < r->count; k++)
            same += r->ops[k].result == PAWL_OP_FULL && strcmp(r->ops[k].u.insert.body->queue, op->u.insert.body->queue) == 0;
        if (same > op->u.insert.depth_limit) return true;
    }
    return false;
}

#define ROOM_UNKNOWN (1 << 30)

/* When as many tasks have left as the store said must. */
static int64_t room_at(const core_request *r)
{
    int64_t missing = 1;
    for (int i = 0; i < r->count; i++)
        if (r->ops[i].result == PAWL_OP_FULL && r->ops[i].u.insert.missing > missing) missing = r->ops[i].u.insert.missing;
    return r->room_seq + missing;
}

static void full(core *c, core_request *r)
{
    pawl_full how;
    r->room_at = room_at(r);
    r->queue = full_queue(c, r, &how);
    if (how == PAWL_FULL_FALLBACK && !r->fell_back) {
        fall_back(c, r);
    } else if (how == PAWL_FULL_WAIT && !r->in_handler && !r->fell_back && !r->answer.kind && !never_fits(r)) {
        if (c->room_seq >= r->room_at && !CANARY(ROOM_MISSED)) {
            again(r);
            request_gather(c, r);
        } else {
            r->place = REQUEST_PARKED;
            list_append(&c->parked, &r->link);
            if (r->wake_seq != c->wake_seq) request_woken(c);
        }
    } else {
        request_answer(c, r, PAWL_FULL);
    }
}

/* Its batch is committed; it is in no list. */
void request_results(core *c, core_request *r, int64_t sent_us, int64_t store_now_us)
{
    bool settled = true;
    for (int i = 0; i < r->count; i++) {
        pawl_op *op = &r->ops[i];
        if (op->kind == PAWL_OP_INSERT && op->u.insert.group == GROUP_STORED) continue;
        settled = op_result(c, r, op, sent_us, store_now_us) && settled;
    }
    if (settled) request_answer(c, r, PAWL_OK);
    else if (is_full(r)) full(c, r);
    else request_gather(c, r);
}

void request_unpark(core *c, int queue)
{
    c->room_seq += queue >= 0 ? 1 : ROOM_UNKNOWN;
    list_each(node, &c->parked) {
        core_request *r = container_of(node, core_request, link);
        if (c->room_seq < r->room_at || (queue >= 0 && r->queue >= 0 && r->queue != queue)) continue;
        list_remove(&r->link);
        again(r);
        request_gather(c, r);
    }
}

/* Trying is a commit, which wakes other nodes whose callers wait for room: so not more often than every 100 ms. */
void request_woken(core *c)
{
    int64_t next_us = c->room_woken_us + 100 * PAWL_MILLISECOND;
    if (list_empty(&c->parked)) return;
    if (c->now.mono_us < next_us) {
        engine_timer(c, &c->room_timer, next_us);
        return;
    }
    c->room_woken_us = c->now.mono_us;
    request_unpark(c, -1);
}
