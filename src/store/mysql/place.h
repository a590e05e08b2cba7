/* Concurrency limits inside a transaction: the spots that it has locked, and their places. Only where there are bounds, or were. */
#ifndef STORE_MYSQL_PLACE_H
#define STORE_MYSQL_PLACE_H

#include "store/mysql/inner.h"

#define SPOTS_MAX 3 /* that a task may need places of: queue, type, key */

typedef struct place {
    int number;
    pawl_id id;
    bool leased; /* not only pending, as where the order is kept */
    bool fresh;  /* not stored yet */
} place;

typedef struct bound_said {
    int most; /* 0: nothing */
    bool ordered;
} bound_said;

typedef struct spot { /* locked */
    map_node node;
    pawl_scope scope;
    int32_t name_id;
    pawl_bytes key;
    bound_said own, all;
    bool known;   /* its places were read */
    bool filling; /* or are being read */
    bool touched; /* what is free is to be offered */
    place *places;
    int count, room;
    int planned;   /* places that a claim is about to take */
    pawl_id first; /* the lowest id that is blocked here; for those that keep the order */
    bool first_known;
} spot;

static inline bound_said spot_bound(const spot *s) { return s->own.most > 0 ? s->own : s->all; }

/* Several have a place of those that keep the order only if they were leased when the bound was put. */
static inline bool spot_kept(const spot *s)
{
    bound_said b = spot_bound(s);
    return b.most > 0 && b.ordered && s->count == 1;
}

typedef struct spot_source { /* what spots are found by, as rows */
    buf known, which;        /* the same as rows, and as a condition */
    buf asked, gone, keys;
    int count;
} spot_source;

/* place.c: which of them, and locking */
bool my_bounded(const limit_types *l, int32_t queue_id, int32_t type_id);      /* tasks of this kind may need places */
bool my_ever_bounded(const limit_types *l, int32_t queue_id, int32_t type_id); /* they may have places: so it is, or was */
void my_holder_note(my_store *s, pawl_id id); /* it is leased, and may have places: its end asks for them at once */
void my_spot_source_init(spot_source *src, work *w);
void my_spot_source_done(spot_source *src);
void my_spot_want(const conn *c, spot_source *src, pawl_scope scope, int32_t name_id, pawl_bytes key);
void my_spot_wants(const work *w, spot_source *src, int32_t queue_id, int32_t type_id, pawl_bytes key); /* all of a task */
void my_spots_lock(work *w, spot_source *src);                                                          /* into the script */
void my_places_ask(work *w);                                      /* the same for the operations of a batch */
void my_places_ask_tasks(work *w, const pawl_id *ids, int count); /* for leases that are to end */
void my_places_verify(work *w, const pawl_id *ids, int count);    /* into the script, once tasks are locked */
bool my_places_missed(work *w); /* a lease that may have places is to end, and nobody asked for them: try again */
bool my_spots_take_in(work *w); /* locked spots out of the answers; false: tasks stand where nothing is locked, so try again */
bool my_places_load(work *w);   /* the places of all that are not known yet, in a message; false: the connection says why */

spot *my_spot(const work *w, pawl_scope scope, int32_t name_id, pawl_bytes key); /* NULL: not locked */
int my_spots_of(work *w, int32_t queue_id, int32_t type_id, pawl_bytes key,
                spot *out[SPOTS_MAX]); /* the work fails if one is missing */
bool my_spot_has(const spot *s, pawl_id id);
bool my_spot_room(const spot *s, pawl_id id);
void my_place_take(work *w, spot *s, pawl_id id, bool leased);
void my_place_drop(work *w, spot *s, int at);
void my_block(work *w, const spot *s, const task_row *row, int32_t tenant_id); /* its row in pawl_live is the caller's */

/* offer.c: when tasks come and go */
bool my_places_line_up(work *w, const task_row *row, pawl_bytes rate_key, int32_t tenant_id); /* false: nothing bounds it */
bool my_place_ordered(work *w, int32_t queue_id, int32_t type_id, pawl_bytes rate_key);
void my_places_leave(work *w, pawl_id id, bool ends);  /* its lease is over */
void my_places_end(work *w, const task_row *row);      /* it has ended */
void my_places_withdraw(work *w, const task_row *row); /* a pending one ends, or gets another body */
bool my_places_settle(work *w); /* offers what is free, lines up what is new; false: the connection says why */
void my_places_flush(work *w);  /* the rows, into the script; part of my_work_flush */

/* bound.c */
void my_ask_bounds(work *w);
void my_bounds_take_in(work *w);
bool my_load_bounds(work *w);
void my_apply_bound(work *w, flat_op *o);
void my_bounds_told(work *w); /* once what is free was offered: whether there is more */

#endif
