/* Stores with a defect: a store that does almost everything right. Each must be found out. */
#include "model.h"
#include <stdlib.h>

typedef struct broken {
    pawl_store base;
    pawl_store_type type;
    pawl_store *inner;
    int defect;
    int64_t last_node, last_number;
} broken;

enum {
    NO_RECEIPTS = 1, /* a batch sent again is applied again */
    NO_FENCES,       /* a finish is accepted under any fence */
    NO_FAILURES,     /* retries are not counted */
    BY_ID,           /* claims give the oldest, not the most urgent */
    LATE_CANCEL,     /* a cancel is not told to the holder */
    EAGER_RESCUE,    /* the living are rescued */
    KEYS_FOR_ALL,    /* tenants share their keys */
    FORGETFUL        /* the audit level is ignored */
};

const char *broken_name(int defect)
{
    static const char *const names[] = {
        "nothing",          "no receipts",          "no fences",          "failures not counted", "claims by id",
        "cancels not told", "rescue of the living", "tenants share keys", "audit level ignored"};
    return names[defect];
}

static broken *of(pawl_store *store) { return (broken *)store; }

static void broken_close(pawl_store *store)
{
    store_close(of(store)->inner);
    free(store);
}

static pawl_status broken_register(pawl_store *store, pawl_registration *call, pawl_error *err)
{
    return of(store)->inner->type->register_node(of(store)->inner, call, err);
}

static pawl_status broken_leave(pawl_store *store, int64_t node, pawl_error *err)
{
    return of(store)->inner->type->leave(of(store)->inner, node, err);
}

static pawl_status broken_ids(pawl_store *store, pawl_ids *call, pawl_error *err)
{
    return of(store)->inner->type->take_ids(of(store)->inner, call, err);
}

static void spoil(broken *b, pawl_op *op)
{
    pawl_query query = {.kind = PAWL_QUERY_STATE, .id = op->id};
    if (b->defect == NO_FENCES && op->kind == PAWL_OP_FINISH && store_read(b->inner, &query, NULL, NULL) == PAWL_OK)
        op->fence = query.fence;
    if (b->defect == NO_FAILURES && op->kind == PAWL_OP_RELEASE) op->u.release.failure = false;
    if (b->defect == KEYS_FOR_ALL && op->kind == PAWL_OP_INSERT && op->u.insert.body->key) op->u.insert.body->tenant = "";
    if (b->defect == FORGETFUL) op->audit = PAWL_AUDIT_FULL;
}

static pawl_status broken_apply(pawl_store *store, pawl_batch *batch, pawl_arena *arena, pawl_error *err)
{
    broken *b = of(store);
    for (int i = 0; i < batch->count; i++) spoil(b, batch->ops[i]);
    bool again = batch->node && batch->node == b->last_node && batch->number == b->last_number;
    b->last_node = batch->node;
    b->last_number = batch->number;
    if (b->defect == NO_RECEIPTS && again) batch->node = 0;
    return b->inner->type->apply(b->inner, batch, arena, err);
}

static int by_id(const void *a, const void *b)
{
    pawl_id x = ((const pawl_claimed *)a)->body->id, y = ((const pawl_claimed *)b)->body->id;
    return x < y ? -1 : x > y;
}

static void hide_cancels(const broken *b, pawl_news *news)
{
    if (b->defect == LATE_CANCEL) news->cancels_count = 0;
}

static pawl_status broken_claim(pawl_store *store, pawl_claim *call, pawl_arena *arena, pawl_error *err)
{
    broken *b = of(store);
    pawl_status status = b->inner->type->claim(b->inner, call, arena, err);
    if (b->defect == BY_ID && call->tasks_count > 1) qsort(call->tasks, (size_t)call->tasks_count, sizeof *call->tasks, by_id);
    hide_cancels(b, &call->news);
    return status;
}

static pawl_status broken_renew(pawl_store *store, pawl_renewal *call, pawl_error *err)
{
    pawl_status status = of(store)->inner->type->renew(of(store)->inner, call, err);
    hide_cancels(of(store), &call->news);
    return status;
}

static pawl_status broken_held(pawl_store *store, int64_t node, pawl_lease **leases, int *count, pawl_arena *arena,
                               pawl_error *err)
{
    return of(store)->inner->type->held(of(store)->inner, node, leases, count, arena, err);
}

/* Tries every renewal number. */
static pawl_status broken_rescue(pawl_store *store, pawl_rescue *call, pawl_error *err)
{
    broken *b = of(store);
    pawl_status status = b->inner->type->rescue(b->inner, call, err);
    for (int64_t renewal = 0; b->defect == EAGER_RESCUE && call->refused && renewal < 50; renewal++) {
        call->renewal = renewal;
        status = b->inner->type->rescue(b->inner, call, err);
    }
    return status;
}

static pawl_status broken_sweep(pawl_store *store, pawl_sweep *call, pawl_error *err)
{
    return of(store)->inner->type->sweep(of(store)->inner, call, err);
}

static pawl_status broken_read(pawl_store *store, pawl_query *query, pawl_arena *arena, pawl_error *err)
{
    return store_read(of(store)->inner, query, arena, err);
}

static int broken_watch_fd(pawl_store *store) { return store_watch_fd(of(store)->inner); }

static void broken_watch_check(pawl_store *store, bool *changed, int64_t *again_us)
{
    store_watch_check(of(store)->inner, changed, again_us);
}

pawl_store *broken_wrap(pawl_store *store, int defect)
{
    broken *b = calloc(1, sizeof *b);
    if (!b) abort();
    b->inner = store;
    b->defect = defect;
    b->type = (pawl_store_type){.close = broken_close,
                                .register_node = broken_register,
                                .leave = broken_leave,
                                .take_ids = broken_ids,
                                .apply = broken_apply,
                                .claim = broken_claim,
                                .renew = broken_renew,
                                .held = broken_held,
                                .rescue = broken_rescue,
                                .sweep = broken_sweep,
                                .read = broken_read,
                                .watch_fd = broken_watch_fd,
                                .watch_check = broken_watch_check};
    store_wrap(&b->type, store->type);
    b->base.type = &b->type;
    return &b->base;
}
