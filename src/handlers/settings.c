#include "handlers/settings.h"

#include "base/error.h"
#include "base/text.h"
#include <ctype.h>
#include <string.h>

const setting *settings_find(const setting *settings, const char *name)
{
    for (const setting *s = settings; s && s->type != SETTING_END; s++) {
        if (strcmp(s->name, name) == 0) return s;
    }
    return NULL;
}

/* ---- values --------------------------------------------------------------------------------------------------------------------- */

static pawl_status no_memory(pawl_error *err) { return err_set(err, PAWL_NO_MEMORY, "%s", pawl_status_text(PAWL_NO_MEMORY)); }

static pawl_status put_text(const char *text, const char **to, pawl_arena *arena, pawl_error *err)
{
    const char *kept = pawl_arena_str(arena, text);
    if (!kept) return no_memory(err);
    *to = kept;
    return PAWL_OK;
}

static pawl_status put_name(const setting *s, const char *text, const char **to, pawl_arena *arena, pawl_error *err)
{
    const char *what;
    if (!name_valid(text, &what)) return err_set(err, PAWL_INVALID, "%s is not a name: %s", s->name, what);
    return put_text(text, to, arena, err);
}

static pawl_status put_choice(const setting *s, const char *text, const char **to, pawl_arena *arena, pawl_error *err)
{
    size_t n = strlen(text);
    for (const char *choice = s->choices; choice;) {
        const char *end = strchrnul(choice, '|');
        if ((size_t)(end - choice) == n && memcmp(choice, text, n) == 0) return put_text(text, to, arena, err);
        choice = *end ? end + 1 : NULL;
    }
    return err_set(err, PAWL_INVALID, "%s \"%.60s\" is none of %s", s->name, text, s->choices);
}

static pawl_status put_int(const setting *s, const char *text, int64_t *to, pawl_error *err)
{
    int64_t min = s->min, max = s->max;
    if (min == 0 && max == 0) min = INT64_MIN, max = INT64_MAX;
    if (int_parse(text, min, max, to)) return PAWL_OK;
    return err_set(err, PAWL_INVALID, "%s \"%.60s\" is not a whole number between %lld and %lld", s->name, text, (long long)min,
                   (long long)max);
}

static pawl_status put_bytes(const setting *s, const char *text, int64_t *to, pawl_error *err)
{
    char digits[24];
    static const char units[] = "KMG";
    size_t n = strlen(text);
    const char *unit = n > 1 ? strchr(units, text[n - 1]) : NULL;
    int shift = unit ? 10 * (int)(unit - units + 1) : 0;
    int64_t value, max = s->max ? s->max : INT64_MAX;
    snprintf(digits, sizeof digits, "%.*s", (int)(n - (unit != NULL)), text);
    if (n < sizeof digits && int_parse(digits, 0, max >> shift, &value) && value << shift >= s->min) {
        *to = value << shift;
        return PAWL_OK;
    }
    return err_set(err, PAWL_INVALID,
                   "%s \"%.60s\" is not a number of bytes between %lld and %lld: write it like 1000000, 64K, 16M or 2G", s->name,
                   text, (long long)s->min, (long long)max);
}

static pawl_status put_duration(const setting *s, const char *text, int64_t *to, pawl_error *err)
{
    int64_t us;
    if (!duration_parse(text, &us))
        return err_set(err, PAWL_INVALID, "%s \"%.60s\" is not a duration: write it like 90s, 5m, 1h30m or 250ms", s->name, text);
    if (us < s->min || (s->max && us > s->max)) {
        char least[DURATION_TEXT], most[DURATION_TEXT] = "any length";
        duration_format(s->min, least, sizeof least);
        if (s->max) duration_format(s->max, most, sizeof most);
        return err_set(err, PAWL_INVALID, "%s \"%.60s\" is out of range: %s to %s", s->name, text, least, most);
    }
    *to = us;
    return PAWL_OK;
}

static pawl_status put_flag(const setting *s, const char *text, bool *to, pawl_error *err)
{
    bool yes = strcmp(text, "true") == 0 || strcmp(text, "yes") == 0;
    if (!yes && strcmp(text, "false") != 0 && strcmp(text, "no") != 0)
        return err_set(err, PAWL_INVALID, "%s \"%.60s\" is neither true nor false", s->name, text);
    *to = yes;
    return PAWL_OK;
}

/* ---- lists ---------------------------------------------------------------------------------------------------------------------- */

static pawl_status add_item(const setting *s, const char *item, size_t n, text_list *list, pawl_arena *arena, pawl_error *err)
{
    if (list->count == SETTINGS_ITEMS_MAX)
        return err_set(err, PAWL_INVALID, "%s has more than %d items", s->name, SETTINGS_ITEMS_MAX);
    if (!list->items) list->items = pawl_arena_alloc(arena, SETTINGS_ITEMS_MAX * sizeof *list->items);
    char *kept = list->items ? pawl_arena_bytes(arena, item, n) : NULL;
    if (!kept) return no_memory(err);
    list->items[list->count++] = kept;
    return PAWL_OK;
}

static pawl_status add_items(const setting *s, const char *text, text_list *list, pawl_arena *arena, pawl_error *err)
{
    pawl_status status = PAWL_OK;
    for (const char *at = text; at && !status;) {
        const char *end = strchrnul(at, ','), *next = *end ? end + 1 : NULL;
        while (at < end && isspace((unsigned char)*at)) at++;
        while (end > at && isspace((unsigned char)end[-1])) end--;
        if (end > at) status = add_item(s, at, (size_t)(end - at), list, arena, err);
        at = next;
    }
    return status;
}

/* ---- tables --------------------------------------------------------------------------------------------------------------------- */

pawl_status settings_put(const setting *s, const char *text, void *to, pawl_arena *arena, pawl_error *err)
{
    void *at = (char *)to + s->offset;
    switch (s->type) {
    case SETTING_TEXT: return put_text(text, at, arena, err);
    case SETTING_NAME: return put_name(s, text, at, arena, err);
    case SETTING_CHOICE: return put_choice(s, text, at, arena, err);
    case SETTING_LINES: return add_item(s, text, strlen(text), at, arena, err);
    case SETTING_LIST: return add_items(s, text, at, arena, err);
    case SETTING_INT: return put_int(s, text, at, err);
    case SETTING_BYTES: return put_bytes(s, text, at, err);
    case SETTING_DURATION: return put_duration(s, text, at, err);
    case SETTING_FLAG: return put_flag(s, text, at, err);
    case SETTING_END: break;
    }
    return err_set(err, PAWL_INTERNAL, "%s has no type", s->name);
}

void settings_sample(const setting *settings, FILE *out)
{
    for (const setting *s = settings; s && s->type != SETTING_END; s++) {
        const char *value = s->fallback ? s->fallback : s->type == SETTING_FLAG ? "false" : s->value;
        fprintf(out, "#   # %s%s%s\n#   %s = %s\n", s->help, s->needed ? "; needed" : "",
                s->type == SETTING_LINES ? "; may be repeated" : "", s->name, value);
    }
}
