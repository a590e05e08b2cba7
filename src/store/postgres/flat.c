/* A batch as PostgreSQL gets it: one set of arrays for each kind of operation.
 *
 * Operations are numbered as they stand in the batch, each FINISH followed by its spawns; answers name these numbers. What the server could
 * not store is found here, before anything is sent, so that one bad task never sinks the others: text that is no UTF-8, names that are too
 * long for an index. What a run left behind (error, log, ...) is not refused but cleaned: its outcome counts.
 *
 * An array that has nothing in it is sent as NULL.
 */
#include "base/text.h"
#include "store/budget.h"
#include "store/postgres/inner.h"
#include <stdlib.h>

#define INDEXED_MAX 1000 /* bytes of a name or a key; an entry of an index has less than 2700 */

/* ---- what cannot be stored ----------------------------------------------------------------------------------------------- */

static bool text_good(const char *text) { return !text || utf8_valid(text, strlen(text)); }

static bool name_good(const char *text)
{
    size_t len = strlen(text);
    return len <= INDEXED_MAX && utf8_valid(text, len);
}

static bool body_good(const pawl_body *b)
{
    if (!b || !b->type || !b->type[0] || !b->queue || !b->queue[0]) return false;
    if (!name_good(b->type) || !name_good(b->queue) || (b->tenant && !name_good(b->tenant)) || (b->key && !name_good(b->key)))
        return false;
    if (b->priority < INT16_MIN || b->priority > INT16_MAX) return false;
    return text_good(b->content_type) && text_good(b->created_by) && text_good(b->traceparent) && text_good(b->headers);
}

static bool bound_good(const pawl_op *op)
{
    pawl_bytes key = op->u.bound.key;
    if (!text_good(op->by) || !op->u.bound.name || !op->u.bound.name[0] || !name_good(op->u.bound.name)) return false;
    return op->u.bound.scope != PAWL_SCOPE_TENANTS ||
           (key.len <= INDEXED_MAX && utf8_valid(key.data, key.len) && (key.len == 0 || !memchr(key.data, '\0', key.len)));
}

static bool schedule_good(const pawl_op *op)
{
    const pawl_schedule_row *row = op->u.schedule->row;
    if (!text_good(op->by) || !row->name || !row->name[0] || !name_good(row->name)) return false;
    return op->u.schedule->drop ||
           (row->spec && text_good(row->spec) && (!row->after || name_good(row->after)) && text_good(row->reason));
}

static bool step_good(const pawl_op *op)
{
    const pawl_step *step = op->u.step;
    bool good = text_good(op->by) && step->name && name_good(step->name) && text_good(step->reason);
    for (int i = 0; good && i < step->fates_count; i++) good = text_good(step->fates[i].why);
    for (int i = 0; good && i < step->tasks_count; i++) good = body_good(step->tasks[i].u.insert.body);
    return good;
}

static bool op_good(const pawl_op *op)
{
    switch (op->kind) {
    case PAWL_OP_INSERT: return body_good(op->u.insert.body);
    case PAWL_OP_ACK: return text_good(op->by) && text_good(op->u.ack.note);
    case PAWL_OP_LIMIT: return text_good(op->by) && op->u.limit.type && op->u.limit.type[0] && name_good(op->u.limit.type);
    case PAWL_OP_BOUND: return bound_good(op);
    case PAWL_OP_SCHEDULE: return schedule_good(op);
    case PAWL_OP_STEP: return step_good(op);
    case PAWL_OP_BATCH:
        return text_good(op->by) && (op->u.batch->act != PAWL_BATCH_OPEN || (op->u.batch->name && name_good(op->u.batch->name)));
    case PAWL_OP_QUEUE: return text_good(op->by) && op->u.queue.queue && op->u.queue.queue[0] && name_good(op->u.queue.queue);
    default: return text_good(op->by);
    }
}

/* ---- which operations are sent ------------------------------------------------------------------------------------------- */

