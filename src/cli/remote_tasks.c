/* Commands on a server: what is asked, and the answers read back into the structs of pawl.h. */
#include "base/alloc.h"
#include "base/error.h"
#include "base/text.h"
#include "cli/remote.h"
#include "server/fields.h"
#include <string.h>

#define TEXT_MAX (128u << 20)

#define INFO(member) offsetof(pawl_info, member)
#define ATTEMPT(member) offsetof(pawl_attempt, member)
#define QUEUE(member) offsetof(pawl_queue_info, member)

/* clang-format off */
static const field info_fields[] = {
    {"id", FIELD_ID, INFO(id), 0, 0, NULL}, {"type", FIELD_TEXT, INFO(type), 0, 0, NULL}, {"queue", FIELD_TEXT, INFO(queue), 0, 0, NULL},
    {"tenant", FIELD_TEXT, INFO(tenant), 0, 0, NULL}, {"key", FIELD_TEXT, INFO(key), 0, 0, NULL}, {"display", FIELD_TEXT, INFO(display), 0, 0, NULL},
    {"priority", FIELD_INT, INFO(priority), -32768, 32767, NULL}, {"created_at", FIELD_INSTANT, INFO(created_us), 0, 0, NULL},
    {"run_at", FIELD_INSTANT, INFO(run_at_us), 0, 0, NULL}, {"started_at", FIELD_INSTANT, INFO(started_us), 0, 0, NULL},
    {"finished_at", FIELD_INSTANT, INFO(finished_us), 0, 0, NULL}, {"attempt", FIELD_INT, INFO(attempt), 0, 0, NULL},
    {"max_attempts", FIELD_INT, INFO(max_attempts), 0, 0, NULL}, {"timeout_us", FIELD_MICROS, INFO(timeout_us), -1, 0, NULL},
    {"failures", FIELD_INT, INFO(failures), 0, 0, NULL}, {"rescues", FIELD_INT, INFO(rescues), 0, 0, NULL},
    {"interruptions", FIELD_INT, INFO(interruptions), 0, 0, NULL}, {"fence", FIELD_MICROS, INFO(fence), 0, 0, NULL},
    {"node", FIELD_MICROS, INFO(node), 0, 0, NULL}, {"node_name", FIELD_TEXT, INFO(node_name), 0, 0, NULL},
    {"cancel_asked", FIELD_BOOL, INFO(cancel_asked), 0, 0, NULL}, {"progress", FIELD_INT, INFO(progress), 0, 100, NULL},
    {"progress_text", FIELD_TEXT, INFO(progress_text), 0, 0, NULL}, {"code", FIELD_TEXT, INFO(code), 0, 0, NULL},
    {"error", FIELD_TEXT, INFO(error), 0, 0, NULL}, {"reason", FIELD_TEXT, INFO(reason), 0, 0, NULL}, {"retry_of", FIELD_ID, INFO(retry_of), 0, 0, NULL},
    {"retried_as", FIELD_ID, INFO(retried_as), 0, 0, NULL}, {"resolved_at", FIELD_INSTANT, INFO(resolved_us), 0, 0, NULL},
    {"resolved_by", FIELD_TEXT, INFO(resolved_by), 0, 0, NULL}, {"note", FIELD_TEXT, INFO(note), 0, 0, NULL},
    {"created_by", FIELD_TEXT, INFO(created_by), 0, 0, NULL}, {"traceparent", FIELD_TEXT, INFO(traceparent), 0, 0, NULL},
    {"headers", FIELD_TEXT, INFO(headers), 0, 0, NULL}, {"rate_key", FIELD_BYTES, INFO(rate_key), 0, 0, NULL},
    {"rate_key_base64", FIELD_BASE64, INFO(rate_key), 0, 0, NULL}, {"content_type", FIELD_TEXT, INFO(content_type), 0, 0, NULL},
    {"payload", FIELD_PAYLOAD, INFO(payload), 0, 0, NULL}, {"payload_base64", FIELD_BASE64, INFO(payload), 0, 0, NULL},
    {"result_type", FIELD_TEXT, INFO(result_type), 0, 0, NULL}, {"result", FIELD_PAYLOAD, INFO(result), 0, 0, NULL},
    {"result_base64", FIELD_BASE64, INFO(result), 0, 0, NULL}, {"result_ref", FIELD_TEXT, INFO(result_ref), 0, 0, NULL}, {0},
};
static const field attempt_fields[] = {
    {"number", FIELD_INT, ATTEMPT(number), 0, 0, NULL}, {"outcome", FIELD_TEXT, ATTEMPT(outcome), 0, 0, NULL},
    {"started_at", FIELD_INSTANT, ATTEMPT(started_us), 0, 0, NULL}, {"finished_at", FIELD_INSTANT, ATTEMPT(finished_us), 0, 0, NULL},
    {"fence", FIELD_MICROS, ATTEMPT(fence), 0, 0, NULL}, {"node", FIELD_MICROS, ATTEMPT(node), 0, 0, NULL},
    {"node_name", FIELD_TEXT, ATTEMPT(node_name), 0, 0, NULL}, {"code", FIELD_TEXT, ATTEMPT(code), 0, 0, NULL},
    {"error", FIELD_TEXT, ATTEMPT(error), 0, 0, NULL}, {"log_lines", FIELD_INT, ATTEMPT(log_lines), 0, 0, NULL}, {0},
};
static const field queue_fields[] = {
    {"name", FIELD_TEXT, QUEUE(name), 0, 0, NULL}, {"paused", FIELD_BOOL, QUEUE(paused), 0, 0, NULL}, {"served", FIELD_BOOL, QUEUE(served), 0, 0, NULL},
    {"waiting", FIELD_MICROS, QUEUE(waiting), 0, 0, NULL}, {"pending", FIELD_MICROS, QUEUE(pending), 0, 0, NULL},
    {"leased", FIELD_MICROS, QUEUE(leased), 0, 0, NULL}, {"failed", FIELD_MICROS, QUEUE(failed), 0, 0, NULL}, {"due", FIELD_MICROS, QUEUE(due), 0, 0, NULL},
    {"oldest_due_at", FIELD_INSTANT, QUEUE(oldest_due_us), 0, 0, NULL}, {0},
};
/* clang-format on */

