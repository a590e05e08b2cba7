/* A schedule's definition as JSON, the form it is stored in. What is not said is not written; what is not known is refused, because
 * nobody can keep what he does not understand. */
#include "base/alloc.h"
#include "base/error.h"
#include "base/json.h"
#include "base/text.h"
#include "core/schedule.h"
#include <string.h>

static const char *const units[] = {"", "second", "minute", "hour", "day", "week", "month", "year", NULL};
static const char *const gaps[] = {"", "run", "skip", NULL};
static const char *const twices[] = {"", "first", "both", NULL};
static const char *const misses[] = {"skip", "once", "all", NULL};
static const char *const overlaps[] = {"", "forbid", "queue", "allow", NULL};

/* ---- writing ----------------------------------------------------------------------------------------------------------------- */

static void write_text(json_writer *w, const char *key, const char *text)
{
    if (!text || !*text) return;
    jsonw_key(w, key);
    jsonw_string(w, text);
}

static void write_int(json_writer *w, const char *key, int64_t value)
{
    if (value == 0) return;
    jsonw_key(w, key);
    jsonw_int(w, value);
}

static void write_texts(json_writer *w, const char *key, const char *const *texts)
{
    if (!texts || !*texts) return;
    jsonw_key(w, key);
    jsonw_array(w);
    for (; *texts; texts++) jsonw_string(w, *texts);
    jsonw_end_array(w);
}

static void write_plan(json_writer *w, const pawl_plan *plan)
{
    if (!plan) return;
    jsonw_key(w, "plan");
    jsonw_object(w);
    jsonw_key(w, "times_s");
    jsonw_array(w);
    for (int i = 0; i < plan->times && i < PAWL_PLAN_TIMES; i++) jsonw_int(w, plan->times_s[i]);
    jsonw_end_array(w);
    write_int(w, "weekdays", plan->weekdays);
    write_int(w, "month_days", plan->month_days);
    write_int(w, "months", plan->months);
    write_int(w, "nth", plan->nth);
    jsonw_end_object(w);
}

void schedule_write(const pawl_schedule *s, buf *out)
{
    json_writer w;
    jsonw_init(&w, out, false);
    jsonw_object(&w);
    write_text(&w, "cron", s->cron);
    write_int(&w, "every", s->every);
    if (s->every) write_text(&w, "unit", units[s->unit]);
    write_plan(&w, s->plan);
    write_text(&w, "zone", s->zone);
    write_text(&w, "gap", gaps[s->gap]);
    write_text(&w, "twice", twices[s->twice]);
    write_int(&w, "start_now", s->start_now);
    write_int(&w, "start_in_us", s->start_in_us);
    write_int(&w, "start_us", s->start_us);
    write_int(&w, "until_us", s->until_us);
    write_int(&w, "max_runs", s->max_runs);
    if (s->missed) write_text(&w, "missed", misses[s->missed]);
    write_int(&w, "catch_up", s->catch_up);
    write_text(&w, "overlap", overlaps[s->overlap]);
    write_int(&w, "not_weekdays", s->not_weekdays);
    write_texts(&w, "not_dates", s->not_dates);
    write_texts(&w, "not_times", s->not_times);
    write_int(&w, "variance_us", s->variance_us);
    write_text(&w, "type", s->type);
    write_text(&w, "queue", s->queue);
    write_text(&w, "tenant", s->tenant);
    write_text(&w, "content_type", s->content_type);
    if (s->rate_key.len > 0) {
        jsonw_key(&w, "rate_key");
        jsonw_base64(&w, s->rate_key);
    }
    write_int(&w, "priority", s->priority);
    write_int(&w, "max_attempts", s->max_attempts);
    write_int(&w, "timeout_us", s->timeout_us);
    if (s->audit) write_text(&w, "audit", pawl_audit_name(s->audit));
    jsonw_end_object(&w);
}

/* ---- reading ----------------------------------------------------------------------------------------------------------------- */

typedef struct reading {
    pawl_arena *arena;
    pawl_schedule *s;
    bool no_memory; /* then nothing more is read */
} reading;

