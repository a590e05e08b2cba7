/* Leases at birth, driven by hand: who gets one, and who has to wait in the store for a claim. */
#include "../unit/cmocka_all.h"
#include "drive.h"

#define CAPACITY 100
#define BRIEF 200 /* runs that show how many are over in 50 ms */

static const pawl_outcome ok = {PAWL_RUN_OK, 0};

static void end_all(drive *d)
{
    while (d->runs_count > 0) drive_end(d, 0, ok);
}

static pawl_state dispatch(drive *d)
{
    drive_dispatch(d, "t", NULL, 0);
    return drive_state(d, d->answers[d->answers_count - 1].id);
}

/* One worker, which was so fast that the queue holds as much as it may. */
static void run_fast(drive *d)
{
    drive_start(d);
    for (int i = 0; i < BRIEF; i++) {
        dispatch(d);
        end_all(d);
        drive_advance(d, 100);
    }
}

static drive *begin(void **state)
{
    drive *d = drive_begin(state, (core_config){0}, (core_queue_config){.workers = 1, .capacity = CAPACITY});
    run_fast(d);
    return d;
}

/* More than there is room for; how many wait in the store. */
static int burst(drive *d, int count)
{
    int waiting = 0;
    for (int i = 0; i < count; i++) waiting += dispatch(d) == PAWL_PENDING;
    return waiting;
}

static void what_there_is_no_room_for_waits_in_the_store(void **state)
{
    drive *d = begin(state);
    assert_int_equal(burst(d, CAPACITY + 11), 10);
    end_all(d);
    assert_int_equal(d->settled_count, d->answers_count);
}

static void behind_a_burst_leases_are_granted_at_birth_again(void **state)
{
    drive *d = begin(state);
    d->hold = 1u << CORE_CLAIM;
    assert_int_equal(burst(d, CAPACITY + 11), 10);
    end_all(d); /* all but those ten, which a claim is under way for */
    assert_int_equal(d->held_count, 1);
    assert_int_equal(dispatch(d), PAWL_LEASED);
    d->hold = 0;
    drive_answer_held(d, 0, true, PAWL_OK);
    end_all(d);
    assert_int_equal(d->settled_count, d->answers_count);
}

/* Twice as many wait as there is room for. */
static void a_claim_that_brings_only_some_leaves_the_rest_counted(void **state)
{
    drive *d = begin(state);
    d->hold = 1u << CORE_CLAIM;
    assert_int_equal(burst(d, 3 * CAPACITY + 1), 2 * CAPACITY);
    end_all(d);
    assert_int_equal(d->held_count, 1);
    assert_int_equal(dispatch(d), PAWL_PENDING); /* they come first */
    drive_answer_held(d, 0, true, PAWL_OK);
    assert_int_equal(dispatch(d), PAWL_PENDING);
    d->hold = 0;
    end_all(d);
    while (d->held_count > 0) drive_answer_held(d, 0, true, PAWL_OK);
    end_all(d);
    assert_int_equal(d->settled_count, d->answers_count);
    assert_int_equal(dispatch(d), PAWL_LEASED);
}

/* Another node's tasks that nobody told of: a claim now and then finds them, and until it has them all nothing goes before them. */
static void what_others_stored_comes_first(void **state)
{
    static drive other, here;
    core_queue_config queue = {.workers = 1, .capacity = CAPACITY};
    (void)state;
    drive_open_with(&other, "memory:core-birth", (core_config){0}, queue, NULL);
    drive_open_with(&here, "memory:core-birth", (core_config){0}, queue, other.now);
    run_fast(&here);
    burst(&other, 3 * CAPACITY);
    drive_advance(&here, 200 * PAWL_MILLISECOND);
    assert_int_equal(dispatch(&here), PAWL_LEASED); /* and looks, for the first time in 100 ms */
    assert_int_equal(dispatch(&here), PAWL_PENDING);
    end_all(&here);
    assert_int_equal(here.settled_count, BRIEF + 2 + 3 * CAPACITY);
    assert_int_equal(dispatch(&here), PAWL_LEASED);
    end_all(&here);
    drive_close(&here);
    drive_close(&other);
}

#define TEST(name) cmocka_unit_test_teardown(name, drive_finish)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(what_there_is_no_room_for_waits_in_the_store),
        TEST(behind_a_burst_leases_are_granted_at_birth_again),
        TEST(a_claim_that_brings_only_some_leaves_the_rest_counted),
        cmocka_unit_test(what_others_stored_comes_first),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
