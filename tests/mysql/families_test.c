/* Families where two meet, in both orders, the first one held at the door of its commit, or of the one by which it tells those who wait;
 * then committed or killed (race.h). Whatever happens, once all is told nobody waits for what has ended, and batches count right.
 * Then a parent with very many children, and a long chain: neither makes a slow call.
 *
 * The scene: node H, which has lapsed, holds A, B, M and N. C waits for A and B, D for A, however it ends. M and N are members of the batch "b",
 * which is open; E waits for the batch. F has failed and holds G.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/alloc.h"
#include "mysql/race.h"
#include "store/store.h"
#include <stdlib.h>
#include <time.h>

typedef struct held_task {
    pawl_id id;
    int64_t fence;
} held_task;

typedef struct scene {
    race race;
    int64_t h, n;
    held_task a, b, m, n_, f;
    pawl_id c, d, e, g, batch, next_id;
} scene;

static scene s;

typedef struct answer {
    pawl_status status;
    pawl_op_result result;
    bool unsettled;
    pawl_error err;
} answer;

typedef struct act {
    const char *name;
    race_call run;
} act;

/* ---- operations ---------------------------------------------------------------------------------------------------------- */

static void apply_all(pawl_store *store, int64_t node, int lane, int64_t number, pawl_op **ops, int count, answer *a)
{
    pawl_arena *arena = arena_new(alloc_default(), 0);
    pawl_batch batch = {.node = node, .lane = lane, .number = number, .ops = ops, .count = count};
    a->status = store->type->apply(store, &batch, arena, &a->err);
    a->result = ops[0]->result;
    a->unsettled = batch.unsettled;
    arena_free(arena);
}

static void apply(pawl_store *store, int64_t node, int lane, pawl_op *op, answer *a)
{
    apply_all(store, node, lane, node ? 2 : 0, &op, 1, a);
}

static pawl_id new_id(void) { return __atomic_add_fetch(&s.next_id, 1, __ATOMIC_RELAXED); }

static pawl_op insert_op(pawl_body *body, const pawl_family *family)
{
    *body = (pawl_body){.id = new_id(), .type = "t", .queue = "q", .tenant = "", .content_type = "application/json"};
    pawl_op op = {.kind = PAWL_OP_INSERT, .id = body->id, .audit = PAWL_AUDIT_FULL};
    op.u.insert.body = body;
    op.u.insert.family = family;
    return op;
}

static pawl_id insert(pawl_store *store, const pawl_family *family, answer *a)
{
    pawl_body body;
    pawl_op op = insert_op(&body, family);
    apply(store, 0, 0, &op, a);
    return op.out_id;
}

static pawl_id child(pawl_store *store, pawl_id first, pawl_id second, pawl_if_failed if_failed, answer *a)
{
    pawl_kin parents[] = {{.id = first}, {.id = second}};
    return insert(store, &(pawl_family){.parents = parents, .parents_count = 1 + (second != 0), .if_failed = if_failed}, a);
}

static pawl_id batch(pawl_store *store, pawl_batch_act what, pawl_id id, answer *a)
{
    pawl_batch_put put = {.act = what, .name = "b"};
    pawl_op op = {.kind = PAWL_OP_BATCH, .id = id, .u.batch = &put};
    apply(store, 0, 0, &op, a);
    return op.out_id;
}

/* Each on a lane of its own, so that they meet nowhere else. */
static void end(pawl_store *store, const held_task *t, int lane, pawl_state to, answer *a)
{
    pawl_op op = {.kind = PAWL_OP_FINISH, .id = t->id, .fence = t->fence, .audit = PAWL_AUDIT_FULL};
    op.u.finish.to = to;
    op.u.finish.run = (pawl_execution){.outcome = PAWL_ATTEMPT_SUCCEEDED, .number = 1, .progress = -1};
    apply(store, s.h, lane, &op, a);
}

