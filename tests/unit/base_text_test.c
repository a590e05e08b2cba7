/* text and rfc3339. */
#include "base/rand.h"
#include "base/text.h"
#include "unit/cmocka_all.h"
#include <stdio.h>
#include <string.h>
#include <time.h>

#define COUNT(a) (sizeof(a) / sizeof *(a))

/* ---- UTF-8 ---- */

/* Another way to decide it: decode by the bits, encode again, compare. */
static size_t encode(uint32_t code, unsigned char out[4])
{
    if (code < 0x80) return out[0] = (unsigned char)code, 1;
    if (code < 0x800) return out[0] = (unsigned char)(0xc0 + code / 64), out[1] = (unsigned char)(0x80 + code % 64), 2;
    size_t n = code < 0x10000 ? 3 : 4;
    out[0] = (unsigned char)(n == 3 ? 0xe0 + code / 4096 : 0xf0 + code / 262144);
    if (n == 4) out[1] = (unsigned char)(0x80 + code / 4096 % 64);
    out[n - 2] = (unsigned char)(0x80 + code / 64 % 64);
    out[n - 1] = (unsigned char)(0x80 + code % 64);
    return n;
}

static size_t reference_char(const unsigned char *at, size_t left)
{
    unsigned char again[4];
    size_t n = at[0] < 0x80 ? 1 : at[0] >> 5 == 6 ? 2 : at[0] >> 4 == 14 ? 3 : at[0] >> 3 == 30 ? 4 : 0;
    if (n == 0 || n > left) return 0;
    uint32_t code = n == 1 ? at[0] : at[0] & (0xffu >> (n + 1));
    for (size_t i = 1; i < n; i++) code = code << 6 | (at[i] & 0x3f);
    if ((code >= 0xd800 && code < 0xe000) || code > 0x10ffff) return 0;
    return encode(code, again) == n && memcmp(again, at, n) == 0 ? n : 0;
}

static void utf8_agrees_with_a_reference(void **state)
{
    (void)state;
    static const unsigned char edges[] = {0x00, 0x41, 0x7f, 0x80, 0x8f, 0x90, 0x9f, 0xa0, 0xbf, 0xc0, 0xc1, 0xc2,
                                          0xdf, 0xe0, 0xec, 0xed, 0xee, 0xef, 0xf0, 0xf1, 0xf4, 0xf5, 0xff};
    size_t valid = 0;
    for (size_t i = 0; i < COUNT(edges) * COUNT(edges) * COUNT(edges) * COUNT(edges); i++) {
        unsigned char text[4];
        for (size_t k = 0, rest = i; k < 4; k++, rest /= COUNT(edges)) text[k] = edges[rest % COUNT(edges)];
        for (size_t n = 1; n <= 4; n++) {
            size_t expected = reference_char(text, n);
            assert_int_equal(utf8_char((const char *)text, (const char *)text + n), expected);
            valid += expected == 4;
        }
    }
    assert_true(valid > 100);
}

static void utf8_takes_every_code_point(void **state)
{
    (void)state;
    for (uint32_t code = 0; code <= 0x110000; code++) {
        unsigned char text[4];
        size_t n = encode(code, text);
        bool expected = code <= 0x10ffff && !(code >= 0xd800 && code < 0xe000);
        if (utf8_valid((const char *)text, n) != expected) fail_msg("U+%04X", code);
        if (expected && n > 1 && utf8_valid((const char *)text, n - 1)) fail_msg("U+%04X cut", code);
    }
    assert_true(utf8_valid(NULL, 0));
}

static void utf8_cut_leaves_no_half_characters(void **state)
{
    (void)state;
    const char *text = "a\xc3\xa9z\xe2\x82\xac\xf0\x9f\x98\x80!";
    const size_t expected[] = {0, 1, 1, 3, 4, 4, 4, 7, 7, 7, 7, 11, 12};
    for (size_t n = 0; n < COUNT(expected); n++) assert_int_equal(utf8_cut(text, n), expected[n]);
    assert_int_equal(utf8_cut("\x80\x80\x80\x80\x80", 5), 5); /* not UTF-8 anyway */
    assert_int_equal(utf8_cut("\xf0\x9f\x98", 3), 0);
}

/* ---- names ---- */