static flat_kind kind_of(const pawl_op *op)
{
    switch (op->kind) {
    case PAWL_OP_INSERT: return FLAT_INSERTS;
    case PAWL_OP_FINISH:
    case PAWL_OP_RELEASE: return FLAT_ENDS;
    case PAWL_OP_START: return FLAT_STARTS;
    case PAWL_OP_PROGRESS: return FLAT_PROGRESS;
    case PAWL_OP_RESERVE: return FLAT_SLOTS;
    case PAWL_OP_LIMIT: return FLAT_LIMITS;
    case PAWL_OP_BOUND: return FLAT_BOUNDS;
    case PAWL_OP_SCHEDULE:
    case PAWL_OP_STEP: return FLAT_SCHEDULES;
    case PAWL_OP_BATCH:
    case PAWL_OP_SETTLE: return FLAT_BATCHES;
    default: return FLAT_PEOPLE;
    }
}

/* It never ran, and may have a slot that others could use, or that it keeps. */
static bool ends_with_slot(const pawl_op *op)
{
    if (op->kind == PAWL_OP_RELEASE) return op->u.release.slot_us != 0;
    return op->kind == PAWL_OP_FINISH && op->u.finish.run.outcome == PAWL_ATTEMPT_NONE;
}

static int by_id(const void *a, const void *b, void *ops)
{
    const flat_op *all = ops;
    pawl_id x = all[*(const int *)a].op->id, y = all[*(const int *)b].op->id;
    return x < y ? -1 : x > y;
}

static bool of_step(const flat *f, int i) { return f->ops[i].parent >= 0 && f->ops[f->ops[i].parent].op->kind == PAWL_OP_STEP; }

static void pick(flat *f, flat_kind kind, int i) { f->lists[kind][f->counts[kind]++] = i; }

/* Tasks that are there are locked in the order of their ids. The tasks of a STEP go with it. */
void pg_flat_select(flat *f, int lo, int hi)
{
    for (int k = 0; k < FLAT_KINDS; k++) f->counts[k] = 0;
    f->lo = lo;
    f->hi = hi;
    for (int i = lo; i < hi; i++) {
        if (f->ops[i].refused || of_step(f, i)) continue;
        pick(f, kind_of(f->ops[i].op), i);
        if (ends_with_slot(f->ops[i].op)) pick(f, FLAT_SLOTS, i);
        for (int k = i + 1; k < f->count && f->ops[k].parent == i && of_step(f, k); k++) pick(f, FLAT_INSERTS, k);
    }
    for (int k = FLAT_ENDS; k < FLAT_KINDS; k++)
        if (f->counts[k] > 1) qsort_r(f->lists[k], (size_t)f->counts[k], sizeof(int), by_id, f->ops);
}

static int spawns_of(const pawl_op *op)
{
    return op->kind == PAWL_OP_FINISH ? op->u.finish.spawns_count : op->kind == PAWL_OP_STEP ? op->u.step->tasks_count : 0;
}

static pawl_op *spawn_of(const pawl_op *op, int i)
{
    return op->kind == PAWL_OP_FINISH ? &op->u.finish.spawns[i] : &op->u.step->tasks[i];
}

bool pg_flat_make(flat *f, pawl_op **ops, int count, pawl_arena *arena)
{
    *f = (flat){0};
    int total = count;
    for (int i = 0; i < count; i++) total += spawns_of(ops[i]);
    f->ops = pawl_arena_alloc(arena, (size_t)(total + 1) * sizeof *f->ops);
    int *lists = pawl_arena_alloc(arena, (size_t)(FLAT_KINDS * total + 1) * sizeof *lists);
    if (!f->ops || !lists) return false;
    for (int k = 0; k < FLAT_KINDS; k++) f->lists[k] = lists + k * total;
    for (int i = 0; i < count; i++) {
        int parent = f->count;
        f->ops[f->count++] = (flat_op){.op = ops[i], .parent = -1, .refused = !op_good(ops[i])};
        for (int k = 0; k < spawns_of(ops[i]); k++) {
            pawl_op *spawn = spawn_of(ops[i], k);
            bool whole = ops[i]->kind == PAWL_OP_STEP; /* of which all is stored or nothing */
            f->ops[f->count++] =
                (flat_op){.op = spawn, .parent = parent, .refused = whole ? f->ops[parent].refused : !op_good(spawn)};
        }
        f->asks |= ops[i]->kind == PAWL_OP_INSERT && ops[i]->u.insert.ask_lease;
    }
    return true;
}

