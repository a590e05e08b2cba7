/* Suspects: rescued tasks, start marks, strikes, and those that run alone. */
#include "contract.h"

/* Leases what is due to a new node and lets that node die; with `mark`, its suspects had begun. */
static pawl_rescue die_with(world *w, int64_t rescuer, int count, bool mark, bool counts)
{
    int64_t victim = join(w, w->b);
    for (int got = 0; got < count;) {
        claim(w, w->b, victim, (wish){.free = count - got, .solo = true});
        assert_true(w->claimed_count > 0);
        for (int i = 0; i < w->claimed_count; i++) {
            pawl_op *start = op_start(w, w->claimed[i].body->id, w->claimed[i].fence, true);
            if (mark) assert_int_equal(apply(w, w->b, victim, start), PAWL_OP_DONE);
        }
        got += w->claimed_count;
    }
    return rescue_lapsed(w, w->a, rescuer, victim, counts);
}

static void only_straight_into_free_workers(world *w)
{
    int64_t n = join(w, w->a);
    for (int i = 0; i < 3; i++) insert(w, w->a, n, (spec){.priority = -1});
    die_with(w, n, 3, false, true);
    pawl_id other = insert(w, w->a, n, (spec){0});
    pawl_want want = claim(w, w->a, n, (wish){.prefetch = 5});
    assert_true(want.got == 1 && w->claimed[0].body->id == other && !w->claimed[0].suspect);
    assert_true(want.more);
    want = claim(w, w->a, n, (wish){.free = 2, .prefetch = 5});
    assert_int_equal(want.got, 2);
    assert_true(w->claimed[0].suspect && w->claimed[1].suspect && !w->claimed[0].solo);
    assert_int_equal(claim(w, w->a, n, (wish){.free = 2}).got, 1);
}

static void not_beyond_them_whatever_the_type(world *w)
{
    int64_t n = join(w, w->a);
    pawl_id suspect = insert(w, w->a, n, (spec){.type = "u"});
    die_with(w, n, 1, false, true);
    pawl_id urgent = insert(w, w->a, n, (spec){.priority = -1}), later = insert(w, w->a, n, (spec){.priority = 1});
    pawl_want want = claim(w, w->a, n, (wish){.free = 1, .prefetch = 5});
    assert_true(want.got == 2 && want.more);
    assert_true(w->claimed[0].body->id == urgent && w->claimed[1].body->id == later);
    assert_true(claim_one(w, w->a, n).body->id == suspect);
}

static void unmarked_rescues_do_not_count(world *w)
{
    int64_t n = join(w, w->a);
    pawl_id id = insert(w, w->a, n, (spec){0});
    for (int i = 0; i < 6; i++) {
        pawl_rescue call = die_with(w, n, 1, false, true);
        assert_true(call.freed == 1 && call.failed == 0);
    }
    assert_state(w, id, PAWL_PENDING);
    assert_int_equal(get(w, id)->rescues, 6);
}

static void the_third_counted_rescue_ends_it(world *w)
{
    int64_t n = join(w, w->a);
    pawl_id id = insert(w, w->a, n, (spec){0});
    die_with(w, n, 1, false, true);
    for (int i = 0; i < 2; i++) assert_int_equal(die_with(w, n, 1, true, true).freed, 1);
    assert_state(w, id, PAWL_PENDING);
    pawl_rescue call = die_with(w, n, 1, true, true);
    assert_true(call.failed == 1 && call.freed == 0 && call.tasks[0].id == id);
    pawl_info *info = get(w, id);
    assert_int_equal(info->state, PAWL_FAILED);
    assert_string_equal(info->reason, "rescued_too_often");
    assert_true(info->rescues == 4 && info->failures == 0 && info->attempts_count == 4);
    assert_string_equal(info->attempts[3].outcome, "rescued");
    assert_int_equal(queue_of(w, "q")->failed, 1);
    assert_int_equal(count_tasks(w, (pawl_filter){.unresolved = true}), 1);
}

