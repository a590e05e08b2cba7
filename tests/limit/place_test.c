/* Numbered places: each one of a task's or nobody's. */
#include "../unit/cmocka_all.h"
#include "../unit/test_allocator.h"
#include "base/rand.h"
#include "core/place.h"
#include <string.h>

static test_allocator memory;

static places *fresh(int holders)
{
    test_allocator_init(&memory);
    places *p = places_new(&memory.allocator, 1, holders);
    assert_non_null(p);
    return p;
}

static void done(places *p)
{
    places_check(p);
    places_free(p);
    assert_int_equal(memory.outstanding, 0);
}

/* A place of one limit: its number, 0 if blocked, -1 if there is no room. */
static int take(places *p, pawl_id id, int limit, const char *key, int most)
{
    int blocked = -1;
    place_want want = {.limit = limit, .key = pawl_str(key), .most = most};
    place_answer answer = place_take(p, id, &want, 1, &blocked);
    places_check(p);
    if (answer == PLACE_BLOCKED) assert_int_equal(blocked, 0);
    return answer == PLACE_TAKEN ? want.place : answer == PLACE_BLOCKED ? 0 : -1;
}

static void the_lowest_number_is_taken(void **state)
{
    (void)state;
    places *p = fresh(0);
    for (int i = 1; i <= 200; i++) assert_int_equal(take(p, i, 1, "a", 200), i);
    assert_int_equal(take(p, 999, 1, "a", 200), 0);
    assert_int_equal(place_free(p, 150, NULL, NULL), 1);
    assert_int_equal(place_free(p, 7, NULL, NULL), 1);
    assert_int_equal(take(p, 999, 1, "a", 200), 7);
    assert_int_equal(take(p, 998, 1, "a", 200), 150);
    assert_int_equal(take(p, 997, 1, "a", 200), 0);
    assert_int_equal(place_count(p, 1, pawl_str("a")), 200);
    done(p);
}

static void limits_and_keys_do_not_meet(void **state)
{
    (void)state;
    places *p = fresh(0);
    assert_int_equal(take(p, 1, 1, "a", 1), 1);
    assert_int_equal(take(p, 2, 1, "a", 1), 0);
    assert_int_equal(take(p, 2, 1, "b", 1), 1);
    assert_int_equal(take(p, 3, 2, "a", 1), 1);
    assert_int_equal(take(p, 4, 1, NULL, 1), 1); /* of a type or a queue: no key */
    assert_int_equal(take(p, 5, 1, NULL, 1), 0);
    place_want bytes = {.limit = 1, .key = {"a\0x", 3}, .most = 1};
    int blocked;
    assert_int_equal(place_take(p, 6, &bytes, 1, &blocked), PLACE_TAKEN);
    done(p);
}

static void asking_again_answers_the_same(void **state)
{
    (void)state;
    places *p = fresh(0);
    assert_int_equal(take(p, 1, 1, "a", 2), 1);
    assert_int_equal(take(p, 2, 1, "a", 2), 2);
    assert_int_equal(take(p, 2, 1, "a", 2), 2);
    assert_int_equal(take(p, 1, 1, "a", 1), 1); /* even if the limit is lower by now */
    assert_int_equal(place_count(p, 1, pawl_str("a")), 2);
    assert_int_equal(place_free(p, 2, NULL, NULL), 1);
    assert_int_equal(place_free(p, 2, NULL, NULL), 0);
    done(p);
}

static void all_of_several_or_none(void **state)
{
    (void)state;
    places *p = fresh(0);
    int blocked = -1;
    place_want wants[] = {
        {.limit = 1, .key = pawl_str("type"), .most = 5}, {.limit = 2, .most = 5}, {.limit = 3, .key = pawl_str("k"), .most = 1}};
    assert_int_equal(place_take(p, 1, wants, 3, &blocked), PLACE_TAKEN);
    assert_int_equal(wants[0].place + wants[1].place + wants[2].place, 3);
    assert_int_equal(place_take(p, 2, wants, 3, &blocked), PLACE_BLOCKED);
    assert_int_equal(blocked, 2);
    places_check(p);
    assert_int_equal(place_count(p, 1, pawl_str("type")), 1);
    assert_int_equal(place_count(p, 2, pawl_str(NULL)), 1);
    assert_int_equal(place_take(p, 2, wants, 2, &blocked), PLACE_TAKEN); /* what it has is kept when more is refused */
    assert_int_equal(place_take(p, 2, wants, 3, &blocked), PLACE_BLOCKED);
    assert_int_equal(place_count(p, 1, pawl_str("type")), 2);
    assert_int_equal(place_free(p, 1, NULL, NULL), 3);
    assert_int_equal(place_take(p, 2, wants, 3, &blocked), PLACE_TAKEN);
    assert_int_equal(wants[0].place, 2);
    assert_int_equal(wants[2].place, 1);
    done(p);
}

static void a_lowered_limit_takes_nothing_away(void **state)
{
    (void)state;
    places *p = fresh(0);
    for (int i = 1; i <= 4; i++) take(p, i, 1, "a", 4);
    assert_int_equal(place_free(p, 1, NULL, NULL), 1);
    assert_int_equal(take(p, 5, 1, "a", 2), 0); /* place 1 is free, but three run */
    place_free(p, 2, NULL, NULL);
    assert_int_equal(take(p, 5, 1, "a", 2), 0);
    place_free(p, 3, NULL, NULL);
    assert_int_equal(take(p, 5, 1, "a", 2), 1);
    assert_int_equal(take(p, 6, 1, "a", 0), 0);
    assert_int_equal(take(p, 6, 1, "b", 0), 0);
    assert_int_equal(take(p, 6, 1, "b", -3), 0);
    done(p);
}

