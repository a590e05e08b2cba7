/* The deterministic simulator: what its files share. README.md explains the model.
 *
 *   sim_test.c  the command: seeds, modes, what is printed when a promise broke
 *   world.c     one seed: virtual time, events, the plan of faults, the phases chaos, heal, idle
 *   node.c      one simulated process: drives a core, carries out its actions, crashes, sleeps, stops
 *   load.c      callers and handlers: what is asked of the engine, how runs go
 *   wire.c      calls between a node and the store: delays, errors, lost answers, copies that arrive late
 *   rows.c      a tiny database: rows, locks, transactions that are interrupted between any two steps
 *   rowstore.c  the store contract on rows.c (mode b); rowstore_batch.c: its operations; rowstore_budget.c: rate limits
 *   limits.c    rate limits: which a seed has, and how they change
 *   judge.c     the model: what the store must hold and what cores may do; every promise is checked here
 *   trace.c     the history that is printed
 *
 * Nothing here depends on addresses, hash order or the machine's clock: a seed and a mode are a whole history.
 */
#ifndef SIM_SIM_H
#define SIM_SIM_H

#include "base/alloc.h"
#include "base/clock.h"
#include "base/list.h"
#include "base/map.h"
#include "base/rand.h"
#include "core/core.h"
#include "store/store.h"

#define NODES_MAX 5
#define QUEUES 3
#define TYPES 4
#define KEYS 4
#define RATE_KEYS 3
#define TENANTS 4
#define GATES (TYPES * RATE_KEYS)
#define LANES_MAX 4                         /* one more than stores have */
#define WALL_BASE INT64_C(1800000000000000) /* the wall clock at virtual time 0 */

typedef struct sim sim;
typedef struct sim_node sim_node;
typedef struct wire wire;
struct rowstore;

/* ---- trace.c --------------------------------------------------------------------------------------------------------------- */

/* One line of history. In fmt: %d a number, %s a text that lives for ever, %t a task's id, %u a duration in microseconds. */
void trace_put(sim *s, const sim_node *n, const char *fmt, const int64_t args[8]);
#define NOTE(s, n, fmt, ...) trace_put((s), (n), (fmt), (const int64_t[8]){__VA_ARGS__})
#define TEXT(p) ((int64_t)(intptr_t)(p))
void trace_dump(const sim *s); /* the last lines, to standard error */

/* A promise broke: prints which, what was seen, the history, how to run it again; ends the program. */
_Noreturn void broken(sim *s, const char *promise, const char *fmt, ...) PAWL_PRINTF(3, 4);
const char *trace_id(const sim *s, pawl_id id); /* "#12": the 12th task stored */

/* ---- the plan of a seed ---------------------------------------------------------------------------------------------------- */

/* What a seed is about, if anything: situations that are rare otherwise. */
typedef enum sim_theme {
    THEME_NONE,
    THEME_CRAMPED,  /* one node, one queue with room for hardly anything, several lanes */
    THEME_GREEDY,   /* one queue, slow answers, quick runs: claims and born-leased inserts for the same few places */
    THEME_DEAF,     /* runs that are told to stop and do not, on nodes that lose their lease */
    THEME_MOURNING, /* a node that died with its leases, and one other that hardly gets through to the store */
    THEMES
} sim_theme;

typedef struct plan {
    int nodes;
    int64_t chaos_us;   /* how long the first phase lasts */
    int asks;           /* how many calls the callers make in it */
    int64_t lease_us;   /* typical */
    int64_t latency_us; /* typical, of the store */
    int64_t step_us;    /* mode b: typical, between two steps of a transaction */
    bool sparse;        /* hardly anything to do, many failures: nothing else repairs what went wrong */
    bool hot;           /* few queues, few keys, much to do at once */
    bool alike;         /* every node serves everything */
    int queues, keys;   /* in use */
    /* Of 1000 calls to the store, how many: */
    int before, after, nothing, lost, late, slow, killed;
    /* How many, in the whole phase: */
    int outages, crashes, sleeps, jumps, stops, drains;
    bool noisy_wakes;   /* every write of another node wakes */
    bool keep_sessions; /* a crashed process may leave its session open: nobody can prove its death */
    bool outage_all;
    int poison;                                   /* of 1000 tasks, how many kill their process */
    int long_runs, rude;                          /* of 1000 runs: longer than a lease; deaf to being stopped */
    int spawns, cancels, pauses, bulks, give_ups; /* of 1000 */
    int key_share;                                /* of 1000 tasks, how many have a key */
    int lanes;
    bool tiny_batches, depth_limits, one_shots, surplus;
    sim_theme theme;
    int timeouts;  /* of 1000 tasks */
    int no_memory; /* of 1000 allocations of a core, how many fail */
    /* Rate limits: */
    bool families;      /* some tasks have parents */
    bool limits, local; /* there are any; each node keeps its own */
    int hot_type;       /* of half the tasks, and limited */
    int rate_keys;      /* in use */
    int rate_share;     /* of 1000 tasks, how many have one */
    int told_share;     /* and of these, how many have it from their handler */
    int limit_changes;  /* of 1000 asks */
    int versions;       /* of 1000 handlers, how many have another limit than most */
    int steps;          /* of the store's clock, in the whole phase */
    int parked_max;
    pawl_rate rates[TYPES][2]; /* permits 0: not limited */
    /* Concurrency limits: */
    bool places;
    int type_most[TYPES], key_most[TYPES], queue_most[QUEUES]; /* 0: none */
    bool ordered[TYPES], fair[QUEUES];
    int bound_changes; /* of 1000 asks */
} plan;

