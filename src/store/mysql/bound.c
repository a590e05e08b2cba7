/* BOUND, and the upkeep of spots.
 *
 * A BOUND holds the version of the limits, as whoever grants leases does, too; so none is granted meanwhile. It locks the spots that there are
 * of it, then the leases that it will count: those that end just now are waited for, and who ends one afterwards finds another version.
 */
#include "base/alloc.h"
#include "core/limit.h"
#include "store/mysql/place.h"
#include <stdio.h>

typedef struct held_lease {
    pawl_id id;
    pawl_bytes key; /* empty: none, or of no interest */
} held_lease;

typedef struct bound_plan {
    struct bound_plan *next;
    const flat_op *o;
    pawl_bytes key; /* as stored */
    bound_said old;
    bool there; /* it was stored before */
    bool changes;
    held_lease *leases;
    int leases_count;
    pawl_id *ids; /* tasks that are to take their turn from now on */
    int count;
} bound_plan;

static int most_of(const pawl_op *op)
{
    int most = op->u.bound.most > 0 ? op->u.bound.most : 0;
    return op->u.bound.scope == PAWL_SCOPE_TENANTS && op->u.bound.key.len == 0 && most > 1 ? 1 : most;
}

static bool is_ordered(const pawl_op *op)
{
    return op->u.bound.scope != PAWL_SCOPE_TENANTS && op->u.bound.ordered && op->u.bound.most > 0;
}

/* A queue's or a type's number. */
static int32_t name_of(const flat_op *o) { return o->queue_id; }

/* ---- what there is to know ----------------------------------------------------------------------------------------------- */

static pawl_bytes stored_key(work *w, const flat_op *o)
{
    char room[LIMIT_KEY_ROOM] = "";
    pawl_bytes key = o->op->u.bound.key;
    if (o->tenant) {
        key.data = room;
        key.len = (size_t)snprintf(room, sizeof room, "%d", (int)o->tenant_id);
    } else if (key.len) {
        key = limit_key(key, room);
    }
    const char *copy = pawl_arena_bytes(w->arena, key.len ? key.data : "", key.len);
    if (!copy) w->no_memory = true;
    return (pawl_bytes){copy ? copy : "", copy ? key.len : 0};
}

/* Which spots are meant, as a condition. */
static void put_which(work *w, const bound_plan *p, const char *column)
{
    buf b;
    buf_init(&b, w->s->allocator, 4096);
    if (p->key.len) {
        buf_fmt(&b, "%s = ", column);
        lit_bytes(w->c, &b, p->key);
    } else {
        buf_str(&b, "TRUE");
    }
    const char *copy = b.failed ? NULL : pawl_arena_bytes(w->arena, buf_text(&b), b.len);
    if (!copy) w->no_memory = true;
    my_put_raw(w->c, copy ? copy : "FALSE", copy ? b.len : 5);
    buf_done(&b);
}

static void ask_plan(work *w, const flat_op *o, int at)
{
    const pawl_op *op = o->op;
    conn *c = w->c;
    bound_plan *p = my_work_alloc(w, sizeof *p);
    if (!p) return;
    *p = (bound_plan){.next = w->bounds, .o = o, .key = stored_key(w, o)};
    w->bounds = p;
    my_put_int(c, op->u.bound.scope);
    my_put_int(c, name_of(o));
    my_put_bytes(c, p->key);
    my_put_int(c, at);
    my_add(c, SQL_bound_old);
    if (op->u.bound.scope != PAWL_SCOPE_TENANTS) {
        my_put_int(c, op->u.bound.scope);
        my_put_int(c, name_of(o));
        put_which(w, p, "s.spot_key");
        my_add(c, SQL_spots_of);
    } else if (p->key.len == 0 && op->u.bound.most > 0 && op->u.bound.move > 0) {
        my_put_int(c, name_of(o));
        my_put_int(c, op->u.bound.move);
        my_put_int(c, at);
        my_add(c, SQL_turn_tag);
    }
}

void my_ask_bounds(work *w)
{
    w->bounds = NULL;
    for (int i = 0; i < w->f->count; i++)
        if (w->f->ops[i].op->kind == PAWL_OP_BOUND && !w->f->ops[i].refused) ask_plan(w, &w->f->ops[i], i);
}

