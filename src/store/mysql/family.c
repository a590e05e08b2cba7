/* Families: what the parents of a new task mean for it, its rows, and what is left to be told when a task ends. See family.h.
 *
 * A program's own transaction may last, so it holds no parent: it leaves a row that says that nobody looked (UNTOLD_LOOK).
 */
#include "store/mysql/family.h"
#include "base/alloc.h"

typedef struct
    known {        /* of this transaction: it was stored, has ended, or (when families settle) only what is kept of it is left */
    map_node node; /* by id */
    pawl_state state;
} known;

static void know(work *w, pawl_id id, pawl_state state)
{
    known *k = (known *)map_get(&w->kin, (uint64_t)id);
    if (!k) {
        k = my_work_alloc(w, sizeof *k);
        if (!k) return;
        map_put(&w->kin, &k->node, (uint64_t)id);
    }
    k->state = state;
}

static bool in_use(const work *w) { return w->limits.families || w->borrowed || (w->f && w->f->families); }

bool my_families_mark(my_store *s, conn *c)
{
    int tries = 0;
    pthread_mutex_lock(&s->lock);
    bool good = s->limits.families;
    pthread_mutex_unlock(&s->lock);
    if (good) return true;
    do {
        my_script(c);
        my_add(c, SQL_begin);
        my_add(c, SQL_limits_lock);
        my_add(c, SQL_families_mark);
        my_add(c, SQL_limits_changed);
        my_add(c, SQL_commit);
        good = my_send(c, CALL_WRITES);
    } while (!good && my_call_again(c, &tries));
    if (!good && c->status == PAWL_UNKNOWN) c->status = PAWL_UNAVAILABLE; /* twice does no harm */
    return good && my_limits_fetch(s, c);
}

/* ---- what INSERTs and BATCHes need to know --------------------------------------------------------------------------------- */

/* The id that it goes by before anything is carried out; 0: it is stored in this batch. */
static pawl_id asked_id(const pawl_kin *kin)
{
    if (!kin->op) return kin->id;
    return kin->op->result ? kin->op->out_id : 0;
}

static void ask_names(work *w)
{
    buf names;
    buf_init(&names, w->s->allocator, 16 << 20);
    for (int i = 0; i < w->f->count; i++) {
        const pawl_op *op = w->f->ops[i].op;
        if (w->f->ops[i].refused || op->kind != PAWL_OP_BATCH || op->u.batch->act != PAWL_BATCH_OPEN) continue;
        if (names.len) buf_char(&names, ',');
        lit_bytes(w->c, &names, (pawl_bytes){op->u.batch->name, strlen(op->u.batch->name)});
    }
    if (names.failed) w->no_memory = true;
    if (names.len) {
        my_put_raw(w->c, buf_text(&names), names.len);
        my_add(w->c, SQL_batches_named);
    }
    buf_done(&names);
}

static void note_family(work *w, const flat_op *o)
{
    const pawl_family *f = o->op->u.insert.family;
    for (int i = 0; i < f->parents_count; i++)
        if (asked_id(&f->parents[i])) my_note_id(w, &w->parents, asked_id(&f->parents[i]));
    pawl_id batch = asked_id(&f->batch);
    if (batch) my_note_id(w, &w->joins, batch);
    if (batch && o->parent >= 0) my_note_id(w, &w->spawners, w->f->ops[o->parent].op->id);
}

static void note_batch(work *w, const pawl_op *op)
{
    if (op->id) my_note_id(w, &w->joins, op->id);
    if (op->u.batch->act == PAWL_BATCH_OPEN && op->u.batch->within) my_note_id(w, &w->joins, op->u.batch->within);
}

static void ask_list(work *w, sql_name which, id_list *list)
{
    if (list->count == 0) return;
    list->count = my_sort_ids(list->ids, list->count);
    my_add_ids(w->c, which, list->ids, list->count);
}

void my_families_ask(work *w)
{
    if (!w->f->families) return;
    w->parents.count = w->joins.count = w->spawners.count = 0;
    for (int i = 0; i < w->f->count; i++) {
        const flat_op *o = &w->f->ops[i];
        if (o->refused) continue;
        if (o->op->kind == PAWL_OP_INSERT && o->op->u.insert.family) note_family(w, o);
        else if (o->op->kind == PAWL_OP_BATCH) note_batch(w, o->op);
    }
    ask_list(w, w->borrowed ? SQL_live_look : SQL_live_share, &w->parents);
    ask_list(w, w->borrowed ? SQL_leased_look : SQL_leased_share, &w->parents);
    ask_list(w, SQL_members_look, &w->spawners);
    ask_names(w);
    /* Only who joins a batch inside a transaction of the program's own holds it until that is over. */
    for (int i = 0; i < w->parents.count && !w->borrowed; i++) my_note_id(w, &w->joins, w->parents.ids[i]);
    ask_list(w, SQL_batches_lock, &w->joins);
    if (w->borrowed) ask_list(w, SQL_batches_look, &w->parents);
}

