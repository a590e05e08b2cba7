/* One question to a server, and its answer read back into the structs of pawl.h: a table for each kind of row. What a table does not
 * name is left alone, so that a server of a later version can be asked, too. */
#include "base/alloc.h"
#include "base/error.h"
#include "base/text.h"
#include "cli/remote.h"
#include <string.h>

#define TEXT_MAX (128u << 20)

static pawl_status no_memory(pawl_error *err) { return err_set(err, PAWL_NO_MEMORY, "%s", pawl_status_text(PAWL_NO_MEMORY)); }

/* ---- asking --------------------------------------------------------------------------------------------------------------------- */

void remote_begin(remote *r, const char *path)
{
    *r = (remote){.arena = arena_new(alloc_default(), TEXT_MAX)};
    buf_init(&r->path, alloc_default(), 64 << 10);
    buf_init(&r->body, alloc_default(), TEXT_MAX);
    buf_init(&r->answer, alloc_default(), TEXT_MAX);
    jsonw_init(&r->w, &r->body, false);
    buf_str(&r->path, path);
}

void remote_about(remote *r, const char *before, const char *name, const char *behind)
{
    remote_begin(r, before);
    remote_escape(&r->path, name);
    buf_str(&r->path, behind);
}

void remote_end(remote *r)
{
    buf_done(&r->path);
    buf_done(&r->body);
    buf_done(&r->answer);
    arena_free(r->arena);
}

pawl_status remote_send(const cli *c, remote *r, const char *method, pawl_error *err)
{
    buf_clear(&r->answer);
    if (!r->arena || r->path.failed || r->body.failed) return no_memory(err);
    pawl_status status = remote_call(c, method, buf_text(&r->path), r->body.len ? buf_text(&r->body) : NULL, &r->answer, err);
    pawl_bytes text = {buf_text(&r->answer), r->answer.len};
    if (status) return status;
    if (!json_valid(text, NULL, NULL))
        return err_set(err, PAWL_INTERNAL, "%s did not answer in JSON: is it pawl serve?", c->server);
    r->object = json_parse(text);
    return PAWL_OK;
}

pawl_status remote_do(const cli *c, const char *method, const char *before, const char *name, const char *behind, pawl_error *err)
{
    remote r;
    remote_about(&r, before, name, behind);
    pawl_status status = remote_send(c, &r, method, err);
    remote_end(&r);
    return status;
}

/* ---- printing ------------------------------------------------------------------------------------------------------------------- */

void remote_value(json_writer *w, json value)
{
    json key, item;
    if (!w->pretty || value.kind < JSON_ARRAY) {
        jsonw_raw(w, value.raw);
    } else if (value.kind == JSON_OBJECT) {
        jsonw_object(w);
        remote_members(w, value, NULL);
        jsonw_end_object(w);
    } else {
        jsonw_array(w);
        for (size_t at = 0; json_each(value, &at, &key, &item);) remote_value(w, item);
        jsonw_end_array(w);
    }
}

static bool named(const char *const *names, const char *name)
{
    while (names && *names && strcmp(*names, name) != 0) names++;
    return names && *names;
}

void remote_members(json_writer *w, json object, const char *const *without)
{
    json key, value;
    buf name;
    buf_init(&name, alloc_default(), TEXT_MAX);
    for (size_t at = 0; json_each(object, &at, &key, &value);) {
        buf_clear(&name);
        if (!json_string(key, &name) || named(without, buf_text(&name))) continue;
        jsonw_key(w, buf_text(&name));
        remote_value(w, value);
    }
    buf_done(&name);
}

int remote_print(const cli *c, const remote *r, const char *const *without)
{
    answer a;
    cli_json_begin(c, &a);
    jsonw_object(&a.w);
    remote_members(&a.w, r->object, without);
    jsonw_end_object(&a.w);
    return cli_json_end(c, &a);
}

/* ---- reading -------------------------------------------------------------------------------------------------------------------- */

pawl_status remote_row(remote *r, const shape *s, json object, void *row, pawl_error *err)
{
    memset(row, 0, s->size);
    pawl_status status = fields_pick(s->fields, object, r->arena, row, err);
    if (!status && s->rest) status = s->rest(r, object, row, err);
    return status;
}

