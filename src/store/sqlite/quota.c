/* Rate limits: the budgets of store/budget.h as rows.
 *
 * A write transaction reads a budget once, however many tasks take slots of it, and writes it once, before it commits (quota_flush). Where
 * no limit was ever stored one small question per transaction is all that this costs.
 */
#include "store/sqlite/quota.h"
#include "base/alloc.h"
#include "core/limit.h"
#include <string.h>

typedef struct stored_limit {
    pawl_rate rate;
    bool found, paused;
} stored_limit;

/* ---- limits -------------------------------------------------------------------------------------------------------------- */

static bool in_force(const stored_limit *l) { return l->found && (l->rate.permits > 0 || l->paused); }

static stored_limit limit_get(conn *c, int64_t type_id, pawl_bytes key)
{
    stored_limit l = {0};
    query q = query_on(c, SQL_limit_get);
    put_int(&q, type_id);
    put_key(&q, key);
    if ((l.found = query_row(&q))) {
        l.rate.permits = (int)get_int(&q);
        l.rate.period_us = get_int(&q);
        l.rate.burst = (int)get_int(&q);
        l.rate.horizon_us = get_int(&q);
        limit_flags_read(get_int(&q), &l.rate, &l.paused);
    }
    query_end(&q);
    return l;
}

static bool has_row(conn *c, sql_name which, int64_t id)
{
    query q = query_on(c, which);
    if (which != SQL_limit_any) put_int(&q, id);
    bool found = query_row(&q);
    query_end(&q);
    return found;
}

bool quota_any(tx *t)
{
    if (!t->limits) t->limits = has_row(t->c, SQL_limit_any, 0) ? 1 : -1;
    return t->limits > 0;
}

bool quota_limited(tx *t, int64_t type_id)
{
    if (!quota_any(t)) return false;
    if (t->limit_type != type_id) {
        t->limit_type = type_id;
        t->limit_found = has_row(t->c, SQL_limit_own, type_id);
    }
    return t->limit_found;
}

static stored_limit limit_of(conn *c, int64_t type_id, pawl_bytes key)
{
    stored_limit l = limit_get(c, type_id, key);
    return in_force(&l) ? l : limit_get(c, type_id, (pawl_bytes){0});
}

static bool make(const stored_limit *l, budget_limit *out)
{
    static const pawl_rate any_rate = {.permits = 1, .period_us = PAWL_SECOND}; /* of one that is only paused */
    return in_force(l) && budget_limit_make(l->rate.permits > 0 ? &l->rate : &any_rate, l->paused, out);
}

/* ---- budgets ------------------------------------------------------------------------------------------------------------- */

static bool row_read(conn *c, int64_t type_id, pawl_bytes key, int64_t *id, budget_row *row)
{
    query q = query_on(c, SQL_budget_get);
    put_int(&q, type_id);
    put_key(&q, key);
    bool found = query_row(&q);
    if (found) {
        *id = get_int(&q);
        row->tat.us = get_int(&q);
        row->tat.part = (int32_t)get_int(&q);
        row->permits = (int32_t)get_int(&q);
        row->period_us = get_int(&q);
        row->burst = (int32_t)get_int(&q);
        row->seen_us = get_int(&q);
        row->epoch = get_int(&q);
        row->last_id = get_int(&q);
        row->last_slot_us = get_int(&q);
    }
    query_end(&q);
    return found;
}

static void row_write(tx *t, const quota *b)
{
    query q = query_on(t->c, SQL_budget_put);
    put_int(&q, b->row.tat.us);
    put_int(&q, b->row.tat.part);
    put_int(&q, b->row.permits);
    put_int(&q, b->row.period_us);
    put_int(&q, b->row.burst);
    put_int(&q, b->row.seen_us);
    put_int(&q, b->row.epoch);
    put_int(&q, b->row.last_id);
    put_int(&q, b->row.last_slot_us);
    put_int(&q, b->id);
    query_run(&q);
}

static int64_t budget_add(tx *t, int64_t type_id, pawl_bytes key)
{
    query q = query_on(t->c, SQL_budget_add);
    put_int(&q, type_id);
    put_key(&q, key);
    return query_run(&q) ? sqlite3_last_insert_rowid(t->c->db) : 0;
}

