/* Policies and the table of legal moves. */
#include "../unit/cmocka_all.h"
#include "core/policy.h"
#include "core/task.h"

static pawl_failure failed(int attempt) { return (pawl_failure){.id = 1, .type = "t", .attempt = attempt, .max_attempts = 4}; }

static int64_t delay(const policy *p, pawl_failure f)
{
    rng r;
    rng_init(&r, 1);
    return policy_retry_delay(p, &f, &r);
}

static void the_default_is_four_attempts_doubling_from_half_a_second(void **state)
{
    (void)state;
    policy p = policy_default();
    for (int n = 1; n <= 3; n++) assert_in_range(delay(&p, failed(n)), (400 << (n - 1)) * 1000, (500 << (n - 1)) * 1000);
    assert_int_equal(delay(&p, failed(4)), PAWL_NO_RETRY);
}

static void a_curve_is_capped(void **state)
{
    (void)state;
    policy p = policy_default();
    p.max_attempts = 1000;
    p.retry.jitter = -1;
    assert_int_equal(delay(&p, failed(999)), PAWL_HOUR);
}

static void a_list_repeats_its_last(void **state)
{
    (void)state;
    policy own = {.max_attempts = 9, .retry = {.curve = PAWL_CURVE_LIST, .delays_us = {10, 20}, .delays = 2, .jitter = -1}};
    policy wide = policy_default(), p = policy_over(&own, &wide);
    assert_int_equal(delay(&p, failed(1)), 10);
    assert_int_equal(delay(&p, failed(2)), 20);
    assert_int_equal(delay(&p, failed(5)), 20);
    p.retry.delays = 0;
    assert_int_equal(delay(&p, failed(1)), 0);
}

static void a_fixed_curve_stays(void **state)
{
    (void)state;
    policy own = {.max_attempts = 9, .retry = {.curve = PAWL_CURVE_FIXED, .delay_us = 77, .jitter = -1}};
    policy wide = policy_default(), p = policy_over(&own, &wide);
    assert_int_equal(delay(&p, failed(1)), 77);
    assert_int_equal(delay(&p, failed(8)), 77);
}

static int64_t custom(void *ctx, const pawl_failure *f) { return f->attempt == 2 ? PAWL_NO_RETRY : *(int64_t *)ctx; }

static void a_custom_function_decides(void **state)
{
    (void)state;
    int64_t answer = 123;
    policy own = {.retry = {.curve = PAWL_CURVE_CUSTOM, .custom = custom, .custom_ctx = &answer}};
    policy wide = policy_default(), p = policy_over(&own, &wide);
    assert_int_equal(delay(&p, failed(1)), 123);
    assert_int_equal(delay(&p, failed(2)), PAWL_NO_RETRY);
}

static void codes_and_timeouts_can_end_it(void **state)
{
    (void)state;
    const char *const only[] = {"again", NULL}, *const never[] = {"bad", NULL};
    policy p = policy_default();
    p.retry.only_codes = only;
    pawl_failure f = failed(1);
    assert_int_equal(delay(&p, f), PAWL_NO_RETRY);
    f.code = "again";
    assert_true(delay(&p, f) > 0);
    p.retry.only_codes = NULL;
    p.retry.never_codes = never;
    assert_true(delay(&p, f) > 0);
    f.code = "bad";
    assert_int_equal(delay(&p, f), PAWL_NO_RETRY);
    f.code = NULL;
    f.timed_out = true;
    assert_true(delay(&p, f) > 0);
    p.retry.no_timeout_retry = true;
    assert_int_equal(delay(&p, f), PAWL_NO_RETRY);
}

static void the_narrower_policy_wins(void **state)
{
    (void)state;
    policy wide = policy_default();
    policy queue = {.max_attempts = 7, .timeout_us = 5}, handler = {.timeout_us = -1, .audit = PAWL_AUDIT_NONE};
    policy middle = policy_over(&queue, &wide), p = policy_over(&handler, &middle);
    assert_int_equal(p.max_attempts, 7);
    assert_int_equal(p.timeout_us, -1);
    assert_int_equal(p.audit, PAWL_AUDIT_NONE);
    assert_int_equal(p.retry.curve, PAWL_CURVE_EXPONENTIAL);
    assert_false(p.retry.no_timeout_retry);
    handler.retry.no_timeout_retry = true; /* whoever says so is heard */
    p = policy_over(&handler, &middle);
    assert_true(p.retry.no_timeout_retry);
    p = policy_over(&queue, &p);
    assert_true(p.retry.no_timeout_retry);
}

/* The architecture's table, spelled out once more: everything else is illegal. */
static void only_the_legal_moves_are_legal(void **state)
{
    (void)state;
    const int legal[][3] = {
        {PAWL_STATE_NONE, TASK_DISPATCHED, PAWL_PENDING},
        {PAWL_STATE_NONE, TASK_HAS_PARENTS, PAWL_WAITING},
        {PAWL_STATE_NONE, TASK_BORN_LEASED, PAWL_LEASED},
        {PAWL_WAITING, TASK_PARENTS_DONE, PAWL_PENDING},
        {PAWL_WAITING, TASK_PARENT_POLICY, PAWL_CANCELLED},
        {PAWL_WAITING, TASK_CANCEL, PAWL_CANCELLED},
        {PAWL_PENDING, TASK_GRANTED, PAWL_LEASED},
        {PAWL_PENDING, TASK_CANCEL, PAWL_CANCELLED},
        {PAWL_PENDING, TASK_REFUSED, PAWL_FAILED},
        {PAWL_LEASED, TASK_OK, PAWL_SUCCEEDED},
        {PAWL_LEASED, TASK_EXHAUSTED, PAWL_FAILED},
        {PAWL_LEASED, TASK_CANCEL, PAWL_CANCELLED},
        {PAWL_LEASED, TASK_AGAIN, PAWL_PENDING},
        {PAWL_LEASED, TASK_POISON, PAWL_FAILED},
    };
    for (int from = 0; from < PAWL_STATE_COUNT; from++) {
        for (int why = 1; why < TASK_WHY_COUNT; why++) {
            int to = PAWL_STATE_NONE;
            for (size_t i = 0; i < sizeof legal / sizeof *legal; i++)
                if (legal[i][0] == from && legal[i][1] == why) to = legal[i][2];
            assert_int_equal(task_move((pawl_state)from, (task_why)why), to);
        }
    }
    assert_int_equal(task_move(PAWL_STATE_COUNT, TASK_OK), PAWL_STATE_NONE);
    assert_int_equal(task_move(PAWL_LEASED, TASK_WHY_COUNT), PAWL_STATE_NONE);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_default_is_four_attempts_doubling_from_half_a_second),
        cmocka_unit_test(a_curve_is_capped),
        cmocka_unit_test(a_list_repeats_its_last),
        cmocka_unit_test(a_fixed_curve_stays),
        cmocka_unit_test(a_custom_function_decides),
        cmocka_unit_test(codes_and_timeouts_can_end_it),
        cmocka_unit_test(the_narrower_policy_wins),
        cmocka_unit_test(only_the_legal_moves_are_legal),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
