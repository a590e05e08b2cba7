/* The runtime's inside: the threads around the core, and what its files call of each other. Nobody outside src/runtime includes
 * this.
 *
 *   api.c       the bodies of pawl.h that take an engine: enter the handle, check, call, leave
 *   handle.c    handles: slots that outlive their engine, so that a stale one answers CLOSED
 *   config.c    options, queues and handlers: ranges, defaults, copies
 *   runtime.c   birth, start, drain, stop, death
 *   loop.c      who drives the core when; the loop thread: timers, clock jumps, other processes' commits
 *   step.c      one round: inputs into the core, its actions carried out
 *   storeq.c    calls of the store on threads of their own
 *   pool.c      workers
 *   work.c      one execution, from CORE_RUN to the end of its hooks
 *   run.c       the pawl_run_* functions
 *   ticket.c    one call that changes something: submit, wait, answer
 *   dispatch.c  tickets that insert tasks; ops.c: all others
 *   validate.c  what callers pass in
 *   feed.c      what other nodes are told of events
 *   look.c      get, list, stats, nodes, health; why.c; wait.c; events.c; search.c: a list that looks for words
 *   inline.c    no threads: everything on the caller's
 *   gate.c      a store whose tasks move to another one; move.c, move_copy.c: moving them; record.c, export.c, import.c: as text
 *
 * THREADS. The core belongs to whoever drives it (loop.c): at most one thread at a time. Members marked "driver's" are touched
 * only by the driver. Lock order: there is none to remember: no lock is taken while another is held, except the leaves named in
 * README.md.
 */
#ifndef RUNTIME_RUNTIME_H
#define RUNTIME_RUNTIME_H

#include "base/alloc.h"
#include "base/buf.h"
#include "base/canary.h"
#include "base/check.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/log.h"
#include "base/text.h"
#include "core/core.h"
#include "store/store.h"
#include <pawl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <string.h>

#define RESULT_MAX ((size_t)64 << 10)
#define ERROR_MAX ((size_t)8 << 10)
#define HEADERS_MAX ((size_t)16 << 10)
#define LANES_MAX 16
#define PROGRESS_TEXT 256
#define PROGRESS_EVERY_US (200 * PAWL_MILLISECOND)
#define OPS_AT_ONCE 500 /* cancel_where and friends: operations per request */

typedef struct runtime runtime;

/* ---- inputs -------------------------------------------------------------------------------------------------------------- */

typedef enum input_kind {
    INPUT_SUBMIT = 1, /* ticket */
    INPUT_ANSWERED,   /* storejob */
    INPUT_FINISHED,   /* pawl_run */
    INPUT_RECALLED,   /* the same, of one that has not begun */
    INPUT_DEFERRED,
    INPUT_PROGRESS,
    INPUT_HOOKED, /* its hook has returned: nobody needs it any more */
    INPUT_WORKERS /* a pool's: so many workers are there now */
} input_kind;

typedef struct input {
    struct input *next;
    input_kind kind;
} input;

/* ---- the loop ------------------------------------------------------------------------------------------------------------ */

typedef struct loop {
    pthread_mutex_t lock;
    pthread_cond_t freed; /* nobody drives any more */
    input *first, **last;
    bool busy;   /* somebody drives, or the loop thread was told to */
    bool handed; /* the loop thread was told to */
    int wanting; /* threads waiting in loop_enter: they go before more inputs */
    int out;     /* runs that workers have or will take, each of which comes back here */
    bool soon;   /* and these are so short that what has arrived may wait for that */
    int64_t busy_since_us;
    struct ticket *callbacks, **callbacks_last; /* answered, for the loop thread to call back */
    bool quit;

    bool threaded; /* there is a loop thread */
    pthread_t thread;
    int epoll_fd, wake_fd, timer_fd, clock_fd, watch_fd;
    int64_t recheck_us;       /* the loop thread's: when to look at the watch again; INT64_MAX: not */
    _Atomic int64_t armed_us; /* what timer_fd is set to; INT64_MAX: nothing. Written by the driver */
} loop;

bool loop_init(runtime *rt);
bool loop_start(runtime *rt); /* the thread */
void loop_done(runtime *rt);  /* the thread has ended */
void loop_quit(runtime *rt);  /* driver's: the thread ends, and with it an abandoned engine */

