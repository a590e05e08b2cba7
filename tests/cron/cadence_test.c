/* core/cadence: instants in zones, and intervals. The other opinion is the definition itself, applied minute by minute to what the C
 * library says the local clock shows. */
#include "core/cadence.h"
#include "base/alloc.h"
#include "base/rand.h"
#include "base/text.h"
#include "core/cron.h"
#include "cron/tzif.h"
#include "unit/cmocka_all.h"
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define COUNT(a) (sizeof(a) / sizeof *(a))

static zone *load(const char *name)
{
    zone *z = NULL;
    pawl_error err;
    if (zone_load(alloc_default(), NULL, name, &z, &err)) fail_msg("%s", err.message);
    return z;
}

static cadence cron(const char *text)
{
    cadence c = {.repeats = false};
    pawl_error err;
    if (cron_parse(text, &c.calendar, &err)) fail_msg("%s", err.message);
    return c;
}

static int64_t us(const char *text)
{
    int64_t value;
    assert_true(rfc3339_parse(text, &value));
    return value;
}

/* ---- by hand ---- */

/* The following fire times, NULL-terminated; forwards, and then backwards from behind the last. */
static void gives(const cadence *c, const char *zone_name, const char *after, ...)
{
    int64_t want[16];
    int n = 0;
    va_list args;
    zone *z = load(zone_name);
    cadence_due due;
    va_start(args, after);
    for (const char *text; (text = va_arg(args, const char *));) want[n++] = us(text);
    va_end(args);
    int64_t t = us(after);
    for (int i = 0; i < n; i++) {
        char got[RFC3339_TEXT];
        assert_true(cadence_next(c, z, t, &due));
        rfc3339_format(t = due.at_us, got);
        if (t != want[i]) fail_msg("after %s in %s, number %d is %s", after, zone_name, i, got);
    }
    for (int i = n - 2; i >= 0; i--) {
        assert_true(cadence_prev(c, z, t, &due));
        assert_int_equal(t = due.at_us, want[i]);
    }
    zone_free(z);
}

static void with(const char *text, cadence_gap gap, cadence_overlap overlap, cadence *c)
{
    *c = cron(text);
    c->gap = gap;
    c->overlap = overlap;
}

static void gaps(void **state)
{
    (void)state;
    cadence c;
    with("30 2 * * *", GAP_DEFAULT, OVERLAP_DEFAULT, &c);
    gives(&c, "Europe/Berlin", "2026-03-28T00:00:00Z", "2026-03-28T01:30:00Z", "2026-03-29T01:00:00Z", "2026-03-30T00:30:00Z",
          NULL);
    with("30 2 * * *", GAP_SKIP, OVERLAP_DEFAULT, &c);
    gives(&c, "Europe/Berlin", "2026-03-28T00:00:00Z", "2026-03-28T01:30:00Z", "2026-03-30T00:30:00Z", NULL);
    with("*/20 2,3 * * *", GAP_DEFAULT, OVERLAP_DEFAULT, &c); /* 2:00, 2:20, 2:40 and 3:00 are one */
    gives(&c, "Europe/Berlin", "2026-03-29T00:00:00Z", "2026-03-29T01:00:00Z", "2026-03-29T01:20:00Z", "2026-03-29T01:40:00Z",
          "2026-03-30T00:00:00Z", NULL);
    with("0 0 * * *", GAP_DEFAULT, OVERLAP_DEFAULT, &c); /* no midnight */
    gives(&c, "Africa/Cairo", "2026-04-23T00:00:00Z", "2026-04-23T22:00:00Z", "2026-04-24T21:00:00Z", NULL);
    with("0 12 * * *", GAP_DEFAULT, OVERLAP_DEFAULT, &c); /* a whole day is missing */
    gives(&c, "Pacific/Apia", "2011-12-29T00:00:00Z", "2011-12-29T22:00:00Z", "2011-12-30T10:00:00Z", "2011-12-30T22:00:00Z",
          NULL);
    with("15 2 * * *", GAP_DEFAULT, OVERLAP_DEFAULT, &c); /* half an hour */
    gives(&c, "Australia/Lord_Howe", "2026-10-03T00:00:00Z", "2026-10-03T15:30:00Z", "2026-10-04T15:15:00Z", NULL);
}

