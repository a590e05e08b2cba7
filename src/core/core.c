/* Birth and death of a core, its timers and its main step. See core.h for the ideas, engine.h for the map. */
#include "base/text.h"
#include "core/engine.h"
#include "core/told.h"
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#define FIXED_TIMERS 16
#define BACKOFF_FIRST_US (50 * PAWL_MILLISECOND)
#define BACKOFF_MOST_US (5 * PAWL_SECOND)

/* ---- birth ---------------------------------------------------------------------------------------------------------------- */

static void init_lists(core *c)
{
    list *heads[] = {&c->acts, &c->free_tasks, &c->untimed, &c->task_ops, &c->far_ops, &c->requests, &c->parked};
    for (size_t i = 0; i < sizeof heads / sizeof *heads; i++) list_init(heads[i]);
    c->events_end = &c->events;
    map_init(&c->tasks, c->allocator);
    map_init(&c->locks, c->allocator);
    heap_init(&c->timers, c->allocator);
}

static void init_timers(core *c)
{
    c->call_timer.kind = TIMER_CALL;
    c->far_timer.kind = TIMER_FAR;
    c->claim_timer.kind = TIMER_CLAIM;
    c->news_timer.kind = TIMER_NEWS;
    c->room_timer.kind = TIMER_ROOM;
    c->renew_timer.kind = TIMER_RENEW;
    c->deadline_timer.kind = TIMER_DEADLINE;
    c->held_timer.kind = TIMER_HELD;
    c->rescue_timer.kind = TIMER_RESCUE;
    c->sweep_timer.kind = TIMER_SWEEP;
    c->recur_timer.kind = TIMER_RECUR;
    c->settle_timer.kind = TIMER_SETTLE;
    c->stop_timer.kind = TIMER_STOP;
    c->long_timer.kind = TIMER_LONG;
}

static bool init_calls(core *c)
{
    core_call *calls[] = {&c->reg,       &c->leave,  &c->ids_call, &c->claim,   &c->renew,
                          &c->held_call, &c->rescue, &c->sweep,    &c->due_call};
    core_call_kind kinds[] = {CORE_REGISTER, CORE_LEAVE,  CORE_IDS,   CORE_CLAIM, CORE_RENEW,
                              CORE_HELD,     CORE_RESCUE, CORE_SWEEP, CORE_DUE};
    for (size_t i = 0; i < sizeof calls / sizeof *calls; i++) {
        calls[i]->kind = kinds[i];
        if (!(calls[i]->arena = arena_new(c->allocator, 0))) return false;
    }
    return true;
}

static void defaults(core_config *config)
{
    if (config->lanes < 1) config->lanes = 1;
    if (config->batch_ops <= 0) config->batch_ops = 2000;
    if (config->batch_bytes == 0) config->batch_bytes = 4u << 20;
    if (config->capacity <= 0) config->capacity = 1000;
    if (config->lease_us <= 0) config->lease_us = 30 * PAWL_SECOND;
    if (config->long_run_us <= 0) config->long_run_us = 15 * PAWL_MINUTE;
    if (config->parked_max <= 0) config->parked_max = 5000;
}

pawl_status core_new(const core_config *config, core **out)
{
    const pawl_allocator *a = config->allocator ? config->allocator : alloc_default();
    core *c = alloc_new(a, sizeof *c);
    if (!c) return PAWL_NO_MEMORY;
    c->allocator = a;
    c->config = *config;
    c->wildcard = -1;
    c->trouble_us = INT64_MIN;
    c->limits_version = -1;
    defaults(&c->config);
    rng_init(&c->random, config->seed);
    init_lists(c);
    init_timers(c);
    buf_init(&c->told, a, TOLD_MAX);
    buf_init(&c->telling, a, TOLD_MAX);
    c->node_name = alloc_str(a, config->node_name ? config->node_name : "");
    c->unknown = alloc_new(a, UNKNOWN_MAX * sizeof *c->unknown);
    c->unknown_spare = alloc_new(a, UNKNOWN_MAX * sizeof *c->unknown_spare);
    c->rescued = alloc_new(a, UNKNOWN_MAX * sizeof *c->rescued);
    bool ok = c->node_name && c->unknown && c->unknown_spare && c->rescued && init_calls(c) && batch_init(c);
    c->timers_room = FIXED_TIMERS + (size_t)c->config.lanes + 1;
    if (!ok || !heap_reserve(&c->timers, c->timers_room)) {
        core_free(c);
        return PAWL_NO_MEMORY;
    }
    *out = c;
    return PAWL_OK;
}

