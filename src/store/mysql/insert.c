/* INSERT: a new task, or what becomes of it when its key is taken.
 *
 *   key's last task      result
 *   none                 TABLE_DONE
 *   waiting, pending     UPDATED: body, time, priority, queue and type are replaced, the id stays
 *   leased, not started  taken back, then UPDATED
 *   leased, started      EXISTING
 *   finished             REPLACED: a new task takes the key
 *
 * With a family: EXISTING, if the key's last task is not finished.
 *
 * Most batches do not look whether an id is taken: the statement that stores the bodies fails if one is, and the batch is tried again with
 * open eyes (flat.careful). Limits on the depth of queues are decided before the first operation is applied, for groups as a whole.
 */
#include "base/check.h"
#include "core/task.h"
#include "store/mysql/family.h"
#include "store/mysql/place.h"
#include "store/mysql/quota.h"

/* ---- keys ---------------------------------------------------------------------------------------------------------------- */

static int compare_bytes(pawl_bytes a, pawl_bytes b)
{
    size_t n = a.len < b.len ? a.len : b.len;
    int order = n ? memcmp(a.data, b.data, n) : 0;
    return order ? order : a.len < b.len ? -1 : a.len > b.len;
}

static int compare_keys(const void *a, const void *b)
{
    const key_row *x = a, *y = b;
    int order = compare_bytes(x->key, y->key);
    return order ? order : x->tenant_id < y->tenant_id ? -1 : x->tenant_id > y->tenant_id;
}

key_row *my_key_find(work *w, pawl_bytes key, int32_t tenant_id)
{
    key_row wanted = {.key = key, .tenant_id = tenant_id};
    if (w->keys_count == 0) return NULL;
    return bsearch(&wanted, w->keys, (size_t)w->keys_count, sizeof wanted, compare_keys);
}

#define KEYS_AT_ONCE 200

void my_add_keys(work *w, const key_row *keys, int count)
{
    buf b;
    buf_init(&b, w->s->allocator, 64 << 20);
    qsort((key_row *)keys, (size_t)count, sizeof *keys, compare_keys);
    for (int from = 0; from < count; from += KEYS_AT_ONCE) {
        buf_clear(&b);
        for (int i = from; i < count && i < from + KEYS_AT_ONCE; i++) {
            buf_str(&b, i > from ? " OR (task_key = " : "(task_key = ");
            lit_bytes(w->c, &b, keys[i].key);
            buf_fmt(&b, " AND tenant_id = %d AND old = 0)", (int)keys[i].tenant_id);
        }
        if (b.failed) w->no_memory = true;
        my_put_raw(w->c, buf_text(&b), b.len);
        my_add(w->c, SQL_keys_lock);
    }
    buf_done(&b);
}

void my_keys_take_in(work *w)
{
    EACH_ANSWER(a, w->c, SQL_keys_lock)
    for (int i = 0; i < a->rows; i++) {
        key_row *k = my_key_find(w, get_bytes(a, i, 0), (int32_t)get_int(a, i, 1));
        if (k) k->holder = get_int(a, i, 2);
    }
}

static pawl_bytes bytes_of(const char *text) { return (pawl_bytes){text, strlen(text)}; }

/* The task that holds the operation's key; NULL: nobody does, or not any more. *before: who did last. */
static task_row *holder_of(work *w, const flat_op *o, pawl_id *before)
{
    const char *key = o->op->u.insert.body->key;
    const key_row *k = key ? my_key_find(w, bytes_of(key), o->tenant_id) : NULL;
    *before = k ? k->holder : 0;
    task_row *row = *before ? my_task(w, *before) : NULL;
    return row && row->state && !pawl_state_terminal(row->state) ? row : NULL;
}

