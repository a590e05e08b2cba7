/* Cron expressions: reading, and writing back in one form.
 *
 *     minute hour day month weekday             second minute hour day month weekday             @daily
 *
 * In a field: `*`, a value, a range `a-b` (also across the end: FRI-MON, 22-2), a step `x/n`, lists of these. Months and weekdays have
 * names; 0 and 7 are Sunday. Day: `L` the last, `L-3` three days before it, `15W` the working day nearest the 15th, `LW` the last
 * working day; weekday: `FRI#2` the second Friday, `FRIL` the last; both: `?` is `*`. docs/cron.md has the details.
 */
#ifndef CORE_CRON_H
#define CORE_CRON_H

#include "core/calendar.h"

#define CRON_MAX 1536 /* bytes; every canonical form is shorter */

/* INVALID: says which field, where, and what to write instead; also if no date fits. */
pawl_status cron_parse(const char *text, calendar *out, pawl_error *err);

/* The canonical form of what cron_parse made. Reading it gives the same calendar again. */
void cron_print(const calendar *c, buf *out);

/* Names of months (1..12) and weekdays (0 and 7: Sunday): "JAN", "SUN". */
const char *cron_month(int month);
const char *cron_weekday(int weekday);

#endif
