/* pawl cron next, zones: what a cron expression means, before a schedule has it. No store is opened.
 *
 * The rules themselves are core's (cadence.h): this is the one command that asks core directly, because there is nothing to ask a store.
 */
#include "base/alloc.h"
#include "base/date.h"
#include "base/text.h"
#include "base/zone.h"
#include "cli/cli.h"
#include "cli/help.h"
#include "core/cadence.h"
#include "core/cron.h"
#include <stdlib.h>
#include <string.h>
#include <strings.h>

const char help_cron_next[] =
    "Shows when a cron expression fires, its usual form, and what it means in words. A note stands where clocks are changed: a time that "
    "the clock jumps over, or shows twice.\n"
    "\n"
    "Five fields: minute, hour, day, month, weekday; six with the second first; or @yearly, @monthly, @weekly, @daily, @hourly.\n"
    "\n"
    "In a field\n"
    "  *  5  1-5  */15  10-50/20  1,15   all, one, a range, steps, a list\n"
    "  JAN-DEC  SUN-SAT                  months and weekdays have names; 0 and 7 are Sunday\n"
    "  L  L-3                            day: the last of the month, three days before it\n"
    "  LW  15W                           day: the last working day, the one nearest the 15th\n"
    "  FRI#2  FRIL                       weekday: the second Friday of the month, the last one\n"
    "  ?                                 day or weekday: the same as *\n"
    "\n"
    "Where both day and weekday are restricted, a day fits if either does.\n"
    "\n"
    "Examples\n"
    "  pawl cron next '30 2 * * *' --zone Europe/Berlin -n 20\n"
    "  pawl cron next '0 9 LW * *' --from 2027-01-01T00:00:00Z\n"
    "  pawl cron next '*/15 9-17 * * MON-FRI' --zone America/New_York --json\n";
const char help_cron_zones[] = "The zones of this system, all of them or those with TEXT in their name.\n"
                               "\n"
                               "Examples\n"
                               "  pawl cron zones berlin\n";

static const char *zone_wanted, *gap_word, *overlap_word;
static int64_t count, from_us = -1; /* negative: now */
static bool before;

const opt cron_next_opts[] = {
    OPTION(OPT_TEXT, "zone", &zone_wanted, "NAME", "the time zone, like Europe/Berlin", .fallback = "UTC"),
    OPTION(OPT_INT, "count", &count, "N", "how many times to show; also -n N", .min = 1, .max = 1000, .fallback = "10",
           .letter = 'n'),
    OPTION(OPT_INSTANT, "from", &from_us, "TIME", "begin after this time instead of now"),
    OPTION(OPT_FLAG, "before", &before, NULL, "the times before it instead, latest first"),
    OPTION(OPT_CHOICE, "gap", &gap_word, "POLICY", "a time that clocks jump over: run right after it, or skip it",
           .choices = "run|skip"),
    OPTION(OPT_CHOICE, "overlap", &overlap_word, "POLICY", "a time that clocks show twice: run the first time, or both",
           .choices = "first|both"),
    OPTIONS_END};

/* ---- zones --------------------------------------------------------------------------------------------------------------------- */

#define NAMES_MAX ((size_t)1 << 20)

typedef struct names {
    buf texts; /* each with its NUL */
    const char **list;
    size_t count;
} names;

static bool add_name(void *ctx, const char *name)
{
    names *n = ctx;
    n->count++;
    return buf_add(&n->texts, name, strlen(name) + 1);
}

static int by_name(const void *a, const void *b) { return strcmp(*(const char *const *)a, *(const char *const *)b); }

static void names_done(names *n)
{
    buf_done(&n->texts);
    alloc_free(alloc_default(), n->list);
}

/* All zones in order. */
static pawl_status names_load(names *n, pawl_error *err)
{
    *n = (names){.list = NULL};
    buf_init(&n->texts, alloc_default(), NAMES_MAX);
    pawl_status status = zone_list(NULL, add_name, n, err);
    if (!status && n->count) n->list = alloc_new(alloc_default(), n->count * sizeof *n->list);
    if (status || !n->list || n->texts.failed) {
        n->count = 0;
        return status;
    }
    const char *at = buf_text(&n->texts);
    for (size_t i = 0; i < n->count; i++, at += strlen(at) + 1) n->list[i] = at;
    qsort(n->list, n->count, sizeof *n->list, by_name);
    return PAWL_OK;
}

/* The zone that was probably meant: in another case, by its last part alone, or misspelt. NULL: none. */
static const char *zone_meant(const names *n, const char *typed)
{
    closest best = {0};
    for (size_t i = 0; i < n->count; i++) {
        const char *slash = strrchr(n->list[i], '/');
        if (strcasecmp(n->list[i], typed) == 0 || (slash && strcasecmp(slash + 1, typed) == 0)) return n->list[i];
        closest_try(&best, typed, n->list[i]);
    }
    return best.word;
}

