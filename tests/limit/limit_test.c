/* Keyed rate limits: each rule that people are told, one by one. */
#include "../unit/cmocka_all.h"
#include "../unit/test_allocator.h"
#include "core/limit.h"
#include <stdio.h>
#include <string.h>

static limiter *l;

static rate made(pawl_rate p)
{
    rate r;
    assert_int_equal(rate_make(&p, "t", &r, NULL), PAWL_OK);
    return r;
}

/* A limiter with one rule, number 0. */
static void fresh_with(pawl_rate p, limit_config config)
{
    rate r = made(p);
    l = limit_new(&config);
    assert_non_null(l);
    assert_int_equal(limit_add_rule(l, &r), 0);
}

static void fresh(pawl_rate p) { fresh_with(p, (limit_config){.seed = 1}); }

static void done(void)
{
    limit_check(l);
    limit_free(l);
}

static limit_answer ask_about(limit_question q)
{
    limit_answer a;
    limit_ask(l, &q, &a);
    limit_check(l);
    return a;
}

static limit_answer ask(pawl_id id, const char *key, int64_t now_us)
{
    return ask_about((limit_question){.key = pawl_str(key), .id = id, .now_us = now_us});
}

static void goes(limit_answer a) { assert_int_equal(a.verdict, LIMIT_GO); }

static void waits(limit_answer a, int64_t slot_us)
{
    assert_int_equal(a.verdict, LIMIT_WAIT);
    assert_int_equal(a.slot_us, slot_us);
}

static limit_numbers numbers(void)
{
    limit_numbers n;
    limit_numbers_get(l, &n);
    return n;
}

#define SECOND PAWL_SECOND
#define EVERY_SECOND ((pawl_rate){.permits = 1, .period_us = SECOND})
#define FIFTEEN ((pawl_rate){.permits = 15, .period_us = PAWL_MINUTE})

/* ---- slots ----------------------------------------------------------------------------------------------------------------- */

static void a_burst_then_the_steady_pace(void **state)
{
    (void)state;
    fresh(FIFTEEN);
    for (int i = 1; i <= 15; i++) goes(ask(i, "tenant", 5));
    for (int i = 1; i <= 20; i++) waits(ask(100 + i, "tenant", 5), 5 + i * 4 * SECOND);
    for (int i = 1; i <= 20; i++) {
        waits(ask(100 + i, "tenant", 5 + i * 4 * SECOND - 1), 5 + i * 4 * SECOND);
        goes(ask(100 + i, "tenant", 5 + i * 4 * SECOND));
    }
    assert_int_equal(numbers().went, 35);
    assert_int_equal(numbers().waited, 20);
    assert_int_equal(numbers().reservations, 0);
    done();
}

static void a_second_delivery_redeems_the_same_slot(void **state)
{
    (void)state;
    fresh(EVERY_SECOND);
    goes(ask(1, "k", 0));
    for (int i = 0; i < 5; i++) waits(ask(2, "k", 100), SECOND);
    waits(ask(3, "k", 100), 2 * SECOND); /* nothing was taken by asking */
    goes(ask(2, "k", SECOND));
    waits(ask(2, "k", SECOND), 3 * SECOND); /* it started: a further attempt takes a slot of its own */
    done();
}

static void keys_and_rules_do_not_meet(void **state)
{
    (void)state;
    fresh(EVERY_SECOND);
    rate r = made(EVERY_SECOND);
    assert_int_equal(limit_add_rule(l, &r), 1);
    goes(ask(1, "k", 0));
    goes(ask(2, "K", 0));
    goes(ask(3, "k2", 0));
    goes(ask_about((limit_question){.rule = 1, .key = pawl_str("k"), .id = 4}));
    goes(ask_about((limit_question){.key = {"k\0", 2}, .id = 5}));
    goes(ask_about((limit_question){.key = {"k\0\xff", 3}, .id = 6}));
    waits(ask(7, "k", 0), SECOND);
    assert_int_equal(numbers().keys, 6);
    done();
}

static void no_key_is_not_counted(void **state)
{
    (void)state;
    fresh(EVERY_SECOND);
    for (int i = 0; i < 100; i++) goes(ask(i, NULL, 0));
    for (int i = 0; i < 100; i++) goes(ask(i, "", 0));
    assert_int_equal(numbers().keys, 0);
    done();
}

