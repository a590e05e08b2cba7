/* What does not fit: servers that refuse, rights that are missing, schemas of other versions, bytes that are no text, locks that somebody
 * holds. Each ends in a message that says what to do, and nothing is stored that was not acknowledged.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "bed.h"
#include "store/postgres/postgres.h"
#include "store/store.h"
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static char schema[64], url[700];
static PGconn *pg;
static pawl_store *store;
static pawl_arena *arena;
static pawl_error err;
static pawl_id next_id;

static pawl_status try_open(const char *at)
{
    pawl_store_options options = {.url = at,
                                  .lease_us = 30 * PAWL_SECOND,
                                  .lock_wait_us = 300 * PAWL_MILLISECOND,
                                  .clock = clock_system(),
                                  .allocator = alloc_default()};
    memset(&err, 0, sizeof err);
    return store_open(&options, &store, &err);
}

static void open_store(void)
{
    if (try_open(url)) fail_msg("%s", err.message);
}

static void close_store(void)
{
    store_close(store);
    store = NULL;
}

static void refuses(const char *at, pawl_status wanted, const char *word)
{
    pawl_status status = try_open(at);
    if (status != wanted || !strstr(err.message, word))
        fail_msg("%s instead of %s for %s: %s", pawl_status_name(status), pawl_status_name(wanted), at, err.message);
    assert_null(store);
    assert_null(strstr(err.message, "secret"));
}

/* The test's URL with other parts: libpq lets later parameters win. */
static const char *with(const char *more)
{
    static char changed[1000];
    snprintf(changed, sizeof changed, "%s&%s", url, more);
    return changed;
}

static pawl_op insert_of(pawl_body *b)
{
    *b = (pawl_body){.id = ++next_id, .type = "t", .queue = "q", .tenant = "", .content_type = "application/json"};
    pawl_op op = {.kind = PAWL_OP_INSERT, .id = b->id, .audit = PAWL_AUDIT_FULL};
    op.u.insert.body = b;
    return op;
}

static void apply(pawl_op *ops, int count)
{
    pawl_op *all[64];
    for (int i = 0; i < count; i++) all[i] = &ops[i];
    pawl_batch batch = {.ops = all, .count = count};
    if (store->type->apply(store, &batch, arena, &err)) fail_msg("%s", err.message);
}

/* ---- URLs and servers ---------------------------------------------------------------------------------------------------- */

static void urls(void **state)
{
    (void)state;
    refuses("postgres://localhost/db?pawl_shema=x", PAWL_INVALID, "pawl_shema");
    refuses("postgres://localhost/db?pawl_schema=", PAWL_INVALID, "pawl_schema");
    refuses("postgres://localhost/db?pawl_schema=pg_x", PAWL_INVALID, "pg_");
    refuses("postgres://localhost/db?pawl_schema=a%22b", PAWL_INVALID, "letters");
    refuses("postgres://localhost/db?pawl_proxy=maybe", PAWL_INVALID, "on or off");
    refuses("postgres://localhost/db?pawl_poll_ms=1", PAWL_INVALID, "100");
    refuses("postgres://localhost/db?nonsense=1", PAWL_INVALID, "nonsense");
    refuses("postgres:nonsense=1", PAWL_INVALID, "nonsense");
    refuses("postgresql:pawl_schema='a b'", PAWL_INVALID, "letters");
    refuses("postgres:postgres://ann:secret@localhost/db", PAWL_INVALID, "twice");
}

/* Whatever is wrong with it. */
static void passwords_are_not_repeated(void **state)
{
    (void)state;
    refuses("postgres://ann:secret@[::1", PAWL_INVALID, "brackets");
    refuses("postgres://ann:secret%zz@localhost/db", PAWL_INVALID, "percent");
    refuses("postgres://ann@localhost/db?password=secret%zz", PAWL_INVALID, "percent");
    refuses("postgres://ann@localhost/db?pass%77ord=secret=secret", PAWL_INVALID, "not shown");
    refuses("postgres:host=localhost password=my secret", PAWL_INVALID, "quotes");
    refuses("postgres:host=localhost password='secret", PAWL_INVALID, "quotes");
    refuses("postgres:host=localhost password=secret pawl_proxy=maybe", PAWL_INVALID, "on or off");
}

