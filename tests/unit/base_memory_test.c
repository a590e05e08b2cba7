/* alloc, arena, buf. */
#include "base/alloc.h"
#include "base/buf.h"
#include "unit/cmocka_all.h"
#include "unit/test_allocator.h"
#include <string.h>

static bool all_zero(const char *p, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (p[i]) return false;
    return true;
}

/* ---- alloc ---- */

static void alloc_helpers_keep_the_contract(void **state)
{
    (void)state;
    test_allocator t;
    test_allocator_init(&t);
    char *p = alloc_new(&t.allocator, 100);
    assert_true(p && all_zero(p, 100));
    char *none = alloc_new(&t.allocator, 0); /* the allocator is never called with 0 */
    assert_non_null(none);
    p = alloc_resize(&t.allocator, p, 1000);
    assert_true(all_zero(p, 100));
    char *text = alloc_str(&t.allocator, "abc");
    assert_string_equal(text, "abc");
    assert_null(alloc_str(&t.allocator, NULL));
    alloc_free(&t.allocator, NULL);
    alloc_free(&t.allocator, p);
    alloc_free(&t.allocator, none);
    alloc_free(&t.allocator, text);
    assert_int_equal(t.outstanding, 0);
    t.fail_at = t.calls + 1;
    t.persistent = true;
    assert_null(alloc_new(&t.allocator, 8));
    assert_null(alloc_resize(&t.allocator, NULL, 8));
    assert_null(alloc_str(&t.allocator, "abc"));
}

/* ---- arena ---- */

static void arena_gives_zeroed_aligned_separate_blocks(void **state)
{
    (void)state;
    test_allocator t;
    test_allocator_init(&t);
    pawl_arena *arena = arena_new(&t.allocator, 0);
    for (int round = 0; round < 3; round++) {
        char *blocks[500];
        for (size_t i = 0; i < 500; i++) {
            blocks[i] = pawl_arena_alloc(arena, i);
            assert_non_null(blocks[i]);
            assert_int_equal((uintptr_t)blocks[i] % 16, 0);
            assert_true(all_zero(blocks[i], i));
            memset(blocks[i], (int)(i % 255) + 1, i);
        }
        for (size_t i = 0; i < 500; i++)
            for (size_t k = 0; k < i; k++) assert_int_equal((unsigned char)blocks[i][k], i % 255 + 1);
        arena_reset(arena);
    }
    arena_free(arena);
    assert_int_equal(t.outstanding, 0);
    arena_free(NULL);
}

static void arena_copies(void **state)
{
    (void)state;
    pawl_arena *arena = arena_new(alloc_default(), 0);
    assert_string_equal(pawl_arena_str(arena, "text"), "text");
    assert_null(pawl_arena_str(arena, NULL));
    assert_memory_equal(pawl_arena_bytes(arena, "a\0b", 3), "a\0b\0", 4);
    assert_string_equal(pawl_arena_bytes(arena, NULL, 0), "");
    char *large = pawl_arena_alloc(arena, 1 << 20);
    assert_true(large && all_zero(large, 1 << 20));
    arena_free(arena);
}

static void arena_keeps_its_limit(void **state)
{
    (void)state;
    pawl_arena *arena = arena_new(alloc_default(), 10000);
    assert_null(pawl_arena_alloc(arena, 10001));
    assert_null(pawl_arena_alloc(arena, SIZE_MAX));
    assert_null(pawl_arena_bytes(arena, "x", SIZE_MAX));
    assert_null(pawl_arena_allocator(arena)->alloc(pawl_arena_allocator(arena)->ctx, SIZE_MAX));
    size_t got = 0;
    while (pawl_arena_alloc(arena, 16)) got += 16;
    assert_in_range(got, 9900, 10000);
    arena_reset(arena);
    assert_non_null(pawl_arena_alloc(arena, 16));
    arena_free(arena);
    arena = arena_new(alloc_default(), 10000);
    assert_non_null(pawl_arena_alloc(arena, 10000));
    assert_null(pawl_arena_alloc(arena, 1));
    arena_free(arena);
}

static void arena_settles_on_one_chunk(void **state)
{
    (void)state;
    test_allocator t;
    test_allocator_init(&t);
    pawl_arena *arena = arena_new(&t.allocator, 0);
    long before = 0;
    for (int round = 0; round < 10; round++) {
        before = t.calls;
        for (int i = 0; i < 100; i++) assert_non_null(pawl_arena_alloc(arena, 1000));
        arena_reset(arena);
        assert_int_equal(t.outstanding, 2); /* the arena and its kept chunk */
    }
    assert_int_equal(t.calls, before);
    arena_free(arena);
    assert_int_equal(t.outstanding, 0);
}

static void arena_without_memory(void **state)
{
    (void)state;
    test_allocator t;
    test_allocator_init(&t);
    t.fail_at = 1;
    assert_null(arena_new(&t.allocator, 0));
    pawl_arena *arena = arena_new(&t.allocator, 0);
    t.fail_at = t.calls + 1;
    assert_null(pawl_arena_alloc(arena, 10));
    assert_non_null(pawl_arena_alloc(arena, 10)); /* and goes on when there is memory again */
    t.fail_at = t.calls + 1;
    assert_null(pawl_arena_str(arena, memset(pawl_arena_alloc(arena, 4000), 'x', 3999)));
    arena_free(arena);
    assert_int_equal(t.outstanding, 0);
}