static quota *remembered(const tx *t, int64_t type_id, pawl_bytes key)
{
    for (quota *b = t->quotas; b; b = b->next)
        if (b->type_id == type_id && b->key.len == key.len && memcmp(b->key.data, key.data, key.len) == 0) return b;
    return NULL;
}

/* The quota of a key; NULL: it has no limit, or the transaction has failed. */
quota *quota_of(tx *t, int64_t type_id, pawl_bytes any_key)
{
    char room[LIMIT_KEY_ROOM];
    if (any_key.len == 0 || !quota_limited(t, type_id)) return NULL;
    pawl_bytes key = limit_key(any_key, room);
    quota *b = remembered(t, type_id, key);
    if (b) return b->limited ? b : NULL;
    stored_limit l = limit_of(t->c, type_id, key);
    if (!(b = alloc_new(t->c->allocator, sizeof *b + key.len + 1))) {
        conn_note(t->c, SQLITE_NOMEM);
        return NULL;
    }
    b->type_id = type_id;
    b->key = (pawl_bytes){memcpy(b + 1, key.data, key.len), key.len};
    b->limited = make(&l, &b->limit);
    b->rate = l.rate;
    b->next = t->quotas;
    t->quotas = b;
    if (b->limited && !row_read(t->c, type_id, b->key, &b->id, &b->row)) b->id = budget_add(t, type_id, b->key);
    return b->limited && !t->c->rc ? b : NULL;
}

budget_answer quota_take(tx *t, quota *b, const budget_ask *ask, budget_slot *out)
{
    b->dirty = true;
    return budget_take(&b->row, &b->limit, t->now_us, ask, out);
}

void quota_flush(tx *t)
{
    for (const quota *b = t->quotas; b && !t->c->rc; b = b->next)
        if (b->dirty) row_write(t, b);
    quota_forget(t);
}

void quota_forget(tx *t)
{
    for (quota *b = t->quotas, *next; b; b = next) {
        next = b->next;
        alloc_free(t->c->allocator, b);
    }
    t->quotas = NULL;
}

/* ---- tasks with slots ---------------------------------------------------------------------------------------------------- */

void slotted_put(tx *t, pawl_id id, const quota *b, int64_t epoch)
{
    query q = query_on(t->c, SQL_slotted_put);
    put_int(&q, id);
    put_int(&q, b->id);
    put_int(&q, epoch);
    query_run(&q);
}

bool slotted_take(tx *t, const task_row *row, slotted *out)
{
    if (!quota_any(t)) return false;
    query q = query_on(t->c, SQL_slotted_get);
    put_int(&q, row->id);
    bool found = query_row(&q);
    if (found) {
        out->budget_id = get_int(&q);
        out->epoch = get_int(&q);
        pawl_bytes key = get_bytes(&q);
        out->key_len = key.len < sizeof out->key ? key.len : sizeof out->key;
        if (key.len > 0) memcpy(out->key, key.data, out->key_len);
    }
    query_end(&q);
    if (!found) return false;
    q = query_on(t->c, SQL_slotted_drop);
    put_int(&q, row->id);
    query_run(&q);
    return true;
}

static pawl_bytes rate_key_of(tx *t, pawl_id id, pawl_body **body)
{
    *body = body_get(t->c, t->c->allocator, id);
    return *body ? (*body)->rate_key : (pawl_bytes){0};
}

/* The quota for which a due task would have to wait, and for long; NULL: it would not. *had: it has a slot, which was too long ago. */
static quota *spent_quota(tx *t, const task_row *row, bool *had)
{
    if (!quota_limited(t, row->type_id)) return NULL;
    query q = query_on(t->c, SQL_slotted_has);
    put_int(&q, row->id);
    *had = query_row(&q);
    query_end(&q);
    if (*had && row->run_at_us > t->now_us - 2 * PAWL_SECOND) return NULL; /* its time has just come */
    q = query_on(t->c, SQL_body_rate_key);
    put_int(&q, row->id);
    quota *b = query_row(&q) ? quota_of(t, row->type_id, get_bytes(&q)) : NULL;
    query_end(&q);
    return b && !(b->rate.retries_free && row->failures > 0) && budget_spent(&b->row, &b->limit, t->now_us) ? b : NULL;
}

