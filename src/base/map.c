/* Intrusive hash map.
 *
 * Chains in a power of two of slots, the newest node first. Doubling splits each chain in two and keeps the order within it, so
 * that nodes with the same key stay newest first. When there is no memory to double, the chains grow longer and nothing else
 * happens; the next insert tries again.
 *
 * The first 16 slots are inside the map: a map that is in use must not be moved.
 */
#include "base/map.h"
#include "base/alloc.h"
#include "base/check.h"
#include <string.h>

#define FIRST_SLOTS (sizeof((map *)0)->first / sizeof(map_node *))

/* Ids (idgen.h) made one after another lie in slots side by side, sixteen in a row, which a cache likes; the rows are scattered, and so
 * are the places within them, for ids that are the only one of their row. Keys that are hashes stay as good as they are. */
static inline size_t spread(uint64_t key)
{
    uint64_t row = (key >> 4) * UINT64_C(0x9e3779b97f4a7c15);
    row ^= row >> 32;
    return (size_t)(row << 4 | ((key ^ row >> 28) & 15));
}

void map_init(map *m, const pawl_allocator *a)
{
    *m = (map){.allocator = a, .mask = FIRST_SLOTS - 1};
    m->slots = m->first;
}

void map_done(map *m)
{
    if (m->slots && m->slots != m->first) alloc_free(m->allocator, m->slots);
    map_init(m, m->allocator);
}

static void split(map_node *chain, size_t bit, map_node **low, map_node **high)
{
    while (chain) {
        map_node ***end = spread(chain->key) & bit ? &high : &low;
        **end = chain;
        *end = &chain->next;
        chain = chain->next;
    }
    *low = *high = NULL;
}

static void grow(map *m)
{
    size_t old = m->mask + 1;
    if (old > SIZE_MAX / sizeof(map_node *) / 2) return;
    map_node **slots = m->allocator->alloc(m->allocator->ctx, 2 * old * sizeof *slots);
    if (!slots) return;
    for (size_t i = 0; i < old; i++) split(m->slots[i], old, &slots[i], &slots[old + i]);
    if (m->slots != m->first) alloc_free(m->allocator, m->slots);
    m->slots = slots;
    m->mask = 2 * old - 1;
}

void map_put(map *m, map_node *node, uint64_t key)
{
    if (m->count > m->mask) grow(m);
    map_node **slot = &m->slots[spread(key) & m->mask];
    node->key = key;
    node->next = *slot;
    *slot = node;
    m->count++;
}

map_node *map_get(const map *m, uint64_t key)
{
    map_node *node = m->slots[spread(key) & m->mask];
    while (node && node->key != key) node = node->next;
    return node;
}

map_node *map_next(const map_node *node)
{
    uint64_t key = node->key;
    map_node *next = node->next;
    while (next && next->key != key) next = next->next;
    return next;
}

void map_remove(map *m, map_node *node)
{
    map_node **at = &m->slots[spread(node->key) & m->mask];
    while (*at && *at != node) at = &(*at)->next;
    CHECK(*at == node);
    *at = node->next;
    node->next = NULL;
    m->count--;
}

static uint64_t stir(uint64_t h, uint64_t word)
{
    h = (h ^ word) * UINT64_C(0x9fb21c651e98df25);
    return h ^ h >> 28;
}

uint64_t hash_bytes(const void *data, size_t n, uint64_t seed)
{
    const unsigned char *at = data;
    uint64_t word, h = stir(seed + UINT64_C(0x9e3779b97f4a7c15), n);
    for (; n >= sizeof word; n -= sizeof word, at += sizeof word) {
        memcpy(&word, at, sizeof word);
        h = stir(h, word);
    }
    if (n) {
        word = 0;
        memcpy(&word, at, n);
        h = stir(h, word);
    }
    h = stir(h, h >> 32);
    return h ^ h >> 32;
}
