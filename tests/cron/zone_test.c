/* base/zone: reading files, spans, rules, local time, names. The C library's own zones are the other opinion. */
#include "base/zone.h"
#include "base/alloc.h"
#include "base/date.h"
#include "base/rand.h"
#include "base/text.h"
#include "cron/tzif.h"
#include "unit/cmocka_all.h"
#include "unit/test_allocator.h"
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

static zone *load(const char *name)
{
    zone *z = NULL;
    pawl_error err;
    if (zone_load(alloc_default(), NULL, name, &z, &err)) fail_msg("%s", err.message);
    return z;
}

static zone *made(const tzif *t)
{
    tzif_bytes b;
    zone *z = NULL;
    pawl_error err;
    if (zone_read(alloc_default(), "test", tzif_make(&b, t), &z, &err)) fail_msg("%s", err.message);
    return z;
}

static zone *ruled(const char *rule) { return made(&(tzif){.version = '3', .types = 1, .letters = "STD\0", .rule = rule}); }

static int64_t at(const char *text)
{
    int64_t us;
    assert_true(rfc3339_parse(text, &us));
    return us / PAWL_SECOND;
}

/* ---- spans ---- */

static void berlin_is_as_it_should_be(void **state)
{
    (void)state;
    zone *z = load("Europe/Berlin");
    assert_string_equal(zone_name(z), "Europe/Berlin");
    zone_span s = zone_at(z, at("2026-07-01T00:00:00Z"));
    assert_int_equal(s.from_s, at("2026-03-29T01:00:00Z"));
    assert_int_equal(s.until_s, at("2026-10-25T01:00:00Z"));
    assert_int_equal(s.offset_s, 7200);
    assert_true(s.summer);
    assert_string_equal(s.abbreviation, "CEST");
    assert_int_equal(s.reached_s, at("2026-03-29T02:00:00Z"));
    s = zone_at(z, s.until_s);
    assert_int_equal(s.offset_s, 3600);
    assert_false(s.summer);
    assert_string_equal(s.abbreviation, "CET");
    assert_int_equal(s.reached_s, at("2026-10-25T03:00:00Z"));
    zone_free(z);
}

static void years_far_away_follow_the_rule(void **state)
{
    (void)state;
    zone *z = load("America/New_York");
    zone_span s = zone_at(z, at("9876-07-01T00:00:00Z"));
    assert_int_equal(s.offset_s, -4 * 3600);
    assert_string_equal(s.abbreviation, "EDT");
    assert_int_equal((s.from_s + s.offset_s) % DAY_S, 3 * 3600);
    assert_int_equal(date_weekday(s.from_s / DAY_S), 0);
    zone_free(z);
}

static void beyond_the_ends_of_time_is_the_nearest_span(void **state)
{
    (void)state;
    zone *z = load("America/New_York");
    assert_int_equal(zone_at(z, INT64_MIN).from_s, ZONE_FIRST_S);
    assert_int_equal(zone_at(z, INT64_MIN).offset_s, zone_at(z, ZONE_FIRST_S).offset_s);
    assert_int_equal(zone_at(z, INT64_MAX).until_s, ZONE_LAST_S);
    assert_int_equal(zone_at(z, INT64_MAX).from_s, zone_at(z, ZONE_LAST_S - 1).from_s);
    zone_free(z);
}

/* ---- against the C library ---- */

static void same_as_libc(const zone *z, int64_t utc_s)
{
    struct tm tm;
    time_t t = (time_t)utc_s;
    zone_span s = zone_at(z, utc_s);
    assert_non_null(localtime_r(&t, &tm));
    if (s.offset_s == tm.tm_gmtoff && s.summer == (tm.tm_isdst > 0) && strcmp(s.abbreviation, tm.tm_zone) == 0) return;
    fail_msg("%s at %lld: %d %d %s, but libc says %ld %d %s", zone_name(z), (long long)utc_s, s.offset_s, s.summer,
             s.abbreviation, tm.tm_gmtoff, tm.tm_isdst, tm.tm_zone);
}

typedef struct tally {
    int zones, spans;
    rng random;
} tally;

