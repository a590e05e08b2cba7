/* Families: a child waits for its parents and for nothing else, a batch ends once and at the right time, and however many wait, all of
 * them are told in small steps. */
#include "contract.h"

#define S PAWL_SECOND

/* ---- helpers ----------------------------------------------------------------------------------------------------- */

static int64_t node(world *w)
{
    if (!w->own_node) w->own_node = join(w, w->a);
    return w->own_node;
}

static pawl_family *family(world *w, int count, const pawl_id *parents)
{
    pawl_family *f = keep(w, sizeof *f);
    pawl_kin *kin = keep(w, ((size_t)count + 1) * sizeof *kin);
    for (int i = 0; parents && i < count; i++) kin[i].id = parents[i];
    f->parents = kin;
    f->parents_count = count;
    return f;
}

static pawl_op *op_child(world *w, int count, const pawl_id *parents, pawl_if_failed if_failed)
{
    pawl_op *op = op_insert(w, (spec){.queue = "p"});
    pawl_family *f = family(w, count, parents);
    f->if_failed = if_failed;
    op->u.insert.family = f;
    return op;
}

static pawl_id child(world *w, pawl_id parent, pawl_if_failed if_failed)
{
    pawl_op *op = op_child(w, 1, &parent, if_failed);
    assert_int_equal(apply(w, w->a, 0, op), PAWL_OP_DONE);
    return op->out_id;
}

static pawl_op *op_batch(world *w, pawl_batch_act act, pawl_id id, const char *name, pawl_id within)
{
    pawl_op *op = keep(w, sizeof *op);
    pawl_batch_put *put = keep(w, sizeof *put);
    *put = (pawl_batch_put){.act = act, .name = name, .within = within};
    op->kind = PAWL_OP_BATCH;
    op->id = id ? id : new_id(w);
    op->audit = PAWL_AUDIT_FULL;
    op->u.batch = put;
    return op;
}

static pawl_id open_within(world *w, const char *name, pawl_id within)
{
    pawl_op *op = op_batch(w, PAWL_BATCH_OPEN, 0, name, within);
    assert_int_equal(apply(w, w->a, 0, op), PAWL_OP_DONE);
    assert_true(op->out_id == op->id);
    return op->out_id;
}

static pawl_id open_batch(world *w, const char *name) { return open_within(w, name, 0); }
static void close_batch(world *w, pawl_id id)
{
    assert_int_equal(apply(w, w->a, 0, op_batch(w, PAWL_BATCH_CLOSE, id, NULL, 0)), PAWL_OP_DONE);
}

static pawl_op *op_member(world *w, pawl_id batch)
{
    pawl_op *op = op_insert(w, (spec){0});
    pawl_family *f = family(w, 0, NULL);
    f->batch.id = batch;
    op->u.insert.family = f;
    return op;
}

static pawl_id member(world *w, pawl_id batch)
{
    pawl_op *op = op_member(w, batch);
    assert_int_equal(apply(w, w->a, 0, op), PAWL_OP_DONE);
    return op->out_id;
}

static pawl_batch_info *batch_info(world *w, pawl_id id)
{
    pawl_query query = {.kind = PAWL_QUERY_BATCH, .id = id};
    assert_int_equal(store_read(w->b, &query, w->arena, &w->err), PAWL_OK);
    assert_int_equal(query.batches_count, 1);
    assert_true(query.batches->id == id);
    return query.batches;
}

static pawl_relatives_query relatives(world *w, pawl_id of, pawl_relation relation, pawl_id after, int limit)
{
    pawl_relatives_query f = {.of = of, .relation = relation, .after = after, .limit = limit};
    pawl_query query = {.kind = PAWL_QUERY_RELATIVES, .relatives = &f};
    assert_int_equal(store_read(w->b, &query, w->arena, &w->err), PAWL_OK);
    return f;
}

static pawl_batch end_with(world *w, pawl_op *finish) { return apply_all(w, w->a, node(w), &finish, 1); }

static pawl_batch end(world *w, pawl_id id, pawl_state to)
{
    pawl_claimed got = lease(w, w->a, node(w), id);
    pawl_op *op = op_finish(w, id, got.fence, to);
    pawl_batch batch = end_with(w, op);
    assert_int_equal(op->result, PAWL_OP_DONE);
    return batch;
}

static pawl_op *op_settle(world *w, int limit)
{
    pawl_op *op = keep(w, sizeof *op);
    op->kind = PAWL_OP_SETTLE;
    op->audit = PAWL_AUDIT_FULL;
    op->u.settle.limit = limit;
    return op;
}

static int settle_all(world *w, int limit)
{
    for (int steps = 1;; steps++) {
        pawl_op *op = op_settle(w, limit);
        pawl_batch batch = apply_all(w, w->a, 0, &op, 1);
        assert_int_equal(op->result, PAWL_OP_DONE);
        assert_true(op->u.settle.settled <= limit + PAWL_SETTLE_AT_ONCE);
        if (!batch.unsettled) return steps;
        assert_true(steps < 1000);
    }
}

/* ---- parents ----------------------------------------------------------------------------------------------------- */

static void waits_for_its_parent(world *w)
{
    pawl_id parent = insert(w, w->a, 0, (spec){0}), id = child(w, parent, PAWL_IF_FAILED_CANCEL);
    assert_state(w, id, PAWL_WAITING);
    assert_int_equal(queue_of(w, "p")->waiting, 1);
    assert_int_equal(claim(w, w->a, node(w), (wish){.queue = "p", .free = 5}).got, 0);
    advance(w, S);
    pawl_batch batch = end(w, parent, PAWL_SUCCEEDED);
    assert_true(batch.freed && !batch.unsettled);
    assert_state(w, id, PAWL_PENDING);
    assert_int_equal(queue_of(w, "p")->waiting, 0);
    assert_int_equal(queue_of(w, "p")->pending, 1);
    assert_true(get(w, id)->run_at_us == w->clock.now_us);
    assert_int_equal(claim(w, w->a, node(w), (wish){.queue = "p", .free = 5}).got, 1);
    assert_true(w->claimed[0].body->id == id);
}

