/* The gate on PostgreSQL: transactions of other programs that began before it was shut, those that see nothing newer than their beginning,
 * and sweeps. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "bed.h"
#include "base/alloc.h"
#include "base/clock.h"
#include "store/postgres/postgres.h"
#include "store/store.h"
#include <stdio.h>
#include <string.h>

#define MOVE "gate:1"

static char schema[64], url[500];
static pawl_store *store;
static pawl_arena *arena;
static pawl_error err;

static void set(pawl_gate_mode mode)
{
    pawl_gate gate = {.mode = mode, .move = MOVE, .peer = "sqlite:elsewhere.db", .position = mode ? "0" : NULL};
    assert_int_equal(store_set_gate(store, &gate, &err), PAWL_OK);
}

static pawl_gate look(void)
{
    pawl_query query = {.kind = PAWL_QUERY_GATE};
    assert_int_equal(store_read(store, &query, arena, &err), PAWL_OK);
    return *query.gate;
}

static int64_t count(pawl_state state)
{
    pawl_dump *d = pawl_arena_alloc(arena, sizeof *d);
    *d = (pawl_dump){.part = PAWL_PART_TASKS, .limit = 100};
    pawl_query query = {.kind = PAWL_QUERY_DUMP, .dump = d};
    assert_int_equal(store_read(store, &query, arena, &err), PAWL_OK);
    return d->counts[state];
}

static int64_t pending(void) { return count(PAWL_PENDING); }

static void refused(PGconn *pg, const char *sql, const char *state, const char *word)
{
    PGresult *r = PQexec(pg, sql);
    const char *code = PQresultErrorField(r, PG_DIAG_SQLSTATE);
    if (!code || strcmp(code, state) != 0 || !strstr(PQresultErrorMessage(r), word)) {
        print_error("%s: %s\n", sql, PQresultErrorMessage(r));
        fail();
    }
    PQclear(r);
}

static void enqueue_is_refused(void **state)
{
    (void)state;
    PGconn *pg = bed_connect(schema);
    bed_exec(pg, "SELECT pawl_enqueue('before')");
    set(PAWL_GATE_CLOSED);
    refused(pg, "SELECT pawl_enqueue('after')", "PW004", "sqlite:elsewhere.db");
    set(PAWL_GATE_ARRIVING);
    refused(pg, "SELECT pawl_enqueue('after')", "PW004", "not complete");
    set(PAWL_GATE_OPEN);
    bed_exec(pg, "SELECT pawl_enqueue('again')");
    assert_int_equal(pending(), 2);
    PQfinish(pg);
}

/* It has enqueued and may still commit: whoever shuts the gate learns of it. Readers do not count. */
static void open_transactions_are_counted(void **state)
{
    (void)state;
    PGconn *writer = bed_connect(schema), *reader = bed_connect(schema), *later = bed_connect(schema);
    bed_exec(writer, "BEGIN; SELECT pawl_enqueue('late')");
    bed_exec(reader, "BEGIN; SELECT count(*) FROM pawl_body");
    set(PAWL_GATE_CLOSED);
    assert_int_equal(look().writers, 1);
    bed_exec(later, "BEGIN; CREATE TEMP TABLE something (a int)"); /* it would see that the gate is shut */
    assert_int_equal(look().writers, 1);
    assert_int_equal(pending(), 0);
    bed_exec(writer, "COMMIT");
    assert_int_equal(look().writers, 0);
    assert_int_equal(pending(), 1);
    PQfinish(writer);
    PQfinish(reader);
    PQfinish(later);
}

/* Whatever goes on in other databases of the server, and in other schemas of this one, is none of a move's business. */
static void others_are_not_counted(void **state)
{
    (void)state;
    char other[80];
    PGconn *near = bed_connect(schema), *far = bed_connect(NULL);
    snprintf(other, sizeof other, "%s_far", schema);
    bed_exec(far, "CREATE DATABASE %s", other);
    PQfinish(far);
    far = bed_connect_database(other);
    bed_exec(far, "CREATE TABLE pawl_gate (a int); BEGIN; INSERT INTO pawl_gate VALUES (1)");
    bed_exec(near, "BEGIN; CREATE TEMP TABLE pawl_gate (a int); INSERT INTO pg_temp.pawl_gate VALUES (1)");
    set(PAWL_GATE_CLOSED);
    assert_int_equal(look().writers, 0);
    PQfinish(near);
    PQfinish(far);
    far = bed_connect(NULL);
    bed_exec(far, "DROP DATABASE %s", other);
    PQfinish(far);
}

