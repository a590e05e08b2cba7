/* Rate limits: slots are taken exactly by core/rate's rules, once, by whoever asks. */
#include "contract.h"
#include "core/rate.h"
#include <stdio.h>

#define S PAWL_SECOND

/* ---- helpers ----------------------------------------------------------------------------------------------------- */

static pawl_op *op_limit(world *w, const char *type, const char *key, pawl_rate rate)
{
    pawl_op *op = keep(w, sizeof *op);
    op->kind = PAWL_OP_LIMIT;
    op->audit = PAWL_AUDIT_FULL;
    op->u.limit.type = type;
    op->u.limit.key = pawl_str(key);
    op->u.limit.rate = rate;
    op->u.limit.move = 1000;
    return op;
}

static pawl_op *op_reserve(world *w, pawl_id id, int64_t fence, int64_t near_us)
{
    pawl_op *op = keep(w, sizeof *op);
    op->kind = PAWL_OP_RESERVE;
    op->id = id;
    op->fence = fence;
    op->audit = PAWL_AUDIT_FULL;
    op->u.reserve.near_us = near_us;
    return op;
}

/* One start per second, `burst` at once; waits however long. */
static pawl_rate per_second(int burst) { return (pawl_rate){.permits = 1, .period_us = S, .burst = burst, .horizon_us = -1}; }

static void limit(world *w, const char *type, pawl_rate rate)
{
    assert_int_equal(apply(w, w->a, 0, op_limit(w, type, NULL, rate)), PAWL_OP_DONE);
}

/* A task that is due, from a node that would run it at once: with budget it is leased. */
static pawl_op *dispatch(world *w, spec s)
{
    if (!w->own_node) w->own_node = join(w, w->a);
    s.ask_lease = true;
    pawl_op *op = op_insert(w, s);
    assert_int_equal(apply(w, w->a, w->own_node, op), PAWL_OP_DONE);
    return op;
}

static pawl_id due(world *w, const char *rate_key) { return dispatch(w, (spec){.rate_key = rate_key})->id; }
static int64_t run_at(world *w, pawl_id id) { return get(w, id)->run_at_us; }

/* Leases one that has no slot: it was stored for later. */
static pawl_claimed lease_unslotted(world *w, int64_t n, spec s)
{
    s.delay_us = 1000;
    pawl_id id = insert(w, w->a, 0, s);
    advance(w, 1000);
    pawl_claimed got = lease(w, w->a, n, id);
    assert_true(got.limited && got.until_us == 0);
    return got;
}

static pawl_op *reserve(world *w, int64_t n, const pawl_claimed *got, int64_t near_us, pawl_op_result result)
{
    pawl_op *op = op_reserve(w, got->body->id, got->fence, near_us);
    assert_int_equal(apply(w, w->a, n, op), result);
    return op;
}

static void assert_same_rate(pawl_rate a, pawl_rate b)
{
    assert_true(a.permits == b.permits && a.period_us == b.period_us && a.burst == b.burst && a.horizon_us == b.horizon_us);
    assert_true(a.start_empty == b.start_empty && a.retries_free == b.retries_free && a.discard == b.discard);
}

/* ---- inserts ----------------------------------------------------------------------------------------------------- */

static void without_a_limit_nothing_changes(world *w)
{
    int64_t n = join(w, w->a);
    pawl_op *op = op_insert(w, (spec){.rate_key = "k", .ask_lease = true});
    assert_int_equal(apply(w, w->a, n, op), PAWL_OP_DONE);
    assert_true(op->out_fence > 0 && op->out_until_us == INT64_MAX);
    insert(w, w->a, 0, (spec){.rate_key = "k"});
    pawl_claimed got = claim_one(w, w->a, n);
    assert_true(!got.limited && w->news.limits_version == 0);
    op = reserve(w, n, &got, 0, PAWL_OP_DONE);
    assert_true(op->out_until_us == INT64_MAX);
}

static void a_burst_then_the_pace(world *w)
{
    limit(w, "t", per_second(3));
    int64_t now_us = w->clock.now_us;
    for (int i = 0; i < 6; i++) assert_int_equal(run_at(w, due(w, "k")) - now_us, i < 3 ? 0 : (i - 2) * S);
    assert_int_equal(run_at(w, due(w, "other")) - now_us, 0);
    assert_int_equal(run_at(w, due(w, NULL)) - now_us, 0);
    assert_int_equal(run_at(w, dispatch(w, (spec){.rate_key = "k", .type = "u"})->id) - now_us, 0);
}

static void stored_for_others_it_takes_nothing(world *w)
{
    limit(w, "t", per_second(1));
    int64_t now_us = w->clock.now_us;
    for (int i = 0; i < 3; i++) assert_int_equal(run_at(w, insert(w, w->a, 0, (spec){.rate_key = "k"})), now_us);
    assert_int_equal(dispatch(w, (spec){.rate_key = "k"})->out_fence, 1);
    assert_int_equal(run_at(w, insert(w, w->a, 0, (spec){.rate_key = "k"})), now_us + S);
}

static void slots_are_exact(world *w)
{
    pawl_rate policy = {.permits = 7, .period_us = S, .burst = 2, .horizon_us = -1, .start_empty = true};
    pawl_error err;
    rate r;
    assert_int_equal(rate_make(&policy, "t", &r, &err), PAWL_OK);
    limit(w, "t", policy);
    int64_t now_us = w->clock.now_us;
    rate_instant tat = rate_fresh(&r, now_us);
    pawl_op *ops[40];
    int64_t n = join(w, w->a);
    for (int round = 0; round < 3; round++) {
        for (int i = 0; i < 40; i++) ops[i] = op_insert(w, (spec){.rate_key = "k", .ask_lease = true});
        apply_all(w, w->a, n, ops, 40);
        for (int i = 0; i < 40; i++) {
            assert_int_equal(ops[i]->out_run_at_us, rate_slot(&r, tat, w->clock.now_us));
            assert_true(rate_take(&r, &tat, w->clock.now_us, 1));
        }
        advance(w, 12345);
    }
}

