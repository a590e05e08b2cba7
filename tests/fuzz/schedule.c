/* What is stored of a schedule, by whomever. What is refused says why; what is read is written the same again, and what it says can be
 * decided at any time without getting lost.
 *
 * Lines: the definition (JSON), its anchor, the occurrence that is due, now: microseconds. */
#include "core/schedule.h"
#include "base/alloc.h"
#include "fuzz/fuzz.h"
#include <stdlib.h>
#include <string.h>

#define LAST_US (ZONE_LAST_S * PAWL_SECOND)

static int64_t time_of(char **rest)
{
    char *line = strsep(rest, "\n");
    long long us = line ? strtoll(line, NULL, 10) : 0;
    return us < 0 ? 0 : us >= LAST_US ? LAST_US - 1 : us;
}

static void round_trip(pawl_arena *arena, const pawl_schedule *s)
{
    buf first, second;
    pawl_schedule same = {.name = "s"};
    buf_init(&first, alloc_default(), SCHEDULE_SPEC_MAX);
    buf_init(&second, alloc_default(), SCHEDULE_SPEC_MAX);
    schedule_write(s, &first);
    if (!first.failed) {
        HOLDS(schedule_read(arena, buf_text(&first), &same, NULL) == PAWL_OK);
        schedule_write(&same, &second);
        HOLDS(strcmp(buf_text(&first), buf_text(&second)) == 0);
    }
    buf_done(&first);
    buf_done(&second);
}

static void decide(const pawl_schedule *s, const zone *z, char *rest)
{
    static schedule_steps steps;
    schedule_rule rule;
    rng random;
    pawl_error err = {.status = PAWL_OK};
    pawl_schedule_row row = {.name = "s", .anchor_us = time_of(&rest)};
    row.next_us = row.occurrence_us = time_of(&rest);
    int64_t now_us = time_of(&rest);
    if (schedule_compile(s, z, row.anchor_us, &rule, &err)) {
        HOLDS(err.message[0]);
        return;
    }
    rng_init(&random, 1);
    schedule_decide(&rule, &row, now_us, &random, &steps);
    HOLDS(steps.step.fates_count <= PAWL_STEP_MOST && steps.step.tasks_count <= steps.step.fates_count);
    HOLDS(steps.step.off || !steps.step.next_us || steps.step.next_us >= steps.step.occurrence_us);
    for (int i = 1; i < steps.step.fates_count; i++) HOLDS(steps.fates[i].occurrence > steps.fates[i - 1].occurrence);
    if (row.next_us && row.next_us <= now_us && !steps.step.off && steps.step.next_us)
        HOLDS(steps.step.occurrence_us > row.occurrence_us);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char *text = size < SCHEDULE_SPEC_MAX ? malloc(size + 1) : NULL, *rest = text;
    pawl_arena *arena = arena_new(alloc_default(), 0);
    zone *z = NULL;
    pawl_error err = {.status = PAWL_OK};
    pawl_schedule s = {.name = "s"};
    if (text && arena && zone_load(alloc_default(), NULL, NULL, &z, NULL) == PAWL_OK) {
        memcpy(text, data, size);
        text[size] = '\0';
        const char *spec = strsep(&rest, "\n");
        if (schedule_read(arena, spec, &s, &err)) HOLDS(err.message[0]);
        else {
            round_trip(arena, &s);
            decide(&s, z, rest);
        }
    }
    zone_free(z);
    arena_free(arena);
    free(text);
    return 0;
}
