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
#include "mysql/bed.h"
#include "store/mysql/mysql.h"
#include "store/store.h"
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static char database[64], url[700];
static MYSQL *my;
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

/* The test's URL with another user, and more parameters. */
static const char *as_user(const char *user, const char *more)
{
    static char changed[1000];
    const char *host = strstr(url, "//") + 2, *at = strchr(host, '@');
    snprintf(changed, sizeof changed, "mysql://%s@%s%s", user, at ? at + 1 : host, more);
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
    refuses("mysql:localhost", PAWL_INVALID, "must look like");
    refuses("mysql://localhost", PAWL_INVALID, "names no database");
    refuses("mysql://localhost/", PAWL_INVALID, "names no database");
    refuses("mysql://localhost/a%60b", PAWL_INVALID, "names no database");
    refuses("mysql://localhost:0/db", PAWL_INVALID, "no port");
    refuses("mysql://localhost:x/db", PAWL_INVALID, "no port");
    refuses("mysql://ann:secret/x@localhost/db", PAWL_INVALID, "percent-encoded");
    refuses("mysql://[::1/db", PAWL_INVALID, "no ]");
    refuses("mysql://localhost/db?nonsense=1", PAWL_INVALID, "nonsense");
    refuses("mysql://localhost/db?socket", PAWL_INVALID, "no value");
    refuses("mysql://localhost/db?ssl=maybe", PAWL_INVALID, "on or off");
    refuses("mysql://localhost/db?pawl_poll_ms=1", PAWL_INVALID, "10");
    refuses("mariadb://localhost/db?pawl_poll_ms=x", PAWL_INVALID, "number");
}

static void nobody_answers(void **state)
{
    (void)state;
    refuses("mysql://ann:secret@/db?socket=/nonexistent", PAWL_UNAVAILABLE, "could not");
    refuses("mysql://ann:secret@127.0.0.1:1/db", PAWL_UNAVAILABLE, "could not");
    refuses("mysql://ann:secret@[::1]:1/db", PAWL_UNAVAILABLE, "could not");
}

static void by_its_other_name(void **state)
{
    (void)state;
    char at[900];
    snprintf(at, sizeof at, "mariadb%s", url + strlen("mysql"));
    if (try_open(at)) fail_msg("%s", err.message);
    close_store();
}

static void no_such_database(void **state)
{
    (void)state;
    char at[700];
    my_bed_url(at, sizeof at, "nonesuch");
    refuses(at, PAWL_NOT_FOUND, "CREATE DATABASE");
}

static void wrong_password(void **state)
{
    (void)state;
    my_bed_exec(my, "CREATE OR REPLACE USER pawl_locked IDENTIFIED BY 'right'; GRANT ALL ON `%s`.* TO pawl_locked", database);
    refuses(as_user("pawl_locked:secret", ""), PAWL_DENIED, "password");
    refuses(as_user("pawl_locked", ""), PAWL_DENIED, "password");
    refuses(as_user("nobody_at_all", ""), PAWL_DENIED, "nobody_at_all");
    if (try_open(as_user("pawl_locked:ri%67ht", ""))) fail_msg("%s", err.message);
    close_store();
    my_bed_exec(my, "DROP USER pawl_locked");
}

/* A server without a certificate that anybody could trust: with TLS asked for there is no connection without it. */
static void tls_that_is_not_there(void **state)
{
    (void)state;
    if (my_bed_int(my, "SELECT @@have_ssl = 'YES'")) skip();
    char at[900];
    snprintf(at, sizeof at, "%s%cssl=on", url, strchr(url, '?') ? '&' : '?');
    refuses(at, PAWL_UNAVAILABLE, "could not");
}