static bound_plan *plan_of(const work *w, const flat_op *o)
{
    bound_plan *p = w->bounds;
    while (p && p->o != o) p = p->next;
    return p;
}

void my_bounds_take_in(work *w)
{
    EACH_ANSWER(a, w->c, SQL_bound_old)
    if (a->rows > 0) {
        bound_plan *p = plan_of(w, &w->f->ops[get_int(a, 0, 0)]);
        p->there = true;
        p->old = (bound_said){(int)get_int(a, 0, 1), get_int(a, 0, 2) != 0};
    }
    EACH_ANSWER(a, w->c, SQL_turn_tag)
    if (a->rows > 0) {
        bound_plan *p = plan_of(w, &w->f->ops[get_int(a, 0, 0)]);
        p->ids = my_work_alloc(w, (size_t)a->rows * sizeof *p->ids);
        for (int i = 0; p->ids && i < a->rows; i++) p->ids[p->count++] = get_int(a, i, 1);
    }
    for (bound_plan *p = w->bounds; p; p = p->next) {
        const pawl_op *op = p->o->op;
        int most = most_of(op);
        p->changes = !op->u.bound.only_move && (p->old.most != most || (most > 0 && p->old.ordered != is_ordered(op)));
    }
}

static bool adopts(const bound_plan *p)
{
    return p->changes && p->o->op->u.bound.scope != PAWL_SCOPE_TENANTS && most_of(p->o->op) > 0;
}

static void ask_leases(work *w, const bound_plan *p)
{
    char which[64];
    int n = snprintf(which, sizeof which, "l.%s = %d", p->o->op->u.bound.scope == PAWL_SCOPE_QUEUE ? "queue_id" : "type_id",
                     (int)name_of(p->o));
    my_put_raw(w->c, which, (size_t)n);
    my_add(w->c, SQL_leases_lock);
    my_put_raw(w->c, which, (size_t)n);
    my_add(w->c, SQL_leases_of);
}

static void take_leases(work *w, bound_plan *p, spot_source *src)
{
    const answer *a = my_answer(w->c, SQL_leases_of);
    pawl_scope scope = p->o->op->u.bound.scope;
    bool keys = scope == PAWL_SCOPE_KEYS;
    p->leases = my_work_alloc(w, ((size_t)a->rows + 1) * sizeof *p->leases);
    for (int i = 0; p->leases && i < a->rows; i++) {
        pawl_bytes key = keys ? get_bytes(a, i, 1) : (pawl_bytes){"", 0};
        if (keys && key.len == 0) continue;
        if (p->key.len && (p->key.len != key.len || memcmp(p->key.data, key.data, key.len) != 0)) continue;
        const char *copy = pawl_arena_bytes(w->arena, key.len ? key.data : "", key.len);
        if (!copy) w->no_memory = true;
        p->leases[p->leases_count++] = (held_lease){get_int(a, i, 0), {copy ? copy : "", copy ? key.len : 0}};
        my_spot_want(w->c, src, scope, name_of(p->o), key);
    }
}

/* The leases that a new bound counts, with their spots; and the spots where somebody is blocked. */
static bool load_plan(work *w, bound_plan *p)
{
    const pawl_op *op = p->o->op;
    spot_source src;
    if (op->u.bound.scope == PAWL_SCOPE_TENANTS) return true;
    my_spot_source_init(&src, w);
    my_script(w->c);
    if (adopts(p)) ask_leases(w, p);
    bool good = !adopts(p) || my_send(w->c, CALL_READS);
    if (good && adopts(p)) take_leases(w, p, &src);
    my_script(w->c);
    my_spots_lock(w, &src);
    my_spot_source_done(&src);
    my_put_int(w->c, op->u.bound.scope);
    my_put_int(w->c, name_of(p->o));
    put_which(w, p, "spot_key");
    my_add(w->c, SQL_spots_blocked);
    if (w->no_memory) my_conn_no_memory(w->c);
    if (!good || w->no_memory || !my_send(w->c, CALL_READS) || !my_spots_take_in(w)) return false;
    EACH_ANSWER(a, w->c, SQL_spots_blocked)
    for (int i = 0; i < a->rows && op->u.bound.move > 0; i++) {
        spot *s = my_spot(w, (pawl_scope)get_int(a, i, 0), (int32_t)get_int(a, i, 1), get_bytes(a, i, 2));
        if (s) s->touched = true;
    }
    return true;
}

