/* Every two operations that meet at the same spots, in both orders, with the first one held at the door of its commit (meet.h). When it has
 * committed, or its session was killed, everybody who runs has its places, nobody else has one, and nobody is blocked beside a free one;
 * and whatever is left can be run to its end.
 *
 * The scene: of type "t" two tasks of a rate key may run, of key "l" one. H has a lease on A, and V, which has lapsed, one on B, both of key "k":
 * X (key "X") and Y are blocked. P (key "P") and Q, of key "l", are ready. Of type "o" the tasks of key "k" run in their order: F is first and
 * ready, G is blocked behind it. Of type "s" one may run, which H does, and nobody is blocked. All are in queue "q", where five may run.
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

typedef struct answer {
    pawl_status status;
    int got; /* claimed */
    bool unblocked;
} answer;

typedef struct act {
    const char *name;
    meet_fn *run;
} act;

static struct scene {
    meeting m;
    int64_t h, v, r, renewal;
    pawl_id a, b, x, p, f, next_id;
    pawl_id alone;
    int64_t a_fence, b_fence, alone_fence;
    bool unlimited; /* what asks for a lease may get one at birth */
} s;

/* ---- operations ---------------------------------------------------------------------------------------------------------- */

static void apply(pawl_store *store, int64_t node, pawl_op *op, answer *a)
{
    static _Atomic int lanes;
    pawl_arena *arena = arena_new(alloc_default(), 0);
    pawl_batch batch = {.node = node, .lane = ++lanes, .number = 1, .ops = &op, .count = 1};
    a->status = store->type->apply(store, &batch, arena, NULL);
    a->unblocked = batch.unblocked;
    arena_free(arena);
}

static pawl_id insert(pawl_store *store, int64_t node, const char *type, const char *key, const char *rate_key, answer *a)
{
    pawl_body body = {.id = __atomic_add_fetch(&s.next_id, 1, __ATOMIC_RELAXED),
                      .type = type,
                      .queue = "q",
                      .tenant = "",
                      .key = key,
                      .rate_key = pawl_str(rate_key),
                      .content_type = "application/json"};
    pawl_op op = {.kind = PAWL_OP_INSERT, .id = body.id, .audit = PAWL_AUDIT_FULL};
    op.u.insert.body = &body;
    op.u.insert.ask_lease = node != 0;
    apply(store, node, &op, a);
    if (op.out_fence && !s.unlimited) fail_msg("born leased under a limit");
    return body.id;
}

static void do_insert(pawl_store *store, void *a) { insert(store, 0, "t", NULL, "k", a); }
static void do_insert_asking(pawl_store *store, void *a) { insert(store, s.h, "t", NULL, "l", a); }
static void do_insert_ordered(pawl_store *store, void *a) { insert(store, 0, "o", NULL, "k", a); }
static void do_insert_alone(pawl_store *store, void *a) { insert(store, 0, "s", NULL, NULL, a); }
static void do_replace(pawl_store *store, void *a) { insert(store, 0, "t", "X", "l", a); }

static void finish_lease(pawl_store *store, int64_t node, pawl_id id, int64_t fence, answer *a)
{
    pawl_op op = {.kind = PAWL_OP_FINISH, .id = id, .fence = fence, .audit = PAWL_AUDIT_FULL};
    op.u.finish.to = PAWL_SUCCEEDED;
    op.u.finish.run =
        (pawl_execution){.outcome = PAWL_ATTEMPT_SUCCEEDED, .number = 1, .started_us = 1, .finished_us = 2, .progress = -1};
    apply(store, node, &op, a);
}

static void do_finish(pawl_store *store, void *a) { finish_lease(store, s.h, s.a, s.a_fence, a); }
static void do_finish_lapsed(pawl_store *store, void *a) { finish_lease(store, s.v, s.b, s.b_fence, a); }

static void do_finish_alone(pawl_store *store, void *a) { finish_lease(store, s.h, s.alone, s.alone_fence, a); }

static void do_release(pawl_store *store, void *a)
{
    pawl_op op = {.kind = PAWL_OP_RELEASE, .id = s.a, .fence = s.a_fence, .audit = PAWL_AUDIT_FULL};
    op.u.release.delay_us = -1;
    op.u.release.run.progress = -1;
    apply(store, s.h, &op, a);
}

static void cancel_task(pawl_store *store, pawl_id id, answer *a)
{
    pawl_op op = {.kind = PAWL_OP_CANCEL, .id = id, .audit = PAWL_AUDIT_FULL};
    apply(store, 0, &op, a);
}

