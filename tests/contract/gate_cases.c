/* Rate limits and concurrency limits at once, and floods: a task that waits for one of them takes nothing of the other, and keeps nobody
 * else waiting. */
#include "contract.h"

#define S PAWL_SECOND

/* ---- helpers ----------------------------------------------------------------------------------------------------- */

/* One start per period for each key of the type, one at once; waits however long. */
static void limit(world *w, const char *type, int64_t period_us)
{
    pawl_op *op = keep(w, sizeof *op);
    op->kind = PAWL_OP_LIMIT;
    op->audit = PAWL_AUDIT_FULL;
    op->u.limit.type = type;
    op->u.limit.rate = (pawl_rate){.permits = 1, .period_us = period_us, .horizon_us = -1};
    assert_int_equal(apply(w, w->a, 0, op), PAWL_OP_DONE);
}

typedef struct lease_held { /* the body is gone with the next claim */
    pawl_id id;
    int64_t fence, until_us;
    bool limited;
} lease_held;

static lease_held held_as(const pawl_claimed *got)
{
    return (lease_held){.id = got->body->id, .fence = got->fence, .until_us = got->until_us, .limited = got->limited};
}

static lease_held hold(world *w, pawl_store *store, int64_t n, pawl_id id)
{
    pawl_claimed got = lease(w, store, n, id);
    return held_as(&got);
}

/* Due in a millisecond: so it takes no slot now. */
static pawl_id put(world *w, spec s)
{
    s.delay_us = 1000;
    return insert(w, w->a, 0, s);
}

static pawl_op *reserve(world *w, int64_t n, const lease_held *got, int64_t near_us, bool again, pawl_op_result result)
{
    pawl_op *op = keep(w, sizeof *op);
    op->kind = PAWL_OP_RESERVE;
    op->id = got->id;
    op->fence = got->fence;
    op->audit = PAWL_AUDIT_FULL;
    op->u.reserve.near_us = near_us;
    op->u.reserve.again = again;
    assert_int_equal(apply(w, w->a, n, op), result);
    return op;
}

static void finish(world *w, int64_t n, const lease_held *got, pawl_state to)
{
    pawl_op *op = op_finish(w, got->id, got->fence, to);
    if (to == PAWL_CANCELLED) op->u.finish.run.outcome = PAWL_ATTEMPT_NONE; /* it never ran */
    assert_int_equal(apply(w, w->a, n, op), PAWL_OP_DONE);
}

/* The key's only start in this period is taken. */
static void spend(world *w, int64_t n, const char *key)
{
    pawl_id id = put(w, (spec){.rate_key = key});
    advance(w, 1000);
    lease_held got = hold(w, w->a, n, id);
    reserve(w, n, &got, 0, false, PAWL_OP_DONE);
    finish(w, n, &got, PAWL_SUCCEEDED);
}

static int64_t taken(world *w, int64_t *blocked)
{
    pawl_place_filter filter = {.scope = PAWL_SCOPE_TYPE, .name = "t", .limit = 10};
    pawl_query query = {.kind = PAWL_QUERY_PLACES, .place_filter = &filter};
    assert_int_equal(w->a->type->read(w->a, &query, w->arena, &w->err), PAWL_OK);
    *blocked = query.places->count ? query.places->places[0].blocked : 0;
    return query.places->count ? query.places->places[0].taken : 0;
}

#define assert_places(w, took, stopped)                \
    do {                                               \
        int64_t blocked_;                              \
        assert_int_equal(taken(w, &blocked_), (took)); \
        assert_int_equal(blocked_, (stopped));         \
    } while (0)

static int left(world *w, const char *key)
{
    pawl_limit_filter filter = {.type = "t", .key = pawl_str(key), .limit = 10};
    pawl_query query = {.kind = PAWL_QUERY_LIMITS, .limit_filter = &filter};
    assert_int_equal(w->a->type->read(w->a, &query, w->arena, &w->err), PAWL_OK);
    return query.limits->count ? query.limits->limits[0].left : 1;
}

/* ---- both limits --------------------------------------------------------------------------------------------------- */

