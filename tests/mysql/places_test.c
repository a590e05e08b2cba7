/* Concurrency limits where two meet, at one spot, in both orders, the first one held at the door of its commit, then committed or killed
 * (race.h). Whatever happens, no spot has more leases than places, every lease has its places, and nobody waits for ever: after each meeting
 * all tasks are run to their end.
 *
 * The scene: of each key of the type "t" two may run, of the type itself five. Of the key "free" node H holds A, and P and Q are ready. Of the
 * key "full" node H holds B, node R, which has lapsed, holds E, and C and D are blocked; C has a task key.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/alloc.h"
#include "mysql/race.h"
#include "store/store.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define S PAWL_SECOND
#define TASKS 64

typedef struct scene {
    race race;
    int64_t h, n, r; /* nodes */
    pawl_id a, b, c, d, e, p, q, next_id;
    int64_t a_fence, b_fence;
    bool beside; /* another type has a limit, whatever the scene */
} scene;

static scene s;

typedef struct answer {
    pawl_status status;
    pawl_op_result result;
    int got;
    bool unblocked;
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
    a->unblocked = batch.unblocked;
    arena_free(arena);
}

static pawl_op insert_op(pawl_body *body, const char *rate_key, const char *key)
{
    *body = (pawl_body){
        .id = __atomic_add_fetch(&s.next_id, 1, __ATOMIC_RELAXED), .type = "t", .queue = "q", .tenant = "", .key = key};
    body->rate_key = pawl_str(rate_key);
    body->content_type = "application/json";
    pawl_op op = {.kind = PAWL_OP_INSERT, .id = body->id, .audit = PAWL_AUDIT_FULL};
    op.u.insert.body = body;
    return op;
}

static void put(pawl_store *store, const char *rate_key, const char *key, pawl_id *id, answer *a)
{
    pawl_body body;
    pawl_op op = insert_op(&body, rate_key, key);
    apply(store, 0, 0, &op, a);
    if (id) *id = op.out_id;
}

static void end(pawl_store *store, int64_t node, int64_t number, pawl_id id, int64_t fence, answer *a)
{
    pawl_op op = {.kind = PAWL_OP_FINISH, .id = id, .fence = fence, .audit = PAWL_AUDIT_FULL};
    op.u.finish.to = PAWL_SUCCEEDED;
    op.u.finish.run = (pawl_execution){.outcome = PAWL_ATTEMPT_SUCCEEDED, .number = 1, .progress = -1};
    apply(store, node, number, &op, a);
}

static void bound(pawl_store *store, pawl_scope scope, const char *name, int most, bool ordered, answer *a)
{
    pawl_op op = {.kind = PAWL_OP_BOUND, .audit = PAWL_AUDIT_FULL};
    op.u.bound.scope = scope;
    op.u.bound.name = name;
    op.u.bound.most = most;
    op.u.bound.ordered = ordered;
    op.u.bound.move = 1000;
    apply(store, 0, 0, &op, a);
}

static int claim_of(pawl_store *store, int64_t node, pawl_claimed *tasks, int most, answer *a)
{
    pawl_want want = {.queue = "q", .free = most, .any_type = true, .solo = true};
    pawl_arena *arena = arena_new(alloc_default(), 0);
    pawl_claim call = {.node = node, .wants = &want, .wants_count = 1, .allocator = alloc_default(), .tasks = tasks};
    a->status = store->type->claim(store, &call, arena, &a->err);
    a->unblocked = call.news.unblocked;
    arena_free(arena);
    return a->got = call.tasks_count;
}

static void claim(pawl_store *store, int64_t node, answer *a)
{
    pawl_claimed tasks[TASKS];
    claim_of(store, node, tasks, 8, a);
    for (int i = 0; i < a->got; i++) pawl_body_free(alloc_default(), tasks[i].body);
}

static void cancel(pawl_store *store, pawl_id id, answer *a)
{
    pawl_op op = {.kind = PAWL_OP_CANCEL, .id = id, .audit = PAWL_AUDIT_FULL};
    apply(store, 0, 0, &op, a);
}