static void waits_for_all_of_them(world *w)
{
    pawl_id parents[3], id;
    for (int i = 0; i < 3; i++) parents[i] = insert(w, w->a, 0, (spec){0});
    pawl_op *op = op_child(w, 3, parents, PAWL_IF_FAILED_CANCEL);
    assert_int_equal(apply(w, w->a, 0, op), PAWL_OP_DONE);
    assert_int_equal(op->out_state, PAWL_WAITING);
    id = op->out_id;
    for (int i = 0; i < 3; i++) {
        assert_state(w, id, PAWL_WAITING);
        pawl_relatives_query r = relatives(w, id, PAWL_PARENTS, 0, 10);
        assert_int_equal(r.count, 3);
        for (int k = 0; k < 3; k++) assert_int_equal(r.relatives[k].waits, k >= i);
        assert_false(end(w, parents[i], PAWL_SUCCEEDED).freed != (i == 2));
    }
    assert_state(w, id, PAWL_PENDING);
}

static void not_before_its_time(world *w)
{
    pawl_id parent = insert(w, w->a, 0, (spec){0});
    pawl_op *op = op_child(w, 1, &parent, PAWL_IF_FAILED_CANCEL);
    op->u.insert.delay_us = 60 * S;
    apply(w, w->a, 0, op);
    advance(w, S);
    end(w, parent, PAWL_SUCCEEDED);
    assert_state(w, op->out_id, PAWL_PENDING);
    assert_true(get(w, op->out_id)->run_at_us == w->clock.now_us + 59 * S);
}

static void that_have_ended(world *w)
{
    pawl_id good = insert(w, w->a, 0, (spec){0}), bad;
    end(w, good, PAWL_SUCCEEDED);
    bad = insert(w, w->a, 0, (spec){0});
    end(w, bad, PAWL_FAILED);
    assert_state(w, child(w, good, PAWL_IF_FAILED_CANCEL), PAWL_PENDING);
    assert_state(w, child(w, bad, PAWL_IF_FAILED_RUN), PAWL_PENDING);
    assert_state(w, child(w, bad, PAWL_IF_FAILED_CANCEL), PAWL_CANCELLED);
    assert_state(w, child(w, bad, PAWL_IF_FAILED_HOLD), PAWL_WAITING);
    pawl_op *op = op_child(w, 1, &good, PAWL_IF_FAILED_CANCEL);
    op->u.insert.ask_lease = true;
    assert_int_equal(apply(w, w->a, node(w), op), PAWL_OP_DONE);
    assert_true(op->out_fence > 0); /* it need not wait: as any other task */
}

static void that_do_not_exist(world *w)
{
    pawl_id parents[] = {insert(w, w->a, 0, (spec){0}), new_id(w)};
    pawl_op *op = op_child(w, 2, parents, PAWL_IF_FAILED_CANCEL);
    assert_int_equal(apply(w, w->a, 0, op), PAWL_OP_NOT_FOUND);
    assert_true(op->out_id == parents[1]);
    assert_false(exists(w, op->id));
    assert_int_equal(relatives(w, parents[0], PAWL_CHILDREN, 0, 10).count, 0);
    end(w, parents[0], PAWL_SUCCEEDED);
}

static void cancel_policy(world *w)
{
    pawl_id a = insert(w, w->a, 0, (spec){0}), b = insert(w, w->a, 0, (spec){0}), both[] = {a, b};
    pawl_op *op = op_child(w, 2, both, PAWL_IF_FAILED_CANCEL);
    apply(w, w->a, 0, op);
    pawl_id grandchild = child(w, op->out_id, PAWL_IF_FAILED_CANCEL), stays = child(w, op->out_id, PAWL_IF_FAILED_RUN);
    end(w, a, PAWL_FAILED);
    assert_state(w, op->out_id, PAWL_CANCELLED);
    assert_string_equal(get(w, op->out_id)->reason, "parent_failed");
    assert_state(w, grandchild, PAWL_CANCELLED);
    assert_string_equal(get(w, grandchild)->reason, "parent_cancelled");
    assert_state(w, stays, PAWL_PENDING);
    end(w, b, PAWL_SUCCEEDED);
    assert_state(w, op->out_id, PAWL_CANCELLED);
}

/* Of two parents that it hears of at the same time the older one counts, whichever was named first. */
static void the_older_one_cancels(world *w)
{
    for (int i = 0; i < 4; i++) {
        pawl_id both[] = {insert(w, w->a, 0, (spec){0}), insert(w, w->a, 0, (spec){0})}, turned[] = {both[1], both[0]};
        assert_int_equal(apply(w, w->a, 0, op_cancel(w, both[1 - i % 2], NULL)), PAWL_OP_DONE);
        end(w, both[i % 2], PAWL_FAILED);
        pawl_op *op = op_child(w, 2, i < 2 ? both : turned, PAWL_IF_FAILED_CANCEL);
        apply(w, w->a, 0, op);
        settle_all(w, 1000);
        assert_state(w, op->out_id, PAWL_CANCELLED);
        assert_string_equal(get(w, op->out_id)->reason, i % 2 == 0 ? "parent_failed" : "parent_cancelled");
    }
}

static void run_policy(world *w)
{
    pawl_id a = insert(w, w->a, 0, (spec){0}), b = insert(w, w->a, 0, (spec){0}), both[] = {a, b};
    pawl_op *op = op_child(w, 2, both, PAWL_IF_FAILED_RUN);
    apply(w, w->a, 0, op);
    end(w, a, PAWL_FAILED);
    assert_state(w, op->out_id, PAWL_WAITING);
    assert_int_equal(apply(w, w->a, 0, op_cancel(w, b, NULL)), PAWL_OP_DONE);
    assert_state(w, op->out_id, PAWL_PENDING);
}

