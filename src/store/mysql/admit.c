/* Claims of tasks that may need places.
 *
 * What is due is looked at without locks, with the rate keys; then the spots are locked that the first of them need, then the tasks
 * themselves, as many as there is room for and those that find a spot full. Those are blocked, and others are looked for behind them. Whatever
 * changed meanwhile, or is locked by others, is left out.
 */
#include "store/mysql/claim.h"

#define SPARE 8 /* more spots are locked at once than there is room for tasks */
#define FIRST_LOOK 32
#define LAST_LOOK 4096

typedef struct seen_task {
    map_node node;
} seen_task;

static bool was_seen(const claiming *k, pawl_id id) { return map_get(&k->seen, (uint64_t)id) != NULL; }

static void see(claiming *k, pawl_id id)
{
    seen_task *t = my_work_alloc(&k->w, sizeof *t);
    if (t) map_put(&k->seen, &t->node, (uint64_t)id);
}

static bool no_memory(claiming *k)
{
    if (k->w.no_memory) my_conn_no_memory(k->c);
    return k->w.no_memory;
}

/* ---- candidates ---------------------------------------------------------------------------------------------------------- */

bool my_admit_read(claiming *k, sql_name which, bool shared, candidate **out, int *count)
{
    int rows = 0;
    EACH_ANSWER(a, k->c, which) rows += a->rows;
    *count = 0;
    *out = my_work_alloc(&k->w, (size_t)(rows + 1) * sizeof **out);
    if (!*out) return !no_memory(k);
    EACH_ANSWER(a, k->c, which)
    for (int i = 0; i < a->rows; i++) {
        if (was_seen(k, get_int(a, i, 0))) continue;
        pawl_bytes key = get_bytes(a, i, 3);
        const char *copy = pawl_arena_bytes(k->arena, key.len ? key.data : "", key.len);
        if (!copy) k->w.no_memory = true;
        (*out)[(*count)++] = (candidate){.id = get_int(a, i, 0),
                                         .run_at_us = get_int(a, i, 1),
                                         .lane = get_int(a, i, 2),
                                         .key = {copy, key.len},
                                         .tenant_id = (int32_t)get_int(a, i, 4),
                                         .shared = shared};
    }
    return !no_memory(k);
}

static int by_time(const void *a, const void *b)
{
    const candidate *x = a, *y = b;
    if (x->run_at_us != y->run_at_us) return x->run_at_us < y->run_at_us ? -1 : 1;
    return x->id < y->id ? -1 : x->id > y->id;
}

static bool is_bounded(const claiming *k, int want, const candidate *c)
{
    return my_bounded(&k->limits, k->wants[want].queue_id, type_of(c->lane));
}

/* ---- spots --------------------------------------------------------------------------------------------------------------- */

typedef struct spot_name {
    pawl_scope scope;
    int32_t name_id;
    pawl_bytes key;
} spot_name;

typedef struct unlocked { /* what candidates need, and is not locked yet */
    spot_name *names;
    int count, most;
} unlocked;

static void need(claiming *k, unlocked *u, spot_name n)
{
    if (!my_bound_on(&k->limits, n.scope, n.name_id) || my_spot(&k->w, n.scope, n.name_id, n.key)) return;
    for (int i = 0; i < u->count; i++)
        if (u->names[i].scope == n.scope && u->names[i].name_id == n.name_id && u->names[i].key.len == n.key.len &&
            memcmp(u->names[i].key.data, n.key.data, n.key.len) == 0)
            return;
    if (u->count < u->most) u->names[u->count++] = n;
}

/* Locks what the first candidates need; how many those are. -1: failed. */
static int lock_spots(claiming *k, int want, const candidate *list, int count)
{
    int room = my_claim_room(k, want), reach = 0;
    unlocked u = {.most = room + SPARE + 3};
    spot_source src;
    u.names = my_work_alloc(&k->w, (size_t)u.most * sizeof *u.names);
    if (no_memory(k)) return -1;
    for (; reach < count && u.count + 3 <= u.most; reach++) {
        const candidate *c = &list[reach];
        int32_t type_id = type_of(c->lane);
        need(k, &u, (spot_name){PAWL_SCOPE_QUEUE, k->wants[want].queue_id, {"", 0}});
        need(k, &u, (spot_name){PAWL_SCOPE_TYPE, type_id, {"", 0}});
        if (c->key.len) need(k, &u, (spot_name){PAWL_SCOPE_KEYS, type_id, c->key});
    }
    if (u.count == 0) return reach;
    my_script(k->c);
    my_spot_source_init(&src, &k->w);
    for (int i = 0; i < u.count; i++) my_spot_want(k->c, &src, u.names[i].scope, u.names[i].name_id, u.names[i].key);
    my_spots_lock(&k->w, &src);
    my_spot_source_done(&src);
    if (no_memory(k) || !my_send(k->c, CALL_READS) || !my_spots_take_in(&k->w) || !my_places_load(&k->w)) return -1;
    return reach;
}

