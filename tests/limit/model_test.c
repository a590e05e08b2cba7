/* core/limit against the slow exact model (exact.h), for random questions, releases, changes of rules and clocks that step; and
 * against its promises, which need no model. One seed is one history; a failure names it. */
#include "../unit/cmocka_all.h"
#include "../unit/test_allocator.h"
#include "base/rand.h"
#include "exact.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#ifndef SEEDS
#define SEEDS 2000
#endif
#define STEPS 400
#define RULES 3
#define TASKS 40

static const char *const names[] = {"a", "tenant-7", "\x01\xff\x80 x"};
#define NAMES (sizeof names / sizeof *names)

/* All rules of a history are about as fast, so that its clock suits all of them. */
static pawl_rate any_policy(rng *random, int64_t pace_us)
{
    static const int horizons[] = {0, -1, 1, 5, 30};
    int permits = 1 + (int)rng_below(random, rng_below(random, 3) ? 20 : 2000);
    return (pawl_rate){.permits = permits,
                       .period_us = 1 + (int64_t)rng_below(random, (uint64_t)(pace_us * permits)),
                       .burst = rng_below(random, 5) ? 1 + (int)rng_below(random, 10) : 0,
                       .start_empty = rng_below(random, 4) == 0,
                       .retries_free = rng_below(random, 4) == 0,
                       .discard = rng_below(random, 6) == 0,
                       .horizon_us = horizons[rng_below(random, 5)] * pace_us};
}

typedef struct history {
    uint64_t seed;
    int step;
    rng random;
    limiter *l;
    exact_model m;
    pawl_rate policies[RULES];
    int64_t now_us, pace_us;
    limit_answer got[TASKS]; /* the last answer of each task */
} history;

static void fail_here(const history *h, const char *what)
{
    fprintf(stderr, "seed %llu, step %d: %s\n", (unsigned long long)h->seed, h->step, what);
    fail();
}

static rate made(const pawl_rate *p)
{
    rate r;
    assert_int_equal(rate_make(p, "t", &r, NULL), PAWL_OK);
    return r;
}

static void begin(history *h, uint64_t seed, const limit_config *config)
{
    memset(h, 0, sizeof *h);
    h->seed = seed;
    rng_init(&h->random, seed);
    h->l = limit_new(config);
    assert_non_null(h->l);
    static const int64_t paces[] = {1, 10, PAWL_MILLISECOND, 30 * PAWL_MILLISECOND, PAWL_SECOND, PAWL_MINUTE};
    h->pace_us = paces[seed % 6];
    h->now_us = (int64_t)rng_below(&h->random, 1000) * PAWL_DAY;
    for (int i = 0; i < RULES; i++) {
        h->policies[i] = h->m.policies[i] = any_policy(&h->random, h->pace_us);
        rate r = made(&h->policies[i]);
        assert_int_equal(limit_add_rule(h->l, &r), i);
    }
}

/* It stands still for many a question, moves little by little, or to the slot of some task; seldom far, seldom back. */
static void move_clock(history *h, bool steps)
{
    const limit_answer *some = &h->got[rng_below(&h->random, TASKS)];
    int64_t far_us = 100 * h->pace_us + 2 * PAWL_SECOND, to_us = h->now_us;
    switch (rng_below(&h->random, 300)) {
    case 0: to_us += (int64_t)rng_below(&h->random, (uint64_t)far_us); break;
    case 1: to_us -= steps ? (int64_t)rng_below(&h->random, (uint64_t)far_us) : 0; break;
    case 2: to_us += 10 * h->pace_us; break;
    default: to_us += rng_below(&h->random, 20) == 0 ? (int64_t)rng_below(&h->random, (uint64_t)h->pace_us) + 1 : 0; break;
    }
    if (some->verdict == LIMIT_WAIT && rng_below(&h->random, 30) == 0) /* just in time, or just too late */
        to_us = rng_below(&h->random, 2) ? some->slot_us : some->until_us - (int64_t)rng_below(&h->random, 2);
    if (steps || to_us > h->now_us) h->now_us = to_us;
}

static limit_question any_question(history *h)
{
    size_t name = rng_below(&h->random, 20);
    return (limit_question){.rule = (int)rng_below(&h->random, RULES),
                            .key = pawl_str(name == 19 ? "" : names[name % NAMES]),
                            .id = (pawl_id)rng_below(&h->random, TASKS),
                            .now_us = h->now_us,
                            .retry = rng_below(&h->random, 4) == 0,
                            .again = rng_below(&h->random, 8) == 0,
                            .hold = rng_below(&h->random, 4) == 0};
}