static void long_keys_are_hashed(void **state)
{
    (void)state;
    char text[400], room[LIMIT_KEY_ROOM];
    memset(text, 'x', sizeof text);
    assert_ptr_equal(limit_key((pawl_bytes){text, 256}, room).data, text);
    pawl_bytes hashed = limit_key((pawl_bytes){text, 257}, room);
    assert_int_equal(hashed.len, LIMIT_KEY_ROOM);
    assert_memory_equal(hashed.data, "sha256:", 7);
    fresh(EVERY_SECOND);
    for (size_t len = 30; len <= 400; len++) goes(ask_about((limit_question){.key = {text, len}, .id = 1}));
    for (size_t len = 30; len <= 400; len++)
        assert_int_equal(ask_about((limit_question){.key = {text, len}, .id = (pawl_id)len}).verdict, LIMIT_WAIT);
    assert_int_equal(numbers().keys, 371);
    assert_int_equal(ask_about((limit_question){.key = hashed, .id = 1}).verdict, LIMIT_WAIT); /* spelled so, it is that key */
    assert_int_equal(numbers().keys, 371);
    done();
}

static void a_key_that_starts_empty(void **state)
{
    (void)state;
    pawl_rate p = FIFTEEN;
    p.start_empty = true;
    fresh(p);
    goes(ask(1, "k", 0));
    waits(ask(2, "k", 0), 4 * SECOND);
    waits(ask(3, "k", 0), 8 * SECOND);
    done();
}

/* ---- what ends a reservation ----------------------------------------------------------------------------------------------- */

static void the_newest_is_given_back(void **state)
{
    (void)state;
    fresh(EVERY_SECOND);
    goes(ask(1, "k", 0));
    waits(ask(2, "k", 0), SECOND);
    waits(ask(3, "k", 0), 2 * SECOND);
    assert_true(limit_release(l, 3));
    assert_false(limit_release(l, 3));
    waits(ask(4, "k", 0), 2 * SECOND);
    done();
}

static void those_before_it_are_given_back_with_it(void **state)
{
    (void)state;
    fresh(EVERY_SECOND);
    goes(ask(1, "k", 0));
    for (int i = 2; i <= 6; i++) waits(ask(i, "k", 0), (i - 1) * SECOND);
    for (int i = 3; i <= 5; i++) assert_true(limit_release(l, i)); /* in the middle: slots of others stay what they are */
    waits(ask(7, "k", 0), 6 * SECOND);
    assert_int_equal(numbers().given_back, 0);
    assert_true(limit_release(l, 7));
    assert_int_equal(numbers().given_back, 1);
    assert_true(limit_release(l, 6)); /* and now 3 to 5 */
    assert_int_equal(numbers().given_back, 5);
    waits(ask(8, "k", 0), 2 * SECOND);
    waits(ask(2, "k", 0), SECOND);
    done();
}

static void what_was_taken_since_is_in_the_way(void **state)
{
    (void)state;
    fresh((pawl_rate){.permits = 2, .period_us = 2 * SECOND});
    limit_question held = {.key = pawl_str("k"), .id = 1, .hold = true};
    goes(ask_about(held));
    goes(ask(2, "k", 0));
    assert_true(limit_release(l, 1)); /* a start came after it */
    assert_int_equal(numbers().given_back, 0);
    waits(ask(3, "k", 0), SECOND);
    assert_true(limit_release(l, 3)); /* the last of all; what lies before it was started */
    assert_int_equal(numbers().given_back, 1);
    waits(ask(4, "k", 0), SECOND);
    done();
}

static void a_late_slot_is_given_up(void **state)
{
    (void)state;
    fresh((pawl_rate){.permits = 1, .period_us = 10 * SECOND}); /* L is a second */
    goes(ask(1, "k", 0));
    waits(ask(2, "k", 0), 10 * SECOND);
    waits(ask(3, "k", 0), 20 * SECOND);
    limit_answer a = ask(2, "k", 11 * SECOND);
    waits(a, 30 * SECOND);
    assert_true(a.late);
    assert_int_equal(a.until_us, 31 * SECOND);
    goes(ask(3, "k", 21 * SECOND - 1)); /* the last moment */
    a = ask(2, "k", 40 * SECOND);       /* late again; nothing was taken after it: it goes now */
    goes(a);
    assert_true(a.late);
    assert_int_equal(numbers().late, 2);
    waits(ask(4, "k", 40 * SECOND), 50 * SECOND);
    done();
}