static void overlaps(void **state)
{
    (void)state;
    cadence c;
    with("30 2 * * *", GAP_DEFAULT, OVERLAP_DEFAULT, &c);
    gives(&c, "Europe/Berlin", "2026-10-24T12:00:00Z", "2026-10-25T00:30:00Z", "2026-10-26T01:30:00Z", NULL);
    with("30 2 * * *", GAP_DEFAULT, OVERLAP_BOTH, &c);
    gives(&c, "Europe/Berlin", "2026-10-24T12:00:00Z", "2026-10-25T00:30:00Z", "2026-10-25T01:30:00Z", "2026-10-26T01:30:00Z",
          NULL);
    with("0,30 1-3 * * *", GAP_DEFAULT, OVERLAP_FIRST, &c);
    gives(&c, "Europe/Berlin", "2026-10-24T23:00:00Z", "2026-10-24T23:30:00Z", "2026-10-25T00:00:00Z", "2026-10-25T00:30:00Z",
          "2026-10-25T02:00:00Z", "2026-10-25T02:30:00Z", "2026-10-26T00:00:00Z", NULL);
}

static void every_hour_means_every_hour(void **state)
{
    (void)state;
    cadence c = cron("30 * * * *");
    gives(&c, "Europe/Berlin", "2026-03-28T23:45:00Z", "2026-03-29T00:30:00Z", "2026-03-29T01:30:00Z", "2026-03-29T02:30:00Z",
          NULL);
    gives(&c, "Europe/Berlin", "2026-10-24T23:45:00Z", "2026-10-25T00:30:00Z", "2026-10-25T01:30:00Z", "2026-10-25T02:30:00Z",
          NULL);
    with("30 * * * *", GAP_RUN, OVERLAP_FIRST, &c); /* unless it is asked for */
    gives(&c, "Europe/Berlin", "2026-03-28T23:45:00Z", "2026-03-29T00:30:00Z", "2026-03-29T01:00:00Z", "2026-03-29T01:30:00Z",
          NULL);
    gives(&c, "Europe/Berlin", "2026-10-24T23:45:00Z", "2026-10-25T00:30:00Z", "2026-10-25T02:30:00Z", NULL);
}

/* Whatever is due no more before the clock jumps is not looked for behind it. */
static void a_gap_at_the_end_of_time(void **state)
{
    (void)state;
    tzif t = {.version = '2', .times = 1, .types = 2, .type = {{0, 0, 0}, {3600, 1, 0}}, .letters = "ABC\0", .rule = ""};
    tzif_bytes bytes;
    zone *z = NULL;
    cadence_due due;
    t.at_s[0] = us("9999-06-01T00:00:00Z") / PAWL_SECOND, t.type_at[0] = 1;
    assert_int_equal(zone_read(alloc_default(), "late", tzif_make(&bytes, &t), &z, NULL), PAWL_OK);
    cadence c = cron("30 0 1 1 *"), june = cron("30 0 1 6 *");
    assert_false(cadence_next(&c, z, us("9999-02-01T00:00:00Z"), &due));
    assert_true(cadence_prev(&c, z, us("9999-07-01T00:00:00Z"), &due));
    assert_int_equal(due.at_us, us("9999-01-01T00:30:00Z"));
    assert_true(cadence_next(&june, z, us("9999-02-01T00:00:00Z"), &due));
    assert_int_equal(due.at_us, us("9999-06-01T00:00:00Z"));
    zone_free(z);
}

static void plans_have_clocks_too(void **state)
{
    (void)state;
    cadence c = {.repeats = false};
    calendar_plan plan = {.times = 2, .times_s = {2 * 3600 + 1800, 12 * 3600}};
    assert_int_equal(calendar_build(&plan, &c.calendar, NULL), PAWL_OK);
    gives(&c, "Europe/Berlin", "2026-03-28T00:00:00Z", "2026-03-28T01:30:00Z", "2026-03-28T11:00:00Z", "2026-03-29T01:00:00Z",
          "2026-03-29T10:00:00Z", NULL);
}

static void notes_say_where_it_bites(void **state)
{
    (void)state;
    cadence c = cron("30 2 * * *");
    cadence_due due;
    zone *z = load("Europe/Berlin");
    assert_true(cadence_next(&c, z, us("2026-03-28T12:00:00Z"), &due));
    assert_int_equal(due.note, DUE_MOVED);
    assert_int_equal(due.missing_s * PAWL_SECOND, us("2026-03-29T02:30:00Z"));
    assert_int_equal(due.offset_s, 7200);
    assert_true(cadence_prev(&c, z, us("2026-03-29T12:00:00Z"), &due));
    assert_int_equal(due.note, DUE_MOVED);
    cadence more = cron("*/30 2,3 * * *"); /* 3:00 is asked for as well */
    assert_true(cadence_next(&more, z, us("2026-03-28T12:00:00Z"), &due));
    assert_int_equal(due.note, DUE_MOVED);
    assert_true(cadence_prev(&more, z, us("2026-03-29T01:00:01Z"), &due));
    assert_int_equal(due.note, DUE_MOVED);
    assert_int_equal(due.missing_s * PAWL_SECOND, us("2026-03-29T02:00:00Z"));
    assert_true(cadence_next(&c, z, us("2026-10-24T12:00:00Z"), &due));
    assert_int_equal(due.note, DUE_FIRST_OF_TWO);
    c.overlap = OVERLAP_BOTH;
    assert_true(cadence_next(&c, z, due.at_us, &due));
    assert_int_equal(due.note, DUE_SECOND_OF_TWO);
    assert_true(cadence_next(&c, z, due.at_us, &due));
    assert_int_equal(due.note, DUE_PLAIN);
    assert_false(due.skipped);
    c.gap = GAP_SKIP;
    assert_true(cadence_next(&c, z, us("2026-03-28T12:00:00Z"), &due));
    assert_int_equal(due.at_us, us("2026-03-30T00:30:00Z"));
    assert_true(due.skipped);
    assert_int_equal(due.missing_s * PAWL_SECOND, us("2026-03-29T02:30:00Z"));
    zone_free(z);
}

