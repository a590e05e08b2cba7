/* Schedules as a program sees them: inline mode, so that every occurrence has an exact instant. */
#include "harness.h"

#define START (INT64_C(1767225600) * PAWL_SECOND) /* 2026-01-01, a Thursday */
#define S PAWL_SECOND

static void advance(world *w, int64_t us) { ok(pawl_advance(w->p, us, NULL, &w->err)); }
static void reset(world *w) { w->journal[0] = '\0'; }

/* "<payload>@<second>" */
static pawl_outcome note_start(pawl_run *run, void *ctx)
{
    pawl_bytes payload = pawl_run_payload(run);
    note(ctx, "%.*s@%lld", (int)payload.len, payload.len ? payload.data : "",
         (long long)((pawl_now(pawl_run_engine(run)) - START) / S));
    return pawl_ok();
}

static pawl_outcome take_long(pawl_run *run, void *ctx)
{
    note_start(run, ctx);
    return pawl_run_attempt(run) == 1 ? pawl_retry_in(run, 25 * S, "later") : pawl_ok();
}

static pawl_outcome fail_at_once(pawl_run *run, void *ctx)
{
    note_start(run, ctx);
    return pawl_fail(run, "no");
}

static void open_inline(world *w)
{
    const pawl_handler handlers[] = {{.type = "t", .run = note_start, .ctx = w},
                                     {.type = "long", .run = take_long, .ctx = w},
                                     {.type = "bad", .run = fail_at_once, .ctx = w}};
    world_start(w, handlers, 3, (pawl_options){.inline_mode = true, .inline_start_us = START});
}

static pawl_dispatched put(world *w, pawl_schedule s)
{
    pawl_dispatched outcome = 0;
    if (!s.type) s.type = "t";
    ok(pawl_put_schedule(w->p, &s, PAWL_PUT_UPDATE, &outcome, &w->err));
    return outcome;
}

static void refuse(world *w, pawl_schedule s, const char *text)
{
    if (!s.type) s.type = "t";
    if (!s.name) s.name = "bad";
    refused(pawl_put_schedule(w->p, &s, PAWL_PUT_UPDATE, NULL, &w->err), PAWL_INVALID, text);
}

static pawl_schedule_info *find(world *w, const char *name, int upcoming)
{
    pawl_schedule_info *info = NULL;
    ok(pawl_get_schedule(w->p, name, upcoming, &info, &w->err));
    return info;
}

/* The engine is stopped for so long. */
static void sleep_for(world *w, int64_t us)
{
    ok(pawl_drain(w->p, 0, &w->err));
    advance(w, us);
    ok(pawl_start(w->p, &w->err));
    ok(pawl_run_due(w->p, NULL, &w->err));
}

static void check_counts(world *w, const char *name, int64_t fired, int64_t skipped)
{
    pawl_schedule_info *info = find(w, name, 0);
    int64_t got_fired = info->fired, got_skipped = info->skipped;
    pawl_schedule_info_free(info);
    assert_int_equal(got_fired, fired);
    assert_int_equal(got_skipped, skipped);
}

/* ---- when ------------------------------------------------------------------------------------------------------------------ */

static void intervals_and_starts(void **state)
{
    world *w = *state;
    open_inline(w);
    assert_int_equal(put(w, (pawl_schedule){.name = "i", .every = 10, .unit = PAWL_SECONDS, .payload = pawl_str("1")}),
                     PAWL_CREATED);
    put(w, (pawl_schedule){.name = "now", .every = 20, .unit = PAWL_SECONDS, .start_now = true, .payload = pawl_str("2")});
    put(w, (pawl_schedule){.name = "in", .every = 1, .unit = PAWL_HOURS, .start_in_us = 5 * S, .payload = pawl_str("3")});
    put(w, (pawl_schedule){.name = "at", .every = 1, .unit = PAWL_HOURS, .start_us = START + 15 * S, .payload = pawl_str("4")});
    put(w, (pawl_schedule){.name = "once", .start_in_us = 12 * S, .payload = pawl_str("5")});
    advance(w, 30 * S);
    assert_string_equal(w->journal, "2@0 3@5 1@10 5@12 4@15 1@20 2@20 1@30");
}

