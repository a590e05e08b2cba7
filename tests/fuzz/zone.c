/* Zone files. What is refused says why; what is accepted cuts time into spans without holes, finds every instant again from its local
 * time, and a cadence by its clock goes forwards and backwards through the same instants. */
#include "base/zone.h"
#include "base/alloc.h"
#include "core/cadence.h"
#include "core/cron.h"
#include "fuzz/fuzz.h"
#include <string.h>

static void local(const zone *z, int64_t utc_s)
{
    int64_t first, last;
    zone_span span = zone_at(z, utc_s);
    zone_fit fit = zone_local(z, utc_s + span.offset_s, &first, &last);
    HOLDS(fit != ZONE_GAP && first <= utc_s && utc_s <= last && (fit == ZONE_TWICE) == (first < last));
}

static void spans(const zone *z, int64_t utc_s, int64_t until_s)
{
    for (int i = 0; i < 200 && utc_s < until_s; i++) {
        zone_span span = zone_at(z, utc_s);
        HOLDS(span.from_s <= utc_s && utc_s < span.until_s && span.from_s >= ZONE_FIRST_S && span.until_s <= ZONE_LAST_S);
        HOLDS(span.offset_s >= ZONE_OFFSET_LEAST_S && span.offset_s <= ZONE_OFFSET_MOST_S);
        HOLDS(strlen(span.abbreviation) < 4096);
        zone_span end = zone_at(z, span.until_s - 1);
        HOLDS(end.from_s == span.from_s && end.until_s == span.until_s && end.reached_s == span.reached_s &&
              end.offset_s == span.offset_s);
        if (span.from_s > ZONE_FIRST_S) HOLDS(zone_at(z, span.from_s - 1).until_s == span.from_s);
        if (span.from_s > ZONE_FIRST_S + 200000 && span.until_s < ZONE_LAST_S - 200000)
            local(z, span.from_s), local(z, span.until_s - 1);
        utc_s = span.until_s;
    }
}

static void times(const zone *z, const char *text, cadence_gap gap, cadence_overlap overlap)
{
    cadence c = {.gap = gap, .overlap = overlap};
    cadence_due next = {.at_us = 1000000000 * PAWL_SECOND}, back;
    HOLDS(cron_parse(text, &c.calendar, NULL) == PAWL_OK);
    for (int i = 0; i < 5; i++) {
        int64_t before_us = next.at_us;
        if (!cadence_next(&c, z, before_us, &next)) return;
        HOLDS(next.at_us > before_us);
        if (cadence_prev(&c, z, next.at_us, &back)) HOLDS(back.at_us <= before_us);
        HOLDS(cadence_prev(&c, z, next.at_us + 1, &back) && back.at_us == next.at_us);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    pawl_error err;
    zone *z = NULL;
    pawl_status status = zone_read(alloc_default(), "fuzzed", (pawl_bytes){(const char *)data, size}, &z, &err);
    if (status) {
        HOLDS(!z);
        fuzz_failed(status, &err);
        return 0;
    }
    spans(z, ZONE_FIRST_S, ZONE_LAST_S);
    spans(z, 1000000000, ZONE_LAST_S);
    spans(z, ZONE_LAST_S - 1000000000, ZONE_LAST_S);
    times(z, "30 2 * * *", GAP_RUN, OVERLAP_FIRST);
    times(z, "*/20 1-3 * * SUN", GAP_SKIP, OVERLAP_BOTH);
    times(z, "0 0 29 2 *", GAP_DEFAULT, OVERLAP_DEFAULT);
    zone_free(z);
    return 0;
}
