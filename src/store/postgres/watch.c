/* Hearing of others, and telling them.
 *
 * One connection listens; it also holds the session locks that show that this handle's nodes live, and says NOTIFY, which is only ever a
 * hint: what was missed is found by the safety poll. A NOTIFY takes a lock of the whole cluster until its commit is on disk, so it goes by
 * itself after the commit, at most one every few milliseconds, and what comes meanwhile gathers in it; only where nothing was said for a while
 * the commit says it itself, and those who wait hear it sooner. A handle that nobody watches says it on the connection of the commit.
 *
 * The text of a NOTIFY is what pawl_hint makes: where something was put into the ready index. Empty: other news. "*": anything.
 *
 * Nothing here waits for the server, but for the very first connection: the descriptor that the engine sleeps on is an epoll instance with
 * our socket and a timer in it, and each look at it moves the connection on by a step. When the connection was lost it is made again,
 * and everything may have happened meanwhile.
 *
 * Behind a pooling proxy there is no listening and no lock; others are heard of by the poll alone.
 */
#include "base/error.h"
#include "store/postgres/inner.h"
#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <sys/epoll.h>
#include <sys/timerfd.h>
#include <unistd.h>

#define WORK_EVERY_US (5 * PAWL_MILLISECOND)
#define QUIET_US (15 * PAWL_MILLISECOND)
#define NEWS_EVERY_US (200 * PAWL_MILLISECOND)
#define FEED_EVERY_US (2 * PAWL_SECOND)
#define FIRST_RETRY_US (100 * PAWL_MILLISECOND)
#define LAST_RETRY_US (5 * PAWL_SECOND)
#define FIRST_WAIT_US (5 * PAWL_SECOND) /* for the first connection */

static void channel_name(const pg_store *s, char out[SCHEMA_MAX + 8])
{
    snprintf(out, SCHEMA_MAX + 8, "pawl.%s", s->link.url.schema);
}

/* ---- descriptors --------------------------------------------------------------------------------------------------------- */

static void watch_socket(watch *w, int fd, int events)
{
    if (w->epoll_fd < 0 || (w->socket_fd == fd && w->socket_events == events)) return;
    struct epoll_event e = {.events = (uint32_t)events, .data.fd = fd};
    if (w->socket_fd >= 0 && w->socket_fd != fd) epoll_ctl(w->epoll_fd, EPOLL_CTL_DEL, w->socket_fd, NULL);
    if (fd >= 0 && epoll_ctl(w->epoll_fd, EPOLL_CTL_MOD, fd, &e) != 0) epoll_ctl(w->epoll_fd, EPOLL_CTL_ADD, fd, &e);
    w->socket_fd = fd;
    w->socket_events = events;
}

static int64_t earliest(int64_t a, int64_t b) { return a < b ? a : b; }

static int64_t tell_at(const watch *w)
{
    if (w->state != WATCH_READY || w->asked) return INT64_MAX;
    if (w->work) return w->told_us + WORK_EVERY_US;
    return w->news ? w->told_us + NEWS_EVERY_US : INT64_MAX;
}

static void arm(watch *w)
{
    int64_t at_us = w->changed ? 1 : earliest(w->poll_at_us, tell_at(w)); /* 1: at once, somebody was heard while nobody looked */
    if (w->state == WATCH_WAITING) at_us = earliest(at_us, w->retry_us);
    if (w->timer_fd < 0) return;
    struct itimerspec at = {.it_value = {.tv_sec = at_us / PAWL_SECOND, .tv_nsec = at_us % PAWL_SECOND * 1000}};
    timerfd_settime(w->timer_fd, TFD_TIMER_ABSTIME, &at, NULL);
}

/* A fifth of it either way, so that nodes do not come together. */
static void plan_poll(pg_store *s)
{
    watch *w = &s->watch;
    int64_t every_us = s->link.url.poll_us;
    w->poll_at_us = pg_mono_us() + every_us * 4 / 5 + (int64_t)rng_below(&w->random, (uint64_t)(every_us * 2 / 5) + 1);
}

/* ---- the connection ------------------------------------------------------------------------------------------------------ */

static void part(watch *w)
{
    watch_socket(w, -1, 0);
    PQfinish(w->pg);
    w->pg = NULL;
    w->asked = false;
    w->state = WATCH_OFF;
}

static void retry_later(watch *w)
{
    int64_t wait_us = FIRST_RETRY_US << (w->tries < 6 ? w->tries : 6);
    if (wait_us > LAST_RETRY_US) wait_us = LAST_RETRY_US;
    part(w);
    w->tries++;
    w->state = WATCH_WAITING;
    w->retry_us = pg_mono_us() + wait_us / 2 + (int64_t)rng_below(&w->random, (uint64_t)wait_us / 2 + 1);
}

