/* The results of a batch as bytes. A batch that comes again is answered from them.
 *
 * First the store's time, then for each operation, spawns right behind their FINISH, tasks behind their STEP:
 *
 *   byte     result in the low four bits; bits 4 to 7 say which of the following are there
 *   varint   16: out_id, if it is not the operation's own id
 *   varint   32: out_fence
 *   varint   64: out_run_at_us, as a signed distance from the store's time
 *   byte    128: out_state
 *   varint   twice, of a RESERVE that was MOVED: along, along_own
 */
#include "store/sqlite/inner.h"

enum { HAS_ID = 16, HAS_FENCE = 32, HAS_RUN_AT = 64, HAS_STATE = 128, RESULT = 15 };

/* A damaged receipt may hold any number: distances are reckoned without sign, where nothing overflows. */
static int64_t distance(int64_t to, int64_t from) { return (int64_t)((uint64_t)to - (uint64_t)from); }
static int64_t away(int64_t from, int64_t by) { return (int64_t)((uint64_t)from + (uint64_t)by); }

static uint64_t zigzag(int64_t v) { return (uint64_t)v << 1 ^ (uint64_t)(v >> 63); }
static int64_t unzigzag(uint64_t v) { return (int64_t)(v >> 1) ^ -(int64_t)(v & 1); }

static bool tells_along(const pawl_op *op) { return op->kind == PAWL_OP_RESERVE && op->result == PAWL_OP_MOVED; }

static void write_op(buf *out, const pawl_op *op, int64_t now_us)
{
    char bytes[60];
    size_t n = 1;
    int head = op->result;
    if (op->out_id && op->out_id != op->id) head |= HAS_ID, n += varint_write(bytes + n, (uint64_t)op->out_id);
    if (op->out_fence) head |= HAS_FENCE, n += varint_write(bytes + n, (uint64_t)op->out_fence);
    if (op->out_run_at_us) head |= HAS_RUN_AT, n += varint_write(bytes + n, zigzag(distance(op->out_run_at_us, now_us)));
    if (op->out_state) head |= HAS_STATE, bytes[n++] = (char)op->out_state;
    if (tells_along(op)) {
        n += varint_write(bytes + n, (uint64_t)op->u.reserve.along);
        n += varint_write(bytes + n, (uint64_t)op->u.reserve.along_own);
    }
    bytes[0] = (char)head;
    buf_add(out, bytes, n);
    for (int i = 0; op->kind == PAWL_OP_FINISH && i < op->u.finish.spawns_count; i++)
        write_op(out, &op->u.finish.spawns[i], now_us);
    for (int i = 0; op->kind == PAWL_OP_STEP && i < op->u.step->tasks_count; i++) write_op(out, &op->u.step->tasks[i], now_us);
}

bool receipt_write(buf *out, const pawl_batch *batch)
{
    char bytes[10];
    size_t n = varint_write(bytes, (uint64_t)batch->store_now_us);
    buf_clear(out);
    buf_add(out, bytes, n);
    for (int i = 0; i < batch->count; i++) write_op(out, batch->ops[i], batch->store_now_us);
    return !out->failed;
}

static bool read_byte(pawl_bytes *in, int *value)
{
    if (in->len == 0) return false;
    *value = (unsigned char)*in->data++;
    in->len--;
    return true;
}

static bool read_number(pawl_bytes *in, bool there, uint64_t *value)
{
    *value = 0;
    return !there || varint_read(in, value);
}

static bool is_own_id(const pawl_op *op)
{
    if (op->result == PAWL_OP_COLLISION || op->result == PAWL_OP_FULL || op->result == PAWL_OP_REFUSED) return false;
    if (op->kind == PAWL_OP_BATCH) return true;
    return op->kind == PAWL_OP_INSERT && op->result != PAWL_OP_NOT_FOUND && op->result != PAWL_OP_CONFLICT;
}

static bool read_along(pawl_bytes *in, pawl_op *op)
{
    uint64_t along, own;
    if (!read_number(in, tells_along(op), &along) || !read_number(in, tells_along(op), &own)) return false;
    op->u.reserve.along = (int)(along & INT32_MAX);
    op->u.reserve.along_own = (int)(own & INT32_MAX);
    return true;
}

static bool read_op(pawl_bytes *in, pawl_op *op, int64_t now_us)
{
    int head, state = 0;
    uint64_t id, fence, run_at;
    if (!read_byte(in, &head) || !read_number(in, head & HAS_ID, &id) || !read_number(in, head & HAS_FENCE, &fence) ||
        !read_number(in, head & HAS_RUN_AT, &run_at) || (head & HAS_STATE && !read_byte(in, &state)))
        return false;
    op->result = (pawl_op_result)(head & RESULT);
    if (op->kind == PAWL_OP_RESERVE && !read_along(in, op)) return false;
    op->out_id = head & HAS_ID ? (pawl_id)id : is_own_id(op) ? op->id : 0;
    op->out_fence = (int64_t)fence;
    op->out_run_at_us = head & HAS_RUN_AT ? away(now_us, unzigzag(run_at)) : 0;
    if (op->kind == PAWL_OP_SETTLE) op->u.settle.settled = 0;
    if (op->kind == PAWL_OP_LIMIT) op->u.limit.more = op->u.limit.move > 0; /* perhaps: it costs nothing to ask again */
    if (op->kind == PAWL_OP_BOUND) op->u.bound.more = op->u.bound.move > 0;
    op->out_state = (pawl_state)state;
    if (op->kind == PAWL_OP_INSERT && (op->result == PAWL_OP_DONE || op->result == PAWL_OP_REPLACED)) {
        op->u.insert.body->id = op->out_id;
        op->u.insert.body->created_us = now_us;
    }
    for (int i = 0; op->kind == PAWL_OP_FINISH && i < op->u.finish.spawns_count; i++)
        if (!read_op(in, &op->u.finish.spawns[i], now_us)) return false;
    for (int i = 0; op->kind == PAWL_OP_STEP && i < op->u.step->tasks_count; i++)
        if (!read_op(in, &op->u.step->tasks[i], now_us)) return false;
    return true;
}

bool receipt_read(pawl_bytes in, pawl_batch *batch)
{
    uint64_t now_us;
    if (!varint_read(&in, &now_us)) return false;
    batch->store_now_us = (int64_t)now_us;
    for (int i = 0; i < batch->count; i++)
        if (!read_op(&in, batch->ops[i], (int64_t)now_us)) return false;
    return in.len == 0;
}