static void prepared_transactions_are_counted(void **state)
{
    (void)state;
    PGconn *pg = bed_connect(schema);
    bed_exec(pg, "BEGIN; SELECT pawl_enqueue('late', notify => false); PREPARE TRANSACTION 'pawl_gate_%s'", schema);
    set(PAWL_GATE_CLOSED);
    assert_int_equal(look().writers, 1);
    bed_exec(pg, "COMMIT PREPARED 'pawl_gate_%s'", schema);
    assert_int_equal(look().writers, 0);
    assert_int_equal(pending(), 1);
    PQfinish(pg);
}

/* Its snapshot is from before: it would see an open gate for as long as it lasts. */
static void old_snapshots_are_refused(void **state)
{
    (void)state;
    PGconn *pg = bed_connect(schema);
    bed_exec(pg, "BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT count(*) FROM pawl_body");
    set(PAWL_GATE_CLOSED);
    assert_int_equal(look().writers, 0);
    refused(pg, "SELECT pawl_enqueue('late')", "40001", "could not serialize");
    PQfinish(pg);
}

/* A step of retention that is under way is waited for: what a move counts stays. */
static void sweeps_are_waited_for(void **state)
{
    (void)state;
    PGconn *sweeper = bed_connect(schema), *mover = bed_connect(schema);
    const char *sweep = "SELECT pawl_sweep(NULL, NULL, 0, 0, 0, 0, 0, 0, 1000)",
               *leave = "SELECT pawl_set_gate(NULL, 50, 1, '" MOVE "', NULL, NULL, '0', NULL, false)";
    bed_exec(sweeper, "BEGIN; %s", sweep);
    refused(mover, leave, "55P03", "lock timeout");
    bed_exec(sweeper, "COMMIT");
    bed_exec(mover, "BEGIN; %s", leave);
    PGresult *r = PQexec(sweeper, "SELECT next_us FROM pawl_sweep(NULL, 50, 0, 0, 0, 0, 0, 0, 1000)");
    assert_int_equal(PQresultStatus(r), PGRES_TUPLES_OK); /* it does not wait for a move */
    assert_string_equal(PQgetvalue(r, 0, 0), "60000000");
    PQclear(r);
    PQfinish(sweeper);
    PQfinish(mover);
}

/* A large day is removed in steps, bodies first. What has no body is not told, and not counted. */
static void half_removed_days_are_not_counted(void **state)
{
    (void)state;
    PGconn *pg = bed_connect(schema);
    bed_exec(pg, "SELECT pawl_enqueue('kept'), pawl_enqueue('gone')");
    bed_exec(
        pg,
        "INSERT INTO pawl_done (id, finished_us, node, fence, runs, failures, interruptions, rescues, state, outcome, level, flags) "
        "SELECT id, pawl_now(), 0, 1, 1, 0, 0, 0, 4, 1, 1, 0 FROM pawl_live; DELETE FROM pawl_live");
    assert_int_equal(count(PAWL_SUCCEEDED), 2);
    bed_exec(pg, "DELETE FROM pawl_body WHERE id = (SELECT min(id) FROM pawl_body)");
    assert_int_equal(count(PAWL_SUCCEEDED), 1);
    PQfinish(pg);
}

static int set_up(void **state)
{
    (void)state;
    bed_empty(schema);
    pawl_store_options options = {
        .url = url, .lease_us = 30 * PAWL_SECOND, .clock = clock_system(), .allocator = alloc_default()};
    arena = arena_new(alloc_default(), 0);
    return store_open(&options, &store, &err);
}

static int tear_down(void **state)
{
    (void)state;
    store_close(store);
    arena_free(arena);
    return 0;
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, set_up, tear_down)

int main(void)
{
    static const struct CMUnitTest tests[] = {
        TEST(enqueue_is_refused),
        TEST(open_transactions_are_counted),
        TEST(others_are_not_counted),
        TEST(prepared_transactions_are_counted),
        TEST(old_snapshots_are_refused),
        TEST(sweeps_are_waited_for),
        TEST(half_removed_days_are_not_counted),
    };
    if (!bed_there(false)) return BED_SKIP;
    if (pawl_register_store(&store_postgres_type, &err)) return pawl_die(&err);
    bed_schema(schema, sizeof schema, "gate");
    bed_url(url, sizeof url, schema, false);
    int failed = cmocka_run_group_tests_name("gate", tests, NULL, NULL);
    bed_drop(schema);
    return failed;
}
