/* Inside the caller's own SQLite transaction. */
#include "harness.h"
#include <sqlite3.h>

static sqlite3 *connect(world *w, const char *name, bool prepare)
{
    char path[128];
    sqlite3 *db;
    world_path(w, name, path);
    assert_int_equal(sqlite3_open(path, &db), SQLITE_OK);
    sqlite3_busy_timeout(db, 20000);
    if (prepare) ok(pawl_sqlite_prepare(db, &w->err));
    return db;
}

static void disconnect(sqlite3 *db)
{
    pawl_sqlite_forget(db);
    assert_int_equal(sqlite3_close(db), SQLITE_OK);
}

static void sql(sqlite3 *db, const char *text)
{
    char *message = NULL;
    if (sqlite3_exec(db, text, NULL, NULL, &message) != SQLITE_OK) {
        fprintf(stderr, "%s: %s\n", text, message);
        abort();
    }
}

static int number(sqlite3 *db, const char *text)
{
    sqlite3_stmt *statement;
    if (sqlite3_prepare_v2(db, text, -1, &statement, NULL) != SQLITE_OK || sqlite3_step(statement) != SQLITE_ROW) abort();
    int n = sqlite3_column_int(statement, 0);
    sqlite3_finalize(statement);
    return n;
}

static void dispatch_commits_or_vanishes(void **state)
{
    world *w = *state;
    world_start(w, &(pawl_handler){.type = "t", .run = succeed}, 1, (pawl_options){.shared_file = true});
    sqlite3 *db = connect(w, "pawl.db", true);
    sql(db, "CREATE TABLE orders(id INTEGER PRIMARY KEY)");
    pawl_receipt kept = {0}, gone = {0};
    sql(db, "BEGIN IMMEDIATE; INSERT INTO orders DEFAULT VALUES");
    ok(pawl_dispatch_sqlite(w->p, db, &(pawl_task){.type = "t", .payload = pawl_str("[7]")}, &kept, &w->err));
    assert_int_equal(kept.outcome, PAWL_CREATED);
    sql(db, "COMMIT");
    pawl_committed(w->p);
    await(w, kept.id, PAWL_SUCCEEDED);
    sql(db, "BEGIN IMMEDIATE; INSERT INTO orders DEFAULT VALUES");
    ok(pawl_dispatch_sqlite(w->p, db, &(pawl_task){.type = "t"}, &gone, &w->err));
    sql(db, "ROLLBACK");
    refused(pawl_wait(w->p, gone.id, 0, NULL, &w->err), PAWL_NOT_FOUND, "no task");
    assert_int_equal(number(db, "SELECT count(*) FROM orders"), 1);
    sql(db, "BEGIN IMMEDIATE");
    ok(pawl_dispatch_sqlite(w->p, db, &(pawl_task){.type = "t", .key = "k", .delay_us = PAWL_HOUR}, &kept, &w->err));
    pawl_receipt same = {0};
    ok(pawl_dispatch_sqlite(w->p, db, &(pawl_task){.type = "t", .key = "k"}, &same, &w->err));
    assert_int_equal(same.outcome, PAWL_UPDATED);
    assert_int_equal(same.id, kept.id);
    sql(db, "COMMIT"); /* the watch finds out by itself */
    await(w, kept.id, PAWL_SUCCEEDED);
    disconnect(db);
}

static void refused_connections(void **state)
{
    world *w = *state;
    w->p = world_open(w, (pawl_options){.shared_file = true});
    pawl_task task = {.type = "t"};
    pawl_receipt r;
    refused(pawl_dispatch_sqlite(w->p, NULL, &task, &r, &w->err), PAWL_INVALID, "NULL");
    sqlite3 *db = connect(w, "pawl.db", false);
    sql(db, "BEGIN IMMEDIATE");
    refused(pawl_dispatch_sqlite(w->p, db, &task, &r, &w->err), PAWL_MISUSE, "pawl_sqlite_prepare");
    sql(db, "ROLLBACK");
    ok(pawl_sqlite_prepare(db, &w->err));
    refused(pawl_dispatch_sqlite(w->p, db, &task, &r, &w->err), PAWL_MISUSE, "transaction");
    sql(db, "BEGIN IMMEDIATE");
    refused(pawl_dispatch_sqlite(w->p, db, &(pawl_task){.type = ""}, &r, &w->err), PAWL_INVALID, "type");
    sql(db, "ROLLBACK");
    disconnect(db);

    sqlite3 *elsewhere = connect(w, "other.db", true);
    sql(elsewhere, "BEGIN IMMEDIATE");
    refused(pawl_dispatch_sqlite(w->p, elsewhere, &task, &r, &w->err), PAWL_MISUSE, "other.db");
    sql(elsewhere, "ROLLBACK");
    disconnect(elsewhere);
}

static void second_copy_of_sqlite(void **state)
{
    world *w = *state;
    sqlite3 *db = connect(w, "any.db", false);
    refused(pawl_sqlite_prepare_with(db, "2020-01-01 00:00:00 abcdef", (void (*)(void))sqlite3_step, &w->err), PAWL_UNSUPPORTED,
            "two copies");
    refused(pawl_sqlite_prepare_with(db, sqlite3_sourceid(), (void (*)(void))disconnect, &w->err), PAWL_UNSUPPORTED,
            "two copies");
    refused(pawl_sqlite_prepare_with(NULL, sqlite3_sourceid(), (void (*)(void))sqlite3_step, &w->err), PAWL_INVALID, "NULL");
    sqlite3_close(db);
}