static void a_far_slot_frees_the_place(world *w)
{
    int64_t n = join(w, w->a);
    limit(w, "t", PAWL_MINUTE);
    bound(w, PAWL_SCOPE_TYPE, "t", 1);
    spend(w, n, "k");
    pawl_id id = put(w, (spec){.rate_key = "k"});
    advance(w, 1000);
    lease_held got = hold(w, w->a, n, id);
    pawl_id other = put(w, (spec){.rate_key = "other"});
    advance(w, 1000);
    assert_int_equal(claim(w, w->a, n, (wish){.free = 1}).got, 0);
    assert_places(w, 1, 1);
    reserve(w, n, &got, S, false, PAWL_OP_MOVED);
    assert_places(w, 0, 0);
    got = hold(w, w->a, n, other);
    assert_places(w, 1, 0);
    reserve(w, n, &got, 0, false, PAWL_OP_DONE);
    finish(w, n, &got, PAWL_SUCCEEDED);
    advance(w, PAWL_MINUTE);
    got = hold(w, w->a, n, id);
    assert_true(got.until_us > w->clock.now_us);
    assert_places(w, 1, 0);
    finish(w, n, &got, PAWL_SUCCEEDED);
    assert_places(w, 0, 0);
}

static void a_near_slot_keeps_the_place(world *w)
{
    int64_t n = join(w, w->a);
    limit(w, "t", S);
    bound(w, PAWL_SCOPE_TYPE, "t", 1);
    spend(w, n, "k");
    pawl_id id = put(w, (spec){.rate_key = "k"}), other = put(w, (spec){.rate_key = "other"});
    advance(w, 1000);
    lease_held got = hold(w, w->a, n, id);
    reserve(w, n, &got, S, false, PAWL_OP_DONE);
    assert_int_equal(claim(w, w->a, n, (wish){.free = 1}).got, 0);
    assert_places(w, 1, 1);
    assert_int_equal(left(w, "other"), 1);
    finish(w, n, &got, PAWL_SUCCEEDED);
    hold(w, w->a, n, other);
    assert_places(w, 1, 0);
}

static void blocked_it_takes_no_slot(world *w)
{
    int64_t n = join(w, w->a);
    limit(w, "t", PAWL_MINUTE);
    bound(w, PAWL_SCOPE_TYPE, "t", 1);
    pawl_id first = put(w, (spec){0}), second = put(w, (spec){.rate_key = "k"});
    advance(w, 1000);
    lease_held got = hold(w, w->a, n, first);
    assert_int_equal(claim(w, w->a, n, (wish){.free = 9}).got, 0);
    assert_places(w, 1, 1);
    advance(w, PAWL_HOUR);
    assert_int_equal(left(w, "k"), 1);
    finish(w, n, &got, PAWL_SUCCEEDED);
    got = hold(w, w->a, n, second);
    assert_int_equal(reserve(w, n, &got, 0, false, PAWL_OP_DONE)->out_run_at_us, w->clock.now_us);
}

/* Its slot comes while another task has the place: the slot is lost, and not used an hour later. */
static void a_slot_that_passes_while_blocked(world *w)
{
    int64_t n = join(w, w->a);
    limit(w, "t", PAWL_MINUTE);
    bound(w, PAWL_SCOPE_TYPE, "t", 1);
    spend(w, n, "k");
    pawl_id id = put(w, (spec){.rate_key = "k"});
    advance(w, 1000);
    lease_held got = hold(w, w->a, n, id);
    reserve(w, n, &got, S, false, PAWL_OP_MOVED);
    pawl_id other = put(w, (spec){0});
    advance(w, 1000);
    lease_held holder = hold(w, w->a, n, other);
    advance(w, PAWL_MINUTE);
    assert_int_equal(claim(w, w->a, n, (wish){.free = 9}).got, 0);
    assert_places(w, 1, 1);
    advance(w, PAWL_HOUR);
    renew(w, w->a, n);
    finish(w, n, &holder, PAWL_SUCCEEDED);
    got = hold(w, w->a, n, id);
    assert_true(got.limited && got.until_us <= w->clock.now_us);
    assert_int_equal(reserve(w, n, &got, 0, true, PAWL_OP_DONE)->out_run_at_us, w->clock.now_us);
    assert_int_equal(left(w, "k"), 0);
}

