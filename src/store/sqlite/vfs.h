/* The VFS of our connections: the system's own, with a look at one lock. See vfs.c. */
#ifndef STORE_SQLITE_VFS_H
#define STORE_SQLITE_VFS_H

#include <sqlite3.h>
#include <stdbool.h>
#include <stdint.h>

typedef struct shim_file {
    sqlite3_file base;
    sqlite3_file *real;
    bool checkpointing;       /* between vfs_checkpoint_begin and _end */
    bool writer_lock;         /* the checkpoint has the writer lock */
    int64_t writer_until_us;  /* how long to wait for it */
    int64_t readers_until_us; /* and then for readers */
    bool gathers;             /* a WAL: writes are gathered */
    char *gathered;
    int gathered_len;
    sqlite3_int64 gathered_at; /* where they belong */
} shim_file;

const char *vfs_name(void); /* registers it at the first call; NULL: no memory */

void vfs_checkpoint_begin(shim_file *file, int64_t wait_us);
void vfs_checkpoint_end(shim_file *file);
int vfs_checkpoint_busy(shim_file *file); /* the busy handler while checkpointing */

#endif
