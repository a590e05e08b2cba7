/* /healthz, /readyz, /metrics. */
#include "base/alloc.h"
#include "base/clock.h"
#include "base/error.h"
#include "server/parts.h"
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

/* Names, types and help texts: base units, counters end in _total, no label has a key, a tenant or an id. */
/* clang-format off */
#define METRIC_TABLE(X)                                                                                                        \
    X(up,               "pawl_up",                             gauge,   "1: the server answers")                               \
    X(store_ok,         "pawl_store_up",                       gauge,   "1: the store answers")                                \
    X(store_latency,    "pawl_store_commit_seconds",           gauge,   "how long the last commit took")                       \
    X(commits,          "pawl_store_commits_total",            counter, "transactions of this process that changed the store") \
    X(tasks,            "pawl_tasks",                          gauge,   "tasks in the store that are not finished, by state")  \
    X(throttled,        "pawl_throttled_tasks",                gauge,   "tasks that wait for rate slots, in the store and at nodes")                  \
    X(deferrals,        "pawl_rate_deferrals_total",           counter, "tasks that had to wait for a rate slot, at this process")                     \
    X(rejections,       "pawl_rate_rejections_total",          counter, "tasks that were refused for want of a rate slot, at this process")            \
    X(opened,           "pawl_rate_open_starts_total",         counter, "tasks that a rate limit could not count and let start, at this process")      \
    X(dead,             "pawl_dead_letters",                   gauge,   "failed tasks that nobody has dealt with")             \
    X(queue_due,        "pawl_queue_due_tasks",                gauge,   "tasks that could run now; counted up to 10000 in all")     \
    X(queue_pending,    "pawl_queue_pending_tasks",            gauge,   "tasks that wait in a queue")                          \
    X(queue_running,    "pawl_queue_leased_tasks",             gauge,   "tasks of a queue that a node holds")                  \
    X(queue_paused,     "pawl_queue_paused",                   gauge,   "1: nothing of the queue starts")                      \
    X(queue_age,        "pawl_queue_oldest_due_seconds",       gauge,   "how late the oldest task that is due is")             \
    X(queue_throttled,  "pawl_queue_throttled_tasks",          gauge,   "tasks of a queue that wait for rate slots in the store; the first 20000 of all queues are counted") \
    X(nodes,            "pawl_nodes",                          gauge,   "living processes that run or dispatch tasks")         \
    X(events,           "pawl_events_total",                   counter, "what happened at this process, by kind")              \
    X(remote_workers,   "pawl_remote_workers",                 gauge,   "workers that are registered over HTTP")               \
    X(remote_tasks,     "pawl_remote_tasks",                   gauge,   "tasks that they have")                                \
    X(requests,         "pawl_http_requests_total",            counter, "requests that were answered, by class of status")     \
    X(enqueued,         "pawl_http_enqueued_tasks_total",      counter, "tasks that came by HTTP and were stored")             \
    X(connections,      "pawl_http_connections",               gauge,   "open connections")                                    \
    X(streams,          "pawl_http_event_streams",             gauge,   "clients of /v1/events")                               \
    X(streams_dropped,  "pawl_http_event_streams_dropped_total", counter, "clients of /v1/events that did not read")

enum metric {
#define X(id, name, type, help) METRIC_##id,
    METRIC_TABLE(X)
#undef X
};

static const struct {
    const char *name, *type, *help;
} metrics[] = {
#define X(id, name, type, help) {name, #type, help},
    METRIC_TABLE(X)
#undef X
};
/* clang-format on */

void route_health(call *c)
{
    reply a;
    if (!call_query(c, no_fields, NULL)) return;
    reply_begin(&a);
    jsonw_object(&a.w);
    json_text(&a.w, "status", "alive");
    json_text(&a.w, "version", pawl_version());
    jsonw_end_object(&a.w);
    reply_end(c, &a, 200);
}

/* ---- /readyz ------------------------------------------------------------------------------------------------------------------ */

typedef struct state {
    pawl_health health;
    pawl_stats *stats; /* NULL: the store did not answer */
    int64_t stale;     /* tasks that nodes hold beyond their leases */
    char text[512];
    bool quiet;
} state;

static const char *judge(const call *c, state *st)
{
    const pawl_health *h = &st->health;
    if (st->quiet) return snprintf(st->text, sizeof st->text, "the server is stopping"), "stopping";
    if (!h->store_ok || !st->stats)
        return snprintf(st->text, sizeof st->text, "%s", *h->text ? h->text : "the store does not answer"), "unhealthy";
    if (st->stats->closed) return snprintf(st->text, sizeof st->text, "%s", st->stats->closed), "unhealthy";
    if (c->s->options.runs_tasks && !h->started)
        return snprintf(st->text, sizeof st->text, "the workers are not started"), "degraded";
    if (!h->healthy) return snprintf(st->text, sizeof st->text, "%s", h->text), "degraded";
    if (st->stale)
        return snprintf(st->text, sizeof st->text, "%lld tasks are held by nodes that are gone or stand still",
                        (long long)st->stale),
               "degraded";
    if (st->stats->dead && st->stats->failed)
        return snprintf(st->text, sizeof st->text,
                        "dead letters grow: %lld tasks failed in the last hour, %lld are not dealt with",
                        (long long)st->stats->failed, (long long)st->stats->dead),
               "degraded";
    return "ready";
}

