/* Rate limits as a program sees them: inline mode, so that every start has an exact instant. */
#include "harness.h"
#include <time.h>

#define START (INT64_C(1767225600) * PAWL_SECOND) /* 2026-01-01 */
#define S PAWL_SECOND

static void open_inline(world *w, const pawl_handler *handlers, size_t count)
{
    world_start(w, handlers, count, (pawl_options){.inline_mode = true, .inline_start_us = START});
}

static int64_t advance(world *w, int64_t us)
{
    int64_t count = -1;
    ok(pawl_advance(w->p, us, &count, &w->err));
    return count;
}

static int64_t run_due(world *w)
{
    int64_t count = -1;
    ok(pawl_run_due(w->p, &count, &w->err));
    return count;
}

/* "<payload>@<second>" */
static pawl_outcome note_start(pawl_run *run, void *ctx)
{
    pawl_bytes payload = pawl_run_payload(run);
    note(ctx, "%.*s@%lld", (int)payload.len, payload.len ? payload.data : "",
         (long long)((pawl_now(pawl_run_engine(run)) - START) / S));
    return pawl_ok();
}

static bool note_failed(pawl_run *run, void *ctx, const char *error)
{
    pawl_bytes key = pawl_run_rate_key(run);
    assert_true(key.len == 1 && key.data[0] == 'a' && pawl_run_slot_us(run) >= pawl_now(pawl_run_engine(run)));
    pawl_rate rate = pawl_run_rate(run);
    char limit[64];
    snprintf(limit, sizeof limit, ", its limit is %d per ", rate.permits);
    assert_true(strstr(error, "rate key") && (rate.permits == 0 || strstr(error, limit)));
    note(ctx, "failed:%d/%lld", rate.permits, (long long)(rate.period_us / S));
    return true;
}

static pawl_handler limited(world *w, pawl_rate rate)
{
    return (pawl_handler){.type = "t", .run = note_start, .on_failed = note_failed, .ctx = w, .rate = rate};
}

static pawl_id send_keyed(world *w, const char *rate_key, const char *payload)
{
    return send(w, (pawl_task){.type = "t", .rate_key = pawl_str(rate_key), .payload = pawl_str(payload)});
}

static void reset(world *w) { w->journal[0] = '\0'; }

/* ---- the pace ------------------------------------------------------------------------------------------------------------ */

static void a_burst_then_the_pace(void **state)
{
    world *w = *state;
    pawl_handler h = limited(w, (pawl_rate){.permits = 3, .period_us = 12 * S});
    open_inline(w, &h, 1);
    for (int i = 0; i < 6; i++) send_keyed(w, "a", "1");
    send_keyed(w, "b", "2");
    send_keyed(w, NULL, "3");
    send_keyed(w, "", "4");
    assert_int_equal(run_due(w), 6);
    assert_string_equal(w->journal, "1@0 1@0 1@0 2@0 3@0 4@0");
    char *told = strstr(w->log, "has no rate key: it is not limited");
    assert_true(told && !strstr(told + 1, "has no rate key"));
    reset(w);
    assert_int_equal(advance(w, PAWL_MINUTE), 3);
    assert_string_equal(w->journal, "1@4 1@8 1@12");
}

static void evenly_spaced(void **state)
{
    world *w = *state;
    pawl_handler h = limited(w, (pawl_rate){.permits = 2, .period_us = 20 * S, .burst = 1});
    open_inline(w, &h, 1);
    for (int i = 0; i < 3; i++) send_keyed(w, "a", "1");
    run_due(w);
    advance(w, PAWL_MINUTE);
    assert_string_equal(w->journal, "1@0 1@10 1@20");
}

static void a_pause_ends_in_no_burst(void **state)
{
    world *w = *state;
    pawl_handler h = limited(w, (pawl_rate){.permits = 1, .period_us = 10 * S, .horizon_us = -1});
    open_inline(w, &h, 1);
    for (int i = 0; i < 5; i++) send_keyed(w, "a", "1");
    run_due(w);
    ok(pawl_pause(w->p, "default", NULL, &w->err));
    assert_int_equal(advance(w, PAWL_HOUR), 0);
    reset(w);
    ok(pawl_resume(w->p, "default", NULL, &w->err));
    run_due(w);
    advance(w, PAWL_MINUTE);
    assert_string_equal(w->journal, "1@3600 1@3610 1@3620 1@3630");
}

static pawl_outcome fail_once(pawl_run *run, void *ctx)
{
    note_start(run, ctx);
    return pawl_run_attempt(run) == 1 ? pawl_retry_in(run, 0, "again") : pawl_ok();
}

static bool note_retry(pawl_run *run, void *ctx, int attempt, const char *error, int64_t delay_us)
{
    (void)run, (void)error;
    note(ctx, "retry:%d:%lld", attempt, (long long)delay_us);
    return true;
}

static void retries_take_budget(void **state)
{
    world *w = *state;
    pawl_handler h = limited(w, (pawl_rate){.permits = 1, .period_us = 10 * S});
    h.run = fail_once;
    h.on_retry = note_retry;
    open_inline(w, &h, 1);
    pawl_id id = send_keyed(w, "a", "1");
    run_due(w);
    advance(w, PAWL_MINUTE);
    assert_string_equal(w->journal, "1@0 retry:1:0 1@10");
    pawl_info *i = get(w, id);
    assert_int_equal(i->attempt, 2);
    pawl_info_free(i);
}

