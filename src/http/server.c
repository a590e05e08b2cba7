/* Lanes: threads that accept connections, drive the library with them, and cut off who is late.
 *
 * Each lane has an instance of the library of its own, without a thread inside: the lane waits for the listening sockets and for the
 * library's epoll descriptor, accepts, and lets it run. (The library's own loop waits a second time when exactly 128 connections are ready
 * at once, and then answers none of them before something else happens.) A connection stays with its lane.
 *
 * A connection stands in the list from the library's "started" to its "closed", which it says before it closes the descriptor. So
 * shutting a late one down under the list's lock never hits a descriptor that was given to somebody else. The library then reads the end
 * of the connection and lets it go. A request that is held has no deadline. The first lane looks once a second, if anybody is there.
 */
#include "base/alloc.h"
#include "base/error.h"
#include "http/parts.h"
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#define SOCKETS_MAX 16
#define ACCEPT_AT_ONCE 64
#define LOOK_MS 1000                  /* how exact deadlines are */
#define CONNECTION_MEMORY (32u << 10) /* of the library: the heads of request and answer */
#define DESCRIPTORS_SPARE 128         /* for stores, logs and the like */

int64_t http_now_us(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec * PAWL_SECOND + now.tv_nsec / 1000;
}

void conn_deadline(http_conn *conn, int64_t after_us)
{
    atomic_store_explicit(&conn->deadline_us, after_us < 0 ? INT64_MAX : http_now_us() + after_us, memory_order_relaxed);
}

void wake_lane(http_lane *lane)
{
    if (atomic_exchange(&lane->woken, true)) return;
    if (eventfd_write(lane->wake_fd, 1)) errno = 0; /* it is awake */
}

/* ---- connections -------------------------------------------------------------------------------------------------------------- */

/* By the address that was accepted: the descriptor may be one of this process's own (tls.h). */
static void describe_peer(http_conn *conn, const union MHD_ConnectionInfo *from)
{
    struct sockaddr_storage peer = {0};
    const struct sockaddr_in *four = (const void *)&peer;
    const struct sockaddr_in6 *six = (const void *)&peer;
    snprintf(conn->peer_text, sizeof conn->peer_text, "unknown");
    if (!from || !from->client_addr) return;
    memcpy(&peer, from->client_addr,
           from->client_addr->sa_family == AF_INET    ? sizeof *four
           : from->client_addr->sa_family == AF_INET6 ? sizeof *six
                                                      : sizeof peer.ss_family);
    if (peer.ss_family == AF_UNIX) {
        conn->peer = HTTP_PEER_UNIX;
        snprintf(conn->peer_text, sizeof conn->peer_text, "unix");
    } else if (peer.ss_family == AF_INET) {
        conn->peer = ntohl(four->sin_addr.s_addr) >> 24 == 127 ? HTTP_PEER_LOOPBACK : HTTP_PEER_OTHER;
        inet_ntop(AF_INET, &four->sin_addr, conn->peer_text, sizeof conn->peer_text);
    } else if (peer.ss_family == AF_INET6) {
        bool mapped = IN6_IS_ADDR_V4MAPPED(&six->sin6_addr) && six->sin6_addr.s6_addr[12] == 127;
        conn->peer = mapped || IN6_IS_ADDR_LOOPBACK(&six->sin6_addr) ? HTTP_PEER_LOOPBACK : HTTP_PEER_OTHER;
        inet_ntop(AF_INET6, &six->sin6_addr, conn->peer_text, sizeof conn->peer_text);
    }
}

static void conn_started(http_lane *lane, struct MHD_Connection *connection, void **context)
{
    const union MHD_ConnectionInfo *info = MHD_get_connection_info(connection, MHD_CONNECTION_INFO_CONNECTION_FD);
    http_conn *conn = alloc_new(alloc_default(), sizeof *conn);
    http_server *s = lane->server;
    if (!conn || !info) return;
    conn->server = s;
    conn->lane = lane;
    conn->fd = info->connect_fd;
    describe_peer(conn, MHD_get_connection_info(connection, MHD_CONNECTION_INFO_CLIENT_ADDRESS));
    conn_deadline(conn, s->options.head_us);
    pthread_mutex_lock(&s->lock);
    list_append(&s->conns, &conn->link);
    pthread_mutex_unlock(&s->lock);
    *context = conn;
}

