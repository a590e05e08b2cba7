/* apply: one call, one commit.
 *
 * The call is made again where that helps: after a deadlock, when a day of pawl_done is missing, and when an id turned out to be taken (then
 * the INSERTs go one by one and each learns its own fate). An error that is about the data of one operation is hunted down by halving, with
 * calls that are rolled back; that operation is refused and the rest is committed. That is slow and never happens to those who keep to
 * the limits of pawl.h.
 */
#include "base/error.h"
#include "store/postgres/inner.h"

static const char what[] = "write to";

void pg_params_call(const pg_store *s, params *p)
{
    const pawl_clock *test = postgres_test_clock ? postgres_test_clock(&s->clock) : NULL;
    if (test) {
        pg_array_begin(p, OID_INT8);
        array_int8(p, test->wall_us(test->ctx));
        array_int8(p, test->boot_us(test->ctx));
        pg_array_end(p);
    } else {
        pg_param_null(p);
    }
    if (s->wait_ms) pg_param_int4(p, s->wait_ms);
    else pg_param_null(p);
}

/* One task, and nothing else. */
static PGresult *send_one(pg_store *s, conn *c, const flat *f, const apply_call *call)
{
    params *p = &c->params;
    pg_params_begin(p);
    pg_params_call(s, p);
    pg_param_int4(p, (int32_t)call->node);
    pg_param_int8(p, call->lane);
    pg_param_int8(p, call->number);
    pg_param_bool(p, call->tell);
    pg_flat_one(p, f, &s->names);
    interned_close(&s->names);
    return pg_conn_call(c, SQL_apply_one, CALL_WRITES);
}

PGresult *pg_apply_send(pg_store *s, conn *c, flat *f, const apply_call *call, int lo, int hi, pawl_arena *arena)
{
    params *p = &c->params;
    pg_flat_select(f, lo, hi);
    if (!pg_flat_names(s, c, f, arena)) return NULL;
    if (call->node && !call->dry && pg_flat_is_one(f)) return send_one(s, c, f, call);
    pg_params_begin(p);
    pg_params_call(s, p);
    pg_param_int4(p, (int32_t)call->node);
    pg_param_int8(p, call->lane);
    pg_param_int8(p, call->number);
    pg_param_bool(p, f->asks && call->node);
    pg_param_int4(p, pg_flat_simple(f) | (call->tell ? 4 : 0));
    pg_param_bool(p, call->dry);
    pg_flat_inserts(p, f, &s->names);
    pg_flat_ends(p, f);
    pg_flat_starts(p, f);
    pg_flat_progress(p, f);
    pg_flat_people(p, f, &s->names);
    pg_flat_slots(p, f);
    pg_flat_limits(p, f, &s->names);
    pg_flat_bounds(p, f, &s->names);
    pg_flat_schedules(p, f);
    pg_flat_families(p, f);
    pg_flat_batches(p, f);
    interned_close(&s->names);
    return pg_conn_call(c, SQL_apply, CALL_WRITES);
}

/* ---- what is worth another try ------------------------------------------------------------------------------------------- */

#define TRIES 8

static bool make_days(pg_store *s, conn *c)
{
    params *p = &c->params;
    pg_params_begin(p);
    pg_params_call(s, p);
    p->count--; /* no limit for locks here */
    pg_param_int4(p, 7);
    PGresult *r = pg_conn_call(c, SQL_days, CALL_WRITES);
    PQclear(r);
    return r != NULL;
}

bool pg_call_again(pg_store *s, conn *c, int *tries)
{
    if (c->status == PAWL_UNKNOWN || ++*tries > TRIES) return false;
    if (pg_conn_code(c, "40001") || pg_conn_code(c, "40P01")) return true;
    if (pg_conn_code(c, "23514") && strstr(c->why, "partition")) return make_days(s, c);
    return false;
}

/* About the data of some operation, and not about the store. */
static bool is_about_data(const conn *c)
{
    return (strncmp(c->code, "22", 2) == 0 || strncmp(c->code, "23", 2) == 0 || strncmp(c->code, "54", 2) == 0) &&
           c->status != PAWL_UNKNOWN;
}

/* ---- hunting ------------------------------------------------------------------------------------------------------------- */

/* Whether the operations lo..hi-1 alone meet an error about data. */
static bool meets_bad_data(pg_store *s, conn *c, flat *f, apply_call call, int lo, int hi, pawl_arena *arena)
{
    call.dry = true;
    PGresult *r = pg_apply_send(s, c, f, &call, lo, hi, arena);
    PQclear(r);
    return !r && is_about_data(c);
}

/* Refuses one operation that cannot be stored; false: it is not to be found. */
static bool refuse_culprit(pg_store *s, conn *c, flat *f, const apply_call *call, pawl_arena *arena)
{
    int lo = 0, hi = f->count;
    while (hi - lo > 1) {
        int middle = lo + (hi - lo) / 2;
        if (meets_bad_data(s, c, f, *call, lo, middle, arena)) hi = middle;
        else if (meets_bad_data(s, c, f, *call, middle, hi, arena)) lo = middle;
        else return false;
    }
    if (hi <= lo || f->ops[lo].refused) return false;
    pg_store_log(s, PAWL_WARN, "an operation cannot be stored and is refused: %s", c->why);
    f->ops[lo].refused = true;
    return true;
}