static void hold_policy(world *w)
{
    pawl_id a = insert(w, w->a, 0, (spec){0}), id = child(w, a, PAWL_IF_FAILED_HOLD);
    end(w, a, PAWL_FAILED);
    assert_state(w, id, PAWL_WAITING);
    pawl_relatives_query r = relatives(w, id, PAWL_PARENTS, 0, 10);
    assert_true(r.count == 1 && r.relatives[0].held && r.relatives[0].waits);
    pawl_op *retry = op_retry(w, a, NULL);
    assert_int_equal(apply(w, w->a, 0, retry), PAWL_OP_DONE);
    settle_all(w, 100);
    assert_state(w, id, PAWL_WAITING);
    r = relatives(w, id, PAWL_PARENTS, 0, 10);
    assert_true(r.count == 1 && r.relatives[0].id == retry->out_id && r.relatives[0].waits && !r.relatives[0].held);
    end(w, retry->out_id, PAWL_FAILED);
    assert_state(w, id, PAWL_WAITING);
    pawl_op *again = op_retry(w, retry->out_id, NULL);
    assert_int_equal(apply(w, w->a, 0, again), PAWL_OP_DONE);
    end(w, again->out_id, PAWL_SUCCEEDED);
    assert_state(w, id, PAWL_PENDING);
}

static pawl_id retry_of(world *w, pawl_id id)
{
    pawl_op *op = op_retry(w, id, NULL);
    assert_int_equal(apply(w, w->a, 0, op), PAWL_OP_DONE);
    return op->out_id;
}

/* Somebody else's children are told before them, so that nobody who is held here has been told anything when the retry is retried. */
static void retried_before_it_was_told(world *w)
{
    enum { BUSY = 6 * PAWL_SETTLE_AT_ONCE };
    pawl_id busy = insert(w, w->a, 0, (spec){0}), a = insert(w, w->a, 0, (spec){0});
    pawl_op **ops = keep(w, BUSY * sizeof *ops);
    for (int i = 0; i < BUSY; i++) ops[i] = op_child(w, 1, &busy, PAWL_IF_FAILED_RUN);
    for (int i = 0; i < BUSY; i += 500) apply_all(w, w->a, node(w), ops + i, 500);
    pawl_id held = child(w, a, PAWL_IF_FAILED_HOLD);
    end(w, busy, PAWL_SUCCEEDED);
    end(w, a, PAWL_FAILED);
    pawl_id first = retry_of(w, a);
    end(w, first, PAWL_FAILED);
    pawl_id second = retry_of(w, first);
    settle_all(w, 1000);
    pawl_relatives_query r = relatives(w, held, PAWL_PARENTS, 0, 10);
    assert_true(r.count == 1 && r.relatives[0].id == second && r.relatives[0].waits && !r.relatives[0].held);
    end(w, second, PAWL_SUCCEEDED);
    settle_all(w, 1000);
    assert_state(w, held, PAWL_PENDING);
}

/* Whoever comes later, and names one that failed and was retried, waits for the retry. */
static void child_of_one_that_was_retried(world *w)
{
    pawl_id a = insert(w, w->a, 0, (spec){0});
    end(w, a, PAWL_FAILED);
    pawl_id retry = retry_of(w, a), late = child(w, a, PAWL_IF_FAILED_HOLD);
    settle_all(w, 1000);
    assert_state(w, late, PAWL_WAITING);
    pawl_relatives_query r = relatives(w, late, PAWL_PARENTS, 0, 10);
    assert_true(r.count == 1 && r.relatives[0].id == retry && !r.relatives[0].held);
    end(w, retry, PAWL_SUCCEEDED);
    settle_all(w, 1000);
    assert_state(w, late, PAWL_PENDING);
    pawl_id later = child(w, a, PAWL_IF_FAILED_HOLD); /* the retry has ended, too */
    settle_all(w, 1000);
    assert_state(w, later, PAWL_PENDING);
}

static void settle_late(world *w)
{
    settle_all(w, 1000);
    advance(w, S); /* what could not be told yet is told now */
    settle_all(w, 1000);
}

/* Who names one that failed, and its retries as well, waits for each of them once. */
static void child_of_one_and_its_retries(world *w)
{
    for (int ended = 0; ended < 3; ended++) {
        pawl_id a = insert(w, w->a, 0, (spec){0});
        end(w, a, PAWL_FAILED);
        pawl_id first = retry_of(w, a);
        if (ended > 0) end(w, first, PAWL_FAILED);
        pawl_id second = ended > 0 ? retry_of(w, first) : 0, last = second ? second : first;
        if (ended > 1) end(w, last, PAWL_SUCCEEDED);
        pawl_id some[] = {a, last}, all[] = {a, first, last};
        pawl_op *ops[] = {op_child(w, 2, some, PAWL_IF_FAILED_HOLD), op_child(w, second ? 3 : 2, all, PAWL_IF_FAILED_HOLD)};
        apply_all(w, w->a, node(w), ops, 2);
        settle_late(w);
        for (int i = 0; i < 2 && ended < 2; i++) assert_state(w, ops[i]->out_id, PAWL_WAITING);
        if (ended < 2) end(w, last, PAWL_SUCCEEDED);
        settle_late(w);
        for (int i = 0; i < 2; i++) assert_state(w, ops[i]->out_id, PAWL_PENDING);
    }
}

/* Of two that were stored under one key there is one. */
static void the_same_parent_twice(world *w)
{
    pawl_op *one = op_insert(w, (spec){.key = "k"}), *same = op_insert(w, (spec){.key = "k"});
    pawl_op *op = op_child(w, 2, NULL, PAWL_IF_FAILED_CANCEL);
    pawl_kin *kin = (pawl_kin *)op->u.insert.family->parents;
    kin[0].op = one;
    kin[1].op = same;
    assert_int_equal(apply(w, w->a, 0, one), PAWL_OP_DONE);
    apply(w, w->a, 0, same);
    assert_true(one->out_id == same->out_id);
    assert_int_equal(apply(w, w->a, 0, op), PAWL_OP_DONE);
    assert_int_equal(relatives(w, op->out_id, PAWL_PARENTS, 0, 10).count, 1);
    end(w, one->out_id, PAWL_SUCCEEDED);
    settle_all(w, 1000);
    assert_state(w, op->out_id, PAWL_PENDING);
}

