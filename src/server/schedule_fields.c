/* The members of a schedule as people send them: words, intervals, days and times, where the struct has numbers and bits. */
#include "base/error.h"
#include "base/text.h"
#include "server/fields.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#define SCHEDULE(member) offsetof(pawl_schedule, member)
#define PLAN(member) offsetof(pawl_plan, member)

/* clang-format off */
const field schedule_fields[] = {
    {"type", FIELD_TEXT, SCHEDULE(type), 0, 0, "of its tasks; needed to store it"},
    {"cron", FIELD_TEXT, SCHEDULE(cron), 0, 0, "when: a cron expression"},
    {"every", FIELD_EVERY, 0, 0, 0, "or so often: \"30s\", \"15m\", \"2h\", \"1d\", \"2w\", \"1mo\", \"1y\""},
    {"plan", FIELD_PLAN, SCHEDULE(plan), 0, 0, "or on days and at times"},
    {"after", FIELD_TEXT, SCHEDULE(after), 0, 0, "or after each success of a task of this other schedule; none of the four: once, at its start"},
    {"zone", FIELD_TEXT, SCHEDULE(zone), 0, 0, "time zone by its IANA name; UTC by default"},
    {"gap", FIELD_GAP, SCHEDULE(gap), 0, 0, "a local time that clocks jump over: run right after it, or skip it"},
    {"twice", FIELD_TWICE, SCHEDULE(twice), 0, 0, "a local time that clocks show twice: run the first time, or both"},
    {"start_now", FIELD_BOOL, SCHEDULE(start_now), 0, 0, "its first occurrence is now"},
    {"start_in", FIELD_DURATION, SCHEDULE(start_in_us), 0, 0, "or so long from now: \"5m\""},
    {"start_in_us", FIELD_MICROS, SCHEDULE(start_in_us), 0, 0, "the same in microseconds"},
    {"start_at", FIELD_INSTANT, SCHEDULE(start_us), 0, 0, "or at this time; of an interval also what it is counted from"},
    {"until", FIELD_INSTANT, SCHEDULE(until_us), 0, 0, "no occurrence from then on"},
    {"max_runs", FIELD_COUNT, SCHEDULE(max_runs), 0, 0, "tasks it makes at most; 0: no limit"},
    {"missed", FIELD_MISSED, SCHEDULE(missed), 0, 0, "occurrences that nobody fired in time: skip them, one run for all, or all"},
    {"catch_up", FIELD_INT, SCHEDULE(catch_up), 0, 100, "with missed \"all\": the last so many; 100 by default"},
    {"overlap", FIELD_OVERLAP, SCHEDULE(overlap), 0, 0, "while a task of it is unfinished: skip, let one wait, or start another"},
    {"not_weekdays", FIELD_WEEKDAYS, SCHEDULE(not_weekdays), 0, 0, "never on these days"},
    {"not_dates", FIELD_TEXTS, SCHEDULE(not_dates), 0, PAWL_SCHEDULE_DATES, "never on \"2026-12-25\", or \"2026-12-24/2027-01-01\" (both included)"},
    {"not_times", FIELD_TEXTS, SCHEDULE(not_times), 0, PAWL_SCHEDULE_WINDOWS, "never within \"22:00-06:00\" (the end is not included)"},
    {"variance", FIELD_DURATION, SCHEDULE(variance_us), 0, 0, "fires up to so much later, by chance"},
    {"variance_us", FIELD_MICROS, SCHEDULE(variance_us), 0, 0, "the same in microseconds"},
    {"queue", FIELD_TEXT, SCHEDULE(queue), 0, 0, "of its tasks; \"recurring\" by default"},
    {"tenant", FIELD_TEXT, SCHEDULE(tenant), 0, 0, "whose tasks they are"},
    {"payload", FIELD_PAYLOAD, SCHEDULE(payload), 0, 0, "of its tasks: any JSON value, kept byte for byte"},
    {"payload_base64", FIELD_BASE64, SCHEDULE(payload), 0, 0, "in place of payload: any bytes; say content_type too"},
    {"content_type", FIELD_TEXT, SCHEDULE(content_type), 0, 0, "of the payload; application/json by default"},
    {"rate_key", FIELD_BYTES, SCHEDULE(rate_key), 0, 0, "whose budget their starts take from"},
    {"rate_key_base64", FIELD_BASE64, SCHEDULE(rate_key), 0, 0, "in place of rate_key: any bytes"},
    {"priority", FIELD_INT, SCHEDULE(priority), -32768, 32767, "lower runs first"},
    {"max_attempts", FIELD_INT, SCHEDULE(max_attempts), 0, 1000000, "0: by policy of whoever runs them"},
    {"timeout", FIELD_DURATION, SCHEDULE(timeout_us), 0, 0, "of each attempt"},
    {"timeout_us", FIELD_MICROS, SCHEDULE(timeout_us), 0, 0, "the same in microseconds"},
    {"audit", FIELD_AUDIT, SCHEDULE(audit), 0, 0, "how much of their trail is kept: full, minimal, errors, none"},
    {"disabled", FIELD_BOOL, SCHEDULE(disabled), 0, 0, "a new one is stored, but fires nothing until it is enabled"},
    {0},
};

