/* Runs handed out beyond the workers, driven by hand: when there are any, and what becomes of those that no worker begins. */
#include "../unit/cmocka_all.h"
#include "drive.h"

#define WORKERS 2
#define SURPLUS 6
#define BRIEF 200 /* runs that show how short they are, in 20 ms */

static drive *begin(void **state)
{
    drive *d = drive_begin(state, (core_config){.surplus = SURPLUS}, (core_queue_config){.workers = WORKERS, .capacity = 100});
    drive_start(d);
    return d;
}

static core_outcome lasted(const drive *d, int64_t us)
{
    int64_t now = drive_now(d).wall_us;
    return (core_outcome){.outcome = {PAWL_RUN_OK, 0}, .progress = -1, .began_us = now, .ended_us = now + us};
}

static void end_all(drive *d, int64_t us)
{
    core_outcome outcome = lasted(d, us);
    while (d->runs_count > 0) drive_end_with(d, 0, &outcome);
}

/* Enough short runs for the core to believe it. */
static drive *begin_brief(void **state)
{
    drive *d = begin(state);
    for (int i = 0; i < BRIEF; i++) {
        drive_dispatch(d, "t", NULL, 0);
        end_all(d, 0);
        drive_advance(d, 100);
    }
    return d;
}

static void fill(drive *d, int count)
{
    for (int i = 0; i < count; i++) drive_dispatch(d, "t", NULL, 0);
}

/* As the driver does with what no worker has begun. */
static pawl_id recall(drive *d, int run)
{
    core_task *task = d->runs[run];
    pawl_id id = task->body->id;
    for (int i = run + 1; i < d->runs_count; i++) d->runs[i - 1] = d->runs[i];
    d->runs_count--;
    core_recalled(d->core, drive_now(d), task);
    drive_go(d);
    return id;
}

static int at_once(const drive *d)
{
    core_queue_numbers q;
    core_queue_get(d->core, 0, &q);
    return q.at_once;
}

static void only_short_runs_are_handed_out_ahead(void **state)
{
    drive *d = begin(state);
    assert_int_equal(at_once(d), 1);
    fill(d, 20);
    assert_int_equal(d->runs_count, WORKERS);
    end_all(d, 1000);
    assert_int_equal(at_once(d), 1);
}

static void short_runs_are_handed_out_ahead(void **state)
{
    drive *d = begin_brief(state);
    assert_true(at_once(d) > 1);
    fill(d, 20);
    assert_int_equal(d->runs_count, WORKERS + SURPLUS);
}

static void a_long_run_ends_it(void **state)
{
    drive *d = begin_brief(state);
    fill(d, 20);
    core_outcome slow = lasted(d, PAWL_SECOND);
    drive_end_with(d, 0, &slow);
    assert_int_equal(at_once(d), 1);
    assert_int_equal(d->runs_count, WORKERS + SURPLUS - 1); /* nothing more until the workers have caught up */
}

static void what_comes_back_is_first_and_waits_for_a_worker(void **state)
{
    drive *d = begin_brief(state);
    fill(d, 20);
    pawl_id last = d->runs[WORKERS + SURPLUS - 1]->body->id, before = 0;
    while (d->runs_count > WORKERS) before = recall(d, d->runs_count - 1);
    assert_true(before < last);
    assert_int_equal(at_once(d), 1);
    core_outcome slow = lasted(d, PAWL_SECOND);
    drive_end_with(d, 0, &slow);
    assert_int_equal(d->runs_count, WORKERS);
    assert_int_equal(d->runs[WORKERS - 1]->body->id, before); /* the one that would have been next */
    while (d->runs_count > 0) drive_end_with(d, 0, &slow);
    assert_int_equal(d->settled_count, BRIEF + 20);
}

static void what_was_cancelled_meanwhile_never_runs(void **state)
{
    drive *d = begin_brief(state);
    fill(d, 20);
    pawl_id id = d->runs[WORKERS]->body->id;
    drive_submit(d, (pawl_op){.kind = PAWL_OP_CANCEL, .id = id});
    assert_int_equal(d->stops[d->stops_count - 1], PAWL_STOP_CANCELLED);
    recall(d, WORKERS);
    assert_int_equal(drive_state(d, id), PAWL_CANCELLED);
}

