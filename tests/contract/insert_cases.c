/* INSERT without keys: results, times, ids, born leased, depth limits. */
#include "base/idgen.h"
#include "contract.h"

static void created_with_everything(world *w)
{
    static const char payload[] = "{\"a\":\0 1}", rate[] = "k\0y";
    int64_t n = join(w, w->a);
    pawl_op *op = op_insert(w, (spec){.type = "mail.send", .queue = "mail", .tenant = "acme", .key = "Order:1", .priority = -7});
    pawl_body *b = op->u.insert.body;
    b->payload = (pawl_bytes){payload, sizeof payload - 1};
    b->rate_key = (pawl_bytes){rate, sizeof rate - 1};
    b->content_type = "text/plain";
    b->created_by = "ann";
    b->traceparent = "00-1-2-01";
    b->headers = "a: b\nc: d";
    b->max_attempts = 9;
    b->timeout_us = -1;
    b->audit = PAWL_AUDIT_ERRORS;
    pawl_batch batch = apply_all(w, w->a, n, &op, 1);
    assert_int_equal(op->result, PAWL_OP_DONE);
    assert_true(op->out_id == op->id && op->out_fence == 0 && op->out_run_at_us == w->clock.now_us);
    assert_true(batch.store_now_us == w->clock.now_us && !batch.node_dead);
    assert_true(b->created_us == w->clock.now_us);
    pawl_info *info = get(w, op->id);
    assert_string_equal(info->type, "mail.send");
    assert_string_equal(info->queue, "mail");
    assert_string_equal(info->tenant, "acme");
    assert_string_equal(info->key, "Order:1");
    assert_string_equal(info->content_type, "text/plain");
    assert_string_equal(info->created_by, "ann");
    assert_string_equal(info->traceparent, "00-1-2-01");
    assert_string_equal(info->headers, "a: b\nc: d");
    assert_int_equal(info->payload.len, sizeof payload - 1);
    assert_memory_equal(info->payload.data, payload, sizeof payload - 1);
    assert_int_equal(info->rate_key.len, sizeof rate - 1);
    assert_memory_equal(info->rate_key.data, rate, sizeof rate - 1);
    assert_int_equal(info->priority, -7);
    assert_int_equal(info->max_attempts, 9);
    assert_int_equal(info->timeout_us, -1);
    assert_int_equal(info->audit, PAWL_AUDIT_ERRORS);
    assert_int_equal(info->state, PAWL_PENDING);
    assert_string_equal(info->display, "pending");
    assert_true(info->created_us == w->clock.now_us && info->run_at_us == w->clock.now_us);
    assert_true(info->fence == 0 && info->attempt == 0 && info->attempts_count == 0 && info->progress == -1);
    assert_true(info->failures == 0 && info->rescues == 0 && info->interruptions == 0 && !info->cancel_asked);
    assert_true(info->started_us == 0 && info->finished_us == 0 && info->retry_of == 0 && info->retried_as == 0);
}

static void bare_task_has_nothing_else(world *w)
{
    pawl_id id = insert(w, w->a, 0, (spec){0});
    pawl_info *info = get(w, id);
    assert_null(info->tenant);
    assert_null(info->key);
    assert_null(info->created_by);
    assert_null(info->headers);
    assert_null(info->traceparent);
    assert_null(info->code);
    assert_null(info->error);
    assert_null(info->reason);
    assert_int_equal(info->payload.len, 0);
    assert_int_equal(info->rate_key.len, 0);
}

static void delay_counts_from_the_stores_now(world *w)
{
    pawl_op *op = op_insert(w, (spec){.delay_us = 5 * PAWL_SECOND});
    assert_int_equal(apply(w, w->a, 0, op), PAWL_OP_DONE);
    assert_true(op->out_run_at_us == w->clock.now_us + 5 * PAWL_SECOND);
    assert_true(get(w, op->id)->run_at_us == op->out_run_at_us);
    assert_string_equal(get(w, op->id)->display, "scheduled");
    advance(w, 5 * PAWL_SECOND);
    assert_string_equal(get(w, op->id)->display, "pending");
}

static void at_an_instant(world *w)
{
    pawl_op *later = op_insert(w, (spec){.at_us = w->clock.now_us + PAWL_HOUR}), *past = op_insert(w, (spec){.at_us = 1});
    pawl_op *ops[] = {later, past};
    apply_all(w, w->a, 0, ops, 2);
    assert_true(later->out_run_at_us == w->clock.now_us + PAWL_HOUR);
    assert_true(past->out_run_at_us == w->clock.now_us);
}

