/* The only calls through a store's table. */
#include "store/store.h"
#include "base/error.h"
#include "store/registry.h"
#include <string.h>

static pawl_status find_type(const char *url, const pawl_store_type **out, pawl_error *err)
{
    size_t len = url ? strcspn(url, ":") : 0;
    if (len == 0 || url[len] != ':')
        return err_set(err, PAWL_INVALID,
                       "cannot open store \"%s\": its URL must begin with a kind; write sqlite:PATH, postgres://HOST/DATABASE, "
                       "mysql://HOST/DATABASE or memory:",
                       url ? url : "");
    pawl_status status = registry_find(url, len, out, err);
    if (status != PAWL_NOT_FOUND) return status;
    return err_set(err, PAWL_UNSUPPORTED,
                   "cannot open store \"%.*s:...\": this build has no store of that kind; there are memory:, sqlite:PATH, "
                   "postgres://HOST/DATABASE and mysql://HOST/DATABASE",
                   len < 64 ? (int)len : 64, url);
}

pawl_status store_open(const pawl_store_options *options, pawl_store **out, pawl_error *err)
{
    const pawl_store_type *type = NULL;
    pawl_status status = find_type(options->url, &type, err);
    return status ? status : type->open(options, out, err);
}

pawl_status store_schema(const pawl_store_options *options, pawl_schema *out, pawl_arena *arena, pawl_error *err)
{
    const pawl_store_type *type = NULL;
    pawl_status status = find_type(options->url, &type, err);
    *out = (pawl_schema){.fits = true};
    return status || !type->schema ? status : type->schema(options, out, arena, err);
}

pawl_status store_check_url(const char *url, pawl_error *err)
{
    const pawl_store_type *type = NULL;
    return find_type(url, &type, err);
}

void store_examine(const pawl_store_options *options, pawl_store *store, pawl_findings *findings)
{
    const pawl_store_type *type = NULL;
    if (find_type(options->url, &type, NULL) == PAWL_OK && type->examine) type->examine(options, store, findings);
}

void store_close(pawl_store *store)
{
    if (store) store->type->close(store);
}

static pawl_status due(pawl_store *store, core_call *call)
{
    pawl_query query = {.kind = PAWL_QUERY_DUE, .due = &call->u.due};
    if (!store->type->schedules) return PAWL_OK;
    return store->type->read(store, &query, call->arena, &call->err);
}

static pawl_status make(pawl_store *store, core_call *call)
{
    const pawl_store_type *type = store->type;
    switch (call->kind) {
    case CORE_REGISTER: return type->register_node(store, &call->u.registration, &call->err);
    case CORE_LEAVE: return type->leave(store, call->u.leave, &call->err);
    case CORE_IDS: return type->take_ids(store, &call->u.ids, &call->err);
    case CORE_APPLY: return type->apply(store, &call->u.batch, call->arena, &call->err);
    case CORE_CLAIM: return type->claim(store, &call->u.claim, call->arena, &call->err);
    case CORE_RENEW: return type->renew(store, &call->u.renewal, &call->err);
    case CORE_HELD:
        return type->held(store, call->u.held.node, &call->u.held.leases, &call->u.held.count, call->arena, &call->err);
    case CORE_RESCUE: return type->rescue(store, &call->u.rescue, &call->err);
    case CORE_SWEEP: return type->sweep(store, &call->u.sweep, &call->err);
    case CORE_DUE: return due(store, call);
    default: return err_set(&call->err, PAWL_INTERNAL, "there is no call %d to a store", (int)call->kind);
    }
}

void store_call(pawl_store *store, core_call *call) { call->status = make(store, call); }

static void clear_answers(pawl_dump *d)
{
    *d = (pawl_dump){.part = d->part,
                     .after = d->after,
                     .next = d->after,
                     .states = d->states,
                     .since_us = d->since_us,
                     .limit = d->limit,
                     .bytes = d->bytes,
                     .no_counts = d->no_counts};
}