bool my_load_bounds(work *w)
{
    for (bound_plan *p = w->bounds; p; p = p->next)
        if (!load_plan(w, p)) return false;
    return true;
}

/* ---- the change ---------------------------------------------------------------------------------------------------------- */

static void put_bound(work *w, const bound_plan *p)
{
    const pawl_op *op = p->o->op;
    conn *c = w->c;
    my_put_int(c, op->u.bound.scope);
    my_put_int(c, name_of(p->o));
    my_put_bytes(c, p->key);
    my_put_int(c, most_of(op));
    my_put_int(c, is_ordered(op));
    my_put_int(c, w->now_us);
    my_add(c, SQL_bound_put);
    my_add(c, SQL_limits_changed);
    my_oplog_put(w, op->by, "limit", 0, op->u.bound.name);
}

static bool concerns(const bound_plan *p, const spot *s)
{
    if (s->scope != p->o->op->u.bound.scope || s->name_id != name_of(p->o)) return false;
    return p->key.len == 0 || (s->key.len == p->key.len && memcmp(s->key.data, p->key.data, s->key.len) == 0);
}

/* What is locked learns of it. */
static void tell_spots(work *w, const bound_plan *p)
{
    bound_said now = {most_of(p->o->op), is_ordered(p->o->op)};
    map_each(node, &w->spots) {
        spot *s = (spot *)node;
        if (!concerns(p, s)) continue;
        if (p->key.len == s->key.len) s->own = now;
        if (p->key.len == 0) s->all = now;
    }
}

static void adopt(work *w, const bound_plan *p)
{
    for (int i = 0; i < p->leases_count; i++) {
        spot *s = my_spot(w, p->o->op->u.bound.scope, name_of(p->o), p->leases[i].key);
        if (s && spot_bound(s).most > 0 && !my_spot_has(s, p->leases[i].id)) my_place_take(w, s, p->leases[i].id, true);
    }
}

/* Who waits for an attempt keeps its place only if that is ordered. */
static void drop_pending_holders(work *w, const bound_plan *p)
{
    map_each(node, &w->spots) {
        spot *s = (spot *)node;
        if (!concerns(p, s) || spot_kept(s)) continue;
        for (int i = s->count - 1; i >= 0; i--)
            if (!s->places[i].leased) my_place_drop(w, s, i);
    }
}

static void take_turns(work *w, const bound_plan *p)
{
    pawl_op *op = p->o->op;
    if (p->key.len || (p->changes ? most_of(op) : p->old.most) == 0) return;
    my_put_int(w->c, name_of(p->o));
    my_add(w->c, SQL_turn_make);
    for (int i = 0; i < p->count; i++) {
        my_note_id(w, &w->parked, p->ids[i]);
        my_note_id(w, &w->shared, p->ids[i]);
    }
    op->u.bound.more = op->u.bound.move > 0 && p->count >= op->u.bound.move;
}

void my_apply_bound(work *w, flat_op *o)
{
    pawl_op *op = o->op;
    const bound_plan *p = plan_of(w, o);
    op->u.bound.more = false;
    op->result = p->old.most > 0 ? PAWL_OP_UPDATED : PAWL_OP_DONE;
    if (!p->changes) op->result = op->u.bound.only_move || most_of(op) > 0 ? PAWL_OP_EXISTING : PAWL_OP_NOT_FOUND;
    if (p->changes) put_bound(w, p);
    if (op->u.bound.scope == PAWL_SCOPE_TENANTS) {
        take_turns(w, p);
        return;
    }
    if (p->changes) tell_spots(w, p);
    adopt(w, p);
    if (op->u.bound.move <= 0) return;
    drop_pending_holders(w, p);
    w->offers_left = op->u.bound.move;
}

