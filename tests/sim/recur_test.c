/* Schedules under chaos: several real cores on one memory store and one virtual clock. Calls are slow, fail, or lose their answers; nodes
 * die and come back, sleep through occurrences; the wall clock is set back and forth. One seed is one history.
 *
 *     sim_recur [FIRST_SEED COUNT]
 *
 * THE JUDGE looks at every schedule after every call that may have changed one:
 *   - an occurrence has one fate, and a task belongs to one occurrence;
 *   - occurrences follow each other as the rule says, from the first on: none is missing, none comes twice, whatever the clocks do;
 *   - what is skipped was missed by its policy, or met an unfinished task; what fires under `skip` is not too late;
 *   - of `forbid` and `queue` one task at most is unfinished, and one occurrence at most waits; runs never exceed max_runs;
 *   - in the end, when faults have stopped, nothing is overdue; each success of a parent was told to its follower once; there are as many
 *     tasks as occurrences that fired.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/rand.h"
#include "base/zone.h"
#include "core/core.h"
#include "core/schedule.h"
#include "store/store.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SLEEP_MOST_US (150 * PAWL_SECOND) /* a node that was stopped sends what it had decided before */
#define NODES 3
#define SCHEDULES 8
#define SEEN_MAX 4096
#define CALLS_MAX 16
#define RUNS_MAX 512
#define START_US (INT64_C(1800000000) * PAWL_SECOND)
#define CHAOS_US (400 * PAWL_SECOND)
#define HEAL_US (200 * PAWL_SECOND)

typedef struct seen { /* an occurrence, as it was first told */
    int64_t occurrence, count;
    pawl_id task;
    bool skipped;
} seen;

typedef struct watched { /* what the judge knows of a schedule */
    char name[24];
    pawl_schedule definition;
    schedule_rule rule;
    int64_t expected_us; /* the occurrence that must be decided next; 0: it has ended */
    int64_t version, skipped;
    seen seen[SEEN_MAX];
    int seen_count;
} watched;

typedef struct flight {
    core_call *call;
    int64_t at_us;
    bool made; /* it has had its effect: the answer is on its way */
} flight;

typedef struct running {
    core_task *task;
    int64_t at_us;
} running;

typedef struct sim_node {
    core *core;
    pawl_store *store;
    bool up;
    int64_t asleep_us; /* until */
    flight calls[CALLS_MAX];
    int calls_count;
    running runs[RUNS_MAX];
    int runs_count;
} sim_node;

typedef struct jumps {
    int64_t by_us, at_us; /* of one direction, and when the last of them was */
} jumps;

typedef struct world {
    uint64_t seed;
    rng dice;
    virtual_clock clock;
    sim_node nodes[NODES];
    watched schedules[SCHEDULES];
    pawl_store *eye; /* the judge's own handle */
    pawl_arena *arena;
    zone *utc;
    bool healing;
    jumps ahead, back; /* of the clock, lately: steps under way were decided before them */
    char url[40];
} world;

static uint64_t first_seed = 1;
static int seeds = 150;
static world *w;

static int64_t between(int64_t least, int64_t most) { return least + (int64_t)rng_below(&w->dice, (uint64_t)(most - least + 1)); }
static bool chance(int of_1000) { return !w->healing && (int)rng_below(&w->dice, 1000) < of_1000; }

#define promise(held, ...)                                           \
    do {                                                             \
        if (!(held)) {                                               \
            print_error("seed %llu: ", (unsigned long long)w->seed); \
            fail_msg(__VA_ARGS__);                                   \
        }                                                            \
    } while (0)

/* ---- the judge --------------------------------------------------------------------------------------------------------------- */

static pawl_schedule_row *read_row(const char *name)
{
    pawl_query query = {.kind = PAWL_QUERY_SCHEDULE, .name = name};
    assert_int_equal(store_read(w->eye, &query, w->arena, NULL), PAWL_OK);
    return query.schedules;
}

static seen *find_seen(watched *s, int64_t occurrence)
{
    for (int i = s->seen_count - 1; i >= 0; i--)
        if (s->seen[i].occurrence == occurrence) return &s->seen[i];
    return NULL;
}

