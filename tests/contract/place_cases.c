/* Concurrency limits: never more leases than places, and nobody is blocked beside a free one. */
#include "contract.h"
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#define S PAWL_SECOND

/* ---- helpers ----------------------------------------------------------------------------------------------------- */

static pawl_id put(world *w, spec s) { return insert(w, w->a, 0, s); }

static void put_many(world *w, spec s, int count)
{
    for (int i = 0; i < count; i++) put(w, s);
}

static int take(world *w, int64_t n, int free) { return claim(w, w->a, n, (wish){.free = free}).got; }

static pawl_lease nth(world *w, int i) { return (pawl_lease){w->claimed[i].body->id, w->claimed[i].fence}; }

/* Takes exactly one, this one. */
static pawl_lease take_this(world *w, int64_t n, pawl_id id)
{
    assert_int_equal(take(w, n, 10), 1);
    assert_int_equal(w->claimed[0].body->id, id);
    return nth(w, 0);
}

static pawl_batch end(world *w, int64_t n, const pawl_lease *got, pawl_state to)
{
    pawl_op *op = op_finish(w, got->id, got->fence, to);
    pawl_batch b = apply_all(w, w->a, n, &op, 1);
    assert_int_equal(op->result, PAWL_OP_DONE);
    return b;
}

static pawl_places *places_of(world *w, pawl_place_filter filter)
{
    if (!filter.limit) filter.limit = 100;
    pawl_query query = {.kind = PAWL_QUERY_PLACES, .place_filter = &filter};
    assert_int_equal(w->a->type->read(w->a, &query, w->arena, &w->err), PAWL_OK);
    return query.places;
}

static const pawl_place_info *spot(world *w, pawl_scope scope, const char *name, const char *key)
{
    static const pawl_place_info none;
    pawl_places *p = places_of(w, (pawl_place_filter){.scope = scope, .name = name});
    for (size_t i = 0; i < p->count; i++)
        if (p->places[i].key.len == strlen(key) && memcmp(p->places[i].key.data, key, strlen(key)) == 0) return &p->places[i];
    return &none;
}

static void assert_spot(world *w, pawl_scope scope, const char *name, const char *key, int taken, int blocked)
{
    const pawl_place_info *s = spot(w, scope, name, key);
    assert_int_equal(s->taken, taken);
    assert_int_equal(s->blocked, blocked);
}

/* ---- places ------------------------------------------------------------------------------------------------------ */

static void no_more_than_there_are(world *w)
{
    int64_t n = join(w, w->a), other = join(w, w->b);
    bound(w, PAWL_SCOPE_TYPE, "t", 3);
    put_many(w, (spec){0}, 5);
    put_many(w, (spec){.type = "u"}, 2);
    assert_int_equal(take(w, n, 2), 2);
    pawl_lease first = nth(w, 0);
    pawl_want want = claim(w, w->b, other, (wish){.free = 10});
    assert_int_equal(want.got, 3); /* one of t, two of u */
    assert_false(want.more);
    assert_spot(w, PAWL_SCOPE_TYPE, "t", "", 3, 2);
    assert_int_equal(take(w, n, 10), 0);
    assert_true(end(w, n, &first, PAWL_SUCCEEDED).unblocked);
    assert_int_equal(take(w, n, 10), 1);
    assert_spot(w, PAWL_SCOPE_TYPE, "t", "", 3, 1);
}

static void of_a_queue(world *w)
{
    int64_t n = join(w, w->a);
    bound(w, PAWL_SCOPE_QUEUE, "q", 2);
    put(w, (spec){0});
    put(w, (spec){.type = "u"});
    put(w, (spec){.type = "v"});
    put_many(w, (spec){.queue = "other"}, 3);
    assert_int_equal(take(w, n, 10), 2);
    pawl_lease first = nth(w, 0);
    assert_int_equal(claim(w, w->a, n, (wish){.queue = "other", .free = 10}).got, 3);
    end(w, n, &first, PAWL_FAILED);
    assert_int_equal(take(w, n, 10), 1);
}

static void of_each_key(world *w)
{
    int64_t n = join(w, w->a);
    bound(w, PAWL_SCOPE_KEYS, "t", 1);
    assert_int_equal(apply(w, w->a, 0, op_bound(w, PAWL_SCOPE_KEYS, "t", "wide", 2)), PAWL_OP_DONE);
    put_many(w, (spec){.rate_key = "a"}, 3);
    put_many(w, (spec){.rate_key = "b"}, 3);
    put_many(w, (spec){.rate_key = "wide"}, 3);
    put_many(w, (spec){0}, 3);
    put_many(w, (spec){.type = "u", .rate_key = "a"}, 3);
    assert_int_equal(take(w, n, 100), 1 + 1 + 2 + 3 + 3);
    assert_spot(w, PAWL_SCOPE_KEYS, "t", "a", 1, 2);
    assert_spot(w, PAWL_SCOPE_KEYS, "t", "wide", 2, 1);
    assert_true(spot(w, PAWL_SCOPE_KEYS, "t", "wide")->own && !spot(w, PAWL_SCOPE_KEYS, "t", "a")->own);
}

static void all_or_none(world *w)
{
    int64_t n = join(w, w->a);
    bound(w, PAWL_SCOPE_QUEUE, "q", 2);
    bound(w, PAWL_SCOPE_KEYS, "t", 1);
    put_many(w, (spec){.rate_key = "a"}, 50); /* one runs; the others must not keep the second place of the queue */
    pawl_id b = put(w, (spec){.rate_key = "b"});
    int got = take(w, n, 10);
    while (w->news.unblocked && got < 2) got += take(w, n, 10);
    assert_int_equal(got, 2);
    assert_state(w, b, PAWL_LEASED);
    assert_spot(w, PAWL_SCOPE_QUEUE, "q", "", 2, 0);
    assert_spot(w, PAWL_SCOPE_KEYS, "t", "a", 1, 49);
}

