/* Runs: outcomes, retries, hooks, timeouts, cancels, deferral, spawning, logs, progress, results. */
#include "harness.h"

#include "base/clock.h"
#include "runtime/runtime.h"

#define QUICK_RETRY                                               \
    {                                                             \
        .curve = PAWL_CURVE_FIXED, .delay_us = 1000, .jitter = -1 \
    }

/* Hooks that note what they are told, and open a gate at the end of a task. */
typedef struct watch {
    world *w;
    gate ended, entered;
    int fail_first; /* attempts that ask for another */
    pawl_outcome (*then)(pawl_run *run);
} watch;

static bool on_started(pawl_run *run, void *ctx)
{
    note(((watch *)ctx)->w, "started%d", pawl_run_attempt(run));
    return true;
}

static bool on_succeeded(pawl_run *run, void *ctx)
{
    (void)run;
    note(((watch *)ctx)->w, "succeeded");
    gate_open(&((watch *)ctx)->ended);
    return true;
}

static bool on_failed(pawl_run *run, void *ctx, const char *error)
{
    (void)run;
    note(((watch *)ctx)->w, "failed(%s)", error);
    gate_open(&((watch *)ctx)->ended);
    return true;
}

static bool on_retry(pawl_run *run, void *ctx, int attempt, const char *error, int64_t delay_us)
{
    (void)run;
    note(((watch *)ctx)->w, "retry%d(%s,%lld)", attempt, error, (long long)delay_us);
    return attempt != 2; /* false is logged and changes nothing */
}

static bool on_cancelled(pawl_run *run, void *ctx)
{
    (void)run;
    note(((watch *)ctx)->w, "cancelled");
    gate_open(&((watch *)ctx)->ended);
    return true;
}

static pawl_outcome watched_run(pawl_run *run, void *ctx)
{
    watch *h = ctx;
    if (pawl_run_attempt(run) <= h->fail_first) return pawl_retry(run, "no %d", pawl_run_attempt(run));
    return h->then ? h->then(run) : pawl_ok();
}

static pawl_handler watched(watch *h)
{
    return (pawl_handler){.type = "t",
                          .run = watched_run,
                          .ctx = h,
                          .retry = QUICK_RETRY,
                          .on_started = on_started,
                          .on_succeeded = on_succeeded,
                          .on_failed = on_failed,
                          .on_retry = on_retry,
                          .on_cancelled = on_cancelled};
}

#define WATCH(...)                                          \
    {                                                       \
        .w = w, .ended = GATE, .entered = GATE, __VA_ARGS__ \
    }

static void retries_with_hooks_in_order(void **state)
{
    world *w = *state;
    watch h = WATCH(.fail_first = 2);
    pawl_handler handler = watched(&h);
    world_start(w, &handler, 1, (pawl_options){.workers = 1});
    pawl_id id = send(w, (pawl_task){.type = "t"});
    await(w, id, PAWL_SUCCEEDED);
    gate_pass(&h.ended);
    assert_string_equal(w->journal, "started1 retry1(no 1,1000) started2 retry2(no 2,1000) started3 succeeded");
    pawl_info *i = get(w, id);
    assert_int_equal(i->attempts_count, 3);
    assert_int_equal(i->failures, 2);
    assert_string_equal(i->attempts[0].outcome, "retry");
    assert_string_equal(i->attempts[0].error, "no 1");
    assert_string_equal(i->attempts[2].outcome, "succeeded");
    pawl_info_free(i);
    world_close(w);
    assert_non_null(strstr(w->log, "on_retry"));
}

static void attempts_exhausted(void **state)
{
    world *w = *state;
    watch h = WATCH(.fail_first = 99);
    pawl_handler handler = watched(&h);
    handler.max_attempts = 3;
    world_start(w, &handler, 1, (pawl_options){.workers = 1});
    pawl_id id = send(w, (pawl_task){.type = "t"}), once = send(w, (pawl_task){.type = "t", .max_attempts = 1});
    await(w, id, PAWL_FAILED);
    await(w, once, PAWL_FAILED);
    gate_pass(&h.ended);
    gate_pass(&h.ended);
    assert_non_null(strstr(w->journal, "failed(no 3)"));
    assert_non_null(strstr(w->journal, "failed(no 1)"));
    pawl_info *i = get(w, id);
    assert_string_equal(i->reason, "attempts_exhausted");
    assert_string_equal(i->error, "no 3");
    assert_int_equal(i->attempts_count, 3);
    pawl_info_free(i);
}

