/* core's inside: the struct and what its files call of each other. Nobody outside src/core includes this.
 *
 *   core.c     birth, the main step (engine_push), timers, numbers
 *   mode.c     start, drain and stop
 *   action.c   what the driver is to do: actions, events, log lines
 *   request.c  requests: submit, results, answers, waiting for room
 *   batch.c    gathering operations, lanes, receipts and resending
 *   claim.c    queues: what to claim, born leased, prefetch, ready tasks
 *   run.c      one task from READY to settled: starts, outcomes, timeouts, progress
 *   throttle.c rate limits: slots, tasks parked until theirs
 *   tell.c     what the node tells about the tasks that limits let it hold
 *   recur.c    schedules: when the next one is due, and what becomes of it
 *   family.c   parents, children and batches: who waits for what has ended is told
 *   lease.c    the node: registration, ids, renewals and its own deadline, reconciliation, rescue, retention
 */
#ifndef CORE_ENGINE_H
#define CORE_ENGINE_H

#include "base/alloc.h"
#include "base/buf.h"
#include "base/canary.h"
#include "base/check.h"
#include "base/idgen.h"
#include "core/body.h"
#include "core/core.h"
#include "core/limit.h"
#include "core/task.h"

typedef enum timer_kind {
    TIMER_TASK = 1, /* core_task.timer */
    TIMER_DUE,      /* queue.due */
    TIMER_LANE,     /* lane.backoff */
    TIMER_FAR,      /* far_ops may go again */
    TIMER_CLAIM,    /* claims may go on after a failure */
    TIMER_ROOM,     /* requests that wait for room may try again */
    TIMER_NEWS,     /* look at the news without claiming */
    TIMER_RENEW,
    TIMER_DEADLINE, /* of the node's own lease */
    TIMER_HELD,     /* reconciliation goes on */
    TIMER_CALL,     /* registration, ids or leaving may be tried again */
    TIMER_RESCUE,   /* a rescue of unknown outcome must have happened by now, if at all */
    TIMER_SWEEP,
    TIMER_RECUR,  /* a schedule is due */
    TIMER_SETTLE, /* there was no memory to go on telling */
    TIMER_STOP,   /* grace, then patience */
    TIMER_LONG    /* untimed runs that have lasted long */
} timer_kind;

typedef enum request_place { REQUEST_NEW, REQUEST_GATHERED, REQUEST_PARKED, REQUEST_FLYING, REQUEST_GONE } request_place;

typedef enum core_mode { MODE_IDLE, MODE_STARTED, MODE_DRAINING, MODE_STOPPING, MODE_LEAVING, MODE_STOPPED } core_mode;

typedef struct queue {
    char *name;
    int workers, capacity;
    int64_t depth_limit;
    pawl_full full;
    policy policy;
    int busy;   /* workers with a task, or with one about to start */
    list ready; /* READY tasks by priority, then as they came */
    int ready_count;
    int reserving;     /* tasks that wait to hear their rate slot */
    int reserving_far; /* of those, the ones that will not start here (far_ops) */
    int asked;         /* leases asked for with inserts in flight */
    int claiming;      /* leases the claim in flight may bring */
    bool paused;       /* by the store's last word */
    bool hungry;       /* something may be due in the store */
    bool stirred;      /* something came up while a claim was in flight: its answer may be too old */
    bool caught_up;    /* nothing is due in the store but what this node put there since: inserts may ask for leases */
    bool flooded;      /* and what must wait for rate budgets for long: it is claimed a little at a time, to be told its slots */
    int64_t rest_us;   /* not before then, unless something else comes up */
    int64_t flood_us;  /* a flood is expected until then, whatever is claimed beside it */
    int64_t owed;      /* how much that is at most */
    int64_t owed_late; /* of that, what came while a claim was in flight: its answer may not know of it */
    int64_t due_late_us; /* and when the first of those is due that came then and are not due yet */
    int64_t claimed_us;  /* when the last claim was sent */
    core_timer due;      /* the next task falls due */
    int prefetch;        /* tasks beyond the workers worth holding: what it finishes in 50 ms */
    int window_runs;     /* for that: runs finished since window_us */
    int64_t window_us;
    core_act recall; /* what was handed out ahead is wanted back */
    int surplus;     /* runs handed out beyond the workers: what these finish in SURPLUS_US */
    int at_once;     /* runs that one worker finishes in a quarter of that */
    int64_t mean_us; /* for that: of the last runs, in 1/16 us */
    int concurrency; /* to be stored at the start; 0: nothing */
    bool takes_turns;
    bool fair;   /* its tenants do, by the store's last word: only brief runs are claimed ahead, and few */
    bool pulled; /* see core_queue_config */
    bool nobody; /* will ask for some time: nothing is kept ready */
    void *owner;
} queue;

