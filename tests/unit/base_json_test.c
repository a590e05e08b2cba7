/* json: the checker, the walkers, the writer. */
#include "base/alloc.h"
#include "base/json.h"
#include "base/rand.h"
#include "unit/cmocka_all.h"
#include "unit/test_allocator.h"
#include <locale.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#define COUNT(a) (sizeof(a) / sizeof *(a))

/* A copy that ends exactly where the text ends, so that a sanitizer sees the first byte read beyond it. */
static bool valid_exactly(const char *text, size_t n, size_t *where, const char **what)
{
    char *copy = malloc(n ? n : 1);
    if (n) memcpy(copy, text, n);
    bool ok = json_valid((pawl_bytes){copy, n}, where, what);
    free(copy);
    return ok;
}

/* ---- the checker ---- */

static void valid_texts(void **state)
{
    (void)state;
    static const char *const texts[] = {
        "null",
        "true",
        "false",
        "0",
        "-0",
        "1",
        "-12.5e+10",
        "1E5",
        "0.0",
        "1e-7",
        "\"\"",
        "[]",
        "{}",
        " \t\r\n[ ] \n",
        "[[],{}]",
        "[{},[1,2]]",
        "[{\"a\":1},[1,2],{\"b\":2}]",
        "{\"a\":1}",
        "{ \"a\" : [ 1 , 2 ] , \"b\" : { } }",
        "{\"a\":1,\"a\":2}",
        "\"\\\"\\\\\\/\\b\\f\\n\\r\\t\\u00e9\\uD83D\\ude00\"",
        "\"\xc3\xa9\xe2\x82\xac\xf0\x9f\x98\x80\"",
        "\"\\ud800\"",
        "\"\\u0000\"",
        "\"\x7f\"",
        "123456789012345678901234567890",
        "1e999",
        "\"a long string that is plain for a while, then \\\\ has an escape, and goes on\"",
        "[\"1234567\",\"12345678\",\"123456789\"]",
    };
    for (size_t i = 0; i < COUNT(texts); i++)
        if (!valid_exactly(texts[i], strlen(texts[i]), NULL, NULL)) fail_msg("refused: %s", texts[i]);
}

static void invalid_texts_say_where_and_why(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        size_t where;
        const char *what;
    } cases[] = {
        {"", 0, "the text ends in the middle"},
        {"  ", 2, "the text ends in the middle"},
        {"nul", 3, "the text ends in the middle"},
        {"nulL", 3, "unknown word: only true, false and null are known"},
        {"True", 0, "a value is missing"},
        {"[1,]", 3, "a value is missing"},
        {"[,1]", 1, "a value is missing"},
        {"[1 2]", 3, "',' or ']' is missing"},
        {"[1}", 2, "',' or ']' is missing"},
        {"{\"a\":1]", 6, "',' or '}' is missing"},
        {"{\"a\":1,}", 7, "a member name in quotes is missing"},
        {"{a:1}", 1, "a member name in quotes is missing"},
        {"{\"a\" 1}", 5, "':' is missing"},
        {"{\"a\":}", 5, "a value is missing"},
        {"[1", 2, "the text ends in the middle"},
        {"[1]]", 3, "there is more text behind the value"},
        {"1 2", 2, "there is more text behind the value"},
        {"01", 1, "there is more text behind the value"},
        {"-", 1, "the text ends in the middle"},
        {"-a", 1, "a digit is missing"},
        {"+1", 0, "a value is missing"},
        {"1.e5", 2, "a digit is missing"},
        {".5", 0, "a value is missing"},
        {"1e+", 3, "the text ends in the middle"},
        {"\"abc", 4, "the text ends in the middle"},
        {"\"abcdefgh", 9, "the text ends in the middle"},
        {"\"ab\ncd\"", 3, "control byte in a string: it must be escaped"},
        {"\"\\x41\"", 2, "unknown escape"},
        {"\"\\u12g4\"", 5, "\\u needs four hexadecimal digits"},
        {"\"\\u12", 5, "the text ends in the middle"},
        {"\"\\", 2, "the text ends in the middle"},
        {"\"12345678\xff\"", 9, "not valid UTF-8"},
        {"\"\xc0\xaf\"", 1, "not valid UTF-8"},
        {"\"\xed\xa0\x80\"", 1, "not valid UTF-8"},
        {"\"\xf4\x90\x80\x80\"", 1, "not valid UTF-8"},
        {"\"\xe2\x82\"", 1, "not valid UTF-8"},
        {"\xef\xbb\xbf[]", 0, "a value is missing"},
        {"[1]\x0b", 3, "there is more text behind the value"},
        {"'a'", 0, "a value is missing"},
        {"NaN", 0, "a value is missing"},
        {"/**/1", 0, "a value is missing"},
    };
    for (size_t i = 0; i < COUNT(cases); i++) {
        size_t where = SIZE_MAX;
        const char *what = NULL;
        if (valid_exactly(cases[i].text, strlen(cases[i].text), &where, &what)) fail_msg("accepted: %s", cases[i].text);
        assert_string_equal(what, cases[i].what);
        assert_int_equal(where, cases[i].where);
        assert_false(valid_exactly(cases[i].text, strlen(cases[i].text), NULL, NULL));
    }
    assert_false(json_valid((pawl_bytes){NULL, 0}, NULL, NULL));
    assert_false(valid_exactly("1\0", 2, NULL, NULL));
    assert_false(valid_exactly("\"a\0b\"", 5, NULL, NULL));
    assert_false(valid_exactly("\"\\\0\"", 4, NULL, NULL));
}