/* ---- the world ------------------------------------------------------------------------------------------------------------- */

typedef void (*event_fn)(sim *s, void *arg, int64_t n);

typedef struct event {
    int64_t at;
    uint64_t seq;
    event_fn fn;
    void *arg;
    int64_t n;
    sim_node *node; /* NULL: nobody's. Else it waits while the node sleeps and vanishes with its life */
    int life;
} event;

typedef enum sim_phase { PHASE_CHAOS, PHASE_HEAL, PHASE_IDLE } sim_phase;

/* A process's connection to the store. Open, it shows that the process lives. */
typedef struct session {
    pawl_store *store; /* mode a */
    bool open;
    list link;
} session;

/* One thing somebody wants done: a dispatch of one task, a cancel, ... An ask is one try; its number travels in the payload
 * (or in `by`), so the judge knows it when it sees it at the store. */
typedef struct ask {
    pawl_op_kind kind;
    int item;           /* INSERT */
    pawl_id id;         /* INSERT: handed back after UNKNOWN, or 0; else the task */
    int queue;          /* QUEUE */
    bool pause;         /* QUEUE, LIMIT */
    int type, rate_key; /* LIMIT; -1: of all keys. BOUND: of a queue, or a tenant, too */
    int scope, most;    /* BOUND; there pause says ordered */
    pawl_rate rate;
    bool committed, answered, spawned;
    pawl_status status;    /* once answered */
    pawl_op_result result; /* once committed */
    pawl_id out_id;
} ask;

/* A task that somebody wants, however often they try. */
typedef struct item {
    int type, queue, key; /* key -1: none */
    int rate_key;         /* -1: none */
    bool told;            /* by its handler, not by its body */
    int tenant;
    int priority, max_attempts;
    int64_t delay_us, timeout_us;
    bool poison, spawned;
    int tries, snoozes;
    pawl_id id; /* stored as; 0: not that we know */
    pawl_id parents[2];
    int parents_count;
    pawl_if_failed if_failed;
} item;

typedef struct sim_request {
    list link;
    core_request *request;
    sim_node *node;
    int asks[8];
    int count;
    bool answered;
    bool one_shot;
} sim_request;

typedef struct sim_run {
    list link;
    sim_node *node;
    core_task *task;
    pawl_id id;
    int64_t fence;
    int ask; /* whose body it got */
    bool in_worker, ended, told_lost, rude, kills;
    bool waiting;      /* handed out, and no worker has begun it */
    bool calm;         /* it began when no fault was left */
    bool cancel_known; /* its node was told by the store that a cancel is asked */
    pawl_stop_reason told;
    unsigned told_all; /* bits: every reason it was told */
    int turn;          /* events of an earlier turn mean nothing */
    core_outcome outcome;
    pawl_op spawns[2];
} sim_run;

struct sim_node {
    sim *sim;
    int index;
    int life;        /* which start of a process this is */
    bool up;         /* there is a process */
    bool asleep;     /* and it is stopped */
    bool tick_first; /* waking up, it looks at its clock first */
    bool started, draining, stopping, stopped, one_shot;
    core *core;
    session *session;
    int64_t mono_offset_us, wall_offset_us;
    int64_t tick_at;
    int64_t deadline; /* of core, as last seen */
    int64_t outage_until, woke_at;
    int64_t trouble_at; /* when the store last failed it */
    list runs, requests;
    wire *calls[CORE_CALL_KINDS][LANES_MAX]; /* unanswered */
    int workers[QUEUES], capacity[QUEUES];
    uint32_t types;         /* bits */
    pawl_rate local[TYPES]; /* limits of its own */
    bool any_type;
    int64_t lease_us;
    pawl_allocator allocator;
    bool allocs_fail; /* unless it is the simulator that allocates */
    int64_t blocks;   /* allocated and not released */
    int64_t calls_made;
    int64_t failed_since, failed_calls; /* for storms: failed calls within a second */
    bool wake_pending;
    bool knows_paused[QUEUES]; /* by the last answer of the store about it */
};

