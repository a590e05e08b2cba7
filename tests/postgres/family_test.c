/* What meets in families and schedules, in both orders, with the first one held at the door of its commit (meet.h): a child comes while its
 * parent ends, two parents end at once, a cancel meets an end, the last members of a batch end together, two nodes step one schedule.
 * However that went: once everybody is told, nobody waits for what has ended, and everything is counted right.
 *
 * The scene: H holds A, B (parents of C, which is cancelled if one fails; D runs after A whatever it does), M and N (all members of the batch
 * "full", which is closed), Y (a member of "open") and O (the task of an occurrence of the schedule "s", which "f" follows). P is pending and
 * has the child Q.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/alloc.h"
#include "meet.h"
#include "store/store.h"
#include <stdio.h>

#define LEASE (30 * PAWL_SECOND)

enum { A, B, M, N, Y, O, HELD, C = HELD, D, P, Q, TASKS };

typedef struct scene {
    meeting m;
    int64_t h, r, renewal;
    pawl_id tasks[TASKS], next_id, full, open;
    int64_t version;
} scene;

static scene s;

typedef struct answer {
    pawl_status status;
    pawl_op_result result;
    pawl_id id;
    bool unsettled;
} answer;

typedef struct act {
    const char *name;
    meet_fn *run;
} act;

/* ---- operations ---------------------------------------------------------------------------------------------------------- */

static pawl_id new_id(void) { return __atomic_add_fetch(&s.next_id, 1, __ATOMIC_RELAXED); }

static pawl_op insert_op(pawl_body *body)
{
    *body = (pawl_body){.id = new_id(), .type = "t", .queue = "q", .tenant = "", .content_type = "application/json"};
    pawl_op op = {.kind = PAWL_OP_INSERT, .id = body->id, .audit = PAWL_AUDIT_FULL};
    op.u.insert.body = body;
    return op;
}

static void apply(pawl_store *store, int64_t node, int lane, pawl_op *op, answer *a)
{
    pawl_arena *arena = arena_new(alloc_default(), 0);
    pawl_batch batch = {.node = node, .lane = lane, .number = 1, .ops = &op, .count = 1};
    a->status = store->type->apply(store, &batch, arena, NULL);
    a->result = op->result;
    a->id = op->out_id;
    a->unsettled = batch.unsettled;
    arena_free(arena);
}

static void insert(pawl_store *store, pawl_id first, pawl_id second, pawl_if_failed if_failed, pawl_id batch, answer *a)
{
    pawl_body body;
    pawl_kin parents[2] = {{.id = first}, {.id = second}};
    pawl_family family = {.parents = parents,
                          .parents_count = second  ? 2
                                           : first ? 1
                                                   : 0,
                          .if_failed = if_failed,
                          .batch = {.id = batch}};
    pawl_op op = insert_op(&body);
    if (first || batch) op.u.insert.family = &family;
    apply(store, 0, 0, &op, a);
}

/* Each of them in a lane of its own. */
static void finish(pawl_store *store, int which, pawl_state to, answer *a)
{
    pawl_op op = {.kind = PAWL_OP_FINISH, .id = s.tasks[which], .fence = 1, .audit = PAWL_AUDIT_FULL};
    op.u.finish.to = to;
    op.u.finish.run = (pawl_execution){.outcome = to == PAWL_FAILED ? PAWL_ATTEMPT_FAILED : PAWL_ATTEMPT_SUCCEEDED,
                                       .number = 1,
                                       .started_us = 1,
                                       .finished_us = 2,
                                       .progress = -1};
    apply(store, s.h, which, &op, a);
}

static void cancel(pawl_store *store, int which, answer *a)
{
    pawl_op op = {.kind = PAWL_OP_CANCEL, .id = s.tasks[which], .audit = PAWL_AUDIT_FULL};
    apply(store, 0, 0, &op, a);
}

static void batch(pawl_store *store, pawl_batch_act what, pawl_id id, const char *name, answer *a)
{
    pawl_batch_put put = {.act = what, .name = name};
    pawl_op op = {.kind = PAWL_OP_BATCH, .id = id, .audit = PAWL_AUDIT_FULL};
    op.u.batch = &put;
    apply(store, 0, 0, &op, a);
}

