/* error, names, ids, random numbers, clocks, log. */
#include "base/clock.h"
#include "base/error.h"
#include "base/idgen.h"
#include "base/log.h"
#include "base/rand.h"
#include "base/text.h"
#include "unit/cmocka_all.h"
#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

/* ---- error ---- */

static void errors_are_filled(void **state)
{
    (void)state;
    pawl_error err = {0};
    assert_int_equal(err_set(&err, PAWL_NOT_FOUND, "no task \"%s\"", "X"), PAWL_NOT_FOUND);
    assert_int_equal(err.status, PAWL_NOT_FOUND);
    assert_string_equal(err.message, "no task \"X\"");
    assert_int_equal(err_set(&err, PAWL_INVALID, "wrapped: %s", err.message), PAWL_INVALID);
    assert_string_equal(err.message, "wrapped: no task \"X\"");
    assert_int_equal(err_set(NULL, PAWL_FULL, "%d", 1), PAWL_FULL);
}

static void long_errors_are_cut_between_characters(void **state)
{
    (void)state;
    char text[600];
    for (size_t shift = 0; shift < 2; shift++) {
        memset(text, 'x', shift);
        for (size_t i = shift; i + 2 < sizeof text; i += 2) memcpy(text + i, "\xc3\xa9", 3);
        pawl_error err;
        err_set(&err, PAWL_INVALID, "%s", text);
        assert_int_equal(strlen(err.message), shift ? 507 : 506);
        assert_true(utf8_valid(err.message, strlen(err.message)));
    }
}

static void errors_are_text(void **state)
{
    (void)state;
    static const struct {
        const char *quoted, *shown;
    } cases[] = {{"a\xff"
                  "b",
                  "a?b"},
                 {"\x1b[2J\n\x7f", "?[2J??"},
                 {"\xc3\xa9 \xc2\x85 \xe2\x82", "\xc3\xa9 ?? ??"},
                 {"\xf0\x9f\x98\x80", "\xf0\x9f\x98\x80"}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        pawl_error err;
        err_set(&err, PAWL_INVALID, "%s", cases[i].quoted);
        assert_string_equal(err.message, cases[i].shown);
    }
}

/* ---- names ---- */

static void statuses_follow_the_table(void **state)
{
    (void)state;
    static const struct {
        const char *name, *text;
        int http, exit_code;
        bool retryable;
    } rows[] = {
#define X(name, text, http, exit, retryable) {#name, text, http, exit, retryable},
        PAWL_STATUS_TABLE(X)
#undef X
    };
    for (int i = 0; i < PAWL_STATUS_COUNT; i++) {
        pawl_status status = (pawl_status)i;
        const char *name = pawl_status_name(status);
        assert_int_equal(strlen(name), strlen(rows[i].name));
        for (size_t k = 0; name[k]; k++) assert_int_equal(name[k], tolower((unsigned char)rows[i].name[k]));
        assert_string_equal(pawl_status_text(status), rows[i].text);
        assert_int_equal(pawl_status_http(status), rows[i].http);
        assert_int_equal(pawl_status_exit_code(status), rows[i].exit_code);
        assert_int_equal(pawl_status_retryable(status), rows[i].retryable);
    }
    assert_string_equal(pawl_status_name((pawl_status)999), "internal");
    assert_string_equal(pawl_status_name((pawl_status)-1), "internal");
    assert_string_equal(pawl_version(), PAWL_VERSION);
}

static void states_go_both_ways(void **state)
{
    (void)state;
    pawl_state parsed = PAWL_LEASED;
    for (int i = PAWL_STATE_NONE + 1; i < PAWL_STATE_COUNT; i++) {
        assert_true(pawl_state_parse(pawl_state_name((pawl_state)i), &parsed));
        assert_int_equal(parsed, i);
        assert_int_equal(pawl_state_terminal((pawl_state)i), i >= PAWL_SUCCEEDED);
    }
    assert_string_equal(pawl_state_name(PAWL_STATE_NONE), "");
    assert_string_equal(pawl_state_name((pawl_state)99), "");
    assert_false(pawl_state_terminal(PAWL_STATE_NONE));
    parsed = PAWL_LEASED;
    assert_false(pawl_state_parse("", &parsed) || pawl_state_parse(NULL, &parsed) || pawl_state_parse("Pending", &parsed));
    assert_int_equal(parsed, PAWL_LEASED);
}