static void microseconds_count(void **state)
{
    (void)state;
    cadence c = cron("* * * * * *");
    cadence_due due;
    zone *z = load(NULL);
    assert_true(cadence_next(&c, z, 1000000, &due));
    assert_int_equal(due.at_us, 2000000);
    assert_true(cadence_next(&c, z, 999999, &due));
    assert_int_equal(due.at_us, 1000000);
    assert_true(cadence_prev(&c, z, 1000001, &due));
    assert_int_equal(due.at_us, 1000000);
    assert_true(cadence_prev(&c, z, 1000000, &due));
    assert_int_equal(due.at_us, 0);
    assert_false(cadence_prev(&c, z, 0, &due));
    assert_false(cadence_prev(&c, z, INT64_MIN, &due));
    assert_true(cadence_next(&c, z, INT64_MIN, &due));
    assert_int_equal(due.at_us, 0);
    assert_false(cadence_next(&c, z, INT64_MAX, &due));
    assert_false(cadence_next(&c, z, us("9999-12-31T23:59:59Z"), &due));
    assert_true(cadence_prev(&c, z, INT64_MAX, &due));
    assert_int_equal(due.at_us, us("9999-12-31T23:59:59Z"));
    zone_free(z);
}

/* Silences of decades, through hundreds of changes of the clock; the last fire time before 10000 and the first after 1970. */
static void long_silences(void **state)
{
    (void)state;
    cadence c = cron("30 2 29 2 *"), sunday = cron("30 2 * 2 TUE#5"), new_year = cron("0 0 1 1 *");
    cadence_due due;
    gives(&c, "America/New_York", "2096-03-01T00:00:00Z", "2104-02-29T07:30:00Z", "2108-02-29T07:30:00Z", NULL);
    gives(&sunday, "America/New_York", "2084-03-01T00:00:00Z", "2124-02-29T07:30:00Z", "2152-02-29T07:30:00Z", NULL);
    zone *z = load("America/New_York");
    clock_t begin = clock();
    for (int i = 0; i < 10000; i++) {
        assert_true(cadence_next(&sunday, z, us("2084-03-01T00:00:00Z"), &due));
        assert_true(cadence_prev(&sunday, z, us("2124-02-28T00:00:00Z"), &due));
    }
    assert_true((double)(clock() - begin) / CLOCKS_PER_SEC < 10); /* a walk by days would take minutes */
    assert_true(cadence_prev(&new_year, z, INT64_MAX, &due));
    assert_int_equal(due.at_us, us("9999-01-01T05:00:00Z"));
    assert_false(cadence_next(&new_year, z, due.at_us, &due));
    assert_false(cadence_prev(&new_year, z, us("1970-01-01T05:00:00Z"), &due));
    cadence daily = cron("0 0 * * *");
    assert_false(cadence_prev(&daily, z, us("1970-01-01T05:00:00Z"), &due));
    zone_free(z);
}

/* ---- by local times, one after the other ---- */

#define SOME 10
#define MORE 40

static int by_value(const void *a, const void *b)
{
    int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
    return (x > y) - (x < y);
}

/* The instants of MORE local times from two days before the start on: in order, each once, behind the start. */
static int walk(const cadence *c, const zone *z, int64_t start_s, int64_t out[2 * MORE])
{
    int n = 0, kept = 0;
    int64_t local = start_s - 2 * 86400, first, last;
    for (int i = 0; i < MORE && calendar_next(&c->calendar, local, &local); i++, local++) {
        zone_fit fit = zone_local(z, local, &first, &last);
        if (fit == ZONE_GAP && c->gap == GAP_SKIP) continue;
        if (first > start_s) out[n++] = first;
        if (fit == ZONE_TWICE && c->overlap == OVERLAP_BOTH && last > start_s) out[n++] = last;
    }
    qsort(out, (size_t)n, sizeof *out, by_value);
    for (int i = 0; i < n; i++)
        if (kept == 0 || out[kept - 1] != out[i]) out[kept++] = out[i];
    return kept;
}

