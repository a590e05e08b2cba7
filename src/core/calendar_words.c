/* Calendars in English: the times, then the days. */
#include "core/calendar.h"
#include <string.h>

#define CLOCK_TIMES 6 /* so many times a day, and no more, are told one by one */

static const char *const month_words[] = {"",     "January", "February",  "March",   "April",    "May",     "June",
                                          "July", "August",  "September", "October", "November", "December"};
static const char *const weekday_words[] = {"Sunday",   "Monday", "Tuesday",  "Wednesday",
                                            "Thursday", "Friday", "Saturday", "Sunday"};
static const char *const nth_words[] = {"", "first", "second", "third", "fourth", "fifth"};

/* ---- lists --------------------------------------------------------------------------------------------------------------------- */

/* "a, b and c": the items are told twice, first only to be counted. */
typedef struct series {
    buf *out; /* NULL: counting */
    int count, done;
    const char *last; /* between the last two: " and ", " or " */
} series;

static bool next_item(series *s)
{
    if (!s->out) {
        s->count++;
        return false;
    }
    if (s->done > 0) buf_str(s->out, s->done == s->count - 1 ? s->last : ", ");
    s->done++;
    return true;
}

typedef void (*series_fn)(series *s, const void *what);

static void tell(buf *out, series_fn items, const void *what, const char *last)
{
    series s = {.last = last};
    items(&s, what);
    s.out = out;
    items(&s, what);
}

static void ordinal(int n, const char *suffix, buf *out)
{
    static const char *const ends[] = {"th", "st", "nd", "rd"};
    int digit = n % 10;
    buf_fmt(out, "%d%s%s", n, ends[digit <= 3 && n / 10 != 1 ? digit : 0], suffix);
}

/* ---- numbers ------------------------------------------------------------------------------------------------------------------- */

typedef struct numbers {
    uint64_t set;
    void (*word)(int n, buf *out);
    void (*run_word)(int n, buf *out); /* in "a to b"; NULL: the same */
} numbers;

static void plain_number(int n, buf *out) { buf_fmt(out, "%d", n); }
static void month_word(int n, buf *out) { buf_str(out, month_words[n]); }
static void weekday_word(int n, buf *out) { buf_str(out, weekday_words[n]); }
static void weekday_plural(int n, buf *out) { buf_fmt(out, "%ss", weekday_words[n]); }
static void day_word(int n, buf *out)
{
    buf_str(out, "the ");
    ordinal(n, "", out);
}

static void number_run(const numbers *n, int from, int to, buf *out)
{
    void (*word)(int, buf *) = from < to && n->run_word ? n->run_word : n->word;
    word(from, out);
    if (from == to) return;
    buf_str(out, " to ");
    word(to, out);
}

static void number_items(series *s, const void *what)
{
    const numbers *n = what;
    for (int i = 0; i < 60; i++) {
        int end = i;
        if (!(n->set >> i & 1)) continue;
        while (n->set >> (end + 1) & 1) end++;
        if (end - i < 2) end = i;
        if (next_item(s)) number_run(n, i, end, s->out);
        i = end;
    }
}

static int count_bits(uint64_t set)
{
    int n = 0;
    for (; set; set &= set - 1) n++;
    return n;
}

/* The step of a set that begins at 0, has no end before `size` and comes round evenly; 0: it is none. */
static int even_step(uint64_t set, int size)
{
    int n = count_bits(set);
    uint64_t expected = 0;
    if (n < 2 || size % n) return 0;
    for (int i = 0; i < n; i++) expected |= UINT64_C(1) << (i * (size / n));
    return set == expected ? size / n : 0;
}

/* ---- times --------------------------------------------------------------------------------------------------------------------- */

static void clock_item(series *s, int second)
{
    if (!next_item(s)) return;
    buf_fmt(s->out, "%02d:%02d", second / 3600, second / 60 % 60);
    if (second % 60) buf_fmt(s->out, ":%02d", second % 60);
}

