/* The caller's own connection: INSERT and FINISH inside its open transaction.
 *
 * They use the same function as batches, without receipt and without leases. A savepoint makes the call whole: if it fails, the caller's
 * transaction stands as it stood before. Nothing is locked that other transactions of this kind would wait for, except keys: counters get
 * a row for each transaction. Those who wait for work are told by the transaction's own commit.
 */
#include "base/error.h"
#include "store/postgres/inner.h"
#include <stdio.h>

static pawl_status check(const pg_store *s, PGconn *pg, const pawl_op *ops, int count, pawl_error *err)
{
    if (!pg) return err_set(err, PAWL_INVALID, "the connection is NULL");
    if (s->read_only)
        return err_set(err, PAWL_DENIED, "cannot write to \"%s\": the store was opened read-only", s->link.url.name);
    if (PQstatus(pg) != CONNECTION_OK)
        return err_set(err, PAWL_UNAVAILABLE, "the caller's own connection is broken: connect again");
    if (PQpipelineStatus(pg) != PQ_PIPELINE_OFF)
        return err_set(err, PAWL_MISUSE, "the connection is in pipeline mode: leave it before this call");
    PGTransactionStatusType state = PQtransactionStatus(pg);
    if (state == PQTRANS_ACTIVE) return err_set(err, PAWL_MISUSE, "the connection is busy with a query: take its results first");
    if (state == PQTRANS_INERROR) return err_set(err, PAWL_MISUSE, "the transaction has failed already: roll it back");
    if (state != PQTRANS_INTRANS)
        return err_set(err, PAWL_MISUSE, "the connection is not inside a transaction: begin one, or dispatch without it");
    for (int i = 0; i < count; i++)
        if (ops[i].kind != PAWL_OP_INSERT && ops[i].kind != PAWL_OP_FINISH)
            return err_set(err, PAWL_MISUSE, "only dispatch and completion work inside the caller's transaction");
    return PAWL_OK;
}

/* ---- the savepoint ------------------------------------------------------------------------------------------------------- */

/* Sets it, and makes sure that this is the database of the store. */
static pawl_status begin(const pg_store *s, conn *c, pawl_error *err)
{
    PGresult *r = pg_conn_query(c, "SAVEPOINT pawl_apply", CALL_READS);
    if (!r) return pg_conn_fail(c, "write to", err);
    PQclear(r);
    pg_params_begin(&c->params);
    r = pg_conn_call(c, SQL_look, CALL_READS);
    if (!r && c->status != PAWL_SCHEMA) return pg_conn_fail(c, "write to", err);
    bool same = false;
    for (int i = 0; r && i < PQntuples(r); i++)
        same |= strcmp(pg_get_text(r, i, 0), "store_id") == 0 && strcmp(pg_get_text(r, i, 1), s->store_id) == 0;
    PQclear(r);
    if (same) return PAWL_OK;
    return err_set(err, PAWL_MISUSE,
                   "the connection is not to the database of \"%s\": open the store on the program's own database",
                   s->link.url.name);
}

static void undo(conn *c)
{
    if (PQstatus(c->pg) != CONNECTION_OK || PQtransactionStatus(c->pg) == PQTRANS_IDLE) return;
    PQclear(pg_conn_query(c, "ROLLBACK TO SAVEPOINT pawl_apply; RELEASE SAVEPOINT pawl_apply", CALL_READS));
}

static bool release(const pg_store *s, conn *c, const char *hints)
{
    char channel[SCHEMA_MAX + 8], sql[6000];
    snprintf(channel, sizeof channel, "pawl.%s", s->link.url.schema);
    char *quoted = PQescapeLiteral(c->pg, channel, strlen(channel));
    bool tell = quoted && hints && hints[0];
    snprintf(sql, sizeof sql, "%s%s%s%s%sRELEASE SAVEPOINT pawl_apply", tell ? "SELECT pg_notify(" : "", tell ? quoted : "",
             tell ? ", '" : "", tell ? strlen(hints) > 4000 ? "*" : hints : "", tell ? "'); " : "");
    PQfreemem(quoted);
    PGresult *r = pg_conn_query(c, sql, CALL_READS);
    PQclear(r);
    return r != NULL;
}

