/* Families of tasks: who waits for whom (family.c), batches (member.c), what is told when (settle.c). See FAMILIES in pawl/store.h.
 *
 *   end of a task --> a row of pawl_unsettled, in the same commit --> settle, in transactions of its own, right after the commit and as
 *   far as it goes --> children are freed, held or cancelled; batches end --> which is an end again
 *
 * What is new, and who does not end, is held while somebody begins to wait for it (LOCK IN SHARE MODE); who ends it looks for edges once
 * it has it for itself. So whichever comes second sees the other. What a child waits for changes only under its row in pawl_live.
 */
#ifndef STORE_MYSQL_FAMILY_H
#define STORE_MYSQL_FAMILY_H

#include "store/mysql/inner.h"

enum { EDGE_UNTOLD, EDGE_TOLD, EDGE_HELD };
typedef enum untold { UNTOLD_DRAINED, UNTOLD_END, UNTOLD_CANCEL, UNTOLD_RETRIED, UNTOLD_MEMBER, UNTOLD_LOOK } untold;

typedef struct kinship { /* what the family of a new task means for it */
    pawl_op_result result;
    pawl_id id; /* whom NOT_FOUND or CONFLICT is about */
    int unmet;
    pawl_id batch;
} kinship;

typedef struct batch_row { /* locked, or of somebody who only waits for it */
    map_node node;
    pawl_id id;
    bool closed, ended, cancel_asked;
    pawl_state state; /* once it has ended */
    int64_t unfinished, failed, cancelled;
    int64_t joined; /* members that are new */
} batch_row;

typedef struct member_row {
    map_node node; /* by the member's id */
    pawl_id batch_id;
} member_row;

typedef struct batch_name {
    map_node node; /* by its hash */
    const char *name;
    pawl_id id;
} batch_name;

/* family.c */
bool my_families_mark(my_store *s, conn *c); /* everybody learns that there are families; before the first one is stored */
void my_families_ask(work *w);               /* for the operations of a batch, into the script */
void my_families_take_in(work *w);
pawl_state my_kin_state(work *w, pawl_id id); /* of a task or a batch; PENDING: not ended; NONE: there is none */
bool my_families_load(work *w);               /* once it was sent; false: the connection says why */
bool my_spawns_orphaned(work *w, int at);     /* one of a FINISH's spawns names a parent or a batch that there is not */
kinship my_family_judge(work *w, const flat_op *o);
void my_family_put(work *w, const flat_op *o, pawl_id id, const kinship *k);
void my_family_ended(work *w, const task_row *row, pawl_state to); /* part of my_end_put */
void my_family_retried(work *w, pawl_id id, pawl_id as);
void my_unsettled_put(work *w, pawl_id id, untold kind, pawl_id told, int64_t value);
void my_end_left(work *w, pawl_id id, pawl_state to);   /* its children are to be told */
void my_end_counts(work *w, pawl_id id, pawl_state to); /* in its batch */
void my_families_flush(work *w);                        /* part of my_work_flush */
void my_read_batch(batch_row *b, const answer *a, int row);

/* member.c */
batch_row *my_batch_row(const work *w, pawl_id id); /* NULL: there is none, or it was not asked for */
batch_row *my_batch_learn(work *w, pawl_id id);
void my_batch_join(work *w, pawl_id id, pawl_id member);
void my_apply_batch(work *w, pawl_op *op);
void my_batches_flush(work *w);

/* settle.c */
typedef struct settled {
    int told;
    bool freed, unblocked, left;
} settled;

struct settling;
void my_settle(my_store *s, conn *c, int64_t node, int64_t lane, int limit, pawl_arena *arena, settled *out);
void my_settle_ended(struct settling *k, pawl_id id, pawl_state to);

/* apply.c: cancels members of a batch, whatever they are, in a commit of its own that also moves the cursor to `last` (0: that was all). */
bool my_cancel_members(my_store *s, conn *c, pawl_id batch, const pawl_id *ids, int count, pawl_id last, pawl_arena *arena,
                       settled *out);

/* Retention (sweep.c). */
bool my_sweep_batches(conn *c, const pawl_sweep *call, int64_t now_us, int *left); /* false: the connection says why */

#endif