/* Every change from 1850 to 2150, its neighbours, and some times until 2500. */
static bool compare_zone(void *ctx, const char *name)
{
    tally *n = ctx;
    zone *z = load(name);
    setenv("TZ", name, 1);
    tzset();
    for (int64_t t = at("2150-01-01T00:00:00Z"); t > -INT64_C(3786912000);) {
        zone_span s = zone_at(z, t);
        assert_true(s.from_s <= t && t < s.until_s);
        same_as_libc(z, s.from_s);
        same_as_libc(z, s.until_s - 1 < t + 366 * DAY_S ? s.until_s - 1 : t);
        t = s.from_s - 1;
        n->spans++;
    }
    for (int i = 0; i < 50; i++) same_as_libc(z, (int64_t)rng_below(&n->random, (uint64_t)at("2500-01-01T00:00:00Z")));
    zone_free(z);
    n->zones++;
    return true;
}

static void every_zone_agrees_with_the_c_library(void **state)
{
    (void)state;
    pawl_error err;
    tally n = {0};
    rng_init(&n.random, 1);
    assert_int_equal(zone_list(NULL, compare_zone, &n, &err), PAWL_OK);
    unsetenv("TZ");
    tzset();
    print_message("%d zones, %d spans\n", n.zones, n.spans);
    assert_true(n.zones > 400 && n.spans > 40000);
}

/* ---- local time ---- */

static void check_local(const zone *z, const char *local, zone_fit fit, const char *first, const char *last)
{
    int64_t a, b;
    zone_fit got = zone_local(z, at(local), &a, &b);
    if (got != fit || a != at(first) || b != at(last))
        fail_msg("%s in %s: %d, %lld and %lld", local, zone_name(z), (int)got, (long long)a, (long long)b);
}

static void local_times_in_gaps_and_overlaps(void **state)
{
    (void)state;
    zone *z = load("Europe/Berlin");
    check_local(z, "2026-01-01T12:00:00Z", ZONE_ONCE, "2026-01-01T11:00:00Z", "2026-01-01T11:00:00Z");
    check_local(z, "2026-03-29T01:59:59Z", ZONE_ONCE, "2026-03-29T00:59:59Z", "2026-03-29T00:59:59Z");
    check_local(z, "2026-03-29T02:00:00Z", ZONE_GAP, "2026-03-29T01:00:00Z", "2026-03-29T01:00:00Z");
    check_local(z, "2026-03-29T02:59:59Z", ZONE_GAP, "2026-03-29T01:00:00Z", "2026-03-29T01:00:00Z");
    check_local(z, "2026-03-29T03:00:00Z", ZONE_ONCE, "2026-03-29T01:00:00Z", "2026-03-29T01:00:00Z");
    check_local(z, "2026-10-25T01:59:59Z", ZONE_ONCE, "2026-10-24T23:59:59Z", "2026-10-24T23:59:59Z");
    check_local(z, "2026-10-25T02:00:00Z", ZONE_TWICE, "2026-10-25T00:00:00Z", "2026-10-25T01:00:00Z");
    check_local(z, "2026-10-25T02:59:59Z", ZONE_TWICE, "2026-10-25T00:59:59Z", "2026-10-25T01:59:59Z");
    check_local(z, "2026-10-25T03:00:00Z", ZONE_ONCE, "2026-10-25T02:00:00Z", "2026-10-25T02:00:00Z");
    zone_free(z);
    z = load("Australia/Lord_Howe"); /* half an hour */
    check_local(z, "2026-10-04T02:15:00Z", ZONE_GAP, "2026-10-03T15:30:00Z", "2026-10-03T15:30:00Z");
    check_local(z, "2026-04-05T01:45:00Z", ZONE_TWICE, "2026-04-04T14:45:00Z", "2026-04-04T15:15:00Z");
    zone_free(z);
    z = load("Pacific/Apia"); /* a day was left out */
    check_local(z, "2011-12-30T12:00:00Z", ZONE_GAP, "2011-12-30T10:00:00Z", "2011-12-30T10:00:00Z");
    zone_free(z);
}

