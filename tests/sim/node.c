/* One simulated process: a core, its connection to the store, its callers and handlers. It does for a core what the runtime does,
 * with one difference: it can be killed, stopped for longer than a lease, and started again with another configuration. */
#include "sim.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define ACTIONS_MOST 100000 /* of one step */

/* ---- memory: every block is counted, so a core that leaks is found; some seeds have too little of it ----------------------- */

static bool no_memory(sim_node *n) { return n->allocs_fail && chance(n->sim, n->sim->plan.no_memory); }

static void *count_alloc(void *ctx, size_t size)
{
    sim_node *n = ctx;
    void *p = no_memory(n) ? NULL : malloc(size);
    n->blocks += p != NULL;
    return p;
}

static void *count_resize(void *ctx, void *ptr, size_t size)
{
    sim_node *n = ctx;
    void *p = no_memory(n) ? NULL : realloc(ptr, size);
    n->blocks += p && !ptr;
    return p;
}

static void count_release(void *ctx, void *ptr)
{
    if (ptr) ((sim_node *)ctx)->blocks--;
    free(ptr);
}

/* ---- birth ----------------------------------------------------------------------------------------------------------------- */

core_time node_time(const sim_node *n)
{
    return (core_time){.mono_us = n->sim->now + n->mono_offset_us, .wall_us = store_wall(n->sim) + n->wall_offset_us};
}

static session *connect(sim *s)
{
    session *c = sim_alloc(s, sizeof *c);
    list_append(&s->sessions, &c->link);
    c->open = true;
    if (s->rows) return c;
    pawl_error err;
    pawl_store_options options = {.url = "memory:sim",
                                  .clock = clock_virtual(&s->clock),
                                  .allocator = alloc_default(),
                                  .lease_us = s->plan.lease_us,
                                  .lock_wait_us = PAWL_SECOND};
    if (store_open(&options, &c->store, &err)) broken(s, "a store opens", "%s", err.message);
    return c;
}

static void disconnect(session *c, sim *s)
{
    if (!c->open) return;
    c->open = false;
    list_each(node, &s->busy_wires) {
        wire *w = container_of(node, wire, link);
        if (w->session == c && w->tx) rowstore_kill(s->rowstore, w);
    }
    if (c->store) store_close(c->store);
    c->store = NULL;
}

static void disconnect_later(sim *s, void *arg, int64_t number)
{
    (void)number;
    disconnect(arg, s);
}

static policy random_policy(sim *s)
{
    policy p = {.max_attempts = chance(s, 500) ? (int)between(s, 1, 5) : 0};
    if (chance(s, 500)) {
        p.retry = (pawl_retry_policy){.curve = PAWL_CURVE_FIXED, .delay_us = between(s, 1000, 2 * PAWL_SECOND)};
    }
    if (chance(s, 150)) p.timeout_us = between(s, 10 * PAWL_MILLISECOND, s->plan.lease_us);
    return p;
}

static void add_queues(sim_node *n, bool all)
{
    sim *s = n->sim;
    for (int q = 0; q < QUEUES; q++) {
        bool serve = all || s->plan.alike || q == (n->index + n->life) % QUEUES || chance(s, 500);
        int workers = (int)between(s, 1, 4), capacity = (int)between(s, 1, chance(s, 500) ? 3 : 16);
        int64_t limit = s->plan.depth_limits && chance(s, 700) ? between(s, 1, 10) : 0;
        pawl_full full = chance(s, 600) ? PAWL_FULL_WAIT : (pawl_full)between(s, PAWL_FULL_WAIT, PAWL_FULL_REJECT);
        if (s->plan.theme == THEME_CRAMPED) limit = 1, full = PAWL_FULL_WAIT;
        if (s->plan.theme == THEME_GREEDY) workers = capacity = 1;
        n->workers[q] = serve ? workers : 0;
        n->capacity[q] = serve ? capacity : 0;
        core_queue_config config = {.name = queue_names[q],
                                    .workers = workers,
                                    .capacity = capacity,
                                    .depth_limit = limit,
                                    .full = full,
                                    .policy = random_policy(s)};
        places_queue(s, q, &config);
        if (serve && core_add_queue(n->core, &config)) broken(s, "a core is made", "core_add_queue failed");
    }
}

