/* Rescue: who is a victim, and what becomes of its tasks. */
#include "contract.h"

typedef struct scene {
    int64_t rescuer, victim;
    pawl_id id;
    int64_t fence;
} scene;

static scene a_victim(world *w, spec s)
{
    scene c = {.rescuer = join(w, w->a), .victim = join(w, w->b)};
    s.ask_lease = true;
    pawl_op *op = op_insert(w, s);
    apply(w, w->b, c.victim, op);
    assert_true(op->out_fence > 0);
    c.id = op->id;
    c.fence = op->out_fence;
    return c;
}

static void frees_the_tasks(world *w)
{
    scene c = a_victim(w, (spec){.priority = 2});
    pawl_rescue call = rescue_lapsed(w, w->a, c.rescuer, c.victim, true);
    assert_true(call.freed == 1 && call.failed == 0 && !call.more);
    assert_true(call.tasks[0].id == c.id && call.tasks[0].fence == c.fence);
    pawl_info *info = get(w, c.id);
    assert_int_equal(info->state, PAWL_PENDING);
    assert_string_equal(info->display, "pending");
    assert_true(info->rescues == 1 && info->failures == 0 && info->interruptions == 0 && info->node == 0 && info->attempt == 1);
    assert_int_equal(info->attempts_count, 1);
    assert_string_equal(info->attempts[0].outcome, "rescued");
    assert_true(info->attempts[0].finished_us == 0 && info->attempts[0].started_us > 0 && info->attempts[0].node == c.victim);
    assert_int_equal(apply(w, w->b, c.victim, op_finish(w, c.id, c.fence, PAWL_SUCCEEDED)), PAWL_OP_STALE);
    pawl_claimed got = claim_one(w, w->a, c.rescuer);
    assert_true(got.body->id == c.id && got.suspect && got.rescues == 1 && got.runs == 1 && got.fence > c.fence);
    assert_true(got.body->priority == 2);
}

static void nobody_rescues_the_living(world *w)
{
    scene c = a_victim(w, (spec){0});
    pawl_rescue call = rescue(w, w->a, c.rescuer, c.victim, 1, 10);
    assert_true(call.refused && call.freed == 0);
    advance(w, LEASE);
    int64_t renewal = renewal_of(w, w->a, c.rescuer, c.victim);
    assert_true(rescue(w, w->a, c.rescuer, c.victim, renewal + 1, 10).refused);
    renew(w, w->b, c.victim);
    assert_true(rescue(w, w->a, c.rescuer, c.victim, renewal, 10).refused);
    advance(w, LEASE);
    assert_true(rescue(w, w->a, c.rescuer, c.victim, renewal, 10).refused);
    assert_state(w, c.id, PAWL_LEASED);
    if (!w->kind->no_session) assert_true(node_of(w, c.victim)->alive);
    assert_int_equal(apply(w, w->b, c.victim, op_finish(w, c.id, c.fence, PAWL_SUCCEEDED)), PAWL_OP_DONE);
}

static void a_stepped_wall_clock_rescues_nobody(world *w)
{
    scene c = a_victim(w, (spec){0});
    step_wall(w, 365 * PAWL_DAY);
    assert_true(renewal_of(w, w->a, c.rescuer, c.victim) == -1);
    assert_true(rescue(w, w->a, c.rescuer, c.victim, 1, 10).refused);
    assert_state(w, c.id, PAWL_LEASED);
}

static void an_idle_node_stays_alive(world *w)
{
    int64_t n = join(w, w->a), idle = join(w, w->b);
    advance(w, PAWL_DAY);
    for (int64_t renewal = 0; renewal < 3; renewal++) rescue(w, w->a, n, idle, renewal, 10);
    insert(w, w->a, n, (spec){0});
    claim_one(w, w->b, idle);
    assert_false(w->news.node_dead);
}

static void a_lease_is_never_granted_after_the_rescue(world *w)
{
    scene c = a_victim(w, (spec){0});
    rescue_lapsed(w, w->a, c.rescuer, c.victim, true);
    insert(w, w->a, c.rescuer, (spec){0});
    renew(w, w->b, c.victim);
    assert_int_equal(claim(w, w->b, c.victim, (wish){.free = 5, .solo = true}).got, 0);
    pawl_op *op = op_insert(w, (spec){.ask_lease = true});
    assert_true(apply_all(w, w->b, c.victim, &op, 1).node_dead);
    assert_true(op->out_fence == 0);
    pawl_lease *leases;
    assert_int_equal(held(w, w->a, c.victim, &leases), 0);
    int64_t reborn = join(w, w->b);
    assert_int_equal(claim(w, w->b, reborn, (wish){.free = 5, .solo = true}).got, 3);
}

