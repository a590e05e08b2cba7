/* The inside of the store `sqlite:`: the handle, a write transaction, and what the files call of each other. See README.md. */
#ifndef STORE_SQLITE_INNER_H
#define STORE_SQLITE_INNER_H

#include "base/buf.h"
#include "store/history.h"
#include "store/sqlite/conn.h"
#include "store/sqlite/sidecar.h"
#include "store/sqlite/tally.h"
#include <limits.h>
#include <pthread.h>
#include <sys/types.h>
#include <sys/vfs.h>

#define READERS 4

typedef struct reader {
    pthread_mutex_t lock;
    conn conn;
} reader;

typedef struct watch {
    int fd;           /* inotify; -1: not asked for */
    int side, wal;    /* its watches on the sidecar and the -wal file; -1: none */
    int64_t again_us; /* the next step of looking again; 0: none */
    int64_t version;  /* data_version of the writer at the last look */
} watch;

typedef struct checkpointer {
    int64_t page_size;
    int64_t frames; /* in the WAL after our last commit */
    int64_t base;   /* of which so many were there at the last checkpoint */
    int64_t limit;  /* new frames until the next one */
} checkpointer;

typedef struct sqlite_store {
    pawl_store base;
    const pawl_allocator *allocator;
    pawl_clock clock;
    pawl_log_fn log;
    void *log_ctx;
    char *path; /* canonical, as SQLite knows it */
    dev_t device;
    ino_t inode;
    int64_t lock_wait_us;
    bool read_only, shared;
    sidecar side;

    pthread_mutex_t write_lock; /* the writer connection and everything below */
    conn writer;
    tally tally;
    buf receipt;
    checkpointer ckpt;
    int64_t open_version;         /* data_version of the writer after opening */
    _Atomic int64_t seen_version; /* and since, for watch_check while the writer is busy */
    pawl_id audit_walk;           /* where the sweep of old trails goes on */
    int64_t budget_walk;          /* and that of idle quotas */
    int gate;                     /* its mode; -1: to be read anew */
    int bounded;                  /* there are concurrency limits; -1: to be read anew */
    int64_t spot_walk;            /* where the sweep of spots goes on */

    reader readers[READERS];
    pthread_mutex_t watch_lock;
    watch watch;
} sqlite_store;

/* ---- a write transaction (txn.c) ----------------------------------------------------------------------------------------- */

typedef struct tx {
    sqlite_store *s;
    conn *c;
    tally *t;
    int64_t now_us, boot_us;
    int64_t node;     /* on whose behalf; 0: nobody's */
    bool alive;       /* its life row says so */
    bool known;       /* dead or alive, it was not swept yet */
    int64_t lease_us; /* of the node */
    pawl_id last_id;  /* the last id that the store drew itself; 0: not looked at yet */
    int gate;         /* pawl_gate_mode */
    bool id_drawn;
    int limits;           /* 1: there are rate limits, -1: there are none, 0: not looked yet */
    int64_t limit_type;   /* the type last asked about, */
    bool limit_found;     /* and whether it is limited */
    struct quota *quotas; /* read so far; see quota.c */
    bool others_wait;     /* for this commit, besides tasks that ask for slots */
    int taken_along;      /* tasks that were looked at to be moved to their slots */
    bool bounded;         /* there are, or were, concurrency limits */
    bool unblocked;       /* tasks were unblocked */
    struct spot *spots;   /* read so far; see place.c */
    struct kind *kinds;
    int occurrences;         /* 1: some task of a schedule is unfinished, -1: none is, 0: not looked yet */
    bool schedules;          /* something of a schedule changed */
    int families, related;   /* as occurrences: somebody waits or a batch has not ended; anybody has relatives. See family.h */
    bool unsettled, freed;   /* there is somebody to be told; a task that no operation names changed */
    pawl_id kin_id;          /* the task or batch last asked about, 0: none, */
    pawl_state kin_state;    /* and its state */
    const pawl_op *siblings; /* spawns before the one that is stored, of this task: */
    int siblings_count;
    pawl_id spawner;
} tx;

