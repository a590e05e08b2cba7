/* The arithmetic of rates, held against exact fractions in 128 bits: instants are whole numbers of 1 / permits microseconds. */
#include "../unit/cmocka_all.h"
#include "base/rand.h"
#include "core/rate.h"
#include <stdlib.h>
#include <string.h>

typedef __int128 exact;

static rate make(int permits, int64_t period_us, int burst)
{
    rate r;
    pawl_rate p = {.permits = permits, .period_us = period_us, .burst = burst};
    assert_int_equal(rate_make(&p, "t", &r, NULL), PAWL_OK);
    return r;
}

static exact ticks(const rate *r, rate_instant t) { return (exact)t.us * r->permits + t.part; }

static void is_instant(const rate *r, rate_instant t, exact expected)
{
    assert_in_range(t.part, 0, r->permits - 1);
    assert_true(ticks(r, t) == expected);
}

static exact max(exact a, exact b) { return a > b ? a : b; }

/* Up to a whole microsecond. */
static exact ceil_us(exact t, int permits) { return t / permits + (t % permits > 0); }

/* ---- what it means --------------------------------------------------------------------------------------------------------- */

/* The example that everybody starts from: 15 a minute, one every 4 s, 15 at once after a quiet stretch. */
static void fifteen_a_minute(void **state)
{
    (void)state;
    rate r = make(15, PAWL_MINUTE, 0);
    assert_int_equal(r.burst, 15);
    is_instant(&r, r.step, (exact)4 * PAWL_SECOND * 15);
    is_instant(&r, r.tolerance, (exact)56 * PAWL_SECOND * 15);
    assert_int_equal(r.horizon_us, PAWL_HOUR);
    rate_instant tat = rate_fresh(&r, 1000);
    for (int i = 0; i < 15; i++) {
        assert_int_equal(rate_left(&r, tat, 1000), 15 - i);
        assert_int_equal(rate_slot(&r, tat, 1000), 1000);
        assert_true(rate_take(&r, &tat, 1000, 1));
    }
    assert_int_equal(rate_left(&r, tat, 1000), 0);
    for (int i = 1; i < 100; i++) {
        assert_int_equal(rate_slot(&r, tat, 1000), 1000 + i * 4 * PAWL_SECOND);
        assert_true(rate_take(&r, &tat, 1000, 1));
    }
}

static void a_burst_of_one_is_evenly_spaced(void **state)
{
    (void)state;
    rate r = make(15, PAWL_MINUTE, 1);
    rate_instant tat = rate_fresh(&r, 0);
    for (int i = 0; i < 50; i++) {
        assert_int_equal(rate_slot(&r, tat, 0), i * 4 * PAWL_SECOND);
        assert_true(rate_take(&r, &tat, 0, 1));
    }
    assert_int_equal(rate_slot(&r, tat, PAWL_DAY), PAWL_DAY); /* however long it was idle, one */
    assert_true(rate_take(&r, &tat, PAWL_DAY, 1));
    assert_int_equal(rate_slot(&r, tat, PAWL_DAY), PAWL_DAY + 4 * PAWL_SECOND);
}

static void a_burst_between_them(void **state)
{
    (void)state;
    rate r = make(15, PAWL_MINUTE, 5);
    rate_instant tat = rate_fresh(&r, 0);
    assert_int_equal(rate_left(&r, tat, 0), 5);
    assert_true(rate_take(&r, &tat, 0, 5));
    assert_int_equal(rate_slot(&r, tat, 0), 4 * PAWL_SECOND);
    assert_int_equal(rate_left(&r, tat, 7 * PAWL_SECOND), 1);
    assert_int_equal(rate_left(&r, tat, 8 * PAWL_SECOND), 2);
    assert_int_equal(rate_left(&r, tat, PAWL_DAY), 5);
}

static void one_that_starts_empty(void **state)
{
    (void)state;
    rate r;
    pawl_rate p = {.permits = 15, .period_us = PAWL_MINUTE, .start_empty = true};
    assert_int_equal(rate_make(&p, "t", &r, NULL), PAWL_OK);
    rate_instant tat = rate_fresh(&r, 0);
    for (int i = 0; i < 3; i++) { /* the first at once, then at the steady pace */
        assert_int_equal(rate_slot(&r, tat, 0), i * 4 * PAWL_SECOND);
        assert_true(rate_take(&r, &tat, 0, 1));
    }
    assert_int_equal(rate_left(&r, tat, 2 * PAWL_MINUTE), 15); /* and later it has saved like any other */
}

static void late_is_at_most_a_second_and_at_least_a_twentieth(void **state)
{
    (void)state;
    assert_int_equal(make(1000, PAWL_SECOND, 0).late_us, 50 * PAWL_MILLISECOND);
    assert_int_equal(make(4, PAWL_SECOND, 0).late_us, 250 * PAWL_MILLISECOND);
    assert_int_equal(make(1, PAWL_DAY, 0).late_us, PAWL_SECOND);
}

