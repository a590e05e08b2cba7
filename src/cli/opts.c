#include "cli/opts.h"

#include "base/clock.h"
#include "base/error.h"
#include "base/text.h"
#include "cli/term.h"
#include <string.h>

#define TYPED_MAX 40 /* longer names are not worth guessing at */

/* ---- values ------------------------------------------------------------------------------------------------------------------ */

static pawl_status take_int(const opt *o, const char *text, pawl_error *err)
{
    int64_t min = o->min, max = o->max;
    if (min == 0 && max == 0) min = INT64_MIN, max = INT64_MAX;
    if (int_parse(text, min, max, o->to)) return PAWL_OK;
    if (max == INT64_MAX)
        return err_set(err, PAWL_INVALID, "--%s \"%s\" is not a whole number of at least %lld", o->name, text, (long long)min);
    return err_set(err, PAWL_INVALID, "--%s \"%s\" is not a whole number between %lld and %lld", o->name, text, (long long)min,
                   (long long)max);
}

static pawl_status take_duration(const opt *o, const char *text, pawl_error *err)
{
    int64_t us;
    if (!duration_parse(text, &us)) {
        return err_set(err, PAWL_INVALID, "--%s \"%s\" is not a duration: write it like 90s, 5m, 1h30m or 250ms", o->name, text);
    }
    if (us < o->min || (o->max && us > o->max)) {
        char least[32], most[32] = "any length";
        duration_format(o->min, least, sizeof least);
        if (o->max) duration_format(o->max, most, sizeof most);
        return err_set(err, PAWL_INVALID, "--%s \"%s\" is out of range: %s to %s", o->name, text, least, most);
    }
    *(int64_t *)o->to = us;
    return PAWL_OK;
}

static pawl_status take_instant(const opt *o, const char *text, pawl_error *err)
{
    int64_t us;
    if (rfc3339_parse(text, o->to)) return PAWL_OK;
    if (o->type == OPT_PAST && duration_parse(text, &us)) {
        pawl_clock clock = clock_system();
        *(int64_t *)o->to = clock.wall_us(clock.ctx) - us;
        return PAWL_OK;
    }
    return err_set(err, PAWL_INVALID, "--%s \"%s\" is not a time: write it like 2026-11-15T04:49:03Z%s", o->name, text,
                   o->type == OPT_PAST ? ", or 2h for two hours ago" : "");
}

static pawl_status take_name(const opt *o, const char *text, pawl_error *err)
{
    const char *what;
    if (!name_valid(text, &what)) return err_set(err, PAWL_INVALID, "--%s is not a name: %s", o->name, what);
    if (o->type == OPT_NAME) {
        *(const char **)o->to = text;
        return PAWL_OK;
    }
    opt_list *list = o->to;
    if (list->count == OPT_LIST_MAX) {
        return err_set(err, PAWL_INVALID, "--%s was given more than %d times", o->name, OPT_LIST_MAX);
    }
    list->items[list->count++] = text;
    return PAWL_OK;
}

static pawl_status take_choice(const opt *o, const char *text, pawl_error *err)
{
    size_t n = strlen(text);
    for (const char *choice = o->choices; choice;) {
        const char *end = strchrnul(choice, '|');
        if ((size_t)(end - choice) == n && memcmp(choice, text, n) == 0) {
            *(const char **)o->to = text;
            return PAWL_OK;
        }
        choice = *end ? end + 1 : NULL;
    }
    return err_set(err, PAWL_INVALID, "--%s \"%s\" is none of %s", o->name, text, o->choices);
}

static pawl_status take_value(const opt *o, const char *text, pawl_error *err)
{
    switch (o->type) {
    case OPT_TEXT: *(const char **)o->to = text; return PAWL_OK;
    case OPT_NAME:
    case OPT_LIST: return take_name(o, text, err);
    case OPT_INT: return take_int(o, text, err);
    case OPT_DURATION: return take_duration(o, text, err);
    case OPT_INSTANT:
    case OPT_PAST: return take_instant(o, text, err);
    case OPT_CHOICE: return take_choice(o, text, err);
    case OPT_ID:
        if (pawl_id_parse(text, o->to)) return PAWL_OK;
        return err_set(err, PAWL_INVALID, "--%s \"%s\" is not a task id: an id has 13 letters and digits", o->name, text);
    case OPT_FLAG:
    case OPT_END: break;
    }
    return err_set(err, PAWL_INTERNAL, "--%s takes no value", o->name);
}