static bool same(const limit_answer *a, const limit_answer *b)
{
    bool until = a->verdict != LIMIT_WAIT || a->until_us == b->until_us;
    return a->verdict == b->verdict && a->slot_us == b->slot_us && a->late == b->late && until;
}

static void change_rule(history *h)
{
    int rule = (int)rng_below(&h->random, RULES);
    h->policies[rule] = any_policy(&h->random, h->pace_us);
    rate r = made(&h->policies[rule]);
    limit_set_rule(h->l, rule, &r, h->now_us);
    exact_set_rule(&h->m, rule, &h->policies[rule], h->now_us);
}

static void step_of_model(history *h)
{
    limit_answer a;
    move_clock(h, true);
    if (rng_below(&h->random, 100) == 0) change_rule(h);
    if (rng_below(&h->random, 6) == 0) {
        pawl_id id = (pawl_id)rng_below(&h->random, TASKS);
        if (limit_release(h->l, id) != exact_release(&h->m, id)) fail_here(h, "one of them released it");
        return;
    }
    limit_question q = any_question(h);
    limit_answer expected = exact_ask(&h->m, &q);
    limit_ask(h->l, &q, &a);
    h->got[q.id] = a;
    if (!same(&a, &expected)) {
        fprintf(stderr, "verdict %d at %lld, expected %d at %lld\n", a.verdict, (long long)a.slot_us, expected.verdict,
                (long long)expected.slot_us);
        fail_here(h, "the answers differ");
    }
}

static void the_model_agrees(void **state)
{
    (void)state;
    static history h;
    limit_numbers sum = {0};
    for (uint64_t seed = 1; seed <= SEEDS; seed++) {
        begin(&h, seed, &(limit_config){.seed = seed});
        for (h.step = 0; h.step < STEPS && exact_reserved(&h.m) < EXACT_RESERVATIONS; h.step++) {
            step_of_model(&h);
            limit_check(h.l);
        }
        limit_numbers n;
        limit_numbers_get(h.l, &n);
        sum.went += n.went, sum.waited += n.waited, sum.late += n.late, sum.given_back += n.given_back;
        sum.rejected += n.rejected, sum.discarded += n.discarded;
        assert_int_equal(n.opened + n.full + n.evicted, 0);
        limit_free(h.l);
    }
    assert_true(sum.went > 50 * SEEDS && sum.waited > 20 * SEEDS && sum.late > SEEDS &&
                sum.given_back > SEEDS); /* no idle talk */
    assert_true(sum.rejected > SEEDS && sum.discarded > SEEDS);
}

/* ---- promises -------------------------------------------------------------------------------------------------------------- */

#define STARTS 4000

typedef struct starts {
    int count;
    int64_t at_us[STARTS];
} starts;

/* Any window W has at most floor((tolerance + W + L) / T) + 1 starts. */
static void hold_against_windows(const history *h, const pawl_rate *p, const starts *s)
{
    int burst = p->burst ? p->burst : p->permits;
    for (int i = 0; i < s->count; i++)
        for (int k = i; k < s->count; k++) {
            exact_ticks window = (exact_ticks)(s->at_us[k] - s->at_us[i] + exact_late_us(p)) * p->permits;
            if ((exact_ticks)(k - i) * p->period_us > (exact_ticks)p->period_us * (burst - 1) + window)
                fail_here(h, "a window has more starts than it may");
        }
}

/* What a node would do: tasks arrive, wait for their slots, are paused, cancelled, started late, tried again. Time is real:
 * `real_us` never goes back, while the clock that the limiter sees does. */
static void life(history *h, starts all[RULES][NAMES], int64_t *real_us)
{
    int64_t before_us = h->now_us;
    move_clock(h, false);
    *real_us += h->now_us - before_us;
    if (rng_below(&h->random, 50) == 0) h->now_us -= (int64_t)rng_below(&h->random, PAWL_DAY); /* the clock is set back */
    limit_question q = any_question(h);
    if (q.key.len == 0 || (q.retry && h->policies[q.rule].retries_free)) return;
    if (rng_below(&h->random, 10) == 0) limit_release(h->l, q.id);
    limit_ask(h->l, &q, &h->got[q.id]);
    if (h->got[q.id].verdict != LIMIT_GO || q.hold) return;
    for (size_t i = 0; i < NAMES; i++) {
        starts *s = &all[q.rule][i];
        if (strlen(names[i]) == q.key.len && memcmp(names[i], q.key.data, q.key.len) == 0 && s->count < STARTS)
            s->at_us[s->count++] = *real_us;
    }
}

