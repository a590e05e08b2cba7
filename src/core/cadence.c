/* The search goes from span to span of the zone (zone.h). Within one, local time is UTC plus a constant, and the calendar answers in
 * local time. `reached` of a span tells gaps and repeats apart: what lies between it and the span's beginning never was or was before.
 *
 * Spans in which nothing can be due are jumped over. If the calendar's next local time is L, nothing is due before L - ZONE_OFFSET_MOST_S,
 * except what the clock shows a second time, and that can only be within a day or two of where the search began. The way back is the
 * same, mirrored.
 */
#include "core/cadence.h"
#include "base/check.h"
#include "base/date.h"
#include "base/error.h"

#define LAST_S (ZONE_LAST_S - 1)

typedef struct search {
    const cadence *c;
    const zone *z;
    bool run, first; /* policies, resolved */
    int64_t start_s; /* intervals: local time of the start */
} search;

static int64_t floor_div(int64_t a, int64_t b) { return a / b - (a % b < 0); }

/* ---- intervals ----------------------------------------------------------------------------------------------------------------- */

static const struct unit {
    const char *name;
    int64_t most;
} units[UNIT_COUNT] = {{"", 0},
#define X(name, text, most) {text, most},
                       CADENCE_UNIT_TABLE(X)
#undef X
};

pawl_status interval_check(const interval *i, pawl_error *err)
{
    if (i->unit <= UNIT_NONE || i->unit >= UNIT_COUNT)
        return err_set(err, PAWL_INVALID, "an interval has no unit %d", (int)i->unit);
    if (i->count < 1 || i->count > units[i->unit].most)
        return err_set(err, PAWL_INVALID, "an interval of %lld %ss is out of range: 1 to %lld", (long long)i->count,
                       units[i->unit].name, (long long)units[i->unit].most);
    if (i->start_us < 0 || i->start_us >= ZONE_LAST_S * PAWL_SECOND)
        return err_set(err, PAWL_INVALID, "an interval cannot start before 1970 or after 9999");
    return PAWL_OK;
}

/* Of units with a length: in microseconds. */
static int64_t length_us(const interval *i)
{
    static const int64_t lengths[UNIT_COUNT] = {
        [UNIT_SECOND] = PAWL_SECOND, [UNIT_MINUTE] = PAWL_MINUTE, [UNIT_HOUR] = PAWL_HOUR};
    return lengths[i->unit] * i->count;
}

static int64_t days_between(const interval *i) { return i->count * (i->unit == UNIT_WEEK ? 7 : 1); }
static int64_t months_between(const interval *i) { return i->count * (i->unit == UNIT_YEAR ? 12 : 1); }
static bool by_months(const interval *i) { return i->unit == UNIT_MONTH || i->unit == UNIT_YEAR; }

/* The local time of number k. */
static int64_t interval_at(const search *s, int64_t k)
{
    const interval *i = &s->c->every;
    if (!by_months(i)) return s->start_s + k * days_between(i) * DAY_S;
    int64_t days = floor_div(s->start_s, DAY_S);
    date d = date_from_days(days);
    int64_t months = d.year * INT64_C(12) + d.month - 1 + k * months_between(i);
    int length = date_month_days((int)(months / 12), (int)(months % 12) + 1);
    date then = {(int)(months / 12), (int)(months % 12) + 1, d.day < length ? d.day : length};
    return date_to_days(then) * DAY_S + (s->start_s - days * DAY_S);
}

/* The number of the last one at or before a local time, or of one later in its month. */
static int64_t number_before(const search *s, int64_t local_s)
{
    const interval *i = &s->c->every;
    if (local_s <= s->start_s) return 0;
    if (!by_months(i)) return (local_s - s->start_s) / (days_between(i) * DAY_S);
    date from = date_from_days(floor_div(s->start_s, DAY_S)), to = date_from_days(floor_div(local_s, DAY_S));
    return ((to.year - from.year) * INT64_C(12) + to.month - from.month) / months_between(i);
}

/* The start itself, number 0, is not looked for here: it is an instant, not a local time. */
static bool interval_next_local(const search *s, int64_t local_s, int64_t *at_s)
{
    int64_t k = number_before(s, local_s < ZONE_LAST_S ? local_s : ZONE_LAST_S);
    for (k = k > 0 ? k : 1; (*at_s = interval_at(s, k)) < local_s; k++) continue;
    return *at_s < ZONE_LAST_S;
}

