/* What a batch needs, allocated before anything changes: copies of bodies and texts, rows from the pools, levels, the
 * minute. The operations then take what they use; the rest is freed.
 */
#include "store/memory_family.h"

static size_t text_size(const char *text) { return text ? strlen(text) + 1 : 0; }

static char *put_text(char **at, const char *text)
{
    if (!text) return NULL;
    size_t size = strlen(text) + 1;
    char *copy = memcpy(*at, text, size);
    *at += size;
    return copy;
}

static bool want_body(mem *m, pawl_body *from, bool own, mem_prep *p)
{
    if (!from || !from->type || !from->type[0] || !from->queue || !from->queue[0]) return true; /* REFUSED */
    if (!(p->level = mem_level_get(m, from))) return false;
    return (p->body = own ? pawl_body_copy(&m->allocator, from) : body_share(&m->moves, &m->allocator, from));
}

static bool want_budget(mem *m, const char *type, pawl_bytes key, mem_prep *p)
{
    return !mem_limit_of(m, type, key) || (p->budget = mem_budget_get(m, type, key));
}

/* The budget of a task whose rate key may be one that only its holder knows. */
static bool want_budget_of(mem *m, const pawl_op *op, pawl_bytes key, mem_prep *p)
{
    const mem_task *t = mem_find_live(m, op->id);
    return !t || want_budget(m, t->body->type, t->body->rate_key.len ? t->body->rate_key : key, p);
}

static bool want_ending(mem *m, const pawl_op *op, const pawl_execution *run, mem_prep *p)
{
    bool finish = op->kind == PAWL_OP_FINISH;
    const char *reason = finish ? op->u.finish.reason : NULL;
    const char *type = finish ? op->u.finish.result_type : NULL, *ref = finish ? op->u.finish.result_ref : NULL;
    pawl_bytes result = finish ? op->u.finish.result : (pawl_bytes){0};
    if (!run->code && !run->error && !reason && !type && !ref && !result.data) return true;
    p->more = true;
    mem_ending *e = alloc_new(&m->allocator, sizeof *e + text_size(run->code) + text_size(run->error) + text_size(reason) +
                                                 text_size(type) + text_size(ref) + result.len + 1);
    if (!e) return false;
    char *at = (char *)(e + 1);
    e->code = put_text(&at, run->code);
    e->error = put_text(&at, run->error);
    e->reason = put_text(&at, reason);
    e->result_type = put_text(&at, type);
    e->result_ref = put_text(&at, ref);
    if (result.data) e->result = (pawl_bytes){memcpy(at, result.data, result.len), result.len};
    p->ending = e;
    return true;
}

static bool want_run(mem *m, const pawl_op *op, const pawl_execution *run, mem_prep *p)
{
    if (run->progress_text || run->log.len > 0) p->more = true;
    if (run->progress_text && !(p->text = alloc_str(&m->allocator, run->progress_text))) return false;
    if (run->log.len > 0) {
        if (!(p->log = m->allocator.alloc(m->allocator.ctx, sizeof *p->log + run->log.len + 1))) return false;
        *p->log = (mem_log){.len = run->log.len};
        memcpy(p->log->bytes, run->log.data, run->log.len);
        p->log->bytes[run->log.len] = '\0';
    }
    return want_ending(m, op, run, p);
}

static bool want_resolution(mem *m, const char *by, const char *note, mem_prep *p)
{
    mem_resolution *r = alloc_new(&m->allocator, sizeof *r + text_size(by) + text_size(note));
    if (!r) return false;
    char *at = (char *)(r + 1);
    r->by = put_text(&at, by);
    r->note = put_text(&at, note);
    p->resolution = r;
    return true;
}

static bool want_operator(mem *m, const pawl_op *op, const char *what, int64_t now_us, mem_prep *p)
{
    if (!op->by) return true;
    mem_operator *o = alloc_new(&m->allocator, sizeof *o + text_size(op->by) + text_size(what));
    if (!o) return false;
    char *at = (char *)(o + 1);
    o->by = put_text(&at, op->by);
    o->what = put_text(&at, what);
    o->at_us = now_us;
    o->kind = op->kind;
    o->pause = op->kind == PAWL_OP_QUEUE && op->u.queue.pause;
    o->id = op->id;
    p->operator= o;
    return true;
}

