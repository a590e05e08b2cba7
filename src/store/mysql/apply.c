/* apply: one transaction, and in most cases two messages: one that locks and reads, one that writes and commits.
 *
 * The transaction is tried again where that helps: after a deadlock, and when an id or a key turned out to be taken (then it is looked
 * first). An error that is about the data of one operation is hunted down by halving, with transactions that are rolled back; that
 * operation is refused and the rest is committed. That is slow and never happens to those who keep to the limits of pawl.h.
 */
#include "base/error.h"
#include "store/mysql/family.h"
#include "store/mysql/quota.h"
#include <mysqld_error.h>
#include <stdio.h>

static const char what[] = "write to";

typedef enum verdict { NEW, APPLIED_BEFORE, DOES_NOT_FOLLOW } verdict;

typedef struct cancelling { /* members of a batch */
    pawl_id batch, last;
    const pawl_id *ids;
    int count;
} cancelling;

typedef struct applying {
    my_store *s;
    conn *c;
    pawl_batch *batch;
    pawl_arena *arena;
    flat f;
    bool dry;  /* only to see whether it works */
    bool left; /* to be told what has ended */
    const cancelling *cancels;
    verdict verdict;
} applying;

/* ---- the receipt --------------------------------------------------------------------------------------------------------- */

static bool receipt_there(applying *a)
{
    if (!a->batch->node || my_answer(a->c, SQL_receipt)->rows > 0) return true;
    return false;
}

/* A lane without a row gets one, and all is asked again. */
static bool receipt_make(applying *a)
{
    my_rollback(a->c);
    my_script(a->c);
    my_put_int(a->c, a->batch->node);
    my_put_int(a->c, a->batch->lane);
    my_add(a->c, SQL_receipt_make);
    bool good = my_send(a->c, CALL_WRITES);
    if (!good && a->c->status == PAWL_UNKNOWN) a->c->status = PAWL_UNAVAILABLE; /* an empty row does no harm */
    return good;
}

/* A node that was swept may come with any number. */
static verdict receipt_judge(const applying *a, bool known)
{
    const answer *r = my_answer(a->c, SQL_receipt);
    int64_t number = a->batch->number, last = get_int(r, 0, 0);
    if (last == number && number > 0) return APPLIED_BEFORE;
    return last == number - 1 || (last == 0 && !known) ? NEW : DOES_NOT_FOLLOW;
}

static void receipt_read(applying *a)
{
    const answer *r = my_answer(a->c, SQL_receipt);
    a->batch->store_now_us = get_int(r, 0, 1);
    my_flat_answers(&a->f, a->batch->store_now_us, get_text(r, 0, 2));
}

/* ---- one try ------------------------------------------------------------------------------------------------------------- */

static bool ask(work *w, const applying *a)
{
    conn *c = w->c;
    bool grants = a->f.asks && w->node;
    my_script(c);
    my_add(c, SQL_begin);
    my_add(c, SQL_server_now);
    if (w->node) {
        my_put_int(c, w->node);
        my_add(c, grants ? SQL_life_shared : SQL_life);
        my_put_int(c, w->node);
        my_put_int(c, w->lane);
        my_add(c, SQL_receipt);
    }
    if (!my_work_ask(w)) {
        my_conn_no_memory(c);
        return false;
    }
    return my_send(c, CALL_READS);
}

/* What there is to know of the node; false: it was swept, or never was. */
static bool read_life(work *w, const applying *a)
{
    const answer *life = my_answer(w->c, a->f.asks ? SQL_life_shared : SQL_life);
    bool known = life->rows > 0 && get_int(life, 0, 0) != -1;
    w->alive = life->rows > 0 && get_int(life, 0, 0) == 1;
    w->lease_us = life->rows > 0 ? get_int(life, 0, 1) : 0;
    return known;
}

static void put_receipt(work *w, const applying *a, const buf *results)
{
    conn *c = w->c;
    my_put_int(c, w->node);
    my_put_int(c, w->lane);
    my_put_int(c, a->batch->number);
    my_put_int(c, w->now_us);
    my_put_text(c, results->len ? buf_text(results) : NULL);
    my_put_int(c, w->leases + w->granted);
    my_put_int(c, w->granted > 0);
    my_put_int(c, w->boot_us + w->lease_us);
    my_put_int(c, w->backs);
    my_add(c, SQL_receipt_put);
}

