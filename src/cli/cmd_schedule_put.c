/* pawl schedules add, edit: a schedule from options. edit changes what is given and leaves the rest. */
#include "base/error.h"
#include "base/text.h"
#include "cli/help.h"
#include "cli/remote.h"
#include <stdlib.h>
#include <string.h>
#include <strings.h>

const char help_schedules_add[] =
    "When it fires: one of --cron, --every and --after; without them once, at its start. --every takes 30s, 15m, 2h, 1d, 2w, 1mo, 1y;\n"
    "days and longer are steps of the local calendar. Its tasks go to the queue \"recurring\" unless --queue says otherwise.\n"
    "\n"
    "Examples\n"
    "  pawl schedules add report --type report --cron '0 9 * * MON-FRI' --zone Europe/Berlin\n"
    "  pawl schedules add ping --type ping --every 30s --overlap allow --variance 5s\n"
    "  pawl schedules add mail --type mail --after report\n"
    "  pawl schedules add launch --type launch --at 2027-01-01T00:00:00Z --missed once\n";
const char help_schedules_edit[] = "Changes what is given; everything else stays. One that is disabled stays disabled.\n"
                                   "\n"
                                   "Examples\n"
                                   "  pawl schedules edit report --cron '30 9 * * MON-FRI'\n"
                                   "  pawl schedules edit report --payload '{\"to\":\"ann@example.org\"}' --missed once\n";

#define UNSAID INT64_MIN

static struct {
    const char *cron, *every, *after, *zone, *gap, *twice, *missed, *overlap, *type, *queue, *tenant, *content_type, *payload,
        *rate_key;
    int64_t at_us, in_us, until_us, max_runs, catch_up, variance_us, priority, max_attempts, timeout_us;
    bool now, disabled;
    opt_list not_weekdays, not_dates, not_times;
} o = {.at_us = UNSAID,
       .in_us = UNSAID,
       .until_us = UNSAID,
       .max_runs = UNSAID,
       .catch_up = UNSAID,
       .variance_us = UNSAID,
       .priority = UNSAID,
       .max_attempts = UNSAID,
       .timeout_us = UNSAID};

#define WHEN                                                                                                                  \
    OPTION(OPT_TEXT, "cron", &o.cron, "EXPRESSION", "when it fires; see pawl cron next"),                                     \
        OPTION(OPT_TEXT, "every", &o.every, "INTERVAL", "or so often: 30s, 15m, 2h, 1d, 2w, 1mo, 1y"),                        \
        OPTION(OPT_NAME, "after", &o.after, "NAME", "or after each success of another schedule's task"),                      \
        OPTION(OPT_NAME, "zone", &o.zone, "NAME", "the time zone, like Europe/Berlin (default: UTC)"),                        \
        OPTION(OPT_CHOICE, "gap", &o.gap, "POLICY", "a time that clocks jump over: run right after it, or skip it",           \
               .choices = "run|skip"),                                                                                        \
        OPTION(OPT_CHOICE, "twice", &o.twice, "POLICY", "a time that clocks show twice: run the first time, or both",         \
               .choices = "first|both"),                                                                                      \
        OPTION(OPT_FLAG, "now", &o.now, NULL, "its first occurrence is now"),                                                 \
        OPTION(OPT_DURATION, "in", &o.in_us, "DURATION", "or so long from now"),                                              \
        OPTION(OPT_INSTANT, "at", &o.at_us, "TIME", "or at this time"),                                                       \
        OPTION(OPT_INSTANT, "until", &o.until_us, "TIME", "no occurrence from then on"),                                      \
        OPTION(OPT_INT, "max-runs", &o.max_runs, "N", "so many tasks at most", .min = 0, .max = INT32_MAX),                   \
        OPTION(OPT_CHOICE, "missed", &o.missed, "POLICY",                                                                     \
               "occurrences that nobody fired in time: skip them, one run for all, or all", .choices = "skip|once|all"),      \
        OPTION(OPT_INT, "catch-up", &o.catch_up, "N", "with --missed all: the last so many", .min = 1, .max = 100),           \
        OPTION(OPT_CHOICE, "overlap", &o.overlap, "POLICY",                                                                   \
               "while a task of it is unfinished: skip, let one wait, or start another", .choices = "forbid|queue|allow"),    \
        OPTION(OPT_LIST, "not-weekday", &o.not_weekdays, "DAY", "never on this day: SUN to SAT; may be repeated"),            \
        OPTION(OPT_LIST, "not-date", &o.not_dates, "DATE", "never on 2026-12-25, or 2026-12-24/2027-01-01; may be repeated"), \
        OPTION(OPT_LIST, "not-time", &o.not_times, "TIMES", "never within 22:00-06:00, of the day; may be repeated"),         \
        OPTION(OPT_DURATION, "variance", &o.variance_us, "DURATION", "fire up to so much later, by chance")

