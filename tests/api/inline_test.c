/* Inline mode: no threads, a clock that moves when told. */
#include "harness.h"
#include <dirent.h>

#define START (INT64_C(1767225600) * PAWL_SECOND) /* 2026-01-01 */

static void open_inline(world *w, const pawl_handler *handlers, size_t count, bool eager)
{
    world_start(w, handlers, count, (pawl_options){.inline_mode = true, .inline_start_us = START, .inline_eager = eager});
}

static int64_t run_due(world *w)
{
    int64_t count = -1;
    ok(pawl_run_due(w->p, &count, &w->err));
    return count;
}

static int64_t advance(world *w, int64_t us)
{
    int64_t count = -1;
    ok(pawl_advance(w->p, us, &count, &w->err));
    return count;
}

static int threads(void)
{
    int count = 0;
    DIR *d = opendir("/proc/self/task");
    for (struct dirent *e; d && (e = readdir(d));) count += e->d_name[0] != '.';
    if (d) closedir(d);
    return count;
}

static pawl_outcome note_time(pawl_run *run, void *ctx)
{
    note(ctx, "%lld", (long long)((pawl_now(pawl_run_engine(run)) - START) / PAWL_SECOND));
    return pawl_ok();
}

static void clock_stands_still(void **state)
{
    world *w = *state;
    int before = threads();
    open_inline(w, &(pawl_handler){.type = "t", .run = note_time, .ctx = w}, 1, false);
    assert_int_equal(threads(), before);
    assert_int_equal(pawl_now(w->p), START);
    pawl_id now = send(w, (pawl_task){.type = "t"}), later = send(w, (pawl_task){.type = "t", .delay_us = PAWL_HOUR});
    pawl_id at = send(w, (pawl_task){.type = "t", .at_us = START + 30 * PAWL_MINUTE});
    assert_string_equal(w->journal, "");
    refused(pawl_wait(w->p, now, -1, NULL, &w->err), PAWL_TIMEOUT, "pawl_run_due");
    assert_int_equal(run_due(w), 1);
    assert_int_equal(run_due(w), 0);
    await(w, now, PAWL_SUCCEEDED);
    assert_int_equal(advance(w, 59 * PAWL_MINUTE), 1);
    await(w, at, PAWL_SUCCEEDED);
    assert_int_equal(pawl_now(w->p), START + 59 * PAWL_MINUTE);
    assert_int_equal(advance(w, 2 * PAWL_MINUTE), 1);
    await(w, later, PAWL_SUCCEEDED);
    assert_string_equal(w->journal, "0 1800 3600");
    pawl_info *i = get(w, later);
    assert_int_equal(i->created_us, START);
    assert_int_equal(i->started_us, START + PAWL_HOUR);
    pawl_info_free(i);
    refused(pawl_advance(w->p, -1, NULL, &w->err), PAWL_INVALID, "-1");
}

static pawl_outcome fail_thrice(pawl_run *run, void *ctx)
{
    note_time(run, ctx);
    return pawl_run_attempt(run) < 4 ? pawl_retry(run, "again") : pawl_ok();
}

static void retries_at_exact_instants(void **state)
{
    world *w = *state;
    pawl_handler handler = {.type = "t", .run = fail_thrice, .ctx = w, .max_attempts = 5};
    handler.retry = (pawl_retry_policy){.curve = PAWL_CURVE_EXPONENTIAL, .delay_us = 10 * PAWL_SECOND, .factor = 3, .jitter = -1};
    open_inline(w, &handler, 1, false);
    pawl_id id = send(w, (pawl_task){.type = "t"});
    assert_int_equal(run_due(w), 1);
    assert_int_equal(advance(w, PAWL_HOUR), 3);
    await(w, id, PAWL_SUCCEEDED);
    assert_string_equal(w->journal, "0 10 40 130");
}

static pawl_outcome chain(pawl_run *run, void *ctx)
{
    int left = atoi(pawl_run_payload(run).data);
    char next[16];
    note(ctx, "%d", left);
    snprintf(next, sizeof next, "%d", left - 1);
    if (left > 0) pawl_dispatch(pawl_run_engine(run), &(pawl_task){.type = "t", .payload = pawl_str(next)}, NULL, NULL);
    return pawl_ok();
}

static void eager(void **state)
{
    world *w = *state;
    open_inline(w, &(pawl_handler){.type = "t", .run = chain, .ctx = w}, 1, true);
    pawl_id id = send(w, (pawl_task){.type = "t", .payload = pawl_str("3")});
    assert_string_equal(w->journal, "3 2 1 0"); /* what it makes due runs too, one after the other */
    await(w, id, PAWL_SUCCEEDED);
}

