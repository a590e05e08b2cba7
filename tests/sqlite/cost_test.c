/* What things cost, in rows looked at and not in time: what nobody may run yet costs a claim nothing, and finished work costs
 * nothing at all. SQLite counts the steps of its virtual machine. */
#include "store/budget.h"
#include "support.h"
#include <stdio.h>

static int steps_of(sqlite_store *s, sql_name which)
{
    return s->writer.stmts[which] ? sqlite3_stmt_status(s->writer.stmts[which], SQLITE_STMTSTATUS_VM_STEP, 1) : 0;
}

static int64_t steps(pawl_store *store)
{
    int64_t sum = 0;
    for (int i = 0; i < SQL_COUNT; i++) sum += steps_of(inside(store), (sql_name)i);
    return sum;
}

typedef struct many {
    int count, priority;
    int64_t delay_us;
    const char *type, *rate_key;
} many;

static void insert_many(place *p, pawl_store *s, many m)
{
    for (int done = 0; done < m.count;) {
        pawl_op *ops[1000];
        int n = 0;
        for (; n < 1000 && done < m.count; n++, done++) {
            ops[n] = insert_op(p, NULL);
            ops[n]->u.insert.delay_us = m.delay_us;
            ops[n]->u.insert.body->priority = m.priority;
            if (m.type) ops[n]->u.insert.body->type = m.type;
            if (m.rate_key) ops[n]->u.insert.body->rate_key = pawl_str(m.rate_key);
        }
        pawl_batch batch = {.ops = ops, .count = n};
        assert_ok(p, s->type->apply(s, &batch, p->arena, &p->err));
        arena_reset(p->arena);
    }
}

static pawl_want claim_types(place *p, pawl_store *s, int64_t node, const char *type, int count)
{
    pawl_claimed tasks[8];
    const char *types[] = {type};
    pawl_want want = {.queue = "q", .free = count, .types = types, .types_count = 1};
    pawl_claim call = {.node = node, .wants = &want, .wants_count = 1, .allocator = alloc_default(), .tasks = tasks};
    assert_ok(p, s->type->claim(s, &call, p->arena, &p->err));
    free_bodies(tasks, call.tasks_count);
    return want;
}

static void future_tasks_hide_nothing_and_cost_nothing(void **state)
{
    place *p = *state;
    pawl_store *s = open_store(p);
    int64_t node = join(p, s);
    insert_many(p, s, (many){.count = 20, .priority = 5});
    assert_int_equal(claim_types(p, s, node, "t", 5).got, 5);
    steps(s);
    claim_types(p, s, node, "t", 5);
    int64_t cheap = steps(s);
    insert_many(p, s, (many){.count = 20000, .priority = 0, .delay_us = PAWL_HOUR});
    steps(s);
    pawl_want want = claim_types(p, s, node, "t", 5);
    assert_int_equal(want.got, 5); /* of priority 5, behind twenty thousand of priority 0 that are not due */
    assert_true(want.more);
    assert_int_equal(want.next_due_us, p->clock.now_us + PAWL_HOUR);
    assert_true(steps(s) < cheap + 200);
    store_close(s);
}

static void unknown_types_hide_nothing_and_cost_nothing(void **state)
{
    place *p = *state;
    pawl_store *s = open_store(p);
    int64_t node = join(p, s);
    insert_many(p, s, (many){.count = 10});
    claim_types(p, s, node, "t", 1);
    steps(s);
    claim_types(p, s, node, "t", 1);
    int64_t cheap = steps(s);
    insert_many(p, s, (many){.count = 20000, .priority = -1, .type = "strange"});
    steps(s);
    assert_int_equal(claim_types(p, s, node, "t", 1).got, 1);
    assert_true(steps(s) < cheap + 200);
    store_close(s);
}

/* The same claim and finish, with and without a long history. */
static void history_costs_nothing(void **state)
{
    place *p = *state;
    pawl_store *s = open_store(p);
    int64_t node = join(p, s), number = 0, cost[2] = {0};
    for (int round = 0; round < 2; round++) {
        insert_many(p, s, (many){.count = 3});
        pawl_claimed tasks[8];
        for (int i = 0; i < 3; i++) {
            assert_int_equal(claim_some(p, s, node, 1, tasks, NULL), 1);
            if (i == 1) steps(s);
            pawl_op *op = finish_op(p, tasks[0].body->id, tasks[0].fence);
            assert_ok(p, apply_one(p, s, node, ++number, op));
            assert_int_equal(op->result, PAWL_OP_DONE);
            if (i == 1) cost[round] = steps(s);
            free_bodies(tasks, 1);
        }
        if (round == 0) {
            sqlite3 *db = host_open(p);
            host_exec(
                db,
                "WITH s(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM s WHERE i < 20000)"
                "INSERT INTO pawl_done SELECT i, 4, 0, 1, 1, 2, 1, 1, 1, 1, 1, 0, 0, 0, 1, 1, NULL, NULL, NULL, NULL, NULL, NULL,"
                "NULL, NULL, NULL, NULL, NULL FROM s");
            sqlite3_close(db);
        }
    }
    assert_true(cost[1] <= cost[0] + 50);
    store_close(s);
}