static pawl_outcome fail_for_good(pawl_run *run)
{
    pawl_run_error_code(run, "E42");
    return pawl_fail(run, "cannot %s", "work");
}

static void fail_never_retries(void **state)
{
    world *w = *state;
    watch h = WATCH(.then = fail_for_good);
    pawl_handler handler = watched(&h);
    world_start(w, &handler, 1, (pawl_options){0});
    pawl_id id = send(w, (pawl_task){.type = "t"});
    await(w, id, PAWL_FAILED);
    gate_pass(&h.ended);
    assert_string_equal(w->journal, "started1 failed(cannot work)");
    pawl_info *i = get(w, id);
    assert_string_equal(i->code, "E42");
    assert_string_equal(i->error, "cannot work");
    assert_int_equal(i->attempts_count, 1);
    pawl_info_free(i);
}

static pawl_outcome by_payload(pawl_run *run, void *ctx)
{
    (void)ctx;
    pawl_run_error_code(run, pawl_run_headers(run));
    return pawl_retry(run, "code %s", pawl_run_headers(run));
}

static int64_t custom_curve(void *ctx, const pawl_failure *failure)
{
    note(ctx, "%d/%d:%s:%s", failure->attempt, failure->max_attempts, failure->code, failure->error);
    return failure->attempt < 3 ? 1 : PAWL_NO_RETRY;
}

static void custom_retry_function(void **state)
{
    world *w = *state;
    pawl_handler handler = {.type = "t", .run = by_payload, .max_attempts = 9};
    handler.retry = (pawl_retry_policy){.curve = PAWL_CURVE_CUSTOM, .custom = custom_curve, .custom_ctx = w};
    world_start(w, &handler, 1, (pawl_options){0});
    pawl_id id = send(w, (pawl_task){.type = "t", .headers = "x"});
    await(w, id, PAWL_FAILED);
    world_close(w);
    assert_string_equal(w->journal, "1/9:x:code x 2/9:x:code x 3/9:x:code x");
}

static void retry_by_code(void **state)
{
    world *w = *state;
    char code[] = "busy";
    const char *only[] = {code, NULL};
    pawl_handler handler = {.type = "t", .run = by_payload, .max_attempts = 2, .retry = QUICK_RETRY};
    handler.retry.only_codes = only;
    w->p = world_open(w, (pawl_options){0});
    ok(pawl_handle(w->p, &handler, &w->err));
    strcpy(code, "gone"); /* it was copied */
    ok(pawl_start(w->p, &w->err));
    pawl_id busy = send(w, (pawl_task){.type = "t", .headers = "busy"}),
            other = send(w, (pawl_task){.type = "t", .headers = "gone"});
    await(w, busy, PAWL_FAILED);
    await(w, other, PAWL_FAILED);
    pawl_info *i = get(w, busy);
    assert_int_equal(i->attempts_count, 2);
    pawl_info_free(i);
    i = get(w, other);
    assert_int_equal(i->attempts_count, 1);
    assert_string_equal(i->code, "gone");
    pawl_info_free(i);
}

static pawl_outcome snooze_once(pawl_run *run, void *ctx)
{
    note(ctx, "attempt%d", pawl_run_attempt(run));
    static atomic_int runs;
    return atomic_fetch_add(&runs, 1) % 2 == 0 ? pawl_snooze(1000) : pawl_ok();
}

static void snooze_costs_no_attempt(void **state)
{
    world *w = *state;
    world_start(w, &(pawl_handler){.type = "t", .run = snooze_once, .ctx = w, .max_attempts = 1}, 1, (pawl_options){0});
    pawl_id id = send(w, (pawl_task){.type = "t"});
    await(w, id, PAWL_SUCCEEDED);
    assert_string_equal(w->journal, "attempt1 attempt1");
    pawl_info *i = get(w, id);
    assert_int_equal(i->attempts_count, 2);
    assert_string_equal(i->attempts[0].outcome, "snoozed");
    pawl_info_free(i);
}

static pawl_outcome no_outcome(pawl_run *run, void *ctx)
{
    (void)run;
    (void)ctx;
    return (pawl_outcome){0};
}

static void nonsense_outcome_fails(void **state)
{
    world *w = *state;
    world_start(w, &(pawl_handler){.type = "t", .run = no_outcome}, 1, (pawl_options){0});
    pawl_id id = send(w, (pawl_task){.type = "t"});
    await(w, id, PAWL_FAILED);
    pawl_info *i = get(w, id);
    assert_non_null(strstr(i->error, "no outcome"));
    pawl_info_free(i);
}

