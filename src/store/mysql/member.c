/* Batches of tasks: BATCH, and who joins them. See family.h. Their counts change by statements over many rows, as what they count ends. */
#include "store/mysql/family.h"

batch_row *my_batch_row(const work *w, pawl_id id) { return (batch_row *)map_get(&w->batches, (uint64_t)id); }

batch_row *my_batch_learn(work *w, pawl_id id)
{
    batch_row *b = my_work_alloc(w, sizeof *b);
    if (!b) return NULL;
    *b = (batch_row){.id = id};
    map_put(&w->batches, &b->node, (uint64_t)id);
    return b;
}

void my_batch_join(work *w, pawl_id id, pawl_id member)
{
    batch_row *b = my_batch_row(w, id);
    if (b) b->joined++;
    my_rows_begin(w, TABLE_MEMBERS);
    buf_fmt(&w->tables[TABLE_MEMBERS].text, "%lld,%lld", (long long)member, (long long)id);
    my_rows_end(w, TABLE_MEMBERS);
}

/* ---- BATCH ----------------------------------------------------------------------------------------------------------------- */

static pawl_id named(const work *w, const char *name)
{
    for (map_node *node = map_get(&w->batch_names, hash_bytes(name, strlen(name), 0)); node; node = map_next(node))
        if (strcmp(((batch_name *)node)->name, name) == 0) return ((batch_name *)node)->id;
    return 0;
}

static void learn_name(work *w, const char *name, pawl_id id)
{
    batch_name *n = my_work_alloc(w, sizeof *n);
    if (!n) return;
    n->name = name;
    n->id = id;
    map_put(&w->batch_names, &n->node, hash_bytes(name, strlen(name), 0));
}

static void open_batch(work *w, pawl_op *op, const pawl_batch_put *put)
{
    const batch_row *outer = put->within ? my_batch_row(w, put->within) : NULL;
    pawl_id same = named(w, put->name);
    op->out_id = same ? same : put->within;
    op->result = same                     ? PAWL_OP_EXISTING
                 : put->within && !outer  ? PAWL_OP_NOT_FOUND
                 : outer && outer->closed ? PAWL_OP_CONFLICT
                                          : PAWL_OP_DONE;
    if (op->result != PAWL_OP_DONE) return;
    if (op->id && (my_task(w, op->id) || my_batch_row(w, op->id))) {
        op->result = PAWL_OP_COLLISION;
        op->out_id = 0;
        return;
    }
    op->out_id = op->id ? op->id : my_work_draw_id(w);
    buf *b = &w->tables[TABLE_BATCHES].text;
    my_rows_begin(w, TABLE_BATCHES);
    buf_fmt(b, "%lld,", (long long)op->out_id);
    lit_bytes(w->c, b, (pawl_bytes){put->name, strlen(put->name)});
    buf_fmt(b, ",%lld,%lld,0,0,0,0,0,0", (long long)put->within, (long long)w->now_us);
    my_rows_end(w, TABLE_BATCHES);
    my_batch_learn(w, op->out_id);
    learn_name(w, put->name, op->out_id);
    if (put->within) my_batch_join(w, put->within, op->out_id);
}

static void close_batch(work *w, batch_row *b, bool cancel)
{
    b->closed = true;
    b->cancel_asked |= cancel;
    my_put_int(w->c, b->id);
    my_put_int(w->c, w->now_us);
    my_put_int(w->c, cancel);
    my_add(w->c, SQL_batch_close);
    my_unsettled_put(w, b->id, UNTOLD_DRAINED, 0, 0);
    if (cancel) my_unsettled_put(w, b->id, UNTOLD_CANCEL, 0, 0);
}

void my_apply_batch(work *w, pawl_op *op)
{
    const pawl_batch_put *put = op->u.batch;
    if (put->act == PAWL_BATCH_OPEN) {
        open_batch(w, op, put);
        return;
    }
    batch_row *b = my_batch_row(w, op->id);
    bool cancel = put->act == PAWL_BATCH_CANCEL;
    op->out_id = op->id;
    op->result = !b                                   ? PAWL_OP_NOT_FOUND
                 : b->ended || (!cancel && b->closed) ? PAWL_OP_CONFLICT
                 : cancel && b->cancel_asked          ? PAWL_OP_EXISTING
                                                      : PAWL_OP_DONE;
    if (op->result != PAWL_OP_DONE) return;
    close_batch(w, b, cancel);
    my_oplog_put(w, op->by, cancel ? "cancel batch" : "close batch", op->id, NULL);
}

void my_batches_flush(work *w)
{
    my_flush_table(w, TABLE_BATCHES);
    my_flush_table(w, TABLE_MEMBERS);
    const rows *ended = &w->tables[TABLE_BATCHES_ENDED];
    if (ended->text.len) {
        my_put_raw(w->c, ended->text.data, ended->text.len);
        my_put_int(w->c, w->now_us);
        my_add(w->c, SQL_batches_end);
    }
    map_each(node, &w->batches) {
        const batch_row *b = (const batch_row *)node;
        if (b->joined == 0) continue;
        my_put_int(w->c, b->id);
        my_put_int(w->c, b->joined);
        my_add(w->c, SQL_batch_joined);
    }
}

/* ---- retention ------------------------------------------------------------------------------------------------------------- */

/* A batch whose members do not all go at once goes in a later step. */
static bool drop_batch(conn *c, pawl_id id, int *left)
{
    my_script(c);
    my_add(c, SQL_begin);
    my_put_int(c, id);
    my_put_int(c, *left);
    my_add(c, SQL_batch_members_drop);
    if (!my_send(c, CALL_READS)) return false;
    int64_t removed = (int64_t)c->affected + 1;
    my_script(c);
    if (removed <= *left) {
        my_put_int(c, id);
        my_add(c, SQL_kept_batch);
        my_add_ids(c, SQL_members_drop, &id, 1);
        my_put_int(c, id);
        my_add(c, SQL_batch_drop);
    }
    my_add(c, SQL_commit);
    *left -= (int)removed < *left ? (int)removed : *left;
    return my_send(c, CALL_WRITES);
}

static bool sweep_state(conn *c, pawl_state state, int64_t keep_us, int64_t now_us, int *left)
{
    pawl_id ids[100];
    int count = 0;
    if (keep_us < 0 || *left <= 0) return true;
    my_script(c);
    my_put_int(c, state);
    my_put_int(c, now_us - keep_us);
    my_add(c, SQL_batches_old);
    if (!my_send(c, CALL_READS)) return false;
    const answer *a = my_answer(c, SQL_batches_old);
    for (; count < a->rows && count < 100; count++) ids[count] = get_int(a, count, 0);
    for (int i = 0; i<count && * left> 0; i++)
        if (!drop_batch(c, ids[i], left)) return false;
    return true;
}

bool my_sweep_batches(conn *c, const pawl_sweep *call, int64_t now_us, int *left)
{
    return sweep_state(c, PAWL_SUCCEEDED, call->keep_succeeded_us, now_us, left) &&
           sweep_state(c, PAWL_CANCELLED, call->keep_cancelled_us, now_us, left) &&
           sweep_state(c, PAWL_FAILED, call->keep_failed_us, now_us, left);
}