/* Stored with it: whose key is new, was held by one that has ended, or is held by one that waits. The last parent is refused. */
static void one_of_the_same_batch_has_a_key(world *w)
{
    for (int i = 0; i < 4; i++) {
        pawl_op *ops[] = {op_insert(w, (spec){.key = i < 3 ? "k" : "other"}), op_child(w, 1, NULL, PAWL_IF_FAILED_CANCEL),
                          op_child(w, 1, NULL, PAWL_IF_FAILED_CANCEL)};
        for (int k = 1; k < 3; k++) ((pawl_kin *)ops[k]->u.insert.family->parents)[0].op = ops[0];
        ops[1]->id = ((pawl_body *)ops[1]->u.insert.body)->id = 0; /* to be drawn */
        if (i == 3) ((pawl_body *)ops[0]->u.insert.body)->type = "\xff";
        apply_all(w, w->a, 0, ops, 3);
        if (i == 3 && ops[0]->result != PAWL_OP_REFUSED) return; /* this store keeps any bytes */
        for (int k = 1; k < 3; k++) {
            assert_int_equal(ops[k]->result, i == 3 ? PAWL_OP_CONFLICT : PAWL_OP_DONE);
            if (i < 3) assert_int_equal(relatives(w, ops[k]->out_id, PAWL_PARENTS, 0, 10).count, 1);
        }
        if (i == 3) return;
        for (int k = 1; k < 3; k++) assert_state(w, ops[k]->out_id, PAWL_WAITING);
        if (i == 0 || i == 2) end(w, ops[0]->out_id, PAWL_SUCCEEDED);
        settle_all(w, 1000);
        for (int k = 1; k < 3; k++) assert_state(w, ops[k]->out_id, i == 1 ? PAWL_WAITING : PAWL_PENDING);
    }
}

static void cancelled_while_it_waits(world *w)
{
    pawl_id a = insert(w, w->a, 0, (spec){0}), id = child(w, a, PAWL_IF_FAILED_CANCEL), last = child(w, id, PAWL_IF_FAILED_RUN);
    assert_int_equal(apply(w, w->a, 0, op_cancel(w, id, NULL)), PAWL_OP_DONE);
    assert_state(w, id, PAWL_CANCELLED);
    assert_state(w, last, PAWL_PENDING);
    end(w, a, PAWL_SUCCEEDED);
    assert_state(w, id, PAWL_CANCELLED);
    assert_int_equal(queue_of(w, "p")->waiting, 0);
}

static void every_end_counts(world *w)
{
    pawl_id asked = insert(w, w->a, 0, (spec){0}), of_asked = child(w, asked, PAWL_IF_FAILED_RUN);
    pawl_claimed got = lease(w, w->a, node(w), asked);
    assert_int_equal(apply(w, w->a, 0, op_cancel(w, asked, NULL)), PAWL_OP_ASKED);
    assert_state(w, of_asked, PAWL_WAITING);
    pawl_op *release = op_release(w, asked, got.fence, 0, PAWL_ATTEMPT_RETRY);
    assert_int_equal(apply(w, w->a, node(w), release), PAWL_OP_DONE);
    assert_state(w, of_asked, PAWL_PENDING);
    /* Its node dies after its cancel was asked: it ends by the rescue. */
    int64_t victim = join(w, w->b), savior = node(w);
    pawl_id rescued = insert(w, w->a, 0, (spec){0}), of_rescued = child(w, rescued, PAWL_IF_FAILED_RUN);
    got = lease(w, w->b, victim, rescued);
    assert_int_equal(apply(w, w->a, 0, op_cancel(w, rescued, NULL)), PAWL_OP_ASKED);
    assert_int_equal(rescue_lapsed(w, w->a, savior, victim, false).freed, 1);
    assert_state(w, rescued, PAWL_CANCELLED);
    /* Who comes too late ends nothing, and tells nobody. */
    pawl_state before = state_of(w, of_rescued);
    assert_int_equal(apply(w, w->b, victim, op_finish(w, rescued, got.fence, PAWL_SUCCEEDED)), PAWL_OP_STALE);
    assert_int_equal(apply(w, w->a, 0, op_cancel(w, rescued, NULL)), PAWL_OP_CONFLICT);
    assert_state(w, of_rescued, before);
    renew(w, w->a, savior);
    assert_int_equal(w->news.unsettled, state_of(w, of_rescued) == PAWL_WAITING);
    settle_all(w, 10);
    assert_state(w, of_rescued, PAWL_PENDING);
    renew(w, w->a, savior);
    assert_false(w->news.unsettled);
}

static void results_are_kept(world *w)
{
    pawl_id parents[2] = {insert(w, w->a, 0, (spec){0}), insert(w, w->a, 0, (spec){.priority = 1})};
    pawl_op *op = op_child(w, 2, parents, PAWL_IF_FAILED_RUN);
    apply(w, w->a, 0, op);
    pawl_claimed got = lease(w, w->a, node(w), parents[0]);
    pawl_op *finish = op_finish(w, parents[0], got.fence, PAWL_SUCCEEDED);
    finish->u.finish.result = (pawl_bytes){"[1]", 3};
    finish->u.finish.result_ref = "Invoice:42";
    end_with(w, finish);
    advance(w, 10 * S);
    pawl_sweep how = keep_all();
    how.keep_succeeded_us = S;
    sweep(w, how);
    assert_false(exists(w, parents[0]));
    pawl_relatives_query r = relatives(w, op->out_id, PAWL_PARENTS, 0, 10);
    assert_int_equal(r.count, 2);
    assert_true(r.relatives[0].id == parents[0] && r.relatives[0].state == PAWL_SUCCEEDED && !r.relatives[0].waits);
    assert_int_equal(r.relatives[0].result.len, 3);
    assert_memory_equal(r.relatives[0].result.data, "[1]", 3);
    assert_string_equal(r.relatives[0].result_ref, "Invoice:42");
    assert_true(r.relatives[1].waits);
    assert_int_equal(apply(w, w->a, 0, op_child(w, 1, parents, PAWL_IF_FAILED_CANCEL)),
                     PAWL_OP_NOT_FOUND); /* for its own alone */
    end(w, parents[1], PAWL_SUCCEEDED);
    assert_state(w, op->out_id, PAWL_PENDING);
}