static void audit_levels_go_both_ways(void **state)
{
    (void)state;
    static const char *const names[] = {"default", "full", "minimal", "errors", "none"};
    for (int i = PAWL_AUDIT_DEFAULT; i <= PAWL_AUDIT_NONE; i++) {
        pawl_audit parsed;
        assert_string_equal(pawl_audit_name((pawl_audit)i), names[i]);
        assert_true(pawl_audit_parse(names[i], &parsed));
        assert_int_equal(parsed, i);
    }
    pawl_audit parsed = PAWL_AUDIT_ERRORS;
    assert_false(pawl_audit_parse("all", &parsed) || pawl_audit_parse(NULL, &parsed));
    assert_int_equal(parsed, PAWL_AUDIT_ERRORS);
    assert_string_equal(pawl_audit_name((pawl_audit)5), "");
}

static void other_names(void **state)
{
    (void)state;
    assert_string_equal(pawl_level_name(PAWL_DEBUG), "debug");
    assert_string_equal(pawl_level_name(PAWL_ERROR), "error");
    assert_string_equal(pawl_level_name((pawl_level)0), "");
    assert_string_equal(pawl_dispatched_name(PAWL_CREATED), "created");
    assert_string_equal(pawl_dispatched_name(PAWL_EXISTING), "existing");
    assert_string_equal(pawl_dispatched_name(PAWL_UPDATED), "updated");
    assert_string_equal(pawl_dispatched_name(PAWL_REPLACED), "replaced");
    assert_string_equal(pawl_dispatched_name((pawl_dispatched)0), "");
    assert_string_equal(pawl_event_name(PAWL_EVENT_LONG_RUNNING), "long_running");
    assert_string_equal(pawl_event_name(PAWL_EVENT_NONE), "");
    assert_string_equal(pawl_event_name(PAWL_EVENT_COUNT), "");
    assert_string_equal(pawl_attempt_outcome_name(PAWL_ATTEMPT_LEASE_LOST), "lease_lost");
    assert_string_equal(pawl_attempt_outcome_name(PAWL_ATTEMPT_NONE), "");
    for (int i = PAWL_EVENT_NONE + 1; i < PAWL_EVENT_COUNT; i++) assert_true(pawl_event_name((pawl_event_kind)i)[0]);
    for (int i = PAWL_ATTEMPT_NONE + 1; i < PAWL_ATTEMPT_COUNT; i++)
        assert_true(pawl_attempt_outcome_name((pawl_attempt_outcome)i)[0]);
}

/* ---- ids as text ---- */

static void ids_go_both_ways(void **state)
{
    (void)state;
    rng random;
    rng_init(&random, 6);
    char text[PAWL_ID_TEXT], before[PAWL_ID_TEXT] = "";
    pawl_id back;
    for (int i = 0; i < 20000; i++) {
        pawl_id id = (pawl_id)(rng_next(&random) >> (1 + rng_below(&random, 62)));
        if (id == 0) continue;
        pawl_id_format(id, text);
        assert_int_equal(strlen(text), 13);
        assert_true(pawl_id_parse(text, &back));
        assert_int_equal(back, id);
        for (char *c = text; *c; c++) *c = (char)tolower((unsigned char)*c);
        assert_true(pawl_id_parse(text, &back) && back == id);
    }
    for (pawl_id id = 1; id < 5000; id++, memcpy(before, text, sizeof text)) { /* texts sort as ids do */
        pawl_id_format(id * 7919, text);
        assert_true(strcmp(before, text) < 0);
    }
    pawl_id_format(INT64_MAX, text);
    assert_string_equal(text, "7ZZZZZZZZZZZZ");
    pawl_id_format(1, text);
    assert_string_equal(text, "0000000000001");
}