/* A FINISH whose spawns cannot be stored must not happen either. */
static bool spawns_refused(const flat *f, int i)
{
    for (int k = i + 1; k < f->count && f->ops[k].parent == i; k++)
        if (f->ops[k].refused) return true;
    return false;
}

/* ---- names --------------------------------------------------------------------------------------------------------------- */

static int names_of(const flat_op *o, const char **to)
{
    if (o->refused) return 0;
    if (o->op->kind == PAWL_OP_QUEUE) {
        to[0] = o->op->u.queue.queue;
        return 1;
    }
    if (o->op->kind == PAWL_OP_LIMIT || o->op->kind == PAWL_OP_BOUND) {
        to[0] = o->op->kind == PAWL_OP_LIMIT ? o->op->u.limit.type : o->op->u.bound.name;
        return 1;
    }
    if (o->op->kind != PAWL_OP_INSERT) return 0;
    const pawl_body *b = o->op->u.insert.body;
    to[0] = b->type;
    to[1] = b->queue;
    to[2] = b->tenant;
    return b->tenant && b->tenant[0] ? 3 : 2;
}

/* Everything that the batch names is in the cache, which is left open. */
bool pg_flat_names(pg_store *s, conn *c, const flat *f, pawl_arena *arena)
{
    const char **texts = pawl_arena_alloc(arena, (size_t)(3 * f->count + 1) * sizeof *texts), *some[3];
    if (!texts) {
        pg_conn_no_memory(c);
        return false;
    }
    for (int tries = 0;; tries++) {
        int missing = 0;
        interned_open(&s->names);
        for (int i = 0; i < f->count; i++) {
            int count = names_of(&f->ops[i], some);
            for (int k = 0; k < count; k++)
                if (!interned_id(&s->names, some[k]) && (missing == 0 || strcmp(texts[missing - 1], some[k]) != 0))
                    texts[missing++] = some[k];
        }
        if (missing == 0) return true;
        interned_close(&s->names);
        if (!pg_names_fetch(&s->names, c, texts, missing)) return false;
        if (tries == 10) {
            pg_conn_no_memory(c);
            return false;
        }
    }
}

/* ---- columns ------------------------------------------------------------------------------------------------------------- */

/* One array with an element for each operation of the kind; `o` is the operation, `i` its number. */
#define COLUMN(kind, oid, write)                       \
    do {                                               \
        pg_array_begin(p, oid);                        \
        for (int at = 0; at < f->counts[kind]; at++) { \
            int i = f->lists[kind][at];                \
            const flat_op *o = &f->ops[i];             \
            const pawl_op *op = o->op;                 \
            (void)op;                                  \
            write;                                     \
        }                                              \
        pg_array_end(p);                               \
    } while (0)

/* The same, or NULL if no operation has anything there. */
#define SPARSE(kind, oid, present, write)                      \
    do {                                                       \
        bool any = false;                                      \
        for (int at = 0; at < f->counts[kind] && !any; at++) { \
            const flat_op *o = &f->ops[f->lists[kind][at]];    \
            const pawl_op *op = o->op;                         \
            (void)op;                                          \
            any = (present);                                   \
        }                                                      \
        if (any) COLUMN(kind, oid, write);                     \
        else pg_param_null(p);                                 \
    } while (0)

static void nulls(params *p, int count)
{
    for (int i = 0; i < count; i++) pg_param_null(p);
}

/* ---- INSERT -------------------------------------------------------------------------------------------------------------- */

#define INSERT_COLUMNS 25

/* What pawl_due takes: an instant as its negative, a delay. */
static int64_t when_of(const pawl_op *op)
{
    if (op->u.insert.at_us) return op->u.insert.at_us > 0 ? -op->u.insert.at_us : 0;
    return op->u.insert.delay_us > 0 ? op->u.insert.delay_us : 0;
}

