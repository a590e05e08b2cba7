/* The inside of the store `postgres:`: the handle, and what the files call of each other. See README.md. */
#ifndef STORE_POSTGRES_INNER_H
#define STORE_POSTGRES_INNER_H

#include "base/rand.h"
#include "store/postgres/names.h"
#include "store/postgres/postgres.h"

#define LANES 2
#define WRITERS (LANES + 1)
#define READERS 4
#define NODES_MAX 64 /* nodes of one handle that are alive at once */

typedef enum role { WRITER, RENEWER, READER, ROLES } role;

typedef struct pool { /* connections of one role */
    conn *conns;
    bool *taken;
    int count;
} pool;

/* ---- where claims go on (ready.c) ---------------------------------------------------------------------------------------- */

typedef struct ready_lane {
    int64_t lane;    /* priority, class and type as one number: see pawl_live */
    int64_t from_us; /* nothing is left below; -1: of a type that is not wanted */
    int64_t hint_us; /* somebody put something there meanwhile; INT64_MAX: nobody */
} ready_lane;

typedef struct ready_queue {
    int32_t queue_id; /* 0: unused */
    uint64_t types;   /* for which types the lanes were found */
    bool cold;        /* what is known is not enough: look at everything */
    bool asking;      /* a claim is under way */
    ready_lane *lanes;
    int count, room;
} ready_queue;

#define READY_QUEUES 64

typedef struct ready {
    const pawl_allocator *allocator;
    pthread_mutex_t lock;
    ready_queue queues[READY_QUEUES];
    bool busy; /* the claim before found several tasks, or limits */
} ready;

void pg_ready_init(ready *r, const pawl_allocator *a);
void pg_ready_done(ready *r);
void pg_ready_chill(ready *r);                   /* everything is to be looked at again */
void pg_ready_hint(ready *r, const char *hints); /* "<queue> <lane> <run_at>;..." or "*" */
/* The lanes of a queue for a claim: copies, in their order, in the arena; 0: all are to be found anew. */
int pg_ready_lanes(ready *r, int32_t queue_id, uint64_t types, pawl_arena *arena, ready_lane **lanes);
void pg_ready_learn(ready *r, int32_t queue_id, uint64_t types, ready_lane *lanes, int count); /* after a claim; sorts them */
bool pg_ready_idle(ready *r); /* a claim is likely to be what pawl_claim_one takes */
void pg_ready_found(ready *r, bool busy);

/* ---- hearing of others, and telling them (watch.c) ----------------------------------------------------------------------- */

typedef enum watch_state { WATCH_OFF, WATCH_CONNECTING, WATCH_GREETING, WATCH_READY, WATCH_WAITING } watch_state;

typedef struct watch {
    pthread_mutex_t lock;
    int epoll_fd, timer_fd; /* -1: nobody watches */
    bool watched;           /* somebody asked for the descriptor */
    watch_state state;
    PGconn *pg;
    PostgresPollingStatusType polling; /* WATCH_CONNECTING */
    int socket_fd, socket_events;      /* as epoll has it; -1: not */
    bool changed;
    int tries;
    int64_t retry_us;   /* WATCH_WAITING: when to connect again */
    int64_t poll_at_us; /* the safety poll */
    bool poll_seen;     /* since the last claim */
    bool starred;       /* "*" was heard: somebody may listen to what nodes tell, see feed.c */
    int64_t feed_us;    /* when that was last asked without having heard */
    rng random;
    /* What is to be told. */
    bool asked;       /* a NOTIFY has no answer yet */
    int64_t told_us;  /* when the last one was sent */
    bool work, news;  /* tell: something to claim; anything else */
    bool everything;  /* the hints do not fit: look at all */
    int own[WRITERS]; /* backends that said it within their commits */
    unsigned own_count;
    char hints[4000];
} watch;

/* ---- what a node was last told of others (news.c) ------------------------------------------------------------------------- */

#define OTHERS_EVERY_US (200 * PAWL_MILLISECOND) /* see pawl_beat */

typedef struct others {
    int64_t node;             /* who was told; 0: nobody */
    int64_t at_us, expiry_us; /* when, and what pawl_news calls foreign_expiry_us */
    pawl_lapsed lapsed[PAWL_LAPSED_MAX];
    int lapsed_count;
} others;

/* ---- the handle ---------------------------------------------------------------------------------------------------------- */