/* What is far away is found by jumps: none of them may go too far. */
static void jumps_miss_nothing(void **state)
{
    (void)state;
    static const char *const zones[] = {"Europe/Berlin",     "America/New_York", "Australia/Lord_Howe", "Pacific/Apia",
                                        "Africa/Casablanca", "Antarctica/Troll", "Asia/Tehran",         "America/Sao_Paulo",
                                        "Asia/Beirut",       "Antarctica/Casey"};
    static const char *const days[] = {"* * SUN",         "* * SUNL",  "29 2 *",   "L 3,10 *", "25-31 3,10 SUN",
                                       "* 3,4,9,10,11 *", "* 2 SUN#5", "1W 1,7 *", "30 12 *"};
    rng r;
    rng_init(&r, 13);
    for (int i = 0; i < 3000; i++) {
        char text[64];
        int64_t want[2 * MORE], start = (int64_t)rng_below(&r, 3800000000u) + 31536000;
        zone *z = load(zones[rng_below(&r, COUNT(zones))]);
        snprintf(text, sizeof text, "%d,45 %d,2 %s", (int)rng_below(&r, 45), (int)rng_below(&r, 24),
                 days[rng_below(&r, COUNT(days))]);
        cadence c = cron(text);
        c.gap = rng_below(&r, 2) ? GAP_RUN : GAP_SKIP;
        c.overlap = rng_below(&r, 2) ? OVERLAP_FIRST : OVERLAP_BOTH;
        int n = walk(&c, z, start, want);
        cadence_due due = {.at_us = start * PAWL_SECOND};
        assert_true(n > SOME);
        for (int k = 0; k < SOME; k++) {
            assert_true(cadence_next(&c, z, due.at_us, &due));
            if (due.at_us != want[k] * PAWL_SECOND)
                fail_msg("%s in %s after %lld: %lld", text, zone_name(z), (long long)start, (long long)due.at_us / 1000000);
        }
        for (int k = SOME - 2; k >= 0; k--) {
            assert_true(cadence_prev(&c, z, due.at_us, &due));
            if (due.at_us != want[k] * PAWL_SECOND)
                fail_msg("%s in %s back to %lld: %lld", text, zone_name(z), (long long)want[k], (long long)due.at_us / 1000000);
        }
        zone_free(z);
    }
}

/* ---- by definition ---- */

#define MINUTES (60 * 60) /* looked at around each change: 30 hours before it and after it */
#define BEFORE (30 * 60)
#define LOOK_BACK (30 * 60)

typedef struct written {
    uint64_t minutes;
    uint32_t hours;
    uint8_t weekdays;
    char text[512];
} written;

typedef struct world {
    int64_t begin_s;                    /* of `local` */
    int64_t local[LOOK_BACK + MINUTES]; /* what the clock shows in each minute, in minutes */
    rng random;
    int zones, changes, dues;
} world;

static void list(char *out, uint64_t set)
{
    for (int i = 0; i < 64; i++)
        if (set >> i & 1) out += sprintf(out, "%s%d", out[-1] == ' ' ? "" : ",", i);
}

/* Hours near the change, a few minutes, perhaps weekdays; or every hour. */
static written some_expression(rng *r, int hour)
{
    written w = {.weekdays = rng_below(r, 3) ? 0x7f : (uint8_t)(rng_below(r, 127) + 1)};
    for (int n = (int)rng_below(r, 4) + 1; n > 0; n--) {
        w.minutes |= UINT64_C(1) << (rng_below(r, 12) * 5);
        w.hours |= UINT32_C(1) << ((hour + 24 - 3 + (int)rng_below(r, 6)) % 24);
    }
    if (rng_below(r, 5) == 0) w.hours = 0xffffff;
    char *out = w.text;
    *out++ = ' ';
    list(out, w.minutes), strcat(w.text, " ");
    list(strchr(out, '\0'), w.hours), strcat(w.text, " * * ");
    list(strchr(out, '\0'), w.weekdays);
    return w;
}

static bool asks_for(const written *w, int64_t minute)
{
    int64_t hour = (minute - (minute % 60 + 60) % 60) / 60, day = (hour - (hour % 24 + 24) % 24) / 24;
    return (w->minutes >> (minute - hour * 60) & 1) && (w->hours >> (hour - day * 24) & 1) &&
           (w->weekdays >> ((day + 4) % 7) & 1);
}

/* Every minute of UTC that is due in the window, by the words of cadence.h. */
static int define(const world *w, const written *e, bool run, bool first, int64_t *out)
{
    int n = 0;
    int64_t reached = w->local[0];
    for (int i = 0; i < LOOK_BACK + MINUTES; i++) {
        int64_t shown = w->local[i];
        bool due = asks_for(e, shown) && (!first || shown >= reached);
        for (int64_t missed = reached; run && missed < shown; missed++) due |= asks_for(e, missed);
        if (due && i >= LOOK_BACK) out[n++] = w->begin_s + i * INT64_C(60);
        if (shown >= reached) reached = shown + 1;
    }
    return n;
}