static void do_claim(pawl_store *store, void *a) { claim(store, s.h, a); }
static void do_claim_too(pawl_store *store, void *a) { claim(store, s.n, a); }
static void do_finish(pawl_store *store, void *a) { end(store, s.h, 2, s.b, s.b_fence, a); }
static void do_finish_free(pawl_store *store, void *a) { end(store, s.h, 2, s.a, s.a_fence, a); }
static void do_raise(pawl_store *store, void *a) { bound(store, PAWL_SCOPE_KEYS, "t", 3, false, a); }
static void do_lower(pawl_store *store, void *a) { bound(store, PAWL_SCOPE_KEYS, "t", 1, false, a); }
static void do_drop(pawl_store *store, void *a) { bound(store, PAWL_SCOPE_KEYS, "t", 0, false, a); }
static void do_order(pawl_store *store, void *a) { bound(store, PAWL_SCOPE_KEYS, "t", 1, true, a); }
static void do_bound_queue(pawl_store *store, void *a) { bound(store, PAWL_SCOPE_QUEUE, "q", 4, false, a); }
static void do_cancel_blocked(pawl_store *store, void *a) { cancel(store, s.c, a); }
static void do_cancel_ready(pawl_store *store, void *a) { cancel(store, s.p, a); }
static void do_insert(pawl_store *store, void *a) { put(store, "full", NULL, NULL, a); }
static void do_replace(pawl_store *store, void *a) { put(store, "free", "key", NULL, a); }

static void do_release(pawl_store *store, void *a)
{
    pawl_op op = {.kind = PAWL_OP_RELEASE, .id = s.b, .fence = s.b_fence, .audit = PAWL_AUDIT_FULL};
    op.u.release.delay_us = S;
    op.u.release.run = (pawl_execution){.outcome = PAWL_ATTEMPT_RETRY, .number = 1, .progress = -1};
    apply(store, s.h, 2, &op, a);
}

static void do_rescue(pawl_store *store, void *out)
{
    answer *a = out;
    pawl_lease tasks[8];
    pawl_rescue call = {.node = s.n, .victim = s.r, .renewal = 1, .limit = 8, .tasks = tasks};
    call.renewal = 0;
    a->status = store->type->rescue(store, &call, &a->err);
    a->got = call.freed;
}

static const act claims = {"claim", do_claim}, claims_too = {"another claim", do_claim_too}, finishes = {"finish", do_finish},
                 finishes_free = {"finish where there is room", do_finish_free}, raises = {"raise", do_raise},
                 lowers = {"lower", do_lower}, drops = {"drop", do_drop}, orders = {"order", do_order},
                 bounds_queue = {"bound of the queue", do_bound_queue},
                 cancels_blocked = {"cancel of a blocked one", do_cancel_blocked},
                 cancels_ready = {"cancel of a ready one", do_cancel_ready}, inserts = {"insert", do_insert},
                 replaces = {"another body", do_replace}, releases = {"release", do_release}, rescues = {"rescue", do_rescue};

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

static pawl_id hold(int64_t node, const char *key, int64_t *fence)
{
    answer a = {0};
    pawl_id id;
    pawl_claimed task;
    put(s.race.quick, key, NULL, &id, &a);
    assert_int_equal(claim_of(s.race.quick, node, &task, 1, &a), 1);
    assert_int_equal(task.body->id, id);
    *fence = task.fence;
    pawl_body_free(alloc_default(), task.body);
    return id;
}

/* bare: there never was a limit, and nobody knows of any. */
static void set_scene(bool bare)
{
    answer a = {0};
    int64_t fence;
    my_bed_empty(s.race.database);
    s.h = join();
    s.n = join();
    s.r = join();
    if (s.beside) bound(s.race.quick, PAWL_SCOPE_TYPE, "another", 1, false, &a);
    if (!bare) {
        bound(s.race.quick, PAWL_SCOPE_KEYS, "t", 2, false, &a);
        assert_int_equal(a.result, PAWL_OP_DONE);
        bound(s.race.quick, PAWL_SCOPE_TYPE, "t", 5, false, &a);
    }
    s.a = hold(s.h, "free", &s.a_fence);
    s.b = hold(s.h, "full", &s.b_fence);
    s.e = hold(s.r, "full", &fence);
    put(s.race.quick, "full", "key", &s.c, &a);
    put(s.race.quick, "full", NULL, &s.d, &a);
    put(s.race.quick, "free", NULL, &s.p, &a);
    put(s.race.quick, "free", NULL, &s.q, &a);
    /* So that the lane has a receipt, and asks only once. */
    pawl_op nothing = {.kind = PAWL_OP_CANCEL, .id = 1, .audit = PAWL_AUDIT_FULL};
    apply(s.race.quick, s.h, 1, &nothing, &a);
    assert_int_equal(a.status, PAWL_OK);
    my_bed_exec(s.race.my, "UPDATE pawl_node SET gone = 1 WHERE id = %lld", (long long)s.r);
    assert_int_equal(my_bed_int(s.race.my, "SELECT COUNT(*) FROM pawl_blocked"), bare ? 0 : 2);
}

