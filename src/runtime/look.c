/* Looking: questions go straight to the store, on the caller's thread; what only this engine knows is added.
 *
 * An answer is an arena. The struct the caller gets stands in it behind a `head` that leads back to the arena, and to a copy of
 * the allocator, so that it can be freed after the engine is closed.
 */
#include "base/text.h"
#include "core/schedule.h"
#include "runtime/gate.h"
#include "runtime/told.h"
#include <stdio.h>

#define LIST_LIMIT 100
#define LIST_MAX 1000
#define LIST_US (5 * PAWL_SECOND)
#define ENTER_US PAWL_SECOND /* a look waits so long for the core; then the engine is stuck, and says so */
#define LAG_BAD_US (5 * PAWL_SECOND)

typedef struct head {
    _Alignas(16) answer *from;
} head;

static pawl_status no_memory(pawl_error *err) { return err_set(err, PAWL_NO_MEMORY, "could not look: out of memory"); }

answer *look_answer(runtime *rt)
{
    answer *a = alloc_new(&rt->allocator, sizeof *a);
    if (!a) return NULL;
    a->allocator = rt->allocator;
    a->arena = arena_new(&a->allocator, (size_t)1 << 30);
    if (a->arena) return a;
    alloc_free(&rt->allocator, a);
    return NULL;
}

void look_drop(answer *a)
{
    if (!a) return;
    pawl_allocator allocator = a->allocator;
    arena_free(a->arena);
    alloc_free(&allocator, a);
}

/* The struct as the caller gets it; NULL: no memory. */
static void *hand_out(answer *a, const void *value, size_t size)
{
    head *h = pawl_arena_alloc(a->arena, sizeof *h + size);
    if (!h) return NULL;
    h->from = a;
    return memcpy(h + 1, value, size);
}

static void take_back(const void *value)
{
    if (value) look_drop(((const head *)value - 1)->from);
}

void pawl_info_free(pawl_info *info) { take_back(info); }
void pawl_page_free(pawl_page *page) { take_back(page); }
void pawl_trail_free(pawl_trail *trail) { take_back(trail); }
void pawl_stats_free(pawl_stats *stats) { take_back(stats); }
void pawl_nodes_free(pawl_nodes *nodes) { take_back(nodes); }
void pawl_acts_free(pawl_acts *acts) { take_back(acts); }
void pawl_facts_free(pawl_facts *facts) { take_back(facts); }
void pawl_limits_free(pawl_limits *limits) { take_back(limits); }
void pawl_places_free(pawl_places *places) { take_back(places); }
void pawl_schedule_info_free(pawl_schedule_info *info) { take_back(info); }
void pawl_batch_info_free(pawl_batch_info *info) { take_back(info); }
void pawl_batches_free(pawl_batches *batches) { take_back(batches); }
void pawl_relatives_free(pawl_relatives *relatives) { take_back(relatives); }
void pawl_schedules_free(pawl_schedules *schedules) { take_back(schedules); }

pawl_status look_read(runtime *rt, pawl_query *query, pawl_arena *arena, pawl_error *err)
{
    pawl_error why = {0};
    pawl_status status = store_read(rt->store, query, arena, &why);
    if (status == PAWL_NOT_FOUND && !query->name) {
        char id[PAWL_ID_TEXT];
        pawl_id_format(query->id, id);
        return err_set(err, status, "there is no task %s: it never was, or its retention is over", id);
    }
    if (status && err) *err = why;
    return status;
}

pawl_status look_ask(runtime *rt, pawl_query *query, answer **out, pawl_error *err)
{
    answer *a = look_answer(rt);
    if (!a) return no_memory(err);
    pawl_status status = look_read(rt, query, a->arena, err);
    if (status) look_drop(a);
    else *out = a;
    return status;
}

pawl_status look_give(answer *a, const void *value, size_t size, void *out, pawl_error *err)
{
    void *given = hand_out(a, value, size);
    if (!given) {
        look_drop(a);
        return no_memory(err);
    }
    *(void **)out = given;
    return PAWL_OK;
}