bool quota_spent(tx *t, const task_row *row)
{
    bool had;
    return spent_quota(t, row, &had) != NULL;
}

void quota_give_back(tx *t, const task_row *row)
{
    slotted had;
    bool good = slotted_take(t, row, &had);
    if (!quota_limited(t, row->type_id)) return;
    pawl_body *body = NULL;
    quota *b = quota_of(t, row->type_id, good ? (pawl_bytes){had.key, had.key_len} : rate_key_of(t, row->id, &body));
    good = good && b && b->id == had.budget_id && b->row.epoch == had.epoch;
    if (b && budget_give_back(&b->row, &b->limit, t->now_us, row->id, good ? row->run_at_us : 0)) b->dirty = true;
    pawl_body_free(t->c->allocator, body);
}

/* ---- taking others along -------------------------------------------------------------------------------------------------- */

#define ALONG 32       /* tasks that one transaction looks at for that */
#define ALONG_BESIDE 4 /* if others wait for it */

/* It is due, and stays where it is unless it would have to wait. The quota that gave it its slot, or NULL. */
static const quota *move_to_slot(tx *t, const task_row *row)
{
    budget_ask ask = {.id = row->id, .ahead_only = true};
    budget_slot slot;
    quota *b = spent_quota(t, row, &ask.again);
    if (!b || quota_take(t, b, &ask, &slot) != BUDGET_LATER) return NULL;
    query q = query_on(t->c, SQL_live_slot);
    put_int(&q, slot.slot_us);
    put_int(&q, row->id);
    query_run(&q);
    slotted_put(t, row->id, b, slot.epoch);
    return b;
}

/* A task has gone back to wait for its slot: others that are due in its lane and would fare no better get theirs where they are. */
static void take_along(tx *t, const task_row *row, const quota *own, pawl_op *op)
{
    task_row due[ALONG];
    int most = (t->others_wait ? ALONG_BESIDE : ALONG) - t->taken_along;
    lane_key lane = {row->queue_id, row->priority, row->class, row->type_id};
    if (most <= 0) return;
    int count = lane_due(t, &lane, due, most);
    t->taken_along += count;
    for (int i = 0; i < count && !t->c->rc; i++) {
        const quota *b = move_to_slot(t, &due[i]);
        op->u.reserve.along += b != NULL;
        op->u.reserve.along_own += b == own;
    }
}

/* ---- RESERVE ------------------------------------------------------------------------------------------------------------- */

void apply_reserve(tx *t, pawl_op *op)
{
    task_row row = {0};
    op->u.reserve.along = op->u.reserve.along_own = 0;
    if (!lease_good(t, op, &row)) return;
    op->out_state = row.state;
    op->result = row.cancel_asked ? PAWL_OP_CANCELLING : PAWL_OP_DONE;
    if (row.cancel_asked) return;
    pawl_body *body = NULL;
    pawl_bytes key = quota_limited(t, row.type_id) ? rate_key_of(t, row.id, &body) : (pawl_bytes){0};
    quota *b = quota_of(t, row.type_id, key.len ? key : op->u.reserve.key);
    budget_ask ask = {.id = row.id, .again = op->u.reserve.again};
    budget_slot slot = {.slot_us = t->now_us, .until_us = INT64_MAX};
    bool free = !b || (b->rate.retries_free && row.failures > 0);
    budget_answer answer = free ? BUDGET_NOW : quota_take(t, b, &ask, &slot);
    pawl_body_free(t->c->allocator, body);
    op->out_run_at_us = slot.slot_us;
    op->out_until_us = slot.until_us;
    op->out_epoch = slot.epoch;
    if (answer == BUDGET_BEYOND) {
        op->result = PAWL_OP_BEYOND;
        op->u.reserve.rate = b->rate;
    }
    if (answer != BUDGET_LATER || slot.slot_us - t->now_us <= op->u.reserve.near_us) return;
    op->result = PAWL_OP_MOVED;
    op->out_state = PAWL_PENDING;
    task_again(t, &row, slot.slot_us, op->audit, "throttled");
    slotted_put(t, row.id, b, slot.epoch);
    take_along(t, &row, b, op);
}

