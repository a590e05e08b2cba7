/* redact: what is masked, what stays, byte for byte. */
#include "base/alloc.h"
#include "base/json.h"
#include "base/log.h"
#include "base/redact.h"
#include "unit/cmocka_all.h"
#include "unit/test_allocator.h"
#include <stdio.h>
#include <string.h>

#define COUNT(a) (sizeof(a) / sizeof *(a))
#define M "[redacted]"

typedef struct pair {
    const char *text, *shown; /* shown NULL: as it is */
} pair;

static void expect(const redaction *r, redact_form form, const char *text, const char *shown)
{
    buf out;
    buf_init(&out, alloc_default(), 1 << 20);
    bool masked = redact(r, form, pawl_str(text), &out);
    const char *got = masked ? buf_text(&out) : text;
    if (strcmp(got, shown ? shown : text) != 0) fail_msg("%s\nbecame %s\nnot    %s", text, got, shown ? shown : text);
    assert_int_equal(masked, shown != NULL);
    if (form == REDACT_JSON) assert_true(json_valid(pawl_str(got), NULL, NULL));
    if (masked) { /* once more changes nothing */
        char again[4096];
        snprintf(again, sizeof again, "%s", got);
        buf_clear(&out);
        if (redact(r, form, pawl_str(again), &out)) assert_string_equal(buf_text(&out), again);
    }
    buf_done(&out);
}

static void json_values_are_masked(void **state)
{
    (void)state;
    static const pair all[] = {
        {"{\"password\":\"hunter2\"}", "{\"password\":\"" M "\"}"},
        {"{ \"a\" : 1.50 , \"dbPassword\" :\t\"x\" , \"n\":1e400 }",
         "{ \"a\" : 1.50 , \"dbPassword\" :\t\"" M "\" , \"n\":1e400 }"},
        {"{\"pass\\u0077ord\":\"x\",\"b\":2}", "{\"pass\\u0077ord\":\"" M "\",\"b\":2}"},
        {"{\"X-API-Key\":\"x\",\"api key\":\"y\",\"apiKeys\":[\"z\",{\"a\":\"]}\"}]}",
         "{\"X-API-Key\":\"" M "\",\"api key\":\"" M "\",\"apiKeys\":\"" M "\"}"},
        {"[1,{\"to\":{\"deep\":[{\"client_secret\":{\"a\":[1,2]}},7]}}]",
         "[1,{\"to\":{\"deep\":[{\"client_secret\":\"" M "\"},7]}}]"},
        {"{\"token\":12345678901234567890}", "{\"token\":\"" M "\"}"},
        {"{\"password\":\"a\\\"b\\\\\",\"user\":\"u\"}", "{\"password\":\"" M "\",\"user\":\"u\"}"},
        {"{\"has_password\":true,\"token\":null,\"secret\":\"\"}", NULL},
        {"{\"max_tokens\":100,\"token_count\":5,\"author\":\"me\",\"key\":\"k\",\"passenger\":1}", NULL},
        {"{\"word\":\"password\",\"list\":[\"token\",\"secret\"]}", NULL},
        {"\"token\"", NULL},
        {"{}", NULL},
        {"7", NULL},
    };
    for (size_t i = 0; i < COUNT(all); i++) expect(redaction_usual(), REDACT_JSON, all[i].text, all[i].shown);
}

