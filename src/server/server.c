/* From the listener's calls to routes and back.
 *
 *     head     the route is found and the caller checked before a byte of the body is read
 *     run      on the listener's thread: LOOP routes answer, or dispatch and answer later; DESK routes stand in line for a thread
 *     done     the request is over: counted, written to the log, freed
 */
#include "server/server.h"

#include "base/alloc.h"
#include "base/clock.h"
#include "base/error.h"
#include "server/parts.h"
#include <stdio.h>
#include <string.h>
#include <strings.h>

#define CALL_ARENA (8u << 20)

static int64_t now_us(void)
{
    pawl_clock clock = clock_system();
    return clock.wall_us(clock.ctx);
}

/* ---- the head ----------------------------------------------------------------------------------------------------------------- */

static const char *below_prefix(const server *s, const char *path)
{
    size_t n = strlen(s->prefix);
    if (strncmp(path, s->prefix, n) != 0) return NULL;
    return path[n] == '/' ? path + n : NULL;
}

static bool find_route(call *c)
{
    bool other = false;
    const char *path = below_prefix(c->s, http_path(c->r));
    c->route = path ? route_find(http_request_method(c->r), path, c->segment, &other) : NULL;
    if (c->route) return true;
    if (strcmp(http_path(c->r), c->s->prefix) == 0 && http_request_method(c->r) == HTTP_GET) return web_redirect(c), false;
    if (other)
        call_problem(c, 405, "method", "%s is not for this path: see /v1/openapi.json",
                     http_method_name(http_request_method(c->r)));
    else call_problem(c, 404, "not_found", "there is nothing at \"%.200s\": see /v1/openapi.json", http_path(c->r));
    return false;
}

static bool is_type(const char *header, const char *type)
{
    size_t n = strlen(type);
    return header && strncasecmp(header, type, n) == 0 && (!header[n] || header[n] == ';' || header[n] == ' ');
}

static bool ndjson(const call *c) { return is_type(http_header(c->r, "content-type"), "application/x-ndjson"); }

static bool is_none(const char *length) { return !length || strcmp(length, "0") == 0; }

/* A form of another site's page cannot send JSON by its name. */
static bool check_type(call *c)
{
    const char *type = http_header(c->r, "content-type");
    bool has_body = c->route->body != no_fields || c->route->place == PLACE_STREAM;
    if (!has_body || is_type(type, "application/json") || (c->route->place == PLACE_STREAM && ndjson(c))) return true;
    if (!type && !http_header(c->r, "transfer-encoding") && is_none(http_header(c->r, "content-length"))) return true;
    call_problem(c, 415, "content_type", "the body must be JSON: send \"Content-Type: application/json\"%s",
                 c->route->place == PLACE_STREAM ? ", or application/x-ndjson" : "");
    return false;
}

static size_t body_limit(const call *c)
{
    if (c->route->place == PLACE_STREAM) return ndjson(c) ? SIZE_MAX : BULK_BODY_MAX;
    if (c->route->body == task_fields || c->route->body == schedule_fields || c->route->body == run_body)
        return c->s->options.payload_max + c->s->options.payload_max / 5 * 2 + (64u << 10);
    if (c->route->body == report_body || c->route->body == renew_body) return BULK_BODY_MAX;
    if (c->route->body != no_fields) return SMALL_BODY_MAX;
    return c->route->method == HTTP_GET ? 0 : 2; /* "{}" does no harm */
}

static size_t on_data(void *ctx, http_request *r, const char *data, size_t n)
{
    (void)ctx;
    return bulk_data(http_user(r), data, n);
}

static void on_head(void *ctx, http_request *r, http_plan *plan)
{
    server *s = ctx;
    const char *type, *why;
    call *c = alloc_new(alloc_default(), sizeof *c);
    if (!c) {
        http_problem(r, 503, "no_memory", "%s", pawl_status_text(PAWL_NO_MEMORY));
        return;
    }
    *c = (call){.s = s, .r = r, .begun_us = now_us()};
    http_set_user(r, c);
    atomic_fetch_add(&s->counters.under_way, 1);
    bool found = find_route(c);
    if (!found) return;
    int status = auth_check(s->auth, r, c->route->scope, c->route->tenant == TENANT_ALL, &c->who, &type, &why);
    if (status) {
        call_problem(c, status, type, "%s%s%s%s", why, status == 403 && strcmp(type, "scope") == 0 ? " \"" : "",
                     strcmp(type, "scope") == 0 ? scope_name(c->route->scope) : "", strcmp(type, "scope") == 0 ? "\"" : "");
        return;
    }
    plan->body_max = body_limit(c);
    if (!check_type(c)) return;
    if (c->route->place == PLACE_STREAM && ndjson(c)) plan->data = on_data;
    if (!(c->arena = arena_new(alloc_default(), CALL_ARENA)))
        call_problem(c, 503, "no_memory", "%s", pawl_status_text(PAWL_NO_MEMORY));
}

