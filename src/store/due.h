/* How many due tasks of each queue are counted for statistics, so that counting all of them takes a bounded time, however many queues
 * there are: an equal share of 10,000, and at least 100. How many wait in all is known without counting.
 */
#ifndef STORE_DUE_H
#define STORE_DUE_H

#include <stddef.h>
#include <stdint.h>

#define DUE_LEAST 100
#define DUE_ALL 10000

static inline int64_t due_share(size_t queues)
{
    int64_t share = queues ? DUE_ALL / (int64_t)queues : DUE_ALL;
    return share < DUE_LEAST ? DUE_LEAST : share;
}

#endif
