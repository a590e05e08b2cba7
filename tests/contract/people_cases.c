/* What people ask: CANCEL, RETRY, ACK, QUEUE. */
#include "contract.h"

static pawl_id finished(world *w, int64_t n, pawl_state how, const char *key)
{
    pawl_op *in = op_insert(w, (spec){.ask_lease = true, .key = key, .payload = "7", .priority = 4, .tenant = "acme"});
    apply(w, w->a, n, in);
    assert_true(in->out_fence > 0);
    assert_int_equal(apply(w, w->a, n, op_finish(w, in->id, in->out_fence, how)), PAWL_OP_DONE);
    return in->id;
}

static void cancel_pending(world *w)
{
    int64_t n = join(w, w->a);
    pawl_id id = insert(w, w->a, n, (spec){0});
    pawl_op *op = op_cancel(w, id, "ann");
    assert_int_equal(apply(w, w->b, 0, op), PAWL_OP_DONE);
    assert_int_equal(op->out_state, PAWL_PENDING);
    pawl_info *info = get(w, id);
    assert_true(info->state == PAWL_CANCELLED && info->finished_us == w->clock.now_us && info->attempts_count == 0);
    assert_int_equal(claim(w, w->a, n, (wish){.free = 1}).got, 0);
    assert_int_equal(apply(w, w->b, 0, op), PAWL_OP_CONFLICT);
    assert_int_equal(op->out_state, PAWL_CANCELLED);
}

static void cancel_what_is_not_there(world *w)
{
    pawl_op *op = op_cancel(w, new_id(w), "ann");
    assert_int_equal(apply(w, w->b, 0, op), PAWL_OP_NOT_FOUND);
    assert_int_equal(op->out_state, PAWL_STATE_NONE);
}

static void cancel_a_run_asks_its_holder(world *w)
{
    int64_t n = join(w, w->a);
    pawl_op *in = op_insert(w, (spec){.ask_lease = true});
    apply(w, w->a, n, in);
    pawl_op *op = op_cancel(w, in->id, "ann");
    assert_int_equal(apply(w, w->b, 0, op), PAWL_OP_ASKED);
    assert_int_equal(op->out_state, PAWL_LEASED);
    assert_int_equal(apply(w, w->b, 0, op_cancel(w, in->id, "bob")), PAWL_OP_ASKED);
    assert_true(get(w, in->id)->cancel_asked);
    assert_state(w, in->id, PAWL_LEASED);
    renew(w, w->a, n);
    assert_int_equal(w->news.cancels_count, 1);
    assert_true(w->news.cancels[0].id == in->id && w->news.cancels[0].fence == in->out_fence);
    claim(w, w->a, n, (wish){.free = 1});
    assert_int_equal(w->news.cancels_count, 1);
    claim(w, w->b, join(w, w->b), (wish){.free = 1});
    assert_int_equal(w->news.cancels_count, 0);
    assert_int_equal(apply(w, w->a, n, op_finish(w, in->id, in->out_fence, PAWL_CANCELLED)), PAWL_OP_DONE);
    renew(w, w->a, n);
    assert_int_equal(w->news.cancels_count, 0);
}

static void cancel_takes_back_what_has_not_started(world *w)
{
    int64_t n = join(w, w->a);
    pawl_id id = insert(w, w->a, n, (spec){.key = "k"});
    claim(w, w->a, n, (wish){.prefetch = 1});
    int64_t fence = w->claimed[0].fence;
    pawl_op *op = op_cancel(w, id, NULL);
    assert_int_equal(apply(w, w->b, 0, op), PAWL_OP_DONE);
    assert_int_equal(op->out_state, PAWL_LEASED);
    assert_state(w, id, PAWL_CANCELLED);
    assert_true(fence_of(w, id) > fence);
    assert_int_equal(apply(w, w->a, n, op_start(w, id, fence, false)), PAWL_OP_STALE);
    assert_int_equal(renew(w, w->a, n).held, 0);
}

static void cancel_a_finished_one(world *w)
{
    int64_t n = join(w, w->a);
    pawl_op *op = op_cancel(w, finished(w, n, PAWL_SUCCEEDED, NULL), NULL);
    assert_int_equal(apply(w, w->a, n, op), PAWL_OP_CONFLICT);
    assert_int_equal(op->out_state, PAWL_SUCCEEDED);
}

