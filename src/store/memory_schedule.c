/* Schedules in the memory store: rows in the order of their names, and of those that are enabled in the order they want to be looked at.
 *
 * An occurrence is in its schedule's list, in the order they were decided in; in a map by (schedule, occurrence), which makes it unique;
 * and while its task is unfinished in a map by that task's id.
 */
#include "store/memory.h"
#include <stdio.h>

typedef struct mem_occurrence {
    list link;
    map_node unique, open; /* open: linked while OPEN */
    mem_schedule *schedule;
    pawl_occurrence o;
    char why[24];
} mem_occurrence;

struct mem_definition { /* one block with its texts */
    const char *spec, *after;
    pawl_bytes payload;
};

struct mem_schedule {
    tree_node by_name, by_look;
    map_node by_after;
    list occurrences;
    int count;
    bool looked, follows; /* in the tree of looks; in the map by `after` */
    mem_definition *definition;
    char *reason;
    pawl_schedule_row row;
    char name[];
};

static mem_schedule *of_name(const tree_node *node) { return container_of(node, mem_schedule, by_name); }
static mem_schedule *of_look(const tree_node *node) { return container_of(node, mem_schedule, by_look); }
static mem_occurrence *of_link(const list *node) { return container_of(node, mem_occurrence, link); }

static bool before_by_name(const tree_node *a, const tree_node *b) { return strcmp(of_name(a)->name, of_name(b)->name) < 0; }

static bool before_by_look(const tree_node *a, const tree_node *b)
{
    const mem_schedule *x = of_look(a), *y = of_look(b);
    return x->row.look_us != y->row.look_us ? x->row.look_us < y->row.look_us : strcmp(x->name, y->name) < 0;
}

static bool below_name(const tree_node *node, const void *name) { return strcmp(of_name(node)->name, name) < 0; }
static uint64_t hash_of(const char *name) { return hash_bytes(name, strlen(name), 7); }

void mem_schedules_init(mem *m)
{
    tree_init(&m->schedules, before_by_name);
    tree_init(&m->looks, before_by_look);
    pool_init(&m->occurrences, sizeof(mem_occurrence));
}

mem_schedule *mem_schedule_find(const mem *m, const char *name)
{
    tree_node *node = tree_from(&m->schedules, below_name, name);
    return node && strcmp(of_name(node)->name, name) == 0 ? of_name(node) : NULL;
}

bool mem_schedule_is(const mem_schedule *s, int64_t version) { return version == 0 || s->row.version == version; }

int64_t mem_schedule_due(const mem *m) { return m->looks.first ? of_look(m->looks.first)->row.look_us : 0; }

/* ---- changing a row -------------------------------------------------------------------------------------------------- */

static void look_at(mem *m, mem_schedule *s, int64_t look_us)
{
    if (s->looked) tree_remove(&m->looks, &s->by_look);
    s->row.look_us = s->row.off ? 0 : look_us;
    s->looked = s->row.look_us != 0;
    if (s->looked) tree_insert(&m->looks, &s->by_look);
}

static void changed(mem *m, mem_schedule *s)
{
    s->row.version++;
    m->schedules_changed = true;
}

static void follow(mem *m, mem_schedule *s, bool follows)
{
    if (s->follows) map_remove(&m->followers, &s->by_after);
    s->follows = follows;
    if (follows) map_put(&m->followers, &s->by_after, hash_of(s->definition->after));
}

/* ---- occurrences ----------------------------------------------------------------------------------------------------- */

static uint64_t unique_key(const mem_schedule *s, int64_t occurrence) { return hash_bytes(&occurrence, 8, hash_of(s->name)); }

static mem_occurrence *find(const mem *m, const mem_schedule *s, int64_t occurrence)
{
    for (map_node *node = map_get(&m->by_occurrence, unique_key(s, occurrence)); node; node = map_next(node)) {
        mem_occurrence *o = container_of(node, mem_occurrence, unique);
        if (o->schedule == s && o->o.occurrence == occurrence) return o;
    }
    return NULL;
}

