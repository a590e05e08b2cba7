/* Batches in the memory store: receipts, and what each operation does.
 *
 * A batch runs in three steps: everything it needs is allocated (memory_prepare.c), the operations are carried out one after
 * another, none of which can fail any more, and the results go into the receipt of its lane.
 */
#include "store/memory_family.h"

typedef struct change {
    mem *m;
    pawl_batch *batch;
    int64_t now_us;
    mem_node *node; /* who may be given leases; NULL: nobody */
    bool granted;
    struct member *members; /* by operation; NULL: nothing in the batch is limited */
    mem_siblings siblings;
} change;

typedef struct member { /* an operation, perhaps of a group that is stored as a whole or not at all */
    mem_prep *prep;
    int next; /* operation of the same group; 0: none */
    bool judged, full;
    int64_t missing; /* if full: tasks that must leave first */
} member;

/* For the trail: an operation brings its own level. */
#define NOTE(c, op, its_rank, why) (&(mem_note){.now_us = (c)->now_us, .audit = (op)->audit, .rank = (its_rank), .detail = (why)})

#define TAKE(place) take((void **)&(place))

static void *take(void **place)
{
    void *value = *place;
    *place = NULL;
    return value;
}

/* ---- insert ------------------------------------------------------------------------------------------------------ */

/* What an INSERT will answer, room in its queue aside, and the task it meets. Changes nothing. */
static pawl_op_result foresee(const change *c, const pawl_op *op, const mem_prep *p, mem_task **met)
{
    *met = NULL;
    if (!p->body) return PAWL_OP_REFUSED;
    if (op->id && (*met = mem_find(c->m, op->id))) return op->u.insert.may_exist ? PAWL_OP_EXISTING : PAWL_OP_COLLISION;
    if (p->body->key) *met = mem_by_key(c->m, p->body->tenant, p->body->key);
    if (!*met) return PAWL_OP_DONE;
    if (!mem_live(*met) || CANARY(KEY_TWICE)) return PAWL_OP_REPLACED;
    bool stays = ((*met)->state == PAWL_LEASED && !(*met)->not_started) || op->u.insert.family;
    return stays ? PAWL_OP_EXISTING : PAWL_OP_UPDATED;
}

static int64_t run_at(const pawl_op *op, int64_t now_us)
{
    int64_t at = op->u.insert.at_us;
    if (at) return at > now_us ? at : now_us;
    return op->u.insert.delay_us > 0 ? mem_add(now_us, op->u.insert.delay_us) : now_us;
}

static void answer(pawl_op *op, const mem_task *t)
{
    op->out_id = t->id;
    op->out_state = (pawl_state)t->state;
    op->out_run_at_us = t->run_at_us;
}

typedef struct taken { /* what an insert took of a budget */
    bool now, has;     /* it may start at once; it has a slot */
    budget_slot slot;
} taken;

/* A slot for a task that is due and stands nowhere, nor in a line. */
static taken take_slot(change *c, mem_prep *p, const mem_task *t, bool leased)
{
    taken k = {.now = true, .slot.until_us = INT64_MAX};
    const mem_limit *l = p->budget ? mem_limit_of(c->m, t->body->type, t->body->rate_key) : NULL;
    if (!l || t->run_at_us > c->now_us || mem_ordered(c->m, t->body)) return k;
    budget_answer answer =
        mem_budget_take(c->m, p->budget, l, c->now_us, &(budget_ask){.id = t->id, .ahead_only = !leased}, &k.slot);
    k.now = answer == BUDGET_NOW;
    k.has = answer == BUDGET_LATER;
    return k;
}

static void store_pending(change *c, mem_task *t, const mem_note *note)
{
    if (c->m->bounds_in_force > 0) mem_line_up(c->m, t, c->now_us);
    mem_move(c->m, t, TASK_DISPATCHED, note);
}

