/* Names of the database in the cache of store/interned.h. */
#ifndef STORE_POSTGRES_NAMES_H
#define STORE_POSTGRES_NAMES_H

#include "store/interned.h"
#include "store/postgres/conn.h"

/* Makes sure that all of them are in the cache, which is not open; those that do not exist are made. NULLs are skipped. false: the
 * connection says why. */
bool pg_names_fetch(interned *n, conn *c, const char *const *texts, int count);
bool pg_names_fetch_ids(interned *n, conn *c, const int32_t *ids, int count); /* 0s are skipped */

#endif