static pawl_outcome sleep_long(pawl_run *run)
{
    pawl_stop_reason reason = pawl_run_sleep(run, 1000 * PAWL_SECOND);
    if (reason == PAWL_STOP_CANCELLED) return pawl_cancelled();
    return pawl_retry(run, "stopped for %d", (int)reason);
}

static void timeout(void **state)
{
    world *w = *state;
    watch h = WATCH(.then = sleep_long);
    pawl_handler handler = watched(&h);
    handler.timeout_us = 20 * PAWL_MILLISECOND;
    handler.max_attempts = 2;
    world_start(w, &handler, 1, (pawl_options){.workers = 1});
    pawl_id id = send(w, (pawl_task){.type = "t"});
    await(w, id, PAWL_FAILED);
    gate_pass(&h.ended);
    assert_string_equal(w->journal, "started1 retry1(stopped for 2,1000) started2 failed(stopped for 2)");
    pawl_info *i = get(w, id);
    assert_string_equal(i->attempts[0].outcome, "timeout");
    assert_string_equal(i->attempts[1].outcome, "timeout");
    pawl_info_free(i);
}

static pawl_outcome tell_and_sleep(pawl_run *run, void *ctx)
{
    watch *h = ctx;
    gate_open(&h->entered);
    return sleep_long(run);
}

static void cancel_while_running(void **state)
{
    world *w = *state;
    watch h = WATCH(0);
    pawl_handler handler = watched(&h);
    handler.run = tell_and_sleep;
    world_start(w, &handler, 1, (pawl_options){0});
    pawl_id id = send(w, (pawl_task){.type = "t"});
    gate_pass(&h.entered);
    ok(pawl_cancel(w->p, id, "ops", &w->err));
    await(w, id, PAWL_CANCELLED);
    gate_pass(&h.ended);
    assert_string_equal(w->journal, "started1 cancelled");
    refused(pawl_cancel(w->p, id, NULL, &w->err), PAWL_CONFLICT, "cancelled");
    pawl_id later = send(w, (pawl_task){.type = "t", .delay_us = PAWL_HOUR});
    ok(pawl_cancel(w->p, later, NULL, &w->err));
    await(w, later, PAWL_CANCELLED);
}

/* ---- deferral ------------------------------------------------------------------------------------------------------------ */

typedef struct deferral {
    world *w;
    gate given;
    pawl_run *run;
    bool finish_first; /* the other thread is done before the handler returns */
    pthread_t thread;
} deferral;

static void *finish_elsewhere(void *ctx)
{
    deferral *d = ctx;
    pawl_run_log(d->run, PAWL_WARN, "from elsewhere");
    pawl_status status = pawl_run_finish(d->run, pawl_ok(), NULL);
    note(d->w, "%s", pawl_status_name(status));
    return NULL;
}

static pawl_outcome defer(pawl_run *run, void *ctx)
{
    deferral *d = ctx;
    d->run = run;
    if (d->finish_first) {
        pthread_create(&d->thread, NULL, finish_elsewhere, d);
        pthread_join(d->thread, NULL);
    } else {
        gate_open(&d->given);
    }
    return pawl_deferred();
}

static void deferred_completion(void **state)
{
    world *w = *state;
    deferral d = {.w = w, .given = GATE};
    pawl_handler handlers[] = {{.type = "t", .run = defer, .ctx = &d}, {.type = "u", .run = succeed}};
    world_start(w, handlers, 2, (pawl_options){.workers = 1});
    pawl_id id = send(w, (pawl_task){.type = "t"});
    gate_pass(&d.given);
    await(w, send(w, (pawl_task){.type = "u"}), PAWL_SUCCEEDED); /* the only worker is free meanwhile */
    refused(pawl_wait(w->p, id, 0, NULL, &w->err), PAWL_TIMEOUT, "leased");
    refused(pawl_run_finish(d.run, pawl_deferred(), &w->err), PAWL_INVALID, "outcome");
    finish_elsewhere(&d);
    await(w, id, PAWL_SUCCEEDED);
    d.finish_first = true;
    id = send(w, (pawl_task){.type = "t"});
    await(w, id, PAWL_SUCCEEDED);
    assert_string_equal(w->journal, "ok ok");
    pawl_trail *trail;
    ok(pawl_get_trail(w->p, id, &trail, &w->err));
    assert_int_equal(trail->lines_count, 1);
    assert_string_equal(trail->lines[0].text, "from elsewhere");
    pawl_trail_free(trail);
}

