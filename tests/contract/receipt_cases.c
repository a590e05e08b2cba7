/* Receipts: a batch that is sent again is answered and applied no second time. */
#include "contract.h"

static pawl_batch again(world *w, int64_t node, pawl_op **ops, int count)
{
    for (int i = 0; i < count; i++) {
        ops[i]->result = PAWL_OP_NONE;
        ops[i]->out_id = ops[i]->out_fence = ops[i]->out_run_at_us = 0;
        ops[i]->out_state = PAWL_STATE_NONE;
    }
    pawl_batch batch = {.node = node, .number = number_of(w, node), .ops = ops, .count = count};
    assert_int_equal(try_apply(w, w->b, &batch), PAWL_OK);
    return batch;
}

static void the_same_results(world *w)
{
    int64_t n = join(w, w->a);
    pawl_id taken = insert(w, w->a, n, (spec){0}), done = insert(w, w->a, n, (spec){.ask_lease = true});
    apply(w, w->a, n, op_finish(w, done, 1, PAWL_SUCCEEDED));
    pawl_op *ops[] = {
        op_insert(w, (spec){.ask_lease = true}),
        op_insert(w, (spec){.id = taken}),
        op_insert(w, (spec){.draw = true, .delay_us = PAWL_HOUR}),
        op_insert(w, (spec){.depth_limit = 1}),
        op_finish(w, done, 1, PAWL_FAILED),
        op_cancel(w, new_id(w), NULL),
        op_queue(w, "p", true, "ann"),
    };
    enum { COUNT = sizeof ops / sizeof *ops };
    pawl_op first[COUNT];
    pawl_batch batch = apply_all(w, w->a, n, ops, COUNT);
    for (int i = 0; i < COUNT; i++) first[i] = *ops[i];
    advance(w, PAWL_MINUTE);
    pawl_batch second = again(w, n, ops, COUNT);
    assert_true(second.store_now_us == batch.store_now_us);
    for (int i = 0; i < COUNT; i++) {
        assert_int_equal(ops[i]->result, first[i].result);
        assert_true(ops[i]->out_id == first[i].out_id && ops[i]->out_fence == first[i].out_fence);
        assert_true(ops[i]->out_run_at_us == first[i].out_run_at_us && ops[i]->out_state == first[i].out_state);
    }
    assert_true(ops[0]->result == PAWL_OP_DONE && ops[0]->out_fence == 1);
    assert_int_equal(ops[1]->result, PAWL_OP_COLLISION);
    assert_int_equal(ops[4]->result, PAWL_OP_STALE);
    assert_int_equal(ops[5]->result, PAWL_OP_NOT_FOUND);
}

static void nothing_is_applied_twice(world *w)
{
    int64_t n = join(w, w->a);
    pawl_id id = insert(w, w->a, n, (spec){.ask_lease = true});
    pawl_op *ops[] = {op_release(w, id, 1, 0, PAWL_ATTEMPT_RETRY), op_insert(w, (spec){.draw = true})};
    apply_all(w, w->a, n, ops, 2);
    for (int i = 0; i < 3; i++) again(w, n, ops, 2);
    pawl_info *info = get(w, id);
    assert_true(info->failures == 1 && info->attempts_count == 1 && info->attempt == 1);
    pawl_stats *stats = stats_of(w, PAWL_HOUR);
    assert_true(stats->dispatched == 2 && stats->retried == 1 && stats->pending == 2);
    assert_int_equal(trail_of(w, id)->audit_count, 2);
    assert_int_equal(count_tasks(w, (pawl_filter){0}), 2);
}

static void a_resend_grants_no_lease(world *w)
{
    int64_t n = join(w, w->a);
    pawl_op *op = op_insert(w, (spec){.ask_lease = true});
    apply_all(w, w->a, n, &op, 1);
    pawl_claimed got = {0};
    assert_int_equal(apply(w, w->a, n, op_release(w, op->id, 1, 0, PAWL_ATTEMPT_NONE)), PAWL_OP_DONE);
    got = claim_one(w, w->b, join(w, w->b));
    assert_true(got.body->id == op->id && got.fence == 2);
    assert_int_equal(renew(w, w->a, n).held, 0);
}

