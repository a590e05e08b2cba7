/* json_valid against jansson, over every short text and over many generated and damaged ones, from a fixed seed.
 *
 * Where the two may differ (`difference` below), and nowhere else:
 *   accepted here, refused by jansson   escapes of lone surrogates (JSON by its grammar), numbers too large for a double or an int64,
 *                                       a NUL in a member name
 *   refused here, accepted by jansson   nesting deeper than JSON_DEPTH_MAX (jansson: 2048)
 */
#include "base/alloc.h"
#include "base/json.h"
#include "base/rand.h"
#include "unit/cmocka_all.h"
#include "unit/json_oracle.h"
#include <string.h>

typedef enum difference {
    AGREED_VALID,
    AGREED_INVALID,
    LONE_SURROGATE,
    HUGE_NUMBER,
    NUL_IN_KEY,
    TOO_DEEP,
    DISAGREED,
    DIFFERENCES
} difference;

static difference compare(const char *text, size_t n)
{
    const char *what = "";
    bool valid = json_valid((pawl_bytes){text, n}, NULL, &what);
    verdict theirs = oracle_verdict(text, n);
    if (!valid && theirs != VERDICT_VALID) return AGREED_INVALID;
    if (!valid) return strncmp(what, "nested too deep", 15) == 0 ? TOO_DEEP : DISAGREED;
    switch (theirs) {
    case VERDICT_VALID: return AGREED_VALID;
    case VERDICT_HUGE_NUMBER: return HUGE_NUMBER;
    case VERDICT_NUL_IN_KEY: return NUL_IN_KEY;
    case VERDICT_LONE_SURROGATE: return LONE_SURROGATE;
    default: return DISAGREED;
    }
}

static difference check(const char *text, size_t n)
{
    difference d = compare(text, n);
    if (d == DISAGREED) fail_msg("json_valid and jansson disagree on %zu bytes: %.*s", n, (int)n, text);
    return d;
}

static void known_differences(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        difference expected;
    } cases[] = {
        {"{\"a\":[1,2.5,\"x\"]}", AGREED_VALID}, {"\"\\u0000\"", AGREED_VALID},    {"[1,]", AGREED_INVALID},
        {"\"\\ud800\"", LONE_SURROGATE},         {"\"\\udc00x\"", LONE_SURROGATE}, {"1e999", HUGE_NUMBER},
        {"99999999999999999999", HUGE_NUMBER},   {"{\"\\u0000\":1}", NUL_IN_KEY},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        assert_int_equal(compare(cases[i].text, strlen(cases[i].text)), cases[i].expected);
    char deep[2 * (JSON_DEPTH_MAX + 1)];
    memset(deep, '[', sizeof deep / 2);
    memset(deep + sizeof deep / 2, ']', sizeof deep / 2);
    assert_int_equal(compare(deep, sizeof deep), TOO_DEEP);
    assert_int_equal(compare(deep + 1, sizeof deep - 2), AGREED_VALID);
}

static void every_short_text(void **state)
{
    (void)state;
    static const char alphabet[] = "[]{}\",:01-.e\\u \x01\xc3\xa9";
    const size_t letters = sizeof alphabet - 1;
    size_t seen[DIFFERENCES] = {0}, all = 1;
    for (size_t n = 0; n <= 4; n++, all *= letters) {
        for (size_t i = 0; i < all; i++) {
            char text[4];
            for (size_t k = 0, rest = i; k < n; k++, rest /= letters) text[k] = alphabet[rest % letters];
            seen[check(text, n)]++;
        }
    }
    assert_true(seen[AGREED_VALID] > 200);
    assert_true(seen[AGREED_INVALID] > 50000);
}

/* ---- generated texts ---- */

static void any_space(buf *out, rng *r)
{
    static const char *const spaces[] = {"", "", "", " ", "\n", "\t", "\r\n  "};
    buf_str(out, spaces[rng_below(r, 7)]);
}

