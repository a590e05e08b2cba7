/* Concurrency limits beside tasks that have none: batches that hold both, and limits that come and go while tasks run. Every case begins with
 * a limit of another type, so that no store can tell by their absence that there is nothing to do.
 */
#include "contract.h"

#define MANY 41 /* tasks of a batch; more than any store looks at one by one */
#define MIDDLE (MANY / 2)

/* ---- helpers ----------------------------------------------------------------------------------------------------- */

static int64_t begin(world *w)
{
    apply(w, w->a, 0, op_bound(w, PAWL_SCOPE_TYPE, "another", NULL, 1));
    return join(w, w->a);
}

static int take(world *w, int64_t n, int free) { return claim(w, w->a, n, (wish){.free = free}).got; }

static pawl_place_info spot(world *w, const char *type)
{
    pawl_place_filter filter = {.scope = PAWL_SCOPE_TYPE, .name = type, .limit = 10};
    pawl_query query = {.kind = PAWL_QUERY_PLACES, .place_filter = &filter};
    assert_int_equal(w->a->type->read(w->a, &query, w->arena, &w->err), PAWL_OK);
    return query.places->count ? query.places->places[0] : (pawl_place_info){0};
}

static int taken(world *w, const char *type) { return (int)spot(w, type).taken; }

static int blocked(world *w, const char *type) { return (int)spot(w, type).blocked; }

/* Of type u, but that in the middle. */
static void put_many(world *w, const char *middle)
{
    for (int i = 0; i < MANY; i++) insert(w, w->a, 0, (spec){.type = i == MIDDLE ? middle : "u"});
}

/* Of what was claimed last, all of this type end in one batch, and `one`; NULL: all that there are. */
static pawl_batch end_all(world *w, int64_t n, const char *type, pawl_id one)
{
    pawl_op *ops[1024];
    int count = 0;
    for (int i = 0; i < w->claimed_count; i++)
        if (!type || strcmp(w->claimed[i].body->type, type) == 0 || w->claimed[i].body->id == one)
            ops[count++] = op_finish(w, w->claimed[i].body->id, w->claimed[i].fence, PAWL_SUCCEEDED);
    pawl_batch b = apply_all(w, w->a, n, ops, count);
    for (int i = 0; i < count; i++) assert_int_equal(ops[i]->result, PAWL_OP_DONE);
    return b;
}

static pawl_batch ends(world *w, int64_t n, const pawl_claimed *got)
{
    pawl_op *op = op_finish(w, got->body->id, got->fence, PAWL_SUCCEEDED);
    pawl_batch b = apply_all(w, w->a, n, &op, 1);
    assert_int_equal(op->result, PAWL_OP_DONE);
    return b;
}

/* ---- batches that hold both ---------------------------------------------------------------------------------------- */

static void one_of_many_that_end(world *w)
{
    int64_t n = begin(w);
    bound(w, PAWL_SCOPE_TYPE, "t", 1);
    put_many(w, "t");
    assert_int_equal(take(w, n, 100), MANY);
    pawl_id next = insert(w, w->a, 0, (spec){0});
    assert_true(end_all(w, n, NULL, 0).unblocked);
    assert_int_equal(claim_one(w, w->a, n).body->id, next);
    assert_int_equal(taken(w, "t"), 1);
}

static void one_of_many_that_come(world *w)
{
    int64_t n = begin(w);
    bound(w, PAWL_SCOPE_TYPE, "t", 1);
    insert(w, w->a, 0, (spec){0});
    assert_int_equal(take(w, n, 1), 1);
    pawl_op *ops[MANY];
    for (int i = 0; i < MANY; i++) ops[i] = op_insert(w, (spec){.type = i == MIDDLE ? "t" : "u", .ask_lease = true});
    apply_all(w, w->a, n, ops, MANY);
    for (int i = 0; i < MANY; i++) assert_int_equal(ops[i]->out_fence > 0, i != MIDDLE);
    assert_string_equal(get(w, ops[MIDDLE]->id)->display, "blocked");
}

