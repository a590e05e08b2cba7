/* The node, driven by hand: rescue in pages, many dead at once, retention, leaving, numbers for ids, memory that runs out. */
#include "../unit/cmocka_all.h"
#include "../unit/test_allocator.h"
#include "base/alloc.h"
#include "drive.h"
#include <string.h>

#define MANY 1100 /* more than are looked at in one reconciliation, or freed in one rescue */

static const pawl_outcome ok = {PAWL_RUN_OK, 0}, never = {PAWL_RUN_FAIL, 0};

static core_queue_config served(int workers) { return (core_queue_config){.workers = workers, .capacity = 2 * MANY}; }

/* So many tasks in one commit. */
static void dispatch_many(drive *d, int count)
{
    pawl_body body = {.type = "t", .queue = "default", .tenant = ""};
    core_request *r = core_request_new(d->core, count);
    for (int i = 0; i < count; i++)
        r->ops[i] = (pawl_op){.kind = PAWL_OP_INSERT, .u.insert.body = pawl_body_copy(alloc_default(), &body)};
    core_submit(d->core, drive_now(d), r);
    drive_go(d);
}

static int64_t leased(drive *d)
{
    pawl_query q = {.kind = PAWL_QUERY_STATS, .window_us = PAWL_HOUR};
    pawl_arena *arena = arena_new(alloc_default(), 0);
    assert_int_equal(d->store->type->read(d->store, &q, arena, NULL), PAWL_OK);
    int64_t count = q.stats->leased;
    arena_free(arena);
    return count;
}

/* ---- rescue ---- */

static void many_leases_of_the_dead_are_freed_in_pages(void **state)
{
    drive *c = drive_begin(state, (core_config){0}, (core_queue_config){.workers = 1}), dead, d;
    drive_open_with(&dead, "memory:core-pages", (core_config){0}, served(MANY), c->now);
    drive_open_with(&d, "memory:core-pages", (core_config){0}, served(MANY), c->now);
    drive_start(&dead);
    dispatch_many(&dead, MANY);
    assert_int_equal(dead.runs_count, MANY);
    drive_close(&dead);
    drive_start(&d);
    drive_advance(&d, PAWL_SECOND);
    assert_int_equal(d.calls[CORE_RESCUE], 2);
    assert_int_equal(d.runs_count, MANY);
    assert_int_equal(d.events[PAWL_EVENT_RESCUED], MANY);
    while (d.runs_count > 0) drive_end(&d, d.runs_count - 1, ok);
    drive_close(&d);
}

static int64_t first_of_news;
static int64_t renewal_of_news;
static bool proven;

static void invent_news(drive *d, core_call *call)
{
    pawl_news *news = call->kind == CORE_RENEW ? &call->u.renewal.news : call->kind == CORE_CLAIM ? &call->u.claim.news : NULL;
    if (!news || call->status) return;
    news->lapsed_count = PAWL_LAPSED_MAX;
    for (int i = 0; i < PAWL_LAPSED_MAX; i++)
        news->lapsed[i] = (pawl_lapsed){.node = first_of_news + i, .renewal = renewal_of_news, .proven_dead = proven};
    (void)d;
}

/* The news name sixteen at most; other ones come later. Whoever is too many is named again. */
static void more_dead_nodes_than_fit_wait_their_turn(void **state)
{
    drive *d = drive_begin(state, (core_config){0}, (core_queue_config){.workers = 1});
    d->meddle = invent_news;
    d->hold = 1u << CORE_RESCUE;
    proven = true;
    first_of_news = 1000;
    drive_start(d);
    drive_dispatch(d, "t", NULL, 0);
    first_of_news = 2000;
    drive_advance(d, 15 * PAWL_SECOND);
    assert_int_equal(d->held_count, 1);
    assert_int_equal(d->held[0]->u.rescue.victim, 1000);
    d->meddle = NULL;
    d->hold = 0;
    drive_answer_held(d, 0, true, PAWL_OK);
    assert_true(d->calls[CORE_RESCUE] >= PAWL_LAPSED_MAX);
    drive_end(d, 0, ok);
}

