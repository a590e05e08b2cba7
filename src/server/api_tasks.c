/* /v1/tasks, /v1/dead: handing over, looking, acting. */
#include "base/alloc.h"
#include "base/error.h"
#include "server/parts.h"
#include <stdio.h>
#include <string.h>

#define FILTER(member) offsetof(pawl_filter, member)

/* clang-format off */
const field no_fields[] = {{0}};

const field list_query[] = {
    {"state", FIELD_TEXT, FILTER(state), 0, 0, "waiting, pending, scheduled, retrying, throttled, blocked, leased, running, stale, succeeded, failed or cancelled"},
    {"type", FIELD_TEXT, FILTER(type), 0, 0, "only tasks of this type"},
    {"queue", FIELD_TEXT, FILTER(queue), 0, 0, "only tasks of this queue"},
    {"tenant", FIELD_TEXT, FILTER(tenant), 0, 0, "only tasks of this tenant"},
    {"key", FIELD_TEXT, FILTER(key), 0, 0, "only tasks with this key"},
    {"q", FIELD_TEXT, FILTER(search), 0, 0, "words that type, queue, tenant, key, payload, code or error must hold, all of them; or how the id begins. A page takes about 100 ms at most: while there is a `next`, there is more to look at, even behind an empty page"},
    {"since", FIELD_INSTANT, FILTER(since_us), 0, 0, "created then or later"},
    {"until", FIELD_INSTANT, FILTER(until_us), 0, 0, "created before then"},
    {"oldest_first", FIELD_BOOL, FILTER(oldest_first), 0, 0, "else newest first"},
    {"limit", FIELD_INT, FILTER(limit), 1, 1000, "tasks of a page; 100 by default"},
    {"cursor", FIELD_TEXT, FILTER(cursor), 0, 0, "`next` of the page before"},
    {"within", FIELD_DURATION, FILTER(within_us), 0, 0, "\"100ms\": the page comes after about this long, `partial` if there was more to look at; 5s by default and at most, with `q` 100ms"},
    {0},
};

typedef struct get_options {
    bool brief;
} get_options;
const field get_query[] = {{"brief", FIELD_BOOL, offsetof(get_options, brief), 0, 0, "without log, trail and why"}, {0}};

typedef struct action {
    field_ids ids;
    field_filter filter;
    const char *note;
} action;
const field action_body[] = {
    {"ids", FIELD_IDS, offsetof(action, ids), 0, 0, "these tasks, at most 1000"},
    {"filter", FIELD_FILTER, offsetof(action, filter), 0, 0, "or all that match; an empty filter matches everything"},
    {"note", FIELD_TEXT, offsetof(action, note), 0, 0, "of an acknowledgement: why nothing is to be done"},
    {0},
};
/* clang-format on */

/* ---- handing over ------------------------------------------------------------------------------------------------------------- */

void reply_receipt(call *c, const pawl_receipt *receipt)
{
    char where[64], id[PAWL_ID_TEXT];
    reply a;
    reply_begin(&a);
    pawl_id_format(receipt->id, id);
    jsonw_object(&a.w);
    json_text(&a.w, "id", id);
    json_text(&a.w, "outcome", pawl_dispatched_name(receipt->outcome));
    jsonw_end_object(&a.w);
    snprintf(where, sizeof where, "%.30s/v1/tasks/%s", c->s->prefix, id);
    http_add_header(c->r, "Location", where);
    bool fresh = receipt->outcome == PAWL_CREATED || receipt->outcome == PAWL_REPLACED;
    reply_end(c, &a, fresh ? 201 : 200);
}

/* On the engine's thread: nothing here waits. */
static void dispatched(void *ctx, const pawl_receipt *receipt, const pawl_error *err)
{
    call *c = ctx;
    if (receipt->status == PAWL_OK) {
        atomic_fetch_add_explicit(&c->s->counters.enqueued, 1, memory_order_relaxed);
        reply_receipt(c, receipt);
    } else {
        call_fail(c, err);
    }
}

