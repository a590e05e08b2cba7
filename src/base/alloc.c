/* Memory through an allocator: malloc as the default, and thin helpers that keep the allocator's contract (never 0 bytes). */
#include "base/alloc.h"
#include <stdlib.h>
#include <string.h>

static void *system_alloc(void *ctx, size_t size)
{
    (void)ctx;
    return malloc(size);
}

static void *system_resize(void *ctx, void *ptr, size_t size)
{
    (void)ctx;
    return realloc(ptr, size);
}

static void system_release(void *ctx, void *ptr)
{
    (void)ctx;
    free(ptr);
}

const pawl_allocator *alloc_default(void)
{
    static const pawl_allocator system = {system_alloc, system_resize, system_release, NULL};
    return &system;
}

void zero(void *at, size_t size) { memset(at, 0, size); }

void *alloc_new(const pawl_allocator *a, size_t size)
{
    if (size == 0) size = 1;
    void *ptr = a->alloc(a->ctx, size);
    return ptr ? memset(ptr, 0, size) : NULL;
}

void *alloc_resize(const pawl_allocator *a, void *ptr, size_t size) { return a->resize(a->ctx, ptr, size ? size : 1); }

char *alloc_str(const pawl_allocator *a, const char *text)
{
    if (!text) return NULL;
    size_t size = strlen(text) + 1;
    char *copy = a->alloc(a->ctx, size);
    return copy ? memcpy(copy, text, size) : NULL;
}
