/* Rate limits as they are stored: which types have any, LIMIT, and what people see of them.
 *
 * The handle remembers which types have limits, whether there are schedules and families, and of which version of the limits that is. Each transaction that may have to do with them
 * compares the version with the stored one; so types without limits cost nothing, and a change is seen at once. LIMITs come one after the
 * other, by a lock on the version.
 */
#include "base/alloc.h"
#include "base/error.h"
#include "store/mysql/quota.h"
#include "store/mysql/read.h"

#define PAGE 200 /* rows of SQL_limits_list */

/* ---- which types ----------------------------------------------------------------------------------------------------------- */

bool my_limits_fetch(my_store *s, conn *c)
{
    my_script(c);
    my_add(c, SQL_limits_now);
    my_add(c, SQL_limit_types);
    my_add(c, SQL_bound_kinds);
    my_add(c, SQL_features);
    if (!my_send(c, CALL_READS)) return false;
    const answer *now = my_answer(c, SQL_limits_now), *types = my_answer(c, SQL_limit_types),
                 *bounds = my_answer(c, SQL_bound_kinds);
    limit_types l = {.version = get_int(now, 0, 1), .count = types->rows, .bounds_count = bounds->rows};
    l.schedules = get_int(my_answer(c, SQL_features), 0, 0) > 0;
    l.families = get_int(my_answer(c, SQL_features), 0, 1) > 0;
    l.types = alloc_new(s->allocator, ((size_t)l.count + 1) * sizeof *l.types);
    l.bounds = alloc_new(s->allocator, ((size_t)l.bounds_count + 1) * sizeof *l.bounds);
    if (!l.types || !l.bounds) {
        my_limits_free(s->allocator, &l);
        my_conn_no_memory(c);
        return false;
    }
    for (int i = 0; i < l.count; i++) l.types[i] = (limit_type){(int32_t)get_int(types, i, 0), get_int(types, i, 1) != 0};
    for (int i = 0; i < l.bounds_count; i++)
        l.bounds[i] = (bound_kind){(int)get_int(bounds, i, 0), (int32_t)get_int(bounds, i, 1), get_int(bounds, i, 2) != 0,
                                   get_int(bounds, i, 3) != 0};
    pthread_mutex_lock(&s->lock);
    limit_types before = s->limits;
    s->limits = l;
    pthread_mutex_unlock(&s->lock);
    my_limits_free(s->allocator, &before);
    return true;
}

void my_limits_free(const pawl_allocator *a, const limit_types *l)
{
    alloc_free(a, l->types);
    alloc_free(a, l->bounds);
}

bool my_limits_copy(my_store *s, pawl_arena *arena, limit_types *out)
{
    pthread_mutex_lock(&s->lock);
    *out = s->limits;
    out->types = out->count ? pawl_arena_alloc(arena, (size_t)out->count * sizeof *out->types) : NULL;
    out->bounds = out->bounds_count ? pawl_arena_alloc(arena, (size_t)out->bounds_count * sizeof *out->bounds) : NULL;
    if (out->types) memcpy(out->types, s->limits.types, (size_t)out->count * sizeof *out->types);
    if (out->bounds) memcpy(out->bounds, s->limits.bounds, (size_t)out->bounds_count * sizeof *out->bounds);
    pthread_mutex_unlock(&s->lock);
    return (out->types || !out->count) && (out->bounds || !out->bounds_count);
}

static int by_type(const void *a, const void *b)
{
    const limit_type *x = a, *y = b;
    return x->type_id < y->type_id ? -1 : x->type_id > y->type_id;
}

static const limit_type *find_type(const limit_types *l, int32_t type_id)
{
    if (l->count == 0) return NULL;
    return bsearch(&(limit_type){.type_id = type_id}, l->types, (size_t)l->count, sizeof *l->types, by_type);
}

bool my_limit_known(const limit_types *l, int32_t type_id) { return find_type(l, type_id) != NULL; }

bool my_limited(const limit_types *l, int32_t type_id)
{
    const limit_type *t = find_type(l, type_id);
    return t && t->limited;
}

static int by_name(const void *a, const void *b)
{
    const bound_kind *x = a, *y = b;
    if (x->scope != y->scope) return x->scope < y->scope ? -1 : 1;
    return x->name_id < y->name_id ? -1 : x->name_id > y->name_id;
}

static const bound_kind *find_bound(const limit_types *l, int scope, int32_t name_id)
{
    if (l->bounds_count == 0) return NULL;
    bound_kind wanted = {.scope = scope, .name_id = name_id};
    return bsearch(&wanted, l->bounds, (size_t)l->bounds_count, sizeof wanted, by_name);
}

