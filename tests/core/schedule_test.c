/* Schedules by themselves: as they are stored, what is refused, when they fall due, and what becomes of what is due. */
#include "core/schedule.h"
#include "../unit/cmocka_all.h"
#include "../unit/test_allocator.h"
#include "base/alloc.h"
#include "base/text.h"
#include <stdio.h>
#include <string.h>

#define START_US (INT64_C(1792108800) * PAWL_SECOND) /* 2026-10-16, a Friday, 00:00 UTC */
#define LATE_US (SCHEDULE_LATE_US + 1)

static zone *utc, *berlin;

static const char *const *list(const char *first)
{
    static const char *texts[2];
    texts[0] = first;
    return texts;
}

/* ---- as text ----------------------------------------------------------------------------------------------------------------- */

static void write_spec(const pawl_schedule *s, char *out, size_t room)
{
    buf text;
    buf_init(&text, alloc_default(), SCHEDULE_SPEC_MAX);
    schedule_write(s, &text);
    assert_false(text.failed);
    assert_true(text.len < room);
    memcpy(out, buf_text(&text), text.len + 1);
    buf_done(&text);
}

static const char *const dates[] = {"2026-12-24/2027-01-01", "2026-05-01", NULL};
static const char *const times[] = {"12:00-13:00", "22:00-06:00", NULL};
static const pawl_plan plan = {
    .times = 2, .times_s = {32400, 86399}, .weekdays = 0x3e, .month_days = 1u << 31 | 1u << 2, .months = 1u << 12, .nth = -1};
static const pawl_schedule everything = {.name = "s",
                                         .plan = &plan,
                                         .zone = "Europe/Berlin",
                                         .gap = PAWL_GAP_SKIP,
                                         .twice = PAWL_TWICE_BOTH,
                                         .start_us = START_US,
                                         .until_us = START_US + PAWL_DAY,
                                         .max_runs = 7,
                                         .missed = PAWL_MISSED_ALL,
                                         .catch_up = 9,
                                         .overlap = PAWL_OVERLAP_QUEUE,
                                         .not_weekdays = 0x41,
                                         .not_dates = dates,
                                         .not_times = times,
                                         .variance_us = 5,
                                         .type = "t",
                                         .queue = "q",
                                         .tenant = "who",
                                         .content_type = "text/plain",
                                         .rate_key = {"k\0y", 3},
                                         .priority = -3,
                                         .max_attempts = 4,
                                         .timeout_us = -1,
                                         .audit = PAWL_AUDIT_ERRORS};
static const char *const everything_written =
    "{\"plan\":{\"times_s\":[32400,86399],\"weekdays\":62,\"month_days\":2147483652,\"months\":4096,\"nth\":-1},"
    "\"zone\":\"Europe/Berlin\",\"gap\":\"skip\",\"twice\":\"both\",\"start_us\":1792108800000000,\"until_us\":1792195200000000,"
    "\"max_runs\":7,\"missed\":\"all\",\"catch_up\":9,\"overlap\":\"queue\",\"not_weekdays\":65,"
    "\"not_dates\":[\"2026-12-24/2027-01-01\",\"2026-05-01\"],\"not_times\":[\"12:00-13:00\",\"22:00-06:00\"],\"variance_us\":5,"
    "\"type\":\"t\",\"queue\":\"q\",\"tenant\":\"who\",\"content_type\":\"text/plain\",\"rate_key\":\"awB5\",\"priority\":-3,"
    "\"max_attempts\":4,\"timeout_us\":-1,\"audit\":\"errors\"}";

/* Every member is written under its name, and read as what it was. */
static void what_is_written_is_read_the_same(void **state)
{
    (void)state;
    char first[2048], second[2048];
    pawl_schedule read = {.name = "s"};
    pawl_arena *arena = arena_new(alloc_default(), 0);
    write_spec(&everything, first, sizeof first);
    assert_string_equal(first, everything_written);
    assert_int_equal(schedule_read(arena, first, &read, NULL), PAWL_OK);
    assert_memory_equal(read.plan, &plan, sizeof plan);
    assert_string_equal(read.not_dates[1], "2026-05-01");
    assert_null(read.not_dates[2]);
    assert_string_equal(read.not_times[0], "12:00-13:00");
    assert_memory_equal(read.rate_key.data, "k\0y", 3);
    assert_int_equal(read.missed, PAWL_MISSED_ALL);
    assert_int_equal(read.audit, PAWL_AUDIT_ERRORS);
    write_spec(&read, second, sizeof second);
    assert_string_equal(second, first);
    arena_free(arena);
}

/* What is not said is not written. */
static void what_is_not_said_is_not_written(void **state)
{
    (void)state;
    char text[512];
    const char *none[] = {NULL};
    pawl_schedule now = {.every = 2, .unit = PAWL_WEEKS, .start_now = true, .not_dates = none, .type = "t", .zone = ""};
    write_spec(&now, text, sizeof text);
    assert_string_equal(text, "{\"every\":2,\"unit\":\"week\",\"start_now\":1,\"type\":\"t\"}");
    pawl_schedule in = {.cron = "* * * * *", .start_in_us = 5, .type = "t"};
    write_spec(&in, text, sizeof text);
    assert_string_equal(text, "{\"cron\":\"* * * * *\",\"start_in_us\":5,\"type\":\"t\"}");
}

