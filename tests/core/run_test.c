/* Runs, driven by hand: cancels that come early, progress, long runs, timeouts, what is handed out ahead and taken back. */
#include "../unit/cmocka_all.h"
#include "base/alloc.h"
#include "drive.h"

static const pawl_outcome ok = {PAWL_RUN_OK, 0}, retry = {PAWL_RUN_RETRY, -1}, never = {PAWL_RUN_FAIL, 0},
                          cancelled = {PAWL_RUN_CANCELLED, 0};

static pawl_op cancel(pawl_id id) { return (pawl_op){.kind = PAWL_OP_CANCEL, .id = id}; }

/* Starts, and runs so many so fast that more tasks than there are workers are leased ahead. */
static void make_fast(drive *d)
{
    drive_start(d);
    for (int i = 0; i < 200; i++) {
        drive_dispatch(d, "t", NULL, 0);
        drive_dispatch(d, "t", NULL, 0);
        while (d->runs_count > 0) drive_end(d, 0, ok);
        drive_advance(d, 100);
    }
}

/* ---- cancels ---- */

static void a_task_that_is_ready_is_cancelled_without_running(void **state)
{
    drive *d = drive_begin(state, (core_config){0}, (core_queue_config){.workers = 1});
    make_fast(d);
    for (int i = 0; i < 3; i++) drive_dispatch(d, "t", NULL, 0);
    pawl_id id = d->answers[d->answers_count - 1].id;
    core_task_state where;
    assert_true(core_holds(d->core, id, &where) && where == CORE_READY);
    drive_submit(d, cancel(id));
    assert_int_equal(d->answers[d->answers_count - 1].result, PAWL_OP_ASKED);
    assert_int_equal(drive_state(d, id), PAWL_CANCELLED);
    assert_false(core_holds(d->core, id, NULL));
    assert_true(core_holds(d->core, d->runs[0]->body->id, NULL));
    while (d->runs_count > 0) drive_end(d, 0, ok);
    assert_int_equal(d->settled_count, 402);
}

/* A claimed task with a key may still be taken back by the store: then it is nobody's business here. */
static void a_lease_that_was_taken_back_is_forgotten(void **state)
{
    drive *d = drive_begin(state, (core_config){0}, (core_queue_config){.workers = 1});
    make_fast(d);
    int first = d->answers_count;
    d->hold = 1u << CORE_CLAIM;
    core_clock_jumped(d->core, drive_now(d)); /* so that inserts do not ask for leases, but a claim does */
    drive_go(d);
    for (int i = 0; i < 4; i++) drive_dispatch(d, "t", (char[]){'k', (char)('0' + i), 0}, 0);
    d->hold = 0;
    drive_answer_held(d, 0, true, PAWL_OK);
    pawl_id id = d->answers[first + 3].id;
    core_task_state where;
    assert_true(core_holds(d->core, id, &where) && where == CORE_READY);
    drive_submit(d, cancel(id));
    assert_int_equal(d->answers[d->answers_count - 1].result, PAWL_OP_DONE);
    assert_false(core_holds(d->core, id, NULL));
    assert_int_equal(d->events[PAWL_EVENT_LEASE_LOST], 1);
    while (d->runs_count > 0) drive_end(d, 0, ok);
}

static void other_fence(drive *d, core_call *call)
{
    (void)d;
    pawl_news *news = call->kind == CORE_RENEW ? &call->u.renewal.news : NULL;
    for (int i = 0; news && i < news->cancels_count; i++) news->cancels[i].fence++;
}

/* The news tell of a cancel that was asked elsewhere; of another lease than the one held here they say nothing. */
static void a_cancel_is_of_one_lease(void **state)
{
    drive *d = drive_begin(state, (core_config){0}, (core_queue_config){.workers = 1});
    drive_start(d);
    drive_dispatch(d, "t", NULL, 0);
    drive other;
    drive_open(&other, "memory:core-elsewhere", 1, d->now);
    store_close(other.store);
    other.store = d->store;
    drive_submit(&other, cancel(d->answers[0].id));
    assert_int_equal(other.answers[0].result, PAWL_OP_ASKED);
    d->meddle = other_fence;
    drive_advance(d, 15 * PAWL_SECOND);
    assert_int_equal(d->stops_count, 0);
    d->meddle = NULL;
    drive_advance(d, 15 * PAWL_SECOND);
    assert_int_equal(d->stops[0], PAWL_STOP_CANCELLED);
    drive_end(d, 0, cancelled);
    core_free(other.core);
}