static void set_out(pg_store *s)
{
    watch *w = &s->watch;
    const char *words[CONNECT_WORDS], *values[CONNECT_WORDS];
    pg_link_keywords(&s->link, words, values);
    w->pg = PQconnectStartParams(words, values, 1);
    w->state = WATCH_CONNECTING;
    w->polling = PGRES_POLLING_WRITING;
    if (!w->pg || PQstatus(w->pg) == CONNECTION_BAD) retry_later(w);
    else watch_socket(w, PQsocket(w->pg), EPOLLOUT);
}

static void ignore_notice(void *ctx, const PGresult *result)
{
    (void)ctx;
    (void)result;
}

/* The session locks of all nodes of this handle. */
static void add_lives(pg_store *s, buf *b)
{
    char *schema = PQescapeIdentifier(s->watch.pg, s->link.url.schema, strlen(s->link.url.schema));
    pthread_mutex_lock(&s->lock);
    buf_fmt(b, "SELECT %s.pawl_hold_lives('{0", schema ? schema : "");
    for (int i = 0; i < NODES_MAX; i++)
        if (s->nodes[i]) buf_fmt(b, ",%d", (int)s->nodes[i]);
    buf_str(b, "}')");
    pthread_mutex_unlock(&s->lock);
    PQfreemem(schema);
}

/* LISTEN, and the locks of the nodes. */
static void greet(pg_store *s)
{
    watch *w = &s->watch;
    buf b;
    char channel[SCHEMA_MAX + 8];
    channel_name(s, channel);
    char *quoted = PQescapeIdentifier(w->pg, channel, strlen(channel));
    buf_init(&b, s->allocator, 1 << 16);
    if (s->link.url.proxy) buf_str(&b, "SELECT 1");
    else buf_fmt(&b, "LISTEN %s;", quoted ? quoted : "");
    if (!s->link.url.proxy) add_lives(s, &b);
    PQsetNoticeReceiver(w->pg, ignore_notice, NULL);
    PQsetnonblocking(w->pg, 1);
    bool sent = quoted && !b.failed && PQsendQuery(w->pg, buf_text(&b)) && PQflush(w->pg) >= 0;
    PQfreemem(quoted);
    buf_done(&b);
    w->state = WATCH_GREETING;
    if (sent) watch_socket(w, PQsocket(w->pg), EPOLLIN);
    else retry_later(w);
}

static void go_on_connecting(pg_store *s)
{
    watch *w = &s->watch;
    w->polling = PQconnectPoll(w->pg);
    if (w->polling == PGRES_POLLING_OK) greet(s);
    else if (w->polling == PGRES_POLLING_FAILED) retry_later(w);
    else watch_socket(w, PQsocket(w->pg), w->polling == PGRES_POLLING_READING ? EPOLLIN : EPOLLOUT);
}

/* Takes what the server answered; true: it owes nothing more. */
static bool drain(watch *w, bool *good)
{
    *good = PQconsumeInput(w->pg) == 1;
    while (*good && !PQisBusy(w->pg)) {
        PGresult *r = PQgetResult(w->pg);
        if (!r) return true;
        ExecStatusType status = PQresultStatus(r);
        *good = status == PGRES_TUPLES_OK || status == PGRES_COMMAND_OK;
        PQclear(r);
    }
    return false;
}

/* Whatever happened while nobody listened. */
static void catch_up(pg_store *s)
{
    s->watch.changed = true;
    pg_ready_chill(&s->ready);
}

static void go_on_greeting(pg_store *s)
{
    watch *w = &s->watch;
    bool good;
    if (drain(w, &good)) {
        w->state = WATCH_READY;
        w->starred = true;
        w->tries = 0;
        catch_up(s);
    } else if (!good) {
        retry_later(w);
    }
}

static bool is_own(const watch *w, int pid)
{
    bool own = pid == PQbackendPID(w->pg);
    for (int i = 0; i < WRITERS && !own; i++) own = w->own[i] == pid;
    return own;
}

/* Our own NOTIFYs come back, too. */
static void hear(pg_store *s)
{
    watch *w = &s->watch;
    for (PGnotify *n; (n = PQnotifies(w->pg));) {
        if (!is_own(w, n->be_pid)) {
            w->changed = true;
            if (n->extra[0] == '*') w->starred = true;
            pg_ready_hint(&s->ready, n->extra);
        }
        PQfreemem(n);
    }
}

static void go_on_listening(pg_store *s)
{
    watch *w = &s->watch;
    bool good = true;
    if (w->asked) w->asked = !drain(w, &good);
    else good = PQconsumeInput(w->pg) == 1 && PQstatus(w->pg) == CONNECTION_OK;
    if (good) hear(s);
    else retry_later(w);
}