/* A plan that claims more times than there is room for: what there is. */
static void no_more_times_are_written_than_there_are(void **state)
{
    (void)state;
    char text[512];
    pawl_plan many = {.times = PAWL_PLAN_TIMES + 1};
    write_spec(&(pawl_schedule){.plan = &many, .type = "t"}, text, sizeof text);
    assert_string_equal(text, "{\"plan\":{\"times_s\":[0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0]},\"type\":\"t\"}");
}

/* Whoever wrote it: it is refused as a whole, and the message names what is wrong. */
static void what_is_stored_and_makes_no_sense(void **state)
{
    (void)state;
    static const struct {
        const char *spec, *message;
    } bad[] = {
        {"{\"type\":", "is not JSON"},
        {"[]", "is no JSON object"},
        {"{}", "it has no type"},
        {"{\"type\":\"\"}", "its member 'type'"},
        {"{\"type\":1}", "its member 'type'"},
        {"{\"type\":\"a\\u0000b\"}", "its member 'type'"},
        {"{\"ty\\u0000pe\":1}", "its member '?'"},
        {"{\"\":1}", "its member ''"},
        {"{\"tomorrow\":1}", "its member 'tomorrow'"},
        {"{\"cron\":[]}", "its member 'cron'"},
        {"{\"rate_key\":1}", "its member 'rate_key'"},
        {"{\"rate_key\":\"!\"}", "its member 'rate_key'"},
        {"{\"unit\":\"moon\"}", "its member 'unit'"},
        {"{\"unit\":\"\"}", "its member 'unit'"},
        {"{\"unit\":7}", "its member 'unit'"},
        {"{\"gap\":\"jump\"}", "its member 'gap'"},
        {"{\"twice\":\"thrice\"}", "its member 'twice'"},
        {"{\"missed\":\"some\"}", "its member 'missed'"},
        {"{\"overlap\":\"maybe\"}", "its member 'overlap'"},
        {"{\"audit\":\"deep\"}", "its member 'audit'"},
        {"{\"audit\":1}", "its member 'audit'"},
        {"{\"every\":\"1\"}", "its member 'every'"},
        {"{\"every\":1.5}", "its member 'every'"},
        {"{\"max_runs\":99999999999999999999}", "its member 'max_runs'"},
        {"{\"start_now\":2}", "its member 'start_now'"},
        {"{\"start_now\":true}", "its member 'start_now'"},
        {"{\"catch_up\":2147483648}", "its member 'catch_up'"},
        {"{\"priority\":-32769}", "its member 'priority'"},
        {"{\"max_attempts\":\"\"}", "its member 'max_attempts'"},
        {"{\"not_weekdays\":128}", "its member 'not_weekdays'"},
        {"{\"not_weekdays\":-1}", "its member 'not_weekdays'"},
        {"{\"not_weekdays\":[]}", "its member 'not_weekdays'"},
        {"{\"not_dates\":\"2026-05-01\"}", "its member 'not_dates'"},
        {"{\"not_dates\":[\"\"]}", "its member 'not_dates'"},
        {"{\"not_times\":[1]}", "its member 'not_times'"},
        {"{\"not_times\":[\"1\",\"1\",\"1\",\"1\",\"1\",\"1\",\"1\",\"1\",\"1\",\"1\",\"1\",\"1\",\"1\",\"1\",\"1\",\"1\",\"1\"]}",
         "its member 'not_times'"},
        {"{\"plan\":[]}", "its member 'plan'"},
        {"{\"plan\":{\"a\\u0000\":1}}", "its member 'plan'"},
        {"{\"plan\":{\"hours\":1}}", "its member 'plan'"},
        {"{\"plan\":{\"times_s\":1}}", "its member 'plan'"},
        {"{\"plan\":{\"times_s\":[86400]}}", "its member 'plan'"},
        {"{\"plan\":{\"times_s\":[-1]}}", "its member 'plan'"},
        {"{\"plan\":{\"times_s\":[1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1]}}", "its member 'plan'"},
        {"{\"plan\":{\"weekdays\":128}}", "its member 'plan'"},
        {"{\"plan\":{\"month_days\":4294967296}}", "its member 'plan'"},
        {"{\"plan\":{\"months\":65536}}", "its member 'plan'"},
        {"{\"plan\":{\"nth\":32}}", "its member 'plan'"},
    };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        pawl_arena *arena = arena_new(alloc_default(), 0);
        pawl_schedule read = {.name = "s"}, nameless = {.name = NULL};
        pawl_error err = {.status = PAWL_OK};
        assert_int_equal(schedule_read(arena, bad[i].spec, &read, &err), PAWL_INVALID);
        if (!strstr(err.message, bad[i].message) || !strstr(err.message, "schedule 's'"))
            fail_msg("%s: %s", bad[i].spec, err.message);
        assert_int_equal(schedule_read(arena, bad[i].spec, &nameless, &err), PAWL_INVALID);
        assert_non_null(strstr(err.message, "schedule ''"));
        arena_free(arena);
    }
}