static void born_leased_only_with_a_slot(world *w)
{
    int64_t n = join(w, w->a);
    limit(w, "t", per_second(1));
    pawl_op *first = op_insert(w, (spec){.rate_key = "k", .ask_lease = true});
    pawl_op *second = op_insert(w, (spec){.rate_key = "k", .ask_lease = true});
    apply(w, w->a, n, first);
    apply(w, w->a, n, second);
    assert_true(first->out_fence > 0 && first->out_run_at_us == w->clock.now_us);
    assert_int_equal(first->out_until_us, w->clock.now_us + S);
    assert_int_equal(second->out_fence, 0);
    assert_state(w, second->id, PAWL_PENDING);
    assert_int_equal(run_at(w, second->id), w->clock.now_us + S);
}

static void one_for_later_takes_nothing(world *w)
{
    limit(w, "t", per_second(1));
    pawl_id later = insert(w, w->a, 0, (spec){.rate_key = "k", .delay_us = PAWL_HOUR});
    assert_int_equal(run_at(w, later), w->clock.now_us + PAWL_HOUR);
    assert_int_equal(run_at(w, due(w, "k")), w->clock.now_us);
}

static void not_seen_before_its_slot(world *w)
{
    int64_t n = join(w, w->a);
    limit(w, "t", per_second(1));
    due(w, "k");
    pawl_id second = due(w, "k");
    pawl_want want = claim(w, w->a, n, (wish){.free = 5});
    assert_true(want.got == 0 && !want.more && want.next_due_us == w->clock.now_us + S);
    advance(w, S);
    pawl_claimed got = claim_one(w, w->a, n);
    assert_true(got.body->id == second && got.limited);
    assert_int_equal(got.until_us, w->clock.now_us + S);
}

static void beyond_the_horizon_it_is_stored_without_a_slot(world *w)
{
    int64_t n = join(w, w->a);
    pawl_rate policy = per_second(1);
    policy.horizon_us = 2 * S;
    limit(w, "t", policy);
    int64_t now_us = w->clock.now_us;
    for (int i = 0; i < 3; i++) assert_int_equal(run_at(w, due(w, "k")), now_us + i * S);
    pawl_id far = due(w, "k");
    assert_int_equal(run_at(w, far), now_us);
    pawl_claimed got = lease(w, w->a, n, far);
    assert_true(got.limited && got.until_us == 0);
    pawl_op *op = reserve(w, n, &got, 10 * S, PAWL_OP_BEYOND);
    assert_int_equal(op->out_run_at_us, now_us + 3 * S);
    assert_same_rate(op->u.reserve.rate, policy);
    assert_state(w, far, PAWL_LEASED);
    op = op_reserve(w, far, got.fence, 10 * S);
    op->u.reserve.again = true; /* it had one before */
    assert_int_equal(apply(w, w->a, n, op), PAWL_OP_DONE);
    assert_int_equal(op->out_run_at_us, now_us + 3 * S);
}

static void discarded_instead_of_waiting(world *w)
{
    int64_t n = join(w, w->a);
    pawl_rate policy = per_second(1);
    policy.discard = true;
    limit(w, "t", policy);
    due(w, "k");
    pawl_id second = due(w, "k");
    pawl_claimed got = lease(w, w->a, n, second);
    assert_same_rate(reserve(w, n, &got, 10 * S, PAWL_OP_BEYOND)->u.reserve.rate, policy);
}

/* A key's own limit counts more, and it is told as it was put: what was left to defaults is so. */
static void the_limit_that_refuses_is_told(world *w)
{
    int64_t n = join(w, w->a);
    pawl_rate own = {.permits = 2, .period_us = 3 * S, .start_empty = true, .retries_free = true, .discard = true};
    limit(w, "t", per_second(5));
    assert_int_equal(apply(w, w->a, 0, op_limit(w, "t", "k", own)), PAWL_OP_DONE);
    due(w, "k");
    pawl_claimed got = lease_unslotted(w, n, (spec){.rate_key = "k"});
    assert_same_rate(reserve(w, n, &got, 10 * S, PAWL_OP_BEYOND)->u.reserve.rate, own);
}

/* ---- holders ----------------------------------------------------------------------------------------------------- */

static void a_near_slot_keeps_the_lease(world *w)
{
    int64_t n = join(w, w->a);
    limit(w, "t", per_second(1));
    due(w, "k");
    pawl_claimed got = lease_unslotted(w, n, (spec){.rate_key = "k"});
    pawl_op *op = reserve(w, n, &got, S, PAWL_OP_DONE);
    assert_int_equal(op->out_run_at_us, w->clock.now_us + S - 1000);
    assert_int_equal(op->out_until_us, op->out_run_at_us + S);
    assert_state(w, got.body->id, PAWL_LEASED);
    assert_int_equal(fence_of(w, got.body->id), got.fence);
}

static void a_far_slot_ends_it(world *w)
{
    int64_t n = join(w, w->a);
    limit(w, "t", per_second(1));
    for (int i = 0; i < 3; i++) due(w, "k");
    pawl_claimed got = lease_unslotted(w, n, (spec){.rate_key = "k"});
    pawl_op *op = reserve(w, n, &got, S, PAWL_OP_MOVED);
    pawl_id id = got.body->id;
    assert_state(w, id, PAWL_PENDING);
    assert_int_equal(op->out_run_at_us, w->clock.now_us + 3 * S - 1000);
    assert_int_equal(run_at(w, id), op->out_run_at_us);
    assert_int_equal(apply(w, w->a, n, op_start(w, id, got.fence, false)), PAWL_OP_STALE);
    advance(w, 3 * S);
    got = lease(w, w->a, n, id); /* the others are late by now, this one is not */
    assert_int_equal(got.until_us, op->out_run_at_us + S);
}

static void several_of_a_key_in_one_batch(world *w)
{
    int64_t n = join(w, w->a);
    limit(w, "t", per_second(2));
    pawl_op *ops[5];
    for (int i = 0; i < 5; i++) {
        pawl_claimed got = lease_unslotted(w, n, (spec){.rate_key = "k"});
        ops[i] = op_reserve(w, got.body->id, got.fence, PAWL_MINUTE);
    }
    apply_all(w, w->a, n, ops, 5);
    int64_t now_us = w->clock.now_us, slots[5] = {0};
    for (int i = 0; i < 5; i++) {
        int64_t at = (ops[i]->out_run_at_us - now_us) / S;
        assert_true(ops[i]->result == PAWL_OP_DONE && at >= 0 && at < 4 && (ops[i]->out_run_at_us - now_us) % S == 0);
        slots[at]++;
    }
    assert_true(slots[0] == 2 && slots[1] == 1 && slots[2] == 1 && slots[3] == 1);
}

