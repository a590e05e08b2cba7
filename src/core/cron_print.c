/* The canonical form of a cron expression: the shortest usual way to write each field, names for months and weekdays, the week
 * beginning on Monday, seconds only where there are any.
 *
 * A step through all values, `*` with `/n`, means something else in a day or weekday beside another restriction (see cron.c). So there
 * it is written for what must be combined, and nowhere else.
 */
#include "base/check.h"
#include "core/cron.h"

typedef struct field_text {
    buf *out;
    int min, max;
    const char *(*name)(int); /* NULL: numbers */
    bool any;                 /* something was written */
} field_text;

static void item(field_text *t)
{
    if (t->any) buf_char(t->out, ',');
    t->any = true;
}

static void value(const field_text *t, int n)
{
    if (t->name) buf_str(t->out, t->name(n));
    else buf_fmt(t->out, "%d", n);
}

static int lowest(uint64_t set) { return __builtin_ctzll(set); }
static int highest(uint64_t set) { return 63 - __builtin_clzll(set); }

/* The step by which a set goes from its first to its last value; 0: it has fewer than `least`, or no such step. */
static int step_of(uint64_t set, int least)
{
    uint64_t rest = set & (set - 1);
    int n = 1, step = rest ? lowest(rest) - lowest(set) : 0, at = rest ? lowest(set) : 0;
    for (; rest; rest &= rest - 1, n++) {
        at += step;
        if (lowest(rest) != at) return 0;
    }
    return n >= least ? step : 0;
}

/* Whether it is all of `*` with this step. */
static bool is_star(uint64_t set, int min, int max, int step)
{
    return step > 1 && lowest(set) == min && highest(set) + step > max;
}

static void runs(field_text *t, uint64_t set)
{
    for (int n = t->min; n <= t->max; n++) {
        int end = n;
        if (!(set >> n & 1)) continue;
        while (end < t->max && (set >> (end + 1) & 1)) end++;
        if (end - n < 2) end = n;
        item(t);
        value(t, n);
        if (end > n) {
            buf_char(t->out, '-');
            value(t, end);
        }
        n = end;
    }
}

/* A field without specials. */
static void plain(field_text *t, uint64_t set, bool star_allowed)
{
    int step = step_of(set, 3);
    if (star_allowed && is_star(set, t->min, t->max, step)) {
        item(t);
        buf_fmt(t->out, "*/%d", step);
    } else if (step > 1 && !t->name) {
        item(t);
        int last = highest(set) + step > t->max ? t->max : highest(set);
        buf_fmt(t->out, "%d-%d/%d", lowest(set), last, step);
    } else runs(t, set);
}

static void clock_field(buf *out, uint64_t set, int max)
{
    field_text t = {.out = out, .max = max};
    if (step_of(set, max + 1) == 1) buf_char(out, '*');
    else plain(&t, set, true);
    buf_char(out, ' ');
}

/* ---- days and weekdays --------------------------------------------------------------------------------------------------------- */

static void day_specials(field_text *t, const calendar_days *d)
{
    for (uint32_t rest = d->from_last; rest; rest &= rest - 1) {
        item(t);
        buf_str(t->out, "L");
        if (lowest(rest)) buf_fmt(t->out, "-%d", lowest(rest));
    }
    for (uint32_t rest = d->near; rest; rest &= rest - 1) {
        item(t);
        buf_fmt(t->out, "%dW", lowest(rest));
    }
    for (uint32_t rest = d->near_last; rest; rest &= rest - 1) {
        item(t);
        buf_str(t->out, "L");
        if (lowest(rest)) buf_fmt(t->out, "-%d", lowest(rest));
        buf_char(t->out, 'W');
    }
}

static bool day_has_specials(const calendar_days *d) { return d->from_last || d->near || d->near_last; }

/* The day is what `*` with a step gives, as far as days of the month go. */
static bool day_is_star(const calendar_days *d) { return !day_has_specials(d) && is_star(d->days, 1, 31, step_of(d->days, 2)); }

static void day_field(buf *out, const calendar_days *d)
{
    field_text t = {.out = out, .min = 1, .max = 31};
    if (d->any_day) item(&t), buf_char(out, '*');
    else if (d->both && day_is_star(d)) buf_fmt(out, "*/%d", step_of(d->days, 2));
    else {
        if (d->days) plain(&t, d->days, d->any_weekday && !day_has_specials(d));
        day_specials(&t, d);
    }
    buf_char(out, ' ');
}

/* Sunday comes last: bit 7. */
static uint64_t from_monday(uint8_t weekdays) { return (weekdays & 0x7e) | (uint64_t)(weekdays & 1) << 7; }

static void weekday_field(buf *out, const calendar_days *d)
{
    field_text t = {.out = out, .min = 1, .max = 7, .name = cron_weekday};
    if (d->any_weekday) buf_char(out, '*');
    else if (d->both && !day_is_star(d)) buf_fmt(out, "*/%d", step_of(d->weekdays, 2));
    else {
        runs(&t, from_monday(d->weekdays));
        for (int n = 0; n < 5; n++) {
            for (uint64_t rest = from_monday(d->nth[n]); rest; rest &= rest - 1) {
                item(&t);
                buf_fmt(out, "%s#%d", cron_weekday(lowest(rest)), n + 1);
            }
        }
        for (uint64_t rest = from_monday(d->last); rest; rest &= rest - 1) {
            item(&t);
            buf_fmt(out, "%sL", cron_weekday(lowest(rest)));
        }
    }
}

void cron_print(const calendar *c, buf *out)
{
    const calendar_times *times = &c->times;
    field_text months = {.out = out, .min = 1, .max = 12, .name = cron_month};
    CHECK(times->count == 0 && !c->days.clamp && !c->days.pick);
    if (times->seconds != 1) clock_field(out, times->seconds, 59);
    clock_field(out, times->minutes, 59);
    clock_field(out, times->hours, 23);
    day_field(out, &c->days);
    if (c->days.months == 0x1ffe) buf_char(out, '*');
    else plain(&months, c->days.months, true);
    buf_char(out, ' ');
    weekday_field(out, &c->days);
}
