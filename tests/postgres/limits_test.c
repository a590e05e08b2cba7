/* Every two operations that meet at one budget, in both orders, with the first one held at the door of its commit (meet.h). When it has
 * committed, or its session was killed, no slot may have been given twice, and the budget must be what the slots say.
 *
 * The scene: one start per second, two at once, of type "t"; the virtual clock stands still. Of rate key "k" two were started; task P (key
 * "P") is pending and has the next slot, in one second. H has a lease on A, R one on B, neither with a slot; Q is due, and has none either.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/alloc.h"
#include "meet.h"
#include "store/store.h"

#define LEASE (30 * PAWL_SECOND)
#define S PAWL_SECOND
#define BURST 2
#define TAKEN 3 /* of the budget, before anything meets */

typedef struct answer {
    pawl_status status;
    pawl_op_result result;
    int64_t slot_us; /* it was told this one; 0: none */
    int got;         /* claimed */
} answer;

typedef struct act {
    const char *name;
    meet_fn *run;
    bool takes, changes; /* one slot; the limit */
} act;

static struct scene {
    meeting m;
    int64_t h, r;
    pawl_id a, b, p, next_id;
    int64_t a_fence, b_fence;
} s;

/* ---- operations ---------------------------------------------------------------------------------------------------------- */

static void apply(pawl_store *store, int64_t node, pawl_op *op, answer *a)
{
    static _Atomic int lanes;
    pawl_arena *arena = arena_new(alloc_default(), 0);
    pawl_batch batch = {.node = node, .lane = ++lanes, .number = 1, .ops = &op, .count = 1};
    a->status = store->type->apply(store, &batch, arena, NULL);
    a->result = op->result;
    arena_free(arena);
}

static pawl_op insert_op(pawl_body *body, const char *key, const char *rate_key, bool ask)
{
    *body = (pawl_body){.id = __atomic_add_fetch(&s.next_id, 1, __ATOMIC_RELAXED),
                        .type = "t",
                        .queue = "q",
                        .tenant = "",
                        .key = key,
                        .rate_key = pawl_str(rate_key),
                        .content_type = "application/json"};
    pawl_op op = {.kind = PAWL_OP_INSERT, .id = body->id, .audit = PAWL_AUDIT_FULL};
    op.u.insert.body = body;
    op.u.insert.ask_lease = ask;
    return op;
}

static void reserve(pawl_store *store, int64_t node, pawl_id id, int64_t fence, answer *a)
{
    pawl_op op = {.kind = PAWL_OP_RESERVE, .id = id, .fence = fence, .audit = PAWL_AUDIT_FULL};
    op.u.reserve.near_us = PAWL_HOUR;
    op.u.reserve.again = true;
    apply(store, node, &op, a);
    if (!a->status && op.result == PAWL_OP_DONE) a->slot_us = op.out_run_at_us;
}

static void do_reserve(pawl_store *store, void *a) { reserve(store, s.h, s.a, s.a_fence, a); }
static void do_reserve_too(pawl_store *store, void *a) { reserve(store, s.r, s.b, s.b_fence, a); }

static void born(pawl_store *store, int64_t node, answer *a)
{
    pawl_body body;
    pawl_op op = insert_op(&body, NULL, "k", true);
    apply(store, node, &op, a);
    if (!a->status && op.result == PAWL_OP_DONE) a->slot_us = op.out_run_at_us;
}

static void do_born(pawl_store *store, void *a) { born(store, s.h, a); }
static void do_born_too(pawl_store *store, void *a) { born(store, s.r, a); }

static void do_cancel(pawl_store *store, void *a)
{
    pawl_op op = {.kind = PAWL_OP_CANCEL, .id = s.p, .audit = PAWL_AUDIT_FULL};
    apply(store, 0, &op, a);
}

/* P has another body, of another rate key: its slot is free. */
static void do_replace(pawl_store *store, void *a)
{
    pawl_body body;
    pawl_op op = insert_op(&body, "P", "l", false);
    apply(store, 0, &op, a);
}

