/* The gate on MariaDB: transactions of other programs that began before it was shut, those that see nothing newer than their
 * beginning, and nodes that wait. */
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
#include <string.h>

#define MOVE "gate:1"

static char database[64], url[500];
static pawl_store *store;
static pawl_arena *arena;
static pawl_error err;

static void set(pawl_gate_mode mode)
{
    pawl_gate gate = {.mode = mode, .move = MOVE, .peer = "sqlite:elsewhere.db", .position = mode ? "0" : NULL};
    pawl_status status = store_set_gate(store, &gate, &err);
    if (status) print_error("%s\n", err.message);
    assert_int_equal(status, PAWL_OK);
}

static int64_t writers(void)
{
    pawl_query query = {.kind = PAWL_QUERY_GATE};
    assert_int_equal(store_read(store, &query, arena, &err), PAWL_OK);
    return query.gate->writers;
}

static int64_t pending(void)
{
    pawl_dump *d = pawl_arena_alloc(arena, sizeof *d);
    *d = (pawl_dump){.part = PAWL_PART_TASKS, .limit = 100};
    pawl_query query = {.kind = PAWL_QUERY_DUMP, .dump = d};
    assert_int_equal(store_read(store, &query, arena, &err), PAWL_OK);
    return d->counts[PAWL_PENDING];
}

/* One task, inside the transaction of this connection. */
static pawl_op_result dispatch(MYSQL *my)
{
    pawl_body body = {.type = "t", .queue = "q", .tenant = ""};
    pawl_op op = {.kind = PAWL_OP_INSERT, .audit = PAWL_AUDIT_FULL, .u.insert.body = &body};
    pawl_status status = store->type->tx_apply(store, my, &op, 1, arena, &err);
    if (status) print_error("%s\n", err.message);
    assert_int_equal(status, PAWL_OK);
    return op.result;
}

static MYSQL *begin(const char *isolation)
{
    MYSQL *my = my_bed_connect(database);
    my_bed_exec(my, "SET SESSION TRANSACTION ISOLATION LEVEL %s; START TRANSACTION; SELECT COUNT(*) FROM pawl_gate", isolation);
    return my;
}

/* It has dispatched and may still commit: whoever shuts the gate does not wait for it, but learns of it. Readers do not count. */
static void open_transactions_are_counted(void **state)
{
    (void)state;
    static const char *const levels[] = {"READ COMMITTED", "REPEATABLE READ"};
    for (int i = 0; i < 2; i++) {
        MYSQL *writer = begin(levels[i]), *reader = begin("REPEATABLE READ");
        assert_int_equal(dispatch(writer), PAWL_OP_DONE);
        my_bed_exec(reader, "SELECT COUNT(*) FROM pawl_body");
        set(PAWL_GATE_CLOSED);
        assert_int_equal(writers(), 1);
        assert_int_equal(pending(), i);
        my_bed_exec(writer, "COMMIT");
        assert_int_equal(writers(), 0);
        assert_int_equal(pending(), i + 1);
        set(PAWL_GATE_OPEN);
        mysql_close(writer);
        mysql_close(reader);
    }
}

/* Those that come when it is shut are refused, and hold nobody up. */
static void the_refused_do_not_count(void **state)
{
    (void)state;
    set(PAWL_GATE_CLOSED);
    MYSQL *my = begin("READ COMMITTED");
    assert_int_equal(dispatch(my), PAWL_OP_CLOSED);
    assert_int_equal(writers(), 0);
    set(PAWL_GATE_ARRIVING);
    assert_int_equal(dispatch(my), PAWL_OP_CLOSED);
    set(PAWL_GATE_OPEN);
    assert_int_equal(dispatch(my), PAWL_OP_DONE);
    my_bed_exec(my, "COMMIT");
    assert_int_equal(pending(), 1);
    mysql_close(my);
}

/* Its snapshot is from before: by itself it would see an open gate for as long as it lasts. */
static void old_snapshots_are_refused(void **state)
{
    (void)state;
    MYSQL *my = begin("REPEATABLE READ");
    set(PAWL_GATE_CLOSED);
    assert_int_equal(writers(), 0);
    assert_int_equal(dispatch(my), PAWL_OP_CLOSED);
    my_bed_exec(my, "COMMIT");
    assert_int_equal(writers(), 0);
    assert_int_equal(pending(), 0);
    mysql_close(my);
}

static void wait_for_news(pawl_store *node)
{
    struct pollfd p = {.fd = node->type->watch_fd(node), .events = POLLIN};
    bool changed = false;
    int64_t again_us;
    while (!changed) {
        assert_int_equal(poll(&p, 1, 30000), 1);
        node->type->watch_check(node, &changed, &again_us);
    }
}

static void nodes_that_wait_are_told(void **state)
{
    (void)state;
    pawl_store_options options = {
        .url = url, .lease_us = 30 * PAWL_SECOND, .clock = clock_system(), .allocator = alloc_default()};
    pawl_store *node;
    assert_int_equal(store_open(&options, &node, &err), PAWL_OK);
    wait_for_news(node); /* the first look is always one */
    pawl_gate_mode modes[] = {PAWL_GATE_CLOSED, PAWL_GATE_OPEN};
    for (int i = 0; i < 2; i++) {
        set(modes[i]);
        wait_for_news(node);
    }
    store_close(node);
}

static int set_up(void **state)
{
    (void)state;
    my_bed_empty(database);
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
        TEST(open_transactions_are_counted),
        TEST(the_refused_do_not_count),
        TEST(old_snapshots_are_refused),
        TEST(nodes_that_wait_are_told),
    };
    if (!my_bed_there()) return BED_SKIP;
    if (pawl_register_store(&store_mysql_type, &err)) return pawl_die(&err);
    my_bed_database(database, sizeof database, "gate");
    my_bed_url(url, sizeof url, database);
    int failed = cmocka_run_group_tests_name("gate", tests, NULL, NULL);
    my_bed_drop(database);
    return failed;
}
