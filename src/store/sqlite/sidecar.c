/* The sidecar file.
 *
 * Locks are OFD locks (they belong to the open file, not to the process), on a file of our own: closing a descriptor of the
 * database file itself would drop SQLite's locks on it. A lock is gone with the last descriptor of its open file, however the
 * process ended.
 *
 *   byte 0           the turn: held around {write transaction, checkpoint}
 *   byte 1           next in line: whoever wants the turn takes this first and gives it up when the turn is its own. So those who
 *                    wait stand in a line of one, and a process that writes again and again cannot pass them. It is a courtesy, given
 *                    up after POLITE_US: a stopped process in the line must not stop the others.
 *   byte 2           shared: one holder per open handle; nobody else holding it means nobody else is there
 *   2^20 + node      the node's life
 *
 * Nothing here is needed for the safety of the database, which has SQLite's own locks, with one exception: a free life lock is
 * taken as proof of death. Should somebody delete the sidecar file under running processes, the next one makes a new file, in
 * which nobody seems to live. So the file has a random id, nodes store it, and only the file a node was born with can prove its
 * death.
 *
 * Waiting is event driven: the first page is mapped, `bell` is a futex that is rung with every unlock. A holder that was killed
 * rings nothing, so nobody sleeps longer than NAP_US at a time. `waiters` may count too many after a kill; that costs a system
 * call per unlock and no more.
 *
 * Bytes written to the second page raise IN_MODIFY for those who watch the file; stores to the mapped page do not.
 */
#include "store/sqlite/sidecar.h"
#include "base/alloc.h"
#include "base/error.h"
#include "base/rand.h"
#include "store/sqlite/conn.h"
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/futex.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#define PAGE 4096
#define BYTE_TURN 0
#define BYTE_NEXT 1
#define BYTE_THERE 2
#define BYTE_LIFE (INT64_C(1) << 20)
#define POLITE_US (250 * PAWL_MILLISECOND)
#define NAP_US (20 * PAWL_MILLISECOND)

static bool set_lock(const sidecar *s, short type, int64_t at)
{
    struct flock lock = {.l_type = type, .l_whence = SEEK_SET, .l_start = at, .l_len = 1};
    return fcntl(s->fd, F_OFD_SETLK, &lock) == 0;
}

static bool lock_is_free(int fd, int64_t at)
{
    struct flock lock = {.l_type = F_WRLCK, .l_whence = SEEK_SET, .l_start = at, .l_len = 1};
    return fcntl(fd, F_OFD_GETLK, &lock) == 0 && lock.l_type == F_UNLCK;
}

/* ---- open ---------------------------------------------------------------------------------------------------------------- */

/* Whoever may write the database may write the sidecar, and nobody else. */
static mode_t mode_for(const char *db_path)
{
    struct stat st;
    if (stat(db_path, &st) != 0) return 0600;
    return 0600 | (st.st_mode & S_IWGRP ? 0060 : 0) | (st.st_mode & S_IWOTH ? 0006 : 0);
}

static int open_file(const char *path, mode_t mode)
{
    int fd = open(path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (fd >= 0) {
        if (mode != 0600) fchmod(fd, mode); /* in vain: it stays ours alone */
        return fd;
    }
    return errno == EEXIST ? open(path, O_RDWR | O_CLOEXEC | O_NOFOLLOW) : -1;
}

static bool map_page(sidecar *s)
{
    struct stat st;
    if (fstat(s->fd, &st) != 0) return false;
    if (st.st_size < 2 * PAGE && ftruncate(s->fd, 2 * PAGE) != 0) return false;
    void *page = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_SHARED, s->fd, 0);
    if (page == MAP_FAILED) return false;
    s->page = page;
    uint64_t none = 0, id = seed_from_system() >> 1 | 1;
    atomic_compare_exchange_strong(&s->page->id, &none, id);
    return true;
}

static pawl_status open_failed(sidecar *s, pawl_error *err)
{
    int why = errno;
    pawl_status status = why == EACCES || why == EPERM || why == EROFS ? PAWL_DENIED : PAWL_UNAVAILABLE;
    if (why == EINVAL) status = PAWL_UNSUPPORTED;
    err_set(err, status, "%s open the lock file \"%s\" beside the database: %s",
            status == PAWL_UNAVAILABLE ? "could not" : "cannot", s->path, strerror(why));
    sidecar_close(s);
    return status;
}

static void look(sidecar *s)
{
    struct stat st;
    if (s->probe < 0 || fstat(s->probe, &st) != 0 || st.st_size < PAGE) return;
    void *page = mmap(NULL, PAGE, PROT_READ, MAP_SHARED, s->probe, 0);
    if (page != MAP_FAILED) s->page = page;
}

