/* Two operations that meet, the first one held at the door of its commit.
 *
 * The first runs on a handle whose transactions wait, just before they commit, for a lock that the test has (a deferred trigger on the
 * tables). When it stands there, with all its own locks, the second one runs until it is done or waits for the first. Then the first one
 * commits, or its session is killed. */
#ifndef POSTGRES_MEET_H
#define POSTGRES_MEET_H

#include "base/clock.h"
#include "bed.h"

typedef struct meeting {
    char schema[64];
    virtual_clock clock;
    pawl_store *slow, *quick; /* the first operation's, and everybody else's */
    PGconn *pg;
    int64_t key; /* of the lock */
} meeting;

typedef void meet_fn(pawl_store *store, void *answer);

void meet_open(meeting *m, const char *what, int64_t lease_us);
void meet_close(meeting *m);
void meet_run(meeting *m, meet_fn *first, void *first_answer, meet_fn *second, void *second_answer, bool kill);

#endif
