/* Programs on MariaDB, through pawl.h: transactions of their own, wake-ups, idleness, lost connections. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "mysql/bed.h"
#include "store/mysql/mysql.h"
#include <pawl.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define PATIENCE (30 * PAWL_SECOND) /* no wait that succeeds comes near it */
#define RARELY "1000"               /* milliseconds between two looks, at most */

static char database[64];
static MYSQL *my; /* the program's own */
static pawl *p;
static pawl_error err;
static atomic_int runs;

static void ok_(pawl_status status, const char *file, int line)
{
    if (status) {
        print_error("%s: %s\n", pawl_status_name(status), err.message);
        _fail(file, line);
    }
}
#define ok(status) ok_((status), __FILE__, __LINE__)

static void refused_(pawl_status status, pawl_status wanted, const char *word, const char *file, int line)
{
    if (status != wanted || !strstr(err.message, word)) {
        print_error("%s instead of %s: %s\n", pawl_status_name(status), pawl_status_name(wanted), err.message);
        _fail(file, line);
    }
}
#define refused(status, wanted, word) refused_((status), (wanted), (word), __FILE__, __LINE__)

static pawl *open_with(const char *poll_ms)
{
    char url[700], base[500];
    pawl *opened;
    my_bed_url(base, sizeof base, database);
    snprintf(url, sizeof url, "%s%cpawl_poll_ms=%s", base, strchr(base, '?') ? '&' : '?', poll_ms);
    ok(pawl_open(&(pawl_options){.store = url, .workers = 2}, &opened, &err));
    return opened;
}

static pawl_outcome count_run(pawl_run *run, void *ctx)
{
    (void)run;
    (void)ctx;
    atomic_fetch_add(&runs, 1);
    return pawl_ok();
}

static void start(pawl *engine, const char *type, pawl_outcome (*run)(pawl_run *, void *))
{
    ok(pawl_handle(engine, &(pawl_handler){.type = type, .run = run}, &err));
    ok(pawl_start(engine, &err));
}

static void await(pawl *engine, pawl_id id, pawl_state wanted)
{
    pawl_state state;
    ok(pawl_wait(engine, id, PATIENCE, &state, &err));
    assert_string_equal(pawl_state_name(state), pawl_state_name(wanted));
}

/* ---- dispatch and completion in the program's transaction ------------------------------------------------------------------ */

static void dispatch_commits_or_vanishes(void **state)
{
    (void)state;
    pawl_receipt kept, gone;
    p = open_with(RARELY);
    start(p, "t", count_run);
    my_bed_exec(my, "CREATE TABLE orders (id int); START TRANSACTION; INSERT INTO orders VALUES (1)");
    ok(pawl_dispatch_mysql(p, my, &(pawl_task){.type = "t", .payload = pawl_str("[7]")}, &kept, &err));
    assert_int_equal(kept.outcome, PAWL_CREATED);
    my_bed_exec(my, "COMMIT");
    await(p, kept.id, PAWL_SUCCEEDED);
    my_bed_exec(my, "START TRANSACTION; INSERT INTO orders VALUES (2)");
    ok(pawl_dispatch_mysql(p, my, &(pawl_task){.type = "t"}, &gone, &err));
    my_bed_exec(my, "ROLLBACK");
    refused(pawl_wait(p, gone.id, 0, NULL, &err), PAWL_NOT_FOUND, "no task");
    assert_int_equal(my_bed_int(my, "SELECT count(*) FROM orders"), 1);
    assert_int_equal(atomic_load(&runs), 1);
}

static void keys_in_a_transaction(void **state)
{
    (void)state;
    pawl_receipt first, same;
    p = open_with(RARELY);
    my_bed_exec(my, "START TRANSACTION");
    ok(pawl_dispatch_mysql(p, my, &(pawl_task){.type = "t", .key = "k", .delay_us = PAWL_HOUR}, &first, &err));
    ok(pawl_dispatch_mysql(p, my, &(pawl_task){.type = "t", .key = "k", .delay_us = PAWL_HOUR, .payload = pawl_str("2")}, &same,
                           &err));
    my_bed_exec(my, "COMMIT");
    assert_true(first.outcome == PAWL_CREATED && same.outcome == PAWL_UPDATED && same.id == first.id);
    pawl_info *info;
    ok(pawl_get(p, first.id, &info, &err));
    assert_memory_equal(info->payload.data, "2", 1);
    pawl_info_free(info);
}

