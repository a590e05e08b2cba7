/* Schedules where two meet, in both orders, the first one held at the door of its commit, then committed or killed (race.h). Whatever
 * happens, no occurrence has two tasks, and what a schedule counts is what is stored.
 *
 * The scene: schedule "s" may have one task at a time. That of its occurrence 1 is held by node H, which has lapsed; occurrence 2 waits.
 * Schedule "f" follows "s".
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/alloc.h"
#include "mysql/race.h"
#include "store/store.h"

typedef struct scene {
    race race;
    int64_t h, n;
    pawl_id t, next_id;
    int64_t fence, version, follower;
} scene;

static scene s;

typedef struct answer {
    pawl_status status;
    pawl_op_result result, task;
    pawl_id id;
    pawl_error err;
} answer;

typedef struct act {
    const char *name;
    race_call run;
} act;

/* ---- operations ---------------------------------------------------------------------------------------------------------- */

static void apply(pawl_store *store, int64_t node, int64_t number, pawl_op *op, answer *a)
{
    pawl_arena *arena = arena_new(alloc_default(), 0);
    pawl_batch batch = {.node = node, .lane = 1, .number = number, .ops = &op, .count = 1};
    a->status = store->type->apply(store, &batch, arena, &a->err);
    a->result = op->result;
    arena_free(arena);
}

static void put(pawl_store *store, const char *name, const char *after, int64_t version, answer *a)
{
    pawl_schedule_row row = {.name = name, .after = after, .spec = "{}", .anchor_us = 1, .next_us = 7, .look_us = 7};
    row.version = version;
    pawl_schedule_put how = {.row = &row};
    pawl_op op = {.kind = PAWL_OP_SCHEDULE, .u.schedule = &how};
    apply(store, 0, 0, &op, a);
}

static void step(pawl_store *store, const char *name, int64_t version, int64_t occurrence, answer *a)
{
    pawl_body body = {.id = __atomic_add_fetch(&s.next_id, 1, __ATOMIC_RELAXED), .type = "t", .queue = "q", .tenant = ""};
    body.content_type = "application/json";
    pawl_op task = {.kind = PAWL_OP_INSERT, .id = body.id, .audit = PAWL_AUDIT_FULL};
    task.u.insert.body = &body;
    pawl_fate fate = {.occurrence = occurrence, .fires = true, .count = 1};
    pawl_step go = {.name = name, .version = version, .look_us = 9, .overlap = PAWL_OVERLAP_QUEUE};
    go.fates = &fate;
    go.tasks = &task;
    go.fates_count = go.tasks_count = 1;
    pawl_op op = {.kind = PAWL_OP_STEP, .u.step = &go};
    apply(store, 0, 0, &op, a);
    a->task = task.result;
    a->id = task.out_id;
}

static void do_step(pawl_store *store, void *a) { step(store, "s", s.version, 2, a); }
static void do_step_other(pawl_store *store, void *a) { step(store, "s", s.version, 3, a); }
static void do_step_follower(pawl_store *store, void *a) { step(store, "f", s.follower, 5, a); }
static void do_put_new(pawl_store *store, void *a) { put(store, "new", NULL, 0, a); }
static void do_put(pawl_store *store, void *a) { put(store, "s", NULL, s.version, a); }
static void do_put_follower(pawl_store *store, void *a) { put(store, "f", NULL, s.follower, a); }

static void do_drop(pawl_store *store, void *a)
{
    pawl_schedule_row row = {.name = "s"};
    pawl_schedule_put how = {.row = &row, .drop = true};
    pawl_op op = {.kind = PAWL_OP_SCHEDULE, .u.schedule = &how};
    apply(store, 0, 0, &op, a);
}

static void do_finish(pawl_store *store, void *a)
{
    pawl_op op = {.kind = PAWL_OP_FINISH, .id = s.t, .fence = s.fence, .audit = PAWL_AUDIT_FULL};
    op.u.finish.to = PAWL_SUCCEEDED;
    op.u.finish.run = (pawl_execution){.outcome = PAWL_ATTEMPT_SUCCEEDED, .number = 1, .progress = -1};
    apply(store, s.h, 2, &op, a);
}

static void do_rescue(pawl_store *store, void *out)
{
    answer *a = out;
    pawl_lease tasks[8];
    pawl_rescue call = {.node = s.n, .victim = s.h, .limit = 8, .tasks = tasks};
    a->status = store->type->rescue(store, &call, &a->err);
}

static const act steps = {"step", do_step}, steps_other = {"another step", do_step_other},
                 steps_follower = {"step of the follower", do_step_follower}, puts_new = {"put of a new one", do_put_new},
                 puts = {"put", do_put}, puts_follower = {"put of the follower", do_put_follower}, drops = {"drop", do_drop},
                 finishes = {"finish", do_finish}, rescues = {"rescue", do_rescue};

/* ---- the scene ----------------------------------------------------------------------------------------------------------- */

static int64_t join(void)
{
    pawl_registration call = {.name = "n", .queues = "q", .types = "*", .lease_us = RACE_LEASE};
    assert_int_equal(s.race.quick->type->register_node(s.race.quick, &call, NULL), PAWL_OK);
    return call.node;
}

static void claim_one(void)
{
    pawl_claimed task;
    pawl_error err;
    pawl_want want = {.queue = "q", .free = 1, .any_type = true};
    pawl_arena *arena = arena_new(alloc_default(), 0);
    pawl_claim call = {.node = s.h, .wants = &want, .wants_count = 1, .allocator = alloc_default(), .tasks = &task};
    assert_int_equal(s.race.quick->type->claim(s.race.quick, &call, arena, &err), PAWL_OK);
    assert_int_equal(call.tasks_count, 1);
    s.t = task.body->id;
    s.fence = task.fence;
    pawl_body_free(alloc_default(), task.body);
    arena_free(arena);
}