static void the_far_future_does_not_overflow(world *w)
{
    pawl_op *op = op_insert(w, (spec){.delay_us = INT64_MAX});
    assert_int_equal(apply(w, w->a, 0, op), PAWL_OP_DONE);
    assert_true(op->out_run_at_us > w->clock.now_us + 1000 * 365 * PAWL_DAY);
}

static void taken_id_collides(world *w)
{
    pawl_id id = insert(w, w->a, 0, (spec){.payload = "1"});
    pawl_op *again = op_insert(w, (spec){.id = id, .payload = "2"}), *other = op_insert(w, (spec){0});
    pawl_op *ops[] = {again, other};
    apply_all(w, w->b, 0, ops, 2);
    assert_int_equal(again->result, PAWL_OP_COLLISION);
    assert_int_equal(other->result, PAWL_OP_DONE);
    assert_memory_equal(get(w, id)->payload.data, "1", 1);
}

static void id_handed_back(world *w)
{
    int64_t n = join(w, w->a);
    pawl_op *first = op_insert(w, (spec){.may_exist = true, .ask_lease = true});
    assert_int_equal(apply(w, w->a, n, first), PAWL_OP_DONE);
    pawl_op *again = op_insert(w, (spec){.id = first->id, .may_exist = true});
    assert_int_equal(apply(w, w->a, n, again), PAWL_OP_EXISTING);
    assert_true(again->out_id == first->id && again->out_state == PAWL_LEASED);
    apply(w, w->a, n, op_finish(w, first->id, first->out_fence, PAWL_SUCCEEDED));
    pawl_op *late = op_insert(w, (spec){.id = first->id, .may_exist = true});
    assert_int_equal(apply(w, w->a, n, late), PAWL_OP_EXISTING);
    assert_int_equal(late->out_state, PAWL_SUCCEEDED);
    assert_int_equal(count_tasks(w, (pawl_filter){0}), 1);
}

static void the_store_draws_ids(world *w)
{
    pawl_id last = 0;
    for (int i = 0; i < 20; i++) {
        if (i == 10) step_wall(w, -PAWL_HOUR);
        pawl_op *op = op_insert(w, (spec){.draw = true});
        assert_int_equal(apply(w, i % 2 ? w->a : w->b, 0, op), PAWL_OP_DONE);
        assert_true(op->out_id > last);
        assert_int_equal(id_number(op->out_id), 0);
        assert_true(exists(w, op->out_id));
        last = op->out_id;
    }
}

static void many_ids_of_one_millisecond(world *w)
{
    enum { MANY = 5000 };
    pawl_op **ops = keep(w, MANY * sizeof *ops);
    for (int i = 0; i < MANY; i++) ops[i] = op_insert(w, (spec){.draw = true});
    apply_all(w, w->a, 0, ops, MANY);
    for (int i = 0; i < MANY; i++) {
        assert_int_equal(ops[i]->result, PAWL_OP_DONE);
        assert_int_equal(id_number(ops[i]->out_id), 0);
        if (i > 0) assert_true(ops[i]->out_id > ops[i - 1]->out_id);
    }
}

static void unstorable_is_refused_alone(world *w)
{
    pawl_op *bad = op_insert(w, (spec){0}), *good = op_insert(w, (spec){0});
    bad->u.insert.body->type = NULL;
    pawl_op *ops[] = {bad, good};
    apply_all(w, w->a, 0, ops, 2);
    assert_int_equal(bad->result, PAWL_OP_REFUSED);
    assert_int_equal(good->result, PAWL_OP_DONE);
    assert_false(exists(w, bad->id));
    assert_true(exists(w, good->id));
}

/* ---- born leased ------------------------------------------------------------------------------------------------- */

static void born_leased(world *w)
{
    int64_t n = join(w, w->a);
    pawl_op *op = op_insert(w, (spec){.ask_lease = true});
    assert_int_equal(apply(w, w->a, n, op), PAWL_OP_DONE);
    assert_true(op->out_fence > 0);
    pawl_info *info = get(w, op->id);
    assert_int_equal(info->state, PAWL_LEASED);
    assert_string_equal(info->display, "running");
    assert_true(info->node == n && info->fence == op->out_fence && info->attempt == 1);
    assert_string_equal(info->node_name, "node");
    assert_int_equal(claim(w, w->b, join(w, w->b), (wish){.free = 5}).got, 0);
    assert_int_equal(renew(w, w->a, n).held, 1);
    assert_int_equal(apply(w, w->a, n, op_finish(w, op->id, op->out_fence, PAWL_SUCCEEDED)), PAWL_OP_DONE);
}