/* Gives the core an input. If nobody drives, the caller does when `drive` and the engine allow it, else the loop thread. */
void loop_push(runtime *rt, input *in, bool drive);
void loop_push_soon(runtime *rt, input *in, int runs);                 /* or a worker that is back soon, if there is one */
void loop_come_back(runtime *rt, input *first, input *last, int runs); /* a worker's: with a chain of inputs, or NULL */
void loop_out(runtime *rt, int runs);                                  /* driver's: so many more are out, or fewer */

/* Makes the caller the driver; false: not within timeout_us (negative: no limit). */
bool loop_enter(runtime *rt, int64_t timeout_us);
void loop_leave(runtime *rt);

bool loop_may_step(const runtime *rt); /* whether this thread may, apart from being the driver */
bool loop_is_here(const runtime *rt);  /* this is the engine's own thread */
void loop_wake(runtime *rt);
void loop_arm(runtime *rt, int64_t at_us);
int64_t loop_lag(runtime *rt);
void loop_callback(runtime *rt, struct ticket *t);

/* ---- one round (the driver's) -------------------------------------------------------------------------------------------- */

void step_inputs(runtime *rt, input *in); /* NULL: only what the core already wants */
int64_t step_deadline(const runtime *rt); /* when to step at the latest */
void step_tick(runtime *rt, core_time now);
void step_answered(runtime *rt, core_call *call);

/* ---- calls of the store -------------------------------------------------------------------------------------------------- */

typedef struct storejob {
    input in;
    core_call *call;
    struct storejob *next;
} storejob;

typedef struct storeq {
    pthread_mutex_t lock;
    pthread_cond_t cond;
    storejob *first, **last; /* waiting; renewals are kept apart and go first */
    storejob *renew;
    int busy; /* calls being made; where there are several lanes, without renewals and what goes aside */
    bool renewing, aside;
    int lanes;
    pthread_t *threads;
    int threads_count, threads_most;
    bool stopping;
    storejob *jobs;             /* one per kind, CORE_APPLY one per lane */
    bool wake_wanted;           /* driver's: calls were queued and nobody was told yet */
    core_kept kept;             /* the core keeps a batch for whoever comes to carry it, */
    int64_t kept_us;            /* since then */
    int64_t helped_us, call_us; /* a caller last made a call; how long one takes, smoothed */
    bool lingering;             /* the store's thread waits for the next caller to carry it along */
} storeq;

bool storeq_init(runtime *rt);
void storeq_add(runtime *rt, core_call *call); /* driver's */
bool storeq_carries(const runtime *rt); /* driver's: this thread makes a call as soon as it has driven, or the calls are many */
void storeq_flush(runtime *rt);         /* driver's: lets a store thread know, unless this thread will look itself */
void storeq_wake(runtime *rt);
extern _Thread_local runtime *storeq_helping; /* this thread calls storeq_help, and storeq_wake in the end, after it has driven */
bool storeq_help(runtime *rt); /* makes one waiting call that inserts depend on, if the store is idle; false: none */
void storeq_done(runtime *rt);

/* ---- workers ------------------------------------------------------------------------------------------------------------- */

#define POOL_TAKE 512                       /* runs that a worker takes at once, if they are short */
#define POOL_SURPLUS 1024                   /* runs handed out beyond the workers, if they are short */
#define POOL_LATE_US (4 * PAWL_MILLISECOND) /* and not begun, nor any other by that worker, after so long: it goes back */

typedef struct worker {
    struct pool *pool;
    pthread_t thread;
    pawl_run *runs[POOL_TAKE];
    int count;
    pawl_run *reporting; /* its own: the run that has just ended, if it is to be reported */
    _Atomic int owed;    /* of them, what loop.out still counts; whoever takes it tells the loop */
    _Atomic int next;    /* of runs: the first that has not begun. Whoever moves it has what it passed */
    _Atomic int done;    /* of runs: those before it have ended and, unless NULL, are to be reported */
    int reported;        /* under the pool's lock: those before it are */
    int seen_next;       /* driver's: at the last look */
} worker;

