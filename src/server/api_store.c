/* /v1/queues, /v1/limits, /v1/nodes, /v1/stats: what concerns the whole store. */
#include "base/error.h"
#include "base/text.h"
#include "server/parts.h"
#include <string.h>

typedef struct key_options {
    pawl_bytes key;
} key_options;

typedef struct node_options {
    bool all;
} node_options;

typedef struct acts_options {
    int64_t before;
    int limit;
} acts_options;

typedef struct stats_options {
    int64_t window_us;
} stats_options;

typedef struct rate_options {
    pawl_rate rate;
    bool no_horizon;
} rate_options;

#define LIMIT(member) offsetof(pawl_limit_filter, member)
#define RATE(member) offsetof(rate_options, rate.member)

/* clang-format off */
const field limits_query[] = {
    {"type", FIELD_TEXT, LIMIT(type), 0, 0, "of this type"},
    {"key", FIELD_BYTES, LIMIT(key), 0, 0, "of this rate key"},
    {"waiting", FIELD_BOOL, LIMIT(waiting), 0, 0, "only keys that tasks wait for"},
    {"limit", FIELD_INT, LIMIT(limit), 1, 1000, "rows of a page; 100 by default"},
    {"cursor", FIELD_TEXT, LIMIT(cursor), 0, 0, "`next` of the page before"},
    {0},
};
const field key_query[] = {{"key", FIELD_BYTES, offsetof(key_options, key), 0, 0, "of this rate key alone"}, {0}};
const field rate_body[] = {
    {"permits", FIELD_INT, RATE(permits), 1, INT32_MAX, "starts per period"},
    {"period", FIELD_DURATION, RATE(period_us), 0, 0, "\"1m\""},
    {"period_us", FIELD_MICROS, RATE(period_us), 1, 0, "the same in microseconds"},
    {"burst", FIELD_INT, RATE(burst), 0, INT32_MAX, "starts saved up while a key is idle; permits by default"},
    {"start_empty", FIELD_BOOL, RATE(start_empty), 0, 0, "a new key has saved nothing"},
    {"retries_free", FIELD_BOOL, RATE(retries_free), 0, 0, "further attempts take nothing"},
    {"discard", FIELD_BOOL, RATE(discard), 0, 0, "fail what cannot start at once"},
    {"horizon", FIELD_DURATION, RATE(horizon_us), 0, 0, "fail a task whose slot is farther away; 1h by default"},
    {"horizon_us", FIELD_MICROS, RATE(horizon_us), 0, 0, "the same in microseconds"},
    {"no_horizon", FIELD_BOOL, offsetof(rate_options, no_horizon), 0, 0, "let tasks wait however long"},
    {0},
};
const field acts_query[] = {
    {"before", FIELD_MICROS, offsetof(acts_options, before), 0, 0, "`next` of the page before"},
    {"limit", FIELD_INT, offsetof(acts_options, limit), 1, 1000, "rows of a page; 100 by default"},
    {0},
};
const field nodes_query[] = {{"all", FIELD_BOOL, offsetof(node_options, all), 0, 0, "dead ones too"}, {0}};
const field stats_query[] = {{"window", FIELD_DURATION, offsetof(stats_options, window_us), 0, 0, "how far to look back, in whole minutes; 1h by default"}, {0}};
/* clang-format on */

/* ---- queues ------------------------------------------------------------------------------------------------------------------- */

void route_queue_list(call *c)
{
    pawl_stats *stats;
    pawl_error err;
    if (!call_query(c, no_fields, NULL)) return;
    if (pawl_get_stats(c->s->options.p, 0, &stats, &err)) {
        call_fail(c, &err);
        return;
    }
    reply a;
    reply_begin(&a);
    jsonw_object(&a.w);
    jsonw_key(&a.w, "queues");
    jsonw_array(&a.w);
    for (size_t i = 0; i < stats->queues_count; i++) queue_json(&a.w, &stats->queues[i]);
    jsonw_end_array(&a.w);
    jsonw_end_object(&a.w);
    pawl_stats_free(stats);
    reply_end(c, &a, 200);
}

typedef pawl_status (*queue_fn)(pawl *p, const char *queue, const char *by, pawl_error *err);

static void switch_queue(call *c, queue_fn act, const char *done)
{
    pawl_error err;
    if (!call_query(c, no_fields, NULL)) return;
    if (act(c->s->options.p, c->segment, call_by(c), &err)) call_fail(c, &err);
    else reply_done(c, done);
}

void route_queue_pause(call *c) { switch_queue(c, pawl_pause, "paused"); }
void route_queue_resume(call *c) { switch_queue(c, pawl_resume, "resumed"); }

/* ---- limits ------------------------------------------------------------------------------------------------------------------- */

void route_limit_list(call *c)
{
    pawl_limit_filter filter = {0};
    pawl_limits *limits;
    pawl_error err;
    if (!call_query(c, limits_query, &filter)) return;
    if (pawl_get_limits(c->s->options.p, &filter, &limits, &err)) {
        call_fail(c, &err);
        return;
    }
    reply a;
    reply_begin(&a);
    jsonw_object(&a.w);
    jsonw_key(&a.w, "limits");
    jsonw_array(&a.w);
    for (size_t i = 0; i < limits->count; i++) limit_json(&a.w, &limits->limits[i]);
    jsonw_end_array(&a.w);
    json_text(&a.w, "next", limits->next);
    limits_totals_json(&a.w, limits);
    jsonw_end_object(&a.w);
    pawl_limits_free(limits);
    reply_end(c, &a, 200);
}