static void do_cancel_blocked(pawl_store *store, void *a) { cancel_task(store, s.x, a); }
static void do_cancel_ready(pawl_store *store, void *a) { cancel_task(store, s.p, a); }
static void do_cancel_first(pawl_store *store, void *a) { cancel_task(store, s.f, a); }

static void put_bound(pawl_store *store, pawl_scope scope, const char *name, const char *key, int most, bool ordered, answer *a)
{
    pawl_op op = {.kind = PAWL_OP_BOUND, .audit = PAWL_AUDIT_FULL};
    op.u.bound.scope = scope;
    op.u.bound.name = name;
    op.u.bound.key = pawl_str(key);
    op.u.bound.most = most;
    op.u.bound.ordered = ordered;
    op.u.bound.move = 1000;
    apply(store, 0, &op, a);
}

static void do_raise(pawl_store *store, void *a) { put_bound(store, PAWL_SCOPE_KEYS, "t", "k", 3, false, a); }
static void do_lower(pawl_store *store, void *a) { put_bound(store, PAWL_SCOPE_KEYS, "t", NULL, 1, false, a); }
static void do_drop(pawl_store *store, void *a) { put_bound(store, PAWL_SCOPE_KEYS, "t", NULL, 0, false, a); }
static void do_another(pawl_store *store, void *a) { put_bound(store, PAWL_SCOPE_TYPE, "t", NULL, 3, false, a); }
static void do_turns(pawl_store *store, void *a) { put_bound(store, PAWL_SCOPE_TENANTS, "q", NULL, 1, false, a); }

static void claim(pawl_store *store, int64_t node, int free, answer *a)
{
    pawl_claimed tasks[8];
    pawl_want want = {.queue = "q", .free = free, .any_type = true, .solo = true};
    pawl_arena *arena = arena_new(alloc_default(), 0);
    pawl_claim call = {.node = node, .wants = &want, .wants_count = 1, .allocator = alloc_default(), .tasks = tasks};
    a->status = store->type->claim(store, &call, arena, NULL);
    for (int i = 0; i < call.tasks_count; i++) pawl_body_free(alloc_default(), tasks[i].body);
    a->got = a->status ? 0 : call.tasks_count;
    a->unblocked = call.news.unblocked || want.more;
    arena_free(arena);
}

static void do_claim(pawl_store *store, void *a) { claim(store, s.h, 8, a); }
static void do_claim_too(pawl_store *store, void *a) { claim(store, s.r, 8, a); }
static void do_claim_one(pawl_store *store, void *a) { claim(store, s.h, 1, a); }
static void do_claim_one_too(pawl_store *store, void *a) { claim(store, s.r, 1, a); }

static void do_rescue(pawl_store *store, void *out)
{
    answer *a = out;
    pawl_lease tasks[16];
    pawl_rescue call = {.node = s.r, .victim = s.v, .renewal = s.renewal, .counts = true, .limit = 16, .tasks = tasks};
    a->status = store->type->rescue(store, &call, NULL);
}

static void do_sweep(pawl_store *store, void *out)
{
    answer *a = out;
    pawl_sweep call = {-1, -1, -1, -1, -1, -1, .limit = 100};
    a->status = store->type->sweep(store, &call, NULL);
}

static const act claims = {"claim", do_claim}, claims_too = {"claim of another", do_claim_too},
                 claims_one = {"claim of one", do_claim_one}, claims_one_too = {"claim of one by another", do_claim_one_too},
                 finishes_alone = {"finish of the only one", do_finish_alone},
                 inserts_alone = {"insert beside one", do_insert_alone}, finishes = {"finish", do_finish},
                 finishes_lapsed = {"finish of one that lapsed", do_finish_lapsed}, releases = {"release", do_release},
                 rescues = {"rescue", do_rescue}, cancels = {"cancel of a blocked one", do_cancel_blocked},
                 cancels_ready = {"cancel of a ready one", do_cancel_ready},
                 cancels_first = {"cancel of the first", do_cancel_first}, inserts = {"insert", do_insert},
                 asks = {"insert that asks for a lease", do_insert_asking},
                 inserts_ordered = {"insert into a line", do_insert_ordered}, replaces = {"another body", do_replace},
                 raises = {"a higher limit", do_raise}, lowers = {"a lower limit", do_lower}, drops = {"no limit", do_drop},
                 bounds = {"another limit", do_another}, turns = {"turns", do_turns}, sweeps = {"sweep", do_sweep};