typedef struct pool {
    runtime *rt;
    const char *name;
    int workers;
    pthread_mutex_t lock;
    pthread_cond_t cond;
    pawl_run *tasks, **tasks_last; /* to run */
    pawl_run *jobs, **jobs_last;   /* settled, with a hook to call: these go first */
    int queued;                    /* in both */
    int idle, starting;            /* threads waiting; threads that have not looked yet */
    int64_t taken;                 /* how often somebody took from the lists */
    int at_once;                   /* runs that a worker takes: more than one if they are short */
    worker *threads;
    int threads_count;
    bool stopping;
    /* driver's: */
    int64_t seen_taken;
    pawl_run *new_tasks, **new_tasks_last, *new_jobs, **new_jobs_last;
    int new_count;
    bool dirty;
    struct pool *next_dirty;
    /* A queue with a puller: */
    const pawl_puller *puller;
    _Atomic int pullers;      /* workers that there are */
    atomic_bool nobody;       /* and nobody will ask for some time */
    atomic_bool workers_told; /* its input is on its way */
    input workers_in;
} pool;

bool pool_start_all(runtime *rt);
void pool_done_all(runtime *rt);
void pool_add(runtime *rt, pawl_run *run, bool job); /* driver's */
bool pool_flush(runtime *rt);                        /* driver's; false: the core has some back */
void pool_report(pawl_run *run);                     /* a worker's: it has done with this one */
int pool_owed(const runtime *rt);                    /* of this thread, if it is a worker: it will not be back soon */
bool pool_short(runtime *rt);                        /* driver's: runs are short, and somebody looks whether that stays so */
input *pool_recall(runtime *rt, int queue);          /* driver's: what nobody has begun; nobody will */
input *pool_look(runtime *rt, core_time now);        /* driver's: takes back what nobody begins */
pawl_status pool_add_workers(runtime *rt, const char *queue, int count, bool nobody, pawl_error *err);
void pool_workers(runtime *rt, core_time now, pool *p); /* driver's */
extern _Thread_local pool *pool_returning;              /* whose worker this thread is, while it looks for more next */

/* ---- one execution ------------------------------------------------------------------------------------------------------- */

typedef struct handler_def {
    map_node by_type;
    struct handler_def *next;
    pawl_handler h; /* with its own copies */
} handler_def;

typedef enum work_state { WORK_RUNNING, WORK_DEFERRED, WORK_EARLY /* finished before it was deferred */, WORK_OVER } work_state;

typedef struct work_progress {
    pthread_mutex_t lock;
    int percent;
    char pending[PROGRESS_TEXT];
    bool known;                   /* the driver has been told that there is something new */
    char slots[3][PROGRESS_TEXT]; /* driver's: what core was given; one it has, one a batch may have, one free */
    int64_t next_us;              /* driver's: not before */
} work_progress;

struct pawl_run {
    input in, deferred_in, progress_in;
    struct pawl_run *next; /* in its pool, or among the free ones */
    runtime *rt;
    core_task *task;
    const handler_def *def;
    _Atomic int stop;  /* pawl_stop_reason */
    _Atomic int state; /* work_state */
    int64_t began_us;  /* wall */
    bool over;         /* the handler has returned: what is kept can no longer change */
    bool completed;    /* pawl_complete_sqlite, _pg or _mysql did its part */
    bool is_job;
    core_settled settled;
    int64_t settled_delay_us;
    const char *settled_error;
    pawl_outcome early;
    core_outcome outcome;
    char *code, *error, *result, *result_type, *result_ref;
    size_t result_len;
    buf log;
    int log_lines;
    work_progress *progress;
    list link; /* driver's: all runs */
    list late; /* driver's: its progress waits */
    pawl_op *spawns;
    int spawns_count, spawns_room;
    void *user;
};

void work_start(runtime *rt, core_task *task);                         /* driver's: CORE_RUN */
void work_stop(runtime *rt, core_task *task, pawl_stop_reason reason); /* driver's */
void work_settled(runtime *rt, const core_action *action);             /* driver's */
void work_refuse(runtime *rt, pawl_run *run);                          /* driver's: it cannot be run just now */
void work_progressed(runtime *rt, core_time now, pawl_run *run);       /* driver's */
void work_late(runtime *rt, core_time now);                            /* driver's: progress whose time has come */
int64_t work_late_deadline(const runtime *rt);
void work_free(runtime *rt, pawl_run *run); /* driver's */
void work_do(pawl_run *run);                /* a worker's: the handler, or a hook */
void work_finish(pawl_run *run, pawl_outcome outcome);
void work_ended(pawl_run *run, pawl_outcome outcome); /* its input is ready to be pushed */
void work_pulled(pawl_run *run);                      /* driver's: it is about to be handed to a puller */
void work_done(runtime *rt);
void work_execution(const pawl_run *run, pawl_execution *out);
void work_took(void);                      /* a worker's: it has new runs, and what it knew of the time is old */
extern _Thread_local runtime *work_inside; /* this thread is inside a handler or hook of that engine */