/* Many programs enqueue at once and take their time to commit: nobody waits for another. */
static void open_transactions_do_not_meet(void **state)
{
    (void)state;
    pawl_receipt r;
    p = open_with(RARELY);
    MYSQL *other = my_bed_connect(database);
    my_bed_exec(other, "SET innodb_lock_wait_timeout = 2");
    my_bed_exec(my, "START TRANSACTION");
    ok(pawl_dispatch_mysql(p, my, &(pawl_task){.type = "t", .delay_us = PAWL_HOUR}, &r, &err));
    my_bed_exec(other, "START TRANSACTION");
    ok(pawl_dispatch_mysql(p, other, &(pawl_task){.type = "t", .delay_us = PAWL_HOUR}, &r, &err));
    my_bed_exec(other, "COMMIT");
    ok(pawl_dispatch(p, &(pawl_task){.type = "t", .delay_us = PAWL_HOUR}, NULL, &err));
    my_bed_exec(my, "COMMIT");
    pawl_stats *stats;
    ok(pawl_get_stats(p, 0, &stats, &err));
    assert_true(stats->pending == 3 && stats->dispatched == 3);
    pawl_stats_free(stats);
    mysql_close(other);
}

static pawl_outcome complete(pawl_run *run, void *ctx)
{
    const char *end = ctx;
    pawl_outcome outcome;
    pawl_error failure;
    MYSQL *own = my_bed_connect(database);
    atomic_fetch_add(&runs, 1);
    my_bed_exec(own, "START TRANSACTION; INSERT INTO orders VALUES (%d)", atomic_load(&runs));
    if (pawl_complete_mysql(run, own, &outcome, &failure)) {
        my_bed_exec(own, "ROLLBACK");
        mysql_close(own);
        return pawl_fail(run, "%s", failure.message);
    }
    my_bed_exec(own, "%s", atomic_load(&runs) == 1 ? end : "COMMIT");
    mysql_close(own);
    return outcome;
}

static void completes(const char *end, int runs_wanted, int orders_wanted)
{
    pawl_id id;
    p = open_with(RARELY);
    my_bed_exec(my, "CREATE TABLE orders (id int)");
    ok(pawl_handle(
        p,
        &(pawl_handler){
            .type = "t", .run = complete, .ctx = (void *)end, .retry = {.curve = PAWL_CURVE_FIXED, .delay_us = PAWL_MILLISECOND}},
        &err));
    ok(pawl_start(p, &err));
    ok(pawl_dispatch(p, &(pawl_task){.type = "t"}, &id, &err));
    await(p, id, PAWL_SUCCEEDED);
    assert_int_equal(atomic_load(&runs), runs_wanted);
    assert_int_equal(my_bed_int(my, "SELECT count(*) FROM orders"), orders_wanted);
    pawl_info *info;
    ok(pawl_get(p, id, &info, &err));
    assert_int_equal(info->attempts_count, runs_wanted);
    pawl_info_free(info);
}

static void completion_commits(void **state)
{
    (void)state;
    completes("COMMIT", 1, 1);
}

static void completion_rolled_back_runs_again(void **state)
{
    (void)state;
    completes("ROLLBACK", 2, 1);
}

static void connections_that_will_not_do(void **state)
{
    (void)state;
    pawl_receipt r;
    pawl_task task = {.type = "t"};
    p = open_with(RARELY);
    refused(pawl_dispatch_mysql(p, NULL, &task, &r, &err), PAWL_INVALID, "NULL");
    refused(pawl_dispatch_mysql(p, my, &task, &r, &err), PAWL_MISUSE, "not inside a transaction");
    my_bed_exec(my, "START TRANSACTION");
    assert_int_equal(mysql_query(my, "SELECT 1"), 0);
    refused(pawl_dispatch_mysql(p, my, &task, &r, &err), PAWL_MISUSE, "busy");
    mysql_free_result(mysql_store_result(my));
    assert_int_equal(mysql_query(my, "SELECT 1; SELECT 2"), 0);
    mysql_free_result(mysql_store_result(my));
    refused(pawl_dispatch_mysql(p, my, &task, &r, &err), PAWL_MISUSE, "more results");
    while (mysql_next_result(my) == 0) mysql_free_result(mysql_store_result(my));
    refused(pawl_dispatch_sqlite(p, (struct sqlite3 *)my, &task, &r, &err), PAWL_MISUSE, "not SQLite");
    refused(pawl_dispatch_pg(p, (struct pg_conn *)my, &task, &r, &err), PAWL_MISUSE, "not PostgreSQL");
    ok(pawl_dispatch_mysql(p, my, &task, &r, &err));
    my_bed_exec(my, "COMMIT");
    pawl *memory;
    ok(pawl_open(&(pawl_options){.store = "memory:"}, &memory, &err));
    refused(pawl_dispatch_mysql(memory, my, &task, &r, &err), PAWL_UNSUPPORTED, "memory");
    pawl_close(memory);
}