/* A key that was named must be one: an empty variable must not limit every key. */
static bool read_key(call *c, key_options *o)
{
    if (!call_query(c, key_query, o)) return false;
    if (!o->key.data || o->key.len > 0) return true;
    call_problem(c, 422, "invalid", "\"key\" is empty: name a rate key, or leave it out for all of them");
    return false;
}

static void change_limit(call *c, const pawl_rate *rate, const char *done)
{
    key_options o = {0};
    pawl_error err;
    if (!read_key(c, &o)) return;
    if (pawl_set_limit(c->s->options.p, c->segment, o.key, rate, call_by(c), &err)) call_fail(c, &err);
    else reply_done(c, done);
}

void route_limit_set(call *c)
{
    rate_options o = {0};
    if (!call_body(c, rate_body, &o)) return;
    if (!o.rate.permits || o.rate.period_us <= 0)
        call_problem(c, 422, "invalid", "\"permits\" and \"period\" are needed: {\"permits\":15,\"period\":\"1m\"}");
    else if (o.no_horizon && o.rate.horizon_us)
        call_problem(c, 422, "invalid", "\"horizon\" and \"no_horizon\" cannot both be: use one of them");
    else {
        if (o.no_horizon) o.rate.horizon_us = -1;
        change_limit(c, &o.rate, "limited");
    }
}

void route_limit_drop(call *c) { change_limit(c, &(pawl_rate){0}, "no longer limited"); }

typedef pawl_status (*limit_fn)(pawl *p, const char *type, pawl_bytes key, const char *by, pawl_error *err);

static void switch_limit(call *c, limit_fn act, const char *done)
{
    key_options o = {0};
    pawl_error err;
    if (!read_key(c, &o)) return;
    if (act(c->s->options.p, c->segment, o.key, call_by(c), &err)) call_fail(c, &err);
    else reply_done(c, done);
}

void route_limit_pause(call *c) { switch_limit(c, pawl_pause_limit, "paused"); }
void route_limit_resume(call *c) { switch_limit(c, pawl_resume_limit, "resumed"); }

/* ---- nodes and numbers -------------------------------------------------------------------------------------------------------- */

void route_node_list(call *c)
{
    node_options o = {0};
    pawl_nodes *nodes;
    pawl_error err;
    if (!call_query(c, nodes_query, &o)) return;
    if (pawl_get_nodes(c->s->options.p, &nodes, &err)) {
        call_fail(c, &err);
        return;
    }
    reply a;
    reply_begin(&a);
    jsonw_object(&a.w);
    jsonw_key(&a.w, "nodes");
    jsonw_array(&a.w);
    for (size_t i = 0; i < nodes->count; i++) {
        if (nodes->nodes[i].alive || o.all) node_json(&a.w, &nodes->nodes[i]);
    }
    jsonw_end_array(&a.w);
    jsonw_end_object(&a.w);
    pawl_nodes_free(nodes);
    reply_end(c, &a, 200);
}

static void switch_node(call *c, bool on, const char *done)
{
    pawl_error err;
    int64_t node;
    if (!call_query(c, no_fields, NULL)) return;
    if (!int_parse(c->segment, 1, INT64_MAX, &node))
        call_problem(c, 404, "not_found", "a node is named by its number: GET /v1/nodes tells it");
    else if (pawl_drain_node(c->s->options.p, node, on, call_by(c), &err)) call_fail(c, &err);
    else reply_done(c, done);
}

void route_node_drain(call *c) { switch_node(c, true, "draining"); }
void route_node_undrain(call *c) { switch_node(c, false, "no longer draining"); }

void route_act_list(call *c)
{
    acts_options o = {0};
    pawl_acts *acts;
    pawl_error err;
    if (!call_query(c, acts_query, &o)) return;
    if (pawl_get_acts(c->s->options.p, o.before, o.limit, &acts, &err)) {
        call_fail(c, &err);
        return;
    }
    reply a;
    reply_begin(&a);
    jsonw_object(&a.w);
    jsonw_key(&a.w, "acts");
    jsonw_array(&a.w);
    for (size_t i = 0; i < acts->count; i++) act_json(&a.w, &acts->acts[i]);
    jsonw_end_array(&a.w);
    jsonw_key(&a.w, "next");
    if (acts->next) jsonw_int(&a.w, acts->next);
    else jsonw_null(&a.w);
    jsonw_end_object(&a.w);
    pawl_acts_free(acts);
    reply_end(c, &a, 200);
}

void route_stats(call *c)
{
    stats_options o = {0};
    pawl_stats *stats;
    pawl_error err;
    if (!call_query(c, stats_query, &o)) return;
    if (o.window_us && (o.window_us < PAWL_MINUTE || o.window_us > 366 * PAWL_DAY)) {
        call_problem(c, 422, "invalid", "parameter \"window\" is out of range: 1m to 366d");
        return;
    }
    if (pawl_get_stats(c->s->options.p, o.window_us, &stats, &err)) {
        call_fail(c, &err);
        return;
    }
    reply a;
    reply_begin(&a);
    stats_json(&a.w, stats);
    pawl_stats_free(stats);
    reply_end(c, &a, 200);
}
