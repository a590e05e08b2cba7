/* Interned names, of stores on a server: types, queues and tenants are numbers everywhere but in pawl_name. Names are never removed or
 * changed, so what is cached stays true. It is emptied when it has grown too large, which happens only while nobody has it open. */
#ifndef STORE_INTERNED_H
#define STORE_INTERNED_H

#include "base/map.h"
#include <pthread.h>

typedef struct interned {
    const pawl_allocator *allocator;
    pthread_mutex_t lock;
    map by_text, by_id;
    struct name_entry *last; /* the one asked for last */
    size_t count;
} interned;

void interned_init(interned *n, const pawl_allocator *a);
void interned_done(interned *n);

/* From open to close the cache is the caller's: texts stay where they are. What follows is called in between. */
void interned_open(interned *n);
void interned_close(interned *n);
int32_t interned_id(interned *n, const char *text);           /* 0: not in the cache */
const char *interned_text(interned *n, int32_t id);           /* NULL: not in the cache */
void interned_expect(interned *n, size_t count);              /* so many are to be put */
bool interned_put(interned *n, int32_t id, const char *text); /* false: no memory */

#endif