static void cancelled_while_parked(world *w)
{
    int64_t n = join(w, w->a);
    limit(w, "t", S);
    bound(w, PAWL_SCOPE_TYPE, "t", 1);
    spend(w, n, "k");
    pawl_id id = put(w, (spec){.rate_key = "k"}), next = put(w, (spec){.rate_key = "k"});
    advance(w, 1000);
    lease_held got = hold(w, w->a, n, id);
    int64_t slot_us = reserve(w, n, &got, S, false, PAWL_OP_DONE)->out_run_at_us;
    assert_int_equal(claim(w, w->a, n, (wish){.free = 9}).got, 0);
    finish(w, n, &got, PAWL_CANCELLED);
    assert_places(w, 0, 0);
    got = hold(w, w->a, n, next);
    assert_int_equal(reserve(w, n, &got, S, false, PAWL_OP_DONE)->out_run_at_us, slot_us);
}

static void cancelled_while_it_waits(world *w)
{
    int64_t n = join(w, w->a);
    limit(w, "t", PAWL_MINUTE);
    bound(w, PAWL_SCOPE_TYPE, "t", 1);
    spend(w, n, "k");
    pawl_id id = put(w, (spec){.rate_key = "k"}), next = put(w, (spec){.rate_key = "k"});
    advance(w, 1000);
    lease_held got = hold(w, w->a, n, id);
    int64_t slot_us = reserve(w, n, &got, S, false, PAWL_OP_MOVED)->out_run_at_us;
    assert_int_equal(apply(w, w->a, 0, op_cancel(w, id, "ann")), PAWL_OP_DONE);
    assert_places(w, 0, 0);
    if (get(w, next)->run_at_us > w->clock.now_us) return; /* it was given the slot behind that one in the same commit */
    got = hold(w, w->a, n, next);
    assert_int_equal(reserve(w, n, &got, S, false, PAWL_OP_MOVED)->out_run_at_us, slot_us);
}

static void cancelled_while_blocked(world *w)
{
    int64_t n = join(w, w->a);
    limit(w, "t", PAWL_MINUTE);
    bound(w, PAWL_SCOPE_TYPE, "t", 1);
    pawl_id first = put(w, (spec){0}), second = put(w, (spec){.rate_key = "k"});
    advance(w, 1000);
    lease_held got = hold(w, w->a, n, first);
    claim(w, w->a, n, (wish){.free = 9});
    assert_int_equal(apply(w, w->a, 0, op_cancel(w, second, "ann")), PAWL_OP_DONE);
    assert_places(w, 1, 0);
    assert_int_equal(left(w, "k"), 1);
    finish(w, n, &got, PAWL_SUCCEEDED);
    assert_places(w, 0, 0);
}

static void a_node_that_dies_with_both(world *w)
{
    int64_t n = join(w, w->a), other = join(w, w->b);
    limit(w, "t", S);
    bound(w, PAWL_SCOPE_TYPE, "t", 1);
    spend(w, n, "k");
    pawl_id id = put(w, (spec){.rate_key = "k"});
    advance(w, 1000);
    lease_held got = hold(w, w->a, n, id);
    reserve(w, n, &got, S, false, PAWL_OP_DONE);
    assert_places(w, 1, 0);
    rescue_lapsed(w, w->b, other, n, true);
    assert_places(w, 0, 0);
    got = hold(w, w->a, other, id);
    assert_true(got.limited && got.until_us == 0);
    reserve(w, other, &got, 0, true, PAWL_OP_DONE);
    assert_places(w, 1, 0);
}

/* ---- floods ---------------------------------------------------------------------------------------------------------- */

static bool was_claimed(const world *w, int got, pawl_id id)
{
    for (int i = 0; i < got; i++)
        if (w->claimed[i].body->id == id) return true;
    return false;
}

/* Many of a key without budget fall due at once, before they have slots: what comes behind them is in the first claim, however many they
 * are. */
static void a_flood_leaves_others_their_turn(world *w)
{
    int64_t n = join(w, w->a);
    limit(w, "t", PAWL_DAY);
    spend(w, n, "full");
    pawl_id first = put(w, (spec){.rate_key = "full"});
    for (int i = 0; i < 120; i++) put(w, (spec){.rate_key = "full"});
    pawl_id other = put(w, (spec){.rate_key = "other"}), keyless = put(w, (spec){0}), unlimited = put(w, (spec){.type = "u"});
    advance(w, 1000);
    pawl_want want = claim(w, w->a, n, (wish){.free = 4, .prefetch = 6});
    assert_true(want.got == 10 && want.more);
    assert_true(was_claimed(w, 10, other) && was_claimed(w, 10, keyless) && was_claimed(w, 10, unlimited));
    assert_true(was_claimed(w, 10, first));
    int got = 10;
    for (int i = 0; i < 20 && want.more; i++) got += (want = claim(w, w->a, n, (wish){.free = 10})).got;
    assert_int_equal(got, 124);
}

