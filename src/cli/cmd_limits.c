/* pawl limits list, set, drop, pause, resume. */
#include "base/error.h"
#include "base/text.h"
#include "cli/filter.h"
#include "cli/help.h"
#include "cli/remote.h"
#include <stdlib.h>
#include <string.h>

const char help_limits_list[] =
    "A limit lets so many tasks of a type start per period, for each rate key. Shown are the types\n"
    "that have one, and the keys that used it within the last hour or have one of their own. LEFT is\n"
    "how many could start now, WAITING how many tasks in the store have a slot ahead, PARKED how many\n"
    "that nodes hold wait for slots that are near, RUNNING how many others they hold, NEXT SLOT when\n"
    "one more that asks may start. Below them stand the limits of how many run at a time: RUNNING now,\n"
    "BLOCKED for want of a place, and HOLDER, the task that has had a place the longest.\n"
    "\n"
    "Examples\n"
    "  pawl limits list\n"
    "  pawl limits list --type email.send --waiting\n";
const char help_limits_set[] = "RATE is PERMITS/PERIOD: 15/1m, 10/s, 1/500ms. It is in force for all nodes with the next start;\n"
                               "tasks that wait for slots of the old limit ask anew. With --key it is the limit of that key\n"
                               "alone. What is paused stays so. A program that starts with another limit for the type replaces\n"
                               "it.\n"
                               "\n"
                               "Examples\n"
                               "  pawl limits set email.send 15/1m\n"
                               "  pawl limits set email.send 100/1m --key acme --burst 10\n";
const char help_limits_drop[] = "Examples\n"
                                "  pawl limits drop email.send --key acme\n";
const char help_limits_pause[] = "Durable, and for all nodes: no task of the key starts until it is resumed. Without --key: of\n"
                                 "every key of the type that has no limit of its own.\n"
                                 "\n"
                                 "Examples\n"
                                 "  pawl limits pause email.send --key acme\n";
const char help_limits_resume[] = "Examples\n"
                                  "  pawl limits resume email.send --key acme\n";

static const char *type_name, *key_text, *cursor, *by_name;
static int64_t page = 100, burst, horizon_us;
static bool only_waiting, start_empty, retries_free, discard, wait_any;

#define KEY OPTION(OPT_TEXT, "key", &key_text, "KEY", "of this rate key alone")
#define BY OPTION(OPT_NAME, "by", &by_name, "NAME", "who does it, for the operator log (default: you)")

const opt limits_list_opts[] = {OPTION(OPT_NAME, "type", &type_name, "TYPE", "of this type"),
                                OPTION(OPT_TEXT, "key", &key_text, "KEY", "of this rate key"),
                                OPTION(OPT_FLAG, "waiting", &only_waiting, NULL, "only keys that tasks wait for"),
                                OPTION(OPT_INT, "limit", &page, "N", "rows at most", 1, 1000, "100"),
                                OPTION(OPT_TEXT, "cursor", &cursor, "TEXT", "go on where the page before ended"),
                                OPTIONS_END};
const opt limits_set_opts[] = {
    KEY,
    OPTION(OPT_INT, "burst", &burst, "N", "starts saved up while a key is idle (default: PERMITS)", 1, INT32_MAX),
    OPTION(OPT_DURATION, "horizon", &horizon_us, "DURATION", "fail a task whose slot is farther away (default: 1h)", 1,
           365 * PAWL_DAY),
    OPTION(OPT_FLAG, "no-horizon", &wait_any, NULL, "let tasks wait however long"),
    OPTION(OPT_FLAG, "start-empty", &start_empty, NULL, "a new key has saved nothing"),
    OPTION(OPT_FLAG, "retries-free", &retries_free, NULL, "further attempts take nothing"),
    OPTION(OPT_FLAG, "discard", &discard, NULL, "fail what cannot start at once, instead of letting it wait"),
    BY,
    OPTIONS_END};
const opt limits_key_opts[] = {KEY, BY, OPTIONS_END};

static pawl_bytes key_bytes(void) { return pawl_str(key_text); }