static mem_occurrence *add(mem *m, mem_schedule *s, int64_t occurrence)
{
    mem_occurrence *o = pool_get(&m->occurrences);
    o->schedule = s;
    o->o.occurrence = occurrence;
    o->o.count = 1;
    map_put(&m->by_occurrence, &o->unique, unique_key(s, occurrence));
    list_append(&s->occurrences, &o->link);
    s->count++;
    return o;
}

static void drop(mem *m, mem_occurrence *o)
{
    if (o->o.state == PAWL_OCCURRENCE_OPEN) map_remove(&m->open, &o->open);
    map_remove(&m->by_occurrence, &o->unique);
    list_remove(&o->link);
    o->schedule->count--;
    pool_put(&m->occurrences, o);
}

static int64_t *counter(mem_schedule *s, pawl_occurrence_state state)
{
    return state == PAWL_OCCURRENCE_OPEN ? &s->row.open : state == PAWL_OCCURRENCE_WAITING ? &s->row.waiting : NULL;
}

/* Its state is decided: it is the newest. */
static void decide(mem *m, mem_occurrence *o, pawl_occurrence_state state, const char *why, int64_t now_us)
{
    mem_schedule *s = o->schedule;
    CHECK(s);
    int64_t *before = counter(s, o->o.state), *after = counter(s, state);
    if (before) --*before;
    if (after) ++*after;
    if (o->o.state == PAWL_OCCURRENCE_OPEN) map_remove(&m->open, &o->open);
    o->o.state = state;
    o->o.at_us = now_us;
    if (state == PAWL_OCCURRENCE_OPEN) map_put(&m->open, &o->open, (uint64_t)o->o.task);
    if (why) snprintf(o->why, sizeof o->why, "%s", why);
    list_remove(&o->link);
    list_append(&s->occurrences, &o->link);
    m->schedules_changed = true;
}

static void trim(mem *m, mem_schedule *s)
{
    list_each(link, &s->occurrences) {
        if (s->count - s->row.open - s->row.waiting <= PAWL_OCCURRENCES_KEPT) return;
        if (of_link(link)->o.state > PAWL_OCCURRENCE_OPEN) drop(m, of_link(link));
    }
}

void mem_skip(mem *m, mem_schedule *s, const pawl_fate *fate, int64_t now_us)
{
    mem_occurrence *o = find(m, s, fate->occurrence);
    if (o && o->o.state != PAWL_OCCURRENCE_WAITING) return;
    if (!o) o = add(m, s, fate->occurrence);
    o->o.count = fate->count;
    s->row.skipped += fate->count;
    decide(m, o, PAWL_OCCURRENCE_SKIPPED, fate->why, now_us);
}

/* DONE: its task is to be stored. Otherwise what became of it. */
pawl_op_result mem_schedule_admit(mem *m, mem_schedule *s, const pawl_step *step, const pawl_fate *fate, int64_t now_us)
{
    mem_occurrence *o = find(m, s, fate->occurrence);
    bool waits = o && o->o.state == PAWL_OCCURRENCE_WAITING;
    if (o && !waits && !CANARY(OCCURRENCE_TWICE)) return PAWL_OP_EXISTING;
    if (step->overlap == PAWL_OVERLAP_ALLOW || s->row.open == 0 || CANARY(OVERLAP_IGNORED)) return PAWL_OP_DONE;
    if (step->overlap == PAWL_OVERLAP_QUEUE && s->row.waiting - waits == 0) {
        if (!waits) decide(m, add(m, s, fate->occurrence), PAWL_OCCURRENCE_WAITING, fate->why, now_us);
        return PAWL_OP_MOVED;
    }
    if (!step->keep) mem_skip(m, s, &(pawl_fate){.occurrence = fate->occurrence, .count = 1, .why = "overlap"}, now_us);
    return PAWL_OP_CONFLICT;
}

