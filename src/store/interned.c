#include "store/interned.h"
#include "base/alloc.h"
#include "base/list.h"
#include <string.h>

#define NAMES_MAX 65536

typedef struct name_entry {
    map_node by_text, by_id;
    int32_t id;
    char text[];
} name_entry;

static void start(interned *n)
{
    map_init(&n->by_text, n->allocator);
    map_init(&n->by_id, n->allocator);
    n->last = NULL;
    n->count = 0;
}

static void clear(interned *n)
{
    map_each(node, &n->by_id) alloc_free(n->allocator, container_of(node, name_entry, by_id));
    map_done(&n->by_text);
    map_done(&n->by_id);
    start(n);
}

void interned_init(interned *n, const pawl_allocator *a)
{
    *n = (interned){.allocator = a};
    pthread_mutex_init(&n->lock, NULL);
    start(n);
}

void interned_done(interned *n)
{
    if (!n->allocator) return;
    clear(n);
    map_done(&n->by_text);
    map_done(&n->by_id);
    pthread_mutex_destroy(&n->lock);
    n->allocator = NULL;
}

void interned_open(interned *n) { pthread_mutex_lock(&n->lock); }

void interned_close(interned *n) { pthread_mutex_unlock(&n->lock); }

static uint64_t hash(const char *text) { return hash_bytes(text, strlen(text), 0); }

static name_entry *by_text(interned *n, const char *text)
{
    if (n->last && strcmp(n->last->text, text) == 0) return n->last;
    for (map_node *node = map_get(&n->by_text, hash(text)); node; node = map_next(node)) {
        name_entry *e = container_of(node, name_entry, by_text);
        if (strcmp(e->text, text) == 0) return n->last = e;
    }
    return NULL;
}

static name_entry *by_id(interned *n, int32_t id)
{
    if (n->last && n->last->id == id) return n->last;
    map_node *node = map_get(&n->by_id, (uint64_t)id);
    return node ? n->last = container_of(node, name_entry, by_id) : NULL;
}

int32_t interned_id(interned *n, const char *text)
{
    const name_entry *e = by_text(n, text);
    return e ? e->id : 0;
}

const char *interned_text(interned *n, int32_t id)
{
    const name_entry *e = by_id(n, id);
    return e ? e->text : NULL;
}

void interned_expect(interned *n, size_t count)
{
    if (n->count + count > NAMES_MAX) clear(n);
}

bool interned_put(interned *n, int32_t id, const char *text)
{
    size_t size = strlen(text) + 1;
    if (by_id(n, id)) return true;
    name_entry *e = alloc_new(n->allocator, sizeof *e + size);
    if (!e) return false;
    e->id = id;
    memcpy(e->text, text, size);
    map_put(&n->by_text, &e->by_text, hash(text));
    map_put(&n->by_id, &e->by_id, (uint64_t)id);
    n->count++;
    return true;
}
