/* Numbers: queues, what happened in a window of time, nodes. All of it from counters and rollups; only what is due now is counted, up to
 * a limit.
 */
#include "store/due.h"
#include "store/mysql/read.h"
#include "store/histogram.h"
#include "store/steps.h"
#include <string.h>

/* ---- nodes --------------------------------------------------------------------------------------------------------------- */

/* It shows that it lives: by its session lock, or by its heartbeat. */
static bool visible(const answer *a, int row, int64_t boot_us)
{
    bool alive = get_int(a, row, 8) == 1, gone = get_int(a, row, 9) != 0, locked = get_int(a, row, 10) != 0;
    return alive && (get_int(a, row, 7) > boot_us || (!gone && locked));
}

static void read_node(reading *r, const answer *a, int row, instant at, pawl_node_info *n)
{
    n->id = get_int(a, row, 0);
    n->name = my_read_text(r, a, row, 1);
    n->pid = get_int(a, row, 2);
    n->queues = my_read_text(r, a, row, 3);
    n->born_us = get_int(a, row, 5);
    n->leases = get_int(a, row, 6);
    n->alive = visible(a, row, at.boot_us);
    if (n->leases > 0) n->expires_us = at.now_us + get_int(a, row, 7) - at.boot_us;
}

/* *at: the store's clocks as of the answer. */
static void nodes_read(reading *r, pawl_query *question, instant *at)
{
    char prefix[128];
    my_lock_name(r->s, prefix);
    my_script(r->c);
    my_add(r->c, SQL_server_now);
    my_put_text(r->c, prefix);
    bool good = my_ask(r, SQL_nodes);
    const answer *a = my_answer(r->c, SQL_nodes);
    size_t rows = good ? (size_t)a->rows : 0;
    pawl_nodes *nodes = my_read_alloc(r, sizeof *nodes);
    pawl_node_info *infos = my_read_alloc(r, (rows + 1) * sizeof *infos);
    const char **types = my_read_alloc(r, (rows + 1) * sizeof *types);
    pawl_bytes *told = my_read_alloc(r, (rows + 1) * sizeof *told);
    bool whole = nodes && infos && types && told;
    *at = my_instant(r->s, r->c);
    for (size_t i = 0; whole && i < rows; i++, nodes->count++) {
        read_node(r, a, (int)i, *at, &infos[i]);
        types[i] = my_read_text(r, a, (int)i, 4);
        told[i] = my_read_bytes(r, a, (int)i, 11);
        infos[i].draining = get_int(a, (int)i, 12) != 0;
    }
    if (!whole) return;
    nodes->nodes = infos;
    question->nodes = nodes;
    question->node_types = types;
    question->node_told = told;
}

void my_nodes_read(reading *r, pawl_query *question)
{
    instant at;
    nodes_read(r, question, &at);
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
        if (nodes->nodes[i].alive && nodes->nodes[i].queues && names_queue(nodes->nodes[i].queues, queue)) return true;
    return false;
}

/* What is due, of all queues that have any: from lane to lane of the ready index, of all queues at once, so that there are no more round trips
 * than a queue has lanes. */
typedef struct due_count {
    reading *r;
    const int64_t *ids; /* of the queues */
    const bool *turns;  /* their tenants take turns, or did */
    pawl_queue_info *infos;
    int64_t *lanes; /* the one that is counted next; NO_LANE: there is none left */
    int64_t now_us, most;
    size_t count;
} due_count;

#define NO_LANE INT64_MAX

static int64_t left(const due_count *d, size_t i) { return d->infos[i].due < d->most ? d->most - d->infos[i].due : 1; }

static void add_after(due_count *d, size_t i, int64_t lane)
{
    conn *c = d->r->c;
    my_put_int(c, d->ids[i]);
    my_put_int(c, lane);
    my_put_int(c, NO_LANE);
    my_put_int(c, (int64_t)i);
    my_add(c, SQL_lane_after);
}

static void add_count(due_count *d, size_t i)
{
    conn *c = d->r->c;
    my_put_int(c, d->ids[i]);
    my_put_int(c, d->lanes[i]);
    my_put_int(c, d->now_us);
    my_put_int(c, left(d, i));
    my_put_int(c, (int64_t)i);
    my_add(c, SQL_lane_count);
}

static void add_shared(due_count *d, size_t i)
{
    conn *c = d->r->c;
    my_put_int(c, d->ids[i]);
    my_put_int(c, d->now_us);
    my_put_int(c, d->most);
    my_put_int(c, (int64_t)i);
    my_add(c, SQL_shared_count);
}

static void take_count(const due_count *d, const answer *a)
{
    pawl_queue_info *info = &d->infos[get_int(a, 0, 0)];
    int64_t oldest_us = get_int(a, 0, 2);
    info->due += get_int(a, 0, 1);
    if (info->due > d->most) info->due = d->most;
    info->due_more = info->due == d->most;
    if (oldest_us && (!info->oldest_due_us || oldest_us < info->oldest_due_us)) info->oldest_due_us = oldest_us;
}

/* Sends the script; false: there is nothing more to ask, or failed. */
static bool take_round(due_count *d)
{
    conn *c = d->r->c;
    bool more = false;
    if (!d->r->failed && !my_send(c, CALL_READS)) d->r->failed = true;
    if (d->r->failed) return false;
    for (size_t i = 0; i < d->count; i++) d->lanes[i] = NO_LANE;
    EACH_ANSWER(a, c, SQL_shared_count) take_count(d, a);
    EACH_ANSWER(a, c, SQL_lane_count) take_count(d, a);
    EACH_ANSWER(a, c, SQL_lane_after)
    {
        if (!a->rows) continue;
        d->lanes[get_int(a, 0, 0)] = get_int(a, 0, 1);
        more = true;
    }
    return more;
}

