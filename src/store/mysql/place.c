/* Concurrency limits: the spots that a transaction may need, locked, and their places.
 *
 * Spots are locked after budgets and before keys and tasks, all of them by one statement and in their order. It finds out in the server which
 * they are, for a FINISH knows no more than the id of its task, and makes those that there are none of. Once the tasks are locked as well it
 * is asked where they stand; if that is anywhere else, because something changed meanwhile, the transaction is tried again. Whoever holds a
 * spot may read its places and its line, and change them: nobody else does.
 *
 * Leases that end are asked for only if the handle has noted, as it claimed them, that they may have places: all others go as if there were
 * no limits. What is noted is a guess. Of a task that is locked the queue and the type are known, and only where those have bounds, or had,
 * there are places of it; if it was not asked for (it was leased before the bound came, or the note was overwritten) the transaction is
 * tried again and asks for all.
 *
 * A place whose task is neither leased nor keeps an order belongs to a lease that a program's own transaction has ended: those do not wait for
 * spots, nor hold them. Whoever reads the places frees it: the node itself as it asks what became of its task, or a sweep.
 */
#include "store/mysql/place.h"
#include "core/limit.h"
#include <mysqld_error.h>
#include <stdatomic.h>
#include <stdio.h>

#define AT_ONCE 200

bool my_bounded(const limit_types *l, int32_t queue_id, int32_t type_id)
{
    return l->bounds_count && (my_bound_on(l, PAWL_SCOPE_QUEUE, queue_id) || my_bound_on(l, PAWL_SCOPE_TYPE, type_id) ||
                               my_bound_on(l, PAWL_SCOPE_KEYS, type_id));
}

bool my_ever_bounded(const limit_types *l, int32_t queue_id, int32_t type_id)
{
    return l->bounds_count && (my_bound_known(l, PAWL_SCOPE_QUEUE, queue_id) || my_bound_known(l, PAWL_SCOPE_TYPE, type_id) ||
                               my_bound_known(l, PAWL_SCOPE_KEYS, type_id));
}

/* ---- who may have places ------------------------------------------------------------------------------------------------- */

static _Atomic pawl_id *memory_of(my_store *s, pawl_id id) { return &s->holders[hash_bytes(&id, sizeof id, 0) % HOLDERS]; }

void my_holder_note(my_store *s, pawl_id id) { atomic_store_explicit(memory_of(s, id), id, memory_order_relaxed); }

static bool is_noted(my_store *s, pawl_id id) { return atomic_load_explicit(memory_of(s, id), memory_order_relaxed) == id; }

/* ---- locking ------------------------------------------------------------------------------------------------------------- */

void my_spot_source_init(spot_source *src, work *w)
{
    buf *all[] = {&src->known, &src->which, &src->asked, &src->gone, &src->keys};
    src->count = 0;
    for (int i = 0; i < 5; i++) buf_init(all[i], w->s->allocator, 16 << 20);
}

void my_spot_source_done(spot_source *src)
{
    buf *all[] = {&src->known, &src->which, &src->asked, &src->gone, &src->keys};
    for (int i = 0; i < 5; i++) buf_done(all[i]);
}

static void add_which(const conn *c, buf *b, pawl_scope scope, int32_t name_id, pawl_bytes key)
{
    buf_fmt(b, "%s(p.scope = %d AND p.name_id = %d AND p.spot_key = ", b->len ? " OR " : "", (int)scope, (int)name_id);
    lit_bytes(c, b, key.len ? key : (pawl_bytes){"", 0});
    buf_char(b, ')');
}

void my_spot_want(const conn *c, spot_source *src, pawl_scope scope, int32_t name_id, pawl_bytes key)
{
    buf_fmt(&src->known, ",(%d,%d,", (int)scope, (int)name_id);
    lit_bytes(c, &src->known, key.len ? key : (pawl_bytes){"", 0});
    buf_char(&src->known, ')');
    add_which(c, &src->which, scope, name_id, key);
    src->count++;
}

