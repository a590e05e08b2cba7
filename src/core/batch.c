/* Group commit: operations gather while a batch is on its way, and leave in the next.
 *
 * A lane has at most one batch unanswered. A batch whose outcome is unknown goes again, unchanged, under the same number: the receipt
 * in the store tells whether it was applied. A batch that certainly was not applied is taken apart: its requests are answered with the
 * error, the operations of tasks held here gather again, and the number is used anew.
 *
 * Of all that is in flight there is at most one operation per task and per (tenant, key): `locks` holds what requests and keyed tasks
 * touch, and a task's own op_place says the rest.
 *
 * A RESERVE of a key that has no slot for long (`far_ops`) may have the store move many others to theirs. Nobody else waits for
 * that answer: such ones leave by themselves, in a lane of their own where the store has several, and then not for four times as long as it
 * took: the store has most of its time for others.
 */
#include "core/engine.h"
#include <string.h>

#define FAR_PASSED 4 /* batches of others that far_ops let go first, where there are always others */
#define FAR_BRIEF_US 200
#define FAR_REST_MOST_US (100 * PAWL_MILLISECOND)

bool batch_init(core *c)
{
    c->lanes_count = c->config.lanes > 1 ? c->config.lanes + 1 : 1;
    c->lanes = alloc_new(c->allocator, (size_t)c->lanes_count * sizeof *c->lanes);
    if (!c->lanes) return false;
    for (int i = 0; i < c->lanes_count; i++) {
        lane *l = &c->lanes[i];
        l->call.kind = CORE_APPLY;
        l->call.lane = i;
        l->backoff.kind = TIMER_LANE;
        list_init(&l->requests);
        list_init(&l->tasks);
        l->room = c->config.batch_ops + PAWL_BULK_MAX;
        l->ops = alloc_new(c->allocator, (size_t)l->room * sizeof *l->ops);
        l->call.arena = arena_new(c->allocator, 0);
        if (!l->ops || !l->call.arena) return false;
    }
    return true;
}

void batch_done(core *c)
{
    for (int i = 0; c->lanes && i < c->lanes_count; i++) {
        lane *l = &c->lanes[i];
        if (l->requests.next)
            list_each(node, &l->requests) core_request_free(c, container_of(node, core_request, link));
        alloc_free(c->allocator, l->ops);
        arena_free(l->call.arena);
    }
    alloc_free(c->allocator, c->lanes);
}

bool batch_gathered(const core *c) { return !list_empty(&c->task_ops) || !list_empty(&c->far_ops) || !list_empty(&c->requests); }

bool batch_idle(const core *c)
{
    for (int i = 0; i < c->lanes_count; i++)
        if (c->lanes[i].call.busy || c->lanes[i].resend) return false;
    return !batch_gathered(c);
}

static list *list_of(core *c, const core_task *t) { return t->op.kind == PAWL_OP_RESERVE && t->far ? &c->far_ops : &c->task_ops; }

void batch_gather_task(core *c, core_task *t)
{
    if (t->op_place == OP_GATHERED) return;
    CHECK(t->op_place == OP_IDLE);
    t->op_place = OP_GATHERED;
    t->op.result = PAWL_OP_NONE;
    list_append(list_of(c, t), &t->op_link);
}

/* ---- what must not meet ---------------------------------------------------------------------------------------------------------- */

/* Ids are positive, so key hashes, with their top bit set, never meet them. */
uint64_t batch_key_hash(const pawl_body *body)
{
    const char *tenant = body->tenant ? body->tenant : "";
    uint64_t seed = hash_bytes(tenant, strlen(tenant), 1);
    return hash_bytes(body->key, strlen(body->key), seed) | UINT64_C(1) << 63;
}

static bool locked(const core *c, uint64_t key) { return c->locks.count > 0 && map_get(&c->locks, key); }

static bool task_flying(const core *c, pawl_id id)
{
    core_task *t = run_find(c, id);
    return t && t->op_place == OP_FLYING;
}

/* What an operation touches besides its task: its key, or its queue. 0: nothing. */
static uint64_t other_lock(const pawl_op *op)
{
    if (op->kind == PAWL_OP_INSERT && op->u.insert.body->key) return batch_key_hash(op->u.insert.body);
    if (op->kind == PAWL_OP_QUEUE) return hash_bytes(op->u.queue.queue, strlen(op->u.queue.queue), 2) | UINT64_C(1) << 63;
    if (op->kind == PAWL_OP_BOUND)
        return hash_bytes(op->u.bound.name, strlen(op->u.bound.name), 4 + 16 * (uint64_t)op->u.bound.scope) | UINT64_C(1) << 63;
    if (op->kind == PAWL_OP_LIMIT) return hash_bytes(op->u.limit.type, strlen(op->u.limit.type), 3) | UINT64_C(1) << 63;
    const char *schedule = op->kind == PAWL_OP_STEP       ? op->u.step->name
                           : op->kind == PAWL_OP_SCHEDULE ? op->u.schedule->row->name
                                                          : NULL;
    if (schedule) return hash_bytes(schedule, strlen(schedule), 4) | UINT64_C(1) << 63;
    if (op->kind == PAWL_OP_BATCH && op->u.batch->name)
        return hash_bytes(op->u.batch->name, strlen(op->u.batch->name), 5) | UINT64_C(1) << 63;
    return 0;
}

