/* Intrusive hash map from a 64-bit number to nodes. Never fails: if it cannot grow it gets slower.
 * Several nodes may have the same number; map_get finds the newest, map_next the next older one. */
#ifndef BASE_MAP_H
#define BASE_MAP_H

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
void map_done(map *m); /* forgets the nodes, which are the caller's */
void map_put(map *m, map_node *node, uint64_t key);
map_node *map_get(const map *m, uint64_t key);
map_node *map_next(const map_node *node); /* another one with the same key, or NULL */
void map_remove(map *m, map_node *node);  /* must be in it */
uint64_t hash_bytes(const void *data, size_t n, uint64_t seed);

#define map_each(node, m)                                                                              \
    for (size_t node##_slot = 0; node##_slot <= (m)->mask; node##_slot++)                              \
        for (map_node *node = (m)->slots[node##_slot], *node##_after = node ? node->next : NULL; node; \
             node = node##_after, node##_after = node ? node->next : NULL)

#endif
