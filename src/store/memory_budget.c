/* Rate limits in the memory store: limits, and budgets with the tasks that have slots of theirs. store/budget.h has the rules. */
#include "store/memory.h"
#include <stdlib.h>

static uint64_t hash_of(const char *type, pawl_bytes key)
{
    return hash_bytes(key.data, key.len, hash_bytes(type, strlen(type), 5));
}

static bool same(const mem_scope *s, const char *type, pawl_bytes key)
{
    return s->key.len == key.len && (key.len == 0 || memcmp(s->key.data, key.data, key.len) == 0) && strcmp(s->type, type) == 0;
}

static mem_scope *scope_find(const map *all, const char *type, pawl_bytes key)
{
    for (map_node *node = map_get(all, hash_of(type, key)); node; node = map_next(node)) {
        mem_scope *s = container_of(node, mem_scope, by_hash);
        if (same(s, type, key)) return s;
    }
    return NULL;
}

/* A block of this size that begins with a mem_scope; in the map and the list. */
static mem_scope *scope_new(mem *m, map *all, list *in_order, size_t size, const char *type, pawl_bytes key)
{
    mem_scope *s = alloc_new(&m->allocator, size + strlen(type) + 1 + key.len + 1);
    if (!s) return NULL;
    char *at = (char *)s + size;
    s->type = strcpy(at, type);
    at += strlen(type) + 1;
    s->key = (pawl_bytes){key.len ? memcpy(at, key.data, key.len) : at, key.len};
    map_put(all, &s->by_hash, hash_of(type, s->key));
    list_append(in_order, &s->link);
    return s;
}

static void scope_free(mem *m, map *all, mem_scope *s)
{
    map_remove(all, &s->by_hash);
    list_remove(&s->link);
    alloc_free(&m->allocator, s);
}

/* ---- limits ------------------------------------------------------------------------------------------------------ */

static mem_limit *limit_at(const mem *m, const char *type, pawl_bytes key)
{
    mem_scope *s = scope_find(&m->limits, type, key);
    return s ? container_of(s, mem_limit, scope) : NULL;
}

mem_limit *mem_limit_get(mem *m, const char *type, pawl_bytes key)
{
    char room[LIMIT_KEY_ROOM];
    key = limit_key(key, room);
    mem_limit *l = limit_at(m, type, key);
    if (l) return l;
    if (key.len > 0 && !mem_limit_get(m, type, (pawl_bytes){0})) return NULL;
    mem_scope *s = scope_new(m, &m->limits, &m->limit_list, sizeof(mem_limit), type, key);
    return s ? container_of(s, mem_limit, scope) : NULL;
}

bool mem_limited(const mem *m, const char *type)
{
    if (m->limits_version == 0) return false;
    const mem_limit *l = limit_at(m, type, (pawl_bytes){0});
    return l && (l->in_force || l->overrides > 0);
}

const mem_limit *mem_limit_of(const mem *m, const char *type, pawl_bytes key)
{
    char room[LIMIT_KEY_ROOM];
    if (key.len == 0 || !mem_limited(m, type)) return NULL;
    const mem_limit *l = limit_at(m, type, limit_key(key, room));
    if (!l || !l->stored) l = limit_at(m, type, (pawl_bytes){0});
    return l->in_force ? l : NULL;
}

pawl_op_result mem_limit_put(mem *m, mem_limit *l, const pawl_op *op, int64_t now_us)
{
    bool had = l->stored, is_own = l->scope.key.len > 0;
    pawl_rate rate = l->rate;
    bool paused = l->paused;
    pawl_op_result result = limit_change(op, had, &rate, &paused);
    if (result != PAWL_OP_DONE && result != PAWL_OP_UPDATED) return result;
    l->rate = rate;
    l->paused = paused;
    l->stored = l->rate.permits > 0 || l->paused;
    if (l->rate.permits == 0) rate = (pawl_rate){.permits = 1, .period_us = PAWL_SECOND}; /* paused: any */
    l->in_force = l->stored && budget_limit_make(&rate, l->paused, &l->limit);
    l->changed_us = now_us;
    m->limits_version++;
    if (is_own) limit_at(m, l->scope.type, (pawl_bytes){0})->overrides += l->stored - had;
    return result;
}

/* ---- budgets ------------------------------------------------------------------------------------------------------- */

static mem_budget *budget_find(const mem *m, const char *type, pawl_bytes key)
{
    char room[LIMIT_KEY_ROOM];
    mem_scope *s = scope_find(&m->budgets, type, limit_key(key, room));
    return s ? container_of(s, mem_budget, scope) : NULL;
}

