/* pawl serve: the HTTP API in front of a store.
 *
 *     first SIGINT or SIGTERM    no new connections; requests and running tasks come to their end (for --grace); then stop
 *     second                     stop at once: tasks that have returned or never started are given back
 *     SIGHUP                     read tokens and settings again; what cannot change while running is said to need a restart
 */
#include "base/alloc.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/text.h"
#include "cli/demo.h"
#include "cli/help.h"
#include "cli/serve.h"
#include "cli/stop.h"
#include "http/address.h"
#include "server/auth.h"
#include "server/hooks.h"
#include "server/server.h"
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/signalfd.h>
#include <unistd.h>

#define FEED_MS 280
#define LOOK_MS 20 /* while stopping: whether all is done */

const char help_serve[] =
    "Any language hands over tasks, looks at them and acts on them over HTTP; GET /v1/openapi.json describes it all. "
    "Listens on 127.0.0.1:7295 unless told otherwise. On this machine nobody needs a token until there is one; addresses that others "
    "can reach are refused without (\"pawl tokens add\").\n"
    "\n"
    "Every option can also stand in a file (--config, \"pawl config sample\" prints one) or in the environment as PAWL_NAME. Flags count "
    "more than the environment, and that more than the file.\n"
    "\n"
    "Sections [handler NAME] of the file are handlers that the server itself runs tasks with; the sample shows their settings.\n"
    "\n"
    "SIGTERM lets what runs come to its end; a second one stops at once. SIGHUP reads tokens and settings again.\n"
    "\n"
    "Examples\n"
    "  pawl serve\n"
    "  pawl serve --listen unix:/run/pawl.sock --store postgres://db/shop\n"
    "  curl -s -H 'Content-Type: application/json' -d '{\"type\":\"greet\"}' localhost:7295/v1/tasks\n";

typedef struct serving {
    cli *c;
    pawl *p;
    server *server;
    stopper stop;
    serve_sockets sockets;
    logger log;
    demo demo;
    hooks *hooks;
    bool stopping, shut; /* shut: no new connections */
    int64_t stop_by_us;
} serving;

/* ---- log ---------------------------------------------------------------------------------------------------------------------- */

static void log_json(void *ctx, pawl_level level, const char *line)
{
    char at[RFC3339_TEXT];
    buf out;
    json_writer w;
    (void)ctx;
    buf_init(&out, alloc_default(), 16 << 10);
    jsonw_init(&w, &out, false);
    rfc3339_format(cli_now_us(), at);
    jsonw_object(&w);
    json_text(&w, "at", at);
    json_text(&w, "level", pawl_level_name(level));
    json_text(&w, "text", line);
    jsonw_end_object(&w);
    buf_char(&out, '\n');
    if (out.failed || write(STDERR_FILENO, out.data, out.len) < 0) errno = 0; /* nowhere left to say so */
    buf_done(&out);
}

static pawl_level level_of(const char *name)
{
    for (int i = PAWL_DEBUG; i <= PAWL_ERROR; i++) {
        if (strcmp(pawl_level_name((pawl_level)i), name) == 0) return (pawl_level)i;
    }
    return PAWL_INFO;
}

static void set_log(logger *l)
{
    logger_init(l, strcmp(serve_set.log_format, "json") == 0 ? log_json : NULL, NULL, level_of(serve_set.log_level));
    l->hidden = encode_hidden();
}

/* ---- starting ----------------------------------------------------------------------------------------------------------------- */

/* Nobody listens to the world without a lock on the door. */
static pawl_status check_open(const serving *s, pawl_error *err)
{
    token_list list;
    if (!s->sockets.public) return PAWL_OK;
    pawl_status status = tokens_load(serve_set.tokens, &list, err);
    if (status) return status;
    bool none = !list.count;
    tokens_free(&list);
    if (!none) return PAWL_OK;
    return err_set(
        err, PAWL_DENIED,
        "others can reach %s, and there is no token in \"%s\": make one with \"pawl tokens add NAME --tokens %s\", or listen on 127.0.0.1",
        s->sockets.texts[0], serve_set.tokens, serve_set.tokens);
}

/* The engine runs tasks: those of hooks, of built-in handlers, or of the demo. */
static bool runs(const serving *s)
{
    (void)s;
    return serve_set.demo || serve_set.hooks || handler_list_count(serve_set.handlers);
}

/* Other tasks are for others. */
static pawl_status leave_queues(pawl *p, pawl_error *err)
{
    pawl_status status = pawl_queue(p, &(pawl_queue_options){.name = "default", .workers = -1}, err);
    return status ? status : pawl_queue(p, &(pawl_queue_options){.name = "recurring", .workers = -1}, err);
}