static void free_task_memory(core *c, core_task *t)
{
    pawl_body_free(c->allocator, t->body);
    alloc_free(c->allocator, t->refusal);
    alloc_free(c->allocator, t->own_key);
    alloc_free(c->allocator, t);
}

/* Before all else: actions are linked through the objects they are about. */
static void free_actions(core *c)
{
    list *node;
    while ((node = list_pop(&c->acts))) {
        core_act *act = container_of(node, core_act, link);
        if (act->kind == CORE_SETTLED) free_task_memory(c, container_of(act, core_task, settle_act));
        else if (act->kind == CORE_DROP) core_request_free(c, container_of(act, core_request, drop));
    }
}

static void free_tasks(core *c)
{
    body_moves_done(&c->moves);
    map_each(node, &c->tasks) free_task_memory(c, container_of(node, core_task, by_id));
    list_each(node, &c->free_tasks) alloc_free(c->allocator, container_of(node, core_task, link));
}

static void free_requests(core *c)
{
    list_each(node, &c->requests) core_request_free(c, container_of(node, core_request, link));
    list_each(node, &c->parked) core_request_free(c, container_of(node, core_request, link));
}

static void free_config(core *c)
{
    for (int i = 0; i < c->queues_count; i++) alloc_free(c->allocator, c->queues[i].name);
    for (int i = 0; i < c->handlers_count; i++) {
        alloc_free(c->allocator, c->handlers[i].type);
        alloc_free(c->allocator, c->handlers[i].queue);
    }
    void *blocks[] = {c->queues,     c->handlers, c->policies,  (void *)c->types, c->queues_csv,    c->types_csv, c->wants,
                      c->want_queue, c->claimed,  c->node_name, c->unknown,       c->unknown_spare, c->rescued};
    for (size_t i = 0; i < sizeof blocks / sizeof *blocks; i++) alloc_free(c->allocator, blocks[i]);
}

static void free_calls(core *c)
{
    core_call *calls[] = {&c->reg,       &c->leave,  &c->ids_call, &c->claim,   &c->renew,
                          &c->held_call, &c->rescue, &c->sweep,    &c->due_call};
    for (size_t i = 0; i < sizeof calls / sizeof *calls; i++) arena_free(calls[i]->arena);
}

void core_free(core *c)
{
    if (!c) return;
    heap_done(&c->timers);
    free_actions(c);
    free_requests(c);
    batch_done(c);
    free_tasks(c);
    action_free_events(c);
    limit_free(c->limiter);
    buf_done(&c->told);
    buf_done(&c->telling);
    free_config(c);
    free_calls(c);
    map_done(&c->tasks);
    map_done(&c->locks);
    alloc_free(c->allocator, c);
}

/* ---- configuration --------------------------------------------------------------------------------------------------------- */

pawl_status core_add_queue(core *c, const core_queue_config *config)
{
    int at = claim_find_queue(c, config->name);
    if (at < 0) {
        queue *grown = alloc_resize(c->allocator, c->queues, ((size_t)c->queues_count + 1) * sizeof *grown);
        if (!grown) return PAWL_NO_MEMORY;
        c->queues = grown;
        char *name = alloc_str(c->allocator, config->name);
        if (!name) return PAWL_NO_MEMORY;
        at = c->queues_count++;
        memset(&c->queues[at], 0, sizeof c->queues[at]);
        c->queues[at].name = name;
    }
    queue *q = &c->queues[at];
    q->workers = config->workers;
    q->capacity = config->capacity > 0 ? config->capacity : c->config.capacity;
    q->depth_limit = config->depth_limit;
    if (q->depth_limit <= 0 && c->config.depth_is_capacity) q->depth_limit = q->capacity;
    q->full = config->full ? config->full : PAWL_FULL_WAIT;
    q->policy = config->policy;
    q->concurrency = config->concurrency;
    q->takes_turns = config->fair;
    q->pulled = config->pulled;
    q->owner = config->owner;
    q->due.kind = TIMER_DUE;
    claim_run_slow(q);
    return PAWL_OK;
}

