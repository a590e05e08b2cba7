/* Rate limits where two meet: on one budget, in both orders, the first one held at the door of its commit, then committed or killed
 * (race.h); the server's locks and deadlocks; and a backlog of one key, which must not stand in the way of others.
 *
 * The scene: the type "t" starts once a second. Z has the slot of now. P is pending with the next one, C with the one after that. Node H
 * holds A and node R holds B, neither with a slot. All are of the key "k".
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/alloc.h"
#include "mysql/race.h"
#include "store/budget.h"
#include "store/store.h"
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#define S PAWL_SECOND

typedef struct scene {
    race race;
    int64_t h, r, start_us;
    pawl_id a, b, c, p, next_id;
    int64_t a_fence, b_fence;
} scene;

static scene s;

typedef struct answer {
    pawl_status status;
    pawl_op_result result;
    pawl_id id;
    int64_t slot_us; /* taken; 0: none */
    int got;         /* claimed */
    bool has_p, p_good;
    pawl_error err;
} answer;

typedef struct act {
    const char *name;
    race_call run;
} act;

/* ---- operations ---------------------------------------------------------------------------------------------------------- */

static pawl_op insert_op(pawl_body *body, const char *key, bool ask)
{
    *body = (pawl_body){.id = __atomic_add_fetch(&s.next_id, 1, __ATOMIC_RELAXED),
                        .type = "t",
                        .queue = "q",
                        .tenant = "",
                        .rate_key = {key, strlen(key)},
                        .content_type = "application/json"};
    pawl_op op = {.kind = PAWL_OP_INSERT, .id = body->id, .audit = PAWL_AUDIT_FULL};
    op.u.insert.body = body;
    op.u.insert.ask_lease = ask;
    return op;
}

static void apply_some(pawl_store *store, int64_t node, int lane, int64_t number, pawl_op *ops, int count, answer *a)
{
    pawl_arena *arena = arena_new(alloc_default(), 0);
    pawl_op **each = pawl_arena_alloc(arena, (size_t)count * sizeof *each);
    for (int i = 0; i < count; i++) each[i] = &ops[i];
    pawl_batch batch = {.node = node, .lane = lane, .number = number, .ops = each, .count = count};
    a->status = store->type->apply(store, &batch, arena, &a->err);
    a->result = ops[0].result;
    a->id = ops[0].out_id;
    arena_free(arena);
}

static void apply(pawl_store *store, int64_t node, int lane, int64_t number, pawl_op *op, answer *a)
{
    apply_some(store, node, lane, number, op, 1, a);
}

static void reserve(pawl_store *store, int64_t node, pawl_id id, int64_t fence, int64_t near_us, answer *a)
{
    pawl_op op = {.kind = PAWL_OP_RESERVE, .id = id, .fence = fence, .audit = PAWL_AUDIT_FULL};
    op.u.reserve.near_us = near_us;
    apply(store, node, 1, 1, &op, a);
    if (op.result == PAWL_OP_DONE || op.result == PAWL_OP_MOVED) a->slot_us = op.out_run_at_us;
}

static void do_reserve(pawl_store *store, void *a) { reserve(store, s.h, s.a, s.a_fence, PAWL_MINUTE, a); }
static void do_reserve_too(pawl_store *store, void *a) { reserve(store, s.r, s.b, s.b_fence, PAWL_MINUTE, a); }
static void do_reserve_far(pawl_store *store, void *a) { reserve(store, s.r, s.b, s.b_fence, 0, a); }

static void born(pawl_store *store, int64_t node, int lane, int64_t number, answer *a)
{
    pawl_body body;
    pawl_op op = insert_op(&body, "k", true);
    apply(store, node, lane, number, &op, a);
    a->slot_us = op.out_run_at_us;
}

static void do_born(pawl_store *store, void *a) { born(store, s.h, 2, 1, a); }

static void do_cancel(pawl_store *store, void *a)
{
    pawl_op op = {.kind = PAWL_OP_CANCEL, .id = s.c, .audit = PAWL_AUDIT_FULL};
    apply(store, 0, 0, 0, &op, a);
}

static void do_cancel_first(pawl_store *store, void *a)
{
    pawl_op op = {.kind = PAWL_OP_CANCEL, .id = s.p, .audit = PAWL_AUDIT_FULL};
    apply(store, 0, 0, 0, &op, a);
}

/* The holder gives up what it never started. */
static void do_drop(pawl_store *store, void *a)
{
    pawl_op op = {.kind = PAWL_OP_FINISH, .id = s.a, .fence = s.a_fence, .audit = PAWL_AUDIT_FULL};
    op.u.finish.to = PAWL_CANCELLED;
    op.u.finish.run.progress = -1;
    apply(store, s.h, 1, 1, &op, a);
}

