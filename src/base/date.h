/* Days and dates of the Gregorian calendar, years 1 and later. Day 0 is 1970-01-01. */
#ifndef BASE_DATE_H
#define BASE_DATE_H

#include <stdint.h>

#define DAY_S INT64_C(86400)

typedef struct date {
    int year, month, day; /* month 1..12, day 1..31 */
} date;

int64_t date_to_days(date d);
date date_from_days(int64_t days);
int date_month_days(int year, int month); /* 28..31 */
int date_weekday(int64_t days);           /* 0 is Sunday */

#endif
