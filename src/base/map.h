/* Intrusive hash map from a 64-bit number to nodes. Never fails: if it cannot grow it gets slower.
 * Several nodes may have the same number; map_get finds the newest, map_next the next older one. */
#ifndef BASE_MAP_H
#define BASE_MAP_H

#include "base/check.h"
#include <pawl.h>

typedef struct map_node {
    struct map_node *next;
    uint64_t key;
} map_node;

typedef struct map {
    const pawl_allocator *allocator;
    map_node **slots; /* a power of two of them */
    size_t mask, count;
    map_node *first[16]; /* the slots before the first growth */
} map;

void map_init(map *m, const pawl_allocator *a);
void map_done(map *m);                    /* forgets the nodes, which are the caller's */
map_node *map_next(const map_node *node); /* another one with the same key, or NULL */
void map_grow(map *m);                    /* map_put's own */
uint64_t hash_bytes(const void *data, size_t n, uint64_t seed);

/* Ids (idgen.h) made one after another lie in slots side by side, sixteen in a row, which a cache likes; the rows are scattered, and so
 * are the places within them, for ids that are the only one of their row. Keys that are hashes stay as good as they are. */
static inline size_t map_spread(uint64_t key)
{
    uint64_t row = (key >> 4) * UINT64_C(0x9e3779b97f4a7c15);
    row ^= row >> 32;
    return (size_t)(row << 4 | ((key ^ row >> 28) & 15));
}

static inline void map_put(map *m, map_node *node, uint64_t key)
{
    if (m->count > m->mask) map_grow(m);
    map_node **slot = &m->slots[map_spread(key) & m->mask];
    node->key = key;
    node->next = *slot;
    *slot = node;
    m->count++;
}

static inline map_node *map_get(const map *m, uint64_t key)
{
    map_node *node = m->slots[map_spread(key) & m->mask];
    while (node && node->key != key) node = node->next;
    return node;
}

static inline void map_remove(map *m, map_node *node) /* must be in it */
{
    map_node **at = &m->slots[map_spread(node->key) & m->mask];
    while (*at && *at != node) at = &(*at)->next;
    CHECK(*at == node);
    *at = node->next;
    node->next = NULL;
    m->count--;
}

#define map_each(node, m)                                                                              \
    for (size_t node##_slot = 0; node##_slot <= (m)->mask; node##_slot++)                              \
        for (map_node *node = (m)->slots[node##_slot], *node##_after = node ? node->next : NULL; node; \
             node = node##_after, node##_after = node ? node->next : NULL)

#endif