static void compare(world *w, const zone *z, const written *e, cadence *c, bool run, bool first)
{
    static int64_t want[MINUTES];
    int n = define(w, e, run, first, want);
    int64_t t = (w->begin_s + LOOK_BACK * 60) * PAWL_SECOND - 1, end = t + MINUTES * PAWL_MINUTE;
    cadence_due due;
    for (int i = 0; i < n; i++) {
        assert_true(cadence_next(c, z, t, &due));
        if (due.at_us != want[i] * PAWL_SECOND)
            fail_msg("%s in %s (%d %d): %lld, not %lld", e->text, zone_name(z), run, first, (long long)due.at_us / 1000000,
                     (long long)want[i]);
        t = due.at_us;
    }
    if (cadence_next(c, z, t, &due) && due.at_us <= end)
        fail_msg("%s in %s (%d %d): %lld is one too many", e->text, zone_name(z), run, first, (long long)due.at_us / 1000000);
    t = end + 1;
    for (int i = n - 1; i >= 0; i--) {
        assert_true(cadence_prev(c, z, t, &due));
        if (due.at_us != want[i] * PAWL_SECOND)
            fail_msg("%s in %s (%d %d): back to %lld, not %lld", e->text, zone_name(z), run, first,
                     (long long)due.at_us / 1000000, (long long)want[i]);
        t = due.at_us;
    }
    w->dues += n;
}

static int64_t libc_offset(int64_t utc_s)
{
    struct tm tm;
    time_t t = (time_t)utc_s;
    localtime_r(&t, &tm);
    return tm.tm_gmtoff;
}

/* Asks for every minute where a quarter of an hour ends with another offset than it began with. */
static void look_at_clock(world *w)
{
    for (int i = 0; i < LOOK_BACK + MINUTES; i += 15) {
        int64_t at = w->begin_s + i * 60, offset = libc_offset(at);
        bool same = libc_offset(at + 15 * 60) == offset;
        for (int k = 0; k < 15; k++) w->local[i + k] = (at + k * 60 + (same ? offset : libc_offset(at + k * 60))) / 60;
    }
}

static void around_change(world *w, const zone *z, int64_t change_s)
{
    w->begin_s = change_s / 60 * 60 - (BEFORE + LOOK_BACK) * 60;
    look_at_clock(w);
    int hour = (int)(w->local[BEFORE + LOOK_BACK] / 60 % 24);
    for (int i = 0; i < 4; i++) {
        written e = some_expression(&w->random, hour);
        cadence c = cron(e.text);
        bool flows = e.hours == 0xffffff;
        compare(w, z, &e, &c, !flows, !flows);
        int gap = (int)rng_below(&w->random, 2), overlap = (int)rng_below(&w->random, 2);
        c.gap = gap ? GAP_RUN : GAP_SKIP;
        c.overlap = overlap ? OVERLAP_FIRST : OVERLAP_BOTH;
        compare(w, z, &e, &c, gap, overlap);
    }
    w->changes++;
}

static int64_t from_s, until_s;

static bool one_zone(void *ctx, const char *name)
{
    world *w = ctx;
    zone *z = load(name);
    setenv("TZ", name, 1);
    tzset();
    for (int64_t t = zone_at(z, from_s).until_s; t < until_s; t = zone_at(z, t).until_s)
        if (t % 60 == 0) around_change(w, z, t); /* but for Liberia in 1972, whose clock no minute can show */
    zone_free(z);
    w->zones++;
    return true;
}

static void every_zone(const char *from, const char *until, int zones, int changes)
{
    static world w;
    pawl_error err;
    rng_init(&w.random, 3);
    w.zones = w.changes = w.dues = 0;
    from_s = us(from) / PAWL_SECOND;
    until_s = us(until) / PAWL_SECOND;
    assert_int_equal(zone_list(NULL, one_zone, &w, &err), PAWL_OK);
    unsetenv("TZ");
    tzset();
    print_message("%d zones, %d changes, %d dues\n", w.zones, w.changes, w.dues);
    assert_true(w.zones > zones && w.changes > changes);
}

static void every_zone_and_the_changes_of_ten_years(void **state)
{
    (void)state;
    every_zone("2018-01-01T00:00:00Z", "2028-01-01T00:00:00Z", 400, 1500);
}

static void every_zone_and_every_change_since_1970(void **state)
{
    (void)state;
    every_zone("1971-01-01T00:00:00Z", "2100-01-01T00:00:00Z", 400, 15000);
}

/* Clocks that nobody has: changes within hours of each other, by up to a day. Held against the definition by seconds of a zone of our
 * own, whose local clock is known from its making. */