pawl_status tx_begin(sqlite_store *s, tx *t, const char *what, pawl_error *err); /* after OK: commit or abort follows */
pawl_status tx_commit(tx *t, const char *what, bool wake, pawl_error *err);      /* flushes the tally; wake: others may care */
pawl_status tx_abort(tx *t, const char *what, pawl_error *err);                  /* rolls back; answers what c->rc means */
void tx_node(tx *t, int64_t node);                                               /* reads its life row */
pawl_id tx_draw_id(tx *t);                                                       /* of number 0 */
bool tx_flush(tx *t);                                                            /* tally and drawn ids; part of tx_commit */

int64_t meta_int(conn *c, const char *key, int64_t nothing);
void meta_put(conn *c, const char *key, int64_t value);

/* gate.c */
int gate_mode(conn *c); /* as it is in this transaction */
static inline bool gate_shut(const tx *t) { return t->gate == PAWL_GATE_CLOSED || t->gate == PAWL_GATE_ARRIVING; }

/* ---- rows (task.c) ------------------------------------------------------------------------------------------------------- */

enum { CLASS_ORDINARY, CLASS_SUSPECT, CLASS_SOLO };

/* A task that is not finished: from pawl_live or pawl_leased. */
typedef struct task_row {
    pawl_id id;
    pawl_state state; /* NONE: there is none */
    int64_t fence, node, queue_id, type_id, run_at_us, leased_us, started_us;
    bool born_leased; /* and still under that first lease */
    bool not_started, mark, cancel_asked;
    int64_t blocked; /* the spot at which it is to be stored as blocked; see place.c */
    int priority, class;
    int runs, failures, interruptions, rescues, strikes, level, unreadable;
} task_row;

/* The end of a task: what pawl_done or pawl_failed gets beside the row it leaves. */
typedef struct task_end {
    pawl_state to;
    const pawl_execution *run; /* the attempt that ended it; NULL, or outcome NONE: there was none */
    const char *reason, *result_type, *result_ref;
    pawl_bytes result;
    int level;
    bool derived; /* the trail of its last lease is read from this row */
} task_end;

void known_put(conn *c, const task_row *row); /* known.c */
bool known_get(const conn *c, pawl_id id, task_row *row);
void known_drop(conn *c, pawl_id id);

bool leased_get(conn *c, pawl_id id, task_row *row);
bool live_get(conn *c, pawl_id id, task_row *row);
bool task_get(conn *c, pawl_id id, task_row *row);          /* leased or live */
pawl_state task_ended(conn *c, pawl_id id, int64_t *fence); /* SUCCEEDED, CANCELLED, FAILED, or NONE; fence may be NULL */

void leased_put(tx *t, const task_row *row);
void leased_drop(tx *t, const task_row *row); /* counts it out of its queue and node too */
void live_put(tx *t, const task_row *row);    /* counted in */
void live_drop(tx *t, const task_row *row);
void end_put(tx *t, const task_row *row, const task_end *end);     /* counted */
void end_keep_progress(tx *t, const task_row *row, pawl_state to); /* what it reported last; before leased_drop */
int priority_of(tx *t, pawl_id id);                                /* leased rows have none: their bodies do */
void attempt_put(tx *t, const task_row *row, const pawl_execution *run);
void unreadable_put(tx *t, const task_row *row); /* pending -> failed: its body cannot be read */

void audit_put(tx *t, const task_row *row, pawl_state to, const char *detail); /* unconditional */
void audit_put_grant(tx *t, const task_row *row); /* the row that was derived while the lease lasted, if wanted */
void audit_put_dispatch(tx *t, pawl_id id);       /* the row that was derived from the body */

