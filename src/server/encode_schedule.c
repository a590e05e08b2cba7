/* Schedules and concurrency limits as JSON. What `definition` says can be sent again, with `payload` beside it. */
#include "base/text.h"
#include "server/encode.h"
#include "server/fields.h"
#include <stdio.h>
#include <string.h>

static void said(json_writer *w, const char *key, const char *text)
{
    if (text && *text) json_text(w, key, text);
}

static void counted(json_writer *w, const char *key, int64_t value)
{
    if (value) json_number(w, key, value);
}

static void at(json_writer *w, const char *key, int64_t at_us)
{
    if (at_us) json_instant(w, key, at_us);
}

static void texts(json_writer *w, const char *key, const char *const *list)
{
    if (!list || !*list) return;
    jsonw_key(w, key);
    jsonw_array(w);
    for (; *list; list++) jsonw_string(w, *list);
    jsonw_end_array(w);
}

static void weekdays(json_writer *w, const char *key, uint8_t bits)
{
    if (!bits) return;
    jsonw_key(w, key);
    jsonw_array(w);
    for (int day = 0; day < 7; day++) {
        if (bits & 1u << day) jsonw_string(w, weekday_names[day]);
    }
    jsonw_end_array(w);
}

static void numbers(json_writer *w, const char *key, uint32_t bits)
{
    if (!bits) return;
    jsonw_key(w, key);
    jsonw_array(w);
    for (int n = 0; n < 32; n++) {
        if (bits & UINT32_C(1) << n) jsonw_int(w, n);
    }
    jsonw_end_array(w);
}

static void plan_json(json_writer *w, const pawl_plan *plan)
{
    char text[16];
    jsonw_key(w, "plan");
    jsonw_object(w);
    if (plan->times > 0) {
        jsonw_key(w, "times");
        jsonw_array(w);
        for (int i = 0; i < plan->times && i < PAWL_PLAN_TIMES; i++) {
            unsigned s = (unsigned)plan->times_s[i] % 86400;
            snprintf(text, sizeof text, s % 60 ? "%02u:%02u:%02u" : "%02u:%02u", s / 3600, s / 60 % 60, s % 60);
            jsonw_string(w, text);
        }
        jsonw_end_array(w);
    }
    weekdays(w, "weekdays", plan->weekdays);
    numbers(w, "month_days", plan->month_days);
    numbers(w, "months", plan->months);
    counted(w, "nth", plan->nth);
    jsonw_end_object(w);
}

static void definition_members(json_writer *w, const pawl_schedule *s)
{
    char every[EVERY_TEXT];
    said(w, "cron", s->cron);
    every_format(s->every, s->unit, every);
    if (s->every) json_text(w, "every", every);
    if (s->plan) plan_json(w, s->plan);
    said(w, "after", s->after);
    said(w, "zone", s->zone);
    if (s->gap) said(w, "gap", field_words(FIELD_GAP)[s->gap]);
    if (s->twice) said(w, "twice", field_words(FIELD_TWICE)[s->twice]);
    if (s->start_now) json_truth(w, "start_now", true);
    counted(w, "start_in_us", s->start_in_us);
    at(w, "start_at", s->start_us);
    at(w, "until", s->until_us);
    counted(w, "max_runs", s->max_runs);
    if (s->missed) said(w, "missed", field_words(FIELD_MISSED)[s->missed]);
    counted(w, "catch_up", s->catch_up);
    if (s->overlap) said(w, "overlap", field_words(FIELD_OVERLAP)[s->overlap]);
    weekdays(w, "not_weekdays", s->not_weekdays);
    texts(w, "not_dates", s->not_dates);
    texts(w, "not_times", s->not_times);
    counted(w, "variance_us", s->variance_us);
    said(w, "type", s->type);
    said(w, "queue", s->queue);
    said(w, "tenant", s->tenant);
    said(w, "content_type", s->content_type);
    if (s->rate_key.len) {
        bool text = utf8_valid(s->rate_key.data, s->rate_key.len);
        jsonw_key(w, text ? "rate_key" : "rate_key_base64");
        if (text) jsonw_bytes(w, s->rate_key);
        else jsonw_base64(w, s->rate_key);
    }
    counted(w, "priority", s->priority);
    counted(w, "max_attempts", s->max_attempts);
    counted(w, "timeout_us", s->timeout_us);
    if (s->audit) json_text(w, "audit", pawl_audit_name(s->audit));
}