static void a_full_queue_lets_its_keys_wait(world *w)
{
    int64_t n = join(w, w->a);
    bound(w, PAWL_SCOPE_QUEUE, "q", 1);
    bound(w, PAWL_SCOPE_KEYS, "t", 1);
    for (int i = 0; i < 5; i++) put_many(w, (spec){.rate_key = i % 2 ? "a" : "b"}, 2);
    for (int i = 0; i < 10; i++) { /* one after the other, nobody is forgotten */
        assert_int_equal(take(w, n, 10), 1);
        pawl_lease got = nth(w, 0);
        end(w, n, &got, PAWL_SUCCEEDED);
    }
    assert_int_equal(places_of(w, (pawl_place_filter){.blocked = true})->count, 0);
}

static void never_born_leased(world *w)
{
    int64_t n = join(w, w->a);
    bound(w, PAWL_SCOPE_TYPE, "t", 1);
    pawl_op *op = op_insert(w, (spec){.ask_lease = true});
    assert_int_equal(apply(w, w->a, n, op), PAWL_OP_DONE);
    assert_int_equal(op->out_fence, 0);
    take_this(w, n, op->id);
}

static void only_for_workers_that_are_free(world *w)
{
    int64_t n = join(w, w->a);
    bound(w, PAWL_SCOPE_TYPE, "t", 5);
    put_many(w, (spec){0}, 5);
    put_many(w, (spec){.type = "u"}, 2);
    pawl_want want = claim(w, w->a, n, (wish){.free = 2, .prefetch = 10});
    assert_int_equal(want.got, 4);
    assert_true(want.more);
    assert_spot(w, PAWL_SCOPE_TYPE, "t", "", 2, 0);
}

static void every_end_frees(world *w)
{
    int64_t n = join(w, w->a);
    bound(w, PAWL_SCOPE_TYPE, "t", 1);
    pawl_id first = put(w, (spec){.key = "k"}), second = put(w, (spec){0});
    pawl_lease got = take_this(w, n, first);
    pawl_op *op = op_release(w, first, got.fence, PAWL_HOUR, PAWL_ATTEMPT_RETRY);
    apply_all(w, w->a, n, &op, 1);
    got = take_this(w, n, second);
    op = op_release(w, second, got.fence, -1, PAWL_ATTEMPT_NONE);
    apply_all(w, w->a, n, &op, 1);
    got = take_this(w, n, second);
    end(w, n, &got, PAWL_CANCELLED);
    assert_spot(w, PAWL_SCOPE_TYPE, "t", "", 0, 0);
    advance(w, PAWL_HOUR);
    put(w, (spec){.type = "u"});
    pawl_want want = claim(w, w->a, n, (wish){.free = 1, .prefetch = 5, .types = {"u", "t"}});
    assert_int_equal(want.got, 2); /* the key's one is not beyond `free` */
}

static void a_lease_taken_back_frees(world *w)
{
    int64_t n = join(w, w->a);
    bound(w, PAWL_SCOPE_TYPE, "t", 1);
    assert_int_equal(apply(w, w->a, 0, op_bound(w, PAWL_SCOPE_TYPE, "t", NULL, 0)), PAWL_OP_UPDATED);
    pawl_id keyed = put(w, (spec){.key = "k"});
    put(w, (spec){.type = "u", .priority = -1});
    assert_int_equal(claim(w, w->a, n, (wish){.free = 1, .prefetch = 1}).got, 2);
    bound(w, PAWL_SCOPE_TYPE, "t", 1); /* finds a lease */
    assert_spot(w, PAWL_SCOPE_TYPE, "t", "", 1, 0);
    pawl_id second = put(w, (spec){0});
    assert_int_equal(take(w, n, 5), 0);
    apply(w, w->a, 0, op_cancel(w, keyed, NULL)); /* it has not started */
    assert_state(w, keyed, PAWL_CANCELLED);
    take_this(w, n, second);
}

static void a_rescue_frees(world *w)
{
    int64_t n = join(w, w->a), dead = join(w, w->b);
    bound(w, PAWL_SCOPE_KEYS, "t", 2);
    put_many(w, (spec){.rate_key = "k"}, 4);
    assert_int_equal(claim(w, w->b, dead, (wish){.free = 10}).got, 2);
    assert_int_equal(take(w, n, 10), 0);
    assert_int_equal(rescue_lapsed(w, w->a, n, dead, true).freed, 2);
    assert_spot(w, PAWL_SCOPE_KEYS, "t", "k", 0, 0);
    assert_int_equal(claim(w, w->a, n, (wish){.free = 10, .solo = true}).got, 2);
    assert_spot(w, PAWL_SCOPE_KEYS, "t", "k", 2, 2);
}

static void a_cancelled_one_leaves_its_chance_to_the_next(world *w)
{
    int64_t n = join(w, w->a);
    bound(w, PAWL_SCOPE_TYPE, "t", 1);
    pawl_id first = put(w, (spec){0}), second = put(w, (spec){0}), third = put(w, (spec){0});
    pawl_lease got = take_this(w, n, first);
    assert_int_equal(take(w, n, 5), 0);
    end(w, n, &got, PAWL_SUCCEEDED); /* the place is offered to the second */
    apply(w, w->a, 0, op_cancel(w, second, NULL));
    take_this(w, n, third);
}

static void another_queue_is_offered_it_too(world *w)
{
    int64_t n = join(w, w->a);
    bound(w, PAWL_SCOPE_KEYS, "t", 1);
    pawl_id first = put(w, (spec){.rate_key = "k"});
    put(w, (spec){.rate_key = "k"});
    pawl_id there = put(w, (spec){.rate_key = "k", .queue = "other"});
    pawl_lease got = take_this(w, n, first);
    assert_int_equal(claim(w, w->a, n, (wish){.queue = "other", .free = 5}).got, 0);
    assert_int_equal(apply(w, w->a, 0, op_queue(w, "q", true, NULL)), PAWL_OP_DONE); /* nothing of it will start */
    end(w, n, &got, PAWL_SUCCEEDED);
    assert_int_equal(claim(w, w->a, n, (wish){.queue = "other", .free = 5}).got, 1);
    assert_int_equal(w->claimed[0].body->id, there);
}