/* ---- one question --------------------------------------------------------------------------------------------------------------- */

typedef struct remote {
    buf path, body, answer;
    pawl_arena *arena;
    json object;
} remote;

static bool begin(remote *r, const char *path)
{
    *r = (remote){.arena = arena_new(alloc_default(), TEXT_MAX)};
    buf_init(&r->path, alloc_default(), 64 << 10);
    buf_init(&r->body, alloc_default(), TEXT_MAX);
    buf_init(&r->answer, alloc_default(), TEXT_MAX);
    buf_str(&r->path, path);
    return r->arena != NULL;
}

static void end(remote *r)
{
    buf_done(&r->path);
    buf_done(&r->body);
    buf_done(&r->answer);
    arena_free(r->arena);
}

static pawl_status ask(const cli *c, remote *r, const char *method, pawl_error *err)
{
    buf_clear(&r->answer);
    if (!r->arena || r->path.failed || r->body.failed)
        return err_set(err, PAWL_NO_MEMORY, "%s", pawl_status_text(PAWL_NO_MEMORY));
    pawl_status status = remote_call(c, method, buf_text(&r->path), r->body.len ? buf_text(&r->body) : NULL, &r->answer, err);
    pawl_bytes text = {buf_text(&r->answer), r->answer.len};
    if (status) return status;
    if (!json_valid(text, NULL, NULL))
        return err_set(err, PAWL_INTERNAL, "%s did not answer in JSON: is it pawl serve?", c->server);
    r->object = json_parse(text);
    return PAWL_OK;
}

/* The answer as it came, for programs. */
static int print_answer(const remote *r)
{
    fwrite(r->answer.data, 1, r->answer.len, stdout);
    return 0;
}

static size_t count_of(json array)
{
    json key, value;
    size_t count = 0;
    for (size_t at = 0; json_each(array, &at, &key, &value);) count++;
    return count;
}

/* ---- tasks ---------------------------------------------------------------------------------------------------------------------- */

static pawl_status read_info(remote *r, json object, pawl_info *info, pawl_error *err)
{
    const char *state = NULL;
    static const field state_field[] = {{"state", FIELD_TEXT, 0, 0, 0, NULL}, {0}};
    info->progress = -1;
    pawl_status status = fields_pick(info_fields, object, r->arena, info, err);
    if (!status) status = fields_pick(state_field, object, r->arena, &state, err);
    if (!status && (!state || !info->type || !info->queue || !info->display || !pawl_state_parse(state, &info->state)))
        return err_set(err, PAWL_INTERNAL, "the server's answer is not a task: is it of another version?");
    return status;
}