static void keywords_work_too(void **state)
{
    (void)state;
    char at[900];
    const char *host = strstr(url, "host=");
    if (!host) skip();
    char folder[200];
    snprintf(folder, sizeof folder, "%.*s", (int)strcspn(host + 5, "&"), host + 5);
    snprintf(at, sizeof at, "postgres:host='%s' user=postgres dbname=postgres pawl_schema=%s pawl_poll_ms=1000", folder, schema);
    if (try_open(at)) fail_msg("%s", err.message);
    close_store();
}

static void nobody_answers(void **state)
{
    (void)state;
    refuses("postgres://ann:secret@/db?host=/nonexistent", PAWL_UNAVAILABLE, "could not");
    refuses("postgres://ann:secret@127.0.0.1:1/db", PAWL_UNAVAILABLE, "could not");
}

static void no_such_database(void **state)
{
    (void)state;
    char at[900];
    snprintf(at, sizeof at, "%s", url);
    char *name = strstr(at, "/postgres?");
    if (!name) skip();
    memcpy(name, "/nonesuch?", 10);
    refuses(at, PAWL_NOT_FOUND, "check the database's name");
}

static void wrong_password(void **state)
{
    (void)state;
    if (getenv("PAWL_TEST_POSTGRES")) skip(); /* that server decides itself whom it trusts */
    bed_exec(
        pg,
        "DO $$ BEGIN IF NOT EXISTS (SELECT FROM pg_roles WHERE rolname = 'locked') THEN CREATE ROLE locked LOGIN PASSWORD 'right'; "
        "END IF; END $$");
    refuses(with("user=locked&password=secret"), PAWL_DENIED, "password");
    refuses(with("user=locked"), PAWL_DENIED, "password");
    refuses(with("user=nobody_at_all"), PAWL_DENIED, "nobody_at_all");
}

static void rights(void **state)
{
    (void)state;
    char role[100], more[200];
    snprintf(role, sizeof role, "%s_role", schema);
    snprintf(more, sizeof more, "user=%s", role);
    bed_exec(pg, "CREATE ROLE \"%s\" LOGIN", role);
    refuses(with(more), PAWL_DENIED, "grant the role");
    open_store();
    close_store();
    refuses(with(more), PAWL_DENIED, "USAGE");
    bed_exec(pg, "GRANT USAGE ON SCHEMA \"%s\" TO \"%s\"", schema, role);
    refuses(with(more), PAWL_DENIED, "permission denied");
    bed_exec(pg, "GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA \"%s\" TO \"%s\"", schema, role);
    bed_exec(pg,
             "GRANT ALL ON ALL SEQUENCES IN SCHEMA \"%s\" TO \"%s\"; GRANT EXECUTE ON ALL FUNCTIONS IN SCHEMA \"%s\" TO \"%s\"",
             schema, role, schema, role);
    if (try_open(with(more))) fail_msg("%s", err.message);
    pawl_body body;
    pawl_op in = insert_of(&body);
    apply(&in, 1);
    bed_exec(
        pg,
        "DELETE FROM pawl_day; DO $$ DECLARE t text; BEGIN FOR t IN SELECT inhrelid::regclass FROM pg_inherits WHERE inhparent = "
        "'pawl_done'::regclass LOOP EXECUTE 'DROP TABLE ' || t; END LOOP; END $$");
    pawl_op cancel = {.kind = PAWL_OP_CANCEL, .id = in.id, .audit = PAWL_AUDIT_FULL};
    apply(&cancel, 1); /* it makes the day's table, which it would not be allowed to by itself */
    assert_int_equal(cancel.result, PAWL_OP_DONE);
    pawl_sweep sweep = {.keep_resolved_us = -1, .keep_failed_us = -1, .keep_audit_us = -1, .keep_logs_us = -1, .limit = 100};
    assert_int_equal(store->type->sweep(store, &sweep, &err), PAWL_OK);
    assert_int_equal(sweep.removed, 1);
    close_store();
    bed_exec(pg, "DROP OWNED BY \"%s\"; DROP ROLE \"%s\"", role, role);
}

