/* Where claims go on.
 *
 * A claim steps from lane to lane of the ready index (queue, priority, class, type) by one probe each. The lanes that claims of this handle
 * have seen are remembered, so that one message asks for all of them and for what may lie between.
 *
 * What a claim takes leaves dead entries behind, which stay as long as somebody's old snapshot needs them. A claim that began at the front
 * would look at all of them again. So each lane is remembered with the time below which nothing is left. What is put below that time
 * afterwards is told by the sum of `backs` (watch.c); what is told to nobody is found when everything is looked at again, every few seconds.
 * A handle that nobody watches is told nothing, and looks at everything.
 */
#include "base/alloc.h"
#include "store/mysql/inner.h"

#define LANES_MAX 1000 /* of one queue; more are found anew each time */
#define WHOLE_EVERY_US (5 * PAWL_SECOND)

void my_ready_init(ready *r, const pawl_allocator *a)
{
    *r = (ready){.allocator = a};
    pthread_mutex_init(&r->lock, NULL);
}

void my_ready_done(ready *r)
{
    if (!r->allocator) return;
    for (int i = 0; i < READY_QUEUES; i++) alloc_free(r->allocator, r->queues[i].lanes);
    pthread_mutex_destroy(&r->lock);
    r->allocator = NULL;
}

void my_ready_chill(ready *r)
{
    pthread_mutex_lock(&r->lock);
    r->chills++;
    pthread_mutex_unlock(&r->lock);
}

void my_ready_heard(ready *r, bool heard)
{
    pthread_mutex_lock(&r->lock);
    r->heard = heard;
    pthread_mutex_unlock(&r->lock);
}

static ready_queue *find(ready *r, int32_t queue_id, bool make)
{
    for (int i = 0; i < READY_QUEUES && r->queues[i].queue_id; i++)
        if (r->queues[i].queue_id == queue_id) return &r->queues[i];
    for (int i = 0; make && i < READY_QUEUES; i++) {
        if (r->queues[i].queue_id) continue;
        r->queues[i].queue_id = queue_id;
        return &r->queues[i];
    }
    return NULL;
}

int my_ready_lanes(ready *r, int32_t queue_id, pawl_arena *arena, ready_lane **lanes, uint64_t *chills)
{
    int count = 0;
    int64_t now_us = my_mono_us();
    pthread_mutex_lock(&r->lock);
    ready_queue *q = find(r, queue_id, true);
    bool whole = q && (!r->heard || q->chills != r->chills || now_us >= q->whole_at_us);
    ready_lane *copy = q && q->count ? pawl_arena_alloc(arena, (size_t)q->count * sizeof *copy) : NULL;
    for (int i = 0; copy && i < q->count; i++) copy[count++] = (ready_lane){q->lanes[i].lane, whole ? 0 : q->lanes[i].from_us};
    if (whole) q->whole_at_us = now_us + WHOLE_EVERY_US;
    *chills = r->chills;
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

void my_ready_learn(ready *r, int32_t queue_id, const ready_lane *lanes, int count, uint64_t chills)
{
    pthread_mutex_lock(&r->lock);
    ready_queue *q = find(r, queue_id, false);
    if (q) {
        bool keep = count < LANES_MAX && make_room(r, q, count);
        if (keep && count) memcpy(q->lanes, lanes, (size_t)count * sizeof *lanes);
        q->count = keep ? count : 0;
        q->chills = chills; /* what was put back meanwhile is looked for next time */
    }
    pthread_mutex_unlock(&r->lock);
}
