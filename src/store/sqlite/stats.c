/* Numbers: queues, what happened in a window of time, nodes. All of it from counters and rollups; only what is due now is
 * counted, up to a limit.
 */
#include "store/due.h"
#include "store/sqlite/read.h"
#include "store/steps.h"
#include <string.h>
#include <stdlib.h>

static int64_t count(reading *r, sql_name which)
{
    query q = query_on(r->c, which);
    int64_t n = query_row(&q) ? get_int(&q) : 0;
    query_end(&q);
    return n;
}

/* ---- nodes --------------------------------------------------------------------------------------------------------------- */

/* Its process is there (the lock it holds), or its heartbeat says so. */
bool node_visible(reading *r, int64_t node, int64_t sidecar, bool alive, const char *boot_id, int64_t expires_us)
{
    if (!alive) return false;
    bool lock = sidecar && llabs(sidecar) == sidecar_id(&r->s->side) && !sidecar_dead(&r->s->side, node);
    return lock || !node_lapsed(r->s, boot_id, expires_us, r->boot_us);
}

typedef struct node_row {
    pawl_node_info info;
    const char *types;
    pawl_bytes told;
} node_row;

static node_row read_node(reading *r, query *q)
{
    node_row n = {.info.id = get_int(q)};
    n.info.name = read_text(r, get_text(q));
    n.info.pid = get_int(q);
    n.info.queues = read_text(r, get_text(q));
    n.types = read_text(r, get_text(q));
    int64_t sidecar = get_int(q);
    n.info.born_us = get_int(q);
    bool alive = get_int(q) == 1;
    const char *boot_id = get_text(q);
    int64_t expires_us = get_int(q);
    n.info.leases = get_int(q);
    n.told = read_bytes(r, get_bytes(q));
    n.info.draining = get_int(q) != 0;
    n.info.alive = node_visible(r, n.info.id, sidecar, alive, boot_id, expires_us);
    bool same_boot = boot_id && strcmp(boot_id, r->s->clock.boot_id) == 0;
    if (n.info.leases > 0) n.info.expires_us = same_boot ? r->now_us + expires_us - r->boot_us : r->now_us;
    return n;
}

void nodes_read(reading *r, pawl_query *question)
{
    size_t room = (size_t)count(r, SQL_nodes_count) + 1;
    pawl_nodes *nodes = read_alloc(r, sizeof *nodes);
    pawl_node_info *infos = read_alloc(r, room * sizeof *infos);
    const char **types = read_alloc(r, room * sizeof *types);
    pawl_bytes *told = read_alloc(r, room * sizeof *told);
    if (!nodes || !infos || !types || !told) return;
    query q = query_on(r->c, SQL_nodes_list);
    while (nodes->count < room && query_row(&q)) {
        node_row n = read_node(r, &q);
        infos[nodes->count] = n.info;
        told[nodes->count] = n.told;
        types[nodes->count++] = n.types;
    }
    query_end(&q);
    nodes->nodes = infos;
    question->nodes = nodes;
    question->node_types = types;
    question->node_told = told;
}

/* ---- queues -------------------------------------------------------------------------------------------------------------- */

static bool names_queue(const char *names, const char *queue)
{
    size_t len = strlen(queue);
    for (const char *at = names; *at; at += strcspn(at, ","), at += *at == ',')
        if (strncmp(at, queue, len) == 0 && (at[len] == ',' || at[len] == '\0')) return true;
    return false;
}

static bool served(const pawl_nodes *nodes, const char *queue)
{
    for (size_t i = 0; i < nodes->count; i++)
        if (nodes->nodes[i].alive && names_queue(nodes->nodes[i].queues, queue)) return true;
    return false;
}

static void add_due(query *q, int64_t most, pawl_queue_info *info)
{
    int64_t due = get_int(q), oldest_us = get_int(q);
    if (due && (!info->oldest_due_us || oldest_us < info->oldest_due_us)) info->oldest_due_us = oldest_us;
    info->due = info->due + due < most ? info->due + due : most;
    info->due_more = info->due == most;
}

static void count_due(reading *r, int64_t queue_id, int64_t most, pawl_queue_info *info)
{
    lane_key lane = LANE_FIRST(queue_id);
    while (lane_next(r->c, &lane)) {
        query q = query_on(r->c, SQL_lane_count);
        put_int(&q, lane.queue_id);
        put_int(&q, lane.priority);
        put_int(&q, lane.class);
        put_int(&q, lane.type_id);
        put_int(&q, r->now_us);
        put_int(&q, info->due < most ? most - info->due : 1);
        if (query_row(&q)) add_due(&q, most, info);
        query_end(&q);
    }
    query q = query_on(r->c, SQL_shared_count); /* where tenants take turns */
    put_int(&q, queue_id);
    put_int(&q, r->now_us);
    put_int(&q, info->due < most ? most - info->due : 1);
    if (query_row(&q)) add_due(&q, most, info);
    query_end(&q);
}