static bool limited(const flat *f)
{
    for (int at = 0; at < f->counts[FLAT_INSERTS]; at++) {
        const flat_op *o = &f->ops[f->lists[FLAT_INSERTS][at]];
        if (o->parent < 0 && o->op->u.insert.depth_limit > 0) return true;
    }
    return false;
}

static bool slow(const flat *f, bool depths, const flat_op *o)
{
    return f->careful || depths || o->parent >= 0 || o->op->id == 0 || o->op->u.insert.may_exist;
}

static int level_of(const pawl_op *op) { return op->audit == PAWL_AUDIT_DEFAULT ? PAWL_AUDIT_FULL : op->audit; }

static void array_content_type(params *p, const char *type)
{
    if (!type) pg_array_text(p, "");
    else if (strcmp(type, "application/json") == 0) array_null(p);
    else pg_array_text(p, type);
}

static void array_blob(params *p, pawl_bytes b)
{
    if (b.data) pg_array_bytes(p, b.data, b.len);
    else array_null(p);
}

#define BODY (op->u.insert.body)

static bool has_tenant(const pawl_op *op) { return BODY->tenant && BODY->tenant[0]; }

static bool is_json(const pawl_op *op) { return BODY->content_type && strcmp(BODY->content_type, "application/json") == 0; }

static void insert_bodies(params *p, const flat *f, interned *n)
{
    SPARSE(FLAT_INSERTS, OID_INT4, has_tenant(op), array_int4_or_null(p, has_tenant(op) ? interned_id(n, BODY->tenant) : 0, 0));
    SPARSE(FLAT_INSERTS, OID_INT4, BODY->max_attempts, array_int4_or_null(p, BODY->max_attempts, 0));
    SPARSE(FLAT_INSERTS, OID_INT8, BODY->timeout_us, array_int8_or_null(p, BODY->timeout_us, 0));
    SPARSE(FLAT_INSERTS, OID_INT8, BODY->retry_of, array_int8_or_null(p, BODY->retry_of, 0));
    SPARSE(FLAT_INSERTS, OID_TEXT, BODY->key, pg_array_text(p, BODY->key));
    SPARSE(FLAT_INSERTS, OID_TEXT, !is_json(op), array_content_type(p, BODY->content_type));
    SPARSE(FLAT_INSERTS, OID_TEXT, BODY->created_by, pg_array_text(p, BODY->created_by));
    SPARSE(FLAT_INSERTS, OID_TEXT, BODY->traceparent, pg_array_text(p, BODY->traceparent));
    SPARSE(FLAT_INSERTS, OID_TEXT, BODY->headers, pg_array_text(p, BODY->headers));
    SPARSE(FLAT_INSERTS, OID_BYTEA, BODY->rate_key.data, array_blob(p, BODY->rate_key));
    SPARSE(FLAT_INSERTS, OID_BYTEA, BODY->payload.data, array_blob(p, BODY->payload));
}

void pg_flat_inserts(params *p, const flat *f, interned *n)
{
    bool depths = limited(f);
    if (f->counts[FLAT_INSERTS] == 0) {
        nulls(p, INSERT_COLUMNS);
        return;
    }
    COLUMN(FLAT_INSERTS, OID_INT4, array_int4(p, i));
    COLUMN(FLAT_INSERTS, OID_INT8, array_int8(p, op->id));
    COLUMN(FLAT_INSERTS, OID_INT4, array_int4(p, interned_id(n, BODY->type)));
    COLUMN(FLAT_INSERTS, OID_INT4, array_int4(p, interned_id(n, BODY->queue)));
    COLUMN(FLAT_INSERTS, OID_INT2, array_int2(p, BODY->priority));
    COLUMN(FLAT_INSERTS, OID_INT2, array_int2(p, level_of(op)));
    COLUMN(FLAT_INSERTS, OID_INT2, array_int2(p, BODY->audit));
    SPARSE(FLAT_INSERTS, OID_INT8, when_of(op), array_int8_or_null(p, when_of(op), 0));
    SPARSE(FLAT_INSERTS, OID_BOOL, op->u.insert.ask_lease && o->parent < 0,
           array_bool(p, op->u.insert.ask_lease && o->parent < 0));
    insert_bodies(p, f, n);
    SPARSE(FLAT_INSERTS, OID_BOOL, slow(f, depths, o), array_bool(p, slow(f, depths, o)));
    SPARSE(FLAT_INSERTS, OID_BOOL, op->u.insert.may_exist, array_bool(p, op->u.insert.may_exist));
    SPARSE(FLAT_INSERTS, OID_INT8, depths, array_int8(p, o->parent < 0 ? op->u.insert.depth_limit : 0));
    SPARSE(FLAT_INSERTS, OID_INT4, depths, array_int4(p, o->parent < 0 ? op->u.insert.group : 0));
    SPARSE(FLAT_INSERTS, OID_INT4, o->parent >= 0, array_int4_or_null(p, o->parent, -1));
}

