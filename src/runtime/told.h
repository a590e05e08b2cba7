/* What nodes tell about the tasks that rate limits let them hold, as everybody sees it. See core/told.h. */
#ifndef RUNTIME_TOLD_H
#define RUNTIME_TOLD_H

#include "core/told.h"
#include "runtime/runtime.h"

/* What of living nodes is told of one task: by the node that has it, whether it is parked there. */
typedef struct told_of_task {
    bool parked;
    int64_t slot_us; /* its own, or, where so many are parked that it is not named, the first of its key; 0: not known */
    int64_t others;  /* tasks of its key that are parked there */
} told_of_task;

void told_find(const pawl_query *nodes, int64_t node, const pawl_info *task, told_of_task *out);

/* Tasks that nodes have taken and that wait there for their slots are shown as throttled until then; to the store they are leased. Here it
 * is what this engine knows, and of others what they told last. A page of running ones is left without them. */
void told_show(runtime *rt, pawl_info *const *tasks, size_t count);
void told_show_page(runtime *rt, const pawl_filter *filter, pawl_page *page);

/* Adds to a page of limits what nodes hold: to the rows of their keys, and rows of keys that only nodes know. */
pawl_status told_add(runtime *rt, pawl_arena *arena, const pawl_limit_filter *filter, pawl_limits *limits, pawl_error *err);

int64_t told_parked(const pawl_query *nodes); /* by all nodes */

#endif