pawl_status remote_rows(remote *r, const shape *s, json object, void *list, pawl_error *err)
{
    json key, value, array = json_member(object, s->member);
    size_t count = 0;
    pawl_status status = PAWL_OK;
    if (array.kind == JSON_NONE)
        return err_set(err, PAWL_INTERNAL, "the server's answer has no \"%s\": is it of another version?", s->member);
    for (size_t at = 0; json_each(array, &at, &key, &value);) count++;
    char *rows = pawl_arena_alloc(r->arena, (count + 1) * s->size);
    if (!rows) return no_memory(err);
    *(const void **)(void *)((char *)list + s->rows) = rows;
    *(size_t *)(void *)((char *)list + s->count) = count;
    for (size_t at = 0; !status && json_each(array, &at, &key, &value); rows += s->size)
        status = remote_row(r, s, value, rows, err);
    return status || !s->more ? status : fields_pick(s->more, object, r->arena, list, err);
}

static int look(const cli *c, remote *r, const shape *s, void *to,
                pawl_status (*read)(remote *, const shape *, json, void *, pawl_error *))
{
    pawl_error err;
    if (remote_send(c, r, "GET", &err)) return cli_fail(c, &err);
    if (c->json) return remote_print(c, r, NULL);
    return read(r, s, r->object, to, &err) ? cli_fail(c, &err) : REMOTE_SHOW;
}

int remote_look(const cli *c, remote *r, const shape *s, void *list) { return look(c, r, s, list, remote_rows); }
int remote_look_one(const cli *c, remote *r, const shape *s, void *row) { return look(c, r, s, row, remote_row); }

/* ---- words ---------------------------------------------------------------------------------------------------------------------- */

static const char *off_word(int i) { return pawl_off_name((pawl_off)i); }
static const char *level_word(int i) { return pawl_level_name((pawl_level)i); }
static const char *occurrence_word(int i) { return pawl_occurrence_name((pawl_occurrence_state)i); }
static const char *state_word(int i) { return pawl_state_name((pawl_state)i); }
static const char *audit_word(int i) { return pawl_audit_name((pawl_audit)i); }
static const char *batch_state_word(int i) { return batch_word((pawl_state)i); }

/* Which of the words from..to-1 a member is; `from` - 1: none. */
static int word_of(json object, const char *member, const char *(*word)(int), int from, int to)
{
    buf text;
    buf_init(&text, alloc_default(), 4096);
    int i = json_string(json_member(object, member), &text) ? from : to;
    while (i < to && strcmp(word(i), buf_text(&text)) != 0) i++;
    buf_done(&text);
    return i < to ? i : from - 1;
}

/* ---- rows ----------------------------------------------------------------------------------------------------------------------- */

