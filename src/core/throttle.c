/* Rate limits: what stands between a lease and its start.
 *
 *      adopted --> has a slot? --no--> RESERVE, unanswered --> ahead, near --> PARKED --slot--+
 *                    | yes                  |      |                                          |
 *                    |                      |      +--> far: the store has it back, at its slot
 *                    |                      +--now---------------------------------------+    |
 *                    +--> READY <--------------------------------------------------------+----+
 *                           |
 *                     a worker is free: still before the slot's end? start : RESERVE again
 *
 * A parked task holds no worker and no row was written for it. A slot is the right to start in [slot, until) of the store's time; here it
 * is [slot_mono, until_mono): the store's now lay between sending and answer, so a slot is waited for from the answer on (and a thousandth
 * longer, for clocks that drift), and its end counts from the sending. What missed its end asks again, and the horizon is not asked again.
 * Where answers take so long that nothing would be left of it, the right to start lasts longer by what they take.
 *
 * LOCAL limits and limiters of the program's own are asked when a worker is free, and need no store: what must wait for long goes back to
 * it with a delay, and its reservation stays here under its id.
 *
 * Whether a type is limited by the store is told with each lease: core needs no copy of the limits, and nobody who lacks one overruns.
 */
#include "base/text.h"
#include "core/engine.h"
#include "core/schedule.h"
#include <stdio.h>
#include <string.h>

#define MOVE 2000                       /* tasks that a limit of this program lets go on, or share, at once; others follow */
#define NEAR_US PAWL_SECOND             /* slots farther away are left to the store */
#define HASTE_US (5 * PAWL_MILLISECOND) /* what timers and workers take at most, mostly */
#define WINDOW_US (30 * PAWL_SECOND)    /* one event per key in so long */

/* ---- local limiters --------------------------------------------------------------------------------------------------------------- */

bool throttle_prepare(core *c)
{
    for (int i = 0; i < c->handlers_count; i++) {
        handler *h = &c->handlers[i];
        rate r;
        pawl_error err;
        if (h->limit.rate.permits == 0 || h->limit.scope != PAWL_RATE_LOCAL || h->rule >= 0) continue;
        if (!c->limiter) {
            limit_config config = {.allocator = c->allocator, .seed = c->config.seed, .keys_max = c->config.keys_max};
            if (!(c->limiter = limit_new(&config))) return false;
        }
        CHECK(rate_make(&h->limit.rate, h->type, &r, &err) == PAWL_OK);
        if ((h->rule = limit_add_rule(c->limiter, &r)) < 0) return false;
    }
    return true;
}

/* ---- limits of handlers ------------------------------------------------------------------------------------------------------------- */

static bool is_shared(const handler *h)
{
    return h->limit.rate.permits > 0 && h->limit.scope == PAWL_RATE_SHARED && !h->limit.limiter;
}

static void put_limit(const handler *h, pawl_op *op)
{
    op->kind = PAWL_OP_LIMIT;
    op->u.limit.type = h->type;
    op->u.limit.rate = h->limit.rate;
    op->u.limit.initial = true;
}

static void put_bound(pawl_op *op, pawl_scope scope, const char *name, int most, bool ordered)
{
    op->kind = PAWL_OP_BOUND;
    op->u.bound.scope = scope;
    op->u.bound.name = name;
    op->u.bound.most = most;
    op->u.bound.ordered = ordered;
    op->u.bound.initial = true;
    op->u.bound.move = MOVE;
}

/* What handlers and queues limit, as operations; how many. `ops` may be NULL. */
static int list_limits(const core *c, pawl_op *ops)
{
    pawl_op none, *at = ops;
    int count = 0;
#define ADD(condition, put)             \
    if (condition) {                    \
        at = ops ? &ops[count] : &none; \
        at->audit = PAWL_AUDIT_FULL;    \
        put;                            \
        count++;                        \
    }
    for (int i = 0; i < c->handlers_count; i++) {
        const handler *h = &c->handlers[i];
        ADD(is_shared(h), put_limit(h, at))
        ADD(h->limit.concurrency > 0, put_bound(at, PAWL_SCOPE_TYPE, h->type, h->limit.concurrency, false))
        ADD(h->limit.key_concurrency > 0, put_bound(at, PAWL_SCOPE_KEYS, h->type, h->limit.key_concurrency, h->limit.ordered))
    }
    for (int i = 0; i < c->queues_count; i++) {
        const queue *q = &c->queues[i];
        ADD(q->concurrency > 0, put_bound(at, PAWL_SCOPE_QUEUE, q->name, q->concurrency, false))
        ADD(q->takes_turns, put_bound(at, PAWL_SCOPE_TENANTS, q->name, 1, false))
    }
#undef ADD
    return count;
}

