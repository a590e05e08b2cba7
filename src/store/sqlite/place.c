/* Concurrency limits: bounds, spots and numbered places as rows; blocked tasks name their spot in pawl_live.
 *
 * A write transaction reads a spot once, with its bound and the number of its places. Those where places may be free are touched, and
 * before the commit (places_flush) what is free there is offered: the first blocked tasks of each lane lose their mark. Where there
 * never was a bound none of this is asked for (`bounded`, which the handle remembers until another process commits).
 */
#include "store/sqlite/place.h"
#include "base/alloc.h"
#include "core/limit.h"
#include "store/budget.h"
#include "store/sqlite/quota.h"
#include <stdio.h>
#include <string.h>

#define WANTS 3         /* queue, type, key */
#define OFFER_MOST 2000 /* tasks unblocked at a spot at once */
#define WALK 500

typedef struct spot {
    struct spot *next;
    int64_t id; /* 0: there is no row */
    pawl_scope scope;
    int64_t name_id;
    pawl_bytes key;
    int most; /* 0: no bound */
    bool ordered, touched;
    int taken;
} spot;

typedef struct kind { /* whether tasks of a queue and type may need places */
    struct kind *next;
    int64_t queue_id, type_id;
    bool bounded; /* now */
    bool ever;    /* or were: some may still have places */
    bool turns;   /* tenants of the queue take turns */
} kind;

static const pawl_bytes no_key = {"", 0};

static bool has_row(query *q)
{
    bool found = query_row(q);
    query_end(q);
    return found;
}

static int64_t one_int(query *q)
{
    int64_t value = query_row(q) ? get_int(q) : 0;
    query_end(q);
    return value;
}

bool places_any(conn *c)
{
    query q = query_on(c, SQL_bound_any);
    return one_int(&q) != 0;
}

/* ---- bounds -------------------------------------------------------------------------------------------------------------- */

int bound_most(conn *c, pawl_scope scope, int64_t name_id, pawl_bytes key, bool *ordered)
{
    int most = 0;
    query q = query_on(c, SQL_bound_get);
    put_int(&q, scope);
    put_int(&q, name_id);
    put_key(&q, key);
    if (query_row(&q)) {
        most = (int)get_int(&q);
        *ordered = get_int(&q) != 0;
    }
    query_end(&q);
    return most;
}

void bound_put(tx *t, pawl_scope scope, int64_t name_id, pawl_bytes key, int most, bool ordered)
{
    query q = query_on(t->c, SQL_bound_put);
    put_int(&q, scope);
    put_int(&q, name_id);
    put_key(&q, key);
    put_int(&q, most);
    put_int(&q, ordered);
    put_int(&q, t->now_us);
    query_run(&q);
    t->bounded = true;
    t->s->bounded = 1;
}

bool bound_write(tx *t, pawl_op *op, int64_t name_id, pawl_bytes key)
{
    bool ordered = false;
    int most = op->u.bound.most > 0 ? op->u.bound.most : 0, old = bound_most(t->c, op->u.bound.scope, name_id, key, &ordered);
    op->result = most > 0 || op->u.bound.only_move ? PAWL_OP_EXISTING : PAWL_OP_NOT_FOUND;
    if (op->u.bound.only_move || (old == most && (most == 0 || ordered == op->u.bound.ordered))) return false;
    bound_put(t, op->u.bound.scope, name_id, key, most, most > 0 && op->u.bound.ordered);
    meta_put(t->c, "limits_version", meta_int(t->c, "limits_version", 0) + 1);
    oplog_put(t, op->by, "limit", 0, op->u.bound.name);
    op->result = old > 0 ? PAWL_OP_UPDATED : PAWL_OP_DONE;
    places_forget(t);
    return true;
}