bool my_bound_known(const limit_types *l, pawl_scope scope, int32_t name_id)
{
    return find_bound(l, (int)scope, name_id) != NULL;
}

bool my_bound_on(const limit_types *l, pawl_scope scope, int32_t name_id)
{
    const bound_kind *b = find_bound(l, (int)scope, name_id);
    return b && b->on;
}

bool my_bound_ordered(const limit_types *l, int32_t type_id)
{
    const bound_kind *b = find_bound(l, PAWL_SCOPE_KEYS, type_id);
    return b && b->ordered;
}

/* ---- as stored --------------------------------------------------------------------------------------------------------------- */

stored_limit my_limit_read(const answer *a, int row, int column)
{
    const char *text = get_text(a, row, column);
    if (!text) return (stored_limit){0};
    int64_t n[5];
    for (int i = 0; i < 5; i++) {
        char *end;
        n[i] = strtoll(text, &end, 10);
        text = end;
    }
    stored_limit l = {.found = true};
    l.rate = (pawl_rate){.permits = (int)n[0], .period_us = n[1], .burst = (int)n[2], .horizon_us = n[3]};
    limit_flags_read(n[4], &l.rate, &l.paused);
    return l;
}

bool my_limit_in_force(const stored_limit *l) { return l->found && (l->rate.permits > 0 || l->paused); }

bool my_limit_make(const stored_limit *own, const stored_limit *of_type, budget_limit *out)
{
    static const pawl_rate any = {.permits = 1, .period_us = PAWL_SECOND}; /* of one that is only paused */
    const stored_limit *l = my_limit_in_force(own) ? own : of_type;
    return my_limit_in_force(l) && budget_limit_make(l->rate.permits > 0 ? &l->rate : &any, l->paused, out);
}

void my_budget_read(const answer *a, int row, int column, budget_row *out)
{
    out->tat.us = get_int(a, row, column++);
    out->tat.part = (int32_t)get_int(a, row, column++);
    out->permits = (int32_t)get_int(a, row, column++);
    out->period_us = get_int(a, row, column++);
    out->burst = (int32_t)get_int(a, row, column++);
    out->seen_us = get_int(a, row, column++);
    out->epoch = get_int(a, row, column++);
    out->last_id = get_int(a, row, column++);
    out->last_slot_us = get_int(a, row, column);
}

/* ---- LIMIT ------------------------------------------------------------------------------------------------------------------- */

static void ask_plan(work *w, const flat_op *o, int at)
{
    const pawl_op *op = o->op;
    char room[LIMIT_KEY_ROOM];
    pawl_bytes key = limit_key(op->u.limit.key, room);
    limit_plan *p = my_work_alloc(w, sizeof *p);
    buf which;
    if (!p) return;
    *p = (limit_plan){.next = w->plans, .op = op};
    w->plans = p;
    if (!key.data) key.data = "";
    my_put_int(w->c, o->type_id);
    my_put_bytes(w->c, key);
    my_put_int(w->c, at);
    my_add(w->c, SQL_limit_old);
    if (op->u.limit.move <= 0) return;
    buf_init(&which, w->s->allocator, 4096);
    if (key.len) {
        buf_str(&which, "rate_key = ");
        lit_bytes(w->c, &which, key);
    } else {
        buf_str(&which, "TRUE");
    }
    if (which.failed) w->no_memory = true;
    my_put_int(w->c, o->type_id);
    my_put_int(w->c, (int64_t)op->u.limit.move + 1);
    my_put_int(w->c, at);
    my_put_raw(w->c, buf_text(&which), which.len);
    my_add(w->c, SQL_slotted_of);
    buf_done(&which);
}

void my_ask_plans(work *w)
{
    w->plans = NULL;
    for (int i = 0; i < w->f->count; i++)
        if (w->f->ops[i].op->kind == PAWL_OP_LIMIT && !w->f->ops[i].refused) ask_plan(w, &w->f->ops[i], i);
}

static limit_plan *plan_of(const work *w, const pawl_op *op)
{
    limit_plan *p = w->plans;
    while (p && p->op != op) p = p->next;
    return p;
}

static int take_in_plans(work *w)
{
    int total = 0;
    EACH_ANSWER(a, w->c, SQL_limit_old)
    if (a->rows > 0) plan_of(w, w->f->ops[get_int(a, 0, 0)].op)->old = my_limit_read(a, 0, 1);
    EACH_ANSWER(a, w->c, SQL_slotted_of)
    if (a->rows > 0) {
        limit_plan *p = plan_of(w, w->f->ops[get_int(a, 0, 0)].op);
        p->ids = my_work_alloc(w, (size_t)a->rows * sizeof *p->ids);
        for (int i = 0; p->ids && i < a->rows; i++) p->ids[p->count++] = get_int(a, i, 1);
        total += p->count;
    }
    return total;
}

