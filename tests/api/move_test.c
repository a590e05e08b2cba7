/* Moving through pawl.h: what an engine on a store that is being moved sees, pawl_move, pawl_export and pawl_import. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "store/store.h"
#include <pawl.h>
#include <sqlite3.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static char dir[200], from[300], to[300];
static pawl_error err;
static _Atomic int64_t blocks;

static void *count_alloc(void *ctx, size_t size)
{
    (void)ctx;
    blocks++;
    return malloc(size);
}

static void *count_resize(void *ctx, void *ptr, size_t size)
{
    (void)ctx;
    blocks += ptr == NULL;
    return realloc(ptr, size);
}

static void count_release(void *ctx, void *ptr)
{
    (void)ctx;
    blocks -= ptr != NULL;
    free(ptr);
}

static const pawl_allocator counting = {count_alloc, count_resize, count_release, NULL};

static void ok_(pawl_status status, const char *file, int line)
{
    if (!status) return;
    print_error("%s: %s\n", pawl_status_name(status), err.message);
    _fail(file, line);
}
#define ok(status) ok_((status), __FILE__, __LINE__)

static void moved_(pawl_status status, const char *word, const char *file, int line)
{
    if (status == PAWL_MOVED && err.status == PAWL_MOVED && strstr(err.message, word)) return;
    print_error("%s instead of moved: %s\n", pawl_status_name(status), err.message);
    _fail(file, line);
}
#define moved(status, word) moved_((status), (word), __FILE__, __LINE__)

static pawl *open_store(const char *url, bool shared)
{
    pawl *p;
    ok(pawl_open(&(pawl_options){.store = url, .shared_file = shared, .workers = 2}, &p, &err));
    return p;
}

static pawl_id dispatch(pawl *p, const char *type, int64_t delay_us)
{
    pawl_id id;
    ok(pawl_dispatch(p, &(pawl_task){.type = type, .delay_us = delay_us, .payload = pawl_str("{}")}, &id, &err));
    return id;
}

static pawl_outcome succeed(pawl_run *run, void *ctx)
{
    (void)run;
    (void)ctx;
    return pawl_ok();
}

static pawl_status move_with(pawl_move_fn progress, bool abort, pawl_move_report *report)
{
    return pawl_move(
        &(pawl_move_options){.from = from, .to = to, .by = "ann", .abort = abort, .progress = progress, .allocator = counting},
        report, &err);
}

/* ---- cases --------------------------------------------------------------------------------------------------------------- */

static void everything_moves(void **state)
{
    (void)state;
    pawl *p = open_store(from, false);
    pawl_move_report report;
    pawl_id later = dispatch(p, "t", PAWL_HOUR), now = dispatch(p, "t", 0);
    pawl_close(p);
    ok(move_with(NULL, false, &report));
    assert_int_equal(report.tasks, 2);
    assert_int_equal(report.pending, 2);
    assert_int_equal(report.copied, 2);
    assert_false(report.resumed);
    p = open_store(to, false);
    ok(pawl_handle(p, &(pawl_handler){.type = "t", .run = succeed}, &err));
    ok(pawl_start(p, &err));
    ok(pawl_wait(p, now, 20 * PAWL_SECOND, NULL, &err));
    pawl_info *info;
    ok(pawl_get(p, later, &info, &err));
    assert_int_equal(info->state, PAWL_PENDING);
    pawl_info_free(info);
    assert_int_equal(pawl_close(p), 0);
    assert_int_equal(blocks, 0);
}

/* An engine that was there before, and one that comes afterwards. */
static void engines_are_told(void **state)
{
    (void)state;
    pawl *old = open_store(from, false);
    pawl_subscription *events;
    pawl_event event;
    pawl_health health;
    pawl_receipt receipts[2];
    pawl_task tasks[2] = {{.type = "t"}, {.type = "t"}};
    pawl_id id = dispatch(old, "t", PAWL_HOUR);
    ok(pawl_subscribe(old, 0, &events, &err));
    ok(pawl_handle(old, &(pawl_handler){.type = "t", .run = succeed}, &err));
    ok(pawl_start(old, &err));
    ok(move_with(NULL, false, NULL));
    do assert_true(pawl_next_event(events, 20 * PAWL_SECOND, &event));
    while (event.kind != PAWL_EVENT_STORE_CLOSED);
    ok(pawl_get_health(old, &health, &err));
    assert_true(health.store_closed && !health.healthy && strstr(health.text, "moved"));
    moved(pawl_dispatch(old, &tasks[0], NULL, &err), "to.db");
    moved(pawl_dispatch_bulk(old, tasks, 2, receipts, &err), "to.db");
    assert_int_equal(receipts[0].status, PAWL_MOVED);
    moved(pawl_cancel(old, id, "ann", &err), "to.db");
    moved(pawl_cancel_where(old, &(pawl_filter){.type = "t"}, "ann", NULL, &err), "to.db");
    moved(pawl_pause(old, "q", "ann", &err), "to.db");
    pawl_unsubscribe(events);
    assert_int_equal(pawl_close(old), 0);
    pawl *fresh = open_store(from, false);
    ok(pawl_handle(fresh, &(pawl_handler){.type = "t", .run = succeed}, &err));
    moved(pawl_start(fresh, &err), "have moved to");
    moved(pawl_dispatch(fresh, &tasks[0], NULL, &err), "have moved to");
    pawl_stats *stats;
    ok(pawl_get_stats(fresh, 0, &stats, &err));
    assert_true(stats->closed && strstr(stats->closed, "have moved to"));
    pawl_stats_free(stats);
    pawl_why_answer why;
    ok(pawl_why(fresh, id, &why, &err));
    assert_string_equal(why.code, "moved");
    pawl_close(fresh);
}