/* Of a type's key: its own, or that of all. */
static int most_of(conn *c, pawl_scope scope, int64_t name_id, pawl_bytes key, bool *ordered)
{
    int most = bound_most(c, scope, name_id, key, ordered);
    return most || key.len == 0 ? most : bound_most(c, scope, name_id, no_key, ordered);
}

static bool read_bounded(tx *t, int64_t queue_id, int64_t type_id)
{
    bool ordered;
    if (bound_most(t->c, PAWL_SCOPE_QUEUE, queue_id, no_key, &ordered) > 0) return true;
    if (bound_most(t->c, PAWL_SCOPE_TYPE, type_id, no_key, &ordered) > 0) return true;
    query q = query_on(t->c, SQL_bound_keys);
    put_int(&q, type_id);
    return has_row(&q);
}

static kind kind_of(tx *t, int64_t queue_id, int64_t type_id)
{
    for (const kind *k = t->kinds; k; k = k->next)
        if (k->queue_id == queue_id && k->type_id == type_id) return *k;
    kind *k = alloc_new(t->c->allocator, sizeof *k);
    if (!k) {
        conn_note(t->c, SQLITE_NOMEM);
        return (kind){.bounded = true, .ever = true};
    }
    *k = (kind){.next = t->kinds, .queue_id = queue_id, .type_id = type_id};
    query q = query_on(t->c, SQL_bound_kind);
    put_int(&q, queue_id);
    put_int(&q, type_id);
    if (query_row(&q)) {
        k->ever = get_int(&q) != 0;
        k->turns = get_int(&q) != 0;
    }
    query_end(&q);
    k->bounded = k->ever && read_bounded(t, queue_id, type_id);
    t->kinds = k;
    return *k;
}

bool places_bounded(tx *t, int64_t queue_id, int64_t type_id) { return kind_of(t, queue_id, type_id).bounded; }

bool places_turns(tx *t, int64_t queue_id, int64_t type_id) { return kind_of(t, queue_id, type_id).turns; }

bool places_needed(tx *t, int64_t queue_id, int64_t type_id)
{
    return places_turns(t, queue_id, type_id) || places_bounded(t, queue_id, type_id);
}

/* ---- spots --------------------------------------------------------------------------------------------------------------- */

static int64_t spot_id(conn *c, pawl_scope scope, int64_t name_id, pawl_bytes key)
{
    query q = query_on(c, SQL_spot_get);
    put_int(&q, scope);
    put_int(&q, name_id);
    put_key(&q, key);
    return one_int(&q);
}

static int count_places(conn *c, int64_t id)
{
    query q = query_on(c, SQL_place_count);
    put_int(&q, id);
    return (int)one_int(&q);
}

/* As this transaction knows it; NULL: it has failed. */
static spot *spot_of(tx *t, pawl_scope scope, int64_t name_id, pawl_bytes key)
{
    for (spot *s = t->spots; s; s = s->next)
        if (s->scope == scope && s->name_id == name_id && s->key.len == key.len && memcmp(s->key.data, key.data, key.len) == 0)
            return s;
    spot *s = alloc_new(t->c->allocator, sizeof *s + key.len + 1);
    if (!s) {
        conn_note(t->c, SQLITE_NOMEM);
        return NULL;
    }
    s->scope = scope;
    s->name_id = name_id;
    s->key = (pawl_bytes){memcpy(s + 1, key.data, key.len), key.len};
    s->next = t->spots;
    t->spots = s;
    s->most = most_of(t->c, scope, name_id, s->key, &s->ordered);
    s->id = spot_id(t->c, scope, name_id, s->key);
    if (s->id) s->taken = count_places(t->c, s->id);
    return s;
}

