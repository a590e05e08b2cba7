/* One history: virtual time, events, the plan of faults, and the phases.
 *
 *   chaos  callers ask, nodes run, everything may fail
 *   heal   faults stop, every node is up, queues are resumed: within bounded time every task must be finished
 *   idle   nothing is left to do: the nodes must be (nearly) silent, then stop cleanly
 *
 * Each seed draws which faults it has at all, and how many (swarm testing): many seeds have few kinds of them, so that none hides
 * what another would show.
 */
#include "sim.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define HEAL_MOST_US (6 * PAWL_HOUR)
#define IDLE_US (20 * PAWL_MINUTE)
#define IDLE_CALLS 12      /* of one node, in that time */
#define STEPS_MOST 2000000 /* events of one history: beyond that something spins */

const char *const queue_names[QUEUES] = {"default", "mail", "bulk"};
const char *const type_names[TYPES] = {"alpha", "beta", "gamma", "delta"};
const char *const key_names[KEYS] = {"k0", "k1", "k2", "k3"};

/* ---- small things ---------------------------------------------------------------------------------------------------------- */

typedef struct block {
    struct block *next;
    size_t used, size;
} block;

void *sim_alloc(sim *s, size_t size)
{
    size = (size + 15) & ~(size_t)15;
    if (!s->blocks || s->blocks->used + size > s->blocks->size) {
        size_t room = size > 65536 ? size : 65536;
        block *b = malloc(sizeof *b + 16 + room);
        if (!b) abort();
        *b = (block){s->blocks, 0, room};
        s->blocks = b;
    }
    char *p = (char *)(s->blocks + 1) + s->blocks->used;
    s->blocks->used += size;
    return memset(p, 0, size);
}

bool chance(sim *s, int per_mille) { return per_mille > 0 && (int)rng_below(&s->random, 1000) < per_mille; }

int64_t between(sim *s, int64_t low, int64_t high)
{
    return high <= low ? low : low + (int64_t)rng_below(&s->random, (uint64_t)(high - low + 1));
}

int64_t spread(sim *s, int64_t typical_us)
{
    switch (rng_below(&s->random, 16)) {
    case 0: return between(s, 0, typical_us / 10);
    case 1: return between(s, typical_us, typical_us * 8);
    default: return between(s, typical_us / 2, typical_us * 3 / 2);
    }
}

/* ---- events ---------------------------------------------------------------------------------------------------------------- */

static bool earlier(const event *a, const event *b) { return a->at != b->at ? a->at < b->at : a->seq < b->seq; }

static void push(sim *s, event e)
{
    if (s->events_count == s->events_room) {
        s->events_room = s->events_room ? s->events_room * 2 : 256;
        s->events = realloc(s->events, s->events_room * sizeof *s->events);
        if (!s->events) abort();
    }
    e.seq = s->seq++;
    size_t i = s->events_count++;
    for (; i > 0 && earlier(&e, &s->events[(i - 1) / 2]); i = (i - 1) / 2) s->events[i] = s->events[(i - 1) / 2];
    s->events[i] = e;
}

static event pop(sim *s)
{
    event top = s->events[0], last = s->events[--s->events_count];
    size_t i = 0;
    for (;;) {
        size_t child = 2 * i + 1;
        if (child >= s->events_count) break;
        if (child + 1 < s->events_count && earlier(&s->events[child + 1], &s->events[child])) child++;
        if (!earlier(&s->events[child], &last)) break;
        s->events[i] = s->events[child];
        i = child;
    }
    s->events[i] = last;
    return top;
}

void sim_at(sim *s, int64_t delay_us, sim_node *n, event_fn fn, void *arg, int64_t number)
{
    push(s, (event){.at = s->now + delay_us, .fn = fn, .arg = arg, .n = number, .node = n, .life = n ? n->life : 0});
}

static sim_node *next_tick(sim *s)
{
    sim_node *first = NULL;
    for (int i = 0; i < s->plan.nodes; i++) {
        sim_node *n = &s->nodes[i];
        if (n->up && !n->asleep && (!first || n->tick_at < first->tick_at)) first = n;
    }
    return first && first->tick_at != INT64_MAX ? first : NULL;
}

static void happen(sim *s, event e)
{
    sim_node *n = e.node;
    if (n && (n->life != e.life || !n->up)) return;
    if (n && n->asleep) {
        e.at = n->tick_at; /* when it wakes up */
        push(s, e);
        return;
    }
    e.fn(s, e.arg, e.n);
}

