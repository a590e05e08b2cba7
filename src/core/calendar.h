/* Sets of local times that recur: which days, and which times on them. No zone, no instant: the local clock alone.
 *
 * Cron expressions (cron.h) and plans (below) are two ways to write one down. Finding the next or previous member takes no longer when
 * it is far away: a month that has none costs a few operations, and all kinds of months return within 40 years.
 */
#ifndef CORE_CALENDAR_H
#define CORE_CALENDAR_H

#include "base/buf.h"
#include <pawl.h>

#define CALENDAR_TIMES 16 /* at most so many times a day in a list */

/* Bits: days of the month 1..31, months 1..12, weekdays 0 (Sunday)..6. */
typedef struct calendar_days {
    uint32_t days;
    uint32_t from_last; /* bit n: n days before the last one, 0..30 */
    uint32_t near;      /* bit n: the working day (Monday to Friday) nearest the n-th, in the same month */
    uint32_t near_last; /* bit n: the working day nearest n days before the last */
    uint16_t months;
    uint8_t weekdays;
    uint8_t nth[5];   /* nth[0]: the first of these weekdays in the month */
    uint8_t last;     /* the last of these weekdays in the month */
    bool any_day;     /* the members for days of the month say nothing */
    bool any_weekday; /* the members for weekdays say nothing */
    bool both;        /* a day fits if its date and its weekday do; otherwise one of them is enough */
    bool clamp;       /* a day that a month does not have is its last one */
    int8_t pick;      /* of the days that fit, only the n-th of the month; negative: counted from the end; 0: all */
} calendar_days;

typedef struct calendar_times {
    uint64_t seconds, minutes; /* bits, used if count is 0 */
    uint32_t hours;
    int count;
    int32_t list_s[CALENDAR_TIMES]; /* seconds of the day, rising */
} calendar_times;

typedef struct calendar {
    calendar_days days;
    calendar_times times;
} calendar;

/* What a program says instead of a cron expression. Zero is "not said"; what is said must all hold. */
typedef struct calendar_plan {
    int times_s[CALENDAR_TIMES]; /* seconds of the day */
    int times;                   /* how many of them count; 0: midnight */
    uint8_t weekdays;            /* bits */
    uint32_t month_days;         /* bits; 31 is the last day of a shorter month */
    uint16_t months;             /* bits */
    int nth;                     /* of the days that are left, only the n-th of each month; negative: counted from its end */
} calendar_plan;

/* INVALID: something is out of range, or no date fits. */
pawl_status calendar_build(const calendar_plan *plan, calendar *out, pawl_error *err);

uint32_t calendar_month(const calendar_days *d, int year, int month); /* bit n: the n-th is one of its days */
bool calendar_possible(const calendar_days *d);                       /* some date fits */

/* The first member at or after, the last at or before, in local seconds; false: none up to the year 9999, or since 1600. */
bool calendar_next(const calendar *c, int64_t local_s, int64_t *at_s);
bool calendar_prev(const calendar *c, int64_t local_s, int64_t *at_s);

bool calendar_every_hour(const calendar *c); /* it has times in each of the 24 hours */

/* In English: "at 09:00 and 17:30 on Mondays". */
void calendar_words(const calendar *c, buf *out);

#endif