#define WHAT                                                                                                                    \
    OPTION(OPT_NAME, "type", &o.type, "TYPE", "of its tasks"), OPTION(OPT_TEXT, "payload", &o.payload, "JSON", "of its tasks"), \
        OPTION(OPT_TEXT, "content-type", &o.content_type, "TYPE", "of the payload; anything but JSON is not looked into"),      \
        OPTION(OPT_NAME, "queue", &o.queue, "NAME", "of its tasks (default: \"recurring\")"),                                   \
        OPTION(OPT_NAME, "tenant", &o.tenant, "NAME", "whose tasks they are"),                                                  \
        OPTION(OPT_TEXT, "rate-key", &o.rate_key, "KEY", "whose budget their starts take from; see pawl limits"),               \
        OPTION(OPT_INT, "priority", &o.priority, "N", "lower runs first, -32768 to 32767", .min = -32768, .max = 32767),        \
        OPTION(OPT_INT, "max-attempts", &o.max_attempts, "N", "give up after so many attempts", .min = 1, .max = 1000000),      \
        OPTION(OPT_DURATION, "timeout", &o.timeout_us, "DURATION", "of each attempt")

const opt schedules_add_opts[] = {WHEN, WHAT, OPTION(OPT_FLAG, "disabled", &o.disabled, NULL, "store it, but fire nothing yet"),
                                  OPTIONS_END};
const opt schedules_edit_opts[] = {WHEN, WHAT, OPTIONS_END};

/* ---- reading values -------------------------------------------------------------------------------------------------------- */

static int word_of(const char *word, const char *const *words)
{
    for (int i = 0; words[i]; i++)
        if (strcasecmp(word, words[i]) == 0) return i;
    return -1;
}

static bool read_weekdays(const opt_list *list, uint8_t *out)
{
    static const char *const days[] = {"SUN", "MON", "TUE", "WED", "THU", "FRI", "SAT", NULL};
    *out = 0;
    for (int i = 0; i < list->count; i++) {
        int day = word_of(list->items[i], days);
        if (day < 0) return false;
        *out = (uint8_t)(*out | 1u << day);
    }
    return true;
}

static const char *const *list_of(opt_list *list, const char *room[OPT_LIST_MAX + 1])
{
    for (int i = 0; i < list->count; i++) room[i] = list->items[i];
    room[list->count] = NULL;
    return room;
}

static void set_text(const char **to, const char *from)
{
    if (from) *to = from;
}

static void set_number(int64_t *to, int64_t from)
{
    if (from != UNSAID) *to = from;
}

static void set_small(int *to, int64_t from)
{
    if (from != UNSAID) *to = (int)from;
}

/* ---- from options ----------------------------------------------------------------------------------------------------------- */

