/* The rule at the end of a zone file, which holds for ever: "CET-1CEST,M3.5.0,M10.5.0/3".
 *
 * It is the TZ string of POSIX with the extension of TZif version 3 (times from -167 to 167 hours) and without its defaults: a zone
 * with summer time says when that begins and ends. Offsets count to the west, as everywhere in POSIX.
 */
#include "base/date.h"
#include "base/zone_parts.h"
#include <string.h>

#define HOURS_MOST 167

typedef struct reader {
    const char *at, *end;
} reader;

static bool take(reader *r, char c)
{
    if (r->at == r->end || *r->at != c) return false;
    r->at++;
    return true;
}

static bool is_letter(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); }
static bool is_digit(char c) { return c >= '0' && c <= '9'; }

/* One to three digits with a value in min..max. */
static bool number(reader *r, int min, int max, int *value)
{
    const char *first = r->at;
    for (*value = 0; r->at < r->end && is_digit(*r->at) && r->at - first < 3; r->at++) *value = *value * 10 + (*r->at - '0');
    return r->at > first && *value >= min && *value <= max;
}

/* "CET", or "<+03>" where it is more than letters. */
static bool abbreviation(reader *r, char out[ZONE_ABBREVIATION])
{
    bool quoted = take(r, '<');
    const char *first = r->at;
    while (r->at < r->end && (is_letter(*r->at) || (quoted && (is_digit(*r->at) || *r->at == '+' || *r->at == '-')))) r->at++;
    size_t n = (size_t)(r->at - first);
    if (n < 3 || n >= ZONE_ABBREVIATION || (quoted && !take(r, '>'))) return false;
    memcpy(out, first, n);
    out[n] = '\0';
    return true;
}

/* "[+-]hh[:mm[:ss]]" in seconds. */
static bool span(reader *r, int hours_most, int *seconds)
{
    int hours, minutes = 0, rest = 0;
    bool minus = take(r, '-');
    if (!minus) take(r, '+');
    if (!number(r, 0, hours_most, &hours)) return false;
    if (take(r, ':')) {
        if (!number(r, 0, 59, &minutes)) return false;
        if (take(r, ':') && !number(r, 0, 59, &rest)) return false;
    }
    *seconds = (hours * 3600 + minutes * 60 + rest) * (minus ? -1 : 1);
    return true;
}

static bool day(reader *r, zone_day *d)
{
    *d = (zone_day){.kind = 'N', .time_s = 2 * 3600};
    if (take(r, 'M')) {
        d->kind = 'M';
        if (!number(r, 1, 12, &d->month) || !take(r, '.') || !number(r, 1, 5, &d->week) || !take(r, '.') ||
            !number(r, 0, 6, &d->day))
            return false;
    } else if (take(r, 'J')) {
        d->kind = 'J';
        if (!number(r, 1, 365, &d->day)) return false;
    } else if (!number(r, 0, 365, &d->day)) return false;
    return !take(r, '/') || span(r, HOURS_MOST, &d->time_s);
}

const char *zone_rule_parse(pawl_bytes text, zone_rule *out)
{
    reader r = {text.data, text.data + text.len};
    zone_side *standard = &out->sides[0], *summer = &out->sides[1];
    *out = (zone_rule){.given = text.len > 0};
    if (!out->given) return NULL;
    if (!abbreviation(&r, standard->abbreviation)) return "its rule does not begin with an abbreviation";
    if (!span(&r, 24, &standard->offset_s)) return "its rule has no offset";
    standard->offset_s = -standard->offset_s;
    if (r.at == r.end) return NULL;

    out->changes = true;
    summer->offset_s = -(standard->offset_s + 3600);
    if (!abbreviation(&r, summer->abbreviation)) return "its rule has no abbreviation for summer time";
    if (r.at < r.end && *r.at != ',' && !span(&r, 24, &summer->offset_s)) return "its rule has no offset for summer time";
    summer->offset_s = -summer->offset_s;
    if (!take(&r, ',') || !day(&r, &summer->begins)) return "its rule does not say when summer time begins";
    if (!take(&r, ',') || !day(&r, &standard->begins)) return "its rule does not say when summer time ends";
    return r.at == r.end ? NULL : "its rule has something behind its end";
}

/* ---- the days of a year ------------------------------------------------------------------------------------------------------- */

static int64_t month_week(int year, const zone_day *d)
{
    int64_t first = date_to_days((date){year, d->month, 1});
    int ahead = (d->day - date_weekday(first) + 7) % 7 + (d->week - 1) * 7;
    if (ahead >= date_month_days(year, d->month)) ahead -= 7;
    return first + ahead;
}

static int64_t day_of(int year, const zone_day *d)
{
    bool leap = date_month_days(year, 2) == 29;
    int64_t first = date_to_days((date){year, 1, 1});
    if (d->kind == 'M') return month_week(year, d);
    if (d->kind == 'N') return first + d->day;
    return first + d->day - 1 + (leap && d->day >= 60);
}

/* Where both sides begin at the same time, summer time lasts through the year: it comes second. */
static bool before(const zone_change *a, const zone_change *b)
{
    return a->at_s < b->at_s || (a->at_s == b->at_s && a->to < b->to);
}

void zone_rule_changes(const zone_rule *rule, int64_t utc_s, zone_change out[ZONE_CHANGES])
{
    int64_t days = (utc_s - ZONE_FIRST_S) / DAY_S + ZONE_FIRST_S / DAY_S;
    int year = date_from_days(days).year;
    for (int i = 0; i < ZONE_CHANGES; i++) {
        int to = i % 2;
        const zone_day *d = &rule->sides[to].begins;
        zone_change change = {day_of(year - 4 + i / 2, d) * DAY_S + d->time_s - rule->sides[!to].offset_s, to};
        int k = i;
        for (; k > 0 && before(&change, &out[k - 1]); k--) out[k] = out[k - 1];
        out[k] = change;
    }
}