/* More than anybody writes is no want of memory, which would be waited for. */
static void what_is_longer_than_any_is_refused(void **state)
{
    (void)state;
    static char spec[SCHEDULE_SPEC_MAX + 64];
    pawl_schedule read = {.name = "s"};
    pawl_error err = {.status = PAWL_OK};
    pawl_arena *arena = arena_new(alloc_default(), 0);
    int n = snprintf(spec, sizeof spec, "{\"type\":\"");
    memset(spec + n, 'x', SCHEDULE_SPEC_MAX + 1);
    snprintf(spec + n + SCHEDULE_SPEC_MAX + 1, 8, "\"}");
    assert_int_equal(schedule_read(arena, spec, &read, &err), PAWL_INVALID);
    assert_non_null(strstr(err.message, "too long"));
    arena_free(arena);
}

/* Wherever memory ends: it says so, and never that what is stored makes no sense. */
static void a_want_of_memory_is_told_apart(void **state)
{
    (void)state;
    pawl_status status = PAWL_NO_MEMORY;
    int refused = 0;
    for (size_t limit = 1; status; limit += 8) {
        pawl_schedule read = {.name = "s"};
        pawl_error err = {.status = PAWL_OK};
        pawl_arena *arena = arena_new(alloc_default(), limit);
        status = schedule_read(arena, everything_written, &read, &err);
        if (status) {
            assert_int_equal(status, PAWL_NO_MEMORY);
            assert_non_null(strstr(err.message, "memory"));
            refused++;
        }
        arena_free(arena);
        assert_true(limit < 100000);
    }
    assert_true(refused > 100);
}

/* ---- rules ------------------------------------------------------------------------------------------------------------------- */

static schedule_rule compiled_in(const zone *z, pawl_schedule s)
{
    schedule_rule rule;
    pawl_error err = {.status = PAWL_OK};
    s.name = "s";
    s.type = "t";
    if (schedule_compile(&s, z, schedule_anchor(&s, START_US), &rule, &err)) fail_msg("%s", err.message);
    return rule;
}

static schedule_rule compiled(pawl_schedule s) { return compiled_in(utc, s); }

static void refused(pawl_schedule s, const char *message)
{
    schedule_rule rule;
    pawl_error err = {.status = PAWL_OK};
    s.name = "s";
    s.type = "t";
    assert_int_equal(schedule_compile(&s, utc, START_US, &rule, &err), PAWL_INVALID);
    if (!strstr(err.message, message)) fail_msg("'%s' is not in: %s", message, err.message);
}

static void numbers_out_of_range(void **state)
{
    (void)state;
    pawl_schedule hourly = {.every = 1, .unit = PAWL_HOURS}, s;
#define REFUSED(member, value, message) s = hourly, s.member = (value), refused(s, message)
    REFUSED(gap, (pawl_gap)3, "a policy that does not exist");
    REFUSED(twice, (pawl_twice)3, "a policy that does not exist");
    REFUSED(missed, (pawl_missed)3, "a policy that does not exist");
    REFUSED(overlap, (pawl_overlap)4, "a policy that does not exist");
    REFUSED(gap, (pawl_gap)-1, "a policy that does not exist");
    REFUSED(start_us, -1, "a number out of range");
    REFUSED(start_us, ZONE_LAST_S * PAWL_SECOND, "a number out of range");
    REFUSED(start_in_us, -1, "a number out of range");
    REFUSED(until_us, -1, "a number out of range");
    REFUSED(max_runs, -1, "a number out of range");
    REFUSED(variance_us, -1, "a number out of range");
    REFUSED(variance_us, PAWL_DAY + 1, "a number out of range");
    REFUSED(catch_up, -1, "a number out of range");
    REFUSED(catch_up, SCHEDULE_CATCH_UP + 1, "catch_up up to 100");
    REFUSED(not_weekdays, 0x7f, "every weekday is excluded");
    REFUSED(cron, "* * * * *", "several of cron, every, plan and after");
    REFUSED(variance_us, PAWL_HOUR, "longer than from one occurrence to the next");
#undef REFUSED
    s = hourly, s.start_now = true, s.start_in_us = 5;
    refused(s, "several starts");
    refused((pawl_schedule){.every = 1}, "unit");
    refused((pawl_schedule){.cron = "61 * * * *"}, "61");
    pawl_plan impossible = {.month_days = 1u << 30, .months = 1u << 13};
    refused((pawl_schedule){.plan = &impossible}, "month");
    compiled((pawl_schedule){.every = 1, .unit = PAWL_HOURS, .variance_us = PAWL_HOUR - 1, .catch_up = SCHEDULE_CATCH_UP});
}

static void what_follows_another_has_no_time_of_its_own(void **state)
{
    (void)state;
    pawl_schedule after = {.after = "other"}, s;
    schedule_rule rule = compiled(after);
    assert_true(rule.after && !rule.once);
    s = after, s.start_now = true, refused(s, "runs after 'other'");
    s = after, s.start_in_us = 1, refused(s, "runs after 'other'");
    s = after, s.start_us = START_US, refused(s, "runs after 'other'");
    s = after, s.until_us = START_US, refused(s, "runs after 'other'");
    s = after, s.variance_us = 1, refused(s, "runs after 'other'");
    s = after, s.every = 1, refused(s, "several of");
}

