/* Timers: a 4-ary min-heap of instants and pointers to nodes, each of which knows its place.
 *
 * Invariant: places[i].node->index == i + 1, and no place is earlier than its parent, places[(i - 1) / 4]. Four children share a cache
 * line or two, without a look at the nodes, and make the tree half as deep as a binary one.
 */
#include "base/heap.h"
#include "base/alloc.h"
#include "base/check.h"

#define FIRST_ROOM 16

void heap_init(heap *h, const pawl_allocator *a) { *h = (heap){.allocator = a}; }

void heap_done(heap *h)
{
    for (size_t i = 0; i < h->count; i++) h->places[i].node->index = 0;
    alloc_free(h->allocator, h->places);
    heap_init(h, h->allocator);
}

bool heap_reserve(heap *h, size_t count)
{
    if (count <= h->room) return true;
    size_t room = h->room ? h->room : FIRST_ROOM;
    while (room < count && room <= SIZE_MAX / 2) room *= 2;
    if (room < count || room > SIZE_MAX / sizeof(heap_place)) return false;
    heap_place *places = alloc_resize(h->allocator, h->places, room * sizeof *places);
    if (!places) return false;
    h->places = places;
    h->room = room;
    return true;
}

static void place(heap *h, heap_place p, size_t i)
{
    h->places[i] = p;
    p.node->index = i + 1;
}

static void sift_up(heap *h, heap_place p, size_t i)
{
    while (i > 0) {
        size_t parent = (i - 1) / 4;
        if (h->places[parent].at <= p.at) break;
        place(h, h->places[parent], i);
        i = parent;
    }
    place(h, p, i);
}

static size_t first_child(const heap *h, size_t i)
{
    size_t child = 4 * i + 1, end = child + 4 < h->count ? child + 4 : h->count;
    size_t best = child;
    for (size_t c = child + 1; c < end; c++)
        if (h->places[c].at < h->places[best].at) best = c;
    return best;
}

static void sift_down(heap *h, heap_place p, size_t i)
{
    while (4 * i + 1 < h->count) {
        size_t child = first_child(h, i);
        if (h->places[child].at >= p.at) break;
        place(h, h->places[child], i);
        i = child;
    }
    place(h, p, i);
}

/* Puts what may be too early or too late for place i where it belongs. */
static void settle(heap *h, heap_place p, size_t i)
{
    if (i > 0 && h->places[(i - 1) / 4].at > p.at) sift_up(h, p, i);
    else sift_down(h, p, i);
}

void heap_set(heap *h, heap_node *node, int64_t at)
{
    heap_place p = {at, node};
    node->at = at;
    if (node->index) {
        CHECK(h->places[node->index - 1].node == node);
        settle(h, p, node->index - 1);
        return;
    }
    CHECK(h->count < h->room);
    sift_up(h, p, h->count++);
}

void heap_remove(heap *h, heap_node *node)
{
    if (!node->index) return;
    size_t i = node->index - 1;
    CHECK(h->places[i].node == node);
    node->index = 0;
    heap_place last = h->places[--h->count];
    if (last.node != node) settle(h, last, i);
}

heap_node *heap_first(const heap *h) { return h->count ? h->places[0].node : NULL; }