static void names_are_checked(void **state)
{
    (void)state;
    static const struct {
        const char *name, *fault;
    } cases[] = {
        {"a", NULL},
        {"email.send", NULL},
        {"caf\xc3\xa9 \xf0\x9f\x98\x80", NULL},
        {"\xc2\xa0", NULL},
        {NULL, "is missing"},
        {"", "is empty"},
        {"a\nb", "contains a control character"},
        {"\x1f", "contains a control character"},
        {"a\x7f", "contains a control character"},
        {"a\xc2\x80", "contains a control character"},
        {"a\xc2\x9f", "contains a control character"},
        {"a\xff", "is not valid UTF-8"},
        {"\xc3", "is not valid UTF-8"},
    };
    for (size_t i = 0; i < COUNT(cases); i++) {
        const char *what = NULL;
        assert_int_equal(name_valid(cases[i].name, &what), cases[i].fault == NULL);
        assert_int_equal(name_valid(cases[i].name, NULL), cases[i].fault == NULL);
        if (cases[i].fault) assert_string_equal(what, cases[i].fault);
        else assert_null(what);
    }
    char name[NAME_MAX_BYTES + 2];
    memset(name, 'x', sizeof name);
    name[NAME_MAX_BYTES + 1] = '\0';
    const char *what;
    assert_false(name_valid(name, &what));
    assert_string_equal(what, "is longer than 200 bytes");
    name[NAME_MAX_BYTES] = '\0';
    assert_true(name_valid(name, NULL));
}

static void bytes_of_a_string(void **state)
{
    (void)state;
    assert_int_equal(pawl_str("abc").len, 3);
    assert_int_equal(pawl_str("").len, 0);
    assert_non_null(pawl_str("").data);
    assert_null(pawl_str(NULL).data);
    assert_int_equal(pawl_str(NULL).len, 0);
}

/* ---- numbers ---- */

static void lists_have_whole_names(void **state)
{
    (void)state;
    assert_true(csv_has("mail", "mail") && csv_has("mail,bulk", "mail") && csv_has("a,mail,b", "mail") &&
                csv_has("a,mail", "mail"));
    assert_false(csv_has("mailer,e-mail,mai", "mail") || csv_has("a,b", "a,") || csv_has("", "a") || csv_has(NULL, "a"));
}

static void ints_are_parsed_whole(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        int64_t value;
    } good[] = {
        {"0", 0}, {"-0", 0}, {"007", 7}, {"-12", -12}, {"9223372036854775807", INT64_MAX}, {"-9223372036854775808", INT64_MIN}};
    static const char *const wrong[] = {"",
                                        "-",
                                        "+1",
                                        " 1",
                                        "1 ",
                                        "1a",
                                        "0x10",
                                        "1.0",
                                        "--1",
                                        "9223372036854775808",
                                        "-9223372036854775809",
                                        "99999999999999999999999"};
    int64_t value;
    for (size_t i = 0; i < COUNT(good); i++) {
        assert_true(int_parse(good[i].text, INT64_MIN, INT64_MAX, &value));
        assert_int_equal(value, good[i].value);
    }
    value = 77;
    for (size_t i = 0; i < COUNT(wrong); i++) assert_false(int_parse(wrong[i], INT64_MIN, INT64_MAX, &value));
    assert_false(int_parse(NULL, 0, 1, &value));
    assert_false(int_parse("11", 1, 10, &value));
    assert_false(int_parse("0", 1, 10, &value));
    assert_int_equal(value, 77);
    assert_true(int_parse("10", 1, 10, &value) && int_parse("1", 1, 10, &value));
}

/* ---- durations ---- */

static void durations_are_parsed(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        int64_t us;
    } good[] = {
        {"0s", 0},
        {"90s", 90 * PAWL_SECOND},
        {"1h30m", 90 * PAWL_MINUTE},
        {"1h 30m", 90 * PAWL_MINUTE},
        {"250ms", 250000},
        {"1d", PAWL_DAY},
        {"2w", 14 * PAWL_DAY},
        {"10us", 10},
        {"1w1d1h1m1s1ms1us", 8 * PAWL_DAY + PAWL_HOUR + PAWL_MINUTE + PAWL_SECOND + 1001},
        {"1d5us", PAWL_DAY + 5},
        {"1.5h", 90 * PAWL_MINUTE},
        {"0.000001s", 1},
        {"4.2s", 4200000},
        {"1h0.5s", PAWL_HOUR + 500000},
        {"9223372036854775807us", INT64_MAX},
    };
    static const char *const wrong[] = {
        "",
        "5",
        "s",
        "-5s",
        "+5s",
        "5 s",
        "5s ",
        " 5s",
        "5S",
        "5sec",
        "1m1h",
        "1m1m",
        "1h  30m",
        "1h-30m",
        "1.5h30m",
        "1.s",
        ".5s",
        "0.0000001s",
        "1.5us",
        "1.1234567890d",
        "5s5",
        "9223372036854775808us",
        "9223372036854775807ms",
        "99999999999999999999s",
        "15250285w",
        "106751991d5h",
        "1h\n30m",
        "1,5h",
        "0.123456789w",
    };
    int64_t us;
    for (size_t i = 0; i < COUNT(good); i++) {
        if (!duration_parse(good[i].text, &us)) fail_msg("\"%s\" was refused", good[i].text);
        assert_int_equal(us, good[i].us);
    }
    us = 77;
    for (size_t i = 0; i < COUNT(wrong); i++)
        if (duration_parse(wrong[i], &us)) fail_msg("\"%s\" was taken for %lld us", wrong[i], (long long)us);
    assert_false(duration_parse(NULL, &us));
    assert_int_equal(us, 77);
}