/* Forward by two hours and back by one within a day; and a time that is shown three times. */
static void changes_that_follow_each_other_closely(void **state)
{
    (void)state;
    tzif t = {.version = '2', .types = 4, .letters = "AAA\0BBB\0CCC\0DDD\0", .rule = ""};
    t.type[1] = (tzif_type){7200, 1, 4};
    t.type[2] = (tzif_type){3600, 0, 8};
    t.type[3] = (tzif_type){-3600, 0, 12};
    t.times = 3;
    t.at_s[0] = at("2026-01-01T10:00:00Z"), t.type_at[0] = 1; /* 10:00 becomes 12:00 */
    t.at_s[1] = at("2026-01-01T11:00:00Z"), t.type_at[1] = 2; /* 13:00 becomes 12:00 */
    t.at_s[2] = at("2026-01-01T12:00:00Z"), t.type_at[2] = 3; /* 13:00 becomes 11:00 */
    zone *z = made(&t);
    zone_span s = zone_at(z, t.at_s[2]);
    assert_int_equal(s.reached_s, at("2026-01-01T13:00:00Z"));
    assert_int_equal(s.until_s, ZONE_LAST_S);
    check_local(z, "2026-01-01T12:30:00Z", ZONE_TWICE, "2026-01-01T10:30:00Z", "2026-01-01T13:30:00Z");
    check_local(z, "2026-01-01T11:30:00Z", ZONE_ONCE, "2026-01-01T12:30:00Z", "2026-01-01T12:30:00Z");
    check_local(z, "2026-01-01T10:30:00Z", ZONE_GAP, "2026-01-01T10:00:00Z", "2026-01-01T10:00:00Z");
    zone_free(z);
}

/* ---- rules ---- */

static void expect_span(const char *rule, const char *when, int offset_s, const char *from, const char *until)
{
    zone *z = ruled(rule);
    zone_span s = zone_at(z, at(when));
    if (s.offset_s != offset_s || s.from_s != at(from) || s.until_s != at(until))
        fail_msg("%s at %s: offset %d from %lld until %lld", rule, when, s.offset_s, (long long)s.from_s, (long long)s.until_s);
    zone_free(z);
}

static void rules_of_every_form(void **state)
{
    (void)state;
    expect_span("EST5EDT,M3.2.0,M11.1.0", "2026-06-01T00:00:00Z", -4 * 3600, "2026-03-08T07:00:00Z", "2026-11-01T06:00:00Z");
    expect_span("AAA0BBB,J60/0,J61/0", "2028-03-01T12:00:00Z", 3600, "2028-03-01T00:00:00Z", "2028-03-01T23:00:00Z");
    expect_span("AAA0BBB,59/0,J365", "2028-03-01T12:00:00Z", 3600, "2028-02-29T00:00:00Z", "2028-12-31T01:00:00Z");
    expect_span("<-03>3<-02>,M3.5.0/-2,M10.5.0/-1", "2026-06-01T00:00:00Z", -2 * 3600, "2026-03-29T01:00:00Z",
                "2026-10-25T01:00:00Z");
    expect_span("IST-2IDT,M3.4.4/26,M10.5.0", "2026-06-01T00:00:00Z", 3 * 3600, "2026-03-27T00:00:00Z", "2026-10-24T23:00:00Z");
    expect_span("AAA-12:30:15BBB-14,M1.1.1,M12.5.5/3:10:05", "2026-06-01T00:00:00Z", 14 * 3600, "2026-01-04T13:29:45Z",
                "2026-12-24T13:10:05Z");
    expect_span("IST-1GMT0,M10.5.0,M3.5.0/1", "2026-06-01T00:00:00Z", 3600, "2026-03-29T01:00:00Z", "2026-10-25T01:00:00Z");
}

/* A span is the same wherever in it one asks, also where the year's changes lie at its turn, or outside of it. */
static void spans_do_not_depend_on_who_asks(void **state)
{
    (void)state;
    static const char *const rules[] = {"XXX1EDT8,00,J365/23",        "AAA-14BBB12,J1/-167,365/167",
                                        "AAA0BBB12,J2/0,J2/0",        "AAA12BBB-13,M1.1.1/-100,M12.5.0/100",
                                        "AAA0BBB-24,J365/167,0/-167", "CET-1CEST,M3.5.0,M10.5.0/3"};
    for (size_t i = 0; i < sizeof rules / sizeof *rules; i++) {
        zone *z = ruled(rules[i]);
        for (int64_t t = at("2001-01-01T00:00:00Z"); t < at("2013-01-01T00:00:00Z");) {
            zone_span first = zone_at(z, t);
            assert_int_equal(first.from_s <= t, true);
            for (int64_t inside = first.from_s; inside < first.until_s; inside += 40000) {
                zone_span again = zone_at(z, inside);
                assert_memory_equal(&again.from_s, &first.from_s, 3 * sizeof first.from_s); /* from, until, reached */
                assert_int_equal(again.offset_s, first.offset_s);
            }
            t = first.until_s;
        }
        zone_free(z);
    }
}

