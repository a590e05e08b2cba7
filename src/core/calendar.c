#include "core/calendar.h"
#include "base/check.h"
#include "base/date.h"
#include "base/error.h"
#include "base/zone.h"

#define ALL_DAYS 0xfffffffeu
#define ALL_MONTHS 0x1ffe
#define ALL_WEEKDAYS 0x7f
#define SEVENTHS 0x10204081u /* bits 0, 7, 14, 21, 28 */

/* ---- the days of a month ------------------------------------------------------------------------------------------------------- */

typedef struct month {
    int year, month;
    int length;
    int weekday; /* of the first */
} month;

static month month_of(int year, int number)
{
    return (month){year, number, date_month_days(year, number), date_weekday(date_to_days((date){year, number, 1}))};
}

static uint32_t month_mask(const month *m) { return (uint32_t)((UINT64_C(1) << (m->length + 1)) - 2); }

static uint32_t day_bit(const month *m, int day) { return day >= 1 && day <= m->length ? UINT32_C(1) << day : 0; }

/* The first day of the month on this weekday. */
static int first_on(const month *m, int weekday) { return 1 + (weekday - m->weekday + 7) % 7; }

/* The working day nearest a day; no day: none. */
static uint32_t nearest(const month *m, int day)
{
    if (!day_bit(m, day)) return 0;
    int weekday = (m->weekday + day - 1) % 7;
    if (weekday == 6) return day_bit(m, day == 1 ? 3 : day - 1);
    if (weekday == 0) return day_bit(m, day == m->length ? day - 2 : day + 1);
    return day_bit(m, day);
}

static uint32_t dates_of(const calendar_days *d, const month *m)
{
    uint32_t mask = month_mask(m), fit = d->days & mask;
    if (d->clamp && (d->days & ~mask)) fit |= day_bit(m, m->length);
    for (uint32_t rest = d->from_last; rest; rest &= rest - 1) fit |= day_bit(m, m->length - __builtin_ctz(rest));
    for (uint32_t rest = d->near; rest; rest &= rest - 1) fit |= nearest(m, __builtin_ctz(rest));
    for (uint32_t rest = d->near_last; rest; rest &= rest - 1) fit |= nearest(m, m->length - __builtin_ctz(rest));
    return fit;
}

static uint32_t weekdays_of(const calendar_days *d, const month *m)
{
    uint32_t fit = 0;
    for (int weekday = 0; weekday < 7; weekday++) {
        int first = first_on(m, weekday), bit = 1 << weekday;
        if (d->weekdays & bit) fit |= SEVENTHS << first;
        for (int n = 0; n < 5; n++)
            if (d->nth[n] & bit) fit |= day_bit(m, first + 7 * n);
        if (d->last & bit) fit |= day_bit(m, first + (m->length - first) / 7 * 7);
    }
    return fit & month_mask(m);
}

/* Leaves one bit: the n-th from below, or from above if negative. */
static uint32_t pick(uint32_t days, int n)
{
    for (; n > 1 && days; n--) days &= days - 1;
    for (; n < -1 && days; n++) days &= ~(UINT32_C(1) << (31 - __builtin_clz(days)));
    if (!days) return 0;
    return n > 0 ? days & -days : UINT32_C(1) << (31 - __builtin_clz(days));
}

uint32_t calendar_month(const calendar_days *d, int year, int number)
{
    if (!(d->months >> number & 1)) return 0;
    month m = month_of(year, number);
    uint32_t fit;
    if (d->any_day && d->any_weekday) fit = month_mask(&m);
    else if (d->any_weekday) fit = dates_of(d, &m);
    else if (d->any_day) fit = weekdays_of(d, &m);
    else if (d->both) fit = dates_of(d, &m) & weekdays_of(d, &m);
    else fit = dates_of(d, &m) | weekdays_of(d, &m);
    return d->pick ? pick(fit, d->pick) : fit;
}

/* 28 years have every kind of year that there is. */
bool calendar_possible(const calendar_days *d)
{
    for (int i = 0; i < 28 * 12; i++)
        if (calendar_month(d, 2000 + i / 12, 1 + i % 12)) return true;
    return false;
}

