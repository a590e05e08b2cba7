/* Concurrency limits in the memory store: bounds, spots with those who hold places and those who are blocked.
 *
 * A spot exists while somebody holds a place of it or is blocked there. Its blocked tasks stand in one tree, by lane (kind and suspicion),
 * priority, time and id, or, if its bound is ordered, by id. Spots that have room, or may have, are touched; once a call has
 * carried out everything, places are offered at all of those (mem_places_offer).
 *
 * Under the store's one lock a count is exact, so places have no numbers here.
 */
#include "store/memory.h"
#include <stdlib.h>

typedef struct want {
    mem_bound *bound;
    mem_spot *spot; /* NULL: there is none yet */
} want;

#define WANTS 3 /* queue, type, key */

static mem_bound *bound_of_node(mem_named *n) { return n ? container_of(n, mem_bound, id) : NULL; }
static mem_spot *spot_of_node(mem_named *n) { return n ? container_of(n, mem_spot, id) : NULL; }
static mem_task *blocked_task(const tree_node *node) { return container_of(node, mem_task, place.order); }

/* ---- names --------------------------------------------------------------------------------------------------------- */

static uint64_t hash_of(int scope, const char *name, pawl_bytes key)
{
    return hash_bytes(key.data, key.len, hash_bytes(name, strlen(name), (uint64_t)scope));
}

static mem_named *named_find(const map *all, int scope, const char *name, pawl_bytes key)
{
    for (map_node *node = map_get(all, hash_of(scope, name, key)); node; node = map_next(node)) {
        mem_named *n = container_of(node, mem_named, by_hash);
        if (n->scope == scope && n->key.len == key.len && (key.len == 0 || memcmp(n->key.data, key.data, key.len) == 0) &&
            strcmp(n->name, name) == 0)
            return n;
    }
    return NULL;
}

/* A block of this size that begins with a mem_named; in the map and the list. */
static mem_named *named_new(mem *m, map *all, list *in_order, size_t size, int scope, const char *name, pawl_bytes key)
{
    mem_named *n = alloc_new(&m->allocator, size + strlen(name) + 1 + key.len + 1);
    if (!n) return NULL;
    char *at = (char *)n + size;
    n->scope = scope;
    n->name = strcpy(at, name);
    at += strlen(name) + 1;
    n->key = (pawl_bytes){key.len ? memcpy(at, key.data, key.len) : at, key.len};
    map_put(all, &n->by_hash, hash_of(scope, name, n->key));
    list_append(in_order, &n->link);
    return n;
}

/* ---- bounds -------------------------------------------------------------------------------------------------------- */

static mem_bound *bound_at(const mem *m, int scope, const char *name, pawl_bytes key)
{
    return bound_of_node(named_find(&m->bounds, scope, name, key));
}

static mem_bound *in_force(mem_bound *b) { return b && b->most > 0 ? b : NULL; }

/* Of a type's key: its own, or that of all. */
static mem_bound *bound_of(const mem *m, int scope, const char *name, pawl_bytes key)
{
    mem_bound *b = in_force(bound_at(m, scope, name, key));
    return b || key.len == 0 ? b : in_force(bound_at(m, scope, name, (pawl_bytes){0}));
}

static mem_bound *bound_of_spot(const mem *m, const mem_spot *s) { return bound_of(m, s->id.scope, s->id.name, s->id.key); }

const mem_bound *mem_bound_of(const mem *m, const mem_named *spot, bool *own)
{
    *own = in_force(bound_at(m, spot->scope, spot->name, spot->key)) != NULL;
    return bound_of(m, spot->scope, spot->name, spot->key);
}

mem_bound *mem_bound_get(mem *m, int scope, const char *name, pawl_bytes key)
{
    char room[LIMIT_KEY_ROOM];
    if (scope == PAWL_SCOPE_KEYS) key = limit_key(key, room);
    mem_bound *b = bound_at(m, scope, name, key);
    if (b) return b;
    if (key.len > 0 && !mem_bound_get(m, scope, name, (pawl_bytes){0})) return NULL;
    return bound_of_node(named_new(m, &m->bounds, &m->bound_list, sizeof *b, scope, name, key));
}

