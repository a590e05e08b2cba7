/* Calls on their way between a node and the store. What travels is a copy: a call may still be executed when its node has been
 * told that the outcome is unknown, and even when the node is gone.
 *
 *   fate      executed   answer
 *   FINE      yes        as it is, after a usual delay
 *   SLOW      yes        as it is, after a very long delay before or after the effect
 *   BEFORE    no         UNAVAILABLE
 *   NOTHING   no         UNKNOWN
 *   AFTER     yes        UNKNOWN
 *   LOST      yes        UNKNOWN, after a long wait
 *   LATE      yes        UNKNOWN, and the effect comes only after that answer
 *   KILLED    no         its connection breaks half-way (mode b): rolled back, UNAVAILABLE or UNKNOWN
 */
#include "sim.h"
#include <stdio.h>
#include <string.h>

enum { FINE, SLOW, BEFORE, NOTHING, AFTER, LOST, LATE, KILLED };

#define FAILED_MOST 150 /* within a second */

static const char *const fate_names[] = {"",
                                         " (slow)",
                                         " (fails before)",
                                         " (nothing, unknown)",
                                         " (done, unknown)",
                                         " (answer lost)",
                                         " (unknown, then done)",
                                         " (connection breaks)"};
static const char *const kind_names[CORE_CALL_KINDS] = {"",      "register", "leave", "ids",    "apply",
                                                        "claim", "renew",    "held",  "rescue", "sweep"};

/* ---- copies ---------------------------------------------------------------------------------------------------------------- */

static pawl_bytes copy_bytes(pawl_arena *a, pawl_bytes b)
{
    return b.data ? (pawl_bytes){pawl_arena_bytes(a, b.data, b.len), b.len} : b;
}

static void copy_execution(pawl_arena *a, pawl_execution *e)
{
    e->code = pawl_arena_str(a, e->code);
    e->error = pawl_arena_str(a, e->error);
    e->log = copy_bytes(a, e->log);
    e->progress_text = pawl_arena_str(a, e->progress_text);
}

static void copy_op(pawl_arena *a, pawl_op *op)
{
    op->by = pawl_arena_str(a, op->by);
    switch (op->kind) {
    case PAWL_OP_INSERT: op->u.insert.body = pawl_body_copy(pawl_arena_allocator(a), op->u.insert.body); break;
    case PAWL_OP_FINISH: {
        pawl_op *spawns = op->u.finish.spawns;
        op->u.finish.reason = pawl_arena_str(a, op->u.finish.reason);
        op->u.finish.result = copy_bytes(a, op->u.finish.result);
        op->u.finish.result_type = pawl_arena_str(a, op->u.finish.result_type);
        op->u.finish.result_ref = pawl_arena_str(a, op->u.finish.result_ref);
        copy_execution(a, &op->u.finish.run);
        op->u.finish.spawns = pawl_arena_alloc(a, ((size_t)op->u.finish.spawns_count + 1) * sizeof *spawns);
        for (int i = 0; i < op->u.finish.spawns_count; i++) {
            op->u.finish.spawns[i] = spawns[i];
            copy_op(a, &op->u.finish.spawns[i]);
        }
        break;
    }
    case PAWL_OP_RELEASE:
        copy_execution(a, &op->u.release.run);
        op->u.release.key = copy_bytes(a, op->u.release.key);
        break;
    case PAWL_OP_RESERVE: op->u.reserve.key = copy_bytes(a, op->u.reserve.key); break;
    case PAWL_OP_LIMIT:
        op->u.limit.type = pawl_arena_str(a, op->u.limit.type);
        op->u.limit.key = copy_bytes(a, op->u.limit.key);
        break;
    case PAWL_OP_BOUND:
        op->u.bound.name = pawl_arena_str(a, op->u.bound.name);
        op->u.bound.key = copy_bytes(a, op->u.bound.key);
        break;
    case PAWL_OP_PROGRESS: op->u.progress.text = pawl_arena_str(a, op->u.progress.text); break;
    case PAWL_OP_ACK: op->u.ack.note = pawl_arena_str(a, op->u.ack.note); break;
    case PAWL_OP_QUEUE: op->u.queue.queue = pawl_arena_str(a, op->u.queue.queue); break;
    default: break;
    }
}

static void copy_batch(pawl_arena *a, pawl_batch *b)
{
    pawl_op **from = b->ops, *ops = pawl_arena_alloc(a, ((size_t)b->count + 1) * sizeof *ops);
    b->ops = pawl_arena_alloc(a, ((size_t)b->count + 1) * sizeof *b->ops);
    for (int i = 0; i < b->count; i++) {
        ops[i] = *from[i];
        copy_op(a, &ops[i]);
        b->ops[i] = &ops[i];
    }
}

