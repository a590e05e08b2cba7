/* The judge's model, shared by its four files: judge.c (calls), judge_batch.c (operations), judge_rate.c (rate limits), judge_core.c
 * (runs and answers), judge_place.c (concurrency limits). */
#ifndef SIM_JUDGE_H
#define SIM_JUDGE_H

#include "sim.h"

#define TOUCHED_MAX 512
#define SIGHTINGS_MAX 128

/* How an execution was committed. */
typedef struct verdict {
    struct verdict *next;
    int64_t fence;
    core_settled how;
} verdict;

/* What a task may start by. Times of the simulation, but told_us, which is the store's. */
typedef struct right_to_start {
    enum { RIGHT_NONE, RIGHT_FREE, RIGHT_SLOT } kind; /* FREE: nothing limits it */
    bool used, any;                                   /* any: not known which */
    int gate;
    int64_t told_us, slot_us, until_us, grace_us, epoch; /* epoch -1: not told */
    int era;                                             /* changes of the gate when it was taken */
} right_to_start;

typedef struct mtask {
    map_node by_id;
    list link;
    pawl_id id;
    int alias; /* "#12" */
    int ask;   /* whose body it has */
    int key, queue;
    pawl_state state;
    int64_t fence, node, run_at_us;
    bool fence_raised; /* and we do not know yet to what */
    bool not_started, marked, suspect, solo, cancel_asked;
    int failures, rescues, interruptions, counted;
    int64_t started_fence; /* the newest lease under which a run began */
    int64_t ended_fence;   /* and ended, with: */
    pawl_outcome_kind ended_kind;
    unsigned ended_told; /* bits */
    verdict *verdicts;
    right_to_start right;
    int missed;      /* slots in a row, since no fault is left */
    int64_t lost_us; /* a slot that it had and lost; and of which gate */
    int lost_gate;
    const pawl_family *family; /* NULL: none */
    int64_t beyond_fence;      /* the lease under which it was told that it has no slot in time */
    int64_t lined;             /* when it joined the line of its key; 0: there was none */
    bool holds;                /* it was leased in order, and has not ended */
} mtask;

typedef struct mlimit {
    pawl_rate rate;
    bool stored, paused;
} mlimit;

typedef struct mbound {
    int most;
    bool ordered;
} mbound;

#define STARTS 64
#define STEPS_MOST 64

typedef struct mstart {
    int64_t at_us, late_us; /* late: how long its right to start was */
    int era;
} mstart;

typedef struct mstarts {
    mstart starts[STARTS]; /* the last ones */
    int count;
} mstarts;

typedef struct mgate {
    bool used, unknown;
    int permits, burst;
    int64_t period_us;
    int64_t low, high;       /* its TAT lies between, in 1 / permits us of the simulation */
    int64_t seen_us;         /* when the store looked at it last */
    int steps;               /* how many of its clock's it has seen */
    int64_t stepped_us;      /* when it first looked after a step back */
    int64_t epoch, epoch_us; /* and since when */
    int changes;             /* of the limit */
    mstarts starts;
} mgate;

typedef struct mnode {
    list link;
    int64_t id, lease_us, expires_us;
    const session *session;
    int index, life; /* of the simulated process */
    bool dead, counts;
    int marked; /* tasks under a start mark when it died */
} mnode;

typedef struct mresult {
    pawl_op_result result;
    pawl_id out_id;
    int64_t out_fence;
} mresult;

typedef struct mreceipt {
    list link;
    int64_t node, number;
    int lane, count;
    mresult *results;
} mreceipt;

/* A lapsed node as the answers told one process. */
typedef struct sighting {
    int64_t victim, renewal, first_us, last_us;
    bool proven;
} sighting;

typedef struct judge {
    sim *sim;
    map by_id;
    list tasks, nodes, receipts;
    int count, unfinished;
    bool paused[QUEUES];
    mtask *touched[TOUCHED_MAX]; /* by the call at hand */
    int touched_count;
    sighting sightings[NODES_MAX][SIGHTINGS_MAX];
    int sightings_count[NODES_MAX], sightings_life[NODES_MAX];
    mlimit limits[TYPES][RATE_KEYS + 1]; /* of the type, then of its keys */
    int64_t limits_changed_us;
    int64_t steps[STEPS_MOST]; /* of the store's clock */
    int64_t clock_us;          /* when the store read it for the call at hand */
    bool mixed;                /* the batch at hand changes limits */
    mgate gates[GATES];
    mbound bounds[PAWL_SCOPE_TENANTS + 1][TYPES + QUEUES][RATE_KEYS + TENANTS + 1];
    int64_t lined;
    mstarts local[NODES_MAX][GATES];
    int local_life[NODES_MAX];
    int64_t local_opened[NODES_MAX];
} judge;

mtask *judge_task(const judge *j, pawl_id id);
mnode *judge_node(const judge *j, int64_t id);
mtask *judge_add_task(judge *j, pawl_id id, int ask_number);
void judge_move(judge *j, mtask *t, pawl_state to);
void judge_grant(judge *j, mtask *t, mnode *n, int64_t fence, int64_t at_us);
void judge_touched(judge *j, mtask *t);
int64_t judge_held(const judge *j, int64_t node);
void judge_applied(judge *j, wire *w, pawl_batch *b);
void judge_refused(judge *j, wire *w);

/* judge_family.c */
void judge_family_stored(judge *j, mtask *t, const pawl_op *op);
void judge_families(judge *j, const pawl_batch *b);

/* judge_rate.c */
void judge_limit_put(judge *j, const pawl_op *op, const wire *w);
void judge_right_stored(judge *j, mtask *t, const pawl_op *op, const wire *w, bool due);
bool judge_right_kept(judge *j, const mtask *t, const pawl_op *op, int number);
void judge_right_claimed(judge *j, mtask *t, const pawl_claimed *got, const wire *w);
void judge_reserved(judge *j, mtask *t, pawl_op *op, const wire *w);
void judge_right_released(judge *j, mtask *t, const pawl_op *op);
void judge_right_told(judge *j, pawl_id id, int64_t fence, const wire *w);
void judge_right_used(sim_node *n, mtask *t, const core_task *task);
void judge_right_drop(judge *j, mtask *t);
void judge_right_end(judge *j, mtask *t);
void judge_unstarted(judge *j, mtask *t, const pawl_op *op);

/* judge_place.c */
void judge_place_stored(judge *j, mtask *t); /* it is pending, with this body */
void judge_place_granted(judge *j, mtask *t);
void judge_place_left(judge *j, mtask *t); /* its lease is over */
void judge_bound_put(judge *j, const pawl_op *op);
bool judge_in_line(judge *j, const mtask *t);
void judge_places(judge *j);

#endif