static void store_new(change *c, pawl_op *op, mem_prep *p, bool may_lease, bool waits)
{
    pawl_id id = op->id ? op->id : mem_draw_id(c->m, c->now_us);
    mem_task *t = mem_create(c->m, id, TAKE(p->body), TAKE(p->level), op->audit, c->now_us);
    t->run_at_us = run_at(op, c->now_us);
    bool lease = may_lease && op->u.insert.ask_lease && c->node && t->run_at_us <= c->now_us && !t->kind->queue->paused;
    if (lease && (c->m->bounding || t->kind->queue->fair || mem_bounded(c->m, t->kind))) lease = false;
    taken k = {.now = !waits, .slot.until_us = INT64_MAX};
    if (p->budget && !waits) k = take_slot(c, p, t, lease);
    lease = lease && k.now;
    op->u.insert.body->id = id;
    op->u.insert.body->created_us = c->now_us;
    op->out_until_us = k.slot.until_us;
    op->out_epoch = k.slot.epoch;
    if (k.has) mem_slot_set(p->budget, t, &k.slot);
    if (lease) mem_lease(c->m, t, c->node, TASK_BORN_LEASED, NOTE(c, op, ROW_CHANGE, NULL));
    else if (waits) mem_move(c->m, t, TASK_HAS_PARENTS, NOTE(c, op, ROW_CHANGE, NULL));
    else store_pending(c, t, NOTE(c, op, ROW_CHANGE, NULL));
    if (op->u.insert.family) mem_family_put(c->m, op, t, &c->siblings, waits);
    c->granted |= lease;
    answer(op, t);
    op->out_fence = t->fence;
}

/* Whose rate key only their handlers know may have another one now. */
static bool same_budget(const pawl_body *a, const pawl_body *b)
{
    return a->rate_key.len > 0 && a->rate_key.len == b->rate_key.len && strcmp(a->type, b->type) == 0 &&
           memcmp(a->rate_key.data, b->rate_key.data, a->rate_key.len) == 0;
}

/* A task with a slot that is given another body keeps it, if its rate key is the same and its time not later. */
static void keep_slot(change *c, const pawl_op *op, mem_task *t, const pawl_body *body)
{
    int64_t at_us = run_at(op, c->now_us);
    if (mem_slot_good(t) && same_budget(t->body, body) && t->run_at_us >= at_us) return;
    mem_slot_give_back(c->m, t, c->now_us);
    t->run_at_us = at_us;
}

static void update(change *c, pawl_op *op, mem_prep *p, mem_task *t)
{
    if (t->state == PAWL_LEASED) mem_take_back(c->m, t, NOTE(c, op, ROW_CHANGE, NULL));
    mem_unplace(c->m, t);
    if (c->m->bounds_in_force + t->placed > 0) mem_places_withdraw(c->m, t);
    pawl_body *body = TAKE(p->body);
    body->id = t->id;
    body->created_us = t->body->created_us;
    body->retry_of = t->body->retry_of;
    keep_slot(c, op, t, body);
    pawl_body_free(&c->m->allocator, t->body);
    t->body = body;
    mem_level_drop(c->m, t->level);
    t->level = TAKE(p->level);
    t->kind = t->level->kind;
    if (!t->budget && t->state != PAWL_WAITING) {
        taken k = take_slot(c, p, t, false);
        if (k.has) mem_slot_set(p->budget, t, &k.slot);
    }
    t->audit = (unsigned char)(op->audit == PAWL_AUDIT_DEFAULT ? PAWL_AUDIT_FULL : op->audit);
    if (c->m->bounds_in_force > 0 && t->state == PAWL_PENDING) mem_line_up(c->m, t, c->now_us);
    mem_place(c->m, t);
    answer(op, t);
}