/* A program's session may be set up in any way. */
static void sessions_of_any_kind(void **state)
{
    (void)state;
    pawl_receipt r;
    pawl_info *info;
    MYSQL *odd = my_bed_connect(NULL); /* no database at all */
    p = open_with(RARELY);
    my_bed_exec(
        odd, "SET sql_mode = 'ANSI_QUOTES,NO_BACKSLASH_ESCAPES,TRADITIONAL', NAMES latin1, time_zone = '+09:00', autocommit = 0, "
             "tx_isolation = 'SERIALIZABLE'");
    ok(pawl_dispatch_mysql(
        p, odd,
        &(pawl_task){.type = "t\xc3\xa4", .key = "it's \\ \xe2\x82\xac", .delay_us = PAWL_HOUR, .payload = pawl_str("\"'\\\\\"")},
        &r, &err));
    my_bed_exec(odd, "COMMIT");
    mysql_close(odd);
    ok(pawl_get(p, r.id, &info, &err));
    assert_string_equal(info->type, "t\xc3\xa4");
    assert_string_equal(info->key, "it's \\ \xe2\x82\xac");
    assert_int_equal(info->payload.len, 5);
    assert_memory_equal(info->payload.data, "\"'\\\\\"", 5);
    assert_true(info->run_at_us - info->created_us == PAWL_HOUR);
    pawl_info_free(info);
}

/* What failed inside leaves the program's own work as it was. */
static void a_refusal_leaves_the_transaction(void **state)
{
    (void)state;
    pawl_receipt r;
    p = open_with(RARELY);
    my_bed_exec(my, "CREATE TABLE orders (id int); ALTER TABLE pawl_live ADD CONSTRAINT bad CHECK (priority <> 77)");
    my_bed_exec(my, "START TRANSACTION; INSERT INTO orders VALUES (1)");
    assert_int_not_equal(pawl_dispatch_mysql(p, my, &(pawl_task){.type = "t", .priority = 77}, &r, &err), PAWL_OK);
    ok(pawl_dispatch_mysql(p, my, &(pawl_task){.type = "t", .delay_us = PAWL_HOUR}, &r, &err));
    my_bed_exec(my, "COMMIT; ALTER TABLE pawl_live DROP CONSTRAINT bad");
    assert_int_equal(my_bed_int(my, "SELECT count(*) FROM orders"), 1);
    assert_int_equal(my_bed_int(my, "SELECT count(*) FROM pawl_body"), 1);
}

/* A key that another program's transaction holds: this one waits in vain, and stands as it stood. */
static void a_key_that_somebody_holds(void **state)
{
    (void)state;
    pawl_receipt r;
    pawl_task task = {.type = "t", .key = "k", .delay_us = PAWL_HOUR};
    MYSQL *other = my_bed_connect(database);
    p = open_with(RARELY);
    my_bed_exec(my, "CREATE TABLE orders (id int)");
    my_bed_exec(other, "SET innodb_lock_wait_timeout = 1; START TRANSACTION; INSERT INTO orders VALUES (2)");
    my_bed_exec(my, "START TRANSACTION");
    ok(pawl_dispatch_mysql(p, my, &task, &r, &err));
    refused(pawl_dispatch_mysql(p, other, &task, &r, &err), PAWL_UNAVAILABLE, "ock wait timeout");
    my_bed_exec(my, "COMMIT");
    ok(pawl_dispatch_mysql(p, other, &task, &r, &err));
    assert_int_equal(r.outcome, PAWL_UPDATED);
    my_bed_exec(other, "COMMIT");
    mysql_close(other);
    assert_int_equal(my_bed_int(my, "SELECT count(*) FROM orders"), 1);
    assert_int_equal(my_bed_int(my, "SELECT count(*) FROM pawl_live"), 1);
}

/* ---- hearing of each other ----------------------------------------------------------------------------------------------- */

