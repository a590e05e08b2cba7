/* Tasks, queues and numbers of a server: what is asked, and what is shown. */
#include "base/alloc.h"
#include "base/error.h"
#include "base/text.h"
#include "cli/remote.h"
#include <string.h>

static pawl_status no_memory(pawl_error *err) { return err_set(err, PAWL_NO_MEMORY, "%s", pawl_status_text(PAWL_NO_MEMORY)); }

/* ---- looking -------------------------------------------------------------------------------------------------------------------- */

/* A page has pointers to its tasks. */
static pawl_status read_page(remote *r, pawl_page *page, pawl_error *err)
{
    row_list rows;
    static const field more[] = {{"next", FIELD_TEXT, offsetof(pawl_page, next), 0, 0, NULL},
                                 {"partial", FIELD_BOOL, offsetof(pawl_page, partial), 0, 0, NULL},
                                 {0}};
    pawl_status status = remote_rows(r, &task_shape, r->object, &rows, err);
    if (status) return status;
    const pawl_info **list = pawl_arena_alloc(r->arena, (rows.count + 1) * sizeof *list);
    if (!list) return no_memory(err);
    for (size_t i = 0; i < rows.count; i++) list[i] = (const pawl_info *)rows.rows + i;
    *page = (pawl_page){.count = rows.count, .tasks = list};
    return fields_pick(more, r->object, r->arena, page, err);
}

static void filter_path(remote *r, const pawl_filter *f)
{
    char text[RFC3339_TEXT];
    remote_parameter(&r->path, "state", f->state);
    remote_parameter(&r->path, "type", f->type);
    remote_parameter(&r->path, "queue", f->queue);
    remote_parameter(&r->path, "tenant", f->tenant);
    remote_parameter(&r->path, "key", f->key);
    remote_parameter(&r->path, "q", f->search);
    if (f->since_us) rfc3339_format(f->since_us, text), remote_parameter(&r->path, "since", text);
    if (f->until_us) rfc3339_format(f->until_us, text), remote_parameter(&r->path, "until", text);
    remote_flag(&r->path, "oldest_first", f->oldest_first);
    remote_number(&r->path, "limit", f->limit);
    remote_parameter(&r->path, "cursor", f->cursor);
}

static pawl_status fetch_page(const cli *c, void *ctx, const pawl_filter *filter, pawl_page *page, pawl_error *err)
{
    remote *r = ctx;
    remote_end(r);
    remote_begin(r, filter->unresolved ? "/v1/dead" : "/v1/tasks");
    filter_path(r, filter);
    pawl_status status = remote_send(c, r, "GET", err);
    return status ? status : read_page(r, page, err);
}

int remote_list(cli *c, pawl_filter *filter, bool all, bool dead)
{
    remote r;
    remote_begin(&r, "");
    filter->unresolved = dead;
    int code = task_pages(c, fetch_page, &r, filter, all, dead);
    remote_end(&r);
    return code;
}

static pawl_status read_whole(remote *r, pawl_info *info, pawl_trail *trail, pawl_error *err)
{
    row_list rows = {0};
    pawl_status status = remote_row(r, &task_shape, r->object, info, err);
    if (!status && json_member(r->object, "attempts").kind == JSON_ARRAY)
        status = remote_rows(r, &attempt_shape, r->object, &rows, err);
    info->attempts = rows.rows;
    info->attempts_count = (int)rows.count;
    if (!status && trail) status = remote_rows(r, &line_shape, r->object, trail, err);
    return !status && trail ? remote_rows(r, &audit_shape, r->object, trail, err) : status;
}

int remote_show(cli *c, bool log, bool audit, bool full)
{
    remote r;
    pawl_error err;
    pawl_info info;
    pawl_trail trail = {0};
    const char *without[] = {"why", log ? "why" : "log", audit ? "why" : "audit_trail", NULL};
    int code = 0;
    remote_about(&r, "/v1/tasks/", c->args[0], log || audit ? "" : "?brief=true");
    pawl_status status = remote_send(c, &r, "GET", &err);
    if (!status && c->json) code = remote_print(c, &r, without);
    else if (!status) status = read_whole(&r, &info, log || audit ? &trail : NULL, &err);
    if (status) code = cli_fail(c, &err);
    else if (!c->json) task_text(c, &info, log ? &trail : NULL, audit ? &trail : NULL, full);
    remote_end(&r);
    return code;
}

typedef struct reason {
    const char *code, *text;
    int64_t until_us;
} reason;

