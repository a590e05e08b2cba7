/* Instants as text: RFC 3339. */
#include "base/date.h"
#include "base/text.h"
#include <string.h>

#define LAST_US (INT64_C(253402300800) * PAWL_SECOND - 1) /* 9999-12-31T23:59:59.999999Z */

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
    date d;
    if (!field(at, 4, 1969, 9999, &d.year) || !mark(at, "-")) return false; /* 1969-12-31 in one zone is 1970 in another */
    if (!field(at, 2, 1, 12, &d.month) || !mark(at, "-")) return false;
    if (!field(at, 2, 1, date_month_days(d.year, d.month), &d.day)) return false;
    *days = date_to_days(d);
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
    date d = date_from_days(second / DAY_S);
    out = put(out, d.year, 4, '-');
    out = put(out, d.month, 2, '-');
    out = put(out, d.day, 2, 'T');
    out = put(out, of_day / 3600, 2, ':');
    out = put(out, of_day / 60 % 60, 2, ':');
    out = put(out, of_day % 60, 2, '.');
    out = put(out, (int)(us % PAWL_SECOND), 6, 'Z');
    *out = '\0';
}
