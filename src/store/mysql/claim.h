/* One claim on its way: claim.c asks what there is, grant.c leases it. */
#ifndef STORE_MYSQL_CLAIM_H
#define STORE_MYSQL_CLAIM_H

#include "store/mysql/place.h"

#define CLAIM_SLACK_US (5 * PAWL_SECOND) /* a commit under way may bring something that fell due this long ago */
#define LANES_KEPT 64                    /* so many are remembered also while they are empty */

typedef struct lane_state {
    ready_lane at;
    bool wanted;             /* the node knows its type */
    int64_t due_us, next_us; /* the first that is due, the first that is not yet; -1: none */
} lane_state;

typedef struct wanted {
    int32_t queue_id;
    const int32_t *types;
    int types_count;
    bool paused, more, flooded;
    int got;
    uint64_t chills;
    bool turns;                      /* its tenants take turns, or did */
    int64_t shared_due, shared_next; /* of those tasks, as of a lane */
    bool turned;                     /* it is another one's turn now: */
    int32_t turn_tenant;
    int turn_rest;
    lane_state *lanes; /* sorted */
    int lanes_count;
} wanted;

typedef struct granted {
    task_row row; /* as it was, pending */
    int want;
    bool not_started, limited;
} granted;

typedef struct claiming {
    my_store *s;
    conn *c;
    pawl_claim *call;
    pawl_arena *arena;
    wanted *wants;
    instant at;
    bool alive;
    int64_t lease_us;
    granted *tasks;
    int count;
    bool solo; /* one that must run alone is among them */
    limit_types limits;
    bool begun;    /* the transaction */
    bool outdated; /* other limits are in force than were known */
    work w;
    map seen;    /* tasks that were granted, blocked or missed by now */
    int blocked; /* for want of places */
} claiming;

#define BLOCKED_MOST 2000 /* tasks that one claim blocks; the next one goes on */

typedef struct candidate { /* a due task, before it is locked */
    pawl_id id;
    int64_t run_at_us, lane;
    pawl_bytes key; /* its rate key, as limits know it */
    int32_t tenant_id;
    bool shared; /* it stands among those whose tenants take turns */
    int rest;    /* so many may follow it in its tenant's turn */
    bool granted, picked;
} candidate;

typedef struct admitted {
    int granted, blocked, missed; /* missed: somebody else has it */
    int unfit;                    /* left, for they may not be claimed now */
} admitted;

static inline int class_of(int64_t lane) { return (int)(lane >> 32 & 15); }

static inline int32_t type_of(int64_t lane) { return (int32_t)(lane & 4294967295); }

static inline int64_t priority_part(int64_t lane) { return lane >> 36; }

int my_claim_room(const claiming *k, int want);
bool my_claim_begin(
    claiming *k); /* the transaction, if it has not begun; false: failed. Then `begun`, or nothing can be granted */
void my_claim_grant_row(claiming *k, const answer *a, int row, int want);
/* admit.c: grants what there is room for, in this order, and blocks what finds no place. */
bool my_admit(claiming *k, int want, candidate *list, int count, admitted *out);
bool my_admit_group(claiming *k, int want, int first, int end); /* lanes of one priority */
bool my_admit_read(claiming *k, sql_name which, bool shared, candidate **out, int *count);
bool my_admit_turns(claiming *k, int want);                                    /* turn.c */
bool my_claim_pass_flood(claiming *k, int want, int first, int end, int from); /* flood.c */

bool my_claim_grant(claiming *k);                             /* false: the connection says why */
pawl_status my_claim_take(claiming *k, pawl_error *err);      /* the answers of the grant, as tasks of the call */
pawl_status my_claim_give_back(claiming *k, pawl_error *err); /* what was granted and cannot be used */
void my_claim_clear(pawl_claim *call);

#endif