/* ---- the times of a day -------------------------------------------------------------------------------------------------------- */

/* The first bit at or above n, the last at or below it; -1: none. n is at most 60. */
static int bit_from(uint64_t bits, int n)
{
    bits &= ~UINT64_C(0) << n;
    return bits ? __builtin_ctzll(bits) : -1;
}

static int bit_to(uint64_t bits, int n)
{
    if (n < 0) return -1;
    bits &= (UINT64_C(2) << n) - 1;
    return bits ? 63 - __builtin_clzll(bits) : -1;
}

static int list_next(const calendar_times *t, int second)
{
    for (int i = 0; i < t->count; i++)
        if (t->list_s[i] >= second) return t->list_s[i];
    return -1;
}

static int list_prev(const calendar_times *t, int second)
{
    for (int i = t->count - 1; i >= 0; i--)
        if (t->list_s[i] <= second) return t->list_s[i];
    return -1;
}

static int clock_s(int hour, int minute, int second) { return hour * 3600 + minute * 60 + second; }

/* The first time of the day at or after a second of the day; -1: none. */
static int time_next(const calendar_times *t, int second)
{
    if (t->count) return list_next(t, second);
    int hour = bit_from(t->hours, second / 3600);
    if (hour < 0) return -1;
    if (hour == second / 3600) {
        int minute = bit_from(t->minutes, second / 60 % 60);
        int rest = minute == second / 60 % 60 ? bit_from(t->seconds, second % 60) : -1;
        if (rest >= 0) return clock_s(hour, minute, rest);
        if (minute == second / 60 % 60) minute = bit_from(t->minutes, minute + 1);
        if (minute >= 0) return clock_s(hour, minute, bit_from(t->seconds, 0));
        hour = bit_from(t->hours, hour + 1);
        if (hour < 0) return -1;
    }
    return clock_s(hour, bit_from(t->minutes, 0), bit_from(t->seconds, 0));
}

static int time_prev(const calendar_times *t, int second)
{
    if (t->count) return list_prev(t, second);
    int hour = bit_to(t->hours, second / 3600);
    if (hour < 0) return -1;
    if (hour == second / 3600) {
        int minute = bit_to(t->minutes, second / 60 % 60);
        int rest = minute == second / 60 % 60 ? bit_to(t->seconds, second % 60) : -1;
        if (rest >= 0) return clock_s(hour, minute, rest);
        if (minute == second / 60 % 60) minute = bit_to(t->minutes, minute - 1);
        if (minute >= 0) return clock_s(hour, minute, bit_to(t->seconds, 59));
        hour = bit_to(t->hours, hour - 1);
        if (hour < 0) return -1;
    }
    return clock_s(hour, bit_to(t->minutes, 59), bit_to(t->seconds, 59));
}

/* A list is too short for that. */
bool calendar_every_hour(const calendar *c) { return !c->times.count && c->times.hours == 0xffffff; }

/* ---- searching ----------------------------------------------------------------------------------------------------------------- */

typedef struct moment {
    date day;
    int second;
} moment;

static moment moment_of(int64_t local_s)
{
    int64_t days = (local_s - ZONE_FIRST_S) / DAY_S + ZONE_FIRST_S / DAY_S;
    return (moment){date_from_days(days), (int)(local_s - days * DAY_S)};
}

static int64_t seconds_of(date day, int second) { return date_to_days(day) * DAY_S + second; }

bool calendar_next(const calendar *c, int64_t local_s, int64_t *at_s)
{
    if (local_s >= ZONE_LAST_S) return false;
    moment from = moment_of(local_s < ZONE_FIRST_S ? ZONE_FIRST_S : local_s);
    int today = time_next(&c->times, from.second), first = time_next(&c->times, 0);
    CHECK(first >= 0);
    uint32_t fit = calendar_month(&c->days, from.day.year, from.day.month) & (~UINT32_C(0) << from.day.day);
    if (today >= 0 && (fit >> from.day.day & 1)) {
        *at_s = seconds_of(from.day, today);
        return true;
    }
    fit &= ~(UINT32_C(1) << from.day.day);
    for (int year = from.day.year, number = from.day.month; year <= 9999;) {
        if (fit) {
            *at_s = seconds_of((date){year, number, __builtin_ctz(fit)}, first);
            return true;
        }
        if (++number > 12) year++, number = 1;
        fit = calendar_month(&c->days, year, number);
    }
    return false;
}

