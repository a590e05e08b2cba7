/* Rate limits in the engine, driven by hand: keys, slots and the ends of schedules, leases that are lost or cancelled while they wait, what
 * is told to everybody, floods. */
#include "../unit/cmocka_all.h"
#include "../unit/test_allocator.h"
#include "base/alloc.h"
#include "core/schedule.h"
#include "core/told.h"
#include "drive.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define BIT(kind) (1u << (kind))
#define PACE (500 * PAWL_MILLISECOND) /* so near that a task waits here */

static const pawl_outcome ok = {PAWL_RUN_OK, 0};

static core_limit every(int64_t us, pawl_rate_scope scope)
{
    return (core_limit){.rate = {.permits = 1, .period_us = us, .burst = 1}, .scope = scope};
}

/* With a handler for "r", which is limited. */
static drive *begin_with(void **state, core_config config, core_queue_config queue, core_limit limit)
{
    drive *d = drive_begin(state, config, queue);
    if (core_add_handler(d->core, &(core_handler_config){.type = "r", .limit = limit})) abort();
    drive_start(d);
    return d;
}

static drive *begin(void **state, core_limit limit)
{
    return begin_with(state, (core_config){0}, (core_queue_config){.workers = 10}, limit);
}

static pawl_id send(drive *d, pawl_body body)
{
    if (!body.type) body.type = "r";
    if (!body.tenant) body.tenant = "";
    body.queue = "default";
    core_request *r = core_request_new(d->core, 1);
    r->ops[0] = (pawl_op){.kind = PAWL_OP_INSERT, .u.insert.body = pawl_body_copy(alloc_default(), &body)};
    core_submit(d->core, drive_now(d), r);
    drive_go(d);
    return d->answers_count > 0 ? d->answers[d->answers_count - 1].id : 0;
}

static pawl_id send_key(drive *d, const char *key) { return send(d, (pawl_body){.rate_key = pawl_str(key)}); }

static void end_all(drive *d)
{
    while (d->runs_count > 0) drive_end(d, 0, ok);
}

static void end_brief(drive *d)
{
    int64_t now_us = drive_now(d).wall_us;
    core_outcome brief = {.outcome = ok, .progress = -1, .began_us = now_us, .ended_us = now_us};
    while (d->runs_count > 0) drive_end_with(d, 0, &brief);
}

static core_numbers numbers(const drive *d)
{
    core_numbers n;
    core_numbers_get(d->core, drive_now(d), &n);
    return n;
}

/* ---- birth ------------------------------------------------------------------------------------------------------------------- */

/* What has failed goes on where it stopped, and no limit is made twice. */
static void without_memory_it_does_not_start(void **state)
{
    (void)state;
    core_limit local = every(PACE, PAWL_RATE_LOCAL);
    core_time now = {.mono_us = PAWL_HOUR, .wall_us = PAWL_HOUR};
    for (long n = 1;; n++) {
        test_allocator memory;
        core *c;
        test_allocator_init(&memory);
        core_config config = {.allocator = &memory.allocator, .lanes = 2, .engine = policy_default(), .node_name = "n"};
        assert_int_equal(core_new(&config, &c), PAWL_OK);
        assert_int_equal(core_add_queue(c, &(core_queue_config){.name = "default", .workers = 1}), PAWL_OK);
        assert_int_equal(core_add_handler(c, &(core_handler_config){.type = "a", .limit = local}), PAWL_OK);
        assert_int_equal(core_add_handler(c, &(core_handler_config){.type = "b", .limit = local}), PAWL_OK);
        memory.fail_at = memory.calls + n;
        pawl_status status = core_start(c, now);
        memory.fail_at = 0;
        if (status) {
            assert_int_equal(status, PAWL_NO_MEMORY);
            assert_int_equal(core_start(c, now), PAWL_OK);
        }
        core_free(c);
        assert_int_equal(memory.outstanding, 0);
        if (!status) break;
    }
}

static int limits_stored;

static void count_limits(drive *d, core_call *call)
{
    (void)d;
    for (int i = 0; call->kind == CORE_APPLY && i < call->u.batch.count; i++)
        limits_stored += call->u.batch.ops[i]->kind == PAWL_OP_LIMIT;
}

/* ---- keys -------------------------------------------------------------------------------------------------------------------- */

static pawl_bytes said;
static bool told_tenant, told_payload;

static bool tell_key(void *ctx, pawl_bytes payload, const char *tenant, pawl_bytes *key)
{
    (void)ctx;
    *key = told_payload ? payload : told_tenant ? pawl_str(tenant) : said;
    return true;
}