static void clock_items(series *s, const void *what)
{
    const calendar_times *t = what;
    for (int i = 0; i < t->count; i++) clock_item(s, t->list_s[i]);
    if (t->count) return;
    for (uint64_t hours = t->hours; hours; hours &= hours - 1)
        for (uint64_t minutes = t->minutes; minutes; minutes &= minutes - 1)
            clock_item(s, __builtin_ctzll(hours) * 3600 + __builtin_ctzll(minutes) * 60 + __builtin_ctzll(t->seconds));
}

static bool few(const calendar_times *t)
{
    return t->count || (count_bits(t->seconds) == 1 && count_bits(t->hours) * count_bits(t->minutes) <= CLOCK_TIMES);
}

static void unit(buf *out, const char *before, const char *name, uint64_t set)
{
    buf_fmt(out, "%s%s%s ", before, name, count_bits(set) > 1 ? "s" : "");
    tell(out, number_items, &(numbers){set, plain_number, NULL}, " and ");
}

static void every(buf *out, int n, const char *name)
{
    if (n == 1) buf_fmt(out, "every %s", name);
    else buf_fmt(out, "every %d %ss", n, name);
}

/* Seconds and minutes; true: it is a repetition that goes on by itself, "every 5 minutes". */
static bool minutes_words(const calendar_times *t, buf *out)
{
    int seconds = even_step(t->seconds, 60), minutes = even_step(t->minutes, 60);
    if (t->seconds == 1) {
        if (minutes) every(out, minutes, "minute");
        else unit(out, "at ", "minute", t->minutes);
        return minutes;
    }
    if (seconds) every(out, seconds, "second");
    else unit(out, "at ", "second", t->seconds);
    if (minutes == 1) {
        if (!seconds) buf_str(out, " of every minute");
        return true;
    }
    unit(out, " of ", "minute", t->minutes);
    return false;
}

static bool is_run(uint64_t set)
{
    uint64_t shifted = set >> __builtin_ctzll(set);
    return (shifted & (shifted + 1)) == 0;
}

static void hours_words(uint64_t hours, bool repeats, buf *out)
{
    if (hours == 0xffffff) {
        if (!repeats) buf_str(out, " of every hour");
    } else if (repeats && is_run(hours))
        buf_fmt(out, " from %02d:00 to %02d:59", __builtin_ctzll(hours), 63 - __builtin_clzll(hours));
    else unit(out, repeats ? " in " : " of ", "hour", hours);
}

/* Returns whether that leaves open on which days. */
static bool times_words(const calendar_times *t, buf *out)
{
    bool on_the_hour = !t->count && t->seconds == 1 && t->minutes == 1;
    if (on_the_hour && even_step(t->hours, 24) && count_bits(t->hours) > 2) {
        every(out, even_step(t->hours, 24), "hour");
        return false;
    }
    if (few(t)) {
        buf_str(out, "at ");
        tell(out, clock_items, t, " and ");
        return true;
    }
    hours_words(t->hours, minutes_words(t, out), out);
    return t->hours != 0xffffff;
}

/* ---- days ---------------------------------------------------------------------------------------------------------------------- */

static uint64_t from_monday(uint8_t weekdays) { return (weekdays & 0x7e) | (uint64_t)(weekdays & 1) << 7; }

static bool all_months(const calendar_days *d) { return d->months == 0x1ffe; }

static void of_month(const calendar_days *d, buf *out)
{
    if (all_months(d)) buf_str(out, " of the month");
    else {
        buf_str(out, " of ");
        tell(out, number_items, &(numbers){d->months, month_word, NULL}, " and ");
    }
}

static void before_last(int n, buf *out)
{
    if (n == 0) buf_str(out, "the last day");
    else buf_fmt(out, "%d day%s before the last", n, n == 1 ? "" : "s");
}

