/* What the holder of a lease says: START, FINISH, RELEASE, PROGRESS, each by fence. */
#include "contract.h"

typedef struct run {
    int64_t node;
    pawl_id id;
    int64_t fence;
} run;

static run running(world *w, spec s)
{
    run r = {.node = join(w, w->a)};
    s.ask_lease = true;
    pawl_op *op = op_insert(w, s);
    assert_int_equal(apply(w, w->a, r.node, op), PAWL_OP_DONE);
    assert_true(op->out_fence > 0);
    r.id = op->id;
    r.fence = op->out_fence;
    return r;
}

static void finish_each_way(world *w)
{
    static const pawl_state ends[] = {PAWL_SUCCEEDED, PAWL_FAILED, PAWL_CANCELLED};
    static const char *const outcomes[] = {"succeeded", "failed", "cancelled"};
    int64_t n = join(w, w->a);
    for (int i = 0; i < 3; i++) {
        pawl_op *in = op_insert(w, (spec){.ask_lease = true});
        apply(w, w->a, n, in);
        advance(w, PAWL_SECOND);
        pawl_op *op = op_finish(w, in->id, in->out_fence, ends[i]);
        assert_int_equal(apply(w, w->a, n, op), PAWL_OP_DONE);
        pawl_info *info = get(w, in->id);
        assert_int_equal(info->state, ends[i]);
        assert_string_equal(info->display, pawl_state_name(ends[i]));
        assert_true(info->finished_us == w->clock.now_us);
        assert_true(info->started_us == op->u.finish.run.started_us);
        assert_true(info->fence == in->out_fence && info->attempt == 1 && info->node == n);
        assert_int_equal(info->attempts_count, 1);
        const pawl_attempt *a = &info->attempts[0];
        assert_string_equal(a->outcome, outcomes[i]);
        assert_true(a->number == 1 && a->fence == in->out_fence && a->node == n);
        assert_string_equal(a->node_name, "node");
        assert_true(a->started_us == op->u.finish.run.started_us && a->finished_us == op->u.finish.run.finished_us);
    }
    assert_int_equal(renew(w, w->a, n).held, 0);
}

static void finish_keeps_what_the_run_left(world *w)
{
    run r = running(w, (spec){0});
    pawl_op *op = op_finish(w, r.id, r.fence, PAWL_SUCCEEDED);
    op->u.finish.result = (pawl_bytes){"{\"x\0\":1}", 8};
    op->u.finish.result_type = "application/json";
    op->u.finish.result_ref = "Invoice:42";
    op->u.finish.run.progress = 100;
    op->u.finish.run.progress_text = "all of it";
    assert_int_equal(apply(w, w->a, r.node, op), PAWL_OP_DONE);
    pawl_info *info = get(w, r.id);
    assert_int_equal(info->result.len, 8);
    assert_memory_equal(info->result.data, "{\"x\0\":1}", 8);
    assert_string_equal(info->result_type, "application/json");
    assert_string_equal(info->result_ref, "Invoice:42");
    assert_int_equal(info->progress, 100);
    assert_string_equal(info->progress_text, "all of it");
}

static void a_failure_says_why(world *w)
{
    run r = running(w, (spec){0});
    pawl_op *op = op_finish(w, r.id, r.fence, PAWL_FAILED);
    op->u.finish.reason = "attempts_exhausted";
    op->u.finish.run.code = "smtp_5xx";
    op->u.finish.run.error = "mailbox unavailable";
    apply(w, w->a, r.node, op);
    pawl_info *info = get(w, r.id);
    assert_string_equal(info->reason, "attempts_exhausted");
    assert_string_equal(info->code, "smtp_5xx");
    assert_string_equal(info->error, "mailbox unavailable");
    assert_string_equal(info->attempts[0].code, "smtp_5xx");
    assert_string_equal(info->attempts[0].error, "mailbox unavailable");
    assert_int_equal(queue_of(w, "q")->failed, 1);
}

static void finish_without_a_run_leaves_no_attempt(world *w)
{
    run r = running(w, (spec){0});
    pawl_op *op = op_finish(w, r.id, r.fence, PAWL_CANCELLED);
    op->u.finish.run = (pawl_execution){.progress = -1};
    assert_int_equal(apply(w, w->a, r.node, op), PAWL_OP_DONE);
    assert_true(get(w, r.id)->attempts_count == 0 && get(w, r.id)->attempt == 0);
}