static void numbers_follow_each_other(world *w)
{
    int64_t n = join(w, w->a);
    insert(w, w->a, n, (spec){0});
    insert(w, w->a, n, (spec){0});
    static const int64_t wrong[] = {0, 1, 4, 100};
    for (int i = 0; i < 4; i++) {
        pawl_op *op = op_insert(w, (spec){0});
        pawl_batch batch = {.node = n, .number = wrong[i], .ops = &op, .count = 1};
        pawl_status status = try_apply(w, w->a, &batch);
        assert_true(status != PAWL_OK && status != PAWL_UNAVAILABLE && status != PAWL_UNKNOWN);
        assert_false(exists(w, op->id));
    }
    insert(w, w->a, n, (spec){0});
}

static void nodes_have_receipts_of_their_own(world *w)
{
    int64_t n = join(w, w->a), other = join(w, w->b);
    pawl_op *op = op_insert(w, (spec){.draw = true});
    apply_all(w, w->a, n, &op, 1);
    pawl_id id = op->out_id;
    insert(w, w->b, other, (spec){0});
    insert(w, w->b, other, (spec){0});
    again(w, n, &op, 1);
    assert_true(op->out_id == id);
    assert_int_equal(count_tasks(w, (pawl_filter){0}), 3);
}

static void a_one_shot_has_none(world *w)
{
    pawl_op *op = op_insert(w, (spec){.draw = true});
    apply(w, w->a, 0, op);
    pawl_id first = op->out_id;
    op->id = 0;
    apply(w, w->a, 0, op);
    assert_true(op->out_id != first);
    assert_int_equal(count_tasks(w, (pawl_filter){0}), 2);
}

static void they_outlive_their_node(world *w)
{
    int64_t n = join(w, w->a), other = join(w, w->b);
    pawl_op *op = op_insert(w, (spec){.ask_lease = true});
    apply_all(w, w->a, n, &op, 1);
    rescue_lapsed(w, w->b, other, n, true);
    advance(w, PAWL_HOUR);
    sweep(w, keep_all());
    again(w, n, &op, 1);
    assert_true(op->result == PAWL_OP_DONE && op->out_fence == 1);
    assert_int_equal(count_tasks(w, (pawl_filter){0}), 1);
    assert_state(w, op->id, PAWL_PENDING);
}

static void the_dead_may_still_say_what_happened(world *w)
{
    int64_t n = join(w, w->a), other = join(w, w->b);
    pawl_op *in = op_insert(w, (spec){.ask_lease = true});
    apply_all(w, w->a, n, &in, 1);
    rescue_lapsed(w, w->b, other, n, true);
    pawl_op *ops[] = {op_insert(w, (spec){0}), op_finish(w, in->id, in->out_fence, PAWL_SUCCEEDED)};
    pawl_batch batch = apply_all(w, w->a, n, ops, 2);
    assert_true(batch.node_dead);
    assert_int_equal(ops[0]->result, PAWL_OP_DONE);
    assert_int_equal(ops[1]->result, PAWL_OP_STALE);
    again(w, n, ops, 2);
    assert_int_equal(ops[0]->result, PAWL_OP_DONE);
    assert_int_equal(count_tasks(w, (pawl_filter){0}), 2);
}

static void durable_stores_keep_all(world *w)
{
    if (!w->a->type->durable) return;
    int64_t n = join(w, w->a);
    pawl_op *ops[] = {op_insert(w, (spec){.key = "k", .payload = "1", .ask_lease = true}), op_queue(w, "p", true, "ann")};
    apply_all(w, w->a, n, ops, 2);
    reopen(w);
    again(w, n, ops, 2);
    assert_true(ops[0]->result == PAWL_OP_DONE && ops[0]->out_fence == 1);
    assert_memory_equal(get(w, ops[0]->id)->payload.data, "1", 1);
    assert_state(w, ops[0]->id, PAWL_LEASED);
    assert_true(queue_of(w, "p")->paused);
    assert_true(join(w, w->a) > n);
    assert_int_equal(apply(w, w->a, n, op_finish(w, ops[0]->id, 1, PAWL_SUCCEEDED)), PAWL_OP_DONE);
}

CASES(receipt_cases){
    {"receipt: the same batch has the same results", the_same_results},
    {"receipt: nothing is applied twice", nothing_is_applied_twice},
    {"receipt: leases go on from where they were", a_resend_grants_no_lease},
    {"receipt: numbers follow each other", numbers_follow_each_other},
    {"receipt: nodes have their own", nodes_have_receipts_of_their_own},
    {"receipt: a one-shot command has none", a_one_shot_has_none},
    {"receipt: they outlive their node", they_outlive_their_node},
    {"receipt: the dead may still say what happened", the_dead_may_still_say_what_happened},
    {"receipt: durable stores keep all when closed", durable_stores_keep_all},
    {NULL, NULL},
};