#define INFO(member) offsetof(pawl_info, member)
#define ATTEMPT(member) offsetof(pawl_attempt, member)
#define LINE(member) offsetof(pawl_log_line, member)
#define AUDIT(member) offsetof(pawl_audit_row, member)
#define QUEUE(member) offsetof(pawl_queue_info, member)
#define NODE(member) offsetof(pawl_node_info, member)
#define ACT(member) offsetof(pawl_act, member)
#define RATED(member) offsetof(pawl_limit_info, member)
#define PLACE(member) offsetof(pawl_place_info, member)
#define SCHEDULE(member) offsetof(pawl_schedule_info, member)
#define OCCURRENCE(member) offsetof(pawl_occurrence, member)
#define BATCH(member) offsetof(pawl_batch_info, member)
#define NEXT(list)                                                    \
    (const field[])                                                   \
    {                                                                 \
        {"next", FIELD_TEXT, offsetof(list, next), 0, 0, NULL}, { 0 } \
    }

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
    {"created_by", FIELD_TEXT, INFO(created_by), 0, 0, NULL}, {"schedule", FIELD_TEXT, INFO(schedule), 0, 0, NULL},
    {"traceparent", FIELD_TEXT, INFO(traceparent), 0, 0, NULL},
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
static const field line_fields[] = {
    {"attempt", FIELD_INT, LINE(attempt), 0, 0, NULL}, {"sequence", FIELD_INT, LINE(sequence), 0, 0, NULL},
    {"at", FIELD_INSTANT, LINE(at_us), 0, 0, NULL}, {"text", FIELD_TEXT, LINE(text), 0, 0, NULL}, {0},
};
static const field audit_fields[] = {
    {"at", FIELD_INSTANT, AUDIT(at_us), 0, 0, NULL}, {"from", FIELD_TEXT, AUDIT(from), 0, 0, NULL}, {"to", FIELD_TEXT, AUDIT(to), 0, 0, NULL},
    {"fence", FIELD_MICROS, AUDIT(fence), 0, 0, NULL}, {"node_name", FIELD_TEXT, AUDIT(node_name), 0, 0, NULL},
    {"detail", FIELD_TEXT, AUDIT(detail), 0, 0, NULL}, {0},
};
static const field queue_fields[] = {
    {"name", FIELD_TEXT, QUEUE(name), 0, 0, NULL}, {"paused", FIELD_BOOL, QUEUE(paused), 0, 0, NULL}, {"served", FIELD_BOOL, QUEUE(served), 0, 0, NULL},
    {"waiting", FIELD_MICROS, QUEUE(waiting), 0, 0, NULL}, {"pending", FIELD_MICROS, QUEUE(pending), 0, 0, NULL},
    {"leased", FIELD_MICROS, QUEUE(leased), 0, 0, NULL}, {"failed", FIELD_MICROS, QUEUE(failed), 0, 0, NULL}, {"due", FIELD_MICROS, QUEUE(due), 0, 0, NULL},
    {"due_more", FIELD_BOOL, QUEUE(due_more), 0, 0, NULL}, {"throttled", FIELD_MICROS, QUEUE(throttled), 0, 0, NULL},
    {"oldest_due_at", FIELD_INSTANT, QUEUE(oldest_due_us), 0, 0, NULL}, {0},
};
static const field node_fields[] = {
    {"id", FIELD_COUNT, NODE(id), 0, 0, NULL}, {"name", FIELD_TEXT, NODE(name), 0, 0, NULL}, {"pid", FIELD_COUNT, NODE(pid), 0, 0, NULL},
    {"alive", FIELD_BOOL, NODE(alive), 0, 0, NULL}, {"born_at", FIELD_INSTANT, NODE(born_us), 0, 0, NULL},
    {"expires_at", FIELD_INSTANT, NODE(expires_us), 0, 0, NULL}, {"leases", FIELD_COUNT, NODE(leases), 0, 0, NULL},
    {"queues", FIELD_TEXT, NODE(queues), 0, 0, NULL}, {0},
};
static const field act_fields[] = {
    {"at", FIELD_INSTANT, ACT(at_us), 0, 0, NULL}, {"who", FIELD_TEXT, ACT(who), 0, 0, NULL}, {"action", FIELD_TEXT, ACT(action), 0, 0, NULL},
    {"detail", FIELD_TEXT, ACT(detail), 0, 0, NULL}, {"id", FIELD_ID, ACT(id), 0, 0, NULL}, {0},
};
static const field limit_fields[] = {
    {"type", FIELD_TEXT, RATED(type), 0, 0, NULL}, {"key", FIELD_BYTES, RATED(key), 0, 0, NULL}, {"key_base64", FIELD_BASE64, RATED(key), 0, 0, NULL},
    {"own", FIELD_BOOL, RATED(own), 0, 0, NULL}, {"paused", FIELD_BOOL, RATED(paused), 0, 0, NULL}, {"permits", FIELD_INT, RATED(rate.permits), 0, 0, NULL},
    {"period_us", FIELD_COUNT, RATED(rate.period_us), 0, 0, NULL}, {"left", FIELD_INT, RATED(left), 0, 0, NULL},
    {"next_slot_at", FIELD_INSTANT, RATED(next_slot_us), 0, 0, NULL}, {"waiting", FIELD_COUNT, RATED(waiting), 0, 0, NULL},
    {"parked", FIELD_COUNT, RATED(parked), 0, 0, NULL}, {"running", FIELD_COUNT, RATED(running), 0, 0, NULL},
    {"parked_slot_at", FIELD_INSTANT, RATED(parked_slot_us), 0, 0, NULL}, {"node", FIELD_TEXT, RATED(node), 0, 0, NULL}, {0},
};
static const field place_fields[] = {
    {"scope", FIELD_SCOPE, PLACE(scope), 0, 0, NULL}, {"name", FIELD_TEXT, PLACE(name), 0, 0, NULL}, {"key", FIELD_BYTES, PLACE(key), 0, 0, NULL},
    {"key_base64", FIELD_BASE64, PLACE(key), 0, 0, NULL}, {"own", FIELD_BOOL, PLACE(own), 0, 0, NULL}, {"most", FIELD_INT, PLACE(most), 0, 0, NULL},
    {"weight", FIELD_INT, PLACE(most), 0, 0, NULL}, {"ordered", FIELD_BOOL, PLACE(ordered), 0, 0, NULL}, {"running", FIELD_COUNT, PLACE(taken), 0, 0, NULL},
    {"blocked", FIELD_COUNT, PLACE(blocked), 0, 0, NULL}, {"holder", FIELD_ID, PLACE(holder), 0, 0, NULL}, {0},
};
static const field info_of_schedule[] = {
    {"name", FIELD_TEXT, SCHEDULE(definition.name), 0, 0, NULL}, {"stored", FIELD_TEXT, SCHEDULE(spec), 0, 0, NULL},
    {"words", FIELD_TEXT, SCHEDULE(words), 0, 0, NULL}, {"reason", FIELD_TEXT, SCHEDULE(reason), 0, 0, NULL},
    {"payload", FIELD_PAYLOAD, SCHEDULE(definition.payload), 0, 0, NULL}, {"payload_base64", FIELD_BASE64, SCHEDULE(definition.payload), 0, 0, NULL},
    {"next_at", FIELD_INSTANT, SCHEDULE(next_us), 0, 0, NULL}, {"fired", FIELD_COUNT, SCHEDULE(fired), 0, 0, NULL},
    {"skipped", FIELD_COUNT, SCHEDULE(skipped), 0, 0, NULL}, {"succeeded", FIELD_COUNT, SCHEDULE(succeeded), 0, 0, NULL},
    {"failed", FIELD_COUNT, SCHEDULE(failed), 0, 0, NULL}, {"open", FIELD_COUNT, SCHEDULE(open), 0, 0, NULL},
    {"waiting", FIELD_COUNT, SCHEDULE(waiting), 0, 0, NULL}, {0},
};
static const field occurrence_fields[] = {
    {"due_at", FIELD_INSTANT, OCCURRENCE(occurrence), 0, 0, NULL}, {"after", FIELD_ID, OCCURRENCE(occurrence), 0, 0, NULL},
    {"at", FIELD_INSTANT, OCCURRENCE(at_us), 0, 0, NULL}, {"task", FIELD_ID, OCCURRENCE(task), 0, 0, NULL},
    {"count", FIELD_COUNT, OCCURRENCE(count), 0, 0, NULL}, {"why", FIELD_TEXT, OCCURRENCE(why), 0, 0, NULL}, {0},
};
static const field batch_fields[] = {
    {"id", FIELD_ID, BATCH(id), 0, 0, NULL}, {"name", FIELD_TEXT, BATCH(name), 0, 0, NULL}, {"total", FIELD_COUNT, BATCH(total), 0, 0, NULL},
    {"unfinished", FIELD_COUNT, BATCH(unfinished), 0, 0, NULL}, {"succeeded", FIELD_COUNT, BATCH(succeeded), 0, 0, NULL},
    {"failed", FIELD_COUNT, BATCH(failed), 0, 0, NULL}, {"cancelled", FIELD_COUNT, BATCH(cancelled), 0, 0, NULL},
    {"ended_at", FIELD_INSTANT, BATCH(ended_us), 0, 0, NULL}, {0},
};
/* clang-format on */

