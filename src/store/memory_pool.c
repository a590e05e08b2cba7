/* Blocks of one size, cut from slabs that go back only when the store closes. A new block is the last one freed or,
 * failing that, the next bytes of the newest slab, so memory is touched in order and only when it is needed.
 */
#include "store/memory.h"

#define SLAB_MIN 16
#define SLAB_MAX 1024

typedef struct mem_slab {
    struct mem_slab *older;
    _Alignas(16) char bytes[];
} mem_slab;

void pool_init(mem_pool *p, size_t size) { *p = (mem_pool){.size = (size + 7) & ~(size_t)7}; }

void pool_done(mem_pool *p, const pawl_allocator *a)
{
    for (mem_slab *slab = p->slabs, *older; slab; slab = older) {
        older = slab->older;
        alloc_free(a, slab);
    }
    pool_init(p, p->size);
}

void pool_put(mem_pool *p, void *block)
{
    mem_spare *f = block;
    f->next = p->free;
    p->free = f;
    p->free_count++;
}

bool pool_reserve(mem_pool *p, const pawl_allocator *a, size_t count)
{
    size_t have = p->free_count + p->next_count;
    if (have >= count) return true;
    size_t blocks = p->total < SLAB_MIN ? SLAB_MIN : p->total > SLAB_MAX ? SLAB_MAX : p->total;
    if (blocks < count - have) blocks = count - have;
    if (blocks > SIZE_MAX / 2 / p->size) return false;
    mem_slab *slab = a->alloc(a->ctx, sizeof *slab + blocks * p->size);
    if (!slab) return false;
    for (; p->next_count; p->next_count--, p->next += p->size) pool_put(p, p->next);
    slab->older = p->slabs;
    p->slabs = slab;
    p->next = slab->bytes;
    p->next_count = blocks;
    p->total += blocks;
    return true;
}
