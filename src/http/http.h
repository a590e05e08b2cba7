/* http: a listener for HTTP/1.1 that has never heard of tasks.
 *
 * Sockets come in, requests that passed the gate (gate.h) go to one handler, answers go out. Everything a stranger can send is
 * bounded: line, head, body, number of connections, and, by absolute deadlines, time. The handler is called on the listener's threads
 * (server.c) and must not block: it answers at once, or holds the request and answers from any thread later.
 */
#ifndef HTTP_HTTP_H
#define HTTP_HTTP_H

#include "base/buf.h"
#include "base/log.h"
#include "http/tls.h"
#include <pawl.h>
#include <sys/types.h>

#define HTTP_TARGET_MAX (8u << 10)   /* bytes of the request's target */
#define HTTP_HEAD_MAX (16u << 10)    /* bytes of request line and headers */
#define HTTP_FIELDS_MAX 64           /* headers */
#define HTTP_PARAMETERS_MAX 32       /* of a query */
#define HTTP_DISCARD_MAX (32u << 20) /* of a body that is too large: read and thrown away so that the answer can be read */

typedef struct http_server http_server;
typedef struct http_request http_request;

typedef enum http_method {
    HTTP_GET = 1,
    HTTP_POST,
    HTTP_PUT,
    HTTP_PATCH,
    HTTP_DELETE
} http_method; /* HEAD is a GET without body */

/* Who is at the other end, by the socket's word. */
typedef enum http_peer { HTTP_PEER_OTHER = 0, HTTP_PEER_LOOPBACK, HTTP_PEER_UNIX } http_peer;

typedef struct http_pair {
    const char *name, *value;
} http_pair;

/* How the body of a request is taken. */
typedef struct http_plan {
    size_t body_max; /* 0: it may have none */
    /* NULL: gathered, see http_body. Else it is given piece by piece: returns how much of it was taken; after http_hold the rest is
     * offered again once http_go_on was called. */
    size_t (*data)(void *ctx, http_request *r, const char *data, size_t n);
} http_plan;

/* All are called on a thread of the listener. */
typedef struct http_handler {
    void (*head)(void *ctx, http_request *r, http_plan *plan); /* the head is there; an answer now refuses the body */
    void (*run)(void *ctx, http_request *r);                   /* the body is there: answer, hold or take over */
    void (*done)(void *ctx, http_request *r);                  /* answered, or the client is gone: free what hangs on it */
    void *ctx;
} http_handler;

typedef struct http_options {
    const int *sockets; /* listening; the server's from now on */
    size_t sockets_count;
    int threads;         /* that read, parse and write; at least 1 */
    int connections_max; /* at once; others get a 503 */
    int64_t head_us;     /* from the connection or the first line to the end of the headers */
    int64_t idle_us;     /* between two requests of a connection */
    int64_t body_us;     /* for all of the body */
    int64_t answer_us;   /* for taking the answer */
    http_handler handler;
    http_tls *tls; /* NULL: none. Of connections that do not come over a unix socket; outlives the server */
    const logger *log;
} http_options;

pawl_status http_start(const http_options *options, http_server **out, pawl_error *err);
void http_quiet(http_server *s); /* accepts no more connections; those that are there end after their next answer */
int http_connections(http_server *s);
void http_stop(http_server *s); /* waits for requests that are held */

/* ---- what a request says --------------------------------------------------------------------------------------------------- */

http_method http_request_method(const http_request *r);
const char *http_method_name(http_method method);
#define HTTP_SLASH '\1'                                                 /* stands for a '/' that was percent-encoded */
const char *http_path(const http_request *r);                           /* decoded, begins with '/' */
const char *http_parameter(const http_request *r, const char *name);    /* of the query, decoded; NULL: not there */
size_t http_parameters(const http_request *r, const http_pair **pairs); /* each name once */
const char *http_header(const http_request *r, const char *name);       /* NULL: not there; "" of several that are not the same */
pawl_bytes http_body(const http_request *r);
http_peer http_peer_kind(const http_request *r);
const char *http_peer_text(const http_request *r); /* an address, or "unix" */
void http_set_user(http_request *r, void *user);
void *http_user(const http_request *r);

/* ---- answering --------------------------------------------------------------------------------------------------------------- */

void http_hold(http_request *r);  /* from head, run or data: the answer comes later, from any thread */
void http_go_on(http_request *r); /* of one held in `data`: it takes more */

void http_add_header(http_request *r, const char *name, const char *value); /* of the answer; at most 8; value is copied */
/* Answers; the buffer's memory becomes the server's. body NULL: none. Exactly once per request. */
void http_answer(http_request *r, int status, const char *content_type, buf *body);
void http_close_after(http_request *r); /* the connection ends with this answer */
int http_status(const http_request *r); /* of the answer; 0: none yet */

/* RFC 9457. `type` is a word that a program can test; detail says what is wrong and what to do. */
void http_problem(http_request *r, int status, const char *type, const char *fmt, ...) PAWL_PRINTF(4, 5);
void http_problem_body(buf *out, int status, const char *type, const char *detail);
const char *http_reason(int status);

/* An answer without end: hands the connection over. It belongs to the caller from now on, who writes everything, the head
 * (http_stream_head) first; it does not block, and is not counted or watched here any more; the request is over. -1: it could not be done,
 * and is to be answered otherwise. */
int http_take_over(http_request *r);
void http_stream_head(buf *out, const char *content_type);
bool http_is_head(const http_request *r); /* a GET whose answer goes without its body */

#endif
