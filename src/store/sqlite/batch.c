/* Batches of tasks: BATCH, their members and counts, their end, and the questions about families. See family.h. */
#include "base/canary.h"
#include "store/sqlite/family.h"
#include "store/sqlite/read.h"
#include <string.h>

static pawl_state state_of(const batch_row *row)
{
    return row->ended ? row->info.state : row->closed ? PAWL_WAITING : PAWL_PENDING;
}

bool batch_read(query *q, batch_row *row)
{
    q->column = 0;
    if (!query_row(q)) return false;
    pawl_batch_info *i = &row->info;
    i->id = get_int(q);
    i->name = get_text(q);
    i->within = get_int(q);
    i->created_us = get_int(q);
    i->closed_us = get_int_or(q, 0);
    i->ended_us = get_int_or(q, 0);
    i->state = (pawl_state)get_int(q);
    i->cancel_asked = get_int(q) != 0;
    i->unfinished = get_int(q);
    i->succeeded = get_int(q);
    i->failed = get_int(q);
    i->cancelled = get_int(q);
    i->total = i->unfinished + i->succeeded + i->failed + i->cancelled;
    row->closed = i->closed_us != 0;
    row->ended = i->ended_us != 0;
    i->state = state_of(row);
    return true;
}

static bool read_one(query *q, batch_row *row)
{
    bool found = batch_read(q, row);
    row->info.name = NULL;
    query_end(q);
    return found;
}

bool batch_get(tx *t, pawl_id id, batch_row *row)
{
    query q = query_on(t->c, SQL_batch_get);
    put_int(&q, id);
    return read_one(&q, row);
}

pawl_id batch_of(tx *t, pawl_id id)
{
    query q = query_on(t->c, SQL_member_get);
    put_int(&q, id);
    pawl_id batch = query_row(&q) ? get_int(&q) : 0;
    query_end(&q);
    return batch;
}

/* ---- members ------------------------------------------------------------------------------------------------------------- */

void batch_join(tx *t, pawl_id id, pawl_id member)
{
    query q = query_on(t->c, SQL_member_put);
    put_int(&q, member);
    put_int(&q, id);
    query_run(&q);
    q = query_on(t->c, SQL_batch_joined);
    put_int(&q, id);
    query_run(&q);
    t->families = 1;
}

void batch_member_ended(tx *t, pawl_id member, pawl_state to)
{
    batch_row row;
    pawl_id id = batch_of(t, member);
    if (!id) return;
    query q = query_on(t->c, SQL_batch_count);
    put_int(&q, to);
    put_int(&q, id);
    query_run(&q);
    if (batch_get(t, id, &row) && row.closed && row.info.unfinished == 0) unsettled_put(t, id, UNTOLD_DRAINED, 0, 0);
}

void batch_drained(tx *t, pawl_id id)
{
    batch_row row;
    if (!batch_get(t, id, &row) || row.ended || !row.closed || (row.info.unfinished > 0 && !CANARY(BATCH_ENDS_EARLY))) return;
    pawl_state to = row.info.failed ? PAWL_FAILED : row.info.cancelled ? PAWL_CANCELLED : PAWL_SUCCEEDED;
    query q = query_on(t->c, SQL_batch_end);
    put_int(&q, t->now_us);
    put_int(&q, to);
    put_int(&q, id);
    query_run(&q);
    t->kin_id = 0;
    unsettled_put(t, id, UNTOLD_END, 0, to);
    batch_member_ended(t, id, to);
}

/* ---- BATCH --------------------------------------------------------------------------------------------------------------- */

static void close_it(tx *t, pawl_id id, bool cancel)
{
    query q = query_on(t->c, SQL_batch_close);
    put_int(&q, t->now_us);
    put_int(&q, cancel);
    put_int(&q, id);
    query_run(&q);
    t->kin_id = 0;
    unsettled_put(t, id, UNTOLD_DRAINED, 0, 0);
    if (cancel) unsettled_put(t, id, UNTOLD_CANCEL, 0, 0);
}

void batch_cancel(tx *t, pawl_id id)
{
    batch_row row;
    if (batch_get(t, id, &row) && !row.ended && !row.info.cancel_asked) close_it(t, id, true);
}

static bool id_taken(tx *t, pawl_id id)
{
    task_row row;
    batch_row batch;
    return task_get(t->c, id, &row) || task_ended(t->c, id, NULL) || batch_get(t, id, &batch);
}

