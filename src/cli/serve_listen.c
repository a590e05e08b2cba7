/* Listening sockets, and the little that systemd wants to hear. */
#include "base/error.h"
#include "base/text.h"
#include "cli/serve.h"
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netdb.h>
#include <netinet/in.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#define BACKLOG 1024
#define FIRST_HANDED_OVER 3

/* ---- what a socket is --------------------------------------------------------------------------------------------------------- */

static bool is_local(const struct sockaddr_storage *at)
{
    const struct sockaddr_in *four = (const void *)at;
    const struct sockaddr_in6 *six = (const void *)at;
    if (at->ss_family == AF_INET) return ntohl(four->sin_addr.s_addr) >> 24 == 127;
    return at->ss_family == AF_UNIX || (at->ss_family == AF_INET6 && IN6_IS_ADDR_LOOPBACK(&six->sin6_addr));
}

static void describe(const struct sockaddr_storage *at, char text[128])
{
    char address[INET6_ADDRSTRLEN] = "?";
    const struct sockaddr_in *four = (const void *)at;
    const struct sockaddr_in6 *six = (const void *)at;
    if (at->ss_family == AF_INET) {
        inet_ntop(AF_INET, &four->sin_addr, address, sizeof address);
        snprintf(text, 128, "http://%s:%d", address, ntohs(four->sin_port));
    } else if (at->ss_family == AF_INET6) {
        inet_ntop(AF_INET6, &six->sin6_addr, address, sizeof address);
        snprintf(text, 128, "http://[%s]:%d", address, ntohs(six->sin6_port));
    } else {
        snprintf(text, 128, "unix:%.100s", ((const struct sockaddr_un *)(const void *)at)->sun_path);
    }
}

static pawl_status add(serve_sockets *out, int fd, const char *path, pawl_error *err)
{
    struct sockaddr_storage at = {0};
    socklen_t n = sizeof at;
    if (out->count == LISTEN_MAX) return err_set(err, PAWL_INVALID, "at most %d addresses can be listened on", LISTEN_MAX);
    if (getsockname(fd, (struct sockaddr *)&at, &n)) return err_set(err, PAWL_INVALID, "could not listen: %s", strerror(errno));
    describe(&at, out->texts[out->count]);
    out->public = out->public || !is_local(&at);
    out->paths[out->count] = path;
    out->fds[out->count++] = fd;
    return PAWL_OK;
}

/* ---- unix --------------------------------------------------------------------------------------------------------------------- */

/* A socket that nobody listens on is left from a process that was killed. */
static bool stale(const struct sockaddr_un *at)
{
    struct stat st;
    if (stat(at->sun_path, &st) || !S_ISSOCK(st.st_mode)) return false;
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    bool refused = fd >= 0 && connect(fd, (const struct sockaddr *)at, sizeof *at) && errno == ECONNREFUSED;
    if (fd >= 0) close(fd);
    return refused;
}

static pawl_status listen_unix(const char *path, serve_sockets *out, pawl_error *err)
{
    struct sockaddr_un at = {.sun_family = AF_UNIX};
    if (!*path || strlen(path) >= sizeof at.sun_path)
        return err_set(err, PAWL_INVALID, "\"unix:%s\" is not a path of a socket", path);
    snprintf(at.sun_path, sizeof at.sun_path, "%s", path);
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    mode_t before = umask(0177);
    int failed = fd < 0 || bind(fd, (struct sockaddr *)&at, sizeof at);
    if (failed && fd >= 0 && errno == EADDRINUSE && stale(&at))
        failed = unlink(path) || bind(fd, (struct sockaddr *)&at, sizeof at);
    umask(before);
    if (!failed && !listen(fd, BACKLOG)) return add(out, fd, path, err);
    err_set(err, PAWL_UNAVAILABLE, "could not listen on unix:%s: %s", path, strerror(errno));
    if (fd >= 0) close(fd);
    return err->status;
}

/* ---- addresses ---------------------------------------------------------------------------------------------------------------- */

