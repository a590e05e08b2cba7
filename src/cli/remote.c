#include "cli/remote.h"

#include "base/alloc.h"
#include "base/error.h"
#include "base/text.h"
#include "cli/wire.h"
#include <errno.h>
#include <netdb.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/un.h>
#include <unistd.h>

#define ANSWER_MAX (128u << 20)
#define PATIENCE_S 60
#define TOKEN_MAX 512

typedef struct place {
    char host[256], port[8], prefix[256];
    bool local; /* host is a path */
    bool tls;
} place;

/* ---- where ---------------------------------------------------------------------------------------------------------------------- */

static bool parse(const char *url, place *at)
{
    int64_t port;
    *at = (place){.port = "7295"};
    if (strncmp(url, "unix:", 5) == 0) {
        at->local = true;
        return url[5] == '/' && snprintf(at->host, sizeof at->host, "%s", url + 5) < (int)sizeof at->host;
    }
    at->tls = strncmp(url, "https://", 8) == 0;
    if (!at->tls && strncmp(url, "http://", 7) != 0) return false;
    const char *host = url + 7 + at->tls, *slash = strchrnul(host, '/'), *end = slash,
               *colon = memrchr(host, ':', (size_t)(slash - host));
    if (colon && !memchr(colon, ']', (size_t)(slash - colon))) {
        if (slash - colon > 6) return false;
        snprintf(at->port, sizeof at->port, "%.*s", (int)(slash - colon - 1), colon + 1);
        end = colon;
    }
    if (*host == '[' && end[-1] == ']') host++, end--;
    if (end <= host || end - host >= (ptrdiff_t)sizeof at->host || strlen(slash) >= sizeof at->prefix) return false;
    snprintf(at->host, sizeof at->host, "%.*s", (int)(end - host), host);
    snprintf(at->prefix, sizeof at->prefix, "%s", slash);
    size_t n = strlen(at->prefix);
    if (n && at->prefix[n - 1] == '/') at->prefix[n - 1] = '\0';
    return int_parse(at->port, 1, 65535, &port);
}

static int connect_unix(const char *path)
{
    struct sockaddr_un to = {.sun_family = AF_UNIX};
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (strlen(path) >= sizeof to.sun_path) {
        if (fd >= 0) close(fd);
        errno = ENAMETOOLONG;
        return -1;
    }
    memcpy(to.sun_path, path, strlen(path));
    if (fd < 0 || !connect(fd, (struct sockaddr *)&to, sizeof to)) return fd;
    int saved = errno;
    close(fd);
    errno = saved;
    return -1;
}

static int connect_host(const place *at, pawl_error *err)
{
    struct addrinfo hints = {.ai_socktype = SOCK_STREAM}, *found = NULL;
    int fd = -1, code = getaddrinfo(at->host, at->port, &hints, &found);
    if (code) return err_set(err, PAWL_UNAVAILABLE, "could not find \"%s\": %s", at->host, gai_strerror(code)), -2;
    for (const struct addrinfo *it = found; it && fd < 0; it = it->ai_next) {
        fd = socket(it->ai_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
        if (fd < 0 || !connect(fd, it->ai_addr, it->ai_addrlen)) break;
        int saved = errno;
        close(fd);
        errno = saved;
        fd = -1;
    }
    freeaddrinfo(found);
    return fd;
}

static pawl_status open_connection(const char *url, const place *at, wire *out, pawl_error *err)
{
    struct timeval patience = {.tv_sec = PATIENCE_S};
    int fd = at->local ? connect_unix(at->host) : connect_host(at, err);
    if (fd == -2) return err->status;
    if (fd < 0) return err_set(err, PAWL_UNAVAILABLE, "could not connect to %s: %s", url, strerror(errno));
    setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
    setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof patience);
    return wire_begin(out, fd, at->tls ? at->host : NULL, err);
}

/* ---- who ------------------------------------------------------------------------------------------------------------------------ */

static pawl_status read_token(const cli *c, char token[TOKEN_MAX], pawl_error *err)
{
    const char *text = getenv("PAWL_TOKEN");
    token[0] = '\0';
    if (c->token_file) {
        FILE *in = fopen(c->token_file, "re");
        if (!in) return err_set(err, PAWL_DENIED, "could not read the token in \"%s\": %s", c->token_file, strerror(errno));
        if (!fgets(token, TOKEN_MAX, in)) token[0] = '\0';
        fclose(in);
    } else if (text) {
        snprintf(token, TOKEN_MAX, "%s", text);
    }
    token[strcspn(token, "\r\n")] = '\0';
    for (const char *at = token; *at; at++) {
        if (*at <= ' ' || *at >= 127) return err_set(err, PAWL_INVALID, "the token has bytes that no token has");
    }
    return PAWL_OK;
}