static void insert(change *c, pawl_op *op, mem_prep *p, bool may_lease)
{
    mem_task *met;
    mem_kinship k = {.result = PAWL_OP_DONE};
    op->result = foresee(c, op, p, &met);
    if (op->u.insert.family && (op->result == PAWL_OP_DONE || op->result == PAWL_OP_REPLACED))
        k = mem_family_judge(c->m, op, &c->siblings);
    if (k.result != PAWL_OP_DONE) {
        op->result = k.result;
        op->out_id = k.result == PAWL_OP_NOT_FOUND || k.result == PAWL_OP_CONFLICT ? k.id : 0;
        return;
    }
    switch (op->result) {
    case PAWL_OP_DONE:
    case PAWL_OP_REPLACED: store_new(c, op, p, may_lease, k.waits); break;
    case PAWL_OP_UPDATED: update(c, op, p, met); break;
    case PAWL_OP_EXISTING: answer(op, met); break;
    default: break;
    }
}

/* ---- depth limits, decided before anything is stored ------------------------------------------------------------- */

/* Whether the operation's queue has a limit that the batch might reach. */
static bool limited(const change *c, const pawl_op *op, const mem_prep *p)
{
    if (op->kind != PAWL_OP_INSERT || op->u.insert.depth_limit <= 0 || !p->level) return false;
    return queue_depth(p->level->kind->queue) + c->batch->count > op->u.insert.depth_limit;
}

static int group_of(const pawl_op *op) { return op->kind == PAWL_OP_INSERT ? op->u.insert.group : 0; }

/* Chains the operations of each group. `last` is a hash from group to index + 1 of its last operation so far. */
static void chain_groups(change *c, mem_prep *preps, int *last, uint32_t slots)
{
    pawl_op **ops = c->batch->ops;
    for (int i = 0; i < c->batch->count; preps += 1 + mem_spawns(ops[i]), i++) {
        int group = group_of(ops[i]);
        c->members[i].prep = preps;
        if (group <= 0 || CANARY(GROUP_SPLIT)) continue;
        uint32_t slot = (uint32_t)group * UINT32_C(2654435769) & (slots - 1);
        while (last[slot] && group_of(ops[last[slot] - 1]) != group) slot = (slot + 1) & (slots - 1);
        if (last[slot]) c->members[last[slot] - 1].next = i;
        last[slot] = i + 1;
    }
}

/* Counts what the group that begins with operation i would add to its queues, and how many tasks too many that is for one of them. */
static int64_t count_in(change *c, int i, int sign)
{
    int64_t missing = 0;
    mem_task *met;
    for (int k = i, first = 1; first || k; k = c->members[k].next, first = 0) {
        const pawl_op *op = c->batch->ops[k];
        pawl_op_result result = foresee(c, op, c->members[k].prep, &met);
        c->members[k].judged = true;
        if (result != PAWL_OP_DONE && result != PAWL_OP_REPLACED) continue;
        mem_queue *q = c->members[k].prep->level->kind->queue;
        q->coming += sign;
        int64_t over = op->u.insert.depth_limit > 0 ? queue_depth(q) + q->coming - op->u.insert.depth_limit : 0;
        if (over > missing) missing = over;
    }
    return missing;
}

static void judge_depths(change *c)
{
    for (int i = 0; i < c->batch->count; i++) {
        if (c->batch->ops[i]->kind != PAWL_OP_INSERT || c->members[i].judged) continue;
        int64_t missing = count_in(c, i, 1);
        if (missing == 0) continue;
        count_in(c, i, -1);
        for (int k = i, first = 1; first || k; k = c->members[k].next, first = 0) {
            c->members[k].full = true;
            c->members[k].missing = missing;
        }
    }
    for (int i = 0; i < c->batch->count; i++)
        if (c->members[i].prep->level) c->members[i].prep->level->kind->queue->coming = 0;
}

/* Which inserts find their queue full. false: no memory. */
static bool find_full(change *c, mem_prep *preps, pawl_arena *arena)
{
    int count = c->batch->count;
    uint32_t slots = 16;
    bool any = false;
    mem_prep *p = preps;
    for (int i = 0; i < count && !any; p += 1 + mem_spawns(c->batch->ops[i]), i++) any = limited(c, c->batch->ops[i], p);
    if (!any) return true;
    while (slots < 2 * (uint32_t)count) slots *= 2;
    int *last = pawl_arena_alloc(arena, slots * sizeof *last);
    c->members = pawl_arena_alloc(arena, (size_t)count * sizeof *c->members);
    if (!last || !c->members) return false;
    chain_groups(c, preps, last, slots);
    judge_depths(c);
    return true;
}

