/* The place a store's file is in: which file system, how much room is left, how long the disk takes to keep a promise.
 *
 * The disk is measured with a file of its own, in the same folder, that has no name or loses it at once: whatever happens to this
 * process, nothing stays behind.
 */
#include "base/text.h"
#include "store/sqlite/inner.h"
#include "store/sqlite/sqlite.h"
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define MIB (INT64_C(1) << 20)
#define ROOM_WARN (512 * MIB)
#define ROOM_ACT (64 * MIB)
#define SYNCS 9
#define SYNC_SLOW_US (20 * PAWL_MILLISECOND)
#define SYNC_UNREAL_US 8 /* a file system call and no more */
#define TMPFS 0x01021994
#define OVERLAY 0x794c7630

void size_text(int64_t bytes, char out[32])
{
    static const char *const units[] = {"bytes", "KiB", "MiB", "GiB", "TiB"};
    double n = (double)bytes;
    int unit = 0;
    for (; n >= 1024 && unit < 4; unit++) n /= 1024;
    snprintf(out, 32, unit && n < 10 ? "%.1f %s" : "%.0f %s", n, units[unit]);
}

/* ---- file system -------------------------------------------------------------------------------------------------------------------- */

static const char *kind_of(const struct statfs *fs, char other[32])
{
    static const struct {
        unsigned long magic;
        const char *name;
    } kinds[] = {{0xef53, "ext4"},    {0x58465342, "XFS"},     {0x9123683e, "Btrfs"}, {0x2fc12fc1, "ZFS"},
                 {TMPFS, "tmpfs"},    {OVERLAY, "overlay"},    {0xf2f52010, "F2FS"},  {0xca451a4e, "bcachefs"},
                 {0x3153464a, "JFS"}, {0x52654973, "ReiserFS"}};
    unsigned long magic = (unsigned long)fs->f_type & 0xffffffff;
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++)
        if (kinds[i].magic == magic) return kinds[i].name;
    snprintf(other, 32, "type 0x%lx", magic);
    return other;
}

static void examine_kind(const struct statfs *fs, const char *folder, pawl_findings *f)
{
    static const char check[] = "file_system";
    char other[32];
    const char *network = sqlite_network(fs), *kind = kind_of(fs, other);
    if (network) {
        pawl_find(f, check, PAWL_VERDICT_ACT, "\"%s\" is on a network file system (%s), where SQLite cannot keep data safe.",
                  folder, network);
        pawl_advise(f, "Move the file to a local disk.");
    } else if (fs->f_type == TMPFS) {
        pawl_find(f, check, PAWL_VERDICT_WARN, "\"%s\" is in memory (tmpfs): all tasks are gone when the machine stops.", folder);
        pawl_advise(f, "Move the file to a disk if that matters.");
    } else if (fs->f_type == OVERLAY) {
        pawl_find(f, check, PAWL_VERDICT_WARN,
                  "\"%s\" is in the layer of a container (overlay): all tasks are gone when the container is.", folder);
        pawl_advise(f, "Keep the file in a volume if that matters.");
    } else {
        pawl_find(f, check, PAWL_VERDICT_OK, "A local file system (%s).", kind);
    }
}

static void examine_room(const struct statfs *fs, pawl_findings *f)
{
    int64_t free = (int64_t)fs->f_bavail * fs->f_bsize, all = (int64_t)fs->f_blocks * fs->f_bsize;
    char left[32], whole[32];
    size_text(free, left);
    size_text(all, whole);
    pawl_verdict verdict = free < ROOM_ACT ? PAWL_VERDICT_ACT : free < ROOM_WARN ? PAWL_VERDICT_WARN : PAWL_VERDICT_OK;
    pawl_find(f, "free_space", verdict, "%s of %s are free.", left, whole);
    if (verdict != PAWL_VERDICT_OK) pawl_advise(f, "Make room: without it no task can be stored or finished.");
}

/* ---- how long a commit waits -------------------------------------------------------------------------------------------------------- */

static int open_scratch(const char *folder)
{
    char path[PATH_MAX];
    int fd = open(folder, O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
    if (fd >= 0 || (errno != EOPNOTSUPP && errno != EISDIR && errno != ENOENT && errno != EINVAL)) return fd;
    if (snprintf(path, sizeof path, "%s/.pawl-doctor-XXXXXX", folder) >= (int)sizeof path) return -1;
    fd = mkostemp(path, O_CLOEXEC);
    if (fd >= 0) unlink(path);
    return fd;
}

static bool sync_once(int fd, int64_t *us)
{
    static const char page[4096];
    int64_t began_us = mono_us();
    if (write(fd, page, sizeof page) != (ssize_t)sizeof page || fdatasync(fd) != 0) return false;
    *us = mono_us() - began_us;
    return true;
}

static int by_value(const void *a, const void *b)
{
    int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
    return x < y ? -1 : x > y;
}

static bool measure(const char *folder, int64_t us[SYNCS])
{
    int fd = open_scratch(folder);
    bool done = fd >= 0;
    for (int i = 0; done && i < SYNCS; i++) done = sync_once(fd, &us[i]);
    int why = errno;
    if (fd >= 0) close(fd);
    errno = why;
    if (done) qsort(us, SYNCS, sizeof *us, by_value);
    return done;
}

static void examine_sync(const struct statfs *fs, const char *folder, pawl_findings *f)
{
    static const char check[] = "fsync";
    int64_t us[SYNCS] = {0};
    char half[DURATION_TEXT], most[DURATION_TEXT];
    if (!measure(folder, us)) {
        pawl_find(f, check, PAWL_VERDICT_WARN, "How long the disk takes could not be measured in \"%s\": %s.", folder,
                  strerror(errno));
        pawl_advise(f, "Run this as somebody who may write there.");
        return;
    }
    duration_format(us[SYNCS / 2], half, sizeof half);
    duration_format(us[SYNCS - 1], most, sizeof most);
    if (us[SYNCS / 2] > SYNC_SLOW_US) {
        pawl_find(f, check, PAWL_VERDICT_WARN,
                  "The disk takes %s to keep a page for good (at most %s): each commit waits for that.", half, most);
        pawl_advise(f, "Use a faster disk, and dispatch in bulk or from several threads, so that tasks share commits.");
    } else if (us[SYNCS / 2] < SYNC_UNREAL_US && fs->f_type != TMPFS) {
        pawl_find(f, check, PAWL_VERDICT_WARN, "The disk says after %s that a page is kept for good, sooner than any disk can.",
                  half);
        pawl_advise(f, "Expect that a power failure loses tasks, or turn the cache that answers off.");
    } else {
        pawl_find(f, check, PAWL_VERDICT_OK, "The disk takes %s to keep a page for good (at most %s).", half, most);
    }
}

void disk_examine(const char *path, pawl_findings *f)
{
    char folder[PATH_MAX];
    struct statfs fs;
    sqlite_folder(path, folder);
    if (sqlite_statfs(path, &fs) != 0 && sqlite_statfs(folder, &fs) != 0) {
        pawl_find(f, "file_system", PAWL_VERDICT_WARN, "The file system of \"%s\" could not be asked: %s.", path,
                  strerror(errno));
        return;
    }
    examine_kind(&fs, folder, f);
    examine_room(&fs, f);
    examine_sync(&fs, folder, f);
}