static spot *spot_by_id(tx *t, int64_t id)
{
    char room[LIMIT_KEY_MAX];
    for (spot *s = t->spots; s; s = s->next)
        if (s->id == id) return s;
    query q = query_on(t->c, SQL_spot_by_id);
    put_int(&q, id);
    if (!query_row(&q)) {
        conn_note(t->c, SQLITE_CORRUPT); /* a place, or a blocked task, of no spot */
        return NULL;
    }
    pawl_scope scope = (pawl_scope)get_int(&q);
    int64_t name_id = get_int(&q);
    pawl_bytes key = get_bytes(&q);
    key.len = key.len < sizeof room ? key.len : sizeof room;
    if (key.len) memcpy(room, key.data, key.len);
    query_end(&q);
    return spot_of(t, scope, name_id, (pawl_bytes){room, key.len});
}

static bool spot_store(tx *t, spot *s)
{
    if (s->id) return true;
    query q = query_on(t->c, SQL_spot_add);
    put_int(&q, s->scope);
    put_int(&q, s->name_id);
    put_key(&q, s->key);
    if (query_run(&q)) s->id = sqlite3_last_insert_rowid(t->c->db);
    return s->id != 0;
}

void places_forget(tx *t)
{
    for (spot *s = t->spots, *next; s; s = next) {
        next = s->next;
        alloc_free(t->c->allocator, s);
    }
    for (kind *k = t->kinds, *next; k; k = next) {
        next = k->next;
        alloc_free(t->c->allocator, k);
    }
    t->spots = NULL;
    t->kinds = NULL;
}

/* What a task needs places of; the key of an ordered bound comes first, for its line is joined whatever else is full. */
static int wants_of(tx *t, int64_t queue_id, int64_t type_id, pawl_bytes rate_key, spot *out[WANTS])
{
    char room[LIMIT_KEY_ROOM];
    int count = 0;
    if (!places_bounded(t, queue_id, type_id)) return 0;
    for (pawl_scope scope = PAWL_SCOPE_QUEUE; scope <= PAWL_SCOPE_KEYS && !t->c->rc; scope++) {
        if (scope == PAWL_SCOPE_KEYS && rate_key.len == 0) continue;
        pawl_bytes key = scope == PAWL_SCOPE_KEYS ? limit_key(rate_key, room) : no_key;
        spot *s = spot_of(t, scope, scope == PAWL_SCOPE_QUEUE ? queue_id : type_id, key);
        if (!s || s->most == 0) continue;
        out[count++] = s;
        if (!s->ordered) continue;
        memmove(out + 1, out, (size_t)(count - 1) * sizeof *out);
        out[0] = s;
    }
    return t->c->rc ? 0 : count;
}

/* ---- places -------------------------------------------------------------------------------------------------------------- */

static bool holds(tx *t, pawl_id id, const spot *s)
{
    if (!s->id || s->taken == 0) return false;
    query q = query_on(t->c, SQL_place_has);
    put_int(&q, id);
    put_int(&q, s->id);
    return has_row(&q);
}

static void take(tx *t, pawl_id id, spot *s)
{
    if (!spot_store(t, s)) return;
    query q = query_on(t->c, SQL_place_gap);
    put_int(&q, s->id);
    int64_t number = one_int(&q);
    q = query_on(t->c, SQL_place_put);
    put_int(&q, s->id);
    put_int(&q, number);
    put_int(&q, id);
    query_run(&q);
    s->taken++;
}

static int64_t first_in_line(tx *t, const spot *s)
{
    query q = query_on(t->c, SQL_blocked_first);
    put_int(&q, s->id);
    return s->id ? one_int(&q) : 0;
}

static bool has_room(tx *t, pawl_id id, const spot *s)
{
    if (holds(t, id, s)) return true;
    if (!s->ordered) return s->taken < s->most + CANARY(PLACE_TOO_MANY);
    int64_t first = s->taken == 0 ? first_in_line(t, s) : 0;
    return s->taken == 0 && (first == 0 || first > id);
}