/* A sweep that finds nothing to remove looks at next to nothing. */
static void an_idle_sweep_costs_nothing(void **state)
{
    place *p = *state;
    pawl_store *s = open_store(p);
    pawl_sweep sweep = {.keep_succeeded_us = PAWL_DAY,
                        .keep_cancelled_us = PAWL_DAY,
                        .keep_resolved_us = 30 * PAWL_DAY,
                        .keep_failed_us = 90 * PAWL_DAY,
                        .keep_audit_us = 7 * PAWL_DAY,
                        .keep_logs_us = 7 * PAWL_DAY,
                        .limit = 100};
    pawl_op *ops[1000];
    for (int round = 0; round < 5; round++) {
        for (int i = 0; i < 1000; i++) ops[i] = insert_op(p, NULL);
        pawl_batch batch = {.ops = ops, .count = 1000};
        assert_ok(p, s->type->apply(s, &batch, p->arena, &p->err));
        for (int i = 0; i < 1000; i++) {
            pawl_id id = ops[i]->id;
            *ops[i] = (pawl_op){.kind = PAWL_OP_CANCEL, .id = id, .audit = PAWL_AUDIT_FULL};
        }
        assert_ok(p, s->type->apply(s, &batch, p->arena, &p->err));
        p->clock.now_us += PAWL_HOUR;
        p->clock.boot_us += PAWL_HOUR;
    }
    assert_ok(p, s->type->sweep(s, &sweep, &p->err));
    steps(s);
    assert_ok(p, s->type->sweep(s, &sweep, &p->err));
    assert_int_equal(sweep.removed, 0);
    assert_int_equal(sweep.next_us, PAWL_DAY - 5 * PAWL_HOUR);
    assert_true(steps(s) < 5000);
    /* And one that does removes what is due, a little at a time, to the last one. */
    p->clock.now_us += PAWL_DAY - 4 * PAWL_HOUR - 1; /* one hour's worth */
    int64_t removed = 0;
    do {
        assert_ok(p, s->type->sweep(s, &sweep, &p->err));
        assert_true(sweep.removed <= 100);
        removed += sweep.removed;
    } while (sweep.more);
    assert_int_equal(removed, 1000);
    assert_int_equal(sweep.next_us, 1);
    store_close(s);
}

static int64_t reader_steps(pawl_store *store)
{
    int64_t sum = 0;
    for (int i = 0; i < SQL_COUNT; i++) {
        sqlite3_stmt *st = inside(store)->readers[0].conn.stmts[i];
        if (st) sum += sqlite3_stmt_status(st, SQLITE_STMTSTATUS_VM_STEP, 1);
    }
    return sum;
}

static size_t list_all(place *p, pawl_store *s, pawl_filter filter)
{
    filter.limit = 100;
    pawl_query query = {.kind = PAWL_QUERY_LIST, .filter = &filter};
    assert_ok(p, store_read(s, &query, p->arena, &p->err));
    assert_null(query.page->next);
    return query.page->count;
}

/* A list of some time does not look at all that was created before and after it. */
static void a_list_of_an_hour_costs_what_the_hour_holds(void **state)
{
    place *p = *state;
    pawl_store *s = open_store(p);
    int64_t start_us = p->clock.now_us / PAWL_HOUR * PAWL_HOUR;
    const int counts[] = {10000, 7, 10000};
    for (int i = 0; i < 3; i++) {
        p->clock.now_us = start_us + i * PAWL_HOUR;
        p->last_id = (p->clock.now_us / 1000 - PAWL_EPOCH_MS) << 22;
        insert_many(p, s, (many){.count = counts[i]});
    }
    for (int oldest_first = 0; oldest_first < 2; oldest_first++) {
        pawl_filter filter = {
            .since_us = start_us + PAWL_HOUR, .until_us = start_us + 2 * PAWL_HOUR, .oldest_first = oldest_first};
        reader_steps(s);
        assert_int_equal(list_all(p, s, filter), 7);
        assert_true(reader_steps(s) < 5000);
        filter.state = "pending";
        assert_int_equal(list_all(p, s, filter), 7);
        assert_true(reader_steps(s) < 5000);
    }
    pawl_filter later = {.since_us = start_us + 9 * PAWL_HOUR}, earlier = {.until_us = start_us};
    assert_int_equal(list_all(p, s, later), 0);
    assert_int_equal(list_all(p, s, earlier), 0);
    assert_true(reader_steps(s) < 1000);
    store_close(s);
}

