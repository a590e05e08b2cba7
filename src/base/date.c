/* Days and dates are converted in a year that begins in March, so that the leap day is the last day of the year and the months
 * before it have a fixed pattern: 153 days in each five months. 400 years have 146097 days. Day 0 is 1970-01-01, which is day 719468
 * of that calendar (counted from 0000-03-01) and a Thursday.
 */
#include "base/date.h"
#include <stdbool.h>

#define MARCH_1_OF_0000 719468
#define DAYS_PER_400_YEARS 146097

int64_t date_to_days(date d)
{
    int64_t year = d.month > 2 ? d.year : d.year - 1;
    int64_t month = d.month > 2 ? d.month - 3 : d.month + 9; /* March is 0 */
    return year * 365 + year / 4 - year / 100 + year / 400 + (153 * month + 2) / 5 + d.day - 1 - MARCH_1_OF_0000;
}

/* The year of a day of the 400 years: the leap days before it taken out (the last day of 4 years, but not of 100, but of 400). */
static int year_of(int day) { return (day - day / 1460 + day / 36524 - day / 146096) / 365; }

date date_from_days(int64_t days)
{
    days += MARCH_1_OF_0000;
    int day = (int)(days % DAYS_PER_400_YEARS), year = year_of(day);
    day -= year * 365 + year / 4 - year / 100;
    int month = (5 * day + 2) / 153;
    return (date){
        .year = (int)(days / DAYS_PER_400_YEARS) * 400 + year + (month >= 10),
        .month = month < 10 ? month + 3 : month - 9,
        .day = day - (153 * month + 2) / 5 + 1,
    };
}

int date_month_days(int year, int month)
{
    bool leap = (year % 4 == 0 && year % 100 != 0) || year % 400 == 0;
    if (month == 2) return leap ? 29 : 28;
    return month == 4 || month == 6 || month == 9 || month == 11 ? 30 : 31;
}

int date_weekday(int64_t days) { return (int)((days + MARCH_1_OF_0000 + 3) % 7); }
