/* The core, driven by hand on a real memory store: one promise or rule per test. The simulator covers what no one thinks of. */
#include "../unit/cmocka_all.h"
#include "base/alloc.h"
#include "base/text.h"
#include "drive.h"
#include <string.h>

static const pawl_outcome ok = {PAWL_RUN_OK, 0}, retry = {PAWL_RUN_RETRY, -1}, cancelled = {PAWL_RUN_CANCELLED, 0};

static drive *begin(void **state, int workers)
{
    return drive_begin(state, (core_config){0}, (core_queue_config){.workers = workers});
}

static void a_task_runs_and_is_settled(void **state)
{
    drive *d = begin(state, 2);
    drive_start(d);
    drive_dispatch(d, "t", NULL, 0);
    assert_int_equal(d->answers[0].status, PAWL_OK);
    assert_int_equal(d->answers[0].result, PAWL_OP_DONE);
    assert_int_equal(d->runs_count, 1);
    assert_int_equal(drive_state(d, d->answers[0].id), PAWL_LEASED);
    drive_end(d, 0, ok);
    assert_int_equal(d->settled[0].how, CORE_SETTLED_SUCCEEDED);
    assert_int_equal(drive_state(d, d->answers[0].id), PAWL_SUCCEEDED);
}

static void a_task_is_born_leased(void **state)
{
    drive *d = begin(state, 2);
    drive_start(d);
    int claims = d->calls[CORE_CLAIM];
    drive_dispatch(d, "t", NULL, 0);
    assert_int_equal(d->runs_count, 1);
    assert_int_equal(d->calls[CORE_CLAIM], claims);
}

static void what_is_dispatched_before_the_start_runs_after_it(void **state)
{
    drive *d = begin(state, 2);
    drive_dispatch(d, "t", NULL, 0);
    assert_int_equal(d->runs_count, 0);
    drive_start(d);
    assert_int_equal(d->runs_count, 1);
    drive_end(d, 0, ok);
}

static void a_delayed_task_waits_for_its_time(void **state)
{
    drive *d = begin(state, 2);
    drive_start(d);
    drive_dispatch(d, "t", NULL, PAWL_MINUTE);
    drive_advance(d, PAWL_MINUTE - 1);
    assert_int_equal(d->runs_count, 0);
    drive_advance(d, 1);
    assert_int_equal(d->runs_count, 1);
    drive_end(d, 0, ok);
}

static void a_failure_is_retried_until_its_attempts_are_used_up(void **state)
{
    drive *d = begin(state, 1);
    drive_start(d);
    drive_dispatch(d, "t", NULL, 0);
    for (int i = 0; i < 3; i++) {
        drive_end(d, 0, retry);
        assert_int_equal(d->settled[i].how, CORE_SETTLED_RETRY);
        assert_in_range(d->settled[i].delay_us, (400 << i) * PAWL_MILLISECOND, (500 << i) * PAWL_MILLISECOND);
        assert_int_equal(d->runs_count, 0);
        drive_advance(d, d->settled[i].delay_us);
        assert_int_equal(d->runs_count, 1);
    }
    drive_end(d, 0, retry);
    assert_int_equal(d->settled[3].how, CORE_SETTLED_FAILED);
    assert_int_equal(drive_state(d, d->answers[0].id), PAWL_FAILED);
}

static void workers_are_never_exceeded_and_the_rest_follows(void **state)
{
    drive *d = begin(state, 3);
    drive_start(d);
    for (int i = 0; i < 20; i++) drive_dispatch(d, "t", NULL, 0);
    for (int i = 0; i < 20; i++) {
        assert_in_range(d->runs_count, 1, 3);
        drive_end(d, 0, ok);
    }
    assert_int_equal(d->runs_count, 0);
    assert_int_equal(d->settled_count, 20);
}

static void an_unknown_type_is_left_alone(void **state)
{
    drive *d = begin(state, 2);
    drive_start(d);
    drive_dispatch(d, "other", NULL, 0);
    assert_int_equal(d->runs_count, 0);
    assert_int_equal(drive_state(d, d->answers[0].id), PAWL_PENDING);
}

