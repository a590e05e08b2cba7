/* The caller's own connection: INSERT and FINISH inside its open transaction.
 *
 * They go the same way as batches, without receipt and without leases. A savepoint makes the call whole: if it fails, the caller's
 * transaction stands as it stood before; unless the server ended the whole transaction, as it does after a deadlock, which is said.
 * Nothing is locked that other transactions of this kind would wait for, except keys: counters get a row for each transaction.
 *
 * Nothing of the caller's session is relied on: not its database, character set or SQL mode, and its isolation only as far as what is read
 * before it is changed is read with locks, which always see what was committed last.
 */
#include "base/error.h"
#include "store/mysql/family.h"
#include <mysqld_error.h>
#include <stdio.h>

static unsigned server_status(MYSQL *my)
{
    unsigned status = 0;
    return mariadb_get_infov(my, MARIADB_CONNECTION_SERVER_STATUS, &status) == 0 ? status : 0;
}

/* Inside a transaction, or such that the next statement begins one. */
static bool in_transaction(MYSQL *my)
{
    unsigned status = server_status(my);
    return (status & SERVER_STATUS_IN_TRANS) || !(status & SERVER_STATUS_AUTOCOMMIT);
}

static pawl_status check(const my_store *s, MYSQL *my, const pawl_op *ops, int count, pawl_error *err)
{
    if (!my) return err_set(err, PAWL_INVALID, "the connection is NULL");
    if (s->read_only)
        return err_set(err, PAWL_DENIED, "cannot write to \"%s\": the store was opened read-only", s->link.url.name);
    if ((int)mysql_get_socket(my) < 0)
        return err_set(err, PAWL_UNAVAILABLE, "the caller's own connection is broken: connect again");
    if (my->status != MYSQL_STATUS_READY)
        return err_set(err, PAWL_MISUSE, "the connection is busy with a query: take its results first");
    if (mysql_more_results(my)) return err_set(err, PAWL_MISUSE, "the connection has more results: take them first");
    if (!in_transaction(my))
        return err_set(err, PAWL_MISUSE, "the connection is not inside a transaction: begin one, or dispatch without it");
    for (int i = 0; i < count; i++)
        if (ops[i].kind != PAWL_OP_INSERT && ops[i].kind != PAWL_OP_FINISH)
            return err_set(err, PAWL_MISUSE, "only dispatch and completion work inside the caller's transaction");
    return PAWL_OK;
}

/* ---- the savepoint ------------------------------------------------------------------------------------------------------- */

/* Sets it, and makes sure that this is the server of the store. */
static pawl_status begin(const my_store *s, conn *c, pawl_error *err)
{
    my_script(c);
    my_add(c, SQL_savepoint);
    my_add(c, SQL_look);
    bool good = my_send(c, CALL_READS), same = false;
    if (!good && c->status != PAWL_SCHEMA && c->status != PAWL_NOT_FOUND) return my_conn_fail(c, "write to", err);
    const answer *a = my_answer(c, SQL_look);
    for (int i = 0; good && i < a->rows; i++)
        same |= strcmp(get_text(a, i, 0), "store_id") == 0 && strcmp(get_text(a, i, 1), s->store_id) == 0;
    if (same) return PAWL_OK;
    return err_set(err, PAWL_MISUSE,
                   "the connection is not to the server of \"%s\": open the store on the program's own database",
                   s->link.url.name);
}

/* false: the whole transaction is gone. */
static bool undo(conn *c)
{
    pawl_status status = c->status;
    int code = c->code;
    char why[sizeof c->why];
    memcpy(why, c->why, sizeof why);
    my_script(c);
    my_add(c, SQL_savepoint_back);
    my_add(c, SQL_savepoint_end);
    bool good = my_send(c, CALL_READS);
    my_conn_note(c, status, code, why);
    return good;
}

/* ---- the call ------------------------------------------------------------------------------------------------------------ */

static void copy_failure(conn *to, const conn *from) { my_conn_note(to, from->status, from->code, from->why); }

