/* Concurrency limits on rows: bounds, spots with numbered places, tasks that are blocked at one. Ordered keys and tenants that take turns are
 * left to the reference store.
 *
 * What a lock protects
 *   bounds row, shared     all bounds stay what they are until this commits: it is known which spots a task needs
 *   bounds row, exclusive  nobody takes or frees places
 *   spot row               its places, and which tasks are blocked there
 *
 * Which spots a transaction needs is read before its tasks are locked. If a task turns out to be under others in the end, because its body
 * was replaced meanwhile, the transaction begins anew. Tasks that are blocked at a spot that it holds are locked with its own, by their ids, so
 * that it may unblock them.
 */
#include "rowstore.h"
#include "base/canary.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static bool any_bound(const tx *t) { return t->db->sim->plan.places; }

static row *bounds_row(tx *t) { return rows_get(t->db, ROW_BOUNDS, 0, NULL); }

static const char *name_of(tx *t, pawl_scope scope, const char *name, pawl_bytes key)
{
    size_t room = strlen(name) + key.len + 16;
    char *text = pawl_arena_alloc(t->wire->arena, room);
    snprintf(text, room, "%d/%s/%.*s", (int)scope, name, (int)key.len, key.len ? key.data : "");
    return text;
}

/* How many places a spot has; 0: any number. */
static int most_of(tx *t, pawl_scope scope, const char *name, pawl_bytes key)
{
    int most = rowtx_read(t, rows_get(t->db, ROW_BOUND, 0, name_of(t, scope, name, key)))->bound.most;
    if (most > 0 || key.len == 0) return most;
    return rowtx_read(t, rows_get(t->db, ROW_BOUND, 0, name_of(t, scope, name, (pawl_bytes){0})))->bound.most;
}

static row *spot_row(tx *t, pawl_scope scope, const char *name, pawl_bytes key)
{
    row *r = rows_get(t->db, ROW_SPOT, 0, name_of(t, scope, name, key));
    if (!r->data.spot.name) { /* it is new: that much of it never changes */
        sim *s = t->db->sim;
        r->data.spot.scope = scope;
        r->data.spot.name = strcpy(sim_alloc(s, strlen(name) + 1), name);
        r->data.spot.key = (pawl_bytes){memcpy(sim_alloc(s, key.len + 1), key.len ? key.data : "", key.len), key.len};
    }
    return r;
}

/* All spots that the body is under, bounds or not, in the order in which they are asked. */
static int spots_of(tx *t, const pawl_body *b, bool bounded, row *out[3])
{
    const struct {
        pawl_scope scope;
        const char *name;
        pawl_bytes key;
    } all[] = {{PAWL_SCOPE_QUEUE, b->queue, {0}}, {PAWL_SCOPE_TYPE, b->type, {0}}, {PAWL_SCOPE_KEYS, b->type, b->rate_key}};
    int count = 0;
    for (int i = 0; i < 3; i++) {
        if (all[i].scope == PAWL_SCOPE_KEYS && all[i].key.len == 0) continue;
        if (bounded && most_of(t, all[i].scope, all[i].name, all[i].key) == 0) continue;
        out[count++] = spot_row(t, all[i].scope, all[i].name, all[i].key);
    }
    return count;
}

static int taken(const row_data *d)
{
    int count = 0;
    for (int i = 0; i < PLACES_MAX; i++) count += d->spot.places[i] != 0;
    return count;
}

static int spot_most(tx *t, const row *s) { return most_of(t, s->data.spot.scope, s->data.spot.name, s->data.spot.key); }

/* ---- what is locked -------------------------------------------------------------------------------------------------------- */

bool rowstore_lock_bounds(tx *t, bool exclusive)
{
    return !any_bound(t) || rowtx_lock(t, bounds_row(t), exclusive && !CANARY(BOUND_RACED));
}

/* Its bounds may be others when its operation comes: there is a BOUND before it. */
static bool may_change(tx *t) { return rowtx_holds(t, bounds_row(t)); }

