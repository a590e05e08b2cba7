/* What callers ask, driven by hand: full queues, ids that are taken, giving up, batches that are full. */
#include "../unit/cmocka_all.h"
#include "base/alloc.h"
#include "drive.h"
#include <string.h>

static const pawl_outcome ok = {PAWL_RUN_OK, 0}, never = {PAWL_RUN_FAIL, 0};

static pawl_op insert(const char *queue, const char *key)
{
    pawl_body body = {.type = "t", .queue = queue, .tenant = "", .key = key, .payload = {"{}", 2}};
    return (pawl_op){.kind = PAWL_OP_INSERT, .u.insert.body = pawl_body_copy(alloc_default(), &body)};
}

/* Several inserts that are stored together. */
static core_request *bulk(drive *d, int count, const char *queue)
{
    core_request *r = core_request_new(d->core, count);
    for (int i = 0; i < count; i++) r->ops[i] = insert(queue, NULL);
    return r;
}

static void submit(drive *d, core_request *r)
{
    core_submit(d->core, drive_now(d), r);
    drive_go(d);
}

/* ---- ids that are taken ---- */

static void a_taken_id_is_drawn_anew_and_the_rest_is_stored_once(void **state)
{
    drive *d = drive_begin(state, (core_config){0}, (core_queue_config){.workers = 4});
    drive_start(d);
    drive_dispatch(d, "t", NULL, 0);
    pawl_id taken = d->answers[0].id;
    core_request *r = bulk(d, 3, "default");
    pawl_body_free(alloc_default(), r->ops[2].u.insert.body);
    r->ops[2] = insert("default", "k");
    r->ops[1].id = taken; /* which nobody said might be */
    d->events[PAWL_EVENT_DISPATCHED] = 0;
    submit(d, r);
    assert_int_equal(d->answers_count, 2);
    assert_int_equal(d->answers[1].status, PAWL_OK);
    assert_int_equal(d->runs_count, 4);
    assert_int_equal(d->events[PAWL_EVENT_DISPATCHED], 3);
    for (int i = 0; i < 4; i++)
        for (int k = 0; k < i; k++) assert_true(d->runs[i]->body->id != d->runs[k]->body->id);
    while (d->runs_count > 0) drive_end(d, 0, ok);
}

/* While it goes again, what is stored already is no longer in anybody's way. */
static void what_is_stored_holds_no_key(void **state)
{
    drive *d = drive_begin(state, (core_config){0}, (core_queue_config){.workers = 1});
    drive_start(d);
    drive_dispatch(d, "t", NULL, PAWL_HOUR);
    core_request *r = bulk(d, 2, "default");
    pawl_body_free(alloc_default(), r->ops[0].u.insert.body);
    r->ops[0] = insert("default", "k");
    r->ops[1].id = d->answers[0].id;
    d->hold = 1u << CORE_APPLY;
    submit(d, r);
    drive_answer_held(d, 0, true, PAWL_OK); /* the first is stored, the second goes again */
    assert_int_equal(d->answers_count, 1);
    assert_int_equal(d->held_count, 1);
    drive_submit(d, (pawl_op){.kind = PAWL_OP_QUEUE, .u.queue = {.queue = "other"}});
    drive_answer_held(d, 0, true, PAWL_OK);
    assert_int_equal(d->answers[1].status, PAWL_OK);
    d->hold = 0;
    drive_answer_held(d, 0, true, PAWL_OK);
    drive_end(d, 0, ok);
    drive_end(d, 0, ok);
}

/* ---- full queues ---- */

static const core_queue_config small = {.workers = 0, .depth_limit = 3, .full = PAWL_FULL_WAIT};

static void what_never_fits_does_not_wait(void **state)
{
    drive *d = drive_begin(state, (core_config){0}, small);
    submit(d, bulk(d, 4, "default"));
    assert_int_equal(d->answers[0].status, PAWL_FULL);
    submit(d, bulk(d, 3, "default"));
    assert_int_equal(d->answers[1].status, PAWL_OK);
}

/* Four for two queues: neither is over its limit by itself. */
static void what_will_fit_waits(void **state)
{
    drive *d = drive_begin(state, (core_config){0}, small);
    submit(d, bulk(d, 2, "default"));
    pawl_id first = d->answers[0].id;
    core_request *r = bulk(d, 4, "default");
    for (int i = 2; i < 4; i++) {
        pawl_body_free(alloc_default(), r->ops[i].u.insert.body);
        r->ops[i] = insert("other", NULL);
    }
    submit(d, r);
    assert_int_equal(d->answers_count, 1);
    drive_submit(d, (pawl_op){.kind = PAWL_OP_CANCEL, .id = first});
    assert_int_equal(d->answers_count, 3);
    assert_int_equal(d->answers[2].status, PAWL_OK);
}

