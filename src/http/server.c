/* The door: accepts connections, gives them to the library, and cuts off who is late.
 *
 * A connection stands in the list from the library's "started" to its "closed", which it says before it closes the descriptor. So
 * shutting a late one down under the list's lock never hits a descriptor that was given to somebody else. The library then reads the end
 * of the connection and lets it go. Nothing is done to a request that is held or to a stream: they have no deadline.
 *
 * With nobody but streams there, the door sleeps without a timer.
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
#define LOOK_MS 1000                  /* how exact deadlines are */
#define CONNECTION_MEMORY (32u << 10) /* of the library: the head, and what the answer's head needs */
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

/* ---- connections -------------------------------------------------------------------------------------------------------------- */

static void describe_peer(http_conn *conn)
{
    struct sockaddr_storage peer = {0};
    socklen_t n = sizeof peer;
    const struct sockaddr_in *four = (const void *)&peer;
    const struct sockaddr_in6 *six = (const void *)&peer;
    snprintf(conn->peer_text, sizeof conn->peer_text, "unknown");
    if (getpeername(conn->fd, (struct sockaddr *)&peer, &n)) return;
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

static void conn_started(http_server *s, struct MHD_Connection *connection, void **context)
{
    const union MHD_ConnectionInfo *info = MHD_get_connection_info(connection, MHD_CONNECTION_INFO_CONNECTION_FD);
    http_conn *conn = alloc_new(alloc_default(), sizeof *conn);
    if (!conn || !info) return;
    conn->server = s;
    conn->fd = info->connect_fd;
    describe_peer(conn);
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

static void conn_notify(void *server, struct MHD_Connection *connection, void **context, enum MHD_ConnectionNotificationCode code)
{
    if (code == MHD_CONNECTION_NOTIFY_STARTED) conn_started(server, connection, context);
    else conn_closed(server, context);
}

/* ---- the door ----------------------------------------------------------------------------------------------------------------- */

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
    s->conns_count += room;
    pthread_mutex_unlock(&s->lock);
    return room;
}

static void leave_place(http_server *s)
{
    pthread_mutex_lock(&s->lock);
    s->conns_count--;
    pthread_mutex_unlock(&s->lock);
}

static void take_in(http_server *s, int fd)
{
    struct sockaddr_storage peer;
    socklen_t n = sizeof peer;
    int on = 1;
    if (getpeername(fd, (struct sockaddr *)&peer, &n)) {
        close(fd);
        return;
    }
    if (peer.ss_family != AF_UNIX) setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    if (!take_place(s)) {
        turn_away(fd);
    } else if (MHD_add_connection(s->daemon, fd, (struct sockaddr *)&peer, n) != MHD_YES) { /* it has closed fd */
        leave_place(s);
    }
}

static void accept_all(http_server *s, int socket)
{
    for (int i = 0; i < 64; i++) {
        int fd = accept4(socket, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
        if (fd >= 0) {
            take_in(s, fd);
            continue;
        }
        if (errno == EMFILE || errno == ENFILE || errno == ENOMEM || errno == ENOBUFS) {
            log_line(s->options.log, PAWL_WARN, "could not accept a connection: %s", strerror(errno));
            poll(NULL, 0, 100); /* the socket stays readable: do not spin */
        }
        return;
    }
}

/* Cuts off who is late. Whether anybody can become late is the answer. */
static bool cut_late(http_server *s)
{
    int64_t now_us = http_now_us();
    int streams = 0;
    pthread_mutex_lock(&s->lock);
    list_each(node, &s->conns) {
        http_conn *conn = container_of(node, http_conn, link);
        streams += atomic_load(&conn->streams);
        if (conn->late || atomic_load_explicit(&conn->deadline_us, memory_order_relaxed) > now_us) continue;
        conn->late = true;
        shutdown(conn->fd, SHUT_RDWR);
    }
    bool watch = s->conns_count > streams;
    pthread_mutex_unlock(&s->lock);
    return watch;
}

static void *door(void *server)
{
    http_server *s = server;
    struct pollfd fds[SOCKETS_MAX + 1];
    size_t n = s->options.sockets_count;
    bool watch = false;
    int64_t looked_us = 0;
    for (size_t i = 0; i < n; i++) fds[i] = (struct pollfd){.fd = s->sockets[i], .events = POLLIN};
    fds[n] = (struct pollfd){.fd = s->wake_fd, .events = POLLIN};
    while (!atomic_load(&s->stopping)) {
        bool quiet = atomic_load(&s->quiet);
        poll(quiet ? fds + n : fds, quiet ? 1 : n + 1, watch ? LOOK_MS : -1);
        uint64_t count;
        if ((fds[n].revents & POLLIN) && read(s->wake_fd, &count, sizeof count) < 0) errno = 0;
        for (size_t i = 0; i < n && !quiet; i++) {
            if (fds[i].revents) accept_all(s, fds[i].fd), watch = true;
        }
        if (watch && http_now_us() - looked_us < LOOK_MS * 500) continue;
        looked_us = http_now_us();
        watch = cut_late(s);
    }
    return NULL;
}

static void wake_door(http_server *s)
{
    uint64_t one = 1;
    if (write(s->wake_fd, &one, sizeof one) < 0) errno = 0;
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

static struct MHD_Daemon *start_library(http_server *s)
{
    unsigned flags =
        MHD_USE_EPOLL_INTERNAL_THREAD | MHD_USE_ITC | MHD_USE_NO_LISTEN_SOCKET | MHD_ALLOW_SUSPEND_RESUME | MHD_USE_ERROR_LOG;
    unsigned threads = s->options.threads > 1 ? (unsigned)s->options.threads : 0;
    struct MHD_OptionItem pool[] = {{MHD_OPTION_THREAD_POOL_SIZE, (intptr_t)threads, NULL}, {MHD_OPTION_END, 0, NULL}};
    return MHD_start_daemon(
        flags, 0, NULL, NULL, request_access, s, MHD_OPTION_EXTERNAL_LOGGER, library_log, s, MHD_OPTION_URI_LOG_CALLBACK,
        request_begin, s, MHD_OPTION_NOTIFY_COMPLETED, request_done, s, MHD_OPTION_NOTIFY_CONNECTION, conn_notify, s,
        MHD_OPTION_CONNECTION_LIMIT, (unsigned)s->options.connections_max + threads, MHD_OPTION_CONNECTION_MEMORY_LIMIT,
        (size_t)CONNECTION_MEMORY, MHD_OPTION_STRICT_FOR_CLIENT, 0, MHD_OPTION_ARRAY, threads ? pool : pool + 1, MHD_OPTION_END);
}

static void release(http_server *s)
{
    for (size_t i = 0; s->sockets && i < s->options.sockets_count; i++) close(s->sockets[i]);
    if (s->wake_fd >= 0) close(s->wake_fd);
    pthread_cond_destroy(&s->still);
    pthread_mutex_destroy(&s->lock);
    alloc_free(alloc_default(), s->sockets);
    alloc_free(alloc_default(), s);
}

pawl_status http_start(const http_options *options, http_server **out, pawl_error *err)
{
    if (options->sockets_count > SOCKETS_MAX) return err_set(err, PAWL_INVALID, "more than %d listening sockets", SOCKETS_MAX);
    http_server *s = alloc_new(alloc_default(), sizeof *s);
    if (!s) return err_set(err, PAWL_NO_MEMORY, "%s", pawl_status_text(PAWL_NO_MEMORY));
    s->options = *options;
    s->options.connections_max = connections_possible(options->connections_max);
    s->sockets = alloc_new(alloc_default(), options->sockets_count * sizeof *s->sockets);
    if (s->sockets) memcpy(s->sockets, options->sockets, options->sockets_count * sizeof *s->sockets);
    s->wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    pthread_mutex_init(&s->lock, NULL);
    pthread_cond_init(&s->still, NULL);
    list_init(&s->conns);
    for (size_t i = 0; s->sockets && i < options->sockets_count; i++) {
        fcntl(s->sockets[i], F_SETFL, fcntl(s->sockets[i], F_GETFL) | O_NONBLOCK);
    }
    if (s->sockets && s->wake_fd >= 0) s->daemon = start_library(s);
    if (s->daemon) s->door_open = pthread_create(&s->door, NULL, door, s) == 0;
    if (!s->door_open) {
        if (s->daemon) MHD_stop_daemon(s->daemon);
        release(s);
        return err_set(err, PAWL_UNAVAILABLE, "could not start the HTTP listener: %s", strerror(errno));
    }
    *out = s;
    return PAWL_OK;
}

void http_quiet(http_server *s)
{
    atomic_store(&s->quiet, true);
    wake_door(s);
}

int http_connections(http_server *s)
{
    pthread_mutex_lock(&s->lock);
    int count = s->conns_count;
    pthread_mutex_unlock(&s->lock);
    return count;
}

void http_cut(http_request *r)
{
    conn_deadline(r->conn, 0);
    wake_door(r->conn->server);
}

/* From now on requests are let go; those that are with the handler or held come back first. */
static void wait_until_still(http_server *s)
{
    atomic_store(&s->stopping, true);
    pthread_mutex_lock(&s->lock);
    while (atomic_load(&s->busy)) pthread_cond_wait(&s->still, &s->lock);
    pthread_mutex_unlock(&s->lock);
}

void busy_enter(http_server *s) { atomic_fetch_add(&s->busy, 1); }

void busy_leave(http_server *s)
{
    if (atomic_fetch_sub(&s->busy, 1) != 1 || !atomic_load(&s->stopping)) return;
    pthread_mutex_lock(&s->lock);
    pthread_cond_broadcast(&s->still);
    pthread_mutex_unlock(&s->lock);
}

void http_stop(http_server *s)
{
    if (!s) return;
    wait_until_still(s);
    wake_door(s);
    pthread_join(s->door, NULL);
    MHD_stop_daemon(s->daemon);
    release(s);
}