/* ---- tasks --------------------------------------------------------------------------------------------------------------- */

void look_complete(pawl_info *info)
{
    size_t n = sizeof SCHEDULE_CREATED_BY - 1;
    if (!info->content_type) info->content_type = "application/json";
    if (info->created_by && strncmp(info->created_by, SCHEDULE_CREATED_BY, n) == 0) info->schedule = info->created_by + n;
}

pawl_status look_get(runtime *rt, pawl_id id, pawl_info **out, pawl_error *err)
{
    pawl_query query = {.kind = PAWL_QUERY_GET, .id = id};
    answer *a;
    pawl_status status = look_ask(rt, &query, &a, err);
    if (status) return status;
    look_complete(query.info);
    return look_give(a, query.info, sizeof *query.info, out, err);
}

pawl_status look_list(runtime *rt, const pawl_filter *filter, pawl_page **out, pawl_error *err)
{
    static const pawl_filter any = {0};
    pawl_status status = valid_filter(filter, err);
    if (status) return status;
    pawl_filter f = filter ? *filter : any;
    if (!f.limit) f.limit = LIST_LIMIT;
    if (f.search && f.search[strspn(f.search, " ")]) return search_list(rt, &f, out, err);
    f.search = NULL;
    pawl_query query = {
        .kind = PAWL_QUERY_LIST, .filter = &f, .deadline_us = f.within_us && f.within_us < LIST_US ? f.within_us : LIST_US};
    answer *a;
    status = look_ask(rt, &query, &a, err);
    if (status) return status;
    for (size_t i = 0; i < query.page->count; i++) look_complete((pawl_info *)query.page->tasks[i]);
    return look_give(a, query.page, sizeof *query.page, out, err);
}

pawl_status look_trail(runtime *rt, pawl_id id, pawl_trail **out, pawl_error *err)
{
    pawl_query query = {.kind = PAWL_QUERY_TRAIL, .id = id};
    answer *a;
    pawl_status status = look_ask(rt, &query, &a, err);
    return status ? status : look_give(a, query.trail, sizeof *query.trail, out, err);
}

pawl_status look_state(runtime *rt, pawl_id id, pawl_state *state, pawl_error *err)
{
    pawl_arena *arena = arena_new(&rt->allocator, 0);
    if (!arena) return no_memory(err);
    pawl_query query = {.kind = PAWL_QUERY_STATE, .id = id};
    pawl_status status = look_read(rt, &query, arena, err);
    arena_free(arena);
    if (!status) *state = query.state;
    return status;
}

/* ---- numbers ------------------------------------------------------------------------------------------------------------- */

core_numbers look_numbers(runtime *rt)
{
    core_numbers numbers;
    loop_enter(rt, -1);
    core_numbers_get(rt->core, runtime_now(rt), &numbers);
    loop_leave(rt);
    return numbers;
}

static void add_own(runtime *rt, pawl_queue_info *queue)
{
    for (int i = 0; i < core_queues(rt->core); i++) {
        core_queue_numbers own;
        core_queue_get(rt->core, i, &own);
        if (strcmp(own.name, queue->name) != 0) continue;
        queue->workers = own.workers;
        queue->running = own.running;
        queue->ready = own.ready;
    }
}

/* What only this engine knows: nothing before it has started. */
static void add_own_all(runtime *rt, pawl_stats *stats)
{
    if (!atomic_load(&rt->frozen) || !loop_enter(rt, ENTER_US)) return;
    for (size_t i = 0; i < stats->queues_count; i++) add_own(rt, (pawl_queue_info *)&stats->queues[i]);
    loop_leave(rt);
}

static pawl_status add_gate(runtime *rt, pawl_arena *arena, pawl_stats *stats, pawl_error *err)
{
    pawl_gate gate;
    pawl_error why;
    pawl_status status = gate_look(rt->store, arena, &gate, err);
    if (status || !gate_shut(&gate)) return status;
    gate_say(&gate, rt->url, &why);
    stats->closed = pawl_arena_str(arena, why.message);
    return stats->closed ? PAWL_OK : no_memory(err);
}