/* Both queues have a limit, and the one that is full is named first. */
static void room_in_any_of_its_queues_is_seen(void **state)
{
    drive *d = drive_begin(state, (core_config){0}, (core_queue_config){.workers = 1, .depth_limit = 1});
    core_queue_config other = {.name = "other", .depth_limit = 5};
    assert_int_equal(core_add_queue(d->core, &other), PAWL_OK);
    drive_start(d);
    submit(d, bulk(d, 1, "default"));
    core_request *r = bulk(d, 2, "default");
    pawl_body_free(alloc_default(), r->ops[1].u.insert.body);
    r->ops[1] = insert("other", NULL);
    submit(d, r);
    assert_int_equal(d->answers_count, 1);
    drive_end(d, 0, ok);
    assert_int_equal(d->answers_count, 2);
    assert_int_equal(d->answers[1].status, PAWL_OK);
    drive_end(d, 0, ok);
}

static void a_limit_says_what_is_done_whoever_comes_with_it(void **state)
{
    drive *d = drive_begin(state, (core_config){0}, (core_queue_config){.depth_limit = 2, .full = PAWL_FULL_REJECT});
    submit(d, bulk(d, 2, "default"));
    core_request *r = bulk(d, 2, "default");
    pawl_body_free(alloc_default(), r->ops[1].u.insert.body);
    r->ops[1] = insert("elsewhere", NULL);
    submit(d, r);
    assert_int_equal(d->answers[1].status, PAWL_FULL);
}

static void who_gives_up_waiting_hears_that_it_is_full(void **state)
{
    drive *d = drive_begin(state, (core_config){0}, small);
    submit(d, bulk(d, 3, "default"));
    core_request *r = bulk(d, 1, "default");
    submit(d, r);
    assert_int_equal(d->answers_count, 1);
    core_give_up(d->core, drive_now(d), r);
    core_give_up(d->core, drive_now(d), r); /* answered: nothing more to say */
    drive_go(d);
    assert_int_equal(d->answers_count, 2);
    assert_int_equal(d->answers[1].status, PAWL_FULL);
}

static void a_queue_that_nobody_configured_is_as_deep_as_the_rest(void **state)
{
    drive *d = drive_begin(state, (core_config){.depth_is_capacity = true, .capacity = 2}, small);
    submit(d, bulk(d, 2, "elsewhere"));
    core_request *r = bulk(d, 1, "elsewhere");
    submit(d, r);
    assert_int_equal(d->answers_count, 1); /* waits */
    core_request *other = bulk(d, 4, "default");
    submit(d, other); /* never fits, and is not the one that waits */
    assert_int_equal(d->answers[1].status, PAWL_FULL);
    drive_submit(d, (pawl_op){.kind = PAWL_OP_CANCEL, .id = d->answers[0].id});
    assert_int_equal(d->answers[3].status, PAWL_OK);
}

static void a_fallback_takes_what_is_full_elsewhere(void **state)
{
    core_queue_config overflowing = {.name = "narrow", .depth_limit = 1, .full = PAWL_FULL_FALLBACK};
    drive *d = drive_begin(state, (core_config){0}, overflowing);
    core_queue_config wide = {.name = "default", .workers = 1, .capacity = 10, .depth_limit = 10};
    assert_int_equal(core_add_queue(d->core, &wide), PAWL_OK);
    submit(d, bulk(d, 1, "narrow"));
    core_request *r = bulk(d, 2, "narrow");
    pawl_body_free(alloc_default(), r->ops[1].u.insert.body);
    r->ops[1] = insert("elsewhere", NULL);
    submit(d, r);
    assert_int_equal(d->answers[1].status, PAWL_OK);
    drive_start(d);
    assert_int_equal(d->runs_count, 1); /* nobody serves the narrow one, and the third stayed where it belongs */
    assert_int_equal(d->runs[0]->body->id, d->answers[1].id);
    drive_end(d, 0, ok);
    assert_int_equal(d->runs_count, 0);
}

/* ---- what the store cannot hold ---- */

static void refuse_inserts(drive *d, core_call *call)
{
    (void)d;
    for (int i = 0; call->kind == CORE_APPLY && i < call->u.batch.count; i++)
        if (call->u.batch.ops[i]->kind == PAWL_OP_INSERT) call->u.batch.ops[i]->result = PAWL_OP_REFUSED;
}

static void a_refused_task_is_told_and_never_runs(void **state)
{
    drive *d = drive_begin(state, (core_config){0}, (core_queue_config){.workers = 1});
    d->meddle = refuse_inserts;
    drive_dispatch(d, "t", NULL, PAWL_HOUR);
    assert_int_equal(d->answers[0].result, PAWL_OP_REFUSED);
    assert_int_equal(d->events[PAWL_EVENT_DISPATCHED], 0);
}

/* ---- batches ---- */