static void another_type_is_offered_it_too(world *w)
{
    int64_t n = join(w, w->a);
    bound(w, PAWL_SCOPE_QUEUE, "q", 1);
    pawl_id first = put(w, (spec){.type = "u"});
    put(w, (spec){0});
    pawl_id last = put(w, (spec){.type = "u"});
    pawl_lease got = take_this(w, n, first);
    assert_int_equal(take(w, n, 5), 0);
    end(w, n, &got, PAWL_SUCCEEDED);
    assert_int_equal(claim(w, w->a, n, (wish){.free = 5, .types = {"u"}}).got, 1); /* nobody knows type t */
    assert_int_equal(w->claimed[0].body->id, last);
}

static void urgent_ones_first(world *w)
{
    int64_t n = join(w, w->a);
    bound(w, PAWL_SCOPE_TYPE, "t", 1);
    pawl_lease got = take_this(w, n, put(w, (spec){0}));
    pawl_id late = put(w, (spec){.priority = 5}), urgent = put(w, (spec){.priority = -5});
    assert_int_equal(take(w, n, 5), 0);
    end(w, n, &got, PAWL_SUCCEEDED);
    got = take_this(w, n, urgent);
    end(w, n, &got, PAWL_SUCCEEDED);
    take_this(w, n, late);
}

static void those_blocked_do_not_hide_others(world *w)
{
    int64_t n = join(w, w->a);
    bound(w, PAWL_SCOPE_KEYS, "t", 1);
    put_many(w, (spec){.rate_key = "k"}, 200);
    pawl_id other = put(w, (spec){.rate_key = "other"});
    assert_int_equal(take(w, n, 2), 2);
    assert_state(w, other, PAWL_LEASED);
    pawl_want want = claim(w, w->a, n, (wish){.free = 2});
    assert_true(want.got == 0 && !want.more && want.next_due_us == 0);
    assert_spot(w, PAWL_SCOPE_KEYS, "t", "k", 1, 199);
}

/* Of some claims of one task each the quickest, in nanoseconds. */
static int64_t quickest_claim(world *w, int64_t n)
{
    int64_t least_ns = INT64_MAX;
    for (int i = 0; i < 12; i++) {
        struct timespec from, to;
        put(w, (spec){.type = "u"});
        clock_gettime(CLOCK_MONOTONIC, &from);
        pawl_want want = claim(w, w->a, n, (wish){.free = 2});
        clock_gettime(CLOCK_MONOTONIC, &to);
        assert_true(want.got == 1 && !want.more && want.next_due_us == 0);
        int64_t ns = (to.tv_sec - from.tv_sec) * INT64_C(1000000000) + to.tv_nsec - from.tv_nsec;
        if (ns < least_ns) least_ns = ns;
        pawl_lease got = nth(w, 0);
        end(w, n, &got, PAWL_SUCCEEDED);
    }
    return least_ns;
}

static void put_flood(world *w, spec s, int count)
{
    pawl_op *ops[500];
    for (int done = 0; done < count; done += 500) {
        for (int i = 0; i < 500; i++) ops[i] = op_insert(w, s);
        apply_all(w, w->a, 0, ops, 500);
    }
}

/* Those that wait for places leave the ready index, whether a claim meets them or a place is taken when they come. */
static void a_blocked_flood_costs_others_nothing(world *w)
{
    int64_t n = join(w, w->a);
    bound(w, PAWL_SCOPE_TYPE, "t", 1);
    bound(w, PAWL_SCOPE_KEYS, "v", 1);
    int64_t alone_ns = quickest_claim(w, n);
    put_flood(w, (spec){0}, 2000);
    put_flood(w, (spec){.type = "v", .rate_key = "k"}, 500);
    pawl_id late = put(w, (spec){.type = "u", .priority = 5}); /* all of them are more urgent */
    pawl_want want = {.more = true};
    for (int i = 0; i < 20 && want.more; i++) want = claim(w, w->a, n, (wish){.free = 10});
    assert_false(want.more);
    assert_int_equal(apply(w, w->a, n, op_finish(w, late, fence_of(w, late), PAWL_SUCCEEDED)), PAWL_OP_DONE);
    put_flood(w, (spec){0}, 500);
    assert_spot(w, PAWL_SCOPE_TYPE, "t", "", 1, 2499);
    assert_spot(w, PAWL_SCOPE_KEYS, "v", "k", 1, 499);
    assert_in_range(quickest_claim(w, n), 0, 3 * alone_ns + PAWL_MILLISECOND * 1000);
}

static void blocked_as_it_comes(world *w)
{
    int64_t n = join(w, w->a);
    bound(w, PAWL_SCOPE_TYPE, "t", 1);
    take_this(w, n, put(w, (spec){0}));
    put_many(w, (spec){0}, 3);
    assert_spot(w, PAWL_SCOPE_TYPE, "t", "", 1, 3); /* no claim has looked at them */
    pawl_id later = put(w, (spec){.delay_us = S});
    assert_string_equal(get(w, later)->display, "scheduled");
}

static void a_new_body_of_one_that_is_blocked(world *w)
{
    int64_t n = join(w, w->a);
    bound(w, PAWL_SCOPE_KEYS, "t", 1);
    take_this(w, n, put(w, (spec){.rate_key = "k"}));
    pawl_id id = put(w, (spec){.rate_key = "k", .key = "id"});
    assert_string_equal(get(w, id)->display, "blocked");
    pawl_op *op = op_insert(w, (spec){.rate_key = "k", .key = "id", .priority = 3});
    assert_int_equal(apply(w, w->a, 0, op), PAWL_OP_UPDATED);
    assert_string_equal(get(w, id)->display, "blocked");
    op = op_insert(w, (spec){.rate_key = "free", .key = "id"});
    assert_int_equal(apply(w, w->a, 0, op), PAWL_OP_UPDATED);
    take_this(w, n, id);
    assert_spot(w, PAWL_SCOPE_KEYS, "t", "k", 1, 0);
}

static void one_sent_again_says_that_there_may_be_something(world *w)
{
    int64_t n = join(w, w->a);
    bound(w, PAWL_SCOPE_TYPE, "t", 1);
    pawl_lease got = take_this(w, n, put(w, (spec){0}));
    put(w, (spec){0});
    pawl_op *op = op_finish(w, got.id, got.fence, PAWL_SUCCEEDED);
    pawl_batch b = apply_all(w, w->a, n, &op, 1);
    assert_true(b.unblocked);
    b.unblocked = false;
    b.ops = &op;
    assert_int_equal(try_apply(w, w->a, &b), PAWL_OK);
    assert_true(b.unblocked);
    assert_int_equal(take(w, n, 5), 1);
}

