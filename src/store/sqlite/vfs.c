/* A thin VFS that tells a checkpoint which lock it waits for.
 *
 * A FULL checkpoint first takes the writer lock and then waits for readers, and SQLite asks one and the same busy handler in
 * both cases. Waiting too briefly for the writer lock silently turns FULL into PASSIVE, the kind that can lose rows; waiting
 * too long for a reader, with the writer lock held, stops every writer. So this VFS looks at xShmLock: once our connection got
 * the writer lock, readers get READERS_WAIT_US and no more. And if the writer lock cannot be had in time, xShmLock answers an
 * I/O error instead of SQLITE_BUSY, which ends the checkpoint with an error: it is never demoted.
 *
 * And it gathers what is written to the WAL. SQLite writes each frame in two calls, 24 bytes and a page, thousands of them for a large
 * commit; what follows on each other leaves in one. All of it is written before anything is synced, read, cut or asked of the file,
 * so nobody can tell: a frame counts only once it is synced (synchronous=FULL) and the WAL index, in shared memory, says so. On a disk
 * whose sectors may be torn SQLite syncs before the last frames of a commit, so there nothing is gathered.
 *
 * Everything else goes straight to the VFS that is the default at that moment.
 */
#include "store/sqlite/vfs.h"
#include "store/sqlite/conn.h"
#include <pthread.h>
#include <string.h>
#include <time.h>

#define READERS_WAIT_US (50 * PAWL_MILLISECOND)
#define WRITER_LOCK 0           /* its place among the locks of the WAL index */
#define GATHERED_MAX (64 << 10) /* SQLite writes less than 128 KiB in one call */

static sqlite3_vfs *system_vfs(void) { return sqlite3_vfs_find(NULL); }

static sqlite3_file *real(sqlite3_file *f) { return ((shim_file *)f)->real; }

/* ---- the file ------------------------------------------------------------------------------------------------------------ */

/* Writes what was gathered. If that fails it is forgotten: SQLite writes those frames anew. */
static int scatter(shim_file *file)
{
    int n = file->gathered_len;
    file->gathered_len = 0;
    return n ? file->real->pMethods->xWrite(file->real, file->gathered, n, file->gathered_at) : SQLITE_OK;
}

static int file_close(sqlite3_file *f)
{
    shim_file *file = (shim_file *)f;
    sqlite3_file *r = real(f);
    int written = r->pMethods ? scatter(file) : SQLITE_OK;
    int rc = r->pMethods ? r->pMethods->xClose(r) : SQLITE_OK;
    sqlite3_free(file->gathered);
    sqlite3_free(r);
    f->pMethods = NULL;
    return written ? written : rc;
}

static int file_read(sqlite3_file *f, void *to, int n, sqlite3_int64 at)
{
    int rc = scatter((shim_file *)f);
    return rc ? rc : real(f)->pMethods->xRead(real(f), to, n, at);
}

static bool may_gather(shim_file *file, int n)
{
    if (!file->gathers || n > GATHERED_MAX) return false;
    if (!file->gathered) file->gathered = sqlite3_malloc(GATHERED_MAX);
    return file->gathered;
}

static int file_write(sqlite3_file *f, const void *from, int n, sqlite3_int64 at)
{
    shim_file *file = (shim_file *)f;
    bool gather = may_gather(file, n), follows = at == file->gathered_at + file->gathered_len;
    int rc = gather && follows && file->gathered_len + n <= GATHERED_MAX ? SQLITE_OK : scatter(file);
    if (rc || !gather) return rc ? rc : real(f)->pMethods->xWrite(real(f), from, n, at);
    if (file->gathered_len == 0) file->gathered_at = at;
    memcpy(file->gathered + file->gathered_len, from, (size_t)n);
    file->gathered_len += n;
    return SQLITE_OK;
}

static int file_truncate(sqlite3_file *f, sqlite3_int64 size)
{
    int rc = scatter((shim_file *)f);
    return rc ? rc : real(f)->pMethods->xTruncate(real(f), size);
}

static int file_sync(sqlite3_file *f, int flags)
{
    int rc = scatter((shim_file *)f);
    return rc ? rc : real(f)->pMethods->xSync(real(f), flags);
}

static int file_size(sqlite3_file *f, sqlite3_int64 *size)
{
    int rc = scatter((shim_file *)f);
    return rc ? rc : real(f)->pMethods->xFileSize(real(f), size);
}

static int file_lock(sqlite3_file *f, int level) { return real(f)->pMethods->xLock(real(f), level); }
static int file_unlock(sqlite3_file *f, int level) { return real(f)->pMethods->xUnlock(real(f), level); }
static int file_reserved(sqlite3_file *f, int *out) { return real(f)->pMethods->xCheckReservedLock(real(f), out); }
static int file_control(sqlite3_file *f, int op, void *arg) { return real(f)->pMethods->xFileControl(real(f), op, arg); }
static int file_sector(sqlite3_file *f) { return real(f)->pMethods->xSectorSize(real(f)); }
static int file_traits(sqlite3_file *f) { return real(f)->pMethods->xDeviceCharacteristics(real(f)); }

static int file_shm_map(sqlite3_file *f, int page, int size, int extend, void volatile **out)
{
    return real(f)->pMethods->xShmMap(real(f), page, size, extend, out);
}

