/* The gate: one row that says whether tasks may come and go, see pawl/store.h and functions/gate.sql.
 *
 * A transaction that saw the gate open may commit after it was shut. It has its number by then, so the handle that first sees the gate
 * shut remembers the next number to be given out, and counts the transactions with lower ones that are still under way and have looked at
 * this gate.
 */
#include "base/error.h"
#include "store/postgres/read.h"
#include <stdio.h>

static int64_t after_of(pg_store *s, bool shut, int64_t next)
{
    pthread_mutex_lock(&s->lock);
    if (!shut) s->gate_after = 0;
    else if (!s->gate_after) s->gate_after = next;
    int64_t after = s->gate_after;
    pthread_mutex_unlock(&s->lock);
    return after;
}

static PGresult *ask_gate(reading *r, int64_t after)
{
    pg_params_begin(&r->c->params);
    pg_param_int8(&r->c->params, after);
    return pg_ask(r, SQL_gate);
}

static void read_gate(reading *r, const PGresult *answer, pawl_gate *g)
{
    char store[80];
    g->mode = (pawl_gate_mode)wire32(answer, 0, 0);
    g->at_us = wire64(answer, 0, 1);
    g->move = pg_read_text(r, answer, 0, 2);
    g->peer = pg_read_text(r, answer, 0, 3);
    g->by = pg_read_text(r, answer, 0, 4);
    g->position = pg_read_text(r, answer, 0, 5);
    g->leases = wire64(answer, 0, 6);
    g->writers = wire64(answer, 0, 8);
    snprintf(store, sizeof store, "postgres-%s", r->s->store_id);
    g->store = pawl_arena_str(r->arena, store);
    if (!g->store) r->no_memory = true;
}

void pg_gate_read(reading *r, pawl_query *query)
{
    pawl_gate *g = pg_read_alloc(r, sizeof *g);
    int64_t seen = after_of(r->s, true, 0);
    PGresult *answer = g ? ask_gate(r, seen) : NULL;
    if (!answer) return;
    int mode = wire32(answer, 0, 0);
    bool shut = mode == PAWL_GATE_CLOSED || mode == PAWL_GATE_ARRIVING;
    int64_t after = after_of(r->s, shut, wire64(answer, 0, 7));
    if (shut && !seen) { /* the first that is seen of it */
        PQclear(answer);
        answer = ask_gate(r, after);
    }
    if (answer) read_gate(r, answer, g);
    PQclear(answer);
    query->gate = g;
}

pawl_status pg_set_gate(pawl_store *store, const pawl_gate *gate, pawl_error *err)
{
    pg_store *s = store_of(store);
    conn *c = pg_store_take(s, WRITER);
    params *p = &c->params;
    pg_params_begin(p);
    pg_params_call(s, p);
    pg_param_int4(p, gate->mode);
    pg_param_text(p, gate->move);
    pg_param_text(p, gate->peer);
    pg_param_text(p, gate->by);
    pg_param_text(p, gate->position);
    pg_param_text(p, gate->before);
    pg_param_bool(p, gate->discard);
    PGresult *r = pg_conn_call(c, SQL_set_gate, CALL_WRITES);
    pawl_status status = r ? PAWL_OK : pg_conn_fail(c, "set the gate of", err);
    const char *other = r ? pg_get_text(r, 0, 0) : NULL;
    if (other)
        status = err_set(err, PAWL_CONFLICT, "\"%s\" belongs to another move (%s), or another process moves it at the same time",
                         s->link.url.name, other);
    else if (r) pg_watch_tell(s, c, "*", true);
    PQclear(r);
    pg_store_give(s, c);
    after_of(s, false, 0);
    return status;
}
