/* What callers pass in, checked in one place. Every message names the object, says the value and what would be right. */
#include "base/json.h"
#include "runtime/runtime.h"
#include <ctype.h>
#include <stdio.h>

#define FAR_US (INT64_C(36525) * PAWL_DAY)                    /* a hundred years: no delay is longer */
#define LAST_INSTANT_US (INT64_C(253402300799) * PAWL_SECOND) /* the end of year 9999 */
#define ATTEMPTS_MAX 1000000
#define CURSOR_MAX 256
#define SEARCH_MAX 200

/* ---- names --------------------------------------------------------------------------------------------------------------- */

pawl_status valid_name(const char *name, const char *what, pawl_error *err)
{
    const char *why;
    if (!name) return err_set(err, PAWL_INVALID, "the %s is NULL", what);
    if (name_valid(name, &why)) return PAWL_OK;
    char shown[64];
    size_t n = 0;
    for (const char *p = name; *p && n < 40; p++) shown[n++] = (unsigned char)*p < ' ' || *p == 0x7f ? '?' : *p;
    shown[utf8_cut(shown, n)] = '\0';
    return err_set(err, PAWL_INVALID, "the %s \"%s%s\" is not a name: %s", what, shown, strlen(name) > n ? "..." : "", why);
}

pawl_status valid_optional(const char *name, const char *what, pawl_error *err)
{
    return name ? valid_name(name, what, err) : PAWL_OK;
}

pawl_status valid_id(pawl_id id, pawl_error *err)
{
    return id > 0 ? PAWL_OK : err_set(err, PAWL_INVALID, "%lld is not the id of a task: ids are positive", (long long)id);
}

/* ---- bytes --------------------------------------------------------------------------------------------------------------- */

static bool is_json_type(const char *content_type)
{
    static const char json[] = "application/json";
    if (!content_type) return true;
    size_t n = sizeof json - 1;
    return strncasecmp(content_type, json, n) == 0 &&
           (content_type[n] == '\0' || content_type[n] == ';' || content_type[n] == ' ');
}

pawl_status valid_content(pawl_bytes bytes, const char *content_type, const char *what, pawl_error *err)
{
    if (bytes.len && !bytes.data) return err_set(err, PAWL_INVALID, "the %s is NULL but its length is %zu", what, bytes.len);
    pawl_status status = valid_optional(content_type, "content type", err);
    if (status || !bytes.len || !is_json_type(content_type)) return status;
    size_t where;
    const char *why;
    if (json_valid(bytes, &where, &why)) return PAWL_OK;
    return err_set(err, PAWL_INVALID, "the %s is not valid JSON: %s at byte %zu (set content_type if it is not meant to be JSON)",
                   what, why, where);
}

/* ---- tasks --------------------------------------------------------------------------------------------------------------- */

static bool hex(const char *text, size_t n, bool not_all_zero)
{
    bool zero = true;
    for (size_t i = 0; i < n; i++) {
        if (!isdigit((unsigned char)text[i]) && !(text[i] >= 'a' && text[i] <= 'f')) return false;
        zero = zero && text[i] == '0';
    }
    return !(zero && not_all_zero);
}

/* version "-" trace id "-" parent id "-" flags; versions after 00 may go on behind another "-". */
static bool is_traceparent(const char *t)
{
    size_t n = strlen(t);
    if (n < 55 || n > NAME_MAX_BYTES || t[2] != '-' || t[35] != '-' || t[52] != '-') return false;
    if (!hex(t, 2, false) || !hex(t + 3, 32, true) || !hex(t + 36, 16, true) || !hex(t + 53, 2, false)) return false;
    if (strncmp(t, "ff", 2) == 0) return false;
    return n == 55 || (strncmp(t, "00", 2) != 0 && t[55] == '-' && utf8_valid(t, n));
}

static bool same_names(const pawl_task *a, const pawl_task *b)
{
    return a->type == b->type && a->queue == b->queue && a->key == b->key && a->tenant == b->tenant &&
           a->created_by == b->created_by && a->traceparent == b->traceparent;
}

static pawl_status valid_names(const pawl_task *t, pawl_error *err)
{
    pawl_status status = valid_name(t->type, "type", err);
    if (!status && strcmp(t->type, "*") == 0)
        status = err_set(err, PAWL_INVALID, "the type \"*\" stands for all types: a task needs one of its own");
    if (!status) status = valid_optional(t->queue, "queue", err);
    if (!status) status = valid_optional(t->key, "key", err);
    if (!status) status = valid_optional(t->tenant, "tenant", err);
    if (!status) status = valid_optional(t->created_by, "created_by", err);
    if (!status && t->traceparent && !is_traceparent(t->traceparent))
        status = err_set(err, PAWL_INVALID,
                         "the traceparent is not a W3C trace context: 00-<32 hex digits>-<16 hex digits>-<2 hex digits>");
    return status;
}

static pawl_status valid_times(const pawl_task *t, pawl_error *err)
{
    if (t->delay_us && t->at_us) return err_set(err, PAWL_INVALID, "delay_us and at_us are both set: choose one");
    if (t->delay_us < 0 || t->delay_us > FAR_US)
        return err_set(err, PAWL_INVALID, "the delay of %lld us is %s", (long long)t->delay_us,
                       t->delay_us < 0 ? "negative" : "longer than a century");
    if (t->at_us < 0 || t->at_us > LAST_INSTANT_US)
        return err_set(err, PAWL_INVALID, "at_us %lld is no instant between 1970 and 9999, in microseconds", (long long)t->at_us);
    if (t->timeout_us > FAR_US)
        return err_set(err, PAWL_INVALID, "the timeout of %lld us is longer than a century", (long long)t->timeout_us);
    return PAWL_OK;
}

