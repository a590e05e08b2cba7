/* INSERT with a key: at most one live task per tenant and key. */
#include "contract.h"

static void updates_what_has_not_started(world *w)
{
    pawl_id id = insert(w, w->a, 0, (spec){.key = "k", .payload = "1", .priority = 5});
    int64_t created_us = w->clock.now_us;
    advance(w, PAWL_SECOND);
    pawl_op *op =
        op_insert(w, (spec){.key = "k", .payload = "22", .type = "u", .queue = "p", .priority = 2, .delay_us = PAWL_MINUTE});
    assert_int_equal(apply(w, w->b, 0, op), PAWL_OP_UPDATED);
    assert_true(op->out_id == id && op->out_fence == 0 && op->out_run_at_us == w->clock.now_us + PAWL_MINUTE);
    assert_int_equal(count_tasks(w, (pawl_filter){0}), 1);
    pawl_info *info = get(w, id);
    assert_int_equal(info->payload.len, 2);
    assert_string_equal(info->type, "u");
    assert_string_equal(info->queue, "p");
    assert_int_equal(info->priority, 2);
    assert_true(info->run_at_us == w->clock.now_us + PAWL_MINUTE);
    assert_true(info->created_us == created_us);
    assert_true(queue_of(w, "q")->pending == 0 && queue_of(w, "p")->pending == 1);
}

static void the_updated_task_is_claimed_as_it_is_now(world *w)
{
    int64_t n = join(w, w->a);
    pawl_id id = insert(w, w->a, n, (spec){.key = "k", .payload = "1"});
    apply(w, w->a, n, op_insert(w, (spec){.key = "k", .payload = "2", .type = "u", .queue = "p"}));
    assert_int_equal(claim(w, w->a, n, (wish){.free = 3}).got, 0);
    assert_int_equal(claim(w, w->a, n, (wish){.free = 3, .queue = "p", .types = {"t"}}).got, 0);
    assert_int_equal(claim(w, w->a, n, (wish){.free = 3, .queue = "p", .types = {"u"}}).got, 1);
    assert_true(w->claimed[0].body->id == id);
    assert_memory_equal(w->claimed[0].body->payload.data, "2", 2);
}

static void existing_while_it_runs(world *w)
{
    int64_t n = join(w, w->a);
    pawl_op *first = op_insert(w, (spec){.key = "k", .payload = "1", .ask_lease = true});
    assert_int_equal(apply(w, w->a, n, first), PAWL_OP_DONE);
    assert_true(first->out_fence > 0);
    pawl_op *again = op_insert(w, (spec){.key = "k", .payload = "2", .ask_lease = true});
    assert_int_equal(apply(w, w->b, 0, again), PAWL_OP_EXISTING);
    assert_true(again->out_id == first->id && again->out_state == PAWL_LEASED && again->out_fence == 0);
    assert_memory_equal(get(w, first->id)->payload.data, "1", 1);
    assert_int_equal(apply(w, w->a, n, op_finish(w, first->id, first->out_fence, PAWL_SUCCEEDED)), PAWL_OP_DONE);
}

static void an_update_is_never_leased(world *w)
{
    int64_t n = join(w, w->a);
    pawl_id id = insert(w, w->a, n, (spec){.key = "k"});
    pawl_op *op = op_insert(w, (spec){.key = "k", .ask_lease = true});
    assert_int_equal(apply(w, w->a, n, op), PAWL_OP_UPDATED);
    assert_true(op->out_fence == 0);
    assert_state(w, id, PAWL_PENDING);
}

static void taken_back_before_it_started(world *w)
{
    int64_t n = join(w, w->a);
    pawl_id id = insert(w, w->a, n, (spec){.key = "k", .payload = "1"});
    claim(w, w->a, n, (wish){.free = 0, .prefetch = 1});
    assert_int_equal(w->claimed_count, 1);
    assert_true(w->claimed[0].not_started);
    int64_t fence = w->claimed[0].fence;
    assert_int_equal(apply(w, w->b, 0, op_insert(w, (spec){.key = "k", .payload = "2"})), PAWL_OP_UPDATED);
    assert_state(w, id, PAWL_PENDING);
    assert_true(fence_of(w, id) > fence);
    assert_int_equal(renew(w, w->a, n).held, 0);
    pawl_op *start = op_start(w, id, fence, false);
    assert_int_equal(apply(w, w->a, n, start), PAWL_OP_STALE);
    assert_int_equal(start->out_state, PAWL_PENDING);
    pawl_claimed got = claim_one(w, w->a, n);
    assert_true(got.body->id == id && got.fence > fence + 1);
    assert_memory_equal(got.body->payload.data, "2", 1);
}

static void once_started_it_stays(world *w)
{
    int64_t n = join(w, w->a);
    pawl_id id = insert(w, w->a, n, (spec){.key = "k"});
    claim(w, w->a, n, (wish){.free = 0, .prefetch = 1});
    int64_t fence = w->claimed[0].fence;
    assert_int_equal(apply(w, w->a, n, op_start(w, id, fence, false)), PAWL_OP_DONE);
    assert_int_equal(apply(w, w->b, 0, op_insert(w, (spec){.key = "k"})), PAWL_OP_EXISTING);
    assert_int_equal(apply(w, w->a, n, op_finish(w, id, fence, PAWL_SUCCEEDED)), PAWL_OP_DONE);
}