static void put_limit(pawl_store *store, int burst, answer *a)
{
    pawl_op op = {.kind = PAWL_OP_LIMIT, .audit = PAWL_AUDIT_FULL};
    op.u.limit.type = "t";
    op.u.limit.rate = (pawl_rate){.permits = 1, .period_us = S, .burst = burst, .horizon_us = -1};
    op.u.limit.move = 100;
    apply(store, 0, 0, 0, &op, a);
}

static void do_limit(pawl_store *store, void *a) { put_limit(store, 2, a); }
static void do_limit_too(pawl_store *store, void *a) { put_limit(store, 3, a); }

static int claim_of(pawl_store *store, int64_t node, const char *queue, pawl_claimed *tasks, int most, answer *a)
{
    pawl_want want = {.queue = queue, .free = most, .any_type = true};
    pawl_arena *arena = arena_new(alloc_default(), 0);
    pawl_claim call = {.node = node, .wants = &want, .wants_count = 1, .allocator = alloc_default(), .tasks = tasks};
    a->status = store->type->claim(store, &call, arena, &a->err);
    arena_free(arena);
    return a->got = call.tasks_count;
}

/* P is due, and no other. */
static void do_claim(pawl_store *store, void *out)
{
    answer *a = out;
    pawl_claimed tasks[8];
    claim_of(store, s.h, "q", tasks, 8, a);
    for (int i = 0; i < a->got; i++) {
        a->has_p |= tasks[i].body->id == s.p;
        a->p_good |= tasks[i].body->id == s.p && tasks[i].limited && tasks[i].until_us == tasks[i].run_at_us + S;
        pawl_body_free(alloc_default(), tasks[i].body);
    }
}

static const act reserves = {"reserve", do_reserve}, reserves_too = {"reserve of another", do_reserve_too},
                 reserves_far = {"reserve, far", do_reserve_far}, borns = {"born", do_born}, cancels = {"cancel", do_cancel},
                 cancels_first = {"cancel of what is due", do_cancel_first}, drops = {"drop", do_drop},
                 limits = {"limit", do_limit}, limits_too = {"another limit", do_limit_too}, claims = {"claim", do_claim};

/* ---- the scene ----------------------------------------------------------------------------------------------------------- */

static int64_t join(void)
{
    pawl_registration call = {.name = "n", .queues = "q", .types = "*", .lease_us = RACE_LEASE};
    assert_int_equal(s.race.quick->type->register_node(s.race.quick, &call, NULL), PAWL_OK);
    return call.node;
}

static void tick(int64_t us)
{
    s.race.clock.now_us += us;
    s.race.clock.boot_us += us;
}

/* One that came without a slot, for it was not due when it was stored. */
static pawl_id hold(int64_t node, int64_t *fence)
{
    answer a = {0};
    pawl_body body;
    pawl_claimed task;
    pawl_op op = insert_op(&body, "k", false);
    op.u.insert.delay_us = 1;
    apply(s.race.quick, 0, 0, 0, &op, &a);
    tick(1);
    assert_int_equal(claim_of(s.race.quick, node, "q", &task, 1, &a), 1);
    assert_true(task.limited && task.until_us == 0);
    pawl_id id = task.body->id;
    *fence = task.fence;
    pawl_body_free(alloc_default(), task.body);
    return id;
}

static void set_scene(void)
{
    answer a = {0};
    my_bed_empty(s.race.database);
    s.h = join();
    s.r = join();
    put_limit(s.race.quick, 1, &a);
    assert_int_equal(a.result, PAWL_OP_DONE);
    s.a = hold(s.h, &s.a_fence);
    s.b = hold(s.r, &s.b_fence);
    s.start_us = s.race.clock.now_us;
    for (int i = 0; i < 3; i++) {
        a = (answer){0};
        born(s.race.quick, s.h, 0, i + 1, &a);
        if (a.status) fail_msg("%s", a.err.message);
        assert_int_equal(a.slot_us, s.start_us + i * S);
        if (i == 1) s.p = a.id;
        else s.c = a.id;
    }
    tick(S);
}

/* ---- what must fit together ---------------------------------------------------------------------------------------------- */

static bool changes(const act *x) { return x == &limits || x == &limits_too; }

static int64_t max_of(int64_t x, int64_t y) { return x > y ? x : y; }

