/* The budgets that the operations of a batch may need, and RESERVE.
 *
 * Budgets are locked before keys and tasks, in their order, by the first statement of the transaction's first message that locks anything
 * shared: it finds out in the server which they are, for a RESERVE knows no more than the id of its task. The statement makes budgets that
 * there are none of, and brings the limits along. What it went by may change before the tasks are locked: a body is replaced, a slot is
 * given. That shows when the budget that is needed turns out not to be locked, and the transaction is tried again. So limits cost no message
 * of their own.
 *
 * A task in a program's own transaction takes no slot: nobody knows when that will commit, and its budget would be locked until then.
 */
#include "store/mysql/quota.h"
#include "core/task.h"
#include <mysqld_error.h>

#define AT_ONCE 200

/* ---- locking ----------------------------------------------------------------------------------------------------------------- */

typedef struct source { /* what the budgets are found by */
    buf known, asked, types, keys;
    int count;
} source;

static bool maybe_due(const work *w, const pawl_op *op)
{
    int64_t now_us = my_test_clock(w->s) ? 0 : my_server_now(w->s);
    if (op->u.insert.at_us) return now_us == 0 || op->u.insert.at_us <= now_us + PAWL_MINUTE;
    return op->u.insert.delay_us <= 0;
}

static void add_insert(const work *w, source *s, const flat_op *o)
{
    const pawl_body *b = o->op->u.insert.body;
    char room[LIMIT_KEY_ROOM];
    if (b->rate_key.len > 0 && my_limited(&w->limits, o->type_id) && maybe_due(w, o->op)) {
        buf_fmt(&s->known, ",(%d,", (int)o->type_id);
        lit_bytes(w->c, &s->known, limit_key(b->rate_key, room));
        buf_char(&s->known, ')');
        s->count++;
    }
    if (!b->key) return;
    buf_str(&s->keys, s->keys.len ? " OR (k.task_key = " : "((k.task_key = ");
    lit_bytes(w->c, &s->keys, (pawl_bytes){b->key, strlen(b->key)});
    buf_fmt(&s->keys, " AND k.tenant_id = %d AND k.old = 0)", (int)o->tenant_id);
    s->count++;
}

static void add_task(const work *w, source *s, const pawl_op *op)
{
    char room[LIMIT_KEY_ROOM];
    pawl_bytes key = op->kind == PAWL_OP_RESERVE ? limit_key(op->u.reserve.key, room) : (pawl_bytes){0};
    buf_fmt(&s->asked, ",(%lld,", (long long)op->id);
    lit_bytes(w->c, &s->asked, key.data ? key : (pawl_bytes){"", 0});
    buf_char(&s->asked, ')');
    s->count++;
}

static void lock_some(work *w, source *s)
{
    if (s->count == 0) return;
    if (s->keys.len) buf_char(&s->keys, ')');
    else buf_str(&s->keys, "FALSE");
    if (s->known.failed || s->asked.failed || s->types.failed || s->keys.failed) w->no_memory = true;
    my_put_raw(w->c, buf_text(&s->known), s->known.len);
    my_put_raw(w->c, buf_text(&s->asked), s->asked.len);
    my_put_raw(w->c, buf_text(&s->types), s->types.len);
    my_put_raw(w->c, buf_text(&s->keys), s->keys.len);
    my_add(w->c, SQL_budgets_lock);
    buf_clear(&s->known);
    buf_clear(&s->asked);
    buf_clear(&s->keys);
    s->count = 0;
}

static bool ends_unstarted(const pawl_op *op)
{
    return op->kind == PAWL_OP_CANCEL || (op->kind == PAWL_OP_FINISH && op->u.finish.run.outcome == PAWL_ATTEMPT_NONE);
}

bool my_quota_of_task(const pawl_op *op) { return op->kind == PAWL_OP_RESERVE || ends_unstarted(op); }

static void lock_budgets(work *w)
{
    source s = {0};
    buf *all[] = {&s.known, &s.asked, &s.types, &s.keys};
    for (int i = 0; i < 4; i++) buf_init(all[i], w->s->allocator, 16 << 20);
    for (int i = 0; i < w->limits.count; i++)
        if (w->limits.types[i].limited) buf_fmt(&s.types, "%s%d", s.types.len ? "," : "", (int)w->limits.types[i].type_id);
    for (int i = 0; i < w->f->count && s.types.len; i++) {
        const flat_op *o = &w->f->ops[i];
        if (o->refused) continue;
        if (o->op->kind == PAWL_OP_INSERT) add_insert(w, &s, o);
        else if (my_quota_of_task(o->op)) add_task(w, &s, o->op);
        if (s.count >= AT_ONCE) lock_some(w, &s);
    }
    lock_some(w, &s);
    for (int i = 0; i < 4; i++) buf_done(all[i]);
}

void my_quota_ask(work *w)
{
    if (!w->f->rated || w->borrowed) return;
    if (w->f->limits) my_ask_plans(w);
    lock_budgets(w);
    my_add(w->c, SQL_limits_now);
}

