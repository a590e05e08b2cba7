/* What a zone is made of; for zone*.c only. */
#ifndef BASE_ZONE_PARTS_H
#define BASE_ZONE_PARTS_H

#include "base/zone.h"

#define ZONE_ABBREVIATION 16 /* with its NUL; the longest in use has 6 letters */

/* A day of each year and a time on it, as in the rule at the end of a file. */
typedef struct zone_day {
    char kind;       /* 'J': day 1..365, 29 February never counted; 'N': day 0..365; 'M': month, week, weekday */
    int day;         /* J, N; of M: the weekday, 0 is Sunday */
    int month, week; /* M; week 5 is the last */
    int time_s;      /* by the clock before the change, -167 h to 167 h */
} zone_day;

typedef struct zone_side {
    int offset_s;
    char abbreviation[ZONE_ABBREVIATION];
    zone_day begins;
} zone_side;

/* What holds behind the last transition. */
typedef struct zone_rule {
    bool given, changes;
    zone_side sides[2]; /* standard time, summer time */
} zone_rule;

typedef struct zone_type {
    int32_t offset_s;
    bool summer;
    const char *abbreviation;
} zone_type;

struct zone {
    const pawl_allocator *allocator;
    const char *name;
    int count;        /* of transitions */
    int64_t *at_s;    /* strictly rising */
    uint8_t *type_at; /* what begins there */
    zone_type *types; /* [0] holds before the first transition */
    zone_rule rule;
};

/* A change of the rule's: side `to` begins. */
typedef struct zone_change {
    int64_t at_s;
    int to;
} zone_change;

/* All that belong to the year of utc_s, the four before it and the two after it, in order. A rule can put a change a week outside of
 * its year, and two changes in another order in each year: four years back, nothing is missing between any two that count. */
#define ZONE_CHANGES 14
void zone_rule_changes(const zone_rule *rule, int64_t utc_s, zone_change out[ZONE_CHANGES]);

/* "CET-1CEST,M3.5.0,M10.5.0/3"; NULL, or what is wrong with it. */
const char *zone_rule_parse(pawl_bytes text, zone_rule *out);

#endif