static void retries_can_be_free(void **state)
{
    world *w = *state;
    pawl_handler h = limited(w, (pawl_rate){.permits = 1, .period_us = 10 * S, .retries_free = true});
    h.run = fail_once;
    open_inline(w, &h, 1);
    send_keyed(w, "a", "1");
    run_due(w);
    assert_string_equal(w->journal, "1@0 1@0");
}

static pawl_outcome note_deadline(pawl_run *run, void *ctx)
{
    note(ctx, "%d:%lld", pawl_run_attempt(run),
         (long long)((pawl_run_deadline_us(run) - pawl_now(pawl_run_engine(run))) / PAWL_MILLISECOND));
    return pawl_ok();
}

/* Neither for a slot that is near nor for one that is far: its timeout begins with its start, and it is its first attempt. */
static void waiting_is_neither_timed_nor_tried(void **state)
{
    world *w = *state;
    pawl_handler handlers[] = {{.type = "t", .ctx = w, .run = note_deadline, .timeout_us = 100 * PAWL_MILLISECOND},
                               {.type = "u", .ctx = w, .run = note_deadline, .timeout_us = 100 * PAWL_MILLISECOND}};
    handlers[0].rate = (pawl_rate){.permits = 1, .period_us = S / 2};
    handlers[1].rate = (pawl_rate){.permits = 1, .period_us = 10 * S};
    open_inline(w, handlers, 2);
    for (int i = 0; i < 4; i++) send(w, (pawl_task){.type = i % 2 ? "u" : "t", .rate_key = pawl_str("a"), .delay_us = S});
    assert_int_equal(advance(w, PAWL_MINUTE), 4);
    assert_string_equal(w->journal, "1:100 1:100 1:100 1:100");
}

/* ---- refusals ------------------------------------------------------------------------------------------------------------ */

static void check_refused(world *w, pawl_id id)
{
    pawl_info *i = get(w, id);
    assert_int_equal(i->state, PAWL_FAILED);
    assert_string_equal(i->reason, "rate_limited");
    assert_non_null(strstr(i->error, "rate key 'a' of type 't'"));
    assert_int_equal(i->attempts_count, 0);
    pawl_info_free(i);
}

static void beyond_the_horizon(void **state)
{
    world *w = *state;
    pawl_handler h = limited(w, (pawl_rate){.permits = 1, .period_us = 40 * PAWL_MINUTE});
    open_inline(w, &h, 1);
    for (int i = 0; i < 2; i++) send_keyed(w, "a", "1");
    pawl_id id = send_keyed(w, "a", "1");
    run_due(w);
    check_refused(w, id);
    assert_string_equal(w->journal, "1@0 failed:1/2400");
    reset(w);
    advance(w, PAWL_HOUR);
    assert_string_equal(w->journal, "1@2400");
}

/* A program that has another limit, or none, is told of the one in the store. */
static void refused_by_the_limit_of_the_key(void **state)
{
    world *w = *state;
    pawl_handler h = limited(w, (pawl_rate){.permits = 9, .period_us = S});
    open_inline(w, &h, 1);
    ok(pawl_set_limit(w->p, "t", pawl_str("a"), &(pawl_rate){.permits = 1, .period_us = 7 * S, .discard = true}, NULL, &w->err));
    send_keyed(w, "a", "1");
    pawl_id id = send_keyed(w, "a", "1");
    run_due(w);
    check_refused(w, id);
    assert_string_equal(w->journal, "1@0 failed:1/7");
}

static void what_is_not_there_is_not_found(void **state)
{
    world *w = *state;
    open_inline(w, &(pawl_handler){.type = "u", .run = succeed}, 1);
    pawl_bytes none = {0}, key = pawl_str("a");
    refused(pawl_set_limit(w->p, "t", none, &(pawl_rate){0}, NULL, &w->err), PAWL_NOT_FOUND, "type 't' has no rate limit: there");
    refused(pawl_resume_limit(w->p, "t", none, NULL, &w->err), PAWL_NOT_FOUND, "nothing to resume");
    ok(pawl_set_limit(w->p, "t", none, &(pawl_rate){.permits = 1, .period_us = S}, NULL, &w->err));
    ok(pawl_resume_limit(w->p, "t", none, NULL, &w->err));
    refused(pawl_set_limit(w->p, "t", key, &(pawl_rate){0}, NULL, &w->err), PAWL_NOT_FOUND, "limit of its own");
    refused(pawl_resume_limit(w->p, "t", key, NULL, &w->err), PAWL_NOT_FOUND, "this rate key of type 't'");
    ok(pawl_set_limit(w->p, "t", none, &(pawl_rate){0}, NULL, &w->err));
    refused(pawl_set_limit(w->p, "t", none, &(pawl_rate){0}, NULL, &w->err), PAWL_NOT_FOUND, "nothing to take away");
}