static void cron_in_a_zone(void **state)
{
    world *w = *state;
    open_inline(w);
    put(w, (pawl_schedule){.name = "c", .cron = "0 9 * * MON-FRI", .zone = "Europe/Berlin"});
    pawl_schedule_info *info = find(w, "c", 4);
    const int64_t eight = START + 8 * PAWL_HOUR;
    const int64_t wanted[] = {eight, eight + PAWL_DAY, eight + 4 * PAWL_DAY, eight + 5 * PAWL_DAY};
    assert_int_equal(info->upcoming_count, 4);
    assert_memory_equal(info->upcoming_us, wanted, sizeof wanted);
    assert_string_equal(info->words, "at 09:00 on Monday to Friday");
    assert_int_equal(info->next_us, eight);
    pawl_schedule_info_free(info);
    advance(w, 4 * PAWL_DAY + 8 * PAWL_HOUR);
    assert_string_equal(w->journal, "@28800 @115200 @374400");
}

static void exclusions(void **state)
{
    world *w = *state;
    open_inline(w);
    pawl_schedule s = {.name = "x", .every = 1, .unit = PAWL_HOURS, .type = "t", .start_us = START};
    s.not_weekdays = 1 << 6 | 1 << 0; /* the 3rd and the 4th */
    s.not_dates = (const char *const[]){"2026-01-02", "2026-01-05/2026-01-06", NULL};
    s.not_times = (const char *const[]){"22:00-06:00", "12:00-13:00", NULL};
    int64_t times[32];
    size_t count;
    ok(pawl_preview_schedule(w->p, &s, 0, times, 17, &count, &w->err));
    assert_int_equal(count, 17);
    for (int i = 0; i < 15; i++) assert_int_equal(times[i], START + (6 + i + (i >= 6)) * PAWL_HOUR);
    assert_int_equal(times[15], START + 6 * PAWL_DAY + 6 * PAWL_HOUR);
    s.not_dates = (const char *const[]){"2026-01-01/9999-12-31", NULL};
    refused(pawl_put_schedule(w->p, &s, PAWL_PUT_UPDATE, NULL, &w->err), PAWL_INVALID, "would never fire");
}

static void variance_is_stored(void **state)
{
    world *w = *state;
    open_inline(w);
    put(w, (pawl_schedule){.name = "v", .every = 1, .unit = PAWL_MINUTES, .variance_us = 30 * S});
    for (int i = 1; i <= 20; i++) {
        pawl_schedule_info *info = find(w, "v", 1);
        assert_int_equal(info->occurrence_us, START + i * PAWL_MINUTE);
        assert_true(info->next_us >= info->occurrence_us && info->next_us <= info->occurrence_us + 30 * S);
        advance(w, info->next_us - pawl_now(w->p));
        pawl_schedule_info_free(info);
        check_counts(w, "v", i, 0);
    }
}

static void until_and_max_runs(void **state)
{
    world *w = *state;
    open_inline(w);
    put(w, (pawl_schedule){.name = "u", .every = 10, .unit = PAWL_SECONDS, .until_us = START + 30 * S, .payload = pawl_str("1")});
    put(w, (pawl_schedule){.name = "m", .every = 10, .unit = PAWL_SECONDS, .max_runs = 3, .payload = pawl_str("2")});
    advance(w, PAWL_MINUTE);
    assert_string_equal(w->journal, "2@10 1@10 2@20 1@20 2@30");
    pawl_schedule_info *info = find(w, "u", 3);
    assert_true(info->off == PAWL_OFF_ENDED && info->upcoming_count == 0 && info->next_us == 0);
    pawl_schedule_info_free(info);
    info = find(w, "m", 3);
    assert_true(info->off == PAWL_OFF_ENDED && info->runs == 3);
    pawl_schedule_info_free(info);
    refused(pawl_enable_schedule(w->p, "m", NULL, &w->err), PAWL_CONFLICT, "has had its 3 runs");
}

