/* pawl_body_copy: one block that holds everything. */
#include "base/alloc.h"
#include "unit/cmocka_all.h"
#include "unit/test_allocator.h"
#include <pawl/store.h>
#include <string.h>

static void a_copy_stands_alone(void **state)
{
    (void)state;
    test_allocator t;
    test_allocator_init(&t);
    char payload[] = "{\"a\":1}", type[] = "email.send", rate_key[] = "k\0k";
    pawl_body from = {
        .id = 42,
        .type = type,
        .queue = "mail",
        .tenant = "acme",
        .key = "key",
        .content_type = "application/json",
        .created_by = "me",
        .traceparent = "00-1",
        .headers = "h: 1",
        .payload = {payload, sizeof payload - 1},
        .rate_key = {rate_key, 3},
        .priority = -5,
        .max_attempts = 3,
        .timeout_us = -1,
        .audit = PAWL_AUDIT_ERRORS,
        .retry_of = 41,
        .created_us = 99,
    };
    pawl_body *copy = pawl_body_copy(&t.allocator, &from);
    assert_int_equal(t.calls, 1);
    memset(payload, 'x', sizeof payload - 1);
    memset(type, 'x', sizeof type - 1);
    memset(rate_key, 'x', sizeof rate_key - 1);
    assert_string_equal(copy->type, "email.send");
    assert_string_equal(copy->queue, "mail");
    assert_string_equal(copy->tenant, "acme");
    assert_string_equal(copy->key, "key");
    assert_string_equal(copy->content_type, "application/json");
    assert_string_equal(copy->created_by, "me");
    assert_string_equal(copy->traceparent, "00-1");
    assert_string_equal(copy->headers, "h: 1");
    assert_int_equal(copy->payload.len, 7);
    assert_string_equal(copy->payload.data, "{\"a\":1}"); /* with a NUL behind it */
    assert_memory_equal(copy->rate_key.data, "k\0k", 4);
    assert_true(copy->id == 42 && copy->priority == -5 && copy->max_attempts == 3 && copy->timeout_us == -1);
    assert_true(copy->audit == PAWL_AUDIT_ERRORS && copy->retry_of == 41 && copy->created_us == 99);
    alloc_free(&t.allocator, copy);
    assert_int_equal(t.outstanding, 0);
}

static void what_is_not_set_stays_so(void **state)
{
    (void)state;
    test_allocator t;
    test_allocator_init(&t);
    pawl_body *copy = pawl_body_copy(&t.allocator, &(pawl_body){.type = "a", .queue = "default"});
    assert_string_equal(copy->tenant, ""); /* no tenant */
    assert_true(!copy->key && !copy->content_type && !copy->created_by && !copy->traceparent && !copy->headers);
    assert_true(!copy->payload.data && !copy->rate_key.data);
    alloc_free(&t.allocator, copy);
    copy = pawl_body_copy(&t.allocator, &(pawl_body){.type = "a", .queue = "default", .payload = {"", 0}});
    assert_non_null(copy->payload.data); /* empty is not none */
    assert_int_equal(copy->payload.len, 0);
    alloc_free(&t.allocator, copy);
    t.fail_at = t.calls + 1;
    assert_null(pawl_body_copy(&t.allocator, &(pawl_body){.type = "a"}));
    assert_int_equal(t.outstanding, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_copy_stands_alone),
        cmocka_unit_test(what_is_not_set_stays_so),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