/* A new task has the key from now on. */
static void key_put(work *w, const flat_op *o, pawl_id id, pawl_id before)
{
    pawl_bytes key = bytes_of(o->op->u.insert.body->key);
    conn *c = w->c;
    if (!before) {
        buf *b = &w->tables[TABLE_KEYS].text;
        my_rows_begin(w, TABLE_KEYS);
        lit_bytes(c, b, key);
        buf_fmt(b, ",%d,0,%lld", (int)o->tenant_id, (long long)id);
        my_rows_end(w, TABLE_KEYS);
        return;
    }
    my_put_bytes(c, key);
    my_put_int(c, o->tenant_id);
    my_put_int(c, before);
    my_add(c, SQL_key_old);
    my_put_bytes(c, key);
    my_put_int(c, o->tenant_id);
    my_put_int(c, id);
    my_add(c, SQL_key_move);
}

/* ---- the depth of queues ------------------------------------------------------------------------------------------------- */

/* Whether it will be one more unfinished task. */
static bool adds(work *w, const flat_op *o)
{
    pawl_id before;
    if (o->refused || (o->op->id && my_task(w, o->op->id))) return false;
    return !holder_of(w, o, &before);
}

/* How many tasks too many its queue would hold with it. */
static int64_t excess(work *w, const flat_op *o)
{
    if (!adds(w, o)) return 0;
    queue_tally *q = my_queue(w, o->queue_id);
    int64_t planned = q->depth + ++q->planned, limit = o->op->u.insert.depth_limit;
    return limit > 0 && planned > limit ? planned - limit : 0;
}

static bool same_group(const flat_op *a, const flat_op *b)
{
    return a == b || (b->op->kind == PAWL_OP_INSERT && b->parent < 0 && a->op->u.insert.group > 0 &&
                      a->op->u.insert.group == b->op->u.insert.group);
}

/* Decides about ops[first] and all of its group. */
static void decide_group(work *w, int first, bool *decided)
{
    flat *f = w->f;
    int64_t missing = 0;
    for (int i = first; i < f->count; i++) {
        if (decided[i] || !same_group(&f->ops[first], &f->ops[i])) continue;
        decided[i] = true;
        int64_t over = excess(w, &f->ops[i]);
        if (over > missing) missing = over;
    }
    for (int i = first; i < f->count && missing > 0; i++) {
        flat_op *o = &f->ops[i];
        if (!same_group(&f->ops[first], o)) continue;
        o->full = true;
        o->op->u.insert.missing = missing;
        if (adds(w, o)) my_queue(w, o->queue_id)->planned--;
    }
}

void my_insert_depths(work *w)
{
    flat *f = w->f;
    if (!f->limited) return;
    bool *decided = my_work_alloc(w, (size_t)(f->count + 1) * sizeof *decided);
    for (int i = 0; decided && i < f->count; i++)
        if (f->ops[i].op->kind == PAWL_OP_INSERT && f->ops[i].parent < 0 && !decided[i]) decide_group(w, i, decided);
}

/* ---- the four ends ------------------------------------------------------------------------------------------------------- */

/* A lease that nobody relies on yet goes back, with a fence that its holder does not know. */
void my_task_take_back(work *w, task_row *row)
{
    CHECK(row->state == PAWL_LEASED && row->not_started);
    my_audit_grant(w, row);
    my_leased_drop(w, row);
    row->fence++;
}

static void answer_with(pawl_op *op, const task_row *row)
{
    op->out_id = row->id;
    op->out_state = row->state;
    op->out_run_at_us = row->run_at_us;
}

static void put_body_again(work *w, const flat_op *o, const task_row *row)
{
    const pawl_body *b = o->op->u.insert.body;
    conn *c = w->c;
    bool json = b->content_type && strcmp(b->content_type, "application/json") == 0;
    my_put_int(c, row->id);
    my_put_int(c, row->type_id);
    my_put_int(c, row->queue_id);
    my_put_int(c, b->priority);
    my_put_int(c, row->level);
    my_put_int(c, b->audit);
    my_put_int_or_null(c, b->max_attempts, 0);
    my_put_int_or_null(c, b->timeout_us, 0);
    my_put_text(c, json ? NULL : b->content_type ? b->content_type : "");
    my_put_text(c, b->created_by);
    my_put_text(c, b->traceparent);
    my_put_text(c, b->headers);
    my_put_bytes(c, b->rate_key);
    my_put_bytes(c, b->payload);
    my_add(c, SQL_body_replace);
}

