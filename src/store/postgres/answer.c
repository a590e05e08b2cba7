/* The answers of a batch: most operations end as asked, the server names the others. See functions/apply.sql for the lines. */
#include "store/budget.h"
#include "store/postgres/inner.h"

void pg_flat_forget(const flat *f)
{
    for (int i = 0; i < f->count; i++) {
        pawl_op *op = f->ops[i].op;
        op->result = f->ops[i].refused ? PAWL_OP_REFUSED : PAWL_OP_NONE;
        op->out_id = op->out_fence = op->out_run_at_us = op->out_until_us = op->out_epoch = 0;
        op->out_state = PAWL_STATE_NONE;
    }
}

static int64_t later(int64_t now_us, int64_t delay_us) { return now_us > INT64_MAX - delay_us ? INT64_MAX : now_us + delay_us; }

static int64_t due_at(const pawl_op *op, int64_t now_us)
{
    int64_t at_us = op->u.insert.at_us;
    if (at_us) return at_us > now_us ? at_us : now_us;
    return op->u.insert.delay_us > 0 ? later(now_us, op->u.insert.delay_us) : now_us;
}

static void inserted(pawl_op *op, pawl_id id, int64_t now_us)
{
    op->u.insert.body->id = id;
    op->u.insert.body->created_us = now_us;
}

/* As if everything was carried out as asked. */
static void expect(const flat_op *o, int64_t now_us, bool fresh)
{
    pawl_op *op = o->op;
    op->result = PAWL_OP_DONE;
    switch (op->kind) {
    case PAWL_OP_INSERT: {
        bool leased = op->u.insert.ask_lease && o->parent < 0;
        op->out_id = op->id;
        op->out_fence = leased;
        op->out_state = leased ? PAWL_LEASED : PAWL_PENDING;
        op->out_run_at_us = due_at(op, now_us);
        op->out_until_us = fresh ? INT64_MAX : 0;
        inserted(op, op->id, now_us);
        break;
    }
    case PAWL_OP_FINISH: op->out_state = op->u.finish.to; break;
    case PAWL_OP_RELEASE:
        op->out_state = PAWL_PENDING;
        op->out_run_at_us = op->u.release.delay_us >= 0 ? later(now_us, op->u.release.delay_us) : 0;
        break;
    case PAWL_OP_LIMIT: op->u.limit.more = !fresh && op->u.limit.move > 0; break; /* perhaps: it costs nothing to ask again */
    case PAWL_OP_BOUND: op->u.bound.more = !fresh && op->u.bound.move > 0; break;
    case PAWL_OP_BATCH: op->out_id = op->id; break;
    case PAWL_OP_SETTLE: op->u.settle.settled = 0; break;
    case PAWL_OP_RESERVE: op->u.reserve.along = op->u.reserve.along_own = 0; break;
    case PAWL_OP_START:
    case PAWL_OP_PROGRESS: op->out_state = PAWL_LEASED; break;
    default: break;
    }
}

static void told(const flat_op *o, const int64_t n[6], int64_t now_us)
{
    pawl_op *op = o->op;
    op->result = (pawl_op_result)n[1];
    op->out_id = n[2];
    op->out_fence = n[3];
    op->out_run_at_us = n[4];
    op->out_state = (pawl_state)n[5];
    if (op->result == PAWL_OP_FULL) {
        op->u.insert.missing = n[3];
        op->out_fence = 0;
    }
    if (op->kind == PAWL_OP_INSERT && (op->result == PAWL_OP_DONE || op->result == PAWL_OP_REPLACED))
        inserted(op, op->out_id, now_us);
}

/* Spawns of a FINISH that did not happen were not stored. */
static void undo_spawns(const flat *f)
{
    for (int i = 0; i < f->count; i++) {
        const flat_op *o = &f->ops[i];
        if (o->parent < 0 || o->refused || f->ops[o->parent].op->result == PAWL_OP_DONE) continue;
        o->op->result = PAWL_OP_NONE;
        o->op->out_id = o->op->out_run_at_us = 0;
        o->op->out_state = PAWL_STATE_NONE;
    }
}