bool places_admit(tx *t, task_row *row, pawl_bytes rate_key)
{
    spot *wants[WANTS];
    int count = wants_of(t, row->queue_id, row->type_id, rate_key, wants);
    for (int i = 0; i < count; i++) {
        if (has_room(t, row->id, wants[i])) continue;
        for (int k = 0; k < count && wants[i]->scope == PAWL_SCOPE_KEYS; k++) wants[k]->touched = true;
        if (!spot_store(t, wants[i])) return false;
        quota_give_back(t, row);
        query q = query_on(t->c, SQL_live_block);
        put_int(&q, wants[i]->id);
        put_int(&q, row->id);
        query_run(&q);
        return false;
    }
    for (int i = 0; i < count; i++)
        if (!holds(t, row->id, wants[i])) take(t, row->id, wants[i]);
    return t->c->rc == SQLITE_OK;
}

bool places_ordered(tx *t, const task_row *row, pawl_bytes rate_key)
{
    spot *wants[WANTS];
    return wants_of(t, row->queue_id, row->type_id, rate_key, wants) > 0 && wants[0]->ordered;
}

void places_line_up(tx *t, task_row *row, pawl_bytes rate_key)
{
    spot *wants[WANTS];
    int count = wants_of(t, row->queue_id, row->type_id, rate_key, wants);
    for (int i = 0; i < count && !row->blocked; i++) {
        spot *s = wants[i];
        bool room = has_room(t, row->id, s);
        if (!room && (s->ordered || row->run_at_us <= t->now_us) && spot_store(t, s)) row->blocked = s->id;
        else if (room && s->ordered && !holds(t, row->id, s)) take(t, row->id, s);
    }
}

static void drop(tx *t, spot *s, int64_t number)
{
    query q = query_on(t->c, SQL_place_drop);
    put_int(&q, s->id);
    put_int(&q, number);
    query_run(&q);
    s->taken--;
    s->touched = true;
}

/* Several have a place only if they were leased when the bound was put. */
static bool is_kept(const spot *s) { return s->ordered && s->most > 0 && s->taken == 1; }

void places_leave(tx *t, const task_row *row, bool ends)
{
    int64_t spots[WANTS * 2], numbers[WANTS * 2];
    int count = 0;
    if (!kind_of(t, row->queue_id, row->type_id).ever) return;
    query q = query_on(t->c, SQL_place_of_task);
    put_int(&q, row->id);
    while (count < WANTS * 2 && query_row(&q)) {
        spots[count] = get_int(&q);
        numbers[count++] = get_int(&q);
    }
    query_end(&q);
    for (int i = 0; i < count && !t->c->rc; i++) {
        spot *s = spot_by_id(t, spots[i]);
        if (s && (ends || !is_kept(s) || CANARY(ORDER_LET_GO))) drop(t, s, numbers[i]);
    }
}

void places_withdraw(tx *t, const task_row *row)
{
    char room[LIMIT_KEY_MAX];
    pawl_bytes key = no_key;
    spot *wants[WANTS];
    places_leave(t, row, true);
    if (!places_bounded(t, row->queue_id, row->type_id)) return;
    query q = query_on(t->c, SQL_body_rate_key);
    put_int(&q, row->id);
    if (query_row(&q)) {
        key = limit_key(get_bytes(&q), room);
        if (key.data != room && key.len) key.data = memcpy(room, key.data, key.len);
    }
    query_end(&q);
    for (int i = 0, count = wants_of(t, row->queue_id, row->type_id, key, wants); i < count; i++) wants[i]->touched = true;
}

void places_end(tx *t, const task_row *row)
{
    if (row->state == PAWL_PENDING) places_withdraw(t, row);
    else places_leave(t, row, true);
}

/* ---- offers -------------------------------------------------------------------------------------------------------------- */

static void unblock(tx *t, pawl_id id)
{
    query q = query_on(t->c, SQL_live_block);
    put_int(&q, 0);
    put_int(&q, id);
    query_run(&q);
    t->unblocked = true;
}

typedef struct lane {
    int64_t queue_id, type_id, class, tenant_id; /* tenant_id -1: none */
} lane;