static void add_handlers(sim_node *n, bool all)
{
    sim *s = n->sim;
    n->any_type = all || chance(s, 300);
    n->types = 0;
    memset(n->local, 0, sizeof n->local);
    for (int t = 0; t < TYPES; t++) {
        if (!all && !s->plan.alike && !chance(s, 700)) continue;
        n->types |= 1u << t;
        core_handler_config config = {
            .type = type_names[t], .queue = queue_names[t % QUEUES], .policy = random_policy(s), .handler = n};
        limits_handler(n, t, &config);
        places_handler(s, t, &config);
        if (core_add_handler(n->core, &config)) broken(s, "a core is made", "core_add_handler failed");
    }
    core_handler_config wild = {.type = "*", .policy = random_policy(s), .handler = n};
    limits_handler(n, -1, &wild);
    if (n->any_type && core_add_handler(n->core, &wild)) broken(s, "a core is made", "core_add_handler failed");
}

static void make_core(sim_node *n, bool all)
{
    sim *s = n->sim;
    n->lease_us = chance(s, 700) ? s->plan.lease_us : between(s, 750 * PAWL_MILLISECOND, s->plan.lease_us * 2);
    if (n->lease_us < 30 * s->plan.latency_us) n->lease_us = 30 * s->plan.latency_us;
    n->one_shot = !all && s->plan.one_shots && chance(s, 300);
    core_config config = {
        .allocator = &n->allocator,
        .seed = rng_next(&s->random),
        .lanes = s->plan.lanes,
        .one_shot = n->one_shot,
        .lease_us = n->lease_us,
        .capacity = 8,
        .engine = policy_default(),
        .retention = {-1, -1, -1, -1, -1, -1, 0, 0, 0, false, 0},
        .node_name = "sim",
        .pid = n->index * 1000 + n->life,
        .parked_max = s->plan.parked_max,
        .surplus = s->plan.surplus ? 4 : 0,
        .batch_ops = s->plan.tiny_batches ? (int)between(s, 1, 6) : 0,
    };
    if (core_new(&config, &n->core)) broken(s, "a core is made", "core_new failed");
    if (n->one_shot) return;
    add_queues(n, all);
    add_handlers(n, all);
}

static void start_late(sim *s, void *arg, int64_t number)
{
    (void)s, (void)number;
    sim_node *n = arg;
    if (n->stopping) return;
    NOTE(s, n, "starts workers");
    n->started = true;
    n->draining = false;
    if (core_start(n->core, node_time(n))) { /* out of memory: later */
        n->started = false;
        sim_at(s, between(s, 1, PAWL_SECOND), n, start_late, n, 0);
    }
    node_pump(n);
}

void node_boot(sim_node *n, bool serve_all)
{
    sim *s = n->sim;
    n->life++;
    n->up = true;
    n->asleep = n->started = n->draining = n->stopping = n->stopped = n->wake_pending = false;
    n->tick_at = n->deadline = INT64_MAX;
    n->outage_until = 0;
    n->woke_at = n->trouble_at = -PAWL_HOUR;
    n->blocks = n->failed_calls = n->failed_since = 0;
    n->allocator = (pawl_allocator){count_alloc, count_resize, count_release, n};
    n->mono_offset_us = between(s, 0, PAWL_HOUR);
    n->wall_offset_us = s->rows ? between(s, -2 * PAWL_SECOND, 2 * PAWL_SECOND) : 0;
    memset(n->calls, 0, sizeof n->calls);
    memset(n->knows_paused, 0, sizeof n->knows_paused);
    list_init(&n->runs);
    list_init(&n->requests);
    n->session = connect(s);
    n->allocs_fail = false;
    make_core(n, serve_all);
    n->allocs_fail = true;
    NOTE(s, n, "boots: lease %u, workers %d %d %d, types %d, any type %d, one shot %d", n->lease_us, n->workers[0], n->workers[1],
         n->workers[2], n->types, n->any_type, n->one_shot);
    if (n->one_shot) return;
    if (serve_all || chance(s, 800)) start_late(s, n, 0);
    else if (chance(s, 500)) sim_at(s, between(s, 0, s->plan.lease_us), n, start_late, n, 0);
}

/* ---- carrying out what core wants ------------------------------------------------------------------------------------------ */

static void carry_out(sim_node *n, core_action *a)
{
    switch (a->kind) {
    case CORE_CALL: wire_send(n, a->call); break;
    case CORE_RUN: load_run(n, a->task); break;
    case CORE_RECALL: load_recall(n, a->queue); break;
    case CORE_STOP_RUN: load_stop_run(n, a->task, a->reason); break;
    case CORE_SETTLED: load_settled(n, a->task, a->settled); break;
    case CORE_ANSWER: load_answer(n, a->request); break;
    case CORE_DROP: load_drop(n, a->request); break;
    case CORE_EVENT: break;
    case CORE_LOG: break;
    case CORE_DRAINED: NOTE(n->sim, n, "drained"); break;
    case CORE_STOPPED:
        NOTE(n->sim, n, "stopped, %d runs would not return", a->stuck);
        n->stopped = true;
        break;
    }
}