/* ---- the holder's operations ------------------------------------------------------------------------------------- */

/* The task if it is leased under exactly this fence; else the operation is stale. */
static mem_task *held_by_fence(change *c, pawl_op *op)
{
    mem_task *t = mem_find(c->m, op->id);
    if (t && t->state == PAWL_LEASED && (t->fence == op->fence || CANARY(FENCE_UNCHECKED))) return t;
    op->result = PAWL_OP_STALE;
    op->out_state = t ? (pawl_state)t->state : PAWL_STATE_NONE;
    if (t && !mem_live(t)) op->out_fence = t->fence;
    return NULL;
}

static void start(change *c, pawl_op *op)
{
    mem_task *t = held_by_fence(c, op);
    if (!t) return;
    op->out_state = PAWL_LEASED;
    op->result = t->cancel_asked ? PAWL_OP_CANCELLING : PAWL_OP_DONE;
    if (t->cancel_asked) return;
    t->not_started = false;
    t->started_us = c->now_us;
    if (!op->u.start.mark || t->marked) return;
    t->marked = true;
    if (t->node->alive) t->node->marked++;
}

static void reserve(change *c, pawl_op *op, mem_prep *p)
{
    mem_task *t = held_by_fence(c, op);
    op->u.reserve.along = op->u.reserve.along_own = 0;
    if (!t) return;
    pawl_bytes key = t->body->rate_key.len ? t->body->rate_key : op->u.reserve.key;
    const mem_limit *l = p->budget ? mem_limit_of(c->m, t->body->type, key) : NULL;
    budget_ask ask = {.id = t->id, .again = op->u.reserve.again};
    budget_slot slot = {.slot_us = c->now_us, .until_us = INT64_MAX};
    op->out_state = PAWL_LEASED;
    op->result = t->cancel_asked ? PAWL_OP_CANCELLING : PAWL_OP_DONE;
    if (t->cancel_asked) return;
    bool free = !l || (l->rate.retries_free && t->failures > 0);
    budget_answer answer = free ? BUDGET_NOW : mem_budget_take(c->m, p->budget, l, c->now_us, &ask, &slot);
    op->out_run_at_us = slot.slot_us;
    op->out_until_us = slot.until_us;
    op->out_epoch = slot.epoch;
    if (answer == BUDGET_BEYOND) {
        op->result = PAWL_OP_BEYOND;
        op->u.reserve.rate = l->rate;
    }
    if (answer != BUDGET_LATER || slot.slot_us - c->now_us <= op->u.reserve.near_us) return;
    op->result = PAWL_OP_MOVED;
    mem_unplace(c->m, t);
    mem_slot_set(p->budget, t, &slot);
    mem_arrive(c->m, t, TASK_AGAIN, NOTE(c, op, ROW_CHANGE, "throttled"));
    op->out_state = PAWL_PENDING;
}

static void set_progress(change *c, mem_task *t, int percent, mem_prep *p)
{
    t->progress = (signed char)(percent < 0 ? -1 : percent < 100 ? percent : 100);
    alloc_free(&c->m->allocator, t->progress_text);
    t->progress_text = TAKE(p->text);
}

static void progress(change *c, pawl_op *op, mem_prep *p)
{
    mem_task *t = held_by_fence(c, op);
    if (!t) return;
    op->result = PAWL_OP_DONE;
    op->out_state = PAWL_LEASED;
    set_progress(c, t, op->u.progress.percent, p);
}

