/* The caller's own connection: preparing it, and dispatch and completion inside its transactions. */
#include "base/idgen.h"
#include "support.h"
#include <pthread.h>
#include <stdio.h>
#include <unistd.h>

static pawl_status prepare(place *p, sqlite3 *db)
{
    p->err = (pawl_error){0};
    return pawl_sqlite_prepare(db, &p->err);
}

static sqlite3 *prepared_open(place *p)
{
    sqlite3 *db = host_open(p);
    assert_ok(p, prepare(p, db));
    return db;
}

static pawl_status tx_apply(place *p, pawl_store *s, sqlite3 *db, pawl_op *op)
{
    p->err = (pawl_error){0};
    return store_tx_apply(s, db, op, 1, p->arena, &p->err);
}

static pawl_op *drawn_insert(place *p)
{
    pawl_op *op = insert_op(p, NULL);
    op->id = 0;
    return op;
}

/* ---- preparing ----------------------------------------------------------------------------------------------------------- */

static void stranger(void) {}

static void a_second_copy_of_sqlite_is_refused(void **state)
{
    place *p = *state;
    sqlite3 *db = host_open(p);
    assert_refused(p, pawl_sqlite_prepare_with(db, "2020-01-01 another", (void (*)(void))sqlite3_step, &p->err), PAWL_UNSUPPORTED,
                   "two copies");
    assert_refused(p, pawl_sqlite_prepare_with(db, sqlite3_sourceid(), stranger, &p->err), PAWL_UNSUPPORTED, "two copies");
    assert_refused(p, pawl_sqlite_prepare_with(NULL, sqlite3_sourceid(), stranger, &p->err), PAWL_INVALID, "NULL");
    sqlite3_close(db);
}

static void preparing_turns_checkpoints_off(void **state)
{
    place *p = *state;
    sqlite3 *db = NULL;
    int kept = 0;
    assert_int_equal(sqlite3_open(p->path, &db), SQLITE_OK);
    assert_int_equal(host_int(db, "PRAGMA wal_autocheckpoint"), 1000);
    assert_ok(p, prepare(p, db));
    assert_ok(p, prepare(p, db)); /* twice does no harm */
    assert_int_equal(host_int(db, "PRAGMA wal_autocheckpoint"), 0);
    sqlite3_db_config(db, SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, -1, &kept);
    assert_int_equal(kept, 1);
    sqlite3_close(db);
}

/* ---- refusals ------------------------------------------------------------------------------------------------------------ */

static void handles_that_cannot_be_used(void **state)
{
    place *p = *state;
    pawl_store *s = open_shared(p);
    sqlite3 *db = host_open(p);
    host_exec(db, "BEGIN IMMEDIATE");
    assert_refused(p, tx_apply(p, s, db, drawn_insert(p)), PAWL_MISUSE, "pawl_sqlite_prepare");
    host_exec(db, "ROLLBACK");
    assert_ok(p, prepare(p, db));
    assert_refused(p, tx_apply(p, s, db, drawn_insert(p)), PAWL_MISUSE, "BEGIN IMMEDIATE");
    host_exec(db, "BEGIN IMMEDIATE");
    assert_ok(p, tx_apply(p, s, db, drawn_insert(p)));
    host_exec(db, "COMMIT; PRAGMA wal_autocheckpoint=1000; BEGIN IMMEDIATE"); /* the program undoes it */
    assert_refused(p, tx_apply(p, s, db, drawn_insert(p)), PAWL_MISUSE, "checkpoint settings");
    host_exec(db, "ROLLBACK");
    assert_refused(p, tx_apply(p, s, NULL, drawn_insert(p)), PAWL_INVALID, "NULL");
    pawl_sqlite_forget(db);
    assert_ok(p, prepare(p, db));
    host_exec(db, "BEGIN IMMEDIATE");
    pawl_op *op = insert_op(p, NULL);
    op->kind = PAWL_OP_CANCEL;
    assert_refused(p, tx_apply(p, s, db, op), PAWL_MISUSE, "only dispatch and completion");
    host_exec(db, "ROLLBACK");
    pawl_sqlite_forget(db);
    sqlite3_close(db);
    store_close(s);
}

static void a_connection_to_another_file(void **state)
{
    place *p = *state;
    pawl_store *s = open_shared(p);
    char path[300];
    sqlite3 *db = NULL;
    snprintf(path, sizeof path, "%s/other.db", p->dir);
    assert_int_equal(sqlite3_open(path, &db), SQLITE_OK);
    host_exec(db, "CREATE TABLE t (x)");
    assert_ok(p, prepare(p, db));
    host_exec(db, "BEGIN IMMEDIATE");
    assert_refused(p, tx_apply(p, s, db, drawn_insert(p)), PAWL_MISUSE, "other.db");
    host_exec(db, "ROLLBACK");
    sqlite3_close(db);
    store_close(s);
}