static pawl_status open_hooks(serving *s, pawl_error *err)
{
    hooks_options o = {.path = serve_set.hooks,
                       .allowed = serve_set.hook_networks.items,
                       .allowed_count = (size_t)serve_set.hook_networks.count,
                       .log = s->log};
    if (strncmp(pawl_store_url(s->p), "memory:", 7) == 0)
        return err_set(err, PAWL_INVALID, "--hooks needs a store that is kept: memory: is gone when the server ends");
    for (int i = 0; i < serve_set.hook_networks.count; i++) {
        if (network_valid(serve_set.hook_networks.items[i])) continue;
        return err_set(err, PAWL_INVALID, "--hook-networks \"%s\" is no network: write it like 10.1.0.0/16",
                       serve_set.hook_networks.items[i]);
    }
    return hooks_open(s->p, &o, &s->hooks, err);
}

static pawl_status start_engine(serving *s, pawl_error *err)
{
    s->demo = (demo){.c = s->c, .p = s->p, .started_us = cli_now_us()};
    if (!runs(s)) return PAWL_OK;
    pawl_status status = serve_set.demo ? demo_handlers(s->p, err) : leave_queues(s->p, err);
    if (!status && serve_set.handlers) status = handler_list_register(serve_set.handlers, s->p, &s->log, serve_set.demo, err);
    if (!status && serve_set.hooks) status = open_hooks(s, err);
    if (!status) status = pawl_start(s->p, err);
    if (!status && s->hooks) status = hooks_start(s->hooks, err);
    if (!status && serve_set.demo) status = demo_prepare(&s->demo, err);
    return status;
}

static pawl_status start_server(serving *s, pawl_error *err)
{
    server_options o = {.p = s->p,
                        .store = s->c->store,
                        .name = serve_set.name,
                        .lease_us = serve_set.lease_us,
                        .sockets = s->sockets.fds,
                        .sockets_count = s->sockets.count,
                        .tls_cert = serve_set.tls_cert,
                        .tls_key = serve_set.tls_key,
                        .tokens = serve_set.tokens,
                        .hosts = serve_set.hosts.items,
                        .hosts_count = (size_t)serve_set.hosts.count,
                        .prefix = serve_set.prefix,
                        .threads = (int)serve_set.threads,
                        .desk_threads = (int)serve_set.desk_threads,
                        .connections_max = (int)serve_set.connections,
                        .head_us = serve_set.head_us,
                        .idle_us = serve_set.idle_us,
                        .body_us = serve_set.body_us,
                        .answer_us = serve_set.answer_us,
                        .payload_max = (size_t)serve_set.payload_max,
                        .events_max = (size_t)serve_set.events,
                        .log = s->log,
                        .redact = serve_set.redact,
                        .access_log = serve_set.access_log,
                        .hooks = s->hooks,
                        .runs_tasks = runs(s)};
    pawl_status status = server_start(&o, &s->server, err);
    if (status) s->sockets.count = 0; /* they were closed with it */
    return status;
}

/* Addresses are told as what clients are to say. */
static void name_tls(serving *s)
{
    for (size_t i = 0; serve_set.tls_cert && i < s->sockets.count; i++) {
        char *text = s->sockets.texts[i], rest[sizeof s->sockets.texts[i]];
        if (strncmp(text, "http://", 7) != 0) continue;
        snprintf(rest, sizeof rest, "%s", text + 7);
        snprintf(text, sizeof s->sockets.texts[i], "https://%.100s", rest);
    }
}

static void greet(const serving *s)
{
    const char *program = s->c->program, *url = s->sockets.texts[0], *store = pawl_store_url(s->p);
    for (size_t i = 0; i < s->sockets.count; i++)
        log_line(&s->log, PAWL_INFO, "listening on %s, store %s", s->sockets.texts[i], store);
    if (!serve_set.demo) return;
    printf(
        "Pawl serves %s on %s\n"
        "\n"
        "  a few handlers run (e-mail, reports, imports, webhooks; some fail), a trickle of tasks keeps them busy,\n"
        "  webhooks are limited to 40 a minute, and a schedule sends a mail every 20 seconds\n"
        "\n"
        "  look     %s/  in a browser\n"
        "           curl -s %s/v1/stats\n"
        "           curl -s '%s/v1/tasks?state=failed&limit=3'\n"
        "           curl -sN %s/v1/events\n"
        "           curl -s %s/v1/schedules; curl -s %s/v1/limits\n"
        "           %s top --server %s\n"
        "           %s tasks list --store %s\n"
        "  act      curl -s %s/v1/tasks -H 'Content-Type: application/json' -d '{\"type\":\"email.send\",\"payload\":{\"to\":\"you\"}}'\n"
        "           curl -s -X POST %s/v1/queues/mail/pause\n"
        "  read     %s/v1/openapi.json, docs/api.md\n"
        "  stop     Ctrl-C\n\n",
        store, url, url, url, url, url, url, url, program, url, program, store, url, url, url);
    fflush(stdout);
}

/* ---- while it runs ------------------------------------------------------------------------------------------------------------ */