void pg_flat_one(params *p, const flat *f, interned *n)
{
    const pawl_op *op = f->ops[0].op;
    pg_param_int8(p, op->id);
    pg_param_int4(p, interned_id(n, BODY->type));
    pg_param_int4(p, interned_id(n, BODY->queue));
    pg_param_int2(p, BODY->priority);
    pg_param_int2(p, level_of(op));
    pg_param_int2(p, BODY->audit);
    if (is_json(op)) pg_param_null(p);
    else pg_param_text(p, "");
    if (BODY->payload.data) pg_param_bytes(p, BODY->payload.data, BODY->payload.len);
    else pg_param_null(p);
}

/* ---- FINISH and RELEASE -------------------------------------------------------------------------------------------------- */

#define END_COLUMNS 21
#define STATE_REFUSED (-1) /* see pawl_end */

static const pawl_execution *run_of(const pawl_op *op)
{
    return op->kind == PAWL_OP_FINISH ? &op->u.finish.run : &op->u.release.run;
}

static int target(const flat *f, int i)
{
    const pawl_op *op = f->ops[i].op;
    if (op->kind == PAWL_OP_RELEASE) return PAWL_PENDING;
    if (!pawl_state_terminal(op->u.finish.to)) return PAWL_STATE_NONE;
    return spawns_refused(f, i) ? STATE_REFUSED : (int)op->u.finish.to;
}

static bool finishes(const pawl_op *op) { return op->kind == PAWL_OP_FINISH; }

static void array_said(params *p, const char *text) { pg_array_clean(p, text, text ? strlen(text) : 0); }

static pawl_bytes result_of(const pawl_op *op) { return finishes(op) ? op->u.finish.result : (pawl_bytes){0}; }

static const char *said(const pawl_op *op, const char *of_finish) { return finishes(op) ? of_finish : NULL; }

static int progress_of(const pawl_execution *run) { return run->progress < 0 ? -1 : run->progress < 100 ? run->progress : 100; }

static void array_int2_or_null(params *p, int v, int nothing)
{
    if (v == nothing) array_null(p);
    else array_int2(p, v);
}

/* A slot as its negative, as far as that is none of the other meanings. */
static int64_t delay_of(const pawl_op *op)
{
    if (op->u.release.slot_us > 1) return -op->u.release.slot_us;
    return op->u.release.delay_us < 0 ? -1 : op->u.release.delay_us;
}