void my_spot_wants(const work *w, spot_source *src, int32_t queue_id, int32_t type_id, pawl_bytes any_key)
{
    char room[LIMIT_KEY_ROOM];
    const pawl_bytes none = {"", 0};
    if (my_bound_on(&w->limits, PAWL_SCOPE_QUEUE, queue_id)) my_spot_want(w->c, src, PAWL_SCOPE_QUEUE, queue_id, none);
    if (my_bound_on(&w->limits, PAWL_SCOPE_TYPE, type_id)) my_spot_want(w->c, src, PAWL_SCOPE_TYPE, type_id, none);
    if (any_key.len && my_bound_on(&w->limits, PAWL_SCOPE_KEYS, type_id))
        my_spot_want(w->c, src, PAWL_SCOPE_KEYS, type_id, limit_key(any_key, room));
}

static void want_id(buf *b, spot_source *src, pawl_id id)
{
    buf_fmt(b, b == &src->asked ? ",%lld" : ",(%lld)", (long long)id);
    src->count++;
}

/* Which they are is known, or will be the same once they are locked; so their places can be read with the same message. */
static void lock_simply(work *w, const spot_source *src)
{
    if (src->known.failed || src->which.failed || src->asked.failed) w->no_memory = true;
    my_put_raw(w->c, buf_text(&src->known), src->known.len);
    if (src->asked.len) my_put_raw(w->c, buf_text(&src->asked), src->asked.len);
    my_add(w->c, src->asked.len ? SQL_spots_ask : SQL_spots_make);
    if (src->which.len) {
        my_put_raw(w->c, buf_text(&src->which), src->which.len);
        my_add(w->c, SQL_places);
    }
    if (src->asked.len) {
        my_put_raw(w->c, buf_text(&src->asked), src->asked.len);
        my_add(w->c, SQL_places_beside);
    }
}

void my_spots_lock(work *w, spot_source *src)
{
    if (src->count == 0) return;
    if (src->gone.len == 0 && src->keys.len == 0) {
        lock_simply(w, src);
        return;
    }
    if (src->keys.len) buf_char(&src->keys, ')');
    else buf_str(&src->keys, "FALSE");
    buf *all[] = {&src->known, &src->asked, &src->gone, &src->keys};
    for (int i = 0; i < 4; i++) {
        if (all[i]->failed) w->no_memory = true;
        my_put_raw(w->c, buf_text(all[i]), all[i]->len);
    }
    my_add(w->c, SQL_spots_lock);
}

/* Whoever holds its key is of the same kind, as a rule. */
static void want_of_insert(const work *w, spot_source *src, const flat_op *o)
{
    const pawl_body *b = o->op->u.insert.body;
    my_spot_wants(w, src, o->queue_id, o->type_id, b->rate_key);
    if (!b->key || (!w->f->stand && !my_ever_bounded(&w->limits, o->queue_id, o->type_id))) return;
    buf_str(&src->keys, src->keys.len ? " OR (k.task_key = " : "((k.task_key = ");
    lit_bytes(w->c, &src->keys, (pawl_bytes){b->key, strlen(b->key)});
    buf_fmt(&src->keys, " AND k.tenant_id = %d AND k.old = 0)", (int)o->tenant_id);
    src->count++;
}

static bool ends_lease(const pawl_op *op)
{
    return op->kind == PAWL_OP_FINISH || op->kind == PAWL_OP_RELEASE || op->kind == PAWL_OP_RESERVE;
}