static void durations_are_formatted_for_people(void **state)
{
    (void)state;
    static const struct {
        int64_t us;
        const char *text;
    } cases[] = {
        {0, "0s"},
        {10, "10us"},
        {999, "999us"},
        {1000, "1ms"},
        {1550, "1.5ms"},
        {250000, "250ms"},
        {999999, "999.9ms"},
        {PAWL_SECOND, "1s"},
        {4200000, "4.2s"},
        {59999999, "59.9s"},
        {PAWL_MINUTE, "1m"},
        {90 * PAWL_SECOND, "1m 30s"},
        {90 * PAWL_MINUTE, "1h 30m"},
        {PAWL_HOUR + 59 * PAWL_SECOND, "1h"},
        {PAWL_DAY, "1d"},
        {30 * PAWL_DAY + 5 * PAWL_HOUR, "30d 5h"},
        {-4200000, "-4.2s"},
        {INT64_MAX, "106751991d 4h"},
        {INT64_MIN, "-106751991d 4h"},
    };
    char text[DURATION_TEXT];
    for (size_t i = 0; i < COUNT(cases); i++) {
        duration_format(cases[i].us, text, sizeof text);
        assert_string_equal(text, cases[i].text);
    }
    duration_format(90 * PAWL_MINUTE, text, 3);
    assert_string_equal(text, "1h");
}

static void formatted_durations_can_be_parsed(void **state)
{
    (void)state;
    rng random;
    rng_init(&random, 5);
    for (int i = 0; i < 20000; i++) {
        int64_t us = (int64_t)(rng_next(&random) >> (1 + rng_below(&random, 62))), back;
        char text[DURATION_TEXT];
        duration_format(us, text, sizeof text);
        if (!duration_parse(text, &back)) fail_msg("\"%s\" was refused", text);
        assert_true(back <= us && us - back <= us / 10); /* cut, not rounded */
    }
}

/* ---- instants ---- */

static void check_instant(int64_t us)
{
    time_t second = (time_t)(us / PAWL_SECOND);
    struct tm tm;
    char expected[64], text[RFC3339_TEXT];
    gmtime_r(&second, &tm);
    snprintf(expected, sizeof expected, "%04d-%02d-%02dT%02d:%02d:%02d.%06dZ", tm.tm_year + 1900, tm.tm_mon + 1, tm.tm_mday,
             tm.tm_hour, tm.tm_min, tm.tm_sec, (int)(us % PAWL_SECOND));
    rfc3339_format(us, text);
    assert_string_equal(text, expected);
    int64_t back;
    assert_true(rfc3339_parse(text, &back));
    assert_int_equal(back, us);
}

static void instants_agree_with_the_c_library(void **state)
{
    (void)state;
    rng random;
    rng_init(&random, 11);
    const int64_t end = INT64_C(253402300800);
    for (int i = 0; i < 50000; i++)
        check_instant((int64_t)rng_below(&random, (uint64_t)end) * PAWL_SECOND + (int64_t)rng_below(&random, 1000000));
    static const int days[][2] = {{0, 1}, {1, 28}, {1, 29}, {2, 1}, {11, 31}};
    for (int year = 1970; year <= 9999; year++) {
        for (size_t i = 0; i < COUNT(days); i++) {
            struct tm tm = {.tm_year = year - 1900, .tm_mon = days[i][0], .tm_mday = days[i][1]};
            int64_t start = (int64_t)timegm(&tm) * PAWL_SECOND;
            check_instant(start);
            check_instant(start + PAWL_DAY - 1);
        }
    }
}

