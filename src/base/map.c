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
#include <string.h>

#define FIRST_SLOTS (sizeof((map *)0)->first / sizeof(map_node *))

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
        map_node ***end = map_spread(chain->key) & bit ? &high : &low;
        **end = chain;
        *end = &chain->next;
        chain = chain->next;
    }
    *low = *high = NULL;
}

void map_grow(map *m)
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

map_node *map_next(const map_node *node)
{
    uint64_t key = node->key;
    map_node *next = node->next;
    while (next && next->key != key) next = next->next;
    return next;
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