static int wanted(const pawl_claim *c)
{
    int count = 0;
    for (int i = 0; i < c->wants_count; i++) count += c->wants[i].free + c->wants[i].prefetch;
    return count;
}

static void copy_claim(pawl_arena *a, pawl_claim *c)
{
    pawl_want *from = c->wants;
    c->wants = pawl_arena_alloc(a, ((size_t)c->wants_count + 1) * sizeof *c->wants);
    for (int i = 0; i < c->wants_count; i++) {
        pawl_want *w = &c->wants[i];
        *w = from[i];
        w->queue = pawl_arena_str(a, w->queue);
        const char **types = pawl_arena_alloc(a, ((size_t)w->types_count + 1) * sizeof *types);
        for (int t = 0; t < w->types_count; t++) types[t] = pawl_arena_str(a, from[i].types[t]);
        w->types = types;
    }
    c->tasks = pawl_arena_alloc(a, ((size_t)wanted(c) + 1) * sizeof *c->tasks);
    c->allocator = pawl_arena_allocator(a);
}

static void copy_call(wire *w, const core_call *call)
{
    pawl_arena *a = w->arena;
    w->call = *call;
    w->call.arena = a;
    switch (call->kind) {
    case CORE_REGISTER:
        w->call.u.registration.name = pawl_arena_str(a, call->u.registration.name);
        w->call.u.registration.queues = pawl_arena_str(a, call->u.registration.queues);
        w->call.u.registration.types = pawl_arena_str(a, call->u.registration.types);
        break;
    case CORE_APPLY: copy_batch(a, &w->call.u.batch); break;
    case CORE_CLAIM: copy_claim(a, &w->call.u.claim); break;
    case CORE_RENEW: w->call.u.renewal.told = copy_bytes(a, call->u.renewal.told); break;
    case CORE_RESCUE:
        w->call.u.rescue.tasks = pawl_arena_alloc(a, ((size_t)call->u.rescue.limit + 1) * sizeof *w->call.u.rescue.tasks);
        break;
    default: break;
    }
}

static void return_ops(pawl_op *const *from, pawl_op *const *to, int count)
{
    for (int i = 0; i < count; i++) {
        to[i]->result = from[i]->result;
        to[i]->out_id = from[i]->out_id;
        to[i]->out_fence = from[i]->out_fence;
        to[i]->out_run_at_us = from[i]->out_run_at_us;
        to[i]->out_until_us = from[i]->out_until_us;
        to[i]->out_epoch = from[i]->out_epoch;
        to[i]->out_state = from[i]->out_state;
        if (from[i]->kind == PAWL_OP_LIMIT) to[i]->u.limit.more = from[i]->u.limit.more;
        if (from[i]->kind == PAWL_OP_BOUND) to[i]->u.bound.more = from[i]->u.bound.more;
        if (from[i]->kind != PAWL_OP_FINISH) continue;
        for (int k = 0; k < from[i]->u.finish.spawns_count; k++) {
            return_ops(&(pawl_op *){&from[i]->u.finish.spawns[k]}, &(pawl_op *){&to[i]->u.finish.spawns[k]}, 1);
        }
    }
}

static void return_claim(pawl_claim *from, pawl_claim *to)
{
    for (int i = 0; i < to->wants_count; i++) {
        to->wants[i].got = from->wants[i].got;
        to->wants[i].paused = from->wants[i].paused;
        to->wants[i].more = from->wants[i].more;
        to->wants[i].fair = from->wants[i].fair;
        to->wants[i].next_due_us = from->wants[i].next_due_us;
    }
    to->tasks_count = from->tasks_count;
    for (int i = 0; i < from->tasks_count; i++) {
        to->tasks[i] = from->tasks[i];
        to->tasks[i].body = pawl_body_copy(to->allocator, from->tasks[i].body);
    }
    to->news = from->news;
}

/* The answer, into core's own call. */
static void return_call(core_call *from, core_call *to)
{
    switch (to->kind) {
    case CORE_REGISTER: to->u.registration.node = from->u.registration.node; break;
    case CORE_IDS: to->u.ids = from->u.ids; break;
    case CORE_APPLY:
        return_ops(from->u.batch.ops, to->u.batch.ops, to->u.batch.count);
        to->u.batch.store_now_us = from->u.batch.store_now_us;
        to->u.batch.node_dead = from->u.batch.node_dead;
        to->u.batch.unblocked = from->u.batch.unblocked;
        to->u.batch.schedules = from->u.batch.schedules;
        to->u.batch.freed = from->u.batch.freed;
        to->u.batch.unsettled = from->u.batch.unsettled;
        break;
    case CORE_CLAIM: return_claim(&from->u.claim, &to->u.claim); break;
    case CORE_RENEW: {
        pawl_bytes told = to->u.renewal.told;
        to->u.renewal = from->u.renewal;
        to->u.renewal.told = told;
        break;
    }
    case CORE_HELD:
        to->u.held.count = from->u.held.count;
        to->u.held.leases = (pawl_lease *)(void *)pawl_arena_bytes(to->arena, from->u.held.leases,
                                                                   (size_t)from->u.held.count * sizeof(pawl_lease));
        break;
    case CORE_RESCUE: {
        pawl_lease *tasks = to->u.rescue.tasks;
        to->u.rescue = from->u.rescue;
        to->u.rescue.tasks = tasks;
        memcpy(tasks, from->u.rescue.tasks, (size_t)(from->u.rescue.freed + from->u.rescue.failed) * sizeof *tasks);
        break;
    }
    case CORE_SWEEP: to->u.sweep = from->u.sweep; break;
    default: break;
    }
}