static char *read_string(reading *r, json value)
{
    buf text;
    buf_init(&text, pawl_arena_allocator(r->arena), SCHEDULE_SPEC_MAX);
    if (value.kind != JSON_STRING || !json_string(value, &text)) {
        r->no_memory = value.kind == JSON_STRING;
        return NULL;
    }
    return strlen(text.data) == text.len ? text.data : NULL;
}

static bool read_text(reading *r, json value, const char **out) { return (*out = read_string(r, value)) && **out; }

static bool read_word(reading *r, json value, const char *const *words, int *out)
{
    const char *text = read_string(r, value);
    for (*out = 0; text && words[*out]; ++*out)
        if (*text && strcmp(words[*out], text) == 0) return true;
    return false;
}

static bool read_number(json value, int64_t least, int64_t most, int64_t *out)
{
    return json_int(value, out) && *out >= least && *out <= most;
}

static bool read_texts(reading *r, json value, int most, const char *const **out)
{
    const char **texts = pawl_arena_alloc(r->arena, ((size_t)most + 1) * sizeof *texts);
    json key, item;
    int count = 0;
    r->no_memory = !texts;
    if (!texts || value.kind != JSON_ARRAY) return false;
    for (size_t at = 0; json_each(value, &at, &key, &item); count++)
        if (count == most || !read_text(r, item, &texts[count])) return false;
    *out = texts;
    return true;
}

static bool read_times(json value, pawl_plan *plan)
{
    json key, item;
    int64_t second;
    if (value.kind != JSON_ARRAY) return false;
    for (size_t at = 0; json_each(value, &at, &key, &item); plan->times++) {
        if (plan->times == PAWL_PLAN_TIMES || !read_number(item, 0, 86399, &second)) return false;
        plan->times_s[plan->times] = (int)second;
    }
    return true;
}

static bool read_plan(reading *r, json value)
{
    pawl_plan *plan = pawl_arena_alloc(r->arena, sizeof *plan);
    json key, item;
    int64_t n = 0;
    r->no_memory = !plan;
    if (!plan || value.kind != JSON_OBJECT) return false;
    for (size_t at = 0; json_each(value, &at, &key, &item);) {
        const char *name = read_string(r, key);
        bool ok = false;
        if (!name) return false;
        if (strcmp(name, "times_s") == 0) ok = read_times(item, plan);
        else if (strcmp(name, "weekdays") == 0) ok = read_number(item, 0, 0x7f, &n), plan->weekdays = (uint8_t)n;
        else if (strcmp(name, "month_days") == 0) ok = read_number(item, 0, UINT32_MAX, &n), plan->month_days = (uint32_t)n;
        else if (strcmp(name, "months") == 0) ok = read_number(item, 0, UINT16_MAX, &n), plan->months = (uint16_t)n;
        else if (strcmp(name, "nth") == 0) ok = read_number(item, -31, 31, &n), plan->nth = (int)n;
        if (!ok) return false;
    }
    r->s->plan = plan;
    return true;
}

static bool read_rate_key(reading *r, json value)
{
    char *text = read_string(r, value);
    size_t len = text ? strlen(text) : 0;
    if (!text || !base64_decode(text, &len)) return false;
    r->s->rate_key = (pawl_bytes){text, len};
    return true;
}

static bool read_choice(reading *r, const char *name, json value, bool *ok)
{
    pawl_schedule *s = r->s;
    int word = 0;
    if (strcmp(name, "unit") == 0) *ok = read_word(r, value, units, &word), s->unit = (pawl_unit)word;
    else if (strcmp(name, "gap") == 0) *ok = read_word(r, value, gaps, &word), s->gap = (pawl_gap)word;
    else if (strcmp(name, "twice") == 0) *ok = read_word(r, value, twices, &word), s->twice = (pawl_twice)word;
    else if (strcmp(name, "missed") == 0) *ok = read_word(r, value, misses, &word), s->missed = (pawl_missed)word;
    else if (strcmp(name, "overlap") == 0) *ok = read_word(r, value, overlaps, &word), s->overlap = (pawl_overlap)word;
    else if (strcmp(name, "audit") == 0) {
        const char *text = read_string(r, value);
        *ok = text && pawl_audit_parse(text, &s->audit);
    } else return false;
    return true;
}