static void cancel(pawl_store *store, pawl_id id, answer *a)
{
    pawl_op op = {.kind = PAWL_OP_CANCEL, .id = id, .audit = PAWL_AUDIT_FULL};
    apply(store, 0, 0, &op, a);
}

static void do_finish_a(pawl_store *store, void *a) { end(store, &s.a, 1, PAWL_SUCCEEDED, a); }
static void do_fail_a(pawl_store *store, void *a) { end(store, &s.a, 1, PAWL_FAILED, a); }
static void do_finish_b(pawl_store *store, void *a) { end(store, &s.b, 2, PAWL_SUCCEEDED, a); }
static void do_finish_m(pawl_store *store, void *a) { end(store, &s.m, 3, PAWL_SUCCEEDED, a); }
static void do_finish_n(pawl_store *store, void *a) { end(store, &s.n_, 4, PAWL_FAILED, a); }
static void do_child(pawl_store *store, void *a) { child(store, s.a.id, 0, PAWL_IF_FAILED_CANCEL, a); }
static void do_child_of_batch(pawl_store *store, void *a) { child(store, s.batch, 0, PAWL_IF_FAILED_RUN, a); }
static void do_cancel_c(pawl_store *store, void *a) { cancel(store, s.c, a); }
static void do_close(pawl_store *store, void *a) { batch(store, PAWL_BATCH_CLOSE, s.batch, a); }
static void do_cancel_batch(pawl_store *store, void *a) { batch(store, PAWL_BATCH_CANCEL, s.batch, a); }
static void do_join(pawl_store *store, void *a) { insert(store, &(pawl_family){.batch.id = s.batch}, a); }

static void do_retry(pawl_store *store, void *a)
{
    pawl_op op = {.kind = PAWL_OP_RETRY, .id = s.f.id, .audit = PAWL_AUDIT_FULL};
    op.u.retry.new_id = new_id();
    apply(store, 0, 0, &op, a);
}

static void do_rescue(pawl_store *store, void *out)
{
    answer *a = out;
    pawl_lease tasks[8];
    pawl_rescue call = {.node = s.n, .victim = s.h, .limit = 8, .tasks = tasks};
    a->status = store->type->rescue(store, &call, &a->err);
}

static void settle(pawl_store *store, int limit, answer *a)
{
    pawl_op op = {.kind = PAWL_OP_SETTLE, .u.settle.limit = limit};
    apply(store, 0, 0, &op, a);
}

static void do_settle(pawl_store *store, void *a) { settle(store, 100, a); }

static const act finishes_a = {"finish of A", do_finish_a}, fails_a = {"failure of A", do_fail_a},
                 finishes_b = {"finish of B", do_finish_b}, finishes_m = {"finish of M", do_finish_m},
                 finishes_n = {"failure of N", do_finish_n}, children = {"another child of A", do_child},
                 children_of_batch = {"another child of the batch", do_child_of_batch}, cancels_c = {"cancel of C", do_cancel_c},
                 closes = {"close", do_close}, cancels_batch = {"cancel of the batch", do_cancel_batch},
                 joins = {"join", do_join}, retries = {"retry of F", do_retry}, rescues = {"rescue", do_rescue},
                 settles = {"settle", do_settle};

/* ---- the scene ----------------------------------------------------------------------------------------------------------- */

static int64_t join(void)
{
    pawl_registration call = {.name = "n", .queues = "q", .types = "*", .lease_us = RACE_LEASE};
    assert_int_equal(s.race.quick->type->register_node(s.race.quick, &call, NULL), PAWL_OK);
    return call.node;
}

static held_task hold(pawl_id id)
{
    pawl_claimed task;
    pawl_error err;
    pawl_want want = {.queue = "q", .free = 1, .any_type = true};
    pawl_arena *arena = arena_new(alloc_default(), 0);
    pawl_claim call = {.node = s.h, .wants = &want, .wants_count = 1, .allocator = alloc_default(), .tasks = &task};
    assert_int_equal(s.race.quick->type->claim(s.race.quick, &call, arena, &err), PAWL_OK);
    assert_int_equal(call.tasks_count, 1);
    held_task found = {task.body->id, task.fence};
    assert_true(found.id == id);
    pawl_body_free(alloc_default(), task.body);
    arena_free(arena);
    return found;
}