/* Merely lapsed: none is rescued unless its renewal number stood still over two renewals of ours, and no more are watched than fit. */
static void who_renews_is_not_rescued(void **state)
{
    drive *d = drive_begin(state, (core_config){0}, (core_queue_config){.workers = 1});
    d->meddle = invent_news;
    d->hold = 1u << CORE_RESCUE;
    proven = false;
    first_of_news = 1000;
    renewal_of_news = 1;
    drive_start(d);
    drive_dispatch(d, "t", NULL, 0);
    for (int i = 0; i < 20; i++) {
        renewal_of_news++;
        drive_advance(d, 5 * PAWL_SECOND);
    }
    assert_int_equal(d->calls[CORE_RESCUE], 0);
    first_of_news = 1008; /* eight of them, and eight others for whom there is no room yet */
    drive_advance(d, PAWL_MINUTE);
    assert_int_equal(d->held_count, 1);
    assert_in_range(d->held[0]->u.rescue.victim, 1008, 1023);
    d->hold = 0;
    d->meddle = NULL;
    drive_answer_held(d, 0, true, PAWL_OK);
    drive_end(d, 0, ok);
}

/* One that gets leases all the time needs no renewals for itself, but makes them for the sake of others. */
static void a_busy_node_rescues(void **state)
{
    drive *d = drive_begin(state, (core_config){0}, (core_queue_config){.workers = 1});
    d->meddle = invent_news;
    d->hold = 1u << CORE_RESCUE;
    proven = false;
    first_of_news = 1000;
    renewal_of_news = 1;
    drive_start(d);
    for (int i = 0; i < 25; i++) {
        drive_dispatch(d, "t", NULL, 0);
        drive_end(d, 0, ok);
        drive_advance(d, PAWL_SECOND);
    }
    assert_int_equal(d->held_count, 1);
    d->hold = 0;
    d->meddle = NULL;
    drive_answer_held(d, 0, true, PAWL_OK);
}

/* ---- reconciliation ---- */

static void many_unknown_leases_are_given_back_in_turns(void **state)
{
    drive *d = drive_begin(state, (core_config){0}, served(MANY));
    dispatch_many(d, MANY);
    d->lose_after = 1u << CORE_CLAIM;
    drive_start(d);
    d->lose_after = 0;
    assert_int_equal(leased(d), MANY);
    assert_int_equal(d->runs_count, 0);
    drive_advance(d, 2 * PAWL_MINUTE);
    assert_int_equal(d->runs_count, MANY);
    while (d->runs_count > 0) drive_end(d, d->runs_count - 1, ok);
}

static bool anew;
static int releases;

/* As if the lease that nobody knows had ended, and begun anew. */
static void renew_fence(drive *d, core_call *call)
{
    for (int i = 0; anew && call->kind == CORE_HELD && i < call->u.held.count; i++)
        call->u.held.leases[i].fence += d->calls[CORE_HELD];
    for (int i = 0; call->kind == CORE_APPLY && i < call->u.batch.count; i++)
        releases += call->u.batch.ops[i]->kind == PAWL_OP_RELEASE;
}

/* Nobody knows it, but it is another one at each look: none of them has been there for long. */
static void a_lease_that_began_anew_is_not_given_back(void **state)
{
    drive *d = drive_begin(state, (core_config){0}, (core_queue_config){.workers = 1});
    drive_dispatch(d, "t", NULL, 0);
    d->lose_after = 1u << CORE_CLAIM;
    drive_start(d);
    d->lose_after = 0;
    d->meddle = renew_fence;
    anew = true;
    releases = 0;
    drive_advance(d, 70 * PAWL_SECOND);
    assert_true(d->calls[CORE_HELD] >= 5);
    assert_int_equal(releases, 0);
    anew = false;
    drive_advance(d, 25 * PAWL_SECOND);
    assert_int_equal(releases, 1);
    assert_int_equal(d->runs_count, 1);
    drive_end(d, 0, ok);
}

static void hold_nothing(drive *d, core_call *call)
{
    (void)d;
    if (call->kind == CORE_HELD) call->u.held.count = 0;
}

/* The store says that it does not hold what runs here; that its progress is on the way does not make it so. */
static void a_lost_lease_is_noticed_also_with_progress_under_way(void **state)
{
    drive *d = drive_begin(state, (core_config){0}, (core_queue_config){.workers = 1});
    drive_start(d);
    drive_dispatch(d, "t", NULL, 0);
    d->fail_before = ~0u;
    drive_advance(d, 12 * PAWL_SECOND); /* a renewal fails: there is something to compare */
    d->fail_before = 0;
    d->hold = 1u << CORE_APPLY;
    core_progress(d->core, drive_now(d), d->runs[0], 50, NULL);
    drive_go(d);
    d->meddle = hold_nothing;
    drive_advance(d, 12 * PAWL_SECOND);
    assert_int_equal(d->stops[0], PAWL_STOP_LEASE_LOST);
    d->meddle = NULL;
    d->hold = 0;
    drive_answer_held(d, 0, true, PAWL_OK);
    drive_end(d, 0, ok);
}