static void a_run_shows_as_running(world *w)
{
    run r = running(w, (spec){0});
    pawl_info *info = get(w, r.id);
    assert_int_equal(info->attempts_count, 1);
    assert_string_equal(info->attempts[0].outcome, "running");
    assert_true(info->attempts[0].finished_us == 0 && info->attempts[0].node == r.node && info->attempts[0].fence == r.fence);
}

static void stale_with_another_fence(world *w)
{
    run r = running(w, (spec){0});
    for (int64_t fence = r.fence - 1; fence <= r.fence + 1; fence += 2) {
        pawl_op *ops[] = {op_finish(w, r.id, fence, PAWL_SUCCEEDED)};
        apply_all(w, w->a, r.node, ops, 1);
        assert_int_equal(ops[0]->result, PAWL_OP_STALE);
        assert_int_equal(ops[0]->out_state, PAWL_LEASED);
        assert_int_equal(apply(w, w->a, r.node, op_release(w, r.id, fence, 0, PAWL_ATTEMPT_RETRY)), PAWL_OP_STALE);
        assert_int_equal(apply(w, w->a, r.node, op_start(w, r.id, fence, false)), PAWL_OP_STALE);
        assert_int_equal(apply(w, w->a, r.node, op_progress(w, r.id, fence, 3, NULL)), PAWL_OP_STALE);
    }
    pawl_info *info = get(w, r.id);
    assert_true(info->state == PAWL_LEASED && info->progress == -1 && info->attempts_count == 1);
}

static void stale_when_unknown_or_finished(world *w)
{
    run r = running(w, (spec){0});
    pawl_op *unknown = op_finish(w, new_id(w), 1, PAWL_SUCCEEDED);
    assert_int_equal(apply(w, w->a, r.node, unknown), PAWL_OP_STALE);
    assert_int_equal(unknown->out_state, PAWL_STATE_NONE);
    apply(w, w->a, r.node, op_finish(w, r.id, r.fence, PAWL_SUCCEEDED));
    pawl_op *again = op_finish(w, r.id, r.fence, PAWL_FAILED);
    assert_int_equal(apply(w, w->a, r.node, again), PAWL_OP_STALE);
    assert_int_equal(again->out_state, PAWL_SUCCEEDED);
    assert_true(again->out_fence == r.fence);
    assert_state(w, r.id, PAWL_SUCCEEDED);
}

static void fences_grow_with_every_lease(world *w)
{
    int64_t n = join(w, w->a), last = 0;
    pawl_id id = insert(w, w->a, n, (spec){0});
    for (int i = 0; i < 5; i++) {
        pawl_claimed got = claim_one(w, w->a, n);
        assert_true(got.body->id == id && got.fence > last);
        assert_true(fence_of(w, id) == got.fence);
        last = got.fence;
        assert_int_equal(apply(w, w->a, n, op_release(w, id, got.fence, 0, PAWL_ATTEMPT_NONE)), PAWL_OP_DONE);
        assert_int_equal(apply(w, w->a, n, op_release(w, id, got.fence, 0, PAWL_ATTEMPT_NONE)), PAWL_OP_STALE);
    }
}

static void release_for_a_retry(world *w)
{
    run r = running(w, (spec){0});
    pawl_op *op = op_release(w, r.id, r.fence, PAWL_MINUTE, PAWL_ATTEMPT_RETRY);
    op->u.release.run.error = "no route";
    op->u.release.run.code = "net";
    assert_int_equal(apply(w, w->a, r.node, op), PAWL_OP_DONE);
    assert_true(op->out_run_at_us == w->clock.now_us + PAWL_MINUTE);
    pawl_info *info = get(w, r.id);
    assert_int_equal(info->state, PAWL_PENDING);
    assert_string_equal(info->display, "retrying");
    assert_true(info->failures == 1 && info->interruptions == 0 && info->attempt == 1 && info->node == 0);
    assert_true(info->run_at_us == op->out_run_at_us);
    assert_int_equal(info->attempts_count, 1);
    assert_string_equal(info->attempts[0].outcome, "retry");
    assert_string_equal(info->attempts[0].error, "no route");
    assert_string_equal(info->attempts[0].code, "net");
    advance(w, PAWL_MINUTE);
    pawl_claimed got = claim_one(w, w->a, r.node);
    assert_true(got.failures == 1 && got.runs == 1 && got.interruptions == 0 && got.rescues == 0);
}