/* Its retry is remembered with it; without it, who is held by its end would wait for ever. */
static void who_was_swept_takes_no_children(world *w)
{
    pawl_id parents[2] = {insert(w, w->a, 0, (spec){0}), insert(w, w->a, 0, (spec){0})};
    apply(w, w->a, 0, op_child(w, 2, parents, PAWL_IF_FAILED_RUN));
    apply(w, w->a, 0, op_cancel(w, parents[0], "ann"));
    apply(w, w->a, 0, op_retry(w, parents[0], "ann"));
    advance(w, 10 * S);
    pawl_sweep how = keep_all();
    how.keep_cancelled_us = S;
    sweep(w, how);
    assert_false(exists(w, parents[0]));
    static const pawl_if_failed policies[] = {PAWL_IF_FAILED_CANCEL, PAWL_IF_FAILED_RUN, PAWL_IF_FAILED_HOLD};
    for (int i = 0; i < 3; i++) assert_int_equal(apply(w, w->a, 0, op_child(w, 1, parents, policies[i])), PAWL_OP_NOT_FOUND);
}

static void trail_of_a_child(world *w)
{
    pawl_id parent = insert(w, w->a, 0, (spec){0}), id = child(w, parent, PAWL_IF_FAILED_CANCEL);
    end(w, parent, PAWL_SUCCEEDED);
    claim(w, w->a, node(w), (wish){.queue = "p", .free = 1});
    apply(w, w->a, node(w), op_finish(w, id, w->claimed[0].fence, PAWL_SUCCEEDED));
    pawl_trail *trail = trail_of(w, id);
    static const char *const states[] = {"", "waiting", "pending", "leased", "succeeded"};
    assert_int_equal(trail->audit_count, 4);
    for (int i = 0; i < 4; i++) {
        assert_string_equal(trail->audit[i].from, states[i]);
        assert_string_equal(trail->audit[i].to, states[i + 1]);
    }
}

static void keyed_children(world *w)
{
    pawl_id parent = insert(w, w->a, 0, (spec){0}), other = insert(w, w->a, 0, (spec){0});
    pawl_op *first = op_child(w, 1, &parent, PAWL_IF_FAILED_CANCEL), *second = op_child(w, 1, &other, PAWL_IF_FAILED_CANCEL);
    first->u.insert.body->key = second->u.insert.body->key = "k";
    assert_int_equal(apply(w, w->a, 0, first), PAWL_OP_DONE);
    assert_int_equal(apply(w, w->a, 0, second), PAWL_OP_EXISTING);
    assert_true(second->out_id == first->out_id && second->out_state == PAWL_WAITING);
    pawl_op *plain = op_insert(w, (spec){.key = "k", .queue = "p", .payload = "7"});
    assert_int_equal(apply(w, w->a, 0, plain), PAWL_OP_UPDATED);
    assert_state(w, first->out_id, PAWL_WAITING);
    end(w, parent, PAWL_SUCCEEDED);
    assert_state(w, first->out_id, PAWL_PENDING);
    assert_memory_equal(get(w, first->out_id)->payload.data, "7", 1);
    end(w, other, PAWL_SUCCEEDED);
}

static void of_one_commit(world *w)
{
    pawl_op *ops[4];
    ops[0] = op_insert(w, (spec){.group = 1});
    for (int i = 1; i < 4; i++) {
        pawl_family *f = family(w, 1, NULL);
        ((pawl_kin *)f->parents)[0].op = ops[i - 1];
        ops[i] = op_insert(w, (spec){.queue = "p", .group = 1});
        ops[i]->u.insert.family = f;
    }
    apply_all(w, w->a, node(w), ops, 4);
    for (int i = 0; i < 4; i++) assert_int_equal(ops[i]->result, PAWL_OP_DONE);
    assert_state(w, ops[0]->out_id, PAWL_PENDING);
    for (int i = 1; i < 4; i++) assert_state(w, ops[i]->out_id, PAWL_WAITING);
    end(w, ops[0]->out_id, PAWL_SUCCEEDED);
    assert_state(w, ops[1]->out_id, PAWL_PENDING);
    assert_state(w, ops[2]->out_id, PAWL_WAITING);
    /* What the first one met, the second meets, too. */
    pawl_op *two[] = {op_insert(w, (spec){.id = ops[0]->id}), op_insert(w, (spec){0})};
    pawl_family *f = family(w, 1, NULL);
    ((pawl_kin *)f->parents)[0].op = two[0];
    two[1]->u.insert.family = f;
    apply_all(w, w->a, node(w), two, 2);
    assert_int_equal(two[0]->result, PAWL_OP_COLLISION);
    assert_int_equal(two[1]->result, PAWL_OP_COLLISION);
    assert_false(exists(w, two[1]->id));
}

static void spawned_with_a_fan_in(world *w)
{
    pawl_id id = insert(w, w->a, 0, (spec){0});
    pawl_claimed got = lease(w, w->a, node(w), id);
    pawl_op *finish = op_finish(w, id, got.fence, PAWL_SUCCEEDED), *spawns = keep(w, 4 * sizeof *spawns);
    for (int i = 0; i < 3; i++) spawns[i] = *op_insert(w, (spec){0});
    pawl_id parents[] = {spawns[0].id, spawns[1].id, spawns[2].id, id};
    spawns[3] = *op_child(w, 4, parents, PAWL_IF_FAILED_CANCEL);
    finish->u.finish.spawns = spawns;
    finish->u.finish.spawns_count = 4;
    end_with(w, finish);
    assert_int_equal(finish->result, PAWL_OP_DONE);
    for (int i = 0; i < 4; i++) assert_state(w, spawns[i].out_id, i < 3 ? PAWL_PENDING : PAWL_WAITING);
    for (int i = 0; i < 3; i++) end(w, spawns[i].out_id, PAWL_SUCCEEDED);
    assert_state(w, spawns[3].out_id, PAWL_PENDING);
}