/* ---- another life ---- */

/* Rescued while it drains: the outcome is offered by a new node, and refused. */
static void an_outcome_is_offered_also_by_a_node_that_was_declared_dead(void **state)
{
    drive *c = drive_begin(state, (core_config){0}, (core_queue_config){.workers = 1}), b, rescuer;
    drive_open(&b, "memory:core-reborn", 1, c->now);
    drive_open(&rescuer, "memory:core-reborn", 1, c->now);
    drive_start(&b);
    drive_dispatch(&b, "t", NULL, 0);
    core_drain(b.core, drive_now(&b));
    drive_go(&b);
    drive_start(&rescuer);
    drive_advance(&rescuer, 90 * PAWL_SECOND);
    assert_int_equal(rescuer.runs_count, 1);
    drive_advance(&b, 15 * PAWL_SECOND); /* renews, and hears of its death */
    assert_int_equal(b.stops[0], PAWL_STOP_LEASE_LOST);
    int registered = b.calls[CORE_REGISTER];
    drive_end(&b, 0, ok);
    assert_int_equal(b.calls[CORE_REGISTER], registered + 1);
    assert_int_equal(b.settled[0].how, CORE_SETTLED_LOST);
    assert_int_equal(b.drained, 1);
    drive_end(&rescuer, 0, ok);
    drive_close(&b);
    drive_close(&rescuer);
}

/* ---- ids ---- */

static void no_room(drive *d, core_call *call)
{
    if (call->kind != CORE_IDS || call->u.ids.give_back) return;
    call->u.ids.floor_ms = call->u.ids.ceiling_ms; /* as from a store whose clock is far behind */
    d->meddle = NULL;
}

static void numbers_without_room_are_asked_for_again(void **state)
{
    drive *d = drive_begin(state, (core_config){0}, (core_queue_config){.workers = 1});
    d->meddle = no_room;
    drive_dispatch(d, "t", NULL, PAWL_HOUR);
    assert_int_equal(d->answers_count, 0);
    drive_advance(d, 10 * PAWL_SECOND);
    assert_int_equal(d->answers[0].status, PAWL_OK);
    assert_true(d->calls[CORE_IDS] >= 2);
}

/* ---- retention ---- */

static const pawl_sweep short_memory = {.keep_succeeded_us = PAWL_SECOND,
                                        .keep_cancelled_us = PAWL_SECOND,
                                        .keep_resolved_us = PAWL_SECOND,
                                        .keep_failed_us = 2 * PAWL_DAY,
                                        .keep_audit_us = PAWL_SECOND,
                                        .keep_logs_us = PAWL_SECOND};

static void retention_goes_in_small_steps(void **state)
{
    drive *d = drive_begin(state, (core_config){.retention = short_memory}, served(MANY));
    drive_start(d);
    drive_advance(d, 6 * PAWL_SECOND); /* the first look, at nothing */
    dispatch_many(d, MANY);
    while (d->runs_count > 0) drive_end(d, d->runs_count - 1, ok);
    int sweeps = d->calls[CORE_SWEEP];
    drive_advance(d, 2 * PAWL_HOUR);
    assert_true(d->calls[CORE_SWEEP] - sweeps >= 3);
    assert_int_equal(drive_state(d, d->settled[0].id), PAWL_STATE_NONE);
    assert_int_equal(drive_state(d, d->settled[MANY - 1].id), PAWL_STATE_NONE);
}

static void dead_letters_that_will_go_are_told_of(void **state)
{
    drive *d = drive_begin(state, (core_config){.retention = short_memory}, (core_queue_config){.workers = 1});
    drive_start(d);
    drive_dispatch(d, "t", NULL, 0);
    drive_end(d, 0, never);
    drive_advance(d, 2 * PAWL_HOUR);
    assert_non_null(strstr(d->log, "1 unresolved dead letters will be removed within a week"));
}

/* ---- stopping ---- */