/* What the handler says need not last, but what lies in the task does. */
static void keys_that_handlers_tell(void **state)
{
    static char before[] = "before the body"; /* memory of programs lies before blocks, */
    char behind[] = "behind the body";        /* and that of threads behind them */
    core_limit limit = every(PAWL_HOUR, PAWL_RATE_LOCAL);
    limit.key = tell_key;
    drive *d = begin(state, limit);
    pawl_body body = {.payload = pawl_str("from the payload"), .tenant = "from the tenant"};
    said = pawl_str(before);
    send(d, body);
    said = pawl_str(behind);
    send(d, body);
    body.payload = (pawl_bytes){0};
    said = (pawl_bytes){behind, 6};
    send(d, body);
    memset(before, 'x', sizeof before - 1);
    memset(behind, 'x', sizeof behind - 1);
    assert_int_equal(d->runs_count, 3);
    assert_memory_equal(d->runs[0]->own_key, "before the body", 15);
    assert_memory_equal(d->runs[1]->own_key, "behind the body", 15);
    assert_memory_equal(d->runs[2]->own_key, "behind", 6);

    told_tenant = true;
    send(d, body);
    told_payload = true;
    send(d, (pawl_body){.payload = pawl_str("from the payload")});
    told_tenant = told_payload = false;
    assert_int_equal(d->runs_count, 5);
    assert_null(d->runs[3]->own_key);
    assert_ptr_equal(d->runs[3]->rate_key.data, d->runs[3]->body->tenant);
    assert_null(d->runs[4]->own_key);
    assert_ptr_equal(d->runs[4]->rate_key.data, d->runs[4]->body->payload.data);

    said = pawl_str("behind"); /* one that has run in this hour */
    send(d, body);
    assert_int_equal(d->runs_count, 5);
    end_all(d);
}

/* People and logs are told of bytes that can be shown, and no more than a line has room for. */
static void keys_are_told_as_text(void **state)
{
    drive *d = begin(state, every(PAWL_HOUR, PAWL_RATE_LOCAL));
    const char *event = d->last_event[PAWL_EVENT_DEFERRED].text;
    send_key(d, "a\tb\x7f\xc3");
    send_key(d, "a\tb\x7f\xc3");
    assert_string_equal(event, "key=a?b?? count=1");
    send_key(d, "0123456789012345678901234567890123456789");
    send_key(d, "0123456789012345678901234567890123456789");
    assert_string_equal(event, "key=0123456789012345678901234567890123456789 count=1");
    send_key(d, "01234567890123456789012345678901234567890");
    send_key(d, "01234567890123456789012345678901234567890");
    assert_string_equal(event, "key=0123456789012345678901234567890123456789... count=1");
    end_all(d);
}

static void without_events_deferrals_are_counted(void **state)
{
    drive *d = begin_with(state, (core_config){.deferral_events_off = true}, (core_queue_config){.workers = 10},
                          every(PACE, PAWL_RATE_LOCAL));
    send_key(d, "k");
    send_key(d, "k");
    assert_int_equal(d->events[PAWL_EVENT_DEFERRED], 0);
    assert_int_equal(numbers(d).deferrals, 1);
    assert_int_equal(numbers(d).parked, 1);
    drive_advance(d, PACE);
    assert_int_equal(d->runs_count, 2);
    end_all(d);
}

/* ---- slots ------------------------------------------------------------------------------------------------------------------- */

/* A budget in the store, of which it learns the key from us alone: with RESERVE. */
static drive *begin_shared(void **state, core_queue_config queue, pawl_rate rate)
{
    core_limit limit = {.rate = rate, .scope = PAWL_RATE_SHARED, .key = tell_key};
    said = pawl_str("k");
    return begin_with(state, (core_config){0}, queue, limit);
}

static const pawl_rate paced = {.permits = 1, .period_us = PACE, .burst = 1};
static const core_queue_config ten = {.workers = 10};

static const pawl_op *held_op(const drive *d)
{
    assert_int_equal(d->held_count, 1);
    assert_int_equal(d->held[0]->u.batch.count, 1);
    return d->held[0]->u.batch.ops[0];
}

/* A task whose RESERVE is on its way. */
static pawl_id send_reserving(drive *d, pawl_body body)
{
    send(d, (pawl_body){0}); /* it has the slot that is free */
    assert_int_equal(d->runs_count, 1);
    d->hold = BIT(CORE_APPLY);
    send(d, body);
    drive_answer_held(d, 0, true, PAWL_OK);
    assert_int_equal(held_op(d)->kind, PAWL_OP_RESERVE);
    return held_op(d)->id;
}

static void answer_reserve(drive *d)
{
    d->hold = 0;
    drive_answer_held(d, 0, true, PAWL_OK);
}

/* It waits for the answer where its slot is, then for the slot. */
static void the_slot_of_a_task(void **state)
{
    drive *d = begin_shared(state, ten, paced);
    pawl_id id = send_reserving(d, (pawl_body){0});
    assert_int_equal(core_slot(d->core, id), 0);
    answer_reserve(d);
    assert_int_equal(core_slot(d->core, id), drive_now(d).wall_us + PACE);
    assert_int_equal(core_slot(d->core, d->runs[0]->body->id), 0);
    assert_int_equal(core_slot(d->core, 4711), 0);
    assert_int_equal(numbers(d).parked, 1);
    drive_advance(d, PACE + PAWL_MILLISECOND);
    assert_int_equal(d->runs_count, 2);
    end_all(d);
}