static void release_in_other_ways(world *w)
{
    static const pawl_attempt_outcome hows[] = {PAWL_ATTEMPT_SNOOZED, PAWL_ATTEMPT_INTERRUPTED, PAWL_ATTEMPT_TIMEOUT};
    int64_t n = join(w, w->a);
    pawl_id id = insert(w, w->a, n, (spec){0});
    for (int i = 0; i < 3; i++) {
        pawl_claimed got = claim_one(w, w->a, n);
        assert_int_equal(apply(w, w->a, n, op_release(w, id, got.fence, 0, hows[i])), PAWL_OP_DONE);
    }
    pawl_info *info = get(w, id);
    assert_true(info->failures == 1 && info->interruptions == 1 && info->attempts_count == 3 && info->attempt == 3);
    assert_string_equal(info->attempts[0].outcome, "snoozed");
    assert_string_equal(info->attempts[1].outcome, "interrupted");
    assert_string_equal(info->attempts[2].outcome, "timeout");
    for (int i = 0; i < 3; i++) assert_int_equal(info->attempts[i].number, i + 1);
}

static void release_of_what_never_started(world *w)
{
    int64_t n = join(w, w->a);
    pawl_id id = insert(w, w->a, n, (spec){.priority = 3});
    int64_t due_us = w->clock.now_us;
    advance(w, PAWL_SECOND);
    pawl_claimed got = claim_one(w, w->a, n);
    pawl_op *op = op_release(w, id, got.fence, -1, PAWL_ATTEMPT_NONE);
    assert_int_equal(apply(w, w->a, n, op), PAWL_OP_DONE);
    assert_true(op->out_run_at_us == due_us);
    pawl_info *info = get(w, id);
    assert_true(info->attempts_count == 0 && info->attempt == 0 && info->run_at_us == due_us && info->failures == 0);
    assert_int_equal(claim_one(w, w->a, n).runs, 0);
}

static void progress_shows_while_it_runs(world *w)
{
    run r = running(w, (spec){0});
    assert_int_equal(apply(w, w->a, r.node, op_progress(w, r.id, r.fence, 40, "two of five")), PAWL_OP_DONE);
    assert_int_equal(get(w, r.id)->progress, 40);
    assert_string_equal(get(w, r.id)->progress_text, "two of five");
    assert_int_equal(apply(w, w->a, r.node, op_progress(w, r.id, r.fence, 60, NULL)), PAWL_OP_DONE);
    assert_int_equal(get(w, r.id)->progress, 60);
    assert_state(w, r.id, PAWL_LEASED);
}

static void start_clears_not_started(world *w)
{
    int64_t n = join(w, w->a);
    pawl_id id = insert(w, w->a, n, (spec){.key = "k"});
    claim(w, w->a, n, (wish){.prefetch = 1});
    int64_t fence = w->claimed[0].fence;
    assert_true(get(w, id)->attempt == 0);
    assert_int_equal(apply(w, w->a, n, op_start(w, id, fence, false)), PAWL_OP_DONE);
    assert_true(get(w, id)->attempt == 1);
    assert_int_equal(apply(w, w->b, 0, op_cancel(w, id, NULL)), PAWL_OP_ASKED);
}

static void start_of_a_cancelled_run(world *w)
{
    run r = running(w, (spec){0});
    assert_int_equal(apply(w, w->b, 0, op_cancel(w, r.id, NULL)), PAWL_OP_ASKED);
    assert_int_equal(apply(w, w->a, r.node, op_start(w, r.id, r.fence, true)), PAWL_OP_CANCELLING);
    assert_state(w, r.id, PAWL_LEASED);
    assert_int_equal(apply(w, w->a, r.node, op_finish(w, r.id, r.fence, PAWL_CANCELLED)), PAWL_OP_DONE);
}

static void release_when_a_cancel_was_asked(world *w)
{
    run r = running(w, (spec){0});
    apply(w, w->b, 0, op_cancel(w, r.id, NULL));
    pawl_op *op = op_release(w, r.id, r.fence, 0, PAWL_ATTEMPT_RETRY);
    assert_int_equal(apply(w, w->a, r.node, op), PAWL_OP_DONE);
    assert_int_equal(op->out_state, PAWL_CANCELLED);
    assert_state(w, r.id, PAWL_CANCELLED);
    assert_int_equal(get(w, r.id)->attempts_count, 1);
    assert_true(renew(w, w->a, r.node).held == 0 && w->news.cancels_count == 0);
}

