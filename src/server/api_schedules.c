/* /v1/schedules, /v1/concurrency. */
#include "base/alloc.h"
#include "base/error.h"
#include "server/parts.h"
#include <string.h>

typedef struct schedule_options {
    int upcoming;
} schedule_options;

typedef struct put_options {
    pawl_put how;
} put_options;

typedef struct preview_options {
    int64_t from_us;
    int count;
} preview_options;

typedef struct run_options {
    pawl_bytes payload;
} run_options;

typedef struct place_options {
    pawl_scope scope;
    pawl_bytes key;
} place_options;

typedef struct most_options {
    int most;
    bool ordered;
} most_options;

#define LIST(member) offsetof(pawl_schedule_filter, member)
#define PLACE(member) offsetof(pawl_place_filter, member)
#define UPCOMING_MAX 1000

/* clang-format off */
const field schedules_query[] = {
    {"prefix", FIELD_TEXT, LIST(prefix), 0, 0, "only names that begin so"},
    {"enabled", FIELD_BOOL, LIST(enabled), 0, 0, "only those that are enabled"},
    {"off", FIELD_BOOL, LIST(off), 0, 0, "only those that are not"},
    {"limit", FIELD_INT, LIST(limit), 1, 1000, "rows of a page; 100 by default"},
    {"cursor", FIELD_TEXT, LIST(cursor), 0, 0, "`next` of the page before"},
    {0},
};
const field schedule_query[] = {{"upcoming", FIELD_INT, offsetof(schedule_options, upcoming), 0, UPCOMING_MAX, "how many of its next times to tell; 5 by default"}, {0}};
const field put_query[] = {{"how", FIELD_PUT, offsetof(put_options, how), 0, 0, "update by default; keep: leave one that is there as it is; add: 409 if there is one; edit: 404 if there is none"}, {0}};
const field preview_query[] = {
    {"from", FIELD_INSTANT, offsetof(preview_options, from_us), 0, 0, "from then on; now by default"},
    {"count", FIELD_INT, offsetof(preview_options, count), 1, UPCOMING_MAX, "how many times; 5 by default"},
    {0},
};
const field run_body[] = {{"payload", FIELD_PAYLOAD, offsetof(run_options, payload), 0, 0, "in place of the schedule's own"}, {0}};
const field places_query[] = {
    {"scope", FIELD_SCOPE, PLACE(scope), 0, 0, "of this kind"},
    {"name", FIELD_TEXT, PLACE(name), 0, 0, "of this queue or type"},
    {"key", FIELD_BYTES, PLACE(key), 0, 0, "of this rate key"},
    {"blocked", FIELD_BOOL, PLACE(blocked), 0, 0, "only where tasks are blocked"},
    {"limit", FIELD_INT, PLACE(limit), 1, 1000, "rows of a page; 100 by default"},
    {"cursor", FIELD_TEXT, PLACE(cursor), 0, 0, "`next` of the page before"},
    {0},
};
const field place_query[] = {
    {"scope", FIELD_SCOPE, offsetof(place_options, scope), 0, 0, "what {name} is: a queue, a type, a type whose keys are meant, a queue whose tenants take turns; type by default"},
    {"key", FIELD_BYTES, offsetof(place_options, key), 0, 0, "scope key: of this rate key alone; scope tenants: of this tenant"},
    {0},
};
const field most_body[] = {
    {"most", FIELD_INT, offsetof(most_options, most), 0, 65536, "tasks at a time, on all nodes; 0: no limit. Of tenants: 1 and 0 let them take turns and no longer; with a key: its weight"},
    {"ordered", FIELD_BOOL, offsetof(most_options, ordered), 0, 0, "scope key, one at a time: in the order of dispatch, retries included"},
    {0},
};
/* clang-format on */

/* ---- looking ------------------------------------------------------------------------------------------------------------------ */

