/* Rollups: what happened in each minute, kept for two days, and the numbers made of them.
 *
 * Durations are counted in buckets of two to the octave; a percentile answers its bucket's geometric middle, so it is off by a
 * factor of at most 2^(1/4).
 */
#include "store/due.h"
#include "store/memory.h"
#include "store/steps.h"
#include <stdlib.h>

static int64_t minute_number(int64_t now_us) { return now_us / PAWL_MINUTE; }

static size_t slot_of(int64_t minute) { return (size_t)(minute % MINUTES + (minute < 0 ? MINUTES : 0)) % MINUTES; }

bool mem_minute_ready(mem *m, int64_t now_us)
{
    int64_t number = minute_number(now_us);
    mem_minute **slot = &m->minutes[slot_of(number)];
    if (!*slot && !(*slot = alloc_new(&m->allocator, sizeof **slot))) return false;
    if ((*slot)->minute != number) **slot = (mem_minute){.minute = number};
    m->minute = *slot;
    return true;
}

/* Bucket 0 is 0 and 1; then [2^k, 2^k * sqrt 2) and [2^k * sqrt 2, 2^(k+1)) in turn. */
static int bucket_of(int64_t us)
{
    if (us < 2) return 0;
    int octave = 63 - __builtin_clzll((unsigned long long)us);
    int64_t middle = (int64_t)(1.4142135623730951 * (double)(INT64_C(1) << octave));
    int bucket = 2 * octave + (us > middle) - 1;
    return bucket < BUCKETS ? bucket : BUCKETS - 1;
}

static int64_t bucket_value(int bucket)
{
    if (bucket == 0) return 1;
    int octave = (bucket + 1) / 2;
    double low = (double)(INT64_C(1) << octave) * ((bucket + 1) % 2 ? 1.4142135623730951 : 1.0);
    return (int64_t)(low * 1.189207115002721);
}

void mem_count_run(mem *m, const mem_task *t, const pawl_execution *run)
{
    mem_minute *minute = m->minute;
    minute->wait[bucket_of(run->started_us - t->run_at_us)]++;
    minute->run[bucket_of(run->finished_us - run->started_us)]++;
}

static int64_t percentile(const int64_t counts[BUCKETS], int percent)
{
    int64_t total = 0, seen = 0;
    for (int i = 0; i < BUCKETS; i++) total += counts[i];
    int64_t rank = (total * percent + 99) / 100;
    for (int i = 0; i < BUCKETS; i++)
        if ((seen += counts[i]) >= rank && counts[i]) return bucket_value(i);
    return 0;
}

typedef struct mem_times {
    int64_t wait[BUCKETS], run[BUCKETS];
} mem_times;

static void add_minute(pawl_stats *s, pawl_stats_step *step, const mem_minute *minute, mem_times *part)
{
    const int64_t counts[] = {
        0, minute->dispatched, minute->succeeded, minute->failed, minute->cancelled, minute->retried, minute->rescued};
    for (int i = STEP_DISPATCHED; i <= STEP_RESCUED; i++) steps_add(s, step, i, counts[i]);
    for (int i = 0; i < BUCKETS; i++) {
        part->wait[i] += minute->wait[i];
        part->run[i] += minute->run[i];
    }
}

static void end_step(pawl_stats_step *step, mem_times *all, mem_times *part)
{
    if (!step) return;
    step->wait_p50_us = percentile(part->wait, 50);
    step->wait_p99_us = percentile(part->wait, 99);
    step->run_p50_us = percentile(part->run, 50);
    step->run_p99_us = percentile(part->run, 99);
    for (int i = 0; i < BUCKETS; i++) {
        all->wait[i] += part->wait[i];
        all->run[i] += part->run[i];
    }
    *part = (mem_times){0};
}

static void sum_window(const mem *m, pawl_stats *s)
{
    mem_times all = {0}, part = {0};
    pawl_stats_step *step = NULL;
    int64_t last = steps_last(s), first = steps_first(s);
    for (int64_t i = last - first < MINUTES ? first : last - MINUTES + 1; i <= last; i++) {
        const mem_minute *minute = m->minutes[slot_of(i)];
        if (!minute || minute->minute != i) continue;
        if (steps_at(s, i) != step) end_step(step, &all, &part);
        step = steps_at(s, i);
        add_minute(s, step, minute, &part);
    }
    end_step(step, &all, &part);
    s->wait_p50_us = percentile(all.wait, 50);
    s->wait_p99_us = percentile(all.wait, 99);
    s->run_p50_us = percentile(all.run, 50);
    s->run_p99_us = percentile(all.run, 99);
}