static void a_run_that_never_started_is_given_back(void **state)
{
    world *w = *state;
    open_inline(w);
    ok(pawl_pause(w->p, "recurring", NULL, &w->err));
    put(w, (pawl_schedule){.name = "m", .every = 10, .unit = PAWL_SECONDS, .max_runs = 1});
    advance(w, 15 * S);
    pawl_schedule_info *info = find(w, "m", 0);
    assert_true(info->runs == 1 && info->next_us == 0 && !info->off && info->open == 1);
    ok(pawl_cancel(w->p, info->last_task, NULL, &w->err));
    pawl_schedule_info_free(info);
    ok(pawl_resume(w->p, "recurring", NULL, &w->err));
    advance(w, PAWL_MINUTE);
    assert_string_equal(w->journal, "@20");
    info = find(w, "m", 0);
    assert_true(info->off == PAWL_OFF_ENDED && info->fired == 2 && info->runs == 1);
    assert_int_equal(info->occurrences_count, 2);
    assert_int_equal(info->occurrences[1].state, PAWL_OCCURRENCE_UNSTARTED);
    pawl_schedule_info_free(info);
}

static void once_ends_with_its_success(void **state)
{
    world *w = *state;
    open_inline(w);
    put(w, (pawl_schedule){.name = "good", .start_in_us = S});
    put(w, (pawl_schedule){.name = "fails", .start_in_us = S, .type = "bad"});
    advance(w, PAWL_MINUTE);
    pawl_schedule_info *good = find(w, "good", 0), *fails = find(w, "fails", 0);
    assert_int_equal(good->off, PAWL_OFF_ENDED);
    assert_int_equal(fails->off, PAWL_OFF_NOT);
    assert_int_equal(fails->failed, 1);
    pawl_schedule_info_free(good);
    pawl_schedule_info_free(fails);
    pawl_id id;
    ok(pawl_run_schedule(w->p, "fails", NULL, NULL, &id, &w->err));
}

/* ---- rate limits --------------------------------------------------------------------------------------------------------------- */

static bool note_failed(pawl_run *run, void *ctx, const char *error)
{
    (void)run, (void)error;
    note(ctx, "failed");
    return true;
}

static bool note_cancelled(pawl_run *run, void *ctx)
{
    (void)run;
    note(ctx, "cancelled");
    return true;
}

static void open_limited(world *w, pawl_rate rate, pawl_rate_scope scope)
{
    pawl_handler h = {.type = "t", .run = note_start, .ctx = w, .rate = rate, .rate_scope = scope};
    h.on_failed = note_failed;
    h.on_cancelled = note_cancelled;
    world_start(w, &h, 1, (pawl_options){.inline_mode = true, .inline_start_us = START});
    ok(pawl_run_due(w->p, NULL, &w->err));
}

static pawl_schedule keyed(const char *name, int64_t seconds)
{
    return (pawl_schedule){
        .name = name, .type = "t", .every = (int)seconds, .unit = PAWL_SECONDS, .rate_key = pawl_str("k"), .queue = "default"};
}

static void check_tasks(world *w, const char *state, size_t count)
{
    pawl_page *page;
    ok(pawl_list(w->p, &(pawl_filter){.state = state}, &page, &w->err));
    assert_int_equal(page->count, count);
    pawl_page_free(page);
}

/* What finds no slot in time was no run and no failure: no hook, no dead letter. The next one comes when there is a slot, without a
 * task for each occurrence until then. */
static void skip_without_a_slot(world *w, pawl_rate rate, pawl_rate_scope scope)
{
    pawl_schedule s = keyed("r", 10);
    s.max_runs = 3;
    open_limited(w, rate, scope);
    put(w, s);
    assert_non_null(strstr(w->log, "schedule 'r' falls due every 10s"));
    advance(w, 7 * PAWL_HOUR);
    assert_string_equal(w->journal, "@10 @7210 @14410");
    check_tasks(w, "failed", 0);
    check_tasks(w, "cancelled", 2);
    pawl_schedule_info *info = find(w, "r", 0);
    assert_true(info->off == PAWL_OFF_ENDED && info->runs == 3 && info->fired == 5 && info->skipped > 0);
    pawl_schedule_info_free(info);
}

static void beyond_the_horizon(void **state)
{
    skip_without_a_slot(*state, (pawl_rate){.permits = 1, .period_us = 2 * PAWL_HOUR}, PAWL_RATE_SHARED);
}

static void beyond_the_horizon_of_a_local_limit(void **state)
{
    skip_without_a_slot(*state, (pawl_rate){.permits = 1, .period_us = 2 * PAWL_HOUR}, PAWL_RATE_LOCAL);
}

static void discarded(void **state)
{
    skip_without_a_slot(*state, (pawl_rate){.permits = 1, .period_us = 2 * PAWL_HOUR, .discard = true}, PAWL_RATE_SHARED);
}