static void state_load(call *c, state *st)
{
    pawl_error err;
    memset(st, 0, sizeof *st);
    st->quiet = atomic_load(&c->s->quiet);
    if (pawl_get_health(c->s->options.p, &st->health, &err))
        snprintf(st->health.text, sizeof st->health.text, "%.250s", err.message);
    if (pawl_get_stats(c->s->options.p, 0, &st->stats, &err)) st->stats = NULL;
}

static int64_t count_stale(call *c, int64_t now_us)
{
    pawl_error err;
    pawl_nodes *nodes;
    int64_t stale = 0;
    if (pawl_get_nodes(c->s->options.p, &nodes, &err)) return 0;
    for (size_t i = 0; i < nodes->count; i++) {
        const pawl_node_info *n = &nodes->nodes[i];
        if (!n->alive || (n->expires_us && n->expires_us <= now_us)) stale += n->leases;
    }
    pawl_nodes_free(nodes);
    return stale;
}

static int64_t count_due(const pawl_stats *stats)
{
    int64_t due = 0;
    for (size_t i = 0; i < stats->queues_count; i++) due += stats->queues[i].due;
    return due;
}

static int64_t oldest_due(const pawl_stats *stats)
{
    int64_t oldest = 0;
    for (size_t i = 0; i < stats->queues_count; i++) {
        const pawl_queue_info *q = &stats->queues[i];
        if (!q->paused && q->oldest_due_us && (!oldest || q->oldest_due_us < oldest)) oldest = q->oldest_due_us;
    }
    return oldest;
}

/* What is in the store is nobody's business who may not read there. */
static bool may_look(const call *c)
{
    caller who;
    const char *type, *why;
    return auth_check(c->s->auth, c->r, SCOPE_READ, true, &who, &type, &why) == 0;
}

static void ready_details(json_writer *w, const state *st)
{
    json_shown(w, "text", *st->text ? st->text : NULL);
    json_number(w, "store_latency_us", st->health.store_latency_us);
    json_number(w, "loop_lag_us", st->health.loop_lag_us);
    json_number(w, "lease_left_us", st->health.lease_left_us);
    json_number(w, "running", st->health.running);
    json_number(w, "ready", st->health.ready);
    json_number(w, "stuck", st->health.stuck);
    json_number(w, "long_running", st->health.long_running);
    if (!st->stats) return;
    json_number(w, "stale", st->stale);
    json_number(w, "due", count_due(st->stats));
    json_number(w, "pending", st->stats->pending);
    json_number(w, "leased", st->stats->leased);
    json_number(w, "dead", st->stats->dead);
    json_instant(w, "oldest_due_at", oldest_due(st->stats));
}

void route_ready(call *c)
{
    state st;
    reply a;
    if (!call_query(c, no_fields, NULL)) return;
    state_load(c, &st);
    if (st.stats) st.stale = count_stale(c, st.stats->now_us);
    const char *word = judge(c, &st);
    reply_begin(&a);
    jsonw_object(&a.w);
    json_text(&a.w, "status", word);
    if (may_look(c)) ready_details(&a.w, &st);
    jsonw_end_object(&a.w);
    pawl_stats_free(st.stats);
    reply_end(c, &a, strcmp(word, "unhealthy") == 0 || strcmp(word, "stopping") == 0 ? 503 : 200);
}

/* ---- /metrics ----------------------------------------------------------------------------------------------------------------- */

static void head_of(buf *out, enum metric m)
{
    buf_fmt(out, "# HELP %s %s\n# TYPE %s %s\n", metrics[m].name, metrics[m].help, metrics[m].name, metrics[m].type);
}

static void put(buf *out, enum metric m, int64_t value)
{
    head_of(out, m);
    buf_fmt(out, "%s %" PRId64 "\n", metrics[m].name, value);
}

static void put_seconds(buf *out, enum metric m, int64_t us)
{
    head_of(out, m);
    buf_fmt(out, "%s %" PRId64 ".%06" PRId64 "\n", metrics[m].name, us / PAWL_SECOND, us % PAWL_SECOND);
}

