/* Families: what the parents of a new task mean for it, its rows, and what is left of it when it goes. See family.h. */
#include "store/sqlite/family.h"
#include "base/canary.h"

static void run_with_id(tx *t, sql_name which, int64_t id)
{
    query q = query_on(t->c, which);
    put_int(&q, id);
    query_run(&q);
}

static bool any(tx *t, sql_name which)
{
    query q = query_on(t->c, which);
    bool found = query_row(&q);
    query_end(&q);
    return found;
}

static bool any_with(tx *t, sql_name which, int64_t id)
{
    query q = query_on(t->c, which);
    put_int(&q, id);
    bool found = query_row(&q);
    query_end(&q);
    return found;
}

bool families(tx *t)
{
    if (!t->families) t->families = any(t, SQL_family_any) ? 1 : -1;
    return t->families > 0;
}

void unsettled_put(tx *t, pawl_id id, untold kind, pawl_id after, int64_t value)
{
    query q = query_on(t->c, SQL_unsettled_put);
    put_int(&q, id);
    put_int(&q, kind);
    put_int(&q, after);
    put_int(&q, value);
    query_run(&q);
    t->unsettled = true;
}

/* ---- parents ------------------------------------------------------------------------------------------------------------- */

static pawl_state find_state(tx *t, pawl_id id)
{
    task_row row;
    batch_row batch;
    if (task_get(t->c, id, &row)) return PAWL_PENDING;
    pawl_state ended = task_ended(t->c, id, NULL);
    if (ended) return CANARY(END_UNNOTICED) ? PAWL_PENDING : ended;
    if (batch_get(t, id, &batch)) return batch.ended ? batch.info.state : PAWL_PENDING;
    return PAWL_STATE_NONE;
}

/* Many children of one parent come one after another: the last answer is kept, until something ends. */
static pawl_state stored_state(tx *t, pawl_id id)
{
    if (t->kin_id == id) return t->kin_state;
    t->kin_state = find_state(t, id);
    t->kin_id = t->kin_state ? id : 0;
    return t->kin_state;
}

pawl_state kin_state(tx *t, pawl_id id)
{
    pawl_state state = stored_state(t, id);
    if (state) return state;
    query q = query_on(t->c, SQL_kept_state);
    put_int(&q, id);
    if (query_row(&q)) state = (pawl_state)get_int(&q);
    query_end(&q);
    return state;
}

static bool stored(const pawl_op *op)
{
    if (op->kind == PAWL_OP_BATCH) return op->result == PAWL_OP_DONE;
    return op->result == PAWL_OP_DONE || op->result == PAWL_OP_EXISTING || op->result == PAWL_OP_UPDATED ||
           op->result == PAWL_OP_REPLACED;
}

/* Whom it means: 0 and the result, if there is nobody. */
static pawl_id who(const tx *t, const pawl_kin *kin, pawl_op_result *result)
{
    *result = PAWL_OP_DONE;
    if (kin->op) {
        if (stored(kin->op)) return kin->op->out_id;
        *result = kin->op->result == PAWL_OP_COLLISION || kin->op->result == PAWL_OP_FULL ? kin->op->result : PAWL_OP_CONFLICT;
        return 0;
    }
    for (int i = 0; i < t->siblings_count; i++)
        if (t->siblings[i].id == kin->id) return t->siblings[i].result ? t->siblings[i].out_id : -1;
    return kin->id;
}

static void judge_parent(tx *t, const pawl_family *f, const pawl_kin *parent, kinship *k)
{
    pawl_id id = who(t, parent, &k->result);
    if (k->result != PAWL_OP_DONE) return;
    pawl_state state = id < 0 ? PAWL_PENDING : stored_state(t, id); /* below 0: a spawn that comes before it */
    k->id = id;
    if (state == PAWL_STATE_NONE) k->result = PAWL_OP_NOT_FOUND;
    else if (!pawl_state_terminal(state)) k->unmet++;
    else if (state != PAWL_SUCCEEDED && f->if_failed != PAWL_IF_FAILED_RUN) k->unmet++; /* it is told so in the same commit */
}

