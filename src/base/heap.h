/* Timers: an intrusive, indexed 4-ary heap of instants. Insert, move and remove are O(log n). */
#ifndef BASE_HEAP_H
#define BASE_HEAP_H

#include <pawl.h>

typedef struct heap_node {
    int64_t at;
    size_t index; /* place + 1; 0: not in the heap */
} heap_node;

typedef struct heap_place {
    int64_t at; /* the node's own */
    heap_node *node;
} heap_place;

typedef struct heap {
    const pawl_allocator *allocator;
    heap_place *places;
    size_t count, room;
} heap;

void heap_init(heap *h, const pawl_allocator *a);
void heap_done(heap *h);
bool heap_reserve(heap *h, size_t count);            /* room for so many nodes; false: no memory */
void heap_set(heap *h, heap_node *node, int64_t at); /* insert or move; room must have been reserved */
void heap_remove(heap *h, heap_node *node);          /* no harm if it is not in it */
heap_node *heap_first(const heap *h);                /* NULL: empty */
static inline bool heap_has(const heap_node *node) { return node->index != 0; }

#endif