/* ---- tickets ------------------------------------------------------------------------------------------------------------- */

struct kept_text {
    struct kept_text *next;
    char text[];
};

/* A task to insert. Operations are large, and many: they are filled in by the driver, in whose caches they then are. */
typedef struct ticket_item {
    pawl_body *body; /* the ticket's until the request has it */
    const pawl_family *family;
    int64_t delay_us, at_us;
} ticket_item;

enum { TICKET_OPEN, TICKET_SLEEPS, TICKET_DONE };

typedef struct ticket ticket;
struct ticket {
    input in;
    list link;    /* driver's: all whose request core has */
    list waiting; /* driver's: those with a callback, oldest first */
    ticket *next; /* on its way to its caller */
    runtime *rt;
    core_request *request;
    struct ticket_item *items; /* inserts that the driver is to fill the request with */
    int items_count;
    _Atomic int refs;             /* the caller's and the core's */
    bool fed, given_up, answered; /* driver's */
    pthread_mutex_t lock;
    pthread_cond_t cond;
    _Atomic int wait; /* TICKET_... */
    bool done;        /* of one that sleeps */
    pawl_status status;
    pawl_error err;
    /* Reads the results out of the request, on the driver's thread. */
    void (*read)(ticket *t, const core_request *r);
    pawl_receipt receipt;   /* of a dispatch of one */
    pawl_receipt *receipts; /* of many: the caller's */
    int *op_of;             /* for each receipt the operation that answers it; NULL: its own number */
    size_t receipts_count;
    pawl_op_result result; /* of a single other operation */
    pawl_state state;
    int64_t done_count; /* of many */
    pawl_dispatch_fn callback;
    void *callback_ctx;
    int64_t deadline_us;
    struct kept_text *texts; /* what the operations point to */
    bool submitted;
    char queue[64]; /* for messages */
};

ticket *ticket_new(runtime *rt, int count, pawl_error *err);       /* with a request of so many empty operations */
ticket *ticket_for_items(runtime *rt, int count, pawl_error *err); /* with room for so many items */
pawl_status ticket_run(ticket *t, pawl_error *err);                /* submits, waits, frees nothing; t->status */
pawl_status ticket_send(ticket *t, pawl_error *err); /* submits; the callback will be called, and the ticket is gone */
void ticket_free(ticket *t);                         /* the caller's part */
bool ticket_keep(ticket *t, const char *text, const char **kept); /* a copy that lives as long as the request */
bool ticket_keep_bytes(ticket *t, pawl_bytes bytes, const char **kept);
void *ticket_keep_room(ticket *t, size_t size);            /* zeroed, likewise; NULL: no memory */
void ticket_submit(runtime *rt, core_time now, ticket *t); /* driver's */
void ticket_answer(runtime *rt, core_request *r);          /* driver's: CORE_ANSWER */
void ticket_drop(runtime *rt, core_request *r);            /* driver's: CORE_DROP */
void ticket_flush(runtime *rt);                            /* driver's: wakes those who were answered */
void ticket_expire(runtime *rt, core_time now);            /* driver's: callbacks that have waited too long */
void ticket_expire_all(runtime *rt);
int64_t ticket_deadline(const runtime *rt);
void ticket_wake_all(runtime *rt); /* driver's: the engine closes */
void ticket_call_back(ticket *t);  /* the loop thread's; the ticket is gone */
void ticket_done_all(runtime *rt);

pawl_status dispatch_one(runtime *rt, const pawl_task *task, pawl_receipt *receipt, pawl_error *err);
pawl_status dispatch_bulk(runtime *rt, const pawl_task *tasks, size_t n, pawl_receipt *receipts, pawl_error *err);
pawl_status dispatch_async(runtime *rt, const pawl_task *task, pawl_dispatch_fn done, void *ctx, pawl_error *err);
/* In the transaction of the caller's own connection to a store of that kind. */
pawl_status dispatch_within(runtime *rt, const char *scheme, void *connection, const pawl_task *task, pawl_receipt *receipt,
                            pawl_error *err);