void rowstore_want_spots_of(tx *t, lock_list *l, const pawl_body *body)
{
    row *spots[3];
    if (!body || !any_bound(t)) return;
    for (int i = 0, n = spots_of(t, body, !may_change(t), spots); i < n; i++) rowstore_want_lock(l, spots[i], true);
}

static const pawl_body *body_of(tx *t, pawl_id id)
{
    const row *r = rows_find_task(t->db, id);
    return r && rowtx_read(t, r)->task.state ? rowtx_read(t, r)->task.body : NULL;
}

static bool is_of(const row_data *spot, const pawl_op *op)
{
    return spot->spot.name && spot->spot.scope == op->u.bound.scope && strcmp(spot->spot.name, op->u.bound.name) == 0;
}

/* A bound that is put: every spot that it may be about, and those of leases that have no place yet. */
static void want_spots_of_bound(tx *t, lock_list *l, const pawl_op *op)
{
    row *spots[3];
    rowstore_want_lock(l, rows_get(t->db, ROW_BOUND, 0, name_of(t, op->u.bound.scope, op->u.bound.name, op->u.bound.key)), true);
    list_each(link, &t->db->tables[ROW_TASK]) {
        const row_data *d = rowtx_read(t, container_of(link, row, link));
        if (d->task.state == PAWL_LEASED) spots_of(t, d->task.body, false, spots); /* which makes them */
    }
    list_each(link, &t->db->tables[ROW_SPOT]) {
        row *s = container_of(link, row, link);
        if (is_of(&s->data, op)) rowstore_want_lock(l, s, true);
    }
}

void rowstore_want_spots(tx *t, lock_list *l, const pawl_op *op)
{
    if (!any_bound(t)) return;
    switch (op->kind) {
    case PAWL_OP_BOUND: want_spots_of_bound(t, l, op); break;
    case PAWL_OP_INSERT: {
        const pawl_body *b = op->u.insert.body;
        pawl_id holder = b->key ? rowtx_read(t, rows_get(t->db, ROW_KEY, 0, b->key))->key.task : 0;
        rowstore_want_spots_of(t, l, b);
        if (holder) rowstore_want_spots_of(t, l, body_of(t, holder));
        break;
    }
    case PAWL_OP_FINISH:
    case PAWL_OP_RELEASE:
    case PAWL_OP_RESERVE:
    case PAWL_OP_CANCEL: rowstore_want_spots_of(t, l, body_of(t, op->id)); break;
    default: break;
    }
}

void rowstore_want_blocked(tx *t, lock_list *l)
{
    list_each(link, &t->db->tables[ROW_TASK]) {
        row *r = container_of(link, row, link);
        if (r->data.task.blocked && rowtx_holds(t, r->data.task.blocked)) rowstore_want_lock(l, r, true);
    }
}

/* Whether all is held that the task is under, now that it is locked. */
bool rowstore_stands(tx *t, const row *r)
{
    row *spots[3];
    const row_data *d = rowtx_read(t, r);
    if (!any_bound(t) || !d->task.state || pawl_state_terminal(d->task.state)) return true;
    for (int i = 0, n = spots_of(t, d->task.body, !may_change(t), spots); i < n; i++)
        if (!rowtx_holds(t, spots[i])) return false;
    return !d->task.blocked || rowtx_holds(t, d->task.blocked);
}

/* ---- places ---------------------------------------------------------------------------------------------------------------- */

bool rowstore_bounded(tx *t, const pawl_body *body)
{
    row *spots[3];
    return any_bound(t) && spots_of(t, body, true, spots) > 0;
}

