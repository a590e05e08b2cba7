/* A task as JSON: the names are those of the HTTP API. Times are RFC 3339, ids are strings, durations end in _us. */
#include "base/text.h"
#include "server/encode.h"
#include <string.h>

static void attempt_json(json_writer *w, const pawl_attempt *a)
{
    jsonw_object(w);
    json_number(w, "number", a->number);
    json_text(w, "outcome", a->outcome);
    json_instant(w, "started_at", a->started_us);
    json_instant(w, "finished_at", a->finished_us);
    if (a->finished_us) json_number(w, "duration_us", a->finished_us - a->started_us);
    json_number(w, "fence", a->fence);
    json_number(w, "node", a->node);
    json_text(w, "node_name", a->node_name);
    json_text(w, "code", a->code);
    json_shown(w, "error", a->error);
    json_number(w, "log_lines", a->log_lines);
    jsonw_end_object(w);
}

static void log_json(json_writer *w, const pawl_log_line *line)
{
    jsonw_object(w);
    json_number(w, "attempt", line->attempt);
    json_number(w, "sequence", line->sequence);
    json_instant(w, "at", line->at_us);
    json_text(w, "level", pawl_level_name(line->level));
    json_shown(w, "text", line->text);
    jsonw_end_object(w);
}

static void audit_json(json_writer *w, const pawl_audit_row *row)
{
    jsonw_object(w);
    json_instant(w, "at", row->at_us);
    json_text(w, "from", row->from);
    json_text(w, "to", row->to);
    json_number(w, "fence", row->fence);
    json_text(w, "node_name", row->node_name);
    json_shown(w, "detail", row->detail);
    jsonw_end_object(w);
}

static void identity_json(json_writer *w, const pawl_info *task)
{
    json_id(w, "id", task->id);
    json_text(w, "type", task->type);
    json_text(w, "queue", task->queue);
    json_text(w, "tenant", task->tenant && *task->tenant ? task->tenant : NULL);
    json_text(w, "key", task->key);
    json_text(w, "state", pawl_state_name(task->state));
    json_text(w, "display", task->display);
    json_number(w, "priority", task->priority);
    json_instant(w, "created_at", task->created_us);
    json_instant(w, "run_at", task->run_at_us);
    json_instant(w, "started_at", task->started_us);
    json_instant(w, "finished_at", task->finished_us);
}

static void run_json(json_writer *w, const pawl_info *task)
{
    json_number(w, "attempt", task->attempt);
    json_number(w, "max_attempts", task->max_attempts);
    json_number(w, "timeout_us", task->timeout_us);
    json_number(w, "failures", task->failures);
    json_number(w, "rescues", task->rescues);
    json_number(w, "interruptions", task->interruptions);
    json_number(w, "fence", task->fence);
    json_number(w, "node", task->node);
    json_text(w, "node_name", task->node_name);
    json_truth(w, "cancel_asked", task->cancel_asked);
    jsonw_key(w, "progress");
    if (task->progress < 0) jsonw_null(w);
    else jsonw_int(w, task->progress);
    json_shown(w, "progress_text", task->progress_text);
    json_text(w, "code", task->code);
    json_shown(w, "error", task->error);
    json_shown(w, "reason", task->reason);
}

static void origin_json(json_writer *w, const pawl_info *task)
{
    json_id(w, "retry_of", task->retry_of);
    json_id(w, "retried_as", task->retried_as);
    json_instant(w, "resolved_at", task->resolved_us);
    json_text(w, "resolved_by", task->resolved_by);
    json_shown(w, "note", task->note);
    json_text(w, "audit", pawl_audit_name(task->audit));
    json_text(w, "created_by", task->created_by);
    json_text(w, "schedule", task->schedule);
    json_text(w, "traceparent", task->traceparent);
    json_shown(w, "headers", task->headers);
    if (!task->rate_key.len) return;
    bool text = utf8_valid(task->rate_key.data, task->rate_key.len);
    jsonw_key(w, text ? "rate_key" : "rate_key_base64");
    if (text) jsonw_bytes(w, task->rate_key);
    else jsonw_base64(w, task->rate_key);
}

static void trail_json(json_writer *w, const pawl_trail *log, const pawl_trail *audit)
{
    if (log) {
        jsonw_key(w, "log");
        jsonw_array(w);
        for (size_t i = 0; i < log->lines_count; i++) log_json(w, &log->lines[i]);
        jsonw_end_array(w);
    }
    if (audit) {
        jsonw_key(w, "audit_trail");
        jsonw_array(w);
        for (size_t i = 0; i < audit->audit_count; i++) audit_json(w, &audit->audit[i]);
        jsonw_end_array(w);
    }
}

void task_members(json_writer *w, const pawl_info *task, const pawl_trail *log, const pawl_trail *audit)
{
    identity_json(w, task);
    run_json(w, task);
    origin_json(w, task);
    json_text(w, "content_type", task->content_type);
    json_blob(w, "payload", task->payload, task->content_type);
    json_text(w, "result_type", task->result_type ? task->result_type : task->result.len ? "application/json" : NULL);
    json_blob(w, "result", task->result, task->result_type);
    json_shown(w, "result_ref", task->result_ref);
    if (task->attempts) {
        jsonw_key(w, "attempts");
        jsonw_array(w);
        for (int i = 0; i < task->attempts_count; i++) attempt_json(w, &task->attempts[i]);
        jsonw_end_array(w);
    }
    trail_json(w, log, audit);
}

void task_json(json_writer *w, const pawl_info *task, const pawl_trail *log, const pawl_trail *audit)
{
    jsonw_object(w);
    task_members(w, task, log, audit);
    jsonw_end_object(w);
}