static void date_items(series *s, const void *what)
{
    const calendar_days *d = what;
    number_items(s, &(numbers){d->days, day_word, NULL});
    for (uint32_t rest = d->from_last; rest; rest &= rest - 1)
        if (next_item(s)) before_last(__builtin_ctz(rest), s->out);
    for (uint32_t rest = d->near; rest; rest &= rest - 1)
        if (next_item(s)) {
            buf_str(s->out, "the working day nearest the ");
            ordinal(__builtin_ctz(rest), "", s->out);
        }
    for (uint32_t rest = d->near_last; rest; rest &= rest - 1)
        if (next_item(s)) {
            buf_str(s->out, rest & 1 ? "the last working day" : "the working day nearest ");
            if (!(rest & 1)) before_last(__builtin_ctz(rest), s->out);
        }
}

/* The step through a whole month, from its first day; 0: the days are something else. */
static int month_step(const calendar_days *d)
{
    uint32_t expected = 0, rest = d->days & ~UINT32_C(2);
    int step = (d->days & 2) && rest ? __builtin_ctz(rest) - 1 : 0;
    if (step < 2 || d->from_last || d->near || d->near_last || count_bits(d->days) < 3) return 0;
    for (int i = 1; i <= 31; i += step) expected |= UINT32_C(1) << i;
    return d->days == expected ? step : 0;
}

static void dates_words(const calendar_days *d, buf *out)
{
    int step = month_step(d);
    if (step) {
        buf_str(out, " on every ");
        ordinal(step, " day from the 1st", out);
    } else {
        buf_str(out, " on ");
        tell(out, date_items, d, " and ");
    }
    of_month(d, out);
    if (d->clamp && d->days >> 29) buf_str(out, " (or the last day of a shorter month)");
}

static void nth_items(series *s, const char *which, uint8_t weekdays)
{
    for (uint64_t rest = from_monday(weekdays); rest; rest &= rest - 1)
        if (next_item(s)) buf_fmt(s->out, "the %s %s", which, weekday_words[__builtin_ctzll(rest)]);
}

static void weekday_items(series *s, const void *what)
{
    const calendar_days *d = what;
    number_items(s, &(numbers){from_monday(d->weekdays), weekday_plural, weekday_word});
    for (int n = 1; n <= 5; n++) nth_items(s, nth_words[n], d->nth[n - 1]);
    nth_items(s, "last", d->last);
}

static bool counts_weekdays(const calendar_days *d)
{
    uint8_t any = d->last;
    for (int n = 0; n < 5; n++) any |= d->nth[n];
    return any;
}

static void weekdays_words(const calendar_days *d, buf *out)
{
    buf_str(out, " on ");
    tell(out, weekday_items, d, " and ");
    if (counts_weekdays(d)) of_month(d, out);
    else if (!all_months(d)) {
        buf_str(out, " in ");
        tell(out, number_items, &(numbers){d->months, month_word, NULL}, " and ");
    }
}

static void pick_words(int n, buf *out)
{
    if (n == 0) return;
    buf_str(out, ", but only on the ");
    if (n == 1) buf_str(out, "first");
    else if (n == -1) buf_str(out, "last");
    else ordinal(n > 0 ? n : -n, n > 0 ? "" : " to last", out);
    buf_str(out, " such day of a month");
}

static void days_words(const calendar_days *d, bool tell_every_day, buf *out)
{
    if (d->any_day && d->any_weekday) {
        if (tell_every_day) buf_str(out, " every day");
        if (all_months(d)) return;
        buf_str(out, " in ");
        tell(out, number_items, &(numbers){d->months, month_word, NULL}, " and ");
    } else if (d->any_day) weekdays_words(d, out);
    else {
        dates_words(d, out);
        if (d->any_weekday) return;
        if (d->both) {
            buf_str(out, " if it is a ");
            tell(out, number_items, &(numbers){from_monday(d->weekdays), weekday_word, NULL}, " or ");
        } else {
            buf_str(out, ", and also");
            weekdays_words(d, out);
        }
    }
}

void calendar_words(const calendar *c, buf *out)
{
    bool on_clock = times_words(&c->times, out);
    days_words(&c->days, on_clock, out);
    pick_words(c->days.pick, out);
}
