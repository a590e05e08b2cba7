/* When something recurring falls due: a calendar or an interval, by the clock of a zone.
 *
 * WHERE CLOCKS ARE CHANGED
 *
 * The local clock shows some times never (a gap) and some twice (an overlap). What a calendar asks for in a gap runs at the first
 * second after it, or not at all; several such times are one run. What it asks for in an overlap runs the first time, or both times.
 * With RUN and FIRST together: each local time is due when the clock first reaches or passes it.
 *
 * Nobody who asks for every hour means that an hour has none, or two: a calendar with times in each of the 24 hours follows the hands of
 * the clock (SKIP and BOTH) unless told otherwise. So `30 * * * *` is due every 60 minutes also on those days.
 *
 * INTERVALS
 *
 * Seconds, minutes and hours are lengths of time. Days, weeks, months and years are steps of the local calendar: the time of day stays,
 * and the day of the month too, or it is the last day of a month that is shorter. Everything is counted from the start, never from the
 * run before it, so nothing drifts: 31 January, 28 February, 31 March.
 */
#ifndef CORE_CADENCE_H
#define CORE_CADENCE_H

#include "base/zone.h"
#include "core/calendar.h"

typedef enum cadence_gap { GAP_DEFAULT, GAP_RUN, GAP_SKIP } cadence_gap;
typedef enum cadence_overlap { OVERLAP_DEFAULT, OVERLAP_FIRST, OVERLAP_BOTH } cadence_overlap;

/* clang-format off */
#define CADENCE_UNIT_TABLE(X)                                 \
    /* name    text      most: a hundred years, or so */      \
    X(SECOND, "second",  INT64_C(3153600000))                 \
    X(MINUTE, "minute",  52560000)                            \
    X(HOUR,   "hour",    876000)                              \
    X(DAY,    "day",     36500)                               \
    X(WEEK,   "week",    5200)                                \
    X(MONTH,  "month",   1200)                                \
    X(YEAR,   "year",    100)

typedef enum cadence_unit {
    UNIT_NONE = 0,
#define X(name, text, most) UNIT_##name,
    CADENCE_UNIT_TABLE(X)
#undef X
    UNIT_COUNT
} cadence_unit;
/* clang-format on */

typedef struct interval {
    cadence_unit unit;
    int64_t count;    /* every so many of them */
    int64_t start_us; /* the first time it is due */
} interval;

typedef struct cadence {
    bool repeats; /* an interval; otherwise a calendar */
    cadence_gap gap;
    cadence_overlap overlap;
    union {
        interval every;
        calendar calendar;
    };
} cadence;

typedef enum cadence_note {
    DUE_PLAIN,
    DUE_MOVED,        /* out of a gap: missing_s is the first local time it stands for */
    DUE_FIRST_OF_TWO, /* the local clock will show this time again; it is due then too only with BOTH */
    DUE_SECOND_OF_TWO
} cadence_note;

typedef struct cadence_due {
    int64_t at_us;
    int offset_s; /* of the zone at that time */
    cadence_note note;
    bool skipped;      /* a gap before it swallowed a time... */
    int64_t missing_s; /* ...this one, local; of several the first */
} cadence_due;

/* INVALID: the interval is out of range. A calendar is checked by whoever makes it. */
pawl_status interval_check(const interval *i, pawl_error *err);

/* The first time after, the last time before; false: there is none from 1970 to 9999. */
bool cadence_next(const cadence *c, const zone *z, int64_t after_us, cadence_due *due);
bool cadence_prev(const cadence *c, const zone *z, int64_t before_us, cadence_due *due);

/* The policies that hold, where those of the cadence may be DEFAULT. */
cadence_gap cadence_gap_of(const cadence *c);
cadence_overlap cadence_overlap_of(const cadence *c);

/* In English: "every 2 weeks", "at 09:00 on Mondays". */
void cadence_words(const cadence *c, buf *out);

#endif