static void conn_closed(http_server *s, void **context)
{
    http_conn *conn = *context;
    pthread_mutex_lock(&s->lock);
    s->conns_count--;
    if (conn) list_remove(&conn->link);
    pthread_mutex_unlock(&s->lock);
    alloc_free(alloc_default(), conn);
    *context = NULL;
}

static void conn_notify(void *lane, struct MHD_Connection *connection, void **context, enum MHD_ConnectionNotificationCode code)
{
    if (code == MHD_CONNECTION_NOTIFY_STARTED) conn_started(lane, connection, context);
    else conn_closed(((http_lane *)lane)->server, context);
}

/* ---- lanes -------------------------------------------------------------------------------------------------------------------- */

static void turn_away(int fd)
{
    static const char answer[] =
        "HTTP/1.1 503 Service Unavailable\r\nConnection: close\r\nRetry-After: 1\r\nContent-Length: 0\r\n\r\n";
    if (send(fd, answer, sizeof answer - 1, MSG_NOSIGNAL | MSG_DONTWAIT) < 0) errno = 0; /* it is on its way out anyhow */
    close(fd);
}

static bool take_place(http_server *s)
{
    pthread_mutex_lock(&s->lock);
    bool room = s->conns_count < s->options.connections_max;
    bool first = s->conns_count == 0;
    s->conns_count += room;
    pthread_mutex_unlock(&s->lock);
    if (first) wake_lane(&s->lanes[0]); /* there is somebody to watch */
    return room;
}

static void leave_place(http_server *s)
{
    pthread_mutex_lock(&s->lock);
    s->conns_count--;
    pthread_mutex_unlock(&s->lock);
}

static void take_in(http_lane *lane, int fd, const struct sockaddr_storage *peer, socklen_t n)
{
    int on = 1;
    if (peer->ss_family != AF_UNIX) setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    if (!take_place(lane->server)) {
        turn_away(fd);
        return;
    }
    if (lane->server->options.tls && peer->ss_family != AF_UNIX) fd = tls_wrap(lane->server->options.tls, fd);
    if (fd < 0) {
        leave_place(lane->server);
    } else if (MHD_add_connection(lane->daemon, fd, (const struct sockaddr *)peer, n) != MHD_YES) { /* it has closed fd */
        leave_place(lane->server);
    }
}

static void accept_all(http_lane *lane, int socket)
{
    for (int i = 0; i < ACCEPT_AT_ONCE; i++) {
        struct sockaddr_storage peer = {0};
        socklen_t n = sizeof peer;
        int fd = accept4(socket, (struct sockaddr *)&peer, &n, SOCK_CLOEXEC | SOCK_NONBLOCK);
        if (fd >= 0) {
            take_in(lane, fd, &peer, n);
            continue;
        }
        if (errno == EMFILE || errno == ENFILE || errno == ENOMEM || errno == ENOBUFS) {
            log_line(lane->server->options.log, PAWL_WARN, "could not accept a connection: %s", strerror(errno));
            poll(NULL, 0, 100); /* the socket stays readable: do not spin */
        }
        return;
    }
}

/* Cuts off who is late. Whether anybody can become late is the answer. */
static bool cut_late(http_server *s)
{
    int64_t now_us = http_now_us();
    pthread_mutex_lock(&s->lock);
    list_each(node, &s->conns) {
        http_conn *conn = container_of(node, http_conn, link);
        if (conn->late || atomic_load_explicit(&conn->deadline_us, memory_order_relaxed) > now_us) continue;
        conn->late = true;
        shutdown(conn->fd, SHUT_RDWR);
    }
    bool watch = s->conns_count > 0;
    pthread_mutex_unlock(&s->lock);
    return watch;
}

static int timeout_of(const http_lane *lane)
{
    MHD_UNSIGNED_LONG_LONG ms;
    int most = lane->watch ? LOOK_MS : -1;
    if (MHD_get_timeout(lane->daemon, &ms) != MHD_YES) return most;
    return most >= 0 && ms > (MHD_UNSIGNED_LONG_LONG)most ? most : (int)ms;
}

