/* The server: pawl.h over HTTP. Routes, who may use them, and what they answer; see README.md. */
#ifndef SERVER_SERVER_H
#define SERVER_SERVER_H

#include "base/buf.h"
#include "base/log.h"
#include <pawl.h>

typedef struct server server;

typedef struct server_options {
    pawl *p;            /* open; outlives the server */
    const char *store;  /* where it was opened, for the engines of remote workers; as in pawl_options */
    const char *name;   /* of these nodes */
    int64_t lease_us;   /* of these nodes; those of workers are at most half as long */
    const int *sockets; /* listening; the server's from now on */
    size_t sockets_count;
    const char *tls_cert, *tls_key; /* files; NULL: no TLS */
    const char *tokens;             /* file of tokens; NULL: none, only local clients are let in */
    const char *const *hosts;       /* names that a Host header may have, beside localhost and addresses */
    size_t hosts_count;
    const char *prefix; /* of all paths, behind a proxy; NULL or "": none */
    int threads;        /* that speak HTTP */
    int desk_threads;   /* that wait for the store */
    int connections_max;
    int64_t head_us, idle_us, body_us, answer_us;
    size_t payload_max;  /* bytes of a task's */
    size_t events_max;   /* kept for clients that come back */
    struct hooks *hooks; /* see hooks.h; NULL: none. Outlives the server */
    logger log;
    const char *redact; /* as in pawl_options */
    bool access_log;
    bool runs_tasks; /* the engine was started: /readyz looks at that too */
} server_options;

pawl_status server_start(const server_options *options, server **out, pawl_error *err);
pawl_status server_reload(server *s, pawl_error *err); /* reads the tokens again; on failure the old ones stay */
void server_set_access_log(server *s, bool on);
void server_drain(server *s); /* remote workers get nothing more, /readyz says so */
int server_held(server *s);   /* tasks that remote workers have */
void server_quiet(server *s); /* the same; no new connections, /readyz says so; what is under way goes on */
bool server_idle(server *s);  /* nothing is under way */
void server_stop(server *s);

/* The documents that the route table makes. */
void server_openapi(buf *out, bool pretty);

#endif
