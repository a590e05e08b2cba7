/* The members of a task, and of a filter, as people send them. */
#include "base/error.h"
#include "server/fields.h"

#define TASK(member) offsetof(pawl_task, member)
#define FILTER(member) offsetof(pawl_filter, member)

/* clang-format off */
const field task_fields[] = {
    {"type", FIELD_TEXT, TASK(type), 0, 0, "routes the task to its handler"},
    {"payload", FIELD_PAYLOAD, TASK(payload), 0, 0, "any JSON value, kept byte for byte"},
    {"payload_base64", FIELD_BASE64, TASK(payload), 0, 0, "in place of payload: any bytes; say content_type too"},
    {"content_type", FIELD_TEXT, TASK(content_type), 0, 0, "of the payload; application/json by default"},
    {"queue", FIELD_TEXT, TASK(queue), 0, 0, "the handler's, else \"default\""},
    {"key", FIELD_TEXT, TASK(key), 0, 0, "identity: at most one live task of a tenant has this key"},
    {"tenant", FIELD_TEXT, TASK(tenant), 0, 0, "whose task it is"},
    {"priority", FIELD_INT, TASK(priority), -32768, 32767, "lower runs first"},
    {"delay", FIELD_DURATION, TASK(delay_us), 0, 0, "run after this long: \"90s\", \"5m\", \"1h30m\""},
    {"delay_us", FIELD_MICROS, TASK(delay_us), 0, 0, "the same in microseconds"},
    {"at", FIELD_INSTANT, TASK(at_us), 0, 0, "run at this instant; a past one means now"},
    {"run_at", FIELD_INSTANT, TASK(at_us), 0, 0, "the same as at"},
    {"max_attempts", FIELD_INT, TASK(max_attempts), 0, 1000000, "0: by policy of whoever runs it"},
    {"timeout", FIELD_DURATION, TASK(timeout_us), 0, 0, "of each attempt"},
    {"timeout_us", FIELD_MICROS, TASK(timeout_us), 0, 0, "the same in microseconds"},
    {"rate_key", FIELD_BYTES, TASK(rate_key), 0, 0, "whose budget its start takes from"},
    {"created_by", FIELD_TEXT, TASK(created_by), 0, 0, "who asked for it"},
    {"traceparent", FIELD_TEXT, TASK(traceparent), 0, 0, "W3C trace context, carried to the run"},
    {"headers", FIELD_TEXT, TASK(headers), 0, 0, "free text for the handler, at most 16 KiB"},
    {"audit", FIELD_AUDIT, TASK(audit), 0, 0, "how much of its trail is kept: full, minimal, errors, none"},
    {"parents", FIELD_PARENTS, 0, 0, PAWL_PARENTS_MAX, "it waits until these tasks and batches have ended"},
    {"if_failed", FIELD_IF_FAILED, TASK(if_failed), 0, 0, "if a parent fails or is cancelled: cancel it, run it, or hold it until the parent was retried"},
    {"batch", FIELD_ID, TASK(batch), 0, 0, "of which it is a member"},
    {"id", FIELD_ID, TASK(id), 0, 0, "store it under this id, unless a task with it is stored already"},
    {0},
};

const field filter_fields[] = {
    {"state", FIELD_TEXT, FILTER(state), 0, 0, "waiting, pending, scheduled, retrying, throttled, blocked, leased, running, stale, succeeded, failed or cancelled"},
    {"type", FIELD_TEXT, FILTER(type), 0, 0, "only tasks of this type"},
    {"queue", FIELD_TEXT, FILTER(queue), 0, 0, "only tasks of this queue"},
    {"tenant", FIELD_TEXT, FILTER(tenant), 0, 0, "only tasks of this tenant"},
    {"key", FIELD_TEXT, FILTER(key), 0, 0, "only tasks with this key"},
    {"q", FIELD_TEXT, FILTER(search), 0, 0, "words that it must hold, as in a list"},
    {"since", FIELD_INSTANT, FILTER(since_us), 0, 0, "created then or later"},
    {"until", FIELD_INSTANT, FILTER(until_us), 0, 0, "created before then"},
    {0},
};
/* clang-format on */

pawl_status field_set_parents(const field *f, json value, pawl_arena *arena, pawl_task *to, pawl_error *err)
{
    static const field ids = {"parents", FIELD_IDS, 0, 0, 0, NULL};
    field_ids list = {0};
    pawl_status status = field_set_ids(&ids, value, arena, &list, err);
    if (!status && list.count > (size_t)f->max) status = field_wrong(f, "has too many ids: put them into a batch", err);
    to->parents = list.ids;
    to->parents_count = (int)list.count;
    return status;
}

pawl_status field_set_task(const field *f, json value, pawl_arena *arena, const pawl_task **to, pawl_error *err)
{
    pawl_error why;
    pawl_task *task = pawl_arena_alloc(arena, sizeof *task);
    if (!task) return err_set(err, PAWL_NO_MEMORY, "%s", pawl_status_text(PAWL_NO_MEMORY));
    *to = task;
    pawl_status status = task_read(value, &(pawl_task){0}, arena, task, &why);
    return status ? err_set(err, status, "\"%s\": %.400s", f->name, why.message) : PAWL_OK;
}

pawl_status task_read(json object, const pawl_task *defaults, pawl_arena *arena, pawl_task *task, pawl_error *err)
{
    *task = *defaults;
    if (object.kind != JSON_OBJECT) return err_set(err, PAWL_INVALID, "a task is a JSON object");
    pawl_status status = fields_read(task_fields, object, arena, task, err);
    if (status) return status;
    if (!task->type) return err_set(err, PAWL_INVALID, "\"type\" is missing");
    if (task->delay_us && task->at_us) return err_set(err, PAWL_INVALID, "only one of a delay and a time can be given");
    return PAWL_OK;
}