static void strings_of_json_are_text(void **state)
{
    (void)state;
    static const pair all[] = {
        {"{\"url\":\"https://x.org/?token=abc&n=1\"}", "{\"url\":\"https://x.org/?token=" M "&n=1\"}"},
        {"{\"db\":\"postgres://me:pw@host/db\",\"n\":1}", "{\"db\":\"postgres://me:" M "@host/db\",\"n\":1}"},
        {"{\"db\":\"postgres:\\/\\/me:pw@host\\/db\"}", "{\"db\":\"postgres:\\/\\/me:" M "@host\\/db\"}"},
        {"{\"body\":\"{\\\"password\\\":\\\"x\\\",\\\"n\\\":1}\"}",
         "{\"body\":\"{\\\"password\\\":\\\"" M "\\\",\\\"n\\\":1}\"}"},
        {"{\"b\":\"{\\\"in\\\":\\\"{\\\\\\\"token\\\\\\\":\\\\\\\"x\\\\\\\"}\\\"}\"}",
         "{\"b\":\"{\\\"in\\\":\\\"{\\\\\\\"token\\\\\\\":\\\\\\\"" M "\\\\\\\"}\\\"}\"}"},
        {"[\"password=gr\\u00f6\\u00dfe end\",\"token=a\\nb\",\"pwd=a\\\\b c\"]",
         "[\"password=" M " end\",\"token=" M "\\nb\",\"pwd=" M " c\"]"},
        {"[\"Cookie: a=b; c=d\\nHost: x\",\"token=1 secret=2\",3]",
         "[\"Cookie: " M "\\nHost: x\",\"token=" M " secret=" M "\",3]"},
        {"[\"curl -H \\\"Cookie: a=\\\\nb\\\" x\",\"Cookie: \\u00e9\\\\n\"]",
         "[\"curl -H \\\"Cookie: " M "\\\" x\",\"Cookie: " M "\"]"},
        {"[\"a:b\",\"12:30:00\",\"https://x.org/a:b@c\",\"=\",\":\",\"x=\",\"token=\",\"token:\"]", NULL},
    };
    for (size_t i = 0; i < COUNT(all); i++) expect(redaction_usual(), REDACT_JSON, all[i].text, all[i].shown);
}

static void text_is_masked(void **state)
{
    (void)state;
    static const pair all[] = {
        {"login failed: password=hunter2, user=me", "login failed: password=" M ", user=me"},
        {"password: hunter2 was wrong", "password: " M " was wrong"},
        {"Authorization: Bearer abc.def\nHost: x", "Authorization: " M "\nHost: x"},
        {"curl -H \"Authorization: Bearer abc\" http://x/", "curl -H \"Authorization: " M "\" http://x/"},
        {"curl -H 'Cookie: a=\"b\"; c' http://x/", "curl -H 'Cookie: " M "' http://x/"},
        {"x-api-key: Token abc def", "x-api-key: " M " def"},
        {"{'password': 'it\\'s', 'n': 1}", "{'password': '" M "', 'n': 1}"},
        {"{\"secrets\": {\"a\": \"}\"}, \"n\": 1}", "{\"secrets\": " M ", \"n\": 1}"},
        {"user[password]=x&user[name]=y", "user[password]=" M "&user[name]=y"},
        {"{\"pass\\u0077ord\":\"x\"", "{\"pass\\u0077ord\":\"" M "\""},
        {"secret := \"a b\"", "secret := \"" M "\""},
        {"token => 'x'", "token => '" M "'"},
        {"could not connect to amqp://u:p@ss@h:5672/v", "could not connect to amqp://u:" M "@h:5672/v"},
        {"password=\"unfinished and long", "password=\"" M},
        {"token=abc", "token=" M},
        {"unexpected token at 7", NULL},
        {"the password is wrong", NULL},
        {"password=true, token: null; secret=", NULL},
        {"http://host:80/", NULL},
        {"", NULL},
    };
    for (size_t i = 0; i < COUNT(all); i++) expect(redaction_usual(), REDACT_TEXT, all[i].text, all[i].shown);
}