static void discarded(void **state)
{
    world *w = *state;
    pawl_handler h = limited(w, (pawl_rate){.permits = 1, .period_us = S, .discard = true});
    open_inline(w, &h, 1);
    send_keyed(w, "a", "1");
    pawl_id id = send_keyed(w, "a", "1");
    run_due(w);
    check_refused(w, id);
    advance(w, S);
    send_keyed(w, "a", "2");
    run_due(w);
    assert_string_equal(w->journal, "1@0 failed:1/1 2@1");
}

/* ---- while they wait ----------------------------------------------------------------------------------------------------- */

static void cancelled_while_it_waits(void **state)
{
    world *w = *state;
    pawl_handler h = limited(w, (pawl_rate){.permits = 1, .period_us = 10 * S});
    open_inline(w, &h, 1);
    send_keyed(w, "a", "1");
    pawl_id id = send_keyed(w, "a", "2");
    run_due(w);
    pawl_why_answer why;
    ok(pawl_why(w->p, id, &why, &w->err));
    assert_string_equal(why.code, "throttled");
    assert_int_equal(why.until_us, START + 10 * S);
    ok(pawl_cancel(w->p, id, NULL, &w->err));
    send_keyed(w, "a", "3");
    advance(w, PAWL_MINUTE);
    assert_string_equal(w->journal, "1@0 3@10");
}

static void check_why(world *w, pawl_id id, const char *code, const char *text)
{
    pawl_why_answer why;
    ok(pawl_why(w->p, id, &why, &w->err));
    assert_string_equal(why.code, code);
    if (!strstr(why.text, text)) fail_msg("\"%s\" does not say \"%s\"", why.text, text);
}

static void check_state(world *w, const char *state, pawl_id id)
{
    pawl_page *page;
    ok(pawl_list(w->p, &(pawl_filter){.state = state}, &page, &w->err));
    assert_int_equal(page->count, 1);
    assert_true(page->tasks[0]->id == id);
    assert_string_equal(page->tasks[0]->display, state);
    pawl_page_free(page);
    pawl_info *info = get(w, id);
    assert_string_equal(info->display, state);
    pawl_info_free(info);
}

/* What waits for a slot is told from what waits for its time, also under the same key. */
static void waiting_for_a_slot_or_a_time(void **state)
{
    world *w = *state;
    pawl_handler h = limited(w, (pawl_rate){.permits = 1, .period_us = 10 * S});
    open_inline(w, &h, 1);
    send_keyed(w, "a", "1");
    pawl_id throttled = send_keyed(w, "a", "2");
    pawl_id later = send(w, (pawl_task){.type = "t", .rate_key = pawl_str("a"), .delay_us = PAWL_MINUTE});
    run_due(w);
    check_state(w, "throttled", throttled);
    check_state(w, "scheduled", later);
    check_why(w, throttled, "throttled", "(1 per 10s)");
    check_why(w, later, "scheduled", "in 1m");
    ok(pawl_pause_limit(w->p, "t", pawl_str("a"), NULL, &w->err));
    check_why(w, throttled, "throttled", "pawl limits resume t --key \"a\"");
    check_why(w, later, "scheduled", "in 1m");
    ok(pawl_resume_limit(w->p, "t", pawl_str("a"), NULL, &w->err));
    ok(pawl_pause_limit(w->p, "t", (pawl_bytes){0}, NULL, &w->err));
    check_why(w, throttled, "throttled", "pawl limits resume t)");
}

/* A pause is a person's: neither another rate nor a program that starts ends it, and it takes no rate away. */
static void a_pause_stays_until_it_is_resumed(void **state)
{
    world *w = *state;
    char name[300];
    memset(name, 'k', sizeof name);
    pawl_bytes key = {name, sizeof name};
    pawl_limits *l;
    pawl_handler h = limited(w, (pawl_rate){.permits = 1, .period_us = S});
    w->p = world_open(w, (pawl_options){.inline_mode = true, .inline_start_us = START});
    ok(pawl_pause_limit(w->p, "t", (pawl_bytes){0}, "ann", &w->err));
    ok(pawl_handle(w->p, &h, &w->err));
    ok(pawl_start(w->p, &w->err));
    run_due(w);
    ok(pawl_set_limit(w->p, "t", key, &(pawl_rate){.permits = 7, .period_us = S}, "ann", &w->err));
    ok(pawl_pause_limit(w->p, "t", key, "ann", &w->err));
    ok(pawl_set_limit(w->p, "t", key, &(pawl_rate){.permits = 9, .period_us = S}, "ann", &w->err));
    for (int resumed = 0; resumed < 2; resumed++) {
        ok(pawl_get_limits(w->p, NULL, &l, &w->err));
        assert_true(l->count == 2 && l->limits[0].rate.permits == 1 && l->limits[1].rate.permits == 9);
        assert_true(l->limits[0].paused == !resumed && l->limits[1].paused == !resumed);
        pawl_limits_free(l);
        ok(pawl_resume_limit(w->p, "t", (pawl_bytes){0}, "ann", &w->err));
        ok(pawl_resume_limit(w->p, "t", key, "ann", &w->err));
    }
    ok(pawl_get_limits(w->p, &(pawl_limit_filter){.key = key}, &l, &w->err));
    assert_int_equal(l->count, 1);
    pawl_limits_free(l);
}

