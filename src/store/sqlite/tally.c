/* Sums of a transaction.
 *
 * A batch changes thousands of tasks but only a few queues, nodes, types and slots. Their rows are written once per
 * transaction, whatever the number of operations, and nothing ever counts rows. Entries are found by a short search that starts
 * with the one found last; rollups, of which there may be as many as there are types, have a hash.
 */
#include "store/sqlite/tally.h"
#include "base/alloc.h"
#include "base/idgen.h"
#include "store/sqlite/inner.h"

#define HOUR_MS INT64_C(3600000)

void tally_init(tally *t, const pawl_allocator *a)
{
    *t = (tally){.allocator = a};
    tally_reset(t);
}

void tally_done(tally *t)
{
    if (!t->allocator) return;
    alloc_free(t->allocator, t->queues);
    alloc_free(t->allocator, t->nodes);
    alloc_free(t->allocator, t->slots);
    alloc_free(t->allocator, t->seen);
    alloc_free(t->allocator, t->rollups);
    *t = (tally){0};
}

void tally_reset(tally *t)
{
    t->queues_count = t->nodes_count = t->slots_count = t->rollups_count = t->seen_count = 0;
    t->queue_last = t->rollup_last = t->slot_last = 0;
    t->granted = false;
    t->born_min = t->born_max = 0;
    for (int i = 0; i < TALLY_CHAINS; i++) t->chains[i] = -1;
}

/* An array with room for one more element: the same, or a larger one in its place; NULL: no memory, and noted. */
static void *room_for_one(tx *x, void *array, int count, int *room, size_t size)
{
    if (count < *room) return array;
    int more = *room ? *room * 2 : 8;
    void *grown = alloc_resize(x->t->allocator, array, (size_t)more * size);
    if (grown) *room = more;
    else conn_note(x->c, SQLITE_NOMEM);
    return grown;
}

/* ---- queues -------------------------------------------------------------------------------------------------------------- */

static queue_tally *queue_of(tx *x, int64_t queue_id)
{
    tally *t = x->t;
    if (t->queue_last < t->queues_count && t->queues[t->queue_last].queue_id == queue_id) return &t->queues[t->queue_last];
    for (int i = 0; i < t->queues_count; i++)
        if (t->queues[i].queue_id == queue_id) return &t->queues[t->queue_last = i];
    queue_tally *grown = room_for_one(x, t->queues, t->queues_count, &t->queues_room, sizeof *grown);
    if (!grown) return NULL;
    t->queues = grown;
    grown[t->queues_count] = (queue_tally){.queue_id = queue_id};
    return &grown[t->queue_last = t->queues_count++];
}

static queue_tally *known_queue(tx *x, int64_t queue_id)
{
    queue_tally *tallied = queue_of(x, queue_id);
    if (!tallied || tallied->known) return tallied;
    query q = query_on(x->c, SQL_queue_get);
    put_int(&q, queue_id);
    if (query_row(&q)) {
        tallied->paused = get_int(&q) != 0;
        tallied->stored = get_int(&q);
    }
    query_end(&q);
    tallied->known = true;
    return tallied;
}

void tally_state(tx *x, int64_t queue_id, pawl_state state, int by)
{
    queue_tally *q = queue_of(x, queue_id);
    if (q) q->delta[state] += by;
}

bool tally_paused(tx *x, int64_t queue_id)
{
    queue_tally *q = known_queue(x, queue_id);
    return q && q->paused;
}

void tally_pause(tx *x, int64_t queue_id, bool paused)
{
    queue_tally *q = known_queue(x, queue_id);
    if (q) q->paused = paused;
}

int64_t tally_plan(tx *x, int64_t queue_id, int by)
{
    queue_tally *q = known_queue(x, queue_id);
    return q ? q->stored + (q->planned += by) : 0;
}

static void flush_queue(tx *x, const queue_tally *t)
{
    if (!t->delta[PAWL_WAITING] && !t->delta[PAWL_PENDING] && !t->delta[PAWL_LEASED] && !t->delta[PAWL_FAILED]) return;
    query q = query_on(x->c, SQL_queue_add);
    put_int(&q, t->queue_id);
    put_int(&q, t->delta[PAWL_WAITING]);
    put_int(&q, t->delta[PAWL_PENDING]);
    put_int(&q, t->delta[PAWL_LEASED]);
    put_int(&q, t->delta[PAWL_FAILED]);
    query_run(&q);
}