static void the_slot_of_a_task_that_a_local_limit_put_off(void **state)
{
    drive *d = begin(state, every(PAWL_MINUTE, PAWL_RATE_LOCAL));
    send_key(d, "k");
    pawl_id id = send_key(d, "k");
    assert_false(core_holds(d->core, id, NULL));
    assert_int_equal(core_slot(d->core, id), drive_now(d).wall_us + PAWL_MINUTE);
    assert_int_equal(core_slot(d->core, 4711), 0);
    end_all(d);
}

static int64_t ahead_us;

static void slot_ahead(drive *d, core_call *call)
{
    (void)d;
    for (int i = 0; call->kind == CORE_CLAIM && i < call->u.claim.tasks_count; i++) {
        pawl_claimed *got = &call->u.claim.tasks[i];
        if (!got->limited) continue;
        got->run_at_us = call->u.claim.news.store_now_us + ahead_us;
        got->until_us = got->run_at_us + PAWL_SECOND;
    }
}

/* A lease that comes with a slot which is not yet there waits for it. */
static void a_lease_before_its_slot(void **state)
{
    drive *d = begin_shared(state, ten, paced);
    d->meddle = slot_ahead;
    ahead_us = PACE;
    send(d, (pawl_body){0});
    assert_int_equal(d->runs_count, 0);
    assert_int_equal(numbers(d).parked, 1);
    drive_advance(d, PACE + PAWL_MILLISECOND);
    assert_int_equal(d->runs_count, 1);
    end_all(d);
}

static int64_t released_slot_us;

static void watch_release(drive *d, core_call *call)
{
    (void)d;
    for (int i = 0; call->kind == CORE_APPLY && i < call->u.batch.count; i++)
        if (call->u.batch.ops[i]->kind == PAWL_OP_RELEASE) released_slot_us = call->u.batch.ops[i]->u.release.slot_us;
}

/* A task that has its slot and finds no worker takes it along when it goes back. */
static void a_slot_goes_back_with_its_task(void **state)
{
    drive *d = begin_shared(state, (core_queue_config){.workers = 1, .capacity = 100}, paced);
    d->meddle = watch_release;
    for (int i = 0; i < 200; i++) { /* so that it claims ahead */
        drive_dispatch(d, "t", NULL, 0);
        end_brief(d);
        drive_advance(d, 100);
    }
    drive_dispatch(d, "t", NULL, 0);
    pawl_id id = send(d, (pawl_body){0});
    core_task_state held;
    assert_true(core_holds(d->core, id, &held) && held == CORE_READY);
    int64_t now_us = drive_now(d).wall_us;
    released_slot_us = 0;
    core_drain(d->core, drive_now(d));
    drive_go(d);
    assert_int_equal(released_slot_us, now_us);
    assert_int_equal(drive_state(d, id), PAWL_PENDING);
    end_all(d);
}

static void forget_until(drive *d, core_call *call)
{
    watch_release(d, call);
    for (int i = 0; call->kind == CORE_APPLY && i < call->u.batch.count; i++)
        if (call->u.batch.ops[i]->kind == PAWL_OP_RESERVE) call->u.batch.ops[i]->out_until_us = 0;
}

/* The store answers that it has a slot, and not for how long; meanwhile nothing starts any more. It goes back without. */
static void of_a_slot_without_an_end_nothing_goes_back(void **state)
{
    drive *d = begin_shared(state, ten, paced);
    pawl_id id = send_reserving(d, (pawl_body){0});
    core_drain(d->core, drive_now(d));
    drive_go(d);
    d->meddle = forget_until;
    released_slot_us = -1;
    answer_reserve(d);
    assert_int_equal(released_slot_us, 0);
    assert_int_equal(drive_state(d, id), PAWL_PENDING);
    end_all(d);
}

/* ---- cancelled, lost --------------------------------------------------------------------------------------------------------- */

static pawl_lease cancelled;

static void tell_cancel(drive *d, core_call *call)
{
    (void)d;
    pawl_news *news = call->kind == CORE_RENEW ? &call->u.renewal.news : call->kind == CORE_CLAIM ? &call->u.claim.news : NULL;
    if (!news || call->status || !cancelled.id) return;
    news->cancels[0] = cancelled;
    news->cancels_count = 1;
}

static void cancel_reserving(drive *d, pawl_id id)
{
    cancelled = (pawl_lease){id, held_op(d)->fence};
    d->meddle = tell_cancel;
    core_wake(d->core, drive_now(d));
    drive_go(d);
    drive_advance(d, 15 * PAWL_SECOND); /* or with a renewal */
    answer_reserve(d);
    d->meddle = NULL;
    cancelled.id = 0;
    drive_go(d);
    assert_int_equal(drive_state(d, id), PAWL_CANCELLED);
    assert_int_equal(d->runs_count, 1);
    end_all(d);
}

