/* Concurrency limits: never more leases of a spot than places, none left behind, order where it is promised.
 *
 * The model knows which tasks are leased, so it counts them itself; what the store says about holders and blocked tasks must agree.
 */
#include "judge.h"
#include <string.h>

typedef struct scope_of { /* one limit that a task is under */
    int scope, name, key;
} scope_of;

static const item *item_of(const sim *s, const mtask *t) { return &s->items[s->asks[t->ask].item]; }

/* -1: none that the store knows. */
static int key_of(const item *i) { return i->told ? -1 : i->rate_key; }

static bool has_key(const sim *s, const mtask *t) { return key_of(item_of(s, t)) >= 0; }

static mbound *bound_at(judge *j, int scope, int name, int key) { return &j->bounds[scope][name][key + 1]; }

/* In force; NULL: none. */
static const mbound *bound_of(judge *j, scope_of at)
{
    const mbound *b = bound_at(j, at.scope, at.name, at.key);
    if (b->most == 0 && at.key >= 0) b = bound_at(j, at.scope, at.name, -1);
    return b->most > 0 ? b : NULL;
}

static scope_of scope_of_task(const sim *s, const mtask *t, int scope)
{
    const item *i = item_of(s, t);
    return (scope_of){scope, scope == PAWL_SCOPE_QUEUE ? t->queue : i->type, scope == PAWL_SCOPE_KEYS ? key_of(i) : -1};
}

static bool is_under(const sim *s, const mtask *t, scope_of at)
{
    scope_of own = scope_of_task(s, t, at.scope);
    return own.name == at.name && own.key == at.key && !(at.scope == PAWL_SCOPE_KEYS && at.key < 0);
}

static int count(judge *j, scope_of at, pawl_state state)
{
    int n = 0;
    list_each(link, &j->tasks) {
        const mtask *t = container_of(link, mtask, link);
        n += t->state == state && is_under(j->sim, t, at);
    }
    return n;
}

/* Tasks of its key run one after the other. */
bool judge_in_line(judge *j, const mtask *t)
{
    const mbound *b = j->sim->plan.places && has_key(j->sim, t) ? bound_of(j, scope_of_task(j->sim, t, PAWL_SCOPE_KEYS)) : NULL;
    return b && b->ordered;
}

/* ---- order ------------------------------------------------------------------------------------------------------------------ */

void judge_place_stored(judge *j, mtask *t)
{
    if (!j->sim->plan.places) return;
    const mbound *b = has_key(j->sim, t) ? bound_of(j, scope_of_task(j->sim, t, PAWL_SCOPE_KEYS)) : NULL;
    t->lined = b && b->ordered && t->state != PAWL_WAITING ? ++j->lined : 0; /* who waited for parents lines up at a claim */
    t->holds = false;
}

/* It keeps its place until it ends, unless others have one, too: those that were leased when the limit was put. */
void judge_place_left(judge *j, mtask *t)
{
    scope_of at = scope_of_task(j->sim, t, PAWL_SCOPE_KEYS);
    t->holds = !pawl_state_terminal(t->state);
    list_each(link, &j->tasks) {
        const mtask *u = container_of(link, mtask, link);
        if (u != t && u->holds && is_under(j->sim, u, at)) t->holds = false;
    }
    if (!t->holds) t->lined = 0;
}

static void check_order(judge *j, mtask *t)
{
    sim *s = j->sim;
    scope_of at = scope_of_task(s, t, PAWL_SCOPE_KEYS);
    const mbound *b = has_key(s, t) ? bound_of(j, at) : NULL;
    if (!b || !b->ordered) return;
    list_each(link, &j->tasks) {
        const mtask *u = container_of(link, mtask, link);
        if (u == t || pawl_state_terminal(u->state) || !is_under(s, u, at)) continue;
        if (u->holds) broken(s, "order", "%s is leased before %s has ended", trace_id(s, t->id), trace_id(s, u->id));
        if (!t->holds && t->lined && u->lined && u->lined < t->lined && u->id < t->id)
            broken(s, "order", "%s is leased, but %s came before it", trace_id(s, t->id), trace_id(s, u->id));
    }
    if (!t->holds) s->stats[STAT_ORDERED]++;
    t->holds = true;
}

/* ---- places ----------------------------------------------------------------------------------------------------------------- */

void judge_place_granted(judge *j, mtask *t)
{
    sim *s = j->sim;
    if (!s->plan.places) return;
    for (int scope = PAWL_SCOPE_QUEUE; scope <= PAWL_SCOPE_KEYS; scope++) {
        if (scope == PAWL_SCOPE_KEYS && !has_key(s, t)) continue;
        scope_of at = scope_of_task(s, t, scope);
        const mbound *b = bound_of(j, at);
        int leased = b ? count(j, at, PAWL_LEASED) : 0;
        if (b && leased > b->most)
            broken(s, "no more than there are places", "%s makes %d leases of scope %d, %d, %d; there are %d places",
                   trace_id(s, t->id), leased, scope, at.name, at.key, b->most);
        s->stats[STAT_PLACES] += b != NULL;
    }
    check_order(j, t);
}