static void judge_task(const watched *s, const pawl_occurrence *o)
{
    for (int i = 0; i < SCHEDULES && o->task; i++)
        for (int k = 0; k < w->schedules[i].seen_count; k++)
            promise(w->schedules[i].seen[k].task != o->task, "%s: a task of two occurrences", s->name);
}

static int64_t lately(const jumps *j) { return w->clock.boot_us - j->at_us < SLEEP_MOST_US ? j->by_us : 0; }

/* Of all that were missed only those before the last `catch_up` are skipped. */
static void judge_catch_up(const watched *s, const pawl_occurrence *o)
{
    int64_t last_us = o->occurrence;
    for (int64_t i = 1; i < o->count + s->rule.catch_up; i++)
        if (!schedule_next(&s->rule, last_us, &last_us)) return;
    promise(last_us <= o->at_us + lately(&w->back), "%s: %lld were skipped that could have been caught up with", s->name,
            (long long)o->count);
}

static void judge_fate(const watched *s, const pawl_occurrence *o)
{
    bool fired = o->task != 0;
    if (!fired && o->state == PAWL_OCCURRENCE_SKIPPED) {
        bool overlap = strcmp(o->why, "overlap") == 0;
        promise(!overlap || s->rule.overlap != PAWL_OVERLAP_ALLOW, "%s: skipped for an overlap that is allowed", s->name);
        promise(overlap || !s->rule.after, "%s: skipped, but it follows another", s->name);
        if (!overlap && s->rule.missed == PAWL_MISSED_ALL) judge_catch_up(s, o);
    }
    if (fired && s->rule.missed == PAWL_MISSED_SKIP && s->rule.overlap != PAWL_OVERLAP_QUEUE && !s->rule.after)
        promise(o->at_us - o->occurrence <= SCHEDULE_LATE_US + s->rule.variance_us + SLEEP_MOST_US + lately(&w->ahead),
                "%s: fired %lld us late", s->name, (long long)(o->at_us - o->occurrence));
}

static int by_occurrence(const void *a, const void *b)
{
    const pawl_occurrence *x = a, *y = b;
    return x->occurrence < y->occurrence ? -1 : x->occurrence > y->occurrence;
}

/* A long row of skipped ones goes from history in the very commit that makes it: the count alone tells. */
static void judge_gap(watched *s, const pawl_schedule_row *row, int64_t until_us)
{
    while (s->expected_us && s->expected_us < until_us && s->skipped < row->skipped) {
        s->skipped++;
        if (!schedule_next(&s->rule, s->expected_us, &s->expected_us)) s->expected_us = 0;
    }
}

static void judge_skipped(watched *s, seen *at, const pawl_occurrence *o)
{
    if (o->state != PAWL_OCCURRENCE_SKIPPED || at->skipped) return;
    at->skipped = true;
    s->skipped += o->count;
}

static void judge_new(watched *s, const pawl_schedule_row *row, const pawl_occurrence *o)
{
    promise(s->seen_count < SEEN_MAX, "%s: more occurrences than the judge can hold", s->name);
    if (s->rule.max_runs > 0 && o->occurrence > s->expected_us) s->expected_us = o->occurrence; /* while it had no runs left */
    if (!s->rule.after) {
        judge_gap(s, row, o->occurrence);
        promise(o->occurrence == s->expected_us, "%s: %lld was decided, not %lld", s->name, (long long)o->occurrence,
                (long long)s->expected_us);
        for (int64_t i = 0; i < o->count && s->expected_us; i++)
            if (!schedule_next(&s->rule, s->expected_us, &s->expected_us)) s->expected_us = 0;
    }
    judge_task(s, o);
    judge_fate(s, o);
    s->seen[s->seen_count] = (seen){.occurrence = o->occurrence, .count = o->count, .task = o->task};
    judge_skipped(s, &s->seen[s->seen_count++], o);
}