static void success_wins_over_a_cancel(world *w)
{
    run r = running(w, (spec){0});
    apply(w, w->b, 0, op_cancel(w, r.id, NULL));
    assert_int_equal(apply(w, w->a, r.node, op_finish(w, r.id, r.fence, PAWL_SUCCEEDED)), PAWL_OP_DONE);
    assert_state(w, r.id, PAWL_SUCCEEDED);
}

static void a_dead_nodes_outcome_counts_until_it_is_freed(world *w)
{
    int64_t n = join(w, w->a), other = join(w, w->b);
    pawl_op *ops[] = {op_insert(w, (spec){.ask_lease = true}), op_insert(w, (spec){.ask_lease = true})};
    apply_all(w, w->a, n, ops, 2);
    advance(w, LEASE + 1);
    pawl_rescue call = rescue(w, w->b, other, n, renewal_of(w, w->b, other, n), 1);
    assert_true(call.freed == 1 && call.more);
    pawl_op *freed = call.tasks[0].id == ops[0]->id ? ops[0] : ops[1], *kept = freed == ops[0] ? ops[1] : ops[0];
    assert_int_equal(apply(w, w->a, n, op_finish(w, freed->id, freed->out_fence, PAWL_SUCCEEDED)), PAWL_OP_STALE);
    assert_int_equal(apply(w, w->a, n, op_finish(w, kept->id, kept->out_fence, PAWL_SUCCEEDED)), PAWL_OP_DONE);
    assert_state(w, kept->id, PAWL_SUCCEEDED);
}

static void logs_of_every_attempt(world *w)
{
    int64_t n = join(w, w->a);
    pawl_id id = insert(w, w->a, n, (spec){0});
    pawl_claimed got = claim_one(w, w->a, n);
    pawl_op *op = op_release(w, id, got.fence, 0, PAWL_ATTEMPT_RETRY);
    op->u.release.run.log = pawl_str("1000 2 hello\n1001 4 it broke: a b\n");
    op->u.release.run.log_lines = 2;
    apply(w, w->a, n, op);
    got = claim_one(w, w->a, n);
    pawl_op *end = op_finish(w, id, got.fence, PAWL_SUCCEEDED);
    end->u.finish.run.log = pawl_str("2000 1 \n");
    end->u.finish.run.log_lines = 1;
    end->u.finish.run.number = 2;
    apply(w, w->a, n, end);
    pawl_trail *trail = trail_of(w, id);
    assert_int_equal(trail->lines_count, 3);
    const pawl_log_line *l = trail->lines;
    assert_true(l[0].attempt == 1 && l[0].at_us == 1000 && l[0].level == PAWL_INFO);
    assert_string_equal(l[0].text, "hello");
    assert_true(l[1].attempt == 1 && l[1].at_us == 1001 && l[1].level == PAWL_ERROR && l[1].sequence > l[0].sequence);
    assert_string_equal(l[1].text, "it broke: a b");
    assert_true(l[2].attempt == 2 && l[2].at_us == 2000 && l[2].level == PAWL_DEBUG);
    assert_string_equal(l[2].text, "");
    assert_true(get(w, id)->attempts[0].log_lines == 2 && get(w, id)->attempts[1].log_lines == 1);
}

CASES(holder_cases){
    {"finish: succeeded, failed, cancelled", finish_each_way},
    {"finish: keeps result, reference and progress", finish_keeps_what_the_run_left},
    {"finish: a failure says why", a_failure_says_why},
    {"finish: without a run there is no attempt", finish_without_a_run_leaves_no_attempt},
    {"finish: a success wins over a cancel that was asked", success_wins_over_a_cancel},
    {"lease: a run shows as running", a_run_shows_as_running},
    {"fence: another one is stale", stale_with_another_fence},
    {"fence: stale when unknown or finished", stale_when_unknown_or_finished},
    {"fence: grows with every lease", fences_grow_with_every_lease},
    {"fence: a dead node's outcome counts until the task is freed", a_dead_nodes_outcome_counts_until_it_is_freed},
    {"release: for a retry", release_for_a_retry},
    {"release: snoozed, interrupted, timed out", release_in_other_ways},
    {"release: what never started", release_of_what_never_started},
    {"release: cancels instead when that was asked", release_when_a_cancel_was_asked},
    {"progress: shows while it runs", progress_shows_while_it_runs},
    {"start: clears not started", start_clears_not_started},
    {"start: not when a cancel was asked", start_of_a_cancelled_run},
    {"log: lines of every attempt", logs_of_every_attempt},
    {NULL, NULL},
};