/* What happened, for the summary: a simulator that never meets a fault proves nothing. */
/* clang-format off */
#define STATS_TABLE(X) \
    X(CALLS, "store calls") X(TASKS, "tasks stored") X(BORN, "born leased") X(RUNS, "runs") X(STALE, "stale operations") \
    X(REPLAYS, "batches answered from receipts") X(UNKNOWN, "unknown answers to callers") X(RESCUES, "leases rescued") \
    X(POISONED, "poisoned tasks") X(TAKEN_BACK, "leases taken back") X(RETURNED, "unknown leases given back") \
    X(OVERLAPS, "runs outlived by their lease") X(CRASHES, "crashes") X(SLEEPS, "sleeps") X(STOPS, "stops") \
    X(OUTAGES, "outages") X(RECALLS, "runs recalled") X(WAITS, "lock waits") X(NUMBERS, "node numbers taken") \
    X(SLOTS, "rate slots taken") X(SLOTS_USED, "of them used") X(SLOTS_BACK, "given back") X(SLOTS_LOST, "lost") \
    X(NEAR, "tasks that waited at their node") X(MOVED, "tasks that waited in the store") X(REFUSED, "tasks refused") \
    X(LIMITED_LOCAL, "starts under a local limit") X(LIMIT_CHANGES, "limits changed") X(STEPS, "steps of the store's clock") \
    X(PLACES, "places taken") X(ORDERED, "of them in order") X(BLOCKED, "sightings of blocked tasks") \
    X(BOUND_CHANGES, "concurrency limits changed")
/* clang-format on */

typedef enum stat {
#define X(name, text) STAT_##name,
    STATS_TABLE(X)
#undef X
        STATS_COUNT
} stat;

struct sim {
    uint64_t seed;
    bool rows;    /* mode b */
    bool both;    /* mode c: rate limits and concurrency limits together, on the reference store */
    bool bounded; /* mode d: concurrency limits on rows */
    bool trace;
    plan plan;
    rng random;
    int64_t now;        /* virtual microseconds since the start; never goes back */
    int64_t wall_shift; /* of the store's machine's wall clock */
    sim_phase phase;
    int64_t calm_at; /* from then on no fault is left, not even an old one */
    uint64_t seq;
    event *events; /* a binary heap by (at, seq) */
    size_t events_count, events_room;
    int64_t steps;

    sim_node nodes[NODES_MAX];
    virtual_clock clock; /* mode a: what the memory store sees */
    pawl_store *observer;
    struct rowstore *rowstore;
    list sessions;
    int64_t outage_until;
    list free_wires, busy_wires;
    bool paused_wanted[QUEUES];

    ask *asks;
    int asks_count, asks_room;
    item *items;
    int items_count, items_room;
    int open_requests, load_left;

    struct judge *judge;

    struct {
        int64_t at;
        int node, life;
        const char *fmt;
        int64_t args[8];
    } history[512];
    uint64_t history_count;
    int clock_steps;
    struct block *blocks; /* of sim_alloc */

    int64_t stats[STATS_COUNT];
};

extern const char *const queue_names[QUEUES];
extern const char *const type_names[TYPES];
extern const char *const key_names[KEYS];
extern const char *const rate_key_names[RATE_KEYS];
extern const char *const tenant_names[TENANTS];

/* world.c */
void world_run(uint64_t seed, char mode, bool trace, int64_t stats[STATS_COUNT]); /* one history, from start to finish */
const sim *world_current(void);       /* for the report of a failed assertion; NULL: none */
void world_reboot(sim_node *n);       /* in a while */
void *sim_alloc(sim *s, size_t size); /* zeroed, lives as long as the seed */
void sim_at(sim *s, int64_t delay_us, sim_node *n, event_fn fn, void *arg, int64_t number);
bool chance(sim *s, int per_mille);
int64_t between(sim *s, int64_t low, int64_t high); /* inclusive */
int64_t spread(sim *s, int64_t typical_us);         /* mostly near, sometimes far below, seldom far above */
static inline const char *sim_mode(const sim *s) { return s->bounded ? "d" : s->rows ? "b" : s->both ? "c" : "a"; }
static inline int64_t store_wall(const sim *s) { return WALL_BASE + s->now + s->wall_shift; }

