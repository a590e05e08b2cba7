#include "server/fields.h"

#include "base/alloc.h"
#include "base/closest.h"
#include "base/error.h"
#include "base/text.h"
#include <stdio.h>
#include <string.h>

#define TEXT_MAX (2u << 20) /* a payload of 1 MiB as base64 */

static pawl_status no_memory(pawl_error *err) { return err_set(err, PAWL_NO_MEMORY, "%s", pawl_status_text(PAWL_NO_MEMORY)); }

pawl_status field_wrong(const field *f, const char *what, pawl_error *err)
{
    return err_set(err, PAWL_INVALID, "\"%s\" %s", f->name, what);
}

/* ---- strings ------------------------------------------------------------------------------------------------------------------ */

/* A string without escapes is what stands between its quotes. */
static bool copy_plain(json value, pawl_arena *arena, pawl_bytes *out)
{
    *out = (pawl_bytes){value.raw.data + 1, value.raw.len - 2};
    char *copy = pawl_arena_bytes(arena, out->data, out->len);
    out->data = copy;
    return copy != NULL;
}

static bool copy_escaped(json value, pawl_arena *arena, pawl_bytes *out)
{
    buf text;
    buf_init(&text, alloc_default(), TEXT_MAX);
    char *copy = json_string(value, &text) ? pawl_arena_bytes(arena, buf_text(&text), text.len) : NULL;
    *out = (pawl_bytes){copy, text.len};
    buf_done(&text);
    return copy != NULL;
}

/* A decoded string in the arena, with a NUL behind it; false: err is set. */
static bool decode(const field *f, json value, pawl_arena *arena, pawl_bytes *out, pawl_error *err)
{
    if (value.kind != JSON_STRING) return field_wrong(f, "must be a string", err), false;
    bool escaped = memchr(value.raw.data, '\\', value.raw.len) != NULL;
    if (escaped ? copy_escaped(value, arena, out) : copy_plain(value, arena, out)) return true;
    return no_memory(err), false;
}

/* The same, of text that ends where it ends. */
bool field_text(const field *f, json value, pawl_arena *arena, const char **out, pawl_error *err)
{
    pawl_bytes text;
    if (!decode(f, value, arena, &text, err)) return false;
    *out = text.data;
    return strlen(text.data) == text.len || (field_wrong(f, "must not contain a NUL", err), false);
}

/* ---- one member --------------------------------------------------------------------------------------------------------------- */

static pawl_status set_bytes(const field *f, json value, pawl_arena *arena, void *to, pawl_error *err)
{
    pawl_bytes bytes;
    if (!decode(f, value, arena, &bytes, err)) return err->status;
    if (f->kind == FIELD_BASE64 && !base64_decode((char *)bytes.data, &bytes.len)) return field_wrong(f, "is not base64", err);
    *(pawl_bytes *)to = bytes;
    return PAWL_OK;
}

static pawl_status set_int(const field *f, json value, void *to, pawl_error *err)
{
    int64_t number, min = f->min, max = f->max;
    if (!min && !max) max = INT32_MAX;
    if (!json_int(value, &number) || number < min || number > max) {
        char what[96];
        snprintf(what, sizeof what, "must be a whole number between %lld and %lld", (long long)min, (long long)max);
        return field_wrong(f, what, err);
    }
    *(int *)to = (int)number;
    return PAWL_OK;
}

static pawl_status set_micros(const field *f, json value, void *to, pawl_error *err)
{
    int64_t us;
    if (!json_int(value, &us) || us < f->min) return field_wrong(f, "must be a number of microseconds", err);
    *(int64_t *)to = us;
    return PAWL_OK;
}

static pawl_status set_bool(const field *f, json value, void *to, pawl_error *err)
{
    return json_bool(value, to) ? PAWL_OK : field_wrong(f, "must be true or false", err);
}

static pawl_status set_word(const field *f, json value, pawl_arena *arena, void *to, pawl_error *err)
{
    const char *text;
    if (!field_text(f, value, arena, &text, err)) return err->status;
    switch (f->kind) {
    case FIELD_TEXT: *(const char **)to = text; return PAWL_OK;
    case FIELD_DURATION:
        return duration_parse(text, to) ? PAWL_OK : field_wrong(f, "must be a duration like 90s, 5m, 1h30m or 250ms", err);
    case FIELD_INSTANT:
        return rfc3339_parse(text, to) ? PAWL_OK : field_wrong(f, "must be a time like 2026-11-15T04:49:03Z", err);
    case FIELD_AUDIT: return pawl_audit_parse(text, to) ? PAWL_OK : field_wrong(f, "must be full, minimal, errors or none", err);
    default: return pawl_id_parse(text, to) ? PAWL_OK : field_wrong(f, "must be a task id", err);
    }
}

