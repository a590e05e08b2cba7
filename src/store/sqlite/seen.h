/* Which names the tasks of a stretch of ids have, so that a list of one queue, type or tenant need not look at everything else.
 *
 * Ids are ordered by time; a block is a quarter of a second of them (level 1), a span 65 seconds (level 2). Each has a row of
 * pawl_seen with a set of bits: two for every name that occurs there. Bits are only ever added, until no task is left and the row
 * goes. A clear bit proves that the name does not occur; a set one proves nothing. So nothing is paid per task, but a read or two
 * per transaction and a write for the first task of its kind in a block.
 */
#ifndef STORE_SQLITE_SEEN_H
#define STORE_SQLITE_SEEN_H

#include "store/sqlite/conn.h"

#define SEEN_BLOCK_SHIFT 30 /* of an id: 22 bits below the millisecond, and 8 of the milliseconds */
#define SEEN_SPAN_SHIFT 38
#define SEEN_BYTES 32

/* CANCELLED has no name: every other state has a table of its own, or most of one. */
typedef enum seen_kind { SEEN_QUEUE, SEEN_TYPE, SEEN_TENANT, SEEN_CANCELLED } seen_kind;

typedef struct seen_set {
    unsigned char bits[SEEN_BYTES];
} seen_set;

void seen_add(seen_set *set, seen_kind kind, int64_t name_id);

/* In a write transaction. */
void seen_put(conn *c, int64_t block, const seen_set *set);
void seen_forget(conn *c, pawl_id id); /* the task is gone: if it was the last one, so is what was seen around it */

/* The next stretch of ids, `from` included, in which all of `wanted` may occur. false: there is none, or failed. */
bool seen_next(conn *c, const seen_set *wanted, pawl_id from, bool up, pawl_id *low, pawl_id *high);

#endif