static int file_shm_lock(sqlite3_file *f, int at, int n, int flags)
{
    shim_file *file = (shim_file *)f;
    int rc = real(f)->pMethods->xShmLock(real(f), at, n, flags);
    if (!file->checkpointing || at != WRITER_LOCK || flags != (SQLITE_SHM_LOCK | SQLITE_SHM_EXCLUSIVE)) return rc;
    if (rc == SQLITE_OK) {
        file->writer_lock = true;
        file->readers_until_us = mono_us() + READERS_WAIT_US;
    } else if (rc == SQLITE_BUSY && mono_us() >= file->writer_until_us) {
        return SQLITE_IOERR_SHMLOCK;
    }
    return rc;
}

static void file_shm_barrier(sqlite3_file *f) { real(f)->pMethods->xShmBarrier(real(f)); }
static int file_shm_unmap(sqlite3_file *f, int drop) { return real(f)->pMethods->xShmUnmap(real(f), drop); }

static int file_fetch(sqlite3_file *f, sqlite3_int64 at, int n, void **out)
{
    return real(f)->pMethods->xFetch(real(f), at, n, out);
}

static int file_unfetch(sqlite3_file *f, sqlite3_int64 at, void *page) { return real(f)->pMethods->xUnfetch(real(f), at, page); }

#define METHODS(version)                                                                                                        \
    {                                                                                                                           \
        version, file_close, file_read, file_write, file_truncate, file_sync, file_size, file_lock, file_unlock, file_reserved, \
            file_control, file_sector, file_traits, file_shm_map, file_shm_lock, file_shm_barrier, file_shm_unmap, file_fetch,  \
            file_unfetch                                                                                                        \
    }

static const sqlite3_io_methods methods[3] = {METHODS(1), METHODS(2), METHODS(3)};

/* ---- the VFS ------------------------------------------------------------------------------------------------------------- */

static int vfs_open(sqlite3_vfs *v, const char *path, sqlite3_file *f, int flags, int *out_flags)
{
    (void)v;
    shim_file *file = (shim_file *)f;
    sqlite3_vfs *below = system_vfs();
    *file = (shim_file){.real = sqlite3_malloc(below->szOsFile)};
    if (!file->real) return SQLITE_NOMEM;
    file->real->pMethods = NULL;
    int rc = below->xOpen(below, path, file->real, flags, out_flags);
    if (rc == SQLITE_OK) {
        int version = file->real->pMethods->iVersion;
        f->pMethods = &methods[(version > 3 ? 3 : version) - 1];
        file->gathers = (flags & SQLITE_OPEN_WAL) && (file_traits(f) & SQLITE_IOCAP_POWERSAFE_OVERWRITE);
    } else {
        file_close(f);
    }
    return rc;
}

static int vfs_delete(sqlite3_vfs *v, const char *path, int sync)
{
    (void)v;
    return system_vfs()->xDelete(system_vfs(), path, sync);
}

static int vfs_access(sqlite3_vfs *v, const char *path, int flags, int *out)
{
    (void)v;
    return system_vfs()->xAccess(system_vfs(), path, flags, out);
}

static int vfs_full_path(sqlite3_vfs *v, const char *path, int n, char *out)
{
    (void)v;
    return system_vfs()->xFullPathname(system_vfs(), path, n, out);
}

static int vfs_randomness(sqlite3_vfs *v, int n, char *out)
{
    (void)v;
    return system_vfs()->xRandomness(system_vfs(), n, out);
}

static int vfs_sleep(sqlite3_vfs *v, int us)
{
    (void)v;
    return system_vfs()->xSleep(system_vfs(), us);
}

static int vfs_time(sqlite3_vfs *v, double *out)
{
    (void)v;
    return system_vfs()->xCurrentTime(system_vfs(), out);
}

static int vfs_last_error(sqlite3_vfs *v, int n, char *out)
{
    (void)v;
    return system_vfs()->xGetLastError ? system_vfs()->xGetLastError(system_vfs(), n, out) : 0;
}

static sqlite3_vfs shim = {
    .iVersion = 1,
    .szOsFile = sizeof(shim_file),
    .zName = "pawl",
    .xOpen = vfs_open,
    .xDelete = vfs_delete,
    .xAccess = vfs_access,
    .xFullPathname = vfs_full_path,
    .xRandomness = vfs_randomness,
    .xSleep = vfs_sleep,
    .xCurrentTime = vfs_time,
    .xGetLastError = vfs_last_error,
};
static pthread_once_t once = PTHREAD_ONCE_INIT;
static bool registered;

static void register_shim(void)
{
    sqlite3_vfs *below = system_vfs();
    if (!below) return;
    shim.mxPathname = below->mxPathname;
    registered = sqlite3_vfs_register(&shim, 0) == SQLITE_OK;
}

const char *vfs_name(void)
{
    pthread_once(&once, register_shim);
    return registered ? shim.zName : NULL;
}

/* ---- checkpoints --------------------------------------------------------------------------------------------------------- */

void vfs_checkpoint_begin(shim_file *file, int64_t wait_us)
{
    file->checkpointing = true;
    file->writer_lock = false;
    file->writer_until_us = mono_us() + wait_us;
}

void vfs_checkpoint_end(shim_file *file) { file->checkpointing = false; }

int vfs_checkpoint_busy(shim_file *file)
{
    if ((file->writer_lock || CANARY(CHECKPOINT_DEMOTED)) && mono_us() >= file->readers_until_us) return 0;
    nanosleep(&(struct timespec){.tv_nsec = 500000}, NULL);
    return 1;
}
