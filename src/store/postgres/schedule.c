/* Schedules: SCHEDULE and STEP as the server gets them, and the questions about them. What happens is in functions/schedules.sql. */
#include "store/postgres/read.h"

/* ---- operations ---------------------------------------------------------------------------------------------------------- */

enum { FLAG_DROP = 1, FLAG_KEEP = 1, FLAG_WATCH = 2 }; /* see pawl_schedules_apply */

static void put_numbers(params *p, const int64_t *numbers, int count)
{
    for (int i = 0; i < count; i++) array_int8(p, numbers[i]);
}

static void put_schedule(params *p, int i, const pawl_op *op)
{
    const pawl_schedule_row *row = op->u.schedule->row;
    int flags = (op->u.schedule->drop ? FLAG_DROP : 0) | (row->watch ? FLAG_WATCH : 0);
    put_numbers(p,
                (int64_t[]){i, op->kind, row->version, flags, (int)row->off, row->anchor_us, row->next_us, row->occurrence_us, 0,
                            row->look_us, 0, 0},
                12);
}

static void put_step(params *p, int i, const pawl_op *op)
{
    const pawl_step *s = op->u.step;
    int flags = (s->keep ? FLAG_KEEP : 0) | (s->watch ? FLAG_WATCH : 0), task = i;
    put_numbers(p,
                (int64_t[]){i, op->kind, s->version, flags, (int)s->off, 0, s->next_us, s->occurrence_us, s->last_us, s->look_us,
                            (int)s->overlap, s->fates_count},
                12);
    for (int k = 0; k < s->fates_count; k++)
        put_numbers(p, (int64_t[]){s->fates[k].occurrence, s->fates[k].fires ? ++task : -1, s->fates[k].count}, 3);
}

static void put_texts(params *p, const pawl_op *op)
{
    bool steps = op->kind == PAWL_OP_STEP;
    const pawl_schedule_row *row = steps ? NULL : op->u.schedule->row;
    const pawl_step *s = steps ? op->u.step : NULL;
    pg_array_text(p, steps ? s->name : row->name);
    pg_array_text(p, steps ? NULL : row->after);
    pg_array_text(p, steps ? s->reason : row->reason);
    pg_array_text(p, op->by);
    pg_array_text(p, steps ? NULL : row->spec);
    for (int k = 0; steps && k < s->fates_count; k++) pg_array_text(p, s->fates[k].why);
}

static void put_payload(params *p, const pawl_op *op)
{
    pawl_bytes payload = op->kind == PAWL_OP_SCHEDULE ? op->u.schedule->row->payload : (pawl_bytes){0};
    if (payload.data) pg_array_bytes(p, payload.data, payload.len);
    else array_null(p);
}

void pg_flat_schedules(params *p, const flat *f)
{
    const int *list = f->lists[FLAT_SCHEDULES], count = f->counts[FLAT_SCHEDULES];
    if (count == 0) {
        for (int i = 0; i < SCHEDULE_COLUMNS; i++) pg_param_null(p);
        return;
    }
    pg_array_begin(p, OID_INT8);
    for (int i = 0; i < count; i++)
        (f->ops[list[i]].op->kind == PAWL_OP_STEP ? put_step : put_schedule)(p, list[i], f->ops[list[i]].op);
    pg_array_end(p);
    pg_array_begin(p, OID_TEXT);
    for (int i = 0; i < count; i++) put_texts(p, f->ops[list[i]].op);
    pg_array_end(p);
    pg_array_begin(p, OID_BYTEA);
    for (int i = 0; i < count; i++) put_payload(p, f->ops[list[i]].op);
    pg_array_end(p);
}

/* ---- questions ----------------------------------------------------------------------------------------------------------- */

enum { /* columns of pawl_schedule_whole, and what follows them */
       ID,
       NAME,
       AFTER,
       VERSION,
       OFF,
       REASON,
       ANCHOR,
       NEXT,
       OCCURRENCE,
       LAST,
       LOOK,
       WATCH,
       RUNS,
       FIRED,
       SKIPPED,
       SUCCEEDED,
       FAILED,
       OPEN,
       WAITING,
       LAST_TASK,
       CREATED,
       CHANGED,
       SPEC,
       PAYLOAD,
       NOW,
       TOLD
};

