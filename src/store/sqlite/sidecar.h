/* The sidecar file PATH-pawl: whose turn it is to write, who is alive, and a bell. See sidecar.c. */
#ifndef STORE_SQLITE_SIDECAR_H
#define STORE_SQLITE_SIDECAR_H

#include <pawl.h>
#include <stdatomic.h>

typedef struct side_page { /* the file's first page, mapped by every process */
    _Atomic uint64_t id;
    _Atomic uint32_t bell;
    _Atomic uint32_t waiters;
} side_page;

typedef struct sidecar {
    int fd;    /* holds the locks; -1: none (read-only store without one) */
    int probe; /* the same file, opened once more: sees the locks of `fd` as those of others */
    side_page *page;
    char *path;
    const pawl_allocator *allocator;
} sidecar;

/* look_only: neither creates nor locks anything, and a missing file is no error. */
pawl_status sidecar_open(sidecar *s, const pawl_allocator *a, const char *db_path, bool look_only, pawl_error *err);
void sidecar_close(sidecar *s);
int64_t sidecar_id(const sidecar *s); /* tells one sidecar file from another; 0: none */

bool sidecar_take_turn(sidecar *s, int64_t until_us); /* monotonic; false: not in time */
void sidecar_end_turn(sidecar *s);

bool sidecar_alone(const sidecar *s); /* no other handle, in any process, has this store open for writing */
void sidecar_touch(sidecar *s);       /* wakes those who watch the file */

bool sidecar_live(sidecar *s, int64_t node); /* the node lives as long as this handle; false: somebody else holds it */
void sidecar_unlive(sidecar *s, int64_t node);
void sidecar_leave(sidecar *s);                    /* gives up every life and wakes the others */
bool sidecar_dead(const sidecar *s, int64_t node); /* nobody holds its life */

#endif
