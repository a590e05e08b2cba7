#include "handlers/template.h"

#include "base/error.h"
#include "base/text.h"
#include <ctype.h>
#include <string.h>

#define PIECES_MAX 64

typedef enum field_type { TEXT, ANY, INT, NUMBER, BOOL, WORD, PATH, CHOICE } field_type;

static const char *const type_names[] = {"text", "any", "int", "number", "bool", "word", "path"};

/* Literal text, or, with a name, a field. */
typedef struct piece {
    const char *text, *name;
    field_type type;
    const char *choices;
    bool optional, many;
} piece;

struct template
{
    piece pieces[PIECES_MAX];
    size_t count;
};

/* ---- reading -------------------------------------------------------------------------------------------------------------------- */

static bool ends_in(char *text, const char *end)
{
    size_t n = strlen(text), m = strlen(end);
    if (n < m || strcmp(text + n - m, end) != 0) return false;
    text[n - m] = '\0';
    return true;
}

static pawl_status field_type_of(piece *p, const char *type, pawl_error *err)
{
    if (strchr(type, '|')) return p->type = CHOICE, p->choices = type, PAWL_OK;
    for (size_t i = 0; i < sizeof type_names / sizeof *type_names; i++) {
        if (strcmp(type, type_names[i]) == 0) return p->type = (field_type)i, PAWL_OK;
    }
    return err_set(err, PAWL_INVALID,
                   "a field has no type \"%.40s\": text, any, int, number, bool, word, path, or choices like a|b", type);
}

/* What stands between the braces. */
static pawl_status read_field(char *text, piece *p, pawl_error *err)
{
    char *type = strchr(text, ':');
    *p = (piece){.name = text};
    if (type) *type++ = '\0';
    p->optional = ends_in(text, "?");
    p->many = ends_in(text, "...");
    if (!*text || strchr(text, ' ') || *text == '.' || text[strlen(text) - 1] == '.' || strstr(text, ".."))
        return err_set(err, PAWL_INVALID, "a field is written {name} or {name:type}; braces themselves as {{ and }}");
    return type ? field_type_of(p, type, err) : PAWL_OK;
}

static pawl_status room(const template *t, pawl_error *err)
{
    if (t->count < PIECES_MAX) return PAWL_OK;
    return err_set(err, PAWL_INVALID, "an argument has more than %d parts", PIECES_MAX);
}

/* Up to the next field or the end. */
static pawl_status read_literal(template *t, const char **at, pawl_arena *arena, pawl_error *err)
{
    char *out = pawl_arena_alloc(arena, strlen(*at) + 1);
    size_t n = 0;
    if (!out) return err_set(err, PAWL_NO_MEMORY, "%s", pawl_status_text(PAWL_NO_MEMORY));
    while (**at && (**at != '{' || (*at)[1] == '{')) {
        if (**at == '}' && (*at)[1] != '}') return err_set(err, PAWL_INVALID, "a \"}\" closes nothing: write }} for a brace");
        if (**at == '{' || **at == '}') ++*at;
        out[n++] = *(*at)++;
    }
    if (n) t->pieces[t->count++] = (piece){.text = out};
    return PAWL_OK;
}

static pawl_status read_braces(template *t, const char **at, pawl_arena *arena, pawl_error *err)
{
    const char *end = strchr(*at, '}');
    if (!end) return err_set(err, PAWL_INVALID, "a \"{\" is not closed: write {{ for a brace");
    char *inner = pawl_arena_bytes(arena, *at + 1, (size_t)(end - *at - 1));
    if (!inner) return err_set(err, PAWL_NO_MEMORY, "%s", pawl_status_text(PAWL_NO_MEMORY));
    *at = end + 1;
    return read_field(inner, &t->pieces[t->count++], err);
}

