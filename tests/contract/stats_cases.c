/* STATS: counters of what is stored, rollups of what happened. */
#include "contract.h"
#include <stdio.h>

static pawl_id leased(world *w, int64_t n)
{
    pawl_op *op = op_insert(w, (spec){.ask_lease = true});
    apply(w, w->a, n, op);
    return op->id;
}

static void what_is_stored(world *w)
{
    int64_t n = join_as(w, w->a, "node", "q", "*", LEASE);
    insert(w, w->a, n, (spec){.delay_us = PAWL_HOUR});
    pawl_id first = insert(w, w->a, n, (spec){0});
    int64_t oldest_us = w->clock.now_us;
    leased(w, n);
    apply(w, w->a, n, op_finish(w, leased(w, n), 1, PAWL_FAILED));
    apply(w, w->a, n, op_finish(w, leased(w, n), 1, PAWL_SUCCEEDED));
    advance(w, PAWL_SECOND);
    insert(w, w->a, n, (spec){0});
    insert(w, w->a, n, (spec){.queue = "unserved"});
    const pawl_queue_info *q = queue_of(w, "q");
    assert_true(q->pending == 3 && q->leased == 1 && q->failed == 1 && q->waiting == 0);
    assert_true(q->due == 2 && q->oldest_due_us == oldest_us && q->served && !q->paused);
    assert_true(queue_of(w, "unserved")->pending == 1 && !queue_of(w, "unserved")->served);
    pawl_stats *stats = stats_of(w, PAWL_HOUR);
    assert_true(stats->pending == 4 && stats->leased == 1 && stats->dead == 1 && stats->waiting == 0);
    assert_true(stats->now_us == w->clock.now_us && stats->window_us == PAWL_HOUR);
    apply(w, w->a, n, op_cancel(w, first, NULL));
    assert_true(queue_of(w, "q")->pending == 2 && queue_of(w, "q")->due == 1);
}

static void what_happened(world *w)
{
    int64_t n = join(w, w->a), other = join(w, w->b);
    for (int i = 0; i < 3; i++) apply(w, w->a, n, op_finish(w, leased(w, n), 1, PAWL_SUCCEEDED));
    apply(w, w->a, n, op_finish(w, leased(w, n), 1, PAWL_FAILED));
    apply(w, w->a, n, op_release(w, leased(w, n), 1, PAWL_HOUR, PAWL_ATTEMPT_RETRY));
    apply(w, w->a, n, op_release(w, leased(w, n), 1, PAWL_HOUR, PAWL_ATTEMPT_SNOOZED));
    apply(w, w->a, n, op_cancel(w, insert(w, w->a, n, (spec){0}), NULL));
    leased(w, n);
    rescue_lapsed(w, w->b, other, n, true);
    pawl_stats *stats = stats_of(w, PAWL_HOUR);
    assert_true(stats->dispatched == 8 && stats->succeeded == 3 && stats->failed == 1 && stats->cancelled == 1);
    assert_true(stats->retried == 1 && stats->rescued == 1);
}

static void in_the_window(world *w)
{
    int64_t n = join(w, w->a);
    apply(w, w->a, n, op_finish(w, leased(w, n), 1, PAWL_SUCCEEDED));
    advance(w, 2 * PAWL_HOUR);
    apply(w, w->a, n, op_finish(w, leased(w, n), 1, PAWL_SUCCEEDED));
    assert_int_equal(stats_of(w, PAWL_HOUR)->succeeded, 1);
    assert_int_equal(stats_of(w, 0)->succeeded, 1);
    assert_true(stats_of(w, 0)->window_us == PAWL_HOUR);
    assert_int_equal(stats_of(w, 3 * PAWL_HOUR)->succeeded, 2);
    advance(w, 10 * PAWL_MINUTE);
    assert_int_equal(stats_of(w, 5 * PAWL_MINUTE)->succeeded, 0);
    assert_true(stats_of(w, 5 * PAWL_MINUTE)->run_p50_us == 0);
}