void mem_opened(mem *m, mem_schedule *s, const pawl_fate *fate, pawl_id task, int64_t now_us)
{
    mem_occurrence *o = find(m, s, fate->occurrence);
    if (!o) o = add(m, s, fate->occurrence);
    o->o.task = s->row.last_task = task;
    s->row.runs++;
    s->row.fired++;
    decide(m, o, PAWL_OCCURRENCE_OPEN, fate->why, now_us);
}

void mem_stepped(mem *m, mem_schedule *s, const pawl_step *step, char *reason)
{
    trim(m, s);
    changed(m, s);
    if (step->keep) {
        alloc_free(&m->allocator, reason);
        return;
    }
    s->row.off = step->off;
    alloc_free(&m->allocator, s->reason);
    s->reason = reason;
    s->row.next_us = step->next_us;
    s->row.occurrence_us = step->occurrence_us;
    s->row.last_us = step->last_us;
    s->row.watch = step->watch;
    look_at(m, s, step->look_us);
}

/* ---- the end of a task ------------------------------------------------------------------------------------------------ */

static mem_occurrence *open_of(const mem *m, pawl_id task)
{
    map_node *node = m->open.count > 0 ? map_get(&m->open, (uint64_t)task) : NULL;
    return node ? container_of(node, mem_occurrence, open) : NULL;
}

#define each_follower(f, m, name)                                                   \
    for (map_node *f = map_get(&(m)->followers, hash_of(name)); f; f = map_next(f)) \
        if (strcmp(container_of(f, mem_schedule, by_after)->definition->after, name) == 0)

int mem_schedule_followers(const mem *m, pawl_id task)
{
    const mem_occurrence *o = open_of(m, task);
    int count = 0;
    if (!o || m->followers.count == 0) return 0;
    each_follower(node, m, o->schedule->name) count++;
    return count;
}

static pawl_occurrence_state end_of(const mem_task *t)
{
    if (t->runs == 0) return PAWL_OCCURRENCE_UNSTARTED;
    return t->state == PAWL_SUCCEEDED ? PAWL_OCCURRENCE_SUCCEEDED
           : t->state == PAWL_FAILED  ? PAWL_OCCURRENCE_FAILED
                                      : PAWL_OCCURRENCE_CANCELLED;
}

static void tell_followers(mem *m, const mem_schedule *s, pawl_id task, int64_t now_us)
{
    each_follower(node, m, s->name)
    {
        mem_schedule *follower = container_of(node, mem_schedule, by_after);
        if (follower->row.off || find(m, follower, task)) continue;
        decide(m, add(m, follower, task), PAWL_OCCURRENCE_WAITING, NULL, now_us);
        look_at(m, follower, now_us);
        changed(m, follower);
    }
}

void mem_schedule_ended(mem *m, const mem_task *t, int64_t now_us)
{
    mem_occurrence *o = open_of(m, t->id);
    if (!o) return;
    mem_schedule *s = o->schedule;
    pawl_occurrence_state state = end_of(t);
    decide(m, o, state, NULL, now_us);
    s->row.succeeded += t->state == PAWL_SUCCEEDED;
    s->row.failed += t->state == PAWL_FAILED;
    if (state == PAWL_OCCURRENCE_UNSTARTED && s->row.runs > 0) s->row.runs--;
    if (!s->row.off && (s->row.watch || s->row.waiting > 0) && !CANARY(END_UNSEEN)) {
        look_at(m, s, now_us);
        changed(m, s);
    }
    if (t->state == PAWL_SUCCEEDED) tell_followers(m, s, t->id, now_us);
    trim(m, s);
}

/* ---- putting and dropping --------------------------------------------------------------------------------------------- */

mem_definition *mem_definition_new(mem *m, const pawl_schedule_row *row)
{
    size_t spec = strlen(row->spec) + 1, after = row->after ? strlen(row->after) + 1 : 0;
    mem_definition *d = alloc_new(&m->allocator, sizeof *d + spec + after + row->payload.len + 1);
    if (!d) return NULL;
    char *at = (char *)(d + 1);
    d->spec = memcpy(at, row->spec, spec);
    if (after) d->after = memcpy(at + spec, row->after, after);
    if (row->payload.data)
        d->payload = (pawl_bytes){memcpy(at + spec + after, row->payload.data, row->payload.len), row->payload.len};
    return d;
}

