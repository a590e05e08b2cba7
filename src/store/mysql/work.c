/* The operations of a batch, inside a transaction: first everything that they need to know is read (and locked, where they will change
 * it), in the order of locks that all stores keep: limits, spots, schedules, keys, tasks by id, batches. Then they are carried out in memory, and what changes goes
 * out as a few statements. Both take one message each, unless an operation meets something unusual.
 */
#include "store/mysql/family.h"
#include "store/mysql/place.h"
#include "store/mysql/quota.h"
#include "store/mysql/schedule.h"
#include <stdio.h>

/* ---- ids that the store draws -------------------------------------------------------------------------------------------- */

/* How many it may have to draw, at most. */
static int draws_of(const flat *f)
{
    int count = 0;
    for (int i = 0; i < f->count; i++) {
        const flat_op *o = &f->ops[i];
        if (o->refused) continue;
        if (o->op->kind == PAWL_OP_BATCH) count += o->op->id == 0;
        else if (o->op->kind == PAWL_OP_INSERT) count += o->op->id == 0 || (o->parent >= 0 && f->careful);
        else if (o->op->kind == PAWL_OP_RETRY) count += o->op->u.retry.new_id == 0;
    }
    return count > 0 ? count : 1;
}

/* A number of the counter with the bits of node number 0 put in. */
static pawl_id id_of(int64_t drawn) { return (drawn >> 12) << 22 | (drawn & 4095); }

/* On another connection, in a commit of its own: whoever draws ids in a long transaction holds up nobody. */
static bool draw(work *w, int count)
{
    conn *c = my_store_take(w->s, READER);
    my_script(c);
    my_put_int(c, (w->now_us / 1000 - PAWL_EPOCH_MS) * 4096);
    my_put_int(c, count);
    my_add(c, SQL_draw);
    bool good = my_send(c, CALL_WRITES);
    /* Numbers that nobody uses do no harm. */
    if (!good) my_conn_note(w->c, c->status == PAWL_UNKNOWN ? PAWL_UNAVAILABLE : c->status, c->code, c->why);
    for (int i = 0; i < count && good; i++) w->drawn[i] = id_of((int64_t)c->insert_id - count + 1 + i);
    my_store_give(w->s, c);
    return good;
}

pawl_id my_work_draw_id(work *w)
{
    if (w->drawn_used == w->drawn_count) {
        int count = draws_of(w->f);
        w->drawn = my_work_alloc(w, (size_t)count * sizeof *w->drawn);
        if (!w->drawn) return 0;
        w->failed = w->failed || !draw(w, count);
        if (w->failed) return 0;
        w->drawn_count = count;
        w->drawn_used = 0;
    }
    return w->drawn[w->drawn_used++];
}

/* ---- what they need to know ---------------------------------------------------------------------------------------------- */

static bool by_holder(const pawl_op *op)
{
    return op->kind == PAWL_OP_FINISH || op->kind == PAWL_OP_RELEASE || op->kind == PAWL_OP_START ||
           op->kind == PAWL_OP_PROGRESS || op->kind == PAWL_OP_RESERVE;
}

/* What must not happen to a store whose tasks may have been copied already. */
static bool comes_or_goes(const flat_op *o)
{
    pawl_op_kind kind = o->op->kind;
    return o->parent < 0 && (kind == PAWL_OP_INSERT || kind == PAWL_OP_CANCEL || kind == PAWL_OP_RETRY || kind == PAWL_OP_ACK ||
                             kind == PAWL_OP_QUEUE || kind == PAWL_OP_LIMIT || kind == PAWL_OP_BOUND ||
                             kind == PAWL_OP_SCHEDULE || kind == PAWL_OP_STEP || kind == PAWL_OP_BATCH);
}

static bool asks_gate(const flat *f)
{
    if (f->inner) return false;
    for (int i = 0; i < f->count; i++)
        if (comes_or_goes(&f->ops[i])) return true;
    return false;
}

static bool of_ended(const pawl_op *op) { return op->kind == PAWL_OP_RETRY || op->kind == PAWL_OP_ACK; }

/* Whether it is looked first if the id is taken. */
static bool looks_first(const flat *f, const flat_op *o)
{
    const pawl_op *op = o->op;
    if (op->kind == PAWL_OP_BATCH) return op->id && op->u.batch->act == PAWL_BATCH_OPEN;
    if (op->kind != PAWL_OP_INSERT || !op->id) return false;
    return f->careful || f->limited || op->u.insert.may_exist || op->u.insert.body->key || op->u.insert.family;
}

typedef bool (*chooser)(const flat *f, const flat_op *o);

static bool needs_lease(const flat *f, const flat_op *o)
{
    (void)f;
    return by_holder(o->op) || o->op->kind == PAWL_OP_CANCEL;
}