/* ---- progress and long runs ---- */

static void progress_puts_off_the_report_of_a_long_run(void **state)
{
    drive *d = drive_begin(state, (core_config){.long_run_us = 10 * PAWL_MINUTE}, (core_queue_config){.workers = 1});
    core_numbers n;
    drive_start(d);
    drive_dispatch(d, "t", NULL, 0);
    drive_advance(d, 6 * PAWL_MINUTE);
    core_progress(d->core, drive_now(d), d->runs[0], 10, "on the way");
    drive_go(d);
    drive_advance(d, 9 * PAWL_MINUTE);
    assert_int_equal(d->events[PAWL_EVENT_LONG_RUNNING], 0);
    drive_advance(d, PAWL_MINUTE);
    assert_int_equal(d->events[PAWL_EVENT_LONG_RUNNING], 1);
    core_numbers_get(d->core, drive_now(d), &n);
    assert_int_equal(n.long_running, 1);
    core_progress(d->core, drive_now(d), d->runs[0], 20, NULL);
    drive_go(d);
    core_numbers_get(d->core, drive_now(d), &n);
    assert_int_equal(n.long_running, 0);
    drive_advance(d, 10 * PAWL_MINUTE);
    assert_int_equal(d->events[PAWL_EVENT_LONG_RUNNING], 2);
    drive_end(d, 0, ok);
    core_numbers_get(d->core, drive_now(d), &n);
    assert_int_equal(n.long_running, 0);
}

static void long_runs_are_reported_in_turn(void **state)
{
    drive *d = drive_begin(state, (core_config){.long_run_us = 10 * PAWL_MINUTE}, (core_queue_config){.workers = 4});
    drive_start(d);
    for (int i = 0; i < 4; i++) {
        drive_dispatch(d, "t", NULL, 0);
        drive_advance(d, PAWL_MINUTE);
    }
    drive_end(d, 2, ok); /* the third */
    drive_advance(d, 6 * PAWL_MINUTE);
    assert_int_equal(d->events[PAWL_EVENT_LONG_RUNNING], 1);
    drive_advance(d, PAWL_MINUTE);
    assert_int_equal(d->events[PAWL_EVENT_LONG_RUNNING], 2);
    drive_advance(d, PAWL_MINUTE);
    assert_int_equal(d->events[PAWL_EVENT_LONG_RUNNING], 2);
    drive_advance(d, PAWL_MINUTE);
    assert_int_equal(d->events[PAWL_EVENT_LONG_RUNNING], 3);
    drive_advance(d, PAWL_HOUR);
    assert_int_equal(d->events[PAWL_EVENT_LONG_RUNNING], 3);
    while (d->runs_count > 0) drive_end(d, 0, ok);
}

static void progress_of_a_run_that_ended_is_ignored(void **state)
{
    drive *d = drive_begin(state, (core_config){0}, (core_queue_config){.workers = 1});
    drive_start(d);
    drive_dispatch(d, "t", NULL, 0);
    core_task *t = d->runs[0];
    d->hold = 1u << CORE_APPLY;
    drive_end(d, 0, ok);
    core_progress(d->core, drive_now(d), t, 50, "late");
    drive_go(d);
    assert_int_equal(d->events[PAWL_EVENT_PROGRESS], 0);
    d->hold = 0;
    drive_answer_held(d, 0, true, PAWL_OK);
    assert_int_equal(d->settled[0].how, CORE_SETTLED_SUCCEEDED);
}

