/* How many due tasks of each queue are counted for statistics, so that counting all of them takes a bounded time, however many queues
 * there are. Up to five that have any, 10,000 of each; then an equal share of 50,000, and at least 100.
 */
#ifndef STORE_DUE_H
#define STORE_DUE_H

#include <stddef.h>
#include <stdint.h>

#define DUE_MOST 10000
#define DUE_LEAST 100
#define DUE_ALL 50000

static inline int64_t due_share(size_t queues)
{
    int64_t share = queues ? DUE_ALL / (int64_t)queues : DUE_MOST;
    return share > DUE_MOST ? DUE_MOST : share < DUE_LEAST ? DUE_LEAST : share;
}

#endif