pawl_status remote_why(const cli *c, const char *id, pawl_why_answer *why, pawl_error *err)
{
    remote r;
    reason told = {"", "", 0};
    static const field fields[] = {{"code", FIELD_TEXT, offsetof(reason, code), 0, 0, NULL},
                                   {"text", FIELD_TEXT, offsetof(reason, text), 0, 0, NULL},
                                   {"until", FIELD_INSTANT, offsetof(reason, until_us), 0, 0, NULL},
                                   {0}};
    remote_about(&r, "/v1/tasks/", id, "/why");
    pawl_status status = remote_send(c, &r, "GET", err);
    if (!status) status = fields_pick(fields, r.object, r.arena, &told, err);
    *why = (pawl_why_answer){.until_us = told.until_us};
    snprintf(why->code, sizeof why->code, "%s", told.code);
    snprintf(why->text, sizeof why->text, "%s", told.text);
    remote_end(&r);
    return status;
}

pawl_status remote_state(const cli *c, pawl_id id, pawl_state *state, pawl_error *err)
{
    remote r;
    char text[PAWL_ID_TEXT];
    pawl_info info = {0};
    pawl_id_format(id, text);
    remote_about(&r, "/v1/tasks/", text, "?brief=true");
    pawl_status status = remote_send(c, &r, "GET", err);
    if (!status) status = remote_row(&r, &task_shape, r.object, &info, err);
    *state = info.state;
    remote_end(&r);
    return status;
}

/* ---- acting --------------------------------------------------------------------------------------------------------------------- */

static pawl_status status_of(const char *name)
{
    for (int i = 0; name && i < PAWL_STATUS_COUNT; i++) {
        if (strcmp(name, pawl_status_name((pawl_status)i)) == 0) return (pawl_status)i;
    }
    return PAWL_INTERNAL;
}

static pawl_dispatched outcome_of(const char *name)
{
    for (int i = PAWL_CREATED; name && i <= PAWL_REPLACED; i++) {
        if (strcmp(name, pawl_dispatched_name((pawl_dispatched)i)) == 0) return (pawl_dispatched)i;
    }
    return 0;
}

/* What became of one of many. */
typedef struct result {
    pawl_id id, as;
    const char *status, *outcome, *detail;
} result;

static pawl_status read_result(remote *r, json object, result *out, pawl_error *err)
{
    static const field fields[] = {{"id", FIELD_ID, offsetof(result, id), 0, 0, NULL},
                                   {"as", FIELD_ID, offsetof(result, as), 0, 0, NULL},
                                   {"status", FIELD_TEXT, offsetof(result, status), 0, 0, NULL},
                                   {"outcome", FIELD_TEXT, offsetof(result, outcome), 0, 0, NULL},
                                   {"detail", FIELD_TEXT, offsetof(result, detail), 0, 0, NULL},
                                   {0}};
    *out = (result){0};
    return fields_pick(fields, object, r->arena, out, err);
}

static int say_result(const cli *c, remote *r, json object, const char *done, remote_done_fn say)
{
    result it;
    pawl_error err;
    pawl_status status = read_result(r, object, &it, &err);
    if (!status && (status = status_of(it.status))) err_set(&err, status, "%s", it.detail ? it.detail : pawl_status_text(status));
    if (status) return cli_fail(c, &err);
    say(c, it.id, done, &(pawl_receipt){.id = it.as, .outcome = outcome_of(it.outcome)});
    return 0;
}

static pawl_status ask_about(const cli *c, remote *r, const char *path, const pawl_id *ids, int n, const char *note,
                             pawl_error *err)
{
    char text[PAWL_ID_TEXT];
    remote_begin(r, path);
    jsonw_object(&r->w);
    jsonw_key(&r->w, "ids");
    jsonw_array(&r->w);
    for (int i = 0; i < n; i++) pawl_id_format(ids[i], text), jsonw_string(&r->w, text);
    jsonw_end_array(&r->w);
    if (note) json_text(&r->w, "note", note);
    jsonw_end_object(&r->w);
    return remote_send(c, r, "POST", err);
}

int remote_act_ids(cli *c, const char *path, const pawl_id *ids, const char *note, const char *done, remote_done_fn say)
{
    int first = 0;
    for (int at = 0, n; at < c->args_count; at += n) {
        remote r;
        pawl_error err;
        json key, value;
        n = c->args_count - at < FIELD_IDS_MAX ? c->args_count - at : FIELD_IDS_MAX;
        int code = ask_about(c, &r, path, ids + at, n, note, &err) ? cli_fail(c, &err) : 0;
        json results = {0};
        if (!code) results = json_member(r.object, "results");
        if (code && !first) first = code;
        for (size_t i = 0; json_each(results, &i, &key, &value);) {
            code = say_result(c, &r, value, done, say);
            if (code && !first) first = code;
        }
        remote_end(&r);
    }
    return first;
}

