/* Dispatch: one task, many, with a callback, inside the caller's own transaction. Everything is checked and copied before
 * anything is sent; what the store made of each task comes back in its receipt. */
#include "core/body.h"
#include "runtime/gate.h"
#include <stdio.h>

#define DRAW_TRIES 3

/* ---- one task as an operation -------------------------------------------------------------------------------------------- */

static pawl_status no_memory(pawl_error *err) { return err_set(err, PAWL_NO_MEMORY, "could not take the task: out of memory"); }

static pawl_body body_of(runtime *rt, const pawl_task *task, const char *queue)
{
    return (pawl_body){.id = task->id,
                       .type = task->type,
                       .queue = queue,
                       .tenant = task->tenant ? task->tenant : "",
                       .key = task->key,
                       .content_type = task->content_type,
                       .created_by = task->created_by,
                       .traceparent = task->traceparent,
                       .headers = task->headers,
                       .payload = task->payload.len ? task->payload : (pawl_bytes){0},
                       .rate_key = config_rate_key(rt, task),
                       .priority = task->priority,
                       .max_attempts = task->max_attempts,
                       .timeout_us = task->timeout_us,
                       .audit = task->audit};
}

pawl_status dispatch_body(runtime *rt, const pawl_task *task, pawl_body **out, pawl_error *err)
{
    pawl_status status = valid_task(rt, task, NULL, err);
    if (status) return status;
    pawl_body body = body_of(rt, task, task->queue ? task->queue : config_queue_of(rt, task->type));
    *out = pawl_body_copy(&rt->allocator, &body);
    return *out ? PAWL_OK : no_memory(err);
}

void dispatch_insert(pawl_op *op, pawl_body *body, int64_t delay_us, int64_t at_us)
{
    op->kind = PAWL_OP_INSERT;
    op->id = body->id;
    op->u.insert.body = body;
    op->u.insert.delay_us = delay_us;
    op->u.insert.at_us = at_us;
    op->u.insert.may_exist = body->id != 0;
}

static pawl_receipt receipt_of(const pawl_op *op, pawl_status status)
{
    if (status == PAWL_UNKNOWN)
        return (pawl_receipt){.status = status, .id = op->id}; /* the store may be writing the result now */
    switch (op->result) {
    case PAWL_OP_DONE: return (pawl_receipt){PAWL_OK, PAWL_CREATED, op->out_id};
    case PAWL_OP_EXISTING: return (pawl_receipt){PAWL_OK, PAWL_EXISTING, op->out_id};
    case PAWL_OP_UPDATED: return (pawl_receipt){PAWL_OK, PAWL_UPDATED, op->out_id};
    case PAWL_OP_REPLACED: return (pawl_receipt){PAWL_OK, PAWL_REPLACED, op->out_id};
    case PAWL_OP_FULL: return (pawl_receipt){.status = PAWL_FULL};
    case PAWL_OP_REFUSED: return (pawl_receipt){.status = PAWL_TOO_LARGE};
    case PAWL_OP_CLOSED: return (pawl_receipt){.status = PAWL_MOVED};
    case PAWL_OP_NOT_FOUND: return (pawl_receipt){.status = PAWL_NOT_FOUND};
    case PAWL_OP_CONFLICT: return (pawl_receipt){.status = PAWL_CONFLICT};
    default: return (pawl_receipt){.status = status ? status : PAWL_INTERNAL};
    }
}

static pawl_status refused(pawl_error *err)
{
    return err_set(err, PAWL_TOO_LARGE, "the store cannot hold the task: make it smaller");
}

static pawl_status moved(pawl_error *err)
{
    return err_set(err, PAWL_MOVED, "nothing was stored: %s", pawl_status_text(PAWL_MOVED));
}

