/* The table of keys against a plain list: keys of all lengths that come and go, in a table that is small, that grows, and that cannot. */
#include "../unit/cmocka_all.h"
#include "base/alloc.h"
#include "base/rand.h"
#include "core/limit_table.h"
#include <stdlib.h>
#include <string.h>

#define NAMES 600

struct ring {
    limit_entry *key;
};

static struct ring rings[NAMES];
static bool known[NAMES], barren;
static int moves;

static void moved(limit_entry *to)
{
    to->ring->key = to;
    moves++;
}

static void *sparing_alloc(void *ctx, size_t size)
{
    (void)ctx;
    return barren && size > 4096 ? NULL : malloc(size);
}

static void *sparing_resize(void *ctx, void *block, size_t size)
{
    (void)ctx;
    return realloc(block, size);
}

static void sparing_release(void *ctx, void *block)
{
    (void)ctx;
    free(block);
}

static const pawl_allocator sparing = {sparing_alloc, sparing_resize, sparing_release, NULL};

/* Of 1 to 200 bytes; all lengths up to some that are more than LIMIT_HERE. */
static pawl_bytes name(int i, char room[256])
{
    size_t len = i < 3 ? 1 : 3 + (size_t)i % 198;
    memset(room, 'x', len);
    room[0] = (char)i;
    if (len > 2) room[1] = (char)(i >> 8), room[len - 1] = (char)i;
    return (pawl_bytes){room, len};
}

static limit_entry *find(const limit_table *t, int i)
{
    char room[256];
    pawl_bytes n = name(i, room);
    return limit_table_find(t, i % 3, n, limit_table_hash(t, i % 3, n));
}

static void check(const limit_table *t)
{
    uint32_t count = 0;
    for (int i = 0; i < NAMES; i++) {
        const limit_entry *e = find(t, i);
        assert_int_equal(e != NULL, known[i]);
        if (!e) continue;
        assert_true(e->tat_us == i && e->rule == (uint32_t)i % 3 && (uintptr_t)e % LIMIT_LINE == 0);
        assert_true(!e->ring || (e->ring == &rings[i] && e->ring->key == e));
        count++;
    }
    assert_int_equal(t->count, count);
}

static bool add(limit_table *t, int i, bool with_ring)
{
    char room[256];
    pawl_bytes n = name(i, room);
    limit_entry *e = limit_table_add(t, i % 3, n, limit_table_hash(t, i % 3, n));
    if (!e) return false;
    e->tat_us = i;
    rings[i].key = e;
    e->ring = with_ring ? &rings[i] : NULL;
    return known[i] = true;
}

static void drop(limit_table *t, int i)
{
    limit_entry *e = find(t, i);
    e->ring = NULL;
    limit_table_remove(t, e);
    known[i] = false;
}

/* How many it held at most. */
static uint32_t come_and_go(const pawl_allocator *a, uint32_t keys_max, uint64_t seed)
{
    limit_table t;
    rng random;
    uint32_t most = 0;
    rng_init(&random, seed);
    memset(known, 0, sizeof known);
    limit_table_init(&t, a, seed, keys_max, moved);
    for (int step = 0; step < 6000; step++) {
        int i = (int)(rng_next(&random) % NAMES);
        bool growing = step / 1500 % 2 == 0;
        limit_table_near(&t, rng_next(&random));
        if (known[i] && !(growing && rng_next(&random) % 4)) drop(&t, i);
        else if (!known[i] && t.count < keys_max && (growing || rng_next(&random) % 4 == 0)) add(&t, i, i % 2 == 0);
        if (t.count > most) most = t.count;
        if (step % 50 == 0) check(&t);
    }
    check(&t);
    limit_table_done(&t);
    return most;
}

static void they_come_and_go(void **state)
{
    (void)state;
    moves = 0;
    for (uint64_t seed = 1; seed < 20; seed++) assert_true(come_and_go(alloc_default(), 400, seed) > 300);
    assert_true(moves > 1000);
}

static void in_a_table_of_hardly_any_places(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed < 20; seed++) assert_int_equal(come_and_go(alloc_default(), 5, seed), 5);
}

/* 53 places are there when no more are to be had; one of them stays empty. */
static void without_memory_it_fills_up(void **state)
{
    (void)state;
    barren = true;
    for (uint64_t seed = 1; seed < 20; seed++) assert_in_range(come_and_go(&sparing, 300, seed), 45, 52);
    barren = false;
}

/* Two names of one hash cannot be made on purpose; here they are said to have it. */
static void names_of_one_hash_are_told_apart(void **state)
{
    (void)state;
    limit_table t;
    char a[100], b[100];
    memset(a, 'a', sizeof a);
    memset(b, 'b', sizeof b);
    limit_table_init(&t, alloc_default(), 1, 100, moved);
    for (size_t len = 20; len <= 100; len += 80) { /* of those that stand in the table, and of those that do not */
        pawl_bytes first = {a, len}, second = {b, len};
        limit_entry *e = limit_table_add(&t, 0, first, 5), *f = limit_table_add(&t, 0, second, 5);
        assert_true(e && f && e != f);
        assert_ptr_equal(limit_table_find(&t, 0, first, 5), e);
        assert_ptr_equal(limit_table_find(&t, 0, second, 5), f);
        assert_null(limit_table_find(&t, 1, second, 5));
    }
    limit_table_done(&t);
}

static void a_table_for_more_keys_than_anybody_has(void **state)
{
    (void)state;
    limit_table t;
    limit_table_init(&t, alloc_default(), 1, UINT32_MAX, moved);
    assert_int_equal(t.places_max, UINT32_MAX);
    limit_table_done(&t);
}

/* It has all the places it may have, and is asked for more keys than it is for. */
static void a_table_that_may_not_grow(void **state)
{
    (void)state;
    limit_table t;
    memset(known, 0, sizeof known);
    limit_table_init(&t, alloc_default(), 1, 1, moved);
    int added = 0;
    for (int i = 0; i < 100; i++) added += add(&t, i, false);
    assert_int_equal(t.places, t.places_max);
    assert_int_equal(added, t.places - 1);
    check(&t);
    limit_table_done(&t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(they_come_and_go),
                                       cmocka_unit_test(in_a_table_of_hardly_any_places),
                                       cmocka_unit_test(without_memory_it_fills_up),
                                       cmocka_unit_test(names_of_one_hash_are_told_apart),
                                       cmocka_unit_test(a_table_for_more_keys_than_anybody_has),
                                       cmocka_unit_test(a_table_that_may_not_grow)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