pawl_status dispatch_check_kind(const runtime *rt, const char *scheme, const void *connection, pawl_error *err);
pawl_status dispatch_body(runtime *rt, const pawl_task *task, pawl_body **out, pawl_error *err); /* checked and copied */
void dispatch_insert(pawl_op *op, pawl_body *body, int64_t delay_us, int64_t at_us);             /* into one that is all zero */
pawl_status dispatch_draw_id(runtime *rt, pawl_id *id, pawl_error *err);

pawl_status ops_cancel(runtime *rt, pawl_id id, const char *by, pawl_error *err);
pawl_status ops_cancel_where(runtime *rt, const pawl_filter *filter, const char *by, int64_t *count, pawl_error *err);
pawl_status ops_retry(runtime *rt, pawl_id id, const char *by, pawl_receipt *receipt, pawl_error *err);
pawl_status ops_dead_retry(runtime *rt, const pawl_filter *filter, const char *by, int64_t *count, pawl_error *err);
pawl_status ops_dead_ack(runtime *rt, pawl_id id, const pawl_filter *filter, const char *by, const char *note, int64_t *count,
                         pawl_error *err);
pawl_status ops_pause(runtime *rt, const char *queue, bool pause, const char *by, pawl_error *err);
/* A ticket for one operation; `by` is checked and kept. */
pawl_status ops_single(runtime *rt, pawl_op_kind kind, pawl_id id, const char *by, ticket **out, pawl_error *err);

/* zones.c */
struct zone;
void zones_init(runtime *rt);
void zones_done(runtime *rt);
const struct zone *zones_get(void *rt, const char *name, pawl_error *err); /* NULL: *err says why; kept until the engine closes */

/* schedules.c, schedules_look.c */
pawl_status schedules_kept(const runtime *rt, pawl_error *err); /* UNSUPPORTED: not by this store */
pawl_status schedules_valid(runtime *rt, const pawl_schedule *s, pawl_error *err);
pawl_status schedules_put(runtime *rt, const pawl_schedule *s, pawl_put how, pawl_dispatched *outcome, pawl_error *err);
pawl_status schedules_put_all(runtime *rt, const pawl_schedule *s, size_t n, const pawl_put_options *options, pawl_error *err);
pawl_status schedules_set(runtime *rt, const char *name, bool enabled, const char *by, pawl_error *err);
pawl_status schedules_remove(runtime *rt, const char *name, const char *by, pawl_error *err);
pawl_status schedules_run(runtime *rt, const char *name, const pawl_bytes *payload, const char *by, pawl_id *id, pawl_error *err);
pawl_status schedules_get(runtime *rt, const char *name, int upcoming, pawl_schedule_info **out, pawl_error *err);
pawl_status schedules_list(runtime *rt, const pawl_schedule_filter *filter, pawl_schedules **out, pawl_error *err);
pawl_status schedules_preview(runtime *rt, const pawl_schedule *s, int64_t from_us, int64_t *times_us, size_t n, size_t *count,
                              pawl_error *err);

/* family.c */
pawl_status family_kept(const runtime *rt, pawl_error *err); /* UNSUPPORTED: not by this store */
bool family_has(const pawl_task *task);
pawl_status family_valid(const runtime *rt, const pawl_task *task, pawl_error *err);
size_t family_size(const pawl_task *task); /* room for family_make; 0: it has none */
pawl_status family_make(void *room, const pawl_task *task, const pawl_op *ops, const int *op_of, int own, pawl_error *err);
pawl_status family_refused(const pawl_op *op, pawl_error *err);
pawl_status family_open_batch(runtime *rt, const pawl_batch_options *options, pawl_id *id, pawl_error *err);
pawl_status family_end_batch(runtime *rt, pawl_id id, bool cancel, const char *by, pawl_error *err);
pawl_status family_get_batch(runtime *rt, pawl_id id, const char *name, pawl_batch_info **out, pawl_error *err);
pawl_status family_list_batches(runtime *rt, const pawl_batch_filter *filter, pawl_batches **out, pawl_error *err);
pawl_status family_relatives(runtime *rt, const pawl_relatives_query *wanted, pawl_relatives **out, pawl_error *err);