void route_task_create(call *c)
{
    pawl_task task;
    pawl_error err;
    size_t where;
    const char *what;
    pawl_bytes body = http_body(c->r);
    if (!call_query(c, no_fields, NULL)) return;
    if (!json_valid(body, &where, &what)) {
        call_problem(c, 422, "invalid", "the body is not JSON: %s at byte %zu", what, where + 1);
        return;
    }
    pawl_status status = task_read(json_parse(body), &(pawl_task){0}, c->arena, &task, &err);
    if (!status) status = call_kin(c, &task, &err);
    if (status) {
        call_fail(c, &err);
        return;
    }
    if (!call_tenant(c, &task.tenant)) return;
    if (!task.traceparent) task.traceparent = http_header(c->r, "traceparent");
    if (!task.created_by) task.created_by = call_by(c);
    http_hold(c->r);
    if (pawl_dispatch_async(c->s->options.p, &task, dispatched, c, &err)) call_fail(c, &err);
}

/* ---- looking ------------------------------------------------------------------------------------------------------------------ */

static void why_members(json_writer *w, const pawl_why_answer *why)
{
    jsonw_object(w);
    json_text(w, "code", why->code);
    json_shown(w, "text", why->text);
    json_instant(w, "until", why->until_us);
    jsonw_end_object(w);
}

void route_task_get(call *c)
{
    get_options o = {0};
    pawl_info *info;
    pawl_error err;
    pawl_id id;
    if (!call_query(c, get_query, &o) || !call_id(c, &id) || !call_own(c, id)) return;
    if (pawl_get(c->s->options.p, id, &info, &err)) {
        call_fail(c, &err);
        return;
    }
    pawl_trail *trail = NULL;
    pawl_why_answer why;
    bool explained = !o.brief && pawl_why(c->s->options.p, id, &why, &err) == PAWL_OK;
    if (!o.brief && pawl_get_trail(c->s->options.p, id, &trail, &err)) trail = NULL;
    reply a;
    reply_begin(&a);
    jsonw_object(&a.w);
    task_members(&a.w, info, trail, trail);
    if (explained) jsonw_key(&a.w, "why"), why_members(&a.w, &why);
    jsonw_end_object(&a.w);
    pawl_trail_free(trail);
    pawl_info_free(info);
    reply_end(c, &a, 200);
}

void route_task_why(call *c)
{
    pawl_why_answer why;
    pawl_error err;
    pawl_id id;
    if (!call_query(c, no_fields, NULL) || !call_id(c, &id) || !call_own(c, id)) return;
    if (pawl_why(c->s->options.p, id, &why, &err)) {
        call_fail(c, &err);
        return;
    }
    reply a;
    reply_begin(&a);
    why_members(&a.w, &why);
    reply_end(c, &a, 200);
}

/* ---- acting on one ------------------------------------------------------------------------------------------------------------ */

void route_task_cancel(call *c)
{
    pawl_error err;
    pawl_id id;
    if (!call_query(c, no_fields, NULL) || !call_id(c, &id) || !call_own(c, id)) return;
    if (pawl_cancel(c->s->options.p, id, call_by(c), &err)) call_fail(c, &err);
    else reply_done(c, "cancelled");
}

void route_task_retry(call *c)
{
    pawl_receipt receipt;
    pawl_error err;
    pawl_id id;
    if (!call_query(c, no_fields, NULL) || !call_id(c, &id) || !call_own(c, id)) return;
    if (pawl_retry_task(c->s->options.p, id, call_by(c), &receipt, &err)) call_fail(c, &err);
    else reply_receipt(c, &receipt);
}

/* ---- acting on many ----------------------------------------------------------------------------------------------------------- */