/* ---- spawning ------------------------------------------------------------------------------------------------------------ */

static pawl_outcome spawn_two(pawl_run *run, void *ctx)
{
    world *w = ctx;
    pawl_error err;
    pawl_id child = 0;
    pawl_status first = pawl_run_spawn(run, &(pawl_task){.type = "child", .payload = pawl_str("7")}, &child, &err);
    pawl_status second = pawl_run_spawn(run, &(pawl_task){.type = "child", .delay_us = PAWL_HOUR}, NULL, &err);
    pawl_status bad = pawl_run_spawn(run, &(pawl_task){.type = ""}, NULL, &err);
    note(w, "%s %s %s %lld", pawl_status_name(first), pawl_status_name(second), pawl_status_name(bad), (long long)child);
    return pawl_run_attempt(run) == 1 ? pawl_retry(run, "not yet") : pawl_ok();
}

static void spawns_with_success_only(void **state)
{
    world *w = *state;
    pawl_handler handlers[] = {{.type = "parent", .run = spawn_two, .ctx = w, .retry = QUICK_RETRY},
                               {.type = "child", .run = succeed}};
    world_start(w, handlers, 2, (pawl_options){0});
    await(w, send(w, (pawl_task){.type = "parent"}), PAWL_SUCCEEDED);
    long long never, child;
    assert_int_equal(sscanf(w->journal, "ok ok invalid %lld ok ok invalid %lld", &never, &child), 2);
    assert_true(never > 0 && child > 0 && never != child);
    await(w, child, PAWL_SUCCEEDED);
    refused(pawl_wait(w->p, never, 0, NULL, &w->err), PAWL_NOT_FOUND, "no task");
    pawl_page *page;
    ok(pawl_list(w->p, &(pawl_filter){.type = "child"}, &page, &w->err));
    assert_int_equal(page->count, 2);
    pawl_page_free(page);
}

/* ---- logs, progress, results --------------------------------------------------------------------------------------------- */

static pawl_outcome write_much(pawl_run *run, void *ctx)
{
    (void)ctx;
    char *line = malloc(6000);
    memset(line, 'x', 5999);
    line[5999] = '\0';
    pawl_run_log(run, PAWL_DEBUG, "one\ntwo\x01");
    pawl_run_log(run, PAWL_ERROR, "%s", line);
    for (int i = 0; i < 1100; i++) pawl_run_log(run, PAWL_INFO, "line %d", i);
    pawl_run_progress(run, 150, "nearly");
    pawl_error err;
    pawl_run_result(run, pawl_str("{\"sum\":3}"), NULL, &err);
    pawl_run_result_ref(run, "Invoice:42", &err);
    free(line);
    return pawl_ok();
}

static void log_progress_result(void **state)
{
    world *w = *state;
    world_start(w, &(pawl_handler){.type = "t", .run = write_much}, 1, (pawl_options){0});
    pawl_id id = send(w, (pawl_task){.type = "t"});
    await(w, id, PAWL_SUCCEEDED);
    pawl_trail *trail;
    ok(pawl_get_trail(w->p, id, &trail, &w->err));
    assert_int_equal(trail->lines_count, 1001);
    assert_string_equal(trail->lines[0].text, "one two ");
    assert_int_equal(trail->lines[0].level, PAWL_DEBUG);
    assert_int_equal(strlen(trail->lines[1].text), 4096);
    assert_int_equal(trail->lines[1].level, PAWL_ERROR);
    assert_string_equal(trail->lines[2].text, "line 0");
    assert_non_null(strstr(trail->lines[1000].text, "ends here"));
    assert_true(trail->audit_count >= 2);
    pawl_trail_free(trail);
    pawl_info *i = get(w, id);
    assert_int_equal(i->attempts[0].log_lines, 1001);
    assert_int_equal(i->progress, 100);
    assert_string_equal(i->progress_text, "nearly");
    assert_int_equal(i->result.len, 9);
    assert_memory_equal(i->result.data, "{\"sum\":3}", 9);
    assert_string_equal(i->result_ref, "Invoice:42");
    pawl_info_free(i);
}