pawl_status remote_act_where(const cli *c, const char *path, const pawl_filter *f, const char *note, int64_t *count,
                             pawl_error *err)
{
    remote r;
    static const field fields[] = {{"count", FIELD_COUNT, 0, 0, 0, NULL}, {0}};
    remote_begin(&r, path);
    jsonw_object(&r.w);
    jsonw_key(&r.w, "filter");
    jsonw_object(&r.w);
    json_text(&r.w, "state", f->state);
    json_text(&r.w, "type", f->type);
    json_text(&r.w, "queue", f->queue);
    json_text(&r.w, "tenant", f->tenant);
    json_text(&r.w, "key", f->key);
    json_instant(&r.w, "since", f->since_us);
    json_instant(&r.w, "until", f->until_us);
    jsonw_end_object(&r.w);
    if (note) json_text(&r.w, "note", note);
    jsonw_end_object(&r.w);
    pawl_status status = remote_send(c, &r, "POST", err);
    if (!status) status = fields_pick(fields, r.object, r.arena, count, err);
    remote_end(&r);
    return status;
}

/* ---- handing over --------------------------------------------------------------------------------------------------------------- */

static void put_text(json_writer *w, const char *name, const char *value)
{
    if (value) json_text(w, name, value);
}

static bool is_json(const pawl_task *t) { return !t->content_type || strcmp(t->content_type, "application/json") == 0; }

static void put_kin(json_writer *w, const pawl_task *t)
{
    char id[PAWL_ID_TEXT];
    if (t->batch) json_id(w, "batch", t->batch);
    if (!t->parents_count) return;
    json_text(w, "if_failed", pawl_if_failed_name(t->if_failed));
    jsonw_key(w, "parents");
    jsonw_array(w);
    for (int i = 0; i < t->parents_count; i++) pawl_id_format(t->parents[i], id), jsonw_string(w, id);
    jsonw_end_array(w);
}

void remote_task(json_writer *w, const pawl_task *t)
{
    jsonw_object(w);
    put_text(w, "type", t->type);
    put_text(w, "content_type", t->content_type);
    put_text(w, "queue", t->queue);
    put_text(w, "key", t->key);
    put_text(w, "tenant", t->tenant);
    put_text(w, "created_by", t->created_by);
    put_text(w, "traceparent", t->traceparent);
    put_text(w, "headers", t->headers);
    if (t->priority) json_number(w, "priority", t->priority);
    if (t->delay_us) json_number(w, "delay_us", t->delay_us);
    if (t->at_us) json_instant(w, "at", t->at_us);
    if (t->max_attempts) json_number(w, "max_attempts", t->max_attempts);
    if (t->timeout_us) json_number(w, "timeout_us", t->timeout_us);
    if (t->audit) json_text(w, "audit", pawl_audit_name(t->audit));
    if (t->id) json_id(w, "id", t->id);
    if (t->rate_key.len) jsonw_key(w, "rate_key"), jsonw_bytes(w, t->rate_key);
    put_kin(w, t);
    if (t->payload.len && is_json(t)) jsonw_key(w, "payload"), jsonw_raw(w, t->payload);
    else if (t->payload.len) jsonw_key(w, "payload_base64"), jsonw_base64(w, t->payload);
    jsonw_end_object(w);
}

pawl_status remote_enqueue(const cli *c, const pawl_task *task, pawl_receipt *receipt, pawl_error *err)
{
    remote r;
    result it;
    const char *what;
    size_t where;
    if (task->payload.len && is_json(task) && !json_valid(task->payload, &where, &what))
        return err_set(err, PAWL_INVALID, "the payload is not JSON: %s at byte %zu; --content-type says what else it is", what,
                       where + 1);
    remote_begin(&r, "/v1/tasks");
    remote_task(&r.w, task);
    pawl_status status = remote_send(c, &r, "POST", err);
    if (!status) status = read_result(&r, r.object, &it, err);
    if (!status) *receipt = (pawl_receipt){.id = it.id, .outcome = outcome_of(it.outcome)};
    remote_end(&r);
    return status;
}

/* Refused ones do not fail the call; `refused` gets why the first of them was. */
pawl_status remote_bulk(const cli *c, const pawl_task *tasks, size_t n, pawl_receipt *receipts, pawl_error *refused,
                        pawl_error *err)
{
    remote r;
    json key, value;
    size_t count = 0;
    remote_begin(&r, "/v1/tasks/bulk");
    jsonw_array(&r.w);
    for (size_t i = 0; i < n; i++) remote_task(&r.w, &tasks[i]);
    jsonw_end_array(&r.w);
    pawl_status status = remote_send(c, &r, "POST", err);
    json results = {0};
    if (!status) results = json_member(r.object, "results");
    for (size_t at = 0; !status && count < n && json_each(results, &at, &key, &value); count++) {
        result it;
        status = read_result(&r, value, &it, err);
        receipts[count] =
            (pawl_receipt){.status = it.status ? status_of(it.status) : PAWL_OK, .outcome = outcome_of(it.outcome), .id = it.id};
        if (receipts[count].status && !refused->status)
            err_set(refused, receipts[count].status, "%s", it.detail ? it.detail : "");
    }
    if (!status && count < n) status = err_set(err, PAWL_UNKNOWN, "the server's answer is not for all of the tasks");
    remote_end(&r);
    return status;
}

