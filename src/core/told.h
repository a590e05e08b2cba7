/* What a node tells everybody about the tasks that rate limits let it hold: how many of each key wait here for their slots, how many of them
 * run, and totals. It rides with the node's renewals, as bytes that stores keep and hand out without looking at them.
 *
 * Bounded: the keys and tasks that wait come first, TOLD_KEYS and TOLD_TASKS of them at most; totals count all. */
#ifndef CORE_TOLD_H
#define CORE_TOLD_H

#include "base/buf.h"

#define TOLD_KEYS 64
#define TOLD_TASKS 64
#define TOLD_MAX 49152 /* bytes */

typedef struct told_key {
    pawl_bytes type, key;
    bool local;              /* the node counts it for itself */
    int64_t parked, running; /* tasks */
    int64_t slot_us;         /* the first of the parked ones' slots; 0: none */
    int64_t left;            /* local: starts that could be made now */
} told_key;

typedef struct told_task { /* a parked one */
    pawl_id id;
    int64_t slot_us;
} told_task;

typedef struct told {
    int64_t parked, running, deferrals, rejected, opened;
    told_key keys[TOLD_KEYS];
    int keys_count;
    told_task tasks[TOLD_TASKS];
    int tasks_count;
} told;

void told_write(buf *to, const told *t);
bool told_read(pawl_bytes from, told *out); /* false: it is none. Points into `from` */

#endif
