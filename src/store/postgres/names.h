/* Interned names: types, queues and tenants are numbers everywhere but in pawl_name. Names are never removed or changed, so what is
 * cached stays true. */
#ifndef STORE_POSTGRES_NAMES_H
#define STORE_POSTGRES_NAMES_H

#include "base/map.h"
#include "store/postgres/conn.h"

typedef struct names {
    const pawl_allocator *allocator;
    pthread_mutex_t lock;
    map by_text, by_id;
    struct name_entry *last; /* the one asked for last */
    size_t count;
    bool failed; /* no memory for one of those asked for */
} names;

void pg_names_init(names *n, const pawl_allocator *a);
void pg_names_done(names *n);

/* From names_open to names_close the cache is the caller's: texts stay where they are. */
void pg_names_open(names *n);
void pg_names_close(names *n);
int32_t pg_name_id(names *n, const char *text); /* 0: not in the cache */
const char *pg_name_text(names *n, int32_t id); /* NULL: not in the cache */

/* Fetches what is missing, on that connection; names that do not exist yet are made. Outside names_open. false: failed. */
bool pg_names_fetch(names *n, conn *c, const char *const *texts, int count);
bool pg_names_fetch_ids(names *n, conn *c, const int32_t *ids, int count);

#endif