void my_bounds_told(work *w)
{
    for (const bound_plan *p = w->bounds; p; p = p->next)
        if (p->o->op->u.bound.scope != PAWL_SCOPE_TENANTS && p->o->op->u.bound.move > 0)
            p->o->op->u.bound.more = w->offers_left <= 0;
}

/* ---- upkeep -------------------------------------------------------------------------------------------------------------- */

static void remember(my_store *s, const answer *a)
{
    pawl_bytes key = a->rows ? get_bytes(a, a->rows - 1, 2) : (pawl_bytes){0};
    s->spot_scope = a->rows ? (int)get_int(a, a->rows - 1, 0) : 0;
    s->spot_name = a->rows ? (int32_t)get_int(a, a->rows - 1, 1) : 0;
    s->spot_len = key.len < sizeof s->spot_room ? key.len : sizeof s->spot_room;
    if (key.len) memcpy(s->spot_room, key.data, s->spot_len);
}

static void drop_unused(work *w)
{
    buf b;
    buf_init(&b, w->s->allocator, 1 << 20);
    map_each(node, &w->spots) {
        const spot *s = (const spot *)node;
        if (s->count) continue;
        buf_fmt(&b, "%s(%d,%d,", b.len ? "," : "", (int)s->scope, (int)s->name_id);
        lit_bytes(w->c, &b, s->key);
        buf_char(&b, ')');
    }
    if (b.failed) w->no_memory = true;
    if (b.len) {
        my_put_raw(w->c, buf_text(&b), b.len);
        my_add(w->c, SQL_spots_drop);
    }
    buf_done(&b);
}

/* What a change of a bound in pages left, if whoever turned the pages is gone; and places whose lease ended without anybody telling. */
static bool sweep_some(work *w)
{
    my_store *s = w->s;
    conn *c = w->c;
    spot_source src;
    my_script(c);
    my_add(c, SQL_begin);
    my_add(c, SQL_version_shared);
    my_put_int(c, s->spot_scope);
    my_put_int(c, s->spot_name);
    my_put_bytes(c, (pawl_bytes){s->spot_room, s->spot_len});
    my_add(c, SQL_spots_next);
    if (!my_send(c, CALL_READS)) return false;
    const answer *a = my_answer(c, SQL_spots_next);
    remember(s, a);
    if (a->rows == 0 || my_work_outdated(w)) {
        bool outdated = my_work_outdated(w);
        my_rollback(c);
        return !outdated || my_limits_fetch(s, c);
    }
    my_spot_source_init(&src, w);
    for (int i = 0; i < a->rows; i++)
        my_spot_want(c, &src, (pawl_scope)get_int(a, i, 0), (int32_t)get_int(a, i, 1), get_bytes(a, i, 2));
    my_script(c);
    my_spots_lock(w, &src);
    my_spot_source_done(&src);
    if (w->no_memory || !my_send(c, CALL_READS) || !my_spots_take_in(w) || !my_places_load(w)) return false;
    map_each(node, &w->spots) ((spot *)node)->touched = true;
    my_script(c);
    if (!my_places_settle(w)) return false;
    my_work_flush(w);
    drop_unused(w);
    if (w->no_memory) return false;
    if (w->unblocked.count) my_add_wake(c, w->lane, w->now_us, true);
    my_add(c, SQL_commit);
    if (!my_send(c, CALL_WRITES)) return false;
    if (w->unblocked.count) my_ready_chill(&s->ready);
    return true;
}

bool my_sweep_spots(my_store *s, conn *c, int64_t now_us)
{
    work w;
    pawl_arena *arena = arena_new(s->allocator, 0);
    bool good = arena != NULL;
    if (good) {
        my_work_begin(&w, s, c, arena);
        w.lane = my_new_lane(s);
        w.now_us = now_us;
        good = my_limits_copy(s, arena, &w.limits) && (w.limits.bounds_count == 0 || sweep_some(&w));
        if (w.no_memory) my_conn_no_memory(c);
        my_work_done(&w);
    }
    if (!arena) my_conn_no_memory(c);
    arena_free(arena);
    return good;
}