static void one_sent_again_takes_nothing_more(world *w)
{
    int64_t n = join(w, w->a);
    limit(w, "t", per_second(1));
    pawl_claimed got = lease_unslotted(w, n, (spec){.rate_key = "k"});
    pawl_op *op = op_reserve(w, got.body->id, got.fence, S);
    pawl_batch batch = apply_all(w, w->a, n, &op, 1);
    assert_int_equal(op->out_run_at_us, w->clock.now_us);
    op->result = PAWL_OP_NONE;
    assert_int_equal(try_apply(w, w->a, &batch), PAWL_OK);
    assert_true(op->result == PAWL_OP_DONE && op->out_run_at_us == w->clock.now_us && op->out_until_us == 0);
    assert_int_equal(run_at(w, due(w, "k")), w->clock.now_us + S);
}

static void a_cancel_is_told(world *w)
{
    int64_t n = join(w, w->a);
    limit(w, "t", per_second(1));
    pawl_claimed got = lease_unslotted(w, n, (spec){.rate_key = "k"});
    assert_int_equal(apply(w, w->b, 0, op_cancel(w, got.body->id, NULL)), PAWL_OP_ASKED);
    reserve(w, n, &got, S, PAWL_OP_CANCELLING);
    assert_int_equal(run_at(w, due(w, "k")), w->clock.now_us);
}

static void stale_without_the_lease(world *w)
{
    int64_t n = join(w, w->a);
    limit(w, "t", per_second(1));
    pawl_claimed got = lease_unslotted(w, n, (spec){.rate_key = "k"});
    apply(w, w->a, n, op_release(w, got.body->id, got.fence, PAWL_HOUR, PAWL_ATTEMPT_NONE));
    pawl_op *op = reserve(w, n, &got, S, PAWL_OP_STALE);
    assert_int_equal(op->out_state, PAWL_PENDING);
    assert_int_equal(run_at(w, due(w, "k")), w->clock.now_us);
}

static void retries_can_be_free(world *w)
{
    int64_t n = join(w, w->a);
    pawl_rate policy = per_second(1);
    policy.retries_free = true;
    limit(w, "t", policy);
    pawl_claimed got = lease_unslotted(w, n, (spec){.rate_key = "k"});
    reserve(w, n, &got, S, PAWL_OP_DONE);
    pawl_op *op = op_release(w, got.body->id, got.fence, 0, PAWL_ATTEMPT_RETRY);
    op->u.release.failure = true;
    apply(w, w->a, n, op);
    got = lease(w, w->a, n, got.body->id);
    assert_true(got.limited && got.until_us == 0);
    op = reserve(w, n, &got, 0, PAWL_OP_DONE);
    assert_true(op->out_until_us == INT64_MAX);
    assert_int_equal(run_at(w, due(w, "k")), w->clock.now_us + S);
}

static void one_given_back_unstarted_keeps_its_slot(world *w)
{
    int64_t n = join(w, w->a);
    limit(w, "t", per_second(1));
    due(w, "k");
    pawl_claimed got = lease_unslotted(w, n, (spec){.rate_key = "k"});
    pawl_op *slot = reserve(w, n, &got, S, PAWL_OP_DONE), *op = op_release(w, got.body->id, got.fence, -1, PAWL_ATTEMPT_NONE);
    op->u.release.slot_us = slot->out_run_at_us;
    op->u.release.epoch = slot->out_epoch;
    assert_int_equal(apply(w, w->a, n, op), PAWL_OP_DONE);
    assert_int_equal(run_at(w, got.body->id), slot->out_run_at_us);
    advance(w, S);
    pawl_claimed again = lease(w, w->b, join(w, w->b), got.body->id);
    assert_int_equal(again.until_us, slot->out_until_us);
}

static void a_key_that_only_its_holder_knows(world *w)
{
    int64_t n = join(w, w->a);
    limit(w, "t", per_second(1));
    for (int i = 0; i < 3; i++) due(w, "k");
    pawl_claimed got = lease_unslotted(w, n, (spec){.key = "x"});
    pawl_id id = got.body->id;
    pawl_op *op = op_reserve(w, id, got.fence, S), *back;
    op->u.reserve.key = pawl_str("k");
    assert_int_equal(apply(w, w->a, n, op), PAWL_OP_MOVED);
    advance(w, 3 * S);
    got = lease(w, w->a, n, id);
    assert_int_equal(got.until_us, op->out_run_at_us + S);
    back = op_release(w, id, got.fence, -1, PAWL_ATTEMPT_NONE);
    back->u.release.slot_us = op->out_run_at_us;
    back->u.release.epoch = op->out_epoch;
    back->u.release.key = pawl_str("k");
    assert_int_equal(apply(w, w->a, n, back), PAWL_OP_DONE);
    assert_int_equal(lease(w, w->a, n, id).until_us, op->out_run_at_us + S);
}

/* Another body may have another key. */
static void its_slot_is_not_for_another_body(world *w)
{
    int64_t n = join(w, w->a);
    limit(w, "t", per_second(1));
    for (int i = 0; i < 3; i++) due(w, "k");
    pawl_claimed got = lease_unslotted(w, n, (spec){.key = "x"});
    pawl_op *op = op_reserve(w, got.body->id, got.fence, S);
    op->u.reserve.key = pawl_str("k");
    assert_int_equal(apply(w, w->a, n, op), PAWL_OP_MOVED);
    assert_int_equal(apply(w, w->a, 0, op_insert(w, (spec){.key = "x", .payload = "2"})), PAWL_OP_UPDATED);
    assert_int_equal(run_at(w, got.body->id), w->clock.now_us);
    assert_int_equal(lease(w, w->a, n, got.body->id).until_us, 0);
}

static void a_keyed_one_can_be_taken_back_until_it_starts(world *w)
{
    int64_t n = join(w, w->a);
    limit(w, "t", per_second(1));
    pawl_id id = insert(w, w->a, 0, (spec){.key = "x", .rate_key = "k"});
    pawl_claimed got = claim_one(w, w->a, n);
    assert_true(got.body->id == id && got.not_started && got.limited);
    assert_int_equal(apply(w, w->b, 0, op_insert(w, (spec){.key = "x", .rate_key = "k", .payload = "2"})), PAWL_OP_UPDATED);
    assert_int_equal(apply(w, w->a, n, op_start(w, id, got.fence, false)), PAWL_OP_STALE);
}

