/* Numbers: queues, what happened in a window of time, nodes. All of it from counters and rollups; only what is due now is counted, up to
 * a limit.
 */
#include "store/due.h"
#include "store/postgres/read.h"
#include "store/steps.h"
#include <stdlib.h>
#include <string.h>

/* ---- nodes --------------------------------------------------------------------------------------------------------------- */

static void read_node(reading *r, const PGresult *answer, int row, pawl_node_info *n)
{
    n->id = wire64(answer, row, 0);
    n->name = pg_read_text(r, answer, row, 1);
    n->pid = wire64(answer, row, 2);
    n->queues = pg_read_text(r, answer, row, 3);
    n->born_us = wire64(answer, row, 5);
    n->leases = wire64(answer, row, 6);
    n->alive = !PQgetisnull(answer, row, 8) && PQgetvalue(answer, row, 8)[0];
    if (n->leases > 0) n->expires_us = wire64(answer, row, 9) + wire64(answer, row, 7);
}

void pg_nodes_read(reading *r, pawl_query *question)
{
    pg_put_clock(r->s, &r->c->params);
    PGresult *answer = pg_ask(r, SQL_nodes);
    size_t rows = answer ? (size_t)PQntuples(answer) : 0;
    pawl_nodes *nodes = pg_read_alloc(r, sizeof *nodes);
    pawl_node_info *infos = pg_read_alloc(r, (rows + 1) * sizeof *infos);
    const char **types = pg_read_alloc(r, (rows + 1) * sizeof *types);
    pawl_bytes *told = pg_read_alloc(r, (rows + 1) * sizeof *told);
    bool whole = nodes && infos && types && told;
    for (size_t i = 0; whole && i < rows; i++, nodes->count++) {
        read_node(r, answer, (int)i, &infos[i]);
        types[i] = pg_read_text(r, answer, (int)i, 4);
        told[i] = pg_read_bytes(r, answer, (int)i, 10);
        infos[i].draining = wire32(answer, (int)i, 11) != 0;
    }
    PQclear(answer);
    if (!whole) return;
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
        if (nodes->nodes[i].alive && nodes->nodes[i].queues && names_queue(nodes->nodes[i].queues, queue)) return true;
    return false;
}

/* Of all queues that have any: one question, however many they are. */
static void count_due(reading *r, const int64_t *ids, int64_t most, pawl_queue_info *infos, size_t count)
{
    params *p = &r->c->params;
    pg_put_clock(r->s, p);
    pg_array_begin(p, OID_INT8);
    for (size_t i = 0; i < count; i++) array_int8(p, infos[i].pending > 0 ? ids[i] : 0);
    pg_array_end(p);
    pg_param_int4(p, (int32_t)most);
    PGresult *answer = pg_ask(r, SQL_due);
    for (int row = 0; answer && row < PQntuples(answer); row++) {
        pawl_queue_info *info = &infos[wire64(answer, row, 0) - 1];
        info->due = wire64(answer, row, 1);
        info->due_more = info->due >= most;
        info->oldest_due_us = wire64(answer, row, 2);
    }
    PQclear(answer);
}

static void read_queue(reading *r, const PGresult *answer, int row, const pawl_nodes *nodes, pawl_queue_info *info)
{
    info->name = pg_read_text(r, answer, row, 1);
    info->paused = PQgetvalue(answer, row, 2)[0];
    info->waiting = wire64(answer, row, 3);
    info->pending = wire64(answer, row, 4);
    info->leased = wire64(answer, row, 5);
    info->failed = wire64(answer, row, 6);
    if (info->name) info->served = served(nodes, info->name);
}

static void read_throttled(reading *r, pawl_queue_info *infos, size_t count)
{
    pg_params_begin(&r->c->params);
    PGresult *answer = pg_ask(r, SQL_queues_throttled);
    for (int row = 0; answer && row < PQntuples(answer); row++)
        for (size_t i = 0; i < count; i++)
            if (infos[i].name && strcmp(infos[i].name, PQgetvalue(answer, row, 0)) == 0)
                infos[i].throttled = wire64(answer, row, 1);
    PQclear(answer);
}

static void read_queues(reading *r, pawl_stats *s, const char *only, const pawl_nodes *nodes)
{
    pg_params_begin(&r->c->params);
    PGresult *answer = pg_ask(r, SQL_queues);
    size_t rows = answer ? (size_t)PQntuples(answer) : 0, waiting = 0;
    pawl_queue_info *infos = pg_read_alloc(r, (rows + 1) * sizeof *infos);
    int64_t *ids = pg_read_alloc(r, (rows + 1) * sizeof *ids);
    for (size_t i = 0; infos && ids && i < rows; i++) {
        if (only && strcmp(only, PQgetvalue(answer, (int)i, 1)) != 0) continue;
        pawl_queue_info *info = &infos[s->queues_count];
        ids[s->queues_count++] = wire64(answer, (int)i, 0);
        read_queue(r, answer, (int)i, nodes, info);
        s->waiting += info->waiting;
        s->pending += info->pending;
        s->leased += info->leased;
        s->dead += info->failed;
        waiting += info->pending > 0;
    }
    PQclear(answer);
    s->queues = infos;
    if (waiting) count_due(r, ids, due_share(waiting), infos, s->queues_count);
    if (infos && !only) read_throttled(r, infos, s->queues_count);
}