static pawl_status read_attempts(remote *r, json array, pawl_info *info, pawl_error *err)
{
    json key, value;
    pawl_attempt *list = pawl_arena_alloc(r->arena, (count_of(array) + 1) * sizeof *list);
    pawl_status status = list ? PAWL_OK : err_set(err, PAWL_NO_MEMORY, "%s", pawl_status_text(PAWL_NO_MEMORY));
    for (size_t at = 0; !status && json_each(array, &at, &key, &value); info->attempts_count++) {
        list[info->attempts_count] = (pawl_attempt){.outcome = "", .node_name = ""};
        status = fields_pick(attempt_fields, value, r->arena, &list[info->attempts_count], err);
    }
    info->attempts = list;
    return status;
}

static pawl_status read_page(remote *r, pawl_page *page, pawl_error *err)
{
    json key, value, array = json_member(r->object, "tasks");
    size_t count = count_of(array), n = 0;
    pawl_info *infos = pawl_arena_alloc(r->arena, (count + 1) * sizeof *infos);
    const pawl_info **list = pawl_arena_alloc(r->arena, (count + 1) * sizeof *list);
    static const field more[] = {{"next", FIELD_TEXT, offsetof(pawl_page, next), 0, 0, NULL},
                                 {"partial", FIELD_BOOL, offsetof(pawl_page, partial), 0, 0, NULL},
                                 {0}};
    if (!infos || !list) return err_set(err, PAWL_NO_MEMORY, "%s", pawl_status_text(PAWL_NO_MEMORY));
    for (size_t at = 0; json_each(array, &at, &key, &value); n++) {
        infos[n] = (pawl_info){0};
        list[n] = &infos[n];
        if (read_info(r, value, &infos[n], err)) return err->status;
    }
    *page = (pawl_page){.count = count, .tasks = list};
    return fields_pick(more, r->object, r->arena, page, err);
}

static void filter_path(remote *r, const pawl_filter *f)
{
    char text[RFC3339_TEXT], limit[16];
    remote_parameter(&r->path, "state", f->state);
    remote_parameter(&r->path, "type", f->type);
    remote_parameter(&r->path, "queue", f->queue);
    remote_parameter(&r->path, "tenant", f->tenant);
    remote_parameter(&r->path, "key", f->key);
    remote_parameter(&r->path, "q", f->search);
    if (f->since_us) rfc3339_format(f->since_us, text), remote_parameter(&r->path, "since", text);
    if (f->until_us) rfc3339_format(f->until_us, text), remote_parameter(&r->path, "until", text);
    if (f->oldest_first) remote_parameter(&r->path, "oldest_first", "true");
    snprintf(limit, sizeof limit, "%d", f->limit);
    if (f->limit) remote_parameter(&r->path, "limit", limit);
    remote_parameter(&r->path, "cursor", f->cursor);
}

static pawl_status fetch_page(const cli *c, void *ctx, const pawl_filter *filter, pawl_page *page, pawl_error *err)
{
    remote *r = ctx;
    end(r);
    if (!begin(r, filter->unresolved ? "/v1/dead" : "/v1/tasks"))
        return err_set(err, PAWL_NO_MEMORY, "%s", pawl_status_text(PAWL_NO_MEMORY));
    filter_path(r, filter);
    pawl_status status = ask(c, r, "GET", err);
    return status ? status : read_page(r, page, err);
}

int remote_list(cli *c, pawl_filter *filter, bool all, bool dead)
{
    remote r = {0};
    filter->unresolved = dead;
    int code = task_pages(c, fetch_page, &r, filter, all, dead);
    end(&r);
    return code;
}

/* "/v1/tasks/ID" and what stands behind it, for one argument. */
static bool task_path(remote *r, const char *id, const char *behind)
{
    bool ok = begin(r, "/v1/tasks/");
    remote_escape(&r->path, id);
    buf_str(&r->path, behind);
    return ok;
}

