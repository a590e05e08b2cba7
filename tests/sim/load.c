/* Callers and handlers: what is asked of the engine and how runs go.
 *
 * A caller behaves as pawl.h tells callers to: after UNKNOWN it may try again with the id it was given, also at another node;
 * after an error it may try again from the beginning. So if an error was a lie, the task is stored twice, and the judge sees
 * it. */
#include "sim.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define BULK_MOST 6
#define TRIES_MOST 4
#define GREEDY_US (500 * PAWL_MILLISECOND) /* in THEME_GREEDY what was delayed falls due when others are dispatched */

/* ---- asks ------------------------------------------------------------------------------------------------------------------ */

static void *grow(void *array, int count, int *room, size_t size)
{
    if (count < *room) return array;
    *room = *room ? *room * 2 : 64;
    array = realloc(array, (size_t)*room * size);
    if (!array) abort();
    return array;
}

static int new_ask(sim *s, ask a)
{
    s->asks = grow(s->asks, s->asks_count, &s->asks_room, sizeof *s->asks);
    s->asks[s->asks_count] = a;
    return s->asks_count++;
}

static int new_item(sim *s)
{
    s->items = grow(s->items, s->items_count, &s->items_room, sizeof *s->items);
    item *i = &s->items[s->items_count];
    *i = (item){.type = (int)between(s, 0, TYPES - 1),
                .queue = (int)between(s, 0, s->plan.queues - 1),
                .key = chance(s, s->plan.key_share) ? (int)between(s, 0, s->plan.keys - 1) : -1,
                .priority = chance(s, 200) ? (int)between(s, -2, 2) : 0,
                .poison = s->phase == PHASE_CHAOS && chance(s, s->plan.poison)};
    if (chance(s, 250)) i->delay_us = between(s, 1, 3 * s->plan.lease_us);
    if (s->plan.theme == THEME_CRAMPED) i->delay_us = 0;
    if (s->plan.theme == THEME_GREEDY && i->delay_us) i->delay_us = GREEDY_US - s->plan.latency_us;
    if (chance(s, 300)) i->max_attempts = (int)between(s, 1, 4);
    if (chance(s, s->plan.timeouts)) i->timeout_us = between(s, 5 * PAWL_MILLISECOND, s->plan.lease_us);
    limits_item(s, i);
    places_item(s, i);
    families_item(s, i);
    return s->items_count++;
}

/* The number of an ask travels as the payload of its task. */
int ask_of_body(const sim *s, const pawl_body *body)
{
    if (!body || !body->payload.data) return -1;
    int number = atoi(body->payload.data);
    return number >= 0 && number < s->asks_count ? number : -1;
}

int ask_of_by(const char *by) { return by && strncmp(by, "ask ", 4) == 0 ? atoi(by + 4) : -1; }

static pawl_body body_of(sim *s, int number, char payload[16])
{
    const item *i = &s->items[s->asks[number].item];
    const char *rate_key = i->rate_key >= 0 && !i->told ? rate_key_names[i->rate_key] : NULL;
    snprintf(payload, 16, "%d", number);
    return (pawl_body){.id = s->asks[number].id,
                       .type = type_names[i->type],
                       .queue = queue_names[i->queue],
                       .tenant = tenant_names[i->tenant],
                       .key = i->key >= 0 ? key_names[i->key] : NULL,
                       .content_type = "application/json",
                       .payload = {payload, strlen(payload)},
                       .rate_key = {rate_key, rate_key ? strlen(rate_key) : 0},
                       .priority = i->priority,
                       .max_attempts = i->max_attempts,
                       .timeout_us = i->timeout_us};
}

/* ---- requests -------------------------------------------------------------------------------------------------------------- */

static void give_up(sim *s, void *arg, int64_t number)
{
    (void)number;
    sim_request *r = arg;
    if (r->answered) return;
    NOTE(s, r->node, "the caller of ask %d gives up", r->asks[0]);
    core_give_up(r->node->core, node_time(r->node), r->request);
    node_pump(r->node);
}