static void ids_have_one_form(void **state)
{
    (void)state;
    static const char *const wrong[] = {
        "",
        "1",
        "000000000001",
        "00000000000001",
        "0000000000000",
        "8000000000000",
        "Z000000000000",
        "000000000000I",
        "000000000000L",
        "000000000000O",
        "000000000000U",
        "000000000000i",
        "000000000000o",
        "000000000000-",
        " 000000000001",
        "000000000001 ",
        "000000-000001",
        "000000000000\xc3\xa9",
    };
    pawl_id id = 77;
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++)
        if (pawl_id_parse(wrong[i], &id)) fail_msg("\"%s\" was taken for an id", wrong[i]);
    assert_false(pawl_id_parse(NULL, &id));
    assert_int_equal(id, 77);
    char text[PAWL_ID_TEXT];
    for (int c = 1; c < 256; c++) { /* exactly the digits and both cases of 22 letters end an id */
        memcpy(text, "000000000001", 12);
        text[12] = (char)c;
        text[13] = '\0';
        bool expected = isdigit(c) || (isalpha(c) && c < 128 && !strchr("ILOUilou", c));
        assert_int_equal(pawl_id_parse(text, &id), expected);
    }
}

/* ---- drawing ids ---- */

static void ids_carry_time_and_number(void **state)
{
    (void)state;
    idgen g = {0};
    assert_int_equal(idgen_next(&g, 1000), 0); /* no number yet */
    assert_int_equal(idgen_room(&g, 1000), 0);
    idgen_take(&g, 7, -1, 2000);
    pawl_id id = idgen_next(&g, 1000);
    assert_int_equal(id_ms(id), 1000);
    assert_int_equal(id_number(id), 7);
    assert_int_equal(id_created_us(id), (1000 + PAWL_EPOCH_MS) * 1000);
    assert_int_equal(idgen_next(&g, 1000), id + 1);
    assert_int_equal(id_make(1000, 7, 1), id + 1);
}

static void ids_never_go_back(void **state)
{
    (void)state;
    idgen g = {0};
    rng random;
    rng_init(&random, 12);
    idgen_take(&g, 3, 100, 1000000);
    pawl_id last = 0;
    int64_t now = 50;
    for (int i = 0; i < 200000; i++) {
        now += (int64_t)rng_below(&random, 5) - 2 - (i % 50000 == 0 ? 5000 : 0);
        int64_t room = idgen_room(&g, now);
        pawl_id id = idgen_next(&g, now);
        assert_true(id > last && id_ms(id) > 100);
        assert_true(room > idgen_room(&g, now));
        last = id;
    }
}

static void ids_borrow_and_stop_at_the_ceiling(void **state)
{
    (void)state;
    idgen g = {0};
    idgen_take(&g, 1, 9, 12);
    const int64_t all = 2 * (ID_SEQUENCE_MAX + 1);
    assert_int_equal(idgen_room(&g, 0), all);
    assert_int_equal(idgen_room(&g, 11), all / 2);
    for (int64_t i = 0; i < all; i++) {
        assert_int_equal(idgen_room(&g, 5), all - i);
        pawl_id id = idgen_next(&g, 5);
        assert_int_equal(id, id_make(10 + i / 4096, 1, (int)(i % 4096)));
    }
    assert_int_equal(idgen_next(&g, 5), 0);
    assert_int_equal(idgen_room(&g, 5), 0);
    idgen_take(&g, 1, 11, 20); /* the same number: it goes on where it was */
    assert_int_equal(idgen_next(&g, 5), id_make(12, 1, 0));
    assert_int_equal(idgen_next(&g, 20), 0); /* a clock beyond the ceiling leaves no mark */
    assert_int_equal(idgen_next(&g, 5), id_make(12, 1, 1));
    idgen_take(&g, 2, 5, 40); /* another number: above its floor, and not below what was given out */
    assert_int_equal(idgen_next(&g, 5), id_make(13, 2, 0));
    idgen_take(&g, 3, 30, 40);
    assert_int_equal(idgen_next(&g, 5), id_make(31, 3, 0));
    idgen_take(&g, 4, 32, 40);
    assert_int_equal(idgen_next(&g, 5), id_make(33, 4, 0));
}