static void read_one(ticket *t, const core_request *r)
{
    t->receipt = receipt_of(&r->ops[0], r->status);
    if (r->status) return;
    t->status = t->receipt.status;
    if (t->status == PAWL_MOVED) moved(&t->err);
    else if (t->status == PAWL_NOT_FOUND || t->status == PAWL_CONFLICT) family_refused(&r->ops[0], &t->err);
    else if (t->status) refused(&t->err);
}

/* A queue served here, or by any living node. */
static pawl_status check_served(runtime *rt, const char *queue, pawl_error *err)
{
    if (!rt->options.unserved_is_error) return PAWL_OK;
    bool served;
    pawl_status status = look_served(rt, queue, &served, err);
    if (status || served) return status;
    return err_set(err, PAWL_NOT_FOUND, "no living node serves queue \"%s\": start one, or check the name", queue);
}

static pawl_status new_ticket(runtime *rt, const pawl_task *task, ticket **out, pawl_error *err)
{
    pawl_body *body;
    pawl_status status = dispatch_body(rt, task, &body, err);
    if (status) return status;
    status = check_served(rt, body->queue, err);
    ticket *t = status ? NULL : ticket_new(rt, 1, err);
    if (!t) {
        pawl_body_free(&rt->allocator, body);
        return status ? status : PAWL_NO_MEMORY;
    }
    dispatch_insert(&t->request->ops[0], body, task->delay_us, task->at_us);
    snprintf(t->queue, sizeof t->queue, "%s", body->queue);
    t->read = read_one;
    if (family_has(task)) {
        void *room = ticket_keep_room(t, family_size(task));
        status = room ? family_make(room, task, NULL, NULL, 0, err) : no_memory(err);
        t->request->ops[0].u.insert.family = room;
    }
    if (status) ticket_free(t);
    else *out = t;
    return status;
}

static void run_eagerly(runtime *rt)
{
    if (rt->options.inline_eager && work_inside != rt) inline_run_due(rt);
}

pawl_status dispatch_one(runtime *rt, const pawl_task *task, pawl_receipt *receipt, pawl_error *err)
{
    ticket *t;
    pawl_status status = new_ticket(rt, task, &t, err);
    if (status) return status;
    status = ticket_run(t, err);
    if (receipt && (status == PAWL_OK || status == PAWL_UNKNOWN)) *receipt = t->receipt;
    ticket_free(t);
    if (!status) run_eagerly(rt);
    return status;
}

pawl_status dispatch_async(runtime *rt, const pawl_task *task, pawl_dispatch_fn done, void *ctx, pawl_error *err)
{
    if (!done) return err_set(err, PAWL_INVALID, "the callback is NULL");
    ticket *t;
    pawl_status status = new_ticket(rt, task, &t, err);
    if (status) return status;
    t->callback = done;
    t->callback_ctx = ctx;
    status = ticket_send(t, err);
    if (status) ticket_free(t);
    else run_eagerly(rt);
    return status;
}

/* ---- many ---------------------------------------------------------------------------------------------------------------- */

/* Tasks of one tenant with one key are one operation, as they are one task: the last says what is stored, the first is answered
 * with what became of it, the others with `updated`. Without keys and ids each task is its own operation, and nothing below is needed
 * to tell. */
typedef struct bulk {
    runtime *rt;
    const pawl_task *tasks;
    size_t n;
    bool plain;       /* no task has a key or an id */
    size_t families;  /* room for those of all tasks */
    const char *type; /* the last one without a queue, and the queue it goes to */
    const char *queue;
    int *op_of;   /* the operation of each task */
    size_t *last; /* the task whose content each operation has */
    int ops;
    map keys;
    map ids;
    map_node *nodes; /* two per task: its key, its id */
} bulk;

static const char *queue_of(bulk *b, const pawl_task *t)
{
    if (t->queue) return t->queue;
    if (t->type != b->type) {
        b->type = t->type;
        b->queue = config_queue_of(b->rt, t->type);
    }
    return b->queue;
}