static void do_limit(pawl_store *store, void *a)
{
    pawl_op op = {.kind = PAWL_OP_LIMIT, .audit = PAWL_AUDIT_FULL};
    op.u.limit.type = "t";
    op.u.limit.rate = (pawl_rate){.permits = 1, .period_us = S, .burst = 5, .horizon_us = -1};
    op.u.limit.move = 1000;
    apply(store, 0, &op, a);
}

static void claim(pawl_store *store, int64_t node, answer *a)
{
    pawl_claimed tasks[8];
    pawl_want want = {.queue = "q", .free = 8, .any_type = true};
    pawl_arena *arena = arena_new(alloc_default(), 0);
    pawl_claim call = {.node = node, .wants = &want, .wants_count = 1, .allocator = alloc_default(), .tasks = tasks};
    a->status = store->type->claim(store, &call, arena, NULL);
    for (int i = 0; i < call.tasks_count; i++) {
        if (!tasks[i].limited) fail_msg("a task was given as if it had no limit");
        pawl_body_free(alloc_default(), tasks[i].body);
    }
    a->got = a->status ? 0 : call.tasks_count;
    arena_free(arena);
}

static void do_claim(pawl_store *store, void *a) { claim(store, s.h, a); }
static void do_claim_too(pawl_store *store, void *a) { claim(store, s.r, a); }

static void do_sweep(pawl_store *store, void *out)
{
    answer *a = out;
    pawl_sweep call = {-1, -1, -1, -1, -1, -1, .limit = 100};
    a->status = store->type->sweep(store, &call, NULL);
}

static const act reserves = {"reserve", do_reserve, .takes = true},
                 reserves_too = {"reserve of another", do_reserve_too, .takes = true},
                 borns = {"born leased", do_born, .takes = true},
                 borns_too = {"born leased elsewhere", do_born_too, .takes = true},
                 cancels = {"cancel", do_cancel, .takes = false}, replaces = {"another body", do_replace, .takes = false},
                 claims = {"claim", do_claim, .takes = false}, claims_too = {"claim of another", do_claim_too, .takes = false},
                 limits = {"another limit", do_limit, .changes = true};

/* ---- the scene ----------------------------------------------------------------------------------------------------------- */

static int64_t join(void)
{
    pawl_registration call = {.name = "n", .queues = "q", .types = "*", .lease_us = LEASE};
    assert_int_equal(s.m.quick->type->register_node(s.m.quick, &call, NULL), PAWL_OK);
    return call.node;
}

/* Born leased while there was no limit, so without a slot. */
static pawl_id lease(int64_t node, int64_t *fence)
{
    answer a = {0};
    pawl_body body;
    pawl_op op = insert_op(&body, NULL, "k", true);
    apply(s.m.quick, node, &op, &a);
    assert_true(op.out_fence > 0);
    *fence = op.out_fence;
    return body.id;
}

static void set_scene(void)
{
    answer a = {0};
    pawl_body body;
    bed_empty(s.m.schema);
    s.h = join();
    s.r = join();
    s.a = lease(s.h, &s.a_fence);
    s.b = lease(s.r, &s.b_fence);
    pawl_op op = insert_op(&body, NULL, "k", false);
    apply(s.m.quick, 0, &op, &a);
    op = (pawl_op){.kind = PAWL_OP_LIMIT, .audit = PAWL_AUDIT_FULL};
    op.u.limit.type = "t";
    op.u.limit.rate = (pawl_rate){.permits = 1, .period_us = S, .burst = BURST, .horizon_us = -1};
    apply(s.m.quick, 0, &op, &a);
    for (int i = 0; i < BURST; i++) born(s.m.quick, s.h, &a);
    op = insert_op(&body, "P", "k", false);
    s.p = body.id;
    apply(s.m.quick, 0, &op, &a);
    assert_int_equal(op.out_run_at_us, s.m.clock.now_us + S);
}

/* ---- what must hold ------------------------------------------------------------------------------------------------------ */

static void check_nothing(const char *what, const char *sql)
{
    int64_t n = bed_int(s.m.pg, "SELECT count(*) FROM (%s) x", sql);
    if (n) fail_msg("%lld times: %s", (long long)n, what);
}