pawl_status sidecar_open(sidecar *s, const pawl_allocator *a, const char *db_path, bool look_only, pawl_error *err)
{
    *s = (sidecar){.fd = -1, .probe = -1, .allocator = a};
    size_t size = strlen(db_path) + sizeof "-pawl";
    s->path = alloc_new(a, size);
    if (!s->path) return err_set(err, PAWL_NO_MEMORY, "could not open \"%s\": out of memory", db_path);
    snprintf(s->path, size, "%s-pawl", db_path);
    if (!look_only) s->fd = open_file(s->path, mode_for(db_path));
    if (!look_only && s->fd < 0) return open_failed(s, err);
    s->probe = open(s->path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
    if (look_only) look(s);
    else if (s->probe < 0 || !map_page(s) || !set_lock(s, F_RDLCK, BYTE_THERE)) return open_failed(s, err);
    else if (sidecar_alone(s)) atomic_store(&s->page->waiters, 0); /* whoever was killed while waiting */
    return PAWL_OK;
}

void sidecar_close(sidecar *s)
{
    if (s->page) munmap(s->page, PAGE);
    if (s->fd >= 0) close(s->fd);
    if (s->probe >= 0) close(s->probe);
    if (s->path) alloc_free(s->allocator, s->path);
    *s = (sidecar){.fd = -1, .probe = -1};
}

int64_t sidecar_id(const sidecar *s) { return s->page ? (int64_t)atomic_load(&s->page->id) : 0; }

/* ---- the turn ------------------------------------------------------------------------------------------------------------ */

static void wait_for_bell(sidecar *s, uint32_t heard, int64_t us)
{
    if (us > NAP_US) us = NAP_US;
    struct timespec nap = {.tv_sec = us / 1000000, .tv_nsec = us % 1000000 * 1000};
    atomic_fetch_add(&s->page->waiters, 1);
    syscall(SYS_futex, &s->page->bell, FUTEX_WAIT, heard, &nap, NULL, 0);
    atomic_fetch_sub(&s->page->waiters, 1);
}

static void unlock_and_ring(sidecar *s, int64_t at)
{
    set_lock(s, F_UNLCK, at);
    atomic_fetch_add(&s->page->bell, 1);
    if (atomic_load(&s->page->waiters)) syscall(SYS_futex, &s->page->bell, FUTEX_WAKE, INT_MAX, NULL, NULL, 0);
}

static bool take(sidecar *s, int64_t at, int64_t until_us)
{
    for (;;) {
        uint32_t heard = atomic_load(&s->page->bell);
        if (set_lock(s, F_WRLCK, at)) return true;
        int64_t left_us = until_us - mono_us();
        if (left_us <= 0) return false;
        wait_for_bell(s, heard, left_us);
    }
}

bool sidecar_take_turn(sidecar *s, int64_t until_us)
{
    if (!atomic_load(&s->page->waiters) && set_lock(s, F_WRLCK, BYTE_TURN)) return true;
    int64_t polite_until_us = mono_us() + POLITE_US;
    bool next = take(s, BYTE_NEXT, polite_until_us < until_us ? polite_until_us : until_us);
    bool got = take(s, BYTE_TURN, until_us);
    if (next) unlock_and_ring(s, BYTE_NEXT);
    return got;
}

void sidecar_end_turn(sidecar *s) { unlock_and_ring(s, BYTE_TURN); }

/* ---- the others ---------------------------------------------------------------------------------------------------------- */

bool sidecar_alone(const sidecar *s) { return lock_is_free(s->fd, BYTE_THERE); }

void sidecar_touch(sidecar *s)
{
    ssize_t n = pwrite(s->fd, "", 1, PAGE);
    (void)n; /* a bell that cannot be rung: the others find out by their safety poll */
}

bool sidecar_live(sidecar *s, int64_t node) { return set_lock(s, F_WRLCK, BYTE_LIFE + node); }
void sidecar_unlive(sidecar *s, int64_t node) { set_lock(s, F_UNLCK, BYTE_LIFE + node); }
bool sidecar_dead(const sidecar *s, int64_t node) { return s->probe >= 0 && lock_is_free(s->probe, BYTE_LIFE + node); }

void sidecar_leave(sidecar *s)
{
    if (s->fd < 0) return;
    struct flock all = {.l_type = F_UNLCK, .l_whence = SEEK_SET};
    fcntl(s->fd, F_OFD_SETLK, &all);
    sidecar_touch(s);
}
