/* The inside of the store `mysql:`: the handle, and what the files call of each other. See README.md. */
#ifndef STORE_MYSQL_INNER_H
#define STORE_MYSQL_INNER_H

#include "base/rand.h"
#include "store/history.h"
#include "store/mysql/mysql.h"
#include "store/mysql/names.h"

#define LANES 2
#define WRITERS (LANES + 1)
#define READERS 4
#define NODES_MAX 64 /* nodes of one handle that are alive at once */
#define HOLDERS 4096 /* leases with places that are remembered */

typedef enum role { WRITER, RENEWER, READER, ROLES } role;

typedef struct pool { /* connections of one role */
    conn *conns;
    bool *taken;
    int count;
} pool;

/* ---- where claims go on (ready.c) ---------------------------------------------------------------------------------------- */

typedef struct ready_lane {
    int64_t lane;    /* priority, class and type as one number: see pawl_live */
    int64_t from_us; /* nothing is left below */
} ready_lane;

typedef struct ready_queue {
    int32_t queue_id;    /* 0: unused */
    int64_t whole_at_us; /* monotonic: when everything is to be looked at again */
    uint64_t chills;     /* as of the last look at everything */
    ready_lane *lanes;
    int count, room;
} ready_queue;

#define READY_QUEUES 64

typedef struct ready {
    const pawl_allocator *allocator;
    pthread_mutex_t lock;
    uint64_t chills; /* how often everything was to be looked at again */
    bool heard;      /* somebody looks at what others do, so that what is put back is told */
    ready_queue queues[READY_QUEUES];
} ready;

void my_ready_init(ready *r, const pawl_allocator *a);
void my_ready_done(ready *r);
void my_ready_chill(ready *r); /* everything is to be looked at again */
void my_ready_heard(ready *r, bool heard);
/* The lanes of a queue for a claim: copies, in their order, in the arena. *chills goes into my_ready_learn. */
int my_ready_lanes(ready *r, int32_t queue_id, pawl_arena *arena, ready_lane **lanes, uint64_t *chills);
void my_ready_learn(ready *r, int32_t queue_id, const ready_lane *lanes, int count, uint64_t chills); /* sorted, after a claim */

/* ---- hearing of others (watch.c) ----------------------------------------------------------------------------------------- */

typedef struct watch {
    pthread_mutex_t lock, io;
    pthread_cond_t wake;
    pthread_t thread;
    bool running, stop;
    int event_fd;                  /* -1: nobody watches */
    bool changed;                  /* since the last look */
    int64_t every_us;              /* until the next one */
    int64_t number, backs, nobody; /* as last seen */
    bool seen;                     /* they mean something */
    rng random;
    /* Under io. */
    conn conn;
    unsigned long session; /* that has the locks of so many of our nodes */
    int held;
} watch;

/* ---- limits (limits.c) ---------------------------------------------------------------------------------------------- */

typedef struct limit_type { /* one that ever had a limit, or a key of it */
    int32_t type_id;
    bool limited; /* some limit is in force */
} limit_type;

typedef struct bound_kind { /* a queue or type that ever had a concurrency limit, or whose tenants ever took turns */
    int scope;
    int32_t name_id;
    bool on, ordered;
} bound_kind;

typedef struct limit_types { /* sorted */
    int64_t version;         /* of the limits, when they were read */
    limit_type *types;
    int count;
    bound_kind *bounds;
    int bounds_count;
    bool schedules, families; /* there are any, or were */
} limit_types;

/* ---- the handle ---------------------------------------------------------------------------------------------------------- */

