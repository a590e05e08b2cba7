/* The caller's own connection: preparing it, and operations inside its transaction.
 *
 * Connections that were prepared are kept in one list for the process, with the thread that last passed each of them to us, and
 * leave it when they are closed: each holds an SQL function whose destructor takes it out.
 *
 * Operations in the caller's transaction use the same code as batches, on the caller's connection: with statements that live as
 * long as the call, without receipt and without leases. A savepoint makes the call whole: if it fails, the caller's transaction
 * stands as it stood before.
 */
#include "base/error.h"
#include "store/sqlite/inner.h"
#include "store/sqlite/place.h"
#include "store/sqlite/sqlite.h"
#include "store/store.h"
#include <string.h>
#include <sys/stat.h>

typedef struct prepared {
    struct prepared *next;
    sqlite3 *db;
    pthread_t thread;
    dev_t device;
    ino_t inode;
} prepared;

#define OWN_MOST 64 /* connections of one thread that are looked at */

static pthread_mutex_t list_lock = PTHREAD_MUTEX_INITIALIZER;
static prepared *all;

static prepared **find(const sqlite3 *db)
{
    prepared **at = &all;
    while (*at && (*at)->db != db) at = &(*at)->next;
    return at;
}

static void unlink_one(prepared *p)
{
    pthread_mutex_lock(&list_lock);
    for (prepared **at = &all; *at; at = &(*at)->next) {
        if (*at != p) continue;
        *at = p->next;
        break;
    }
    pthread_mutex_unlock(&list_lock);
}

/* ---- preparing ----------------------------------------------------------------------------------------------------------- */

static void on_closed(void *ctx)
{
    unlink_one(ctx);
    sqlite3_free(ctx);
}

static void say_prepared(sqlite3_context *ctx, int count, sqlite3_value **values)
{
    (void)count;
    (void)values;
    sqlite3_result_int(ctx, 1);
}

static int enlist(sqlite3 *db)
{
    prepared *p = sqlite3_malloc(sizeof *p);
    if (!p) return SQLITE_NOMEM;
    struct stat st = {0};
    const char *path = sqlite3_db_filename(db, "main");
    if (!path || !path[0] || stat(path, &st) != 0) st = (struct stat){0};
    *p = (prepared){.db = db, .thread = pthread_self(), .device = st.st_dev, .inode = st.st_ino};
    pthread_mutex_lock(&list_lock);
    p->next = all;
    all = p;
    pthread_mutex_unlock(&list_lock);
    /* On failure it calls on_closed, too. */
    return sqlite3_create_function_v2(db, "pawl_prepared", 0, SQLITE_UTF8, p, say_prepared, NULL, NULL, on_closed);
}

static bool known(const sqlite3 *db)
{
    pthread_mutex_lock(&list_lock);
    prepared *p = *find(db);
    if (p) p->thread = pthread_self();
    pthread_mutex_unlock(&list_lock);
    return p != NULL;
}

static bool no_checkpoints(conn *c)
{
    int64_t automatic = -1;
    int kept = 0;
    sqlite3_db_config(c->db, SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, -1, &kept);
    return conn_pragma_int(c, "PRAGMA wal_autocheckpoint", &automatic) && automatic == 0 && kept;
}

pawl_status pawl_sqlite_prepare_with(struct sqlite3 *db, const char *sourceid, void (*function)(void), pawl_error *err)
{
    if (!db || !sourceid || !function) return err_set(err, PAWL_INVALID, "cannot prepare a connection: an argument is NULL");
    if (strcmp(sourceid, sqlite3_sourceid()) != 0 || function != (void (*)(void))sqlite3_step)
        return err_set(err, PAWL_UNSUPPORTED,
                       "this program and pawl use two copies of SQLite (pawl's is %s), which breaks each other's locks: "
                       "link both with the same library",
                       sqlite3_libversion());
    int rc = sqlite3_wal_autocheckpoint(db, 0);
    if (rc == SQLITE_OK) rc = sqlite3_db_config(db, SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1, NULL);
    if (rc == SQLITE_OK && !known(db)) rc = enlist(db);
    if (rc == SQLITE_OK) return PAWL_OK;
    return err_set(err, rc == SQLITE_NOMEM ? PAWL_NO_MEMORY : PAWL_UNAVAILABLE, "could not prepare the connection: %s",
                   sqlite3_errstr(rc));
}

