/* Rate limits on rows: limits, gates and tasks with slots, under locks in the contract's order. The rules are those of store/budget.h.
 *
 * What a lock protects
 *   limit row, shared     the limit stays what it is until this commits: slots can be taken by it
 *   limit row, exclusive  nobody takes slots by it: it can be changed, and those who wait for slots of it are all known
 *   gate row              its budget, and the clock: read once every gate of the batch is locked
 *
 * Whose slot an operation may give back is read before anything is locked. If that was wrong in the end, the slot is lost, no more.
 */
#include "core/limit.h"
#include "rowstore.h"
#include <stdio.h>
#include <string.h>

static const char *name_of(tx *t, const char *type, pawl_bytes key)
{
    size_t room = strlen(type) + key.len + 2;
    char *name = pawl_arena_alloc(t->wire->arena, room);
    snprintf(name, room, "%s/%.*s", type, (int)key.len, key.len ? key.data : "");
    return name;
}

static row *limit_row(tx *t, const char *type, pawl_bytes key) { return rows_get(t->db, ROW_LIMIT, 0, name_of(t, type, key)); }
static row *gate_row_of(tx *t, const char *type, pawl_bytes key) { return rows_get(t->db, ROW_GATE, 0, name_of(t, type, key)); }

static bool any_limit(const tx *t) { return t->db->sim->plan.limits; }

bool rowstore_limited(tx *t, const char *type)
{
    size_t n = strlen(type);
    list_each(link, &t->db->tables[ROW_LIMIT]) {
        row *r = container_of(link, row, link);
        if (strncmp(r->name, type, n) == 0 && r->name[n] == '/' && rowtx_read(t, r)->limit.stored) return true;
    }
    return false;
}

static bool limit_of(tx *t, const char *type, pawl_bytes key, budget_limit *out, bool *retries_free)
{
    if (key.len == 0 || !any_limit(t)) return false;
    const row_data *d = rowtx_read(t, limit_row(t, type, key));
    if (!d->limit.stored) d = rowtx_read(t, limit_row(t, type, (pawl_bytes){0}));
    if (!d->limit.stored) return false;
    pawl_rate rate = d->limit.rate.permits > 0 ? d->limit.rate : (pawl_rate){.permits = 1, .period_us = PAWL_SECOND};
    *retries_free = rate.retries_free;
    return budget_limit_make(&rate, d->limit.paused, out);
}

/* ---- what a batch locks ---------------------------------------------------------------------------------------------------- */

static void want_budget(tx *t, lock_list *l, const char *type, pawl_bytes key)
{
    if (key.len == 0 || !any_limit(t)) return;
    rowstore_want_lock(l, limit_row(t, type, (pawl_bytes){0}), false);
    rowstore_want_lock(l, limit_row(t, type, key), false);
    rowstore_want_lock(l, gate_row_of(t, type, key), true);
    l->gates = true;
}

static void want_gate_of_task(tx *t, lock_list *l, pawl_id id, pawl_bytes key)
{
    const row *r = rows_find_task(t->db, id);
    const pawl_body *body = r ? rowtx_read(t, r)->task.body : NULL;
    if (body) want_budget(t, l, body->type, body->rate_key.len ? body->rate_key : key);
}

void rowstore_want_gates(tx *t, lock_list *l, const pawl_op *op)
{
    switch (op->kind) {
    case PAWL_OP_INSERT: {
        const pawl_body *body = op->u.insert.body;
        want_budget(t, l, body->type, body->rate_key);
        pawl_id holder = body->key ? rowtx_read(t, rows_get(t->db, ROW_KEY, 0, body->key))->key.task : 0;
        if (holder) want_gate_of_task(t, l, holder, (pawl_bytes){0});
        break;
    }
    case PAWL_OP_RESERVE: want_gate_of_task(t, l, op->id, op->u.reserve.key); break;
    case PAWL_OP_RELEASE:
        if (op->u.release.slot_us) want_gate_of_task(t, l, op->id, op->u.release.key);
        break;
    case PAWL_OP_CANCEL: want_gate_of_task(t, l, op->id, (pawl_bytes){0}); break;
    case PAWL_OP_FINISH:
        if (op->u.finish.run.outcome == PAWL_ATTEMPT_NONE) want_gate_of_task(t, l, op->id, (pawl_bytes){0});
        break;
    case PAWL_OP_LIMIT: rowstore_want_lock(l, limit_row(t, op->u.limit.type, op->u.limit.key), true); break;
    default: break;
    }
}