static void fill_op(sim_node *n, pawl_op *op, int number)
{
    sim *s = n->sim;
    const ask *a = &s->asks[number];
    char payload[16], *by = NULL;
    op->kind = a->kind;
    op->id = a->id;
    if (a->kind == PAWL_OP_INSERT) {
        pawl_body body = body_of(s, number, payload);
        op->u.insert.body = pawl_body_copy(&n->allocator, &body);
        op->u.insert.delay_us = s->items[a->item].delay_us;
        if (chance(s, 100)) { /* the same instant, said otherwise */
            op->u.insert.at_us = store_wall(s) + op->u.insert.delay_us;
            op->u.insert.delay_us = 0;
        }
        op->u.insert.may_exist = a->id != 0;
        op->u.insert.family = families_of(s, &s->items[a->item]);
        return;
    }
    by = sim_alloc(s, 24);
    snprintf(by, 24, "ask %d", number);
    op->by = by;
    if (a->kind == PAWL_OP_QUEUE) {
        op->u.queue.queue = queue_names[a->queue];
        op->u.queue.pause = a->pause;
    }
    if (a->kind == PAWL_OP_LIMIT) limits_fill(s, op, a);
    if (a->kind == PAWL_OP_BOUND) places_fill(op, a);
}

static void submit(sim_node *n, const int *asks, int count)
{
    sim *s = n->sim;
    sim_request *r = sim_alloc(s, sizeof *r);
    r->node = n;
    r->count = count;
    r->one_shot = n->one_shot;
    r->request = core_request_new(n->core, count);
    if (!r->request) return; /* out of memory: the caller is told at once */
    n->allocs_fail = false;
    for (int i = 0; i < count; i++) {
        r->asks[i] = asks[i];
        fill_op(n, &r->request->ops[i], asks[i]);
    }
    n->allocs_fail = true;
    r->request->owner = r;
    r->request->in_handler = chance(s, 50);
    list_append(&n->requests, &r->link);
    s->open_requests++;
    const ask *a = &s->asks[asks[0]];
    static const char *const kinds[] = {"", "insert", "", "", "", "", "cancel", "retry", "ack", "queue", "", "limit", "bound"};
    NOTE(s, n, "ask %d: %s %t (%d in all)%s%s", asks[0], TEXT(kinds[a->kind]), a->id, count, TEXT(a->pause ? " pause" : ""),
         TEXT(a->kind == PAWL_OP_INSERT && s->items[a->item].poison ? " poison" : ""));
    if (chance(s, s->plan.give_ups)) sim_at(s, spread(s, s->plan.latency_us * 2), n, give_up, r, 0);
    core_submit(n->core, node_time(n), r->request);
    node_pump(n);
}

static sim_node *some_node(sim *s, bool engine)
{
    int first = (int)between(s, 0, s->plan.nodes - 1);
    for (int i = 0; i < s->plan.nodes; i++) {
        sim_node *n = &s->nodes[(first + i) % s->plan.nodes];
        if (n->up && !n->asleep && !n->stopping && !(engine && n->one_shot)) return n;
    }
    return NULL;
}

/* Again, with the id that came with UNKNOWN (arg is an ask's number), or from the beginning. */
static void try_again(sim *s, void *arg, int64_t number)
{
    (void)arg;
    ask was = s->asks[number];
    sim_node *n = some_node(s, true);
    if (!n) {
        sim_at(s, PAWL_SECOND, NULL, try_again, NULL, number);
        return;
    }
    s->load_left--;
    int again = new_ask(s, (ask){.kind = was.kind, .item = was.item, .id = was.id, .queue = was.queue, .pause = was.pause});
    NOTE(s, n, "ask %d is tried again as %d", number, again);
    submit(n, &again, 1);
}

static void maybe_again(sim *s, int number, pawl_status status, pawl_id id)
{
    ask *a = &s->asks[number];
    bool insert = a->kind == PAWL_OP_INSERT, unknown = status == PAWL_UNKNOWN;
    if (!insert || (unknown && !id) || s->items[a->item].tries >= TRIES_MOST || !chance(s, 700)) return;
    s->items[a->item].tries++;
    if (unknown) a->id = id;
    s->load_left++;
    sim_at(s, spread(s, chance(s, 300) ? s->plan.latency_us : s->plan.lease_us / 2), NULL, try_again, NULL, number);
}