/* Receipts, so that the lanes ask only once. */
static void make_lanes(void)
{
    answer a = {0};
    for (int lane = 0; lane < 6; lane++) {
        pawl_op nothing = {.kind = PAWL_OP_CANCEL, .id = 1, .audit = PAWL_AUDIT_FULL}, *op = &nothing;
        apply_all(s.race.quick, s.h, lane, 1, &op, 1, &a);
        assert_int_equal(a.status, PAWL_OK);
    }
}

static void set_scene(void)
{
    answer a = {0};
    pawl_store *q = s.race.quick;
    my_bed_empty(s.race.database);
    s.h = join();
    s.n = join();
    make_lanes();
    s.a = hold(insert(q, NULL, &a));
    s.b = hold(insert(q, NULL, &a));
    s.f = hold(insert(q, NULL, &a));
    s.c = child(q, s.a.id, s.b.id, PAWL_IF_FAILED_CANCEL, &a);
    s.d = child(q, s.a.id, 0, PAWL_IF_FAILED_RUN, &a);
    s.g = child(q, s.f.id, 0, PAWL_IF_FAILED_HOLD, &a);
    end(q, &s.f, 5, PAWL_FAILED, &a);
    assert_int_equal(a.result, PAWL_OP_DONE);
    s.batch = batch(q, PAWL_BATCH_OPEN, new_id(), &a);
    s.e = child(q, s.batch, 0, PAWL_IF_FAILED_RUN, &a);
    s.m = hold(insert(q, &(pawl_family){.batch.id = s.batch}, &a));
    s.n_ = hold(insert(q, &(pawl_family){.batch.id = s.batch}, &a));
    assert_int_equal(a.result, PAWL_OP_DONE);
    my_bed_exec(s.race.my, "UPDATE pawl_node SET gone = 1 WHERE id = %lld", (long long)s.h);
}

/* ---- what must fit together ---------------------------------------------------------------------------------------------- */

/* A session that was killed may hold what it was at for a moment longer, and what others are at is left to them. */
static void settle_all(void)
{
    for (int i = 0; my_bed_int(s.race.my, "SELECT COUNT(*) FROM pawl_unsettled") > 0; i++) {
        answer a = {0};
        settle(s.race.quick, 100, &a);
        if (a.status) fail_msg("%s", a.err.message);
        assert_true(i < 10000);
    }
}

#define ENDED \
    "(SELECT id, state FROM pawl_done UNION ALL SELECT id, state FROM pawl_failed UNION ALL SELECT id, state FROM pawl_batch WHERE ended_us > 0)"

static void check_families(void)
{
    const race *r = &s.race;
    race_check_nothing(r, "something is still to be told", "SELECT 1 FROM pawl_unsettled");
    race_check_nothing(r, "somebody waits for what has ended",
                       "SELECT 1 FROM pawl_edge e JOIN pawl_wait w ON w.child_id = e.child_id JOIN " ENDED
                       " x ON x.id = e.parent_id WHERE e.state = 0");
    race_check_nothing(
        r, "a child that waits for a number of parents that is wrong",
        "SELECT child_id FROM pawl_wait w WHERE unmet <> (SELECT COUNT(*) FROM pawl_edge WHERE child_id = w.child_id AND "
        "state = 0) OR held <> (SELECT COUNT(*) FROM pawl_edge WHERE child_id = w.child_id AND state = 2) OR unmet + held = 0");
    race_check_nothing(
        r, "a waiting task that waits for nothing, or one that waits and is not waiting",
        "SELECT l.id FROM pawl_live l LEFT JOIN pawl_wait w ON w.child_id = l.id WHERE (l.state = 1) <> (w.child_id IS NOT "
        "NULL) OR (l.state = 1 AND l.ready IS NOT NULL) UNION ALL SELECT child_id FROM pawl_wait WHERE child_id NOT IN "
        "(SELECT id FROM pawl_live)");
    race_check_nothing(
        r, "a batch that counts wrong, or has not ended when it should",
        "SELECT id FROM pawl_batch b WHERE unfinished <> (SELECT COUNT(*) FROM pawl_member m WHERE m.batch_id = b.id AND "
        "m.task_id NOT IN (SELECT id FROM " ENDED " x)) OR (closed_us > 0 AND unfinished = 0) <> (ended_us > 0) OR "
        "succeeded <> (SELECT COUNT(*) FROM pawl_member m JOIN " ENDED " x ON x.id = m.task_id AND x.state = 4 "
        "WHERE m.batch_id = b.id)");
}