pawl_status core_add_handler(core *c, const core_handler_config *config)
{
    handler *grown = alloc_resize(c->allocator, c->handlers, ((size_t)c->handlers_count + 1) * sizeof *grown);
    if (!grown) return PAWL_NO_MEMORY;
    c->handlers = grown;
    handler h = {.policy = config->policy, .limit = config->limit, .rule = -1, .owner = config->handler};
    h.type = alloc_str(c->allocator, config->type);
    h.queue = alloc_str(c->allocator, config->queue ? config->queue : "default");
    if (!h.type || !h.queue) {
        alloc_free(c->allocator, h.type);
        alloc_free(c->allocator, h.queue);
        return PAWL_NO_MEMORY;
    }
    if (strcmp(h.type, "*") == 0) c->wildcard = c->handlers_count;
    c->handlers[c->handlers_count++] = h;
    return PAWL_OK;
}

/* "a,b,c" of the names that `name` gives; "" stands for none. */
static char *csv(core *c, int count, const char *(*name)(const core *, int))
{
    size_t size = 1;
    for (int i = 0; i < count; i++) size += strlen(name(c, i)) + 1;
    char *text = alloc_new(c->allocator, size), *at = text;
    for (int i = 0; text && i < count; i++) {
        if (*name(c, i)) at += sprintf(at, "%s%s", at > text ? "," : "", name(c, i));
    }
    return text;
}

static const char *queue_name(const core *c, int i)
{
    return c->queues[i].workers > 0 || c->queues[i].pulled ? c->queues[i].name : "";
}
static const char *handler_type(const core *c, int i) { return c->handlers[i].type; }

static bool make_policies(core *c)
{
    size_t n = (size_t)c->handlers_count * (size_t)c->queues_count;
    c->policies = alloc_new(c->allocator, (n ? n : 1) * sizeof *c->policies);
    if (!c->policies) return false;
    for (int h = 0; h < c->handlers_count; h++) {
        for (int q = 0; q < c->queues_count; q++) {
            policy wide = policy_over(&c->queues[q].policy, &c->config.engine);
            c->policies[h * c->queues_count + q] = policy_over(&c->handlers[h].policy, &wide);
        }
    }
    return true;
}

/* Makes *block once. */
static bool made(core *c, void *block_at, size_t size)
{
    void **block = block_at;
    if (!*block) *block = alloc_new(c->allocator, size);
    return *block != NULL;
}

/* Everything whose size depends on queues and handlers, once; after a failure it goes on where it stopped. */
bool engine_prepare(core *c)
{
    if (c->policies) return true;
    size_t queues = (size_t)c->queues_count, handlers = (size_t)c->handlers_count;
    if (!c->queues_csv && !(c->queues_csv = csv(c, c->queues_count, queue_name))) return false;
    if (!c->types_csv && !(c->types_csv = csv(c, c->handlers_count, handler_type))) return false;
    if (!made(c, &c->wants, (queues + 1) * sizeof *c->wants) || !made(c, &c->want_queue, (queues + 1) * sizeof *c->want_queue) ||
        !made(c, &c->types, (handlers + 1) * sizeof *c->types) || !heap_reserve(&c->timers, c->timers_room + queues))
        return false;
    if (!throttle_prepare(c)) return false;
    for (int i = 0; i < c->handlers_count; i++) c->types[i] = c->handlers[i].type;
    for (int i = 0; i < c->queues_count; i++) list_init(&c->queues[i].ready); /* the array does not move any more */
    if (!make_policies(c)) return false;
    c->timers_room += queues;
    return true;
}

/* ---- timers --------------------------------------------------------------------------------------------------------------------- */

void engine_timer(core *c, core_timer *t, int64_t at_us) { heap_set(&c->timers, &t->node, at_us); }
void engine_timer_off(core *c, core_timer *t) { heap_remove(&c->timers, &t->node); }

int64_t core_deadline(const core *c)
{
    heap_node *first = heap_first(&c->timers);
    return first ? first->at : INT64_MAX;
}

int64_t core_lease_deadline(const core *c) { return c->lapsed ? 0 : c->deadline_us; }

int64_t engine_backoff(core *c, int tries)
{
    int64_t most = BACKOFF_FIRST_US << (tries < 7 ? tries : 7);
    if (most > BACKOFF_MOST_US) most = BACKOFF_MOST_US;
    return most / 2 + (int64_t)rng_below(&c->random, (uint64_t)most / 2 + 1);
}