static void dates_and_times_that_are_none(void **state)
{
    (void)state;
    static const char *const bad_dates[] = {
        "",           "2026",        "2026/05/01",  "2026-5-1",     "2026-05x01",           "2026-05-",
        "2026-05-0x", "202:-05-01",  "1969-12-31",  "2026-00-01",   "2026-13-01",           "2026-05-00",
        "2026-02-29", "2026-05-01x", "2026-05-01/", "2026-05-01/x", "2026-05-02/2026-05-01"};
    static const char *const bad_times[] = {
        "",       "12",           "12:00",       "1:00-2:00",   "12.00-13:00", "12:0x-13:00", "12:00_13:00",
        "12:00-", "12:00-13:00x", "12:60-13:00", "12:00-25:00", "24:00-06:00", "12:00-12:00"};
    pawl_schedule daily = {.every = 1, .unit = PAWL_DAYS};
    for (size_t i = 0; i < sizeof bad_dates / sizeof *bad_dates; i++) {
        daily.not_dates = list(bad_dates[i]);
        refused(daily, "write a date like 2026-12-25");
    }
    daily.not_dates = NULL;
    for (size_t i = 0; i < sizeof bad_times / sizeof *bad_times; i++) {
        daily.not_times = list(bad_times[i]);
        refused(daily, "write times like 12:00-13:00");
    }
    daily.not_times = list("00:00-24:00");
    compiled(daily);
}

static void no_more_exclusions_than_there_is_room_for(void **state)
{
    (void)state;
    const char *many[PAWL_SCHEDULE_DATES + 2] = {NULL};
    pawl_schedule daily = {.every = 1, .unit = PAWL_DAYS, .not_dates = many};
    for (int i = 0; i < PAWL_SCHEDULE_DATES; i++) many[i] = "2026-05-01";
    assert_int_equal(compiled(daily).dates_count, PAWL_SCHEDULE_DATES);
    many[PAWL_SCHEDULE_DATES] = "2026-05-01";
    refused(daily, "more than 64 dates");
    daily = (pawl_schedule){.every = 1, .unit = PAWL_DAYS, .not_times = many};
    for (int i = 0; i < PAWL_SCHEDULE_DATES; i++) many[i] = i < PAWL_SCHEDULE_WINDOWS ? "12:00-13:00" : NULL;
    assert_int_equal(compiled(daily).windows_count, PAWL_SCHEDULE_WINDOWS);
    many[PAWL_SCHEDULE_WINDOWS] = "12:00-13:00";
    refused(daily, "more than 16 windows");
}

static void where_it_is_counted_from(void **state)
{
    (void)state;
    int64_t now = START_US, before = now - PAWL_DAY, then = now + PAWL_DAY;
    assert_int_equal(schedule_anchor(&(pawl_schedule){.every = 1}, now), now);
    assert_int_equal(schedule_anchor(&(pawl_schedule){.every = 1, .start_us = before}, now), before);
    assert_int_equal(schedule_anchor(&(pawl_schedule){.cron = "", .start_us = before}, now), before);
    assert_int_equal(schedule_anchor(&(pawl_schedule){.plan = &plan, .start_us = before}, now), before);
    assert_int_equal(schedule_anchor(&(pawl_schedule){.after = "s", .start_us = before}, now), before);
    assert_int_equal(schedule_anchor(&(pawl_schedule){.start_us = before}, now), now); /* once: now, it is late already */
    assert_int_equal(schedule_anchor(&(pawl_schedule){.start_us = then}, now), then);
    assert_int_equal(schedule_anchor(&(pawl_schedule){.start_in_us = PAWL_DAY}, now), then);
    assert_int_equal(schedule_anchor(&(pawl_schedule){.start_in_us = -1}, now), now);
    assert_int_equal(schedule_anchor(&(pawl_schedule){.start_in_us = INT64_MAX}, now), now); /* no time is so far away */
}

/* ---- occurrences ------------------------------------------------------------------------------------------------------------- */

/* What comes, seen from both sides. Minutes from `from`. */
static void check_due(const schedule_rule *r, int64_t from_us, int64_t until_us, const int *minutes, int count)
{
    int64_t at_us = from_us - 1;
    for (int i = 0; i < count; i++) {
        assert_true(schedule_next(r, at_us, &at_us));
        assert_int_equal(at_us, from_us + minutes[i] * PAWL_MINUTE);
    }
    int64_t end_us = 0;
    if (schedule_next(r, at_us, &end_us)) assert_true(end_us >= until_us);
    at_us = until_us;
    for (int i = count - 1; i >= 0; i--) {
        assert_true(schedule_prev(r, at_us, &at_us));
        assert_int_equal(at_us, from_us + minutes[i] * PAWL_MINUTE);
    }
    if (schedule_prev(r, at_us, &end_us)) assert_true(end_us < from_us);
}

#define CHECK_DUE(rule, from_us, until_us, ...) \
    check_due(&(rule), from_us, until_us, (const int[]){__VA_ARGS__}, (int)(sizeof((const int[]){__VA_ARGS__}) / sizeof(int)))

static void a_plan_falls_due_on_its_days(void **state)
{
    (void)state;
    pawl_plan last = {.times = 2, .times_s = {9 * 3600, 17 * 3600}, .weekdays = 0x3e, .nth = -1};
    schedule_rule rule = compiled((pawl_schedule){.plan = &last});
    int day = 14 * 24 * 60; /* Friday, 30 October */
    CHECK_DUE(rule, START_US, START_US + 20 * PAWL_DAY, day + 9 * 60, day + 17 * 60);
}