/* ---- giving back ------------------------------------------------------------------------------------------------- */

static void cancelled_the_newest_gives_its_slot_back(world *w)
{
    limit(w, "t", per_second(1));
    pawl_id ids[4];
    int64_t now_us = w->clock.now_us;
    for (int i = 0; i < 4; i++) ids[i] = due(w, "k");
    apply(w, w->a, 0, op_cancel(w, ids[1], NULL)); /* one in the middle does not */
    assert_int_equal(run_at(w, due(w, "k")), now_us + 4 * S);
    apply(w, w->a, 0, op_cancel(w, ids[0], NULL)); /* nor one whose slot has come */
    assert_int_equal(run_at(w, due(w, "k")), now_us + 5 * S);
    pawl_id last = due(w, "k"), next;
    apply(w, w->a, 0, op_cancel(w, last, NULL));
    assert_int_equal(run_at(w, next = due(w, "k")), now_us + 6 * S);
    pawl_id more = due(w, "k");
    apply(w, w->a, 0, op_cancel(w, more, NULL));
    apply(w, w->a, 0, op_cancel(w, next, NULL));
    assert_int_equal(run_at(w, due(w, "k")), now_us + 6 * S);
}

static void a_parked_one_that_is_cancelled_gives_back(world *w)
{
    int64_t n = join(w, w->a);
    limit(w, "t", per_second(1));
    due(w, "k");
    pawl_claimed got = lease_unslotted(w, n, (spec){.rate_key = "k"});
    pawl_op *slot = reserve(w, n, &got, S, PAWL_OP_DONE);
    pawl_op *op = op_finish(w, got.body->id, got.fence, PAWL_CANCELLED);
    op->u.finish.run.outcome = PAWL_ATTEMPT_NONE; /* it never ran */
    assert_int_equal(apply(w, w->a, n, op), PAWL_OP_DONE);
    assert_int_equal(run_at(w, due(w, "k")), slot->out_run_at_us);
}

static void a_new_body_keeps_the_slot(world *w)
{
    limit(w, "t", per_second(1));
    int64_t now_us = w->clock.now_us;
    due(w, "k");
    pawl_id id = insert(w, w->a, 0, (spec){.key = "x", .rate_key = "k"});
    assert_int_equal(apply(w, w->a, 0, op_insert(w, (spec){.key = "x", .rate_key = "k", .payload = "2"})), PAWL_OP_UPDATED);
    assert_int_equal(run_at(w, id), now_us + S);
    assert_int_equal(run_at(w, due(w, "k")), now_us + 2 * S);
    advance(w, S);
    pawl_claimed got = lease(w, w->a, join(w, w->a), id);
    assert_int_equal(got.until_us, now_us + 2 * S);
}

static void a_later_time_gives_it_back(world *w)
{
    limit(w, "t", per_second(1));
    int64_t now_us = w->clock.now_us;
    due(w, "k");
    pawl_id id = insert(w, w->a, 0, (spec){.key = "x", .rate_key = "k"});
    pawl_op *op = op_insert(w, (spec){.key = "x", .rate_key = "k", .delay_us = PAWL_HOUR});
    assert_int_equal(apply(w, w->a, 0, op), PAWL_OP_UPDATED);
    assert_int_equal(run_at(w, id), now_us + PAWL_HOUR);
    assert_int_equal(run_at(w, due(w, "k")), now_us + S);
}

static void another_rate_key_drops_it(world *w)
{
    limit(w, "t", per_second(1));
    int64_t now_us = w->clock.now_us;
    due(w, "k");
    pawl_id id = insert(w, w->a, 0, (spec){.key = "x", .rate_key = "k"});
    assert_int_equal(apply(w, w->a, 0, op_insert(w, (spec){.key = "x", .rate_key = "l"})), PAWL_OP_UPDATED);
    assert_int_equal(run_at(w, id), now_us);
    assert_int_equal(run_at(w, due(w, "k")), now_us + S);
    assert_int_equal(run_at(w, due(w, "l")), now_us); /* stored for others, it took nothing of its new key */
}

/* ---- late, clocks ------------------------------------------------------------------------------------------------ */

static void a_late_slot_is_told_as_it_was(world *w)
{
    int64_t n = join(w, w->a);
    limit(w, "t", per_second(1));
    int64_t now_us = w->clock.now_us;
    for (int i = 0; i < 2; i++) due(w, "k");
    advance(w, 10 * S);
    pawl_claimed got = claim_one(w, w->a, n);
    assert_int_equal(got.until_us, now_us + 2 * S); /* the node sees that it is over, and asks anew */
    pawl_op *op = op_reserve(w, got.body->id, got.fence, 0);
    op->u.reserve.again = true;
    assert_int_equal(apply(w, w->a, n, op), PAWL_OP_DONE);
    assert_int_equal(op->out_run_at_us, w->clock.now_us);
}

static void a_clock_that_steps_back_freezes_nobody(world *w)
{
    int64_t n = join(w, w->a);
    limit(w, "t", per_second(1));
    for (int i = 0; i < 3; i++) due(w, "k");
    step_wall(w, -PAWL_HOUR);
    int64_t now_us = w->clock.now_us;
    pawl_id id = due(w, "k");
    assert_int_equal(run_at(w, id), now_us + 3 * S); /* nothing is given twice either */
    advance(w, 3 * S);
    assert_int_equal(lease(w, w->a, n, id).until_us, now_us + 4 * S);
    step_wall(w, PAWL_HOUR);
    advance(w, S);
    claim(w, w->a, n, (wish){.free = 9});
    assert_int_equal(w->claimed_count, 2);
    for (int i = 0; i < 2; i++) assert_int_equal(w->claimed[i].until_us, 0); /* slots of before mean nothing */
}

