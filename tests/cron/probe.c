/* Answers questions about cron expressions, for compare.py. A line of standard input is
 *
 *     EXPRESSION <tab> ZONE <tab> seconds since 1970 <tab> how many (negative: backwards) <tab> gap <tab> overlap
 *
 * and its answer "ok <tab> CANONICAL <tab> seconds seconds ...", or "bad <tab> MESSAGE".
 */
#include "base/alloc.h"
#include "core/cadence.h"
#include "core/cron.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static zone *last_zone;

static bool use_zone(const char *name, pawl_error *err)
{
    if (last_zone && strcmp(zone_name(last_zone), name) == 0) return true;
    zone_free(last_zone);
    last_zone = NULL;
    return zone_load(alloc_default(), NULL, name, &last_zone, err) == PAWL_OK;
}

static void tell_times(const cadence *c, int64_t from_us, int count)
{
    cadence_due due = {.at_us = from_us};
    for (int n = abs(count); n > 0; n--) {
        bool any = count > 0 ? cadence_next(c, last_zone, due.at_us, &due) : cadence_prev(c, last_zone, due.at_us, &due);
        if (!any) break;
        printf("%lld%s", (long long)(due.at_us / PAWL_SECOND), n > 1 ? " " : "");
    }
    putchar('\n');
}

static void answer(char *fields[6])
{
    pawl_error err;
    cadence c = {.repeats = false};
    if (cron_parse(fields[0], &c.calendar, &err) || !use_zone(fields[1], &err)) {
        printf("bad\t%s\n", err.message);
        return;
    }
    c.gap = (cadence_gap)atoi(fields[4]);
    c.overlap = (cadence_overlap)atoi(fields[5]);
    buf text;
    buf_init(&text, alloc_default(), 1 << 16);
    cron_print(&c.calendar, &text);
    printf("ok\t%s\t", buf_text(&text));
    buf_done(&text);
    tell_times(&c, atoll(fields[2]) * PAWL_SECOND, atoi(fields[3]));
}

int main(void)
{
    static char line[8192];
    while (fgets(line, sizeof line, stdin)) {
        char *fields[6], *at = line;
        line[strcspn(line, "\n")] = '\0';
        for (int i = 0; i < 6; i++) {
            fields[i] = at;
            char *tab = strchr(at, '\t');
            if (!tab && i < 5) return fprintf(stderr, "not a question: %s\n", line), 1;
            if (tab) *tab = '\0', at = tab + 1;
        }
        answer(fields);
        fflush(stdout);
    }
    zone_free(last_zone);
    return 0;
}
