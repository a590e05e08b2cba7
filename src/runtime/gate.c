/* The gate of a store whose tasks move to another one: what callers are told, and where their tasks went. */
#include "runtime/gate.h"
#include "base/error.h"
#include <string.h>

bool gate_shut(const pawl_gate *g) { return g->mode == PAWL_GATE_CLOSED || g->mode == PAWL_GATE_ARRIVING; }

static const char *peer_of(const pawl_gate *g) { return g->peer && g->peer[0] ? g->peer : "another store"; }

pawl_status gate_say(const pawl_gate *g, const char *url, pawl_error *err)
{
    if (g->mode == PAWL_GATE_ARRIVING)
        return err_set(err, PAWL_MOVED, "\"%.180s\" is not in use yet: the move from \"%.180s\" is not complete", url,
                       peer_of(g));
    bool over = g->position && strcmp(g->position, GATE_COMPLETE) == 0;
    return err_set(err, PAWL_MOVED, "\"%.180s\" is closed: its tasks %s to \"%.180s\"; use that store%s", url,
                   over ? "have moved" : "are moving", peer_of(g), over ? "" : " when the move is complete");
}

pawl_status gate_look(pawl_store *store, pawl_arena *arena, pawl_gate *out, pawl_error *err)
{
    *out = (pawl_gate){0};
    if (!store->type->set_gate) return PAWL_OK;
    pawl_query query = {.kind = PAWL_QUERY_GATE};
    pawl_status status = store_read(store, &query, arena, err);
    if (!status) *out = *query.gate;
    return status;
}

pawl_status gate_check(runtime *rt, pawl_error *err)
{
    pawl_gate gate;
    pawl_arena *arena = arena_new(&rt->allocator, 0);
    if (!arena) return err_set(err, PAWL_NO_MEMORY, "could not look at the store: out of memory");
    pawl_status status = gate_look(rt->store, arena, &gate, err);
    if (!status && gate_shut(&gate)) status = gate_say(&gate, rt->url, err);
    arena_free(arena);
    return status;
}

void gate_explain(runtime *rt, pawl_error *err)
{
    pawl_error why;
    if (gate_check(rt, &why) == PAWL_MOVED) *err = why;
    else err_set(err, PAWL_MOVED, "\"%.300s\" was closed a moment ago, nothing was stored: try again", rt->url);
}