static void the_newest_payload_runs_once(void **state)
{
    world *w = *state;
    pawl_handler h = limited(w, (pawl_rate){.permits = 1, .period_us = 10 * S});
    open_inline(w, &h, 1);
    send_keyed(w, "a", "1");
    for (int i = 2; i < 5; i++) {
        char payload[2] = {(char)('0' + i)};
        send(w, (pawl_task){.type = "t", .key = "k", .rate_key = pawl_str("a"), .payload = pawl_str(payload)});
    }
    run_due(w);
    advance(w, PAWL_MINUTE);
    assert_string_equal(w->journal, "1@0 4@10");
}

static void a_due_flood_is_laid_out_once(void **state)
{
    world *w = *state;
    pawl_handler h = limited(w, (pawl_rate){.permits = 1, .period_us = 10 * S, .horizon_us = -1});
    open_inline(w, &h, 1);
    for (int i = 0; i < 300; i++)
        send(w, (pawl_task){.type = "t", .rate_key = pawl_str("a"), .payload = pawl_str("1"), .delay_us = S});
    advance(w, 2 * S);
    send_keyed(w, "b", "2");
    assert_int_equal(run_due(w), 1);
    assert_string_equal(w->journal, "1@1 2@2");
    pawl_limits *l;
    ok(pawl_get_limits(w->p, &(pawl_limit_filter){.key = pawl_str("a")}, &l, &w->err));
    assert_true(l->count == 1 && l->limits[0].waiting >= 298 && l->deferrals >= 299 && l->rejected == 0);
    pawl_limits_free(l);
    reset(w);
    assert_int_equal(advance(w, 30 * S), 3);
    assert_string_equal(w->journal, "1@11 1@21 1@31");
}

/* What the events say of a key, each since the one before, is what was counted: also who was moved with others. */
static void events_count_every_deferral(void **state)
{
    world *w = *state;
    pawl_subscription *s;
    pawl_limits *l;
    pawl_handler h = limited(w, (pawl_rate){.permits = 1, .period_us = 10 * S, .horizon_us = -1});
    open_inline(w, &h, 1);
    ok(pawl_subscribe(w->p, 4096, &s, &w->err));
    for (int i = 0; i < 300; i++)
        send(w, (pawl_task){.type = "t", .rate_key = pawl_str("a"), .payload = pawl_str("1"), .delay_us = S});
    advance(w, PAWL_MINUTE);
    send(w, (pawl_task){.type = "t", .rate_key = pawl_str("a"), .payload = pawl_str("1"), .delay_us = S});
    advance(w, 2 * S);
    ok(pawl_get_limits(w->p, NULL, &l, &w->err));
    int64_t counted = l->deferrals, told = 0;
    pawl_limits_free(l);
    pawl_event event;
    int events = 0;
    while (pawl_next_event(s, 0, &event)) {
        if (event.kind != PAWL_EVENT_DEFERRED) continue;
        assert_memory_equal(event.text, "key=a count=", 12);
        told += strtoll(event.text + 12, NULL, 10);
        events++;
    }
    pawl_unsubscribe(s);
    assert_int_equal(events, 2);
    assert_int_equal(told, counted);
    assert_true(counted >= 300);
}

static void the_queue_makes_no_difference(void **state)
{
    world *w = *state;
    pawl_handler h = limited(w, (pawl_rate){.permits = 1, .period_us = 10 * S});
    w->p = world_open(w, (pawl_options){.inline_mode = true, .inline_start_us = START});
    ok(pawl_queue(w->p, &(pawl_queue_options){.name = "other", .workers = 1}, &w->err));
    ok(pawl_handle(w->p, &h, &w->err));
    ok(pawl_start(w->p, &w->err));
    send_keyed(w, "a", "1");
    send(w, (pawl_task){.type = "t", .queue = "other", .rate_key = pawl_str("a"), .payload = pawl_str("2")});
    run_due(w);
    advance(w, PAWL_MINUTE);
    assert_string_equal(w->journal, "1@0 2@10");
}

/* Beyond the keys that are counted, new ones start unlimited: counted, told once, and no task is lost. */
static void too_many_local_keys(void **state)
{
    world *w = *state;
    pawl_limits *l;
    pawl_handler h = limited(w, (pawl_rate){.permits = 1, .period_us = PAWL_HOUR});
    h.rate_scope = PAWL_RATE_LOCAL;
    world_start(w, &h, 1, (pawl_options){.inline_mode = true, .inline_start_us = START, .rate_keys_max = 1});
    send_keyed(w, "a", "1");
    for (int i = 0; i < 3; i++) send_keyed(w, "b", "2");
    run_due(w);
    assert_string_equal(w->journal, "1@0 2@0 2@0 2@0");
    assert_non_null(strstr(w->log, "too many keys are tracked"));
    ok(pawl_get_limits(w->p, NULL, &l, &w->err));
    assert_int_equal(l->opened, 3);
    pawl_limits_free(l);
}