/* A hundred tasks wait, one every 4 s; then nothing runs for an hour. */
static void a_pause_ends_in_no_burst(void **state)
{
    (void)state;
    pawl_rate p = FIFTEEN;
    bool started[100] = {0};
    p.burst = 3;
    fresh(p);
    for (int i = 0; i < 100; i++) ask(i, "k", 0);
    for (int i = 0; i < 3; i++) assert_false(limit_release(l, i)); /* these were started */
    int left = 97;
    for (int64_t after = 0; left > 0; after++) { /* all that wait ask at each instant at which one might go */
        int went = 0;
        for (int i = 3; i < 100; i++) {
            if (started[i]) continue;
            started[i] = ask(i, "k", PAWL_HOUR + after * 4 * SECOND).verdict == LIMIT_GO;
            went += started[i];
        }
        assert_int_equal(went, after == 0 ? 3 : 1);
        left -= went;
    }
    done();
}

static void the_horizon_is_asked_once(void **state)
{
    (void)state;
    pawl_rate p = {.permits = 1, .period_us = 10 * SECOND, .horizon_us = 15 * SECOND};
    fresh(p);
    goes(ask(1, "k", 0));
    waits(ask(2, "k", 0), 10 * SECOND);
    limit_answer a = ask(3, "k", 0);
    assert_int_equal(a.verdict, LIMIT_REJECTED);
    assert_int_equal(a.slot_us, 20 * SECOND);
    assert_int_equal(ask(3, "k", 0).slot_us, 20 * SECOND); /* nothing was taken */
    waits(ask(4, "k", 5 * SECOND), 20 * SECOND);           /* just within */
    waits(ask(2, "k", 12 * SECOND), 30 * SECOND);          /* late: 18 s away, and not refused */
    a = ask_about((limit_question){.key = pawl_str("k"), .id = 5, .now_us = 12 * SECOND, .again = true});
    waits(a, 40 * SECOND);
    assert_int_equal(ask(6, "k", 12 * SECOND).verdict, LIMIT_REJECTED);
    assert_int_equal(numbers().rejected, 3);
    done();
}

static void without_a_horizon_all_wait(void **state)
{
    (void)state;
    pawl_rate p = {.permits = 1, .period_us = PAWL_DAY, .horizon_us = -1};
    fresh(p);
    goes(ask(0, "k", 0));
    for (int i = 1; i <= 1000; i++) waits(ask(i, "k", 0), i * PAWL_DAY);
    done();
    p.horizon_us = 0; /* an hour */
    fresh(p);
    goes(ask(0, "k", 0));
    assert_int_equal(ask(1, "k", 0).verdict, LIMIT_REJECTED);
    assert_int_equal(ask(1, "k", PAWL_DAY - PAWL_HOUR - 1).verdict, LIMIT_REJECTED);
    waits(ask(1, "k", PAWL_DAY - PAWL_HOUR), PAWL_DAY);
    done();
}

static void discard_never_waits(void **state)
{
    (void)state;
    pawl_rate p = EVERY_SECOND;
    p.discard = true;
    fresh(p);
    goes(ask(1, "k", 0));
    limit_answer a = ask(2, "k", 0);
    assert_int_equal(a.verdict, LIMIT_DISCARDED);
    assert_int_equal(a.slot_us, SECOND);
    assert_int_equal(ask_about((limit_question){.key = pawl_str("k"), .id = 2, .retry = true}).verdict, LIMIT_DISCARDED);
    goes(ask(2, "k", SECOND));
    assert_int_equal(numbers().discarded, 2);
    assert_int_equal(numbers().reservations, 0);
    done();
}

static void retries_take_budget_or_not(void **state)
{
    (void)state;
    pawl_rate p = EVERY_SECOND;
    limit_question retry = {.key = pawl_str("k"), .id = 1, .retry = true};
    fresh(p);
    goes(ask(1, "k", 0));
    waits(ask_about(retry), SECOND);
    done();
    p.retries_free = true;
    fresh(p);
    goes(ask(1, "k", 0));
    for (int i = 0; i < 10; i++) goes(ask_about(retry));
    waits(ask(2, "k", 0), SECOND);
    done();
}

