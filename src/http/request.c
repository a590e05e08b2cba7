/* One request, from its first line to its end, as the library calls us:
 *
 *     request_begin     the first line is there: the deadline of the head begins
 *     request_access    the head is there (once); the body comes (any number of times); all of it is there; held and let go
 *     request_done      answered, or the client is gone
 *
 * All on one of the library's threads. A request that is held is suspended: the library does not touch it, nor notice that its client
 * has gone, until the answer is there (http_answer, from any thread). So a held request never vanishes under whoever works on it.
 *
 * The library takes an answer only before the first byte of the body or behind the last one. What turns out to be refused in between is
 * read and thrown away, up to a limit.
 */
#include "base/alloc.h"
#include "base/check.h"
#include "http/parts.h"
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/socket.h>
#include <unistd.h>

/* ---- what it says ------------------------------------------------------------------------------------------------------------- */

static const struct {
    const char *name;
    http_method method;
} methods[] = {{"GET", HTTP_GET}, {"HEAD", HTTP_GET},    {"POST", HTTP_POST},
               {"PUT", HTTP_PUT}, {"PATCH", HTTP_PATCH}, {"DELETE", HTTP_DELETE}};

const char *http_method_name(http_method method)
{
    for (size_t i = 0; i < sizeof methods / sizeof *methods; i++) {
        if (methods[i].method == method) return methods[i].name;
    }
    return "?";
}

static http_method method_of(const char *name)
{
    for (size_t i = 0; i < sizeof methods / sizeof *methods; i++) {
        if (strcmp(methods[i].name, name) == 0) return methods[i].method;
    }
    return 0;
}

http_method http_request_method(const http_request *r) { return r->method; }
pawl_bytes http_body(const http_request *r) { return (pawl_bytes){buf_text(&r->body), r->body.len}; }
http_peer http_peer_kind(const http_request *r) { return r->conn->peer; }
const char *http_peer_text(const http_request *r) { return r->conn->peer_text; }
void http_set_user(http_request *r, void *user) { r->user = user; }
void *http_user(const http_request *r) { return r->user; }
int http_status(const http_request *r) { return r->status; }
void http_close_after(http_request *r) { r->close_after = true; }

const char *http_header(const http_request *r, const char *name)
{
    const char *found = NULL;
    for (size_t i = 0; i < r->fields_count; i++) {
        if (strcasecmp(r->fields[i].name, name) != 0) continue;
        if (found && strcmp(found, r->fields[i].value) != 0) return "";
        found = r->fields[i].value;
    }
    return found;
}

/* ---- its answer --------------------------------------------------------------------------------------------------------------- */

void http_add_header(http_request *r, const char *name, const char *value)
{
    CHECK(r->headers_count < ANSWER_HEADERS_MAX);
    char *copy = alloc_str(alloc_default(), value);
    if (copy) r->headers[r->headers_count++] = (http_pair){name, copy};
}

static void answered(http_request *r)
{
    if (!r->held) return;
    http_server *s = r->conn->server;
    http_lane *lane = r->conn->lane;
    r->held = false;
    MHD_resume_connection(r->connection);
    wake_lane(lane);
    busy_leave(s);
}

void http_answer(http_request *r, int status, const char *content_type, buf *body)
{
    CHECK(!r->status && status >= 200);
    bool failed = body && body->failed;
    r->status = failed ? 503 : status;
    r->content_type = content_type;
    if (body && !failed) {
        r->answer = body->data;
        r->answer_len = body->len;
        buf_init(body, body->allocator, body->limit);
    } else if (body) {
        buf_done(body);
    }
    answered(r);
}

/* The library closes a connection without shutting it down (MHD_USE_TURBO): a second descriptor of the same connection goes on. */
void http_stream_head(buf *out, const char *content_type)
{
    buf_fmt(out,
            "HTTP/1.1 200 OK\r\nContent-Type: %s\r\nCache-Control: no-store\r\nX-Content-Type-Options: nosniff\r\n"
            "X-Accel-Buffering: no\r\nConnection: close\r\n\r\n",
            content_type);
}

int http_take_over(http_request *r)
{
    CHECK(!r->status && !r->held);
    int fd = fcntl(r->conn->fd, F_DUPFD_CLOEXEC, 3);
    if (fd < 0) return -1;
    r->status = 200;
    r->taken = true;
    return fd;
}

