/* What nodes tell about the tasks they hold, as bytes: whole or not at all. */
#include "../unit/cmocka_all.h"
#include "base/alloc.h"
#include "base/rand.h"
#include "core/told.h"
#include <string.h>

static void fill(told *t)
{
    memset(t, 0, sizeof *t);
    *t = (told){.parked = 300, .running = 2, .deferrals = INT64_MAX, .rejected = 127, .opened = 128};
    for (t->keys_count = 0; t->keys_count < TOLD_KEYS; t->keys_count++)
        t->keys[t->keys_count] = (told_key){.type = pawl_str("a.type"),
                                            .key = {"k\0\xff"
                                                    "ey",
                                                    5},
                                            .local = t->keys_count % 2,
                                            .parked = t->keys_count,
                                            .running = 1,
                                            .slot_us = INT64_C(1767225600000000) + t->keys_count,
                                            .left = 7};
    for (t->tasks_count = 0; t->tasks_count < TOLD_TASKS; t->tasks_count++)
        t->tasks[t->tasks_count] = (told_task){INT64_MAX - t->tasks_count, t->tasks_count};
}

static void read_as_written(void **state)
{
    (void)state;
    static told in, out;
    buf b;
    buf_init(&b, alloc_default(), TOLD_MAX);
    fill(&in);
    told_write(&b, &in);
    assert_false(b.failed);
    assert_true(told_read((pawl_bytes){b.data, b.len}, &out));
    assert_true(out.parked == 300 && out.running == 2 && out.deferrals == INT64_MAX && out.rejected == 127 && out.opened == 128);
    assert_true(out.keys_count == TOLD_KEYS && out.tasks_count == TOLD_TASKS);
    for (int i = 0; i < TOLD_KEYS; i++) {
        assert_true(out.keys[i].key.len == 5 && memcmp(out.keys[i].key.data, in.keys[i].key.data, 5) == 0);
        assert_true(out.keys[i].local == in.keys[i].local && out.keys[i].parked == i && out.keys[i].left == 7);
        assert_int_equal(out.keys[i].slot_us, in.keys[i].slot_us);
        assert_int_equal(out.tasks[i].id, in.tasks[i].id);
    }
    buf_done(&b);
}

/* Cut anywhere, or with any byte changed, it is read whole or refused; never beyond its end (the sanitizers see that). */
static void damaged(void **state)
{
    (void)state;
    static told in, out;
    rng random;
    buf b;
    rng_init(&random, 7);
    buf_init(&b, alloc_default(), TOLD_MAX);
    fill(&in);
    told_write(&b, &in);
    for (size_t n = 0; n < b.len; n++) {
        char *cut = alloc_new(alloc_default(), n + 1);
        memcpy(cut, b.data, n);
        assert_false(told_read((pawl_bytes){cut, n}, &out));
        assert_true(out.keys_count == 0 && out.tasks_count == 0 && out.parked == 0);
        alloc_free(alloc_default(), cut);
    }
    for (int i = 0; i < 20000; i++) {
        size_t at = rng_below(&random, b.len);
        char was = b.data[at];
        b.data[at] = (char)rng_below(&random, 256);
        if (!told_read((pawl_bytes){b.data, b.len}, &out)) assert_int_equal(out.keys_count, 0);
        b.data[at] = was;
    }
    assert_false(told_read((pawl_bytes){"\x02", 1}, &out)); /* of a version that nobody knows */
    buf_done(&b);
}

int main(void)
{
    static const struct CMUnitTest tests[] = {cmocka_unit_test(read_as_written), cmocka_unit_test(damaged)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
