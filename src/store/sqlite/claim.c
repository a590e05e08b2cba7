/* claim: leases due tasks in the order priority, run_at, id.
 *
 * The ready index keeps the tasks of a queue in lanes, one per priority, class (ordinary, suspect, to run alone) and type, each
 * in the order of run_at. A claim steps from lane to lane by one probe each, so neither future tasks of one priority nor types
 * that the node does not know nor suspects that it may not have now stand in the way of others. Within one priority it takes
 * the first few of every lane, sorts them and grants.
 *
 * A task that finds no place of a concurrency limit is blocked, and the lanes of that priority are looked at again: there may be others
 * behind it. Where tenants take turns, lanes are theirs, and a claim goes from tenant to tenant, from where the last one ended.
 *
 * A lane is flooded while more is due than a claim may take and the first one's rate budget has nothing left for a while: what is due there
 * will be moved to its slots, but that takes claims. Others of the priority do not wait for it: most of a claim is theirs (flood_others), and in
 * the flooded lane they are looked for at its end.
 *
 * A task whose body cannot be read is left where it is and counted; the fifth time it ends as failed.
 */
#include "base/alloc.h"
#include "base/canary.h"
#include "base/check.h"
#include "core/task.h"
#include "store/sqlite/place.h"
#include "store/sqlite/quota.h"
#include <stdlib.h>
#include <string.h>

#define UNREADABLE_MAX 5
#define BLOCKED_MOST 2000 /* tasks that one claim blocks; the next one goes on */
#define END_LOOK 64       /* tasks at the end of a flooded lane that are looked at */

typedef struct claiming {
    tx *t;
    pawl_claim *call;
    pawl_want *want;
    int want_index;
    pawl_arena *arena;
    int64_t *types; /* of the want, sorted */
    int types_count;
    bool solo_taken;
    int64_t priority; /* of the candidates */
    task_row *rows;   /* due tasks of one priority */
    int count, room;
    int blocked;       /* for want of places, so far */
    bool some_blocked; /* among the candidates */
} claiming;

static const char what[] = "claim tasks in";

/* ---- lanes --------------------------------------------------------------------------------------------------------------- */

static bool lane_after(const lane_key *a, const lane_key *b)
{
    if (a->priority != b->priority) return a->priority > b->priority;
    return a->class != b->class ? a->class > b->class : a->type_id > b->type_id;
}

bool lane_next(conn *c, lane_key *lane)
{
    lane_key next = {.queue_id = lane->queue_id};
    query q = query_on(c, SQL_lane_next);
    put_int(&q, lane->queue_id);
    put_int(&q, lane->priority);
    put_int(&q, lane->class);
    put_int(&q, lane->type_id);
    bool found = query_row(&q);
    if (found) {
        next.priority = get_int(&q);
        next.class = get_int(&q);
        next.type_id = get_int(&q);
    }
    query_end(&q);
    if (!found) return false;
    bool damaged = !lane_after(&next, lane); /* no number is where one belongs: the search would come here again and again */
    if (damaged) conn_note(c, SQLITE_CORRUPT);
    *lane = next;
    return !damaged;
}

static void put_lane(query *q, const lane_key *lane)
{
    put_int(q, lane->queue_id);
    put_int(q, lane->priority);
    put_int(q, lane->class);
    put_int(q, lane->type_id);
}

static bool add_row(claiming *c, const task_row *row)
{
    if (c->count == c->room) {
        int room = c->room ? c->room * 2 : 64;
        task_row *grown = pawl_arena_alloc(c->arena, (size_t)room * sizeof *grown);
        if (!grown) {
            conn_note(c->t->c, SQLITE_NOMEM);
            return false;
        }
        if (c->count) memcpy(grown, c->rows, (size_t)c->count * sizeof *grown);
        c->rows = grown;
        c->room = room;
    }
    c->rows[c->count++] = *row;
    return true;
}

