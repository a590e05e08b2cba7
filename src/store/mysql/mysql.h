/* The store `mysql:` for the rest of pawl. */
#ifndef STORE_MYSQL_MYSQL_H
#define STORE_MYSQL_MYSQL_H

#include <pawl/store.h>

extern const pawl_store_type store_mysql_type;

/* For tests: NULL, or a clock that is used in place of the server's. */
extern const pawl_clock *(*mysql_test_clock)(const pawl_clock *of_options);

/* For tests: the oldest schema that programs must know to use one with that number. */
extern int (*mysql_min_reader)(int schema);

#endif