static void note(void *ctx, int limit, pawl_bytes key, int place)
{
    int *seen = ctx;
    seen[limit] = place * 100 + (int)key.len;
}

static void freeing_tells_where_there_is_room(void **state)
{
    (void)state;
    places *p = fresh(0);
    int seen[3] = {0}, blocked;
    assert_int_equal(take(p, 1, 1, "abc", 9), 1);
    place_want wants[] = {{.limit = 1, .key = pawl_str("abc"), .most = 9}, {.limit = 2, .key = pawl_str("x"), .most = 9}};
    assert_int_equal(place_take(p, 2, wants, 2, &blocked), PLACE_TAKEN);
    assert_int_equal(place_free(p, 2, note, seen), 2);
    assert_int_equal(seen[1], 203);
    assert_int_equal(seen[2], 101);
    done(p);
}

static void the_holder_is_known(void **state)
{
    (void)state;
    places *p = fresh(0);
    assert_int_equal(place_holder(p, 1, pawl_str("a")), 0);
    take(p, 11, 1, "a", 3);
    take(p, 12, 1, "a", 3);
    assert_int_equal(place_holder(p, 1, pawl_str("a")), 11);
    place_free(p, 11, NULL, NULL);
    assert_int_equal(place_holder(p, 1, pawl_str("a")), 12);
    done(p);
}

static void holders_are_bounded(void **state)
{
    (void)state;
    places *p = fresh(3);
    int blocked;
    for (int i = 1; i <= 3; i++) assert_int_equal(take(p, i, i, "a", 9), 1);
    assert_int_equal(take(p, 4, 4, "a", 9), -1);
    assert_int_equal(place_count(p, 4, pawl_str("a")), 0);
    place_free(p, 1, NULL, NULL);
    place_want wants[] = {{.limit = 8, .most = 9}, {.limit = 9, .most = 9}};
    assert_int_equal(place_take(p, 4, wants, 2, &blocked), PLACE_NO_ROOM);
    assert_int_equal(take(p, 4, 4, "a", 9), 1);
    done(p);
}

static void a_limit_beyond_all_places(void **state)
{
    (void)state;
    places *p = fresh(PLACE_MOST + 5);
    place_want want = {.limit = 1, .most = INT32_MAX};
    int blocked;
    for (int i = 1; i <= PLACE_MOST; i++) assert_int_equal(place_take(p, i, &want, 1, &blocked), PLACE_TAKEN);
    assert_int_equal(want.place, PLACE_MOST);
    assert_int_equal(place_take(p, PLACE_MOST + 1, &want, 1, &blocked), PLACE_BLOCKED);
    done(p);
}

static void memory_may_fail_anywhere(void **state)
{
    (void)state;
    for (long at = 1;; at++) {
        test_allocator_init(&memory);
        memory.fail_at = at;
        places *p = places_new(&memory.allocator, 1, 0);
        bool failed = !p;
        for (int i = 1; p && i <= 70; i++) {
            int blocked;
            place_want wants[] = {{.limit = 1, .most = 100}, {.limit = 2, .key = pawl_str("k"), .most = 100}};
            place_answer answer = place_take(p, i, wants, 2, &blocked);
            places_check(p);
            failed = failed || answer == PLACE_NO_ROOM;
            if (answer == PLACE_NO_ROOM) assert_int_equal(place_free(p, i, NULL, NULL), 0);
        }
        bool reached = memory.calls >= at;
        places_free(p);
        assert_int_equal(memory.outstanding, 0);
        if (!reached) return;
        if (at == 1) assert_true(failed);
    }
}

/* Random takes and frees, held against a table (limit, key) x place. */
static void a_table_agrees(void **state)
{
    (void)state;
    enum { LIMITS = 3, TASKS = 12, PLACES = 5 };
    for (uint64_t seed = 1; seed <= 200; seed++) {
        rng random;
        rng_init(&random, seed);
        places *p = fresh(0);
        pawl_id table[LIMITS][PLACES] = {{0}};
        for (int step = 0; step < 200; step++) {
            pawl_id id = 1 + (pawl_id)rng_below(&random, TASKS);
            int limit = (int)rng_below(&random, LIMITS), most = 1 + (int)rng_below(&random, PLACES), expected = 0, used = 0;
            if (rng_below(&random, 3) == 0) {
                int freed = 0;
                for (int i = 0; i < LIMITS * PLACES; i++) {
                    pawl_id *at = &table[i / PLACES][i % PLACES];
                    freed += *at == id;
                    if (*at == id) *at = 0;
                }
                assert_int_equal(place_free(p, id, NULL, NULL), freed);
                continue;
            }
            for (int i = 0; i < PLACES; i++) used += table[limit][i] != 0;
            for (int i = PLACES - 1; i >= 0; i--)
                if (used < most && !table[limit][i]) expected = i + 1;
            for (int i = 0; i < PLACES; i++)
                if (table[limit][i] == id) expected = i + 1;
            assert_int_equal(take(p, id, limit, "key", most), expected);
            if (expected) table[limit][expected - 1] = id;
        }
        done(p);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_lowest_number_is_taken),
        cmocka_unit_test(limits_and_keys_do_not_meet),
        cmocka_unit_test(asking_again_answers_the_same),
        cmocka_unit_test(all_of_several_or_none),
        cmocka_unit_test(a_lowered_limit_takes_nothing_away),
        cmocka_unit_test(freeing_tells_where_there_is_room),
        cmocka_unit_test(the_holder_is_known),
        cmocka_unit_test(holders_are_bounded),
        cmocka_unit_test(a_limit_beyond_all_places),
        cmocka_unit_test(memory_may_fail_anywhere),
        cmocka_unit_test(a_table_agrees),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