/* limits.c */
pawl_status limits_check(const pawl_rate *rate, const char *type, pawl_error *err);
pawl_status limits_kept(const runtime *rt, pawl_error *err); /* UNSUPPORTED: not by this store */
pawl_status limits_set(runtime *rt, const char *type, pawl_bytes key, const pawl_rate *rate, const char *by, pawl_error *err);
pawl_status limits_pause(runtime *rt, const char *type, pawl_bytes key, bool pause, const char *by, pawl_error *err);
void limits_check_pace(runtime *rt, const pawl_schedule *s); /* tells if it falls due more often than it may start */
pawl_status limits_get(runtime *rt, const pawl_limit_filter *filter, pawl_limits **out, pawl_error *err);

/* places.c */
pawl_status places_valid(const char *what, int64_t most, pawl_error *err);
pawl_status places_kept(const runtime *rt, pawl_error *err); /* UNSUPPORTED: not by this store */
pawl_status places_set(runtime *rt, pawl_scope scope, const char *name, pawl_bytes key, int most, bool ordered, const char *by,
                       pawl_error *err);
pawl_status places_get(runtime *rt, const pawl_place_filter *filter, pawl_places **out, pawl_error *err);

/* ---- what callers pass in ------------------------------------------------------------------------------------------------ */

/* before: one that is valid and in the same call; NULL: none */
pawl_status valid_task(const runtime *rt, const pawl_task *task, const pawl_task *before, pawl_error *err);
pawl_status valid_filter(const pawl_filter *filter, pawl_error *err); /* NULL is fine */
pawl_status valid_name(const char *name, const char *what, pawl_error *err);
pawl_status valid_optional(const char *name, const char *what, pawl_error *err); /* NULL is fine */
#define RATE_KEY_MAX ((size_t)16 << 10)
pawl_status valid_rate_key(pawl_bytes key, pawl_error *err);
pawl_status valid_id(pawl_id id, pawl_error *err);
pawl_status valid_content(pawl_bytes bytes, const char *content_type, const char *what, pawl_error *err);

/* ---- looking ------------------------------------------------------------------------------------------------------------- */

typedef struct answer { /* what is handed out lies in its arena */
    pawl_allocator allocator;
    pawl_arena *arena;
} answer;

pawl_status look_ask(runtime *rt, pawl_query *query, answer **out, pawl_error *err);
pawl_status look_give(answer *a, const void *value, size_t size, void *out,
                      pawl_error *err); /* *out is the caller's, and so is a */
answer *look_answer(runtime *rt);       /* an empty one; NULL: no memory */
void look_drop(answer *a);              /* NULL is fine */
pawl_status look_get(runtime *rt, pawl_id id, pawl_info **out, pawl_error *err);
pawl_status look_list(runtime *rt, const pawl_filter *filter, pawl_page **out, pawl_error *err);
void look_complete(pawl_info *info);                                                               /* what a store leaves out */
pawl_status search_list(runtime *rt, const pawl_filter *filter, pawl_page **out, pawl_error *err); /* limit and search are set */
pawl_status look_trail(runtime *rt, pawl_id id, pawl_trail **out, pawl_error *err);
pawl_status look_stats(runtime *rt, int64_t window_us, const char *queue, pawl_stats **out,
                       pawl_error *err); /* queue: NULL: all */
pawl_status look_nodes(runtime *rt, pawl_nodes **out, pawl_error *err);
pawl_status look_acts(runtime *rt, int64_t before, int limit, pawl_acts **out, pawl_error *err);
pawl_status look_places(runtime *rt, const pawl_place_filter *filter, pawl_places **out, pawl_error *err);
pawl_status look_limits(runtime *rt, const pawl_limit_filter *filter, pawl_limits **out, pawl_error *err);
pawl_status look_health(runtime *rt, pawl_health *out, pawl_error *err);
pawl_status look_read(runtime *rt, pawl_query *query, pawl_arena *arena, pawl_error *err);
pawl_status look_settings(runtime *rt, char *out, size_t size, pawl_error *err);
pawl_status look_state(runtime *rt, pawl_id id, pawl_state *state, pawl_error *err);
core_numbers look_numbers(runtime *rt);
pawl_status look_served(runtime *rt, const char *queue, bool *served, pawl_error *err);
pawl_status why_explain(runtime *rt, pawl_id id, pawl_why_answer *answer, pawl_error *err);

/* ---- waiting for a task -------------------------------------------------------------------------------------------------- */

typedef struct waits {
    pthread_mutex_t lock;
    pthread_cond_t cond;
    list all;
    _Atomic int count;
} waits;

