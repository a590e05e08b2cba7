/* Sums of a transaction.
 *
 * A batch changes thousands of tasks but only a few queues, nodes and types. Their rows are written once per transaction, whatever the number
 * of operations, and nothing ever counts rows. All of them belong to the batch's own lane, so nobody else waits for them; the only
 * exception are leases of other nodes that ended here.
 */
#include "base/alloc.h"
#include "store/mysql/inner.h"
#include "store/histogram.h"
#include <stdio.h>

typedef struct rollup {
    map_node node;
    int32_t queue_id, type_id;
    rollup_outcome outcome;
    int64_t total;
    histogram wait, run;
    bool changed;
} rollup;

/* An array with room for one more element: the same, or a larger one in its place; NULL: no memory, and noted. */
static void *room_for_one(work *w, void *array, int count, int *room, size_t size)
{
    if (count < *room) return array;
    int more = *room ? *room * 2 : 8;
    void *grown = alloc_resize(w->s->allocator, array, (size_t)more * size);
    if (grown) *room = more;
    else w->no_memory = true;
    return grown;
}

/* ---- queues -------------------------------------------------------------------------------------------------------------- */

queue_tally *my_queue(work *w, int32_t queue_id)
{
    static _Thread_local queue_tally nowhere; /* without memory nothing will be stored anyway */
    if (w->queue_last < w->queues_count && w->queues[w->queue_last].queue_id == queue_id) return &w->queues[w->queue_last];
    for (int i = 0; i < w->queues_count; i++)
        if (w->queues[i].queue_id == queue_id) return &w->queues[w->queue_last = i];
    queue_tally *grown = room_for_one(w, w->queues, w->queues_count, &w->queues_room, sizeof *grown);
    if (!grown) return &nowhere;
    w->queues = grown;
    grown[w->queues_count] = (queue_tally){.queue_id = queue_id};
    return &grown[w->queue_last = w->queues_count++];
}

void my_count(work *w, int32_t queue_id, pawl_state state, int by) { my_queue(w, queue_id)->delta[state] += by; }

static void flush_queues(work *w)
{
    buf b;
    buf_init(&b, w->s->allocator, 1 << 20);
    for (int i = 0; i < w->queues_count; i++) {
        const queue_tally *q = &w->queues[i];
        const int64_t n[] = {w->node,
                             w->lane,
                             q->queue_id,
                             q->delta[PAWL_WAITING],
                             q->delta[PAWL_PENDING],
                             q->delta[PAWL_LEASED],
                             q->delta[PAWL_FAILED]};
        if (!n[3] && !n[4] && !n[5] && !n[6]) continue;
        buf_str(&b, b.len ? ",(" : "(");
        for (int k = 0; k < 7; k++) {
            if (k) buf_char(&b, ',');
            lit_int(&b, n[k]);
        }
        buf_char(&b, ')');
    }
    if (b.failed) w->no_memory = true;
    if (b.len) {
        my_put_raw(w->c, b.data, b.len);
        my_add(w->c, SQL_counts_put);
    }
    buf_done(&b);
}

/* ---- leases -------------------------------------------------------------------------------------------------------------- */

void my_lease_count(work *w, int64_t node, int by)
{
    if (node == w->node && node) {
        w->leases += by;
        return;
    }
    for (int i = 0; i < w->takes_count; i++) {
        if (w->takes[i].node != node) continue;
        w->takes[i].leases += by;
        return;
    }
    take_tally *grown = room_for_one(w, w->takes, w->takes_count, &w->takes_room, sizeof *grown);
    if (!grown) return;
    w->takes = grown;
    grown[w->takes_count++] = (take_tally){node, by};
}

static int by_node(const void *a, const void *b)
{
    const take_tally *x = a, *y = b;
    return x->node < y->node ? -1 : x->node > y->node;
}

/* A commit of node 0 may be a long transaction of somebody's, so it leaves a row of its own, which the node adds up with its renewals. */
static void flush_takes(work *w)
{
    buf b;
    if (w->takes_count == 0) return;
    qsort(w->takes, (size_t)w->takes_count, sizeof *w->takes, by_node);
    buf_init(&b, w->s->allocator, 1 << 20);
    for (int i = 0; i < w->takes_count; i++)
        buf_fmt(&b, "%s(%lld,%lld,%lld)", i ? "," : "", (long long)w->takes[i].node,
                w->node ? -3LL : -1000LL - (long long)w->lane, (long long)w->takes[i].leases);
    if (b.failed) w->no_memory = true;
    my_put_raw(w->c, buf_text(&b), b.len);
    my_add(w->c, SQL_leases_take);
    buf_done(&b);
}

/* ---- rollups ------------------------------------------------------------------------------------------------------------- */

static uint64_t rollup_hash(int32_t queue_id, int32_t type_id, rollup_outcome outcome)
{
    return ((uint64_t)(uint32_t)queue_id << 32 | (uint32_t)type_id) * UINT64_C(0x9e3779b97f4a7c15) + (uint64_t)outcome;
}