static void an_outage_blames_nobody(world *w)
{
    int64_t n = join(w, w->a);
    pawl_id id = insert(w, w->a, n, (spec){0});
    for (int i = 0; i < 6; i++) die_with(w, n, 1, true, false);
    assert_state(w, id, PAWL_PENDING);
}

static void neighbours_are_innocent(world *w)
{
    int64_t n = join(w, w->a);
    pawl_id poison = insert(w, w->a, n, (spec){.priority = -1});
    die_with(w, n, 1, false, true);
    pawl_id neighbour = insert(w, w->a, n, (spec){0});
    for (int i = 0; i < 3; i++) {
        int64_t victim = join(w, w->b);
        claim(w, w->b, victim, (wish){.free = 2, .solo = true});
        assert_true(w->claimed_count == 2 && w->claimed[0].body->id == poison);
        apply(w, w->b, victim, op_start(w, poison, w->claimed[0].fence, true));
        rescue_lapsed(w, w->a, n, victim, true);
    }
    assert_state(w, poison, PAWL_FAILED);
    assert_state(w, neighbour, PAWL_PENDING);
}

static void several_marked_run_alone_from_then_on(world *w)
{
    int64_t n = join(w, w->a);
    pawl_id ids[3];
    for (int i = 0; i < 3; i++) ids[i] = insert(w, w->a, n, (spec){0});
    die_with(w, n, 3, false, true);
    assert_int_equal(die_with(w, n, 3, true, true).freed, 3);
    assert_int_equal(claim(w, w->a, n, (wish){.free = 3}).got, 0);
    pawl_want want = claim(w, w->a, n, (wish){.free = 3, .solo = true});
    assert_true(want.got == 1 && w->claimed[0].solo && w->claimed[0].suspect && w->claimed[0].body->id == ids[0]);
    assert_true(want.more);
    assert_int_equal(claim(w, w->a, n, (wish){.prefetch = 3, .solo = true}).got, 0);
    insert(w, w->a, n, (spec){.priority = 3});
    want = claim(w, w->a, n, (wish){.free = 3, .solo = true});
    assert_int_equal(want.got, 2);
    assert_true(w->claimed[0].solo != w->claimed[1].solo);
}

static void one_alone_of_all_types(world *w)
{
    static const char *const types[] = {"t", "u", "v"};
    int64_t n = join(w, w->a);
    for (int i = 0; i < 3; i++) insert(w, w->a, n, (spec){.type = types[i]});
    die_with(w, n, 3, false, true);
    die_with(w, n, 3, true, true);
    assert_int_equal(claim(w, w->a, n, (wish){.free = 3, .solo = true}).got, 1);
}

static void a_refused_start_leaves_no_mark(world *w)
{
    int64_t n = join(w, w->a);
    pawl_id guilty = insert(w, w->a, n, (spec){.priority = -1});
    die_with(w, n, 1, false, true);
    for (int i = 0; i < 3; i++) {
        int64_t victim = join(w, w->b);
        pawl_claimed got = claim_one(w, w->b, victim);
        assert_true(got.body->id == guilty);
        pawl_op *other = op_insert(w, (spec){.ask_lease = true});
        apply(w, w->b, victim, other);
        apply(w, w->a, n, op_cancel(w, other->id, NULL));
        assert_int_equal(apply(w, w->b, victim, op_start(w, other->id, other->out_fence, true)), PAWL_OP_CANCELLING);
        assert_int_equal(apply(w, w->b, victim, op_start(w, guilty, got.fence, true)), PAWL_OP_DONE);
        rescue_lapsed(w, w->a, n, victim, true);
    }
    assert_state(w, guilty, PAWL_FAILED);
}