static void of_a_paused_queue_it_goes_back_to_the_store(void **state)
{
    drive *d = begin_brief(state);
    fill(d, 20);
    drive_submit(d, (pawl_op){.kind = PAWL_OP_QUEUE, .u.queue = {.queue = "default", .pause = true}});
    assert_true(d->recalls > 0);
    pawl_id id = recall(d, WORKERS);
    assert_int_equal(drive_state(d, id), PAWL_PENDING);
    assert_int_equal(d->runs_count, WORKERS + SURPLUS - 1);
}

static void pause_and_close(drive *d, core_call *call)
{
    (void)d;
    if (call->kind != CORE_CLAIM || call->status) return;
    call->u.claim.news.closed = true;
    for (int i = 0; i < call->u.claim.wants_count; i++) call->u.claim.wants[i].paused = true;
}

/* Its queue is paused and the store is closed, as one claim tells: what no worker has begun is called back once. */
static void for_two_reasons_it_is_called_back_once(void **state)
{
    drive *d = begin_brief(state);
    fill(d, 3);
    d->meddle = pause_and_close;
    int recalls = d->recalls;
    core_wake(d->core, drive_now(d));
    drive_go(d);
    assert_int_equal(d->events[PAWL_EVENT_STORE_CLOSED], 1);
    assert_int_equal(d->recalls, recalls + 1);
    d->meddle = NULL;
    end_all(d, 0);
}

static void of_a_draining_engine_it_goes_back_to_the_store(void **state)
{
    drive *d = begin_brief(state);
    fill(d, 20);
    core_drain(d->core, drive_now(d));
    drive_go(d);
    assert_true(d->recalls > 0);
    pawl_id id = recall(d, WORKERS);
    assert_int_equal(drive_state(d, id), PAWL_PENDING);
    end_all(d, 0);
    assert_int_equal(d->drained, 1);
}

/* The node's own deadline passed: the lease may be gone, and only the store knows. */
static void what_may_be_lost_is_given_back_by_its_fence(void **state)
{
    drive *d = begin_brief(state);
    fill(d, 20);
    d->fail_before = 1u << CORE_RENEW;
    drive_advance(d, 2 * PAWL_MINUTE);
    assert_int_equal(d->stops[d->stops_count - 1], PAWL_STOP_LEASE_LOST);
    assert_int_equal(core_lease_deadline(d->core), 0); /* nothing may begin */
    d->fail_before = 0;
    pawl_id id = recall(d, WORKERS);
    drive_advance(d, PAWL_SECOND);
    core_task_state held;
    assert_false(core_holds(d->core, id, &held) && held == CORE_RUNNING);
    end_all(d, 0);
    drive_advance(d, PAWL_MINUTE);
    end_all(d, 0);
    assert_int_equal(drive_state(d, id), PAWL_SUCCEEDED);
}

/* A run that only waited for a worker has not timed out. */
static void waiting_for_a_worker_is_no_timeout(void **state)
{
    drive *d = drive_begin(state, (core_config){.surplus = SURPLUS},
                           (core_queue_config){.workers = WORKERS, .capacity = 100, .policy = {.timeout_us = PAWL_SECOND}});
    drive_start(d);
    for (int i = 0; i < BRIEF; i++) {
        drive_dispatch(d, "t", NULL, 0);
        end_all(d, 0);
        drive_advance(d, 100);
    }
    fill(d, 20);
    drive_advance(d, 2 * PAWL_SECOND);
    pawl_id id = recall(d, WORKERS);
    assert_int_equal(drive_state(d, id), PAWL_LEASED);
    end_all(d, 0);
    assert_int_equal(drive_state(d, id), PAWL_SUCCEEDED);
}