/* Under one limit every slot is given to one task, and the budget says when it is whole again: a step after the last slot. */
static void check_budget(const act *x, const answer *a, const act *y, const answer *b)
{
    if (a->slot_us && a->slot_us == b->slot_us) fail_msg("one slot was given twice");
    bool cancelled = (x == &cancels && a->status == PAWL_OK) || (y == &cancels && b->status == PAWL_OK);
    int64_t last_us = max_of(s.start_us + (cancelled ? 1 : 2) * S, max_of(a->slot_us, b->slot_us));
    int64_t whole_us = my_bed_int(s.race.my, "SELECT tat_us FROM pawl_budget");
    if (whole_us != last_us + S) fail_msg("the budget is whole %lld us off", (long long)(whole_us - last_us - S));
}

static void check_answers(const act *x, const answer *a, const act *y, const answer *b)
{
    int given = (x == &claims && a->has_p) + (y == &claims && b->has_p);
    given += (x == &cancels_first && a->result == PAWL_OP_DONE) + (y == &cancels_first && b->result == PAWL_OP_DONE);
    if (given > 1) fail_msg("a task was claimed and cancelled");
    if (!changes(x) && !changes(y)) check_budget(x, a, y, b);
    if (x == &claims && a->has_p && !a->p_good && !changes(y)) fail_msg("a slot was lost on the way");
    race_check_nothing(&s.race, "a budget that is counted by no limit", "SELECT 1 FROM pawl_budget WHERE burst NOT IN (1, 2, 3)");
    race_check_nothing(&s.race, "two tasks with one slot",
                       "SELECT l.run_at_us FROM pawl_slotted s JOIN pawl_live l ON l.id = s.task_id JOIN pawl_budget g "
                       "ON g.type_id = s.type_id AND g.rate_key = s.rate_key WHERE s.epoch = g.epoch AND g.burst = 1 "
                       "GROUP BY l.run_at_us HAVING COUNT(*) > 1");
}

static void meet(const act *x, const act *y, bool kill)
{
    answer first = {0}, second = {0};
    set_scene();
    race_meet(&s.race, x->run, &first, y->run, &second, kill);
    if (!kill && first.status) fail_msg("%s: %s", x->name, first.err.message);
    if (second.status) fail_msg("%s: %s", y->name, second.err.message);
    if (first.status) first.slot_us = 0; /* nothing happened, or it was not told */
    race_check(&s.race);
    check_answers(x, &first, y, &second);
}

static const act *const pairs[][2] = {
    {&reserves, &reserves_too}, {&reserves, &reserves_far}, {&reserves, &borns},       {&reserves, &cancels},
    {&reserves, &limits},       {&reserves, &claims},       {&reserves_far, &cancels}, {&reserves_far, &claims},
    {&reserves_far, &limits},   {&borns, &cancels},         {&borns, &limits},         {&borns, &reserves_far},
    {&claims, &cancels_first},  {&claims, &limits},         {&claims, &cancels},       {&cancels, &cancels},
    {&cancels, &limits},        {&cancels_first, &cancels}, {&cancels_first, &limits}, {&drops, &reserves_too},
    {&drops, &cancels},         {&drops, &limits},          {&limits, &limits_too},
};

static void both_orders(bool kill)
{
    for (size_t i = 0; i < sizeof pairs / sizeof *pairs; i++) {
        for (int turn = 0; turn < 2; turn++) {
            const act *x = pairs[i][turn], *y = pairs[i][!turn];
            print_message("%s, then %s%s\n", x->name, y->name, kill ? ", killed" : "");
            meet(x, y, kill);
        }
    }
}

static void the_first_commits(void **state)
{
    (void)state;
    both_orders(false);
}

static void the_first_is_killed(void **state)
{
    (void)state;
    both_orders(true);
}

/* ---- locks of others ----------------------------------------------------------------------------------------------------- */

typedef struct background {
    pthread_t thread;
    pawl_op ops[2];
    answer answer;
} background;

static void *run_batch(void *arg)
{
    background *b = arg;
    apply_some(s.race.quick, s.h, 3, 1, b->ops, 2, &b->answer);
    return NULL;
}

static int64_t deadlocks(void)
{
    return my_bed_int(s.race.my,
                      "SELECT VARIABLE_VALUE FROM information_schema.GLOBAL_STATUS WHERE VARIABLE_NAME = 'INNODB_DEADLOCKS'");
}

/* Somebody else has the second of two budgets and then wants the first: the server ends the transaction that changed less, which is
 * this one. */