/* ---- nodes --------------------------------------------------------------------------------------------------------------- */

void tally_lease(tx *x, int64_t node, int by)
{
    tally *t = x->t;
    if (by > 0 && node == x->node) t->granted = true;
    for (int i = 0; i < t->nodes_count; i++) {
        if (t->nodes[i].node != node) continue;
        t->nodes[i].leases += by;
        return;
    }
    node_tally *grown = room_for_one(x, t->nodes, t->nodes_count, &t->nodes_room, sizeof *grown);
    if (!grown) return;
    t->nodes = grown;
    grown[t->nodes_count++] = (node_tally){node, by};
}

/* A commit that grants a lease is a renewal too. */
static void flush_node(tx *x, const node_tally *n)
{
    if (n->node == x->node && x->t->granted) {
        query q = query_on(x->c, SQL_heartbeat_beat);
        put_text(&q, x->s->clock.boot_id);
        put_int(&q, x->boot_us + x->lease_us);
        put_int(&q, n->leases);
        put_int(&q, n->node);
        query_run(&q);
    } else if (n->leases) {
        query q = query_on(x->c, SQL_heartbeat_leases);
        put_int(&q, n->leases);
        put_int(&q, n->node);
        query_run(&q);
    }
}

/* ---- slots --------------------------------------------------------------------------------------------------------------- */

static bool same_slot(const slot_tally *slot, int64_t born, pawl_state state)
{
    return slot->born == born && slot->state == state;
}

static slot_tally *slot_of(tx *x, int64_t born, pawl_state state)
{
    tally *t = x->t;
    if (t->slot_last < t->slots_count && same_slot(&t->slots[t->slot_last], born, state)) return &t->slots[t->slot_last];
    for (int i = 0; i < t->slots_count; i++)
        if (same_slot(&t->slots[i], born, state)) return &t->slots[t->slot_last = i];
    slot_tally *grown = room_for_one(x, t->slots, t->slots_count, &t->slots_room, sizeof *grown);
    if (!grown) return NULL;
    t->slots = grown;
    grown[t->slots_count] = (slot_tally){.born = born, .state = state, .min_id = INT64_MAX};
    return &grown[t->slot_last = t->slots_count++];
}

void tally_finished(tx *x, pawl_id id, pawl_state state)
{
    slot_tally *slot = slot_of(x, id_ms(id) / HOUR_MS, state);
    if (!slot) return;
    if (state == PAWL_CANCELLED) tally_seen(x, id, SEEN_CANCELLED, 0);
    if (id < slot->min_id) slot->min_id = id;
    if (id > slot->max_id) slot->max_id = id;
}

static void flush_slot(tx *x, const slot_tally *slot)
{
    query q = query_on(x->c, SQL_slot_add);
    put_int(&q, x->now_us / TALLY_SLOT_US);
    put_int(&q, slot->state);
    put_int(&q, slot->born);
    put_int(&q, x->now_us);
    put_int(&q, slot->min_id);
    put_int(&q, slot->max_id);
    query_run(&q);
}

void tally_born(tx *x, const task_row *row, int64_t tenant_id)
{
    tally *t = x->t;
    if (!t->born_max || row->id < t->born_min) t->born_min = row->id;
    if (row->id > t->born_max) t->born_max = row->id;
    tally_seen(x, row->id, SEEN_QUEUE, row->queue_id);
    tally_seen(x, row->id, SEEN_TYPE, row->type_id);
    if (tenant_id) tally_seen(x, row->id, SEEN_TENANT, tenant_id);
}

static void flush_born(tx *x)
{
    if (!x->t->born_max) return;
    query q = query_on(x->c, SQL_born_add);
    put_int(&q, x->now_us / PAWL_HOUR);
    put_int(&q, x->t->born_min);
    put_int(&q, x->t->born_max);
    query_run(&q);
}

/* ---- names in stretches of ids ------------------------------------------------------------------------------------------- */

/* A block that is not among the last few may get a second entry: they are merged when they are written. */
static seen_tally *seen_of(tx *x, int64_t block)
{
    tally *t = x->t;
    for (int i = t->seen_count - 1; i >= 0 && i >= t->seen_count - 4; i--)
        if (t->seen[i].block == block) return &t->seen[i];
    seen_tally *grown = room_for_one(x, t->seen, t->seen_count, &t->seen_room, sizeof *grown);
    if (!grown) return NULL;
    t->seen = grown;
    grown[t->seen_count] = (seen_tally){.block = block};
    return &grown[t->seen_count++];
}