static void end_texts(params *p, const flat *f)
{
    SPARSE(FLAT_ENDS, OID_INT4, run_of(op)->log_lines, array_int4_or_null(p, run_of(op)->log_lines, 0));
    SPARSE(FLAT_ENDS, OID_INT2, run_of(op)->progress >= 0, array_int2_or_null(p, progress_of(run_of(op)), -1));
    SPARSE(FLAT_ENDS, OID_TEXT, run_of(op)->progress_text, array_said(p, run_of(op)->progress_text));
    SPARSE(FLAT_ENDS, OID_TEXT, run_of(op)->code, array_said(p, run_of(op)->code));
    SPARSE(FLAT_ENDS, OID_TEXT, run_of(op)->error, array_said(p, run_of(op)->error));
    SPARSE(FLAT_ENDS, OID_TEXT, run_of(op)->log.len,
           pg_array_clean(p, run_of(op)->log.len ? run_of(op)->log.data : NULL, run_of(op)->log.len));
    SPARSE(FLAT_ENDS, OID_TEXT, said(op, op->u.finish.reason), array_said(p, said(op, op->u.finish.reason)));
    SPARSE(FLAT_ENDS, OID_TEXT, said(op, op->u.finish.result_type), array_said(p, said(op, op->u.finish.result_type)));
    SPARSE(FLAT_ENDS, OID_TEXT, said(op, op->u.finish.result_ref), array_said(p, said(op, op->u.finish.result_ref)));
    SPARSE(FLAT_ENDS, OID_BYTEA, result_of(op).data, array_blob(p, result_of(op)));
}

void pg_flat_ends(params *p, const flat *f)
{
    if (f->counts[FLAT_ENDS] == 0) {
        nulls(p, END_COLUMNS);
        return;
    }
    COLUMN(FLAT_ENDS, OID_INT4, array_int4(p, i));
    COLUMN(FLAT_ENDS, OID_INT8, array_int8(p, op->id));
    COLUMN(FLAT_ENDS, OID_INT8, array_int8(p, op->fence));
    COLUMN(FLAT_ENDS, OID_INT2, array_int2(p, target(f, i)));
    COLUMN(FLAT_ENDS, OID_INT2, array_int2(p, run_of(op)->outcome));
    COLUMN(FLAT_ENDS, OID_INT8, array_int8(p, run_of(op)->started_us));
    COLUMN(FLAT_ENDS, OID_INT8, array_int8(p, run_of(op)->finished_us));
    COLUMN(FLAT_ENDS, OID_INT2, array_int2(p, op->audit));
    end_texts(p, f);
    SPARSE(FLAT_ENDS, OID_INT8, !finishes(op), array_int8(p, finishes(op) ? 0 : delay_of(op)));
    SPARSE(FLAT_ENDS, OID_BOOL, !finishes(op), array_bool(p, !finishes(op) && op->u.release.failure));
    SPARSE(FLAT_ENDS, OID_BOOL, !finishes(op), array_bool(p, !finishes(op) && op->u.release.interruption));
}

/* ---- START, PROGRESS, what people ask ------------------------------------------------------------------------------------ */

void pg_flat_starts(params *p, const flat *f)
{
    if (f->counts[FLAT_STARTS] == 0) {
        nulls(p, 4);
        return;
    }
    COLUMN(FLAT_STARTS, OID_INT4, array_int4(p, i));
    COLUMN(FLAT_STARTS, OID_INT8, array_int8(p, op->id));
    COLUMN(FLAT_STARTS, OID_INT8, array_int8(p, op->fence));
    COLUMN(FLAT_STARTS, OID_BOOL, array_bool(p, op->u.start.mark));
}

static int percent(const pawl_op *op)
{
    int percent = op->u.progress.percent;
    return percent < 0 ? -1 : percent < 100 ? percent : 100;
}

void pg_flat_progress(params *p, const flat *f)
{
    if (f->counts[FLAT_PROGRESS] == 0) {
        nulls(p, 5);
        return;
    }
    COLUMN(FLAT_PROGRESS, OID_INT4, array_int4(p, i));
    COLUMN(FLAT_PROGRESS, OID_INT8, array_int8(p, op->id));
    COLUMN(FLAT_PROGRESS, OID_INT8, array_int8(p, op->fence));
    COLUMN(FLAT_PROGRESS, OID_INT2, array_int2_or_null(p, percent(op), -1));
    COLUMN(FLAT_PROGRESS, OID_TEXT, array_said(p, op->u.progress.text));
}