const field plan_fields[] = {
    {"times", FIELD_TIMES, 0, 0, PAWL_PLAN_TIMES, "of the day: \"09:30\", \"17:00:15\"; midnight by default"},
    {"weekdays", FIELD_WEEKDAYS, PLAN(weekdays), 0, 0, "only on these days"},
    {"month_days", FIELD_DAYS, PLAN(month_days), 1, 31, "only on these days of the month; 31 is also the last day of a shorter one"},
    {"months", FIELD_MONTHS, PLAN(months), 1, 12, "only in these months"},
    {"nth", FIELD_INT, PLAN(nth), -31, 31, "of the days that are left only the n-th of each month; negative: counted from its end"},
    {0},
};
/* clang-format on */

/* ---- words -------------------------------------------------------------------------------------------------------------------- */

const char *const weekday_names[8] = {"SUN", "MON", "TUE", "WED", "THU", "FRI", "SAT", NULL};
static const char *const units[] = {"", "s", "m", "h", "d", "w", "mo", "y", NULL};

const char *const *field_words(field_kind kind)
{
    static const char *const gaps[] = {"", "run", "skip", NULL}, *const twices[] = {"", "first", "both", NULL};
    static const char *const misses[] = {"skip", "once", "all", NULL}, *const overlaps[] = {"", "forbid", "queue", "allow", NULL};
    static const char *const scopes[] = {"", "queue", "type", "key", "tenants", NULL};
    static const char *const puts[] = {"keep", "update", "add", "edit", NULL};
    static const char *const audits[] = {"", "full", "minimal", "errors", "none", NULL};
    static const char *const ends[] = {"cancel", "run", "hold", NULL};
    static const char *const relations[] = {"", "parents", "children", "members", "batch", NULL};
    switch (kind) {
    case FIELD_GAP: return gaps;
    case FIELD_TWICE: return twices;
    case FIELD_MISSED: return misses;
    case FIELD_OVERLAP: return overlaps;
    case FIELD_SCOPE: return scopes;
    case FIELD_PUT: return puts;
    case FIELD_AUDIT: return audits;
    case FIELD_IF_FAILED: return ends;
    case FIELD_RELATION: return relations;
    default: return NULL;
    }
}

static int word_of(const char *const *words, const char *text)
{
    for (int i = 0; words && words[i]; i++) {
        if (*words[i] && strcasecmp(text, words[i]) == 0) return i;
    }
    return -1;
}

bool field_word(field_kind kind, const char *text, int *out)
{
    int word = word_of(field_words(kind), text);
    if (word >= 0) *out = word;
    return word >= 0;
}

static pawl_status none_of(const field *f, pawl_error *err)
{
    char what[128] = "must be one of";
    for (const char *const *word = field_words(f->kind); *word; word++) {
        size_t n = strlen(what);
        if (**word) snprintf(what + n, sizeof what - n, " %s%s", *word, word[1] ? "," : "");
    }
    return field_wrong(f, what, err);
}

/* ---- intervals and times ------------------------------------------------------------------------------------------------------ */

bool every_parse(const char *text, int64_t *every, pawl_unit *unit)
{
    char digits[20];
    size_t n = strspn(text, "0123456789");
    if (n == 0 || n >= sizeof digits) return false;
    snprintf(digits, sizeof digits, "%.*s", (int)n, text);
    int64_t count, word = word_of(units, text + n);
    if (word < 1 || !int_parse(digits, 1, INT64_MAX, &count)) return false;
    *every = count;
    *unit = (pawl_unit)word;
    return true;
}

void every_format(int64_t every, pawl_unit unit, char out[EVERY_TEXT])
{
    snprintf(out, EVERY_TEXT, "%lld%s", (long long)every, units[unit]);
}

/* Seconds of the day; -1: no time. */
static int time_parse(const char *text)
{
    int hour, minute, second = 0, end = 0;
    size_t n = strlen(text);
    if ((n != 5 && n != 8) || strspn(text, "0123456789:") != n) return -1;
    if (n == 5 && (sscanf(text, "%2d:%2d%n", &hour, &minute, &end) != 2 || end != 5)) return -1;
    if (n == 8 && (sscanf(text, "%2d:%2d:%2d%n", &hour, &minute, &second, &end) != 3 || end != 8)) return -1;
    return hour > 23 || minute > 59 || second > 59 ? -1 : hour * 3600 + minute * 60 + second;
}

/* ---- members ------------------------------------------------------------------------------------------------------------------ */

static size_t count_of(json array)
{
    json key, item;
    size_t at = 0, count = 0;
    while (json_each(array, &at, &key, &item)) count++;
    return count;
}