bool http_is_head(const http_request *r) { return r->head; }

void http_hold(http_request *r)
{
    CHECK(!r->held && !r->status);
    r->held = r->suspended = true;
    busy_enter(r->conn->server);
    conn_deadline(r->conn, -1);
    MHD_suspend_connection(r->connection);
}

void http_go_on(http_request *r)
{
    CHECK(r->held && !r->status);
    conn_deadline(r->conn, r->conn->server->options.body_us);
    answered(r);
}

static struct MHD_Response *response_of(http_request *r)
{
    struct MHD_Response *response = MHD_create_response_from_buffer(r->answer_len, r->answer ? r->answer : "",
                                                                    r->answer ? MHD_RESPMEM_MUST_FREE : MHD_RESPMEM_PERSISTENT);
    if (response) r->answer = NULL;
    return response;
}

static bool has_header(const http_request *r, const char *name)
{
    for (size_t i = 0; i < r->headers_count; i++) {
        if (strcasecmp(r->headers[i].name, name) == 0) return true;
    }
    return false;
}

/* Gives the answer to the library. */
static enum MHD_Result queue_answer(http_request *r)
{
    struct MHD_Response *response = response_of(r);
    if (!response) return MHD_NO;
    if (r->content_type) MHD_add_response_header(response, "Content-Type", r->content_type);
    if (!has_header(r, "Cache-Control")) MHD_add_response_header(response, "Cache-Control", "no-store");
    MHD_add_response_header(response, "X-Content-Type-Options", "nosniff");
    for (size_t i = 0; i < r->headers_count; i++) MHD_add_response_header(response, r->headers[i].name, r->headers[i].value);
    if (r->close_after || atomic_load(&r->conn->server->quiet)) MHD_add_response_header(response, "Connection", "close");
    r->state = REQUEST_ANSWERED;
    conn_deadline(r->conn, r->conn->server->options.answer_us);
    enum MHD_Result result = MHD_queue_response(r->connection, (unsigned)r->status, response);
    MHD_destroy_response(response);
    return result;
}

/* ---- its head ----------------------------------------------------------------------------------------------------------------- */

static enum MHD_Result add_field(void *request, enum MHD_ValueKind kind, const char *name, size_t name_len, const char *value,
                                 size_t value_len)
{
    http_request *r = request;
    (void)kind;
    if (r->fields_count < HTTP_FIELDS_MAX)
        r->fields[r->fields_count] = (gate_field){name, value ? value : "", name_len, value_len};
    r->fields_count++;
    return MHD_YES;
}

static int pass_gate(http_request *r, const char *method, const char *version, const char **why)
{
    const union MHD_ConnectionInfo *size = MHD_get_connection_info(r->connection, MHD_CONNECTION_INFO_REQUEST_HEADER_SIZE);
    MHD_get_connection_values_n(r->connection, MHD_HEADER_KIND, add_field, r);
    gate_head head = {method, r->target, version, r->fields, r->fields_count, size ? size->header_size : 0};
    int status = http_gate_check(&head, &r->body_head, why);
    if (r->fields_count > HTTP_FIELDS_MAX) r->fields_count = HTTP_FIELDS_MAX;
    if (status) return status;
    *why = "the method is not known";
    if (!(r->method = method_of(method))) return 501;
    r->head = strcmp(method, "HEAD") == 0;
    return target_parse(r, why);
}

static const char *type_of(int status)
{
    return status == 413 || status == 414 || status == 431 ? "too_large" : status == 501 ? "unknown_method" : "malformed";
}

static void too_large(http_request *r)
{
    r->close_after = !r->plan.body_max;
    if (!r->plan.body_max) http_problem(r, 413, "too_large", "this request takes no body: send it without");
    else
        http_problem(r, 413, "too_large", "the body is larger than %zu bytes: make it smaller, or use several requests",
                     r->plan.body_max);
}

/* A client that is still sending would not read an answer, but find its connection broken. So what it said it would send is taken first
 * and thrown away, unless it asked, or it is too much. */
static bool better_read_on(const http_request *r)
{
    return r->body_head.given && !r->close_after && r->body_head.length <= (int64_t)HTTP_DISCARD_MAX && !http_header(r, "expect");
}

static void refuse_head(http_request *r, int status, const char *why)
{
    http_close_after(r);
    http_problem(r, status, type_of(status), "%s", why);
}