/* The next thing that happens, unless it lies beyond `until`. */
static bool step(sim *s, int64_t until)
{
    sim_node *n = next_tick(s);
    int64_t at = s->events_count ? s->events[0].at : INT64_MAX;
    bool tick = n && n->tick_at <= at;
    if (tick) at = n->tick_at;
    if (at > until) {
        s->now = until;
        return false;
    }
    if (at > s->now) s->now = at;
    if (++s->steps > STEPS_MOST) broken(s, "idle means idle", "%d steps and no end: something spins", STEPS_MOST);
    if (tick) node_tick(n);
    else happen(s, pop(s));
    return true;
}

/* ---- faults ---------------------------------------------------------------------------------------------------------------- */

static sim_node *any_node(sim *s) { return &s->nodes[rng_below(&s->random, (uint64_t)s->plan.nodes)]; }

/* Shorter than a lease, about one, or several. */
static int64_t outage_length(sim *s) { return between(s, s->plan.lease_us / 8, s->plan.lease_us * between(s, 1, 4)); }

static void fault_outage(sim *s, void *arg, int64_t n)
{
    (void)arg, (void)n;
    if (s->phase != PHASE_CHAOS) return;
    int64_t until = s->now + outage_length(s);
    s->stats[STAT_OUTAGES]++;
    if (s->plan.outage_all && chance(s, 600)) {
        s->outage_until = until;
        NOTE(s, NULL, "the store is away for all, for %u", until - s->now);
    } else {
        sim_node *victim = any_node(s);
        victim->outage_until = until;
        NOTE(s, victim, "the store is away for this node, for %u", until - s->now);
    }
}

static void fault_crash(sim *s, void *arg, int64_t n)
{
    (void)arg, (void)n;
    sim_node *victim = any_node(s);
    if (s->phase == PHASE_CHAOS && victim->up) node_crash(victim);
}

static void fault_sleep(sim *s, void *arg, int64_t n)
{
    (void)arg, (void)n;
    sim_node *victim = any_node(s);
    if (s->phase == PHASE_CHAOS) node_sleep(victim, between(s, s->plan.lease_us / 4, s->plan.lease_us * 3));
}

static void clock_jumped(sim *s, void *arg, int64_t number)
{
    (void)s, (void)number;
    sim_node *n = arg;
    core_clock_jumped(n->core, node_time(n));
    node_pump(n);
}

/* One machine has one clock; the nodes of a database server have each their own. */
static void fault_jump(sim *s, void *arg, int64_t number)
{
    (void)arg, (void)number;
    if (s->phase != PHASE_CHAOS) return;
    int64_t by = between(s, -5 * PAWL_MINUTE, 5 * PAWL_MINUTE);
    sim_node *alone = s->rows ? any_node(s) : NULL;
    if (alone) alone->wall_offset_us += by;
    else {
        s->wall_shift += by;
        judge_stepped(s, by);
    }
    NOTE(s, alone, "the wall clock jumps by %u", by);
    for (int i = 0; i < s->plan.nodes; i++) {
        sim_node *n = &s->nodes[i];
        if (n->up && (!alone || n == alone)) sim_at(s, between(s, 0, 10000), n, clock_jumped, n, 0);
    }
}

static void fault_step(sim *s, void *arg, int64_t n)
{
    (void)arg, (void)n;
    if (s->phase == PHASE_CHAOS) limits_step(s);
}

static void fault_stop(sim *s, void *arg, int64_t n)
{
    (void)arg, (void)n;
    if (s->phase == PHASE_CHAOS) node_stop(any_node(s));
}

static void fault_drain(sim *s, void *arg, int64_t n)
{
    (void)arg, (void)n;
    if (s->phase == PHASE_CHAOS) node_drain(any_node(s));
}

static void scatter(sim *s, int count, event_fn fn)
{
    for (int i = 0; i < count; i++) sim_at(s, between(s, 0, s->plan.chaos_us), NULL, fn, NULL, 0);
}

static void plan_faults(sim *s)
{
    scatter(s, s->plan.outages, fault_outage);
    scatter(s, s->plan.crashes, fault_crash);
    scatter(s, s->plan.sleeps, fault_sleep);
    scatter(s, s->plan.jumps, fault_jump);
    scatter(s, s->plan.stops, fault_stop);
    scatter(s, s->plan.drains, fault_drain);
    scatter(s, s->plan.steps, fault_step);
}

/* ---- the plan -------------------------------------------------------------------------------------------------------------- */

/* Zero in most seeds, else up to `most`. */
static int sometimes(sim *s, int per_mille, int most) { return chance(s, per_mille) ? (int)between(s, 1, most) : 0; }