static bool op_blocked(const core *c, const pawl_op *op)
{
    if (op->id && (locked(c, (uint64_t)op->id) || task_flying(c, op->id))) return true;
    uint64_t other = other_lock(op);
    return other && locked(c, other);
}

static bool request_blocked(const core *c, const core_request *r)
{
    if (!r->locks || CANARY(KEYS_MEET)) return false;
    for (int i = 0; i < r->count; i++)
        if (r->ops[i].result == PAWL_OP_NONE && op_blocked(c, &r->ops[i])) return true;
    return false;
}

static bool task_blocked(const core *c, const core_task *t)
{
    return locked(c, (uint64_t)t->body->id) || (t->body->key && locked(c, batch_key_hash(t->body)));
}

static void lock_request(core *c, core_request *r)
{
    for (int i = 0; r->locks && i < r->count; i++) {
        const pawl_op *op = &r->ops[i];
        if (op->result != PAWL_OP_NONE) continue;
        if (op->id) map_put(&c->locks, &r->locks[2 * i], (uint64_t)op->id);
        uint64_t other = other_lock(op);
        if (other) map_put(&c->locks, &r->locks[2 * i + 1], other);
    }
}

static void unlock_request(core *c, core_request *r)
{
    for (int i = 0; r->locks && i < 2 * r->count; i++) {
        if (r->locks[i].key) map_remove(&c->locks, &r->locks[i]);
        r->locks[i].key = 0;
    }
}

static void unlock_task(core *c, core_task *t)
{
    if (t->key_lock.key) map_remove(&c->locks, &t->key_lock);
    t->key_lock.key = 0;
}

/* ---- forming ------------------------------------------------------------------------------------------------------------------------ */

#define IDS_LOW_MS 60000

static int64_t now_ms(const core *c) { return c->now.wall_us / 1000 - PAWL_EPOCH_MS; }

pawl_id core_draw_id(core *c, core_time now)
{
    c->now = now;
    return c->ids.number ? idgen_next(&c->ids, now_ms(c)) : 0;
}

static void add_task(core *c, lane *l, core_task *t)
{
    list_remove(&t->op_link);
    list_append(&l->tasks, &t->op_link);
    t->op_place = OP_FLYING;
    if (t->body->key) map_put(&c->locks, &t->key_lock, batch_key_hash(t->body));
    l->ops[l->call.u.batch.count++] = &t->op;
}

static size_t task_bytes(const core_task *t)
{
    if (t->op.kind != PAWL_OP_FINISH && t->op.kind != PAWL_OP_RELEASE) return 64;
    return 256 + (t->outcome ? t->outcome->log.len + t->outcome->result.len : 0);
}

static size_t gather_tasks(core *c, lane *l, list *from)
{
    size_t bytes = 0;
    list_each(node, from) {
        core_task *t = container_of(node, core_task, op_link);
        if (l->call.u.batch.count >= c->config.batch_ops || bytes >= c->config.batch_bytes) break;
        if (task_blocked(c, t)) continue;
        bytes += task_bytes(t);
        add_task(c, l, t);
    }
    return bytes;
}

static void draw_step_ids(core *c, const pawl_step *step, int64_t ms)
{
    for (int i = 0; i < step->tasks_count; i++) {
        pawl_op *op = &step->tasks[i];
        if (op->id == 0) op->id = idgen_next(&c->ids, ms);
        op->u.insert.body->id = op->id;
    }
}

static void draw_ids(core *c, core_request *r)
{
    int64_t ms = now_ms(c);
    for (int i = 0; i < r->count; i++) {
        pawl_op *op = &r->ops[i];
        bool opens = op->kind == PAWL_OP_BATCH && op->u.batch->act == PAWL_BATCH_OPEN;
        if ((op->kind == PAWL_OP_INSERT || opens) && op->id == 0) op->id = idgen_next(&c->ids, ms);
        if (op->kind == PAWL_OP_RETRY && op->u.retry.new_id == 0) op->u.retry.new_id = idgen_next(&c->ids, ms);
        if (op->kind == PAWL_OP_STEP) draw_step_ids(c, op->u.step, ms);
    }
}