static void a_used_slot_is_not_given_back_by_a_clock_that_steps_back(world *w)
{
    int64_t n = join(w, w->a);
    limit(w, "t", per_second(1));
    pawl_claimed got = lease_unslotted(w, n, (spec){.rate_key = "k"});
    reserve(w, n, &got, S, PAWL_OP_DONE);
    got = lease_unslotted(w, n, (spec){.rate_key = "k"});
    pawl_op *slot = reserve(w, n, &got, S, PAWL_OP_DONE);
    assert_true(slot->out_run_at_us > w->clock.now_us);
    advance(w, S); /* it runs, and goes back */
    apply(w, w->a, n, op_release(w, got.body->id, got.fence, PAWL_MINUTE, PAWL_ATTEMPT_SNOOZED));
    step_wall(w, -10 * S);
    apply(w, w->a, 0, op_cancel(w, got.body->id, NULL));
    assert_true(run_at(w, due(w, "k")) > w->clock.now_us + S + S / 2); /* two are spent */
}

static void a_clock_that_steps_ahead_gives_one_burst(world *w)
{
    limit(w, "t", per_second(2));
    for (int i = 0; i < 5; i++) due(w, "k");
    step_wall(w, PAWL_HOUR);
    int64_t now_us = w->clock.now_us;
    for (int i = 0; i < 4; i++) assert_int_equal(run_at(w, due(w, "k")) - now_us, i < 2 ? 0 : (i - 1) * S);
}

/* ---- limits ------------------------------------------------------------------------------------------------------ */

static void the_newest_limit_wins(world *w)
{
    limit(w, "t", per_second(1));
    pawl_op *same = op_limit(w, "t", NULL, per_second(1)), *other = op_limit(w, "t", NULL, per_second(5));
    same->u.limit.initial = other->u.limit.initial = true;
    int64_t n = join(w, w->a);
    claim(w, w->a, n, (wish){.free = 1});
    int64_t version = w->news.limits_version;
    assert_int_equal(apply(w, w->b, 0, same), PAWL_OP_EXISTING);
    claim(w, w->a, n, (wish){.free = 1});
    assert_int_equal(w->news.limits_version, version);
    assert_int_equal(apply(w, w->b, 0, other), PAWL_OP_UPDATED);
    claim(w, w->a, n, (wish){.free = 1});
    assert_true(w->news.limits_version > version);
    int64_t now_us = w->clock.now_us;
    for (int i = 0; i < 6; i++) assert_int_equal(run_at(w, due(w, "k")) - now_us, i < 5 ? 0 : S);
}

static void a_key_of_its_own(world *w)
{
    limit(w, "t", per_second(1));
    assert_int_equal(apply(w, w->a, 0, op_limit(w, "t", "vip", per_second(3))), PAWL_OP_DONE);
    int64_t now_us = w->clock.now_us;
    for (int i = 0; i < 4; i++) assert_int_equal(run_at(w, due(w, "vip")) - now_us, i < 3 ? 0 : S);
    for (int i = 0; i < 2; i++) assert_int_equal(run_at(w, due(w, "k")) - now_us, i * S);
    assert_int_equal(apply(w, w->a, 0, op_limit(w, "t", "vip", (pawl_rate){0})), PAWL_OP_UPDATED);
    assert_true(run_at(w, due(w, "vip")) > now_us);
}

static void waiting_tasks_ask_anew_when_it_changes(world *w)
{
    int64_t n = join(w, w->a);
    limit(w, "t", per_second(1));
    for (int i = 0; i < 6; i++) due(w, "k");
    pawl_op *op = op_limit(w, "t", NULL, per_second(9));
    op->u.limit.move = 3;
    assert_int_equal(apply(w, w->a, 0, op), PAWL_OP_UPDATED);
    assert_true(op->u.limit.more);
    assert_int_equal(apply(w, w->a, 0, op), PAWL_OP_EXISTING);
    assert_false(op->u.limit.more);
    claim(w, w->a, n, (wish){.free = 9});
    assert_int_equal(w->claimed_count, 5);
    for (int i = 0; i < 5; i++) assert_true(w->claimed[i].limited && w->claimed[i].until_us == 0);
    pawl_claimed last = w->claimed[4];
    reserve(w, n, &last, 0, PAWL_OP_DONE);
}

static void taken_away_nothing_is_limited(world *w)
{
    int64_t n = join(w, w->a);
    limit(w, "t", per_second(1));
    due(w, "k");
    pawl_id id = due(w, "k");
    assert_int_equal(apply(w, w->a, 0, op_limit(w, "t", NULL, (pawl_rate){0})), PAWL_OP_UPDATED);
    assert_int_equal(run_at(w, due(w, "k")), w->clock.now_us);
    pawl_claimed got = lease(w, w->a, n, id);
    assert_false(got.limited);
}

static void paused_nothing_starts(world *w)
{
    int64_t n = join(w, w->a);
    limit(w, "t", per_second(9));
    pawl_op *op = op_limit(w, "t", "k", (pawl_rate){0});
    op->u.limit.paused = true;
    assert_int_equal(apply(w, w->a, 0, op), PAWL_OP_DONE);
    pawl_id id = due(w, "k");
    assert_true(run_at(w, id) > w->clock.now_us + 365 * PAWL_DAY);
    assert_int_equal(run_at(w, due(w, "l")), w->clock.now_us);
    assert_int_equal(claim(w, w->a, n, (wish){.free = 9}).got, 0);
    op = op_limit(w, "t", "k", (pawl_rate){0});
    assert_int_equal(apply(w, w->a, 0, op), PAWL_OP_UPDATED);
    pawl_claimed got = claim_one(w, w->a, n);
    assert_true(got.body->id == id && got.limited && got.until_us == 0);
    reserve(w, n, &got, 0, PAWL_OP_DONE);
}

static pawl_op *op_pause(world *w, const char *key, bool paused)
{
    pawl_op *op = op_limit(w, "t", key, (pawl_rate){0});
    op->u.limit.paused = paused;
    op->u.limit.keep_rate = true;
    op->u.limit.move = 9;
    return op;
}

static pawl_limits *limits_of(world *w, pawl_limit_filter filter);
static pawl_limit_info only_limit(world *w);