static void cancelled_while_it_asks(void **state)
{
    drive *d = begin_shared(state, ten, paced);
    cancel_reserving(d, send_reserving(d, (pawl_body){0}));
}

/* It would have been refused: but somebody does not want it any more, which is no failure. */
static void cancelled_while_it_is_refused(void **state)
{
    drive *d = begin_shared(state, ten, (pawl_rate){.permits = 1, .period_us = PAWL_HOUR, .burst = 1, .horizon_us = 1});
    cancel_reserving(d, send_reserving(d, (pawl_body){0}));
}

static bool node_dies;

static void kill_node(drive *d, core_call *call)
{
    (void)d;
    if (call->kind == CORE_CLAIM && !call->status && node_dies) call->u.claim.news.node_dead = true, node_dies = false;
}

static void die(drive *d)
{
    d->meddle = kill_node;
    node_dies = true;
    core_wake(d->core, drive_now(d));
    drive_go(d);
    assert_false(node_dies);
    d->meddle = NULL;
}

/* What waits for its slot is forgotten with the lease; whoever rescues it starts it once. */
static void lost_while_it_waits(void **state)
{
    drive *d = begin_shared(state, ten, paced);
    pawl_id id = send_reserving(d, (pawl_body){0});
    answer_reserve(d);
    assert_int_equal(numbers(d).parked, 1);
    die(d);
    assert_int_equal(numbers(d).parked, 0);
    assert_true(d->events[PAWL_EVENT_LEASE_LOST] > 0);
    end_all(d);
    drive_advance(d, 2 * PAWL_MINUTE);
    assert_int_equal(d->runs_count > 0, 1);
    end_all(d);
    drive_advance(d, PAWL_MINUTE);
    end_all(d);
    assert_int_equal(drive_state(d, id), PAWL_SUCCEEDED);
}

static void lost_while_it_asks(void **state)
{
    drive *d = begin_shared(state, ten, paced);
    pawl_id id = send_reserving(d, (pawl_body){0});
    die(d);
    core_task_state held;
    assert_true(core_holds(d->core, id, &held) && held == CORE_PARKED); /* until the answer is there */
    answer_reserve(d);
    assert_false(core_holds(d->core, id, &held) && held == CORE_PARKED && core_slot(d->core, id));
    end_all(d);
    drive_advance(d, 2 * PAWL_MINUTE);
    end_all(d);
    drive_advance(d, PAWL_MINUTE);
    end_all(d);
    assert_int_equal(drive_state(d, id), PAWL_SUCCEEDED);
}

/* Its start was written down for a node that is another one by now: it does not run here, for others may have it. */
static void lost_while_its_start_is_written_down(void **state)
{
    drive *d = begin_shared(state, ten, paced);
    d->hold = BIT(CORE_APPLY);
    send(d, (pawl_body){.key = "key"});
    drive_answer_held(d, 0, true, PAWL_OK);
    pawl_id id = held_op(d)->id;
    assert_int_equal(held_op(d)->kind, PAWL_OP_RESERVE);
    drive_answer_held(d, 0, true, PAWL_OK);
    assert_int_equal(held_op(d)->kind, PAWL_OP_START);
    int64_t fence = held_op(d)->fence;
    die(d);
    d->hold = 0;
    drive_answer_held(d, 0, true, PAWL_OK);
    for (int i = 0; i < d->runs_count; i++) assert_true(d->runs[i]->fence > fence); /* only under a lease of its own */
    drive_advance(d, 2 * PAWL_MINUTE);
    end_all(d);
    assert_int_equal(drive_state(d, id), PAWL_SUCCEEDED);
}

/* ---- ends of schedules -------------------------------------------------------------------------------------------------------- */

/* The task of a schedule that ends in so long. */
static pawl_body ending(const drive *d, int64_t in_us)
{
    static char headers[64];
    snprintf(headers, sizeof headers, SCHEDULE_UNTIL "%lld}", (long long)(drive_now(d).wall_us + in_us));
    return (pawl_body){.created_by = SCHEDULE_CREATED_BY "s", .headers = headers};
}

/* Its slot is near, but behind the end: it is cancelled, which nobody need see to. One before it starts. */
static void beyond_the_end_of_its_schedule(void **state)
{
    drive *d = begin_shared(state, ten, paced);
    pawl_id id = send_reserving(d, ending(d, PACE));
    answer_reserve(d);
    assert_int_equal(drive_state(d, id), PAWL_CANCELLED);
    assert_int_equal(numbers(d).rejected, 1);
    end_all(d);
    drive_advance(d, 2 * PACE);
    id = send_reserving(d, ending(d, PACE + 1));
    answer_reserve(d);
    assert_int_equal(drive_state(d, id), PAWL_LEASED);
    drive_advance(d, PACE + PAWL_MILLISECOND);
    assert_int_equal(d->runs_count, 2);
    end_all(d);
}