/* ---- LIMIT --------------------------------------------------------------------------------------------------------------- */

static void limit_put(tx *t, int64_t type_id, pawl_bytes key, const stored_limit *l)
{
    const pawl_rate *r = &l->rate;
    query q = query_on(t->c, SQL_limit_put);
    put_int(&q, type_id);
    put_key(&q, key);
    put_int(&q, r->permits);
    put_int(&q, r->period_us);
    put_int(&q, r->burst);
    put_int(&q, r->horizon_us);
    put_int(&q, limit_flags(r, l->paused));
    put_int(&q, t->now_us);
    query_run(&q);
}

/* Tasks with slots of the old limit ask anew: their slots are gone, and they are due. */
static bool move_some(tx *t, int64_t type_id, pawl_bytes key, int most)
{
    pawl_id *ids = alloc_new(t->c->allocator, ((size_t)most + 1) * sizeof *ids);
    int count = 0;
    if (!ids) {
        conn_note(t->c, SQLITE_NOMEM);
        return true;
    }
    query q = query_on(t->c, key.len ? SQL_slotted_of_key : SQL_slotted_of_type);
    put_int(&q, type_id);
    if (key.len) put_key(&q, key);
    put_int(&q, most + 1);
    while (count <= most && query_row(&q)) ids[count++] = get_int(&q);
    query_end(&q);
    for (int i = 0; i < count && i < most && !t->c->rc; i++) {
        q = query_on(t->c, SQL_slotted_drop);
        put_int(&q, ids[i]);
        query_run(&q);
        q = query_on(t->c, SQL_live_pull);
        put_int(&q, t->now_us);
        put_int(&q, ids[i]);
        query_run(&q);
    }
    alloc_free(t->c->allocator, ids);
    return count > most;
}

void apply_limit(tx *t, pawl_op *op)
{
    char room[LIMIT_KEY_ROOM];
    int64_t type_id = name_id(t->c, op->u.limit.type);
    pawl_bytes key = limit_key(op->u.limit.key, room);
    stored_limit l = limit_get(t->c, type_id, key);
    op->result = limit_change(op, in_force(&l), &l.rate, &l.paused);
    if (op->result == PAWL_OP_DONE || op->result == PAWL_OP_UPDATED) {
        limit_put(t, type_id, key, &l);
        meta_put(t->c, "limits_version", meta_int(t->c, "limits_version", 0) + 1);
        oplog_put(t, op->by, "limit", 0, op->u.limit.type);
        t->limits = 1;
        t->limit_type = 0;
    }
    op->u.limit.more = op->u.limit.move > 0 && move_some(t, type_id, key, op->u.limit.move);
}

int64_t quota_version(tx *t) { return quota_any(t) ? meta_int(t->c, "limits_version", 0) : 0; }

/* ---- upkeep -------------------------------------------------------------------------------------------------------------- */

#define WALK 500

int quota_sweep(tx *t, int most)
{
    struct {
        int64_t id;
        bool idle;
    } rows[WALK];
    int count = 0, removed = 0;
    if (!quota_any(t)) return 0;
    query q = query_on(t->c, SQL_budget_walk);
    put_int(&q, t->s->budget_walk);
    put_int(&q, WALK);
    while (count < WALK && query_row(&q)) {
        budget_row row = {0};
        rows[count].id = get_int(&q);
        row.tat.us = get_int(&q);
        row.seen_us = get_int(&q);
        bool used = get_int(&q) != 0;
        rows[count++].idle = !used && budget_idle(&row, t->now_us);
    }
    query_end(&q);
    for (int i = 0; i < count && removed < most; i++) {
        t->s->budget_walk = rows[i].id;
        if (!rows[i].idle) continue;
        q = query_on(t->c, SQL_budget_drop);
        put_int(&q, rows[i].id);
        query_run(&q);
        removed++;
    }
    if (count < WALK) t->s->budget_walk = 0;
    return removed;
}

