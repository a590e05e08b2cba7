/* Batches on rows: every operation of the contract, and how a batch takes all its locks in order before it does anything. */
#include "base/idgen.h"
#include "rowstore.h"
#include <stdlib.h>
#include <string.h>

static bool live(pawl_state state) { return state == PAWL_PENDING || state == PAWL_LEASED; }

/* ---- operations ------------------------------------------------------------------------------------------------------------ */

static row *key_row(tx *t, const char *key) { return rows_get(t->db, ROW_KEY, 0, key); }

static int64_t due_at(const tx *t, const pawl_op *op)
{
    int64_t at = op->u.insert.at_us ? op->u.insert.at_us : t->now_us + op->u.insert.delay_us;
    return at < t->now_us ? t->now_us : at;
}

static void put_body(tx *t, row *r, const pawl_op *op)
{
    row_data *d = rowtx_write(t, r);
    pawl_body body = *op->u.insert.body;
    body.id = r->id;
    body.created_us = t->now_us;
    d->task.body = pawl_body_copy(&rowstore_of(t)->forever, &body);
    d->task.run_at_us = due_at(t, op);
}

/* A lease that has not started is taken back by raising its fence. */
static void update_task(tx *t, row *r, pawl_op *op)
{
    row_taken taken = {.gate = NULL};
    int64_t slot_us = rowtx_read(t, r)->task.run_at_us;
    bool keeps = rowstore_keep_slot(t, r, op->u.insert.body, due_at(t, op));
    rowstore_leave_places(t, r);
    put_body(t, r, op);
    row_data *d = rowtx_write(t, r);
    if (keeps) d->task.run_at_us = slot_us;
    else if (d->task.run_at_us <= t->now_us) rowstore_take(t, d->task.body, false, &taken);
    if (taken.gate) rowstore_slot_set(d, taken.gate, &taken.slot);
    if (d->task.state == PAWL_LEASED) d->task.fence++;
    d->task.state = PAWL_PENDING;
    d->task.node = 0;
    d->task.not_started = d->task.marked = d->task.cancel_asked = false;
    op->result = PAWL_OP_UPDATED;
    op->out_id = r->id;
    op->out_run_at_us = d->task.run_at_us;
}

/* What the key says: true if that settles it. */
static bool insert_by_key(tx *t, pawl_op *op, row *r)
{
    row *k = key_row(t, op->u.insert.body->key);
    pawl_id holder = rowtx_read(t, k)->key.task;
    const row_data *d = holder ? rowtx_read(t, rowstore_task(t, holder)) : NULL;
    if (d && live(d->task.state)) {
        if (d->task.state == PAWL_PENDING || d->task.not_started) {
            update_task(t, rowstore_task(t, holder), op);
        } else {
            op->result = PAWL_OP_EXISTING;
            op->out_id = holder;
            op->out_state = d->task.state;
        }
        return true;
    }
    op->result = holder ? PAWL_OP_REPLACED : PAWL_OP_DONE;
    rowtx_write(t, k)->key.task = r->id;
    return false;
}

static bool insert(tx *t, pawl_op *op, int64_t node)
{
    row *r = rowstore_task(t, op->out_id);
    const row_data *there = rowtx_read(t, r);
    if (there->task.state) {
        op->result = op->u.insert.may_exist ? PAWL_OP_EXISTING : PAWL_OP_COLLISION;
        op->out_state = there->task.state;
        return false;
    }
    op->result = PAWL_OP_DONE;
    if (op->u.insert.body->key && insert_by_key(t, op, r)) return false;
    put_body(t, r, op);
    row_data *d = rowtx_write(t, r);
    row_taken taken = {.slot.until_us = INT64_MAX};
    bool due = d->task.run_at_us <= t->now_us, paused = rowtx_read(t, rowstore_queue(t, d->task.body->queue))->queue.paused;
    bool lease = op->u.insert.ask_lease && node && due && !paused && !rowstore_bounded(t, d->task.body),
         now = !due || rowstore_take(t, d->task.body, lease, &taken);
    if (taken.gate) rowstore_slot_set(d, taken.gate, &taken.slot);
    op->out_run_at_us = d->task.run_at_us;
    op->out_until_us = taken.slot.until_us;
    op->out_epoch = taken.slot.epoch;
    d->task.state = lease && now ? PAWL_LEASED : PAWL_PENDING;
    if (d->task.state != PAWL_LEASED) return false;
    d->task.node = node;
    op->out_fence = d->task.fence = 1;
    return true;
}

static bool leased_under(const row_data *d, const pawl_op *op)
{
    return d->task.state == PAWL_LEASED && d->task.fence == op->fence;
}