static void an_empty_request_is_answered_when_ids_can_be_drawn(void **state)
{
    drive *d = drive_begin(state, (core_config){0}, (core_queue_config){.workers = 1});
    assert_int_equal(core_draw_id(d->core, drive_now(d)), 0);
    d->hold = 1u << CORE_IDS;
    submit(d, core_request_new(d->core, 0));
    assert_int_equal(d->answers_count, 0);
    d->hold = 0;
    drive_answer_held(d, 0, true, PAWL_OK);
    assert_int_equal(d->answers[0].status, PAWL_OK);
    pawl_id first = core_draw_id(d->core, drive_now(d)), second = core_draw_id(d->core, drive_now(d));
    assert_true(first > 0 && second > first);
    assert_int_equal(d->calls[CORE_APPLY], 0);
    core_request_free(d->core, NULL);
}

static void a_retry_takes_the_id_it_was_given(void **state)
{
    drive *d = drive_begin(state, (core_config){0}, (core_queue_config){.workers = 1});
    drive_start(d);
    drive_dispatch(d, "t", NULL, 0);
    drive_end(d, 0, never);
    pawl_id id = core_draw_id(d->core, drive_now(d));
    drive_submit(d,
                 (pawl_op){.kind = PAWL_OP_RETRY, .id = d->answers[0].id, .audit = PAWL_AUDIT_NONE, .u.retry = {.new_id = id}});
    assert_int_equal(d->answers[1].result, PAWL_OP_DONE);
    assert_int_equal(d->runs[0]->body->id, id);
    drive_end(d, 0, ok);
}

static int most_ops, batches;

static void measure(drive *d, core_call *call)
{
    (void)d;
    if (call->kind != CORE_APPLY) return;
    batches++;
    if (call->u.batch.count > most_ops) most_ops = call->u.batch.count;
}

/* Six requests of some 260 bytes each, 600 in a batch: what gathers while one is on its way goes in several. */
static void a_batch_is_bounded_in_bytes(void **state)
{
    drive *d = drive_begin(state, (core_config){.batch_bytes = 600}, (core_queue_config){.workers = 6});
    drive_start(d);
    drive_dispatch(d, "t", NULL, PAWL_DAY); /* registers, takes ids */
    d->hold = 1u << CORE_APPLY;
    for (int i = 0; i < 7; i++) drive_dispatch(d, "t", NULL, 0);
    d->hold = 0;
    d->meddle = measure;
    most_ops = batches = 0;
    drive_answer_held(d, 0, true, PAWL_OK);
    assert_int_equal(d->answers_count, 8);
    assert_in_range(most_ops, 1, 2);
    assert_true(batches >= 4);

    d->hold = 1u << CORE_APPLY; /* and the ends of six runs, 256 bytes each */
    while (d->runs_count > 0) drive_end(d, 0, ok);
    d->hold = 0;
    most_ops = 0;
    drive_answer_held(d, 0, true, PAWL_OK);
    while (d->runs_count > 0) drive_end(d, 0, ok);
    assert_int_equal(d->settled_count, 7);
    assert_in_range(most_ops, 1, 3);
}

static void two_lanes_commit_side_by_side(void **state)
{
    drive *d = drive_begin(state, (core_config){.lanes = 2}, (core_queue_config){.workers = 2});
    drive_dispatch(d, "t", NULL, PAWL_HOUR);
    d->hold = 1u << CORE_APPLY;
    drive_dispatch(d, "t", NULL, PAWL_HOUR);
    drive_dispatch(d, "t", NULL, PAWL_HOUR);
    assert_int_equal(d->held_count, 2);
    assert_true(d->held[0]->lane != d->held[1]->lane);
    d->hold = 0;
    drive_answer_held(d, 1, true, PAWL_OK);
    drive_answer_held(d, 0, true, PAWL_OK);
    assert_int_equal(d->answers_count, 3);
}

/* ---- audit levels: task, handler, queue, engine ---- */

static pawl_audit level_seen;

static void note_level(drive *d, core_call *call)
{
    (void)d;
    if (call->kind == CORE_APPLY && call->u.batch.count > 0) level_seen = call->u.batch.ops[0]->audit;
}

static pawl_audit level_of(void **state, pawl_audit handler, pawl_audit queue, pawl_audit engine, pawl_audit task)
{
    policy wide = policy_default();
    wide.audit = engine;
    drive *d = drive_begin(state, (core_config){.engine = wide}, (core_queue_config){.workers = 1, .policy.audit = queue});
    core_handler_config h = {.type = "levelled", .policy.audit = handler};
    assert_int_equal(core_add_handler(d->core, &h), PAWL_OK);
    pawl_body body = {.type = "levelled", .queue = "default", .tenant = "", .audit = task};
    d->meddle = note_level;
    drive_submit(d, (pawl_op){.kind = PAWL_OP_INSERT, .u.insert.body = pawl_body_copy(alloc_default(), &body)});
    return level_seen;
}