void my_read_batch(batch_row *b, const answer *a, int row)
{
    b->closed = get_int(a, row, 1) != 0;
    b->ended = get_int(a, row, 2) != 0;
    b->state = (pawl_state)get_int(a, row, 3);
    b->cancel_asked = get_int(a, row, 4) != 0;
    b->unfinished = get_int(a, row, 5);
    b->failed = get_int(a, row, 6);
    b->cancelled = get_int(a, row, 7);
}

static void take_in_batches(work *w, sql_name which)
{
    EACH_ANSWER(a, w->c, which)
    for (int i = 0; i < a->rows; i++) {
        if (my_batch_row(w, get_int(a, i, 0))) continue;
        batch_row *b = my_batch_learn(w, get_int(a, i, 0));
        if (b) my_read_batch(b, a, i);
    }
}

void my_families_take_in(work *w)
{
    take_in_batches(w, SQL_batches_lock);
    take_in_batches(w, SQL_batches_look);
    EACH_ANSWER(a, w->c, SQL_kept_look)
    for (int i = 0; i < a->rows; i++) know(w, get_int(a, i, 0), (pawl_state)get_int(a, i, 1));
    EACH_ANSWER(a, w->c, SQL_members_look)
    for (int i = 0; i < a->rows; i++) {
        member_row *m = my_work_alloc(w, sizeof *m);
        if (!m) return;
        m->batch_id = get_int(a, i, 1);
        map_put(&w->members, &m->node, (uint64_t)get_int(a, i, 0));
    }
    EACH_ANSWER(a, w->c, SQL_batches_named)
    for (int i = 0; i < a->rows; i++) {
        batch_name *n = my_work_alloc(w, sizeof *n);
        pawl_bytes name = get_bytes(a, i, 1);
        n = n && (n->name = pawl_arena_bytes(w->arena, name.data, name.len)) ? n : NULL;
        if (!n) {
            w->no_memory = true;
            return;
        }
        n->id = get_int(a, i, 0);
        map_put(&w->batch_names, &n->node, hash_bytes(n->name, name.len, 0));
    }
}

/* Called after my_take_in. Parents that were found nowhere have ended, or are on their way from one table to another. */
bool my_families_load(work *w)
{
    if (!w->f->families) return true;
    my_families_take_in(w);
    pawl_id *look = my_work_alloc(w, (size_t)(w->parents.count + 1) * sizeof *look);
    int count = 0;
    for (int i = 0; look && i < w->parents.count; i++) {
        pawl_id id = w->parents.ids[i];
        if (!my_task(w, id) && !my_batch_row(w, id)) look[count++] = id;
    }
    if (w->no_memory) my_conn_no_memory(w->c);
    return !w->no_memory && my_load(w, look, count, w->borrowed ? LOAD_LOOK : LOAD_SHARE);
}

/* ---- parents --------------------------------------------------------------------------------------------------------------- */

/* Of a task or a batch; PENDING: not ended; NONE: there is none. */
pawl_state my_kin_state(work *w, pawl_id id)
{
    const known *k = (const known *)map_get(&w->kin, (uint64_t)id);
    const task_row *row = my_task(w, id);
    const batch_row *b = my_batch_row(w, id);
    if (row) return pawl_state_terminal(row->state) ? row->state : PAWL_PENDING;
    if (b) return b->ended ? b->state : PAWL_PENDING;
    return k ? k->state : PAWL_STATE_NONE;
}

static bool stored(const pawl_op *op)
{
    if (op->kind == PAWL_OP_BATCH) return op->result == PAWL_OP_DONE;
    return op->result == PAWL_OP_DONE || op->result == PAWL_OP_EXISTING || op->result == PAWL_OP_UPDATED ||
           op->result == PAWL_OP_REPLACED;
}