pawl_status look_stats(runtime *rt, int64_t window_us, const char *queue, pawl_stats **out, pawl_error *err)
{
    if (window_us < 0 || window_us > 366 * PAWL_DAY)
        return err_set(err, PAWL_INVALID, "the window of %lld us is not between 0 (one hour) and a year", (long long)window_us);
    pawl_query query = {.kind = PAWL_QUERY_STATS, .window_us = window_us ? window_us : PAWL_HOUR, .name = queue};
    answer *a;
    pawl_status status = look_ask(rt, &query, &a, err);
    if (status) return status;
    pawl_query nodes = {.kind = PAWL_QUERY_NODES};
    status = add_gate(rt, a->arena, query.stats, err);
    if (!status) status = look_read(rt, &nodes, a->arena, err);
    if (!status) query.stats->throttled += told_parked(&nodes);
    if (status) {
        look_drop(a);
        return status;
    }
    add_own_all(rt, query.stats);
    return look_give(a, query.stats, sizeof *query.stats, out, err);
}

pawl_status look_nodes(runtime *rt, pawl_nodes **out, pawl_error *err)
{
    pawl_query query = {.kind = PAWL_QUERY_NODES};
    answer *a;
    pawl_status status = look_ask(rt, &query, &a, err);
    return status ? status : look_give(a, query.nodes, sizeof *query.nodes, out, err);
}

pawl_status look_acts(runtime *rt, int64_t before, int limit, pawl_acts **out, pawl_error *err)
{
    if (before < 0) return err_set(err, PAWL_INVALID, "before is %lld: use `next` of the page before, or 0", (long long)before);
    if (limit < 0 || limit > LIST_MAX) return err_set(err, PAWL_INVALID, "the limit is %d: use 1 to %d, or 0", limit, LIST_MAX);
    pawl_query query = {.kind = PAWL_QUERY_ACTS, .before = before, .limit = limit ? limit : LIST_LIMIT};
    answer *a;
    pawl_status status = look_ask(rt, &query, &a, err);
    return status ? status : look_give(a, query.acts, sizeof *query.acts, out, err);
}

pawl_status look_limits(runtime *rt, const pawl_limit_filter *filter, pawl_limits **out, pawl_error *err)
{
    pawl_query query = {.kind = PAWL_QUERY_LIMITS, .limit_filter = filter};
    core_numbers numbers;
    answer *a;
    pawl_status status = look_ask(rt, &query, &a, err);
    if (status) return status;
    if ((status = told_add(rt, a->arena, filter, query.limits, err))) {
        look_drop(a);
        return status;
    }
    if (loop_enter(rt, ENTER_US)) {
        core_numbers_get(rt->core, runtime_now(rt), &numbers);
        loop_leave(rt);
        query.limits->parked = numbers.parked;
        query.limits->deferrals = numbers.deferrals;
        query.limits->rejected = numbers.rejected;
        query.limits->opened = numbers.opened;
    }
    return look_give(a, query.limits, sizeof *query.limits, out, err);
}

pawl_status look_places(runtime *rt, const pawl_place_filter *filter, pawl_places **out, pawl_error *err)
{
    pawl_query query = {.kind = PAWL_QUERY_PLACES, .place_filter = filter};
    answer *a;
    pawl_status status = look_ask(rt, &query, &a, err);
    return status ? status : look_give(a, query.places, sizeof *query.places, out, err);
}

/* Started, this engine serves its queues even before its node is known to the store. */
static bool served_here(runtime *rt, const char *queue)
{
    pthread_mutex_lock(&rt->phase_lock);
    bool served = false, started = rt->phase == PHASE_STARTED;
    pthread_mutex_unlock(&rt->phase_lock);
    if (!started || !loop_enter(rt, ENTER_US)) return false;
    for (int i = 0; i < core_queues(rt->core) && !served; i++) {
        core_queue_numbers own;
        core_queue_get(rt->core, i, &own);
        served = own.workers > 0 && strcmp(own.name, queue) == 0;
    }
    loop_leave(rt);
    return served;
}