/* true: it has a place of each spot. Else it is blocked at the first that is full. */
bool rowstore_admit(tx *t, row *r)
{
    row *spots[3];
    int count = any_bound(t) ? spots_of(t, rowtx_read(t, r)->task.body, true, spots) : 0;
    for (int i = 0; i < count; i++) {
        if (taken(rowtx_read(t, spots[i])) < spot_most(t, spots[i]) + CANARY(PLACE_TOO_MANY)) continue;
        rowtx_write(t, r)->task.blocked = spots[i];
        for (int k = 0; k < i && !CANARY(CHANCE_KEPT); k++)
            rowtx_write(t, spots[k])->spot.touched = true; /* its chance there is for others */
        return false;
    }
    for (int i = 0; i < count; i++) {
        int number = 0;
        row_data *d = rowtx_write(t, spots[i]);
        while (d->spot.places[number]) number++;
        CHECK(number < PLACES_MAX);
        d->spot.places[number] = r->id;
    }
    return true;
}

/* It holds no place and wants none any more, as it is. */
void rowstore_leave_places(tx *t, row *r)
{
    row *spots[3];
    int count = any_bound(t) ? spots_of(t, rowtx_read(t, r)->task.body, true, spots) : 0;
    for (int i = 0; i < count; i++) {
        row_data *d = rowtx_write(t, spots[i]);
        for (int k = 0; k < PLACES_MAX; k++)
            if (d->spot.places[k] == r->id) d->spot.places[k] = 0;
        d->spot.touched = true;
    }
    if (rowtx_read(t, r)->task.blocked) rowtx_write(t, r)->task.blocked = NULL;
}

/* ---- offers ---------------------------------------------------------------------------------------------------------------- */

static bool same_lane(const row_data *a, const row_data *b)
{
    return strcmp(a->task.body->queue, b->task.body->queue) == 0 && strcmp(a->task.body->type, b->task.body->type) == 0 &&
           a->task.suspect == b->task.suspect && a->task.solo == b->task.solo;
}

static bool before(const row *a, const row_data *x, const row *b, const row_data *y)
{
    if (x->task.body->priority != y->task.body->priority) return x->task.body->priority < y->task.body->priority;
    if (x->task.run_at_us != y->task.run_at_us) return x->task.run_at_us < y->task.run_at_us;
    return a->id < b->id;
}

/* How many of its lane that are blocked at the spot come before it. */
static int rank(tx *t, const row *spot, const row *r)
{
    int count = 0;
    const row_data *d = rowtx_read(t, r);
    list_each(link, &t->db->tables[ROW_TASK]) {
        const row *other = container_of(link, row, link);
        const row_data *o = rowtx_read(t, other);
        count += other != r && o->task.blocked == spot && same_lane(o, d) && before(other, o, r, d);
    }
    return count;
}

static int offer(tx *t, row *spot)
{
    int most = spot_most(t, spot), free = most > 0 ? most - taken(rowtx_read(t, spot)) : INT32_MAX, count = 0;
    row **chosen = pawl_arena_alloc(t->wire->arena, (t->db->tasks.count + 1) * sizeof(row *));
    list_each(link, &t->db->tables[ROW_TASK]) {
        row *r = container_of(link, row, link);
        if (rowtx_read(t, r)->task.blocked == spot && rank(t, spot, r) < free) chosen[count++] = r;
    }
    for (int i = 0; i < count; i++) rowtx_write(t, chosen[i])->task.blocked = NULL;
    return count;
}

bool rowstore_offer(tx *t)
{
    int count = 0;
    if (!any_bound(t) || CANARY(PLACE_UNOFFERED)) return false;
    list_each(link, &t->db->tables[ROW_SPOT]) {
        row *s = container_of(link, row, link);
        if (!rowtx_holds(t, s) || !rowtx_read(t, s)->spot.touched) continue;
        rowtx_write(t, s)->spot.touched = false;
        count += offer(t, s);
    }
    return count > 0;
}

/* ---- bounds ---------------------------------------------------------------------------------------------------------------- */

/* Leases that are held have places from now on, even more than there are. */
static void count_leases(tx *t, row *spot)
{
    row *spots[3];
    int number = 0;
    row_data *d = rowtx_write(t, spot);
    memset(d->spot.places, 0, sizeof d->spot.places);
    d->spot.touched = true;
    if (spot_most(t, spot) == 0) return;
    list_each(link, &t->db->tables[ROW_TASK]) {
        const row *r = container_of(link, row, link);
        const row_data *task = rowtx_read(t, r);
        if (task->task.state != PAWL_LEASED) continue;
        for (int i = 0, n = spots_of(t, task->task.body, true, spots); i < n; i++) {
            if (spots[i] != spot) continue;
            CHECK(number < PLACES_MAX);
            d->spot.places[number++] = r->id;
        }
    }
}