bool throttle_has_limits(const core *c) { return list_limits(c, NULL) > 0; }

bool throttle_register(core *c)
{
    int count = list_limits(c, NULL);
    if (count == 0 || c->limits_untold > 0) return true;
    core_request *r = core_request_new(c, count);
    if (!r || !(r->locks = alloc_new(c->allocator, 2 * (size_t)count * sizeof *r->locks))) {
        core_request_free(c, r);
        return false;
    }
    r->own = true;
    r->answer.kind = CORE_ANSWER; /* nobody waits for an answer */
    c->limits_untold = list_limits(c, r->ops);
    request_gather(c, r);
    return true;
}

void throttle_limit_stored(core *c, const pawl_op *op)
{
    claim_stir(c); /* what waited for slots may be due */
    if (!op->u.limit.initial) return;
    c->limits_untold--;
    if (op->result == PAWL_OP_UPDATED)
        engine_log(c, PAWL_WARN, "the rate limit of type '%s' was another one: that of this program's handler is in force now",
                   op->u.limit.type);
}

/* A page more of the tasks that were there before their tenants began to take turns; nobody waits for it. */
static void share_more(core *c, const char *queue)
{
    core_request *r = core_request_new(c, 1);
    if (!r || !(r->locks = alloc_new(c->allocator, 2 * sizeof *r->locks))) {
        core_request_free(c, r);
        return;
    }
    r->own = r->page = true;
    r->answer.kind = CORE_ANSWER;
    put_bound(r->ops, PAWL_SCOPE_TENANTS, queue, 1, false);
    r->ops->u.bound.only_move = true; /* a person may have ended the turns meanwhile */
    r->ops->audit = PAWL_AUDIT_NONE;
    request_gather(c, r);
}

void throttle_bound_stored(core *c, const core_request *r, const pawl_op *op)
{
    bool shares = r->own && op->u.bound.scope == PAWL_SCOPE_TENANTS;
    claim_stir(c); /* what was blocked may be ready */
    if (shares && op->u.bound.more && c->mode == MODE_STARTED) share_more(c, op->u.bound.name);
    if (!op->u.bound.initial || r->page) return;
    c->limits_untold--;
    if (op->result == PAWL_OP_UPDATED)
        engine_log(c, PAWL_WARN, "the concurrency limit of '%s' was another one: that of this program is in force now",
                   op->u.bound.name);
}

/* ---- keys ------------------------------------------------------------------------------------------------------------------------- */

static void warn_once(core *c, handler *h, const char *text)
{
    if (!h->warned) engine_log(c, PAWL_WARN, "a task of type '%s' %s: it is not limited", h->type, text);
    h->warned = true;
}

static bool within(const char *text, size_t len, pawl_bytes key)
{
    return text && key.data >= text && key.data + key.len <= text + len;
}

/* Once for each lease, for what the handler says need not last. false: no memory. */
static bool ask_key(core *c, core_task *t)
{
    handler *h = &c->handlers[t->handler];
    const pawl_body *body = t->body;
    pawl_bytes key = body->rate_key;
    if (key.len == 0 && h->limit.key && !h->limit.key(h->limit.key_ctx, body->payload, body->tenant, &key)) {
        warn_once(c, h, "got no rate key from its handler");
        return true;
    }
    if (key.len == 0) warn_once(c, h, "has no rate key");
    t->rate_key = key;
    if (key.len == 0 || key.data == body->rate_key.data || within(body->payload.data, body->payload.len, key) ||
        within(body->tenant, strlen(body->tenant), key))
        return true;
    if (!(t->own_key = c->allocator->alloc(c->allocator->ctx, key.len))) return false;
    t->rate_key.data = memcpy(t->own_key, key.data, key.len);
    return true;
}

