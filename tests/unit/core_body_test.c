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

/* Whoever has the same allocator may hold the very block; it goes with the last holder. */
static void bodies_are_shared_by_those_of_one_allocator(void **state)
{
    (void)state;
    test_allocator a, b;
    test_allocator_init(&a);
    test_allocator_init(&b);
    pawl_body *body = pawl_body_copy(&a.allocator, &(pawl_body){.type = "a", .queue = "default"});
    pawl_allocator same = a.allocator; /* another struct that says the same */
    pawl_body *shared = pawl_body_share(&same, body), *again = pawl_body_share(&a.allocator, body);
    assert_ptr_equal(shared, body);
    assert_ptr_equal(again, body);
    pawl_body *other = pawl_body_share(&b.allocator, body), *third = pawl_body_share(alloc_default(), body);
    assert_ptr_not_equal(other, body);
    assert_ptr_not_equal(third, body);
    assert_string_equal(other->type, "a");
    pawl_body_free(&a.allocator, body);
    pawl_body_free(&a.allocator, shared);
    assert_int_equal(a.outstanding, 1);
    assert_string_equal(again->type, "a");
    pawl_body_free(&a.allocator, again);
    pawl_body_free(&b.allocator, other);
    pawl_body_free(alloc_default(), third);
    pawl_body_free(&a.allocator, NULL);
    pawl_body loose = {.type = "b", .queue = "default"}; /* made by nobody: copied */
    pawl_body *made = pawl_body_share(&a.allocator, &loose);
    assert_ptr_not_equal(made, &loose);
    pawl_body_free(&a.allocator, made);
    assert_int_equal(a.outstanding, 0);
    assert_int_equal(b.outstanding, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_copy_stands_alone),
        cmocka_unit_test(what_is_not_set_stays_so),
        cmocka_unit_test(bodies_are_shared_by_those_of_one_allocator),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