/* ---- run and done ------------------------------------------------------------------------------------------------------------- */

static void on_run(void *ctx, http_request *r)
{
    server *s = ctx;
    call *c = http_user(r);
    if (c->route->method != HTTP_GET && !c->bulk && !idem_begin(c)) return;
    if (c->route->place != PLACE_DESK) {
        c->route->run(c);
        return;
    }
    http_hold(r);
    if (!desk_take(&s->desk, c)) call_problem(c, 503, "unavailable", "the server has too much to do: try again");
}

static void on_done(void *ctx, http_request *r)
{
    server *s = ctx;
    call *c = http_user(r);
    int status = http_status(r);
    atomic_fetch_add_explicit(&s->counters.requests[status / 100 < 6 ? status / 100 : 0], 1, memory_order_relaxed);
    if (!c) return;
    if (atomic_load(&s->access_log))
        log_line(&s->options.log, PAWL_INFO, "%s \"%s %s\" %d %s %lld us", http_peer_text(r),
                 http_method_name(http_request_method(r)), http_path(r), status, *c->who.name ? c->who.name : "-",
                 (long long)(now_us() - c->begun_us));
    if (c->idem) idem_end(c, 503, NULL);
    bulk_free(c);
    arena_free(c->arena);
    alloc_free(alloc_default(), c);
    atomic_fetch_sub(&s->counters.under_way, 1);
}

/* ---- start and stop ----------------------------------------------------------------------------------------------------------- */

static pawl_status open_parts(server *s, pawl_error *err)
{
    const server_options *o = &s->options;
    s->prefix = alloc_str(alloc_default(), o->prefix ? o->prefix : "");
    s->idem = idem_new();
    if (!s->prefix || !s->idem || !desk_open(&s->desk, o->desk_threads))
        return err_set(err, PAWL_NO_MEMORY, "could not start the server: out of memory");
    if (!(s->auth = auth_new(o->tokens, o->hosts, o->hosts_count, err))) return err->status;
    if (!(s->events = events_new(s, o->events_max, err))) return err->status;
    if (!(s->crew = crew_new(s, err))) return err->status;
    if (o->tls_cert && tls_open(o->tls_cert, o->tls_key, o->threads, &s->tls, err)) return err->status;
    http_options http = {.sockets = o->sockets,
                         .sockets_count = o->sockets_count,
                         .threads = o->threads,
                         .connections_max = o->connections_max,
                         .head_us = o->head_us,
                         .idle_us = o->idle_us,
                         .body_us = o->body_us,
                         .answer_us = o->answer_us,
                         .handler = {on_head, on_run, on_done, s},
                         .tls = s->tls,
                         .log = &s->options.log};
    return http_start(&http, &s->http, err);
}

static void free_parts(server *s)
{
    desk_close(&s->desk);
    crew_free(s->crew);
    events_free(s->events);
    tls_close(s->tls);
    auth_free(s->auth);
    idem_free(s->idem);
    alloc_free(alloc_default(), s->prefix);
    alloc_free(alloc_default(), s);
}

pawl_status server_start(const server_options *options, server **out, pawl_error *err)
{
    server *s = alloc_new(alloc_default(), sizeof *s);
    if (!s) return err_set(err, PAWL_NO_MEMORY, "could not start the server: out of memory");
    s->options = *options;
    s->started_us = now_us();
    atomic_store(&s->access_log, options->access_log);
    pawl_status status = open_parts(s, err);
    if (status) free_parts(s);
    else *out = s;
    return status;
}

pawl_status server_reload(server *s, pawl_error *err)
{
    pawl_status status = auth_reload(s->auth, err);
    return status || !s->tls ? status : tls_reload(s->tls, err);
}

void server_set_access_log(server *s, bool on) { atomic_store(&s->access_log, on); }

void server_drain(server *s)
{
    atomic_store(&s->quiet, true);
    crew_drain(s->crew);
}

int server_held(server *s) { return crew_held(s->crew); }

void server_quiet(server *s)
{
    server_drain(s);
    http_quiet(s->http);
    events_stop(s->events);
}

bool server_idle(server *s) { return atomic_load(&s->counters.under_way) == 0; }

void server_stop(server *s)
{
    if (!s) return;
    server_quiet(s);
    desk_close(&s->desk); /* what stands in line is answered */
    http_stop(s->http);
    free_parts(s);
}