static void several_marked_in_pages(world *w)
{
    int64_t n = join(w, w->a), victim;
    for (int i = 0; i < 2; i++) insert(w, w->a, n, (spec){0});
    die_with(w, n, 2, false, true);
    for (int round = 0; round < 3; round++) {
        victim = join(w, w->b);
        for (int got = 0; got < 2; got += w->claimed_count) {
            claim(w, w->b, victim, (wish){.free = 2, .solo = true});
            assert_true(w->claimed_count > 0);
            for (int i = 0; i < w->claimed_count; i++)
                apply(w, w->b, victim, op_start(w, w->claimed[i].body->id, w->claimed[i].fence, true));
        }
        advance(w, LEASE);
        int64_t renewal = renewal_of(w, w->a, n, victim);
        for (int i = 0; i < 2; i++) assert_int_equal(rescue(w, w->a, n, victim, renewal, 1).freed, 1);
    }
    assert_int_equal(stats_of(w, PAWL_HOUR)->pending, 2);
    assert_int_equal(claim(w, w->a, n, (wish){.free = 2, .solo = true}).got, 1);
}

static void a_normal_return_clears_suspicion(world *w)
{
    int64_t n = join(w, w->a);
    pawl_id id = insert(w, w->a, n, (spec){0});
    die_with(w, n, 1, false, true);
    pawl_claimed got = claim_one(w, w->a, n);
    assert_true(got.suspect);
    apply(w, w->a, n, op_start(w, id, got.fence, true));
    apply(w, w->a, n, op_release(w, id, got.fence, 0, PAWL_ATTEMPT_RETRY));
    claim(w, w->a, n, (wish){.prefetch = 1});
    assert_int_equal(w->claimed_count, 1);
    assert_false(w->claimed[0].suspect);
}

static void giving_it_back_unrun_does_not(world *w)
{
    int64_t n = join(w, w->a);
    pawl_id id = insert(w, w->a, n, (spec){0});
    die_with(w, n, 1, false, true);
    pawl_claimed got = claim_one(w, w->a, n);
    apply(w, w->a, n, op_release(w, id, got.fence, -1, PAWL_ATTEMPT_NONE));
    assert_int_equal(claim(w, w->a, n, (wish){.prefetch = 1}).got, 0);
    assert_true(claim_one(w, w->a, n).suspect);
}

static void a_mark_lasts_for_one_lease(world *w)
{
    int64_t n = join(w, w->a);
    pawl_id id = insert(w, w->a, n, (spec){0});
    die_with(w, n, 1, false, true);
    for (int i = 0; i < 2; i++) die_with(w, n, 1, true, true);
    pawl_claimed got = claim_one(w, w->a, n);
    apply(w, w->a, n, op_start(w, id, got.fence, true));
    apply(w, w->a, n, op_release(w, id, got.fence, 0, PAWL_ATTEMPT_NONE));
    assert_int_equal(die_with(w, n, 1, false, true).failed, 0);
    assert_int_equal(die_with(w, n, 1, true, true).failed, 1);
    assert_state(w, id, PAWL_FAILED);
}

CASES(suspect_cases){
    {"suspect: only straight into free workers", only_straight_into_free_workers},
    {"suspect: not beyond them, whatever the type", not_beyond_them_whatever_the_type},
    {"suspect: unmarked rescues do not count", unmarked_rescues_do_not_count},
    {"suspect: the third counted rescue ends it", the_third_counted_rescue_ends_it},
    {"suspect: an outage blames nobody", an_outage_blames_nobody},
    {"suspect: neighbours are innocent", neighbours_are_innocent},
    {"suspect: several marked run alone from then on", several_marked_run_alone_from_then_on},
    {"suspect: one alone of all types", one_alone_of_all_types},
    {"suspect: a refused start leaves no mark", a_refused_start_leaves_no_mark},
    {"suspect: several marked, rescued in pages", several_marked_in_pages},
    {"suspect: a normal return clears suspicion", a_normal_return_clears_suspicion},
    {"suspect: giving it back unrun does not", giving_it_back_unrun_does_not},
    {"suspect: a mark lasts for one lease", a_mark_lasts_for_one_lease},
    {NULL, NULL},
};