static void only_with_shared_file(void **state)
{
    world *w = *state;
    w->p = world_open(w, (pawl_options){0});
    sqlite3 *db = connect(w, "pawl.db", true);
    sql(db, "BEGIN IMMEDIATE");
    pawl_receipt r;
    refused(pawl_dispatch_sqlite(w->p, db, &(pawl_task){.type = "t"}, &r, &w->err), PAWL_MISUSE, "shared_file");
    sql(db, "ROLLBACK");
    disconnect(db);
    pawl *memory = world_open(w, (pawl_options){.store = "memory:"});
    refused(pawl_dispatch_sqlite(memory, db, &(pawl_task){.type = "t"}, &r, &w->err), PAWL_UNSUPPORTED, "memory");
    assert_int_equal(pawl_close(memory), 0);
}

static void plain_calls_inside_own_transaction(void **state)
{
    world *w = *state;
    w->p = world_open(w, (pawl_options){.shared_file = true});
    pawl_id id = send(w, (pawl_task){.type = "t"});
    sqlite3 *db = connect(w, "pawl.db", true);
    sql(db, "BEGIN IMMEDIATE");
    refused(pawl_dispatch(w->p, &(pawl_task){.type = "t"}, NULL, &w->err), PAWL_MISUSE, "pawl_dispatch_sqlite");
    refused(pawl_cancel(w->p, id, NULL, &w->err), PAWL_MISUSE, "commit first");
    pawl_info_free(get(w, id)); /* looking is fine */
    sql(db, "COMMIT");
    send(w, (pawl_task){.type = "t"});
    disconnect(db);
}

static pawl_outcome complete_in_transaction(pawl_run *run, void *ctx)
{
    world *w = ctx;
    sqlite3 *db = connect(w, "pawl.db", true);
    pawl_error err = {0};
    pawl_outcome outcome = pawl_ok(), twice;
    bool roll_back = pawl_run_attempt(run) == 1;
    pawl_run_log(run, PAWL_INFO, "attempt %d", pawl_run_attempt(run));
    pawl_run_result(run, pawl_str("[1]"), NULL, &err);
    pawl_run_spawn(run, &(pawl_task){.type = "child", .delay_us = PAWL_HOUR}, NULL, &err);
    sql(db, "BEGIN IMMEDIATE; UPDATE orders SET shipped = shipped + 1");
    note(w, "%s", pawl_status_name(pawl_complete_sqlite(run, db, &outcome, &err)));
    note(w, "%s", pawl_status_name(pawl_complete_sqlite(run, db, &twice, &err)));
    sql(db, roll_back ? "ROLLBACK" : "COMMIT");
    disconnect(db);
    return outcome;
}

static bool note_success(pawl_run *run, void *ctx)
{
    (void)run;
    note(((world **)ctx)[0], "succeeded");
    return true;
}

static pawl_outcome complete(pawl_run *run, void *ctx) { return complete_in_transaction(run, ((world **)ctx)[0]); }

static void complete_commits_or_retries(void **state)
{
    world *w = *state;
    world *ctx[] = {w};
    pawl_handler handler = {.type = "t", .run = complete, .ctx = ctx, .on_succeeded = note_success};
    handler.retry = (pawl_retry_policy){.curve = PAWL_CURVE_FIXED, .delay_us = 1000};
    world_start(w, &handler, 1, (pawl_options){.shared_file = true});
    sqlite3 *db = connect(w, "pawl.db", true);
    sql(db, "CREATE TABLE orders(shipped INTEGER); INSERT INTO orders VALUES(0)");
    pawl_id id = send(w, (pawl_task){.type = "t"});
    await(w, id, PAWL_SUCCEEDED);
    assert_int_equal(number(db, "SELECT shipped FROM orders"), 1);
    pawl_info *i = get(w, id);
    assert_int_equal(i->attempts_count, 2);
    assert_string_equal(i->attempts[0].outcome, "retry");
    assert_non_null(strstr(i->attempts[0].error, "rolled back"));
    assert_string_equal(i->attempts[1].outcome, "succeeded");
    assert_int_equal(i->attempts[1].log_lines, 1);
    assert_int_equal(i->result.len, 3);
    pawl_info_free(i);
    pawl_page *page;
    ok(pawl_list(w->p, &(pawl_filter){.type = "child"}, &page, &w->err));
    assert_int_equal(page->count, 1);
    pawl_page_free(page);
    world_close(w);
    assert_string_equal(w->journal, "ok lease_lost ok lease_lost succeeded");
    disconnect(db);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        TEST(dispatch_commits_or_vanishes),
        TEST(refused_connections),
        TEST(second_copy_of_sqlite),
        TEST(only_with_shared_file),
        TEST(plain_calls_inside_own_transaction),
        TEST(complete_commits_or_retries),
    };
    return RUN_TESTS("transactions", tests);
}