bool calendar_prev(const calendar *c, int64_t local_s, int64_t *at_s)
{
    if (local_s < ZONE_FIRST_S) return false;
    moment from = moment_of(local_s >= ZONE_LAST_S ? ZONE_LAST_S - 1 : local_s);
    int today = time_prev(&c->times, from.second), last = time_prev(&c->times, DAY_S - 1);
    CHECK(last >= 0);
    uint32_t fit = calendar_month(&c->days, from.day.year, from.day.month) & ((UINT32_C(2) << from.day.day) - 1);
    if (today >= 0 && (fit >> from.day.day & 1)) {
        *at_s = seconds_of(from.day, today);
        return true;
    }
    fit &= ~(UINT32_C(1) << from.day.day);
    for (int year = from.day.year, number = from.day.month; year >= 1600;) {
        if (fit) {
            *at_s = seconds_of((date){year, number, 31 - __builtin_clz(fit)}, last);
            return true;
        }
        if (--number < 1) year--, number = 12;
        fit = calendar_month(&c->days, year, number);
    }
    return false;
}

/* ---- plans --------------------------------------------------------------------------------------------------------------------- */

static pawl_status check_plan(const calendar_plan *p, pawl_error *err)
{
    if (p->times < 0 || p->times > CALENDAR_TIMES)
        return err_set(err, PAWL_INVALID, "a calendar has %d times a day: at most %d, or use a cron expression", p->times,
                       CALENDAR_TIMES);
    for (int i = 0; i < p->times; i++)
        if (p->times_s[i] < 0 || p->times_s[i] >= DAY_S)
            return err_set(err, PAWL_INVALID, "%d is no second of the day: write 0 to 86399", p->times_s[i]);
    if (p->weekdays & ~ALL_WEEKDAYS) return err_set(err, PAWL_INVALID, "weekdays are bits 0 (Sunday) to 6 (Saturday)");
    if (p->month_days & ~ALL_DAYS) return err_set(err, PAWL_INVALID, "days of the month are bits 1 to 31");
    if (p->months & ~ALL_MONTHS) return err_set(err, PAWL_INVALID, "months are bits 1 to 12");
    if (p->nth < -31 || p->nth > 31)
        return err_set(err, PAWL_INVALID, "no month has a day number %d: write 1 to 31, or -1 to -31", p->nth);
    return PAWL_OK;
}

/* Rising, each once. */
static void fill_times(calendar_times *t, const calendar_plan *p)
{
    *t = (calendar_times){.count = 0};
    for (int i = 0; i < p->times; i++) {
        int k = t->count;
        while (k > 0 && t->list_s[k - 1] >= p->times_s[i]) k--;
        if (k < t->count && t->list_s[k] == p->times_s[i]) continue;
        for (int n = t->count++; n > k; n--) t->list_s[n] = t->list_s[n - 1];
        t->list_s[k] = p->times_s[i];
    }
    if (t->count == 0) t->count = 1;
}

pawl_status calendar_build(const calendar_plan *p, calendar *out, pawl_error *err)
{
    calendar c;
    pawl_status status = check_plan(p, err);
    if (status) return status;
    fill_times(&c.times, p);
    c.days = (calendar_days){
        .days = p->month_days,
        .months = p->months ? p->months : ALL_MONTHS,
        .weekdays = p->weekdays,
        .any_day = !p->month_days || p->month_days == ALL_DAYS,
        .any_weekday = !p->weekdays || p->weekdays == ALL_WEEKDAYS,
        .both = true,
        .clamp = true,
        .pick = (int8_t)p->nth,
    };
    if (!calendar_possible(&c.days))
        return err_set(err, PAWL_INVALID, "the calendar never comes up: no date fits all that it asks for");
    *out = c;
    return PAWL_OK;
}