/* ---- granting and blocking ------------------------------------------------------------------------------------------------ */

typedef struct standing { /* what is granted so far, as if it were */
    int have;
    bool solo;
} standing;

static bool fits(const claiming *k, int want, const candidate *c, const standing *at)
{
    const pawl_want *w = &k->call->wants[want];
    int class = class_of(c->lane);
    if (at->have >= w->free + w->prefetch || (at->have >= w->free && is_bounded(k, want, c))) return false;
    return class == CLASS_ORDINARY || (at->have < w->free && (class == CLASS_SUSPECT || (w->solo && !at->solo)));
}

/* The first spot that is full; NULL: there is room everywhere. */
static spot *full_spot(claiming *k, int want, const candidate *c, spot *wants[SPOTS_MAX], int *count)
{
    *count = my_spots_of(&k->w, k->wants[want].queue_id, type_of(c->lane), c->key, wants);
    for (int i = 0; i < *count; i++)
        if (!my_spot_room(wants[i], c->id)) return wants[i];
    return NULL;
}

static void plan(spot *const wants[SPOTS_MAX], int count, pawl_id id)
{
    for (int i = 0; i < count; i++)
        if (wants[i] && !my_spot_has(wants[i], id)) wants[i]->planned++;
}

/* Which are worth locking: those that may be granted, and those to be blocked. */
static int pick(claiming *k, int want, candidate *list, int reach, pawl_id *ids, admitted *out)
{
    int count = 0, blocked = k->blocked;
    standing at = {k->wants[want].got, k->solo};
    for (int i = 0; i < reach && !k->w.failed; i++) {
        candidate *c = &list[i];
        spot *wants[SPOTS_MAX];
        int wants_count;
        c->picked = fits(k, want, c, &at);
        if (!c->picked) {
            k->wants[want].more = true;
            out->unfit++;
            continue;
        }
        if (full_spot(k, want, c, wants, &wants_count)) {
            c->picked = blocked < BLOCKED_MOST;
            blocked += c->picked;
            if (!c->picked) k->wants[want].more = true;
        } else {
            plan(wants, wants_count, c->id);
            at.have++;
            at.solo |= class_of(c->lane) == CLASS_SOLO;
        }
        if (c->picked) ids[count++] = c->id;
    }
    map_each(node, &k->w.spots) ((spot *)node)->planned = 0;
    return count;
}

static bool lock_tasks(claiming *k, pawl_id *ids, int count)
{
    my_script(k->c);
    count = my_sort_ids(ids, count);
    my_add_ids(k->c, SQL_admit_lock, ids, count);
    my_add_ids(k->c, SQL_admit_keys, ids, count);
    return my_send(k->c, CALL_READS);
}

static const answer *find_row(const conn *c, sql_name which, pawl_id id, int *row)
{
    EACH_ANSWER(a, c, which)
    for (*row = 0; *row < a->rows; ++*row)
        if (get_int(a, *row, 0) == id) return a;
    return NULL;
}

enum { READY = 15 }; /* column of SQL_admit_lock */

/* The row of a candidate that is locked now, if it is what it was; NULL: somebody else has it, or had. */
static const answer *still_there(const claiming *k, int want, const candidate *c, int *row)
{
    int at;
    task_row found = {0};
    const answer *a = find_row(k->c, SQL_admit_lock, c->id, row), *keys = find_row(k->c, SQL_admit_keys, c->id, &at);
    if (!a || !keys) return NULL;
    my_read_live(&found, a, *row);
    pawl_bytes key = get_bytes(keys, at, 1);
    bool stands =
        c->shared ? get_null(a, *row, READY) && get_int(keys, at, 2) : get_int(a, *row, READY) == k->wants[want].queue_id;
    bool same = found.queue_id == k->wants[want].queue_id && my_lane_of(found.priority, found.class, found.type_id) == c->lane &&
                key.len == c->key.len && (key.len == 0 || memcmp(key.data, c->key.data, key.len) == 0);
    return stands && same ? a : NULL;
}