void load_answer(sim_node *n, core_request *request)
{
    sim *s = n->sim;
    sim_request *r = request->owner;
    NOTE(s, n, "ask %d answered: %s, result %d, %t", r->asks[0], TEXT(pawl_status_name(request->status)), request->ops[0].result,
         request->ops[0].out_id ? request->ops[0].out_id : request->ops[0].id);
    judge_answer(n, r);
    r->answered = true;
    s->open_requests--;
    s->stats[STAT_UNKNOWN] += request->status == PAWL_UNKNOWN;
    if (request->status == PAWL_OK) return;
    for (int i = 0; i < r->count; i++) maybe_again(s, r->asks[i], request->status, request->ops[i].id);
}

void load_drop(sim_node *n, core_request *request)
{
    sim_request *r = request->owner;
    if (r) {
        if (!r->answered) broken(n->sim, "every caller is answered", "core drops ask %d before it answered it", r->asks[0]);
        list_remove(&r->link);
    }
    core_request_free(n->core, request);
}

/* ---- what callers want ----------------------------------------------------------------------------------------------------- */

static void dispatch(sim *s, sim_node *n)
{
    int asks[BULK_MOST], count = chance(s, s->plan.bulks) ? (int)between(s, 2, BULK_MOST) : 1, keys = 0;
    for (int i = 0; i < count; i++) {
        int number = new_item(s);
        item *it = &s->items[number];
        if (it->key >= 0 && keys & 1 << it->key) it->key = -1; /* a bulk names a key once */
        if (it->key >= 0) keys |= 1 << it->key;
        asks[i] = new_ask(s, (ask){.kind = PAWL_OP_INSERT, .item = number});
    }
    submit(n, asks, count);
}

static void pause_or_resume(sim *s, sim_node *n)
{
    int q = (int)between(s, 0, s->plan.queues - 1);
    s->paused_wanted[q] = !s->paused_wanted[q];
    int number = new_ask(s, (ask){.kind = PAWL_OP_QUEUE, .queue = q, .pause = s->paused_wanted[q]});
    submit(n, &number, 1);
}

static void want_something(sim *s, void *arg, int64_t number)
{
    (void)arg, (void)number;
    sim_node *n = some_node(s, false);
    if (!n || s->phase != PHASE_CHAOS) return;
    pawl_id id = judge_some_task(s), waiting = s->plan.limits && chance(s, 500) ? judge_waiting_task(s) : 0;
    if (waiting) id = waiting;
    if (chance(s, s->plan.pauses)) {
        pause_or_resume(s, n);
    } else if (chance(s, s->plan.limit_changes)) {
        int change = new_ask(s, limits_ask(s));
        submit(n, &change, 1);
    } else if (chance(s, s->plan.bound_changes)) {
        int change = new_ask(s, places_ask(s));
        submit(n, &change, 1);
    } else if (id && chance(s, s->plan.cancels)) {
        int cancel = new_ask(s, (ask){.kind = PAWL_OP_CANCEL, .id = id});
        submit(n, &cancel, 1);
    } else if (id && !s->rows && chance(s, s->plan.cancels / 2)) {
        int retry = new_ask(s, (ask){.kind = PAWL_OP_RETRY, .id = id});
        submit(n, &retry, 1);
    } else {
        dispatch(s, n);
    }
}

void load_start(sim *s)
{
    bool bursts = s->plan.hot || chance(s, 300);
    for (int i = 0; i < s->plan.asks;) {
        int64_t at = between(s, 0, s->plan.chaos_us);
        int count = bursts ? (int)between(s, 1, 30) : 1;
        if (s->plan.theme == THEME_GREEDY) at -= at % GREEDY_US;
        for (int k = 0; k < count && i < s->plan.asks; k++, i++) {
            sim_at(s, at, NULL, want_something, NULL, 0);
            at += s->plan.theme == THEME_CRAMPED ? between(s, 0, 6 * s->plan.latency_us) : 50;
        }
    }
}

