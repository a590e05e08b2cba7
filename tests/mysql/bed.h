/* The MariaDB server that tests run on, and a database for each of them: one to itself, which is kept from case to case and only
 * emptied, for that is much faster than making it anew. */
#ifndef MYSQL_BED_H
#define MYSQL_BED_H

#include "store/mysql/connector.h"
#include <pawl/store.h>

bool my_bed_there(void); /* false: no server, so skip */
void my_bed_url(char *out, size_t size, const char *database);
void my_bed_database(char *out, size_t size, const char *what);      /* a name that no other process has; it is made, and empty */
MYSQL *my_bed_connect(const char *database);                         /* NULL: none */
void my_bed_exec(MYSQL *my, const char *fmt, ...) PAWL_PRINTF(2, 3); /* must succeed */
int64_t my_bed_int(MYSQL *my, const char *fmt, ...) PAWL_PRINTF(2, 3); /* one number */
void my_bed_empty(const char *database);                               /* every table of a store, if there is one */
void my_bed_clear(const char *database);                               /* all tables go */
void my_bed_drop(const char *database);
void my_bed_use_clock_of_options(void); /* the server's clock is the one in the store's options */

#define BED_SKIP 77

#endif