static int64_t version_of(const char *name)
{
    return my_bed_int(s.race.my, "SELECT version FROM pawl_schedule WHERE name = '%s'", name);
}

static void set_scene(void)
{
    answer a = {0};
    my_bed_empty(s.race.database);
    s.h = join();
    s.n = join();
    put(s.race.quick, "s", NULL, 0, &a);
    put(s.race.quick, "f", "s", 0, &a);
    assert_int_equal(a.result, PAWL_OP_DONE);
    step(s.race.quick, "s", 0, 1, &a);
    step(s.race.quick, "s", 0, 2, &a);
    assert_int_equal(a.task, PAWL_OP_MOVED);
    claim_one();
    s.version = version_of("s");
    s.follower = version_of("f");
    /* So that the lane has a receipt, and asks only once. */
    pawl_op nothing = {.kind = PAWL_OP_CANCEL, .id = 1, .audit = PAWL_AUDIT_FULL};
    apply(s.race.quick, s.h, 1, &nothing, &a);
    assert_int_equal(a.status, PAWL_OK);
    my_bed_exec(s.race.my, "UPDATE pawl_node SET gone = 1 WHERE id = %lld", (long long)s.h);
}

/* ---- what must fit together ---------------------------------------------------------------------------------------------- */

static void check_counts(void)
{
    const race *r = &s.race;
    race_check_nothing(
        r, "a schedule that counts what is not there",
        "SELECT id FROM pawl_schedule s WHERE open <> (SELECT COUNT(*) FROM pawl_occurrence WHERE schedule_id = s.id AND "
        "state = 2) OR waiting <> (SELECT COUNT(*) FROM pawl_occurrence WHERE schedule_id = s.id AND state = 1) OR "
        "settled <> (SELECT COUNT(*) FROM pawl_occurrence WHERE schedule_id = s.id AND state > 2)");
    race_check_nothing(r, "a task of two occurrences",
                       "SELECT task_id FROM pawl_occurrence WHERE task_id > 0 GROUP BY task_id HAVING COUNT(*) > 1");
    race_check_nothing(
        r, "an open occurrence whose task has ended",
        "SELECT 1 FROM pawl_occurrence WHERE (state = 2) <> (open_task IS NOT NULL) OR (state = 2 AND task_id NOT IN "
        "(SELECT id FROM pawl_live UNION SELECT id FROM pawl_leased))");
    race_check_nothing(
        r, "an occurrence, or a definition, of nothing",
        "SELECT schedule_id FROM pawl_occurrence WHERE schedule_id NOT IN (SELECT id FROM pawl_schedule) UNION ALL "
        "SELECT schedule_id FROM pawl_schedule_body WHERE schedule_id NOT IN (SELECT id FROM pawl_schedule)");
    race_check_nothing(r, "more than one task of a schedule at a time", "SELECT id FROM pawl_schedule WHERE open > 1");
}

static bool decides(const act *x) { return x == &steps || x == &steps_other || x == &puts; }

static void check_answers(const act *x, const answer *a, const act *y, const answer *b)
{
    bool both = a->status == PAWL_OK && b->status == PAWL_OK;
    if (decides(x) && decides(y) && both && (a->result == PAWL_OP_STALE) == (b->result == PAWL_OP_STALE))
        fail_msg("of two who decide on one version, %s", a->result == PAWL_OP_STALE ? "none succeeded" : "both succeeded");
    if (x == &puts_new && y == &puts_new && both && a->result + b->result != PAWL_OP_DONE + PAWL_OP_EXISTING)
        fail_msg("a new schedule was made by both, or by none");
    bool finished =
        (x == &finishes && a->status == PAWL_OK && a->result == PAWL_OP_DONE) || (y == &finishes && b->result == PAWL_OP_DONE);
    bool dropped = x == &drops || y == &drops, follows = x != &puts_follower && y != &puts_follower;
    if (finished && !dropped && follows && x->run != do_step_follower && y->run != do_step_follower &&
        my_bed_int(s.race.my,
                   "SELECT COUNT(*) FROM pawl_occurrence o JOIN pawl_schedule f ON f.id = o.schedule_id WHERE "
                   "f.name = 'f' AND o.state = 1 AND o.occurrence = %lld",
                   (long long)s.t) != 1)
        fail_msg("the follower was not told");
}

static void meet(const act *x, const act *y, bool kill)
{
    answer first = {0}, second = {0};
    set_scene();
    race_meet(&s.race, x->run, &first, y->run, &second, kill);
    if (!kill && first.status) fail_msg("%s: %s", x->name, first.err.message);
    if (second.status) fail_msg("%s: %s", y->name, second.err.message);
    race_check(&s.race);
    check_counts();
    check_answers(x, &first, y, &second);
}

static const act *const pairs[][2] = {
    {&steps, &steps},
    {&steps, &steps_other},
    {&steps, &finishes},
    {&steps, &puts},
    {&steps, &drops},
    {&steps, &rescues},
    {&finishes, &drops},
    {&finishes, &rescues},
    {&finishes, &puts},
    {&finishes, &puts_follower},
    {&finishes, &steps_follower},
    {&steps_follower, &puts_follower},
    {&puts_new, &puts_new},
    {&puts, &drops},
    {&drops, &rescues},
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

static int set_up(void **state)
{
    (void)state;
    race_open(&s.race, "schedules");
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
    static const struct CMUnitTest tests[] = {cmocka_unit_test(the_first_commits), cmocka_unit_test(the_first_is_killed)};
    if (!my_bed_there()) return BED_SKIP;
    return cmocka_run_group_tests_name("schedules", tests, set_up, tear_down);
}