static void fire(core *c, core_timer *t)
{
    switch ((timer_kind)t->kind) {
    case TIMER_TASK: run_timer(c, container_of(t, core_task, timer)); break;
    case TIMER_LONG: run_long(c); break;
    case TIMER_DUE: claim_due(c, container_of(t, queue, due)); break;
    case TIMER_NEWS: c->news_wanted = true; break;
    case TIMER_ROOM: request_woken(c); break;
    case TIMER_RESCUE: claim_stir(c); break;
    case TIMER_DEADLINE: lease_deadline(c); break;
    case TIMER_SWEEP: lease_sweep(c); break;
    case TIMER_RECUR: recur_look(c); break;
    case TIMER_SETTLE: break; /* family_send follows */
    case TIMER_STOP: mode_timer(c); break;
    case TIMER_LANE:
    case TIMER_FAR:
    case TIMER_CLAIM:
    case TIMER_RENEW:
    case TIMER_HELD:
    case TIMER_CALL: break; /* engine_push sees to them */
    }
}

void core_tick(core *c, core_time now)
{
    c->now = now;
    heap_node *first;
    while ((first = heap_first(&c->timers)) && first->at <= now.mono_us) {
        heap_remove(&c->timers, first);
        fire(c, container_of(first, core_timer, node));
    }
    engine_push(c);
}

/* ---- the store's moods ------------------------------------------------------------------------------------------------------------ */

void engine_store_ok(core *c, const core_call *call)
{
    c->store_latency_us = c->now.mono_us - call->sent_us;
    if (!c->store_down) return;
    c->store_down = false;
    engine_event(c, PAWL_EVENT_STORE_UP, NULL, 0, 0, 0, NULL);
    engine_log(c, PAWL_WARN, "the store answers again");
    lease_reconcile(c);
}

void engine_store_bad(core *c, const core_call *call)
{
    c->trouble_us = c->now.mono_us;
    if (c->store_down) return;
    c->store_down = true;
    engine_event(c, PAWL_EVENT_STORE_DOWN, NULL, 0, 0, 0, call->err.message);
    engine_log(c, PAWL_WARN, "the store does not answer (%s): %s", pawl_status_name(call->status), call->err.message);
}

void core_answered(core *c, core_time now, core_call *call)
{
    c->now = now;
    CHECK(call->busy);
    call->busy = false;
    if (call->status == PAWL_OK) engine_store_ok(c, call);
    else engine_store_bad(c, call);
    switch (call->kind) {
    case CORE_REGISTER: lease_registered(c); break;
    case CORE_LEAVE: lease_left(c); break;
    case CORE_IDS: lease_ids(c); break;
    case CORE_APPLY: batch_answered(c, container_of(call, lane, call)); break;
    case CORE_CLAIM: claim_answered(c); break;
    case CORE_RENEW: lease_renewed(c); break;
    case CORE_HELD: lease_held(c); break;
    case CORE_RESCUE: lease_rescued(c); break;
    case CORE_SWEEP: lease_swept(c); break;
    case CORE_DUE: recur_answered(c); break;
    case CORE_CALL_KINDS: CHECK(!"a kind of call");
    }
    engine_push(c);
}

void core_wake(core *c, core_time now)
{
    c->now = now;
    claim_stir(c);
    int64_t news_us = now.mono_us + 20 * PAWL_MILLISECOND; /* a cancel of what runs here may be among them */
    if (c->held > 0 && c->mode == MODE_STARTED && (!heap_has(&c->news_timer.node) || c->news_timer.node.at > news_us))
        engine_timer(c, &c->news_timer, news_us);
    c->wake_seq++;
    request_woken(c);
    engine_push(c);
}

/* The store's wall clock may have jumped: what fell due when is to be asked anew. */
void core_clock_jumped(core *c, core_time now)
{
    c->now = now;
    claim_stir(c);
    c->news_wanted = c->news_wanted || c->mode == MODE_STARTED;
    engine_push(c);
}

/* ---- the main step ------------------------------------------------------------ */

bool engine_may_run(const core *c)
{
    bool leased = (!c->lapsed && c->now.mono_us < c->deadline_us) || CANARY(DEADLINE_IGNORED);
    return c->mode == MODE_STARTED && c->node && leased;
}

void core_hold(core *c) { c->holding = true; }

void core_go(core *c, core_time now)
{
    c->now = now;
    c->holding = false;
    engine_push(c);
}

void core_cork(core *c, bool corked) { c->corked = corked; }

core_kept core_keeps(const core *c)
{
    if (!c->corked || !batch_wanted(c)) return CORE_KEPT_NOTHING;
    return list_empty(&c->requests) ? CORE_KEPT_OUTCOMES : CORE_KEPT_REQUESTS;
}