static void another_engine_is_woken(void **state)
{
    (void)state;
    pawl_id id;
    p = open_with(RARELY);
    pawl *other = open_with(RARELY);
    start(other, "t", count_run);
    for (int i = 0; i < 5; i++) {
        ok(pawl_dispatch(p, &(pawl_task){.type = "t"}, &id, &err));
        await(p, id, PAWL_SUCCEEDED); /* and this one learns of the end */
    }
    assert_int_equal(atomic_load(&runs), 5);
    pawl_close(other);
}

/* Everything that is written: how often rows were, and how many are there. */
static int64_t writes(void)
{
    return my_bed_int(my, "SELECT SUM(VARIABLE_VALUE) FROM information_schema.GLOBAL_STATUS WHERE VARIABLE_NAME IN "
                          "('Innodb_rows_inserted', 'Innodb_rows_updated', 'Innodb_rows_deleted')");
}

static int64_t looks(void)
{
    return my_bed_int(my, "SELECT VARIABLE_VALUE FROM information_schema.GLOBAL_STATUS WHERE VARIABLE_NAME = 'Questions'");
}

/* The counters are the whole server's: another test may be at work on it, so a quiet while is waited for. */
static void an_idle_node_writes_nothing(void **state)
{
    (void)state;
    pawl_id id;
    p = open_with("100");
    start(p, "t", count_run);
    ok(pawl_dispatch(p, &(pawl_task){.type = "t"}, &id, &err));
    await(p, id, PAWL_SUCCEEDED);
    for (int quiet = 0, tries = 0; quiet < 3; tries++) {
        int64_t before = writes(), from = looks();
        while (looks() < from + 60) {} /* the node's and our own */
        quiet = writes() == before ? quiet + 1 : 0;
        assert_true(tries < 1000);
    }
}

/* ---- trouble ------------------------------------------------------------------------------------------------------------- */

static void kill_sessions(void)
{
    for (int64_t id; (id = my_bed_int(my,
                                      "SELECT COALESCE(MIN(ID), 0) FROM information_schema.PROCESSLIST WHERE DB = '%s' AND ID <> "
                                      "CONNECTION_ID() AND COMMAND <> 'Killed'",
                                      database));)
        my_bed_exec(my, "KILL %lld", (long long)id);
}

static void sessions_that_are_killed_come_back(void **state)
{
    (void)state;
    pawl_id id;
    p = open_with("100");
    start(p, "t", count_run);
    for (int i = 0; i < 3; i++) {
        ok(pawl_dispatch(p, &(pawl_task){.type = "t"}, &id, &err));
        await(p, id, PAWL_SUCCEEDED);
        kill_sessions();
    }
    pawl_receipt r;
    my_bed_exec(my, "START TRANSACTION");
    ok(pawl_dispatch_mysql(p, my, &(pawl_task){.type = "t"}, &r, &err));
    my_bed_exec(my, "COMMIT");
    await(p, r.id, PAWL_SUCCEEDED); /* and it looks again */
    assert_int_equal(atomic_load(&runs), 4);
    pawl_nodes *nodes;
    ok(pawl_get_nodes(p, &nodes, &err));
    assert_true(nodes->count == 1 && nodes->nodes[0].alive); /* nobody died of it */
    pawl_nodes_free(nodes);
}

/* ---- around the tests ---------------------------------------------------------------------------------------------------- */

static int set_up(void **state)
{
    (void)state;
    my_bed_database(database, sizeof database, "program");
    my = my_bed_connect(database);
    atomic_store(&runs, 0);
    p = NULL;
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    if (p) pawl_close(p);
    mysql_close(my);
    my_bed_drop(database);
    return 0;
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, set_up, tear_down)

int main(void)
{
    static const struct CMUnitTest tests[] = {
        TEST(dispatch_commits_or_vanishes),
        TEST(keys_in_a_transaction),
        TEST(open_transactions_do_not_meet),
        TEST(completion_commits),
        TEST(completion_rolled_back_runs_again),
        TEST(connections_that_will_not_do),
        TEST(sessions_of_any_kind),
        TEST(a_refusal_leaves_the_transaction),
        TEST(a_key_that_somebody_holds),
        TEST(another_engine_is_woken),
        TEST(an_idle_node_writes_nothing),
        TEST(sessions_that_are_killed_come_back),
    };
    if (!my_bed_there()) return BED_SKIP;
    if (pawl_register_store(&store_mysql_type, &err)) return pawl_die(&err);
    return cmocka_run_group_tests_name("programs", tests, NULL, NULL);
}