/* A limit that is raised lets it go on within a minute, however far away the slot was. */
static void not_held_by_an_old_limit(void **state)
{
    world *w = *state;
    open_limited(w, (pawl_rate){.permits = 1, .period_us = 2 * PAWL_HOUR}, PAWL_RATE_SHARED);
    put(w, keyed("r", 10));
    advance(w, 1000 * S);
    assert_string_equal(w->journal, "@10");
    check_counts(w, "r", 2, 17); /* one a minute */
    ok(pawl_set_limit(w->p, "t", (pawl_bytes){0}, &(pawl_rate){.permits = 2, .period_us = S}, NULL, &w->err));
    advance(w, 65 * S);
    assert_string_equal(w->journal, "@10 @1050 @1060");
}

/* Late occurrences keep the rhythm; one that would run behind the end does not run at all. */
static void late_but_not_behind_the_end(void **state)
{
    world *w = *state;
    open_limited(w, (pawl_rate){.permits = 1, .period_us = 15 * S}, PAWL_RATE_SHARED);
    pawl_schedule s = keyed("r", 10);
    s.until_us = START + 60 * S;
    s.overlap = PAWL_OVERLAP_ALLOW;
    put(w, s);
    advance(w, PAWL_HOUR);
    assert_string_equal(w->journal, "@10 @25 @40 @55");
    check_tasks(w, "failed", 0);
    check_tasks(w, "pending", 0);
    pawl_id id;
    ok(pawl_run_schedule(w->p, "r", NULL, NULL, &id, &w->err));
    ok(pawl_run_due(w->p, NULL, &w->err));
    assert_string_equal(w->journal, "@10 @25 @40 @55 @3600");
}

/* ---- missed ------------------------------------------------------------------------------------------------------------------ */

static void an_hour_missed(void **state)
{
    world *w = *state;
    open_inline(w);
    put(w, (pawl_schedule){.name = "skip", .cron = "*/10 * * * *", .payload = pawl_str("1")});
    put(w, (pawl_schedule){.name = "once", .cron = "*/10 * * * *", .missed = PAWL_MISSED_ONCE, .payload = pawl_str("2")});
    put(w, (pawl_schedule){.name = "all", .cron = "*/10 * * * *", .missed = PAWL_MISSED_ALL, .payload = pawl_str("3")});
    put(w, (pawl_schedule){
               .name = "some", .cron = "*/10 * * * *", .missed = PAWL_MISSED_ALL, .catch_up = 2, .payload = pawl_str("4")});
    put(w,
        (pawl_schedule){.name = "sec", .every = 1, .unit = PAWL_SECONDS, .missed = PAWL_MISSED_ONCE, .payload = pawl_str("5")});
    sleep_for(w, PAWL_HOUR + 5 * PAWL_MINUTE); /* the last of six is five minutes late */
    check_counts(w, "skip", 0, 6);
    check_counts(w, "once", 1, 5);
    check_counts(w, "all", 6, 0);
    check_counts(w, "some", 2, 4);
    check_counts(w, "sec", 1, 3899);
    assert_string_equal(w->journal, "5@3900 3@3900 3@3900 3@3900 3@3900 3@3900 3@3900 2@3900 4@3900 4@3900");
    reset(w);
    pawl_schedule_info *info = find(w, "once", 0);
    assert_int_equal(info->next_us, START + 70 * PAWL_MINUTE);
    assert_int_equal(info->occurrences[0].occurrence, START + 60 * PAWL_MINUTE);
    assert_string_equal(info->occurrences[1].why, "merged");
    assert_int_equal(info->occurrences[1].count, 5);
    assert_int_equal(info->occurrences[1].occurrence, START + 10 * PAWL_MINUTE);
    pawl_schedule_info_free(info);
}

static void one_that_just_slipped_runs(void **state)
{
    world *w = *state;
    open_inline(w);
    put(w, (pawl_schedule){.name = "s", .cron = "*/10 * * * *"});
    sleep_for(w, 30 * PAWL_MINUTE + 59 * S);
    check_counts(w, "s", 1, 2);
    sleep_for(w, 10 * PAWL_MINUTE + 2 * S);
    check_counts(w, "s", 1, 3);
    advance(w, 9 * PAWL_MINUTE);
    check_counts(w, "s", 2, 3);
}

/* ---- overlap ------------------------------------------------------------------------------------------------------------------ */