/* Another node rescued it: the answer to its progress tells. */
static void a_run_learns_from_its_progress_that_its_lease_is_lost(void **state)
{
    drive *c = drive_begin(state, (core_config){0}, (core_queue_config){.workers = 1}), b;
    drive_open(&b, "memory:core-progress", 1, c->now);
    drive other;
    drive_open(&other, "memory:core-progress", 1, c->now);
    drive_start(&b);
    drive_dispatch(&b, "t", NULL, 0);
    drive_start(&other);
    drive_advance(&other, 90 * PAWL_SECOND);
    assert_int_equal(other.runs_count, 1);
    core_progress(b.core, drive_now(&b), b.runs[0], 50, "half");
    drive_go(&b);
    assert_int_equal(b.stops[0], PAWL_STOP_LEASE_LOST);
    drive_end(&b, 0, ok);
    assert_int_equal(b.settled[0].how, CORE_SETTLED_LOST);
    drive_end(&other, 0, ok);
    drive_close(&b);
    drive_close(&other);
}

/* ---- ends ---- */

static void a_timeout_that_is_not_retried_says_so(void **state)
{
    policy p = policy_default();
    p.timeout_us = PAWL_SECOND;
    p.retry.no_timeout_retry = true;
    drive *d = drive_begin(state, (core_config){.engine = p}, (core_queue_config){.workers = 1});
    drive_start(d);
    drive_dispatch(d, "t", NULL, 0);
    drive_advance(d, PAWL_SECOND);
    assert_int_equal(d->stops[0], PAWL_STOP_TIMEOUT);
    drive_end(d, 0, retry);
    assert_int_equal(d->settled[0].how, CORE_SETTLED_FAILED);
    pawl_query q = {.kind = PAWL_QUERY_GET, .id = d->answers[0].id};
    pawl_arena *arena = arena_new(alloc_default(), 0);
    assert_int_equal(d->store->type->read(d->store, &q, arena, NULL), PAWL_OK);
    assert_string_equal(q.info->reason, "timeout");
    arena_free(arena);
}

/* Asked to stop for a shutdown, a run may still say that it will never work. */
static void a_failure_for_good_counts_also_while_stopping(void **state)
{
    drive *d = drive_begin(state, (core_config){0}, (core_queue_config){.workers = 1});
    drive_start(d);
    drive_dispatch(d, "t", NULL, 0);
    core_stop(d->core, drive_now(d), 0, 5 * PAWL_SECOND);
    drive_advance(d, PAWL_SECOND);
    assert_int_equal(d->stops[0], PAWL_STOP_SHUTDOWN);
    drive_end(d, 0, never);
    assert_int_equal(d->settled[0].how, CORE_SETTLED_FAILED);
    assert_int_equal(d->stopped, 1);
}

static void refuse(drive *d, core_call *call)
{
    d->meddle = NULL;
    call->u.batch.count = 1;
    call->u.batch.ops[0]->result = PAWL_OP_REFUSED;
}

/* The store gets the batch without what it cannot hold. */
static void a_result_that_the_store_cannot_hold_fails_the_task(void **state)
{
    drive *d = drive_begin(state, (core_config){0}, (core_queue_config){.workers = 1});
    drive_start(d);
    drive_dispatch(d, "t", NULL, 0);
    d->hold = 1u << CORE_APPLY;
    drive_end(d, 0, ok);
    assert_int_equal(d->held[0]->u.batch.count, 1);
    d->held[0]->u.batch.count = 0;
    d->meddle = refuse;
    d->hold = 0;
    drive_answer_held(d, 0, true, PAWL_OK);
    assert_int_equal(d->settled[0].how, CORE_SETTLED_FAILED);
    assert_int_equal(drive_state(d, d->answers[0].id), PAWL_FAILED);
}

/* ---- suspects ---- */

/* A task whose node died starts only after a start mark; a cancel that came meanwhile is seen by the store's answer. */
static void a_cancel_is_seen_at_the_start_of_a_suspect(void **state)
{
    drive *c = drive_begin(state, (core_config){0}, (core_queue_config){.workers = 1}), dead;
    drive_open(&dead, "memory:core-suspect", 1, c->now);
    drive d;
    drive_open(&d, "memory:core-suspect", 1, c->now);
    drive_start(&dead);
    drive_dispatch(&dead, "t", NULL, 0);
    pawl_id id = dead.answers[0].id;
    drive_close(&dead);
    drive_dispatch(&d, "t", NULL, PAWL_DAY); /* registers; its lane is free for what follows */
    d.hold = 1u << CORE_APPLY;
    drive_start(&d);
    drive_advance(&d, PAWL_SECOND);
    assert_int_equal(d.held_count, 1);
    assert_int_equal(d.held[0]->u.batch.ops[0]->kind, PAWL_OP_START);
    drive other;
    drive_open(&other, "memory:core-suspect", 1, c->now);
    drive_submit(&other, cancel(id));
    assert_int_equal(other.answers[0].result, PAWL_OP_ASKED);
    d.hold = 0;
    drive_answer_held(&d, 0, true, PAWL_OK);
    assert_int_equal(d.runs_count, 0);
    assert_int_equal(drive_state(&d, id), PAWL_CANCELLED);
    drive_close(&other);
    drive_close(&d);
}

