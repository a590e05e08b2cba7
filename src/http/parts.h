/* What the files of this folder share. */
#ifndef HTTP_PARTS_H
#define HTTP_PARTS_H

#include "base/list.h"
#include "http/gate.h"
#include "http/http.h"
#include <microhttpd.h>
#include <pthread.h>
#include <stdatomic.h>

#define ANSWER_HEADERS_MAX 8

/* One connection: from accept to close. In the server's list, under its lock. */
typedef struct http_conn {
    list link;
    http_server *server;
    struct http_lane *lane;
    int fd;
    http_peer peer;
    bool late;                   /* cut off */
    _Atomic int64_t deadline_us; /* on the monotonic clock; INT64_MAX: none */
    char peer_text[48];
} http_conn;

/* A thread with its connections. */
typedef struct http_lane {
    http_server *server;
    struct MHD_Daemon *daemon;
    pthread_t thread;
    bool runs;
    int wake_fd;
    atomic_bool woken; /* since it last ran: once is enough */
    bool watch;        /* the first lane: somebody may become late */
    int64_t looked_us;
} http_lane;

struct http_server {
    http_options options;
    int *sockets;
    http_lane *lanes;
    atomic_bool quiet, stopping, stopped;
    pthread_mutex_t lock; /* of conns */
    list conns;
    int conns_count;
    atomic_int busy; /* requests that are held, calls of the library under way, and the server itself until it stops */
    pthread_cond_t still;
    bool is_still; /* nobody is busy, and the server stops */
};

typedef enum request_state {
    REQUEST_NEW = 0, /* its first line is there */
    REQUEST_BODY,    /* its head passed the gate */
    REQUEST_RUNS,    /* with the handler */
    REQUEST_ANSWERED /* the answer is with the library */
} request_state;

struct http_request {
    http_conn *conn;
    struct MHD_Connection *connection;
    request_state state;
    http_method method;
    char *target; /* path and query are cut out of this copy */
    const char *path;
    http_pair query[HTTP_PARAMETERS_MAX];
    size_t query_count;
    gate_field fields[HTTP_FIELDS_MAX];
    size_t fields_count; /* may be more than there is room for */
    gate_body body_head;
    http_plan plan;
    buf body;
    size_t discarded;
    bool head, too_large, close_after, taken;
    bool held;      /* by the handler, until it answers: belongs to whoever holds it */
    bool suspended; /* since the library's last call: its thread's */
    void *user;

    /* The answer. */
    int status;
    const char *content_type;
    char *answer; /* malloc's */
    size_t answer_len;
    http_pair headers[ANSWER_HEADERS_MAX]; /* values are ours */
    size_t headers_count;
};

int64_t http_now_us(void);
void conn_deadline(http_conn *conn, int64_t after_us); /* from now; negative: none */

void wake_lane(http_lane *lane);
void busy_enter(http_server *s);
void busy_leave(http_server *s);

/* target.c: cuts path and query out of r->target, decoded. 0, or a status and why. */
int target_parse(http_request *r, const char **why);

/* request.c: the library's callbacks. */
void *request_begin(void *lane, const char *uri, struct MHD_Connection *connection);
enum MHD_Result request_access(void *lane, struct MHD_Connection *connection, const char *url, const char *method,
                               const char *version, const char *data, size_t *size, void **request);
void request_done(void *lane, struct MHD_Connection *connection, void **request, enum MHD_RequestTerminationCode why);

#endif
