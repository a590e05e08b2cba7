#include "runtime/told.h"
#include "core/limit.h"
#include <string.h>

static bool same(pawl_bytes a, pawl_bytes b) { return a.len == b.len && (a.len == 0 || memcmp(a.data, b.data, a.len) == 0); }

/* Of the next living node that tells something, from *at on. */
static bool next_told(const pawl_query *nodes, size_t *at, const pawl_node_info **node, told *out)
{
    for (; *at < nodes->nodes->count; ++*at) {
        *node = &nodes->nodes->nodes[*at];
        if (!(*node)->alive || !nodes->node_told[*at].data || !told_read(nodes->node_told[*at], out)) continue;
        ++*at;
        return true;
    }
    return false;
}

int64_t told_parked(const pawl_query *nodes)
{
    const pawl_node_info *node;
    int64_t parked = 0;
    told t;
    for (size_t at = 0; next_told(nodes, &at, &node, &t);) parked += t.parked;
    return parked;
}

/* ---- one task ------------------------------------------------------------------------------------------------------------ */

void told_find(const pawl_query *nodes, int64_t id, const pawl_info *task, told_of_task *out)
{
    char room[LIMIT_KEY_ROOM];
    pawl_bytes key = limit_key(task->rate_key, room);
    const pawl_node_info *node;
    told t;
    *out = (told_of_task){0};
    for (size_t at = 0; next_told(nodes, &at, &node, &t);) {
        if (node->id != id) continue;
        for (int i = 0; i < t.keys_count; i++)
            if (same(t.keys[i].key, key) && same(t.keys[i].type, pawl_str(task->type))) out->others = t.keys[i].parked;
        for (int i = 0; i < t.tasks_count; i++)
            if (t.tasks[i].id == task->id) *out = (told_of_task){true, t.tasks[i].slot_us, out->others - 1};
    }
}

/* ---- tasks as they are shown --------------------------------------------------------------------------------------------- */

#define ENTER_US PAWL_SECOND /* a look waits so long for the core */

static bool is_parked(const pawl_info *task) { return task->state == PAWL_LEASED && strcmp(task->display, "throttled") == 0; }

/* What the store calls running: the lease is all it knows of. */
static bool may_be_parked(const pawl_info *task)
{
    return task->state == PAWL_LEASED && task->rate_key.len > 0 && strcmp(task->display, "running") == 0;
}

static void show_parked(pawl_info *task, int64_t slot_us)
{
    task->display = "throttled";
    task->run_at_us = slot_us;
    task->started_us = 0;
}

/* Those that this engine holds. How many are left that others may. */
static size_t show_own(runtime *rt, pawl_info *const *tasks, size_t count)
{
    size_t others = 0;
    for (size_t i = 0; i < count; i++) others += may_be_parked(tasks[i]);
    if (others == 0 || !atomic_load(&rt->frozen) || loop_is_here(rt) || !loop_enter(rt, ENTER_US)) return others;
    for (size_t i = 0; i < count; i++) {
        core_task_state state = 0;
        if (!may_be_parked(tasks[i]) || !core_holds(rt->core, tasks[i]->id, &state)) continue;
        int64_t slot_us = core_slot(rt->core, tasks[i]->id);
        others--;
        if (state == CORE_PARKED && slot_us > 0) show_parked(tasks[i], slot_us);
    }
    loop_leave(rt);
    return others;
}

static void show_told(const pawl_query *nodes, pawl_info *const *tasks, size_t count, int64_t now_us)
{
    const pawl_node_info *node;
    told t;
    for (size_t at = 0; next_told(nodes, &at, &node, &t);)
        for (int k = 0; k < t.tasks_count; k++)
            for (size_t i = 0; i < count && t.tasks[k].slot_us > now_us; i++)
                if (tasks[i]->id == t.tasks[k].id && tasks[i]->node == node->id && may_be_parked(tasks[i]))
                    show_parked(tasks[i], t.tasks[k].slot_us);
}

void told_show(runtime *rt, pawl_info *const *tasks, size_t count)
{
    pawl_arena *arena = show_own(rt, tasks, count) > 0 ? arena_new(&rt->allocator, 0) : NULL;
    pawl_query nodes = {.kind = PAWL_QUERY_NODES};
    if (arena && !look_read(rt, &nodes, arena, NULL)) show_told(&nodes, tasks, count, runtime_now(rt).wall_us);
    arena_free(arena);
}