void rowstore_unlease(row_data *d, pawl_state to)
{
    d->task.state = to;
    d->task.node = 0;
    d->task.not_started = d->task.marked = false;
}

static void start(tx *t, row *r, pawl_op *op)
{
    op->result = PAWL_OP_CANCELLING;
    if (rowtx_read(t, r)->task.cancel_asked) return;
    row_data *d = rowtx_write(t, r);
    d->task.not_started = false;
    d->task.marked |= op->u.start.mark;
    op->result = PAWL_OP_DONE;
}

static void finish(tx *t, row *r, pawl_op *op)
{
    row_data *d = rowtx_write(t, r);
    if (op->u.finish.run.outcome == PAWL_ATTEMPT_NONE) rowstore_give_back(t, r);
    rowstore_leave_places(t, r);
    rowstore_unlease(d, op->u.finish.to);
    d->task.reason =
        op->u.finish.reason ? strcpy(sim_alloc(t->db->sim, strlen(op->u.finish.reason) + 1), op->u.finish.reason) : NULL;
    if (op->u.finish.run.outcome != PAWL_ATTEMPT_NONE) {
        d->task.runs++;
        d->task.failures += op->u.finish.to == PAWL_FAILED;
    }
    for (int i = 0; i < op->u.finish.spawns_count; i++) insert(t, &op->u.finish.spawns[i], 0);
    op->result = PAWL_OP_DONE;
}

static void release(tx *t, row *r, pawl_op *op)
{
    row_data *d = rowtx_write(t, r);
    bool cancelled = d->task.cancel_asked;
    rowstore_leave_places(t, r);
    rowstore_unlease(d, cancelled ? PAWL_CANCELLED : PAWL_PENDING);
    if (op->u.release.delay_us >= 0 && !cancelled) d->task.run_at_us = t->now_us + op->u.release.delay_us;
    if (op->u.release.run.outcome != PAWL_ATTEMPT_NONE) {
        d->task.runs++;
        d->task.suspect = d->task.solo = false; /* it returned: it is innocent */
    }
    if (op->u.release.slot_us && !cancelled) rowstore_release_slot(t, r, op);
    d->task.failures += op->u.release.failure && !cancelled;
    d->task.interruptions += op->u.release.interruption && !cancelled;
    op->out_state = d->task.state;
    op->out_run_at_us = d->task.run_at_us;
    op->result = PAWL_OP_DONE;
}

static void cancel(tx *t, row *r, pawl_op *op)
{
    const row_data *was = rowtx_read(t, r);
    op->out_state = was->task.state;
    op->result = was->task.state ? PAWL_OP_CONFLICT : PAWL_OP_NOT_FOUND;
    if (!live(was->task.state)) return;
    row_data *d = rowtx_write(t, r);
    bool started = d->task.state == PAWL_LEASED && !d->task.not_started;
    op->result = started ? PAWL_OP_ASKED : PAWL_OP_DONE;
    if (started) {
        d->task.cancel_asked = true;
    } else {
        if (d->task.state == PAWL_LEASED) d->task.fence++;
        rowstore_give_back(t, r);
        rowstore_leave_places(t, r);
        rowstore_unlease(d, PAWL_CANCELLED);
    }
}

static void by_fence(tx *t, pawl_op *op)
{
    row *r = rowstore_task(t, op->id);
    const row_data *d = rowtx_read(t, r);
    if (!leased_under(d, op)) {
        op->result = PAWL_OP_STALE;
        op->out_state = d->task.state;
    } else if (op->kind == PAWL_OP_START) {
        start(t, r, op);
    } else if (op->kind == PAWL_OP_FINISH) {
        finish(t, r, op);
    } else if (op->kind == PAWL_OP_RELEASE) {
        release(t, r, op);
    } else if (op->kind == PAWL_OP_RESERVE) {
        rowstore_reserve(t, r, op);
    } else {
        op->result = PAWL_OP_DONE;
    }
}

static bool operate(tx *t, pawl_op *op, int64_t node)
{
    switch (op->kind) {
    case PAWL_OP_INSERT: return insert(t, op, node);
    case PAWL_OP_CANCEL: cancel(t, rowstore_task(t, op->id), op); return false;
    case PAWL_OP_QUEUE:
        rowtx_write(t, rowstore_queue(t, op->u.queue.queue))->queue.paused = op->u.queue.pause;
        op->result = PAWL_OP_DONE;
        return false;
    case PAWL_OP_LIMIT: rowstore_limit(t, op); return false;
    case PAWL_OP_BOUND: rowstore_bound(t, op); return false;
    case PAWL_OP_START:
    case PAWL_OP_RESERVE:
    case PAWL_OP_FINISH:
    case PAWL_OP_RELEASE:
    case PAWL_OP_PROGRESS: by_fence(t, op); return false;
    default: op->result = PAWL_OP_REFUSED; return false;
    }
}