/* Tasks of the kind may need places. */
bool mem_bounded(const mem *m, const mem_kind *k)
{
    if (m->bounds_in_force == 0) return false;
    const mem_bound *keys = bound_at(m, PAWL_SCOPE_KEYS, k->type, (pawl_bytes){0});
    return bound_of(m, PAWL_SCOPE_QUEUE, k->queue->name, (pawl_bytes){0}) ||
           bound_of(m, PAWL_SCOPE_TYPE, k->type, (pawl_bytes){0}) || (keys && (keys->most > 0 || keys->overrides > 0));
}

/* ---- spots ----------------------------------------------------------------------------------------------------------- */

static int class_of(const mem_task *t) { return t->suspect ? 1 + t->solo : 0; }

static bool in_lane_order(const tree_node *a, const tree_node *b)
{
    const mem_task *x = blocked_task(a), *y = blocked_task(b);
    if (x->kind != y->kind) return x->kind->number < y->kind->number;
    if (class_of(x) != class_of(y)) return class_of(x) < class_of(y);
    if (x->level->priority != y->level->priority) return x->level->priority < y->level->priority;
    return x->run_at_us != y->run_at_us ? x->run_at_us < y->run_at_us : x->id < y->id;
}

static bool in_line(const tree_node *a, const tree_node *b) { return blocked_task(a)->id < blocked_task(b)->id; }

/* Not below: the first that stands in a later lane than the given task's. */
static bool up_to_lane(const tree_node *node, const void *key)
{
    const mem_task *x = blocked_task(node), *y = key;
    if (x->kind != y->kind) return x->kind->number < y->kind->number;
    return class_of(x) <= class_of(y);
}

static mem_spot *spot_find(const mem *m, int scope, const char *name, pawl_bytes key)
{
    return spot_of_node(named_find(&m->spots, scope, name, key));
}

const mem_spot *mem_spot_at(const mem *m, const mem_named *of) { return spot_find(m, of->scope, of->name, of->key); }

static void touch(mem *m, mem_spot *s)
{
    if (s && !s->touched) {
        s->touched = true;
        list_append(&m->touched_spots, &s->touch);
    }
}

static mem_spot *spot_get(mem *m, int scope, const char *name, pawl_bytes key)
{
    mem_spot *s = spot_find(m, scope, name, key);
    if (s) return s;
    if (!(s = spot_of_node(named_new(m, &m->spots, &m->spot_list, sizeof *s, scope, name, key)))) return NULL;
    list_init(&s->holds);
    tree_init(&s->blocked, in_lane_order);
    touch(m, s); /* it goes if nobody uses it */
    return s;
}

static void spot_free_unused(mem *m, mem_spot *s)
{
    if (s->taken > 0 || s->blocked_count > 0) return;
    map_remove(&m->spots, &s->id.by_hash);
    list_remove(&s->id.link);
    alloc_free(&m->allocator, s);
}

/* In which order its blocked tasks stand follows from its bound. */
static void spot_order(mem_spot *s, bool ordered)
{
    tree old = s->blocked;
    if (s->blocked.before == (ordered ? in_line : in_lane_order)) return;
    tree_init(&s->blocked, ordered ? in_line : in_lane_order);
    while (old.first) {
        tree_node *node = old.first;
        tree_remove(&old, node);
        tree_insert(&s->blocked, node);
    }
}

/* What the task needs places of. The key of an ordered bound comes first: its line is joined whatever else is full. */
static int wants_of(mem *m, const pawl_body *body, want out[WANTS])
{
    char room[LIMIT_KEY_ROOM];
    const struct {
        int scope;
        const char *name;
        pawl_bytes key;
    } all[WANTS] = {{PAWL_SCOPE_QUEUE, body->queue, {0}},
                    {PAWL_SCOPE_TYPE, body->type, {0}},
                    {PAWL_SCOPE_KEYS, body->type, limit_key(body->rate_key, room)}};
    int count = 0;
    for (int i = 0; i < WANTS && m->bounds_in_force > 0; i++) {
        if (all[i].scope == PAWL_SCOPE_KEYS && all[i].key.len == 0) continue;
        mem_bound *b = bound_of(m, all[i].scope, all[i].name, all[i].key);
        if (!b) continue;
        want w = {b, spot_find(m, all[i].scope, all[i].name, all[i].key)};
        int at = b->ordered ? 0 : count;
        if (b->ordered) memmove(out + 1, out, (size_t)count * sizeof *out);
        out[at] = w;
        count++;
    }
    return count;
}