void tally_seen(tx *x, pawl_id id, seen_kind kind, int64_t name_id)
{
    seen_tally *seen = seen_of(x, id >> SEEN_BLOCK_SHIFT);
    if (seen) seen_add(&seen->set, kind, name_id);
}

/* ---- rollups ------------------------------------------------------------------------------------------------------------- */

static bool same_rollup(const rollup_tally *r, int64_t queue_id, int64_t type_id, rollup_outcome outcome)
{
    return r->type_id == type_id && r->outcome == outcome && r->queue_id == queue_id;
}

static rollup_tally *rollup_of(tx *x, int64_t queue_id, int64_t type_id, rollup_outcome outcome)
{
    tally *t = x->t;
    if (t->rollup_last < t->rollups_count && same_rollup(&t->rollups[t->rollup_last], queue_id, type_id, outcome))
        return &t->rollups[t->rollup_last];
    int *chain = &t->chains[(uint64_t)(queue_id * 31 + type_id * 7 + outcome) % TALLY_CHAINS];
    for (int i = *chain; i >= 0; i = t->rollups[i].next)
        if (same_rollup(&t->rollups[i], queue_id, type_id, outcome)) return &t->rollups[t->rollup_last = i];
    rollup_tally *grown = room_for_one(x, t->rollups, t->rollups_count, &t->rollups_room, sizeof *grown);
    if (!grown) return NULL;
    t->rollups = grown;
    grown[t->rollups_count] = (rollup_tally){.queue_id = queue_id, .type_id = type_id, .outcome = outcome, .next = *chain};
    *chain = t->rollup_last = t->rollups_count++;
    return &grown[t->rollup_last];
}

void tally_count(tx *x, int64_t queue_id, int64_t type_id, rollup_outcome outcome)
{
    rollup_tally *r = rollup_of(x, queue_id, type_id, outcome);
    if (r) r->count++;
}

void tally_run(tx *x, int64_t queue_id, int64_t type_id, rollup_outcome outcome, const pawl_execution *run, int64_t due_us)
{
    rollup_tally *r = rollup_of(x, queue_id, type_id, outcome);
    if (!r) return;
    r->count++;
    if (!run->finished_us) return;
    histogram_add(&r->wait, run->started_us - due_us);
    histogram_add(&r->run, run->finished_us - run->started_us);
}

static void put_histogram(query *q, const histogram *h, char room[HISTOGRAM_BYTES])
{
    if (h->total) put_bytes(q, (pawl_bytes){room, histogram_write(h, room)});
    else put_null(q);
}

static void flush_rollup(tx *x, rollup_tally *r)
{
    int64_t key[] = {x->now_us / PAWL_MINUTE, r->queue_id, r->type_id, r->outcome};
    query q = query_on(x->c, SQL_rollup_get);
    for (int i = 0; i < 4; i++) put_int(&q, key[i]);
    if (query_row(&q)) {
        r->count += get_int(&q);
        histogram_merge(&r->wait, get_bytes(&q));
        histogram_merge(&r->run, get_bytes(&q));
    }
    query_end(&q);
    char wait[HISTOGRAM_BYTES], run[HISTOGRAM_BYTES];
    q = query_on(x->c, SQL_rollup_put);
    for (int i = 0; i < 4; i++) put_int(&q, key[i]);
    put_int(&q, r->count);
    put_histogram(&q, &r->wait, wait);
    put_histogram(&q, &r->run, run);
    query_run(&q);
}

void tally_flush(tx *x)
{
    tally *t = x->t;
    for (int i = 0; i < t->queues_count; i++) flush_queue(x, &t->queues[i]);
    for (int i = 0; i < t->slots_count; i++) flush_slot(x, &t->slots[i]);
    flush_born(x);
    for (int i = 0; i < t->seen_count; i++) seen_put(x->c, t->seen[i].block, &t->seen[i].set);
    for (int i = 0; i < t->rollups_count; i++) flush_rollup(x, &t->rollups[i]);
    for (int i = 0; i < t->nodes_count; i++) flush_node(x, &t->nodes[i]);
}