/* The pending tasks that have slots of the limit's gates. */
void rowstore_want_slotted(tx *t, lock_list *l, const pawl_op *op)
{
    if (op->kind != PAWL_OP_LIMIT || !op->u.limit.move) return;
    list_each(link, &t->db->tables[ROW_TASK]) {
        row *r = container_of(link, row, link);
        if (r->data.task.gate && rowstore_is_slotted(t, &r->data, op)) rowstore_want_lock(l, r, true);
    }
}

/* ---- slots ----------------------------------------------------------------------------------------------------------------- */

void rowstore_slot_set(row_data *d, row *gate, const budget_slot *slot)
{
    d->task.run_at_us = slot->slot_us;
    d->task.slot_epoch = slot->epoch;
    d->task.gate = gate;
}

static bool slot_good(tx *t, const row_data *d)
{
    return d->task.gate && rowtx_read(t, d->task.gate)->gate.row.epoch == d->task.slot_epoch;
}

static pawl_bytes key_in(const row *gate)
{
    const char *key = strchr(gate->name, '/') + 1;
    return (pawl_bytes){key, strlen(key)};
}

int64_t rowstore_slot_until(tx *t, const row_data *d)
{
    budget_limit l;
    bool free;
    if (!slot_good(t, d) || !limit_of(t, d->task.body->type, key_in(d->task.gate), &l, &free) || l.paused) return 0;
    return d->task.run_at_us + l.r.late_us;
}

/* A slot for a task that is due; false: it may not start now, and if it has none (no `row`) it waits for somebody to ask. */
bool rowstore_take(tx *t, const pawl_body *body, bool leased, row_taken *out)
{
    budget_limit l;
    bool free;
    *out = (row_taken){.slot.until_us = INT64_MAX};
    if (!limit_of(t, body->type, body->rate_key, &l, &free)) return true;
    row *gate = gate_row_of(t, body->type, body->rate_key);
    budget_answer answer = budget_take(&rowtx_write(t, gate)->gate.row, &l, t->now_us,
                                       &(budget_ask){.id = body->id, .ahead_only = !leased}, &out->slot);
    if (answer == BUDGET_LATER) out->gate = gate;
    return answer == BUDGET_NOW;
}

/* Of a task that ends, or gets another body, before its time. */
void rowstore_give_back(tx *t, row *r)
{
    budget_limit l;
    bool free;
    row_data *d = rowtx_write(t, r);
    pawl_bytes key = d->task.gate ? key_in(d->task.gate) : d->task.body->rate_key;
    bool good = slot_good(t, d);
    d->task.gate = NULL;
    if (!limit_of(t, d->task.body->type, key, &l, &free)) return;
    row *gate = gate_row_of(t, d->task.body->type, key);
    if (rowtx_holds(t, gate))
        budget_give_back(&rowtx_write(t, gate)->gate.row, &l, t->now_us, r->id, good ? d->task.run_at_us : 0);
}

static bool same_budget(const pawl_body *a, const pawl_body *b)
{
    return a->rate_key.len > 0 && a->rate_key.len == b->rate_key.len && strcmp(a->type, b->type) == 0 &&
           memcmp(a->rate_key.data, b->rate_key.data, a->rate_key.len) == 0;
}

/* It gets another body and keeps its slot, if that is for the same rate key and not for later: true. */
bool rowstore_keep_slot(tx *t, row *r, const pawl_body *body, int64_t at_us)
{
    const row_data *d = rowtx_read(t, r);
    bool keeps = slot_good(t, d) && same_budget(d->task.body, body) && d->task.run_at_us >= at_us;
    if (!keeps) rowstore_give_back(t, r);
    return keeps;
}