static int zone_failed(const cli *c, const pawl_error *err)
{
    names n;
    if (err->status != PAWL_INVALID) return cli_fail(c, err);
    names_load(&n, NULL);
    const char *meant = zone_meant(&n, zone_wanted);
    int code = meant ? cli_usage(c, "there is no time zone \"%s\": did you mean %s?", zone_wanted, meant) : cli_fail(c, err);
    names_done(&n);
    return code;
}

int cmd_cron_zones(cli *c)
{
    names n;
    pawl_error err;
    answer a;
    const char *part = c->args_count ? c->args[0] : "";
    if (names_load(&n, &err)) {
        names_done(&n);
        return cli_fail(c, &err);
    }
    int code = 0;
    if (c->json) {
        cli_json_begin(c, &a);
        jsonw_object(&a.w);
        jsonw_key(&a.w, "zones");
        jsonw_array(&a.w);
    }
    for (size_t i = 0; i < n.count; i++) {
        if (!strcasestr(n.list[i], part)) continue;
        if (c->json) jsonw_string(&a.w, n.list[i]);
        else printf("%s\n", n.list[i]);
    }
    if (c->json) {
        jsonw_end_array(&a.w);
        jsonw_end_object(&a.w);
        code = cli_json_end(c, &a);
    }
    names_done(&n);
    return code;
}

/* ---- times --------------------------------------------------------------------------------------------------------------------- */

#define LOCAL_TEXT 40

/* "2026-03-29T03:00:00"; what is between date and time can be chosen. */
static void local_text(int64_t local_s, char between, char out[LOCAL_TEXT])
{
    int64_t days = (local_s - ZONE_FIRST_S) / DAY_S + ZONE_FIRST_S / DAY_S;
    int second = (int)(local_s - days * DAY_S);
    date d = date_from_days(days);
    snprintf(out, LOCAL_TEXT, "%04d-%02d-%02d%c%02d:%02d:%02d", d.year % 10000, d.month % 100, d.day % 100, between,
             second / 3600 % 100, second / 60 % 60, second % 60);
}

static void offset_text(int offset_s, char out[LOCAL_TEXT])
{
    int minutes = abs(offset_s) / 60;
    snprintf(out, LOCAL_TEXT, "%c%02d:%02d", offset_s < 0 ? '-' : '+', minutes / 60, minutes % 60);
}

/* "02:30", with seconds if it has any. */
static void clock_text(int64_t local_s, char out[LOCAL_TEXT])
{
    local_text(local_s, 'T', out);
    memmove(out, out + 11, 9);
    if (local_s % 60 == 0) out[5] = '\0';
}

static int64_t local_of(const cadence_due *due) { return due->at_us / PAWL_SECOND + due->offset_s; }

/* What a change of the clocks did to it; empty: nothing. */
static void note_text(const cadence *c, const cadence_due *due, buf *out)
{
    char missing[LOCAL_TEXT], time[LOCAL_TEXT], date[LOCAL_TEXT];
    bool first = cadence_overlap_of(c) == OVERLAP_FIRST;
    clock_text(local_of(due), time);
    clock_text(due->missing_s, missing);
    local_text(due->missing_s, '\0', date);
    buf_clear(out);
    if (due->skipped)
        buf_fmt(out, "clocks went forward before: %s on %s does not exist, left out%s", missing, date, due->note ? "; " : "");
    if (due->note == DUE_MOVED) buf_fmt(out, "clocks go forward: %s does not exist, runs at %s", missing, time);
    if (due->note == DUE_FIRST_OF_TWO)
        buf_fmt(out, "clocks go back: %s comes twice, %s", time, first ? "runs the first time only" : "this is the first");
    if (due->note == DUE_SECOND_OF_TWO) buf_fmt(out, "clocks go back: %s comes twice, this is the second", time);
}

typedef struct times {
    const cadence *cadence;
    const zone *zone;
    cadence_due due;
    int64_t left;
} times;

static bool times_next(times *t)
{
    if (t->left-- == 0) return false;
    int64_t at_us = t->due.at_us;
    return before ? cadence_prev(t->cadence, t->zone, at_us, &t->due) : cadence_next(t->cadence, t->zone, at_us, &t->due);
}

