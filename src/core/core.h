/* The engine as a pure state machine.
 *
 * core owns everything that changes: the tasks this node holds, queues, timers, unanswered batches. It does no I/O, starts no
 * thread, takes no lock and reads no clock. Somebody (runtime/loop.c, or the simulator) drives it:
 *
 *     core_xxx(core, now, ...)                     give it an input: a request, an answer of the store, the end of a run, time
 *     while (core_next(core, &action)) ...         do what it wants; some of it comes back later as inputs
 *     core_deadline(core)                          when to call core_tick at the latest
 *
 * One driver at a time: whoever drives it owns it meanwhile.
 *
 * LIFE OF A TASK HERE
 *
 *      claimed, or born leased
 *               |
 *             READY ----START op (keyed, suspect)----> STARTING --DONE--> RUNNING --> ENDED --op answered--> settled
 *             ^ |                                                           ^
 *             | +-----------------------------------------------------------+
 *           PARKED  waits for its rate slot, or for the answer where that is (throttle.c); holds no worker
 *
 * What core holds is a lease, never the task: the task's state is the store's, and each of its changes goes through task_move
 * (task.h), the table of legal moves.
 *
 * OPERATIONS. Every task has room for one operation (its outcome, a start, progress). Requests bring theirs. All of them gather in
 * one list and leave in batches, one batch per lane; while a batch is unanswered the next gathers. Of all that is in flight there is
 * at most one operation per task and per (tenant, key): the others wait for the next batch.
 */
#ifndef CORE_CORE_H
#define CORE_CORE_H

#include "base/heap.h"
#include "base/list.h"
#include "base/map.h"
#include "core/policy.h"
#include <pawl/store.h>

typedef struct core core;

typedef struct core_act { /* an action under way to the driver */
    list link;
    int kind;
} core_act;

typedef struct core_timer {
    heap_node node;
    int kind;
} core_timer;

typedef struct core_time {
    int64_t mono_us; /* never goes back; core's deadlines */
    int64_t wall_us; /* for people: when an attempt started and ended */
} core_time;

/* ---- configuration, before core_start --------------------------------------------------------------------------------------- */

typedef struct core_config {
    const pawl_allocator *allocator;
    uint64_t seed;
    int lanes;     /* of the store; calls of the next one may be made beside them (see batch.c) */
    bool one_shot; /* no node: batches without receipt, ids drawn by the store */
    int64_t lease_us;
    int64_t long_run_us;
    int capacity;           /* of queues that are not configured */
    bool depth_is_capacity; /* memory store: a queue holds at most its capacity */
    policy engine;          /* the widest policy: complete */
    pawl_sweep retention;   /* keep_* only */
    const char *node_name;
    int64_t pid;
    bool outlives;  /* see pawl_registration */
    int parked_max; /* tasks that wait here for a rate slot at most; 0 = 5000. Others wait in the store */
    int keys_max;   /* rate keys that local limits track; 0 = 100,000 */
    bool deferral_events_off;
    int surplus;        /* very short runs: hand out up to so many more than there are workers; 0: none */
    int batch_ops;      /* a batch gathers up to so many operations; 0 = 2000 */
    size_t batch_bytes; /* or so many bytes; 0 = 4 MiB */
    /* The time zone of this name (NULL: UTC), which lives as long as core. NULL: *err says why; UNAVAILABLE may work later. */
    const struct zone *(*zone)(void *ctx, const char *name, pawl_error *err);
    void *zone_ctx;
} core_config;

typedef struct core_queue_config {
    const char *name;
    int workers, capacity;
    int64_t depth_limit;
    pawl_full full;
    policy policy;
    int concurrency; /* stored when it starts; 0: nothing is said */
    bool fair;
    bool
        pulled; /* its workers come and go: core_workers says how many there are. None at first, and nothing is handed out ahead */
    void *owner; /* the driver's own */
} core_queue_config;

typedef struct core_limit { /* of starts; see pawl_handler */
    pawl_rate rate;         /* permits 0: none. One that can be kept */
    pawl_rate_scope scope;
    const pawl_limiter *limiter;
    bool (*key)(void *ctx, pawl_bytes payload, const char *tenant, pawl_bytes *key);
    void *key_ctx;
    int concurrency, key_concurrency; /* of the type, of each key: stored when it starts; 0: nothing is said */
    bool ordered;
} core_limit;