static void no_window_has_more_starts_than_it_may(void **state)
{
    (void)state;
    static history h;
    static starts all[RULES][NAMES];
    for (uint64_t seed = 1; seed <= SEEDS; seed++) {
        int64_t real_us = 0;
        begin(&h, seed,
              &(limit_config){.seed = seed, .keys_max = 1 + (int)(seed % 20), .reservations_max = 1 + (int)(seed % 50)});
        memset(all, 0, sizeof all);
        for (h.step = 0; h.step < STEPS; h.step++) life(&h, all, &real_us);
        limit_check(h.l);
        for (int i = 0; i < RULES * (int)NAMES; i++) hold_against_windows(&h, &h.policies[i / NAMES], &all[i / NAMES][i % NAMES]);
        limit_free(h.l);
    }
}

/* A limiter that must forget idle keys answers like one that need not, but where it says that it counts no more keys. */
static void eviction_is_not_noticed(void **state)
{
    (void)state;
    static history h;
    int64_t evicted = 0, opened = 0;
    for (uint64_t seed = 1; seed <= SEEDS; seed++) {
        begin(&h, seed, &(limit_config){.seed = seed, .keys_max = 4});
        limiter *wide = limit_new(&(limit_config){.seed = seed + 1});
        int had[TASKS] = {0};
        for (int i = 0; i < RULES; i++) { /* to start empty is the one thing by which a new key differs from an idle one */
            h.policies[i].start_empty = false;
            rate r = made(&h.policies[i]);
            limit_set_rule(h.l, i, &r, h.now_us);
            assert_int_equal(limit_add_rule(wide, &r), i);
        }
        for (h.step = 0; h.step < STEPS; h.step++) {
            limit_answer a, b;
            move_clock(&h, true);
            limit_question q = any_question(&h);
            q.again = had[q.id] && had[q.id] == q.rule + RULES * (int)q.key.len; /* a late slot may have been forgotten */
            limit_ask(h.l, &q, &a);
            bool counted = q.key.len > 0 && !(q.retry && h.policies[q.rule].retries_free);
            if (counted) had[q.id] = a.verdict == LIMIT_WAIT || q.hold ? q.rule + RULES * (int)q.key.len : 0;
            if (a.verdict == LIMIT_OPEN) { /* the other one is told the time, and what became of an older slot of the task */
                limit_release(wide, q.id);
                limit_ask(wide, &(limit_question){.key = pawl_str("clock"), .id = -1, .now_us = h.now_us}, &b);
                continue;
            }
            limit_ask(wide, &q, &b);
            h.got[q.id] = a;
            if (a.verdict != b.verdict || a.slot_us != b.slot_us) fail_here(&h, "the answers differ");
        }
        limit_numbers n;
        limit_numbers_get(h.l, &n);
        evicted += n.evicted, opened += n.opened;
        limit_free(h.l);
        limit_free(wide);
    }
    assert_true(evicted > SEEDS && opened > SEEDS);
}

/* Every allocation may fail: the answer says so or it does not matter, nothing is lost or left. */
static void memory_may_fail_anywhere(void **state)
{
    (void)state;
    static history h;
    static test_allocator memory;
    for (uint64_t seed = 1; seed <= 60; seed++) {
        test_allocator_init(&memory);
        begin(&h, seed, &(limit_config){.allocator = &memory.allocator, .seed = seed});
        limit_numbers n;
        for (h.step = 0; h.step < STEPS; h.step++) {
            static const char long_name[300] = "a key that needs a block of its own, and a longer one that is hashed";
            limit_answer a;
            memory.fail_at = rng_below(&h.random, 2) ? memory.calls + 1 : 0;
            move_clock(&h, true);
            limit_question q = any_question(&h);
            if (rng_below(&h.random, 3) == 0) q.key = (pawl_bytes){long_name, 1 + rng_below(&h.random, sizeof long_name)};
            limit_ask(h.l, &q, &a);
            limit_check(h.l);
        }
        limit_numbers_get(h.l, &n);
        assert_true(n.opened > 0);
        limit_free(h.l);
        assert_int_equal(memory.outstanding, 0);
    }
    for (long at = 1; at <= 3; at++) {
        test_allocator_init(&memory);
        memory.fail_at = at;
        limiter *l = limit_new(&(limit_config){.allocator = &memory.allocator});
        rate r = made(&(pawl_rate){.permits = 1, .period_us = 1});
        if (at == 1) assert_null(l);
        if (at == 2) assert_int_equal(limit_add_rule(l, &r), -1);
        if (at == 3) assert_int_equal(limit_add_rule(l, &r), 0);
        limit_free(l);
        assert_int_equal(memory.outstanding, 0);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_model_agrees),
        cmocka_unit_test(no_window_has_more_starts_than_it_may),
        cmocka_unit_test(eviction_is_not_noticed),
        cmocka_unit_test(memory_may_fail_anywhere),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