static void nothing_is_due_while_excluded(void **state)
{
    (void)state;
    schedule_rule rule = compiled((pawl_schedule){.cron = "0 */6 * * *",
                                                  .not_weekdays = 1 << 6, /* Saturday, the 17th */
                                                  .not_dates = list("2026-10-18/2026-10-19"),
                                                  .not_times = (const char *const[]){"05:00-07:00", "18:00-01:00", NULL}});
    int day = 24 * 60, noon = 12 * 60;
    CHECK_DUE(rule, START_US, START_US + 6 * PAWL_DAY, noon, 4 * day + noon, 5 * day + noon);
    rule = compiled((pawl_schedule){.cron = "0 12 * * *", .not_times = list("11:00-13:00")});
    int64_t at_us;
    assert_false(schedule_next(&rule, START_US, &at_us));
    assert_false(schedule_prev(&rule, INT64_MAX, &at_us));
}

/* On 25 October 2026 the clocks of Berlin go from 03:00 back to 02:00, and what recurs every quarter of an hour goes on meanwhile. What
 * is excluded until 02:30 is so both times, and what lies between is not. */
static void times_shown_twice_are_excluded_twice(void **state)
{
    (void)state;
    int64_t midnight_us = START_US + 8 * PAWL_DAY + 22 * PAWL_HOUR;
    pawl_schedule quarterly = {.cron = "*/15 * * * *", .not_times = list("01:00-02:30")};
    schedule_rule rule = compiled_in(berlin, quarterly);
    CHECK_DUE(rule, midnight_us, midnight_us + 4 * PAWL_HOUR, 0, 15, 30, 45, 150, 165, 210, 225);
    quarterly.not_times = list("02:30-04:00");
    rule = compiled_in(berlin, quarterly);
    CHECK_DUE(rule, midnight_us + PAWL_HOUR, midnight_us + 5 * PAWL_HOUR + PAWL_MINUTE, 0, 15, 30, 45, 60, 75, 120, 135, 240);
}

/* On 29 March 2026 they go from 02:00 to 03:00: what is excluded until then ends with 02:00. */
static void what_is_excluded_into_a_gap_ends_with_it(void **state)
{
    (void)state;
    int64_t midnight_us = INT64_C(1774738800) * PAWL_SECOND; /* 2026-03-29, 00:00 in Berlin */
    pawl_schedule s = {.cron = "*/30 * * * *", .start_us = midnight_us, .not_times = list("01:00-02:30")};
    schedule_rule rule = compiled_in(berlin, s);
    CHECK_DUE(rule, midnight_us, midnight_us + 3 * PAWL_HOUR, 0, 30, 120, 150);
}

static void neither_before_its_start_nor_from_its_end_on(void **state)
{
    (void)state;
    int64_t at_us, start_us = START_US + PAWL_DAY;
    schedule_rule rule =
        compiled((pawl_schedule){.every = 1, .unit = PAWL_HOURS, .start_us = start_us, .until_us = start_us + 3 * PAWL_HOUR});
    CHECK_DUE(rule, start_us, start_us + PAWL_DAY, 0, 60, 120);
    assert_true(schedule_next(&rule, 0, &at_us) && at_us == start_us);
    assert_false(schedule_prev(&rule, start_us, &at_us));
    assert_true(schedule_prev(&rule, INT64_MAX, &at_us) && at_us == start_us + 2 * PAWL_HOUR);
}

static void one_without_a_cadence_has_one_time_or_none(void **state)
{
    (void)state;
    int64_t at_us = 0;
    schedule_rule once = compiled((pawl_schedule){.start_in_us = PAWL_HOUR}), after = compiled((pawl_schedule){.after = "other"});
    assert_true(schedule_next(&once, START_US, &at_us) && at_us == START_US + PAWL_HOUR);
    assert_false(schedule_next(&once, at_us, &at_us));
    assert_false(schedule_prev(&once, INT64_MAX, &at_us));
    once = compiled((pawl_schedule){.max_runs = 1}); /* nothing is said of its start: at once */
    assert_true(schedule_next(&once, START_US - 1, &at_us) && at_us == START_US);
    assert_false(schedule_next(&once, at_us, &at_us));
    assert_false(schedule_next(&after, 0, &at_us));
    assert_false(schedule_prev(&after, INT64_MAX, &at_us));
    after.has_start = true; /* also if what is stored says so */
    assert_false(schedule_next(&after, 0, &at_us));
}

/* ---- what is due ------------------------------------------------------------------------------------------------------------- */

static rng dice;

/* A row whose occurrence at the start is due. */
static pawl_schedule_row due_row(void)
{
    return (pawl_schedule_row){
        .name = "s", .version = 5, .anchor_us = START_US, .next_us = START_US, .occurrence_us = START_US, .look_us = START_US};
}

static schedule_steps decided(const schedule_rule *r, const pawl_schedule_row *row, int64_t now_us)
{
    schedule_steps s;
    memset(&s, 0, sizeof s);
    schedule_decide(r, row, now_us, &dice, &s);
    assert_int_equal(s.step.version, row->version);
    assert_true(s.step.fates_count <= PAWL_STEP_MOST);
    return s;
}

