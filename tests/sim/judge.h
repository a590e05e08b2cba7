/* The judge's model, shared by its three files: judge.c (calls), judge_batch.c (operations), judge_core.c (runs and answers). */
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
} mtask;

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

#endif