/* Once the faults are over, by whoever is there; and again as long as a late pause can still arrive. */
static void resume_queues(sim *s, void *arg, int64_t number)
{
    (void)arg, (void)number;
    sim_node *n = some_node(s, true);
    if (s->phase != PHASE_HEAL) return;
    sim_at(s, 20 * PAWL_SECOND, NULL, resume_queues, NULL, 0);
    for (int q = 0; n && q < QUEUES; q++) {
        if (!judge_paused(s, q)) continue;
        int resume = new_ask(s, (ask){.kind = PAWL_OP_QUEUE, .queue = q});
        submit(n, &resume, 1);
        n = some_node(s, true);
    }
    for (int i = 0; n && i < TYPES * (RATE_KEYS + 1); i++) {
        ask put = {.kind = PAWL_OP_LIMIT, .type = i / (RATE_KEYS + 1), .rate_key = i % (RATE_KEYS + 1) - 1};
        if (!judge_paused_limit(s, put.type, put.rate_key, &put.rate)) continue;
        int resume = new_ask(s, put);
        submit(n, &resume, 1);
        n = some_node(s, true);
    }
}

void load_heal(sim *s) { sim_at(s, 5 * PAWL_SECOND, NULL, resume_queues, NULL, 0); }

/* A limit is paused, and one waits for it that is due. */
static void idle_limit(sim *s)
{
    sim_node *n = some_node(s, true);
    int third = new_item(s);
    s->items[third] = (item){.queue = s->plan.queues - 1, .key = -1, .rate_key = 0};
    int pause = new_ask(s, (ask){.kind = PAWL_OP_LIMIT, .rate_key = 0, .pause = true});
    int waits = new_ask(s, (ask){.kind = PAWL_OP_INSERT, .item = third});
    if (n) submit(n, &pause, 1);
    n = some_node(s, true);
    if (n) submit(n, &waits, 1);
}

/* Work that nobody may run yet: something due in a paused queue, something for much later. */
void load_idle_work(sim *s)
{
    sim_node *n = some_node(s, true);
    if (!n) return;
    int pause = new_ask(s, (ask){.kind = PAWL_OP_QUEUE, .queue = 0, .pause = true}), first = new_item(s), second = new_item(s);
    s->items[first] = (item){.queue = 0, .key = -1, .rate_key = -1};
    s->items[second] = (item){.queue = 1, .key = -1, .rate_key = -1, .delay_us = PAWL_HOUR};
    int asks[] = {new_ask(s, (ask){.kind = PAWL_OP_INSERT, .item = first}),
                  new_ask(s, (ask){.kind = PAWL_OP_INSERT, .item = second})};
    submit(n, &pause, 1);
    submit(n, asks, 2);
    if (s->plan.limits) idle_limit(s);
}

/* ---- runs ------------------------------------------------------------------------------------------------------------------ */

static void spawn(sim_run *run)
{
    sim_node *n = run->node;
    sim *s = n->sim;
    int count = (int)between(s, 1, 2);
    for (int i = 0; i < count; i++) {
        int number = new_item(s);
        s->items[number].spawned = true;
        if (i > 0) s->items[number].key = -1;
        pawl_id id = chance(s, 700) ? core_draw_id(n->core, node_time(n)) : 0;
        int a = new_ask(s, (ask){.kind = PAWL_OP_INSERT, .item = number, .id = id, .spawned = true});
        char payload[16];
        pawl_body body = body_of(s, a, payload), *copy = sim_alloc(s, sizeof body);
        *copy = body;
        copy->payload.data = strcpy(sim_alloc(s, 16), payload);
        run->spawns[i] = (pawl_op){.kind = PAWL_OP_INSERT, .id = id, .audit = PAWL_AUDIT_FULL};
        run->spawns[i].u.insert.body = copy;
        run->spawns[i].u.insert.delay_us = s->items[number].delay_us;
    }
    run->outcome.spawns = run->spawns;
    run->outcome.spawns_count = count;
}