/* Seven a second: no slot is off by a microsecond after a million of them. */
static void nothing_is_lost_to_rounding(void **state)
{
    (void)state;
    rate r = make(7, PAWL_SECOND, 1);
    rate_instant tat = rate_fresh(&r, 0);
    for (int i = 0; i < 1000000; i++) assert_true(rate_take(&r, &tat, 0, 1));
    is_instant(&r, tat, (exact)1000000 * PAWL_SECOND);
    r = make(1000000007, PAWL_SECOND, 1); /* many in one microsecond */
    tat = rate_fresh(&r, 5);
    assert_true(rate_take(&r, &tat, 5, 1000000007));
    is_instant(&r, tat, (exact)1000000007 * (5 + PAWL_SECOND));
}

/* ---- what is refused ------------------------------------------------------------------------------------------------------- */

static void refused(pawl_rate p, const char *why)
{
    pawl_error err = {0};
    rate r, untouched;
    memset(&r, 42, sizeof r);
    untouched = r;
    assert_int_equal(rate_make(&p, "mail.send", &r, &err), PAWL_INVALID);
    assert_int_equal(err.status, PAWL_INVALID);
    assert_non_null(strstr(err.message, why));
    assert_non_null(strstr(err.message, "'mail.send'"));
    assert_memory_equal(&r, &untouched, sizeof r);
    assert_int_equal(rate_make(&p, "mail.send", &r, NULL), PAWL_INVALID);
}

static void senseless_rates_are_refused(void **state)
{
    (void)state;
    refused((pawl_rate){.permits = 0, .period_us = 1}, "0 permits");
    refused((pawl_rate){.permits = -1, .period_us = 1}, "-1 permits");
    refused((pawl_rate){.permits = INT32_MIN, .period_us = 1}, "permits");
    refused((pawl_rate){.permits = 1, .period_us = 0}, "a period of 0 us");
    refused((pawl_rate){.permits = 1, .period_us = -5}, "a period of -5 us");
    refused((pawl_rate){.permits = 1, .period_us = INT64_MIN}, "140 years");
    refused((pawl_rate){.permits = 1, .period_us = INT64_MAX}, "140 years");
    refused((pawl_rate){.permits = 1, .period_us = (INT64_C(1) << 52) + 1}, "140 years");
    refused((pawl_rate){.permits = 1, .period_us = 1, .burst = -1}, "a burst of -1");
    refused((pawl_rate){.permits = 1, .period_us = INT64_C(1) << 52, .burst = 129}, "a burst of 129");
    refused((pawl_rate){.permits = INT32_MAX, .period_us = PAWL_DAY}, "a burst of 2147483647");
}

static void the_widest_rates_are_taken(void **state)
{
    (void)state;
    make(1, INT64_C(1) << 52, 128);
    make(INT32_MAX, 1, 0);
    make(INT32_MAX, PAWL_SECOND, INT32_MAX);
    make(1, 1, INT32_MAX);
    rate r;
    pawl_rate p = {.permits = 1, .period_us = 1, .horizon_us = INT64_MAX};
    assert_int_equal(rate_make(&p, "t", &r, NULL), PAWL_OK);
    assert_int_equal(r.horizon_us, INT64_C(1) << 52);
    p.horizon_us = INT64_MIN;
    assert_int_equal(rate_make(&p, "t", &r, NULL), PAWL_OK);
    assert_int_equal(r.horizon_us, -1);
}

/* ---- against exact fractions ----------------------------------------------------------------------------------------------- */

static int64_t wide(rng *random, int64_t most)
{
    int bits = 0;
    while (bits < 62 && most >> bits) bits++;
    int64_t value = (int64_t)(rng_next(random) >> (64 - 1 - rng_below(random, (uint64_t)bits)));
    return 1 + value % most;
}

static rate any_rate(rng *random)
{
    static const int common[] = {1, 2, 3, 7, 15, 60, 100, 1000};
    for (;;) {
        rate r;
        pawl_rate p = {.permits = rng_below(random, 2) ? common[rng_below(random, 8)] : (int)wide(random, INT32_MAX),
                       .period_us = wide(random, INT64_C(1) << 52),
                       .burst = rng_below(random, 2) ? 0 : (int)wide(random, rng_below(random, 2) ? 20 : INT32_MAX),
                       .start_empty = rng_below(random, 2)};
        if (rate_make(&p, "t", &r, NULL) != PAWL_OK) continue;
        is_instant(&r, r.step, p.period_us);
        is_instant(&r, r.tolerance, (exact)p.period_us * (r.burst - 1));
        return r;
    }
}