static void clocks_that_nobody_has(void **state)
{
    (void)state;
    rng r;
    rng_init(&r, 5);
    for (int i = 0; i < 2000; i++) {
        tzif t = {.version = '2', .types = 8, .letters = "ABC\0", .rule = ""};
        tzif_bytes bytes;
        zone *z = NULL;
        world *w = malloc(sizeof *w);
        w->begin_s = us("2026-06-10T00:00:00Z") / PAWL_SECOND - LOOK_BACK * 60;
        for (int k = 0; k < t.types; k++) t.type[k].offset_s = ((int)rng_below(&r, 50 * 4) - 24 * 4) * 900;
        t.times = 1 + (int)rng_below(&r, 6);
        int64_t at = w->begin_s + 3600 * (1 + (int64_t)rng_below(&r, 50));
        for (int k = 0; k < t.times; k++, at += 900 * (1 + (int64_t)rng_below(&r, 60)))
            t.at_s[k] = at, t.type_at[k] = (uint8_t)(k + 1);
        assert_int_equal(zone_read(alloc_default(), "odd", tzif_make(&bytes, &t), &z, NULL), PAWL_OK);
        for (int k = 0, now = 0; k < LOOK_BACK + MINUTES; k++) {
            while (now < t.times && t.at_s[now] <= w->begin_s + k * 60) now++;
            w->local[k] = (w->begin_s + k * 60 + t.type[now].offset_s) / 60;
        }
        written e = some_expression(&r, (int)rng_below(&r, 24));
        cadence c = cron(e.text);
        for (int policy = 0; policy < 4; policy++) {
            c.gap = policy & 1 ? GAP_RUN : GAP_SKIP;
            c.overlap = policy & 2 ? OVERLAP_FIRST : OVERLAP_BOTH;
            compare(w, z, &e, &c, policy & 1, policy & 2);
        }
        zone_free(z);
        free(w);
    }
}

/* ---- intervals ---- */

static cadence each(int64_t count, cadence_unit unit, const char *start)
{
    cadence c = {.repeats = true, .every = {unit, count, us(start)}};
    pawl_error err;
    if (interval_check(&c.every, &err)) fail_msg("%s", err.message);
    return c;
}

static void lengths_of_time(void **state)
{
    (void)state;
    cadence c = each(90, UNIT_SECOND, "2026-01-01T00:00:00.25Z");
    gives(&c, "UTC", "2025-01-01T00:00:00Z", "2026-01-01T00:00:00.25Z", "2026-01-01T00:01:30.25Z", "2026-01-01T00:03:00.25Z",
          NULL);
    gives(&c, "UTC", "2026-01-01T00:00:00.25Z", "2026-01-01T00:01:30.25Z", NULL);
    c = each(6, UNIT_HOUR, "2026-03-28T20:00:00Z"); /* whatever the clocks do */
    gives(&c, "Europe/Berlin", "2026-03-28T21:00:00Z", "2026-03-29T02:00:00Z", "2026-03-29T08:00:00Z", NULL);
    c = each(7, UNIT_MINUTE, "2026-01-01T00:00:00Z");
    gives(&c, "UTC", "2026-06-01T00:00:00Z", "2026-06-01T00:01:00Z", "2026-06-01T00:08:00Z", NULL);
}

static void days_keep_their_time(void **state)
{
    (void)state;
    cadence c = each(1, UNIT_DAY, "2026-03-27T01:30:00.5Z"); /* 2:30 in Berlin */
    gives(&c, "Europe/Berlin", "2026-01-01T00:00:00Z", "2026-03-27T01:30:00.5Z", "2026-03-28T01:30:00.5Z",
          "2026-03-29T01:00:00.5Z", "2026-03-30T00:30:00.5Z", NULL);
    gives(&c, "Europe/Berlin", "2026-03-28T01:30:00.25Z", "2026-03-28T01:30:00.5Z", "2026-03-29T01:00:00.5Z", NULL);
    gives(&c, "Europe/Berlin", "2026-03-28T01:30:00.75Z", "2026-03-29T01:00:00.5Z", NULL);
    c.gap = GAP_SKIP;
    gives(&c, "Europe/Berlin", "2026-01-01T00:00:00Z", "2026-03-27T01:30:00.5Z", "2026-03-28T01:30:00.5Z",
          "2026-03-30T00:30:00.5Z", NULL);
    c = each(2, UNIT_WEEK, "2026-10-11T00:30:00Z");
    gives(&c, "Europe/Berlin", "2026-10-01T00:00:00Z", "2026-10-11T00:30:00Z", "2026-10-25T00:30:00Z", "2026-11-08T01:30:00Z",
          NULL);
    c.overlap = OVERLAP_BOTH;
    gives(&c, "Europe/Berlin", "2026-10-11T00:30:00Z", "2026-10-25T00:30:00Z", "2026-10-25T01:30:00Z", "2026-11-08T01:30:00Z",
          NULL);
    c = each(1, UNIT_DAY, "2026-10-25T01:30:00Z"); /* starts at the second 2:30: not an hour earlier, and only once */
    gives(&c, "Europe/Berlin", "2026-10-01T00:00:00Z", "2026-10-25T01:30:00Z", "2026-10-26T01:30:00Z", NULL);
    c.overlap = OVERLAP_BOTH;
    gives(&c, "Europe/Berlin", "2026-10-01T00:00:00Z", "2026-10-25T01:30:00Z", "2026-10-26T01:30:00Z", NULL);
}

