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

static bool schedule_good(const pawl_schedule_put *put)
{
    const pawl_schedule_row *r = put->row;
    if (!r->name || !r->name[0] || !name_good(r->name) || (r->after && !name_good(r->after))) return false;
    return put->drop || (r->spec && text_good(r->spec) && short_good(r->reason));
}

static bool step_good(const pawl_step *step)
{
    if (!step->name || !step->name[0] || !name_good(step->name) || !short_good(step->reason)) return false;
    for (int i = 0; i < step->fates_count; i++)
        if (!short_good(step->fates[i].why)) return false;
    return true;
}

static bool op_good(const pawl_op *op)
{
    switch (op->kind) {
    case PAWL_OP_INSERT: return my_body_good(op->u.insert.body);
    case PAWL_OP_ACK: return short_good(op->by) && text_good(op->u.ack.note);
    case PAWL_OP_LIMIT: return short_good(op->by) && op->u.limit.type && op->u.limit.type[0] && name_good(op->u.limit.type);
    case PAWL_OP_BOUND: return bound_good(op);
    case PAWL_OP_SCHEDULE: return short_good(op->by) && schedule_good(op->u.schedule);
    case PAWL_OP_STEP: return short_good(op->by) && step_good(op->u.step);
    case PAWL_OP_BATCH: return short_good(op->by) && (!op->u.batch->name || name_good(op->u.batch->name));
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
    case PAWL_OP_SCHEDULE: return length(op->u.schedule->row->spec) + op->u.schedule->row->payload.len;
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

/* The tasks that come with a FINISH or a STEP. */
static pawl_op *spawns_of(const pawl_op *op, int *count)
{
    bool finish = op->kind == PAWL_OP_FINISH, step = op->kind == PAWL_OP_STEP;
    *count = finish ? op->u.finish.spawns_count : step ? op->u.step->tasks_count : 0;
    return finish ? op->u.finish.spawns : step ? op->u.step->tasks : NULL;
}

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
    int total = count, spawns_count;
    for (int i = 0; i < count; i++) {
        spawns_of(ops[i], &spawns_count);
        total += spawns_count;
    }
    f->ops = pawl_arena_alloc(arena, (size_t)(total + 1) * sizeof *f->ops);
    if (!f->ops) return false;
    for (int i = 0; i < count; i++) {
        int parent = f->count;
        bool inserts = ops[i]->kind == PAWL_OP_INSERT;
        f->ops[f->count++] = (flat_op){.op = ops[i], .parent = -1, .refused = !op_good(ops[i])};
        pawl_op *spawns = spawns_of(ops[i], &spawns_count);
        for (int k = 0; k < spawns_count; k++) {
            pawl_op *spawn = &spawns[k];
            f->ops[f->count++] = (flat_op){.op = spawn, .parent = parent, .refused = !op_good(spawn)};
            f->rated |= of_limits(spawn);
            f->families |= spawn->kind == PAWL_OP_INSERT && spawn->u.insert.family;
        }
        f->rated |= of_limits(ops[i]);
        f->limits |= ops[i]->kind == PAWL_OP_LIMIT;
        f->bounds |= ops[i]->kind == PAWL_OP_BOUND;
        f->schedules |= ops[i]->kind == PAWL_OP_SCHEDULE || ops[i]->kind == PAWL_OP_STEP;
        f->families |= ops[i]->kind == PAWL_OP_BATCH || (inserts && ops[i]->u.insert.family);
        if (ops[i]->kind == PAWL_OP_SETTLE) f->settles += ops[i]->u.settle.limit;
        f->puts |= ops[i]->kind == PAWL_OP_SCHEDULE && !ops[i]->u.schedule->drop;
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
    if (o->op->kind == PAWL_OP_STEP) {
        to[0] = o->op->u.step->name;
        return 1;
    }
    if (o->op->kind == PAWL_OP_SCHEDULE) {
        const char *after = o->op->u.schedule->drop ? NULL : o->op->u.schedule->row->after;
        to[0] = after ? after : o->op->u.schedule->row->name;
        to[1] = o->op->u.schedule->row->name;
        return after ? 2 : 1;
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
    if (count == 1 && o->op->kind == PAWL_OP_SCHEDULE) o->type_id = 0;
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