/* ---- looking ------------------------------------------------------------------------------------------------------------- */

static int64_t waiting(conn *c, int64_t budget_id, int64_t now_us)
{
    query q = query_on(c, SQL_slotted_count);
    put_int(&q, budget_id);
    put_int(&q, now_us);
    int64_t count = query_row(&q) ? get_int(&q) : 0;
    query_end(&q);
    return count;
}

/* false: nothing limits it, or nobody has used it. */
static bool describe(reading *r, int64_t type_id, pawl_limit_info *info)
{
    conn *c = r->c;
    stored_limit own = limit_get(c, type_id, info->key), l = in_force(&own) ? own : limit_get(c, type_id, (pawl_bytes){0});
    budget_limit limit;
    budget_row row = {0};
    int64_t budget_id = 0;
    if (!make(&l, &limit)) return false;
    info->rate = l.rate;
    info->paused = l.paused;
    info->own = in_force(&own);
    info->left = limit.r.burst;
    if (info->key.len == 0) return true;
    bool used = row_read(c, type_id, info->key, &budget_id, &row);
    budget_tell(used ? &row : NULL, &limit, r->now_us, info);
    info->waiting = used ? waiting(c, budget_id, r->now_us) : 0;
    return used || info->own;
}

typedef struct looking {
    reading *r;
    const pawl_limit_filter *filter;
    pawl_limits *out;
    pawl_limit_info *infos;
} looking;

/* false: there is no more room. */
static bool look_at(looking *l, int64_t type_id, const char *type, pawl_bytes key)
{
    pawl_limits *out = l->out;
    pawl_limit_info info = {.type = type, .key = read_bytes(l->r, key)}, *last = &l->infos[out->count];
    if (l->r->no_memory) return false;
    if (!describe(l->r, type_id, &info) || (l->filter->waiting && info.waiting == 0)) return true;
    if (out->count == (size_t)l->filter->limit) {
        out->next = budget_cursor(l->r->arena, last[-1].type, last[-1].key);
        return false;
    }
    *last = info;
    out->count++;
    return true;
}

/* What there is of a type, after a key; NULL: all of it. false: there is no more room. */
static bool look_at_type(looking *l, int64_t type_id, const char *type, const pawl_bytes *after)
{
    pawl_bytes only = l->filter->key;
    if (only.len > 0) return (after && budget_order("", only, "", *after) <= 0) || look_at(l, type_id, type, only);
    if (!after && !look_at(l, type_id, type, (pawl_bytes){0})) return false;
    query q = query_on(l->r->c, SQL_limits_keys);
    put_int(&q, type_id);
    put_key(&q, after ? *after : (pawl_bytes){0});
    put_int(&q, l->filter->waiting);
    bool room = true;
    while (room && query_row(&q)) room = look_at(l, type_id, type, get_bytes(&q));
    query_end(&q);
    return room;
}

bool limits_read(reading *r, pawl_query *query_)
{
    const pawl_limit_filter *f = query_->limit_filter;
    const char *from = "";
    pawl_bytes after = {0};
    if (f->cursor && !budget_cursor_read(r->arena, f->cursor, &from, &after)) return false;
    pawl_limits *out = query_->limits = read_alloc(r, sizeof *out);
    pawl_limit_info *infos = read_alloc(r, ((size_t)f->limit + 1) * sizeof *infos);
    if (!out || !infos) return true;
    looking l = {r, f, out, infos};
    out->now_us = r->now_us;
    out->limits = infos;
    query q = query_on(r->c, SQL_limits_types);
    put_text(&q, from);
    for (bool room = true; room && query_row(&q);) {
        int64_t type_id = get_int(&q);
        const char *type = read_text(r, get_text(&q));
        if (r->no_memory) break;
        if (!f->type || strcmp(f->type, type) == 0)
            room = look_at_type(&l, type_id, type, f->cursor && strcmp(type, from) == 0 ? &after : NULL);
    }
    query_end(&q);
    return true;
}
