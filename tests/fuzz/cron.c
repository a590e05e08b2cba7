/* Cron expressions, in a clock of the input's own making. What is refused says why; what is accepted comes back the same from its
 * canonical form, can be said in words, and its times go forwards and backwards through the same instants.
 *
 * Lines: expression, microseconds to begin at, gap and overlap (0..2 each), the rule of a zone. */
#include "core/cron.h"
#include "base/alloc.h"
#include "core/cadence.h"
#include "cron/same.h"
#include "cron/tzif.h"
#include "fuzz/fuzz.h"
#include <string.h>

static void texts(const calendar *c)
{
    buf canonical, again, words;
    calendar same;
    buf_init(&canonical, alloc_default(), CRON_MAX);
    buf_init(&again, alloc_default(), CRON_MAX);
    buf_init(&words, alloc_default(), 1 << 16);
    cron_print(c, &canonical);
    HOLDS(!canonical.failed);
    HOLDS(cron_parse(buf_text(&canonical), &same, NULL) == PAWL_OK);
    HOLDS(same_calendar(&same, c));
    cron_print(&same, &again);
    HOLDS(strcmp(buf_text(&again), buf_text(&canonical)) == 0);
    calendar_words(c, &words);
    HOLDS(!words.failed && words.len > 5);
    buf_done(&canonical);
    buf_done(&again);
    buf_done(&words);
}

static zone *zone_of(const char *rule)
{
    tzif_bytes bytes;
    zone *z = NULL;
    tzif t = {.version = '3', .types = 1, .letters = "ABC\0", .rule = rule && strlen(rule) < 1000 ? rule : "UTC0"};
    if (zone_read(alloc_default(), "fuzzed", tzif_make(&bytes, &t), &z, NULL)) zone_load(alloc_default(), NULL, NULL, &z, NULL);
    return z;
}

static void times(const cadence *c, const zone *z, int64_t start_us)
{
    cadence_due next, back;
    for (int i = 0; i < 8; i++) {
        if (!cadence_next(c, z, start_us, &next)) return;
        HOLDS(next.at_us > start_us && next.at_us >= 0 && next.at_us % PAWL_SECOND == 0);
        if (cadence_prev(c, z, next.at_us, &back)) HOLDS(back.at_us <= start_us || start_us < 0);
        HOLDS(cadence_prev(c, z, next.at_us + 1, &back) && back.at_us == next.at_us && back.note == next.note);
        start_us = next.at_us;
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    fuzz in;
    pawl_error err;
    fuzz_begin(&in, data, size);
    const char *text = fuzz_text(&in);
    int64_t start_us = fuzz_int(&in), policy = fuzz_int(&in);
    cadence c = {.gap = (cadence_gap)((uint64_t)policy / 10 % 3), .overlap = (cadence_overlap)((uint64_t)policy % 3)};
    pawl_status status = cron_parse(text, &c.calendar, &err);
    if (status) fuzz_failed(status, &err);
    else {
        texts(&c.calendar);
        zone *z = zone_of(fuzz_text(&in));
        if (z) times(&c, z, start_us);
        zone_free(z);
    }
    fuzz_end(&in);
    return 0;
}