/* All of a claim but two is theirs; and whoever asks is told when there are no more of them. */
static void others_come_before_a_flood(world *w)
{
    int64_t n = join(w, w->a);
    limit(w, "t", PAWL_DAY);
    spend(w, n, "full");
    for (int i = 0; i < 40; i++) put(w, (spec){.rate_key = "full"});
    for (int i = 0; i < 20; i++) put(w, (spec){0});
    advance(w, 1000);
    for (int i = 0; i < 3; i++) {
        pawl_want want = claim(w, w->a, n, (wish){.free = 10});
        int others = 0;
        for (int k = 0; k < want.got; k++) others += w->claimed[k].body->rate_key.len == 0;
        assert_true(want.got == 10 && want.more);
        assert_int_equal(others, i < 2 ? 8 : 4);
        assert_int_equal(want.flooded, i == 2);
    }
}

static void note_slot(world *w, const char *key, int64_t slots[2][64], int counts[2], int64_t slot_us)
{
    int which = key[0] - 'a';
    assert_true(counts[which] < 64 && slot_us > w->clock.now_us);
    slots[which][counts[which]++] = slot_us;
}

/* Two at a time ask for their slots, the store may give others theirs: in the end each slot of each key has one task. */
static void a_flood_is_laid_out_exactly(world *w)
{
    enum { COUNT = 50 };
    static const char *const keys[] = {"a", "b"};
    int64_t n = join(w, w->a), slots[2][64];
    int counts[2] = {0};
    pawl_id ids[2 * COUNT];
    limit(w, "t", 10 * S);
    int64_t spent_us[2];
    for (int i = 0; i < 2; i++) {
        spend(w, n, keys[i]);
        spent_us[i] = w->clock.now_us;
    }
    for (int i = 0; i < 2 * COUNT; i++) ids[i] = put(w, (spec){.rate_key = keys[i % 2]});
    advance(w, 1000);
    pawl_want want = {.more = true};
    for (int round = 0; round < 2 * COUNT && (want.more || want.got); round++) {
        want = claim(w, w->a, n, (wish){.free = 2});
        lease_held got[2];
        for (int i = 0; i < want.got; i++) got[i] = held_as(&w->claimed[i]);
        for (int i = 0; i < want.got; i++) reserve(w, n, &got[i], S, false, PAWL_OP_MOVED);
    }
    assert_false(want.more);
    for (int i = 0; i < 2 * COUNT; i++) note_slot(w, keys[i % 2], slots, counts, get(w, ids[i])->run_at_us);
    for (int which = 0; which < 2; which++)
        for (int i = 0; i < COUNT; i++) {
            int found = 0;
            for (int k = 0; k < COUNT; k++) found += slots[which][k] == spent_us[which] + (i + 1) * 10 * S;
            assert_int_equal(found, 1);
        }
}

typedef struct asked { /* what some RESERVEs of a key moved, as they say */
    int64_t moved, own;
} asked;

static int64_t waiting(world *w, const char *key)
{
    pawl_limit_filter filter = {.type = "t", .key = pawl_str(key), .limit = 10};
    pawl_query query = {.kind = PAWL_QUERY_LIMITS, .limit_filter = &filter};
    assert_int_equal(w->a->type->read(w->a, &query, w->arena, &w->err), PAWL_OK);
    return query.limits->count ? query.limits->limits[0].waiting : 0;
}