/* Every byte at every place of a word, so that the eight-at-a-time path and the single one agree. */
static void every_byte_at_every_place(void **state)
{
    (void)state;
    for (int c = 0; c < 256; c++) {
        bool expected = c >= ' ' && c < 0x80 && c != '"' && c != '\\';
        for (size_t len = 1; len <= 20; len++) {
            for (size_t at = 0; at < len; at++) {
                char text[24] = "\"";
                memset(text + 1, 'x', len);
                text[1 + at] = (char)c;
                text[1 + len] = '"';
                size_t where = 0;
                bool ok = valid_exactly(text, len + 2, &where, NULL);
                if (ok != expected) fail_msg("byte %02x at %zu of %zu", c, at, len);
                if (!ok && c != '"' && c != '\\') assert_int_equal(where, at + 1);
                if (c == '\\') assert_int_equal(where, at + 1 < len ? at + 2 : len + 2); /* the last one escapes the quote */
            }
        }
    }
}

/* Strings are read in strides: one that is cut at any length ends there, whatever lies behind it. */
static void cut_strings_end_where_they_are_cut(void **state)
{
    (void)state;
    char text[80];
    memset(text, 'a', sizeof text);
    text[0] = '"';
    for (size_t n = 1; n < sizeof text; n++) {
        size_t where = 0;
        char after = text[n];
        text[n] = '"';
        assert_false(json_valid((pawl_bytes){text, n}, &where, NULL));
        assert_int_equal(where, n);
        assert_false(valid_exactly(text, n, NULL, NULL));
        text[n] = after;
    }
}

static void depth_is_bounded(void **state)
{
    (void)state;
    char text[2 * JSON_DEPTH_MAX + 4];
    for (int depth = JSON_DEPTH_MAX; depth <= JSON_DEPTH_MAX + 1; depth++) {
        memset(text, '[', (size_t)depth);
        memset(text + depth, ']', (size_t)depth);
        size_t where;
        const char *what;
        bool ok = json_valid((pawl_bytes){text, 2 * (size_t)depth}, &where, &what);
        assert_int_equal(ok, depth == JSON_DEPTH_MAX);
        if (ok) continue;
        assert_int_equal(where, JSON_DEPTH_MAX);
        assert_string_equal(what, "nested too deep: at most 128 levels");
    }
}

/* Levels remember their kind: a mixed nest closes only in its own order. */
static void mixed_nesting_closes_in_order(void **state)
{
    (void)state;
    rng random;
    rng_init(&random, 3);
    for (int round = 0; round < 200; round++) {
        char text[8 * JSON_DEPTH_MAX], closing[JSON_DEPTH_MAX];
        size_t n = 0, depth = 1 + rng_below(&random, JSON_DEPTH_MAX);
        for (size_t i = 0; i < depth; i++) {
            bool object = rng_below(&random, 2);
            const char *open = object ? "{\"k\":" : "[";
            memcpy(text + n, open, strlen(open));
            n += strlen(open);
            closing[i] = object ? '}' : ']';
        }
        text[n++] = '1';
        size_t first = n;
        for (size_t i = depth; i > 0; i--) text[n++] = closing[i - 1];
        assert_true(json_valid((pawl_bytes){text, n}, NULL, NULL));
        size_t wrong = first + rng_below(&random, depth), where;
        text[wrong] = text[wrong] == '}' ? ']' : '}';
        assert_false(json_valid((pawl_bytes){text, n}, &where, NULL));
        assert_int_equal(where, wrong);
    }
}