static void retry_makes_a_new_task(world *w)
{
    int64_t n = join(w, w->a);
    static const pawl_state ends[] = {PAWL_FAILED, PAWL_CANCELLED};
    for (int i = 0; i < 2; i++) {
        pawl_id id = finished(w, n, ends[i], NULL);
        advance(w, PAWL_MINUTE);
        pawl_op *op = op_retry(w, id, "ann");
        assert_int_equal(apply(w, w->b, 0, op), PAWL_OP_DONE);
        assert_true(op->out_id == op->u.retry.new_id && op->out_id != id);
        pawl_info *old = get(w, id), *new = get(w, op->out_id);
        assert_int_equal(old->state, ends[i]);
        assert_true(old->retried_as == op->out_id);
        if (ends[i] == PAWL_FAILED) {
            assert_true(old->resolved_us == w->clock.now_us);
            assert_string_equal(old->resolved_by, "ann");
        }
        assert_int_equal(new->state, PAWL_PENDING);
        assert_true(new->retry_of == id &&new->created_us == w->clock.now_us &&new->run_at_us == w->clock.now_us);
        assert_true(new->attempt == 0 && new->failures == 0 && new->priority == 4 && new->fence == 0);
        assert_string_equal(new->tenant, "acme");
        assert_memory_equal(new->payload.data, "7", 1);
    }
    assert_true(queue_of(w, "q")->failed == 0 && queue_of(w, "q")->pending == 2);
}

static void retry_once_only(world *w)
{
    int64_t n = join(w, w->a);
    pawl_id id = finished(w, n, PAWL_FAILED, NULL);
    pawl_op *first = op_retry(w, id, "ann"), *second = op_retry(w, id, "bob");
    assert_int_equal(apply(w, w->a, n, first), PAWL_OP_DONE);
    assert_int_equal(apply(w, w->b, 0, second), PAWL_OP_EXISTING);
    assert_true(second->out_id == first->out_id);
    assert_false(exists(w, second->u.retry.new_id));
}

static void retry_with_an_id_of_the_stores(world *w)
{
    int64_t n = join(w, w->a);
    pawl_op *op = op_retry(w, finished(w, n, PAWL_CANCELLED, NULL), NULL);
    op->u.retry.new_id = 0;
    assert_int_equal(apply(w, w->a, n, op), PAWL_OP_DONE);
    assert_true(op->out_id > 0);
    assert_state(w, op->out_id, PAWL_PENDING);
}

static void retry_when_the_key_lives_again(world *w)
{
    int64_t n = join(w, w->a);
    pawl_id id = finished(w, n, PAWL_FAILED, "k");
    pawl_op *live = op_insert(w, (spec){.key = "k", .tenant = "acme"});
    assert_int_equal(apply(w, w->a, n, live), PAWL_OP_REPLACED);
    pawl_op *op = op_retry(w, id, "ann");
    assert_int_equal(apply(w, w->a, n, op), PAWL_OP_EXISTING);
    assert_true(op->out_id == live->id);
    assert_true(get(w, id)->retried_as == 0 && get(w, id)->resolved_us == 0);
}

static void retry_takes_the_key(world *w)
{
    int64_t n = join(w, w->a);
    pawl_op *op = op_retry(w, finished(w, n, PAWL_FAILED, "k"), NULL);
    assert_int_equal(apply(w, w->a, n, op), PAWL_OP_DONE);
    pawl_op *again = op_insert(w, (spec){.key = "k", .tenant = "acme"});
    assert_int_equal(apply(w, w->a, n, again), PAWL_OP_UPDATED);
    assert_true(again->out_id == op->out_id);
}

static void retry_of_what_cannot_be(world *w)
{
    int64_t n = join(w, w->a);
    assert_int_equal(apply(w, w->a, n, op_retry(w, new_id(w), NULL)), PAWL_OP_NOT_FOUND);
    pawl_op *op = op_retry(w, finished(w, n, PAWL_SUCCEEDED, NULL), NULL);
    assert_int_equal(apply(w, w->a, n, op), PAWL_OP_CONFLICT);
    assert_int_equal(op->out_state, PAWL_SUCCEEDED);
    op = op_retry(w, insert(w, w->a, n, (spec){0}), NULL);
    assert_int_equal(apply(w, w->a, n, op), PAWL_OP_CONFLICT);
    assert_int_equal(op->out_state, PAWL_PENDING);
}

static void acknowledged(world *w)
{
    int64_t n = join(w, w->a);
    pawl_id id = finished(w, n, PAWL_FAILED, NULL);
    assert_int_equal(queue_of(w, "q")->failed, 1);
    assert_int_equal(apply(w, w->b, 0, op_ack(w, id, "ann", "known")), PAWL_OP_DONE);
    pawl_info *info = get(w, id);
    assert_true(info->resolved_us == w->clock.now_us && info->state == PAWL_FAILED);
    assert_string_equal(info->resolved_by, "ann");
    assert_string_equal(info->note, "known");
    assert_true(queue_of(w, "q")->failed == 0 && stats_of(w, PAWL_HOUR)->dead == 0);
    assert_int_equal(apply(w, w->b, 0, op_ack(w, id, "bob", NULL)), PAWL_OP_CONFLICT);
    assert_string_equal(get(w, id)->resolved_by, "ann");
}