static void the_callers_transaction_is_refused(void **state)
{
    (void)state;
    pawl *p = open_store(from, true);
    sqlite3 *db;
    pawl_receipt receipt;
    assert_int_equal(sqlite3_open(from + strlen("sqlite:"), &db), SQLITE_OK);
    ok(pawl_sqlite_prepare(db, &err));
    dispatch(p, "t", PAWL_HOUR);
    ok(move_with(NULL, false, NULL));
    assert_int_equal(sqlite3_exec(db, "BEGIN IMMEDIATE; CREATE TABLE mine (a)", NULL, NULL, NULL), SQLITE_OK);
    moved(pawl_dispatch_sqlite(p, db, &(pawl_task){.type = "t"}, &receipt, &err), "have moved to");
    assert_int_equal(sqlite3_exec(db, "COMMIT", NULL, NULL, NULL), SQLITE_OK); /* what the program did is its own */
    pawl_sqlite_forget(db);
    sqlite3_close(db);
    pawl_close(p);
}

static int calls_left;

static bool stop_soon(void *ctx, const pawl_move_progress *progress)
{
    (void)ctx;
    assert_true(progress->phase && progress->done <= progress->total);
    return calls_left-- > 0;
}

/* Stopped after every call of its progress function there is, it goes on and ends all the same. */
static void stopped_anywhere(void **state)
{
    (void)state;
    pawl *p = open_store(from, false);
    pawl_move_report report = {0};
    for (int i = 0; i < 5; i++) dispatch(p, "t", PAWL_HOUR);
    pawl_close(p);
    int stops = 0;
    pawl_status status = PAWL_CONFLICT;
    for (int i = 0; status; i++, stops++) {
        calls_left = i;
        status = move_with(stop_soon, false, &report);
        assert_true(status == PAWL_OK || status == PAWL_CONFLICT);
        assert_true(stops < 100);
    }
    assert_true(stops > 4 && report.tasks == 5 && report.resumed);
    assert_int_equal(blocks, 0);
}

/* ---- stores that differ in the end ----------------------------------------------------------------------------------------- */

static const char *harm; /* done to the second store once everything was copied */
static int repairs;      /* how often it was copied again, */
static int repairs_most; /* before it is stopped; 0: it is not */
static bool checked;

static void change_target(const char *sql)
{
    sqlite3 *db;
    assert_int_equal(sqlite3_open(to + strlen("sqlite:"), &db), SQLITE_OK);
    sqlite3_busy_timeout(db, 10000);
    assert_int_equal(sqlite3_exec(db, sql, NULL, NULL, NULL), SQLITE_OK);
    sqlite3_close(db);
}

static bool spoil(void *ctx, const pawl_move_progress *progress)
{
    if (strcmp(progress->phase, "statistics") == 0 && harm) {
        change_target(harm);
        harm = NULL;
    }
    checked |= strcmp(progress->phase, "checking") == 0;
    repairs += checked && strcmp(progress->phase, "rest") == 0;
    (void)ctx;
    return !repairs_most || repairs < repairs_most;
}

/* What is missing is copied again, also by a mover that comes after one that was stopped while it did so. */
static void what_is_missing_is_copied_again(void **state)
{
    (void)state;
    pawl *p = open_store(from, false);
    pawl_move_report report = {0};
    pawl_id last = 0;
    for (int i = 0; i < 5; i++) last = dispatch(p, "t", PAWL_HOUR);
    pawl_close(p);
    harm = "DELETE FROM pawl_body WHERE id = (SELECT max(id) FROM pawl_live);"
           "DELETE FROM pawl_live WHERE id = (SELECT max(id) FROM pawl_live)";
    repairs_most = 1;
    repairs = 0;
    checked = false;
    assert_int_equal(move_with(spoil, false, &report), PAWL_CONFLICT); /* it stops as soon as it begins to repair */
    assert_true(!harm && repairs == 1);
    ok(move_with(NULL, false, &report));
    assert_true(report.tasks == 5 && report.copied == 1 && report.resumed);
    p = open_store(to, false);
    pawl_info *info;
    ok(pawl_get(p, last, &info, &err));
    assert_int_equal(info->state, PAWL_PENDING);
    pawl_info_free(info);
    pawl_close(p);
    assert_int_equal(blocks, 0);
}