static bool truth(const PGresult *from, int row, int column)
{
    return !PQgetisnull(from, row, column) && PQgetvalue(from, row, column)[0];
}

static pawl_schedule_row row_read(reading *r, const PGresult *from, int i)
{
    return (pawl_schedule_row){.name = pg_read_text(r, from, i, NAME),
                               .spec = pg_read_text(r, from, i, SPEC),
                               .after = pg_read_text(r, from, i, AFTER),
                               .payload = pg_read_bytes(r, from, i, PAYLOAD),
                               .version = wire64(from, i, VERSION),
                               .off = (pawl_off)wire64(from, i, OFF),
                               .reason = pg_read_text(r, from, i, REASON),
                               .anchor_us = wire64(from, i, ANCHOR),
                               .next_us = wire64(from, i, NEXT),
                               .occurrence_us = wire64(from, i, OCCURRENCE),
                               .last_us = wire64(from, i, LAST),
                               .look_us = wire64(from, i, LOOK),
                               .watch = truth(from, i, WATCH),
                               .runs = wire64(from, i, RUNS),
                               .fired = wire64(from, i, FIRED),
                               .skipped = wire64(from, i, SKIPPED),
                               .succeeded = wire64(from, i, SUCCEEDED),
                               .failed = wire64(from, i, FAILED),
                               .open = wire64(from, i, OPEN),
                               .waiting = wire64(from, i, WAITING),
                               .last_task = wire64(from, i, LAST_TASK),
                               .created_us = wire64(from, i, CREATED),
                               .changed_us = wire64(from, i, CHANGED)};
}

static pawl_occurrence occurrence_read(reading *r, const PGresult *from, int i)
{
    return (pawl_occurrence){.occurrence = wire64(from, i, 1),
                             .state = (pawl_occurrence_state)wire64(from, i, 2),
                             .at_us = wire64(from, i, 3),
                             .task = wire64(from, i, 4),
                             .count = wire64(from, i, 5),
                             .why = pg_read_text(r, from, i, 6)};
}

/* The occurrences of some rows, which come in the order of `ids`. */
static void occurrences_read(reading *r, sql_name which, const int64_t *ids, pawl_schedule_row *rows, int count)
{
    PGresult *answer = pg_ask(r, which);
    int found = answer ? PQntuples(answer) : 0, at = 0;
    pawl_occurrence *all = found > 0 ? pg_read_alloc(r, (size_t)found * sizeof *all) : NULL;
    for (int i = 0; all && i < found; i++) {
        all[i] = occurrence_read(r, answer, i);
        while (at < count && ids[at] != wire64(answer, i, 0)) at++;
        if (at == count) break;
        if (rows[at].occurrences_count++ == 0) rows[at].occurrences = &all[i];
    }
    PQclear(answer);
}

/* Of those that have some. */
static void waiting_read(reading *r, const int64_t *ids, pawl_schedule_row *rows, int count)
{
    bool any = false;
    pg_params_begin(&r->c->params);
    pg_array_begin(&r->c->params, OID_INT8);
    for (int i = 0; i < count; i++) {
        if (rows[i].waiting > 0) array_int8(&r->c->params, ids[i]);
        any |= rows[i].waiting > 0;
    }
    pg_array_end(&r->c->params);
    if (any) occurrences_read(r, SQL_occurrences_waiting, ids, rows, count);
}

static void due_read(reading *r, pawl_due *due)
{
    due->count = 0;
    due->next_us = 0;
    due->more = false;
    due->now_us = 0;
    due->rows = pg_read_alloc(r, ((size_t)due->limit + 1) * sizeof *due->rows);
    int64_t *ids = pg_read_alloc(r, ((size_t)due->limit + 1) * sizeof *ids);
    if (!due->rows || !ids) return;
    pg_put_clock(r->s, &r->c->params);
    pg_param_int8(&r->c->params, due->limit);
    pg_param_int8(&r->c->params, (int64_t)due->bytes);
    PGresult *answer = pg_ask(r, SQL_schedules_due);
    int rows = answer ? PQntuples(answer) : 0;
    for (int i = 0; i < rows && !due->more && !due->next_us; i++) {
        due->now_us = wire64(answer, i, NOW);
        if (wire64(answer, i, LOOK) > due->now_us) {
            due->next_us = wire64(answer, i, LOOK);
        } else if (due->count == due->limit || !truth(answer, i, TOLD)) {
            due->more = true;
        } else {
            ids[due->count] = wire64(answer, i, ID);
            due->rows[due->count++] = row_read(r, answer, i);
        }
    }
    PQclear(answer);
    waiting_read(r, ids, due->rows, due->count);
}