static int index_of(const char *const names[], int n, const char *name, size_t len)
{
    for (int i = 0; i < n; i++)
        if (strlen(names[i]) == len && memcmp(names[i], name, len) == 0) return i;
    return -1;
}

static scope_of named(int scope, const char *name, pawl_bytes key)
{
    bool queue = scope == PAWL_SCOPE_QUEUE || scope == PAWL_SCOPE_TENANTS;
    bool tenant = scope == PAWL_SCOPE_TENANTS;
    return (scope_of){
        scope, index_of(queue ? queue_names : type_names, queue ? QUEUES : TYPES, name, strlen(name)),
        key.len == 0 ? -1 : index_of(tenant ? tenant_names : rate_key_names, tenant ? TENANTS : RATE_KEYS, key.data, key.len)};
}

/* Those that hold an ordered place are known anew: whoever is leased when it begins. */
static void order_changed(judge *j, scope_of at)
{
    list_each(link, &j->tasks) {
        mtask *t = container_of(link, mtask, link);
        scope_of own = scope_of_task(j->sim, t, PAWL_SCOPE_KEYS);
        if (own.key < 0 || own.name != at.name || (at.key >= 0 && own.key != at.key)) continue;
        const mbound *b = bound_of(j, own);
        t->lined = 0;
        t->holds = b && b->ordered && t->state == PAWL_LEASED;
    }
}

void judge_bound_put(judge *j, const pawl_op *op)
{
    sim *s = j->sim;
    scope_of at = named((int)op->u.bound.scope, op->u.bound.name, op->u.bound.key);
    mbound *b = bound_at(j, at.scope, at.name, at.key);
    NOTE(s, NULL, "bound %d, %d, %d: %d, ordered %d, result %d", at.scope, at.name, at.key, op->u.bound.most, op->u.bound.ordered,
         op->result);
    if (at.scope == PAWL_SCOPE_TENANTS) return;
    bool same = b->most == op->u.bound.most && (b->most == 0 || b->ordered == op->u.bound.ordered);
    pawl_op_result right = b->most > 0 ? PAWL_OP_UPDATED : PAWL_OP_DONE;
    if (same) right = b->most > 0 ? PAWL_OP_EXISTING : PAWL_OP_NOT_FOUND;
    if (op->result != right)
        broken(s, "the newest limit wins", "bound %d, %d, %d: answered %d, should be %d", at.scope, at.name, at.key, op->result,
               right);
    if (same) return;
    *b = (mbound){op->u.bound.most, op->u.bound.most > 0 && op->u.bound.ordered};
    s->stats[STAT_BOUND_CHANGES]++;
    if (at.scope == PAWL_SCOPE_KEYS) order_changed(j, at);
}

/* What the store says about a spot must agree with the model; and a free place is offered to somebody. */
static void check_spot(judge *j, const pawl_place_info *info)
{
    sim *s = j->sim;
    scope_of at = named((int)info->scope, info->name, info->key);
    const mbound *b = bound_of(j, at);
    int leased = count(j, at, PAWL_LEASED), pending = count(j, at, PAWL_PENDING);
    if (b && !b->ordered && info->taken != leased)
        broken(s, "places are freed", "scope %d, %d, %d: %lld are taken by %d leases", at.scope, at.name, at.key,
               (long long)info->taken, leased);
    if (info->most != (b ? b->most : 0)) broken(s, "the newest limit wins", "a spot says %d", info->most);
    s->stats[STAT_BLOCKED] += info->blocked;
    bool free = !b || info->taken < b->most;
    if (free && info->blocked >= pending && info->blocked > 0)
        broken(s, "nobody is blocked beside a free place", "scope %d, %d, %d: %lld of %d are taken, %lld are blocked", at.scope,
               at.name, at.key, (long long)info->taken, b ? b->most : 0, (long long)info->blocked);
}

void judge_places(judge *j)
{
    sim *s = j->sim;
    if (!s->plan.places) return;
    if (s->rows) {
        const char *spot = "";
        rowstore_places(s->rowstore, check_spot, j);
        pawl_id id = rowstore_stranded(s->rowstore, &spot);
        if (id)
            broken(s, "nobody is blocked beside a free place", "%s is, at %s, and nobody is ready for it", trace_id(s, id), spot);
        return;
    }
    pawl_place_filter filter = {.limit = 1000};
    pawl_query query = {.kind = PAWL_QUERY_PLACES, .place_filter = &filter};
    pawl_arena *arena = arena_new(alloc_default(), 0);
    if (s->observer->type->read(s->observer, &query, arena, NULL)) broken(s, "the contract", "places cannot be read");
    for (size_t i = 0; i < query.places->count; i++) {
        const pawl_place_info *info = &query.places->places[i];
        bool spot = info->scope != PAWL_SCOPE_TENANTS && (info->scope != PAWL_SCOPE_KEYS || info->key.len > 0);
        if (spot) check_spot(j, info);
    }
    arena_free(arena);
}