static void a_spawn_of_nobody_s_stops_the_finish(world *w)
{
    pawl_id id = insert(w, w->a, 0, (spec){0}), nobody = new_id(w);
    pawl_claimed got = lease(w, w->a, node(w), id);
    pawl_op *finish = op_finish(w, id, got.fence, PAWL_SUCCEEDED), *spawns = keep(w, 2 * sizeof *spawns);
    spawns[0] = *op_insert(w, (spec){0});
    spawns[1] = *op_child(w, 1, &nobody, PAWL_IF_FAILED_CANCEL);
    finish->u.finish.spawns = spawns;
    finish->u.finish.spawns_count = 2;
    end_with(w, finish);
    assert_int_equal(finish->result, PAWL_OP_REFUSED);
    assert_state(w, id, PAWL_LEASED);
    assert_false(exists(w, spawns[0].id));
}

/* ---- many -------------------------------------------------------------------------------------------------------- */

#define MANY 1700

static void many_children(world *w)
{
    pawl_id parent = insert(w, w->a, 0, (spec){0}), ids[MANY];
    pawl_op *ops[MANY];
    for (int i = 0; i < MANY; i++) ops[i] = op_child(w, 1, &parent, PAWL_IF_FAILED_CANCEL);
    apply_all(w, w->a, node(w), ops, MANY);
    for (int i = 0; i < MANY; i++) ids[i] = ops[i]->out_id;
    pawl_batch batch = end(w, parent, PAWL_SUCCEEDED);
    assert_true(batch.freed && batch.unsettled);
    int64_t freed = queue_of(w, "p")->pending;
    assert_true(freed > 0 && freed <= PAWL_SETTLE_AT_ONCE);
    renew(w, w->b, join(w, w->b)); /* another node hears of it */
    assert_true(w->news.unsettled);
    /* A child that comes meanwhile need not wait. */
    assert_state(w, child(w, parent, PAWL_IF_FAILED_CANCEL), PAWL_PENDING);
    settle_all(w, 300);
    assert_int_equal(queue_of(w, "p")->pending, MANY + 1);
    assert_int_equal(queue_of(w, "p")->waiting, 0);
    for (int i = 0; i < MANY; i += 100) assert_state(w, ids[i], PAWL_PENDING);
    pawl_relatives_query r = relatives(w, parent, PAWL_CHILDREN, ids[9], 5);
    assert_true(r.count == 5 && r.more && r.relatives[0].id == ids[10] && r.relatives[4].id == ids[14]);
}

static void a_deep_chain(world *w)
{
    pawl_id first = insert(w, w->a, 0, (spec){0});
    pawl_op *ops[MANY];
    for (int i = 0; i < MANY; i++) {
        pawl_family *f = family(w, 1, &first);
        if (i > 0) ((pawl_kin *)f->parents)[0] = (pawl_kin){.op = ops[i - 1]};
        ops[i] = op_insert(w, (spec){.queue = "p"});
        ops[i]->u.insert.family = f;
    }
    apply_all(w, w->a, node(w), ops, MANY);
    assert_state(w, ops[MANY - 1]->out_id, PAWL_WAITING);
    pawl_op *cancel = op_cancel(w, first, NULL);
    pawl_batch batch = apply_all(w, w->a, 0, &cancel, 1);
    assert_true(batch.unsettled);
    assert_true(settle_all(w, 400) > 1);
    for (int i = 0; i < MANY; i++) assert_state(w, ops[i]->out_id, PAWL_CANCELLED);
    assert_int_equal(queue_of(w, "p")->waiting, 0);
}

static void answered_from_a_receipt(world *w)
{
    pawl_id parent = insert(w, w->a, 0, (spec){0}), id = child(w, parent, PAWL_IF_FAILED_CANCEL);
    pawl_claimed got = lease(w, w->a, node(w), parent);
    pawl_op *finish = op_finish(w, parent, got.fence, PAWL_SUCCEEDED);
    end_with(w, finish);
    pawl_batch again = {.node = node(w), .number = number_of(w, node(w)), .ops = &finish, .count = 1};
    assert_int_equal(try_apply(w, w->a, &again), PAWL_OK);
    assert_true(again.freed && again.unsettled); /* perhaps */
    assert_state(w, id, PAWL_PENDING);
    assert_int_equal(queue_of(w, "p")->pending, 1);
    settle_all(w, 10);
}

/* ---- batches ----------------------------------------------------------------------------------------------------- */

static void counts_and_ends(world *w)
{
    pawl_id batch = open_batch(w, "b"), ids[3], after = child(w, batch, PAWL_IF_FAILED_CANCEL);
    for (int i = 0; i < 3; i++) ids[i] = member(w, batch);
    end(w, ids[0], PAWL_SUCCEEDED);
    assert_int_equal(batch_info(w, batch)->state, PAWL_PENDING);
    close_batch(w, batch);
    pawl_batch_info *info = batch_info(w, batch);
    assert_string_equal(info->name, "b");
    assert_true(info->total == 3 && info->unfinished == 2 && info->succeeded == 1 && info->state == PAWL_WAITING);
    assert_int_equal(relatives(w, batch, PAWL_MEMBERS, 0, 10).count, 3);
    assert_true(relatives(w, ids[1], PAWL_BATCH_OF, 0, 10).relatives[0].id == batch);
    end(w, ids[1], PAWL_SUCCEEDED);
    assert_state(w, after, PAWL_WAITING);
    end(w, ids[2], PAWL_SUCCEEDED);
    info = batch_info(w, batch);
    assert_true(info->state == PAWL_SUCCEEDED && info->unfinished == 0 && info->succeeded == 3 && info->ended_us > 0);
    assert_state(w, after, PAWL_PENDING);
}

static void finished_and_succeeded(world *w)
{
    pawl_id batch = open_batch(w, "b"), finished = child(w, batch, PAWL_IF_FAILED_RUN),
            succeeded = child(w, batch, PAWL_IF_FAILED_CANCEL), a = member(w, batch), b = member(w, batch);
    close_batch(w, batch);
    end(w, a, PAWL_FAILED);
    assert_state(w, succeeded, PAWL_WAITING);
    end(w, b, PAWL_SUCCEEDED);
    assert_int_equal(batch_info(w, batch)->state, PAWL_FAILED);
    assert_state(w, finished, PAWL_PENDING);
    assert_state(w, succeeded, PAWL_CANCELLED);
    assert_int_equal(queue_of(w, "p")->pending, 1);
}