/* ---- the scene ----------------------------------------------------------------------------------------------------------- */

static int64_t join(void)
{
    pawl_registration call = {.name = "n", .queues = "q", .types = "*", .lease_us = LEASE};
    assert_int_equal(s.m.quick->type->register_node(s.m.quick, &call, NULL), PAWL_OK);
    return call.node;
}

static pawl_id lease(int64_t node, const char *type, const char *rate_key, int64_t *fence)
{
    answer a = {0};
    pawl_id id = insert(s.m.quick, 0, type, NULL, rate_key, &a);
    claim(s.m.quick, node, 8, &a);
    assert_int_equal(a.got, 1);
    *fence = bed_int(s.m.pg, "SELECT fence FROM pawl_leased WHERE id = %lld", (long long)id);
    return id;
}

static void set_scene(void)
{
    answer a = {0};
    pawl_store *quick = s.m.quick;
    bed_empty(s.m.schema);
    s.h = join();
    s.r = join();
    s.v = join();
    put_bound(quick, PAWL_SCOPE_KEYS, "t", NULL, 2, false, &a);
    put_bound(quick, PAWL_SCOPE_KEYS, "t", "l", 1, false, &a);
    put_bound(quick, PAWL_SCOPE_KEYS, "o", NULL, 1, true, &a);
    put_bound(quick, PAWL_SCOPE_QUEUE, "q", NULL, 5, false, &a);
    put_bound(quick, PAWL_SCOPE_TYPE, "s", NULL, 1, false, &a);
    s.b = lease(s.v, "t", "k", &s.b_fence);
    s.m.clock.now_us += LEASE + S;
    s.m.clock.boot_us += LEASE + S;
    s.renewal = bed_int(s.m.pg, "SELECT sum(renewal) FROM pawl_lane WHERE node = %lld", (long long)s.v);
    s.a = lease(s.h, "t", "k", &s.a_fence);
    s.alone = lease(s.h, "s", NULL, &s.alone_fence);
    int64_t fence;
    pawl_id before = lease(s.h, "t", "l", &fence);
    finish_lease(quick, s.h, before, fence, &a); /* so there is a row of its spot */
    s.x = insert(quick, 0, "t", "X", "k", &a);
    insert(quick, 0, "t", NULL, "k", &a);
    assert_int_equal(bed_int(s.m.pg, "SELECT count(*) FROM pawl_blocked"), 2);
    s.p = insert(quick, 0, "t", "P", "l", &a);
    insert(quick, 0, "t", NULL, "l", &a);
    s.f = insert(quick, 0, "o", NULL, "k", &a);
    insert(quick, 0, "o", NULL, "k", &a);
    assert_int_equal(bed_int(s.m.pg, "SELECT count(*) FROM pawl_blocked"), 3);
}

/* ---- what must hold ------------------------------------------------------------------------------------------------------ */

static void check_nothing(const char *what, const char *sql)
{
    int64_t n = bed_int(s.m.pg, "SELECT count(*) FROM (%s) x", sql);
    if (n) fail_msg("%lld times: %s", (long long)n, what);
}

static void check_store(void)
{
    check_nothing(
        "a place of nobody who runs",
        "SELECT FROM pawl_place p JOIN pawl_spot s ON s.id = p.spot_id WHERE NOT EXISTS (SELECT FROM pawl_leased WHERE id = p.task_id) "
        "AND NOT EXISTS (SELECT FROM pawl_live v, pawl_bound_for(s.scope, s.name_id, s.key) b WHERE v.id = p.task_id AND b.ordered)");
    check_nothing("runs without a place",
                  "SELECT FROM pawl_leased l, pawl_wants_of(ARRAY[l.id]) w, unnest(w.scope, w.name, w.key) u (scope, name, key) "
                  "WHERE NOT EXISTS (SELECT FROM pawl_place p JOIN pawl_spot s ON s.id = p.spot_id WHERE p.task_id = l.id "
                  "AND s.scope = u.scope AND s.name_id = u.name AND s.key = u.key)");
    check_nothing("neither ready nor in a line",
                  "SELECT FROM pawl_live v WHERE v.blocked <> (EXISTS (SELECT FROM pawl_blocked WHERE task_id = v.id) OR "
                  "EXISTS (SELECT FROM pawl_shared WHERE task_id = v.id))");
    check_nothing("in a line, but not pending", "SELECT task_id FROM pawl_blocked EXCEPT SELECT id FROM pawl_live UNION ALL "
                                                "(SELECT task_id FROM pawl_shared EXCEPT SELECT id FROM pawl_live) UNION ALL "
                                                "(SELECT task_id FROM pawl_shared INTERSECT SELECT task_id FROM pawl_blocked)");
    check_nothing(
        "blocked beside a free place",
        "SELECT FROM pawl_spot s LEFT JOIN LATERAL pawl_bound_for(s.scope, s.name_id, s.key) b ON true WHERE s.scope = 3 "
        "AND EXISTS (SELECT FROM pawl_blocked k WHERE k.spot_id = s.id) "
        "AND coalesce(b.most, 1000) > (SELECT count(*) FROM pawl_place p WHERE p.spot_id = s.id) "
        "AND NOT EXISTS (SELECT FROM pawl_live v JOIN pawl_body y USING (id) WHERE v.type_id = s.name_id AND y.rate_key = s.key "
        "AND NOT EXISTS (SELECT FROM pawl_blocked k WHERE k.task_id = v.id))");
    check_nothing("leases counted wrong",
                  "SELECT n.id FROM pawl_node n WHERE (SELECT coalesce(sum(leases), 0) FROM pawl_lane WHERE node = n.id) "
                  "<> (SELECT count(*) FROM pawl_leased WHERE node = n.id)");
}