static pawl_status valid_numbers(const pawl_task *t, pawl_error *err)
{
    if (t->priority < INT16_MIN || t->priority > INT16_MAX)
        return err_set(err, PAWL_INVALID, "the priority %d is not between -32768 and 32767", t->priority);
    if (t->max_attempts < 0 || t->max_attempts > ATTEMPTS_MAX)
        return err_set(err, PAWL_INVALID, "max_attempts %d is not between 0 (by policy) and %d", t->max_attempts, ATTEMPTS_MAX);
    if ((int)t->audit < PAWL_AUDIT_DEFAULT || t->audit > PAWL_AUDIT_NONE)
        return err_set(err, PAWL_INVALID, "the audit level %d is none of pawl_audit", (int)t->audit);
    if (t->id < 0) return valid_id(t->id, err);
    return PAWL_OK;
}

pawl_status valid_rate_key(pawl_bytes key, pawl_error *err)
{
    if (key.len && !key.data) return err_set(err, PAWL_INVALID, "the rate key is NULL but its length is %zu", key.len);
    if (key.len <= RATE_KEY_MAX) return PAWL_OK;
    return err_set(err, PAWL_TOO_LARGE, "the rate key has %zu bytes, at most %zu are taken", key.len, RATE_KEY_MAX);
}

static pawl_status valid_bytes(const runtime *rt, const pawl_task *t, pawl_error *err)
{
    size_t headers = t->headers ? strlen(t->headers) : 0;
    if (t->payload.len > rt->options.payload_max)
        return err_set(err, PAWL_TOO_LARGE,
                       "the payload of \"%s\" has %zu bytes, at most %zu are taken: pass a reference, or raise payload_max",
                       t->type, t->payload.len, rt->options.payload_max);
    if (headers > HEADERS_MAX)
        return err_set(err, PAWL_TOO_LARGE, "the headers have %zu bytes, at most %zu are taken", headers, HEADERS_MAX);
    if (headers && !utf8_valid(t->headers, headers)) return err_set(err, PAWL_INVALID, "the headers are not UTF-8");
    pawl_status status = valid_rate_key(t->rate_key, err);
    return status ? status : valid_content(t->payload, t->content_type, "payload", err);
}

pawl_status valid_task(const runtime *rt, const pawl_task *task, const pawl_task *before, pawl_error *err)
{
    if (!task) return err_set(err, PAWL_INVALID, "the task is NULL");
    pawl_status status = before && same_names(task, before) ? PAWL_OK : valid_names(task, err);
    if (!status) status = valid_times(task, err);
    if (!status) status = valid_numbers(task, err);
    if (!status) status = valid_bytes(rt, task, err);
    if (!status && (family_has(task) || task->if_failed)) status = family_valid(rt, task, err);
    return status;
}

/* ---- filters ------------------------------------------------------------------------------------------------------------- */

static bool is_shown_state(const char *text)
{
    static const char *const displays[] = {"scheduled", "retrying", "throttled", "blocked", "stale", "running"};
    pawl_state state;
    for (size_t i = 0; i < sizeof displays / sizeof *displays; i++)
        if (strcmp(text, displays[i]) == 0) return true;
    return pawl_state_parse(text, &state);
}

pawl_status valid_filter(const pawl_filter *f, pawl_error *err)
{
    if (!f) return PAWL_OK;
    if (f->state && !is_shown_state(f->state))
        return err_set(err, PAWL_INVALID,
                       "\"%.40s\" is no state: use waiting, pending, leased, succeeded, failed, cancelled, "
                       "scheduled, retrying, throttled, blocked, stale or running",
                       f->state);
    pawl_status status = valid_optional(f->type, "type", err);
    if (!status) status = valid_optional(f->queue, "queue", err);
    if (!status) status = valid_optional(f->tenant, "tenant", err);
    if (!status) status = valid_optional(f->key, "key", err);
    if (status) return status;
    if (f->search && (strlen(f->search) > SEARCH_MAX || !utf8_valid(f->search, strlen(f->search))))
        return err_set(err, PAWL_INVALID, "the text to search for is not UTF-8 of at most %d bytes", SEARCH_MAX);
    if (f->limit < 0 || f->limit > 1000)
        return err_set(err, PAWL_INVALID, "the limit %d is not between 0 (100 tasks) and 1000", f->limit);
    if (f->within_us < 0) return err_set(err, PAWL_INVALID, "a list within %lld us cannot be", (long long)f->within_us);
    if (f->since_us < 0 || f->until_us < 0 || (f->until_us && f->since_us > f->until_us))
        return err_set(err, PAWL_INVALID, "the filter's time from %lld to %lld is no span", (long long)f->since_us,
                       (long long)f->until_us);
    if (f->cursor && (strlen(f->cursor) > CURSOR_MAX || !name_valid(f->cursor, NULL)))
        return err_set(err, PAWL_INVALID, "the cursor is none that a page gave as its next");
    return PAWL_OK;
}
