/* The only place that calls through a store's table: finding a store by its URL, making core's calls, wrappers. */
#ifndef STORE_STORE_H
#define STORE_STORE_H

#include "core/core.h"
#include <pawl/store.h>

/* Finds the type by the URL's scheme (built in, or registered) and opens it. */
pawl_status store_open(const pawl_store_options *options, pawl_store **out, pawl_error *err);
void store_close(pawl_store *store); /* NULL is fine */

/* Makes the call core asked for and fills call->status and call->err. */
void store_call(pawl_store *store, core_call *call);

/* The other callbacks; what a store does not have is PAWL_UNSUPPORTED. */
pawl_status store_read(pawl_store *store, pawl_query *query, pawl_arena *arena, pawl_error *err);
pawl_status store_tx_apply(pawl_store *store, void *connection, pawl_op *ops, int count, pawl_arena *arena, pawl_error *err);
int store_watch_fd(pawl_store *store);
void store_watch_check(pawl_store *store, bool *changed, int64_t *again_us);
pawl_status store_backup(pawl_store *store, const char *path, pawl_backup_fn progress, void *ctx, pawl_error *err);

pawl_status store_set_gate(pawl_store *store, const pawl_gate *gate, pawl_error *err);
pawl_status store_load(pawl_store *store, pawl_load *call, pawl_arena *arena, pawl_error *err);

pawl_status store_drain(pawl_store *store, int64_t node, bool on, const char *by, pawl_error *err);
pawl_status store_feed(pawl_store *store, pawl_feed *call, pawl_error *err);

pawl_status store_check_url(const char *url, pawl_error *err); /* whether there is a store of that kind */

/* Before a store is open. What a kind of store does not have: an empty schema; no findings. */
pawl_status store_schema(const pawl_store_options *options, pawl_schema *out, pawl_arena *arena, pawl_error *err);
void store_examine(const pawl_store_options *options, pawl_store *store, pawl_findings *findings);

/* Findings (findings.c). */
pawl_findings *findings_new(pawl_arena *arena);        /* NULL: no memory */
pawl_checkup findings_checkup(const pawl_findings *f); /* lends what is in the arena */
bool findings_failed(const pawl_findings *f);          /* there was no memory for one of them */

extern const pawl_store_type store_memory_type;
extern const pawl_store_type store_sqlite_type;

/* Wrappers: stores around a store. Each owns `inner` and closes it. */

/* For who writes one: what the wrapper's table takes over from the inner one, and which callbacks it must not have either. */
void store_wrap(pawl_store_type *type, const pawl_store_type *inner);

/* One line per call to the log: what, how long, how it ended. */
pawl_status store_with_trace(pawl_store *inner, const pawl_allocator *a, pawl_log_fn log, void *ctx, pawl_store **out);

typedef enum fault {
    FAULT_NONE,
    FAULT_BEFORE, /* UNAVAILABLE, nothing happened */
    FAULT_AFTER,  /* it happened, and the answer is UNKNOWN */
    FAULT_UNKNOWN /* nothing happened, and the answer is UNKNOWN */
} fault;

/* `decide` is asked before each writing call. */
typedef fault (*fault_fn)(void *ctx, core_call_kind kind);
pawl_status store_with_faults(pawl_store *inner, const pawl_allocator *a, fault_fn decide, void *ctx, pawl_store **out);

#endif