static void open_batch(tx *t, pawl_op *op, const pawl_batch_put *put)
{
    batch_row row;
    query q = query_on(t->c, SQL_batch_named);
    put_text(&q, put->name);
    op->result = PAWL_OP_EXISTING;
    if (read_one(&q, &row)) {
        op->out_id = row.info.id;
        return;
    }
    bool found = !put->within || batch_get(t, put->within, &row);
    op->out_id = put->within;
    op->result = !found ? PAWL_OP_NOT_FOUND : put->within && row.closed ? PAWL_OP_CONFLICT : PAWL_OP_DONE;
    if (op->result != PAWL_OP_DONE) return;
    op->out_id = op->id ? op->id : tx_draw_id(t);
    if (op->id && id_taken(t, op->id)) {
        op->result = PAWL_OP_COLLISION;
        op->out_id = 0;
        return;
    }
    q = query_on(t->c, SQL_batch_add);
    put_int(&q, op->out_id);
    put_text(&q, put->name);
    put_int(&q, put->within);
    put_int(&q, t->now_us);
    query_run(&q);
    t->families = 1;
    t->kin_id = 0;
    if (put->within) batch_join(t, put->within, op->out_id);
}

void apply_batch(tx *t, pawl_op *op)
{
    const pawl_batch_put *put = op->u.batch;
    batch_row row;
    if (put->act == PAWL_BATCH_OPEN) {
        open_batch(t, op, put);
        return;
    }
    bool found = batch_get(t, op->id, &row), cancel = put->act == PAWL_BATCH_CANCEL;
    op->out_id = op->id;
    op->result = !found                                 ? PAWL_OP_NOT_FOUND
                 : row.ended || (!cancel && row.closed) ? PAWL_OP_CONFLICT
                 : cancel && row.info.cancel_asked      ? PAWL_OP_EXISTING
                                                        : PAWL_OP_DONE;
    if (op->result != PAWL_OP_DONE) return;
    close_it(t, op->id, cancel);
    oplog_put(t, op->by, cancel ? "cancel batch" : "close batch", op->id, NULL);
}

/* ---- retention ----------------------------------------------------------------------------------------------------------- */

static int sweep_state(tx *t, pawl_state state, int64_t keep_us, int most)
{
    pawl_id ids[100];
    int count = 0;
    if (keep_us < 0 || most <= 0) return 0;
    query q = query_on(t->c, SQL_batch_ended);
    put_int(&q, state);
    put_int(&q, most < 100 ? most : 100);
    while (count < 100 && query_row(&q)) {
        q.column = 0;
        pawl_id id = get_int(&q);
        if (t->now_us - get_int(&q) < keep_us) break;
        ids[count++] = id;
    }
    query_end(&q);
    int removed = 0;
    for (int i = 0; i < count && removed < most; i++) {
        q = query_on(t->c, SQL_members_drop);
        put_int(&q, ids[i]);
        put_int(&q, most - removed);
        query_run(&q);
        removed += sqlite3_changes(t->c->db) + 1;
        if (removed > most) break; /* the rest of its members in the next step */
        static const sql_name drops[] = {SQL_kept_batch, SQL_member_drop, SQL_batch_drop};
        for (int k = 0; k < 3; k++) {
            q = query_on(t->c, drops[k]);
            put_int(&q, ids[i]);
            query_run(&q);
        }
    }
    return removed;
}

int batch_sweep(tx *t, const pawl_sweep *call, int most)
{
    int removed = sweep_state(t, PAWL_SUCCEEDED, call->keep_succeeded_us, most);
    removed += sweep_state(t, PAWL_CANCELLED, call->keep_cancelled_us, most - removed);
    return removed + sweep_state(t, PAWL_FAILED, call->keep_failed_us, most - removed);
}

/* ---- questions ----------------------------------------------------------------------------------------------------------- */

static void keep_row(reading *r, const batch_row *row, pawl_batch_info *out)
{
    *out = row->info;
    out->name = read_text(r, row->info.name);
}

static bool one_batch(reading *r, pawl_query *query_)
{
    batch_row row;
    query q = query_on(r->c, query_->id ? SQL_batch_get : SQL_batch_named);
    if (query_->id) put_int(&q, query_->id);
    else put_text(&q, query_->name);
    bool found = batch_read(&q, &row);
    query_->batches_count = found;
    if (found && (query_->batches = read_alloc(r, sizeof *query_->batches))) keep_row(r, &row, query_->batches);
    query_end(&q);
    return found;
}