/* ---- the walkers ---- */

static json parse(const char *text)
{
    assert_true(json_valid(pawl_str(text), NULL, NULL));
    return json_parse(pawl_str(text));
}

static void assert_raw(json value, json_kind kind, const char *raw)
{
    assert_int_equal(value.kind, kind);
    assert_int_equal(value.raw.len, strlen(raw));
    assert_memory_equal(value.raw.data, raw, value.raw.len);
}

static void values_keep_their_bytes(void **state)
{
    (void)state;
    assert_raw(parse("  null "), JSON_NULL, "null");
    assert_raw(parse("true"), JSON_BOOL, "true");
    assert_raw(parse(" -1.50e3\n"), JSON_NUMBER, "-1.50e3");
    assert_raw(parse("\"a\\\"b\""), JSON_STRING, "\"a\\\"b\"");
    assert_raw(parse(" [1, [2] ] "), JSON_ARRAY, "[1, [2] ]");
    assert_raw(parse(" {\"}\": \"]\" } "), JSON_OBJECT, "{\"}\": \"]\" }");
    assert_int_equal(json_parse((pawl_bytes){NULL, 0}).kind, JSON_NONE);
    assert_int_equal(json_parse(pawl_str("  ")).kind, JSON_NONE);
}

static void containers_are_walked(void **state)
{
    (void)state;
    json array = parse("[ 1 , \"x,]\" ,[ ], {\"a\":[1,2]},null]"), key, value;
    const char *const raw[] = {"1", "\"x,]\"", "[ ]", "{\"a\":[1,2]}", "null"};
    const json_kind kinds[] = {JSON_NUMBER, JSON_STRING, JSON_ARRAY, JSON_OBJECT, JSON_NULL};
    size_t at = 0, n = 0;
    for (; json_each(array, &at, &key, &value); n++) {
        assert_int_equal(key.kind, JSON_NONE);
        assert_raw(value, kinds[n], raw[n]);
    }
    assert_int_equal(n, 5);
    json object = parse("{ \"a\" : 1 , \"b\\\"\":{\"c\":2}}");
    at = 0;
    assert_true(json_each(object, &at, &key, &value));
    assert_raw(key, JSON_STRING, "\"a\"");
    assert_raw(value, JSON_NUMBER, "1");
    assert_true(json_each(object, &at, &key, &value));
    assert_raw(key, JSON_STRING, "\"b\\\"\"");
    assert_raw(value, JSON_OBJECT, "{\"c\":2}");
    assert_false(json_each(object, &at, &key, &value));
    at = 0;
    assert_false(json_each(parse("[]"), &at, &key, &value));
    assert_false(json_each(parse("{ }"), &at, &key, &value));
    assert_false(json_each(parse("1"), &at, &key, &value));
    assert_false(json_each((json){JSON_NONE, {NULL, 0}}, &at, &key, &value));
}

static void members_are_found(void **state)
{
    (void)state;
    json object =
        parse("{\"a\":1,\"b\":{\"a\":9},\"\\u0061b\":2,\"a\":3,\"\":4,\"\xc3\xa9\":5,\"\\ud83d\\ude00\":6,\"n\\u0000\":7}");
    assert_raw(json_member(object, "a"), JSON_NUMBER, "3");
    assert_raw(json_member(object, "ab"), JSON_NUMBER, "2");
    assert_raw(json_member(object, ""), JSON_NUMBER, "4");
    assert_raw(json_member(object, "\xc3\xa9"), JSON_NUMBER, "5");
    assert_raw(json_member(object, "\xf0\x9f\x98\x80"), JSON_NUMBER, "6");
    assert_int_equal(json_member(object, "n").kind, JSON_NONE); /* "n\0" is another name */
    assert_int_equal(json_member(object, "c").kind, JSON_NONE);
    assert_int_equal(json_member(object, "abc").kind, JSON_NONE);
    assert_int_equal(json_member(parse("[1]"), "a").kind, JSON_NONE);
}

