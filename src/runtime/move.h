/* The inside of pawl_move. */
#ifndef RUNTIME_MOVE_H
#define RUNTIME_MOVE_H

#include "runtime/runtime.h"

#define POSITION_TEXT 100
#define PAGE_MOST 5000 /* tasks of a page */

typedef enum move_step {
    HISTORY = 1,
    CLOSE,
    BOUNDS,
    REST,
    SETTINGS,
    LIMITS,
    BUDGETS,
    OFFERS,
    BATCHES,
    KEPT,
    SCHEDULES,
    MINUTES,
    ACTS,
    CHECK_SUMS,
    REPAIR,
    CHECK_AGAIN,
    STEPS
} move_step;

typedef struct position { /* how far it has come; the target's gate has it as text */
    int step;
    int64_t after, since_us, copied, total;
} position;

typedef struct census { /* what a store holds, by state */
    bool whole;
    int64_t counts[PAWL_STATE_COUNT];
    uint64_t sums[PAWL_STATE_COUNT];
} census;

typedef struct watched { /* a lapsed node of the source */
    int64_t node, renewal, since_us;
} watched;

typedef struct mover {
    const pawl_move_options *o;
    const pawl_allocator *allocator;
    pawl_store *from, *to;
    const char *from_url, *to_url; /* for people */
    char move[160];
    char stored[POSITION_TEXT]; /* the position as the target has it */
    pawl_arena *arena, *counted, *kept;
    pawl_dump counting;
    pawl_loaded results[PAGE_MOST];
    int64_t done, total, copied;
    census seen, rest, at_target; /* of the part copied last; of REST; in the end */
    bool seen_rest, over, resumed;
    watched lapsed[PAWL_LAPSED_MAX];
    int lapsed_count;
} mover;

/* move_copy.c. Calls are made again for a while if a store does not answer. */
bool move_same(const char *a, const char *b); /* two texts; NULL is like nothing */
pawl_status move_show(mover *m, const char *phase, const char *waiting, pawl_error *err);
pawl_status move_look(mover *m, pawl_store *store, pawl_gate *gate, pawl_error *err); /* in m->arena */
pawl_status move_set(mover *m, pawl_store *store, const pawl_gate *gate, pawl_error *err);
pawl_status move_set_target(mover *m, pawl_gate *gate, pawl_error *err); /* CONFLICT: it is not where we left it */
pawl_status move_dump(mover *m, pawl_store *store, pawl_dump *d, pawl_arena *arena, pawl_error *err);
bool move_position_read(const char *text, position *p);
pawl_status move_put_position(mover *m, const position *p, pawl_error *err);
pawl_status move_not_ours(mover *m, pawl_error *err);
pawl_status move_copy(mover *m, position *p, pawl_dump how, int next_step,
                      pawl_error *err); /* from p->after to the end of the part */
pawl_status move_count(mover *m, pawl_store *store, const char *phase, census *out, pawl_error *err);
int64_t move_total(const census *c);
pawl_status move_drain(mover *m, pawl_store *store,
                       pawl_error *err);            /* until nobody who saw its gate open can change it any more */
pawl_status move_settle(mover *m, pawl_error *err); /* until everybody at the first store knows what has ended */

/* move_parts.c */
bool move_goes(const mover *m, pawl_part part);         /* both stores keep it, and it is not to be left */
pawl_status move_check_left(mover *m, pawl_error *err); /* UNSUPPORTED: there is something that the second store cannot keep */
pawl_status move_compare(mover *m, pawl_error *err);    /* whether all that goes is there, beside tasks; CORRUPT */
pawl_status move_has_batches(mover *m, pawl_store *store, bool *any, pawl_error *err);

#endif