pawl_status opts_set(const opt *o, const char *text, pawl_error *err)
{
    if (o->type != OPT_FLAG) return take_value(o, text, err);
    *(bool *)o->to = strcmp(text, "true") == 0 || strcmp(text, "yes") == 0;
    if (*(bool *)o->to || strcmp(text, "false") == 0 || strcmp(text, "no") == 0) return PAWL_OK;
    return err_set(err, PAWL_INVALID, "--%s \"%s\" is neither true nor false", o->name, text);
}

/* ---- tables ------------------------------------------------------------------------------------------------------------------ */

bool opts_defaults(const opt *table, pawl_error *err)
{
    for (const opt *o = table; o && o->type != OPT_END; o++) {
        if (o->fallback && take_value(o, o->fallback, err)) return false;
    }
    return true;
}

static const opt *find_letter(const opt *const *tables, const char *argument)
{
    if (argument[0] != '-' || !argument[1] || argument[2]) return NULL;
    for (; *tables; tables++)
        for (const opt *o = *tables; o->type != OPT_END; o++)
            if (o->letter == argument[1]) return o;
    return NULL;
}

const opt *opts_find(const opt *const *tables, const char *argument)
{
    if (strcmp(argument, "-h") == 0) argument = "--help";
    if (strncmp(argument, "--", 2) != 0) return find_letter(tables, argument);
    const char *name = argument + 2;
    size_t n = strcspn(name, "=");
    for (; *tables; tables++) {
        for (const opt *o = *tables; o->type != OPT_END; o++) {
            if (strlen(o->name) == n && memcmp(o->name, name, n) == 0) return o;
        }
    }
    return NULL;
}

static pawl_status unknown(const opt *const *tables, const char *argument, pawl_error *err)
{
    char typed[TYPED_MAX];
    const char *name = argument + strspn(argument, "-");
    size_t n = strcspn(name, "=");
    closest best = {0};
    if (n < sizeof typed) {
        memcpy(typed, name, n);
        typed[n] = 0;
        for (; *tables; tables++) {
            for (const opt *o = *tables; o->type != OPT_END; o++) {
                if (o->help) closest_try(&best, typed, o->name);
            }
        }
    }
    int shown = (int)(name - argument + (ptrdiff_t)n);
    if (best.word) return err_set(err, PAWL_INVALID, "unknown option \"%.*s\": did you mean --%s?", shown, argument, best.word);
    return err_set(err, PAWL_INVALID, "unknown option \"%.*s\"", shown, argument);
}

pawl_status opts_take(const opt *const *tables, int argc, char **argv, int *at, pawl_error *err)
{
    const char *argument = argv[*at];
    const opt *o = opts_find(tables, argument);
    if (!o) return unknown(tables, argument, err);
    const char *value = strchr(argument, '=');
    ++*at;
    if (o->type == OPT_FLAG) {
        if (value) return err_set(err, PAWL_INVALID, "--%s takes no value", o->name);
        *(bool *)o->to = true;
        return PAWL_OK;
    }
    if (value) return take_value(o, value + 1, err);
    if (*at == argc) return err_set(err, PAWL_INVALID, "--%s needs a value (%s)", o->name, o->value);
    return take_value(o, argv[(*at)++], err);
}

#define HELP_COLUMN 26

void opts_help(const opt *table, FILE *out, int width)
{
    for (const opt *o = table; o && o->type != OPT_END; o++) {
        if (!o->help) continue;
        int at = fprintf(out, "  --%s%s%s", o->name, o->value ? " " : "", o->value ? o->value : "");
        if (at > HELP_COLUMN - 2) at = fprintf(out, "\n") - 1;
        at += fprintf(out, "%*s", HELP_COLUMN - at, "");
        char text[512];
        snprintf(text, sizeof text, "%s%s%s%s", o->help, o->fallback ? " (default: " : "", o->fallback ? o->fallback : "",
                 o->fallback ? ")" : "");
        term_wrap(out, text, at, HELP_COLUMN, width);
    }
}
