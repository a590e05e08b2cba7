/* Floods, driven by hand: many tasks that are due and must wait for a rate budget for long. They are given their slots in bites, and nobody
 * waits for that. */
#include "../unit/cmocka_all.h"
#include "drive.h"
#include "base/alloc.h"

#define CAPACITY 100
#define FLOOD 400
#define MS PAWL_MILLISECOND

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

static void insert_keyed(drive *d, const char *key, int64_t delay_us)
{
    pawl_body body = {.type = "t", .queue = "default", .tenant = "", .rate_key = pawl_str(key), .payload = {"{}", 2}};
    pawl_op op = {.kind = PAWL_OP_INSERT};
    op.u.insert.body = pawl_body_copy(alloc_default(), &body);
    op.u.insert.delay_us = delay_us;
    drive_submit(d, op);
}

static void set_limit(drive *d, int permits)
{
    pawl_op op = {.kind = PAWL_OP_LIMIT};
    op.u.limit.type = "t";
    op.u.limit.rate = (pawl_rate){.permits = permits, .period_us = PAWL_DAY, .horizon_us = -1};
    drive_submit(d, op);
}

/* `count` tasks of a key that lets one start a day fall due in a millisecond. */
static drive *begin(void **state, core_config config, core_queue_config queue, int count)
{
    drive *d = drive_begin(state, config, queue);
    drive_start(d);
    set_limit(d, 1);
    for (int i = 0; i < count; i++) insert_keyed(d, "k", MS);
    return d;
}

/* The calls of a kind that are held back; the last of them. */
static int held_of(const drive *d, core_call_kind kind, int *which)
{
    int count = 0;
    for (int i = 0; i < d->held_count; i++) {
        if (d->held[i]->kind != kind) continue;
        *which = i;
        count++;
    }
    return count;
}

static void answer(drive *d, core_call_kind kind)
{
    int which = 0;
    assert_int_equal(held_of(d, kind, &which), 1);
    drive_answer_held(d, which, true, PAWL_OK);
}

static int count_ops(const drive *d, int which, pawl_op_kind kind)
{
    const pawl_batch *b = &d->held[which]->u.batch;
    int count = 0;
    for (int i = 0; i < b->count; i++) count += b->ops[i]->kind == kind;
    return count;
}

/* The one held batch that has operations of this kind; -1: none has */
static int held_with(const drive *d, pawl_op_kind kind)
{
    int found = -1;
    for (int i = 0; i < d->held_count; i++) {
        if (d->held[i]->kind != CORE_APPLY || count_ops(d, i, kind) == 0) continue;
        assert_int_equal(found, -1);
        found = i;
    }
    return found;
}

static int asked_for(const drive *d)
{
    int which = 0;
    assert_int_equal(held_of(d, CORE_CLAIM, &which), 1);
    if (d->held[which]->u.claim.wants_count == 0) return 0; /* for the news */
    return d->held[which]->u.claim.wants[0].free + d->held[which]->u.claim.wants[0].prefetch;
}

/* Between two bites the store rests from it for four times as long as one took, and leases are granted at birth. */
static void between_two_bites_there_is_time(void **state)
{
    drive *d = begin(state, (core_config){0}, (core_queue_config){.workers = 4, .capacity = CAPACITY}, 40);
    d->hold = 1u << CORE_CLAIM | 1u << CORE_APPLY;
    drive_advance(d, MS);
    int answers = 0;
    for (; d->held_count > 0; answers++) {
        drive_advance(d, 5 * MS);
        assert_int_equal(d->held_count, 1);
        drive_answer_held(d, 0, true, PAWL_OK);
    }
    assert_in_range(answers, 2, 10); /* of far less than forty tasks */
    drive_advance(d, 30 * MS);
    assert_int_equal(d->held_count, 0);
    d->hold = 0;
    assert_int_equal(dispatch(d), PAWL_LEASED);
    d->hold = 1u << CORE_CLAIM;
    drive_advance(d, 20 * MS);
    assert_int_equal(d->held_count, 1);
    d->hold = 0;
    drive_answer_held(d, 0, true, PAWL_OK);
    end_all(d);
}