static void strings_are_decoded(void **state)
{
    (void)state;
    static const struct {
        const char *text, *decoded;
        size_t len;
    } cases[] = {
        {"\"\"", "", 0},
        {"\"plain\"", "plain", 5},
        {"\"\\\"\\\\\\/\\b\\f\\n\\r\\t\"", "\"\\/\b\f\n\r\t", 8},
        {"\"\\u0041\\u00e9\\u20AC\"", "A\xc3\xa9\xe2\x82\xac", 6},
        {"\"x\\uD83D\\uDE00y\"", "x\xf0\x9f\x98\x80y", 6},
        {"\"\\u0000\"", "\0", 1},
        {"\"\\ud800\"", "\xef\xbf\xbd", 3},
        {"\"\\udc00\\ud800\"", "\xef\xbf\xbd\xef\xbf\xbd", 6},
        {"\"\\ud800\\ud83d\\ude00\"", "\xef\xbf\xbd\xf0\x9f\x98\x80", 7},
        {"\"\\ud83d\\ue000\"", "\xef\xbf\xbd\xee\x80\x80", 6},
        {"\"\\ud800\\n\"", "\xef\xbf\xbd\n", 4},
        {"\"\\uffff\\udbff\\udfff\"", "\xef\xbf\xbf\xf4\x8f\xbf\xbf", 7},
    };
    buf out;
    buf_init(&out, alloc_default(), 100);
    for (size_t i = 0; i < COUNT(cases); i++) {
        buf_clear(&out);
        assert_true(json_string(parse(cases[i].text), &out));
        assert_int_equal(out.len, cases[i].len);
        assert_memory_equal(buf_text(&out), cases[i].decoded, cases[i].len);
    }
    assert_false(json_string(parse("1"), &out));
    buf_done(&out);
    buf_init(&out, alloc_default(), 3);
    assert_false(json_string(parse("\"a\\nbc\""), &out));
    buf_done(&out);
}

static void scalars_are_read(void **state)
{
    (void)state;
    int64_t n = 77;
    bool b;
    assert_true(json_int(parse("9223372036854775807"), &n) && n == INT64_MAX);
    assert_true(json_int(parse("-9223372036854775808"), &n) && n == INT64_MIN);
    assert_true(json_int(parse("-0"), &n) && n == 0);
    n = 77;
    static const char *const wrong[] = {"9223372036854775808",          "1.0", "1e2", "\"1\"", "null", "-9223372036854775809",
                                        "10000000000000000000000000000"};
    for (size_t i = 0; i < COUNT(wrong); i++) assert_false(json_int(parse(wrong[i]), &n));
    assert_int_equal(n, 77);
    assert_true(json_bool(parse("true"), &b) && b);
    assert_true(json_bool(parse("false"), &b) && !b);
    assert_false(json_bool(parse("0"), &b));
}

/* The walkers may be given a text nobody checked: nonsense is allowed, a read beyond it is not. */
static void walkers_stay_inside(void **state)
{
    (void)state;
    rng random;
    rng_init(&random, 8);
    const char alphabet[] = "[]{}\"\\,:u1ta ";
    buf out;
    buf_init(&out, alloc_default(), 1000);
    for (int i = 0; i < 20000; i++) {
        size_t n = 1 + rng_below(&random, 12), at = 0;
        char *text = malloc(n);
        for (size_t k = 0; k < n; k++) text[k] = alphabet[rng_below(&random, sizeof alphabet - 1)];
        json value = json_parse((pawl_bytes){text, n}), key, element;
        for (int steps = 0; steps < 20 && json_each(value, &at, &key, &element); steps++) {
            assert_true(element.raw.data >= text && element.raw.data + element.raw.len <= text + n);
            json_string(key, &out);
            json_string(element, &out);
        }
        json_member(value, "a");
        json_string(value, &out);
        buf_clear(&out);
        free(text);
    }
    buf_done(&out);
}

/* ---- the writer ---- */

static void write_sample(json_writer *w)
{
    jsonw_object(w);
    jsonw_key(w, "id");
    jsonw_string(w, "0E");
    jsonw_key(w, "n");
    jsonw_int(w, INT64_MIN);
    jsonw_key(w, "list");
    jsonw_array(w);
    jsonw_bool(w, true);
    jsonw_bool(w, false);
    jsonw_null(w);
    jsonw_string(w, NULL);
    jsonw_array(w);
    jsonw_end_array(w);
    jsonw_object(w);
    jsonw_end_object(w);
    jsonw_end_array(w);
    jsonw_key(w, "payload");
    jsonw_raw(w, pawl_str("{\"kept\" : 1.0}"));
    jsonw_key(w, "b");
    jsonw_base64(w, pawl_str("light wor"));
    jsonw_end_object(w);
}