static void an_unknown_commit_is_sent_again_under_its_number(void **state)
{
    drive *d = begin(state, 2);
    drive_start(d);
    d->lose_after = 1u << CORE_APPLY;
    drive_dispatch(d, "t", NULL, 0);
    assert_int_equal(d->answers_count, 0);
    d->lose_after = 0;
    drive_advance(d, PAWL_SECOND);
    assert_int_equal(d->answers_count, 1);
    assert_int_equal(d->answers[0].status, PAWL_OK);
    assert_int_equal(d->answers[0].result, PAWL_OP_DONE); /* not EXISTING, not COLLISION */
    assert_int_equal(d->runs_count, 1);
    drive_end(d, 0, ok);
}

static void a_failed_resend_does_not_end_the_doubt(void **state)
{
    drive *d = begin(state, 2);
    drive_start(d);
    d->lose_after = 1u << CORE_APPLY;
    drive_dispatch(d, "t", NULL, 0);
    d->lose_after = 0;
    d->fail_before = 1u << CORE_APPLY;
    drive_advance(d, PAWL_SECOND);
    assert_int_equal(d->answers_count, 0);
    d->fail_before = 0;
    drive_advance(d, 10 * PAWL_SECOND);
    assert_int_equal(d->answers[0].status, PAWL_OK);
    drive_end(d, 0, ok);
}

static void a_refused_commit_is_an_error_at_once(void **state)
{
    drive *d = begin(state, 2);
    drive_start(d);
    d->fail_before = 1u << CORE_APPLY;
    drive_dispatch(d, "t", NULL, 0);
    assert_int_equal(d->answers[0].status, PAWL_UNAVAILABLE);
    d->fail_before = 0;
    drive_advance(d, PAWL_SECOND);
    drive_dispatch(d, "t", NULL, 0);
    assert_int_equal(d->answers[1].status, PAWL_OK);
    drive_end(d, 0, ok);
}

static void giving_up_in_flight_is_unknown_with_the_id(void **state)
{
    drive *d = begin(state, 2);
    drive_start(d);
    drive_dispatch(d, "t", NULL, PAWL_HOUR); /* registers, takes ids */
    d->hold = 1u << CORE_APPLY;
    core_request *r = drive_dispatch(d, "t", NULL, 0);
    core_give_up(d->core, drive_now(d), r);
    drive_go(d);
    assert_int_equal(d->answers[1].status, PAWL_UNKNOWN);
    assert_true(d->answers[1].id > 0);
    assert_int_equal(d->drops_count, 1);
    d->hold = 0;
    drive_answer_held(d, 0, true, PAWL_OK);
    assert_int_equal(d->drops_count, 2);
    assert_int_equal(d->answers_count, 2);
    assert_int_equal(d->runs_count, 1); /* it was committed after all */
    drive_end(d, 0, ok);
}

static void an_outcome_survives_an_outage(void **state)
{
    drive *d = begin(state, 1);
    drive_start(d);
    drive_dispatch(d, "t", NULL, 0);
    d->fail_before = ~0u;
    drive_end(d, 0, ok);
    drive_advance(d, 10 * PAWL_SECOND);
    assert_int_equal(d->settled_count, 0);
    d->fail_before = 0;
    drive_advance(d, 10 * PAWL_SECOND);
    assert_int_equal(d->settled[0].how, CORE_SETTLED_SUCCEEDED);
}

static void past_its_own_deadline_runs_are_told_and_nothing_starts(void **state)
{
    drive *d = begin(state, 2);
    drive_start(d);
    drive_dispatch(d, "t", NULL, 0);
    d->fail_before = ~0u;
    drive_advance(d, 31 * PAWL_SECOND);
    assert_int_equal(d->stops_count, 1);
    assert_int_equal(d->stops[0], PAWL_STOP_LEASE_LOST);
    core_numbers n;
    core_numbers_get(d->core, drive_now(d), &n);
    assert_int_equal(n.lease_left_us, 0);
    assert_false(n.store_ok);
    d->fail_before = 0;
    drive_advance(d, 20 * PAWL_SECOND);
    drive_dispatch(d, "t", NULL, 0);
    assert_int_equal(d->runs_count, 2);
    drive_end(d, 0, ok); /* offered all the same: nobody rescued it */
    assert_int_equal(d->settled[0].how, CORE_SETTLED_SUCCEEDED);
    drive_end(d, 0, ok);
}