static void look(http_lane *lane)
{
    http_server *s = lane->server;
    if (lane != &s->lanes[0] || (lane->watch && http_now_us() - lane->looked_us < LOOK_MS * 500)) return;
    lane->looked_us = http_now_us();
    lane->watch = cut_late(s);
}

static void *run_lane(void *ctx)
{
    http_lane *lane = ctx;
    http_server *s = lane->server;
    struct pollfd fds[SOCKETS_MAX + 2];
    size_t n = s->options.sockets_count;
    eventfd_t count;
    fds[0] = (struct pollfd){.fd = lane->wake_fd, .events = POLLIN};
    fds[1] = (struct pollfd){.fd = MHD_get_daemon_info(lane->daemon, MHD_DAEMON_INFO_EPOLL_FD)->epoll_fd, .events = POLLIN};
    for (size_t i = 0; i < n; i++) fds[i + 2] = (struct pollfd){.fd = s->sockets[i], .events = POLLIN};
    while (!atomic_load(&s->stopped)) {
        bool quiet = atomic_load(&s->quiet);
        poll(fds, quiet ? 2 : n + 2, timeout_of(lane));
        if (fds[0].revents) eventfd_read(lane->wake_fd, &count);
        atomic_store(&lane->woken, false);
        for (size_t i = 0; i < n && !quiet; i++) {
            if (fds[i + 2].revents) accept_all(lane, fds[i + 2].fd);
        }
        MHD_run(lane->daemon);
        look(lane);
    }
    return NULL;
}

/* ---- start and stop ----------------------------------------------------------------------------------------------------------- */

static void library_log(void *server, const char *fmt, va_list args)
{
    char line[512];
    const http_server *s = server;
    vsnprintf(line, sizeof line, fmt, args);
    line[strcspn(line, "\n")] = '\0';
    log_line(s->options.log, PAWL_DEBUG, "http: %s", line);
}

/* Every connection needs a descriptor. */
static int connections_possible(int wanted)
{
    struct rlimit limit;
    if (getrlimit(RLIMIT_NOFILE, &limit)) return wanted;
    limit.rlim_cur = limit.rlim_max;
    if (setrlimit(RLIMIT_NOFILE, &limit) && getrlimit(RLIMIT_NOFILE, &limit)) return wanted;
    if (limit.rlim_cur == RLIM_INFINITY || limit.rlim_cur > (rlim_t)wanted + DESCRIPTORS_SPARE) return wanted;
    return limit.rlim_cur > 2 * DESCRIPTORS_SPARE ? (int)limit.rlim_cur - DESCRIPTORS_SPARE : DESCRIPTORS_SPARE;
}

static struct MHD_Daemon *start_library(http_lane *lane)
{
    http_server *s = lane->server;
    unsigned flags =
        MHD_USE_EPOLL | MHD_USE_ITC | MHD_USE_NO_LISTEN_SOCKET | MHD_ALLOW_SUSPEND_RESUME | MHD_USE_TURBO | MHD_USE_ERROR_LOG;
    return MHD_start_daemon(flags, 0, NULL, NULL, request_access, lane, MHD_OPTION_EXTERNAL_LOGGER, library_log, s,
                            MHD_OPTION_URI_LOG_CALLBACK, request_begin, lane, MHD_OPTION_NOTIFY_COMPLETED, request_done, lane,
                            MHD_OPTION_NOTIFY_CONNECTION, conn_notify, lane, MHD_OPTION_CONNECTION_LIMIT,
                            (unsigned)s->options.connections_max, MHD_OPTION_CONNECTION_MEMORY_LIMIT, (size_t)CONNECTION_MEMORY,
                            MHD_OPTION_STRICT_FOR_CLIENT, 0, MHD_OPTION_END);
}

static bool start_lane(http_server *s, http_lane *lane)
{
    lane->server = s;
    lane->wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    lane->daemon = lane->wake_fd >= 0 ? start_library(lane) : NULL;
    lane->runs = lane->daemon && pthread_create(&lane->thread, NULL, run_lane, lane) == 0;
    return lane->runs;
}