static void a_pause_leaves_the_rate_alone(world *w)
{
    char key[301];
    memset(key, 'k', 300);
    key[300] = '\0';
    assert_int_equal(apply(w, w->a, 0, op_limit(w, "t", key, per_second(3))), PAWL_OP_DONE);
    assert_int_equal(apply(w, w->a, 0, op_pause(w, key, true)), PAWL_OP_UPDATED);
    assert_int_equal(apply(w, w->a, 0, op_pause(w, key, true)), PAWL_OP_EXISTING);
    pawl_limit_info l = only_limit(w);
    assert_true(l.paused && l.rate.burst == 3);
    assert_int_equal(apply(w, w->b, 0, op_pause(w, key, false)), PAWL_OP_UPDATED);
    l = only_limit(w);
    assert_true(!l.paused && l.rate.burst == 3);
    int64_t now_us = w->clock.now_us;
    for (int i = 0; i < 4; i++) assert_int_equal(run_at(w, due(w, key)) - now_us, i < 3 ? 0 : S);
}

/* Nor does a program that starts, whose limit it then is; nor one that is taken away. */
static void another_rate_resumes_nothing(world *w)
{
    assert_int_equal(apply(w, w->a, 0, op_pause(w, NULL, true)), PAWL_OP_DONE);
    pawl_op *initial = op_limit(w, "t", NULL, per_second(5)), *set = op_limit(w, "t", NULL, per_second(2));
    initial->u.limit.initial = true;
    set->u.limit.keep_paused = true;
    assert_int_equal(apply(w, w->a, 0, initial), PAWL_OP_UPDATED);
    assert_int_equal(apply(w, w->a, 0, initial), PAWL_OP_EXISTING);
    assert_int_equal(apply(w, w->a, 0, set), PAWL_OP_UPDATED);
    assert_true(only_limit(w).paused);
    assert_int_equal(apply(w, w->a, 0, op_pause(w, NULL, false)), PAWL_OP_UPDATED);
    pawl_limit_info l = only_limit(w);
    assert_true(!l.paused && l.rate.burst == 2);
    assert_int_equal(apply(w, w->a, 0, op_pause(w, NULL, true)), PAWL_OP_UPDATED);
    set = op_limit(w, "t", NULL, (pawl_rate){0});
    set->u.limit.keep_paused = true;
    assert_int_equal(apply(w, w->a, 0, set), PAWL_OP_UPDATED);
    l = only_limit(w);
    assert_true(l.paused && l.rate.permits == 0);
}

/* Neither says that it did something, nor leaves a row. */
static void what_is_not_there_is_not_found(world *w)
{
    pawl_op *drop = op_limit(w, "t", "k", (pawl_rate){0}), *again = keep(w, sizeof *again);
    drop->u.limit.keep_paused = true;
    *again = *drop;
    drop->by = "ann";
    assert_int_equal(apply(w, w->a, 0, drop), PAWL_OP_NOT_FOUND);
    assert_int_equal(apply(w, w->a, 0, op_pause(w, "k", false)), PAWL_OP_NOT_FOUND);
    assert_int_equal(apply(w, w->a, 0, op_limit(w, "t", NULL, (pawl_rate){0})), PAWL_OP_NOT_FOUND);
    assert_int_equal(acts_of(w, 0, 100)->count, 0);
    limit(w, "t", per_second(3));
    assert_int_equal(apply(w, w->a, 0, drop), PAWL_OP_NOT_FOUND); /* of the key's own */
    assert_int_equal(apply(w, w->a, 0, op_pause(w, "k", false)), PAWL_OP_NOT_FOUND);
    assert_int_equal(apply(w, w->a, 0, op_pause(w, NULL, false)), PAWL_OP_EXISTING); /* there is one, and it goes on */
    assert_int_equal(apply(w, w->a, 0, op_pause(w, "k", true)), PAWL_OP_DONE);
    assert_int_equal(apply(w, w->a, 0, drop), PAWL_OP_NOT_FOUND);                  /* it is only paused, */
    assert_int_equal(apply(w, w->b, 0, op_pause(w, "k", false)), PAWL_OP_UPDATED); /* and stayed so */
    assert_int_equal(apply(w, w->a, 0, op_pause(w, "k", false)), PAWL_OP_NOT_FOUND);
    assert_int_equal(apply(w, w->a, 0, op_limit(w, "t", "k", per_second(2))), PAWL_OP_DONE);
    assert_int_equal(apply(w, w->a, 0, drop), PAWL_OP_UPDATED);
    assert_int_equal(acts_of(w, 0, 100)->count, 1);
    assert_int_equal(apply(w, w->b, 0, again), PAWL_OP_NOT_FOUND);
    assert_true(only_limit(w).key.len == 0);
}

/* The pages behind the first change nothing that somebody else put meanwhile. */
static void a_page_more_puts_nothing(world *w)
{
    limit(w, "t", per_second(1));
    for (int i = 0; i < 9; i++) due(w, "k");
    pawl_op *first = op_limit(w, "t", NULL, per_second(2)), *rest = op_limit(w, "t", NULL, per_second(2));
    first->u.limit.move = rest->u.limit.move = 4;
    rest->u.limit.only_move = true;
    assert_int_equal(apply(w, w->a, 0, first), PAWL_OP_UPDATED);
    assert_true(first->u.limit.more);
    pawl_op *other = op_limit(w, "t", NULL, (pawl_rate){0});
    other->u.limit.move = 0;
    assert_int_equal(apply(w, w->b, 0, other), PAWL_OP_UPDATED);
    assert_int_equal(apply(w, w->a, 0, rest), PAWL_OP_EXISTING);
    assert_false(rest->u.limit.more); /* eight waited */
    assert_int_equal(limits_of(w, (pawl_limit_filter){0})->count, 0);
}

static void keys_are_any_bytes(world *w)
{
    static const char *const keys[] = {"k", "K", "k ", "\xff\xfe", "\xc3\x28", "%_\\'\"", "\x01"};
    limit(w, "t", per_second(1));
    int64_t now_us = w->clock.now_us;
    for (int round = 0; round < 2; round++)
        for (size_t i = 0; i < sizeof keys / sizeof *keys; i++) assert_int_equal(run_at(w, due(w, keys[i])) - now_us, round * S);
}

static void long_keys_are_known_by_their_hash(world *w)
{
    char key[300], other[300];
    memset(key, 'k', sizeof key);
    memset(other, 'k', sizeof other);
    key[299] = other[299] = '\0';
    other[280] = 'x';
    limit(w, "t", per_second(1));
    int64_t now_us = w->clock.now_us;
    assert_int_equal(run_at(w, due(w, key)), now_us);
    assert_int_equal(run_at(w, due(w, other)), now_us);
    assert_int_equal(run_at(w, due(w, key)), now_us + S);
}

