/* Noticing that somebody else committed.
 *
 * Whoever commits touches the sidecar after COMMIT returned, and that is watched: at that moment the commit is visible. The
 * -wal file is watched as well, for those who do not touch anything: connections of the host program, and a process that was
 * killed between the two. But the -wal changes at the write, before the commit is visible, so after such an event the store is
 * asked again after 1, 2, 4 ... 128 ms.
 *
 * Whether it was somebody else is told by PRAGMA data_version of the writer connection, which our own commits do not change. A
 * process that has the store for itself watches no -wal, and nobody touches the sidecar: its own commits wake nobody.
 */
#include "store/sqlite/inner.h"
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/inotify.h>
#include <unistd.h>

#define AGAIN_FIRST_US PAWL_MILLISECOND
#define AGAIN_LAST_US (128 * PAWL_MILLISECOND)

static void watch_wal(sqlite_store *s)
{
    watch *w = &s->watch;
    bool wanted = s->shared || !sidecar_alone(&s->side);
    if (wanted && w->wal < 0) {
        char path[PATH_MAX];
        snprintf(path, sizeof path, "%s-wal", s->path);
        w->wal = inotify_add_watch(w->fd, path, IN_MODIFY);
        if (w->wal >= 0) w->again_us = AGAIN_FIRST_US; /* for what happened before */
    } else if (!wanted && w->wal >= 0) {
        inotify_rm_watch(w->fd, w->wal);
        w->wal = -1;
    }
}

static int64_t version_now(sqlite_store *s)
{
    conn *c = &s->writer;
    query q = query_on(c, SQL_data_version);
    int64_t version = query_row(&q) ? get_int(&q) : s->watch.version;
    query_end(&q);
    conn_clear(c);
    return version;
}

/* What was committed since the store was opened counts as new. */
static void set_up(sqlite_store *s)
{
    watch *w = &s->watch;
    if (s->read_only || w->fd >= 0 || (w->fd = inotify_init1(IN_NONBLOCK | IN_CLOEXEC)) < 0) return;
    w->version = s->open_version;
    w->side = inotify_add_watch(w->fd, s->side.path, IN_MODIFY);
    watch_wal(s);
}

int sqlite_watch_fd(pawl_store *store)
{
    sqlite_store *s = (sqlite_store *)store;
    pthread_mutex_lock(&s->watch_lock);
    set_up(s);
    int fd = s->watch.fd;
    pthread_mutex_unlock(&s->watch_lock);
    return fd;
}

/* Empties the descriptor; true: the -wal changed. */
static bool drain(watch *w)
{
    _Alignas(struct inotify_event) char bytes[4096];
    bool wal = false;
    ssize_t n;
    while ((n = read(w->fd, bytes, sizeof bytes)) > 0) {
        const struct inotify_event *e;
        for (char *at = bytes; at < bytes + n; at += sizeof *e + e->len) {
            e = (const struct inotify_event *)at;
            if (e->mask & IN_IGNORED && e->wd == w->wal) w->wal = -1;
            else if (e->wd == w->wal) wal = true;
        }
    }
    return wal;
}

/* false: the writer is busy, and what it has seen is not new. */
static bool look(sqlite_store *s, bool *changed)
{
    bool free = pthread_mutex_trylock(&s->write_lock) == 0;
    int64_t version = free ? version_now(s) : atomic_load(&s->seen_version);
    if (free) pthread_mutex_unlock(&s->write_lock);
    *changed = version != s->watch.version;
    s->watch.version = version;
    return free || *changed;
}

static void plan_again(watch *w, bool from_start)
{
    if (from_start) w->again_us = AGAIN_FIRST_US;
    else if (w->again_us) w->again_us = w->again_us < AGAIN_LAST_US ? w->again_us * 2 : 0;
}

void sqlite_watch_check(pawl_store *store, bool *changed, int64_t *again_us)
{
    sqlite_store *s = (sqlite_store *)store;
    watch *w = &s->watch;
    *changed = false;
    *again_us = -1;
    pthread_mutex_lock(&s->watch_lock);
    set_up(s);
    if (w->fd >= 0) {
        bool wal = drain(w);
        watch_wal(s);
        bool sure = look(s, changed);
        plan_again(w, (wal && !CANARY(WAL_ONLY)) || !sure);
        if (w->again_us) *again_us = w->again_us;
    }
    pthread_mutex_unlock(&s->watch_lock);
}

void watch_close(sqlite_store *s)
{
    if (s->watch.fd >= 0) close(s->watch.fd);
    s->watch.fd = -1;
}