static void judge_row(watched *s)
{
    pawl_schedule_row *row = read_row(s->name);
    if (row->version == s->version) return;
    s->version = row->version;
    qsort(row->occurrences, (size_t)row->occurrences_count, sizeof *row->occurrences, by_occurrence);
    for (int i = 0; i < row->occurrences_count; i++) {
        const pawl_occurrence *o = &row->occurrences[i];
        seen *before = find_seen(s, o->occurrence);
        if (before) judge_skipped(s, before, o);
        if (!before) judge_new(s, row, o);
        else if (before->task == 0 && o->task) judge_task(s, o), before->task = o->task;
        else promise(before->task == o->task, "%s: an occurrence has had two tasks", s->name);
    }
    promise(row->open <= 1 || s->rule.overlap == PAWL_OVERLAP_ALLOW, "%s: %lld unfinished tasks", s->name, (long long)row->open);
    promise(row->waiting <= 1 || s->rule.after, "%s: %lld occurrences wait", s->name, (long long)row->waiting);
    promise(s->rule.max_runs == 0 || row->runs <= s->rule.max_runs, "%s: %lld runs", s->name, (long long)row->runs);
    if (!row->off && row->next_us && !s->rule.after)
        promise(row->occurrence_us == s->expected_us || (s->rule.max_runs > 0 && row->occurrence_us > s->expected_us),
                "%s: goes on with %lld, not %lld", s->name, (long long)row->occurrence_us, (long long)s->expected_us);
}

static void judge(void)
{
    arena_reset(w->arena);
    for (int i = 0; i < SCHEDULES; i++) judge_row(&w->schedules[i]);
}

static int64_t count_tasks(void)
{
    int64_t count = 0;
    pawl_filter filter = {.limit = 1000};
    pawl_query query = {.kind = PAWL_QUERY_LIST, .filter = &filter, .deadline_us = PAWL_HOUR};
    do {
        assert_int_equal(store_read(w->eye, &query, w->arena, NULL), PAWL_OK);
        count += (int64_t)query.page->count;
    } while ((filter.cursor = query.page->next));
    return count;
}

static void judge_end(void)
{
    int64_t fired = 0;
    judge();
    for (int i = 0; i < SCHEDULES; i++) {
        watched *s = &w->schedules[i];
        const pawl_schedule_row *row = read_row(s->name);
        fired += row->fired;
        promise(s->skipped == row->skipped || s->rule.after, "%s: %lld skipped, but %lld were counted", s->name,
                (long long)s->skipped, (long long)row->skipped);
        promise(row->off == PAWL_OFF_NOT || row->off == PAWL_OFF_ENDED, "%s is off: %s", s->name, row->reason ? row->reason : "");
        promise(row->off || !row->next_us || row->next_us > w->clock.now_us - 2 * PAWL_SECOND, "%s is overdue by %lld us",
                s->name, (long long)(w->clock.now_us - row->next_us));
        bool looked_at = row->look_us && row->look_us > w->clock.now_us - 2 * PAWL_SECOND;
        promise(row->waiting == 0 || row->open > 0 || looked_at, "%s: an occurrence waits for nothing (off %d, look %lld us ago)",
                s->name, (int)row->off, (long long)(w->clock.now_us - row->look_us));
        if (!s->rule.after) continue;
        const pawl_schedule_row *parent = read_row(s->definition.after);
        promise(row->fired + row->skipped + row->waiting == parent->succeeded, "%s heard of %lld successes of %lld", s->name,
                (long long)(row->fired + row->skipped + row->waiting), (long long)parent->succeeded);
    }
    int64_t tasks = count_tasks();
    promise(tasks == fired, "%lld tasks, but %lld occurrences fired", (long long)tasks, (long long)fired);
}

/* ---- schedules --------------------------------------------------------------------------------------------------------------- */

static void draw_schedule(watched *s, int number)
{
    static const char *const crons[] = {"* * * * * *", "*/7 * * * * *", "*/2 * * * *", "30 */3 * * * *"};
    pawl_schedule *d = &s->definition;
    snprintf(s->name, sizeof s->name, "s%d", number);
    *d = (pawl_schedule){.name = s->name, .type = "t", .queue = "q"};
    d->overlap = (pawl_overlap)between(1, 3);
    d->missed = (pawl_missed)between(0, 2);
    if (number > 0 && between(0, 3) == 0) {
        d->after = w->schedules[number - 1].name;
        return;
    }
    if (between(0, 1)) d->cron = crons[between(0, 3)];
    else {
        d->every = between(0, 1) ? between(1, 5) : between(20, 100);
        d->unit = PAWL_SECONDS;
        if (between(0, 1)) d->start_now = true;
        if (between(0, 2) == 0 && d->every > 2) d->variance_us = PAWL_SECOND;
    }
    if (between(0, 3) == 0) d->max_runs = between(1, 30);
    if (between(0, 5) == 0) d->until_us = w->clock.now_us + between(250, 500) * PAWL_SECOND;
    if (d->missed == PAWL_MISSED_ALL) d->catch_up = between(0, 1) ? (int)between(1, 100) : 100;
}

