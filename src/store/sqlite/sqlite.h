/* The store `sqlite:`: what the layers above may call beside the table of the store contract. */
#ifndef STORE_SQLITE_SQLITE_H
#define STORE_SQLITE_SQLITE_H

#include <pawl/store.h>
#include <sys/vfs.h>

/* Whether the calling thread is inside a write transaction of its own, on a prepared connection to this store's file. A plain
 * dispatch would wait there for itself. false for every other kind of store. */
bool sqlite_inside_own_write(pawl_store *store);

/* How the kind of file system is found out; tests put a network in its place. */
extern int (*sqlite_statfs)(const char *path, struct statfs *out);

/* Which schema a program must know to use a store with this one; tests put a migration in its place that closes older programs out. */
extern int (*sqlite_min_reader)(int schema);

#endif