typedef struct handler {
    char *type, *queue;
    policy policy;
    core_limit limit;
    int rule;    /* of the local limiter; -1: none */
    bool warned; /* about a task without a rate key */
    void *owner;
} handler;

typedef struct lane {
    core_call call;       /* CORE_APPLY */
    int64_t node, number; /* the receipt that the next batch moves to number + 1 */
    pawl_op **ops;
    int room;
    list requests, tasks; /* in flight */
    int64_t first_sent_us;
    bool resend; /* the same batch must go again: its outcome is unknown */
    bool far;    /* it carries far_ops */
    int tries;
    core_timer backoff;
} lane;

typedef struct victim { /* a lapsed node seen, and since when unchanged */
    int64_t node, renewal, since_us;
    bool seen;
} victim;

#define DEFERRALS 256

struct deferral { /* the key that was last told about, by hash */
    uint64_t hash;
    int64_t until_us, count;
};

#define FAR 64

struct far { /* a key, by hash, whose next slot is far until then */
    uint64_t hash;
    int64_t until_us;
};

#define HELD 64

struct held { /* a schedule, by the hash of its name, whose tasks find no rate slot before then, of the store's time */
    uint64_t hash;
    int64_t until_us;
};

#define UNKNOWN_MAX 1024 /* leases looked at in one reconciliation */

struct unknown {
    pawl_lease lease;
    int64_t since_us; /* when the reading that first showed it was answered */
};

struct core {
    const pawl_allocator *allocator;
    core_config config;
    char *node_name;
    core_time now;
    rng random;
    core_mode mode;
    bool events_wanted;
    int64_t counts[PAWL_EVENT_COUNT]; /* of events, wanted or not */
    bool holding;                     /* between core_hold and core_go */
    bool corked;                      /* no batch leaves */

    /* Actions on their way out. */
    list acts;
    struct core_event_node *events, **events_end;
    int stopped_stuck;
    core_act drained, stopped;

    heap timers;
    size_t timers_room;

    queue *queues;
    int queues_count;
    handler *handlers;
    int handlers_count, wildcard;                     /* wildcard: index or -1 */
    int recent_queue, recent_handler;                 /* found last */
    const char *recent_queue_name, *recent_type_name; /* by these very names; NULL between inputs, when bodies come and go */
    policy *policies;                                 /* handlers x queues, made at start */
    const char **types;                               /* for claims */
    char *queues_csv, *types_csv;                     /* for the registration */

    /* Tasks held. */
    map tasks;
    int held;
    list free_tasks;
    int free_count, promised; /* of the free ones, how many are spoken for */
    size_t tasks_made;
    int running, stuck, long_running, ended;
    list untimed; /* runs without a timeout that have not been looked at yet, in the order in which they began */
    core_timer long_timer;
    int parked_tasks; /* that wait for their slot */
    int limited_tasks;
    buf told, telling;                                         /* what the store was told of them; and what is on its way */
    bool told_parked, told_busy, telling_parked, telling_busy; /* some wait; there are any */
    int64_t told_us;
    limiter *limiter; /* of local limits */
    int64_t deferrals, rejected, opened, opened_told_us;
    struct deferral deferred[DEFERRALS];
    struct far far[FAR];
    int limits_untold;       /* limits of handlers that the store does not have yet */
    int64_t limits_version;  /* that the store told last; -1: nothing yet */
    int marked, marked_solo; /* suspects about, and those of them that must be the only one */
    int64_t lease_seq;
    body_moves moves; /* of tasks that were freed; done when there are no more actions */