static void put_schedule(watched *s)
{
    buf spec;
    pawl_schedule_row row = {.name = s->name, .after = s->definition.after};
    assert_int_equal(schedule_compile(&s->definition, w->utc, w->clock.now_us, &s->rule, NULL), PAWL_OK);
    row.anchor_us = w->clock.now_us;
    assert_true(schedule_begin(&s->rule, 0, w->clock.now_us, &w->dice, &row));
    buf_init(&spec, alloc_default(), SCHEDULE_SPEC_MAX);
    schedule_write(&s->definition, &spec);
    row.spec = buf_text(&spec);
    pawl_schedule_put put = {.row = &row};
    pawl_op op = {.kind = PAWL_OP_SCHEDULE, .audit = PAWL_AUDIT_FULL, .u.schedule = &put}, *ops = &op;
    pawl_batch batch = {.ops = &ops, .count = 1};
    core_call call = {.kind = CORE_APPLY, .arena = w->arena, .u.batch = batch};
    store_call(w->eye, &call);
    assert_int_equal(op.result, PAWL_OP_DONE);
    buf_done(&spec);
    s->expected_us = row.occurrence_us;
}

/* ---- nodes ------------------------------------------------------------------------------------------------------------------- */

static const zone *zone_of(void *ctx, const char *name, pawl_error *err)
{
    (void)ctx, (void)name, (void)err;
    return w->utc;
}

static core_time now_of(void) { return (core_time){.mono_us = w->clock.boot_us, .wall_us = w->clock.now_us}; }

static void send(sim_node *n, core_call *call)
{
    promise(n->calls_count < CALLS_MAX, "too many calls at once");
    int64_t delay_us = chance(20) ? between(1, 5) * PAWL_SECOND : between(1, 20) * PAWL_MILLISECOND;
    n->calls[n->calls_count++] = (flight){.call = call, .at_us = w->clock.boot_us + delay_us};
}

static void pump(sim_node *n)
{
    core_action a;
    while (core_next(n->core, &a)) {
        switch (a.kind) {
        case CORE_CALL: send(n, a.call); break;
        case CORE_RUN:
            promise(n->runs_count < RUNS_MAX, "too many runs at once");
            n->runs[n->runs_count++] = (running){
                a.task, w->clock.boot_us + (chance(100) ? between(1, 20) * PAWL_SECOND : between(1, 900) * PAWL_MILLISECOND)};
            break;
        case CORE_STOP_RUN:
            for (int i = 0; i < n->runs_count; i++)
                if (n->runs[i].task == a.task) n->runs[i].at_us = w->clock.boot_us;
            break;
        case CORE_SETTLED: core_task_free(n->core, a.task); break;
        case CORE_DROP: core_request_free(n->core, a.request); break;
        default: break;
        }
    }
    core_check(n->core);
}

static void boot(sim_node *n)
{
    pawl_store_options options = {
        .url = w->url, .lease_us = 10 * PAWL_SECOND, .clock = clock_virtual(&w->clock), .allocator = alloc_default()};
    core_config config = {.seed = rng_next(&w->dice),
                          .lanes = 2,
                          .lease_us = 10 * PAWL_SECOND,
                          .node_name = "n",
                          .zone = zone_of,
                          .retention = {-1, -1, -1, -1, -1, -1, 0, 0, 0, 0, 0}};
    assert_int_equal(store_open(&options, &n->store, NULL), PAWL_OK);
    assert_int_equal(core_new(&config, &n->core), PAWL_OK);
    assert_int_equal(core_add_queue(n->core, &(core_queue_config){.name = "q", .workers = 50}), PAWL_OK);
    assert_int_equal(core_add_handler(n->core, &(core_handler_config){.type = "t"}), PAWL_OK);
    assert_int_equal(core_start(n->core, now_of()), PAWL_OK);
    n->up = true;
    n->asleep_us = 0;
    n->calls_count = n->runs_count = 0;
    pump(n);
}