static void a_lease_is_renewed_only_while_held(void **state)
{
    drive *d = begin(state, 2);
    drive_start(d);
    drive_dispatch(d, "t", NULL, 0);
    drive_advance(d, PAWL_MINUTE);
    assert_in_range(d->calls[CORE_RENEW], 5, 7);
    drive_end(d, 0, ok);
    int renewals = d->calls[CORE_RENEW];
    drive_advance(d, 10 * PAWL_MINUTE);
    assert_int_equal(d->calls[CORE_RENEW], renewals);
}

static void idle_means_no_deadline(void **state)
{
    drive *d = begin(state, 2);
    drive_start(d);
    drive_dispatch(d, "t", NULL, 0);
    drive_end(d, 0, ok);
    drive_advance(d, PAWL_MINUTE);
    int calls = d->calls[CORE_CLAIM] + d->calls[CORE_APPLY] + d->calls[CORE_RENEW] + d->calls[CORE_SWEEP];
    drive_advance(d, 3 * PAWL_DAY);
    assert_int_equal(d->calls[CORE_CLAIM] + d->calls[CORE_APPLY] + d->calls[CORE_RENEW] + d->calls[CORE_SWEEP] - calls, 0);
    assert_true(core_deadline(d->core) == INT64_MAX);
}

static void a_claim_without_an_answer_is_reconciled(void **state)
{
    drive *d = begin(state, 1);
    drive_dispatch(d, "t", NULL, 0);
    d->lose_after = 1u << CORE_CLAIM;
    drive_start(d);
    assert_int_equal(d->runs_count, 0);
    d->lose_after = 0;
    drive_advance(d, PAWL_SECOND);
    assert_int_equal(drive_state(d, d->answers[0].id), PAWL_LEASED); /* to us, and we do not know */
    drive_advance(d, 25 * PAWL_SECOND);
    assert_int_equal(d->runs_count, 1);
    drive_end(d, 0, ok);
}

static void a_running_task_is_told_of_its_cancel(void **state)
{
    drive *d = begin(state, 1);
    drive_start(d);
    drive_dispatch(d, "t", NULL, 0);
    core_request *r = core_request_new(d->core, 1);
    r->ops[0].kind = PAWL_OP_CANCEL;
    r->ops[0].id = d->answers[0].id;
    core_submit(d->core, drive_now(d), r);
    drive_go(d);
    assert_int_equal(d->answers[1].result, PAWL_OP_ASKED);
    assert_int_equal(d->stops[0], PAWL_STOP_CANCELLED);
    drive_end(d, 0, cancelled);
    assert_int_equal(drive_state(d, d->answers[0].id), PAWL_CANCELLED);
}

static void a_pause_gives_back_what_never_started(void **state)
{
    drive *d = begin(state, 1);
    drive_start(d);
    for (int i = 0; i < 200; i++) { /* fast enough for prefetch */
        drive_dispatch(d, "t", NULL, 0);
        drive_dispatch(d, "t", NULL, 0);
        while (d->runs_count > 0) drive_end(d, 0, ok);
        drive_advance(d, 100);
    }
    int first = d->answers_count;
    for (int i = 0; i < 5; i++) drive_dispatch(d, "t", NULL, 0);
    assert_int_equal(drive_state(d, d->answers[first + 4].id), PAWL_LEASED); /* held ready here */
    core_request *r = core_request_new(d->core, 1);
    r->ops[0].kind = PAWL_OP_QUEUE;
    r->ops[0].u.queue.queue = "default";
    r->ops[0].u.queue.pause = true;
    core_submit(d->core, drive_now(d), r);
    drive_go(d);
    drive_end(d, 0, ok);
    assert_int_equal(d->runs_count, 0);
    for (int i = 1; i < 5; i++) assert_int_equal(drive_state(d, d->answers[first + i].id), PAWL_PENDING);
}

/* Asked again while it drains, or when it has stopped: it is drained once. */
static void a_drain_that_is_asked_twice(void **state)
{
    drive *d = begin(state, 1);
    drive_start(d);
    drive_dispatch(d, "t", NULL, 0);
    for (int i = 0; i < 2; i++) {
        core_drain(d->core, drive_now(d));
        drive_go(d);
        assert_int_equal(d->drained, 0);
    }
    drive_end(d, 0, ok);
    assert_int_equal(d->drained, 1);
    core_stop(d->core, drive_now(d), PAWL_SECOND, PAWL_SECOND);
    core_drain(d->core, drive_now(d));
    drive_go(d);
    drive_advance(d, 5 * PAWL_SECOND);
    assert_int_equal(d->stopped, 1);
    assert_int_equal(d->drained, 1);
}