static void beyond_it_with_a_lease_before_its_slot(void **state)
{
    drive *d = begin_shared(state, ten, paced);
    d->meddle = slot_ahead;
    ahead_us = PACE;
    pawl_id id = send(d, ending(d, PACE));
    assert_int_equal(drive_state(d, id), PAWL_CANCELLED);
    assert_int_equal(d->runs_count, 0);
}

static void beyond_it_with_a_local_limit(void **state)
{
    drive *d = begin(state, every(PACE, PAWL_RATE_LOCAL));
    pawl_body body = ending(d, PACE);
    body.rate_key = pawl_str("k");
    send(d, body);
    pawl_id id = send(d, body);
    assert_int_equal(d->runs_count, 1);
    assert_int_equal(drive_state(d, id), PAWL_CANCELLED);
    drive_advance(d, PACE);
    end_all(d);
    drive_advance(d, PACE);
    body = ending(d, 10 * PAWL_SECOND);
    body.rate_key = pawl_str("k");
    id = send(d, body); /* the slot of the one that was refused is free */
    assert_int_equal(d->runs_count, 1);
    end_all(d);
    assert_int_equal(drive_state(d, id), PAWL_SUCCEEDED);
}

/* ---- refusals ---------------------------------------------------------------------------------------------------------------- */

/* Without memory for the text a shorter one tells it. */
static void refused_without_memory(void **state)
{
    drive_begin(state, (core_config){0}, ten); /* for the teardown */
    for (long n = 1;; n++) {
        void *inner = NULL;
        test_allocator memory;
        test_allocator_init(&memory);
        drive *d = begin_with(
            &inner, (core_config){.allocator = &memory.allocator}, ten,
            (core_limit){.rate = {.permits = 1, .period_us = PAWL_HOUR, .burst = 1, .discard = true}, .scope = PAWL_RATE_LOCAL});
        send_key(d, "k");
        d->hold = BIT(CORE_APPLY);
        send_key(d, "k");
        memory.fail_at = memory.calls + n;
        d->hold = 0;
        drive_answer_held(d, 0, true, PAWL_OK);
        drive_advance(d, 10 * PAWL_SECOND);
        bool failed = memory.calls >= memory.fail_at;
        assert_int_equal(d->answers_count, 2);
        assert_int_equal(drive_state(d, d->answers[1].id), PAWL_FAILED);
        end_all(d);
        drive_finish(&inner);
        if (!failed) break;
    }
}

/* ---- limiters of the program's own ------------------------------------------------------------------------------------------- */

static int64_t own_wait_us;
static int own_asked, own_released;

static pawl_limit_verdict own_ask(void *ctx, const pawl_limit_question *q, int64_t *slot_us)
{
    (void)ctx;
    own_asked++;
    *slot_us = q->now_us + own_wait_us;
    return PAWL_LIMIT_WAIT;
}

static void own_release(void *ctx, pawl_id id)
{
    (void)ctx;
    assert_true(id);
    own_released++;
}

/* Also if it has a rate besides: nothing of it is stored. */
static void a_limiter_of_ones_own(void **state)
{
    static const pawl_limiter own = {own_ask, own_release, NULL};
    core_limit limit = every(PACE, PAWL_RATE_SHARED);
    limit.limiter = &own;
    limits_stored = 0;
    drive *d = drive_begin(state, (core_config){0}, ten);
    d->meddle = count_limits;
    assert_int_equal(core_add_handler(d->core, &(core_handler_config){.type = "r", .limit = limit}), PAWL_OK);
    drive_start(d);
    assert_int_equal(limits_stored, 0);
    own_wait_us = 0; /* to wait until now is to go */
    send_key(d, "k");
    assert_int_equal(d->runs_count, 1);
    own_wait_us = PACE;
    own_released = 0;
    pawl_id id = send_key(d, "k");
    assert_int_equal(numbers(d).parked, 1);
    drive_submit(d, (pawl_op){.kind = PAWL_OP_CANCEL, .id = id});
    assert_int_equal(drive_state(d, id), PAWL_CANCELLED);
    assert_int_equal(own_released, 1);
    end_all(d);
}

static void one_that_wants_nothing_back(void **state)
{
    static const pawl_limiter own = {own_ask, NULL, NULL};
    drive *d = begin(state, (core_limit){.limiter = &own});
    own_wait_us = PACE;
    pawl_id id = send_key(d, "k");
    assert_int_equal(numbers(d).parked, 1);
    drive_submit(d, (pawl_op){.kind = PAWL_OP_CANCEL, .id = id});
    assert_int_equal(drive_state(d, id), PAWL_CANCELLED);
}

/* ---- starts that are written down ------------------------------------------------------------------------------------------- */