static void list_batches(reading *r, pawl_query *query_)
{
    const pawl_batch_filter *f = query_->batch_filter;
    batch_row row;
    query_->batches_count = 0;
    query_->batches_more = false;
    if (!(query_->batches = read_alloc(r, ((size_t)f->limit + 1) * sizeof *query_->batches))) return;
    query q = query_on(r->c, f->unfinished ? SQL_batch_list_live : SQL_batch_list);
    put_int(&q, query_->id ? query_->id : INT64_MAX);
    while (!r->no_memory && batch_read(&q, &row)) {
        query_->batches_more = query_->batches_count == f->limit;
        if (query_->batches_more) break;
        keep_row(r, &row, &query_->batches[query_->batches_count++]);
    }
    query_end(&q);
}

static void read_result(reading *r, pawl_relative *to)
{
    static const sql_name where[] = {SQL_relative_done, SQL_relative_failed, SQL_kept_get};
    for (int i = 0; i < 3; i++) {
        query q = query_on(r->c, where[i]);
        put_int(&q, to->id);
        bool found = query_row(&q);
        if (found) {
            to->state = (pawl_state)get_int(&q);
            if (!get_is_null(&q)) to->result = read_bytes(r, get_bytes(&q));
            else q.column++;
            to->result_type = read_text(r, get_text(&q));
            to->result_ref = read_text(r, get_text(&q));
            to->error = read_text(r, get_text(&q));
        }
        query_end(&q);
        if (found) return;
    }
}

static void describe(reading *r, pawl_relative *to, bool results)
{
    task_row row;
    batch_row batch;
    query q = query_on(r->c, SQL_batch_get);
    put_int(&q, to->id);
    to->batch = batch_read(&q, &batch);
    if (to->batch) {
        to->type = read_text(r, batch.info.name);
        to->state = batch.info.state;
    }
    query_end(&q);
    if (to->batch) return;
    q = query_on(r->c, SQL_body_type);
    put_int(&q, to->id);
    int64_t type_id = query_row(&q) ? get_int(&q) : 0;
    query_end(&q);
    if (type_id) to->type = read_text(r, name_text(r->c, type_id));
    if (task_get(r->c, to->id, &row)) to->state = row.state;
    else if (results) read_result(r, to);
    else to->state = task_ended(r->c, to->id, NULL);
}

static void read_wait(reading *r, pawl_id child, pawl_relative *to)
{
    query q = query_on(r->c, SQL_wait_get);
    put_int(&q, child);
    bool waits = query_row(&q);
    if (waits) {
        q.column = 2;
        to->if_failed = (pawl_if_failed)get_int(&q);
    }
    query_end(&q);
    to->waits = to->waits && waits;
    to->held = to->held && waits;
}

void relatives_read(reading *r, pawl_relatives_query *f)
{
    static const sql_name which[] = {[PAWL_PARENTS] = SQL_relatives_up,
                                     [PAWL_CHILDREN] = SQL_relatives_down,
                                     [PAWL_MEMBERS] = SQL_relatives_members,
                                     [PAWL_BATCH_OF] = SQL_relatives_batch};
    f->count = 0;
    f->more = false;
    if (!(f->relatives = read_alloc(r, ((size_t)f->limit + 1) * sizeof *f->relatives))) return;
    query q = query_on(r->c, which[f->relation]);
    put_int(&q, f->of);
    put_int(&q, f->after);
    while (!r->no_memory && query_row(&q)) {
        q.column = 0;
        pawl_relative one = {.id = get_int(&q)};
        int64_t state = get_int(&q);
        one.waits = state == EDGE_UNTOLD || state == EDGE_HELD;
        one.held = state == EDGE_HELD;
        if (one.waits) read_wait(r, f->relation == PAWL_PARENTS ? f->of : one.id, &one);
        if (f->waited_for && !one.waits) continue;
        f->more = f->count == f->limit;
        if (f->more) break;
        describe(r, &one, f->relation == PAWL_PARENTS);
        f->relatives[f->count++] = one;
    }
    query_end(&q);
}

bool batches_read(reading *r, pawl_query *query_)
{
    if (query_->kind == PAWL_QUERY_BATCH) return one_batch(r, query_);
    list_batches(r, query_);
    return true;
}