typedef struct core_handler_config {
    const char *type;  /* "*": every other */
    const char *queue; /* default queue of the type; NULL: "default" */
    policy policy;
    core_limit limit;
    void *handler; /* the driver's own */
} core_handler_config;

pawl_status core_new(const core_config *config, core **out);
void core_free(core *c); /* also frees tasks and requests it still has, without answering */
pawl_status core_add_queue(core *c, const core_queue_config *config);
pawl_status core_add_handler(core *c, const core_handler_config *config);

/* ---- requests: what callers ask of the store ---------------------------------------------------------------------------------- */

/* One call of the API that changes something: one or many operations that go in one batch. Made by core_request_new, filled by the
 * driver, given to core_submit; from then on core's, until CORE_DROP gives it back. */
typedef struct core_request {
    list link;
    int count;
    pawl_op *ops;       /* INSERT bodies are blocks of their own and belong to the request; families live as long as it */
    bool in_handler;    /* made inside a handler: never waits for room */
    void *owner;        /* the driver's own */
    pawl_status status; /* with CORE_ANSWER: OK (see each op's result), FULL, UNAVAILABLE, UNKNOWN, NO_MEMORY, CLOSED */
    /* core's own: */
    core_act answer, drop;
    int place; /* REQUEST_... */
    size_t bytes;
    int queue;                  /* whose room it waits for; -1: none */
    int64_t room_seq, wake_seq; /* when it was sent, for not missing room that came meanwhile */
    int64_t room_at;            /* the room_seq from which on it may fit */
    bool fell_back;
    bool own;        /* made by core itself: it goes again until it has happened */
    bool page;       /* and goes on with what one before it began */
    map_node *locks; /* two per operation: its task, its key */
} core_request;

core_request *core_request_new(core *c, int count);  /* NULL: no memory. count 0: answered once core_draw_id can draw */
core_request *core_request_room(core *c, int count); /* with room for operations, none yet, and nothing in it: not even zeros */
void core_request_free(core *c, core_request *r);    /* with its bodies */

/* ---- tasks this node holds ----------------------------------------------------------------------------------------------------- */

typedef enum core_op_place { OP_IDLE, OP_GATHERED, OP_FLYING } core_op_place;

/* How a task's stay at this node ended, for hooks. */
typedef enum core_settled {
    CORE_SETTLED_SUCCEEDED = 1,
    CORE_SETTLED_FAILED,
    CORE_SETTLED_RETRY, /* with delay_us */
    CORE_SETTLED_SNOOZED,
    CORE_SETTLED_CANCELLED,
    CORE_SETTLED_RELEASED, /* interrupted by shutdown */
    CORE_SETTLED_LOST      /* the store refused the outcome: lease_lost */
} core_settled;

typedef enum core_task_state { CORE_READY = 1, CORE_PARKED, CORE_STARTING, CORE_RUNNING, CORE_ENDED } core_task_state;

typedef enum core_throttle {
    THROTTLE_NONE,
    THROTTLE_SHARED,
    THROTTLE_LOCAL,
    THROTTLE_OWN
} core_throttle; /* who limits its starts */