/* Summer time through the whole year: its end and its next beginning are one moment. */
static void a_rule_may_leave_no_winter(void **state)
{
    (void)state;
    zone *z = ruled("XXX3EDT4,0/0,J365/23");
    for (int64_t t = at("2020-01-01T00:00:00Z"); t < at("2030-01-01T00:00:00Z"); t += 3601) {
        zone_span s = zone_at(z, t);
        assert_int_equal(s.offset_s, -4 * 3600);
        assert_true(s.from_s <= t && t < s.until_s && s.reached_s <= s.from_s + s.offset_s);
    }
    zone_free(z);
}

static void a_zone_of_one_rule(void **state)
{
    (void)state;
    zone *z = ruled("<+0545>-5:45");
    zone_span s = zone_at(z, 0);
    assert_int_equal(s.offset_s, 5 * 3600 + 45 * 60);
    assert_string_equal(s.abbreviation, "+0545");
    assert_int_equal(s.from_s, ZONE_FIRST_S);
    assert_int_equal(s.until_s, ZONE_LAST_S);
    assert_int_equal(s.reached_s, s.from_s + s.offset_s);
    zone_free(z);
}

static void rules_that_are_none(void **state)
{
    (void)state;
    static const char *const bad[] = {
        "CE-1",
        "CET",
        "CET-",
        "CET-25",
        "CET-1:60",
        "CET-1:",
        "<+03",
        "<+0>3",
        "<+03>",
        "CET-1C",
        "CET-1CEST",
        "CET-1CEST,",
        "CET-1CEST,M3.5.0",
        "CET-1CEST,M13.5.0,M10.5.0",
        "CET-1CEST,M0.5.0,M10.5.0",
        "CET-1CEST,M3.6.0,M10.5.0",
        "CET-1CEST,M3.0.0,M10.5.0",
        "CET-1CEST,M3.5.7,M10.5.0",
        "CET-1CEST,M3.5,M10.5.0",
        "CET-1CEST,J0,J3",
        "CET-1CEST,J366,J3",
        "CET-1CEST,366,3",
        "CET-1CEST,M3.5.0/168,M10.5.0",
        "CET-1CEST,M3.5.0,M10.5.0/",
        "CET-1CEST,M3.5.0,M10.5.0 ",
        "CET-1CEST,M3.5.0,M10.5.0,J1",
        "C\001T-1",
        "ABCDEFGHIJKLMNOP1",
        "CET0001",
        "CET-1CEST1x,M3.5.0,M10.5.0",
        "CET1:2:3:4",
    };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        tzif_bytes b;
        zone *z = NULL;
        pawl_error err = {0};
        pawl_bytes file = tzif_make(&b, &(tzif){.version = '2', .types = 1, .letters = "STD\0", .rule = bad[i]});
        if (zone_read(alloc_default(), "test", file, &z, &err) != PAWL_INVALID) fail_msg("\"%s\" was taken for a rule", bad[i]);
        assert_null(z);
        assert_non_null(strstr(err.message, "its rule"));
    }
}

/* ---- files ---- */

static const tzif small = {
    .version = '2',
    .times = 2,
    .at_s = {1000000, 2000000},
    .type_at = {1, 0},
    .types = 2,
    .type = {{3600, 0, 0}, {7200, 1, 4}},
    .letters = "CET\0CEST\0",
    .rule = "CET-1",
};

static void version_1_has_no_rule(void **state)
{
    (void)state;
    tzif t = small;
    t.version = '\0';
    t.at_s[0] = -5;
    zone *z = made(&t);
    assert_int_equal(zone_at(z, -6).offset_s, 3600);
    assert_int_equal(zone_at(z, -5).offset_s, 7200);
    assert_string_equal(zone_at(z, 0).abbreviation, "CEST");
    assert_int_equal(zone_at(z, ZONE_LAST_S - 1).from_s, 2000000);
    zone_free(z);
}

static void later_versions_are_read_like_the_second(void **state)
{
    (void)state;
    for (char version = '2'; version <= '5'; version++) {
        tzif t = small;
        t.version = version;
        t.at_s[0] = -(INT64_C(1) << 59); /* the beginning of the world */
        zone *z = made(&t);
        assert_int_equal(zone_at(z, 0).offset_s, 7200);
        assert_int_equal(zone_at(z, 0).from_s, ZONE_FIRST_S);
        assert_int_equal(zone_at(z, 3000000).offset_s, 3600);
        zone_free(z);
    }
}