void rowstore_bound(tx *t, pawl_op *op)
{
    row *r = rows_get(t->db, ROW_BOUND, 0, name_of(t, op->u.bound.scope, op->u.bound.name, op->u.bound.key));
    int was = rowtx_read(t, r)->bound.most;
    op->u.bound.more = false;
    op->result = was > 0 ? PAWL_OP_UPDATED : PAWL_OP_DONE;
    if (was == op->u.bound.most) op->result = was > 0 ? PAWL_OP_EXISTING : PAWL_OP_NOT_FOUND;
    if (op->u.bound.only_move) op->result = PAWL_OP_EXISTING;
    if (op->result == PAWL_OP_EXISTING || op->result == PAWL_OP_NOT_FOUND) return;
    rowtx_write(t, r)->bound.most = op->u.bound.most;
    rowstore_of(t)->limits_version++;
    list_each(link, &t->db->tables[ROW_SPOT]) {
        row *s = container_of(link, row, link);
        if (is_of(&s->data, op) && rowtx_holds(t, s)) count_leases(t, s);
    }
}

/* ---- what is committed, for the judge --------------------------------------------------------------------------------------- */

static bool same_key(const row_data *a, const row_data *b)
{
    pawl_bytes x = a->task.body->rate_key, y = b->task.body->rate_key;
    return x.len == y.len && (x.len == 0 || memcmp(x.data, y.data, x.len) == 0);
}

/* How many of its lane want the place that it is blocked for, and are not: ready, or blocked at a spot that is asked before. */
static int standing(const rows *db, const row_data *d)
{
    const row *spot = d->task.blocked;
    int count = 0;
    list_each(link, &db->tables[ROW_TASK]) {
        const row_data *o = &container_of(link, row, link)->data;
        if (o->task.state != PAWL_PENDING || !same_lane(o, d)) continue;
        if (spot->data.spot.scope == PAWL_SCOPE_KEYS && !same_key(o, d)) continue;
        count += !o->task.blocked || o->task.blocked->data.spot.scope < spot->data.spot.scope;
    }
    return count;
}

pawl_id rowstore_stranded(rowstore *rs, const char **spot)
{
    tx reader = {.db = &rs->db, .wire = &(wire){.arena = arena_new(alloc_default(), 0)}};
    pawl_id found = 0;
    list_init(&reader.locks);
    list_each(link, &rs->db.tables[ROW_TASK]) {
        const row *r = container_of(link, row, link);
        const row *s = r->data.task.blocked;
        if (!s || found) continue;
        int most = spot_most(&reader, s), free = most > 0 ? most - taken(&s->data) : INT32_MAX;
        if (free <= 0 || free <= standing(&rs->db, &r->data)) continue;
        found = r->id;
        *spot = s->name;
    }
    arena_free(reader.wire->arena);
    return found;
}

void rowstore_places(rowstore *rs, void (*see)(struct judge *j, const pawl_place_info *info), struct judge *j)
{
    tx reader = {.db = &rs->db, .wire = &(wire){.arena = arena_new(alloc_default(), 0)}};
    list_init(&reader.locks);
    list_each(link, &rs->db.tables[ROW_SPOT]) {
        row *s = container_of(link, row, link);
        if (!s->data.spot.name) continue;
        pawl_place_info info = {.scope = s->data.spot.scope, .name = s->data.spot.name, .key = s->data.spot.key};
        info.most = spot_most(&reader, s);
        info.taken = taken(&s->data);
        list_each(task, &rs->db.tables[ROW_TASK]) info.blocked += container_of(task, row, link)->data.task.blocked == s;
        see(j, &info);
    }
    arena_free(reader.wire->arena);
}