int remote_show(cli *c, bool log, bool audit, bool full)
{
    remote r;
    pawl_error err;
    pawl_info info = {0};
    int code = 0;
    task_path(&r, c->args[0], "");
    pawl_status status = ask(c, &r, "GET", &err);
    if (!status && c->json) code = print_answer(&r);
    else if (!status && !(status = read_info(&r, r.object, &info, &err)) &&
             !(status = read_attempts(&r, json_member(r.object, "attempts"), &info, &err)))
        task_text(c, &info, NULL, NULL, full);
    if (!status && !c->json && (log || audit)) printf("\n--log and --audit of a server: with --json\n");
    if (status) code = cli_fail(c, &err);
    end(&r);
    return code;
}

int remote_why(cli *c)
{
    remote r;
    pawl_error err;
    const char *text = NULL;
    static const field fields[] = {{"text", FIELD_TEXT, 0, 0, 0, NULL}, {0}};
    int code = 0;
    task_path(&r, c->args[0], "/why");
    pawl_status status = ask(c, &r, "GET", &err);
    if (!status && !c->json) status = fields_pick(fields, r.object, r.arena, &text, &err);
    if (status) code = cli_fail(c, &err);
    else if (c->json) code = print_answer(&r);
    else {
        buf safe;
        buf_init(&safe, alloc_default(), 8 << 10);
        term_safe(&safe, pawl_str(text), false);
        printf("%s\n", buf_text(&safe));
        buf_done(&safe);
    }
    end(&r);
    return code;
}

/* One request for each argument; goes on after a failure and returns the first one's code. */
static int send_each(cli *c, const char *method, const char *before, const char *action, const char *done)
{
    int first = 0;
    for (int i = 0; i < c->args_count; i++) {
        remote r;
        pawl_error err;
        const char *id = NULL;
        static const field fields[] = {{"id", FIELD_TEXT, 0, 0, 0, NULL}, {0}};
        begin(&r, before);
        remote_escape(&r.path, c->args[i]);
        buf_str(&r.path, action);
        pawl_status status = ask(c, &r, method, &err);
        if (!status) status = fields_pick(fields, r.object, r.arena, &id, &err);
        int code = status ? cli_fail(c, &err) : 0;
        if (!status && c->json) print_answer(&r);
        else if (!status) printf("%s  %s%s%s\n", c->args[i], done, id ? " as " : "", id ? id : "");
        if (!first) first = code;
        end(&r);
    }
    return first;
}

static int post_each(cli *c, const char *before, const char *action, const char *done)
{
    char path[32];
    snprintf(path, sizeof path, "/%s", action);
    return send_each(c, "POST", before, path, done);
}

int remote_act(cli *c, const char *action, const char *done) { return post_each(c, "/v1/tasks/", action, done); }
int remote_batch(cli *c, const char *action, const char *done) { return post_each(c, "/v1/batches/", action, done); }

int remote_schedule(cli *c, const char *action, const char *done)
{
    return action ? post_each(c, "/v1/schedules/", action, done) : send_each(c, "DELETE", "/v1/schedules/", "", done);
}

/* ---- handing over --------------------------------------------------------------------------------------------------------------- */

static void put_text(json_writer *w, const char *name, const char *value)
{
    if (value) json_text(w, name, value);
}

static void write_task(buf *out, const pawl_task *t)
{
    json_writer w;
    char at[RFC3339_TEXT];
    bool is_json = !t->content_type || strcmp(t->content_type, "application/json") == 0;
    jsonw_init(&w, out, false);
    jsonw_object(&w);
    put_text(&w, "type", t->type);
    put_text(&w, "content_type", t->content_type);
    put_text(&w, "queue", t->queue);
    put_text(&w, "key", t->key);
    put_text(&w, "tenant", t->tenant);
    put_text(&w, "created_by", t->created_by);
    put_text(&w, "traceparent", t->traceparent);
    put_text(&w, "headers", t->headers);
    if (t->priority) json_number(&w, "priority", t->priority);
    if (t->delay_us) json_number(&w, "delay_us", t->delay_us);
    if (t->at_us) rfc3339_format(t->at_us, at), json_text(&w, "at", at);
    if (t->max_attempts) json_number(&w, "max_attempts", t->max_attempts);
    if (t->timeout_us) json_number(&w, "timeout_us", t->timeout_us);
    if (t->audit) json_text(&w, "audit", pawl_audit_name(t->audit));
    if (t->id) json_id(&w, "id", t->id);
    if (t->rate_key.len) jsonw_key(&w, "rate_key"), jsonw_bytes(&w, t->rate_key);
    if (t->payload.len && is_json) jsonw_key(&w, "payload"), jsonw_raw(&w, t->payload);
    else if (t->payload.len) jsonw_key(&w, "payload_base64"), jsonw_base64(&w, t->payload);
    jsonw_end_object(&w);
}