static void check_counts(bool lowered)
{
    if (lowered) return;
    check_nothing("more places than there are", "SELECT FROM pawl_spot s, pawl_bound_for(s.scope, s.name_id, s.key) b "
                                                "WHERE b.most < (SELECT count(*) FROM pawl_place p WHERE p.spot_id = s.id)");
}

static void finish_all(void)
{
    answer a = {0};
    for (;;) {
        pawl_id id = bed_int(s.m.pg, "SELECT coalesce(min(id), 0) FROM pawl_leased");
        if (!id) return;
        finish_lease(s.m.quick, 0, id, bed_int(s.m.pg, "SELECT fence FROM pawl_leased WHERE id = %lld", (long long)id), &a);
        assert_int_equal(a.status, PAWL_OK);
    }
}

static void drain(bool lowered)
{
    answer a = {0};
    int tries = 0;
    do {
        finish_all();
        claim(s.m.quick, s.h, 8, &a);
        assert_int_equal(a.status, PAWL_OK);
        check_counts(lowered);
    } while ((a.got > 0 || a.unblocked) && ++tries < 50);
    int64_t left = bed_int(s.m.pg, "SELECT count(*) FROM pawl_live");
    if (left) fail_msg("%lld tasks are left, and nobody gets them", (long long)left);
    check_store();
    check_nothing("a place when all has ended", "SELECT FROM pawl_place");
}

/* ---- the run ------------------------------------------------------------------------------------------------------------- */

static void meet(const act *x, const act *y, bool kill)
{
    answer first = {0}, second = {0};
    bool lowered = x == &lowers || y == &lowers;
    set_scene();
    meet_run(&s.m, x->run, &first, y->run, &second, kill);
    if (!kill && first.status) fail_msg("%s: status %d", x->name, (int)first.status);
    if (second.status) fail_msg("%s: status %d", y->name, (int)second.status);
    check_store();
    check_counts(lowered);
    drain(lowered);
}

static const act *const pairs[][2] = {
    {&claims_one, &claims_one_too},
    {&claims, &claims_too},
    {&finishes_alone, &inserts_alone},
    {&finishes_alone, &claims},
    {&finishes, &claims},
    {&finishes, &finishes_lapsed},
    {&releases, &claims_too},
    {&rescues, &claims},
    {&rescues, &finishes},
    {&rescues, &finishes_lapsed},
    {&finishes, &inserts},
    {&finishes, &cancels},
    {&finishes, &replaces},
    {&cancels, &claims},
    {&cancels_ready, &claims},
    {&cancels_first, &claims},
    {&asks, &claims_too},
    {&inserts, &cancels},
    {&inserts_ordered, &cancels_first},
    {&inserts_ordered, &claims},
    {&raises, &claims},
    {&raises, &finishes},
    {&raises, &inserts},
    {&lowers, &claims},
    {&lowers, &finishes},
    {&drops, &claims},
    {&drops, &finishes},
    {&drops, &inserts},
    {&drops, &cancels},
    {&bounds, &claims},
    {&bounds, &finishes},
    {&bounds, &rescues},
    {&turns, &claims},
    {&turns, &inserts},
    {&turns, &finishes},
    {&sweeps, &finishes},
    {&sweeps, &claims},
    {&sweeps, &inserts},
    {&raises, &lowers},
};