static bool want_retry(mem *m, const pawl_op *op, mem_prep *p)
{
    mem_task *old = mem_find(m, op->id);
    if (!old) return true;
    return want_body(m, old->body, true, p) && want_budget(m, old->body->type, old->body->rate_key, p) &&
           mem_spots_make(m, old->body) && want_resolution(m, op->by, NULL, p);
}

static bool want_bound(mem *m, const pawl_op *op, mem_prep *p)
{
    char tenant[256];
    m->bounding++;
    if (op->u.bound.scope != PAWL_SCOPE_TENANTS)
        return (p->bound = mem_bound_get(m, (int)op->u.bound.scope, op->u.bound.name, op->u.bound.key));
    if (!(p->queue = mem_queue_get(m, op->u.bound.name))) return false;
    if (op->u.bound.key.len == 0 || op->u.bound.key.len >= sizeof tenant) return true;
    memcpy(tenant, op->u.bound.key.data, op->u.bound.key.len);
    tenant[op->u.bound.key.len] = '\0';
    return (p->share = mem_share_get(m, p->queue, tenant));
}

/* A place for whatever may get one: new tasks of ordered keys, leases that a bound finds, the first of lines. */
static bool want_places(mem *m, const mem_prep *preps, size_t count)
{
    size_t holds = 3 * count + m->spots.count;
    if (m->bounds_in_force == 0 && m->bounding == 0) return true;
    for (size_t i = 0; i < count; i++)
        if (preps[i].bound && !mem_bound_prepare(m, preps[i].bound, &holds)) return false;
    return pool_reserve(&m->holds, &m->allocator, holds + m->spots.count);
}

static bool want_schedule(mem *m, const pawl_op *op, mem_prep *p)
{
    const pawl_schedule_row *row = op->u.schedule->row;
    if (op->u.schedule->drop) return true;
    if (row->reason && !(p->text = alloc_str(&m->allocator, row->reason))) return false;
    return (p->schedule = mem_schedule_new(m, row->name)) && (p->definition = mem_definition_new(m, row));
}

static bool prepare_op(mem *m, const pawl_op *op, mem_prep *p, int64_t now_us)
{
    p->more = op->kind != PAWL_OP_INSERT && op->kind != PAWL_OP_FINISH;
    switch (op->kind) {
    case PAWL_OP_INSERT:
        if (!want_body(m, op->u.insert.body, false, p)) return false;
        if (!p->body || (m->limits_version == 0 && m->bounding == 0)) return true;
        return want_budget(m, p->body->type, p->body->rate_key, p) && mem_spots_make(m, p->body);
    case PAWL_OP_FINISH: return want_run(m, op, &op->u.finish.run, p);
    case PAWL_OP_RELEASE:
        return want_run(m, op, &op->u.release.run, p) && (!op->u.release.slot_us || want_budget_of(m, op, op->u.release.key, p));
    case PAWL_OP_RESERVE: return want_budget_of(m, op, op->u.reserve.key, p);
    case PAWL_OP_LIMIT:
        p->limit = mem_limit_get(m, op->u.limit.type, op->u.limit.key);
        return p->limit && want_operator(m, op, op->u.limit.type, now_us, p);
    case PAWL_OP_BOUND: return want_bound(m, op, p) && want_operator(m, op, op->u.bound.name, now_us, p);
    case PAWL_OP_PROGRESS: return !op->u.progress.text || (p->text = alloc_str(&m->allocator, op->u.progress.text));
    case PAWL_OP_CANCEL: return want_operator(m, op, NULL, now_us, p);
    case PAWL_OP_RETRY: return want_retry(m, op, p) && want_operator(m, op, NULL, now_us, p);
    case PAWL_OP_ACK: return want_resolution(m, op->by, op->u.ack.note, p) && want_operator(m, op, op->u.ack.note, now_us, p);
    case PAWL_OP_SCHEDULE: return want_schedule(m, op, p) && want_operator(m, op, op->u.schedule->row->name, now_us, p);
    case PAWL_OP_STEP:
        if (op->u.step->reason && !(p->text = alloc_str(&m->allocator, op->u.step->reason))) return false;
        return want_operator(m, op, op->u.step->name, now_us, p);
    case PAWL_OP_BATCH:
        if (op->u.batch->act == PAWL_BATCH_OPEN && !(p->batch = mem_batch_new(m, op->u.batch->name))) return false;
        return want_operator(m, op, op->u.batch->name, now_us, p);
    case PAWL_OP_QUEUE:
        return (p->queue = mem_queue_get(m, op->u.queue.queue)) && want_operator(m, op, op->u.queue.queue, now_us, p);
    default: return true;
    }
}

