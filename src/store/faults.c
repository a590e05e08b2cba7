/* A store that fails when told: before the store inside it saw the call, or after, so that its answer is lost. For tests.
 *
 * A lost answer is lost for good: results are wiped, and the bodies of claimed tasks are freed, so whoever reads them all
 * the same is found out.
 */
#include "base/alloc.h"
#include "base/error.h"
#include "store/store.h"

typedef struct faulty {
    pawl_store base;
    pawl_store_type type;
    pawl_store *inner;
    const pawl_allocator *allocator;
    fault_fn decide;
    void *ctx;
} faulty;

static faulty *faulty_of(pawl_store *store) { return (faulty *)store; }

static pawl_status unavailable(pawl_error *err)
{
    return err_set(err, PAWL_UNAVAILABLE, "could not reach the store: a fault was injected before the call");
}

static pawl_status unknown(pawl_error *err)
{
    return err_set(err, PAWL_UNKNOWN, "the store's answer was lost: a fault was injected");
}

/* Whether the call goes to the store inside; if not, *status is the answer. */
static bool goes_through(const faulty *f, core_call_kind kind, fault *fate, pawl_status *status, pawl_error *err)
{
    *fate = f->decide(f->ctx, kind);
    if (*fate == FAULT_BEFORE) *status = unavailable(err);
    else if (*fate == FAULT_UNKNOWN) *status = unknown(err);
    else return true;
    return false;
}

/* Whether the answer that just came is lost. */
static bool lost(fault fate, pawl_status *status, pawl_error *err)
{
    if (fate != FAULT_AFTER || *status != PAWL_OK) return false;
    *status = unknown(err);
    return true;
}

static void faulty_close(pawl_store *store)
{
    faulty *f = faulty_of(store);
    store_close(f->inner);
    alloc_free(f->allocator, f);
}

static pawl_status faulty_register(pawl_store *store, pawl_registration *call, pawl_error *err)
{
    faulty *f = faulty_of(store);
    fault fate;
    pawl_status status;
    if (!goes_through(f, CORE_REGISTER, &fate, &status, err)) return status;
    status = f->inner->type->register_node(f->inner, call, err);
    if (lost(fate, &status, err)) call->node = 0;
    return status;
}

static pawl_status faulty_leave(pawl_store *store, int64_t node, pawl_error *err)
{
    faulty *f = faulty_of(store);
    fault fate;
    pawl_status status;
    if (!goes_through(f, CORE_LEAVE, &fate, &status, err)) return status;
    status = f->inner->type->leave(f->inner, node, err);
    lost(fate, &status, err);
    return status;
}

static pawl_status faulty_take_ids(pawl_store *store, pawl_ids *call, pawl_error *err)
{
    faulty *f = faulty_of(store);
    fault fate;
    pawl_status status;
    if (!goes_through(f, CORE_IDS, &fate, &status, err)) return status;
    status = f->inner->type->take_ids(f->inner, call, err);
    if (lost(fate, &status, err)) {
        call->out_number = 0;
        call->floor_ms = call->ceiling_ms = 0;
    }
    return status;
}

static void wipe(pawl_op *op)
{
    op->result = PAWL_OP_NONE;
    op->out_id = op->out_fence = op->out_run_at_us = 0;
    op->out_state = PAWL_STATE_NONE;
    for (int i = 0; op->kind == PAWL_OP_FINISH && i < op->u.finish.spawns_count; i++) wipe(&op->u.finish.spawns[i]);
}

static pawl_status faulty_apply(pawl_store *store, pawl_batch *batch, pawl_arena *arena, pawl_error *err)
{
    faulty *f = faulty_of(store);
    fault fate;
    pawl_status status;
    if (!goes_through(f, CORE_APPLY, &fate, &status, err)) return status;
    status = f->inner->type->apply(f->inner, batch, arena, err);
    if (lost(fate, &status, err)) {
        batch->store_now_us = 0;
        batch->node_dead = false;
        for (int i = 0; i < batch->count; i++) wipe(batch->ops[i]);
    }
    return status;
}

static pawl_status faulty_claim(pawl_store *store, pawl_claim *call, pawl_arena *arena, pawl_error *err)
{
    faulty *f = faulty_of(store);
    fault fate;
    pawl_status status;
    if (!goes_through(f, CORE_CLAIM, &fate, &status, err)) return status;
    status = f->inner->type->claim(f->inner, call, arena, err);
    if (lost(fate, &status, err)) {
        for (int i = 0; i < call->tasks_count; i++) {
            pawl_body_free(call->allocator, call->tasks[i].body);
            call->tasks[i] = (pawl_claimed){0};
        }
        call->tasks_count = 0;
        call->news = (pawl_news){0};
    }
    return status;
}