static int64_t steps_of_limits(place *p, pawl_store *s, pawl_limit_filter filter, size_t count)
{
    pawl_query query = {.kind = PAWL_QUERY_LIMITS, .limit_filter = &filter};
    reader_steps(s);
    assert_ok(p, store_read(s, &query, p->arena, &p->err));
    assert_int_equal(query.limits->count, count);
    return reader_steps(s);
}

/* A key is looked up, and a page begins where the last one ended, among however many budgets. */
static void a_limit_costs_no_look_at_others(void **state)
{
    place *p = *state;
    pawl_store *s = open_store(p);
    pawl_op op = {.kind = PAWL_OP_LIMIT, .u.limit = {.type = "t", .rate = {.permits = 1, .period_us = PAWL_SECOND}}};
    pawl_op *ops[] = {&op};
    assert_ok(p, s->type->apply(s, &(pawl_batch){.ops = ops, .count = 1}, p->arena, &p->err));
    sqlite3 *db = inside(s)->writer.db;
    assert_int_equal(
        sqlite3_exec(db,
                     "WITH RECURSIVE n (i) AS (VALUES (100000) UNION ALL SELECT i + 1 FROM n WHERE i < 119999) "
                     "INSERT INTO pawl_budget SELECT NULL, (SELECT type_id FROM pawl_limit), CAST(i AS BLOB), 1, 0, 1, "
                     "1000000, 1, 1, 1, 0, 0 FROM n",
                     NULL, NULL, NULL),
        SQLITE_OK);
    assert_true(steps_of_limits(p, s, (pawl_limit_filter){.key = pawl_str("110000"), .limit = 100}, 1) < 300);
    assert_true(steps_of_limits(p, s, (pawl_limit_filter){.type = "t", .key = pawl_str("nobody"), .limit = 1}, 0) < 300);
    int64_t first = steps_of_limits(p, s, (pawl_limit_filter){.limit = 10}, 10);
    pawl_limit_filter filter = {.limit = 10, .cursor = budget_cursor(p->arena, "t", pawl_str("119000"))};
    int64_t late = steps_of_limits(p, s, filter, 10);
    assert_true(first < 3000 && late < 3000);
    store_close(s);
}

/* ---- concurrency limits ------------------------------------------------------------------------------------------ */

/* How often statements of place.sql were run, the look whether there is any limit aside. */
static int place_runs(pawl_store *store)
{
    int sum = 0;
    for (int i = SQL_bound_get; i <= SQL_live_blocked; i++) {
        sqlite3_stmt *st = inside(store)->writer.stmts[i];
        if (st) sum += sqlite3_stmt_status(st, SQLITE_STMTSTATUS_RUN, 1);
    }
    return sum;
}

static int looks(pawl_store *store)
{
    sqlite3_stmt *st = inside(store)->writer.stmts[SQL_bound_any];
    return st ? sqlite3_stmt_status(st, SQLITE_STMTSTATUS_RUN, 1) : 0;
}

static void commit_op(place *p, pawl_store *s, pawl_op *op)
{
    pawl_batch batch = {.ops = &op, .count = 1};
    assert_ok(p, s->type->apply(s, &batch, p->arena, &p->err));
}

static void put_bound(place *p, pawl_store *s, pawl_scope scope, const char *name, int most)
{
    pawl_op op = {.kind = PAWL_OP_BOUND, .u.bound = {.scope = scope, .name = name, .most = most, .move = 1000}};
    commit_op(p, s, &op);
}

static void a_life(place *p, pawl_store *s, int64_t node)
{
    pawl_claimed got;
    commit_op(p, s, insert_op(p, NULL));
    pawl_want want = {.queue = "q", .free = 1, .any_type = true};
    pawl_claim call = {.node = node, .wants = &want, .wants_count = 1, .allocator = alloc_default(), .tasks = &got};
    assert_ok(p, s->type->claim(s, &call, p->arena, &p->err));
    assert_int_equal(call.tasks_count, 1);
    commit_op(p, s, finish_op(p, got.body->id, got.fence));
    free_bodies(&got, 1);
}

