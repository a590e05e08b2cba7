/* The tests of the tests: each kind of damage that the judges are there to see is done on purpose, and they must see it. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "faults.h"
#include <string.h>

static ledger book;
static world here;

static int set_up(void **state)
{
    if (!world_new(&here, "sqlite", &book)) return -1;
    if (world_open(&here, (pawl_options){0})) world_start(&here);
    world_send(&here, "ok", (pawl_task){0});
    world_send(&here, "fail", (pawl_task){0});
    world_send(&here, "ok", (pawl_task){.key = "k"});
    world_advance(&here, PAWL_SECOND);
    judge_settled(&here);
    *state = &here;
    return here.problem[0] ? -1 : 0;
}

static int tear_down(void **state)
{
    (void)state;
    fault_disarm(&memory_fault);
    world_close(&here, false);
    world_free(&here);
    return 0;
}

#define assert_seen(text)                                                                          \
    do {                                                                                           \
        if (!strstr(here.problem, (text))) fail_msg("\"%s\" is not \"%s\"", here.problem, (text)); \
        here.problem[0] = '\0';                                                                    \
    } while (0)

/* ---- the ledger ----------------------------------------------------------------------------------------------------------------- */

static void a_false_ack(void **state)
{
    (void)state;
    entry *e = ledger_new(&book, "ok");
    e->answer = ANSWER_OK;
    e->id = book.entries[0].id + 4096;
    judge_ledger(&here);
    assert_seen("was acknowledged and is lost");
}

static void a_false_refusal(void **state)
{
    (void)state;
    book.entries[0].answer = ANSWER_NO;
    judge_ledger(&here);
    assert_seen("was refused and is stored");
}

static void a_false_end(void **state)
{
    (void)state;
    book.entries[0].must = PAWL_CANCELLED;
    judge_ledger(&here);
    assert_seen("was said to have cancelled and is succeeded");
}

static void a_stranger(void **state)
{
    (void)state;
    assert_int_equal(pawl_dispatch(here.p, &(pawl_task){.type = "ok"}, NULL, NULL), PAWL_OK);
    judge_ledger(&here);
    assert_seen("that nobody sent");
}

static void a_task_that_never_ends(void **state)
{
    (void)state;
    world_send(&here, "ok", (pawl_task){.delay_us = 100 * PAWL_DAY});
    judge_settled(&here);
    assert_seen("1 tasks have not ended");
}

static void a_second_end(void **state)
{
    (void)state;
    entry *e = world_send(&here, "ok", (pawl_task){0});
    e->ends = 1;
    world_advance(&here, PAWL_SECOND);
    assert_seen("ends for the 2. time");
}

static void a_second_run(void **state)
{
    (void)state;
    entry *e = world_send(&here, "ok", (pawl_task){0});
    e->must = PAWL_SUCCEEDED;
    world_advance(&here, PAWL_SECOND);
    assert_seen("and runs again");
}

/* ---- answers and memory --------------------------------------------------------------------------------------------------------- */

static void an_error_out_of_nothing(void **state)
{
    (void)state;
    tried(&here, PAWL_UNAVAILABLE, "a call");
    assert_seen("failed by itself");
}

static void an_error_of_the_wrong_kind(void **state)
{
    (void)state;
    here.source = &memory_fault;
    fault_arm(&memory_fault, 1, false);
    assert_null(memory_allocator.alloc(NULL, 1));
    tried(&here, PAWL_CORRUPT, "a call");
    assert_seen("calls a failure corrupt");
    tried(&here, PAWL_UNAVAILABLE, "a call");
    assert_seen("does not say why");
}

static void a_leak(void **state)
{
    (void)state;
    void *block = memory_allocator.alloc(NULL, 100);
    world_close(&here, true);
    assert_seen("1 blocks of memory were not given back");
    atomic_store(&memory_blocks, 1);
    memory_allocator.release(NULL, block);
}

static void the_countdown(void **state)
{
    (void)state;
    countdown f = {0};
    fault_arm(&f, 3, false);
    for (int i = 1; i <= 5; i++) assert_int_equal(fault_now(&f), i == 3);
    fault_arm(&f, 3, true);
    for (int i = 1; i <= 5; i++) assert_int_equal(fault_now(&f), i >= 3);
    fault_disarm(&f);
    for (int i = 1; i <= 5; i++) assert_false(fault_now(&f));
}

/* ---- rows ----------------------------------------------------------------------------------------------------------------------- */

static const struct {
    const char *sql, *seen;
} damages[] = {
    {"DELETE FROM pawl_body WHERE id = (SELECT min(id) FROM pawl_body)", "a body has one place"},
    {"UPDATE pawl_body SET id = id - 1 WHERE id = (SELECT min(id) FROM pawl_body)", "no place without a body"},
    {"UPDATE pawl_queue SET pending = pending + 1", "pending is counted"},
    {"UPDATE pawl_queue SET leased = leased + 1", "leased is counted"},
    {"UPDATE pawl_queue SET failed = failed + 1", "dead letters are counted"},
    {"INSERT INTO pawl_heartbeat VALUES (99, '', 0, 0, 1)", "leases are counted"},
    {"INSERT INTO pawl_cancel VALUES (1, 2)", "a cancel has a lease"},
    {"UPDATE pawl_key SET task_id = 1", "a key has its task"},
    {"DELETE FROM pawl_key", "a keyed task has its key"},
    {"DELETE FROM pawl_done_slot", "retention finds what is done"},
    {"DELETE FROM pawl_seen WHERE level = 1", "lists find every task"},
    {"DELETE FROM pawl_seen WHERE level = 2", "lists find every task"},
    {"UPDATE pawl_seen SET block = block + 1", "lists find every task"},
    {"INSERT INTO pawl_seen VALUES (1, 1, x'00')", "what was seen has tasks"},
    {"UPDATE pawl_rollup SET count = count + 1 WHERE outcome = 1", "dispatches are counted once"},
    {"UPDATE pawl_rollup SET count = count + 1 WHERE outcome = 2", "successes are counted once"},
    {"UPDATE pawl_rollup SET count = count + 1 WHERE outcome = 3", "failures are counted once"},
    {"UPDATE pawl_failed SET retried_as = 1", "a retry points back"},
};

static void change_rows(const char *sql)
{
    sqlite3 *db = NULL;
    char *said = NULL;
    assert_int_equal(sqlite3_open(here.path, &db), SQLITE_OK);
    if (sqlite3_exec(db, sql, NULL, NULL, &said) != SQLITE_OK) fail_msg("%s: %s", sql, said);
    sqlite3_close(db);
}

static void damaged_rows(void **state)
{
    for (size_t i = 0; i < sizeof damages / sizeof *damages; i++) {
        world_close(&here, true);
        judge_rows(&here);
        assert_string_equal(here.problem, "");
        change_rows(damages[i].sql);
        judge_rows(&here);
        assert_seen(damages[i].seen);
        world_free(&here);
        assert_int_equal(set_up(state), 0);
    }
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(a_false_ack),  TEST(a_false_refusal),         TEST(a_false_end),
        TEST(a_stranger),   TEST(a_task_that_never_ends),  TEST(a_second_end),
        TEST(a_second_run), TEST(an_error_out_of_nothing), TEST(an_error_of_the_wrong_kind),
        TEST(a_leak),       TEST(the_countdown),           TEST(damaged_rows),
    };
    return !disk_install() || cmocka_run_group_tests(tests, NULL, NULL) != 0;
}
