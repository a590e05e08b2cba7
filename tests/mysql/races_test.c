/* Every two operations that can meet, in both orders, with the first one held at the door of its commit.
 *
 * Then the first one commits, or its session is killed, and everything that is stored must fit together (race.h).
 *
 * The scene: node H holds task T (key "K") and has lapsed; node R may rescue it; task P (key "P") is pending.
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
    int64_t h, r, renewal;
    pawl_id t, p, next_id;
    int64_t fence;
} scene;

static scene s;

typedef struct act act;
typedef struct answer {
    pawl_status status;
    pawl_op_result result; /* of an operation of a batch */
    pawl_state found;
    pawl_id id;
    int got;           /* claimed; granted; freed */
    bool has_t, has_p; /* among them */
    bool dead, refused;
    pawl_error err;
} answer;

struct act {
    const char *name;
    race_call run;
};

/* ---- operations ---------------------------------------------------------------------------------------------------------- */

static pawl_op insert_op(pawl_body *body, const char *key, bool ask)
{
    *body = (pawl_body){.id = __atomic_add_fetch(&s.next_id, 1, __ATOMIC_RELAXED),
                        .type = "t",
                        .queue = "q",
                        .tenant = "",
                        .key = key,
                        .content_type = "application/json"};
    pawl_op op = {.kind = PAWL_OP_INSERT, .id = body->id, .audit = PAWL_AUDIT_FULL};
    op.u.insert.body = body;
    op.u.insert.ask_lease = ask;
    return op;
}

static void apply(pawl_store *store, int64_t node, int lane, int64_t number, pawl_op *op, answer *a)
{
    pawl_arena *arena = arena_new(alloc_default(), 0);
    pawl_batch batch = {.node = node, .lane = lane, .number = number, .ops = &op, .count = 1};
    a->status = store->type->apply(store, &batch, arena, &a->err);
    a->result = op->result;
    a->found = op->out_state;
    a->id = op->out_id;
    a->got = op->out_fence > 0;
    a->dead = batch.node_dead;
    arena_free(arena);
}

static void claim_for(pawl_store *store, int64_t node, answer *a)
{
    pawl_claimed tasks[8];
    pawl_want want = {.queue = "q", .free = 8, .any_type = true, .solo = true};
    pawl_arena *arena = arena_new(alloc_default(), 0);
    pawl_claim call = {.node = node, .wants = &want, .wants_count = 1, .allocator = alloc_default(), .tasks = tasks};
    a->status = store->type->claim(store, &call, arena, &a->err);
    for (int i = 0; i < call.tasks_count; i++) {
        a->has_t |= tasks[i].body->id == s.t;
        a->has_p |= tasks[i].body->id == s.p;
        pawl_body_free(alloc_default(), tasks[i].body);
    }
    a->got = call.tasks_count;
    a->dead = call.news.node_dead;
    arena_free(arena);
}

static void do_claim(pawl_store *store, void *a) { claim_for(store, s.h, a); }
static void do_claim_too(pawl_store *store, void *a) { claim_for(store, s.r, a); }

static void do_born(pawl_store *store, void *a)
{
    pawl_body body;
    pawl_op op = insert_op(&body, NULL, true);
    apply(store, s.h, 1, 1, &op, a);
}

static void do_born_too(pawl_store *store, void *a)
{
    pawl_body body;
    pawl_op op = insert_op(&body, NULL, true);
    apply(store, s.r, 1, 1, &op, a);
}

static void do_finish(pawl_store *store, void *a)
{
    pawl_op op = {.kind = PAWL_OP_FINISH, .id = s.t, .fence = s.fence, .audit = PAWL_AUDIT_FULL};
    op.u.finish.to = PAWL_SUCCEEDED;
    op.u.finish.run =
        (pawl_execution){.outcome = PAWL_ATTEMPT_SUCCEEDED, .number = 1, .started_us = 1, .finished_us = 2, .progress = -1};
    apply(store, s.h, 0, 1, &op, a);
}

/* The same outcome, offered by another identity of the process. */
static void do_finish_too(pawl_store *store, void *a)
{
    pawl_op op = {.kind = PAWL_OP_FINISH, .id = s.t, .fence = s.fence, .audit = PAWL_AUDIT_FULL};
    op.u.finish.to = PAWL_FAILED;
    op.u.finish.run =
        (pawl_execution){.outcome = PAWL_ATTEMPT_FAILED, .number = 1, .started_us = 1, .finished_us = 2, .progress = -1};
    apply(store, s.r, 0, 1, &op, a);
}

static void do_rescue(pawl_store *store, void *out)
{
    answer *a = out;
    pawl_lease tasks[16];
    pawl_rescue call = {.node = s.r, .victim = s.h, .renewal = s.renewal, .counts = true, .limit = 16, .tasks = tasks};
    a->status = store->type->rescue(store, &call, &a->err);
    a->refused = call.refused;
    a->got = call.freed + call.failed;
    for (int i = 0; i < a->got; i++) a->has_t |= tasks[i].id == s.t;
}

static void do_renew(pawl_store *store, void *out)
{
    answer *a = out;
    pawl_renewal call = {.node = s.h};
    a->status = store->type->renew(store, &call, &a->err);
    a->dead = call.news.node_dead;
}

static void cancel_of(pawl_store *store, pawl_id id, answer *a)
{
    pawl_op op = {.kind = PAWL_OP_CANCEL, .id = id, .audit = PAWL_AUDIT_FULL, .by = "ann"};
    apply(store, 0, 0, 0, &op, a);
}

static void do_cancel(pawl_store *store, void *a) { cancel_of(store, s.t, a); }
static void do_cancel_pending(pawl_store *store, void *a) { cancel_of(store, s.p, a); }