/* ---- a batch: all its locks in order, then its operations ------------------------------------------------------------------ */

void rowstore_want_lock(lock_list *l, row *r, bool exclusive)
{
    for (int i = 0; i < l->count; i++) {
        if (l->locks[i].row != r) continue;
        l->locks[i].exclusive |= exclusive;
        return;
    }
    l->locks[l->count].row = r;
    l->locks[l->count++].exclusive = exclusive;
}

static int by_table_and_name(const void *a, const void *b)
{
    const row *x = *(row *const *)a, *y = *(row *const *)b;
    if (x->table != y->table) return x->table < y->table ? -1 : 1;
    if (x->name) return strcmp(x->name, y->name);
    return x->id < y->id ? -1 : x->id > y->id;
}

bool rowstore_lock_all(tx *t, lock_list *l)
{
    qsort(l->locks, (size_t)l->count, sizeof *l->locks, by_table_and_name);
    for (int i = 0; i < l->count; i++) {
        if (!rowtx_lock(t, l->locks[i].row, l->locks[i].exclusive)) return false;
    }
    l->count = 0;
    return true;
}

static pawl_id draw_id(tx *t)
{
    rowstore *rs = rowstore_of(t);
    int64_t ms = t->now_us / 1000 - PAWL_EPOCH_MS;
    pawl_id id = id_make(ms, 0, 0);
    rs->last_id = id > rs->last_id ? id : rs->last_id + 1;
    return rs->last_id;
}

static void want_names(tx *t, lock_list *l, pawl_op *op)
{
    op->result = PAWL_OP_NONE;
    op->out_id = op->out_fence = op->out_run_at_us = op->out_until_us = op->out_epoch = 0;
    op->out_state = PAWL_STATE_NONE;
    rowstore_want_gates(t, l, op);
    rowstore_want_spots(t, l, op);
    if (op->kind == PAWL_OP_QUEUE) rowstore_want_lock(l, rowstore_queue(t, op->u.queue.queue), true);
    if (op->kind == PAWL_OP_INSERT) {
        op->out_id = op->id ? op->id : draw_id(t);
        if (op->u.insert.ask_lease) rowstore_want_lock(l, rowstore_queue(t, op->u.insert.body->queue), false);
        if (op->u.insert.body->key) rowstore_want_lock(l, key_row(t, op->u.insert.body->key), true);
    }
    for (int i = 0; op->kind == PAWL_OP_FINISH && i < op->u.finish.spawns_count; i++) want_names(t, l, &op->u.finish.spawns[i]);
}

/* With the keys locked it is known whom they name. */
static void want_tasks(tx *t, lock_list *l, pawl_op *op)
{
    if (op->kind == PAWL_OP_QUEUE || op->kind == PAWL_OP_BOUND) return;
    if (op->kind == PAWL_OP_LIMIT) {
        rowstore_want_slotted(t, l, op);
        return;
    }
    rowstore_want_lock(l, rowstore_task(t, op->kind == PAWL_OP_INSERT ? op->out_id : op->id), true);
    if (op->kind == PAWL_OP_INSERT && op->u.insert.body->key) {
        pawl_id holder = rowtx_read(t, key_row(t, op->u.insert.body->key))->key.task;
        if (holder) rowstore_want_lock(l, rowstore_task(t, holder), true);
    }
    for (int i = 0; op->kind == PAWL_OP_FINISH && i < op->u.finish.spawns_count; i++) want_tasks(t, l, &op->u.finish.spawns[i]);
}

/* Six limits and gates, six spots, a queue and a key of each, or two tasks; those who are blocked; of each task three spots. */
static int locks_most(const tx *t, const pawl_batch *b)
{
    int tasks = (int)t->db->tasks.count, most = 2 + (t->db->sim->plan.places ? 8 * tasks : 0);
    for (int i = 0; i < b->count; i++) {
        most += 14 + (b->ops[i]->kind == PAWL_OP_FINISH ? 14 * b->ops[i]->u.finish.spawns_count : 0);
        if (b->ops[i]->kind == PAWL_OP_LIMIT) most += tasks;
    }
    return most;
}

static bool has_bound(const pawl_batch *b)
{
    for (int i = 0; i < b->count; i++)
        if (b->ops[i]->kind == PAWL_OP_BOUND) return true;
    return false;
}