/* Runs so short that more are handed out than there are workers, and tasks are claimed ahead. */
static drive *begin_brief(void **state, core_limit limit)
{
    drive *d = begin_with(state, (core_config){.surplus = 6}, (core_queue_config){.workers = 2, .capacity = 100}, limit);
    for (int i = 0; i < 200; i++) {
        drive_dispatch(d, "t", NULL, 0);
        end_brief(d);
        drive_advance(d, 100);
    }
    return d;
}

static int starts;

static void count_starts(drive *d, core_call *call)
{
    (void)d;
    for (int i = 0; call->kind == CORE_APPLY && i < call->u.batch.count; i++)
        starts += call->u.batch.ops[i]->kind == PAWL_OP_START;
}

/* Tasks with a key, claimed ahead: whoever brings the same key may still take their place. Their start is written down, and only for a
 * worker that is free. */
static void keyed_tasks_start_with_a_worker(void **state, core_limit limit)
{
    char key[16];
    drive *d = begin_brief(state, limit);
    starts = 0;
    d->meddle = count_starts;
    drive_dispatch(d, "t", NULL, 0);
    drive_dispatch(d, "t", NULL, 0);
    assert_int_equal(d->runs_count, 2);
    int before = d->answers_count;
    for (int i = 0; i < 10; i++) {
        snprintf(key, sizeof key, "key%d", i);
        pawl_body body = {.type = "r", .queue = "default", .tenant = "", .key = key, .rate_key = pawl_str("k")};
        core_request *r = core_request_new(d->core, 1);
        r->ops[0] =
            (pawl_op){.kind = PAWL_OP_INSERT, .u.insert = {.body = pawl_body_copy(alloc_default(), &body), .delay_us = 1000}};
        core_submit(d->core, drive_now(d), r);
        drive_go(d);
    }
    drive_advance(d, 2000);
    core_queue_numbers q;
    core_queue_get(d->core, 0, &q);
    assert_true(q.ready > 0);
    assert_int_equal(d->runs_count, 2);
    assert_int_equal(starts, 0);
    for (int i = 0; i < 20 && d->runs_count > 0; i++) {
        end_brief(d);
        drive_advance(d, PAWL_MILLISECOND);
    }
    assert_true(starts > 0);
    for (int i = 0; i < 10; i++) assert_int_equal(drive_state(d, d->answers[before + i].id), PAWL_SUCCEEDED);
}

static void starts_under_no_limit(void **state) { keyed_tasks_start_with_a_worker(state, (core_limit){.concurrency = 0}); }

static void starts_under_a_local_limit(void **state)
{
    keyed_tasks_start_with_a_worker(state,
                                    (core_limit){.rate = {.permits = 1000, .period_us = PAWL_SECOND}, .scope = PAWL_RATE_LOCAL});
}

static void starts_under_a_limiter_of_ones_own(void **state)
{
    static const pawl_limiter own = {own_ask, NULL, NULL};
    own_wait_us = 0;
    own_asked = 0;
    keyed_tasks_start_with_a_worker(state, (core_limit){.limiter = &own});
    assert_int_equal(own_asked, 10); /* each once: a start that is written down is not asked about again */
}

/* ---- what everybody is told --------------------------------------------------------------------------------------------------- */

static char told_bytes[TOLD_MAX];
static size_t told_len;

static void keep_told(drive *d, core_call *call)
{
    (void)d;
    if (call->kind != CORE_RENEW || !call->u.renewal.told.data) return;
    told_len = call->u.renewal.told.len;
    memcpy(told_bytes, call->u.renewal.told.data, told_len);
}

/* More keys and tasks wait than are told: those with the most that wait, and those that start first. Totals count all. */
static void the_busiest_are_told(void **state)
{
    enum { KEYS = 70 };
    static told t;
    drive *d = begin_with(state, (core_config){0}, (core_queue_config){.workers = 300, .capacity = 1000},
                          every(250 * PAWL_MILLISECOND, PAWL_RATE_LOCAL));
    send_key(d, "first");
    drive_advance(d, 5 * PAWL_SECOND);
    d->meddle = keep_told;
    told_len = 0;
    int parked = 0;
    int64_t now_us = drive_now(d).wall_us;
    for (int i = 0; i < KEYS; i++) {
        char key[16];
        snprintf(key, sizeof key, "key%d", i);
        for (int k = 0; k < 2 + i % 3; k++) send_key(d, key);
        parked += 1 + i % 3;
    }
    assert_int_equal(numbers(d).parked, parked);
    drive_advance(d, 0);
    for (int i = 0; i < 20 && told_len == 0; i++) drive_advance(d, 10 * PAWL_MILLISECOND);
    assert_true(told_read((pawl_bytes){told_bytes, told_len}, &t));
    assert_int_equal(t.parked, parked);
    assert_int_equal(t.running, KEYS + 1);
    assert_int_equal(t.keys_count, TOLD_KEYS);
    for (int i = 0; i < TOLD_KEYS; i++) assert_int_equal(t.keys[i].parked, i < KEYS / 3 ? 3 : i < KEYS / 3 * 2 ? 2 : 1);
    assert_int_equal(t.tasks_count, TOLD_TASKS);
    for (int i = 0; i < TOLD_TASKS; i++) assert_int_equal(t.tasks[i].slot_us, now_us + 250 * PAWL_MILLISECOND);
    drive_advance(d, PAWL_SECOND);
    end_all(d);
}