static void without_limits_nothing_is_asked(void **state)
{
    place *p = *state;
    pawl_store *s = open_store(p);
    int64_t node = join(p, s);
    a_life(p, s, node);
    looks(s);
    for (int i = 0; i < 10; i++) a_life(p, s, node);
    assert_int_equal(place_runs(s), 0);
    assert_int_equal(looks(s), 0);
    put_bound(p, s, PAWL_SCOPE_TYPE, "t", 1);
    a_life(p, s, node);
    assert_true(place_runs(s) > 5);
    store_close(s);
}

/* Limits of others: asked for once in a transaction, however many tasks it has. */
static void limits_of_others_cost_next_to_nothing(void **state)
{
    place *p = *state;
    pawl_store *s = open_store(p);
    int64_t node = join(p, s);
    put_bound(p, s, PAWL_SCOPE_TYPE, "other", 1);
    insert_many(p, s, (many){.count = 1});
    place_runs(s);
    insert_many(p, s, (many){.count = 1000});
    assert_in_range(place_runs(s), 1, 2);
    pawl_claimed tasks[100];
    assert_int_equal(claim_some(p, s, node, 100, tasks, NULL), 100);
    assert_in_range(place_runs(s), 1, 2);
    pawl_op *ops[100];
    for (int i = 0; i < 100; i++) ops[i] = finish_op(p, tasks[i].body->id, tasks[i].fence);
    assert_ok(p, s->type->apply(s, &(pawl_batch){.ops = ops, .count = 100}, p->arena, &p->err));
    assert_in_range(place_runs(s), 1, 2);
    free_bodies(tasks, 100);
    store_close(s);
}

static void blocked_tasks_cost_nothing(void **state)
{
    place *p = *state;
    pawl_store *s = open_store(p);
    int64_t node = join(p, s);
    put_bound(p, s, PAWL_SCOPE_TYPE, "t", 1);
    insert_many(p, s, (many){.count = 1});
    assert_int_equal(claim_types(p, s, node, "t", 5).got, 1);
    insert_many(p, s, (many){.count = 40, .type = "u", .priority = 5});
    const char *u = "u";
    claim_types(p, s, node, u, 5);
    steps(s);
    claim_types(p, s, node, u, 5);
    int64_t cheap = steps(s);
    insert_many(p, s, (many){.count = 20000});
    steps(s);
    assert_int_equal(claim_types(p, s, node, u, 5).got, 5);
    assert_true(steps(s) < cheap + 200);
    store_close(s);
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, place_new, place_free)

static void limit_daily(place *p, pawl_store *s)
{
    pawl_op op = {.kind = PAWL_OP_LIMIT, .audit = PAWL_AUDIT_FULL}, *ops[] = {&op};
    op.u.limit.type = "t";
    op.u.limit.rate = (pawl_rate){.permits = 1, .period_us = PAWL_DAY, .horizon_us = -1, .start_empty = true};
    pawl_batch batch = {.ops = ops, .count = 1};
    assert_ok(p, s->type->apply(s, &batch, p->arena, &p->err));
    assert_int_equal(op.result, PAWL_OP_DONE);
}

static void count_task_row(void *ctx, int what, const char *database, const char *table, sqlite3_int64 id)
{
    (void)what, (void)database, (void)id;
    *(int *)ctx += strcmp(table, "pawl_live") == 0 || strcmp(table, "pawl_leased") == 0 || strcmp(table, "pawl_body") == 0;
}

/* How many rows of tasks it writes. */
static int reserve_rows(place *p, pawl_store *s, int64_t node, const pawl_claimed *of, int64_t near_us, pawl_op_result result)
{
    static int64_t number;
    int rows = 0;
    pawl_op op = {.kind = PAWL_OP_RESERVE, .id = of->body->id, .fence = of->fence, .audit = PAWL_AUDIT_FULL}, *ops[] = {&op};
    op.u.reserve.near_us = near_us;
    pawl_batch batch = {.node = node, .number = ++number, .ops = ops, .count = 1};
    sqlite3_update_hook(inside(s)->writer.db, count_task_row, &rows);
    assert_ok(p, s->type->apply(s, &batch, p->arena, &p->err));
    sqlite3_update_hook(inside(s)->writer.db, NULL, NULL);
    assert_int_equal(op.result, result);
    return rows;
}