static void arena_as_allocator(void **state)
{
    (void)state;
    test_allocator t;
    test_allocator_init(&t);
    pawl_arena *arena = arena_new(&t.allocator, 1 << 20);
    const pawl_allocator *a = pawl_arena_allocator(arena);
    buf b, other;
    buf_init(&b, a, 1 << 19);
    buf_init(&other, a, 1 << 19);
    for (int i = 0; i < 20000; i++) {
        buf_char(&b, (char)('a' + i % 26));
        if (i % 7 == 0) buf_char(&other, (char)('A' + i / 7 % 26)); /* so that it cannot always grow where it stands */
    }
    assert_false(b.failed || other.failed);
    for (size_t i = 0; i < b.len; i++) assert_int_equal(b.data[i], 'a' + i % 26);
    for (size_t i = 0; i < other.len; i++) assert_int_equal(other.data[i], 'A' + i % 26);
    char *last = a->alloc(a->ctx, 8);
    assert_ptr_equal(a->resize(a->ctx, last, 64), last); /* the newest block grows in place */
    assert_ptr_equal(a->resize(a->ctx, last, 10), last);
    buf_done(&b);
    buf_done(&other);
    arena_free(arena);
    assert_int_equal(t.outstanding, 0);
}

static void arena_blocks_move_when_their_chunk_is_full(void **state)
{
    (void)state;
    pawl_arena *arena = arena_new(alloc_default(), 0);
    const pawl_allocator *a = pawl_arena_allocator(arena);
    assert_non_null(pawl_arena_alloc(arena, 3000)); /* of the 4096 of the first chunk */
    char *block = memcpy(a->alloc(a->ctx, 8), "1234567", 8);
    char *moved = a->resize(a->ctx, block, 2000);
    assert_ptr_not_equal(moved, block);
    assert_string_equal(moved, "1234567");
    memset(moved, 'x', 2000);
    arena_free(arena);
}

/* ---- buf ---- */

static void buf_grows_and_ends_in_nul(void **state)
{
    (void)state;
    test_allocator t;
    test_allocator_init(&t);
    buf b;
    buf_init(&b, &t.allocator, 1 << 20);
    assert_string_equal(buf_text(&b), "");
    assert_true(buf_add(&b, NULL, 0));
    for (int i = 0; i < 1000; i++) {
        assert_true(buf_fmt(&b, "%d,", i));
        assert_int_equal(b.data[b.len], 0);
    }
    assert_true(buf_str(&b, "end") && buf_char(&b, '.'));
    assert_memory_equal(buf_text(&b), "0,1,2,3,", 8);
    assert_string_equal(b.data + b.len - 8, "999,end.");
    assert_int_equal(strlen(b.data), b.len);
    size_t room = b.room;
    buf_clear(&b);
    assert_int_equal(b.len, 0);
    assert_int_equal(b.room, room);
    assert_string_equal(buf_text(&b), "");
    buf_done(&b);
    buf_done(&b);
    assert_int_equal(t.outstanding, 0);
}

static void buf_stops_at_its_limit(void **state)
{
    (void)state;
    buf b;
    buf_init(&b, alloc_default(), 10);
    assert_true(buf_add(&b, "12345", 5));
    assert_false(buf_add(&b, "123456", 6));
    assert_true(b.failed);
    assert_false(buf_char(&b, 'x')); /* it would fit, but the text would have a hole */
    assert_string_equal(buf_text(&b), "12345");
    assert_false(buf_fmt(&b, "%d", 1));
    buf_clear(&b);
    assert_true(buf_fmt(&b, "%s", "1234567890"));
    assert_false(b.failed);
    assert_false(buf_fmt(&b, "%d", 1));
    assert_string_equal(buf_text(&b), "1234567890");
    buf_clear(&b);
    assert_true(buf_str(&b, "123"));
    assert_false(buf_fmt(&b, "%s", "45678901"));
    assert_string_equal(buf_text(&b), "123");
    buf_clear(&b);
    assert_true(buf_str(&b, "1234567890"));
    assert_string_equal(buf_text(&b), "1234567890");
    buf_clear(&b);
    assert_false(buf_fmt(&b, "%s", "12345678901"));
    assert_string_equal(buf_text(&b), "");
    assert_true(b.failed);
    buf_done(&b);
    buf_init(&b, alloc_default(), SIZE_MAX);
    assert_false(buf_add(&b, "x", SIZE_MAX));
    buf_clear(&b);
    assert_true(buf_add(&b, "x", 1));
    buf_done(&b);
}

static void buf_without_memory(void **state)
{
    (void)state;
    test_allocator t;
    test_allocator_init(&t);
    buf b;
    buf_init(&b, &t.allocator, 1 << 20);
    assert_true(buf_str(&b, "kept"));
    t.fail_at = t.calls + 1;
    char many[500] = {0};
    memset(many, 'x', sizeof many - 1);
    assert_false(buf_str(&b, many));
    assert_string_equal(buf_text(&b), "kept");
    assert_true(b.failed);
    buf_clear(&b);
    t.fail_at = t.calls + 1;
    assert_false(buf_fmt(&b, "%s", many));
    buf_clear(&b);
    assert_true(buf_fmt(&b, "%s", many));
    assert_string_equal(buf_text(&b), many);
    buf_done(&b);
    assert_int_equal(t.outstanding, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(alloc_helpers_keep_the_contract),
        cmocka_unit_test(arena_gives_zeroed_aligned_separate_blocks),
        cmocka_unit_test(arena_copies),
        cmocka_unit_test(arena_keeps_its_limit),
        cmocka_unit_test(arena_settles_on_one_chunk),
        cmocka_unit_test(arena_without_memory),
        cmocka_unit_test(arena_as_allocator),
        cmocka_unit_test(arena_blocks_move_when_their_chunk_is_full),
        cmocka_unit_test(buf_grows_and_ends_in_nul),
        cmocka_unit_test(buf_stops_at_its_limit),
        cmocka_unit_test(buf_without_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