int remote_enqueue(cli *c, const pawl_task *task)
{
    remote r;
    pawl_error err;
    const char *id = NULL, *what;
    size_t where;
    int code = 0;
    static const field fields[] = {{"id", FIELD_TEXT, 0, 0, 0, NULL}, {0}};
    bool is_json = !task->content_type || strcmp(task->content_type, "application/json") == 0;
    if (task->payload.len && is_json && !json_valid(task->payload, &where, &what)) {
        err_set(&err, PAWL_INVALID, "the payload is not JSON: %s at byte %zu; --content-type says what else it is", what,
                where + 1);
        return cli_fail(c, &err);
    }
    begin(&r, "/v1/tasks");
    write_task(&r.body, task);
    pawl_status status = ask(c, &r, "POST", &err);
    if (!status) status = fields_pick(fields, r.object, r.arena, &id, &err);
    if (status) code = cli_fail(c, &err);
    else if (c->json) code = print_answer(&r);
    else printf("%s\n", id ? id : "");
    end(&r);
    return code;
}

/* ---- queues --------------------------------------------------------------------------------------------------------------------- */

static pawl_status ask_queues(const cli *c, remote *r, pawl_stats *stats, pawl_error *err)
{
    json key, value;
    pawl_status status = ask(c, r, "GET", err);
    if (status) return status;
    json array = json_member(r->object, "queues");
    pawl_queue_info *list = pawl_arena_alloc(r->arena, (count_of(array) + 1) * sizeof *list);
    if (!list) return err_set(err, PAWL_NO_MEMORY, "%s", pawl_status_text(PAWL_NO_MEMORY));
    stats->queues = list;
    for (size_t at = 0; !status && json_each(array, &at, &key, &value); stats->queues_count++) {
        list[stats->queues_count] = (pawl_queue_info){.name = ""};
        status = fields_pick(queue_fields, value, r->arena, &list[stats->queues_count], err);
    }
    return status;
}

int remote_queues(cli *c)
{
    remote r;
    pawl_error err;
    int code = 0;
    pawl_stats stats = {.now_us = cli_now_us()};
    begin(&r, "/v1/queues");
    if (ask_queues(c, &r, &stats, &err)) code = cli_fail(c, &err);
    else if (c->json) code = print_answer(&r);
    else if (!queues_table(c, &stats)) code = cli_no_memory(c);
    end(&r);
    return code;
}

int remote_switch(cli *c, const char *action, const char *done) { return post_each(c, "/v1/queues/", action, done); }

/* ---- all at once ---------------------------------------------------------------------------------------------------------------- */

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
    return ask(c, r, "GET", err);
}

pawl_status remote_view(const cli *c, top_view *v, pawl_error *err)
{
    remote r;
    begin(&r, "/v1/queues");
    pawl_status status = ask_queues(c, &r, &v->stats, err);
    if (!status) status = view_part(c, &r, "/v1/stats?window=1m", err);
    if (!status) status = fields_pick(stats_fields, r.object, r.arena, &v->stats, err);
    if (!status) status = view_part(c, &r, "/v1/nodes", err);
    if (!status) v->nodes = (int)count_of(json_member(r.object, "nodes"));
    if (!status) status = view_part(c, &r, "/v1/tasks?state=leased&oldest_first=true&limit=50", err);
    if (!status) status = read_page(&r, &v->running, err);
    v->arena = r.arena;
    r.arena = NULL;
    end(&r);
    return status;
}

int remote_stats(cli *c, int64_t window_us, int (*show)(const cli *c, const pawl_stats *stats))
{
    remote r;
    pawl_error err;
    pawl_stats stats = {0};
    int code;
    begin(&r, "/v1/stats");
    if (window_us) buf_fmt(&r.path, "?window=%llds", (long long)(window_us / PAWL_SECOND));
    pawl_status status = ask(c, &r, "GET", &err);
    if (!status) status = fields_pick(stats_fields, r.object, r.arena, &stats, &err);
    if (status) code = cli_fail(c, &err);
    else code = c->json ? print_answer(&r) : show(c, &stats);
    end(&r);
    return code;
}
