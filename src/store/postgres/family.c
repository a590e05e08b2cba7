/* Families of tasks: as the server gets them, and the questions about them. What happens is in functions/families.sql. */
#include "store/postgres/read.h"

/* ---- operations ---------------------------------------------------------------------------------------------------------- */

#define ACT_SETTLE 9 /* see pawl_batches_apply */

static bool stored(const pawl_op *op)
{
    if (op->kind == PAWL_OP_BATCH) return op->result == PAWL_OP_DONE;
    return op->result == PAWL_OP_DONE || op->result == PAWL_OP_EXISTING || op->result == PAWL_OP_UPDATED ||
           op->result == PAWL_OP_REPLACED;
}

static int64_t result_as_kin(pawl_op_result result)
{
    return -INT64_MAX + (result == PAWL_OP_COLLISION || result == PAWL_OP_FULL ? (int)result : PAWL_OP_CONFLICT);
}

/* The number of an operation before `i`; -1: it is none of this batch. `last` is where the one before was found. */
static int index_of(const flat *f, const pawl_op *op, int i, int *last)
{
    if (*last < i && f->ops[*last].op == op) return *last;
    for (int k = i - 1; k >= 0; k--)
        if (f->ops[k].op == op) return *last = k;
    return -1;
}

/* An earlier spawn of the same FINISH. */
static int sibling_of(const flat *f, pawl_id id, int i)
{
    for (int k = i - 1; k > f->ops[i].parent && f->ops[i].parent >= 0; k--)
        if (f->ops[k].op->id == id) return k;
    return -1;
}

/* As pawl_judge takes it. */
static int64_t kin_of(const flat *f, const pawl_kin *kin, int i, int *last)
{
    int at = kin->op ? index_of(f, kin->op, i, last) : kin->id ? sibling_of(f, kin->id, i) : -1;
    if (at >= 0) return f->ops[at].refused || at < f->lo || at >= f->hi ? result_as_kin(PAWL_OP_CONFLICT) : -(int64_t)at - 1;
    if (!kin->op) return kin->id;
    return stored(kin->op) ? kin->op->out_id : result_as_kin(kin->op->result);
}

static void put_kin(params *p, const flat *f, int i, int *last)
{
    const pawl_family *family = f->ops[i].op->u.insert.family;
    if (!family) return;
    array_int8(p, (int)family->if_failed);
    array_int8(p, kin_of(f, &family->batch, i, last));
    for (int k = 0; k < family->parents_count; k++) array_int8(p, kin_of(f, &family->parents[k], i, last));
}

void pg_flat_families(params *p, const flat *f)
{
    const int *list = f->lists[FLAT_INSERTS], count = f->counts[FLAT_INSERTS];
    bool any = false;
    int last = 0;
    for (int i = 0; i < count && !any; i++) any = f->ops[list[i]].op->u.insert.family != NULL;
    if (!any) {
        for (int i = 0; i < FAMILY_COLUMNS; i++) pg_param_null(p);
        return;
    }
    pg_array_begin(p, OID_INT4);
    for (int i = 0; i < count; i++) {
        const pawl_family *family = f->ops[list[i]].op->u.insert.family;
        array_int4(p, family ? 2 + family->parents_count : 0);
    }
    pg_array_end(p);
    pg_array_begin(p, OID_INT8);
    for (int i = 0; i < count; i++) put_kin(p, f, list[i], &last);
    pg_array_end(p);
}

void pg_flat_batches(params *p, const flat *f)
{
    const int *list = f->lists[FLAT_BATCHES], count = f->counts[FLAT_BATCHES];
    if (count == 0) {
        for (int i = 0; i < BATCH_COLUMNS; i++) pg_param_null(p);
        return;
    }
    pg_array_begin(p, OID_INT8);
    for (int i = 0; i < count; i++) {
        const pawl_op *op = f->ops[list[i]].op;
        bool settles = op->kind == PAWL_OP_SETTLE;
        array_int8(p, list[i]);
        array_int8(p, settles ? ACT_SETTLE : (int)op->u.batch->act);
        array_int8(p, op->id);
        array_int8(p, settles ? op->u.settle.limit : op->u.batch->within);
    }
    pg_array_end(p);
    pg_array_begin(p, OID_TEXT);
    for (int i = 0; i < count; i++) {
        const pawl_op *op = f->ops[list[i]].op;
        pg_array_text(p, op->kind == PAWL_OP_BATCH ? op->u.batch->name : NULL);
        pg_array_text(p, op->by);
    }
    pg_array_end(p);
}

/* ---- questions ----------------------------------------------------------------------------------------------------------- */

