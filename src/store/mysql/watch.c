/* Hearing of others.
 *
 * MariaDB tells nobody anything, so it is asked: every commit moves a number in its lane's row, and the sums of these numbers over the lanes
 * of others say that something happened. A thread of its own asks, so that the engine never waits for the server: soon again as long as
 * there is news, more and more rarely while there is none (pawl_poll_ms at the rarest), with some jitter so that nodes do not come
 * together.
 *
 * Its connection also holds the session locks that show that this handle's nodes live. When it was lost it is made again, and
 * everything may have happened meanwhile.
 *
 * Locks: watch.lock for what is known here; watch.io for the connection, which is held while the server answers. io comes first.
 */
#include "store/mysql/inner.h"
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <sys/eventfd.h>
#include <time.h>
#include <unistd.h>

#define POLL_LEAST_US (10 * PAWL_MILLISECOND)
#define NOBODY_MAX 2000 /* rows of node 0 beyond which everything counts as news; a sweep adds them up */

void my_watch_init(my_store *s)
{
    watch *w = &s->watch;
    pthread_condattr_t attr;
    *w = (watch){.event_fd = -1};
    pthread_mutex_init(&w->lock, NULL);
    pthread_mutex_init(&w->io, NULL);
    pthread_condattr_init(&attr);
    pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
    pthread_cond_init(&w->wake, &attr);
    pthread_condattr_destroy(&attr);
    rng_init(&w->random, seed_from_system());
}

void my_watch_close(my_store *s)
{
    watch *w = &s->watch;
    pthread_mutex_lock(&w->lock);
    bool running = w->running;
    w->stop = true;
    pthread_cond_signal(&w->wake);
    pthread_mutex_unlock(&w->lock);
    if (running) pthread_join(w->thread, NULL);
    my_conn_close(&w->conn);
    if (w->event_fd >= 0) close(w->event_fd);
    pthread_cond_destroy(&w->wake);
    pthread_mutex_destroy(&w->io);
    pthread_mutex_destroy(&w->lock);
}

/* ---- lives --------------------------------------------------------------------------------------------------------------- */

void my_lock_name(const my_store *s, char out[128])
{
    snprintf(out, 128, "pawl.%016llx.", (unsigned long long)hash_bytes(s->store_id, strlen(s->store_id), 0));
}

static int own_nodes(my_store *s, pawl_id nodes[NODES_MAX])
{
    int count = 0;
    pthread_mutex_lock(&s->lock);
    for (int i = 0; i < NODES_MAX; i++)
        if (s->nodes[i]) nodes[count++] = s->nodes[i];
    pthread_mutex_unlock(&s->lock);
    return count;
}

/* With io held. A connection that was made anew has no locks. */
static bool hold_lives(my_store *s, conn *c)
{
    watch *w = &s->watch;
    pawl_id nodes[NODES_MAX];
    char prefix[128], name[160];
    int count = own_nodes(s, nodes);
    my_lock_name(s, prefix);
    if (!my_conn_ready(c)) return false;
    unsigned long session = mysql_thread_id(c->my);
    if (session == w->session && w->held == count) return true;
    my_script(c);
    for (int i = session == w->session ? w->held : 0; i < count; i++) {
        snprintf(name, sizeof name, "%s%lld", prefix, (long long)nodes[i]);
        my_put_text(c, name);
        my_add(c, SQL_hold_life);
    }
    if (!my_send(c, CALL_READS)) return false;
    w->session = session;
    w->held = count;
    return true;
}

static conn *own_conn(my_store *s)
{
    watch *w = &s->watch;
    if (!w->conn.link) my_conn_init(&w->conn, &s->link, s->allocator);
    return &w->conn;
}

bool my_watch_live(my_store *s)
{
    pthread_mutex_lock(&s->watch.io);
    bool good = hold_lives(s, own_conn(s));
    pthread_mutex_unlock(&s->watch.io);
    return good;
}

/* ---- asking -------------------------------------------------------------------------------------------------------------- */

typedef struct sums {
    int64_t number, backs, nobody;
    bool full; /* there is more of node 0 than was looked at */
} sums;

