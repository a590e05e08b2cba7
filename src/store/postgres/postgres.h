/* The store `postgres:` for the rest of pawl. */
#ifndef STORE_POSTGRES_POSTGRES_H
#define STORE_POSTGRES_POSTGRES_H

#include <pawl/store.h>

extern const pawl_store_type store_postgres_type;

/* For tests: NULL, or a clock that is passed with every call in place of the server's. */
extern const pawl_clock *(*postgres_test_clock)(const pawl_clock *of_options);

/* For tests: the oldest schema that programs must know to use one with that number. */
extern int (*postgres_min_reader)(int schema);

#endif