/* ---- bounds that change ---------------------------------------------------------------------------------------------- */

static void what_runs_is_counted(world *w)
{
    int64_t n = join(w, w->a);
    put_many(w, (spec){.rate_key = "k"}, 5);
    assert_int_equal(take(w, n, 3), 3);
    pawl_lease got[3] = {nth(w, 0), nth(w, 1), nth(w, 2)};
    bound(w, PAWL_SCOPE_KEYS, "t", 2);
    assert_int_equal(take(w, n, 5), 0);
    assert_spot(w, PAWL_SCOPE_KEYS, "t", "k", 3, 2);
    end(w, n, &got[0], PAWL_SUCCEEDED);
    assert_int_equal(take(w, n, 5), 0);
    end(w, n, &got[1], PAWL_SUCCEEDED);
    assert_int_equal(take(w, n, 5), 1);
}

static void raised_others_go_on(world *w)
{
    int64_t n = join(w, w->a);
    bound(w, PAWL_SCOPE_TYPE, "t", 1);
    put_many(w, (spec){0}, 6);
    assert_int_equal(take(w, n, 10), 1);
    pawl_op *op = op_bound(w, PAWL_SCOPE_TYPE, "t", NULL, 4);
    pawl_batch b = apply_all(w, w->a, 0, &op, 1);
    assert_true(op->result == PAWL_OP_UPDATED && !op->u.bound.more);
    (void)b;
    assert_int_equal(take(w, n, 10), 3);
    assert_int_equal(apply(w, w->a, 0, op_bound(w, PAWL_SCOPE_TYPE, "t", NULL, 4)), PAWL_OP_EXISTING);
}

static void lowered_nothing_is_taken_away(world *w)
{
    int64_t n = join(w, w->a);
    bound(w, PAWL_SCOPE_TYPE, "t", 3);
    put_many(w, (spec){0}, 5);
    assert_int_equal(take(w, n, 10), 3);
    pawl_lease got[3] = {nth(w, 0), nth(w, 1), nth(w, 2)};
    assert_int_equal(apply(w, w->a, 0, op_bound(w, PAWL_SCOPE_TYPE, "t", NULL, 1)), PAWL_OP_UPDATED);
    for (int i = 0; i < 2; i++) {
        end(w, n, &got[i], PAWL_SUCCEEDED);
        assert_int_equal(take(w, n, 10), 0);
    }
    end(w, n, &got[2], PAWL_SUCCEEDED);
    assert_int_equal(take(w, n, 10), 1);
}

static void dropped_all_go_on(world *w)
{
    int64_t n = join(w, w->a);
    bound(w, PAWL_SCOPE_KEYS, "t", 1);
    put_many(w, (spec){.rate_key = "a"}, 20);
    put_many(w, (spec){.rate_key = "b"}, 20);
    assert_int_equal(take(w, n, 100), 2);
    pawl_op *op = op_bound(w, PAWL_SCOPE_KEYS, "t", NULL, 0);
    op->u.bound.move = 15;
    int pages = 0;
    do {
        pawl_op *again = keep(w, sizeof *again);
        *again = *op;
        apply(w, w->a, 0, again);
        op = again;
    } while (op->u.bound.more && ++pages < 10);
    assert_in_range(pages, 1, 4);
    assert_int_equal(take(w, n, 100), 38);
    assert_int_equal(places_of(w, (pawl_place_filter){.blocked = true})->count, 0);
    op = op_insert(w, (spec){.rate_key = "a", .ask_lease = true});
    apply(w, w->a, n, op);
    assert_true(op->out_fence > 0);
}

static void what_is_not_there_is_not_found(world *w)
{
    static const struct {
        pawl_scope scope;
        const char *name, *key;
    } all[] = {{PAWL_SCOPE_QUEUE, "q", NULL}, {PAWL_SCOPE_TYPE, "t", NULL},    {PAWL_SCOPE_KEYS, "t", NULL},
               {PAWL_SCOPE_KEYS, "t", "k"},   {PAWL_SCOPE_TENANTS, "q", NULL}, {PAWL_SCOPE_TENANTS, "q", "a"}};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        pawl_op *drop = op_bound(w, all[i].scope, all[i].name, all[i].key, 0);
        drop->by = "ann";
        assert_int_equal(apply(w, w->a, 0, drop), PAWL_OP_NOT_FOUND);
        assert_int_equal(acts_of(w, 0, 100)->count, i);
        assert_int_equal(apply(w, w->a, 0, op_bound(w, all[i].scope, all[i].name, all[i].key, 1)), PAWL_OP_DONE);
        assert_int_equal(apply(w, w->b, 0, drop), PAWL_OP_UPDATED);
        assert_int_equal(acts_of(w, 0, 100)->count, i + 1);
        assert_int_equal(apply(w, w->a, 0, op_bound(w, all[i].scope, all[i].name, all[i].key, 0)), PAWL_OP_NOT_FOUND);
    }
    assert_int_equal(places_of(w, (pawl_place_filter){0})->count, 0);
}

/* The pages behind the first change nothing that somebody else put meanwhile; what is free by then is offered. */
static void a_page_more_puts_nothing(world *w)
{
    int64_t n = join(w, w->a);
    bound(w, PAWL_SCOPE_TYPE, "t", 1);
    put_many(w, (spec){0}, 20);
    assert_int_equal(take(w, n, 100), 1);
    pawl_op *first = op_bound(w, PAWL_SCOPE_TYPE, "t", NULL, 0), *rest = op_bound(w, PAWL_SCOPE_TYPE, "t", NULL, 0);
    first->u.bound.move = rest->u.bound.move = 4;
    rest->u.bound.only_move = true;
    assert_int_equal(apply(w, w->a, 0, first), PAWL_OP_UPDATED);
    assert_true(first->u.bound.more);
    pawl_op *other = op_bound(w, PAWL_SCOPE_TYPE, "t", NULL, 6);
    other->u.bound.move = 0;
    assert_int_equal(apply(w, w->b, 0, other), PAWL_OP_DONE);
    assert_int_equal(apply(w, w->a, 0, rest), PAWL_OP_EXISTING);
    const pawl_places *places = places_of(w, (pawl_place_filter){.scope = PAWL_SCOPE_TYPE});
    assert_true(places->count == 1 && places->places[0].most == 6);
    int got = 0;
    for (int i = 0; i < 3; i++) got += take(w, n, 100);
    assert_int_equal(got, 5);
}