static void writer_puts_commas(void **state)
{
    (void)state;
    test_allocator t;
    test_allocator_init(&t);
    buf out;
    json_writer w;
    buf_init(&out, &t.allocator, 1 << 16);
    jsonw_init(&w, &out, false);
    write_sample(&w);
    buf_char(&out, '\n');
    jsonw_int(&w, 5); /* a second text */
    assert_string_equal(buf_text(&out), "{\"id\":\"0E\",\"n\":-9223372036854775808,\"list\":[true,false,null,null,[],{}],"
                                        "\"payload\":{\"kept\" : 1.0},\"b\":\"bGlnaHQgd29y\"}\n5");
    buf_clear(&out);
    jsonw_init(&w, &out, true);
    write_sample(&w);
    assert_string_equal(buf_text(&out),
                        "{\n  \"id\": \"0E\",\n  \"n\": -9223372036854775808,\n  \"list\": [\n    true,\n    false,\n"
                        "    null,\n    null,\n    [],\n    {}\n  ],\n  \"payload\": {\"kept\" : 1.0},\n"
                        "  \"b\": \"bGlnaHQgd29y\"\n}");
    assert_true(json_valid((pawl_bytes){out.data, out.len}, NULL, NULL));
    buf_done(&out);
    assert_int_equal(t.outstanding, 0);
}

static const char *written_string(buf *out, pawl_bytes text)
{
    json_writer w;
    buf_clear(out);
    jsonw_init(&w, out, false);
    jsonw_bytes(&w, text);
    return buf_text(out);
}

static void writer_escapes(void **state)
{
    (void)state;
    buf out;
    buf_init(&out, alloc_default(), 1 << 16);
    assert_string_equal(written_string(&out, (pawl_bytes){NULL, 0}), "\"\"");
    assert_string_equal(written_string(&out, pawl_str("a\"\\\b\f\n\r\t\x01\x1f\x7f/")),
                        "\"a\\\"\\\\\\b\\f\\n\\r\\t\\u0001\\u001f\x7f/\"");
    assert_string_equal(written_string(&out, (pawl_bytes){"a\0b", 3}), "\"a\\u0000b\"");
    assert_string_equal(written_string(&out, pawl_str("\xc3\xa9\xf0\x9f\x98\x80")), "\"\xc3\xa9\xf0\x9f\x98\x80\"");
    assert_string_equal(written_string(&out, pawl_str("a\xff\xc3z\xe2\x82")),
                        "\"a\xef\xbf\xbd\xef\xbf\xbdz\xef\xbf\xbd\xef\xbf\xbd\"");
    buf_done(&out);
}

/* Any bytes at all become a valid string, and valid UTF-8 comes back as it was. */
static void strings_survive_the_way_there_and_back(void **state)
{
    (void)state;
    rng random;
    rng_init(&random, 21);
    static const char *const pieces[] = {"a",        "long plain piece", "\"",   "\\",      "\n", "\x01",
                                         "\xc3\xa9", "\xf0\x9f\x98\x80", "\xff", "\xe2\x82"};
    buf text, out, back;
    buf_init(&text, alloc_default(), 1 << 12);
    buf_init(&out, alloc_default(), 1 << 16);
    buf_init(&back, alloc_default(), 1 << 16);
    for (int i = 0; i < 5000; i++) {
        buf_clear(&text);
        buf_clear(&back);
        bool clean = true;
        for (uint64_t n = rng_below(&random, 8); n > 0; n--) {
            size_t piece = rng_below(&random, COUNT(pieces));
            clean = clean && piece < 8;
            buf_str(&text, pieces[piece]);
        }
        written_string(&out, (pawl_bytes){text.data, text.len});
        pawl_bytes json_text = {out.data, out.len};
        assert_true(json_valid(json_text, NULL, NULL));
        assert_true(json_string(json_parse(json_text), &back));
        if (clean) assert_string_equal(buf_text(&back), buf_text(&text));
    }
    buf_done(&text);
    buf_done(&out);
    buf_done(&back);
}

static const char *written_double(buf *out, double value)
{
    json_writer w;
    buf_clear(out);
    jsonw_init(&w, out, false);
    jsonw_double(&w, value);
    return buf_text(out);
}

