/* Renewals, what they tell, and what a node holds. */
#include "contract.h"

static void nobody_else_holds_anything(world *w)
{
    int64_t n = join(w, w->a);
    join(w, w->b);
    insert(w, w->a, n, (spec){.ask_lease = true});
    pawl_renewal call = renew(w, w->a, n);
    assert_int_equal(call.held, 1);
    assert_true(!w->news.node_dead && w->news.store_now_us == w->clock.now_us);
    assert_true(w->news.foreign_expiry_us == -1 && w->news.lapsed_count == 0);
}

static void the_earliest_foreign_expiry(world *w)
{
    int64_t n = join(w, w->a), slow = join_as(w, w->b, "slow", "q", "*", 2 * LEASE), fast = join(w, w->b);
    insert(w, w->b, slow, (spec){.ask_lease = true});
    renew(w, w->a, n);
    assert_true(w->news.foreign_expiry_us == 2 * LEASE);
    insert(w, w->b, fast, (spec){.ask_lease = true});
    advance(w, PAWL_SECOND);
    renew(w, w->a, n);
    assert_true(w->news.foreign_expiry_us == LEASE - PAWL_SECOND && w->news.lapsed_count == 0);
    step_wall(w, PAWL_HOUR);
    renew(w, w->a, n);
    assert_true(w->news.foreign_expiry_us == LEASE - PAWL_SECOND && w->news.lapsed_count == 0);
    claim(w, w->a, n, (wish){.free = 0});
    assert_true(w->news.foreign_expiry_us == LEASE - PAWL_SECOND);
    renew(w, w->b, fast);
    assert_true(w->news.foreign_expiry_us == 2 * LEASE - PAWL_SECOND);
    renew(w, w->a, n);
    assert_true(w->news.foreign_expiry_us == LEASE);
}

static void the_lapsed_are_named(world *w)
{
    int64_t n = join(w, w->a), victim = join(w, w->b);
    insert(w, w->b, victim, (spec){.ask_lease = true});
    advance(w, LEASE - 1);
    assert_true(renewal_of(w, w->a, n, victim) == -1);
    advance(w, 1);
    int64_t renewal = renewal_of(w, w->a, n, victim);
    assert_true(renewal >= 0 && w->news.foreign_expiry_us == 0 && w->news.lapsed_count == 1);
    assert_false(w->news.lapsed[0].proven_dead);
    advance(w, PAWL_HOUR);
    assert_true(renewal_of(w, w->a, n, victim) == renewal);
    renew(w, w->b, victim);
    assert_true(renewal_of(w, w->a, n, victim) == -1);
    advance(w, LEASE);
    assert_true(renewal_of(w, w->a, n, victim) == renewal + 1);
    renew(w, w->b, victim);
    for (int i = 0; i < w->news.lapsed_count; i++) assert_true(w->news.lapsed[i].node != victim);
}

static void without_leases_nobody_is_a_victim(world *w)
{
    int64_t n = join(w, w->a), idle = join(w, w->b);
    pawl_op *op = op_insert(w, (spec){.ask_lease = true});
    apply(w, w->b, idle, op);
    apply(w, w->b, idle, op_finish(w, op->id, op->out_fence, PAWL_SUCCEEDED));
    advance(w, 2 * LEASE);
    assert_true(renewal_of(w, w->a, n, idle) == -1 && w->news.foreign_expiry_us == -1);
}

static void the_half_rescued_are_proven_dead(world *w)
{
    int64_t n = join(w, w->a), victim = join(w, w->b);
    for (int i = 0; i < 3; i++) insert(w, w->b, victim, (spec){.ask_lease = true});
    advance(w, LEASE);
    assert_true(rescue(w, w->a, n, victim, renewal_of(w, w->a, n, victim), 2).more);
    renew(w, w->a, n);
    assert_int_equal(w->news.lapsed_count, 1);
    assert_true(w->news.lapsed[0].node == victim && w->news.lapsed[0].proven_dead);
    assert_true(w->news.foreign_expiry_us == -1);
}