static bool needs_live(const flat *f, const flat_op *o)
{
    (void)f;
    return o->op->kind == PAWL_OP_CANCEL;
}

static bool needs_end(const flat *f, const flat_op *o)
{
    (void)f;
    return of_ended(o->op);
}

static bool needs_head(const flat *f, const flat_op *o)
{
    (void)f;
    return my_quota_of_task(o->op) || (o->op->kind == PAWL_OP_RELEASE && o->op->u.release.slot_us);
}

/* Its places may be freed, or it is withdrawn. */
static bool needs_stand(const flat *f, const flat_op *o)
{
    (void)f;
    return o->stands;
}

/* The ids of those operations, sorted. */
static int choose(work *w, chooser chosen, pawl_id *ids)
{
    int count = 0;
    for (int i = 0; i < w->f->count; i++) {
        const flat_op *o = &w->f->ops[i];
        if (!o->refused && chosen(w->f, o)) ids[count++] = o->op->id;
    }
    return my_sort_ids(ids, count);
}

static void ask_limits(work *w)
{
    buf list, made;
    if (w->f->asks && w->node) my_add(w->c, SQL_paused);
    if (!w->f->limited) return;
    buf_init(&list, w->s->allocator, 1 << 20);
    buf_init(&made, w->s->allocator, 1 << 20);
    for (int i = 0; i < w->f->count; i++) {
        const flat_op *o = &w->f->ops[i];
        if (o->op->kind != PAWL_OP_INSERT || o->parent >= 0 || o->refused) continue;
        buf_fmt(&list, "%s%d", list.len ? "," : "", (int)o->queue_id);
        buf_fmt(&made, "%s(%d)", made.len ? "," : "", (int)o->queue_id);
    }
    if (list.failed || made.failed) w->no_memory = true;
    const sql_name names_of[] = {SQL_queue_make, SQL_queue_lock, SQL_depths};
    for (int i = 0; list.len && i < 3; i++) {
        my_put_raw(w->c, buf_text(i ? &list : &made), i ? list.len : made.len);
        my_add(w->c, names_of[i]);
    }
    buf_done(&list);
    buf_done(&made);
}

static void ask_keys(work *w)
{
    int count = 0;
    for (int i = 0; i < w->f->count; i++) {
        const flat_op *o = &w->f->ops[i];
        count += !o->refused && o->op->kind == PAWL_OP_INSERT && o->op->u.insert.body->key;
    }
    if (count == 0) return;
    w->keys = my_work_alloc(w, (size_t)count * sizeof *w->keys);
    w->keys_count = 0;
    for (int i = 0; w->keys && i < w->f->count; i++) {
        const flat_op *o = &w->f->ops[i];
        if (o->refused || o->op->kind != PAWL_OP_INSERT || !o->op->u.insert.body->key) continue;
        const char *key = o->op->u.insert.body->key;
        w->keys[w->keys_count++] = (key_row){.key = {key, strlen(key)}, .tenant_id = o->tenant_id};
    }
    my_add_keys(w, w->keys, w->keys_count);
}

/* Which limits are in force. Whoever may grant a lease, or take one back later on, holds them as they are; who ends leases that it has
 * locked looks after that: whoever changes a bound has locked them before. */
static void ask_version(work *w, bool last)
{
    bool changes = w->f->limits || w->f->bounds || (w->f->puts && !w->limits.schedules), holds = asks_gate(w->f) || w->f->inner;
    if (w->borrowed || last == (holds || changes)) return;
    my_add(w->c, last ? SQL_version : changes ? SQL_limits_lock : SQL_version_shared);
}

bool my_work_ask(work *w)
{
    conn *c = w->c;
    w->ids = my_work_alloc(w, (size_t)(2 * w->f->count + 1) * sizeof *w->ids);
    if (!w->ids) return false;
    if (!w->borrowed && !my_limits_copy(w->s, w->arena, &w->limits)) return false;
    if (asks_gate(w->f)) my_add_gate(c);
    ask_version(w, false);
    my_quota_ask(w);
    if (w->f->bounds && !w->borrowed) my_ask_bounds(w);
    my_places_ask(w);
    my_schedules_ask(w);
    ask_limits(w);
    ask_keys(w);
    my_add_ids(c, SQL_live_lock, w->ids, choose(w, needs_live, w->ids));
    my_add_ids(c, SQL_leased_lock, w->ids, choose(w, needs_lease, w->ids));
    if (w->limits.count || w->limits.bounds_count) my_add_ids(c, SQL_rate_heads, w->ids, choose(w, needs_head, w->ids));
    my_places_verify(w, w->ids, choose(w, needs_stand, w->ids));
    int ended = choose(w, needs_end, w->ids);
    my_add_ids(c, SQL_done_lock, w->ids, ended);
    my_add_ids(c, SQL_failed_lock, w->ids, ended);
    my_add_ids(c, SQL_bodies_look, w->ids, choose(w, looks_first, w->ids));
    my_families_ask(w);
    my_add_rollups_look(w);
    ask_version(w, true);
    return !w->no_memory;
}