/* ---- list ---------------------------------------------------------------------------------------------------------------- */

static void rate_text(const pawl_limit_info *l, char out[64])
{
    char period[DURATION_TEXT];
    duration_format(l->rate.period_us, period, sizeof period);
    if (l->rate.permits == 0) snprintf(out, 64, "-");
    else snprintf(out, 64, "%d per %s", l->rate.permits, period);
}

static int limits_json(const cli *c, const pawl_limits *limits, const pawl_places *places)
{
    answer a;
    cli_json_begin(c, &a);
    jsonw_object(&a.w);
    jsonw_key(&a.w, "limits");
    jsonw_array(&a.w);
    for (size_t i = 0; i < limits->count; i++) limit_json(&a.w, &limits->limits[i]);
    jsonw_end_array(&a.w);
    json_text(&a.w, "next", limits->next);
    limits_totals_json(&a.w, limits);
    places_json(&a.w, places);
    jsonw_end_object(&a.w);
    return cli_json_end(c, &a);
}

static void next_cell(table *t, const pawl_limit_info *l, int64_t now_us)
{
    char when[WHEN_TEXT] = "";
    if (l->paused) {
        table_cell(t, YELLOW, "paused");
        return;
    }
    int64_t next_us = l->node ? l->parked_slot_us : l->next_slot_us;
    if (l->key.len > 0 && next_us > now_us) when_relative(next_us, now_us, when);
    table_cell(t, PLAIN, "%s", l->key.len == 0 ? "" : when[0] ? when : "now");
}

static bool limits_table(const cli *c, const pawl_limits *limits)
{
    table t;
    table_init(&t, &c->term);
    table_column(&t, "TYPE", COLUMN_FLEX);
    table_column(&t, "KEY", COLUMN_FLEX);
    table_column(&t, "RATE", COLUMN_LEFT);
    table_column(&t, "LEFT", COLUMN_RIGHT);
    table_column(&t, "WAITING", COLUMN_RIGHT);
    table_column(&t, "PARKED", COLUMN_RIGHT);
    table_column(&t, "RUNNING", COLUMN_RIGHT);
    table_column(&t, "NEXT SLOT", COLUMN_LEFT);
    for (size_t i = 0; i < limits->count; i++) {
        const pawl_limit_info *l = &limits->limits[i];
        char rate[64], waiting[32], parked[32], running[32];
        rate_text(l, rate);
        number_grouped(l->waiting, waiting);
        number_grouped(l->parked, parked);
        number_grouped(l->running, running);
        table_cell(&t, BOLD, "%s", l->type);
        table_cell(&t, l->own ? PLAIN : DIM, "%.*s", (int)l->key.len, l->key.len ? l->key.data : "");
        table_cell(&t, l->own ? PLAIN : DIM, "%s%s", l->node ? "by " : rate, l->node ? l->node : "");
        if (l->key.len) table_cell(&t, l->left ? PLAIN : YELLOW, "%d", l->left);
        else table_cell(&t, DIM, "-");
        table_cell(&t, l->waiting ? CYAN : DIM, "%s", l->key.len ? waiting : "");
        table_cell(&t, l->parked ? CYAN : DIM, "%s", l->key.len ? parked : "");
        table_cell(&t, l->running ? PLAIN : DIM, "%s", l->key.len ? running : "");
        next_cell(&t, l, limits->now_us);
    }
    return table_print(&t, stdout);
}

/* Concurrency limits stand on the first page; a store that keeps none has none to show. */
static pawl_status get_places(pawl *p, pawl_places **out, pawl_error *err)
{
    pawl_place_filter filter = {.name = type_name, .key = key_bytes(), .blocked = only_waiting, .limit = (int)page};
    pawl_status status = cursor ? PAWL_UNSUPPORTED : pawl_get_places(p, &filter, out, err);
    if (status == PAWL_UNSUPPORTED) *out = NULL;
    return status == PAWL_UNSUPPORTED ? PAWL_OK : status;
}