pawl_status template_parse(const char *text, pawl_arena *arena, template **out, pawl_error *err)
{
    template *t = pawl_arena_alloc(arena, sizeof *t);
    if (!t) return err_set(err, PAWL_NO_MEMORY, "%s", pawl_status_text(PAWL_NO_MEMORY));
    pawl_status status = PAWL_OK;
    for (const char *at = text; *at && !status;) {
        status = room(t, err);
        if (!status) status = *at == '{' && at[1] != '{' ? read_braces(t, &at, arena, err) : read_literal(t, &at, arena, err);
    }
    for (size_t i = 0; i < t->count && !status; i++) {
        if (t->pieces[i].many && t->count > 1)
            status = err_set(err, PAWL_INVALID, "{%s...} must be the whole argument", t->pieces[i].name);
    }
    if (!status) *out = t;
    return status;
}

bool template_has_fields(const template *t)
{
    for (size_t i = 0; i < t->count; i++) {
        if (t->pieces[i].name) return true;
    }
    return false;
}

/* ---- what a field may hold ------------------------------------------------------------------------------------------------------ */

static pawl_status refuse(const piece *p, const char *what, pawl_error *err)
{
    return err_set(err, PAWL_INVALID, "the payload's \"%s\" %s", p->name, what);
}

static bool is_word(const char *text, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        if (!isalnum((unsigned char)text[i]) && !strchr("_.@+:,-", text[i])) return false;
    }
    return n > 0;
}

static bool is_path(const char *text, size_t n)
{
    if (!n || *text == '/') return false;
    for (const char *at = text, *end = text + n; at < end;) {
        const char *slash = memchr(at, '/', (size_t)(end - at)), *stop = slash ? slash : end;
        if (stop == at || (stop - at == 2 && memcmp(at, "..", 2) == 0)) return false;
        at = slash ? slash + 1 : end;
    }
    return text[n - 1] != '/';
}

static bool is_choice(const char *choices, const char *text, size_t n)
{
    for (const char *at = choices; at;) {
        const char *end = strchrnul(at, '|');
        if ((size_t)(end - at) == n && memcmp(at, text, n) == 0) return true;
        at = *end ? end + 1 : NULL;
    }
    return false;
}

static bool is_int(const char *text)
{
    int64_t ignored;
    return int_parse(text, INT64_MIN, INT64_MAX, &ignored);
}

/* `text`: the value as it would be given, without a NUL inside. */
static pawl_status check(const piece *p, json value, const char *text, size_t n, pawl_error *err)
{
    switch (p->type) {
    case TEXT:
    case ANY: return PAWL_OK;
    case INT: return is_int(text) ? PAWL_OK : refuse(p, "is not a whole number", err);
    case NUMBER: return value.kind == JSON_NUMBER ? PAWL_OK : refuse(p, "is not a number", err);
    case BOOL: return value.kind == JSON_BOOL ? PAWL_OK : refuse(p, "is neither true nor false", err);
    case WORD: return is_word(text, n) ? PAWL_OK : refuse(p, "is not a word: letters, digits and _ . @ + : , - only", err);
    case PATH: return is_path(text, n) ? PAWL_OK : refuse(p, "is not a relative path without \"..\"", err);
    case CHOICE: break;
    }
    if (is_choice(p->choices, text, n)) return PAWL_OK;
    return err_set(err, PAWL_INVALID, "the payload's \"%s\" is none of %s", p->name, p->choices);
}

/* ---- filling in ----------------------------------------------------------------------------------------------------------------- */

void arguments_init(arguments *a, const pawl_allocator *allocator)
{
    *a = (arguments){0};
    buf_init(&a->text, allocator, TEMPLATE_BYTES_MAX);
}

void arguments_done(arguments *a)
{
    alloc_free(a->text.allocator, a->vector);
    buf_done(&a->text);
}

static pawl_status closed(arguments *a, size_t from, pawl_error *err)
{
    buf_char(&a->text, '\0');
    a->count++;
    if (a->text.failed || a->count > TEMPLATE_ARGUMENTS_MAX)
        return err_set(err, PAWL_INVALID, "the command's arguments are too long: %u KiB, and %d of them, are possible",
                       TEMPLATE_BYTES_MAX >> 10, TEMPLATE_ARGUMENTS_MAX);
    if (a->text.len - from > TEMPLATE_ARGUMENT_MAX)
        return err_set(err, PAWL_INVALID, "an argument is longer than %u KiB", TEMPLATE_ARGUMENT_MAX >> 10);
    return PAWL_OK;
}