static bool next_tenant(tx *t, const spot *s, lane *l)
{
    query q = query_on(t->c, SQL_blocked_tenant);
    put_int(&q, s->id);
    put_int(&q, l->queue_id);
    put_int(&q, l->type_id);
    put_int(&q, l->class);
    put_int(&q, l->tenant_id);
    bool found = query_row(&q);
    if (found) l->tenant_id = get_int(&q);
    query_end(&q);
    return found;
}

static bool next_lane(tx *t, const spot *s, lane *l)
{
    if (l->queue_id && next_tenant(t, s, l)) return true;
    query q = query_on(t->c, SQL_blocked_lane);
    put_int(&q, s->id);
    put_int(&q, l->queue_id);
    put_int(&q, l->type_id);
    put_int(&q, l->queue_id ? l->class + 1 : 0);
    bool found = query_row(&q);
    if (found) {
        l->queue_id = get_int(&q);
        l->type_id = get_int(&q);
        l->class = get_int(&q);
        l->tenant_id = get_int_or(&q, -1);
    }
    query_end(&q);
    return found;
}

static int offer_lane(tx *t, const spot *s, const lane *l, int most)
{
    pawl_id ids[OFFER_MOST];
    int count = 0;
    if (most > OFFER_MOST) most = OFFER_MOST;
    query q = query_on(t->c, SQL_blocked_of_lane);
    put_int(&q, s->id);
    put_int(&q, l->queue_id);
    put_int(&q, l->type_id);
    put_int(&q, l->class);
    put_int_or_null(&q, l->tenant_id, -1);
    put_int(&q, most);
    while (count < most && query_row(&q)) ids[count++] = get_int(&q);
    query_end(&q);
    for (int i = 0; i < count; i++) unblock(t, ids[i]);
    return count;
}

/* At most so many; how many it were. */
static int offer(tx *t, spot *s, int most)
{
    int count = 0;
    if (!s->id || CANARY(PLACE_UNOFFERED)) return 0;
    if (s->most > 0 && s->ordered) {
        pawl_id first = s->taken == 0 && most > 0 ? first_in_line(t, s) : 0;
        if (!first) return 0;
        unblock(t, first);
        take(t, first, s);
        return 1;
    }
    int free = s->most > 0 ? s->most - s->taken : OFFER_MOST;
    for (lane l = {0}; free > 0 && count < most && !t->c->rc && next_lane(t, s, &l);)
        count += offer_lane(t, s, &l, free < most - count ? free : most - count);
    return count;
}

int places_offer(tx *t)
{
    int count = 0;
    for (spot *s = t->spots; s && !t->c->rc; s = s->next) {
        if (!s->touched) continue;
        s->touched = false;
        count += offer(t, s, OFFER_MOST);
    }
    return count;
}

/* Spots that nobody needs any more go. */
void places_flush(tx *t)
{
    for (spot *s = t->spots; s && !t->c->rc; s = s->next) {
        bool unused = s->touched && s->id && s->taken == 0;
        if (s->touched) offer(t, s, OFFER_MOST);
        if (!unused || s->taken > 0) continue;
        query q = query_on(t->c, SQL_spot_drop);
        put_int(&q, s->id);
        query_run(&q);
    }
    places_forget(t);
}

/* Touches the next ones; where to go on, 0: these were the last. */
static int64_t touch_some(tx *t, int64_t after)
{
    int64_t ids[WALK];
    int count = 0;
    query q = query_on(t->c, SQL_spot_walk);
    put_int(&q, after);
    put_int(&q, WALK);
    while (count < WALK && query_row(&q)) ids[count++] = get_int(&q);
    query_end(&q);
    for (int i = 0; i < count && !t->c->rc; i++) {
        spot *s = spot_by_id(t, ids[i]);
        if (s) s->touched = true;
    }
    return count < WALK ? 0 : ids[count - 1];
}