/* All that were claimed ask in one batch, which is then sent again. */
static void reserve_claimed(world *w, int64_t n, const char *const keys[2], asked all[2])
{
    pawl_op *ops[8], first[8];
    int count = w->claimed_count;
    for (int i = 0; i < count; i++) {
        ops[i] = keep(w, sizeof *ops[i]);
        *ops[i] = (pawl_op){
            .kind = PAWL_OP_RESERVE, .id = w->claimed[i].body->id, .fence = w->claimed[i].fence, .audit = PAWL_AUDIT_FULL};
        ops[i]->u.reserve.near_us = S;
        ops[i]->u.reserve.along = ops[i]->u.reserve.along_own = -1;
    }
    apply_all(w, w->a, n, ops, count);
    for (int i = 0; i < count; i++) {
        bool second = w->claimed[i].body->rate_key.data[0] == keys[1][0];
        first[i] = *ops[i];
        assert_int_equal(ops[i]->result, PAWL_OP_MOVED);
        assert_in_range(ops[i]->u.reserve.along_own, 0, ops[i]->u.reserve.along);
        all[second].moved += 1 + ops[i]->u.reserve.along;
        all[second].own += 1 + ops[i]->u.reserve.along_own;
        ops[i]->u.reserve.along = ops[i]->u.reserve.along_own = -1;
    }
    pawl_batch again = {.node = n, .number = number_of(w, n), .ops = ops, .count = count};
    assert_int_equal(try_apply(w, w->b, &again), PAWL_OK);
    for (int i = 0; i < count; i++) {
        assert_int_equal(ops[i]->u.reserve.along, first[i].u.reserve.along);
        assert_int_equal(ops[i]->u.reserve.along_own, first[i].u.reserve.along_own);
    }
}

/* At any time as many wait for slots as the RESERVEs say that they moved. */
static void count_the_moved(world *w, int keys_count)
{
    enum { COUNT = 90 };
    static const char *const keys[] = {"a", "b"};
    int64_t n = join(w, w->a);
    asked all[2] = {0};
    limit(w, "t", 10 * S);
    for (int i = 0; i < keys_count; i++) spend(w, n, keys[i]);
    for (int i = 0; i < COUNT; i++) put(w, (spec){.rate_key = keys[i % keys_count]});
    advance(w, 1000);
    for (int round = 0; round < COUNT; round++) {
        if (claim(w, w->a, n, (wish){.free = 4}).got == 0) break;
        reserve_claimed(w, n, keys, all);
        int64_t wait[2] = {waiting(w, "a"), waiting(w, "b")};
        assert_int_equal(wait[0] + wait[1], all[0].moved + all[1].moved);
        assert_true(wait[0] >= all[0].own && wait[1] >= all[1].own);
    }
    assert_int_equal(all[0].moved + all[1].moved, COUNT);
    assert_int_equal(stats_of(w, PAWL_HOUR)->throttled, COUNT);
    if (keys_count == 1) assert_int_equal(all[0].own, COUNT);
}

static void those_taken_along_are_counted(world *w) { count_the_moved(w, 1); }
static void those_of_other_keys_are_counted(world *w) { count_the_moved(w, 2); }

/* Urgent others are looked at first, as ever; and who has budget left is no flood. */
static void order_is_kept_without_one(world *w)
{
    int64_t n = join(w, w->a);
    limit(w, "t", PAWL_DAY);
    pawl_id first = put(w, (spec){.rate_key = "k"}), ids[12];
    for (int i = 0; i < 12; i++) ids[i] = put(w, (spec){.rate_key = "k"});
    advance(w, 1000);
    pawl_want want = claim(w, w->a, n, (wish){.free = 4});
    assert_true(want.got == 4 && want.more && !want.flooded);
    assert_true(w->claimed[0].body->id == first && w->claimed[3].body->id == ids[2]);
}

/* ---- order ------------------------------------------------------------------------------------------------------------------- */

/* Who stands in a line takes no slot: the next one of it would have to wait for slots that nobody uses. */
static void a_line_takes_no_slots(world *w)
{
    int64_t n = join(w, w->a), began_us = w->clock.now_us;
    limit(w, "t", 100 * S);
    bound_in_order(w, "t");
    pawl_id first = insert(w, w->a, 0, (spec){.rate_key = "k"});
    lease_held got = hold(w, w->a, n, first);
    reserve(w, n, &got, S, false, PAWL_OP_DONE);
    pawl_id second = insert(w, w->a, 0, (spec){.rate_key = "k"});
    for (int i = 0; i < 5; i++) insert(w, w->a, 0, (spec){.rate_key = "k"});
    finish(w, n, &got, PAWL_SUCCEEDED);
    advance(w, 100 * S); /* some stores may have it wait for a slot meanwhile */
    got = hold(w, w->a, n, second);
    assert_int_equal(reserve(w, n, &got, S, true, PAWL_OP_DONE)->out_run_at_us, began_us + 100 * S);
}

static void put_pause(world *w, bool paused)
{
    pawl_op *op = keep(w, sizeof *op);
    op->kind = PAWL_OP_LIMIT;
    op->audit = PAWL_AUDIT_FULL;
    op->u.limit.type = "t";
    op->u.limit.rate = (pawl_rate){.permits = 100, .period_us = S};
    op->u.limit.paused = paused;
    op->u.limit.move = 1000;
    assert_int_equal(apply(w, w->a, 0, op), paused ? PAWL_OP_DONE : PAWL_OP_UPDATED);
}