static void months_are_clamped_and_come_back(void **state)
{
    (void)state;
    cadence c = each(1, UNIT_MONTH, "2026-01-31T09:00:00Z");
    gives(&c, "UTC", "2026-01-01T00:00:00Z", "2026-01-31T09:00:00Z", "2026-02-28T09:00:00Z", "2026-03-31T09:00:00Z",
          "2026-04-30T09:00:00Z", "2026-05-31T09:00:00Z", NULL);
    gives(&c, "UTC", "2028-02-28T09:00:00Z", "2028-02-29T09:00:00Z", "2028-03-31T09:00:00Z", NULL);
    gives(&c, "UTC", "2126-02-01T00:00:00Z", "2126-02-28T09:00:00Z", "2126-03-31T09:00:00Z", NULL);
    c = each(1, UNIT_YEAR, "2024-02-29T00:00:00Z");
    gives(&c, "UTC", "2024-02-29T00:00:00Z", "2025-02-28T00:00:00Z", "2026-02-28T00:00:00Z", "2027-02-28T00:00:00Z",
          "2028-02-29T00:00:00Z", NULL);
    c = each(5, UNIT_MONTH, "2026-01-31T02:30:00Z");
    gives(&c, "UTC", "2026-02-01T00:00:00Z", "2026-06-30T02:30:00Z", "2026-11-30T02:30:00Z", "2027-04-30T02:30:00Z",
          "2027-09-30T02:30:00Z", "2028-02-29T02:30:00Z", NULL);
    c = each(2, UNIT_MONTH, "2026-01-29T01:30:00Z"); /* 2:30 in Berlin, in the gap two months later */
    gives(&c, "Europe/Berlin", "2026-01-29T01:30:00Z", "2026-03-29T01:00:00Z", "2026-05-29T00:30:00Z", NULL);
}

/* Clocks that went back by more than a day: what an interval asks for was shown before it began, and does not count. */
static void nothing_before_the_start(void **state)
{
    (void)state;
    tzif t = {.version = '2', .types = 2, .type = {{12 * 3600, 0, 0}, {-14 * 3600, 0, 0}}, .letters = "ABC\0", .rule = ""};
    tzif_bytes bytes;
    zone *z = NULL;
    cadence_due due;
    t.times = 1, t.at_s[0] = us("2026-06-10T00:00:00Z") / PAWL_SECOND, t.type_at[0] = 1;
    assert_int_equal(zone_read(alloc_default(), "odd", tzif_make(&bytes, &t), &z, NULL), PAWL_OK);
    cadence c = each(1, UNIT_DAY, "2026-06-10T00:30:00Z"); /* 10:30 of the 9th; 10:30 of the 10th was 22:30 UTC of the 9th */
    assert_true(cadence_prev(&c, z, us("2026-06-10T00:45:00Z"), &due));
    assert_int_equal(due.at_us, us("2026-06-10T00:30:00Z"));
    assert_false(cadence_prev(&c, z, due.at_us, &due));
    assert_true(cadence_next(&c, z, us("2026-06-01T00:00:00Z"), &due));
    assert_int_equal(due.at_us, us("2026-06-10T00:30:00Z"));
    zone_free(z);
}

/* Whatever the interval, next goes through prev's answers and back. */
static void intervals_there_and_back(void **state)
{
    (void)state;
    static const char *const zones[] = {"UTC",          "Europe/Berlin", "America/New_York", "Australia/Lord_Howe",
                                        "Pacific/Apia", "Africa/Cairo"};
    rng r;
    rng_init(&r, 9);
    for (size_t i = 0; i < COUNT(zones); i++) {
        zone *z = load(zones[i]);
        for (int k = 0; k < 2000; k++) {
            cadence c = {.repeats = true, .gap = (cadence_gap)rng_below(&r, 3), .overlap = (cadence_overlap)rng_below(&r, 3)};
            c.every = (interval){(cadence_unit)(1 + rng_below(&r, 7)), 1 + (int64_t)rng_below(&r, 40),
                                 (int64_t)rng_below(&r, 2000000000000000)};
            assert_int_equal(interval_check(&c.every, NULL), PAWL_OK);
            cadence_due a, b, back;
            int64_t t = (int64_t)rng_below(&r, 4000000000000000);
            assert_true(cadence_next(&c, z, t, &a) && a.at_us > t && a.at_us >= c.every.start_us);
            assert_true(cadence_next(&c, z, a.at_us, &b) && b.at_us > a.at_us);
            assert_true(cadence_prev(&c, z, b.at_us, &back));
            assert_int_equal(back.at_us, a.at_us);
            if (cadence_prev(&c, z, a.at_us, &back)) assert_true(back.at_us <= t && back.at_us >= c.every.start_us);
            else assert_int_equal(a.at_us, c.every.start_us);
        }
        zone_free(z);
    }
}

