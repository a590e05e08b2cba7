/* Schedules: their rules made ready, and their occurrences. See schedule.h. */
#include "core/schedule.h"
#include "base/date.h"
#include "base/error.h"
#include "base/text.h"
#include "core/cron.h"
#include <string.h>

#define JUMPS_MAX 4000 /* exclusions in a row: then it never fires */
#define LAST_US (ZONE_LAST_S * PAWL_SECOND)

_Static_assert(sizeof((calendar_plan){0}.times_s) == sizeof((pawl_plan){0}.times_s), "one is copied to the other");

/* ---- reading dates and times ------------------------------------------------------------------------------------------------- */

static bool digits(const char **at, int count, int64_t *out)
{
    *out = 0;
    for (; count > 0; count--, (*at)++) {
        if (**at < '0' || **at > '9') return false;
        *out = *out * 10 + (**at - '0');
    }
    return true;
}

static bool read_day(const char **at, int64_t *days)
{
    int64_t year, month, day;
    if (!digits(at, 4, &year) || *(*at)++ != '-' || !digits(at, 2, &month) || *(*at)++ != '-' || !digits(at, 2, &day))
        return false;
    if (year < 1970 || month < 1 || month > 12 || day < 1 || day > date_month_days((int)year, (int)month)) return false;
    *days = date_to_days((date){(int)year, (int)month, (int)day});
    return true;
}

static bool read_dates(const char *text, schedule_span *out)
{
    if (!read_day(&text, &out->from)) return false;
    out->until = out->from;
    if (*text == '/' && (text++, !read_day(&text, &out->until))) return false;
    return *text == '\0' && out->until >= out->from;
}

static bool read_time(const char **at, int64_t *second)
{
    int64_t hour, minute;
    if (!digits(at, 2, &hour) || *(*at)++ != ':' || !digits(at, 2, &minute)) return false;
    *second = hour * 3600 + minute * 60;
    return minute < 60 && *second <= DAY_S;
}

static bool read_window(const char *text, schedule_span *out)
{
    return read_time(&text, &out->from) && *text++ == '-' && read_time(&text, &out->until) && *text == '\0' &&
           out->from != out->until && out->from < DAY_S;
}

/* ---- compiling --------------------------------------------------------------------------------------------------------------- */

int64_t schedule_anchor(const pawl_schedule *s, int64_t now_us)
{
    bool once = !s->cron && !s->every && !s->plan && !s->after;
    if (s->start_us) return once && s->start_us < now_us ? now_us : s->start_us;
    return s->start_in_us > 0 && s->start_in_us < LAST_US - now_us ? now_us + s->start_in_us : now_us;
}

static pawl_status compile_cadence(const pawl_schedule *s, schedule_rule *r, pawl_error *err)
{
    int said = (s->cron != NULL) + (s->every != 0) + (s->plan != NULL) + (s->after != NULL);
    if (said > 1)
        return err_set(err, PAWL_INVALID, "schedule '%s' has several of cron, every, plan and after: it can have one", s->name);
    r->once = said == 0;
    r->after = s->after != NULL;
    r->when.gap = (cadence_gap)s->gap;
    r->when.overlap = (cadence_overlap)s->twice;
    if (s->cron) return cron_parse(s->cron, &r->when.calendar, err);
    if (s->every) {
        r->when.repeats = true;
        r->when.every = (interval){.unit = (cadence_unit)s->unit, .count = s->every, .start_us = r->anchor_us};
        return interval_check(&r->when.every, err);
    }
    if (!s->plan) return PAWL_OK;
    calendar_plan plan = {.times = s->plan->times,
                          .weekdays = s->plan->weekdays,
                          .month_days = s->plan->month_days,
                          .months = s->plan->months,
                          .nth = s->plan->nth};
    memcpy(plan.times_s, s->plan->times_s, sizeof plan.times_s);
    return calendar_build(&plan, &r->when.calendar, err);
}