/* What should not be there cannot be repaired. Nothing is lost: given up, the first store has everything. */
static void what_is_too_much_is_told(void **state)
{
    (void)state;
    pawl *p = open_store(from, false);
    for (int i = 0; i < 5; i++) dispatch(p, "t", PAWL_HOUR);
    harm =
        "CREATE TEMP TABLE b AS SELECT * FROM pawl_body LIMIT 1; UPDATE b SET id = id - 1; INSERT INTO pawl_body SELECT * FROM b;"
        "CREATE TEMP TABLE v AS SELECT * FROM pawl_live LIMIT 1; UPDATE v SET id = id - 1; INSERT INTO pawl_live SELECT * FROM v";
    repairs_most = 0;
    checked = false;
    assert_int_equal(move_with(spoil, false, NULL), PAWL_CORRUPT);
    assert_non_null(strstr(err.message, "do not hold the same tasks"));
    ok(move_with(NULL, true, NULL));
    dispatch(p, "t", PAWL_HOUR);
    pawl_page *page;
    ok(pawl_list(p, NULL, &page, &err));
    assert_int_equal(page->count, 6);
    pawl_page_free(page);
    pawl_close(p);
    assert_int_equal(blocks, 0);
}

/* ---- rate limits ----------------------------------------------------------------------------------------------------------- */

static const pawl_rate rate = {.permits = 7, .period_us = PAWL_HOUR};

static int limits_at(const char *url)
{
    pawl_limits *limits;
    pawl *p = open_store(url, false);
    ok(pawl_get_limits(p, &(pawl_limit_filter){0}, &limits, &err));
    int count = (int)limits->count;
    if (count) assert_true(limits->limits[0].rate.permits == 7 && strcmp(limits->limits[0].type, "t") == 0);
    pawl_limits_free(limits);
    pawl_close(p);
    return count;
}

static void limits_go_along(void **state)
{
    (void)state;
    pawl *p = open_store(from, false);
    ok(pawl_set_limit(p, "t", (pawl_bytes){0}, &rate, "ann", &err));
    ok(move_with(NULL, false, NULL));
    assert_int_equal(limits_at(to), 1);
    moved(pawl_set_limit(p, "t", (pawl_bytes){0}, &(pawl_rate){0}, "ann", &err), "have moved to");
    pawl_close(p);
    assert_int_equal(blocks, 0);
}

/* A kind of store that keeps none. */
static pawl_store_type plain;

static pawl_status plain_open(const pawl_store_options *o, pawl_store **out, pawl_error *e)
{
    pawl_store_options inner = *o;
    char url[400];
    snprintf(url, sizeof url, "sqlite:%s", o->url + strlen("plain:"));
    inner.url = url;
    pawl_status status = store_sqlite_type.open(&inner, out, e);
    if (!status) (*out)->type = &plain;
    return status;
}

static void limits_are_not_left_behind_silently(void **state)
{
    (void)state;
    char target[400];
    snprintf(target, sizeof target, "plain:%s", to + strlen("sqlite:"));
    pawl_move_options options = {.from = from, .to = target, .by = "ann", .allocator = counting};
    pawl *p = open_store(from, false);
    ok(pawl_set_limit(p, "t", (pawl_bytes){0}, &rate, "ann", &err));
    dispatch(p, "t", PAWL_HOUR);
    assert_int_equal(pawl_move(&options, NULL, &err), PAWL_UNSUPPORTED);
    assert_non_null(strstr(err.message, "--leave-limits"));
    dispatch(p, "t", PAWL_HOUR); /* nothing was closed */
    options.leave_limits = true;
    pawl_schedule schedule = {.name = "nightly", .type = "t", .cron = "@daily"};
    ok(pawl_put_schedule(p, &schedule, PAWL_PUT_ADD, NULL, &err));
    assert_int_equal(pawl_move(&options, NULL, &err), PAWL_UNSUPPORTED);
    assert_non_null(strstr(err.message, "\"nightly\""));
    options.leave_schedules = true;
    pawl_id batch = 0;
    ok(pawl_open_batch(p, &(pawl_batch_options){.name = "many"}, &batch, &err));
    assert_int_equal(pawl_move(&options, NULL, &err), PAWL_UNSUPPORTED);
    assert_non_null(strstr(err.message, "\"many\""));
    plain.families = true;
    ok(pawl_move(&options, NULL, &err));
    plain.families = false;
    pawl_close(p);
    assert_int_equal(limits_at(to), 0);
    assert_int_equal(blocks, 0);
}