static void a_stop_goes_its_way_once(void **state)
{
    drive *d = drive_begin(state, (core_config){0}, (core_queue_config){.workers = 1});
    drive_start(d);
    drive_dispatch(d, "t", NULL, 0);
    core_stop(d->core, drive_now(d), PAWL_SECOND, PAWL_SECOND);
    core_stop(d->core, drive_now(d), PAWL_DAY, PAWL_DAY);
    core_drain(d->core, drive_now(d));
    drive_advance(d, PAWL_SECOND);
    assert_int_equal(d->stops[0], PAWL_STOP_SHUTDOWN);
    drive_end(d, 0, ok);
    assert_int_equal(d->stopped, 1);
    assert_int_equal(d->drained, 0);
    core_stop(d->core, drive_now(d), 0, 0); /* once more, from the end */
    drive_advance(d, PAWL_SECOND);
    assert_int_equal(d->stopped, 2);
}

/* Nobody carried out the first "stopped" when the second comes: it is said once. */
static void stuck_is_said_once(void **state)
{
    drive *d = drive_begin(state, (core_config){0}, (core_queue_config){.workers = 1});
    drive_start(d);
    drive_dispatch(d, "t", NULL, 0);
    for (int i = 0; i < 2; i++) {
        core_stop(d->core, drive_now(d), 0, 0);
        core_tick(d->core, drive_now(d));
        core_tick(d->core, drive_now(d));
    }
    drive_go(d);
    assert_int_equal(d->stopped, 1);
    assert_int_equal(d->stuck, 1);
    drive_end(d, 0, ok);
}

static void a_stop_waits_for_what_is_under_way(void **state)
{
    drive *d = drive_begin(state, (core_config){0}, (core_queue_config){.workers = 1});
    d->hold = 1u << CORE_IDS;
    core_request *r = drive_dispatch(d, "t", NULL, 0);
    core_give_up(d->core, drive_now(d), r);
    core_stop(d->core, drive_now(d), 0, PAWL_MINUTE);
    drive_go(d);
    assert_int_equal(d->stopped, 0);
    d->hold = 1u << CORE_LEAVE;
    drive_answer_held(d, 0, true, PAWL_OK);
    assert_int_equal(d->stopped, 0);
    core_stop(d->core, drive_now(d), PAWL_DAY, PAWL_DAY); /* it is as good as gone */
    d->hold = 0;
    drive_answer_held(d, 0, true, PAWL_OK);
    assert_int_equal(d->stopped, 1);
}

/* Started after it registered to dispatch, it serves as a new node; the old one's leaving is waited for, too. */
static void a_stop_waits_for_an_earlier_life_to_leave(void **state)
{
    drive *d = drive_begin(state, (core_config){0}, (core_queue_config){.workers = 1});
    drive_dispatch(d, "t", NULL, PAWL_HOUR);
    d->hold = 1u << CORE_LEAVE;
    drive_start(d);
    assert_int_equal(d->held_count, 1);
    core_stop(d->core, drive_now(d), 0, PAWL_MINUTE);
    drive_go(d);
    assert_int_equal(d->stopped, 0);
    d->hold = 0;
    drive_answer_held(d, 0, true, PAWL_OK);
    assert_int_equal(d->stopped, 1);
    assert_int_equal(d->calls[CORE_LEAVE], 2);
}

/* ---- birth and death of a core ---- */

static void a_queue_without_workers_is_not_served(void **state)
{
    drive *d = drive_begin(state, (core_config){0}, (core_queue_config){.workers = 0});
    core_queue_config other = {.name = "other", .workers = 1};
    assert_int_equal(core_add_queue(d->core, &other), PAWL_OK);
    drive_start(d);
    drive_dispatch(d, "t", NULL, 0);
    core_wake(d->core, drive_now(d));
    drive_go(d);
    assert_int_equal(d->runs_count, 0);
    pawl_query q = {.kind = PAWL_QUERY_NODES};
    pawl_arena *arena = arena_new(alloc_default(), 0);
    assert_int_equal(d->store->type->read(d->store, &q, arena, NULL), PAWL_OK);
    assert_string_equal(q.nodes->nodes[0].queues, "other");
    arena_free(arena);
}