static pawl_outcome sleep_and_tell(pawl_run *run, void *ctx)
{
    pawl_stop_reason reason = pawl_run_sleep(run, PAWL_HOUR);
    note(ctx, "%d@%lld", (int)reason, (long long)((pawl_now(pawl_run_engine(run)) - START) / PAWL_SECOND));
    return reason ? pawl_retry(run, "stopped") : pawl_ok();
}

static void sleeping_moves_the_clock(void **state)
{
    world *w = *state;
    open_inline(w, &(pawl_handler){.type = "t", .run = sleep_and_tell, .ctx = w}, 1, false);
    pawl_id whole = send(w, (pawl_task){.type = "t"});
    assert_int_equal(run_due(w), 1);
    await(w, whole, PAWL_SUCCEEDED);
    pawl_id cut = send(w, (pawl_task){.type = "t", .timeout_us = PAWL_MINUTE, .max_attempts = 1});
    assert_int_equal(run_due(w), 1);
    await(w, cut, PAWL_FAILED);
    assert_string_equal(w->journal, "0@3600 2@3660");
}

static pawl_outcome try_to_nest(pawl_run *run, void *ctx)
{
    pawl *p = pawl_run_engine(run);
    note(ctx, "%s %s", pawl_status_name(pawl_run_due(p, NULL, NULL)), pawl_status_name(pawl_advance(p, 1, NULL, NULL)));
    return pawl_ok();
}

static void not_from_inside_a_handler(void **state)
{
    world *w = *state;
    open_inline(w, &(pawl_handler){.type = "t", .run = try_to_nest, .ctx = w}, 1, false);
    send(w, (pawl_task){.type = "t"});
    assert_int_equal(run_due(w), 1);
    assert_string_equal(w->journal, "misuse misuse");
}

static pawl_run *deferred_run;

static pawl_outcome keep_run(pawl_run *run, void *ctx)
{
    (void)ctx;
    deferred_run = run;
    return pawl_deferred();
}

static void deferred(void **state)
{
    world *w = *state;
    open_inline(w, &(pawl_handler){.type = "t", .run = keep_run}, 1, false);
    pawl_id id = send(w, (pawl_task){.type = "t"});
    assert_int_equal(run_due(w), 1);
    ok(pawl_run_finish(deferred_run, pawl_ok(), &w->err));
    await(w, id, PAWL_SUCCEEDED);
}

static void stop_gives_back_what_has_not_run(void **state)
{
    world *w = *state;
    open_inline(w, &(pawl_handler){.type = "t", .run = note_time, .ctx = w}, 1, false);
    pawl_id id = send(w, (pawl_task){.type = "t"});
    ok(pawl_stop(w->p, &w->err));
    assert_string_equal(w->journal, "");
    pawl_info *i = get(w, id);
    assert_int_equal(i->state, PAWL_PENDING);
    assert_int_equal(i->failures, 0);
    pawl_info_free(i);
    ok(pawl_start(w->p, &w->err));
    assert_int_equal(run_due(w), 1);
    await(w, id, PAWL_SUCCEEDED);
}

static bool note_hook(pawl_run *run, void *ctx)
{
    note(ctx, "%s", pawl_run_type(run));
    return true;
}

static void count_callback(void *ctx, const pawl_receipt *receipt, const pawl_error *err)
{
    (void)err;
    note(ctx, "%s", pawl_dispatched_name(receipt->outcome));
}

static void hooks_and_callbacks(void **state)
{
    world *w = *state;
    open_inline(w, &(pawl_handler){.type = "t", .run = succeed, .ctx = w, .on_succeeded = note_hook}, 1, false);
    ok(pawl_dispatch_async(w->p, &(pawl_task){.type = "t"}, count_callback, w, &w->err));
    assert_string_equal(w->journal, "created");
    assert_int_equal(run_due(w), 1);
    assert_string_equal(w->journal, "created t");
}

/* Retention, leases and all that a month brings. */
static void a_month_goes_by(void **state)
{
    world *w = *state;
    open_inline(w, &(pawl_handler){.type = "t", .run = succeed}, 1, false);
    pawl_id id = send(w, (pawl_task){.type = "t"}), last = send(w, (pawl_task){.type = "t", .delay_us = 31 * PAWL_DAY});
    assert_int_equal(advance(w, 31 * PAWL_DAY), 2);
    await(w, last, PAWL_SUCCEEDED);
    refused(pawl_wait(w->p, id, 0, NULL, &w->err), PAWL_NOT_FOUND, "retention");
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        TEST(clock_stands_still),
        TEST(retries_at_exact_instants),
        TEST(eager),
        TEST(sleeping_moves_the_clock),
        TEST(not_from_inside_a_handler),
        TEST(deferred),
        TEST(stop_gives_back_what_has_not_run),
        TEST(hooks_and_callbacks),
        TEST(a_month_goes_by),
    };
    return RUN_TESTS("inline mode", tests);
}
