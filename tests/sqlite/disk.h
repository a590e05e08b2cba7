/* A disk that fails when told to, and that remembers what was synced: the default VFS of a test. */
#ifndef TESTS_SQLITE_DISK_H
#define TESTS_SQLITE_DISK_H

#include <sqlite3.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

void disk_install(void);   /* from now on every connection that is opened uses it */
void disk_uninstall(void); /* after they are all closed */

/* ---- failures ---- */

typedef struct disk_failure {
    int at;        /* the n-th write, truncation or sync fails, counted from disk_fail; 0: none */
    bool for_good; /* and every one after it */
    int rc;        /* with this: SQLITE_IOERR_WRITE, SQLITE_FULL, ... */
} disk_failure;

void disk_fail(disk_failure how);
int disk_calls(void);   /* writes, truncations and syncs since disk_fail */
bool disk_failed(void); /* it came to the failure */

/* ---- loss of power ---- */

/* Called in the middle of every sync of a database or WAL: a moment at which power may fail. */
extern void (*disk_in_sync)(void);

/* What would be on the disk if power failed now: synced bytes, and of the others a choice that depends on the seed (not
 * written, written, written in part, garbled). Writes copies of every file whose name begins with `path` to `to` + the rest of
 * its name. */
void disk_crash_copy(const char *path, const char *to, uint64_t seed);

#endif