typedef struct my_store {
    pawl_store base;
    const pawl_allocator *allocator;
    pawl_clock clock;
    pawl_log_fn log;
    void *log_ctx;
    int64_t lease_us;
    bool read_only;
    my_link link;
    pthread_mutex_t lock; /* pools, nodes, the server's clock, random */
    pthread_cond_t freed;
    conn writers[WRITERS], renewers[1], readers[READERS];
    bool taken[WRITERS + 1 + READERS];
    pool pools[ROLES];
    int32_t nodes[NODES_MAX]; /* registered through this handle, the last ones; 0: unused */
    unsigned nodes_count;
    int64_t merged_minute;           /* rollups before it were merged; for whoever sweeps */
    int64_t server_us, server_at_us; /* the server's clock as last seen, and our monotonic one then */
    rng random;
    interned names;
    ready ready;
    watch watch;
    limit_types limits;    /* as last seen, under lock */
    int32_t budget_type;   /* where the walk over idle budgets goes on; for whoever sweeps */
    char budget_room[256]; /* its key */
    size_t budget_len;
    int spot_scope; /* and where that over spots does */
    int32_t spot_name;
    char spot_room[256];
    size_t spot_len;
    _Atomic pawl_id holders[HOLDERS]; /* leases that may have places, by hash: the last ones */
    char store_id[64];                /* to know the store again on another connection */
} my_store;

static inline my_store *store_of(pawl_store *store) { return (my_store *)store; }

conn *my_store_take(my_store *s, role which); /* waits for one that is free */
void my_store_give(my_store *s, conn *c);     /* rolls back what is open */
int64_t my_server_now(my_store *s);           /* an estimate that is never ahead; 0: unknown */
void my_server_seen(my_store *s, int64_t now_us);
uint64_t my_random(my_store *s);
void my_store_log(const my_store *s, pawl_level level, const char *fmt, ...) PAWL_PRINTF(3, 4);
const pawl_clock *my_test_clock(const my_store *s); /* NULL: the server's counts */

/* The store's clocks by an answer of SQL_server_now. */
typedef struct instant {
    int64_t now_us, boot_us;
} instant;
instant my_instant(my_store *s, const conn *c);

/* Deadlocks and locks that were waited for in vain: true, if the transaction is worth another try. It was rolled back. */
bool my_call_again(conn *c, int *tries);

/* Fails a transaction that comes too late for its caller; 0: no limit. */
int64_t my_until(my_store *s);
void my_add_guard(conn *c, int64_t until_us);

/* Statements over many ids, some at a time; they are sorted. */
void my_add_ids(conn *c, sql_name which, const pawl_id *ids, int count);
int my_sort_ids(pawl_id *ids, int count); /* without doubles */

/* ---- batches as they come (flat.c, answer.c) ----------------------------------------------------------------------------- */

typedef struct flat_op { /* operations and, right behind their FINISH or STEP, its tasks */
    pawl_op *op;
    int parent;                           /* of such a task: the index of that; else -1 */
    bool refused;                         /* it cannot be stored: left out */
    bool full;                            /* its queue is */
    bool stands;                          /* it was asked where its task stands: see place.c */
    int32_t type_id, queue_id, tenant_id; /* SCHEDULE, STEP: queue_id is its own, type_id that of the one it follows */
    const char *tenant;                   /* that a BOUND is about */
} flat_op;

typedef struct flat {
    flat_op *ops;
    int count;
    bool asks;            /* an INSERT asks for a lease */
    bool limited;         /* an INSERT has a limit of depth */
    bool careful;         /* an id may be taken: look first */
    bool stand;           /* tasks may have places that nobody knew of: ask for all */
    bool rated;           /* an operation may have to do with rate limits */
    bool limits;          /* a LIMIT */
    bool bounds;          /* a BOUND */
    bool schedules, puts; /* a SCHEDULE or STEP; one that may be the first schedule of all */
    bool families;        /* an INSERT that has one, or a BATCH */
    int settles;          /* how many are to be told; 0: no SETTLE */
    bool inner;           /* of the store's own: it goes through a gate that is shut */
} flat;

bool my_flat_make(flat *f, pawl_op **ops, int count, pawl_arena *arena); /* false: no memory. Judges what cannot be stored */
bool my_body_good(const pawl_body *b); /* nothing of it is such that the server could not store it */
bool my_flat_names(my_store *s, conn *c, flat *f, pawl_arena *arena);
void my_flat_sizes(const conn *c, flat *f); /* refuses what is larger than the server takes */
void my_flat_forget(const flat *f);         /* answers */
void my_flat_answers(const flat *f, int64_t now_us, const char *results);
void my_flat_results(const flat *f, int64_t now_us, buf *results); /* of a batch that was carried out */
int64_t my_due_at(const pawl_op *op, int64_t now_us);
int64_t my_later(int64_t now_us, int64_t delay_us);