/* ---- what must fit together ---------------------------------------------------------------------------------------------- */

static bool is_any(const act *x, const act *y, const act *z) { return x == z || y == z; }

static void check_places(bool lowered)
{
    const race *r = &s.race;
    race_check_nothing(r, "a place without a lease",
                       "SELECT p.task_id FROM pawl_place p JOIN pawl_bound b ON b.scope = p.scope AND b.name_id = p.name_id AND "
                       "b.bound_key = '' WHERE NOT b.ordered AND p.task_id NOT IN (SELECT id FROM pawl_leased)");
    race_check_nothing(r, "a lease without a place of its key",
                       "SELECT l.id FROM pawl_leased l JOIN pawl_bound b ON b.scope = 3 AND b.name_id = l.type_id AND b.most > 0 "
                       "WHERE l.id NOT IN (SELECT task_id FROM pawl_place WHERE scope = 3)");
    race_check_nothing(r, "a lease without a place of its type",
                       "SELECT l.id FROM pawl_leased l JOIN pawl_bound b ON b.scope = 2 AND b.name_id = l.type_id AND b.most > 0 "
                       "WHERE l.id NOT IN (SELECT task_id FROM pawl_place WHERE scope = 2)");
    race_check_nothing(
        r, "a lease without a place of its queue",
        "SELECT l.id FROM pawl_leased l JOIN pawl_bound b ON b.scope = 1 AND b.name_id = l.queue_id AND b.most > 0 "
        "WHERE l.id NOT IN (SELECT task_id FROM pawl_place WHERE scope = 1)");
    race_check_nothing(r, "a place without a spot",
                       "SELECT 1 FROM pawl_place p LEFT JOIN pawl_spot x ON x.scope = p.scope AND x.name_id = p.name_id AND "
                       "x.spot_key = p.spot_key WHERE x.scope IS NULL");
    if (!lowered)
        race_check_nothing(r, "more places are taken than there are",
                           "SELECT p.scope, p.name_id, p.spot_key FROM pawl_place p JOIN pawl_bound b ON b.scope = p.scope AND "
                           "b.name_id = p.name_id AND b.bound_key = '' AND b.most > 0 GROUP BY p.scope, p.name_id, p.spot_key "
                           "HAVING COUNT(*) > MAX(b.most)");
    race_check_nothing(r, "a task that is blocked and may be claimed, or neither",
                       "SELECT l.id FROM pawl_live l LEFT JOIN pawl_blocked k ON k.task_id = l.id "
                       "WHERE (l.ready IS NULL) <> (k.task_id IS NOT NULL)");
    race_check_nothing(r, "one that is blocked and not pending",
                       "SELECT task_id FROM pawl_blocked WHERE task_id NOT IN (SELECT id FROM pawl_live)");
    race_check_nothing(
        r, "one that is blocked beside a free place",
        "SELECT k.spot_key FROM pawl_blocked k JOIN pawl_bound b ON b.scope = k.scope AND b.name_id = k.name_id AND b.bound_key = '' "
        "WHERE k.scope = 3 AND (b.most = 0 OR (SELECT COUNT(*) FROM pawl_place p WHERE p.scope = 3 AND p.spot_key = k.spot_key) < b.most) "
        "AND NOT EXISTS (SELECT 1 FROM pawl_live l JOIN pawl_body y ON y.id = l.id WHERE l.ready > 0 AND y.rate_key = k.spot_key)");
}