mem_budget *mem_budget_get(mem *m, const char *type, pawl_bytes key)
{
    char room[LIMIT_KEY_ROOM];
    mem_budget *g = budget_find(m, type, key);
    if (g) return g;
    mem_scope *s = scope_new(m, &m->budgets, &m->budget_list, sizeof(mem_budget), type, limit_key(key, room));
    if (!s) return NULL;
    g = container_of(s, mem_budget, scope);
    list_init(&g->slotted);
    return g;
}

budget_answer mem_budget_take(mem *m, mem_budget *g, const mem_limit *l, int64_t now_us, const budget_ask *ask, budget_slot *out)
{
    list_remove(&g->scope.link);
    list_append(&m->budget_list, &g->scope.link); /* by last use */
    return budget_take(&g->row, &l->limit, now_us, ask, out);
}

void mem_slot_set(mem_budget *g, mem_task *t, const budget_slot *slot)
{
    t->run_at_us = slot->slot_us;
    t->slot_epoch = slot->epoch;
    t->budget = g;
    list_append(&g->slotted, &t->slot);
}

void mem_slot_clear(mem_task *t)
{
    if (t->budget) list_remove(&t->slot);
    t->budget = NULL;
}

bool mem_slot_good(const mem_task *t) { return t->budget && (t->budget->row.epoch == t->slot_epoch || CANARY(EPOCH_IGNORED)); }

int64_t mem_slot_until(const mem *m, const mem_task *t)
{
    const mem_limit *l = mem_slot_good(t) ? mem_limit_of(m, t->body->type, t->budget->scope.key) : NULL;
    return l && !l->paused ? t->run_at_us + l->limit.r.late_us : 0;
}

#define QUEUES_COUNTED 20000

int64_t mem_throttled(mem *m)
{
    int64_t count = 0;
    list_each(link, &m->queue_list) container_of(link, mem_queue, link)->throttled = 0;
    list_each(link, &m->budget_list) {
        const mem_budget *g = container_of(link, mem_budget, scope.link);
        list_each(task, &g->slotted) {
            if (++count > QUEUES_COUNTED) continue;
            container_of(task, mem_task, slot)->kind->queue->throttled++;
        }
        if (count >= 100000) break;
    }
    return count < 100000 ? count : 100000;
}

bool mem_spent(const mem *m, const mem_task *t, int64_t now_us)
{
    const mem_limit *l = mem_limit_of(m, t->body->type, t->body->rate_key);
    if (!l || mem_slot_until(m, t) > now_us || (l->rate.retries_free && t->failures > 0)) return false;
    const mem_budget *g = budget_find(m, t->body->type, t->body->rate_key);
    return budget_spent(g ? &g->row : NULL, &l->limit, now_us);
}

void mem_slot_give_back(mem *m, mem_task *t, int64_t now_us)
{
    pawl_bytes key = t->budget ? t->budget->scope.key : t->body->rate_key;
    const mem_limit *l = mem_limit_of(m, t->body->type, key);
    mem_budget *g = l ? budget_find(m, t->body->type, key) : NULL;
    if (g) budget_give_back(&g->row, &l->limit, now_us, t->id, mem_slot_good(t) ? t->run_at_us : 0);
    mem_slot_clear(t);
}

/* Tasks with slots of the old limit ask anew, as many as `most`. true: there are others. */
bool mem_limit_move(mem *m, const mem_limit *l, int most, int64_t now_us)
{
    list_each(link, &m->budget_list) {
        mem_budget *g = container_of(link, mem_budget, scope.link);
        if (strcmp(g->scope.type, l->scope.type) != 0) continue;
        if (l->scope.key.len > 0 && !same(&g->scope, l->scope.type, l->scope.key)) continue;
        while (!list_empty(&g->slotted)) {
            if (most-- <= 0) return true;
            mem_task *t = container_of(g->slotted.next, mem_task, slot);
            mem_slot_clear(t);
            mem_unplace(m, t);
            if (t->run_at_us > now_us) t->run_at_us = now_us;
            mem_place(m, t);
        }
    }
    return false;
}

int mem_budget_sweep(mem *m, int most, int64_t now_us)
{
    int removed = 0;
    list_each(link, &m->budget_list) {
        mem_budget *g = container_of(link, mem_budget, scope.link);
        if (removed == most || !budget_idle(&g->row, now_us) || !list_empty(&g->slotted)) break;
        scope_free(m, &m->budgets, &g->scope);
        removed++;
    }
    return removed;
}