/* ---- the batch ----------------------------------------------------------------------------------------------------------- */

/* Makes the call until it succeeds or fails for good. */
static PGresult *persist(pg_store *s, conn *c, flat *f, const apply_call *call, pawl_arena *arena)
{
    for (int tries = 0;;) {
        PGresult *r = pg_apply_send(s, c, f, call, 0, f->count, arena);
        if (r || pg_call_again(s, c, &tries)) {
            if (r) return r;
            continue;
        }
        if (pg_conn_code(c, "23505") && !f->careful && c->status != PAWL_UNKNOWN) f->careful = true;
        else if (!is_about_data(c) || !refuse_culprit(s, c, f, call, arena)) return NULL;
    }
}

static pawl_status odd_receipt(const pawl_batch *batch, pawl_error *err)
{
    return err_set(err, PAWL_INTERNAL,
                   "cannot apply batch %lld of node %lld, lane %d: its receipt is not that of the batch before",
                   (long long)batch->number, (long long)batch->node, batch->lane);
}

static bool is_limit(const pawl_op *op) { return op->kind == PAWL_OP_LIMIT || op->kind == PAWL_OP_BOUND; }

static bool is_schedule(const pawl_op *op) { return op->kind == PAWL_OP_SCHEDULE || op->kind == PAWL_OP_STEP; }

static bool is_family(const pawl_op *op) { return op->kind == PAWL_OP_BATCH || op->kind == PAWL_OP_SETTLE; }

/* What others may want to know although it brings them no work: ends, cancels, pauses, limits, schedules. */
static bool brings_news(const flat *f)
{
    for (int i = 0; i < f->count; i++) {
        const pawl_op *op = f->ops[i].op;
        if (op->kind == PAWL_OP_FINISH || op->kind == PAWL_OP_CANCEL || op->kind == PAWL_OP_QUEUE) return true;
        if (is_limit(op) || is_schedule(op) || is_family(op)) return true;
    }
    return false;
}

/* Whatever is stored may be due now. */
static bool resumes(const flat *f)
{
    for (int i = 0; i < f->count; i++) {
        const pawl_op *op = f->ops[i].op;
        if ((op->kind == PAWL_OP_QUEUE && !op->u.queue.pause) || is_limit(op)) return true;
    }
    return false;
}

/* Tasks that others may take, and nothing else. */
static bool brings_only_work(const flat *f)
{
    for (int i = 0; i < f->count; i++)
        if (f->ops[i].op->kind != PAWL_OP_INSERT) return false;
    return f->count > 0 && !f->asks;
}

static pawl_status read_answer(pg_store *s, conn *c, const flat *f, bool told, pawl_batch *batch, const PGresult *r,
                               pawl_error *err)
{
    int64_t verdict = pg_get_int(r, 0, 0);
    if (verdict == 2) return odd_receipt(batch, err);
    batch->store_now_us = pg_get_int(r, 0, 1);
    batch->node_dead = batch->node != 0 && pg_get_truth(r, 0, 2);
    batch->unblocked = verdict == 1 || pg_get_truth(r, 0, 5);
    batch->schedules = verdict == 1 || pg_get_truth(r, 0, 6);
    batch->freed = verdict == 1 || pg_get_truth(r, 0, 7);
    batch->unsettled = verdict == 1 || pg_get_truth(r, 0, 8);
    pg_flat_forget(f);
    pg_flat_answers(f, batch->store_now_us, pg_get_text(r, 0, 3), verdict == 0);
    if (verdict == 0 && told) pg_ready_hint(&s->ready, pg_get_text(r, 0, 4));
    else if (verdict == 0) pg_watch_tell(s, c, resumes(f) ? "*" : pg_get_text(r, 0, 4), brings_news(f));
    return PAWL_OK;
}

pawl_status pg_apply(pawl_store *store, pawl_batch *batch, pawl_arena *arena, pawl_error *err)
{
    pg_store *s = store_of(store);
    flat f;
    if (!pg_flat_make(&f, batch->ops, batch->count, arena))
        return err_set(err, PAWL_NO_MEMORY, "could not write to \"%s\": out of memory", s->link.url.name);
    pg_flat_forget(&f);
    apply_call call = {.node = batch->node, .number = batch->number, .lane = batch->lane};
    conn *c = pg_store_take(s, WRITER);
    call.tell = brings_only_work(&f) && pg_watch_quiet(s, c);
    PGresult *r = persist(s, c, &f, &call, arena);
    pawl_status status = r ? read_answer(s, c, &f, call.tell, batch, r, err) : pg_conn_fail(c, what, err);
    PQclear(r);
    pg_store_give(s, c);
    return status;
}