void waits_init(waits *w);
void waits_done(waits *w);
pawl_status waits_for(runtime *rt, pawl_id id, int64_t timeout_us, pawl_state *state, pawl_error *err);
void waits_wake(runtime *rt, const pawl_batch *batch); /* those whose tasks it touched; NULL: all */

/* ---- events -------------------------------------------------------------------------------------------------------------- */

typedef struct events {
    pthread_mutex_t lock;
    list subscriptions;
} events;

void events_init(runtime *rt);
void events_publish(runtime *rt, const pawl_event *event);
bool events_wanted(runtime *rt); /* somebody has subscribed */
pawl_status events_subscribe(runtime *rt, size_t capacity, pawl_subscription **out, pawl_error *err);
bool events_wait(pawl_subscription *s, int64_t until_us); /* for one; false: none came, or the engine closes */
void events_close(runtime *rt);                           /* subscriptions live on without it */
void events_done(runtime *rt);

/* ---- the feed: what other nodes are told --------------------------------------------------------------------------------- */

typedef struct feed_lost feed_lost;

typedef struct news_feed {
    pthread_mutex_t lock;
    pthread_cond_t cond;
    pthread_t thread;
    _Atomic bool threaded; /* written when the loop's thread runs already */
    bool stop;
    bool poked;                /* somebody may listen: look */
    bool urgent;               /* at once */
    bool telling;              /* events are being told */
    int64_t looked_us;         /* the thread's: when it looked last */
    _Atomic int64_t look_us;   /* this node's own commits ask for a look from then on */
    int64_t heard_us;          /* this node listens, and has said so then; 0: never */
    int64_t told;              /* how often something was told by this node */
    pawl_subscription *events; /* from the beginning, if somebody listened then: a one_shot engine's, or the thread's */
    uint64_t engine;           /* whom its rows are of: no other engine has this number */
    int64_t node;              /* what it told last that it is */
    feed_lost *lost;           /* once this node has listened: see feed_lost.c */
    bool looking;              /* somebody is at it */
} news_feed;

bool feed_start(runtime *rt);             /* false: no thread */
void feed_look(runtime *rt);              /* of stores that have no feed: now, on this thread */
void feed_poke(runtime *rt, bool others); /* others committed, or this node did */
void feed_stop(runtime *rt);              /* tells the rest */
void feed_done(runtime *rt);
struct json_writer;
void feed_fact(struct json_writer *w, const pawl_event *e);
void feed_head(runtime *rt, struct json_writer *w); /* members that say whose row it is */
void feed_look_for_lost(runtime *rt);               /* now and then: nodes that told and are gone */
pawl_status feed_follow(runtime *rt, int64_t after, int64_t timeout_us, int most, pawl_facts **out, pawl_error *err);

/* ---- inline mode --------------------------------------------------------------------------------------------------------- */

int64_t inline_run_due(runtime *rt);
int64_t inline_advance(runtime *rt, int64_t by_us);
void inline_sleep(pawl_run *run, int64_t us);
void inline_give_back(runtime *rt); /* the engine stops: what has not run goes back */

/* ---- the whole ----------------------------------------------------------------------------------------------------------- */

typedef enum phase { PHASE_OPEN, PHASE_STARTED, PHASE_DRAINED, PHASE_STOPPING, PHASE_STOPPED } phase;

struct runtime {
    pawl *handle;
    pawl_allocator allocator;
    pawl_options options; /* with every default filled in; texts are in `kept` */
    pawl_arena *kept;     /* copies of what the configuration points to */
    char *url;            /* as opened, without a password */
    virtual_clock virtual_now;
    pawl_clock clock;
    logger log;
    redaction hidden; /* what it does not show */
    pawl_store *store;
    bool direct; /* calls of the store are made within a step */
    core *core;  /* driver's */

    pthread_mutex_t zones_lock;
    struct zone_entry *zones;    /* read so far */
    pthread_mutex_t config_lock; /* handlers, until `frozen` */
    map handlers;
    handler_def *handlers_list;
    handler_def *wildcard;
    atomic_bool frozen;       /* started once: queues and handlers stay as they are */
    atomic_bool custom_retry; /* a retry function or limiter of the program's: only the loop thread steps */
    atomic_bool rate_keys;    /* a handler tells rate keys */

    loop loop;
    storeq storeq;
    waits waits;
    events events;
    news_feed feed;
    pool *pools; /* one per queue of the core; NULL before the first start */
    int pools_count;