void told_show_page(runtime *rt, const pawl_filter *filter, pawl_page *page)
{
    pawl_info **tasks = (pawl_info **)page->tasks;
    size_t kept = 0;
    told_show(rt, tasks, page->count);
    if (!filter || !filter->state || strcmp(filter->state, "running") != 0) return;
    for (size_t i = 0; i < page->count; i++)
        if (!is_parked(tasks[i])) tasks[kept++] = tasks[i];
    page->count = kept;
}

/* ---- pages of limits ----------------------------------------------------------------------------------------------------- */

typedef struct page {
    runtime *rt;
    pawl_arena *arena;
    const pawl_limit_filter *filter;
    pawl_limits *limits;
    pawl_limit_info *rows;
    size_t room;
} page;

static void add_numbers(pawl_limit_info *row, const told_key *k)
{
    row->parked += k->parked;
    row->running += k->running;
    if (k->slot_us && (!row->parked_slot_us || k->slot_us < row->parked_slot_us)) row->parked_slot_us = k->slot_us;
}

static bool wanted(const page *p, const told_key *k)
{
    char room[LIMIT_KEY_ROOM];
    const pawl_limit_filter *f = p->filter;
    if (f->type && !same(k->type, pawl_str(f->type))) return false;
    if (f->key.len > 0 && !same(k->key, limit_key(f->key, room))) return false;
    return !f->waiting || k->parked > 0;
}

static pawl_limit_info *find_row(const page *p, const told_key *k)
{
    for (size_t i = 0; i < p->limits->count; i++) {
        pawl_limit_info *row = &p->rows[i];
        if (!row->node && same(row->key, k->key) && same(pawl_str(row->type), k->type)) return row;
    }
    return NULL;
}

/* What the node counts for itself has a row of its own for each node. */
static bool add_local(page *p, const told_key *k, const char *node)
{
    const char *type = pawl_arena_bytes(p->arena, k->type.data, k->type.len);
    const char *key = pawl_arena_bytes(p->arena, k->key.data, k->key.len);
    if (!type || !key) return false;
    pawl_limit_info row = {.type = type, .key = {key, k->key.len}, .left = (int)k->left, .node = node};
    add_numbers(&row, k);
    p->rows[p->limits->count++] = row;
    return true;
}

/* A shared key whose tasks all wait at nodes does not stand on a page of those that wait in the store. */
static bool add_shared(page *p, const told_key *k)
{
    const char *type = pawl_arena_bytes(p->arena, k->type.data, k->type.len);
    if (!type) return false;
    pawl_limit_filter one = {.type = type, .key = k->key, .limit = 1};
    pawl_query query = {.kind = PAWL_QUERY_LIMITS, .limit_filter = &one};
    if (look_read(p->rt, &query, p->arena, NULL) || query.limits->count == 0) return true;
    p->rows[p->limits->count] = query.limits->limits[0];
    add_numbers(&p->rows[p->limits->count++], k);
    return true;
}

static bool add_key(page *p, const told_key *k, const char *node)
{
    bool last = !p->limits->next && p->limits->count < p->room;
    if (!wanted(p, k)) return true;
    if (k->local) return !last || add_local(p, k, node);
    pawl_limit_info *row = find_row(p, k);
    if (row) add_numbers(row, k);
    else if (last && p->filter->waiting) return add_shared(p, k);
    return true;
}

pawl_status told_add(runtime *rt, pawl_arena *arena, const pawl_limit_filter *filter, pawl_limits *limits, pawl_error *err)
{
    pawl_query nodes = {.kind = PAWL_QUERY_NODES};
    pawl_status status = look_read(rt, &nodes, arena, err);
    if (status) return status;
    page p = {.rt = rt, .arena = arena, .filter = filter, .limits = limits};
    p.room = limits->count + TOLD_KEYS * nodes.nodes->count;
    if (p.room > (size_t)filter->limit) p.room = (size_t)filter->limit;
    p.rows = pawl_arena_alloc(arena, (p.room + 1) * sizeof *p.rows);
    bool whole = p.rows != NULL;
    if (whole && limits->count) memcpy(p.rows, limits->limits, limits->count * sizeof *p.rows);
    const pawl_node_info *node;
    told t;
    for (size_t at = 0; whole && next_told(&nodes, &at, &node, &t);) {
        limits->all.parked += t.parked;
        limits->all.running += t.running;
        limits->all.deferrals += t.deferrals;
        limits->all.rejected += t.rejected;
        limits->all.opened += t.opened;
        for (int i = 0; i < t.keys_count && whole; i++) whole = add_key(&p, &t.keys[i], node->name);
    }
    limits->limits = p.rows;
    return whole ? PAWL_OK : err_set(err, PAWL_NO_MEMORY, "could not look: out of memory");
}
