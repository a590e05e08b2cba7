#include "disk.h"
#include "base/rand.h"
#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define FILES_MAX 8

typedef struct pending { /* a write, or with data NULL a truncation to `at`, since the last sync */
    struct pending *next;
    int64_t at;
    int len;
    char *data;
} pending;

typedef struct image { /* what is known to be on the disk of one file */
    char path[300];
    char *bytes;
    int64_t size, room;
    pending *first, **last;
} image;

typedef struct disk_file {
    sqlite3_file base;
    sqlite3_file *real;
    image *image; /* NULL: not of interest */
} disk_file;

void (*disk_in_sync)(void);
static sqlite3_vfs *below;
static sqlite3_vfs disk;
static disk_failure failure;
static int calls;
static bool failed;
static image images[FILES_MAX];

/* ---- failures ------------------------------------------------------------------------------------------------------------ */

void disk_fail(disk_failure how)
{
    failure = how;
    calls = 0;
    failed = false;
}

int disk_calls(void) { return calls; }
bool disk_failed(void) { return failed; }

static int fate(void)
{
    calls++;
    bool fails = failure.at && (calls == failure.at || (failure.for_good && calls > failure.at));
    failed |= fails;
    return fails ? failure.rc : SQLITE_OK;
}

/* ---- what is synced ------------------------------------------------------------------------------------------------------ */

static image *image_of(const char *path)
{
    for (int i = 0; i < FILES_MAX; i++) {
        if (images[i].path[0] && strcmp(images[i].path, path) != 0) continue;
        if (!images[i].path[0]) images[i].last = &images[i].first;
        snprintf(images[i].path, sizeof images[i].path, "%s", path);
        return &images[i];
    }
    fail_msg("too many files");
    return NULL;
}

static void remember(image *m, const void *data, int len, int64_t at)
{
    pending *w = calloc(1, sizeof *w);
    *w = (pending){.at = at, .len = len};
    if (data) w->data = memcpy(malloc((size_t)len), data, (size_t)len);
    *m->last = w;
    m->last = &w->next;
}

static void put(char **bytes, int64_t *size, int64_t *room, const pending *w, int len)
{
    int64_t end = w->data ? w->at + len : w->at;
    if (end > *room) {
        *room = end * 2;
        *bytes = realloc(*bytes, (size_t)*room);
    }
    if (end > *size || !w->data) {
        if (end > *size) memset(*bytes + *size, 0, (size_t)(end - *size));
        *size = end;
    }
    if (w->data) memcpy(*bytes + w->at, w->data, (size_t)len);
}

static void synced(image *m)
{
    for (pending *w = m->first, *next; w; w = next) {
        next = w->next;
        put(&m->bytes, &m->size, &m->room, w, w->len);
        free(w->data);
        free(w);
    }
    m->first = NULL;
    m->last = &m->first;
}

/* Of a write that was not synced anything may be on the disk. */
static void put_perhaps(char **bytes, int64_t *size, int64_t *room, const pending *w, rng *random)
{
    switch (rng_below(random, 4)) {
    case 0: return;
    case 1: put(bytes, size, room, w, w->len); return;
    case 2: put(bytes, size, room, w, w->data ? (int)rng_below(random, (uint64_t)w->len + 1) : 0); return;
    default:
        put(bytes, size, room, w, w->len);
        if (w->data && w->len > 0) (*bytes)[w->at + (int64_t)rng_below(random, (uint64_t)w->len)] ^= 0x41;
    }
}

static void write_copy(const image *m, const char *path, rng *random)
{
    int64_t size = m->size, room = m->size + 1;
    char *bytes = malloc((size_t)room);
    if (size) memcpy(bytes, m->bytes, (size_t)size);
    for (const pending *w = m->first; w; w = w->next) put_perhaps(&bytes, &size, &room, w, random);
    FILE *f = fopen(path, "w");
    assert_non_null(f);
    assert_int_equal(fwrite(bytes, 1, (size_t)size, f), size);
    fclose(f);
    free(bytes);
}

void disk_crash_copy(const char *path, const char *to, uint64_t seed)
{
    rng random;
    rng_init(&random, seed);
    for (int i = 0; i < FILES_MAX; i++) {
        char copy[400];
        if (!images[i].path[0] || strncmp(images[i].path, path, strlen(path)) != 0) continue;
        snprintf(copy, sizeof copy, "%s%s", to, images[i].path + strlen(path));
        write_copy(&images[i], copy, &random);
    }
}

/* ---- the VFS ------------------------------------------------------------------------------------------------------------- */

static sqlite3_file *real(sqlite3_file *f) { return ((disk_file *)f)->real; }

static int d_close(sqlite3_file *f)
{
    int rc = real(f)->pMethods ? real(f)->pMethods->xClose(real(f)) : SQLITE_OK;
    sqlite3_free(real(f));
    return rc;
}

