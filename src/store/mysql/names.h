/* Names (types, queues, tenants) are numbers in the database. They are never removed, so what is cached stays true. */
#ifndef STORE_MYSQL_NAMES_H
#define STORE_MYSQL_NAMES_H

#include "base/map.h"
#include "store/mysql/conn.h"

typedef struct names {
    const pawl_allocator *allocator;
    pthread_mutex_t lock;
    map by_text, by_id;
    struct name_entry *last;
    size_t count;
} names;

void my_names_init(names *n, const pawl_allocator *a);
void my_names_done(names *n);

/* Makes sure that all of them are in the cache; those that do not exist are made. false: the connection says why. NULLs are skipped. */
bool my_names_fetch(names *n, conn *c, const char *const *texts, int count);
bool my_names_fetch_ids(names *n, conn *c, const int32_t *ids, int count); /* 0s are skipped */

/* While it is open nothing leaves the cache. */
void my_names_open(names *n);
void my_names_close(names *n);
int32_t my_name_id(names *n, const char *text); /* 0: not in the cache */
const char *my_name_text(names *n, int32_t id); /* NULL: not in the cache */

#endif