static void intervals_that_are_refused(void **state)
{
    (void)state;
    static const struct {
        interval i;
        const char *says;
    } bad[] = {
        {{UNIT_NONE, 1, 0}, "has no unit 0"},
        {{UNIT_COUNT, 1, 0}, "has no unit"},
        {{UNIT_DAY, 0, 0}, "0 days is out of range: 1 to 36500"},
        {{UNIT_DAY, -3, 0}, "-3 days"},
        {{UNIT_MONTH, 1201, 0}, "1201 months is out of range: 1 to 1200"},
        {{UNIT_SECOND, INT64_MAX, 0}, "out of range"},
        {{UNIT_DAY, 1, -1}, "before 1970"},
        {{UNIT_DAY, 1, INT64_MAX}, "after 9999"},
    };
    for (size_t i = 0; i < COUNT(bad); i++) {
        pawl_error err = {0};
        assert_int_equal(interval_check(&bad[i].i, &err), PAWL_INVALID);
        if (!strstr(err.message, bad[i].says)) fail_msg("%s", err.message);
    }
}

static void the_largest_intervals_end_in_time(void **state)
{
    (void)state;
    static const int64_t most[] = {0, INT64_C(3153600000), 52560000, 876000, 36500, 5200, 1200, 100};
    zone *z = load("America/New_York");
    for (int unit = UNIT_SECOND; unit < UNIT_COUNT; unit++) {
        cadence c = {.repeats = true, .every = {(cadence_unit)unit, most[unit], us("9998-12-31T23:59:59Z")}};
        cadence_due due;
        assert_int_equal(interval_check(&c.every, NULL), PAWL_OK);
        assert_true(cadence_next(&c, z, 0, &due));
        assert_int_equal(due.at_us, c.every.start_us);
        assert_false(cadence_next(&c, z, due.at_us, &due));
        assert_false(cadence_next(&c, z, INT64_MAX, &due));
        assert_true(cadence_prev(&c, z, INT64_MAX, &due));
        assert_int_equal(due.at_us, c.every.start_us);
        assert_false(cadence_prev(&c, z, c.every.start_us, &due));
    }
    zone_free(z);
}

static void in_words(void **state)
{
    (void)state;
    buf b;
    buf_init(&b, alloc_default(), 4096);
    cadence c = each(1, UNIT_MONTH, "2026-01-31T09:00:00Z");
    cadence_words(&c, &b), buf_str(&b, "; ");
    c = each(15, UNIT_SECOND, "2026-01-31T09:00:00Z");
    cadence_words(&c, &b), buf_str(&b, "; ");
    c = cron("0 9 * * 1");
    cadence_words(&c, &b);
    assert_string_equal(buf_text(&b), "every month; every 15 seconds; at 09:00 on Mondays");
    buf_done(&b);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(gaps),
        cmocka_unit_test(overlaps),
        cmocka_unit_test(every_hour_means_every_hour),
        cmocka_unit_test(a_gap_at_the_end_of_time),
        cmocka_unit_test(plans_have_clocks_too),
        cmocka_unit_test(notes_say_where_it_bites),
        cmocka_unit_test(microseconds_count),
        cmocka_unit_test(long_silences),
        cmocka_unit_test(jumps_miss_nothing),
        cmocka_unit_test(every_zone_and_the_changes_of_ten_years),
        cmocka_unit_test(clocks_that_nobody_has),
        cmocka_unit_test(lengths_of_time),
        cmocka_unit_test(days_keep_their_time),
        cmocka_unit_test(months_are_clamped_and_come_back),
        cmocka_unit_test(nothing_before_the_start),
        cmocka_unit_test(intervals_there_and_back),
        cmocka_unit_test(intervals_that_are_refused),
        cmocka_unit_test(the_largest_intervals_end_in_time),
        cmocka_unit_test(in_words),
    };
    const struct CMUnitTest longer[] = {cmocka_unit_test(every_zone_and_every_change_since_1970)};
    if (argc > 1 && strcmp(argv[1], "long") == 0) return cmocka_run_group_tests(longer, NULL, NULL);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
