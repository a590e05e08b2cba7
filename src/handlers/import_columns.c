/* Columns of CSV: their names, their types, and rows as JSON objects. */
#include "base/error.h"
#include "base/text.h"
#include "handlers/import.h"
#include <string.h>

static const char *const type_names[] = {"text", "int", "number", "bool"};

static pawl_status no_memory(pawl_error *err) { return err_set(err, PAWL_NO_MEMORY, "%s", pawl_status_text(PAWL_NO_MEMORY)); }

/* ---- names and types ------------------------------------------------------------------------------------------------------------ */

pawl_status columns_read(const text_list *list, pawl_arena *arena, column *out, size_t *count, pawl_error *err)
{
    *count = 0;
    for (size_t i = 0; i < list->count; i++) {
        char *name = pawl_arena_str(arena, list->items[i]);
        if (!name) return no_memory(err);
        char *type = strrchr(name, ':');
        if (type) *type++ = '\0';
        size_t t = 0, types = sizeof type_names / sizeof *type_names;
        while (type && t < types && strcmp(type, type_names[t]) != 0) t++;
        if (t == types || !*name)
            return err_set(err, PAWL_INVALID, "columns \"%.60s\": write name or name:type; types are text, int, number and bool",
                           list->items[i]);
        out[(*count)++] = (column){.name = name, .type = (column_type)t};
    }
    return PAWL_OK;
}

static const char *field_of(const rows *r, size_t i) { return r->text.data + r->fields[i].at; }

static bool has_name(const column *columns, size_t count, const char *name)
{
    for (size_t i = 0; i < count; i++) {
        if (strcmp(columns[i].name, name) == 0) return true;
    }
    return false;
}

static pawl_status take_names(const rows *header, pawl_arena *arena, column *out, size_t *count, pawl_error *err)
{
    *count = 0;
    if (header->broken) return err_set(err, PAWL_INVALID, "the header %s", header->broken);
    for (size_t i = 0; i < header->count; i++) {
        const char *name = field_of(header, i);
        if (!*name || strlen(name) != header->fields[i].len)
            return err_set(err, PAWL_INVALID, "column %zu of the header has no name", i + 1);
        if (has_name(out, *count, name)) return err_set(err, PAWL_INVALID, "the header has \"%.60s\" twice", name);
        const char *kept = pawl_arena_str(arena, name);
        if (!kept) return no_memory(err);
        out[(*count)++] = (column){.name = kept};
    }
    return PAWL_OK;
}

pawl_status columns_match(const rows *header, const column *said, size_t said_count, const text_list *needed, pawl_arena *arena,
                          column *out, size_t *count, pawl_error *err)
{
    pawl_status status = PAWL_OK;
    if (header) status = take_names(header, arena, out, count, err);
    else memcpy(out, said, said_count * sizeof *out), *count = said_count;
    for (size_t i = 0; i < said_count && !status; i++) {
        if (!has_name(out, *count, said[i].name))
            status = err_set(err, PAWL_INVALID, "the file has no column \"%.60s\"", said[i].name);
        for (size_t k = 0; k < *count; k++)
            if (strcmp(out[k].name, said[i].name) == 0) out[k].type = said[i].type;
    }
    for (size_t i = 0; i < needed->count && !status; i++) {
        if (!has_name(out, *count, needed->items[i]))
            status = err_set(err, PAWL_INVALID, "the file has no column \"%.60s\"", needed->items[i]);
        for (size_t k = 0; k < *count; k++) out[k].needed = out[k].needed || strcmp(out[k].name, needed->items[i]) == 0;
    }
    return status;
}

/* ---- a row ---------------------------------------------------------------------------------------------------------------------- */

static pawl_status wrong(const column *c, const char *text, const char *what, pawl_error *err)
{
    return err_set(err, PAWL_INVALID, "%s \"%.80s\" %s", c->name, text, what);
}

static bool one_of(const char *text, const char *const words[])
{
    for (; *words; words++) {
        if (strcasecmp(text, *words) == 0) return true;
    }
    return false;
}

static pawl_status put(json_writer *w, const column *c, pawl_bytes text, pawl_error *err)
{
    static const char *const yes[] = {"true", "yes", "1", NULL}, *const no[] = {"false", "no", "0", NULL};
    int64_t number;
    if (c->type == COLUMN_TEXT) return jsonw_bytes(w, text), PAWL_OK;
    if (!text.len) return jsonw_null(w), PAWL_OK;
    if (strlen(text.data) != text.len) return wrong(c, text.data, "holds a NUL", err);
    switch (c->type) {
    case COLUMN_INT:
        if (!int_parse(text.data, INT64_MIN, INT64_MAX, &number)) return wrong(c, text.data, "is not a whole number", err);
        jsonw_int(w, number);
        return PAWL_OK;
    case COLUMN_NUMBER:
        if (!json_valid(text, NULL, NULL) || json_parse(text).kind != JSON_NUMBER || json_parse(text).raw.len != text.len)
            return wrong(c, text.data, "is not a number", err);
        jsonw_raw(w, text);
        return PAWL_OK;
    case COLUMN_BOOL:
    case COLUMN_TEXT: break;
    }
    bool is = one_of(text.data, yes);
    if (!is && !one_of(text.data, no)) return wrong(c, text.data, "is neither true nor false", err);
    jsonw_bool(w, is);
    return PAWL_OK;
}

pawl_status columns_object(const rows *row, const column *columns, size_t count, buf *out, pawl_error *err)
{
    json_writer w;
    pawl_status status = PAWL_OK;
    if (row->count != count)
        return err_set(err, PAWL_INVALID, "it has %zu field%s, and the file has %zu columns", row->count,
                       row->count == 1 ? "" : "s", count);
    jsonw_init(&w, out, false);
    jsonw_object(&w);
    for (size_t i = 0; i < count && !status; i++) {
        pawl_bytes text = {field_of(row, i), row->fields[i].len};
        if (columns[i].needed && !text.len) return err_set(err, PAWL_INVALID, "%s is empty", columns[i].name);
        jsonw_key(&w, columns[i].name);
        status = put(&w, &columns[i], text, err);
    }
    if (status) return status;
    jsonw_end_object(&w);
    return out->failed ? err_set(err, PAWL_INVALID, "it is too long") : PAWL_OK;
}