void pawl_sqlite_forget(struct sqlite3 *db)
{
    pthread_mutex_lock(&list_lock);
    prepared **at = find(db), *p = *at;
    if (p) *at = p->next;
    pthread_mutex_unlock(&list_lock);
    /* Taking the function out calls on_closed; with statements running it stays until the connection is closed. */
    if (p) sqlite3_create_function_v2(db, "pawl_prepared", 0, SQLITE_UTF8, NULL, NULL, NULL, NULL, NULL);
}

/* The calling thread's own connections to the store's file. */
static int own_connections(const sqlite_store *s, sqlite3 *own[OWN_MOST])
{
    int count = 0;
    pthread_mutex_lock(&list_lock);
    for (prepared *p = all; p && count < OWN_MOST; p = p->next)
        if (pthread_equal(p->thread, pthread_self()) && p->inode == s->inode && p->device == s->device) own[count++] = p->db;
    pthread_mutex_unlock(&list_lock);
    return count;
}

/* SQLite calls on_closed with the connection's mutex held, so that mutex must not be asked for under list_lock. Nobody else
 * closes a connection of this thread's meanwhile. */
bool sqlite_inside_own_write(pawl_store *store)
{
    if (store->type != &store_sqlite_type) return false;
    sqlite3 *own[OWN_MOST];
    int count = own_connections((const sqlite_store *)store, own);
    for (int i = 0; i < count; i++)
        if (sqlite3_txn_state(own[i], "main") == SQLITE_TXN_WRITE) return true;
    return false;
}

/* ---- operations ---------------------------------------------------------------------------------------------------------- */

static bool same_file(const sqlite_store *s, sqlite3 *db)
{
    struct stat st;
    const char *path = sqlite3_db_filename(db, "main");
    return path && path[0] && stat(path, &st) == 0 && st.st_dev == s->device && st.st_ino == s->inode;
}

static pawl_status check(const sqlite_store *s, sqlite3 *db, const pawl_op *ops, int count, pawl_error *err)
{
    if (!db) return err_set(err, PAWL_INVALID, "the connection is NULL");
    if (s->read_only) return err_set(err, PAWL_DENIED, "cannot write to \"%s\": the store was opened read-only", s->path);
    if (!s->shared)
        return err_set(err, PAWL_MISUSE,
                       "\"%s\" is pawl's own file: open the store with shared_file on the program's database "
                       "to use its transactions",
                       s->path);
    conn c = {.db = db};
    bool prepared = known(db) && no_checkpoints(&c);
    if (c.rc) return conn_fail(&c, "look at the connection to", s->path, err);
    if (!prepared)
        return err_set(err, PAWL_MISUSE,
                       "the connection was not prepared: call pawl_sqlite_prepare once after opening it, and leave its "
                       "checkpoint settings alone; otherwise committed data can be lost");
    if (!same_file(s, db))
        return err_set(err, PAWL_MISUSE,
                       "the connection is not to \"%s\" but to \"%s\": open the store on the program's own file", s->path,
                       sqlite3_db_filename(db, "main"));
    if (sqlite3_get_autocommit(db))
        return err_set(err, PAWL_MISUSE,
                       "the connection is not inside a transaction: begin one (BEGIN IMMEDIATE), or dispatch without it");
    for (int i = 0; i < count; i++)
        if (ops[i].kind != PAWL_OP_INSERT && ops[i].kind != PAWL_OP_FINISH)
            return err_set(err, PAWL_MISUSE, "only dispatch and completion work inside the caller's transaction");
    return PAWL_OK;
}

static void forget_answers(pawl_op *op)
{
    op->result = PAWL_OP_NONE;
    op->out_id = op->out_fence = op->out_run_at_us = 0;
    op->out_state = PAWL_STATE_NONE;
}