/* A run that returned proves the task innocent of its node's death. */
static void end_run(change *c, mem_task *t, const pawl_execution *run, mem_prep *p, bool last)
{
    if (last) set_progress(c, t, run->outcome ? run->progress : -1, p);
    if (run->outcome == PAWL_ATTEMPT_NONE) {
        if (last) t->ending = TAKE(p->ending);
        return;
    }
    t->suspect = t->solo = false;
    mem_record_run(c->m, t, run, TAKE(p->ending), TAKE(p->log), last, c->now_us);
}

static const char *why_failed(const mem_ending *e) { return !e ? NULL : e->error ? e->error : e->reason; }

/* Where the finish of a run leads; 0: nowhere. */
static task_why finish_why(pawl_state to)
{
    switch (to) {
    case PAWL_SUCCEEDED: return TASK_OK;
    case PAWL_FAILED: return TASK_EXHAUSTED;
    case PAWL_CANCELLED: return TASK_CANCEL;
    default: return 0;
    }
}

static mem_rank finish_rank(const pawl_op *op)
{
    if (op->u.finish.to == PAWL_FAILED) return ROW_ERROR;
    return op->u.finish.run.outcome != PAWL_ATTEMPT_NONE ? ROW_END : ROW_CHANGE;
}

/* What cannot be stored of a finish's spawns stops the finish, too. */
static bool spawns_refused(const change *c, const pawl_op *op, const mem_prep *preps)
{
    bool refused = false;
    mem_siblings s = {.spawns = op->u.finish.spawns, .spawner = op->id};
    for (; s.count < op->u.finish.spawns_count; s.count++) {
        int i = s.count;
        if (preps[i].body && mem_family_judge(c->m, &op->u.finish.spawns[i], &s).result == PAWL_OP_DONE) continue;
        op->u.finish.spawns[i].result = PAWL_OP_REFUSED;
        refused = true;
    }
    return refused;
}

/* Nobody can send a spawn again under another id, so one whose id is taken gets an id of the store's. */
static void spawn(change *c, pawl_op *op, mem_prep *p)
{
    insert(c, op, p, false);
    if (op->result != PAWL_OP_COLLISION) return;
    op->id = 0;
    insert(c, op, p, false);
}

static void finish(change *c, pawl_op *op, mem_prep *p)
{
    task_why why = finish_why(op->u.finish.to);
    mem_task *t = held_by_fence(c, op);
    if (!t) return;
    op->out_state = PAWL_LEASED;
    op->result = !why ? PAWL_OP_CONFLICT : spawns_refused(c, op, p + 1) ? PAWL_OP_REFUSED : PAWL_OP_DONE;
    if (op->result != PAWL_OP_DONE) return;
    if (why == TASK_EXHAUSTED && op->u.finish.run.outcome != PAWL_ATTEMPT_NONE) t->failures++;
    if (op->u.finish.run.outcome == PAWL_ATTEMPT_NONE) mem_slot_give_back(c->m, t, c->now_us);
    end_run(c, t, &op->u.finish.run, p, true);
    mem_move(c->m, t, why, NOTE(c, op, finish_rank(op), why == TASK_EXHAUSTED ? why_failed(t->ending) : NULL));
    op->out_state = (pawl_state)t->state;
    c->siblings = (mem_siblings){.spawns = op->u.finish.spawns, .spawner = op->id};
    for (int i = 0; i < op->u.finish.spawns_count; i++, c->siblings.count++) spawn(c, &op->u.finish.spawns[i], &p[1 + i]);
    c->siblings = (mem_siblings){0};
}

static mem_rank release_rank(const pawl_op *op)
{
    if (op->u.release.failure) return ROW_ERROR;
    return op->u.release.run.outcome != PAWL_ATTEMPT_NONE ? ROW_END : ROW_CHANGE;
}