/* ---- upkeep, looking --------------------------------------------------------------------------------------------- */

static pawl_limits *limits_of(world *w, pawl_limit_filter filter)
{
    if (!filter.limit) filter.limit = 100;
    pawl_query query = {.kind = PAWL_QUERY_LIMITS, .limit_filter = &filter};
    assert_int_equal(w->a->type->read(w->a, &query, w->arena, &w->err), PAWL_OK);
    return query.limits;
}

/* The only one there is: of the type, or of a key. */
static pawl_limit_info only_limit(world *w)
{
    const pawl_limits *l = limits_of(w, (pawl_limit_filter){.type = "t"});
    assert_int_equal(l->count, 1);
    return l->limits[0];
}

static void idle_budgets_are_forgotten(world *w)
{
    limit(w, "t", per_second(1));
    pawl_op *op = dispatch(w, (spec){.rate_key = "k"});
    assert_int_equal(limits_of(w, (pawl_limit_filter){0})->count, 2);
    apply(w, w->a, 0, op_finish(w, op->id, op->out_fence, PAWL_SUCCEEDED));
    sweep(w, keep_all());
    assert_int_equal(limits_of(w, (pawl_limit_filter){0})->count, 2);
    advance(w, 3 * PAWL_HOUR);
    sweep(w, keep_all());
    assert_int_equal(limits_of(w, (pawl_limit_filter){0})->count, 1);
    assert_int_equal(run_at(w, due(w, "k")), w->clock.now_us);
}

static void budgets_are_shown(world *w)
{
    limit(w, "t", per_second(2));
    limit(w, "u", per_second(3));
    apply(w, w->a, 0, op_limit(w, "t", "own", per_second(7)));
    for (int i = 0; i < 4; i++) due(w, "k");
    pawl_limits *all = limits_of(w, (pawl_limit_filter){0});
    assert_int_equal(all->count, 4);
    assert_true(strcmp(all->limits[0].type, "t") == 0 && all->limits[0].key.len == 0 && all->limits[0].own);
    const pawl_limit_info *k = &all->limits[1], *own = &all->limits[2];
    assert_true(k->key.len == 1 && !k->own && k->left == 0 && k->waiting == 2 && k->rate.burst == 2);
    assert_int_equal(k->next_slot_us, w->clock.now_us + 3 * S);
    assert_true(own->key.len == 3 && own->own && own->left == 7 && own->waiting == 0);
    assert_string_equal(all->limits[3].type, "u");
    assert_int_equal(limits_of(w, (pawl_limit_filter){.type = "u"})->count, 1);
    assert_int_equal(limits_of(w, (pawl_limit_filter){.waiting = true})->count, 1);
    assert_int_equal(limits_of(w, (pawl_limit_filter){.type = "t", .key = pawl_str("own")})->count, 1);
    pawl_limits *page = limits_of(w, (pawl_limit_filter){.limit = 3});
    assert_true(page->count == 3 && page->next);
    page = limits_of(w, (pawl_limit_filter){.limit = 3, .cursor = page->next});
    assert_true(page->count == 1 && !page->next && strcmp(page->limits[0].type, "u") == 0);
}

/* A key is there if it has a limit of its own or was used, under each type that is limited. */
static void one_key_is_shown(world *w)
{
    static const char *const types[] = {"a", "t", "u"};
    pawl_limit_filter k = {.key = pawl_str("k")};
    limit(w, "t", per_second(2));
    limit(w, "a", per_second(3));
    assert_int_equal(limits_of(w, k)->count, 0);
    apply(w, w->a, 0, op_limit(w, "u", "k", per_second(7)));
    apply(w, w->a, 0, op_limit(w, "u", "l", per_second(7)));
    dispatch(w, (spec){.type = "a", .rate_key = "k"});
    for (int i = 0; i < 4; i++) due(w, i < 3 ? "k" : "j");
    pawl_limits *all = limits_of(w, k);
    assert_true(all->count == 3 && !all->next);
    for (int i = 0; i < 3; i++) {
        assert_true(all->limits[i].key.len == 1 && all->limits[i].key.data[0] == 'k' && all->limits[i].own == (i == 2));
        assert_string_equal(all->limits[i].type, types[i]);
    }
    k.limit = 1;
    for (int i = 0; i < 3; i++) {
        pawl_limits *page = limits_of(w, k);
        assert_true(page->count == 1 && !page->next == (i == 2) && strcmp(page->limits[0].type, types[i]) == 0);
        k.cursor = page->next;
    }
    k = (pawl_limit_filter){.key = pawl_str("k"), .type = "t"};
    assert_int_equal(limits_of(w, k)->count, 1);
    k = (pawl_limit_filter){.key = pawl_str("k"), .waiting = true};
    assert_true(limits_of(w, k)->count == 1 && limits_of(w, k)->limits[0].waiting == 1);
    k = (pawl_limit_filter){.key = pawl_str("j"), .waiting = true};
    assert_int_equal(limits_of(w, k)->count, 0);
    assert_int_equal(limits_of(w, (pawl_limit_filter){.type = "u"})->count, 2);
    assert_int_equal(limits_of(w, (pawl_limit_filter){.type = "v"})->count, 0);
}

/* Page by page: none is missed or shown twice, whether it has a limit, a budget, or both. */
static void limits_are_shown_in_pages(world *w)
{
    char key[16], before[16] = "";
    int found = 0;
    pawl_limit_filter filter = {.limit = 7};
    limit(w, "t", per_second(2));
    limit(w, "u", per_second(2));
    for (int i = 0; i < 500; i++) {
        snprintf(key, sizeof key, "k%03d", i);
        if (i % 10 == 0) apply(w, w->a, 0, op_limit(w, "t", key, per_second(3)));
        if (i % 20 != 0) dispatch(w, (spec){.rate_key = key});
    }
    do {
        pawl_limits *page = limits_of(w, filter);
        assert_in_range(page->count, 1, 7);
        for (size_t i = 0; i < page->count; i++, found++) {
            const pawl_limit_info *l = &page->limits[i];
            snprintf(key, sizeof key, "%s%.*s", l->type, (int)l->key.len, l->key.data);
            assert_true(strcmp(key, before) > 0 && l->own == (l->key.len == 0 || (found - 1) % 10 == 0));
            strcpy(before, key);
        }
        filter.cursor = page->next;
    } while (filter.cursor);
    assert_int_equal(found, 502);
}