    /* driver's: */
    core_call *direct_calls[CORE_CALL_KINDS + LANES_MAX + 1];
    int direct_count;
    pool *dirty_pools;
    int64_t look_us;                /* pool_look; INT64_MAX: not */
    _Atomic int64_t lease_until_us; /* written by the driver: workers begin nothing from then on */
    bool stops_dirty;
    list tickets, callbacks_waiting;
    ticket *answered, **answered_last;
    list runs; /* all that have a task */
    list late; /* those whose progress waits */
    pawl_run *free_runs;
    int free_runs_count;
    int64_t commits;       /* driver's: calls that changed the store */
    char store_error[200]; /* what the store last said when it failed */
    pawl_run *inline_runs, **inline_runs_last;

    pthread_mutex_t stop_lock; /* runs that sleep */
    pthread_cond_t stop_cond;

    pthread_mutex_t phase_lock;
    pthread_cond_t phase_cond;
    phase phase;
    int64_t drained_seq, stopped_seq; /* how often core said so */
    atomic_bool drainable;            /* it was started: somebody may ask it to drain */
    bool drained_for;                 /* somebody did; driver's */
    atomic_int drain_calls;           /* of this engine, begun and ended: what was read during one is old */
    int stuck;
    atomic_bool closing;    /* calls from outside end */
    atomic_bool looked_out; /* a caller looks out for its answer */
    bool abandoned;         /* driver's: closed with runs that would not return */
};

pawl_status runtime_open(const pawl_options *options, runtime **out, pawl_error *err);
char *runtime_public_url(pawl_arena *arena, const char *url); /* without the password; NULL: no memory */
pawl_status runtime_start(runtime *rt, pawl_error *err);
pawl_status runtime_drain(runtime *rt, int64_t timeout_us, pawl_error *err);
void runtime_drain_asked(runtime *rt, bool on); /* by somebody, through the store */
pawl_status runtime_drain_node(runtime *rt, int64_t node, bool on, const char *by, pawl_error *err);
pawl_status runtime_stop(runtime *rt, pawl_error *err);
pawl_status runtime_close(runtime *rt, pawl_error *err); /* TIMEOUT: it lives on in the background */
void runtime_free(runtime *rt);
extern int64_t runtime_patience_us;                        /* how long runs that were asked to stop may take; tests have less */
void runtime_told(runtime *rt, const core_action *action); /* driver's: CORE_DRAINED, CORE_STOPPED */

core_time runtime_now(const runtime *rt);
void runtime_cond_init(pthread_cond_t *cond);                                     /* on the monotonic clock */
bool runtime_wait(pthread_cond_t *cond, pthread_mutex_t *lock, int64_t until_us); /* false: it is past until_us */
int64_t runtime_until(int64_t timeout_us); /* for runtime_wait: from now; negative: never */
bool runtime_thread(pthread_t *thread, const char *name, void *(*body)(void *), void *arg); /* all signals blocked */

pawl_status config_fill(runtime *rt, const pawl_options *options, pawl_error *err);
const char *config_default_store(void); /* from the environment, else sqlite:pawl.db */
pawl_status config_queue(runtime *rt, const pawl_queue_options *options, pawl_error *err);
pawl_status config_handler(runtime *rt, const pawl_handler *handler, pawl_error *err);
pawl_status config_defaults(runtime *rt, pawl_error *err); /* the queues that exist by themselves */
pawl_status config_handler_queues(runtime *rt, pawl_error *err);
policy config_policy(const pawl_options *options);
const char *config_queue_of(runtime *rt, const char *type);
pawl_bytes config_rate_key(runtime *rt, const pawl_task *task); /* its own, or its handler's for it */
pawl_rate config_rate_of(runtime *rt, const char *type);        /* permits 0: its handler has none */
pawl_audit config_audit_of(runtime *rt, const char *type);      /* DEFAULT: its handler does not say */

/* ---- handles ------------------------------------------------------------------------------------------------------------- */

pawl *handle_new(runtime *rt); /* NULL: no memory */
pawl_status handle_enter(pawl *p, runtime **out, pawl_error *err);
void handle_leave(pawl *p);
pawl_status handle_closing(pawl *p,
                           runtime **out); /* only handlers of its own may enter from now on. CLOSED: somebody was first */
void handle_closed(pawl *p);               /* nobody may enter; waits for those inside */
void handle_recycle(pawl *p);

#endif