static void release(change *c, pawl_op *op, mem_prep *p)
{
    mem_task *t = held_by_fence(c, op);
    if (!t) return;
    const char *detail = why_failed(p->ending);
    op->result = PAWL_OP_DONE;
    end_run(c, t, &op->u.release.run, p, t->cancel_asked);
    if (!t->cancel_asked) {
        t->failures += op->u.release.failure;
        t->interruptions += op->u.release.interruption;
        if (op->u.release.failure) c->m->minute->retried++;
        if (op->u.release.delay_us >= 0) t->run_at_us = mem_add(c->now_us, op->u.release.delay_us);
    }
    mem_unplace(c->m, t);
    if (!t->cancel_asked && op->u.release.slot_us && p->budget)
        mem_slot_set(p->budget, t, &(budget_slot){.slot_us = op->u.release.slot_us, .epoch = op->u.release.epoch});
    mem_arrive(c->m, t, t->cancel_asked ? TASK_CANCEL : TASK_AGAIN, NOTE(c, op, release_rank(op), detail));
    op->out_state = (pawl_state)t->state;
    op->out_run_at_us = t->run_at_us;
}

/* ---- what people ask --------------------------------------------------------------------------------------------- */

static void log_operator(change *c, mem_prep *p)
{
    mem_operator *o = TAKE(p->operator);
    if (!o) return;
    o->number = ++c->m->operators_count;
    list_append(&c->m->operators, &o->age);
}

/* The task, or NULL and NOT_FOUND. */
static mem_task *wanted(change *c, pawl_op *op)
{
    mem_task *t = mem_find(c->m, op->id);
    op->result = t ? PAWL_OP_CONFLICT : PAWL_OP_NOT_FOUND;
    op->out_state = t ? (pawl_state)t->state : PAWL_STATE_NONE;
    return t;
}

static void cancel(change *c, pawl_op *op, mem_prep *p)
{
    mem_task *t = wanted(c, op);
    if (!t || !mem_live(t)) return;
    log_operator(c, p);
    op->result = mem_cancel(c->m, t, NOTE(c, op, ROW_CHANGE, NULL)) ? PAWL_OP_ASKED : PAWL_OP_DONE;
}

static void resolve(change *c, mem_task *t, mem_prep *p, int64_t resolved_us)
{
    mem_unplace(c->m, t);
    t->resolution = TAKE(p->resolution);
    t->resolution->resolved_us = resolved_us;
    mem_place(c->m, t);
}

static void link_retry(change *c, mem_task *old, mem_prep *p, pawl_id id)
{
    if (!old->resolution) resolve(c, old, p, old->state == PAWL_FAILED ? c->now_us : 0);
    old->resolution->retried_as = id;
}

static void retry(change *c, pawl_op *op, mem_prep *p)
{
    mem_task *old = wanted(c, op), *rival;
    if (!old || (old->state != PAWL_FAILED && old->state != PAWL_CANCELLED)) return;
    op->out_id = old->resolution ? old->resolution->retried_as : 0;
    rival = old->body->key ? mem_by_key(c->m, old->body->tenant, old->body->key) : NULL;
    if (!op->out_id && rival && mem_live(rival)) {
        op->out_id = rival->id;
        op->out_state = (pawl_state)rival->state;
    }
    op->result = op->out_id ? PAWL_OP_EXISTING : PAWL_OP_COLLISION;
    pawl_id id = op->u.retry.new_id;
    if (op->out_id || (id && mem_find(c->m, id))) return;
    if (!id) id = mem_draw_id(c->m, c->now_us);
    log_operator(c, p);
    link_retry(c, old, p, id);
    p->body->retry_of = old->id;
    mem_task *t = mem_create(c->m, id, TAKE(p->body), TAKE(p->level), op->audit, c->now_us);
    t->run_at_us = c->now_us;
    taken k = take_slot(c, p, t, false);
    if (k.has) mem_slot_set(p->budget, t, &k.slot);
    store_pending(c, t, NOTE(c, op, ROW_CHANGE, NULL));
    if (c->m->kins.count > 0) mem_family_retried(c->m, old->id, id);
    op->result = PAWL_OP_DONE;
    op->out_id = id;
    op->out_run_at_us = t->run_at_us;
}