static pawl_outcome_kind outcome_of(sim_run *run)
{
    sim *s = run->node->sim;
    item *i = &s->items[s->asks[run->ask].item];
    int64_t dice = between(s, 0, 99);
    if (run->told == PAWL_STOP_CANCELLED && dice < 80) return PAWL_RUN_CANCELLED;
    if (run->told && dice < 40) return PAWL_RUN_CANCELLED;
    if (dice < 72) return PAWL_RUN_OK;
    if (dice < 84) return PAWL_RUN_RETRY;
    if (dice < 92 && i->snoozes < 3) return i->snoozes++, PAWL_RUN_SNOOZE;
    if (dice < 97) return PAWL_RUN_FAIL;
    return PAWL_RUN_CANCELLED;
}

static void finish_run(sim_run *run)
{
    sim_node *n = run->node;
    sim *s = n->sim;
    pawl_outcome_kind kind = outcome_of(run);
    run->outcome = (core_outcome){.outcome = {.kind = kind, .delay_us = -1}, .progress = -1};
    if (kind == PAWL_RUN_SNOOZE) run->outcome.outcome.delay_us = between(s, 0, 2 * PAWL_SECOND);
    if (kind == PAWL_RUN_RETRY && chance(s, 300)) run->outcome.outcome.delay_us = between(s, 0, PAWL_SECOND);
    if (kind == PAWL_RUN_RETRY || kind == PAWL_RUN_FAIL) run->outcome.error = "simulated";
    if (kind == PAWL_RUN_OK && !s->items[s->asks[run->ask].item].spawned && chance(s, s->plan.spawns)) spawn(run);
    if (s->plan.surplus && chance(s, 900))
        run->outcome.began_us = run->outcome.ended_us = node_time(n).wall_us; /* as if it had taken no time */
    run->ended = true;
    run->in_worker = false;
    NOTE(s, n, "run of %t fence %d ends: kind %d, spawns %d", run->id, run->fence, kind, run->outcome.spawns_count);
    judge_ended(n, run);
    core_finished(n->core, node_time(n), run->task, &run->outcome);
    node_pump(n);
}

static void take_back(sim_run *run)
{
    sim_node *n = run->node;
    NOTE(n->sim, n, "run of %t fence %d is recalled", run->id, run->fence);
    n->sim->stats[STAT_RECALLS]++;
    run->ended = true;
    run->waiting = false;
    list_remove(&run->link);
    run->task->run = NULL;
    core_recalled(n->core, node_time(n), run->task);
}

static void recall(sim_run *run)
{
    take_back(run);
    node_pump(run->node);
}

void load_recall(sim_node *n, int queue)
{
    list_each(node, &n->runs) {
        sim_run *run = container_of(node, sim_run, link);
        if (run->waiting && run->task->queue == queue) take_back(run);
    }
}

static void run_turn(sim *s, void *arg, int64_t turn)
{
    sim_run *run = arg;
    sim_node *n = run->node;
    if (run->ended || run->turn != turn) return;
    if (run->waiting) {
        recall(run);
        return;
    }
    if (run->kills) {
        NOTE(s, n, "run of %t kills its process", run->id);
        node_crash(n);
    } else if (run->in_worker && chance(s, 60)) {
        NOTE(s, n, "run of %t is deferred", run->id);
        run->in_worker = false;
        sim_at(s, spread(s, s->plan.latency_us * 4), n, run_turn, run, ++run->turn);
        core_deferred(n->core, node_time(n), run->task);
        node_pump(n);
    } else if (chance(s, 100)) {
        sim_at(s, spread(s, s->plan.latency_us * 2), n, run_turn, run, ++run->turn);
        core_progress(n->core, node_time(n), run->task, (int)between(s, 0, 100), "half-way");
        node_pump(n);
    } else {
        finish_run(run);
    }
}