static pawl_status no_row(const char *what, pawl_error *err)
{
    return err_set(err, PAWL_INTERNAL, "the server's answer is not %s: is it of another version?", what);
}

static pawl_status rest_of_task(remote *r, json object, void *row, pawl_error *err)
{
    pawl_info *info = row;
    (void)r;
    info->state = (pawl_state)word_of(object, "state", state_word, 1, PAWL_STATE_COUNT);
    info->audit = (pawl_audit)(word_of(object, "audit", audit_word, 1, PAWL_AUDIT_NONE + 1));
    if (json_member(object, "progress").kind != JSON_NUMBER) info->progress = -1;
    return info->state && info->type && info->queue && info->display ? PAWL_OK : no_row("a task", err);
}

static pawl_status rest_of_attempt(remote *r, json object, void *row, pawl_error *err)
{
    const pawl_attempt *attempt = row;
    (void)r, (void)object;
    return attempt->outcome ? PAWL_OK : no_row("an attempt", err);
}

static pawl_status rest_of_line(remote *r, json object, void *row, pawl_error *err)
{
    pawl_log_line *line = row;
    (void)r;
    line->level = (pawl_level)word_of(object, "level", level_word, PAWL_DEBUG, PAWL_ERROR + 1);
    return line->level && line->text ? PAWL_OK : no_row("a line of a log", err);
}

static pawl_status rest_of_audit(remote *r, json object, void *row, pawl_error *err)
{
    const pawl_audit_row *audit = row;
    (void)r, (void)object;
    return audit->from && audit->to ? PAWL_OK : no_row("a trail", err);
}

static pawl_status rest_of_batch(remote *r, json object, void *row, pawl_error *err)
{
    pawl_batch_info *batch = row;
    (void)r;
    batch->state = (pawl_state)word_of(object, "state", batch_state_word, 1, PAWL_STATE_COUNT);
    return batch->state && batch->name ? PAWL_OK : no_row("a batch", err);
}