static void overlap(void **state)
{
    world *w = *state;
    open_inline(w);
    pawl_schedule s = {.name = "forbid", .every = 10, .unit = PAWL_SECONDS, .type = "long", .payload = pawl_str("1")};
    put(w, s);
    advance(w, 65 * S); /* at 10 and again at 35, at 40 and again at 65 */
    assert_string_equal(w->journal, "1@10 1@35 1@40 1@65");
    check_counts(w, "forbid", 2, 4);
    ok(pawl_remove_schedule(w->p, "forbid", NULL, &w->err));
    reset(w);
    s.name = "queue";
    s.overlap = PAWL_OVERLAP_QUEUE;
    s.start_us = START + 70 * S;
    put(w, s);
    advance(w, 55 * S); /* at 70 and again at 95; 80 waits and starts then, 90 is skipped, 100 waits, 110 and 120 are skipped */
    assert_string_equal(w->journal, "1@70 1@95 1@95 1@120 1@120");
    check_counts(w, "queue", 3, 2 + 1);
    ok(pawl_remove_schedule(w->p, "queue", NULL, &w->err));
    reset(w);
    s.name = "allow";
    s.overlap = PAWL_OVERLAP_ALLOW;
    s.start_us = START + 200 * S;
    put(w, s);
    advance(w, 110 * S);
    assert_string_equal(w->journal, "1@145 1@200 1@210 1@220 1@225 1@230");
}

/* ---- after ---------------------------------------------------------------------------------------------------------------------- */

static void after_each_success(void **state)
{
    world *w = *state;
    open_inline(w);
    put(w, (pawl_schedule){.name = "a", .every = 10, .unit = PAWL_SECONDS, .max_runs = 2, .payload = pawl_str("1")});
    put(w, (pawl_schedule){.name = "b", .after = "a", .payload = pawl_str("2")});
    put(w, (pawl_schedule){.name = "c", .after = "b", .payload = pawl_str("3")});
    put(w, (pawl_schedule){.name = "d", .after = "b", .type = "bad", .payload = pawl_str("4")});
    put(w, (pawl_schedule){.name = "e", .after = "d", .payload = pawl_str("5")});
    advance(w, PAWL_MINUTE);
    assert_string_equal(w->journal, "1@10 2@10 3@10 4@10 1@20 2@20 3@20 4@20");
    check_counts(w, "c", 2, 0);
    check_counts(w, "d", 2, 0); /* though it failed: once for each success of b */
    check_counts(w, "e", 0, 0);
    pawl_schedule_info *info = find(w, "b", 3);
    assert_true(info->upcoming_count == 0 && info->next_us == 0 && !info->off);
    assert_string_equal(info->words, "after each success of 'a'");
    pawl_info *parent = get(w, info->occurrences[0].occurrence);
    assert_string_equal(parent->schedule, "a");
    pawl_info_free(parent);
    pawl_schedule_info_free(info);
}

static void cycles_are_refused(void **state)
{
    world *w = *state;
    open_inline(w);
    refuse(w, (pawl_schedule){.name = "a", .after = "a"}, "that one runs after it");
    refuse(w, (pawl_schedule){.name = "a", .after = "b"}, "there is no such schedule");
    put(w, (pawl_schedule){.name = "a", .every = 1, .unit = PAWL_DAYS});
    put(w, (pawl_schedule){.name = "b", .after = "a"});
    put(w, (pawl_schedule){.name = "c", .after = "b"});
    refuse(w, (pawl_schedule){.name = "a", .after = "c"}, "that one runs after it");
}

/* ---- registration ------------------------------------------------------------------------------------------------------------------ */