static void a_line_outlives_a_pause(world *w)
{
    int64_t n = join(w, w->a);
    put_pause(w, true);
    bound_in_order(w, "t");
    pawl_id ids[3];
    for (int i = 0; i < 3; i++) ids[i] = insert(w, w->a, 0, (spec){.rate_key = "k"});
    advance(w, S);
    put_pause(w, false);
    for (int i = 0; i < 3; i++) {
        lease_held got = hold(w, w->a, n, ids[i]);
        finish(w, n, &got, PAWL_SUCCEEDED);
    }
}

/* ---- what nodes tell ------------------------------------------------------------------------------------------------------ */

static pawl_bytes told_by(world *w, int64_t node)
{
    pawl_query query = {.kind = PAWL_QUERY_NODES};
    assert_int_equal(w->b->type->read(w->b, &query, w->arena, &w->err), PAWL_OK);
    for (size_t i = 0; i < query.nodes->count; i++)
        if (query.nodes->nodes[i].id == node) return query.node_told[i];
    return (pawl_bytes){0};
}

static void tell(world *w, int64_t node, pawl_bytes told)
{
    pawl_renewal call = {.node = node, .told = told};
    assert_int_equal(w->a->type->renew(w->a, &call, &w->err), PAWL_OK);
}

static void what_a_node_tells_is_kept_while_it_lives(world *w)
{
    static const char text[] = "any\0bytes\xff";
    static char large[48 * 1024];
    int64_t n = join(w, w->a), other = join(w, w->b);
    assert_null(told_by(w, n).data);
    tell(w, n, (pawl_bytes){text, sizeof text - 1});
    pawl_bytes got = told_by(w, n);
    assert_true(got.len == sizeof text - 1 && memcmp(got.data, text, got.len) == 0);
    assert_null(told_by(w, other).data);
    renew(w, w->a, n); /* nothing new */
    assert_int_equal(told_by(w, n).len, sizeof text - 1);
    memset(large, 7, sizeof large);
    tell(w, n, (pawl_bytes){large, sizeof large});
    assert_int_equal(told_by(w, n).len, sizeof large);
    tell(w, n, (pawl_bytes){"", 0});
    assert_true(told_by(w, n).len == 0);
    tell(w, n, (pawl_bytes){text, 3});
    pawl_id id = insert(w, w->a, 0, (spec){0});
    lease(w, w->a, n, id);
    rescue_lapsed(w, w->b, other, n, true);
    assert_true(told_by(w, n).len == 0);
    tell(w, other, (pawl_bytes){text, 3});
    assert_int_equal(w->b->type->leave(w->b, other, &w->err), PAWL_OK);
    assert_true(told_by(w, other).len == 0);
}

CASES(gate_cases){
    {"place: a far rate slot frees the place", a_far_slot_frees_the_place},
    {"place: a near rate slot keeps the place", a_near_slot_keeps_the_place},
    {"place: blocked it takes no rate slot", blocked_it_takes_no_slot},
    {"place: a rate slot that passes while it is blocked", a_slot_that_passes_while_blocked},
    {"place: cancelled while parked it gives back place and rate slot", cancelled_while_parked},
    {"place: cancelled while it waits for a rate slot it has no place", cancelled_while_it_waits},
    {"place: cancelled while blocked it has no rate slot", cancelled_while_blocked},
    {"place: a node that dies with a place and a rate slot", a_node_that_dies_with_both},
    {"rate: a flood leaves others their turn", a_flood_leaves_others_their_turn},
    {"rate: others come before a flood", others_come_before_a_flood},
    {"order: a line takes no slots", a_line_takes_no_slots},
    {"order: a line outlives a pause", a_line_outlives_a_pause},
    {"rate: a flood is laid out exactly", a_flood_is_laid_out_exactly},
    {"rate: those taken along are counted", those_taken_along_are_counted},
    {"rate: those of other keys taken along are counted", those_of_other_keys_are_counted},
    {"rate: order is kept without a flood", order_is_kept_without_one},
    {"node: what it tells is kept while it lives", what_a_node_tells_is_kept_while_it_lives},
    {NULL, NULL},
};
