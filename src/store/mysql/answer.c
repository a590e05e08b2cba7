/* The answers of a batch: most operations end as asked; the receipt names the others, one line each:
 *
 *     <operation> <result> <id> <fence, or how many are missing, or were moved along> <run_at_us> <state>
 */
#include "store/mysql/inner.h"

void my_flat_forget(const flat *f)
{
    for (int i = 0; i < f->count; i++) {
        pawl_op *op = f->ops[i].op;
        op->result = f->ops[i].refused ? PAWL_OP_REFUSED : PAWL_OP_NONE;
        op->out_id = op->out_fence = op->out_run_at_us = op->out_until_us = op->out_epoch = 0;
        op->out_state = PAWL_STATE_NONE;
    }
}

int64_t my_later(int64_t now_us, int64_t delay_us) { return now_us > INT64_MAX - delay_us ? INT64_MAX : now_us + delay_us; }

int64_t my_due_at(const pawl_op *op, int64_t now_us)
{
    int64_t at_us = op->u.insert.at_us;
    if (at_us) return at_us > now_us ? at_us : now_us;
    return op->u.insert.delay_us > 0 ? my_later(now_us, op->u.insert.delay_us) : now_us;
}

static void inserted(pawl_op *op, pawl_id id, int64_t now_us)
{
    op->u.insert.body->id = id;
    op->u.insert.body->created_us = now_us;
}

typedef struct told {
    pawl_op_result result;
    int64_t id, fence, run_at_us;
    pawl_state state;
} told;

/* As if everything was carried out as asked. */
static told expected(const flat_op *o, int64_t now_us)
{
    const pawl_op *op = o->op;
    told t = {.result = PAWL_OP_DONE};
    switch (op->kind) {
    case PAWL_OP_INSERT:
        t.id = op->id;
        t.fence = op->u.insert.ask_lease && o->parent < 0;
        t.state = t.fence ? PAWL_LEASED : PAWL_PENDING;
        t.run_at_us = my_due_at(op, now_us);
        break;
    case PAWL_OP_FINISH: t.state = op->u.finish.to; break;
    case PAWL_OP_RELEASE:
        t.state = PAWL_PENDING;
        t.run_at_us = op->u.release.delay_us >= 0 ? my_later(now_us, op->u.release.delay_us) : 0;
        break;
    case PAWL_OP_START:
    case PAWL_OP_PROGRESS: t.state = PAWL_LEASED; break;
    default: break;
    }
    return t;
}

static bool tells_along(const pawl_op *op) { return op->kind == PAWL_OP_RESERVE && op->result == PAWL_OP_MOVED; }

static int64_t fence_or_count(const pawl_op *op)
{
    if (op->result == PAWL_OP_FULL) return op->u.insert.missing;
    return tells_along(op) ? op->u.reserve.along : op->out_fence;
}

static void tell(const flat_op *o, told t, int64_t now_us)
{
    pawl_op *op = o->op;
    bool full = t.result == PAWL_OP_FULL;
    op->result = t.result;
    op->out_id = t.id;
    op->out_fence = full || tells_along(op) ? 0 : t.fence;
    op->out_run_at_us = t.run_at_us;
    op->out_state = t.state;
    if (full) op->u.insert.missing = t.fence;
    if (op->kind == PAWL_OP_RESERVE) op->u.reserve.along = op->u.reserve.along_own = tells_along(op) ? (int)t.fence : 0;
    if (op->kind == PAWL_OP_LIMIT) op->u.limit.more = op->u.limit.move > 0; /* perhaps: it costs nothing to ask again */
    if (op->kind == PAWL_OP_SETTLE) op->u.settle.settled = 0;
    if (op->kind == PAWL_OP_BOUND) op->u.bound.more = op->u.bound.move > 0;
    if (op->kind == PAWL_OP_INSERT && (op->result == PAWL_OP_DONE || op->result == PAWL_OP_REPLACED))
        inserted(op, op->out_id, now_us);
}

void my_flat_results(const flat *f, int64_t now_us, buf *results)
{
    for (int i = 0; i < f->count; i++) {
        const flat_op *o = &f->ops[i];
        const pawl_op *op = o->op;
        if (o->refused) continue;
        told want = expected(o, now_us);
        int64_t fence = fence_or_count(op);
        if (op->result == want.result && op->out_id == want.id && fence == want.fence && op->out_run_at_us == want.run_at_us &&
            op->out_state == want.state)
            continue;
        const int64_t n[] = {i, op->result, op->out_id, fence, op->out_run_at_us, op->out_state};
        for (int k = 0; k < 6; k++) {
            lit_int(results, n[k]);
            buf_char(results, k < 5 ? ' ' : '\n');
        }
    }
}

static const char *number_read(const char *at, int64_t *out)
{
    char *end;
    if (!at) return NULL; /* nor was there a number before */
    *out = strtoll(at, &end, 10);
    return end > at ? end : NULL;
}

void my_flat_answers(const flat *f, int64_t now_us, const char *results)
{
    int64_t n[6];
    for (int i = 0; i < f->count; i++)
        if (!f->ops[i].refused) tell(&f->ops[i], expected(&f->ops[i], now_us), now_us);
    for (const char *at = results; at && *at; at = strchr(at, '\n'), at += at != NULL) {
        const char *next = at;
        for (int i = 0; i < 6 && next; i++) next = number_read(next, &n[i]);
        if (next && n[0] >= 0 && n[0] < f->count)
            tell(&f->ops[n[0]], (told){(pawl_op_result)n[1], n[2], n[3], n[4], (pawl_state)n[5]}, now_us);
    }
}