mem_schedule *mem_schedule_new(mem *m, const char *name)
{
    mem_schedule *s = alloc_new(&m->allocator, sizeof *s + strlen(name) + 1);
    if (!s) return NULL;
    strcpy(s->name, name);
    list_init(&s->occurrences);
    return s;
}

static void forget(mem *m, mem_schedule *s)
{
    list_each(link, &s->occurrences) drop(m, of_link(link));
    look_at(m, s, 0);
    follow(m, s, false);
    tree_remove(&m->schedules, &s->by_name);
    alloc_free(&m->allocator, s->definition);
    alloc_free(&m->allocator, s->reason);
    alloc_free(&m->allocator, s);
}

static pawl_op_result drop_schedule(mem *m, mem_schedule *s, const pawl_schedule_row *row)
{
    if (!s) return PAWL_OP_NOT_FOUND;
    if (!mem_schedule_is(s, row->version)) return PAWL_OP_STALE;
    forget(m, s);
    m->schedules_changed = true;
    return PAWL_OP_DONE;
}

pawl_op_result mem_schedule_put(mem *m, const pawl_schedule_put *put, mem_prep *p, int64_t now_us)
{
    const pawl_schedule_row *row = put->row;
    mem_schedule *s = mem_schedule_find(m, row->name);
    if (put->drop) return drop_schedule(m, s, row);
    if (s && row->version == 0) return PAWL_OP_EXISTING;
    if (s && s->row.version != row->version) return PAWL_OP_STALE;
    if (!s && row->version != 0) return PAWL_OP_NOT_FOUND;
    pawl_op_result result = s ? PAWL_OP_UPDATED : PAWL_OP_DONE;
    if (!s) {
        s = p->schedule;
        p->schedule = NULL;
        s->row.created_us = now_us;
        s->row.version = now_us; /* no version of one that was dropped comes again */
        tree_insert(&m->schedules, &s->by_name);
    }
    follow(m, s, false);
    alloc_free(&m->allocator, s->definition);
    alloc_free(&m->allocator, s->reason);
    s->definition = p->definition;
    s->reason = p->text;
    p->definition = NULL;
    p->text = NULL;
    s->row.off = row->off;
    s->row.anchor_us = row->anchor_us;
    s->row.next_us = row->next_us;
    s->row.occurrence_us = row->occurrence_us;
    s->row.watch = row->watch;
    s->row.changed_us = now_us;
    follow(m, s, s->definition->after != NULL);
    look_at(m, s, row->look_us);
    changed(m, s);
    return result;
}

void mem_schedules_done(mem *m)
{
    while (m->schedules.first) forget(m, of_name(m->schedules.first));
    pool_done(&m->occurrences, &m->allocator);
    map_done(&m->followers);
    map_done(&m->by_occurrence);
    map_done(&m->open);
}

/* ---- looking ---------------------------------------------------------------------------------------------------------- */

/* false: no memory */
static bool copy_row(const mem_schedule *s, pawl_arena *arena, pawl_schedule_row *out)
{
    const mem_definition *d = s->definition;
    *out = s->row;
    out->name = pawl_arena_str(arena, s->name);
    out->spec = pawl_arena_str(arena, d->spec);
    out->after = pawl_arena_str(arena, d->after);
    out->reason = pawl_arena_str(arena, s->reason);
    if (d->payload.data) out->payload = (pawl_bytes){pawl_arena_bytes(arena, d->payload.data, d->payload.len), d->payload.len};
    return out->name && out->spec && (out->after || !d->after) && (out->reason || !s->reason) &&
           (out->payload.data || !d->payload.data);
}