static bool read_large(reading *r, const char *name, json value, bool *ok)
{
    pawl_schedule *s = r->s;
    const struct {
        const char *name;
        int64_t *to;
    } amounts[] = {{"every", &s->every},          {"start_in_us", &s->start_in_us}, {"start_us", &s->start_us},
                   {"until_us", &s->until_us},    {"max_runs", &s->max_runs},       {"variance_us", &s->variance_us},
                   {"timeout_us", &s->timeout_us}};
    for (size_t i = 0; i < sizeof amounts / sizeof *amounts; i++) {
        if (strcmp(name, amounts[i].name) != 0) continue;
        *ok = read_number(value, INT64_MIN, INT64_MAX, amounts[i].to);
        return true;
    }
    return false;
}

static bool read_small(reading *r, const char *name, json value, bool *ok)
{
    pawl_schedule *s = r->s;
    int64_t n = 0, small = 0;
    *ok = json_int(value, &n) && n >= -32768 && n <= INT32_MAX;
    if (*ok) small = n;
    if (strcmp(name, "start_now") == 0) s->start_now = small == 1, *ok = *ok && small == 1;
    else if (strcmp(name, "catch_up") == 0) s->catch_up = (int)small;
    else if (strcmp(name, "priority") == 0) s->priority = (int)small;
    else if (strcmp(name, "max_attempts") == 0) s->max_attempts = (int)small;
    else if (strcmp(name, "not_weekdays") == 0)
        s->not_weekdays = (uint8_t)(small & 0x7f), *ok = *ok && small >= 0 && small <= 0x7f;
    else return false;
    return true;
}

static bool read_member(reading *r, const char *name, json value)
{
    pawl_schedule *s = r->s;
    bool ok = false;
    if (strcmp(name, "cron") == 0) return read_text(r, value, &s->cron);
    if (strcmp(name, "zone") == 0) return read_text(r, value, &s->zone);
    if (strcmp(name, "type") == 0) return read_text(r, value, &s->type);
    if (strcmp(name, "queue") == 0) return read_text(r, value, &s->queue);
    if (strcmp(name, "tenant") == 0) return read_text(r, value, &s->tenant);
    if (strcmp(name, "content_type") == 0) return read_text(r, value, &s->content_type);
    if (strcmp(name, "rate_key") == 0) return read_rate_key(r, value);
    if (strcmp(name, "plan") == 0) return read_plan(r, value);
    if (strcmp(name, "not_dates") == 0) return read_texts(r, value, PAWL_SCHEDULE_DATES, &s->not_dates);
    if (strcmp(name, "not_times") == 0) return read_texts(r, value, PAWL_SCHEDULE_WINDOWS, &s->not_times);
    return (read_choice(r, name, value, &ok) || read_large(r, name, value, &ok) || read_small(r, name, value, &ok)) && ok;
}

pawl_status schedule_read(pawl_arena *arena, const char *spec, pawl_schedule *out, pawl_error *err)
{
    reading r = {.arena = arena, .s = out};
    const char *name = out->name ? out->name : "", *what = "";
    size_t where = 0;
    json key, value;
    if (strlen(spec) > SCHEDULE_SPEC_MAX) return err_set(err, PAWL_INVALID, "what is stored of schedule '%s' is too long", name);
    if (!json_valid(pawl_str(spec), &where, &what))
        return err_set(err, PAWL_INVALID, "what is stored of schedule '%s' is not JSON: %s at byte %zu", name, what, where + 1);
    json all = json_parse(pawl_str(spec));
    if (all.kind != JSON_OBJECT) return err_set(err, PAWL_INVALID, "what is stored of schedule '%s' is no JSON object", name);
    for (size_t at = 0; json_each(all, &at, &key, &value);) {
        const char *member = read_string(&r, key);
        bool ok = member && read_member(&r, member, value);
        if (r.no_memory) return err_set(err, PAWL_NO_MEMORY, "not enough memory to read schedule '%s'", name);
        if (!ok)
            return err_set(err, PAWL_INVALID, "what is stored of schedule '%s' makes no sense: its member '%.60s'", name,
                           member ? member : "?");
    }
    if (!out->type) return err_set(err, PAWL_INVALID, "what is stored of schedule '%s' makes no sense: it has no type", name);
    return PAWL_OK;
}