static pawl_status compile_exclusions(const pawl_schedule *s, schedule_rule *r, pawl_error *err)
{
    if (s->not_weekdays >= 0x7f)
        return err_set(err, PAWL_INVALID, "schedule '%s' would never fire: every weekday is excluded", s->name);
    r->not_weekdays = s->not_weekdays;
    for (const char *const *at = s->not_dates; at && *at; at++) {
        if (r->dates_count == PAWL_SCHEDULE_DATES)
            return err_set(err, PAWL_INVALID, "schedule '%s' excludes more than %d dates", s->name, PAWL_SCHEDULE_DATES);
        if (!read_dates(*at, &r->dates[r->dates_count++]))
            return err_set(err, PAWL_INVALID,
                           "schedule '%s' cannot exclude '%s': write a date like 2026-12-25, or 2026-12-24/2027-01-01", s->name,
                           *at);
    }
    for (const char *const *at = s->not_times; at && *at; at++) {
        if (r->windows_count == PAWL_SCHEDULE_WINDOWS)
            return err_set(err, PAWL_INVALID, "schedule '%s' excludes more than %d windows", s->name, PAWL_SCHEDULE_WINDOWS);
        if (!read_window(*at, &r->windows[r->windows_count++]))
            return err_set(err, PAWL_INVALID, "schedule '%s' cannot exclude '%s': write times like 12:00-13:00 or 22:00-06:00",
                           s->name, *at);
    }
    return PAWL_OK;
}

static pawl_status check_ranges(const pawl_schedule *s, pawl_error *err)
{
    if (s->gap < 0 || s->gap > PAWL_GAP_SKIP || s->twice < 0 || s->twice > PAWL_TWICE_BOTH || s->missed < 0 ||
        s->missed > PAWL_MISSED_ALL || s->overlap < 0 || s->overlap > PAWL_OVERLAP_ALLOW)
        return err_set(err, PAWL_INVALID, "schedule '%s' has a policy that does not exist", s->name);
    if (s->start_now + (s->start_in_us != 0) + (s->start_us != 0) > 1)
        return err_set(err, PAWL_INVALID, "schedule '%s' has several starts: it can have one", s->name);
    if (s->start_us < 0 || s->start_us >= LAST_US || s->start_in_us < 0 || s->until_us < 0 || s->max_runs < 0 ||
        s->variance_us < 0 || s->variance_us > PAWL_DAY || s->catch_up < 0 || s->catch_up > SCHEDULE_CATCH_UP)
        return err_set(
            err, PAWL_INVALID,
            "schedule '%s' has a number out of range (start, until, max_runs, catch_up up to %d, variance up to a day)", s->name,
            SCHEDULE_CATCH_UP);
    if (s->after && (s->start_now || s->start_in_us || s->start_us || s->until_us || s->variance_us))
        return err_set(err, PAWL_INVALID, "schedule '%s' runs after '%s': it has no start, no end and no variance", s->name,
                       s->after);
    return PAWL_OK;
}

/* Between two occurrences an occurrence must fire, however late it chooses. */
static pawl_status check_variance(const pawl_schedule *s, const schedule_rule *r, pawl_error *err)
{
    int64_t at_us = r->anchor_us - 1, next_us;
    for (int i = 0; r->variance_us > 0 && i < 10 && schedule_next(r, at_us, &next_us); i++, at_us = next_us)
        if (i > 0 && next_us - at_us <= r->variance_us)
            return err_set(err, PAWL_INVALID, "the variance of schedule '%s' is longer than from one occurrence to the next",
                           s->name);
    return PAWL_OK;
}

pawl_status schedule_compile(const pawl_schedule *s, const zone *z, int64_t anchor_us, schedule_rule *r, pawl_error *err)
{
    memset(r, 0, sizeof *r);
    r->zone = z;
    r->anchor_us = anchor_us;
    r->has_start = s->start_now || s->start_in_us || s->start_us;
    r->until_us = s->until_us ? s->until_us : INT64_MAX;
    r->variance_us = s->variance_us;
    r->max_runs = s->max_runs;
    r->missed = s->missed;
    r->catch_up = s->catch_up ? s->catch_up : SCHEDULE_CATCH_UP;
    r->overlap = s->overlap ? s->overlap : s->missed == PAWL_MISSED_ALL ? PAWL_OVERLAP_ALLOW : PAWL_OVERLAP_FORBID;
    pawl_status status = check_ranges(s, err);
    if (!status) status = compile_cadence(s, r, err);
    if (!status) status = compile_exclusions(s, r, err);
    return status ? status : check_variance(s, r, err);
}