static bool ids_ready(core *c, const core_request *r)
{
    int count = c->config.one_shot ? 0 : request_ids(r);
    if (count == 0) return true;
    bool ready = c->ids.number && idgen_room(&c->ids, now_ms(c)) > count;
    if (!ready || c->ids.ceiling_ms - now_ms(c) < IDS_LOW_MS) c->ids_wanted = true; /* raised ahead of need */
    return ready;
}

static bool due_now(const core *c, const pawl_op *op)
{
    return op->u.insert.delay_us <= 0 && op->u.insert.at_us <= c->now.wall_us;
}

static void add_request(core *c, lane *l, core_request *r, int group)
{
    pawl_batch *batch = &l->call.u.batch;
    if (!c->config.one_shot) draw_ids(c, r);
    lock_request(c, r);
    list_remove(&r->link);
    list_append(&l->requests, &r->link);
    r->place = REQUEST_FLYING;
    if (CANARY(ACK_EARLY) && !r->answer.kind) engine_act(c, &r->answer, CORE_ANSWER);
    r->room_seq = c->room_seq;
    r->wake_seq = c->wake_seq;
    for (int i = 0; i < r->count; i++) {
        pawl_op *op = &r->ops[i];
        if (op->result != PAWL_OP_NONE) continue;
        if (op->kind == PAWL_OP_INSERT) {
            int queue;
            op->u.insert.body->id = op->id;
            op->u.insert.group = r->count > 1 ? group : 0;
            op->u.insert.ask_lease = due_now(c, op) && claim_may_ask(c, op->u.insert.body, &queue);
        }
        l->ops[batch->count++] = op;
    }
}

static void gather_requests(core *c, lane *l, size_t bytes)
{
    pawl_batch *batch = &l->call.u.batch;
    int taken = 0;
    list_each(node, &c->requests) {
        core_request *r = container_of(node, core_request, link);
        if (!ids_ready(c, r)) continue;
        if (r->count == 0) {
            request_answer(c, r, PAWL_OK);
            continue;
        }
        bool over = batch->count + r->count > c->config.batch_ops || bytes + r->bytes > c->config.batch_bytes;
        if (taken > 0 && over) break;
        if (request_blocked(c, r)) continue;
        bytes += r->bytes;
        add_request(c, l, r, ++taken);
    }
}

/* ---- far_ops ------------------------------------------------------------------------------------------------------------------------- */

static bool is_aside(const core *c, const lane *l) { return l->call.lane == c->config.lanes; }

static bool far_may_go(const core *c)
{
    bool rests = c->now.mono_us < c->far_rest_us && c->mode == MODE_STARTED;
    return !list_empty(&c->far_ops) && !rests;
}

/* Where they share a lane with others they let these go first, but not for ever. */
static bool far_turn(core *c, const lane *l)
{
    if (!far_may_go(c)) return false;
    if (c->config.lanes > 1) return is_aside(c, l);
    bool others = !list_empty(&c->task_ops) || !list_empty(&c->requests);
    c->far_passed = others && c->far_passed < FAR_PASSED ? c->far_passed + 1 : 0;
    return c->far_passed == 0;
}

static void far_answered(core *c, const lane *l)
{
    int64_t took_us = c->now.mono_us - l->first_sent_us,
            rest_us = 4 * took_us < FAR_REST_MOST_US ? 4 * took_us : FAR_REST_MOST_US;
    if (took_us < FAR_BRIEF_US) return;
    c->far_rest_us = c->now.mono_us + rest_us;
    engine_timer(c, &c->far_timer, c->far_rest_us);
}

/* ---- sending ------------------------------------------------------------------------------------------------------------------------- */

static bool sendable(const core *c, const lane *l)
{
    bool others = !list_empty(&c->task_ops) || !list_empty(&c->requests);
    if (c->config.lanes > 1) return is_aside(c, l) ? far_may_go(c) : others;
    return others || far_may_go(c);
}

static void form(core *c, lane *l)
{
    pawl_batch *batch = &l->call.u.batch;
    if (!c->node && !c->config.one_shot) return; /* lease_send registers first */
    if (l->node != c->node) {
        l->node = c->node;
        l->number = 0;
    }
    *batch = (pawl_batch){.node = l->node, .lane = l->call.lane, .number = l->number + 1, .ops = l->ops};
    l->far = far_turn(c, l);
    size_t bytes = gather_tasks(c, l, l->far ? &c->far_ops : &c->task_ops);
    if (!l->far) gather_requests(c, l, bytes);
    if (batch->count == 0) return;
    l->first_sent_us = c->now.mono_us;
    engine_call(c, &l->call);
}

