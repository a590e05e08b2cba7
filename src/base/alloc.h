/* Memory through the allocator that the engine was given. */
#ifndef BASE_ALLOC_H
#define BASE_ALLOC_H

#include <pawl.h>
#include <pawl/store.h>

const pawl_allocator *alloc_default(void); /* malloc */

void *alloc_new(const pawl_allocator *a, size_t size); /* zeroed; NULL: no memory */
void *alloc_resize(const pawl_allocator *a, void *ptr, size_t size);
char *alloc_str(const pawl_allocator *a, const char *text);       /* a copy; NULL stays NULL */
static inline void alloc_free(const pawl_allocator *a, void *ptr) /* NULL is fine */
{
    if (ptr) a->release(a->ctx, ptr);
}

void zero(void *at, size_t size); /* for hundreds of bytes: compilers have a slow way to clear what has a known size */

/* Arena: pawl_arena_alloc and friends are public (pawl/store.h). */
pawl_arena *arena_new(const pawl_allocator *a, size_t limit); /* limit: bytes in all, 0 = 64 MiB */
void arena_reset(pawl_arena *arena);                          /* forgets all, keeps one block for the next use */
void arena_free(pawl_arena *arena);

#endif