void rowstore_reserve(tx *t, row *r, pawl_op *op)
{
    const row_data *was = rowtx_read(t, r);
    budget_limit l;
    bool retries_free = false;
    op->out_state = PAWL_LEASED;
    op->result = was->task.cancel_asked ? PAWL_OP_CANCELLING : PAWL_OP_DONE;
    if (was->task.cancel_asked) return;
    const pawl_body *body = was->task.body;
    pawl_bytes key = body->rate_key.len ? body->rate_key : op->u.reserve.key;
    budget_ask ask = {.id = r->id, .again = op->u.reserve.again};
    budget_slot slot = {.slot_us = t->now_us, .until_us = INT64_MAX};
    budget_answer answer = BUDGET_NOW;
    if (limit_of(t, body->type, key, &l, &retries_free) && !(retries_free && was->task.failures > 0))
        answer = budget_take(&rowtx_write(t, gate_row_of(t, body->type, key))->gate.row, &l, t->now_us, &ask, &slot);
    op->out_run_at_us = slot.slot_us;
    op->out_until_us = slot.until_us;
    op->out_epoch = slot.epoch;
    if (answer == BUDGET_BEYOND) op->result = PAWL_OP_BEYOND;
    if (answer != BUDGET_LATER || slot.slot_us - t->now_us <= op->u.reserve.near_us) return;
    op->result = PAWL_OP_MOVED;
    op->out_state = PAWL_PENDING;
    row_data *d = rowtx_write(t, r);
    rowstore_leave_places(t, r);
    rowstore_unlease(d, PAWL_PENDING);
    rowstore_slot_set(d, gate_row_of(t, body->type, key), &slot);
}

/* It never started, and goes back with its slot. */
void rowstore_release_slot(tx *t, row *r, const pawl_op *op)
{
    budget_limit l;
    bool free;
    row_data *d = rowtx_write(t, r);
    const pawl_body *body = d->task.body;
    pawl_bytes key = body->rate_key.len ? body->rate_key : op->u.release.key;
    if (!limit_of(t, body->type, key, &l, &free)) return;
    rowstore_slot_set(d, gate_row_of(t, body->type, key),
                      &(budget_slot){.slot_us = op->u.release.slot_us, .epoch = op->u.release.epoch});
}

/* ---- limits ---------------------------------------------------------------------------------------------------------------- */

bool rowstore_is_slotted(tx *t, const row_data *d, const pawl_op *op)
{
    const char *prefix = name_of(t, op->u.limit.type, op->u.limit.key);
    const char *gate = d->task.gate->name;
    return op->u.limit.key.len ? strcmp(gate, prefix) == 0 : strncmp(gate, prefix, strlen(prefix)) == 0;
}

static void move_slotted(tx *t, const pawl_op *op)
{
    list_each(link, &t->db->tables[ROW_TASK]) {
        row *r = container_of(link, row, link);
        const row_data *was = rowtx_read(t, r);
        if (!was->task.gate || !rowtx_holds(t, r) || !rowstore_is_slotted(t, was, op)) continue;
        row_data *d = rowtx_write(t, r);
        d->task.gate = NULL;
        if (d->task.run_at_us > t->now_us) d->task.run_at_us = t->now_us;
    }
}

void rowstore_limit(tx *t, pawl_op *op)
{
    row *r = limit_row(t, op->u.limit.type, op->u.limit.key);
    const row_data *was = rowtx_read(t, r);
    pawl_rate rate = was->limit.rate;
    bool had = was->limit.stored, paused = was->limit.paused;
    op->u.limit.more = false;
    op->result = limit_change(op, had, &rate, &paused);
    if (op->result == PAWL_OP_DONE || op->result == PAWL_OP_UPDATED) {
        row_data *d = rowtx_write(t, r);
        d->limit.rate = rate;
        d->limit.paused = paused;
        d->limit.stored = rate.permits > 0 || paused;
        rowstore_of(t)->limits_version++; /* a number told to people: it may count what is rolled back */
    }
    if (op->u.limit.move) move_slotted(t, op);
}