static void acknowledge(change *c, pawl_op *op, mem_prep *p)
{
    mem_task *t = wanted(c, op);
    if (!t || t->state != PAWL_FAILED || t->resolution) return;
    resolve(c, t, p, c->now_us);
    log_operator(c, p);
    op->result = PAWL_OP_DONE;
}

static void set_queue(change *c, pawl_op *op, mem_prep *p)
{
    p->queue->paused = op->u.queue.pause;
    log_operator(c, p);
    op->result = PAWL_OP_DONE;
}

static void set_limit(change *c, pawl_op *op, mem_prep *p)
{
    op->result = mem_limit_put(c->m, p->limit, op, c->now_us);
    op->u.limit.more = op->u.limit.move > 0 && mem_limit_move(c->m, p->limit, op->u.limit.move, c->now_us);
    if (op->result == PAWL_OP_DONE || op->result == PAWL_OP_UPDATED) log_operator(c, p);
}

static void set_bound(change *c, pawl_op *op, mem_prep *p)
{
    op->u.bound.more = false;
    op->result = p->bound ? mem_bound_put(c->m, p->bound, op) : mem_share_put(c->m, p->queue, p->share, op);
    if (op->result == PAWL_OP_DONE || op->result == PAWL_OP_UPDATED) log_operator(c, p);
}

/* ---- schedules --------------------------------------------------------------------------------------------------- */

static void put_schedule(change *c, pawl_op *op, mem_prep *p)
{
    op->result = mem_schedule_put(c->m, op->u.schedule, p, c->now_us);
    if (op->result == PAWL_OP_DONE || op->result == PAWL_OP_UPDATED) log_operator(c, p);
}

static bool tasks_refused(const pawl_op *op, const mem_prep *preps)
{
    for (int i = 0; i < op->u.step->tasks_count; i++)
        if (!preps[i].body) return true;
    return false;
}

static void step(change *c, pawl_op *op, mem_prep *p)
{
    const pawl_step *step = op->u.step;
    mem_schedule *s = mem_schedule_find(c->m, step->name);
    bool current = s && (mem_schedule_is(s, step->version) || CANARY(VERSION_IGNORED));
    op->result = !s ? PAWL_OP_NOT_FOUND : !current ? PAWL_OP_STALE : tasks_refused(op, p + 1) ? PAWL_OP_REFUSED : PAWL_OP_DONE;
    if (op->result != PAWL_OP_DONE) return;
    log_operator(c, p);
    for (int i = 0, task = 0; i < step->fates_count; i++) {
        const pawl_fate *fate = &step->fates[i];
        if (!fate->fires) {
            mem_skip(c->m, s, fate, c->now_us);
            continue;
        }
        pawl_op *insert = &step->tasks[task];
        mem_prep *prep = &p[1 + task++];
        insert->result = mem_schedule_admit(c->m, s, step, fate, c->now_us);
        if (insert->result != PAWL_OP_DONE) continue;
        spawn(c, insert, prep);
        mem_opened(c->m, s, fate, insert->out_id, c->now_us);
    }
    mem_stepped(c->m, s, step, TAKE(p->text));
}

/* ---- families ---------------------------------------------------------------------------------------------------- */

static void put_batch(change *c, pawl_op *op, mem_prep *p)
{
    op->result = mem_batch_put(c->m, op, &p->batch, c->now_us);
    if (op->result == PAWL_OP_DONE) log_operator(c, p);
}

static void settle(change *c, pawl_op *op)
{
    op->u.settle.settled = mem_settle(c->m, op->u.settle.limit, c->now_us);
    op->result = PAWL_OP_DONE;
}

/* ---- the batch --------------------------------------------------------------------------------------------------- */

static void clear(pawl_op *op)
{
    op->result = PAWL_OP_NONE;
    op->out_id = op->out_fence = op->out_run_at_us = op->out_until_us = op->out_epoch = 0;
    op->out_state = PAWL_STATE_NONE;
    for (int i = 0; i < mem_spawns(op); i++) clear(mem_spawn(op, i));
}