pawl_status arguments_add(arguments *a, const char *text, pawl_error *err)
{
    size_t from = a->text.len;
    buf_str(&a->text, text);
    return closed(a, from, err);
}

/* A member of a member ...; kind NONE: there is none. */
static json member_of(json object, const char *path)
{
    char name[256];
    while (object.kind == JSON_OBJECT) {
        size_t n = strcspn(path, ".");
        if (n >= sizeof name) break;
        memcpy(name, path, n);
        name[n] = '\0';
        object = json_member(object, name);
        if (!path[n]) return object;
        path += n + 1;
    }
    return (json){.kind = JSON_NONE};
}

static pawl_status put_value(arguments *a, const piece *p, json value, bool first, pawl_error *err)
{
    size_t from = a->text.len;
    bool scalar = value.kind == JSON_STRING || value.kind == JSON_NUMBER || value.kind == JSON_BOOL;
    if (value.kind == JSON_NONE || value.kind == JSON_NULL) return refuse(p, "is missing", err);
    if (!scalar) return refuse(p, "is neither text, a number nor a boolean", err);
    if (value.kind == JSON_STRING) json_string(value, &a->text);
    else buf_add(&a->text, value.raw.data, value.raw.len);
    size_t n = a->text.len - from;
    const char *text = n ? a->text.data + from : "";
    if (a->text.failed || n > TEMPLATE_ARGUMENT_MAX) return refuse(p, "is too long", err);
    if (memchr(text, '\0', n)) return refuse(p, "holds a NUL, which no argument can", err);
    if (first && n && *text == '-' && p->type != ANY && !a->plain)
        return refuse(p, "begins with \"-\": the command would take it for an option", err);
    return check(p, value, text, n, err);
}

static pawl_status fill_many(arguments *a, const piece *p, json array, pawl_error *err)
{
    json key, value;
    pawl_status status = PAWL_OK;
    if (array.kind != JSON_ARRAY) return refuse(p, "is not an array", err);
    for (size_t at = 0; !status && json_each(array, &at, &key, &value);) {
        size_t from = a->text.len;
        status = put_value(a, p, value, true, err);
        if (!status) status = closed(a, from, err);
    }
    return status;
}

static bool left_out(const template *t, json payload)
{
    for (size_t i = 0; i < t->count; i++) {
        const piece *p = &t->pieces[i];
        json value = p->name && p->optional ? member_of(payload, p->name) : (json){.kind = JSON_STRING};
        if (value.kind == JSON_NONE || value.kind == JSON_NULL) return true;
    }
    return false;
}

pawl_status arguments_fill(arguments *a, const template *t, json payload, pawl_error *err)
{
    size_t from = a->text.len;
    pawl_status status = PAWL_OK;
    if (left_out(t, payload)) return PAWL_OK;
    if (t->count && t->pieces[0].many) return fill_many(a, &t->pieces[0], member_of(payload, t->pieces[0].name), err);
    for (size_t i = 0; i < t->count && !status; i++) {
        const piece *p = &t->pieces[i];
        if (p->name) status = put_value(a, p, member_of(payload, p->name), a->text.len == from, err);
        else buf_str(&a->text, p->text);
    }
    return status ? status : closed(a, from, err);
}

pawl_status arguments_end(arguments *a, pawl_error *err)
{
    a->vector = alloc_new(a->text.allocator, (a->count + 1) * sizeof *a->vector);
    if (!a->vector) return err_set(err, PAWL_NO_MEMORY, "%s", pawl_status_text(PAWL_NO_MEMORY));
    char *at = a->text.data;
    for (size_t i = 0; i < a->count; i++, at += strlen(at) + 1) a->vector[i] = at;
    return PAWL_OK;
}
