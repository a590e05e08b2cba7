/* Rate limits inside a transaction: the budgets that its operations may need. See store/budget.h for the rules. */
#ifndef STORE_MYSQL_QUOTA_H
#define STORE_MYSQL_QUOTA_H

#include "core/limit.h"
#include "store/budget.h"
#include "store/mysql/inner.h"

typedef struct stored_limit {
    pawl_rate rate;
    bool found, paused;
} stored_limit;

typedef struct quota { /* of one key, locked */
    map_node node;
    int32_t type_id;
    pawl_bytes key;
    budget_row row;
    budget_limit limit;
    pawl_rate rate; /* as stored */
    bool limited, dirty;
} quota;

typedef struct limit_plan { /* of a LIMIT */
    struct limit_plan *next;
    const pawl_op *op;
    stored_limit old;
    pawl_id *ids; /* tasks with slots of it */
    int count;
} limit_plan;

/* limits.c */
stored_limit my_limit_read(const answer *a, int row, int column);
bool my_limit_in_force(const stored_limit *l);
bool my_limit_make(const stored_limit *own, const stored_limit *of_type, budget_limit *out); /* false: nothing limits the key */
void my_budget_read(const answer *a, int row, int column, budget_row *out);                  /* nine columns */
void my_ask_plans(work *w);
bool my_load_plans(work *w); /* locks the tasks that are to ask anew; false: the connection says why */
void my_apply_limit(work *w, flat_op *o);

/* quota.c */
void my_quota_ask(work *w);                                   /* into the script: locks budgets, reads limits and clock */
void my_quota_take_in(work *w);                               /* and out of its answer */
void my_quota_clock(const work *w, instant *at);              /* as it was once the budgets were locked */
quota *my_quota_of(work *w, int32_t type_id, pawl_bytes key); /* NULL: no limit, or the work has failed */
budget_answer my_quota_take(work *w, quota *q, const budget_ask *ask, budget_slot *out);
void my_quota_give_back(work *w, const task_row *row); /* the task ends or changes before it started: its slot, if any */
bool my_quota_reserve(work *w); /* all RESERVEs, and what else waits for their budgets; false: the connection says why */
void my_quota_flush(work *w);
bool my_quota_of_task(const pawl_op *op); /* it may take, or give back, a slot of the task that it names */

#endif
