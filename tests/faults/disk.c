/* A disk that fails when told to, and that knows what would be left of it after a loss of power.
 *
 * It lies between the store's own VFS and the system's and never waits for the real disk. While it records, every file has an image: the
 * bytes that were synced, and the list of writes and truncations since. A deleted file may come back until the next sync of any file; a
 * file that was never synced may be missing. Shared memory is not kept: it is gone with the power.
 */
#include "faults/disk.h"
#include "base/rand.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define FILES_MAX 16
#define SECTOR 512

typedef struct change { /* a write, or with data NULL a truncation to `at` */
    struct change *next;
    int64_t at, len;
    char *data;
} change;

typedef struct bytes {
    char *data;
    int64_t size, room;
} bytes;

typedef struct image {
    char path[256];
    bool there; /* its name is on the disk */
    bytes synced;
    change *first, **last;
    bool ghost; /* it was deleted, and `synced` may still be found */
} image;

typedef struct disk_file {
    sqlite3_file base;
    sqlite3_file *real;
    image *image; /* NULL: not recorded */
} disk_file;

countdown disk_fault;
int disk_kinds, disk_rc;
bool disk_tears;
void (*disk_in_sync)(void);
bool disk_lies;
static bool recording;
static sqlite3_vfs *below;
static sqlite3_vfs disk;
static image images[FILES_MAX];

/* ---- failures ------------------------------------------------------------------------------------------------------------------- */

static int fate(int kind, int rc)
{
    if (!(disk_kinds & kind) || !fault_now(&disk_fault)) return SQLITE_OK;
    return disk_rc ? disk_rc : rc;
}

/* ---- images --------------------------------------------------------------------------------------------------------------------- */

static image *image_of(const char *path)
{
    for (int i = 0; i < FILES_MAX; i++) {
        image *m = &images[i];
        if (m->path[0] && strcmp(m->path, path) != 0) continue;
        if (!m->path[0]) m->last = &m->first;
        snprintf(m->path, sizeof m->path, "%s", path);
        return m;
    }
    fprintf(stderr, "the disk of this test holds no more than %d files\n", FILES_MAX);
    abort();
}

static void remember(image *m, const void *data, int64_t len, int64_t at)
{
    change *w = calloc(1, sizeof *w);
    *w = (change){.at = at, .len = len};
    if (data) w->data = memcpy(malloc((size_t)len + 1), data, (size_t)len);
    *m->last = w;
    m->last = &w->next;
}

static void put(bytes *b, const char *data, int64_t len, int64_t at)
{
    int64_t end = at + len;
    if (end > b->room) b->data = realloc(b->data, (size_t)(b->room = 2 * end));
    if (end > b->size) {
        memset(b->data + b->size, 0, (size_t)(end - b->size));
        b->size = end;
    }
    if (len) memcpy(b->data + at, data, (size_t)len);
}

static void cut(bytes *b, int64_t size)
{
    if (size <= b->size) b->size = size;
    else put(b, NULL, 0, size);
}

static void forget_changes(image *m)
{
    for (change *w = m->first, *next; w; w = next) {
        next = w->next;
        free(w->data);
        free(w);
    }
    m->first = NULL;
    m->last = &m->first;
}

static void settle(image *m)
{
    for (change *w = m->first; w; w = w->next) {
        if (w->data) put(&m->synced, w->data, w->len, w->at);
        else cut(&m->synced, w->at);
    }
    forget_changes(m);
    m->there = true;
}

static void lay_ghosts(void)
{
    for (int i = 0; i < FILES_MAX; i++) {
        if (!images[i].ghost) continue;
        images[i].ghost = false;
        images[i].synced.size = 0;
    }
}

void disk_record(bool on)
{
    recording = on;
    if (on) return;
    for (int i = 0; i < FILES_MAX; i++) {
        if (!images[i].path[0]) continue;
        forget_changes(&images[i]);
        free(images[i].synced.data);
        images[i] = (image){0};
    }
}

/* ---- loss of power -------------------------------------------------------------------------------------------------------------- */