/* -1, or the index of the operation that failed; count: failed elsewhere. */
static int apply_all(tx *t, pawl_op **ops, int count, pawl_arena *arena)
{
    if (!gate_shut(t)) insert_depths(t, ops, count, arena);
    for (int i = 0; i < count && !t->c->rc; i++) {
        if (ops[i]->kind == PAWL_OP_INSERT) ops[i]->u.insert.ask_lease = false;
        if (ops[i]->result == PAWL_OP_NONE) apply_op(t, ops[i]);
        if (t->c->rc) return i;
    }
    settle_at_once(t);
    tx_flush(t);
    return t->c->rc ? count : -1;
}

/* What takes back a half-made change of the program's transaction, prepared before it is made: there may be no memory then. */
typedef struct undo {
    sqlite3_stmt *part, *all;
} undo;

static void undo_prepare(undo *u, conn *c)
{
    *u = (undo){0};
    if (sqlite3_prepare_v2(c->db, "ROLLBACK TO pawl_apply", -1, &u->part, NULL) != SQLITE_OK ||
        sqlite3_prepare_v2(c->db, "ROLLBACK", -1, &u->all, NULL) != SQLITE_OK)
        conn_note(c, sqlite3_extended_errcode(c->db));
}

/* If the change cannot be taken back, the program's whole transaction is: it must not commit half a task. */
static void undo_run(undo *u, conn *c)
{
    if (sqlite3_get_autocommit(c->db)) return;
    if (sqlite3_step(u->part) == SQLITE_DONE) sqlite3_exec(c->db, "RELEASE pawl_apply", NULL, NULL, NULL);
    else sqlite3_step(u->all);
}

static void undo_done(undo *u)
{
    sqlite3_finalize(u->part);
    sqlite3_finalize(u->all);
}

/* One try inside a savepoint. *culprit: the operation to refuse before another one, or -1. */
static pawl_status attempt(sqlite_store *s, conn *c, pawl_op **ops, int count, pawl_arena *arena, int *culprit, pawl_error *err)
{
    tally sums;
    tally_init(&sums, s->allocator);
    tx t = {.s = s, .c = c, .t = &sums, .now_us = s->clock.wall_us(s->clock.ctx), .boot_us = s->clock.boot_us(s->clock.ctx)};
    undo u;
    undo_prepare(&u, c);
    bool begun = conn_exec(c, "SAVEPOINT pawl_apply");
    t.gate = gate_mode(c);
    t.bounded = places_any(c);
    int failed = apply_all(&t, ops, count, arena);
    *culprit = failed >= 0 && failed < count && conn_refused(c) ? failed : -1;
    conn_exec(c, "RELEASE pawl_apply");
    pawl_status status = c->rc ? conn_fail(c, "write to", s->path, err) : PAWL_OK;
    if (c->rc && begun && !CANARY(SAVEPOINT_MISSING)) undo_run(&u, c);
    undo_done(&u);
    tally_done(&sums);
    return status;
}

static pawl_status apply(sqlite_store *s, sqlite3 *db, pawl_op **ops, int count, pawl_arena *arena, pawl_error *err)
{
    conn c;
    conn_borrow(&c, s->allocator, db);
    pawl_status status = migrate_check(&c, s->path, err);
    for (int culprit = 0; status == PAWL_OK && culprit >= 0;) {
        status = attempt(s, &c, ops, count, arena, &culprit, err);
        if (culprit < 0) break;
        for (int i = 0; i < count; i++)
            if (ops[i]->result != PAWL_OP_REFUSED) forget_answers(ops[i]);
        ops[culprit]->result = PAWL_OP_REFUSED;
        conn_clear(&c);
        names_clear(&c.names);
        status = PAWL_OK;
    }
    conn_close(&c);
    return status;
}

pawl_status sqlite_tx_apply(pawl_store *store, void *connection, pawl_op *ops, int count, pawl_arena *arena, pawl_error *err)
{
    sqlite_store *s = (sqlite_store *)store;
    pawl_status status = check(s, connection, ops, count, err);
    if (status) return status;
    pawl_op **each = pawl_arena_alloc(arena, (size_t)(count + 1) * sizeof *each);
    if (!each) return err_set(err, PAWL_NO_MEMORY, "could not write to \"%s\": out of memory", s->path);
    for (int i = 0; i < count; i++) forget_answers(each[i] = &ops[i]);
    return apply(s, connection, each, count, arena, err);
}