/* Two programs with different limits for a type: the one that started last has its own in force, and both say so. */
static void the_newest_program_wins(void **state)
{
    world *w = *state;
    if (!w->sqlite) snprintf(w->url, sizeof w->url, "memory:newest");
    pawl_handler h = limited(w, (pawl_rate){.permits = 1, .period_us = PAWL_HOUR});
    open_inline(w, &h, 1);
    run_due(w);
    pawl *other = world_open(w, (pawl_options){.inline_mode = true, .inline_start_us = START});
    h.rate.permits = 30;
    ok(pawl_handle(other, &h, &w->err));
    ok(pawl_start(other, &w->err));
    int64_t count;
    ok(pawl_run_due(other, &count, &w->err));
    assert_non_null(strstr(w->log, "the rate limit of type 't' was another one"));
    w->log[0] = '\0';
    send_keyed(w, "a", "1");
    send_keyed(w, "a", "2");
    run_due(w);
    send(w,
         (pawl_task){.type = "t", .rate_key = pawl_str("b"), .payload = pawl_str("3"), .delay_us = S}); /* claimed, with news */
    advance(w, PAWL_MINUTE);
    assert_string_equal(w->journal, "1@0 2@0 3@1");
    assert_non_null(strstr(w->log, "limits were changed"));
    ok(pawl_close(other));
}

/* ---- what others see ------------------------------------------------------------------------------------------------------- */

static void parked_seen(world *w, pawl *other, int64_t parked, int64_t slot_us)
{
    pawl_limits *l;
    pawl_stats *stats;
    ok(pawl_get_limits(other, &(pawl_limit_filter){.key = pawl_str("a"), .waiting = parked > 0}, &l, &w->err));
    assert_int_equal(l->count, 1);
    assert_int_equal(l->limits[0].parked, parked);
    assert_int_equal(l->limits[0].running, parked > 0); /* one had just started when it was told */
    assert_int_equal(l->limits[0].parked_slot_us, slot_us);
    assert_true(l->all.parked == parked && l->parked == 0 && l->all.deferrals == 2);
    pawl_limits_free(l);
    ok(pawl_get_stats(other, 0, &stats, &w->err));
    assert_int_equal(stats->throttled, parked);
    pawl_stats_free(stats);
}

static size_t count_state(world *w, pawl *p, const char *state, const char *display)
{
    pawl_page *page;
    size_t count = 0;
    ok(pawl_list(p, &(pawl_filter){.state = state}, &page, &w->err));
    for (size_t i = 0; i < page->count; i++) count += strcmp(page->tasks[i]->display, display) == 0;
    pawl_page_free(page);
    return count;
}

/* The last `parked` of the three wait at a node; the rest has run. */
static void check_parked(world *w, pawl *p, const pawl_id ids[3], int parked, int64_t slot_us)
{
    for (int i = 0; i < 3; i++) {
        pawl_info *info;
        bool waits = i >= 3 - parked;
        ok(pawl_get(p, ids[i], &info, &w->err));
        assert_string_equal(info->display, waits ? "throttled" : "succeeded");
        assert_true(!waits ||
                    (info->state == PAWL_LEASED && info->started_us == 0 && info->run_at_us == slot_us + (i - 1) * S / 2));
        pawl_info_free(info);
    }
    assert_int_equal(count_state(w, p, NULL, "throttled"), parked);
    assert_int_equal(count_state(w, p, "leased", "throttled"), parked);
    assert_int_equal(count_state(w, p, "running", "throttled"), 0);
}

/* Tasks that wait at one node for near slots are seen from another program on the store: counts, slots, and why. */
static void what_a_node_holds_is_seen_by_others(void **state)
{
    world *w = *state;
    pawl_handler h = limited(w, (pawl_rate){.permits = 2, .period_us = S, .burst = 1});
    pawl_why_answer why;
    pawl_id ids[3];
    if (!w->sqlite) snprintf(w->url, sizeof w->url, "memory:told");
    open_inline(w, &h, 1);
    pawl *other = world_open(w, (pawl_options){.inline_mode = true, .inline_start_us = START + S});
    for (int i = 0; i < 3; i++)
        ids[i] = send(w, (pawl_task){.type = "t", .rate_key = pawl_str("a"), .payload = pawl_str("1"), .delay_us = S});
    assert_int_equal(advance(w, S), 1);
    parked_seen(w, other, 2, START + S + S / 2);
    ok(pawl_why(other, ids[2], &why, &w->err));
    assert_string_equal(why.code, "throttled");
    assert_true(strstr(why.text, "rate key \"a\"") && strstr(why.text, "in 1") && why.until_us == START + 2 * S);
    ok(pawl_why(w->p, ids[1], &why, &w->err));
    assert_true(strstr(why.text, "rate key \"a\"") && why.until_us == START + S + S / 2);
    check_parked(w, w->p, ids, 2, START + S + S / 2);
    check_parked(w, other, ids, 2, START + S + S / 2);
    assert_int_equal(advance(w, 5 * S), 2);
    check_parked(w, w->p, ids, 0, 0);
    check_parked(w, other, ids, 0, 0);
    parked_seen(w, other, 0, 0);
    ok(pawl_close(other));
}

