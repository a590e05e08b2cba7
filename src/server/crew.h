/* Remote workers: programs elsewhere that run tasks over HTTP. docs/workers.md is the protocol.
 *
 * The server is a node, or several: for every set of queue, types and policies that somebody works on there is a group, an engine with
 * a queue that is pulled (pawl.h, Pulling). What a worker holds are runs of its group's engine, with the store's own leases and fences. So
 * priorities, limits and pauses are the engine's, and when the server dies its tasks are rescued as those of any node.
 *
 *     worker   registers, has a lease of its own, shorter than the node's. Every request renews it. When it ends, its runs are lost
 *     claim    a request that waits for runs. Its groups' engines are told of that many workers; what they hand over answers it
 *     held     a run that a worker has, from the claim's answer to the end that the store has accepted
 *     report   a request with outcomes, answered when the last of them is committed
 *
 * LOCKS. One, `lock`. It is never held while an engine is called that could drive (finish, return, add workers: they may call `take`
 * and `ended` back, which take it): what is to be done is decided under the lock and done behind it. `open_lock` comes before it and
 * orders the opening and closing of groups.
 */
#ifndef SERVER_CREW_H
#define SERVER_CREW_H

#include "base/map.h"
#include "server/parts.h"

#define WORKER_ID_TEXT 33 /* 32 characters and a NUL */
#define WORKER_QUEUES 8   /* that a worker may name */
#define WORKER_TYPES 200
#define WORKER_NAME_MAX 200
#define WORKERS_MAX 10000
#define GROUPS_MAX 64
#define CLAIM_MAX 1000              /* tasks of one claim */
#define CLAIM_BYTES (8u << 20)      /* and of payloads, about */
#define CLAIMS_MAX 16               /* of a worker at a time */
#define REPORT_MAX 1000             /* items of one report */
#define HELD_MAX 20000              /* leases named in one renewal */
#define REPORT_BODY_MAX (16u << 20) /* bytes */

typedef struct group {
    list link;
    struct crew *crew;
    pawl *p;
    char *key; /* what it is for, as one text */
    char queue[WORKER_NAME_MAX + 1];
    list claims; /* that wait here, oldest first */
    int workers; /* registered for it */
    int held;
    int64_t asked_us; /* when somebody last waited, or held something */
    bool ready;       /* the engine may have something ready that nobody asks for */
} group;

typedef struct worker {
    list link;
    map_node by_id;
    char id[WORKER_ID_TEXT], name[WORKER_NAME_MAX + 1], who[WORKER_NAME_MAX + 1];
    char *queues, *types; /* for people: separated by commas; types "*": all */
    group *groups[WORKER_QUEUES];
    int groups_count;
    int64_t lease_us, deadline_us, born_us, seen_us; /* born, seen: wall */
    list held, claims;
    int held_count, claims_count;
    bool drain;
} worker;

typedef struct claim {
    list link; /* its worker's */
    call *c;
    worker *w;
    struct claim_wait {
        list link; /* its group's */
        struct claim *claim;
        group *g;
        int got;
    } waits[WORKER_QUEUES];
    int waits_count;
    int want, got_count;
    size_t bytes;
    int64_t number; /* the worker's own */
    int64_t arrived_us, deadline_us;
    list got; /* held.of_claim */
    reply out;
    bool answered; /* `out` is it */
} claim;

typedef struct held {
    map_node by_id;
    list link;     /* its worker's */
    list of_claim; /* until that is answered */
    pawl_run *run;
    worker *w; /* NULL: it ends */
    group *g;
    pawl_id id;
    int64_t fence, number;    /* of its claim */
    bool named;               /* by the renewal that is being looked at */
    bool busy;                /* a report speaks to the run without the lock: it ends it, too, if it is orphaned meanwhile */
    pawl_outcome_kind orphan; /* LOST or INTERRUPTED: its worker is gone */
    char why[128];
    struct report *report; /* that waits for its end; NULL: nobody does */
    size_t item;
} held;

struct crew {
    server *s;
    pthread_mutex_t lock, open_lock;
    pthread_cond_t tick; /* the ticker has something to do earlier */
    pthread_t ticker;
    bool ticking, stopping, draining;
    int64_t next_us; /* when the ticker looks next */
    list workers, groups;
    int workers_count, groups_count;
    int held_count;
    map by_id, tasks; /* workers by the hash of their ids, held by the task's id */
};

/* crew.c */
int64_t crew_now(void);                     /* since boot */
worker *crew_find(crew *w, const char *id); /* under the lock, as those below; NULL: there is none */
void crew_seen(worker *who);                /* a sign of life: its lease begins anew */
int64_t crew_lease(const worker *who, int64_t arrived_us);
void crew_plan(crew *w, int64_t at_us); /* the ticker is to look by then */
void crew_unknown(call *c);             /* answers that there is no such worker */

/* What is done to runs and engines once the lock is free. It needs no memory of its own, so that nothing is left undone. */
typedef struct crew_after {
    struct crew_adjust {
        pawl *p;
        char queue[WORKER_NAME_MAX + 1];
        int by;
        bool nobody;
    } adjust[GROUPS_MAX]; /* one for each group */
    size_t adjust_count;
    list ends;   /* held.link: LOST or INTERRUPTED, as their orphan says */
    list claims; /* answered or to be answered with nothing */
} crew_after;

void after_init(crew_after *a);
void after_adjust(crew_after *a, const group *g, int by, bool nobody);
void after_end(crew_after *a, held *h, pawl_outcome_kind kind, const char *why); /* takes it from its worker */
void after_do(crew *w, crew_after *a);

void held_detach(held *h); /* from its worker */
void crew_remove(crew *w, worker *who, pawl_outcome_kind kind, const char *why, crew_after *a);

/* crew_group.c */
typedef struct group_spec {
    const char *queue;
    const char *const *types; /* none: all */
    size_t types_count;
    int max_attempts;
    int64_t timeout_us, retry_delay_us;
} group_spec;

pawl_status group_open(crew *w, const group_spec *spec, group **out, pawl_error *err); /* under open_lock */
void group_free(group *g);                                                             /* closes it; no lock is held */

/* crew_claim.c */
void claim_take(void *group, pawl_run *const *runs, size_t count);
void claim_end(claim *cl, crew_after *a); /* it waits no more */
void claim_answer(crew *w, claim *cl);    /* no lock is held; it is gone afterwards */

/* crew_report.c */
void report_ended(void *group, pawl_run *run, pawl_event_kind how);

#endif