static void a_task_with_another_key_leaves_its_slot(void **state)
{
    (void)state;
    fresh(EVERY_SECOND);
    goes(ask(1, "a", 0));
    goes(ask(2, "b", 0));
    waits(ask(3, "a", 0), SECOND);
    limit_answer a = ask(3, "b", 0);
    waits(a, SECOND);
    assert_false(a.late);
    waits(ask(4, "a", 0), SECOND);
    assert_int_equal(numbers().given_back, 1);
    done();
}

static void held_until_it_can_start(void **state)
{
    (void)state;
    fresh(EVERY_SECOND);
    limit_question q = {.key = pawl_str("k"), .id = 1, .hold = true};
    limit_answer a = ask_about(q);
    goes(a);
    assert_int_equal(a.until_us, SECOND);
    goes(ask_about(q)); /* as often as one likes */
    assert_int_equal(numbers().went, 0);
    goes(ask(1, "k", SECOND - 1));
    assert_int_equal(numbers().went, 1);
    waits(ask(1, "k", SECOND - 1), SECOND);
    q = (limit_question){.key = pawl_str("k"), .id = 2, .now_us = SECOND - 1, .hold = true};
    waits(ask_about(q), 2 * SECOND);
    q.now_us = 2 * SECOND;
    goes(ask_about(q));
    a = ask(2, "k", 3 * SECOND); /* too long: what was held is late */
    goes(a);
    assert_true(a.late);
    done();
}

/* ---- bounds ---------------------------------------------------------------------------------------------------------------- */

static void keys_beyond_the_bound_are_open(void **state)
{
    (void)state;
    fresh_with(EVERY_SECOND, (limit_config){.keys_max = 3});
    goes(ask(1, "a", 0));
    goes(ask(2, "b", 0));
    goes(ask(3, "c", 0));
    for (int i = 0; i < 5; i++) assert_int_equal(ask(4, "d", 0).verdict, LIMIT_OPEN);
    assert_int_equal(numbers().opened, 5);
    waits(ask(5, "a", 0), SECOND); /* those that are tracked stay limited */
    goes(ask(6, "d", SECOND));     /* b and c are idle by now */
    assert_int_equal(numbers().evicted, 1);
    waits(ask(7, "d", SECOND), 2 * SECOND);
    goes(ask(8, "e", SECOND));
    assert_int_equal(ask(9, "f", SECOND).verdict, LIMIT_OPEN);
    goes(ask(5, "a", SECOND));
    done();
}

static void a_key_with_a_reservation_is_not_idle(void **state)
{
    (void)state;
    fresh_with(EVERY_SECOND, (limit_config){.keys_max = 1});
    goes(ask_about((limit_question){.key = pawl_str("a"), .id = 1, .now_us = 0, .hold = true}));
    assert_int_equal(ask(2, "b", SECOND - 1).verdict, LIMIT_OPEN);
    goes(ask(2, "b", SECOND)); /* it is late */
    assert_int_equal(numbers().reservations, 0);
    assert_false(limit_release(l, 1));
    done();
}

static void what_is_given_back_makes_keys_idle(void **state)
{
    (void)state;
    fresh_with((pawl_rate){.permits = 1, .period_us = PAWL_MINUTE}, (limit_config){.keys_max = 1});
    goes(ask_about((limit_question){.key = pawl_str("a"), .id = 1, .now_us = 0, .hold = true}));
    for (int i = 0; i < 3; i++) assert_int_equal(ask(2, "b", 0).verdict, LIMIT_OPEN); /* nothing before a minute has passed */
    assert_true(limit_release(l, 1));
    goes(ask(2, "b", 0));
    done();
}

/* Many more keys than one search looks at. */
static void idle_keys_are_found_among_many(void **state)
{
    (void)state;
    enum { KEYS = 1000 };
    char key[32];
    fresh_with((pawl_rate){.permits = 1, .period_us = PAWL_HOUR}, (limit_config){.keys_max = KEYS, .seed = 9});
    for (int i = 0; i < KEYS; i++) {
        snprintf(key, sizeof key, "key-%d", i);
        goes(ask_about((limit_question){.key = pawl_str(key), .id = i, .now_us = i > 0}));
    }
    int64_t now_us = PAWL_HOUR; /* only the first */
    int tries = 1;
    while (ask(KEYS, "new", now_us).verdict == LIMIT_OPEN) tries++;
    assert_in_range(tries, 1, 200);
    assert_int_equal(numbers().evicted, 1);
    assert_int_equal(numbers().keys, KEYS);
    for (int i = 0; i < 200; i++) ask(KEYS + 1, "another", now_us); /* round and round; then it knows better */
    assert_int_equal(numbers().evicted, 1);
    now_us = 3 * PAWL_HOUR;
    for (int i = 0; i < KEYS; i++) {
        snprintf(key, sizeof key, "more-%d", i);
        goes(ask_about((limit_question){.key = pawl_str(key), .id = i, .now_us = now_us}));
    }
    assert_int_equal(numbers().keys, KEYS);
    done();
}