static void the_narrowest_audit_level_counts(void **state)
{
    static const struct {
        pawl_audit handler, queue, engine, task, expected;
    } cases[] = {{PAWL_AUDIT_ERRORS, PAWL_AUDIT_MINIMAL, PAWL_AUDIT_FULL, PAWL_AUDIT_NONE, PAWL_AUDIT_NONE},
                 {PAWL_AUDIT_ERRORS, PAWL_AUDIT_MINIMAL, PAWL_AUDIT_FULL, 0, PAWL_AUDIT_ERRORS},
                 {0, PAWL_AUDIT_MINIMAL, PAWL_AUDIT_FULL, 0, PAWL_AUDIT_MINIMAL},
                 {0, 0, PAWL_AUDIT_ERRORS, 0, PAWL_AUDIT_ERRORS},
                 {0, 0, 0, 0, PAWL_AUDIT_FULL}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        assert_int_equal(level_of(state, cases[i].handler, cases[i].queue, cases[i].engine, cases[i].task), cases[i].expected);
        if (i + 1 < sizeof cases / sizeof *cases) drive_finish(state);
    }
}

/* A claim without an answer, then a cancel of what it brought: given back, the task ends, and its place is free. */
static void a_lease_given_back_that_ends_leaves_room(void **state)
{
    drive *d = drive_begin(state, (core_config){0}, (core_queue_config){.workers = 1, .depth_limit = 1, .full = PAWL_FULL_WAIT});
    drive_dispatch(d, "t", NULL, 0);
    d->lose_after = 1u << CORE_CLAIM;
    drive_start(d);
    d->lose_after = 0;
    drive_dispatch(d, "t", NULL, 0);
    drive_submit(d, (pawl_op){.kind = PAWL_OP_CANCEL, .id = d->answers[0].id});
    assert_int_equal(d->answers_count, 2); /* the second dispatch waits */
    assert_int_equal(d->answers[1].result, PAWL_OP_ASKED);
    drive_advance(d, 30 * PAWL_SECOND);
    assert_int_equal(drive_state(d, d->answers[0].id), PAWL_CANCELLED);
    assert_int_equal(d->answers_count, 3);
    assert_int_equal(d->answers[2].status, PAWL_OK);
    drive_end(d, 0, ok);
}

#define TEST(name) cmocka_unit_test_teardown(name, drive_finish)

/* What a caller's commit leaves behind goes with the next one. */
static void a_cork_keeps_outcomes_for_the_next_to_carry(void **state)
{
    drive *d = drive_begin(state, (core_config){0}, (core_queue_config){.workers = 1});
    drive_start(d);
    drive_dispatch(d, "t", NULL, 0);
    int commits = d->calls[CORE_APPLY];
    core_cork(d->core, true);
    assert_int_equal(core_keeps(d->core), CORE_KEPT_NOTHING);
    drive_end(d, 0, (pawl_outcome){PAWL_RUN_OK, 0});
    assert_int_equal(core_keeps(d->core), CORE_KEPT_OUTCOMES);
    drive_dispatch(d, "t", NULL, 0);
    assert_int_equal(core_keeps(d->core), CORE_KEPT_REQUESTS);
    assert_int_equal(d->calls[CORE_APPLY], commits);
    core_cork(d->core, false);
    assert_int_equal(core_keeps(d->core), CORE_KEPT_NOTHING);
    core_go(d->core, drive_now(d));
    drive_go(d);
    assert_int_equal(d->calls[CORE_APPLY], commits + 1);
    assert_int_equal(d->settled_count, 1);
    assert_int_equal(d->runs_count, 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(a_taken_id_is_drawn_anew_and_the_rest_is_stored_once),
        TEST(what_is_stored_holds_no_key),
        TEST(what_never_fits_does_not_wait),
        TEST(what_will_fit_waits),
        TEST(room_in_any_of_its_queues_is_seen),
        TEST(a_lease_given_back_that_ends_leaves_room),
        TEST(a_limit_says_what_is_done_whoever_comes_with_it),
        TEST(who_gives_up_waiting_hears_that_it_is_full),
        TEST(a_queue_that_nobody_configured_is_as_deep_as_the_rest),
        TEST(a_fallback_takes_what_is_full_elsewhere),
        TEST(a_refused_task_is_told_and_never_runs),
        TEST(an_empty_request_is_answered_when_ids_can_be_drawn),
        TEST(a_retry_takes_the_id_it_was_given),
        TEST(a_batch_is_bounded_in_bytes),
        TEST(two_lanes_commit_side_by_side),
        TEST(the_narrowest_audit_level_counts),
        TEST(a_cork_keeps_outcomes_for_the_next_to_carry),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