static void in_pages(world *w)
{
    int64_t n = join(w, w->a), victim = join(w, w->b);
    for (int i = 0; i < 5; i++) insert(w, w->b, victim, (spec){.ask_lease = true});
    advance(w, LEASE);
    int64_t renewal = renewal_of(w, w->a, n, victim);
    pawl_rescue call = rescue(w, w->a, n, victim, renewal, 2);
    assert_true(call.freed == 2 && call.more);
    assert_true(stats_of(w, PAWL_HOUR)->leased == 3 && stats_of(w, PAWL_HOUR)->pending == 2);
    renew(w, w->b, victim);
    assert_true(w->news.node_dead);
    call = rescue(w, w->a, n, victim, renewal, 2);
    assert_true(!call.refused && call.freed == 2 && call.more);
    call = rescue(w, w->a, n, victim, renewal, 2);
    assert_true(call.freed == 1 && !call.more);
    call = rescue(w, w->a, n, victim, renewal, 2);
    assert_true(call.freed == 0 && !call.more);
    assert_true(stats_of(w, PAWL_HOUR)->leased == 0 && stats_of(w, PAWL_HOUR)->pending == 5);
}

static void what_was_to_be_cancelled_is(world *w)
{
    scene c = a_victim(w, (spec){0});
    apply(w, w->a, c.rescuer, op_cancel(w, c.id, NULL));
    pawl_rescue call = rescue_lapsed(w, w->a, c.rescuer, c.victim, true);
    assert_int_equal(call.failed, 0);
    assert_state(w, c.id, PAWL_CANCELLED);
    assert_true(get(w, c.id)->finished_us == w->clock.now_us);
    assert_int_equal(claim(w, w->a, c.rescuer, (wish){.free = 1, .solo = true}).got, 0);
}

static void what_had_not_started_has_no_attempt(world *w)
{
    int64_t n = join(w, w->a), victim = join(w, w->b);
    pawl_id id = insert(w, w->a, n, (spec){.key = "k"});
    claim(w, w->b, victim, (wish){.prefetch = 1});
    assert_true(w->claimed[0].not_started);
    rescue_lapsed(w, w->a, n, victim, true);
    pawl_info *info = get(w, id);
    assert_true(info->state == PAWL_PENDING && info->attempts_count == 0 && info->attempt == 0 && info->rescues == 1);
}

static void a_closed_handle_proves_death(world *w)
{
    pawl_store *third = open_handle(w);
    int64_t n = join(w, w->a), victim = join(w, third);
    pawl_op *op = op_insert(w, (spec){.ask_lease = true});
    apply(w, third, victim, op);
    close_handle(w, &third);
    assert_true(renewal_of(w, w->a, n, victim) >= 0);
    assert_true(w->news.lapsed[0].proven_dead);
    pawl_rescue call = rescue(w, w->a, n, victim, -1, 10);
    assert_true(!call.refused && call.freed == 1);
    assert_state(w, op->id, PAWL_PENDING);
}

static void nobody_by_that_name(world *w)
{
    int64_t n = join(w, w->a);
    pawl_rescue call = rescue(w, w->a, n, 123456, 0, 10);
    assert_true(call.freed == 0 && call.failed == 0 && !call.more);
}

static void a_stale_run_shows_as_stale(world *w)
{
    scene c = a_victim(w, (spec){0});
    assert_string_equal(get(w, c.id)->display, "running");
    advance(w, LEASE);
    assert_string_equal(get(w, c.id)->display, "stale");
    renew(w, w->b, c.victim);
    assert_string_equal(get(w, c.id)->display, "running");
}

static void the_freed_are_due_at_once(world *w)
{
    scene c = a_victim(w, (spec){0});
    step_wall(w, -PAWL_HOUR);
    rescue_lapsed(w, w->a, c.rescuer, c.victim, true);
    assert_true(get(w, c.id)->run_at_us <= w->clock.now_us);
    claim_one(w, w->a, c.rescuer);
}

CASES(rescue_cases){
    {"rescue: frees the tasks", frees_the_tasks},
    {"rescue: nobody rescues the living", nobody_rescues_the_living},
    {"rescue: a stepped wall clock rescues nobody", a_stepped_wall_clock_rescues_nobody},
    {"rescue: an idle node stays alive", an_idle_node_stays_alive},
    {"rescue: a lease is never granted after it", a_lease_is_never_granted_after_the_rescue},
    {"rescue: in pages", in_pages},
    {"rescue: what was to be cancelled is", what_was_to_be_cancelled_is},
    {"rescue: what had not started has no attempt", what_had_not_started_has_no_attempt},
    {"rescue: a closed handle proves death", a_closed_handle_proves_death},
    {"rescue: nobody by that name", nobody_by_that_name},
    {"rescue: before it, the run shows as stale", a_stale_run_shows_as_stale},
    {"rescue: the freed are due at once", the_freed_are_due_at_once},
    {NULL, NULL},
};