/* ---- rollups ------------------------------------------------------------------------------------------------------------- */

#define BUCKETS 96

typedef struct histogram {
    int64_t counts[BUCKETS], total;
} histogram;

/* An array as PostgreSQL prints it: "{1,NULL,2}". NULL is no number, and none. */
static void merge(histogram *h, const char *text)
{
    for (int i = 0; text && *text && i < BUCKETS; i++) {
        int64_t n = 0;
        pg_number_read(text + 1, &n);
        h->counts[i] += n;
        h->total += n;
        text = strchr(text + 1, ',');
    }
}

/* The middle of its bucket. */
static int64_t percentile(const histogram *h, int percent)
{
    int64_t rank = (h->total * percent + 99) / 100, seen = 0;
    for (int i = 0; i < BUCKETS; i++) {
        seen += h->counts[i];
        if (seen < rank || !h->counts[i]) continue;
        int64_t low = INT64_C(1) << (i / 2);
        return i % 2 ? low * 7 / 4 : low * 5 / 4;
    }
    return 0;
}

static void sum(histogram *all, const histogram *part)
{
    for (int i = 0; i < BUCKETS; i++) all->counts[i] += part->counts[i];
    all->total += part->total;
}

/* What was counted of a step is complete. */
static void end_step(pawl_stats_step *step, histogram all[2], histogram part[2])
{
    if (!step) return;
    step->wait_p50_us = percentile(&part[0], 50);
    step->wait_p99_us = percentile(&part[0], 99);
    step->run_p50_us = percentile(&part[1], 50);
    step->run_p99_us = percentile(&part[1], 99);
    for (int i = 0; i < 2; i++) sum(&all[i], &part[i]);
    memset(part, 0, 2 * sizeof *part);
}

static void read_rollups(reading *r, pawl_stats *s)
{
    histogram all[2] = {0}, part[2] = {0};
    pawl_stats_step *steps = pg_read_alloc(r, STEPS_MAX * sizeof *steps), *step = NULL;
    if (!steps) return;
    steps_begin(s, steps);
    pg_params_begin(&r->c->params);
    pg_param_int8(&r->c->params, steps_first(s));
    pg_param_int8(&r->c->params, steps_last(s));
    pg_param_int8(&r->c->params, s->step_us / PAWL_MINUTE);
    PGresult *answer = pg_ask(r, SQL_rollup);
    for (int i = 0; answer && i < PQntuples(answer); i++) {
        pawl_stats_step *at = steps_at(s, wire64(answer, i, 0));
        if (at != step) end_step(step, all, part);
        step = at;
        steps_add(s, step, wire64(answer, i, 1), wire64(answer, i, 2));
        if (!PQgetisnull(answer, i, 3)) merge(&part[0], PQgetvalue(answer, i, 3));
        if (!PQgetisnull(answer, i, 4)) merge(&part[1], PQgetvalue(answer, i, 4));
    }
    PQclear(answer);
    end_step(step, all, part);
    s->wait_p50_us = percentile(&all[0], 50);
    s->wait_p99_us = percentile(&all[0], 99);
    s->run_p50_us = percentile(&all[1], 50);
    s->run_p99_us = percentile(&all[1], 99);
}

static int64_t now_of(reading *r)
{
    const pawl_clock *test = postgres_test_clock ? postgres_test_clock(&r->s->clock) : NULL;
    if (test) return test->wall_us(test->ctx);
    pg_params_begin(&r->c->params);
    PGresult *answer = pg_ask(r, SQL_server_now);
    int64_t now_us = answer ? wire64(answer, 0, 0) : 0;
    PQclear(answer);
    return now_us;
}

pawl_stats *pg_stats_read(reading *r, int64_t window_us, const char *only)
{
    pawl_stats *s = pg_read_alloc(r, sizeof *s);
    pawl_query nodes = {0};
    pg_nodes_read(r, &nodes);
    if (!s || !nodes.nodes) return NULL;
    s->now_us = now_of(r);
    s->window_us = window_us > 0 ? (window_us + PAWL_MINUTE - 1) / PAWL_MINUTE * PAWL_MINUTE : PAWL_HOUR;
    read_queues(r, s, only, nodes.nodes);
    if (only) return s;
    read_rollups(r, s);
    pg_params_begin(&r->c->params);
    PGresult *throttled = pg_ask(r, SQL_throttled);
    if (throttled) s->throttled = wire64(throttled, 0, 0);
    PQclear(throttled);
    return s;
}