typedef pawl_status (*one_fn)(call *c, pawl_id id, const char *note, pawl_receipt *receipt, pawl_error *err);
typedef pawl_status (*all_fn)(call *c, const pawl_filter *filter, const char *note, int64_t *count, pawl_error *err);

static void act_on_ids(call *c, const action *act, one_fn one)
{
    reply a;
    int64_t done = 0;
    reply_begin(&a);
    jsonw_object(&a.w);
    jsonw_key(&a.w, "results");
    jsonw_array(&a.w);
    for (size_t i = 0; i < act->ids.count; i++) {
        pawl_error err;
        pawl_receipt receipt = {0};
        pawl_id id = act->ids.ids[i];
        pawl_status status = call_owner(c, id, &err);
        if (!status) status = one(c, id, act->note, &receipt, &err);
        jsonw_object(&a.w);
        json_id(&a.w, "id", id);
        json_text(&a.w, "status", pawl_status_name(status));
        if (status) json_shown(&a.w, "detail", err.message);
        if (!status && receipt.id) json_id(&a.w, "as", receipt.id);
        if (!status && receipt.id) json_text(&a.w, "outcome", pawl_dispatched_name(receipt.outcome));
        jsonw_end_object(&a.w);
        done += !status;
    }
    jsonw_end_array(&a.w);
    json_number(&a.w, "count", done);
    jsonw_end_object(&a.w);
    reply_end(c, &a, 200);
}

static void act(call *c, one_fn one, all_fn all)
{
    action act = {0};
    pawl_error err;
    int64_t count = 0;
    if (!call_query(c, no_fields, NULL) || !call_body(c, action_body, &act)) return;
    if (act.ids.given == act.filter.given) {
        call_problem(c, 422, "invalid", "say which: \"ids\" or \"filter\", one of them");
        return;
    }
    if (act.ids.given) {
        act_on_ids(c, &act, one);
        return;
    }
    if (!call_tenant(c, &act.filter.filter.tenant)) return;
    if (all(c, &act.filter.filter, act.note, &count, &err)) {
        call_fail(c, &err);
        return;
    }
    reply a;
    reply_begin(&a);
    jsonw_object(&a.w);
    json_number(&a.w, "count", count);
    jsonw_end_object(&a.w);
    reply_end(c, &a, 200);
}

static pawl_status cancel_one(call *c, pawl_id id, const char *note, pawl_receipt *receipt, pawl_error *err)
{
    (void)note, (void)receipt;
    return pawl_cancel(c->s->options.p, id, call_by(c), err);
}

static pawl_status cancel_all(call *c, const pawl_filter *filter, const char *note, int64_t *count, pawl_error *err)
{
    (void)note;
    return pawl_cancel_where(c->s->options.p, filter, call_by(c), count, err);
}

static pawl_status retry_one(call *c, pawl_id id, const char *note, pawl_receipt *receipt, pawl_error *err)
{
    (void)note;
    return pawl_retry_task(c->s->options.p, id, call_by(c), receipt, err);
}

static pawl_status retry_all(call *c, const pawl_filter *filter, const char *note, int64_t *count, pawl_error *err)
{
    (void)note;
    return pawl_dead_retry(c->s->options.p, filter, call_by(c), count, err);
}

static pawl_status ack_one(call *c, pawl_id id, const char *note, pawl_receipt *receipt, pawl_error *err)
{
    (void)receipt;
    return pawl_dead_ack(c->s->options.p, id, NULL, call_by(c), note, NULL, err);
}

static pawl_status ack_all(call *c, const pawl_filter *filter, const char *note, int64_t *count, pawl_error *err)
{
    return pawl_dead_ack(c->s->options.p, 0, filter, call_by(c), note, count, err);
}

void route_tasks_cancel(call *c) { act(c, cancel_one, cancel_all); }
void route_dead_retry(call *c) { act(c, retry_one, retry_all); }
void route_dead_ack(call *c) { act(c, ack_one, ack_all); }
