/* The gate: one row that says whether tasks may come and go, see pawl/store.h.
 *
 * A write transaction is alone with the file, so whoever reads the row in it knows: nobody who saw the gate open commits after it was
 * shut. The handle remembers the mode until another connection has committed (tx_begin).
 */
#include "base/error.h"
#include "store/sqlite/read.h"
#include <stdio.h>
#include <string.h>

static const char what[] = "set the gate of";

int gate_mode(conn *c)
{
    query q = query_on(c, SQL_gate_mode);
    int mode = query_row(&q) ? (int)get_int(&q) : PAWL_GATE_OPEN;
    query_end(&q);
    return mode;
}

/* ---- reading ------------------------------------------------------------------------------------------------------------- */

void gate_read(reading *r, pawl_query *question)
{
    char id[32];
    pawl_gate *g = read_alloc(r, sizeof *g);
    if (!g) return;
    query q = query_on(r->c, SQL_gate_get);
    if (query_row(&q)) {
        g->mode = (pawl_gate_mode)get_int(&q);
        g->at_us = get_int(&q);
        g->move = read_text(r, get_text(&q));
        g->peer = read_text(r, get_text(&q));
        g->by = read_text(r, get_text(&q));
        g->position = read_text(r, get_text(&q));
    }
    query_end(&q);
    q = query_on(r->c, SQL_gate_leases);
    if (query_row(&q)) g->leases = get_int(&q);
    query_end(&q);
    snprintf(id, sizeof id, "sqlite-%llx", (unsigned long long)meta_int(r->c, "store_id", 0));
    g->store = read_text(r, id);
    question->gate = g;
}

/* ---- setting ------------------------------------------------------------------------------------------------------------- */

static bool same(const char *a, const char *b) { return a && b && strcmp(a, b) == 0; }

/* What the row says now; false: it belongs to another move, or is at another position. */
static bool may_set(tx *t, const pawl_gate *gate, int *mode, char move[200])
{
    query q = query_on(t->c, SQL_gate_get);
    bool there = true;
    move[0] = '\0';
    *mode = PAWL_GATE_OPEN;
    if (query_row(&q)) {
        *mode = (int)get_int(&q);
        get_int(&q);
        const char *text = get_text(&q), *at;
        snprintf(move, 200, "%s", text ? text : "");
        q.column += 2;
        at = get_text(&q);
        there = !gate->before || strcmp(at ? at : "", gate->before) == 0;
    }
    query_end(&q);
    return there && (*mode == PAWL_GATE_OPEN || same(move, gate->move));
}

/* Everything that a move brought. Nodes, numbers of ids and names stay: they do no harm. */
static void discard(conn *c)
{
    static const char *const tables[] = {"body",   "live",   "leased",    "cancel",        "done",       "failed", "attempt",
                                         "runlog", "audit",  "key",       "queue",         "born_hour",  "seen",   "done_slot",
                                         "rollup", "oplog",  "limit",     "budget",        "slotted",    "bound",  "spot",
                                         "place",  "turn",   "schedule",  "schedule_body", "occurrence", "edge",   "wait",
                                         "batch",  "member", "unsettled", "kept"};
    char sql[64];
    for (size_t i = 0; i < sizeof tables / sizeof *tables; i++) {
        snprintf(sql, sizeof sql, "DELETE FROM pawl_%s", tables[i]);
        conn_exec(c, sql);
    }
    known_clear(c);
}

static void put(tx *t, const pawl_gate *gate)
{
    bool given_up = gate->mode == PAWL_GATE_OPEN && !gate->position;
    query q = query_on(t->c, SQL_gate_put);
    put_int(&q, gate->mode);
    put_int(&q, t->now_us);
    put_text(&q, given_up ? NULL : gate->move);
    put_text(&q, given_up ? NULL : gate->peer);
    put_text(&q, gate->by);
    put_text(&q, gate->position);
    query_run(&q);
}

pawl_status sqlite_set_gate(pawl_store *store, const pawl_gate *gate, pawl_error *err)
{
    sqlite_store *s = (sqlite_store *)store;
    tx t;
    char move[200];
    int mode;
    pawl_status status = tx_begin(s, &t, what, err);
    if (status) return status;
    if (!may_set(&t, gate, &mode, move) && !t.c->rc) {
        status = tx_abort(&t, what, err);
        if (status) return status;
        return err_set(err, PAWL_CONFLICT, "\"%s\" belongs to another move (%s), or another process moves it at the same time",
                       s->path, move[0] ? move : "none");
    }
    if (gate->discard && mode == PAWL_GATE_ARRIVING) discard(t.c);
    put(&t, gate);
    s->gate = s->bounded = -1;
    return t.c->rc ? tx_abort(&t, what, err) : tx_commit(&t, what, true, err);
}