void my_places_ask(work *w)
{
    spot_source src;
    if (w->borrowed || !w->limits.bounds_count) return;
    my_spot_source_init(&src, w);
    for (int i = 0; i < w->f->count; i++) {
        flat_op *o = &w->f->ops[i];
        if (o->refused) continue;
        o->stands = o->op->kind == PAWL_OP_CANCEL || (ends_lease(o->op) && (w->f->stand || is_noted(w->s, o->op->id)));
        if (o->op->kind == PAWL_OP_INSERT) want_of_insert(w, &src, o);
        else if (o->stands) want_id(o->op->kind == PAWL_OP_CANCEL ? &src.gone : &src.asked, &src, o->op->id);
    }
    my_spots_lock(w, &src);
    my_spot_source_done(&src);
}

void my_places_ask_tasks(work *w, const pawl_id *ids, int count)
{
    spot_source src;
    if (!w->limits.bounds_count) return;
    my_spot_source_init(&src, w);
    for (int i = 0; i < count; i++) want_id(&src.asked, &src, ids[i]);
    my_spots_lock(w, &src);
    my_spot_source_done(&src);
}

void my_places_verify(work *w, const pawl_id *ids, int count)
{
    if (!w->borrowed && w->limits.bounds_count) my_add_ids(w->c, SQL_stands, ids, count);
}

/* ---- what is locked ------------------------------------------------------------------------------------------------------ */

static uint64_t hash_of(pawl_scope scope, int32_t name_id, pawl_bytes key)
{
    return hash_bytes(key.data ? key.data : "", key.len, (uint64_t)name_id << 3 | (uint64_t)scope);
}

spot *my_spot(const work *w, pawl_scope scope, int32_t name_id, pawl_bytes key)
{
    for (map_node *node = map_get(&w->spots, hash_of(scope, name_id, key)); node; node = map_next(node)) {
        spot *s = (spot *)node;
        if (s->scope == scope && s->name_id == name_id && s->key.len == key.len &&
            (key.len == 0 || memcmp(s->key.data, key.data, key.len) == 0))
            return s;
    }
    return NULL;
}

static spot *spot_in(const work *w, const answer *a, int row)
{
    return my_spot(w, (pawl_scope)get_int(a, row, 0), (int32_t)get_int(a, row, 1), get_bytes(a, row, 2));
}

static bound_said read_bound(const answer *a, int row, int column)
{
    const char *text = get_text(a, row, column);
    char *end = NULL;
    if (!text) return (bound_said){0};
    long most = strtol(text, &end, 10);
    return (bound_said){(int)most, most > 0 && strtol(end, NULL, 10) != 0};
}

static void learn(work *w, const answer *a, int row)
{
    if (spot_in(w, a, row)) return;
    pawl_bytes key = get_bytes(a, row, 2);
    spot *s = my_work_alloc(w, sizeof *s);
    const char *copy = s ? pawl_arena_bytes(w->arena, key.len ? key.data : "", key.len) : NULL;
    if (!copy) {
        w->no_memory = true;
        return;
    }
    *s = (spot){.scope = (pawl_scope)get_int(a, row, 0), .name_id = (int32_t)get_int(a, row, 1), .key = {copy, key.len}};
    s->own = read_bound(a, row, 3);
    s->all = read_bound(a, row, 4);
    map_put(&w->spots, &s->node, hash_of(s->scope, s->name_id, s->key));
}

/* The next try asks for all. */
static void does_not_stand_still(work *w)
{
    if (w->f) w->f->stand = true;
    my_conn_note(w->c, PAWL_UNAVAILABLE, ER_LOCK_DEADLOCK, "a task that needs places does not stand still");
    w->failed = true;
}

bool my_places_missed(work *w)
{
    if (w->borrowed || !w->limits.bounds_count || w->f->stand) return false;
    for (int i = 0; i < w->f->count; i++) {
        const flat_op *o = &w->f->ops[i];
        if (o->refused || o->stands || !ends_lease(o->op)) continue;
        const task_row *row =
            my_task(w, o->op->id); /* NULL: a program's own transaction may have ended it, and left its places */
        if (row && !my_ever_bounded(&w->limits, row->queue_id, row->type_id)) continue;
        does_not_stand_still(w);
        return true;
    }
    return false;
}