static int show(cli *c, const pawl_limits *limits, const pawl_places *places)
{
    size_t others = places ? places->count : 0;
    if (c->json) return limits_json(c, limits, places);
    if (limits->count + others == 0) puts("no limits match");
    if (limits->count > 0 && !limits_table(c, limits)) return cli_no_memory(c);
    if (limits->next) printf("more: pawl limits list --cursor %s\n", limits->next);
    if (limits->count > 0 && others > 0) puts("");
    if (others > 0 && !places_table(c, places)) return cli_no_memory(c);
    if (places && places->next) printf("and others: use --type, --key or --limit\n");
    return 0;
}

static pawl_status ask_both(const cli *c, remote *r, remote *more, pawl_error *err)
{
    remote_begin(r, "/v1/limits");
    remote_parameter(&r->path, "type", type_name);
    remote_parameter(&r->path, "key", key_text);
    remote_flag(&r->path, "waiting", only_waiting);
    remote_number(&r->path, "limit", page);
    remote_parameter(&r->path, "cursor", cursor);
    remote_begin(more, "/v1/concurrency");
    remote_parameter(&more->path, "name", type_name);
    remote_parameter(&more->path, "key", key_text);
    remote_flag(&more->path, "blocked", only_waiting);
    remote_number(&more->path, "limit", page);
    pawl_status status = remote_send(c, r, "GET", err);
    if (!status && !cursor) status = remote_send(c, more, "GET", err);
    return status == PAWL_UNSUPPORTED && r->object.kind ? PAWL_OK : status;
}

static int both_json(const cli *c, const remote *r, const remote *more)
{
    answer a;
    json places = json_parse(pawl_str("[]"));
    if (more->object.kind) places = json_member(more->object, "concurrency");
    cli_json_begin(c, &a);
    jsonw_object(&a.w);
    remote_members(&a.w, r->object, NULL);
    jsonw_key(&a.w, "concurrency");
    remote_value(&a.w, places);
    jsonw_end_object(&a.w);
    return cli_json_end(c, &a);
}

static int from_server(cli *c)
{
    remote r, more;
    pawl_error err;
    pawl_limits limits = {.now_us = cli_now_us()};
    pawl_places places = {0};
    pawl_status status = ask_both(c, &r, &more, &err);
    if (!status && !c->json) status = remote_rows(&r, &limit_shape, r.object, &limits, &err);
    if (!status && !c->json && more.object.kind) status = remote_rows(&more, &place_shape, more.object, &places, &err);
    int code = status ? cli_fail(c, &err) : c->json ? both_json(c, &r, &more) : show(c, &limits, &places);
    remote_end(&r);
    remote_end(&more);
    return code;
}

/* An empty variable of a script must not limit every key. */
static bool key_missing(const cli *c, int *code)
{
    if (!key_text || *key_text) return false;
    *code = cli_usage(c, "--key is empty: name a rate key, or leave --key out for all of them");
    return true;
}

int cmd_limits_list(cli *c)
{
    pawl_error err;
    pawl_limits *limits = NULL;
    pawl_places *places = NULL;
    int code = 0;
    if (key_missing(c, &code)) return code;
    if (c->server) return from_server(c);
    pawl *p = cli_open_reading(c, &code);
    if (!p) return code;
    pawl_limit_filter filter = {
        .type = type_name, .key = key_bytes(), .waiting = only_waiting, .limit = (int)page, .cursor = cursor};
    bool failed = pawl_get_limits(p, &filter, &limits, &err) || get_places(p, &places, &err);
    code = failed ? cli_fail(c, &err) : show(c, limits, places);
    pawl_limits_free(limits);
    pawl_places_free(places);
    pawl_close(p);
    return code;
}

/* ---- changing ------------------------------------------------------------------------------------------------------------ */

/* "15/1m", "10/s" */
static bool rate_parse(const char *text, pawl_rate *out)
{
    char *end, period[64];
    long permits = strtol(text, &end, 10);
    if (end == text || *end != '/' || permits < 1 || permits > INT32_MAX) return false;
    bool unit_alone = end[1] && !(end[1] >= '0' && end[1] <= '9');
    snprintf(period, sizeof period, "%s%s", unit_alone ? "1" : "", end + 1);
    out->permits = (int)permits;
    return duration_parse(period, &out->period_us) && out->period_us > 0;
}