/* A timer is never early and mostly a little late. */
static void set_tick(sim_node *n)
{
    int64_t deadline = core_deadline(n->core);
    if (deadline == n->deadline && n->tick_at > n->sim->now) return;
    n->deadline = deadline;
    n->tick_at = deadline;
    if (deadline == INT64_MAX) return;
    n->tick_at -= n->mono_offset_us;
    if (n->tick_at < n->sim->now) n->tick_at = n->sim->now;
    n->tick_at += chance(n->sim, 100) ? between(n->sim, 0, 3000) : between(n->sim, 1, 60);
}

void node_pump(sim_node *n)
{
    core_action action;
    int count = 0;
    while (core_next(n->core, &action)) {
        carry_out(n, &action);
        if (++count > ACTIONS_MOST) broken(n->sim, "idle means idle", "one step of core wants %d actions and more", ACTIONS_MOST);
    }
    core_check(n->core);
    judge_step(n);
    set_tick(n);
    if (n->stopped) node_gone(n);
}

void node_tick(sim_node *n)
{
    n->deadline = INT64_MIN;
    core_tick(n->core, node_time(n));
    node_pump(n);
}

static void wake(sim *s, void *arg, int64_t number)
{
    (void)s, (void)number;
    sim_node *n = arg;
    n->wake_pending = false;
    core_wake(n->core, node_time(n));
    node_pump(n);
}

void node_wake_others(sim *s, const session *committer)
{
    for (int i = 0; i < s->plan.nodes; i++) {
        sim_node *n = &s->nodes[i];
        if (!n->up || n->one_shot || n->session == committer || n->wake_pending) continue;
        n->wake_pending = true;
        sim_at(s, spread(s, s->plan.latency_us), n, wake, n, 0);
    }
}

int node_runs(const sim_node *n, int queue)
{
    int count = 0;
    list_each(node, &n->runs) {
        sim_run *run = container_of(node, sim_run, link);
        count += run->in_worker && (queue < 0 || strcmp(run->task->body->queue, queue_names[queue]) == 0);
    }
    return count;
}

/* ---- ends ------------------------------------------------------------------------------------------------------------------ */

void node_gone(sim_node *n)
{
    sim *s = n->sim;
    load_forget(n);
    wire_cut(n);
    core_free(n->core);
    n->core = NULL;
    n->up = false;
    if (n->blocks) broken(s, "memory is given back", "core_free left %lld blocks", (long long)n->blocks);
    if (s->plan.keep_sessions && chance(s, 700))
        sim_at(s, between(s, 0, s->plan.lease_us * 4), NULL, disconnect_later, n->session, 0);
    else if (chance(s, 500)) sim_at(s, spread(s, s->plan.latency_us), NULL, disconnect_later, n->session, 0);
    else disconnect(n->session, s);
    world_reboot(n);
}

void node_crash(sim_node *n)
{
    NOTE(n->sim, n, "crashes");
    n->sim->stats[STAT_CRASHES]++;
    node_gone(n);
}

static void wake_up(sim *s, void *arg, int64_t life)
{
    sim_node *n = arg;
    if (!n->up || n->life != life) return;
    NOTE(s, n, "goes on");
    n->asleep = false;
    n->woke_at = s->now;
    n->deadline = INT64_MIN;
    n->tick_at = s->now + !n->tick_first; /* what waited for it comes first, or the clock does */
}

void node_sleep(sim_node *n, int64_t for_us)
{
    sim *s = n->sim;
    if (!n->up || n->asleep) return;
    NOTE(s, n, "is stopped for %u", for_us);
    s->stats[STAT_SLEEPS]++;
    n->asleep = true;
    n->tick_first = chance(s, 500);
    n->tick_at = s->now + for_us;
    sim_at(s, for_us, NULL, wake_up, n, n->life);
}

void node_stop(sim_node *n)
{
    sim *s = n->sim;
    if (!n->up || n->asleep || n->stopping) return;
    int64_t grace = chance(s, 300) ? 0 : between(s, 0, s->plan.lease_us), patience = between(s, 0, s->plan.lease_us * 2);
    NOTE(s, n, "is told to stop: grace %u, patience %u", grace, patience);
    s->stats[STAT_STOPS]++;
    n->stopping = true;
    core_stop(n->core, node_time(n), grace, patience);
    node_pump(n);
}

void node_drain(sim_node *n)
{
    sim *s = n->sim;
    if (!n->up || n->asleep || n->stopping || !n->started) return;
    NOTE(s, n, "drains");
    n->draining = true;
    core_drain(n->core, node_time(n));
    sim_at(s, between(s, 0, s->plan.lease_us * 2), n, start_late, n, 0);
    node_pump(n);
}