static int read_when(const cli *c, pawl_schedule *s)
{
    if ((o.cron != NULL) + (o.every != NULL) + (o.after != NULL) > 1)
        return cli_usage(c, "only one of --cron, --every and --after can be given");
    if (o.now + (o.in_us != UNSAID) + (o.at_us != UNSAID) > 1)
        return cli_usage(c, "only one of --now, --in and --at can be given");
    if (o.cron || o.every || o.after) {
        s->cron = o.cron;
        s->every = 0;
        s->unit = PAWL_UNIT_NONE;
        s->plan = NULL;
        s->after = o.after;
    }
    if (o.every && !every_parse(o.every, &s->every, &s->unit))
        return cli_usage(c, "\"%s\" is no interval: write it like 30s, 15m, 2h, 1d, 2w, 1mo or 1y", o.every);
    if (o.now || o.in_us != UNSAID || o.at_us != UNSAID) {
        s->start_now = o.now;
        s->start_in_us = o.in_us != UNSAID ? o.in_us : 0;
        s->start_us = o.at_us != UNSAID ? o.at_us : 0;
    }
    return 0;
}

static int read_policies(const cli *c, pawl_schedule *s)
{
    static const char *const gaps[] = {"", "run", "skip", NULL}, *const twices[] = {"", "first", "both", NULL};
    static const char *const misses[] = {"skip", "once", "all", NULL}, *const overlaps[] = {"", "forbid", "queue", "allow", NULL};
    static const char *dates[OPT_LIST_MAX + 1], *times[OPT_LIST_MAX + 1];
    if (o.gap) s->gap = (pawl_gap)word_of(o.gap, gaps);
    if (o.twice) s->twice = (pawl_twice)word_of(o.twice, twices);
    if (o.missed) s->missed = (pawl_missed)word_of(o.missed, misses);
    if (o.overlap) s->overlap = (pawl_overlap)word_of(o.overlap, overlaps);
    if (o.not_weekdays.count > 0 && !read_weekdays(&o.not_weekdays, &s->not_weekdays))
        return cli_usage(c, "--not-weekday takes SUN, MON, TUE, WED, THU, FRI or SAT");
    if (o.not_dates.count > 0) s->not_dates = list_of(&o.not_dates, dates);
    if (o.not_times.count > 0) s->not_times = list_of(&o.not_times, times);
    set_text(&s->zone, o.zone);
    set_number(&s->until_us, o.until_us);
    set_number(&s->max_runs, o.max_runs);
    set_small(&s->catch_up, o.catch_up);
    set_number(&s->variance_us, o.variance_us);
    return 0;
}

static void read_what(pawl_schedule *s)
{
    set_text(&s->type, o.type);
    set_text(&s->queue, o.queue);
    set_text(&s->tenant, o.tenant);
    set_text(&s->content_type, o.content_type);
    if (o.payload) s->payload = pawl_str(o.payload);
    if (o.rate_key) s->rate_key = pawl_str(o.rate_key);
    set_small(&s->priority, o.priority);
    set_small(&s->max_attempts, o.max_attempts);
    set_number(&s->timeout_us, o.timeout_us);
    s->disabled = s->disabled || o.disabled;
}

static int read_options(const cli *c, pawl_schedule *s)
{
    int code = read_when(c, s);
    if (!code) code = read_policies(c, s);
    if (!code) read_what(s);
    return code;
}

static int print_put(const cli *c, const char *name, const char *what, const char *words, int64_t next_us)
{
    char next[RFC3339_TEXT] = "";
    if (next_us) rfc3339_format(next_us, next);
    if (!c->json) return printf("%s  %s: %s%s%s\n", name, what, words, next_us ? "; next " : "", next) > 0 ? 0 : EXIT_ACT;
    answer a;
    cli_json_begin(c, &a);
    jsonw_object(&a.w);
    json_text(&a.w, "name", name);
    json_text(&a.w, "outcome", what);
    json_text(&a.w, "words", words);
    json_instant(&a.w, "next_at", next_us);
    jsonw_end_object(&a.w);
    return cli_json_end(c, &a);
}