static void end_all(void)
{
    for (pawl_id id; (id = my_bed_int(s.race.my, "SELECT COALESCE(MIN(id), 0) FROM pawl_leased")) != 0;) {
        answer a = {0};
        int64_t fence = my_bed_int(s.race.my, "SELECT fence FROM pawl_leased WHERE id = %lld", (long long)id);
        end(s.race.quick, 0, 0, id, fence, &a);
        if (a.status) fail_msg("%s", a.err.message);
        assert_int_equal(a.result, PAWL_OP_DONE);
    }
}

/* Nobody waits for ever. */
static void run_to_the_end(void)
{
    int rounds = 0;
    tick(S);
    while (my_bed_int(s.race.my, "SELECT (SELECT COUNT(*) FROM pawl_live) + (SELECT COUNT(*) FROM pawl_leased)")) {
        answer a = {0};
        end_all();
        claim(s.race.quick, s.n, &a);
        if (a.status) fail_msg("%s", a.err.message);
        if (++rounds == 20)
            fail_msg("%lld tasks wait for ever", (long long)my_bed_int(s.race.my, "SELECT COUNT(*) FROM pawl_live"));
    }
    assert_int_equal(my_bed_int(s.race.my, "SELECT COUNT(*) FROM pawl_place"), 0);
}

static void meet(const act *x, const act *y, bool bare, bool kill)
{
    answer first = {0}, second = {0};
    set_scene(bare);
    race_meet(&s.race, x->run, &first, y->run, &second, kill);
    if (!kill && first.status) fail_msg("%s: %s", x->name, first.err.message);
    if (second.status) fail_msg("%s: %s", y->name, second.err.message);
    race_check_nothing(&s.race, "a task that was claimed twice", "SELECT 1 FROM pawl_leased GROUP BY id HAVING COUNT(*) > 1");
    check_places(is_any(x, y, &lowers) || is_any(x, y, &orders) || is_any(x, y, &bounds_queue));
    run_to_the_end();
    race_check(&s.race);
}

static const act *const pairs[][2] = {
    {&claims, &claims_too},
    {&claims, &finishes},
    {&claims, &rescues},
    {&claims, &raises},
    {&claims, &bounds_queue},
    {&claims, &cancels_blocked},
    {&claims, &cancels_ready},
    {&claims, &replaces},
    {&finishes, &cancels_blocked},
    {&finishes, &lowers},
    {&rescues, &raises},
    {&finishes, &inserts},
    /* Only where there is time: */
    {&claims, &finishes_free},
    {&claims, &lowers},
    {&claims, &drops},
    {&claims, &inserts},
    {&finishes, &raises},
    {&finishes, &orders},
    {&finishes, &replaces},
    {&finishes, &bounds_queue},
    {&rescues, &finishes},
    {&rescues, &cancels_blocked},
    {&releases, &replaces},
    {&releases, &raises},
    {&releases, &claims},
    {&cancels_blocked, &raises},
    {&raises, &lowers},
    {&inserts, &bounds_queue},
};

#define FIRST_PAIRS 12
#define KILLED_PAIRS 4

static void both_orders(bool kill)
{
    size_t count = getenv("PAWL_RACES") ? sizeof pairs / sizeof *pairs : kill ? KILLED_PAIRS : FIRST_PAIRS;
    for (size_t i = 0; i < count; i++) {
        for (int turn = 0; turn < 2; turn++) {
            const act *x = pairs[i][turn], *y = pairs[i][!turn];
            print_message("%s, then %s%s\n", x->name, y->name, kill ? ", killed" : "");
            meet(x, y, false, kill);
        }
    }
}

static void the_first_commits(void **state)
{
    (void)state;
    both_orders(false);
}

/* Of all, or beside one of another type. */
static void the_first_limit(void **state)
{
    (void)state;
    const act *const others[] = {&finishes, &claims, &rescues, &releases};
    for (size_t i = 0; i < 2 * sizeof others / sizeof *others; i++) {
        const act *x = others[i / 2];
        s.beside = i & 1;
        print_message("%s and the first limit%s\n", x->name, s.beside ? " of the queue" : "");
        meet(x, &bounds_queue, true, false);
        meet(&bounds_queue, x, true, false);
    }
    s.beside = false;
}

static void the_first_is_killed(void **state)
{
    (void)state;
    both_orders(true);
}

/* ---- a program's own transaction ----------------------------------------------------------------------------------------- */

