/* A store that tells what is asked of the store inside it: one line per call, with what matters of it, how it ended and
 * how long it took. The line is logged after the call, so lines of concurrent calls stand in the order in which these
 * ended.
 */
#include "base/alloc.h"
#include "base/error.h"
#include "store/store.h"
#include <stdarg.h>
#include <stdio.h>
#include <time.h>

typedef struct traced {
    pawl_store base;
    pawl_store_type type;
    pawl_store *inner;
    const pawl_allocator *allocator;
    pawl_log_fn log;
    void *ctx;
} traced;

static traced *traced_of(pawl_store *store) { return (traced *)store; }

static int64_t monotonic_us(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * PAWL_SECOND + t.tv_nsec / 1000;
}

/* "store: <what> -> <status> in <n> us", the error's message behind it. */
static pawl_status tell(const traced *s, int64_t began_us, pawl_status status, const pawl_error *err, const char *fmt, ...)
    PAWL_PRINTF(5, 6);
static pawl_status tell(const traced *s, int64_t began_us, pawl_status status, const pawl_error *err, const char *fmt, ...)
{
    char what[256], line[1024];
    int64_t took_us = monotonic_us() - began_us;
    va_list args;
    va_start(args, fmt);
    vsnprintf(what, sizeof what, fmt, args);
    va_end(args);
    bool failed = status != PAWL_OK;
    snprintf(line, sizeof line, "store: %s -> %s in %lld us%s%s", what, pawl_status_name(status), (long long)took_us,
             failed && err ? ": " : "", failed && err ? err->message : "");
    s->log(s->ctx, failed ? PAWL_WARN : PAWL_DEBUG, line);
    return status;
}

static void trace_close(pawl_store *store)
{
    traced *s = traced_of(store);
    int64_t began_us = monotonic_us();
    store_close(s->inner);
    tell(s, began_us, PAWL_OK, NULL, "close");
    alloc_free(s->allocator, s);
}

static pawl_status trace_register(pawl_store *store, pawl_registration *call, pawl_error *err)
{
    traced *s = traced_of(store);
    int64_t began_us = monotonic_us();
    pawl_status status = s->inner->type->register_node(s->inner, call, err);
    return tell(s, began_us, status, err, "register \"%s\": node %lld", call->name ? call->name : "", (long long)call->node);
}

static pawl_status trace_leave(pawl_store *store, int64_t node, pawl_error *err)
{
    traced *s = traced_of(store);
    int64_t began_us = monotonic_us();
    pawl_status status = s->inner->type->leave(s->inner, node, err);
    return tell(s, began_us, status, err, "leave node %lld", (long long)node);
}

static pawl_status trace_take_ids(pawl_store *store, pawl_ids *call, pawl_error *err)
{
    traced *s = traced_of(store);
    int64_t began_us = monotonic_us();
    pawl_status status = s->inner->type->take_ids(s->inner, call, err);
    return tell(s, began_us, status, err, "%s ids of node %lld: number %d, above %lld, below %lld",
                call->give_back ? "give back" : "take", (long long)call->node, call->give_back ? call->number : call->out_number,
                (long long)call->floor_ms, (long long)call->ceiling_ms);
}

static pawl_status trace_apply(pawl_store *store, pawl_batch *batch, pawl_arena *arena, pawl_error *err)
{
    traced *s = traced_of(store);
    int64_t began_us = monotonic_us();
    pawl_status status = s->inner->type->apply(s->inner, batch, arena, err);
    int done = 0;
    for (int i = 0; i < batch->count; i++) done += batch->ops[i]->result == PAWL_OP_DONE;
    return tell(s, began_us, status, err, "apply batch %lld of node %lld, lane %d: %d operations, %d done%s",
                (long long)batch->number, (long long)batch->node, batch->lane, batch->count, done,
                batch->node_dead ? ", the node is dead" : "");
}

static pawl_status trace_claim(pawl_store *store, pawl_claim *call, pawl_arena *arena, pawl_error *err)
{
    traced *s = traced_of(store);
    int64_t began_us = monotonic_us();
    pawl_status status = s->inner->type->claim(s->inner, call, arena, err);
    int wanted = 0;
    for (int i = 0; i < call->wants_count; i++) wanted += call->wants[i].free + call->wants[i].prefetch;
    return tell(s, began_us, status, err, "claim for node %lld: %d of %d from %d queues%s", (long long)call->node,
                call->tasks_count, wanted, call->wants_count, call->news.node_dead ? ", the node is dead" : "");
}

static pawl_status trace_renew(pawl_store *store, pawl_renewal *call, pawl_error *err)
{
    traced *s = traced_of(store);
    int64_t began_us = monotonic_us();
    pawl_status status = s->inner->type->renew(s->inner, call, err);
    return tell(s, began_us, status, err, "renew node %lld: holds %lld%s", (long long)call->node, (long long)call->held,
                call->news.node_dead ? ", the node is dead" : "");
}

static pawl_status trace_held(pawl_store *store, int64_t node, pawl_lease **leases, int *count, pawl_arena *arena,
                              pawl_error *err)
{
    traced *s = traced_of(store);
    int64_t began_us = monotonic_us();
    pawl_status status = s->inner->type->held(s->inner, node, leases, count, arena, err);
    return tell(s, began_us, status, err, "leases of node %lld: %d", (long long)node, status ? 0 : *count);
}

static pawl_status trace_rescue(pawl_store *store, pawl_rescue *call, pawl_error *err)
{
    traced *s = traced_of(store);
    int64_t began_us = monotonic_us();
    pawl_status status = s->inner->type->rescue(s->inner, call, err);
    return tell(s, began_us, status, err, "rescue node %lld by %lld: %s%d freed, %d failed%s", (long long)call->victim,
                (long long)call->node, call->refused ? "refused, " : "", call->freed, call->failed, call->more ? ", more" : "");
}