/* What a claim has brought, and the core never saw. */
static void drop_claimed(const core_call *call)
{
    if (call->kind != CORE_CLAIM || call->status != PAWL_OK) return;
    for (int i = 0; i < call->u.claim.tasks_count; i++) pawl_body_free(call->u.claim.allocator, call->u.claim.tasks[i].body);
}

static void crash(sim_node *n)
{
    for (int i = 0; i < n->calls_count; i++)
        if (n->calls[i].made) drop_claimed(n->calls[i].call);
    core_free(n->core);
    store_close(n->store);
    n->core = NULL;
    n->store = NULL;
    n->up = false;
}

/* Others hear of a commit. */
static void ring(const sim_node *from)
{
    for (int i = 0; i < NODES; i++) {
        sim_node *n = &w->nodes[i];
        bool changed = false;
        int64_t again_us = -1;
        if (!n->up || n == from) continue;
        store_watch_check(n->store, &changed, &again_us);
        if (!changed || n->asleep_us > w->clock.boot_us) continue;
        core_wake(n->core, now_of());
        pump(n);
    }
}

static void make_call(sim_node *n, flight *f)
{
    core_call *call = f->call;
    bool doubtful = call->kind == CORE_APPLY || call->kind == CORE_DUE;
    if (chance(30)) {
        call->status = PAWL_UNAVAILABLE;
    } else if (doubtful && chance(15)) {
        call->status = PAWL_UNKNOWN; /* and nothing happened */
    } else {
        store_call(n->store, call);
        if (doubtful && call->status == PAWL_OK && chance(30)) call->status = PAWL_UNKNOWN;
    }
    f->made = true;
    f->at_us = w->clock.boot_us + (chance(20) ? between(1, 5) * PAWL_SECOND : between(1, 20) * PAWL_MILLISECOND);
    judge();
    ring(n);
}

static bool do_calls(sim_node *n)
{
    for (int i = 0; i < n->calls_count; i++) {
        if (n->calls[i].at_us > w->clock.boot_us) continue;
        if (!n->calls[i].made) {
            make_call(n, &n->calls[i]);
            return true;
        }
        core_call *call = n->calls[i].call;
        n->calls[i] = n->calls[--n->calls_count];
        core_answered(n->core, now_of(), call);
        pump(n);
        return true;
    }
    return false;
}

static bool do_runs(sim_node *n)
{
    static const core_outcome good = {.outcome = {.kind = PAWL_RUN_OK}, .progress = -1},
                              bad = {.outcome = {.kind = PAWL_RUN_FAIL}, .progress = -1, .error = "no"};
    for (int i = 0; i < n->runs_count; i++) {
        if (n->runs[i].at_us > w->clock.boot_us) continue;
        core_task *task = n->runs[i].task;
        n->runs[i] = n->runs[--n->runs_count];
        core_finished(n->core, now_of(), task, between(0, 4) ? &good : &bad);
        pump(n);
        return true;
    }
    return false;
}

static bool do_node(sim_node *n)
{
    if (!n->up || n->asleep_us > w->clock.boot_us) return false;
    if (do_calls(n) || do_runs(n)) return true;
    if (core_deadline(n->core) > w->clock.boot_us) return false;
    core_tick(n->core, now_of());
    pump(n);
    return true;
}

static int64_t next_of(const sim_node *n)
{
    if (!n->up) return INT64_MAX;
    int64_t at_us = core_deadline(n->core);
    for (int i = 0; i < n->calls_count; i++)
        if (n->calls[i].at_us < at_us) at_us = n->calls[i].at_us;
    for (int i = 0; i < n->runs_count; i++)
        if (n->runs[i].at_us < at_us) at_us = n->runs[i].at_us;
    return at_us > n->asleep_us ? at_us : n->asleep_us;
}

/* ---- chaos ------------------------------------------------------------------------------------------------------------------- */