/* For the store: only what its body does not say. */
pawl_bytes throttle_told_key(const core_task *t)
{
    pawl_bytes key = t->rate_key;
    if (t->body->rate_key.len > 0) key = (pawl_bytes){0};
    return key;
}

static void say_key(char out[64], pawl_bytes key)
{
    size_t at = 0;
    for (; at < key.len && at < 40; at++) out[at] = key.data[at] >= ' ' && key.data[at] < 127 ? key.data[at] : '?';
    snprintf(out + at, 64 - at, "%s", key.len > at ? "..." : "");
}

/* ---- events: the first deferral of a key, then a summary for each window ------------------------------------------------------------ */

static void tell(core *c, const core_task *t, pawl_bytes key, int64_t count)
{
    char text[128], name[64];
    say_key(name, key);
    snprintf(text, sizeof text, "key=%s count=%lld", name, (long long)count);
    engine_event(c, PAWL_EVENT_DEFERRED, t->body, t->failures + 1, t->fence, t->slot_us, text);
}

static uint64_t hash_of(const core_task *t)
{
    return hash_bytes(t->rate_key.data, t->rate_key.len, hash_bytes(t->body->type, strlen(t->body->type), 0));
}

/* And others with it, which the store has moved: `own` of them have its key. */
static void deferred_with(core *c, const core_task *t, int others, int own)
{
    c->deferrals += 1 + others;
    if (c->config.deferral_events_off || !c->events_wanted) return;
    pawl_bytes key = t->rate_key;
    uint64_t hash = hash_of(t);
    struct deferral *d = &c->deferred[hash % DEFERRALS];
    if (d->hash == hash && c->now.mono_us < d->until_us) {
        d->count += 1 + own;
        return;
    }
    tell(c, t, key, (d->hash == hash ? d->count : 0) + 1 + own);
    *d = (struct deferral){.hash = hash, .until_us = c->now.mono_us + WINDOW_US};
}

static void deferred(core *c, const core_task *t) { deferred_with(c, t, 0, 0); }

void throttle_stored(core *c, const pawl_op *insert, int64_t store_now_us)
{
    pawl_body *body = insert->u.insert.body;
    bool due = insert->u.insert.delay_us <= 0 && insert->u.insert.at_us <= store_now_us;
    if (body->rate_key.len == 0 || !due || insert->out_run_at_us <= store_now_us) return;
    core_task t = {.body = body, .rate_key = body->rate_key, .slot_us = insert->out_run_at_us};
    deferred(c, &t);
}

static void opened(core *c, const core_task *t, const char *why)
{
    c->opened++;
    if (c->now.mono_us < c->opened_told_us) return;
    c->opened_told_us = c->now.mono_us + WINDOW_US;
    engine_event(c, PAWL_EVENT_RATE_OPEN, t->body, t->failures + 1, t->fence, c->opened, why);
    engine_log(c, PAWL_WARN, "a task of type '%s' starts without a limit: %s (%lld so far)", t->body->type, why,
               (long long)c->opened);
}

/* ---- parking ---------------------------------------------------------------------------------------------------------------------- */

/* What goes back to the store with a task that never started; 0: it has no slot. Only those of the store have an end. */
int64_t throttle_slot_of(const core_task *t) { return t->until_mono_us && t->until_mono_us < INT64_MAX ? t->slot_us : 0; }

static void release_slot(core *c, core_task *t)
{
    if (t->throttle == THROTTLE_SHARED) run_release(c, t, -1, throttle_slot_of(t));
    else run_release(c, t, t->slot_mono_us > c->now.mono_us ? t->slot_mono_us - c->now.mono_us : 0, 0);
}

/* It waits for its slot, here or, if there are too many, in the store. It is in no list. */
static void park(core *c, core_task *t)
{
    deferred(c, t);
    if (c->parked_tasks >= c->config.parked_max) {
        release_slot(c, t);
        return;
    }
    t->state = CORE_PARKED;
    t->waits = true;
    t->in_worker = CANARY(PARK_HOLDS_WORKER);
    c->parked_tasks++;
    lease_plan(c);
    engine_timer(c, &t->timer, t->slot_mono_us);
}