static void a_store_that_is_not_shared(void **state)
{
    place *p = *state;
    pawl_store *s = open_store(p);
    sqlite3 *db = prepared_open(p);
    host_exec(db, "BEGIN IMMEDIATE");
    assert_refused(p, tx_apply(p, s, db, drawn_insert(p)), PAWL_MISUSE, "shared_file");
    host_exec(db, "ROLLBACK");
    sqlite3_close(db);
    store_close(s);
}

/* A handle that was closed without a word, and another that got its address, is not taken for prepared. */
static void a_closed_handle_is_forgotten(void **state)
{
    place *p = *state;
    pawl_store *s = open_shared(p);
    sqlite3_close(prepared_open(p));
    assert_false(sqlite_inside_own_write(s));
    sqlite3 *db = NULL;
    assert_int_equal(sqlite3_open(p->path, &db), SQLITE_OK);
    host_exec(db, "BEGIN IMMEDIATE");
    assert_refused(p, tx_apply(p, s, db, drawn_insert(p)), PAWL_MISUSE, "pawl_sqlite_prepare");
    assert_false(sqlite_inside_own_write(s));
    host_exec(db, "ROLLBACK");
    sqlite3_close(db);
    store_close(s);
}

/* ---- dispatch ------------------------------------------------------------------------------------------------------------ */

static void task_and_data_commit_or_vanish_together(void **state)
{
    place *p = *state;
    pawl_store *s = open_shared(p);
    sqlite3 *db = prepared_open(p);
    host_exec(db, "CREATE TABLE orders (id INTEGER PRIMARY KEY)");
    for (int commit = 0; commit < 2; commit++) {
        pawl_op *op = drawn_insert(p);
        op->u.insert.ask_lease = true;
        host_exec(db, "BEGIN IMMEDIATE; INSERT INTO orders DEFAULT VALUES");
        assert_ok(p, tx_apply(p, s, db, op));
        assert_int_equal(op->result, PAWL_OP_DONE);
        assert_int_equal(op->out_fence, 0); /* never a lease */
        assert_true(op->out_id > 0);
        assert_int_equal(id_number(op->out_id), 0);                    /* drawn by the store, in the transaction */
        assert_int_equal(state_of(p, s, op->out_id), PAWL_STATE_NONE); /* not before the commit */
        host_exec(db, commit ? "COMMIT" : "ROLLBACK");
        assert_int_equal(state_of(p, s, op->out_id), commit ? PAWL_PENDING : PAWL_STATE_NONE);
        assert_int_equal(host_int(db, "SELECT count(*) FROM orders"), commit);
    }
    insert_one(p, s); /* the names that were rolled back do no harm */
    sqlite3_close(db);
    store_close(s);
}

static void ids_drawn_by_the_store_never_repeat(void **state)
{
    place *p = *state;
    pawl_store *s = open_shared(p);
    sqlite3 *db = prepared_open(p);
    pawl_id last = 0;
    for (int i = 0; i < 6; i++) {
        pawl_op *op = drawn_insert(p);
        if (i % 2) {
            host_exec(db, "BEGIN IMMEDIATE");
            assert_ok(p, tx_apply(p, s, db, op));
            host_exec(db, "COMMIT");
        } else {
            assert_ok(p, apply_one(p, s, 0, 0, op));
        }
        assert_true(op->out_id > last);
        last = op->out_id;
        if (i == 3) p->clock.now_us -= PAWL_HOUR; /* a clock that goes back changes nothing */
    }
    sqlite3_close(db);
    store_close(s);
}

/* What fails inside leaves the caller's transaction as it was. */
static void a_failure_leaves_the_transaction_whole(void **state)
{
    place *p = *state;
    pawl_store *s = open_shared(p);
    sqlite3 *db = prepared_open(p);
    host_exec(db, "CREATE TABLE orders (id INTEGER PRIMARY KEY)");
    static char payload[50000];
    pawl_op ops[2] = {*drawn_insert(p), *drawn_insert(p)};
    ops[1].u.insert.body->payload = (pawl_bytes){payload, sizeof payload};
    int limit = sqlite3_limit(db, SQLITE_LIMIT_LENGTH, 20000);
    host_exec(db, "BEGIN IMMEDIATE; INSERT INTO orders DEFAULT VALUES");
    assert_ok(p, store_tx_apply(s, db, ops, 2, p->arena, &p->err));
    assert_int_equal(ops[0].result, PAWL_OP_DONE);
    assert_int_equal(ops[1].result, PAWL_OP_REFUSED);
    host_exec(db, "COMMIT");
    sqlite3_limit(db, SQLITE_LIMIT_LENGTH, limit);
    assert_int_equal(host_int(db, "SELECT count(*) FROM orders"), 1);
    assert_int_equal(host_int(db, "SELECT count(*) FROM pawl_body"), 1);
    assert_int_equal(host_int(db, "SELECT pending FROM pawl_queue"), 1);
    sqlite3_close(db);
    store_close(s);
}

