/* A tiny database in the manner of a server: rows with a committed version and a draft of the transaction that is writing
 * them, shared and exclusive row locks with first come, first served, deadlock detection, and transactions that are
 * interrupted between any two steps. Each transaction runs on a stack of its own (a fiber); whenever it steps or waits, the
 * rest of the world goes on.
 *
 * Reads see what is committed, and the transaction's own drafts: read committed. What was read may have changed at the next step
 * unless its row is locked.
 */
#ifndef SIM_ROWS_H
#define SIM_ROWS_H

#include "sim.h"
#include "store/budget.h"

/* In the contract's lock order. */
typedef enum row_table {
    ROW_LIFE = 1,
    ROW_RECEIPT,
    ROW_BOUNDS,
    ROW_LIMIT,
    ROW_GATE,
    ROW_BOUND,
    ROW_SPOT,
    ROW_QUEUE,
    ROW_KEY,
    ROW_TASK,
    ROW_HEART,
    ROW_NUMBERS,
    ROW_TABLES
} row_table;

#define NUMBERS_MAX 24
#define PLACES_MAX 64

typedef union row_data {
    struct {
        bool exists, dead;
        const session *session;
        int64_t lease_us;
        int marked; /* when it died: how many of its tasks bore the start mark */
        bool counted;
    } life;
    struct {
        int64_t number;
        bool node_dead;
        int64_t store_now_us;
        const pawl_op *results; /* copies of the operations, with their answers */
    } receipt;
    struct {
        pawl_rate rate;
        bool stored, paused;
    } limit;
    struct {
        budget_row row;
    } gate;
    struct {
        int most;
    } bound;
    struct {
        pawl_scope scope;
        const char *name;
        pawl_bytes key;
        pawl_id places[PLACES_MAX]; /* by number, who has it; 0: nobody */
        bool touched;               /* what is free is to be offered before the commit */
    } spot;
    struct {
        bool paused;
    } queue;
    struct {
        pawl_id task;
    } key;
    struct {
        pawl_state state; /* NONE: no such task */
        pawl_body *body;
        int64_t fence, run_at_us, node;
        int runs, failures, rescues, interruptions, counted;
        bool not_started, started, marked, suspect, solo, cancel_asked;
        const char *reason;
        struct row *gate; /* pending, with a slot of this gate at run_at */
        int64_t slot_epoch;
        struct row *blocked; /* pending, for want of a place of this spot */
    } task;
    struct {
        int64_t expires_us, renewal;
    } heart;
    struct {
        int64_t owner[NUMBERS_MAX], ceiling_ms[NUMBERS_MAX];
    } numbers;
} row_data;

typedef struct row {
    list link;      /* of its table, in the order of birth */
    map_node by_id; /* tasks */
    row_table table;
    int64_t id;       /* within the table */
    const char *name; /* queues and keys */
    row_data data;    /* committed */
    row_data *draft;  /* of the transaction that holds it exclusively; NULL: none */
    list locks;       /* granted and waiting, in order */
} row;

typedef struct tx tx;
typedef void (*rowtx_body)(tx *t, void *arg);

typedef struct rows {
    sim *sim;
    list tables[ROW_TABLES];
    map tasks;
    list free_locks, free_tx;
} rows;

struct tx {
    list link;
    rows *db;
    wire *wire;
    int64_t now_us;   /* the store's time when it began, or when it had locked its gates */
    int64_t alive_us; /* when it began, by a clock that does not step: leases are counted by it */
    list locks;
    struct row_lock *waiting;
    bool killed;
    bool again; /* what it had read is not true any more */
    int visited;
    struct fiber *fiber;
    rowtx_body body;
    void *arg;
};

void rows_init(rows *db, sim *s);
void rows_done(rows *db);
row *rows_get(rows *db, row_table table, int64_t id,
              const char *name);           /* made if it is not there: a row that does not exist yet */
row *rows_find_task(rows *db, pawl_id id); /* NULL: none */

void rowtx_start(rows *db, wire *w, rowtx_body body, void *arg);
/* These return false when the transaction was killed: roll back and return. */
bool rowtx_step(tx *t); /* others may do something now */
bool rowtx_lock(tx *t, row *r, bool exclusive);
bool rowtx_holds(const tx *t, const row *r);           /* exclusively */
bool tx_try_lock(tx *t, row *r);                       /* exclusively, or not at all: SKIP LOCKED. false says nothing more */
const row_data *rowtx_read(const tx *t, const row *r); /* valid until the next step */
row_data *rowtx_write(tx *t, row *r);                  /* it holds the row exclusively */
void rowtx_commit(tx *t);
void rowtx_rollback(tx *t);
void rowtx_kill(tx *t);

#endif
