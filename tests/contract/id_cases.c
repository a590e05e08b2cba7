/* Node numbers for ids: no two owners ever have the same number for the same millisecond. */
#include "base/idgen.h"
#include "contract.h"

static int64_t now_ms(const world *w) { return w->clock.now_us / 1000 - PAWL_EPOCH_MS; }

static void a_number_with_room_ahead(world *w)
{
    int64_t n = join(w, w->a);
    pawl_ids ids = take_ids(w, w->a, n, 0, 0);
    assert_in_range(ids.out_number, 1, ID_NUMBER_MAX);
    assert_true(ids.ceiling_ms >= now_ms(w) + 600000 && ids.floor_ms < now_ms(w));
}

static void the_living_have_different_numbers(world *w)
{
    int64_t n = join(w, w->a), other = join(w, w->b);
    pawl_ids a = take_ids(w, w->a, n, 0, 0), b = take_ids(w, w->b, other, 0, 0);
    assert_int_not_equal(a.out_number, b.out_number);
}

static void an_owner_raises_its_ceiling(world *w)
{
    int64_t n = join(w, w->a);
    pawl_ids first = take_ids(w, w->a, n, 0, 0);
    advance(w, 5 * PAWL_MINUTE);
    pawl_ids more = take_ids(w, w->a, n, first.out_number, now_ms(w));
    assert_int_equal(more.out_number, first.out_number);
    assert_true(more.ceiling_ms >= now_ms(w) + 600000);
    int64_t used_ms = more.ceiling_ms - 1;
    more = take_ids(w, w->a, n, first.out_number, used_ms);
    assert_true(more.ceiling_ms >= used_ms + 600000);
}

static void a_ceiling_never_sinks(world *w)
{
    int64_t n = join(w, w->a);
    pawl_ids first = take_ids(w, w->a, n, 0, 0);
    step_wall(w, -PAWL_HOUR);
    pawl_ids more = take_ids(w, w->a, n, first.out_number, now_ms(w));
    assert_int_equal(more.out_number, first.out_number);
    assert_true(more.ceiling_ms >= first.ceiling_ms);
}

static void whoever_takes_over_starts_above(world *w)
{
    int64_t n = join(w, w->a), other = join(w, w->b);
    pawl_ids old = take_ids(w, w->a, n, 0, 0), new = {0};
    assert_int_equal(w->a->type->leave(w->a, n, &w->err), PAWL_OK);
    step_wall(w, -PAWL_HOUR);
    for (int i = 0; i < ID_NUMBER_MAX && new.out_number != old.out_number; i++) new = take_ids(w, w->b, other, 0, 0);
    assert_int_equal(new.out_number, old.out_number);
    assert_true(new.floor_ms >= old.ceiling_ms - 1 && new.ceiling_ms > new.floor_ms + 1);
}

static void give_back(world *w, pawl_store *store, int64_t node, int number, int64_t used_ms)
{
    pawl_ids call = {.node = node, .number = number, .used_ms = used_ms, .give_back = true};
    assert_int_equal(store->type->take_ids(store, &call, &w->err), PAWL_OK);
}

static void a_lost_number_is_replaced(world *w)
{
    int64_t n = join(w, w->a), other = join(w, w->b);
    pawl_ids old = take_ids(w, w->a, n, 0, 0), taken = {0};
    advance(w, PAWL_HOUR);
    for (int i = 0; i < ID_NUMBER_MAX && taken.out_number != old.out_number; i++) {
        if (i == 1) give_back(w, w->b, other, taken.out_number, taken.ceiling_ms - 1);
        taken = take_ids(w, w->b, other, 0, 0);
    }
    assert_int_equal(taken.out_number, old.out_number);
    assert_true(taken.floor_ms >= old.ceiling_ms - 1);
    pawl_ids again = take_ids(w, w->a, n, old.out_number, old.ceiling_ms - 1);
    assert_int_not_equal(again.out_number, old.out_number);
}

static void a_passed_ceiling_alone_loses_nothing(world *w)
{
    int64_t n = join(w, w->a);
    pawl_ids old = take_ids(w, w->a, n, 0, 0);
    advance(w, PAWL_HOUR);
    pawl_ids again = take_ids(w, w->a, n, old.out_number, old.ceiling_ms - 1);
    assert_int_equal(again.out_number, old.out_number);
    assert_true(again.ceiling_ms > now_ms(w));
}

/* The first number whose ceiling was lowered is the lowest free one again. */
static void given_back_it_costs_no_future(world *w)
{
    int64_t n = join(w, w->a), other = join(w, w->b);
    pawl_ids ids = {0};
    for (int i = 1; i <= ID_NUMBER_MAX; i++) ids = take_ids(w, w->a, n, 0, 0);
    int64_t used_ms = now_ms(w);
    give_back(w, w->a, n, ids.out_number, used_ms);
    pawl_ids next = take_ids(w, w->b, other, 0, 0);
    assert_int_equal(next.out_number, ids.out_number);
    assert_true(next.floor_ms >= used_ms && next.floor_ms <= used_ms + 1);
}

static void given_back_unused_it_forgets_nobody(world *w)
{
    int64_t n = join(w, w->a), other = join(w, w->b);
    pawl_ids ids = {0};
    for (int i = 1; i <= ID_NUMBER_MAX; i++) ids = take_ids(w, w->a, n, 0, 0);
    int64_t used_ms = ids.ceiling_ms - 1;
    give_back(w, w->a, n, ids.out_number, used_ms);
    pawl_ids second = take_ids(w, w->b, other, 0, 0);
    assert_int_equal(second.out_number, ids.out_number);
    give_back(w, w->b, other, second.out_number, 0);
    pawl_ids third = take_ids(w, w->b, other, 0, 0);
    assert_int_equal(third.out_number, ids.out_number);
    assert_true(third.floor_ms >= used_ms);
}

static void when_all_are_taken(world *w)
{
    int64_t n = join(w, w->a), other = join(w, w->b);
    for (int i = 1; i <= ID_NUMBER_MAX; i++) take_ids(w, w->a, n, 0, 0);
    pawl_ids call = {.node = other, .ahead_ms = 600000};
    assert_int_equal(w->b->type->take_ids(w->b, &call, &w->err), PAWL_UNAVAILABLE);
    advance(w, PAWL_HOUR);
    take_ids(w, w->b, other, 0, 0);
}

CASES(id_cases){
    {"ids: a number with room ahead", a_number_with_room_ahead},
    {"ids: the living have different numbers", the_living_have_different_numbers},
    {"ids: an owner raises its ceiling", an_owner_raises_its_ceiling},
    {"ids: a ceiling never sinks, whatever the clock does", a_ceiling_never_sinks},
    {"ids: whoever takes over starts above", whoever_takes_over_starts_above},
    {"ids: a lost number is replaced", a_lost_number_is_replaced},
    {"ids: a passed ceiling alone loses nothing", a_passed_ceiling_alone_loses_nothing},
    {"ids: given back, a number costs no future", given_back_it_costs_no_future},
    {"ids: given back unused, it forgets nobody", given_back_unused_it_forgets_nobody},
    {"ids: when all are taken", when_all_are_taken},
    {NULL, NULL},
};
