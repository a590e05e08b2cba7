/* The gate of a store, see pawl/store.h: whether its tasks move to another store. */
#ifndef RUNTIME_GATE_H
#define RUNTIME_GATE_H

#include "runtime/runtime.h"

#define GATE_COMPLETE "complete" /* the position of both stores once a move is over */

pawl_status gate_look(pawl_store *store, pawl_arena *arena, pawl_gate *out, pawl_error *err); /* OPEN where there is none */
bool gate_shut(const pawl_gate *g);                                                           /* nothing comes, nothing starts */
pawl_status gate_say(const pawl_gate *g, const char *url, pawl_error *err);                   /* PAWL_MOVED, and where to */
pawl_status gate_check(runtime *rt, pawl_error *err);                                         /* MOVED: it is shut */
void gate_explain(runtime *rt, pawl_error *err); /* why a call was answered with MOVED; on the caller's thread */

#endif
