/* INSERT: a new task, or what becomes of it when its key is taken.
 *
 *   key's last task      result
 *   none                 DONE
 *   waiting, pending     UPDATED: body, time, priority, queue and type are replaced, the id stays
 *   leased, not started  taken back, then UPDATED
 *   leased, started      EXISTING
 *   finished             REPLACED: a new task takes the key
 *
 * With a family: EXISTING, if the key's last task is not finished.
 *
 * No statement looks whether an id is taken: the insert itself fails, and that alone, if it is. Limits on the depth of queues are
 * decided before the first operation is applied, for groups as a whole (insert_depths).
 */
#include "base/check.h"
#include "core/task.h"
#include "store/sqlite/family.h"
#include "store/sqlite/place.h"
#include "store/sqlite/quota.h"
#include <string.h>

typedef struct key_state {
    pawl_id holder;   /* 0: the key is free */
    task_row row;     /* the holder, if it is not finished */
    pawl_state state; /* NONE: the holder is gone */
} key_state;

static int64_t tenant_of(tx *t, const pawl_body *b) { return b->tenant && b->tenant[0] ? name_id(t->c, b->tenant) : 0; }

static void find_key(tx *t, const pawl_body *b, int64_t tenant_id, key_state *k)
{
    *k = (key_state){0};
    query q = query_on(t->c, SQL_key_get);
    put_text(&q, b->key);
    put_int(&q, tenant_id);
    if (query_row(&q)) k->holder = get_int(&q);
    query_end(&q);
    if (!k->holder) return;
    k->state = task_get(t->c, k->holder, &k->row) ? k->row.state : task_ended(t->c, k->holder, NULL);
}

/* Whether a live task of the key stands in for the new one, so that the queue grows by nothing. */
static bool key_is_live(const key_state *k) { return k->holder && k->state && !pawl_state_terminal(k->state); }

static int64_t due_at(const tx *t, const pawl_op *op)
{
    int64_t at_us = op->u.insert.at_us, delay_us = op->u.insert.delay_us;
    if (at_us) return at_us > t->now_us ? at_us : t->now_us;
    if (delay_us <= 0) return t->now_us;
    return delay_us < INT64_MAX - t->now_us ? t->now_us + delay_us : INT64_MAX;
}

/* The task is stored, in whatever state. */
static bool find_stored(tx *t, pawl_id id, task_row *row)
{
    if (task_get(t->c, id, row)) return true;
    *row = (task_row){.id = id};
    row->state = task_ended(t->c, id, NULL);
    return row->state != PAWL_STATE_NONE;
}

bool insert_makes_sense(const pawl_body *b) { return b && b->type && b->type[0] && b->queue && b->queue[0]; }

/* ---- the depth of queues ------------------------------------------------------------------------------------------------- */

/* Whether it will be one more unfinished task. */
static bool adds(tx *t, pawl_op *op)
{
    const pawl_body *b = op->u.insert.body;
    task_row row;
    if (!insert_makes_sense(b) || (op->id && find_stored(t, op->id, &row))) return false;
    if (!b->key) return true;
    key_state k;
    find_key(t, b, tenant_of(t, b), &k);
    return !key_is_live(&k);
}

/* How many tasks too many its queue would hold with it. */
static int64_t excess(tx *t, pawl_op *op)
{
    if (!adds(t, op)) return 0;
    int64_t planned = tally_plan(t, name_id(t->c, op->u.insert.body->queue), 1), limit = op->u.insert.depth_limit;
    return limit > 0 && planned > limit ? planned - limit : 0;
}

static bool same_group(const pawl_op *a, const pawl_op *b)
{
    if (a == b || CANARY(GROUP_SPLIT)) return a == b;
    return b->kind == PAWL_OP_INSERT && a->u.insert.group > 0 && a->u.insert.group == b->u.insert.group;
}