/* A pause that comes while the start is on its way: the task goes back, unstarted. */
static void a_pause_is_seen_at_the_start_of_a_suspect(void **state)
{
    drive *c = drive_begin(state, (core_config){0}, (core_queue_config){.workers = 1}), dead, d;
    drive_open(&dead, "memory:core-paused", 1, c->now);
    drive_start(&dead);
    drive_dispatch(&dead, "t", NULL, 0);
    pawl_id id = dead.answers[0].id;
    drive_open_with(&d, "memory:core-paused", (core_config){.lanes = 2}, (core_queue_config){.workers = 1}, c->now);
    drive_close(&dead);
    drive_dispatch(&d, "t", NULL, PAWL_DAY);
    d.hold = 1u << CORE_APPLY;
    drive_start(&d);
    drive_advance(&d, PAWL_SECOND);
    assert_int_equal(d.held_count, 1);
    drive_submit(&d, (pawl_op){.kind = PAWL_OP_QUEUE, .u.queue = {.queue = "default", .pause = true}});
    assert_int_equal(d.held_count, 2); /* on the other lane, and answered first */
    d.hold = 0;
    drive_answer_held(&d, 1, true, PAWL_OK);
    drive_answer_held(&d, 0, true, PAWL_OK);
    assert_int_equal(d.runs_count, 0);
    assert_int_equal(drive_state(&d, id), PAWL_PENDING);
    drive_close(&d);
}

/* ---- handed out ahead ---- */

/* Runs of a microsecond on one worker: the core hands out more than one at a time. */
static void hand_out_ahead(drive *d)
{
    static const core_outcome quick = {.outcome = {PAWL_RUN_OK, 0}, .progress = -1};
    drive_start(d);
    for (int i = 0; i < 300; i++) {
        drive_dispatch(d, "t", NULL, 0);
        drive_dispatch(d, "t", NULL, 0);
        while (d->runs_count > 0) drive_end_with(d, 0, &quick);
        drive_advance(d, 100);
    }
    for (int i = 0; i < 4; i++) drive_dispatch(d, "t", NULL, 0);
    assert_in_range(d->runs_count, 3, 4);
}

static core_task *take_back(drive *d)
{
    core_task *t = d->runs[--d->runs_count];
    core_recalled(d->core, drive_now(d), t);
    return t;
}

static void what_is_taken_back_is_ready_again(void **state)
{
    drive *d = drive_begin(state, (core_config){.surplus = 100}, (core_queue_config){.workers = 1});
    hand_out_ahead(d);
    core_task *last = take_back(d), *before = take_back(d);
    drive_go(d);
    assert_int_equal(last->state, CORE_READY);
    assert_int_equal(before->state, CORE_READY);
    while (d->runs_count > 1) drive_end(d, 1, ok);
    drive_end(d, 0, ok);
    assert_ptr_equal(d->runs[0], before); /* in the order they had */
    while (d->runs_count > 0) drive_end(d, 0, ok);
    assert_int_equal(d->settled_count, 604);
}

static void what_is_taken_back_in_a_stop_goes_back_to_the_store(void **state)
{
    drive *d = drive_begin(state, (core_config){.surplus = 100}, (core_queue_config){.workers = 1});
    hand_out_ahead(d);
    core_drain(d->core, drive_now(d));
    drive_go(d);
    pawl_id id = d->runs[d->runs_count - 1]->body->id;
    take_back(d);
    drive_go(d);
    assert_int_equal(drive_state(d, id), PAWL_PENDING);
    while (d->runs_count > 0) drive_end(d, 0, ok);
    assert_int_equal(d->drained, 1);
}

