/* Families of tasks inside the memory store; see memory_family.c. */
#ifndef STORE_MEMORY_FAMILY_H
#define STORE_MEMORY_FAMILY_H

#include "store/memory.h"

typedef struct mem_kin {
    map_node by_id;
    pawl_id id;
    mem_task *task;          /* NULL: a batch, or swept */
    struct mem_batch *batch; /* NULL: a task */
    list parents;            /* edges */
    list untold, told;       /* edges to children */
    int unmet, held;         /* of its parents: not told of; that failed and hold it */
    bool waits;
    unsigned char if_failed;
    unsigned char ended;       /* its state, of a batch or a task that is swept; of any that has children, once it has ended */
    struct mem_kin *member_of; /* a batch */
    list member;
    list work;     /* in m->unsettled, while there is */
    unsigned todo; /* something to tell */
    pawl_id retried_as;
    mem_ending *kept; /* of a task that is swept */
} mem_kin;

struct mem_batch {
    list link;
    mem_kin *kin;
    pawl_batch_info info; /* its state follows from the rest */
    list members, told;   /* told: of its cancel */
    char name[];
};

typedef struct mem_siblings { /* spawns that come before, of this task */
    const pawl_op *spawns;
    int count;
    pawl_id spawner;
} mem_siblings;

typedef struct mem_kinship { /* what the family of a new task means for it */
    pawl_op_result result;
    pawl_id id; /* whom NOT_FOUND or CONFLICT is about */
    bool waits;
} mem_kinship;

mem_kin *mem_kin_find(const mem *m, pawl_id id); /* NULL: it has no relatives */
mem_kinship mem_family_judge(const mem *m, const pawl_op *op, const mem_siblings *s);
void mem_family_put(mem *m, const pawl_op *op, mem_task *t, const mem_siblings *s, bool waits);
void mem_family_retried(mem *m, pawl_id id, pawl_id as);
int mem_settle(mem *m, int limit, int64_t now_us);
pawl_op_result mem_batch_put(mem *m, pawl_op *op, mem_batch **made, int64_t now_us);
int mem_batch_sweep(mem *m, const pawl_sweep *call, int most, int64_t now_us);
pawl_status mem_batches_read(const mem *m, pawl_query *query, pawl_arena *arena, pawl_error *err);
pawl_status mem_relatives(const mem *m, pawl_relatives_query *f, pawl_arena *arena, pawl_error *err);

#endif