static void keyed(pawl_store *store, const char *key, answer *a)
{
    pawl_body body;
    pawl_op op = insert_op(&body, key, false);
    apply(store, 0, 0, 0, &op, a);
}

static void do_keyed(pawl_store *store, void *a) { keyed(store, "K", a); }
static void do_keyed_pending(pawl_store *store, void *a) { keyed(store, "P", a); }
static void do_keyed_fresh(pawl_store *store, void *a) { keyed(store, "F", a); }

static const act claims = {"claim", do_claim}, claims_too = {"claim of another", do_claim_too}, born = {"born leased", do_born},
                 born_too = {"born leased elsewhere", do_born_too}, finish = {"finish", do_finish},
                 finish_too = {"another outcome", do_finish_too}, rescues = {"rescue", do_rescue}, renew = {"renew", do_renew},
                 cancel = {"cancel", do_cancel}, cancel_pending = {"cancel pending", do_cancel_pending},
                 by_key = {"keyed insert", do_keyed}, by_key_pending = {"keyed insert, pending", do_keyed_pending},
                 by_key_fresh = {"keyed insert, new", do_keyed_fresh};

/* ---- the scene ----------------------------------------------------------------------------------------------------------- */

static int64_t join(void)
{
    pawl_registration call = {.name = "n", .queues = "q", .types = "*", .lease_us = RACE_LEASE};
    assert_int_equal(s.race.quick->type->register_node(s.race.quick, &call, NULL), PAWL_OK);
    return call.node;
}

/* H gets T under a lease that then lapses. */
static void set_scene(void)
{
    answer a = {0};
    pawl_body body;
    my_bed_empty(s.race.database);
    s.h = join();
    s.r = join();
    pawl_op op = insert_op(&body, "K", false);
    s.t = body.id;
    apply(s.race.quick, 0, 0, 0, &op, &a);
    claim_for(s.race.quick, s.h, &a);
    assert_true(a.has_t);
    s.fence = 1;
    s.renewal = my_bed_int(s.race.my, "SELECT sum(renewal) FROM pawl_lane WHERE node = %lld", (long long)s.h);
    op = insert_op(&body, "P", false);
    s.p = body.id;
    apply(s.race.quick, 0, 0, 0, &op, &a);
    s.race.clock.now_us += RACE_LEASE;
    s.race.clock.boot_us += RACE_LEASE;
}

/* ---- what must fit together ---------------------------------------------------------------------------------------------- */

/* What the two answers may not be together. */
static void check_answers(const act *x, const answer *a, const act *y, const answer *b)
{
    const act *acts[] = {x, y};
    const answer *answers[] = {a, b};
    int ends = 0, given = 0;
    bool finished = false, rescued = false;
    for (int i = 0; i < 2; i++) {
        if (answers[i]->status != PAWL_OK) continue;
        if ((acts[i] == &finish || acts[i] == &finish_too) && answers[i]->result == PAWL_OP_DONE) ends++, finished = true;
        if (acts[i] == &rescues && answers[i]->has_t) rescued = true;
        if ((acts[i] == &claims || acts[i] == &claims_too) && answers[i]->has_p) given++;
        if (acts[i] == &cancel_pending && answers[i]->result == PAWL_OP_DONE) given++;
    }
    if (ends > 1) fail_msg("two outcomes were accepted");
    if (finished && rescued) fail_msg("the outcome was accepted and the task rescued");
    if (given > 1 && !(x == &cancel_pending && y == &cancel_pending)) fail_msg("the pending task was given twice");
    bool renewed = (x == &renew && a->status == PAWL_OK && !a->dead) || (y == &renew && b->status == PAWL_OK && !b->dead);
    int64_t alive = my_bed_int(s.race.my, "SELECT alive FROM pawl_node WHERE id = %lld", (long long)s.h);
    if (renewed && alive != 1) fail_msg("a node that renewed was declared dead");
}

/* ---- the run ------------------------------------------------------------------------------------------------------------- */

static void meet(const act *x, const act *y, bool kill)
{
    answer first = {0}, second = {0};
    set_scene();
    race_meet(&s.race, x->run, &first, y->run, &second, kill);
    if (!kill && first.status) fail_msg("%s: %s", x->name, first.err.message);
    if (second.status) fail_msg("%s: %s", y->name, second.err.message);
    race_check(&s.race);
    check_answers(x, &first, y, &second);
}

static const act *const pairs[][2] = {
    {&claims, &claims_too},
    {&claims, &born},
    {&claims, &finish},
    {&claims, &rescues},
    {&claims, &renew},
    {&claims, &cancel},
    {&claims, &by_key},
    {&born, &born_too},
    {&born, &finish},
    {&born, &rescues},
    {&born, &renew},
    {&born, &cancel},
    {&born, &by_key},
    {&finish, &finish_too},
    {&finish, &rescues},
    {&finish, &renew},
    {&finish, &cancel},
    {&finish, &by_key},
    {&rescues, &rescues},
    {&rescues, &renew},
    {&rescues, &cancel},
    {&rescues, &by_key},
    {&renew, &renew},
    {&renew, &cancel},
    {&renew, &by_key},
    {&cancel, &cancel},
    {&cancel, &by_key},
    {&by_key, &by_key},
    {&claims, &cancel_pending},
    {&claims, &by_key_pending},
    {&rescues, &claims_too},
    {&rescues, &born_too},
    {&cancel_pending, &by_key_pending},
    {&cancel_pending, &cancel_pending},
    {&by_key_pending, &by_key_pending},
    {&by_key_fresh, &by_key_fresh},
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
    race_open(&s.race, "races");
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
    return cmocka_run_group_tests_name("races", tests, set_up, tear_down);
}