/* Batches among them are cancelled, too, and the next page begins behind them. */
static void put_cancels(work *w, const cancelling *k)
{
    conn *c = w->c;
    buf ids;
    buf_init(&ids, w->s->allocator, 1 << 20);
    buf_char(&ids, '0');
    for (int i = 0; i < k->count; i++) buf_fmt(&ids, ",%lld", (long long)k->ids[i]);
    if (ids.failed) w->no_memory = true;
    my_put_raw(c, buf_text(&ids), ids.len);
    my_add(c, SQL_inner_left);
    my_put_raw(c, buf_text(&ids), ids.len);
    my_put_int(c, w->now_us);
    my_add(c, SQL_inner_cancel);
    buf_done(&ids);
    char row[64];
    int n = snprintf(row, sizeof row, "(%lld,%d)", (long long)k->batch, UNTOLD_CANCEL);
    if (k->last) {
        my_put_int(c, k->batch);
        my_put_int(c, UNTOLD_CANCEL);
        my_put_int(c, k->last);
        my_add(c, SQL_unsettled_go_on);
    } else {
        my_put_raw(c, row, (size_t)n);
        my_add(c, SQL_unsettled_drop);
    }
}

static bool commit(work *w, applying *a)
{
    buf results;
    buf_init(&results, w->s->allocator, 16 << 20);
    if (w->node) my_flat_results(&a->f, w->now_us, &results);
    if (w->node) put_receipt(w, a, &results);
    else my_add_wake(w->c, w->lane, w->now_us, w->backs);
    if (a->cancels) put_cancels(w, a->cancels);
    bool whole = !results.failed;
    buf_done(&results);
    if (!whole) {
        my_conn_no_memory(w->c);
        return false;
    }
    if (!a->dry) my_add(w->c, SQL_commit);
    return my_send(w->c, a->dry ? CALL_READS : CALL_WRITES);
}

/* The handle did not know the limits that are in force: all is asked again, as long as that is so. */
static bool learn_limits(work *w, const applying *a)
{
    for (int tries = 0; my_work_outdated(w); tries++) {
        my_rollback(w->c);
        if (tries == 5) my_conn_note(w->c, PAWL_UNAVAILABLE, 0, "the limits change all the time");
        if (tries == 5 || !my_limits_fetch(w->s, w->c) || !ask(w, a)) return false;
    }
    return true;
}

static bool carry_out(work *w, applying *a)
{
    w->c->unsettled = 0;
    if (!ask(w, a)) return false;
    if (!receipt_there(a)) {
        if (!receipt_make(a) || !ask(w, a)) return false;
    }
    if (!learn_limits(w, a)) return false;
    bool known = w->node && read_life(w, a);
    a->verdict = w->node ? receipt_judge(a, known) : NEW;
    a->batch->node_dead = w->node && !w->alive;
    if (a->verdict == APPLIED_BEFORE) {
        receipt_read(a);
        a->batch->unblocked = w->limits.bounds_count > 0; /* perhaps */
        a->batch->schedules = a->batch->freed = a->batch->unsettled = true;
    }
    if (a->verdict != NEW) return true;
    instant at = my_instant(w->s, w->c);
    my_quota_clock(w, &at);
    w->now_us = at.now_us;
    w->boot_us = at.boot_us;
    a->batch->store_now_us = at.now_us;
    bool good = my_work_load(w) && my_work_apply(w) && commit(w, a);
    a->left = good && w->c->unsettled > 0;
    a->batch->unblocked = w->unblocked.count > 0;
    a->batch->schedules = w->recurs;
    if (good && !a->dry && w->backs) my_ready_chill(&w->s->ready);
    return good;
}

static bool attempt(applying *a)
{
    work w;
    my_flat_forget(&a->f);
    my_work_begin(&w, a->s, a->c, a->arena);
    w.f = &a->f;
    w.node = a->batch->node;
    w.lane = w.node ? a->batch->lane : my_new_lane(a->s);
    bool good = carry_out(&w, a);
    my_work_done(&w);
    if (!good || a->verdict != NEW || a->dry) my_rollback(a->c);
    return good;
}

/* ---- hunting ------------------------------------------------------------------------------------------------------------- */

/* Whether the operations lo..hi-1 alone meet an error about data. */
static bool meets_bad_data(applying *a, int lo, int hi)
{
    flat whole = a->f;
    flat_op *ops = pawl_arena_alloc(a->arena, (size_t)(whole.count + 1) * sizeof *ops);
    if (!ops) return false;
    memcpy(ops, whole.ops, (size_t)whole.count * sizeof *ops);
    for (int i = 0; i < whole.count; i++)
        if (i < lo || i >= hi) ops[i].refused = true;
    a->f.ops = ops;
    a->dry = true;
    bool good = attempt(a);
    a->dry = false;
    a->f = whole;
    return !good && my_conn_about_data(a->c);
}