static void little_is_needed_to_make_a_core(void **state)
{
    (void)state;
    core *c;
    core_queue_numbers q;
    core_time now = {.mono_us = PAWL_HOUR, .wall_us = INT64_C(1800000000) * PAWL_SECOND};
    assert_int_equal(core_new(&(core_config){.engine = policy_default()}, &c), PAWL_OK);
    core_queue_config queue = {.name = "default", .workers = 1};
    assert_int_equal(core_add_queue(c, &queue), PAWL_OK);
    assert_int_equal(core_start(c, now), PAWL_OK);
    assert_int_equal(core_queues(c), 1);
    core_queue_get(c, 0, &q);
    assert_string_equal(q.name, "default");
    core_free(c);
    core_free(NULL);
}

/* Actions that nobody fetched are freed with the core: a task that settled, a request that was answered, events. */
static void a_core_can_be_freed_at_any_moment(void **state)
{
    drive *d = drive_begin(state, (core_config){0}, (core_queue_config){.workers = 1});
    static const core_outcome done = {.outcome = {PAWL_RUN_OK, 0}, .progress = -1};
    core_action a;
    drive_start(d);
    drive_dispatch(d, "t", NULL, 0);
    core_finished(d->core, drive_now(d), d->runs[0], &done);
    assert_true(core_next(d->core, &a) && a.kind == CORE_CALL);
    store_call(d->store, a.call);
    core_answered(d->core, drive_now(d), a.call); /* CORE_SETTLED is to be fetched */
    core_request *r = core_request_new(d->core, 1);
    r->ops[0] = (pawl_op){.kind = PAWL_OP_CANCEL, .id = 1};
    core_submit(d->core, drive_now(d), r);
    core_give_up(d->core, drive_now(d), r); /* CORE_ANSWER and, with its batch, CORE_DROP */
    core_request *second = core_request_new(d->core, 1);
    second->ops[0] = (pawl_op){.kind = PAWL_OP_CANCEL, .id = 2};
    core_submit(d->core, drive_now(d), second);
    core_give_up(d->core, drive_now(d), second);
}

/* ---- memory ---- */

static bool build(test_allocator *memory, core **out)
{
    core_config config = {.allocator = &memory->allocator, .lanes = 2, .engine = policy_default(), .node_name = "n"};
    core_queue_config queue = {.name = "default", .workers = 1};
    core_handler_config handler = {.type = "t"};
    core_time now = {.mono_us = PAWL_HOUR, .wall_us = INT64_C(1800000000) * PAWL_SECOND};
    if (core_new(&config, out) != PAWL_OK) return false;
    if (core_add_queue(*out, &queue) == PAWL_OK && core_add_handler(*out, &handler) == PAWL_OK &&
        core_start(*out, now) == PAWL_OK)
        return true;
    core_free(*out);
    return false;
}

static void every_allocation_of_its_birth_may_fail(void **state)
{
    (void)state;
    test_allocator memory;
    core *c;
    long failed = 0;
    for (;; failed++) {
        test_allocator_init(&memory);
        memory.fail_at = failed + 1;
        if (build(&memory, &c)) break;
        assert_int_equal(memory.outstanding, 0);
    }
    core_free(c);
    assert_int_equal(memory.outstanding, 0);
    assert_true(failed > 20);
}

static void dispatch_from(drive *d, test_allocator *memory)
{
    pawl_body body = {.type = "t", .queue = "default", .tenant = ""};
    core_request *r = core_request_new(d->core, 1);
    r->ops[0] = (pawl_op){.kind = PAWL_OP_INSERT, .u.insert.body = pawl_body_copy(&memory->allocator, &body)};
    core_submit(d->core, drive_now(d), r);
    drive_go(d);
}

/* No memory for the lease of a task that is being dispatched: it is stored all the same, and claimed later. */
static void without_memory_a_task_is_not_born_leased(void **state)
{
    test_allocator memory;
    test_allocator_init(&memory);
    drive *d = drive_begin(state, (core_config){.allocator = &memory.allocator}, (core_queue_config){.workers = 1});
    core_want_events(d->core, false);
    drive_start(d);
    for (int i = 0; i < 200; i++) { /* fast enough for leases ahead of the worker */
        dispatch_from(d, &memory);
        while (d->runs_count > 0) drive_end(d, 0, ok);
        drive_advance(d, 100);
    }
    d->hold = 1u << CORE_CLAIM;
    dispatch_from(d, &memory);
    memory.fail_at = memory.calls + 4; /* after the request, its operation and its body */
    dispatch_from(d, &memory);
    assert_true(memory.calls >= memory.fail_at);
    assert_int_equal(d->answers[201].status, PAWL_OK);
    assert_int_equal(drive_state(d, d->answers[200].id), PAWL_LEASED);
    assert_int_equal(drive_state(d, d->answers[201].id), PAWL_PENDING);
    d->hold = 0;
    while (d->held_count > 0) drive_answer_held(d, 0, true, PAWL_OK);
    while (d->runs_count > 0) drive_end(d, 0, ok);
    assert_int_equal(d->settled_count, 202);
    core_free(d->core);
    d->core = NULL;
    assert_int_equal(memory.outstanding, 0);
}