static pawl_status check_bulk(bulk *b, pawl_error *err)
{
    size_t bytes = 0;
    const char *known = NULL;
    pawl_error why;
    b->plain = true;
    for (size_t i = 0; i < b->n; i++) {
        const pawl_task *t = &b->tasks[i];
        pawl_status status = valid_task(b->rt, t, i > 0 ? t - 1 : NULL, &why);
        if (status) return err_set(err, status, "task %zu of %zu: %s", i + 1, b->n, why.message);
        const char *queue = queue_of(b, t);
        if (queue != known && (!known || strcmp(queue, known) != 0) && (status = check_served(b->rt, queue, err))) return status;
        known = queue;
        bytes += t->payload.len + (t->headers ? strlen(t->headers) : 0) + t->rate_key.len;
        b->families += family_size(t);
        b->plain = b->plain && !t->key && !t->id;
    }
    if (bytes > PAWL_BULK_BYTES)
        return err_set(err, PAWL_TOO_LARGE, "the tasks have %zu bytes, one call takes %u: use several", bytes, PAWL_BULK_BYTES);
    return PAWL_OK;
}

static const char *tenant_of(const pawl_task *t) { return t->tenant ? t->tenant : ""; }

/* The number of an earlier task with the same key, or -1. */
static int same_key(bulk *b, const pawl_task *t, uint64_t hash)
{
    for (map_node *node = map_get(&b->keys, hash); node; node = map_next(node)) {
        const pawl_task *other = &b->tasks[node - b->nodes];
        if (strcmp(other->key, t->key) == 0 && strcmp(tenant_of(other), tenant_of(t)) == 0) return (int)(node - b->nodes);
    }
    return -1;
}

static void assign(bulk *b, size_t i)
{
    const pawl_task *t = &b->tasks[i];
    int earlier = -1;
    if (t->key) {
        uint64_t hash = hash_bytes(t->key, strlen(t->key), hash_bytes(tenant_of(t), strlen(tenant_of(t)), 0));
        earlier = same_key(b, t, hash);
        if (earlier < 0) map_put(&b->keys, &b->nodes[i], hash);
    }
    b->op_of[i] = earlier < 0 ? b->ops++ : b->op_of[earlier];
    b->last[b->op_of[i]] = i;
}

static pawl_status assign_all(bulk *b, pawl_error *err)
{
    for (size_t i = 0; i < b->n && !b->plain; i++) {
        const pawl_task *t = &b->tasks[i];
        assign(b, i);
        if (!t->id) continue;
        if (map_get(&b->ids, (uint64_t)t->id))
            return err_set(err, PAWL_INVALID, "task %zu of %zu: its id is that of an earlier one", i + 1, b->n);
        map_put(&b->ids, &b->nodes[b->n + i], (uint64_t)t->id);
    }
    return PAWL_OK;
}

static bool fill_items(bulk *b, ticket *t)
{
    body_pack pack = {.allocator = &b->rt->allocator};
    bool ok = true;
    for (int i = 0; i < b->ops && ok; i++) {
        const pawl_task *task = &b->tasks[b->plain ? (size_t)i : b->last[i]];
        pawl_body from = body_of(t->rt, task, queue_of(b, task)), *body = body_pack_add(&pack, &from);
        if (!(ok = body)) break;
        t->items[t->items_count++] = (ticket_item){body, NULL, task->delay_us, task->at_us};
        if (i == 0) snprintf(t->queue, sizeof t->queue, "%s", body->queue);
    }
    body_pack_done(&pack);
    return ok;
}

static pawl_status fill_families(bulk *b, ticket *t, pawl_error *err)
{
    char *room = b->families > 0 ? ticket_keep_room(t, b->families) : NULL;
    pawl_error why;
    if (b->families > 0 && !room) return no_memory(err);
    for (int i = 0; i < b->ops && room; i++) {
        size_t at = b->plain ? (size_t)i : b->last[i];
        const pawl_task *task = &b->tasks[at];
        if (!family_has(task)) continue;
        pawl_status status = family_make(room, task, t->request->ops, b->op_of, i, &why);
        if (status) return err_set(err, status, "task %zu of %zu: %s", at + 1, b->n, why.message);
        t->items[i].family = (pawl_family *)room;
        room += family_size(task);
    }
    return PAWL_OK;
}