static void block(claiming *k, int want, const candidate *c, spot *full, const answer *a, int row)
{
    spot *wants[SPOTS_MAX];
    task_row found = {0};
    my_read_live(&found, a, row);
    my_note_id(&k->w, &k->w.parked, c->id);
    my_block(&k->w, full, &found, c->tenant_id);
    if (my_limit_known(&k->limits, found.type_id)) my_slot_drop(&k->w, c->id);
    k->blocked++;
    if (full->first == 0 || c->id < full->first) full->first = c->id;
    if (full->scope != PAWL_SCOPE_KEYS) return;
    int count =
        my_spots_of(&k->w, k->wants[want].queue_id, type_of(c->lane), c->key, wants); /* another one may have its chance */
    for (int i = 0; i < count; i++) wants[i]->touched |= wants[i] != full;
}

static void settle_one(claiming *k, int want, candidate *c, admitted *out)
{
    int row, count;
    spot *wants[SPOTS_MAX];
    standing at = {k->wants[want].got, k->solo};
    const answer *a = still_there(k, want, c, &row);
    if (a && !fits(k, want, c, &at)) { /* cannot be: what was picked fits */
        k->wants[want].more = true;
        return;
    }
    see(k, c->id);
    out->missed += !a;
    if (!a) return;
    spot *full = full_spot(k, want, c, wants, &count);
    if (full) {
        block(k, want, c, full, a, row);
        out->blocked++;
        return;
    }
    for (int i = 0; i < count; i++)
        if (!my_spot_has(wants[i], c->id)) my_place_take(&k->w, wants[i], c->id, true);
    my_claim_grant_row(k, a, row, want);
    k->solo |= class_of(c->lane) == CLASS_SOLO;
    c->granted = true;
    out->granted++;
}

/* Some of the list; how many were looked at, -1: failed. */
static int admit_some(claiming *k, int want, candidate *list, int count, admitted *out)
{
    int reach = lock_spots(k, want, list, count);
    if (reach < 0) return -1;
    pawl_id *ids = my_work_alloc(&k->w, (size_t)(reach + 1) * sizeof *ids);
    if (no_memory(k)) return -1;
    int picked = pick(k, want, list, reach, ids, out);
    if (k->w.failed) return -1;
    if (picked == 0) return reach;
    if (!lock_tasks(k, ids, picked)) return -1;
    for (int i = 0; i < reach && !k->w.failed; i++)
        if (list[i].picked) settle_one(k, want, &list[i], out);
    return k->w.failed || no_memory(k) ? -1 : reach;
}

bool my_admit(claiming *k, int want, candidate *list, int count, admitted *out)
{
    *out = (admitted){0};
    for (int from = 0; from < count;) {
        if (my_claim_room(k, want) <= 0) {
            k->wants[want].more = true;
            return true;
        }
        int some = admit_some(k, want, list + from, count - from, out);
        if (some < 0) return false;
        from += some;
    }
    return true;
}

/* ---- lanes of one priority ------------------------------------------------------------------------------------------------ */

static bool look(claiming *k, int want, int first, int end, int limit)
{
    my_script(k->c);
    for (int i = first; i < end; i++) {
        const lane_state *l = &k->wants[want].lanes[i];
        if (l->due_us < 0) continue;
        my_put_int(k->c, k->wants[want].queue_id);
        my_put_int(k->c, l->at.lane);
        my_put_int(k->c, l->due_us);
        my_put_int(k->c, k->at.now_us);
        my_put_int(k->c, limit);
        my_add(k->c, SQL_admit_look);
    }
    return my_send(k->c, CALL_READS);
}

static bool is_cut(const claiming *k, int limit)
{
    EACH_ANSWER(a, k->c, SQL_admit_look)
    if (a->rows >= limit) return true;
    return false;
}

bool my_admit_group(claiming *k, int want, int first, int end)
{
    wanted *w = &k->wants[want];
    for (int more = FIRST_LOOK;; more = more < LAST_LOOK ? 4 * more : more) {
        int limit = my_claim_room(k, want) + 1 + more + (int)k->seen.count, count;
        candidate *list;
        admitted got;
        if (!look(k, want, first, end, limit)) return false;
        bool cut = is_cut(k, limit);
        if (!my_admit_read(k, SQL_admit_look, false, &list, &count)) return false;
        if (count) qsort(list, (size_t)count, sizeof *list, by_time);
        if (!my_admit(k, want, list, count, &got)) return false;
        if (k->blocked >= BLOCKED_MOST) w->more = true;
        bool again = cut && got.unfit == 0 && my_claim_room(k, want) > 0 && k->blocked < BLOCKED_MOST;
        if (!again) break;
    }
    for (int i = first; i < end; i++) {
        int64_t latest_us = k->at.now_us - CLAIM_SLACK_US;
        if (w->lanes[i].due_us >= 0) w->lanes[i].at.from_us = w->lanes[i].due_us < latest_us ? w->lanes[i].due_us : latest_us;
    }
    return true;
}