/* Refuses one operation that cannot be stored; false: it is not to be found. */
static bool refuse_culprit(applying *a)
{
    int lo = 0, hi = a->f.count;
    while (hi - lo > 1) {
        int middle = lo + (hi - lo) / 2;
        if (meets_bad_data(a, lo, middle)) hi = middle;
        else if (meets_bad_data(a, middle, hi)) lo = middle;
        else return false;
    }
    if (hi <= lo || a->f.ops[lo].refused) return false;
    my_store_log(a->s, PAWL_WARN, "an operation cannot be stored and is refused: %s", a->c->why);
    a->f.ops[lo].refused = true;
    return true;
}

/* ---- the batch ----------------------------------------------------------------------------------------------------------- */

/* Tries until it succeeds or fails for good. */
static bool persist(applying *a)
{
    int duplicates = 0;
    for (int tries = 0;;) {
        if (attempt(a)) return true;
        if (my_call_again(a->c, &tries)) continue;
        if (my_conn_code(a->c, ER_DUP_ENTRY) && ++duplicates <= 8) a->f.careful = true;
        else if (!my_conn_about_data(a->c) || !refuse_culprit(a)) return false;
    }
}

static pawl_status odd_receipt(const pawl_batch *batch, pawl_error *err)
{
    return err_set(err, PAWL_INTERNAL,
                   "cannot apply batch %lld of node %lld, lane %d: its receipt is not that of the batch before",
                   (long long)batch->number, (long long)batch->node, batch->lane);
}

bool my_cancel_members(my_store *s, conn *c, pawl_id batch, const pawl_id *ids, int count, pawl_id last, pawl_arena *arena,
                       settled *out)
{
    cancelling k = {batch, last, ids, count};
    pawl_batch inner = {0};
    applying a = {.s = s, .c = c, .batch = &inner, .arena = arena, .cancels = &k};
    pawl_op *ops = pawl_arena_alloc(arena, (size_t)(count + 1) * sizeof *ops);
    pawl_op **each = pawl_arena_alloc(arena, (size_t)(count + 1) * sizeof *each);
    for (int i = 0; ops && each && i < count; i++) {
        ops[i] = (pawl_op){.kind = PAWL_OP_CANCEL, .id = ids[i]};
        each[i] = &ops[i];
    }
    if (!ops || !each || !my_flat_make(&a.f, each, count, arena)) {
        my_conn_no_memory(c);
        return false;
    }
    a.f.inner = true;
    bool good = persist(&a);
    out->unblocked |= good && inner.unblocked;
    return good;
}

static void settle(applying *a)
{
    settled out = {0};
    int limit = a->f.settles > PAWL_SETTLE_AT_ONCE || !a->left ? a->f.settles : PAWL_SETTLE_AT_ONCE;
    if (limit <= 0 || a->verdict != NEW) return;
    my_settle(a->s, a->c, a->batch->node, a->batch->lane, limit, a->arena, &out);
    a->batch->freed = out.freed;
    a->batch->unsettled = out.left;
    a->batch->unblocked |= out.unblocked;
    for (int i = 0; i < a->f.count; i++)
        if (a->f.ops[i].op->kind == PAWL_OP_SETTLE) a->f.ops[i].op->u.settle.settled = out.told;
}

static pawl_status apply(applying *a, pawl_error *err)
{
    if (!my_conn_ready(a->c) || (a->f.families && !my_families_mark(a->s, a->c))) return my_conn_fail(a->c, what, err);
    my_flat_sizes(a->c, &a->f);
    if (!my_flat_names(a->s, a->c, &a->f, a->arena)) return my_conn_fail(a->c, what, err);
    if (!persist(a)) return my_conn_fail(a->c, what, err);
    if (a->verdict == DOES_NOT_FOLLOW) return odd_receipt(a->batch, err);
    settle(a);
    return PAWL_OK;
}

pawl_status my_apply(pawl_store *store, pawl_batch *batch, pawl_arena *arena, pawl_error *err)
{
    my_store *s = store_of(store);
    applying a = {.s = s, .batch = batch, .arena = arena};
    if (!my_flat_make(&a.f, batch->ops, batch->count, arena))
        return err_set(err, PAWL_NO_MEMORY, "could not write to \"%s\": out of memory", s->link.url.name);
    a.c = my_store_take(s, WRITER);
    pawl_status status = apply(&a, err);
    my_store_give(s, a.c);
    return status;
}
