/* Receipts: (node, lane) -> the number and the results of the last batch applied. A batch that comes again gets these
 * results and changes nothing. Results stand in the order of the operations, each followed by those of its spawns.
 */
#include "store/memory.h"

static uint64_t lane_key(int64_t node, int lane) { return (uint64_t)node << 16 | (uint64_t)lane; }

static mem_receipt *find(const mem *m, int64_t node, int lane)
{
    map_node *found = map_get(&m->receipts, lane_key(node, lane));
    return found ? container_of(found, mem_receipt, by_lane) : NULL;
}

mem_receipt *mem_receipt_get(mem *m, const pawl_batch *batch, int count)
{
    mem_receipt *r = find(m, batch->node, batch->lane);
    if (!r) {
        if (!(r = alloc_new(&m->allocator, sizeof *r))) return NULL;
        r->node = batch->node;
        r->lane = batch->lane;
        map_put(&m->receipts, &r->by_lane, lane_key(r->node, r->lane));
    }
    if (count > r->room) {
        mem_result *results = alloc_resize(&m->allocator, r->results, (size_t)count * sizeof *results);
        if (!results) return NULL;
        r->results = results;
        r->room = count;
    }
    return r;
}

static mem_result *put_result(mem_result *to, const pawl_op *op)
{
    *to = (mem_result){op->result, op->out_state, op->out_id, op->out_fence, op->out_run_at_us};
    return to + 1;
}

void mem_receipt_write(mem_receipt *r, const pawl_batch *batch)
{
    mem_result *to = r->results;
    for (int i = 0; i < batch->count; i++) {
        const pawl_op *op = batch->ops[i];
        to = put_result(to, op);
        for (int k = 0; k < mem_spawns(op); k++) to = put_result(to, mem_spawn(op, k));
    }
    r->count = (int)(to - r->results);
    r->number = batch->number;
    r->store_now_us = r->used_us = batch->store_now_us;
}

static const mem_result *recall(const mem_result *from, pawl_op *op, int64_t then_us)
{
    op->result = from->result;
    op->out_state = from->state;
    op->out_id = from->id;
    op->out_fence = from->fence;
    op->out_run_at_us = from->run_at_us;
    op->out_until_us = op->out_epoch = 0;
    if (op->kind == PAWL_OP_SETTLE) op->u.settle.settled = 0;
    if (op->kind == PAWL_OP_RESERVE) op->u.reserve.along = op->u.reserve.along_own = 0; /* it takes nobody along */
    if (op->kind == PAWL_OP_LIMIT) op->u.limit.more = op->u.limit.move > 0; /* perhaps: it costs nothing to ask again */
    if (op->kind == PAWL_OP_BOUND) op->u.bound.more = op->u.bound.move > 0;
    if (op->kind == PAWL_OP_INSERT && (op->result == PAWL_OP_DONE || op->result == PAWL_OP_REPLACED)) {
        op->u.insert.body->id = op->out_id;
        op->u.insert.body->created_us = then_us;
    }
    return from + 1;
}

static void recall_all(const mem_receipt *r, pawl_batch *batch)
{
    const mem_result *from = r->results;
    for (int i = 0; i < batch->count; i++) {
        pawl_op *op = batch->ops[i];
        from = recall(from, op, r->store_now_us);
        for (int k = 0; k < mem_spawns(op); k++) from = recall(from, mem_spawn(op, k), r->store_now_us);
    }
    batch->store_now_us = r->store_now_us;
    batch->schedules = batch->freed = batch->unsettled = true;
}

/* *done: it was applied before, and its results are answered. A node that is long forgotten may come with any number. */
pawl_status mem_receipt_check(const mem *m, pawl_batch *batch, bool *done, pawl_error *err)
{
    const mem_receipt *r = find(m, batch->node, batch->lane);
    int64_t last = r ? r->number : 0;
    *done = r && batch->number == last;
    if (*done && r->count != mem_survey(m, batch).count)
        return err_set(err, PAWL_INTERNAL, "batch %lld of node %lld, lane %d, cannot be sent again with other operations",
                       (long long)batch->number, (long long)batch->node, batch->lane);
    if (*done) {
        recall_all(r, batch);
        return PAWL_OK;
    }
    if (batch->number == last + 1 || (!r && !mem_find_node(m, batch->node))) return PAWL_OK;
    return err_set(err, PAWL_INTERNAL, "batch %lld of node %lld, lane %d, cannot follow batch %lld", (long long)batch->number,
                   (long long)batch->node, batch->lane, (long long)last);
}
