/* TLS on GnuTLS.
 *
 * Each pump is a thread with an epoll of its own. A connection has two ends: `far` to the client, encrypted, and `near`, one half of a pair of
 * sockets whose other half the listener has. Neither end waits for the other beyond one block: what the listener writes stays in the near
 * socket until the client takes it, and the other way round. So a client that does not read is seen by whoever writes to it, as ever.
 *
 * Deadlines are the listener's: it shuts its half down, which ends the connection here, also one that never came to the end of its
 * handshake. Certificates are held by those who use them: a new one is for new connections.
 */
#include "http/tls.h"

#include "base/alloc.h"
#include "base/error.h"
#include "base/list.h"
#include <errno.h>
#include <gnutls/gnutls.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#define BLOCK (16u << 10)
#define PRIORITIES "NORMAL:-VERS-ALL:+VERS-TLS1.3:+VERS-TLS1.2"

typedef struct credentials {
    gnutls_certificate_credentials_t files;
    atomic_int refs;
} credentials;

struct tls_conn;
typedef struct tls_end {
    struct tls_conn *conn;
    int fd;
    uint32_t watched;
} tls_end;

typedef struct tls_conn {
    list link;
    tls_end far, near;
    gnutls_session_t session;
    credentials *with;
    bool shaken;   /* the handshake is over */
    bool sending;  /* a block is on its way to the client, but not all of it */
    bool far_over; /* the client sends no more */
    bool over;
    char *rest; /* of what the client sent: not taken yet */
    size_t rest_at, rest_len;
} tls_conn;

typedef struct pump {
    http_tls *tls;
    pthread_t thread;
    bool runs;
    int epoll_fd, wake_fd;
    list conns; /* the thread's */
    pthread_mutex_t lock;
    list coming;
    char *block;
} pump;

struct http_tls {
    char *certificate, *key;
    pthread_mutex_t lock; /* of current */
    credentials *current;
    pump *pumps;
    int pumps_count;
    atomic_uint next;
    atomic_bool stop;
};

/* ---- certificates --------------------------------------------------------------------------------------------------------- */

static void let_go(credentials *c)
{
    if (!c || atomic_fetch_sub(&c->refs, 1) != 1) return;
    gnutls_certificate_free_credentials(c->files);
    alloc_free(alloc_default(), c);
}

static pawl_status load(const http_tls *t, credentials **out, pawl_error *err)
{
    credentials *c = alloc_new(alloc_default(), sizeof *c);
    if (!c || gnutls_certificate_allocate_credentials(&c->files)) {
        alloc_free(alloc_default(), c);
        return err_set(err, PAWL_NO_MEMORY, "%s", pawl_status_text(PAWL_NO_MEMORY));
    }
    atomic_store(&c->refs, 1);
    int rc = gnutls_certificate_set_x509_key_file(c->files, t->certificate, t->key, GNUTLS_X509_FMT_PEM);
    if (rc >= 0) return *out = c, PAWL_OK;
    let_go(c);
    return err_set(err, PAWL_INVALID, "could not use the certificate \"%s\" with the key \"%s\": %s", t->certificate, t->key,
                   gnutls_strerror(rc));
}

static credentials *current(http_tls *t)
{
    pthread_mutex_lock(&t->lock);
    credentials *c = t->current;
    atomic_fetch_add(&c->refs, 1);
    pthread_mutex_unlock(&t->lock);
    return c;
}

pawl_status tls_reload(http_tls *t, pawl_error *err)
{
    credentials *fresh, *old;
    pawl_status status = load(t, &fresh, err);
    if (status) return status;
    pthread_mutex_lock(&t->lock);
    old = t->current;
    t->current = fresh;
    pthread_mutex_unlock(&t->lock);
    let_go(old);
    return PAWL_OK;
}

/* ---- one connection ------------------------------------------------------------------------------------------------------- */

static void conn_free(tls_conn *c)
{
    if (c->session) gnutls_deinit(c->session);
    if (c->far.fd >= 0) close(c->far.fd);
    if (c->near.fd >= 0) close(c->near.fd);
    let_go(c->with);
    alloc_free(alloc_default(), c->rest);
    alloc_free(alloc_default(), c);
}

static bool again(ssize_t rc) { return rc == GNUTLS_E_AGAIN || rc == GNUTLS_E_INTERRUPTED; }

static void shake(tls_conn *c)
{
    int rc = gnutls_handshake(c->session);
    if (rc == GNUTLS_E_SUCCESS) c->shaken = true;
    else if (gnutls_error_is_fatal(rc)) c->over = true;
}

