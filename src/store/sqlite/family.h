/* Families of tasks, inside the store `sqlite:`: who waits for whom (family.c), batches (batch.c), what is told when (settle.c).
 *
 *   end of a task --> family_ended: a row of pawl_unsettled --> settle, at the end of the same transaction and as far as it goes -->
 *   children are freed, held or cancelled; members counted; batches end --> which is an end again
 *
 * What ends while others are told adds a row and is told in its turn: nothing recurses, however deep the family is. Where nobody waits
 * and no batch is open, one small question per transaction is all that families cost other tasks.
 */
#ifndef STORE_SQLITE_FAMILY_H
#define STORE_SQLITE_FAMILY_H

#include "store/sqlite/inner.h"

enum { EDGE_UNTOLD = PAWL_EDGE_UNTOLD, EDGE_TOLD = PAWL_EDGE_TOLD, EDGE_HELD = PAWL_EDGE_HELD };
typedef enum untold { UNTOLD_DRAINED, UNTOLD_END, UNTOLD_CANCEL, UNTOLD_RETRIED } untold;

typedef struct batch_row {
    pawl_batch_info info; /* name: only while it is read */
    bool closed, ended;
} batch_row;

typedef struct kinship { /* what the family of a new task means for it */
    pawl_op_result result;
    pawl_id id; /* whom NOT_FOUND or CONFLICT is about */
    int unmet;
    pawl_id batch;
} kinship;

/* family.c */
bool families(tx *t); /* whether anybody waits, or any batch has not ended */
void unsettled_put(tx *t, pawl_id id, untold kind, pawl_id after, int64_t value);
pawl_state kin_state(tx *t, pawl_id id); /* of a task or a batch; PENDING: not ended; NONE: there is none */
kinship family_judge(tx *t, const pawl_op *op);
void family_put(tx *t, const pawl_op *op, pawl_id id, const kinship *k); /* after its body and its live row */
void family_retried(tx *t, pawl_id id, pawl_id as);
void family_forget(tx *t, pawl_id id); /* before its rows go */

/* batch.c */
bool batch_read(query *q, batch_row *row); /* the next row; ends the query if there is none */
bool batch_get(tx *t, pawl_id id, batch_row *row);
pawl_id batch_of(tx *t, pawl_id id); /* the batch that a task or batch is a member of; 0: none */
void batch_join(tx *t, pawl_id id, pawl_id member);
void batch_member_ended(tx *t, pawl_id member, pawl_state to);
void batch_drained(tx *t, pawl_id id); /* ends it, if it is closed and nothing of it is unfinished */
void batch_cancel(tx *t, pawl_id id);
int batch_sweep(tx *t, const pawl_sweep *call, int most);

/* family_past.c */
bool family_here(tx *t, const pawl_record *r); /* whom it waits for is stored, or what is kept of it */
void family_load(tx *t, const pawl_record *r, bool move);
void family_load_batches(tx *t, const pawl_dump *d);
void family_load_kept(tx *t, const pawl_dump *d);

/* settle.c */
void settle(tx *t, int limit, int *settled);

#endif