static void instants_are_parsed(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        int64_t us;
    } good[] = {
        {"1970-01-01T00:00:00Z", 0},
        {"2026-11-15T04:49:03Z", INT64_C(1794718143000000)},
        {"2026-11-15t04:49:03z", INT64_C(1794718143000000)},
        {"2026-11-15 04:49:03Z", INT64_C(1794718143000000)},
        {"2026-11-15T04:49:03.5Z", INT64_C(1794718143500000)},
        {"2026-11-15T04:49:03.123456789Z", INT64_C(1794718143123456)},
        {"2026-11-15T05:49:03+01:00", INT64_C(1794718143000000)},
        {"2026-11-14T23:19:03-05:30", INT64_C(1794718143000000)},
        {"2026-11-15T04:49:03-00:00", INT64_C(1794718143000000)},
        {"1969-12-31T23:30:00-01:00", 30 * PAWL_MINUTE},
        {"2016-12-31T23:59:60Z", INT64_C(1483228800000000)},
        {"2017-01-01T08:59:60+09:00", INT64_C(1483228800000000)},
        {"2024-02-29T00:00:00Z", INT64_C(1709164800000000)},
        {"9999-12-31T23:59:59.999999Z", INT64_C(253402300799999999)},
    };
    static const char *const wrong[] = {
        "",
        "2026-11-15",
        "2026-11-15T04:49:03",
        "2026-11-15T04:49Z",
        "2026-11-15T04:49:03.Z",
        "2026-11-15T04:49:03Z ",
        " 2026-11-15T04:49:03Z",
        "2026-11-15T04:49:03+01",
        "2026-11-15T04:49:03+0100",
        "2026-11-15T04:49:03+24:00",
        "2026-11-15T04:49:03+01:60",
        "2026-11-15T24:00:00Z",
        "2026-11-15T04:60:00Z",
        "2026-11-15T04:49:60Z",
        "2026-11-15T04:49:61Z",
        "2026-13-15T04:49:03Z",
        "2026-00-15T04:49:03Z",
        "2026-11-31T04:49:03Z",
        "2026-11-00T04:49:03Z",
        "2023-02-29T00:00:00Z",
        "2100-02-29T00:00:00Z",
        "26-11-15T04:49:03Z",
        "02026-11-15T04:49:03Z",
        "2026-1-15T04:49:03Z",
        "1969-12-31T23:59:59Z",
        "1970-01-01T00:00:00+00:01",
        "9999-12-31T23:59:59-00:01",
        "9999-12-31T23:59:60Z",
        "2026-11-15X04:49:03Z",
        "2026/11/15T04:49:03Z",
    };
    int64_t us;
    for (size_t i = 0; i < COUNT(good); i++) {
        if (!rfc3339_parse(good[i].text, &us)) fail_msg("\"%s\" was refused", good[i].text);
        assert_int_equal(us, good[i].us);
    }
    us = 77;
    for (size_t i = 0; i < COUNT(wrong); i++)
        if (rfc3339_parse(wrong[i], &us)) fail_msg("\"%s\" was accepted", wrong[i]);
    assert_false(rfc3339_parse(NULL, &us));
    assert_int_equal(us, 77);
}

static void instants_are_clamped(void **state)
{
    (void)state;
    char text[RFC3339_TEXT];
    rfc3339_format(INT64_MIN, text);
    assert_string_equal(text, "1970-01-01T00:00:00.000000Z");
    rfc3339_format(INT64_MAX, text);
    assert_string_equal(text, "9999-12-31T23:59:59.999999Z");
}

static void what_is_shown_is_harmless(void **state)
{
    (void)state;
    static const char *const texts[][2] = {
        {"plain", "plain"}, {"a\r\nb\x1b[m\x7f", "a??b?[m?"}, {"\xc2\x85x", "?x"}, {"\xc3\xbc\xff\xc3", "\xc3\xbc??"}, {"", ""}};
    char out[16];
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        text_show(texts[i][0], strlen(texts[i][0]), out, sizeof out);
        assert_string_equal(out, texts[i][1]);
    }
    text_show("abc\xe2\x98\x83", 6, out, 6); /* cut before the character that does not fit */
    assert_string_equal(out, "abc");
    text_show("a\0b", 3, out, sizeof out);
    assert_string_equal(out, "a?b");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(utf8_agrees_with_a_reference),
        cmocka_unit_test(utf8_takes_every_code_point),
        cmocka_unit_test(utf8_cut_leaves_no_half_characters),
        cmocka_unit_test(names_are_checked),
        cmocka_unit_test(bytes_of_a_string),
        cmocka_unit_test(lists_have_whole_names),
        cmocka_unit_test(ints_are_parsed_whole),
        cmocka_unit_test(durations_are_parsed),
        cmocka_unit_test(durations_are_formatted_for_people),
        cmocka_unit_test(formatted_durations_can_be_parsed),
        cmocka_unit_test(instants_agree_with_the_c_library),
        cmocka_unit_test(instants_are_parsed),
        cmocka_unit_test(instants_are_clamped),
        cmocka_unit_test(what_is_shown_is_harmless),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