/* ---- a transaction that changes tasks (work.c, load.c, rows.c, tally.c) -------------------------------------------------- */

enum { CLASS_ORDINARY, CLASS_SUSPECT, CLASS_SOLO };

/* What a task has to do with rate limits. Keys as budgets know them: core/limit. */
typedef struct rate_head {
    pawl_bytes key; /* its body's; empty: none */
    bool slotted;   /* it has a slot, at run_at, */
    pawl_bytes slot_key;
    int64_t epoch; /* of this epoch */
} rate_head;

/* A task as it stands, whatever table it is in. */
typedef struct task_row {
    pawl_id id;
    pawl_state state; /* NONE: there is none */
    int64_t fence, node, run_at_us, leased_us, started_us;
    int32_t queue_id, type_id;
    bool born_leased; /* and still under that first lease */
    bool not_started, mark, cancel_asked, keyed;
    int priority, class, runs, failures, interruptions, rescues, strikes, level;
    int progress; /* -1: none */
    const char *progress_text;
    bool body; /* it has one, and nothing else of it was found */
    /* Of finished ones. */
    pawl_id retried_as;
    bool resolved, unreadable;
    const rate_head *head; /* NULL: nothing is known, for no limit is */
} task_row;

/* The end of a task: what pawl_done or pawl_failed gets beside the row it leaves. */
typedef struct task_end {
    pawl_state to;
    const pawl_execution *run; /* the attempt that ended it; NULL, or outcome NONE: there was none */
    const char *reason, *result_type, *result_ref;
    pawl_bytes result;
    int level;
    bool derived;       /* the trail of its last lease is read from this row */
    bool keep_progress; /* what it reported last */
} task_end;

typedef enum rollup_outcome {
    ROLLUP_DISPATCHED = 1,
    ROLLUP_SUCCEEDED,
    ROLLUP_FAILED,
    ROLLUP_CANCELLED,
    ROLLUP_RETRIED,
    ROLLUP_RESCUED,
    ROLLUP_OTHER
} rollup_outcome;

typedef struct rows { /* of one table, as they go into its INSERT, in parts */
    buf text;
    size_t cuts[256];
    int cuts_count;
} rows;

typedef enum table {
    TABLE_BODIES,
    TABLE_LIVE,
    TABLE_LEASED,
    TABLE_DONE,
    TABLE_FAILED,
    TABLE_ATTEMPTS,
    TABLE_RUNLOGS,
    TABLE_AUDITS,
    TABLE_KEYS,
    TABLE_CANCELS,
    TABLE_PAST_DONE, /* what comes from another store */
    TABLE_PAST_FAILED,
    TABLE_OLD_KEYS,
    TABLE_HELD_KEYS,
    TABLE_SLOTTED,
    TABLE_MOVES,
    TABLE_PLACES_GONE,
    TABLE_PLACES,
    TABLE_BLOCKED,
    TABLE_SCHEDULES_NEW,
    TABLE_SCHEDULES,
    TABLE_SCHEDULE_BODIES,
    TABLE_OCCURRENCES_NEW,
    TABLE_OCCURRENCES_TOLD,
    TABLE_OCCURRENCES,
    TABLE_BATCHES,
    TABLE_BATCHES_ENDED, /* (id, state) */
    TABLE_MEMBERS,
    TABLE_WAITS,
    TABLE_EDGES,
    TABLE_EDGES_MOVED, /* (parent, child, to which parent) */
    TABLE_ENDS,        /* (id, state): whose children are to be told */
    TABLE_COUNTED,     /* (id, state): what counts in its batch */
    TABLE_UNSETTLED,
    TABLES
} table;

typedef struct key_row {
    pawl_bytes key;
    int32_t tenant_id;
    pawl_id holder;
} key_row;