    /* Operations waiting for a batch, requests waiting for room, operations in flight. */
    list task_ops, far_ops, requests, parked; /* far_ops: see batch.c */
    int far_passed;                           /* batches of others that went first, since the last of those */
    int64_t far_rest_us;                      /* they wait until then */
    core_timer far_timer;
    int64_t room_seq; /* how many tasks have left a queue; by ROOM_UNKNOWN if nobody knows how many */
    int64_t wake_seq; /* moves with every wake */
    core_timer room_timer;
    int64_t room_woken_us; /* when a wake last let those that wait for room try */
    map locks;
    lane *lanes;
    int lanes_count; /* those of the store, and one for far_ops where it has several */

    /* The node. */
    int64_t node;     /* 0: none (yet) */
    bool serving;     /* the node was registered with its queues */
    int64_t old_node; /* one to leave: it was registered before the start */
    idgen ids;
    bool ids_wanted;
    core_call reg, leave, ids_call;
    int call_tries;
    core_timer call_timer;

    /* Claims. */
    core_call claim;
    pawl_want *wants;
    int *want_queue; /* which queue a want is for */
    pawl_claimed *claimed;
    int claimed_room, claim_promised;
    bool news_wanted;
    bool closed; /* the store's gate is shut */
    int claim_tries;
    core_timer claim_timer, news_timer;

    /* The lease. */
    core_call renew;
    core_timer renew_timer, deadline_timer;
    int64_t deadline_us;    /* past it nothing starts; 0: no lease was ever granted */
    int64_t renewed_us;     /* when what last renewed the lease was sent: a grant, too */
    int64_t asked_us;       /* when the last good renewal proper was sent */
    int64_t renew_again_us; /* not before, after a failed one */
    bool lapsed;            /* the deadline passed while tasks were held */
    int64_t trouble_us;     /* when the store last failed us; INT64_MIN: never */
    bool store_down;
    int64_t store_latency_us;
    int mismatches;                   /* renewals in a row that counted other leases than we do */
    int64_t mismatch_seq, change_seq; /* change_seq moves with every lease got or given up */

    /* Reconciliation. */
    core_call held_call;
    core_timer held_timer;
    bool reconcile; /* wanted */
    int64_t held_seq;
    int looks; /* readings to make at least */
    bool reading_stale;
    struct unknown *unknown, *unknown_spare; /* leases of the last reading that nobody here knows */
    int unknown_count;

    /* Rescue and retention. */
    core_call rescue;
    core_timer rescue_timer;
    pawl_lease *rescued;
    victim victims[PAWL_LAPSED_MAX];
    int victims_count;
    pawl_lapsed todo[PAWL_LAPSED_MAX]; /* to be rescued */
    int todo_count;
    core_call sweep;
    core_timer sweep_timer;

    /* Schedules. */
    core_call due_call;
    core_timer recur_timer;
    bool recur_wanted;
    int recur_steps, recur_won; /* of the last look: steps that are unanswered; that were ours to make */
    int recur_tries;
    int64_t recur_lag_us;
    struct held held_back[HELD];

    /* Families. */
    bool settle_wanted, settling;
    core_timer settle_timer;

    core_timer stop_timer;
    int64_t patience_us;
    bool asked_to_stop_runs;
};

/* core.c */
bool engine_prepare(core *c); /* what needs all queues and handlers to be known; false: no memory */
void engine_push(core *c);    /* after every input: send what can be sent, start what can start */
void engine_timer(core *c, core_timer *t, int64_t at_us);
void engine_timer_off(core *c, core_timer *t);
int64_t engine_backoff(core *c, int tries); /* 50 ms x 2^tries up to 5 s, with jitter */
void engine_store_ok(core *c, const core_call *call);
void engine_store_bad(core *c, const core_call *call);
bool engine_may_run(const core *c); /* started, and the lease is good */

/* mode.c */
void mode_timer(core *c);
void mode_check(core *c); /* is it drained, has it stopped? */