bool my_load_plans(work *w)
{
    int total = take_in_plans(w), count = 0;
    if (total == 0) return true;
    pawl_id *ids = my_work_alloc(w, (size_t)total * sizeof *ids);
    for (const limit_plan *p = w->plans; ids && p; p = p->next)
        for (int i = 0; i < p->count; i++) ids[count++] = p->ids[i];
    if (w->no_memory) {
        my_conn_no_memory(w->c);
        return false;
    }
    my_script(w->c);
    my_add_ids(w->c, SQL_live_lock, ids, my_sort_ids(ids, count));
    if (!my_send(w->c, CALL_READS)) return false;
    my_take_in(w);
    return true;
}

static void limit_put(work *w, const flat_op *o, pawl_bytes key, const stored_limit *l)
{
    const pawl_op *op = o->op;
    const pawl_rate *r = &l->rate;
    conn *c = w->c;
    my_put_int(c, o->type_id);
    my_put_bytes(c, key);
    my_put_int(c, r->permits);
    my_put_int(c, r->period_us);
    my_put_int(c, r->burst);
    my_put_int(c, r->horizon_us);
    my_put_int(c, limit_flags(r, l->paused));
    my_put_int(c, w->now_us);
    my_add(c, SQL_limit_put);
    my_add(c, SQL_limits_changed);
    my_oplog_put(w, op->by, "limit", 0, op->u.limit.type);
}

/* Tasks with slots of the old limit ask anew: their slots are gone, and they are due. */
static void pull(work *w, const limit_plan *p)
{
    for (int i = 0; i < p->count && i < p->op->u.limit.move; i++) {
        task_row *row = my_task(w, p->ids[i]);
        if (!row || row->state != PAWL_PENDING) continue; /* somebody took it meanwhile */
        my_slot_drop(w, row->id);
        if (row->run_at_us > w->now_us) my_live_move(w, row->id, row->run_at_us = w->now_us);
    }
}

void my_apply_limit(work *w, flat_op *o)
{
    char room[LIMIT_KEY_ROOM];
    pawl_op *op = o->op;
    const limit_plan *p = plan_of(w, op);
    pawl_bytes key = limit_key(op->u.limit.key, room);
    stored_limit l = p->old;
    if (!key.data) key.data = "";
    op->result = limit_change(op, my_limit_in_force(&l), &l.rate, &l.paused);
    if (op->result == PAWL_OP_DONE || op->result == PAWL_OP_UPDATED) limit_put(w, o, key, &l);
    pull(w, p);
    op->u.limit.more = p->count > op->u.limit.move;
}

/* ---- upkeep ------------------------------------------------------------------------------------------------------------------ */

static void put_place(conn *c, const my_store *s)
{
    my_put_int(c, s->budget_type);
    my_put_bytes(c, (pawl_bytes){s->budget_room, s->budget_len});
}

/* Some budgets further on than the last time; from the beginning, if there are no more. */
bool my_sweep_budgets(my_store *s, conn *c, int64_t now_us, int *left)
{
    if (*left <= 0) return true;
    my_script(c);
    put_place(c, s);
    my_add(c, SQL_budgets_next);
    put_place(c, s);
    my_put_int(c, now_us - PAWL_HOUR); /* see budget_idle */
    my_add(c, SQL_budgets_drop);
    if (!my_send(c, CALL_WRITES)) return false;
    const answer *next = my_answer(c, SQL_budgets_next);
    pawl_bytes key = next->rows ? get_bytes(next, 0, 1) : (pawl_bytes){0};
    s->budget_type = next->rows ? (int32_t)get_int(next, 0, 0) : 0;
    s->budget_len = key.len < sizeof s->budget_room ? key.len : sizeof s->budget_room;
    if (key.len) memcpy(s->budget_room, key.data, s->budget_len);
    *left -= (int)c->affected < *left ? (int)c->affected : *left;
    return true;
}

/* ---- looking ----------------------------------------------------------------------------------------------------------------- */

enum { KEY, OWN, OF_TYPE, BUDGET, WAITING = BUDGET + 9 }; /* columns of SQL_limits_list */

/* false: nothing limits it. */
static bool describe(const answer *a, int row, int64_t now_us, pawl_limit_info *info)
{
    stored_limit own = my_limit_read(a, row, OWN), of_type = my_limit_read(a, row, OF_TYPE);
    const stored_limit *l = my_limit_in_force(&own) ? &own : &of_type;
    budget_limit limit;
    budget_row budget = {0};
    if (!my_limit_make(&own, &of_type, &limit)) return false;
    info->rate = l->rate;
    info->paused = l->paused;
    info->own = l == &own;
    info->left = limit.r.burst;
    if (info->key.len == 0) return true;
    bool used = !get_null(a, row, BUDGET);
    if (used) my_budget_read(a, row, BUDGET, &budget);
    budget_tell(used ? &budget : NULL, &limit, now_us, info);
    info->waiting = get_int(a, row, WAITING);
    return true;
}

