/* One claim on its way: claim.c asks what there is, grant.c leases it. */
#ifndef STORE_MYSQL_CLAIM_H
#define STORE_MYSQL_CLAIM_H

#include "store/mysql/inner.h"

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
    bool paused, more;
    int got;
    uint64_t chills;
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
} claiming;

bool my_claim_grant(claiming *k);                             /* false: the connection says why */
pawl_status my_claim_take(claiming *k, pawl_error *err);      /* the answers of the grant, as tasks of the call */
pawl_status my_claim_give_back(claiming *k, pawl_error *err); /* what was granted and cannot be used */
void my_claim_clear(pawl_claim *call);

#endif