static void add_needs(const mem *m, const pawl_op *op, mem_needs *n)
{
    n->count++;
    switch (op->kind) {
    case PAWL_OP_INSERT:
        if (op->u.insert.family) n->kins += 2 * (size_t)op->u.insert.family->parents_count + 1; /* retries of parents, too */
        return;
    case PAWL_OP_FINISH:
        if (op->u.finish.to == PAWL_SUCCEEDED && m->open.count > 0) n->occurrences += (size_t)mem_schedule_followers(m, op->id);
        break;
    case PAWL_OP_STEP: n->occurrences += (size_t)op->u.step->fates_count; break;
    case PAWL_OP_SETTLE: n->told += (size_t)op->u.settle.limit; break;
    case PAWL_OP_BATCH:
    case PAWL_OP_RETRY: n->kins++; break;
    default: return;
    }
    for (int i = 0; i < mem_spawns(op); i++) add_needs(m, mem_spawn(op, i), n);
}

mem_needs mem_survey(const mem *m, const pawl_batch *batch)
{
    mem_needs n = {0};
    for (int i = 0; i < batch->count; i++) add_needs(m, batch->ops[i], &n);
    return n;
}

/* Kins and edges that it may need, and rows of those who are told. */
static bool reserve_families(mem *m, const mem_needs *needs)
{
    const pawl_allocator *a = &m->allocator;
    if (needs->kins + needs->told == 0 && m->kins.count == 0) return true;
    return pool_reserve(&m->kin_pool, a, needs->kins) && pool_reserve(&m->edges, a, needs->kins) &&
           pool_reserve(&m->rows, a, 2 * ((size_t)needs->count + needs->told + PAWL_SETTLE_AT_ONCE));
}

/* At most one new task, one key, one attempt and two rows (taken back, then cancelled) per operation. */
static bool reserve(mem *m, int count, int64_t now_us)
{
    size_t n = (size_t)count;
    const pawl_allocator *a = &m->allocator;
    return pool_reserve(&m->tasks, a, n) && pool_reserve(&m->keys, a, n) && pool_reserve(&m->attempts, a, n) &&
           pool_reserve(&m->rows, a, 2 * n) && mem_minute_ready(m, now_us);
}

static bool prepare(mem *m, const pawl_batch *batch, const mem_needs *needs, mem_prep *preps, int64_t now_us)
{
    m->latest_body = NULL; /* that of the last batch may be gone */
    m->bounding = 0;
    if (!reserve(m, needs->count, now_us) || !reserve_families(m, needs)) return false;
    if (needs->occurrences > 0 && !pool_reserve(&m->occurrences, &m->allocator, needs->occurrences)) return false;
    mem_prep *p = preps;
    for (int i = 0; i < batch->count; i++) {
        const pawl_op *op = batch->ops[i];
        if (!prepare_op(m, op, p++, now_us)) return false;
        for (int k = 0; k < mem_spawns(op); k++)
            if (!prepare_op(m, mem_spawn(op, k), p++, now_us)) return false;
    }
    return want_places(m, preps, (size_t)(p - preps));
}

bool mem_prepare(mem *m, const pawl_batch *batch, const mem_needs *needs, mem_prep *preps, int64_t now_us)
{
    bool ok = prepare(m, batch, needs, preps, now_us);
    body_moves_done(&m->moves);
    return ok;
}

static void free_more(const pawl_allocator *a, mem_prep *p)
{
    void *blocks[] = {p->ending, p->log, p->resolution, p->operator, p->text, p->schedule, p->definition, p->batch};
    for (size_t i = 0; i < sizeof blocks / sizeof *blocks; i++) alloc_free(a, blocks[i]);
}

void mem_unprepare(mem *m, mem_prep *preps, int count)
{
    for (mem_prep *p = preps; p < preps + count; p++) {
        if (p->level) mem_level_drop(m, p->level);
        if (p->body) pawl_body_free(&m->allocator, p->body);
        if (p->more) free_more(&m->allocator, p);
    }
}