/* ---- the call ------------------------------------------------------------------------------------------------------------ */

static void put_call(pg_store *s, params *p, const flat *f)
{
    pg_params_begin(p);
    pg_params_call(s, p);
    p->count = 1;
    pg_param_int4(p, -1); /* the caller's settings are the caller's */
    pg_param_int4(p, 0);
    pg_param_int8(p, 0);
    pg_param_int8(p, 0);
    pg_param_bool(p, false);
    pg_param_int4(p, 0);
    pg_param_bool(p, false);
    pg_flat_inserts(p, f, &s->names);
    pg_flat_ends(p, f);
    pg_flat_starts(p, f);
    pg_flat_progress(p, f);
    pg_flat_people(p, f, &s->names);
    for (int i = 0; i < SLOT_COLUMNS + LIMIT_COLUMNS + BOUND_COLUMNS + SCHEDULE_COLUMNS; i++)
        pg_param_null(p); /* it locks no budgets, spots and schedules: see functions/limits.sql, places.sql, schedules.sql */
    pg_flat_families(p, f);
    for (int i = 0; i < BATCH_COLUMNS; i++) pg_param_null(p);
}

/* Names are fetched on a connection of ours, so that new ones are there for everybody at once. */
static PGresult *send_call(pg_store *s, conn *c, flat *f, pawl_arena *arena)
{
    conn *own = pg_store_take(s, WRITER);
    bool named = pg_flat_names(s, own, f, arena);
    if (!named) {
        c->status = own->status;
        snprintf(c->code, sizeof c->code, "%s", own->code);
        snprintf(c->why, sizeof c->why, "%s", own->why);
    }
    pg_store_give(s, own);
    if (!named) return NULL;
    put_call(s, &c->params, f);
    interned_close(&s->names);
    return pg_conn_call(c, SQL_apply, CALL_READS);
}

static pawl_status apply(pg_store *s, conn *c, flat *f, pawl_arena *arena, pawl_error *err)
{
    pawl_status status = begin(s, c, err);
    pg_flat_select(f, 0, f->count);
    PGresult *r = status ? NULL : send_call(s, c, f, arena);
    if (!status && !r) status = pg_conn_fail(c, "write to", err);
    if (!status && !release(s, c, pg_get_text(r, 0, 4))) status = pg_conn_fail(c, "write to", err);
    if (status) undo(c);
    else pg_flat_answers(f, pg_get_int(r, 0, 1), pg_get_text(r, 0, 3), true);
    PQclear(r);
    return status;
}

pawl_status pg_tx_apply(pawl_store *store, void *connection, pawl_op *ops, int count, pawl_arena *arena, pawl_error *err)
{
    pg_store *s = store_of(store);
    pawl_status status = check(s, connection, ops, count, err);
    if (status) return status;
    flat f;
    conn c;
    pawl_op **each = pawl_arena_alloc(arena, (size_t)(count + 1) * sizeof *each);
    for (int i = 0; each && i < count; i++) {
        each[i] = &ops[i];
        if (ops[i].kind == PAWL_OP_INSERT) ops[i].u.insert.ask_lease = false;
    }
    if (!each || !pg_flat_make(&f, each, count, arena))
        return err_set(err, PAWL_NO_MEMORY, "could not write to \"%s\": out of memory", s->link.url.name);
    f.careful = true;
    pg_flat_forget(&f);
    pg_conn_init(&c, &s->link, s->allocator);
    c.borrowed = true;
    c.pg = connection;
    int nonblocking = PQisnonblocking(c.pg);
    if (!nonblocking) PQsetnonblocking(c.pg, 1);
    status = apply(s, &c, &f, arena, err);
    if (!nonblocking && PQstatus(c.pg) == CONNECTION_OK) PQsetnonblocking(c.pg, 0);
    pg_conn_close(&c);
    return status;
}