static pawl_outcome bad_results(pawl_run *run, void *ctx)
{
    world *w = ctx;
    pawl_error err;
    static char large[70000];
    memset(large, '1', sizeof large);
    note(w, "%s", pawl_status_name(pawl_run_result(run, pawl_str("{"), NULL, &err)));
    note(w, "%s", pawl_status_name(pawl_run_result(run, (pawl_bytes){large, sizeof large}, NULL, &err)));
    note(w, "%s", pawl_status_name(pawl_run_result(run, pawl_str("{"), "text/plain", &err)));
    note(w, "%s", pawl_status_name(pawl_run_result_ref(run, "a\nb", &err)));
    memset(large, 0xc3, 9000); /* not UTF-8, and longer than an error text may be */
    large[9000] = '\0';
    return pawl_fail(run, "%s", large);
}

static void results_are_checked(void **state)
{
    world *w = *state;
    world_start(w, &(pawl_handler){.type = "t", .run = bad_results, .ctx = w}, 1, (pawl_options){0});
    pawl_id id = send(w, (pawl_task){.type = "t"});
    await(w, id, PAWL_FAILED);
    assert_string_equal(w->journal, "invalid too_large ok invalid");
    pawl_info *i = get(w, id);
    assert_in_range(strlen(i->error), 1000, 8192);
    assert_int_equal(i->result.len, 0);
    pawl_info_free(i);
}

static pawl_outcome report_progress(pawl_run *run, void *ctx)
{
    watch *h = ctx;
    for (int i = 0; i <= 50; i++) {
        char text[32];
        snprintf(text, sizeof text, "step %d", i);
        pawl_run_progress(run, i, text);
    }
    gate_pass(&h->entered);
    return pawl_ok();
}

static void progress_while_running(void **state)
{
    world *w = *state;
    watch h = WATCH(0);
    w->p = world_open(w, (pawl_options){0});
    ok(pawl_handle(w->p, &(pawl_handler){.type = "t", .run = report_progress, .ctx = &h}, &w->err));
    pawl_subscription *s;
    ok(pawl_subscribe(w->p, 0, &s, &w->err));
    ok(pawl_start(w->p, &w->err));
    pawl_id id = send(w, (pawl_task){.type = "t"});
    pawl_event event = {0};
    int reported = 0;
    while (!(event.kind == PAWL_EVENT_PROGRESS && event.value == 50)) { /* the last one comes, though not every one */
        assert_true(pawl_next_event(s, PATIENCE, &event));
        reported += event.kind == PAWL_EVENT_PROGRESS;
    }
    assert_string_equal(event.text, "step 50");
    assert_in_range(reported, 1, 10);
    gate_open(&h.entered);
    await(w, id, PAWL_SUCCEEDED);
    pawl_info *i = get(w, id);
    assert_int_equal(i->progress, 50);
    pawl_info_free(i);
    pawl_unsubscribe(s);
}

/* ---- types --------------------------------------------------------------------------------------------------------------- */

static pawl_outcome note_type(pawl_run *run, void *ctx)
{
    note(ctx, "%s", pawl_run_type(run));
    return pawl_ok();
}

static void wildcard_handler(void **state)
{
    world *w = *state;
    pawl_handler handlers[] = {{.type = "*", .run = note_type, .ctx = w}, {.type = "own", .run = succeed}};
    world_start(w, handlers, 2, (pawl_options){0});
    await(w, send(w, (pawl_task){.type = "own"}), PAWL_SUCCEEDED);
    await(w, send(w, (pawl_task){.type = "any"}), PAWL_SUCCEEDED);
    assert_string_equal(w->journal, "any");
}

static void unknown_type_is_left_alone(void **state)
{
    world *w = *state;
    world_start(w, &(pawl_handler){.type = "known", .run = succeed}, 1, (pawl_options){0});
    pawl_id unknown = send(w, (pawl_task){.type = "unknown"});
    await(w, send(w, (pawl_task){.type = "known"}), PAWL_SUCCEEDED);
    pawl_info *i = get(w, unknown);
    assert_int_equal(i->state, PAWL_PENDING);
    assert_int_equal(i->fence, 0);
    pawl_info_free(i);
    pawl_why_answer why;
    ok(pawl_why(w->p, unknown, &why, &w->err));
    assert_string_equal(why.code, "unknown_type");
    assert_non_null(strstr(why.text, "\"unknown\""));
}