static void meet(const act *x, const act *y, bool kill)
{
    answer first = {0}, second = {0};
    set_scene();
    race_meet(&s.race, x->run, &first, y->run, &second, kill);
    if (!kill && first.status) fail_msg("%s: %s", x->name, first.err.message);
    if (second.status) fail_msg("%s: %s", y->name, second.err.message);
    settle_all();
    race_check(&s.race);
    check_families();
}

static const act *const pairs[][2] = {
    {&finishes_a, &children},      {&finishes_a, &finishes_b},
    {&fails_a, &finishes_b},       {&fails_a, &children},
    {&finishes_a, &cancels_c},     {&fails_a, &cancels_c},
    {&finishes_a, &settles},       {&finishes_m, &finishes_n},
    {&finishes_m, &closes},        {&finishes_m, &joins},
    {&finishes_m, &cancels_batch}, {&joins, &closes},
    {&joins, &cancels_batch},      {&closes, &cancels_batch},
    {&closes, &children_of_batch}, {&cancels_batch, &children_of_batch},
    {&cancels_batch, &finishes_n}, {&retries, &settles},
    {&retries, &retries},          {&rescues, &children},
    {&rescues, &cancels_batch},    {&rescues, &finishes_a},
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
    race_hold(&s.race, "TRUE");
    both_orders(false);
}

static void the_first_is_killed(void **state)
{
    (void)state;
    race_hold(&s.race, "TRUE");
    both_orders(true);
}

/* Lanes below -1 are those of transactions that tell. */
static void held_while_it_tells(void **state)
{
    static const act *const tells[] = {&finishes_a, &fails_a};
    static const act *const others[] = {&children, &finishes_b, &cancels_c, &settles, &finishes_m, &retries, &rescues};
    (void)state;
    race_hold(&s.race, "NEW.lane < -1");
    for (size_t i = 0; i < sizeof tells / sizeof *tells * (sizeof others / sizeof *others) * 2; i++) {
        const act *x = tells[i % 2], *y = others[i / 2 % (sizeof others / sizeof *others)];
        bool kill = i >= sizeof tells / sizeof *tells * (sizeof others / sizeof *others);
        print_message("%s while it tells, then %s%s\n", x->name, y->name, kill ? ", killed" : "");
        meet(x, y, kill);
    }
}

/* ---- many ---------------------------------------------------------------------------------------------------------------- */

#define AT_ONCE 1000
#define SLOW_US (5 * PAWL_SECOND) /* a call that takes so long on a busy machine does something that grows */

static int many(void)
{
    const char *text = getenv("PAWL_FAMILY");
    return text ? atoi(text) : 5000;
}

static int64_t mono_us(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec * PAWL_SECOND + t.tv_nsec / 1000;
}