/* Decides about ops[first] and all of its group. */
static void decide_group(tx *t, pawl_op **ops, int count, int first, bool *decided)
{
    int64_t missing = 0;
    for (int i = first; i < count; i++) {
        if (decided[i] || !same_group(ops[first], ops[i])) continue;
        decided[i] = true;
        int64_t over = excess(t, ops[i]);
        if (over > missing) missing = over;
    }
    for (int i = first; i < count && missing > 0; i++) {
        if (!same_group(ops[first], ops[i])) continue;
        ops[i]->result = PAWL_OP_FULL;
        ops[i]->u.insert.missing = missing;
        if (adds(t, ops[i])) tally_plan(t, name_id(t->c, ops[i]->u.insert.body->queue), -1);
    }
}

void insert_depths(tx *t, pawl_op **ops, int count, pawl_arena *arena)
{
    bool limited = false;
    for (int i = 0; i < count && !limited; i++) limited = ops[i]->kind == PAWL_OP_INSERT && ops[i]->u.insert.depth_limit > 0;
    if (!limited) return;
    bool *decided = pawl_arena_alloc(arena, (size_t)count * sizeof *decided);
    if (!decided) conn_note(t->c, SQLITE_NOMEM);
    for (int i = 0; decided && i < count && !t->c->rc; i++)
        if (ops[i]->kind == PAWL_OP_INSERT && !decided[i]) decide_group(t, ops, count, i, decided);
}

/* ---- the four ends ------------------------------------------------------------------------------------------------------- */

/* A lease that nobody relies on yet goes back, with a fence that its holder does not know. */
void task_take_back(tx *t, task_row *row)
{
    CHECK(row->state == PAWL_LEASED && row->not_started);
    audit_put_grant(t, row);
    leased_drop(t, row);
    row->fence++;
}

static void answer(pawl_op *op, const task_row *row)
{
    op->out_id = row->id;
    op->out_state = row->state;
    op->out_run_at_us = row->run_at_us;
}

typedef struct taken { /* what an insert took of a quota */
    quota *b;          /* NULL: nothing limits it, or not yet */
    bool now, has;     /* it may start at once; it has a slot ahead */
    budget_slot slot;
    budget_row before;
} taken;

/* A slot for a task that is due and stands in no line. */
static taken take_slot(tx *t, pawl_op *op, const task_row *row, bool leased)
{
    taken k = {.now = true};
    op->out_until_us = INT64_MAX;
    pawl_bytes key = op->u.insert.body->rate_key;
    if (t->bounded && places_ordered(t, row, key)) return k;
    if (row->run_at_us <= t->now_us) k.b = quota_of(t, row->type_id, key);
    if (!k.b) return k;
    k.before = k.b->row;
    budget_answer answer = quota_take(t, k.b, &(budget_ask){.id = row->id, .ahead_only = !leased}, &k.slot);
    k.now = answer == BUDGET_NOW;
    k.has = answer == BUDGET_LATER;
    op->out_until_us = k.slot.until_us;
    op->out_epoch = k.slot.epoch;
    return k;
}

/* The slot that a task with another body keeps, because its rate key is the same and its time not later; 0: none. */
static int64_t keeps_slot(tx *t, const task_row *row, const pawl_op *op, int64_t type_id, slotted *had)
{
    const pawl_body *b = op->u.insert.body;
    if (row->state != PAWL_PENDING || row->type_id != type_id || !quota_limited(t, type_id) || !slotted_take(t, row, had))
        return 0;
    pawl_body *old = body_get(t->c, t->c->allocator, row->id);
    bool same = old && old->rate_key.len == b->rate_key.len && b->rate_key.len > 0 &&
                memcmp(old->rate_key.data, b->rate_key.data, b->rate_key.len) == 0;
    const quota *at = same ? quota_of(t, type_id, b->rate_key) : NULL;
    pawl_body_free(t->c->allocator, old);
    bool keeps = at && at->id == had->budget_id && at->row.epoch == had->epoch && row->run_at_us >= due_at(t, op);
    if (keeps) return row->run_at_us;
    query q = query_on(t->c, SQL_slotted_put); /* for quota_give_back */
    put_int(&q, row->id);
    put_int(&q, had->budget_id);
    put_int(&q, had->epoch);
    query_run(&q);
    return 0;
}