/* ---- exclusions -------------------------------------------------------------------------------------------------------------- */

/* Local seconds [from, until) of the exclusion that holds at `local`; false: none does. */
static bool excluded_span(const schedule_rule *r, int64_t local_s, schedule_span *span)
{
    int64_t day = (local_s - (local_s % DAY_S + DAY_S) % DAY_S) / DAY_S, today_s = day * DAY_S, second = local_s - today_s;
    if (r->not_weekdays >> date_weekday(day) & 1) {
        *span = (schedule_span){today_s, today_s + DAY_S};
        return true;
    }
    for (int i = 0; i < r->dates_count; i++) {
        if (day < r->dates[i].from || day > r->dates[i].until) continue;
        *span = (schedule_span){r->dates[i].from * DAY_S, (r->dates[i].until + 1) * DAY_S};
        return true;
    }
    for (int i = 0; i < r->windows_count; i++) {
        int64_t from = r->windows[i].from, until = r->windows[i].until;
        if (from > until && second < until) from -= DAY_S; /* since yesterday */
        else if (from > until) until += DAY_S;
        if (second < from || second >= until) continue;
        *span = (schedule_span){today_s + from, today_s + until};
        return true;
    }
    return false;
}

/* false: nothing excludes it. Otherwise nothing in [*from, *until), which it lies in, is an occurrence. That ends where clocks are changed:
 * they may then show again what lies before the exclusion, or behind it. */
static bool excluded(const schedule_rule *r, int64_t at_us, int64_t *from_us, int64_t *until_us)
{
    schedule_span span;
    if (!r->not_weekdays && r->dates_count == 0 && r->windows_count == 0) return false;
    zone_span clock = zone_at(r->zone, at_us / PAWL_SECOND);
    if (!excluded_span(r, at_us / PAWL_SECOND + clock.offset_s, &span)) return false;
    int64_t from_s = span.from - clock.offset_s, until_s = span.until - clock.offset_s;
    *from_us = (from_s > clock.from_s ? from_s : clock.from_s) * PAWL_SECOND;
    *until_us = (until_s < clock.until_s ? until_s : clock.until_s) * PAWL_SECOND;
    return true;
}

/* ---- occurrences ------------------------------------------------------------------------------------------------------------- */

static bool candidate(const schedule_rule *r, int64_t after_us, int64_t *at_us)
{
    cadence_due due;
    if ((r->has_start || r->once) && after_us < r->anchor_us) {
        *at_us = r->anchor_us;
        return !r->after;
    }
    if (r->once || r->after) return false;
    if (!cadence_next(&r->when, r->zone, after_us > r->anchor_us ? after_us : r->anchor_us, &due)) return false;
    *at_us = due.at_us;
    return true;
}

bool schedule_next(const schedule_rule *r, int64_t after_us, int64_t *at_us)
{
    int64_t at, from_us, resume_us;
    for (int i = 0; i < JUMPS_MAX && candidate(r, after_us, &at) && at < r->until_us; i++) {
        if (!excluded(r, at, &from_us, &resume_us)) {
            *at_us = at;
            return true;
        }
        after_us = resume_us - 1;
    }
    return false;
}

bool schedule_prev(const schedule_rule *r, int64_t before_us, int64_t *at_us)
{
    int64_t until_us;
    cadence_due due;
    if (before_us > r->until_us) before_us = r->until_us;
    if (r->once || r->after) return false;
    for (int i = 0; i < JUMPS_MAX && cadence_prev(&r->when, r->zone, before_us, &due) && due.at_us >= r->anchor_us; i++) {
        *at_us = due.at_us;
        if (!excluded(r, due.at_us, &before_us, &until_us)) return true;
    }
    return false;
}

void schedule_words(const schedule_rule *r, const char *after, buf *out)
{
    if (r->after) buf_fmt(out, "after each success of '%s'", after);
    else if (r->once) buf_str(out, "once");
    else cadence_words(&r->when, out);
}