typedef struct pg_store {
    pawl_store base;
    const pawl_allocator *allocator;
    pawl_clock clock;
    pawl_log_fn log;
    void *log_ctx;
    int64_t lease_us;
    int wait_ms; /* for locks, where sessions are not ours; 0: the session has it */
    bool read_only;
    pg_link link;
    pthread_mutex_t lock; /* pools, nodes, others, the server's clock */
    pthread_cond_t freed;
    conn writers[WRITERS], renewers[1], readers[READERS];
    bool taken[WRITERS + 1 + READERS];
    pool pools[ROLES];
    int32_t nodes[NODES_MAX]; /* registered through this handle, the last ones; 0: unused */
    unsigned nodes_count;
    others others;
    int64_t server_us, server_at_us; /* the server's clock as last seen, and our monotonic one then */
    interned names;
    ready ready;
    watch watch;
    char store_id[64];  /* to know the store again on another connection */
    int64_t gate_after; /* transactions numbered below may not know that the gate is shut; 0: it is not, as far as was seen */
} pg_store;

static inline pg_store *store_of(pawl_store *store) { return (pg_store *)store; }

conn *pg_store_take(pg_store *s, role which); /* waits for one that is free */
void pg_store_give(pg_store *s, conn *c);
int64_t pg_server_now(pg_store *s); /* an estimate that is never ahead; 0: unknown */
void pg_server_seen(pg_store *s, int64_t now_us);
void pg_store_log(const pg_store *s, pawl_level level, const char *fmt, ...) PAWL_PRINTF(3, 4);
uint64_t pg_types_hash(const pawl_want *w);

/* The first two parameters of every call that writes: the clock of a test, and how long to wait for locks. */
void pg_params_call(const pg_store *s, params *p);

/* Deadlocks, and days of pawl_done that are missing: true, if the call is worth another try now. */
bool pg_call_again(pg_store *s, conn *c, int *tries);

/* ---- batches (apply.c, flat.c, answer.c) ------------------------------------------------------------------------ */

typedef struct flat_op { /* operations and, right behind their FINISH or STEP, their spawns */
    pawl_op *op;
    int parent;   /* of a spawn: the index of its FINISH, or STEP; else -1 */
    bool refused; /* it cannot be stored: left out */
} flat_op;

typedef enum flat_kind {
    FLAT_INSERTS,
    FLAT_SCHEDULES, /* in the order of the batch, each followed by its tasks among the INSERTs */
    FLAT_ENDS,
    FLAT_STARTS,
    FLAT_PROGRESS,
    FLAT_PEOPLE,
    FLAT_SLOTS,
    FLAT_LIMITS,
    FLAT_BOUNDS,
    FLAT_BATCHES, /* and SETTLEs */
    FLAT_KINDS
} flat_kind;

enum {
    SLOT_COLUMNS = 9,
    LIMIT_COLUMNS = 5,
    BOUND_COLUMNS = 5,
    SCHEDULE_COLUMNS = 3,
    FAMILY_COLUMNS = 2,
    BATCH_COLUMNS = 2
}; /* parameters of pawl_apply for FLAT_SLOTS and what follows */

typedef struct flat {
    flat_op *ops;
    int count;
    int *lists[FLAT_KINDS]; /* of each kind, those that are sent; slots are of some FINISHes and RELEASEs too */
    int counts[FLAT_KINDS];
    bool asks;    /* an INSERT asks for a lease */
    bool careful; /* every INSERT one by one: an id may be taken */
    int lo, hi;   /* which were selected */
} flat;

bool pg_flat_make(flat *f, pawl_op **ops, int count, pawl_arena *arena); /* false: no memory. Judges what cannot be stored */
bool pg_flat_names(pg_store *s, conn *c, const flat *f, pawl_arena *arena);
void pg_flat_select(flat *f, int lo, int hi); /* of the operations lo..hi-1, those that can be stored */
int pg_flat_simple(const flat *f);            /* what pawl_apply calls p_simple */
bool pg_flat_is_one(const flat *f);           /* what pawl_apply_one takes */
void pg_flat_one(params *p, const flat *f, interned *n);
void pg_flat_inserts(params *p, const flat *f, interned *n);
void pg_flat_ends(params *p, const flat *f);
void pg_flat_starts(params *p, const flat *f);
void pg_flat_progress(params *p, const flat *f);
void pg_flat_people(params *p, const flat *f, interned *n);
void pg_flat_slots(params *p, const flat *f);
void pg_flat_limits(params *p, const flat *f, interned *n);
void pg_flat_bounds(params *p, const flat *f, interned *n);
void pg_flat_schedules(params *p, const flat *f); /* schedule.c */
void pg_flat_families(params *p, const flat *f);  /* family.c */
void pg_flat_batches(params *p, const flat *f);
void pg_flat_forget(const flat *f);                                                   /* answers */
void pg_flat_answers(const flat *f, int64_t now_us, const char *results, bool fresh); /* fresh: they come from no receipt */