/* action.c */
void engine_act(core *c, core_act *act, int kind);
void engine_call(core *c, core_call *call); /* sends it */
void engine_tell(core *c, pawl_event_kind kind, const pawl_body *body, int attempt, int64_t fence, int64_t value,
                 const char *text);
void engine_log(core *c, pawl_level level, const char *fmt, ...) PAWL_PRINTF(3, 4);
void action_free_events(core *c);

/* Counts an event, and tells of it if anybody wants to know. */
static inline void engine_event(core *c, pawl_event_kind kind, const pawl_body *body, int attempt, int64_t fence, int64_t value,
                                const char *text)
{
    c->counts[kind]++;
    if (c->events_wanted) engine_tell(c, kind, body, attempt, fence, value, text);
}

/* request.c */
void request_results(core *c, core_request *r, int64_t sent_us, int64_t store_now_us);
bool request_prepare(core *c, core_request *r); /* levels, limits and locks; false: no memory */
void request_gather(core *c, core_request *r);
void request_answer(core *c, core_request *r, pawl_status status);
void request_woken(core *c);             /* somebody else committed: there may be room */
void request_unpark(core *c, int queue); /* -1: all */
int request_ids(const core_request *r);  /* how many it needs */

/* batch.c */
bool batch_init(core *c);
void batch_done(core *c);
void batch_send(core *c);
bool batch_gathered(const core *c); /* something waits for a batch */
bool batch_wanted(const core *c);
void batch_answered(core *c, lane *l);
void batch_gather_task(core *c, core_task *t); /* t->op is ready to go */
bool batch_idle(const core *c);
bool batch_inserting(const core *c, pawl_id id); /* an insert of it that asked for a lease is in flight */
uint64_t batch_key_hash(const pawl_body *body);

/* claim.c */
int claim_search_queue(core *c, const char *name);
int claim_search_handler(core *c, const char *type);
void claim_forget_names(core *c);                               /* an input begins or ends */
bool claim_may_ask(core *c, const pawl_body *body, int *queue); /* may this insert ask for a lease? reserves room if so */
void claim_asked(core *c, int queue);                           /* the answer to such an insert is here */
void claim_pending(core *c, const char *queue, int64_t run_at_us, int64_t store_now_us); /* a task was stored for later */
void claim_stir(core *c);                                                                /* anything may be due in any queue */
void claim_due(core *c, queue *q);                                                       /* its timer fired */
void claim_send(core *c);
void claim_answered(core *c);
void claim_run_finished(core *c, queue *q, int64_t ran_us); /* measures prefetch and surplus */
void claim_moved(core *c, queue *q, int64_t sent_us); /* a claimed task went back to the store at once, for its slot's sake */
bool claim_full(const queue *q);                      /* as many are ready, or on their way, as it may hold */
void claim_run_slow(queue *q);                        /* a worker did not come in time: no surplus for a while */
void claim_news(core *c, const pawl_news *news);

/* Tasks of one kind come in a row: the last answer is mostly this one, too, and often the name is the very same. */
static inline int claim_find_queue(core *c, const char *name) /* -1: not served here */
{
    return name == c->recent_queue_name ? c->recent_queue : claim_search_queue(c, name);
}
static inline int claim_find_handler(core *c, const char *type) /* -1: unknown type */
{
    return type == c->recent_type_name ? c->recent_handler : claim_search_handler(c, type);
}

/* run.c */
struct throttle_told;
core_task *run_take(core *c);                                                       /* a promised task struct */
bool run_promise(core *c, int count);                                               /* make sure that so many more can be taken */
void run_adopt(core *c, core_task *t, int queue, const struct throttle_told *told); /* a lease is ours: READY */
void run_ready(core *c);                                                            /* start what can start */
void run_op_answered(core *c, core_task *t, int64_t sent_us, int64_t store_now_us);
void run_stop(core *c, core_task *t, pawl_stop_reason reason);
void run_cancel(core *c, core_task *t);    /* its cancel was asked */
void run_lose(core *c, core_task *t);      /* its lease is gone */
void run_release_queue(core *c, queue *q); /* give back what never started */
void run_release_ready(core *c);           /* give back what never started */
void run_timer(core *c, core_task *t);
void run_long(core *c); /* looks at untimed runs that have lasted long */
core_task *run_find(const core *c, pawl_id id);
void run_send(core *c, core_task *t, pawl_op_kind kind);                    /* t->op.u is filled */
void run_unready(core *c, core_task *t);                                    /* out of the ready list */
void run_ready_again(core *c, core_task *t);                                /* in no list: READY, before others of its priority */
void run_release(core *c, core_task *t, int64_t delay_us, int64_t slot_us); /* gives back what never started */
void run_cancel_unstarted(core *c, core_task *t);
void run_refuse(core *c, core_task *t, const pawl_rate *rate, const char *fmt, ...)
    PAWL_PRINTF(4, 5);                /* ends as failed, rate_limited; one of a schedule as cancelled */