static void refused(const tzif *t, const char *why)
{
    tzif_bytes b;
    zone *z = NULL;
    pawl_error err = {0};
    assert_int_equal(zone_read(alloc_default(), "test", tzif_make(&b, t), &z, &err), PAWL_INVALID);
    if (!strstr(err.message, why)) fail_msg("\"%s\" does not say \"%s\"", err.message, why);
    assert_null(z);
}

#define REFUSED(why, ...) \
    do {                  \
        tzif t = small;   \
        __VA_ARGS__;      \
        refused(&t, why); \
    } while (0)

static void damaged_files_are_refused_with_the_reason(void **state)
{
    (void)state;
    REFUSED("leap seconds", t.leaps = 1);
    REFUSED("no types", t.types = 0);
    REFUSED("counts disagree", t.standard_marks = 1);
    REFUSED("counts disagree", t.utc_marks = 3);
    REFUSED("not in order", t.at_s[1] = 1000000);
    REFUSED("out of range", t.at_s[1] = INT64_MAX);
    REFUSED("out of range", t.at_s[0] = INT64_MIN);
    REFUSED("unknown type", t.type_at[0] = 2);
    REFUSED("offset is out of range", t.type[1].offset_s = 26 * 3600);
    REFUSED("offset is out of range", t.type[1].offset_s = -25 * 3600);
    REFUSED("offset is out of range", t.type[1].offset_s = INT32_MIN);
    REFUSED("neither summer time nor standard time", t.type[0].summer = 2);
    REFUSED("abbreviation has no end", t.type[0].abbreviation = 9);
    REFUSED("abbreviation has no end", t.letters_count = 6);
}

static void bytes_refused(pawl_bytes bytes)
{
    zone *z = NULL;
    pawl_error err = {0};
    char *exact = malloc(bytes.len + !bytes.len);
    memcpy(exact, bytes.data, bytes.len);
    assert_int_equal(zone_read(alloc_default(), "test", (pawl_bytes){exact, bytes.len}, &z, &err), PAWL_INVALID);
    free(exact);
    assert_null(z);
}

static void files_cut_off_anywhere_are_refused(void **state)
{
    (void)state;
    tzif_bytes b;
    pawl_bytes whole = tzif_make(&b, &small);
    for (size_t n = 0; n < whole.len; n++) bytes_refused((pawl_bytes){whole.data, n});
    for (int i = 20; i < 44; i += 4) { /* a count that is far too large, in either part */
        tzif_bytes large = b;
        memset(large.data + i, 0xff, 4);
        bytes_refused((pawl_bytes){(const char *)large.data, large.len});
    }
    b.data[0] = 'X';
    bytes_refused(whole);
}

/* Whatever one byte becomes: refused, or a zone that can be asked. */
static void files_with_one_byte_wrong(void **state)
{
    (void)state;
    tzif_bytes b;
    pawl_bytes whole = tzif_make(&b, &small);
    for (size_t i = 0; i < whole.len; i++) {
        for (int to = 0; to < 256; to += 5) {
            zone *z = NULL;
            unsigned char was = b.data[i];
            b.data[i] = (unsigned char)to;
            if (zone_read(alloc_default(), "test", whole, &z, NULL) == PAWL_OK) {
                int64_t first, last;
                zone_span s = zone_at(z, 1500000);
                assert_true(s.from_s <= 1500000 && s.until_s > 1500000 && strlen(s.abbreviation) < 12);
                zone_local(z, 1500000, &first, &last);
                assert_true(first <= last);
            }
            zone_free(z);
            b.data[i] = was;
        }
    }
}

static void no_memory(void **state)
{
    (void)state;
    pawl_error err;
    for (int n = 1; n <= 3; n++) {
        zone *z = NULL;
        test_allocator t;
        test_allocator_init(&t);
        t.fail_at = n;
        pawl_status status = zone_load(&t.allocator, NULL, "Europe/Berlin", &z, &err);
        assert_int_equal(status, n <= 2 ? PAWL_NO_MEMORY : PAWL_OK);
        zone_free(z);
        assert_int_equal(t.outstanding, 0);
    }
}

/* ---- names ---- */