pawl_status remote_batch(const cli *c, const char *name, pawl_id *id, pawl_error *err)
{
    remote r;
    pawl_batch_info batch = {0};
    remote_about(&r, "/v1/batches/", name, "");
    pawl_status status = remote_send(c, &r, "GET", err);
    if (!status) status = remote_row(&r, &batch_shape, r.object, &batch, err);
    if (!status) *id = batch.id;
    remote_end(&r);
    return status;
}

/* ---- queues and numbers --------------------------------------------------------------------------------------------------------- */

int remote_queues(cli *c)
{
    remote r;
    pawl_stats stats = {.now_us = cli_now_us()};
    remote_begin(&r, "/v1/queues");
    int code = remote_look(c, &r, &queue_shape, &stats);
    if (code == REMOTE_SHOW) code = queues_table(c, &stats) ? 0 : cli_no_memory(c);
    remote_end(&r);
    return code;
}

#define STATS(member) offsetof(pawl_stats, member)

/* clang-format off */
static const field stats_fields[] = {
    {"waiting", FIELD_COUNT, STATS(waiting), 0, 0, NULL}, {"pending", FIELD_COUNT, STATS(pending), 0, 0, NULL},
    {"leased", FIELD_COUNT, STATS(leased), 0, 0, NULL}, {"dead", FIELD_COUNT, STATS(dead), 0, 0, NULL},
    {"window_us", FIELD_COUNT, STATS(window_us), 0, 0, NULL}, {"now", FIELD_INSTANT, STATS(now_us), 0, 0, NULL},
    {"dispatched", FIELD_COUNT, STATS(dispatched), 0, 0, NULL}, {"succeeded", FIELD_COUNT, STATS(succeeded), 0, 0, NULL},
    {"failed", FIELD_COUNT, STATS(failed), 0, 0, NULL}, {"cancelled", FIELD_COUNT, STATS(cancelled), 0, 0, NULL},
    {"retried", FIELD_COUNT, STATS(retried), 0, 0, NULL}, {"rescued", FIELD_COUNT, STATS(rescued), 0, 0, NULL},
    {"wait_p50_us", FIELD_COUNT, STATS(wait_p50_us), 0, 0, NULL}, {"wait_p99_us", FIELD_COUNT, STATS(wait_p99_us), 0, 0, NULL},
    {"run_p50_us", FIELD_COUNT, STATS(run_p50_us), 0, 0, NULL}, {"run_p99_us", FIELD_COUNT, STATS(run_p99_us), 0, 0, NULL},
    {"closed", FIELD_TEXT, STATS(closed), 0, 0, NULL}, {0},
};
/* clang-format on */

static pawl_status view_part(const cli *c, remote *r, const char *path, pawl_error *err)
{
    buf_clear(&r->path);
    buf_str(&r->path, path);
    return remote_send(c, r, "GET", err);
}

pawl_status remote_view(const cli *c, top_view *v, pawl_error *err)
{
    remote r;
    pawl_nodes nodes = {0};
    remote_begin(&r, "/v1/queues");
    pawl_status status = remote_send(c, &r, "GET", err);
    if (!status) status = remote_rows(&r, &queue_shape, r.object, &v->stats, err);
    if (!status) status = view_part(c, &r, "/v1/stats?window=1m", err);
    if (!status) status = fields_pick(stats_fields, r.object, r.arena, &v->stats, err);
    if (!status) status = view_part(c, &r, "/v1/nodes", err);
    if (!status) status = remote_rows(&r, &node_shape, r.object, &nodes, err);
    v->nodes = (int)nodes.count;
    if (!status) status = view_part(c, &r, "/v1/tasks?state=leased&oldest_first=true&limit=50", err);
    if (!status) status = read_page(&r, &v->running, err);
    v->arena = r.arena;
    r.arena = NULL;
    remote_end(&r);
    return status;
}

int remote_stats(cli *c, int64_t window_us, int (*show)(const cli *c, const pawl_stats *stats))
{
    remote r;
    pawl_error err;
    pawl_stats stats = {0};
    int code;
    remote_begin(&r, "/v1/stats");
    if (window_us) buf_fmt(&r.path, "?window=%llds", (long long)(window_us / PAWL_SECOND));
    pawl_status status = remote_send(c, &r, "GET", &err);
    if (!status) status = fields_pick(stats_fields, r.object, r.arena, &stats, &err);
    if (status) code = cli_fail(c, &err);
    else code = c->json ? remote_print(c, &r, NULL) : show(c, &stats);
    remote_end(&r);
    return code;
}