bool mem_ordered(const mem *m, const pawl_body *body)
{
    char room[LIMIT_KEY_ROOM];
    if (m->bounds_in_force == 0 || body->rate_key.len == 0) return false;
    const mem_bound *b = bound_of(m, PAWL_SCOPE_KEYS, body->type, limit_key(body->rate_key, room));
    return b && b->ordered;
}

/* With those of bounds that the batch under way may put. */
bool mem_spots_make(mem *m, const pawl_body *body)
{
    char room[LIMIT_KEY_ROOM];
    pawl_bytes key = body->rate_key.len ? limit_key(body->rate_key, room) : (pawl_bytes){0};
    if (m->bounds_in_force == 0 && m->bounding == 0) return true;
    for (int scope = PAWL_SCOPE_QUEUE; scope <= PAWL_SCOPE_KEYS; scope++) {
        const char *name = scope == PAWL_SCOPE_QUEUE ? body->queue : body->type;
        pawl_bytes of = scope == PAWL_SCOPE_KEYS ? key : (pawl_bytes){0};
        bool needed = m->bounding > 0 || bound_of(m, scope, name, of);
        if (scope == PAWL_SCOPE_KEYS && key.len == 0) continue;
        if (needed && !spot_get(m, scope, name, of)) return false;
    }
    return true;
}

/* ---- places ------------------------------------------------------------------------------------------------------------ */

static mem_hold *hold_of(map_node *node) { return node ? container_of(node, mem_hold, by_task) : NULL; }
static mem_hold *first_hold(const mem *m, const mem_task *t) { return hold_of(map_get(&m->held_places, (uint64_t)t->id)); }
static mem_hold *next_hold(mem_hold *h) { return hold_of(map_next(&h->by_task)); }

static bool holds(const mem *m, const mem_task *t, const mem_spot *s)
{
    mem_hold *h = t->placed ? first_hold(m, t) : NULL;
    while (h && h->spot != s) h = next_hold(h);
    return h;
}

static void take(mem *m, mem_task *t, mem_spot *s)
{
    mem_hold *h = pool_get(&m->holds);
    CHECK(s); /* mem_spots_make was here */
    h->spot = s;
    map_put(&m->held_places, &h->by_task, (uint64_t)t->id);
    list_append(&s->holds, &h->link);
    s->taken++;
    t->placed = true;
}

static void give_up(mem *m, mem_task *t, mem_hold *h)
{
    mem_spot *s = h->spot;
    s->taken--;
    map_remove(&m->held_places, &h->by_task);
    list_remove(&h->link);
    pool_put(&m->holds, h);
    t->placed = first_hold(m, t) != NULL;
    touch(m, s);
}

static bool has_room(const mem *m, const mem_task *t, const want *w)
{
    const mem_spot *s = w->spot;
    if (!s || holds(m, t, s)) return true;
    if (w->bound->ordered) return s->taken == 0 && (!s->blocked.first || blocked_task(s->blocked.first)->id > t->id);
    return s->taken < w->bound->most + CANARY(PLACE_TOO_MANY);
}

static void block(mem *m, mem_task *t, const want *w, int64_t now_us)
{
    if (t->budget) mem_slot_give_back(m, t, now_us);
    spot_order(w->spot, w->bound->ordered);
    t->blocked = true;
    t->spot = w->spot;
}

/* A claim has chosen the task, which stands nowhere: places, or it is blocked. */
mem_admission mem_admit(mem *m, mem_task *t, int64_t now_us)
{
    want w[WANTS];
    if (m->bounds_in_force == 0) return MEM_ADMITTED;
    if (!mem_spots_make(m, t->body) || !pool_reserve(&m->holds, &m->allocator, 2 * WANTS)) return MEM_NO_MEMORY;
    int count = wants_of(m, t->body, w);
    for (int i = 0; i < count; i++) {
        if (has_room(m, t, &w[i])) continue;
        for (int k = 0; k < count && w[i].bound->id.scope == PAWL_SCOPE_KEYS; k++) touch(m, w[k].spot);
        block(m, t, &w[i], now_us);
        return MEM_BLOCKED;
    }
    for (int i = 0; i < count; i++)
        if (!holds(m, t, w[i].spot)) take(m, t, w[i].spot);
    return MEM_ADMITTED;
}

