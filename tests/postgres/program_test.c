/* Programs on PostgreSQL, through pawl.h: transactions of their own, the SQL function pawl_enqueue, wake-ups, idleness, lost connections. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "bed.h"
#include "store/postgres/postgres.h"
#include <pawl.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define PATIENCE (30 * PAWL_SECOND) /* no wait that succeeds comes near it */
#define NEVER "3600000"             /* milliseconds between safety polls */

static char schema[64];
static PGconn *pg; /* the program's own */
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

static pawl *open_with(const char *poll_ms, const char *more, bool proxy)
{
    char url[700], base[500];
    pawl *opened;
    bed_url(base, sizeof base, schema, proxy);
    snprintf(url, sizeof url, "%s&pawl_poll_ms=%s%s", base, poll_ms, more);
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

static pawl_id parse(const char *text)
{
    pawl_id id;
    assert_true(pawl_id_parse(text, &id));
    return id;
}

static pawl_id enqueue(const char *arguments)
{
    char sql[500];
    snprintf(sql, sizeof sql, "SELECT pawl_enqueue(%s)", arguments);
    PGresult *r = PQexec(pg, sql);
    if (PQresultStatus(r) != PGRES_TUPLES_OK) fail_msg("%s", PQerrorMessage(pg));
    pawl_id id = parse(PQgetvalue(r, 0, 0));
    PQclear(r);
    return id;
}

static void enqueue_fails(const char *arguments, const char *word)
{
    char sql[500];
    snprintf(sql, sizeof sql, "SELECT pawl_enqueue(%s)", arguments);
    PGresult *r = PQexec(pg, sql);
    assert_int_equal(PQresultStatus(r), PGRES_FATAL_ERROR);
    if (!strstr(PQresultErrorMessage(r), word)) fail_msg("no \"%s\" in: %s", word, PQresultErrorMessage(r));
    PQclear(r);
}

/* ---- dispatch and completion in the program's transaction ------------------------------------------------------------------ */

static void dispatch_commits_or_vanishes(void **state)
{
    (void)state;
    pawl_receipt kept, gone;
    p = open_with(NEVER, "", false);
    start(p, "t", count_run);
    bed_exec(pg, "CREATE TABLE orders (id int); BEGIN; INSERT INTO orders VALUES (1)");
    ok(pawl_dispatch_pg(p, pg, &(pawl_task){.type = "t", .payload = pawl_str("[7]")}, &kept, &err));
    assert_int_equal(kept.outcome, PAWL_CREATED);
    assert_int_equal(PQtransactionStatus(pg), PQTRANS_INTRANS);
    bed_exec(pg, "COMMIT");
    await(p, kept.id, PAWL_SUCCEEDED);
    bed_exec(pg, "BEGIN; INSERT INTO orders VALUES (2)");
    ok(pawl_dispatch_pg(p, pg, &(pawl_task){.type = "t"}, &gone, &err));
    bed_exec(pg, "ROLLBACK");
    refused(pawl_wait(p, gone.id, 0, NULL, &err), PAWL_NOT_FOUND, "no task");
    assert_int_equal(bed_int(pg, "SELECT count(*) FROM orders"), 1);
    assert_int_equal(atomic_load(&runs), 1);
}

static void keys_in_a_transaction(void **state)
{
    (void)state;
    pawl_receipt first, same;
    p = open_with(NEVER, "", false);
    bed_exec(pg, "BEGIN");
    ok(pawl_dispatch_pg(p, pg, &(pawl_task){.type = "t", .key = "k", .delay_us = PAWL_HOUR}, &first, &err));
    ok(pawl_dispatch_pg(p, pg, &(pawl_task){.type = "t", .key = "k", .delay_us = PAWL_HOUR, .payload = pawl_str("2")}, &same,
                        &err));
    bed_exec(pg, "COMMIT");
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
    p = open_with(NEVER, "", false);
    PGconn *other = bed_connect(schema);
    bed_exec(other, "SET lock_timeout = '2s'");
    bed_exec(pg, "BEGIN");
    ok(pawl_dispatch_pg(p, pg, &(pawl_task){.type = "t", .delay_us = PAWL_HOUR}, &r, &err));
    enqueue("'t', delay => '1 hour'");
    bed_exec(other, "BEGIN");
    ok(pawl_dispatch_pg(p, other, &(pawl_task){.type = "t", .delay_us = PAWL_HOUR}, &r, &err));
    bed_exec(other, "SELECT pawl_enqueue('t', delay => '1 hour'); COMMIT");
    ok(pawl_dispatch(p, &(pawl_task){.type = "t", .delay_us = PAWL_HOUR}, NULL, &err));
    bed_exec(pg, "COMMIT");
    pawl_stats *stats;
    ok(pawl_get_stats(p, 0, &stats, &err));
    assert_true(stats->pending == 5 && stats->dispatched == 5);
    pawl_stats_free(stats);
    PQfinish(other);
}

static pawl_outcome complete(pawl_run *run, void *ctx)
{
    const char *end = ctx;
    pawl_outcome outcome;
    pawl_error failure;
    PGconn *own = bed_connect(schema);
    atomic_fetch_add(&runs, 1);
    bed_exec(own, "BEGIN; INSERT INTO orders VALUES (%d)", atomic_load(&runs));
    if (pawl_complete_pg(run, own, &outcome, &failure)) {
        bed_exec(own, "ROLLBACK");
        PQfinish(own);
        return pawl_fail(run, "%s", failure.message);
    }
    bed_exec(own, "%s", atomic_load(&runs) == 1 ? end : "COMMIT");
    PQfinish(own);
    return outcome;
}

static void completes(const char *end, int runs_wanted, int orders_wanted)
{
    pawl_id id;
    p = open_with(NEVER, "", false);
    bed_exec(pg, "CREATE TABLE orders (id int)");
    ok(pawl_handle(
        p,
        &(pawl_handler){
            .type = "t", .run = complete, .ctx = (void *)end, .retry = {.curve = PAWL_CURVE_FIXED, .delay_us = PAWL_MILLISECOND}},
        &err));
    ok(pawl_start(p, &err));
    ok(pawl_dispatch(p, &(pawl_task){.type = "t"}, &id, &err));
    await(p, id, PAWL_SUCCEEDED);
    assert_int_equal(atomic_load(&runs), runs_wanted);
    assert_int_equal(bed_int(pg, "SELECT count(*) FROM orders"), orders_wanted);
    pawl_info *info;
    ok(pawl_get(p, id, &info, &err));
    assert_int_equal(info->attempts_count, runs_wanted);
    pawl_info_free(info);
}

/* A parent may end while its child is in a transaction that nobody can see: neither waits for the other, and the child is told. */
static void families_in_a_transaction(void **state)
{
    (void)state;
    pawl_id parent, batch;
    pawl_receipt child, member;
    pawl_batch_info *info;
    p = open_with(NEVER, "", false);
    start(p, "t", count_run);
    ok(pawl_dispatch(p, &(pawl_task){.type = "t", .delay_us = PAWL_HOUR}, &parent, &err));
    ok(pawl_open_batch(p, &(pawl_batch_options){.name = "b"}, &batch, &err));
    bed_exec(pg, "BEGIN");
    ok(pawl_dispatch_pg(p, pg, &(pawl_task){.type = "t", .parents = &parent, .parents_count = 1, .if_failed = PAWL_IF_FAILED_RUN},
                        &child, &err));
    ok(pawl_dispatch_pg(p, pg, &(pawl_task){.type = "t", .batch = batch}, &member, &err));
    ok(pawl_cancel(p, parent, NULL, &err));
    bed_exec(pg, "COMMIT");
    await(p, child.id, PAWL_SUCCEEDED);
    await(p, member.id, PAWL_SUCCEEDED);
    ok(pawl_close_batch(p, batch, NULL, &err));
    ok(pawl_get_batch(p, batch, NULL, &info, &err));
    assert_true(info->total == 1 && info->succeeded == 1 && info->state == PAWL_SUCCEEDED);
    pawl_batch_info_free(info);
    assert_int_equal(bed_int(pg, "SELECT count(*) FROM pawl_unsettled"), 0);
}

/* What ends in the program's transaction is told to its child, and to the schedule that made it. */
static void ends_in_a_transaction(void **state)
{
    (void)state;
    pawl_id parent, child, last;
    p = open_with(NEVER, "", false);
    bed_exec(pg, "CREATE TABLE orders (id int)");
    ok(pawl_handle(p, &(pawl_handler){.type = "t", .run = complete, .ctx = "COMMIT"}, &err));
    start(p, "u", count_run);
    ok(pawl_dispatch(p, &(pawl_task){.type = "t", .delay_us = 100 * PAWL_MILLISECOND}, &parent, &err));
    ok(pawl_dispatch(p, &(pawl_task){.type = "u", .parents = &parent, .parents_count = 1}, &child, &err));
    await(p, child, PAWL_SUCCEEDED);
    ok(pawl_put_schedule(p, &(pawl_schedule){.name = "s", .every = 1, .unit = PAWL_HOURS, .type = "t", .queue = "default"},
                         PAWL_PUT_UPDATE, NULL, &err));
    ok(pawl_put_schedule(p, &(pawl_schedule){.name = "f", .after = "s", .type = "u", .queue = "default"}, PAWL_PUT_UPDATE, NULL,
                         &err));
    ok(pawl_run_schedule(p, "s", NULL, NULL, NULL, &err));
    while (!(last = bed_int(pg, "SELECT last_task FROM pawl_schedule_state WHERE name = 'f'"))) {}
    await(p, last, PAWL_SUCCEEDED);
    assert_int_equal(bed_int(pg, "SELECT succeeded FROM pawl_schedule_state WHERE name = 's'"), 1);
    assert_int_equal(bed_int(pg, "SELECT count(*) FROM pawl_ended"), 0);
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
    p = open_with(NEVER, "", false);
    refused(pawl_dispatch_pg(p, NULL, &task, &r, &err), PAWL_INVALID, "NULL");
    refused(pawl_dispatch_pg(p, pg, &task, &r, &err), PAWL_MISUSE, "not inside a transaction");
    bed_exec(pg, "BEGIN");
    PQclear(PQexec(pg, "SELECT 1 / 0"));
    refused(pawl_dispatch_pg(p, pg, &task, &r, &err), PAWL_MISUSE, "failed already");
    bed_exec(pg, "ROLLBACK");
    assert_int_equal(PQenterPipelineMode(pg), 1);
    refused(pawl_dispatch_pg(p, pg, &task, &r, &err), PAWL_MISUSE, "pipeline");
    assert_int_equal(PQexitPipelineMode(pg), 1);
    bed_exec(pg, "BEGIN");
    refused(pawl_dispatch_sqlite(p, (struct sqlite3 *)pg, &task, &r, &err), PAWL_MISUSE, "not SQLite");
    bed_exec(pg, "COMMIT");
    pawl *memory;
    ok(pawl_open(&(pawl_options){.store = "memory:"}, &memory, &err));
    refused(pawl_dispatch_pg(memory, pg, &task, &r, &err), PAWL_UNSUPPORTED, "memory");
    pawl_close(memory);
}

/* What failed inside leaves the program's own work as it was. */
static void a_refusal_leaves_the_transaction(void **state)
{
    (void)state;
    pawl_receipt r;
    p = open_with(NEVER, "", false);
    bed_exec(pg, "CREATE TABLE orders (id int); ALTER TABLE pawl_live ADD CONSTRAINT bad CHECK (priority <> 77)");
    bed_exec(pg, "BEGIN; INSERT INTO orders VALUES (1)");
    assert_int_not_equal(pawl_dispatch_pg(p, pg, &(pawl_task){.type = "t", .priority = 77}, &r, &err), PAWL_OK);
    assert_int_equal(PQtransactionStatus(pg), PQTRANS_INTRANS);
    ok(pawl_dispatch_pg(p, pg, &(pawl_task){.type = "t", .delay_us = PAWL_HOUR}, &r, &err));
    bed_exec(pg, "COMMIT; ALTER TABLE pawl_live DROP CONSTRAINT bad");
    assert_int_equal(bed_int(pg, "SELECT count(*) FROM orders"), 1);
    assert_int_equal(bed_int(pg, "SELECT count(*) FROM pawl_body"), 1);
}

/* ---- pawl_enqueue -------------------------------------------------------------------------------------------------------- */

static void enqueue_from_sql(void **state)
{
    (void)state;
    p = open_with(NEVER, "", false);
    start(p, "t", count_run);
    pawl_id id = enqueue("'t', '{\"a\":  1}', key => 'k', tenant => 'acme', priority => -3, created_by => 'sql'");
    await(p, id, PAWL_SUCCEEDED);
    pawl_info *info;
    ok(pawl_get(p, id, &info, &err));
    assert_int_equal(info->payload.len, 9); /* as it was written */
    assert_memory_equal(info->payload.data, "{\"a\":  1}", 9);
    assert_string_equal(info->content_type, "application/json");
    assert_string_equal(info->tenant, "acme");
    assert_string_equal(info->key, "k");
    assert_string_equal(info->created_by, "sql");
    assert_int_equal(info->priority, -3);
    pawl_info_free(info);
    bed_exec(pg, "BEGIN");
    pawl_id gone = enqueue("'t'");
    bed_exec(pg, "ROLLBACK");
    refused(pawl_get(p, gone, &info, &err), PAWL_NOT_FOUND, "no task");
}

static void enqueue_with_all_it_can(void **state)
{
    (void)state;
    p = open_with(NEVER, "", false);
    pawl_id id =
        enqueue("'t', payload_bytes => '\\x00ff', queue => 'slow', delay => '2 hours', max_attempts => 7, timeout => '90 s'");
    pawl_info *info;
    ok(pawl_get(p, id, &info, &err));
    assert_true(info->payload.len == 2 && memcmp(info->payload.data, "\0\xff", 2) == 0);
    assert_string_equal(info->content_type, "application/octet-stream");
    assert_string_equal(info->queue, "slow");
    assert_string_equal(info->display, "scheduled");
    assert_true(info->max_attempts == 7 && info->timeout_us == 90 * PAWL_SECOND);
    assert_true(info->run_at_us - info->created_us == 2 * PAWL_HOUR);
    pawl_info_free(info);
    id = enqueue("'t', run_at => '2100-01-01T00:00:00Z'");
    ok(pawl_get(p, id, &info, &err));
    assert_true(info->run_at_us == INT64_C(4102444800000000));
    pawl_info_free(info);
    assert_true(enqueue("'t', key => 'k', delay => '1 hour'") == enqueue("'t', key => 'k', delay => '2 hours'"));
}

static void enqueue_refuses(void **state)
{
    (void)state;
    p = open_with(NEVER, "", false);
    enqueue_fails("NULL", "type");
    enqueue_fails("''", "type");
    enqueue_fails("repeat('x', 201)", "type");
    enqueue_fails("'t', queue => E'a\\nb'", "queue");
    enqueue_fails("'t', priority => 40000", "priority");
    enqueue_fails("'t', '{\"a\":'", "json");
    enqueue_fails("'t', '1', payload_bytes => '\\x00'", "not both");
    enqueue_fails("'t', payload_bytes => convert_to(repeat('x', 1048577), 'UTF8')", "1048576");
    assert_int_equal(bed_int(pg, "SELECT count(*) FROM pawl_body"), 0);
}

/* A role that may enqueue, and do nothing else. */
static void enqueue_by_right(void **state)
{
    (void)state;
    char role[80];
    snprintf(role, sizeof role, "%s_app", schema);
    p = open_with(NEVER, "", false);
    bed_exec(pg, "CREATE ROLE \"%s\"; GRANT USAGE ON SCHEMA \"%s\" TO \"%s\"; SET ROLE \"%s\"", role, schema, role, role);
    enqueue_fails("'t'", "permission denied");
    bed_exec(pg, "RESET ROLE; GRANT EXECUTE ON FUNCTION pawl_enqueue TO \"%s\"; SET ROLE \"%s\"", role, role);
    enqueue("'t'");
    PGresult *r = PQexec(pg, "SELECT * FROM pawl_body");
    assert_int_equal(PQresultStatus(r), PGRES_FATAL_ERROR);
    PQclear(r);
    bed_exec(
        pg,
        "RESET ROLE; REVOKE ALL ON FUNCTION pawl_enqueue FROM \"%s\"; REVOKE ALL ON SCHEMA \"%s\" FROM \"%s\"; DROP ROLE \"%s\"",
        role, schema, role, role);
    assert_int_equal(bed_int(pg, "SELECT count(*) FROM pawl_body"), 1);
}

/* ---- hearing of each other ----------------------------------------------------------------------------------------------- */

static void another_engine_is_woken(void **state)
{
    (void)state;
    pawl_id id;
    p = open_with(NEVER, "", false);
    pawl *other = open_with(NEVER, "", false);
    start(other, "t", count_run);
    for (int i = 0; i < 5; i++) {
        ok(pawl_dispatch(p, &(pawl_task){.type = "t"}, &id, &err));
        await(p, id, PAWL_SUCCEEDED); /* and this one learns of the end */
    }
    assert_int_equal(atomic_load(&runs), 5);
    pawl_close(other);
}

static void polled(bool proxy)
{
    p = open_with("200", "", proxy);
    start(p, "t", count_run);
    await(p, enqueue("'t', notify => false"), PAWL_SUCCEEDED);
}

static void what_was_told_to_nobody_is_found(void **state)
{
    (void)state;
    polled(false);
}

static void behind_a_proxy_too(void **state)
{
    (void)state;
    if (!bed_there(true)) skip();
    polled(true);
    /* Nothing of a session was used. */
    char channel[80];
    snprintf(channel, sizeof channel, "pawl.%s", schema);
    assert_int_equal(
        bed_int(pg,
                "SELECT count(*) FROM pg_locks l JOIN pg_class c ON c.oid = l.classid WHERE l.locktype = 'advisory' AND c.oid = "
                "'pawl_node'::regclass"),
        0);
}

/* Everything a row shows of those who wrote or locked it. */
static int64_t marks(void)
{
    int64_t sum = 0;
    static const char *const tables[] = {"pawl_node",  "pawl_lane",  "pawl_live",  "pawl_leased",
                                         "pawl_queue", "pawl_count", "pawl_number"};
    for (size_t i = 0; i < sizeof tables / sizeof *tables; i++)
        sum +=
            bed_int(pg, "SELECT coalesce(sum(hashtext(xmin::text || ' ' || xmax::text || ' ' || ctid::text)), 0)::int8 FROM %s",
                    tables[i]);
    return sum;
}

static int64_t last_query(const char *name)
{
    return bed_int(pg,
                   "SELECT coalesce(max(extract(epoch FROM query_start) * 1000000), 0)::int8 FROM pg_stat_activity "
                   "WHERE application_name = '%s' AND query LIKE '%%pawl_claim%%'",
                   name);
}

static void an_idle_node_writes_nothing(void **state)
{
    (void)state;
    char name[80], more[120];
    pawl_id id;
    snprintf(name, sizeof name, "%s_idle", schema);
    snprintf(more, sizeof more, "&application_name=%s", name);
    p = open_with("100", more, false);
    start(p, "t", count_run);
    ok(pawl_dispatch(p, &(pawl_task){.type = "t"}, &id, &err));
    await(p, id, PAWL_SUCCEEDED);
    int64_t before = 0, seen = last_query(name);
    for (int polls = 0; polls < 4;) { /* the first one may still see the end of what went before */
        int64_t now = last_query(name);
        if (now == seen) continue;
        seen = now;
        if (polls++ == 0) before = marks();
    }
    assert_true(before == marks());
}

/* ---- trouble ------------------------------------------------------------------------------------------------------------- */

static void sessions_that_are_killed_come_back(void **state)
{
    (void)state;
    char name[80], more[120];
    pawl_id id;
    snprintf(name, sizeof name, "%s_killed", schema);
    snprintf(more, sizeof more, "&application_name=%s", name);
    p = open_with(NEVER, more, false);
    start(p, "t", count_run);
    for (int i = 0; i < 3; i++) {
        ok(pawl_dispatch(p, &(pawl_task){.type = "t"}, &id, &err));
        await(p, id, PAWL_SUCCEEDED);
        assert_true(
            bed_int(pg, "SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity WHERE application_name = '%s'", name) > 0);
    }
    await(p, enqueue("'t'"), PAWL_SUCCEEDED); /* and it listens again */
    assert_int_equal(atomic_load(&runs), 4);
    pawl_nodes *nodes;
    ok(pawl_get_nodes(p, &nodes, &err));
    assert_int_equal(nodes->count, 1); /* nobody died of it */
    pawl_nodes_free(nodes);
}

/* ---- around the tests ---------------------------------------------------------------------------------------------------- */

static int set_up(void **state)
{
    (void)state;
    bed_schema(schema, sizeof schema, "program");
    pg = bed_connect(NULL);
    bed_exec(pg, "CREATE SCHEMA \"%s\"; SET search_path = \"%s\", pg_catalog, pg_temp", schema, schema);
    atomic_store(&runs, 0);
    p = NULL;
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    if (p) pawl_close(p);
    PQfinish(pg);
    bed_drop(schema);
    return 0;
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, set_up, tear_down)

int main(void)
{
    static const struct CMUnitTest tests[] = {
        TEST(dispatch_commits_or_vanishes),
        TEST(keys_in_a_transaction),
        TEST(open_transactions_do_not_meet),
        TEST(families_in_a_transaction),
        TEST(ends_in_a_transaction),
        TEST(completion_commits),
        TEST(completion_rolled_back_runs_again),
        TEST(connections_that_will_not_do),
        TEST(a_refusal_leaves_the_transaction),
        TEST(enqueue_from_sql),
        TEST(enqueue_with_all_it_can),
        TEST(enqueue_refuses),
        TEST(enqueue_by_right),
        TEST(another_engine_is_woken),
        TEST(what_was_told_to_nobody_is_found),
        TEST(behind_a_proxy_too),
        TEST(an_idle_node_writes_nothing),
        TEST(sessions_that_are_killed_come_back),
    };
    if (!bed_there(false)) return BED_SKIP;
    if (pawl_register_store(&store_postgres_type, &err)) return pawl_die(&err);
    return cmocka_run_group_tests_name("programs", tests, NULL, NULL);
}