static void a_key_of_its_own_counts_more(world *w)
{
    int64_t n = join(w, w->a);
    bound(w, PAWL_SCOPE_KEYS, "t", 1);
    put_many(w, (spec){.rate_key = "k"}, 5);
    assert_int_equal(take(w, n, 10), 1);
    assert_int_equal(apply(w, w->a, 0, op_bound(w, PAWL_SCOPE_KEYS, "t", "k", 3)), PAWL_OP_DONE);
    assert_int_equal(take(w, n, 10), 2);
    assert_int_equal(apply(w, w->a, 0, op_bound(w, PAWL_SCOPE_KEYS, "t", "k", 0)), PAWL_OP_UPDATED);
    assert_int_equal(take(w, n, 10), 0);
    assert_spot(w, PAWL_SCOPE_KEYS, "t", "k", 3, 2);
}

static void long_keys(world *w)
{
    static char a[1001], b[1001];
    int64_t n = join(w, w->a);
    memset(a, 'x', 1000);
    memset(b, 'x', 1000);
    b[999] = 'y';
    bound(w, PAWL_SCOPE_KEYS, "t", 1);
    put_many(w, (spec){.rate_key = a}, 2);
    put_many(w, (spec){.rate_key = b}, 2);
    assert_int_equal(take(w, n, 10), 2);
    a[256] = '\0'; /* the longest that is known by itself */
    put(w, (spec){.rate_key = a});
    pawl_id blocked = put(w, (spec){.rate_key = a});
    assert_int_equal(take(w, n, 10), 1);
    assert_int_equal(apply(w, w->a, 0, op_cancel(w, blocked, NULL)), PAWL_OP_DONE);
    assert_spot(w, PAWL_SCOPE_KEYS, "t", a, 1, 0);
}

/* ---- order ------------------------------------------------------------------------------------------------------------- */

static void one_after_the_other(world *w)
{
    int64_t n = join(w, w->a);
    bound_in_order(w, "t");
    pawl_id ids[4];
    for (int i = 0; i < 4; i++) ids[i] = put(w, (spec){.rate_key = "k", .priority = -i});
    for (int i = 0; i < 4; i++) {
        pawl_lease got = take_this(w, n, ids[i]);
        assert_int_equal(take(w, n, 5), 0);
        end(w, n, &got, i == 2 ? PAWL_FAILED : PAWL_SUCCEEDED);
    }
}

static void retries_hold_up_those_behind(world *w)
{
    int64_t n = join(w, w->a);
    bound_in_order(w, "t");
    pawl_id first = put(w, (spec){.rate_key = "k"}), second = put(w, (spec){.rate_key = "k"});
    pawl_lease got = take_this(w, n, first);
    pawl_op *op = op_release(w, first, got.fence, 10 * S, PAWL_ATTEMPT_RETRY);
    apply_all(w, w->a, n, &op, 1);
    assert_int_equal(take(w, n, 5), 0);
    assert_spot(w, PAWL_SCOPE_KEYS, "t", "k", 1, 1);
    advance(w, 10 * S);
    got = take_this(w, n, first);
    end(w, n, &got, PAWL_SUCCEEDED);
    take_this(w, n, second);
}

static void one_for_later_holds_up_those_behind(world *w)
{
    int64_t n = join(w, w->a);
    bound_in_order(w, "t");
    pawl_id later = put(w, (spec){.rate_key = "k", .delay_us = S}), second = put(w, (spec){.rate_key = "k"});
    pawl_want want = claim(w, w->a, n, (wish){.free = 5});
    assert_true(want.got == 0 && want.next_due_us == w->clock.now_us + S);
    apply(w, w->a, 0, op_cancel(w, later, NULL));
    take_this(w, n, second);
}

static void a_rescue_keeps_the_order(world *w)
{
    int64_t n = join(w, w->a), dead = join(w, w->b);
    bound_in_order(w, "t");
    pawl_id first = put(w, (spec){.rate_key = "k"}), second = put(w, (spec){.rate_key = "k"});
    assert_int_equal(claim(w, w->b, dead, (wish){.free = 10}).got, 1);
    rescue_lapsed(w, w->a, n, dead, true);
    pawl_lease got = take_this(w, n, first);
    end(w, n, &got, PAWL_SUCCEEDED);
    take_this(w, n, second);
}

static void order_with_other_limits(world *w)
{
    int64_t n = join(w, w->a);
    bound_in_order(w, "t");
    bound(w, PAWL_SCOPE_QUEUE, "q", 1);
    pawl_id a1 = put(w, (spec){.rate_key = "a"}), b1 = put(w, (spec){.rate_key = "b"});
    pawl_id a2 = put(w, (spec){.rate_key = "a", .priority = -1}), b2 = put(w, (spec){.rate_key = "b", .priority = -1});
    pawl_id order[] = {a1, 0, 0, 0};
    for (int i = 0; i < 4; i++) {
        assert_int_equal(take(w, n, 5), 1);
        pawl_lease got = nth(w, 0);
        order[i] = got.id;
        end(w, n, &got, PAWL_SUCCEEDED);
    }
    int at[4] = {0};
    pawl_id all[] = {a1, a2, b1, b2};
    for (int i = 0; i < 4; i++)
        for (int k = 0; k < 4; k++)
            if (order[k] == all[i]) at[i] = k;
    assert_true(at[0] < at[1] && at[2] < at[3]);
}