/* Its end holds up nobody, and the place is free once the node asks what became of the task; bare: which was leased before there were limits. */
static void ended_by_a_program(bool bare)
{
    answer a = {0};
    set_scene(bare);
    if (bare) bound(s.race.quick, PAWL_SCOPE_KEYS, "t", 2, false, &a);
    pawl_store *store = s.race.quick;
    pawl_op op = {.kind = PAWL_OP_FINISH, .id = s.b, .fence = s.b_fence, .audit = PAWL_AUDIT_FULL};
    op.u.finish.to = PAWL_SUCCEEDED;
    op.u.finish.run = (pawl_execution){.outcome = PAWL_ATTEMPT_SUCCEEDED, .number = 1, .progress = -1};
    pawl_arena *arena = arena_new(alloc_default(), 0);
    my_bed_exec(s.race.my, "START TRANSACTION");
    assert_int_equal(store->type->tx_apply(store, s.race.my, &op, 1, arena, &a.err), PAWL_OK);
    assert_int_equal(op.result, PAWL_OP_DONE);
    claim(store, s.n, &a);
    assert_true(a.status == PAWL_OK && a.got == 1);
    my_bed_exec(s.race.my, "COMMIT");
    arena_free(arena);
    end(store, s.h, 2, s.b, s.b_fence, &a);
    assert_true(a.status == PAWL_OK && a.result == PAWL_OP_STALE && a.unblocked);
    check_places(false);
    run_to_the_end();
}

static void a_lease_that_a_program_ended(void **state)
{
    (void)state;
    ended_by_a_program(false);
    ended_by_a_program(true);
}

/* Tasks with a place that get another type in a program's own transaction leave it when they end. */
static void a_task_that_a_program_replaced(void **state)
{
    (void)state;
    answer a = {0};
    pawl_body body;
    pawl_id first, second;
    pawl_claimed task;
    set_scene(true);
    end_all();
    run_to_the_end();
    pawl_store *store = s.race.quick;
    bound(store, PAWL_SCOPE_KEYS, "t", 1, true, &a);
    put(store, "r", "key", &first, &a);
    put(store, "r", NULL, &second, &a);
    pawl_op op = insert_op(&body, "r", "key");
    body.type = "u";
    pawl_arena *arena = arena_new(alloc_default(), 0);
    my_bed_exec(s.race.my, "START TRANSACTION");
    assert_int_equal(store->type->tx_apply(store, s.race.my, &op, 1, arena, &a.err), PAWL_OK);
    assert_true(op.result == PAWL_OP_UPDATED && op.out_id == first);
    my_bed_exec(s.race.my, "COMMIT");
    arena_free(arena);
    assert_int_equal(claim_of(store, s.n, &task, 1, &a), 1);
    assert_int_equal(task.body->id, first);
    end(store, 0, 0, first, task.fence, &a);
    pawl_body_free(alloc_default(), task.body);
    assert_true(a.result == PAWL_OP_DONE && a.unblocked);
    assert_int_equal(claim_of(store, s.n, &task, 1, &a), 1);
    assert_int_equal(task.body->id, second);
    pawl_body_free(alloc_default(), task.body);
    run_to_the_end();
}

/* Or else a sweep finds it; and forgets spots that nobody needs. */
static void a_lease_that_nobody_asks_about(void **state)
{
    (void)state;
    answer a = {0};
    set_scene(false);
    pawl_sweep call = {
        .keep_succeeded_us = -1, .keep_cancelled_us = -1, .keep_resolved_us = -1, .keep_failed_us = -1, .keep_audit_us = -1};
    call.keep_logs_us = -1;
    pawl_store *store = s.race.quick;
    end(store, s.h, 2, s.b, s.b_fence, &a);
    my_bed_exec(s.race.my,
                "INSERT INTO pawl_place SELECT scope, name_id, spot_key, 2, %lld FROM pawl_spot WHERE spot_key = 'full' AND "
                "NOT EXISTS (SELECT 1 FROM pawl_place p WHERE p.spot_key = 'full' AND p.number = 2)",
                (long long)s.b);
    claim(store, s.n, &a);
    for (int i = 0; i < 3; i++) assert_int_equal(store->type->sweep(store, &call, &a.err), PAWL_OK);
    race_check_nothing(&s.race, "a place of a task that is over",
                       "SELECT 1 FROM pawl_place WHERE task_id NOT IN (SELECT id FROM pawl_leased)");
    run_to_the_end();
    for (int i = 0; i < 3; i++) assert_int_equal(store->type->sweep(store, &call, &a.err), PAWL_OK);
    assert_int_equal(my_bed_int(s.race.my, "SELECT COUNT(*) FROM pawl_spot"), 0);
}