static void a_deadlock_is_tried_again(void **state)
{
    (void)state;
    pawl_body bodies[2];
    background b = {0};
    answer a = {0};
    set_scene();
    int64_t before = deadlocks();
    long long type = (long long)my_bed_int(s.race.my, "SELECT type_id FROM pawl_limit");
    MYSQL *other = my_bed_connect(s.race.database);
    my_bed_exec(other, "INSERT INTO pawl_budget (type_id, rate_key) VALUES (%lld, 'l'); CREATE TABLE heavy (n INT) ENGINE=InnoDB",
                type);
    my_bed_exec(other, "BEGIN; INSERT INTO heavy SELECT seq FROM seq_1_to_1000");
    my_bed_exec(other, "SELECT * FROM pawl_budget WHERE type_id = %lld AND rate_key = 'l' FOR UPDATE", type);
    b.ops[0] = insert_op(&bodies[0], "k", true);
    b.ops[1] = insert_op(&bodies[1], "l", true);
    assert_int_equal(pthread_create(&b.thread, NULL, run_batch, &b), 0);
    race_await_lock(&s.race);
    my_bed_exec(other, "SELECT * FROM pawl_budget WHERE type_id = %lld AND rate_key = 'k' FOR UPDATE", type);
    my_bed_exec(other, "COMMIT; DROP TABLE heavy");
    pthread_join(b.thread, NULL);
    mysql_close(other);
    assert_true(deadlocks() > before);
    assert_int_equal(b.answer.status, PAWL_OK);
    assert_int_equal(b.ops[0].out_run_at_us, s.start_us + 3 * S);
    assert_true(b.ops[1].result == PAWL_OP_DONE && b.ops[1].out_fence > 0);
    reserve(s.race.quick, s.r, s.b, s.b_fence, PAWL_MINUTE, &a);
    assert_int_equal(a.slot_us, s.start_us + 4 * S);
    race_check(&s.race);
}

/* It takes no slot, and the budget is not locked while it is open. */
static void the_programs_own_transaction(void **state)
{
    (void)state;
    answer a = {0};
    pawl_body body;
    pawl_error err;
    pawl_arena *arena = arena_new(alloc_default(), 0);
    set_scene();
    my_bed_exec(s.race.my, "BEGIN");
    pawl_op op = insert_op(&body, "k", false);
    assert_int_equal(s.race.quick->type->tx_apply(s.race.quick, s.race.my, &op, 1, arena, &err), PAWL_OK);
    born(s.race.quick, s.h, 4, 1, &a);
    assert_int_equal(a.slot_us, s.start_us + 3 * S);
    my_bed_exec(s.race.my, "COMMIT");
    assert_int_equal(my_bed_int(s.race.my, "SELECT run_at_us FROM pawl_live WHERE id = %lld", (long long)body.id),
                     s.race.clock.now_us);
    assert_int_equal(my_bed_int(s.race.my, "SELECT COUNT(*) FROM pawl_slotted WHERE task_id = %lld", (long long)body.id), 0);
    race_check(&s.race);
    arena_free(arena);
}

/* ---- a backlog ----------------------------------------------------------------------------------------------------------- */

static void fill(int count, const char *key)
{
    enum { AT_ONCE = 1000 };
    pawl_body *bodies = calloc(AT_ONCE, sizeof *bodies);
    pawl_op *ops = calloc(AT_ONCE, sizeof *ops);
    for (int done = 0; done < count; done += AT_ONCE) {
        answer a = {0};
        int some = count - done < AT_ONCE ? count - done : AT_ONCE;
        for (int i = 0; i < some; i++) {
            ops[i] = insert_op(&bodies[i], key, false);
            ops[i].u.insert.delay_us = 1;
        }
        apply_some(s.race.quick, 0, 0, 0, ops, some, &a);
        assert_int_equal(a.status, PAWL_OK);
    }
    free(bodies);
    free(ops);
    tick(2);
}

/* Claims, reserves what came without a slot, until something of the other key comes: after how many claims. */
static int claims_until(const char *key, int most)
{
    pawl_claimed tasks[50];
    pawl_op ops[50];
    static int64_t number;
    for (int rounds = 1; rounds <= most; rounds++) {
        answer a = {0};
        bool found = false;
        int count = claim_of(s.race.quick, s.r, "q", tasks, 50, &a);
        assert_int_equal(a.status, PAWL_OK);
        for (int i = 0; i < count; i++) {
            ops[i] =
                (pawl_op){.kind = PAWL_OP_RESERVE, .id = tasks[i].body->id, .fence = tasks[i].fence, .audit = PAWL_AUDIT_FULL};
            ops[i].u.reserve.near_us = S;
            found |= tasks[i].body->rate_key.len == strlen(key) && memcmp(tasks[i].body->rate_key.data, key, strlen(key)) == 0;
            pawl_body_free(alloc_default(), tasks[i].body);
        }
        if (found) return rounds;
        if (count == 0) return -1;
        apply_some(s.race.quick, s.r, 5, ++number, ops, count, &a);
        assert_int_equal(a.status, PAWL_OK);
        tick(1);
    }
    return -1;
}