static int64_t any_clock(rng *random)
{
    static const int64_t odd[] = {INT64_MIN, -1, 0, 1, INT64_MAX, INT64_C(1) << 60};
    if (rng_below(random, 4) == 0) return rate_clock(odd[rng_below(random, 6)]);
    return rate_clock((rng_below(random, 2) ? 1 : -1) * wide(random, INT64_C(1) << 61));
}

static exact exact_slot(const rate *r, exact tat, int64_t now_us, int n)
{
    exact from = max(tat, (exact)now_us * r->permits) + n * ticks(r, r->step);
    return max(now_us, ceil_us(from - ticks(r, r->tolerance), r->permits));
}

static void one_history(rng *random)
{
    rate r = any_rate(random);
    int64_t now_us = any_clock(random);
    exact expected = (exact)now_us * r.permits + (r.start_empty ? ticks(&r, r.tolerance) : 0);
    rate_instant tat = rate_fresh(&r, now_us);
    for (int i = 0; i < 50; i++) {
        is_instant(&r, tat, expected);
        now_us =
            rng_below(random, 8) ? rate_clock(now_us + (int64_t)rng_below(random, (uint64_t)r.step.us + 2)) : any_clock(random);
        int count = rng_below(random, 4) ? 1 : (int)wide(random, r.burst);
        exact slot = exact_slot(&r, expected, now_us, 0), last = exact_slot(&r, expected, now_us, count - 1);
        assert_true(rate_slot(&r, tat, now_us) == slot);
        int64_t told = rate_slot_after(&r, tat, now_us, count - 1);
        assert_true(told == last || (told == RATE_END && last + ticks(&r, r.tolerance) / r.permits + 1 + count > RATE_END));
        exact next = max(expected, (exact)now_us * r.permits) + count * ticks(&r, r.step);
        rate_instant before = tat;
        if (!rate_take(&r, &tat, now_us, count)) {
            assert_true(rate_same(tat, before));
            assert_true(next + count * (exact)r.permits > (exact)RATE_END * r.permits);
            continue;
        }
        is_instant(&r, tat, next);
        assert_true(tat.us <= RATE_END);
        expected = next;
        if (rng_below(random, 3)) continue;
        rate_give_back(&r, &tat, count);
        expected -= count * ticks(&r, r.step);
    }
}

static void histories_are_exact(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= 3000; seed++) {
        rng random;
        rng_init(&random, seed);
        one_history(&random);
    }
}

static void several_at_once_are_as_many_one_by_one(void **state)
{
    (void)state;
    rng random;
    rng_init(&random, 7);
    for (int i = 0; i < 2000; i++) {
        rate r = any_rate(&random);
        int64_t now_us = any_clock(&random);
        int count = 1 + (int)rng_below(&random, 30);
        rate_instant tat = rate_fresh(&r, now_us), at_once = tat;
        bool good = rate_take(&r, &at_once, now_us, count);
        for (int n = 0; n < count; n++) {
            if (good) assert_int_equal(rate_slot_after(&r, rate_fresh(&r, now_us), now_us, n), rate_slot(&r, tat, now_us));
            if (!rate_take(&r, &tat, now_us, 1)) break;
        }
        if (good) assert_true(rate_same(tat, at_once));
    }
}

static void what_fits_is_counted(void **state)
{
    (void)state;
    rng random;
    rng_init(&random, 8);
    for (int i = 0; i < 2000; i++) {
        rate r = any_rate(&random);
        int64_t now_us = any_clock(&random), until_us = now_us + (int64_t)rng_below(&random, (uint64_t)r.step.us * 20 + 20) - 5;
        rate_instant tat = rate_fresh(&r, now_us);
        if (!rate_take(&r, &tat, now_us, 1 + (int)rng_below(&random, (uint64_t)r.burst))) continue;
        int fits = rate_fits(&r, tat, now_us, until_us, 30), slow = 0;
        while (slow < 30 && rate_slot_after(&r, tat, now_us, slow) <= until_us) slow++;
        assert_int_equal(fits, slow);
        exact owed = ticks(&r, tat) - (exact)now_us * r.permits, step = ticks(&r, r.step);
        assert_true(rate_left(&r, tat, now_us) == max(0, r.burst - (owed + step - 1) / step)); /* what is not spent */
    }
}

/* ---- the promise ----------------------------------------------------------------------------------------------------------- */

/* No window has more than floor((tolerance + W) / T) + 1 slots: n of them need (n - 1) x T <= tolerance + W. Slots are told in
 * whole microseconds, up to one late, so where T has a fraction W may be wrong by less than one. */