/* A task that is about to be stored as pending and stands nowhere: blocked at once, or in its line. */
void mem_line_up(mem *m, mem_task *t, int64_t now_us)
{
    want w[WANTS];
    for (int i = 0, count = wants_of(m, t->body, w); i < count && !t->blocked; i++) {
        bool room = has_room(m, t, &w[i]);
        if (!room && (w[i].bound->ordered || t->run_at_us <= now_us)) block(m, t, &w[i], now_us);
        else if (w[i].bound->ordered && !holds(m, t, w[i].spot)) take(m, t, w[i].spot);
    }
}

static void touch_wanted(mem *m, const mem_task *t)
{
    want w[WANTS];
    for (int i = 0, count = wants_of(m, t->body, w); i < count; i++) touch(m, w[i].spot);
}

/* Several have a place only if they were leased when the bound was put. */
static bool is_kept(const mem *m, const mem_spot *s)
{
    const mem_bound *b = bound_of_spot(m, s);
    return b && b->ordered && s->taken == 1 && !CANARY(ORDER_LET_GO);
}

/* Its lease is over: it keeps what an ordered bound gave it until it ends. */
void mem_places_leave(mem *m, mem_task *t, bool ends)
{
    for (mem_hold *h = t->placed ? first_hold(m, t) : NULL, *next; h; h = next) {
        next = next_hold(h);
        if (ends || !is_kept(m, h->spot)) give_up(m, t, h);
    }
}

/* A pending task, in no tree any more, ends or gets another body: others may want what it waited for. */
void mem_places_withdraw(mem *m, mem_task *t)
{
    if (t->blocked) t->spot = NULL;
    t->blocked = false;
    if (t->placed) mem_places_leave(m, t, true);
    if (m->bounds_in_force > 0) touch_wanted(m, t);
}

static void unblock(mem *m, mem_task *t)
{
    mem_unplace(m, t);
    t->blocked = false;
    t->spot = NULL;
    mem_place(m, t);
}

/* At most so many; how many it were. */
static int offer(mem *m, mem_spot *s, int most)
{
    const mem_bound *b = bound_of_spot(m, s);
    int count = 0;
    if (CANARY(PLACE_UNOFFERED)) return 0;
    spot_order(s, b && b->ordered);
    if (b && b->ordered) {
        if (s->taken > 0 || !s->blocked.first || most == 0) return 0;
        mem_task *t = blocked_task(s->blocked.first);
        unblock(m, t);
        take(m, t, s);
        return 1;
    }
    int64_t free = b ? (int64_t)b->most - s->taken : INT64_MAX, offered = 0;
    for (tree_node *node = s->blocked.first, *next; node && free > 0 && count < most; node = next, count++) {
        mem_task *t = blocked_task(node);
        bool enough = ++offered >= free;
        next = enough ? tree_from(&s->blocked, up_to_lane, t) : tree_next(node);
        if (enough || (next && !up_to_lane(next, t))) offered = 0; /* another lane follows */
        unblock(m, t);
    }
    return count;
}

bool mem_places_offer(mem *m)
{
    bool any = false;
    list *node;
    while ((node = list_pop(&m->touched_spots))) {
        mem_spot *s = container_of(node, mem_spot, touch);
        s->touched = false;
        any |= offer(m, s, INT32_MAX) > 0;
        spot_free_unused(m, s);
    }
    return any;
}

/* ---- BOUND --------------------------------------------------------------------------------------------------------------- */

static bool covers(const mem *m, const mem_bound *b, const pawl_body *body)
{
    char room[LIMIT_KEY_ROOM];
    if (b->id.scope == PAWL_SCOPE_QUEUE) return strcmp(body->queue, b->id.name) == 0;
    if (strcmp(body->type, b->id.name) != 0) return false;
    if (b->id.scope == PAWL_SCOPE_TYPE) return true;
    pawl_bytes key = limit_key(body->rate_key, room);
    if (b->id.key.len > 0) return key.len == b->id.key.len && memcmp(key.data, b->id.key.data, key.len) == 0;
    return key.len > 0 && !in_force(bound_at(m, PAWL_SCOPE_KEYS, body->type, key));
}