/* Tasks that were stored as waiting, by their numbers. */
static void told_waiting(const flat *f, const char *at)
{
    int64_t i;
    for (const char *end = strchr(at, '\n'); end && (at = pg_number_read(at, &i)) && at <= end;) {
        if (i < 0 || i >= f->count) continue;
        f->ops[i].op->out_fence = 0;
        f->ops[i].op->out_state = PAWL_WAITING;
        f->ops[i].op->out_until_us = INT64_MAX;
    }
}

static void told_settled(const flat *f, const char *at)
{
    int64_t settled = 0;
    pg_number_read(at, &settled);
    for (int i = 0; i < f->count; i++)
        if (f->ops[i].op->kind == PAWL_OP_SETTLE) f->ops[i].op->u.settle.settled = (int)settled;
}

static void told_along(const flat *f, const char *at)
{
    int64_t n[2] = {0};
    const char *next = pg_number_read(at, &n[0]);
    if (!next || !pg_number_read(next, &n[1]) || n[0] < 0 || n[0] >= f->count || f->ops[n[0]].op->kind != PAWL_OP_RESERVE) return;
    pawl_op *op = f->ops[n[0]].op;
    op->u.reserve.along = op->u.reserve.along_own = (int)n[1];
}

/* The limit that refuses it. */
static void told_rate(const flat *f, const char *at)
{
    int64_t n[6] = {0};
    bool paused;
    for (int i = 0; i < 6; i++)
        if (!(at = pg_number_read(at, &n[i]))) return;
    if (n[0] < 0 || n[0] >= f->count || f->ops[n[0]].op->kind != PAWL_OP_RESERVE) return;
    pawl_rate *rate = &f->ops[n[0]].op->u.reserve.rate;
    *rate = (pawl_rate){.permits = (int)n[1], .period_us = n[2], .burst = (int)n[3], .horizon_us = n[4]};
    limit_flags_read(n[5], rate, &paused);
}

/* Lines that begin with another letter. Those of a receipt are not believed: what they say was true then. */
static void told_more(const flat *f, const char *at, bool fresh)
{
    int64_t n[3] = {0};
    const char *next = pg_number_read(at + 1, &n[0]);
    if (!fresh || !next || n[0] < 0 || n[0] >= f->count) return;
    pawl_op *op = f->ops[n[0]].op;
    if (at[0] == 'M') *(op->kind == PAWL_OP_BOUND ? &op->u.bound.more : &op->u.limit.more) = true;
    if (at[0] != 'S' || !(next = pg_number_read(next, &n[1])) || !pg_number_read(next, &n[2])) return;
    op->out_until_us = n[1];
    op->out_epoch = n[2];
}

void pg_flat_answers(const flat *f, int64_t now_us, const char *results, bool fresh)
{
    int64_t n[6];
    for (int i = 0; i < f->count; i++)
        if (!f->ops[i].refused) expect(&f->ops[i], now_us, fresh);
    for (const char *at = results; at && *at; at = strchr(at, '\n'), at += at != NULL) {
        const char *next = at;
        if (at[0] >= 'A') {
            if (at[0] == 'W') told_waiting(f, at + 1);
            else if (at[0] == 'T') told_settled(f, at + 1);
            else if (at[0] == 'A') told_along(f, at + 1);
            else if (at[0] == 'P') told_rate(f, at + 1);
            else told_more(f, at, fresh);
            continue;
        }
        for (int i = 0; i < 6 && next; i++) next = pg_number_read(next, &n[i]);
        if (next && n[0] >= 0 && n[0] < f->count) told(&f->ops[n[0]], n, now_us);
    }
    undo_spawns(f);
}