static void reservations_are_bounded(void **state)
{
    (void)state;
    fresh_with(EVERY_SECOND, (limit_config){.reservations_max = 2});
    goes(ask(1, "k", 0));
    waits(ask(2, "k", 0), SECOND);
    waits(ask(3, "k", 0), 2 * SECOND);
    limit_answer a = ask(4, "k", 0);
    assert_int_equal(a.verdict, LIMIT_FULL);
    assert_int_equal(a.slot_us, 3 * SECOND);
    assert_int_equal(ask_about((limit_question){.key = pawl_str("other"), .id = 5, .hold = true}).verdict, LIMIT_FULL);
    goes(ask(5, "other", 0)); /* nothing was taken, and a start needs no reservation */
    assert_int_equal(ask(4, "k", 2 * SECOND - 1).verdict, LIMIT_FULL);
    assert_int_equal(numbers().full, 3);
    waits(ask(4, "k", 2 * SECOND), 3 * SECOND); /* the place of 2, which is late */
    assert_int_equal(numbers().reservations, 2);
    waits(ask(2, "k", 3 * SECOND), 4 * SECOND); /* and that of 3 */
    goes(ask(4, "k", 3 * SECOND));
    done();
}

/* What is asked in a row, some keys and many reservations. Answers how many were told that there is no room, or that nobody counts. */
static int ask_many(test_allocator *memory)
{
    int without = 0;
    for (int i = 0; i < 3 * 200; i++) {
        char key[2] = {(char)('a' + i % 3), '\0'};
        limit_question q = {.key = pawl_str(key), .id = i + 1, .hold = true};
        limit_answer a = ask_about(q);
        if (a.verdict != LIMIT_FULL && a.verdict != LIMIT_OPEN) continue;
        without++;
        assert_true(memory->calls >= memory->fail_at && memory->fail_at);
        a = ask_about(q);
        assert_int_equal(a.verdict, i < 3 ? LIMIT_GO : LIMIT_WAIT);
    }
    assert_int_equal(numbers().reservations, 3 * 200);
    return without;
}

/* Whichever allocation fails, the one who asked is told, takes nothing, and may ask again. */
static void without_memory_nothing_is_taken(void **state)
{
    (void)state;
    test_allocator memory;
    for (long n = 1;; n++) {
        test_allocator_init(&memory);
        fresh_with(EVERY_SECOND, (limit_config){.allocator = &memory.allocator, .seed = 1});
        memory.fail_at = memory.calls + n;
        int without = ask_many(&memory);
        bool failed = memory.calls >= memory.fail_at;
        assert_true(failed || without == 0);
        done();
        assert_int_equal(memory.outstanding, 0);
        if (!failed) break;
        assert_true(n < 100);
    }
}

static void the_slot_of_a_task(void **state)
{
    (void)state;
    int64_t slot_us = 7;
    fresh(EVERY_SECOND);
    goes(ask(1, "k", 0));
    waits(ask(2, "k", 0), SECOND);
    assert_true(limit_slot(l, 2, &slot_us));
    assert_int_equal(slot_us, SECOND);
    assert_false(limit_slot(l, 1, &slot_us)); /* it has started */
    assert_int_equal(slot_us, SECOND);
    done();
}

/* What limit_near told goes into the question, and changes nothing in the answer. */
static void a_key_that_was_sent_for(void **state)
{
    (void)state;
    static char longer[LIMIT_KEY_MAX + 2];
    fresh(EVERY_SECOND);
    memset(longer, 'x', sizeof longer - 1);
    assert_int_equal(limit_near(l, 0, pawl_str("")), 0);
    assert_int_equal(limit_near(l, 0, pawl_str(longer)), 0);
    longer[LIMIT_KEY_MAX] = '\0';
    uint64_t hash = limit_near(l, 0, pawl_str(longer));
    assert_true(hash);
    goes(ask_about((limit_question){.key = pawl_str(longer), .id = 1, .hash = hash}));
    waits(ask(2, longer, 0), SECOND);
    done();
}

