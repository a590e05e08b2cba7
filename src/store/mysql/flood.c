/* Floods: many tasks that are due and must wait for rate budgets that have nothing left. They will be moved to their slots (quota.c), but
 * that takes claims. Others of their priority do not wait for it: most of a claim is theirs (flood_others). Of a lane whose first task need not wait
 * it takes the first ones; in a flooded one it looks at the end.
 */
#include "store/mysql/claim.h"
#include "store/mysql/quota.h"

#define END_LOOK 64

enum { /* columns of SQL_lane_heads and SQL_lane_end */
       ID,
       RUN_AT,
       LANE,
       FAILURES,
       SLOTTED,
       OWN,
       OF_TYPE,
       BUDGET
};

typedef struct head {
    pawl_id id;
    int64_t run_at_us;
} head;

/* It would have to wait for its budget, and for long. */
static bool is_spent(const claiming *k, const answer *a, int row)
{
    stored_limit own = my_limit_read(a, row, OWN), of_type = my_limit_read(a, row, OF_TYPE);
    bool retries_free = my_limit_in_force(&own) ? own.rate.retries_free : of_type.rate.retries_free;
    budget_limit limit;
    budget_row budget = {0};
    if (!my_limit_make(&own, &of_type, &limit) || (retries_free && get_int(a, row, FAILURES) > 0)) return false;
    if (get_int(a, row, SLOTTED) && get_int(a, row, RUN_AT) > k->at.now_us - 2 * PAWL_SECOND) return false;
    if (!get_null(a, row, BUDGET)) my_budget_read(a, row, BUDGET, &budget);
    return budget_spent(&budget, &limit, k->at.now_us);
}

static void ask_lane(claiming *k, int want, int lane, int most)
{
    const wanted *w = &k->wants[want];
    for (int end = 0; end < 2; end++) {
        my_put_int(k->c, w->queue_id);
        my_put_int(k->c, w->lanes[lane].at.lane);
        my_put_int(k->c, w->lanes[lane].due_us);
        my_put_int(k->c, k->at.now_us);
        my_put_int(k->c, end ? END_LOOK : most);
        my_put_int(k->c, lane);
        my_add(k->c, end ? SQL_lane_end : SQL_lane_heads);
    }
}

static const answer *find(const claiming *k, sql_name which, int lane)
{
    EACH_ANSWER(a, k->c, which)
    if (a->rows > 0 && get_int(a, 0, LANE) == lane) return a;
    return NULL;
}

static bool was_granted(const claiming *k, int from, pawl_id id)
{
    for (int i = from; i < k->count; i++)
        if (k->tasks[i].row.id == id) return true;
    return false;
}

static int by_time(const void *a, const void *b)
{
    const head *x = a, *y = b;
    if (x->run_at_us != y->run_at_us) return x->run_at_us < y->run_at_us ? -1 : 1;
    return x->id < y->id ? -1 : x->id > y->id;
}

/* The first of all, and whether it must wait. */
static bool is_flood(const claiming *k)
{
    const answer *first = NULL;
    EACH_ANSWER(a, k->c, SQL_lane_heads)
    if (a->rows > 0 && (!first || get_int(a, 0, RUN_AT) < get_int(first, 0, RUN_AT))) first = a;
    return first && is_spent(k, first, 0);
}

static int find_others(const claiming *k, int from, int first, int end, head *out, int room)
{
    int count = 0;
    for (int lane = first; lane < end; lane++) {
        const answer *heads = find(k, SQL_lane_heads, lane);
        bool flooded = heads && is_spent(k, heads, 0);
        const answer *a = flooded ? find(k, SQL_lane_end, lane) : heads;
        for (int i = 0; a && i < a->rows && count < room; i++) {
            if (was_granted(k, from, get_int(a, i, ID)) || (flooded && is_spent(k, a, i))) continue;
            out[count++] = (head){get_int(a, i, ID), get_int(a, i, RUN_AT)};
        }
    }
    qsort(out, (size_t)count, sizeof *out, by_time);
    return count;
}

static bool lock_and_grant(claiming *k, int want, pawl_id *ids, int count)
{
    my_script(k->c);
    buf list;
    buf_init(&list, k->s->allocator, 4 << 20);
    my_sort_ids(ids, count);
    for (int i = 0; i < count; i++) buf_fmt(&list, "%s%lld", i ? "," : "", (long long)ids[i]);
    if (list.failed) k->c->script.failed = true;
    my_put_raw(k->c, buf_text(&list), list.len);
    my_put_int(k->c, k->wants[want].queue_id);
    my_add(k->c, SQL_choose_lock);
    buf_done(&list);
    if (!my_send(k->c, CALL_READS)) return false;
    const answer *a = my_answer(k->c, SQL_choose_lock);
    for (int i = 0; i < a->rows; i++) my_claim_grant_row(k, a, i, want);
    return true;
}

/* The group was granted tasks from `from` on, and there are more of it. */
bool my_claim_pass_flood(claiming *k, int want, int first, int end, int from)
{
    wanted *w = &k->wants[want];
    int most = flood_others(k->count - from, k->at.now_us), room = (end - first) * (most + END_LOOK);
    bool limited = false;
    for (int lane = first; lane < end; lane++) limited |= my_limited(&k->limits, type_of(w->lanes[lane].at.lane));
    if (most == 0 || !limited || !w->more) return true;
    head *found = pawl_arena_alloc(k->arena, (size_t)room * sizeof *found);
    pawl_id *ids = pawl_arena_alloc(k->arena, (size_t)most * sizeof *ids);
    if (!found || !ids) {
        my_conn_no_memory(k->c);
        return false;
    }
    my_script(k->c);
    for (int lane = first; lane < end; lane++)
        if (class_of(w->lanes[lane].at.lane) == CLASS_ORDINARY && w->lanes[lane].due_us >= 0) ask_lane(k, want, lane, most);
    if (!my_send(k->c, CALL_READS)) return false;
    bool flooded = is_flood(k);
    int count = flooded ? find_others(k, from, first, end, found, room) : 0;
    w->flooded = flooded && count < most;
    if (count > most) count = most;
    if (count == 0) return true;
    for (int i = 0; i < count; i++) ids[i] = found[i].id;
    k->count -= count;
    w->got -= count;
    for (int lane = first; lane < end; lane++)
        if (w->lanes[lane].due_us >= 0) w->lanes[lane].at.from_us = w->lanes[lane].due_us;
    return lock_and_grant(k, want, ids, count);
}