/* What the client sent goes to the listener; false: it takes no more now. */
static bool hand_in(tls_conn *c, const char *data, size_t n)
{
    ssize_t sent = send(c->near.fd, data, n, MSG_NOSIGNAL | MSG_DONTWAIT);
    if (sent < 0 && errno != EAGAIN && errno != EINTR) c->over = true;
    if (sent == (ssize_t)n || c->over) return !c->over;
    if (sent < 0) sent = 0;
    if (!c->rest) c->rest = alloc_new(alloc_default(), BLOCK);
    if (!c->rest) return c->over = true, false;
    memmove(c->rest, data + sent, n - (size_t)sent);
    c->rest_at = 0;
    c->rest_len = n - (size_t)sent;
    return false;
}

static bool hand_rest(tls_conn *c)
{
    if (!c->rest_len) return true;
    ssize_t sent = send(c->near.fd, c->rest + c->rest_at, c->rest_len, MSG_NOSIGNAL | MSG_DONTWAIT);
    if (sent < 0 && errno != EAGAIN && errno != EINTR) c->over = true;
    if (sent <= 0) return false;
    c->rest_at += (size_t)sent;
    c->rest_len -= (size_t)sent;
    if (c->rest_len) return false;
    alloc_free(alloc_default(), c->rest);
    c->rest = NULL;
    return true;
}

static void inwards(pump *p, tls_conn *c)
{
    if (!hand_rest(c)) return;
    while (!c->far_over && !c->over) {
        ssize_t n = gnutls_record_recv(c->session, p->block, BLOCK);
        if (n > 0) {
            if (!hand_in(c, p->block, (size_t)n)) return;
        } else if (n == 0) {
            c->far_over = true;
            shutdown(c->near.fd, SHUT_WR);
        } else if (again(n)) {
            return;
        } else if (gnutls_error_is_fatal((int)n)) {
            c->over = true;
        }
    }
}

/* true: the client has all of the block. */
static bool sent(tls_conn *c, ssize_t rc)
{
    c->sending = again(rc);
    if (rc < 0 && !c->sending) c->over = true;
    return rc >= 0;
}

static void outwards(pump *p, tls_conn *c)
{
    if (c->sending && !sent(c, gnutls_record_send(c->session, NULL, 0))) return;
    while (!c->over) {
        ssize_t n = recv(c->near.fd, p->block, BLOCK, MSG_DONTWAIT);
        if (n < 0 && (errno == EAGAIN || errno == EINTR)) return;
        if (n <= 0) {
            gnutls_bye(c->session, GNUTLS_SHUT_WR);
            c->over = true;
        } else if (!sent(c, gnutls_record_send(c->session, p->block, (size_t)n))) {
            return;
        }
    }
}

static void watch(const pump *p, tls_end *end, uint32_t events)
{
    struct epoll_event event = {.events = events, .data.ptr = end};
    if (events == end->watched) return;
    epoll_ctl(p->epoll_fd, EPOLL_CTL_MOD, end->fd, &event);
    end->watched = events;
}

static void move(pump *p, tls_conn *c, const tls_end *ready, uint32_t events)
{
    bool near_gone = ready == &c->near && events & (EPOLLHUP | EPOLLERR) && !(events & EPOLLIN);
    if (near_gone) c->over = true;
    if (!c->shaken && !c->over) {
        if (ready == &c->near && events & EPOLLRDHUP) c->over = true; /* late */
        else shake(c);
    }
    if (c->shaken && !c->over) inwards(p, c);
    if (c->shaken && !c->over) outwards(p, c);
    if (c->over) {
        list_remove(&c->link);
        conn_free(c);
        return;
    }
    bool writes = !c->shaken && gnutls_record_get_direction(c->session) == 1;
    bool reads = !c->shaken ? !writes : !c->far_over && !c->rest_len;
    watch(p, &c->far, (reads ? EPOLLIN : 0u) | (writes || c->sending ? EPOLLOUT : 0u));
    watch(p, &c->near, (c->shaken && !c->sending ? EPOLLIN : 0u) | (c->rest_len ? EPOLLOUT : 0u) | (c->shaken ? 0u : EPOLLRDHUP));
}

/* ---- a pump --------------------------------------------------------------------------------------------------------------- */

static bool add(const pump *p, tls_end *end, uint32_t events)
{
    struct epoll_event event = {.events = end->watched = events, .data.ptr = end};
    return epoll_ctl(p->epoll_fd, EPOLL_CTL_ADD, end->fd, &event) == 0;
}

static void take_in(pump *p)
{
    list come;
    eventfd_t count;
    list_init(&come);
    eventfd_read(p->wake_fd, &count);
    pthread_mutex_lock(&p->lock);
    for (list *node; (node = list_pop(&p->coming));) list_append(&come, node);
    pthread_mutex_unlock(&p->lock);
    for (list *node; (node = list_pop(&come));) {
        tls_conn *c = container_of(node, tls_conn, link);
        list_append(&p->conns, node);
        if (add(p, &c->far, EPOLLIN) && add(p, &c->near, EPOLLRDHUP)) continue;
        list_remove(node);
        conn_free(c);
    }
}