/* The end of every input. */
void engine_push(core *c)
{
    claim_forget_names(c);
    if (c->holding) return;
    run_ready(c);
    claim_send(c);
    recur_send(c);
    family_send(c);
    if (!c->corked) batch_send(c);
    lease_send(c); /* after batch_send, which tells whether a node and ids are needed */
    mode_check(c);
    if (c->mode == MODE_LEAVING) {
        lease_send(c);
        mode_check(c);
    }
    claim_forget_names(c);
}

/* ---- looking --------------------------------------------------------------------------------------------------------------------------- */

void core_want_events(core *c, bool wanted) { c->events_wanted = wanted; }

void core_numbers_get(const core *c, core_time now, core_numbers *out)
{
    memset(out, 0, sizeof *out);
    out->store_ok = !c->store_down;
    out->store_closed = c->closed;
    out->node = c->node;
    out->lease_left_us = c->held > 0 && c->deadline_us > now.mono_us ? c->deadline_us - now.mono_us : 0;
    out->store_latency_us = c->store_latency_us;
    out->running = c->running;
    for (int i = 0; i < c->queues_count; i++) out->ready += c->queues[i].ready_count;
    for (int i = 0; i < c->lanes_count; i++) out->unanswered += c->lanes[i].call.u.batch.count;
    out->stuck = c->stuck;
    out->long_running = c->long_running;
    out->outcomes_waiting = c->ended;
    out->parked = c->parked_tasks;
    out->deferrals = c->deferrals;
    out->rejected = c->rejected;
    out->opened = c->opened;
    memcpy(out->events, c->counts, sizeof out->events);
}

int core_queues(const core *c) { return c->queues_count; }

void core_queue_get(const core *c, int i, core_queue_numbers *out)
{
    const queue *q = &c->queues[i];
    *out = (core_queue_numbers){.name = q->name,
                                .workers = q->workers,
                                .running = q->busy,
                                .ready = q->ready_count,
                                .at_once = q->at_once,
                                .owner = q->owner};
}

void *core_handler_of(const core *c, const core_task *task) { return c->handlers[task->handler].owner; }

int64_t core_slot(const core *c, pawl_id id)
{
    const core_task *t = run_find(c, id);
    int64_t slot_us;
    if (t) return t->state == CORE_PARKED && t->waits ? t->slot_us : 0;
    return c->limiter && limit_slot(c->limiter, id, &slot_us) ? c->now.wall_us + (slot_us - c->now.mono_us) : 0;
}

bool core_holds(const core *c, pawl_id id, core_task_state *state)
{
    core_task *t = run_find(c, id);
    if (t && state) *state = t->state;
    return t != NULL;
}

void core_check(const core *c)
{
    int held = 0, running = 0, ended = 0, marked = 0, solo = 0, parked = 0;
    map_each(node, &c->tasks) {
        core_task *t = container_of(node, core_task, by_id);
        held++;
        running += t->state == CORE_RUNNING;
        ended += t->state == CORE_ENDED;
        marked += t->marked;
        solo += t->marked && t->solo;
        parked += t->waits;
        CHECK(t->state != CORE_PARKED || (t->waits ? heap_has(&t->timer.node) : t->op_place != OP_IDLE));
        CHECK(!t->waits || (t->state == CORE_PARKED && !t->in_worker));
        CHECK(t->body && t->fence > 0 && t->queue >= 0 && t->queue < c->queues_count);
        CHECK(t->state != CORE_ENDED || t->op_place != OP_IDLE);
        CHECK(t->state != CORE_STARTING || t->op_place != OP_IDLE);
    }
    CHECK(held == c->held && running == c->running && ended == c->ended);
    CHECK(parked == c->parked_tasks && parked <= c->config.parked_max);
    CHECK(marked == c->marked && solo == c->marked_solo && (solo == 0 || marked == 1));
    for (int i = 0; i < c->queues_count; i++) {
        const queue *q = &c->queues[i];
        int ready = 0;
        for (list *node = q->ready.next; node && node != &q->ready; node = node->next) ready++;
        CHECK(ready == q->ready_count && q->busy >= 0 && q->busy <= q->workers + c->config.surplus && q->asked >= 0);
        CHECK(q->ready_count <= q->workers + q->capacity);
    }
    CHECK(c->promised >= 0 && c->free_count >= c->promised);
}