/* ---- what others pay ----------------------------------------------------------------------------------------------------- */

typedef struct asked { /* statements */
    int64_t put, claim, end;
} asked;

static int64_t statements(void)
{
    return my_bed_int(s.race.my, "SELECT VARIABLE_VALUE FROM information_schema.GLOBAL_STATUS WHERE VARIABLE_NAME = 'Questions'");
}

static void least(int64_t *of, int64_t from)
{
    int64_t now = statements() - from;
    if (now < *of) *of = now;
}

/* The life of a task, several times: the server has things to do of its own, now and then. */
static asked life(const char *type, bool keyed)
{
    asked found = {INT64_MAX, INT64_MAX, INT64_MAX};
    for (int i = 0; i < 20; i++) {
        answer a = {0};
        pawl_body body;
        pawl_claimed task;
        pawl_op op = insert_op(&body, "r", NULL);
        char key[32];
        snprintf(key, sizeof key, "%lld", (long long)op.id);
        if (keyed) body.key = key;
        body.type = type;
        int64_t from = statements();
        apply(s.race.quick, 0, 0, &op, &a);
        least(&found.put, from);
        from = statements();
        assert_int_equal(claim_of(s.race.quick, s.n, &task, 1, &a), 1);
        least(&found.claim, from);
        from = statements();
        end(s.race.quick, 0, 0, task.body->id, task.fence, &a);
        least(&found.end, from);
        assert_int_equal(a.result, PAWL_OP_DONE);
        pawl_body_free(alloc_default(), task.body);
    }
    return found;
}

static void limits_of_other_types_cost_nothing(void **state)
{
    (void)state;
    answer a = {0};
    set_scene(true);
    run_to_the_end();
    asked bare = life("u", false), bare_keyed = life("u", true);
    bound(s.race.quick, PAWL_SCOPE_TYPE, "t", 5, false, &a);
    bound(s.race.quick, PAWL_SCOPE_KEYS, "t", 2, false, &a);
    asked beside = life("u", false), beside_keyed = life("u", true), limited = life("t", false);
    assert_memory_equal(&beside, &bare, sizeof bare);
    assert_int_equal(beside_keyed.put, bare_keyed.put);
    assert_int_equal(beside_keyed.claim, bare_keyed.claim + 1); /* whether it has places of another type */
    assert_int_equal(beside_keyed.end, bare_keyed.end);
    assert_true(limited.put > bare.put && limited.claim > bare.claim && limited.end > bare.end);
    assert_true(limited.end < 2 * bare.end); /* it is known that there are places, so one try is enough */
}

/* ---- floods -------------------------------------------------------------------------------------------------------------- */

#define FLOOD 2000

static void flood(const char *tenant, const char *rate_key)
{
    static pawl_body bodies[FLOOD];
    static pawl_op ops[FLOOD], *each[FLOOD];
    pawl_error err;
    for (int i = 0; i < FLOOD; i++) {
        ops[i] = insert_op(&bodies[i], rate_key, NULL);
        bodies[i].tenant = tenant;
        each[i] = &ops[i];
    }
    pawl_arena *arena = arena_new(alloc_default(), 0);
    pawl_batch batch = {.ops = each, .count = FLOOD};
    assert_int_equal(s.race.quick->type->apply(s.race.quick, &batch, arena, &err), PAWL_OK);
    arena_free(arena);
}

/* How many claims of four it takes until this one comes. */
static int claims_until(pawl_id id)
{
    for (int n = 1; n < 100; n++) {
        answer a = {0};
        pawl_claimed tasks[4];
        bool found = false;
        claim_of(s.race.quick, s.n, tasks, 4, &a);
        for (int i = 0; i < a.got; i++) {
            found |= tasks[i].body->id == id;
            pawl_body_free(alloc_default(), tasks[i].body);
        }
        if (found) return n;
    }
    return 0;
}