static pawl_status rest_of_occurrence(remote *r, json object, void *row, pawl_error *err)
{
    pawl_occurrence *occurrence = row;
    (void)r;
    occurrence->state = (pawl_occurrence_state)word_of(object, "state", occurrence_word, 1, PAWL_OCCURRENCE_COUNT);
    return occurrence->state ? PAWL_OK : no_row("an occurrence", err);
}

static pawl_status read_upcoming(remote *r, json array, pawl_schedule_info *s, pawl_error *err)
{
    json key, value;
    size_t count = 0;
    for (size_t at = 0; json_each(array, &at, &key, &value);) count++;
    int64_t *times = pawl_arena_alloc(r->arena, (count + 1) * sizeof *times);
    s->upcoming_us = times;
    if (!times) return no_memory(err);
    for (size_t at = 0; json_each(array, &at, &key, &value); s->upcoming_count++) {
        char text[RFC3339_TEXT];
        if (value.raw.len < 3 || value.raw.len - 2 >= sizeof text) return no_row("a schedule", err);
        snprintf(text, sizeof text, "%.*s", (int)value.raw.len - 2, value.raw.data + 1);
        if (!rfc3339_parse(text, &times[s->upcoming_count])) return no_row("a schedule", err);
    }
    return PAWL_OK;
}

static pawl_status rest_of_schedule(remote *r, json object, void *row, pawl_error *err)
{
    pawl_schedule_info *s = row;
    int off = word_of(object, "status", off_word, 0, PAWL_OFF_COUNT);
    if (off < 0 || !s->definition.name || !s->words) return no_row("a schedule", err);
    s->off = (pawl_off)off;
    pawl_status status = fields_pick(schedule_fields, json_member(object, "definition"), r->arena, &s->definition, err);
    if (status || json_member(object, "occurrences").kind == JSON_NONE) return status;
    status = read_upcoming(r, json_member(object, "upcoming"), s, err);
    return status ? status : remote_rows(r, &occurrence_shape, object, s, err);
}

const shape task_shape = {
    "tasks", info_fields, sizeof(pawl_info), rest_of_task, offsetof(row_list, rows), offsetof(row_list, count), NULL};
const shape attempt_shape = {
    "attempts", attempt_fields, sizeof(pawl_attempt), rest_of_attempt, offsetof(row_list, rows), offsetof(row_list, count), NULL};
const shape line_shape = {
    "log", line_fields, sizeof(pawl_log_line), rest_of_line, offsetof(pawl_trail, lines), offsetof(pawl_trail, lines_count),
    NULL};
const shape audit_shape = {"audit_trail",
                           audit_fields,
                           sizeof(pawl_audit_row),
                           rest_of_audit,
                           offsetof(pawl_trail, audit),
                           offsetof(pawl_trail, audit_count),
                           NULL};
const shape queue_shape = {
    "queues", queue_fields, sizeof(pawl_queue_info), NULL, offsetof(pawl_stats, queues), offsetof(pawl_stats, queues_count),
    NULL};
const shape node_shape = {
    "nodes", node_fields, sizeof(pawl_node_info), NULL, offsetof(pawl_nodes, nodes), offsetof(pawl_nodes, count), NULL};
const shape act_shape = {"acts",
                         act_fields,
                         sizeof(pawl_act),
                         NULL,
                         offsetof(pawl_acts, acts),
                         offsetof(pawl_acts, count),
                         (const field[]){{"next", FIELD_COUNT, offsetof(pawl_acts, next), 0, 0, NULL}, {0}}};
const shape limit_shape = {
    "limits",         limit_fields, sizeof(pawl_limit_info), NULL, offsetof(pawl_limits, limits), offsetof(pawl_limits, count),
    NEXT(pawl_limits)};
const shape place_shape = {
    "concurrency",    place_fields, sizeof(pawl_place_info), NULL, offsetof(pawl_places, places), offsetof(pawl_places, count),
    NEXT(pawl_places)};
const shape schedule_shape = {"schedules",
                              info_of_schedule,
                              sizeof(pawl_schedule_info),
                              rest_of_schedule,
                              offsetof(pawl_schedules, schedules),
                              offsetof(pawl_schedules, count),
                              NEXT(pawl_schedules)};
const shape occurrence_shape = {"occurrences",
                                occurrence_fields,
                                sizeof(pawl_occurrence),
                                rest_of_occurrence,
                                offsetof(pawl_schedule_info, occurrences),
                                offsetof(pawl_schedule_info, occurrences_count),
                                NULL};
const shape batch_shape = {"batches",
                           batch_fields,
                           sizeof(pawl_batch_info),
                           rest_of_batch,
                           offsetof(pawl_batches, batches),
                           offsetof(pawl_batches, count),
                           NEXT(pawl_batches)};