/* Whether the spots of the task that it is about are locked, too. */
static bool stands(tx *t, const pawl_op *op)
{
    bool leaves =
        op->kind == PAWL_OP_FINISH || op->kind == PAWL_OP_RELEASE || op->kind == PAWL_OP_RESERVE || op->kind == PAWL_OP_CANCEL;
    if (leaves && !rowstore_stands(t, rowstore_task(t, op->id))) return false;
    if (op->kind == PAWL_OP_INSERT && op->u.insert.body->key) {
        pawl_id holder = rowtx_read(t, key_row(t, op->u.insert.body->key))->key.task;
        if (holder && !rowstore_stands(t, rowstore_task(t, holder))) return false;
    }
    for (int i = 0; op->kind == PAWL_OP_FINISH && i < op->u.finish.spawns_count; i++)
        if (!stands(t, &op->u.finish.spawns[i])) return false;
    return true;
}

static bool all_stand(tx *t, const pawl_batch *b)
{
    for (int i = 0; i < b->count; i++)
        if (!stands(t, b->ops[i])) return false;
    return true;
}

static bool operate_all(tx *t, pawl_batch *b, bool *granted)
{
    if (!rowstore_lock_bounds(t, has_bound(b))) return false;
    lock_list l = {.locks = pawl_arena_alloc(t->wire->arena, (size_t)locks_most(t, b) * sizeof *l.locks)};
    for (int i = 0; i < b->count; i++) want_names(t, &l, b->ops[i]);
    if (!rowstore_lock_all(t, &l)) return false;
    if (l.gates) {
        b->store_now_us = t->now_us = store_wall(t->db->sim);
        t->wire->at_us = t->db->sim->now;
        t->wire->shift_us = t->db->sim->wall_shift;
        t->wire->clock_steps = t->db->sim->clock_steps;
    }
    for (int i = 0; i < b->count; i++) want_tasks(t, &l, b->ops[i]);
    rowstore_want_blocked(t, &l);
    if (!rowstore_lock_all(t, &l)) return false;
    if (!all_stand(t, b)) return t->again = true, false;
    for (int i = 0; i < b->count; i++) {
        if (!rowtx_step(t)) return false;
        *granted |= operate(t, b->ops[i], b->node_dead ? 0 : b->node);
    }
    b->unblocked = rowstore_offer(t);
    return true;
}

/* The answers of the batch as it was applied the first time. */
static void answer_again(pawl_batch *b, const row_data *receipt)
{
    for (int i = 0; i < b->count; i++) {
        const pawl_op *from = &receipt->receipt.results[i];
        pawl_op *to = b->ops[i];
        to->result = from->result;
        to->out_id = from->out_id;
        to->out_fence = from->out_fence;
        to->out_run_at_us = from->out_run_at_us;
        to->out_until_us = to->out_epoch = 0;
        to->out_state = from->out_state;
    }
    b->node_dead |= receipt->receipt.node_dead;
    b->unblocked = true; /* perhaps: who asks again looks again */
    b->store_now_us = receipt->receipt.store_now_us;
}

static void keep_answers(tx *t, const pawl_batch *b, row *r)
{
    pawl_op *results = sim_alloc(t->db->sim, (size_t)(b->count + 1) * sizeof *results);
    for (int i = 0; i < b->count; i++) results[i] = *b->ops[i];
    row_data *d = rowtx_write(t, r);
    d->receipt.number = b->number;
    d->receipt.results = results;
    d->receipt.node_dead = b->node_dead;
    d->receipt.store_now_us = b->store_now_us;
}

bool rowstore_apply(tx *t, pawl_batch *b, pawl_status *status)
{
    bool granted = false;
    row *receipt = NULL;
    b->node_dead = b->unblocked = false;
    b->store_now_us = t->now_us;
    if (b->node) {
        receipt = rows_get(t->db, ROW_RECEIPT, b->node * LANES_MAX + b->lane, NULL);
        if (!rowstore_lock_life(t, b->node, &b->node_dead) || !rowtx_lock(t, receipt, true)) return false;
        int64_t last = rowtx_read(t, receipt)->receipt.number;
        if (last == b->number) {
            answer_again(b, rowtx_read(t, receipt));
            return true;
        }
        if (last != b->number - 1) {
            *status = PAWL_CONFLICT;
            return true;
        }
    }
    if (!operate_all(t, b, &granted)) return false;
    if (granted && !rowstore_beat(t, b->node, false)) return false;
    if (receipt) keep_answers(t, b, receipt);
    return rowtx_step(t);
}