/* ---- clocks ---------------------------------------------------------------------------------------------------------------- */

static void a_clock_set_back_holds_nobody_up(void **state)
{
    (void)state;
    fresh(EVERY_SECOND);
    int64_t noon_us = 12 * PAWL_HOUR, eleven_us = 11 * PAWL_HOUR;
    goes(ask(1, "k", noon_us));
    waits(ask(2, "k", noon_us + 500000), noon_us + SECOND);
    waits(ask(2, "k", eleven_us), eleven_us + 500000); /* half a second is left, and told by the new clock */
    waits(ask(3, "k", eleven_us), eleven_us + 1500000);
    goes(ask(2, "k", eleven_us + 500000));
    goes(ask(4, "new", eleven_us));
    waits(ask(5, "new", eleven_us), eleven_us + SECOND);
    for (int i = 0; i < 50; i++) ask(6, "k", eleven_us - i * PAWL_HOUR); /* back and back: no budget comes of it */
    limit_info info;
    int64_t now_us = eleven_us - 49 * PAWL_HOUR;
    assert_true(limit_look(l, 0, pawl_str("k"), now_us, &info));
    assert_int_equal(info.left, 0);
    assert_int_equal(info.reserved, 2);
    assert_int_equal(info.next_us, now_us + 3 * SECOND);
    done();
}

static void a_clock_set_ahead_gives_one_burst(void **state)
{
    (void)state;
    pawl_rate p = FIFTEEN;
    fresh(p);
    for (int i = 0; i < 15; i++) goes(ask(i, "k", 0));
    for (int i = 15; i < 60; i++) assert_int_equal(ask(i, "k", 0).verdict, LIMIT_WAIT);
    int went = 0;
    for (int i = 15; i < 60; i++) went += ask(i, "k", PAWL_DAY).verdict == LIMIT_GO;
    for (int i = 60; i < 100; i++) went += ask(i, "k", PAWL_DAY).verdict == LIMIT_GO;
    assert_int_equal(went, 15);
    done();
}

static void clocks_at_the_ends_of_time(void **state)
{
    (void)state;
    static const int64_t odd[] = {INT64_MIN, INT64_MAX, 0, INT64_MIN + 1, -1, INT64_MAX, INT64_MIN, 1};
    for (int rule = 0; rule < 3; rule++) {
        fresh(rule == 0   ? EVERY_SECOND
              : rule == 1 ? (pawl_rate){.permits = 1, .period_us = INT64_C(1) << 52, .burst = 128, .horizon_us = -1}
                          : (pawl_rate){.permits = INT32_MAX, .period_us = 1, .start_empty = true, .horizon_us = INT64_MAX});
        for (int i = 0; i < 400; i++) {
            ask(i % 7, i % 3 ? "k" : "l", odd[i % 8]);
            if (i % 50 == 0) limit_release(l, i % 7);
            limit_info info;
            limit_look(l, 0, pawl_str("k"), odd[(i + 3) % 8], &info);
        }
        done();
    }
}

static void beyond_the_end_of_time_nothing_is_reserved(void **state)
{
    (void)state;
    fresh((pawl_rate){.permits = 1, .period_us = INT64_C(1) << 52, .burst = 1, .horizon_us = -1});
    int waiting = 0;
    limit_answer a;
    while ((a = ask(waiting, "k", 0)).verdict != LIMIT_REJECTED && waiting < 1000) waiting++;
    assert_int_equal(a.verdict, LIMIT_REJECTED);
    assert_in_range(waiting, 500, 512);
    assert_int_equal(ask(2000, "k", 0).verdict, LIMIT_REJECTED);
    done();
}

/* ---- rules that change ----------------------------------------------------------------------------------------------------- */

static void a_changed_rule_counts_what_was_started(void **state)
{
    (void)state;
    fresh((pawl_rate){.permits = 1, .period_us = PAWL_DAY, .horizon_us = -1});
    rate other = made(EVERY_SECOND);
    assert_int_equal(limit_add_rule(l, &other), 1);
    goes(ask(1, "k", 0));
    goes(ask_about((limit_question){.rule = 1, .key = pawl_str("k"), .id = 9}));
    for (int i = 2; i < 10; i++) waits(ask(i, "k", 0), (i - 1) * PAWL_DAY);
    assert_true(limit_release(l, 4));
    rate quick = made((pawl_rate){.permits = 5, .period_us = 5 * SECOND});
    limit_set_rule(l, 0, &quick, 0);
    limit_check(l);
    assert_int_equal(numbers().reservations, 0);
    for (int i = 2; i <= 5; i++) goes(ask(i, "k", 0)); /* five a burst, and one was started */
    waits(ask(6, "k", 0), SECOND);
    waits(ask_about((limit_question){.rule = 1, .key = pawl_str("k"), .id = 10}), SECOND); /* others as they were */
    done();
}