static void redeploys_change_nothing(void **state)
{
    world *w = *state;
    open_inline(w);
    pawl_schedule s = {.name = "r", .every = 1, .unit = PAWL_HOURS, .start_in_us = PAWL_MINUTE};
    assert_int_equal(put(w, s), PAWL_CREATED);
    advance(w, 10 * PAWL_MINUTE);
    assert_int_equal(put(w, s), PAWL_EXISTING);
    pawl_schedule_info *info = find(w, "r", 0);
    assert_int_equal(info->next_us, START + 61 * PAWL_MINUTE);
    pawl_schedule_info_free(info);
    s.payload = pawl_str("7"); /* another payload, the same times */
    assert_int_equal(put(w, s), PAWL_UPDATED);
    info = find(w, "r", 0);
    assert_int_equal(info->next_us, START + 61 * PAWL_MINUTE);
    pawl_schedule_info_free(info);
    s.every = 2;
    pawl_dispatched outcome;
    s.type = "t";
    ok(pawl_put_schedule(w->p, &s, PAWL_PUT_KEEP, &outcome, &w->err));
    assert_int_equal(outcome, PAWL_EXISTING);
    refused(pawl_put_schedule(w->p, &s, PAWL_PUT_ADD, &outcome, &w->err), PAWL_CONFLICT, "there is a schedule 'r' already");
    s.name = "other";
    refused(pawl_put_schedule(w->p, &s, PAWL_PUT_EDIT, &outcome, &w->err), PAWL_NOT_FOUND, "there is no schedule 'other'");
}

static void disabled_stays_disabled(void **state)
{
    world *w = *state;
    open_inline(w);
    pawl_schedule s = {.name = "d", .every = 10, .unit = PAWL_SECONDS};
    put(w, s);
    ok(pawl_disable_schedule(w->p, "d", "ann", &w->err));
    advance(w, PAWL_MINUTE);
    s.every = 20;
    assert_int_equal(put(w, s), PAWL_UPDATED);
    advance(w, PAWL_MINUTE);
    assert_string_equal(w->journal, "");
    ok(pawl_enable_schedule(w->p, "d", "ann", &w->err));
    ok(pawl_enable_schedule(w->p, "d", "ann", &w->err));
    advance(w, 20 * S);
    assert_string_equal(w->journal, "@120 @140"); /* nothing of the time it was off was missed */
    check_counts(w, "d", 2, 0);
    refused(pawl_enable_schedule(w->p, "no", NULL, &w->err), PAWL_NOT_FOUND, "there is no schedule 'no'");
    refused(pawl_remove_schedule(w->p, "no", NULL, &w->err), PAWL_NOT_FOUND, "there is no schedule 'no'");
    refused(pawl_run_schedule(w->p, "no", NULL, NULL, NULL, &w->err), PAWL_NOT_FOUND, "there is no schedule 'no'");
}

static void all_of_a_program(void **state)
{
    world *w = *state;
    open_inline(w);
    put(w, (pawl_schedule){.name = "app.old", .every = 1, .unit = PAWL_HOURS});
    put(w, (pawl_schedule){.name = "else", .every = 1, .unit = PAWL_HOURS});
    const pawl_schedule mine[] = {{.name = "app.b", .after = "app.a", .type = "t"},
                                  {.name = "app.a", .every = 1, .unit = PAWL_HOURS, .type = "t"}};
    ok(pawl_put_schedules(w->p, mine, 2, &(pawl_put_options){.how = PAWL_PUT_UPDATE, .prefix = "app."}, &w->err));
    pawl_schedules *page;
    ok(pawl_list_schedules(w->p, NULL, &page, &w->err));
    assert_int_equal(page->count, 4);
    assert_string_equal(page->schedules[2].definition.name, "app.old");
    assert_int_equal(page->schedules[2].off, PAWL_OFF_GONE);
    assert_int_equal(page->schedules[0].off + page->schedules[1].off + page->schedules[3].off, 0);
    pawl_schedules_free(page);
    put(w, (pawl_schedule){.name = "app.old", .every = 1, .unit = PAWL_HOURS}); /* it is there again */
    pawl_schedule_info *info = find(w, "app.old", 0);
    assert_int_equal(info->off, PAWL_OFF_NOT);
    pawl_schedule_info_free(info);
    ok(pawl_put_schedules(w->p, mine, 2, &(pawl_put_options){.prefix = "app.", .gone = PAWL_GONE_DELETE}, &w->err));
    refused(pawl_get_schedule(w->p, "app.old", 0, &info, &w->err), PAWL_NOT_FOUND, "there is no schedule 'app.old'");
    const pawl_schedule twice[] = {mine[1], mine[1]};
    refused(pawl_put_schedules(w->p, twice, 2, NULL, &w->err), PAWL_INVALID, "two schedules have the name");
}