static void no_longer_ordered(world *w)
{
    int64_t n = join(w, w->a);
    bound_in_order(w, "t");
    pawl_id first = put(w, (spec){.rate_key = "k"}), second = put(w, (spec){.rate_key = "k"});
    pawl_lease got = take_this(w, n, first);
    pawl_op *op = op_release(w, first, got.fence, 10 * S, PAWL_ATTEMPT_SNOOZED);
    apply_all(w, w->a, n, &op, 1);
    assert_int_equal(apply(w, w->a, 0, op_bound(w, PAWL_SCOPE_KEYS, "t", NULL, 1)), PAWL_OP_UPDATED);
    take_this(w, n, second);
}

/* ---- looking ------------------------------------------------------------------------------------------------------------- */

static void they_are_shown(world *w)
{
    int64_t n = join(w, w->a);
    bound(w, PAWL_SCOPE_QUEUE, "q", 9);
    bound(w, PAWL_SCOPE_TYPE, "u", 4);
    bound(w, PAWL_SCOPE_KEYS, "t", 1);
    pawl_id first = put(w, (spec){.rate_key = "k"}), second = put(w, (spec){.rate_key = "k"});
    assert_int_equal(take(w, n, 5), 1);
    pawl_places *all = places_of(w, (pawl_place_filter){0});
    assert_int_equal(all->count, 4);
    assert_true(all->places[0].scope == PAWL_SCOPE_QUEUE && all->places[0].taken == 1 && all->places[0].most == 9);
    assert_true(all->places[1].scope == PAWL_SCOPE_TYPE && strcmp(all->places[1].name, "u") == 0 && all->places[1].most == 4);
    assert_true(all->places[2].scope == PAWL_SCOPE_KEYS && all->places[2].key.len == 0 && all->places[2].own);
    assert_true(all->places[3].key.len == 1 && all->places[3].holder == first && all->places[3].blocked == 1);
    all = places_of(w, (pawl_place_filter){.task = second});
    assert_true(all->count == 1 && all->places[0].holder == first && all->places[0].scope == PAWL_SCOPE_KEYS);
    assert_int_equal(places_of(w, (pawl_place_filter){.task = first})->count, 0);
    assert_int_equal(places_of(w, (pawl_place_filter){.blocked = true})->count, 1);
    pawl_places *page = places_of(w, (pawl_place_filter){.limit = 3});
    assert_true(page->count == 3 && page->next);
    page = places_of(w, (pawl_place_filter){.limit = 3, .cursor = page->next});
    assert_true(page->count == 1 && !page->next && page->places[0].taken == 1);
    assert_int_equal(count_tasks(w, (pawl_filter){.state = "blocked"}), 1);
    assert_int_equal(count_tasks(w, (pawl_filter){.state = "pending"}), 1);
}

static void they_outlive_the_handle(world *w)
{
    if (!w->a->type->durable) return;
    int64_t n = join(w, w->a);
    bound(w, PAWL_SCOPE_TYPE, "t", 1);
    put_many(w, (spec){0}, 3);
    assert_int_equal(take(w, n, 5), 1);
    reopen(w);
    int64_t next = join(w, w->a);
    assert_int_equal(take(w, next, 5), 0);
    assert_spot(w, PAWL_SCOPE_TYPE, "t", "", 1, 2);
    rescue(w, w->a, next, n, 0, 10);
    assert_int_equal(take(w, next, 5), 1);
}

/* ---- tenants --------------------------------------------------------------------------------------------------------------- */

static void turns(world *w, const char *queue) { bound(w, PAWL_SCOPE_TENANTS, queue, 1); }

/* The tenants of the next `count` tasks, claimed one at a time or all at once. */
static const char *next_tenants(world *w, int64_t n, int count, bool at_once)
{
    char *text = keep(w, (size_t)count + 1);
    for (int i = 0; i < count;) {
        int got = take(w, n, at_once ? count : 1);
        assert_true(got > 0);
        for (int k = 0; k < got; k++) text[i++] = w->claimed[k].body->tenant[0] ? w->claimed[k].body->tenant[0] : '-';
    }
    return text;
}

static void tenants_take_turns(world *w)
{
    for (int at_once = 0; at_once < 2; at_once++) {
        int64_t n = join(w, w->a);
        if (!at_once) turns(w, "q");
        put_many(w, (spec){.tenant = "a"}, 20);
        put_many(w, (spec){.tenant = "b"}, 3);
        put_many(w, (spec){0}, 2);
        const char *seen = next_tenants(w, n, 9, at_once);
        int a = 0, b = 0, none = 0;
        for (const char *at = seen; *at; at++) a += *at == 'a', b += *at == 'b', none += *at == '-';
        assert_true(a == 4 && b == 3 && none == 2);
        assert_int_equal(strlen(next_tenants(w, n, 16, true)), 16); /* the rest is a's */
    }
}

static void by_weight(world *w)
{
    int64_t n = join(w, w->a);
    turns(w, "q");
    apply(w, w->a, 0, op_bound(w, PAWL_SCOPE_TENANTS, "q", "b", 3));
    put_many(w, (spec){.tenant = "a"}, 20);
    put_many(w, (spec){.tenant = "b"}, 20);
    const char *seen = next_tenants(w, n, 16, false);
    int a = 0;
    for (const char *at = seen; *at; at++) a += *at == 'a';
    assert_int_equal(a, 4);
    seen = next_tenants(w, n, 8, true);
    for (a = 0; *seen; seen++) a += *seen == 'a';
    assert_int_equal(a, 2);
}

/* However much each claim has room for, it goes on where the last one ended, also within a turn: the order repeats itself. */
static void turns_go_on(world *w)
{
    static const int rooms[] = {2, 1, 4, 3, 1, 1, 5, 2, 6};
    enum { ROUND = 5, ALL = 25 };
    char seen[ALL + 1] = {0};
    int64_t n = join(w, w->a);
    int count = 0, together = 0;
    turns(w, "q");
    apply(w, w->a, 0, op_bound(w, PAWL_SCOPE_TENANTS, "q", "b", 3));
    put_many(w, (spec){.tenant = "a"}, 10);
    put_many(w, (spec){.tenant = "b"}, 20);
    put_many(w, (spec){.tenant = "c"}, 10);
    for (size_t r = 0; r < sizeof rooms / sizeof *rooms; r++) {
        assert_int_equal(take(w, n, rooms[r]), rooms[r]);
        for (int i = 0; i < rooms[r]; i++) seen[count++] = w->claimed[i].body->tenant[0];
    }
    assert_int_equal(count, ALL);
    for (int i = 0; i + ROUND < ALL; i++) assert_int_equal(seen[i + ROUND], seen[i]);
    for (int i = 0; i < ROUND; i++) together += seen[i] == 'b' && seen[i + 1] == 'b';
    assert_int_equal(together, 2);
}