/* ---- completion ---------------------------------------------------------------------------------------------------------- */

static void completion_by_fence(void **state)
{
    place *p = *state;
    pawl_store *s = open_shared(p);
    sqlite3 *db = prepared_open(p);
    int64_t node = join(p, s);
    pawl_claimed task;
    pawl_id id = insert_one(p, s);
    assert_int_equal(claim_some(p, s, node, 1, &task, NULL), 1);
    for (int commit = 0; commit < 2; commit++) {
        pawl_op *stale = finish_op(p, id, task.fence + 1), *good = finish_op(p, id, task.fence);
        host_exec(db, "BEGIN IMMEDIATE");
        assert_ok(p, tx_apply(p, s, db, stale));
        assert_int_equal(stale->result, PAWL_OP_STALE);
        assert_ok(p, tx_apply(p, s, db, good));
        assert_int_equal(good->result, PAWL_OP_DONE);
        host_exec(db, commit ? "COMMIT" : "ROLLBACK");
        assert_int_equal(state_of(p, s, id), commit ? PAWL_SUCCEEDED : PAWL_LEASED);
    }
    pawl_renewal renewal = {.node = node};
    assert_ok(p, s->type->renew(s, &renewal, &p->err));
    assert_int_equal(renewal.held, 0); /* the lease is counted out, too */
    pawl_op *late = finish_op(p, id, task.fence);
    assert_ok(p, apply_one(p, s, node, 1, late));
    assert_int_equal(late->result, PAWL_OP_STALE);
    assert_int_equal(late->out_state, PAWL_SUCCEEDED);
    assert_int_equal(late->out_fence, task.fence); /* its own: the engine knows that it was itself */
    free_bodies(&task, 1);
    sqlite3_close(db);
    store_close(s);
}

/* ---- a plain dispatch inside one's own transaction ----------------------------------------------------------------------- */

static void *ask_elsewhere(void *store) { return sqlite_inside_own_write(store) ? store : NULL; }

static void inside_ones_own_write(void **state)
{
    place *p = *state;
    pawl_store *s = open_shared(p), *memory = NULL;
    sqlite3 *db = prepared_open(p);
    assert_false(sqlite_inside_own_write(s));
    host_exec(db, "BEGIN");
    assert_false(sqlite_inside_own_write(s));
    host_int(db, "SELECT count(*) FROM pawl_body");
    assert_false(sqlite_inside_own_write(s)); /* reading waits for nobody */
    host_exec(db, "COMMIT; BEGIN IMMEDIATE");
    assert_true(sqlite_inside_own_write(s));
    pthread_t thread;
    void *elsewhere;
    assert_int_equal(pthread_create(&thread, NULL, ask_elsewhere, s), 0);
    pthread_join(thread, &elsewhere);
    assert_null(elsewhere); /* another thread may wait for this one */
    host_exec(db, "COMMIT");
    assert_false(sqlite_inside_own_write(s));
    pawl_store_options o = options_of(p);
    o.url = "memory:";
    assert_ok(p, store_open(&o, &memory, &p->err));
    assert_false(sqlite_inside_own_write(memory));
    store_close(memory);
    host_exec(db, "BEGIN IMMEDIATE");
    pawl_sqlite_forget(db);
    assert_false(sqlite_inside_own_write(s));
    pawl_sqlite_forget(db);
    sqlite3_close(db);
    store_close(s);
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, place_new, place_free)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(a_second_copy_of_sqlite_is_refused),
        TEST(preparing_turns_checkpoints_off),
        TEST(handles_that_cannot_be_used),
        TEST(a_connection_to_another_file),
        TEST(a_store_that_is_not_shared),
        TEST(a_closed_handle_is_forgotten),
        TEST(task_and_data_commit_or_vanish_together),
        TEST(ids_drawn_by_the_store_never_repeat),
        TEST(a_failure_leaves_the_transaction_whole),
        TEST(completion_by_fence),
        TEST(inside_ones_own_write),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
