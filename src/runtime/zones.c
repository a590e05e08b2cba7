/* Time zones that schedules asked for: read once, kept until the engine closes. There are some six hundred names at most. */
#include "base/zone.h"
#include "runtime/runtime.h"

typedef struct zone_entry {
    struct zone_entry *next;
    zone *zone;
} zone_entry;

void zones_init(runtime *rt) { pthread_mutex_init(&rt->zones_lock, NULL); }

void zones_done(runtime *rt)
{
    for (zone_entry *e = rt->zones, *next; e; e = next) {
        next = e->next;
        zone_free(e->zone);
        alloc_free(&rt->allocator, e);
    }
    pthread_mutex_destroy(&rt->zones_lock);
}

static zone_entry *load(runtime *rt, const char *name, pawl_error *err)
{
    zone_entry *e = alloc_new(&rt->allocator, sizeof *e);
    if (!e) {
        err_set(err, PAWL_NO_MEMORY, "could not read time zone '%s': out of memory", name);
        return NULL;
    }
    if (zone_load(&rt->allocator, NULL, name, &e->zone, err)) {
        alloc_free(&rt->allocator, e);
        return NULL;
    }
    e->next = rt->zones;
    return rt->zones = e;
}

const zone *zones_get(void *ctx, const char *name, pawl_error *err)
{
    runtime *rt = ctx;
    if (!name) name = "UTC";
    pthread_mutex_lock(&rt->zones_lock);
    zone_entry *e = rt->zones;
    while (e && strcmp(zone_name(e->zone), name) != 0) e = e->next;
    if (!e) e = load(rt, name, err);
    pthread_mutex_unlock(&rt->zones_lock);
    return e ? e->zone : NULL;
}
