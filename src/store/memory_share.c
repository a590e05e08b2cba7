/* Queues whose tenants take turns, and looking at concurrency limits, in the memory store.
 *
 * In such a queue every tenant has kinds of its own, so that a claim sees the first task of each (memory_claim.c). Tasks that were stored
 * before are together as if they had no tenant's name, and have their turn like the others.
 */
#include "store/memory.h"
#include <stdio.h>
#include <stdlib.h>

mem_share *mem_share_get(mem *m, mem_queue *q, const char *tenant)
{
    int number = 1;
    list_each(link, &q->shares) {
        mem_share *s = container_of(link, mem_share, link);
        if (strcmp(s->tenant, tenant) == 0) return s;
        number++;
    }
    size_t size = strlen(tenant) + 1;
    mem_share *s = alloc_new(&m->allocator, sizeof *s + size);
    if (!s) return NULL;
    memcpy(s->tenant, tenant, size);
    s->number = number;
    list_append(&q->shares, &s->link);
    return s;
}

pawl_op_result mem_share_put(mem *m, mem_queue *q, mem_share *s, const pawl_op *op)
{
    int most = op->u.bound.most > 0 ? op->u.bound.most : 0, before = s ? s->weight : q->fair;
    if (!s && most > 1) most = 1;
    if (op->u.bound.only_move) return PAWL_OP_EXISTING;
    if (before == most) return most ? PAWL_OP_EXISTING : PAWL_OP_NOT_FOUND;
    if (s) s->weight = most;
    else q->fair = most;
    if (m->latest && m->latest->kind->queue == q) { /* what comes next may be of another kind */
        mem_level *latest = m->latest;
        m->latest = NULL;
        latest->users++;
        mem_level_drop(m, latest);
    }
    m->limits_version++;
    return before ? PAWL_OP_UPDATED : PAWL_OP_DONE;
}

void mem_shares_done(mem *m, mem_queue *q)
{
    list *node;
    while ((node = list_pop(&q->shares))) alloc_free(&m->allocator, container_of(node, mem_share, link));
}

/* ---- looking --------------------------------------------------------------------------------------------------------- */

typedef struct looking {
    mem *m;
    const pawl_place_filter *filter;
    const char *after; /* scope digit and name; NULL: from the first on */
    pawl_bytes after_key;
    const mem_spot *where; /* the task's; NULL: any */
    pawl_place_info *found;
    size_t count;
} looking;

static int order_of(const pawl_place_info *i, const char *name, int scope, pawl_bytes key)
{
    if ((int)i->scope != scope) return (int)i->scope < scope ? -1 : 1;
    return budget_order(i->name, i->key, name, key);
}

static bool wanted(const looking *l, const pawl_place_info *i)
{
    const pawl_place_filter *f = l->filter;
    if (l->after && order_of(i, l->after + 1, l->after[0] - '0', l->after_key) <= 0) return false;
    if ((f->scope && f->scope != i->scope) || (f->name && strcmp(f->name, i->name) != 0) || (f->blocked && i->blocked == 0))
        return false;
    if (f->task && !l->where) return false;
    if (l->where &&
        (l->where->id.scope != (int)i->scope || budget_order(l->where->id.name, l->where->id.key, i->name, i->key) != 0))
        return false;
    return f->key.len == 0 || (f->key.len == i->key.len && memcmp(f->key.data, i->key.data, i->key.len) == 0);
}

static void see(looking *l, pawl_place_info info)
{
    if (wanted(l, &info)) l->found[l->count++] = info;
}

static void see_spot(looking *l, const mem_spot *s)
{
    bool own = false;
    const mem_bound *b = mem_bound_of(l->m, &s->id, &own);
    pawl_place_info info = {
        .scope = (pawl_scope)s->id.scope, .name = s->id.name, .key = s->id.key, .own = own, .taken = s->taken};
    info.most = b ? b->most : 0;
    info.ordered = b && b->ordered;
    info.blocked = s->blocked_count;
    if (s->taken) info.holder = (pawl_id)container_of(s->holds.next, mem_hold, link)->by_task.key;
    see(l, info);
}

static void see_queue(looking *l, const mem_queue *q)
{
    if (!q->fair) return;
    see(l, (pawl_place_info){.scope = PAWL_SCOPE_TENANTS, .name = q->name, .most = 1, .own = true});
    list_each(link, &q->shares) {
        const mem_share *s = container_of(link, mem_share, link);
        if (s->weight == 0) continue;
        see(l, (pawl_place_info){
                   .scope = PAWL_SCOPE_TENANTS, .name = q->name, .key = pawl_str(s->tenant), .most = s->weight, .own = true});
    }
}

static size_t most_found(const mem *m)
{
    size_t most = m->bounds.count + m->spots.count + m->queues.count + 1;
    list_each(link, &m->queue_list) {
        list_each(share, &container_of(link, mem_queue, link)->shares) most++;
    }
    return most;
}

static int by_order(const void *a, const void *b)
{
    const pawl_place_info *x = a, *y = b;
    return order_of(x, y->name, (int)y->scope, y->key);
}

static bool copy(pawl_arena *arena, pawl_place_info *info)
{
    info->name = pawl_arena_str(arena, info->name);
    info->key.data = pawl_arena_bytes(arena, info->key.data, info->key.len);
    return info->name && info->key.data;
}

pawl_status mem_places(mem *m, const pawl_query *query, pawl_arena *arena, pawl_places **out)
{
    const pawl_place_filter *f = query->place_filter;
    looking l = {.m = m, .filter = f};
    size_t room = (size_t)f->limit;
    pawl_places *p = *out = pawl_arena_alloc(arena, sizeof *p);
    l.found = pawl_arena_alloc(arena, most_found(m) * sizeof *l.found);
    if (f->cursor && !budget_cursor_read(arena, f->cursor, &l.after, &l.after_key)) return PAWL_INVALID;
    if (!p || !l.found) return PAWL_NO_MEMORY;
    const mem_task *t = f->task ? mem_find_live(m, f->task) : NULL;
    if (t && t->blocked) l.where = t->spot;
    list_each(link, &m->bound_list) {
        const mem_bound *b = container_of(link, mem_bound, id.link);
        if (b->most == 0 || mem_spot_at(m, &b->id)) continue; /* told with its spot */
        see(&l, (pawl_place_info){.scope = (pawl_scope)b->id.scope,
                                  .name = b->id.name,
                                  .key = b->id.key,
                                  .most = b->most,
                                  .ordered = b->ordered,
                                  .own = true});
    }
    list_each(link, &m->spot_list) see_spot(&l, container_of(link, mem_spot, id.link));
    list_each(link, &m->queue_list) see_queue(&l, container_of(link, mem_queue, link));
    qsort(l.found, l.count, sizeof *l.found, by_order);
    p->count = l.count < room ? l.count : room;
    p->places = l.found;
    for (size_t i = 0; i < p->count; i++)
        if (!copy(arena, &l.found[i])) return PAWL_NO_MEMORY;
    if (l.count <= room) return PAWL_OK;
    char name[256];
    snprintf(name, sizeof name, "%d%s", (int)l.found[room - 1].scope, l.found[room - 1].name);
    p->next = budget_cursor(arena, name, l.found[room - 1].key);
    return p->next ? PAWL_OK : PAWL_NO_MEMORY;
}