pawl_status field_set_ids(const field *f, json value, pawl_arena *arena, field_ids *to, pawl_error *err)
{
    static const field one = {"ids", FIELD_ID, 0, 0, 0, NULL};
    json key, item;
    size_t at = 0, count = 0;
    if (value.kind != JSON_ARRAY) return field_wrong(f, "must be an array of task ids", err);
    while (json_each(value, &at, &key, &item)) count++;
    if (count > FIELD_IDS_MAX)
        return err_set(err, PAWL_TOO_LARGE, "\"%s\" has %zu ids, at most %d: use several requests", f->name, count,
                       FIELD_IDS_MAX);
    to->ids = pawl_arena_alloc(arena, (count + 1) * sizeof *to->ids);
    if (!to->ids) return no_memory(err);
    for (at = 0; json_each(value, &at, &key, &item);) {
        if (set_word(&one, item, arena, &to->ids[to->count++], err)) return err->status;
    }
    to->given = true;
    return PAWL_OK;
}

static pawl_status set_filter(const field *f, json value, pawl_arena *arena, field_filter *to, pawl_error *err)
{
    if (value.kind != JSON_OBJECT) return field_wrong(f, "must be an object", err);
    to->given = true;
    return fields_read(filter_fields, value, arena, &to->filter, err);
}

static pawl_status set_field(const field *f, json value, pawl_arena *arena, void *to, pawl_error *err)
{
    if (f->kind == FIELD_PAYLOAD) {
        *(pawl_bytes *)to = value.raw;
        return PAWL_OK;
    }
    if (value.kind == JSON_NULL) return PAWL_OK;
    switch (f->kind) {
    case FIELD_INT: return set_int(f, value, to, err);
    case FIELD_BOOL: return set_bool(f, value, to, err);
    case FIELD_MICROS: return set_micros(f, value, to, err);
    case FIELD_BASE64:
    case FIELD_BYTES: return set_bytes(f, value, arena, to, err);
    case FIELD_IDS: return field_set_ids(f, value, arena, to, err);
    case FIELD_FILTER: return set_filter(f, value, arena, to, err);
    default: return f->kind >= FIELD_COUNT ? field_set(f, value, arena, to, err) : set_word(f, value, arena, to, err);
    }
}

/* ---- whole objects ------------------------------------------------------------------------------------------------------------ */

static pawl_status unknown(const field *table, const char *name, pawl_error *err)
{
    closest best = {0};
    for (const field *f = table; f->name; f++) closest_try(&best, name, f->name);
    if (best.word) return err_set(err, PAWL_INVALID, "unknown field \"%.200s\": did you mean \"%s\"?", name, best.word);
    return err_set(err, PAWL_INVALID, "unknown field \"%.200s\"", name);
}

static const field *find(const field *table, pawl_bytes name)
{
    for (const field *f = table; f->name; f++) {
        if (strlen(f->name) == name.len && memcmp(f->name, name.data, name.len) == 0) return f;
    }
    return NULL;
}

pawl_status fields_read(const field *table, json object, pawl_arena *arena, void *to, pawl_error *err)
{
    static const field member = {"a member's name", FIELD_TEXT, 0, 0, 0, NULL};
    uint64_t seen = 0;
    json key, value;
    for (size_t at = 0; json_each(object, &at, &key, &value);) {
        pawl_bytes name = {key.raw.data + 1, key.raw.len - 2};
        const field *f = find(table, name);
        if (!f) { /* perhaps it is written with escapes */
            if (!decode(&member, key, arena, &name, err)) return err->status;
            if (!(f = find(table, name))) return unknown(table, name.data, err);
        }
        uint64_t bit = UINT64_C(1) << (f - table);
        if (seen & bit) return field_wrong(f, "is given twice", err);
        seen |= bit;
        pawl_status status = set_field(f, value, arena, (char *)to + f->offset, err);
        if (status) return status;
    }
    return PAWL_OK;
}

pawl_status fields_pick(const field *table, json object, pawl_arena *arena, void *to, pawl_error *err)
{
    if (object.kind != JSON_OBJECT) return err_set(err, PAWL_INVALID, "not a JSON object");
    for (const field *f = table; f->name; f++) {
        json value = json_member(object, f->name);
        if (value.kind == JSON_NONE) continue;
        pawl_status status = set_field(f, value, arena, (char *)to + f->offset, err);
        if (status) return status;
    }
    return PAWL_OK;
}

pawl_status fields_parse(const field *table, pawl_bytes text, pawl_arena *arena, void *to, pawl_error *err)
{
    size_t where;
    const char *what;
    if (!json_valid(text, &where, &what))
        return err_set(err, PAWL_INVALID, "the body is not JSON: %s at byte %zu", what, where + 1);
    json object = json_parse(text);
    if (object.kind != JSON_OBJECT) return err_set(err, PAWL_INVALID, "the body must be a JSON object");
    return fields_read(table, object, arena, to, err);
}