void key_put(tx *t, const pawl_body *body, int64_t tenant_id, pawl_id id, pawl_id before);
void body_put(tx *t, const pawl_body *body, pawl_id id, int64_t tenant_id, const task_row *row);
void body_replace(tx *t, const pawl_body *body, const task_row *row);
/* The stored body as one block; NULL with c->rc 0: there is none, or it makes no sense. */
pawl_body *body_get(conn *c, const pawl_allocator *a, pawl_id id);

void oplog_put(tx *t, const char *who, const char *action, pawl_id id, const char *detail);

/* ---- operations (apply.c, insert.c, finish.c, operate.c) ----------------------------------------------------------------- */

void apply_op(tx *t, pawl_op *op); /* any of these */
void apply_insert(tx *t, pawl_op *op);
void apply_start(tx *t, pawl_op *op);
void apply_finish(tx *t, pawl_op *op);
void apply_release(tx *t, pawl_op *op);
void apply_progress(tx *t, pawl_op *op);
void apply_cancel(tx *t, pawl_op *op);
void apply_retry(tx *t, pawl_op *op);
void apply_ack(tx *t, pawl_op *op);
void apply_queue(tx *t, pawl_op *op);
void apply_reserve(tx *t, pawl_op *op);
void apply_limit(tx *t, pawl_op *op);
void apply_schedule(tx *t, pawl_op *op);
void apply_step(tx *t, pawl_op *op);
void apply_batch(tx *t, pawl_op *op);
void apply_settle(tx *t, pawl_op *op);
void settle_at_once(tx *t);                                   /* at the end of an apply */
void family_ended(tx *t, const task_row *row, pawl_state to); /* part of end_put */
bool family_unsettled(tx *t);
void schedule_ended(tx *t, pawl_id task, pawl_state to, bool started); /* part of end_put */
int64_t schedule_due(tx *t);                                           /* the earliest look_us; 0: none */
void quota_flush(tx *t);                                               /* writes the quotas that changed; part of tx_flush */
void quota_forget(tx *t);
void quota_load_limits(tx *t, const pawl_dump *d); /* quota_past.c */
void quota_load_budgets(tx *t, const pawl_dump *d);
void schedule_remove(tx *t, int64_t id);                      /* with all that is known of it */
void schedules_load(tx *t, const pawl_dump *d, bool replace); /* schedule_past.c; else those that are there stay */
void apply_bound(tx *t, pawl_op *op);
void places_flush(tx *t); /* offers what is free; part of tx_flush */
void places_forget(tx *t);
bool lease_good(tx *t, pawl_op *op, task_row *row); /* leased under exactly this fence; else the operation is STALE */
void task_again(tx *t, task_row *row, int64_t run_at_us, pawl_audit level,
                const char *detail); /* leased -> pending; never started */
void task_take_back(tx *t,
                    task_row *row); /* leased, not started -> pending, in memory and in pawl_leased; the caller stores it */
bool insert_makes_sense(const pawl_body *body);                         /* has a type and a queue */
void insert_depths(tx *t, pawl_op **ops, int count, pawl_arena *arena); /* marks as FULL what does not fit; first of all */

/* The results of a batch as bytes, and back (receipt.c). */
bool receipt_write(buf *out, const pawl_batch *batch);
bool receipt_read(pawl_bytes in, pawl_batch *batch);

/* ---- the callbacks of the store's table ---------------------------------------------------------------------------------- */