static void rights(void **state)
{
    (void)state;
    const char *user = "pawl_clerk:pw";
    my_bed_exec(my, "CREATE OR REPLACE USER pawl_clerk IDENTIFIED BY 'pw'");
    refuses(as_user(user, ""), PAWL_DENIED, "grant it");
    open_store();
    close_store();
    my_bed_exec(my, "GRANT SELECT ON `%s`.* TO pawl_clerk", database);
    if (try_open(as_user(user, ""))) fail_msg("%s", err.message);
    pawl_body body;
    pawl_op in = insert_of(&body), *op = &in;
    pawl_batch batch = {.ops = &op, .count = 1};
    assert_int_equal(store->type->apply(store, &batch, arena, &err), PAWL_DENIED);
    assert_non_null(strstr(err.message, "docs/mariadb.md"));
    close_store();
    my_bed_exec(my, "GRANT SELECT, INSERT, UPDATE, DELETE ON `%s`.* TO pawl_clerk", database);
    if (try_open(as_user(user, ""))) fail_msg("%s", err.message);
    apply(&in, 1);
    pawl_op cancel = {.kind = PAWL_OP_CANCEL, .id = in.id, .audit = PAWL_AUDIT_FULL};
    apply(&cancel, 1);
    assert_int_equal(cancel.result, PAWL_OP_DONE);
    pawl_sweep sweep = {.keep_resolved_us = -1, .keep_failed_us = -1, .keep_audit_us = -1, .keep_logs_us = -1, .limit = 100};
    assert_int_equal(store->type->sweep(store, &sweep, &err), PAWL_OK);
    assert_int_equal(sweep.removed, 1);
    close_store();
    my_bed_exec(my, "DROP USER pawl_clerk");
}

static void a_server_that_takes_no_writes(void **state)
{
    (void)state;
    if (getenv("PAWL_TEST_MYSQL")) skip(); /* others may need it */
    my_bed_exec(my, "SET GLOBAL read_only = 1");
    pawl_status status = try_open(url);
    my_bed_exec(my, "SET GLOBAL read_only = 0");
    assert_int_equal(status, PAWL_UNAVAILABLE);
    assert_non_null(strstr(err.message, "read-only"));
}

/* ---- schemas ------------------------------------------------------------------------------------------------------------- */

static void a_newer_schema(void **state)
{
    (void)state;
    open_store();
    close_store();
    my_bed_exec(
        my,
        "UPDATE pawl_meta SET value = '99' WHERE name IN ('schema', 'min_reader'); UPDATE pawl_meta SET value = '9.9' WHERE name = "
        "'written_by'");
    refuses(url, PAWL_SCHEMA, "9.9");
    my_bed_exec(
        my, "UPDATE pawl_meta SET value = '1' WHERE name = 'min_reader'"); /* newer, but made so that this program can use it */
    open_store();
    close_store();
}

static void a_schema_that_left_this_program_behind(void **state)
{
    (void)state;
    pawl_renewal call = {.node = 1};
    open_store();
    my_bed_exec(my, "RENAME TABLE pawl_lane TO gone");
    assert_int_equal(store->type->renew(store, &call, &err), PAWL_SCHEMA);
    assert_non_null(strstr(err.message, "migrate status"));
    close_store();
}

/* Every step of a migration may find that it was carried out before. */
static void an_interrupted_migration_goes_on(void **state)
{
    (void)state;
    open_store();
    close_store();
    my_bed_exec(
        my, "DELETE FROM pawl_meta; DROP TABLE pawl_oplog, pawl_number; ALTER TABLE pawl_drawn RENAME TO kept; DROP TABLE kept");
    open_store();
    assert_int_equal(my_bed_int(my, "SELECT COUNT(*) FROM pawl_number"), 1023);
    pawl_body body;
    pawl_op in = insert_of(&body);
    apply(&in, 1);
    assert_int_equal(in.result, PAWL_OP_DONE);
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
    assert_int_equal(my_bed_int(my, "SELECT COUNT(*) FROM information_schema.TABLES WHERE TABLE_SCHEMA = '%s'", database), 0);
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
    assert_int_equal(my_bed_int(my, "SELECT count(*) FROM pawl_body"), 3);
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
    my_bed_exec(my, "ALTER TABLE pawl_live ADD CONSTRAINT bad CHECK (priority <> 77)");
    for (int i = 0; i < 20; i++) ops[i] = insert_of(&bodies[i]);
    bodies[13].priority = bodies[4].priority = 77;
    apply(ops, 20);
    for (int i = 0; i < 20; i++) assert_int_equal(ops[i].result, i == 13 || i == 4 ? PAWL_OP_REFUSED : PAWL_OP_DONE);
    assert_int_equal(my_bed_int(my, "SELECT count(*) FROM pawl_body"), 18);
    close_store();
}

/* ---- locks and time ------------------------------------------------------------------------------------------------------ */