static void ids_stay_positive(void **state)
{
    (void)state;
    idgen g = {0};
    idgen_take(&g, ID_NUMBER_MAX, -1, INT64_MAX);
    assert_int_equal(idgen_next(&g, INT64_C(1) << 41), 0);
    pawl_id id = idgen_next(&g, (INT64_C(1) << 41) - 1);
    assert_true(id > 0 && id_number(id) == ID_NUMBER_MAX);
    while (idgen_next(&g, 0)) id++;
    assert_int_equal(id, INT64_MAX);
    g = (idgen){0};
    idgen_take(&g, 1, -1, 10);
    assert_true(idgen_next(&g, -5000) > 0); /* a clock before 2025 */
}

/* ---- random numbers ---- */

static void random_numbers_repeat(void **state)
{
    (void)state;
    rng a, b, c;
    rng_init(&a, 1);
    rng_init(&b, 1);
    rng_init(&c, 2);
    int same = 0;
    for (int i = 0; i < 1000; i++) {
        uint64_t x = rng_next(&a);
        assert_true(x == rng_next(&b));
        same += x == rng_next(&c);
    }
    assert_int_equal(same, 0);
    /* Known answer: the reference algorithm from the state {1, 2, 3, 4}. */
    rng known = {{1, 2, 3, 4}};
    const uint64_t expected[] = {11520, 0, 1509978240, UINT64_C(1215971899390074240)};
    for (int i = 0; i < 4; i++) assert_true(rng_next(&known) == expected[i]);
}

static void random_numbers_are_even(void **state)
{
    (void)state;
    rng r;
    rng_init(&r, 3);
    int seen[10] = {0}, units[10] = {0};
    for (int i = 0; i < 100000; i++) {
        uint64_t x = rng_below(&r, 10);
        double u = rng_unit(&r);
        assert_true(x < 10 && u >= 0 && u < 1);
        seen[x]++;
        units[(int)(u * 10)]++;
    }
    for (int i = 0; i < 10; i++) {
        assert_in_range(seen[i], 9500, 10500);
        assert_in_range(units[i], 9500, 10500);
    }
    assert_int_equal(rng_below(&r, 1), 0);
    assert_true(rng_below(&r, UINT64_MAX) < UINT64_MAX);
    assert_true(seed_from_system() != seed_from_system());
}

/* ---- clocks ---- */

static void clocks_tell_the_time(void **state)
{
    (void)state;
    pawl_clock c = clock_system();
    int64_t before = (int64_t)time(NULL) * PAWL_SECOND, wall = c.wall_us(c.ctx), after = ((int64_t)time(NULL) + 1) * PAWL_SECOND;
    assert_true(wall >= before && wall <= after);
    int64_t boot = c.boot_us(c.ctx);
    assert_true(boot > 0 && c.boot_us(c.ctx) >= boot);
    char text[64] = "";
    FILE *f = fopen("/proc/sys/kernel/random/boot_id", "r");
    if (f) {
        assert_non_null(fgets(text, sizeof text, f));
        fclose(f);
        text[strcspn(text, "\n")] = '\0';
        assert_string_equal(c.boot_id, text);
        assert_int_equal(strlen(c.boot_id), 36);
    }
    assert_ptr_equal(clock_system().boot_id, c.boot_id);
}

static void a_virtual_clock_stands_still(void **state)
{
    (void)state;
    virtual_clock v = {.now_us = 5, .boot_us = 6};
    pawl_clock c = clock_virtual(&v);
    assert_int_equal(c.wall_us(c.ctx), 5);
    assert_int_equal(c.boot_us(c.ctx), 6);
    v.now_us = 50;
    v.boot_us = 60;
    assert_int_equal(c.wall_us(c.ctx), 50);
    assert_int_equal(c.boot_us(c.ctx), 60);
    assert_string_equal(c.boot_id, "virtual");
}

/* ---- log ---- */

typedef struct heard {
    int lines;
    pawl_level level;
    char line[4096];
} heard;