int my_spots_of(work *w, int32_t queue_id, int32_t type_id, pawl_bytes any_key, spot *out[SPOTS_MAX])
{
    char room[LIMIT_KEY_ROOM];
    int count = 0;
    for (pawl_scope scope = PAWL_SCOPE_QUEUE; scope <= PAWL_SCOPE_KEYS; scope++) {
        bool keys = scope == PAWL_SCOPE_KEYS;
        int32_t name_id = scope == PAWL_SCOPE_QUEUE ? queue_id : type_id;
        if (!my_bound_on(&w->limits, scope, name_id) || (keys && any_key.len == 0)) continue;
        spot *s = my_spot(w, scope, name_id, keys ? limit_key(any_key, room) : (pawl_bytes){"", 0});
        if (!s) {
            does_not_stand_still(w);
            return 0;
        }
        bound_said b = spot_bound(s);
        if (b.most == 0) continue;
        out[count++] = s;
        if (!b.ordered) continue;
        memmove(out + 1, out, (size_t)(count - 1) * sizeof *out); /* its line is joined whatever else is full */
        out[0] = s;
    }
    return count;
}

/* ---- places -------------------------------------------------------------------------------------------------------------- */

static void place_add(work *w, spot *s, place p)
{
    if (s->count == s->room) {
        int room = s->room ? 2 * s->room : 4;
        place *grown = my_work_alloc(w, (size_t)room * sizeof *grown);
        if (!grown) return;
        if (s->count) memcpy(grown, s->places, (size_t)s->count * sizeof *grown);
        s->places = grown;
        s->room = room;
    }
    int at = s->count++;
    for (; at > 0 && s->places[at - 1].number > p.number; at--) s->places[at] = s->places[at - 1];
    s->places[at] = p;
}

void my_place_take(work *w, spot *s, pawl_id id, bool leased)
{
    int number = 1;
    for (int i = 0; i < s->count && s->places[i].number == number; i++) number++;
    place_add(w, s, (place){number, id, leased, true});
}

void my_place_drop(work *w, spot *s, int at)
{
    if (!s->places[at].fresh) {
        buf *b = &w->tables[TABLE_PLACES_GONE].text;
        my_rows_begin(w, TABLE_PLACES_GONE);
        buf_fmt(b, "%d,%d,", (int)s->scope, (int)s->name_id);
        lit_bytes(w->c, b, s->key);
        buf_fmt(b, ",%d", s->places[at].number);
        my_rows_end(w, TABLE_PLACES_GONE);
    }
    memmove(s->places + at, s->places + at + 1, (size_t)(s->count - at - 1) * sizeof *s->places);
    s->count--;
    s->touched = true;
}

bool my_spot_has(const spot *s, pawl_id id)
{
    for (int i = 0; i < s->count; i++)
        if (s->places[i].id == id) return true;
    return false;
}

bool my_spot_room(const spot *s, pawl_id id)
{
    bound_said b = spot_bound(s);
    if (my_spot_has(s, id)) return true;
    if (!b.ordered) return s->count + s->planned < b.most;
    return s->count + s->planned == 0 && (s->first == 0 || s->first > id);
}

static void ask_places(work *w, buf *which)
{
    if (which->failed) w->no_memory = true;
    if (which->len == 0) return;
    my_put_raw(w->c, buf_text(which), which->len);
    my_add(w->c, SQL_places);
    buf_clear(which);
}

static void ask_first(work *w, const spot *s)
{
    my_put_int(w->c, s->scope);
    my_put_int(w->c, s->name_id);
    my_put_bytes(w->c, s->key);
    my_add(w->c, SQL_spot_first);
}

/* Only whoever keeps an order holds a place without a lease. */
static void drop_stale(work *w, spot *s, pawl_id id, bool live)
{
    bool kept = spot_bound(s).ordered && live;
    for (int i = s->count - 1; i >= 0 && !kept; i--)
        if (s->places[i].id == id && !s->places[i].leased) my_place_drop(w, s, i);
}