typedef struct taken { /* what an insert took of a budget */
    const quota *q;    /* NULL: nothing limits it, or not yet */
    budget_slot slot;
    bool now; /* it may start now */
    bool has; /* its slot is ahead */
} taken;

/* A slot for a task that is due. */
static taken take_slot(work *w, pawl_op *op, const task_row *row, bool leased)
{
    taken k = {.now = true};
    op->out_until_us = INT64_MAX;
    pawl_bytes key = op->u.insert.body->rate_key;
    /* Where an order is kept, nobody knows when it will be its turn. */
    if (my_place_ordered(w, row->queue_id, row->type_id, key)) return k;
    quota *q = row->run_at_us <= w->now_us ? my_quota_of(w, row->type_id, key) : NULL;
    if (!q) return k;
    budget_answer answer = my_quota_take(w, q, &(budget_ask){.id = row->id, .ahead_only = !leased}, &k.slot);
    k.q = q;
    k.now = answer == BUDGET_NOW;
    k.has = answer == BUDGET_LATER;
    op->out_until_us = k.slot.until_us;
    op->out_epoch = k.slot.epoch;
    return k;
}

/* Whether a task with another body keeps its slot, because its rate key is the same and its time not later. In the program's own
 * transaction nothing is known of the budget; whoever claims the task will see whether the slot is good. */
static bool keeps_slot(work *w, const flat_op *o, const task_row *row)
{
    char room[LIMIT_KEY_ROOM];
    const rate_head *had = row->head;
    pawl_bytes key = limit_key(o->op->u.insert.body->rate_key, room);
    if (!had || !had->slotted || row->state != PAWL_PENDING || row->type_id != o->type_id || key.len == 0) return false;
    if (row->run_at_us < my_due_at(o->op, w->now_us)) return false;
    if (had->key.len != key.len || memcmp(had->key.data, key.data, key.len) != 0) return false;
    if (w->borrowed) return true;
    const quota *q = my_quota_of(w, row->type_id, key);
    return q && had->slot_key.len == key.len && memcmp(had->slot_key.data, key.data, key.len) == 0 && q->row.epoch == had->epoch;
}

static void update(work *w, const flat_op *o, task_row *row)
{
    pawl_op *op = o->op;
    int64_t slot_us = keeps_slot(w, o, row) ? row->run_at_us : 0;
    if (!slot_us) my_quota_give_back(w, row);
    if (row->state == PAWL_LEASED) {
        my_task_take_back(w, row);
        if (audit_wanted(op->audit, AUDIT_CHANGE)) my_audit_put(w, row, task_move(row->state, TASK_AGAIN), "taken back", 0);
        row->state = task_move(row->state, TASK_AGAIN);
    } else {
        my_live_drop(w, row);
    }
    if (w->spots.count) my_places_withdraw(w, row);
    if (row->level == PAWL_AUDIT_FULL && op->audit != PAWL_AUDIT_FULL) {
        my_put_int(w->c, row->id);
        my_add(w->c, SQL_audit_dispatch);
    }
    row->node = 0;
    row->queue_id = o->queue_id;
    row->type_id = o->type_id;
    row->run_at_us = my_due_at(op, w->now_us);
    row->level = op->audit;
    row->priority = op->u.insert.body->priority;
    taken slot = {.now = true};
    if (slot_us) row->run_at_us = slot_us;
    else if (row->state != PAWL_WAITING) slot = take_slot(w, op, row, false);
    if (slot.has) row->run_at_us = slot.slot.slot_us;
    if (row->state == PAWL_WAITING || !my_places_line_up(w, row, op->u.insert.body->rate_key, o->tenant_id)) my_live_put(w, row);
    if (slot.has) my_slot_put(w, row->id, row->type_id, slot.q->key, slot.slot.epoch);
    put_body_again(w, o, row);
    op->result = PAWL_OP_UPDATED;
    answer_with(op, row);
}

/* The id is taken: by the very same insert, sent before, or by a collision. */
static void id_taken(pawl_op *op, const task_row *row)
{
    op->result = op->u.insert.may_exist ? PAWL_OP_EXISTING : PAWL_OP_COLLISION;
    if (op->u.insert.may_exist) answer_with(op, row);
}

