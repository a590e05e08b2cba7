/* A batch as it comes: operations in a row, each FINISH followed by its spawns; answers name these numbers.
 *
 * What the server could not store is found here, before anything is sent, so that one bad task never sinks the others: text that is no UTF-8,
 * names that are too long for an index, more than fits into one message. What a run left behind (error, log, ...) is not refused but
 * cleaned: its outcome counts.
 */
#include "base/text.h"
#include "store/mysql/inner.h"

#define INDEXED_MAX 1000 /* bytes of a name or a key; an entry of an index has 3072 */

/* ---- what cannot be stored ----------------------------------------------------------------------------------------------- */

static bool text_good(const char *text) { return !text || utf8_valid(text, strlen(text)); }

static bool name_good(const char *text)
{
    size_t len = strlen(text);
    return len <= INDEXED_MAX && utf8_valid(text, len);
}

static bool short_good(const char *text) { return !text || (strlen(text) <= UINT16_MAX && text_good(text)); } /* a TEXT column */

bool my_body_good(const pawl_body *b)
{
    if (!b || !b->type || !b->type[0] || !b->queue || !b->queue[0]) return false;
    if (!name_good(b->type) || !name_good(b->queue) || (b->tenant && !name_good(b->tenant)) || (b->key && !name_good(b->key)))
        return false;
    if (b->priority < INT16_MIN || b->priority > INT16_MAX) return false;
    return short_good(b->content_type) && short_good(b->created_by) && short_good(b->traceparent) && text_good(b->headers);
}

static bool bound_good(const pawl_op *op)
{
    bool tenant = op->u.bound.scope == PAWL_SCOPE_TENANTS && op->u.bound.key.len > 0;
    if (op->u.bound.scope < PAWL_SCOPE_QUEUE || op->u.bound.scope > PAWL_SCOPE_TENANTS || !short_good(op->by)) return false;
    if (!op->u.bound.name || !op->u.bound.name[0] || !name_good(op->u.bound.name)) return false;
    return !tenant || (op->u.bound.key.len <= INDEXED_MAX && utf8_valid(op->u.bound.key.data, op->u.bound.key.len));
}

static bool op_good(const pawl_op *op)
{
    switch (op->kind) {
    case PAWL_OP_INSERT: return !op->u.insert.family && my_body_good(op->u.insert.body);
    case PAWL_OP_ACK: return short_good(op->by) && text_good(op->u.ack.note);
    case PAWL_OP_LIMIT: return short_good(op->by) && op->u.limit.type && op->u.limit.type[0] && name_good(op->u.limit.type);
    case PAWL_OP_BOUND: return bound_good(op);
    case PAWL_OP_SCHEDULE:
    case PAWL_OP_STEP:
    case PAWL_OP_BATCH:
    case PAWL_OP_SETTLE: return false;
    case PAWL_OP_QUEUE: return short_good(op->by) && op->u.queue.queue && op->u.queue.queue[0] && name_good(op->u.queue.queue);
    default: return short_good(op->by);
    }
}

static size_t length(const char *text) { return text ? strlen(text) : 0; }

static size_t body_size(const pawl_body *b) { return b->payload.len + b->rate_key.len + length(b->headers) + length(b->key); }

static size_t run_size(const pawl_execution *run)
{
    return length(run->error) + run->log.len + length(run->progress_text) + length(run->code);
}

static size_t op_size(const pawl_op *op)
{
    switch (op->kind) {
    case PAWL_OP_INSERT: return body_size(op->u.insert.body);
    case PAWL_OP_FINISH: return op->u.finish.result.len + length(op->u.finish.result_ref) + run_size(&op->u.finish.run);
    case PAWL_OP_RELEASE: return run_size(&op->u.release.run);
    case PAWL_OP_PROGRESS: return length(op->u.progress.text);
    case PAWL_OP_ACK: return length(op->u.ack.note);
    default: return 0;
    }
}

/* A byte may take two as a literal. */
void my_flat_sizes(const conn *c, flat *f)
{
    size_t most = c->packet_max > 65536 ? (c->packet_max - 65536) / 2 : 0;
    for (int i = 0; i < f->count; i++)
        if (!f->ops[i].refused && op_size(f->ops[i].op) > most) f->ops[i].refused = true;
}

/* ---- all operations in a row --------------------------------------------------------------------------------------------- */

static int spawns_of(const pawl_op *op) { return op->kind == PAWL_OP_FINISH ? op->u.finish.spawns_count : 0; }

