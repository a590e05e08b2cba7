/* Rate limits in a write transaction: budgets of keys, tasks that have slots. See store/gate.h for the rules. */
#ifndef STORE_SQLITE_BUDGET_H
#define STORE_SQLITE_BUDGET_H

#include "core/limit.h"
#include "store/gate.h"
#include "store/sqlite/read.h"

typedef struct budget { /* of one key, as this transaction knows it */
    struct budget *next;
    int64_t id, type_id;
    pawl_bytes key;
    gate_row row;
    gate_limit limit;
    bool limited, retries_free, dirty;
} budget;

typedef struct slotted {
    int64_t gate_id, epoch;
    char key[LIMIT_KEY_MAX]; /* of the gate: perhaps one that the body does not say */
    size_t key_len;
} slotted;

bool budget_limited(tx *t, int64_t type_id);               /* the type, or some key of it, has a limit */
budget *budget_of(tx *t, int64_t type_id, pawl_bytes key); /* NULL: no limit, or the transaction has failed */
gate_answer budget_take(tx *t, budget *b, const gate_ask *ask, gate_slot *out);
void budget_give_back(tx *t, const task_row *row); /* the task ends or changes before it started: its slot, if any */
void slotted_put(tx *t, pawl_id id, const budget *b, int64_t epoch);
bool slotted_take(tx *t, const task_row *row, slotted *out); /* the row of a pending task that leaves; false: there is none */
int64_t budget_version(tx *t);
int budget_sweep(tx *t, int most);
bool limits_read(reading *r, pawl_query *query); /* false: the cursor is none */

static inline void put_key(query *q, pawl_bytes key) { put_bytes(q, key.data ? key : (pawl_bytes){"", 0}); }

#endif