/* ---- one request ---------------------------------------------------------------------------------------------------------------- */

static void write_request(buf *out, const place *at, const char *token, const char *method, const char *path, const char *body)
{
    bool six = strchr(at->host, ':') != NULL;
    buf_fmt(out, "%s %s%s HTTP/1.1\r\n", method, at->prefix, path);
    if (at->local) buf_str(out, "Host: localhost\r\n");
    else buf_fmt(out, "Host: %s%s%s:%s\r\n", six ? "[" : "", at->host, six ? "]" : "", at->port);
    buf_fmt(out, "Connection: close\r\nUser-Agent: pawl/%s\r\n", pawl_version());
    if (*token) buf_fmt(out, "Authorization: Bearer %s\r\n", token);
    if (body) buf_fmt(out, "Content-Type: application/json\r\nContent-Length: %zu\r\n", strlen(body));
    buf_str(out, "\r\n");
    if (body) buf_str(out, body);
}

static bool exchange(wire *l, const buf *request, buf *answer)
{
    char block[64 << 10];
    if (!wire_send(l, request->data, request->len)) errno = 0; /* it may have answered all the same */
    for (;;) {
        ssize_t n = wire_receive(l, block, sizeof block);
        if (n <= 0) return n == 0 || answer->len > 0;
        if (!buf_add(answer, block, (size_t)n)) return false;
    }
}

/* Takes the chunks together, in place. */
static bool unchunk(char *text, size_t *len)
{
    char *to = text, *at = text, *end = text + *len;
    for (;;) {
        char *line = memchr(at, '\n', (size_t)(end - at)), *stop;
        if (!line) return false;
        unsigned long n = strtoul(at, &stop, 16);
        at = line + 1;
        if (n > (size_t)(end - at)) return false;
        if (n == 0) return *len = (size_t)(to - text), true;
        memmove(to, at, n);
        to += n;
        at += n + 2;
        if (at > end) return false;
    }
}

/* Status and body of an answer; the body stays in it. */
static bool read_answer(buf *answer, int *status, pawl_bytes *body)
{
    if (!answer->len || sscanf(answer->data, "HTTP/1.%*1d %3d ", status) != 1) return false;
    char *end = strstr(answer->data, "\r\n\r\n");
    if (!end) return false;
    *end = '\0';
    bool chunked = strcasestr(answer->data, "\r\ntransfer-encoding: chunked") != NULL;
    const char *length = strcasestr(answer->data, "\r\ncontent-length: ");
    *body = (pawl_bytes){end + 4, answer->len - (size_t)(end + 4 - answer->data)};
    if (chunked) return unchunk(end + 4, &body->len);
    return !length || body->len == strtoul(length + 18, NULL, 10);
}

/* A problem's type is the name of a status, or a word of the server's own. */
static pawl_status fail_by(int code, pawl_bytes body, pawl_error *err)
{
    static const char urn[] = "urn:pawl:problem:";
    pawl_status status = code == 401 || code == 403 ? PAWL_DENIED
                         : code == 404              ? PAWL_NOT_FOUND
                         : code == 503              ? PAWL_UNAVAILABLE
                         : code < 500               ? PAWL_INVALID
                                                    : PAWL_INTERNAL;
    buf type, detail;
    buf_init(&type, alloc_default(), 4096);
    buf_init(&detail, alloc_default(), 4096);
    json problem = json_valid(body, NULL, NULL) ? json_parse(body) : (json){0};
    if (problem.kind == JSON_OBJECT)
        json_string(json_member(problem, "type"), &type), json_string(json_member(problem, "detail"), &detail);
    for (int i = 1; i < PAWL_STATUS_COUNT && strncmp(buf_text(&type), urn, sizeof urn - 1) == 0; i++) {
        if (strcmp(type.data + sizeof urn - 1, pawl_status_name((pawl_status)i)) == 0) status = (pawl_status)i;
    }
    if (detail.len) err_set(err, status, "%s", detail.data);
    else err_set(err, status, "the server answered with status %d and nothing that could be read", code);
    buf_done(&type);
    buf_done(&detail);
    return status;
}

static pawl_status no_server(const cli *c, pawl_error *err)
{
    return err_set(err, PAWL_INVALID, "\"%s\" is no server: use http://HOST:PORT, https://HOST:PORT or unix:/PATH", c->server);
}