void route_schedule_list(call *c)
{
    pawl_schedule_filter filter = {0};
    pawl_schedules *all;
    pawl_error err;
    if (!call_query(c, schedules_query, &filter)) return;
    if (pawl_list_schedules(c->s->options.p, &filter, &all, &err)) {
        call_fail(c, &err);
        return;
    }
    reply a;
    reply_begin(&a);
    jsonw_object(&a.w);
    jsonw_key(&a.w, "schedules");
    jsonw_array(&a.w);
    for (size_t i = 0; i < all->count; i++) schedule_json(&a.w, &all->schedules[i], false);
    jsonw_end_array(&a.w);
    json_text(&a.w, "next", all->next);
    jsonw_end_object(&a.w);
    pawl_schedules_free(all);
    reply_end(c, &a, 200);
}

void route_schedule_get(call *c)
{
    schedule_options o = {.upcoming = 5};
    pawl_schedule_info *info;
    pawl_error err;
    if (!call_query(c, schedule_query, &o)) return;
    if (pawl_get_schedule(c->s->options.p, c->segment, o.upcoming, &info, &err)) {
        call_fail(c, &err);
        return;
    }
    reply a;
    reply_begin(&a);
    schedule_json(&a.w, info, true);
    pawl_schedule_info_free(info);
    reply_end(c, &a, 200);
}

void route_schedule_preview(call *c)
{
    preview_options o = {.count = 5};
    pawl_schedule s = {.name = "preview", .type = "preview"};
    pawl_error err;
    size_t count = 0;
    if (!call_query(c, preview_query, &o) || !call_body(c, schedule_fields, &s)) return;
    int64_t *times = pawl_arena_alloc(c->arena, (size_t)o.count * sizeof *times);
    pawl_status status = times ? pawl_preview_schedule(c->s->options.p, &s, o.from_us, times, (size_t)o.count, &count, &err)
                               : err_set(&err, PAWL_NO_MEMORY, "%s", pawl_status_text(PAWL_NO_MEMORY));
    if (status) {
        call_fail(c, &err);
        return;
    }
    reply a;
    reply_begin(&a);
    jsonw_object(&a.w);
    instants_json(&a.w, "times", times, count);
    jsonw_end_object(&a.w);
    reply_end(c, &a, 200);
}

/* ---- changing ----------------------------------------------------------------------------------------------------------------- */

static const char *skip_space(const char *at, const char *end)
{
    while (at < end && strchr(" \t\r\n", *at) && *at) at++;
    return at;
}

/* Whether two texts differ in white space between the values of JSON alone. */
static bool same_values(pawl_bytes a, pawl_bytes b)
{
    const char *x = a.data, *y = b.data, *x_end = x + a.len, *y_end = y + b.len;
    for (bool inside = false;; x++, y++) {
        if (!inside) x = skip_space(x, x_end), y = skip_space(y, y_end);
        if (x == x_end || y == y_end) return x == x_end && y == y_end;
        if (*x != *y) return false;
        if (inside && *x == '\\' && x_end - x > 1 && y_end - y > 1) {
            if (*++x != *++y) return false;
        } else if (*x == '"') {
            inside = !inside;
        }
    }
}

/* Whoever changes a schedule has read it with its secrets masked: a payload that comes back as it was shown is the one that is there. */
static pawl_status keep_secrets(call *c, pawl_schedule *s, pawl_error *err)
{
    pawl_schedule_info *before;
    buf shown;
    if (!s->payload.len || !memmem(s->payload.data, s->payload.len, REDACT_MASK, strlen(REDACT_MASK))) return PAWL_OK;
    if (pawl_get_schedule(c->s->options.p, c->segment, 0, &before, err))
        return PAWL_OK; /* a new one, or an error that comes again */
    pawl_bytes old = before->definition.payload;
    pawl_status status = PAWL_OK;
    buf_init(&shown, alloc_default(), ANSWER_MAX);
    if (redact_bytes(encode_hidden(), old, &shown)) {
        const char *kept = pawl_arena_bytes(c->arena, old.data, old.len);
        if (!kept || shown.failed) status = err_set(err, PAWL_NO_MEMORY, "%s", pawl_status_text(PAWL_NO_MEMORY));
        else if (same_values((pawl_bytes){shown.data, shown.len}, s->payload)) s->payload = (pawl_bytes){kept, old.len};
        else
            status = err_set(
                err, PAWL_INVALID,
                "\"payload\" has \"%s\" where \"%s\" has a secret: send the secret itself, or the payload as it was shown",
                REDACT_MASK, c->segment);
    }
    buf_done(&shown);
    pawl_schedule_info_free(before);
    return status;
}