bool my_work_outdated(const work *w)
{
    static const sql_name said[] = {SQL_version, SQL_version_shared, SQL_limits_lock};
    const answer *a = my_answer(w->c, SQL_limits_now);
    bool outdated = a->rows > 0 && get_int(a, 0, 1) != w->limits.version;
    for (size_t i = 0; i < sizeof said / sizeof *said; i++) {
        a = my_answer(w->c, said[i]);
        outdated |= a->rows > 0 && get_int(a, 0, 0) != w->limits.version;
    }
    return outdated;
}

void my_quota_clock(const work *w, instant *at)
{
    const answer *a = my_answer(w->c, SQL_limits_now);
    if (a->rows > 0 && !my_test_clock(w->s)) at->now_us = at->boot_us = get_int(a, 0, 0);
}

/* ---- budgets ----------------------------------------------------------------------------------------------------------------- */

static uint64_t hash_of(int32_t type_id, pawl_bytes key) { return hash_bytes(key.data, key.len, (uint64_t)type_id); }

static quota *find(const work *w, int32_t type_id, pawl_bytes key)
{
    for (map_node *node = map_get(&w->quotas, hash_of(type_id, key)); node; node = map_next(node)) {
        quota *q = (quota *)node;
        if (q->type_id == type_id && q->key.len == key.len && memcmp(q->key.data, key.data, key.len) == 0) return q;
    }
    return NULL;
}

static void learn(work *w, const answer *a, int row)
{
    int32_t type_id = (int32_t)get_int(a, row, 0);
    pawl_bytes key = get_bytes(a, row, 1);
    if (find(w, type_id, key)) return;
    quota *q = my_work_alloc(w, sizeof *q);
    const char *copy = q ? pawl_arena_bytes(w->arena, key.data, key.len) : NULL;
    if (!copy) {
        w->no_memory = true;
        return;
    }
    stored_limit own = my_limit_read(a, row, 11), of_type = my_limit_read(a, row, 12);
    q->type_id = type_id;
    q->key = (pawl_bytes){copy, key.len};
    my_budget_read(a, row, 2, &q->row);
    q->limited = my_limit_make(&own, &of_type, &q->limit);
    q->rate = my_limit_in_force(&own) ? own.rate : of_type.rate;
    map_put(&w->quotas, &q->node, hash_of(type_id, q->key));
}

void my_quota_take_in(work *w)
{
    EACH_ANSWER(a, w->c, SQL_budgets_lock)
    for (int i = 0; i < a->rows && !w->no_memory; i++) learn(w, a, i);
}

quota *my_quota_of(work *w, int32_t type_id, pawl_bytes any_key)
{
    char room[LIMIT_KEY_ROOM];
    if (any_key.len == 0 || !my_limited(&w->limits, type_id)) return NULL;
    quota *q = find(w, type_id, limit_key(any_key, room));
    if (q) return q->limited ? q : NULL;
    my_conn_note(w->c, PAWL_UNAVAILABLE, ER_LOCK_DEADLOCK, "the rate key of a task does not stand still");
    w->failed = true;
    return NULL;
}

budget_answer my_quota_take(work *w, quota *q, const budget_ask *ask, budget_slot *out)
{
    q->dirty = true;
    return budget_take(&q->row, &q->limit, w->now_us, ask, out);
}

void my_quota_give_back(work *w, const task_row *row)
{
    const rate_head *had = row->head;
    if (!had) return;
    if (had->slotted) my_slot_drop(w, row->id);
    quota *q = my_quota_of(w, row->type_id, had->slotted ? had->slot_key : had->key);
    bool good = q && had->slotted && q->row.epoch == had->epoch;
    if (q && budget_give_back(&q->row, &q->limit, w->now_us, row->id, good ? row->run_at_us : 0)) q->dirty = true;
}

static void put_budget(work *w, buf *b, const quota *q)
{
    const int64_t n[] = {q->row.tat.us,  q->row.tat.part, q->row.permits, q->row.period_us,   q->row.burst,
                         q->row.seen_us, q->row.epoch,    q->row.last_id, q->row.last_slot_us};
    buf_fmt(b, "%s(%d,", b->len ? "," : "", (int)q->type_id);
    lit_bytes(w->c, b, q->key);
    for (size_t i = 0; i < sizeof n / sizeof *n; i++) {
        buf_char(b, ',');
        lit_int(b, n[i]);
    }
    buf_char(b, ')');
}

void my_quota_flush(work *w)
{
    buf b;
    if (w->quotas.count == 0) return;
    buf_init(&b, w->s->allocator, 64 << 20);
    map_each(node, &w->quotas) {
        const quota *q = (const quota *)node;
        if (q->dirty) put_budget(w, &b, q);
    }
    if (b.failed) w->no_memory = true;
    if (b.len) {
        my_put_raw(w->c, buf_text(&b), b.len);
        my_add(w->c, SQL_budgets_put);
    }
    buf_done(&b);
}