static void read_throttled(reading *r, pawl_queue_info *infos, size_t count)
{
    query q = query_on(r->c, SQL_queues_throttled);
    while (query_row(&q)) {
        const char *queue = name_text(r->c, get_int(&q));
        int64_t throttled = get_int(&q);
        for (size_t i = 0; queue && i < count; i++)
            if (infos[i].name && strcmp(infos[i].name, queue) == 0) infos[i].throttled = throttled;
    }
    query_end(&q);
}

static void read_queues(reading *r, pawl_stats *s, const char *only, const pawl_nodes *nodes)
{
    size_t room = (size_t)count(r, SQL_queues_count) + 1, waiting = 0;
    pawl_queue_info *infos = read_alloc(r, room * sizeof *infos);
    int64_t *ids = read_alloc(r, room * sizeof *ids);
    if (!infos || !ids) return;
    query q = query_on(r->c, SQL_queues_list);
    while (s->queues_count < room && query_row(&q)) {
        pawl_queue_info *info = &infos[s->queues_count];
        ids[s->queues_count] = get_int(&q);
        const char *name = get_text(&q);
        if (only && name && strcmp(only, name) != 0) continue;
        s->queues_count++;
        info->name = read_text(r, name);
        info->paused = get_int(&q) != 0;
        s->waiting += info->waiting = get_int(&q);
        s->pending += info->pending = get_int(&q);
        s->leased += info->leased = get_int(&q);
        s->dead += info->failed = get_int(&q);
        if (info->name) info->served = served(nodes, info->name);
        waiting += info->pending > 0;
    }
    query_end(&q);
    s->queues = infos;
    for (size_t i = 0; i < s->queues_count; i++)
        if (infos[i].pending > 0) count_due(r, ids[i], due_share(waiting), &infos[i]);
    if (!only) read_throttled(r, infos, s->queues_count);
}

/* ---- rollups ------------------------------------------------------------------------------------------------------------- */

/* What was counted of a step is complete. */
static void end_step(pawl_stats_step *step, histogram all[2], histogram part[2])
{
    if (!step) return;
    step->wait_p50_us = histogram_percentile(&part[0], 50);
    step->wait_p99_us = histogram_percentile(&part[0], 99);
    step->run_p50_us = histogram_percentile(&part[1], 50);
    step->run_p99_us = histogram_percentile(&part[1], 99);
    for (int i = 0; i < 2; i++) histogram_sum(&all[i], &part[i]);
    memset(part, 0, 2 * sizeof *part);
}

static void read_rollups(reading *r, pawl_stats *s)
{
    histogram *all = read_alloc(r, 2 * sizeof *all), *part = read_alloc(r, 2 * sizeof *part);
    pawl_stats_step *steps = read_alloc(r, STEPS_MAX * sizeof *steps), *step = NULL;
    if (!all || !part || !steps) return;
    steps_begin(s, steps);
    query q = query_on(r->c, SQL_rollup_window);
    put_int(&q, steps_first(s));
    put_int(&q, steps_last(s));
    while (query_row(&q)) {
        pawl_stats_step *at = steps_at(s, get_int(&q));
        if (at != step) end_step(step, all, part);
        step = at;
        int64_t outcome = get_int(&q);
        steps_add(s, step, outcome, get_int(&q));
        histogram_merge(&part[0], get_bytes(&q));
        histogram_merge(&part[1], get_bytes(&q));
    }
    query_end(&q);
    end_step(step, all, part);
    s->wait_p50_us = histogram_percentile(&all[0], 50);
    s->wait_p99_us = histogram_percentile(&all[0], 99);
    s->run_p50_us = histogram_percentile(&all[1], 50);
    s->run_p99_us = histogram_percentile(&all[1], 99);
}

pawl_stats *stats_read(reading *r, int64_t window_us, const char *only)
{
    pawl_stats *s = read_alloc(r, sizeof *s);
    pawl_query nodes = {0};
    nodes_read(r, &nodes);
    if (!s || !nodes.nodes) return NULL;
    s->now_us = r->now_us;
    s->window_us = window_us > 0 ? (window_us + PAWL_MINUTE - 1) / PAWL_MINUTE * PAWL_MINUTE : PAWL_HOUR;
    read_queues(r, s, only, nodes.nodes);
    if (only) return s;
    read_rollups(r, s);
    s->throttled = count(r, SQL_slotted_total);
    return s;
}
