/* Texts with fields to fill in: {{name}}, {{customer.name}}. Nothing else means anything, so a template can do nothing, and no field can be more
 * than text: in HTML it is escaped, and there is no way to ask for it as it is. */
#include "handlers/mail.h"

#include "base/error.h"
#include "base/text.h"
#include <ctype.h>
#include <string.h>

#define FIELD_MAX_BYTES 100

static void escaped(buf *out, const char *text, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        switch (text[i]) {
        case '&': buf_str(out, "&amp;"); break;
        case '<': buf_str(out, "&lt;"); break;
        case '>': buf_str(out, "&gt;"); break;
        case '"': buf_str(out, "&quot;"); break;
        case '\'': buf_str(out, "&#39;"); break;
        case '`': buf_str(out, "&#96;"); break;
        default: buf_char(out, text[i]);
        }
    }
}

/* The field of this name, through objects where it has dots. */
static json find(json fields, char *name)
{
    for (char *part; fields.kind == JSON_OBJECT && (part = strsep(&name, "."));) {
        fields = json_member(fields, part);
        if (!name) return fields;
    }
    return (json){0};
}

static pawl_status put(json value, const char *name, bool html, buf *out, pawl_error *err)
{
    buf text;
    switch (value.kind) {
    case JSON_NULL: return PAWL_OK;
    case JSON_BOOL:
    case JSON_NUMBER: buf_add(out, value.raw.data, value.raw.len); return PAWL_OK;
    case JSON_STRING: break;
    case JSON_NONE: return err_set(err, PAWL_INVALID, "the template wants a field \"%s\", and there is none", name);
    default: return err_set(err, PAWL_INVALID, "the field \"%s\" is no text, number or truth value", name);
    }
    if (!html) return json_string(value, out) ? PAWL_OK : err_set(err, PAWL_TOO_LARGE, "the letter is too long");
    buf_init(&text, out->allocator, out->limit);
    bool ok = json_string(value, &text);
    escaped(out, buf_text(&text), text.len);
    buf_done(&text);
    return ok && !out->failed ? PAWL_OK : err_set(err, PAWL_TOO_LARGE, "the letter is too long");
}

static bool name_char(char c) { return isalnum((unsigned char)c) || c == '_' || c == '.' || c == '-'; }

/* What stands between {{ and }}. */
static pawl_status fill(pawl_bytes inside, json fields, bool html, buf *out, pawl_error *err)
{
    char name[FIELD_MAX_BYTES + 1], parts[FIELD_MAX_BYTES + 1];
    const char *from = inside.data;
    size_t at = 0, n = 0;
    while (at < inside.len && isspace((unsigned char)from[at])) at++;
    for (; at < inside.len && n < FIELD_MAX_BYTES && name_char(from[at]); at++) name[n++] = from[at];
    while (at < inside.len && isspace((unsigned char)from[at])) at++;
    if (!n || at < inside.len) {
        text_show(from, inside.len, name, 40);
        return err_set(err, PAWL_INVALID, "the template has {{%s}} in it, which is no name of a field", name);
    }
    name[n] = '\0';
    memcpy(parts, name, n + 1);
    return put(find(fields, parts), name, html, out, err);
}

pawl_status mail_template_fill(pawl_bytes text, json fields, bool html, buf *out, pawl_error *err)
{
    const char *at = text.data, *end = at + text.len;
    while (at < end) {
        const char *open = memmem(at, (size_t)(end - at), "{{", 2);
        buf_add(out, at, (size_t)((open ? open : end) - at));
        if (!open) break;
        const char *close = memmem(open, (size_t)(end - open), "}}", 2);
        if (!close) return err_set(err, PAWL_INVALID, "the template has {{ without }} behind it");
        pawl_status status = fill((pawl_bytes){open + 2, (size_t)(close - open) - 2}, fields, html, out, err);
        if (status) return status;
        at = close + 2;
    }
    return out->failed ? err_set(err, PAWL_TOO_LARGE, "the letter is too long") : PAWL_OK;
}