static void check_fate(const schedule_steps *s, int which, int64_t occurrence, int64_t count, const char *why)
{
    const pawl_fate *f = &s->fates[which];
    assert_true(which < s->step.fates_count);
    assert_int_equal(f->occurrence, occurrence);
    assert_int_equal(f->count, count);
    assert_int_equal(f->fires, why == NULL);
    if (why) assert_string_equal(f->why, why);
}

static void what_was_missed(void **state)
{
    (void)state;
    pawl_schedule hourly = {.every = 1, .unit = PAWL_HOURS, .start_us = START_US};
    pawl_schedule_row row = due_row();
    int64_t third_us = START_US + 3 * PAWL_HOUR;

    schedule_rule rule = compiled(hourly);
    schedule_steps s = decided(&rule, &row, third_us + SCHEDULE_LATE_US);
    assert_int_equal(s.step.fates_count, 2);
    check_fate(&s, 0, START_US, 3, "missed");
    check_fate(&s, 1, third_us, 1, NULL);
    assert_int_equal(s.step.last_us, third_us);
    assert_int_equal(s.step.occurrence_us, third_us + PAWL_HOUR);
    assert_int_equal(s.step.look_us, third_us + PAWL_HOUR);
    s = decided(&rule, &row, third_us + LATE_US);
    assert_int_equal(s.step.fates_count, 1);
    check_fate(&s, 0, START_US, 4, "missed");
    assert_int_equal(s.step.tasks_count, 0);

    hourly.missed = PAWL_MISSED_ONCE;
    rule = compiled(hourly);
    s = decided(&rule, &row, third_us + LATE_US);
    assert_int_equal(s.step.fates_count, 2);
    check_fate(&s, 0, START_US, 3, "merged");
    check_fate(&s, 1, third_us, 1, NULL);

    hourly.missed = PAWL_MISSED_ALL;
    hourly.catch_up = 2;
    rule = compiled(hourly);
    s = decided(&rule, &row, third_us + LATE_US);
    assert_int_equal(s.step.fates_count, 3);
    check_fate(&s, 0, START_US, 2, "missed");
    check_fate(&s, 1, third_us - PAWL_HOUR, 1, NULL);
    check_fate(&s, 2, third_us, 1, NULL);
    assert_int_equal(s.step.tasks_count, 2);

    hourly.catch_up = 0;
    rule = compiled(hourly);
    s = decided(&rule, &row, START_US + 999 * PAWL_HOUR);
    assert_int_equal(s.step.tasks_count, SCHEDULE_CATCH_UP);
    check_fate(&s, 0, START_US, 900, "missed");
    check_fate(&s, 1, START_US + 900 * PAWL_HOUR, 1, NULL);
    check_fate(&s, SCHEDULE_CATCH_UP, START_US + 999 * PAWL_HOUR, 1, NULL);
}

/* Those that are excluded are none: they are not counted, whatever excludes them. */
static void what_is_excluded_was_not_missed(void **state)
{
    (void)state;
    pawl_schedule hourly = {.every = 1, .unit = PAWL_HOURS, .start_us = START_US}, s;
    pawl_schedule_row row = due_row();
    int64_t now_us = START_US + 47 * PAWL_HOUR + LATE_US; /* Saturday, 23:01 */
    schedule_rule rule = (s = hourly, s.not_weekdays = 1 << 6, compiled(s));
    schedule_steps steps = decided(&rule, &row, now_us);
    check_fate(&steps, 0, START_US, 24, "missed");
    rule = (s = hourly, s.not_dates = list("2026-10-17"), compiled(s));
    steps = decided(&rule, &row, now_us);
    check_fate(&steps, 0, START_US, 24, "missed");
    rule = (s = hourly, s.not_times = list("12:00-24:00"), compiled(s));
    steps = decided(&rule, &row, now_us);
    check_fate(&steps, 0, START_US, 24, "missed");
    assert_int_equal(steps.step.occurrence_us, START_US + 48 * PAWL_HOUR);
}

/* Nobody counts ten thousands one by one, but the current one is found. */
static void many_were_missed(void **state)
{
    (void)state;
    schedule_rule rule = compiled((pawl_schedule){.cron = "* * * * * *", .start_us = START_US});
    pawl_schedule_row row = due_row();
    schedule_steps s = decided(&rule, &row, START_US + 20000 * PAWL_SECOND);
    assert_int_equal(s.step.fates_count, 2);
    check_fate(&s, 0, START_US, 10002, "missed");
    check_fate(&s, 1, START_US + 20000 * PAWL_SECOND, 1, NULL);
    s = decided(&rule, &row, START_US + 10001 * PAWL_SECOND);
    check_fate(&s, 0, START_US, 10001, "missed");
    check_fate(&s, 1, START_US + 10001 * PAWL_SECOND, 1, NULL);
}

static void one_that_was_to_happen_once_and_was_missed_has_ended(void **state)
{
    (void)state;
    schedule_rule rule = compiled((pawl_schedule){.start_us = START_US});
    pawl_schedule_row row = due_row();
    schedule_steps s = decided(&rule, &row, START_US + LATE_US);
    check_fate(&s, 0, START_US, 1, "missed");
    assert_int_equal(s.step.off, PAWL_OFF_ENDED);
    assert_string_equal(s.step.reason, "its only occurrence was missed");
    assert_int_equal(s.step.look_us, 0);
    s = decided(&rule, &row, START_US);
    assert_int_equal(s.step.off, PAWL_OFF_NOT);
    assert_int_equal(s.step.tasks_count, 1);
    assert_true(s.step.watch);
}