pawl_status sqlite_apply(pawl_store *store, pawl_batch *batch, pawl_arena *arena, pawl_error *err);
pawl_status sqlite_claim(pawl_store *store, pawl_claim *call, pawl_arena *arena, pawl_error *err);
pawl_status sqlite_register_node(pawl_store *store, pawl_registration *call, pawl_error *err);
pawl_status sqlite_leave(pawl_store *store, int64_t node, pawl_error *err);
pawl_status sqlite_take_ids(pawl_store *store, pawl_ids *call, pawl_error *err);
pawl_status sqlite_renew(pawl_store *store, pawl_renewal *call, pawl_error *err);
pawl_status sqlite_held(pawl_store *store, int64_t node, pawl_lease **leases, int *count, pawl_arena *arena, pawl_error *err);
pawl_status sqlite_rescue(pawl_store *store, pawl_rescue *call, pawl_error *err);
pawl_status sqlite_sweep(pawl_store *store, pawl_sweep *call, pawl_error *err);
pawl_status sqlite_read(pawl_store *store, pawl_query *query, pawl_arena *arena, pawl_error *err);
pawl_status sqlite_tx_apply(pawl_store *store, void *connection, pawl_op *ops, int count, pawl_arena *arena, pawl_error *err);
int sqlite_watch_fd(pawl_store *store);
void sqlite_watch_check(pawl_store *store, bool *changed, int64_t *again_us);
pawl_status sqlite_backup(pawl_store *store, const char *path, pawl_backup_fn progress, void *ctx, pawl_error *err);
pawl_status sqlite_schema(const pawl_store_options *options, pawl_schema *out, pawl_arena *arena, pawl_error *err);
pawl_status sqlite_set_gate(pawl_store *store, const pawl_gate *gate, pawl_error *err);
pawl_status sqlite_load(pawl_store *store, pawl_load *call, pawl_arena *arena, pawl_error *err);
pawl_status sqlite_feed(pawl_store *store, pawl_feed *call, pawl_error *err);
pawl_status sqlite_drain(pawl_store *store, int64_t node, bool on, const char *by, pawl_error *err);
void sqlite_examine(const pawl_store_options *options, pawl_store *store, pawl_findings *findings);

/* ---- the rest ------------------------------------------------------------------------------------------------------------ */

/* sqlite.c */
const char *sqlite_path(const char *url, pawl_error *err);                        /* NULL: the URL names no file */
void sqlite_folder(const char *path, char out[PATH_MAX]);                         /* in which it lies */
const char *sqlite_network(const struct statfs *fs);                              /* NULL: a local file system */
pawl_status sqlite_check_file(const char *path, bool read_only, pawl_error *err); /* whether it may be opened so */

/* disk.c: findings about the place a file is in */
void disk_examine(const char *path, pawl_findings *findings);
void size_text(int64_t bytes, char out[32]); /* "4.2 MiB" */

/* node.c */
bool node_lapsed(const sqlite_store *s, const char *boot_id, int64_t expires_us, int64_t boot_us);
bool node_proven_dead(const sqlite_store *s, int64_t node, int64_t sidecar);
void node_news(tx *t, pawl_news *news);
void node_kill(tx *t, int64_t node, int blame);
void heartbeat_drop(tx *t, int64_t node);

/* migrate.c */
pawl_status migrate_judge(sqlite_store *s, const pawl_store_options *o,
                          pawl_error *err);                              /* refuses what does not fit; writes nothing */
bool migrate_done(sqlite_store *s, bool shared);                         /* nothing needs to be created or migrated */
pawl_status migrate_open(sqlite_store *s, bool shared, pawl_error *err); /* creates or migrates. Before: a turn is held */
pawl_status migrate_check(conn *c, const char *path, pawl_error *err);   /* may this program use what is stored? */

/* ckpt.c */
void ckpt_init(sqlite_store *s);
void ckpt_after_commit(sqlite_store *s);         /* with the turn held */
bool ckpt_now(sqlite_store *s, int64_t wait_us); /* takes the turn itself; false: not in time */
void ckpt_at_close(sqlite_store *s);

void watch_close(sqlite_store *s);

/* The rows of one lane of the ready index (claim.c); read.c counts with it. */
typedef struct lane_key {
    int64_t queue_id, priority, class, type_id;
} lane_key;
bool lane_next(conn *c, lane_key *lane); /* from the lane before it; false: no more, or failed */
int lane_due(struct tx *t, const lane_key *lane, task_row *out, int most); /* its first ones; how many */
#define LANE_FIRST(queue) ((lane_key){(queue), INT64_MIN, -1, 0})

#endif