static int count_deferred(world *w, pawl_subscription *s, char *last, size_t size)
{
    pawl_event e;
    int count = 0;
    while (pawl_next_event(s, 0, &e)) {
        if (e.kind != PAWL_EVENT_DEFERRED) continue;
        assert_true(e.value > pawl_now(w->p) - PAWL_HOUR);
        snprintf(last, size, "%s", e.text);
        count++;
    }
    return count;
}

/* The first of a key, then one for each half minute that says how many there were. */
static void deferrals_are_told_together(void **state)
{
    world *w = *state;
    char text[128];
    pawl_handler h = limited(w, (pawl_rate){.permits = 1, .period_us = S, .burst = 1});
    open_inline(w, &h, 1);
    pawl_subscription *s;
    pawl_limits *l;
    ok(pawl_subscribe(w->p, 0, &s, &w->err));
    for (int i = 0; i < 3; i++) send_keyed(w, "b", "2"); /* their slots come with their dispatch */
    assert_int_equal(count_deferred(w, s, text, sizeof text), 1);
    assert_string_equal(text, "key=b count=1");
    ok(pawl_get_limits(w->p, NULL, &l, &w->err));
    assert_int_equal(l->deferrals, 2);
    pawl_limits_free(l);
    for (int i = 0; i < 20; i++)
        send(w, (pawl_task){.type = "t", .rate_key = pawl_str("a"), .payload = pawl_str("1"), .delay_us = i < 10 ? S : 40 * S});
    advance(w, 20 * S);
    assert_int_equal(count_deferred(w, s, text, sizeof text), 1);
    assert_memory_equal(text, "key=a count=", 12);
    advance(w, 30 * S);
    assert_int_equal(count_deferred(w, s, text, sizeof text), 1);
    assert_true(strncmp(text, "key=a count=", 12) == 0 && atoi(text + 12) > 1);
    pawl_unsubscribe(s);
}

/* ---- changing ------------------------------------------------------------------------------------------------------------ */

static void changed_while_running(void **state)
{
    world *w = *state;
    pawl_handler h = limited(w, (pawl_rate){.permits = 1, .period_us = PAWL_MINUTE});
    open_inline(w, &h, 1);
    for (int i = 0; i < 4; i++) send_keyed(w, "a", "1");
    run_due(w);
    ok(pawl_set_limit(w->p, "t", (pawl_bytes){0}, &(pawl_rate){.permits = 1, .period_us = 5 * S}, "ann", &w->err));
    advance(w, 20 * S);
    assert_string_equal(w->journal, "1@0 1@5 1@10 1@15");
    reset(w);
    ok(pawl_set_limit(w->p, "t", pawl_str("vip"), &(pawl_rate){.permits = 3, .period_us = S}, "ann", &w->err));
    for (int i = 0; i < 3; i++) send_keyed(w, "vip", "7");
    run_due(w);
    assert_string_equal(w->journal, "7@20 7@20 7@20");
}

static void a_key_is_paused(void **state)
{
    world *w = *state;
    pawl_handler h = limited(w, (pawl_rate){.permits = 9, .period_us = S});
    open_inline(w, &h, 1);
    ok(pawl_pause_limit(w->p, "t", pawl_str("a"), "ann", &w->err));
    pawl_id id = send_keyed(w, "a", "1");
    send_keyed(w, "b", "2");
    advance(w, PAWL_HOUR);
    assert_string_equal(w->journal, "2@0");
    pawl_why_answer why;
    ok(pawl_why(w->p, id, &why, &w->err));
    assert_string_equal(why.code, "throttled");
    assert_non_null(strstr(why.text, "paused"));
    ok(pawl_resume_limit(w->p, "t", pawl_str("a"), "ann", &w->err));
    run_due(w);
    assert_string_equal(w->journal, "2@0 1@3600");
}

/* ---- keys, scopes, limiters ---------------------------------------------------------------------------------------------- */

static bool first_byte(void *ctx, pawl_bytes payload, const char *tenant, pawl_bytes *key)
{
    (void)ctx, (void)tenant;
    if (payload.len == 0) return false;
    *key = (pawl_bytes){payload.data, 1};
    return true;
}

static void a_handler_tells_the_key(void **state)
{
    world *w = *state;
    pawl_handler h = limited(w, (pawl_rate){.permits = 1, .period_us = 10 * S});
    h.rate_key = first_byte;
    open_inline(w, &h, 1);
    const char *payloads[] = {"11", "12", "21", NULL, NULL};
    for (int i = 0; i < 5; i++) send(w, (pawl_task){.type = "t", .payload = pawl_str(payloads[i])});
    run_due(w);
    assert_string_equal(w->journal, "11@0 21@0 @0 @0");
    assert_non_null(strstr(w->log, "got no rate key from its handler"));
    advance(w, PAWL_MINUTE);
    assert_string_equal(w->journal, "11@0 21@0 @0 @0 12@10");
}