static void unpark(core *c, core_task *t)
{
    if (t->waits) c->parked_tasks--;
    t->waits = false;
    engine_timer_off(c, &t->timer);
}

/* Its slot is here. Where too many wait for a worker already, others may use it in time. */
static void ready(core *c, core_task *t)
{
    if (claim_full(&c->queues[t->queue])) release_slot(c, t);
    else run_ready_again(c, t);
}

void throttle_timer(core *c, core_task *t)
{
    unpark(c, t);
    ready(c, t);
}

/* ---- shared budgets --------------------------------------------------------------------------------------------------------------- */

/* Whether the next slot of the key is far away, as its last one was. What was said of it may be wrong by now, or forgotten: then the one
 * goes alone and the other with all else, once. */
static bool is_far(const core *c, uint64_t hash)
{
    const struct far *f = &c->far[hash % FAR];
    return f->hash == hash && c->now.mono_us < f->until_us;
}

static void learn_far(core *c, const core_task *t)
{
    uint64_t hash = hash_of(t);
    struct far *f = &c->far[hash % FAR];
    if (t->op.result == PAWL_OP_MOVED) *f = (struct far){hash, t->slot_mono_us - NEAR_US};
    else if (t->op.result == PAWL_OP_DONE && f->hash == hash) f->until_us = 0;
}

/* It is in no list. */
static void reserve(core *c, core_task *t)
{
    memset(&t->op.u, 0, sizeof t->op.u);
    t->state = CORE_PARKED;
    t->until_mono_us = 0;
    c->queues[t->queue].reserving++;
    t->op.u.reserve.key = throttle_told_key(t);
    t->op.u.reserve.near_us = c->parked_tasks < c->config.parked_max ? NEAR_US : 0;
    t->op.u.reserve.again = t->again;
    t->far = is_far(c, hash_of(t));
    c->queues[t->queue].reserving_far += t->far;
    run_send(c, t, PAWL_OP_RESERVE);
}

static bool late(const core *c, const core_task *t)
{
    return c->now.mono_us >= t->until_mono_us && !(CANARY(LATE_START) && t->until_mono_us > 0);
}

/* The claim that brings a slot, its answer and a START each take their time: how much longer than it was given the right to start must
 * be for that. */
static int64_t grace(const core *c, const throttle_told *told)
{
    int64_t missing = 3 * (c->now.mono_us - told->sent_us) + HASTE_US - (told->until_us - told->slot_us);
    return missing <= 0 || CANARY(GRACE_MISSING) ? 0 : missing < NEAR_US ? missing : NEAR_US;
}

/* The store's time as ours: see above. */
static void set_slot(core *c, core_task *t, const throttle_told *told)
{
    int64_t ahead = told->slot_us - told->store_now_us;
    t->again = true;
    t->slot_us = told->slot_us;
    t->epoch = told->epoch;
    t->slot_mono_us = c->now.mono_us + (ahead > 0 ? ahead + ahead / 1024 : 0);
    t->until_mono_us = told->until_us;
    if (told->until_us != 0 && told->until_us != INT64_MAX)
        t->until_mono_us = told->sent_us + (told->until_us - told->store_now_us) + grace(c, told);
}

/* `rate`: the limit that has no slot for it; permits 0: not known. */
static void refuse(core *c, core_task *t, const pawl_rate *rate)
{
    char name[64], ahead[DURATION_TEXT], at[RFC3339_TEXT], period[DURATION_TEXT], limit[64] = "";
    int64_t ahead_us = t->slot_mono_us - c->now.mono_us;
    say_key(name, t->rate_key);
    if (t->throttle == THROTTLE_SHARED) ahead_us -= ahead_us / 1025; /* see set_slot */
    duration_format(ahead_us > 0 ? ahead_us : 0, ahead, sizeof ahead);
    rfc3339_format(t->slot_us, at);
    duration_format(rate->period_us, period, sizeof period);
    if (rate->permits > 0) snprintf(limit, sizeof limit, ", its limit is %d per %s", rate->permits, period);
    c->rejected++;
    recur_refused(c, t);
    run_refuse(c, t, rate, "rate key '%s' of type '%s' has no slot in time: the next one is %s away (%.19sZ)%s", name,
               t->body->type, ahead, at, limit);
}