static void reload(serving *s)
{
    pawl_error err;
    serve_notify("RELOADING=1");
    if (serve_configure(s->c, &err)) {
        log_line(&s->log, PAWL_ERROR, "nothing was changed: %s", err.message);
    } else if (server_reload(s->server, &err)) {
        log_line(&s->log, PAWL_ERROR, "could not read all again: %s", err.message);
    } else {
        server_set_access_log(s->server, serve_set.access_log);
        log_line(&s->log, PAWL_INFO, "tokens, certificate and access-log were read again; other settings need a restart");
    }
    serve_notify("READY=1");
}

static void begin_stop(serving *s)
{
    s->stopping = true;
    s->stop_by_us = cli_now_us() + serve_set.grace_us;
    serve_notify("STOPPING=1");
    log_line(&s->log, PAWL_INFO, "stopping: what is under way comes to its end; a second signal stops at once");
    server_drain(s->server);
    hooks_close(s->hooks);
    if (runs(s)) stopper_drain(&s->stop);
}

static bool drained(const serving *s)
{
    struct pollfd fd = {.fd = s->stop.drained, .events = POLLIN};
    return !s->stop.draining || poll(&fd, 1, 0) > 0;
}

/* Remote workers may bring what they have for half of the grace; then nobody is let in any more. */
static void shut_door(serving *s)
{
    if (!s->stopping || s->shut) return;
    s->shut = server_held(s->server) == 0 || cli_now_us() > s->stop_by_us - serve_set.grace_us / 2;
    if (s->shut) server_quiet(s->server);
}

/* Which signal, or 0. */
static int signal_of(const serving *s)
{
    struct signalfd_siginfo info;
    return read(s->stop.signals, &info, sizeof info) == sizeof info ? (int)info.ssi_signo : 0;
}

static void attend(serving *s)
{
    struct pollfd fd = {.fd = s->stop.signals, .events = POLLIN};
    for (;;) {
        pawl_error err;
        int timeout = s->stopping ? LOOK_MS : serve_set.demo ? FEED_MS : -1;
        int ready = poll(&fd, 1, timeout), signo = ready > 0 ? signal_of(s) : 0;
        if (signo == SIGHUP && !s->stopping) reload(s);
        else if (signo && s->stopping) return;
        else if (signo) begin_stop(s);
        shut_door(s);
        if (s->stopping && ((s->shut && server_idle(s->server) && drained(s)) || cli_now_us() > s->stop_by_us)) return;
        if (!s->stopping && serve_set.demo && !ready && demo_feed(&s->demo, &err))
            log_line(&s->log, PAWL_WARN, "demo: %s", err.message);
    }
}

/* ---- the whole ---------------------------------------------------------------------------------------------------------------- */

static pawl_status serve(serving *s, pawl_error *err)
{
    pawl_status status = serve_listen(&serve_set.listen, &s->sockets, err);
    if (!status) status = check_open(s, err);
    if (!status) status = start_engine(s, err);
    if (!status) status = start_server(s, err);
    if (status) return status;
    name_tls(s);
    greet(s);
    serve_notify("READY=1");
    attend(s);
    server_stop(s->server);
    hooks_close(s->hooks);
    if (runs(s)) status = stopper_stop(&s->stop, err);
    log_line(&s->log, PAWL_INFO, "stopped");
    return status;
}

int cmd_serve(cli *c)
{
    static serving s;
    pawl_error err;
    int code = 0;
    s.c = c;
    if (serve_configure(c, &err)) return cli_fail(c, &err);
    if (serve_set.prefix && *serve_set.prefix &&
        (serve_set.prefix[0] != '/' || serve_set.prefix[strlen(serve_set.prefix) - 1] == '/'))
        return cli_usage(c, "--prefix \"%s\" must begin with \"/\" and end without", serve_set.prefix);
    if (!serve_set.tls_cert != !serve_set.tls_key) return cli_usage(c, "--tls-cert and --tls-key belong together: give both");
    if (cli_hide(serve_set.redact, &err)) return cli_fail(c, &err);
    if (stopper_init(&s.stop, serve_set.grace_us, &err)) return cli_fail(c, &err);
    set_log(&s.log);
    s.p = s.stop.p = cli_open(c,
                              &(pawl_options){.name = serve_set.name,
                                              .grace_us = -1,
                                              .lease_us = serve_set.lease_us,
                                              .payload_max = (size_t)serve_set.payload_max,
                                              .log = s.log.sink,
                                              .log_level = s.log.level,
                                              .redact = serve_set.redact,
                                              .workers = serve_set.demo ? 4 : 0},
                              &code);
    if (!s.p) return code;
    if (serve(&s, &err)) code = cli_fail(c, &err);
    serve_unlink(&s.sockets);
    hooks_close(s.hooks);
    int closed = pawl_close(s.p);
    hooks_free(s.hooks);
    handler_list_free(serve_set.handlers);
    return code ? code : closed;
}

int cmd_openapi(cli *c)
{
    buf out;
    (void)c;
    buf_init(&out, alloc_default(), 16 << 20);
    server_openapi(&out, true);
    fwrite(buf_text(&out), 1, out.len, stdout);
    bool failed = out.failed;
    buf_done(&out);
    return failed ? cli_no_memory(c) : 0;
}