void pg_flat_people(params *p, const flat *f, interned *n)
{
    if (f->counts[FLAT_PEOPLE] == 0) {
        nulls(p, 9);
        return;
    }
    COLUMN(FLAT_PEOPLE, OID_INT4, array_int4(p, i));
    COLUMN(FLAT_PEOPLE, OID_INT2, array_int2(p, op->kind));
    COLUMN(FLAT_PEOPLE, OID_INT8, array_int8(p, op->id));
    SPARSE(FLAT_PEOPLE, OID_TEXT, op->by, pg_array_text(p, op->by));
    COLUMN(FLAT_PEOPLE, OID_INT2, array_int2(p, level_of(op)));
    COLUMN(FLAT_PEOPLE, OID_INT8, array_int8(p, op->kind == PAWL_OP_RETRY ? op->u.retry.new_id : 0));
    SPARSE(FLAT_PEOPLE, OID_TEXT, op->kind == PAWL_OP_ACK && op->u.ack.note,
           pg_array_text(p, op->kind == PAWL_OP_ACK ? op->u.ack.note : NULL));
    SPARSE(FLAT_PEOPLE, OID_INT4, op->kind == PAWL_OP_QUEUE,
           array_int4(p, op->kind == PAWL_OP_QUEUE ? interned_id(n, op->u.queue.queue) : 0));
    SPARSE(FLAT_PEOPLE, OID_BOOL, op->kind == PAWL_OP_QUEUE, array_bool(p, op->kind == PAWL_OP_QUEUE && op->u.queue.pause));
}

/* ---- slots and limits ---------------------------------------------------------------------------------------------------- */

enum {
    INITIAL = 16,
    KEEP_PAUSED = 32,
    KEEP_RATE = 64,
    ONLY_MOVE = 128
}; /* of the flags that pawl_limit_put takes; the others are those of pawl_limit */

static pawl_bytes key_of(const pawl_op *op)
{
    if (op->kind == PAWL_OP_RESERVE) return op->u.reserve.key;
    return op->kind == PAWL_OP_RELEASE ? op->u.release.key : (pawl_bytes){0};
}

static bool reserves(const pawl_op *op) { return op->kind == PAWL_OP_RESERVE; }

void pg_flat_slots(params *p, const flat *f)
{
    if (f->counts[FLAT_SLOTS] == 0) {
        nulls(p, SLOT_COLUMNS);
        return;
    }
    COLUMN(FLAT_SLOTS, OID_INT4, array_int4(p, i));
    COLUMN(FLAT_SLOTS, OID_INT2, array_int2(p, op->kind));
    COLUMN(FLAT_SLOTS, OID_INT8, array_int8(p, op->id));
    COLUMN(FLAT_SLOTS, OID_INT8, array_int8(p, op->fence));
    COLUMN(FLAT_SLOTS, OID_BYTEA, array_blob(p, key_of(op)));
    COLUMN(FLAT_SLOTS, OID_INT8, array_int8(p, reserves(op) ? op->u.reserve.near_us : 0));
    COLUMN(FLAT_SLOTS, OID_BOOL, array_bool(p, reserves(op) && op->u.reserve.again));
    COLUMN(FLAT_SLOTS, OID_INT8, array_int8(p, op->kind == PAWL_OP_RELEASE ? op->u.release.epoch : 0));
    COLUMN(FLAT_SLOTS, OID_INT2, array_int2(p, level_of(op)));
}

static int flags_of(const pawl_op *op)
{
    return limit_flags(&op->u.limit.rate, op->u.limit.paused) | (op->u.limit.initial ? INITIAL : 0) |
           (op->u.limit.keep_paused ? KEEP_PAUSED : 0) | (op->u.limit.keep_rate ? KEEP_RATE : 0) |
           (op->u.limit.only_move ? ONLY_MOVE : 0);
}

static void array_rate(params *p, const pawl_op *op)
{
    const pawl_rate *r = &op->u.limit.rate;
    array_int8(p, r->permits);
    array_int8(p, r->period_us);
    array_int8(p, r->burst);
    array_int8(p, r->horizon_us);
    array_int8(p, flags_of(op));
    array_int8(p, op->u.limit.move);
}