static void a_lock_that_somebody_holds(void **state)
{
    (void)state;
    pawl_body body;
    open_store();
    my_bed_exec(my, "LOCK TABLES pawl_body WRITE");
    pawl_op in = insert_of(&body), *op = &in;
    pawl_batch batch = {.ops = &op, .count = 1};
    assert_int_equal(store->type->apply(store, &batch, arena, &err), PAWL_UNAVAILABLE);
    assert_non_null(strstr(err.message, "ock wait timeout"));
    my_bed_exec(my, "UNLOCK TABLES");
    assert_int_equal(my_bed_int(my, "SELECT count(*) FROM pawl_body"), 0);
    apply(&in, 1);
    assert_int_equal(in.result, PAWL_OP_DONE);
    close_store();
}

/* A batch that is larger than one message goes in parts, and is committed as a whole. */
static void more_than_one_message_takes(void **state)
{
    (void)state;
    enum { COUNT = 12, SIZE = 1000000 };
    pawl_body bodies[COUNT];
    pawl_op ops[COUNT];
    char *payload = malloc(SIZE);
    memset(payload, '\'', SIZE); /* each takes two bytes on the way */
    open_store();
    for (int i = 0; i < COUNT; i++) {
        ops[i] = insert_of(&bodies[i]);
        bodies[i].payload = (pawl_bytes){payload, SIZE};
    }
    apply(ops, COUNT);
    for (int i = 0; i < COUNT; i++) assert_int_equal(ops[i].result, PAWL_OP_DONE);
    assert_int_equal(my_bed_int(my, "SELECT COUNT(*) FROM pawl_body WHERE LENGTH(payload) = %d", SIZE), COUNT);
    free(payload);
    close_store();
}

static void more_than_the_server_takes(void **state)
{
    (void)state;
    pawl_body bodies[2];
    pawl_op ops[2];
    size_t size = (size_t)my_bed_int(my, "SELECT @@global.max_allowed_packet");
    char *payload = malloc(size);
    memset(payload, 'x', size);
    open_store();
    for (int i = 0; i < 2; i++) ops[i] = insert_of(&bodies[i]);
    bodies[0].payload = (pawl_bytes){payload, size};
    apply(ops, 2);
    assert_int_equal(ops[0].result, PAWL_OP_REFUSED);
    assert_int_equal(ops[1].result, PAWL_OP_DONE);
    free(payload);
    close_store();
}

static int claim_one(int64_t node)
{
    pawl_claimed task;
    pawl_want want = {.queue = "q", .free = 1, .any_type = true};
    pawl_claim call = {.node = node, .wants = &want, .wants_count = 1, .allocator = alloc_default(), .tasks = &task};
    if (store->type->claim(store, &call, arena, &err)) fail_msg("%s", err.message);
    if (call.tasks_count) pawl_body_free(alloc_default(), task.body);
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
    my_bed_exec(my, "UPDATE pawl_live SET run_at_us = run_at_us - 60000000");
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
    do { /* what is told first may be the claims' own doing */
        struct pollfd p = {.fd = fd, .events = POLLIN};
        assert_int_equal(poll(&p, 1, 30000), 1);
        store->type->watch_check(store, &changed, &again);
    } while (!changed || claim_one(node.node) == 0);
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
    my_bed_database(database, sizeof database, "input");
    my_bed_url(url, sizeof url, database);
    my = my_bed_connect(database);
    arena = arena_new(alloc_default(), 0);
    store = NULL;
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    if (store) store_close(store);
    arena_free(arena);
    mysql_close(my);
    my_bed_drop(database);
    return 0;
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, set_up, tear_down)

int main(void)
{
    static const struct CMUnitTest tests[] = {
        TEST(urls),
        TEST(nobody_answers),
        TEST(by_its_other_name),
        TEST(no_such_database),
        TEST(wrong_password),
        TEST(tls_that_is_not_there),
        TEST(rights),
        TEST(a_server_that_takes_no_writes),
        TEST(a_newer_schema),
        TEST(a_schema_that_left_this_program_behind),
        TEST(an_interrupted_migration_goes_on),
        TEST(not_migrated_unless_allowed),
        TEST(bad_text_is_refused_alone),
        TEST(what_a_run_said_is_cleaned),
        TEST(a_row_the_server_refuses),
        TEST(more_than_one_message_takes),
        TEST(more_than_the_server_takes),
        TEST(a_lock_that_somebody_holds),
        TEST(put_back_behind_the_claims),
    };
    if (!my_bed_there()) return BED_SKIP;
    if (pawl_register_store(&store_mysql_type, &err)) return pawl_die(&err);
    return cmocka_run_group_tests_name("input", tests, NULL, NULL);
}