static void jump(int64_t by_us)
{
    w->clock.now_us += by_us;
    jumps *j = by_us > 0 ? &w->ahead : &w->back;
    *j = (jumps){lately(j) + llabs(by_us), w->clock.boot_us};
    for (int i = 0; i < NODES; i++) {
        if (!w->nodes[i].up) continue;
        core_clock_jumped(w->nodes[i].core, now_of());
        pump(&w->nodes[i]);
    }
}

/* Something happens to somebody. */
static void strike(void)
{
    sim_node *n = &w->nodes[between(0, NODES - 1)];
    switch (between(0, 5)) {
    case 0:
    case 1:
        if (n->up) crash(n);
        break;
    case 2:
    case 3:
        if (!n->up) boot(n);
        break;
    case 4: n->asleep_us = w->clock.boot_us + between(PAWL_SECOND, SLEEP_MOST_US); break;
    default: jump(between(-200, 200) * PAWL_SECOND); break;
    }
}

/* Runs until then, in steps of what happens next. */
static void run_until(int64_t until_us, bool strikes)
{
    int64_t strike_us = w->clock.boot_us + between(1, 40) * PAWL_SECOND;
    while (w->clock.boot_us < until_us) {
        int64_t next_us = until_us;
        bool any = false;
        for (int i = 0; i < NODES; i++) any = do_node(&w->nodes[i]) || any;
        if (any) continue;
        for (int i = 0; i < NODES; i++)
            if (next_of(&w->nodes[i]) < next_us) next_us = next_of(&w->nodes[i]);
        if (strikes && strike_us <= next_us) {
            next_us = strike_us;
            strike_us += between(1, 40) * PAWL_SECOND;
            if (next_us > w->clock.boot_us) w->clock.now_us += next_us - w->clock.boot_us, w->clock.boot_us = next_us;
            strike();
            continue;
        }
        if (next_us <= w->clock.boot_us) next_us = w->clock.boot_us + 1;
        w->clock.now_us += next_us - w->clock.boot_us;
        w->clock.boot_us = next_us;
    }
}

static void open_world(uint64_t seed)
{
    w = calloc(1, sizeof *w);
    assert_non_null(w);
    w->seed = seed;
    rng_init(&w->dice, seed);
    w->clock = (virtual_clock){.now_us = START_US, .boot_us = PAWL_HOUR};
    snprintf(w->url, sizeof w->url, "memory:recur%llu", (unsigned long long)seed);
    pawl_store_options options = {
        .url = w->url, .lease_us = 10 * PAWL_SECOND, .clock = clock_virtual(&w->clock), .allocator = alloc_default()};
    assert_int_equal(store_open(&options, &w->eye, NULL), PAWL_OK);
    assert_int_equal(zone_load(alloc_default(), NULL, NULL, &w->utc, NULL), PAWL_OK);
    w->arena = arena_new(alloc_default(), 0);
    assert_non_null(w->arena);
    for (int i = 0; i < SCHEDULES; i++) draw_schedule(&w->schedules[i], i);
    for (int i = 0; i < SCHEDULES; i++) put_schedule(&w->schedules[i]);
    judge();
}

static void close_world(void)
{
    for (int i = 0; i < NODES; i++)
        if (w->nodes[i].up) crash(&w->nodes[i]);
    store_close(w->eye);
    zone_free(w->utc);
    arena_free(w->arena);
    free(w);
}

/* ---- the test ------------------------------------------------------------------------------------------------------------------ */

static void every_occurrence_has_one_fate(void **state)
{
    (void)state;
    for (int i = 0; i < seeds; i++) {
        open_world(first_seed + (uint64_t)i);
        for (int k = 0; k < NODES; k++) boot(&w->nodes[k]);
        run_until(w->clock.boot_us + CHAOS_US, true);
        w->healing = true;
        for (int k = 0; k < NODES; k++) {
            if (!w->nodes[k].up) boot(&w->nodes[k]);
            w->nodes[k].asleep_us = 0;
        }
        jump(PAWL_HOUR / 6); /* beyond whatever the clock had shown before */
        run_until(w->clock.boot_us + HEAL_US, false);
        judge_end();
        close_world();
    }
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(every_occurrence_has_one_fate)};
    if (argc > 2) {
        first_seed = strtoull(argv[1], NULL, 10);
        seeds = atoi(argv[2]);
    }
    return cmocka_run_group_tests(tests, NULL, NULL);
}
