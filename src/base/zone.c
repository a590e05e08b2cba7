/* Spans of a zone, and the way back from local time.
 *
 * The transitions of the file hold as far as they go. From the last one on the rule holds, if the file has one; its changes are worked
 * out for the years around the time in question, so that no year costs more than another. The clock's high-water mark before a
 * transition can only come from transitions less than ZONE_REACH_S ago, because offsets are bounded.
 */
#include "base/zone.h"
#include "base/alloc.h"
#include "base/zone_parts.h"

#define ZONE_REACH_S (ZONE_OFFSET_MOST_S - ZONE_OFFSET_LEAST_S)

void zone_free(zone *z)
{
    if (z) alloc_free(z->allocator, z);
}

const char *zone_name(const zone *z) { return z->name; }

static int64_t clamp(int64_t s) { return s < ZONE_FIRST_S ? ZONE_FIRST_S : s > ZONE_LAST_S ? ZONE_LAST_S : s; }

/* ---- transitions of the file -------------------------------------------------------------------------------------------------- */

/* The number of the last transition at or before the second; -1: it is before the first. */
static int transition_before(const zone *z, int64_t utc_s)
{
    int low = -1, high = z->count; /* at[low] <= utc_s < at[high] */
    while (high - low > 1) {
        int middle = low + (high - low) / 2;
        if (z->at_s[middle] <= utc_s) low = middle;
        else high = middle;
    }
    return low;
}

static const zone_type *type_behind(const zone *z, int i) { return &z->types[i < 0 ? 0 : z->type_at[i]]; }

static int64_t reached_before(const zone *z, int i)
{
    int64_t reached = z->at_s[i] + type_behind(z, i - 1)->offset_s;
    for (int k = i - 1; k >= 0 && z->at_s[k] > z->at_s[i] - ZONE_REACH_S; k--) {
        int64_t then = z->at_s[k] + type_behind(z, k - 1)->offset_s;
        if (then > reached) reached = then;
    }
    return reached;
}

/* The beginning of time has neither a gap nor an overlap. */
static zone_span file_span(const zone *z, int i)
{
    const zone_type *type = type_behind(z, i);
    int64_t from = i < 0 ? ZONE_FIRST_S : clamp(z->at_s[i]);
    return (zone_span){
        .from_s = from,
        .until_s = i + 1 < z->count ? clamp(z->at_s[i + 1]) : ZONE_LAST_S,
        .reached_s = from == ZONE_FIRST_S ? from + type->offset_s : reached_before(z, i),
        .offset_s = type->offset_s,
        .summer = type->summer,
        .abbreviation = type->abbreviation,
    };
}

/* ---- behind them -------------------------------------------------------------------------------------------------------------- */

static zone_span rule_span(const zone *z, int64_t utc_s)
{
    zone_change changes[ZONE_CHANGES];
    const zone_side *sides = z->rule.sides;
    int last = z->count - 1, i = 0;
    int64_t from = last < 0 ? ZONE_FIRST_S : clamp(z->at_s[last]), until = ZONE_LAST_S;
    int64_t reached = from == ZONE_FIRST_S ? INT64_MIN : reached_before(z, last);
    int side = 0;
    if (z->rule.changes) {
        zone_rule_changes(&z->rule, utc_s, changes);
        for (side = !changes[0].to; i < ZONE_CHANGES && changes[i].at_s <= utc_s; side = changes[i++].to) {
            int64_t then = changes[i].at_s + sides[side].offset_s;
            if (changes[i].at_s <= from) continue;
            from = changes[i].at_s;
            if (then > reached) reached = then;
        }
        if (i < ZONE_CHANGES) until = clamp(changes[i].at_s);
    }
    return (zone_span){
        .from_s = from,
        .until_s = until,
        .reached_s = reached == INT64_MIN ? from + sides[side].offset_s : reached,
        .offset_s = sides[side].offset_s,
        .summer = side,
        .abbreviation = sides[side].abbreviation,
    };
}

zone_span zone_at(const zone *z, int64_t utc_s)
{
    utc_s = utc_s < ZONE_LAST_S ? clamp(utc_s) : ZONE_LAST_S - 1;
    int i = transition_before(z, utc_s);
    return i + 1 == z->count && z->rule.given ? rule_span(z, utc_s) : file_span(z, i);
}

/* ---- local time --------------------------------------------------------------------------------------------------------------- */

zone_fit zone_local(const zone *z, int64_t local_s, int64_t *first_s, int64_t *last_s)
{
    int found = 0;
    bool passed = false;
    zone_span span = zone_at(z, local_s - ZONE_OFFSET_MOST_S);
    *first_s = *last_s = local_s - span.offset_s;
    for (;; span = zone_at(z, span.until_s)) {
        int64_t utc_s = local_s - span.offset_s;
        if (utc_s >= span.from_s && utc_s < span.until_s) {
            *last_s = utc_s;
            if (found++ == 0) *first_s = utc_s;
        } else if (found == 0 && !passed && utc_s < span.from_s) {
            *first_s = *last_s = span.from_s;
            passed = true;
        }
        if (span.until_s == ZONE_LAST_S || span.until_s > local_s - ZONE_OFFSET_LEAST_S) break;
    }
    return found > 1 ? ZONE_TWICE : found == 1 || !passed ? ZONE_ONCE : ZONE_GAP;
}