static void another_encoding(void **state)
{
    (void)state;
    char at[900], *name;
    snprintf(at, sizeof at, "%s", url);
    if (!(name = strstr(at, "/postgres?"))) skip();
    bed_exec(pg, "DROP DATABASE IF EXISTS askii");
    bed_exec(pg, "CREATE DATABASE askii TEMPLATE template0 ENCODING 'SQL_ASCII' LC_COLLATE 'C' LC_CTYPE 'C'");
    memmove(name + 6, name + 9, strlen(name + 9) + 1);
    memcpy(name, "/askii", 6);
    refuses(at, PAWL_UNSUPPORTED, "UTF8");
    bed_exec(pg, "DROP DATABASE askii");
}

static void a_proxy_that_was_not_named(void **state)
{
    (void)state;
    char at[700];
    if (!bed_there(true)) skip();
    bed_url(at, sizeof at, schema, true);
    char *flag = strstr(at, "pawl_proxy=on");
    assert_non_null(flag);
    memcpy(flag, "pawl_proxy=off&", 13);
    memmove(flag + 14, flag + 13, strlen(flag + 13) + 1);
    memcpy(flag, "pawl_proxy=off", 14);
    refuses(at, PAWL_UNSUPPORTED, "pawl_proxy=on");
}

/* ---- schemas ------------------------------------------------------------------------------------------------------------- */

static void a_newer_schema(void **state)
{
    (void)state;
    open_store();
    close_store();
    bed_exec(
        pg,
        "UPDATE pawl_meta SET value = '99' WHERE key IN ('schema', 'min_reader'); UPDATE pawl_meta SET value = '9.9' WHERE key = "
        "'written_by'");
    refuses(url, PAWL_SCHEMA, "9.9");
    bed_exec(pg,
             "UPDATE pawl_meta SET value = '8' WHERE key = 'min_reader'"); /* newer, but made so that this program can use it */
    open_store();
    close_store();
}

static void a_schema_that_left_this_program_behind(void **state)
{
    (void)state;
    pawl_renewal call = {.node = 1};
    open_store();
    bed_exec(pg, "DROP FUNCTION pawl_renew");
    assert_int_equal(store->type->renew(store, &call, &err), PAWL_SCHEMA);
    assert_non_null(strstr(err.message, "migrate status"));
    close_store();
}

static void not_migrated_unless_allowed(void **state)
{
    (void)state;
    pawl_store_options options = {.url = url, .no_migrate = true, .clock = clock_system(), .allocator = alloc_default()};
    assert_int_equal(store_open(&options, &store, &err), PAWL_SCHEMA);
    assert_non_null(strstr(err.message, "pawl migrate up"));
    options.no_migrate = false;
    options.read_only = true;
    assert_int_equal(store_open(&options, &store, &err), PAWL_NOT_FOUND);
    assert_int_equal(
        bed_int(pg, "SELECT count(*) FROM pg_class WHERE relname = 'pawl_meta' AND relnamespace = to_regnamespace('\"%s\"')",
                schema),
        0);
}

/* ---- bytes --------------------------------------------------------------------------------------------------------------- */

static void bad_text_is_refused_alone(void **state)
{
    (void)state;
    pawl_body bodies[8];
    pawl_op ops[8];
    char long_key[1200];
    memset(long_key, 'x', sizeof long_key - 1);
    long_key[sizeof long_key - 1] = '\0';
    open_store();
    for (int i = 0; i < 8; i++) ops[i] = insert_of(&bodies[i]);
    bodies[1].type = "\xff";
    bodies[2].headers = "a: \xc3(";
    bodies[3].key = "\xed\xa0\x80";
    bodies[4].key = long_key;
    bodies[5].payload = (pawl_bytes){"\xff\0\xfe", 3}; /* bytes are bytes */
    bodies[6].created_by = "\xf0\x28\x8c\x28";
    apply(ops, 8);
    for (int i = 0; i < 8; i++) assert_int_equal(ops[i].result, i == 0 || i == 5 || i == 7 ? PAWL_OP_DONE : PAWL_OP_REFUSED);
    assert_int_equal(bed_int(pg, "SELECT count(*) FROM pawl_body"), 3);
    close_store();
}