static void doubles_are_exact(void **state)
{
    (void)state;
    buf out;
    buf_init(&out, alloc_default(), 100);
    assert_string_equal(written_double(&out, 0.1), "0.1");
    assert_string_equal(written_double(&out, 3), "3");
    assert_string_equal(written_double(&out, -2.5e300), "-2.5e+300");
    assert_string_equal(written_double(&out, 0.1 + 0.2), "0.30000000000000004");
    assert_string_equal(written_double(&out, NAN), "null");
    assert_string_equal(written_double(&out, -INFINITY), "null");
    rng random;
    rng_init(&random, 4);
    for (int i = 0; i < 5000; i++) {
        uint64_t bits = rng_next(&random);
        double value;
        memcpy(&value, &bits, sizeof value);
        if (!isfinite(value)) continue;
        assert_true(strtod(written_double(&out, value), NULL) == value);
        assert_true(json_valid((pawl_bytes){out.data, out.len}, NULL, NULL));
    }
    buf_done(&out);
}

static void doubles_ignore_the_locale(void **state)
{
    (void)state;
    static const char *const commas[] = {"de_DE.UTF-8", "fr_FR.UTF-8", "nl_NL.UTF-8", "ps_AF.UTF-8"};
    buf out;
    buf_init(&out, alloc_default(), 100);
    for (size_t i = 0; i < COUNT(commas); i++) {
        if (!setlocale(LC_NUMERIC, commas[i])) continue; /* not installed */
        assert_string_equal(written_double(&out, 1.5), "1.5");
        setlocale(LC_NUMERIC, "C");
    }
    buf_done(&out);
}

/* Memory of its very size: a tool that looks sees a byte that is read behind it. */
static void a_text_is_not_read_beyond_its_end(void **state)
{
    (void)state;
    static const char text[] = "\"0123456789abcdef0123456789abcdef0123456789abcdef\"";
    for (size_t n = 1; n < sizeof text - 1; n++) {
        char *cut = malloc(n);
        assert_non_null(cut);
        memcpy(cut, text, n);
        assert_false(json_valid((pawl_bytes){cut, n}, NULL, NULL));
        free(cut);
    }
}

static void base64_has_padding(void **state)
{
    (void)state;
    static const char *const texts[] = {"", "f", "fo", "foo", "foob", "fooba", "foobar"};
    static const char *const coded[] = {"\"\"",         "\"Zg==\"",     "\"Zm8=\"",    "\"Zm9v\"",
                                        "\"Zm9vYg==\"", "\"Zm9vYmE=\"", "\"Zm9vYmFy\""};
    buf out;
    json_writer w;
    buf_init(&out, alloc_default(), 1 << 12);
    for (size_t i = 0; i < COUNT(texts); i++) {
        buf_clear(&out);
        jsonw_init(&w, &out, false);
        jsonw_base64(&w, pawl_str(texts[i]));
        assert_string_equal(buf_text(&out), coded[i]);
    }
    char many[1000];
    memset(many, 0xff, sizeof many);
    buf_clear(&out);
    jsonw_base64(&w, (pawl_bytes){many, 999});
    assert_int_equal(out.len, 1332 + 2);
    for (size_t i = 1; i < out.len - 1; i++) assert_int_equal(out.data[i], '/');
    buf_done(&out);
}

static void a_full_buffer_is_noticed(void **state)
{
    (void)state;
    buf out;
    json_writer w;
    for (size_t limit = 0; limit < 100; limit++) {
        buf_init(&out, alloc_default(), limit);
        jsonw_init(&w, &out, false);
        write_sample(&w);
        assert_true(out.failed);
        buf_done(&out);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(valid_texts),
        cmocka_unit_test(invalid_texts_say_where_and_why),
        cmocka_unit_test(every_byte_at_every_place),
        cmocka_unit_test(cut_strings_end_where_they_are_cut),
        cmocka_unit_test(depth_is_bounded),
        cmocka_unit_test(mixed_nesting_closes_in_order),
        cmocka_unit_test(values_keep_their_bytes),
        cmocka_unit_test(containers_are_walked),
        cmocka_unit_test(members_are_found),
        cmocka_unit_test(strings_are_decoded),
        cmocka_unit_test(scalars_are_read),
        cmocka_unit_test(walkers_stay_inside),
        cmocka_unit_test(writer_puts_commas),
        cmocka_unit_test(writer_escapes),
        cmocka_unit_test(strings_survive_the_way_there_and_back),
        cmocka_unit_test(doubles_are_exact),
        cmocka_unit_test(doubles_ignore_the_locale),
        cmocka_unit_test(a_text_is_not_read_beyond_its_end),
        cmocka_unit_test(base64_has_padding),
        cmocka_unit_test(a_full_buffer_is_noticed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