static void take_in_limits(work *w)
{
    const answer *a = my_answer(w->c, SQL_paused);
    for (int i = 0; i < a->rows; i++) my_queue(w, (int32_t)get_int(a, i, 0))->paused = true;
    a = my_answer(w->c, SQL_depths);
    for (int i = 0; i < a->rows; i++) my_queue(w, (int32_t)get_int(a, i, 0))->depth = get_int(a, i, 1);
}

/* Ids that are taken: what are they? */
static int taken_ids(const work *w, pawl_id *ids)
{
    int count = 0;
    EACH_ANSWER(a, w->c, SQL_bodies_look)
    for (int i = 0; i < a->rows; i++) ids[count++] = get_int(a, i, 0);
    return count;
}

bool my_work_load(work *w)
{
    pawl_id *look = w->ids, *lock = w->ids + w->f->count;
    int looks, locks = 0;
    w->closed |= asks_gate(w->f) && my_gate_closed(w->c);
    take_in_limits(w);
    my_quota_take_in(w);
    if (w->f->bounds) my_bounds_take_in(w);
    my_schedules_take_in(w);
    my_keys_take_in(w);
    my_rollups_take_in(w);
    my_take_in(w);
    if (!my_spots_take_in(w) || my_places_missed(w)) return false;
    looks = taken_ids(w, look);
    for (int i = 0; i < w->f->count; i++) {
        const flat_op *o = &w->f->ops[i];
        if (o->refused || my_task(w, o->op->id)) continue;
        if (by_holder(o->op) || of_ended(o->op)) look[looks++] = o->op->id;
        else if (o->op->kind == PAWL_OP_CANCEL) lock[locks++] = o->op->id;
    }
    for (int i = 0; i < w->keys_count; i++)
        if (w->keys[i].holder) lock[locks++] = w->keys[i].holder;
    if (w->no_memory) my_conn_no_memory(w->c);
    return !w->no_memory && my_families_load(w) && my_load_plans(w) && my_load(w, lock, locks, LOAD_LOCK) &&
           my_load(w, look, looks, LOAD_LOOK) && (!w->f->bounds || my_load_bounds(w)) && my_places_load(w);
}

/* ---- carrying them out --------------------------------------------------------------------------------------------------- */

static bool apply_op(work *w, int at)
{
    flat_op *o = &w->f->ops[at];
    if (o->refused || o->parent >= 0) return true; /* comes with its FINISH or STEP */
    if (w->closed && !w->f->inner && comes_or_goes(o)) {
        o->op->result = PAWL_OP_CLOSED;
        return true;
    }
    switch (o->op->kind) {
    case PAWL_OP_INSERT: my_apply_insert(w, o); break;
    case PAWL_OP_START: my_apply_start(w, o->op); break;
    case PAWL_OP_FINISH: my_apply_finish(w, at); break;
    case PAWL_OP_RELEASE: my_apply_release(w, o->op); break;
    case PAWL_OP_PROGRESS: my_apply_progress(w, o->op); break;
    case PAWL_OP_CANCEL: my_apply_cancel(w, o->op); break;
    case PAWL_OP_RETRY: return my_apply_retry(w, o->op);
    case PAWL_OP_ACK: my_apply_ack(w, o->op); break;
    case PAWL_OP_QUEUE: my_apply_queue(w, o); break;
    case PAWL_OP_RESERVE: break; /* before the others */
    case PAWL_OP_BOUND: my_apply_bound(w, o); break;
    case PAWL_OP_SCHEDULE: my_apply_schedule(w, o); break;
    case PAWL_OP_STEP: my_apply_step(w, at); break;
    case PAWL_OP_BATCH: my_apply_batch(w, o->op); break;
    case PAWL_OP_SETTLE: o->op->result = PAWL_OP_DONE; break; /* after the commit */
    case PAWL_OP_LIMIT: my_apply_limit(w, o); break;
    }
    return true;
}

bool my_work_apply(work *w)
{
    my_script(w->c);
    for (int i = 0; i < w->f->count; i++) w->f->ops[i].full = false;
    if (!w->closed) my_insert_depths(w);
    if (!my_quota_reserve(w)) return false;
    my_script(w->c);
    for (int i = 0; i < w->f->count && !w->no_memory && !w->failed; i++)
        if (!apply_op(w, i)) return false;
    if (w->failed || !my_places_settle(w)) return false;
    if (w->f->bounds) my_bounds_told(w);
    my_work_flush(w);
    if (w->no_memory) my_conn_no_memory(w->c);
    return !w->no_memory;
}