static pawl_outcome read_everything(pawl_run *run, void *ctx)
{
    note(ctx, "%s %s %s %s %s %s %d/%d %d", pawl_run_type(run), pawl_run_queue(run), pawl_run_key(run), pawl_run_tenant(run),
         pawl_run_content_type(run), pawl_run_headers(run), pawl_run_attempt(run), pawl_run_max_attempts(run),
         pawl_run_fence(run) > 0);
    bool deadline = pawl_run_deadline_us(run) > pawl_now(pawl_run_engine(run));
    note(ctx, "%d %d %zu", deadline, pawl_run_stopping(run), pawl_run_payload(run).len);
    note(ctx, "%d", pawl_run_payload(run).data[pawl_run_payload(run).len]);
    return pawl_ok();
}

static void run_knows_its_task(void **state)
{
    world *w = *state;
    world_start(w, &(pawl_handler){.type = "t", .run = read_everything, .ctx = w, .queue = "q"}, 1, (pawl_options){0});
    await(w,
          send(w, (pawl_task){.type = "t",
                              .key = "k",
                              .tenant = "n",
                              .headers = "h",
                              .timeout_us = PAWL_HOUR,
                              .max_attempts = 6,
                              .payload = pawl_str("null")}),
          PAWL_SUCCEEDED);
    assert_string_equal(w->journal, "t q k n application/json h 1/6 1 1 0 4 0");
    assert_int_equal(pawl_run_id(NULL), 0);
    assert_null(pawl_run_engine(NULL));
}

/* ---- a process that was stopped for long ------------------------------------------------------------------------------- */

typedef struct sleeper { /* the engine's clock: the worker reads it once, and a minute has gone by */
    world *w;
    pawl_clock real;
    atomic_bool armed;
    atomic_llong ahead_us;
} sleeper;

static _Thread_local bool in_worker;

static int64_t slept_wall(void *ctx) { return ((sleeper *)ctx)->real.wall_us(NULL); }

static int64_t slept_boot(void *ctx)
{
    sleeper *s = ctx;
    if (in_worker && atomic_exchange(&s->armed, false)) atomic_store(&s->ahead_us, PAWL_MINUTE);
    return s->real.boot_us(NULL) + atomic_load(&s->ahead_us);
}

static pawl_outcome notes_the_lease(pawl_run *run, void *ctx)
{
    sleeper *s = ctx;
    (void)run;
    in_worker = true;
    pthread_mutex_lock(&s->w->lock);
    bool told = strstr(s->w->log, "lease ran out");
    pthread_mutex_unlock(&s->w->lock);
    note(s->w, "%s", atomic_load(&s->ahead_us) == 0 ? "before" : told ? "after" : "late");
    return pawl_ok();
}

/* Between the moment a worker is given a run and the one it begins, the process may be stopped until long after its lease. */
static void nothing_begins_past_the_lease(void **state)
{
    world *w = *state;
    sleeper s = {.w = w, .real = clock_system()};
    pawl_handler h = {.type = "t", .run = notes_the_lease, .ctx = &s};
    pawl_health health;
    runtime *rt;
    w->p = world_open(w, (pawl_options){.workers = 1, .lease_us = 30 * PAWL_SECOND});
    ok(handle_enter(w->p, &rt, &w->err));
    loop_enter(rt, -1);
    rt->clock = (pawl_clock){.wall_us = slept_wall, .boot_us = slept_boot, .boot_id = s.real.boot_id, .ctx = &s};
    loop_leave(rt);
    handle_leave(w->p);
    ok(pawl_handle(w->p, &h, &w->err));
    ok(pawl_start(w->p, &w->err));
    await(w, send(w, (pawl_task){.type = "t"}), PAWL_SUCCEEDED);
    ok(pawl_get_health(w->p, &health, &w->err)); /* nobody drives any more: the worker sleeps */
    atomic_store(&s.armed, true);
    await(w, send(w, (pawl_task){.type = "t"}), PAWL_SUCCEEDED);
    world_close(w); /* first: it has the clock */
    assert_string_equal(w->journal, "before after");
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        TEST(retries_with_hooks_in_order),
        TEST(attempts_exhausted),
        TEST(fail_never_retries),
        TEST(custom_retry_function),
        TEST(retry_by_code),
        TEST(snooze_costs_no_attempt),
        TEST(nonsense_outcome_fails),
        TEST(timeout),
        TEST(cancel_while_running),
        TEST(deferred_completion),
        TEST(spawns_with_success_only),
        TEST(log_progress_result),
        TEST(results_are_checked),
        TEST(progress_while_running),
        TEST(wildcard_handler),
        TEST(unknown_type_is_left_alone),
        TEST(run_knows_its_task),
        TEST(nothing_begins_past_the_lease),
    };
    return RUN_TESTS("runs", tests);
}