static void plan_calls(sim *s, plan *p)
{
    int much = p->sparse ? 3 : 1;
    p->before = sometimes(s, 400, 120 * much);
    p->after = sometimes(s, 400, 120 * much);
    p->nothing = sometimes(s, 400, 120 * much);
    p->lost = sometimes(s, 400, 60 * much);
    p->late = sometimes(s, 400, 60 * much);
    p->slow = sometimes(s, 400, 80 * much);
    p->killed = sometimes(s, 400, 80 * much);
    p->outages = sometimes(s, 300, 4);
    p->outage_all = chance(s, 500);
    p->crashes = sometimes(s, p->sparse ? 600 : 400, p->sparse ? 2 : 6);
    p->sleeps = sometimes(s, 400, 6);
    p->jumps = sometimes(s, 250, 4);
    p->stops = sometimes(s, 300, 4);
    p->drains = sometimes(s, 200, 3);
}

static void plan_load(sim *s, plan *p)
{
    p->poison = sometimes(s, 250, 80);
    p->long_runs = sometimes(s, 500, p->hot ? 60 : p->sparse ? 800 : 300);
    p->rude = sometimes(s, 300, 900);
    p->spawns = sometimes(s, 300, 200);
    p->cancels = sometimes(s, 500, 150);
    p->pauses = sometimes(s, 300, 60);
    p->bulks = sometimes(s, 400, 300);
    p->give_ups = sometimes(s, 300, 200);
    p->key_share = sometimes(s, 500, 900);
    p->keep_sessions = chance(s, 600);
    p->noisy_wakes = chance(s, 300);
    p->tiny_batches = chance(s, 300);
    p->depth_limits = !s->rows && chance(s, 250);
    if (p->depth_limits) p->bulks = 0; /* one that can never fit waits for ever */
    p->timeouts = sometimes(s, 400, 500);
    p->one_shots = chance(s, 200);
    p->no_memory = sometimes(s, 150, 40);
    p->surplus = s->seed % 4 == 3;
}

/* Nothing fails. */
static void plan_peace(plan *p)
{
    p->before = p->after = p->nothing = p->lost = p->late = p->slow = p->killed = 0;
    p->outages = p->crashes = p->sleeps = p->jumps = p->stops = p->drains = 0;
    p->long_runs = p->give_ups = p->no_memory = 0;
}

/* Every eighth seed has a theme. Nothing is drawn for it. */
static void plan_theme(const sim *s, plan *p)
{
    if (s->seed % 8 != 5) return;
    p->theme = (sim_theme)(1 + s->seed / 8 % (THEMES - 1));
    if (p->theme == THEME_CRAMPED && s->rows) p->theme = THEME_GREEDY; /* the rows know no limits */
    p->alike = true;
    p->queues = 1;
    p->pauses = p->poison = 0;
    p->one_shots = false;
    if (p->theme != THEME_DEAF) plan_peace(p);
    switch (p->theme) {
    case THEME_CRAMPED:
        p->nodes = 1;
        p->lanes = 3;
        p->depth_limits = p->hot = true;
        p->slow = 200;
        p->asks = 2 + (int)(s->seed / 64 % 3);
        p->bulks = 0;
        break;
    case THEME_GREEDY:
        p->nodes = 1;
        p->lanes = 3;
        p->latency_us = 5 * PAWL_MILLISECOND;
        p->lease_us = 750 * PAWL_MILLISECOND;
        p->chaos_us = 8 * p->lease_us;
        p->hot = true;
        p->asks = 160;
        break;
    case THEME_DEAF:
        p->nodes = 3;
        p->rude = p->timeouts = 900;
        p->long_runs = 700;
        p->outages = 4;
        p->outage_all = false;
        break;
    case THEME_MOURNING:
        p->nodes = 1;
        p->asks = 4;
        p->crashes = 1;
        p->keep_sessions = true;
        p->long_runs = 900;
        p->before = p->nothing = 200;
        p->after = 400;
        break;
    default: break;
    }
}