pawl_status store_read(pawl_store *store, pawl_query *query, pawl_arena *arena, pawl_error *err)
{
    if (query->dump) clear_answers(query->dump);
    return store->type->read(store, query, arena, err);
}

pawl_status store_tx_apply(pawl_store *store, void *connection, pawl_op *ops, int count, pawl_arena *arena, pawl_error *err)
{
    if (!store->type->tx_apply)
        return err_set(err, PAWL_UNSUPPORTED, "store \"%s\" has no transactions of the caller's own; dispatch without one",
                       store->type->scheme);
    return store->type->tx_apply(store, connection, ops, count, arena, err);
}

int store_watch_fd(pawl_store *store) { return store->type->watch_fd(store); }

void store_watch_check(pawl_store *store, bool *changed, int64_t *again_us)
{
    store->type->watch_check(store, changed, again_us);
}

pawl_status store_backup(pawl_store *store, const char *path, pawl_backup_fn progress, void *ctx, pawl_error *err)
{
    if (!store->type->backup) return err_set(err, PAWL_UNSUPPORTED, "store \"%s\" cannot be backed up", store->type->scheme);
    return store->type->backup(store, path, progress, ctx, err);
}

static pawl_status cannot_move(const pawl_store *store, pawl_error *err)
{
    return err_set(err, PAWL_UNSUPPORTED, "tasks cannot be moved from or to stores of the kind \"%s:\"", store->type->scheme);
}

pawl_status store_set_gate(pawl_store *store, const pawl_gate *gate, pawl_error *err)
{
    return store->type->set_gate ? store->type->set_gate(store, gate, err) : cannot_move(store, err);
}

pawl_status store_load(pawl_store *store, pawl_load *call, pawl_arena *arena, pawl_error *err)
{
    bool limits = call->page->part == PAWL_PART_LIMITS || call->page->part == PAWL_PART_BUDGETS;
    if (store->type->load && limits && !store->type->limits)
        return err_set(err, PAWL_UNSUPPORTED, "stores of the kind \"%s\" keep no rate limits", store->type->scheme);
    return store->type->load ? store->type->load(store, call, arena, err) : cannot_move(store, err);
}

pawl_status store_feed(pawl_store *store, pawl_feed *call, pawl_error *err)
{
    if (!store->type->feed) return err_set(err, PAWL_UNSUPPORTED, "stores of the kind \"%s:\" have no feed", store->type->scheme);
    return store->type->feed(store, call, err);
}

pawl_status store_drain(pawl_store *store, int64_t node, bool on, const char *by, pawl_error *err)
{
    if (!store->type->drain)
        return err_set(err, PAWL_UNSUPPORTED, "nodes cannot be drained through stores of the kind \"%s:\"", store->type->scheme);
    return store->type->drain(store, node, on, by, err);
}

uint64_t pawl_id_sum(pawl_id id)
{
    uint64_t bits = (uint64_t)id;
    return (bits & 0x7fffffff) * 1812433253 + (bits >> 31) * 69069;
}

void store_wrap(pawl_store_type *type, const pawl_store_type *inner)
{
    type->version = inner->version;
    type->scheme = inner->scheme;
    type->blocking = inner->blocking;
    type->durable = inner->durable;
    type->limits = inner->limits;
    type->places = inner->places;
    type->schedules = inner->schedules;
    type->families = inner->families;
    type->lanes = inner->lanes;
    type->open = inner->open;
    type->schema = inner->schema;
    type->examine = inner->examine;
    if (!inner->tx_apply) type->tx_apply = NULL;
    if (!inner->backup) type->backup = NULL;
    if (!inner->set_gate) type->set_gate = NULL;
    if (!inner->load) type->load = NULL;
    if (!inner->feed) type->feed = NULL;
    if (!inner->drain) type->drain = NULL;
}