void pg_flat_limits(params *p, const flat *f, interned *n)
{
    if (f->counts[FLAT_LIMITS] == 0) {
        nulls(p, LIMIT_COLUMNS);
        return;
    }
    COLUMN(FLAT_LIMITS, OID_INT4, array_int4(p, i));
    COLUMN(FLAT_LIMITS, OID_INT4, array_int4(p, interned_id(n, op->u.limit.type)));
    COLUMN(FLAT_LIMITS, OID_BYTEA, array_blob(p, op->u.limit.key));
    COLUMN(FLAT_LIMITS, OID_INT8, array_rate(p, op));
    COLUMN(FLAT_LIMITS, OID_TEXT, pg_array_text(p, op->by));
}

static void array_bound(params *p, const pawl_op *op)
{
    array_int4(p, (int32_t)op->u.bound.scope);
    array_int4(p, op->u.bound.only_move ? -1 : op->u.bound.most);
    array_int4(p, op->u.bound.ordered);
    array_int4(p, op->u.bound.move);
}

void pg_flat_bounds(params *p, const flat *f, interned *n)
{
    if (f->counts[FLAT_BOUNDS] == 0) {
        nulls(p, BOUND_COLUMNS);
        return;
    }
    COLUMN(FLAT_BOUNDS, OID_INT4, array_int4(p, i));
    COLUMN(FLAT_BOUNDS, OID_INT4, array_int4(p, interned_id(n, op->u.bound.name)));
    COLUMN(FLAT_BOUNDS, OID_BYTEA, array_blob(p, op->u.bound.key));
    COLUMN(FLAT_BOUNDS, OID_INT4, array_bound(p, op));
    COLUMN(FLAT_BOUNDS, OID_TEXT, pg_array_text(p, op->by));
}

/* ---- what is simple ------------------------------------------------------------------------------------------------------ */

static bool end_simple(const flat_op *o, int64_t fence)
{
    const pawl_op *op = o->op;
    if (op->kind != PAWL_OP_FINISH || op->fence != fence || op->u.finish.spawns_count > 0) return false;
    if (op->u.finish.to != PAWL_SUCCEEDED && op->u.finish.to != PAWL_CANCELLED) return false;
    const pawl_execution *run = &op->u.finish.run;
    if (run->outcome == PAWL_ATTEMPT_NONE || run->code || run->error || run->log.len || run->log_lines || run->progress >= 0)
        return false;
    return !run->progress_text && !op->u.finish.reason && !op->u.finish.result_type && !op->u.finish.result_ref &&
           !op->u.finish.result.data;
}

static bool insert_simple(const flat_op *o, const pawl_op *first)
{
    const pawl_op *op = o->op;
    const pawl_body *b = BODY;
    if (o->parent >= 0 || op->id == 0 || op->u.insert.may_exist || op->u.insert.depth_limit > 0 || when_of(op)) return false;
    if (op->u.insert.ask_lease != first->u.insert.ask_lease || (b->content_type && !is_json(op)) || is_json(op) != is_json(first))
        return false;
    if (has_tenant(op) || b->max_attempts || b->timeout_us || b->retry_of || b->key) return false;
    return !b->created_by && !b->traceparent && !b->headers && !b->rate_key.data && !op->u.insert.family;
}

int pg_flat_simple(const flat *f)
{
    bool ends = f->counts[FLAT_ENDS] > 0, inserts = f->counts[FLAT_INSERTS] > 0 && !f->careful;
    int64_t fence = ends ? f->ops[f->lists[FLAT_ENDS][0]].op->fence : 0;
    const pawl_op *first = inserts ? f->ops[f->lists[FLAT_INSERTS][0]].op : NULL;
    for (int at = 0; at < f->counts[FLAT_ENDS] && ends; at++) ends = end_simple(&f->ops[f->lists[FLAT_ENDS][at]], fence);
    for (int at = 0; at < f->counts[FLAT_INSERTS] && inserts; at++)
        inserts = insert_simple(&f->ops[f->lists[FLAT_INSERTS][at]], first);
    return (ends ? 1 : 0) | (inserts ? 2 : 0);
}

bool pg_flat_is_one(const flat *f)
{
    return f->count == 1 && f->counts[FLAT_INSERTS] == 1 && !f->asks && (pg_flat_simple(f) & 2);
}