/* An outcome is not lost because of what its run said. */
static void what_a_run_said_is_cleaned(void **state)
{
    (void)state;
    pawl_body body;
    open_store();
    pawl_registration node = {.name = "n", .queues = "q", .types = "*", .lease_us = 30 * PAWL_SECOND};
    assert_int_equal(store->type->register_node(store, &node, &err), PAWL_OK);
    pawl_op in = insert_of(&body), *op = &in;
    in.u.insert.ask_lease = true;
    pawl_batch batch = {.node = node.node, .number = 1, .ops = &op, .count = 1};
    assert_int_equal(store->type->apply(store, &batch, arena, &err), PAWL_OK);
    pawl_op end = {.kind = PAWL_OP_FINISH, .id = in.id, .fence = in.out_fence, .audit = PAWL_AUDIT_FULL};
    end.u.finish.to = PAWL_FAILED;
    end.u.finish.run =
        (pawl_execution){.outcome = PAWL_ATTEMPT_FAILED, .number = 1, .started_us = 1, .finished_us = 2, .progress = -1};
    end.u.finish.run.error = "bad \xff byte";
    end.u.finish.run.log = (pawl_bytes){"1 2 a\0b \xc3\n", 10};
    end.u.finish.run.log_lines = 1;
    apply(&end, 1);
    assert_int_equal(end.result, PAWL_OP_DONE);
    pawl_query get = {.kind = PAWL_QUERY_GET, .id = in.id}, trail = {.kind = PAWL_QUERY_TRAIL, .id = in.id};
    assert_int_equal(store_read(store, &get, arena, &err), PAWL_OK);
    assert_string_equal(get.info->error, "bad \xef\xbf\xbd byte");
    assert_int_equal(store_read(store, &trail, arena, &err), PAWL_OK);
    assert_string_equal(trail.trail->lines[0].text, "a\xef\xbf\xbd"
                                                    "b \xef\xbf\xbd");
    close_store();
}

/* What only the server can tell is hunted down. */
static void a_row_the_server_refuses(void **state)
{
    (void)state;
    pawl_body bodies[20];
    pawl_op ops[20];
    open_store();
    bed_exec(pg, "ALTER TABLE pawl_live ADD CONSTRAINT bad CHECK (priority <> 77)");
    for (int i = 0; i < 20; i++) ops[i] = insert_of(&bodies[i]);
    bodies[13].priority = bodies[4].priority = 77;
    apply(ops, 20);
    for (int i = 0; i < 20; i++) assert_int_equal(ops[i].result, i == 13 || i == 4 ? PAWL_OP_REFUSED : PAWL_OP_DONE);
    assert_int_equal(bed_int(pg, "SELECT count(*) FROM pawl_body"), 18);
    close_store();
}

/* ---- locks and time ------------------------------------------------------------------------------------------------------ */

static void a_lock_that_somebody_holds(void **state)
{
    (void)state;
    pawl_body body;
    open_store();
    bed_exec(pg, "BEGIN; LOCK TABLE pawl_body IN ACCESS EXCLUSIVE MODE");
    pawl_op in = insert_of(&body), *op = &in;
    pawl_batch batch = {.ops = &op, .count = 1};
    assert_int_equal(store->type->apply(store, &batch, arena, &err), PAWL_UNAVAILABLE);
    assert_non_null(strstr(err.message, "lock timeout"));
    bed_exec(pg, "COMMIT");
    assert_int_equal(bed_int(pg, "SELECT count(*) FROM pawl_body"), 0);
    apply(&in, 1);
    assert_int_equal(in.result, PAWL_OP_DONE);
    close_store();
}

/* A claim that comes to the server after its caller has given up takes no effect. */
static void too_late(void **state)
{
    (void)state;
    pawl_body body;
    open_store();
    pawl_op in = insert_of(&body);
    apply(&in, 1);
    bed_exec(pg, "SELECT pawl_register(NULL, NULL, NULL, 'n', 1, 'q', '*', 30000000, true)");
    static const char claim[] =
        "SELECT * FROM pawl_claim(NULL, NULL, pawl_now() %s, 1, false, ARRAY[(SELECT id FROM pawl_name WHERE text = 'q')], "
        "'{1}', '{0}', '{t}', '{t}', NULL, NULL, NULL, NULL, NULL)";
    char sql[400];
    snprintf(sql, sizeof sql, claim, "- 1");
    PGresult *r = PQexec(pg, sql);
    assert_string_equal(PQresultErrorField(r, PG_DIAG_SQLSTATE), "PW002");
    PQclear(r);
    assert_int_equal(bed_int(pg, "SELECT count(*) FROM pawl_leased"), 0);
    snprintf(sql, sizeof sql, claim, "+ 60000000");
    bed_exec(pg, "%s", sql);
    assert_int_equal(bed_int(pg, "SELECT count(*) FROM pawl_leased"), 1);
    close_store();
}