/* One step, without waiting. */
static void go_on(pg_store *s)
{
    watch *w = &s->watch;
    struct pollfd p = {.fd = w->pg ? PQsocket(w->pg) : -1,
                       .events = w->state == WATCH_CONNECTING && w->polling == PGRES_POLLING_WRITING ? POLLOUT : POLLIN};
    if (w->state == WATCH_WAITING && pg_mono_us() >= w->retry_us) set_out(s);
    if (!w->pg || poll(&p, 1, 0) <= 0) return;
    if (w->state == WATCH_CONNECTING) go_on_connecting(s);
    else if (w->state == WATCH_GREETING) go_on_greeting(s);
    else if (w->state == WATCH_READY) go_on_listening(s);
}

/* The first connection is waited for, so that nothing is missed from the start; if it does not come, later ones are made by the way. */
static void wait_ready(pg_store *s)
{
    watch *w = &s->watch;
    int64_t until_us = pg_mono_us() + FIRST_WAIT_US;
    if (w->state == WATCH_OFF) set_out(s);
    while (w->pg && w->state != WATCH_READY && pg_mono_us() < until_us) {
        struct pollfd p = {.fd = PQsocket(w->pg),
                           .events = w->state == WATCH_CONNECTING && w->polling == PGRES_POLLING_WRITING ? POLLOUT : POLLIN};
        poll(&p, 1, 100);
        go_on(s);
    }
}

/* ---- telling ------------------------------------------------------------------------------------------------------------- */

static void gather(watch *w, const char *hints, bool news)
{
    size_t have = strlen(w->hints), more = hints ? strlen(hints) : 0;
    w->news |= news;
    if (more == 0) return;
    w->work = true;
    if (have + more >= sizeof w->hints || strchr(hints, '*')) w->everything = true;
    else memcpy(w->hints + have, hints, more + 1);
}

/* Sends what has gathered, if it is time; the answer is taken at the next look. */
static void tell(pg_store *s)
{
    watch *w = &s->watch;
    bool good;
    if (w->state == WATCH_READY && w->asked) {
        w->asked = !drain(w, &good);
        if (good) hear(s);
        else retry_later(w);
    }
    if (pg_mono_us() < tell_at(w) || w->state != WATCH_READY || w->asked) return;
    char channel[SCHEMA_MAX + 8];
    channel_name(s, channel);
    const char *values[] = {channel, w->everything ? "*" : w->hints};
    if (!PQsendQueryParams(w->pg, "SELECT pg_notify($1, $2)", 2, NULL, values, NULL, NULL, 0) || PQflush(w->pg) < 0) {
        retry_later(w);
        return;
    }
    w->asked = true;
    w->told_us = pg_mono_us();
    w->work = w->news = w->everything = false;
    w->hints[0] = '\0';
}

/* On the connection that committed; it does not matter what becomes of it. */
static void tell_here(pg_store *s, conn *c, const char *hints)
{
    char channel[SCHEMA_MAX + 8];
    channel_name(s, channel);
    pg_params_begin(&c->params);
    pg_param_text(&c->params, channel);
    pg_param_text(&c->params, hints && strlen(hints) > 4000 ? "*" : hints ? hints : "");
    PQclear(pg_conn_call(c, SQL_notify, CALL_READS));
}

bool pg_watch_quiet(pg_store *s, const conn *c)
{
    watch *w = &s->watch;
    int pid = c->pg ? PQbackendPID(c->pg) : 0;
    pthread_mutex_lock(&w->lock);
    bool quiet = pid && w->state == WATCH_READY && !w->asked && !w->work && pg_mono_us() - w->told_us >= QUIET_US;
    if (quiet) {
        w->told_us = pg_mono_us();
        if (!is_own(w, pid)) w->own[w->own_count++ % WRITERS] = pid;
    }
    pthread_mutex_unlock(&w->lock);
    return quiet;
}

void pg_watch_tell(pg_store *s, conn *c, const char *hints, bool news)
{
    watch *w = &s->watch;
    bool work = hints && hints[0];
    if (work) pg_ready_hint(&s->ready, hints);
    if (!work && !news) return;
    pthread_mutex_lock(&w->lock);
    bool watched = w->watched;
    if (watched) {
        gather(w, hints, news);
        tell(s);
        arm(w);
    }
    pthread_mutex_unlock(&w->lock);
    if (!watched) tell_here(s, c, hints);
}

/* ---- the engine's side --------------------------------------------------------------------------------------------------- */