static void cancels_come_with_their_fences(world *w)
{
    int64_t n = join(w, w->a);
    pawl_op *ops[3];
    for (int i = 0; i < 3; i++) ops[i] = op_insert(w, (spec){.ask_lease = true});
    apply_all(w, w->a, n, ops, 3);
    apply(w, w->b, 0, op_cancel(w, ops[0]->id, NULL));
    apply(w, w->b, 0, op_cancel(w, ops[2]->id, NULL));
    renew(w, w->a, n);
    assert_int_equal(w->news.cancels_count, 2);
    for (int i = 0; i < 2; i++) {
        const pawl_lease *c = &w->news.cancels[i];
        assert_true((c->id == ops[0]->id || c->id == ops[2]->id) && c->fence == 1);
    }
}

static void more_cancels_than_fit(world *w)
{
    enum { MANY = PAWL_CANCELS_MAX + 44 };
    int64_t n = join(w, w->a);
    pawl_op *ops[MANY], *cancels[MANY];
    for (int i = 0; i < MANY; i++) ops[i] = op_insert(w, (spec){.ask_lease = true});
    apply_all(w, w->a, n, ops, MANY);
    for (int i = 0; i < MANY; i++) cancels[i] = op_cancel(w, ops[i]->id, NULL);
    apply_all(w, w->b, 0, cancels, MANY);
    int told = 0;
    while (told < MANY) {
        assert_int_equal(renew(w, w->a, n).held, MANY - told);
        int some = w->news.cancels_count;
        assert_true(some > 0 && some <= PAWL_CANCELS_MAX);
        for (int i = 0; i < some; i++) cancels[i] = op_finish(w, w->news.cancels[i].id, w->news.cancels[i].fence, PAWL_CANCELLED);
        apply_all(w, w->a, n, cancels, some);
        for (int i = 0; i < some; i++) assert_int_equal(cancels[i]->result, PAWL_OP_DONE);
        told += some;
    }
    assert_int_equal(told, MANY);
}

static void renew_for_the_dead(world *w)
{
    int64_t n = join(w, w->a), other = join(w, w->b);
    insert(w, w->a, n, (spec){.ask_lease = true});
    rescue_lapsed(w, w->b, other, n, true);
    assert_int_equal(renew(w, w->a, n).held, 0);
    assert_true(w->news.node_dead);
    assert_false(node_of(w, n)->alive);
    assert_true(node_of(w, n)->expires_us == 0);
    renew(w, w->a, 424242);
    assert_true(w->news.node_dead);
}

static void what_a_node_holds(world *w)
{
    int64_t n = join(w, w->a), other = join(w, w->b);
    pawl_op *ops[4];
    for (int i = 0; i < 4; i++) ops[i] = op_insert(w, (spec){.ask_lease = true});
    apply_all(w, w->a, n, ops, 4);
    insert(w, w->b, other, (spec){.ask_lease = true});
    apply(w, w->a, n, op_finish(w, ops[1]->id, 1, PAWL_SUCCEEDED));
    apply(w, w->b, 0, op_cancel(w, ops[2]->id, NULL));
    pawl_lease *leases;
    assert_int_equal(held(w, w->a, n, &leases), 3);
    for (int i = 0; i < 3; i++) {
        bool known = leases[i].id == ops[0]->id || leases[i].id == ops[2]->id || leases[i].id == ops[3]->id;
        assert_true(known && leases[i].fence == 1);
    }
    assert_int_equal(renew(w, w->a, n).held, 3);
    assert_int_equal(held(w, w->a, 777777, &leases), 0);
}

CASES(news_cases){
    {"news: nobody else holds anything", nobody_else_holds_anything},
    {"news: the earliest foreign expiry, by the boot clock", the_earliest_foreign_expiry},
    {"news: the lapsed are named with their renewal", the_lapsed_are_named},
    {"news: without leases nobody is a victim", without_leases_nobody_is_a_victim},
    {"news: the half rescued are proven dead", the_half_rescued_are_proven_dead},
    {"news: cancels come with their fences", cancels_come_with_their_fences},
    {"news: more cancels than fit come later", more_cancels_than_fit},
    {"renew: for the dead", renew_for_the_dead},
    {"held: what a node holds", what_a_node_holds},
    {NULL, NULL},
};