static bool of_limits(const pawl_op *op)
{
    switch (op->kind) {
    case PAWL_OP_INSERT: return op->u.insert.body && (op->u.insert.body->rate_key.len > 0 || op->u.insert.body->key);
    case PAWL_OP_FINISH: return op->u.finish.run.outcome == PAWL_ATTEMPT_NONE;
    case PAWL_OP_RELEASE: return op->u.release.slot_us != 0;
    case PAWL_OP_CANCEL:
    case PAWL_OP_RESERVE:
    case PAWL_OP_LIMIT: return true;
    default: return false;
    }
}

/* The tenant that a BOUND is about, as text. */
static bool name_tenant(flat_op *o, pawl_arena *arena)
{
    const pawl_op *op = o->op;
    if (op->kind != PAWL_OP_BOUND || op->u.bound.scope != PAWL_SCOPE_TENANTS || op->u.bound.key.len == 0) return true;
    o->tenant = pawl_arena_bytes(arena, op->u.bound.key.data, op->u.bound.key.len);
    return o->tenant != NULL;
}

bool my_flat_make(flat *f, pawl_op **ops, int count, pawl_arena *arena)
{
    *f = (flat){0};
    int total = count;
    for (int i = 0; i < count; i++) total += spawns_of(ops[i]);
    f->ops = pawl_arena_alloc(arena, (size_t)(total + 1) * sizeof *f->ops);
    if (!f->ops) return false;
    for (int i = 0; i < count; i++) {
        int parent = f->count;
        bool inserts = ops[i]->kind == PAWL_OP_INSERT;
        f->ops[f->count++] = (flat_op){.op = ops[i], .parent = -1, .refused = !op_good(ops[i])};
        for (int k = 0; k < spawns_of(ops[i]); k++) {
            pawl_op *spawn = &ops[i]->u.finish.spawns[k];
            f->ops[f->count++] = (flat_op){.op = spawn, .parent = parent, .refused = !op_good(spawn)};
            f->rated |= of_limits(spawn);
        }
        f->rated |= of_limits(ops[i]);
        f->limits |= ops[i]->kind == PAWL_OP_LIMIT;
        f->bounds |= ops[i]->kind == PAWL_OP_BOUND;
        if (!name_tenant(&f->ops[parent], arena)) return false;
        f->asks |= inserts && ops[i]->u.insert.ask_lease;
        f->limited |= inserts && ops[i]->u.insert.depth_limit > 0;
    }
    return true;
}

/* ---- names --------------------------------------------------------------------------------------------------------------- */

static int names_of(const flat_op *o, const char **to)
{
    if (o->refused) return 0;
    if (o->op->kind == PAWL_OP_QUEUE) {
        to[0] = o->op->u.queue.queue;
        return 1;
    }
    if (o->op->kind == PAWL_OP_LIMIT) {
        to[0] = o->op->u.limit.type;
        return 1;
    }
    if (o->op->kind == PAWL_OP_BOUND) {
        to[0] = o->op->u.bound.name;
        to[1] = o->tenant;
        return o->tenant ? 2 : 1;
    }
    if (o->op->kind != PAWL_OP_INSERT) return 0;
    const pawl_body *b = o->op->u.insert.body;
    to[0] = b->type;
    to[1] = b->queue;
    to[2] = b->tenant;
    return b->tenant && b->tenant[0] ? 3 : 2;
}

/* The cache is open. */
static void number_names(interned *n, flat_op *o)
{
    const char *some[3];
    int count = names_of(o, some);
    if (count == 1) o->queue_id = o->type_id = interned_id(n, some[0]);
    if (count < 2) return;
    if (o->tenant) {
        o->queue_id = interned_id(n, some[0]);
        o->tenant_id = interned_id(n, some[1]);
        return;
    }
    o->type_id = interned_id(n, some[0]);
    o->queue_id = interned_id(n, some[1]);
    o->tenant_id = count == 3 ? interned_id(n, some[2]) : 0;
}

bool my_flat_names(my_store *s, conn *c, flat *f, pawl_arena *arena)
{
    const char **texts = NULL, *some[3];
    for (int tries = 0;; tries++) {
        int missing = 0;
        interned_open(&s->names);
        for (int i = 0; i < f->count; i++) {
            int count = names_of(&f->ops[i], some);
            for (int k = 0; k < count; k++) {
                if (interned_id(&s->names, some[k])) continue;
                if (!texts && !(texts = pawl_arena_alloc(arena, (size_t)(3 * f->count + 1) * sizeof *texts))) break;
                if (missing == 0 || strcmp(texts[missing - 1], some[k]) != 0) texts[missing++] = some[k];
            }
            if (!missing) number_names(&s->names, &f->ops[i]);
        }
        interned_close(&s->names);
        if (missing == 0 && (texts || tries == 0)) return true;
        if (!texts || tries == 10) {
            my_conn_no_memory(c);
            return false;
        }
        if (!my_names_fetch(&s->names, c, texts, missing)) return false;
    }
}