static void plan_seed(sim *s)
{
    static const int64_t leases_ms[] = {750, 750, 1500, 3000, 10000, 30000};
    static const int64_t latencies_us[] = {200, 1000, 5000, 20000};
    plan *p = &s->plan;
    p->nodes = (int)between(s, 1, NODES_MAX);
    p->lease_us = leases_ms[rng_below(&s->random, 6)] * 1000;
    p->latency_us = latencies_us[rng_below(&s->random, 4)];
    p->chaos_us = p->lease_us * between(s, 3, 12);
    p->step_us = 1 + p->latency_us / between(s, 1, 40);
    p->sparse = chance(s, 350);
    p->hot = !p->sparse && chance(s, 500);
    p->alike = p->hot || p->sparse || chance(s, 400);
    p->asks = (int)(p->hot ? between(s, 40, 160) : p->sparse ? between(s, 1, 10) : between(s, 5, 60));
    if (p->sparse) {
        p->nodes = (int)between(s, 1, 2);
        p->chaos_us = p->lease_us * between(s, 1, 5);
    }
    p->queues = (int)between(s, 1, QUEUES);
    p->keys = (int)between(s, 1, KEYS);
    p->lanes = chance(s, 500) ? 1 : (int)between(s, 1, LANES_MAX - 1);
    plan_calls(s, p);
    plan_load(s, p);
    plan_theme(s, p);
    limits_plan(s, p);
    places_plan(s, p);
    families_plan(s, p);
    NOTE(s, NULL, "plan: %d nodes, lease %u, latency %u, chaos %u, %d asks, %d lanes", p->nodes, p->lease_us, p->latency_us,
         p->chaos_us, p->asks, p->lanes);
    NOTE(s, NULL, "of 1000 calls: before %d after %d nothing %d lost %d late %d slow %d killed %d", p->before, p->after,
         p->nothing, p->lost, p->late, p->slow, p->killed);
    NOTE(s, NULL, "in all: outages %d crashes %d sleeps %d jumps %d stops %d drains %d; poison %d keys %d", p->outages,
         p->crashes, p->sleeps, p->jumps, p->stops, p->drains, p->poison, p->key_share);
    NOTE(s, NULL, "of 1000: allocations failing %d, long runs %d, deaf %d, give-ups %d; hot %d, sparse %d", p->no_memory,
         p->long_runs, p->rude, p->give_ups, p->hot, p->sparse);
}

/* ---- phases ---------------------------------------------------------------------------------------------------------------- */

static void boot_late(sim *s, void *arg, int64_t number)
{
    (void)number;
    sim_node *n = arg;
    if (!n->up) node_boot(n, s->phase != PHASE_CHAOS);
}

void world_reboot(sim_node *n)
{
    sim *s = n->sim;
    if (s->phase != PHASE_IDLE) sim_at(s, between(s, PAWL_MILLISECOND, s->plan.lease_us * 2), NULL, boot_late, n, 0);
}

static void begin(sim *s)
{
    for (int i = 0; i < s->plan.nodes; i++) {
        sim_at(s, i == 0 || chance(s, 700) ? 0 : between(s, 0, s->plan.chaos_us), NULL, boot_late, &s->nodes[i], 0);
    }
    plan_faults(s);
    load_start(s);
}

static void stop_faults(plan *p)
{
    p->before = p->after = p->nothing = p->lost = p->late = p->slow = p->killed = 0;
    p->long_runs = p->rude = p->give_ups = p->no_memory = 0;
    p->keep_sessions = false;
}

static bool somebody_serves_all(const sim *s)
{
    for (int i = 0; s->plan.alike && i < s->plan.nodes; i++) {
        const sim_node *n = &s->nodes[i];
        if (n->up && n->started && !n->stopping && !n->one_shot) return true;
    }
    return false;
}

static void heal(sim *s)
{
    s->phase = PHASE_HEAL;
    s->calm_at = s->now + 10 * s->plan.lease_us;
    stop_faults(&s->plan);
    s->outage_until = 0;
    NOTE(s, NULL, "---- heal: %d tasks unfinished", judge_unfinished(s));
    for (int i = 0; i < s->plan.nodes; i++) s->nodes[i].outage_until = 0;
    load_heal(s);
    if (!somebody_serves_all(s) && s->nodes[0].up) node_crash(&s->nodes[0]); /* it comes back with every queue and type */
    for (int i = 0; i < s->plan.nodes; i++) sim_at(s, between(s, 0, PAWL_SECOND), NULL, boot_late, &s->nodes[i], 0);
}

static bool quiet(sim *s)
{
    if (judge_unfinished(s) || s->open_requests || s->load_left || !list_empty(&s->busy_wires)) return false;
    for (int i = 0; i < s->plan.nodes; i++) {
        const sim_node *n = &s->nodes[i];
        if (!n->up || n->stopping || !list_empty(&n->runs) || !list_empty(&n->requests)) return false;
    }
    return judge_leases(s) == 0;
}