/* However many of a key are due, what is behind them comes with one of the first claims; and they are moved away by hundreds, each to a
 * slot of its own; a key longer than a budget's, too. */
static void a_backlog_leaves_the_way(void **state)
{
    (void)state;
    char key[400];
    const char *size = getenv("PAWL_BACKLOG");
    int count = size ? atoi(size) : 4000;
    memset(key, 'x', sizeof key - 1);
    key[sizeof key - 1] = '\0';
    set_scene();
    fill(count, key);
    fill(1, "other");
    int rounds = claims_until("other", 3);
    print_message("%d tasks of one key: another one's came with claim %d\n", count, rounds);
    assert_true(rounds > 0);
    assert_int_equal(claims_until("nobody", count / 200 + 3), -1);
    int64_t slotted = my_bed_int(s.race.my, "SELECT COUNT(*) FROM pawl_slotted WHERE rate_key LIKE 'sha256:%%'");
    assert_true(slotted > count - 100);
    assert_int_equal(my_bed_int(s.race.my,
                                "SELECT COUNT(DISTINCT l.run_at_us) FROM pawl_slotted s JOIN pawl_live l ON l.id = s.task_id "
                                "WHERE s.rate_key LIKE 'sha256:%%'"),
                     slotted);
    assert_int_equal(my_bed_int(s.race.my,
                                "SELECT MAX(l.run_at_us) - g.tat_us FROM pawl_slotted s JOIN pawl_live l ON l.id = s.task_id "
                                "JOIN pawl_budget g ON g.rate_key = s.rate_key WHERE s.rate_key LIKE 'sha256:%%'"),
                     -S);
    race_check(&s.race);
}

static int64_t rows_of_limits(pawl_limit_filter filter, size_t count)
{
    const char *const sum = "SELECT COALESCE(SUM(ROWS_READ), 0) FROM information_schema.TABLE_STATISTICS "
                            "WHERE TABLE_SCHEMA = DATABASE() AND TABLE_NAME IN ('pawl_budget', 'pawl_limit')";
    pawl_arena *arena = arena_new(alloc_default(), 0);
    pawl_query query = {.kind = PAWL_QUERY_LIMITS, .limit_filter = &filter};
    int64_t before = my_bed_int(s.race.my, "%s", sum);
    assert_int_equal(store_read(s.race.quick, &query, arena, NULL), PAWL_OK);
    assert_int_equal(query.limits->count, count);
    arena_free(arena);
    return my_bed_int(s.race.my, "%s", sum) - before;
}

/* A key is looked up, and a page begins where the last one ended, among however many budgets. */
static void others_are_not_read(void **state)
{
    (void)state;
    set_scene();
    my_bed_exec(s.race.my, "SET GLOBAL userstat = 1"); /* and it stays so: others may be counting */
    my_bed_exec(s.race.my, "INSERT INTO pawl_budget (type_id, rate_key) SELECT (SELECT MIN(type_id) FROM pawl_limit), seq "
                           "FROM seq_100000_to_109999");
    assert_in_range(rows_of_limits((pawl_limit_filter){.key = pawl_str("105000"), .limit = 100}, 1), 1, 20);
    assert_in_range(rows_of_limits((pawl_limit_filter){.type = "t", .key = pawl_str("nobody"), .limit = 1}, 0), 0, 20);
    pawl_arena *arena = arena_new(alloc_default(), 0);
    pawl_limit_filter late = {.limit = 10, .cursor = budget_cursor(arena, "t", pawl_str("109000"))};
    assert_in_range(rows_of_limits(late, 10), 10, 2000);
    arena_free(arena);
}

static int set_up(void **state)
{
    (void)state;
    race_open(&s.race, "limits");
    s.next_id = (s.race.clock.now_us / 1000 - PAWL_EPOCH_MS) << 22 | 7 << 12;
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    race_close(&s.race);
    return 0;
}

int main(void)
{
    static const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_first_commits),         cmocka_unit_test(the_first_is_killed),
        cmocka_unit_test(a_deadlock_is_tried_again), cmocka_unit_test(the_programs_own_transaction),
        cmocka_unit_test(a_backlog_leaves_the_way),  cmocka_unit_test(others_are_not_read)};
    if (!my_bed_there()) return BED_SKIP;
    return cmocka_run_group_tests_name("limits", tests, set_up, tear_down);
}