static bool one_read(reading *r, pawl_query *query)
{
    query->schedules_count = 1;
    if (!(query->schedules = pg_read_alloc(r, sizeof *query->schedules))) return true;
    pg_put_clock(r->s, &r->c->params);
    pg_param_text(&r->c->params, query->name);
    PGresult *answer = pg_ask(r, SQL_schedule_get);
    if (!answer) return true;
    bool found = PQntuples(answer) > 0;
    int64_t id = found ? wire64(answer, 0, ID) : 0;
    if (found) {
        query->schedules[0] = row_read(r, answer, 0);
        query->now_us = wire64(answer, 0, NOW);
    }
    PQclear(answer);
    if (!found) return false;
    pg_params_begin(&r->c->params);
    pg_param_int8(&r->c->params, id);
    occurrences_read(r, SQL_occurrences, &id, query->schedules, 1);
    return true;
}

static void list_read(reading *r, pawl_query *query)
{
    const pawl_schedule_filter *f = query->schedule_filter;
    params *p = &r->c->params;
    query->schedules_count = 0;
    query->schedules_more = false;
    if (!(query->schedules = pg_read_alloc(r, ((size_t)f->limit + 1) * sizeof *query->schedules))) return;
    pg_params_begin(p);
    pg_param_text(p, f->cursor ? f->cursor : "");
    pg_param_text(p, f->prefix ? f->prefix : "");
    pg_param_bool(p, f->enabled);
    pg_param_bool(p, f->off);
    pg_param_int8(p, f->limit + 1);
    PGresult *answer = pg_ask(r, SQL_schedules_list);
    int rows = answer ? PQntuples(answer) : 0;
    for (int i = 0; i < rows && i < f->limit; i++) query->schedules[query->schedules_count++] = row_read(r, answer, i);
    query->schedules_more = rows > f->limit;
    PQclear(answer);
}

/* The store's time, where no row tells it. */
static void now_read(reading *r, pawl_query *query)
{
    pg_put_clock(r->s, &r->c->params);
    PGresult *answer = pg_ask(r, SQL_read_now);
    if (answer) query->now_us = wire64(answer, 0, 0);
    PQclear(answer);
}

bool pg_schedules_read(reading *r, pawl_query *query)
{
    if (query->kind == PAWL_QUERY_SCHEDULE) return one_read(r, query);
    if (query->kind == PAWL_QUERY_SCHEDULES) {
        now_read(r, query);
        list_read(r, query);
        return true;
    }
    due_read(r, query->due);
    if (!query->due->now_us) now_read(r, query);
    if (!query->due->now_us) query->due->now_us = query->now_us;
    return true;
}

/* ---- for another store --------------------------------------------------------------------------------------------------- */

#define DUMP_MOST 100

void pg_schedules_dump(reading *r, pawl_dump *d)
{
    params *p = &r->c->params;
    int limit = d->limit < DUMP_MOST ? d->limit : DUMP_MOST;
    int64_t *ids = pg_read_alloc(r, ((size_t)limit + 1) * sizeof *ids);
    d->schedules = pg_read_alloc(r, ((size_t)limit + 1) * sizeof *d->schedules);
    if (!ids || !d->schedules) return;
    pg_params_begin(p);
    pg_param_int8(p, d->after);
    pg_param_int8(p, limit);
    PGresult *answer = pg_ask(r, SQL_dump_schedules);
    for (int i = 0; answer && i < PQntuples(answer); i++) {
        d->next = ids[d->count] = wire64(answer, i, ID);
        d->schedules[d->count++] = row_read(r, answer, i);
    }
    PQclear(answer);
    d->more = d->count == limit;
    if (d->count == 0) return;
    pg_params_begin(p);
    pg_array_begin(p, OID_INT8);
    for (int i = 0; i < d->count; i++) array_int8(p, ids[i]);
    pg_array_end(p);
    occurrences_read(r, SQL_dump_occurrences, ids, d->schedules, d->count);
}