static void put_sectors(bytes *b, const change *w, disk_loss how, rng *random)
{
    for (int64_t done = 0, n; done < w->len; done += n) {
        char garbage[SECTOR];
        n = SECTOR - (w->at + done) % SECTOR;
        if (n > w->len - done) n = w->len - done;
        uint64_t lot = rng_below(random, how == LOSS_GARBLED ? 3 : 2);
        if (lot == 0) continue;
        for (int i = 0; lot == 2 && i < SECTOR; i++) garbage[i] = (char)rng_below(random, 256);
        put(b, lot == 2 ? garbage : w->data + done, n, w->at + done);
    }
}

static void put_perhaps(bytes *b, const change *w, disk_loss how, rng *random)
{
    if (how == LOSS_DROPPED) return;
    if (!w->data) {
        if (how == LOSS_WRITTEN || rng_below(random, 2)) cut(b, w->at);
    } else if (how == LOSS_WRITTEN) {
        put(b, w->data, w->len, w->at);
    } else {
        put_sectors(b, w, how, random);
    }
}

static void write_file(const char *path, const bytes *b)
{
    FILE *f = fopen(path, "w");
    if (!f || (b->size && fwrite(b->data, 1, (size_t)b->size, f) != (size_t)b->size) || fclose(f) != 0) {
        perror(path);
        abort();
    }
}

static bool is_left(const image *m, disk_loss how, rng *random)
{
    if (m->ghost) return how == LOSS_DROPPED || (how != LOSS_WRITTEN && rng_below(random, 2));
    if (m->there) return true;
    return m->first && (how == LOSS_WRITTEN || (how != LOSS_DROPPED && rng_below(random, 2)));
}

static void crash_one(const image *m, const char *to, disk_loss how, rng *random)
{
    bytes b = {0};
    if (!is_left(m, how, random)) return;
    put(&b, m->synced.data, m->synced.size, 0);
    if (!m->ghost)
        for (const change *w = m->first; w; w = w->next) put_perhaps(&b, w, how, random);
    write_file(to, &b);
    free(b.data);
}

void disk_crash_copy(const char *path, const char *to, disk_loss how, uint64_t seed)
{
    rng random;
    rng_init(&random, seed);
    for (int i = 0; i < FILES_MAX; i++) {
        char copy[300];
        if (!images[i].path[0] || strncmp(images[i].path, path, strlen(path)) != 0) continue;
        snprintf(copy, sizeof copy, "%s%s", to, images[i].path + strlen(path));
        crash_one(&images[i], copy, how, &random);
    }
}

/* ---- the file ------------------------------------------------------------------------------------------------------------------- */

static sqlite3_file *real(sqlite3_file *f) { return ((disk_file *)f)->real; }
static image *image_in(sqlite3_file *f) { return recording ? ((disk_file *)f)->image : NULL; }

static int d_close(sqlite3_file *f)
{
    int rc = real(f)->pMethods->xClose(real(f));
    free(real(f));
    f->pMethods = NULL;
    return rc;
}

static int d_read(sqlite3_file *f, void *to, int n, sqlite3_int64 at)
{
    int rc = fate(DISK_READ, SQLITE_IOERR_READ);
    return rc ? rc : real(f)->pMethods->xRead(real(f), to, n, at);
}

static int d_write(sqlite3_file *f, const void *from, int n, sqlite3_int64 at)
{
    int rc = fate(DISK_WRITE, SQLITE_IOERR_WRITE);
    if (!rc) rc = real(f)->pMethods->xWrite(real(f), from, n, at);
    if (!rc && image_in(f)) remember(image_in(f), from, n, at);
    return rc;
}

static int d_truncate(sqlite3_file *f, sqlite3_int64 size)
{
    int rc = fate(DISK_TRUNCATE, SQLITE_IOERR_TRUNCATE);
    if (!rc) rc = real(f)->pMethods->xTruncate(real(f), size);
    if (!rc && image_in(f)) remember(image_in(f), NULL, 0, size);
    return rc;
}

static int d_sync(sqlite3_file *f, int flags)
{
    (void)flags;
    int rc = fate(DISK_SYNC, SQLITE_IOERR_FSYNC);
    if (rc || !image_in(f)) return rc;
    if (disk_in_sync) disk_in_sync();
    if (disk_lies) return SQLITE_OK;
    lay_ghosts();
    settle(image_in(f));
    return SQLITE_OK;
}