static pawl_status set_texts(const field *f, json value, pawl_arena *arena, const char *const **to, pawl_error *err)
{
    json key, item;
    size_t count = count_of(value), n = 0;
    if (value.kind != JSON_ARRAY || count > (size_t)f->max)
        return field_wrong(f, "must be an array of strings, not too many", err);
    const char **list = pawl_arena_alloc(arena, (count + 1) * sizeof *list);
    if (!list) return err_set(err, PAWL_NO_MEMORY, "%s", pawl_status_text(PAWL_NO_MEMORY));
    for (size_t at = 0; json_each(value, &at, &key, &item); n++) {
        if (!field_text(f, item, arena, &list[n], err)) return err->status;
    }
    list[n] = NULL;
    *to = list;
    return PAWL_OK;
}

static pawl_status set_times(const field *f, json value, pawl_arena *arena, pawl_plan *to, pawl_error *err)
{
    const char *const *texts = NULL;
    pawl_status status = set_texts(f, value, arena, &texts, err);
    for (to->times = 0; !status && texts && texts[to->times]; to->times++) {
        to->times_s[to->times] = time_parse(texts[to->times]);
        if (to->times_s[to->times] < 0) return field_wrong(f, "must be times of the day like \"09:30\" or \"17:00:15\"", err);
    }
    return status;
}

/* An array of names (of weekdays) or of numbers, as bits. */
static pawl_status set_bits(const field *f, json value, pawl_arena *arena, uint32_t *to, pawl_error *err)
{
    json key, item;
    uint32_t bits = 0;
    if (value.kind != JSON_ARRAY) return field_wrong(f, "must be an array", err);
    for (size_t at = 0; json_each(value, &at, &key, &item);) {
        int64_t number = -1;
        const char *text;
        if (f->kind == FIELD_WEEKDAYS) {
            if (!field_text(f, item, arena, &text, err)) return err->status;
            number = word_of(weekday_names, text);
            if (number < 0) return field_wrong(f, "must have days like \"MON\"", err);
        } else if (!json_int(item, &number) || number < f->min || number > f->max) {
            return field_wrong(
                f, f->kind == FIELD_DAYS ? "must have numbers between 1 and 31" : "must have numbers between 1 and 12", err);
        }
        bits |= UINT32_C(1) << number;
    }
    *to = bits;
    return PAWL_OK;
}

static pawl_status set_plan(const field *f, json value, pawl_arena *arena, const pawl_plan **to, pawl_error *err)
{
    pawl_plan *plan = pawl_arena_alloc(arena, sizeof *plan);
    if (value.kind != JSON_OBJECT) return field_wrong(f, "must be an object", err);
    if (!plan) return err_set(err, PAWL_NO_MEMORY, "%s", pawl_status_text(PAWL_NO_MEMORY));
    *plan = (pawl_plan){0};
    *to = plan;
    return fields_read(plan_fields, value, arena, plan, err);
}

static pawl_status set_every(const field *f, json value, pawl_arena *arena, pawl_schedule *to, pawl_error *err)
{
    const char *text;
    if (!field_text(f, value, arena, &text, err)) return err->status;
    if (every_parse(text, &to->every, &to->unit)) return PAWL_OK;
    return field_wrong(f, "must be an interval like 30s, 15m, 2h, 1d, 2w, 1mo or 1y", err);
}

pawl_status field_set(const field *f, json value, pawl_arena *arena, void *to, pawl_error *err)
{
    const char *text;
    int64_t count;
    uint32_t bits = 0;
    pawl_status status = PAWL_OK;
    switch (f->kind) {
    case FIELD_COUNT:
        if (!json_int(value, &count) || count < 0) return field_wrong(f, "must be a whole number", err);
        *(int64_t *)to = count;
        return PAWL_OK;
    case FIELD_TEXTS: return set_texts(f, value, arena, to, err);
    case FIELD_EVERY: return set_every(f, value, arena, to, err);
    case FIELD_PARENTS: return field_set_parents(f, value, arena, to, err);
    case FIELD_TASK: return field_set_task(f, value, arena, to, err);
    case FIELD_PLAN: return set_plan(f, value, arena, to, err);
    case FIELD_TIMES: return set_times(f, value, arena, to, err);
    case FIELD_WEEKDAYS:
    case FIELD_DAYS:
    case FIELD_MONTHS:
        status = set_bits(f, value, arena, &bits, err);
        if (!status && f->kind == FIELD_WEEKDAYS) *(uint8_t *)to = (uint8_t)bits;
        if (!status && f->kind == FIELD_MONTHS) *(uint16_t *)to = (uint16_t)bits;
        if (!status && f->kind == FIELD_DAYS) *(uint32_t *)to = bits;
        return status;
    default:
        if (!field_text(f, value, arena, &text, err)) return err->status;
        return field_word(f->kind, text, to) ? PAWL_OK : none_of(f, err);
    }
}