void definition_json(json_writer *w, const pawl_schedule *s, bool whole)
{
    jsonw_object(w);
    definition_members(w, s);
    if (whole) json_plain(w, "payload", s->payload, s->content_type);
    if (whole && s->disabled) json_truth(w, "disabled", true);
    jsonw_end_object(w);
}

static void occurrence_json(json_writer *w, const pawl_schedule_info *s, const pawl_occurrence *o)
{
    bool follows = s->definition.after && !o->why;
    jsonw_object(w);
    if (follows) json_id(w, "after", o->occurrence);
    else json_instant(w, "due_at", o->occurrence);
    json_text(w, "state", pawl_occurrence_name(o->state));
    json_instant(w, "at", o->at_us);
    json_id(w, "task", o->task);
    json_number(w, "count", o->count);
    json_shown(w, "why", o->why);
    jsonw_end_object(w);
}

void instants_json(json_writer *w, const char *key, const int64_t *times_us, size_t count)
{
    char text[RFC3339_TEXT];
    jsonw_key(w, key);
    jsonw_array(w);
    for (size_t i = 0; i < count; i++) {
        rfc3339_format(times_us[i], text);
        jsonw_string(w, text);
    }
    jsonw_end_array(w);
}

void schedule_json(json_writer *w, const pawl_schedule_info *s, bool all)
{
    jsonw_object(w);
    json_text(w, "name", s->definition.name);
    json_text(w, "status", pawl_off_name(s->off));
    json_shown(w, "reason", s->reason);
    json_text(w, "words", s->words);
    json_text(w, "after", s->definition.after);
    jsonw_key(w, "definition");
    definition_json(w, &s->definition, false);
    if (all || s->off == PAWL_OFF_INVALID) json_shown(w, "stored", s->spec);
    if (all) json_blob(w, "payload", s->definition.payload, s->definition.content_type);
    json_instant(w, "next_at", s->next_us);
    json_instant(w, "occurrence_at", s->occurrence_us);
    json_instant(w, "last_at", s->definition.after ? 0 : s->last_us);
    json_instant(w, "created_at", s->created_us);
    json_instant(w, "changed_at", s->changed_us);
    json_number(w, "runs", s->runs);
    json_number(w, "fired", s->fired);
    json_number(w, "skipped", s->skipped);
    json_number(w, "succeeded", s->succeeded);
    json_number(w, "failed", s->failed);
    json_number(w, "open", s->open);
    json_number(w, "waiting", s->waiting);
    json_id(w, "last_task", s->last_task);
    json_number(w, "version", s->version);
    if (all) instants_json(w, "upcoming", s->upcoming_us, s->upcoming_count);
    if (all) {
        jsonw_key(w, "occurrences");
        jsonw_array(w);
        for (size_t i = 0; i < s->occurrences_count; i++) occurrence_json(w, s, &s->occurrences[i]);
        jsonw_end_array(w);
    }
    jsonw_end_object(w);
}

void place_json(json_writer *w, const pawl_place_info *p)
{
    jsonw_object(w);
    json_text(w, "scope", field_words(FIELD_SCOPE)[p->scope]);
    json_text(w, "name", p->name);
    json_rate_key(w, p->key);
    json_truth(w, "own", p->own);
    json_number(w, p->scope == PAWL_SCOPE_TENANTS ? "weight" : "most", p->most);
    json_truth(w, "ordered", p->ordered);
    json_number(w, "running", p->taken);
    json_number(w, "blocked", p->blocked);
    json_id(w, "holder", p->holder);
    jsonw_end_object(w);
}