static bool interval_prev_local(const search *s, int64_t local_s, int64_t *at_s)
{
    int64_t k = number_before(s, local_s < ZONE_LAST_S ? local_s : ZONE_LAST_S), at;
    while (k > 0 && (at = interval_at(s, k)) > local_s) k--;
    if (k > 0) *at_s = at;
    return k > 0;
}

/* ---- local times --------------------------------------------------------------------------------------------------------------- */

static bool next_local(const search *s, int64_t local_s, int64_t *at_s)
{
    return s->c->repeats ? interval_next_local(s, local_s, at_s) : calendar_next(&s->c->calendar, local_s, at_s);
}

static bool prev_local(const search *s, int64_t local_s, int64_t *at_s)
{
    return s->c->repeats ? interval_prev_local(s, local_s, at_s) : calendar_prev(&s->c->calendar, local_s, at_s);
}

/* Whether the gap before a span swallows something; *at_s gets the first of it. */
static bool in_gap(const search *s, const zone_span *span, int64_t *at_s)
{
    int64_t begins = span->from_s + span->offset_s;
    return begins > span->reached_s && next_local(s, span->reached_s, at_s) && *at_s < begins;
}

static bool flows(const cadence *c) { return !c->repeats && calendar_every_hour(&c->calendar); }

cadence_gap cadence_gap_of(const cadence *c) { return c->gap ? c->gap : flows(c) ? GAP_SKIP : GAP_RUN; }

cadence_overlap cadence_overlap_of(const cadence *c) { return c->overlap ? c->overlap : flows(c) ? OVERLAP_BOTH : OVERLAP_FIRST; }

static search begin(const cadence *c, const zone *z)
{
    search s = {.c = c, .z = z, .run = cadence_gap_of(c) == GAP_RUN, .first = cadence_overlap_of(c) == OVERLAP_FIRST};
    if (c->repeats) {
        int64_t start = c->every.start_us / PAWL_SECOND;
        s.start_s = start + zone_at(z, start).offset_s;
    }
    return s;
}

/* ---- instants ------------------------------------------------------------------------------------------------------------------ */

static cadence_note note_of(const search *s, int64_t utc_s, const zone_span *span)
{
    int64_t first, last;
    if (zone_local(s->z, utc_s + span->offset_s, &first, &last) != ZONE_TWICE) return DUE_PLAIN;
    return utc_s == first ? DUE_FIRST_OF_TWO : DUE_SECOND_OF_TWO;
}

static bool found(const search *s, const zone_span *span, int64_t utc_s, cadence_due *due)
{
    due->at_us = utc_s * PAWL_SECOND;
    due->offset_s = span->offset_s;
    due->note = note_of(s, utc_s, span);
    return utc_s >= 0;
}

static bool found_behind_gap(const zone_span *span, int64_t missing_s, cadence_due *due)
{
    *due = (cadence_due){span->from_s * PAWL_SECOND, span->offset_s, DUE_MOVED, false, missing_s};
    return span->from_s >= 0;
}

/* The gap before a span, at whose first second we are: true if that is due. */
static bool take_gap(const search *s, const zone_span *span, cadence_due *due)
{
    int64_t missing;
    if (!in_gap(s, span, &missing)) return false;
    if (s->run) return found_behind_gap(span, missing, due);
    if (!due->skipped) due->missing_s = missing;
    due->skipped = true;
    return false;
}

/* The first second at or after utc_s that is due. */
static bool search_next(const search *s, int64_t utc_s, cadence_due *due)
{
    for (;;) {
        zone_span span = zone_at(s->z, utc_s);
        int64_t at, local = utc_s + span.offset_s;
        if (utc_s == span.from_s && take_gap(s, &span, due)) return true;
        if (s->first && span.reached_s > local) local = span.reached_s;
        if (!next_local(s, local, &at)) at = INT64_MAX / 2;
        if (at - span.offset_s < span.until_s) return found(s, &span, at - span.offset_s, due);
        if (span.until_s >= ZONE_LAST_S) return false;
        int64_t nothing_before = at - ZONE_OFFSET_MOST_S;
        utc_s = span.until_s;
        if (utc_s >= local - ZONE_OFFSET_LEAST_S && utc_s < nothing_before) utc_s = nothing_before;
        if (utc_s >= ZONE_LAST_S) return false;
    }
}

