/* The database of mode b, shared by its files: rowstore.c (nodes, claims, rescue), rowstore_batch.c (operations), rowstore_budget.c (rate
 * limits) and rowstore_place.c (concurrency limits). */
#ifndef SIM_ROWSTORE_H
#define SIM_ROWSTORE_H

#include "rows.h"

typedef struct rowstore {
    rows db;
    sim *sim;
    int64_t last_node;
    int64_t last_id;
    int numbers;
    int64_t limits_version;
    pawl_allocator forever; /* bodies live as long as the seed */
} rowstore;

static inline rowstore *rowstore_of(const tx *t) { return container_of(t->db, rowstore, db); }
static inline row *rowstore_task(tx *t, pawl_id id) { return rows_get(t->db, ROW_TASK, id, NULL); }
static inline row *rowstore_queue(tx *t, const char *queue) { return rows_get(t->db, ROW_QUEUE, 0, queue); }

/* Rows to be locked together, in the contract's order. */
typedef struct lock_list {
    struct {
        row *row;
        bool exclusive;
    } * locks;
    int count;
    bool gates; /* some of them are */
} lock_list;

void rowstore_want_lock(lock_list *l, row *r, bool exclusive);
bool rowstore_lock_all(tx *t, lock_list *l); /* and empties the list */

/* These return false when the transaction cannot go on. */
bool rowstore_lock_life(tx *t, int64_t node, bool *dead); /* own life row, shared */
bool rowstore_beat(tx *t, int64_t node, bool renewal);    /* writes the heartbeat */
bool rowstore_apply(tx *t, pawl_batch *b, pawl_status *status);
void rowstore_unlease(row_data *d, pawl_state to);

/* rowstore_budget.c */
typedef struct row_taken { /* what an insert took of a budget */
    row *gate;             /* it has a slot ahead, of this gate */
    budget_slot slot;
} row_taken;

void rowstore_want_gates(tx *t, lock_list *l, const pawl_op *op);
void rowstore_want_slotted(tx *t, lock_list *l, const pawl_op *op);
bool rowstore_limited(tx *t, const char *type); /* the type, or some keys of it */
bool rowstore_is_slotted(tx *t, const row_data *d, const pawl_op *op);
void rowstore_slot_set(row_data *d, row *gate, const budget_slot *slot);
int64_t rowstore_slot_until(tx *t, const row_data *d);                         /* 0: it has no slot */
bool rowstore_take(tx *t, const pawl_body *body, bool leased, row_taken *out); /* true: it may start now */
void rowstore_give_back(tx *t, row *r);
bool rowstore_keep_slot(tx *t, row *r, const pawl_body *body, int64_t at_us);
void rowstore_reserve(tx *t, row *r, pawl_op *op);
void rowstore_release_slot(tx *t, row *r, const pawl_op *op);
void rowstore_limit(tx *t, pawl_op *op);

/* rowstore_place.c */
bool rowstore_lock_bounds(tx *t, bool exclusive);
void rowstore_want_spots(tx *t, lock_list *l, const pawl_op *op);
void rowstore_want_spots_of(tx *t, lock_list *l, const pawl_body *body);
void rowstore_want_blocked(tx *t, lock_list *l);
bool rowstore_stands(tx *t, const row *r);
bool rowstore_bounded(tx *t, const pawl_body *body);
bool rowstore_admit(tx *t, row *r);
void rowstore_leave_places(tx *t, row *r);
bool rowstore_offer(tx *t); /* true: somebody was unblocked */
void rowstore_bound(tx *t, pawl_op *op);

#endif