static task_row read_due(query *q, const lane_key *lane)
{
    task_row row = {.state = PAWL_PENDING, .queue_id = lane->queue_id, .type_id = lane->type_id};
    row.priority = (int)lane->priority;
    row.class = (int)lane->class;
    row.id = get_int(q);
    row.run_at_us = get_int(q);
    row.fence = get_int(q);
    row.runs = (int)get_int(q);
    row.failures = (int)get_int(q);
    row.interruptions = (int)get_int(q);
    row.rescues = (int)get_int(q);
    row.strikes = (int)get_int(q);
    row.level = (int)get_int(q);
    row.unreadable = (int)get_int(q);
    return row;
}

int lane_due(tx *t, const lane_key *lane, task_row *out, int most)
{
    int count = 0;
    query q = query_on(t->c, SQL_lane_due);
    put_lane(&q, lane);
    put_int(&q, t->now_us);
    put_int(&q, most);
    while (count < most && query_row(&q)) out[count++] = read_due(&q, lane);
    query_end(&q);
    return count;
}

static void rows_of_lane(claiming *c, sql_name which, const lane_key *lane, int most)
{
    query q = query_on(c->t->c, which);
    put_lane(&q, lane);
    put_int(&q, c->t->now_us);
    put_int(&q, most);
    while (query_row(&q)) {
        task_row row = read_due(&q, lane);
        if (!add_row(c, &row)) break;
    }
    query_end(&q);
}

/* One more than can be granted, so that it shows whether there are more. */
static void due_of_lane(claiming *c, const lane_key *lane)
{
    rows_of_lane(c, SQL_lane_due, lane, c->want->free + c->want->prefetch - c->want->got + 1 + c->blocked);
}

static void future_of_lane(claiming *c, const lane_key *lane)
{
    query q = query_on(c->t->c, SQL_lane_future);
    put_lane(&q, lane);
    put_int(&q, c->t->now_us);
    int64_t due_us = query_row(&q) ? get_int(&q) : 0;
    query_end(&q);
    if (due_us && (!c->want->next_due_us || due_us < c->want->next_due_us)) c->want->next_due_us = due_us;
}

/* ---- granting ------------------------------------------------------------------------------------------------------------ */

static int by_time(const void *a, const void *b)
{
    const task_row *x = a, *y = b;
    if (x->run_at_us != y->run_at_us) return x->run_at_us < y->run_at_us ? -1 : 1;
    return x->id < y->id ? -1 : x->id > y->id;
}

/* Many lanes may bring far more than can be granted: the first ordinary ones are enough. */
static void sort_rows(claiming *c)
{
    int enough = c->want->free + c->want->prefetch - c->want->got + 1 + c->blocked, ordinary = 0, kept = 0;
    if (c->count == 0) return;
    qsort(c->rows, (size_t)c->count, sizeof *c->rows, by_time);
    for (int i = 0; i < c->count; i++)
        if (c->rows[i].class != CLASS_ORDINARY || ordinary++ < enough) c->rows[kept++] = c->rows[i];
    c->count = kept;
}

static bool allowed(const claiming *c, const task_row *row)
{
    const pawl_want *w = c->want;
    if (w->got >= w->free + w->prefetch) return false;
    if (w->got >= w->free && c->t->bounded && places_bounded(c->t, row->queue_id, row->type_id)) return false;
    if (row->class == CLASS_ORDINARY) return true;
    return w->got < w->free && (row->class == CLASS_SUSPECT || (w->solo && !c->solo_taken));
}

static void leave_unreadable(tx *t, const task_row *row)
{
    if (t->c->rc) return;
    if (row->unreadable + 1 >= UNREADABLE_MAX) {
        unreadable_put(t, row);
        return;
    }
    query q = query_on(t->c, SQL_live_unreadable);
    put_int(&q, row->id);
    query_run(&q);
}