static void name_refused(const char *folder, const char *name, const char *why)
{
    zone *z = NULL;
    pawl_error err = {0};
    pawl_status status = zone_load(alloc_default(), folder, name, &z, &err);
    if (status != PAWL_INVALID || !strstr(err.message, why)) fail_msg("\"%s\": %d %s", name, (int)status, err.message);
    assert_null(z);
}

static void names_do_not_lead_out_of_the_folder(void **state)
{
    (void)state;
    static const char *const bad[] = {"../../../etc/passwd",
                                      "/etc/passwd",
                                      "Europe/../Europe/Berlin",
                                      "./UTC",
                                      "Europe//Berlin",
                                      "Europe/",
                                      "/UTC",
                                      ".",
                                      "..",
                                      "~",
                                      "Europe/.Berlin",
                                      "a b",
                                      "Europe\\Berlin",
                                      "Europe/B\xc3\xa4",
                                      "tzdata.zi",
                                      "%s%n",
                                      "zone.tab"};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) name_refused(NULL, bad[i], "is no time zone");
    name_refused(NULL, "", "is empty");
    name_refused(NULL, "Europe/\nBerlin", "control character");
    char longest[300] = {0};
    memset(longest, 'a', 299);
    name_refused(NULL, longest, "longer than 200 bytes");
    name_refused(NULL, "localtime", "another one on each machine");
    name_refused(NULL, "posixrules", "another one on each machine");
}

static void names_without_a_zone(void **state)
{
    (void)state;
    name_refused(NULL, "Europe/Atlantis", "there is no time zone \"Europe/Atlantis\" in /");
    name_refused(NULL, "Europe", "there is no time zone \"Europe\"");
    name_refused(NULL, "UTC/x", "there is no time zone");
    name_refused(NULL, "leapseconds", "it is no zone file");
    name_refused("/nowhere/at/all", "Europe/Berlin", "install the package tzdata");
}

static void leap_second_zones_are_refused(void **state)
{
    (void)state;
    char path[256];
    snprintf(path, sizeof path, "%s/right/Europe/Berlin", zone_folder());
    if (access(path, R_OK) != 0) skip();
    name_refused(NULL, "right/Europe/Berlin", "leap seconds");
}

static void utc_needs_no_files(void **state)
{
    (void)state;
    static const char *const names[] = {NULL, "UTC", "Etc/UTC"};
    for (int i = 0; i < 3; i++) {
        zone *z = NULL;
        assert_int_equal(zone_load(alloc_default(), "/nowhere/at/all", names[i], &z, NULL), PAWL_OK);
        assert_int_equal(zone_at(z, 0).offset_s, 0);
        assert_string_equal(zone_at(z, 0).abbreviation, "UTC");
        assert_string_equal(zone_name(z), names[i] ? names[i] : "UTC");
        zone_free(z);
    }
}

/* ---- a folder of our own ---- */

static char folder[64];

static int make_folder(void **state)
{
    (void)state;
    snprintf(folder, sizeof folder, "/tmp/pawl-zone-XXXXXX");
    return mkdtemp(folder) ? 0 : -1;
}

static void path_in(char out[128], const char *name) { snprintf(out, 128, "%s/%s", folder, name); }

static void put_file(const char *name, const void *data, size_t n)
{
    char path[128];
    path_in(path, name);
    FILE *f = fopen(path, "wb");
    assert_non_null(f);
    assert_int_equal(fwrite(data, 1, n, f), n);
    fclose(f);
}

static int drop_folder(void **state)
{
    (void)state;
    static const char *const names[] = {"Good/Zone",  "Good",  "Large",     "Pipe",    "Closed", "text",
                                        "posix/Zone", "posix", "localtime", ".hidden", ""};
    char path[128];
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        path_in(path, names[i]);
        remove(path);
    }
    return 0;
}

static bool remember(void *ctx, const char *name)
{
    char *names = ctx;
    strcat(names, name);
    strcat(names, " ");
    return true;
}

static bool stop(void *ctx, const char *name)
{
    (void)name;
    ++*(int *)ctx;
    return false;
}