static void ends_on_both_sides_of_those_that_hold_places(world *w)
{
    for (int with_the_last = 0; with_the_last < 2; with_the_last++) {
        int64_t n = begin(w);
        pawl_id last = 0;
        bound(w, PAWL_SCOPE_TYPE, with_the_last ? "s" : "t", MANY + 1);
        insert(w, w->a, 0, (spec){.type = "u"});
        for (int i = 0; i < MANY; i++) last = insert(w, w->a, 0, (spec){.type = with_the_last ? "s" : "t"});
        insert(w, w->a, 0, (spec){.type = "u"});
        assert_int_equal(take(w, n, 100), MANY + 2);
        end_all(w, n, "u", with_the_last ? last : 0);
        assert_int_equal(taken(w, with_the_last ? "s" : "t"), MANY - with_the_last);
    }
}

static void one_that_is_spawned(world *w)
{
    int64_t n = begin(w);
    bound(w, PAWL_SCOPE_TYPE, "t", 1);
    insert(w, w->a, 0, (spec){0});
    assert_int_equal(take(w, n, 1), 1);
    insert(w, w->a, 0, (spec){.type = "u"});
    pawl_claimed got = claim_one(w, w->a, n);
    pawl_op *op = op_finish(w, got.body->id, got.fence, PAWL_SUCCEEDED), *child = op_insert(w, (spec){0});
    op->u.finish.spawns = child;
    op->u.finish.spawns_count = 1;
    assert_int_equal(apply(w, w->a, n, op), PAWL_OP_DONE);
    assert_string_equal(get(w, child->id)->display, "blocked");
}

/* ---- keys that go from one type to another ---------------------------------------------------------------------------- */

static void a_blocked_one_replaced_by_another_type(world *w)
{
    int64_t n = begin(w);
    bound(w, PAWL_SCOPE_TYPE, "t", 1);
    insert(w, w->a, 0, (spec){0});
    assert_int_equal(take(w, n, 10), 1);
    pawl_claimed got = w->claimed[0];
    pawl_id id = insert(w, w->a, 0, (spec){.key = "k"});
    assert_string_equal(get(w, id)->display, "blocked");
    assert_int_equal(apply(w, w->a, 0, op_insert(w, (spec){.type = "u", .key = "k"})), PAWL_OP_UPDATED);
    assert_int_equal(blocked(w, "t"), 0);
    assert_false(ends(w, n, &got).unblocked); /* there is nobody any more whom it could tell */
    pawl_claimed other = claim_one(w, w->a, n);
    assert_int_equal(other.body->id, id);
    ends(w, n, &other);
}

/* It held the place of its line; the next one has it now. */
static void one_in_order_replaced_by_another_type(world *w)
{
    int64_t n = begin(w);
    bound_in_order(w, "t");
    pawl_id first = insert(w, w->a, 0, (spec){.rate_key = "r", .key = "k"}), second = insert(w, w->a, 0, (spec){.rate_key = "r"});
    assert_string_equal(get(w, second)->display, "blocked");
    assert_int_equal(apply(w, w->a, 0, op_insert(w, (spec){.type = "u", .rate_key = "r", .key = "k"})), PAWL_OP_UPDATED);
    assert_int_equal(take(w, n, 10), 2);
    for (int i = 0; i < 2; i++) assert_true(w->claimed[i].body->id == (w->claimed[i].body->type[0] == 'u' ? first : second));
    end_all(w, n, NULL, 0);
}

/* ---- limits that come and go ------------------------------------------------------------------------------------------ */

static void put_while_they_run(world *w)
{
    int64_t n = begin(w);
    put_many(w, "t");
    assert_int_equal(take(w, n, 100), MANY);
    bound(w, PAWL_SCOPE_TYPE, "t", 1);
    assert_int_equal(taken(w, "t"), 1);
    pawl_id next = insert(w, w->a, 0, (spec){0});
    assert_string_equal(get(w, next)->display, "blocked");
    assert_true(end_all(w, n, NULL, 0).unblocked);
    assert_int_equal(claim_one(w, w->a, n).body->id, next);
}

