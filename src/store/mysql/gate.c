/* The gate: one row that says whether tasks may come and go, see pawl/store.h and migrations/0002_gate.sql.
 *
 * A transaction that is about to store or lease something holds a second row, shared, and looks at the gate after that, with the
 * statements it sends anyway. So whoever has shut the gate knows from that row whether somebody who saw it open is still under way, and
 * nobody ever waits for anybody. Sweeps hold the gate's row itself: they are short, and what a move has begun to count must stay.
 */
#include "base/error.h"
#include "store/mysql/read.h"
#include <stdio.h>

void my_add_gate(conn *c)
{
    my_add(c, SQL_gate_hold);
    my_add(c, SQL_gate_mode);
}

int64_t my_gate_mode(const conn *c)
{
    const answer *a = my_answer(c, SQL_gate_mode);
    return a->rows > 0 ? get_int(a, 0, 0) : PAWL_GATE_OPEN;
}

bool my_gate_shut(const conn *c)
{
    int64_t mode = my_gate_mode(c);
    return mode == PAWL_GATE_CLOSED || mode == PAWL_GATE_ARRIVING;
}

bool my_gate_closed(const conn *c) { return my_answer(c, SQL_gate_hold)->rows == 0 || my_gate_shut(c); }

void my_add_wake(conn *c, int64_t lane, int64_t now_us, bool backs)
{
    my_put_int(c, lane);
    my_put_int(c, backs);
    my_put_int(c, now_us);
    my_add(c, SQL_lane_new);
}

/* ---- reading ------------------------------------------------------------------------------------------------------------- */

/* How many is not told, only whether there is any. Who may only read cannot ask. */
static int64_t count_writers(reading *r)
{
    if (r->s->read_only) return 0;
    my_script(r->c);
    return my_ask(r, SQL_gate_writers) && my_answer(r->c, SQL_gate_writers)->rows == 0;
}

void my_gate_read(reading *r, pawl_query *query)
{
    char store[80];
    pawl_gate *g = my_read_alloc(r, sizeof *g);
    my_script(r->c);
    if (!g || !my_ask(r, SQL_gate_get)) return;
    const answer *a = my_answer(r->c, SQL_gate_get);
    snprintf(store, sizeof store, "mysql-%s", r->s->store_id);
    g->store = pawl_arena_str(r->arena, store);
    if (!g->store) r->no_memory = true;
    if (a->rows > 0) {
        g->mode = (pawl_gate_mode)get_int(a, 0, 0);
        g->at_us = get_int(a, 0, 1);
        g->move = my_read_text(r, a, 0, 2);
        g->peer = my_read_text(r, a, 0, 3);
        g->by = my_read_text(r, a, 0, 4);
        g->position = my_read_text(r, a, 0, 5);
        g->leases = get_int(a, 0, 6);
    }
    if (g->mode == PAWL_GATE_CLOSED || g->mode == PAWL_GATE_ARRIVING) g->writers = count_writers(r);
    query->gate = g;
}

/* ---- setting ------------------------------------------------------------------------------------------------------------- */

static const char what[] = "set the gate of";

static bool same(const char *a, const char *b) { return strcmp(a ? a : "", b ? b : "") == 0; }

/* By what the row says now; false: it belongs to another move, or is at another position. */
static bool may_set(const conn *c, const pawl_gate *gate)
{
    const answer *a = my_answer(c, SQL_gate_lock);
    if (a->rows == 0) return false;
    bool there = !gate->before || same(get_text(a, 0, 2), gate->before);
    return there && (get_int(a, 0, 0) == PAWL_GATE_OPEN || (gate->move && same(get_text(a, 0, 1), gate->move)));
}

/* Everything that a move brought. Nodes, numbers of ids and names stay: they do no harm. */
static bool discard(conn *c)
{
    static const char *const tables[] = {"body",          "live",       "done",  "failed", "attempt", "runlog", "audit",
                                         "key",           "queue",      "count", "born",   "rollup",  "oplog",  "limit",
                                         "budget",        "slotted",    "spot",  "place",  "blocked", "shared", "schedule",
                                         "schedule_body", "occurrence", "edge",  "wait",   "batch",   "member", "unsettled",
                                         "kept",          "bound",      "turn"};
    char name[32];
    bool good = true;
    c->patient = true;
    for (size_t i = 0; i < sizeof tables / sizeof *tables && good; i++) {
        int n = snprintf(name, sizeof name, "pawl_%s", tables[i]);
        my_script(c);
        my_put_raw(c, name, (size_t)n);
        my_add(c, SQL_discard);
        good = my_send(c, CALL_READS);
    }
    c->patient = false;
    my_script(c);
    my_add(c, SQL_limits_changed);
    return good && my_send(c, CALL_READS);
}

static void put(conn *c, const pawl_gate *gate, int64_t now_us)
{
    bool given_up = gate->mode == PAWL_GATE_OPEN && !gate->position;
    my_put_int(c, gate->mode);
    my_put_int(c, now_us);
    my_put_text(c, given_up ? NULL : gate->move);
    my_put_text(c, given_up ? NULL : gate->peer);
    my_put_text(c, gate->by);
    my_put_text(c, gate->position);
    my_add(c, SQL_gate_put);
}

/* *mine: it was ours to set. */
static bool set(my_store *s, conn *c, const pawl_gate *gate, bool *mine, char move[200])
{
    my_script(c);
    my_add(c, SQL_begin);
    my_add(c, SQL_server_now);
    my_add(c, SQL_gate_lock);
    if (!my_send(c, CALL_READS)) return false;
    int64_t now_us = my_instant(s, c).now_us;
    const answer *a = my_answer(c, SQL_gate_lock);
    const char *text = a->rows > 0 ? get_text(a, 0, 1) : NULL;
    bool empties = gate->discard && a->rows > 0 && get_int(a, 0, 0) == PAWL_GATE_ARRIVING;
    snprintf(move, 200, "%s", text ? text : "none");
    *mine = may_set(c, gate);
    if (!*mine) {
        my_rollback(c);
        return true;
    }
    if (empties && !discard(c)) return false;
    my_script(c);
    put(c, gate, now_us);
    my_add_wake(c, my_new_lane(s), now_us, true);
    my_add(c, SQL_commit);
    return my_send(c, CALL_WRITES);
}

pawl_status my_set_gate(pawl_store *store, const pawl_gate *gate, pawl_error *err)
{
    my_store *s = store_of(store);
    conn *c = my_store_take(s, WRITER);
    char move[200];
    int tries = 0;
    bool good, mine = false;
    while (!(good = set(s, c, gate, &mine, move)) && my_call_again(c, &tries)) {}
    pawl_status status = good ? PAWL_OK : my_conn_fail(c, what, err);
    my_store_give(s, c);
    my_ready_chill(&s->ready);
    if (!good || mine) return status;
    return err_set(err, PAWL_CONFLICT, "\"%s\" belongs to another move (%s), or another process moves it at the same time",
                   s->link.url.name, move);
}