static int d_read(sqlite3_file *f, void *to, int n, sqlite3_int64 at) { return real(f)->pMethods->xRead(real(f), to, n, at); }

static int d_write(sqlite3_file *f, const void *from, int n, sqlite3_int64 at)
{
    image *m = ((disk_file *)f)->image;
    int rc = m ? fate() : SQLITE_OK;
    if (rc == SQLITE_OK) rc = real(f)->pMethods->xWrite(real(f), from, n, at);
    if (rc == SQLITE_OK && m) remember(m, from, n, at);
    return rc;
}

static int d_truncate(sqlite3_file *f, sqlite3_int64 size)
{
    image *m = ((disk_file *)f)->image;
    int rc = m ? fate() : SQLITE_OK;
    if (rc == SQLITE_OK) rc = real(f)->pMethods->xTruncate(real(f), size);
    if (rc == SQLITE_OK && m) remember(m, NULL, 0, size);
    return rc;
}

static int d_sync(sqlite3_file *f, int flags)
{
    image *m = ((disk_file *)f)->image;
    int rc = m ? fate() : SQLITE_OK;
    (void)flags; /* nothing here needs the real disk */
    if (rc == SQLITE_OK && m) {
        if (disk_in_sync) disk_in_sync();
        synced(m);
    }
    return rc;
}

static int d_size(sqlite3_file *f, sqlite3_int64 *size) { return real(f)->pMethods->xFileSize(real(f), size); }
static int d_lock(sqlite3_file *f, int level) { return real(f)->pMethods->xLock(real(f), level); }
static int d_unlock(sqlite3_file *f, int level) { return real(f)->pMethods->xUnlock(real(f), level); }
static int d_reserved(sqlite3_file *f, int *out) { return real(f)->pMethods->xCheckReservedLock(real(f), out); }
static int d_control(sqlite3_file *f, int op, void *arg) { return real(f)->pMethods->xFileControl(real(f), op, arg); }
static int d_sector(sqlite3_file *f) { return real(f)->pMethods->xSectorSize(real(f)); }

static int d_traits(sqlite3_file *f)
{
    (void)f;
    return 0; /* it promises nothing */
}

static int d_shm_map(sqlite3_file *f, int page, int size, int extend, void volatile **out)
{
    return real(f)->pMethods->xShmMap(real(f), page, size, extend, out);
}

static int d_shm_lock(sqlite3_file *f, int at, int n, int flags) { return real(f)->pMethods->xShmLock(real(f), at, n, flags); }
static void d_shm_barrier(sqlite3_file *f) { real(f)->pMethods->xShmBarrier(real(f)); }
static int d_shm_unmap(sqlite3_file *f, int drop) { return real(f)->pMethods->xShmUnmap(real(f), drop); }

static int d_fetch(sqlite3_file *f, sqlite3_int64 at, int n, void **out)
{
    (void)f;
    (void)at;
    (void)n;
    *out = NULL;
    return SQLITE_OK;
}

static int d_unfetch(sqlite3_file *f, sqlite3_int64 at, void *page) { return real(f)->pMethods->xUnfetch(real(f), at, page); }

static const sqlite3_io_methods methods = {3,          d_close,       d_read,      d_write,   d_truncate, d_sync,   d_size,
                                           d_lock,     d_unlock,      d_reserved,  d_control, d_sector,   d_traits, d_shm_map,
                                           d_shm_lock, d_shm_barrier, d_shm_unmap, d_fetch,   d_unfetch};

static int disk_open(sqlite3_vfs *v, const char *path, sqlite3_file *f, int flags, int *out_flags)
{
    (void)v;
    disk_file *file = (disk_file *)f;
    *file = (disk_file){.real = sqlite3_malloc(below->szOsFile)};
    file->real->pMethods = NULL;
    int rc = below->xOpen(below, path, file->real, flags, out_flags);
    if (rc != SQLITE_OK) {
        sqlite3_free(file->real);
        return rc;
    }
    f->pMethods = &methods;
    if (path && flags & (SQLITE_OPEN_MAIN_DB | SQLITE_OPEN_WAL)) file->image = image_of(path);
    return SQLITE_OK;
}

void disk_install(void)
{
    below = sqlite3_vfs_find(NULL);
    disk = *below;
    disk.pNext = NULL;
    disk.zName = "disk";
    disk.szOsFile = sizeof(disk_file);
    disk.xOpen = disk_open;
    assert_int_equal(sqlite3_vfs_register(&disk, 1), SQLITE_OK);
}

void disk_uninstall(void)
{
    sqlite3_vfs_unregister(&disk);
    sqlite3_vfs_register(below, 1);
    disk_fail((disk_failure){0});
    disk_in_sync = NULL;
    for (int i = 0; i < FILES_MAX; i++) {
        if (!images[i].path[0]) continue;
        synced(&images[i]);
        free(images[i].bytes);
        images[i] = (image){0};
    }
}