pawl_status look_served(runtime *rt, const char *queue, bool *served, pawl_error *err)
{
    if ((*served = served_here(rt, queue))) return PAWL_OK;
    pawl_arena *arena = arena_new(&rt->allocator, 0);
    if (!arena) return no_memory(err);
    pawl_query query = {.kind = PAWL_QUERY_NODES};
    pawl_status status = look_read(rt, &query, arena, err);
    for (size_t i = 0; !status && i < query.nodes->count; i++)
        *served = *served || (query.nodes->nodes[i].alive && csv_has(query.nodes->nodes[i].queues, queue));
    arena_free(arena);
    return status;
}

pawl_status look_settings(runtime *rt, char *out, size_t size, pawl_error *err)
{
    pawl_arena *arena = arena_new(&rt->allocator, 0);
    if (!arena) return no_memory(err);
    pawl_query query = {.kind = PAWL_QUERY_SETTINGS};
    pawl_status status = look_read(rt, &query, arena, err);
    if (!status) snprintf(out, size, "%s", query.text ? query.text : "");
    arena_free(arena);
    return status;
}

/* ---- health -------------------------------------------------------------------------------------------------------------- */

static void say(pawl_health *h, const char *store_error)
{
    char lag[32];
    if (h->loop_lag_us > LAG_BAD_US) {
        duration_format(h->loop_lag_us, lag, sizeof lag);
        snprintf(h->text, sizeof h->text, "the engine's thread has not come round for %s: is a retry function or callback stuck?",
                 lag);
    } else if (!h->store_ok) {
        snprintf(h->text, sizeof h->text, "the store does not answer: %s", store_error);
    } else if (h->store_closed) {
        snprintf(h->text, sizeof h->text,
                 "the store is closed, nothing starts here any more: its tasks are moving or have moved");
    } else if (h->stuck > 0) {
        snprintf(h->text, sizeof h->text, "%lld runs were asked to stop and do not: their workers are occupied",
                 (long long)h->stuck);
    } else if (h->long_running > 0) {
        snprintf(h->text, sizeof h->text, "%lld runs have gone on for long without a timeout or progress",
                 (long long)h->long_running);
    }
}

static void fill_health(runtime *rt, pawl_health *h, char *store_error, size_t size)
{
    core_numbers n;
    core_numbers_get(rt->core, runtime_now(rt), &n);
    snprintf(store_error, size, "%s", rt->store_error);
    h->store_ok = n.store_ok;
    h->store_closed = n.store_closed;
    h->store_latency_us = n.store_latency_us;
    h->lease_left_us = n.lease_left_us;
    h->running = n.running;
    h->ready = n.ready;
    h->unanswered = n.unanswered;
    h->stuck = n.stuck;
    h->long_running = n.long_running;
    h->outcomes_waiting = n.outcomes_waiting;
    h->parked = n.parked;
    h->deferrals = n.deferrals;
    h->rejected = n.rejected;
    h->opened = n.opened;
    h->commits = rt->commits;
    memcpy(h->events, n.events, sizeof h->events);
}

pawl_status look_health(runtime *rt, pawl_health *out, pawl_error *err)
{
    if (!out) return err_set(err, PAWL_INVALID, "out is NULL");
    pawl_health h = {0};
    char store_error[sizeof rt->store_error] = "";
    h.loop_lag_us = rt->options.inline_mode ? 0 : loop_lag(rt);
    if (loop_enter(rt, ENTER_US)) {
        fill_health(rt, &h, store_error, sizeof store_error);
        loop_leave(rt);
    } else {
        h.loop_lag_us = loop_lag(rt);
    }
    pthread_mutex_lock(&rt->phase_lock);
    h.started = rt->phase == PHASE_STARTED;
    pthread_mutex_unlock(&rt->phase_lock);
    say(&h, store_error);
    h.healthy = h.store_ok && !h.store_closed && h.loop_lag_us <= LAG_BAD_US && h.stuck == 0;
    *out = h;
    return PAWL_OK;
}