static void acknowledge_what_cannot_be(world *w)
{
    int64_t n = join(w, w->a);
    assert_int_equal(apply(w, w->a, n, op_ack(w, new_id(w), NULL, NULL)), PAWL_OP_NOT_FOUND);
    assert_int_equal(apply(w, w->a, n, op_ack(w, finished(w, n, PAWL_CANCELLED, NULL), NULL, NULL)), PAWL_OP_CONFLICT);
    assert_int_equal(apply(w, w->a, n, op_ack(w, insert(w, w->a, n, (spec){0}), NULL, NULL)), PAWL_OP_CONFLICT);
}

static void paused_queues_give_nothing(world *w)
{
    int64_t n = join(w, w->a);
    insert(w, w->a, n, (spec){0});
    insert(w, w->a, n, (spec){.queue = "p"});
    assert_int_equal(apply(w, w->b, 0, op_queue(w, "q", true, "ann")), PAWL_OP_DONE);
    assert_int_equal(apply(w, w->b, 0, op_queue(w, "q", true, "ann")), PAWL_OP_DONE);
    pawl_want want = claim(w, w->a, n, (wish){.free = 2});
    assert_true(want.got == 0 && want.paused);
    want = claim(w, w->a, n, (wish){.free = 2, .queue = "p"});
    assert_true(want.got == 1 && !want.paused);
    assert_true(queue_of(w, "q")->paused && !queue_of(w, "p")->paused);
    assert_int_equal(apply(w, w->b, 0, op_queue(w, "q", false, "ann")), PAWL_OP_DONE);
    want = claim(w, w->a, n, (wish){.free = 2});
    assert_true(want.got == 1 && !want.paused);
    assert_false(queue_of(w, "q")->paused);
}

static void a_queue_nobody_used_can_be_paused(world *w)
{
    int64_t n = join(w, w->a);
    assert_int_equal(apply(w, w->a, n, op_queue(w, "new", true, NULL)), PAWL_OP_DONE);
    insert(w, w->a, n, (spec){.queue = "new"});
    assert_true(claim(w, w->a, n, (wish){.free = 1, .queue = "new"}).paused);
    assert_true(queue_of(w, "new")->paused);
}

static void who_did_what_is_kept(world *w)
{
    int64_t n = join(w, w->a);
    assert_int_equal(acts_of(w, 0, 10)->count, 0);
    pawl_id id = insert(w, w->a, n, (spec){0}), dead = finished(w, n, PAWL_FAILED, NULL);
    apply(w, w->b, 0, op_cancel(w, id, "ann"));
    w->clock.now_us += 7;
    apply(w, w->b, 0, op_ack(w, dead, "bob", "known"));
    apply(w, w->b, 0, op_queue(w, "q", true, "ann"));
    apply(w, w->b, 0, op_queue(w, "q", false, "eve"));
    apply(w, w->b, 0, op_cancel(w, insert(w, w->a, n, (spec){0}), NULL)); /* nobody in particular */
    apply(w, w->b, 0, op_cancel(w, id, "ann"));                           /* changes nothing */
    pawl_acts *page = acts_of(w, 0, 3);
    assert_int_equal(page->count, 3);
    assert_string_equal(page->acts[0].action, "resume");
    assert_string_equal(page->acts[0].who, "eve");
    assert_string_equal(page->acts[0].detail, "q");
    assert_string_equal(page->acts[1].action, "pause");
    assert_string_equal(page->acts[2].action, "acknowledge");
    assert_string_equal(page->acts[2].detail, "known");
    assert_true(page->acts[2].id == dead && page->acts[2].at_us == w->clock.now_us && page->acts[0].id == 0);
    assert_true(page->next > 0);
    page = acts_of(w, page->next, 3);
    assert_int_equal(page->count, 1);
    assert_true(page->acts[0].id == id && page->acts[0].at_us == w->clock.now_us - 7 && !page->acts[0].detail);
    assert_string_equal(page->acts[0].action, "cancel");
    assert_int_equal(page->next, 0);
    assert_int_equal(acts_of(w, 0, 4)->next, 0);
}

CASES(people_cases){
    {"cancel: pending at once", cancel_pending},
    {"cancel: not there", cancel_what_is_not_there},
    {"cancel: a run's holder is asked", cancel_a_run_asks_its_holder},
    {"cancel: takes back what has not started", cancel_takes_back_what_has_not_started},
    {"cancel: not what is finished", cancel_a_finished_one},
    {"retry: a new task that points at the old one", retry_makes_a_new_task},
    {"retry: once only", retry_once_only},
    {"retry: with an id of the store's", retry_with_an_id_of_the_stores},
    {"retry: existing when the key lives again", retry_when_the_key_lives_again},
    {"retry: the new task takes the key", retry_takes_the_key},
    {"retry: of what is not failed or cancelled", retry_of_what_cannot_be},
    {"ack: a dead letter is acknowledged once", acknowledged},
    {"ack: of what is no dead letter", acknowledge_what_cannot_be},
    {"queue: paused ones give nothing", paused_queues_give_nothing},
    {"queue: one that nobody used can be paused", a_queue_nobody_used_can_be_paused},
    {"operator log: who did what, newest first", who_did_what_is_kept},
    {NULL, NULL},
};