static void open_until_it_is_closed(world *w)
{
    pawl_id batch = open_batch(w, "b"), a = member(w, batch), after = child(w, batch, PAWL_IF_FAILED_CANCEL);
    end(w, a, PAWL_SUCCEEDED);
    assert_state(w, after, PAWL_WAITING);
    assert_int_equal(batch_info(w, batch)->state, PAWL_PENDING);
    close_batch(w, batch);
    assert_state(w, after, PAWL_PENDING);
    pawl_id empty = open_batch(w, "empty"), of_empty = child(w, empty, PAWL_IF_FAILED_CANCEL);
    close_batch(w, empty);
    assert_int_equal(batch_info(w, empty)->state, PAWL_SUCCEEDED);
    assert_state(w, of_empty, PAWL_PENDING);
}

static void closed_twice_and_others(world *w)
{
    pawl_id batch = open_batch(w, "b");
    pawl_op *same = op_batch(w, PAWL_BATCH_OPEN, 0, "b", 0);
    assert_int_equal(apply(w, w->a, 0, same), PAWL_OP_EXISTING);
    assert_true(same->out_id == batch);
    assert_int_equal(apply(w, w->a, 0, op_batch(w, PAWL_BATCH_OPEN, batch, "c", 0)), PAWL_OP_COLLISION);
    member(w, batch);
    close_batch(w, batch);
    assert_int_equal(apply(w, w->a, 0, op_batch(w, PAWL_BATCH_CLOSE, batch, NULL, 0)), PAWL_OP_CONFLICT);
    assert_int_equal(apply(w, w->a, 0, op_batch(w, PAWL_BATCH_CLOSE, new_id(w), NULL, 0)), PAWL_OP_NOT_FOUND);
    pawl_op *late = op_member(w, batch), *lost = op_member(w, new_id(w));
    assert_int_equal(apply(w, w->a, 0, late), PAWL_OP_CONFLICT);
    assert_true(late->out_id == batch);
    assert_int_equal(apply(w, w->a, 0, lost), PAWL_OP_NOT_FOUND);
    assert_int_equal(apply(w, w->a, 0, op_batch(w, PAWL_BATCH_OPEN, 0, "d", batch)), PAWL_OP_CONFLICT);
    assert_int_equal(batch_info(w, batch)->total, 1);
}

static void with_its_first_members(world *w)
{
    pawl_op *ops[3] = {op_batch(w, PAWL_BATCH_OPEN, 0, "b", 0), op_insert(w, (spec){0}), op_insert(w, (spec){.queue = "p"})};
    pawl_family *in = family(w, 0, NULL), *after = family(w, 1, NULL);
    in->batch.op = ops[0];
    ((pawl_kin *)after->parents)[0].op = ops[0];
    ops[1]->u.insert.family = in;
    ops[2]->u.insert.family = after;
    apply_all(w, w->a, node(w), ops, 3);
    for (int i = 0; i < 3; i++) assert_int_equal(ops[i]->result, PAWL_OP_DONE);
    assert_int_equal(batch_info(w, ops[0]->out_id)->total, 1);
    assert_state(w, ops[2]->out_id, PAWL_WAITING);
    pawl_op *again[2] = {op_batch(w, PAWL_BATCH_OPEN, 0, "b", 0), op_insert(w, (spec){.queue = "p"})};
    pawl_family *f = family(w, 1, NULL);
    ((pawl_kin *)f->parents)[0].op = again[0];
    again[1]->u.insert.family = f;
    apply_all(w, w->a, node(w), again, 2);
    assert_int_equal(again[0]->result, PAWL_OP_EXISTING);
    assert_int_equal(again[1]->result, PAWL_OP_CONFLICT); /* it is no callback of a batch that others made */
}

static void nested(world *w)
{
    pawl_id outer = open_batch(w, "outer"), inner = open_within(w, "inner", outer), b = member(w, outer), a = member(w, inner),
            after = child(w, outer, PAWL_IF_FAILED_RUN);
    close_batch(w, outer);
    end(w, b, PAWL_SUCCEEDED);
    assert_int_equal(batch_info(w, outer)->unfinished, 1);
    close_batch(w, inner);
    assert_state(w, after, PAWL_WAITING);
    end(w, a, PAWL_FAILED);
    assert_int_equal(batch_info(w, inner)->state, PAWL_FAILED);
    pawl_batch_info *info = batch_info(w, outer);
    assert_true(info->state == PAWL_FAILED && info->failed == 1 && info->succeeded == 1);
    assert_state(w, after, PAWL_PENDING);
}

static void cancelled_whole(world *w)
{
    pawl_id outer = open_batch(w, "outer"), inner = open_within(w, "inner", outer), a = member(w, inner), b = member(w, outer),
            runs = member(w, outer), after = child(w, outer, PAWL_IF_FAILED_CANCEL),
            finished = child(w, outer, PAWL_IF_FAILED_RUN);
    pawl_claimed got = lease(w, w->a, node(w), a);
    apply(w, w->a, node(w), op_release(w, a, got.fence, 0, PAWL_ATTEMPT_NONE));
    got = lease(w, w->a, node(w), a);
    assert_int_equal(apply(w, w->a, 0, op_batch(w, PAWL_BATCH_CANCEL, outer, NULL, 0)), PAWL_OP_DONE);
    settle_all(w, 100);
    assert_int_equal(apply(w, w->a, 0, op_batch(w, PAWL_BATCH_CANCEL, outer, NULL, 0)), PAWL_OP_EXISTING);
    assert_int_equal(apply(w, w->a, 0, op_member(w, inner)), PAWL_OP_CONFLICT);
    assert_state(w, b, PAWL_CANCELLED);
    assert_state(w, runs, PAWL_CANCELLED);
    assert_true(get(w, a)->cancel_asked);
    assert_int_equal(batch_info(w, inner)->state, PAWL_WAITING);
    apply(w, w->a, node(w), op_finish(w, a, got.fence, PAWL_CANCELLED));
    assert_int_equal(batch_info(w, inner)->state, PAWL_CANCELLED);
    assert_int_equal(batch_info(w, outer)->state, PAWL_CANCELLED);
    assert_state(w, after, PAWL_CANCELLED);
    assert_state(w, finished, PAWL_PENDING);
    assert_int_equal(apply(w, w->a, 0, op_batch(w, PAWL_BATCH_CANCEL, outer, NULL, 0)), PAWL_OP_CONFLICT);
}

