/* pawl_body_copy: one block that holds everything; body_pack: many in a block. */
#include "base/alloc.h"
#include "core/body.h"
#include "unit/cmocka_all.h"
#include "unit/test_allocator.h"
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

/* Few blocks, names stored once, and each block goes with the last body in it. */
static void bodies_made_together_lie_together(void **state)
{
    (void)state;
    enum { COUNT = 100 };
    test_allocator t;
    test_allocator_init(&t);
    body_pack pack = {.allocator = &t.allocator};
    pawl_body *bodies[COUNT];
    char type[] = "a.type", payload[200];
    for (int i = 0; i < COUNT; i++) {
        memset(payload, 'a' + i % 26, sizeof payload);
        bodies[i] =
            body_pack_add(&pack, &(pawl_body){.id = i + 1, .type = type, .queue = "q", .payload = {payload, sizeof payload}});
    }
    body_pack_done(&pack);
    memset(type, 'x', sizeof type - 1);
    assert_in_range(t.calls, 2, 4);
    int once = 0;
    for (int i = 0; i < COUNT; i++) {
        assert_string_equal(bodies[i]->type, "a.type");
        assert_string_equal(bodies[i]->queue, "q");
        assert_string_equal(bodies[i]->tenant, "");
        assert_true(bodies[i]->id == i + 1 && !bodies[i]->key && !bodies[i]->rate_key.data);
        assert_int_equal(bodies[i]->payload.len, sizeof payload);
        for (size_t k = 0; k < sizeof payload; k++) assert_int_equal(((const char *)bodies[i]->payload.data)[k], 'a' + i % 26);
        assert_int_equal(((const char *)bodies[i]->payload.data)[sizeof payload], 0);
        once += i > 0 && bodies[i]->type == bodies[i - 1]->type;
    }
    assert_in_range(once, COUNT - 5, COUNT - 1);
    assert_ptr_equal(pawl_body_share(&t.allocator, bodies[0]), bodies[0]);
    for (int i = 0; i < COUNT; i++) pawl_body_free(&t.allocator, bodies[i]);
    assert_int_equal(t.outstanding, 1);
    assert_string_equal(bodies[0]->type, "a.type");
    pawl_body_free(&t.allocator, bodies[0]);
    assert_int_equal(t.outstanding, 0);
}

/* Every text a body has, after one that had others, and none. */
static void packed_bodies_keep_their_own_names(void **state)
{
    (void)state;
    test_allocator t;
    test_allocator_init(&t);
    body_pack pack = {.allocator = &t.allocator};
    pawl_body full = {.type = "t",
                      .queue = "q",
                      .tenant = "n",
                      .key = "k",
                      .content_type = "c",
                      .created_by = "b",
                      .traceparent = "p",
                      .headers = "h",
                      .payload = {"", 0},
                      .rate_key = {"r\0", 2}};
    pawl_body bare = {.type = "u", .queue = "v"}, other = full;
    other.tenant = "m";
    other.created_by = NULL;
    pawl_body *a = body_pack_add(&pack, &full), *b = body_pack_add(&pack, &bare), *c = body_pack_add(&pack, &full),
              *d = body_pack_add(&pack, &other);
    body_pack_done(&pack);
    const pawl_body *same[] = {a, c, d};
    for (int i = 0; i < 3; i++) {
        assert_string_equal(same[i]->type, "t");
        assert_string_equal(same[i]->queue, "q");
        assert_string_equal(same[i]->tenant, i < 2 ? "n" : "m");
        assert_string_equal(same[i]->key, "k");
        assert_string_equal(same[i]->content_type, "c");
        assert_string_equal(same[i]->traceparent, "p");
        assert_string_equal(same[i]->headers, "h");
        assert_true(same[i]->payload.data && same[i]->payload.len == 0);
        assert_memory_equal(same[i]->rate_key.data, "r\0", 3);
    }
    assert_string_equal(a->created_by, "b");
    assert_null(d->created_by);
    assert_string_equal(b->type, "u");
    assert_string_equal(b->queue, "v");
    assert_string_equal(b->tenant, "");
    assert_true(!b->key && !b->content_type && !b->created_by && !b->traceparent && !b->headers && !b->payload.data);
    pawl_body *all[] = {a, b, c, d};
    for (int i = 0; i < 4; i++) pawl_body_free(&t.allocator, all[i]);
    assert_int_equal(t.outstanding, 0);
}

/* What is large lies alone, and a pack that finds no memory leaves what it has made. */
static void large_bodies_and_no_memory(void **state)
{
    (void)state;
    test_allocator t;
    test_allocator_init(&t);
    body_pack pack = {.allocator = &t.allocator};
    static char large[BODY_PACK], headers[BODY_PACK];
    memset(headers, 'h', sizeof headers - 1);
    pawl_body small = {.type = "t", .queue = "q"}, wide = {.type = "t", .queue = "q", .payload = {large, sizeof large}},
              long_headers = {.type = "t", .queue = "q", .headers = headers};
    pawl_body *first = body_pack_add(&pack, &long_headers), *second = body_pack_add(&pack, &small),
              *third = body_pack_add(&pack, &wide), *fourth = body_pack_add(&pack, &long_headers);
    assert_true(first && second && third && fourth);
    assert_int_equal(strlen(first->headers), sizeof headers - 1);
    assert_int_equal(third->payload.len, sizeof large);
    t.fail_at = t.calls + 1;
    assert_null(body_pack_add(&pack, &wide));
    body_pack_done(&pack);
    pawl_body *all[] = {first, second, third, fourth};
    for (int i = 0; i < 4; i++) pawl_body_free(&t.allocator, all[i]);
    assert_int_equal(t.outstanding, 0);
}

/* Nothing of what it was begun for fitted: the block goes with the pack. */
static void a_pack_of_nothing(void **state)
{
    (void)state;
    test_allocator t;
    test_allocator_init(&t);
    body_pack pack = {.allocator = &t.allocator};
    static char headers[BODY_PACK];
    memset(headers, 'h', sizeof headers - 1);
    pawl_body *alone = body_pack_add(&pack, &(pawl_body){.type = "t", .queue = "q", .headers = headers});
    assert_int_equal(t.outstanding, 2);
    body_pack_done(&pack);
    assert_int_equal(t.outstanding, 1);
    assert_int_equal(strlen(alone->headers), sizeof headers - 1);
    body_moves moves = {0};
    body_free(&moves, &t.allocator, NULL); /* nothing is freed with nothing */
    body_free(&moves, &t.allocator, alone);
    body_moves_done(&moves);
    assert_int_equal(t.outstanding, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_copy_stands_alone),
        cmocka_unit_test(what_is_not_set_stays_so),
        cmocka_unit_test(bodies_are_shared_by_those_of_one_allocator),
        cmocka_unit_test(bodies_made_together_lie_together),
        cmocka_unit_test(packed_bodies_keep_their_own_names),
        cmocka_unit_test(large_bodies_and_no_memory),
        cmocka_unit_test(a_pack_of_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