/* ---- floods ------------------------------------------------------------------------------------------------------------------- */

static bool flood;
static int births; /* INSERTs that asked for a lease */

static void tell_flood(drive *d, core_call *call)
{
    (void)d;
    for (int i = 0; flood && call->kind == CORE_CLAIM && i < call->u.claim.wants_count; i++)
        call->u.claim.wants[i].more = call->u.claim.wants[i].flooded = true;
    for (int i = 0; call->kind == CORE_APPLY && i < call->u.batch.count; i++)
        births += call->u.batch.ops[i]->kind == PAWL_OP_INSERT && call->u.batch.ops[i]->u.insert.ask_lease;
}

/* One of a flood was sent away with a slot that is far, and that took long: the queue rests. */
static drive *begin_resting(void **state)
{
    drive *d =
        begin_shared(state, (core_queue_config){.workers = 2}, (pawl_rate){.permits = 1, .period_us = PAWL_MINUTE, .burst = 1});
    d->meddle = tell_flood;
    flood = true;
    send_reserving(d, (pawl_body){0});
    drive_advance(d, PAWL_SECOND / 2);
    answer_reserve(d);
    return d;
}

static void a_queue_rests_from_a_flood(void **state)
{
    drive *d = begin_resting(state);
    int claims = d->calls[CORE_CLAIM];
    drive_advance(d, 20 * PAWL_MILLISECOND);
    assert_int_equal(d->calls[CORE_CLAIM], claims);
    drive_advance(d, 5 * PAWL_SECOND);
    assert_true(d->calls[CORE_CLAIM] > claims);
    flood = false;
    end_all(d);
}

/* What is known to be due beside it is claimed all the same. */
static void what_is_owed_beside_a_flood(void **state)
{
    drive *d = begin_resting(state);
    int claims = d->calls[CORE_CLAIM];
    said = pawl_str("another key");
    send(d, (pawl_body){0});
    assert_true(d->calls[CORE_CLAIM] > claims);
    assert_int_equal(d->runs_count, 2);
    flood = false;
    end_all(d);
}

/* After a change of limits nobody knows whether it is one. */
static void limits_that_change_end_the_rest(void **state)
{
    drive *d = begin_resting(state);
    int claims = d->calls[CORE_CLAIM];
    pawl_op limit = {.kind = PAWL_OP_LIMIT};
    limit.u.limit.type = "t";
    limit.u.limit.rate = paced;
    drive_submit(d, limit);
    assert_true(d->calls[CORE_CLAIM] > claims);
    flood = false;
    end_all(d);
}

static int wanted;

static void watch_wants(drive *d, core_call *call)
{
    if (call->kind != CORE_CLAIM || call->u.claim.wants_count == 0) return;
    pawl_want *w = call->u.claim.wants;
    wanted = w->free + w->prefetch;
    w->more = true;
    tell_flood(d, call);
}

static int wanted_now(drive *d)
{
    wanted = -1;
    core_wake(d->core, drive_now(d));
    drive_go(d);
    assert_true(wanted > 0);
    return wanted;
}

/* For a while after one, also if a claim saw others: what more there is would be the flood. */
static void beside_a_flood_less_is_claimed(void **state)
{
    drive *d = begin_brief(state, (core_limit){.concurrency = 0});
    d->meddle = watch_wants;
    flood = false;
    int much = wanted_now(d);
    assert_int_equal(wanted_now(d), much);
    flood = true;
    wanted_now(d);
    flood = false;
    assert_true(wanted_now(d) < much); /* beside what the last claim saw */
    assert_true(wanted_now(d) < much); /* which saw none, but there was one just now */
    drive_advance(d, 2 * PAWL_SECOND);
    assert_int_equal(wanted_now(d), much);
}

/* Leases at birth go past a flood, but never past tenants who wait for their turns. */
static void where_tenants_take_turns_there_is_no_flood(void **state)
{
    drive_begin(state, (core_config){0}, ten); /* for the teardown */
    for (int fair = 0; fair < 2; fair++) {
        void *inner = NULL;
        drive *d = begin_shared(&inner, (core_queue_config){.workers = 2, .fair = fair}, paced);
        d->meddle = tell_flood;
        flood = true;
        core_wake(d->core, drive_now(d));
        drive_go(d);
        births = 0;
        drive_dispatch(d, "t", NULL, 0);
        assert_int_equal(births, fair ? 0 : 1);
        assert_int_equal(d->runs_count, 1);
        flood = false;
        end_all(d);
        drive_finish(&inner);
    }
}

/* ---- tasks that were there before their tenants took turns -------------------------------------------------------------------- */