/* A task of a schedule never starts beyond its end. It is in no list. */
static bool beyond_its_end(core *c, core_task *t)
{
    char name[64], at[RFC3339_TEXT];
    if (t->slot_us < schedule_until(t->body)) return false;
    say_key(name, t->rate_key);
    rfc3339_format(t->slot_us, at);
    c->rejected++;
    recur_refused(c, t);
    throttle_forget(c, t);
    run_refuse(c, t, &(pawl_rate){0},
               "rate key '%s' of type '%s' has no slot before its schedule ends: the next one is at %.19sZ", name, t->body->type,
               at);
    return true;
}

/* It has just been adopted and stands among the ready. */
void throttle_adopt(core *c, core_task *t, const throttle_told *told)
{
    const handler *h = &c->handlers[t->handler];
    bool own = h->limit.limiter || h->rule >= 0;
    if (!told->limited && !own) return;
    if (!ask_key(c, t)) {
        run_unready(c, t);
        run_release(c, t, PAWL_SECOND, 0);
        return;
    }
    if (t->rate_key.len == 0) return;
    t->throttle = told->limited ? THROTTLE_SHARED : h->limit.limiter ? THROTTLE_OWN : THROTTLE_LOCAL;
    c->limited_tasks++;
    if (t->throttle == THROTTLE_LOCAL) t->rate_hash = limit_near(c->limiter, h->rule, t->rate_key);
    if (t->throttle != THROTTLE_SHARED) return;
    if (told->until_us) set_slot(c, t, told);
    if (!late(c, t) && t->slot_mono_us <= c->now.mono_us && t->slot_us < schedule_until(t->body)) return;
    run_unready(c, t);
    if (late(c, t)) reserve(c, t);
    else if (!beyond_its_end(c, t)) park(c, t);
}

static void moved(core *c, core_task *t, int64_t sent_us, int64_t store_now_us)
{
    deferred_with(c, t, t->op.u.reserve.along, t->op.u.reserve.along_own);
    claim_moved(c, &c->queues[t->queue], sent_us);
    claim_pending(c, t->body->queue, t->op.out_run_at_us, store_now_us);
    run_gone(c, t);
}

void throttle_reserved(core *c, core_task *t, int64_t sent_us, int64_t store_now_us)
{
    throttle_told told = {.limited = true,
                          .slot_us = t->op.out_run_at_us,
                          .until_us = t->op.out_until_us,
                          .epoch = t->op.out_epoch,
                          .sent_us = sent_us,
                          .store_now_us = store_now_us};
    queue *q = &c->queues[t->queue];
    q->reserving--;
    q->reserving_far -= t->far;
    set_slot(c, t, &told);
    learn_far(c, t);
    switch (t->op.result) {
    case PAWL_OP_MOVED: moved(c, t, sent_us, store_now_us); return;
    case PAWL_OP_BEYOND:
        if (t->dropped) run_cancel_unstarted(c, t);
        else refuse(c, t, &t->op.u.reserve.rate);
        return;
    case PAWL_OP_CANCELLING: run_cancel_unstarted(c, t); return;
    case PAWL_OP_DONE: break;
    default: run_gone(c, t); return; /* STALE */
    }
    if (t->lost) run_gone(c, t);
    else if (t->dropped) run_cancel_unstarted(c, t);
    else if (c->mode != MODE_STARTED || q->paused) release_slot(c, t);
    else if (late(c, t)) reserve(c, t);
    else if (beyond_its_end(c, t)) return;
    else if (t->slot_mono_us > c->now.mono_us) park(c, t);
    else ready(c, t);
}

/* ---- before a worker -------------------------------------------------------------------------------------------------------------- */