static void count_due(due_count *d)
{
    my_script(d->r->c);
    for (size_t i = 0; i < d->count; i++) {
        if (!d->infos[i].pending) continue;
        add_after(d, i, -1);
        if (d->turns[i]) add_shared(d, i);
    }
    while (take_round(d)) {
        my_script(d->r->c);
        for (size_t i = 0; i < d->count; i++) {
            if (d->lanes[i] == NO_LANE) continue;
            add_count(d, i);
            add_after(d, i, d->lanes[i]);
        }
    }
}

static void read_queue(reading *r, const answer *a, int row, pawl_queue_info *info)
{
    info->name = my_read_text(r, a, row, 1);
    info->paused = get_int(a, row, 2) != 0;
    info->waiting = get_int(a, row, 3);
    info->pending = get_int(a, row, 4);
    info->leased = get_int(a, row, 5);
    info->failed = get_int(a, row, 6);
}

static void read_throttled(reading *r, pawl_queue_info *infos, size_t count)
{
    my_script(r->c);
    if (!my_ask(r, SQL_queues_throttled)) return;
    const answer *a = my_answer(r->c, SQL_queues_throttled);
    for (int row = 0; row < a->rows; row++)
        for (size_t i = 0; i < count; i++)
            if (infos[i].name && strcmp(infos[i].name, get_text(a, row, 0)) == 0) infos[i].throttled = get_int(a, row, 1);
}

static void read_queues(reading *r, pawl_stats *s, const char *only, const pawl_nodes *nodes)
{
    my_script(r->c);
    bool good = my_ask(r, SQL_queues);
    const answer *a = my_answer(r->c, SQL_queues);
    size_t rows = good ? (size_t)a->rows : 0, waiting = 0;
    pawl_queue_info *infos = my_read_alloc(r, (rows + 1) * sizeof *infos);
    int64_t *ids = my_read_alloc(r, (rows + 1) * sizeof *ids);
    bool *turns = my_read_alloc(r, (rows + 1) * sizeof *turns);
    for (size_t i = 0; infos && ids && turns && i < rows; i++) {
        if (only && strcmp(only, get_text(a, (int)i, 1)) != 0) continue;
        pawl_queue_info *info = &infos[s->queues_count];
        turns[s->queues_count] = get_int(a, (int)i, 7) != 0;
        ids[s->queues_count++] = get_int(a, (int)i, 0);
        read_queue(r, a, (int)i, info);
        s->waiting += info->waiting;
        s->pending += info->pending;
        s->leased += info->leased;
        s->dead += info->failed;
        waiting += info->pending > 0;
    }
    int64_t *lanes = my_read_alloc(r, (rows + 1) * sizeof *lanes);
    for (size_t i = 0; infos && ids && i < s->queues_count; i++)
        if (infos[i].name) infos[i].served = served(nodes, infos[i].name);
    due_count due = {.r = r,
                     .ids = ids,
                     .turns = turns,
                     .infos = infos,
                     .lanes = lanes,
                     .now_us = s->now_us,
                     .most = due_share(waiting),
                     .count = s->queues_count};
    if (infos && ids && turns && lanes && waiting) count_due(&due); /* the answer above is gone */
    s->queues = infos;
    if (infos && !only) read_throttled(r, infos, s->queues_count);
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
    histogram all[2] = {0}, part[2] = {0};
    pawl_stats_step *steps = my_read_alloc(r, STEPS_MAX * sizeof *steps), *step = NULL;
    if (!steps) return;
    steps_begin(s, steps);
    my_script(r->c);
    my_put_int(r->c, steps_first(s));
    my_put_int(r->c, steps_last(s));
    if (!my_ask(r, SQL_rollup)) return;
    const answer *a = my_answer(r->c, SQL_rollup);
    for (int i = 0; i < a->rows; i++) {
        pawl_stats_step *at = steps_at(s, get_int(a, i, 0));
        if (at != step) end_step(step, all, part);
        step = at;
        steps_add(s, step, get_int(a, i, 1), get_int(a, i, 2));
        histogram_merge(&part[0], get_bytes(a, i, 3));
        histogram_merge(&part[1], get_bytes(a, i, 4));
    }
    end_step(step, all, part);
    s->wait_p50_us = histogram_percentile(&all[0], 50);
    s->wait_p99_us = histogram_percentile(&all[0], 99);
    s->run_p50_us = histogram_percentile(&all[1], 50);
    s->run_p99_us = histogram_percentile(&all[1], 99);
}

pawl_stats *my_stats_read(reading *r, int64_t window_us, const char *only)
{
    pawl_stats *s = my_read_alloc(r, sizeof *s);
    pawl_query nodes = {0};
    instant at;
    nodes_read(r, &nodes, &at);
    if (!s || !nodes.nodes) return NULL;
    s->now_us = at.now_us;
    s->window_us = window_us > 0 ? (window_us + PAWL_MINUTE - 1) / PAWL_MINUTE * PAWL_MINUTE : PAWL_HOUR;
    read_queues(r, s, only, nodes.nodes);
    if (only) return s;
    read_rollups(r, s);
    my_script(r->c);
    if (my_ask(r, SQL_throttled)) s->throttled = get_int(my_answer(r->c, SQL_throttled), 0, 0);
    return s;
}