static void grant(claiming *c, task_row *row)
{
    tx *t = c->t;
    pawl_body *body = body_get(t->c, c->call->allocator, row->id);
    if (!body) {
        leave_unreadable(t, row);
        return;
    }
    if (t->bounded && !places_admit(t, row, body->rate_key)) {
        pawl_body_free(c->call->allocator, body);
        c->blocked++;
        c->some_blocked = true;
        return;
    }
    bool limited = quota_limited(t, row->type_id);
    slotted had = {0};
    bool slot = slotted_take(t, row, &had) && limited;
    const quota *b = slot ? quota_of(t, row->type_id, (pawl_bytes){had.key, had.key_len}) : NULL;
    bool good = b && b->id == had.budget_id && (b->row.epoch == had.epoch || CANARY(EPOCH_IGNORED)) && !b->limit.paused;
    live_drop(t, row);
    row->state = task_move(row->state, TASK_GRANTED);
    CHECK(row->state == PAWL_LEASED);
    row->fence++;
    row->node = t->node;
    row->leased_us = t->now_us;
    row->not_started = body->key && (c->want->got >= c->want->free || limited);
    leased_put(t, row);
    c->call->tasks[c->call->tasks_count++] = (pawl_claimed){.body = body,
                                                            .fence = row->fence,
                                                            .run_at_us = row->run_at_us,
                                                            .runs = row->runs,
                                                            .failures = row->failures,
                                                            .rescues = row->rescues,
                                                            .interruptions = row->interruptions,
                                                            .want = c->want_index,
                                                            .not_started = row->not_started,
                                                            .suspect = row->class != CLASS_ORDINARY,
                                                            .solo = row->class == CLASS_SOLO,
                                                            .limited = limited,
                                                            .until_us = good ? row->run_at_us + b->limit.r.late_us : 0,
                                                            .epoch = had.epoch};
    c->want->got++;
    c->solo_taken |= row->class == CLASS_SOLO;
}

static int by_number(const void *a, const void *b)
{
    int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
    return x < y ? -1 : x > y;
}

static bool read_types(claiming *c)
{
    const pawl_want *w = c->want;
    c->types_count = 0;
    if (w->any_type) return true;
    c->types = pawl_arena_alloc(c->arena, (size_t)(w->types_count + 1) * sizeof *c->types);
    if (!c->types) {
        conn_note(c->t->c, SQLITE_NOMEM);
        return false;
    }
    for (int i = 0; i < w->types_count; i++) {
        int64_t id = name_find(c->t->c, w->types[i]);
        if (id) c->types[c->types_count++] = id;
    }
    qsort(c->types, (size_t)c->types_count, sizeof *c->types, by_number);
    return true;
}

static bool knows(const claiming *c, int64_t type_id)
{
    if (c->want->any_type) return true;
    return bsearch(&type_id, c->types, (size_t)c->types_count, sizeof *c->types, by_number) != NULL;
}

/* ---- floods -------------------------------------------------------------------------------------------------------------- */

/* Of a lane that is not flooded the first ones; else, of the last ones, those that need not wait for their budgets. */
static void others_of_lane(claiming *c, const lane_key *lane, int most)
{
    int before = c->count, kept = before;
    rows_of_lane(c, SQL_lane_due, lane, most);
    if (c->count == before || !quota_spent(c->t, &c->rows[before])) return;
    c->count = before;
    rows_of_lane(c, SQL_lane_end, lane, END_LOOK);
    for (int i = before; i < c->count; i++)
        if (!quota_spent(c->t, &c->rows[i])) c->rows[kept++] = c->rows[i];
    c->count = kept;
}

static void tried(claiming *c, int listed, pawl_id id)
{
    for (int i = 0; i < listed; i++)
        if (c->rows[i].id == id) c->rows[i].state = PAWL_LEASED;
}

static void pass_flood(claiming *c)
{
    int room = c->want->free + c->want->prefetch - c->want->got, most = flood_others(room, c->t->now_us), listed = c->count;
    if (most == 0 || listed <= room || !quota_spent(c->t, &c->rows[0])) return;
    lane_key lane = {c->rows[0].queue_id, c->priority, -1, 0};
    while (lane_next(c->t->c, &lane) && lane.priority == c->priority)
        if (lane.class == CLASS_ORDINARY && knows(c, lane.type_id)) others_of_lane(c, &lane, most);
    qsort(c->rows + listed, (size_t)(c->count - listed), sizeof *c->rows, by_time);
    for (int i = listed; i < c->count && most > 0 && !c->t->c->rc; i++) {
        if (!allowed(c, &c->rows[i])) continue;
        grant(c, &c->rows[i]);
        tried(c, listed, c->rows[i].id);
        most--;
    }
    c->want->flooded = most > 0;
    c->count = listed;
}