static void hold_against_windows(const rate *r, const int64_t *slots, int count)
{
    exact slack = r->step.part ? r->permits - 1 : 0;
    for (int i = 0; i < count; i++)
        for (int k = i; k < count; k++) {
            exact window = (exact)(slots[k] - slots[i]) * r->permits;
            assert_true((k - i) * ticks(r, r->step) <= ticks(r, r->tolerance) + window + slack);
        }
}

static void no_window_has_more_than_it_may(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= 400; seed++) {
        rng random;
        rng_init(&random, seed);
        int permits = 1 + (int)rng_below(&random, 40), burst = (int)rng_below(&random, 30);
        rate r = make(permits, (int64_t)rng_below(&random, 2 * PAWL_SECOND) + 1, burst);
        int64_t slots[150], now_us = 0;
        rate_instant tat = rate_fresh(&r, now_us);
        int full = 0;
        for (int i = 0; i < 150; i++) {
            uint64_t pause = rng_below(&random, 20) ? (uint64_t)r.step.us : 40 * (uint64_t)r.step.us;
            now_us += (int64_t)rng_below(&random, 2 * pause + 1);
            full += rate_left(&r, tat, now_us) == r.burst;
            slots[i] = rate_slot(&r, tat, now_us);
            assert_true(i == 0 || slots[i] >= slots[i - 1]);
            assert_true(rate_take(&r, &tat, now_us, 1));
        }
        hold_against_windows(&r, slots, 150);
        assert_true(full > 0);
    }
}

/* And it is no less: who is always there gets all of it. */
static void nobody_gets_less(void **state)
{
    (void)state;
    rate r = make(7, 3 * PAWL_SECOND, 4);
    rate_instant tat = rate_fresh(&r, 0);
    int64_t window_us = 30 * PAWL_SECOND;
    int admitted = 0;
    while (rate_slot(&r, tat, 0) <= window_us) {
        assert_true(rate_take(&r, &tat, 0, 1));
        admitted++;
    }
    assert_int_equal(admitted, 4 + 70);
}

static void a_changed_rate_remembers_what_was_spent(void **state)
{
    (void)state;
    rate slow = make(1, PAWL_DAY, 1), quick = make(100, PAWL_SECOND, 100);
    rate_instant tat = rate_fresh(&slow, 0);
    assert_true(rate_take(&slow, &tat, 0, 1)); /* the next one tomorrow */
    rate_instant now_quick = rate_convert(&slow, &quick, tat, 5);
    assert_int_equal(rate_left(&quick, now_quick, 5), 99);
    assert_true(rate_take(&quick, &now_quick, 5, 40));
    rate_instant slow_again = rate_convert(&quick, &slow, now_quick, 6);
    assert_int_equal(rate_left(&slow, slow_again, 6), 0);
    assert_int_equal(rate_slot(&slow, slow_again, 6), 6 + PAWL_DAY);
    is_instant(&quick, rate_convert(&slow, &quick, rate_fresh(&slow, 7), 7), 7 * (exact)100);
}

static void hostile_instants_do_no_harm(void **state)
{
    (void)state;
    static const int64_t odd[] = {INT64_MIN, INT64_MIN + 1, -1, 0, INT64_MAX - 1, INT64_MAX};
    rate rates[] = {make(1, INT64_C(1) << 52, 128), make(INT32_MAX, 1, INT32_MAX), make(3, 10, 2)};
    for (size_t i = 0; i < 3 * 6 * 6; i++) {
        const rate *r = &rates[i % 3];
        rate_instant tat = {odd[i / 3 % 6], r->permits - 1}, before = tat;
        int64_t now_us = rate_clock(odd[i / 18]);
        assert_true(rate_slot(r, tat, now_us) >= now_us);
        if (!rate_take(r, &tat, now_us, INT32_MAX)) assert_true(rate_same(tat, before));
        assert_in_range(rate_left(r, before, now_us), 0, r->burst);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(fifteen_a_minute),
        cmocka_unit_test(a_burst_of_one_is_evenly_spaced),
        cmocka_unit_test(a_burst_between_them),
        cmocka_unit_test(one_that_starts_empty),
        cmocka_unit_test(late_is_at_most_a_second_and_at_least_a_twentieth),
        cmocka_unit_test(nothing_is_lost_to_rounding),
        cmocka_unit_test(senseless_rates_are_refused),
        cmocka_unit_test(the_widest_rates_are_taken),
        cmocka_unit_test(histories_are_exact),
        cmocka_unit_test(several_at_once_are_as_many_one_by_one),
        cmocka_unit_test(what_fits_is_counted),
        cmocka_unit_test(no_window_has_more_than_it_may),
        cmocka_unit_test(nobody_gets_less),
        cmocka_unit_test(a_changed_rate_remembers_what_was_spent),
        cmocka_unit_test(hostile_instants_do_no_harm),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