void run_gone(core *c, core_task *t); /* the lease has ended: nothing is left to say */

/* throttle.c */
typedef struct throttle_told { /* what the store says about a lease's slot */
    bool limited;
    int64_t slot_us, until_us, epoch; /* until 0: it has none */
    int64_t sent_us, store_now_us;    /* of the call */
} throttle_told;

bool throttle_prepare(core *c);
bool throttle_has_limits(const core *c); /* of its handlers and queues, for all nodes */
bool throttle_register(core *c);         /* stores the handlers' limits before anything is claimed; false: no memory */
void throttle_limit_stored(core *c, const pawl_op *op);
void throttle_bound_stored(core *c, const core_request *r, const pawl_op *op);
void throttle_adopt(core *c, core_task *t, const throttle_told *told);
bool throttle_admits(core *c, core_task *t); /* a worker is free: may it start? If not, it is parked, or on its way back */
bool throttle_admits_started(core *c, core_task *t); /* the same, after its START */
void throttle_timer(core *c, core_task *t);
void throttle_reserved(core *c, core_task *t, int64_t sent_us, int64_t store_now_us);
void throttle_stored(core *c, const pawl_op *insert, int64_t store_now_us); /* it may have got a slot that lies ahead */
bool throttle_leave(core *c, core_task *t); /* out of PARKED, for good; false: only once its operation is answered */
void throttle_forget(core *c, core_task *t);
pawl_bytes throttle_told_key(const core_task *t);
int64_t throttle_slot_of(const core_task *t);
void throttle_release_queue(core *c, const queue *q);

/* recur.c */
void recur_news(core *c, int64_t due_us, int64_t store_now_us);
void recur_look(core *c);
void recur_changed(core *c);
void recur_send(core *c);
void recur_answered(core *c);
void recur_refused(core *c, const core_task *t); /* for want of a rate slot; of a schedule or not */
void recur_unhold(core *c);                      /* limits were changed */
void recur_stepped(core *c, core_request *r, pawl_op *op, int64_t store_now_us);

/* family.c */
void family_settle(core *c); /* there is somebody to be told */
void family_send(core *c);
void family_settled(core *c);
void family_changed(core *c, const pawl_batch *batch);

/* lease.c */
void lease_send(core *c);                     /* registration, ids, renewal, held, rescue, leaving */
void lease_granted(core *c, int64_t sent_us); /* the store wrote our heartbeat */
void lease_node_dead(core *c);
void lease_deadline(core *c);
void lease_reconcile(core *c);
void lease_reconcile_claim(core *c);
void lease_look(core *c, const pawl_news *news, bool renewed);
void lease_renewed(core *c);
void lease_registered(core *c);
void lease_ids(core *c);
void lease_held(core *c);
void lease_rescued(core *c);
void lease_left(core *c);
void lease_swept(core *c);
void lease_sweep(core *c);
void lease_sweep_soon(core *c);
int64_t tell_due(const core *c); /* tell.c: INT64_MAX: not */
void tell_send(core *c, pawl_renewal *call);
void tell_answered(core *c, const pawl_renewal *call);
void tell_forget(core *c); /* the node is another one */
void lease_plan(core *c);  /* renew while anything is held or watched, and only then */
bool lease_release_unknown(core *c, pawl_id id, int64_t fence, int64_t delay_us);

#endif