static void update(tx *t, pawl_op *op, key_state *k)
{
    const pawl_body *b = op->u.insert.body;
    task_row *row = &k->row;
    slotted had;
    int64_t type_id = name_id(t->c, b->type), slot_us = keeps_slot(t, row, op, type_id, &had);
    if (!slot_us) quota_give_back(t, row);
    if (row->state == PAWL_LEASED) {
        task_take_back(t, row);
        if (audit_wanted(op->audit, AUDIT_CHANGE)) audit_put(t, row, task_move(row->state, TASK_AGAIN), "taken back");
        row->state = task_move(row->state, TASK_AGAIN);
    } else {
        live_drop(t, row);
    }
    if (t->bounded) places_withdraw(t, row);
    if (row->level == PAWL_AUDIT_FULL && op->audit != PAWL_AUDIT_FULL) audit_put_dispatch(t, row->id);
    row->node = 0;
    row->queue_id = name_id(t->c, b->queue);
    row->type_id = type_id;
    row->run_at_us = due_at(t, op);
    row->level = op->audit;
    row->unreadable = 0;
    row->priority = b->priority;
    bool keeps = slot_us && slot_us >= row->run_at_us;
    taken slot = {0};
    if (keeps) {
        slot = (taken){.b = quota_of(t, type_id, b->rate_key), .has = true, .slot = {.slot_us = slot_us, .epoch = had.epoch}};
    } else if (row->state != PAWL_WAITING) {
        slot = take_slot(t, op, row, false);
    }
    if (slot.b && slot.has) row->run_at_us = slot.slot.slot_us;
    row->blocked = 0;
    if (t->bounded && row->state == PAWL_PENDING) places_line_up(t, row, b->rate_key);
    live_put(t, row);
    if (slot.b && slot.has && !row->blocked) slotted_put(t, row->id, slot.b, slot.slot.epoch);
    body_replace(t, b, row);
    tally_seen(t, row->id, SEEN_QUEUE, row->queue_id);
    tally_seen(t, row->id, SEEN_TYPE, row->type_id);
    op->result = PAWL_OP_UPDATED;
    answer(op, row);
}

/* The id is taken: by the very same insert, sent before, or by a collision. */
static void id_taken(pawl_op *op, const task_row *row)
{
    op->result = op->u.insert.may_exist ? PAWL_OP_EXISTING : PAWL_OP_COLLISION;
    if (op->u.insert.may_exist) answer(op, row);
}

static bool may_lease(tx *t, const pawl_op *op, const task_row *row)
{
    if (!op->u.insert.ask_lease || !t->node || !t->alive || row->run_at_us > t->now_us) return false;
    return !tally_paused(t, row->queue_id) && !(t->bounded && places_needed(t, row->queue_id, row->type_id));
}

static task_row new_row(tx *t, pawl_op *op, pawl_id id, const kinship *k, taken *slot)
{
    const pawl_body *b = op->u.insert.body;
    task_row row = {.id = id, .priority = b->priority, .run_at_us = due_at(t, op), .level = op->audit};
    row.type_id = name_id(t->c, b->type);
    row.queue_id = name_id(t->c, b->queue);
    if (k->unmet > 0) {
        row.state = task_move(PAWL_STATE_NONE, TASK_HAS_PARENTS);
        *slot = (taken){0};
        op->out_until_us = INT64_MAX;
        return row;
    }
    bool lease = may_lease(t, op, &row);
    *slot = take_slot(t, op, &row, lease);
    if (slot->now && lease) {
        row.state = task_move(PAWL_STATE_NONE, TASK_BORN_LEASED);
        row.born_leased = true;
        row.node = t->node;
        row.fence = 1;
        row.leased_us = row.run_at_us = t->now_us;
    } else {
        row.state = task_move(PAWL_STATE_NONE, TASK_DISPATCHED);
        if (slot->b && slot->has) row.run_at_us = slot->slot.slot_us;
    }
    return row;
}