/* Slots of the key that tasks have now: of those told, and what is stored. */
static void check_slots(const act *x, const answer *a, const act *y, const answer *b)
{
    int64_t now_us = s.m.clock.now_us, slots[3], last_us = 0;
    int64_t taken = (bed_int(s.m.pg, "SELECT tat_us FROM pawl_budget WHERE key = 'k'") - now_us) / S;
    int takes = (x->takes && !a->status) + (y->takes && !b->status), count = 0;
    if (x->takes && a->slot_us > now_us) slots[count++] = a->slot_us;
    if (y->takes && b->slot_us > now_us) slots[count++] = b->slot_us;
    if (bed_int(s.m.pg, "SELECT count(*) FROM pawl_slotted WHERE task_id = %lld", (long long)s.p))
        slots[count++] = bed_int(s.m.pg, "SELECT run_at_us FROM pawl_live WHERE id = %lld", (long long)s.p);
    for (int i = 0; i < count; i++) {
        if (slots[i] > last_us) last_us = slots[i];
        for (int k = 0; k < i; k++)
            if (slots[i] == slots[k]) fail_msg("a slot was given twice");
    }
    if (taken > TAKEN + takes || taken < TAKEN + takes - 1) fail_msg("%lld slots are taken", (long long)taken);
    if (last_us > now_us + (taken - BURST) * S) fail_msg("the last slot is one that the budget would give again");
}

static void check_store(void)
{
    check_nothing("a slot without a pending task",
                  "SELECT FROM pawl_slotted s WHERE NOT EXISTS (SELECT FROM pawl_live WHERE id = s.task_id)");
    check_nothing("a slot without a budget",
                  "SELECT FROM pawl_slotted s WHERE NOT EXISTS (SELECT FROM pawl_budget WHERE id = s.budget_id)");
    check_nothing("leases counted wrong",
                  "SELECT n.id FROM pawl_node n WHERE (SELECT coalesce(sum(leases), 0) FROM pawl_lane WHERE node = n.id) "
                  "<> (SELECT count(*) FROM pawl_leased WHERE node = n.id)");
}

/* ---- the run ------------------------------------------------------------------------------------------------------------- */

static void meet(const act *x, const act *y, bool kill)
{
    answer first = {0}, second = {0}, after = {0};
    set_scene();
    meet_run(&s.m, x->run, &first, y->run, &second, kill);
    if (!kill && first.status) fail_msg("%s: status %d", x->name, (int)first.status);
    if (second.status) fail_msg("%s: status %d", y->name, (int)second.status);
    check_store();
    if (!x->changes && !y->changes) {
        if (first.got + second.got > 1) fail_msg("a task was given twice");
        check_slots(x, &first, y, &second);
        return;
    }
    bool changed = (x->changes && !first.status) || (y->changes && !second.status);
    born(s.m.quick, s.r, &after); /* by whichever limit is in force now; of the larger burst there is something left */
    if ((after.slot_us == s.m.clock.now_us) != changed)
        fail_msg("counted by the wrong limit: a slot in %lld us", (long long)(after.slot_us - s.m.clock.now_us));
}