/* Whom it means: 0 and the result, if there is nobody; below 0: a spawn that comes before it and is not stored yet. */
static pawl_id who(const work *w, const flat_op *o, const pawl_kin *kin, pawl_op_result *result)
{
    *result = PAWL_OP_DONE;
    if (kin->op) {
        if (stored(kin->op)) return kin->op->out_id;
        *result = kin->op->result == PAWL_OP_COLLISION || kin->op->result == PAWL_OP_FULL ? kin->op->result : PAWL_OP_CONFLICT;
        return 0;
    }
    for (const flat_op *sibling = o->parent >= 0 ? &w->f->ops[o->parent + 1] : o; sibling < o; sibling++)
        if (sibling->op->id == kin->id) return sibling->op->result ? sibling->op->out_id : -1;
    return kin->id;
}

static void judge_parent(work *w, const flat_op *o, const pawl_kin *parent, kinship *k)
{
    pawl_if_failed if_failed = o->op->u.insert.family->if_failed;
    pawl_id id = who(w, o, parent, &k->result);
    if (k->result != PAWL_OP_DONE) return;
    pawl_state state = id < 0 ? PAWL_PENDING : my_kin_state(w, id);
    k->id = id;
    if (state == PAWL_STATE_NONE) k->result = PAWL_OP_NOT_FOUND;
    else if (!pawl_state_terminal(state)) k->unmet++;
    else if (state != PAWL_SUCCEEDED && if_failed != PAWL_IF_FAILED_RUN) k->unmet++; /* it is told so right after */
}

static pawl_id batch_of(const work *w, pawl_id id)
{
    const member_row *m = (const member_row *)map_get(&w->members, (uint64_t)id);
    return m ? m->batch_id : 0;
}

/* A batch that is closed takes what its members spawn. */
static void judge_batch(work *w, const flat_op *o, kinship *k)
{
    k->id = who(w, o, &o->op->u.insert.family->batch, &k->result);
    if (k->result != PAWL_OP_DONE) return;
    const batch_row *b = k->id > 0 ? my_batch_row(w, k->id) : NULL;
    bool of_member = o->parent >= 0 && batch_of(w, w->f->ops[o->parent].op->id) == k->id;
    if (!b) k->result = PAWL_OP_NOT_FOUND;
    else if (b->ended || (b->closed && !of_member)) k->result = PAWL_OP_CONFLICT;
    else k->batch = k->id;
}

kinship my_family_judge(work *w, const flat_op *o)
{
    kinship k = {.result = PAWL_OP_DONE};
    const pawl_family *f = o->op->u.insert.family;
    for (int i = 0; f && i < f->parents_count && k.result == PAWL_OP_DONE; i++) judge_parent(w, o, &f->parents[i], &k);
    if (f && (f->batch.id || f->batch.op) && k.result == PAWL_OP_DONE) judge_batch(w, o, &k);
    return k;
}

bool my_spawns_orphaned(work *w, int at)
{
    flat *f = w->f;
    bool orphaned = false;
    for (int i = at + 1; i < f->count && f->ops[i].parent == at && f->families; i++) {
        if (my_family_judge(w, &f->ops[i]).result == PAWL_OP_DONE) continue;
        f->ops[i].op->result = PAWL_OP_REFUSED;
        orphaned = true;
    }
    return orphaned;
}

/* ---- rows ------------------------------------------------------------------------------------------------------------------ */

/* Does it wait for this one? */
static bool put_parent(work *w, pawl_if_failed if_failed, pawl_id parent, pawl_id child)
{
    pawl_state state = my_kin_state(w, parent);
    bool ended = pawl_state_terminal(state), badly = ended && state != PAWL_SUCCEEDED && if_failed != PAWL_IF_FAILED_RUN;
    my_rows_begin(w, TABLE_EDGES);
    buf_fmt(&w->tables[TABLE_EDGES].text, "%lld,%lld,%d", (long long)parent, (long long)child,
            ended && !badly ? EDGE_TOLD : EDGE_UNTOLD);
    my_rows_end(w, TABLE_EDGES);
    if (badly) my_unsettled_put(w, parent, UNTOLD_END, child - 1, state);
    else if (!ended && w->borrowed) my_unsettled_put(w, parent, UNTOLD_LOOK, child - 1, 0);
    return !ended || badly;
}

/* How many it waits for: parents that were stored as one are one. */
static int put_parents(work *w, const flat_op *o, const pawl_family *f, pawl_id child)
{
    pawl_op_result result;
    pawl_id *ids = my_work_alloc(w, ((size_t)f->parents_count + 1) * sizeof *ids);
    int unmet = 0;
    for (int i = 0; ids && i < f->parents_count; i++) ids[i] = who(w, o, &f->parents[i], &result);
    for (int i = 0, count = ids ? my_sort_ids(ids, f->parents_count) : 0; i < count; i++)
        unmet += put_parent(w, f->if_failed, ids[i], child);
    return unmet;
}