static void wake(drive *d)
{
    core_wake(d->core, drive_now(d));
    drive_go(d);
}

/* One worker that was so fast that the queue holds as much as it may; then a flood, which a claim has seen. Claims are held back, and there
 * is one. */
static drive *fast_in_flood(void **state)
{
    drive *d = drive_begin(state, (core_config){0}, (core_queue_config){.workers = 1, .capacity = CAPACITY});
    drive_start(d);
    set_limit(d, 1);
    for (int i = 0; i < 200; i++) {
        dispatch(d);
        end_all(d);
        drive_advance(d, 100);
    }
    d->hold = 1u << CORE_CLAIM;
    wake(d);
    assert_in_range(asked_for(d), CAPACITY / 2, CAPACITY + 1); /* there is none yet */
    answer(d, CORE_CLAIM);
    for (int i = 0; i < FLOOD; i++) insert_keyed(d, "k", MS);
    drive_advance(d, MS);
    for (int i = 0; i < 2; i++) answer(d, CORE_CLAIM); /* one of them may start today */
    end_all(d);
    assert_in_range(asked_for(d), 1, CAPACITY / 5); /* a bite */
    return d;
}

/* Somebody else stored something, it may be little or much: what would fill the room is the flood. */
static void little_is_claimed_beside_it(void **state)
{
    drive *d = fast_in_flood(state);
    wake(d);
    answer(d, CORE_CLAIM);
    assert_in_range(asked_for(d), CAPACITY / 5, CAPACITY / 2);
    d->hold = 0;
    answer(d, CORE_CLAIM);
    end_all(d);
}

static void only_others(drive *d, core_call *call)
{
    (void)d;
    if (call->kind == CORE_CLAIM && call->u.claim.wants_count > 0) call->u.claim.wants[0].flooded = false;
}

/* Also if a claim was full of others: it is still there. */
static void nor_behind_a_claim_of_others(void **state)
{
    drive *d = fast_in_flood(state);
    d->meddle = only_others;
    answer(d, CORE_CLAIM);
    d->meddle = NULL;
    assert_in_range(asked_for(d), CAPACITY / 5, CAPACITY / 2);
    d->hold = 0;
    answer(d, CORE_CLAIM);
    end_all(d);
}

/* ---- what asks for slots far away ------------------------------------------------------------------------------------------------ */

#define BOTH (1u << CORE_CLAIM | 1u << CORE_APPLY)

/* Two workers; the key is known to have no slot for long, and two more of the flood have just been claimed. All calls are held back. */
static drive *in_flood(void **state, int lanes)
{
    drive *d = begin(state, (core_config){.lanes = lanes}, (core_queue_config){.workers = 2, .capacity = CAPACITY}, FLOOD);
    d->hold = 1u << CORE_CLAIM;
    drive_advance(d, MS);
    for (int i = 0; i < 4; i++) { /* one of them may start today */
        answer(d, CORE_CLAIM);
        end_all(d);
        for (int k = 0; d->held_count == 0 && k < 300; k++) drive_advance(d, MS);
    }
    d->hold = BOTH;
    answer(d, CORE_CLAIM);
    return d;
}

static void answer_all(drive *d)
{
    d->hold = 0;
    while (d->held_count > 0) drive_answer_held(d, 0, true, PAWL_OK);
    end_all(d);
}

/* Nobody waits for the answer to it: neither in its batch nor for a lane. */
static void it_has_a_lane_of_its_own(void **state)
{
    drive *d = in_flood(state, 2);
    int far = held_with(d, PAWL_OP_RESERVE);
    assert_true(far >= 0 && d->held[far]->lane == 2);
    drive_dispatch(d, "t", NULL, PAWL_HOUR);
    drive_dispatch(d, "t", NULL, PAWL_HOUR);
    int which = 0;
    assert_int_equal(held_of(d, CORE_APPLY, &which), 3);
    answer_all(d);
}