void route_schedule_put(call *c)
{
    put_options o = {.how = PAWL_PUT_UPDATE};
    pawl_schedule s = {.name = c->segment, .by = call_by(c)};
    pawl_schedule_info *info;
    pawl_dispatched outcome;
    pawl_error err;
    if (!call_query(c, put_query, &o) || !call_body(c, schedule_fields, &s)) return;
    pawl_status status = s.type ? PAWL_OK : err_set(&err, PAWL_INVALID, "\"type\" is missing");
    if (!status) status = keep_secrets(c, &s, &err);
    if (!status) status = pawl_put_schedule(c->s->options.p, &s, o.how, &outcome, &err);
    if (!status) status = pawl_get_schedule(c->s->options.p, c->segment, 0, &info, &err);
    if (status) {
        call_fail(c, &err);
        return;
    }
    reply a;
    reply_begin(&a);
    jsonw_object(&a.w);
    json_text(&a.w, "name", c->segment);
    json_text(&a.w, "outcome", outcome == PAWL_CREATED ? "created" : outcome == PAWL_UPDATED ? "updated" : "unchanged");
    json_text(&a.w, "words", info->words);
    json_instant(&a.w, "next_at", info->next_us);
    jsonw_end_object(&a.w);
    pawl_schedule_info_free(info);
    reply_end(c, &a, 200);
}

typedef pawl_status (*schedule_fn)(pawl *p, const char *name, const char *by, pawl_error *err);

static void change(call *c, schedule_fn act, const char *done)
{
    pawl_error err;
    if (!call_query(c, no_fields, NULL)) return;
    if (act(c->s->options.p, c->segment, call_by(c), &err)) call_fail(c, &err);
    else reply_done(c, done);
}

void route_schedule_enable(call *c) { change(c, pawl_enable_schedule, "enabled"); }
void route_schedule_disable(call *c) { change(c, pawl_disable_schedule, "disabled"); }
void route_schedule_drop(call *c) { change(c, pawl_remove_schedule, "removed"); }

void route_schedule_run(call *c)
{
    run_options o = {0};
    pawl_error err;
    pawl_id id;
    if (!call_query(c, no_fields, NULL) || !call_body(c, run_body, &o)) return;
    if (pawl_run_schedule(c->s->options.p, c->segment, o.payload.data ? &o.payload : NULL, call_by(c), &id, &err)) {
        call_fail(c, &err);
        return;
    }
    reply_receipt(c, &(pawl_receipt){.outcome = PAWL_CREATED, .id = id});
}

/* ---- concurrency limits ------------------------------------------------------------------------------------------------------- */

void route_place_list(call *c)
{
    pawl_place_filter filter = {0};
    pawl_places *places;
    pawl_error err;
    if (!call_query(c, places_query, &filter)) return;
    if (pawl_get_places(c->s->options.p, &filter, &places, &err)) {
        call_fail(c, &err);
        return;
    }
    reply a;
    reply_begin(&a);
    jsonw_object(&a.w);
    jsonw_key(&a.w, "concurrency");
    jsonw_array(&a.w);
    for (size_t i = 0; i < places->count; i++) place_json(&a.w, &places->places[i]);
    jsonw_end_array(&a.w);
    json_text(&a.w, "next", places->next);
    jsonw_end_object(&a.w);
    pawl_places_free(places);
    reply_end(c, &a, 200);
}

static void change_places(call *c, const most_options *m, const char *done)
{
    place_options o = {.scope = PAWL_SCOPE_TYPE};
    pawl_error err;
    if (!call_query(c, place_query, &o)) return;
    if (pawl_set_concurrency(c->s->options.p, o.scope, c->segment, o.key, m->most, m->ordered, call_by(c), &err))
        call_fail(c, &err);
    else reply_done(c, done);
}

void route_place_set(call *c)
{
    most_options m = {.most = -1};
    if (!call_body(c, most_body, &m)) return;
    if (m.most < 0) call_problem(c, 422, "invalid", "\"most\" is needed: {\"most\":4}");
    else change_places(c, &m, m.most ? "limited" : "no longer limited");
}

void route_place_drop(call *c) { change_places(c, &(most_options){0}, "no longer limited"); }
