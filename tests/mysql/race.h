/* Two calls that meet. The first one runs on a handle of a user whose transactions wait, once they write to pawl_lane, which they all do
 * last, for a lock that the test has (a trigger). When it stands there, with all its own locks, the second one runs until it is done or
 * waits for the first. Then the first one commits, or its session is killed. */
#ifndef MYSQL_RACE_H
#define MYSQL_RACE_H

#include "base/clock.h"
#include "mysql/bed.h"

#define RACE_LEASE (30 * PAWL_SECOND)

typedef struct race {
    char database[64];
    virtual_clock clock;
    pawl_store *slow, *quick;
    MYSQL *my;
} race;

typedef void (*race_call)(pawl_store *store, void *answer);

void race_open(race *r, const char *what);
void race_hold(const race *r, const char *when); /* which of their writes to pawl_lane wait, as SQL over NEW */
void race_close(race *r);
void race_meet(race *r, race_call first, void *first_answer, race_call second, void *second_answer, bool kill);
void race_await_lock(const race *r);                                       /* until a call on the quick handle waits for one */
void race_check_nothing(const race *r, const char *what, const char *sql); /* that finds what must not be */
void race_check(const race *r);                                            /* everything that is stored fits together */

#endif