/* true: some were blocked instead, so there may be others. */
static bool grant_rows(claiming *c)
{
    c->some_blocked = false;
    sort_rows(c);
    if (quota_any(c->t)) pass_flood(c);
    for (int i = 0; i < c->count && !c->t->c->rc; i++) {
        if (c->rows[i].state != PAWL_PENDING) continue;
        if (allowed(c, &c->rows[i])) grant(c, &c->rows[i]);
        else c->want->more = true;
    }
    c->count = 0;
    if (!c->some_blocked) return false;
    places_offer(c->t);
    if (c->blocked >= BLOCKED_MOST) c->want->more = true;
    return c->blocked < BLOCKED_MOST;
}

/* ---- wants --------------------------------------------------------------------------------------------------------------- */

static void claim_lanes(claiming *c, int64_t queue_id)
{
    lane_key lane = LANE_FIRST(queue_id);
    for (;;) {
        bool found = lane_next(c->t->c, &lane);
        if (c->count && (!found || lane.priority != c->priority) && grant_rows(c)) {
            lane = (lane_key){queue_id, c->priority, -1, 0};
            continue;
        }
        if (!found) break;
        if (!knows(c, lane.type_id)) continue;
        c->priority = lane.priority;
        due_of_lane(c, &lane);
        future_of_lane(c, &lane);
        if (c->count > 16384) sort_rows(c);
    }
}

/* ---- tenants that take turns ---------------------------------------------------------------------------------------------- */

static bool next_in(claiming *c, sql_name which, int64_t queue_id, const int64_t *priority, int64_t after, int64_t *out)
{
    query q = query_on(c->t->c, which);
    put_int(&q, queue_id);
    if (priority) put_int(&q, *priority);
    put_int(&q, after);
    bool found = query_row(&q);
    if (found) *out = get_int(&q);
    query_end(&q);
    return found;
}

static void due_of_tenant(claiming *c, const lane_key *lane, int64_t tenant_id, int most)
{
    query q = query_on(c->t->c, SQL_shared_due);
    put_int(&q, lane->queue_id);
    put_int(&q, lane->priority);
    put_int(&q, tenant_id);
    put_int(&q, lane->class);
    put_int(&q, lane->type_id);
    put_int(&q, c->t->now_us);
    put_int(&q, most);
    while (query_row(&q)) {
        task_row row = read_due(&q, lane);
        if (!add_row(c, &row)) break;
    }
    query_end(&q);
}

/* The tenant's due tasks of one priority, as many of each lane as that. */
static void rows_of_tenant(claiming *c, int64_t queue_id, int64_t priority, int64_t tenant_id, int most)
{
    lane_key lane = {queue_id, priority, -1, 0};
    for (;;) {
        query q = query_on(c->t->c, SQL_shared_lane);
        put_int(&q, queue_id);
        put_int(&q, priority);
        put_int(&q, tenant_id);
        put_int(&q, lane.class);
        put_int(&q, lane.type_id);
        bool found = query_row(&q);
        if (found) {
            lane.class = get_int(&q);
            lane.type_id = get_int(&q);
        }
        query_end(&q);
        if (!found) return;
        if (knows(c, lane.type_id)) due_of_tenant(c, &lane, tenant_id, most);
    }
}

/* Grants up to `rest` of the tenant; how many it took of that. *seen: there was something to look at. */
static int serve(claiming *c, int64_t queue_id, int64_t priority, int64_t tenant_id, int rest, bool *seen)
{
    int before = c->want->got;
    bool again = true;
    while (again && !c->t->c->rc) {
        rows_of_tenant(c, queue_id, priority, tenant_id, rest + 1);
        *seen |= c->count > 0;
        sort_rows(c);
        int left = rest - (c->want->got - before);
        c->some_blocked = false;
        for (int i = 0; i < c->count && !c->t->c->rc; i++) {
            int got = c->want->got;
            if (left > 0 && allowed(c, &c->rows[i])) grant(c, &c->rows[i]);
            else if (!allowed(c, &c->rows[i])) c->want->more = true;
            left -= c->want->got - got;
        }
        c->count = 0;
        again = c->some_blocked && left > 0 && c->blocked < BLOCKED_MOST;
        if (c->some_blocked) places_offer(c->t);
        if (c->some_blocked && !again && left > 0) c->want->more = true;
    }
    return c->want->got - before;
}

