/* The database of mode b, shared by its two files: rowstore.c (nodes, claims, rescue) and rowstore_batch.c (operations). */
#ifndef SIM_ROWSTORE_H
#define SIM_ROWSTORE_H

#include "rows.h"

typedef struct rowstore {
    rows db;
    sim *sim;
    int64_t last_node;
    int64_t last_id;
    int numbers;
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
} lock_list;

void rowstore_want_lock(lock_list *l, row *r, bool exclusive);
bool rowstore_lock_all(tx *t, lock_list *l); /* and empties the list */

/* These return false when the transaction cannot go on. */
bool rowstore_lock_life(tx *t, int64_t node, bool *dead); /* own life row, shared */
bool rowstore_beat(tx *t, int64_t node, bool renewal);    /* writes the heartbeat */
bool rowstore_apply(tx *t, pawl_batch *b, pawl_status *status);
void rowstore_unlease(row_data *d, pawl_state to);

#endif
