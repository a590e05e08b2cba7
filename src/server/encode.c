#include "server/encode.h"

#include "base/text.h"
#include <stdio.h>
#include <string.h>

void json_text(json_writer *w, const char *key, const char *value)
{
    jsonw_key(w, key);
    jsonw_string(w, value);
}

void json_number(json_writer *w, const char *key, int64_t value)
{
    jsonw_key(w, key);
    jsonw_int(w, value);
}

void json_truth(json_writer *w, const char *key, bool value)
{
    jsonw_key(w, key);
    jsonw_bool(w, value);
}

void json_instant(json_writer *w, const char *key, int64_t at_us)
{
    char text[RFC3339_TEXT];
    if (at_us) rfc3339_format(at_us, text);
    json_text(w, key, at_us ? text : NULL);
}

void json_id(json_writer *w, const char *key, pawl_id id)
{
    char text[PAWL_ID_TEXT];
    if (id) pawl_id_format(id, text);
    json_text(w, key, id ? text : NULL);
}

/* ---- what others have put there ------------------------------------------------------------------------------------------------ */

static const redaction *hidden;

void encode_hide(const redaction *what) { hidden = what; }
const redaction *encode_hidden(void) { return hidden ? hidden : redaction_usual(); }

/* An answer that cannot be masked is none. */
static void put_masked(json_writer *w, const buf *masked, void (*put)(json_writer *w, pawl_bytes text))
{
    put(w, masked->failed ? pawl_str("null") : (pawl_bytes){buf_text(masked), masked->len});
    if (masked->failed) w->out->failed = true;
}

void json_shown(json_writer *w, const char *key, const char *text)
{
    buf masked;
    buf_init(&masked, w->out->allocator, w->out->limit);
    if (text && redact(encode_hidden(), REDACT_TEXT, pawl_str(text), &masked)) {
        jsonw_key(w, key);
        put_masked(w, &masked, jsonw_bytes);
    } else {
        json_text(w, key, text);
    }
    buf_done(&masked);
}

static void put_blob(json_writer *w, const char *name, pawl_bytes data, const char *content_type, const redaction *without)
{
    char key[64];
    buf masked;
    if (!data.len) return;
    bool is_json = (!content_type || strcmp(content_type, "application/json") == 0) && json_valid(data, NULL, NULL);
    buf_init(&masked, w->out->allocator, w->out->limit);
    bool hides = without && (is_json ? redact(without, REDACT_JSON, data, &masked) : redact_bytes(without, data, &masked));
    snprintf(key, sizeof key, is_json ? "%s" : "%s_base64", name);
    jsonw_key(w, key);
    if (hides) put_masked(w, &masked, is_json ? jsonw_raw : jsonw_base64);
    else if (is_json) jsonw_raw(w, data);
    else jsonw_base64(w, data);
    buf_done(&masked);
}

void json_blob(json_writer *w, const char *name, pawl_bytes data, const char *content_type)
{
    put_blob(w, name, data, content_type, encode_hidden());
}

void json_plain(json_writer *w, const char *name, pawl_bytes data, const char *content_type)
{
    put_blob(w, name, data, content_type, NULL);
}

/* ---- what the store knows ------------------------------------------------------------------------------------------------------- */

void queue_json(json_writer *w, const pawl_queue_info *q)
{
    jsonw_object(w);
    json_text(w, "name", q->name);
    json_truth(w, "paused", q->paused);
    json_truth(w, "served", q->served);
    json_number(w, "waiting", q->waiting);
    json_number(w, "pending", q->pending);
    json_number(w, "leased", q->leased);
    json_number(w, "failed", q->failed);
    json_number(w, "due", q->due);
    json_truth(w, "due_more", q->due_more);
    json_number(w, "throttled", q->throttled);
    json_instant(w, "oldest_due_at", q->oldest_due_us);
    jsonw_end_object(w);
}

static void step_json(json_writer *w, const pawl_stats_step *step)
{
    jsonw_object(w);
    json_instant(w, "at", step->at_us);
    json_number(w, "dispatched", step->dispatched);
    json_number(w, "succeeded", step->succeeded);
    json_number(w, "failed", step->failed);
    json_number(w, "cancelled", step->cancelled);
    json_number(w, "retried", step->retried);
    json_number(w, "rescued", step->rescued);
    json_number(w, "wait_p50_us", step->wait_p50_us);
    json_number(w, "wait_p99_us", step->wait_p99_us);
    json_number(w, "run_p50_us", step->run_p50_us);
    json_number(w, "run_p99_us", step->run_p99_us);
    jsonw_end_object(w);
}

