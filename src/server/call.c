/* What routes share: reading a request, answering it. */
#include "base/alloc.h"
#include "base/error.h"
#include "base/text.h"
#include "server/parts.h"
#include <stdio.h>
#include <string.h>

/* ---- answers ------------------------------------------------------------------------------------------------------------------ */

void call_answer(call *c, int status, const char *content_type, buf *body)
{
    if (c->idem) idem_end(c, body && body->failed ? 503 : status, body);
    http_answer(c->r, status, content_type, body);
}

void call_problem(call *c, int status, const char *type, const char *fmt, ...)
{
    char detail[1024];
    va_list args;
    va_start(args, fmt);
    vsnprintf(detail, sizeof detail, fmt, args);
    va_end(args);
    detail[utf8_cut(detail, strlen(detail))] = '\0';
    buf out;
    buf_init(&out, alloc_default(), 16 << 10);
    http_problem_body(&out, status, type, detail);
    if (status == 503) http_add_header(c->r, "Retry-After", "1");
    if (status == 401) http_add_header(c->r, "WWW-Authenticate", "Bearer");
    call_answer(c, status, "application/problem+json", &out);
}

void call_fail(call *c, const pawl_error *err)
{
    char message[sizeof err->message];
    memcpy(message, err->message, sizeof message);
    redact_line(encode_hidden(), message, sizeof message);
    call_problem(c, pawl_status_http(err->status), pawl_status_name(err->status), "%s", message);
}

void reply_begin(reply *a)
{
    buf_init(&a->out, alloc_default(), ANSWER_MAX);
    jsonw_init(&a->w, &a->out, false);
}

void reply_end(call *c, reply *a, int status)
{
    buf_char(&a->out, '\n');
    call_answer(c, status, "application/json", &a->out);
}

void reply_done(call *c, const char *what)
{
    reply a;
    reply_begin(&a);
    jsonw_object(&a.w);
    json_text(&a.w, "done", what);
    jsonw_end_object(&a.w);
    reply_end(c, &a, 200);
}

/* ---- the query ---------------------------------------------------------------------------------------------------------------- */

static bool take_parameter(const field *f, const char *text, char *to, pawl_error *err)
{
    int64_t number, max = f->min || f->max ? f->max : INT32_MAX;
    const char *what = NULL;
    switch (f->kind) {
    case FIELD_TEXT: *(const char **)(to + f->offset) = text; break;
    case FIELD_BYTES: *(pawl_bytes *)(to + f->offset) = pawl_str(text); break;
    case FIELD_BOOL:
        *(bool *)(to + f->offset) = strcmp(text, "false") != 0;
        if (*text && strcmp(text, "true") != 0 && strcmp(text, "false") != 0) what = "must be true or false";
        break;
    case FIELD_INT:
        if (int_parse(text, f->min, max, &number)) *(int *)(to + f->offset) = (int)number;
        else what = "is not a whole number in its range";
        break;
    case FIELD_MICROS:
        if (!int_parse(text, f->min, INT64_MAX, (int64_t *)(to + f->offset))) what = "is not a whole number in its range";
        break;
    case FIELD_ID:
        if (!pawl_id_parse(text, (pawl_id *)(to + f->offset))) what = "must be an id: 13 letters and digits";
        break;
    case FIELD_DURATION:
        if (!duration_parse(text, (int64_t *)(to + f->offset))) what = "must be a duration like 90s, 5m, 1h30m or 250ms";
        break;
    case FIELD_INSTANT:
        if (!rfc3339_parse(text, (int64_t *)(to + f->offset))) what = "must be a time like 2026-11-15T04:49:03Z";
        break;
    default:
        if (!field_word(f->kind, text, (int *)(void *)(to + f->offset))) what = "is none of its words: see /v1/openapi.json";
        break;
    }
    return !what || (err_set(err, PAWL_INVALID, "parameter \"%s\" %s%s", f->name, what,
                             f->kind == FIELD_INT ? ": see /v1/openapi.json" : ""),
                     false);
}

bool call_query(call *c, const field *table, void *to)
{
    const http_pair *pairs;
    size_t count = http_parameters(c->r, &pairs);
    pawl_error err;
    for (size_t i = 0; i < count; i++) {
        const field *f = table;
        while (f->name && strcmp(f->name, pairs[i].name) != 0) f++;
        if (!f->name) err_set(&err, PAWL_INVALID, "unknown parameter \"%.200s\"", pairs[i].name);
        if (f->name && take_parameter(f, pairs[i].value, to, &err)) continue;
        call_fail(c, &err);
        return false;
    }
    return true;
}

/* ---- the body ----------------------------------------------------------------------------------------------------------------- */

bool call_body(call *c, const field *table, void *to)
{
    pawl_error err;
    pawl_bytes body = http_body(c->r);
    if (!body.len) body = pawl_str("{}");
    if (!fields_parse(table, body, c->arena, to, &err)) return true;
    call_fail(c, &err);
    return false;
}

/* ---- whose ---------------------------------------------------------------------------------------------------------------------- */

bool call_id(call *c, pawl_id *id)
{
    if (pawl_id_parse(c->segment, id)) return true;
    call_problem(c, 404, "not_found", "\"%.100s\" is not a task id: an id has 13 letters and digits", c->segment);
    return false;
}

bool call_tenant(call *c, const char **tenant)
{
    if (!*c->who.tenant) return true;
    if (*tenant && strcmp(*tenant, c->who.tenant) != 0) {
        call_problem(c, 403, "tenant", "the token is bound to tenant \"%s\"", c->who.tenant);
        return false;
    }
    *tenant = c->who.tenant;
    return true;
}

pawl_status call_kin(const call *c, const pawl_task *task, pawl_error *err)
{
    if (!*c->who.tenant || (!task->parents_count && !task->batch)) return PAWL_OK;
    return err_set(err, PAWL_DENIED,
                   "\"parents\" and \"batch\" are not for a token that is bound to a tenant: they may be another's");
}

bool call_may_see(const call *c, const pawl_info *task)
{
    return !*c->who.tenant || (task->tenant && strcmp(task->tenant, c->who.tenant) == 0);
}

pawl_status call_owner(const call *c, pawl_id id, pawl_error *err)
{
    pawl_info *info;
    char text[PAWL_ID_TEXT];
    if (!*c->who.tenant) return PAWL_OK;
    pawl_status status = pawl_get(c->s->options.p, id, &info, err);
    if (status) return status;
    bool mine = call_may_see(c, info);
    pawl_info_free(info);
    pawl_id_format(id, text);
    return mine ? PAWL_OK : err_set(err, PAWL_NOT_FOUND, "there is no task %s", text);
}

bool call_own(call *c, pawl_id id)
{
    pawl_error err;
    if (!call_owner(c, id, &err)) return true;
    call_fail(c, &err);
    return false;
}

const char *call_by(const call *c) { return c->who.name; }