/* The last second at or before utc_s that is due. */
static bool search_prev(const search *s, int64_t utc_s, cadence_due *due)
{
    while (utc_s >= 0) {
        zone_span span = zone_at(s->z, utc_s);
        int64_t at, missing, local = utc_s + span.offset_s, begins = span.from_s + span.offset_s;
        int64_t least = s->first && span.reached_s > begins ? span.reached_s : begins;
        bool any = prev_local(s, local, &at);
        if (any && at >= least && at > begins) return found(s, &span, at - span.offset_s, due);
        if (s->run && in_gap(s, &span, &missing)) return found_behind_gap(&span, missing, due);
        if (any && at >= least) return found(s, &span, at - span.offset_s, due);
        int64_t nothing_after = any ? at - ZONE_OFFSET_LEAST_S : INT64_MIN;
        bool no_repeats = span.from_s <= local - ZONE_OFFSET_MOST_S;
        utc_s = span.from_s - 1;
        if (no_repeats && utc_s > nothing_after) utc_s = nothing_after;
    }
    return false;
}

/* ---- both kinds ---------------------------------------------------------------------------------------------------------------- */

static bool length_next(const cadence *c, const zone *z, int64_t after_us, cadence_due *due)
{
    int64_t length = length_us(&c->every), start = c->every.start_us;
    int64_t at = after_us < start ? start : start + ((after_us - start) / length + 1) * length;
    *due = (cadence_due){.at_us = at, .offset_s = zone_at(z, at / PAWL_SECOND).offset_s};
    return at / PAWL_SECOND <= LAST_S;
}

static bool length_prev(const cadence *c, const zone *z, int64_t before_us, cadence_due *due)
{
    int64_t length = length_us(&c->every), start = c->every.start_us;
    if (before_us <= start) return false;
    int64_t at = start + (before_us - start - 1) / length * length;
    *due = (cadence_due){.at_us = at, .offset_s = zone_at(z, at / PAWL_SECOND).offset_s};
    return true;
}

static bool is_length(const cadence *c) { return c->repeats && c->every.unit <= UNIT_HOUR; }

/* What an interval has beyond whole seconds is that of its start. */
static int64_t fraction_us(const cadence *c) { return c->repeats ? c->every.start_us % PAWL_SECOND : 0; }

static cadence_due at_start(const cadence *c, const zone *z)
{
    int64_t start = c->every.start_us;
    return (cadence_due){.at_us = start, .offset_s = zone_at(z, start / PAWL_SECOND).offset_s};
}

bool cadence_next(const cadence *c, const zone *z, int64_t after_us, cadence_due *due)
{
    cadence_due next = {0};
    int64_t last_us = ZONE_LAST_S * PAWL_SECOND;
    after_us = after_us < -1 ? -1 : after_us > last_us ? last_us : after_us;
    bool is = true;
    if (is_length(c)) is = length_next(c, z, after_us, &next);
    else if (c->repeats && after_us < c->every.start_us) next = at_start(c, z);
    else {
        search s = begin(c, z);
        is = search_next(&s, floor_div(after_us - fraction_us(c), PAWL_SECOND) + 1, &next);
        next.at_us += fraction_us(c);
    }
    if (is) *due = next;
    return is;
}

bool cadence_prev(const cadence *c, const zone *z, int64_t before_us, cadence_due *due)
{
    cadence_due prev = {0};
    int64_t last_us = ZONE_LAST_S * PAWL_SECOND;
    before_us = before_us > last_us ? last_us : before_us;
    bool is;
    if (before_us <= 0) return false;
    if (is_length(c)) is = length_prev(c, z, before_us, &prev);
    else {
        search s = begin(c, z);
        is = search_prev(&s, floor_div(before_us - 1 - fraction_us(c), PAWL_SECOND), &prev);
        prev.at_us += fraction_us(c);
        if (c->repeats && (!is || prev.at_us <= c->every.start_us)) {
            prev = at_start(c, z);
            is = before_us > prev.at_us;
        }
    }
    if (is) *due = prev;
    return is;
}

void cadence_words(const cadence *c, buf *out)
{
    const interval *i = &c->every;
    if (!c->repeats) calendar_words(&c->calendar, out);
    else if (i->count == 1) buf_fmt(out, "every %s", units[i->unit].name);
    else buf_fmt(out, "every %lld %ss", (long long)i->count, units[i->unit].name);
}