/* Where there is one lane, others go first, but not for ever. */
static void where_there_is_one_others_go_first(void **state)
{
    drive *d = in_flood(state, 1);
    int batches = 0;
    assert_true(held_with(d, PAWL_OP_RESERVE) >= 0); /* alone */
    drive_dispatch(d, "t", NULL, PAWL_HOUR);
    answer(d, CORE_APPLY);
    wake(d);
    answer(d, CORE_CLAIM); /* and two more are here */
    for (; held_with(d, PAWL_OP_RESERVE) < 0 && batches < 20; batches++) {
        drive_dispatch(d, "t", NULL, PAWL_HOUR);
        answer(d, CORE_APPLY);
    }
    assert_in_range(batches, 2, 10);
    assert_int_equal(count_ops(d, held_with(d, PAWL_OP_RESERVE), PAWL_OP_INSERT), 0);
    answer_all(d);
}

/* What others need is asked at once, what a claim for them has brought along of the flood when the store has rested from it. */
static void it_leaves_most_of_the_time_to_others(void **state)
{
    drive *d = in_flood(state, 2);
    drive_advance(d, 10 * MS);
    assert_true(held_with(d, PAWL_OP_RESERVE) >= 0);
    answer(d, CORE_APPLY);
    d->hold = 1u << CORE_CLAIM;
    insert_keyed(d, "other", MS);
    drive_advance(d, MS);
    d->hold = BOTH;
    answer(d, CORE_CLAIM);
    int soon = held_with(d, PAWL_OP_RESERVE);
    assert_true(soon >= 0 && d->held[soon]->lane < 2 && d->held[soon]->u.batch.count == 1);
    drive_answer_held(d, soon, true, PAWL_OK);
    assert_int_equal(d->runs_count, 1);
    drive_advance(d, 30 * MS);
    assert_int_equal(held_with(d, PAWL_OP_RESERVE), -1);
    drive_advance(d, 15 * MS);
    assert_true(held_with(d, PAWL_OP_RESERVE) >= 0);
    answer_all(d);
}

/* Two workers, two of the flood that wait for the answer: that holds up no claim for others, and a claim for the flood no lease at birth. */
static void it_takes_no_room(void **state)
{
    drive *d = in_flood(state, 2);
    wake(d);
    assert_in_range(asked_for(d), 2, CAPACITY);
    answer(d, CORE_CLAIM);
    d->hold = 1u << CORE_CLAIM;
    while (held_with(d, PAWL_OP_RESERVE) >= 0) drive_answer_held(d, held_with(d, PAWL_OP_RESERVE), true, PAWL_OK);
    for (int i = 0; i < 300 && (d->held_count == 0 || asked_for(d) == 0); i++) {
        if (d->held_count > 0) answer(d, CORE_CLAIM);
        else drive_advance(d, MS);
    }
    assert_int_equal(asked_for(d), 2); /* a bite */
    assert_int_equal(dispatch(d), PAWL_LEASED);
    assert_int_equal(dispatch(d), PAWL_LEASED);
    assert_int_equal(dispatch(d), PAWL_PENDING);
    answer_all(d);
}

/* A key that has slots again asks with all others, once that is known. */
static void it_is_over_when_a_slot_is_near(void **state)
{
    drive *d = in_flood(state, 2);
    d->hold = 1u << CORE_CLAIM;
    set_limit(d, 1000000);
    drive_answer_held(d, held_with(d, PAWL_OP_RESERVE), true, PAWL_OK);
    assert_true(d->runs_count > 0);
    d->hold = BOTH;
    answer(d, CORE_CLAIM);
    assert_true(d->held[held_with(d, PAWL_OP_RESERVE)]->lane < 2);
    answer_all(d);
}

#define TEST(name) cmocka_unit_test_teardown(name, drive_finish)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(between_two_bites_there_is_time),
        TEST(little_is_claimed_beside_it),
        TEST(nor_behind_a_claim_of_others),
        TEST(it_has_a_lane_of_its_own),
        TEST(where_there_is_one_others_go_first),
        TEST(it_leaves_most_of_the_time_to_others),
        TEST(it_takes_no_room),
        TEST(it_is_over_when_a_slot_is_near),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