static void count_due(const mem_queue *q, int64_t now_us, int64_t most, pawl_queue_info *info)
{
    list_each(link, &q->kinds) {
        const mem_kind *k = container_of(link, mem_kind, link);
        for (tree_node *l = k->levels.first; l; l = tree_next(l)) {
            for (int i = 0; i < SUSPICIONS; i++) {
                const tree_node *node = level_of(l)->ready[i].first;
                int64_t oldest = node ? task_of_order(node)->run_at_us : INT64_MAX;
                if (oldest <= now_us && (!info->oldest_due_us || oldest < info->oldest_due_us)) info->oldest_due_us = oldest;
                for (; node && info->due < most && task_of_order(node)->run_at_us <= now_us; node = tree_next(node)) info->due++;
            }
        }
    }
    info->due_more = info->due == most;
}

static bool names_queue(const char *names, const char *queue)
{
    size_t len = strlen(queue);
    for (const char *at = names; *at; at += strcspn(at, ","), at += *at == ',')
        if (strncmp(at, queue, len) == 0 && (at[len] == ',' || at[len] == '\0')) return true;
    return false;
}

static bool served(const mem *m, const char *queue, int64_t boot_us)
{
    list_each(link, &m->node_list) {
        const mem_node *n = container_of(link, mem_node, link);
        bool living = n->alive && (n->handle || !mem_node_lapsed(n, boot_us));
        if (living && names_queue(n->queues, queue)) return true;
    }
    return false;
}

static int by_name(const void *a, const void *b)
{
    return strcmp(((const pawl_queue_info *)a)->name, ((const pawl_queue_info *)b)->name);
}

static bool add_queue(const mem *m, const mem_queue *q, pawl_stats *s, int64_t most, int64_t boot_us, pawl_arena *arena)
{
    pawl_queue_info *info = (pawl_queue_info *)&s->queues[s->queues_count++];
    if (!(info->name = pawl_arena_str(arena, q->name))) return false;
    info->paused = q->paused;
    info->served = served(m, q->name, boot_us);
    info->waiting = q->waiting;
    info->pending = q->pending;
    info->leased = q->leased;
    info->failed = q->failed;
    info->throttled = q->throttled;
    count_due(q, s->now_us, most, info);
    s->waiting += q->waiting;
    s->pending += q->pending;
    s->leased += q->leased;
    s->dead += q->failed;
    return true;
}

static size_t count_waiting(const mem *m)
{
    size_t waiting = 0;
    list_each(link, &m->queue_list) waiting += container_of(link, mem_queue, link)->pending > 0;
    return waiting;
}

pawl_status mem_stats(mem *m, int64_t window_us, const char *only, int64_t now_us, int64_t boot_us, pawl_arena *arena,
                      pawl_stats **out)
{
    pawl_stats *s = pawl_arena_alloc(arena, sizeof *s);
    pawl_queue_info *queues = pawl_arena_alloc(arena, m->queues.count * sizeof *queues);
    pawl_stats_step *steps = pawl_arena_alloc(arena, STEPS_MAX * sizeof *steps);
    if (!s || !queues || !steps) return PAWL_NO_MEMORY;
    s->now_us = now_us;
    s->window_us = window_us > 0 ? (window_us + PAWL_MINUTE - 1) / PAWL_MINUTE * PAWL_MINUTE : PAWL_HOUR;
    steps_begin(s, steps);
    s->queues = queues;
    s->throttled = mem_throttled(m);
    int64_t most = only ? DUE_ALL : due_share(count_waiting(m));
    list_each(link, &m->queue_list) {
        const mem_queue *q = container_of(link, mem_queue, link);
        if (only && strcmp(only, q->name) != 0) continue;
        if (!add_queue(m, q, s, most, boot_us, arena)) return PAWL_NO_MEMORY;
    }
    if (s->queues_count > 1) qsort(queues, s->queues_count, sizeof *queues, by_name);
    if (!only) sum_window(m, s);
    *out = s;
    return PAWL_OK;
}