static void a_near_slot_writes_no_row_of_the_task(void **state)
{
    place *p = *state;
    pawl_store *s = open_store(p);
    int64_t node = join(p, s);
    pawl_claimed tasks[3];
    pawl_op op = {.kind = PAWL_OP_LIMIT, .audit = PAWL_AUDIT_FULL}, *ops[] = {&op};
    op.u.limit.type = "t";
    op.u.limit.rate = (pawl_rate){.permits = 1, .period_us = PAWL_SECOND};
    pawl_batch batch = {.ops = ops, .count = 1};
    assert_ok(p, s->type->apply(s, &batch, p->arena, &p->err));
    insert_many(p, s, (many){.count = 3, .delay_us = 1000, .rate_key = "k"});
    p->clock.now_us += 2000;
    pawl_want want = {.queue = "q", .free = 3, .any_type = true};
    pawl_claim call = {.node = node, .wants = &want, .wants_count = 1, .allocator = alloc_default(), .tasks = tasks};
    assert_ok(p, s->type->claim(s, &call, p->arena, &p->err));
    assert_int_equal(call.tasks_count, 3);
    assert_int_equal(reserve_rows(p, s, node, &tasks[0], PAWL_SECOND, PAWL_OP_DONE), 0);
    assert_int_equal(reserve_rows(p, s, node, &tasks[1], PAWL_SECOND, PAWL_OP_DONE), 0); /* a second away */
    assert_true(reserve_rows(p, s, node, &tasks[2], PAWL_SECOND, PAWL_OP_MOVED) > 0);
    free_bodies(tasks, 3);
    store_close(s);
}

/* Many of a key that has no budget, due and still without slots, then one of another key: it is in the first claim, and what that
 * costs does not depend on how many they are. */
static void a_flood_of_one_key_costs_others_nothing(void **state)
{
    place *p = *state;
    int64_t cost[2];
    for (int turn = 0; turn < 2; turn++) {
        pawl_store *s = open_store(p);
        int64_t node = join(p, s);
        if (turn == 0) limit_daily(p, s);
        insert_many(p, s, (many){.count = turn ? 20000 : 1000, .delay_us = 1000, .rate_key = "full"});
        insert_many(p, s, (many){.count = 1, .delay_us = 1001, .rate_key = turn ? "b" : "a"});
        p->clock.now_us += 2000;
        if (turn == 0) {
            pawl_claimed first;
            pawl_want want = {.queue = "q", .free = 1, .any_type = true};
            pawl_claim call = {.node = node, .wants = &want, .wants_count = 1, .allocator = alloc_default(), .tasks = &first};
            assert_ok(p, s->type->claim(s, &call, p->arena, &p->err));
            pawl_op op = {.kind = PAWL_OP_RESERVE, .id = first.body->id, .fence = first.fence, .audit = PAWL_AUDIT_FULL},
                    *ops[] = {&op};
            pawl_batch batch = {.node = node, .number = 1, .ops = ops, .count = 1};
            assert_ok(p, s->type->apply(s, &batch, p->arena, &p->err));
            free_bodies(&first, 1);
        }
        pawl_claimed tasks[8];
        bool found = false;
        pawl_want want = {.queue = "q", .free = 8, .any_type = true};
        pawl_claim call = {.node = node, .wants = &want, .wants_count = 1, .allocator = alloc_default(), .tasks = tasks};
        steps(s);
        assert_ok(p, s->type->claim(s, &call, p->arena, &p->err));
        cost[turn] = steps(s);
        assert_int_equal(call.tasks_count, 8);
        for (int i = 0; i < 8; i++) found |= tasks[i].body->rate_key.len == 1;
        assert_true(found);
        free_bodies(tasks, 8);
        store_close(s);
    }
    print_message("a claim beside 1,000 and 20,000: %lld and %lld steps\n", (long long)cost[0], (long long)cost[1]);
    assert_true(cost[1] < cost[0] * 5 / 4);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(future_tasks_hide_nothing_and_cost_nothing),
        TEST(a_near_slot_writes_no_row_of_the_task),
        TEST(a_flood_of_one_key_costs_others_nothing),
        TEST(unknown_types_hide_nothing_and_cost_nothing),
        TEST(history_costs_nothing),
        TEST(an_idle_sweep_costs_nothing),
        TEST(a_list_of_an_hour_costs_what_the_hour_holds),
        TEST(a_limit_costs_no_look_at_others),
        TEST(without_limits_nothing_is_asked),
        TEST(limits_of_others_cost_next_to_nothing),
        TEST(blocked_tasks_cost_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