/* One that follows another has no time of its own, whatever somebody has stored. */
static void one_that_follows_is_never_due_again(void **state)
{
    (void)state;
    schedule_rule rule = compiled((pawl_schedule){.after = "other"});
    pawl_schedule_row row = due_row();
    schedule_steps s = decided(&rule, &row, START_US);
    assert_int_equal(s.step.off, PAWL_OFF_NOT);
    assert_int_equal(s.step.next_us, 0);
    assert_int_equal(s.step.look_us, 0);
}

static void what_waits_fires_while_there_are_runs(void **state)
{
    (void)state;
    pawl_occurrence waiting[SCHEDULE_CATCH_UP + 5];
    memset(waiting, 0, sizeof waiting);
    for (int i = 0; i < SCHEDULE_CATCH_UP + 5; i++) waiting[i].occurrence = i + 1;
    pawl_schedule_row row = {.name = "s", .version = 5, .occurrences = waiting, .occurrences_count = 3, .waiting = 3, .runs = 8};
    schedule_rule rule = compiled((pawl_schedule){.after = "other", .max_runs = 10});
    schedule_steps s = decided(&rule, &row, START_US);
    assert_int_equal(s.step.tasks_count, 2);
    check_fate(&s, 0, 1, 1, NULL);
    check_fate(&s, 1, 2, 1, NULL);
    check_fate(&s, 2, 3, 1, "ended");
    assert_int_equal(s.step.off, PAWL_OFF_NOT); /* two of them run */
    assert_int_equal(s.step.look_us, 0);

    row.waiting = 9; /* more than were told: at once again */
    rule = compiled((pawl_schedule){.after = "other"});
    s = decided(&rule, &row, START_US);
    assert_int_equal(s.step.tasks_count, 3);
    assert_int_equal(s.step.look_us, START_US);

    row.occurrences_count = SCHEDULE_CATCH_UP + 5; /* more than a store tells */
    s = decided(&rule, &row, START_US);
    assert_int_equal(s.step.tasks_count, SCHEDULE_CATCH_UP);
}

static void nothing_fires_while_its_rate_limit_holds_it(void **state)
{
    (void)state;
    pawl_schedule often = {.every = 10, .unit = PAWL_SECONDS, .start_us = START_US};
    pawl_schedule_row row = due_row();
    schedule_rule rule = compiled(often);
    rule.held_us = START_US + 25 * PAWL_SECOND;
    schedule_steps s = decided(&rule, &row, START_US);
    assert_int_equal(s.step.tasks_count, 0);
    check_fate(&s, 0, START_US, 1, "rate_limited");
    assert_int_equal(s.step.occurrence_us, START_US + 30 * PAWL_SECOND);
    rule.held_us = START_US + PAWL_DAY; /* limits change: it looks again in a minute */
    assert_int_equal(decided(&rule, &row, START_US).step.occurrence_us, START_US + PAWL_MINUTE);
    often.until_us = START_US + 55 * PAWL_SECOND; /* none is left then: the next as always */
    rule = compiled(often);
    rule.held_us = START_US + PAWL_DAY;
    assert_int_equal(decided(&rule, &row, START_US).step.occurrence_us, START_US + 10 * PAWL_SECOND);
}

/* ---- beginnings and ends ----------------------------------------------------------------------------------------------------- */

static void what_was_fired_does_not_come_again(void **state)
{
    (void)state;
    schedule_rule rule = compiled((pawl_schedule){.every = 1, .unit = PAWL_HOURS, .start_us = START_US});
    pawl_schedule_row row = {.name = "s"};
    assert_true(schedule_begin(&rule, 0, START_US, &dice, &row));
    assert_int_equal(row.next_us, START_US);
    assert_true(schedule_begin(&rule, START_US + PAWL_HOUR, START_US, &dice, &row)); /* the clock went back */
    assert_int_equal(row.occurrence_us, START_US + 2 * PAWL_HOUR);
    assert_int_equal(row.look_us, row.next_us);
    assert_true(schedule_begin(&rule, START_US + PAWL_DAY, START_US, &dice, &row)); /* so far it was wrong before */
    assert_int_equal(row.occurrence_us, START_US);
    rule.until_us = START_US;
    assert_false(schedule_begin(&rule, 0, START_US, &dice, &row));
    assert_int_equal(row.occurrence_us, 0);
    assert_int_equal(row.look_us, 0);
}

static void given_up_or_put_off(void **state)
{
    (void)state;
    pawl_schedule_row row = due_row();
    schedule_steps s;
    row.last_us = START_US - PAWL_HOUR;
    row.watch = true;
    schedule_give_up(&row, "why", &s);
    assert_int_equal(s.step.version, 5);
    assert_int_equal(s.step.off, PAWL_OFF_INVALID);
    assert_string_equal(s.step.reason, "why");
    assert_int_equal(s.step.last_us, row.last_us);
    assert_int_equal(s.step.look_us, 0);
    assert_int_equal(s.step.fates_count + s.step.tasks_count, 0);
    schedule_put_off(&row, START_US + PAWL_MINUTE, &s);
    assert_int_equal(s.step.off, PAWL_OFF_NOT);
    assert_int_equal(s.step.next_us, row.next_us);
    assert_int_equal(s.step.occurrence_us, row.occurrence_us);
    assert_int_equal(s.step.look_us, START_US + PAWL_MINUTE);
    assert_true(s.step.watch);
    assert_int_equal(s.step.fates_count + s.step.tasks_count, 0);
}