/* The value of a label: backslash, quote and newline are escaped. */
static void label(buf *out, enum metric m, const char *name, const char *value)
{
    buf_fmt(out, "%s{%s=\"", metrics[m].name, name);
    for (const char *at = value; *at; at++) {
        if (*at == '\n') buf_str(out, "\\n");
        else if (*at == '"' || *at == '\\') buf_fmt(out, "\\%c", *at);
        else buf_char(out, *at);
    }
    buf_str(out, "\"} ");
}

static void put_label(buf *out, enum metric m, const char *name, const char *value, int64_t number)
{
    label(out, m, name, value);
    buf_fmt(out, "%" PRId64 "\n", number);
}

static void put_store(buf *out, const pawl_stats *stats)
{
    if (!stats) return;
    head_of(out, METRIC_tasks);
    put_label(out, METRIC_tasks, "state", "waiting", stats->waiting);
    put_label(out, METRIC_tasks, "state", "pending", stats->pending);
    put_label(out, METRIC_tasks, "state", "leased", stats->leased);
    put(out, METRIC_throttled, stats->throttled);
    put(out, METRIC_dead, stats->dead);
    const pawl_queue_info *q = stats->queues;
    size_t n = stats->queues_count;
    head_of(out, METRIC_queue_due);
    for (size_t i = 0; i < n; i++) put_label(out, METRIC_queue_due, "queue", q[i].name, q[i].due);
    head_of(out, METRIC_queue_pending);
    for (size_t i = 0; i < n; i++) put_label(out, METRIC_queue_pending, "queue", q[i].name, q[i].pending);
    head_of(out, METRIC_queue_running);
    for (size_t i = 0; i < n; i++) put_label(out, METRIC_queue_running, "queue", q[i].name, q[i].leased);
    head_of(out, METRIC_queue_paused);
    for (size_t i = 0; i < n; i++) put_label(out, METRIC_queue_paused, "queue", q[i].name, q[i].paused);
    head_of(out, METRIC_queue_throttled);
    for (size_t i = 0; i < n; i++) put_label(out, METRIC_queue_throttled, "queue", q[i].name, q[i].throttled);
    head_of(out, METRIC_queue_age);
    for (size_t i = 0; i < n; i++) {
        int64_t late_us = q[i].oldest_due_us && stats->now_us > q[i].oldest_due_us ? stats->now_us - q[i].oldest_due_us : 0;
        label(out, METRIC_queue_age, "queue", q[i].name);
        buf_fmt(out, "%" PRId64 ".%06" PRId64 "\n", late_us / PAWL_SECOND, late_us % PAWL_SECOND);
    }
}

static void put_nodes(buf *out, pawl *p)
{
    pawl_nodes *nodes;
    pawl_error err;
    int64_t alive = 0;
    if (pawl_get_nodes(p, &nodes, &err)) return;
    for (size_t i = 0; i < nodes->count; i++) alive += nodes->nodes[i].alive;
    pawl_nodes_free(nodes);
    put(out, METRIC_nodes, alive);
}

static void put_server(buf *out, server *s)
{
    static const char *const classes[] = {"none", "1xx", "2xx", "3xx", "4xx", "5xx"};
    put(out, METRIC_remote_workers, crew_workers(s->crew));
    put(out, METRIC_remote_tasks, crew_held(s->crew));
    head_of(out, METRIC_requests);
    for (int i = 0; i < 6; i++) put_label(out, METRIC_requests, "status", classes[i], atomic_load(&s->counters.requests[i]));
    put(out, METRIC_enqueued, atomic_load(&s->counters.enqueued));
    put(out, METRIC_connections, http_connections(s->http));
    put(out, METRIC_streams, events_clients(s->events));
    put(out, METRIC_streams_dropped, events_dropped(s->events));
}

void route_metrics(call *c)
{
    state st;
    buf out;
    if (!call_query(c, no_fields, NULL)) return;
    state_load(c, &st);
    buf_init(&out, alloc_default(), ANSWER_MAX);
    put(&out, METRIC_up, 1);
    put(&out, METRIC_store_ok, st.health.store_ok && st.stats);
    put_seconds(&out, METRIC_store_latency, st.health.store_latency_us);
    put(&out, METRIC_commits, st.health.commits);
    put(&out, METRIC_deferrals, st.health.deferrals);
    put(&out, METRIC_rejections, st.health.rejected);
    put(&out, METRIC_opened, st.health.opened);
    put_store(&out, st.stats);
    put_nodes(&out, c->s->options.p);
    head_of(&out, METRIC_events);
    for (int i = 1; i < PAWL_EVENT_COUNT; i++)
        put_label(&out, METRIC_events, "event", pawl_event_name((pawl_event_kind)i), st.health.events[i]);
    put_server(&out, c->s);
    pawl_stats_free(st.stats);
    call_answer(c, 200, "text/plain; version=0.0.4; charset=utf-8", &out);
}