static int done(cli *c, pawl *p, pawl_status status, const pawl_error *err, const char *what)
{
    int code = status ? cli_fail(c, err) : 0;
    if (p) pawl_close(p);
    if (status) return code;
    if (c->json) {
        answer a;
        cli_json_begin(c, &a);
        jsonw_object(&a.w);
        json_text(&a.w, "type", c->args[0]);
        json_rate_key(&a.w, key_bytes());
        json_text(&a.w, "done", what);
        jsonw_end_object(&a.w);
        return cli_json_end(c, &a);
    }
    printf("%s%s%s  %s\n", c->args[0], key_text ? " " : "", key_text ? key_text : "", what);
    return 0;
}

static const char *by(void) { return by_name ? by_name : cli_person(); }

/* On a server: METHOD /v1/limits/TYPE... with a rate or none. */
static int ask_change(cli *c, const char *method, const char *behind, const pawl_rate *rate, const char *what)
{
    remote r;
    pawl_error err;
    remote_about(&r, "/v1/limits/", c->args[0], behind);
    remote_parameter(&r.path, "key", key_text);
    if (rate) {
        jsonw_object(&r.w);
        json_number(&r.w, "permits", rate->permits);
        json_number(&r.w, "period_us", rate->period_us);
        json_number(&r.w, "burst", rate->burst);
        json_truth(&r.w, "start_empty", rate->start_empty);
        json_truth(&r.w, "retries_free", rate->retries_free);
        json_truth(&r.w, "discard", rate->discard);
        if (rate->horizon_us > 0) json_number(&r.w, "horizon_us", rate->horizon_us);
        json_truth(&r.w, "no_horizon", rate->horizon_us < 0);
        jsonw_end_object(&r.w);
    }
    pawl_status status = remote_send(c, &r, method, &err);
    remote_end(&r);
    return done(c, NULL, status, &err, what);
}

static int change(cli *c, const pawl_rate *rate, const char *what)
{
    pawl_error err;
    int code = 0;
    if (key_missing(c, &code)) return code;
    if (c->server) return ask_change(c, rate->permits ? "PUT" : "DELETE", "", rate->permits ? rate : NULL, what);
    pawl *p = cli_open_writing(c, &code);
    if (!p) return code;
    return done(c, p, pawl_set_limit(p, c->args[0], key_bytes(), rate, by(), &err), &err, what);
}

int cmd_limits_set(cli *c)
{
    pawl_rate rate = {.burst = (int)burst, .start_empty = start_empty, .retries_free = retries_free, .discard = discard};
    rate.horizon_us = wait_any ? -1 : horizon_us;
    if (wait_any && horizon_us) return cli_usage(c, "--horizon and --no-horizon cannot both be: use one of them");
    if (!rate_parse(c->args[1], &rate))
        return cli_usage(c, "\"%s\" is no rate: use PERMITS/PERIOD, for example 15/1m", c->args[1]);
    return change(c, &rate, "limited");
}

int cmd_limits_drop(cli *c) { return change(c, &(pawl_rate){0}, "no longer limited"); }

int cmd_limits_pause(cli *c)
{
    pawl_error err;
    int code = 0;
    if (key_missing(c, &code)) return code;
    if (c->server) return ask_change(c, "POST", "/pause", NULL, "paused");
    pawl *p = cli_open_writing(c, &code);
    return p ? done(c, p, pawl_pause_limit(p, c->args[0], key_bytes(), by(), &err), &err, "paused") : code;
}

int cmd_limits_resume(cli *c)
{
    pawl_error err;
    int code = 0;
    if (key_missing(c, &code)) return code;
    if (c->server) return ask_change(c, "POST", "/resume", NULL, "resumed");
    pawl *p = cli_open_writing(c, &code);
    return p ? done(c, p, pawl_resume_limit(p, c->args[0], key_bytes(), by(), &err), &err, "resumed") : code;
}