static void they_outlive_the_handle(world *w)
{
    limit(w, "t", per_second(1));
    due(w, "k");
    pawl_id second = due(w, "k");
    if (!w->a->type->durable) return;
    int64_t now_us = w->clock.now_us;
    reopen(w);
    assert_int_equal(run_at(w, second), now_us + S);
    assert_int_equal(run_at(w, due(w, "k")), now_us + 2 * S);
}

/* Only `id` is shown as what the name says. */
static void check_only(world *w, const char *name, pawl_id id)
{
    const pawl_filter filter = {.state = name, .limit = 10};
    pawl_query list = {.kind = PAWL_QUERY_LIST, .filter = &filter};
    assert_int_equal(w->a->type->read(w->a, &list, w->arena, &w->err), PAWL_OK);
    assert_int_equal(list.page->count, 1);
    assert_true(list.page->tasks[0]->id == id);
    assert_string_equal(list.page->tasks[0]->display, name);
    assert_string_equal(get(w, id)->display, name);
}

/* Until its slot. One that is for later has none. */
static void those_that_wait_are_throttled(world *w)
{
    limit(w, "t", per_second(1));
    due(w, "k");
    pawl_id waits = due(w, "k");
    pawl_id later = insert(w, w->a, 0, (spec){.rate_key = "k", .delay_us = PAWL_HOUR});
    check_only(w, "throttled", waits);
    check_only(w, "scheduled", later);
    advance(w, 2 * S);
    const pawl_filter filter = {.state = "throttled", .limit = 10};
    pawl_query list = {.kind = PAWL_QUERY_LIST, .filter = &filter};
    assert_int_equal(w->a->type->read(w->a, &list, w->arena, &w->err), PAWL_OK);
    assert_int_equal(list.page->count, 0);
}

static void queues_say_how_many_wait(world *w)
{
    limit(w, "t", per_second(1));
    for (int i = 0; i < 3; i++) due(w, "k");
    dispatch(w, (spec){.rate_key = "k", .queue = "p"});
    insert(w, w->a, 0, (spec){.queue = "p", .type = "u"});
    assert_int_equal(queue_of(w, "q")->throttled, 2);
    assert_int_equal(queue_of(w, "p")->throttled, 1);
    assert_int_equal(stats_of(w, 0)->throttled, 3);
}

CASES(rate_cases){
    {"rate: those that wait are throttled", those_that_wait_are_throttled},
    {"rate: queues say how many wait", queues_say_how_many_wait},
    {"rate: without a limit nothing changes", without_a_limit_nothing_changes},
    {"rate: a burst, then the pace", a_burst_then_the_pace},
    {"rate: stored for others it takes nothing", stored_for_others_it_takes_nothing},
    {"rate: slots are exact", slots_are_exact},
    {"rate: born leased only with a slot", born_leased_only_with_a_slot},
    {"rate: one for later takes nothing", one_for_later_takes_nothing},
    {"rate: not seen before its slot", not_seen_before_its_slot},
    {"rate: beyond the horizon it is stored without a slot", beyond_the_horizon_it_is_stored_without_a_slot},
    {"rate: the limit that refuses is told", the_limit_that_refuses_is_told},
    {"rate: discarded instead of waiting", discarded_instead_of_waiting},
    {"rate: a near slot keeps the lease", a_near_slot_keeps_the_lease},
    {"rate: a far slot ends it", a_far_slot_ends_it},
    {"rate: several of a key in one batch", several_of_a_key_in_one_batch},
    {"rate: one sent again takes nothing more", one_sent_again_takes_nothing_more},
    {"rate: a cancel is told", a_cancel_is_told},
    {"rate: stale without the lease", stale_without_the_lease},
    {"rate: retries can be free", retries_can_be_free},
    {"rate: one given back unstarted keeps its slot", one_given_back_unstarted_keeps_its_slot},
    {"rate: a key that only its holder knows", a_key_that_only_its_holder_knows},
    {"rate: its slot is not for another body", its_slot_is_not_for_another_body},
    {"rate: a keyed one can be taken back until it starts", a_keyed_one_can_be_taken_back_until_it_starts},
    {"rate: cancelled, the newest gives its slot back", cancelled_the_newest_gives_its_slot_back},
    {"rate: a parked one that is cancelled gives back", a_parked_one_that_is_cancelled_gives_back},
    {"rate: a new body keeps the slot", a_new_body_keeps_the_slot},
    {"rate: a later time gives it back", a_later_time_gives_it_back},
    {"rate: another rate key drops it", another_rate_key_drops_it},
    {"rate: a late slot is told as it was", a_late_slot_is_told_as_it_was},
    {"rate: a clock that steps back freezes nobody", a_clock_that_steps_back_freezes_nobody},
    {"rate: a used slot is not given back by a clock that steps back", a_used_slot_is_not_given_back_by_a_clock_that_steps_back},
    {"rate: a clock that steps ahead gives one burst", a_clock_that_steps_ahead_gives_one_burst},
    {"rate: the newest limit wins", the_newest_limit_wins},
    {"rate: a key of its own", a_key_of_its_own},
    {"rate: waiting tasks ask anew when it changes", waiting_tasks_ask_anew_when_it_changes},
    {"rate: taken away, nothing is limited", taken_away_nothing_is_limited},
    {"rate: paused, nothing starts", paused_nothing_starts},
    {"rate: a pause leaves the rate alone", a_pause_leaves_the_rate_alone},
    {"rate: another rate resumes nothing", another_rate_resumes_nothing},
    {"rate: what is not there is not found", what_is_not_there_is_not_found},
    {"rate: a page more puts nothing", a_page_more_puts_nothing},
    {"rate: keys are any bytes", keys_are_any_bytes},
    {"rate: long keys are known by their hash", long_keys_are_known_by_their_hash},
    {"rate: idle budgets are forgotten", idle_budgets_are_forgotten},
    {"rate: budgets are shown", budgets_are_shown},
    {"rate: one key is shown", one_key_is_shown},
    {"rate: limits are shown in pages", limits_are_shown_in_pages},
    {"rate: they outlive the handle", they_outlive_the_handle},
    {NULL, NULL},
};