void stats_json(json_writer *w, const pawl_stats *s)
{
    jsonw_object(w);
    json_instant(w, "now", s->now_us);
    json_text(w, "closed", s->closed);
    json_number(w, "waiting", s->waiting);
    json_number(w, "pending", s->pending);
    json_number(w, "leased", s->leased);
    json_number(w, "dead", s->dead);
    json_number(w, "throttled", s->throttled);
    json_number(w, "window_us", s->window_us);
    json_number(w, "dispatched", s->dispatched);
    json_number(w, "succeeded", s->succeeded);
    json_number(w, "failed", s->failed);
    json_number(w, "cancelled", s->cancelled);
    json_number(w, "retried", s->retried);
    json_number(w, "rescued", s->rescued);
    json_number(w, "wait_p50_us", s->wait_p50_us);
    json_number(w, "wait_p99_us", s->wait_p99_us);
    json_number(w, "run_p50_us", s->run_p50_us);
    json_number(w, "run_p99_us", s->run_p99_us);
    json_number(w, "step_us", s->step_us);
    jsonw_key(w, "steps");
    jsonw_array(w);
    for (size_t i = 0; i < s->steps_count; i++) step_json(w, &s->steps[i]);
    jsonw_end_array(w);
    jsonw_end_object(w);
}

void node_json(json_writer *w, const pawl_node_info *n)
{
    jsonw_object(w);
    json_number(w, "id", n->id);
    json_text(w, "name", n->name);
    json_number(w, "pid", n->pid);
    json_truth(w, "alive", n->alive);
    json_truth(w, "draining", n->draining);
    json_instant(w, "born_at", n->born_us);
    json_instant(w, "expires_at", n->expires_us);
    json_number(w, "leases", n->leases);
    json_text(w, "queues", n->queues);
    jsonw_end_object(w);
}

void json_rate_key(json_writer *w, pawl_bytes key)
{
    bool text = utf8_valid(key.data, key.len);
    jsonw_key(w, text ? "key" : "key_base64");
    if (key.len == 0) jsonw_null(w);
    else if (text) jsonw_bytes(w, key);
    else jsonw_base64(w, key);
}

void limit_json(json_writer *w, const pawl_limit_info *l)
{
    jsonw_object(w);
    json_text(w, "type", l->type);
    json_rate_key(w, l->key);
    json_truth(w, "own", l->own);
    json_truth(w, "paused", l->paused);
    json_number(w, "permits", l->rate.permits);
    json_number(w, "period_us", l->rate.period_us);
    json_number(w, "burst", l->rate.burst ? l->rate.burst : l->rate.permits);
    json_truth(w, "start_empty", l->rate.start_empty);
    json_truth(w, "retries_free", l->rate.retries_free);
    json_truth(w, "discard", l->rate.discard);
    json_number(w, "horizon_us", l->rate.horizon_us ? l->rate.horizon_us : PAWL_HOUR);
    json_number(w, "left", l->left);
    json_instant(w, "next_slot_at", l->paused ? 0 : l->next_slot_us);
    json_number(w, "waiting", l->waiting);
    json_number(w, "parked", l->parked);
    json_number(w, "running", l->running);
    json_instant(w, "parked_slot_at", l->parked_slot_us);
    json_text(w, "node", l->node);
    jsonw_end_object(w);
}

void limits_totals_json(json_writer *w, const pawl_limits *l)
{
    jsonw_key(w, "totals");
    jsonw_object(w);
    json_number(w, "parked", l->all.parked);
    json_number(w, "running", l->all.running);
    json_number(w, "deferrals", l->all.deferrals);
    json_number(w, "rejected", l->all.rejected);
    json_number(w, "opened", l->all.opened);
    jsonw_end_object(w);
}

void act_json(json_writer *w, const pawl_act *act)
{
    jsonw_object(w);
    json_instant(w, "at", act->at_us);
    json_text(w, "who", act->who);
    json_text(w, "action", act->action);
    json_shown(w, "detail", act->detail);
    json_id(w, "id", act->id);
    jsonw_end_object(w);
}