static int put(cli *c, pawl *p, const pawl_schedule *s, pawl_put how)
{
    pawl_error err;
    pawl_dispatched outcome;
    pawl_schedule_info *info;
    if (pawl_put_schedule(p, s, how, &outcome, &err) || pawl_get_schedule(p, s->name, 0, &info, &err)) return cli_fail(c, &err);
    const char *what = outcome == PAWL_CREATED ? "created" : outcome == PAWL_UPDATED ? "updated" : "unchanged";
    int code = print_put(c, s->name, what, info->words, info->next_us);
    pawl_schedule_info_free(info);
    return code;
}

typedef struct put_answer {
    const char *outcome, *words;
    int64_t next_us;
} put_answer;

static int put_on_server(cli *c, const pawl_schedule *s, const char *how)
{
    remote r;
    pawl_error err;
    put_answer said = {"", "", 0};
    static const field fields[] = {{"outcome", FIELD_TEXT, offsetof(put_answer, outcome), 0, 0, NULL},
                                   {"words", FIELD_TEXT, offsetof(put_answer, words), 0, 0, NULL},
                                   {"next_at", FIELD_INSTANT, offsetof(put_answer, next_us), 0, 0, NULL},
                                   {0}};
    remote_about(&r, "/v1/schedules/", s->name, how);
    definition_json(&r.w, s, true);
    pawl_status status = remote_send(c, &r, "PUT", &err);
    if (!status) status = fields_pick(fields, r.object, r.arena, &said, &err);
    int code = status ? cli_fail(c, &err) : print_put(c, s->name, said.outcome, said.words, said.next_us);
    remote_end(&r);
    return code;
}

int cmd_schedules_add(cli *c)
{
    pawl_schedule s = {.name = c->args[0], .by = cli_person()};
    int code = read_options(c, &s);
    if (code) return code;
    if (!s.type) return cli_usage(c, "--type is missing: it routes the tasks to their handler");
    if (!s.cron && !s.every && !s.after && !s.start_now && !s.start_in_us && !s.start_us)
        return cli_usage(c, "when? Give one of --cron, --every, --after, --now, --in and --at");
    if (c->server) return put_on_server(c, &s, "?how=add");
    pawl *p = cli_open_writing(c, &code);
    if (!p) return code;
    code = put(c, p, &s, PAWL_PUT_ADD);
    pawl_close(p);
    return code;
}

/* What is stored, changed by the options. */
static int read_changes(const cli *c, pawl_schedule *s)
{
    s->by = cli_person();
    int code = read_options(c, s);
    if (code || s->type) return code;
    return cli_usage(c, "what is stored of \"%s\" makes no sense: remove it and add it anew", c->args[0]);
}

static int edit_on_server(cli *c)
{
    remote r;
    pawl_error err;
    pawl_schedule_info info = {0};
    remote_about(&r, "/v1/schedules/", c->args[0], "?upcoming=0");
    pawl_status status = remote_send(c, &r, "GET", &err);
    if (!status) status = remote_row(&r, &schedule_shape, r.object, &info, &err);
    int code = status ? cli_fail(c, &err) : read_changes(c, &info.definition);
    if (!status && !code) code = put_on_server(c, &info.definition, "?how=edit");
    remote_end(&r);
    return code;
}

int cmd_schedules_edit(cli *c)
{
    pawl_error err;
    pawl_schedule_info *info;
    int code = 0;
    if (c->server) return edit_on_server(c);
    pawl *p = cli_open_writing(c, &code);
    if (!p) return code;
    if (pawl_get_schedule(p, c->args[0], 0, &info, &err)) code = cli_fail(c, &err);
    else {
        pawl_schedule s = info->definition;
        code = read_changes(c, &s);
        if (!code) code = put(c, p, &s, PAWL_PUT_EDIT);
        pawl_schedule_info_free(info);
    }
    pawl_close(p);
    return code;
}