static void bytes_are_read_as_what_they_are(void **state)
{
    (void)state;
    static const pair all[] = {
        {"{\"token\":1}\n{\"a\":2}\n\n{\"p\\u0077d\":[3]}\n", "{\"token\":\"" M "\"}\n{\"a\":2}\n\n{\"p\\u0077d\":\"" M "\"}\n"},
        {"{\"token\":1}\nnot json", "{\"token\":" M "}\nnot json"},
        {"{\"token\":\"x\",", "{\"token\":\"" M "\","},
        {"pwd=a\nb=c", "pwd=" M "\nb=c"},
        {"{\"a\":1}\n{\"b\":2}", NULL},
        {"token=\xff", NULL}, /* not UTF-8 */
    };
    for (size_t i = 0; i < COUNT(all); i++) {
        buf out;
        buf_init(&out, alloc_default(), 1 << 20);
        assert_int_equal(redact_bytes(redaction_usual(), pawl_str(all[i].text), &out), all[i].shown != NULL);
        if (all[i].shown) assert_string_equal(buf_text(&out), all[i].shown);
        assert_true(all[i].shown || out.len == 0);
        buf_done(&out);
    }
}

static void words_can_be_chosen(void **state)
{
    (void)state;
    redaction r;
    pawl_error err;
    assert_int_equal(redaction_read(&r, "IBAN , -csrf", &err), PAWL_OK);
    expect(&r, REDACT_JSON, "{\"my_iban\":\"x\",\"csrf_token\":\"y\",\"token\":\"z\"}",
           "{\"my_iban\":\"" M "\",\"csrf_token\":\"y\",\"token\":\"" M "\"}");
    assert_int_equal(redaction_read(&r, "none, iban", &err), PAWL_OK);
    expect(&r, REDACT_JSON, "{\"iban\":\"x\",\"password\":\"y\"}", "{\"iban\":\"" M "\",\"password\":\"y\"}");
    assert_int_equal(redaction_read(&r, "none", &err), PAWL_OK);
    expect(&r, REDACT_JSON, "{\"password\":\"y\",\"u\":\"http://a:b@c\"}", NULL);
    expect(&r, REDACT_TEXT, "password=x", NULL);
    assert_int_equal(redaction_read(&r, "", &err), PAWL_OK);
    expect(&r, REDACT_TEXT, "password=x", "password=" M);
    static const char *const bad[] = {"a", "ok,-", "ok, !", "a123456789012345678901234567890123456789"};
    for (size_t i = 0; i < COUNT(bad); i++) assert_int_equal(redaction_read(&r, bad[i], &err), PAWL_INVALID);
    char many[1000] = "none";
    for (int i = 0; i < 65; i++) snprintf(many + strlen(many), sizeof many - strlen(many), ",w%02d", i);
    assert_int_equal(redaction_read(&r, many, &err), PAWL_INVALID);
    assert_non_null(strstr(err.message, "64"));
}

static void a_long_name_is_read_to_its_end(void **state)
{
    (void)state;
    for (size_t before = 0; before < 600; before++) {
        char name[700];
        memset(name, 'x', before);
        memcpy(name + before, "password", 9);
        assert_true(redact_name(redaction_usual(), pawl_str(name)));
        name[before + 7] = 'x';
        assert_false(redact_name(redaction_usual(), pawl_str(name)));
    }
}

static void a_line_is_masked_in_place(void **state)
{
    (void)state;
    char line[40];
    for (size_t n = 0; n < 24; n++) {
        snprintf(line, sizeof line, "%.*s token=ab pwd=cd", (int)n, "xxxxxxxxxxxxxxxxxxxxxxxx");
        redact_line(redaction_usual(), line, sizeof line);
        assert_true(strlen(line) < sizeof line);
        assert_null(strstr(line, "ab"));
        assert_null(strstr(line, "cd"));
    }
    snprintf(line, sizeof line, "%s", "token=a pwd=b c");
    redact_line(redaction_usual(), line, sizeof line);
    assert_string_equal(line, "token=" M " pwd=" M " c");
}

static void keep_line(void *ctx, pawl_level level, const char *line)
{
    (void)level;
    snprintf(ctx, 100, "%s", line);
}