/* What is blocked as it comes is in nobody's way; what a limit finds when it is put has to be met once. */
static void a_flood_of_one_key(void **state)
{
    (void)state;
    answer a = {0};
    pawl_id other;
    set_scene(false);
    flood("", "full");
    put(s.race.quick, "other", NULL, &other, &a);
    assert_int_equal(claims_until(other), 1);
    set_scene(true);
    flood("", "full");
    bound(s.race.quick, PAWL_SCOPE_KEYS, "t", 2, false, &a);
    put(s.race.quick, "other", NULL, &other, &a);
    assert_in_range(claims_until(other), 1, 2);
}

static void a_flood_of_one_tenant(void **state)
{
    (void)state;
    answer a = {0};
    pawl_body body;
    set_scene(true);
    bound(s.race.quick, PAWL_SCOPE_TENANTS, "q", 1, false, &a);
    flood("ann", "x");
    pawl_op op = insert_op(&body, "y", NULL);
    body.tenant = "bob";
    apply(s.race.quick, 0, 0, &op, &a);
    assert_in_range(claims_until(op.out_id), 1, 2);
}

static int64_t rows_read(const char *table)
{
    return my_bed_int(s.race.my,
                      "SELECT COALESCE(SUM(ROWS_READ), 0) FROM information_schema.TABLE_STATISTICS "
                      "WHERE TABLE_SCHEMA = DATABASE() AND TABLE_NAME = '%s'",
                      table);
}

static void put_of(const char *tenant)
{
    answer a = {0};
    pawl_body body;
    pawl_op op = insert_op(&body, "y", NULL);
    body.tenant = tenant;
    apply(s.race.quick, 0, 0, &op, &a);
}

/* Whoever goes from tenant to tenant, or from line to line, passes over what they have. */
static void a_flood_is_not_read(void **state)
{
    (void)state;
    answer a = {0};
    pawl_claimed task[1];
    my_bed_exec(s.race.my, "SET GLOBAL userstat = 1"); /* and it stays so: others may be counting */
    set_scene(true);
    bound(s.race.quick, PAWL_SCOPE_TENANTS, "q", 1, false, &a);
    const char *const tenants[] = {"ann", "bob", "cem", "dan", "eva"};
    for (int i = 0; i < 5; i++) put_of(tenants[i]);
    flood("bob", "x");
    flood("dan", "x");
    for (int i = 0; i < 5; i++) {
        int64_t before = rows_read("pawl_shared");
        claim_of(s.race.quick, s.n, task, 1, &a);
        assert_int_equal(a.got, 1);
        assert_string_equal(task->body->tenant, tenants[i]);
        pawl_body_free(alloc_default(), task->body);
        assert_in_range(rows_read("pawl_shared") - before, 1, 100);
    }

    set_scene(true);
    bound(s.race.quick, PAWL_SCOPE_QUEUE, "q", 3, false, &a); /* so many are leased */
    for (int i = 0; i < 5; i++) put_of(tenants[i]);
    flood("bob", "x");
    flood("dan", "x");
    int64_t before = rows_read("pawl_blocked");
    end(s.race.quick, s.h, 2, s.a, s.a_fence, &a);
    assert_true(a.unblocked);
    assert_in_range(rows_read("pawl_blocked") - before, 5, 100);
}

static int open_race(void **state)
{
    (void)state;
    s.next_id = 1000;
    race_open(&s.race, "places");
    return 0;
}

static int close_race(void **state)
{
    (void)state;
    race_close(&s.race);
    return 0;
}

/* With an argument, what counts the server's statements: alone, for those of others count as well. */
int main(int argc, char **argv)
{
    (void)argv;
    const struct CMUnitTest cost[] = {cmocka_unit_test(limits_of_other_types_cost_nothing)};
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_first_commits),
        cmocka_unit_test(the_first_limit),
        cmocka_unit_test(the_first_is_killed),
        cmocka_unit_test(a_lease_that_a_program_ended),
        cmocka_unit_test(a_task_that_a_program_replaced),
        cmocka_unit_test(a_lease_that_nobody_asks_about),
        cmocka_unit_test(a_flood_of_one_key),
        cmocka_unit_test(a_flood_of_one_tenant),
        cmocka_unit_test(a_flood_is_not_read),
    };
    if (argc > 1) return cmocka_run_group_tests(cost, open_race, close_race);
    return cmocka_run_group_tests(tests, open_race, close_race);
}