typedef struct core_task {
    map_node by_id;
    list link; /* its queue's ready list, or the untimed runs */
    core_task_state state;
    pawl_body *body;
    int64_t fence;
    int64_t run_at_us;                          /* the store's time */
    int queue, handler;                         /* indices */
    int runs, failures, rescues, interruptions; /* before this run */
    bool not_started, suspect, solo;
    bool marked;            /* a suspect that is starting or running: it bears the start mark */
    bool lost;              /* the lease is gone, or past its own deadline while it ran */
    pawl_stop_reason stop;  /* what the run was told */
    pawl_stop_reason cause; /* the first thing it was told: by that it ends */
    bool stuck;
    bool in_worker;       /* occupies a worker: false once deferred */
    const policy *policy; /* of its handler and queue; what the task itself says is in the next three */
    int max_attempts;
    int64_t timeout_us; /* negative: none */
    pawl_audit audit;
    int64_t started_mono_us, started_wall_us;
    int64_t deadline_wall_us; /* 0: no timeout */
    int64_t progress_mono_us;
    void *run; /* the driver's own, set when CORE_RUN is carried out */
    /* core's own: */
    core_act start_act, stop_act, settle_act;
    core_settled settled;
    int64_t settle_delay_us;
    const char *settle_error;
    core_timer timer; /* timeout, then stuck; or the long-running report of one that told its progress */
    pawl_op op;       /* the operation about this task */
    list op_link;
    core_op_place op_place;
    map_node key_lock;
    const struct core_outcome *outcome; /* once ENDED; NULL: it never ran */
    int64_t leased_seq;                 /* the order in which leases were got */
    int64_t confirmed_seq;              /* the last reading of held leases that had it */
    bool long_running;
    core_throttle throttle;
    pawl_bytes rate_key;                 /* of its body, or as its handler said */
    char *own_key;                       /* a copy of what the handler said; NULL: it lies in the body */
    uint64_t rate_hash;                  /* of its key, by the local limiter; 0: not known */
    bool again;                          /* it had a rate slot */
    bool far;                            /* and it asks for one that will be far away */
    bool waits;                          /* PARKED until slot_mono_us; else, for an answer */
    bool dropped;                        /* its cancel was asked while it waits for an answer */
    int64_t slot_us;                     /* the rate slot, by the store's time */
    int64_t slot_mono_us, until_mono_us; /* it may start from, and until; until 0: it has none */
    int64_t epoch;
    struct core_refusal *refusal; /* it is refused: it ends without having run */
    bool progress_dirty;          /* reported, and the store does not have it yet */
    int progress;
    const char *progress_text;
} core_task;

/* Why a rate limit refuses a task, for its error and its on_failed. */
typedef struct core_refusal {
    pawl_rate rate; /* that limit; permits 0: it is not known */
    char text[400];
} core_refusal;

/* How a run ended, as the driver tells it. Everything it points to stays valid until CORE_SETTLED. */
typedef struct core_outcome {
    pawl_outcome outcome; /* never DEFERRED */
    const char *code, *error;
    pawl_bytes result;
    const char *result_type, *result_ref;
    pawl_bytes log; /* see pawl_execution */
    int log_lines;
    int64_t began_us, ended_us; /* wall: when the handler did; 0: with CORE_RUN, with core_finished */
    int progress;               /* -1: never */
    const char *progress_text;
    pawl_op *spawns; /* INSERT operations whose ids core draws; the driver's memory */
    int spawns_count;
} core_outcome;

/* ---- calls to the store --------------------------------------------------------------------------------------------------------- */

typedef enum core_call_kind {
    CORE_REGISTER = 1,
    CORE_LEAVE,
    CORE_IDS,
    CORE_APPLY,
    CORE_CLAIM,
    CORE_RENEW,
    CORE_HELD,
    CORE_RESCUE,
    CORE_SWEEP,
    CORE_DUE, /* the store's `read` with PAWL_QUERY_DUE */
    CORE_CALL_KINDS
} core_call_kind;

/* The driver makes the call (store_call in store/store.h does), fills status, and hands it to core_answered. Of each kind there is at
 * most one under way, of CORE_APPLY one per lane. */
typedef struct core_call {
    core_call_kind kind;
    int lane;
    int64_t sent_us; /* when core decided to send it */
    pawl_status status;
    pawl_error err;
    pawl_arena *arena; /* for the store's answers; emptied before each use */
    core_act act;
    bool busy;
    union {
        pawl_registration registration;
        int64_t leave;
        pawl_ids ids;
        pawl_batch batch;
        pawl_claim claim;
        pawl_renewal renewal;
        pawl_rescue rescue;
        pawl_sweep sweep;
        pawl_due due;
        struct {
            int64_t node;
            pawl_lease *leases;
            int count;
        } held;
    } u;
} core_call;

/* ---- actions --------------------------------------------------------------------------------------------------------------------- */

typedef enum core_action_kind {
    CORE_CALL = 1, /* make `call` */
    CORE_RUN, /* give `task` to a worker of its queue; later core_finished (and perhaps core_deferred before), or core_recalled */
    CORE_RECALL,   /* core_recalled for every task of queue number `queue` that no worker has begun: it must not begin now */
    CORE_STOP_RUN, /* tell the run of `task`: `reason` */
    CORE_SETTLED, /* `task`'s stay ended as `settled`, committed; run hooks, then core_task_free. Only for tasks that ran, or were
                      refused (`refusal`) */
    CORE_ANSWER,  /* tell the caller of `request`; it must not touch the request any more after it has read the answer */
    CORE_DROP,    /* core needs `request` no more: free it. Always after CORE_ANSWER */
    CORE_EVENT,   /* `event` */
    CORE_LOG,     /* `level`, `text` */
    CORE_DRAINED, /* nothing runs and nothing is held */
    CORE_STOPPED  /* stopped; `stuck` runs would not return */
} core_action_kind;