/* "7295", "127.0.0.1:7295", "[::1]:7295", "name:7295" */
static bool split(const char *text, char host[256], char port[16])
{
    const char *colon = strrchr(text, ':'), *begin = text, *end = colon;
    if (!colon) begin = end = text;
    size_t n = (size_t)(end - begin);
    if (*begin == '[' && n >= 2 && end[-1] == ']') begin++, n -= 2;
    if (n >= 256) return false;
    memcpy(host, begin, n);
    host[n] = '\0';
    snprintf(port, 16, "%s", colon ? colon + 1 : text);
    int64_t number;
    return int_parse(port, 0, 65535, &number) && strlen(port) <= 5;
}

static int open_address(const struct addrinfo *a)
{
    int on = 1, fd = socket(a->ai_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd < 0) return -1;
    setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
    if (a->ai_family == AF_INET6) setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &on, sizeof on);
    if (!bind(fd, a->ai_addr, a->ai_addrlen) && !listen(fd, BACKLOG)) return fd;
    int saved = errno;
    close(fd);
    errno = saved;
    return -1;
}

static pawl_status listen_address(const char *text, serve_sockets *out, pawl_error *err)
{
    char host[256], port[16];
    struct addrinfo hints = {.ai_socktype = SOCK_STREAM, .ai_flags = AI_PASSIVE}, *found = NULL;
    if (!split(text, host, port))
        return err_set(err, PAWL_INVALID, "\"%s\" is no address to listen on: use 127.0.0.1:7295, 7295 or unix:/path", text);
    int code = getaddrinfo(*host ? host : "127.0.0.1", port, &hints, &found);
    if (code) return err_set(err, PAWL_INVALID, "could not find the address \"%s\": %s", text, gai_strerror(code));
    int fd = open_address(found);
    int saved = errno;
    freeaddrinfo(found);
    if (fd >= 0) return add(out, fd, NULL, err);
    return err_set(err, saved == EACCES ? PAWL_DENIED : PAWL_UNAVAILABLE, "could not listen on %s: %s", text, strerror(saved));
}

/* ---- all of them -------------------------------------------------------------------------------------------------------------- */

/* Sockets that systemd opened for us. */
static int handed_over(void)
{
    const char *pid = getenv("LISTEN_PID"), *count = getenv("LISTEN_FDS");
    int64_t number = 0, own = 0;
    if (!pid || !count || !int_parse(pid, 1, INT32_MAX, &own) || own != getpid() || !int_parse(count, 1, LISTEN_MAX, &number))
        return 0;
    for (int fd = FIRST_HANDED_OVER; fd < FIRST_HANDED_OVER + number; fd++) fcntl(fd, F_SETFD, FD_CLOEXEC);
    unsetenv("LISTEN_PID");
    unsetenv("LISTEN_FDS");
    unsetenv("LISTEN_FDNAMES");
    return (int)number;
}

pawl_status serve_listen(const opt_list *list, serve_sockets *out, pawl_error *err)
{
    pawl_status status = PAWL_OK;
    int given = handed_over();
    *out = (serve_sockets){0};
    for (int i = 0; i < given && !status; i++) status = add(out, FIRST_HANDED_OVER + i, NULL, err);
    for (int i = 0; i < list->count && !given && !status; i++) {
        const char *text = list->items[i];
        status = strncmp(text, "unix:", 5) == 0 ? listen_unix(text + 5, out, err) : listen_address(text, out, err);
    }
    if (!status && !out->count) status = listen_address("127.0.0.1:7295", out, err);
    if (!status) return PAWL_OK;
    for (size_t i = 0; i < out->count; i++) close(out->fds[i]);
    serve_unlink(out);
    return status;
}

void serve_unlink(const serve_sockets *sockets)
{
    for (size_t i = 0; i < sockets->count; i++) {
        if (sockets->paths[i]) unlink(sockets->paths[i]);
    }
}

void serve_notify(const char *state)
{
    const char *path = getenv("NOTIFY_SOCKET");
    struct sockaddr_un at = {.sun_family = AF_UNIX};
    if (!path || (*path != '/' && *path != '@') || strlen(path) >= sizeof at.sun_path) return;
    memcpy(at.sun_path, path, strlen(path));
    if (*path == '@') at.sun_path[0] = '\0';
    int fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    if (fd < 0) return;
    socklen_t n = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + strlen(path));
    if (sendto(fd, state, strlen(state), MSG_NOSIGNAL, (struct sockaddr *)&at, n) < 0) errno = 0; /* nobody to tell */
    close(fd);
}