/* With io held. */
static bool ask(my_store *s, conn *c, sums *out)
{
    pawl_id nodes[NODES_MAX + 1];
    int count = own_nodes(s, nodes);
    if (!hold_lives(s, c)) return false;
    nodes[count++] = 0;
    my_script(c);
    my_add_ids(c, SQL_poll, nodes, my_sort_ids(nodes, count));
    my_add(c, SQL_poll_nobody);
    if (!my_send(c, CALL_READS)) return false;
    const answer *a = my_answer(c, SQL_poll), *b = my_answer(c, SQL_poll_nobody);
    *out = (sums){get_int(a, 0, 0), get_int(a, 0, 1) + get_int(b, 0, 2), get_int(b, 0, 1), get_int(b, 0, 0) >= NOBODY_MAX};
    my_answers_forget(c);
    return true;
}

static void tell(watch *w)
{
    uint64_t one = 1;
    w->changed = true;
    if (w->event_fd >= 0 && write(w->event_fd, &one, sizeof one) < 0) { /* it is readable anyway */
    }
}

/* With the lock held. */
static void learn(my_store *s, bool good, const sums *now)
{
    watch *w = &s->watch;
    bool news = good && (!w->seen || now->full || now->number != w->number || now->nobody != w->nobody || now->backs != w->backs);
    bool put_back = good && (!w->seen || now->full || now->backs != w->backs);
    w->seen = good;
    if (good) {
        w->number = now->number;
        w->backs = now->backs;
        w->nobody = now->nobody;
    }
    if (put_back) my_ready_chill(&s->ready);
    my_ready_heard(&s->ready, good);
    if (news) tell(w);
    int64_t most_us = s->link.url.poll_us;
    w->every_us = news || w->every_us == 0 ? POLL_LEAST_US : 2 * w->every_us;
    if (w->every_us > most_us) w->every_us = most_us;
}

/* A fifth of it either way. */
static struct timespec next_look(watch *w)
{
    int64_t at_us = my_mono_us() + w->every_us * 4 / 5 + (int64_t)rng_below(&w->random, (uint64_t)(w->every_us * 2 / 5) + 1);
    return (struct timespec){.tv_sec = at_us / PAWL_SECOND, .tv_nsec = at_us % PAWL_SECOND * 1000};
}

static void *watcher(void *arg)
{
    my_store *s = arg;
    watch *w = &s->watch;
    pthread_mutex_lock(&w->lock);
    while (!w->stop) {
        pthread_mutex_unlock(&w->lock);
        sums now;
        pthread_mutex_lock(&w->io);
        bool good = ask(s, own_conn(s), &now);
        pthread_mutex_unlock(&w->io);
        pthread_mutex_lock(&w->lock);
        learn(s, good, &now);
        struct timespec at = next_look(w);
        while (!w->stop && pthread_cond_timedwait(&w->wake, &w->lock, &at) != ETIMEDOUT) {}
    }
    pthread_mutex_unlock(&w->lock);
    return NULL;
}

/* Signals are for the program's own threads. */
static bool start(my_store *s)
{
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    bool good = pthread_create(&s->watch.thread, NULL, watcher, s) == 0;
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return good;
}

int my_watch_fd(pawl_store *store)
{
    my_store *s = store_of(store);
    watch *w = &s->watch;
    pthread_mutex_lock(&w->lock);
    if (w->event_fd < 0) w->event_fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
    if (w->event_fd >= 0 && !w->running) w->running = start(s);
    int fd = w->event_fd;
    pthread_mutex_unlock(&w->lock);
    return fd;
}

void my_watch_check(pawl_store *store, bool *changed, int64_t *again_us)
{
    watch *w = &store_of(store)->watch;
    uint64_t count;
    pthread_mutex_lock(&w->lock);
    if (w->event_fd >= 0 && read(w->event_fd, &count, sizeof count) < 0) { /* nothing to empty */
    }
    *changed = w->changed;
    *again_us = -1;
    w->changed = false;
    pthread_mutex_unlock(&w->lock);
}