/* Of those that keep an order more must be known: see my_places_load. */
static void read_places(work *w, sql_name which)
{
    EACH_ANSWER(a, w->c, which)
    for (int i = 0; i < a->rows && !w->no_memory; i++) {
        spot *s = spot_in(w, a, i);
        if (!s || s->known || (spot_bound(s).ordered && !s->filling && !s->first_known)) continue;
        s->filling = true;
        int before = s->count;
        place_add(w, s, (place){(int)get_int(a, i, 3), get_int(a, i, 4), get_int(a, i, 5) != 0, false});
        if (s->count > before) drop_stale(w, s, get_int(a, i, 4), get_int(a, i, 6) != 0);
    }
    map_each(node, &w->spots) {
        spot *s = (spot *)node;
        s->known |= s->filling;
        s->filling = false;
    }
}

bool my_spots_take_in(work *w)
{
    static const sql_name locks[] = {SQL_spots_make, SQL_spots_ask, SQL_spots_lock, SQL_spots_of};
    for (size_t k = 0; k < sizeof locks / sizeof *locks; k++) EACH_ANSWER(a, w->c, locks[k])
    for (int i = 0; i < a->rows && !w->no_memory; i++) learn(w, a, i);
    read_places(w, SQL_places);
    read_places(w, SQL_places_beside);
    EACH_ANSWER(a, w->c, SQL_spots_make)
    for (int i = 0; i < a->rows && !w->no_memory; i++) spot_in(w, a, i)->known |= !spot_bound(spot_in(w, a, i)).ordered;
    if (w->no_memory) return true;
    EACH_ANSWER(a, w->c, SQL_stands)
    for (int i = 0; i < a->rows; i++) {
        if (spot_in(w, a, i)) continue;
        does_not_stand_still(w);
        return false;
    }
    return true;
}

static void read_loaded(work *w)
{
    EACH_ANSWER(a, w->c, SQL_spot_first)
    {
        spot *s = a->rows > 0 ? spot_in(w, a, 0) : NULL;
        if (!s) continue;
        s->first = get_int(a, 0, 3);
        s->first_known = true;
    }
    read_places(w, SQL_places);
}

bool my_places_load(work *w)
{
    int count = 0;
    buf which;
    buf_init(&which, w->s->allocator, 1 << 20);
    my_script(w->c);
    map_each(node, &w->spots) {
        const spot *s = (const spot *)node;
        if (s->known) continue;
        add_which(w->c, &which, s->scope, s->name_id, s->key);
        if (spot_bound(s).ordered) ask_first(w, s);
        if (++count % AT_ONCE == 0) ask_places(w, &which);
    }
    ask_places(w, &which);
    buf_done(&which);
    if (w->no_memory) my_conn_no_memory(w->c);
    if (w->no_memory || (count > 0 && !my_send(w->c, CALL_READS))) return false;
    if (count > 0) read_loaded(w);
    map_each(node, &w->spots) ((spot *)node)->known = true;
    return true;
}

void my_block(work *w, const spot *s, const task_row *row, int32_t tenant_id)
{
    buf *b = &w->tables[TABLE_BLOCKED].text;
    int32_t tenant = my_bound_on(&w->limits, PAWL_SCOPE_TENANTS, row->queue_id) ? tenant_id : 0;
    my_rows_begin(w, TABLE_BLOCKED);
    buf_fmt(b, "%lld,%d,%d,", (long long)row->id, (int)s->scope, (int)s->name_id);
    lit_bytes(w->c, b, s->key);
    buf_fmt(b, ",'%08x%08x%x%08x',%d,%lld", (unsigned)row->queue_id, (unsigned)row->type_id, (unsigned)row->class,
            (unsigned)tenant, row->priority, (long long)row->run_at_us);
    my_rows_end(w, TABLE_BLOCKED);
}
