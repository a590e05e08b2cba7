/* pawl serve.
 *
 *   cmd_serve.c     starting, signals, stopping
 *   serve_config.c  settings: one table (serve_opts) for the file, the environment and the flags
 *   serve_listen.c  sockets: addresses, unix, handed over by systemd; and what systemd is told
 */
#ifndef CLI_SERVE_H
#define CLI_SERVE_H

#include "cli/cli.h"
#include "handlers/handlers.h"

#define LISTEN_MAX 8

typedef struct serve_settings {
    const char *config, *tokens, *prefix, *name, *log_format, *log_level, *tls_cert, *tls_key, *hooks, *redact;
    opt_list listen, hosts, hook_networks;
    int64_t threads, desk_threads, connections, events, payload_max;
    int64_t head_us, idle_us, body_us, answer_us, grace_us, lease_us;
    bool access_log, demo;
    handler_list *handlers; /* sections of the file; NULL: none. Those that were read first stay */
} serve_settings;

extern serve_settings serve_set;

/* The file, then the environment, then the flags of the command line once more: the last one wins. */
pawl_status serve_configure(cli *c, pawl_error *err);
pawl_status serve_read_file(cli *c, const char *path, pawl_error *err);
void serve_sample(FILE *out);

typedef struct serve_sockets {
    int fds[LISTEN_MAX];
    size_t count;
    bool public; /* one of them is reachable from other machines */
    char texts[LISTEN_MAX][128];
    const char *paths[LISTEN_MAX]; /* of unix sockets, to be removed in the end; NULL: none */
} serve_sockets;

pawl_status serve_listen(const opt_list *listen, serve_sockets *out, pawl_error *err);
void serve_unlink(const serve_sockets *sockets);
void serve_notify(const char *state); /* to systemd, if it started us */

#endif