static mem_task *next_lease(mem *m, mem_node **n, list **at)
{
    for (;;) {
        if (*n && *at == &(*n)->leased) *at = (*n)->asked.next; /* the second list follows the first */
        if (*n && *at != &(*n)->asked) {
            mem_task *t = container_of(*at, mem_task, place.lease);
            *at = (*at)->next;
            return t;
        }
        list *link = *n ? (*n)->holding.next : m->holding.next;
        if (link == &m->holding) return NULL;
        *n = container_of(link, mem_node, holding);
        *at = (*n)->leased.next;
    }
}

static mem_spot *spot_for(mem *m, const mem_bound *b, const pawl_body *body, bool make)
{
    char room[LIMIT_KEY_ROOM];
    pawl_bytes key = b->id.scope == PAWL_SCOPE_KEYS ? limit_key(body->rate_key, room) : (pawl_bytes){0};
    return make ? spot_get(m, b->id.scope, b->id.name, key) : spot_find(m, b->id.scope, b->id.name, key);
}

/* Spots for the leases that a bound finds. *count grows by how many these are. */
bool mem_bound_prepare(mem *m, const mem_bound *b, size_t *count)
{
    mem_node *n = NULL;
    list *at = NULL;
    for (mem_task *t; (t = next_lease(m, &n, &at)); ++*count)
        if (covers(m, b, t->body) && !spot_for(m, b, t->body, true)) return false;
    return true;
}

static void adopt_leases(mem *m, const mem_bound *b)
{
    mem_node *n = NULL;
    list *at = NULL;
    for (mem_task *t; (t = next_lease(m, &n, &at));) {
        mem_spot *s = covers(m, b, t->body) ? spot_for(m, b, t->body, false) : NULL;
        if (s && !holds(m, t, s)) take(m, t, s);
    }
}

static bool of_bound(const mem_bound *b, const mem_spot *s)
{
    if (s->id.scope != b->id.scope || strcmp(s->id.name, b->id.name) != 0) return false;
    return b->id.key.len == 0 || (b->id.key.len == s->id.key.len && memcmp(b->id.key.data, s->id.key.data, s->id.key.len) == 0);
}

/* Who waits for an attempt keeps its place only if that is ordered. */
static void drop_pending_holders(mem *m, mem_spot *s)
{
    list_each(link, &s->holds) {
        mem_hold *h = container_of(link, mem_hold, link);
        mem_task *t = mem_find_live(m, (pawl_id)h->by_task.key);
        if (t->state != PAWL_LEASED) give_up(m, t, h);
    }
}

/* Offers what is free now to as many as `most`. true: there are others. */
static bool settle(mem *m, const mem_bound *b, int most)
{
    list_each(link, &m->spot_list) {
        mem_spot *s = spot_of_node(container_of(link, mem_named, link));
        if (!of_bound(b, s)) continue;
        if (!is_kept(m, s)) drop_pending_holders(m, s);
        most -= offer(m, s, most);
        if (most <= 0) return true;
    }
    return false;
}

pawl_op_result mem_bound_put(mem *m, mem_bound *b, pawl_op *op)
{
    bool had = b->most > 0, has = op->u.bound.most > 0;
    bool same = had == has && (!had || (b->most == op->u.bound.most && b->ordered == op->u.bound.ordered));
    if (same || op->u.bound.only_move) {
        op->u.bound.more = op->u.bound.move > 0 && settle(m, b, op->u.bound.move);
        return has || op->u.bound.only_move ? PAWL_OP_EXISTING : PAWL_OP_NOT_FOUND;
    }
    b->most = op->u.bound.most;
    b->ordered = has && op->u.bound.ordered;
    m->bounds_in_force += has - had;
    if (b->id.key.len > 0) bound_at(m, b->id.scope, b->id.name, (pawl_bytes){0})->overrides += has - had;
    m->limits_version++;
    if (has) adopt_leases(m, b);
    op->u.bound.more = op->u.bound.move > 0 && settle(m, b, op->u.bound.move);
    return had ? PAWL_OP_UPDATED : PAWL_OP_DONE;
}

void mem_places_done(mem *m)
{
    list *node;
    while ((node = list_pop(&m->spot_list))) alloc_free(&m->allocator, container_of(node, mem_named, link));
    while ((node = list_pop(&m->bound_list))) alloc_free(&m->allocator, container_of(node, mem_named, link));
    map_done(&m->bounds);
    map_done(&m->spots);
    map_done(&m->held_places);
}