static int claim_one(int64_t node)
{
    pawl_claimed task;
    pawl_want want = {.queue = "q", .free = 1, .any_type = true};
    pawl_claim call = {.node = node, .wants = &want, .wants_count = 1, .allocator = alloc_default(), .tasks = &task};
    if (store->type->claim(store, &call, arena, &err)) fail_msg("%s", err.message);
    if (call.tasks_count) alloc_free(alloc_default(), task.body);
    return call.tasks_count;
}

/* What another handle puts back where claims have been already is told, and found. */
static void put_back_behind_the_claims(void **state)
{
    (void)state;
    pawl_body body;
    pawl_store *other;
    open_store();
    pawl_store_options options = {
        .url = url, .lease_us = 30 * PAWL_SECOND, .clock = clock_system(), .allocator = alloc_default()};
    assert_int_equal(store_open(&options, &other, &err), PAWL_OK);
    int fd = store->type->watch_fd(store);
    pawl_registration node = {.name = "n", .queues = "q", .types = "*", .lease_us = 30 * PAWL_SECOND};
    assert_int_equal(store->type->register_node(store, &node, &err), PAWL_OK);
    pawl_op in = insert_of(&body);
    apply(&in, 1);
    bed_exec(pg, "UPDATE pawl_live SET run_at_us = run_at_us - 60000000");
    assert_int_equal(claim_one(node.node), 1);
    assert_int_equal(claim_one(node.node), 0);
    pawl_op back = {.kind = PAWL_OP_RELEASE, .id = in.id, .fence = 1, .audit = PAWL_AUDIT_FULL}, *op = &back;
    back.u.release.delay_us = -1;
    back.u.release.run.progress = -1;
    pawl_batch batch = {.ops = &op, .count = 1};
    bool changed = true;
    int64_t again;
    while (changed) store->type->watch_check(store, &changed, &again);
    assert_int_equal(other->type->apply(other, &batch, arena, &err), PAWL_OK);
    assert_int_equal(back.result, PAWL_OP_DONE);
    while (!changed) {
        struct pollfd p = {.fd = fd, .events = POLLIN};
        assert_int_equal(poll(&p, 1, 30000), 1);
        store->type->watch_check(store, &changed, &again);
    }
    assert_int_equal(claim_one(node.node), 1);
    store_close(other);
    close_store();
}

/* ---- around the tests ---------------------------------------------------------------------------------------------------- */

static int set_up(void **state)
{
    (void)state;
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    next_id = (now.tv_sec * 1000 - PAWL_EPOCH_MS) << 22 | 9 << 12;
    bed_schema(schema, sizeof schema, "input");
    bed_url(url, sizeof url, schema, false);
    pg = bed_connect(schema);
    arena = arena_new(alloc_default(), 0);
    store = NULL;
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    if (store) store_close(store);
    arena_free(arena);
    PQfinish(pg);
    bed_drop(schema);
    return 0;
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, set_up, tear_down)

int main(void)
{
    static const struct CMUnitTest tests[] = {
        TEST(urls),
        TEST(passwords_are_not_repeated),
        TEST(keywords_work_too),
        TEST(nobody_answers),
        TEST(no_such_database),
        TEST(wrong_password),
        TEST(rights),
        TEST(another_encoding),
        TEST(a_proxy_that_was_not_named),
        TEST(a_newer_schema),
        TEST(a_schema_that_left_this_program_behind),
        TEST(not_migrated_unless_allowed),
        TEST(bad_text_is_refused_alone),
        TEST(what_a_run_said_is_cleaned),
        TEST(a_row_the_server_refuses),
        TEST(a_lock_that_somebody_holds),
        TEST(too_late),
        TEST(put_back_behind_the_claims),
    };
    if (!bed_there(false)) return BED_SKIP;
    if (pawl_register_store(&store_postgres_type, &err)) return pawl_die(&err);
    return cmocka_run_group_tests_name("input", tests, NULL, NULL);
}
