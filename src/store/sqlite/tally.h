/* What a transaction adds up in memory and writes once at its end: counters of queues and nodes, rollups, slots of retention. */
#ifndef STORE_SQLITE_TALLY_H
#define STORE_SQLITE_TALLY_H

#include "store/histogram.h"
#include "store/sqlite/seen.h"
#include <pawl/store.h>

typedef enum rollup_outcome {
    ROLLUP_DISPATCHED = 1,
    ROLLUP_SUCCEEDED,
    ROLLUP_FAILED,
    ROLLUP_CANCELLED,
    ROLLUP_RETRIED,
    ROLLUP_RESCUED,
    ROLLUP_OTHER, /* runs that ended in none of these ways */
    ROLLUP_COUNT
} rollup_outcome;

typedef struct queue_tally {
    int64_t queue_id;
    int64_t delta[PAWL_STATE_COUNT]; /* WAITING, PENDING, LEASED; FAILED: unresolved */
    bool known, paused;              /* known: paused and stored hold what pawl_queue says */
    int64_t stored;                  /* unfinished before this transaction */
    int64_t planned;                 /* that this transaction will add */
} queue_tally;

typedef struct node_tally {
    int64_t node, leases;
} node_tally;

typedef struct slot_tally {
    int64_t born; /* the hour of their ids */
    pawl_state state;
    pawl_id min_id, max_id;
} slot_tally;

#define TALLY_SLOT_US (10 * PAWL_MINUTE)

typedef struct rollup_tally {
    int64_t queue_id, type_id, count;
    rollup_outcome outcome;
    int next; /* in its chain; -1: the last */
    histogram wait, run;
} rollup_tally;

typedef struct seen_tally {
    int64_t block;
    seen_set set;
} seen_tally;

#define TALLY_CHAINS 64

typedef struct tally {
    const pawl_allocator *allocator;
    queue_tally *queues;
    int queues_count, queues_room, queue_last;
    node_tally *nodes;
    int nodes_count, nodes_room;
    slot_tally *slots;
    int slots_count, slots_room, slot_last;
    rollup_tally *rollups;
    int rollups_count, rollups_room, rollup_last;
    seen_tally *seen;
    int seen_count, seen_room;
    int chains[TALLY_CHAINS];   /* heads of chains of rollups */
    bool granted;               /* a lease was granted to the transaction's node */
    pawl_id born_min, born_max; /* ids that were inserted; born_max 0: none */
} tally;

struct tx;
struct task_row;

void tally_init(tally *t, const pawl_allocator *a);
void tally_done(tally *t);
void tally_reset(tally *t);

/* All of them note SQLITE_NOMEM in the transaction's connection when memory runs out. */
void tally_state(struct tx *x, int64_t queue_id, pawl_state state, int by); /* FAILED: unresolved dead letters */
bool tally_paused(struct tx *x, int64_t queue_id);
void tally_pause(struct tx *x, int64_t queue_id, bool paused);
int64_t tally_plan(struct tx *x, int64_t queue_id, int by); /* unfinished tasks stored and planned, with these */
void tally_lease(struct tx *x, int64_t node, int by);
void tally_born(struct tx *x, const struct task_row *row, int64_t tenant_id); /* a body was inserted; tenant_id 0: none */
void tally_seen(struct tx *x, pawl_id id, seen_kind kind, int64_t name_id);   /* a task that has this name */
void tally_finished(struct tx *x, pawl_id id, pawl_state state);              /* SUCCEEDED or CANCELLED */
void tally_count(struct tx *x, int64_t queue_id, int64_t type_id, rollup_outcome outcome);
/* With its times: how long the run waited after it fell due, and how long it took. */
void tally_run(struct tx *x, int64_t queue_id, int64_t type_id, rollup_outcome outcome, const pawl_execution *run,
               int64_t due_us);
void tally_flush(struct tx *x);

#endif