/* Tenants of one priority give way to those of a more urgent one, and those behind get what room is left. */
static void turns_of_two_priorities(world *w)
{
    int64_t n = join(w, w->a);
    turns(w, "q");
    put_many(w, (spec){.tenant = "a"}, 3);
    put_many(w, (spec){.tenant = "b"}, 3);
    put_many(w, (spec){.tenant = "c", .priority = -1}, 3);
    pawl_want want = claim(w, w->a, n, (wish){.free = 2});
    assert_true(want.got == 2 && want.more);
    for (int i = 0; i < 2; i++) assert_string_equal(w->claimed[i].body->tenant, "c");
    const char *seen = next_tenants(w, n, 3, true);
    assert_true(seen[0] == 'c' && ((seen[1] == 'a' && seen[2] == 'b') || (seen[1] == 'b' && seen[2] == 'a')));
    want = claim(w, w->a, n, (wish){.free = 4});
    assert_true(want.got == 4 && !want.more);
}

/* A task that was rescued has its turn like the others, but goes to a free worker only. */
static void turns_of_suspects(world *w)
{
    int64_t n = join(w, w->a), victim = join(w, w->a);
    turns(w, "q");
    put_many(w, (spec){.tenant = "a"}, 1);
    assert_int_equal(take(w, victim, 1), 1);
    rescue_lapsed(w, w->a, n, victim, true);
    put_many(w, (spec){.tenant = "b"}, 2);
    put_many(w, (spec){.tenant = "c"}, 1);
    pawl_want want = claim(w, w->a, n, (wish){.prefetch = 4});
    int got = want.got, suspects = 0;
    assert_true(want.more);
    for (int i = 0; i < got; i++) assert_false(w->claimed[i].suspect);
    for (; got < 4; got += want.got) {
        want = claim(w, w->a, n, (wish){.free = 4});
        assert_true(want.got > 0);
        for (int i = 0; i < want.got; i++) suspects += w->claimed[i].suspect;
    }
    assert_true(suspects == 1 && !want.more);
}

/* More than any store asks about at once: nobody comes twice before all the others came. */
static void turns_of_many(world *w)
{
    enum { MANY = 45 };
    static const int rooms[] = {MANY, 7, 1};
    int64_t n = join(w, w->a);
    turns(w, "q");
    for (size_t r = 0; r < sizeof rooms / sizeof *rooms; r++) {
        int times[MANY] = {0};
        for (int i = 0; i < 2 * MANY; i++) {
            char name[16];
            snprintf(name, sizeof name, "%d", i % MANY);
            put(w, (spec){.tenant = name});
        }
        for (int seen = 0; seen < 2 * MANY;) {
            int got = take(w, n, rooms[r]);
            assert_true(got > 0);
            for (int i = 0; i < got; i++, seen++) assert_int_equal(times[atoi(w->claimed[i].body->tenant)]++, seen / MANY);
        }
    }
}

/* Those that wait for one place stand in as many lines. */
static void lines_of_many(world *w)
{
    enum { MANY = 40 };
    int64_t n = join(w, w->a);
    bound(w, PAWL_SCOPE_QUEUE, "q", 1);
    for (int i = 0; i < MANY; i++) {
        char name[16];
        snprintf(name, sizeof name, "%d", i);
        put(w, (spec){.tenant = name});
    }
    for (int i = 0; i < MANY; i++) {
        assert_int_equal(take(w, n, 10), 1);
        pawl_lease one = nth(w, 0);
        assert_int_equal(end(w, n, &one, PAWL_SUCCEEDED).unblocked, i + 1 < MANY);
    }
}

static void priority_comes_first(world *w)
{
    int64_t n = join(w, w->a);
    turns(w, "q");
    put_many(w, (spec){.tenant = "b"}, 3);
    put_many(w, (spec){.tenant = "a", .priority = -1}, 3);
    assert_string_equal(next_tenants(w, n, 6, true), "aaabbb");
}

static void a_flood_from_before(world *w)
{
    int64_t n = join(w, w->a);
    put_many(w, (spec){.tenant = "a"}, 30);
    pawl_op *op = op_bound(w, PAWL_SCOPE_TENANTS, "q", NULL, 1);
    assert_int_equal(apply(w, w->a, 0, op), PAWL_OP_DONE);
    put_many(w, (spec){.tenant = "b"}, 2);
    const char *seen = next_tenants(w, n, 4, false);
    int b = 0;
    for (; *seen; seen++) b += *seen == 'b';
    assert_int_equal(b, 2);
    assert_int_equal(take(w, n, 100), 28);
}

static void a_page_more_begins_no_turns(world *w)
{
    int64_t n = join(w, w->a);
    pawl_op *page = op_bound(w, PAWL_SCOPE_TENANTS, "q", NULL, 1), *next = keep(w, sizeof *next);
    page->u.bound.only_move = page->u.bound.initial = true;
    page->u.bound.move = 2;
    *next = *page;
    put_many(w, (spec){.tenant = "a"}, 4);
    assert_int_equal(apply(w, w->a, 0, page), PAWL_OP_EXISTING);
    assert_false(page->u.bound.more);
    assert_int_equal(places_of(w, (pawl_place_filter){0})->count, 0);
    turns(w, "q");
    assert_int_equal(apply(w, w->a, 0, op_bound(w, PAWL_SCOPE_TENANTS, "q", NULL, 0)),
                     PAWL_OP_UPDATED); /* a person, between two pages */
    assert_int_equal(apply(w, w->a, 0, next), PAWL_OP_EXISTING);
    assert_false(next->u.bound.more);
    assert_int_equal(places_of(w, (pawl_place_filter){0})->count, 0);
    pawl_want want = claim(w, w->a, n, (wish){.free = 20});
    assert_true(want.got == 4 && !want.fair);
}