/* Behind the cork what is there gathers; while the store does not answer there is nothing to carry to it. */
static void what_is_kept_behind_the_cork(void **state)
{
    drive *d = begin(state, 1);
    drive_start(d);
    d->hold = 1u << CORE_APPLY;
    drive_dispatch(d, "t", NULL, 0);
    core_cork(d->core, true);
    assert_int_equal(core_keeps(d->core), CORE_KEPT_NOTHING); /* it is on its way */
    d->hold = 0;
    drive_answer_held(d, 0, true, PAWL_OK);
    assert_int_equal(core_keeps(d->core), CORE_KEPT_NOTHING);
    drive_end(d, 0, ok);
    assert_int_equal(core_keeps(d->core), CORE_KEPT_OUTCOMES);
    drive_dispatch(d, "t", NULL, 0);
    assert_int_equal(core_keeps(d->core), CORE_KEPT_REQUESTS);
    d->lose_before = 1u << CORE_APPLY;
    core_cork(d->core, false);
    assert_int_equal(core_keeps(d->core), CORE_KEPT_NOTHING);
    drive_advance(d, 0);
    core_cork(d->core, true);
    assert_int_equal(core_keeps(d->core), CORE_KEPT_NOTHING); /* it goes again, but not yet */
    d->lose_before = 0;
    while (core_keeps(d->core) == CORE_KEPT_NOTHING) {
        assert_true(core_deadline(d->core) < INT64_MAX);
        drive_advance(d, 10 * PAWL_MILLISECOND);
    }
    assert_int_equal(core_keeps(d->core), CORE_KEPT_OUTCOMES); /* now it does */
    core_cork(d->core, false);
    drive_advance(d, PAWL_SECOND);
    assert_int_equal(drive_state(d, d->answers[0].id), PAWL_SUCCEEDED);
    assert_int_equal(d->runs_count, 1);
    drive_end(d, 0, ok);
}

static void a_drain_gives_back_what_never_started(void **state)
{
    drive *d = begin(state, 1);
    drive_start(d);
    drive_dispatch(d, "t", NULL, 0);
    drive_dispatch(d, "t", NULL, 0);
    core_drain(d->core, drive_now(d));
    drive_go(d);
    assert_int_equal(d->drained, 0);
    drive_end(d, 0, ok);
    assert_int_equal(d->drained, 1);
    assert_int_equal(d->runs_count, 0);
    assert_int_equal(drive_state(d, d->answers[1].id), PAWL_PENDING);
    drive_start(d);
    assert_int_equal(d->runs_count, 1);
    drive_end(d, 0, ok);
}

static void a_stop_asks_after_the_grace_and_interruptions_cost_nothing(void **state)
{
    drive *d = begin(state, 1);
    drive_start(d);
    drive_dispatch(d, "t", NULL, 0);
    core_stop(d->core, drive_now(d), 30 * PAWL_SECOND, 5 * PAWL_SECOND);
    drive_go(d);
    drive_advance(d, 29 * PAWL_SECOND);
    assert_int_equal(d->stops_count, 0);
    drive_advance(d, PAWL_SECOND);
    assert_int_equal(d->stops[0], PAWL_STOP_SHUTDOWN);
    drive_end(d, 0, retry);
    assert_int_equal(d->stopped, 1);
    assert_int_equal(d->stuck, 0);
    assert_int_equal(d->settled[0].how, CORE_SETTLED_RELEASED);
    assert_int_equal(drive_state(d, d->answers[0].id), PAWL_PENDING);
}

static void a_stop_tells_of_the_stuck(void **state)
{
    drive *d = begin(state, 1);
    drive_start(d);
    drive_dispatch(d, "t", NULL, 0);
    core_stop(d->core, drive_now(d), 0, 5 * PAWL_SECOND);
    drive_advance(d, 6 * PAWL_SECOND);
    assert_int_equal(d->stopped, 1);
    assert_int_equal(d->stuck, 1);
    assert_int_equal(drive_state(d, d->answers[0].id), PAWL_LEASED);
    drive_end(d, 0, ok);
}