static limit_verdict ask_own(core *c, core_task *t, const pawl_limiter *limiter, pawl_bytes key, int64_t *slot_us)
{
    pawl_limit_question q = {.id = t->body->id,
                             .type = t->body->type,
                             .key = key,
                             .now_us = c->now.mono_us,
                             .attempt = t->failures + 1,
                             .again = t->again};
    *slot_us = c->now.mono_us;
    switch (limiter->ask(limiter->ctx, &q, slot_us)) {
    case PAWL_LIMIT_GO: return LIMIT_GO;
    case PAWL_LIMIT_WAIT: return *slot_us > c->now.mono_us ? LIMIT_WAIT : LIMIT_GO;
    case PAWL_LIMIT_REJECTED: return LIMIT_REJECTED;
    default: return LIMIT_OPEN;
    }
}

static limit_verdict ask_local(core *c, core_task *t, pawl_bytes key, bool hold, int64_t *slot_us)
{
    limit_question q = {.rule = c->handlers[t->handler].rule,
                        .key = key,
                        .id = t->body->id,
                        .now_us = c->now.mono_us,
                        .retry = t->failures > 0,
                        .again = t->again,
                        .hold = hold,
                        .hash = t->rate_hash};
    limit_answer a;
    limit_ask(c->limiter, &q, &a);
    *slot_us = a.slot_us;
    return a.verdict;
}

/* true: it may start now. It is in no list. */
static bool ask(core *c, core_task *t, bool hold)
{
    const pawl_limiter *limiter = c->handlers[t->handler].limit.limiter;
    pawl_bytes key = t->rate_key;
    bool own = t->throttle == THROTTLE_OWN;
    static const pawl_rate unknown;
    limit_verdict verdict = own ? ask_own(c, t, limiter, key, &t->slot_mono_us) : ask_local(c, t, key, hold, &t->slot_mono_us);
    t->slot_us = c->now.wall_us + (t->slot_mono_us - c->now.mono_us); /* for people */
    switch (verdict) {
    case LIMIT_GO: return true;
    case LIMIT_OPEN: opened(c, t, own ? "its limiter failed" : "too many keys are tracked"); return true;
    case LIMIT_REJECTED:
    case LIMIT_DISCARDED: refuse(c, t, own ? &unknown : &c->handlers[t->handler].limit.rate); return false;
    case LIMIT_FULL:
        deferred(c, t);
        release_slot(c, t);
        return false;
    case LIMIT_WAIT: break;
    }
    t->again = true;
    if (beyond_its_end(c, t)) return false;
    if (t->slot_mono_us - c->now.mono_us <= NEAR_US) {
        park(c, t);
    } else {
        deferred(c, t);
        release_slot(c, t);
    }
    return false;
}

/* A worker is free for it, and it has left the ready list. */
bool throttle_admits(core *c, core_task *t)
{
    if (t->throttle != THROTTLE_SHARED) return ask(c, t, t->not_started || t->suspect);
    if (!late(c, t)) return true;
    reserve(c, t);
    return false;
}

/* Its start is written down, which took time. */
bool throttle_admits_started(core *c, core_task *t) { return t->throttle == THROTTLE_OWN || throttle_admits(c, t); }

/* ---- leaving ------------------------------------------------------------------------------------------------------------------------ */

/* false: it waits for an answer of the store, and ends with it. */
bool throttle_leave(core *c, core_task *t)
{
    if (t->op_place != OP_IDLE) return false;
    unpark(c, t);
    throttle_forget(c, t);
    return true;
}

void throttle_forget(core *c, core_task *t)
{
    const pawl_limiter *limiter = c->handlers[t->handler].limit.limiter;
    if (t->throttle == THROTTLE_LOCAL) limit_release(c->limiter, t->body->id);
    else if (t->throttle == THROTTLE_OWN && limiter->release) limiter->release(limiter->ctx, t->body->id);
}

void throttle_release_queue(core *c, const queue *q)
{
    map_each(node, &c->tasks) {
        core_task *t = container_of(node, core_task, by_id);
        if (t->state != CORE_PARKED || &c->queues[t->queue] != q || t->op_place != OP_IDLE) continue;
        unpark(c, t);
        release_slot(c, t);
    }
}