static void a_grant_writes_the_heartbeat(world *w)
{
    int64_t n = join(w, w->a);
    assert_true(node_of(w, n)->expires_us == 0);
    insert(w, w->a, n, (spec){.ask_lease = true});
    assert_true(node_of(w, n)->expires_us == w->clock.now_us + LEASE);
    advance(w, PAWL_SECOND);
    insert(w, w->a, n, (spec){0});
    assert_true(node_of(w, n)->expires_us == w->clock.now_us + LEASE - PAWL_SECOND);
    insert(w, w->a, n, (spec){.ask_lease = true});
    assert_true(node_of(w, n)->expires_us == w->clock.now_us + LEASE);
}

static void not_born_leased(world *w)
{
    int64_t n = join(w, w->a);
    pawl_op *later = op_insert(w, (spec){.ask_lease = true, .delay_us = 1}), *plain = op_insert(w, (spec){0});
    pawl_op *ops[] = {later, plain};
    apply_all(w, w->a, n, ops, 2);
    assert_true(later->out_fence == 0 && plain->out_fence == 0);
    assert_state(w, later->id, PAWL_PENDING);
    pawl_op *nobody = op_insert(w, (spec){.ask_lease = true});
    assert_int_equal(apply(w, w->a, 0, nobody), PAWL_OP_DONE);
    assert_true(nobody->out_fence == 0);
    assert_state(w, nobody->id, PAWL_PENDING);
}

static void not_born_leased_while_paused(world *w)
{
    int64_t n = join(w, w->a);
    apply(w, w->b, 0, op_queue(w, "q", true, NULL));
    pawl_op *op = op_insert(w, (spec){.ask_lease = true}), *other = op_insert(w, (spec){.ask_lease = true, .queue = "p"});
    pawl_op *ops[] = {op, other};
    apply_all(w, w->a, n, ops, 2);
    assert_true(op->result == PAWL_OP_DONE && op->out_fence == 0);
    assert_state(w, op->id, PAWL_PENDING);
    assert_true(other->out_fence > 0);
}

static void not_born_leased_to_the_dead(world *w)
{
    int64_t n = join(w, w->a), other = join(w, w->b);
    insert(w, w->a, n, (spec){.ask_lease = true});
    rescue_lapsed(w, w->b, other, n, true);
    pawl_op *op = op_insert(w, (spec){.ask_lease = true});
    pawl_batch batch = apply_all(w, w->a, n, &op, 1);
    assert_true(batch.node_dead);
    assert_true(op->result == PAWL_OP_DONE && op->out_fence == 0);
    assert_state(w, op->id, PAWL_PENDING);
}

/* ---- depth ------------------------------------------------------------------------------------------------------- */

static void depth_counts_all_unfinished(world *w)
{
    int64_t n = join(w, w->a);
    pawl_id leased = insert(w, w->a, n, (spec){.ask_lease = true});
    insert(w, w->a, n, (spec){.delay_us = PAWL_HOUR});
    insert(w, w->a, n, (spec){.queue = "p"});
    assert_int_equal(apply(w, w->a, n, op_insert(w, (spec){.depth_limit = 2})), PAWL_OP_FULL);
    assert_int_equal(apply(w, w->a, n, op_insert(w, (spec){.depth_limit = 2, .queue = "p"})), PAWL_OP_DONE);
    assert_int_equal(apply(w, w->a, n, op_insert(w, (spec){.depth_limit = 3})), PAWL_OP_DONE);
    assert_int_equal(apply(w, w->a, n, op_insert(w, (spec){.depth_limit = 3})), PAWL_OP_FULL);
    apply(w, w->a, n, op_finish(w, leased, 1, PAWL_SUCCEEDED));
    assert_int_equal(apply(w, w->a, n, op_insert(w, (spec){.depth_limit = 3})), PAWL_OP_DONE);
    assert_int_equal(count_tasks(w, (pawl_filter){.queue = "q"}), 4);
}