/* Also with a NUL; and nothing of a key upsets a terminal or a log. */
static void keys_are_any_bytes(void **state)
{
    world *w = *state;
    static const char *const texts[] = {"a\0b", "a\0c", "\x1b[2J"};
    pawl_limits *l;
    pawl_handler h = {.type = "t", .run = note_start, .ctx = w, .rate = {.permits = 1, .period_us = 10 * S}};
    open_inline(w, &h, 1);
    for (int i = 0; i < 6; i++)
        send(w, (pawl_task){.type = "t", .rate_key = {texts[i % 3], i % 3 < 2 ? 3 : 4}, .payload = pawl_str(i % 3 ? "2" : "1")});
    run_due(w);
    advance(w, PAWL_MINUTE);
    assert_string_equal(w->journal, "1@0 2@0 2@0 1@10 2@10 2@10");
    ok(pawl_get_limits(w->p, &(pawl_limit_filter){.key = {texts[1], 3}}, &l, &w->err));
    assert_int_equal(l->count, 1);
    assert_memory_equal(l->limits[0].key.data, texts[1], 3);
    pawl_limits_free(l);
    assert_null(strchr(w->log, '\x1b'));
}

static void local_limits(void **state)
{
    world *w = *state;
    pawl_handler h = limited(w, (pawl_rate){.permits = 2, .period_us = 20 * S, .horizon_us = 35 * S});
    h.rate_scope = PAWL_RATE_LOCAL;
    open_inline(w, &h, 1);
    pawl_id far = 0;
    for (int i = 0; i < 5; i++) far = send_keyed(w, "a", "1");
    send_keyed(w, "b", "2");
    send_keyed(w, "a", "1");
    run_due(w);
    assert_string_equal(w->journal, "1@0 1@0 2@0 failed:2/20");
    check_why(w, far, "throttled", "rate key \"a\" has no budget left: it may start in 30s");
    reset(w);
    advance(w, PAWL_MINUTE);
    assert_string_equal(w->journal, "1@10 1@20 1@30");
}

typedef struct fake {
    pawl_limiter limiter;
    int64_t slot_us;
    pawl_limit_verdict verdict;
    int asked, released;
} fake;

static pawl_limit_verdict fake_ask(void *ctx, const pawl_limit_question *q, int64_t *slot_us)
{
    fake *f = ctx;
    f->asked++;
    assert_true(q->key.len > 0 && q->attempt == 1 && strcmp(q->type, "t") == 0);
    if (f->verdict != PAWL_LIMIT_WAIT) return f->verdict;
    if (f->slot_us == 0) f->slot_us = q->now_us + 5 * S;
    *slot_us = f->slot_us;
    return q->now_us >= f->slot_us ? PAWL_LIMIT_GO : PAWL_LIMIT_WAIT;
}

static void fake_release(void *ctx, pawl_id id)
{
    assert_true(id > 0);
    ((fake *)ctx)->released++;
}

static void a_limiter_of_ones_own(void **state)
{
    world *w = *state;
    fake f = {.verdict = PAWL_LIMIT_WAIT};
    f.limiter = (pawl_limiter){fake_ask, fake_release, &f};
    pawl_handler h = limited(w, (pawl_rate){0});
    h.limiter = &f.limiter;
    open_inline(w, &h, 1);
    send_keyed(w, "a", "1");
    run_due(w);
    assert_string_equal(w->journal, "");
    advance(w, 10 * S);
    assert_string_equal(w->journal, "1@5");
    f.verdict = PAWL_LIMIT_REJECTED;
    pawl_id id = send_keyed(w, "a", "2");
    run_due(w);
    check_refused(w, id);
    f.verdict = PAWL_LIMIT_FAILED;
    send_keyed(w, "a", "3");
    run_due(w);
    assert_string_equal(w->journal, "1@5 failed:0/0 3@10");
    assert_non_null(strstr(w->log, "its limiter failed"));
    pawl_limits *l;
    ok(pawl_get_limits(w->p, NULL, &l, &w->err));
    assert_true(l->opened == 1 && l->rejected == 1);
    pawl_limits_free(l);
}

/* Whoever runs is running, also to itself. */
static pawl_outcome look_at_myself(pawl_run *run, void *ctx)
{
    pawl_info *info;
    world *w = ctx;
    ok(pawl_get(pawl_run_engine(run), pawl_run_id(run), &info, &w->err));
    note(w, "%s", info->display);
    pawl_info_free(info);
    return pawl_ok();
}

static void a_run_is_shown_as_running(void **state)
{
    world *w = *state;
    pawl_handler h = limited(w, (pawl_rate){.permits = 1, .period_us = S / 2});
    h.run = look_at_myself;
    open_inline(w, &h, 1);
    time_t began = time(NULL);
    for (int i = 0; i < 3; i++) send(w, (pawl_task){.type = "t", .rate_key = pawl_str("a"), .delay_us = S});
    advance(w, 3 * S);
    assert_string_equal(w->journal, "running running running");
    assert_true(time(NULL) - began < 2); /* no look waits for its own engine, a second each */
}

/* ---- threads ------------------------------------------------------------------------------------------------------------- */