static int d_size(sqlite3_file *f, sqlite3_int64 *size)
{
    int rc = fate(DISK_SIZE, SQLITE_IOERR_FSTAT);
    return rc ? rc : real(f)->pMethods->xFileSize(real(f), size);
}

static int d_lock(sqlite3_file *f, int level) { return real(f)->pMethods->xLock(real(f), level); }
static int d_unlock(sqlite3_file *f, int level) { return real(f)->pMethods->xUnlock(real(f), level); }
static int d_reserved(sqlite3_file *f, int *out) { return real(f)->pMethods->xCheckReservedLock(real(f), out); }
static int d_control(sqlite3_file *f, int op, void *arg) { return real(f)->pMethods->xFileControl(real(f), op, arg); }
static int d_sector(sqlite3_file *f) { return real(f)->pMethods->xSectorSize(real(f)); }
static int d_traits(sqlite3_file *f) { return disk_tears ? 0 : real(f)->pMethods->xDeviceCharacteristics(real(f)); }

static int d_shm_map(sqlite3_file *f, int page, int size, int extend, void volatile **out)
{
    int rc = fate(DISK_SHM_MAP, SQLITE_IOERR_SHMMAP);
    return rc ? rc : real(f)->pMethods->xShmMap(real(f), page, size, extend, out);
}

static int d_shm_lock(sqlite3_file *f, int at, int n, int flags)
{
    int rc = flags & SQLITE_SHM_LOCK ? fate(DISK_SHM_LOCK, SQLITE_IOERR_SHMLOCK) : SQLITE_OK;
    return rc ? rc : real(f)->pMethods->xShmLock(real(f), at, n, flags);
}

static void d_shm_barrier(sqlite3_file *f) { real(f)->pMethods->xShmBarrier(real(f)); }
static int d_shm_unmap(sqlite3_file *f, int drop) { return real(f)->pMethods->xShmUnmap(real(f), drop); }

static const sqlite3_io_methods methods = {2,          d_close,       d_read,      d_write,   d_truncate, d_sync,   d_size,
                                           d_lock,     d_unlock,      d_reserved,  d_control, d_sector,   d_traits, d_shm_map,
                                           d_shm_lock, d_shm_barrier, d_shm_unmap, NULL,      NULL};

/* ---- the VFS -------------------------------------------------------------------------------------------------------------------- */

static int disk_open(sqlite3_vfs *v, const char *path, sqlite3_file *f, int flags, int *out_flags)
{
    (void)v;
    disk_file *file = (disk_file *)f;
    *file = (disk_file){0};
    int rc = fate(DISK_OPEN, SQLITE_CANTOPEN);
    if (rc) return rc;
    file->real = calloc(1, (size_t)below->szOsFile);
    rc = below->xOpen(below, path, file->real, flags, out_flags);
    if (rc) {
        free(file->real);
        file->real = NULL;
        return rc;
    }
    f->pMethods = &methods;
    if (path && recording) file->image = image_of(path);
    return SQLITE_OK;
}

static void deleted(image *m)
{
    forget_changes(m);
    m->ghost = m->there;
    m->there = false;
    if (!m->ghost) m->synced.size = 0;
}

static int disk_delete(sqlite3_vfs *v, const char *path, int sync)
{
    (void)v;
    int rc = fate(DISK_DELETE, SQLITE_IOERR_DELETE);
    if (!rc) rc = below->xDelete(below, path, 0);
    if (!rc && recording) deleted(image_of(path));
    if (!rc && recording && sync) lay_ghosts();
    return rc;
}

bool disk_install(void)
{
    below = sqlite3_vfs_find(NULL);
    if (!below) return false;
    disk = *below;
    disk.pNext = NULL;
    disk.zName = "faulty";
    disk.szOsFile = sizeof(disk_file);
    disk.xOpen = disk_open;
    disk.xDelete = disk_delete;
    return sqlite3_vfs_register(&disk, 1) == SQLITE_OK;
}