static void many_members_cancelled(world *w)
{
    pawl_id batch = open_batch(w, "b");
    pawl_op *ops[MANY], *cancel = op_batch(w, PAWL_BATCH_CANCEL, batch, NULL, 0);
    for (int i = 0; i < MANY; i++) ops[i] = op_member(w, batch);
    apply_all(w, w->a, node(w), ops, MANY);
    assert_true(apply_all(w, w->a, 0, &cancel, 1).unsettled);
    assert_true(queue_of(w, "q")->pending >= MANY - PAWL_SETTLE_AT_ONCE);
    settle_all(w, 300);
    pawl_batch_info *info = batch_info(w, batch);
    assert_true(info->state == PAWL_CANCELLED && info->cancelled == MANY && info->unfinished == 0);
    assert_int_equal(queue_of(w, "q")->pending, 0);
}

static void joined_by_what_its_members_spawn(world *w)
{
    pawl_id batch = open_batch(w, "b"), a = member(w, batch), after = child(w, batch, PAWL_IF_FAILED_CANCEL);
    close_batch(w, batch);
    pawl_claimed got = lease(w, w->a, node(w), a);
    pawl_op *finish = op_finish(w, a, got.fence, PAWL_SUCCEEDED);
    finish->u.finish.spawns = op_member(w, batch);
    finish->u.finish.spawns_count = 1;
    end_with(w, finish);
    assert_int_equal(finish->u.finish.spawns[0].result, PAWL_OP_DONE);
    assert_state(w, after, PAWL_WAITING);
    assert_int_equal(batch_info(w, batch)->total, 2);
    end(w, finish->u.finish.spawns[0].out_id, PAWL_SUCCEEDED);
    assert_state(w, after, PAWL_PENDING);
}

static void listed_and_swept(world *w)
{
    pawl_id ids[4];
    static const char *const names[] = {"a", "b", "c", "d"};
    for (int i = 0; i < 4; i++) ids[i] = open_batch(w, names[i]);
    close_batch(w, ids[1]);
    pawl_batch_filter f = {.limit = 2, .unfinished = true};
    pawl_query query = {.kind = PAWL_QUERY_BATCHES, .batch_filter = &f};
    assert_int_equal(store_read(w->b, &query, w->arena, &w->err), PAWL_OK);
    assert_true(query.batches_count == 2 && query.batches_more && query.batches[0].id == ids[3] && query.batches[1].id == ids[2]);
    query.id = ids[2];
    assert_int_equal(store_read(w->b, &query, w->arena, &w->err), PAWL_OK);
    assert_true(query.batches_count == 1 && !query.batches_more && query.batches[0].id == ids[0]);
    query = (pawl_query){.kind = PAWL_QUERY_BATCH, .name = "c"};
    assert_int_equal(store_read(w->b, &query, w->arena, &w->err), PAWL_OK);
    assert_true(query.batches->id == ids[2]);
    advance(w, 10 * S);
    pawl_sweep how = keep_all();
    how.keep_succeeded_us = S;
    sweep(w, how);
    query = (pawl_query){.kind = PAWL_QUERY_BATCH, .name = "b"};
    assert_int_equal(store_read(w->b, &query, w->arena, &w->err), PAWL_NOT_FOUND);
    open_batch(w, "b");
}

CASES(family_cases){
    {"parent: a child waits for it", waits_for_its_parent},
    {"parent: a child waits for all of them", waits_for_all_of_them},
    {"parent: not before its own time", not_before_its_time},
    {"parent: that has ended", that_have_ended},
    {"parent: that does not exist", that_do_not_exist},
    {"parent: a failed one cancels", cancel_policy},
    {"parent: of two that ended badly the older one cancels", the_older_one_cancels},
    {"parent: a failed one is as good as any", run_policy},
    {"parent: a failed one holds until it is retried", hold_policy},
    {"parent: retried, and its retry too, before anybody was told", retried_before_it_was_told},
    {"parent: one that was retried before the child came", child_of_one_that_was_retried},
    {"parent: one, and its retries as well", child_of_one_and_its_retries},
    {"parent: the same one twice", the_same_parent_twice},
    {"parent: one of the same batch has a key", one_of_the_same_batch_has_a_key},
    {"parent: a child is cancelled while it waits", cancelled_while_it_waits},
    {"parent: whatever ends it is told", every_end_counts},
    {"parent: results are kept for the children", results_are_kept},
    {"parent: one that was swept takes no children", who_was_swept_takes_no_children},
    {"parent: the trail of a child", trail_of_a_child},
    {"parent: keys of children", keyed_children},
    {"parent: of the same commit", of_one_commit},
    {"parent: spawns and their fan-in", spawned_with_a_fan_in},
    {"parent: a spawn of nobody's stops the finish", a_spawn_of_nobody_s_stops_the_finish},
    {"parent: many children are told in steps", many_children},
    {"parent: a deep chain is cancelled in steps", a_deep_chain},
    {"parent: answered from a receipt", answered_from_a_receipt},
    {"batch: counts, and ends once", counts_and_ends},
    {"batch: finished, and succeeded", finished_and_succeeded},
    {"batch: open until it is closed", open_until_it_is_closed},
    {"batch: closed twice, and other refusals", closed_twice_and_others},
    {"batch: with its first members", with_its_first_members},
    {"batch: within another", nested},
    {"batch: cancelled", cancelled_whole},
    {"batch: many members are cancelled in steps", many_members_cancelled},
    {"batch: what its members spawn joins it", joined_by_what_its_members_spawn},
    {"batch: listed, and swept", listed_and_swept},
    {NULL, NULL},
};