static void read_many(ticket *t, const core_request *r)
{
    int answered = -1; /* operations are numbered in the order of their first task */
    bool stored = false;
    for (size_t i = 0; i < t->receipts_count; i++) {
        int op = t->op_of ? t->op_of[i] : (int)i;
        pawl_receipt receipt = receipt_of(&r->ops[op], r->status);
        if (op <= answered && receipt.status == PAWL_OK && receipt.outcome != PAWL_EXISTING) receipt.outcome = PAWL_UPDATED;
        if (op > answered) answered = op;
        stored = stored || receipt.status == PAWL_OK;
        if (t->receipts) t->receipts[i] = receipt;
    }
    bool closed = r->status == PAWL_OK && r->count > 0 && r->ops[0].result == PAWL_OP_CLOSED;
    if (closed) t->status = moved(&t->err);
    if (stored) t->status = PAWL_OK; /* single items may have been refused: their receipts say so */
}

static pawl_status send_bulk(bulk *b, pawl_receipt *receipts, pawl_error *err)
{
    ticket *t = ticket_for_items(b->rt, b->ops, err);
    if (!t) return PAWL_NO_MEMORY;
    pawl_status status = PAWL_OK;
    if (!fill_items(b, t)) {
        status = no_memory(err);
    } else if (!(status = fill_families(b, t, err))) {
        t->read = read_many;
        t->receipts = receipts;
        t->receipts_count = b->n;
        t->op_of = b->op_of;
        b->op_of = NULL;
        status = ticket_run(t, err);
    }
    ticket_free(t);
    return status;
}

static bool bulk_init(bulk *b)
{
    const pawl_allocator *a = &b->rt->allocator;
    map_init(&b->keys, a);
    map_init(&b->ids, a);
    b->ops = b->plain ? (int)b->n : 0;
    if (b->plain) return true;
    b->op_of = alloc_new(a, b->n * sizeof *b->op_of);
    b->last = alloc_new(a, b->n * sizeof *b->last);
    b->nodes = alloc_new(a, 2 * b->n * sizeof *b->nodes);
    return b->op_of && b->last && b->nodes;
}

static void bulk_done(bulk *b)
{
    map_done(&b->keys);
    map_done(&b->ids);
    alloc_free(&b->rt->allocator, b->op_of);
    alloc_free(&b->rt->allocator, b->last);
    alloc_free(&b->rt->allocator, b->nodes);
}

pawl_status dispatch_bulk(runtime *rt, const pawl_task *tasks, size_t n, pawl_receipt *receipts, pawl_error *err)
{
    if (n == 0) return PAWL_OK;
    if (!tasks) return err_set(err, PAWL_INVALID, "the tasks are NULL");
    if (n > PAWL_BULK_MAX)
        return err_set(err, PAWL_TOO_LARGE, "%zu tasks in one call, at most %d: use several calls", n, PAWL_BULK_MAX);
    bulk b = {.rt = rt, .tasks = tasks, .n = n};
    pawl_status status = check_bulk(&b, err);
    if (status) return status;
    status = bulk_init(&b) ? assign_all(&b, err) : no_memory(err);
    if (!status) status = send_bulk(&b, receipts, err);
    bulk_done(&b);
    if (!status) run_eagerly(rt);
    return status;
}

/* ---- inside the caller's transaction ------------------------------------------------------------------------------------- */

static pawl_audit audit_of(runtime *rt, const pawl_body *body)
{
    pawl_audit audit = body->audit ? body->audit : config_audit_of(rt, body->type);
    return audit ? audit : rt->options.audit;
}