static void until_quiet(sim *s)
{
    int64_t until = s->now + HEAL_MOST_US;
    while (!quiet(s)) {
        if (!step(s, until)) {
            broken(s, "everything drains",
                   "%d tasks unfinished, %d leases held, %d requests open %.0f minutes after the last fault", judge_unfinished(s),
                   judge_leases(s), s->open_requests, (double)HEAL_MOST_US / 6e7);
        }
    }
}

/* The sweeper may look now and then, the last wakes may be answered; apart from that nobody moves. */
static void nobody_moves(sim *s)
{
    int64_t settle = s->now + PAWL_MINUTE, until = settle + IDLE_US, calls[NODES_MAX];
    while (step(s, settle)) {}
    for (int i = 0; i < s->plan.nodes; i++) calls[i] = s->nodes[i].calls_made;
    while (step(s, until)) {}
    for (int i = 0; i < s->plan.nodes; i++) {
        int64_t made = s->nodes[i].calls_made - calls[i];
        if (made > IDLE_CALLS) {
            broken(s, "idle means idle (5, 6)", "node %d made %lld calls to the store in %.0f idle minutes", i, (long long)made,
                   (double)IDLE_US / 6e7);
        }
    }
}

static void idle(sim *s)
{
    s->phase = PHASE_IDLE;
    NOTE(s, NULL, "---- idle");
    if (chance(s, 300)) {
        load_idle_work(s);
        int64_t answered = s->now + HEAL_MOST_US; /* numbers for ids may be scarce */
        while (s->open_requests && step(s, answered)) {}
        nobody_moves(s);
        s->phase = PHASE_HEAL;
        load_heal(s);
        until_quiet(s);
        s->phase = PHASE_IDLE;
    }
    nobody_moves(s);
}

static void stop_all(sim *s)
{
    int64_t until = s->now + 5 * PAWL_MINUTE;
    NOTE(s, NULL, "---- stop");
    for (int i = 0; i < s->plan.nodes; i++) node_stop(&s->nodes[i]);
    for (int i = 0; i < s->plan.nodes; i++) {
        while (s->nodes[i].up) {
            if (!step(s, until)) broken(s, "everything stops", "node %d does not stop though it has nothing to do", i);
        }
    }
}

/* ---- a seed ---------------------------------------------------------------------------------------------------------------- */

static sim *current;

const sim *world_current(void) { return current; }

static void create(sim *s)
{
    pawl_error err;
    list_init(&s->sessions);
    list_init(&s->free_wires);
    list_init(&s->busy_wires);
    s->judge = judge_new(s);
    if (s->rows) {
        s->rowstore = rowstore_new(s);
        return;
    }
    s->clock = (virtual_clock){.now_us = store_wall(s), .boot_us = PAWL_HOUR};
    pawl_store_options options = {.url = "memory:sim",
                                  .clock = clock_virtual(&s->clock),
                                  .allocator = alloc_default(),
                                  .lease_us = 30 * PAWL_SECOND,
                                  .lock_wait_us = PAWL_SECOND};
    if (store_open(&options, &s->observer, &err)) {
        fprintf(stderr, "sim_test: %s\n", err.message);
        exit(1);
    }
}

static void destroy(sim *s)
{
    wire_free_all(s);
    list_each(node, &s->sessions) {
        session *c = container_of(node, session, link);
        if (c->open && c->store) store_close(c->store);
    }
    if (s->observer) store_close(s->observer);
    if (s->rowstore) rowstore_free(s->rowstore);
    judge_free(s->judge);
    while (s->blocks) {
        block *next = s->blocks->next;
        free(s->blocks);
        s->blocks = next;
    }
    free(s->events);
    free(s->asks);
    free(s->items);
}

void world_run(uint64_t seed, char mode, bool trace, int64_t stats[STATS_COUNT])
{
    static sim world;
    sim *s = &world;
    memset(s, 0, sizeof *s);
    s->seed = seed;
    s->rows = mode == 'b' || mode == 'd';
    s->bounded = mode == 'd';
    s->both = mode == 'c';
    s->trace = trace;
    rng_init(&s->random, seed * 2 + s->rows);
    current = s;
    s->calm_at = INT64_MAX;
    create(s);
    plan_seed(s);
    for (int i = 0; i < NODES_MAX; i++) {
        s->nodes[i].sim = s;
        s->nodes[i].index = i;
    }
    begin(s);
    while (step(s, s->plan.chaos_us)) {}
    heal(s);
    until_quiet(s);
    idle(s);
    stop_all(s);
    judge_final(s);
    for (int i = 0; i < STATS_COUNT; i++) stats[i] += s->stats[i];
    destroy(s);
    current = NULL;
}