/* Puts `count` tasks: children of one, or each of the one before. */
static void put_many(pawl_id first, int count, bool chain)
{
    static pawl_body bodies[AT_ONCE];
    static pawl_op ops[AT_ONCE], *each[AT_ONCE];
    static pawl_kin kin[AT_ONCE];
    static pawl_family families[AT_ONCE];
    pawl_id before = first;
    for (int done = 0, some; done < count; done += some) {
        answer a = {0};
        some = count - done < AT_ONCE ? count - done : AT_ONCE;
        for (int i = 0; i < some; i++) {
            kin[i] = chain && i > 0 ? (pawl_kin){.op = &ops[i - 1]} : (pawl_kin){.id = before};
            families[i] = (pawl_family){.parents = &kin[i], .parents_count = 1};
            ops[i] = insert_op(&bodies[i], &families[i]);
            each[i] = &ops[i];
        }
        apply_all(s.race.quick, 0, 0, 0, each, some, &a);
        if (a.status) fail_msg("%s", a.err.message);
        assert_int_equal(ops[some - 1].result, PAWL_OP_DONE);
        if (chain) before = ops[some - 1].out_id;
    }
}

/* One step after the other, none of them slow; how many. */
static int settle_steps(void)
{
    answer a = {.unsettled = true};
    int steps = 0;
    for (; a.unsettled; steps++) {
        int64_t from_us = mono_us();
        settle(s.race.quick, 500, &a);
        if (a.status) fail_msg("%s", a.err.message);
        if (mono_us() - from_us > SLOW_US) fail_msg("a step took %lld us", (long long)(mono_us() - from_us));
    }
    return steps;
}

static void very_many_children(void **state)
{
    answer a = {0};
    (void)state;
    set_scene();
    put_many(s.a.id, many(), false);
    do_finish_a(s.race.quick, &a);
    assert_true(a.status == PAWL_OK && a.unsettled);
    assert_true(settle_steps() >= (many() - PAWL_SETTLE_AT_ONCE) / 1000);
    check_families();
    race_check(&s.race);
    assert_true(my_bed_int(s.race.my, "SELECT COUNT(*) FROM pawl_live WHERE state = 2") >= many());
}

static void a_long_chain(void **state)
{
    answer a = {0};
    int links = many() / 10;
    (void)state;
    set_scene();
    put_many(s.a.id, links, true);
    do_fail_a(s.race.quick, &a);
    settle_steps();
    check_families();
    race_check(&s.race);
    assert_true(my_bed_int(s.race.my, "SELECT COUNT(*) FROM pawl_done WHERE state = 6") >= links);
}

static void very_many_members(void **state)
{
    static pawl_body bodies[AT_ONCE];
    static pawl_op ops[AT_ONCE], *each[AT_ONCE];
    answer a = {0};
    pawl_family family;
    (void)state;
    set_scene();
    family = (pawl_family){.batch.id = s.batch};
    for (int done = 0; done < many(); done += AT_ONCE) {
        for (int i = 0; i < AT_ONCE; i++) {
            ops[i] = insert_op(&bodies[i], &family);
            each[i] = &ops[i];
        }
        apply_all(s.race.quick, 0, 0, 0, each, AT_ONCE, &a);
        assert_int_equal(a.status, PAWL_OK);
    }
    do_cancel_batch(s.race.quick, &a);
    assert_true(a.status == PAWL_OK && a.unsettled);
    settle_steps();
    race_check(&s.race);
    check_families();
    assert_int_equal(my_bed_int(s.race.my, "SELECT unfinished FROM pawl_batch"), 2); /* M and N run */
}

static int set_up(void **state)
{
    (void)state;
    race_open(&s.race, "families");
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
    static const struct CMUnitTest tests[] = {cmocka_unit_test(the_first_commits),   cmocka_unit_test(the_first_is_killed),
                                              cmocka_unit_test(held_while_it_tells), cmocka_unit_test(very_many_children),
                                              cmocka_unit_test(a_long_chain),        cmocka_unit_test(very_many_members)};
    if (!my_bed_there()) return BED_SKIP;
    return cmocka_run_group_tests_name("families", tests, set_up, tear_down);
}