static void hear(void *ctx, pawl_level level, const char *line)
{
    heard *h = ctx;
    h->lines++;
    h->level = level;
    snprintf(h->line, sizeof h->line, "%s", line);
    errno = EBADF;
}

static void log_lines_reach_the_sink(void **state)
{
    (void)state;
    heard h = {0};
    logger l;
    logger_init(&l, hear, &h, 0); /* 0: WARN */
    log_line(&l, PAWL_INFO, "not heard");
    assert_int_equal(h.lines, 0);
    errno = ENOENT;
    log_line(&l, PAWL_WARN, "queue \"%s\"\nforged\x1b[31m line\r\x7f", "a");
    assert_int_equal(errno, ENOENT);
    assert_int_equal(h.lines, 1);
    assert_int_equal(h.level, PAWL_WARN);
    assert_string_equal(h.line, "queue \"a\" forged [31m line  ");
    logger_init(&l, hear, &h, PAWL_DEBUG);
    log_line(&l, PAWL_DEBUG, "heard");
    assert_int_equal(h.lines, 2);
    char many[5000];
    for (size_t i = 0; i + 2 < sizeof many; i += 2) memcpy(many + i, "\xc3\xa9", 3);
    log_line(&l, PAWL_ERROR, "x%s", many);
    assert_in_range(strlen(h.line), 1990, 2000);
    assert_true(utf8_valid(h.line, strlen(h.line)));
}

/* Standard error becomes a socket that keeps message boundaries: one write, one message. */
static void standard_error_gets_one_write_per_line(void **state)
{
    (void)state;
    int pair[2], saved = dup(STDERR_FILENO);
    assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair), 0);
    logger l;
    logger_init(&l, NULL, NULL, 0);
    char huge[4000];
    memset(huge, 'x', sizeof huge - 1);
    huge[sizeof huge - 1] = '\0';
    dup2(pair[0], STDERR_FILENO);
    log_line(&l, PAWL_WARN, "low on %s", "space");
    log_line(&l, PAWL_ERROR, "%s", huge);
    int code = pawl_die(&(pawl_error){.status = PAWL_NOT_FOUND, .message = "no such task"});
    dup2(saved, STDERR_FILENO);
    close(saved);
    char text[8192];
    ssize_t n = recv(pair[1], text, sizeof text - 1, 0);
    assert_true(n > 0);
    text[n] = '\0';
    int64_t when;
    char *rest = text + RFC3339_TEXT;
    rest[-1] = '\0';
    assert_true(rfc3339_parse(text, &when));
    assert_true(when > INT64_C(1600000000) * PAWL_SECOND);
    assert_string_equal(rest, "warn  pawl: low on space\n");
    n = recv(pair[1], text, sizeof text, 0);
    assert_in_range(n, 2000, 2064);
    assert_int_equal(text[n - 1], '\n');
    n = recv(pair[1], text, sizeof text - 1, 0);
    text[n > 0 ? n : 0] = '\0';
    assert_string_equal(text, "pawl: no such task\n");
    assert_int_equal(code, 3);
    close(pair[0]);
    close(pair[1]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(errors_are_filled),
        cmocka_unit_test(long_errors_are_cut_between_characters),
        cmocka_unit_test(errors_are_text),
        cmocka_unit_test(statuses_follow_the_table),
        cmocka_unit_test(states_go_both_ways),
        cmocka_unit_test(audit_levels_go_both_ways),
        cmocka_unit_test(other_names),
        cmocka_unit_test(ids_go_both_ways),
        cmocka_unit_test(ids_have_one_form),
        cmocka_unit_test(ids_carry_time_and_number),
        cmocka_unit_test(ids_never_go_back),
        cmocka_unit_test(ids_borrow_and_stop_at_the_ceiling),
        cmocka_unit_test(ids_stay_positive),
        cmocka_unit_test(random_numbers_repeat),
        cmocka_unit_test(random_numbers_are_even),
        cmocka_unit_test(clocks_tell_the_time),
        cmocka_unit_test(a_virtual_clock_stands_still),
        cmocka_unit_test(log_lines_reach_the_sink),
        cmocka_unit_test(standard_error_gets_one_write_per_line),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