/* A batch that is closed takes what its members spawn. */
static void judge_batch(tx *t, const pawl_family *f, kinship *k)
{
    batch_row row;
    k->id = who(t, &f->batch, &k->result);
    if (k->result != PAWL_OP_DONE) return;
    if (k->id < 0 || !batch_get(t, k->id, &row)) k->result = PAWL_OP_NOT_FOUND;
    else if (row.ended || (row.closed && !(t->spawner && batch_of(t, t->spawner) == k->id))) k->result = PAWL_OP_CONFLICT;
    else k->batch = k->id;
}

kinship family_judge(tx *t, const pawl_op *op)
{
    kinship k = {.result = PAWL_OP_DONE};
    const pawl_family *f = op->u.insert.family;
    for (int i = 0; f && i < f->parents_count && k.result == PAWL_OP_DONE; i++) judge_parent(t, f, &f->parents[i], &k);
    if (f && (f->batch.id || f->batch.op) && k.result == PAWL_OP_DONE) judge_batch(t, f, &k);
    return k;
}

static void put_edge(tx *t, pawl_id parent, pawl_id child, int state)
{
    query q = query_on(t->c, SQL_edge_put);
    put_int(&q, parent);
    put_int(&q, child);
    put_int(&q, state);
    query_run(&q);
}

/* How often it waits for this one: 0 also if two of its parents were stored as one. */
static int put_parent(tx *t, const pawl_family *f, pawl_id parent, pawl_id child)
{
    pawl_state state = stored_state(t, parent);
    bool ended = pawl_state_terminal(state), badly = ended && state != PAWL_SUCCEEDED && f->if_failed != PAWL_IF_FAILED_RUN;
    put_edge(t, parent, child, ended && !badly ? EDGE_TOLD : EDGE_UNTOLD);
    bool twice = !t->c->rc && sqlite3_changes(t->c->db) == 0;
    if (badly) unsettled_put(t, parent, UNTOLD_END, child - 1, state);
    return (!ended || badly) && !twice;
}

void family_put(tx *t, const pawl_op *op, pawl_id id, const kinship *k)
{
    const pawl_family *f = op->u.insert.family;
    pawl_op_result result;
    int unmet = 0;
    if (!f) return;
    for (int i = 0; i < f->parents_count; i++) unmet += put_parent(t, f, who(t, &f->parents[i], &result), id);
    if (unmet > 0) {
        query q = query_on(t->c, SQL_wait_put);
        put_int(&q, id);
        put_int(&q, unmet);
        put_int(&q, 0);
        put_int(&q, f->if_failed);
        query_run(&q);
        t->families = 1;
    }
    if (k->batch) batch_join(t, k->batch, id);
}

/* ---- ends ---------------------------------------------------------------------------------------------------------------- */

void family_ended(tx *t, const task_row *row, pawl_state to)
{
    t->kin_id = 0;
    if (!families(t)) return;
    if (row->state == PAWL_WAITING) run_with_id(t, SQL_wait_drop, row->id);
    if (any_with(t, SQL_edge_any, row->id)) unsettled_put(t, row->id, UNTOLD_END, 0, to);
    batch_member_ended(t, row->id, to);
}

/* Those whom its failure holds wait for the new one from now on. */
void family_retried(tx *t, pawl_id id, pawl_id as)
{
    if (families(t) && any_with(t, SQL_edge_of, id)) unsettled_put(t, id, UNTOLD_RETRIED, 0, as);
}

bool family_unsettled(tx *t) { return any(t, SQL_unsettled_any); }

/* ---- retention ----------------------------------------------------------------------------------------------------------- */

void family_forget(tx *t, pawl_id id)
{
    if (!t->related) {
        query q = query_on(t->c, SQL_edge_any_at_all);
        t->related = query_row(&q) && get_int(&q) ? 1 : -1;
        query_end(&q);
    }
    if (t->related < 0) return;
    if (any_with(t, SQL_edge_of, id)) run_with_id(t, SQL_kept_put, id);
    run_with_id(t, SQL_kept_drop, id);
    run_with_id(t, SQL_edges_drop, id);
    run_with_id(t, SQL_member_drop, id);
    run_with_id(t, SQL_forget_audit, id); /* waiting, then pending */
}
