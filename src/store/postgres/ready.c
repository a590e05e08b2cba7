/* Where claims go on.
 *
 * What a claim takes from the ready index leaves dead entries behind, which stay as long as somebody's old snapshot needs them. A claim
 * that began at the front would look at all of them again. So each lane of the index (queue, priority, class, type) that claims of this
 * handle have seen is remembered with the time below which nothing is left. What others put below that time is told by their hints; what
 * is told to nobody (a lost hint) is found by the claim after the next safety poll, which looks at everything.
 */
#include "base/alloc.h"
#include "store/postgres/inner.h"
#include <stdlib.h>

#define LANES_MAX 1000 /* of one queue; with more, all are found anew each time */

void pg_ready_init(ready *r, const pawl_allocator *a)
{
    *r = (ready){.allocator = a};
    pthread_mutex_init(&r->lock, NULL);
}

void pg_ready_done(ready *r)
{
    if (!r->allocator) return;
    for (int i = 0; i < READY_QUEUES; i++) alloc_free(r->allocator, r->queues[i].lanes);
    pthread_mutex_destroy(&r->lock);
    r->allocator = NULL;
}

void pg_ready_chill(ready *r)
{
    pthread_mutex_lock(&r->lock);
    for (int i = 0; i < READY_QUEUES; i++) r->queues[i].cold = true;
    pthread_mutex_unlock(&r->lock);
}

static ready_queue *find(ready *r, int32_t queue_id, bool make)
{
    for (int i = 0; i < READY_QUEUES && r->queues[i].queue_id; i++)
        if (r->queues[i].queue_id == queue_id) return &r->queues[i];
    for (int i = 0; make && i < READY_QUEUES; i++) {
        if (r->queues[i].queue_id) continue;
        r->queues[i].queue_id = queue_id;
        r->queues[i].cold = true;
        return &r->queues[i];
    }
    return NULL;
}

static int compare(const void *a, const void *b)
{
    const ready_lane *x = a, *y = b;
    return x->lane < y->lane ? -1 : x->lane > y->lane;
}

/* ---- hints --------------------------------------------------------------------------------------------------------------- */

/* A lane that is not known needs no hint: the next claim finds it. But one that is under way may have found it before this. */
static void hint_one(ready *r, const int64_t n[3])
{
    ready_queue *q = find(r, (int32_t)n[0], false);
    if (!q || q->cold) return;
    for (int i = 0; i < q->count; i++) {
        ready_lane *lane = &q->lanes[i];
        if (lane->lane != n[1]) continue;
        if (n[2] < lane->hint_us) lane->hint_us = n[2];
        return;
    }
    if (q->asking) q->cold = true;
}

void pg_ready_hint(ready *r, const char *hints)
{
    int64_t n[3];
    if (strchr(hints, '*')) {
        pg_ready_chill(r);
        return;
    }
    pthread_mutex_lock(&r->lock);
    for (const char *at = hints; *at; at += *at == ';') {
        int i = 0;
        for (const char *next; i < 3 && (next = pg_number_read(at, &n[i])); i++) at = next;
        if (i < 3) break; /* not ours */
        hint_one(r, n);
    }
    pthread_mutex_unlock(&r->lock);
}

/* ---- claims -------------------------------------------------------------------------------------------------------------- */

int pg_ready_lanes(ready *r, int32_t queue_id, uint64_t types, pawl_arena *arena, ready_lane **lanes)
{
    int count = 0;
    pthread_mutex_lock(&r->lock);
    ready_queue *q = find(r, queue_id, true);
    bool known = q && !q->cold && q->types == types && q->count > 0 && q->count < LANES_MAX;
    ready_lane *copy = known ? pawl_arena_alloc(arena, (size_t)q->count * sizeof *copy) : NULL;
    for (int i = 0; copy && i < q->count; i++) {
        ready_lane *lane = &q->lanes[i];
        if (lane->hint_us < lane->from_us) lane->from_us = lane->hint_us;
        lane->hint_us = INT64_MAX;
        copy[count++] = *lane;
    }
    if (q) {
        q->cold = false; /* what comes in while the claim is under way says so again */
        q->asking = true;
    }
    pthread_mutex_unlock(&r->lock);
    *lanes = copy;
    return count;
}

static bool make_room(ready *r, ready_queue *q, int count)
{
    if (count <= q->room) return true;
    ready_lane *grown = alloc_resize(r->allocator, q->lanes, (size_t)count * sizeof *grown);
    if (!grown) return false;
    q->lanes = grown;
    q->room = count;
    return true;
}

/* Brings along what was hinted at while the claim was under way. Both are sorted. */
static void merge_hints(const ready_queue *q, ready_lane *lanes, int count)
{
    for (int i = 0, k = 0; i < count; i++) {
        while (k < q->count && compare(&q->lanes[k], &lanes[i]) < 0) k++;
        lanes[i].hint_us = k < q->count && compare(&q->lanes[k], &lanes[i]) == 0 ? q->lanes[k].hint_us : INT64_MAX;
    }
}

void pg_ready_learn(ready *r, int32_t queue_id, uint64_t types, ready_lane *lanes, int count)
{
    pthread_mutex_lock(&r->lock);
    ready_queue *q = find(r, queue_id, false);
    bool keep = q && count > 0 && count < LANES_MAX && make_room(r, q, count);
    if (keep) {
        qsort(lanes, (size_t)count, sizeof *lanes, compare);
        merge_hints(q, lanes, count);
        memcpy(q->lanes, lanes, (size_t)count * sizeof *lanes);
    }
    if (q) {
        q->count = keep ? count : 0;
        q->types = types;
        q->asking = false;
    }
    pthread_mutex_unlock(&r->lock);
}

bool pg_ready_idle(ready *r)
{
    pthread_mutex_lock(&r->lock);
    bool idle = !r->busy;
    pthread_mutex_unlock(&r->lock);
    return idle;
}

void pg_ready_found(ready *r, bool busy)
{
    pthread_mutex_lock(&r->lock);
    r->busy = busy;
    pthread_mutex_unlock(&r->lock);
}