typedef struct queue_tally {
    int32_t queue_id;
    bool paused;
    int64_t depth, planned; /* what it holds, and what this batch will add */
    int64_t delta[PAWL_STATE_COUNT];
} queue_tally;

typedef struct take_tally { /* leases of other nodes that ended here */
    int64_t node;
    int64_t leases;
} take_tally;

typedef struct id_list {
    pawl_id *ids;
    int count, room;
} id_list;

typedef struct work {
    my_store *s;
    conn *c;
    pawl_arena *arena;
    flat *f;
    bool no_memory;
    bool failed;        /* otherwise: the connection says why */
    bool borrowed;      /* in the caller's transaction */
    int64_t node, lane; /* on whose behalf; node 0: nobody's */
    int64_t now_us, boot_us;
    int64_t lease_us;
    bool alive;
    bool closed; /* the gate is shut: nothing comes, and people change nothing */
    /* What is known. */
    map tasks;    /* by id */
    pawl_id *ids; /* room for two of every operation */
    key_row *keys;
    int keys_count;
    pawl_id *drawn; /* ids of number 0 */
    int drawn_count, drawn_used;
    /* What changes. */
    rows tables[TABLES];
    id_list live_gone, leased_gone, slotted_gone;
    id_list left; /* of live_gone: those that may be blocked or take turns */
    queue_tally *queues;
    int queues_count, queues_room, queue_last;
    take_tally *takes;
    int takes_count, takes_room;
    map rollups;
    int64_t minutes[2];      /* the rollups of these were read, from and to */
    int64_t leases, granted; /* of this node */
    pawl_id born_min, born_max;
    bool backs; /* something was put where claims have passed by */
    /* Rate limits: see quota.h. */
    limit_types limits;
    map quotas;
    struct backlog *backlogs;
    struct limit_plan *plans;
    /* Concurrency limits: see place.h. */
    map spots;
    id_list unblocked;               /* all of them */
    id_list readied, shared, parked; /* enter the ready index, the one by tenants; leave either */
    struct lining *lining;
    struct bound_plan *bounds;
    int offers_left; /* tasks that may be unblocked */
    /* Schedules: see schedule.h. */
    map schedules, occurrences, opened;
    id_list schedules_gone;
    bool recurs; /* something of a schedule changed */
    /* Families: see family.h. */
    map kin, batches, members, batch_names;
    id_list parents, joins, spawners, waits_gone;
    struct settling *settling; /* NULL: what ends is left to be told */
} work;

void my_work_begin(work *w, my_store *s, conn *c, pawl_arena *arena); /* allocates nothing yet */
void my_work_done(work *w);
void *my_work_alloc(work *w, size_t size); /* from the arena; NULL: no_memory */
void my_work_flush(work *w);               /* all that changed, into the script; counters last */
pawl_id my_work_draw_id(work *w);          /* of number 0, drawn in a commit of its own; 0: failed */

/* load.c */
task_row *my_task(work *w, pawl_id id);       /* as it was loaded; NULL: it was not found */
task_row *my_task_learn(work *w, pawl_id id); /* an empty row to fill in; NULL: no memory */
void my_read_live(task_row *row, const answer *a, int i);
void my_read_leased(work *w, task_row *row, const answer *a, int i);
void my_take_in(work *w); /* the rows of all tasks that the last script answered with */
typedef enum load_mode { LOAD_LOOK, LOAD_SHARE, LOAD_LOCK } load_mode;
bool my_load(work *w, pawl_id *ids, int count, load_mode mode); /* wherever they are; those in motion are waited for */