static pawl_status faulty_renew(pawl_store *store, pawl_renewal *call, pawl_error *err)
{
    faulty *f = faulty_of(store);
    fault fate;
    pawl_status status;
    if (!goes_through(f, CORE_RENEW, &fate, &status, err)) return status;
    status = f->inner->type->renew(f->inner, call, err);
    if (lost(fate, &status, err)) {
        call->held = 0;
        call->news = (pawl_news){0};
    }
    return status;
}

static pawl_status faulty_held(pawl_store *store, int64_t node, pawl_lease **leases, int *count, pawl_arena *arena,
                               pawl_error *err)
{
    pawl_store *inner = faulty_of(store)->inner;
    return inner->type->held(inner, node, leases, count, arena, err);
}

static pawl_status faulty_rescue(pawl_store *store, pawl_rescue *call, pawl_error *err)
{
    faulty *f = faulty_of(store);
    fault fate;
    pawl_status status;
    if (!goes_through(f, CORE_RESCUE, &fate, &status, err)) return status;
    status = f->inner->type->rescue(f->inner, call, err);
    if (lost(fate, &status, err)) {
        call->refused = call->more = false;
        call->freed = call->failed = 0;
    }
    return status;
}

static pawl_status faulty_sweep(pawl_store *store, pawl_sweep *call, pawl_error *err)
{
    faulty *f = faulty_of(store);
    fault fate;
    pawl_status status;
    if (!goes_through(f, CORE_SWEEP, &fate, &status, err)) return status;
    status = f->inner->type->sweep(f->inner, call, err);
    if (lost(fate, &status, err)) call->removed = call->expiring = 0;
    return status;
}

static pawl_status faulty_read(pawl_store *store, pawl_query *query, pawl_arena *arena, pawl_error *err)
{
    return store_read(faulty_of(store)->inner, query, arena, err);
}

static pawl_status faulty_tx_apply(pawl_store *store, void *connection, pawl_op *ops, int count, pawl_arena *arena,
                                   pawl_error *err)
{
    return store_tx_apply(faulty_of(store)->inner, connection, ops, count, arena, err);
}

static int faulty_watch_fd(pawl_store *store) { return store_watch_fd(faulty_of(store)->inner); }

static void faulty_watch_check(pawl_store *store, bool *changed, int64_t *again_us)
{
    store_watch_check(faulty_of(store)->inner, changed, again_us);
}

static pawl_status faulty_backup(pawl_store *store, const char *path, pawl_backup_fn progress, void *ctx, pawl_error *err)
{
    return store_backup(faulty_of(store)->inner, path, progress, ctx, err);
}

static pawl_status faulty_set_gate(pawl_store *store, const pawl_gate *gate, pawl_error *err)
{
    return store_set_gate(faulty_of(store)->inner, gate, err);
}

static pawl_status faulty_load(pawl_store *store, pawl_load *call, pawl_arena *arena, pawl_error *err)
{
    return store_load(faulty_of(store)->inner, call, arena, err);
}

static pawl_status faulty_feed(pawl_store *store, pawl_feed *call, pawl_error *err)
{
    return store_feed(faulty_of(store)->inner, call, err);
}

static pawl_status faulty_drain(pawl_store *store, int64_t node, bool on, const char *by, pawl_error *err)
{
    return store_drain(faulty_of(store)->inner, node, on, by, err);
}

static const pawl_store_type callbacks = {
    .close = faulty_close,
    .register_node = faulty_register,
    .leave = faulty_leave,
    .take_ids = faulty_take_ids,
    .apply = faulty_apply,
    .claim = faulty_claim,
    .renew = faulty_renew,
    .held = faulty_held,
    .rescue = faulty_rescue,
    .sweep = faulty_sweep,
    .read = faulty_read,
    .tx_apply = faulty_tx_apply,
    .watch_fd = faulty_watch_fd,
    .watch_check = faulty_watch_check,
    .backup = faulty_backup,
    .set_gate = faulty_set_gate,
    .load = faulty_load,
    .feed = faulty_feed,
    .drain = faulty_drain,
};

pawl_status store_with_faults(pawl_store *inner, const pawl_allocator *a, fault_fn decide, void *ctx, pawl_store **out)
{
    faulty *f = alloc_new(a, sizeof *f);
    if (!f) return PAWL_NO_MEMORY;
    *f = (faulty){.type = callbacks, .inner = inner, .allocator = a, .decide = decide, .ctx = ctx};
    f->base.type = &f->type;
    store_wrap(&f->type, inner->type);
    *out = &f->base;
    return PAWL_OK;
}
