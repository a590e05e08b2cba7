/* Rate limits in a write transaction: quotas of keys, tasks that have slots. See store/budget.h for the rules. */
#ifndef STORE_SQLITE_QUOTA_H
#define STORE_SQLITE_QUOTA_H

#include "core/limit.h"
#include "store/budget.h"
#include "store/sqlite/read.h"

typedef struct quota { /* of one key, as this transaction knows it */
    struct quota *next;
    int64_t id, type_id;
    pawl_bytes key;
    budget_row row;
    budget_limit limit;
    pawl_rate rate; /* as stored */
    bool limited, dirty;
} quota;

typedef struct slotted {
    int64_t budget_id, epoch;
    char key[LIMIT_KEY_MAX]; /* of the budget: perhaps one that the body does not say */
    size_t key_len;
} slotted;

bool quota_any(tx *t);                                   /* there is some limit */
bool quota_limited(tx *t, int64_t type_id);              /* the type, or some key of it, has a limit */
quota *quota_of(tx *t, int64_t type_id, pawl_bytes key); /* NULL: no limit, or the transaction has failed */
budget_answer quota_take(tx *t, quota *b, const budget_ask *ask, budget_slot *out);
void quota_give_back(tx *t, const task_row *row); /* the task ends or changes before it started: its slot, if any */
void slotted_put(tx *t, pawl_id id, const quota *b, int64_t epoch);
bool slotted_take(tx *t, const task_row *row, slotted *out); /* the row of a pending task that leaves; false: there is none */
bool quota_spent(tx *t, const task_row *row); /* a pending task that would have to wait for its budget, and for long */
int64_t quota_version(tx *t);
int quota_sweep(tx *t, int most);
bool limits_read(reading *r, pawl_query *query); /* false: the cursor is none */

static inline void put_key(query *q, pawl_bytes key) { put_bytes(q, key.data ? key : (pawl_bytes){"", 0}); }

#endif