/* rows.c */
void my_leased_put(work *w, const task_row *row);
void my_leased_drop(work *w, const task_row *row); /* counts it out of its queue and node too */
void my_live_put(work *w, const task_row *row);    /* counted in */
void my_live_drop(work *w, const task_row *row);
void my_end_put(work *w, const task_row *row, const task_end *end); /* counted */
void my_attempt_put(work *w, const task_row *row, const pawl_execution *run);
void my_body_put(work *w, const pawl_body *body, int32_t tenant_id, int64_t created_us, const task_row *row);
void my_slot_put(work *w, pawl_id id, int32_t type_id, pawl_bytes key, int64_t epoch);
void my_slot_drop(work *w, pawl_id id);
void my_live_move(work *w, pawl_id id, int64_t run_at_us); /* it stays pending */
void my_live_put_blocked(work *w, const task_row *row);    /* my_live_put of one that is blocked */
void my_note_id(work *w, id_list *list, pawl_id id);
void my_rows_begin(work *w, table which); /* the next row; then literals with commas, then my_rows_end */
buf *my_rows_end(work *w, table which);
void my_flush_table(work *w, table which);                                                    /* part of my_work_flush */
void my_audit_put(work *w, const task_row *row, pawl_state to, const char *detail, int step); /* unconditional */
void my_audit_grant(work *w, const task_row *row); /* the row that was derived while the lease lasted, if wanted */
void my_oplog_put(work *w, const char *who, const char *action, pawl_id id, const char *detail);
int64_t my_lane_of(int priority, int class, int32_t type_id);

/* tally.c */
queue_tally *my_queue(work *w, int32_t queue_id); /* never NULL */
void my_count(work *w, int32_t queue_id, pawl_state state, int by);
void my_lease_count(work *w, int64_t node, int by);
void my_roll(work *w, int32_t queue_id, int32_t type_id, rollup_outcome outcome);
void my_roll_run(work *w, int32_t queue_id, int32_t type_id, rollup_outcome outcome, const pawl_execution *run, int64_t due_us);
void my_roll_add(work *w, int32_t queue_id, int32_t type_id, rollup_outcome outcome, int64_t total, pawl_bytes wait,
                 pawl_bytes run);
void my_born(work *w, pawl_id id);
void my_add_rollups_look(work *w); /* what the lane counted in these minutes, into the script */
void my_rollups_take_in(work *w);  /* and out of its answer */
void my_tally_flush(work *w);

/* ---- operations (insert.c, finish.c, operate.c) -------------------------------------------------------------------------- */

void my_apply_insert(work *w, flat_op *o);
task_row *my_lease_of(work *w, pawl_op *op); /* NULL: STALE, and so answered */
void my_apply_start(work *w, pawl_op *op);
void my_apply_finish(work *w, int at);         /* with its spawns */
bool my_spawns_refused(const flat *f, int at); /* the server cannot store one of them */
void my_apply_release(work *w, pawl_op *op);
void my_apply_progress(work *w, pawl_op *op);
void my_apply_cancel(work *w, pawl_op *op);
bool my_apply_retry(work *w, pawl_op *op); /* false: the connection says why */
void my_apply_ack(work *w, pawl_op *op);
void my_apply_queue(work *w, flat_op *o);
void my_task_take_back(work *w, task_row *row); /* leased, not started; the caller stores it */
void my_insert_depths(work *w);
key_row *my_key_find(work *w, pawl_bytes key, int32_t tenant_id);
void my_add_keys(work *w, const key_row *keys, int count); /* locks them; they are sorted */
void my_keys_take_in(work *w);

/* Carries out the operations of a flat batch inside an open transaction (work.c). */
bool my_work_ask(work *w);            /* adds to the script what its operations need to know; false: no memory */
bool my_work_outdated(const work *w); /* once it was sent: other limits are in force than were known; learn them and ask again */
bool my_work_load(work *w);           /* once it was sent; false: the connection says why */
bool my_work_apply(work *w);          /* what changes is in the script and in the tables of the work */

/* ---- the callbacks of the store's table ---------------------------------------------------------------------------------- */