static bool truth(const PGresult *from, int row, int column)
{
    return !PQgetisnull(from, row, column) && PQgetvalue(from, row, column)[0];
}

static pawl_relative relative_read(reading *r, const PGresult *from, int i)
{
    return (pawl_relative){.id = wire64(from, i, 0),
                           .batch = truth(from, i, 1),
                           .type = pg_read_text(r, from, i, 2),
                           .state = (pawl_state)wire64(from, i, 3),
                           .waits = truth(from, i, 4),
                           .held = truth(from, i, 5),
                           .if_failed = (pawl_if_failed)wire64(from, i, 6),
                           .result = pg_read_bytes(r, from, i, 7),
                           .result_type = pg_read_text(r, from, i, 8),
                           .result_ref = pg_read_text(r, from, i, 9),
                           .error = pg_read_text(r, from, i, 10)};
}

void pg_relatives_read(reading *r, pawl_relatives_query *f)
{
    params *p = &r->c->params;
    f->count = 0;
    f->more = false;
    if (!(f->relatives = pg_read_alloc(r, ((size_t)f->limit + 1) * sizeof *f->relatives))) return;
    pg_params_begin(p);
    pg_param_int8(p, f->of);
    pg_param_int4(p, (int32_t)f->relation);
    pg_param_int8(p, f->after);
    pg_param_int4(p, f->limit + 1);
    pg_param_bool(p, f->waited_for);
    PGresult *answer = pg_ask(r, SQL_relatives);
    int rows = answer ? PQntuples(answer) : 0;
    for (int i = 0; i < rows && i < f->limit; i++) f->relatives[f->count++] = relative_read(r, answer, i);
    f->more = rows > f->limit;
    PQclear(answer);
}

static pawl_batch_info batch_read(reading *r, const PGresult *from, int i)
{
    pawl_batch_info info = {.id = wire64(from, i, 0),
                            .name = pg_read_text(r, from, i, 1),
                            .within = wire64(from, i, 2),
                            .state = (pawl_state)wire64(from, i, 3),
                            .cancel_asked = truth(from, i, 4),
                            .unfinished = wire64(from, i, 5),
                            .succeeded = wire64(from, i, 6),
                            .failed = wire64(from, i, 7),
                            .cancelled = wire64(from, i, 8),
                            .created_us = wire64(from, i, 9),
                            .closed_us = wire64(from, i, 10),
                            .ended_us = wire64(from, i, 11)};
    info.total = info.unfinished + info.succeeded + info.failed + info.cancelled;
    return info;
}

static sql_name question_of(const pawl_query *query)
{
    if (query->kind == PAWL_QUERY_BATCHES) return SQL_batch_list;
    return query->id ? SQL_batch_get : SQL_batch_named;
}

bool pg_batches_read(reading *r, pawl_query *query)
{
    params *p = &r->c->params;
    bool one = query->kind == PAWL_QUERY_BATCH;
    int limit = one ? 1 : query->batch_filter->limit;
    query->batches_count = 0;
    query->batches_more = false;
    if (!(query->batches = pg_read_alloc(r, ((size_t)limit + 1) * sizeof *query->batches))) return true;
    pg_params_begin(p);
    if (one && !query->id) pg_param_text(p, query->name);
    else pg_param_int8(p, query->id ? query->id : INT64_MAX);
    if (!one) {
        pg_param_bool(p, query->batch_filter->unfinished);
        pg_param_int8(p, limit + 1);
    }
    PGresult *answer = pg_ask(r, question_of(query));
    if (!answer) return true;
    int rows = PQntuples(answer);
    for (int i = 0; i < rows && i < limit; i++) query->batches[query->batches_count++] = batch_read(r, answer, i);
    query->batches_more = rows > limit;
    PQclear(answer);
    return !one || rows > 0;
}

/* ---- for another store --------------------------------------------------------------------------------------------------- */

void pg_batches_dump(reading *r, pawl_dump *d)
{
    params *p = &r->c->params;
    pg_params_begin(p);
    pg_param_int8(p, d->after);
    pg_param_int8(p, d->limit);
    PGresult *answer = pg_ask(r, SQL_dump_batches);
    int rows = answer ? PQntuples(answer) : 0;
    d->batches = rows ? pg_read_alloc(r, (size_t)rows * sizeof *d->batches) : NULL;
    for (int i = 0; d->batches && i < rows; i++) {
        d->batches[d->count] = batch_read(r, answer, i);
        d->next = d->batches[d->count++].id;
    }
    d->more = rows == d->limit;
    PQclear(answer);
}
