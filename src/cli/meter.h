/* How far a long command has come, on standard error: a bar on a terminal, a line now and then elsewhere. */
#ifndef CLI_METER_H
#define CLI_METER_H

#include "cli/term.h"

typedef struct meter {
    term term;
    const char *unit; /* "tasks" */
    char last[64];    /* what was said to be going on */
    int64_t began_us, shown_us;
    int64_t rate_from, rate_us; /* since when the rate is measured */
    bool drawn;
} meter;

void meter_init(meter *m, const char *unit);
void meter_show(meter *m, const char *what, int64_t done, int64_t total, const char *detail); /* detail may be NULL */
void meter_end(meter *m);

#endif