static void begin_run(sim_run *run)
{
    sim_node *n = run->node;
    sim *s = n->sim;
    judge_run(n, run->task);
    run->in_worker = true;
    run->waiting = false;
    run->calm = s->now > s->calm_at;
    bool lasts = chance(s, run->calm ? 500 : s->plan.long_runs);
    int64_t length = lasts ? between(s, s->plan.lease_us / 2, s->plan.lease_us * 3)
                           : spread(s, s->plan.latency_us * between(s, 1, s->plan.hot ? 2 : 10));
    s->stats[STAT_RUNS]++;
    NOTE(s, n, "run of %t fence %d begins, for %u%s%s", run->id, run->fence, length, TEXT(run->rude ? ", deaf" : ""),
         TEXT(run->kills ? ", deadly" : ""));
    sim_at(s, length, n, run_turn, run, run->turn);
}

static bool worker_free(const sim_run *run)
{
    const sim_node *n = run->node;
    for (int q = 0; q < QUEUES; q++)
        if (strcmp(run->task->body->queue, queue_names[q]) == 0) return node_runs(n, q) < n->workers[q];
    return false;
}

/* A worker comes by; or it has been too long. */
static void worker_comes(sim *s, void *arg, int64_t turn)
{
    sim_run *run = arg;
    if (run->ended || run->turn != turn) return;
    bool late = node_time(run->node).mono_us >= core_lease_deadline(run->node->core);
    if (run->told || late || !worker_free(run) || chance(s, 200)) recall(run);
    else begin_run(run);
}

void load_run(sim_node *n, core_task *t)
{
    sim *s = n->sim;
    sim_run *run = sim_alloc(s, sizeof *run);
    run->node = n;
    run->task = t;
    run->id = t->body->id;
    run->fence = t->fence;
    run->ask = ask_of_body(s, t->body);
    run->kills = s->items[s->asks[run->ask].item].poison;
    run->rude = chance(s, s->plan.rude);
    t->run = run;
    list_append(&n->runs, &run->link);
    run->waiting = true;
    if (worker_free(run)) begin_run(run);
    else sim_at(s, between(s, 0, 4000), n, worker_comes, run, run->turn);
}

/* A renewal has been waiting for locks for a quarter of the lease: that is no answer. */
static bool renewal_waits(const sim_node *n)
{
    const wire *w = n->calls[CORE_RENEW][0];
    return w && n->sim->now - w->sent_us >= n->lease_us / 4;
}

void load_stop_run(sim_node *n, core_task *t, pawl_stop_reason reason)
{
    sim *s = n->sim;
    sim_run *run = t->run;
    static const char *const reasons[] = {"go on", "cancelled", "timeout", "shutdown", "lease lost"};
    NOTE(s, n, "run of %t is told: %s", run->id, TEXT(reasons[reason]));
    if (run->calm && reason == PAWL_STOP_LEASE_LOST && !renewal_waits(n))
        broken(s, "a node keeps its lease while the store answers", "the run of %s lost it", trace_id(s, run->id));
    run->told = reason;
    run->told_all |= 1u << reason;
    run->told_lost |= reason == PAWL_STOP_LEASE_LOST;
    if (!run->rude && !run->ended) sim_at(s, spread(s, s->plan.latency_us), n, run_turn, run, ++run->turn);
}

void load_settled(sim_node *n, core_task *t, core_settled how)
{
    static const char *const hows[] = {"", "succeeded", "failed", "retry", "snoozed", "cancelled", "released", "lost"};
    sim_run *run = t->run;
    if (!run) {
        judge_refused_run(n, t, how);
        core_task_free(n->core, t);
        return;
    }
    NOTE(n->sim, n, "run of %t fence %d settled: %s", run->id, run->fence, TEXT(hows[how]));
    judge_settled(n, run, how);
    list_remove(&run->link);
    core_task_free(n->core, t);
}

void load_forget(sim_node *n)
{
    sim *s = n->sim;
    list_each(node, &n->requests) {
        sim_request *r = container_of(node, sim_request, link);
        list_remove(&r->link);
        if (r->answered) continue;
        r->answered = true;
        s->open_requests--;
        for (int i = 0; i < r->count; i++) {
            s->asks[r->asks[i]].answered = true;
            s->asks[r->asks[i]].status = PAWL_UNKNOWN;
        }
    }
    list_init(&n->runs);
}