static void begin_watching(pg_store *s)
{
    watch *w = &s->watch;
    if (w->watched || s->read_only) return;
    w->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
    w->timer_fd = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK);
    struct epoll_event e = {.events = EPOLLIN, .data.fd = w->timer_fd};
    if (w->epoll_fd < 0 || w->timer_fd < 0 || epoll_ctl(w->epoll_fd, EPOLL_CTL_ADD, w->timer_fd, &e) != 0) {
        pg_store_log(s, PAWL_ERROR, "could not watch the store: %s", strerror(errno));
        if (w->epoll_fd >= 0) close(w->epoll_fd);
        if (w->timer_fd >= 0) close(w->timer_fd);
        w->epoll_fd = w->timer_fd = -1;
        return;
    }
    w->watched = true;
    plan_poll(s);
    if (w->pg) watch_socket(w, PQsocket(w->pg), EPOLLIN);
    wait_ready(s);
    catch_up(s);
    arm(w);
}

int pg_watch_fd(pawl_store *store)
{
    pg_store *s = store_of(store);
    pthread_mutex_lock(&s->watch.lock);
    begin_watching(s);
    int fd = s->watch.epoll_fd;
    pthread_mutex_unlock(&s->watch.lock);
    return fd;
}

static void poll_for_safety(pg_store *s)
{
    watch *w = &s->watch;
    if (pg_mono_us() < w->poll_at_us) return;
    w->poll_seen = true;
    catch_up(s);
    plan_poll(s);
}

void pg_watch_check(pawl_store *store, bool *changed, int64_t *again_us)
{
    pg_store *s = store_of(store);
    watch *w = &s->watch;
    uint64_t count;
    *changed = false;
    *again_us = -1;
    pthread_mutex_lock(&w->lock);
    begin_watching(s);
    if (w->watched) {
        while (read(w->timer_fd, &count, sizeof count) > 0) continue;
        go_on(s);
        poll_for_safety(s);
        tell(s);
        arm(w);
        *changed = w->changed;
        w->changed = false;
    }
    pthread_mutex_unlock(&w->lock);
}

bool pg_watch_polled(pg_store *s)
{
    pthread_mutex_lock(&s->watch.lock);
    bool seen = s->watch.poll_seen;
    s->watch.poll_seen = false;
    pthread_mutex_unlock(&s->watch.lock);
    return seen;
}

bool pg_watch_feed(pg_store *s)
{
    watch *w = &s->watch;
    int64_t now_us = pg_mono_us();
    pthread_mutex_lock(&w->lock);
    bool ask = !w->watched || (w->state == WATCH_READY ? w->starred : now_us - w->feed_us >= FEED_EVERY_US);
    w->starred = false;
    if (ask) w->feed_us = now_us;
    pthread_mutex_unlock(&w->lock);
    return ask;
}

void pg_watch_feed_heard(pg_store *s)
{
    pthread_mutex_lock(&s->watch.lock);
    s->watch.starred = true;
    pthread_mutex_unlock(&s->watch.lock);
}

/* The node is in the list already: a connection that is made now takes its lock, too. */
bool pg_watch_live(pg_store *s, int32_t node)
{
    watch *w = &s->watch;
    (void)node;
    pthread_mutex_lock(&w->lock);
    if (w->state == WATCH_READY && !w->asked) greet(s);
    wait_ready(s);
    bool ready = w->state == WATCH_READY;
    arm(w);
    pthread_mutex_unlock(&w->lock);
    return ready;
}

void pg_watch_init(pg_store *s)
{
    watch *w = &s->watch;
    *w = (watch){.epoll_fd = -1, .timer_fd = -1, .socket_fd = -1, .poll_at_us = INT64_MAX};
    pthread_mutex_init(&w->lock, NULL);
    rng_init(&w->random, seed_from_system());
}

/* What gathered and was not said yet is said now. */
static void say_goodbye(pg_store *s)
{
    watch *w = &s->watch;
    if (!w->work && !w->news) return;
    int64_t until_us = pg_mono_us() + PAWL_SECOND;
    w->told_us = 0;
    for (tell(s); w->asked && pg_mono_us() < until_us;) {
        struct pollfd p = {.fd = PQsocket(w->pg), .events = POLLIN};
        bool good;
        poll(&p, 1, 100);
        w->asked = !drain(w, &good) && good;
        if (!w->asked && (w->work || w->news)) {
            w->told_us = 0;
            tell(s);
        }
    }
}

void pg_watch_close(pg_store *s)
{
    watch *w = &s->watch;
    say_goodbye(s);
    part(w);
    if (w->epoll_fd >= 0) close(w->epoll_fd);
    if (w->timer_fd >= 0) close(w->timer_fd);
    pthread_mutex_destroy(&w->lock);
}
