/* Arena: memory that is freed all at once.
 *
 * A list of chunks, newest first; only the newest is carved from. The first has 4 KiB, each further one twice as much as the one
 * before, or as much as the request needs. `total` counts the chunks' bytes and never passes `limit`. A reset keeps the largest
 * chunk, so an arena that is used again and again for the same kind of answer soon allocates nothing.
 *
 * Under AddressSanitizer the bytes not handed out are poisoned: a write behind a block, or into one that a reset took back, is
 * reported where it happens.
 *
 * The arena's own pawl_allocator carves from it too. Its blocks carry their size in front, so that they can be resized; releasing
 * one gives nothing back until the arena is reset.
 */
#include "base/alloc.h"
#include <stdalign.h>
#include <string.h>

#define FIRST_CHUNK ((size_t)4096)
#define DEFAULT_LIMIT ((size_t)64 << 20)
#define LIMIT_MAX (SIZE_MAX / 4) /* sums of sizes below it cannot overflow */
#define ALIGN ((size_t)16)

#if defined(__SANITIZE_ADDRESS__)
#define POISONING 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define POISONING 1
#endif
#endif

#ifdef POISONING
#include <sanitizer/asan_interface.h>
#define poison(ptr, n) __asan_poison_memory_region((ptr), (n))
#define unpoison(ptr, n) __asan_unpoison_memory_region((ptr), (n))
#else
#define poison(ptr, n) ((void)(ptr), (void)(n))
#define unpoison(ptr, n) ((void)(ptr), (void)(n))
#endif

typedef struct chunk {
    struct chunk *older;
    size_t size, used;
    alignas(16) char bytes[];
} chunk;

struct pawl_arena {
    const pawl_allocator *from;
    pawl_allocator own;
    chunk *newest;
    size_t total, limit;
};

static size_t rounded(size_t size) { return (size + ALIGN - 1) & ~(ALIGN - 1); }

static void chunk_free(pawl_arena *arena, chunk *c)
{
    arena->total -= c->size;
    unpoison(c->bytes, c->size);
    alloc_free(arena->from, c);
}

static chunk *chunk_add(pawl_arena *arena, size_t need)
{
    size_t left = arena->limit - arena->total;
    if (need > left) return NULL;
    size_t size = arena->newest ? 2 * arena->newest->size : FIRST_CHUNK;
    if (size > left) size = left;
    if (size < need) size = need;
    chunk *c = arena->from->alloc(arena->from->ctx, sizeof *c + size);
    if (!c) return NULL;
    *c = (chunk){.older = arena->newest, .size = size};
    poison(c->bytes, size);
    arena->newest = c;
    arena->total += size;
    return c;
}

static char *carve(pawl_arena *arena, size_t size)
{
    if (size > arena->limit) return NULL;
    chunk *c = arena->newest;
    if (!c || size > c->size - c->used) c = chunk_add(arena, size);
    if (!c) return NULL;
    char *ptr = c->bytes + c->used;
    c->used = rounded(c->used + size);
    if (c->used > c->size) c->used = c->size;
    unpoison(ptr, size);
    return ptr;
}

void *pawl_arena_alloc(pawl_arena *arena, size_t size)
{
    char *ptr = carve(arena, size ? size : 1);
    return ptr ? memset(ptr, 0, size) : NULL;
}

char *pawl_arena_bytes(pawl_arena *arena, const void *data, size_t n)
{
    char *ptr = n < arena->limit ? carve(arena, n + 1) : NULL;
    if (!ptr) return NULL;
    if (n) memcpy(ptr, data, n);
    ptr[n] = '\0';
    return ptr;
}

char *pawl_arena_str(pawl_arena *arena, const char *text) { return text ? pawl_arena_bytes(arena, text, strlen(text)) : NULL; }

/* ---- the arena as an allocator -------------------------------------------------------------------------------------------- */

typedef struct sized {
    alignas(16) size_t size;
} sized;

static void *own_alloc(void *ctx, size_t size)
{
    pawl_arena *arena = ctx;
    if (size > arena->limit) return NULL;
    sized *s = (sized *)carve(arena, sizeof *s + size);
    if (!s) return NULL;
    s->size = size;
    return s + 1;
}

/* The newest block grows where it stands while its chunk has room. */
static bool grow_in_place(pawl_arena *arena, sized *s, size_t size)
{
    chunk *c = arena->newest;
    char *start = (char *)(s + 1);
    size_t offset = (uintptr_t)start - (uintptr_t)c->bytes; /* of another chunk's block: anything, also huge */
    if (offset > c->used || rounded(offset + s->size) < c->used || size > c->size - offset) return false;
    unpoison(start, size);
    s->size = size;
    c->used = rounded(offset + size);
    if (c->used > c->size) c->used = c->size;
    return true;
}

static void *own_resize(void *ctx, void *ptr, size_t size)
{
    if (!ptr) return own_alloc(ctx, size);
    sized *s = (sized *)ptr - 1;
    if (size <= s->size || grow_in_place(ctx, s, size)) return ptr;
    void *moved = own_alloc(ctx, size);
    return moved ? memcpy(moved, ptr, s->size) : NULL;
}

static void own_release(void *ctx, void *ptr)
{
    (void)ctx;
    (void)ptr;
}

const pawl_allocator *pawl_arena_allocator(pawl_arena *arena) { return &arena->own; }

/* ---- life ------------------------------------------------------------------------------------------------------------------ */

pawl_arena *arena_new(const pawl_allocator *a, size_t limit)
{
    pawl_arena *arena = alloc_new(a, sizeof *arena);
    if (!arena) return NULL;
    arena->from = a;
    arena->own = (pawl_allocator){own_alloc, own_resize, own_release, arena};
    arena->limit = limit == 0 ? DEFAULT_LIMIT : limit < LIMIT_MAX ? limit : LIMIT_MAX;
    return arena;
}

void arena_reset(pawl_arena *arena)
{
    chunk *kept = arena->newest;
    for (chunk *c = arena->newest; c; c = c->older)
        if (c->size > kept->size) kept = c;
    for (chunk *c = arena->newest, *older; c; c = older) {
        older = c->older;
        if (c != kept) chunk_free(arena, c);
    }
    arena->newest = kept;
    if (!kept) return;
    kept->older = NULL;
    kept->used = 0;
    poison(kept->bytes, kept->size);
}

void arena_free(pawl_arena *arena)
{
    if (!arena) return;
    for (chunk *c = arena->newest, *older; c; c = older) {
        older = c->older;
        chunk_free(arena, c);
    }
    alloc_free(arena->from, arena);
}
