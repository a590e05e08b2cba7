/* Concurrency limits and turns of tenants in a write transaction. All but the first are for transactions with `bounded` only. */
#ifndef STORE_SQLITE_PLACE_H
#define STORE_SQLITE_PLACE_H

#include "store/sqlite/read.h"

bool places_any(conn *c); /* there are bounds, or were */

bool places_needed(tx *t, int64_t queue_id,
                   int64_t type_id); /* tasks of this kind may need places, or wait for their tenant's turn */
bool places_bounded(tx *t, int64_t queue_id, int64_t type_id); /* may need places */
bool places_turns(tx *t, int64_t queue_id, int64_t type_id);   /* wait for their tenant's turn */
bool places_admit(tx *t, task_row *row, pawl_bytes rate_key);  /* a claim is about to grant it; false: it was blocked instead */
bool places_ordered(tx *t, const task_row *row, pawl_bytes rate_key); /* tasks of its key run one after the other */
void places_line_up(tx *t, task_row *row, pawl_bytes rate_key); /* a pending task is about to be stored: sets row->blocked */
void places_leave(tx *t, const task_row *row, bool ends);       /* its lease is over */
void places_withdraw(tx *t, const task_row *row); /* a pending task ends or gets another body, the old one still stored */
void places_end(tx *t, const task_row *row);      /* it has ended */
int places_offer(tx *t);                          /* at the spots touched so far; how many were unblocked */
void places_sweep(tx *t);
bool places_read(reading *r, pawl_query *query); /* false: the cursor is none */
void places_rejoin(tx *t, task_row *row, pawl_bytes rate_key,
                   bool holds); /* a task of another store was in the line of its key */
void places_offer_all(tx *t);   /* at all spots */

/* place_past.c */
pawl_line places_dump_line(reading *r, pawl_id id);
void places_dump_bounds(reading *r, pawl_dump *d);
void places_load_bounds(tx *t, const pawl_dump *d);

/* turn.c */
typedef struct turn {
    int64_t tenant_id;
    int rest;
} turn;

bool turns_on(tx *t, int64_t queue_id);            /* its tenants take turns */
int64_t turn_tenant(tx *t, const task_row *row);   /* what a pending task is stored with; -1: nothing */
bool turn_get(tx *t, int64_t queue_id, turn *out); /* false: tasks of the queue were never stored with tenants */
void turn_put(tx *t, int64_t queue_id, const turn *at);
int turn_weight(tx *t, int64_t queue_id, int64_t tenant_id);
void turns_bound(tx *t, pawl_op *op);

/* A row of pawl_bound; 0: none in force. */
int bound_most(conn *c, pawl_scope scope, int64_t name_id, pawl_bytes key, bool *ordered);
bool bound_write(tx *t, pawl_op *op, int64_t name_id, pawl_bytes key); /* false: it is the one that is stored */
void bound_put(tx *t, pawl_scope scope, int64_t name_id, pawl_bytes key, int most, bool ordered);
pawl_bytes tenant_key(int64_t tenant_id, char room[24]); /* how the bounds of TENANTS name one */

#endif