static void not_born_leased_where_they_do(world *w)
{
    int64_t n = join(w, w->a);
    turns(w, "q");
    pawl_op *op = op_insert(w, (spec){.ask_lease = true});
    apply(w, w->a, n, op);
    assert_int_equal(op->out_fence, 0);
    pawl_want want = claim(w, w->a, n, (wish){.free = 1});
    assert_true(want.got == 1 && want.fair);
}

static void times_and_types_count(world *w)
{
    int64_t n = join(w, w->a);
    turns(w, "q");
    put(w, (spec){.tenant = "a", .delay_us = S});
    put(w, (spec){.tenant = "a", .type = "unknown"});
    pawl_id b = put(w, (spec){.tenant = "b"});
    pawl_want want = claim(w, w->a, n, (wish){.free = 5, .types = {"t"}});
    assert_true(want.got == 1 && w->claimed[0].body->id == b && want.next_due_us == w->clock.now_us + S);
    assert_false(want.more);
    advance(w, S);
    want = claim(w, w->a, n, (wish){.free = 5, .types = {"t"}});
    assert_int_equal(want.got, 1);
}

static void switched_off_nothing_is_left(world *w)
{
    int64_t n = join(w, w->a);
    turns(w, "q");
    put_many(w, (spec){.tenant = "a"}, 4);
    assert_int_equal(apply(w, w->a, 0, op_bound(w, PAWL_SCOPE_TENANTS, "q", NULL, 0)), PAWL_OP_UPDATED);
    put_many(w, (spec){.tenant = "b"}, 4);
    assert_int_equal(queue_of(w, "q")->due, 8);
    pawl_want want = claim(w, w->a, n, (wish){.free = 20});
    assert_true(want.got == 8 && !want.fair);
}

static void turns_with_places(world *w)
{
    int64_t n = join(w, w->a);
    turns(w, "q");
    bound(w, PAWL_SCOPE_KEYS, "t", 1);
    put_many(w, (spec){.tenant = "a", .rate_key = "k"}, 5);
    put_many(w, (spec){.tenant = "b", .rate_key = "k"}, 5);
    put_many(w, (spec){.tenant = "b", .rate_key = "l"}, 1);
    int got = take(w, n, 10);
    while (w->news.unblocked && got < 2) got += take(w, n, 10);
    assert_int_equal(got, 2);
    assert_spot(w, PAWL_SCOPE_KEYS, "t", "k", 1, 9);
    for (int i = 0; i < 9; i++) { /* all come to their turn */
        const pawl_place_info *s = spot(w, PAWL_SCOPE_KEYS, "t", "k");
        pawl_op *op = op_finish(w, s->holder, fence_of(w, s->holder), PAWL_SUCCEEDED);
        assert_int_equal(apply(w, w->a, n, op), PAWL_OP_DONE);
        assert_int_equal(take(w, n, 10), 1);
    }
}

CASES(place_cases){
    {"place: no more than there are", no_more_than_there_are},
    {"place: of a queue", of_a_queue},
    {"place: of each key", of_each_key},
    {"place: all or none", all_or_none},
    {"place: a full queue lets its keys wait", a_full_queue_lets_its_keys_wait},
    {"place: never born leased", never_born_leased},
    {"place: only for workers that are free", only_for_workers_that_are_free},
    {"place: every end frees", every_end_frees},
    {"place: a lease taken back frees", a_lease_taken_back_frees},
    {"place: a rescue frees", a_rescue_frees},
    {"place: a cancelled one leaves its chance to the next", a_cancelled_one_leaves_its_chance_to_the_next},
    {"place: another queue is offered it, too", another_queue_is_offered_it_too},
    {"place: another type is offered it, too", another_type_is_offered_it_too},
    {"place: urgent ones first", urgent_ones_first},
    {"place: those blocked do not hide others", those_blocked_do_not_hide_others},
    {"place: a blocked flood costs others nothing", a_blocked_flood_costs_others_nothing},
    {"place: blocked as it comes", blocked_as_it_comes},
    {"place: a new body of one that is blocked", a_new_body_of_one_that_is_blocked},
    {"place: one sent again says that there may be something", one_sent_again_says_that_there_may_be_something},
    {"place: what runs is counted", what_runs_is_counted},
    {"place: raised, others go on", raised_others_go_on},
    {"place: lowered, nothing is taken away", lowered_nothing_is_taken_away},
    {"place: dropped, all go on", dropped_all_go_on},
    {"place: what is not there is not found", what_is_not_there_is_not_found},
    {"place: a page more puts nothing", a_page_more_puts_nothing},
    {"place: a key of its own counts more", a_key_of_its_own_counts_more},
    {"place: long keys are known by their hash", long_keys},
    {"order: one after the other", one_after_the_other},
    {"order: retries hold up those behind", retries_hold_up_those_behind},
    {"order: one for later holds up those behind", one_for_later_holds_up_those_behind},
    {"order: a rescue keeps it", a_rescue_keeps_the_order},
    {"order: with other limits", order_with_other_limits},
    {"order: no longer", no_longer_ordered},
    {"place: they are shown", they_are_shown},
    {"place: they outlive the handle", they_outlive_the_handle},
    {"turns: tenants take them", tenants_take_turns},
    {"turns: by weight", by_weight},
    {"turns: go on where a claim ended", turns_go_on},
    {"turns: of two priorities", turns_of_two_priorities},
    {"turns: of suspects", turns_of_suspects},
    {"turns: of many", turns_of_many},
    {"place: lines of many", lines_of_many},
    {"turns: priority comes first", priority_comes_first},
    {"turns: a flood from before", a_flood_from_before},
    {"turns: a page more begins none", a_page_more_begins_no_turns},
    {"turns: nothing is born leased", not_born_leased_where_they_do},
    {"turns: times and types count", times_and_types_count},
    {"turns: switched off, nothing is left", switched_off_nothing_is_left},
    {"turns: with places", turns_with_places},
    {NULL, NULL},
};