static void run_now(void **state)
{
    world *w = *state;
    open_inline(w);
    put(w, (pawl_schedule){.name = "r", .every = 1, .unit = PAWL_HOURS, .payload = pawl_str("1")});
    pawl_id id;
    pawl_bytes other = pawl_str("2");
    ok(pawl_run_schedule(w->p, "r", NULL, "ann", &id, &w->err));
    refused(pawl_run_schedule(w->p, "r", &other, NULL, NULL, &w->err), PAWL_CONFLICT, "is unfinished");
    ok(pawl_run_due(w->p, NULL, &w->err));
    advance(w, 1);
    ok(pawl_run_schedule(w->p, "r", &other, NULL, NULL, &w->err));
    ok(pawl_run_due(w->p, NULL, &w->err));
    assert_string_equal(w->journal, "1@0 2@0");
    pawl_info *task = get(w, id);
    assert_string_equal(task->schedule, "r");
    assert_string_equal(task->queue, "recurring");
    pawl_info_free(task);
    pawl_schedule_info *info = find(w, "r", 1);
    assert_int_equal(info->next_us, START + PAWL_HOUR);
    assert_string_equal(info->occurrences[0].why, "by hand");
    pawl_schedule_info_free(info);
}

static void bad_input(void **state)
{
    world *w = *state;
    open_inline(w);
    refuse(w, (pawl_schedule){.cron = "0 0 30 2 *"}, "30");
    refuse(w, (pawl_schedule){.cron = "61 * * * *"}, "61");
    refuse(w, (pawl_schedule){.cron = "* * * * *", .zone = "Mars/Olympus"}, "Mars/Olympus");
    refuse(w, (pawl_schedule){.cron = "* * * * *", .every = 1, .unit = PAWL_DAYS}, "several of cron");
    refuse(w, (pawl_schedule){.every = 1}, "a unit");
    refuse(w, (pawl_schedule){.every = -1, .unit = PAWL_DAYS}, "above 0");
    refuse(w, (pawl_schedule){.every = 1, .unit = PAWL_DAYS, .until_us = START}, "would never fire");
    refuse(w, (pawl_schedule){.every = 1, .unit = PAWL_MINUTES, .variance_us = 2 * PAWL_MINUTE}, "variance");
    refuse(w, (pawl_schedule){.every = 1, .unit = PAWL_DAYS, .not_weekdays = 0x7f}, "every weekday");
    refuse(w, (pawl_schedule){.every = 1, .unit = PAWL_DAYS, .not_dates = (const char *const[]){"2026-02-30", NULL}},
           "2026-02-30");
    refuse(w, (pawl_schedule){.every = 1, .unit = PAWL_DAYS, .not_times = (const char *const[]){"25:00-26:00", NULL}}, "25:00");
    refuse(w, (pawl_schedule){.every = 1, .unit = PAWL_DAYS, .payload = pawl_str("{")}, "JSON");
    refuse(w, (pawl_schedule){.name = "\n", .every = 1, .unit = PAWL_DAYS}, "not a name");
    refuse(w, (pawl_schedule){.every = 1, .unit = PAWL_DAYS, .start_now = true, .start_us = START}, "several starts");
    refuse(w, (pawl_schedule){.every = 1, .unit = PAWL_DAYS, .type = "*"}, "type");
    refused(pawl_put_schedule(w->p, NULL, PAWL_PUT_UPDATE, NULL, &w->err), PAWL_INVALID, "NULL");
    pawl_schedules *page;
    ok(pawl_list_schedules(w->p, NULL, &page, &w->err));
    assert_int_equal(page->count, 0);
    pawl_schedules_free(page);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        TEST(intervals_and_starts),
        TEST(cron_in_a_zone),
        TEST(exclusions),
        TEST(variance_is_stored),
        TEST(until_and_max_runs),
        TEST(a_run_that_never_started_is_given_back),
        TEST(once_ends_with_its_success),
        TEST(beyond_the_horizon),
        TEST(beyond_the_horizon_of_a_local_limit),
        TEST(discarded),
        TEST(not_held_by_an_old_limit),
        TEST(late_but_not_behind_the_end),
        TEST(an_hour_missed),
        TEST(one_that_just_slipped_runs),
        TEST(overlap),
        TEST(after_each_success),
        TEST(cycles_are_refused),
        TEST(redeploys_change_nothing),
        TEST(disabled_stays_disabled),
        TEST(all_of_a_program),
        TEST(run_now),
        TEST(bad_input),
    };
    return RUN_TESTS("schedule", tests);
}