static int add_plain(void **state)
{
    (void)state;
    plain = store_sqlite_type;
    plain.scheme = "plain";
    plain.limits = plain.places = plain.schedules = plain.families = false;
    plain.open = plain_open;
    return pawl_register_store(&plain, &err);
}

/* Given up after every such call, the first store has everything and works, and the second is empty. */
static void given_up_anywhere(void **state)
{
    (void)state;
    pawl *p = open_store(from, false);
    for (int i = 0; i < 5; i++) dispatch(p, "t", PAWL_HOUR);
    for (int i = 0;; i++) {
        calls_left = i;
        if (move_with(stop_soon, false, NULL) == PAWL_OK) break;
        pawl_status status = move_with(NULL, true, NULL);
        assert_true(status == PAWL_OK ||
                    (status == PAWL_CONFLICT && i < 3)); /* before it had begun there is nothing to give up */
        dispatch(p, "t", PAWL_HOUR);
        pawl *second = open_store(to, false);
        pawl_page *page;
        ok(pawl_list(second, NULL, &page, &err));
        assert_int_equal(page->count, 0);
        pawl_page_free(page);
        pawl_close(second);
        assert_true(i < 100);
    }
    assert_int_equal(move_with(NULL, true, NULL), PAWL_CONFLICT);
    pawl_close(p);
}

/* ---- text ---------------------------------------------------------------------------------------------------------------- */

typedef struct text {
    char data[65536];
    size_t len, at, most;
} text;

static bool write_text(void *ctx, const void *data, size_t n)
{
    text *t = ctx;
    if (t->len + n > (t->most ? t->most : sizeof t->data)) return false;
    memcpy(t->data + t->len, data, n);
    t->len += n;
    return true;
}

static int64_t read_text(void *ctx, void *room, size_t most)
{
    text *t = ctx;
    size_t n = t->len - t->at < most ? t->len - t->at : most;
    if (n > 7) n = 7; /* in small pieces */
    memcpy(room, t->data + t->at, n);
    t->at += n;
    return (int64_t)n;
}

static void there_and_back(void **state)
{
    (void)state;
    static text first, second;
    int64_t count;
    pawl_import_report report;
    pawl *p = open_store(from, false);
    for (int i = 0; i < 3; i++) dispatch(p, "t", PAWL_HOUR);
    pawl_close(p);
    first = second = (text){0};
    ok(pawl_export(&(pawl_export_options){.store = from, .write = write_text, .write_ctx = &first, .allocator = counting}, &count,
                   &err));
    assert_int_equal(count, 3);
    ok(pawl_import(&(pawl_import_options){.store = to, .read = read_text, .read_ctx = &first, .allocator = counting}, &report,
                   &err));
    assert_true(report.created == 3 && report.lines == 3 && report.bad == 0 && report.whole);
    ok(pawl_export(&(pawl_export_options){.store = to, .write = write_text, .write_ctx = &second, .allocator = counting}, &count,
                   &err));
    const char *a = strchr(first.data, '\n'), *b = strchr(second.data, '\n');
    assert_string_equal(a, b);
    second = (text){.most = 300};
    assert_int_equal(pawl_export(&(pawl_export_options){.store = to, .write = write_text, .write_ctx = &second}, &count, &err),
                     PAWL_UNAVAILABLE);
    assert_int_equal(blocks, 0);
}

static int set_up(void **state)
{
    (void)state;
    snprintf(dir, sizeof dir, "%s/pawl-move-XXXXXX", access("/dev/shm", W_OK) == 0 ? "/dev/shm" : "/tmp");
    if (!mkdtemp(dir)) return 1;
    snprintf(from, sizeof from, "sqlite:%s/from.db", dir);
    snprintf(to, sizeof to, "sqlite:%s/to.db", dir);
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    char command[256];
    snprintf(command, sizeof command, "rm -rf '%s'", dir);
    return system(command);
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, set_up, tear_down)

int main(void)
{
    static const struct CMUnitTest tests[] = {
        TEST(everything_moves),
        TEST(engines_are_told),
        TEST(the_callers_transaction_is_refused),
        TEST(stopped_anywhere),
        TEST(given_up_anywhere),
        TEST(there_and_back),
        TEST(what_is_missing_is_copied_again),
        TEST(what_is_too_much_is_told),
        TEST(limits_go_along),
        TEST(limits_are_not_left_behind_silently),
    };
    return cmocka_run_group_tests_name("moving", tests, add_plain, NULL);
}