static void the_log_shows_none(void **state)
{
    (void)state;
    logger log;
    redaction none;
    char line[100];
    logger_init(&log, keep_line, line, PAWL_INFO);
    log_line(&log, PAWL_INFO, "could not log in: %s", "password=hunter2\nuser=ann");
    assert_string_equal(line, "could not log in: password=" M " user=ann");
    assert_int_equal(redaction_read(&none, "none", NULL), PAWL_OK);
    log.hidden = &none;
    log_line(&log, PAWL_INFO, "%s", "password=hunter2");
    assert_string_equal(line, "password=hunter2");
}

/* A megabyte that has nothing to hide costs no memory; one that has costs what it takes, and no more than is allowed. */
static void memory_is_taken_only_for_secrets(void **state)
{
    (void)state;
    enum { SIZE = 1 << 20 };
    char *text = malloc(SIZE + 64);
    size_t n = 0;
    assert_non_null(text);
    n += (size_t)sprintf(text + n, "[");
    while (n < SIZE) n += (size_t)sprintf(text + n, "{\"name\":\"a: b\",\"n\":1},");
    n += (size_t)sprintf(text + n, "{\"n\":1}]");
    test_allocator a;
    test_allocator_init(&a);
    buf out;
    buf_init(&out, &a.allocator, 2 * SIZE);
    assert_false(redact(redaction_usual(), REDACT_JSON, (pawl_bytes){text, n}, &out));
    assert_false(redact(redaction_usual(), REDACT_TEXT, (pawl_bytes){text, n}, &out));
    assert_int_equal(a.calls, 0);
    buf_init(&out, &a.allocator, 100);
    assert_true(redact(redaction_usual(), REDACT_JSON, pawl_str("{\"token\":\"x\"}"), &out));
    assert_false(out.failed);
    buf_done(&out);
    buf_init(&out, &a.allocator, 10);
    assert_true(redact(redaction_usual(), REDACT_JSON, pawl_str("{\"token\":\"x\"}"), &out));
    assert_true(out.failed);
    buf_done(&out);
    assert_int_equal(a.outstanding, 0);
    free(text);
}

/* Texts that could make it look at the same bytes again and again. */
static void it_is_linear(void **state)
{
    (void)state;
    static const char *const parts[] = {":",   "=",     "\\\\", "\\\"",    "token:", "\"token\":", "'Cookie: a\\n", "token=[",
                                        "://", "//a:b", "a\":", "Cookie:", "  :",    "token=\\\"", "token='",       "]="};
    enum { SIZE = 1 << 20 };
    char *text = malloc(SIZE + 64);
    assert_non_null(text);
    for (size_t i = 0; i < COUNT(parts); i++) {
        size_t n = 1, len = strlen(parts[i]);
        text[0] = '"';
        for (; n < SIZE; n += len) memcpy(text + n, parts[i], len);
        text[n++] = '"';
        for (int form = REDACT_JSON; form <= REDACT_TEXT; form++) {
            buf out;
            if (form == REDACT_JSON && !json_valid((pawl_bytes){text, n}, NULL, NULL)) continue;
            buf_init(&out, alloc_default(), 64 << 20);
            redact(redaction_usual(), (redact_form)form, (pawl_bytes){text, n}, &out);
            assert_false(out.failed);
            buf_done(&out);
        }
    }
    free(text);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(json_values_are_masked),
        cmocka_unit_test(strings_of_json_are_text),
        cmocka_unit_test(text_is_masked),
        cmocka_unit_test(bytes_are_read_as_what_they_are),
        cmocka_unit_test(words_can_be_chosen),
        cmocka_unit_test(a_long_name_is_read_to_its_end),
        cmocka_unit_test(a_line_is_masked_in_place),
        cmocka_unit_test(the_log_shows_none),
        cmocka_unit_test(memory_is_taken_only_for_secrets),
        cmocka_unit_test(it_is_linear),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
