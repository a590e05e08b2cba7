/* Sockets do not block; whoever waits asks now and then whether to stop. Once anything has failed, all that follows fails. */
#include "handlers/smtp_link.h"

#include "base/alloc.h"
#include <arpa/inet.h>
#include <errno.h>
#include <gnutls/gnutls.h>
#include <gnutls/x509.h>
#include <netdb.h>
#include <poll.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#define BLOCK 8192
#define LOOK_MS 100 /* how often stop is asked */
#define PRIORITIES "NORMAL:-VERS-ALL:+VERS-TLS1.3:+VERS-TLS1.2"

struct smtp_link {
    int fd;
    int64_t until_us; /* by the monotonic clock */
    bool (*stop)(void *ctx);
    void *stop_ctx;
    bool committed, stopped, failed;
    char why[256];
    gnutls_session_t session; /* NULL: in the clear */
    gnutls_certificate_credentials_t credentials;
    char in[BLOCK], out[BLOCK];
    size_t in_at, in_len, out_len;
};

static int64_t now_us(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec * PAWL_SECOND + t.tv_nsec / 1000;
}

static bool fail(smtp_link *l, const char *fmt, ...) PAWL_PRINTF(2, 3);
static bool fail(smtp_link *l, const char *fmt, ...)
{
    va_list args;
    if (l->failed) return false;
    l->failed = true;
    va_start(args, fmt);
    vsnprintf(l->why, sizeof l->why, fmt, args);
    va_end(args);
    return false;
}

smtp_link *link_new(int64_t timeout_us, bool (*stop)(void *ctx), void *ctx)
{
    smtp_link *l = alloc_new(alloc_default(), sizeof *l);
    if (!l) return NULL;
    l->fd = -1;
    l->until_us = now_us() + timeout_us;
    l->stop = stop;
    l->stop_ctx = ctx;
    return l;
}

bool link_stopped(const smtp_link *l) { return l->stopped; }
const char *link_why(const smtp_link *l) { return l->why; }

static bool asked_to_stop(smtp_link *l)
{
    if (l->committed || !l->stop || !l->stop(l->stop_ctx)) return false;
    l->stopped = true;
    return !fail(l, "interrupted");
}

bool link_commit(smtp_link *l)
{
    if (l->failed || asked_to_stop(l)) return false;
    return l->committed = true;
}

/* Until the socket is ready, or the time is over. */
static bool wait_for(smtp_link *l, short events, int64_t until_us)
{
    for (;;) {
        int64_t left_ms = (until_us - now_us()) / 1000;
        if (left_ms <= 0) return fail(l, "it took too long");
        if (asked_to_stop(l)) return false;
        struct pollfd p = {.fd = l->fd, .events = events};
        int n = poll(&p, 1, left_ms < LOOK_MS ? (int)left_ms : LOOK_MS);
        if (n > 0) return true;
        if (n < 0 && errno != EINTR) return fail(l, "%s", strerror(errno));
    }
}

/* ---- connecting -------------------------------------------------------------------------------------------------------------- */

static bool connect_one(smtp_link *l, const struct addrinfo *a, int64_t until_us)
{
    int error = 0;
    socklen_t size = sizeof error;
    l->fd = socket(a->ai_family, a->ai_socktype | SOCK_CLOEXEC | SOCK_NONBLOCK, a->ai_protocol);
    if (l->fd < 0) return fail(l, "%s", strerror(errno));
    if (connect(l->fd, a->ai_addr, a->ai_addrlen) == 0) return true;
    if (errno != EINPROGRESS) return fail(l, "%s", strerror(errno));
    if (!wait_for(l, POLLOUT, until_us)) return false;
    if (getsockopt(l->fd, SOL_SOCKET, SO_ERROR, &error, &size) || error) return fail(l, "%s", strerror(error ? error : errno));
    return true;
}

bool link_connect(smtp_link *l, const char *host, int port, int64_t connect_us)
{
    char service[16], why[sizeof l->why];
    struct addrinfo hints = {.ai_socktype = SOCK_STREAM}, *found = NULL;
    snprintf(service, sizeof service, "%d", port);
    int rc = getaddrinfo(host, service, &hints, &found);
    if (rc) return fail(l, "could not find %s: %s", host, gai_strerror(rc));
    int64_t until_us = now_us() + connect_us;
    bool ok = false;
    for (const struct addrinfo *a = found; a && !ok && !l->stopped; a = a->ai_next) {
        if (l->fd >= 0) close(l->fd);
        l->fd = -1;
        l->failed = false;
        ok = connect_one(l, a, until_us < l->until_us ? until_us : l->until_us);
    }
    freeaddrinfo(found);
    if (ok) return true;
    snprintf(why, sizeof why, "%s", l->why);
    l->failed = false;
    return fail(l, "could not connect to %s:%d: %.150s", host, port, why);
}

/* ---- TLS --------------------------------------------------------------------------------------------------------------------- */

/* What GnuTLS says of a wait: goes on after it. */
static bool wait_tls(smtp_link *l)
{
    return wait_for(l, gnutls_record_get_direction(l->session) ? POLLOUT : POLLIN, l->until_us);
}

static bool retry(ssize_t rc) { return rc == GNUTLS_E_AGAIN || rc == GNUTLS_E_INTERRUPTED; }