static pawl_status apply_within(runtime *rt, void *connection, pawl_op *op, pawl_receipt *receipt, pawl_error *err)
{
    pawl_arena *arena = arena_new(&rt->allocator, 0);
    if (!arena) return no_memory(err);
    pawl_status status = store_tx_apply(rt->store, connection, op, 1, arena, err);
    arena_free(arena);
    if (status) return status;
    pawl_receipt r = receipt_of(op, PAWL_OK);
    if (r.status == PAWL_TOO_LARGE) return refused(err);
    if (r.status == PAWL_NOT_FOUND || r.status == PAWL_CONFLICT) return family_refused(op, err);
    if (r.status == PAWL_MOVED) {
        pawl_error why;
        gate_explain(rt, &why);
        if (err) *err = why;
        return r.status;
    }
    if (r.status) return err_set(err, r.status, "the store did not take the task: %s", pawl_status_text(r.status));
    if (receipt) *receipt = r;
    return PAWL_OK;
}

/* A connection of another kind than the store's would be taken for what it is not. A store without transactions says so itself. */
pawl_status dispatch_check_kind(const runtime *rt, const char *scheme, const void *connection, pawl_error *err)
{
    static const struct {
        const char *scheme, *name, *handle;
    } kinds[] = {
        {"sqlite", "SQLite", "sqlite3 handle"}, {"postgres", "PostgreSQL", "PGconn"}, {"mysql", "MariaDB", "MYSQL handle"}};
    size_t kind = 0;
    while (strcmp(kinds[kind].scheme, scheme) != 0) kind++;
    if (!connection) return err_set(err, PAWL_INVALID, "the %s is NULL", kinds[kind].handle);
    if (!rt->store->type->tx_apply || strcmp(rt->store->type->scheme, scheme) == 0) return PAWL_OK;
    return err_set(err, PAWL_MISUSE, "the store is %s, not %s: this call needs a connection to the store's own database", rt->url,
                   kinds[kind].name);
}

pawl_status dispatch_within(runtime *rt, const char *scheme, void *connection, const pawl_task *task, pawl_receipt *receipt,
                            pawl_error *err)
{
    pawl_status kind = dispatch_check_kind(rt, scheme, connection, err);
    if (kind) return kind;
    if (rt->options.read_only)
        return err_set(err, PAWL_MISUSE, "%s was opened read_only: open it without to change anything", rt->url);
    pawl_body *body;
    pawl_status status = dispatch_body(rt, task, &body, err);
    if (status) return status;
    pawl_op op = {0};
    dispatch_insert(&op, body, task->delay_us, task->at_us);
    op.audit = audit_of(rt, body);
    void *room = family_has(task) ? alloc_new(&rt->allocator, family_size(task)) : NULL;
    if (family_has(task)) status = room ? family_make(room, task, NULL, NULL, 0, err) : no_memory(err);
    op.u.insert.family = room;
    if (!status) status = apply_within(rt, connection, &op, receipt, err);
    alloc_free(&rt->allocator, room);
    pawl_body_free(&rt->allocator, body);
    return status;
}

/* ---- ids drawn ahead ----------------------------------------------------------------------------------------------------- */

pawl_status dispatch_draw_id(runtime *rt, pawl_id *id, pawl_error *err)
{
    for (int i = 0; i < DRAW_TRIES; i++) {
        loop_enter(rt, -1);
        *id = core_draw_id(rt->core, runtime_now(rt));
        loop_leave(rt);
        if (*id) return PAWL_OK;
        ticket *t = ticket_new(rt, 0, err); /* answered once there are ids */
        if (!t) return PAWL_NO_MEMORY;
        pawl_status status = ticket_run(t, err);
        ticket_free(t);
        if (status) return status;
    }
    return err_set(err, PAWL_UNAVAILABLE, "could not get an id from the store: try again");
}