/* Both ends of a connection may be among what is ready, and the first may be its end: only one is looked at in each round. */
static void *run(void *ctx)
{
    pump *p = ctx;
    struct epoll_event ready[1];
    while (!atomic_load(&p->tls->stop)) {
        if (epoll_wait(p->epoll_fd, ready, 1, -1) < 1) continue;
        tls_end *end = ready[0].data.ptr;
        if (!end) take_in(p);
        else move(p, end->conn, end, ready[0].events);
    }
    list_each(node, &p->conns) {
        list_remove(node);
        conn_free(container_of(node, tls_conn, link));
    }
    return NULL;
}

static bool start_pump(http_tls *t, pump *p)
{
    struct epoll_event event = {.events = EPOLLIN};
    p->tls = t;
    list_init(&p->conns);
    list_init(&p->coming);
    pthread_mutex_init(&p->lock, NULL);
    p->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
    p->wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    p->block = alloc_new(alloc_default(), BLOCK);
    p->runs = p->block && p->epoll_fd >= 0 && p->wake_fd >= 0 && epoll_ctl(p->epoll_fd, EPOLL_CTL_ADD, p->wake_fd, &event) == 0 &&
              pthread_create(&p->thread, NULL, run, p) == 0;
    return p->runs;
}

/* ---- the whole ------------------------------------------------------------------------------------------------------------ */

static bool begin_session(http_tls *t, tls_conn *c)
{
    static const gnutls_datum_t protocol = {(unsigned char *)"http/1.1", 8};
    c->with = current(t);
    return gnutls_init(&c->session, GNUTLS_SERVER | GNUTLS_NONBLOCK | GNUTLS_NO_SIGNAL) == 0 &&
           gnutls_priority_set_direct(c->session, PRIORITIES, NULL) == 0 &&
           gnutls_credentials_set(c->session, GNUTLS_CRD_CERTIFICATE, c->with->files) == 0 &&
           gnutls_alpn_set_protocols(c->session, &protocol, 1, 0) == 0;
}

int tls_wrap(http_tls *t, int fd)
{
    int pair[2];
    tls_conn *c = alloc_new(alloc_default(), sizeof *c);
    if (!c || socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, pair)) {
        alloc_free(alloc_default(), c);
        close(fd);
        return -1;
    }
    c->far = (tls_end){.conn = c, .fd = fd};
    c->near = (tls_end){.conn = c, .fd = pair[0]};
    if (!begin_session(t, c)) {
        conn_free(c);
        close(pair[1]);
        return -1;
    }
    gnutls_transport_set_int(c->session, fd);
    pump *p = &t->pumps[atomic_fetch_add(&t->next, 1) % (unsigned)t->pumps_count];
    pthread_mutex_lock(&p->lock);
    list_append(&p->coming, &c->link);
    pthread_mutex_unlock(&p->lock);
    eventfd_write(p->wake_fd, 1);
    return pair[1];
}

pawl_status tls_open(const char *certificate, const char *key, int threads, http_tls **out, pawl_error *err)
{
    http_tls *t = alloc_new(alloc_default(), sizeof *t);
    if (!t) return err_set(err, PAWL_NO_MEMORY, "%s", pawl_status_text(PAWL_NO_MEMORY));
    pthread_mutex_init(&t->lock, NULL);
    t->certificate = alloc_str(alloc_default(), certificate);
    t->key = alloc_str(alloc_default(), key);
    t->pumps = alloc_new(alloc_default(), (size_t)threads * sizeof *t->pumps);
    bool room = t->certificate && t->key && t->pumps;
    pawl_status status = room ? load(t, &t->current, err) : err_set(err, PAWL_NO_MEMORY, "%s", pawl_status_text(PAWL_NO_MEMORY));
    for (; !status && t->pumps_count < threads; t->pumps_count++) {
        if (start_pump(t, &t->pumps[t->pumps_count])) continue;
        status = err_set(err, PAWL_UNAVAILABLE, "could not start TLS: %s", strerror(errno));
    }
    if (status) tls_close(t);
    else *out = t;
    return status;
}

static void stop_pump(pump *p)
{
    if (p->runs) {
        eventfd_write(p->wake_fd, 1);
        pthread_join(p->thread, NULL);
    }
    for (list *node; (node = list_pop(&p->coming));) conn_free(container_of(node, tls_conn, link));
    if (p->epoll_fd >= 0) close(p->epoll_fd);
    if (p->wake_fd >= 0) close(p->wake_fd);
    pthread_mutex_destroy(&p->lock);
    alloc_free(alloc_default(), p->block);
}

void tls_close(http_tls *t)
{
    if (!t) return;
    atomic_store(&t->stop, true);
    for (int i = 0; i < t->pumps_count; i++) stop_pump(&t->pumps[i]);
    let_go(t->current);
    pthread_mutex_destroy(&t->lock);
    alloc_free(alloc_default(), t->pumps);
    alloc_free(alloc_default(), t->certificate);
    alloc_free(alloc_default(), t->key);
    alloc_free(alloc_default(), t);
}