pawl_status remote_call(const cli *c, const char *method, const char *path, const char *body, buf *out, pawl_error *err)
{
    place at;
    char token[TOKEN_MAX];
    int code = 0;
    wire l;
    pawl_bytes text;
    buf request, answer;
    if (!parse(c->server, &at)) return no_server(c, err);
    pawl_status status = read_token(c, token, err);
    if (!status) status = open_connection(c->server, &at, &l, err);
    if (status) return status;
    buf_init(&request, alloc_default(), ANSWER_MAX);
    buf_init(&answer, alloc_default(), ANSWER_MAX);
    write_request(&request, &at, token, method, path, body);
    bool ok = !request.failed && exchange(&l, &request, &answer) && read_answer(&answer, &code, &text);
    wire_end(&l);
    if (!ok)
        status = err_set(err, body ? PAWL_UNKNOWN : PAWL_UNAVAILABLE, "the answer of %s was lost: look before you repeat it",
                         c->server);
    else if (code >= 300) status = fail_by(code, text, err);
    else if (!buf_add(out, text.data, text.len)) status = err_set(err, PAWL_NO_MEMORY, "%s", pawl_status_text(PAWL_NO_MEMORY));
    buf_done(&request);
    buf_done(&answer);
    return status;
}

/* ---- streams -------------------------------------------------------------------------------------------------------------------- */

/* Hands on what are whole lines; what is left stays. */
static bool hand_lines(buf *text, remote_line_fn take, void *ctx)
{
    size_t at = 0;
    bool more = true;
    for (char *end; more && (end = memchr(text->data + at, '\n', text->len - at));) {
        char *line = text->data + at;
        *end = '\0';
        if (end > line && end[-1] == '\r') end[-1] = '\0';
        at = (size_t)(end + 1 - text->data);
        more = take(ctx, line);
    }
    memmove(text->data, text->data + at, text->len - at);
    text->len -= at;
    return more;
}

typedef struct stream_head {
    remote_line_fn take;
    void *ctx;
    int status;
    bool over; /* the head is */
} stream_head;

static bool take_any(void *ctx, const char *line)
{
    stream_head *h = ctx;
    if (h->over) return h->take(h->ctx, line);
    if (!h->status && sscanf(line, "HTTP/1.%*1d %3d ", &h->status) != 1) return false;
    h->over = !*line;
    return h->status < 300 || !h->over;
}

static pawl_status read_stream(const cli *c, wire *l, stream_head *h, pawl_error *err)
{
    char block[16 << 10];
    buf text;
    bool more = true;
    ssize_t n = 0;
    buf_init(&text, alloc_default(), 1u << 20);
    while (more && (n = wire_receive(l, block, sizeof block)) > 0)
        more = buf_add(&text, block, (size_t)n) && hand_lines(&text, take_any, h);
    pawl_status status = PAWL_OK;
    if (h->status >= 300) status = fail_by(h->status, (pawl_bytes){buf_text(&text), text.len}, err);
    else if (more) status = err_set(err, PAWL_UNAVAILABLE, "%s ended the stream: go on with --after", c->server);
    buf_done(&text);
    return status;
}

pawl_status remote_stream(const cli *c, const char *path, remote_line_fn take, void *ctx, pawl_error *err)
{
    place at;
    char token[TOKEN_MAX];
    wire l;
    buf request;
    stream_head head = {.take = take, .ctx = ctx};
    if (!parse(c->server, &at)) return no_server(c, err);
    pawl_status status = read_token(c, token, err);
    if (!status) status = open_connection(c->server, &at, &l, err);
    if (status) return status;
    buf_init(&request, alloc_default(), 64 << 10);
    write_request(&request, &at, token, "GET", path, NULL);
    bool sent = !request.failed && wire_send(&l, request.data, request.len);
    status = sent ? read_stream(c, &l, &head, err) : err_set(err, PAWL_UNAVAILABLE, "could not ask %s", c->server);
    buf_done(&request);
    wire_end(&l);
    return status;
}

/* ---- paths ---------------------------------------------------------------------------------------------------------------------- */

void remote_escape(buf *out, const char *text)
{
    for (; *text; text++) {
        unsigned char byte = (unsigned char)*text;
        bool plain = (byte >= '0' && byte <= '9') || ((byte | 32) >= 'a' && (byte | 32) <= 'z') || strchr("-._~", byte);
        if (plain) buf_char(out, (char)byte);
        else buf_fmt(out, "%%%02X", byte);
    }
}

void remote_parameter(buf *path, const char *name, const char *value)
{
    if (!value) return;
    buf_fmt(path, "%c%s=", path->len && memchr(path->data, '?', path->len) ? '&' : '?', name);
    remote_escape(path, value);
}

void remote_number(buf *path, const char *name, int64_t value)
{
    char text[24];
    snprintf(text, sizeof text, "%lld", (long long)value);
    if (value) remote_parameter(path, name, text);
}

void remote_flag(buf *path, const char *name, bool value)
{
    if (value) remote_parameter(path, name, "true");
}