static int times_text(const cli *c, times *t, const char *canonical, const char *words)
{
    static const char *const weekdays[] = {"Sun", "Mon", "Tue", "Wed", "Thu", "Fri", "Sat"};
    table rows;
    buf note;
    int64_t now_us = cli_now_us();
    printf("%s%s%s  %s, %s\n\n", term_on(&c->term, BOLD), canonical, term_off(&c->term), words, zone_name(t->zone));
    buf_init(&note, alloc_default(), 4096);
    table_init(&rows, &c->term);
    table_column(&rows, "LOCAL TIME", COLUMN_LEFT);
    table_column(&rows, "UTC", COLUMN_LEFT);
    table_column(&rows, "WHEN", COLUMN_LEFT);
    table_column(&rows, "NOTE", COLUMN_FLEX);
    while (times_next(t)) {
        char local[LOCAL_TEXT], utc[LOCAL_TEXT], offset[LOCAL_TEXT], when[WHEN_TEXT];
        local_text(local_of(&t->due), ' ', local);
        local_text(t->due.at_us / PAWL_SECOND, ' ', utc);
        offset_text(t->due.offset_s, offset);
        when_relative(t->due.at_us, now_us, when);
        note_text(t->cadence, &t->due, &note);
        table_cell(&rows, PLAIN, "%s %s %s", weekdays[date_weekday((local_of(&t->due) + DAY_S) / DAY_S - 1)], local, offset);
        table_cell(&rows, DIM, "%s", utc);
        table_cell(&rows, DIM, "%s", when);
        table_cell(&rows, YELLOW, "%s", buf_text(&note));
    }
    buf_done(&note);
    bool whole = t->left < 0;
    if (!table_print(&rows, stdout)) return cli_no_memory(c);
    if (!whole) printf("\nNo %s.\n", before ? "earlier time since 1970" : "later time before the year 10000");
    return 0;
}

static void time_json(json_writer *w, const cadence *c, const cadence_due *due, buf *note)
{
    static const char *const words[] = {NULL, "moved", "first_of_two", "second_of_two"};
    char at[RFC3339_TEXT], local[LOCAL_TEXT], offset[LOCAL_TEXT], both[2 * LOCAL_TEXT];
    local_text(local_of(due), 'T', local);
    offset_text(due->offset_s, offset);
    snprintf(both, sizeof both, "%s%s", local, offset);
    note_text(c, due, note);
    jsonw_object(w);
    rfc3339_format(due->at_us, at);
    json_text(w, "at", at);
    json_text(w, "local", both);
    json_text(w, "change", words[due->note]);
    local_text(due->missing_s, 'T', local);
    json_text(w, "skipped", due->skipped ? local : NULL);
    json_text(w, "note", note->len ? buf_text(note) : NULL);
    jsonw_end_object(w);
}

static int times_json(const cli *c, times *t, const char *canonical, const char *words)
{
    answer a;
    buf note;
    buf_init(&note, alloc_default(), 4096);
    cli_json_begin(c, &a);
    jsonw_object(&a.w);
    json_text(&a.w, "expression", canonical);
    json_text(&a.w, "words", words);
    json_text(&a.w, "zone", zone_name(t->zone));
    json_text(&a.w, "gap", cadence_gap_of(t->cadence) == GAP_RUN ? "run" : "skip");
    json_text(&a.w, "overlap", cadence_overlap_of(t->cadence) == OVERLAP_FIRST ? "first" : "both");
    jsonw_key(&a.w, "times");
    jsonw_array(&a.w);
    while (times_next(t)) time_json(&a.w, t->cadence, &t->due, &note);
    jsonw_end_array(&a.w);
    jsonw_end_object(&a.w);
    buf_done(&note);
    return cli_json_end(c, &a);
}

int cmd_cron_next(cli *c)
{
    pawl_error err;
    cadence plan = {.repeats = false};
    zone *z = NULL;
    buf canonical, words;
    if (cron_parse(c->args[0], &plan.calendar, &err)) return cli_fail(c, &err);
    if (zone_load(alloc_default(), NULL, zone_wanted, &z, &err)) return zone_failed(c, &err);
    if (gap_word) plan.gap = gap_word[0] == 'r' ? GAP_RUN : GAP_SKIP;
    if (overlap_word) plan.overlap = overlap_word[0] == 'f' ? OVERLAP_FIRST : OVERLAP_BOTH;
    buf_init(&canonical, alloc_default(), CRON_MAX);
    buf_init(&words, alloc_default(), 16 << 10);
    cron_print(&plan.calendar, &canonical);
    calendar_words(&plan.calendar, &words);
    times t = {.cadence = &plan, .zone = z, .due.at_us = from_us >= 0 ? from_us : cli_now_us(), .left = count};
    int code = c->json ? times_json(c, &t, buf_text(&canonical), buf_text(&words))
                       : times_text(c, &t, buf_text(&canonical), buf_text(&words));
    buf_done(&canonical);
    buf_done(&words);
    zone_free(z);
    return code;
}