/* Every window in steps that hold, together, what the window holds. */
static void in_steps(world *w)
{
    int64_t n = join(w, w->a);
    for (int i = 0; i < 4; i++, advance(w, 7 * PAWL_MINUTE)) {
        apply(w, w->a, n, op_finish(w, leased(w, n), 1, i % 2 ? PAWL_FAILED : PAWL_SUCCEEDED));
        insert(w, w->a, n, (spec){0});
    }
    const int64_t windows[] = {PAWL_MINUTE, 15 * PAWL_MINUTE, PAWL_HOUR, PAWL_DAY, 7 * PAWL_DAY, 366 * PAWL_DAY};
    for (size_t i = 0; i < sizeof windows / sizeof *windows; i++) {
        const pawl_stats *s = stats_of(w, windows[i]);
        int64_t dispatched = 0, ended = 0, with_times = 0;
        assert_true(s->steps_count >= 2 && s->steps_count <= 62 && s->step_us % PAWL_MINUTE == 0);
        for (size_t k = 0; k < s->steps_count; k++) {
            const pawl_stats_step *step = &s->steps[k];
            assert_true(step->at_us % s->step_us == 0 && (k == 0 || step->at_us == step[-1].at_us + s->step_us));
            dispatched += step->dispatched;
            ended += step->succeeded + step->failed;
            with_times += step->run_p50_us > 0;
            assert_true((step->run_p50_us > 0) == (step->succeeded + step->failed > 0));
        }
        assert_true(s->steps[0].at_us <= s->now_us - s->window_us + PAWL_MINUTE &&
                    s->steps[s->steps_count - 1].at_us <= s->now_us);
        assert_true(dispatched == s->dispatched && ended == s->succeeded + s->failed);
        assert_int_equal(with_times > 0, s->succeeded + s->failed > 0);
    }
    assert_int_equal(stats_of(w, PAWL_HOUR)->dispatched, 8);
}

static void assert_near(int64_t value, int64_t wanted)
{
    if (value * 3 < wanted * 2 || value * 2 > wanted * 3) fail_msg("%lld is not near %lld", (long long)value, (long long)wanted);
}

static void percentiles(world *w)
{
    int64_t n = join(w, w->a);
    for (int i = 0; i < 100; i++) {
        pawl_id id = leased(w, n);
        pawl_op *op = op_finish(w, id, 1, PAWL_SUCCEEDED);
        int64_t slow = i < 97 ? 1 : 1000;
        op->u.finish.run.started_us = w->clock.now_us + 300 * slow;
        op->u.finish.run.finished_us = op->u.finish.run.started_us + 7000 * slow;
        apply(w, w->a, n, op);
    }
    pawl_stats *stats = stats_of(w, PAWL_HOUR);
    assert_near(stats->wait_p50_us, 300);
    assert_near(stats->wait_p99_us, 300000);
    assert_near(stats->run_p50_us, 7000);
    assert_near(stats->run_p99_us, 7000000);
}

static void a_thousand_due(world *w)
{
    enum { MANY = 1000 };
    pawl_op **ops = keep(w, MANY * sizeof *ops);
    for (int i = 0; i < MANY; i++) ops[i] = op_insert(w, (spec){.priority = i % 7, .type = i % 2 ? "t" : "u"});
    apply_all(w, w->a, 0, ops, MANY);
    assert_int_equal(queue_of(w, "q")->due, MANY);
    assert_false(queue_of(w, "q")->due_more);
}

/* The more queues have something, the less of each is counted: but what is due longest is known of all. */
static void many_queues(world *w)
{
    enum { QUEUES = 1000, EACH = 100 };
    pawl_op **ops = keep(w, (QUEUES + EACH) * sizeof *ops);
    int64_t oldest_us = w->clock.now_us;
    for (int i = 0; i < QUEUES + EACH; i++) {
        char *name = keep(w, 16);
        snprintf(name, 16, "q%d", i < QUEUES ? i : 7);
        ops[i] = op_insert(w, (spec){.queue = name});
    }
    apply_all(w, w->a, 0, ops, QUEUES);
    advance(w, PAWL_SECOND);
    apply_all(w, w->a, 0, ops + QUEUES, EACH);
    const pawl_queue_info *full = queue_of(w, "q7"), *other = queue_of(w, "q8");
    assert_true(full->pending == EACH + 1 && full->due == EACH && full->due_more && full->oldest_due_us == oldest_us);
    assert_true(other->due == 1 && !other->due_more);
    pawl_query one = {.kind = PAWL_QUERY_STATS, .window_us = PAWL_HOUR, .name = "q7"};
    if (store_read(w->a, &one, w->arena, &w->err)) fail_msg("stats failed: %s", w->err.message);
    assert_true(one.stats->queues_count == 1 && strcmp(one.stats->queues[0].name, "q7") == 0);
    assert_true(one.stats->queues[0].due == EACH + 1 && !one.stats->queues[0].due_more && one.stats->dispatched == 0);
}

CASES(stats_cases){
    {"stats: what is stored", what_is_stored}, {"stats: what happened", what_happened},
    {"stats: in the window", in_the_window},   {"stats: in steps", in_steps},
    {"stats: percentiles", percentiles},       {"stats: a thousand due", a_thousand_due},
    {"stats: many queues", many_queues},       {NULL, NULL},
};