static void put_of_the_queue_while_they_run(world *w)
{
    int64_t n = begin(w);
    put_many(w, "t");
    assert_int_equal(take(w, n, 100), MANY);
    bound(w, PAWL_SCOPE_QUEUE, "q", MANY);
    pawl_id next = insert(w, w->a, 0, (spec){.type = "v"});
    assert_string_equal(get(w, next)->display, "blocked");
    assert_true(end_all(w, n, "t", 0).unblocked);
    assert_int_equal(claim_one(w, w->a, n).body->id, next);
}

static void dropped_while_places_are_held(world *w)
{
    int64_t n = begin(w);
    bound(w, PAWL_SCOPE_TYPE, "t", 1);
    put_many(w, "t");
    assert_int_equal(take(w, n, 100), MANY);
    assert_int_equal(apply(w, w->a, 0, op_bound(w, PAWL_SCOPE_TYPE, "t", NULL, 0)), PAWL_OP_UPDATED);
    end_all(w, n, NULL, 0);
    assert_int_equal(taken(w, "t"), 0);
    bound(w, PAWL_SCOPE_TYPE, "t", 1);
    insert(w, w->a, 0, (spec){0});
    assert_int_equal(take(w, n, 10), 1);
}

/* The places that it gave them go with their ends, though nothing limits them any more. */
static void put_and_dropped_while_they_run(world *w)
{
    int64_t n = begin(w);
    put_many(w, "t");
    assert_int_equal(take(w, n, 100), MANY);
    bound(w, PAWL_SCOPE_TYPE, "t", 1);
    bound(w, PAWL_SCOPE_QUEUE, "q", MANY);
    assert_int_equal(taken(w, "t"), 1);
    apply(w, w->a, 0, op_bound(w, PAWL_SCOPE_TYPE, "t", NULL, 0));
    apply(w, w->a, 0, op_bound(w, PAWL_SCOPE_QUEUE, "q", NULL, 0));
    end_all(w, n, NULL, 0);
    assert_int_equal(taken(w, "t"), 0);
    bound(w, PAWL_SCOPE_QUEUE, "q", 1);
    insert(w, w->a, 0, (spec){.type = "v"});
    assert_int_equal(take(w, n, 10), 1);
}

/* What goes back meanwhile waits for its tenant's turn. */
static void turns_that_come_while_they_run(world *w)
{
    int64_t n = begin(w);
    pawl_op *ops[4];
    for (int i = 0; i < 4; i++) insert(w, w->a, 0, (spec){.tenant = "a"});
    assert_int_equal(take(w, n, 4), 4);
    for (int i = 0; i < 4; i++) ops[i] = op_release(w, w->claimed[i].body->id, w->claimed[i].fence, -1, PAWL_ATTEMPT_NONE);
    bound(w, PAWL_SCOPE_TENANTS, "q", 1);
    for (int i = 0; i < 4; i++) insert(w, w->a, 0, (spec){.tenant = "b"});
    apply_all(w, w->a, n, ops, 4);
    int a = 0;
    for (int i = 0; i < 4; i++) a += claim_one(w, w->a, n).body->tenant[0] == 'a';
    assert_int_equal(a, 2);
}

CASES(beside_cases){
    {"beside: one of many that end", one_of_many_that_end},
    {"beside: one of many that come", one_of_many_that_come},
    {"beside: ends on both sides of those that hold places", ends_on_both_sides_of_those_that_hold_places},
    {"beside: one that is spawned", one_that_is_spawned},
    {"beside: a blocked one replaced by another type", a_blocked_one_replaced_by_another_type},
    {"beside: one in order replaced by another type", one_in_order_replaced_by_another_type},
    {"beside: a limit put while they run", put_while_they_run},
    {"beside: a limit of the queue put while they run", put_of_the_queue_while_they_run},
    {"beside: a limit dropped while places are held", dropped_while_places_are_held},
    {"beside: a limit put and dropped while they run", put_and_dropped_while_they_run},
    {"beside: turns that come while they run", turns_that_come_while_they_run},
    {NULL, NULL},
};