static enum MHD_Result take_head(http_request *r, const char *method, const char *version)
{
    const http_handler *handler = &r->conn->server->options.handler;
    const char *why;
    int status = pass_gate(r, method, version, &why);
    r->state = REQUEST_BODY;
    conn_deadline(r->conn, r->conn->server->options.body_us);
    if (status) refuse_head(r, status, why);
    else handler->head(handler->ctx, r, &r->plan);
    bool fits = r->plan.body_max && (r->body_head.length < 0 || (size_t)r->body_head.length <= r->plan.body_max);
    if (!r->status && r->body_head.given && !fits) too_large(r);
    buf_init(&r->body, alloc_default(), r->plan.body_max);
    if (!r->status || better_read_on(r)) return MHD_YES;
    if (r->body_head.given) http_close_after(r);
    return queue_answer(r);
}

/* ---- its body ----------------------------------------------------------------------------------------------------------------- */

static enum MHD_Result take_data(http_request *r, const char *data, size_t *size)
{
    const http_handler *handler = &r->conn->server->options.handler;
    if (r->plan.data && !r->status) {
        *size -= r->plan.data(handler->ctx, r, data, *size);
        return MHD_YES;
    }
    if (!r->too_large && !r->status && !buf_add(&r->body, data, *size)) {
        r->too_large = true;
        buf_done(&r->body);
    }
    if (r->too_large || r->status) r->discarded += *size;
    *size = 0;
    return r->discarded > HTTP_DISCARD_MAX ? MHD_NO : MHD_YES;
}

static enum MHD_Result take_end(http_request *r)
{
    const http_handler *handler = &r->conn->server->options.handler;
    if (r->status) return queue_answer(r); /* it was held, or refused on the way */
    if (r->state != REQUEST_BODY) return MHD_YES;
    r->state = REQUEST_RUNS;
    if (r->too_large) too_large(r);
    else handler->run(handler->ctx, r);
    if (r->suspended) return MHD_YES; /* perhaps it was answered meanwhile: we are called again */
    CHECK(r->status);
    return r->taken ? MHD_NO : queue_answer(r);
}

/* ---- the library's calls ------------------------------------------------------------------------------------------------------ */

void *request_begin(void *lane, const char *uri, struct MHD_Connection *connection)
{
    http_server *s = ((http_lane *)lane)->server;
    const union MHD_ConnectionInfo *info = MHD_get_connection_info(connection, MHD_CONNECTION_INFO_SOCKET_CONTEXT);
    http_conn *conn = info ? info->socket_context : NULL;
    http_request *r = conn ? alloc_new(alloc_default(), sizeof *r) : NULL;
    if (!r) return NULL;
    r->conn = conn;
    r->connection = connection;
    buf_init(&r->body, alloc_default(), 0);
    r->target = strndup(uri, HTTP_TARGET_MAX + 1);
    conn_deadline(conn, s->options.head_us);
    return r;
}

enum MHD_Result request_access(void *lane, struct MHD_Connection *connection, const char *url, const char *method,
                               const char *version, const char *data, size_t *size, void **request)
{
    http_server *s = ((http_lane *)lane)->server;
    http_request *r = *request;
    enum MHD_Result result = MHD_NO;
    (void)connection, (void)url;
    busy_enter(s);
    if (r) r->suspended = false;
    bool gone = !r || !r->target || (atomic_load(&s->stopping) && !r->status);
    if (gone) result = MHD_NO;
    else if (r->state == REQUEST_NEW) result = take_head(r, method, version);
    else if (*size) result = take_data(r, data, size);
    else result = take_end(r);
    busy_leave(s);
    return result;
}

void request_done(void *lane, struct MHD_Connection *connection, void **request, enum MHD_RequestTerminationCode why)
{
    http_server *s = ((http_lane *)lane)->server;
    http_request *r = *request;
    (void)connection, (void)why;
    if (!r) return;
    *request = NULL;
    s->options.handler.done(s->options.handler.ctx, r);
    conn_deadline(r->conn, s->options.idle_us);
    for (size_t i = 0; i < r->headers_count; i++) alloc_free(alloc_default(), (char *)r->headers[i].value);
    buf_done(&r->body);
    free(r->answer);
    free(r->target);
    alloc_free(alloc_default(), r);
}