/* ---- looking --------------------------------------------------------------------------------------------------------------- */

static void add_up(void *ctx, const limit_info *info)
{
    int *sums = ctx;
    sums[0]++;
    sums[1] += info->reserved;
    sums[2] += info->left;
    sums[3] += (int)info->key.len;
}

static void what_is_known_of_a_key(void **state)
{
    (void)state;
    limit_info info;
    int sums[4] = {0};
    fresh((pawl_rate){.permits = 2, .period_us = 2 * SECOND});
    assert_false(limit_look(l, 0, pawl_str("k"), 0, &info));
    goes(ask(1, "k", 10));
    assert_true(limit_look(l, 0, pawl_str("k"), 10, &info));
    assert_int_equal(info.left, 1);
    assert_int_equal(info.next_us, 10);
    assert_int_equal(info.first_us, 0);
    goes(ask(2, "k", 10));
    waits(ask(3, "k", 10), 10 + SECOND);
    waits(ask(4, "k", 10), 10 + 2 * SECOND);
    waits(ask(5, "k", 10), 10 + 3 * SECOND);
    limit_release(l, 3);
    assert_true(limit_look(l, 0, pawl_str("k"), 10, &info));
    assert_int_equal(info.reserved, 2);
    assert_int_equal(info.first_us, 10 + 2 * SECOND);
    assert_int_equal(info.next_us, 10 + 4 * SECOND);
    assert_int_equal(info.left, 0);
    goes(ask(6, "a name that is too long to have its place inside", 10));
    limit_visit(l, 10, add_up, sums);
    assert_int_equal(sums[0], 2);
    assert_int_equal(sums[1], 2);
    assert_int_equal(sums[2], 1);
    assert_int_equal(sums[3], 49);
    assert_false(limit_look(l, 1, pawl_str("k"), 10, &info));
    done();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_burst_then_the_steady_pace),
        cmocka_unit_test(a_second_delivery_redeems_the_same_slot),
        cmocka_unit_test(keys_and_rules_do_not_meet),
        cmocka_unit_test(no_key_is_not_counted),
        cmocka_unit_test(long_keys_are_hashed),
        cmocka_unit_test(a_key_that_starts_empty),
        cmocka_unit_test(the_newest_is_given_back),
        cmocka_unit_test(those_before_it_are_given_back_with_it),
        cmocka_unit_test(what_was_taken_since_is_in_the_way),
        cmocka_unit_test(a_late_slot_is_given_up),
        cmocka_unit_test(a_pause_ends_in_no_burst),
        cmocka_unit_test(the_horizon_is_asked_once),
        cmocka_unit_test(without_a_horizon_all_wait),
        cmocka_unit_test(discard_never_waits),
        cmocka_unit_test(retries_take_budget_or_not),
        cmocka_unit_test(a_task_with_another_key_leaves_its_slot),
        cmocka_unit_test(held_until_it_can_start),
        cmocka_unit_test(keys_beyond_the_bound_are_open),
        cmocka_unit_test(a_key_with_a_reservation_is_not_idle),
        cmocka_unit_test(what_is_given_back_makes_keys_idle),
        cmocka_unit_test(idle_keys_are_found_among_many),
        cmocka_unit_test(reservations_are_bounded),
        cmocka_unit_test(without_memory_nothing_is_taken),
        cmocka_unit_test(the_slot_of_a_task),
        cmocka_unit_test(a_key_that_was_sent_for),
        cmocka_unit_test(a_clock_set_back_holds_nobody_up),
        cmocka_unit_test(a_clock_set_ahead_gives_one_burst),
        cmocka_unit_test(clocks_at_the_ends_of_time),
        cmocka_unit_test(beyond_the_end_of_time_nothing_is_reserved),
        cmocka_unit_test(a_changed_rule_counts_what_was_started),
        cmocka_unit_test(what_is_known_of_a_key),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