static void any_string(buf *out, rng *r)
{
    static const char *const pieces[] = {
        "a",        "key",          "some longer plain text", "\\n",     "\\\"", "\\\\", "\\u00e9", "\\ud83d\\ude00", "\\u0000",
        "\xc3\xa9", "\xe2\x82\xac", "\xf0\x9f\x98\x80",       "\\ud800", "/",    "\\/"};
    buf_char(out, '"');
    for (uint64_t n = rng_below(r, 5); n > 0; n--) buf_str(out, pieces[rng_below(r, sizeof pieces / sizeof *pieces)]);
    buf_char(out, '"');
}

static void any_number(buf *out, rng *r)
{
    if (rng_below(r, 3) == 0) buf_char(out, '-');
    buf_fmt(out, "%llu", (unsigned long long)(rng_next(r) >> (2 + rng_below(r, 60))));
    if (rng_below(r, 3) == 0) buf_fmt(out, ".%02llu", (unsigned long long)rng_below(r, 1000));
    if (rng_below(r, 4) == 0)
        buf_fmt(out, "%c%s%llu", rng_below(r, 2) ? 'e' : 'E', rng_below(r, 2) ? "-" : "", (unsigned long long)rng_below(r, 400));
}

static void any_value(buf *out, rng *r, int depth)
{
    static const char *const words[] = {"true", "false", "null"};
    uint64_t kind = rng_below(r, depth > 0 ? 6 : 4);
    any_space(out, r);
    if (kind == 0) buf_str(out, words[rng_below(r, 3)]);
    if (kind == 1) any_number(out, r);
    if (kind == 2 || kind == 3) any_string(out, r);
    if (kind >= 4) {
        buf_char(out, kind == 4 ? '[' : '{');
        for (uint64_t n = rng_below(r, 5), i = 0; i < n; i++) {
            if (i) buf_char(out, ',');
            any_space(out, r);
            if (kind == 5) any_string(out, r), any_space(out, r), buf_char(out, ':');
            any_value(out, r, depth - 1);
        }
        any_space(out, r);
        buf_char(out, kind == 4 ? ']' : '}');
    }
    any_space(out, r);
}

/* Changes, removes or repeats a few bytes. */
static void damage(buf *text, rng *r)
{
    static const char likely[] = "[]{}\",:0123456789+-.eE\\utfn \n\x01\x7f\x80\xbf\xc2\xe0\xed\xf4\xff";
    for (uint64_t n = 1 + rng_below(r, 3); n > 0 && text->len > 0; n--) {
        size_t at = rng_below(r, text->len), left = text->len - at;
        switch (rng_below(r, 3)) {
        case 0: text->data[at] = likely[rng_below(r, sizeof likely - 1)]; break;
        case 1:
            memmove(text->data + at, text->data + at + 1, left);
            text->len--;
            break;
        default: buf_char(text, ' '); memmove(text->data + at + 1, text->data + at, left);
        }
    }
}

static void generated_texts(void **state)
{
    (void)state;
    rng random;
    buf text, damaged;
    size_t whole[DIFFERENCES] = {0}, broken[DIFFERENCES] = {0};
    rng_init(&random, 20250101);
    buf_init(&text, alloc_default(), 1 << 20);
    buf_init(&damaged, alloc_default(), 1 << 20);
    for (int i = 0; i < 8000; i++) {
        buf_clear(&text);
        any_value(&text, &random, 5);
        whole[check(text.data, text.len)]++;
        for (int k = 0; k < 4; k++) {
            buf_clear(&damaged);
            buf_add(&damaged, text.data, text.len);
            damage(&damaged, &random);
            broken[check(damaged.data, damaged.len)]++;
        }
    }
    assert_int_equal(whole[AGREED_INVALID], 0);
    assert_true(whole[AGREED_VALID] > 3000 && whole[LONE_SURROGATE] > 0 && whole[HUGE_NUMBER] > 0 && whole[NUL_IN_KEY] > 0);
    assert_true(broken[AGREED_VALID] > 1000 && broken[AGREED_INVALID] > 10000);
    buf_done(&text);
    buf_done(&damaged);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(known_differences),
        cmocka_unit_test(every_short_text),
        cmocka_unit_test(generated_texts),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