/* node.c */
void node_boot(sim_node *n, bool serve_all);
void node_crash(sim_node *n);
void node_sleep(sim_node *n, int64_t for_us);
void node_stop(sim_node *n);
void node_drain(sim_node *n);
void node_pump(sim_node *n); /* carries out what core wants */
void node_tick(sim_node *n);
void node_gone(sim_node *n); /* end of the process, memory checked */
void node_wake_others(sim *s, const session *committer);
core_time node_time(const sim_node *n);
int node_runs(const sim_node *n, int queue); /* workers in use; queue -1: all */

/* load.c */
void load_start(sim *s);
void load_answer(sim_node *n, core_request *r);
void load_drop(sim_node *n, core_request *r);
void load_run(sim_node *n, core_task *t);
void load_recall(sim_node *n, int queue);
void load_stop_run(sim_node *n, core_task *t, pawl_stop_reason reason);
void load_settled(sim_node *n, core_task *t, core_settled how);
void load_forget(sim_node *n); /* the process is gone: its callers and runs too */
void load_heal(sim *s);        /* resumes what is paused */
void load_idle_work(sim *s);
int ask_of_body(const sim *s, const pawl_body *body); /* -1: none of ours */
int ask_of_by(const char *by);

/* places.c */
void places_plan(sim *s, plan *p);
void places_item(sim *s, item *i);
void places_handler(sim *s, int type, core_handler_config *config);
void places_queue(sim *s, int queue, core_queue_config *config);
ask places_ask(sim *s);
void places_fill(pawl_op *op, const ask *a);

/* limits.c */
void families_plan(const sim *s, plan *p); /* judge_family.c */
void families_item(sim *s, item *i);
const pawl_family *families_of(sim *s, const item *i);
void limits_plan(sim *s, plan *p);
void limits_item(sim *s, item *i);
void limits_handler(sim_node *n, int type, core_handler_config *config); /* type -1: "*" */
ask limits_ask(sim *s);                                                  /* a change of some limit */
void limits_fill(const sim *s, pawl_op *op, const ask *a);
void limits_step(sim *s); /* the store's clock steps */

/* wire.c */
void wire_send(sim_node *n, core_call *call);
void wire_cut(sim_node *n);  /* the process is gone: answers go nowhere, some calls go on */
void wire_executed(wire *w); /* its effect has happened (mode b: at the commit) */
void wire_free_all(sim *s);
struct wire {
    list link;
    sim *sim;
    sim_node *node; /* NULL: nobody waits any more */
    int life;
    session *session;
    core_call *original;
    core_call call; /* what travels: a deep copy */
    pawl_arena *arena;
    int fate;
    bool done, answered;
    int64_t serial;
    int64_t sent_us;
    int64_t began_us;        /* its execution: leases count from here */
    int64_t at_us, shift_us; /* when the store read its clock, and how that was off */
    int clock_steps;         /* and how often it had stepped */
    void *tx;                /* mode b */
    int node_index;
};

/* rowstore.c */
struct rowstore *rowstore_new(sim *s);
void rowstore_free(struct rowstore *rs);
void rowstore_start(struct rowstore *rs, wire *w); /* begins the call; wire_finished comes later */
void rowstore_kill(struct rowstore *rs, wire *w);  /* its connection breaks: rolled back at its next step */
void rowstore_places(struct rowstore *rs, void (*see)(struct judge *j, const pawl_place_info *info), struct judge *j);
pawl_id rowstore_stranded(struct rowstore *rs,
                          const char **spot); /* blocked beside a free place that nobody else stands for; 0: nobody is */
bool rowstore_peek(struct rowstore *rs, pawl_id id, pawl_state *state, int64_t *fence);
void wire_finished(wire *w); /* mode b: committed or rolled back, call.status says */

/* judge.c */
struct judge *judge_new(sim *s);
void judge_free(struct judge *j);
void judge_sent(sim_node *n, const core_call *call);
void judge_executed(wire *w);
void judge_run(sim_node *n, core_task *t);
void judge_ended(sim_node *n, sim_run *run);
void judge_settled(sim_node *n, sim_run *run, core_settled how);
void judge_answer(sim_node *n, sim_request *r);
void judge_step(sim_node *n);
void judge_delivered(sim_node *n, const wire *w);
int judge_unfinished(const sim *s);
int judge_leases(const sim *s);
bool judge_paused(const sim *s, int queue);
void judge_final(sim *s);
int judge_alias(const sim *s, pawl_id id); /* 0: never stored */
pawl_id judge_some_task(sim *s);           /* 0: none yet */
pawl_id judge_waiting_task(sim *s);        /* for its rate slot; 0: none */
void judge_refused_run(sim_node *n, const core_task *t, core_settled how);
void judge_stepped(sim *s, int64_t by_us);
bool judge_paused_limit(const sim *s, int type, int rate_key, pawl_rate *rate);

#endif