typedef struct looking {
    reading *r;
    const pawl_limit_filter *filter;
    pawl_limits *out;
    pawl_limit_info *infos;
} looking;

/* Of which keys, for SQL_limits_list: the one that is asked for, those after one, or all (NULL). */
static void put_which(looking *l, const pawl_bytes *after)
{
    pawl_bytes only = l->filter->key;
    conn *c = l->r->c;
    buf b;
    buf_init(&b, l->r->s->allocator, 64 << 10);
    buf_str(&b, "TRUE");
    if (only.len) {
        buf_str(&b, " AND rate_key = ");
        lit_bytes(c, &b, only);
    }
    if (after) {
        buf_str(&b, " AND rate_key > ");
        lit_bytes(c, &b, after->data ? *after : (pawl_bytes){"", 0});
    }
    const char *copy = b.failed ? NULL : pawl_arena_bytes(l->r->arena, buf_text(&b), b.len); /* it must last until it is sent */
    if (!copy) l->r->no_memory = true;
    my_put_raw(c, copy ? copy : "FALSE", copy ? b.len : 5);
    buf_done(&b);
}

/* false: there is no more of the type, or no more room. */
static bool look_at_page(looking *l, int32_t type_id, const char *type, const pawl_bytes *after, pawl_bytes *last)
{
    reading *r = l->r;
    pawl_limits *out = l->out;
    my_script(r->c);
    my_put_int(r->c, type_id);
    put_which(l, after);
    my_put_int(r->c, out->now_us);
    if (r->no_memory || !my_ask(r, SQL_limits_list)) return false;
    const answer *a = my_answer(r->c, SQL_limits_list);
    for (int i = 0; i < a->rows && !r->no_memory; i++) {
        pawl_limit_info info = {.type = type, .key = my_read_bytes(r, a, i, KEY)};
        *last = info.key;
        if (!describe(a, i, out->now_us, &info) || (l->filter->waiting && info.waiting == 0)) continue;
        if (out->count == (size_t)l->filter->limit) {
            out->next = budget_cursor(r->arena, l->infos[out->count - 1].type, l->infos[out->count - 1].key);
            return false;
        }
        l->infos[out->count++] = info;
    }
    return a->rows == PAGE;
}

static int64_t now_of(reading *r)
{
    const pawl_clock *test = my_test_clock(r->s);
    my_script(r->c);
    if (!my_ask(r, SQL_limits_now)) return 0;
    return test ? test->wall_us(test->ctx) : get_int(my_answer(r->c, SQL_limits_now), 0, 0);
}

typedef struct limited_type {
    int32_t id;
    const char *name;
} limited_type;

/* From a name on, in their order; those that are asked for. */
static limited_type *types_of(looking *l, const char *from, int *count)
{
    reading *r = l->r;
    my_script(r->c);
    my_put_bytes(r->c, (pawl_bytes){from, strlen(from)});
    if (!my_ask(r, SQL_limits_types)) return NULL;
    const answer *a = my_answer(r->c, SQL_limits_types);
    limited_type *types = my_read_alloc(r, ((size_t)a->rows + 1) * sizeof *types);
    for (int i = 0; types && i < a->rows; i++) {
        const char *name = my_read_text(r, a, i, 1);
        if (r->no_memory) return NULL;
        if (!l->filter->type || strcmp(l->filter->type, name) == 0)
            types[(*count)++] = (limited_type){(int32_t)get_int(a, i, 0), name};
    }
    return types;
}

bool my_limits_read(reading *r, pawl_query *query)
{
    const pawl_limit_filter *f = query->limit_filter;
    const char *from = "";
    pawl_bytes last = {0};
    int count = 0;
    if (f->cursor && !budget_cursor_read(r->arena, f->cursor, &from, &last)) return false;
    pawl_limits *out = query->limits = my_read_alloc(r, sizeof *out);
    pawl_limit_info *infos = my_read_alloc(r, ((size_t)f->limit + 1) * sizeof *infos);
    if (!out || !infos) return true;
    looking l = {r, f, out, infos};
    out->now_us = now_of(r);
    out->limits = infos;
    limited_type *types = types_of(&l, from, &count);
    for (int i = 0; types && i < count && !out->next; i++) {
        const pawl_bytes *after = f->cursor && strcmp(types[i].name, from) == 0 ? &last : NULL;
        while (look_at_page(&l, types[i].id, types[i].name, after, &last)) after = &last;
    }
    return true;
}