typedef struct core_action {
    core_action_kind kind;
    core_call *call;
    core_task *task;
    core_request *request;
    int queue;
    pawl_stop_reason reason;
    core_settled settled;
    int64_t delay_us;
    const char *error; /* CORE_SETTLED FAILED and RETRY */
    int stuck;
    pawl_level level;
    pawl_event event;
    char text[256];
} core_action;

bool core_next(core *c, core_action *action);

/* ---- inputs ----------------------------------------------------------------------------------------------------------------------- */

/* Between these two, inputs are taken in and nothing is decided: so that all that has arrived together leaves together. */
void core_hold(core *c);
void core_go(core *c, core_time now);

/* While corked, no batch is formed: what could go into one gathers until somebody is there who carries it to the store at once. */
void core_cork(core *c, bool corked);
typedef enum core_kept { CORE_KEPT_NOTHING, CORE_KEPT_OUTCOMES, CORE_KEPT_REQUESTS } core_kept;
core_kept core_keeps(const core *c); /* behind the cork; REQUESTS: somebody waits for it */

void core_submit(core *c, core_time now, core_request *request);
void core_give_up(core *c, core_time now, core_request *request); /* its caller waits no more: answered now, unless it was */
void core_answered(core *c, core_time now, core_call *call);
void core_finished(core *c, core_time now, core_task *task, const core_outcome *outcome);
void core_deferred(core *c, core_time now, core_task *task); /* its worker is free; core_finished comes later */
void core_recalled(core *c, core_time now,
                   core_task *task); /* no worker has begun it: ready again, and less is handed out ahead */
void core_progress(core *c, core_time now, core_task *task, int percent, const char *text); /* text: the driver's, see outcome */
void core_task_free(core *c, core_task *task);                                              /* after CORE_SETTLED */
/* So many workers has a queue that is `pulled` now; fewer than are busy: none is free until some are. nobody: and nobody will come soon, so
 * what waits here goes back to the store. */
void core_workers(core *c, core_time now, int queue, int workers, bool nobody);
void core_wake(core *c, core_time now); /* somebody else committed */
void core_clock_jumped(core *c, core_time now);
void core_want_events(core *c, bool wanted);    /* CORE_EVENT only while wanted */
pawl_id core_draw_id(core *c, core_time now);   /* an id for later use; 0: none yet, submit an empty request first */
pawl_status core_start(core *c, core_time now); /* NO_MEMORY, or OK */
void core_drain(core *c, core_time now);        /* start nothing more; CORE_DRAINED follows. core_start goes on */
void core_stop(core *c, core_time now, int64_t grace_us, int64_t patience_us); /* CORE_STOPPED follows */
void core_tick(core *c, core_time now);

int64_t core_deadline(const core *c);       /* mono; INT64_MAX: none */
int64_t core_lease_deadline(const core *c); /* mono: nothing may begin from then on */

/* ---- looking -------------------------------------------------------------------------------------------------------------------------- */

typedef struct core_queue_numbers {
    const char *name;
    int workers, running, ready, at_once; /* at_once: what a worker should take together */
    void *owner;
} core_queue_numbers;

typedef struct core_numbers {
    bool store_ok, store_closed;
    int64_t node, lease_left_us, store_latency_us;
    int64_t running, ready, unanswered, stuck, long_running, outcomes_waiting;
    int64_t parked, deferrals, rejected, opened; /* by rate limits: waiting now; and so far: had to wait, refused, not limited */
    int64_t events[PAWL_EVENT_COUNT];
} core_numbers;

void core_numbers_get(const core *c, core_time now, core_numbers *out);
int core_queues(const core *c);
void core_queue_get(const core *c, int queue, core_queue_numbers *out);
void *core_handler_of(const core *c, const core_task *task); /* the driver's own */
bool core_holds(const core *c, pawl_id id, core_task_state *state);
int64_t core_slot(const core *c, pawl_id id); /* of a parked task, or one that a local limit has put off; 0: it has none here */
void core_check(const core *c);               /* asserts every invariant; for tests and the simulator */

#endif
