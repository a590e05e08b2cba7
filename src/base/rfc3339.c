/* Instants as text: RFC 3339.
 *
 * Days and dates are converted in a year that begins in March, so that the leap day is the last day of the year and the months
 * before it have a fixed pattern: 153 days in each five months. 400 years have 146097 days. Day 0 is 1970-01-01, which is day 719468
 * of that calendar (counted from 0000-03-01).
 */
#include "base/text.h"
#include <string.h>

#define DAY_S 86400
#define LAST_US (INT64_C(253402300800) * PAWL_SECOND - 1) /* 9999-12-31T23:59:59.999999Z */
#define MARCH_1_OF_0000 719468
#define DAYS_PER_400_YEARS 146097

typedef struct civil {
    int year, month, day;
} civil;

static int64_t days_from_civil(civil c)
{
    int64_t year = c.month > 2 ? c.year : c.year - 1;
    int64_t month = c.month > 2 ? c.month - 3 : c.month + 9; /* March is 0 */
    return year * 365 + year / 4 - year / 100 + year / 400 + (153 * month + 2) / 5 + c.day - 1 - MARCH_1_OF_0000;
}

/* The year of a day of the 400 years: the leap days before it taken out (the last day of 4 years, but not of 100, but of 400). */
static int year_of(int day) { return (day - day / 1460 + day / 36524 - day / 146096) / 365; }

static civil civil_from_days(int64_t days)
{
    days += MARCH_1_OF_0000;
    int day = (int)(days % DAYS_PER_400_YEARS), year = year_of(day);
    day -= year * 365 + year / 4 - year / 100;
    int month = (5 * day + 2) / 153;
    return (civil){
        .year = (int)(days / DAYS_PER_400_YEARS) * 400 + year + (month >= 10),
        .month = month < 10 ? month + 3 : month - 9,
        .day = day - (153 * month + 2) / 5 + 1,
    };
}

static int month_days(int year, int month)
{
    bool leap = (year % 4 == 0 && year % 100 != 0) || year % 400 == 0;
    if (month == 2) return leap ? 29 : 28;
    return month == 4 || month == 6 || month == 9 || month == 11 ? 30 : 31;
}

/* ---- reading -------------------------------------------------------------------------------------------------------------- */

/* Exactly n digits with a value in min..max. */
static bool field(const char **at, int n, int min, int max, int *value)
{
    *value = 0;
    for (; n > 0; n--, ++*at) {
        if (**at < '0' || **at > '9') return false;
        *value = *value * 10 + (**at - '0');
    }
    return *value >= min && *value <= max;
}

static bool mark(const char **at, const char *any_of)
{
    if (!**at || !strchr(any_of, **at)) return false;
    ++*at;
    return true;
}

static bool read_date(const char **at, int64_t *days)
{
    civil c;
    if (!field(at, 4, 1969, 9999, &c.year) || !mark(at, "-")) return false; /* 1969-12-31 in one zone is 1970 in another */
    if (!field(at, 2, 1, 12, &c.month) || !mark(at, "-")) return false;
    if (!field(at, 2, 1, month_days(c.year, c.month), &c.day)) return false;
    *days = days_from_civil(c);
    return true;
}

static bool read_time(const char **at, int *seconds, bool *leap_second)
{
    int hour, minute, second;
    if (!field(at, 2, 0, 23, &hour) || !mark(at, ":")) return false;
    if (!field(at, 2, 0, 59, &minute) || !mark(at, ":")) return false;
    if (!field(at, 2, 0, 60, &second)) return false;
    *seconds = hour * 3600 + minute * 60 + second;
    *leap_second = second == 60;
    return true;
}

static bool read_fraction(const char **at, int *us)
{
    int digits = 0;
    *us = 0;
    if (**at != '.') return true;
    for (++*at; **at >= '0' && **at <= '9'; ++*at, digits++)
        if (digits < 6) *us = *us * 10 + (**at - '0');
    for (int n = digits; n < 6; n++) *us *= 10;
    return digits > 0;
}

static bool read_offset(const char **at, int *seconds)
{
    *seconds = 0;
    if (mark(at, "Zz")) return true;
    int hours, minutes, sign = **at == '-' ? -1 : 1;
    if (!mark(at, "+-") || !field(at, 2, 0, 23, &hours) || !mark(at, ":") || !field(at, 2, 0, 59, &minutes)) return false;
    *seconds = sign * (hours * 3600 + minutes * 60);
    return true;
}

bool rfc3339_parse(const char *text, int64_t *us)
{
    int64_t days;
    int seconds, fraction, offset;
    bool leap_second;
    if (!text || !read_date(&text, &days) || !mark(&text, "Tt ") || !read_time(&text, &seconds, &leap_second)) return false;
    if (!read_fraction(&text, &fraction) || !read_offset(&text, &offset) || *text) return false;
    int64_t second = days * DAY_S + seconds - offset;
    if (leap_second && second % DAY_S) return false; /* only at the end of a UTC day; it is the next day's first second */
    int64_t value = second * PAWL_SECOND + fraction;
    if (value < 0 || value > LAST_US) return false;
    *us = value;
    return true;
}

/* ---- writing -------------------------------------------------------------------------------------------------------------- */

static char *put(char *at, int value, int digits, char after)
{
    for (int i = digits - 1; i >= 0; i--, value /= 10) at[i] = (char)('0' + value % 10);
    at[digits] = after;
    return at + digits + 1;
}

void rfc3339_format(int64_t us, char out[RFC3339_TEXT])
{
    us = us < 0 ? 0 : us > LAST_US ? LAST_US : us;
    int64_t second = us / PAWL_SECOND;
    int of_day = (int)(second % DAY_S);
    civil c = civil_from_days(second / DAY_S);
    out = put(out, c.year, 4, '-');
    out = put(out, c.month, 2, '-');
    out = put(out, c.day, 2, 'T');
    out = put(out, of_day / 3600, 2, ':');
    out = put(out, of_day / 60 % 60, 2, ':');
    out = put(out, of_day % 60, 2, '.');
    out = put(out, (int)(us % PAWL_SECOND), 6, 'Z');
    *out = '\0';
}
