/* Whether two calendars are the same, member by member. */
#ifndef CRON_SAME_H
#define CRON_SAME_H

#include "core/calendar.h"
#include <string.h>

static inline bool same_times(const calendar_times *a, const calendar_times *b)
{
    if (a->count != b->count || a->seconds != b->seconds || a->minutes != b->minutes || a->hours != b->hours) return false;
    return memcmp(a->list_s, b->list_s, sizeof a->list_s) == 0;
}

static inline bool same_calendar(const calendar *a, const calendar *b)
{
    const calendar_days *x = &a->days, *y = &b->days;
    return same_times(&a->times, &b->times) && x->days == y->days && x->from_last == y->from_last && x->near == y->near &&
           x->near_last == y->near_last && x->months == y->months && x->weekdays == y->weekdays &&
           memcmp(x->nth, y->nth, sizeof x->nth) == 0 && x->last == y->last && x->any_day == y->any_day &&
           x->any_weekday == y->any_weekday && x->both == y->both && x->clamp == y->clamp && x->pick == y->pick;
}

#endif