void batch_send(core *c)
{
    for (int i = 0; i < c->lanes_count; i++) {
        lane *l = &c->lanes[i];
        if (l->call.busy || heap_has(&l->backoff.node)) continue;
        if (l->resend) {
            if (CANARY(RESEND_RENUMBERED)) l->call.u.batch.number++;
            engine_call(c, &l->call);
            continue;
        }
        if (CANARY(LANE_FORGOTTEN) && !sendable(c, l)) return;
        if (sendable(c, l)) form(c, l);
    }
}

bool batch_wanted(const core *c)
{
    for (int i = 0; i < c->lanes_count; i++) {
        const lane *l = &c->lanes[i];
        if (!l->call.busy && !heap_has(&l->backoff.node) && (sendable(c, l) || l->resend)) return true;
    }
    return false;
}

bool batch_inserting(const core *c, pawl_id id)
{
    for (int i = 0; i < c->lanes_count; i++) {
        const lane *l = &c->lanes[i];
        if (!l->call.busy && !l->resend) continue;
        for (int k = 0; k < l->call.u.batch.count; k++)
            if (l->ops[k]->kind == PAWL_OP_INSERT && l->ops[k]->u.insert.ask_lease && l->ops[k]->id == id) return true;
    }
    return false;
}

/* ---- answers ------------------------------------------------------------------------------------------------------------------------- */

static bool granted(const lane *l)
{
    for (int i = 0; i < l->call.u.batch.count; i++)
        if (l->ops[i]->kind == PAWL_OP_INSERT && l->ops[i]->out_fence > 0) return true;
    return false;
}

/* Leases of a node that is dead by now. */
static void forget_grants(lane *l)
{
    for (int i = 0; i < l->call.u.batch.count; i++)
        if (l->ops[i]->kind == PAWL_OP_INSERT) l->ops[i]->out_fence = 0;
}

static void committed(core *c, lane *l)
{
    pawl_batch *batch = &l->call.u.batch;
    if (l->far) far_answered(c, l);
    l->number = batch->number;
    l->tries = 0;
    l->resend = false;
    bool current = l->node == c->node;
    if (current && granted(l)) lease_granted(c, l->first_sent_us);
    if (!current && !CANARY(GRANT_OF_THE_DEAD)) forget_grants(l);
    list *node;
    while ((node = list_pop(&l->requests))) {
        core_request *r = container_of(node, core_request, link);
        unlock_request(c, r);
        request_results(c, r, l->call.sent_us, batch->store_now_us);
    }
    while ((node = list_pop(&l->tasks))) {
        core_task *t = container_of(node, core_task, op_link);
        unlock_task(c, t);
        t->op_place = OP_IDLE;
        run_op_answered(c, t, l->call.sent_us, batch->store_now_us);
    }
    batch->count = 0;
    if (batch->unblocked && !CANARY(UNBLOCKED_UNHEARD)) claim_stir(c);
    if (batch->schedules) recur_changed(c);
    if (batch->freed || batch->unsettled) family_changed(c, batch);
    if (current && batch->node_dead) lease_node_dead(c);
}

static void forget_asks(core *c, core_request *r)
{
    for (int i = 0; i < r->count; i++) {
        pawl_op *op = &r->ops[i];
        if (op->kind != PAWL_OP_INSERT || !op->u.insert.ask_lease) continue;
        op->u.insert.ask_lease = false;
        claim_asked(c, claim_find_queue(c, op->u.insert.body->queue));
    }
}

/* Nothing of it happened. */
static void refused(core *c, lane *l, pawl_status status)
{
    list *node;
    while ((node = list_pop(&l->requests))) {
        core_request *r = container_of(node, core_request, link);
        unlock_request(c, r);
        forget_asks(c, r);
        if (r->own) request_gather(c, r);
        else request_answer(c, r, status);
    }
    while ((node = list_pop(&l->tasks))) {
        core_task *t = container_of(node, core_task, op_link);
        unlock_task(c, t);
        t->op_place = OP_GATHERED;
        list_prepend(list_of(c, t), &t->op_link);
    }
    l->call.u.batch.count = 0;
    l->resend = false;
}

/* What a store wrote before it failed means nothing. */
static void forget_results(lane *l)
{
    for (int i = 0; i < l->call.u.batch.count; i++) l->ops[i]->result = PAWL_OP_NONE;
}

void batch_answered(core *c, lane *l)
{
    if (l->call.status == PAWL_OK) {
        committed(c, l);
        return;
    }
    forget_results(l);
    /* A failed resend says nothing about the first sending: only an answer or a receipt ends the doubt. */
    if ((l->call.status == PAWL_UNKNOWN || (l->resend && !CANARY(DOUBT_FORGOTTEN))) && !c->config.one_shot) l->resend = true;
    else refused(c, l, l->call.status);
    engine_timer(c, &l->backoff, c->now.mono_us + engine_backoff(c, l->tries++));
}