static int pages;

static void more_pages(drive *d, core_call *call)
{
    (void)d;
    for (int i = 0; call->kind == CORE_APPLY && i < call->u.batch.count; i++)
        if (call->u.batch.ops[i]->kind == PAWL_OP_BOUND) call->u.batch.ops[i]->u.bound.more = ++pages < 3;
}

/* A fair queue whose first page is on its way. */
static drive *begin_pages(void **state, core_config config)
{
    drive *d = drive_begin(state, config, (core_queue_config){.workers = 1, .fair = true});
    pages = 0;
    d->meddle = more_pages;
    d->hold = BIT(CORE_APPLY);
    drive_start(d);
    assert_int_equal(held_op(d)->kind, PAWL_OP_BOUND);
    d->hold = 0;
    return d;
}

static void whoever_drains_shares_no_more(void **state)
{
    drive *d = begin_pages(state, (core_config){0});
    core_drain(d->core, drive_now(d));
    drive_go(d);
    drive_answer_held(d, 0, true, PAWL_OK);
    assert_int_equal(pages, 1);
    assert_int_equal(d->drained, 1);
}

/* Sharing ends; tasks do not. */
static void without_memory_no_more_is_shared(void **state)
{
    drive_begin(state, (core_config){0}, ten); /* for the teardown */
    for (long n = 1;; n++) {
        void *inner = NULL;
        test_allocator memory;
        test_allocator_init(&memory);
        drive *d = begin_pages(&inner, (core_config){.allocator = &memory.allocator});
        memory.fail_at = memory.calls + n;
        drive_answer_held(d, 0, true, PAWL_OK);
        memory.fail_at = 0;
        bool shared = pages == 3;
        assert_true(shared || pages == 1);
        drive_dispatch(d, "t", NULL, 0);
        drive_advance(d, 2 * PAWL_SECOND);
        assert_int_equal(d->runs_count, 1);
        end_all(d);
        drive_finish(&inner);
        if (shared) break;
        assert_true(n < 20);
    }
}

/* ---- nobody to run it --------------------------------------------------------------------------------------------------------- */

/* The worker that a lease was meant for is gone when it comes: it goes back. */
static void nobody_is_there_any_more(void **state)
{
    drive *d = begin_with(state, (core_config){0}, (core_queue_config){.pulled = true}, every(PACE, PAWL_RATE_LOCAL));
    core_workers(d->core, drive_now(d), 0, 1, false);
    drive_go(d);
    d->hold = BIT(CORE_CLAIM);
    drive_dispatch(d, "t", "key", PAWL_MILLISECOND);
    drive_advance(d, PAWL_MILLISECOND);
    assert_int_equal(d->held_count, 1);
    core_workers(d->core, drive_now(d), 0, 0, true);
    drive_go(d);
    d->hold = 0;
    drive_answer_held(d, 0, true, PAWL_OK);
    assert_int_equal(d->runs_count, 0);
    assert_false(core_holds(d->core, d->answers[0].id, NULL));
    assert_int_equal(drive_state(d, d->answers[0].id), PAWL_PENDING);
    core_workers(d->core, drive_now(d), 0, 1, false);
    drive_go(d);
    drive_advance(d, PAWL_SECOND);
    assert_int_equal(d->runs_count, 1);
    end_all(d);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_teardown(name, drive_finish)
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(without_memory_it_does_not_start),
        TEST(keys_that_handlers_tell),
        TEST(keys_are_told_as_text),
        TEST(without_events_deferrals_are_counted),
        TEST(the_slot_of_a_task),
        TEST(the_slot_of_a_task_that_a_local_limit_put_off),
        TEST(a_lease_before_its_slot),
        TEST(a_slot_goes_back_with_its_task),
        TEST(of_a_slot_without_an_end_nothing_goes_back),
        TEST(cancelled_while_it_asks),
        TEST(cancelled_while_it_is_refused),
        TEST(lost_while_it_waits),
        TEST(lost_while_it_asks),
        TEST(lost_while_its_start_is_written_down),
        TEST(beyond_the_end_of_its_schedule),
        TEST(beyond_it_with_a_lease_before_its_slot),
        TEST(beyond_it_with_a_local_limit),
        TEST(refused_without_memory),
        TEST(a_limiter_of_ones_own),
        TEST(one_that_wants_nothing_back),
        TEST(starts_under_no_limit),
        TEST(starts_under_a_local_limit),
        TEST(starts_under_a_limiter_of_ones_own),
        TEST(the_busiest_are_told),
        TEST(a_queue_rests_from_a_flood),
        TEST(what_is_owed_beside_a_flood),
        TEST(limits_that_change_end_the_rest),
        TEST(beside_a_flood_less_is_claimed),
        TEST(where_tenants_take_turns_there_is_no_flood),
        TEST(whoever_drains_shares_no_more),
        TEST(without_memory_no_more_is_shared),
        TEST(nobody_is_there_any_more),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