static void a_folder_of_our_own(void **state)
{
    (void)state;
    static char large[70 << 10];
    char path[128], names[512] = "";
    tzif_bytes b;
    zone *z = NULL;
    pawl_error err;
    pawl_bytes good = tzif_make(&b, &small);
    path_in(path, "Good"), assert_int_equal(mkdir(path, 0700), 0);
    path_in(path, "posix"), assert_int_equal(mkdir(path, 0700), 0);
    put_file("Good/Zone", good.data, good.len);
    put_file("posix/Zone", good.data, good.len);
    put_file("localtime", good.data, good.len);
    put_file(".hidden", good.data, good.len);
    put_file("text", "TZ", 2);
    memcpy(large, good.data, good.len);
    put_file("Large", large, sizeof large);
    path_in(path, "Pipe"), assert_int_equal(mkfifo(path, 0600), 0);

    setenv("TZDIR", folder, 1);
    assert_string_equal(zone_folder(), folder);
    assert_int_equal(zone_load(alloc_default(), NULL, "Good/Zone", &z, &err), PAWL_OK);
    zone_free(z);
    name_refused(NULL, "Europe/Berlin", "there is no time zone");
    unsetenv("TZDIR");
    name_refused(folder, "Large", "it is too large");
    name_refused(folder, "Pipe", "there is no time zone");
    name_refused(folder, "text", "it is no zone file");
    assert_int_equal(zone_list(folder, remember, names, &err), PAWL_OK);
    assert_non_null(strstr(names, "Good/Zone "));
    assert_non_null(strstr(names, "Large "));
    assert_int_equal(strlen(names), strlen("Good/Zone Large "));
    int calls = 0;
    assert_int_equal(zone_list(folder, stop, &calls, &err), PAWL_OK);
    assert_int_equal(calls, 1);
    assert_int_equal(zone_list("/nowhere/at/all", stop, &calls, &err), PAWL_UNAVAILABLE);
    assert_int_equal(calls, 1);
}

/* A socket, which nobody can open, not even root. */
static void a_file_that_cannot_be_opened(void **state)
{
    (void)state;
    zone *z = NULL;
    pawl_error err = {0};
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    int fd = socket(AF_UNIX, SOCK_STREAM, 0);
    snprintf(address.sun_path, sizeof address.sun_path, "%s/Closed", folder);
    assert_int_equal(bind(fd, (struct sockaddr *)&address, sizeof address), 0);
    assert_int_equal(zone_load(alloc_default(), folder, "Closed", &z, &err), PAWL_UNAVAILABLE);
    assert_non_null(strstr(err.message, "could not read time zone \"Closed\""));
    close(fd);
}

static void a_folder_with_too_long_a_name(void **state)
{
    (void)state;
    static char longest[5000];
    memset(longest, '/', sizeof longest - 1);
    name_refused(longest, "Europe/Berlin", "there are no time zones");
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(berlin_is_as_it_should_be),
        cmocka_unit_test(years_far_away_follow_the_rule),
        cmocka_unit_test(beyond_the_ends_of_time_is_the_nearest_span),
        cmocka_unit_test(local_times_in_gaps_and_overlaps),
        cmocka_unit_test(changes_that_follow_each_other_closely),
        cmocka_unit_test(rules_of_every_form),
        cmocka_unit_test(spans_do_not_depend_on_who_asks),
        cmocka_unit_test(a_rule_may_leave_no_winter),
        cmocka_unit_test(a_zone_of_one_rule),
        cmocka_unit_test(rules_that_are_none),
        cmocka_unit_test(version_1_has_no_rule),
        cmocka_unit_test(later_versions_are_read_like_the_second),
        cmocka_unit_test(damaged_files_are_refused_with_the_reason),
        cmocka_unit_test(files_cut_off_anywhere_are_refused),
        cmocka_unit_test(files_with_one_byte_wrong),
        cmocka_unit_test(no_memory),
        cmocka_unit_test(names_do_not_lead_out_of_the_folder),
        cmocka_unit_test(names_without_a_zone),
        cmocka_unit_test(leap_second_zones_are_refused),
        cmocka_unit_test(utc_needs_no_files),
        cmocka_unit_test_setup_teardown(a_folder_of_our_own, make_folder, drop_folder),
        cmocka_unit_test_setup_teardown(a_file_that_cannot_be_opened, make_folder, drop_folder),
        cmocka_unit_test(a_folder_with_too_long_a_name),
    };
    const struct CMUnitTest all[] = {cmocka_unit_test(every_zone_agrees_with_the_c_library)};
    if (argc > 1 && strcmp(argv[1], "all") == 0) return cmocka_run_group_tests(all, NULL, NULL);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
