/* The server that tests run on: its URL, and SQL of the test's own. A test has a schema to itself, which is kept from case to case and only
 * emptied, for that is much faster than making it anew. */
#ifndef POSTGRES_BED_H
#define POSTGRES_BED_H

#include <libpq-fe.h>
#include <pawl/store.h>

bool bed_there(bool proxy);                                           /* false: no such server, so skip */
void bed_url(char *out, size_t size, const char *schema, bool proxy); /* with pawl_schema */
void bed_schema(char *out, size_t size, const char *what);            /* a name that no other process has */
PGconn *bed_connect(const char *schema);                              /* not through the proxy; search_path is the schema */
PGconn *bed_connect_database(const char *name);                       /* another one of the same server */
void bed_exec(PGconn *pg, const char *fmt, ...) PAWL_PRINTF(2, 3);    /* must succeed */
int64_t bed_int(PGconn *pg, const char *fmt, ...) PAWL_PRINTF(2, 3);  /* one number */
void bed_empty(const char *schema);                                   /* every table of a store, if there is one */
void bed_drop(const char *schema);
void bed_use_clock_of_options(void); /* the server's clock is the one in the store's options */

#define BED_SKIP 77

#endif