/* It began to register in order to dispatch, and was started before that was answered: it serves as another node, which names its
 * queues. */
static void started_while_it_registers(void **state)
{
    drive *d = drive_begin(state, (core_config){0}, (core_queue_config){.workers = 1});
    d->hold = 1u << CORE_REGISTER;
    drive_dispatch(d, "t", NULL, 0);
    assert_int_equal(d->held_count, 1);
    assert_string_equal(d->held[0]->u.registration.queues, "");
    drive_start(d);
    drive_answer_held(d, 0, true, PAWL_OK);
    assert_int_equal(d->held_count, 1);
    assert_string_equal(d->held[0]->u.registration.queues, "default");
    d->hold = 0;
    drive_answer_held(d, 0, true, PAWL_OK);
    drive_advance(d, PAWL_SECOND);
    assert_int_equal(d->calls[CORE_LEAVE], 1);
    assert_int_equal(d->runs_count, 1);
    drive_end(d, 0, ok);
    assert_int_equal(drive_state(d, d->answers[0].id), PAWL_SUCCEEDED);
}

static int settles;
static bool unsettled;

static void tell_unsettled(drive *d, core_call *call)
{
    (void)d;
    if (call->kind == CORE_CLAIM && !call->status && unsettled) call->u.claim.news.unsettled = true, unsettled = false;
    for (int i = 0; call->kind == CORE_APPLY && i < call->u.batch.count; i++)
        settles += call->u.batch.ops[i]->kind == PAWL_OP_SETTLE;
}

/* What is left to tell to those who wait is told a second later. */
static void without_memory_it_settles_later(void **state)
{
    test_allocator memory;
    test_allocator_init(&memory);
    drive *d = drive_begin(state, (core_config){.allocator = &memory.allocator}, (core_queue_config){.workers = 1});
    drive_start(d);
    d->meddle = tell_unsettled;
    bool failed = true;
    for (long n = 1; failed; n++) {
        settles = 0;
        unsettled = true;
        memory.fail_at = memory.calls + n;
        core_wake(d->core, drive_now(d));
        drive_go(d);
        assert_false(unsettled);
        failed = memory.calls >= memory.fail_at;
        memory.fail_at = 0;
        assert_int_equal(settles > 0, !failed);
        drive_advance(d, 2 * PAWL_SECOND);
        assert_true(settles > 0);
        assert_true(n < 20);
    }
    core_free(d->core);
    d->core = NULL;
    assert_int_equal(memory.outstanding, 0);
}

#define TEST(name) cmocka_unit_test_teardown(name, drive_finish)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(many_leases_of_the_dead_are_freed_in_pages),
        TEST(more_dead_nodes_than_fit_wait_their_turn),
        TEST(who_renews_is_not_rescued),
        TEST(a_busy_node_rescues),
        TEST(many_unknown_leases_are_given_back_in_turns),
        TEST(a_lost_lease_is_noticed_also_with_progress_under_way),
        TEST(an_outcome_is_offered_also_by_a_node_that_was_declared_dead),
        TEST(numbers_without_room_are_asked_for_again),
        TEST(retention_goes_in_small_steps),
        TEST(dead_letters_that_will_go_are_told_of),
        TEST(a_stop_goes_its_way_once),
        TEST(stuck_is_said_once),
        TEST(a_stop_waits_for_what_is_under_way),
        TEST(a_stop_waits_for_an_earlier_life_to_leave),
        TEST(a_queue_without_workers_is_not_served),
        cmocka_unit_test(little_is_needed_to_make_a_core),
        TEST(a_core_can_be_freed_at_any_moment),
        cmocka_unit_test(every_allocation_of_its_birth_may_fail),
        TEST(without_memory_a_task_is_not_born_leased),
        TEST(a_lease_that_began_anew_is_not_given_back),
        TEST(started_while_it_registers),
        TEST(without_memory_it_settles_later),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
