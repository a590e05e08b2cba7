/* Queues, kinds (a type in a queue) and levels (a priority of a kind). Queues and kinds stay once they were named; a level
 * goes with its last task, but the one asked for last stays at hand: most tasks are like the one before.
 */
#include "store/memory.h"

static bool due_before(const tree_node *a, const tree_node *b)
{
    const mem_task *x = task_of_order(a), *y = task_of_order(b);
    return x->run_at_us != y->run_at_us ? x->run_at_us < y->run_at_us : x->id < y->id;
}

static bool priority_before(const tree_node *a, const tree_node *b) { return level_of(a)->priority < level_of(b)->priority; }

static bool due_by(const tree_node *node, const void *key) { return task_of_order(node)->run_at_us <= *(const int64_t *)key; }

tree_node *mem_first_after(const tree *ready, int64_t at_us) { return tree_from(ready, due_by, &at_us); }

mem_queue *mem_queue_find(const mem *m, const char *name)
{
    map_node *node = map_get(&m->queues, hash_bytes(name, strlen(name), 0));
    for (; node; node = map_next(node)) {
        mem_queue *q = container_of(node, mem_queue, by_name);
        if (strcmp(q->name, name) == 0) return q;
    }
    return NULL;
}

mem_queue *mem_queue_get(mem *m, const char *name)
{
    mem_queue *q = mem_queue_find(m, name);
    if (q) return q;
    size_t size = strlen(name) + 1;
    if (!(q = alloc_new(&m->allocator, sizeof *q + size))) return NULL;
    memcpy(q->name, name, size);
    list_init(&q->kinds);
    list_init(&q->shares);
    list_append(&m->queue_list, &q->link);
    map_put(&m->queues, &q->by_name, hash_bytes(name, size - 1, 0));
    return q;
}

static uint64_t kind_hash(const mem_queue *q, const char *type) { return hash_bytes(type, strlen(type), (uint64_t)(uintptr_t)q); }

static mem_kind *kind_find(const mem *m, const mem_queue *q, const char *type, const mem_share *share)
{
    for (map_node *node = map_get(&m->kinds, kind_hash(q, type)); node; node = map_next(node)) {
        mem_kind *k = container_of(node, mem_kind, by_name);
        if (k->queue == q && k->share == share && strcmp(k->type, type) == 0) return k;
    }
    return NULL;
}

mem_kind *mem_kind_find(const mem *m, const mem_queue *q, const char *type) { return kind_find(m, q, type, NULL); }

static mem_kind *kind_get(mem *m, const char *queue, const char *type, const char *tenant)
{
    mem_queue *q = mem_queue_get(m, queue);
    mem_share *share = q && q->fair ? mem_share_get(m, q, tenant) : NULL;
    mem_kind *k = q ? kind_find(m, q, type, share) : NULL;
    if (k || !q || (q->fair && !share)) return k;
    size_t size = strlen(type) + 1;
    if (!(k = alloc_new(&m->allocator, sizeof *k + size))) return NULL;
    memcpy(k->type, type, size);
    k->queue = q;
    k->share = share;
    k->number = ++m->last_kind;
    tree_init(&k->levels, priority_before);
    list_append(&q->kinds, &k->link);
    map_put(&m->kinds, &k->by_name, kind_hash(q, type));
    return k;
}

static bool more_urgent(const tree_node *node, const void *key) { return level_of(node)->priority < *(const int *)key; }

static mem_level *level_of_kind(mem *m, mem_kind *k, int priority)
{
    tree_node *node = tree_from(&k->levels, more_urgent, &priority);
    if (node && level_of(node)->priority == priority) return level_of(node);
    if (!pool_reserve(&m->levels, &m->allocator, 1)) return NULL;
    mem_level *level = pool_get(&m->levels);
    level->kind = k;
    level->priority = priority;
    for (int i = 0; i < SUSPICIONS; i++) tree_init(&level->ready[i], due_before);
    tree_insert(&k->levels, &level->by_priority);
    return level;
}

static void level_free_unused(mem *m, mem_level *level)
{
    if (!level || level->users > 0 || level == m->latest) return;
    tree_remove(&level->kind->levels, &level->by_priority);
    pool_put(&m->levels, level);
}

/* Bodies that were packed together have the very same names. */
static bool level_is(const mem *m, const mem_level *level, const pawl_body *body)
{
    const pawl_body *latest = m->latest_body;
    if (level->priority != body->priority) return false;
    if (latest && latest->type == body->type && latest->queue == body->queue) return true;
    return strcmp(level->kind->type, body->type) == 0 && strcmp(level->kind->queue->name, body->queue) == 0;
}

mem_level *mem_level_get(mem *m, const pawl_body *body)
{
    mem_level *level = m->latest;
    if (!level || !level_is(m, level, body)) {
        mem_kind *k = kind_get(m, body->queue, body->type, body->tenant);
        if (!k || !(level = level_of_kind(m, k, body->priority))) return NULL;
        mem_level *before = m->latest;
        m->latest = k->share ? NULL : level; /* the next one may be of another tenant */
        level_free_unused(m, before);
    }
    m->latest_body = body;
    level->users++;
    return level;
}

void mem_level_drop(mem *m, mem_level *level)
{
    level->users--;
    level_free_unused(m, level);
}