static bool has_room(const claiming *c) { return c->want->got < c->want->free + c->want->prefetch && !c->t->c->rc; }

/* One round about the tenants of a priority, from the one whose turn it is; true: something was granted. */
static bool round_about(claiming *c, int64_t queue_id, int64_t priority, turn *at)
{
    int64_t first = at->rest > 0 ? at->tenant_id - 1 : at->tenant_id, tenant_id = first;
    int before = c->want->got;
    for (int lap = 0; lap < 2 && !c->want->more; lap++) {
        int64_t after = lap == 0 ? first : -1;
        while (!c->want->more && next_in(c, SQL_shared_tenant, queue_id, &priority, after, &tenant_id)) {
            if (lap == 1 && tenant_id > first) break;
            bool seen = false, mine = at->rest > 0 && at->tenant_id == tenant_id;
            int rest = mine ? at->rest : turn_weight(c->t, queue_id, tenant_id);
            int got = serve(c, queue_id, priority, tenant_id, rest, &seen);
            if (got > 0) *at = (turn){tenant_id, has_room(c) ? 0 : rest - got};
            after = tenant_id;
        }
    }
    return c->want->got > before;
}

static void claim_turns(claiming *c, int64_t queue_id, turn at)
{
    turn was = at;
    int64_t priority = INT64_MIN, due_us;
    while (!c->t->c->rc && next_in(c, SQL_shared_priority, queue_id, NULL, priority, &priority))
        while (round_about(c, queue_id, priority, &at) && !c->want->more) continue;
    if (next_in(c, SQL_shared_future, queue_id, NULL, c->t->now_us, &due_us) &&
        (!c->want->next_due_us || due_us < c->want->next_due_us))
        c->want->next_due_us = due_us;
    if ((at.tenant_id != was.tenant_id || at.rest != was.rest) && !CANARY(TURNS_FORGOTTEN)) turn_put(c->t, queue_id, &at);
}

static void claim_want(claiming *c)
{
    pawl_want *w = c->want;
    w->got = 0;
    w->next_due_us = 0;
    w->more = w->flooded = w->paused = w->fair = false;
    if ((w->paused = gate_shut(c->t))) return;
    if (!c->t->alive && !CANARY(GRANTED_AFTER_RESCUE)) return;
    int64_t queue_id = name_find(c->t->c, w->queue);
    if (!queue_id || (w->paused = tally_paused(c->t, queue_id) && !CANARY(PAUSE_UNSEEN))) return;
    turn at;
    if (!read_types(c)) return;
    if (c->t->bounded && turn_get(c->t, queue_id, &at)) {
        w->fair = turns_on(c->t, queue_id);
        claim_turns(c, queue_id, at);
    }
    claim_lanes(c, queue_id);
}

static void give_up(pawl_claim *call)
{
    for (int i = 0; i < call->tasks_count; i++) pawl_body_free(call->allocator, call->tasks[i].body);
    call->tasks_count = 0;
}

pawl_status sqlite_claim(pawl_store *store, pawl_claim *call, pawl_arena *arena, pawl_error *err)
{
    tx t;
    call->tasks_count = 0;
    pawl_status status = tx_begin((sqlite_store *)store, &t, what, err);
    if (status) return status;
    tx_node(&t, call->node);
    claiming c = {.t = &t, .call = call, .arena = arena};
    for (int i = 0; i < call->wants_count && !t.c->rc; i++) {
        c.want = &call->wants[c.want_index = i];
        claim_want(&c);
    }
    node_news(&t, &call->news);
    status = t.c->rc ? tx_abort(&t, what, err) : tx_commit(&t, what, false, err);
    call->news.unblocked = t.unblocked;
    if (status) give_up(call);
    return status;
}