static void waiting_holds_no_worker(void **state)
{
    world *w = *state;
    pawl_handler handlers[] = {{.type = "t", .run = succeed, .rate = {.permits = 1, .period_us = 1500 * PAWL_MILLISECOND}},
                               {.type = "u", .run = succeed}};
    world_start(w, handlers, 2, (pawl_options){.workers = 1});
    pawl_id ids[3], other;
    for (int i = 0; i < 3; i++) ids[i] = send_keyed(w, "a", "1");
    for (int i = 0; i < 50; i++) {
        other = send(w, (pawl_task){.type = "u"});
        await(w, other, PAWL_SUCCEEDED);
    }
    pawl_info *first = get(w, ids[0]), *last;
    await(w, ids[2], PAWL_SUCCEEDED);
    last = get(w, ids[2]);
    int64_t apart_us = last->started_us - first->started_us;
    assert_true(apart_us >= PAWL_SECOND); /* 2 T; the first may be late by L, and by a store that is slow */
    pawl_info_free(first);
    pawl_info_free(last);
}

/* ---- bad input ----------------------------------------------------------------------------------------------------------- */

static void bad_input(void **state)
{
    world *w = *state;
    w->p = world_open(w, (pawl_options){0});
    pawl_handler h = limited(w, (pawl_rate){.permits = -1, .period_us = S});
    refused(pawl_handle(w->p, &h, &w->err), PAWL_INVALID, "-1 permits");
    h.rate = (pawl_rate){.permits = 1};
    refused(pawl_handle(w->p, &h, &w->err), PAWL_INVALID, "a period of 0 us");
    h.rate = (pawl_rate){.period_us = S};
    refused(pawl_handle(w->p, &h, &w->err), PAWL_INVALID, "0 permits");
    h.rate = (pawl_rate){.permits = 1, .period_us = INT64_MAX};
    refused(pawl_handle(w->p, &h, &w->err), PAWL_INVALID, "140 years");
    h.rate = (pawl_rate){.permits = 1, .period_us = S, .burst = -2};
    refused(pawl_handle(w->p, &h, &w->err), PAWL_INVALID, "a burst of -2");
    h.rate = (pawl_rate){.permits = 1, .period_us = S};
    h.type = "*";
    refused(pawl_handle(w->p, &h, &w->err), PAWL_INVALID, "per type");
    h.type = "t";
    h.limiter = &(pawl_limiter){0};
    refused(pawl_handle(w->p, &h, &w->err), PAWL_INVALID, "no function");
    h.limiter = &(pawl_limiter){.ask = fake_ask};
    refused(pawl_handle(w->p, &h, &w->err), PAWL_INVALID, "one of them");
    h.limiter = NULL;
    h.rate_scope = 7;
    refused(pawl_handle(w->p, &h, &w->err), PAWL_INVALID, "scope 7");
    pawl_rate rate = {.permits = 1, .period_us = S};
    refused(pawl_set_limit(w->p, "*", (pawl_bytes){0}, &rate, NULL, &w->err), PAWL_INVALID, "no type");
    refused(pawl_set_limit(w->p, NULL, (pawl_bytes){0}, &rate, NULL, &w->err), PAWL_INVALID, "type");
    refused(pawl_set_limit(w->p, "t", (pawl_bytes){NULL, 3}, &rate, NULL, &w->err), PAWL_INVALID, "NULL");
    refused(pawl_set_limit(w->p, "t", (pawl_bytes){0}, NULL, NULL, &w->err), PAWL_INVALID, "rate");
    rate.permits = -3;
    refused(pawl_set_limit(w->p, "t", (pawl_bytes){0}, &rate, NULL, &w->err), PAWL_INVALID, "-3 permits");
    pawl_limits *l;
    refused(pawl_get_limits(w->p, &(pawl_limit_filter){.limit = 5000}, &l, &w->err), PAWL_INVALID, "5000");
    refused(pawl_get_limits(w->p, &(pawl_limit_filter){.cursor = "zz"}, &l, &w->err), PAWL_INVALID, "cursor");
    refused(pawl_get_limits(w->p, NULL, NULL, &w->err), PAWL_INVALID, "out");
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        TEST(a_burst_then_the_pace),
        TEST(evenly_spaced),
        TEST(a_pause_ends_in_no_burst),
        TEST(retries_take_budget),
        TEST(retries_can_be_free),
        TEST(waiting_is_neither_timed_nor_tried),
        TEST(beyond_the_horizon),
        TEST(refused_by_the_limit_of_the_key),
        TEST(what_is_not_there_is_not_found),
        TEST(discarded),
        TEST(cancelled_while_it_waits),
        TEST(waiting_for_a_slot_or_a_time),
        TEST(a_pause_stays_until_it_is_resumed),
        TEST(the_newest_payload_runs_once),
        TEST(a_due_flood_is_laid_out_once),
        TEST(events_count_every_deferral),
        TEST(the_queue_makes_no_difference),
        TEST(too_many_local_keys),
        TEST(the_newest_program_wins),
        TEST(what_a_node_holds_is_seen_by_others),
        TEST(deferrals_are_told_together),
        TEST(changed_while_running),
        TEST(a_key_is_paused),
        TEST(a_handler_tells_the_key),
        TEST(keys_are_any_bytes),
        TEST(local_limits),
        TEST(a_limiter_of_ones_own),
        TEST(a_run_is_shown_as_running),
        TEST(waiting_holds_no_worker),
        TEST(bad_input),
    };
    return RUN_TESTS("limit", tests);
}