void my_family_put(work *w, const flat_op *o, pawl_id id, const kinship *k)
{
    const pawl_family *f = o->op->u.insert.family;
    if (w->f->families) know(w, id, PAWL_PENDING);
    if (!f) return;
    int unmet = put_parents(w, o, f, id);
    if (unmet > 0) {
        my_rows_begin(w, TABLE_WAITS);
        buf_fmt(&w->tables[TABLE_WAITS].text, "%lld,%d,0,%d", (long long)id, unmet, (int)f->if_failed);
        my_rows_end(w, TABLE_WAITS);
    }
    if (k->batch) my_batch_join(w, k->batch, id);
}

void my_unsettled_put(work *w, pawl_id id, untold kind, pawl_id told, int64_t value)
{
    my_rows_begin(w, TABLE_UNSETTLED);
    buf_fmt(&w->tables[TABLE_UNSETTLED].text, "%lld,%d,%lld,%lld", (long long)id, (int)kind, (long long)told, (long long)value);
    my_rows_end(w, TABLE_UNSETTLED);
}

/* ---- ends ------------------------------------------------------------------------------------------------------------------ */

static void put_end(work *w, table which, pawl_id id, pawl_state to)
{
    my_rows_begin(w, which);
    buf_fmt(&w->tables[which].text, "%lld,%d", (long long)id, (int)to);
    my_rows_end(w, which);
}

void my_end_left(work *w, pawl_id id, pawl_state to) { put_end(w, TABLE_ENDS, id, to); }

void my_end_counts(work *w, pawl_id id, pawl_state to) { put_end(w, TABLE_COUNTED, id, to); }

void my_family_ended(work *w, const task_row *row, pawl_state to)
{
    if (!in_use(w)) return;
    if (row->state == PAWL_WAITING) my_note_id(w, &w->waits_gone, row->id);
    if (w->f && w->f->families) {
        task_row *same = my_task(w, row->id);
        if (same) same->state = to;
        know(w, row->id, to);
    }
    my_end_counts(w, row->id, to);
    if (w->settling) my_settle_ended(w->settling, row->id, to);
    else my_end_left(w, row->id, to);
}

/* Those whom its failure holds wait for the new one from now on. */
void my_family_retried(work *w, pawl_id id, pawl_id as)
{
    if (!in_use(w)) return;
    my_put_int(w->c, id);
    my_put_int(w->c, as);
    my_add(w->c, SQL_retried_left);
}

/* ---- what changed ---------------------------------------------------------------------------------------------------------- */

static void flush_with(work *w, table which, sql_name what)
{
    const rows *r = &w->tables[which];
    if (r->text.len == 0) return;
    for (int i = 0; i <= r->cuts_count && !w->no_memory; i++) {
        size_t from = i ? r->cuts[i - 1] : 0, to = i < r->cuts_count ? r->cuts[i] : r->text.len;
        if (to == from) continue;
        my_put_raw(w->c, r->text.data + from, to - from);
        my_add(w->c, what);
    }
}

void my_families_flush(work *w)
{
    static const table tables[] = {TABLE_EDGES,   TABLE_EDGES_MOVED, TABLE_WAITS,        TABLE_ENDS,
                                   TABLE_COUNTED, TABLE_UNSETTLED,   TABLE_BATCHES_ENDED};
    for (size_t i = 0; i < sizeof tables / sizeof *tables; i++)
        if (w->tables[tables[i]].text.failed) w->no_memory = true;
    my_batches_flush(w);
    flush_with(w, TABLE_WAITS, SQL_waits_put);
    if (w->waits_gone.count) {
        w->waits_gone.count = my_sort_ids(w->waits_gone.ids, w->waits_gone.count);
        my_add_ids(w->c, SQL_waits_drop, w->waits_gone.ids, w->waits_gone.count);
    }
    flush_with(w, TABLE_EDGES, SQL_edges_put);
    flush_with(w, TABLE_EDGES_MOVED, SQL_edges_move);
    if (w->borrowed) {
        flush_with(w, TABLE_COUNTED, SQL_members_later);
    } else {
        flush_with(w, TABLE_COUNTED, SQL_members_count);
        flush_with(w, TABLE_COUNTED, SQL_members_drained);
    }
    flush_with(w, TABLE_ENDS, SQL_ends_left);
    flush_with(w, TABLE_UNSETTLED, SQL_unsettled_put);
}