static void step(pawl_store *store, int64_t occurrence, answer *a)
{
    pawl_body body;
    pawl_op task = insert_op(&body), op = {.kind = PAWL_OP_STEP, .audit = PAWL_AUDIT_FULL};
    pawl_fate fate = {.occurrence = occurrence, .fires = true, .count = 1};
    pawl_step step = {.name = "s",
                      .version = s.version,
                      .overlap = PAWL_OVERLAP_ALLOW,
                      .fates = &fate,
                      .fates_count = 1,
                      .tasks = &task,
                      .tasks_count = 1};
    op.u.step = &step;
    apply(store, 0, 0, &op, a);
}

static void schedule(pawl_store *store, const char *name, const char *after, bool drop, answer *a)
{
    pawl_schedule_row row = {.name = name, .spec = "{}", .after = after};
    pawl_schedule_put put = {.row = &row, .drop = drop};
    pawl_op op = {.kind = PAWL_OP_SCHEDULE, .audit = PAWL_AUDIT_FULL};
    op.u.schedule = &put;
    apply(store, 0, 0, &op, a);
}

#define ACT(name, call)                                         \
    static void do_##name(pawl_store *store, void *a) { call; } \
    static const act name = {#name, do_##name}

ACT(finish_a, finish(store, A, PAWL_SUCCEEDED, a));
ACT(finish_b, finish(store, B, PAWL_SUCCEEDED, a));
ACT(fail_a, finish(store, A, PAWL_FAILED, a));
ACT(fail_b, finish(store, B, PAWL_FAILED, a));
ACT(child_of_a, insert(store, s.tasks[A], 0, PAWL_IF_FAILED_CANCEL, 0, a));
ACT(child_of_both, insert(store, s.tasks[A], s.tasks[B], PAWL_IF_FAILED_RUN, 0, a));
ACT(child_of_p, insert(store, s.tasks[P], 0, PAWL_IF_FAILED_RUN, 0, a));
ACT(child_of_full, insert(store, s.full, 0, PAWL_IF_FAILED_RUN, 0, a));
ACT(cancel_c, cancel(store, C, a));
ACT(cancel_p, cancel(store, P, a));
ACT(cancel_q, cancel(store, Q, a));
ACT(cancel_a, cancel(store, A, a));
ACT(finish_m, finish(store, M, PAWL_SUCCEEDED, a));
ACT(finish_n, finish(store, N, PAWL_FAILED, a));
ACT(finish_y, finish(store, Y, PAWL_SUCCEEDED, a));
ACT(join_open, insert(store, 0, 0, PAWL_IF_FAILED_CANCEL, s.open, a));
ACT(close_open, batch(store, PAWL_BATCH_CLOSE, s.open, NULL, a));
ACT(cancel_open, batch(store, PAWL_BATCH_CANCEL, s.open, NULL, a));
ACT(cancel_full, batch(store, PAWL_BATCH_CANCEL, s.full, NULL, a));
ACT(open_same, batch(store, PAWL_BATCH_OPEN, new_id(), "same", a));
ACT(step_9, step(store, 9, a));
ACT(step_8, step(store, 8, a));
ACT(finish_o, finish(store, O, PAWL_SUCCEEDED, a));
ACT(drop_s, schedule(store, "s", NULL, true, a));
ACT(put_g, schedule(store, "g", "s", false, a));
ACT(put_new, schedule(store, "new", NULL, false, a));

static void do_settle(pawl_store *store, void *a)
{
    pawl_op op = {.kind = PAWL_OP_SETTLE, .audit = PAWL_AUDIT_FULL};
    op.u.settle.limit = 100;
    apply(store, 0, 0, &op, a);
}

static void do_rescue(pawl_store *store, void *out)
{
    answer *a = out;
    pawl_lease tasks[16];
    pawl_rescue call = {.node = s.r, .victim = s.h, .renewal = s.renewal, .limit = 16, .tasks = tasks};
    a->status = store->type->rescue(store, &call, NULL);
}

static const act settle = {"settle", do_settle}, rescue = {"rescue", do_rescue};

/* ---- the scene ----------------------------------------------------------------------------------------------------------- */

static int64_t join(void)
{
    pawl_registration call = {.name = "n", .queues = "q", .types = "*", .lease_us = LEASE};
    assert_int_equal(s.m.quick->type->register_node(s.m.quick, &call, NULL), PAWL_OK);
    return call.node;
}

static void claim(int wants)
{
    pawl_claimed tasks[16];
    pawl_want want = {.queue = "q", .free = 16, .any_type = true, .solo = true};
    pawl_arena *arena = arena_new(alloc_default(), 0);
    pawl_claim call = {.node = s.h, .wants = &want, .wants_count = wants, .allocator = alloc_default(), .tasks = tasks};
    assert_int_equal(s.m.quick->type->claim(s.m.quick, &call, arena, NULL), PAWL_OK);
    for (int i = 0; i < call.tasks_count; i++) alloc_free(alloc_default(), tasks[i].body);
    arena_free(arena);
}

static void families_of_the_scene(void)
{
    pawl_store *store = s.m.quick;
    answer a;
    insert(store, s.tasks[A], s.tasks[B], PAWL_IF_FAILED_CANCEL, 0, &a);
    s.tasks[C] = a.id;
    insert(store, s.tasks[A], 0, PAWL_IF_FAILED_RUN, 0, &a);
    s.tasks[D] = a.id;
    insert(store, s.tasks[P], 0, PAWL_IF_FAILED_RUN, 0, &a);
    s.tasks[Q] = a.id;
    assert_int_equal(a.status, PAWL_OK);
}

/* bare: nobody has a family yet, and there is no schedule. */
static void set_scene(bool bare)
{
    pawl_store *store = s.m.quick;
    answer a;
    bed_empty(s.m.schema);
    s.h = join();
    s.r = join();
    s.full = new_id();
    s.open = new_id();
    if (!bare) {
        batch(store, PAWL_BATCH_OPEN, s.full, "full", &a);
        batch(store, PAWL_BATCH_OPEN, s.open, "open", &a);
        schedule(store, "s", NULL, false, &a);
        schedule(store, "f", "s", false, &a);
        s.version = bed_int(s.m.pg, "SELECT version FROM pawl_schedule_state WHERE name = 's'");
    }
    for (int i = A; i < HELD; i++) {
        if (i == O && !bare) step(store, 1, &a);
        else insert(store, 0, 0, PAWL_IF_FAILED_CANCEL, bare ? 0 : i == M || i == N ? s.full : i == Y ? s.open : 0, &a);
        s.tasks[i] = i == O && !bare ? bed_int(s.m.pg, "SELECT last_task FROM pawl_schedule_state WHERE name = 's'") : a.id;
    }
    claim(1);
    insert(store, 0, 0, PAWL_IF_FAILED_CANCEL, 0, &a);
    s.tasks[P] = a.id;
    if (!bare) {
        families_of_the_scene();
        batch(store, PAWL_BATCH_CLOSE, s.full, NULL, &a);
        s.version = bed_int(s.m.pg, "SELECT version FROM pawl_schedule_state WHERE name = 's'");
    }
    s.renewal = bed_int(s.m.pg, "SELECT sum(renewal) FROM pawl_lane WHERE node = %lld", (long long)s.h);
    s.m.clock.now_us += LEASE;
    s.m.clock.boot_us += LEASE;
}

/* ---- what must fit together ---------------------------------------------------------------------------------------------- */

static void check_nothing(const char *what, const char *sql)
{
    int64_t n = bed_int(s.m.pg, "SELECT count(*) FROM (%s) x", sql);
    if (n) fail_msg("%lld times: %s", (long long)n, what);
}

#define ENDED \
    "(SELECT id FROM pawl_done UNION ALL SELECT id FROM pawl_failed UNION ALL SELECT id FROM pawl_batch WHERE ended_us IS NOT NULL)"

static void check_families(void)
{
    check_nothing("something is left to tell", "SELECT n FROM pawl_unsettled");
    check_nothing(
        "a child waits for nothing",
        "SELECT v.id FROM pawl_live v WHERE v.state = 1 AND NOT EXISTS (SELECT FROM pawl_edge e WHERE e.child_id = v.id AND "
        "(e.state = 2 OR e.parent_id NOT IN " ENDED "))");
    check_nothing(
        "a child that does not wait has a parent that has not ended",
        "SELECT v.id FROM pawl_live v JOIN pawl_edge e ON e.child_id = v.id WHERE v.state = 2 AND e.parent_id NOT IN " ENDED);
    check_nothing(
        "a waiting task counted wrong",
        "SELECT w.child_id FROM pawl_wait w WHERE w.unmet <> (SELECT count(*) FROM pawl_edge WHERE child_id = w.child_id AND "
        "state = 0) OR w.held <> (SELECT count(*) FROM pawl_edge WHERE child_id = w.child_id AND state = 2) OR NOT EXISTS "
        "(SELECT FROM pawl_live v WHERE v.id = w.child_id AND v.state = 1)");
    check_nothing(
        "a batch counted wrong",
        "SELECT b.id FROM pawl_batch_whole b WHERE (b.unfinished, b.succeeded, b.failed, b.cancelled) <> "
        "(SELECT count(*) FILTER (WHERE m.state = 0), count(*) FILTER (WHERE m.state = 4), count(*) FILTER (WHERE m.state = 5), "
        "count(*) FILTER (WHERE m.state = 6) FROM pawl_member m WHERE m.batch_id = b.id)");
    check_nothing("a member that has ended, or not",
                  "SELECT m.task_id FROM pawl_member m WHERE (m.state <> 0) <> (m.task_id IN " ENDED ")");
    check_nothing(
        "a batch ended too early, or not",
        "SELECT b.id FROM pawl_batch_whole b WHERE (b.ended_us IS NOT NULL) <> (b.closed_us IS NOT NULL AND b.unfinished = 0)");
}

static void check_schedules(void)
{
    check_nothing("an end is left that its schedule does not know of", "SELECT task_id FROM pawl_ended");
    check_nothing("an open occurrence whose task has ended",
                  "SELECT o.task_id FROM pawl_occurrence o WHERE o.state = 2 AND o.task_id IN " ENDED);
    check_nothing(
        "a schedule counted wrong",
        "SELECT s.id FROM pawl_schedule_state s WHERE (s.open, s.waiting, s.settled) <> (SELECT count(*) FILTER (WHERE state = 2), "
        "count(*) FILTER (WHERE state = 1), count(*) FILTER (WHERE state > 2) FROM pawl_occurrence WHERE schedule_id = s.id)");
    check_nothing(
        "a schedule without its other half",
        "SELECT s.id FROM pawl_schedule s FULL JOIN pawl_schedule_state t ON t.id = s.id WHERE s.id IS NULL OR t.id IS NULL");
    check_nothing("occurrences of nobody",
                  "SELECT schedule_id FROM pawl_occurrence WHERE schedule_id NOT IN (SELECT id FROM pawl_schedule)");
    check_nothing(
        "a follower that was not told",
        "SELECT f.id FROM pawl_schedule f JOIN pawl_schedule s ON s.name = f.after JOIN pawl_occurrence o ON o.schedule_id = s.id "
        "WHERE f.name = 'f' AND o.state = 3 AND NOT EXISTS (SELECT FROM pawl_occurrence x WHERE x.schedule_id = f.id AND "
        "x.occurrence = o.task_id)");
}

static void check_counts(void)
{
    check_nothing(
        "a queue counted wrong",
        "SELECT 1 WHERE (SELECT coalesce(sum(pending), 0) FROM pawl_count) <> (SELECT count(*) FROM pawl_live WHERE state = 2) "
        "OR (SELECT coalesce(sum(waiting), 0) FROM pawl_count) <> (SELECT count(*) FROM pawl_live WHERE state = 1) "
        "OR (SELECT coalesce(sum(leased), 0) FROM pawl_count) <> (SELECT count(*) FROM pawl_leased)");
    check_nothing("leases counted wrong",
                  "SELECT n.id FROM pawl_node n WHERE (SELECT coalesce(sum(leases), 0) FROM pawl_lane WHERE node = n.id) "
                  "<> (SELECT count(*) FROM pawl_leased WHERE node = n.id)");
}

/* ---- the run ------------------------------------------------------------------------------------------------------------- */

static void meet(const act *x, const act *y, bool bare, bool kill)
{
    answer first = {0}, second = {0}, told = {.unsettled = true};
    set_scene(bare);
    meet_run(&s.m, x->run, &first, y->run, &second, kill);
    if (!kill && first.status) fail_msg("%s: status %d", x->name, (int)first.status);
    if (second.status) fail_msg("%s: status %d", y->name, (int)second.status);
    for (int i = 0; i < 20 && told.unsettled; i++) {
        s.m.clock.now_us += PAWL_SECOND;
        do_settle(s.m.quick, &told);
    }
    claim(0); /* sees to what was left because somebody had its schedule */
    check_families();
    check_schedules();
    check_counts();
    if ((x == &step_8 || y == &step_8) && (x == &step_9 || y == &step_9) && !kill)
        assert_int_equal(first.result == PAWL_OP_DONE, second.result == PAWL_OP_STALE);
}

static const act *const pairs[][2] = {
    {&child_of_a, &finish_a},    {&child_of_a, &fail_a},      {&child_of_a, &cancel_a},  {&child_of_a, &rescue},
    {&child_of_both, &finish_a}, {&child_of_both, &fail_b},   {&finish_a, &finish_b},    {&fail_a, &finish_b},
    {&fail_a, &fail_b},          {&finish_a, &cancel_c},      {&fail_a, &cancel_c},      {&child_of_p, &cancel_p},
    {&cancel_p, &cancel_q},      {&settle, &finish_a},        {&settle, &child_of_a},    {&finish_m, &finish_n},
    {&finish_m, &cancel_full},   {&child_of_full, &finish_m}, {&join_open, &close_open}, {&join_open, &cancel_open},
    {&join_open, &join_open},    {&finish_y, &close_open},    {&finish_y, &cancel_open}, {&close_open, &cancel_open},
    {&open_same, &open_same},    {&finish_y, &join_open},     {&rescue, &finish_a},      {&step_8, &step_9},
    {&step_8, &finish_o},        {&step_8, &drop_s},          {&drop_s, &finish_o},      {&put_g, &finish_o},
    {&put_new, &put_new},        {&rescue, &finish_o},        {&step_8, &rescue},
};

/* The first of its kind: whoever ends what it waits for did not know that there are families. */
static const act *const first_pairs[][2] = {
    {&child_of_a, &finish_a}, {&child_of_p, &cancel_p}, {&child_of_a, &fail_a}, {&child_of_a, &rescue}, {&put_new, &finish_a},
};

static void both_orders(bool bare, bool kill)
{
    size_t count = bare ? sizeof first_pairs / sizeof *first_pairs : sizeof pairs / sizeof *pairs;
    for (size_t i = 0; i < count; i += kill ? 3 : 1) {
        for (int turn = 0; turn < 2; turn++) {
            const act *const *pair = bare ? first_pairs[i] : pairs[i];
            print_message("%s, then %s%s\n", pair[turn]->name, pair[!turn]->name, kill ? ", killed" : "");
            meet(pair[turn], pair[!turn], bare, kill);
        }
    }
}

static void the_first_commits(void **state)
{
    (void)state;
    both_orders(false, false);
}

static void the_first_is_killed(void **state)
{
    (void)state;
    both_orders(false, true);
}

static void nobody_had_a_family_before(void **state)
{
    (void)state;
    both_orders(true, false);
}

static int set_up(void **state)
{
    (void)state;
    meet_open(&s.m, "families", LEASE);
    s.next_id = (s.m.clock.now_us / 1000 - PAWL_EPOCH_MS) << 22 | 7 << 12;
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    meet_close(&s.m);
    return 0;
}

int main(void)
{
    static const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_first_commits),
        cmocka_unit_test(the_first_is_killed),
        cmocka_unit_test(nobody_had_a_family_before),
    };
    if (!bed_there(false)) return BED_SKIP;
    return cmocka_run_group_tests_name("families", tests, set_up, tear_down);
}