/* ---- wires ----------------------------------------------------------------------------------------------------------------- */

static wire *wire_new(sim *s)
{
    list *node = list_pop(&s->free_wires);
    wire *w = node ? container_of(node, wire, link) : sim_alloc(s, sizeof *w);
    pawl_arena *arena = w->arena ? w->arena : arena_new(alloc_default(), 0);
    arena_reset(arena);
    memset(w, 0, sizeof *w);
    w->arena = arena;
    w->sim = s;
    list_append(&s->busy_wires, &w->link);
    return w;
}

/* Once it is answered (or nobody waits) and has been executed (or never will be). */
static void let_go(wire *w)
{
    if (!w->done || !w->answered) return;
    list_remove(&w->link);
    list_append(&w->sim->free_wires, &w->link);
}

void wire_free_all(sim *s)
{
    list *lists[] = {&s->free_wires, &s->busy_wires};
    for (int i = 0; i < 2; i++) {
        list_each(node, lists[i]) arena_free(container_of(node, wire, link)->arena);
    }
}

/* However the store fails, it is not asked more often because of that. */
static void failed(sim_node *n)
{
    sim *s = n->sim;
    n->trouble_at = s->now;
    if (s->now - n->failed_since > PAWL_SECOND) {
        n->failed_since = s->now;
        n->failed_calls = 0;
    }
    if (++n->failed_calls > FAILED_MOST)
        broken(s, "no storms", "node %d made %d calls that failed within a second", n->index, FAILED_MOST);
}

static void answer(sim *s, void *arg, int64_t status)
{
    wire *w = arg;
    sim_node *n = w->node;
    core_call *to = w->original;
    NOTE(s, n, "<- %s %d: %s", TEXT(kind_names[to->kind]), w->serial, TEXT(pawl_status_name((pawl_status)status)));
    n->calls[to->kind][to->lane] = NULL;
    to->status = (pawl_status)status;
    if (status != PAWL_OK) failed(n);
    to->err.status = to->status;
    snprintf(to->err.message, sizeof to->err.message, "simulated");
    if (to->status == PAWL_OK) {
        n->allocs_fail = false; /* a store without memory would have said so */
        return_call(&w->call, to);
        n->allocs_fail = true;
        judge_delivered(n, w);
    }
    w->answered = true;
    let_go(w);
    core_answered(n->core, node_time(n), to);
    node_pump(n);
}

static void answer_in(wire *w, int64_t delay_us, pawl_status status)
{
    if (w->node && !w->answered) sim_at(w->sim, delay_us, w->node, answer, w, status);
}

static int64_t usual(sim *s) { return spread(s, s->plan.latency_us / 2); }
static int64_t very_long(sim *s) { return between(s, s->plan.lease_us / 4, s->plan.lease_us * 5 / 2); }

static bool reads_only(const wire *w) { return w->call.kind == CORE_HELD; }

/* The call has run to its end. */
void wire_finished(wire *w)
{
    sim *s = w->sim;
    pawl_status status = w->call.status;
    w->done = true;
    bool hide = status == PAWL_OK && (w->fate == AFTER || w->fate == LOST) && !reads_only(w);
    int64_t delay = (w->fate == SLOW && chance(s, 600)) || w->fate == LOST ? very_long(s) : usual(s);
    if (status == PAWL_UNAVAILABLE && w->fate == KILLED && chance(s, 300)) hide = true;
    if (w->fate != LATE) answer_in(w, delay, hide ? PAWL_UNKNOWN : status);
    let_go(w);
}

/* Its effect has happened: mode a at once, mode b at the commit. */
void wire_executed(wire *w)
{
    sim *s = w->sim;
    core_call_kind kind = w->call.kind;
    judge_executed(w);
    bool wrote = (kind == CORE_APPLY && w->call.u.batch.count) || (kind == CORE_RESCUE && !w->call.u.rescue.refused) ||
                 (kind == CORE_CLAIM && w->call.u.claim.news.unblocked);
    bool noise = kind == CORE_RENEW || (kind == CORE_CLAIM && w->call.u.claim.tasks_count) || kind == CORE_IDS;
    if (wrote || (noise && s->plan.noisy_wakes)) node_wake_others(s, w->session);
}