static void what_is_taken_back_after_its_cancel_never_runs(void **state)
{
    drive *d = drive_begin(state, (core_config){.surplus = 100}, (core_queue_config){.workers = 1});
    hand_out_ahead(d);
    pawl_id id = d->runs[d->runs_count - 1]->body->id;
    drive_submit(d, cancel(id));
    assert_int_equal(d->stops[0], PAWL_STOP_CANCELLED);
    take_back(d);
    drive_go(d);
    assert_int_equal(drive_state(d, id), PAWL_CANCELLED);
    while (d->runs_count > 0) drive_end(d, 0, ok);
}

static void what_is_taken_back_does_not_pass_the_urgent(void **state)
{
    drive *d = drive_begin(state, (core_config){.surplus = 100}, (core_queue_config){.workers = 1});
    pawl_body body = {.type = "t", .queue = "default", .tenant = "", .priority = -5};
    hand_out_ahead(d);
    core_task *first = take_back(d); /* and with that nothing is handed out ahead any more */
    drive_go(d);
    drive_submit(d, (pawl_op){.kind = PAWL_OP_INSERT, .u.insert.body = pawl_body_copy(alloc_default(), &body)});
    core_task *second = take_back(d);
    drive_go(d);
    while (d->runs_count > 1) drive_end(d, 1, ok);
    drive_end(d, 0, ok);
    assert_int_equal(d->runs[0]->body->priority, -5);
    drive_end(d, 0, ok);
    assert_ptr_equal(d->runs[0], second);
    drive_end(d, 0, ok);
    assert_ptr_equal(d->runs[0], first);
    drive_end(d, 0, ok);
}

static void what_is_taken_back_in_a_pause_or_without_a_lease_goes_back_to_the_store(void **state)
{
    drive *d = drive_begin(state, (core_config){.surplus = 100}, (core_queue_config){.workers = 1});
    hand_out_ahead(d);
    pawl_id id = d->runs[d->runs_count - 1]->body->id;
    drive_submit(d, (pawl_op){.kind = PAWL_OP_QUEUE, .u.queue = {.queue = "default", .pause = true}});
    take_back(d);
    drive_go(d);
    assert_int_equal(drive_state(d, id), PAWL_PENDING);

    id = d->runs[d->runs_count - 1]->body->id;
    d->fail_before = ~0u;
    drive_advance(d, 31 * PAWL_SECOND);
    assert_int_equal(d->stops[d->stops_count - 1], PAWL_STOP_LEASE_LOST);
    d->fail_before = 0;
    take_back(d);
    drive_advance(d, 10 * PAWL_SECOND);
    assert_int_equal(drive_state(d, id), PAWL_PENDING);
    while (d->runs_count > 0) drive_end(d, 0, ok);
}

#define TEST(name) cmocka_unit_test_teardown(name, drive_finish)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(a_task_that_is_ready_is_cancelled_without_running),
        TEST(a_lease_that_was_taken_back_is_forgotten),
        TEST(a_cancel_is_of_one_lease),
        TEST(progress_puts_off_the_report_of_a_long_run),
        TEST(long_runs_are_reported_in_turn),
        TEST(progress_of_a_run_that_ended_is_ignored),
        TEST(a_run_learns_from_its_progress_that_its_lease_is_lost),
        TEST(a_timeout_that_is_not_retried_says_so),
        TEST(a_failure_for_good_counts_also_while_stopping),
        TEST(a_result_that_the_store_cannot_hold_fails_the_task),
        TEST(a_cancel_is_seen_at_the_start_of_a_suspect),
        TEST(a_pause_is_seen_at_the_start_of_a_suspect),
        TEST(what_is_taken_back_is_ready_again),
        TEST(what_is_taken_back_in_a_stop_goes_back_to_the_store),
        TEST(what_is_taken_back_after_its_cancel_never_runs),
        TEST(what_is_taken_back_does_not_pass_the_urgent),
        TEST(what_is_taken_back_in_a_pause_or_without_a_lease_goes_back_to_the_store),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