/* What a change of a bound in pages left, if whoever turned the pages is gone. */
void places_sweep(tx *t) { t->s->spot_walk = touch_some(t, t->s->spot_walk); }

void places_offer_all(tx *t)
{
    int64_t after = 0;
    do {
        after = touch_some(t, after);
        places_offer(t);
        places_forget(t);
    } while (after && !t->c->rc);
}

/* ---- from another store -------------------------------------------------------------------------------------------------- */

void places_rejoin(tx *t, task_row *row, pawl_bytes rate_key, bool holds)
{
    char room[LIMIT_KEY_ROOM];
    spot *s = spot_of(t, PAWL_SCOPE_KEYS, row->type_id, limit_key(rate_key, room));
    if (!s || !spot_store(t, s)) return;
    if (holds) take(t, row->id, s);
    else row->blocked = s->id;
}

/* ---- BOUND --------------------------------------------------------------------------------------------------------------- */

/* Leases that the new bound finds get places, though it may have fewer. */
static void adopt_leases(tx *t, const pawl_op *op, int64_t name_id, pawl_bytes own)
{
    char room[LIMIT_KEY_ROOM];
    query q = query_on(t->c, SQL_leases_bounded);
    put_int(&q, op->u.bound.scope);
    put_int(&q, name_id);
    while (!t->c->rc && query_row(&q)) {
        pawl_id id = get_int(&q);
        pawl_bytes key = get_bytes(&q);
        bool keyed = op->u.bound.scope == PAWL_SCOPE_KEYS;
        if (keyed && key.len == 0) continue;
        key = keyed ? limit_key(key, room) : no_key;
        if (own.len > 0 && (own.len != key.len || memcmp(own.data, key.data, key.len) != 0)) continue;
        spot *s = spot_of(t, op->u.bound.scope, name_id, key);
        if (s && s->most > 0 && !holds(t, id, s)) take(t, id, s);
    }
    query_end(&q);
}

/* Who waits for an attempt keeps its place only if that is ordered. */
static void drop_pending_holders(tx *t, spot *s)
{
    int64_t numbers[64];
    int count = 0;
    query q = query_on(t->c, SQL_place_pending);
    put_int(&q, s->id);
    while (count < 64 && query_row(&q)) numbers[count++] = get_int(&q);
    query_end(&q);
    for (int i = 0; i < count; i++) drop(t, s, numbers[i]);
}

/* Offers what is free now to as many as `most`. true: there are others. */
static bool settle(tx *t, const pawl_op *op, int64_t name_id, pawl_bytes own, int most)
{
    query q = query_on(t->c, SQL_spots_of_name);
    put_int(&q, op->u.bound.scope);
    put_int(&q, name_id);
    bool more = false;
    while (!t->c->rc && !more && query_row(&q)) {
        spot *s = spot_by_id(t, get_int(&q));
        if (!s || (own.len > 0 && (s->key.len != own.len || memcmp(s->key.data, own.data, own.len) != 0))) continue;
        if (!is_kept(s)) drop_pending_holders(t, s);
        int count = offer(t, s, most);
        s->touched = s->taken == 0;
        most -= count;
        more = most <= 0;
    }
    query_end(&q);
    return more;
}

void apply_bound(tx *t, pawl_op *op)
{
    char room[LIMIT_KEY_ROOM];
    if (op->u.bound.scope == PAWL_SCOPE_TENANTS) {
        turns_bound(t, op);
        return;
    }
    int64_t name_id_ = name_id(t->c, op->u.bound.name);
    pawl_bytes key = op->u.bound.key.len ? limit_key(op->u.bound.key, room) : no_key;
    if (bound_write(t, op, name_id_, key) && op->u.bound.most > 0) adopt_leases(t, op, name_id_, key);
    op->u.bound.more = t->bounded && op->u.bound.move > 0 && settle(t, op, name_id_, key, op->u.bound.move);
}