static rollup *rollup_of(work *w, int32_t queue_id, int32_t type_id, rollup_outcome outcome)
{
    uint64_t hash = rollup_hash(queue_id, type_id, outcome);
    for (map_node *node = map_get(&w->rollups, hash); node; node = map_next(node)) {
        rollup *r = (rollup *)node;
        if (r->queue_id == queue_id && r->type_id == type_id && r->outcome == outcome) return r;
    }
    rollup *r = my_work_alloc(w, sizeof *r);
    if (!r) return NULL;
    r->queue_id = queue_id;
    r->type_id = type_id;
    r->outcome = outcome;
    map_put(&w->rollups, &r->node, hash);
    return r;
}

void my_roll(work *w, int32_t queue_id, int32_t type_id, rollup_outcome outcome)
{
    rollup *r = rollup_of(w, queue_id, type_id, outcome);
    if (!r) return;
    r->total++;
    r->changed = true;
}

void my_roll_run(work *w, int32_t queue_id, int32_t type_id, rollup_outcome outcome, const pawl_execution *run, int64_t due_us)
{
    rollup *r = rollup_of(w, queue_id, type_id, outcome);
    if (!r) return;
    r->total++;
    r->changed = true;
    if (run->outcome == PAWL_ATTEMPT_NONE || run->finished_us == 0) return;
    histogram_add(&r->wait, run->started_us > due_us ? run->started_us - due_us : 0);
    histogram_add(&r->run, run->finished_us > run->started_us ? run->finished_us - run->started_us : 0);
}

void my_roll_add(work *w, int32_t queue_id, int32_t type_id, rollup_outcome outcome, int64_t total, pawl_bytes wait,
                 pawl_bytes run)
{
    rollup *r = rollup_of(w, queue_id, type_id, outcome);
    if (!r) return;
    r->total += total;
    r->changed = true;
    histogram_merge(&r->wait, wait);
    histogram_merge(&r->run, run);
}

/* The minute in which the commit will be is known only once the server has said its time. */
void my_add_rollups_look(work *w)
{
    int64_t minute = my_server_now(w->s) / PAWL_MINUTE;
    if (!w->node) return; /* its lane is new */
    w->minutes[0] = minute - 1;
    w->minutes[1] = minute + 1;
    my_put_int(w->c, w->minutes[0]);
    my_put_int(w->c, w->minutes[1]);
    my_put_int(w->c, w->node);
    my_put_int(w->c, w->lane);
    my_add(w->c, SQL_rollups_look);
}

void my_rollups_take_in(work *w)
{
    const answer *a = my_answer(w->c, SQL_rollups_look);
    for (int i = 0; i < a->rows; i++) {
        if (get_int(a, i, 6) != w->now_us / PAWL_MINUTE) continue;
        rollup *r = rollup_of(w, (int32_t)get_int(a, i, 0), (int32_t)get_int(a, i, 1), (rollup_outcome)get_int(a, i, 2));
        if (!r) return;
        r->total = get_int(a, i, 3);
        histogram_merge(&r->wait, get_bytes(a, i, 4));
        histogram_merge(&r->run, get_bytes(a, i, 5));
    }
}

static void add_histogram(work *w, buf *b, const histogram *h)
{
    char bytes[HISTOGRAM_BYTES];
    buf_char(b, ',');
    lit_bytes(w->c, b, h->total ? (pawl_bytes){bytes, histogram_write(h, bytes)} : (pawl_bytes){0});
}

static void flush_rollups(work *w)
{
    buf b;
    buf_init(&b, w->s->allocator, 64 << 20);
    map_each(node, &w->rollups) {
        const rollup *r = (rollup *)node;
        if (!r->changed) continue;
        const int64_t n[] = {w->now_us / PAWL_MINUTE, w->node, w->lane, r->queue_id, r->type_id, r->outcome, r->total};
        buf_str(&b, b.len ? ",(" : "(");
        for (int k = 0; k < 7; k++) {
            if (k) buf_char(&b, ',');
            lit_int(&b, n[k]);
        }
        add_histogram(w, &b, &r->wait);
        add_histogram(w, &b, &r->run);
        buf_char(&b, ')');
    }
    if (b.failed) w->no_memory = true;
    if (b.len) {
        my_put_raw(w->c, b.data, b.len);
        my_add(w->c, SQL_rollups_put);
    }
    buf_done(&b);
}

/* ---- hours --------------------------------------------------------------------------------------------------------------- */

void my_born(work *w, pawl_id id)
{
    if (!w->born_min || id < w->born_min) w->born_min = id;
    if (id > w->born_max) w->born_max = id;
}

static void flush_born(work *w)
{
    char row[160];
    if (!w->born_min) return;
    int n = snprintf(row, sizeof row, "(%lld,%lld,%lld,%lld,%lld)", (long long)(w->now_us / PAWL_HOUR), (long long)w->node,
                     (long long)w->lane, (long long)w->born_min, (long long)(w->born_max | INT64_C(4294967295)));
    my_put_raw(w->c, row, (size_t)n);
    my_add(w->c, SQL_born_put);
}

void my_tally_flush(work *w)
{
    flush_queues(w);
    flush_born(w);
    flush_rollups(w);
    flush_takes(w);
}
