/* Lists of one queue, type or tenant, and of cancelled tasks: they find everything, and what they cost does not depend on how much
 * else there is. Cost is counted in steps of SQLite's virtual machine. */
#include "support.h"
#include <stdio.h>

#define BLOCKS 300 /* more than a span has */
#define PER_BLOCK 50

typedef struct look {
    int64_t steps;
    int found;
} look;

static int64_t reader_steps(pawl_store *store)
{
    int64_t sum = 0;
    for (int i = 0; i < SQL_COUNT; i++) {
        sqlite3_stmt *st = inside(store)->readers[0].conn.stmts[i];
        if (st) sum += sqlite3_stmt_status(st, SQLITE_STMTSTATUS_VM_STEP, 1);
    }
    return sum;
}

/* All pages of a list. */
static look list_pages(place *p, pawl_store *s, pawl_filter filter)
{
    look l = {0};
    pawl_id last = 0;
    filter.limit = filter.limit ? filter.limit : 100;
    reader_steps(s);
    do {
        pawl_query query = {.kind = PAWL_QUERY_LIST, .filter = &filter};
        assert_ok(p, store_read(s, &query, p->arena, &p->err));
        for (size_t i = 0; i < query.page->count; i++) {
            pawl_id id = query.page->tasks[i]->id;
            assert_true(!last || (filter.oldest_first ? id > last : id < last));
            last = id;
        }
        l.found += (int)query.page->count;
        filter.cursor = query.page->next;
    } while (filter.cursor);
    l.steps = reader_steps(s);
    return l;
}

static void both_ways(place *p, pawl_store *s, pawl_filter filter, int found, int64_t most)
{
    for (int up = 0; up < 2; up++) {
        filter.oldest_first = up;
        look l = list_pages(p, s, filter);
        assert_int_equal(l.found, found);
        if (l.steps > most) fail_msg("%lld steps, %lld at most", (long long)l.steps, (long long)most);
    }
}

static void next_block(place *p) { p->last_id = ((p->last_id >> SEEN_BLOCK_SHIFT) + 1) << SEEN_BLOCK_SHIFT; }

static void insert_block(place *p, pawl_store *s)
{
    pawl_op *ops[PER_BLOCK];
    next_block(p);
    for (int i = 0; i < PER_BLOCK; i++) ops[i] = insert_op(p, NULL);
    pawl_batch batch = {.ops = ops, .count = PER_BLOCK};
    assert_ok(p, s->type->apply(s, &batch, p->arena, &p->err));
    arena_reset(p->arena);
}

static pawl_id insert_like(place *p, pawl_store *s, pawl_body like)
{
    pawl_op *op = insert_op(p, like.key);
    pawl_body *b = op->u.insert.body;
    if (like.type) b->type = like.type;
    if (like.queue) b->queue = like.queue;
    if (like.tenant) b->tenant = like.tenant;
    assert_ok(p, apply_one(p, s, 0, 0, op));
    assert_true(op->result == PAWL_OP_DONE || op->result == PAWL_OP_UPDATED);
    return op->out_id;
}

static void cancel(place *p, pawl_store *s, pawl_id id)
{
    pawl_op op = {.kind = PAWL_OP_CANCEL, .id = id, .audit = PAWL_AUDIT_FULL};
    assert_ok(p, apply_one(p, s, 0, 0, &op));
    assert_int_equal(op.result, PAWL_OP_DONE);
}

/* Many blocks of ordinary tasks, and a task of its own kind in the first, the middle and the last of them. */
static void fill(place *p, pawl_store *s, pawl_body like, pawl_id ids[3])
{
    for (int block = 0; block < BLOCKS; block++) {
        insert_block(p, s);
        if (block == 0) ids[0] = insert_like(p, s, like);
        if (block == BLOCKS / 2) ids[1] = insert_like(p, s, like);
    }
    ids[2] = insert_like(p, s, like);
}

static void the_rare_are_found_among_many(void **state)
{
    place *p = *state;
    pawl_store *s = open_store(p);
    pawl_id ids[3];
    fill(p, s, (pawl_body){.type = "rare", .queue = "side", .tenant = "small"}, ids);
    int64_t all = list_pages(p, s, (pawl_filter){.limit = 1000}).steps;
    assert_true(all > 300000);
    const int64_t most = 25000;
    both_ways(p, s, (pawl_filter){.type = "rare"}, 3, most);
    both_ways(p, s, (pawl_filter){.type = "rare", .limit = 1}, 3, 2 * most);
    both_ways(p, s, (pawl_filter){.queue = "side"}, 3, most);
    both_ways(p, s, (pawl_filter){.tenant = "small"}, 3, most);
    both_ways(p, s, (pawl_filter){.type = "rare", .queue = "side", .tenant = "small", .state = "pending"}, 3, most);
    both_ways(p, s, (pawl_filter){.type = "rare", .queue = "q"}, 0, most);
    both_ways(p, s, (pawl_filter){.type = "rare", .state = "succeeded"}, 0, most);
    both_ways(p, s, (pawl_filter){.tenant = "", .type = "t", .limit = 1000}, BLOCKS * PER_BLOCK, INT64_MAX);
    store_close(s);
}