static void full_ones_of_a_batch(world *w)
{
    pawl_op *ops[5];
    for (int i = 0; i < 5; i++) ops[i] = op_insert(w, (spec){.depth_limit = 3});
    apply_all(w, w->a, 0, ops, 5);
    int done = 0, full = 0;
    for (int i = 0; i < 5; i++) {
        done += ops[i]->result == PAWL_OP_DONE;
        full += ops[i]->result == PAWL_OP_FULL;
        assert_int_equal(exists(w, ops[i]->id), ops[i]->result == PAWL_OP_DONE);
    }
    assert_true(done == 3 && full == 2);
}

static void a_group_is_stored_whole_or_not_at_all(world *w)
{
    insert(w, w->a, 0, (spec){0});
    pawl_op *ops[6];
    for (int i = 0; i < 6; i++) ops[i] = op_insert(w, (spec){.depth_limit = 4, .group = 1 + i % 2});
    ops[2]->u.insert.group = 1;
    ops[3]->u.insert.group = 1; /* group 1: 0, 2, 3, 4; group 2: 1, 5 */
    apply_all(w, w->a, 0, ops, 6);
    for (int i = 0; i < 6; i++) {
        bool second = i == 1 || i == 5;
        assert_int_equal(ops[i]->result, second ? PAWL_OP_DONE : PAWL_OP_FULL);
        assert_int_equal(exists(w, ops[i]->id), second);
    }
}

static void a_full_group_updates_nothing(world *w)
{
    pawl_id keyed = insert(w, w->a, 0, (spec){.key = "k", .payload = "1"});
    pawl_op *ops[] = {op_insert(w, (spec){.key = "k", .payload = "2", .group = 7, .depth_limit = 1}),
                      op_insert(w, (spec){.group = 7, .depth_limit = 1})};
    apply_all(w, w->a, 0, ops, 2);
    assert_int_equal(ops[0]->result, PAWL_OP_FULL);
    assert_int_equal(ops[1]->result, PAWL_OP_FULL);
    assert_memory_equal(get(w, keyed)->payload.data, "1", 1);
}

static void a_full_queue_still_updates(world *w)
{
    insert(w, w->a, 0, (spec){.key = "k", .payload = "1"});
    assert_int_equal(apply(w, w->a, 0, op_insert(w, (spec){.key = "k", .payload = "2", .depth_limit = 1})), PAWL_OP_UPDATED);
    assert_int_equal(apply(w, w->a, 0, op_insert(w, (spec){.depth_limit = 1})), PAWL_OP_FULL);
}

static void a_full_queue_says_how_many_must_leave(world *w)
{
    insert(w, w->a, 0, (spec){0});
    pawl_op *ops[3];
    for (int i = 0; i < 3; i++) ops[i] = op_insert(w, (spec){.depth_limit = 2, .group = 1});
    apply_all(w, w->a, 0, ops, 3);
    for (int i = 0; i < 3; i++) {
        assert_int_equal(ops[i]->result, PAWL_OP_FULL);
        assert_int_equal(ops[i]->u.insert.missing, 2);
        assert_int_equal(ops[i]->out_fence, 0);
    }
}

CASES(insert_cases){
    {"insert: created with everything it says", created_with_everything},
    {"insert: a bare task has nothing else", bare_task_has_nothing_else},
    {"insert: a delay counts from the store's now", delay_counts_from_the_stores_now},
    {"insert: at an instant, the past is now", at_an_instant},
    {"insert: the far future does not overflow", the_far_future_does_not_overflow},
    {"insert: a taken id collides, alone", taken_id_collides},
    {"insert: an id handed back exists or is created", id_handed_back},
    {"insert: the store draws ids of number 0, ever rising", the_store_draws_ids},
    {"insert: more ids than a millisecond has", many_ids_of_one_millisecond},
    {"insert: what cannot be stored is refused alone", unstorable_is_refused_alone},
    {"born leased: granted", born_leased},
    {"born leased: a grant writes the heartbeat, nothing else does", a_grant_writes_the_heartbeat},
    {"born leased: not if later, not asked, or nobody's", not_born_leased},
    {"born leased: not while the queue is paused", not_born_leased_while_paused},
    {"born leased: not to the dead", not_born_leased_to_the_dead},
    {"depth: counts everything unfinished of the queue", depth_counts_all_unfinished},
    {"depth: of a batch, as many as there is room for", full_ones_of_a_batch},
    {"depth: a group is stored whole or not at all", a_group_is_stored_whole_or_not_at_all},
    {"depth: a full group updates nothing", a_full_group_updates_nothing},
    {"depth: a full queue still updates by key", a_full_queue_still_updates},
    {"depth: a full queue says how many must leave", a_full_queue_says_how_many_must_leave},
    {NULL, NULL},
};
