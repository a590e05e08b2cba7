/* A store's URL taken apart: what libpq gets, and what is pawl's own (parameters that begin with pawl_). */
#ifndef STORE_POSTGRES_URL_H
#define STORE_POSTGRES_URL_H

#include <pawl/store.h>

#define SCHEMA_MAX 63

typedef struct pg_url {
    const pawl_allocator *allocator;
    char *conninfo;              /* without pawl's own parameters; may hold a password */
    char *options;               /* the user's `options` parameter, or "" */
    char *name;                  /* for people: who, where, which database; no password */
    char schema[SCHEMA_MAX + 1]; /* pawl_schema */
    bool proxy;                  /* pawl_proxy: sessions are not ours */
    int64_t poll_us;             /* pawl_poll_ms */
} pg_url;

pawl_status pg_url_read(pg_url *u, const pawl_allocator *a, const char *url, pawl_error *err);
void pg_url_done(pg_url *u); /* also of one that was never read */

#endif