static const act *const pairs[][2] = {
    {&claims, &claims_too}, {&reserves, &reserves_too}, {&reserves, &borns_too},  {&borns, &borns_too},
    {&reserves, &cancels},  {&borns, &cancels},         {&reserves, &replaces},   {&borns, &replaces},
    {&cancels, &replaces},  {&claims, &cancels},        {&claims, &reserves_too}, {&limits, &reserves},
    {&limits, &borns},      {&limits, &claims},         {&limits, &cancels},      {&limits, &limits},
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

/* Whoever waits for a budget that is swept as idle makes it anew. */
static void an_idle_budget_goes(void **state)
{
    (void)state;
    for (int turn = 0; turn < 2; turn++) {
        answer swept = {0}, reserved = {0};
        set_scene();
        do_cancel(s.m.quick, &swept);
        s.m.clock.now_us += 2 * PAWL_HOUR;
        if (turn) meet_run(&s.m, do_sweep, &swept, do_reserve, &reserved, false);
        else meet_run(&s.m, do_reserve, &reserved, do_sweep, &swept, false);
        assert_true(!swept.status && !reserved.status && reserved.slot_us == s.m.clock.now_us);
        assert_int_equal(
            bed_int(s.m.pg, "SELECT count(*) FROM pawl_budget WHERE key = 'k' AND tat_us > %lld", (long long)s.m.clock.now_us),
            1);
    }
}

/* Those that are due of a key without budget are not leased one by one: some that ask in vain take the others along. */
static void a_flood_is_moved_along(void **state)
{
    enum { FLOOD = 150, ASK = 10, ALONG = 60, MOVED = ASK + ALONG - 1 }; /* ALONG: are looked at */
    answer a = {0};
    pawl_body body;
    pawl_op ops[ASK] = {0}, *each[ASK];
    pawl_claimed tasks[ASK];
    pawl_want want = {.queue = "q", .free = ASK, .any_type = true};
    pawl_arena *arena = arena_new(alloc_default(), 0);
    (void)state;
    set_scene();
    bed_exec(s.m.pg, "DELETE FROM pawl_live; DELETE FROM pawl_slotted");
    for (int i = 0; i < FLOOD; i++) {
        pawl_op op = insert_op(&body, NULL, i == ASK + ALONG / 2 ? "other" : "k", false);
        op.u.insert.delay_us = 1000; /* due later, so it takes nothing now */
        apply(s.m.quick, 0, &op, &a);
    }
    s.m.clock.now_us += 1000;
    pawl_claim call = {.node = s.h, .wants = &want, .wants_count = 1, .allocator = alloc_default(), .tasks = tasks};
    assert_int_equal(s.m.quick->type->claim(s.m.quick, &call, arena, NULL), PAWL_OK);
    assert_int_equal(call.tasks_count, ASK);
    for (int i = 0; i < ASK; i++) {
        ops[i] = (pawl_op){.kind = PAWL_OP_RESERVE, .id = tasks[i].body->id, .fence = tasks[i].fence, .audit = PAWL_AUDIT_FULL};
        each[i] = &ops[i];
        pawl_body_free(alloc_default(), tasks[i].body);
    }
    pawl_batch batch = {.node = s.h, .lane = 1000, .number = 1, .ops = each, .count = ASK};
    assert_int_equal(s.m.quick->type->apply(s.m.quick, &batch, arena, NULL), PAWL_OK);
    arena_free(arena);
    for (int i = 0; i < ASK; i++) assert_int_equal(ops[i].result, PAWL_OP_MOVED);
    assert_int_equal(bed_int(s.m.pg, "SELECT count(*) FROM pawl_slotted"), MOVED);
    assert_int_equal(
        bed_int(s.m.pg, "SELECT count(DISTINCT run_at_us) FROM pawl_live WHERE run_at_us > %lld", (long long)s.m.clock.now_us),
        MOVED);
    assert_int_equal(bed_int(s.m.pg, "SELECT count(*) FROM pawl_live WHERE run_at_us <= %lld", (long long)s.m.clock.now_us),
                     FLOOD - MOVED);
    int64_t first_us =
        bed_int(s.m.pg, "SELECT min(run_at_us) FROM pawl_live WHERE run_at_us > %lld", (long long)s.m.clock.now_us);
    assert_int_equal(bed_int(s.m.pg, "SELECT max(run_at_us) FROM pawl_live"), first_us + (MOVED - 1) * S);
    assert_int_equal(bed_int(s.m.pg, "SELECT tat_us FROM pawl_budget WHERE key = 'k'"), first_us + (MOVED - 1 + BURST) * S);
}

/* What a claim looks at, in the index of what is due and among the slots. Called by SQL, in a session whose plans have been made. */
static int64_t read_by_a_claim(int wanted)
{
    const char *const read = "SELECT pg_stat_get_xact_tuples_returned('pawl_ready'::regclass)"
                             " + pg_stat_get_xact_tuples_returned('pawl_slotted_pkey'::regclass)";
    bed_exec(s.m.pg, "BEGIN");
    int64_t before = bed_int(s.m.pg, "%s", read);
    assert_int_equal(
        bed_int(s.m.pg,
                "SELECT count(id) FROM pawl_claim(ARRAY[%lld], NULL, NULL, %lld, false, ARRAY(SELECT id FROM pawl_name"
                " WHERE text = 'q'), '{4}', '{4}', '{f}', '{t}', '{}', '{}', '{}', '{}', '{}')",
                (long long)s.m.clock.now_us, (long long)s.h),
        wanted);
    int64_t entries = bed_int(s.m.pg, "%s", read) - before;
    bed_exec(s.m.pg, "ROLLBACK");
    return entries;
}

/* Others are found beside however many that are due and must wait, and that have their slots already. */
static void a_flood_costs_claims_little(void **state)
{
    enum { FLOOD = 1500 };
    answer a = {0};
    pawl_body body;
    (void)state;
    set_scene();
    for (int i = 0; i < FLOOD; i++) {
        pawl_op op = insert_op(&body, NULL, i < FLOOD - 1 ? "k" : "other", false);
        if (i % 2) body.type = "u";
        if (i == 2) read_by_a_claim(2); /* so few that any plan will do */
        op.u.insert.delay_us = i < 2 ? 0 : 1000;
        apply(s.m.quick, 0, &op, &a);
    }
    bed_exec(s.m.pg, "INSERT INTO pawl_slotted (task_id, budget_id, epoch)"
                     " SELECT i, (SELECT min(id) FROM pawl_budget), 1 FROM generate_series(1, 3000) i");
    s.m.clock.now_us += 1000;
    assert_in_range(read_by_a_claim(8), 8, 300);
}

static int64_t pages_of_limits(const char *from, int wanted)
{
    const char *const fetched =
        "SELECT pg_stat_get_xact_blocks_fetched('pawl_budget'::regclass) + pg_stat_get_xact_blocks_fetched("
        "'pawl_limit'::regclass)";
    bed_exec(s.m.pg, "BEGIN");
    int64_t before = bed_int(s.m.pg, "%s", fetched);
    assert_int_equal(bed_int(s.m.pg, "SELECT count(*) FROM pawl_limits(NULL, %s)", from), wanted);
    int64_t pages = bed_int(s.m.pg, "%s", fetched) - before;
    bed_exec(s.m.pg, "ROLLBACK");
    return pages;
}

/* A key is looked up, and a page begins where the last one ended, among however many budgets. */
static void others_are_not_read(void **state)
{
    (void)state;
    set_scene();
    bed_exec(s.m.pg,
             "INSERT INTO pawl_budget (type_id, key, tat_us, tat_part, permits, period_us, burst, seen_us, epoch, last_id,"
             "last_slot_us) SELECT (SELECT min(type_id) FROM pawl_limit), convert_to(i::text, 'UTF8'), 1, 0, 1, 1000000, 1, 1, 1,"
             "0, 0 FROM generate_series(100000, 109999) i");
    assert_in_range(pages_of_limits("'', NULL, NULL, '105000', false, 100", 1), 1, 30);
    assert_in_range(pages_of_limits("'', NULL, 't', 'nobody', false, 100", 0), 1, 30);
    assert_in_range(pages_of_limits("'t', '109000', NULL, NULL, false, 10", 10), 10, 200);
}

static int set_up(void **state)
{
    (void)state;
    meet_open(&s.m, "limits", LEASE);
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
        cmocka_unit_test(the_first_commits),           cmocka_unit_test(the_first_is_killed),
        cmocka_unit_test(an_idle_budget_goes),         cmocka_unit_test(a_flood_is_moved_along),
        cmocka_unit_test(a_flood_costs_claims_little), cmocka_unit_test(others_are_not_read)};
    if (!bed_there(false)) return BED_SKIP;
    return cmocka_run_group_tests_name("limits", tests, set_up, tear_down);
}