static bool prepare(smtp_link *l, const char *host, const char *ca_file)
{
    struct in6_addr six;
    struct in_addr four;
    bool address = inet_pton(AF_INET, host, &four) == 1 || inet_pton(AF_INET6, host, &six) == 1;
    if (gnutls_certificate_allocate_credentials(&l->credentials)) return fail(l, "%s", pawl_status_text(PAWL_NO_MEMORY));
    int rc = ca_file ? gnutls_certificate_set_x509_trust_file(l->credentials, ca_file, GNUTLS_X509_FMT_PEM)
                     : gnutls_certificate_set_x509_system_trust(l->credentials);
    if (rc < 0)
        return fail(l, "could not read the authorities in \"%s\": %s", ca_file ? ca_file : "the system's list",
                    gnutls_strerror(rc));
    rc = gnutls_init(&l->session, GNUTLS_CLIENT | GNUTLS_NONBLOCK | GNUTLS_NO_SIGNAL);
    if (!rc) rc = gnutls_priority_set_direct(l->session, PRIORITIES, NULL);
    if (!rc) rc = gnutls_credentials_set(l->session, GNUTLS_CRD_CERTIFICATE, l->credentials);
    if (!rc && !address) rc = gnutls_server_name_set(l->session, GNUTLS_NAME_DNS, host, strlen(host));
    if (rc) return fail(l, "TLS could not begin: %s", gnutls_strerror(rc));
    gnutls_session_set_verify_cert(l->session, host, 0);
    gnutls_transport_set_int(l->session, l->fd);
    return true;
}

static bool bad_certificate(smtp_link *l, const char *host)
{
    gnutls_datum_t text = {0};
    unsigned status = gnutls_session_get_verify_cert_status(l->session);
    gnutls_certificate_verification_status_print(status, GNUTLS_CRT_X509, &text, 0);
    fail(l, "the certificate of %s is not right: %.150s", host, text.data ? (const char *)text.data : "");
    gnutls_free(text.data);
    return false;
}

/* What the server said in the clear behind its promise to encrypt is somebody else's: there must be nothing. */
bool link_encrypt(smtp_link *l, const char *host, const char *ca_file)
{
    if (l->failed) return false;
    if (l->in_len > l->in_at) return fail(l, "%s went on in the clear after STARTTLS", host);
    if (!prepare(l, host, ca_file)) return false;
    for (;;) {
        int rc = gnutls_handshake(l->session);
        if (rc == GNUTLS_E_SUCCESS) return true;
        if (rc == GNUTLS_E_CERTIFICATE_VERIFICATION_ERROR) return bad_certificate(l, host);
        if (gnutls_error_is_fatal(rc)) return fail(l, "TLS with %s failed: %s", host, gnutls_strerror(rc));
        if (retry(rc) && !wait_tls(l)) return false;
    }
}

/* ---- bytes ------------------------------------------------------------------------------------------------------------------- */

static ssize_t read_some(smtp_link *l)
{
    for (;;) {
        ssize_t n = l->session ? gnutls_record_recv(l->session, l->in, BLOCK) : recv(l->fd, l->in, BLOCK, 0);
        bool again = l->session ? retry(n) : n < 0 && (errno == EAGAIN || errno == EINTR);
        if (n > 0) return n;
        if (n == 0) return fail(l, "the connection was closed"), -1;
        if (!again && l->session && !gnutls_error_is_fatal((int)n)) continue;
        if (!again) return fail(l, "the connection broke: %s", l->session ? gnutls_strerror((int)n) : strerror(errno)), -1;
        if (!(l->session ? wait_tls(l) : wait_for(l, POLLIN, l->until_us))) return -1;
    }
}

static bool write_all(smtp_link *l, const char *data, size_t n)
{
    while (n && !l->failed) {
        ssize_t sent = l->session ? gnutls_record_send(l->session, data, n) : send(l->fd, data, n, MSG_NOSIGNAL);
        bool again = l->session ? retry(sent) : sent < 0 && (errno == EAGAIN || errno == EINTR);
        if (sent >= 0) {
            data += sent;
            n -= (size_t)sent;
        } else if (!again) {
            fail(l, "the connection broke: %s", l->session ? gnutls_strerror((int)sent) : strerror(errno));
        } else if (l->session) {
            wait_tls(l);
        } else {
            wait_for(l, POLLOUT, l->until_us);
        }
    }
    return !l->failed;
}

bool link_flush(smtp_link *l)
{
    size_t n = l->out_len;
    l->out_len = 0;
    return !l->failed && write_all(l, l->out, n);
}

bool link_write(smtp_link *l, const void *data, size_t n)
{
    if (l->failed) return false;
    if (n > BLOCK - l->out_len && !link_flush(l)) return false;
    if (n > BLOCK) return write_all(l, data, n);
    memcpy(l->out + l->out_len, data, n);
    l->out_len += n;
    return true;
}

bool link_line(smtp_link *l, char out[LINK_LINE])
{
    size_t len = 0;
    if (!link_flush(l)) return false;
    for (;;) {
        if (l->in_at == l->in_len) {
            ssize_t n = read_some(l);
            if (n < 0) return false;
            l->in_at = 0;
            l->in_len = (size_t)n;
        }
        char c = l->in[l->in_at++];
        if (c == '\n') break;
        if (len == LINK_LINE - 1 || !c) return fail(l, "the server said a line that makes no sense");
        out[len++] = c;
    }
    if (len && out[len - 1] == '\r') len--;
    out[len] = '\0';
    return true;
}

void link_end(smtp_link *l, const char *bye)
{
    char line[LINK_LINE];
    int64_t soon = now_us() + PAWL_SECOND;
    if (l->until_us > soon) l->until_us = soon;
    l->committed = true;
    if (l->fd >= 0 && !l->failed && link_write(l, bye, strlen(bye)) && link_line(l, line) && l->session)
        gnutls_bye(l->session, GNUTLS_SHUT_WR);
    if (l->session) gnutls_deinit(l->session);
    if (l->credentials) gnutls_certificate_free_credentials(l->credentials);
    if (l->fd >= 0) close(l->fd);
    alloc_free(alloc_default(), l);
}