static void replaces_the_finished(world *w)
{
    int64_t n = join(w, w->a);
    static const pawl_state ends[] = {PAWL_SUCCEEDED, PAWL_FAILED, PAWL_CANCELLED};
    pawl_id last = insert(w, w->a, n, (spec){.key = "k"});
    for (int i = 0; i < 3; i++) {
        pawl_claimed got = claim_one(w, w->a, n);
        assert_true(got.body->id == last);
        apply(w, w->a, n, op_finish(w, last, got.fence, ends[i]));
        pawl_op *op = op_insert(w, (spec){.key = "k"});
        assert_int_equal(apply(w, w->b, 0, op), PAWL_OP_REPLACED);
        assert_true(op->out_id == op->id);
        assert_state(w, last, ends[i]);
        assert_string_equal(get(w, last)->key, "k");
        pawl_op *again = op_insert(w, (spec){.key = "k"});
        assert_int_equal(apply(w, w->b, 0, again), PAWL_OP_UPDATED);
        assert_true(again->out_id == op->id);
        last = op->id;
    }
    assert_int_equal(count_tasks(w, (pawl_filter){.key = "k"}), 4);
}

static void a_replacement_may_be_leased(world *w)
{
    int64_t n = join(w, w->a);
    pawl_id id = insert(w, w->a, n, (spec){.key = "k"});
    apply(w, w->a, n, op_cancel(w, id, NULL));
    pawl_op *op = op_insert(w, (spec){.key = "k", .ask_lease = true});
    assert_int_equal(apply(w, w->a, n, op), PAWL_OP_REPLACED);
    assert_true(op->out_fence > 0);
    assert_state(w, op->id, PAWL_LEASED);
}

static void tenants_have_keys_of_their_own(world *w)
{
    pawl_id none = insert(w, w->a, 0, (spec){.key = "k"});
    pawl_id acme = insert(w, w->a, 0, (spec){.key = "k", .tenant = "acme"});
    pawl_id other = insert(w, w->a, 0, (spec){.key = "k", .tenant = "Acme"});
    pawl_id upper = insert(w, w->a, 0, (spec){.key = "K"});
    pawl_op *op = op_insert(w, (spec){.key = "k", .tenant = "acme"});
    assert_int_equal(apply(w, w->a, 0, op), PAWL_OP_UPDATED);
    assert_true(op->out_id == acme && none != acme && other != acme && upper != none);
    assert_int_equal(count_tasks(w, (pawl_filter){.key = "k"}), 3);
    assert_int_equal(count_tasks(w, (pawl_filter){.key = "k", .tenant = "acme"}), 1);
}

static void long_keys_and_odd_bytes(world *w)
{
    char a[201], b[201];
    memset(a, 'x', 200);
    memset(b, 'x', 200);
    a[200] = b[200] = '\0';
    b[199] = 'y';
    pawl_id first = insert(w, w->a, 0, (spec){.key = a}), second = insert(w, w->a, 0, (spec){.key = b});
    assert_true(first != second);
    insert(w, w->a, 0, (spec){.key = "ü/'\"%_\\"});
    pawl_op *op = op_insert(w, (spec){.key = "ü/'\"%_\\"});
    assert_int_equal(apply(w, w->a, 0, op), PAWL_OP_UPDATED);
}

static void a_retrying_task_can_be_updated(world *w)
{
    int64_t n = join(w, w->a);
    pawl_id id = insert(w, w->a, n, (spec){.key = "k"});
    pawl_claimed got = claim_one(w, w->a, n);
    apply(w, w->a, n, op_release(w, id, got.fence, PAWL_HOUR, PAWL_ATTEMPT_RETRY));
    pawl_op *op = op_insert(w, (spec){.key = "k", .payload = "2"});
    assert_int_equal(apply(w, w->a, n, op), PAWL_OP_UPDATED);
    assert_true(op->out_id == id && op->out_run_at_us == w->clock.now_us);
    assert_int_equal(get(w, id)->failures, 1);
    assert_int_equal(get(w, id)->attempts_count, 1);
}

static void unrelated_keys_of_a_batch(world *w)
{
    enum { MANY = 200 };
    pawl_op *ops[MANY];
    for (int round = 0; round < 2; round++) {
        for (int i = 0; i < MANY; i++) {
            char *key = keep(w, 16);
            key[0] = 'a';
            key[1] = (char)('0' + i / 100);
            key[2] = (char)('0' + i / 10 % 10);
            key[3] = (char)('0' + i % 10);
            ops[i] = op_insert(w, (spec){.key = key});
        }
        apply_all(w, w->a, 0, ops, MANY);
        for (int i = 0; i < MANY; i++) assert_int_equal(ops[i]->result, round ? PAWL_OP_UPDATED : PAWL_OP_DONE);
    }
    assert_int_equal(count_tasks(w, (pawl_filter){0}), MANY);
}

CASES(key_cases){
    {"key: updates what has not started", updates_what_has_not_started},
    {"key: the updated task is claimed as it is now", the_updated_task_is_claimed_as_it_is_now},
    {"key: existing while it runs", existing_while_it_runs},
    {"key: an update is never leased", an_update_is_never_leased},
    {"key: a lease that has not started is taken back", taken_back_before_it_started},
    {"key: once started it stays", once_started_it_stays},
    {"key: replaces the finished", replaces_the_finished},
    {"key: a replacement may be born leased", a_replacement_may_be_leased},
    {"key: tenants have keys of their own, case counts", tenants_have_keys_of_their_own},
    {"key: long keys and odd bytes", long_keys_and_odd_bytes},
    {"key: a retrying task can be updated", a_retrying_task_can_be_updated},
    {"key: many in one batch", unrelated_keys_of_a_batch},
    {NULL, NULL},
};
