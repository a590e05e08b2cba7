/* An allocator for tests: counts what is outstanding and fails when told. */
#ifndef TEST_ALLOCATOR_H
#define TEST_ALLOCATOR_H

#include <pawl.h>
#include <stdlib.h>

typedef struct test_allocator {
    pawl_allocator allocator; /* hand out &t->allocator */
    long outstanding;         /* blocks not yet released */
    long calls;               /* of alloc and resize */
    long fail_at;             /* the call with this number fails (the first is 1); 0: none */
    bool persistent;          /* and all after it */
} test_allocator;

static inline bool test_alloc_fails(test_allocator *t)
{
    t->calls++;
    return t->fail_at && (t->persistent ? t->calls >= t->fail_at : t->calls == t->fail_at);
}

static inline void *test_alloc(void *ctx, size_t size)
{
    test_allocator *t = ctx;
    void *ptr = size == 0 || test_alloc_fails(t) ? NULL : malloc(size);
    if (ptr) t->outstanding++;
    return ptr;
}

static inline void *test_resize(void *ctx, void *ptr, size_t size)
{
    test_allocator *t = ctx;
    void *moved = size == 0 || test_alloc_fails(t) ? NULL : realloc(ptr, size);
    if (moved && !ptr) t->outstanding++;
    return moved;
}

static inline void test_release(void *ctx, void *ptr)
{
    if (ptr) ((test_allocator *)ctx)->outstanding--;
    free(ptr);
}

static inline void test_allocator_init(test_allocator *t)
{
    *t = (test_allocator){.allocator = {test_alloc, test_resize, test_release, t}};
}

#endif