static bool may_lease(work *w, const flat_op *o, const task_row *row)
{
    if (my_bounded(&w->limits, row->queue_id, row->type_id) || my_bound_on(&w->limits, PAWL_SCOPE_TENANTS, row->queue_id))
        return false;
    return o->op->u.insert.ask_lease && o->parent < 0 && w->node && w->alive && row->run_at_us <= w->now_us &&
           !my_queue(w, row->queue_id)->paused;
}

static task_row new_row(work *w, const flat_op *o, pawl_id id, const kinship *k, taken *slot)
{
    const pawl_body *b = o->op->u.insert.body;
    task_row row = {
        .id = id, .priority = b->priority, .run_at_us = my_due_at(o->op, w->now_us), .level = o->op->audit, .progress = -1};
    row.type_id = o->type_id;
    row.queue_id = o->queue_id;
    row.keyed = b->key != NULL;
    if (k->unmet > 0) {
        row.state = task_move(PAWL_STATE_NONE, TASK_HAS_PARENTS);
        *slot = (taken){0};
        o->op->out_until_us = INT64_MAX;
        return row;
    }
    bool lease = may_lease(w, o, &row);
    *slot = take_slot(w, o->op, &row, lease);
    if (lease && slot->now) {
        row.state = task_move(PAWL_STATE_NONE, TASK_BORN_LEASED);
        row.born_leased = true;
        row.node = w->node;
        row.fence = 1;
        row.leased_us = row.run_at_us = w->now_us;
    } else {
        row.state = task_move(PAWL_STATE_NONE, TASK_DISPATCHED);
        if (slot->has) row.run_at_us = slot->slot.slot_us;
    }
    return row;
}

static void create(work *w, const flat_op *o, pawl_id before)
{
    pawl_op *op = o->op;
    pawl_body *b = op->u.insert.body;
    bool spawned_twice = o->parent >= 0 && op->id && my_task(w, op->id); /* nobody could send it again: the store draws another */
    kinship k = my_family_judge(w, o);
    if (k.result != PAWL_OP_DONE) {
        op->result = k.result;
        op->out_id = k.result == PAWL_OP_NOT_FOUND || k.result == PAWL_OP_CONFLICT ? k.id : 0;
        return;
    }
    pawl_id id = op->id && !spawned_twice ? op->id : my_work_draw_id(w);
    taken slot;
    task_row row = new_row(w, o, id, &k, &slot);
    my_body_put(w, b, o->tenant_id, w->now_us, &row);
    if (row.state == PAWL_LEASED) my_leased_put(w, &row);
    else if (row.state == PAWL_WAITING || !my_places_line_up(w, &row, b->rate_key, o->tenant_id)) my_live_put(w, &row);
    my_family_put(w, o, id, &k);
    if (slot.has) my_slot_put(w, id, row.type_id, slot.q->key, slot.slot.epoch);
    if (b->key) key_put(w, o, id, before);
    my_roll(w, row.queue_id, row.type_id, ROLLUP_DISPATCHED);
    my_born(w, id);
    op->result = before ? PAWL_OP_REPLACED : PAWL_OP_DONE;
    op->out_fence = row.fence;
    answer_with(op, &row);
    b->id = id;
    b->created_us = w->now_us;
}

void my_apply_insert(work *w, flat_op *o)
{
    pawl_op *op = o->op;
    pawl_id before;
    if (o->full) {
        op->result = PAWL_OP_FULL;
        return;
    }
    if (op->audit == PAWL_AUDIT_DEFAULT) op->audit = PAWL_AUDIT_FULL;
    const task_row *same = op->id && o->parent < 0 ? my_task(w, op->id) : NULL;
    task_row *holder = holder_of(w, o, &before);
    if (same) id_taken(op, same);
    else if (!holder) create(w, o, before);
    else if ((holder->state == PAWL_LEASED && !holder->not_started) || op->u.insert.family) {
        op->result = PAWL_OP_EXISTING;
        answer_with(op, holder);
    } else {
        update(w, o, holder);
    }
}