static void execute(sim *s, void *arg, int64_t number)
{
    (void)number;
    wire *w = arg;
    if (!w->session->open) { /* its process is gone and the connection closed before it arrived */
        w->call.status = PAWL_UNAVAILABLE;
        wire_finished(w);
    } else if (s->rows) {
        rowstore_start(s->rowstore, w);
    } else {
        s->clock.now_us = store_wall(s);
        s->clock.boot_us = s->now + PAWL_HOUR;
        w->began_us = w->at_us = s->now;
        w->shift_us = s->wall_shift;
        w->clock_steps = s->clock_steps;
        store_call(w->session->store, &w->call);
        wire_executed(w);
        wire_finished(w);
    }
}

static void break_connection(sim *s, void *arg, int64_t serial)
{
    wire *w = arg;
    if (w->serial == serial && w->tx && !w->done) rowstore_kill(s->rowstore, w);
}

/* ---- sending --------------------------------------------------------------------------------------------------------------- */

static int draw_fate(sim *s, core_call_kind kind)
{
    const plan *p = &s->plan;
    if (p->theme == THEME_MOURNING && kind != CORE_RENEW && kind != CORE_RESCUE) return FINE;
    const int odds[] = {0, p->slow, p->before, p->nothing, p->after, p->lost, p->late, p->killed};
    int dice = (int)rng_below(&s->random, 1000);
    for (int fate = SLOW; fate <= KILLED; fate++) {
        if (dice < odds[fate]) return fate;
        dice -= odds[fate];
    }
    return FINE;
}

static bool store_away(sim *s, const sim_node *n) { return s->now < s->outage_until || s->now < n->outage_until; }

static void never(wire *w, pawl_status status)
{
    sim *s = w->sim;
    w->done = true;
    answer_in(w, chance(s, 200) ? between(s, 0, s->plan.lease_us) : usual(s) + 1, reads_only(w) ? PAWL_UNAVAILABLE : status);
}

static void dispatch(wire *w)
{
    sim *s = w->sim;
    switch (w->fate) {
    case BEFORE: never(w, chance(s, 100) ? PAWL_NO_MEMORY : PAWL_UNAVAILABLE); return;
    case NOTHING: never(w, PAWL_UNKNOWN); return;
    case LATE: {
        /* A batch has a receipt: it may come however late. Anything else comes within a quarter of a lease. */
        int64_t soon = usual(s), late = w->call.kind == CORE_APPLY ? very_long(s) : soon + between(s, 0, w->node->lease_us / 4);
        answer_in(w, soon, reads_only(w) ? PAWL_UNAVAILABLE : PAWL_UNKNOWN);
        sim_at(s, late, NULL, execute, w, 0);
        return;
    }
    case KILLED:
        if (!s->rows) {
            never(w, chance(s, 500) ? PAWL_UNKNOWN : PAWL_UNAVAILABLE);
            return;
        }
        sim_at(s, between(s, 0, s->plan.latency_us * 4), NULL, break_connection, w, w->serial);
        break;
    default: break;
    }
    sim_at(s, w->fate == SLOW && chance(s, 400) ? very_long(s) : usual(s), NULL, execute, w, 0);
}

void wire_send(sim_node *n, core_call *call)
{
    sim *s = n->sim;
    judge_sent(n, call);
    if (n->calls[call->kind][call->lane])
        broken(s, "one call of a kind", "node %d sends a second %s", n->index, kind_names[call->kind]);
    wire *w = wire_new(s);
    w->node = n;
    w->node_index = n->index;
    w->life = n->life;
    w->session = n->session;
    w->original = call;
    w->sent_us = s->now;
    w->serial = ++s->stats[STAT_CALLS];
    n->calls_made++;
    copy_call(w, call);
    n->calls[call->kind][call->lane] = w;
    w->fate = store_away(s, n) ? (chance(s, 200) ? NOTHING : BEFORE) : draw_fate(s, call->kind);
    if (call->kind == CORE_APPLY) {
        NOTE(s, n, "-> apply %d: node %d lane %d number %d, %d operations%s", w->serial, call->u.batch.node, call->u.batch.lane,
             call->u.batch.number, call->u.batch.count, TEXT(fate_names[w->fate]));
    } else {
        NOTE(s, n, "-> %s %d%s", TEXT(kind_names[call->kind]), w->serial, TEXT(fate_names[w->fate]));
    }
    dispatch(w);
}

void wire_cut(sim_node *n)
{
    sim *s = n->sim;
    list_each(node, &s->busy_wires) {
        wire *w = container_of(node, wire, link);
        if (w->node != n) continue;
        w->node = NULL;
        w->answered = true;
        let_go(w);
    }
}