/* Names are fetched on a connection of ours, so that new ones are there for everybody at once. */
static bool prepare(my_store *s, work *w, flat *f)
{
    conn *own = my_store_take(s, WRITER);
    bool good = my_conn_ready(own);
    if (good) my_flat_sizes(own, f);
    my_flat_forget(f);
    good = good && my_flat_names(s, own, f, w->arena) && (!f->families || my_families_mark(s, own));
    if (!good) copy_failure(w->c, own);
    my_store_give(s, own);
    return good;
}

/* Whether there are concurrency limits, of which a task that is replaced may have left traces. Places are neither taken nor freed here: that
 * would hold up everybody for as long as the caller's transaction lasts (see place.c). */
static bool know_bounds(work *w, conn *own)
{
    limit_types known;
    int64_t version = get_int(my_answer(own, SQL_version), 0, 0);
    bool whole = my_limits_copy(w->s, w->arena, &known);
    if (whole && known.version != version) {
        if (!my_limits_fetch(w->s, own)) return false;
        whole = my_limits_copy(w->s, w->arena, &known);
    }
    if (!whole) {
        my_conn_no_memory(own);
        return false;
    }
    w->limits.bounds = known.bounds;
    w->limits.bounds_count = known.bounds_count;
    return true;
}

/* The caller's session may go on seeing what was there when its transaction began; ours sees the gate as it is, once theirs holds it. */
static bool look_at_gate(work *w)
{
    conn *own = my_store_take(w->s, READER);
    my_script(own);
    my_add(own, SQL_gate_mode);
    my_add(own, SQL_version);
    bool good = my_send(own, CALL_READS);
    if (good) w->closed = my_gate_shut(own);
    good = good && know_bounds(w, own);
    if (!good) copy_failure(w->c, own);
    my_store_give(w->s, own);
    return good;
}

static bool carry_out(work *w)
{
    conn *c = w->c;
    my_script(c);
    my_add(c, SQL_server_now);
    if (!my_work_ask(w)) {
        my_conn_no_memory(c);
        return false;
    }
    if (!my_send(c, CALL_READS) || !look_at_gate(w)) return false;
    const pawl_clock *test = my_test_clock(w->s);
    w->now_us = w->boot_us = test ? test->wall_us(test->ctx) : get_int(my_answer(c, SQL_server_now), 0, 0);
    if (!my_work_load(w) || !my_work_apply(w)) return false;
    my_add_wake(c, w->lane, w->now_us, w->backs);
    my_add(c, SQL_savepoint_end);
    return my_send(c, CALL_READS);
}

static pawl_status fail(conn *c, pawl_error *err)
{
    pawl_status status = my_conn_fail(c, "write to", err);
    if (undo(c) || in_transaction(c->my)) return status;
    return err_set(err, PAWL_UNAVAILABLE, "the server rolled back the whole transaction (%s): begin it again", c->why);
}

static pawl_status apply(my_store *s, conn *c, flat *f, pawl_arena *arena, pawl_error *err)
{
    work w;
    my_work_begin(&w, s, c, arena);
    w.f = f;
    w.borrowed = true;
    w.lane = my_new_lane(s);
    pawl_status status = begin(s, c, err);
    if (status) undo(c);
    else if (!prepare(s, &w, f) || !carry_out(&w)) status = fail(c, err);
    my_work_done(&w);
    return status;
}

pawl_status my_tx_apply(pawl_store *store, void *connection, pawl_op *ops, int count, pawl_arena *arena, pawl_error *err)
{
    my_store *s = store_of(store);
    pawl_status status = check(s, connection, ops, count, err);
    if (status) return status;
    flat f;
    conn c;
    pawl_op **each = pawl_arena_alloc(arena, (size_t)(count + 1) * sizeof *each);
    for (int i = 0; each && i < count; i++) {
        each[i] = &ops[i];
        if (ops[i].kind == PAWL_OP_INSERT) ops[i].u.insert.ask_lease = false;
    }
    if (!each || !my_flat_make(&f, each, count, arena))
        return err_set(err, PAWL_NO_MEMORY, "could not write to \"%s\": out of memory", s->link.url.name);
    f.careful = true;
    my_conn_init(&c, &s->link, s->allocator);
    c.borrowed = true;
    c.my = connection;
    c.tls = mysql_get_ssl_cipher(connection) != NULL;
    status = apply(s, &c, &f, arena, err);
    my_conn_close(&c);
    return status;
}