void mem_budgets_done(mem *m)
{
    list *node;
    while ((node = list_pop(&m->budget_list))) alloc_free(&m->allocator, container_of(node, mem_scope, link));
    while ((node = list_pop(&m->limit_list))) alloc_free(&m->allocator, container_of(node, mem_scope, link));
    map_done(&m->budgets);
    map_done(&m->limits);
}

/* ---- looking ----------------------------------------------------------------------------------------------------- */

typedef struct looking {
    const pawl_limit_filter *filter;
    const char *after_type; /* NULL: from the first on */
    pawl_bytes after_key;
    const mem_scope **found;
    size_t count;
} looking;

static bool wanted(const looking *look, const mem_scope *s)
{
    const pawl_limit_filter *f = look->filter;
    if (look->after_type && budget_order(s->type, s->key, look->after_type, look->after_key) <= 0) return false;
    if (f->type && strcmp(f->type, s->type) != 0) return false;
    return f->key.len == 0 || (s->key.len == f->key.len && memcmp(s->key.data, f->key.data, f->key.len) == 0);
}

static bool waited_for(const mem *m, const mem_scope *s)
{
    const mem_budget *g = s->key.len ? budget_find(m, s->type, s->key) : NULL;
    return g && !list_empty(&g->slotted);
}

/* Limits that are stored, and budgets without one of their own whose type has one. */
static void see(looking *look, const mem *m, const mem_scope *s, bool counts)
{
    if (counts && wanted(look, s) && (!look->filter->waiting || waited_for(m, s))) look->found[look->count++] = s;
}

static int by_scope(const void *a, const void *b)
{
    const mem_scope *x = *(const mem_scope *const *)a, *y = *(const mem_scope *const *)b;
    return budget_order(x->type, x->key, y->type, y->key);
}

static void describe(const mem *m, const mem_scope *s, int64_t now_us, pawl_limit_info *info)
{
    const mem_limit *own = limit_at(m, s->type, s->key), *l = own && own->stored ? own : mem_limit_of(m, s->type, s->key);
    mem_budget *g = s->key.len ? budget_find(m, s->type, s->key) : NULL;
    CHECK(l);
    *info = (pawl_limit_info){.type = s->type, .key = s->key, .rate = l->rate, .own = l == own, .paused = l->paused};
    if (s->key.len > 0) budget_tell(g ? &g->row : NULL, &l->limit, now_us, info);
    else info->left = l->limit.r.burst;
    if (!g) return;
    list_each(link, &g->slotted) info->waiting += container_of(link, mem_task, slot)->run_at_us > now_us;
}

pawl_status mem_limits(mem *m, const pawl_query *query, int64_t now_us, pawl_arena *arena, pawl_limits **out)
{
    looking look = {.filter = query->limit_filter};
    size_t most = m->limits.count + m->budgets.count, room = (size_t)query->limit_filter->limit;
    const char *cursor = query->limit_filter->cursor;
    pawl_limits *l = *out = pawl_arena_alloc(arena, sizeof *l);
    look.found = pawl_arena_alloc(arena, (most + 1) * sizeof *look.found);
    if (cursor && !budget_cursor_read(arena, cursor, &look.after_type, &look.after_key)) return PAWL_INVALID;
    if (!l || !look.found) return PAWL_NO_MEMORY;
    list_each(link, &m->limit_list) {
        const mem_limit *at = container_of(link, mem_limit, scope.link);
        see(&look, m, &at->scope, at->stored);
    }
    list_each(link, &m->budget_list) {
        const mem_scope *s = container_of(link, mem_scope, link);
        const mem_limit *own = limit_at(m, s->type, s->key);
        see(&look, m, s, !(own && own->stored) && mem_limit_of(m, s->type, s->key));
    }
    qsort(look.found, look.count, sizeof *look.found, by_scope);
    l->count = look.count < room ? look.count : room;
    pawl_limit_info *infos = pawl_arena_alloc(arena, (l->count + 1) * sizeof *infos);
    if (!infos) return PAWL_NO_MEMORY;
    for (size_t i = 0; i < l->count; i++) {
        describe(m, look.found[i], now_us, &infos[i]);
        infos[i].type = pawl_arena_str(arena, infos[i].type);
        infos[i].key.data = pawl_arena_bytes(arena, infos[i].key.data, infos[i].key.len);
        if (!infos[i].type || !infos[i].key.data) return PAWL_NO_MEMORY;
    }
    l->limits = infos;
    l->now_us = now_us;
    if (look.count > room && !(l->next = budget_cursor(arena, infos[room - 1].type, infos[room - 1].key))) return PAWL_NO_MEMORY;
    return PAWL_OK;
}