static void the_cancelled_are_found_among_the_succeeded(void **state)
{
    place *p = *state;
    pawl_store *s = open_store(p);
    pawl_id ids[3];
    fill(p, s, (pawl_body){0}, ids);
    sqlite3 *db = host_open(p);
    host_exec(db,
              "INSERT INTO pawl_done SELECT id, 4, 0, 1, 1, 2, 1, 1, 1, 1, 1, 0, 0, 0, 1, 1, NULL, NULL, NULL, NULL, NULL, NULL,"
              "NULL, NULL, NULL, NULL, NULL FROM pawl_live WHERE id NOT IN (SELECT max(id) FROM pawl_live GROUP BY id >> 37);"
              "DELETE FROM pawl_live WHERE id IN (SELECT id FROM pawl_done)");
    int64_t left = host_int(db, "SELECT count(*) FROM pawl_live"), id;
    while ((id = host_int(db, "SELECT coalesce(max(id), 0) FROM pawl_live"))) cancel(p, s, id);
    sqlite3_close(db);
    assert_in_range(left, 3, 10);
    both_ways(p, s, (pawl_filter){.state = "cancelled"}, (int)left, 40000);
    both_ways(p, s, (pawl_filter){.state = "cancelled", .type = "t", .queue = "q"}, (int)left, 40000);
    both_ways(p, s, (pawl_filter){.state = "succeeded", .limit = 1000}, BLOCKS * PER_BLOCK + 3 - (int)left, INT64_MAX);
    store_close(s);
}

/* A task with a key that has not started takes on another queue and type: it is found under the new ones, and under the old ones no
 * longer. */
static void a_task_that_was_replaced_is_found(void **state)
{
    place *p = *state;
    pawl_store *s = open_store(p);
    pawl_id id = insert_like(p, s, (pawl_body){.type = "before", .queue = "old", .key = "k"});
    insert_block(p, s);
    assert_int_equal(insert_like(p, s, (pawl_body){.type = "after", .queue = "new", .key = "k"}), id);
    both_ways(p, s, (pawl_filter){.type = "after"}, 1, INT64_MAX);
    both_ways(p, s, (pawl_filter){.queue = "new"}, 1, INT64_MAX);
    both_ways(p, s, (pawl_filter){.type = "before"}, 0, INT64_MAX);
    both_ways(p, s, (pawl_filter){.queue = "old"}, 0, INT64_MAX);
    store_close(s);
}

/* A store from a transaction of the program's own. */
static void what_a_host_dispatched_is_found(void **state)
{
    place *p = *state;
    pawl_store *s = open_shared(p);
    sqlite3 *db = host_open(p);
    assert_ok(p, pawl_sqlite_prepare(db, &p->err));
    pawl_op *op = insert_op(p, NULL);
    op->u.insert.body->type = "foreign";
    host_exec(db, "BEGIN IMMEDIATE");
    assert_ok(p, s->type->tx_apply(s, db, op, 1, p->arena, &p->err));
    host_exec(db, "COMMIT");
    sqlite3_close(db);
    insert_block(p, s);
    both_ways(p, s, (pawl_filter){.type = "foreign"}, 1, INT64_MAX);
    store_close(s);
}

/* When the last task of a block is gone, so is its row, whatever kinds of tasks it had. */
static void what_was_seen_goes_with_the_tasks(void **state)
{
    place *p = *state;
    pawl_store *s = open_store(p);
    pawl_id ids[PER_BLOCK];
    for (int i = 0; i < PER_BLOCK; i++) {
        char type[16];
        snprintf(type, sizeof type, "t%d", i % 7);
        if (i % 10 == 0) next_block(p);
        cancel(p, s, ids[i] = insert_like(p, s, (pawl_body){.type = type}));
    }
    pawl_id kept = insert_like(p, s, (pawl_body){.type = "kept"});
    sqlite3 *db = host_open(p);
    assert_int_equal(host_int(db, "SELECT count(*) FROM pawl_seen WHERE level = 1"), PER_BLOCK / 10);
    pawl_sweep sweep = {.keep_succeeded_us = -1,
                        .keep_cancelled_us = PAWL_DAY,
                        .keep_resolved_us = -1,
                        .keep_failed_us = -1,
                        .keep_audit_us = -1,
                        .keep_logs_us = -1,
                        .limit = 4};
    p->clock.now_us += 2 * PAWL_DAY;
    int64_t removed = 0;
    do {
        assert_ok(p, s->type->sweep(s, &sweep, &p->err));
        removed += sweep.removed;
    } while (sweep.more);
    assert_int_equal(removed, PER_BLOCK);
    assert_int_equal(host_int(db, "SELECT count(*) FROM pawl_seen WHERE level = 1"), 1);
    assert_int_equal(host_int(db, "SELECT count(*) FROM pawl_seen WHERE level = 2"), 1);
    sqlite3_close(db);
    both_ways(p, s, (pawl_filter){.type = "kept"}, 1, INT64_MAX);
    cancel(p, s, kept);
    store_close(s);
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, place_new, place_free)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(the_rare_are_found_among_many),     TEST(the_cancelled_are_found_among_the_succeeded),
        TEST(a_task_that_was_replaced_is_found), TEST(what_a_host_dispatched_is_found),
        TEST(what_was_seen_goes_with_the_tasks),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