/* ---- its task ---------------------------------------------------------------------------------------------------------------- */

static void its_task_tells_whose_it_is(void **state)
{
    (void)state;
    pawl_body *body = schedule_body(&(pawl_schedule){.name = "n", .type = "t", .until_us = START_US}, alloc_default());
    assert_string_equal(body->queue, "recurring");
    assert_string_equal(body->tenant, "");
    assert_string_equal(schedule_of(body), "n");
    assert_int_equal(schedule_until(body), START_US);
    pawl_body_free(alloc_default(), body);
    body = schedule_body(&(pawl_schedule){.name = "n", .type = "t", .queue = "q", .tenant = "who"}, alloc_default());
    assert_string_equal(body->queue, "q");
    assert_string_equal(body->tenant, "who");
    assert_int_equal(schedule_until(body), INT64_MAX);
    pawl_body_free(alloc_default(), body);

    const char *end = SCHEDULE_UNTIL "5}";
    assert_null(schedule_of(&(pawl_body){.type = "t"}));
    assert_null(schedule_of(&(pawl_body){.created_by = "somebody"}));
    assert_int_equal(schedule_until(&(pawl_body){.created_by = "somebody", .headers = end}), INT64_MAX);
    assert_int_equal(schedule_until(&(pawl_body){.created_by = SCHEDULE_CREATED_BY "n", .headers = "{}"}), INT64_MAX);
    assert_int_equal(schedule_until(&(pawl_body){.created_by = SCHEDULE_CREATED_BY "n", .headers = end}), 5);
}

/* Who made a task is a name: no longer than that, and no half of a character. */
static void a_long_name_is_cut_between_characters(void **state)
{
    (void)state;
    char name[NAME_MAX_BYTES + 1];
    for (int i = 0; i < NAME_MAX_BYTES; i += 2) memcpy(name + i, "\xc3\xa4", 2);
    name[NAME_MAX_BYTES] = '\0';
    pawl_body *body = schedule_body(&(pawl_schedule){.name = name, .type = "t"}, alloc_default());
    assert_int_equal(strlen(body->created_by), NAME_MAX_BYTES - 1); /* nine letters before it, and each has two bytes */
    const char *what;
    assert_true(name_valid(body->created_by, &what));
    pawl_body_free(alloc_default(), body);
    test_allocator none;
    test_allocator_init(&none);
    none.fail_at = 1;
    assert_null(schedule_body(&(pawl_schedule){.name = name, .type = "t"}, &none.allocator));
}

static int load_zones(void **state)
{
    (void)state;
    rng_init(&dice, 1);
    return zone_load(alloc_default(), NULL, NULL, &utc, NULL) || zone_load(alloc_default(), NULL, "Europe/Berlin", &berlin, NULL);
}

static int free_zones(void **state)
{
    (void)state;
    zone_free(utc);
    zone_free(berlin);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_written_is_read_the_same),
        cmocka_unit_test(what_is_not_said_is_not_written),
        cmocka_unit_test(no_more_times_are_written_than_there_are),
        cmocka_unit_test(what_is_stored_and_makes_no_sense),
        cmocka_unit_test(what_is_longer_than_any_is_refused),
        cmocka_unit_test(a_want_of_memory_is_told_apart),
        cmocka_unit_test(numbers_out_of_range),
        cmocka_unit_test(what_follows_another_has_no_time_of_its_own),
        cmocka_unit_test(dates_and_times_that_are_none),
        cmocka_unit_test(no_more_exclusions_than_there_is_room_for),
        cmocka_unit_test(where_it_is_counted_from),
        cmocka_unit_test(a_plan_falls_due_on_its_days),
        cmocka_unit_test(nothing_is_due_while_excluded),
        cmocka_unit_test(times_shown_twice_are_excluded_twice),
        cmocka_unit_test(what_is_excluded_into_a_gap_ends_with_it),
        cmocka_unit_test(neither_before_its_start_nor_from_its_end_on),
        cmocka_unit_test(one_without_a_cadence_has_one_time_or_none),
        cmocka_unit_test(what_was_missed),
        cmocka_unit_test(what_is_excluded_was_not_missed),
        cmocka_unit_test(many_were_missed),
        cmocka_unit_test(one_that_was_to_happen_once_and_was_missed_has_ended),
        cmocka_unit_test(one_that_follows_is_never_due_again),
        cmocka_unit_test(what_waits_fires_while_there_are_runs),
        cmocka_unit_test(nothing_fires_while_its_rate_limit_holds_it),
        cmocka_unit_test(what_was_fired_does_not_come_again),
        cmocka_unit_test(given_up_or_put_off),
        cmocka_unit_test(its_task_tells_whose_it_is),
        cmocka_unit_test(a_long_name_is_cut_between_characters),
    };
    return cmocka_run_group_tests(tests, load_zones, free_zones);
}