static void carry_out(change *c, int i, mem_prep *p)
{
    pawl_op *op = c->batch->ops[i];
    clear(op);
    switch (op->kind) {
    case PAWL_OP_INSERT:
        if (!c->members || !c->members[i].full) {
            insert(c, op, p, true);
            break;
        }
        op->result = PAWL_OP_FULL;
        op->u.insert.missing = c->members[i].missing;
        break;
    case PAWL_OP_START: start(c, op); break;
    case PAWL_OP_FINISH: finish(c, op, p); break;
    case PAWL_OP_RELEASE: release(c, op, p); break;
    case PAWL_OP_PROGRESS: progress(c, op, p); break;
    case PAWL_OP_CANCEL: cancel(c, op, p); break;
    case PAWL_OP_RETRY: retry(c, op, p); break;
    case PAWL_OP_ACK: acknowledge(c, op, p); break;
    case PAWL_OP_QUEUE: set_queue(c, op, p); break;
    case PAWL_OP_RESERVE: reserve(c, op, p); break;
    case PAWL_OP_LIMIT: set_limit(c, op, p); break;
    case PAWL_OP_BOUND: set_bound(c, op, p); break;
    case PAWL_OP_SCHEDULE: put_schedule(c, op, p); break;
    case PAWL_OP_STEP: step(c, op, p); break;
    case PAWL_OP_BATCH: put_batch(c, op, p); break;
    case PAWL_OP_SETTLE: settle(c, op); break;
    }
}

static void commit(change *c, mem_prep *p)
{
    for (int i = 0; i < c->batch->count; p += 1 + mem_spawns(c->batch->ops[i]), i++) carry_out(c, i, p);
}

static pawl_status apply(mem_handle *h, pawl_batch *batch, pawl_arena *arena, pawl_error *err)
{
    mem *m = h->m;
    mem_needs needs = mem_survey(m, batch);
    int count = needs.count;
    mem_node *node = batch->node ? mem_find_node(m, batch->node) : NULL;
    change c = {.m = m, .batch = batch, .now_us = mem_now(&h->base), .node = node && node->alive ? node : NULL};
    mem_prep *preps = pawl_arena_alloc(arena, (size_t)count * sizeof *preps);
    mem_receipt *receipt = batch->node ? mem_receipt_get(m, batch, count) : NULL;
    if (!preps || (batch->node && !receipt)) return mem_no_memory(err);
    if (!mem_prepare(m, batch, &needs, preps, c.now_us) || !find_full(&c, preps, arena)) {
        mem_unprepare(m, preps, count);
        mem_places_offer(m);
        return mem_no_memory(err);
    }
    batch->store_now_us = c.now_us;
    m->schedules_changed = m->freed = m->stirred = false;
    commit(&c, preps);
    if (m->stirred) mem_settle(m, PAWL_SETTLE_AT_ONCE, c.now_us);
    batch->unblocked = mem_places_offer(m);
    batch->schedules = m->schedules_changed;
    batch->freed = m->freed;
    batch->unsettled = !list_empty(&m->unsettled);
    if (receipt) mem_receipt_write(receipt, batch);
    if (c.granted) mem_node_beat(c.node, mem_boot(&h->base));
    mem_unprepare(m, preps, count);
    mem_trim(m);
    mem_wake_others(h);
    return PAWL_OK;
}

pawl_status memory_apply(pawl_store *store, pawl_batch *batch, pawl_arena *arena, pawl_error *err)
{
    mem *m = mem_enter(store);
    bool done = false;
    pawl_status status = batch->node && !CANARY(RECEIPT_IGNORED) ? mem_receipt_check(m, batch, &done, err) : PAWL_OK;
    batch->unblocked = m->bounds.count > 0;
    if (!status && !done) status = apply(handle_of(store), batch, arena, err);
    const mem_node *node = batch->node ? mem_find_node(m, batch->node) : NULL;
    batch->node_dead = batch->node && (!node || !node->alive);
    mem_exit(m);
    return status;
}