static void a_lapsed_node_is_rescued_and_its_late_outcome_refused(void **state)
{
    drive *a = begin(state, 1), b;
    drive_open(&b, "memory:core-shared", 1, a->now);
    drive c;
    drive_open(&c, "memory:core-shared", 1, a->now);
    drive_start(&b);
    drive_dispatch(&b, "t", NULL, 0);
    assert_int_equal(b.runs_count, 1);
    drive_start(&c);
    drive_advance(&c, 90 * PAWL_SECOND); /* b does not move meanwhile */
    assert_int_equal(c.runs_count, 1);
    assert_true(c.runs[0]->fence > b.runs[0]->fence);
    drive_end(&b, 0, ok);
    assert_int_equal(b.settled[0].how, CORE_SETTLED_LOST);
    drive_end(&c, 0, ok);
    assert_int_equal(c.settled[0].how, CORE_SETTLED_SUCCEEDED);
    drive_close(&b);
    drive_close(&c);
}

/* Names of up to 200 bytes do not fit into an event: they are cut between characters. */
static void what_an_event_says_is_text(void **state)
{
    drive *d = begin(state, 1);
    core_action a;
    char type[201] = "";
    for (int i = 0; i < 100; i++) strcat(type, "\xc3\xa9");
    pawl_body body = {.type = type, .queue = "default", .tenant = ""};
    core_request *r = core_request_new(d->core, 1);
    r->ops[0] = (pawl_op){.kind = PAWL_OP_INSERT, .u.insert.body = pawl_body_copy(alloc_default(), &body)};
    core_submit(d->core, drive_now(d), r);
    bool seen = false;
    while (core_next(d->core, &a)) {
        if (a.kind == CORE_CALL) {
            store_call(d->store, a.call);
            core_answered(d->core, drive_now(d), a.call);
        } else if (a.kind == CORE_EVENT && a.event.kind == PAWL_EVENT_DISPATCHED) {
            seen = true;
            assert_int_equal(strlen(a.event.type), 62);
            assert_true(utf8_valid(a.event.type, 62));
        } else if (a.kind == CORE_DROP) {
            core_request_free(d->core, a.request);
        }
    }
    assert_true(seen);
}

/* The first claim blocks one task and offers its place to another. */
static void offer_once(drive *d, core_call *call)
{
    if (call->kind == CORE_CLAIM) call->u.claim.news.unblocked = d->calls[CORE_CLAIM] == 1;
}

static void what_its_own_claim_unblocked_is_claimed_at_once(void **state)
{
    drive *d = begin(state, 2);
    d->meddle = offer_once;
    drive_start(d);
    assert_int_equal(d->calls[CORE_CLAIM], 2);
}

#define TEST(name) cmocka_unit_test_teardown(name, drive_finish)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(a_task_runs_and_is_settled),
        TEST(a_task_is_born_leased),
        TEST(what_is_dispatched_before_the_start_runs_after_it),
        TEST(a_delayed_task_waits_for_its_time),
        TEST(a_failure_is_retried_until_its_attempts_are_used_up),
        TEST(workers_are_never_exceeded_and_the_rest_follows),
        TEST(an_unknown_type_is_left_alone),
        TEST(an_unknown_commit_is_sent_again_under_its_number),
        TEST(a_failed_resend_does_not_end_the_doubt),
        TEST(a_refused_commit_is_an_error_at_once),
        TEST(giving_up_in_flight_is_unknown_with_the_id),
        TEST(an_outcome_survives_an_outage),
        TEST(past_its_own_deadline_runs_are_told_and_nothing_starts),
        TEST(a_lease_is_renewed_only_while_held),
        TEST(idle_means_no_deadline),
        TEST(a_claim_without_an_answer_is_reconciled),
        TEST(a_running_task_is_told_of_its_cancel),
        TEST(a_pause_gives_back_what_never_started),
        TEST(a_drain_gives_back_what_never_started),
        TEST(a_drain_that_is_asked_twice),
        TEST(what_is_kept_behind_the_cork),
        TEST(a_stop_asks_after_the_grace_and_interruptions_cost_nothing),
        TEST(a_stop_tells_of_the_stuck),
        TEST(a_lapsed_node_is_rescued_and_its_late_outcome_refused),
        TEST(what_an_event_says_is_text),
        TEST(what_its_own_claim_unblocked_is_claimed_at_once),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