static void stop_lanes(http_server *s)
{
    atomic_store(&s->stopped, true);
    for (int i = 0; i < s->options.threads; i++) {
        http_lane *lane = &s->lanes[i];
        if (lane->runs) wake_lane(lane);
        if (lane->runs) pthread_join(lane->thread, NULL);
    }
    for (int i = 0; i < s->options.threads; i++) {
        http_lane *lane = &s->lanes[i];
        if (lane->daemon) MHD_stop_daemon(lane->daemon);
        if (lane->server && lane->wake_fd >= 0) close(lane->wake_fd);
    }
}

static void release(http_server *s)
{
    for (size_t i = 0; s->sockets && i < s->options.sockets_count; i++) close(s->sockets[i]);
    pthread_cond_destroy(&s->still);
    pthread_mutex_destroy(&s->lock);
    alloc_free(alloc_default(), s->lanes);
    alloc_free(alloc_default(), s->sockets);
    alloc_free(alloc_default(), s);
}

static bool copy_sockets(http_server *s)
{
    size_t n = s->options.sockets_count;
    s->sockets = alloc_new(alloc_default(), n * sizeof *s->sockets);
    s->lanes = alloc_new(alloc_default(), (size_t)s->options.threads * sizeof *s->lanes);
    if (!s->sockets || !s->lanes) return false;
    memcpy(s->sockets, s->options.sockets, n * sizeof *s->sockets);
    for (size_t i = 0; i < n; i++) fcntl(s->sockets[i], F_SETFL, fcntl(s->sockets[i], F_GETFL) | O_NONBLOCK);
    return true;
}

pawl_status http_start(const http_options *options, http_server **out, pawl_error *err)
{
    if (options->sockets_count > SOCKETS_MAX) return err_set(err, PAWL_INVALID, "more than %d listening sockets", SOCKETS_MAX);
    http_server *s = alloc_new(alloc_default(), sizeof *s);
    if (!s) return err_set(err, PAWL_NO_MEMORY, "%s", pawl_status_text(PAWL_NO_MEMORY));
    s->options = *options;
    s->options.connections_max = connections_possible(options->connections_max);
    pthread_mutex_init(&s->lock, NULL);
    pthread_cond_init(&s->still, NULL);
    list_init(&s->conns);
    atomic_store(&s->busy, 1);
    bool ok = copy_sockets(s);
    for (int i = 0; ok && i < options->threads; i++) ok = start_lane(s, &s->lanes[i]);
    if (ok) return *out = s, PAWL_OK;
    err_set(err, PAWL_UNAVAILABLE, "could not start the HTTP listener: %s", strerror(errno));
    if (s->lanes) stop_lanes(s);
    release(s);
    return err->status;
}

void http_quiet(http_server *s)
{
    atomic_store(&s->quiet, true);
    for (int i = 0; i < s->options.threads; i++) wake_lane(&s->lanes[i]);
}

int http_connections(http_server *s)
{
    pthread_mutex_lock(&s->lock);
    int count = s->conns_count;
    pthread_mutex_unlock(&s->lock);
    return count;
}

/* From now on requests are let go; those that are with the handler or held come back first. The server is one of those who are busy, so
 * that nobody but the last, for whom it waits, touches it after leaving. */
static void wait_until_still(http_server *s)
{
    atomic_store(&s->stopping, true);
    busy_leave(s);
    pthread_mutex_lock(&s->lock);
    while (!s->is_still) pthread_cond_wait(&s->still, &s->lock);
    pthread_mutex_unlock(&s->lock);
}

void busy_enter(http_server *s) { atomic_fetch_add(&s->busy, 1); }

void busy_leave(http_server *s)
{
    if (atomic_fetch_sub(&s->busy, 1) != 1) return;
    pthread_mutex_lock(&s->lock);
    s->is_still = true;
    pthread_cond_broadcast(&s->still);
    pthread_mutex_unlock(&s->lock);
}

void http_stop(http_server *s)
{
    if (!s) return;
    wait_until_still(s);
    stop_lanes(s);
    release(s);
}