/* The insert of the body failed. If that is because the id is taken, it is this operation's own result and no error. */
static bool was_taken(tx *t, pawl_op *op, pawl_id id)
{
    if (t->c->rc != SQLITE_CONSTRAINT_PRIMARYKEY && t->c->rc != SQLITE_CONSTRAINT_ROWID) return false;
    conn_clear(t->c);
    task_row row;
    find_stored(t, id, &row);
    id_taken(op, &row);
    return true;
}

static void create(tx *t, pawl_op *op, int64_t tenant_id, pawl_id before)
{
    pawl_body *b = op->u.insert.body;
    pawl_id id = op->id ? op->id : tx_draw_id(t);
    taken slot;
    kinship k = {.result = PAWL_OP_DONE};
    if (op->u.insert.family) {
        task_row taken;
        if (op->id && find_stored(t, id, &taken)) {
            id_taken(op, &taken);
            return;
        }
        k = family_judge(t, op);
        op->result = k.result;
        op->out_id = k.result == PAWL_OP_NOT_FOUND || k.result == PAWL_OP_CONFLICT ? k.id : 0;
        if (k.result != PAWL_OP_DONE) return;
    }
    task_row row = new_row(t, op, id, &k, &slot);
    int64_t created_us = b->created_us;
    b->created_us = t->now_us;
    body_put(t, b, id, tenant_id, &row);
    if (t->c->rc && was_taken(t, op, id)) {
        if (slot.b) slot.b->row = slot.before;
        b->created_us = created_us;
        return;
    }
    b->id = id;
    if (t->bounded && row.state == PAWL_PENDING) places_line_up(t, &row, b->rate_key);
    if (row.blocked && slot.b) slot.b->row = slot.before, slot.has = false;
    if (row.state == PAWL_LEASED) leased_put(t, &row);
    else live_put(t, &row);
    if (row.state == PAWL_PENDING && slot.b && slot.has) slotted_put(t, id, slot.b, slot.slot.epoch);
    if (b->key) key_put(t, b, tenant_id, id, before);
    if (op->u.insert.family) family_put(t, op, id, &k);
    tally_count(t, row.queue_id, row.type_id, ROLLUP_DISPATCHED);
    tally_born(t, &row, tenant_id);
    op->result = before ? PAWL_OP_REPLACED : PAWL_OP_DONE;
    op->out_fence = row.fence;
    answer(op, &row);
}

static void insert_keyed(tx *t, pawl_op *op, int64_t tenant_id)
{
    key_state k;
    task_row row;
    find_key(t, op->u.insert.body, tenant_id, &k);
    if (k.holder && op->id && find_stored(t, op->id, &row)) id_taken(op, &row);
    else if (!key_is_live(&k) || CANARY(KEY_TWICE)) create(t, op, tenant_id, k.holder);
    else if ((k.state == PAWL_LEASED && !k.row.not_started) || op->u.insert.family) {
        op->result = PAWL_OP_EXISTING;
        answer(op, &k.row);
    } else {
        update(t, op, &k);
    }
}

void apply_insert(tx *t, pawl_op *op)
{
    const pawl_body *b = op->u.insert.body;
    if (!insert_makes_sense(b)) {
        op->result = PAWL_OP_REFUSED;
        return;
    }
    if (op->audit == PAWL_AUDIT_DEFAULT) op->audit = PAWL_AUDIT_FULL;
    if (b->key) insert_keyed(t, op, tenant_of(t, b));
    else create(t, op, tenant_of(t, b), 0);
}