static pawl_status trace_sweep(pawl_store *store, pawl_sweep *call, pawl_error *err)
{
    traced *s = traced_of(store);
    int64_t began_us = monotonic_us();
    pawl_status status = s->inner->type->sweep(s->inner, call, err);
    return tell(s, began_us, status, err, "sweep: %lld removed%s", (long long)call->removed, call->more ? ", more" : "");
}

static const char *query_name(pawl_query_kind kind)
{
    static const char *const names[] = {
        [PAWL_QUERY_GET] = "get",           [PAWL_QUERY_LIST] = "list",   [PAWL_QUERY_TRAIL] = "trail",
        [PAWL_QUERY_STATS] = "stats",       [PAWL_QUERY_NODES] = "nodes", [PAWL_QUERY_STATE] = "state",
        [PAWL_QUERY_SETTINGS] = "settings", [PAWL_QUERY_GATE] = "gate",   [PAWL_QUERY_DUMP] = "dump",
        [PAWL_QUERY_LIMITS] = "limits",     [PAWL_QUERY_ACTS] = "acts"};
    return kind > 0 && kind < sizeof names / sizeof *names ? names[kind] : "?";
}

static pawl_status trace_read(pawl_store *store, pawl_query *query, pawl_arena *arena, pawl_error *err)
{
    traced *s = traced_of(store);
    char id[PAWL_ID_TEXT] = "";
    int64_t began_us = monotonic_us();
    pawl_status status = s->inner->type->read(s->inner, query, arena, err);
    if (query->id) pawl_id_format(query->id, id);
    return tell(s, began_us, status, err, "read %s%s%s", query_name(query->kind), id[0] ? " " : "", id);
}

static pawl_status trace_tx_apply(pawl_store *store, void *connection, pawl_op *ops, int count, pawl_arena *arena,
                                  pawl_error *err)
{
    traced *s = traced_of(store);
    int64_t began_us = monotonic_us();
    pawl_status status = s->inner->type->tx_apply(s->inner, connection, ops, count, arena, err);
    return tell(s, began_us, status, err, "apply in the caller's transaction: %d operations", count);
}

static int trace_watch_fd(pawl_store *store) { return traced_of(store)->inner->type->watch_fd(traced_of(store)->inner); }

static void trace_watch_check(pawl_store *store, bool *changed, int64_t *again_us)
{
    traced *s = traced_of(store);
    int64_t began_us = monotonic_us();
    s->inner->type->watch_check(s->inner, changed, again_us);
    tell(s, began_us, PAWL_OK, NULL, "watch: %s", *changed ? "changed" : "nothing new");
}

static pawl_status trace_backup(pawl_store *store, const char *path, pawl_backup_fn progress, void *ctx, pawl_error *err)
{
    traced *s = traced_of(store);
    int64_t began_us = monotonic_us();
    pawl_status status = s->inner->type->backup(s->inner, path, progress, ctx, err);
    return tell(s, began_us, status, err, "back up to \"%s\"", path);
}

static pawl_status trace_set_gate(pawl_store *store, const pawl_gate *gate, pawl_error *err)
{
    traced *s = traced_of(store);
    int64_t began_us = monotonic_us();
    pawl_status status = s->inner->type->set_gate(s->inner, gate, err);
    return tell(s, began_us, status, err, "set the gate to %d", (int)gate->mode);
}

static pawl_status trace_load(pawl_store *store, pawl_load *call, pawl_arena *arena, pawl_error *err)
{
    traced *s = traced_of(store);
    int64_t began_us = monotonic_us();
    pawl_status status = s->inner->type->load(s->inner, call, arena, err);
    return tell(s, began_us, status, err, "load %d rows of part %d", call->page->count, (int)call->page->part);
}

static pawl_status trace_feed(pawl_store *store, pawl_feed *call, pawl_error *err)
{
    traced *s = traced_of(store);
    int64_t began_us = monotonic_us();
    pawl_status status = s->inner->type->feed(s->inner, call, err);
    return tell(s, began_us, status, err, "tell %d facts", call->count);
}

static pawl_status trace_drain(pawl_store *store, int64_t node, bool on, const char *by, pawl_error *err)
{
    traced *s = traced_of(store);
    int64_t began_us = monotonic_us();
    pawl_status status = s->inner->type->drain(s->inner, node, on, by, err);
    return tell(s, began_us, status, err, "%s node %lld", on ? "drain" : "undrain", (long long)node);
}

static const pawl_store_type callbacks = {
    .close = trace_close,
    .register_node = trace_register,
    .leave = trace_leave,
    .take_ids = trace_take_ids,
    .apply = trace_apply,
    .claim = trace_claim,
    .renew = trace_renew,
    .held = trace_held,
    .rescue = trace_rescue,
    .sweep = trace_sweep,
    .read = trace_read,
    .tx_apply = trace_tx_apply,
    .watch_fd = trace_watch_fd,
    .watch_check = trace_watch_check,
    .backup = trace_backup,
    .set_gate = trace_set_gate,
    .load = trace_load,
    .feed = trace_feed,
    .drain = trace_drain,
};

pawl_status store_with_trace(pawl_store *inner, const pawl_allocator *a, pawl_log_fn log, void *ctx, pawl_store **out)
{
    traced *s = alloc_new(a, sizeof *s);
    if (!s) return PAWL_NO_MEMORY;
    *s = (traced){.type = callbacks, .inner = inner, .allocator = a, .log = log, .ctx = ctx};
    s->base.type = &s->type;
    store_wrap(&s->type, inner->type);
    *out = &s->base;
    return PAWL_OK;
}