/* limits.c */

/* One call of pawl_apply with the operations lo..hi-1. */
typedef struct apply_call {
    int64_t node, number;
    int lane;
    bool dry;
    bool tell; /* the commit itself says NOTIFY */
} apply_call;
PGresult *pg_apply_send(pg_store *s, conn *c, flat *f, const apply_call *call, int lo, int hi, pawl_arena *arena);

/* ---- the callbacks of the store's table ---------------------------------------------------------------------------------- */

pawl_status pg_apply(pawl_store *store, pawl_batch *batch, pawl_arena *arena, pawl_error *err);
pawl_status pg_claim(pawl_store *store, pawl_claim *call, pawl_arena *arena, pawl_error *err);
pawl_status pg_register_node(pawl_store *store, pawl_registration *call, pawl_error *err);
pawl_status pg_leave(pawl_store *store, int64_t node, pawl_error *err);
pawl_status pg_take_ids(pawl_store *store, pawl_ids *call, pawl_error *err);
pawl_status pg_renew(pawl_store *store, pawl_renewal *call, pawl_error *err);
pawl_status pg_held(pawl_store *store, int64_t node, pawl_lease **leases, int *count, pawl_arena *arena, pawl_error *err);
pawl_status pg_rescue(pawl_store *store, pawl_rescue *call, pawl_error *err);
pawl_status pg_sweep(pawl_store *store, pawl_sweep *call, pawl_error *err);
pawl_status pg_read(pawl_store *store, pawl_query *query, pawl_arena *arena, pawl_error *err);
pawl_status pg_tx_apply(pawl_store *store, void *connection, pawl_op *ops, int count, pawl_arena *arena, pawl_error *err);
int pg_watch_fd(pawl_store *store);
void pg_watch_check(pawl_store *store, bool *changed, int64_t *again_us);
pawl_status pg_schema(const pawl_store_options *options, pawl_schema *out, pawl_arena *arena, pawl_error *err);
pawl_status pg_set_gate(pawl_store *store, const pawl_gate *gate, pawl_error *err);
pawl_status pg_feed(pawl_store *store, pawl_feed *call, pawl_error *err);
pawl_status pg_drain(pawl_store *store, int64_t node, bool on, const char *by, pawl_error *err);
pawl_status pg_load(pawl_store *store, pawl_load *call, pawl_arena *arena, pawl_error *err);
void pg_examine(const pawl_store_options *options, pawl_store *store, pawl_findings *findings);

/* ---- the rest ------------------------------------------------------------------------------------------------------------ */

/* news.c: what claims and renewals tell besides */
void pg_news_read(pg_store *s, int64_t node, const char *text, int64_t now_us, pawl_news *news);
const char *pg_number_read(const char *at, int64_t *out); /* the next number of a line, or NULL */

/* node.c */
void pg_nodes_gone(pg_store *s); /* as the handle closes */
bool pg_node_seen_due(pg_store *s);

/* watch.c */
void pg_watch_init(pg_store *s);
void pg_watch_close(pg_store *s);
bool pg_watch_feed(pg_store *s);               /* whether anybody may listen: the server is to be asked */
void pg_watch_feed_heard(pg_store *s);         /* somebody does */
bool pg_watch_live(pg_store *s, int32_t node); /* takes the node's session lock */
void pg_watch_tell(pg_store *s, conn *c, const char *hints, bool news); /* after a commit, on whose connection it may be said */
bool pg_watch_quiet(pg_store *s, const conn *c); /* the commit that comes on this connection may say NOTIFY itself, and will */
bool pg_watch_polled(pg_store *s);               /* a safety poll since the last call */

/* migrate.c */
pawl_status pg_migrate_open(pg_store *s, const pawl_store_options *o, pawl_error *err);

/* load_more.c: what comes from another store, as functions/move.sql takes it */
void pg_put_families(params *p, const pawl_dump *d);
void pg_put_batches(params *p, const pawl_dump *d);
void pg_put_kept(params *p, const pawl_dump *d);
void pg_put_schedules(params *p, const pawl_dump *d);

#endif