/* ---- the backlog of a key ---------------------------------------------------------------------------------------------------- */

/* Where the slot of one task is far, those of the others that are due are farther: they get theirs at once, and nobody claims them before. */
typedef struct backlog {
    struct backlog *next;
    quota *q;
    pawl_op *op; /* the first that asked: it is told how many were taken along */
    int32_t queue_id;
    int64_t lane, from_us;
} backlog;

#define BACKLOGS 8

static void backlog_note(work *w, pawl_op *op, quota *q, const task_row *row)
{
    int64_t lane = my_lane_of(row->priority, row->class, row->type_id);
    int count = 0;
    for (backlog *b = w->backlogs; b; b = b->next, count++) {
        if (b->q != q || b->queue_id != row->queue_id || b->lane != lane) continue;
        if (row->run_at_us < b->from_us) b->from_us = row->run_at_us;
        return;
    }
    backlog *b = count < BACKLOGS ? my_work_alloc(w, sizeof *b) : NULL;
    if (!b) return;
    *b = (backlog){.next = w->backlogs, .q = q, .op = op, .queue_id = row->queue_id, .lane = lane, .from_us = row->run_at_us};
    w->backlogs = b;
}

static void backlog_take(work *w, const answer *a, quota *q, pawl_op *op)
{
    for (int i = 0; i < a->rows; i++) {
        pawl_id id = get_int(a, i, 0);
        budget_slot slot;
        if (my_quota_take(w, q, &(budget_ask){.id = id, .ahead_only = true}, &slot) != BUDGET_LATER) return;
        my_live_move(w, id, slot.slot_us);
        my_slot_put(w, id, q->type_id, q->key, slot.epoch);
        op->u.reserve.along++;
        op->u.reserve.along_own++;
    }
}

static bool backlogs_lay_out(work *w)
{
    conn *c = w->c;
    if (!w->backlogs) return true;
    my_script(c);
    for (const backlog *b = w->backlogs; b; b = b->next) {
        my_put_int(c, b->queue_id);
        my_put_int(c, b->lane);
        my_put_int(c, b->from_us);
        my_put_int(c, w->now_us);
        my_put_bytes(c, b->q->key);
        my_put_int(c, b->q->rate.retries_free);
        my_add(c, SQL_backlog);
    }
    if (!my_send(c, CALL_READS)) return false;
    const backlog *b = w->backlogs;
    EACH_ANSWER(a, c, SQL_backlog)
    if (b) {
        backlog_take(w, a, b->q, b->op);
        b = b->next;
    }
    return true;
}

/* ---- RESERVE ----------------------------------------------------------------------------------------------------------------- */

static void move_away(work *w, pawl_op *op, task_row *row, const budget_slot *slot, quota *q)
{
    pawl_state to = task_move(row->state, TASK_AGAIN);
    backlog_note(w, op, q, row);
    my_audit_grant(w, row);
    if (audit_wanted(op->audit, AUDIT_CHANGE)) my_audit_put(w, row, to, "throttled", 2);
    my_leased_drop(w, row);
    row->state = to;
    row->run_at_us = slot->slot_us;
    my_live_put(w, row);
    my_slot_put(w, row->id, q->type_id, q->key, slot->epoch);
    op->result = PAWL_OP_MOVED;
    op->out_state = to;
}

static void apply_reserve(work *w, pawl_op *op)
{
    task_row *row = my_lease_of(w, op);
    op->u.reserve.along = op->u.reserve.along_own = 0;
    if (!row) return;
    op->out_state = row->state;
    op->result = row->cancel_asked ? PAWL_OP_CANCELLING : PAWL_OP_DONE;
    if (row->cancel_asked) return;
    quota *q = my_quota_of(w, row->type_id, row->head && row->head->key.len ? row->head->key : op->u.reserve.key);
    budget_ask ask = {.id = row->id, .again = op->u.reserve.again};
    budget_slot slot = {.slot_us = w->now_us, .until_us = INT64_MAX};
    bool free = !q || (q->rate.retries_free && row->failures > 0);
    budget_answer answer = free ? BUDGET_NOW : my_quota_take(w, q, &ask, &slot);
    op->out_run_at_us = slot.slot_us;
    op->out_until_us = slot.until_us;
    op->out_epoch = slot.epoch;
    if (answer == BUDGET_BEYOND) {
        op->result = PAWL_OP_BEYOND;
        op->u.reserve.rate = q->rate;
    }
    if (answer == BUDGET_LATER && slot.slot_us - w->now_us > op->u.reserve.near_us) move_away(w, op, row, &slot, q);
}

bool my_quota_reserve(work *w)
{
    for (int i = 0; i < w->f->count && !w->failed && !w->no_memory; i++) {
        const flat_op *o = &w->f->ops[i];
        if (o->op->kind == PAWL_OP_RESERVE && !o->refused) apply_reserve(w, o->op);
    }
    return w->failed || w->no_memory || backlogs_lay_out(w);
}
