/* Timers: a 4-ary min-heap of pointers to nodes, each of which knows its place.
 *
 * Invariant: nodes[i]->index == i + 1, and no node is earlier than its parent, nodes[(i - 1) / 4]. Four children share a cache
 * line of pointers and make the tree half as deep as a binary one.
 */
#include "base/heap.h"
#include "base/alloc.h"
#include "base/check.h"

#define FIRST_ROOM 16

void heap_init(heap *h, const pawl_allocator *a) { *h = (heap){.allocator = a}; }

void heap_done(heap *h)
{
    for (size_t i = 0; i < h->count; i++) h->nodes[i]->index = 0;
    alloc_free(h->allocator, h->nodes);
    heap_init(h, h->allocator);
}

bool heap_reserve(heap *h, size_t count)
{
    if (count <= h->room) return true;
    size_t room = h->room ? h->room : FIRST_ROOM;
    while (room < count && room <= SIZE_MAX / 2) room *= 2;
    if (room < count || room > SIZE_MAX / sizeof(heap_node *)) return false;
    heap_node **nodes = alloc_resize(h->allocator, h->nodes, room * sizeof *nodes);
    if (!nodes) return false;
    h->nodes = nodes;
    h->room = room;
    return true;
}

static void place(heap *h, heap_node *node, size_t i)
{
    h->nodes[i] = node;
    node->index = i + 1;
}

static void sift_up(heap *h, heap_node *node, size_t i)
{
    while (i > 0) {
        size_t parent = (i - 1) / 4;
        if (h->nodes[parent]->at <= node->at) break;
        place(h, h->nodes[parent], i);
        i = parent;
    }
    place(h, node, i);
}

static size_t first_child(const heap *h, size_t i)
{
    size_t child = 4 * i + 1, end = child + 4 < h->count ? child + 4 : h->count;
    size_t best = child;
    for (size_t c = child + 1; c < end; c++)
        if (h->nodes[c]->at < h->nodes[best]->at) best = c;
    return best;
}

static void sift_down(heap *h, heap_node *node, size_t i)
{
    while (4 * i + 1 < h->count) {
        size_t child = first_child(h, i);
        if (h->nodes[child]->at >= node->at) break;
        place(h, h->nodes[child], i);
        i = child;
    }
    place(h, node, i);
}

/* Puts a node that may be too early or too late for place i where it belongs. */
static void settle(heap *h, heap_node *node, size_t i)
{
    if (i > 0 && h->nodes[(i - 1) / 4]->at > node->at) sift_up(h, node, i);
    else sift_down(h, node, i);
}

void heap_set(heap *h, heap_node *node, int64_t at)
{
    node->at = at;
    if (node->index) {
        CHECK(h->nodes[node->index - 1] == node);
        settle(h, node, node->index - 1);
        return;
    }
    CHECK(h->count < h->room);
    sift_up(h, node, h->count++);
}

void heap_remove(heap *h, heap_node *node)
{
    if (!node->index) return;
    size_t i = node->index - 1;
    CHECK(h->nodes[i] == node);
    node->index = 0;
    heap_node *last = h->nodes[--h->count];
    if (last != node) settle(h, last, i);
}

heap_node *heap_first(const heap *h) { return h->count ? h->nodes[0] : NULL; }