/* Tasks under a concurrency limit are not claimed ahead. Those that wait start when a worker is free, and no timer is needed for that. */
static void what_is_not_claimed_ahead_follows_at_once(void **state)
{
    drive *d = drive_begin(state, (core_config){0}, (core_queue_config){.workers = WORKERS, .capacity = 100});
    pawl_op bound = {.kind = PAWL_OP_BOUND};
    bound.u.bound.scope = PAWL_SCOPE_TYPE;
    bound.u.bound.name = "t";
    bound.u.bound.most = 10;
    drive_start(d);
    for (int i = 0; i < BRIEF; i++) { /* so that it would claim ahead */
        drive_dispatch(d, "t", NULL, 0);
        end_all(d, 0);
        drive_advance(d, 100);
    }
    drive_submit(d, bound);
    fill(d, 20);
    for (int i = 0; i < 18; i++) {
        assert_int_equal(d->runs_count, WORKERS);
        core_outcome outcome = lasted(d, 0);
        drive_end_with(d, 0, &outcome);
    }
    end_all(d, 0);
    assert_int_equal(d->settled_count, BRIEF + 20);
}

/* ---- tenants that take turns ---------------------------------------------------------------------------------------------- */

static drive *begin_fair(void **state, int64_t us)
{
    drive *d = drive_begin(state, (core_config){.surplus = SURPLUS},
                           (core_queue_config){.workers = WORKERS, .capacity = 100, .fair = true});
    drive_start(d);
    for (int i = 0; i < BRIEF; i++) {
        drive_dispatch(d, "t", NULL, 0);
        end_all(d, us);
        drive_advance(d, 100);
    }
    return d;
}

static int held(const drive *d)
{
    core_queue_numbers q;
    core_queue_get(d->core, 0, &q);
    return d->runs_count + q.ready;
}

/* What lies ready here is before everybody: no more than a moment's work. */
static void of_short_runs_some_are_claimed_before_their_turn(void **state)
{
    drive *d = begin_fair(state, 0);
    fill(d, 20);
    assert_int_equal(held(d), 2 * WORKERS);
    core_outcome slow = lasted(d, PAWL_SECOND);
    drive_end_with(d, 0, &slow);
    drive_end_with(d, 0, &slow);
    assert_int_equal(held(d), WORKERS);
}

static void others_wait_in_the_store_for_theirs(void **state)
{
    drive *d = begin_fair(state, 500);
    fill(d, 20);
    assert_int_equal(held(d), WORKERS);
}

static int pages;

static void more_pages(drive *d, core_call *call)
{
    (void)d;
    for (int i = 0; call->kind == CORE_APPLY && i < call->u.batch.count; i++) {
        pawl_op *op = call->u.batch.ops[i];
        if (op->kind != PAWL_OP_BOUND) continue;
        assert_int_equal(op->u.bound.scope, PAWL_SCOPE_TENANTS);
        assert_string_equal(op->u.bound.name, "default");
        assert_int_equal(op->u.bound.most, 1);
        assert_int_equal(op->u.bound.only_move, pages > 0); /* who ends the turns meanwhile has the last word */
        op->u.bound.more = ++pages < 3;
    }
}

/* A backlog from before the queue was fair moves page by page, while the engine works. */
static void what_was_there_before_is_shared_in_pages(void **state)
{
    drive *d = drive_begin(state, (core_config){0}, (core_queue_config){.workers = WORKERS, .capacity = 100, .fair = true});
    pages = 0;
    d->meddle = more_pages;
    drive_start(d);
    assert_int_equal(pages, 3);
    drive_dispatch(d, "t", NULL, 0);
    assert_int_equal(d->runs_count, 1);
    end_all(d, 0);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_teardown(name, drive_finish)
    const struct CMUnitTest tests[] = {
        TEST(only_short_runs_are_handed_out_ahead),
        TEST(short_runs_are_handed_out_ahead),
        TEST(a_long_run_ends_it),
        TEST(what_comes_back_is_first_and_waits_for_a_worker),
        TEST(what_was_cancelled_meanwhile_never_runs),
        TEST(of_a_paused_queue_it_goes_back_to_the_store),
        TEST(for_two_reasons_it_is_called_back_once),
        TEST(of_a_draining_engine_it_goes_back_to_the_store),
        TEST(what_may_be_lost_is_given_back_by_its_fence),
        TEST(waiting_for_a_worker_is_no_timeout),
        TEST(what_is_not_claimed_ahead_follows_at_once),
        TEST(of_short_runs_some_are_claimed_before_their_turn),
        TEST(others_wait_in_the_store_for_theirs),
        TEST(what_was_there_before_is_shared_in_pages),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