static void all_pairs(bool kill)
{
    for (size_t i = 0; i < sizeof pairs / sizeof *pairs; i += kill ? 3 : 1) {
        for (int turn = 0; turn < (kill ? 1 : 2); turn++) { /* whoever is killed did nothing */
            const act *x = pairs[i][turn], *y = pairs[i][!turn];
            print_message("%s, then %s%s\n", x->name, y->name, kill ? ", killed" : "");
            meet(x, y, kill);
        }
    }
}

static void the_first_commits(void **state)
{
    (void)state;
    all_pairs(false);
}

static void the_first_is_killed(void **state)
{
    (void)state;
    all_pairs(true);
}

/* A limit comes while tasks of the type run, the first of all or beside one of another type: what ends without having seen it finds out, and is
 * made again. No place stays behind, and nobody runs without one.
 */
static void the_first_bound(void **state)
{
    static const act *const others[] = {&finishes, &releases, &rescues, &claims, &claims_one, &asks};
    (void)state;
    s.unlimited = true;
    for (size_t i = 0; i < 4 * sizeof others / sizeof *others; i++) {
        const act *x = others[i / 4];
        answer a = {0}, b = {0};
        bed_empty(s.m.schema);
        s.h = join();
        s.r = join();
        s.v = join();
        if (i & 2) put_bound(s.m.quick, PAWL_SCOPE_TYPE, "s", NULL, 1, false, &a);
        s.b = lease(s.v, "t", "k", &s.b_fence);
        s.renewal = bed_int(s.m.pg, "SELECT sum(renewal) FROM pawl_lane WHERE node = %lld", (long long)s.v);
        s.m.clock.now_us += LEASE + S;
        s.m.clock.boot_us += LEASE + S;
        s.a = lease(s.h, "t", "k", &s.a_fence);
        for (int k = 0; k < 3; k++) insert(s.m.quick, 0, "t", NULL, "k", &a);
        print_message("%s, and the first limit of %s\n", x->name, i & 2 ? "the type" : "all");
        if (i & 1) meet_run(&s.m, x->run, &a, do_another, &b, false);
        else meet_run(&s.m, do_another, &b, x->run, &a, false);
        assert_true(!a.status && !b.status);
        check_store();
        drain(true);
    }
    s.unlimited = false;
}

/* A program's own transaction frees a place: it holds up nobody, and when it commits the place is offered. */
static void in_a_transaction_of_its_own(void **state)
{
    answer a = {0};
    pawl_arena *arena = arena_new(alloc_default(), 0);
    PGconn *own = bed_connect(NULL);
    pawl_op op = {.kind = PAWL_OP_FINISH, .audit = PAWL_AUDIT_FULL};
    (void)state;
    set_scene();
    op.id = s.a;
    op.fence = s.a_fence;
    op.u.finish.to = PAWL_SUCCEEDED;
    op.u.finish.run =
        (pawl_execution){.outcome = PAWL_ATTEMPT_SUCCEEDED, .number = 1, .started_us = 1, .finished_us = 2, .progress = -1};
    bed_exec(own, "BEGIN");
    assert_int_equal(s.m.quick->type->tx_apply(s.m.quick, own, &op, 1, arena, NULL), PAWL_OK);
    assert_int_equal(op.result, PAWL_OP_DONE);
    claim(s.m.quick, s.r, 8, &a);
    assert_int_equal(a.status, PAWL_OK);
    assert_int_equal(
        bed_int(s.m.pg,
                "SELECT count(*) FROM pawl_place p JOIN pawl_spot s ON s.id = p.spot_id WHERE s.scope = 3 AND s.key = 'k'"),
        3);
    bed_exec(own, "COMMIT");
    PQfinish(own);
    claim(s.m.quick, s.r, 8, &a);
    assert_true(a.unblocked || a.got > 0);
    check_store();
    drain(false);
    assert_int_equal(bed_int(s.m.pg, "SELECT count(*) FROM pawl_freed"), 0);
    arena_free(arena);
}

static int set_up(void **state)
{
    (void)state;
    meet_open(&s.m, "places", LEASE);
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
    static const struct CMUnitTest tests[] = {cmocka_unit_test(the_first_commits), cmocka_unit_test(the_first_is_killed),
                                              cmocka_unit_test(the_first_bound), cmocka_unit_test(in_a_transaction_of_its_own)};
    if (!bed_there(false)) return BED_SKIP;
    return cmocka_run_group_tests_name("places", tests, set_up, tear_down);
}