pawl_status my_apply(pawl_store *store, pawl_batch *batch, pawl_arena *arena, pawl_error *err);
pawl_status my_claim(pawl_store *store, pawl_claim *call, pawl_arena *arena, pawl_error *err);
pawl_status my_register_node(pawl_store *store, pawl_registration *call, pawl_error *err);
pawl_status my_leave(pawl_store *store, int64_t node, pawl_error *err);
pawl_status my_take_ids(pawl_store *store, pawl_ids *call, pawl_error *err);
pawl_status my_renew(pawl_store *store, pawl_renewal *call, pawl_error *err);
pawl_status my_held(pawl_store *store, int64_t node, pawl_lease **leases, int *count, pawl_arena *arena, pawl_error *err);
pawl_status my_rescue(pawl_store *store, pawl_rescue *call, pawl_error *err);
pawl_status my_sweep(pawl_store *store, pawl_sweep *call, pawl_error *err);
pawl_status my_read(pawl_store *store, pawl_query *query, pawl_arena *arena, pawl_error *err);
pawl_status my_tx_apply(pawl_store *store, void *connection, pawl_op *ops, int count, pawl_arena *arena, pawl_error *err);
int my_watch_fd(pawl_store *store);
void my_watch_check(pawl_store *store, bool *changed, int64_t *again_us);
pawl_status my_schema(const pawl_store_options *options, pawl_schema *out, pawl_arena *arena, pawl_error *err);
void my_examine(const pawl_store_options *options, pawl_store *store, pawl_findings *findings);
pawl_status my_set_gate(pawl_store *store, const pawl_gate *gate, pawl_error *err);
pawl_status my_feed(pawl_store *store, pawl_feed *call, pawl_error *err);
pawl_status my_drain(pawl_store *store, int64_t node, bool on, const char *by, pawl_error *err);
pawl_status my_arrive(pawl_store *store, pawl_load *call, pawl_arena *arena, pawl_error *err); /* load */

/* ---- the rest ------------------------------------------------------------------------------------------------------------ */

/* news.c: what claims and renewals tell besides */
void my_add_news(conn *c, int64_t node, bool schedules, bool families);
void my_news_read(const conn *c, instant at, bool alive, pawl_news *news);

/* gate.c */
void my_add_gate(conn *c);           /* for a transaction that stores or leases something: holds it, if it is open, and looks */
bool my_gate_closed(const conn *c);  /* by the answers to that */
int64_t my_gate_mode(const conn *c); /* by the answer to SQL_gate_mode alone */
bool my_gate_shut(const conn *c);    /* the same */
void my_add_wake(conn *c, int64_t lane, int64_t now_us, bool backs); /* a commit of nobody's: others learn of it */
static inline int64_t my_new_lane(my_store *s) { return (int64_t)(my_random(s) >> 2) + 1; }

/* limits.c: which types have limits. */
bool my_limits_fetch(my_store *s, conn *c); /* what is stored now; not inside a transaction. false: the connection says why */
bool my_limits_copy(my_store *s, pawl_arena *arena, limit_types *out); /* false: no memory */
void my_limits_free(const pawl_allocator *a, const limit_types *l);
bool my_limit_known(const limit_types *l, int32_t type_id); /* it has one, or had */
bool my_limited(const limit_types *l, int32_t type_id);
bool my_sweep_budgets(my_store *s, conn *c, int64_t now_us, int *left);       /* false: the connection says why */
bool my_bound_known(const limit_types *l, pawl_scope scope, int32_t name_id); /* it has one, or had */
bool my_bound_on(const limit_types *l, pawl_scope scope, int32_t name_id);
bool my_bound_ordered(const limit_types *l, int32_t type_id); /* some rate key of the type keeps the order */

/* bound.c */
bool my_sweep_spots(my_store *s, conn *c, int64_t now_us); /* false: the connection says why */

/* node.c */
void my_nodes_gone(my_store *s);                       /* as the handle closes */
bool my_node_bury(my_store *s, conn *c, int64_t node); /* if it holds no lease */
void my_add_kill(conn *c, int64_t node, int64_t now_us, int blame);

/* watch.c */
void my_watch_init(my_store *s);
void my_watch_close(my_store *s);
bool my_watch_live(my_store *s);                     /* takes the locks of the nodes that have none yet */
void my_lock_name(const my_store *s, char out[128]); /* how the locks of its nodes begin */

/* merge.c */
bool my_merge(my_store *s, conn *c, int64_t now_us, const int32_t *nodes, int count);

/* migrate.c */
pawl_status my_migrate_open(my_store *s, const pawl_store_options *o, pawl_error *err);

#endif