/* Those that wait, oldest first; or all, newest first. */
static bool copy_occurrences(const mem_schedule *s, bool waiting, pawl_arena *arena, pawl_schedule_row *out)
{
    int most = waiting && s->count > 100 ? 100 : s->count, count = 0;
    pawl_occurrence *to = out->occurrences = pawl_arena_alloc(arena, ((size_t)s->count + 1) * sizeof *to);
    if (!to) return false;
    list_each(link, &s->occurrences) {
        const mem_occurrence *o = of_link(link);
        if (waiting && (o->o.state != PAWL_OCCURRENCE_WAITING || count == most)) continue;
        pawl_occurrence *at = waiting ? &to[count] : &to[s->count - 1 - count];
        *at = o->o;
        if (o->why[0] && !(at->why = pawl_arena_str(arena, o->why))) return false;
        count++;
    }
    out->occurrences_count = count;
    return true;
}

static pawl_status get_due(const mem *m, pawl_due *due, int64_t now_us, pawl_arena *arena)
{
    size_t bytes = 0;
    due->now_us = now_us;
    due->count = 0;
    due->more = false;
    due->next_us = 0;
    if (!(due->rows = pawl_arena_alloc(arena, ((size_t)due->limit + 1) * sizeof *due->rows))) return PAWL_NO_MEMORY;
    for (const tree_node *node = m->looks.first; node; node = tree_next(node)) {
        const mem_schedule *s = of_look(node);
        if (s->row.look_us > now_us) {
            due->next_us = s->row.look_us;
            break;
        }
        due->more = due->count == due->limit || (due->count > 0 && bytes >= due->bytes);
        if (due->more) break;
        pawl_schedule_row *row = &due->rows[due->count++];
        if (!copy_row(s, arena, row) || !copy_occurrences(s, true, arena, row)) return PAWL_NO_MEMORY;
        bytes += row->payload.len;
    }
    return PAWL_OK;
}

static bool wanted(const pawl_schedule_filter *f, const mem_schedule *s)
{
    return !(f->enabled && s->row.off) && !(f->off && !s->row.off);
}

static pawl_status get_list(const mem *m, pawl_query *query, pawl_arena *arena)
{
    const pawl_schedule_filter *f = query->schedule_filter;
    const char *prefix = f->prefix ? f->prefix : "", *from = f->cursor && strcmp(f->cursor, prefix) > 0 ? f->cursor : prefix;
    query->schedules_count = 0;
    query->schedules_more = false;
    if (!(query->schedules = pawl_arena_alloc(arena, ((size_t)f->limit + 1) * sizeof *query->schedules))) return PAWL_NO_MEMORY;
    for (const tree_node *node = tree_from(&m->schedules, below_name, from); node; node = tree_next(node)) {
        const mem_schedule *s = of_name(node);
        if (strncmp(s->name, prefix, strlen(prefix)) != 0) break;
        if ((f->cursor && strcmp(s->name, f->cursor) <= 0) || !wanted(f, s)) continue;
        query->schedules_more = query->schedules_count == f->limit;
        if (query->schedules_more) break;
        if (!copy_row(s, arena, &query->schedules[query->schedules_count++])) return PAWL_NO_MEMORY;
    }
    return PAWL_OK;
}

static pawl_status get_one(const mem *m, pawl_query *query, pawl_arena *arena)
{
    const mem_schedule *s = mem_schedule_find(m, query->name);
    if (!s) return PAWL_NOT_FOUND;
    query->schedules_count = 1;
    if (!(query->schedules = pawl_arena_alloc(arena, sizeof *query->schedules))) return PAWL_NO_MEMORY;
    bool ok = copy_row(s, arena, query->schedules) && copy_occurrences(s, false, arena, query->schedules);
    return ok ? PAWL_OK : PAWL_NO_MEMORY;
}

pawl_status mem_schedules_read(const mem *m, pawl_query *query, int64_t now_us, pawl_arena *arena)
{
    query->now_us = now_us;
    if (query->kind == PAWL_QUERY_DUE) return get_due(m, query->due, now_us, arena);
    return query->kind == PAWL_QUERY_SCHEDULE ? get_one(m, query, arena) : get_list(m, query, arena);
}
